"""Shares: how often each topic occurs in each category or stretch of time, with intervals.

From the topics of documents and one value per document to a table of topics × categories.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from blockmix.partition import FloatArray, IntArray
from blockmix.rows.files import needed

_MAX_CATEGORIES = 20
_NORMAL = 1.96  # quantile of the normal distribution for intervals of 95 %


@dataclass(frozen=True, eq=False)
class TopicShares:
    """Topics by category, or by stretch of time or of a number.

    Attributes
    ----------
    names : tuple of C str
        Categories by name, or stretches in order.
    counts : array of shape (G, C)
        Number of documents.
    shares, low, high : arrays of shape (G, C)
        Share of the topic among the documents of the category, and its 95 % interval (Wilson); NaN without documents.
    ordered : bool
        Whether the categories have an order, as times have.
    words : tuple of G str
        The first words of each topic.
    """

    names: tuple[str, ...]
    counts: IntArray
    shares: FloatArray
    low: FloatArray
    high: FloatArray
    ordered: bool
    words: tuple[str, ...]

    def to_frame(self) -> Any:
        """One row per topic, from 1, and category, as a pandas data frame."""
        rows = [
            {"topic": g + 1, "words": self.words[g], "category": name, "documents": int(self.counts[g, c])}
            | {key: float(getattr(self, key)[g, c]) for key in ("shares", "low", "high")}
            for g in range(len(self.words))
            for c, name in enumerate(self.names)
        ]
        return needed("pandas", "app").DataFrame(rows).rename(columns={"shares": "share"})


def shares_of(topics: IntArray, values: ArrayLike, n_topics: int, bins: int, words: tuple[str, ...]) -> TopicShares:
    """Shares of topics by value; documents without a topic (−1) or without a value do not count.

    Dates are put into `bins` stretches of equal length, more than 20 different numbers into `bins` of equal size.
    """
    codes, names, ordered = _categories(values, len(topics), bins)
    counted = (topics >= 0) & (codes >= 0)
    C = len(names)
    counts = np.bincount(topics[counted] * C + codes[counted], minlength=n_topics * C).reshape(n_topics, C)
    totals, z2 = counts.sum(axis=0), _NORMAL**2
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = counts / totals
        middle = (shares + z2 / (2 * totals)) / (1 + z2 / totals)
        half = _NORMAL * np.sqrt(shares * (1 - shares) / totals + z2 / (4 * totals**2)) / (1 + z2 / totals)
    low, high = np.clip(middle - half, 0, shares), np.clip(middle + half, shares, 1)  # rounding at 0 and 1
    return TopicShares(tuple(names), counts, shares, low, high, ordered, words)


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
