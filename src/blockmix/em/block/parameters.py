"""Parameters of the block-diagonal mixture: weights, means and the factors of all blocks, and their prior.

Partitions and covariances come in; what batched arithmetic on all blocks of one size needs goes out (paper, section 3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from blockmix.structure.blocks import BlockCovariance, inverse_factors
from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray, IntArray

# Up to this many columns a covariance is worked on as one matrix with zeros between its blocks: there the calls for
# each block size cost more than the arithmetic (Wine, 13 columns: 1.2 ms an iteration by size, 0.6 ms whole).
_WHOLE = 32
_FIRST = 0.125  # share of the columns by which rows are told from components that are not theirs


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
class Look:
    """Blocks of one component and of one size: their columns (b, c) and whiteners (b, c, c)."""

    component: int
    columns: IntArray
    whiteners: FloatArray


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
    def looks(self) -> tuple[list[Look], list[Look]]:
        """Blocks of components with covariances of their own: those that tell other rows soonest, and all others.

        The first are, of each component, those in which a row of the mixture is farthest from it in the mean, as far as
        variances tell, per column.
        """
        first: list[Look] = []
        rest: list[Look] = []
        for g, mean in enumerate(self.means):
            pairs = zip(self.layout.stacks, self.whiteners, strict=True)
            own = [(stack.columns, W) for stack, W in pairs if stack.owner[0] == g]
            spread = self.weights @ (self._variances + (self.means - mean) ** 2)
            far = np.concatenate([np.einsum("bij,bij,bj->b", W, W, spread[at]) / at.shape[1] for at, W in own])
            order, sizes = (
                np.argsort(-far, kind="stable"),
                np.concatenate([np.full(len(at), at.shape[1]) for at, _ in own]),
            )
            soon = np.empty(len(far), dtype=bool)
            soon[order] = np.cumsum(sizes[order]) - sizes[order] < _FIRST * len(mean)
            for (at, W), these in zip(own, np.split(soon, np.cumsum([len(at) for at, _ in own])[:-1]), strict=True):
                first += [Look(g, at[these], W[these])] if these.any() else []
                rest += [Look(g, at[~these], W[~these])] if not these.all() else []
        return first, rest

    @cached_property
    def _variances(self) -> FloatArray:
        """Variances of the columns in each component, shape (G, p)."""
        variances = np.empty_like(self.means)
        for stack, L in zip(self.layout.stacks, self.factors, strict=True):
            variances[stack.owner[:, None], stack.columns] = np.einsum("bij,bij->bi", L, L)
        return variances

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

    def astype(self, dtype: np.dtype[Any]) -> Parameters:
        """The same mixture in another precision."""
        weights, means = (array.astype(dtype, copy=False) for array in (self.weights, self.means))
        return Parameters(weights, means, self.layout, tuple(L.astype(dtype, copy=False) for L in self.factors))

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
