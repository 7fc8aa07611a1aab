"""Views: what a fitted model shows, as plain arrays that the figures and the report draw.

For each component, the observed and estimated correlations and the tree of the columns; for the data, the checkerboard;
and one numbering of the groups that makes components comparable. Large matrices are averaged over bins, which are given
by where each begins, with the end of the last appended, shape (bins + 1,).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics.cluster import contingency_matrix
from sklearn.preprocessing import StandardScaler
from sklearn.utils.extmath import randomized_svd

from blockmix.blocks.blocks import Blocks
from blockmix.blocks.moments import correlation
from blockmix.grouping.grouping import tree_of
from blockmix.partition import FloatArray, IntArray, Partition


class ComponentView(NamedTuple):
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
        Linkage of the columns in SciPy's format, from what remains of the observed correlation if there is one.
    common : array of shape (p, p) or None
        What common factors contribute to the correlations; None without any.
    remaining : array of shape (p, p)
        Observed correlation, or the estimated one, without the common factors; the observed one itself without any.
    """

    partition: Partition
    estimated: FloatArray
    observed: FloatArray | None
    tree: FloatArray
    common: FloatArray | None
    remaining: FloatArray


def component_view(block: Blocks, X: FloatArray | None, weights: FloatArray | None, model: Any) -> ComponentView:
    """View of a component with this covariance, from rows X, shape (N, p), that count `weights`, shape (N,).

    A column that does not vary is uncorrelated with all others. With missing values, the correlation of two columns is
    that of the rows that have both.
    """
    estimated, observed = correlation(block.dense()), None if X is None else observed_correlation(X, weights)
    common, remaining = None, estimated if observed is None else observed
    if block.common.size:
        loadings = block.common / np.sqrt(block.variances)[:, None]
        common = loadings @ loadings.T
        unique = 1 - np.minimum(common.diagonal(), 1 - 1e-6)
        remaining = np.clip((remaining - common) / np.sqrt(unique * unique[:, None]), -1, 1)
        np.fill_diagonal(remaining, 1.0)
    tree = tree_of(getattr(model, "grouping", None)).tree(remaining)
    return ComponentView(block.partition, estimated, observed, tree, common, remaining)


