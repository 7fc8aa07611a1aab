"""Figures of matrices, partitions and trees (matplotlib); every function takes and returns Axes.

Plain values come in, so any model can be drawn; the `plot_*` methods of the estimators hand over theirs. Colors are
safe for the color-blind, signed data are centered at zero, and a table of thousands of columns is averaged to what can
be seen. matplotlib is imported when the first figure is drawn.
"""

from blockmix.plotting.curves import dendrogram, likelihood_trace, selection_curve
from blockmix.plotting.groups import group_comparison
from blockmix.plotting.heatmaps import checkerboard, correlation_heatmap, correlation_pair, importance_heatmap

__all__ = [
    "checkerboard",
    "correlation_heatmap",
    "correlation_pair",
    "dendrogram",
    "group_comparison",
    "importance_heatmap",
    "likelihood_trace",
    "selection_curve",
]
