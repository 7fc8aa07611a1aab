"""Ascent: EM from a start to its end, with regroups between fast phases (paper, section 3).

Rows, a start and a model come in; parameters, the trace of the objective and how it ended go out. A proposed partition
is kept only where it raises the objective, so the trace never falls; the fit ends when a regroup changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from blockmix.em.block.e_step import log_joint, posterior
from blockmix.em.block.parameters import Layout, Parameters, Prior
from blockmix.em.block.sweep import (
    SINGULAR,
    Statistics,
    centered_scatter,
    component_means,
    maximize,
    regrouped,
)
from blockmix.em.block.sweep_shared import sweep
from blockmix.em.convergence import Aitken, Outcome
from blockmix.grouping.protocols import Grouping
from blockmix.grouping.registry import find_groups
from blockmix.rows import Chunk, Rows
from blockmix.structure.objective import bic_price
from blockmix.structure.objective import objective as partition_objective
from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray, IntArray

# Groups are looked at again once the gain still to come is below this, per row: waiting for the last digit before the
# first regroup wastes iterations on blocks that will change.
_LOOSE = 1e-2
# Of tol: a rise per row that is no rise. That EM has settled is not enough to end at a regroup: it may linger and go on
# (of 160 random fits 8 would end more than 100 tol below where they end now).
_STILL = 1e-3
# Rows beyond its largest block from which a component counts when starts are compared. On Ecoli random starts end with
# components of 1, 1, 4 and 4 rows, a higher likelihood than any other start and ARI 0.25 instead of 0.63.
_SPARE = 5
AT_ONCE = 96  # columns of all covariances that are held at once
_MIN_ROWS = 0.5  # a component that explains less than half a row is dead

Callback = Callable[[int, float], object]


@dataclass(frozen=True)
class Model:
    """What is fitted: how many column groups per component, found how, with which prior.

    `n_groups` holds a number or a rule per component; one entry if they share a covariance.
    """

    n_groups: tuple[object, ...]
    grouping: Grouping
    shared: bool
    prior: Prior
    priced: bool

    def price(self, rows: Rows) -> float:
        """Price of a covariance parameter: BIC's where the number of groups is chosen, nothing where it is given."""
        return bic_price(rows.total_weight) if self.priced else 0.0

    def admits(self, layout: Layout) -> bool:
        """Whether the components share their groups, and have as many, as the model says."""
        numbers = zip(self.n_groups, layout.partitions, strict=True)
        return layout.shared == self.shared and all(
            number == partition.n_groups for number, partition in numbers if isinstance(number, int)
        )


@dataclass(frozen=True, eq=False)
class Ascent:
    """Where EM ended: parameters in standardized columns, the trace of the objective, the outcome and what was noted.

    `thin` counts the components that have hardly more rows than their largest block has columns: their likelihood comes
    from a nearly singular covariance, so an ascent with fewer of them is the better one whatever its likelihood.
    """

    parameters: Any
    trace: list[float]
    outcome: Outcome
    thin: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Waypoint:
    """Where an ascent stands between two sweeps: all that the rest of it depends on.

    `patience` and `recent` are Aitken's rule, `unmoved` the objective at which a regroup last changed nothing, `lost`
    the components that were seeded again.
    """

    parameters: Parameters
    patience: float
    recent: list[float] = field(default_factory=list)
    unmoved: float = -np.inf
    trace: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    converged: bool = False


def climb(
    rows: Rows,
    start: FloatArray | Parameters | Waypoint,
    model: Model,
    tol: float,
    max_iter: int,
    callback: Callback | None = None,
    keep: Callable[[Waypoint], object] | None = None,
) -> Ascent:
    """Run EM from responsibilities (N, G), from parameters or from a waypoint until a regroup changes nothing.

    `keep` is told where the ascent stands after every sweep.
    """
    here = start if isinstance(start, Waypoint) else _foot(rows, start, model, tol)
    outcome = Outcome.ITERATION_LIMIT
    held = _room(rows, here.parameters)
    try:
        while not here.converged and len(here.trace) < max_iter:
            statistics, z = sweep(rows, here.parameters, keep=held), held
            value = objective(statistics, here.parameters, model, rows)
            for g in set(np.flatnonzero(statistics.weight < _MIN_ROWS).tolist()) - set(here.lost):
                parameters, statistics, value, told = reseed(g, rows, here.parameters, statistics, value, model)
                here, z = replace(here, parameters=parameters, notes=here.notes + told, lost=[*here.lost, g]), None
            here.trace.append(value)
            if callback is not None:
                callback(len(here.trace) - 1, value)
            here = _onwards(here, statistics, z, rows, model, tol)
            if keep is not None:
                keep(here)
    except KeyboardInterrupt:
        if not here.trace:
            raise
        outcome = Outcome.INTERRUPTED
    thin = 0 if model.prior.shrinkage else len(thin_components(here.parameters, rows, _SPARE))
    return Ascent(here.parameters, here.trace, Outcome.CONVERGED if here.converged else outcome, thin, here.notes)


