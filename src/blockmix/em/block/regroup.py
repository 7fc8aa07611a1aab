"""Regroup of the block mixture: new column groups where they raise the objective (paper, sections 2 and 3).

Rows and parameters come in; parameters after the M-step go out, in new groups or in the old ones. Full scatters of as
many components as fit in memory are taken in one pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from blockmix.em.block.m_step import SINGULAR, from_scatter
from blockmix.em.block.parameters import Layout, Parameters, Prior
from blockmix.em.block.sweep import Statistics, component_means, full_scatter, unit_parameters
from blockmix.grouping.protocols import Grouping
from blockmix.grouping.rules import find_groups
from blockmix.rows import Rows
from blockmix.structure.blocks import BlockCovariance
from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray

_TOGETHER = 2**26  # numbers in the full scatters that are held at once: 512 MB


@dataclass(frozen=True)
class Proposer:
    """How column groups are proposed and judged.

    Attributes
    ----------
    n_groups : tuple
        A number or a rule per component; one entry if they share a covariance.
    grouping : Grouping
    shared : bool
        One covariance for all components.
    prior : Prior
    price : float
        Log-likelihood that one covariance parameter must earn.
    """

    n_groups: tuple[object, ...]
    grouping: Grouping
    shared: bool
    prior: Prior
    price: float

    def first(self, rows: Rows, z: FloatArray) -> Parameters:
        """Parameters from responsibilities z, shape (N, G), in the groups proposed for them."""
        single = Layout((Partition.separate(rows.n_columns),) * z.shape[1], self.shared)
        unit = unit_parameters(component_means(rows, z), single)
        found = self._regrouped(rows, unit, z, judge=False)
        assert found is not None
        return found

    def regroup(self, rows: Rows, parameters: Parameters) -> Parameters | None:
        """Parameters in better groups; None if no proposal raises the objective."""
        return self._regrouped(rows, parameters, None, judge=True)

    def _regrouped(self, rows: Rows, old: Parameters, z: FloatArray | None, judge: bool) -> Parameters | None:
        partitions: list[Partition] = []
        flat: list[FloatArray] = []
        statistics = None
        for g, statistics, scatter in self._scatters(rows, old, z):
            before = old.layout.distinct[g] if judge else None
            partition = self._partition(g, scatter, float(old.layout.pooled(statistics.weight)[g]), statistics, before)
            partitions.append(partition)
            flat.append(_gathered(scatter, partition))
        if judge and all(a is b for a, b in zip(partitions, old.layout.distinct, strict=True)):
            return None
        assert statistics is not None
        layout = Layout(tuple(partitions) * old.layout.n_sharing, self.shared)
        return from_scatter(statistics, statistics.means(old.means), layout, np.concatenate(flat), self.prior)

    def _scatters(
        self, rows: Rows, old: Parameters, z: FloatArray | None
    ) -> Iterator[tuple[int, Statistics, FloatArray]]:
        """Number, statistics and full scatter (p, p), about the new means, of each distinct covariance."""
        G, p = old.means.shape
        step = G if self.shared else max(1, _TOGETHER // (p * p))
        for start in range(0, G, step):
            components = range(start, min(start + step, G))
            statistics = full_scatter(rows, old, components, z)
            shift = statistics.means(old.means) - old.means
            for at, scatter in enumerate(statistics.scatter):
                sharing = list(range(G)) if self.shared else [start + at]
                for g in sharing:
                    scatter -= statistics.weight[g] * np.outer(shift[g], shift[g])
                scatter.flat[:: p + 1] += statistics.blur[sharing].sum(axis=0)
                yield start + at, statistics, scatter

    def _partition(
        self, g: int, scatter: FloatArray, weight: float, statistics: Statistics, old: Partition | None
    ) -> Partition:
        """The proposed partition of a covariance; the old one itself unless the proposal raises the objective."""
        p, prior = len(scatter), self.prior
        sharing = len(statistics.weight) if self.shared else 1
        n = weight + sharing * prior.shrinkage
        if weight < statistics.least:
            S: FloatArray = np.eye(p)  # an empty component has the overall variances and nothing to group
        else:
            S = scatter / n
            S.flat[:: p + 1] += sharing * (prior.shrinkage + prior.ridge) / n
        if not (S.diagonal() > 0).all():
            raise ValueError(SINGULAR.format(g))
        new = find_groups(S, max(weight, 2), self.n_groups[g], self.grouping).partition
        if old is None:
            return new
        if new == old:
            return old
        gain = 0.5 * n * (BlockCovariance.of(S, old).logdet - BlockCovariance.of(S, new).logdet)
        paid = self.price * (new.n_parameters - old.n_parameters)
        return new if gain - paid > 1e-9 * n else old


def _gathered(scatter: FloatArray, partition: Partition) -> FloatArray:
    """Blocks of a scatter (p, p), flat as in a layout."""
    from blockmix.em.block.kernels import gather

    layout = Layout((partition,))
    flat = np.zeros(layout.size)
    gather(scatter, partition.order, layout.blocks, flat)
    return flat
