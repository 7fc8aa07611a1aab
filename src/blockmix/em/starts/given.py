"""Given starts: labels or responsibilities from the user, checked.

An array of shape (N,) or (N, G) comes in; responsibilities z, shape (N, G), go out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from blockmix.structure.types import FloatArray, IntArray

_ROUNDING = 1e-5  # by how much given responsibilities may miss a sum of one: float32 arithmetic stays well below


def one_hot(labels: IntArray, n_components: int, dtype: np.dtype[np.floating]) -> FloatArray:
    """Hard responsibilities (N, G) from labels (N,)."""
    z = np.zeros((len(labels), n_components), dtype=dtype)
    z[np.arange(len(labels)), labels] = 1
    return z


@dataclass(frozen=True, eq=False)
class OneHot:
    """Hard responsibilities (N, G) that are held as labels, one small number per row, and written out by chunks."""

    codes: IntArray
    n_components: int
    dtype: np.dtype[np.floating]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and components."""
        return len(self.codes), self.n_components

    def __getitem__(self, place: slice) -> FloatArray:
        return one_hot(self.codes[place], self.n_components, self.dtype)


def given(init: ArrayLike, n_rows: int, n_components: int, dtype: np.dtype[np.floating]) -> FloatArray | OneHot:
    """Responsibilities from an array of labels or responsibilities, checked."""
    found = np.asarray(init)
    if found.shape == (n_rows,):
        small = np.min_scalar_type(n_components)
        return OneHot(_codes(found, n_components).astype(small), n_components, np.dtype(dtype))
    if found.shape == (n_rows, n_components):
        return _from_responsibilities(found, dtype)
    shapes = f"labels of shape ({n_rows},) or responsibilities of shape ({n_rows}, {n_components})"
    raise ValueError(f"init has shape {found.shape}: give {shapes}, or a name")


def _codes(labels: np.ndarray, n_components: int) -> IntArray:
    """Labels as numbers from 0 to G − 1."""
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        row = int(np.argmin(np.isfinite(labels)))
        raise ValueError(f"label {labels[row]} of row {row} in init is no label: give every row an integer or a name")
    values, codes = np.unique(labels, return_inverse=True)
    if len(values) != n_components:
        raise ValueError(f"init has {len(values)} different labels, n_components is {n_components}: make them equal")
    return np.asarray(codes)


def _from_responsibilities(init: np.ndarray, dtype: np.dtype[np.floating]) -> FloatArray:
    try:
        z: FloatArray = init.astype(float)
    except (TypeError, ValueError):
        raise ValueError(f"init holds {init.dtype}, not numbers: give responsibilities between 0 and 1") from None
    for wrong, reason in ((~np.isfinite(z), "not finite"), (z < 0, "negative")):
        if wrong.any():
            row, g = np.argwhere(wrong)[0]
            raise ValueError(f"init[{row}, {g}] is {z[row, g]:g}, {reason}: give responsibilities between 0 and 1")
    sums = z.sum(axis=1)
    row = int(np.argmax(np.abs(sums - 1)))
    if abs(sums[row] - 1) > _ROUNDING:
        raise ValueError(f"row {row} of init sums to {sums[row]:g}: divide each row of responsibilities by its sum")
    z /= sums[:, None]
    return z.astype(dtype)
