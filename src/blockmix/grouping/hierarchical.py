"""HierarchicalGrouping: column groups from a tree on the absolute correlations (paper, section 2.4).

A covariance is turned into a tree in SciPy's format, which is cut into exactly K groups. The default distance 1 − |R|
costs O(p²) once R is known. With many groups it recovers more of them than the paper's l2 distance between rows of |R|.
"""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator

from blockmix.blocks.moments import Covariance, correlation, magnitudes
from blockmix.grouping.protocols import Proposal, TreeGrouping, check_n_groups, has_tree
from blockmix.partition import BoolArray, FloatArray, IntArray, Partition

LINKAGES = ("average", "single", "complete")
DISTANCES = ("correlation", "profile")


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

    def __init__(self, linkage: str = "average", distance: str = "correlation") -> None:
        self.linkage = linkage
        self.distance = distance

    @property
    def takes_rows(self) -> bool:
        """Whether a `GramMatrix` may take the place of an array."""
        return self.distance == "correlation"

    def group(self, S: Covariance, n_groups: int, n_rows: float = np.inf) -> Proposal:
        """Cut the tree of S into exactly n_groups groups; n_rows is not used."""
        n_groups = check_n_groups(n_groups, len(S))
        tree = self.tree(correlation(S))
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
        strength = magnitudes(R)
        if self.distance == "correlation":
            return np.subtract(1, strength, out=strength)
        squares = np.einsum("ij,ij->i", strength, strength)
        squared = strength @ strength.T
        squared *= -2
        squared += squares
        squared += squares[:, None]
        return np.sqrt(np.maximum(squared, 0, out=squared), out=squared)


def tree_of(grouping: object) -> TreeGrouping:
    """Return the grouping itself if it cuts a tree, else the default hierarchical grouping."""
    return grouping if has_tree(grouping) else HierarchicalGrouping()


def is_default(grouping: object) -> bool:
    """Whether a grouping is `HierarchicalGrouping()` with its default parameters."""
    return type(grouping) is HierarchicalGrouping and vars(grouping) == vars(HierarchicalGrouping())


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


def spans(tree: FloatArray) -> tuple[IntArray, IntArray]:
    """Leaf order and, per node, where its columns start and stop in that order, shapes (p,) and (2p − 1, 2).

    The larger branch comes first, so a node and its larger branch start at the same place.
    """
    from blockmix.grouping import kernels  # loads Numba

    order, span = kernels.spans(tree)
    return order, span
