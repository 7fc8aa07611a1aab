"""Steps of the factor mixture: first groups and parameters from responsibilities, and the M-step (docs/factor.md).

The first groups are those of Ward's tree on the correlations within components. The M-step takes the statistics of a
sweep to new weights, means, T, B and D, and never lowers the log-likelihood.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import squareform

from blockmix.em.factor import FactorModel, FactorParameters, FactorStatistics, Scatter, factor_sweep, group_sizes
from blockmix.grouping.grouping import cut
from blockmix.partition import FloatArray, IntArray
from blockmix.rows import Chunk, Rows

_TREE_COLUMNS = 200  # a tree needs all correlations between its columns; the others join its groups
_LEAST_FACTOR, _LEAST_NOISE = 0.01, 0.1  # least share of the first factor and noise in a column's variance
_SCORING_STEPS = 4
_TINY = 1e-300
_DIGITS_LOST = 8  # rounding errors in the sums of a group with one column taken out


def _unit_parameters(labels: IntArray, n_groups: int) -> FactorParameters:
    """Zero means, no factors and noise of 1, so that s_k is a plain sum over the columns of a group."""
    G, p = labels.shape
    return FactorParameters(np.full(G, 1 / G), np.zeros((G, p)), labels, np.zeros((G, n_groups)), np.ones((G, p)))


def first_parameters(rows: Rows, z: FloatArray, labels: IntArray, model: FactorModel) -> FactorParameters:
    """Parameters from responsibilities and groups: t_k is their mean covariance, d_j what it leaves of S_jj."""
    G, q = len(labels), model.n_groups
    unit = _unit_parameters(labels, q)
    statistics = factor_sweep(rows, unit, z)
    scatter = Scatter.of(statistics, unit)
    variances = scatter.steady_variances
    totals = np.einsum("gkj,gj->gk", unit.projection, scatter.variances)
    sizes = unit.precisions
    t = np.maximum((scatter.spread - totals) / np.maximum(sizes * (sizes - 1), 1), _LEAST_FACTOR * totals / sizes)
    if model.unit_factors:
        t = np.ones_like(t)
    elif model.shared_factors:
        # Groups are matched by rank, so that group k of every component can share t_k.
        order = np.argsort(-t, axis=1) if not model.shared_groups else np.tile(np.arange(q), (G, 1))
        labels = np.take_along_axis(np.argsort(order, axis=1), labels, axis=1)
        t = np.broadcast_to(scatter.rows @ np.take_along_axis(t, order, axis=1) / scatter.rows.sum(), t.shape)
    rest = np.maximum(variances - np.take_along_axis(t, labels, axis=1), _LEAST_NOISE * variances)
    noise = _noise_variances(rest, np.maximum(scatter.rows, 1), unit.noise, model)
    return FactorParameters(statistics.weight / statistics.weight.sum(), scatter.means, labels, t, noise)


def first_groups(rows: Rows, z: FloatArray, model: FactorModel) -> IntArray:
    """Ward's tree on the correlations within components, cut into q groups; shape (G, p).

    Correlations have their sign, since columns of one group cannot be correlated negatively. The tree of a wide table
    is made of evenly spaced columns; the others join the group whose mean they are nearest to.
    """
    labels = np.zeros((z.shape[1], rows.n_columns), dtype=np.intp)
    unit = _unit_parameters(labels, 1)
    scatter = Scatter.of(factor_sweep(rows, unit, z), unit)
    columns = tree_columns(rows.n_columns, 2 * model.n_groups)
    least = scatter.rows[:, None] * model.floor[columns]
    R = correlations(rows, z, scatter.means, columns, least, model.shared_groups)
    in_tree = np.stack([cut(_ward(correlation), model.n_groups).labels for correlation in R])
    labels[:, columns] = in_tree
    if len(columns) < rows.n_columns:
        labels = _nearest_groups(rows, z, scatter, labels, columns, model)
        labels[:, columns] = in_tree
    return labels


def _nearest_groups(
    rows: Rows, z: FloatArray, scatter: Scatter, labels: IntArray, columns: IntArray, model: FactorModel
) -> IntArray:
    """The group whose mean of standardized columns, of those in the tree, each column is nearest to; shape (G, p)."""
    deviations = np.sqrt(scatter.steady_variances)
    noise = np.full(labels.shape, np.inf)  # a column of infinite noise has no part in the sums of its group
    noise[:, columns] = deviations[:, columns]
    sampled = FactorParameters(scatter.rows, scatter.means, labels, np.zeros((len(labels), model.n_groups)), noise)
    sums = Scatter.of(factor_sweep(rows, sampled, z), sampled)
    sizes = group_sizes(labels[:, columns], model.n_groups)
    distances = (sums.spread / sizes**2)[:, :, None] - 2 * sums.cross / (sizes[:, :, None] * deviations[:, None, :])
    if model.shared_groups:
        distances = np.broadcast_to(np.einsum("g,gkj->kj", scatter.rows, distances), distances.shape)
    return np.asarray(distances.argmin(axis=1))


def tree_columns(p: int, least: int = 0) -> IntArray:
    """Columns that a tree is made of: all, or evenly spaced ones of a wide table."""
    return np.asarray(np.linspace(0, p - 1, min(p, max(_TREE_COLUMNS, least))), dtype=np.intp)


def correlations(
    rows: Rows, z: FloatArray, means: FloatArray, columns: IntArray, least: FloatArray, pooled: bool = False
) -> FloatArray:
    """Correlations of some columns within each component, shape (G, c, c), or (1, c, c) within all of them together.

    A column whose sum of squares is below `least`, shape (G, c), is taken as constant: its correlations would be
    rounding.
    """
    scatter = rows.map_sum(partial(_weighted_scatter, z=z, means=means, columns=columns))
    if pooled:
        scatter, least = scatter.sum(axis=0, keepdims=True), least.sum(axis=0, keepdims=True)
    squares = np.diagonal(scatter, axis1=1, axis2=2)
    inverse = np.where(squares > least, 1 / np.sqrt(np.where(squares > least, squares, 1)), 0)
    R = np.clip(scatter * inverse[:, :, None] * inverse[:, None, :], -1, 1)
    R[:, np.arange(len(columns)), np.arange(len(columns))] = 1
    return R


def _weighted_scatter(chunk: Chunk, z: FloatArray, means: FloatArray, columns: IntArray) -> FloatArray:
    weights = (z[chunk.place] * chunk.weights[:, None]).T
    centered = chunk.values[:, columns].T - means[:, columns, None]
    return np.asarray(np.matmul(centered * weights[:, None, :], centered.swapaxes(1, 2)))


def _ward(R: FloatArray) -> FloatArray:
    """Ward's tree of standardized columns, whose squared distances are 2 (1 − r)."""
    if len(R) == 1:
        return np.empty((0, 4))
    return np.asarray(linkage(squareform(np.sqrt(2 * (1 - R)), checks=False), method="ward"))


