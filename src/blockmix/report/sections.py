"""Sections of the page, each a function of a `Subject` that returns its part of the JSON document.

They are the components with their correlation maps and trees, the differences between components, the checkerboard, the
missing values, the list of the rows and the map of the rows. A function returns None if the page has no such section.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from blockmix.estimators.answer import group_scores
from blockmix.estimators.fitting import tells_rows_apart
from blockmix.grouping.grouping import cut, leaf_order
from blockmix.partition import FloatArray, IntArray
from blockmix.plotting.views import binned, board_view, component_view, row_axes
from blockmix.report.subject import MAX_ROWS, Subject, encoded, fractions

MAX_SIDE = 800  # pixels of one map: few screens show it wider
_MAX_MAP_PIXELS = 1_200_000  # of all correlation maps together: 1.6 MB as base64
_MAX_BOARD_ROWS = 480  # rows of pixels of the checkerboard
_MARKS = 8  # columns of each direction that mark a cluster
_PROFILES = 24  # groups of all components whose scores are shown, the largest of each


def components(subject: Subject) -> list[dict[str, Any]]:
    """Maps, tree and groups of each component; a shared covariance has one map, of the rows minus their means."""
    X, z = subject.X, subject.z
    n_maps = len(subject.column_labels) * (1 if subject.stability is None else 1.5)
    n_maps += sum(bool(block.common.size) for block in subject.covariances)
    side = min(MAX_SIDE, int(np.sqrt(_MAX_MAP_PIXELS / n_maps)))
    if subject.centers is None:
        return [_component(subject, 0, X, None, side)]
    if len(subject.covariances) < len(subject.model.weights_):
        residuals = None if X is None else X - subject.model.means_[subject.row_labels]
        return [_component(subject, 0, residuals, None, side)]
    weights = [None if z is None else np.ascontiguousarray(z[:, g]) for g in range(len(subject.covariances))]
    return [_component(subject, g, X, each, side) for g, each in enumerate(weights)]


def _component(subject: Subject, g: int, X: FloatArray | None, weights: FloatArray | None, side: int) -> dict[str, Any]:
    """One component; its maps have its columns in leaf order, in which the groups of every cut are contiguous."""
    view = component_view(subject.covariances[g], X, weights, subject.model)
    partition, order = view.partition, leaf_order(view.tree)
    p, m = len(order), min(len(order), side)
    in_order, cells = np.ix_(order, order), np.arange(m + 1) * p // m

    def maps(below: FloatArray, above: FloatArray | None) -> str:
        """Two symmetric matrices in one of shape (m, m + 1)."""
        both = np.zeros((m, m + 1))
        both[:, :m] = np.tril(binned(below[in_order], cells, cells))
        if above is not None:
            both[:, 1:] += np.triu(binned(above[in_order], cells, cells))
        return encoded(both)

    pairs = None  # the lower triangle, row by row: entry (i, j) is at i (i + 1) / 2 + j
    if subject.stability is not None:
        pairs = encoded(binned(subject.stability.pairs[g][in_order], cells, cells)[np.tril_indices(m)])
    R = np.abs(view.estimated if view.observed is None else view.observed)
    # Mean absolute correlation between the columns of each group, None for a column alone.
    sums = [(len(group), float(R[np.ix_(group, group)].sum())) for group in partition.groups]
    strengths = [None if c == 1 else round((total - c) / (c * (c - 1)), 3) for c, total in sums]
    return {
        "labels": partition.labels.tolist(),
        "merges": view.tree[:, :2].astype(int).ravel().tolist(),
        "heights": np.round(view.tree[:, 2], 4).tolist(),
        "leaves": order.tolist(),
        # Estimated correlations are zero between groups, so they do not show which groups are close.
        "minGroups": partition.n_groups if view.observed is None else 1,
        # EM and groupings without a tree may end at groups that no cut of the tree gives.
        "isCut": np.array_equal(cut(view.tree, partition.n_groups).labels, partition.labels),
        "observed": view.observed is not None,
        "starts": cells.tolist(),
        "pixels": maps(view.estimated, view.observed),
        "shared": None if view.common is None else maps(view.common, view.remaining),
        # Correlation of each column with each common factor.
        "common": np.round(subject.covariances[g].common.T / np.sqrt(subject.covariances[g].variances), 3).tolist(),
        "pairs": pairs,
        "strength": strengths,
    }


def differences(subject: Subject) -> dict[str, Any] | None:
    """Differences of the columns and scores of the column groups by component; None for a single component.

    All come from the fitted means and variances, so they need no rows, and outliers count in a t mixture as little as
    in its fit. Marks are the columns in which a cluster is high and low.
    """
    centers = subject.centers
    if centers is None or len(centers.weights) < 2:
        return None
    most = max(3, _PROFILES // len(subject.covariances))  # the largest groups come first
    scores = [
        [np.round(own, 3).tolist() for _, own in parts][:most] for parts in group_scores(centers, subject.covariances)
    ]
    centers_of = getattr(subject.model, "centers_", subject.model.means_)  # in the units of the columns
    return {
        "columns": np.round(centers.apart, 3).tolist(),
        "marks": [[part.tolist() for part in centers.marks(g, _MARKS)] for g in range(len(centers.weights))],
        "singled": [np.flatnonzero(own).tolist() for own in centers.singled],
        "means": [[float(f"{value:.4g}") for value in row] for row in centers_of.astype(float).tolist()],
        "groups": scores,
    }


def checkerboard(subject: Subject, leaves: IntArray) -> dict[str, Any] | None:
    """Standardized rows sorted by component, as pixels; columns as in the table unless they are too many."""
    if subject.X is None or subject.row_labels is None:
        return None
    N, p = subject.X.shape
    sample = subject.sample
    labels, columns = subject.row_labels[sample], np.arange(p) if p <= MAX_SIDE else leaves
    board = board_view(subject.X[sample], labels, columns, (_MAX_BOARD_ROWS, MAX_SIDE))
    return {
        "pixels": encoded(board.values, board.limit),
        "limit": round(board.limit, 3),
        "rowStarts": board.row_bins.tolist(),
        "rowComponents": labels[board.order[board.row_bins[:-1]]].tolist(),
        "order": board.order.tolist(),
        "sampled": len(sample),
        "total": N,
        "columns": columns.tolist(),
        "starts": board.column_bins.tolist(),
    }


def missing_values(X: FloatArray, labels: IntArray, G: int) -> dict[str, Any]:
    """Number of missing values, and their share in each column that has any, in all rows and by component."""
    missing = np.isnan(X)
    columns = np.flatnonzero(missing.any(axis=0))
    counts = np.stack([missing[labels == g].sum(axis=0) for g in range(G)])
    sizes = np.maximum(np.bincount(labels, minlength=G), 1)
    return {
        "cells": int(missing.sum()),
        "share": round(float(missing.mean()), 4),
        "complete": int((~missing.any(axis=1)).sum()),
        "columns": columns.tolist(),
        "all": np.round(counts.sum(axis=0)[columns] / len(X), 4).tolist(),
        "each": np.round((counts / sizes[:, None])[:, columns], 4).tolist(),
        "components": np.round(counts.sum(axis=1) / (sizes * X.shape[1]), 4).tolist(),
    }


def row_list(subject: Subject) -> dict[str, Any] | None:
    """Certainty and distance of each row; None if rows are not listed."""
    model, z, labels = subject.model, subject.z, subject.row_labels
    if subject.centers is None or labels is None or not 0 < len(labels) <= MAX_ROWS:
        return None
    certainty, far = None, None
    if not tells_rows_apart(model):
        return None
    if z is not None and z.shape[1] > 1:
        runner_up = np.argsort(z, axis=1, kind="stable")[:, -2]
        certainty = {
            "own": fractions(z.max(axis=1)),
            "next": runner_up.tolist(),
            "nextOwn": fractions(z[np.arange(len(z)), runner_up]),
        }
    # Distances are those of the fit: other rows have none.
    if hasattr(model, "outlier_scores_") and np.array_equal(model.row_labels_, labels):
        far = {
            "scores": [float(f"{score:.4g}") for score in model.outlier_scores_.tolist()],
            "groups": model.outlier_groups_.tolist(),
            "outliers": np.flatnonzero(model.outliers_).tolist(),
        }
    return {"certainty": certainty, "far": far}


def row_map(subject: Subject) -> dict[str, Any] | None:
    """The rows on two axes that separate the components; principal axes where there are too few components."""
    Z, labels, sample = subject.Z, subject.row_labels, subject.sample
    if Z is None or labels is None or Z.shape[1] < 2 or len(labels) < 3:
        return None
    axes, names = row_axes(Z, subject.centers, getattr(subject.model, "blocks_", ()))
    scores = np.stack(axes, axis=1)
    low, high = np.quantile(scores, [0.005, 0.995], axis=0)
    room = 0.25 * np.maximum(high - low, np.finfo(float).tiny)
    low, high = np.maximum(low - room, scores.min(axis=0)), np.minimum(high + room, scores.max(axis=0))
    places = (scores - low) / np.maximum(high - low, np.finfo(float).tiny)
    return {
        "x": fractions(places[:, 0]),
        "y": fractions(places[:, 1]),
        "low": np.round(low, 4).tolist(),
        "high": np.round(high, 4).tolist(),
        "beyond": int(((places < 0) | (places > 1)).any(axis=1).sum()),
        "names": names,
        "rows": None if len(sample) == len(labels) else sample.tolist(),
        "components": labels[sample].tolist(),
    }
