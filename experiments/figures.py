"""Figures of the experiments: curves, matrices and compared methods (matplotlib).

Tables of plain values, as made by `harness.mean_by`, are drawn to a PNG beside their CSV.
`python -m experiments.figures` redraws figures from the committed tables without repeating any run.
"""

from __future__ import annotations

import csv
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image

from experiments.harness import Task, folder

# Okabe and Ito's color-blind safe colors.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#F0E442")
MARKERS = "osD^vPX*"
GRAY = "#888888"


def sheet(rows: int, columns: int, title: str, size: tuple[float, float]) -> tuple[Figure, np.ndarray]:
    """A figure with a grid of axes, each of the given size in inches."""
    shape = (size[0] * columns, size[1] * rows + 0.7)
    figure, axes = plt.subplots(rows, columns, figsize=shape, squeeze=False, layout="constrained")
    figure.suptitle(title, fontsize=13)
    return figure, axes


def save(figure: Figure, name: str, options: Any) -> None:
    """Write the figure to NAME.png, in 256 colors: a third of the size, and no difference to the eye."""
    path = folder(options) / f"{name}.png"
    figure.savefig(path, dpi=100)
    plt.close(figure)
    with Image.open(path) as image:
        image.convert("RGB").quantize(256).save(path, optimize=True, dpi=(100, 100))


def curves(ax: Axes, table: list[Task], x: str, y: str, *, factor: float = 1.0, deviations: bool = False) -> None:
    """One line per method over evenly spaced values of x, with standard deviations if asked for.

    Methods are moved apart sideways, so that none hides another where their values agree.
    """
    values, methods = sorted({line[x] for line in table}), list(dict.fromkeys(line["method"] for line in table))
    step = 0.75 / len(methods)
    for i, method in enumerate(methods):
        lines = [line for line in table if line["method"] == method]
        places = [values.index(line[x]) + step * (i - (len(methods) - 1) / 2) for line in lines]
        middle = factor * np.array([line[y] for line in lines])
        spread = factor * np.array([line[f"{y}_sd"] for line in lines]) if deviations else None
        style = {"linewidth": 1.2, "marker": MARKERS[i], "markersize": 6, "elinewidth": 1, "capsize": 2}
        ax.errorbar(places, middle, spread, color=COLORS[i], label=method, **style)
    for place in range(1, len(values)):
        ax.axvline(place - 0.5, color="#DDDDDD", linewidth=0.8)
    ax.set_xlim(-0.5, len(values) - 0.5)
    ax.set_xticks(range(len(values)), [str(n) for n in values])
    ax.tick_params(axis="x", length=0)
    ax.grid(axis="y", alpha=0.3)


def matrix(ax: Axes, values: np.ndarray, title: str, limits: tuple[float, float], cmap: str, digits: int = -1) -> Any:
    """Heat map of a matrix; with digits, cells show their values."""
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
    """Every method on every data set (rows of axes) by every figure of merit (columns of axes), on shared x axes.

    A dot is a mean over seeds, with its standard deviation; a diamond is the paper's value, from column paper_FIGURE.
    """
    sets = list(dict.fromkeys(line["data"] for line in table))
    tallest = max(sum(line["data"] == name for line in table) for name in sets)
    sheet_, axes = sheet(len(sets), len(figures), title, (4.6, 0.7 + 0.24 * tallest))
    for (i, j), ax in np.ndenumerate(axes):
        figure, label = list(figures.items())[j]
        lines = [line for line in table if line["data"] == sets[i]]
        _dots(ax, lines, figure)
        _x_axis(ax, table, figure)
        ax.set_title(f"{sets[i]}: {label}", fontsize=10)
        ax.set_yticks(range(len(lines)), [line["method"] for line in lines] if j == 0 else [], fontsize=9)
    marks = [
        Line2D([], [], color=GRAY, marker="o", label="methods compared in the paper"),
        Line2D([], [], color=COLORS[0], marker="o", label="blockmix (mean ± standard deviation over seeds)"),
        Line2D([], [], color="black", marker="D", linestyle="", markerfacecolor="none", label="value in the paper"),
    ]
    sheet_.legend(handles=marks, loc="outside lower center", ncols=3)
    return sheet_


def _dots(ax: Axes, lines: Sequence[Task], figure: str) -> None:
    for i, line in enumerate(lines):
        color = COLORS[0] if line["method"].startswith("blockmix") else GRAY
        ax.errorbar(line[figure], i, xerr=line[f"{figure}_sd"], color=color, marker="o", markersize=6)
        paper = line[f"paper_{figure}"]
        if paper is not None:
            ax.plot(paper, i, color="black", marker="D", markersize=6, markerfacecolor="none")
        shown = f"{line[figure]:.2g}" if figure == "seconds" else f"{line[figure]:.3f}".replace("-", "−")
        place = {"xycoords": ("axes fraction", "data"), "ha": "left", "va": "center"}
        ax.annotate(shown, (1.02, i), fontsize=8, **place)
    ax.set_ylim(len(lines) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(alpha=0.3)


def _x_axis(ax: Axes, table: list[Task], figure: str) -> None:
    """The same x axis for all data sets: logarithmic for seconds, up to 1 for shares and indices."""
    values = [line[key] for line in table for key in (figure, f"paper_{figure}") if line[key] is not None]
    if figure == "seconds":
        ax.set_xscale("log")
        ax.set_xlim(min(values) / 2, max(values) * 2)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.minorticks_off()
    else:
        ax.set_xlim(np.floor(10 * min(values) + 0.5) / 10 - 0.1, 1.03)
        ax.set_xticks([tick for tick in np.arange(0, 1.01, 0.2) if tick >= ax.get_xlim()[0]])


def committed(name: str) -> list[Task]:
    """The committed table NAME.csv, with numbers as numbers and empty cells as None."""
    with (folder(FULL) / f"{name}.csv").open(newline="") as file:
        return [{key: _value(cell) for key, cell in line.items()} for line in csv.DictReader(file)]


def _value(cell: str) -> Any:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell or None


FULL = Namespace(full=True)


if __name__ == "__main__":
    for name in ("recovery", "grid", "n_components", "real_sets", "gene_sets"):
        import_module(f"experiments.paper.{name}").draw(committed(name), FULL)
