"""Style: colors and sizes of figures for the screen or for print, new Axes, and the column names that fit on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from blockmix.partition import IntArray
from blockmix.rows.files import needed

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Style:
    """Colors and sizes of figures.

    Attributes
    ----------
    alone : str
        Color of a column alone.
    names : int
        Largest number of column names along one side.
    font : float
        Size of fonts relative to the screen.
    width : float or None
        Width of new figures in inches; None leaves it to each figure.
    """

    alone: str
    names: int
    font: float
    width: float | None


# Okabe and Ito's colors, slightly muted, and two more. Blue is negative, red positive; color-blind safe.
GROUPS = ("#0072b2", "#d55e00", "#009e73", "#b5578c", "#b58900", "#3f9fcf", "#7a5ea8", "#8a6d3b")
CLUSTERS = ("#3b6fd4", "#e2951b", "#d9483b", "#2a9d8f", "#9b59d0", "#8d6e52", "#e26fa8", "#6f9a24")
SIGNED = "RdBu_r"  # color map of values around zero
STYLES = {
    "screen": Style("#a9aeb5", 60, 1.0, None),
    "paper": Style("#cfcfcf", 40, 0.7, 85 / 25.4),  # one column of a journal
}
_style: ContextVar[Style] = ContextVar("style", default=STYLES["screen"])


def current() -> Style:
    """The style of the next figure."""
    return _style.get()


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
    if name not in STYLES:
        raise ValueError(f"style {name!r} must be one of {', '.join(STYLES)}")
    chosen = STYLES[name]
    points = 10 * chosen.font
    settings = {"font.size": points, "axes.titlesize": 1.1 * points, "pdf.fonttype": 42, "svg.fonttype": "none"}
    token = _style.set(chosen)
    try:
        with needed("matplotlib", "app").rc_context({} if chosen.width is None else settings):
            yield
    finally:
        _style.reset(token)


def points(size: float) -> float:
    """A font size in the scale of the style."""
    return size * current().font


def new_axes(rows: int, columns: int, width: float, height: float) -> Any:
    """Axes of a new figure of this size in inches, or of the style's width; an array of them if there are several."""
    pyplot = needed("matplotlib.pyplot", "app")
    if (column := current().width) is not None:
        width, height = column, height * min(1.0, column / width * 1.2)  # room for the names, which shrink less
    # savefig takes the resolution of the figure; letters are hard to read at matplotlib's 100 dots per inch.
    return pyplot.subplots(rows, columns, figsize=(width, height), dpi=150, layout="constrained")[1]


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """The given Axes, or the Axes of a new figure of this size in inches."""
    return new_axes(1, 1, width, height) if ax is None else ax


def color_scale(image: Any, ax: Axes | list[Axes], label: str, **settings: Any) -> Any:
    """The color scale of an image: beside it, or below it in the width of one column."""
    figure = (ax if isinstance(ax, list) else [ax])[0].figure
    place = {"shrink": 0.8} if current().width is None else {"location": "bottom", "aspect": 40, "pad": 0.04}
    return figure.colorbar(image, ax=ax, label=label, **(place | settings))


def group_color(number: int, size: int = 2) -> str:
    """Color of the group with this number; gray for a column alone."""
    return current().alone if size == 1 else GROUPS[number % len(GROUPS)]


def name_columns(ax: Axes, names: Sequence[str] | None, order: IntArray, *, both: bool = False) -> None:
    """Label the x axis, or both axes, with the column names if they fit, else with the number of columns."""
    p = len(order)
    if names is not None and len(names) != p:
        raise ValueError(f"names has {len(names)} entries for {p} columns: give one per column")
    shown = names is not None and p <= current().names
    places, labels = (range(p), [names[j] for j in order]) if names is not None and shown else ([], [])
    ax.set_xticks(places, labels, rotation=90, fontsize=points(7))
    if both:
        ax.set_yticks(places, labels, fontsize=points(7))
    if not shown:
        ax.set_xlabel(f"{p} columns in group order")
