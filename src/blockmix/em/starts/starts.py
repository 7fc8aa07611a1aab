"""Starts: initial responsibilities of the components (paper, section 3, first step of EM).

Standardized rows and weights come in; responsibilities z, shape (N, G), go out, in which no component is empty. One
start repeated ten times is still one start: `portfolio` names diverse ones, of which EM keeps the best.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin

from blockmix.em.starts import annealing
from blockmix.em.starts.given import given, one_hot
from blockmix.structure.types import FloatArray, IntArray

Start = Callable[[FloatArray, FloatArray, int, np.random.RandomState], FloatArray]

# A tree needs all distances between its rows: 2000 rows are 32 MB and 0.2 s, and show the same clusters as all of them.
_TREE_ROWS = 2000
# K-means takes two copies of its rows: of 1 000 000 × 50 its start took 2.3 GB, with a part of the rows 1.6 GB. Centers
# of 10 000 rows each have a standard error of 0.01 deviations, so more would not change where EM begins.
_MEANS_ROWS = 100_000
# Changing the filters of warnings is not safe on threads, and starts may run on several.
_quiet = threading.Lock()


def start(
    init: str | ArrayLike, X: FloatArray, weights: FloatArray, n_components: int, rng: np.random.RandomState
) -> FloatArray:
    """Initial responsibilities from the name of a start, from labels or from responsibilities.

    Parameters
    ----------
    init : str or array-like of shape (N,) or (N, G)
        A name in `STARTS`; one label per row, G different values in all; or one responsibility per row and component.
    X : array of shape (N, p)
        Standardized rows.
    weights : array of shape (N,)
        How often a row counts. Rows of weight 0 are assigned but decide nothing.
    n_components : int
        Number of components G.
    rng : RandomState
        Source of randomness; equal states give equal starts.

    Returns
    -------
    z : array of shape (N, G), of the type of X

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [5.0]])
    >>> start("kmeans", X, np.ones(3), 2, np.random.RandomState(0))[:, 0]
    array([1., 1., 0.])
    >>> start(["a", "b", "b"], X, np.ones(3), 2, np.random.RandomState(0))
    array([[1., 0.], [0., 1.], [0., 1.]])
    """
    if n_components > len(X):
        raise ValueError(f"n_components={n_components} exceeds the {len(X)} rows of X: ask for fewer components")
    if not isinstance(init, str):
        return _given(np.asarray(init), X, weights, n_components)
    if init not in STARTS:
        raise ValueError(f"init={init!r} must be one of {', '.join(STARTS)}, or an array of labels or responsibilities")
    if n_components == 1:
        return np.ones((len(X), 1), dtype=X.dtype)
    return STARTS[init](X, weights, n_components, rng)


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


def portfolio(N: int, p: int) -> list[str]:
    """Names of the starts to be tried one beside the other, a name as often as it is worth another draw.

    Seeds and random guesses find what k-means cannot: elongated clusters, or ones that share a center (Olive with one
    block: the five best of 120 runs have ARI 1.00 from either, 0.83 to 0.85 from k-means). With p > N plain EM never
    leaves its start; annealed runs do, and come first.

    Examples
    --------
    >>> portfolio(100, 5)[:4]
    ['kmeans', 'whitened', 'hierarchical', 'kmeans++']
    >>> portfolio(50, 100)[0]
    'annealed'
    """
    diverse = ["kmeans", "whitened", "hierarchical", *["kmeans++"] * 5]
    return ["annealed", "annealed", *diverse] if p > N else [*diverse, *["random"] * 8]


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
    return filled(labels, X, weights, n_components)


def seeded(X: FloatArray, weights: FloatArray, n_components: int, rng: np.random.RandomState) -> FloatArray:
    """Hard responsibilities of the nearest k-means++ seed: k-means before its first step, and so more diverse."""
    seeds, _ = kmeans_plusplus(X, n_components, sample_weight=weights, random_state=rng)
    return filled(pairwise_distances_argmin(X, seeds), X, weights, n_components)


def scattered(X: FloatArray, weights: FloatArray, n_components: int, rng: np.random.RandomState) -> FloatArray:
    """Responsibilities drawn evenly from the simplex.

    After EM the best of five had a higher likelihood than the best of five random partitions (Wine −2223 against −2234,
    Olive −2418 against −2429).
    """
    z = rng.dirichlet(np.ones(n_components), len(X)).astype(X.dtype)
    return _all_present(z, X, weights)


def whitened(X: FloatArray, weights: FloatArray, n_components: int, rng: np.random.RandomState) -> FloatArray:
    """K-means on principal components of unit variance, where a cluster need not be round.

    The components are those that exceed the mean variance, and at least as many as G centers can span.
    """
    scores, variances = principal_scores(X, weights)
    kept = max(n_components, int((variances > variances.sum() / X.shape[1]).sum()))
    return kmeans(scores[:, :kept] / np.sqrt(variances[:kept]), weights, n_components, rng)


def hierarchical(X: FloatArray, weights: FloatArray, n_components: int, rng: np.random.RandomState) -> FloatArray:
    """Ward's tree on at most 2000 rows, cut into G clusters; the other rows go to the nearest center."""
    heavy = np.flatnonzero(weights > 0)
    if len(heavy) < n_components:
        return filled(np.zeros(len(X), dtype=np.intp), X, weights, n_components)
    if len(heavy) > _TREE_ROWS:
        heavy = np.sort(rng.choice(heavy, _TREE_ROWS, replace=False))
    found = ward(X[heavy], weights[heavy], n_components)
    middles = centers(X[heavy], weights[heavy], one_hot(found, n_components, X.dtype))
    labels = pairwise_distances_argmin(X, middles).astype(np.intp)
    labels[heavy] = found
    return filled(labels, X, weights, n_components)


def annealed(X: FloatArray, weights: FloatArray, n_components: int, rng: np.random.RandomState) -> FloatArray:
    """Annealed EM from random responsibilities (see `blockmix.em.starts.annealing`), for more columns than rows."""
    return _all_present(annealing.annealed(X, weights, n_components, rng), X, weights)


STARTS: dict[str, Start] = {
    "kmeans": kmeans,
    "kmeans++": seeded,
    "random": scattered,
    "whitened": whitened,
    "hierarchical": hierarchical,
    "annealed": annealed,
}


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
        z = one_hot(labels, n_components, X.dtype) * counted[:, None]
        gap = X - ((z.T @ X) / np.maximum(sizes, 1).astype(X.dtype)[:, None])[labels]
        far = np.where(counted & (sizes[labels] > 1), np.einsum("ij,ij->i", gap, gap), -1)
        labels[int(np.argmax(far))] = empty
        sizes = np.bincount(labels[counted], minlength=n_components)
    return one_hot(labels, n_components, X.dtype)


def _all_present(z: FloatArray, X: FloatArray, weights: FloatArray) -> FloatArray:
    """The responsibilities themselves if each component is the largest of some row, otherwise hard and filled."""
    labels = z.argmax(axis=1)
    present = np.unique(labels[weights > 0])
    return z if len(present) == z.shape[1] else filled(labels, X, weights, z.shape[1])


def _given(init: np.ndarray, X: FloatArray, weights: FloatArray, n_components: int) -> FloatArray:
    """Responsibilities from an array of labels or responsibilities, in which every component has rows that count."""
    z = given(init, len(X), n_components, X.dtype)[:]
    alone = np.flatnonzero(weights @ z == 0)
    if len(alone):
        raise ValueError(f"component {alone[0]} of init has no rows: give each component some, or lower n_components")
    return z
