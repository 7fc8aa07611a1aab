"""Grouping: how column groups are found in a covariance, by default with a tree of the columns (paper, section 2.4).

A grouping splits the columns of a covariance S into K groups, a rule chooses K; both return a `Proposal`. Write your
own with one method, `Grouping.group` or `Rule.choose`. `HierarchicalGrouping` cuts a tree on the absolute correlations.
Its distance 1 − |R| costs O(p²) once R is known, and with many groups it recovers more of them than the paper's l2
distance between rows of |R|.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Protocol, runtime_checkable

import numpy as np
from sklearn.base import BaseEstimator

from blockmix.blocks.blocks import Layout
from blockmix.blocks.moments import Covariance, as_matrix
from blockmix.blocks.shapes import FULL, BlockModel
from blockmix.partition import BoolArray, FloatArray, IntArray, Partition

LINKAGES = ("average", "single", "complete")
DISTANCES = ("correlation", "profile")


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
    common : array of shape (p, q) or None
        Loadings of the columns on common factors, which were taken out to find the groups.
    """

    partition: Partition
    linkage: FloatArray | None = None
    converged: bool = True
    shapes: tuple[BlockModel, ...] = ()
    common: FloatArray | None = None


@runtime_checkable
class Grouping(Protocol):
    """Finds K column groups from a covariance.

    One that cuts a tree, as `HierarchicalGrouping` does, has the methods `tree` and `distances` too.
    """

    def group(self, S: FloatArray, n_groups: int, n_rows: float) -> Proposal:
        """Split the columns of S, shape (p, p), estimated from n_rows rows, into exactly n_groups groups."""


@runtime_checkable
class Rule(Protocol):
    """Chooses the number of groups."""

    def choose(self, S: FloatArray, n_rows: float, grouping: Grouping, price: float | None = None) -> Proposal:
        """Choose the number of groups of S, and find them with the grouping.

        Parameters
        ----------
        S : array of shape (p, p)
            Covariance estimated from n_rows rows.
        n_rows : float
        grouping : Grouping
        price : float, optional
            Log-likelihood that one covariance parameter must earn; ½ log n_rows by default. A rule that does not price
            parameters ignores it.

        A parameter `remaining` of a rule is True where S is what common factors leave.
        """


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


@dataclass(eq=False, repr=False)
class HierarchicalGrouping(BaseEstimator):
    """Agglomerative grouping of columns.

    Parameters
    ----------
    linkage : {"average", "single", "complete"}
        Distance between two groups: mean, smallest or largest distance between their columns.
    distance : {"correlation", "profile"}
        ``"correlation"`` is 1 − |r_ij|. ``"profile"`` is the paper's l2 distance between rows i and j of |R|; it is
        better if most correlations are weak, as between the terms of documents.

    Examples
    --------
    >>> S = np.array([[1.0, -0.9, 0.1], [-0.9, 1.0, 0.0], [0.1, 0.0, 1.0]])
    >>> HierarchicalGrouping().group(S, 2).partition.labels
    array([0, 0, 1])
    """

    linkage: str = "average"
    distance: str = "correlation"

    def group(self, S: Covariance, n_groups: int, n_rows: float = np.inf) -> Proposal:
        """Cut the tree of S into exactly n_groups groups; n_rows is not used."""
        n_groups = check_n_groups(n_groups, len(S))
        tree = self.tree(as_matrix(S).correlation())
        return Proposal(cut(tree, n_groups), tree)

    def tree(self, R: Covariance) -> FloatArray:
        """Linkage matrix of the columns of a correlation matrix in SciPy's format, shape (p − 1, 4)."""
        from blockmix.grouping import kernels  # loads Numba

        if self.linkage not in LINKAGES:
            raise ValueError(f"linkage={self.linkage!r} must be one of {', '.join(LINKAGES)}")
        tree: FloatArray = kernels.linkage(self.distances(R), LINKAGES.index(self.linkage))
        return tree

    def distances(self, R: Covariance) -> FloatArray:
        """Distances between the columns in double precision, shape (p, p)."""
        if self.distance not in DISTANCES:
            raise ValueError(f"distance={self.distance!r} must be one of {', '.join(DISTANCES)}")
        # In place as far as possible: with many columns these matrices are the peak of the memory.
        strength: FloatArray = as_matrix(R).magnitudes()
        if self.distance == "correlation":
            return np.subtract(1, strength, out=strength)
        squares = np.einsum("ij,ij->i", strength, strength)
        squared = strength @ strength.T
        squared *= -2
        squared += squares
        squared += squares[:, None]
        return np.sqrt(np.maximum(squared, 0, out=squared), out=squared)


def layout_of(proposal: Proposal) -> Layout:
    """Where the proposed blocks lie, and their shapes."""
    full = all(model.name == FULL.name for model in proposal.shapes)
    return Layout((proposal.partition,), () if full else (proposal.shapes,))


def tree_of(grouping: Any) -> Any:
    """Return the grouping itself if it cuts a tree, else the default hierarchical grouping."""
    return grouping if hasattr(grouping, "tree") else HierarchicalGrouping()


def cut(tree: FloatArray, n_groups: int) -> Partition:
    """Partition after the first p − K merges of a tree: exactly K groups, even with ties."""
    return topmost(tree, np.arange(len(tree)) <= len(tree) - n_groups)


def topmost(tree: FloatArray, accepted: BoolArray) -> Partition:
    """Partition into the topmost accepted merges of a tree; a column under none of them stays alone."""
    p = len(tree) + 1
    member, inside = list(range(2 * p - 1)), [False] * p + accepted.tolist()
    children = tree[:, :2].astype(np.intp).tolist()
    for k in range(2 * p - 2, p - 1, -1):
        if inside[k]:
            # From the top down a node passes its label on, so that a leaf ends up with that of its topmost merge.
            left, right = children[k - p]
            member[left] = member[right] = member[k]
            inside[left] = inside[right] = True
    return Partition(member[:p])


def leaf_order(tree: FloatArray) -> IntArray:
    """Columns in the order of the leaves of a tree, the larger branch of each merge first, shape (p,)."""
    from blockmix.grouping.kernels import spans  # loads Numba

    order: IntArray = spans(tree)[0]
    return order
