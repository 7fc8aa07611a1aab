"""Column groups of several components side by side: which columns stay together and which change group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from blockmix.partition import IntArray
from blockmix.plotting.axes import axes_or_new, group_color, name_columns
from blockmix.plotting.style import current, points
from blockmix.plotting.views import aligned_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def group_comparison(
    column_labels: IntArray,
    *,
    names: Sequence[str] | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Column groups of each component; groups that share most columns have the same letter and color.

    A column alone is gray. The row "moves" marks the columns whose letter differs between components.

    Parameters
    ----------
    column_labels : array of shape (G, p)
        Group of each column in each component.
    names : sequence of str, optional
        Column names; shown, like the letters, up to 60 columns.
    title : str
    ax : Axes, optional
    """
    families = aligned_labels(column_labels)
    G, p = families.shape
    ax = axes_or_new(ax, max(5.0, min(12.0, 1.5 + 0.3 * p)), 1.6 + 0.4 * G)  # first: says how to install matplotlib
    from matplotlib.colors import to_rgb

    order = np.lexsort(families[::-1])
    shown = families[:, order]
    moves = (shown != shown[0]).any(axis=0)
    sizes = [np.bincount(row) for row in families]
    colors = [[group_color(int(k), int(sizes[g][k])) for k in row] for g, row in enumerate(shown)]
    pixels = np.array([[to_rgb(color) for color in line] for line in colors])
    ax.imshow(pixels, aspect="auto", interpolation="nearest", extent=(-0.5, p - 0.5, G - 0.5, -0.5))
    strip = (-0.5, p - 0.5, G - 0.1, G - 0.42)
    ax.imshow(moves[None], cmap="binary", vmin=0, vmax=1, aspect="auto", interpolation="nearest", extent=strip)
    ax.set_ylim(G - 0.1, -0.5)
    ax.hlines(np.arange(G) + 0.5, -0.5, p - 0.5, color="white", linewidth=2)
    if p <= current().names:
        for g, j in np.ndindex(G, p):
            color = "black" if sizes[g][shown[g, j]] == 1 else "white"
            ax.text(
                j,
                g,
                _letter(int(shown[g, j])),
                ha="center",
                va="center",
                color=color,
                fontsize=points(8),
                weight="bold",
            )
    ax.set_yticks(
        [*range(G), G - 0.26],
        [*(f"component {g}" for g in range(G)), f"moves ({int(moves.sum())})"],
        fontsize=points(8),
    )
    ax.tick_params(length=0)
    name_columns(ax, names, order, both=False)
    ax.set_title(title)
    return ax


def _letter(number: int) -> str:
    """Letter of a set of matching groups: A to Z, then AA, AB and so on."""
    return ("" if number < 26 else _letter(number // 26 - 1)) + chr(ord("A") + number % 26)


def cluster_stability(clusters: Sequence[Any], *, ax: Axes | None = None) -> Axes:
    """Stability of each cluster as a bar and its certainty as a mark; lines are the levels of likely and firm.

    Parameters
    ----------
    clusters : sequence of ClusterStability
        Such as ``model.stability(X).clusters``.
    ax : Axes, optional
    """
    ax = axes_or_new(ax, 5, 1.2 + 0.4 * len(clusters))
    at = np.arange(len(clusters))
    ax.barh(at, [found.stability for found in clusters], height=0.6, color=group_color(0, 2), label="stability")
    ax.plot([found.certainty for found in clusters], at, "k|", markersize=14, markeredgewidth=2, label="certainty")
    for level in (0.85, 0.95):
        ax.axvline(level, color=current().alone, linewidth=1, linestyle="--", zorder=0)
    ax.set_yticks(at, [f"component {found.component}\n{found.rows} rows" for found in clusters], fontsize=points(8))
    ax.invert_yaxis()
    ax.set_xlim(0, 1)
    ax.set_xlabel("Jaccard index with the most similar cluster of a refit, mean")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 1.2), ncols=2, frameon=False, fontsize=points(8))
    return ax
