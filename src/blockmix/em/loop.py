"""The EM loop: sweep, M-step and now and then a regroup, until neither changes anything (paper, section 3).

A family of mixtures, rows and a state come in; the final state goes out. New column groups are kept only if they raise
the objective, so the trace never falls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic

import numpy as np
from scipy.special import logsumexp

from blockmix.em.convergence import Aitken, Outcome
from blockmix.em.family import Family, P, S
from blockmix.rows import Chunk, Rows
from blockmix.structure.types import FloatArray

# Fraction of tol: per-row gain treated as zero. EM may linger and go on, so having settled is not enough to end at a
# regroup (8 of 160 random fits would end more than 100 tol below their end).
_STILL = 1e-3
# Rows beyond its largest block from which a component counts when starts are compared. On Ecoli random starts end with
# components of 1, 1, 4 and 4 rows, a higher likelihood than any other start and ARI 0.25 instead of 0.63.
SPARE = 5
MIN_ROWS = 0.5  # a component that explains less than half a row is lost

Callback = Callable[[int, float], object]


@dataclass(frozen=True, eq=False)
class LoopState(Generic[P]):
    """Where EM stands between two sweeps: everything that the rest of the fit depends on.

    Attributes
    ----------
    parameters : parameters of the family
    tolerance : float
        Per-row tolerance of the convergence rule: loose until a regroup changes nothing.
    recent : tuple of float
        Last values of the convergence rule.
    unmoved : float
        Objective at which a regroup last changed nothing.
    trace : tuple of float
        Objective at each sweep.
    notes : tuple of str
        What the user is to know.
    reseeded : tuple of int
        Components that were lost and placed again.
    memory : frozenset of str
        What the family has tried.
    converged : bool
    """

    parameters: P
    tolerance: float
    recent: tuple[float, ...] = ()
    unmoved: float = -np.inf
    trace: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    reseeded: tuple[int, ...] = ()
    memory: frozenset[str] = frozenset()
    converged: bool = False


@dataclass(frozen=True, eq=False)
class LoopResult(Generic[P]):
    """The final state, how it ended, and the number of thin components.

    A thin component has hardly more rows than its largest block has columns: its likelihood comes from a nearly
    singular covariance, so a result with fewer of them is better whatever its likelihood.
    """

    state: LoopState[P]
    outcome: Outcome
    thin: int = 0


def run(
    family: Family[P, S],
    rows: Rows,
    state: LoopState[P],
    tol: float,
    max_iter: int,
    callback: Callback | None = None,
    save: Callable[[LoopState[P]], object] | None = None,
) -> LoopResult[P]:
    """Run EM until a regroup changes nothing, or until the trace has max_iter values.

    `callback` gets the iteration and the objective; `save` gets the state after every iteration. An interrupt ends the
    loop with the state so far.
    """
    outcome = Outcome.ITERATION_LIMIT
    try:
        while not state.converged and len(state.trace) < max_iter:
            state, statistics = _swept(family, rows, state)
            if callback is not None:
                callback(len(state.trace) - 1, state.trace[-1])
            state = _advanced(family, rows, state, statistics, tol)
            if save is not None:
                save(state)
    except KeyboardInterrupt:
        if not state.trace:
            raise
        outcome = Outcome.INTERRUPTED
    thin = len(family.thin(state.parameters, SPARE))
    return LoopResult(state, Outcome.CONVERGED if state.converged else outcome, thin)


def _swept(family: Family[P, S], rows: Rows, state: LoopState[P]) -> tuple[LoopState[P], S]:
    """E-step: the state with one more value of the trace, and the statistics; a lost component is placed again once."""
    parameters, statistics = state.parameters, family.sweep(rows, state.parameters)
    value = family.objective(statistics, parameters)
    notes, reseeded = state.notes, state.reseeded
    for g in np.flatnonzero(statistics.weight < MIN_ROWS).tolist():
        if g in reseeded:
            continue
        reseeded = (*reseeded, g)
        row, candidate = reseed(family, rows, parameters, g)
        seen = family.sweep(rows, candidate)
        reached = family.objective(seen, candidate)
        if reached > value:
            parameters, statistics, value = candidate, seen, reached
            notes = (*notes, f"component {g} had lost all rows and was restarted at row {row}")
    trace = (*state.trace, value)
    return replace(state, parameters=parameters, trace=trace, notes=notes, reseeded=reseeded), statistics


def _advanced(family: Family[P, S], rows: Rows, state: LoopState[P], statistics: S, tol: float) -> LoopState[P]:
    """M-step; with a regroup once the objective has settled, or the end if it has not moved since the last one."""
    value, enough = state.trace[-1], tol * rows.total_weight
    rule = Aitken(state.tolerance, state.recent)
    settled = rule.settled(value / rows.total_weight)
    advanced = partial(replace, state, recent=rule.values)
    if not settled:
        return advanced(parameters=family.maximize(statistics, state.parameters))
    if value - state.unmoved < enough:
        return advanced(converged=True)
    found = family.regroup(rows, state.parameters, statistics, state.tolerance * rows.total_weight, state.memory)
    if found.changed:
        return advanced(parameters=found.parameters, memory=found.memory, unmoved=-np.inf, recent=())
    if len(rule.values) > 1 and abs(rule.values[-1] - rule.values[-2]) < _STILL * tol:
        return advanced(memory=found.memory, converged=True)
    # The groups stand; they are revised again only if the objective moves on from here by more than tol.
    return advanced(parameters=found.parameters, memory=found.memory, unmoved=value, tolerance=tol)


def reseed(family: Family[P, S], rows: Rows, old: P, g: int) -> tuple[int, P]:
    """The row of least log-density, and parameters with component g placed there."""
    found = rows.map(partial(_least_likely, family=family, parameters=old))
    _, row, values = min(found, key=lambda candidate: candidate[0])
    means = old.means.copy()
    means[g] = values
    weights = old.weights * (1 - 1 / rows.total_weight)
    weights[g] += 1 / rows.total_weight
    return row, old.moved(weights / weights.sum(), means)


def _least_likely(chunk: Chunk, family: Family[P, S], parameters: P) -> tuple[float, int, FloatArray]:
    """Least log-density among the rows of a chunk that count, the row's number and its standardized values.

    A gap has the mean of the component that the row is nearest to.
    """
    joint = family.log_joint(chunk, parameters)
    density = np.where(chunk.weights > 0, logsumexp(joint, axis=1), np.inf)
    i = int(np.argmin(density))
    values = (chunk.X[i] - chunk.location) / chunk.scale
    values = np.where(np.isnan(values), parameters.means[joint[i].argmax()], values)
    return float(density[i]), chunk.place.start + i, values