def observed_correlation(X: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Σ z_i z_j / √(Σ z_i² Σ z_j²) over the rows that have both columns; z is the difference from a column's mean."""
    low = np.nan_to_num(np.fmin.reduce(X)).astype(float)
    if weights is not None:
        counted = weights > 1e-9  # rows of other components would only cost time
        X, weights = X[counted], weights[counted]
    weights = np.ones(len(X)) if weights is None else weights
    Z = X - low  # a constant column is exactly 0
    present = ~np.isnan(Z)
    total = np.maximum(weights @ present, np.finfo(float).tiny)
    Z = np.where(present, Z - (weights @ np.nan_to_num(Z)) / total, 0.0) * np.sqrt(weights)[:, None]
    return correlations_of(Z, present)


def correlations_of(Z: FloatArray, present: Any) -> FloatArray:
    """Correlations of centered columns, 0 where values are missing, over the rows that have both, shape (p, p)."""
    squares = (Z**2).sum(axis=0)[:, None] if present.all() else (Z**2).T @ present.astype(float)
    R: FloatArray = np.clip(Z.T @ Z / np.maximum(np.sqrt(squares * squares.T), np.finfo(float).tiny), -1, 1)
    np.fill_diagonal(R, 1.0)
    return R


class BoardView(NamedTuple):
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


def board_view(X: FloatArray, labels: IntArray, columns: IntArray, max_cells: tuple[int, int]) -> BoardView:
    """Checkerboard of rows X with cluster labels 0, 1, …, columns in the given order, in about `max_cells` bins.

    Rows are sorted by cluster and, within a cluster, along its leading direction. No bin spans two clusters.
    """
    Z = StandardScaler().fit_transform(np.asarray(X, dtype=float))
    filled = np.nan_to_num(Z)
    order, row_bins = np.empty(0, dtype=np.intp), [0]
    for g in np.unique(labels):
        rows = np.flatnonzero(labels == g)
        centered = filled[rows] - filled[rows].mean(axis=0)
        leading = randomized_svd(centered, 1, random_state=0)[2][0]
        n, m = len(rows), min(len(rows), max(1, max_cells[0] * len(rows) // len(labels)))
        row_bins += (len(order) + np.arange(1, m + 1) * n // m).tolist()  # as even as possible
        order = np.append(order, rows[np.argsort(centered @ leading, kind="stable")])
    p, m = len(columns), min(len(columns), max_cells[1])
    column_bins = np.arange(m + 1) * p // m
    values = binned(Z[np.ix_(order, columns)], np.array(row_bins), column_bins)
    limit = float(np.clip(np.nanquantile(np.abs(values), 0.99), 0.5, 4))
    return BoardView(values, limit, order, np.array(row_bins), column_bins)


def binned(values: FloatArray, row_bins: IntArray, column_bins: IntArray) -> FloatArray:
    """Means of a matrix over its bins, shape (row bins, column bins); NaN where all values of a bin are missing."""
    present = ~np.isnan(values)
    if not present.all():
        parts = (np.where(present, values, 0), present.astype(float))
        sums, counts = (binned(part, row_bins, column_bins) for part in parts)
        return np.where(counts > 0, sums / np.where(counts > 0, counts, 1), np.nan)
    for axis, starts in enumerate((row_bins, column_bins)):
        if len(starts) - 1 < values.shape[axis]:
            sizes = np.expand_dims(np.diff(starts), 1 - axis)
            values = np.add.reduceat(values, starts[:-1], axis=axis, dtype=float) / sizes
    return values


def row_axes(Z: FloatArray, centers: Any, covariances: Sequence[Blocks]) -> tuple[list[FloatArray], list[str]]:
    """Scores of standardized rows, shape (n, p), on two axes that separate the clusters, and the names of the axes.

    Discriminant axes are directions v of largest vᵀBv / vᵀWv for standardized rows. W is the fitted covariance within
    components. B = Σ_g π_g (μ_g − μ)(μ_g − μ)ᵀ has rank G − 1, so v = W⁻¹M u, where B = MMᵀ and u is a leading
    eigenvector of MᵀW⁻¹M. Where there are fewer than two, principal axes of what they leave follow.
    """
    scores: list[FloatArray] = []
    names = list[str]()
    if centers is not None and len(centers.weights) > 1:
        blocks = zip(centers.weights, covariances, strict=True)
        W = sum(weight * block.dense() for weight, block in blocks) / np.outer(centers.scale, centers.scale)
        M = (centers.standardized * np.sqrt(centers.weights)[:, None]).T
        solved = np.linalg.solve(W, M)
        values, vectors = np.linalg.eigh(M.T @ solved)
        for k in (-1, -2):
            if values[k] > 1e-6:
                scores.append(Z @ (solved @ vectors[:, k] / np.sqrt(values[k])))
                share = values[k] / values[values > 0].sum()
                names.append(f"discriminant axis {-k}, {share:.0%} of the differences")
    n_discriminants, residual = len(scores), Z - Z.mean(axis=0)
    total = float(np.square(residual).sum())
    for k in range(2):
        if k == len(scores):
            U, s, _ = randomized_svd(residual, 1, random_state=0)
            scores.append(U[:, 0] * s[0])
            names.append(f"principal axis {k - n_discriminants + 1}, {s[0] ** 2 / total:.0%} of the variance")
        centered = scores[k] - scores[k].mean()
        square = float(centered @ centered)
        if square > 0:  # what the regression of the columns on this score leaves
            residual = residual - np.outer(centered, centered @ residual / square)
    return scores, names


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
