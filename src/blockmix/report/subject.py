"""Subject: what a report is about: a fitted model, its rows, and what the user knows of them.

They come in as they were given; checked rows, probabilities and labels go out, each computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockmix._types import FloatArray, IntArray
from blockmix.covariance import BlockDiagonalCovariance
from blockmix.mixture import Mixture
from blockmix.selection import SelectionTable


@dataclass(frozen=True, eq=False)
class Subject:
    """What a report is about.

    Attributes
    ----------
    model : Mixture or BlockDiagonalCovariance
    data : array-like of shape (N, p) or None
        The rows as they were given.
    row_names : list of str or None
        None for rows without names of their own.
    labels : array of N str or None
        Known classes.
    table : SelectionTable or None
    """

    model: Any
    data: Any = None
    row_names: list[str] | None = None
    labels: NDArray[Any] | None = None
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


def row_names_of(X: Any, given: Sequence[object] | None) -> list[str] | None:
    """Names of the rows: those given, or the index of a pandas frame that is more than a count."""
    if given is not None:
        return [str(name) for name in given]
    index = getattr(X, "index", None)
    if index is None or callable(index) or type(index).__name__ == "RangeIndex":
        return None
    return [str(name) for name in index]


def check_subject(model: Any) -> None:
    """Refuse what no report is made of."""
    if isinstance(model, (Mixture, BlockDiagonalCovariance)):
        return
    hint = ": give its mixture_" if hasattr(model, "mixture_") else ""
    raise TypeError(
        f"a report is made of a mixture such as GaussianBiclustering or of BlockDiagonalCovariance, "
        f"not of {type(model).__name__}{hint}"
    )
