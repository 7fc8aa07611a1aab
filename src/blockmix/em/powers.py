"""Powers of the columns from the clusters: which exponents make the rows of a component look normal (docs/adr/0018).

Given responsibilities, the log-likelihood of independent columns is −½ Σ_g n_g log v_gj(λ_j) + Σ log of the slopes,
where v_gj is the variance of powered column j within component g. Its best exponents are proposed here; the family
keeps them where they raise the objective of the rows, correlations and all. λ from whole columns would take clusters
for skewness.
"""

from __future__ import annotations

import math
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np

from blockmix.em.parameters import Parameters, posterior
from blockmix.partition import BoolArray, FloatArray, IntArray
from blockmix.rows import Chunk, Rows
from blockmix.rows.powers import Powers, ends, log_slopes, power

_SAMPLE_ROWS, _SAMPLE_NUMBERS = 20_000, 2**24  # that the ends and medians of the columns come from
_COARSE, _FINE = 1 / 4, 1 / 32  # steps of the exponents that are tried, from 0 to 2 and then about the best
_AROUND = 5  # fine steps to either side; beyond them the coarse neighbor is nearer
_TOGETHER = 2**18  # powered values at a time
_LEAST = 1e-9  # of the variance of a column, within a component
# Ends of the columns of rows still in use.
_ends: WeakKeyDictionary[Rows, tuple[FloatArray, FloatArray, BoolArray]] = WeakKeyDictionary()

Candidates = tuple[FloatArray, FloatArray, FloatArray]  # exponents, origins and steps, (C, columns) each


def exponent_price(total_weight: float) -> float:
    """Log-likelihood that the exponent of a column must earn: the price of a parameter in BIC."""
    return 0.5 * math.log(max(total_weight, 2.0))


def best_powers(rows: Rows, parameters: Parameters, shared: bool) -> Powers | None:
    """The best powers of the columns, given the responsibilities of the parameters; None if they are present already.

    An exponent that gains less log-likelihood than its price and log p is 1: of many columns without skewness one in
    thirty would earn the price alone.
    """
    p = rows.n_columns
    columns, gains, candidates = _tried(rows, parameters, shared, fine=True)
    chosen = gains.argmax(axis=0), np.arange(len(columns))
    paid = gains[chosen] - gains[-1] > exponent_price(rows.total_weight) + math.log(p)
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
    beyond = gains.max(axis=0, initial=-np.inf) - gains[-1] - exponent_price(rows.total_weight)
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
    variance = np.maximum(scatter / np.maximum(weight, tiny), np.maximum(_LEAST * spread, tiny))
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
