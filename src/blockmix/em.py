"""EM of the block-diagonal mixture: one sweep over the rows, and the maximizer of its statistics (paper, section 3).

Rows and parameters come in; statistics that add up go out of the sweep, and new parameters out of `maximize`. While the
column groups are fixed a sweep takes only the scatter within blocks, Σ c² per row and component; a full sweep takes all
of it, so that new groups can be proposed.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from blockmix._types import FloatArray, IntArray
from blockmix.blocks import cholesky
from blockmix.parameters import Layout, Parameters, Prior, Stack
from blockmix.rows import Chunk, Rows

# Rounding apart, no covariance is singular with a ridge or shrinkage.
SINGULAR = "component {} has no variance in some column: give a ridge above 0"
# A row far from everything, z · d², adds less than a rounding error below this up to d = 10⁷ deviations. Where clusters
# are apart most pairs of a row and a component are below it, and moments cost 1/G.
_NEGLIGIBLE = 1e-30
_FEW = 2**16  # numbers up to which one call for all components is faster than to leave out rows in each
_NOTHING = 1e-10  # share of the rows below which a component has no moments to speak of


class _Scratch(threading.local):
    """Arrays that a thread uses again for every chunk: fresh ones of a megabyte cost more in page faults than work."""

    def __init__(self) -> None:
        self._held: dict[int, FloatArray] = {}

    def array(self, place: int, shape: tuple[int, ...], dtype: np.dtype[np.floating[Any]]) -> FloatArray:
        """An array of that shape, with anything in it, that stays valid until the same place is asked for again."""
        size = math.prod(shape)
        held = self._held.get(place)
        if held is None or held.dtype != dtype or held.size < size:
            held = self._held[place] = np.empty(size, dtype)
        return held[:size].reshape(shape)


_scratch = _Scratch()


@dataclass(frozen=True, eq=False)
class Statistics:
    """What a sweep learns: log-likelihood, weight (G,), Σzx (G, p), scatter about the parameters' means.

    `scatter` holds the blocks, stacked like the layout, or the full matrices (G, p, p) after a full sweep.
    """

    log_likelihood: float
    weight: FloatArray
    first: FloatArray
    scatter: tuple[FloatArray, ...]

    @property
    def dead(self) -> FloatArray:
        """Whether a component has next to no weight left, shape (G,)."""
        return np.asarray(self.weight < _NOTHING * self.weight.sum())

    @property
    def means(self) -> FloatArray:
        """Σzx / Σz, shape (G, p); the overall mean, which is zero, for a dead component."""
        return self.first / np.where(self.dead, np.inf, self.weight)[:, None].astype(self.first.dtype)

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.log_likelihood + other.log_likelihood,
            self.weight + other.weight,
            self.first + other.first,
            tuple(a + b for a, b in zip(self.scatter, other.scatter, strict=True)),
        )


def log_joint(values: FloatArray, parameters: Parameters) -> FloatArray:
    """Log π_g f_g(x) without the constant −(p/2) log 2π, shape (G, m), of a chunk (p, m)."""
    G, m = len(parameters.weights), values.shape[1]
    distances = np.zeros((G, m), dtype=values.dtype)
    for stack, W in zip(parameters.layout.stacks, parameters.whiteners, strict=True):
        shape = (*stack.columns.shape, m)
        block = _scratch.array(0, shape, values.dtype)
        if stack.mask is not None:
            np.subtract(values, parameters.means[:, :, None], out=block)
        else:
            np.take(values, stack.columns, axis=0, out=block, mode="clip")
            block -= parameters.means[stack.owner[:, None], stack.columns][:, :, None]
        white = _scratch.array(1, shape, np.result_type(W, block))
        np.multiply(W, block, out=white) if shape[1] == 1 else np.matmul(W, block, out=white)
        np.multiply(white, white, out=white)  # einsum would hold the interpreter: a fifth of a sweep on two threads
        if len(stack.spans) == 1:
            distances[stack.owner[0]] += white.reshape(-1, m).sum(axis=0)
        else:
            distances += stack.by_component(white.sum(axis=1), G)
    with np.errstate(divide="ignore"):
        level = np.log(parameters.weights) - 0.5 * parameters.logdets
    return np.asarray(level.astype(distances.dtype)[:, None] - 0.5 * distances)


def posterior(joint: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Responsibilities (G, m) and log-density (m,) from log π_g f_g, in log space (paper, eq. z)."""
    top = joint.max(axis=0)
    z = np.exp(joint - top)
    total = z.sum(axis=0)
    z /= total
    return z, top + np.log(total)


