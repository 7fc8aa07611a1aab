"""Regroup of the factor mixture: new column groups where they raise the likelihood.

Rows and a state come in; the best state found goes out. EM's own update of the groups is cautious, since its factors
are anchored to the present groups. Once EM has settled, single columns move by what that does to the likelihood
itself, and the tree of the columns is cut again. A change is kept only if it raises the likelihood.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b

import numpy as np
from scipy.optimize import linear_sum_assignment

from blockmix.em.factor.first import first_groups, first_parameters
from blockmix.em.factor.m_step import Scatter, column_costs, maximize, profiled
from blockmix.em.factor.parameters import FactorModel, FactorParameters
from blockmix.em.factor.sweep import FactorStatistics, responsibilities, sweep
from blockmix.rows import Rows
from blockmix.structure.types import FloatArray, IntArray

_GAIN = 1e-9  # per row: what a new grouping must gain, well above rounding
_ROUNDS = 20  # of single moves before EM goes on
_TRIAL = 5  # steps of EM before newly cut groups are judged
_ALIKE = 0.9  # share of columns in matching groups from which on groups are not worth a trial

State = tuple[FactorParameters, FactorStatistics]


def moved(rows: Rows, state: State, model: FactorModel, enough: float) -> State:
    """The state after rounds of moves of single columns, until one gains less than enough."""
    for _ in range(_ROUNDS):
        better = _one_round(rows, state, model)
        if better is None:
            break
        gain = better[1].log_likelihood - state[1].log_likelihood
        state = better
        if gain < enough:
            break
    return state


def _one_round(rows: Rows, state: State, model: FactorModel) -> State | None:
    """Move all columns that would gain alone, or the best quarter of them, and so on down to the best one.

    Together they may lose what each would gain alone; the best one alone does gain.
    """
    seen, old = profiled(state[1], state[0], model)
    change, noise = move_gains(seen, old, model)
    target = change.argmin(axis=1)
    best = np.take_along_axis(change, target[:, None, :], axis=1)[:, 0]
    order = np.argsort(best, axis=None, kind="stable")
    count = int((best < -_GAIN * rows.total_weight).sum())
    while count:
        chosen = np.unravel_index(order[:count], best.shape)
        candidate = _with_moves(old, target, noise, chosen, model)
        statistics = sweep(rows, candidate)
        if _rises(rows, state[1], statistics):
            return candidate, statistics
        count = max(count // 4, 1) if count > 1 else 0
    return None


def move_gains(seen: Scatter, old: FactorParameters, model: FactorModel) -> tuple[FloatArray, FloatArray]:
    """Change of −log-likelihood when one column moves, z fixed, and its noise there, shapes (G, q, p).

    The first has shape (1, q, p) where components share their groups. A column that is alone in its group stays.
    """
    cost, noise = column_costs(seen, old, model)
    home = old.labels[:, None, :]
    change = 0.5 * seen.rows[:, None, None] * (cost - np.take_along_axis(cost, home, axis=1))
    sizes = np.stack([np.bincount(labels, minlength=model.n_groups) for labels in old.labels])
    change = np.where(np.take_along_axis(sizes, old.labels, axis=1)[:, None, :] > 1, change, 0)
    return (change.sum(axis=0, keepdims=True) if model.shared_groups else change), noise


def _with_moves(
    old: FactorParameters,
    target: IntArray,
    noise: FloatArray,
    chosen: tuple[IntArray, ...],
    model: FactorModel,
) -> FactorParameters:
    """The chosen columns in their target groups; where that empties a group, its columns stay."""
    labels = np.array(old.labels[: len(target)])
    labels[chosen] = target[chosen]
    for row, before in zip(labels, old.labels, strict=False):
        while len(empty := np.flatnonzero(np.bincount(row, minlength=model.n_groups) == 0)):
            row[:] = np.where(np.isin(before, empty), before, row)
    labels = np.broadcast_to(labels, old.labels.shape)
    there = np.take_along_axis(noise, labels[:, None, :], axis=1)[:, 0]
    return replace(old, labels=labels, noise=np.where(labels != old.labels, there, old.noise))


def recut(rows: Rows, state: State, model: FactorModel, tried: frozenset[str]) -> tuple[State, frozenset[str]]:
    """The state with the tree of a component cut again where that raises the likelihood, and the cuts tried so far.

    A cut is known by the rows of its component. One that was tried before has had its chance: EM and the moves led
    from it to here. Where new groups are much like the present ones, single moves have decided between them.
    """
    z = responsibilities(rows, state[0])
    cuts = cuts_of(z)
    new = [g for g, cut in enumerate(cuts) if cut not in tried]
    tried |= set(cuts)
    labels = first_groups(rows, z, model) if new else state[0].labels
    new = [g for g in new if _agreement(labels[g], state[0].labels[g]) < _ALIKE]
    if not new:
        return state, tried
    fresh = first_parameters(rows, z, labels, model)
    for part in [slice(None)] if model.shared_groups else [slice(g, g + 1) for g in new]:
        trial = _on_trial(rows, _exchanged(state[0], fresh, part, model), model, state[1].log_likelihood)
        if _rises(rows, state[1], trial[1]):
            state = trial
    return state, tried


def _on_trial(rows: Rows, parameters: FactorParameters, model: FactorModel, rival: float) -> State:
    """The state after a few steps of EM, fewer where even gains that do not shrink would not lead past the rival."""
    reached = -np.inf
    for left in range(_TRIAL, -1, -1):
        statistics = sweep(rows, parameters)
        value = statistics.log_likelihood
        if left == 0 or value + left * (value - reached) < rival:
            break
        reached, parameters = value, maximize(statistics, parameters, model)
    return parameters, statistics


def cuts_of(z: FloatArray) -> list[str]:
    """What names the cut of each component: the component, and the rows that it holds by responsibilities (N, G)."""
    return [f"{g} {blake2b((share > 0.5).tobytes(), digest_size=16).hexdigest()}" for g, share in enumerate(z.T)]


def _agreement(one: IntArray, other: IntArray) -> float:
    """Share of the columns in matching groups, under the best matching."""
    q = int(max(one.max(), other.max())) + 1
    table = np.bincount(one * q + other, minlength=q * q).reshape(q, q)
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / len(one))


def _exchanged(old: FactorParameters, fresh: FactorParameters, part: slice, model: FactorModel) -> FactorParameters:
    """Old parameters with the fresh groups of some components, and with the fresh T and D that they do not share."""

    def take(before: FloatArray, after: FloatArray, shared: bool) -> FloatArray:
        mixed = np.array(before)
        if not shared:
            mixed[part] = after[part]
        return mixed

    labels = np.array(old.labels)
    labels[part] = fresh.labels[part]
    return replace(
        old,
        labels=labels,
        factor_variances=take(old.factor_variances, fresh.factor_variances, model.shared_factors),
        noise=take(old.noise, fresh.noise, model.shared_noise),
    )


def _rises(rows: Rows, old: FactorStatistics, new: FactorStatistics) -> bool:
    return new.log_likelihood > old.log_likelihood + _GAIN * rows.total_weight
