"""Style: colors and sizes of figures for the screen or for print, new Axes, and the column names that fit on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from blockmix.partition import FloatArray, IntArray
from blockmix.rows.files import needed

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Okabe and Ito's colors, slightly muted, and two more. Blue is negative, red positive; color-blind safe.
GROUPS = ("#0072b2", "#d55e00", "#009e73", "#b5578c", "#b58900", "#3f9fcf", "#7a5ea8", "#8a6d3b")
CLUSTERS = ("#3b6fd4", "#e2951b", "#d9483b", "#2a9d8f", "#9b59d0", "#8d6e52", "#e26fa8", "#6f9a24")
ALONE = "#a9aeb5"  # a column alone
SIGNED = "RdBu_r"  # color map of values around zero
WIDTHS = {"screen": None, "paper": 85 / 25.4}  # of figures in inches: left to each of them, or one column of a journal
_width: ContextVar[float | None] = ContextVar("width", default=None)


def on_paper() -> bool:
    """Whether the next figure is one column wide."""
    return _width.get() is not None


@contextmanager
def style(name: str) -> Iterator[None]:
    """Draw all figures of a block in a style.

    Parameters
    ----------
    name : {"screen", "paper"}
        ``"paper"`` is one column of a journal wide.

    Examples
    --------
    >>> with style("paper"):  # doctest: +SKIP
    ...     model.plot_checkerboard(X).figure.savefig("checkerboard.pdf")
    """
    if name not in WIDTHS:
        raise ValueError(f"style {name!r} must be one of {', '.join(WIDTHS)}")
    print_settings = {"font.size": 7, "axes.titlesize": 7.7, "pdf.fonttype": 42, "svg.fonttype": "none"}
    token = _width.set(WIDTHS[name])
    try:
        with needed("matplotlib", "app").rc_context(print_settings if on_paper() else {}):
            yield
    finally:
        _width.reset(token)


def axes_or_new(ax: Any, width: float, height: float, *grid: int) -> Any:
    """The given Axes or those of a new figure of this size in inches; an array for a grid of (rows, columns)."""
    if ax is not None:
        return np.asarray(ax, dtype=object) if grid else ax
    pyplot = needed("matplotlib.pyplot", "app")
    if (column := _width.get()) is not None:
        width, height = column, height * min(1.0, column / width * 1.2)  # room for the names, which shrink less
    # savefig takes the resolution of the figure; letters are hard to read at matplotlib's 100 dots per inch.
    return pyplot.subplots(*grid, figsize=(width, height), dpi=150, layout="constrained")[1]


def color_scale(image: Any, ax: Axes | list[Axes], label: str, **settings: Any) -> Any:
    """The color scale of an image: beside it, or below it in the width of one column."""
    figure = (ax if isinstance(ax, list) else [ax])[0].figure
    place = {"location": "bottom", "aspect": 40, "pad": 0.04} if on_paper() else {"shrink": 0.8}
    return figure.colorbar(image, ax=ax, label=label, **(place | settings))


def group_color(number: int, size: int = 2) -> str:
    """Color of the group with this number; gray for a column alone."""
    return ALONE if size == 1 else GROUPS[number % len(GROUPS)]


def name_columns(ax: Axes, names: Sequence[str] | None, order: IntArray, *, both: bool = False) -> None:
    """Label the x axis, or both axes, with the column names if they fit, else with the number of columns."""
    p = len(order)
    if names is not None and len(names) != p:
        raise ValueError(f"names has {len(names)} entries for {p} columns: give one per column")
    shown = names is not None and p <= (40 if on_paper() else 60)
    places, labels = (range(p), [names[j] for j in order]) if names is not None and shown else ([], [])
    ax.set_xticks(places, labels, rotation=90, fontsize="x-small")
    if both:
        ax.set_yticks(places, labels, fontsize="x-small")
    if not shown:
        ax.set_xlabel(f"{p} columns in group order")


def finished(ax: Axes, label: str, title: str = "") -> Axes:
    """Label the Axes and remove the frame."""
    ax.set_ylabel(label)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(title)
    return ax


def sharp(values: FloatArray) -> FloatArray:
    """Values repeated to at least 400 along each side.

    An image that matplotlib shrinks along one side is smoothed along the other too, which would blur a few columns of
    many rows.
    """
    for axis in (0, 1):
        values = np.repeat(values, -(-400 // values.shape[axis]), axis=axis)
    return values
