"""EM of the block-diagonal mixture: parameters, one sweep over the rows, and their maximizer (paper, section 3).

Rows and parameters come in; statistics that add up go out of the sweep, and new parameters out of `maximize`. While the
column groups are fixed a sweep takes only the scatter within blocks, Σ c² per row and component; a full sweep takes all
of it, so that new groups can be proposed.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from blockmix._types import FloatArray, IntArray
from blockmix.blocks import BlockCovariance, cholesky, inverse_factors
from blockmix.partition import Partition
from blockmix.rows import Chunk, Rows

# Up to this many columns a covariance is worked on as one matrix with zeros between its blocks: there the calls for
# each block size cost more than the arithmetic (Wine, 13 columns: 1.2 ms an iteration by size, 0.6 ms whole).
_WHOLE = 32
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
class Stack:
    """Blocks of one size c: their components (b,) and columns (b, c).

    Where `mask` (b, c, c) is given these are whole covariances, 1 inside their blocks and 0 between them.
    """

    owner: IntArray
    columns: IntArray
    mask: FloatArray | None = None

    @cached_property
    def spans(self) -> dict[int, slice]:
        """Where the blocks of each component lie: they follow one another."""
        first = np.flatnonzero(np.diff(self.owner, prepend=-1))
        stop = [*first[1:].tolist(), len(self.owner)]
        return {int(self.owner[a]): slice(a, b) for a, b in zip(first.tolist(), stop, strict=True)}

    def by_component(self, values: FloatArray, n_components: int) -> FloatArray:
        """Sum values (b, …) over the blocks of each component, shape (G, …)."""
        if self.mask is not None:
            return values
        if len(self.spans) == 1:
            total = np.zeros((n_components, *values.shape[1:]), dtype=values.dtype)
            total[self.owner[0]] = values.sum(axis=0)
            return total
        member = (np.arange(n_components)[:, None] == self.owner).astype(values.dtype)
        return np.asarray(member @ values)


@dataclass(frozen=True, eq=False)
class Layout:
    """The column groups of all components, arranged by block size for batched arithmetic.

    With `shared` the components have one covariance, and so one partition, between them.
    """

    partitions: tuple[Partition, ...]
    shared: bool = False

    @cached_property
    def whole(self) -> bool:
        """Whether the covariances are worked on whole, with masks."""
        return self.partitions[0].n_columns <= _WHOLE

    @cached_property
    def stacks(self) -> tuple[Stack, ...]:
        """All blocks, component by component; few columns are one stack of whole covariances."""
        G, p = len(self.partitions), self.partitions[0].n_columns
        if self.whole:
            labels = np.stack([partition.labels for partition in self.partitions])
            mask = (labels[:, :, None] == labels[:, None, :]).astype(float)
            return (Stack(np.arange(G), np.tile(np.arange(p), (G, 1)), mask),)
        single = [
            Stack(np.full(len(columns), g), columns)
            for g, partition in enumerate(self.partitions)
            for columns in partition.stacks
        ]
        if not self.shared:
            return tuple(single)
        sizes = sorted({stack.columns.shape[1] for stack in single})
        by_size = [[stack for stack in single if stack.columns.shape[1] == size] for size in sizes]
        return tuple(
            Stack(np.concatenate([s.owner for s in same]), np.concatenate([s.columns for s in same]))
            for same in by_size
        )

    @cached_property
    def n_parameters(self) -> int:
        """Free entries of the distinct covariances."""
        return sum(partition.n_parameters for partition in (self.partitions[:1] if self.shared else self.partitions))


@dataclass(frozen=True, eq=False)
class Parameters:
    """Weights (G,), means (G, p) and the Cholesky factors of all blocks, stacked like ``layout.stacks``."""

    weights: FloatArray
    means: FloatArray
    layout: Layout
    factors: tuple[FloatArray, ...]

    @cached_property
    def whiteners(self) -> tuple[FloatArray, ...]:
        """Inverse factors L⁻¹: a centered block times them is white."""
        return tuple(inverse_factors(factor) for factor in self.factors)

    @cached_property
    def logdets(self) -> FloatArray:
        """log|Σ_g|, shape (G,)."""
        return self._per_component([2 * np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1) for L in self.factors])

    @cached_property
    def precision_traces(self) -> FloatArray:
        """Tr Σ_g⁻¹, shape (G,)."""
        return self._per_component([np.einsum("bij,bij->b", W, W) for W in self.whiteners])

    def _per_component(self, by_block: list[FloatArray]) -> FloatArray:
        G = len(self.weights)
        pairs = zip(self.layout.stacks, by_block, strict=True)
        return np.asarray(np.sum([stack.by_component(values, G) for stack, values in pairs], axis=0, dtype=float))

    @cached_property
    def covariances(self) -> tuple[BlockCovariance, ...]:
        """The covariance of each component; one object for components that share it."""
        made = []
        for g, partition in enumerate(self.layout.partitions[:1] if self.layout.shared else self.layout.partitions):
            if self.layout.whole:
                whole = self.factors[0][g]
                own = [whole[columns[:, :, None], columns[:, None, :]] for columns in partition.stacks]
            else:
                pairs = zip(self.layout.stacks, self.factors, strict=True)
                own = [factor[stack.owner == g] for stack, factor in pairs]
            made.append(BlockCovariance(partition, tuple(factor for factor in own if len(factor))))
        return tuple(made) * (len(self.weights) if self.layout.shared else 1)

    def in_units(self, location: FloatArray, scale: FloatArray) -> Parameters:
        """The same mixture for columns x·scale + location."""
        factors = tuple(
            L * scale[stack.columns][:, :, None] for stack, L in zip(self.layout.stacks, self.factors, strict=True)
        )
        return replace(self, means=self.means * scale + location, factors=factors)


def assemble(weights: FloatArray, means: FloatArray, covariances: tuple[BlockCovariance, ...]) -> Parameters:
    """Build parameters from the covariance of each component; one object in all places is a shared covariance."""
    shared = len(covariances) > 1 and all(c is covariances[0] for c in covariances)
    layout = Layout(tuple(c.partition for c in covariances), shared)
    if layout.whole:
        return Parameters(weights, means, layout, (np.stack([c.factor() for c in covariances]),))
    held = [
        {
            int(columns[0]): L
            for stack, factor in zip(c.partition.stacks, c.factors, strict=True)
            for columns, L in zip(stack, factor, strict=True)
        }
        for c in covariances
    ]
    factors = tuple(
        np.stack([held[g][int(columns[0])] for g, columns in zip(stack.owner, stack.columns, strict=True)])
        for stack in layout.stacks
    )
    return Parameters(weights, means, layout, factors)


@dataclass(frozen=True)
class Prior:
    """A penalty −½ Σ_g [κ log|Σ_g| + (κ + ρ) tr Σ_g⁻¹] in standardized columns, fixed, so that EM stays monotone.

    κ (`shrinkage`) pseudo-rows pull each block to the diagonal of overall variances; ρ (`ridge`) keeps a singular block
    invertible.
    """

    shrinkage: float = 0.0
    ridge: float = 0.0

    def value(self, parameters: Parameters) -> float:
        """The penalty, to be added to the log-likelihood."""
        pull = self.shrinkage + self.ridge
        if pull == 0:
            return 0.0
        return -0.5 * float(
            self.shrinkage * parameters.logdets.sum(dtype=float) + pull * parameters.precision_traces.sum(dtype=float)
        )


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
        if len(stack.spans) == 1:
            distances[stack.owner[0]] += np.einsum("bcm,bcm->m", white, white)
        else:
            distances += stack.by_component(np.einsum("bcm,bcm->bm", white, white), G)
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
    """√z (x − μ) and √z of the rows that count, shapes (p, a) and (a,)."""
    active = np.flatnonzero(z > _NEGLIGIBLE)
    C = _scratch.array(2, (len(values), len(active)), values.dtype)
    if len(active) == len(z):
        np.subtract(values, mean[:, None], out=C)
    else:
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