def factor_m_step(statistics: FactorStatistics, old: FactorParameters, model: FactorModel) -> FactorParameters:
    """New parameters from a sweep: weights, means and T at their maximum, then B and D row by row.

    The log-likelihood rises. Given z, the weights, the means and T (for the old B and D) maximize it exactly. B and
    D then maximize the expected log-likelihood of rows and factors,

        −½ Σ_g n_g Σ_j (log d_gj + r_gjk / d_gj),    r_gjk = S_gjj − 2 c_k A_gkj + c_k + c_k² b_k,

    with k the group of j: a column goes to the factor that predicts it with the least expected squared error. Both
    cycles of AECM use one E-step, which keeps the ascent and saves a sweep.
    """
    scatter, old = profiled(statistics, old, model)
    c = old.gains
    moment = c + c**2 * scatter.spread
    r = scatter.variances[:, None, :] - 2 * c[:, :, None] * scatter.cross + moment[:, :, None]
    labels = _best_groups(r, scatter.rows, old, model)
    error = np.take_along_axis(r, labels[:, None, :], axis=1)[:, 0]
    noise = _noise_variances(error, scatter.rows, old.noise, model)
    if model.free_noise:
        noise = _sharpened(noise, error, labels, scatter, old, model)
    elif not model.isotropic and (labels == old.labels).all():
        noise = _sharpened_shared(noise, error, scatter, old, model)
    return replace(old, labels=labels, noise=noise)


def profiled(
    statistics: FactorStatistics, old: FactorParameters, model: FactorModel
) -> tuple[Scatter, FactorParameters]:
    """Weights, means and T at their maximum given z, B and D; and the moments about these means."""
    scatter = Scatter.of(statistics, old)
    if model.shared_factors and not model.shared_groups:
        scatter, old = _aligned(scatter, old)
    weights = statistics.weight / statistics.weight.sum()
    factors = factor_variances(scatter, old, model)
    return scatter, replace(old, weights=weights, means=scatter.means, factor_variances=factors)


