"""The objective of a partition: the likelihood of a covariance restricted to its blocks (paper, eq. 3).

For 0/1 matrices D the trace term of the paper's equation is p, so the objective per row is
L(D) = −½ Σ_k log|S_kk| − p/2: a sum over blocks. Its change under the move of one column needs only the
conditional variances of that column given each block, which `ColumnMoves` keeps up to date.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg.blas import dtrsv

from blockmix.structure.blocks import BlockCovariance, cholesky
from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray, IntArray

# A gain in log-likelihood of less than this per row is rounding, and no reason to move or to merge: in blocks that are
# nearly singular (copies of a column) many partitions are equally good, and a search would go round among them.
TOLERANCE = 1e-6


def log_likelihood(S: FloatArray, partition: Partition) -> float:
    """Paper's eq. 3 per row: −½ Σ_k log|S_kk| − p/2, without the constant −(p/2) log 2π."""
    return -0.5 * (BlockCovariance.of(S, partition).logdet + partition.n_columns)


def price(n_rows: float, n_columns: int, gamma: float = 0.0) -> float:
    """Log-likelihood that one covariance parameter must earn: ½ log N (BIC) + 2γ log p (extended BIC)."""
    return float(0.5 * np.log(n_rows) + 2 * gamma * np.log(n_columns))


def penalized(S: FloatArray, partition: Partition, n_rows: float, gamma: float = 0.0) -> float:
    """Log-likelihood of N rows less the price of the parameters: −½ (extended) BIC up to a constant."""
    paid = price(n_rows, partition.n_columns, gamma) * partition.n_parameters
    return n_rows * log_likelihood(S, partition) - paid


class ColumnMoves:
    """A partition under moves of single columns, with the Cholesky factor of every block kept up to date.

    The objective changes by ½ log(v_from / v_to) when column j moves, v_k = s_jj − s_jA S_AA⁻¹ s_Aj being its variance
    given the other columns A of group k. A trial costs one triangular solve, O(c²), not a determinant. The factors are
    not inverted: in a nearly singular block an inverse loses the digits of v, and updates of it run away.

    Parameters
    ----------
    S : array of shape (p, p)
        Positive definite covariance.
    partition : Partition
        Where to start.
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

    @cached_property
    def order(self) -> IntArray:
        """Columns from the least to the most correlated with all others: the order in which a search visits them.

        Columns carry it with them, so that permuting them permutes the groups found; the order of the table does not.
        """
        variances = self.S.diagonal()
        return np.argsort((self.S**2 / variances).sum(axis=1) / variances, kind="stable")

    @property
    def sizes(self) -> IntArray:
        """Columns in each group, an empty spare group included."""
        return np.array([len(A) for A in self._members])

    @property
    def partition(self) -> Partition:
        """The partition as it stands."""
        return Partition(self.labels)

    def conditional_variances(self, j: int) -> FloatArray:
        """Variance of column j given the other columns of each group, shape (K,)."""
        variances = np.full(len(self._members), self.S[j, j])
        for k, (A, L) in enumerate(zip(self._members, self._factors, strict=True)):
            if k == self.labels[j]:
                # 1 / (S_AA⁻¹)_jj; the rows of L above j have no part in it.
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
        """Border the factor with one more row, (uᵀ, √v)."""
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
        """Lower factor of a block, in the order of memory that BLAS reads without a copy."""
        if len(A) == 0:
            return np.empty((0, 0))
        return np.asfortranarray(cholesky(self.S[np.ix_(A, A)][None])[0])

    def _add_empty(self) -> None:
        self._members.append(np.empty(0, dtype=np.intp))
        self._factors.append(np.empty((0, 0)))
