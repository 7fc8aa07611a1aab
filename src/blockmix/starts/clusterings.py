"""Clusterings: first partitions of the rows, as responsibilities z, shape (N, G) (paper, section 3, first step of EM).

K-means and its relatives on standardized rows, and labels or responsibilities from the user, checked. With more columns
than rows EM stays where it begins and its likelihood cannot judge, so the partition of least inertia is chosen here.
"""

from __future__ import annotations

import threading
import warnings
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin

from blockmix.blocks.moments import normal_scores
from blockmix.em.loop import Family, P, S, Start
from blockmix.partition import FloatArray, IntArray

SEEDS = 24  # drawn partitions: on Olive k-means never leads to the best mixture, and one in ten of these does
_RESTARTS = 3  # of k-means where EM goes on from it
_WIDE_RESTARTS = 10  # of k-means where EM does not leave it
_AXES = 5  # principal components that k-means is run on where columns outnumber rows
_BIMODAL = 200  # columns that clusters of few rows are looked for in
_REWEIGHTED = 6  # times at most
_SORTED = 2**22  # numbers that are sorted at once: 200 MB
_CLIP = 3.0  # deviations, estimated by the median absolute deviation, beyond which values are clipped
_NORMAL = 1.4826  # deviation of a normal variable in units of its median absolute deviation
_TRIM = 0.1  # weight of the farthest rows that the first M-step leaves out
_ROUNDING = 1e-5  # by how much given responsibilities may miss a sum of one: float32 arithmetic stays well below


def plain_starts(
    init: str | ArrayLike,
    family: Family[P, S],
    rows: Any,
    n_components: int,
    n_init: int,
    tol: float,
    rng: np.random.RandomState,
) -> list[Start[P]]:
    """Starts of the EM loop from k-means, or from labels (N,) or responsibilities (N, G) of all rows."""
    begin = partial(family.first, rows, tolerance=max(tol, family.loose))
    if not isinstance(init, str):
        z = given(init, rows.n_rows, n_components, rows.dtype)
        if rows.is_array:
            empty = np.flatnonzero(rows.weights @ z == 0)
            if len(empty):
                raise ValueError(
                    f"component {empty[0]} of init has no rows: give each component some, or lower n_components"
                )
        return [Start("given", partial(begin, z))]
    if n_components == 1:
        return [Start("one component", partial(begin, np.ones((rows.n_rows, 1), dtype=rows.dtype)))]
    # A missing value is at the mean of its column.
    standard = np.nan_to_num((rows.X - rows.location) / rows.scale)
    different, weights, place = distinct(standard, rows.weights, n_components)
    clusterings = [kmeans(different, weights, n_components, rng)[place] for _ in range(n_init)]
    return [Start(f"kmeans {i}", partial(begin, z)) for i, z in enumerate(clusterings, start=1)]


def given(init: ArrayLike, n_rows: int, n_components: int, dtype: np.dtype[np.floating]) -> FloatArray:
    """Responsibilities from an array of labels or responsibilities, checked.

    Examples
    --------
    >>> given(["a", "b", "b"], 3, 2, np.float64)
    array([[1., 0.], [0., 1.], [0., 1.]])
    """
    values = np.asarray(init)
    if values.shape == (n_rows,):
        return np.eye(n_components, dtype=dtype)[_codes(values, n_components)]
    if values.shape == (n_rows, n_components):
        return _from_responsibilities(values, dtype)
    shapes = f"labels of shape ({n_rows},) or responsibilities of shape ({n_rows}, {n_components})"
    raise ValueError(f"init has shape {values.shape}: give {shapes}, or a name")


def _codes(labels: np.ndarray, n_components: int) -> IntArray:
    """Labels as numbers from 0 to G − 1."""
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        row = int(np.argmin(np.isfinite(labels)))
        raise ValueError(
            f"init has {labels[row]} in row {row}, which is not a label: give every row an integer or a name"
        )
    values, codes = np.unique(labels, return_inverse=True)
    if len(values) != n_components:
        raise ValueError(f"init has {len(values)} different labels, n_components is {n_components}: make them equal")
    return np.asarray(codes)


