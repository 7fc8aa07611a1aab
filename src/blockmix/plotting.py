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
