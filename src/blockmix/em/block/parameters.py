"""Parameters of the block mixture: weights, means and block-diagonal covariances, in flat arrays for compiled loops.

Partitions come in as a `Layout`, which says where each block lies; log-determinants, traces, whiteners and
`BlockCovariance` objects go out. Components that share a covariance point to the same blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dtrtri

from blockmix.structure.block_models import FULL, BlockModel
from blockmix.structure.blocks import BlockCovariance
from blockmix.structure.objective import partition_price, partition_prices
from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray, IntArray

# Largest block that the compiled loops factor; LAPACK is faster from here on and calling it costs 10 µs a block.
SMALL = 48


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the blocks of all components lie in a flat array.

    Parameters
    ----------
    partitions : tuple of G Partition
        The column groups of each component.
    shared : bool
        One covariance for all components, which then have one partition: their blocks lie in the same place.
    shapes : tuple of tuples of BlockModel
        For each distinct covariance the shape of each block; empty if all are full.
    """

    partitions: tuple[Partition, ...]
    shared: bool = False
    shapes: tuple[tuple[BlockModel, ...], ...] = ()

    @cached_property
    def distinct(self) -> tuple[Partition, ...]:
        """The partition of each distinct covariance: one if it is shared, else G."""
        return self.partitions[:1] if self.shared else self.partitions

    @cached_property
    def n_sharing(self) -> int:
        """Number of components that share a covariance."""
        return len(self.partitions) // len(self.distinct)

    @property
    def order(self) -> IntArray:
        """Columns of each component, group by group, shape (G, p)."""
        return self._places[0]

    @property
    def blocks(self) -> IntArray:
        """For each block (lo, hi, at): its columns are ``order[g, lo:hi]``, its matrix starts at `at`; shape (B, 3)."""
        return self._places[1]

    @property
    def first(self) -> IntArray:
        """First block of each component, and the number of all blocks at the end, shape (G + 1,)."""
        return self._places[2]

    @cached_property
    def owner(self) -> IntArray:
        """The covariance that each entry of the flat array belongs to, shape (size,)."""
        sizes = [int((partition.sizes**2).sum()) for partition in self.distinct]
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def _places(self) -> tuple[IntArray, IntArray, IntArray]:
        from blockmix.em.block.block_kernels import block_places

        order, blocks, first = block_places(np.array([partition.labels for partition in self.distinct]))
        if self.n_sharing == 1:
            return order, blocks, first
        copies = self.n_sharing, 1
        return np.tile(order, copies), np.tile(blocks, copies), np.arange(self.n_sharing + 1) * len(blocks)

    @property
    def size(self) -> int:
        """Length of the flat array, Σ c² over the distinct blocks."""
        lo, hi, at = self.blocks[-1].tolist()
        return int(at + (hi - lo) ** 2)

    @cached_property
    def diagonal(self) -> IntArray:
        """Where the diagonals lie in the flat array, distinct covariances in turn, shape (p · distinct,)."""
        lo, hi, at = self.own_blocks.T
        step, column = hi - lo + 1, np.tile(np.arange(self.order.shape[1]), len(self.distinct))
        return np.asarray(np.repeat(at - lo * step, hi - lo) + column * np.repeat(step, hi - lo))

    def members(self, d: int) -> slice:
        """The components that have covariance d."""
        return slice(d * self.n_sharing, (d + 1) * self.n_sharing)

    def pooled(self, values: FloatArray) -> FloatArray:
        """Sum values (G, …) over the components that share a covariance, shape (distinct, …)."""
        shared = self.n_sharing > 1
        return values.reshape(-1, self.n_sharing, *values.shape[1:]).sum(axis=1) if shared else values

    @cached_property
    def own_blocks(self) -> IntArray:
        """The blocks of the distinct covariances."""
        return self.blocks[: self.first[len(self.distinct)]]

    @cached_property
    def large(self) -> list[list[int]]:
        """Distinct blocks that LAPACK factors."""
        found: list[list[int]] = [block for block in self.own_blocks.tolist() if block[1] - block[0] > SMALL]
        return found

    @cached_property
    def shaped(self) -> list[tuple[int, BlockModel]]:
        """Distinct blocks that are not full, and their shapes."""
        every = (model for shapes in self.shapes for model in shapes)
        return [(b, model) for b, model in enumerate(every) if model.name != FULL.name]

    @cached_property
    def n_parameters(self) -> int:
        """Free parameters of the distinct covariances."""
        full = sum(partition.n_parameters for partition in self.distinct)
        sizes = {b: int(self.blocks[b, 1] - self.blocks[b, 0]) for b, _ in self.shaped}
        return full + sum(model.n_parameters(sizes[b]) - sizes[b] * (sizes[b] + 1) // 2 for b, model in self.shaped)

    @cached_property
    def partition_price(self) -> float:
        """Price of choosing these groups, and structures within them; see `structure.objective.partition_price`."""
        p, sizes = self.partitions[0].n_columns, self.blocks[:, 1] - self.blocks[:, 0]
        structures = sum(model.choice_price(int(sizes[b]), p) for b, model in self.shaped)
        # One group of a few factors is a choice; one full group is not.
        structures += float(partition_prices(p)[p]) * sum(sizes[b] == p for b, _ in self.shaped)
        return float(structures + sum(partition_price(partition) for partition in self.distinct))

    def is_same(self, other: Layout) -> bool:
        """Whether groups and shapes are equal."""
        return self.distinct == other.distinct and self.shape_names == other.shape_names

    def rows_needed(self, g: int) -> int:
        """Rows from which no block of component g is singular."""
        sizes = self.partitions[g].sizes.tolist()
        return max(model.rows_needed(c) for model, c in zip(self.models(g), sizes, strict=True))

    def models(self, g: int) -> tuple[BlockModel, ...]:
        """The shape of each block of component g."""
        return self.shapes[g // self.n_sharing] if self.shapes else (FULL,) * self.partitions[g].n_groups

    @property
    def shape_names(self) -> tuple[tuple[str, ...], ...]:
        """The name of the shape of each block, by component."""
        return tuple(tuple(model.name for model in self.models(g)) for g in range(len(self.partitions)))


@dataclass(frozen=True, eq=False)
class Parameters:
    """Weights (G,), means (G, p) and the Cholesky factors of all blocks, flat; in double precision.

    `states` holds, for each distinct block, what the next fit of its shape starts from. With `degrees_of_freedom` (G,)
    components are t distributions whose scale matrices take the place of the covariances; None is the normal mixture.
    """

    weights: FloatArray
    means: FloatArray
    layout: Layout
    factors: FloatArray
    states: Mapping[int, FloatArray] = field(default_factory=dict)
    degrees_of_freedom: FloatArray | None = None

    @cached_property
    def whiteners(self) -> FloatArray:
        """Inverse factors L⁻¹, flat: they make a centered block white."""
        from blockmix.em.block.block_kernels import invert

        layout, whiteners = self.layout, np.zeros_like(self.factors)
        invert(layout.blocks, self.factors, whiteners, SMALL)
        for place in layout.large:
            block_of(whiteners, *place)[:] = dtrtri(block_of(self.factors, *place), lower=1)[0]
        return whiteners

    @property
    def logdets(self) -> FloatArray:
        """log|Σ_g|, shape (G,)."""
        return self._summaries[0]

    @property
    def levels(self) -> FloatArray:
        """Log π_g − ½ log|2π Σ_g|, shape (G,)."""
        return self._summaries[1]

    @property
    def precisions(self) -> FloatArray:
        """Diagonals of Σ_g⁻¹, shape (G, p)."""
        return self._summaries[2]

    @cached_property
    def _summaries(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        from blockmix.em.block.block_kernels import summaries

        layout = self.layout
        places = layout.order, layout.blocks, layout.first
        found: tuple[FloatArray, FloatArray, FloatArray] = summaries(self.weights, self.whiteners, *places)
        return found

    @cached_property
    def covariances(self) -> tuple[BlockCovariance, ...]:
        """The covariance of each component; one object for components that share it."""
        layout = self.layout
        made = []
        for g, partition in enumerate(layout.distinct):
            by_size: dict[int, list[FloatArray]] = {}
            for lo, hi, at in layout.blocks[layout.first[g] : layout.first[g + 1]].tolist():
                by_size.setdefault(hi - lo, []).append(block_of(self.factors, lo, hi, at))
            made.append(BlockCovariance(partition, tuple(np.stack(by_size[c]) for c in sorted(by_size))))
        return tuple(made) * layout.n_sharing

    def moved(self, weights: FloatArray, means: FloatArray) -> Parameters:
        """The same covariances with other weights and means."""
        return replace(self, weights=weights, means=means)

    def in_units(self, location: FloatArray, scale: FloatArray) -> Parameters:
        """The same mixture for columns x·scale + location."""
        layout = self.layout
        flat = [
            np.repeat(scale[partition.order], np.repeat(partition.sizes, partition.sizes))
            for partition in layout.distinct
        ]
        states = self.scaled_states(np.tile(scale, (len(layout.distinct), 1)))
        factors = self.factors * np.concatenate(flat)
        return replace(self, means=self.means * scale + location, factors=factors, states=states)

    def scaled_states(self, scale: FloatArray) -> dict[int, FloatArray]:
        """States of the blocks of covariances whose columns are multiplied by a scale, shape (distinct, p)."""
        layout, found = self.layout, dict[int, FloatArray]()
        for b, model in layout.shaped:
            if b in self.states:
                d = int(np.searchsorted(layout.first, b, side="right")) - 1
                lo, hi, _ = layout.blocks[b].tolist()
                found[b] = model.scaled(self.states[b], scale[d, layout.order[d, lo:hi]])
        return found


def block_of(flat: FloatArray, lo: int, hi: int, at: int) -> FloatArray:
    """The matrix (c, c) of a block of a flat array, as a view."""
    return flat[at : at + (hi - lo) ** 2].reshape(hi - lo, -1)


def assemble(weights: FloatArray, means: FloatArray, covariances: Sequence[BlockCovariance]) -> Parameters:
    """Build parameters from the covariance of each component; one object in all places is a shared covariance."""
    shared = len(covariances) > 1 and all(c is covariances[0] for c in covariances)
    layout = Layout(tuple(c.partition for c in covariances), shared)
    flat = [L.ravel() for c in (covariances[:1] if shared else covariances) for L in _by_group(c)]
    return Parameters(weights.astype(float), means.astype(float), layout, np.concatenate(flat, dtype=float))


def _by_group(covariance: BlockCovariance) -> list[FloatArray]:
    """Cholesky factor of each group, in the order of the groups."""
    partition = covariance.partition
    found: dict[int, FloatArray] = {}
    for stack, factor in zip(partition.stacks, covariance.factors, strict=True):
        found |= {int(partition.labels[columns[0]]): L for columns, L in zip(stack, factor, strict=True)}
    return [found[k] for k in range(partition.n_groups)]


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
        return -0.5 * float(self.shrinkage * parameters.logdets.sum() + pull * parameters.precisions.sum())
