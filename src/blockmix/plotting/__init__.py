"""Figures of matrices, partitions and trees (matplotlib); every function takes and returns Axes.

Functions take plain values, so they draw any model; the `plot_*` methods of the estimators call them. Colors are
color-blind safe, signed data are centered at zero, and tables with thousands of columns are averaged to the pixels of
a figure. matplotlib is imported with the first figure.
"""

from blockmix.plotting.curves import dendrogram, row_map, selection_curve
from blockmix.plotting.heatmaps import (
    association_heatmap,
    checkerboard,
    correlation_heatmap,
    correlation_pair,
    importance_heatmap,
    linked_correlations,
    means_heatmap,
)
from blockmix.plotting.style import style

__all__ = [
    "association_heatmap",
    "checkerboard",
    "correlation_heatmap",
    "correlation_pair",
    "dendrogram",
    "importance_heatmap",
    "linked_correlations",
    "means_heatmap",
    "row_map",
    "selection_curve",
    "style",
]
