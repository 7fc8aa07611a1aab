"""The EM loop and its starts: sweep, M-step and now and then a regroup (paper, section 3).

`run` takes a family of mixtures, rows and a first state to the final state, until neither M-step nor regroup changes
anything; `multistart` does so from several starts and keeps the best. New column groups are kept only if they raise the
objective, so the trace never falls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from scipy.special import logsumexp

from blockmix.partition import FloatArray, IntArray
from blockmix.rows import Chunk, Rows
from blockmix.rows.powers import Powers

# Fraction of tol: per-row gain treated as zero. EM may linger and go on, so having settled is not enough to end at a
# regroup (8 of 160 random fits would end more than 100 tol below their end).
_STILL = 1e-3
# Rows beyond its largest block from which a component counts when starts are compared. On Ecoli random starts end with
# components of 1, 1, 4 and 4 rows, a higher likelihood than any other start and ARI 0.25 instead of 0.63.
SPARE = 5
MIN_ROWS = 0.5  # a component that explains less than half a row is lost
_ROUNDING = 1e-12  # relative difference of two objectives that are the same


class MixtureParameters(Protocol):
    """Parameters of a mixture in standardized columns."""

    @property
    def weights(self) -> FloatArray:
        """Weights of the components, shape (G,)."""

    @property
    def means(self) -> FloatArray:
        """Means of the components, shape (G, p)."""

    @property
    def powers(self) -> Powers | None:
        """Powers of the columns."""

    def moved(self, weights: FloatArray, means: FloatArray) -> Self:
        """The same covariances with other weights and means."""


class SweepStatistics(Protocol):
    """What a sweep over the rows adds up."""

    @property
    def weight(self) -> FloatArray:
        """Sum of the responsibilities of each component, shape (G,)."""


P = TypeVar("P", bound=MixtureParameters)
S = TypeVar("S", bound=SweepStatistics)


@dataclass(frozen=True, eq=False)
class Regroup(Generic[P]):
    """Parameters in column groups that were just proposed and judged.

    Attributes
    ----------
    parameters : parameters after the M-step, in the new groups or in the old ones
    changed : bool
        Whether the groups changed for a gain worth another look once EM has settled again.
    memory : frozenset of str
        Proposals that have been tried and need not be tried again.
    """

    parameters: P
    changed: bool
    memory: frozenset[str] = frozenset()


class Family(Protocol[P, S]):
    """A family of mixtures with column groups, made for the rows of one fit; it holds the settings of the model."""

    @property
    def loose(self) -> float:
        """Least tolerance per row at which the groups are first revised: no more is worth it in groups to come."""

    def first(self, rows: Rows, z: FloatArray, tolerance: float) -> LoopState[P]:
        """The state after an M-step from responsibilities z, shape (N, G), with the first column groups."""

    def layouts(self, n_columns: int, judged: bool) -> Mapping[str, Family[P, S]]:
        """Return the family with each kind of first column groups worth a start, by name.

        "one group" and "alone" (every column) are members of the family that other groups are compared with; one group
        only where a full covariance can be judged.
        """

    def sweep(self, rows: Rows, parameters: P) -> S:
        """E-step: read every row once, and return statistics that add up."""

    def objective(self, statistics: S, parameters: P) -> float:
        """Log-likelihood + penalties − price of the parameters that a sweep was made with; EM never lowers it."""

    def maximize(self, statistics: S, parameters: P) -> P:
        """M-step in the present column groups."""

    def regroup(self, rows: Rows, parameters: P, statistics: S, enough: float, memory: frozenset[str]) -> Regroup[P]:
        """M-step in new column groups where they raise the objective, else in the present ones.

        `enough` is the gain from which the groups count as changed.
        """

    def thin(self, rows: Rows, parameters: P, spare: int = 0) -> IntArray:
        """Components with at most `spare` rows more than they need."""

    def resting(self, rows: Rows, parameters: P) -> IntArray:
        """Thin components whose likelihood rests on a penalty or a floor."""

    def log_joint(self, chunk: Chunk, parameters: P) -> FloatArray:
        """Log π_g f_g of the rows of a chunk in standardized columns, shape (m, G)."""


class Outcome(Enum):
    """How a fit ended."""

    CONVERGED = "converged"
    ITERATION_LIMIT = "iteration limit"
    DEGENERATE = "degenerate"
    INTERRUPTED = "interrupted"


def settled(values: Sequence[float], tol: float) -> bool:
    """Aitken's rule: whether the limit extrapolated from the last three values is within `tol` of the last one.

    With a = (l₃ − l₂) / (l₂ − l₁) the limit is l₂ + (l₃ − l₂) / (1 − a). It is trusted for 0 < a < 1; otherwise the
    last gain itself must be below `tol`.

    Examples
    --------
    >>> values = [1 - 0.5**t for t in range(9)]
    >>> [settled(values[:n], 0.01) for n in range(1, 10)]
    [False, False, False, False, False, False, False, True, True]
    """
    if len(values) < 2:
        return False
    gain = values[-1] - values[-2]
    if len(values) == 2:
        return abs(gain) < 1e-3 * tol
    before = values[-2] - values[-3]
    rate = gain / before if before != 0 else 0.0
    left = gain * rate / (1 - rate) if 0 < rate < 1 else gain
    return abs(left) < tol


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
        Messages for the user.
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
    """The final state, how it ended, its thin components, and the name of the start.

    A thin component has hardly more rows than its largest block has columns: its likelihood comes from a nearly
    singular covariance, so a result with fewer of them is better whatever its likelihood.
    """

    state: LoopState[P]
    outcome: Outcome
    thin: tuple[int, ...] = ()
    name: str = ""


def run(
    family: Family[P, S],
    rows: Rows,
    state: LoopState[P],
    tol: float,
    max_iter: int,
    callback: Callable[[int, float], object] | None = None,
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
    thin = tuple(family.thin(rows, state.parameters, SPARE).tolist())
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
        candidate_statistics = family.sweep(rows, candidate)
        candidate_value = family.objective(candidate_statistics, candidate)
        if candidate_value > value:
            parameters, statistics, value = candidate, candidate_statistics, candidate_value
            notes = (*notes, f"component {g} had lost all rows and was restarted at row {row}")
    trace = (*state.trace, value)
    return replace(state, parameters=parameters, trace=trace, notes=notes, reseeded=reseeded), statistics


def _advanced(family: Family[P, S], rows: Rows, state: LoopState[P], statistics: S, tol: float) -> LoopState[P]:
    """M-step; with a regroup once the objective has settled, or the end if it has not moved since the last one."""
    value, enough = state.trace[-1], tol * rows.total_weight
    recent = (*state.recent[-2:], value / rows.total_weight)
    if not settled(recent, state.tolerance):
        return replace(state, recent=recent, parameters=family.maximize(statistics, state.parameters))
    if value - state.unmoved < enough:
        return replace(state, recent=recent, converged=True)
    new = family.regroup(rows, state.parameters, statistics, state.tolerance * rows.total_weight, state.memory)
    if new.changed:
        return replace(state, recent=(), parameters=new.parameters, memory=new.memory, unmoved=-np.inf)
    if len(recent) > 1 and abs(recent[-1] - recent[-2]) < _STILL * tol:
        return replace(state, recent=recent, memory=new.memory, converged=True)
    # The groups stand; they are revised again only if the objective moves on from here by more than tol.
    return replace(state, recent=recent, parameters=new.parameters, memory=new.memory, unmoved=value, tolerance=tol)


def reseed(family: Family[P, S], rows: Rows, old: P, g: int) -> tuple[int, P]:
    """The row of least log-density, and parameters with component g placed there."""
    candidates = rows.powered(old.powers).map(partial(_least_likely, family=family, parameters=old))
    _, row, values = min(candidates, key=lambda candidate: candidate[0])
    means = old.means.copy()
    means[g] = values
    weights = old.weights * (1 - 1 / rows.total_weight)
    weights[g] += 1 / rows.total_weight
    return row, old.moved(weights / weights.sum(), means)


def _least_likely(chunk: Chunk, family: Family[P, S], parameters: P) -> tuple[float, int, FloatArray]:
    """Least log-density among the rows of a chunk that count, the row's number and its standardized values.

    A missing value is replaced by the mean of the component that the row is nearest to.
    """
    joint = family.log_joint(chunk, parameters)
    density = np.where(chunk.weights > 0, logsumexp(joint, axis=1), np.inf)
    i = int(np.argmin(density))
    values = (chunk.X[i] - chunk.location) / chunk.scale
    values = np.where(np.isnan(values), parameters.means[joint[i].argmax()], values)
    return float(density[i]), chunk.place.start + i, values


@dataclass(frozen=True)
class Progress:
    """One iteration: the name of its start, its number and the objective."""

    start: str
    iteration: int
    objective: float


@dataclass(frozen=True, eq=False)
class Start(Generic[P]):
    """A name, and a function that makes the first state.

    With a finite `limit` it is a fallback, run only if the others end below that limit, and below the objective of its
    first state if that has one.
    """

    name: str
    begin: Callable[[], LoopState[P]]
    limit: float = math.inf


class States(Protocol):
    """States of the starts of a fit that are kept as they change, as in a checkpoint."""

    def state(self, start: str) -> Any:
        """The last state of a start, or None if it has not begun."""

    def write(self, start: str, state: Any) -> None:
        """Store the state of a start."""


def multistart(
    starts: Sequence[Start[P]],
    family: Family[P, S],
    rows: Rows,
    tol: float,
    max_iter: int,
    callback: Callable[[Progress], object] | None = None,
    saved: States | None = None,
) -> list[LoopResult[P]]:
    """Run EM from every start, fallbacks last; results, best first: fewest thin components, then highest objective.

    A start goes on from its saved state if there is one. An interrupt ends all of them; the best so far is then marked
    as interrupted, whether it had converged or not.
    """
    results: list[LoopResult[P]] = []
    for start in sorted(starts, key=lambda start: start.limit < math.inf):
        fallback = start.limit < math.inf
        best = ranked(results)[0] if fallback else None
        # With missing values a collapsed covariance has any objective.
        collapsed = best is not None and bool(best.thin) and rows.has_missing
        leader = -np.finfo(float).max if best is None or collapsed else best.state.trace[-1]
        if fallback and leader >= start.limit:
            continue
        try:
            state = None if saved is None else saved.state(start.name)
            if state is None:
                state = start.begin()
                if fallback and state.trace and state.trace[-1] <= leader + _ROUNDING * abs(leader):
                    continue
            save = None if saved is None else partial(saved.write, start.name)
            report = None
            if callback is not None:
                report = lambda i, value, name=start.name: callback(Progress(name, i, value))  # noqa: E731
            result = run(family, rows, state, tol, max_iter, report, save)
            results.append(replace(result, name=start.name))
        except KeyboardInterrupt:
            if not results:
                raise
            return interrupted(ranked(results))
        if results[-1].outcome is Outcome.INTERRUPTED:
            return interrupted(ranked(results))
    return ranked(results)


def ranked(results: list[LoopResult[P]]) -> list[LoopResult[P]]:
    """The best first; of those that differ from it by rounding only, which depends on the source of rows, the first."""
    order = sorted(results, key=lambda result: (len(result.thin), -result.state.trace[-1]))
    n_thin, value = len(order[0].thin), order[0].state.trace[-1]
    level = value - _ROUNDING * abs(value)
    first = next((r for r in results if len(r.thin) == n_thin and r.state.trace[-1] >= level), order[0])
    return [first, *(result for result in order if result is not first)]


def interrupted(results: list[LoopResult[P]]) -> list[LoopResult[P]]:
    """The results with the best of them marked as interrupted."""
    return [replace(results[0], outcome=Outcome.INTERRUPTED), *results[1:]]