def sweep(rows: Rows, parameters: Parameters, full: bool = False, z: FloatArray | None = None) -> Statistics:
    """Read every row once: responsibilities, and at once the moments and the log-likelihood they give.

    Given responsibilities z, shape (N, G), are taken as they are; the log-likelihood is then meaningless.
    """

    def of(chunk: Chunk) -> Statistics:
        return _chunk_statistics(chunk, parameters, full, None if z is None else z[chunk.place].T)

    return rows.map_sum(of)


def component_means(rows: Rows, z: FloatArray) -> FloatArray:
    """Means of the components, shape (G, p), for given responsibilities (N, G)."""

    def of(chunk: Chunk) -> Statistics:
        share = z[chunk.place].T * chunk.weights
        return Statistics(np.nan, share.sum(axis=1), share @ chunk.values.T, ())

    return rows.map_sum(of).means


def _chunk_statistics(chunk: Chunk, parameters: Parameters, full: bool, given: FloatArray | None) -> Statistics:
    values, weights = chunk.values, chunk.weights
    log_likelihood = np.nan
    if given is None:
        z, density = posterior(log_joint(values, parameters))
        p = len(values)
        log_likelihood = float(weights @ density) - 0.5 * p * np.log(2 * np.pi) * float(weights.sum())
    else:
        z = given
    z = z * weights
    weight, means = z.sum(axis=1), parameters.means.astype(values.dtype, copy=False)
    if full or parameters.layout.whole:
        scatter, excess = _whole_moments(values, means, z)
    else:
        scatter, excess = _block_moments(values, means, z, parameters.layout.stacks)
    return Statistics(log_likelihood, weight, excess + weight[:, None] * means, scatter)


def _whole_moments(values: FloatArray, means: FloatArray, z: FloatArray) -> tuple[tuple[FloatArray, ...], FloatArray]:
    """Σz(x − μ)(x − μ)ᵀ, one (G, p, p) array, and Σz(x − μ), shape (G, p)."""
    G, p = means.shape
    if G * values.size <= _FEW:
        root = np.sqrt(z)
        C: FloatArray = values - means[:, :, None]
        C *= root[:, None, :]
        return (np.matmul(C, C.swapaxes(1, 2)),), np.matmul(C, root[:, :, None])[:, :, 0]
    scatter, excess = np.empty((G, p, p), dtype=values.dtype), np.empty((G, p), dtype=values.dtype)
    for g in range(G):
        C, root = _weighted(values, means[g], z[g])
        np.matmul(C, C.T, out=scatter[g])
        np.matmul(C, root, out=excess[g])
    return (scatter,), excess


def _block_moments(
    values: FloatArray, means: FloatArray, z: FloatArray, stacks: tuple[Stack, ...]
) -> tuple[tuple[FloatArray, ...], FloatArray]:
    """Σz(x − μ)(x − μ)ᵀ within blocks, stacked like the layout, and Σz(x − μ), shape (G, p)."""
    sides = [stack.columns.shape for stack in stacks]
    scatter = tuple(np.empty((b, c, c), dtype=values.dtype) for b, c in sides)
    excess = np.empty_like(means)
    for g in range(len(means)):
        C, root = _weighted(values, means[g], z[g])
        np.matmul(C, root, out=excess[g])
        for stack, blocks in zip(stacks, scatter, strict=True):
            if g in stack.spans:
                own = stack.spans[g]
                _block_products(C, stack.columns[own], blocks[own])
    return scatter, excess


