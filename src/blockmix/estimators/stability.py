"""Stability: how often column groups and clusters come back when the rows are reweighted at random.

The figures are shares of resamples: they count how the fitted groups fare in those of each resample, and how clusters
overlap with those of each refit. They show what depends on chance in the sample, not whether the model is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn.metrics.cluster import contingency_matrix

from blockmix.partition import FloatArray, IntArray, Partition
from blockmix.rows.files import needed

T = TypeVar("T")
NOTE = (
    "Stability is how often the same groups and clusters come back when the rows are weighted at random. It shows what "
    "depends on chance in the sample, not whether the model is right."
)
_LISTED = 6  # columns of a group that are named in the printed table
_ALWAYS = 0.9  # share of the resamples from which columns are called always together
_LINES = 40  # groups in the printed table


class GroupStability(NamedTuple):
    """One column group of two or more columns.

    Attributes
    ----------
    component : int
        Component of the group; 0 where all share one covariance.
    columns : tuple of str
    again : float
        Share of the resamples in which exactly this group comes back.
    split, joined : float
        Shares in which the group falls apart, and in which a column from outside is in with it.
    joined_with : str or None
        The outside column that most often shares a group with these.
    joined_share : float
        The mean share of the resamples in which it does.
    weakest : str
        The column that least often stays.
    core : tuple of str
        The most columns of the group of which every two share a group in at least nine of ten resamples.
    together : float
        Mean share of the resamples in which two columns of the group share a group.
    """

    component: int
    columns: tuple[str, ...]
    again: float
    split: float
    joined: float
    joined_with: str | None
    joined_share: float
    weakest: str
    core: tuple[str, ...]
    together: float

    @property
    def verdict(self) -> str:
        """Firm: all columns are the core, and no other joins in every second resample. Chance: they hardly meet."""
        if len(self.core) == len(self.columns) and self.joined_share < 0.5:
            return "firm"
        return "open" if self.together >= 0.5 else "chance"


class ClusterStability(NamedTuple):
    """One cluster.

    Attributes
    ----------
    component : int
    rows : int
    stability : float
        Mean Jaccard index of the cluster with the most similar cluster of each refit.
    dissolved : float
        Share of the refits in which that index is at most ½.
    certainty : float
        The index that the fitted probabilities promise: it shows overlap with other clusters, not chance.
    """

    component: int
    rows: int
    stability: float
    dissolved: float
    certainty: float

    @property
    def verdict(self) -> str:
        """`stability` in a word."""
        return "firm" if self.stability >= 0.95 else "likely" if self.stability >= 0.85 else "not found again"


@dataclass(frozen=True, eq=False)
class Stability:
    """How often column groups and clusters come back when the rows are reweighted at random.

    Attributes
    ----------
    groups : tuple of GroupStability
        Groups of two or more columns, by component, largest first.
    pairs : array of shape (covariances, p, p)
        Share of the resamples in which two columns share a group.
    columns : array of shape (covariances, p)
        Share in which a column stays with its group.
    n_resamples : int
        Number of resamples of the column groups.
    clusters : tuple of ClusterStability or None
        None without refits.
    partitions : tuple of Partition
        The fitted groups of each covariance.
    names : tuple of str
        Names of the columns.
    n_refits : int
    """

    groups: tuple[GroupStability, ...]
    pairs: FloatArray
    columns: FloatArray
    n_resamples: int
    clusters: tuple[ClusterStability, ...] | None
    partitions: tuple[Partition, ...]
    names: tuple[str, ...]
    n_refits: int = 0

    def to_frame(self) -> Any:
        """The groups as a pandas data frame, one row per group."""
        frame = needed("pandas", "app").DataFrame(self.groups, columns=GroupStability._fields)
        frame.insert(2, "size", [len(group.columns) for group in self.groups])
        return frame.assign(columns=frame["columns"].str.join(", "), core=frame["core"].str.join(", "))

    def clusters_to_frame(self) -> Any:
        """The clusters as a pandas data frame, one row per cluster; empty without refits."""
        return needed("pandas", "app").DataFrame(self.clusters or (), columns=ClusterStability._fields)

    def words(self, group: GroupStability) -> str:
        """The line that a page or a terminal shows for a group: "5 columns always together, alcohol joins in 64"."""
        n, size, core = self.n_resamples, len(group.columns), group.core
        if group.verdict == "chance":
            return f"two of its columns meet in {round(group.together * n)} of {n} resamples"
        joins = f", {group.joined_with} joins in {round(group.joined_share * n)}" if group.joined_share >= 0.1 else ""
        if len(core) == size:
            every = "both" if size == 2 else f"all {size}"
            return f"{every} together in {round((1 - group.split) * n)} of {n} resamples{joins}"
        if len(core) < 2:
            return f"no two of its columns are always together, {group.weakest} leaves first"
        place = [self.names.index(name) for name in core]
        share = {name: self.pairs[group.component, place, self.names.index(name)].mean() for name in group.columns}
        often = max((name for name in group.columns if name not in core), key=lambda name: share[name])
        listed = ", ".join(core[:_LISTED]) + (" …" if len(core) > _LISTED else "")
        more = f", {size - len(core) - 1} more less often" if size - len(core) > 1 else ""
        often = f"{often} joins in {round(share[often] * n)} of {n} resamples{more}"
        return f"{len(core)} columns always together ({listed}), {often}"

    def __str__(self) -> str:
        lines = [f"{self.n_resamples} resamples of the column groups, {self.n_refits} refits of the clusters"]
        for group in self.groups[:_LINES]:
            head = f"cluster {group.component + 1}, " if len(self.partitions) > 1 else ""
            listed = ", ".join(group.columns[:_LISTED]) + (" …" if len(group.columns) > _LISTED else "")
            lines.append(f"{head}{listed}: {group.verdict}, {self.words(group)}")
        lines += [f"and {len(self.groups) - _LINES} more groups: see to_frame()"] if len(self.groups) > _LINES else []
        lines += ["cluster    rows  stability  dissolved  certainty"] if self.clusters is not None else []
        for cluster in self.clusters or ():
            figures = f"{cluster.stability:9.2f}  {cluster.dissolved:9.2f}  {cluster.certainty:9.2f}"
            lines.append(f"{cluster.component + 1:7}  {cluster.rows:6}  {figures}  {cluster.verdict}")
        return "\n".join([*lines, NOTE])

    __repr__ = __str__


def column_stability(
    fitted: Sequence[Partition], resampled: Iterable[Sequence[Partition]], names: Sequence[str]
) -> Stability:
    """Stability of the fitted groups of each covariance, given those of each resample."""
    done, groups, together, stays = _until_interrupted(resampled), list[GroupStability](), [], []
    for g, (partition, others) in enumerate(zip(fitted, zip(*done, strict=True), strict=True)):
        pairs = np.zeros((len(names), len(names)), dtype=np.float32)
        for other in others:
            pairs += other.labels[:, None] == other.labels
        columns, returned = zip(*(_returned(partition, other) for other in others), strict=True)
        together.append(pairs / len(others))
        stays.append(np.mean(columns, axis=0))
        several = zip(partition.groups, np.mean(returned, axis=0).T, strict=True)  # shares: again, split, joined
        groups += [_group(g, A, shares, together[g], stays[g], names) for A, shares in several if len(A) > 1]
    return Stability(tuple(groups), np.stack(together), np.stack(stays), len(done), None, tuple(fitted), tuple(names))


def _until_interrupted(items: Iterable[T]) -> list[T]:
    """The items; an interrupt ends them early, and those so far count."""
    done = list[T]()
    try:
        for item in items:
            done.append(item)
    except KeyboardInterrupt:
        if not done:
            raise
    return done


def _returned(fitted: Partition, other: Partition) -> tuple[FloatArray, FloatArray]:
    """Whether each column stays with its group (p,), and whether each group is there again, split, joined (3, K)."""
    both = contingency_matrix(fitted.labels, other.labels)
    jaccard = both / (fitted.sizes[:, None] + other.sizes - both)
    nearest = jaccard.argmax(axis=1)
    split = (both > 0).sum(axis=1) > 1
    joined = ((both > 0) & (other.sizes > both)).any(axis=1)
    again = jaccard[np.arange(len(jaccard)), nearest] == 1
    return other.labels == nearest[fitted.labels], np.stack([again, split, joined])


def _group(
    g: int, columns: IntArray, shares: FloatArray, together: FloatArray, stays: FloatArray, names: Sequence[str]
) -> GroupStability:
    from scipy.cluster.hierarchy import fcluster, linkage  # takes 20 ms, which each process that fits would wait for

    outside = np.setdiff1d(np.arange(len(names)), columns)
    mean = together[np.ix_(columns, outside)].mean(axis=0, dtype=float)
    joins = int(mean.argmax()) if len(outside) and mean.max() > 0 else None
    joined_with, joined_share = (None, 0.0) if joins is None else (names[outside[joins]], float(mean[joins]))
    inside, c = together[np.ix_(columns, columns)], len(columns)
    met = float((inside.sum(dtype=float) - c) / (c * (c - 1)))
    apart = linkage(1 - inside[np.triu_indices(c, 1)].astype(float), "complete")
    cores = fcluster(apart, 1 - _ALWAYS + 1e-6, "distance")
    members = tuple(names[j] for j in columns)
    core = tuple(names[j] for j in columns[cores == np.bincount(cores).argmax()])
    weakest, (again, split, joined) = members[stays[columns].argmin()], shares.tolist()
    return GroupStability(g, members, again, split, joined, joined_with, joined_share, weakest, core, met)


def cluster_stability(
    labels: IntArray, z: FloatArray, refits: Iterable[IntArray]
) -> tuple[tuple[ClusterStability, ...], int]:
    """Stability of the clusters with these labels (N,) and probabilities (N, G), and the number of refits.

    Refits are the labels of the rows in each.
    """
    done, G = _until_interrupted(refits), z.shape[1]
    sizes, overlaps, inside = np.bincount(labels, minlength=G), list[FloatArray](), np.eye(G, dtype=bool)[labels]
    for other in done:
        both = np.bincount(labels * G + other, minlength=G * G).reshape(G, G)
        union = sizes[:, None] + both.sum(axis=0) - both
        overlaps.append((both / np.maximum(union, 1)).max(axis=1))
    jaccard = np.stack(overlaps, axis=1)
    certainty = (z * inside).sum(axis=0) / np.maximum(sizes + (z * ~inside).sum(axis=0), 1e-300)
    figures = zip(sizes.tolist(), jaccard.mean(axis=1), (jaccard <= 0.5).mean(axis=1), certainty, strict=True)
    return tuple(ClusterStability(g, n, *map(float, values)) for g, (n, *values) in enumerate(figures)), len(done)
