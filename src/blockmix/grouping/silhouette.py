"""SilhouetteRule: the number of groups with the largest mean silhouette, the paper's rule (section 2.6).

One pass up the tree with running sums gives the mean silhouette for every number of groups. A column alone has
silhouette 0, and so have K = 1 and K = p.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from blockmix.blocks.moments import Covariance, correlation
from blockmix.grouping.grouping import Grouping, Proposal, check_n_groups, cut, tree_of
from blockmix.partition import FloatArray, IntArray, Partition

_CHUNK = 512
# When to name the split that stands out: groups found, share of columns alone, columns at most, silhouette at least.
_HUNDREDS, _ALONE, _MANY, _LEAST = 100, 0.8, 2000, 0.05


@dataclass(eq=False, repr=False)
class SilhouetteRule(BaseEstimator):
    """The number of groups with the largest mean silhouette (paper, section 2.6).

    Parameters
    ----------
    candidates : iterable of int, optional
        Numbers of groups to compare; 2 … p − 1 by default.
    center : int, optional
        Compare the paper's range center ± 2√p instead.

    Examples
    --------
    >>> from blockmix.grouping import HierarchicalGrouping
    >>> S = np.kron(np.eye(3), np.full((4, 4), 0.6)) + 0.4 * np.eye(12)
    >>> SilhouetteRule().choose(S, 100, HierarchicalGrouping()).partition.n_groups
    3
    """

    candidates: Iterable[int] | None = None
    center: int | None = None

    def choose(self, S: FloatArray, n_rows: float, grouping: Grouping, price: float | None = None) -> Proposal:
        """Take the cut with the largest silhouette; `price` is not used.

        A grouping without a tree is asked for the number of groups that scores best on the default tree.
        """
        R, cutter, numbers = correlation(S), tree_of(grouping), self._numbers(len(S))
        tree = cutter.tree(R)
        scores = tree_silhouettes(cutter.distances(R), tree)
        best = int(numbers[np.argmax(scores[numbers])])
        return Proposal(cut(tree, best), tree) if cutter is grouping else grouping.group(S, best, n_rows)

    def _numbers(self, p: int) -> IntArray:
        """The numbers of groups to compare."""
        if self.candidates is not None:
            numbers = np.array(sorted({check_n_groups(number, p) for number in self.candidates}))
            if len(numbers) == 0:
                raise ValueError("candidates is empty: give at least one number of groups")
            return numbers
        low, high = 2, p - 1
        if self.center is not None:
            center, reach = check_n_groups(self.center, p, "center"), int(2 * np.sqrt(p))
            low, high = max(low, center - reach), min(high, center + reach)
        return np.arange(low, high + 1) if high >= low else np.array([p])  # p ≤ 2: nothing to compare


@dataclass(frozen=True)
class Split:
    """Column groups, and how far they stand out: their mean silhouette, 0 for none and 1 at most."""

    partition: Partition
    silhouette: float


def split(R: Any, grouping: object, n_groups: int | None = None) -> Split:
    """The cut of the tree of a correlation into so many groups, or the one with the largest silhouette."""
    cutter, p = tree_of(grouping), len(R)
    tree = cutter.tree(R)
    scores = tree_silhouettes(cutter.distances(R), tree)
    number = int(np.argmax(scores)) or p if n_groups is None else check_n_groups(n_groups, p)
    return Split(cut(tree, number), float(scores[number]))


def says_little(found: Partition) -> bool:
    """Whether groups are one, hundreds, or nearly all columns alone."""
    p, several = found.n_columns, int((found.sizes > 1).sum())
    return 3 < p <= _MANY and (found.n_groups == 1 or several >= _HUNDREDS or found.n_groups - several >= _ALONE * p)


def standing_out(R: Any, grouping: object, n_rows: float) -> Split | None:
    """The split that stands out, or None if none does beyond the correlations that chance leaves in so many rows."""
    best = split(R, grouping)
    chance = max(_LEAST, 2 / np.sqrt(max(n_rows, 1.0)))
    return best if 1 < best.partition.n_groups < len(R) and best.silhouette > chance else None


def silhouette(R: Covariance, partition: Partition) -> float:
    """Mean silhouette of a partition for the distance 1 − |R|, in O(p²)."""
    if partition.n_groups in (1, partition.n_columns):
        return 0.0
    order, sizes = partition.order, partition.sizes
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    total = 0.0
    for first in range(0, len(R), _CHUNK):
        columns = np.arange(first, min(first + _CHUNK, len(R)))
        labels, n = partition.labels[columns], np.arange(len(columns))
        sums = np.add.reduceat(1 - np.abs(R[np.ix_(columns, order)]), starts, axis=1)
        inner = sums[n, labels] / np.maximum(sizes[labels] - 1, 1)
        means = sums / sizes
        means[n, labels] = np.inf
        total += _ratio(inner, means.min(axis=1), sizes[labels]).sum()
    return float(total / len(R))


def _ratio(inner: FloatArray, outer: FloatArray, sizes: FloatArray | IntArray) -> FloatArray:
    """(b − a) / max(a, b) per column, from its mean distances to its group and to the nearest other one."""
    largest = np.maximum(inner, outer)
    safe = (sizes > 1) & (largest > 0)
    return np.where(safe, (outer - inner) / np.where(safe, largest, 1), 0.0)


def tree_silhouettes(distances: FloatArray, tree: FloatArray) -> FloatArray:
    """Mean silhouette of every cut of a tree; entry K belongs to K groups, shape (p + 1,).

    When groups A and B merge, the mean distance of a column to their union lies between its mean distances to A and
    to B. So its nearest other group changes only if that was A or B, and only those columns and the members of the
    union need an update.
    """
    p = len(distances)
    sums = np.array(distances, dtype=float)  # (p, slots): summed distance of a column to the group in that slot
    np.fill_diagonal(sums, np.inf)
    sizes = np.ones(p)
    slot = np.arange(2 * p - 1)
    group = np.arange(p)
    nearest = np.argmin(sums, axis=1) if p > 1 else group
    outer = sums[group, nearest]
    np.fill_diagonal(sums, 0.0)
    scores = np.zeros(p + 1)
    for k in range(p - 2):
        a, b = slot[tree[k, :2].astype(int)]
        slot[p + k] = a
        sums[:, a] += sums[:, b]
        sums[:, b] = np.inf
        sizes[a] += sizes[b]
        group[group == b] = a
        changed = np.flatnonzero((group == a) | (nearest == a) | (nearest == b))
        means = sums[changed] / sizes
        means[np.arange(len(changed)), group[changed]] = np.inf
        nearest[changed] = np.argmin(means, axis=1)
        outer[changed] = means[np.arange(len(changed)), nearest[changed]]
        inner = sums[np.arange(p), group] / np.maximum(sizes[group] - 1, 1)
        scores[p - 1 - k] = _ratio(inner, outer, sizes[group]).mean()
    return scores
