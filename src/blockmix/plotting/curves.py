"""Curves: the tree of the columns and its cut, the objective by iteration, criteria by number of components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from blockmix.grouping.hierarchical import cut, spans
from blockmix.partition import FloatArray, Partition
from blockmix.plotting.axes import axes_or_new, group_color, name_columns, whole_numbers
from blockmix.plotting.style import current, points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "osD^vPX*"
_MOST_BRANCHES = 300  # more branches than this are rasterized in vector files


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
    ax = axes_or_new(ax, 8, 4)  # first: says how to install matplotlib
    from matplotlib.collections import LineCollection

    p, order = len(tree) + 1, spans(tree)[0]
    if n_groups is not None and not 1 <= n_groups <= p:
        raise ValueError(f"n_groups={n_groups} must be from 1 to {p}, the number of columns")
    partition = Partition(np.arange(p)) if n_groups is None else cut(tree, n_groups)
    lines, colors = _branches(tree, partition)
    ax.add_collection(
        LineCollection(lines, colors=colors, linewidths=1.2 if p <= 200 else 0.6, rasterized=p > _MOST_BRANCHES)
    )
    heights = np.concatenate([[0.0], tree[:, 2], [tree[:, 2].max(initial=1e-9) * 1.05]])
    if n_groups is not None:
        level = (heights[p - n_groups] + heights[p - n_groups + 1]) / 2
        ax.axhline(level, color="black", linestyle="--", linewidth=1)
        ax.text(
            0.995,
            level,
            f"{n_groups} group{'' if n_groups == 1 else 's'}",
            transform=ax.get_yaxis_transform(),
            ha="right",
            va="bottom",
            fontsize=points(8),
        )
    ax.set_xlim(-0.5, p - 0.5)
    ax.set_ylim(0, heights[-1])
    name_columns(ax, names, order, both=False)
    ax.set_ylabel("distance")
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(title)
    return ax


def _branches(tree: FloatArray, partition: Partition) -> tuple[list[FloatArray], list[str]]:
    """Lines of each merge and their color: that of the group, gray above the cut."""
    p, order = len(tree) + 1, spans(tree)[0]
    at = np.concatenate([np.argsort(order).astype(float), np.zeros(p - 1)])
    height = np.concatenate([np.zeros(p), tree[:, 2]])
    # Numbered in leaf order, so that neighbors have different colors.
    along = np.cumsum(np.diff(partition.labels[order], prepend=-1) != 0)[np.argsort(order)]
    group = np.concatenate([along, np.full(p - 1, -1)])
    lines, colors = [], []
    for k, (a, b) in enumerate(tree[:, :2].astype(int).tolist()):
        at[p + k] = (at[a] + at[b]) / 2
        group[p + k] = group[a] if group[a] == group[b] else -1
        lines.append(np.array([[at[a], height[a]], [at[a], tree[k, 2]], [at[b], tree[k, 2]], [at[b], height[b]]]))
        colors.append(current().alone if group[p + k] < 0 else group_color(int(group[p + k]), 2))
    return lines, colors


def likelihood_trace(trace: ArrayLike, *, title: str = "", ax: Axes | None = None) -> Axes:
    """The objective at each iteration, such as ``log_likelihood_trace_``.

    Parameters
    ----------
    trace : array-like of shape (iterations,)
    title : str
    ax : Axes, optional
    """
    values = np.asarray(trace, dtype=float)
    if values.size == 0:
        raise ValueError("the trace is empty: fit the model first")
    ax = axes_or_new(ax, 6, 3.5)
    marker = "o" if len(values) <= 40 else None
    ax.plot(np.arange(1, len(values) + 1), values, color=group_color(0, 2), marker=marker, markersize=4)
    last = f"{values[-1]:.1f}".replace("-", "\N{MINUS SIGN}")  # as the axis has it
    ax.annotate(last, (len(values), values[-1]), xytext=(0, -12), textcoords="offset points", ha="right")
    whole_numbers(ax)
    ax.set_xlabel("iteration")
    ax.set_ylabel("objective")
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(title)
    return ax


def selection_curve(table: Any, *, criterion: str | None = None, title: str = "", ax: Axes | None = None) -> Axes:
    """A criterion over the candidates of a selection, with the best one marked; smaller is better.

    The x axis is the number of components, with one line for each number of column groups and kind of model; the other
    way round if more numbers of groups than of components were tried.

    Parameters
    ----------
    table : SelectionTable
    criterion : {"bic", "icl", "aic"}, optional
        By default that of the table.
    title : str
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
        color = group_color(i, 2)
        ax.plot(
            *np.transpose(sorted(places)), color=color, marker=_MARKERS[i % len(_MARKERS)], markersize=5, label=label
        )
    if rows:
        best = min([row for row in rows if not row.degenerate] or rows, key=lambda row: getattr(row, name))
        place = (getattr(best, x), getattr(best, name))
        ax.plot(*place, marker="o", markersize=14, fillstyle="none", color="black", markeredgewidth=1.5)
    if len(curves) > 1:
        heading = "components" if over_groups else "column groups"
        ax.legend(title=heading, fontsize=points(8), frameon=False, ncols=1 + len(curves) // 9)
    whole_numbers(ax)
    ax.set_xlabel("number of column groups" if over_groups else "number of components")
    ax.set_ylabel(name.upper())
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(title)
    return ax
