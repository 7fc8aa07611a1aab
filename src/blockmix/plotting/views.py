"""Views: what a fitted model shows, as plain arrays that the figures and the report draw.

For each component, the observed and estimated correlations and the tree of the columns; for the data, the checkerboard;
and one numbering of the groups that makes components comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics.cluster import contingency_matrix
from sklearn.preprocessing import StandardScaler

from blockmix.blocks.blocks import Blocks
from blockmix.blocks.moments import Moments, correlation
from blockmix.grouping.hierarchical import cut, spans, tree_of
from blockmix.partition import FloatArray, IntArray, Partition
from blockmix.plotting.binning import binned, bins, cluster_bins

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
        Linkage of the columns in SciPy's format, from the observed correlation if there is one.
    """

    partition: Partition
    estimated: FloatArray
    observed: FloatArray | None
    tree: FloatArray

    @cached_property
    def order(self) -> IntArray:
        """Columns in leaf order of the tree, in which the groups of every cut are contiguous, shape (p,)."""
        return spans(self.tree)[0]

    @property
    def min_groups(self) -> int:
        """Fewest groups worth cutting: estimated correlations do not show which groups are close."""
        return 1 if self.observed is not None else self.partition.n_groups

    @property
    def is_cut(self) -> bool:
        """Whether the fitted groups are a cut of the tree; EM and other groupings may end at another partition."""
        return cut(self.tree, self.partition.n_groups) == self.partition


def component_view(block: Blocks, X: FloatArray | None, weights: FloatArray | None, model: Any) -> ComponentView:
    """View of a component with this covariance, from rows X, shape (N, p), that count `weights`, shape (N,)."""
    estimated = correlation(block.dense())
    observed = None if X is None else observed_correlation(X, weights)
    tree = tree_of(getattr(model, "grouping", None)).tree(estimated if observed is None else observed)
    return ComponentView(block.partition, estimated, observed, tree)


def observed_correlation(X: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Correlation of weighted rows, shape (p, p); a column that does not vary is uncorrelated with all others.

    With missing values, that of two columns comes from the rows that have both.
    """
    if np.isnan(X).any():
        return _pairwise_correlation(X, np.ones(len(X)) if weights is None else weights)
    # In chunks: selecting and centering the rows copies them.
    parts = [slice(start, start + _CHUNK) for start in range(0, len(X), _CHUNK)]
    moments = (_moments(X[part], None if weights is None else weights[part]) for part in parts)
    S = reduce(Moments.merge, moments).scatter
    varies = S.diagonal() > 0
    S = np.where(varies[:, None] & varies, S, 0.0)
    np.fill_diagonal(S, np.where(varies, S.diagonal(), 1.0))
    return correlation(S)


def _pairwise_correlation(X: FloatArray, weights: FloatArray) -> FloatArray:
    """Σ z_i z_j / √(Σ z_i² Σ z_j²) over the rows that have both columns; z is the difference from a column's mean."""
    there = (~np.isnan(X)).astype(float)
    root = np.sqrt(weights)[:, None]
    total = np.maximum(weights @ there, np.finfo(float).tiny)
    Z = np.where(there > 0, X - (weights @ np.nan_to_num(X.astype(float))) / total, 0.0) * root
    squares = (Z**2).T @ there
    norms = np.sqrt(squares * squares.T)
    R: FloatArray = np.divide(Z.T @ Z, norms, out=np.zeros_like(norms), where=norms > 0)
    np.fill_diagonal(R, 1.0)
    return R


def _moments(X: FloatArray, weights: FloatArray | None) -> Moments:
    if weights is None:
        return Moments.of(X.astype(float, copy=False))
    counted = weights > 1e-9  # rows of other components would only cost time
    return Moments.of(X[counted].astype(float, copy=False), weights[counted])


@dataclass(frozen=True, eq=False)
class BoardView:
    """The checkerboard: standardized data averaged to the cells of a picture, rows sorted by cluster.

    Attributes
    ----------
    values : array of shape (row bins, column bins)
        Mean number of standard deviations from the column's mean; NaN where all values are missing.
    limit : float
        End of the color scale: the 99 % quantile of the absolute values, between 0.5 and 4.
    order : array of shape (N,)
        Rows from top to bottom.
    row_bins, column_bins : arrays
        Where each bin begins, and the end of the last.
    """

    values: FloatArray
    limit: float
    order: IntArray
    row_bins: IntArray
    column_bins: IntArray


def board_view(X: FloatArray, labels: IntArray, columns: IntArray, most: tuple[int, int]) -> BoardView:
    """Checkerboard of rows X with cluster labels 0, 1, …, columns in the given order, in at most `most` cells."""
    Z = StandardScaler().fit_transform(np.asarray(X, dtype=float))
    order = row_order(np.nan_to_num(Z), labels)
    row_bins, column_bins = cluster_bins(np.bincount(labels), most[0]), bins(len(columns), most[1])
    values = binned(Z[np.ix_(order, columns)], row_bins, column_bins)
    limit = float(np.clip(np.nanquantile(np.abs(values), 0.99), 0.5, 4))
    return BoardView(values, limit, order, row_bins, column_bins)


def row_order(Z: FloatArray, labels: IntArray) -> IntArray:
    """Rows sorted by cluster and, within a cluster, along its leading direction, shape (N,).

    The direction comes from power iterations with a fixed start, so the order is reproducible.
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


def aligned_labels(labels: Sequence[IntArray] | IntArray) -> IntArray:
    """Groups of all components in one numbering, in which matching groups have the same number, shape (G, p).

    The groups of each component are matched one to one with the numbers in use, so that as many columns as possible
    keep their number. A group that shares no column with any of them gets a new number. Groups of several columns have
    the first numbers, so that columns alone use up no colors.

    Examples
    --------
    >>> aligned_labels([[0, 0, 0, 1, 1], [0, 0, 0, 0, 1]])
    array([[0, 0, 0, 1, 1],
           [0, 0, 0, 0, 1]])
    >>> aligned_labels([[0, 0, 1, 1], [0, 1, 2, 2]])
    array([[0, 0, 1, 1],
           [0, 2, 1, 1]])
    >>> aligned_labels([[0, 0, 1, 2], [0, 0, 1, 1]])
    array([[0, 0, 1, 2],
           [0, 0, 1, 1]])
    >>> aligned_labels([[0, 0, 1, 2, 3, 4], [0, 0, 1, 2, 3, 3]])
    array([[0, 0, 2, 3, 1, 4],
           [0, 0, 2, 3, 1, 1]])
    """
    partitions = [Partition(row) for row in labels]
    aligned = np.stack([partition.labels for partition in partitions])
    for g in range(1, len(aligned)):
        shared = contingency_matrix(np.tile(partitions[g].labels, g), aligned[:g].ravel())
        numbers = np.full(len(shared), -1)
        groups, used = linear_sum_assignment(shared, maximize=True)
        matched = shared[groups, used] > 0
        numbers[groups[matched]] = used[matched]
        new = numbers < 0
        numbers[new] = shared.shape[1] + np.arange(np.count_nonzero(new))
        aligned[g] = numbers[partitions[g].labels]
    largest = np.max([np.bincount(row, minlength=aligned.max() + 1) for row in aligned], axis=0)
    return np.argsort(np.argsort(largest < 2, kind="stable"))[aligned]
