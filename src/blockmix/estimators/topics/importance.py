"""Importance: which group of terms matters more than average for which topic (paper, section 3.4, its heat maps).

TF-IDF weights, the topic of each document and the group of each term come in; the table of the paper in percent, the
terms of each group in order of how much they stand for it, and the most typical documents of a topic go out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockmix.structure.types import FloatArray, IntArray

_TOP = 5  # groups that are named per topic
_TYPICAL = 5  # documents that are named per topic

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
        Mean rating of the documents, where ratings were given.
    top_groups : tuple of str
        Names of the term groups that are more important here than on average, most important first.
    documents : tuple of int
        Numbers of the most typical documents, most typical first.
    """

    size: int
    share: float
    mean_rating: float | None
    top_groups: tuple[str, ...]
    documents: tuple[int, ...]


def group_means(X: FloatArray, labels: IntArray, n_groups: int) -> FloatArray:
    """Mean weight of the terms of each group, document by document, shape (N, K)."""
    member = (labels[:, None] == np.arange(n_groups)).astype(X.dtype)
    return np.asarray(X @ (member / np.maximum(member.sum(axis=0), 1)))


def topic_means(values: FloatArray, topics: IntArray, n_topics: int) -> FloatArray:
    """Mean over the documents of each topic, shape (G, …); NaN for a topic without documents."""
    member = (topics == np.arange(n_topics)[:, None]).astype(float)
    with np.errstate(invalid="ignore"):
        return np.asarray(member @ values / member.sum(axis=1).reshape(-1, *(1,) * (values.ndim - 1)))


def centrality(R: FloatArray) -> FloatArray:
    """How much each term stands for its group: its correlation with the sum of the group's standardized terms.

    (R 1)_j / √(1ᵀ R 1) for the correlations R within the group; a term alone has 1.

    Examples
    --------
    >>> centrality(np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]]))
    array([0.6708, 0.8944, 0.6708])
    """
    total = R.sum(axis=1)
    return np.asarray(total / np.sqrt(max(total.sum(), np.finfo(float).tiny)))


def ranked_terms(terms: NDArray[np.object_], weights: FloatArray) -> Terms:
    """Terms with their weights, largest first."""
    order = np.argsort(-np.round(weights, 12), kind="stable")
    return [(str(terms[j]), float(weights[j])) for j in order]


def name_of(terms: Terms, most: int = 3) -> str:
    """A short name of a group: its most central terms."""
    return ", ".join(term for term, _ in terms[:most])


def label_of(terms: Terms, width: int = 60) -> str:
    """A longer name of a group: as many of its terms as fit, and how many more there are."""
    names = [term for term, _ in terms]
    shown = len(names)
    while shown > 1 and len(_label(names, shown)) > width:
        shown -= 1
    return _label(names, shown)


def _label(names: Sequence[str], shown: int) -> str:
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" + {more} more" if more else "")


def group_order(importance: FloatArray) -> IntArray:
    """Groups by where on the line of topics their importance lies on average: those of the first topic first."""
    known = np.nan_to_num(importance)
    place = np.arange(len(known)) @ known / known.sum(axis=0)
    return np.argsort(np.round(place, 12), kind="stable")


def top_groups(row: FloatArray) -> list[int]:
    """The groups that matter most to a topic, and more than on average, from its row of the table."""
    known = np.nan_to_num(np.round(row, 6))
    return [int(k) for k in np.argsort(-known, kind="stable")[:_TOP] if known[k] > 100]


def table(topics: Sequence[Topic], names: Sequence[str], importance: FloatArray) -> list[str]:
    """Lines of a text that lists the topics and the groups that matter most to them."""
    rated = topics[0].mean_rating is not None
    lines = [f"topic  documents  share  {'rating  ' if rated else ''}term groups, importance against the average"]
    for g, (topic, row) in enumerate(zip(topics, importance, strict=True)):
        top = "; ".join(f"{names[k]} {row[k]:.0f} %" for k in top_groups(row))
        rating = f"{topic.mean_rating:<6.2f}  " if rated else ""
        lines.append(f"{g:<5}  {topic.size:<9}  {100 * topic.share:>3.0f} %  {rating}{top}")
    return lines


def typical(X: FloatArray, means: FloatArray, topics: IntArray) -> list[tuple[int, ...]]:
    """Documents that point from the overall mean in the direction of their topic's mean, by topic, most typical first.

    By the cosine in standardized columns: distance would choose the emptiest documents, log-odds the most extreme.
    """
    center, scale = X.mean(axis=0), X.std(axis=0)
    standard, direction = (X - center) / scale, (means - center) / scale
    lengths = np.linalg.norm(direction[topics], axis=1) * np.linalg.norm(standard, axis=1)
    along = np.einsum("ij,ij->i", standard, direction[topics])
    cosine = np.round(along / np.maximum(lengths, np.finfo(float).tiny), 12)
    found = []
    for g in range(len(means)):
        own = np.flatnonzero(topics == g)
        found.append(tuple(int(i) for i in own[np.argsort(-cosine[own], kind="stable")][:_TYPICAL]))
    return found


def topics(
    labels: IntArray,
    ratings: FloatArray | None,
    tops: Sequence[tuple[str, ...]],
    documents: Sequence[tuple[int, ...]],
) -> list[Topic]:
    """What is told of each topic, from the topic and the rating of each document."""
    sizes = np.bincount(labels, minlength=len(tops))
    rated = [None] * len(tops) if ratings is None else topic_means(ratings, labels, len(tops)).tolist()
    return [
        Topic(int(size), float(size / len(labels)), rating, top, typical)
        for size, rating, top, typical in zip(sizes, rated, tops, documents, strict=True)
    ]
