"""Axes: where a figure is drawn, the colors of groups, and how much text there is room for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from blockmix.structure.types import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NAMES = 60  # more column names than this are unreadable
MOST_PIXELS = 1000  # more than a figure shows along one side
SIGNED = "RdBu_r"  # blue is negative, red positive: told apart by the color-blind as well

# Okabe and Ito's colors, a little calmer, and two more; a column alone is gray.
GROUP_COLORS = ("#0072b2", "#d55e00", "#009e73", "#b5578c", "#b58900", "#3f9fcf", "#7a5ea8", "#8a6d3b")
ALONE = "#a9aeb5"


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """The Axes that were given, or those of a new figure of this size in inches."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def sharp(values: FloatArray) -> FloatArray:
    """Values repeated until there are at least 400 along each side.

    An image that matplotlib shrinks along one side is smoothed along the other as well, which would blur a few columns
    of many rows.
    """
    for axis in (0, 1):
        values = np.repeat(values, -(-400 // values.shape[axis]), axis=axis)
    return values


def name_columns(ax: Axes, names: Sequence[str] | None, order: IntArray, *, both: bool) -> None:
    """Write the names at the x axis, or at both axes, where there is room for them; else how many columns there are."""
    p = len(order)
    if names is not None and len(names) != p:
        raise ValueError(f"names has {len(names)} entries for {p} columns: give one per column")
    if names is not None and p <= MOST_NAMES:
        shown = [names[j] for j in order]
        ax.set_xticks(range(p), shown, rotation=90, fontsize=7)
        if both:
            ax.set_yticks(range(p), shown, fontsize=7)
        return
    ax.set_xlabel(f"{p} columns in group order")
    ax.set_xticks([])
    if both:
        ax.set_yticks([])


def group_color(number: int, size: int) -> str:
    """Color of a group by its number; gray for a column alone."""
    return ALONE if size == 1 else GROUP_COLORS[number % len(GROUP_COLORS)]


def whole_numbers(ax: Axes) -> None:
    """Ticks of the x axis at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def borders(sizes: IntArray) -> IntArray:
    """Where groups of these sizes, side by side, begin and the last ends."""
    return np.concatenate([[0], np.cumsum(sizes)])