def group_cost(a: FloatArray, b: FloatArray, t: FloatArray) -> FloatArray:
    """The terms of log|Σ| + tr Σ⁻¹S with the factor of a group, log(1 + t a) − t b / (1 + t a)."""
    return np.asarray(np.log1p(t * a) - t * b / (1 + t * a))


def _aligned(scatter: Scatter, old: FactorParameters) -> tuple[Scatter, FactorParameters]:
    """Number the groups of each component so that they suit the shared T best."""
    costs = group_cost(old.precisions[:, :, None], scatter.spread[:, :, None], old.factor_variances[:, None, :])
    number = np.stack([linear_sum_assignment(cost)[1] for cost in costs])
    if (number == np.arange(number.shape[1])).all():
        return scatter, old
    order = np.argsort(number, axis=1)
    cross = np.take_along_axis(scatter.cross, order[:, :, None], axis=1)
    spread = np.take_along_axis(scatter.spread, order, axis=1)
    labels = np.take_along_axis(number, old.labels, axis=1)
    return replace(scatter, cross=cross, spread=spread), replace(old, labels=labels)


def factor_variances(scatter: Scatter, old: FactorParameters, model: FactorModel) -> FloatArray:
    """T given B and D: t_k = max(0, (b_k − a_k) / a_k²), the minimum of `group_cost`.

    A shared t minimizes the sum over components, by Fisher's scoring: the mean of the separate t, weighted by
    n a² / (1 + t a)². Where a step does not lower the sum, EM's step takes its place.
    """
    if model.unit_factors:
        return old.factor_variances
    a, b, n = old.precisions, scatter.spread, scatter.rows[:, None]
    separate = (b - a) / np.maximum(a, _TINY) ** 2
    if not model.shared_factors:
        return np.where(n > 0, np.maximum(separate, 0), old.factor_variances)
    t = old.factor_variances[0]
    for _ in range(_SCORING_STEPS):
        weight = n * (a / (1 + t * a)) ** 2
        scored = np.maximum((weight * separate).sum(axis=0) / np.maximum(weight.sum(axis=0), _TINY), 0)
        lower = (n * (group_cost(a, b, scored) - group_cost(a, b, t))).sum(axis=0) <= 0
        c = t / (1 + t * a)
        t = np.where(lower, scored, (n * (c + c**2 * b)).sum(axis=0) / n.sum())
    return np.broadcast_to(t, old.factor_variances.shape)


def _best_groups(r: FloatArray, n: FloatArray, old: FactorParameters, model: FactorModel) -> IntArray:
    """B given expected squared errors r (G, q, p): the group of each column, none left empty, shape (G, p)."""
    if not model.shared_groups:
        triples = zip(r, old.labels, n, strict=True)
        return np.stack([_cheapest(cost, labels) if rows > 0 else labels for cost, labels, rows in triples])
    # Free noise follows the column to its new group, other noise stays for the moment.
    d = np.maximum(r, model.floor) if model.free_noise else old.noise[:, None, :]
    cost = np.einsum("g,gkj->kj", n, column_cost(d, r))
    return np.broadcast_to(_cheapest(cost, old.labels[0]), old.labels.shape)


def _cheapest(cost: FloatArray, old: IntArray) -> IntArray:
    """Group of least cost (q, p) of each column; a column moves only for a gain, and no group becomes empty."""
    columns = np.arange(len(old))
    best = cost.argmin(axis=0)
    gain = cost[old, columns] - cost[best, columns]
    best = np.where(gain > 1e-10 * (1 + np.abs(cost[old, columns])), best, old)
    return without_empty(best, old, len(cost))


def without_empty(labels: IntArray, old: IntArray, n_groups: int) -> IntArray:
    """Labels (p,) with the old columns of each empty group moved back to it."""
    while len(empty := np.flatnonzero(np.bincount(labels, minlength=n_groups) == 0)):
        labels = np.where(np.isin(old, empty), old, labels)
    return labels


def column_cost(d: FloatArray, error: FloatArray) -> FloatArray:
    """Cost of a column with noise d, log d + error / d, least at d = error."""
    return np.asarray(np.log(d) + error / d)


