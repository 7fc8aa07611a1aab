"""Importance: which term groups matter more than average for which topics (paper, section 3.4, heat maps).

From TF-IDF weights, topics of documents and groups of terms: the paper's table in percent, the terms of each group
ranked by how well they represent it, the most typical documents of each topic, and the shares of topics by category.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.stats import binomtest

from blockmix.partition import FloatArray, IntArray
from blockmix.rows.files import needed

_TOP = 5  # groups listed per topic
_WORDS = 10  # that name a topic
_LEAST_NEARNESS = 0.1  # of a word to a topic: a topic of common words is near to none
_TYPICAL = 5  # documents listed per topic
_MAX_CATEGORIES = 20
_BACKGROUND = 0.5  # share of the terms from which on a group is the background: terms that go with no others

Terms = list[tuple[str, float]]


@dataclass(frozen=True)
class Topic:
    """A cluster of documents.

    Attributes
    ----------
    size : int
        Number of documents.
    share : float
        Their share of all documents.
    mean_rating : float or None
        Mean rating of the documents, None without ratings.
    words : tuple of str
        The ten terms that name the topic, most telling first.
    top_groups : tuple of str
        Names of the term groups that matter more here than on average, most important first.
    documents : tuple of int
        Indices of the most typical documents, most typical first.
    """

    size: int
    share: float
    mean_rating: float | None
    words: tuple[str, ...]
    top_groups: tuple[str, ...]
    documents: tuple[int, ...]


def group_means(X: Any, labels: IntArray, n_groups: int) -> FloatArray:
    """Mean weight of the terms of each group, document by document, shape (N, K)."""
    member = (labels[:, None] == np.arange(n_groups)).astype(X.dtype)
    return np.asarray(X @ (member / np.maximum(member.sum(axis=0), 1)))


def topic_means(values: FloatArray, topics: IntArray, n_topics: int) -> FloatArray:
    """Mean over the documents of each topic, shape (G, …); NaN for a topic without documents."""
    member = (topics == np.arange(n_topics)[:, None]).astype(float)
    with np.errstate(invalid="ignore"):
        return np.asarray(member @ values / member.sum(axis=1).reshape(-1, *(1,) * (values.ndim - 1)))


def topic_order(components: IntArray, ratings: FloatArray | None, n_topics: int) -> IntArray:
    """Component of each topic: by mean rating, lowest first, then by size, largest first, shape (G,)."""
    sizes = np.bincount(components, minlength=n_topics)
    rated = np.zeros(n_topics) if ratings is None else topic_means(ratings, components, n_topics)
    return np.lexsort((-sizes, np.nan_to_num(np.round(rated, 12), nan=np.inf)))


def central_terms(terms: NDArray[np.object_], directions: FloatArray, n_documents: IntArray) -> Terms:
    """Terms of a group by centrality: mean cosine to the group times log df, relative to the largest.

    Without the factor rare words would come first.
    """
    score = directions @ directions.mean(axis=0) * np.log(1 + n_documents)
    return _sorted(terms, score / max(float(score.max()), np.finfo(float).tiny))


def ranked_terms(terms: NDArray[np.object_], R: FloatArray) -> Terms:
    """Terms of a group with their weights, largest first; R are the correlations within the group.

    The weight of a term is its correlation with the sum of the group's standardized terms, (R 1)_j / √(1ᵀ R 1); 1 for a
    term alone.

    Examples
    --------
    >>> ranked_terms(np.array(["a", "b", "c"]), np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]]))[0]
    ('b', 0.8944...)
    """
    totals = R.sum(axis=1)
    return _sorted(terms, totals / np.sqrt(max(totals.sum(), np.finfo(float).tiny)))


def _sorted(terms: NDArray[np.object_], weights: FloatArray) -> Terms:
    """Terms with their weights, largest first."""
    return [(str(terms[j]), float(weights[j])) for j in np.argsort(-np.round(weights, 12), kind="stable")]


def is_background(terms: Terms, n_terms: int) -> bool:
    """Whether a group is the background: more than half of all terms, which go with no others."""
    return len(terms) > _BACKGROUND * n_terms


def name_of(terms: Terms, n_terms: int) -> str:
    """Short name of a group: its three terms with the largest weights, or "background".

    Examples
    --------
    >>> group = [("train", 0.9), ("station", 0.8), ("walk", 0.5), ("minutes", 0.4)]
    >>> name_of(group, 8), name_of(group, 7)
    ('train, station, walk', 'background')
    """
    return "background" if is_background(terms, n_terms) else ", ".join(term for term, _ in terms[:3])


def label_of(terms: Terms, width: int = 60) -> str:
    """Longer name of a group: as many of its terms as fit, at least one, and the number of the rest."""
    names = [term for term, _ in terms]
    for shown in range(len(names), 0, -1):
        rest = len(names) - shown
        label = ", ".join(names[:shown]) + (f" + {rest} more" if rest else "")
        if len(label) <= width:
            break
    return label


def group_order(importance: FloatArray) -> IntArray:
    """Groups sorted by the mean index of the topics, weighted by importance: those of the first topic first."""
    weights = np.nan_to_num(importance)
    place = np.arange(len(weights)) @ weights / weights.sum(axis=0)
    return np.argsort(np.round(place, 12), kind="stable")


def top_groups(row: FloatArray) -> list[int]:
    """The groups that matter most to a topic and more than on average, given its row of the table."""
    percent = np.nan_to_num(np.round(row, 6))
    return [int(k) for k in np.argsort(-percent, kind="stable")[:_TOP] if percent[k] > 100]


def topic_words(X: Any, topics: IntArray, n_topics: int, nearness: FloatArray | None = None) -> list[IntArray]:
    """Columns of the ten words that name each topic: those with the largest (mean in the topic − mean) / sd.

    X is sparse, shape (N, v). With the nearness of words to topics, shape (G, v), the quotient is multiplied by it and
    by log df: the words are more coherent then and find as many documents of the topic's main label. A word that is
    not more frequent in the topic does not name it.
    """
    member = sparse.csr_array((np.ones(len(topics)), (topics, np.arange(len(topics)))), shape=(n_topics, len(topics)))
    sizes = np.maximum(np.bincount(topics, minlength=n_topics), 1)
    means, mean = (member @ X).toarray() / sizes[:, None], np.asarray(X.mean(axis=0)).ravel()
    deviation = np.sqrt(np.maximum(np.asarray((X * X).mean(axis=0)).ravel() - mean**2, np.finfo(float).tiny))
    score = (means - mean) / deviation
    if nearness is not None:
        n_documents = np.bincount(X.indices, minlength=X.shape[1])
        score *= np.maximum(nearness, _LEAST_NEARNESS) * np.log(1 + n_documents)
    orders = np.argsort(-np.round(score, 12), axis=1, kind="stable")[:, :_WORDS]
    return [order[row[order] > 0] for order, row in zip(orders, score, strict=True)]


def typical_documents(X: Any, closeness: FloatArray, words: Sequence[IntArray], topics: IntArray) -> list[IntArray]:
    """Rows of the most typical documents of each topic: near to it, and with much weight on the words that name it.

    X is sparse, shape (N, v), with rows of unit length. The cosine of document and topic alone chooses documents that
    contain none of the words.
    """
    typical = []
    for g, columns in enumerate(words):
        rows = np.flatnonzero(topics == g)
        score = np.round(closeness[rows] + np.asarray(X[rows][:, columns].sum(axis=1)).ravel(), 12)
        typical.append(rows[np.argsort(-score, kind="stable")][:_TYPICAL])
    return typical


def lines(topics: Sequence[Topic]) -> Iterator[str]:
    """Text lines that list the topics, which count from 1, and their words."""
    rated = topics[0].mean_rating is not None
    yield f"topic  documents  share  {'rating  ' if rated else ''}words"
    for g, topic in enumerate(topics, start=1):
        rating = f"{topic.mean_rating:<6.2f}  " if rated else ""
        yield f"{g:<5}  {topic.size:<9}  {100 * topic.share:>3.0f} %  {rating}{', '.join(topic.words)}"


def group_lines(names: Sequence[str], importance: FloatArray) -> Iterator[str]:
    """Text lines that list the most important groups of each topic."""
    yield "topic  term groups, importance in % of the average"
    for g, row in enumerate(importance, start=1):
        yield f"{g:<5}  " + "; ".join(f"{names[k]} {row[k]:.0f} %" for k in top_groups(row))


def shares_of(topics: IntArray, values: ArrayLike, words: Sequence[str], bins: int) -> Any:
    """Shares of topics by value, see `TopicBiclustering.by`; documents without a topic (−1) or a value do not count."""
    codes, names, ordered = _categories(values, len(topics), bins)
    counted, C, G = (topics >= 0) & (codes >= 0), len(names), len(words)
    counts = np.bincount(topics[counted] * C + codes[counted], minlength=G * C)
    pairs = list(zip(counts.tolist(), np.tile(counts.reshape(G, C).sum(axis=0), G).tolist(), strict=True))
    shares = [(k / n, *binomtest(k, n).proportion_ci(method="wilson")) if n else (np.nan,) * 3 for k, n in pairs]
    pd = needed("pandas", "app")
    columns = {"topic": np.repeat(np.arange(G) + 1, C), "words": np.repeat(words, C)}
    columns |= {"category": pd.Categorical(names * G, names, ordered=ordered), "documents": counts}
    return pd.DataFrame(columns | dict(zip(("share", "low", "high"), np.transpose(shares), strict=True)))


def _categories(values: ArrayLike, N: int, bins: int) -> tuple[IntArray, list[str], bool]:
    """Code of each document, −1 without a value, names of the categories, and whether they are in an order."""
    given = np.asarray(values)
    if given.shape != (N,):
        raise ValueError(f"values has shape {given.shape} for {N} documents: give one value for each")
    if given.dtype.kind in "Mf" or (given.dtype.kind in "iu" and len(np.unique(given)) > _MAX_CATEGORIES):
        missing = np.isnat(given) if given.dtype.kind == "M" else ~np.isfinite(given)
        levels = np.unique(given[~missing])
        if len(levels) == 0:
            raise ValueError("values has no value that is not missing: give at least one")
        if len(levels) > _MAX_CATEGORIES:
            return _stretches(given, missing, bins)
    else:
        missing = np.array([value is None or value != value or value == "" for value in given.tolist()], dtype=bool)
        levels = np.unique(given[~missing].astype(str) if given.dtype.kind == "O" else given[~missing])
        if len(levels) > (most := 5 * _MAX_CATEGORIES):
            raise ValueError(f"values has {len(levels)} categories: give at most {most}, numbers or dates")
    keys = {str(level): code for code, level in enumerate(levels)}
    codes = [-1 if lost else keys[str(value)] for value, lost in zip(given, missing, strict=True)]
    return np.array(codes, dtype=np.intp), list(keys), given.dtype.kind in "Mfiu"


def _stretches(given: Any, missing: Any, bins: int) -> tuple[IntArray, list[str], bool]:
    """Dates in stretches of equal length, numbers in stretches with equally many documents."""
    is_date = given.dtype.kind == "M"
    numbers = given.astype("datetime64[s]").astype(float) if is_date else given.astype(float)
    present = numbers[~missing]
    steps = np.linspace(0, 1, bins + 1)
    edges = np.unique(present.min() + steps * np.ptp(present) if is_date else np.quantile(present, steps))
    codes = np.clip(np.searchsorted(edges, np.where(missing, edges[0], numbers), side="right") - 1, 0, len(edges) - 2)
    if is_date:
        days = edges.astype("datetime64[s]").astype("datetime64[D]").astype(str)
        names = [f"from {day}" for day in days[:-1]]
    else:
        names = [f"{low:.4g} to {high:.4g}" for low, high in pairwise(edges)]
    return np.where(missing, -1, codes), names, True
