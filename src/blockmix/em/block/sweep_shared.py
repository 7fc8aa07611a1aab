"""The sweep of components that share one covariance, by a shortcut (paper, section 3.4, topic modelling).

The scatter within components is the total scatter, which never changes, less that of their means, and log-odds are
linear in x: O(N p G) for a sweep instead of O(N G Σ c²). At 20 491 × 400, G = 5, largest block 325, the plain sweep
takes 1.2 s of processor time, this one 0.06 s.
"""

from __future__ import annotations

from functools import partial
from weakref import WeakKeyDictionary

import numpy as np

from blockmix.em.block.parameters import Parameters
from blockmix.em.block.sweep import Statistics, blurred
from blockmix.rows import Chunk, Rows
from blockmix.structure.types import FloatArray

# Largest diagonal entry of Σ⁻¹ in standardized columns. The shortcut loses this factor times machine precision, the
# plain sweep does not: with copies of columns the trace fell by 1e-7 per row, at 1e4 by 1e-11.
_MOST_PRECISE = 1e4
# Total scatters of rows still in use: EM sweeps the same rows a hundred times.
_totals: WeakKeyDictionary[Rows, FloatArray] = WeakKeyDictionary()


def applies(rows: Rows, parameters: Parameters) -> bool:
    """Whether the shortcut can be taken: not with heavy tails, whose log-odds are not linear, and not with gaps.

    With more columns than rows the total scatter costs more than it saves, and copies of columns cost it its digits.
    """
    if not parameters.layout.shared or parameters.degrees_of_freedom is not None or rows.has_gaps:
        return False
    return rows.n_rows > rows.n_columns and float(parameters.precisions[0].max()) < _MOST_PRECISE


def sweep_shared(rows: Rows, parameters: Parameters) -> Statistics:
    """Statistics as from `sweep.sweep`."""
    from blockmix.em.block.block_kernels import recenter
    from blockmix.structure.kernels import gather

    layout, means = parameters.layout, parameters.means
    precision = parameters.covariances[0].precision()
    slopes = means @ precision
    with np.errstate(divide="ignore"):
        level = np.log(parameters.weights) - 0.5 * np.einsum("gj,gj->g", slopes, means)
    found = rows.map_sum(partial(_chunk_statistics, slopes=slopes, level=level))
    total = _total_scatter(rows)
    constant = rows.n_columns * np.log(2 * np.pi) + parameters.logdets[0]
    log_likelihood = found.log_likelihood - 0.5 * (rows.total_weight * constant + float((precision * total).sum()))
    new = found.means(np.zeros_like(means))
    scatter = np.zeros(layout.size)
    gather(np.tril(total - (found.weight * new.T) @ new), layout.order[0], layout.own_blocks, scatter)
    recenter(scatter, -found.weight, new - means, layout.order, layout.blocks, layout.first)
    excess = found.excess - found.weight[:, None] * means
    return Statistics(log_likelihood, found.weight, found.weight, excess, found.blur, scatter)


def _chunk_statistics(chunk: Chunk, slopes: FloatArray, level: FloatArray) -> Statistics:
    """Weight and Σzx of a chunk, and its log-likelihood without the part that all components have in common."""
    from blockmix.em.block.kernels import responsibilities

    values = chunk.values
    z = level + values @ slopes.T
    log_likelihood = responsibilities(z, chunk.weights)
    z *= chunk.weights[:, None]
    sums = z.T @ values
    weight = z.sum(axis=0)
    return Statistics(log_likelihood, weight, weight, sums, np.zeros_like(sums), np.zeros(0))


def _total_scatter(rows: Rows) -> FloatArray:
    """Σ w (x xᵀ + Δ) of the standardized rows, shape (p, p); Δ is what rounding leaves of their variances."""
    if rows not in _totals:
        _totals[rows] = rows.map_sum(_chunk_scatter)
    return _totals[rows]


def _chunk_scatter(chunk: Chunk) -> FloatArray:
    values = chunk.values
    scatter = (values.T * chunk.weights) @ values
    scatter.flat[:: len(scatter) + 1] += blurred(chunk, chunk.weights[:, None])[0]
    return np.asarray(scatter)
