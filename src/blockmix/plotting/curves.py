"""Curves: the tree of the columns, criteria by number of components, and the map of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from blockmix.grouping.grouping import cut, leaf_order
from blockmix.partition import FloatArray, IntArray, Partition
from blockmix.plotting.style import ALONE, CLUSTERS, axes_or_new, finished, group_color, name_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "osD^vPX*"
_MAX_BRANCHES = 300  # more branches are rasterized in vector files


def dendrogram(
    tree: FloatArray,
    n_groups: int | None = None,
    *,
    names: Sequence[str] | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Dendrogram of the columns with the line that cuts it into groups, each group in its color.

    Parameters
    ----------
    tree : array of shape (p − 1, 4)
        Linkage in SciPy's format, such as ``linkage_`` of BlockDiagonalCovariance.
    n_groups : int, optional
        Number of groups to cut into; without it no line is drawn.
    names : sequence of str, optional
        Column names; shown up to 60 columns.
    title : str
    ax : Axes, optional
    """
    ax = axes_or_new(ax, 8, 4)  # first: its error says how to install matplotlib
    from matplotlib.collections import LineCollection

    p, order = len(tree) + 1, leaf_order(tree)
    if n_groups is not None and not 1 <= n_groups <= p:
        raise ValueError(f"n_groups={n_groups} must be from 1 to {p}, the number of columns")
    partition = Partition(np.arange(p)) if n_groups is None else cut(tree, n_groups)
    lines, colors = _branches(tree, partition)
    width = 1.2 if p <= 200 else 0.6
    ax.add_collection(LineCollection(lines, colors=colors, linewidths=width, rasterized=p > _MAX_BRANCHES))
    heights = np.concatenate([[0.0], tree[:, 2], [tree[:, 2].max(initial=1e-9) * 1.05]])
    if n_groups is not None:
        level = (heights[p - n_groups] + heights[p - n_groups + 1]) / 2
        ax.axhline(level, color="black", linestyle="--", linewidth=1)
        label, place = f"{n_groups} group{'' if n_groups == 1 else 's'}", ax.get_yaxis_transform()
        ax.text(0.995, level, label, transform=place, ha="right", va="bottom", fontsize="small")
    ax.set_xlim(-0.5, p - 0.5)
    ax.set_ylim(0, heights[-1])
    name_columns(ax, names, order)
    return finished(ax, "distance", title)


def _branches(tree: FloatArray, partition: Partition) -> tuple[list[FloatArray], list[str]]:
    """Lines of each merge and their color: that of the group, gray above the cut."""
    p, order = len(tree) + 1, leaf_order(tree)
    x = np.concatenate([np.argsort(order).astype(float), np.zeros(p - 1)])
    height = np.concatenate([np.zeros(p), tree[:, 2]])
    # Numbered in leaf order, so that neighbors have different colors.
    along = np.cumsum(np.diff(partition.labels[order], prepend=-1) != 0)[np.argsort(order)]
    group = np.concatenate([along, np.full(p - 1, -1)])
    lines, colors = [], []
    for k, (a, b) in enumerate(tree[:, :2].astype(int).tolist()):
        x[p + k] = (x[a] + x[b]) / 2
        group[p + k] = group[a] if group[a] == group[b] else -1
        lines.append(np.array([[x[a], height[a]], [x[a], tree[k, 2]], [x[b], tree[k, 2]], [x[b], height[b]]]))
        colors.append(ALONE if group[p + k] < 0 else group_color(int(group[p + k])))
    return lines, colors


def selection_curve(table: Any, *, criterion: str | None = None, ax: Axes | None = None) -> Axes:
    """A criterion over the candidates of a selection, with the best one marked; smaller is better.

    The x axis is the number of components, with one line for each number of column groups and kind of model; the other
    way round if more numbers of groups than of components were tried.

    Parameters
    ----------
    table : SelectionTable
    criterion : {"bic", "icl", "aic"}, optional
        By default that of the table.
    ax : Axes, optional
    """
    name = table.criterion if criterion is None else criterion
    if name not in ("bic", "icl", "aic"):
        raise ValueError(f"criterion={name!r} must be one of bic, icl, aic")
    ax = axes_or_new(ax, 6.5, 4)
    rows = [row for row in table.rows if np.isfinite(getattr(row, name))]
    asked = {str(row.n_column_groups): row.n_column_groups for row in rows}
    numbers = {row.n_components for row in rows}
    over_groups = all(isinstance(K, int) for K in asked.values()) and len(asked) > len(numbers)
    x, line = ("n_column_groups", "n_components") if over_groups else ("n_components", "n_column_groups")
    curves: dict[str, list[tuple[Any, float]]] = {}
    for row in rows:
        label = ", ".join([str(getattr(row, line)), *(f"{key}={value}" for key, value in row.kind.items())])
        curves.setdefault(label, []).append((getattr(row, x), getattr(row, name)))
    for i, (label, places) in enumerate(curves.items()):
        look: dict[str, Any] = {"color": group_color(i), "marker": _MARKERS[i % len(_MARKERS)], "markersize": 5}
        ax.plot(*np.transpose(sorted(places)), label=label, **look)
    if rows:
        best = min([row for row in rows if row.sound] or rows, key=lambda row: getattr(row, name))
        place = (getattr(best, x), getattr(best, name))
        ax.plot(*place, marker="o", markersize=14, fillstyle="none", color="black", markeredgewidth=1.5)
    if len(curves) > 1:
        heading = "clusters" if over_groups else "column groups"
        ax.legend(title=heading, fontsize="small", frameon=False, ncols=1 + len(curves) // 9)
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel(f"number of {'column groups' if over_groups else 'clusters'}")
    return finished(ax, name.upper())


def row_map(
    axes: Sequence[FloatArray],
    labels: IntArray,
    clusters: Sequence[str],
    names: Sequence[str] = ("", ""),
    *,
    ax: Axes | None = None,
) -> Axes:
    """Rows on two axes, in the color and shape of their clusters.

    Parameters
    ----------
    axes : two arrays of shape (N,)
    labels : array of shape (N,)
        Cluster of each row.
    clusters : sequence of str
        Names of the clusters.
    names : two str
        Names of the axes.
    ax : Axes, optional
    """
    ax = axes_or_new(ax, 6.5, 4.5)
    many: dict[str, Any] = {"s": 5 if len(labels) > 1000 else 14, "rasterized": len(labels) > 5000}
    for g, name in enumerate(clusters):
        x, y = (axis[labels == g] for axis in axes)
        ax.scatter(x, y, marker=_MARKERS[g % 8], color=CLUSTERS[g % 8], label=name, **many)
    place: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": min(4, len(clusters))}
    ax.legend(fontsize="small", frameon=False, **place)
    ax.set_xlabel(names[0])
    return finished(ax, names[1])
