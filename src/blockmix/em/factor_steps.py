"""First parameters and column groups of the factor mixture: Ward's tree on the correlations within components.

Rows and responsibilities come in; groups, and variances of factors and noise that suit them, go out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import squareform
from scipy.stats import norm

from blockmix.em.factor import (
    EMPTY,
    FactorModel,
    FactorParameters,
    FactorStatistics,
    chunk_log_joint,
    responsibilities,
    sweep,
)
from blockmix.em.loop import Regroup
from blockmix.grouping.hierarchical import HierarchicalGrouping, cut
from blockmix.partition import FloatArray, IntArray
from blockmix.rows import Chunk, Rows

_TREE_COLUMNS = 200  # a tree needs all correlations between its columns; the others join its groups
_WEAK, _LEFT = 0.01, 0.1  # least share of a first factor, and of the first noise, in a column's variance


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

    Correlations have their sign, since columns of one group cannot be correlated negatively. The tree of a wide table
    is made of some of its columns, evenly spaced; the others join the group whose mean they are nearest to.
    """
    G, p = z.shape[1], rows.n_columns
    blank = _blank(G, p, 1)
    seen = Scatter.of(sweep(rows, blank, z), blank)
    columns = tree_columns(p, 2 * model.n_groups)
    R = correlations(rows, z, seen.means, columns, model, model.shared_groups)
    found = np.stack([cut(_ward(correlation), model.n_groups).labels for correlation in R])
    labels = np.zeros((G, p), dtype=np.intp)
    labels[:, columns] = found
    if len(columns) < p:
        labels = _nearest_groups(rows, z, seen, labels, columns, model)
        labels[:, columns] = found
    return labels


def _nearest_groups(
    rows: Rows, z: FloatArray, seen: Scatter, labels: IntArray, columns: IntArray, model: FactorModel
) -> IntArray:
    """The group whose mean of standardized columns, of those in the tree, each column is nearest to; shape (G, p)."""
    deviations = np.sqrt(_steadied(seen))
    noise = np.full(labels.shape, np.inf)  # a column of infinite noise has no part in the sums of its group
    noise[:, columns] = deviations[:, columns]
    sampled = FactorParameters(seen.rows, seen.means, labels, np.zeros((len(labels), model.n_groups)), noise)
    near = Scatter.of(sweep(rows, sampled, z), sampled)
    sizes = np.stack([np.bincount(row, minlength=model.n_groups) for row in labels[:, columns]])
    distances = (near.spread / sizes**2)[:, :, None] - 2 * near.cross / (sizes[:, :, None] * deviations[:, None, :])
    if model.shared_groups:
        distances = np.broadcast_to(np.einsum("g,gkj->kj", seen.rows, distances), distances.shape)
    return np.asarray(distances.argmin(axis=1))


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
    scatter = rows.map_sum(partial(_weighted_scatter, z=z, means=means, columns=columns))
    counts = rows.map_sum(partial(_counts, z=z))
    if pooled:
        scatter, counts = scatter.sum(axis=0, keepdims=True), counts.sum(keepdims=True)
    variances = np.diagonal(scatter, axis1=1, axis2=2)
    varies = variances > counts[:, None] * model.floor[columns]
    inverse = np.where(varies, 1 / np.sqrt(np.where(varies, variances, 1)), 0)
    R = np.clip(scatter * inverse[:, :, None] * inverse[:, None, :], -1, 1)
    R[:, np.arange(len(columns)), np.arange(len(columns))] = 1
    return R


def _weighted_scatter(chunk: Chunk, z: FloatArray, means: FloatArray, columns: IntArray) -> FloatArray:
    weights = (z[chunk.place] * chunk.weights[:, None]).T
    centered = chunk.values[:, columns].T - means[:, columns, None]
    return np.asarray(np.matmul(centered * weights[:, None, :], centered.swapaxes(1, 2)))


def _counts(chunk: Chunk, z: FloatArray) -> FloatArray:
    return np.asarray(chunk.weights @ z[chunk.place])


def _ward(R: FloatArray) -> FloatArray:
    """Ward's tree of standardized columns, whose squared distances are 2 (1 − r)."""
    if len(R) == 1:
        return np.empty((0, 4))
    return np.asarray(linkage(squareform(np.sqrt(2 * (1 - R)), checks=False), method="ward"))


_SCORING_STEPS = 4
_TINY = 1e-300
_DIGITS_LOST = 8  # rounding errors in the sums of a group with one column taken out