def _from_responsibilities(init: np.ndarray, dtype: np.dtype[np.floating]) -> FloatArray:
    try:
        z: FloatArray = init.astype(float)
    except (TypeError, ValueError):
        raise ValueError(f"init holds {init.dtype}, not numbers: give responsibilities between 0 and 1") from None
    for wrong, reason in ((~np.isfinite(z), "not finite"), (z < 0, "negative")):
        if wrong.any():
            row, g = np.argwhere(wrong)[0]
            raise ValueError(f"init[{row}, {g}] is {z[row, g]:g}, {reason}: give responsibilities between 0 and 1")
    sums = z.sum(axis=1)
    row = int(np.argmax(np.abs(sums - 1)))
    if abs(sums[row] - 1) > _ROUNDING:
        raise ValueError(f"row {row} of init sums to {sums[row]:g}: divide each row of responsibilities by its sum")
    z /= sums[:, None]
    return z.astype(dtype)


# A tree needs all distances between its rows: 2000 rows are 32 MB and 0.2 s, and show the same clusters as all of them.
_TREE_ROWS = 2000
# K-means takes two copies of its rows: of 1 000 000 × 50 its start took 2.3 GB, with a part of the rows 1.6 GB. Centers
# of 10 000 rows each have a standard error of 0.01 deviations, so more would not change where EM begins.
_MEANS_ROWS = 100_000
# Changing the filters of warnings is not safe on threads, and starts may run on several.
_quiet = threading.Lock()


def distinct(X: FloatArray, weights: FloatArray, n_components: int) -> tuple[FloatArray, FloatArray, IntArray]:
    """Different rows that count, in an order of their own, their total weights, and the place of each row of X there.

    Starts draw rows by position. From these rows a start depends neither on the order of the rows of X nor on whether
    a row is repeated or weighs double. The order is by length, which permuting or reflecting columns does not change.
    Rows of weight 0, which decide nothing, have place 0. Fewer different rows than components are left as they are.

    Examples
    --------
    >>> distinct(np.array([[3.0], [1.0], [3.0]]), np.ones(3), 2)
    (array([[1.], [3.]]), array([1., 2.]), array([1, 0, 1]))
    """
    lengths = np.einsum("ij,ij->i", X, X)
    order = np.flatnonzero(weights > 0)
    order = order[np.argsort(lengths[order], kind="stable")]
    tied = np.zeros(len(order) + 1, dtype=bool)  # a row and the one before
    tied[1:-1] = lengths[order[1:]] == lengths[order[:-1]]
    among = order[tied[:-1] | tied[1:]]
    order[tied[:-1] | tied[1:]] = among[np.lexsort((*X[among].T, lengths[among]))]
    again = tied[:-1]
    again[again] = (X[order[again]] == X[order[np.flatnonzero(again) - 1]]).all(axis=1)
    if len(order) - again.sum() < n_components:
        return X, weights, np.arange(len(X))
    place = np.zeros(len(X), dtype=np.intp)
    place[order] = np.cumsum(~again) - 1
    return X[order[~again]], np.bincount(place[order], weights[order]).astype(X.dtype), place


