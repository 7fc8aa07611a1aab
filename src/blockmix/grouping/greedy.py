"""GreedyGrouping: single-column moves that raise the likelihood (paper, section 2.2).

The search starts from the first K principal components of a covariance and moves each column to the group in which its
conditional variance is smallest. A move may not empty a group. The paper allows it, but the likelihood rises whenever
blocks merge, so most of its runs lose groups.
"""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator

from blockmix.blocks.moments import definite_correlation
from blockmix.grouping.move_columns import MutablePartition, move_columns
from blockmix.grouping.protocols import Proposal, check_n_groups
from blockmix.partition import FloatArray, IntArray, Partition


class GreedyGrouping(BaseEstimator):
    """Greedy maximization of −½ Σ_k log|S_kk| over partitions into K groups.

    Parameters
    ----------
    max_sweeps : int
        Maximum number of passes over the columns; the search has converged when a pass moves nothing.

    Examples
    --------
    >>> S = np.array([[1.0, -0.9, 0.1], [-0.9, 1.0, 0.0], [0.1, 0.0, 1.0]])
    >>> GreedyGrouping().group(S, 2).partition.labels
    array([0, 0, 1])
    """

    def __init__(self, max_sweeps: int = 100) -> None:
        self.max_sweeps = max_sweeps

    def group(self, S: FloatArray, n_groups: int, n_rows: float = np.inf) -> Proposal:
        """Improve the principal-component start until no single move helps; n_rows is not used."""
        R = definite_correlation(S)
        partition = principal_start(R, check_n_groups(n_groups, len(S)))
        for _ in range(self.max_sweeps):
            groups = MutablePartition(R, partition)
            move_columns(groups)
            if groups.partition == partition:
                return Proposal(partition)
            partition = groups.partition
        return Proposal(partition, converged=False)


def principal_start(R: FloatArray, n_groups: int) -> Partition:
    """Assign column j to the one of the first K principal components with its largest absolute loading.

    The paper takes the largest signed loading, which depends on the arbitrary sign of an eigenvector.
    """
    # All eigenvectors: LAPACK's search for a subset returns none if the eigenvalues are equal (R = I).
    _, vectors = np.linalg.eigh(R)
    return fill_empty(np.abs(vectors[:, : -n_groups - 1 : -1]))


def fill_empty(membership: FloatArray) -> Partition:
    """Partition by the largest entry of each row, shape (p, K), without empty groups.

    An empty group takes its best column from a group that has several.
    """
    labels: IntArray = np.argmax(membership, axis=1)
    n_groups = membership.shape[1]
    for k in range(n_groups):
        sizes = np.bincount(labels, minlength=n_groups)
        if sizes[k] == 0:
            movable = np.flatnonzero(sizes[labels] > 1)
            labels[movable[np.argmax(membership[movable, k])]] = k
    return Partition(labels)