@dataclass(frozen=True, eq=False)
class Scatter:
    """Moments of each component about its new mean.

    Parameters
    ----------
    rows : array of shape (G,)
        Rows n_g that a component explains; none where it is dead.
    means, variances : arrays of shape (G, p)
        Means of x_j and variances S_jj.
    cross : array of shape (G, q, p)
        Covariances A_kj of s_k and x_j.
    spread : array of shape (G, q)
        Variances b_k of s_k.
    """

    rows: FloatArray
    means: FloatArray
    variances: FloatArray
    cross: FloatArray
    spread: FloatArray

    @classmethod
    def of(cls, statistics: FactorStatistics, old: FactorParameters) -> Scatter:
        """Center the statistics of a sweep that was made with the parameters `old`."""
        alive = statistics.weight > EMPTY * statistics.weight.sum()
        n = np.where(alive, statistics.weight, 1)[:, None]
        means = np.where(alive[:, None], statistics.first / n, old.means)
        variances = np.maximum(statistics.second / n - means**2, 0)
        drift = np.einsum("gkj,gj->gk", old.projection, means - old.means)
        cross = statistics.cross / n[:, :, None] - drift[:, :, None] * means[:, None, :]
        spread = np.maximum(np.einsum("gkj,gkj->gk", old.projection, cross), 0)
        return cls(np.where(alive, statistics.weight, 0), means, variances, cross, spread)


def maximize(statistics: FactorStatistics, old: FactorParameters, model: FactorModel) -> FactorParameters:
    """New parameters from a sweep: weights, means and T at their maximum, then B and D row by row.

    The log-likelihood rises. Given z, the weights, the means and T (for B and D as they are) maximize it exactly. B and
    D then maximize the expected log-likelihood of rows and factors,

        −½ Σ_g n_g Σ_j (log d_gj + r_gjk / d_gj),    r_gjk = S_gjj − 2 c_k A_gkj + c_k + c_k² b_k,

    with k the group of j: a column goes to the factor that predicts it with the least expected squared error. Both
    cycles of AECM use one E-step, which keeps the ascent and saves a sweep.
    """
    seen, old = profiled(statistics, old, model)
    c = old.gains
    moment = c + c**2 * seen.spread
    r = seen.variances[:, None, :] - 2 * c[:, :, None] * seen.cross + moment[:, :, None]
    labels = closest(r, seen.rows, old, model)
    error = np.take_along_axis(r, labels[:, None, :], axis=1)[:, 0]
    noise = noise_variances(error, seen.rows, old.noise, model)
    if model.free_noise:
        noise = sharpened(noise, error, labels, seen, old, model)
    elif not model.isotropic and (labels == old.labels).all():
        noise = sharpened_together(noise, error, seen, old, model)
    return replace(old, labels=labels, noise=noise)


def profiled(
    statistics: FactorStatistics, old: FactorParameters, model: FactorModel
) -> tuple[Scatter, FactorParameters]:
    """Weights, means and T at their maximum given z, B and D; and the moments about these means."""
    seen = Scatter.of(statistics, old)
    if model.shared_factors and not model.shared_groups:
        seen, old = aligned(seen, old)
    weights = statistics.weight / statistics.weight.sum()
    factors = factor_variances(seen, old, model)
    return seen, replace(old, weights=weights, means=seen.means, factor_variances=factors)


def group_cost(a: FloatArray, b: FloatArray, t: FloatArray) -> FloatArray:
    """Part of log|Σ| + tr Σ⁻¹S that a group's factor has, log(1 + t a) − t b / (1 + t a)."""
    return np.asarray(np.log1p(t * a) - t * b / (1 + t * a))


def aligned(seen: Scatter, old: FactorParameters) -> tuple[Scatter, FactorParameters]:
    """Number the groups of each component so that they suit the shared T best."""
    costs = group_cost(old.precisions[:, :, None], seen.spread[:, :, None], old.factor_variances[:, None, :])
    number = np.stack([linear_sum_assignment(cost)[1] for cost in costs])
    if (number == np.arange(number.shape[1])).all():
        return seen, old
    order = np.argsort(number, axis=1)
    cross = np.take_along_axis(seen.cross, order[:, :, None], axis=1)
    spread = np.take_along_axis(seen.spread, order, axis=1)
    return replace(seen, cross=cross, spread=spread), replace(
        old, labels=np.take_along_axis(number, old.labels, axis=1)
    )


