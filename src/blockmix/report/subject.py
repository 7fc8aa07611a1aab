"""Subject of a report: a fitted model, its rows, and what is known about them, each checked and computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from blockmix.estimators.covariance import BlockDiagonalCovariance
from blockmix.estimators.mixture import Mixture
from blockmix.estimators.stability import Stability
from blockmix.estimators.topics import TopicBiclustering
from blockmix.partition import FloatArray, IntArray
from blockmix.selection import SelectionTable

MOST_ROWS = 20_000  # of more rows none is listed by name, and pictures show a sample
# Missing values of Python, NumPy and pandas by their text: pandas.NA cannot be compared with anything.
_MISSING = dict.fromkeys(("None", "nan", "NaT", "<NA>"), "")


@dataclass(frozen=True, eq=False)
class Classes:
    """Known classes of the rows: their names, and the index of each row's class, -1 if unknown."""

    names: list[str]
    codes: IntArray

    @classmethod
    def of(cls, labels: ArrayLike) -> Classes:
        """Classes from one label per row; None, NaN and an empty string mean unknown.

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
    """A fitted model and what is known about its rows.

    Attributes
    ----------
    model : Mixture or BlockDiagonalCovariance
    data : array-like of shape (N, p) or None
        The rows as given.
    row_names : sequence of N names or None
    classes : Classes or None
        Known classes of the rows.
    table : SelectionTable or None
        The comparison that the model was chosen by.
    stability : Stability or None
        How often groups and clusters come back in resamples.
    """

    model: Any
    data: Any = None
    row_names: Sequence[object] | None = None
    classes: Classes | None = None
    table: SelectionTable | None = None
    stability: Stability | None = None

    @cached_property
    def X(self) -> FloatArray | None:
        """The rows, validated by the model."""
        return None if self.data is None else self.model._rows(self.data)

    @cached_property
    def filled(self) -> FloatArray | None:
        """The rows with missing values replaced by what the model expects there, or by the mean of the column."""
        if self.X is None or not np.isnan(self.X).any():
            return self.X
        if not hasattr(self.model, "impute"):
            return np.where(np.isnan(self.X), np.nanmean(self.X, axis=0), self.X)
        return np.asarray(self.model.impute(self.data), dtype=self.X.dtype)

    @cached_property
    def probabilities(self) -> FloatArray | None:
        """Probability of each component for each row, shape (N, G); None without rows."""
        if self.X is None:
            return None
        return self.model.predict_proba(self.data) if self.is_mixture else np.ones((len(self.X), 1))

    @cached_property
    def row_labels(self) -> IntArray | None:
        """Component of each row; without rows that of the fit, None if neither is known."""
        if self.probabilities is None:
            return getattr(self.model, "row_labels_", None)
        return np.asarray(self.probabilities.argmax(axis=1))

    @property
    def n_rows(self) -> int:
        """Number of rows with a component; 0 if none is known."""
        return 0 if self.row_labels is None else len(self.row_labels)

    @property
    def is_mixture(self) -> bool:
        """Whether the model has row clusters."""
        return isinstance(self.model, Mixture)

    @property
    def is_shared(self) -> bool:
        """Whether all of several components have one covariance."""
        return self.is_mixture and len(self.model.blocks_) > 1 and len(set(map(id, self.model.blocks_))) == 1

    @property
    def is_listed(self) -> bool:
        """Whether the page lists each row."""
        return 0 < self.n_rows <= MOST_ROWS

    @property
    def sample(self) -> IntArray:
        """Rows that pictures are drawn from: all, or `MOST_ROWS` evenly spaced ones."""
        return np.unique(np.linspace(0, self.n_rows - 1, min(self.n_rows, MOST_ROWS)).astype(int))

    @property
    def column_labels(self) -> IntArray:
        """Group of each column in each component, shape (G, p)."""
        return np.atleast_2d(self.model.column_labels_)


def row_names_of(X: Any, given: Sequence[object] | None) -> Sequence[object] | None:
    """Row names: the given ones, or the index of a pandas frame unless it just counts."""
    if given is not None:
        return given
    index = getattr(X, "index", None)
    if index is None or callable(index) or type(index).__name__ == "RangeIndex":
        return None
    named: Sequence[object] = index
    return named


def check_subject(model: Any) -> None:
    """Raise a TypeError for models without a report."""
    if not isinstance(model, (Mixture, BlockDiagonalCovariance)):
        hint = ": call write_topics" if isinstance(model, TopicBiclustering) else ""
        raise TypeError(
            "write_report takes a mixture such as GaussianBiclustering, or a BlockDiagonalCovariance, "
            f"not a {type(model).__name__}{hint}"
        )
