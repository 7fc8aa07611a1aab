"""Grouping and Rule: the two interfaces to implement for another way to find column groups, or their number.

A grouping splits the columns of a covariance S into K groups, a rule chooses K; both return a `Proposal`. A grouping
may also have a tree (`TreeGrouping`), which rules and figures use. Classes are never compared, so a user's grouping is
treated like the built-in ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Protocol, TypeGuard, runtime_checkable

from blockmix.blocks.moments import Covariance
from blockmix.blocks.shapes import BlockModel
from blockmix.partition import FloatArray, Partition


@dataclass(frozen=True, eq=False)
class Proposal:
    """Column groups found by a grouping or a rule.

    Parameters
    ----------
    partition : Partition
    linkage : array of shape (p − 1, 4), optional
        The tree that the groups were cut from, in SciPy's format.
    converged : bool
        Whether the search ended by itself and not at its iteration limit.
    shapes : tuple of K BlockModel
        The shape of the block of each group; empty if all are full.
    common : float
        A correlation that all columns share and that was set aside to find the groups; 0 if there is none.
    """

    partition: Partition
    linkage: FloatArray | None = None
    converged: bool = True
    shapes: tuple[BlockModel, ...] = ()
    common: float = 0.0


@runtime_checkable
class Grouping(Protocol):
    """Finds K column groups from a covariance."""

    def group(self, S: FloatArray, n_groups: int, n_rows: float) -> Proposal:
        """Split the columns of S, shape (p, p), estimated from n_rows rows, into exactly n_groups groups."""
        ...


class TreeGrouping(Grouping, Protocol):
    """A grouping that cuts a tree: `group` returns the tree after its first p − K merges.

    It is given a `GramMatrix` in place of an array only if it has an attribute `takes_rows` that is true.
    """

    def tree(self, R: Covariance) -> FloatArray:
        """Linkage matrix of the columns of a correlation matrix in SciPy's format, shape (p − 1, 4)."""
        ...

    def distances(self, R: Covariance) -> FloatArray:
        """Distances between the columns that the tree is built from, shape (p, p)."""
        ...


# By attribute: isinstance with a runtime-checkable protocol takes 5 to 9 µs, an eighth of a small regroup.
def has_tree(grouping: object) -> TypeGuard[TreeGrouping]:
    """Whether a grouping cuts a tree."""
    return hasattr(grouping, "tree") and hasattr(grouping, "distances")


@runtime_checkable
class Rule(Protocol):
    """Chooses the number of groups."""

    def choose(
        self,
        S: FloatArray,
        n_rows: float,
        grouping: Grouping,
        squares: FloatArray | None = None,
        price: float | None = None,
    ) -> Proposal:
        """Choose the number of groups of S, and find them with the grouping.

        Parameters
        ----------
        S : array of shape (p, p)
            Covariance estimated from n_rows rows.
        n_rows : float
        grouping : Grouping
        squares : array of shape (N, p), optional
            Squared standardized entries of the rows times √(w/Σw), if the rows are available: squaresᵀ squares is the
            matrix of mean(y_i² y_j²), which measures how heavy the tails are.
        price : float, optional
            Log-likelihood that one covariance parameter must earn; ½ log n_rows by default. A rule that does not price
            parameters ignores it.
        """
        ...


class GroupingWarning(UserWarning):
    """The column groups are not what a user would expect: one group, no groups, or a search that did not converge."""


def check_n_groups(n_groups: object, p: int, name: str = "n_groups") -> int:
    """Return n_groups as an int if p columns can be split into that many groups, or raise a ValueError."""
    if isinstance(n_groups, bool) or not isinstance(n_groups, Integral):
        raise ValueError(f"{name}={n_groups!r} must be a whole number of column groups")
    number = int(n_groups)
    if number < 1:
        raise ValueError(f"{name}={number} must be at least 1")
    if number > p:
        columns = f"{p} columns" if p > 1 else "single column (n_features=1)"
        raise ValueError(f"{name}={number} exceeds the {columns} of X")
    return number
