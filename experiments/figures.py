"""Pictures of the experiments: curves, matrices and bars with titles, units and legends (matplotlib).

A table of plain values, as `harness.mean_by` makes it, comes in; a PNG beside its CSV goes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness import Task, folder  # first: it sets the number of threads

# isort: split
import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

# Okabe and Ito's colours, which the colour-blind can tell apart.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#F0E442")
MARKERS = "osD^vPX*"


def sheet(rows: int, columns: int, title: str, size: tuple[float, float]) -> tuple[Figure, np.ndarray]:
    """A figure with a grid of axes, each of the given size in inches."""
    shape = (size[0] * columns, size[1] * rows + 0.7)
    figure, axes = plt.subplots(rows, columns, figsize=shape, squeeze=False, layout="constrained")
    figure.suptitle(title, fontsize=13)
    return figure, axes


def save(figure: Figure, name: str, options: Any) -> None:
    """Write the figure to NAME.png."""
    figure.savefig(folder(options) / f"{name}.png", dpi=100)
    plt.close(figure)


def curves(ax: Axes, table: list[Task], x: str, y: str, *, factor: float = 1.0, band: bool = False) -> None:
    """One line per method, with a band of plus and minus a standard deviation if asked for."""
    for i, method in enumerate(dict.fromkeys(line["method"] for line in table)):
        lines = [line for line in table if line["method"] == method]
        places = [line[x] for line in lines]
        middle = factor * np.array([line[y] for line in lines])
        # Thinner and smaller one by one: lines that lie on each other stay visible.
        style = {"linewidth": 3.4 - 0.4 * i, "marker": MARKERS[i], "markersize": 10 - i}
        ax.plot(places, middle, color=COLORS[i], label=method, **style)
        if band:
            spread = factor * np.array([line[f"{y}_sd"] for line in lines])
            ax.fill_between(places, middle - spread, middle + spread, color=COLORS[i], alpha=0.15, linewidth=0)
    ax.set_xscale("log")
    ax.set_xticks(sorted({line[x] for line in table}), [str(n) for n in sorted({line[x] for line in table})])
    ax.minorticks_off()
    ax.grid(alpha=0.3)


def matrix(ax: Axes, values: np.ndarray, title: str, limits: tuple[float, float], cmap: str, digits: int = -1) -> Any:
    """A matrix in colours; with digits, the values are written into the cells."""
    image = ax.imshow(values, cmap=cmap, vmin=limits[0], vmax=limits[1], interpolation="nearest")
    if digits >= 0:
        for (i, j), value in np.ndenumerate(values):
            dark = (value - limits[0]) / (limits[1] - limits[0]) < 0.5
            shown = f"{value:.{digits}f}"
            ax.text(j, i, shown, ha="center", va="center", fontsize=9, color="white" if dark else "black")
    ax.set_title(title, fontsize=10)
    ax.set_xticks([])
    ax.set_yticks([])
    return image


def compared(table: list[Task], title: str, figures: dict[str, str]) -> Figure:
    """Bars of every figure (a column of axes) on every data set (a row), one bar per method.

    A diamond is the paper's value, from the column paper_FIGURE; seconds are on a logarithmic axis.
    """
    sets = list(dict.fromkeys(line["data"] for line in table))
    most = max(sum(line["data"] == name for line in table) for name in sets)
    sheet_, axes = sheet(len(sets), len(figures), title, (5.2, 0.6 + 0.3 * most))
    for (i, j), ax in np.ndenumerate(axes):
        figure, label = list(figures.items())[j]
        lines = [line for line in table if line["data"] == sets[i]]
        _bars(ax, lines, figure)
        ax.set_title(f"{sets[i]}: {label}", fontsize=10)
        ax.set_yticks(range(len(lines)), [line["method"] for line in lines] if j == 0 else [], fontsize=9)
    marks = [
        Line2D(
            [], [], color="black", marker="D", linestyle="", label="the paper's value (its times: on another machine)"
        )
    ]
    marks.append(Line2D([], [], color="black", marker="_", linestyle="-", label="mean ± standard deviation over seeds"))
    sheet_.legend(handles=marks, loc="outside lower center", ncols=2)
    return sheet_


def _bars(ax: Axes, lines: Sequence[Task], figure: str) -> None:
    values = [line[figure] for line in lines]
    ours = [line["method"].startswith("blockmix") for line in lines]
    colors = [COLORS[0] if mine else "#BBBBBB" for mine in ours]
    ax.barh(range(len(lines)), values, xerr=[line[f"{figure}_sd"] for line in lines], color=colors, ecolor="#444444")
    for i, line in enumerate(lines):
        if line[f"paper_{figure}"] is not None:
            ax.plot(line[f"paper_{figure}"], i, color="black", marker="D", markersize=5)
    ax.invert_yaxis()
    ax.grid(axis="x", alpha=0.3)
    if figure == "seconds":
        ax.set_xscale("log")
        ax.set_xlim(min(values) / 3, max(values) * 20)
    else:
        ax.set_xlim(min(0, *values) - 0.02, 1.25)
    for i, value in enumerate(values):
        shown = f"{value:.2g}" if figure == "seconds" else f"{value:.3f}"
        ax.annotate(shown, (0.99, i), xycoords=("axes fraction", "data"), ha="right", va="center", fontsize=8)
