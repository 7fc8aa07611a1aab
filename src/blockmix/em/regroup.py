"""Regroup of the block mixture: new column groups where they raise the objective (paper, sections 2 and 3).

Rows and parameters come in; parameters after the M-step go out, in new groups or in the old ones. Full scatters of as
many components as fit in memory are taken in one pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from blockmix.blocks.blocks import Layout, Parameters, Prior
from blockmix.blocks.moments import Covariance, correlation, gathered, products, raised, worth_rows
from blockmix.blocks.shapes import FULL, BlockModel, block_models, cheaper_shapes
from blockmix.em.m_step import NO_VARIANCE, SINGULAR, expanded, from_scatter, solve
from blockmix.em.sweep import Density, Statistics, component_means, full_scatter, unit_parameters
from blockmix.grouping.hierarchical import HierarchicalGrouping, topmost
from blockmix.grouping.protocols import Grouping, Proposal
from blockmix.grouping.registry import find_groups
from blockmix.partition import FloatArray, Partition
from blockmix.rows import Rows

_TOGETHER = 2**26  # numbers in the full scatters that are held at once: 512 MB


@dataclass(frozen=True, eq=False)
class Groups:
    """Column groups of one covariance, the shapes of their blocks, and what the fits of these start from."""

    partition: Partition
    shapes: tuple[BlockModel, ...] = ()
    states: Mapping[int, FloatArray] = field(default_factory=dict)

    @cached_property
    def layout(self) -> Layout:
        """The layout of this covariance alone."""
        return Layout((self.partition,), shapes=(self.shapes,) if self.shapes else ())


@dataclass(frozen=True)
class Proposer:
    """How column groups are proposed and judged.

    Attributes
    ----------
    n_groups : tuple
        A number or a rule per component; one entry if they share a covariance.
    grouping : Grouping
    shape : BlockModel
        Shape of the blocks, where it is cheaper than a full one, for a given number of groups; a rule brings its own.
    shared : bool
        One covariance for all components.
    prior : Prior
    price : float
        Log-likelihood that one covariance parameter must earn; 0 where the number of groups is given.
    """

    n_groups: tuple[object, ...]
    grouping: Grouping
    shape: BlockModel
    shared: bool
    prior: Prior
    price: float

    def paid(self, layout: Layout) -> float:
        """Price of the parameters and of the choice of the groups; none where the number of groups is given."""
        return self.price * layout.n_parameters + layout.partition_price if self.price else 0.0

    def first(self, rows: Rows, z: FloatArray) -> Parameters:
        """Parameters from responsibilities z, shape (N, G), in the groups proposed for them."""
        single = Layout((Partition.separate(rows.n_columns),) * z.shape[1], self.shared)
        return self.proposed(rows, unit_parameters(component_means(rows, z), single), z)

    def proposed(self, rows: Rows, parameters: Parameters, given: FloatArray | Density | None) -> Parameters:
        """Parameters in the groups that are proposed, whether they are better or not; `given` as for `full_scatter`."""
        found = self._regrouped(rows, parameters, given, judge=False)
        assert found is not None
        return found

    def regroup(self, rows: Rows, parameters: Parameters, z: FloatArray | None = None) -> Parameters | None:
        """Parameters in better groups; None if no proposal raises the objective. Responsibilities z may be known."""
        return self._regrouped(rows, parameters, z, judge=True)

    def proposals(self, rows: Rows, parameters: Parameters) -> Iterator[Partition]:
        """The column groups proposed for each distinct covariance, whether they are better or not."""
        for g, statistics, scatter, _ in self._scatters(rows, parameters, None):
            yield self._proposed(g, *self._covariance(g, scatter, statistics, parameters.layout)).partition

    def partitions(self, statistics: Statistics, parameters: Parameters) -> list[Partition]:
        """The same from statistics with the full scatters of all components, which are used up."""
        found = enumerate(_centered(statistics, parameters, 0))
        layout = parameters.layout
        return [self._proposed(g, *self._covariance(g, scatter, statistics, layout)).partition for g, scatter in found]

    def _regrouped(self, rows: Rows, old: Parameters, z: FloatArray | Density | None, judge: bool) -> Parameters | None:
        before: list[Groups | None] = [None] * len(old.layout.distinct)
        chosen: list[Groups] = []
        flat: list[FloatArray] = []
        statistics = None
        for g, statistics, scatter, states in self._scatters(rows, old, z):
            if judge and g == 0:
                before = _groups_of(replace(old, states=states))
            S, n = self._covariance(g, scatter, statistics, old.layout)
            groups = self._proposed(g, S, n)
            present = before[g]
            chosen.append(groups if present is None else self._better(S, n, groups, present))
            flat.append(_gathered(scatter, chosen[-1].layout))
        if all(a is b for a, b in zip(chosen, before, strict=True)):
            return None
        assert statistics is not None
        shapes = tuple(groups.shapes or (FULL,) * groups.partition.n_groups for groups in chosen)
        plain = all(not groups.shapes for groups in chosen)
        partitions = tuple(groups.partition for groups in chosen) * old.layout.n_sharing
        layout = replace(old.layout, partitions=partitions, shapes=() if plain else shapes)
        first = np.cumsum([0] + [groups.partition.n_groups for groups in chosen]).tolist()
        chosen_states = {
            b + at: state for at, groups in zip(first, chosen, strict=False) for b, state in groups.states.items()
        }
        means = statistics.means(old.means)
        flat_scatter = np.concatenate(flat)
        return from_scatter(statistics, means, layout, flat_scatter, self.prior, chosen_states, old.degrees_of_freedom)

    def _scatters(
        self, rows: Rows, old: Parameters, z: FloatArray | Density | None
    ) -> Iterator[tuple[int, Statistics, Covariance, Mapping[int, FloatArray]]]:
        """Number, statistics, full scatter (p, p) about the new means, and states, of each distinct covariance."""
        G, p = old.means.shape
        as_rows = self.holds_rows(rows, old.layout.n_sharing)
        step = G if as_rows else max(old.layout.n_sharing, _TOGETHER // (p * p))
        for start in range(0, G, step):
            statistics = full_scatter(rows, old, range(start, min(start + step, G)), z, as_rows)
            statistics, states = expanded(statistics, old, self.prior, start)
            for at, scatter in enumerate(_centered(statistics, old, start)):
                yield start + at, statistics, scatter, states

    def holds_rows(self, rows: Rows, n_sharing: int) -> bool:
        """Whether scatters are stored as rows: those of complete rows in memory with many columns each."""
        takers = self.grouping, *(wanted for wanted in self.n_groups if not isinstance(wanted, int))
        wide = worth_rows(rows.n_rows * n_sharing, rows.n_columns, *takers)
        return wide and rows.is_array and not rows.has_missing

    def _covariance(
        self, g: int, scatter: Covariance, statistics: Statistics, layout: Layout
    ) -> tuple[Covariance, float]:
        """Covariance with the prior and what rounding leaves in it, and the rows and pseudo-rows that it rests on."""
        p, prior = len(scatter), self.prior
        weight = float(layout.pooled(statistics.weight)[g])
        n = weight + layout.n_sharing * prior.shrinkage
        if weight < statistics.least:
            # An empty component has the overall variances and nothing to group.
            return raised(products(np.zeros((1, p)), scatter), np.ones(p)), max(n, 2.0)
        added = layout.pooled(statistics.blur)[g] + layout.n_sharing * (prior.shrinkage + prior.ridge)
        S = raised(scatter / n, added / n)
        if not (S.diagonal() > NO_VARIANCE).all():
            raise ValueError(SINGULAR.format(g))
        return S, n

    def _proposed(self, g: int, S: Covariance, n: float) -> Groups:
        if self.n_groups[g] == len(S):
            return Groups(Partition.separate(len(S)))
        found = find_groups(S, max(n, 2.0), self.n_groups[g], self.grouping, price=self.price or None)
        shapes = found.shapes or cheaper_shapes(self.shape, found.partition.sizes)
        return Groups(found.partition, () if all(model.name == FULL.name for model in shapes) else shapes)

    def admits(self, layout: Layout) -> bool:
        """Whether a layout has the sharing, the numbers of groups and the shapes that the settings ask for."""
        if layout.shared != self.shared:
            return False
        for g, (wanted, partition) in enumerate(zip(self.n_groups, layout.partitions, strict=True)):
            names = [model.name for model in layout.models(g)]
            if isinstance(wanted, int) and wanted != partition.n_groups:
                return False
            if hasattr(wanted, "block_model"):
                if not set(names) <= {model.name for model in block_models(wanted.block_model)}:
                    return False
            elif names != [model.name for model in cheaper_shapes(self.shape, partition.sizes)]:
                return False
        return True

    @property
    def admits_any(self) -> bool:
        """Whether a rule chooses freely among all partitions into full blocks, one group and columns alone included."""
        shapes = [block_models(rule.block_model) for rule in self.n_groups if hasattr(rule, "block_model")]
        full = [allowed for allowed in shapes if FULL.name in [model.name for model in allowed]]
        return len(full) == len(self.n_groups)

    def _better(self, S: Covariance, n: float, new: Groups, old: Groups) -> Groups:
        """The new groups if they raise the objective, else the old ones themselves."""
        if new.layout.is_same(old.layout):
            return old
        ends = [solve(groups.layout, _gathered(S, groups.layout), groups.states) for groups in (new, old)]
        gain = 0.5 * n * (ends[1].deviance - ends[0].deviance) - self.paid(new.layout) + self.paid(old.layout)
        return Groups(new.partition, new.shapes, ends[0].states) if gain > 1e-9 * n else old


def _centered(statistics: Statistics, old: Parameters, start: int) -> Iterator[Covariance]:
    """The scatters of distinct covariances from `start` on, moved in place to the new means."""
    shift = statistics.means(old.means) - old.means
    for g, scatter in enumerate(statistics.scatter, start=start):
        own, mass = shift[old.layout.members(g)], statistics.mass[old.layout.members(g)]
        scatter -= products(np.sqrt(mass)[:, None] * own, scatter)
        yield scatter


def _groups_of(parameters: Parameters) -> list[Groups | None]:
    """Groups of each distinct covariance of some parameters."""
    layout, found = parameters.layout, list[Groups | None]()
    for g, partition in enumerate(layout.distinct):
        first, stop = layout.first[g : g + 2].tolist()
        states = {b - first: state for b, state in parameters.states.items() if first <= b < stop}
        found.append(Groups(partition, layout.shapes[g] if layout.shapes else (), states))
    return found


def _gathered(matrix: Covariance, layout: Layout) -> FloatArray:
    """Blocks of a matrix (p, p), flat as in a layout of one covariance."""
    return gathered(matrix, layout.order[0], layout.blocks, layout.size)


_LARGEST = 64  # columns of a coarse block: of 40 columns with 30 % missing caps of 8, 16, 64 give ARI 0.90, 0.92, 0.99
# Pseudo-rows per column of the largest coarse block. They must be few compared with the rows of a component: 64 of them
# halve the correlations of the 60 rows of a component of Wine, and with 30 % missing its columns stay alone.
_PSEUDO_ROWS = 0.5
_STEPS = 3


def from_coarser_blocks(rows: Rows, old: Parameters, proposer: Proposer) -> Parameters:
    """Parameters in groups proposed after a few EM steps in coarser blocks, in which responsibilities stay."""
    prior = Prior(_PSEUDO_ROWS * min(rows.n_columns, _LARGEST), proposer.prior.ridge)
    coarser = replace(proposer, n_groups=(_Coarse(),) * len(proposer.n_groups), shape=FULL, prior=prior, price=0.0)
    coarse = coarser.proposed(rows, old, None)
    given = Density.of(old)
    for _ in range(_STEPS - 1):
        coarse = coarser.proposed(rows, coarse, given)
    return proposer.proposed(rows, coarse, given)


@dataclass(frozen=True)
class _Coarse:
    """The largest branches of the tree of the columns that have at most 64 of them, as a rule."""

    def choose(self, S: FloatArray, *others: object, **more: object) -> Proposal:
        p = len(S)
        if p <= _LARGEST:
            return Proposal(Partition.single(p))
        tree = HierarchicalGrouping().tree(correlation(S))
        return Proposal(topmost(tree, tree[:, 3] <= _LARGEST))
