"""Clusterings: the first partitions of the rows that the default start compares (docs/adr/0004-starts.md).

Standardized rows and weights come in; named responsibilities z, shape (N, G), go out. With more columns than rows EM
stays where it begins and its likelihood cannot judge, so one partition is chosen here: the one of least inertia.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from blockmix.em.starts.starts import centers, filled, hierarchical, kmeans, principal_scores
from blockmix.structure.types import FloatArray, IntArray

SEEDS = 24  # drawn partitions: on Olive k-means never leads to the best mixture, and one in ten of these does
_RESTARTS = 3  # of k-means where EM goes on from it
_WIDE_RESTARTS = 10  # of k-means where EM does not leave it
_AXES = 5  # principal components that k-means is run on where columns outnumber rows
_CLIP = 3.0  # deviations, estimated by the median absolute deviation, beyond which values are clipped
_NORMAL = 1.4826  # deviation of a normal variable in units of its median absolute deviation
_TRIM = 0.1  # weight of the farthest rows that the first M-step leaves out


def clusterings(
    X: FloatArray, weights: FloatArray, n_components: int, rng: np.random.RandomState
) -> dict[str, FloatArray]:
    """Partitions for EM to begin with, by name.

    K-means; k-means on clipped columns, which outliers do not attract; and the same without the tenth of the rows that
    is farthest from its centers. Equal partitions are returned once. With more columns than rows the partition of
    `least_inertia` alone.

    Examples
    --------
    >>> X = np.random.RandomState(0).standard_normal((20, 2)) + np.repeat([[0], [9]], 10, axis=0)
    >>> list(clusterings(X, np.ones(20), 2, np.random.RandomState(0)))
    ['kmeans', 'trimmed']
    >>> list(clusterings(X.T, np.ones(2), 2, np.random.RandomState(0)))
    ['least inertia']
    """
    if X.shape[1] > len(X):
        return {"least inertia": least_inertia(X, weights, n_components, rng)}
    clipped = clip(X)
    plain = kmeans(X, weights, n_components, rng, _RESTARTS)
    robust = kmeans(clipped, weights, n_components, rng, _RESTARTS)
    same = np.count_nonzero(plain.T @ robust) == n_components
    found = {"kmeans": plain} if same else {"kmeans": plain, "clipped": robust}
    return {**found, "trimmed": trimmed(X, clipped, weights, robust)}


def by_ranks(X: FloatArray, weights: FloatArray, n_components: int, rng: np.random.RandomState) -> FloatArray:
    """K-means on the normal scores of the columns, which are insensitive to skew and outliers."""
    return kmeans(normal_scores(X, weights), weights, n_components, rng, _RESTARTS)


def normal_scores(X: FloatArray, weights: FloatArray) -> FloatArray:
    """Columns with each value replaced by the normal quantile of its weighted mid-rank.

    Examples
    --------
    >>> normal_scores(np.array([[0.0], [1], [1], [50]]), np.ones(4)).round(2).ravel()
    array([-1.15,  0.  ,  0.  ,  1.15])
    """
    scores = np.empty_like(X)
    for j, column in enumerate(X.T):
        _, place = np.unique(column, return_inverse=True)
        weight = np.bincount(place, weights)
        scores[:, j] = ndtri((np.cumsum(weight) - weight / 2) / weight.sum())[place]
    return scores


def seeds(X: FloatArray, weights: FloatArray, n_components: int, rng: np.random.RandomState) -> dict[str, FloatArray]:
    """Partitions by the nearest of k-means++ seeds, which differ more than those of k-means.

    By turns they are drawn among the whitened rows, where a cluster need not be round, and in two of the columns, as
    clusters may be apart in a few columns only.
    """
    scores, variances = principal_scores(X, weights)
    white = scores / np.sqrt(variances)
    found = {}
    for i in range(1, SEEDS + 1):
        space = white if i % 2 else X[:, rng.permutation(X.shape[1])[:2]]
        labels = nearest_seed(space, weights, n_components, rng)
        found[f"seeds {i}"] = filled(labels, X, weights, n_components)
    return found


def nearest_seed(X: FloatArray, weights: FloatArray, n_components: int, rng: np.random.RandomState) -> IntArray:
    """Number of the nearest of G rows, each drawn by its weight times its squared distance from those before."""
    # scikit-learn's k-means++ compares several draws for each seed: better seeds, but less diverse, in ten times the
    # time on small data.
    labels = np.zeros(len(X), dtype=np.intp)
    away = np.full(len(X), np.inf)
    chance = weights.astype(float)
    for g in range(n_components):
        sums = np.cumsum(chance)  # what rng.choice does, without its checks: a third of the time
        row = int(np.searchsorted(sums, rng.random_sample() * sums[-1], side="right"))
        gaps = X - X[min(row, len(X) - 1)]
        square = np.einsum("ij,ij->i", gaps, gaps)
        labels[square < away] = g
        away = np.minimum(away, square)
        chance = weights * away if (weights * away).any() else weights.astype(float)
    return labels


def least_inertia(X: FloatArray, weights: FloatArray, n_components: int, rng: np.random.RandomState) -> FloatArray:
    """The best partition, for the objective of k-means, of three searches.

    K-means from ten starts, and k-means continued from its partition in the leading principal components and from
    Ward's. The rows are replaced by their principal components, which have the same distances.
    """
    scores, _ = principal_scores(X, weights)
    firsts = [
        kmeans(scores, weights, n_components, rng, _WIDE_RESTARTS),
        kmeans(scores[:, :_AXES], weights, n_components, rng, _WIDE_RESTARTS),
        hierarchical(scores, weights, n_components, rng),
    ]
    ends = [firsts[0], *(kmeans(scores, weights, n_components, rng, first=z) for z in firsts[1:])]
    return min(ends, key=lambda z: inertia(scores, weights, z))


def inertia(X: FloatArray, weights: FloatArray, z: FloatArray) -> float:
    """Weighted sum of squared distances of the rows from the centers of hard responsibilities z."""
    gaps = X - (z @ centers(X, weights, z))
    return float(weights @ np.einsum("ij,ij->i", gaps, gaps))


def clip(X: FloatArray) -> FloatArray:
    """Columns clipped at their median ± 3 robust deviations; one that is mostly a single value stays as it is."""
    median = np.median(X, axis=0)
    reach = _CLIP * _NORMAL * np.median(np.abs(X - median), axis=0)
    reach[reach == 0] = np.inf
    return np.clip(X, median - reach, median + reach)


def far_cells(X: FloatArray) -> float:
    """Share of the cells that `clip` changes."""
    return float((clip(X) != X).mean())


def trimmed(X: FloatArray, clipped: FloatArray, weights: FloatArray, z: FloatArray) -> FloatArray:
    """Responsibilities that are 0 for the tenth of the rows farthest from its center, unless a cluster would vanish.

    The centers are those of the clipped rows; distances are those of the rows themselves.
    """
    gaps = X - (z @ centers(clipped, weights, z))
    order = np.argsort(np.einsum("ij,ij->i", gaps, gaps), kind="stable")
    far = order[np.cumsum(weights[order]) > (1 - _TRIM) * weights.sum()]
    kept = z.copy()
    kept[far] = 0
    return kept if (weights @ kept > 0).all() else z
