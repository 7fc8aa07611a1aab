"""Stability: how often column groups and clusters come back when the rows are weighed at random.

The figures are shares of resamples. They show what depends on chance in the sample, not whether the model is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from blockmix import plotting
from blockmix.partition import FloatArray, IntArray, Partition
from blockmix.rows.files import needed

if TYPE_CHECKING:
    from matplotlib.axes import Axes


NOTE = (
    "Stability is how often the same groups and clusters come back when the rows are weighted at random. It shows what "
    "depends on chance in the sample, not whether the model is right."
)
_LISTED = 6  # columns of a group that are named in the printed table
_LINES = 20  # groups of a component in the printed table


@dataclass(frozen=True)
class GroupStability:
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
    """

    component: int
    columns: tuple[str, ...]
    again: float
    split: float
    joined: float
    joined_with: str | None
    joined_share: float
    weakest: str

    @property
    def verdict(self) -> str:
        """`again` in a word."""
        return verdict(self.again, ((0.9, "firm"), (0.75, "likely"), (0.5, "open")), "not settled by these rows")


@dataclass(frozen=True)
class ClusterStability:
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
        return verdict(self.stability, ((0.95, "firm"), (0.85, "likely")), "not found again")


def verdict(share: float, levels: tuple[tuple[float, str], ...], otherwise: str) -> str:
    """The word of the first level that a share reaches."""
    return next((word for least, word in levels if share >= least), otherwise)


@dataclass(frozen=True, eq=False)
class Stability:
    """How often column groups and clusters come back when the rows are weighed at random.

    Attributes
    ----------
    groups : tuple of GroupStability
        Groups of two or more columns, by component, largest first.
    pairs : array of shape (covariances, p, p)
        Share of the resamples in which two columns share a group.
    columns : array of shape (covariances, p)
        Share in which a column stays with its group.
    n_groups : array of shape (covariances, resamples)
        Number of groups of two or more columns.
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
    n_groups: IntArray
    clusters: tuple[ClusterStability, ...] | None
    partitions: tuple[Partition, ...]
    names: tuple[str, ...]
    n_refits: int = 0

    @property
    def n_resamples(self) -> int:
        """Number of random weighings of the columns."""
        return int(self.n_groups.shape[1])

    def to_frame(self) -> Any:
        """The groups as a pandas data frame, one row per group."""
        pandas = needed("pandas", "app")
        names = ["component", "columns", "size", "again", "split", "joined", "joined_with", "joined_share", "weakest"]
        rows = [
            {**vars(group), "columns": ", ".join(group.columns), "size": len(group.columns)} for group in self.groups
        ]
        return pandas.DataFrame(rows, columns=names)

    def clusters_to_frame(self) -> Any:
        """The clusters as a pandas data frame, one row per cluster; empty without refits."""
        pandas = needed("pandas", "app")
        names = ["component", "rows", "stability", "dissolved", "certainty"]
        return pandas.DataFrame([vars(cluster) for cluster in self.clusters or ()], columns=names)

    def plot_pairs(self, component: int = 0, *, ax: Axes | None = None) -> Axes:
        """Heat map of the shares of resamples in which two columns are together, in group order."""
        g = self._covariance(component)
        title = f"component {component}" if len(self.partitions) > 1 else ""
        return plotting.share_heatmap(self.pairs[g], self.partitions[g], names=self.names, title=title, ax=ax)

    def plot_clusters(self, *, ax: Axes | None = None) -> Axes:
        """Stability and certainty of each cluster."""
        if self.clusters is None:
            raise ValueError("the clusters were not refitted: call stability with n_refits above 0")
        return plotting.cluster_stability(self.clusters, ax=ax)

    def words(self, group: GroupStability) -> str:
        """The line that a page or a terminal shows for a group, such as "29 of 100, joined by proline in 69"."""
        n = self.n_resamples
        text = f"{round(group.again * n)} of {n}"
        if group.again < 0.9 and group.joined_with is not None and group.joined >= group.split:
            text += f", joined by {group.joined_with} in {round(group.joined_share * n)}"
        elif group.again < 0.9:
            text += f", falls apart in {round(group.split * n)}, {group.weakest} leaves first"
        return f"{text} ({group.verdict})"

    def heading(self, covariance: int) -> str:
        """Number of groups of a covariance and its range in the middle 90 % of the resamples."""
        n = int((self.partitions[covariance].sizes > 1).sum())
        low, high = np.quantile(self.n_groups[covariance], [0.05, 0.95], method="nearest").tolist()
        spread = f"{low}" if low == high else f"{low} to {high}"
        return f"{n} group{'' if n == 1 else 's'} ({spread} in resamples)"

    def __str__(self) -> str:
        lines = [f"{self.n_resamples} resamples of the column groups, {self.n_refits} refits of the clusters"]
        for g in range(len(self.partitions)):
            own = [group for group in self.groups if group.component == g]
            lines.append(f"component {g}: {self.heading(g)}" if len(self.partitions) > 1 else self.heading(g))
            lines += [f"  {_listed(group.columns)}: {self.words(group)}" for group in own[:_LINES]]
            lines += [f"  and {len(own) - _LINES} more groups: see to_frame()"] if len(own) > _LINES else []
        return "\n".join([*lines, *self._cluster_lines(), NOTE])

    __repr__ = __str__

    def _cluster_lines(self) -> Iterator[str]:
        if self.clusters is None:
            return
        yield "cluster    rows  stability  dissolved  certainty"
        for found in self.clusters:
            figures = f"{found.stability:9.2f}  {found.dissolved:9.2f}  {found.certainty:9.2f}"
            yield f"{found.component:7}  {found.rows:6}  {figures}  {found.verdict}"

    def _covariance(self, component: int) -> int:
        n = len(self.partitions)
        if not 0 <= component < max(n, len(self.clusters or ())):
            raise ValueError(f"component={component} must be from 0 to {n - 1}")
        return component if n > 1 else 0


def _listed(columns: tuple[str, ...]) -> str:
    rest = len(columns) - _LISTED
    return ", ".join(columns[:_LISTED]) + (f" and {rest} more" if rest > 0 else "")
