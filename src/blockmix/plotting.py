"""Figures: what the groups look like (matplotlib; every function takes and returns Axes).

Matrices and partitions come in; heat maps in group order go out, colour-blind safe, signed data centered at zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from blockmix._types import FloatArray
from blockmix.partition import Partition

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_NAMES = 60  # more column names than this are unreadable


def correlation_heatmap(
    R: FloatArray,
    partition: Partition,
    *,
    names: Sequence[str] | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Correlation matrix with its columns in group order and a frame around each group.

    Parameters
    ----------
    R : array of shape (p, p)
        Correlations.
    partition : Partition
        The column groups.
    names : sequence of str, optional
        Column names; shown where there are at most 60 of them.
    title : str
    ax : Axes, optional
        Where to draw; a new figure by default.
    """
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle

    if ax is None:
        ax = plt.subplots(figsize=(6, 5.5), layout="constrained")[1]
    order = partition.order
    image = ax.imshow(R[np.ix_(order, order)], cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
    start = 0
    for size in partition.sizes:
        ax.add_patch(Rectangle((start - 0.5, start - 0.5), size, size, fill=False, edgecolor="black", linewidth=1.2))
        start += size
    if names is not None and len(names) <= _MOST_NAMES:
        shown = [names[j] for j in order]
        ax.set_xticks(range(len(shown)), shown, rotation=90, fontsize=7)
        ax.set_yticks(range(len(shown)), shown, fontsize=7)
    else:
        ax.set_xlabel(f"{len(order)} columns in group order")
        ax.set_xticks([])
        ax.set_yticks([])
    ax.set_title(title)
    ax.figure.colorbar(image, ax=ax, label="correlation", shrink=0.8)
    return ax


def importance_heatmap(
    importance: FloatArray,
    groups: Sequence[str],
    topics: Sequence[str],
    *,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Importance of term groups for topics in percent of the average, one row per group and one column per topic.

    Colours are even on a logarithmic scale around 100 %, from a quarter to four times the average; the numbers are
    written into the cells.

    Parameters
    ----------
    importance : array of shape (G, K)
        Percent; NaN for a topic without documents.
    groups : sequence of K str
        Labels of the term groups.
    topics : sequence of G str
        Labels of the topics.
    title : str
    ax : Axes, optional
        Where to draw; a new figure that is large enough for the labels by default.
    """
    import matplotlib.pyplot as plt

    G, K = importance.shape
    if ax is None:
        width = 1.8 + 0.075 * max(len(label) for label in groups) + 0.95 * G
        ax = plt.subplots(figsize=(width, 1.9 + 0.27 * K), layout="constrained")[1]
    with np.errstate(divide="ignore"):
        level = np.clip(np.log2(importance.T / 100), -2, 2)
    image = ax.imshow(level, cmap="RdBu_r", vmin=-2, vmax=2, aspect="auto", interpolation="nearest")
    for k, g in np.argwhere(np.isfinite(importance.T)):
        colour = "white" if abs(level[k, g]) > 1.3 else "black"
        ax.text(g, k, f"{importance[g, k]:.0f}", ha="center", va="center", fontsize=8, color=colour)
    ax.set_yticks(range(K), groups, fontsize=8)
    ax.set_xticks(range(G), topics, fontsize=8)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.set_title(title, fontsize=10)
    bar = ax.figure.colorbar(image, ax=ax, label="importance, % of the average over all documents", shrink=0.7)
    bar.set_ticks([-2, -1, 0, 1, 2], labels=["≤ 25", "50", "100", "200", "≥ 400"])
    return ax
