"""Board: the standardized data as pixels, rows sorted by component, and the share of cells that are missing."""

from __future__ import annotations

from typing import Any

import numpy as np

from blockmix.partition import IntArray
from blockmix.plotting.views import board_view
from blockmix.report.components import MOST_SIDE
from blockmix.report.pixels import encoded
from blockmix.report.subject import Subject

_MOST_ROWS = 480  # rows of pixels


def checkerboard(subject: Subject, leaves: IntArray) -> dict[str, Any] | None:
    """Standardized rows sorted by component, as pixels; columns as in the table unless they are too many."""
    if subject.X is None or subject.row_labels is None:
        return None
    N, p = subject.X.shape
    sample = subject.sample
    labels, columns = subject.row_labels[sample], np.arange(p) if p <= MOST_SIDE else leaves
    board = board_view(subject.X[sample], labels, columns, (_MOST_ROWS, MOST_SIDE))
    return {
        "pixels": encoded(board.values, board.limit),
        "limit": round(board.limit, 3),
        "rowStarts": board.row_bins.tolist(),
        "rowComponents": labels[board.order[board.row_bins[:-1]]].tolist(),
        "rows": board.order.tolist() if len(board.values) == N else None,
        "sampled": len(sample),
        "total": N,
        "columns": columns.tolist(),
        "starts": board.column_bins.tolist(),
    }


def gaps(subject: Subject) -> dict[str, Any] | None:
    """Missing cells: their number, and their share in each column that has any, in all rows and by component."""
    X, labels = subject.X, subject.row_labels
    if X is None or labels is None:
        return None
    missing = np.isnan(X)
    columns = np.flatnonzero(missing.any(axis=0))
    if not len(columns):
        return None
    G = len(subject.column_labels)
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
