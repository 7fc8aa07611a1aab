"""GreedyGrouping: single-column moves that raise the likelihood (paper, section 2.2).

The search starts from the first K principal components of a covariance and moves each column to the group in which its
conditional variance is smallest. A move may not empty a group. The paper allows it, but the likelihood rises whenever
blocks merge, so most of its runs lose groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import dtrsv
from sklearn.base import BaseEstimator

from blockmix.blocks.blocks import cholesky
from blockmix.blocks.moments import as_matrix
from blockmix.grouping.grouping import Proposal, check_n_groups
from blockmix.partition import FloatArray, IntArray, Partition

# Gains below this per row are rounding. In nearly singular blocks (copies of a column) many partitions are equally
# good, and a search that followed such gains would cycle among them.
TOLERANCE = 1e-6


@dataclass(eq=False, repr=False)
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

    max_sweeps: int = 100

    def group(self, S: FloatArray, n_groups: int, n_rows: float = np.inf) -> Proposal:
        """Improve the principal-component start until no single move helps; n_rows is not used."""
        R = as_matrix(S).definite().view(np.ndarray)
        partition = principal_start(R, check_n_groups(n_groups, len(S)))
        for _ in range(self.max_sweeps):
            groups = MutablePartition(R, partition)
            groups.sweep()
            before, partition = partition, Partition(groups.labels)
            if partition == before:
                return Proposal(partition)
        return Proposal(partition, converged=False)


class MutablePartition:
    """K non-empty groups whose columns can move, with the Cholesky factor of every block kept up to date.

    Moving column j from one group to another changes the likelihood per row by ½ log(v_from / v_to), where
    v_k = s_jj − s_jA S_AA⁻¹ s_Aj is its variance given the other columns A of group k. So a trial costs one triangular
    solve, O(c²), instead of a determinant. The factors are never inverted: in a nearly singular block an inverse loses
    the digits of v.

    Parameters
    ----------
    S : array of shape (p, p)
        Positive definite covariance.
    partition : Partition
        The initial groups.
    """

    def __init__(self, S: FloatArray, partition: Partition) -> None:
        self.S = np.asarray(S, dtype=float)
        self.labels = partition.labels.copy()
        self._members = list(partition.groups)
        self._factors = [self._factor(A) for A in self._members]

    def sweep(self) -> None:
        """Move every column once to the group where the likelihood is highest; the last column of a group stays."""
        variances = self.S.diagonal()
        # From the least to the most correlated with all others: this order does not depend on the columns' positions,
        # so permuting the columns permutes the groups.
        for j in np.argsort((self.S**2 / variances).sum(axis=1) / variances, kind="stable"):
            present = self.labels[j]
            if len(self._members[present]) == 1:
                continue
            gain = 0.5 * np.log(self.S[j, j] / self.conditional_variances(j))
            best = int(np.argmax(gain))
            if gain[best] > gain[present] + TOLERANCE:
                self.move(j, best)

    def conditional_variances(self, j: int) -> FloatArray:
        """Variance of column j given the other columns of each group, shape (K,)."""
        variances = np.full(len(self._members), self.S[j, j])
        for k, (A, L) in enumerate(zip(self._members, self._factors, strict=True)):
            if k == self.labels[j]:
                # 1 / (S_AA⁻¹)_jj, which does not depend on the rows of L above j.
                row = int(np.flatnonzero(j == A)[0])
                u = dtrsv(L[row:, row:], np.eye(1, len(A) - row)[0], lower=1)
                variances[k] = 1 / (u @ u)
            else:
                u = dtrsv(L, self.S[A, j], lower=1)
                variances[k] -= u @ u
        return np.asarray(np.maximum(variances, np.finfo(float).eps * self.S[j, j]))

    def move(self, j: int, k: int) -> None:
        """Move column j to group k, and factor both groups anew."""
        left = self.labels[j]
        self._members[left] = self._members[left][j != self._members[left]]
        self._members[k], self.labels[j] = np.append(self._members[k], j), k
        for group in {left, k}:
            self._factors[group] = self._factor(self._members[group])

    def _factor(self, A: IntArray) -> FloatArray:
        """Lower Cholesky factor of a block, in Fortran order so that BLAS need not copy it."""
        return np.asfortranarray(cholesky(self.S[np.ix_(A, A)]))


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
