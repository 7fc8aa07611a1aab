"""Ascent of the factor mixture: first column groups, EM to its end, and new groups in between.

Rows, a start and a model come in; parameters, the trace of the log-likelihood and how it ended go out. EM's own update
of the groups is cautious, since its factors are anchored to the present groups. Once EM has settled, single columns
move by what that does to the likelihood itself, and the tree of the columns is cut anew. A change is kept only where it
raises the likelihood, so the trace never falls; the fit ends when none does.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import squareform

from blockmix.em.block.e_step import posterior
from blockmix.em.convergence import Aitken, Outcome
from blockmix.em.factor.m_step import Scatter, column_costs, maximize, noise_variances, profiled
from blockmix.em.factor.sweep import FactorModel, FactorParameters, FactorStatistics, log_joint_rows, sweep
from blockmix.em.loop import Ascent, Callback
from blockmix.grouping.hierarchical import cut
from blockmix.rows import Chunk, Rows
from blockmix.structure.types import FloatArray, IntArray

_LOOSE = 1e-3  # groups are cut anew once the gain still to come is below this, per row and column
_GAIN = 1e-9  # per row: what a new grouping must gain, well above rounding
_ROUNDS = 20  # of single moves before EM goes on
_TRIAL = 5  # steps of EM before newly cut groups are judged
_ALIKE = 0.9  # share of columns in matching groups from which on groups are not worth a trial
_TREE_COLUMNS = 200  # a tree needs all correlations between its columns; the others join its groups

State = tuple[FactorParameters, FactorStatistics]
Cuts = set[tuple[int, bytes]]  # components, and the rows that they had when their groups were cut from the tree


def climb(
    rows: Rows,
    start: FloatArray | FactorParameters,
    model: FactorModel,
    tol: float,
    max_iter: int,
    callback: Callback | None = None,
) -> Ascent:
    """Run EM from responsibilities (N, G) or from parameters until no new grouping raises the likelihood."""
    tried: Cuts = set()
    if isinstance(start, FactorParameters):
        parameters = start
    else:
        _untried(start, tried)
        parameters = first_parameters(rows, start, first_groups(rows, start, model), model)
    trace: list[float] = []
    outcome, unmoved = Outcome.ITERATION_LIMIT, -np.inf
    patience = Aitken(max(tol, _LOOSE * rows.n_columns))
    try:
        for iteration in range(max_iter):
            statistics = sweep(rows, parameters)
            value = statistics.log_likelihood
            trace.append(value)
            if callback is not None:
                callback(iteration, value)
            if not patience.settled(value / rows.total_weight):
                parameters = maximize(statistics, parameters, model)
                continue
            settled = patience.tol <= tol
            if settled and value - unmoved < tol * rows.total_weight:
                outcome = Outcome.CONVERGED
                break
            better = moved(rows, (parameters, statistics), model, patience.tol * rows.total_weight)
            better = recut(rows, better, model, tried)
            if better[1].log_likelihood - value < tol * rows.total_weight:
                # The groups stand; they are looked at again only if the likelihood moves on by more than tol.
                unmoved, patience = value if settled else -np.inf, Aitken(tol, patience.values)
            else:
                patience = Aitken(patience.tol)
            parameters = maximize(better[1], better[0], model)
    except KeyboardInterrupt:
        if not trace:
            raise
        outcome = Outcome.INTERRUPTED
    return Ascent(parameters, trace, outcome, len(thin_components(parameters, rows, model)))


def thin_components(parameters: FactorParameters, rows: Rows, model: FactorModel) -> IntArray:
    """Components whose noise rests on its floor in more than half of the columns, or on two rows or fewer."""
    resting = (parameters.noise <= model.floor * (1 + 1e-9)).mean(axis=1) > 0.5
    few = parameters.weights * rows.total_weight <= 2
    return np.flatnonzero(resting | (few & (not model.shared_noise)))


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


def recut(rows: Rows, state: State, model: FactorModel, tried: Cuts) -> State:
    """The state with the groups of a component cut anew where that raises the likelihood; else the state itself.

    Groups that were cut from the same rows before have had their chance: EM and the moves led from them to here. Where
    the new groups are much like those that are there, single moves have decided between them.
    """
    z = posterior(log_joint_rows(rows, state[0]).T)[0].T
    new = _untried(z, tried)
    labels = first_groups(rows, z, model) if new else state[0].labels
    new = [g for g in new if _agreement(labels[g], state[0].labels[g]) < _ALIKE]
    if not new:
        return state
    fresh = first_parameters(rows, z, labels, model)
    for part in [slice(None)] if model.shared_groups else [slice(g, g + 1) for g in new]:
        trial = _on_trial(rows, _exchanged(state[0], fresh, part, model), model, state[1].log_likelihood)
        if _rises(rows, state[1], trial[1]):
            state = trial
    return state


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


def _untried(z: FloatArray, tried: Cuts) -> list[int]:
    """Components whose groups have not been cut before from the rows that they have; they have from now on."""
    found = {(g, (share > 0.5).tobytes()) for g, share in enumerate(z.T)} - tried
    tried |= found
    return sorted(g for g, _ in found)


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
        factors=take(old.factors, fresh.factors, model.shared_factors),
        noise=take(old.noise, fresh.noise, model.shared_noise),
    )


def _rises(rows: Rows, old: FactorStatistics, new: FactorStatistics) -> bool:
    return new.log_likelihood > old.log_likelihood + _GAIN * rows.total_weight


def first_parameters(rows: Rows, z: FloatArray, labels: IntArray, model: FactorModel) -> FactorParameters:
    """Parameters from responsibilities and groups: t_k is their mean covariance, d_j what it leaves of S_jj."""
    G, q = len(labels), model.n_groups
    unit = replace(_blank(G, rows.n_columns, q), labels=labels)
    statistics = sweep(rows, unit, z)
    seen = Scatter.of(statistics, unit)
    variances = _steadied(seen)
    totals = np.einsum("gkj,gj->gk", unit.projection, seen.variances)
    sizes = unit.precisions
    t = np.maximum((seen.spread - totals) / np.maximum(sizes * (sizes - 1), 1), _WEAK * totals / sizes)
    if model.unit_factors:
        t = np.ones_like(t)
    elif model.shared_factors:
        # Groups are matched by rank, so that group k of every component can share t_k.
        order = np.argsort(-t, axis=1) if not model.shared_groups else np.tile(np.arange(q), (G, 1))
        labels = np.take_along_axis(np.argsort(order, axis=1), labels, axis=1)
        t = np.broadcast_to(seen.rows @ np.take_along_axis(t, order, axis=1) / seen.rows.sum(), t.shape)
    left = np.maximum(variances - np.take_along_axis(t, labels, axis=1), _LEFT * variances)
    noise = noise_variances(left, np.maximum(seen.rows, 1), unit.noise, model)
    return FactorParameters(statistics.weight / statistics.weight.sum(), seen.means, labels, t, noise)


_WEAK, _LEFT = 0.01, 0.1  # least share of a first factor, and of the first noise, in a column's variance


def _blank(G: int, p: int, q: int) -> FactorParameters:
    labels = np.zeros((G, p), dtype=np.intp)
    return FactorParameters(np.full(G, 1 / G), np.zeros((G, p)), labels, np.zeros((G, q)), np.ones((G, p)))


def _steadied(seen: Scatter) -> FloatArray:
    """Variances (G, p) with one row's worth of the pooled ones: a component of one row has none of its own."""
    n = seen.rows[:, None]
    pooled = (n * seen.variances).sum(axis=0) / n.sum()
    return np.asarray((n * seen.variances + pooled) / (n + 1))


