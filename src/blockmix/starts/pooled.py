"""Starts under one covariance: clusters that are thin along a direction that k-means and principal components miss.

With a shared covariance W the rows may be whitened by their overall covariance, T = I. Then W = I − Σ π_g m_g m_gᵀ, the
responsibilities are linear in the rows, and the mean of xᵀW⁻¹x is tr W⁻¹: EM of many starts at once is two products.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from blockmix.em.loop import SPARE
from blockmix.partition import FloatArray, IntArray
from blockmix.starts.clusterings import distinct, filled, nearest_seed, principal_scores

_FLAT = 2  # axes of either kind that are cut for short EM
_SEEDS = 16  # drawn partitions
_STEPS = 5  # of one-dimensional k-means
_FEW, _MORE, _KEPT = 5, 10, 4  # sweeps of all starts, further ones of the best, and how many these are
_ROWS_PER_COLUMN, _COLUMNS = 4, 64  # of which one covariance can judge: at least, and at most
_SOME_ROWS = 5000  # that are searched at most
_GAIN = 5.0  # log-likelihood from which one partition is likelier than another
_LEAST = 1e-2  # variance within the clusters, of whitened rows


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
) -> tuple[FloatArray, float] | None:
    """Responsibilities (N, G) that are likelier under one covariance than known ones after EM, and by how much.

    EM begins with the cuts along single axes, and with drawn seeds among the rows as they are, which find small
    clusters far from the others. A component of at most 5 rows counts against its start. None if there are none,
    and of few rows or many columns, where one full covariance cannot judge.
    """
    if len(X) < _ROWS_PER_COLUMN * X.shape[1] or X.shape[1] > _COLUMNS:
        return None
    different, weight, place = distinct(X, weights, n_components)
    some = np.zeros(len(different), dtype=np.intp)  # a row of each kind
    some[place[::-1]] = np.arange(len(X))[::-1]
    white = whitened(different, weight).astype(np.float32)
    labels = cuts(white, weight, n_components, _FLAT)
    labels += [nearest_seed(different, weight, n_components, rng) for _ in range(_SEEDS)]
    partitions = [known[some], *(filled(each, different, weight, n_components) for each in labels)]
    z = np.stack([partition.T for partition in partitions], axis=1).astype(np.float32)
    total = float(weight.sum())
    share, least = (weight / total).astype(np.float32), SPARE / total
    z, value, thin = pooled_em(white, share, z, _FEW, least)
    order = np.lexsort((-value, thin))[:_KEPT]
    order = np.append(order[order != 0], 0)
    z, value, thin = pooled_em(white, share, z[:, order], _MORE, least)
    best = int(np.lexsort((-value, thin))[0])
    gain = float(value[best] - value[-1]) * total
    better = thin[best] < thin[-1] or gain > _GAIN
    return (z[:, best].T[place].astype(X.dtype), gain) if better else None


def likelier_labels(X: FloatArray, weights: Any, labels: IntArray, seed: int) -> tuple[IntArray, float] | None:
    """The same for labels of rows in memory, which may have missing values; None of very many rows."""
    if len(X) > _SOME_ROWS:
        return None
    counted = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=float)
    scale = np.nanstd(X, axis=0)
    standard = np.nan_to_num((X - np.nanmean(X, axis=0)) / np.where(scale > 0, scale, 1.0))
    z = np.eye(int(labels.max()) + 1)[labels]
    found = likelier(standard, counted, z.shape[1], np.random.RandomState(seed), z)
    return None if found is None else (found[0].argmax(axis=1), found[1])


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
