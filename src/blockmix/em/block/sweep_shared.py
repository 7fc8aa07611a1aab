"""Pooled: the sweep of EM where all components share one covariance (paper, section 3.4, topic modelling).

Rows and parameters come in; statistics like those of `em.sweep` go out. The scatter within components is the total
scatter, which never changes, less that of their means, Σ_n x xᵀ − Σ_g n_g μ_g μ_gᵀ, and log-odds are linear in x: a
sweep costs O(N p G) instead of O(N G Σ c²): at 20 491 × 400, G = 5, largest block 325, 0.11 s instead of 3 s.
"""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np

from blockmix.em.block import sweep as em
from blockmix.em.block.e_step import posterior
from blockmix.em.block.parameters import Parameters
from blockmix.em.block.sweep import Statistics
from blockmix.rows import Chunk, Rows
from blockmix.structure.types import FloatArray

# Total scatters of rows that are still in use: EM sweeps the same rows a hundred times.
_totals: WeakKeyDictionary[Rows, FloatArray] = WeakKeyDictionary()


def sweep(
    rows: Rows,
    parameters: Parameters,
    full: bool = False,
    z: FloatArray | None = None,
    keep: FloatArray | None = None,
) -> Statistics:
    """Statistics of the rows as from `em.sweep`, by the shorter way where there is one; that does not keep anything.

    With a shared covariance only the sum of the components' scatters about their new means is of use, and each is given
    its G-th part. With more columns than rows the total scatter costs more than it saves, and its digits are needed.
    """
    if not parameters.layout.shared or rows.n_rows <= rows.n_columns:
        return em.sweep(rows, parameters, full, z, keep)
    slopes = _slopes(parameters)

    def of(chunk: Chunk) -> Statistics:
        return _chunk_statistics(chunk, parameters, slopes, None if z is None else z[chunk.place].T)

    found, total = rows.map_sum(of), _total_scatter(rows)
    constant = rows.total_weight * rows.n_columns * float(np.log(2 * np.pi)) + _precision_times(parameters, total)
    scatter = _full(found, parameters, total) if full else _blocks(found, parameters, total)
    return replace(found, log_likelihood=found.log_likelihood - 0.5 * constant, scatter=scatter)


def _total_scatter(rows: Rows) -> FloatArray:
    """Σ w x xᵀ of the standardized rows, shape (p, p)."""
    if rows not in _totals:
        _totals[rows] = rows.map_sum(lambda chunk: np.asarray((chunk.values * chunk.weights) @ chunk.values.T))
    return _totals[rows]


def _slopes(parameters: Parameters) -> FloatArray:
    """Σ⁻¹ μ_g, shape (G, p)."""
    slopes = np.empty_like(parameters.means)
    for stack, W in zip(parameters.layout.stacks, parameters.whiteners, strict=True):
        at = (stack.owner[:, None], stack.columns)
        white = np.matmul(W, parameters.means[at][:, :, None])
        slopes[at] = np.matmul(W.swapaxes(1, 2), white)[:, :, 0]
    return slopes


def _chunk_statistics(chunk: Chunk, parameters: Parameters, slopes: FloatArray, given: FloatArray | None) -> Statistics:
    """Weight and Σzx of a chunk, and its log-likelihood without the part that all components have in common."""
    values, log_likelihood, z = chunk.values, np.nan, given
    if z is None:
        lengths = np.einsum("gj,gj->g", slopes, parameters.means)
        with np.errstate(divide="ignore"):
            level = np.log(parameters.weights) - 0.5 * (parameters.logdets + lengths)
        z, density = posterior(level.astype(values.dtype)[:, None] + slopes @ values)
        log_likelihood = float(chunk.weights @ density)
    z = z * chunk.weights
    return Statistics(log_likelihood, z.sum(axis=1), z @ values.T, ())


def _precision_times(parameters: Parameters, total: FloatArray) -> float:
    """Tr Σ⁻¹ T for the total scatter T."""
    trace = 0.0
    for stack, W in zip(parameters.layout.stacks, parameters.whiteners, strict=True):
        one = stack.owner == 0
        columns, own = stack.columns[one], W[one]
        trace += float(np.sum(np.matmul(own, total[columns[:, :, None], columns[:, None, :]]) * own, dtype=float))
    return trace


def _blocks(found: Statistics, old: Parameters, total: FloatArray) -> tuple[FloatArray, ...]:
    """Scatter about the old means, block by block, stacked like the layout."""
    G, shift = len(found.weight), found.means - old.means
    between = np.sqrt(found.weight)[:, None] * found.means
    blocks = []
    for stack in old.layout.stacks:
        columns, d = stack.columns, shift[stack.owner[:, None], stack.columns]
        M = between[:, columns].transpose(1, 2, 0)  # (b, c, G)
        within = total[columns[:, :, None], columns[:, None, :]] - np.matmul(M, M.swapaxes(1, 2))
        blocks.append(within / G + found.weight[stack.owner][:, None, None] * d[:, :, None] * d[:, None, :])
    return tuple(blocks)


def _full(found: Statistics, old: Parameters, total: FloatArray) -> tuple[FloatArray, ...]:
    """Scatter about the old means, shape (G, p, p)."""
    G, shift = len(found.weight), found.means - old.means
    within = (total - (found.weight * found.means.T) @ found.means) / G
    return (np.stack([within + n * np.outer(d, d) for n, d in zip(found.weight, shift, strict=True)]),)
