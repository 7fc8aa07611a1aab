"""Views: what there is to see in a fitted model, as plain arrays; the figures and the page draw them.

A fitted model and, where they are at hand, its rows come in; per component the observed and the estimated correlation
and the tree of the columns go out, and orders of rows and numberings of groups that make components comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from blockmix.grouping.hierarchical import cut, spans, tree_of
from blockmix.structure.blocks import BlockCovariance
from blockmix.structure.moments import Moments, correlation
from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray, IntArray

_CHUNK = 65_536  # rows


@dataclass(frozen=True, eq=False)
class ComponentView:
    """One component: its groups, its correlations and the tree of its columns.

    Attributes
    ----------
    partition : Partition
        The fitted column groups.
    estimated : array of shape (p, p)
        Correlation of the fitted covariance: zero between groups.
    observed : array of shape (p, p) or None
        Correlation of the rows, weighted by their probability of the component; None without rows.
    tree : array of shape (p − 1, 4)
        Linkage of the columns in SciPy's format, of the observed correlation if there is one.
    """

    partition: Partition
    estimated: FloatArray
    observed: FloatArray | None
    tree: FloatArray

    @cached_property
    def order(self) -> IntArray:
        """Columns in the order of the leaves of the tree: every cut of it has contiguous groups, shape (p,)."""
        return spans(self.tree)[0]

    @property
    def least_groups(self) -> int:
        """The fewest groups that a cut can tell: estimated correlations say nothing about which groups are near."""
        return 1 if self.observed is not None else self.partition.n_groups

    @property
    def is_cut(self) -> bool:
        """Whether the fitted groups are a cut of the tree; EM and other groupings may end at another partition."""
        return cut(self.tree, self.partition.n_groups) == self.partition


def component_view(
    block: BlockCovariance, X: FloatArray | None, weights: FloatArray | None, model: Any
) -> ComponentView:
    """View of a component with this covariance, from rows X, shape (N, p), that count `weights`, shape (N,)."""
    estimated = correlation(block.dense())
    observed = None if X is None else observed_correlation(X, weights)
    tree = tree_of(getattr(model, "grouping", None)).tree(estimated if observed is None else observed)
    return ComponentView(block.partition, estimated, observed, tree)


def observed_correlation(X: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Correlation of weighted rows, shape (p, p); a column that does not vary among them is correlated with none."""
    # In parts: the rows that count, and the rows less their mean, are copies of them.
    parts = [slice(start, start + _CHUNK) for start in range(0, len(X), _CHUNK)]
    moments = (_moments(X[part], None if weights is None else weights[part]) for part in parts)
    S = reduce(Moments.merge, moments).scatter
    varies = S.diagonal() > 0
    S = np.where(varies[:, None] & varies, S, 0.0)
    np.fill_diagonal(S, np.where(varies, S.diagonal(), 1.0))
    return correlation(S)


def _moments(X: FloatArray, weights: FloatArray | None) -> Moments:
    if weights is None:
        return Moments.of(X.astype(float, copy=False))
    counted = weights > 1e-9  # the rows of other components would only cost time
    return Moments.of(X[counted].astype(float, copy=False), weights[counted])


def aligned_labels(labels: Sequence[IntArray] | IntArray) -> IntArray:
    """Groups of all components in one numbering, in which matching groups have the same number, shape (G, p).

    The groups of each component are matched one to one with the numbers given so far, so that as many columns as
    possible keep their number; a group that shares no column with any of them gets a new number.

    Examples
    --------
    >>> aligned_labels([[0, 0, 1, 1, 1], [0, 1, 1, 1, 1]])
    array([[0, 0, 1, 1, 1],
           [0, 1, 1, 1, 1]])
    >>> aligned_labels([[0, 0, 1, 1], [0, 1, 2, 2]])
    array([[0, 0, 1, 1],
           [0, 2, 1, 1]])
    """
    given = np.asarray(labels)
    aligned = np.empty_like(given)
    aligned[0] = given[0]
    for g in range(1, len(given)):
        used = int(aligned[:g].max()) + 1
        shared = np.zeros((int(given[g].max()) + 1, used), dtype=np.intp)
        for before in aligned[:g]:
            np.add.at(shared, (given[g], before), 1)
        numbers = np.full(len(shared), -1)
        for group, number in zip(*linear_sum_assignment(shared, maximize=True), strict=True):
            if shared[group, number]:
                numbers[group] = number
        numbers[numbers < 0] = used + np.arange(np.count_nonzero(numbers < 0))
        aligned[g] = numbers[given[g]]
    return aligned


def standardized(X: FloatArray) -> FloatArray:
    """Columns with mean 0 and deviation 1; a constant column is 0 throughout."""
    # From the first row: the rounding of a mean over rows of 0.1 would pass for variation.
    moved = X - X[0]
    moved -= moved.mean(axis=0)
    deviations = moved.std(axis=0)
    return np.asarray(moved / np.where(deviations > 0, deviations, 1))


def row_order(Z: FloatArray, labels: IntArray) -> IntArray:
    """Rows cluster by cluster, and within a cluster along its leading direction, shape (N,).

    The direction comes from power iterations with a fixed start, so that the order is the same at every call.
    """
    orders = []
    for g in np.unique(labels):
        rows = np.flatnonzero(labels == g)
        centered = Z[rows] - Z[rows].mean(axis=0)
        direction = np.linspace(1, 2, Z.shape[1])
        for _ in range(15):
            direction = (centered @ direction) @ centered
            direction /= max(float(np.linalg.norm(direction)), np.finfo(float).tiny)
        orders.append(rows[np.argsort(centered @ direction, kind="stable")])
    return np.concatenate(orders)


def bins(n: int, most: int) -> IntArray:
    """Where each of at most `most` even bins of n items begins, and n itself at the end."""
    count = min(n, most)
    return np.arange(count + 1) * n // count


def averaged(values: FloatArray, starts: IntArray, axis: int) -> FloatArray:
    """Means over the bins along an axis."""
    if len(starts) - 1 == values.shape[axis]:
        return values
    shape = [1, 1]
    shape[axis] = -1
    sums = np.add.reduceat(values, starts[:-1], axis=axis, dtype=float)
    return np.asarray(sums / np.diff(starts).reshape(shape))


def row_bins(sizes: IntArray, most: int) -> IntArray:
    """Bins of rows that stand cluster by cluster, about `most` in all: no bin holds rows of two clusters."""
    starts, first = [0], 0
    total = int(sizes.sum())
    for size in sizes[sizes > 0].tolist():
        share = max(1, most * size // total)
        starts += (first + bins(size, share)[1:]).tolist()
        first += size
    return np.array(starts)
