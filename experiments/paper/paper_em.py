"""The EM of the paper to the letter, for the row "as printed" of its tables (section 3, and what its program adds).

Every M-step regroups the columns, even if that lowers the likelihood; `GaussianBiclustering` does not.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from blockmix.grouping import HierarchicalGrouping, SilhouetteRule

_GROUPING = HierarchicalGrouping(distance="profile")


def paper_em(
    X: np.ndarray, start: np.ndarray, candidates: tuple[int, ...], max_iter: int = 20, tol: float = 1e-4
) -> tuple[np.ndarray, list[float]]:
    """Regroup in every M-step, K by silhouette among the candidates, 10⁻⁶ I on every S_g, Aitken's rule on the sum."""
    z, trace = np.eye(start.max() + 1)[start], []
    while len(trace) < max_iter and not _settled(trace, tol):
        joint = np.stack([_log_joint(X, weights, candidates) for weights in z.T], axis=1)
        rows = logsumexp(joint, axis=1)
        trace.append(float(rows.sum()))
        z = np.exp(joint - rows[:, None])
    return z.argmax(axis=1), trace


def _log_joint(X: np.ndarray, weights: np.ndarray, candidates: tuple[int, ...]) -> np.ndarray:
    """The M-step of one component from its column of z, and log π_g f(x_i) with the result."""
    total = weights.sum()
    mean = weights @ X / total
    centered = X - mean
    S = (weights[:, None] * centered).T @ centered / total + 1e-6 * np.eye(X.shape[1])
    partition = SilhouetteRule(candidates=candidates).choose(S, total, _GROUPING).partition
    log_density = np.full(len(X), np.log(total / len(X)) - X.shape[1] * np.log(2 * np.pi) / 2)
    for k in range(partition.n_groups):
        columns = np.flatnonzero(partition.labels == k)
        L = np.linalg.cholesky(S[np.ix_(columns, columns)])
        whitened = solve_triangular(L, centered[:, columns].T, lower=True)
        log_density -= (whitened**2).sum(axis=0) / 2 + np.log(np.diagonal(L)).sum()
    return log_density


def _settled(trace: list[float], tol: float) -> bool:
    """Whether the limit predicted by Aitken's acceleration is within tol of the last value."""
    if len(trace) < 3:
        return False
    before, last = trace[-2] - trace[-3], trace[-1] - trace[-2]
    return last == 0 or (before != last and abs(last * before / (before - last) - last) < tol)
