"""Axes: where to draw, the colors of groups, and which labels fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from blockmix.partition import FloatArray, IntArray
from blockmix.plotting.style import current, points
from blockmix.rows.files import needed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_PIXELS = 1000  # along one side: more than a figure shows


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """The given Axes, or the Axes of a new figure of this size in inches."""
    return new_axes(1, 1, width, height) if ax is None else ax


def new_axes(rows: int, columns: int, width: float, height: float) -> Any:
    """Axes of a new figure of this size in inches, or of the style's width; an array of them if there are several."""
    pyplot = needed("matplotlib.pyplot", "app")
    if (most := current().width) is not None:
        width, height = most, height * min(1.0, most / width * 1.2)  # room for the names, which shrink less
    return pyplot.subplots(rows, columns, figsize=(width, height), layout="constrained")[1]


def color_scale(image: Any, ax: Axes | list[Axes], label: str, **settings: Any) -> Any:
    """The color scale of an image: beside it, or below it in the width of one column."""
    figure = (ax if isinstance(ax, list) else [ax])[0].figure
    place = {"shrink": 0.8} if current().width is None else {"location": "bottom", "aspect": 40, "pad": 0.04}
    return figure.colorbar(image, ax=ax, label=label, **(place | settings))


def sharp(values: FloatArray) -> FloatArray:
    """Values repeated to at least 400 along each side.

    An image that matplotlib shrinks along one side is smoothed along the other too, which would blur a few columns of
    many rows.
    """
    for axis in (0, 1):
        values = np.repeat(values, -(-400 // values.shape[axis]), axis=axis)
    return values


def name_columns(ax: Axes, names: Sequence[str] | None, order: IntArray, *, both: bool) -> None:
    """Label the x axis, or both axes, with the column names if they fit, else with the number of columns."""
    p = len(order)
    if names is not None and len(names) != p:
        raise ValueError(f"names has {len(names)} entries for {p} columns: give one per column")
    if names is not None and p <= current().names:
        shown = [names[j] for j in order]
        ax.set_xticks(range(p), shown, rotation=90, fontsize=points(7))
        if both:
            ax.set_yticks(range(p), shown, fontsize=points(7))
        return
    ax.set_xlabel(f"{p} columns in group order")
    ax.set_xticks([])
    if both:
        ax.set_yticks([])


def group_color(number: int, size: int) -> str:
    """Color of the group with this number; gray for a column alone."""
    look = current()
    return look.alone if size == 1 else look.groups[number % len(look.groups)]


def whole_numbers(ax: Axes) -> None:
    """Put ticks of the x axis at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def borders(sizes: IntArray) -> IntArray:
    """Where adjacent groups of these sizes begin, and where the last ends."""
    return np.concatenate([[0], np.cumsum(sizes)])
