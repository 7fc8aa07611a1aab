"""The paper's mixture as a family of the EM loop: block-diagonal covariances with learned blocks (paper, section 3).

E-step and M-step are those of `sweep` and `parameters`. The regroup is here: the full scatter of each component gives
new column groups, which are kept where they raise the objective.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any, cast

import numpy as np

from blockmix.blocks.blocks import Blocks, Layout
from blockmix.blocks.moments import Covariance, as_matrix, correlation
from blockmix.blocks.shapes import FULL, BlockModel, cheaper_shapes, given_shape
from blockmix.em.loop import LoopState, Regroup
from blockmix.em.parameters import Parameters, Prior, log_joint, posterior
from blockmix.em.sweep import (
    EMPTY,
    NO_VARIANCE,
    SINGULAR,
    Statistics,
    from_scatter,
    full_scatter,
    maximize,
    supporting_rows,
    sweep,
    unit_parameters,
)
from blockmix.em.tails import FIRST, best_powers, expanded, leap
from blockmix.grouping.common_factors import Fit, Scatter, best_common
from blockmix.grouping.grouping import Grouping, HierarchicalGrouping, Proposal, layout_of, topmost
from blockmix.partition import FloatArray, IntArray, Partition, bic_price
from blockmix.rows import Chunk, Rows

# Gain per row from which degrees of freedom leap, also at the loose tolerance: left to EM it takes 200 sweeps.
_LEAP = 1e-4
_ROUNDING = 1e-6  # of a number of rows: that of a component of one row is 1 + 2e-16
_TOGETHER = 2**26  # numbers in the full scatters that are held at once: 512 MB
# Columns of a coarse block: of 40 columns with 30 % missing caps of 8, 16, 64 give ARI 0.90, 0.92, 0.99.
_COARSE = 64
# Rows per column from which clusters may have common factors, if their number is to be chosen: with fewer they pay for
# one cluster too many. Wine, 40 rows and 13 columns, had four clusters.
_COMMON_ROWS = 5
# Pseudo-rows per column of the largest coarse block. They must be few compared with the rows of a component: 64 of them
# halve the correlations of the 60 rows of a component of Wine, and with 30 % missing its columns stay alone.
_PSEUDO_ROWS = 0.5
_COARSE_STEPS = 3
_FARTHER = 1e-3  # gain per row of other loadings in the same groups; less is EM not having settled
_JUDGED_AFTER = 5  # EM steps in new groups; judged after one, good groups are refused
_SEARCHED = "searched "  # begins what a fit remembers of groups without common factors
_SAME = (0.03, 0.1)  # changes of log n and log|R| up to which a cluster is the same


@dataclass(frozen=True)
class BlockFamily:
    """Gaussian or t mixtures with block-diagonal covariances, for rows of a given total weight.

    See `em.loop.Family` for the methods.

    Attributes
    ----------
    n_groups : tuple
        A number of column groups, the groups or a rule for each component.
    grouping : Grouping
        How groups are found.
    shape : BlockModel
        Shape of the blocks, where it is cheaper than a full one, for a given number of groups; a rule brings its own.
    shared : bool
        One covariance for all components.
    prior : Prior
    price : float
        Log-likelihood that one covariance parameter must earn; 0 where the number of groups is given.
    total_weight : float
    heavy : bool
        Whether components are t distributions.
    powered : bool
        Whether columns may have powers, each of which has the price of a parameter in BIC.
    common : tuple of two ints
        Least and largest number of common factors.
    factor_price : float
        Log-likelihood that one parameter of the common factors must earn.
    as_rows : bool
        Whether full scatters are stored as rows: those of complete rows in memory with many columns each.
    loose : float
        Gain per row at which the groups are first revised.
    """

    n_groups: tuple[object, ...]
    grouping: Grouping
    shape: BlockModel
    shared: bool
    prior: Prior
    price: float
    total_weight: float
    heavy: bool = False
    powered: bool = False
    common: tuple[int, int] = (0, 0)
    factor_price: float = 0.0
    as_rows: bool = False
    loose: float = 1e-2
    sweep = staticmethod(sweep)

    def first(self, rows: Rows, z: FloatArray, tolerance: float) -> LoopState[Parameters]:
        """The state after an M-step from responsibilities z, shape (N, G), with the first column groups."""
        alone, G = Partition(np.arange(rows.n_columns)), z.shape[1]
        layout = Layout((alone,), n_sharing=G) if self.shared else Layout((alone,) * G)
        # Common factors that are chosen wait for clusters: in wrong ones they explain what lies between the right ones.
        first = replace(self, common=(self.common[0],) * 2)
        parameters = first.regrouped(rows, unit_parameters(rows, z, layout), z)
        if self.powered:
            parameters = first._repowered(rows, parameters, sweep(rows, parameters), 0.0)[0] or parameters
        if not self.heavy:
            memory = frozenset([_digest(z)] if self.as_rows else [])
            return LoopState(parameters, tolerance, memory=memory)
        parameters = replace(parameters, degrees_of_freedom=np.full(G, FIRST))
        # Without this leap EM takes 15 sweeps instead of 4 on normal data.
        return LoopState(leap(rows, parameters, 0.0) or parameters, tolerance)

    def layouts(self, n_columns: int, judged: bool) -> dict[str, BlockFamily]:
        """Return the family with each kind of first column groups worth a start, by name.

        One group (where a full covariance can be judged) and columns alone are tried beside the groups of a rule that
        chooses freely among all partitions, in the shape that it has for given ones.
        """
        G, rule = len(self.n_groups), self.n_groups[0]
        if not hasattr(rule, "block_model"):
            names: dict[tuple[object, ...], str] = {(1,) * G: "one group", (n_columns,) * G: "alone"}
            return {names.get(self.n_groups, "given groups"): self}
        held = partial(
            replace, self, common=(0, 0), shape=FULL if rule.block_model == "auto" else given_shape(rule.block_model)
        )
        one = {"one group": held(n_groups=(1,) * G)} if judged else {}
        return {"rule": self, **one, "alone": held(n_groups=(n_columns,) * G)}

    def objective(self, statistics: Statistics, parameters: Parameters) -> float:
        """Log-likelihood + penalty of the prior − price of the covariance parameters and of the groups."""
        layout = parameters.blocks.layout
        paid = self.price * layout.n_parameters + layout.partition_price if self.price else 0.0
        if parameters.powers is not None:
            paid += bic_price(max(self.total_weight, 2.0)) * parameters.powers.n_exponents
        paid += self.factor_price * parameters.blocks.n_loadings
        return statistics.log_likelihood + self.prior.value(parameters) - paid

    def maximize(self, statistics: Statistics, parameters: Parameters) -> Parameters:
        """M-step in the present column groups."""
        return maximize(statistics, parameters, self.prior)

    def regroup(
        self, rows: Rows, parameters: Parameters, statistics: Statistics, enough: float, memory: frozenset[str]
    ) -> Regroup[Parameters]:
        """M-step in new column groups where they raise the objective, else in the present ones.

        With heavy tails the degrees of freedom leap first, alone, if that is worth it; then powers of columns change.
        """
        worth = min(enough, _LEAP * self.total_weight)
        if self.heavy and (leapt := leap(rows, parameters, worth)) is not None:
            return Regroup(leapt, changed=True)
        z, tried = None, frozenset[str]()
        searched = {key for key in memory if key.startswith(_SEARCHED)}
        if self.powered:
            repowered, tried = self._repowered(rows, parameters, statistics, enough, memory)
            if repowered is not None:
                return Regroup(repowered, True, frozenset(searched))
        if not self.heavy and self.as_rows:
            density = parameters.density(missing=False)
            z = np.concatenate(list(rows.powered(parameters.powers).map(lambda chunk: posterior(chunk, density)[0])))
            tried |= {_digest(z)}
        # With many columns responsibilities are 0 and 1, and often the same as when the groups were last proposed.
        seen = z is not None and tried <= memory
        new = parameters if seen else self.regrouped(rows, parameters, z, judge=True, searched=searched)
        tried |= searched
        if new is parameters and rows.has_missing:
            new = self._from_coarser_blocks(rows, parameters, self.objective(statistics, parameters))
        if new is parameters:
            return Regroup(self.maximize(statistics, parameters), False, tried)
        return Regroup(new, True, tried)

    def regrouped(
        self,
        rows: Rows,
        old: Parameters,
        z: FloatArray | Parameters | None = None,
        judge: bool = False,
        searched: set[str] | None = None,
    ) -> Parameters:
        """Parameters in the groups that are proposed; if judged, the old ones themselves unless the objective rises.

        Responsibilities z as for `full_scatter`. Groups in which common factors were searched in vain are added to
        `searched`, and not searched again. Full scatters of as many components as fit in memory are taken in one
        pass.
        """
        (G, p), n_sharing = old.means.shape, old.blocks.layout.n_sharing
        searched = set() if searched is None else searched
        step = G if self.as_rows else max(n_sharing, _TOGETHER // (p * p))
        chosen = list[Blocks]()
        flat, changed, statistics = list[FloatArray](), not judge, None
        for start in range(0, G, step):
            statistics = full_scatter(rows, old, range(start, min(start + step, G)), z, self.as_rows)
            blocks = old.blocks
            if self.heavy:
                statistics, blocks = expanded(statistics, old, self.prior, start)
            shift = statistics.means(old.means) - old.means
            for g, scatter in enumerate(statistics.scatter, start=start):
                found, centered = self._covariance(g, scatter, statistics, shift)
                best, is_new = self._better(g, found, blocks[g * n_sharing] if judge else None, searched)
                changed |= is_new
                chosen.append(best)
                layout = best.layout
                flat.append(centered.gathered(layout.order[0], layout.blocks, layout.size))
        if not changed:
            return old
        assert statistics is not None
        layouts = [best.layout for best in chosen]
        shapes = tuple(layout.models[0] for layout in layouts) if any(layout.shapes for layout in layouts) else ()
        layout = Layout([layout.distinct[0] for layout in layouts], shapes, n_sharing)
        numbers = zip(layout.first.tolist(), chosen, strict=False)
        states = {first + b: state for first, best in numbers for b, state in best.states.items()}
        loadings, most = None, max(best.common.shape[1] for best in chosen)
        if most:
            loadings = np.stack([np.pad(best.common, ((0, 0), (0, most - best.common.shape[1]))) for best in chosen])
        flats = np.concatenate(flat)
        return from_scatter(statistics, old, layout, flats, self.prior, states, centered=True, loadings=loadings)

    def proposals(self, statistics: Statistics, parameters: Parameters) -> list[Partition]:
        """The column groups proposed for each distinct covariance, whether they are better or not.

        The statistics have the full scatters of all components, which are used up.
        """
        partitions = []
        shift = statistics.means(parameters.means) - parameters.means
        for g, scatter in enumerate(statistics.scatter):
            present = parameters.blocks[g * parameters.blocks.layout.n_sharing]
            held = replace(self, common=(present.n_common[0],) * 2)
            found, _ = self._covariance(g, scatter, statistics, shift)
            new = held._proposed(g, found, present, set())
            partitions.append(new.distinct[0] if isinstance(new, Layout) else new.blocks.partition)
        return partitions

    def _covariance(
        self, g: int, scatter: Any, statistics: Statistics, shift: FloatArray
    ) -> tuple[Scatter, Covariance]:
        """Covariance, with the prior and what rounding leaves in it, of the rows that it rests on, and scatter.

        Pseudo-rows count as rows. The scatter is about the new means, which are the old ones moved by `shift` (G, p).
        """
        p, prior, n_sharing = len(scatter), self.prior, len(shift) if self.shared else 1
        members = slice(g * n_sharing, (g + 1) * n_sharing)
        scatter = as_matrix(scatter)
        scatter -= type(scatter).of(np.sqrt(statistics.mass[members])[:, None] * shift[members])
        weight = float(statistics.weight[members].sum())
        n = weight + n_sharing * prior.shrinkage
        if weight < EMPTY * statistics.weight.sum():
            # An empty component has the overall variances and nothing to group.
            ones = type(scatter).of(np.zeros((1, p))).raised(np.ones(p))
            return Scatter(ones, max(n, 2.0), self.price, self.factor_price, kept=0.0), scatter
        pull = n_sharing * (prior.shrinkage + prior.ridge)
        S = (scatter / n).raised((statistics.blur[members].sum(axis=0) + pull) / n)
        if not (S.diagonal() > NO_VARIANCE).all():
            raise ValueError(SINGULAR.format(g))
        return Scatter(S, n, self.price, self.factor_price, weight / n, pull / n), scatter

    def _proposed(self, g: int, scatter: Scatter, present: Blocks | None, searched: set[str]) -> Fit | Layout:
        """New groups of a covariance, and where there may be common factors their loadings."""
        S, (least, most), wanted = scatter.S, self.common, self.n_groups[g]
        groups, p = self._groups(g, S, scatter.n_rows), len(S)
        few = len(self.n_groups) > 1 and scatter.n_rows < _COMMON_ROWS * p
        if not most or not scatter.kept or (not least and (few or wanted in (1, p))):
            return groups
        # A search takes longer than all sweeps of a small table.
        key = f"{_SEARCHED}{g} {_digest(groups.labels)}"
        now = np.array([np.log(scatter.n_rows), np.linalg.slogdet(np.asarray(S.correlation()))[1]])
        if not least and (present is None or not present.n_common[0]):
            before = (np.array(name.split()[-2:], dtype=float) for name in searched if name.startswith(key))
            if any((abs(now - then) < _SAME).all() for then in before):
                return groups
        propose = partial(self._groups, g, n=scatter.n_rows, remaining=True)
        fit = best_common(scatter, propose, groups, present, least, most)
        if fit.blocks.loadings is not None:
            return fit
        searched.add(f"{key} {now[0]} {now[1]}")
        return groups

    def _groups(self, g: int, S: Covariance, n: float, remaining: bool = False) -> Layout:
        p, wanted, n = len(S), cast(Any, self.n_groups[g]), max(n, 2.0)
        if isinstance(wanted, Partition):
            proposal = Proposal(wanted)
        elif not isinstance(wanted, int):
            # A rule may merge what common factors leave less readily than a whole covariance.
            asks = remaining and "remaining" in inspect.signature(wanted.choose).parameters
            more = {"remaining": True} if asks else {}
            proposal = wanted.choose(S, n, self.grouping, price=self.price or None, **more)
        elif wanted in (1, p):  # nothing to search
            proposal = Proposal(Partition.single(p) if wanted == 1 else Partition.separate(p))
        else:
            proposal = self.grouping.group(S, wanted, n)  # type: ignore[arg-type]
        shapes = proposal.shapes
        if not shapes and self.shape.name != FULL.name:
            shapes = cheaper_shapes(self.shape, proposal.partition.sizes)
        return layout_of(replace(proposal, shapes=shapes))

    def _better(self, g: int, scatter: Scatter, present: Blocks | None, searched: set[str]) -> tuple[Blocks, bool]:
        """The proposed groups if they raise the objective, else the present ones, and whether they are new."""
        new = self._proposed(g, scatter, present, searched)
        if present is None:
            return Blocks(new, np.empty(0)) if isinstance(new, Layout) else new.blocks, True
        layout, plain = present.layout, not any(present.n_common)
        if plain and isinstance(new, Layout) and new.is_same(layout):
            return present, False
        new = scatter.fitted(new, None, {}) if isinstance(new, Layout) else new
        # Common factors compete where EM settles: a single step of theirs is nothing.
        stay = scatter.fitted(layout, None, present.states) if plain else scatter.settled(present)
        same = new.blocks.layout.is_same(layout) and new.blocks.n_common == present.n_common
        least = _FARTHER if same else 1e-9
        is_new = scatter.objective(new) - scatter.objective(stay) > least * scatter.n_rows
        return (new if is_new else stay).blocks, is_new

    def _from_coarser_blocks(self, rows: Rows, old: Parameters, value: float) -> Parameters:
        """Parameters in groups proposed after a few EM steps in coarser blocks, if they raise the objective (ADR 14).

        Between its blocks a mixture fills missing values as if columns were independent, so correlations across blocks
        look too weak, by about the share of the rows that have both columns, and groups that would pay are not
        proposed. Here missing values are first filled with coarser blocks, in which responsibilities stay. The
        comparison is by the objective of the rows, so the trace does not fall.
        """
        new = self.regrouped(rows, self.in_coarser_blocks(rows, old), old)
        same_factors = new.blocks.n_common == old.blocks.n_common
        if new.blocks.layout.is_same(old.blocks.layout) and same_factors:
            return old
        new, gained = self._judged(rows, new)
        return new if gained - value > 1e-9 * self.total_weight else old

    def _judged(self, rows: Rows, new: Parameters) -> tuple[Parameters, float]:
        """Parameters after a few EM steps, and their objective."""
        for _ in range(_JUDGED_AFTER):
            new = self.maximize(sweep(rows, new), new)
        return new, self.objective(sweep(rows, new), new)

    def _repowered(
        self,
        rows: Rows,
        old: Parameters,
        statistics: Statistics,
        enough: float,
        memory: frozenset[str] = frozenset(),
    ) -> tuple[Parameters | None, frozenset[str]]:
        """Parameters with other powers of the columns, in groups for them, if the objective rises by `enough`.

        Also returned are the exponents that were refused: they are not tried again in the next regroup.
        """
        powers = best_powers(rows, old, self.shared)
        if powers is None:
            return None, frozenset()
        tried = frozenset([_digest(powers.exponents)])
        if tried <= memory:
            return None, tried
        powered = rows.powered(powers)
        unit = replace(unit_parameters(powered, old, old.blocks.layout), degrees_of_freedom=old.degrees_of_freedom)
        new, gained = self._judged(rows, self.regrouped(powered, unit, old))
        return (new if gained - self.objective(statistics, old) > enough else None), tried

    def in_coarser_blocks(self, rows: Rows, old: Parameters) -> Parameters:
        """Parameters after a few EM steps in coarser blocks, with the responsibilities of the old ones."""
        prior = Prior(_PSEUDO_ROWS * min(rows.n_columns, _COARSE), self.prior.ridge)
        held: dict[str, Any] = {"shape": FULL, "prior": prior, "price": 0.0, "common": (0, 0)}
        coarser = replace(self, n_groups=(_Coarse(),) * len(self.n_groups), **held)
        coarse = coarser.regrouped(rows, old)
        for _ in range(_COARSE_STEPS - 1):
            coarse = coarser.regrouped(rows, coarse, old)
        return coarse

    def thin(self, rows: Rows, parameters: Parameters, spare: int = 0) -> IntArray:
        """Components with at most `spare` rows more than their blocks need.

        A shared covariance has the rows of all its components, less one for each mean but the first; each mean needs
        more than `spare` rows. Missing values leave fewer (see `supporting_rows`). None if the prior brings
        pseudo-rows.
        """
        layout = parameters.blocks.layout
        if self.prior.shrinkage:
            return np.empty(0, dtype=np.intp)
        left = supporting_rows(rows, parameters) - (layout.n_sharing - 1) - layout.rows_needed
        least = np.minimum.reduceat(left, layout.first[: len(layout.distinct)])
        few = np.repeat(least <= spare + _ROUNDING, layout.n_sharing)
        return np.flatnonzero(few | (parameters.weights * self.total_weight <= spare + _ROUNDING))

    def resting(self, rows: Rows, parameters: Parameters) -> IntArray:
        """Thin components with a direction in which most of the variance is the ridge.

        The ridge ρ adds ρ/n to each variance, so tr(Σ⁻¹)ρ/n counts such directions. Rounded values may leave none.
        """
        thin, layout = self.thin(rows, parameters), parameters.blocks.layout
        least = np.minimum.reduceat(supporting_rows(rows, parameters), layout.first[: len(layout.distinct)])
        counts = np.repeat(least / layout.n_sharing, layout.n_sharing)
        rests = self.prior.ridge * parameters.summaries.precisions[thin].sum(axis=1) > counts[thin] / 2
        return np.asarray(thin[rests])

    def log_joint(self, chunk: Chunk, parameters: Parameters) -> FloatArray:
        """Log π_g f_g of the rows of a chunk in standardized columns, shape (m, G)."""
        return log_joint(chunk, parameters.density(missing=True))[0]


@dataclass(frozen=True)
class _Coarse:
    """The largest branches of the tree of the columns that have at most 64 of them, as a rule."""

    def choose(self, S: FloatArray, *others: object, **more: object) -> Proposal:
        p = len(S)
        if p <= _COARSE:
            return Proposal(Partition.single(p))
        tree = HierarchicalGrouping().tree(correlation(S))
        return Proposal(topmost(tree, tree[:, 3] <= _COARSE))


def _digest(z: FloatArray) -> str:
    """Digest of responsibilities, which a checkpoint can hold where the array would be too large."""
    return sha256(np.ascontiguousarray(z, dtype=float).tobytes()).hexdigest()