def factor_variances(seen: Scatter, old: FactorParameters, model: FactorModel) -> FloatArray:
    """T given B and D: t_k = max(0, (b_k − a_k) / a_k²), the minimum of `group_cost`.

    A shared t minimizes the sum over components, by Fisher's scoring: the mean of the components' own t, weighted by
    n a² / (1 + t a)². Where a step does not lower the sum, EM's step takes its place.
    """
    if model.unit_factors:
        return old.factor_variances
    a, b, n = old.precisions, seen.spread, seen.rows[:, None]
    own = (b - a) / np.maximum(a, _TINY) ** 2
    if not model.shared_factors:
        return np.where(n > 0, np.maximum(own, 0), old.factor_variances)
    t = old.factor_variances[0]
    for _ in range(_SCORING_STEPS):
        weight = n * (a / (1 + t * a)) ** 2
        scored = np.maximum((weight * own).sum(axis=0) / np.maximum(weight.sum(axis=0), _TINY), 0)
        lower = (n * (group_cost(a, b, scored) - group_cost(a, b, t))).sum(axis=0) <= 0
        c = t / (1 + t * a)
        t = np.where(lower, scored, (n * (c + c**2 * b)).sum(axis=0) / n.sum())
    return np.broadcast_to(t, old.factor_variances.shape)


def closest(r: FloatArray, n: FloatArray, old: FactorParameters, model: FactorModel) -> IntArray:
    """B given expected squared errors r (G, q, p): the group of each column, none left empty, shape (G, p)."""
    if not model.shared_groups:
        triples = zip(r, old.labels, n, strict=True)
        return np.stack([_least(cost, labels) if rows > 0 else labels for cost, labels, rows in triples])
    # Free noise follows the column to its new group, other noise stays for the moment.
    d = np.maximum(r, model.floor) if model.free_noise else old.noise[:, None, :]
    cost = np.einsum("g,gkj->kj", n, column_cost(d, r))
    return np.broadcast_to(_least(cost, old.labels[0]), old.labels.shape)


def _least(cost: FloatArray, old: IntArray) -> IntArray:
    """Group of least cost (q, p) of each column; a column moves only for a gain, and no group becomes empty."""
    at = np.arange(len(old))
    best = cost.argmin(axis=0)
    gain = cost[old, at] - cost[best, at]
    best = np.where(gain > 1e-10 * (1 + np.abs(cost[old, at])), best, old)
    while len(empty := np.flatnonzero(np.bincount(best, minlength=len(cost)) == 0)):
        best = np.where(np.isin(old, empty), old, best)
    return best


def column_cost(d: FloatArray, error: FloatArray) -> FloatArray:
    """Cost of a column with noise d, log d + error / d, least at d = error."""
    return np.asarray(np.log(d) + error / d)


def noise_variances(error: FloatArray, n: FloatArray, old: FloatArray, model: FactorModel) -> FloatArray:
    """D from the expected squared error of each column (G, p), pooled as the model says, at least the floor."""
    floor = model.floor
    if model.isotropic:
        error, floor = error.mean(axis=1, keepdims=True), floor.mean(keepdims=True)
    error = (n @ error / n.sum())[None] if model.shared_noise else np.where(n[:, None] > 0, error, old)
    return np.broadcast_to(np.maximum(error, floor), old.shape)


def sharpened(
    noise: FloatArray,
    error: FloatArray,
    labels: IntArray,
    seen: Scatter,
    old: FactorParameters,
    model: FactorModel,
) -> FloatArray:
    """EM's noise with, in groups where that is worth more, one column's exact noise and none of EM's.

    EM creeps to a small d_j: on eight columns with T = I it took 2000 steps where this takes 12. Given z the groups are
    independent, so one column of each may move while the others stay.
    """
    c, V = home_predictions(seen, old)
    best = np.maximum(V - c, model.floor)
    gain = certain_gain(best, c, V, seen, old)
    by_em = column_cost(old.noise, error) - column_cost(noise, error)
    noise = np.array(noise)
    # Where EM moves columns, its step binds the groups together.
    for g in np.flatnonzero((labels == old.labels).all(axis=1) & (seen.rows > 0)):
        step = np.bincount(labels[g], by_em[g], minlength=model.n_groups)
        for k in range(model.n_groups):
            columns = np.flatnonzero(labels[g] == k)
            j = columns[gain[g, columns].argmax()]  # one column, even where several tie: together they may lose
            if gain[g, j] > step[k]:
                noise[g, columns] = old.noise[g, columns]
                noise[g, j] = best[g, j]
    return noise


