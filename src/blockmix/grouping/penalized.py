"""PenalizedGrouping: maximize the objective with a price per parameter (replaces the search of paper, section 2.2).

Groups are merged while the log-likelihood gained exceeds the price of the new parameters. Then single columns move, and
both steps repeat until neither helps. The price determines the number of groups unless one is given.
"""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator

from blockmix.blocks.moments import definite_correlation
from blockmix.grouping.move_columns import TOLERANCE, MutablePartition, move_columns
from blockmix.grouping.protocols import Proposal, check_n_groups
from blockmix.partition import FloatArray, IntArray, Partition, bic_price, extended_price, merge_gain


class PenalizedGrouping(BaseEstimator):
    """Maximize N·L(D) − (½ log N + 2γ log p) Σ c(c+1)/2 over partitions.

    Parameters
    ----------
    gamma : float
        0 is BIC; a positive value is the γ of the extended BIC, a higher price for tables of many columns.
    max_sweeps : int
        Maximum number of rounds of merges and moves; the search has converged when a round changes nothing.

    Notes
    -----
    A block has fewer columns than there are rows: beyond that its likelihood is unbounded and no price limits it. A
    given number of groups overrides this limit.

    Examples
    --------
    >>> S = np.array([[1.0, -0.9, 0.1], [-0.9, 1.0, 0.0], [0.1, 0.0, 1.0]])
    >>> PenalizedGrouping().group(S, None, n_rows=50).partition.labels
    array([0, 0, 1])
    """

    def __init__(self, gamma: float = 0.0, max_sweeps: int = 100) -> None:
        self.gamma = gamma
        self.max_sweeps = max_sweeps

    def group(self, S: FloatArray, n_groups: int | None, n_rows: float) -> Proposal:
        """Merge and move until neither helps; with n_groups=None the price determines the number of groups."""
        fixed = None if n_groups is None else check_n_groups(n_groups, len(S))
        return self._search(S, n_rows, bic_price(n_rows), fixed)

    def group_at_price(self, S: FloatArray, n_rows: float, price: float) -> Proposal:
        """Groups, and their number, for a given price per parameter in place of ½ log N."""
        return self._search(S, n_rows, price, None)

    def _search(self, S: FloatArray, n_rows: float, price: float, fixed: int | None) -> Proposal:
        R = definite_correlation(S)
        price = extended_price(price, len(S), self.gamma)
        free = fixed is None
        partition = Partition.separate(len(S))
        for _ in range(self.max_sweeps):
            groups = MutablePartition(R, merge(R, partition, n_rows, price, fixed), spare=free)
            move_columns(groups, n_rows, price, largest=n_rows, may_empty=free)
            if groups.partition == partition:
                return Proposal(partition)
            partition = groups.partition
        return Proposal(partition, converged=False)


def merge(R: FloatArray, partition: Partition, n_rows: float, price: float, fixed: int | None) -> Partition:
    """Merge the pair of groups with the largest gain until none gains, or until `fixed` groups remain."""
    groups = MergingGroups(R, partition, n_rows, price, largest=n_rows if fixed is None else np.inf)
    while groups.n_groups > (fixed or 1):
        a, b = groups.best_pair()
        if fixed is None and groups.gains[a, b] <= TOLERANCE * n_rows:
            break
        groups.merge(a, b)
    return groups.partition


class MergingGroups:
    """Groups that merge pair by pair, with the gain of every pair kept up to date.

    Parameters
    ----------
    R : array of shape (p, p)
        Positive definite correlation.
    partition : Partition
        The initial groups.
    n_rows, price : float
        As for `objective`.
    largest : float
        No merge makes a block of this many columns or more.

    Attributes
    ----------
    gains : array of shape (K, K)
        `merge_gain` of groups a > b in row a and column b; −inf for pairs that may not merge.
    """

    def __init__(self, R: FloatArray, partition: Partition, n_rows: float, price: float, largest: float) -> None:
        self.R, self.n_rows, self.price, self.largest = R, n_rows, price, largest
        self._members = [group.tolist() for group in partition.groups]
        self._logdets = [self._logdet(A) for A in self._members]
        self._alive = np.ones(len(self._members), dtype=bool)
        self.gains = np.full(2 * (len(self._members),), -np.inf)
        for a in range(1, len(self._members)):
            self._update(a, np.arange(a))

    @property
    def n_groups(self) -> int:
        """Number of groups left."""
        return int(self._alive.sum())

    @property
    def partition(self) -> Partition:
        """The groups left."""
        return Partition.from_groups(self._members[a] for a in np.flatnonzero(self._alive))

    def best_pair(self) -> tuple[int, int]:
        """The pair with the largest gain."""
        a, b = divmod(int(np.argmax(self.gains)), len(self.gains))
        return a, b

    def merge(self, a: int, b: int) -> None:
        """Put the columns of group a into group b."""
        self._members[b] += self._members[a]
        self._logdets[b] = self._logdet(self._members[b])
        self._alive[a] = False
        for k in (a, b):
            self.gains[k] = self.gains[:, k] = -np.inf
        others = np.flatnonzero(self._alive)
        self._update(b, others[others != b])

    def _update(self, a: int, others: IntArray) -> None:
        """Compute the gain of merging group a with each of the others."""
        size = len(self._members[a])
        sizes = np.array([len(self._members[b]) for b in others], dtype=np.intp)
        allowed = size + sizes < self.largest
        others, sizes = others[allowed], sizes[allowed]
        gain = merge_gain(self._log_ratios(a, others), size * sizes, self.n_rows, self.price)
        self.gains[np.maximum(a, others), np.minimum(a, others)] = gain

    def _log_ratios(self, a: int, others: IntArray) -> FloatArray:
        """log|R_A| + log|R_B| − log|R_AB| = log|R_B| − log|R_B given A| for each other group B."""
        A = self._members[a]
        solved = np.linalg.solve(self.R[np.ix_(A, A)], self.R[A])  # (c_A, p): one factorization serves all B
        found = np.empty(len(others))
        for i, b in enumerate(others.tolist()):
            B = self._members[b]
            if len(B) == 1:
                conditional = np.log(max(float(1 - self.R[B[0], A] @ solved[:, B[0]]), float(np.finfo(float).eps)))
            else:
                conditional = np.linalg.slogdet(self.R[np.ix_(B, B)] - self.R[np.ix_(B, A)] @ solved[:, B])[1]
            found[i] = self._logdets[b] - conditional
        return found

    def _logdet(self, A: list[int]) -> float:
        return float(np.linalg.slogdet(self.R[np.ix_(A, A)])[1])
