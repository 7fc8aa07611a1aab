"""Heat maps: correlations in group order, the data as a checkerboard, importances of term groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from blockmix.partition import FloatArray, IntArray, Partition
from blockmix.plotting.style import SIGNED, axes_or_new, color_scale, group_color, name_columns, on_paper, sharp
from blockmix.plotting.views import binned, board_view

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_PIXELS = 1000  # along one side: a figure shows no more


def correlation_heatmap(
    R: FloatArray,
    partition: Partition,
    *,
    names: Sequence[str] | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Correlation matrix with its columns in group order and a frame around each group.

    Parameters
    ----------
    R : array of shape (p, p)
        Correlations. Beyond 1000 columns, neighbors are averaged.
    partition : Partition
        The column groups.
    names : sequence of str, optional
        Column names; shown up to 60 columns.
    title : str
    ax : Axes, optional
        Where to draw; by default a new figure.
    """
    ax = axes_or_new(ax, 6, 5.5)
    color_scale(_draw_matrix(ax, R, partition, names, title), ax, "correlation")
    return ax


def correlation_pair(
    observed: FloatArray,
    estimated: FloatArray,
    partition: Partition,
    *,
    names: Sequence[str] | None = None,
    title: str = "",
    ax: Sequence[Axes] | None = None,
) -> NDArray[Any]:
    """Observed and estimated correlation side by side, in group order with frames, on one color scale.

    Parameters
    ----------
    observed, estimated : arrays of shape (p, p)
    partition : Partition
    names : sequence of str, optional
        Column names; shown up to 60 columns.
    title : str
        Prefix of "observed" and "estimated".
    ax : two Axes, optional

    Returns
    -------
    array of two Axes
    """
    axes = axes_or_new(ax, 6, 11, 2, 1) if on_paper() else axes_or_new(ax, 11.5, 5.5, 1, 2)
    before = f"{title}: " if title else ""
    _draw_matrix(axes[0], observed, partition, names, f"{before}observed")
    image = _draw_matrix(axes[1], estimated, partition, names, f"{before}estimated")
    color_scale(image, list(axes), "correlation")
    return np.asarray(axes)


def linked_correlations(
    left: tuple[FloatArray, Partition, str],
    right: tuple[FloatArray, Partition, str],
    *,
    names: Sequence[str] | None = None,
    ax: Sequence[Axes] | None = None,
) -> NDArray[Any]:
    """Correlations of the same columns in two parts as triangles, linked column by column.

    Each part has its own group order. Links have the colors of the groups on the left; columns that are alone on both
    sides have none.

    Parameters
    ----------
    left, right : (array of shape (p, p), Partition, str)
        Correlations, column groups and title.
    names : sequence of str, optional
        Column names; shown up to 60 columns.
    ax : three Axes, optional

    Returns
    -------
    array of three Axes
    """
    axes = axes_or_new(ax, 13, 5.5, 1, 3)
    places = []
    for i, (R, partition, title) in ((0, left), (2, right)):
        place = np.argsort(partition.order)
        hidden = place[:, None] > place if i == 0 else place[:, None] < place
        image = _draw_matrix(axes[i], np.where(hidden, np.nan, R), partition, names, title)
        places.append(place)
        axes[i].set_xticks([])
    axes[0].yaxis.tick_right()
    for j, (start, stop) in enumerate(zip(*places, strict=True)):
        k, other = left[1].labels[j], right[1].labels[j]
        if left[1].sizes[k] > 1 or right[1].sizes[other] > 1:
            axes[1].plot([0, 1], [start, stop], color=group_color(k, left[1].sizes[k]), linewidth=1.5)
    axes[1].set(xlim=(0, 1), ylim=axes[0].get_ylim())
    axes[1].set_axis_off()
    axes[1].set_box_aspect(1)  # as the matrices, so that links meet their columns
    color_scale(image, list(axes), "correlation")
    return np.asarray(axes)


