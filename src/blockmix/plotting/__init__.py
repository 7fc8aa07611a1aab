"""Figures of matrices, partitions and trees (matplotlib); every function takes and returns Axes.

Functions take plain values, so they draw any model; the `plot_*` methods of the estimators call them. Colors are
color-blind safe, signed data are centered at zero, and tables with thousands of columns are averaged to the pixels of
a figure. matplotlib is imported with the first figure.
"""

from blockmix.plotting.curves import (
    cluster_stability,
    dendrogram,
    group_comparison,
    likelihood_trace,
    selection_curve,
)
from blockmix.plotting.heatmaps import (
    association_heatmap,
    checkerboard,
    correlation_heatmap,
    correlation_pair,
    importance_heatmap,
    share_heatmap,
)
from blockmix.plotting.style import style

__all__ = [
    "association_heatmap",
    "checkerboard",
    "cluster_stability",
    "correlation_heatmap",
    "correlation_pair",
    "dendrogram",
    "group_comparison",
    "importance_heatmap",
    "likelihood_trace",
    "selection_curve",
    "share_heatmap",
    "style",
]