def _foot(rows: Rows, start: FloatArray | Parameters, model: Model, tol: float) -> Waypoint:
    parameters = start if isinstance(start, Parameters) else first_parameters(rows, start, model)
    return Waypoint(parameters, max(tol, _LOOSE))


def _room(rows: Rows, parameters: Parameters) -> FloatArray | None:
    """Room for the responsibilities, shape (N, G), where a regroup would have to find them again and they are few."""
    layout, G = parameters.layout, len(parameters.weights)
    if layout.shared or layout.whole or not rows.is_array or rows.n_columns < 4 * G:
        return None
    return np.empty((rows.n_rows, G), dtype=rows.location.dtype)


def _onwards(
    here: Waypoint, statistics: Statistics, z: FloatArray | None, rows: Rows, model: Model, tol: float
) -> Waypoint:
    """The M-step after a sweep; with a regroup where the objective has settled, or the end where it has not moved.

    `z` are the responsibilities of the sweep, where they were kept.
    """
    value, patience = here.trace[-1], Aitken(here.patience, here.recent)
    settled = patience.settled(value / rows.total_weight)
    here = replace(here, recent=patience.values)
    if not settled:
        return replace(here, parameters=maximize(statistics, here.parameters, model.prior))
    if value - here.unmoved < tol * rows.total_weight:
        return replace(here, converged=True)
    full = _full(rows, here.parameters, statistics, z)
    scatter = centered_scatter(full, here.parameters)
    layout = propose(full, scatter, here.parameters.layout, model, rows)
    if layout is here.parameters.layout:
        if len(here.recent) > 1 and abs(here.recent[-1] - here.recent[-2]) < _STILL * tol:
            return replace(here, converged=True)
        # The groups stand; they are looked at again only if the objective moves on from here by more than tol.
        parameters = maximize(statistics, here.parameters, model.prior)
        return replace(here, parameters=parameters, unmoved=value, patience=tol)
    return replace(here, parameters=regrouped(full, scatter, layout, model.prior), unmoved=-np.inf, recent=[])


def _full(rows: Rows, parameters: Parameters, statistics: Statistics, z: FloatArray | None) -> Statistics:
    """Statistics with the full scatter; whole covariances have it already."""
    if parameters.layout.whole:
        return replace(statistics, scatter=(statistics.scatter[0].copy(),))
    return sweep(rows, parameters, full=True, z=z)


def thin_components(parameters: Parameters, rows: Rows, spare: int = 0) -> IntArray:
    """Components with at most `spare` rows more than their largest block has columns; none that share a covariance."""
    if parameters.layout.shared:
        return np.empty(0, dtype=np.intp)
    largest = np.array([partition.sizes.max() for partition in parameters.layout.partitions])
    return np.flatnonzero(parameters.weights * rows.total_weight <= largest + spare)


def lost_components(parameters: Parameters, rows: Rows) -> IntArray:
    """Components that explain less than half a row."""
    return np.flatnonzero(parameters.weights * rows.total_weight < _MIN_ROWS)


def first_parameters(rows: Rows, z: FloatArray, model: Model) -> Parameters:
    """The M-step from responsibilities, with the first column groups."""
    p, G = rows.n_columns, z.shape[1]
    single = Layout((Partition.separate(p),) * G, model.shared)
    identities = tuple(np.tile(np.eye(s.columns.shape[1]), (len(s.owner), 1, 1)) for s in single.stacks)
    unit = Parameters(np.full(G, 1 / G), np.zeros((G, p)), single, identities)
    unit = replace(unit, means=component_means(rows, z))
    full = sweep(rows, unit, full=True, z=z)
    scatter = centered_scatter(full, unit)
    return regrouped(full, scatter, propose(full, scatter, None, model, rows), model.prior)


