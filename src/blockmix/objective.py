"""The objective of a partition: the likelihood of a covariance restricted to its blocks (paper, eq. 3).

For 0/1 matrices D the trace term of the paper's equation is p, so the objective per row is
L(D) = −½ Σ_k log|S_kk| − p/2: a sum over blocks. Its change under the move of one column needs only the
conditional variances of that column given each block, which `ColumnMoves` keeps up to date.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from blockmix._types import FloatArray, IntArray
from blockmix.blocks import BlockCovariance
from blockmix.partition import Partition


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
    """A partition under moves of single columns, with the inverse of every block kept up to date.

    The objective changes by ½ log(v_from / v_to) when column j moves, v_k = s_jj − s_jA S_AA⁻¹ s_Aj being its variance
    given the other columns A of group k. A move costs O(c²) by bordering, not a determinant per trial.

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
        self._members = [group.copy() for group in partition.groups]
        self._inverses = [np.linalg.inv(self.S[np.ix_(A, A)]) for A in self._members]
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
        row, own = self.S[j], self.labels[j]
        for k, (A, P) in enumerate(zip(self._members, self._inverses, strict=True)):
            if k == own:
                at = np.searchsorted(A, j)
                variances[k] = 1 / P[at, at]
            else:
                s = row[A]
                variances[k] -= s @ (P @ s)
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
        A, P = self._members[k], self._inverses[k]
        at = int(np.searchsorted(A, j))
        rest = np.delete(np.arange(len(A)), at)
        column = P[rest, at]
        self._members[k] = A[rest]
        self._inverses[k] = P[np.ix_(rest, rest)] - np.outer(column, column / P[at, at])

    def _insert(self, j: int, k: int) -> None:
        A, P = self._members[k], self._inverses[k]
        weights = P @ self.S[A, j]
        variance = max(self.S[j, j] - self.S[j, A] @ weights, np.finfo(float).eps * self.S[j, j])
        at = int(np.searchsorted(A, j))
        old = np.delete(np.arange(len(A) + 1), at)
        grown = np.empty((len(A) + 1, len(A) + 1))
        grown[np.ix_(old, old)] = P + np.outer(weights, weights / variance)
        grown[at, old] = grown[old, at] = -weights / variance
        grown[at, at] = 1 / variance
        self._members[k] = np.insert(A, at, j)
        self._inverses[k] = grown
        self.labels[j] = k

    def _add_empty(self) -> None:
        self._members.append(np.empty(0, dtype=np.intp))
        self._inverses.append(np.empty((0, 0)))
