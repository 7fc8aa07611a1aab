"""EM of the block-diagonal mixture: one sweep over the rows, and the maximizer of its statistics (paper, section 3).

Rows and parameters come in; statistics that add up go out of the sweep, and new parameters out of `maximize`. While the
column groups are fixed a sweep takes only the scatter within blocks, Σ c² per row and component; a full sweep takes all
of it, so that new groups can be proposed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np

from blockmix.em.block.e_step import NEGLIGIBLE, Part, active, explained, posterior, scratch
from blockmix.em.block.parameters import Layout, Parameters, Prior, Stack
from blockmix.rows import Chunk, Rows
from blockmix.structure.blocks import cholesky
from blockmix.structure.types import FloatArray, IntArray

# Rounding apart, no covariance is singular with a ridge or shrinkage.
SINGULAR = "component {} has no variance in some column: give a ridge above 0"
_NOTHING = 1e-10  # share of the rows below which a component has no moments to speak of


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


def sweep(
    rows: Rows,
    parameters: Parameters,
    full: bool = False,
    z: FloatArray | None = None,
    keep: FloatArray | None = None,
) -> Statistics:
    """Read every row once: responsibilities, and at once the moments and the log-likelihood they give.

    Given responsibilities z, shape (N, G), are taken as they are; the log-likelihood is then meaningless. Those that
    are found are written to `keep`, of the same shape.
    """

    def of(chunk: Chunk) -> Statistics:
        given, kept = (None if array is None else array[chunk.place].T for array in (z, keep))
        return _chunk_statistics(chunk, parameters, full, given, kept)

    return rows.map_sum(of)


def component_means(rows: Rows, z: FloatArray) -> FloatArray:
    """Means of the components, shape (G, p), for given responsibilities (N, G)."""

    def of(chunk: Chunk) -> Statistics:
        share = z[chunk.place].T * chunk.weights
        return Statistics(np.nan, share.sum(axis=1), share @ chunk.values.T, ())

    return rows.map_sum(of).means


def _chunk_statistics(
    chunk: Chunk, parameters: Parameters, full: bool, given: FloatArray | None, kept: FloatArray | None
) -> Statistics:
    values, weights = chunk.values, chunk.weights
    log_likelihood, z, parts = np.nan, given, None
    if z is None:
        joint, parts = explained(values, parameters)
        z, density = posterior(joint)
        p = len(values)
        log_likelihood = float(weights @ density) - 0.5 * p * np.log(2 * np.pi) * float(weights.sum())
    if kept is not None:
        kept[:] = z
    z = z * weights
    weight, means = z.sum(axis=1), parameters.means.astype(values.dtype, copy=False)
    stacks = None if full or parameters.layout.whole else parameters.layout.stacks
    found = active(values, means, z, together=stacks is None) if parts is None else parts
    scatter, excess = _moments(found, z, means.shape, stacks)
    return Statistics(log_likelihood, weight, excess + weight[:, None] * means, scatter)


def _moments(
    parts: Iterable[Part], z: FloatArray, shape: tuple[int, int], stacks: tuple[Stack, ...] | None
) -> tuple[tuple[FloatArray, ...], FloatArray]:
    """Σz(x − μ)(x − μ)ᵀ and Σz(x − μ), shape (G, p).

    The scatter is one (G, p, p) array, or where stacks are given the blocks of the layout, stacked like it.
    """
    G, p = shape
    sides = [(G, p, p)] if stacks is None else [(b, c, c) for b, c in (stack.columns.shape for stack in stacks)]
    scatter = tuple(np.zeros(side, dtype=z.dtype) for side in sides)
    excess = np.zeros(shape, dtype=z.dtype)
    for part in parts:
        C, root = _weighted(part, z)
        excess[part.component] += np.matmul(C, root[..., None])[..., 0]
        if stacks is None:
            scatter[0][part.component] += np.matmul(C, C.swapaxes(-1, -2))
            continue
        for stack, blocks in zip(stacks, scatter, strict=True):
            own = stack.spans.get(cast(int, part.component))  # blocks are taken from one component at a time
            if own is not None:
                blocks[own] += _block_products(C, stack.columns[own])
    return scatter, excess


def _weighted(part: Part, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """√z (x − μ), in the place of x − μ, and √z, of the rows of a part that count where most of them do not."""
    share, C = z[part.component, part.rows], part.centered
    if share.ndim == 1:
        counts = share > NEGLIGIBLE
        if 2 * np.count_nonzero(counts) < len(share):
            share, C = share[counts], C[:, counts]
    root = np.sqrt(share)
    return np.multiply(C, root[..., None, :], out=C), root


def _block_products(C: FloatArray, columns: IntArray) -> FloatArray:
    """C Cᵀ on each row of column indices, (b, c) to (b, c, c)."""
    block = scratch.array("block", (*columns.shape, C.shape[1]), C.dtype)
    np.take(C, columns, axis=0, out=block, mode="clip")
    if columns.shape[1] == 1:
        return np.asarray(np.einsum("bcm,bcm->bc", block, block)[:, :, None])
    return np.asarray(np.matmul(block, block.swapaxes(1, 2)))


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
