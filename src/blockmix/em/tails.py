"""Tails and powers: components whose rows are not normal as they are (docs/adr/0013, docs/adr/0018).

Multivariate t densities, of which the row weights u in the sums of a sweep and the M-step of the degrees of freedom are
here, and powers of the columns. Given responsibilities, the log-likelihood of independent columns with exponents λ is
−½ Σ_g n_g log v_gj(λ_j) + Σ log of the slopes, where v_gj is the variance of powered column j within component g. Its
best exponents are proposed here; the family keeps them where they raise the objective of the rows, correlations and
all. λ from whole columns would take clusters for skewness.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma

from blockmix.blocks.blocks import Blocks
from blockmix.em.parameters import Density, Parameters, Prior, distances, posterior, student_constants
from blockmix.partition import BoolArray, FloatArray, IntArray, bic_price
from blockmix.rows import Chunk, Rows
from blockmix.rows.powers import Powers, ends, log_slopes, power

# From a Cauchy component to one that no sample distinguishes from a normal one.
LEAST, LARGEST = 1.0, 200.0
_GRID = np.geomspace(LEAST, LARGEST, 16)  # candidates of a leap
_SOME, _SHRUNK = (2.0, 4.0, 8.0, 16.0, 32.0), np.geomspace(0.05, 1, 10)  # ν and a of a first look
FIRST = 4.0  # heavy enough to give outliers in the clusters of a start little weight from the first sweep on

_SAMPLE_ROWS, _SAMPLE_NUMBERS = 20_000, 2**24  # that the ends and medians of the columns come from
_COARSE, _FINE = 1 / 4, 1 / 32  # steps of the exponents that are tried, from 0 to 2 and then about the best
_AROUND = 5  # fine steps to either side; beyond them the coarse neighbor is nearer
_TOGETHER = 2**18  # powered values at a time
_LEAST_VARIANCE = 1e-9  # of the variance of a column, within a component
# Ends of the columns of rows still in use.
_ends: WeakKeyDictionary[Rows, tuple[FloatArray, FloatArray, BoolArray]] = WeakKeyDictionary()

Candidates = tuple[FloatArray, FloatArray, FloatArray]  # exponents, origins and steps, (C, columns) each


def reweighted(chunk: Chunk, z: FloatArray, u: FloatArray, freedom: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Σz and Σz(E log u − u) of a chunk, shapes (G,), with z multiplied by u in place."""
    from blockmix.em.kernels import reweight

    weight, tail = np.zeros(z.shape[1]), np.zeros(z.shape[1])
    # E log u − log E u, given a row, for 0 … p columns.
    half = (freedom[:, None] + np.arange(chunk.X.shape[1] + 1)) / 2
    reweight(chunk.weights, z, u, digamma(half) - np.log(half), chunk.observed, weight, tail)
    return weight, tail


def new_freedom(tail: FloatArray, weight: FloatArray, old: FloatArray) -> FloatArray:
    """The ν that solve log(ν/2) − ψ(ν/2) + 1 + T/n = 0, shape (G,), with T = Σz(E log u − E u) and n = Σz.

    The left side falls with ν, so beyond the ends of the range the ν at the end is best. A component without rows
    keeps its own.
    """
    new = old.copy()
    for g in np.flatnonzero(weight > 0):
        slope = 1 + tail[g] / weight[g]
        if _slope(LEAST, slope) <= 0:
            new[g] = LEAST
        elif _slope(LARGEST, slope) >= 0:
            new[g] = LARGEST
        else:
            new[g] = brentq(_slope, LEAST, LARGEST, args=(slope,), xtol=1e-10)
    return new


def _slope(freedom: float, rest: float) -> float:
    return float(np.log(freedom / 2) - digamma(freedom / 2) + rest)


