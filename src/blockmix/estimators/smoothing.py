"""Smoothing: vectors of words and documents, and the mixture of topics in their space (paper, section 3.4).

Each word has a vector from the words it occurs with, each document the mean of its words' vectors, and the smoothed
weight of a term in a document is the product of the two, y_it = z_iᵀ v_t. The mixture is the paper's on the columns of
Y. These have the rank d of the vectors, so EM runs on the N × d matrix z and Y is never formed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, sqrt
from typing import Any

import numpy as np
from scipy import sparse
from scipy.cluster.hierarchy import linkage
from scipy.linalg import eigh
from scipy.optimize import brentq
from scipy.special import softmax
from sklearn.metrics import pairwise_distances_argmin
from sklearn.metrics.cluster import contingency_matrix
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import randomized_svd

from blockmix.grouping.grouping import cut
from blockmix.partition import FloatArray, IntArray
from blockmix.starts.clusterings import centers, kmeans

_DIMENSIONS = 100
_DENSE = 400  # words up to which all eigenvectors are computed
_STARTS = 20  # of k-means: with 20 the topics of two seeds agree better than with 5
_START_ROWS = 5000  # documents that the starts are compared on
_TOL = 0.1  # rise of the log-likelihood per document at which EM stops; see ADR 5
_MAX_ITER = 50
_FLOOR = 1e-9  # least variance within topics, relative to the largest overall
_HALF = 3000  # documents of a half, at most
_HOTTEST = 1e6
_STRETCH = 0.5
_TERMS_PER_GROUP = 10  # on average, where groups of several fits are compared
_LEAST_STABLE = 3


def word_vectors(counts: Any, rng: np.random.RandomState) -> FloatArray:
    """Vectors of words from their co-occurrence, shape (v, d), d ≤ 100: rows of U |D|^½ for P ≈ U D Uᵀ.

    P_st = max(0, log(c_st c / (c_s c_t))), where c_st is the number of documents that hold both words, s ≠ t, and c_s
    and c are its sums.
    """
    kind = np.float64 if counts.shape[1] <= _DENSE else np.float32
    holds = sparse.csr_array((np.ones(counts.nnz, dtype=kind), counts.indices, counts.indptr), shape=counts.shape)
    together = (holds.T @ holds).toarray()
    np.fill_diagonal(together, 0)
    sums = together.sum(axis=0, dtype=float).astype(kind)
    with np.errstate(divide="ignore", invalid="ignore"):  # words that occur alone, and pairs that never meet
        P = np.log(together) + np.log(sums.sum()) - np.log(sums) - np.log(sums)[:, None]
    P = np.nan_to_num(np.maximum(P, 0), posinf=0)
    if not P.any():
        raise ValueError("no two words occur together more often than by chance: give longer texts or smoothing=False")
    if len(P) <= _DENSE:
        values, U = eigh(P)
        largest = np.argsort(-np.abs(values), kind="stable")[:_DIMENSIONS]
        values, U = np.abs(values[largest]), U[:, largest]
    else:
        # Lanczos iterations take five times as long, for directions at the end of the spectrum that matter little.
        U, values, _ = randomized_svd(P, _DIMENSIONS, n_oversamples=50, n_iter=5, random_state=rng)
    return np.asarray(U * np.sqrt(values), dtype=float)


@dataclass(frozen=True, eq=False)
class Space:
    """Turns the weights of words in documents, or embeddings of documents, into vectors of unit length.

    Attributes
    ----------
    axes : array of shape (v, d)
        Vectors of the words or, for embeddings with v columns, their principal axes.
    mean : array of shape (d,)
        Mean over the documents before scaling to unit length.
    """

    axes: FloatArray
    mean: FloatArray

    @classmethod
    def around(cls, rows: Any, axes: FloatArray) -> Space:
        """The space in which the mean of these rows is the origin."""
        return cls(axes, np.asarray(rows.mean(axis=0)).ravel() @ axes)

    def vectors(self, rows: Any) -> FloatArray:
        """z, shape (N, d), for the weights of words or the embeddings of unit length."""
        return np.asarray(normalize(rows @ self.axes - self.mean, copy=False))


def principal_axes(E: FloatArray) -> FloatArray:
    """The first 100 principal axes of the rows of E, shape (e, d)."""
    vectors = eigh(np.cov(E, rowvar=False, bias=True).reshape(E.shape[1], -1))[1]
    return np.asarray(vectors[:, ::-1][:, :_DIMENSIONS])


def rating_stretch(z: FloatArray, ratings: FloatArray) -> FloatArray:
    """I + ½ a aᵀ, shape (d, d), with a the unit vector of the covariances of z with the ratings.

    With it topics explain 0.46 and 0.51 (5 and 10 topics) of the variance of held-out ratings of hotels, without it
    0.39 and 0.49; of other hotels and of Disneyland more as well (experiments/studies/topics.md).
    """
    direction = (ratings - ratings.mean()) @ z
    length = max(float(np.linalg.norm(direction)), np.finfo(float).tiny)
    return np.asarray(np.eye(z.shape[1]) + _STRETCH * np.outer(direction / length, direction / length))


@dataclass(frozen=True, eq=False)
class SmoothMixture:
    """Mixture of topics with one block-diagonal covariance of the smoothed weights, in the space of the vectors.

    With S the covariance of z within topics and V_k the vectors of the terms of group k, the block of the group is
    Σ_k = V_k S V_kᵀ, and Σ_k (y_k − μ_k)ᵀ Σ_k⁺ (y_k − μ_k) = (z − m)ᵀ A (z − m) with A = Σ_k V_kᵀ Σ_k⁺ V_k.

    Attributes
    ----------
    weights, means, precision : arrays of shape (G,), (G, d), (d, d)
        π_g, m_g and A.
    temperature : float
        Log-odds are divided by it: the columns of Y repeat the same evidence.
    """

    weights: FloatArray
    means: FloatArray
    precision: FloatArray
    temperature: float = 1.0

    def log_joint(self, z: FloatArray) -> FloatArray:
        """Log-density of each topic up to a constant per document, log π_g + m_gᵀ A z − ½ m_gᵀ A m_g, shape (N, G)."""
        directions = self.means @ self.precision
        constants = np.log(np.maximum(self.weights, np.finfo(float).tiny)) - 0.5 * (directions * self.means).sum(axis=1)
        return np.asarray(z @ directions.T + constants)

    def predict_proba(self, z: FloatArray) -> FloatArray:
        """Probability of each topic, at the temperature of the mixture, shape (N, G)."""
        return np.asarray(softmax(self.log_joint(z) / self.temperature, axis=1))


def term_directions(V: FloatArray, S: FloatArray) -> FloatArray:
    """Unit vectors u_t whose products are the correlations of smoothed weights within topics, shape (p, d)."""
    values, vectors = eigh(S)
    return np.asarray(normalize(V @ (vectors * np.sqrt(np.maximum(values, 0)))))


def term_groups(directions: FloatArray, n_groups: int) -> IntArray:
    """Groups of terms by Ward's tree on √(2 (1 − r_st)), the distances of their directions; labels (p,)."""
    if len(directions) == 1:
        return np.zeros(1, dtype=np.intp)
    return cut(linkage(directions, "ward"), n_groups).labels