def _noise_variances(error: FloatArray, n: FloatArray, old: FloatArray, model: FactorModel) -> FloatArray:
    """D from the expected squared error of each column (G, p), pooled as the model says, at least the floor."""
    floor = model.floor
    if model.isotropic:
        error, floor = error.mean(axis=1, keepdims=True), floor.mean(keepdims=True)
    error = (n @ error / n.sum())[None] if model.shared_noise else np.where(n[:, None] > 0, error, old)
    return np.broadcast_to(np.maximum(error, floor), old.shape)


def _sharpened(
    noise: FloatArray, error: FloatArray, labels: IntArray, scatter: Scatter, old: FactorParameters, model: FactorModel
) -> FloatArray:
    """EM's noise; where it gains more, the old noise of a group but for one column, which gets its exact noise.

    EM creeps to a small d_j: on eight columns with T = I it took 2000 steps where this takes 12. Given z the groups are
    independent, so one column of each may move while the others stay.
    """
    c, V = home_predictions(scatter, old)
    best = np.maximum(V - c, model.floor)
    gain = certain_gain(best, c, V, scatter, old)
    em_gain = column_cost(old.noise, error) - column_cost(noise, error)
    noise = np.array(noise)
    # Where EM moves columns, its step binds the groups together.
    for g in np.flatnonzero((labels == old.labels).all(axis=1) & (scatter.rows > 0)):
        em_gains = np.bincount(labels[g], em_gain[g], minlength=model.n_groups)
        for k in range(model.n_groups):
            columns = np.flatnonzero(labels[g] == k)
            j = columns[gain[g, columns].argmax()]  # one column, even where several tie: together they may lose
            if gain[g, j] > em_gains[k]:
                noise[g, columns] = old.noise[g, columns]
                noise[g, j] = best[g, j]
    return noise


def _sharpened_shared(
    noise: FloatArray, error: FloatArray, scatter: Scatter, old: FactorParameters, model: FactorModel
) -> FloatArray:
    """EM's shared noise; if it gains more, the old noise but for one column, which gets its exact noise.

    The best d of a column is the mean of V − c over the components, weighted by n / (d + c)², by Fisher's scoring.
    """
    (c, V), n = home_predictions(scatter, old), scatter.rows[:, None]
    best = old.noise[0]
    for _ in range(_SCORING_STEPS):
        weight = n / (best + c) ** 2
        best = np.maximum((weight * (V - c)).sum(axis=0) / weight.sum(axis=0), model.floor)
    gain = (n * certain_gain(best, c, V, scatter, old)).sum(axis=0)
    em_gain = (n * (column_cost(old.noise, error) - column_cost(noise, error))).sum()
    j = int(gain.argmax())
    if gain[j] <= em_gain:
        return noise
    noise = np.array(old.noise)
    noise[:, j] = best[j]
    return noise


def certain_gain(
    noise: FloatArray, c: FloatArray, V: FloatArray, scatter: Scatter, old: FactorParameters
) -> FloatArray:
    """Lower bound on what each column gains by another noise, for c and V of `home_predictions`, shape (G, p).

    V takes the column itself out of the sums of its group. If its noise is tiny, this cancels digits, and V has an
    error of eps (1 + c/d)² times the largest squares: 0.02 in standardized columns at c = 1 and the default floor.
    """
    largest = (scatter.variances + scatter.means**2).max(axis=1, keepdims=True)
    error = _DIGITS_LOST * np.finfo(float).eps * (1 + c / old.noise) ** 2 * largest
    gain = column_cost(old.noise + c, V) - column_cost(noise + c, V)
    return np.asarray(gain - np.abs(1 / (old.noise + c) - 1 / (noise + c)) * error)


def home_predictions(scatter: Scatter, old: FactorParameters) -> tuple[FloatArray, FloatArray]:
    """The c and V of each column for the group that it is in, without it, shapes (G, p)."""
    S, e, tables = scatter.variances, 1 / old.noise, (old.precisions, scatter.spread, old.factor_variances)
    a, b, t = (np.take_along_axis(table, old.labels, axis=1) for table in tables)
    A = np.take_along_axis(scatter.cross, old.labels[:, None, :], axis=1)[:, 0]
    return predictions(S, np.maximum(a - e, 0), np.maximum(b - 2 * e * A + e**2 * S, 0), A - e * S, t)


def predictions(
    S: FloatArray, a: FloatArray, b: FloatArray, A: FloatArray, t: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Variance of a factor given its group, c = t / (1 + t a), and mean square V = S_jj − 2 c A_kj + c² b."""
    c = t / (1 + t * a)
    return c, np.maximum(S - 2 * c * A + c**2 * b, _TINY)