def sharpened_together(
    noise: FloatArray, error: FloatArray, seen: Scatter, old: FactorParameters, model: FactorModel
) -> FloatArray:
    """EM's shared noise, or that of before but for the one column whose exact noise is worth more than EM's step.

    The best d of a column is the mean of the components' own V − c, weighted by n / (d + c)², by Fisher's scoring.
    """
    (c, V), n = home_predictions(seen, old), seen.rows[:, None]
    best = old.noise[0]
    for _ in range(_SCORING_STEPS):
        weight = n / (best + c) ** 2
        best = np.maximum((weight * (V - c)).sum(axis=0) / weight.sum(axis=0), model.floor)
    gain = (n * certain_gain(best, c, V, seen, old)).sum(axis=0)
    by_em = (n * (column_cost(old.noise, error) - column_cost(noise, error))).sum()
    j = int(gain.argmax())
    if gain[j] <= by_em:
        return noise
    noise = np.array(old.noise)
    noise[:, j] = best[j]
    return noise


def certain_gain(noise: FloatArray, c: FloatArray, V: FloatArray, seen: Scatter, old: FactorParameters) -> FloatArray:
    """Lower bound on what each column gains by another noise, for c and V of `home_predictions`, shape (G, p).

    V takes the column itself out of the sums of its group. If its noise is tiny, this cancels digits, and V has an
    error of eps (1 + c/d)² times the largest squares: 0.02 in standardized columns at c = 1 and the default floor.
    """
    largest = (seen.variances + seen.means**2).max(axis=1, keepdims=True)
    error = _DIGITS_LOST * np.finfo(float).eps * (1 + c / old.noise) ** 2 * largest
    gain = column_cost(old.noise + c, V) - column_cost(noise + c, V)
    return np.asarray(gain - np.abs(1 / (old.noise + c) - 1 / (noise + c)) * error)


def column_costs(seen: Scatter, old: FactorParameters, model: FactorModel) -> tuple[FloatArray, FloatArray]:
    """Exact cost of each column in each group while the other columns stay, and its noise there, shapes (G, q, p).

    Given the columns of group k without j, x_j has mean square V about its prediction, and variance d_j + c in the
    model: it costs log(d + c) + V / (d + c), and the best free noise is d = V − c.
    """
    S, t = seen.variances[:, None, :], old.factor_variances[:, :, None]
    a, b = old.precisions[:, :, None], seen.spread[:, :, None]
    c, V = _predictions(S, a, b, seen.cross, t)
    c = np.broadcast_to(c, V.shape).copy()
    for table, at_home in zip((c, V), home_predictions(seen, old), strict=True):
        np.put_along_axis(table, old.labels[:, None, :], at_home[:, None, :], axis=1)
    d = np.maximum(V - c, model.floor) if model.free_noise else np.broadcast_to(old.noise[:, None, :], V.shape)
    return column_cost(d + c, V), d


def home_predictions(seen: Scatter, old: FactorParameters) -> tuple[FloatArray, FloatArray]:
    """The c and V of each column for the group that it is in, without it, shapes (G, p)."""
    S, e = seen.variances, 1 / old.noise
    a, b, t = (np.take_along_axis(x, old.labels, axis=1) for x in (old.precisions, seen.spread, old.factor_variances))
    A = np.take_along_axis(seen.cross, old.labels[:, None, :], axis=1)[:, 0]
    return _predictions(S, np.maximum(a - e, 0), np.maximum(b - 2 * e * A + e**2 * S, 0), A - e * S, t)


