"""Starts under one covariance: clusters that are thin along a direction that k-means and principal components miss.

With a shared covariance W the rows may be whitened by their overall covariance, T = I. Then W = I − Σ π_g m_g m_gᵀ, the
responsibilities are linear in the rows, and the mean of xᵀW⁻¹x is tr W⁻¹: EM of many starts at once is two products.
"""

from __future__ import annotations

import numpy as np

from blockmix.em.loop import SPARE
from blockmix.partition import FloatArray, IntArray
from blockmix.starts.clusterings import SEEDS, filled, nearest_seed, principal_scores

_FLAT = 2  # axes of either kind that are cut for short EM
_STEPS = 5  # of one-dimensional k-means
_FEW, _MORE, _KEPT = 6, 14, 4  # sweeps of all starts, further ones of the best, and how many these are
_GAIN = 1.0  # log-likelihood from which one partition is likelier than another
_LEAST = 1e-3  # variance within the clusters, of whitened rows


def whitened(X: FloatArray, weights: FloatArray) -> FloatArray:
    """Rows of mean 0 and covariance I."""
    scores, variances = principal_scores(X, weights)
    return np.asarray(scores / np.sqrt(variances))


def cuts(white: FloatArray, weights: FloatArray, n_components: int, n_axes: int = 1) -> list[IntArray]:
    """Labels by k-means along single axes of whitened rows: the flattest of two kinds, which balanced clusters make so.

    One kind are the principal components, the other the eigenvectors of E ‖x‖² x xᵀ, which are the axes of independent
    components (Cardoso 1989).

    Examples
    --------
    >>> X = np.random.RandomState(0).standard_normal((200, 3)) + np.repeat([[0, 0, 0], [0, 0, 9]], 100, axis=0)
    >>> labels = cuts(whitened(X, np.ones(200)), np.ones(200), 2)[0]
    >>> int(np.ptp(labels[:100])), int(np.ptp(labels[100:]))
    (0, 0)
    """
    share = weights / weights.sum()
    lengths = np.einsum("ij,ij->i", white, white)
    turned = white @ np.linalg.eigh((white * (share * lengths)[:, None]).T @ white)[1]
    labels = []
    for axes in (white, turned):
        squares = axes * axes
        for j in np.argsort(share @ (squares * squares), kind="stable")[:n_axes].tolist():
            values, middles = axes[:, j], np.linspace(-1.25, 1.25, n_components)
            for _ in range(_STEPS):
                cut = np.searchsorted((middles[1:] + middles[:-1]) / 2, values)
                count = np.bincount(cut, weights, n_components)
                means = np.bincount(cut, weights * values, n_components) / np.maximum(count, np.finfo(float).tiny)
                middles = np.sort(np.where(count > 0, means, middles))
            labels.append(cut)
    return labels


def hard_deviance(white: FloatArray, weights: FloatArray, z: FloatArray) -> float:
    """−2 log-likelihood per row of hard responsibilities under one covariance, log |W| − 2 Σ π log π, to a constant."""
    counted = z * (weights / weights.sum())[:, None]
    share = np.maximum(counted.sum(axis=0), np.finfo(float).tiny)
    sums = counted.T @ white
    inside = np.eye(len(share)) - (sums @ sums.T) / np.sqrt(share[:, None] * share)
    return float(np.linalg.slogdet(inside + _LEAST * np.eye(len(share)))[1] - 2 * share @ np.log(share))


def flatter(X: FloatArray, weights: FloatArray, n_components: int, known: list[FloatArray]) -> FloatArray | None:
    """The best cut along one axis where it is likelier than all known partitions, under one covariance; else None."""
    white = whitened(X, weights)
    partitions = [filled(labels, X, weights, n_components) for labels in cuts(white, weights, n_components)]
    deviances = [hard_deviance(white, weights, z) for z in partitions]
    best = int(np.argmin(deviances))
    return partitions[best] if deviances[best] < min(hard_deviance(white, weights, z) for z in known) else None


def likelier(
    X: FloatArray, weights: FloatArray, n_components: int, rng: np.random.RandomState, known: FloatArray
) -> FloatArray | None:
    """Responsibilities (N, G) that EM with one full covariance prefers to those that it ends at from known ones, or None.

    It begins with the cuts along single axes, and with drawn seeds among the rows as they are, which find small
    clusters far from the others. A component of at most 5 rows counts against its start.
    """
    white = whitened(X, weights).astype(np.float32)
    labels = cuts(white, weights, n_components, _FLAT)
    labels += [nearest_seed(X, weights, n_components, rng) for _ in range(SEEDS)]
    partitions = [known, *(filled(each, X, weights, n_components) for each in labels)]
    z = np.stack([partition.T for partition in partitions], axis=1).astype(np.float32)
    share = (weights / weights.sum()).astype(np.float32)
    least, total = SPARE / float(weights.sum()), float(weights.sum())
    z, value, thin = pooled_em(white, share, z, _FEW, least)
    order = np.lexsort((-value, thin))[:_KEPT]
    order = np.append(order[order != 0], 0)
    z, value, thin = pooled_em(white, share, z[:, order], _MORE, least)
    best = int(np.lexsort((-value, thin))[0])
    better = thin[best] < thin[-1] or (value[best] - value[-1]) * total > _GAIN
    return z[:, best].T.astype(X.dtype) if better else None


def pooled_em(
    white: FloatArray, weights: FloatArray, z: FloatArray, n_sweeps: int, least: float
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Some sweeps of S mixtures of one covariance each, from responsibilities (G, S, N), for weights of sum 1.

    Returns responsibilities, log-likelihoods per row above that of one normal distribution, and the numbers of
    components with a share of at most `least`.
    """
    (G, S, N), p = z.shape, white.shape[1]
    value, share = np.empty(S), np.empty((G, S))
    for _ in range(n_sweeps):
        counted = (z * weights).reshape(G * S, N)
        share = np.maximum(counted.sum(axis=1), np.finfo(np.float32).tiny).reshape(G, S).astype(float)
        means = (counted @ white).reshape(G, S, p) / share[:, :, None]
        inside = (1 + _LEAST) * np.eye(p) - np.einsum("gs,gsi,gsj->sij", share, means, means, optimize=True)
        precision = np.linalg.inv(inside)
        linear = np.einsum("sij,gsj->gsi", precision, means)
        constant = np.log(share) - 0.5 * np.einsum("gsi,gsi->gs", linear, means)
        joint = (linear.reshape(G * S, p).astype(np.float32) @ white.T).reshape(G, S, N)
        joint += constant.astype(np.float32)[:, :, None]
        top = joint.max(axis=0)
        z = np.exp(joint - top)
        density = z.sum(axis=0)
        z /= density
        fixed = p - np.trace(precision, axis1=1, axis2=2) - np.linalg.slogdet(inside)[1]
        value = (top + np.log(density)) @ weights + 0.5 * fixed
    return z, value, (share <= least).sum(axis=0)
