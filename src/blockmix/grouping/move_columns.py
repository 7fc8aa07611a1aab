"""move_columns: one pass of single-column moves that raise the objective (paper, section 2.2).

A partition and a covariance go in, and the partition is improved in place. Moving a column changes the objective only
through the variance of that column given each group, which `MutablePartition` keeps cheap to compute.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dtrsv

from blockmix.blocks.blocks import cholesky
from blockmix.partition import FloatArray, IntArray, Partition, merge_gain

# Gains below this per row are rounding. In nearly singular blocks (copies of a column) many partitions are equally
# good, and a search that followed such gains would cycle among them.
TOLERANCE = 1e-6


def move_columns(
    groups: MutablePartition,
    n_rows: float = 1.0,
    price: float = 0.0,
    largest: float = np.inf,
    may_empty: bool = False,
) -> None:
    """Move every column once to the group where the objective is highest.

    Parameters
    ----------
    groups : MutablePartition
        Changed in place.
    n_rows, price : float
        As for `objective`; the defaults maximize the log-likelihood per row.
    largest : float
        A column may not join a group if that makes a block of this many columns or more.
    may_empty : bool
        Whether the last column of a group may leave it.
    """
    for j in groups.visiting_order():
        own = groups.labels[j]
        others = groups.sizes  # columns in each group, without j
        others[own] -= 1
        if others[own] == 0 and not may_empty:
            continue
        gain = merge_gain(np.log(groups.S[j, j] / groups.conditional_variances(j)), others, n_rows, price)
        full = others + 1 >= largest
        full[own] = False
        gain[full] = -np.inf
        best = int(np.argmax(gain))
        if gain[best] > gain[own] + TOLERANCE * n_rows:
            groups.move(j, best)


class MutablePartition:
    """A partition whose columns can move, with the Cholesky factor of every block kept up to date.

    Moving column j from one group to another changes L(D) by ½ log(v_from / v_to), where v_k = s_jj − s_jA S_AA⁻¹ s_Aj
    is its variance given the other columns A of group k. So a trial costs one triangular solve, O(c²), instead of a
    determinant. The factors are never inverted: in a nearly singular block an inverse loses the digits of v.

    Parameters
    ----------
    S : array of shape (p, p)
        Positive definite covariance.
    partition : Partition
        The initial groups.
    spare : bool
        Keep one empty group at the end, so that a column can open a group of its own.
    """

    def __init__(self, S: FloatArray, partition: Partition, spare: bool = False) -> None:
        self.S = np.asarray(S, dtype=float)
        self.labels = partition.labels.copy()
        self._members = list(partition.groups)
        self._factors = [self._factor(A) for A in self._members]
        self._spare = spare
        if spare:
            self._add_empty()

    @property
    def sizes(self) -> IntArray:
        """Columns in each group, including an empty spare group."""
        return np.array([len(A) for A in self._members])

    @property
    def partition(self) -> Partition:
        """The current partition."""
        return Partition(self.labels)

    def visiting_order(self) -> IntArray:
        """Columns from the least to the most correlated with all others.

        The order depends on the correlations, not on the columns' positions, so permuting the columns permutes the
        groups that a search finds.
        """
        variances = self.S.diagonal()
        return np.argsort((self.S**2 / variances).sum(axis=1) / variances, kind="stable")

    def conditional_variances(self, j: int) -> FloatArray:
        """Variance of column j given the other columns of each group, shape (K,)."""
        variances = np.full(len(self._members), self.S[j, j])
        for k, (A, L) in enumerate(zip(self._members, self._factors, strict=True)):
            if k == self.labels[j]:
                # 1 / (S_AA⁻¹)_jj, which does not depend on the rows of L above j.
                at = int(np.flatnonzero(j == A)[0])
                u = dtrsv(L[at:, at:], np.eye(1, len(A) - at)[0], lower=1)
                variances[k] = 1 / (u @ u)
            elif len(A):
                u = dtrsv(L, self.S[A, j], lower=1)
                variances[k] -= u @ u
        floored: FloatArray = np.maximum(variances, np.finfo(float).eps * self.S[j, j])
        return floored

    def move(self, j: int, to: int) -> None:
        """Move column j to group `to`."""
        self._remove(j)
        self._insert(j, to)
        if self._spare and len(self._members[-1]):
            self._add_empty()

    def _remove(self, j: int) -> None:
        k = self.labels[j]
        A = self._members[k]
        self._members[k] = A[j != A]
        self._factors[k] = self._factor(self._members[k])

    def _insert(self, j: int, k: int) -> None:
        """Append column j to group k and the row (uᵀ, √v) to its factor."""
        A, L = self._members[k], self._factors[k]
        c = len(A)
        grown = np.zeros((c + 1, c + 1), order="F")
        grown[:c, :c] = L
        u = dtrsv(L, self.S[A, j], lower=1) if c else np.empty(0)
        grown[c, :c] = u
        grown[c, c] = np.sqrt(max(self.S[j, j] - u @ u, np.finfo(float).eps * self.S[j, j]))
        self._members[k] = np.append(A, j)
        self._factors[k] = grown
        self.labels[j] = k

    def _factor(self, A: IntArray) -> FloatArray:
        """Lower Cholesky factor of a block, in Fortran order so that BLAS need not copy it."""
        if len(A) == 0:
            return np.empty((0, 0))
        return np.asfortranarray(cholesky(self.S[np.ix_(A, A)][None])[0])

    def _add_empty(self) -> None:
        self._members.append(np.empty(0, dtype=np.intp))
        self._factors.append(np.empty((0, 0)))