def expanded(statistics: Any, old: Parameters, prior: Prior, first: int = 0) -> tuple[Any, Blocks]:
    """Statistics with weights u/α in place of u, for the α that is best with the old covariances Σ (PX-EM).

    A t distribution does not say in which units u is measured. With b = Σ(νn − κp) and a = (κ + ρ) Σ tr Σ⁻¹ over the
    components that share a covariance, α solves a α² + b α = Σνm. The ascent stays exact and takes far fewer sweeps
    where tails are heavy; without a prior the covariance is Σzu(x − μ)(x − μ)ᵀ/Σzu. The old blocks are returned as
    Σ/α, which new covariances must not be worse than. Full scatters begin at covariance `first`.
    """
    layout, nu = old.blocks.layout, old.degrees_of_freedom
    if statistics.tail is None or nu is None:
        return statistics, old.blocks
    a = layout.pooled((prior.shrinkage + prior.ridge) * old.summaries.precisions.sum(axis=1))
    b = layout.pooled(nu * statistics.weight - prior.shrinkage * old.means.shape[1])
    c = layout.pooled(nu * statistics.mass)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 2 * c / (b + np.sqrt(b**2 + 4 * a * c))
    scale = np.where(np.isfinite(scale) & (scale > 0), scale, 1.0)  # of a component without rows
    if statistics.scatter.ndim == 3:
        owners = scale[first : first + len(statistics.scatter), None, None]
    else:  # of the blocks, or of all columns
        all_columns = len(statistics.scatter) > layout.size
        owners = np.repeat(scale, len(statistics.scatter) // len(scale)) if all_columns else scale[layout.owner]
    each = np.repeat(scale, layout.n_sharing)
    mass = statistics.mass / each
    new = replace(
        statistics,
        mass=mass,
        excess=statistics.excess / each[:, None],
        blur=statistics.blur / each[:, None],
        scatter=statistics.scatter / owners,
        tail=statistics.tail + statistics.mass - statistics.weight * np.log(each) - mass,
        cross=None if statistics.cross is None else statistics.cross / np.sqrt(each)[:, None, None],  # β grows by √α
    )
    return new, old.blocks.scaled(np.tile(scale[:, None] ** -0.5, old.means.shape[1]))


def tail_gains(distances: FloatArray, observed: IntArray, labels: IntArray, weights: FloatArray | None) -> FloatArray:
    """Σ log t(x; ν, aΣ) − Σ log n(x; Σ) of the rows of each normal component, the largest of a grid of ν and a.

    Squared distances of the rows from their components, numbers of values and labels, all of shape (N,).
    """
    c = observed.astype(np.intp)
    counts, gains = np.ones(len(c)) if weights is None else weights, np.full(int(labels.max()) + 1, -np.inf)
    for nu, a in product(_SOME, _SHRUNK):
        logs = (nu + c) * np.log1p(distances / (a * nu)) + c * np.log(a) - distances
        logs = student_constants(np.array(nu), int(c.max()))[c] - 0.5 * logs
        gains = np.maximum(gains, np.bincount(labels, counts * logs, len(gains)))
    return gains


def leap(rows: Rows, parameters: Parameters, enough: float) -> Parameters | None:
    """Parameters with other degrees of freedom, if that raises the log-likelihood by more than `enough`.

    EM moves ν slowly where tails are light: on normal data it would take hundreds of sweeps to the largest value. With
    the weights u integrated out only the responsibilities are missing, so moving ν alone to the best of a grid raises
    the likelihood by at least the gain computed here.
    """
    present = parameters.degrees_of_freedom
    assert present is not None
    candidates = np.column_stack([present, np.tile(_GRID, (len(present), 1))])
    rows, density = rows.powered(parameters.powers), parameters.density(rows.has_missing)
    sums = rows.map_sum(partial(_chunk_profile, density=density, candidates=candidates))
    best = sums.argmax(axis=1, keepdims=True)
    gain = np.take_along_axis(sums, best, axis=1).sum() - sums[:, 0].sum()
    if not gain > enough:
        return None
    return replace(parameters, degrees_of_freedom=np.take_along_axis(candidates, best, axis=1)[:, 0])


def _chunk_profile(chunk: Chunk, density: Density, candidates: FloatArray) -> FloatArray:
    """Σ z log t(x; ν) of a chunk for candidates (G, M), without what does not depend on ν; shape (G, M)."""
    from blockmix.em.kernels import profile

    sums, p = np.zeros(candidates.shape), chunk.X.shape[1]
    halves, _ = distances(chunk, density._replace(level=np.zeros(len(density.level))))
    z, _, _ = posterior(chunk, density)
    profile(chunk.weights, z, halves, candidates, student_constants(candidates, p), chunk.observed, sums)
    return sums


def best_powers(rows: Rows, parameters: Parameters, shared: bool) -> Powers | None:
    """The best powers of the columns, given the responsibilities of the parameters; None if they are present already.

    An exponent that gains less log-likelihood than its price and log p is 1: of many columns without skewness one in
    thirty would earn the price alone.
    """
    p = rows.n_columns
    columns, gains, candidates = _tried(rows, parameters, shared, fine=True)
    chosen = gains.argmax(axis=0), np.arange(len(columns))
    paid = gains[chosen] - gains[-1] > bic_price(max(rows.total_weight, 2.0)) + math.log(p)
    exponents, origins, steps = np.ones(p), np.zeros(p), np.ones(p)
    for values, new in zip((exponents, origins, steps), candidates, strict=True):
        values[columns[paid]] = new[chosen][paid]
    old = np.ones(p) if parameters.powers is None else parameters.powers.exponents
    if np.array_equal(old != 1, exponents != 1) and np.abs(old - exponents).max() <= _FINE:
        return None
    measured = rows.replace(powers=Powers(exponents, origins, steps, np.zeros(p), np.ones(p))).measured()
    return Powers(exponents, origins, steps, measured.location, measured.scale)


def power_gain(rows: Rows, parameters: Parameters, shared: bool) -> float:
    """Log-likelihood that powers of the columns gain beyond their price, given the clusters, as if independent.

    A signal that is cheap: exponents are tried in steps of a quarter.
    """
    _, gains, _ = _tried(rows, parameters, shared, fine=False)
    beyond = gains.max(axis=0, initial=-np.inf) - gains[-1] - bic_price(max(rows.total_weight, 2.0))
    return float(beyond[beyond > math.log(rows.n_columns)].sum())


def _tried(rows: Rows, parameters: Parameters, shared: bool, fine: bool) -> tuple[IntArray, FloatArray, Candidates]:
    """Columns that may have powers, log-likelihoods (C, columns) of the last candidates, of which the last is 1."""
    if rows not in _ends:
        size = max(1, min(_SAMPLE_ROWS, _SAMPLE_NUMBERS // rows.n_columns))
        sample = rows.sample(size, np.random.RandomState(0))
        _ends[rows] = ends(sample.X, sample.weights)
    origin, step, able = _ends[rows]
    columns = np.flatnonzero(able)
    best = np.zeros(len(columns))
    around = np.arange(-_AROUND, _AROUND + 1)[:, None] * _FINE
    for offsets in (np.arange(0, 2 + _COARSE, _COARSE)[:, None], *([around] if fine else [])):
        exponents = np.append(np.clip(best + offsets, 0, 2), np.ones((1, len(columns))), axis=0)
        side = (exponents > 1).astype(np.intp)
        candidates = exponents, origin[side, columns], step[side, columns]
        sums = partial(_candidate_sums, parameters=parameters, columns=columns, tried=candidates)
        gains = _gains(rows.map_sum(sums), shared)
        best = exponents[gains.argmax(axis=0), np.arange(len(columns))]
    return columns, gains, candidates


def _gains(sums: FloatArray, shared: bool) -> FloatArray:
    """Log-likelihood of each candidate and column (C, columns) from the sums of all chunks, but for a constant."""
    weight, mass, first, second = sums[:, :4].swapaxes(0, 1)  # (C, G, columns) each
    tiny = np.finfo(float).tiny
    scatter = np.maximum(second - first**2 / np.maximum(mass, tiny), 0)
    spread = second.sum(axis=1, keepdims=True) / np.maximum(weight.sum(axis=1, keepdims=True), tiny)
    if shared:
        scatter, weight = scatter.sum(axis=1, keepdims=True), weight.sum(axis=1, keepdims=True)
    variance = np.maximum(scatter / np.maximum(weight, tiny), np.maximum(_LEAST_VARIANCE * spread, tiny))
    return np.asarray(sums[:, 4, 0] - 0.5 * (weight * np.log(variance)).sum(axis=1))


def _candidate_sums(chunk: Chunk, parameters: Parameters, columns: IntArray, tried: Candidates) -> FloatArray:
    """Σz, Σzu, Σzuy, Σzu(y² + Δ) and Σ log of the slopes of a chunk for all candidates, shape (C, 5, G, columns).

    Δ is what rounding leaves of the variances. Values y are powered ones less that of the mean of the column.
    """
    z, _, u = posterior(chunk.powered(parameters.powers), parameters.density(missing=True))
    z = z * chunk.weights[:, None]
    share = z if u is None else z * u
    X, center = chunk.X[:, columns].astype(float), chunk.location[columns]
    missing = np.isnan(X) if chunk.has_missing else None
    blur = chunk.rounding_variances[:, columns] * chunk.scale[columns] ** 2
    there = np.ones(X.shape)
    if missing is not None:
        X, there, blur = np.where(missing, center, X), (~missing).astype(float), np.where(missing, 0, blur)
    sums = np.empty((len(tried[0]), 5, z.shape[1], len(columns)))
    sums[:, 0], sums[:, 1] = z.T @ there, share.T @ there
    size = max(1, _TOGETHER // max(X.size, 1))
    for first in range(0, len(sums), size):
        some = slice(first, first + size)
        exponents, origins, steps = (values[some, None] for values in tried)
        t = (X - origins) / steps
        logs = log_slopes(t, exponents) * there
        y = steps * (power(t, exponents) - power((center - origins) / steps, exponents))
        sums[some, 2] = share.T @ (y * there)
        sums[some, 3] = share.T @ (y**2 * there + np.exp(2 * logs) * blur)
        sums[some, 4] = (chunk.weights @ logs)[:, None]
    return sums