def _weighted(values: FloatArray, mean: FloatArray, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """√z (x − μ) and √z of the rows that count, shapes (p, a) and (a,); of all rows where most of them do."""
    active = np.flatnonzero(z > _NEGLIGIBLE)
    if 2 * len(active) > len(z):
        C = np.subtract(values, mean[:, None], out=_scratch.array(2, values.shape, values.dtype))
        root = np.sqrt(z)
    else:
        C = _scratch.array(2, (len(values), len(active)), values.dtype)
        np.take(values, active, axis=1, out=C, mode="clip")
        C -= mean[:, None]
        root = np.sqrt(z[active])
    C *= root
    return C, root


def _block_products(C: FloatArray, columns: IntArray, out: FloatArray) -> None:
    """C Cᵀ on each row of column indices, (b, c) to (b, c, c)."""
    block = _scratch.array(0, (*columns.shape, C.shape[1]), C.dtype)
    np.take(C, columns, axis=0, out=block, mode="clip")
    if columns.shape[1] == 1:
        np.einsum("bcm,bcm->bc", block, block, out=out[:, :, 0])
    else:
        np.matmul(block, block.swapaxes(1, 2), out=out)


def maximize(statistics: Statistics, old: Parameters, prior: Prior) -> Parameters:
    """New parameters from the statistics of a block sweep (paper, section 3, M-step), blocks as they are."""
    shift = statistics.means - old.means
    blocks: list[FloatArray] = []
    for stack, scatter in zip(old.layout.stacks, statistics.scatter, strict=True):
        d = shift[stack.owner[:, None], stack.columns]
        blocks.append(scatter - statistics.weight[stack.owner][:, None, None] * d[:, :, None] * d[:, None, :])
    return _factored(statistics, old.layout, blocks, prior)


def regrouped(statistics: Statistics, scatter: FloatArray, layout: Layout, prior: Prior) -> Parameters:
    """New parameters from the statistics of a full sweep and its centered scatter (G, p, p), blocks of a new layout."""
    blocks = [
        scatter[stack.owner[:, None, None], stack.columns[:, :, None], stack.columns[:, None, :]]
        for stack in layout.stacks
    ]
    return _factored(statistics, layout, blocks, prior)


def centered_scatter(statistics: Statistics, old: Parameters) -> FloatArray:
    """Full scatter about the new means, shape (G, p, p), from the statistics of a full sweep about the old ones."""
    scatter = statistics.scatter[0]
    for g, d in enumerate(statistics.means - old.means):
        scatter[g] -= statistics.weight[g] * np.outer(d, d)
    return scatter


def _factored(statistics: Statistics, layout: Layout, blocks: list[FloatArray], prior: Prior) -> Parameters:
    """Covariances (scatter + (κ + ρ) I) / (n + κ), pooled over the components where they share one."""
    G, counts = len(statistics.weight), statistics.weight
    factors = []
    for stack, scatter in zip(layout.stacks, blocks, strict=True):
        size = counts[stack.owner]
        if layout.shared:
            pooled = scatter.reshape(G, -1, *scatter.shape[1:]).mean(axis=0)
            scatter, size = pooled, np.full(len(pooled), counts.mean())
        else:
            # A dead component has the least weight of one that lives and the overall variances: finite without a prior,
            # and with one no narrower than just before it died, so that the penalty does not grow.
            dead, least = statistics.dead[stack.owner], scatter.dtype.type(_NOTHING * counts.sum())
            scatter[dead], size = least * np.eye(scatter.shape[1]), np.where(dead, least, size)
        if stack.mask is not None:
            scatter = scatter * stack.mask[: len(scatter)].astype(scatter.dtype)
        at = np.arange(scatter.shape[1])
        scatter[:, at, at] += scatter.dtype.type(prior.shrinkage + prior.ridge)
        S = scatter / (size + prior.shrinkage).astype(scatter.dtype)[:, None, None]
        try:
            factor = cholesky(S)
        except ValueError as error:
            flat = np.argmin(np.diagonal(S, axis1=1, axis2=2).min(axis=1))
            raise ValueError(SINGULAR.format(stack.owner[flat])) from error
        factors.append(np.tile(factor, (G, 1, 1)) if layout.shared else factor)
    return Parameters(counts / counts.sum(), statistics.means, layout, tuple(factors))