def precision(V: FloatArray, S: FloatArray, groups: IntArray, floor: float) -> tuple[FloatArray, float]:
    """A = Σ_k V_kᵀ Σ_k⁺ V_k, shape (d, d), and Σ_k log |Σ_k|₊; variances of z below the floor are raised to it."""
    values, vectors = eigh(S)
    scale = np.sqrt(np.maximum(values, floor))
    W = V @ (vectors * scale)  # Σ_k = W_k W_kᵀ, so that V_kᵀ Σ_k⁺ V_k is a projector in the coordinates of W
    projectors, log_determinant = np.zeros_like(S), 0.0
    for k in range(groups.max() + 1):
        block = W[groups == k]
        is_wide = len(block) <= len(S)
        squares, axes = eigh(block @ block.T if is_wide else block.T @ block)
        kept = squares > _FLOOR * max(squares[-1], np.finfo(float).tiny)
        axes = block.T @ (axes[:, kept] / np.sqrt(squares[kept])) if is_wide else axes[:, kept]
        projectors += axes @ axes.T
        log_determinant += float(np.log(squares[kept]).sum())
    back = vectors / scale
    return back @ projectors @ back.T, log_determinant


def fit_mixture(z: FloatArray, V: FloatArray, labels: IntArray, n_topics: int, n_groups: int) -> SmoothFit:
    """EM from these labels of the documents: groups from the start, EM, groups from its topics, EM.

    The log-likelihood per document never falls while the groups stay.
    """
    N, squares = len(z), z.T @ z
    floor = _FLOOR * float(eigh(squares / N, eigvals_only=True)[-1])
    responsibilities = np.eye(n_topics)[labels]

    def maximized() -> tuple[FloatArray, FloatArray, FloatArray]:
        sizes = responsibilities.sum(axis=0)
        means = (responsibilities.T @ z) / np.maximum(sizes, np.finfo(float).tiny)[:, None]
        return sizes / N, means, (squares - (means.T * sizes) @ means) / N

    (weights, means, S), traces = maximized(), []
    for _ in range(2):
        groups, trace = term_groups(term_directions(V, S), n_groups), [-np.inf]
        for _ in range(_MAX_ITER):
            A, log_determinant = precision(V, S, groups, floor)
            mixture = SmoothMixture(weights, means, A)
            joint = mixture.log_joint(z)
            top = joint.max(axis=1, keepdims=True)
            responsibilities = np.exp(joint - top)
            totals = responsibilities.sum(axis=1, keepdims=True)
            responsibilities /= totals
            mean = float((top + np.log(totals)).mean())
            trace.append(mean - 0.5 * float((A * squares).sum()) / N - 0.5 * log_determinant)
            if trace[-1] - trace[-2] < _TOL:
                break
            weights, means, S = maximized()
        traces.append(np.array(trace[1:]))
    return SmoothFit(mixture, groups, term_directions(V, S), tuple(traces))