def kmeans(
    X: FloatArray,
    weights: FloatArray,
    n_components: int,
    rng: np.random.RandomState,
    restarts: int = 1,
    first: FloatArray | None = None,
) -> FloatArray:
    """Hard responsibilities of k-means from a k-means++ start, as in the paper; centers from at most 100 000 rows.

    Of several restarts the one of least inertia is kept. With hard responsibilities `first` it goes on from there.
    """
    begin: Any = "k-means++" if first is None else centers(X, weights, first)
    search = KMeans(n_components, init=begin, n_init=restarts if first is None else 1, random_state=rng)
    every = -(-len(X) // _MEANS_ROWS)
    with _quiet, warnings.catch_warnings():
        # Fewer distinct rows than components: the empty clusters are filled below.
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(X[::every], sample_weight=weights[::every])
    labels = search.labels_ if every == 1 else search.predict(X)
    if len(np.unique(labels[weights > 0])) == n_components:
        return np.asarray(np.eye(n_components, dtype=X.dtype)[labels])
    return filled(labels, X, weights, n_components)


def hierarchical(X: FloatArray, weights: FloatArray, n_components: int, rng: np.random.RandomState) -> FloatArray:
    """Ward's tree on at most 2000 rows, cut into G clusters; the other rows go to the nearest center."""
    heavy = np.flatnonzero(weights > 0)
    if len(heavy) < n_components:
        return filled(np.zeros(len(X), dtype=np.intp), X, weights, n_components)
    if len(heavy) > _TREE_ROWS:
        heavy = np.sort(rng.choice(heavy, _TREE_ROWS, replace=False))
    cut_labels = ward(X[heavy], weights[heavy], n_components)
    middles = centers(X[heavy], weights[heavy], np.eye(n_components, dtype=X.dtype)[cut_labels])
    labels = pairwise_distances_argmin(X, middles).astype(np.intp)
    labels[heavy] = cut_labels
    return filled(labels, X, weights, n_components)


def principal_scores(X: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Principal components of weighted rows and their variances, largest first, shapes (N, r) and (r,).

    Through the smaller of the p × p covariance and the N × N Gram matrix. Directions without variance are left out;
    without weights of 0 the distances between rows are those of X.
    """
    total = weights.sum(dtype=float)
    centered = X - ((weights.astype(X.dtype) @ X) / X.dtype.type(total))
    root = np.sqrt(weights / total).astype(X.dtype)[:, None]
    if X.shape[0] < X.shape[1]:
        values, vectors = eigh((root * centered) @ (root * centered).T)
        axes = centered.T @ (root * vectors)
    else:
        values, axes = eigh((root * centered).T @ (root * centered))
    kept = np.flatnonzero(values > 32 * len(values) * np.finfo(X.dtype).eps * values[-1])[::-1]
    if len(kept) == 0:
        return np.zeros((len(X), 1), dtype=X.dtype), np.ones(1, dtype=X.dtype)
    axes = axes[:, kept] / np.linalg.norm(axes[:, kept], axis=0)
    return centered @ axes, values[kept]


def ward(X: FloatArray, weights: FloatArray, n_clusters: int) -> IntArray:
    """Labels of Ward's tree on weighted rows, cut into exactly n_clusters, by chains of nearest neighbors.

    Two clusters are w_i w_j / (w_i + w_j) ‖m_i − m_j‖² apart, the variation that their merger adds. SciPy's tree has no
    weights.
    """
    w = weights.astype(float)
    squares = np.einsum("ij,ij->i", X, X, dtype=float)
    apart = np.maximum(squares[:, None] + squares - 2 * (X @ X.T), 0) * (w[:, None] * w / (w[:, None] + w))
    np.fill_diagonal(apart, np.inf)
    merged: list[tuple[float, int, int]] = []
    chain: list[int] = []
    alive = np.ones(len(X), dtype=bool)
    while len(merged) < len(X) - 1:
        chain = chain or [int(np.argmax(alive))]
        i = chain[-1]
        j = int(np.argmin(apart[i]))
        if len(chain) == 1 or apart[i, j] < apart[i, chain[-2]]:
            chain.append(j)
            continue
        # The last two are nearest to each other: i takes in j, whose row and column are closed.
        j = chain[-2]
        del chain[-2:]
        merged.append((apart[i, j], i, j))
        apart[i] = ((w[i] + w) * apart[i] + (w[j] + w) * apart[j] - w * apart[i, j]) / (w[i] + w[j] + w)
        apart[i, [i, j]] = np.inf
        apart[:, i] = apart[i]
        apart[j] = apart[:, j] = np.inf
        w[i] += w[j]
        alive[j] = False
    # Mergers are edges of a spanning tree, so the lowest n − G of them leave exactly G clusters, whatever the ties.
    lowest = sorted(range(len(merged)), key=lambda k: merged[k][0])[: len(X) - n_clusters]
    edges = np.array([merged[k][1:] for k in lowest], dtype=np.intp).reshape(-1, 2).T
    links = coo_array((np.ones(edges.shape[1]), (edges[0], edges[1])), shape=(len(X), len(X)))
    labels: IntArray = connected_components(links, directed=False)[1].astype(np.intp)
    return labels


def centers(X: FloatArray, weights: FloatArray, z: FloatArray) -> FloatArray:
    """Weighted means of the rows of each component of responsibilities z (N, G), shape (G, p)."""
    share = z * weights.astype(X.dtype)[:, None]
    return np.asarray((share.T @ X) / share.sum(axis=0)[:, None])


def filled(labels: IntArray, X: FloatArray, weights: FloatArray, n_components: int) -> FloatArray:
    """Hard responsibilities in which no cluster is empty: the row farthest from its center moves to an empty one.

    Only rows that count (weight above 0) fill a cluster, as long as there are enough of them.
    """
    counted = weights > 0 if np.count_nonzero(weights) >= n_components else np.ones(len(X), dtype=bool)
    labels = np.array(labels, dtype=np.intp)
    sizes = np.bincount(labels[counted], minlength=n_components)
    while (sizes == 0).any():
        empty = int(np.argmin(sizes))
        z = np.eye(n_components, dtype=X.dtype)[labels] * counted[:, None]
        shift = X - ((z.T @ X) / np.maximum(sizes, 1).astype(X.dtype)[:, None])[labels]
        distances = np.where(counted & (sizes[labels] > 1), np.einsum("ij,ij->i", shift, shift), -1)
        labels[int(np.argmax(distances))] = empty
        sizes = np.bincount(labels[counted], minlength=n_components)
    return np.eye(n_components, dtype=X.dtype)[labels]


def clusterings(
    X: FloatArray, weights: FloatArray, n_components: int, rng: np.random.RandomState
) -> dict[str, FloatArray]:
    """Partitions for EM to begin with, by name.

    K-means; k-means on clipped columns, which outliers do not attract; and the same without the tenth of the rows that
    is farthest from its centers. With more columns than rows, counting repeated ones, `least_inertia`, and k-means and
    Ward on the most bimodal columns, each continued `by_weighted_columns`. Equal partitions are returned once.

    Examples
    --------
    >>> X = np.random.RandomState(0).standard_normal((20, 2)) + np.repeat([[0], [9]], 10, axis=0)
    >>> list(clusterings(X, np.ones(20), 2, np.random.RandomState(0)))
    ['kmeans', 'trimmed']
    >>> list(clusterings(X.T, np.ones(2), 2, np.random.RandomState(0)))
    ['least inertia']
    """
    if X.shape[1] > weights.sum():
        some = X[:, bimodal(X, weights)]
        wide = {
            "least inertia": least_inertia(X, weights, n_components, rng),
            "bimodal columns": kmeans(some, weights, n_components, rng, _WIDE_RESTARTS),
            "bimodal tree": hierarchical(some, weights, n_components, rng),
        }
        return unequal({name: by_weighted_columns(X, weights, z, rng) for name, z in wide.items()})
    clipped = clip(X)
    plain = kmeans(X, weights, n_components, rng, _RESTARTS)
    robust = kmeans(clipped, weights, n_components, rng, _RESTARTS)
    partitions = unequal({"kmeans": plain, "clipped": robust})
    return {**partitions, "trimmed": trimmed(X, clipped, weights, robust)}


def unequal(partitions: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """The first of each partition, whatever the numbers of its clusters."""
    kept: dict[str, FloatArray] = {}
    for name, z in partitions.items():
        if all(np.count_nonzero(z.T @ other) > z.shape[1] for other in kept.values()):
            kept[name] = z
    return kept


def bimodal(X: FloatArray, weights: FloatArray) -> IntArray:
    """The 200 columns of which one cut explains the largest share of the variance, as it does of a mixture of two.

    A cut after n of N sorted rows explains S² N / (n (N − n)), where S is the sum of the first n deviations.

    Examples
    --------
    >>> X = np.array([[0.0, 0], [1, 0], [2, 9], [3, 9]])
    >>> bimodal(X, np.ones(4))
    array([1, 0])
    """
    parts = np.array_split(X, -(-X.size // _SORTED) or 1, axis=1)
    share = np.concatenate([_explained(part, weights.astype(float)) for part in parts])
    return np.asarray(np.argsort(-share, kind="stable")[:_BIMODAL])


def by_weighted_columns(X: FloatArray, weights: FloatArray, z: FloatArray, rng: np.random.RandomState) -> FloatArray:
    """K-means on the 200 columns that the partition z explains best, and so on from its own until it is the same.

    A column counts by the share of its variance that is explained, less the share of the last (sparse k-means, Witten
    and Tibshirani 2010).

    Examples
    --------
    >>> X = np.array([[0.0, 0, 3], [1, 0, 2], [2, 9, 1], [3, 9, 0]])
    >>> z = np.eye(2)[[0, 0, 0, 1]]
    >>> labels = by_weighted_columns(X, np.ones(4), z, np.random.RandomState(0)).argmax(axis=1)
    >>> (labels == labels[0]).tolist()
    [True, True, False, False]
    """
    deviations = X - (weights @ X) / weights.sum()
    total = np.maximum(weights @ deviations**2, np.finfo(X.dtype).tiny)
    for _ in range(_REWEIGHTED):
        if not (weights @ z).all():  # a cluster has no center
            return z
        share = ((weights @ z) @ centers(deviations, weights, z) ** 2) / total
        some = np.argsort(-share, kind="stable")[:_BIMODAL]
        scale = np.sqrt(share[some] - share[some[-1]])
        if not scale.any():
            return z
        before, z = z, kmeans(deviations[:, some] * scale, weights, z.shape[1], rng, _WIDE_RESTARTS)
        if np.count_nonzero(before.T @ z) == z.shape[1]:
            return z
    return z


def _explained(X: FloatArray, weights: FloatArray) -> FloatArray:
    """Largest share of the variance of each column that one cut explains, shape (p,)."""
    order, total = np.argsort(X, axis=0, kind="stable"), float(weights.sum())
    w = weights[order]
    deviations = np.take_along_axis(X, order, axis=0) - (weights @ X) / total
    below = np.cumsum(w, axis=0)[:-1]
    sums = np.cumsum(w * deviations, axis=0)[:-1]
    inside = (below > 0) & (below < total)
    between = np.where(inside, total * sums**2, 0.0) / np.where(inside, below * (total - below), 1.0)
    share = between.max(axis=0) / np.maximum((w * deviations**2).sum(axis=0), np.finfo(float).tiny)
    return np.asarray(share)


def by_ranks(X: FloatArray, weights: FloatArray, n_components: int, rng: np.random.RandomState) -> FloatArray:
    """K-means on the normal scores of the columns, which are insensitive to skew and outliers."""
    return kmeans(normal_scores(X, weights), weights, n_components, rng, _RESTARTS)


def seeds(X: FloatArray, weights: FloatArray, n_components: int, rng: np.random.RandomState) -> dict[str, FloatArray]:
    """Partitions by the nearest of k-means++ seeds, which differ more than those of k-means.

    By turns they are drawn among the whitened rows, where a cluster need not be round, and in two of the columns, as
    clusters may be apart in a few columns only.
    """
    scores, variances = principal_scores(X, weights)
    white = scores / np.sqrt(variances)
    partitions = {}
    for i in range(1, SEEDS + 1):
        space = white if i % 2 else X[:, rng.permutation(X.shape[1])[:2]]
        labels = nearest_seed(space, weights, n_components, rng)
        partitions[f"seeds {i}"] = filled(labels, X, weights, n_components)
    return partitions


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
        shift = X - X[min(row, len(X) - 1)]
        square = np.einsum("ij,ij->i", shift, shift)
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
    shift = X - (z @ centers(X, weights, z))
    return float(weights @ np.einsum("ij,ij->i", shift, shift))


def clip(X: FloatArray) -> FloatArray:
    """Columns clipped at their median ± 3 robust deviations; one that is mostly a single value stays as it is."""
    median = np.median(X, axis=0)
    reach = _CLIP * _NORMAL * np.median(np.abs(X - median), axis=0)
    reach[reach == 0] = np.inf
    return np.clip(X, median - reach, median + reach)


def trimmed(X: FloatArray, clipped: FloatArray, weights: FloatArray, z: FloatArray) -> FloatArray:
    """Responsibilities that are 0 for the tenth of the rows farthest from its center, unless a cluster would vanish.

    The centers are those of the clipped rows; distances are those of the rows themselves.
    """
    share = z * weights.astype(X.dtype)[:, None]
    shift = X - z @ ((share.T @ clipped) / share.sum(axis=0)[:, None])
    order = np.argsort(np.einsum("ij,ij->i", shift, shift), kind="stable")
    far = order[np.cumsum(weights[order]) > (1 - _TRIM) * weights.sum()]
    kept = z.copy()
    kept[far] = 0
    return kept if (weights @ kept > 0).all() else z
