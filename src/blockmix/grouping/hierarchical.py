"""HierarchicalGrouping: column groups from a tree on the absolute correlations (paper, section 2.4).

A covariance comes in; a tree in SciPy's format and its cut into exactly K groups go out. The default distance 1 − |R|
costs O(p²) once R is known and recovers more than the paper's l2 distance between rows of |R| where groups are many.
"""

from __future__ import annotations

import numpy as np
from scipy.cluster.hierarchy import linkage as scipy_linkage
from sklearn.base import BaseEstimator

from blockmix.grouping.protocols import Proposal, check_n_groups
from blockmix.structure.moments import correlation
from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray, IntArray

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
        the better one where most correlations are weak, as between the terms of documents.

    Examples
    --------
    >>> S = np.array([[1.0, -0.9, 0.1], [-0.9, 1.0, 0.0], [0.1, 0.0, 1.0]])
    >>> HierarchicalGrouping().group(S, 2).partition.labels
    array([0, 0, 1])
    """

    def __init__(self, linkage: str = "average", distance: str = "correlation") -> None:
        self.linkage = linkage
        self.distance = distance

    def group(self, S: FloatArray, n_groups: int, n_rows: float = np.inf) -> Proposal:
        """Cut the tree of S into exactly n_groups groups; the number of rows plays no part."""
        n_groups = check_n_groups(n_groups, len(S))
        tree = self.tree(correlation(S))
        return Proposal(cut(tree, n_groups), tree)

    def tree(self, R: FloatArray) -> FloatArray:
        """Linkage matrix of the columns of a correlation matrix, shape (p − 1, 4)."""
        if self.linkage not in LINKAGES:
            raise ValueError(f"linkage={self.linkage!r} must be one of {', '.join(LINKAGES)}")
        distances = self.distances(R)
        if len(R) == 1:
            return np.empty((0, 4))
        tree: FloatArray = scipy_linkage(distances, method=self.linkage)  # type: ignore[arg-type]
        return tree

    def distances(self, R: FloatArray) -> FloatArray:
        """Condensed distances between the columns, p(p − 1)/2 of them."""
        if self.distance not in DISTANCES:
            raise ValueError(f"distance={self.distance!r} must be one of {', '.join(DISTANCES)}")
        p = len(R)
        condensed = np.empty(p * (p - 1) // 2)
        squares = np.einsum("ij,ij->i", R, R)
        at = 0
        # Row by row into the condensed form: a dense p × p distance would double the peak memory.
        for first in range(0, p, _CHUNK):
            rows = slice(first, min(first + _CHUNK, p))
            strength = np.abs(R[rows, first:])
            if self.distance == "profile":
                products = np.abs(R[rows]) @ np.abs(R[:, first:])
                squared = squares[rows, None] + squares[None, first:] - 2 * products
                chunk = np.sqrt(np.maximum(squared, 0))
            else:
                chunk = 1 - strength
            for i, row in enumerate(chunk):
                condensed[at : at + len(row) - i - 1] = row[i + 1 :]
                at += len(row) - i - 1
        return condensed


_CHUNK = 512


def cut(tree: FloatArray, n_groups: int) -> Partition:
    """Partition after the first p − K merges of a tree: exactly K groups, ties or not."""
    p = len(tree) + 1
    member = list(range(2 * p - 1))
    children = tree[: p - n_groups, :2].astype(np.intp).tolist()
    for k in range(p - n_groups - 1, -1, -1):
        # A node reached from above passes its name down, so after the loop a leaf bears its topmost merged node.
        left, right = children[k]
        member[left] = member[right] = member[p + k]
    return Partition(member[:p])


def spans(tree: FloatArray) -> tuple[IntArray, IntArray]:
    """Leaf order and, per node, where its columns start and stop in that order, shapes (p,) and (2p − 1, 2).

    The larger branch comes first, so a node and its larger branch start at the same place.
    """
    p = len(tree) + 1
    size = np.concatenate([np.ones(p, dtype=np.intp), tree[:, 3].astype(np.intp)])
    children = tree[:, :2].astype(np.intp)
    swap = size[children[:, 0]] < size[children[:, 1]]
    children[swap] = children[swap, ::-1]
    starts, sizes, pairs = [0] * (2 * p - 1), size.tolist(), children.tolist()
    for k in range(p - 2, -1, -1):
        large, small = pairs[k]
        starts[large] = starts[p + k]
        starts[small] = starts[p + k] + sizes[large]
    first = np.array(starts, dtype=np.intp)
    span = np.stack([first, first + size], axis=1)
    return np.argsort(span[:p, 0]), span