def _draw_matrix(ax: Axes, R: FloatArray, partition: Partition, names: Sequence[str] | None, title: str) -> Any:
    """Draw a matrix of correlations in group order."""
    from matplotlib.patches import Rectangle

    p, order = partition.n_columns, partition.order
    if R.shape != (p, p):
        raise ValueError(f"a correlation matrix of shape {R.shape} does not fit a partition of {p} columns")
    m = min(p, MAX_PIXELS)
    cells = np.arange(m + 1) * p // m
    values = binned(R[np.ix_(order, order)], cells, cells)
    image = ax.imshow(sharp(values), cmap=SIGNED, vmin=-1, vmax=1, extent=(-0.5, p - 0.5, p - 0.5, -0.5))
    column = ax.get_window_extent().width * 72 / (ax.figure.dpi * p)  # width in points
    for start, size in zip(_borders(partition.sizes), partition.sizes, strict=False):
        # Frames around many single columns, or wider than a tenth of their block, would hide the picture.
        width = min(1.2, 0.1 * size * column)
        if (size > 1 or p <= 100) and width > 0.1:
            corner = (start - 0.5, start - 0.5)
            ax.add_patch(Rectangle(corner, size, size, fill=False, edgecolor="black", linewidth=width))
    name_columns(ax, names, order, both=True)
    ax.set_title(title)
    return image


def _borders(sizes: IntArray) -> IntArray:
    """Where adjacent groups of these sizes begin, and where the last ends."""
    return np.concatenate([[0], np.cumsum(sizes)])


