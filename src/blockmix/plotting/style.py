"""Style: colors and sizes of all figures, for the screen or for print."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from blockmix.rows.files import needed


@dataclass(frozen=True)
class Style:
    """Colors and sizes of figures.

    Attributes
    ----------
    signed, shares : str
        Color maps of values around zero, and of values from 0 to 1.
    groups : tuple of str
        Colors of column groups.
    alone : str
        Color of a column alone.
    names : int
        The most column names along one side.
    font : float
        Size of fonts, relative to those on a screen.
    width : float or None
        Width of new figures in inches; None is that of each figure.
    """

    signed: str
    shares: str
    groups: tuple[str, ...]
    alone: str
    names: int
    font: float
    width: float | None


# Okabe and Ito's colors, slightly muted, and two more. Blue is negative, red positive; color-blind safe.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#b5578c", "#b58900", "#3f9fcf", "#7a5ea8", "#8a6d3b")
_GRAYS = ("#1a1a1a", "#6e6e6e", "#3d3d3d", "#8a8a8a", "#2b2b2b", "#7c7c7c", "#515151", "#969696")
STYLES = {
    "screen": Style("RdBu_r", "Blues", _COLORS, "#a9aeb5", 60, 1.0, None),
    # One column of a journal is 85 mm wide. Lightness alone tells values apart: white is -1, black is 1.
    "paper": Style("Greys", "Greys", _GRAYS, "#cfcfcf", 40, 0.7, 85 / 25.4),
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
        ``"paper"`` is one column of a journal wide and prints well in black and white.

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
    """A font size, relative to those of the style."""
    return size * current().font
