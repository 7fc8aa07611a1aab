"""Subject: what a report is about: a fitted model, its rows, and what the user knows of them.

They come in as they were given; checked rows, probabilities and labels go out, each computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from blockmix.estimators.base import Mixture
from blockmix.estimators.covariance import BlockDiagonalCovariance
from blockmix.selection.table import SelectionTable
from blockmix.structure.types import FloatArray, IntArray

# How missing values of Python, NumPy and pandas are written: pandas' own cannot be compared with anything.
_MISSING = dict.fromkeys(("None", "nan", "NaT", "<NA>"), "")


@dataclass(frozen=True, eq=False)
class Classes:
    """Known classes of the rows: their names, and the number of each row's class, -1 where none is known."""

    names: list[str]
    codes: IntArray

    @classmethod
    def of(cls, labels: ArrayLike) -> Classes:
        """Classes of one label per row; None, NaN and an empty text are no label.

        Examples
        --------
        >>> known = Classes.of(["b", None, "a", float("nan"), "b"])
        >>> known.names, known.codes.tolist()
        (['a', 'b'], [1, -1, 0, -1, 1])
        """
        given = np.asarray(labels, dtype=object)
        if given.ndim != 1:
            raise ValueError(f"labels has shape {given.shape}: give one label per row")
        texts = [label if isinstance(label, str) else _MISSING.get(str(label), str(label)) for label in given.tolist()]
        names = sorted({*texts} - {""})
        number = {name: k for k, name in enumerate(names)} | {"": -1}
        return cls(names, np.array([number[text] for text in texts], dtype=np.intp))


@dataclass(frozen=True, eq=False)
class Subject:
    """What a report is about.

    Attributes
    ----------
    model : Mixture or BlockDiagonalCovariance
    data : array-like of shape (N, p) or None
        The rows as they were given.
    row_names : sequence of N names or None
        None for rows without names of their own.
    classes : Classes or None
        What is known of the rows.
    table : SelectionTable or None
    """

    model: Any
    data: Any = None
    row_names: Sequence[object] | None = None
    classes: Classes | None = None
    table: SelectionTable | None = None

    @cached_property
    def X(self) -> FloatArray | None:
        """The rows, checked by the model."""
        return None if self.data is None else self.model._rows(self.data)

    @cached_property
    def probabilities(self) -> FloatArray | None:
        """Probability of each component for each row, shape (N, G); None without rows."""
        if self.X is None:
            return None
        return self.model.predict_proba(self.data) if self.is_mixture else np.ones((len(self.X), 1))

    @cached_property
    def row_labels(self) -> IntArray | None:
        """Component of each row; those of the fit without rows, and None where neither is known."""
        if self.probabilities is None:
            return getattr(self.model, "row_labels_", None)
        return np.asarray(self.probabilities.argmax(axis=1))

    @property
    def n_rows(self) -> int:
        """Number of rows that are known."""
        return 0 if self.row_labels is None else len(self.row_labels)

    @property
    def is_mixture(self) -> bool:
        """Whether the model has row clusters."""
        return isinstance(self.model, Mixture)

    @property
    def column_labels(self) -> IntArray:
        """Group of each column in each component, shape (G, p)."""
        return np.atleast_2d(self.model.column_labels_)


def row_names_of(X: Any, given: Sequence[object] | None) -> Sequence[object] | None:
    """Names of the rows: those given, or the index of a pandas frame that is more than a count."""
    if given is not None:
        return given
    index = getattr(X, "index", None)
    if index is None or callable(index) or type(index).__name__ == "RangeIndex":
        return None
    named: Sequence[object] = index
    return named


def check_subject(model: Any) -> None:
    """Refuse what no report is made of."""
    if isinstance(model, (Mixture, BlockDiagonalCovariance)):
        return
    hint = ": give its mixture_" if hasattr(model, "mixture_") else ""
    raise TypeError(
        f"a report is made of a mixture such as GaussianBiclustering or of BlockDiagonalCovariance, "
        f"not of {type(model).__name__}{hint}"
    )