def checkerboard(
    X: FloatArray,
    row_labels: IntArray,
    partition: Partition,
    *,
    names: Sequence[str] | None = None,
    clusters: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Standardized data as a checkerboard: rows sorted by cluster, columns by group.

    Within a cluster, rows are sorted along its leading direction. A table larger than the figure's pixels is averaged,
    but never across clusters.

    Parameters
    ----------
    X : array of shape (N, p)
    row_labels : array of shape (N,)
        Cluster of each row.
    partition : Partition
        Column groups, such as those of one component.
    names : sequence of str, optional
        Column names; shown up to 60 columns.
    clusters : sequence of str, optional
        Names of the clusters 0, 1, …
    ax : Axes, optional
    """
    p, order = partition.n_columns, partition.order
    if np.shape(X) != (len(row_labels), p):
        raise ValueError(f"X of shape {np.shape(X)} does not fit {len(row_labels)} row labels and {p} columns")
    ax = axes_or_new(ax, 8, 6)
    found, labels = np.unique(row_labels, return_inverse=True)
    sizes = np.bincount(labels)
    board = board_view(X, labels, order, (MAX_PIXELS, MAX_PIXELS))
    # All bins have the same height, so a cluster's height is its share of the bins.
    edges = np.searchsorted(board.row_bins, _borders(sizes))
    extent = (-0.5, p - 0.5, edges[-1] - 0.5, -0.5)
    limit, values = board.limit, sharp(board.values)
    image = ax.imshow(values, cmap=SIGNED, vmin=-limit, vmax=limit, aspect="auto", extent=extent)
    ax.hlines(edges[1:-1] - 0.5, -0.5, p - 0.5, color="black", linewidth=1.5)
    # Around groups of several columns that are wide enough not to be hidden by their borders.
    framed = (partition.sizes > 1) & (partition.sizes >= p / 100)
    borders = _borders(partition.sizes)
    sides = np.union1d(borders[:-1][framed], borders[1:][framed]) - 0.5
    ax.vlines(sides, -0.5, edges[-1] - 0.5, "black", linewidth=0.7)
    told = found if clusters is None else [clusters[g] for g in found]
    ticks = [f"{name}\n{size} row{'' if size == 1 else 's'}" for name, size in zip(told, sizes, strict=True)]
    ax.set_yticks((edges[:-1] + edges[1:] - 1) / 2, ticks, fontsize="small")
    ax.tick_params(axis="y", length=0)
    name_columns(ax, names, order)
    color_scale(image, ax, "standard deviations from the column's mean", extend="both")
    return ax


def importance_heatmap(
    importance: FloatArray, groups: Sequence[str], topics: Sequence[str], *, title: str = "", ax: Axes | None = None
) -> Axes:
    """Importance of term groups for topics in percent of the average, one row per group and one column per topic.

    Colors follow a logarithmic scale around 100 %, from a quarter to four times the average; cells show the numbers.

    Parameters
    ----------
    importance : array of shape (G, K)
        Percent; NaN for a topic without documents.
    groups : sequence of K str
        Labels of the term groups.
    topics : sequence of G str
        Labels of the topics.
    title : str
    ax : Axes, optional
        Where to draw; by default a new figure large enough for the labels.
    """
    with np.errstate(divide="ignore"):
        level = np.clip(np.log2(importance.T / 100), -2, 2)
    cells = [[f"{value:.0f}" if np.isfinite(value) else "" for value in row] for row in importance.T]
    ax, bar = _draw_cells(ax, level, 2, cells, groups, topics, 0.95, "importance, % of the average over all documents")
    bar.set_ticks([-2, -1, 0, 1, 2], labels=["≤ 25", "50", "100", "200", "≥ 400"])
    ax.set_title(title, fontsize="medium")
    return ax


def association_heatmap(table: Any, *, ax: Axes | None = None) -> Axes:
    """Clusters and scores against traits: the sign and strength of each effect, one row per score.

    Strength is |r|, Cramér's V or η = √η², which are on one scale from 0 to 1; cells show the effect itself, with a
    star where q is below 0.05.

    Parameters
    ----------
    table : pandas.DataFrame
        From the method `associate` of an estimator.
    ax : Axes, optional
        Where to draw; by default a new figure large enough for the labels.
    """
    if len(table) == 0:
        raise ValueError("there is nothing to draw: no traits, or neither clusters nor groups of several columns")
    traits, targets = (list(dict.fromkeys(table[name])) for name in ("trait", "what"))
    level, cells = np.full((len(targets), len(traits)), np.nan), [[""] * len(traits) for _ in targets]
    lines = zip(*(table[name] for name in ("trait", "what", "kind", "estimate", "q")), strict=True)
    for trait, target, kind, estimate, q in lines:
        i, j = targets.index(target), traits.index(trait)
        level[i, j] = estimate**0.5 if kind == "η²" else estimate
        cells[i][j] = "" if np.isnan(estimate) else f"{estimate:.2f}{'*' if q < 0.05 else ''}"
    ax, _ = _draw_cells(ax, level, 1, cells, targets, traits, 0.6, "r, V or η (* q < 0.05)")
    ax.tick_params(axis="x", rotation=45 if max(map(len, traits)) > 6 else 0)
    return ax


def means_heatmap(values: FloatArray, rows: Sequence[str], clusters: Sequence[str], *, ax: Axes | None = None) -> Axes:
    """Means of the clusters in columns or groups as colors and numbers, one row each, in standard deviations.

    Parameters
    ----------
    values : array of shape (rows, G)
    rows, clusters : sequences of str
    ax : Axes, optional
    """
    cells = [[f"{round(value, 1) + 0.0:+.1f}".replace("-", "\N{MINUS SIGN}") for value in row] for row in values]
    limit = float(max(np.abs(values).max(initial=0), 1e-9))
    return _draw_cells(ax, values, limit, cells, rows, clusters, 0.75, "standard deviations")[0]


def _draw_cells(
    ax: Axes | None,
    level: FloatArray,
    limit: float,
    cells: Sequence[Sequence[str]],
    rows: Sequence[str],
    columns: Sequence[str],
    width: float,
    unit: str,
) -> tuple[Axes, Any]:
    """Draw signed values up to a limit as colors with the cells written on them; returns Axes and color scale.

    A new figure has room for the names, and columns of this width in inches.
    """
    size = 1.8 + 0.075 * max(map(len, rows), default=0) + width * len(columns), 1.7 + 0.26 * len(rows)
    ax = axes_or_new(ax, *size)
    image = ax.imshow(level, cmap=SIGNED, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
    brightness = np.asarray(image.cmap(image.norm(level)))[..., :3] @ (0.3, 0.59, 0.11)
    for i, j in np.argwhere(np.isfinite(level)):
        color = "white" if brightness[i, j] < 0.45 else "black"
        ax.text(j, i, cells[i][j], ha="center", va="center", fontsize="small", color=color)
    ax.set_yticks(range(len(rows)), rows, fontsize="small")
    ax.set_xticks(range(len(columns)), columns, fontsize="small")
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    return ax, color_scale(image, ax, unit, shrink=0.7)
