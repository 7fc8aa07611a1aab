"""PenalizedGrouping: the likelihood of the blocks with a price per parameter (a cure for paper, section 2.2).

A covariance comes in; groups are merged while the gain in log-determinant exceeds the price of the new entries, then
single columns are moved, until neither helps. The number of groups is found on the way, or kept when it is given.
"""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator

from blockmix.grouping.protocols import Proposal, check_n_groups
from blockmix.structure.moments import definite_correlation
from blockmix.structure.objective import TOLERANCE, ColumnMoves, price
from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray


class PenalizedGrouping(BaseEstimator):
    """Maximise N·L(D) − (½ log N + 2γ log p) Σ c(c+1)/2 over partitions.

    Parameters
    ----------
    gamma : float
        0 is BIC; a positive value is the extended BIC's γ, a higher price where columns are many.
    max_sweeps : int
        Most rounds of merges and moves; the search converged when a round changed nothing.

    Notes
    -----
    A block holds fewer columns than there are rows: beyond that its likelihood is infinite and no price stops it.
    A given number of groups goes before this limit.

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
        """Merge and move until neither helps; n_groups=None lets the price decide how many groups there are."""
        p = len(S)
        fixed = None if n_groups is None else check_n_groups(n_groups, p)
        R = definite_correlation(S)
        cost = price(n_rows, p, self.gamma)
        partition = Partition.separate(p)
        for _ in range(self.max_sweeps):
            merged = merge(R, partition, n_rows, cost, fixed)
            moves = ColumnMoves(R, merged, spare=fixed is None)
            sweep(moves, n_rows, cost, may_empty=fixed is None)
            if moves.partition == partition:
                return Proposal(partition)
            partition = moves.partition
        return Proposal(partition, converged=False)


def sweep(moves: ColumnMoves, n_rows: float, cost: float, may_empty: bool) -> None:
    """Move every column once to where the likelihood less the price is highest."""
    for j in moves.order:
        own = moves.labels[j]
        others = moves.sizes
        others[own] -= 1
        if others[own] == 0 and not may_empty:
            continue
        value = -0.5 * n_rows * np.log(moves.conditional_variances(j)) - cost * others
        value[(others >= n_rows - 1) & (np.arange(len(others)) != own)] = -np.inf
        best = int(np.argmax(value))
        if value[best] > value[own] + TOLERANCE * n_rows:
            moves.move(j, best)


def merge(R: FloatArray, partition: Partition, n_rows: float, cost: float, fixed: int | None) -> Partition:
    """Merge the pair of groups of largest gain until no gain is left or, where K is given, K groups are."""
    groups = [list(group) for group in partition.groups]
    logdets = [np.linalg.slogdet(R[np.ix_(A, A)])[1] for A in groups]
    gains = np.full((len(groups), len(groups)), -np.inf)
    for a in range(1, len(groups)):
        gains[a, :a] = _gains(R, groups, logdets, a, range(a), n_rows, cost, fixed is not None)
    alive = np.ones(len(groups), dtype=bool)
    best = gains.max(axis=1)
    while alive.sum() > (fixed or 1):
        a = int(np.argmax(best))
        if fixed is None and best[a] <= TOLERANCE * n_rows:
            break
        b = int(np.argmax(gains[a]))
        groups[b] += groups[a]
        logdets[b] = np.linalg.slogdet(R[np.ix_(groups[b], groups[b])])[1]
        alive[a] = False
        gains[a] = gains[:, a] = -np.inf
        others = [int(c) for c in np.flatnonzero(alive) if c != b]
        for c, gain in zip(others, _gains(R, groups, logdets, b, others, n_rows, cost, fixed is not None), strict=True):
            gains[max(b, c), min(b, c)] = gain
        best = gains.max(axis=1)
    return Partition.from_groups(groups[a] for a in np.flatnonzero(alive))


def _gains(
    R: FloatArray,
    groups: list[list[int]],
    logdets: list[float],
    a: int,
    others: range | list[int],
    n_rows: float,
    cost: float,
    forced: bool,
) -> list[float]:
    """N/2 (log|R_A| + log|R_B| − log|R_AB|) − price · c_A c_B for each other group B."""
    A = groups[a]
    solved = np.linalg.solve(R[np.ix_(A, A)], R[A])  # (c_A, p): one factorisation serves all B
    gains = []
    for b in others:
        B = groups[b]
        if len(A) + len(B) >= n_rows and not forced:
            gains.append(-np.inf)
            continue
        if len(B) == 1:
            logdet = np.log(max(float(1 - R[B[0], A] @ solved[:, B[0]]), float(np.finfo(float).eps)))
        else:
            logdet = np.linalg.slogdet(R[np.ix_(B, B)] - R[np.ix_(B, A)] @ solved[:, B])[1]
        gains.append(0.5 * n_rows * (logdets[b] - logdet) - cost * len(A) * len(B))
    return gains