def first_groups(rows: Rows, z: FloatArray, model: FactorModel) -> IntArray:
    """Ward's tree on the correlations within components, cut into q groups; shape (G, p).

    Correlations have their sign, since columns of one group cannot be correlated negatively. Of many columns the tree
    takes some, evenly spaced; the others join the group whose mean they are nearest to.
    """
    G, p = z.shape[1], rows.n_columns
    blank = _blank(G, p, 1)
    seen = Scatter.of(sweep(rows, blank, z), blank)
    columns = tree_columns(p, 2 * model.n_groups)
    R = correlations(rows, z, seen.means, columns, model, model.shared_groups)
    found = np.stack([cut(_ward(correlation), model.n_groups).labels for correlation in R])
    labels = np.zeros((G, p), dtype=np.intp)
    labels[:, columns] = found
    if len(columns) == p:
        return labels
    deviations = np.sqrt(_steadied(seen))
    noise = np.full((G, p), np.inf)
    noise[:, columns] = deviations[:, columns]
    sampled = FactorParameters(seen.rows, seen.means, labels, np.zeros((G, model.n_groups)), noise)
    near = Scatter.of(sweep(rows, sampled, z), sampled)
    sizes = np.stack([np.bincount(row, minlength=model.n_groups) for row in labels[:, columns]])
    distances = (near.spread / sizes**2)[:, :, None] - 2 * near.cross / (sizes[:, :, None] * deviations[:, None, :])
    if model.shared_groups:
        distances = np.broadcast_to(np.einsum("g,gkj->kj", seen.rows, distances), distances.shape)
    nearest: IntArray = distances.argmin(axis=1)
    nearest[:, columns] = found
    return nearest


def tree_columns(p: int, least: int = 0) -> IntArray:
    """Columns that a tree is made of: all, or evenly spaced ones where there are many."""
    count = min(p, max(_TREE_COLUMNS, least))
    return np.asarray(np.linspace(0, p - 1, count), dtype=np.intp)


def correlations(
    rows: Rows, z: FloatArray, means: FloatArray, columns: IntArray, model: FactorModel, pooled: bool = False
) -> FloatArray:
    """Correlations of some columns within each component, shape (G, c, c), or (1, c, c) within all of them together.

    A column whose variance is below the floor of the noise is taken as constant: its correlations would be rounding.
    """

    def of(chunk: Chunk) -> FloatArray:
        weights = (z[chunk.place] * chunk.weights[:, None]).T
        centered = chunk.values[columns].astype(float) - means[:, columns, None]
        return np.asarray(np.matmul(centered * weights[:, None, :], centered.swapaxes(1, 2)))

    scatter = rows.map_sum(of)
    counts = rows.map_sum(lambda chunk: np.asarray(chunk.weights @ z[chunk.place]))
    if pooled:
        scatter, counts = scatter.sum(axis=0, keepdims=True), counts.sum(keepdims=True)
    variances = np.diagonal(scatter, axis1=1, axis2=2)
    varies = variances > counts[:, None] * model.floor[columns]
    inverse = np.where(varies, 1 / np.sqrt(np.where(varies, variances, 1)), 0)
    R = np.clip(scatter * inverse[:, :, None] * inverse[:, None, :], -1, 1)
    R[:, np.arange(len(columns)), np.arange(len(columns))] = 1
    return R


def _ward(R: FloatArray) -> FloatArray:
    """Ward's tree of standardized columns, whose squared distances are 2 (1 − r)."""
    if len(R) == 1:
        return np.empty((0, 4))
    return np.asarray(linkage(squareform(np.sqrt(2 * (1 - R)), checks=False), method="ward"))