def _predictions(
    S: FloatArray, a: FloatArray, b: FloatArray, A: FloatArray, t: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Variance of a factor given its group, c = t / (1 + t a), and mean square V = S_jj − 2 c A_kj + c² b."""
    c = t / (1 + t * a)
    return c, np.maximum(S - 2 * c * A + c**2 * b, _TINY)


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


_LEVEL = 0.01  # chance that a component without negative correlations is named


class NegativeGroup(NamedTuple):
    """A component, columns that are related in it, and their most negative correlation."""

    component: int
    columns: list[int]
    pair: tuple[int, int]
    correlation: float

    def describe(self, names: list[str], labels: IntArray) -> str:
        """A sentence with the names of the columns and the groups (G, p) that the fit has put them in."""
        listed = ", ".join(names[j] for j in self.columns[:8]) + (", …" if len(self.columns) > 8 else "")
        first, second = (f"{names[j]} (fitted in group {labels[self.component, j]})" for j in self.pair)
        return (
            f"columns {listed} of component {self.component} form a group with negative correlations, "
            f"{self.correlation:.2f} between {first} and {second}"
        )


def negative_groups(rows: Rows, parameters: FactorParameters, model: FactorModel) -> list[NegativeGroup]:
    """Groups of the tree on 1 − |R| within a component that have a negative correlation, worst first.

    The fit itself avoids groups with negative correlations by parting their columns, so these are the groups that signs
    do not matter to. A correlation counts below −tanh(u / √(n − 3)), with u the normal quantile for all pairs.
    """
    z = responsibilities(rows, parameters)
    columns = tree_columns(rows.n_columns)
    found: list[NegativeGroup] = []
    for g, R in enumerate(correlations(rows, z, parameters.means, columns, model)):
        found += _negative(g, R, columns, float(parameters.weights[g] * rows.total_weight), model.n_groups)
    return sorted(found, key=lambda group: group.correlation)


def _negative(g: int, R: FloatArray, columns: IntArray, n: float, n_groups: int) -> list[NegativeGroup]:
    pairs = len(R) * (len(R) - 1) // 2
    if n <= 4 or pairs == 0:
        return []
    least = -np.tanh(norm.isf(_LEVEL / pairs) / np.sqrt(n - 3))
    if R.min() >= least:
        return []
    found = []
    for group in HierarchicalGrouping().group(R, min(n_groups, len(R))).partition.groups:
        block = R[np.ix_(group, group)]
        i, j = np.unravel_index(int(np.argmin(block)), block.shape)
        if block[i, j] < least:
            pair = (int(columns[group[i]]), int(columns[group[j]]))
            found.append(NegativeGroup(g, [int(columns[k]) for k in group], pair, float(block[i, j])))
    return found


_LOOSE = 1e-3  # per row and column


@dataclass(frozen=True, eq=False)
class FactorFamily:
    """Gaussian mixtures with one common factor per column group, for rows of a given total weight.

    See `em.family.Family` for the methods.
    """

    model: FactorModel
    total_weight: float

    def first(self, rows: Rows, z: FloatArray) -> Regroup[FactorParameters]:
        """Parameters from responsibilities z, shape (N, G), with the first column groups."""
        parameters = first_parameters(rows, z, first_groups(rows, z, self.model), self.model)
        return Regroup(parameters, changed=True, memory=frozenset(cuts_of(z[:])))

    def layouts(self, n_columns: int, judged: bool) -> dict[str, FactorFamily]:
        """Return the family alone: the number of groups is given."""
        return {"given groups": self}

    def sweep(self, rows: Rows, parameters: FactorParameters) -> FactorStatistics:
        """E-step."""
        return sweep(rows, parameters)

    def objective(self, statistics: FactorStatistics, parameters: FactorParameters) -> float:
        """Log-likelihood: the number of parameters does not change during a fit."""
        return statistics.log_likelihood

    def maximize(self, statistics: FactorStatistics, parameters: FactorParameters) -> FactorParameters:
        """M-step: T exactly, then B and D by EM."""
        return maximize(statistics, parameters, self.model)

    def regroup(
        self,
        rows: Rows,
        parameters: FactorParameters,
        statistics: FactorStatistics,
        enough: float,
        memory: frozenset[str],
    ) -> Regroup[FactorParameters]:
        """M-step after moves of single columns and new cuts of the tree, where these raise the likelihood."""
        better = moved(rows, (parameters, statistics), self.model, enough)
        better, memory = recut(rows, better, self.model, memory)
        changed = better[1].log_likelihood - statistics.log_likelihood >= enough
        return Regroup(self.maximize(better[1], better[0]), changed, memory)

    def thin(self, parameters: FactorParameters, spare: int = 0) -> IntArray:
        """Components whose noise rests on its floor in more than half of the columns, or on two rows or fewer."""
        resting = (parameters.noise <= self.model.floor * (1 + 1e-9)).mean(axis=1) > 0.5
        few = parameters.weights * self.total_weight <= 2
        return np.flatnonzero(resting | (few & (not self.model.shared_noise)))

    def resting(self, parameters: FactorParameters) -> IntArray:
        """The same components: fewer rows than these leave the noise on its floor."""
        return self.thin(parameters)

    @property
    def loose(self) -> float:
        """Tolerance per row at which the groups are first revised."""
        return _LOOSE * len(self.model.floor)

    def log_joint(self, chunk: Chunk, parameters: FactorParameters) -> FloatArray:
        """Log π_g f_g of the rows of a chunk in standardized columns, shape (m, G)."""
        return chunk_log_joint(chunk, parameters)
