"""GreedyGrouping: coordinate moves of single columns that raise the likelihood (paper, section 2.2).

A covariance comes in; the paper's start from the first K principal components, improved column by column, goes out.
A column goes where its conditional variance is smallest. A move may not empty a group: the paper's rule, which
allows it, loses groups in most runs because the likelihood rises whenever blocks merge.
"""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator

from blockmix.grouping.protocols import Proposal, check_n_groups
from blockmix.structure.moments import definite_correlation
from blockmix.structure.objective import TOLERANCE, ColumnMoves
from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray, IntArray


class GreedyGrouping(BaseEstimator):
    """Greedy maximisation of −½ Σ_k log|S_kk| over partitions into K groups.

    Parameters
    ----------
    max_sweeps : int
        Most passes over the columns; the search converged when a pass moved nothing.

    Examples
    --------
    >>> S = np.array([[1.0, -0.9, 0.1], [-0.9, 1.0, 0.0], [0.1, 0.0, 1.0]])
    >>> GreedyGrouping().group(S, 2).partition.labels
    array([0, 0, 1])
    """

    def __init__(self, max_sweeps: int = 100) -> None:
        self.max_sweeps = max_sweeps

    def group(self, S: FloatArray, n_groups: int, n_rows: float = np.inf) -> Proposal:
        """Improve the principal-component start until no move of one column helps."""
        R = definite_correlation(S)
        partition = principal_start(R, check_n_groups(n_groups, len(S)))
        for _ in range(self.max_sweeps):
            moves = ColumnMoves(R, partition)
            sweep(moves)
            if moves.partition == partition:
                return Proposal(partition)
            partition = moves.partition
        return Proposal(partition, converged=False)


def sweep(moves: ColumnMoves) -> None:
    """Move every column once to the group in which its conditional variance is smallest, emptying none."""
    for j in moves.order:
        own = moves.labels[j]
        if moves.sizes[own] == 1:
            continue
        variances = moves.conditional_variances(j)
        best = int(np.argmin(variances))
        if variances[best] < variances[own] * (1 - 2 * TOLERANCE):
            moves.move(j, best)


def principal_start(R: FloatArray, n_groups: int) -> Partition:
    """Column j goes to the component, of the first K of R, on which its loading is largest in absolute value.

    The paper takes the largest signed element, which depends on the arbitrary sign of an eigenvector.
    """
    # All vectors, because LAPACK's search for some of them finds none where the eigenvalues are equal (R = I).
    _, vectors = np.linalg.eigh(R)
    return fill_empty(np.abs(vectors[:, : -n_groups - 1 : -1]))


def fill_empty(membership: FloatArray) -> Partition:
    """Partition by the largest entry of each row, shape (p, K).

    An empty group takes its best column from a group of several.
    """
    labels: IntArray = np.argmax(membership, axis=1)
    n_groups = membership.shape[1]
    for k in range(n_groups):
        sizes = np.bincount(labels, minlength=n_groups)
        if sizes[k] == 0:
            movable = np.flatnonzero(sizes[labels] > 1)
            labels[movable[np.argmax(membership[movable, k])]] = k
    return Partition(labels)
