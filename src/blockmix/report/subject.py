"""Subject: the fitted model and the rows that a page is about, checked and computed once.

Also the form of its numbers on the page: rounded or with grouped digits, and pictures as bytes in base64.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.preprocessing import StandardScaler

from blockmix.blocks.blocks import Blocks
from blockmix.estimators.answer import Centers
from blockmix.estimators.stability import Stability
from blockmix.partition import FloatArray, IntArray

_MISSING = {"None", "nan", "NaN", "NaT", "<NA>"}  # by text: pandas.NA cannot be compared with anything
_FEW = 20  # values of a trait that is neither numbers nor dates, unless it has half as many rows
MAX_ROWS = 20_000  # with more rows none is listed by name, and pictures show a sample


@dataclass(frozen=True, eq=False)
class Subject:
    """What a page is about; `subject_of` builds it.

    Attributes
    ----------
    model : Mixture or BlockDiagonalCovariance
    covariances : sequence of Blocks
        One for each component, or a single one that all components share.
    column_labels : array of shape (G, p)
        Group of each column in each component.
    centers : Centers or None
        None for a model without components.
    criteria : dict or None
        Information criteria of a mixture for the rows.
    X : array of shape (N, p) or None
        The rows, validated by the model.
    z : array of shape (N, G) or None
        Probability of each component for each row.
    row_labels : array of shape (N,) or None
        Component of each row; without rows that of the fit.
    sample : array of shape (n,)
        Rows that pictures are drawn from: all, or `MAX_ROWS` evenly spaced ones.
    Z : array of shape (n, p) or None
        The sample in standard deviations within components from the overall mean, with missing values filled in.
    row_names : sequence of N names or None
    traits : list of (name, values, codes)
        Properties of the rows: their sorted values as text, and the index of each row's value, −1 if unknown.
    stability : Stability or None
    """

    model: Any
    covariances: Sequence[Blocks]
    column_labels: IntArray
    centers: Centers | None
    criteria: dict[str, float] | None
    X: FloatArray | None
    z: FloatArray | None
    row_labels: IntArray | None
    sample: IntArray
    Z: FloatArray | None
    row_names: Sequence[object] | None
    traits: list[tuple[str, list[str], IntArray]]
    stability: Stability | None


def subject_of(
    model: Any,
    data: Any = None,
    *,
    traits: Mapping[str, Any] | None = None,
    row_names: Sequence[object] | None = None,
    stability: Stability | None = None,
) -> Subject:
    """Check the rows, traits and names that `write_report` was given and compute what several sections need."""
    centers = Centers.of(model) if hasattr(model, "weights_") else None
    criteria, X, z, Z, row_labels = None, None, None, None, getattr(model, "row_labels_", None)
    if data is not None:
        X = model._array(data)
        z, filled = np.ones((len(X), 1), dtype=X.dtype), X
        if centers is not None:
            z, criteria = model.predict_proba(data), model._criteria(model._sums(data))
        row_labels = z.argmax(axis=1)
        if np.isnan(X).any():  # a missing value is what the model expects there, or the mean of its column
            expected = model.impute(data) if hasattr(model, "impute") else np.nanmean(X, axis=0)
            filled = np.where(np.isnan(X), expected, X).astype(X.dtype)
        powers = getattr(getattr(model, "_parameters", None), "powers", None)
        if powers is not None:  # pictures are of the space of means and covariances
            X, filled = (powers.of(values).astype(values.dtype) for values in (X, filled))
        if centers is None:
            Z = StandardScaler().fit_transform(filled.astype(float))
        else:
            Z = (filled - centers.overall) / centers.scale
    index = getattr(data, "index", None)
    if row_names is None and not callable(index) and type(index).__name__ != "RangeIndex":
        row_names = index  # of a pandas frame, unless it just counts
    N = 0 if row_labels is None else len(row_labels)
    shown = [trait_of(str(name), given) for name, given in ({} if traits is None else traits).items()]
    for name, given in [("row_names", row_names), *((name, codes) for name, _, codes in shown)]:
        if given is not None and len(given) != N:
            raise ValueError(f"{name} has {len(given)} entries for {N} rows: give one per row")
    sample = np.unique(np.linspace(0, N - 1, min(N, MAX_ROWS)).astype(int))
    covariances: Any = (model.blocks_,) if centers is None else model.blocks_
    covariances = covariances[:1] if getattr(model, "shared_covariance", False) else covariances
    labels, Z = np.atleast_2d(model.column_labels_), None if Z is None else Z[sample]
    shown = list(filter(is_told, shown))
    return Subject(
        model, covariances, labels, centers, criteria, X, z, row_labels, sample, Z, row_names, shown, stability
    )


def trait_of(name: str, given: ArrayLike) -> tuple[str, list[str], IntArray]:
    """Name, values and codes of a property of the rows; None, NaN and an empty string mean unknown.

    Examples
    --------
    >>> name, values, codes = trait_of("sex", ["m", None, "f", float("nan"), "m"])
    >>> values, codes.tolist()
    (['f', 'm'], [1, -1, 0, -1, 1])
    """
    cells = np.asarray(given, dtype=object)
    if cells.ndim != 1:
        raise ValueError(f"{name} has shape {cells.shape}: give one value per row")
    texts = np.array(["" if str(cell) in _MISSING else str(cell) for cell in cells.tolist()])
    values, codes = np.unique(texts, return_inverse=True)
    unknown = int(len(values) > 0 and values[0] == "")
    return name, values[unknown:].tolist(), codes - unknown


def is_told(trait: tuple[str, list[str], IntArray]) -> bool:
    """Whether a property says something of groups of rows: not only their names, or one value."""
    _, values, codes = trait
    for kind in (float, "datetime64[s]"):
        with suppress(ValueError):
            return len(np.array(values, dtype=kind)) > 0
    return 0 < len(values) <= max(_FEW, len(codes) / 2)


def short(text: str, max_length: int = 120) -> str:
    """The text, cut to `max_length` characters: row names may be whole documents."""
    return text if len(text) <= max_length else text[: max_length - 1] + "…"


def grouped(number: float, digits: int = 0) -> str:
    """The number with narrow no-break spaces between thousands and a true minus sign, so that no line breaks in it."""
    return f"{number:,.{digits}f}".replace(",", "\u202f").replace("-", "−")


def finite(value: float, digits: int = 3) -> float | None:
    """The number rounded, None if it is not finite."""
    return round(float(value), digits) if np.isfinite(value) else None


def encoded(values: FloatArray, limit: float = 1.0) -> str:
    """One byte per value, row by row: round(127 · value / limit) + 127, clipped at ± limit; NaN is 255."""
    levels = np.rint(np.clip(values / limit, -1, 1) * 127) + 127
    return b64encode(np.where(np.isnan(levels), 255, levels).astype(np.uint8).tobytes()).decode("ascii")


def fractions(values: FloatArray) -> str:
    """Numbers from 0 to 1 as 16 bits each, little-endian: round(65535 · value)."""
    return b64encode(np.rint(np.clip(values, 0, 1) * 65535).astype("<u2").tobytes()).decode("ascii")
