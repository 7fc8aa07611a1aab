"""Modes: the distinct row clusterings that data with more columns than rows support (p > N).

Rows come in; a few clusterings, each with two scores and its most telling columns, go out. With p > N the likelihood
prefers wrong clusterings to right ones and no label-free score is reliable, so one answer would be a guess: look at the
modes and their columns, and choose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy.special import softmax
from sklearn.metrics import adjusted_rand_score
from sklearn.utils import check_random_state

from blockmix.em.starts.annealing import Annealed, Tempered
from blockmix.em.starts.starts import kmeans, principal_scores
from blockmix.structure.columns import refuse_constant
from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray, IntArray, RandomState

RANDOM_RUNS = 6  # annealed runs from random guesses
EIGENVECTORS = 6  # annealed runs from leading eigenvectors, for each of two sets of blocks
KMEANS_RUNS = 30  # single starts: their spread is the point
REMOVED, REMOVED_RUNS = 3, 10  # single starts of k-means after removing the first 1, 2, 3 eigenvectors
SAME = 0.8  # two clusterings with a higher adjusted Rand index are one mode
T = TypeVar("T")
_ROUNDS = 8  # of choosing columns and clustering the rows on them


@dataclass(frozen=True, eq=False)
class Mode:
    """One clustering of the rows.

    Parameters
    ----------
    labels : array of shape (N,)
    score : float
        Contrast S: how much more the clustering moves its best columns than the middle one. Comparable between modes of
        one data set; it says nothing on whether there are clusters at all.
    log_likelihood : float
        Of the mixture with one shared covariance of p/10 blocks.
    columns : array of shape (m,)
        The columns that differ most between the clusters, most first.
    origin : str
        Where it was found; ``"annealed"`` is the annealed run of highest likelihood, as it ended.
    """

    labels: IntArray
    score: float
    log_likelihood: float
    columns: IntArray
    origin: str


def modes(
    X: FloatArray,
    n_components: int = 2,
    rng: RandomState = None,
    weights: FloatArray | None = None,
    n_modes: int = 5,
) -> list[Mode]:
    """Distinct clusterings by falling contrast S, and after them the annealed run of highest likelihood.

    With F_j the variance ratio of column j between and within clusters (t² for two clusters),

        S = log q.975(F) − ½ log q.50(F):

    a class moves some columns a lot, a nuisance moves all a little. A pool of annealed and k-means runs is refined by
    turns of keeping the max(50, p/20) columns of largest F and clustering on them.

    Parameters
    ----------
    X : array of shape (N, p)
        Expression data: take logarithms and standardize each sample first. Columns are standardized here.
    n_components : int
        Number of clusters G. Only G = 2 was studied; there F is t².
    rng : RandomState, int or None
    weights : array of shape (N,), default: ones
    n_modes : int
        Most clusterings chosen by contrast; the annealed one comes on top.

    Returns
    -------
    list of Mode

    Notes
    -----
    Where every column was selected to carry the class, the annealed mode is the better one. The score and the pool were
    chosen with the labels of two cohorts in view; expect less on others.

    Examples
    --------
    >>> random = np.random.RandomState(0)
    >>> X = random.standard_normal((40, 200))
    >>> X[:15, :30] += 3
    >>> best = modes(X, rng=random)[0]
    >>> sorted(np.bincount(best.labels).tolist())
    [15, 25]
    >>> bool((best.columns[:20] < 30).all())
    True
    """
    refuse_constant(X.mean(axis=0), X.var(axis=0), [f"x{j}" for j in range(X.shape[1])], X.dtype)
    weights = np.ones(len(X)) if weights is None else weights
    search = Search(Tempered.of(X, weights), weights, n_components)
    random = check_random_state(rng)
    runs = [search.model.anneal(search.model.guess(n_components, random)) for _ in range(RANDOM_RUNS)]
    pool = [("annealed, then columns", run.z.argmax(axis=1)) for run in runs]
    pool += [*search.from_eigenvectors(), *search.from_kmeans(random)]
    return [*search.leading(pool, n_modes), search.described(max(runs, key=lambda run: run.log_likelihood), "annealed")]


@dataclass(frozen=True, eq=False)
class Search:
    """The search for modes: the rows with their tempered mixture, weights and number of clusters."""

    model: Tempered
    weights: FloatArray
    n_components: int

    def from_eigenvectors(self) -> Iterator[tuple[str, IntArray]]:
        """Annealed runs from soft cuts of the leading eigenvectors, with p/10 blocks and with single columns."""
        p = self.model.X.shape[1]
        for model in (self.model, self.model.on(Partition.separate(p))):
            values, coordinates = model.spectrum
            for j in range(min(EIGENVECTORS, len(values))):
                z = _cut(coordinates[:, j], self.n_components)
                run = model.anneal(z, first=1 / max(1.0, float(values[j])), steps=15, plain=5)
                yield f"eigenvector {j + 1} of {model.partition.n_groups} blocks", run.z.argmax(axis=1)

    def from_kmeans(self, rng: np.random.RandomState) -> Iterator[tuple[str, IntArray]]:
        """Single starts of k-means; with p > 10 N also after removing the leading eigenvectors."""
        N, p = self.model.X.shape
        scores, _ = principal_scores(self.model.X, self.weights)  # the distances of X in at most N columns
        for _ in range(KMEANS_RUNS):
            yield "k-means", kmeans(scores, self.weights, self.n_components, rng).argmax(axis=1)
        # Where all columns carry the class, the first eigenvector is the class: removing it would lose it.
        for removed in range(1, 1 + min(REMOVED, scores.shape[1] - 1) if p > 10 * N else 1):
            for _ in range(REMOVED_RUNS):
                z = kmeans(scores[:, removed:], self.weights, self.n_components, rng)
                yield f"k-means without {removed} eigenvectors", z.argmax(axis=1)

    def leading(self, pool: list[tuple[str, IntArray]], n_modes: int) -> list[Mode]:
        """Modes of the pool: refined, large enough, distinct, by falling contrast."""
        refined = [(origin, self.refined(labels)) for origin, labels in pool if self._large(labels)]
        ranked = sorted((entry for entry in refined if self._large(entry[1])), key=lambda e: -self.contrast(e[1]))
        chosen = _distinct(ranked, lambda entry: entry[1], n_modes)
        # Ten steps of plain EM rarely move a row, but where they do two modes may meet or change places.
        found = [self.mode(labels, origin) for origin, labels in chosen]
        return _distinct(sorted(found, key=lambda mode: -mode.score), lambda mode: mode.labels, n_modes)

    def refined(self, labels: IntArray) -> IntArray:
        """Labels after turns of choosing columns and Lloyd's k-means on them, until they stand still."""
        for _ in range(_ROUNDS):
            Y = self.model.X[:, self.best_columns(labels)]
            new = _lloyd(Y, self.model.mass, labels, self.n_components)
            if np.array_equal(new, labels):
                break
            labels = new
        return labels

    def best_columns(self, labels: IntArray) -> IntArray:
        """The max(50, p/20) columns of largest F, largest first."""
        F = self.variance_ratios(labels)
        return np.argsort(-F, kind="stable")[: max(50, len(F) // 20)]

    def contrast(self, labels: IntArray) -> float:
        """S = log q.975(F) − ½ log q.50(F)."""
        high, middle = np.maximum(np.quantile(self.variance_ratios(labels), [0.975, 0.5]), np.finfo(float).tiny)
        return float(np.log(high) - 0.5 * np.log(middle))

    def variance_ratios(self, labels: IntArray) -> FloatArray:
        """F of each column, shape (p,): Σ_g n_g m_g² / (G − 1) over the variance within clusters."""
        X, mass, G = self.model.X, self.model.mass, self.n_components
        z = np.eye(G)[labels] * mass[:, None]
        pi = z.sum(axis=0)
        between = (z.T @ X) ** 2 / np.where(pi > 0, pi, 1)[:, None]
        explained = between.sum(axis=0)
        # Columns have variance 1; the floor is for a column that is constant within every cluster.
        within = np.maximum(1 - explained, 1e-12)
        freedom = max(self.model.total - G, 1.0) / max(G - 1, 1)
        ratios: FloatArray = freedom * explained / within
        return ratios

    def mode(self, labels: IntArray, origin: str) -> Mode:
        """The mode at labels, after ten steps of plain EM from them."""
        return self.described(self.model.anneal(np.eye(self.n_components)[labels], steps=0), origin)

    def described(self, run: Annealed, origin: str) -> Mode:
        """A run with its scores and columns."""
        labels = run.z.argmax(axis=1)
        return Mode(labels, self.contrast(labels), run.log_likelihood, self.best_columns(labels), origin)

    def _large(self, labels: IntArray) -> bool:
        """Whether each cluster has 3 rows and a fifth of an equal share: smaller ones stand out by chance."""
        sizes = np.bincount(labels, weights=self.weights, minlength=self.n_components)
        return bool(sizes.min() >= max(3.0, 0.2 * self.model.total / self.n_components))


def _distinct(entries: Iterable[T], labels: Callable[[T], IntArray], most: int) -> list[T]:
    """The first entries whose labels differ from those of all kept before them."""
    kept: list[T] = []
    for entry in entries:
        if len(kept) < most and all(adjusted_rand_score(labels(entry), labels(other)) <= SAME for other in kept):
            kept.append(entry)
    return kept


def _cut(u: FloatArray, n_components: int) -> FloatArray:
    """Responsibilities of components at −1 … 1 on a coordinate of unit variance; 1 / (1 + exp(−2u)) for two."""
    centers = np.linspace(-1, 1, n_components) if n_components > 1 else np.zeros(1)
    return np.asarray(softmax(u[:, None] * centers - centers**2 / 2, axis=1))


def _lloyd(Y: FloatArray, mass: FloatArray, labels: IntArray, n_components: int) -> IntArray:
    """Labels of k-means from labels; a step that would empty a cluster is the last."""
    while True:
        z = np.eye(n_components)[labels] * mass[:, None]
        sizes = z.sum(axis=0)
        if not sizes.all():
            return labels
        centers = (z.T @ Y) / sizes[:, None]
        new = np.argmin(np.einsum("gj,gj->g", centers, centers) - 2 * (Y @ centers.T), axis=1)
        if np.array_equal(new, labels):
            return labels
        labels = new
