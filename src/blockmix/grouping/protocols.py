"""Proposal: what a grouping answers, and the two seams (grouping, rule) that third parties may implement.

A covariance S and a number of groups K come in; a partition goes out, with the tree it was cut from where there is
one and with whether the search converged.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Protocol, runtime_checkable

from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray


@dataclass(frozen=True, eq=False)
class Proposal:
    """A partition, the linkage matrix it was cut from (SciPy's format) or None, and whether the search converged."""

    partition: Partition
    linkage: FloatArray | None = None
    converged: bool = True


@runtime_checkable
class Grouping(Protocol):
    """Finds K column groups from a covariance."""

    def group(self, S: FloatArray, n_groups: int, n_rows: float) -> Proposal:
        """Split the columns of S, shape (p, p), estimated from n_rows rows, into exactly n_groups groups."""
        ...


@runtime_checkable
class Rule(Protocol):
    """Chooses the number of groups."""

    def choose(self, S: FloatArray, n_rows: float, grouping: Grouping, squares: FloatArray | None = None) -> Proposal:
        """Choose K from S, estimated from n_rows rows.

        `squares`, shape (N, p), are the squared standardized entries of the rows times √(w/Σw), where the rows are at
        hand: squaresᵀ squares is the matrix of mean(y_i² y_j²), which tells how heavy the tails are.
        """
        ...


class GroupingWarning(UserWarning):
    """The column groups are not what a user would expect: one group, no groups, or a search that did not converge."""


def check_n_groups(n_groups: object, p: int, name: str = "n_groups") -> int:
    """Return n_groups as an int if it is possible for p columns, else say what is wrong with it."""
    if isinstance(n_groups, bool) or not isinstance(n_groups, Integral):
        raise ValueError(f"{name}={n_groups!r} must be a whole number of column groups")
    number = int(n_groups)
    if number < 1:
        raise ValueError(f"{name}={number} must be at least 1")
    if number > p:
        columns = f"{p} columns" if p > 1 else "single column (n_features=1)"
        raise ValueError(f"{name}={number} exceeds the {columns} of X")
    return number