def propose(full: Statistics, scatter: FloatArray, old: Layout | None, model: Model, rows: Rows) -> Layout:
    """New groups for each covariance where they raise the objective; the old layout itself if none does."""
    prior, (G, p, _) = model.prior, scatter.shape
    weight, dead, times = full.weight, full.dead, 1
    if model.shared:
        scatter, weight, dead, times = scatter.sum(axis=0)[None], weight.sum(keepdims=True), np.array([False]), G
    sizes = weight.astype(float) + times * prior.shrinkage
    pull = np.eye(p, dtype=scatter.dtype) * scatter.dtype.type(times * (prior.shrinkage + prior.ridge))
    partitions: list[Partition] = []
    # Components of many columns one at a time: their covariances together are as large as the scatter.
    step = max(1, AT_ONCE // p)
    for first in range(0, len(sizes), step):
        part = slice(first, min(first + step, len(sizes)))
        S = scatter[part] + pull
        S /= np.where(dead[part], 1, sizes[part])[:, None, None]
        # A dead component has nothing to group: it has the overall variances, see `regrouped`.
        for g in np.flatnonzero(dead[part]):
            S[g] = np.eye(p)
        vary = (np.diagonal(S, axis1=1, axis2=2) > 0).all(axis=1)
        if not vary.all():
            raise ValueError(SINGULAR.format(first + np.argmin(vary)))
        every = zip(S, np.maximum(weight[part], 2).tolist(), model.n_groups[part], strict=True)
        found = [find_groups(own, n, number, model.grouping).partition for own, n, number in every]
        if old is not None:
            found = _better(S, sizes[part], found, list(old.partitions[part]), model.price(rows))
        partitions += found
    if old is not None and all(a is b for a, b in zip(partitions, old.partitions, strict=False)):
        return old
    return Layout(tuple(partitions) * times, model.shared)


def _better(S: FloatArray, n: FloatArray, new: list[Partition], old: list[Partition], cost: float) -> list[Partition]:
    """The new partition of each covariance (G, p, p) where it raises the objective, else the old one itself."""
    if new == old:
        return old
    rises = partition_objective(S, new, n, cost) - partition_objective(S, old, n, cost) > 1e-9 * n
    return [a if rise else b for a, b, rise in zip(new, old, rises.tolist(), strict=True)]


def objective(statistics: Statistics, parameters: Parameters, model: Model, rows: Rows) -> float:
    """Log-likelihood and penalties of the parameters that a sweep was made with."""
    paid = model.price(rows) * parameters.layout.n_parameters
    return statistics.log_likelihood + model.prior.value(parameters) - paid


def reseed(
    g: int, rows: Rows, old: Parameters, statistics: Statistics, value: float, model: Model
) -> tuple[Parameters, Statistics, float, list[str]]:
    """Put a dead component on the row that is explained worst; the old state stays where that does not help."""
    worst = min(rows.map(lambda chunk: _worst(chunk, old)), key=lambda found: found[0])
    means = old.means.copy()
    means[g] = worst[2]
    weights = old.weights * (1 - 1 / rows.total_weight)
    weights[g] += 1 / rows.total_weight
    new = replace(old, weights=(weights / weights.sum()).astype(old.weights.dtype), means=means)
    seen = sweep(rows, new)
    reached = objective(seen, new, model, rows)
    if reached > value:
        return new, seen, reached, [f"component {g} had lost all rows and was seeded again at row {worst[1]}"]
    return old, statistics, value, []


def _worst(chunk: Chunk, parameters: Parameters) -> tuple[float, int, FloatArray]:
    """Least log-density among the rows of a chunk that count, the row's number and its values."""
    density = posterior(log_joint(chunk.values, parameters))[1]
    i = int(np.argmin(np.where(chunk.weights > 0, density, np.inf)))
    return float(density[i]), chunk.place.start + i, chunk.values[:, i]