@dataclass(frozen=True, eq=False)
class SmoothFit:
    """A fitted mixture and what belongs to it.

    Attributes
    ----------
    mixture : SmoothMixture
    groups : array of shape (p,)
        Groups of the terms.
    directions : array of shape (p, d)
        Directions of the terms.
    traces : tuple of arrays
        Log-likelihood per document at each iteration, between regroupings.
    space : Space or None
    vectors : array of shape (v, d) or None
        Vectors of all words.
    """

    mixture: SmoothMixture
    groups: IntArray
    directions: FloatArray
    traces: tuple[FloatArray, ...]
    space: Any = None
    vectors: Any = None


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents to fit: what a half of them shares with the whole.

    Attributes
    ----------
    counts, weights : sparse arrays of shape (N, v)
        Counts of words and their weights in rows of unit length.
    terms : array of shape (p,)
        The words that are columns of the mixture.
    emphasis : array of shape (v,)
        e_t: how much a word counts in the vector of a document.
    embeddings : array of shape (N, e) or None
        Rows of unit length that replace the weights.
    ratings : array of shape (N,) or None
        The direction that varies with them is stretched.
    """

    counts: Any
    weights: Any
    terms: IntArray
    emphasis: FloatArray
    embeddings: FloatArray | None = None
    ratings: FloatArray | None = None

    def part(self, rows: IntArray) -> Corpus:
        """Some of the documents."""
        given = {name: getattr(self, name) for name in ("counts", "weights", "embeddings", "ratings")}
        return replace(self, **{name: values[rows] for name, values in given.items() if values is not None})

    @property
    def rows(self) -> Any:
        """What `Space.vectors` takes."""
        return self.weights if self.embeddings is None else self.embeddings

    def space(self, rng: np.random.RandomState) -> tuple[Space, FloatArray]:
        """Space of the documents and the vectors v_t of all words in it, of unit length."""
        if self.embeddings is not None:
            space = Space.around(self.embeddings, principal_axes(self.embeddings))
            z = space.vectors(self.embeddings)
            return space, np.asarray(normalize(self.weights.T @ z))
        vectors = word_vectors(self.counts, rng)
        space = Space.around(self.weights, vectors * self.emphasis[:, None])
        if self.ratings is not None:
            stretch = rating_stretch(space.vectors(self.weights), self.ratings)
            space, vectors = Space(space.axes @ stretch, space.mean @ stretch), vectors @ stretch
        return space, np.asarray(normalize(vectors))

    def fit(self, n_topics: int, n_groups: int, rng: np.random.RandomState) -> SmoothFit:
        """Space and mixture of these documents."""
        space, V = self.space(rng)
        z = space.vectors(self.rows)
        fit = fit_mixture(z, V[self.terms], start(z, n_topics, rng), n_topics, n_groups)
        return replace(fit, space=space, vectors=V)


def start(z: FloatArray, n_topics: int, rng: np.random.RandomState) -> IntArray:
    """Labels of k-means on z, compared on at most 5000 documents; they do not depend on the order of the documents."""
    order = np.lexsort(np.round(z[:, :3], 9).T)
    part = order if len(z) <= _START_ROWS else rng.permutation(order)[:_START_ROWS]
    z = z.astype(np.float32)  # the starts need no more, and take half the time
    hard = kmeans(z[part], np.ones(len(part)), n_topics, rng, _STARTS)
    labels = np.empty(len(z), dtype=np.intp)
    labels[part] = hard.argmax(axis=1)
    if len(part) < len(z):
        middles = centers(z[part], np.ones(len(part)), hard)
        nearest = np.eye(n_topics, dtype=z.dtype)[pairwise_distances_argmin(z, middles)]
        labels = kmeans(z, np.ones(len(z)), n_topics, rng, first=nearest).argmax(axis=1)
    return labels


def halves(
    corpus: Corpus, n_topics: int, n_groups: int, rng: np.random.RandomState
) -> tuple[float, list[FloatArray]] | None:
    """Fits to two halves of the documents, of at most 3000 each, compared on both; None for too few documents.

    Returns the share of the documents whose topic in one half is the main partner of their topic in the other, and the
    directions of the terms in each half.
    """
    order = rng.permutation(corpus.weights.shape[0])
    half = min(len(order) // 2, _HALF)
    if half < 4 * n_topics:
        return None
    both, labels, directions = corpus.part(order[: 2 * half]), [], []
    for rows in (slice(half), slice(half, None)):
        try:
            fit = both.part(np.arange(2 * half)[rows]).fit(n_topics, n_groups, rng)
        except ValueError:  # no two words occur together
            return None
        labels.append(fit.mixture.log_joint(fit.space.vectors(both.rows)).argmax(axis=1))
        directions.append(fit.directions)
    table = contingency_matrix(*labels)
    main = (table.max(axis=0).sum() + table.max(axis=1).sum()) / 2
    return float(main / table.sum()), directions


def tempered(mixture: SmoothMixture, z: FloatArray, agreement: float) -> SmoothMixture:
    """The mixture at the temperature at which the mean probability of a document's topic is the agreement of halves."""
    joint = mixture.log_joint(z)

    def excess(log_temperature: float) -> float:
        return float(softmax(joint / np.exp(log_temperature), axis=1).max(axis=1).mean()) - agreement

    hottest = np.log(_HOTTEST)
    if excess(0.0) <= 0:
        return mixture
    log_temperature = hottest if excess(hottest) >= 0 else brentq(excess, 0.0, hottest, xtol=1e-3)
    return replace(mixture, temperature=float(np.exp(log_temperature)))


def stable_terms(*directions: FloatArray) -> list[IntArray]:
    """Sets of three or more terms that share a group in every fit, largest first, given the directions of each.

    The trees are cut at ten terms a group on average: of such sets 30 to 60 % of the pairs share a group in documents
    that none of the fits saw, of the pairs of a group 5 to 15 % (experiments/studies/topics.md).

    Examples
    --------
    >>> fit = np.repeat(np.eye(3), 3, axis=0)
    >>> stable_terms(fit, fit[[0, 1, 2, 3, 4, 8, 6, 7, 5]])
    [array([0, 1, 2])]
    """
    p = len(directions[0])
    # Of few terms, smaller groups: chance puts three of p terms together in three trees p³ / 6 n⁶ times.
    n = min(p, max(p // _TERMS_PER_GROUP, ceil(sqrt(p))))
    labels = [term_groups(fit, n) for fit in directions]
    codes = np.unique(np.stack(labels), axis=1, return_inverse=True)[1].ravel()
    sets = [np.flatnonzero(codes == code) for code in np.flatnonzero(np.bincount(codes) >= _LEAST_STABLE)]
    return sorted(sets, key=lambda terms: (-len(terms), terms[0]))
