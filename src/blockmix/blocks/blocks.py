"""BlockCovariance: a covariance that is block-diagonal over a partition (paper, eq. 2), stored as Cholesky factors.

It is built from a covariance S and a partition and provides density, log-determinant, samples, precision and parameter
count, all from one factor per block. A full covariance is one block, a diagonal one is p blocks of one column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dtrtri

from blockmix.blocks.moments import Covariance
from blockmix.blocks.shapes import FULL, BlockModel
from blockmix.partition import FloatArray, IntArray, Partition, partition_price, partition_prices


@dataclass(frozen=True, eq=False)
class BlockCovariance:
    """Σ_k D_k S D_k, stored as the Cholesky factors of its blocks.

    Parameters
    ----------
    partition : Partition
        The column groups.
    factors : tuple of arrays of shape (b, c, c)
        Lower Cholesky factors, stacked like ``partition.stacks``.

    Examples
    --------
    >>> S = np.array([[2.0, 1.0, 0.3], [1.0, 2.0, 0.1], [0.3, 0.1, 1.0]])
    >>> BlockCovariance.of(S, Partition([0, 0, 1])).dense()
    array([[2., 1., 0.],
           [1., 2., 0.],
           [0., 0., 1.]])
    """

    partition: Partition
    factors: tuple[FloatArray, ...]

    @classmethod
    def of(
        cls,
        S: Covariance,
        partition: Partition,
        shrinkage: ArrayLike = 0.0,
        given: Mapping[int, FloatArray] | None = None,
    ) -> BlockCovariance:
        """Restrict S, shape (p, p), to the blocks of the partition; those of some groups may be given.

        Entries of S off the diagonal are multiplied by 1 − shrinkage, one number or one per group.
        """
        keep = 1 - np.broadcast_to(np.asarray(shrinkage, dtype=S.dtype), partition.n_groups)
        factors = []
        for stack in partition.stacks:
            groups = partition.labels[stack[:, 0]]
            matrices = within(S, stack, keep[groups])
            for b, k in enumerate(groups.tolist()):
                if given and k in given:
                    matrices[b] = given[k]
            factors.append(cholesky(matrices))
        return cls(partition, tuple(factors))

    def scaled(self, deviations: FloatArray) -> BlockCovariance:
        """diag(s) Σ diag(s): the covariance of columns multiplied by s, shape (p,)."""
        return BlockCovariance(
            self.partition,
            tuple(
                L * deviations[stack][:, :, None] for stack, L in zip(self.partition.stacks, self.factors, strict=True)
            ),
        )

    @cached_property
    def _whiteners(self) -> tuple[FloatArray, ...]:
        """Inverse factors L⁻¹, shapes (b, c, c), which whiten a centered block."""
        return tuple(inverse_factors(factor) for factor in self.factors)

    @property
    def logdet(self) -> float:
        """log|Σ|, the sum over blocks."""
        return float(2 * sum(np.log(np.diagonal(L, axis1=1, axis2=2)).sum(dtype=float) for L in self.factors))

    @property
    def variances(self) -> FloatArray:
        """The diagonal of Σ, shape (p,)."""
        found = np.empty(self.partition.n_columns)
        for stack, L in zip(self.partition.stacks, self.factors, strict=True):
            found[stack] = np.einsum("bij,bij->bi", L, L)
        return found

    @property
    def n_parameters(self) -> int:
        """Free entries, Σ c(c+1)/2 over the blocks."""
        return self.partition.n_parameters

    def squared_distances(self, centered: FloatArray) -> FloatArray:
        """xᵀ Σ⁻¹ x for each row of a centered matrix, shape (N, p) to (N,)."""
        total = np.zeros(len(centered), dtype=centered.dtype)
        for stack, whitener in zip(self.partition.stacks, self._whiteners, strict=True):
            if stack.shape[1] == 1:
                white = centered[:, stack[:, 0]] * whitener[:, 0, 0]
                total += np.einsum("ij,ij->i", white, white)
            else:
                white = np.matmul(centered[:, stack].swapaxes(0, 1), whitener.swapaxes(1, 2))
                total += np.einsum("bij,bij->i", white, white)
        return total

    def log_density(self, X: FloatArray, mean: FloatArray) -> FloatArray:
        """Gaussian log-density of each row of X around the mean."""
        # A Python float keeps float32 distances in float32.
        constant = float(self.partition.n_columns * np.log(2 * np.pi) + self.logdet)
        return -0.5 * (constant + self.squared_distances(X - mean))

    def sample(self, n: int, rng: np.random.RandomState | np.random.Generator) -> FloatArray:
        """Draw n centered rows, shape (n, p)."""
        noise: FloatArray = rng.standard_normal((n, self.partition.n_columns))
        rows = np.empty_like(noise)
        for stack, factor in zip(self.partition.stacks, self.factors, strict=True):
            rows[:, stack] = np.matmul(noise[:, stack].swapaxes(0, 1), factor.swapaxes(1, 2)).swapaxes(0, 1)
        return rows

    @property
    def blocks(self) -> tuple[FloatArray, ...]:
        """The matrix of each block, in the order of ``partition.groups``."""
        found = {}
        for stack, factor in zip(self.partition.stacks, self.factors, strict=True):
            for columns, L in zip(stack, factor, strict=True):
                found[self.partition.labels[columns[0]]] = L @ L.T
        return tuple(found[k] for k in range(self.partition.n_groups))

    def factor(self) -> FloatArray:
        """Lower Cholesky factor of the whole covariance, shape (p, p), with zeros between blocks."""
        return self._spread(list(self.factors))

    def dense(self) -> FloatArray:
        """The covariance as a (p, p) matrix."""
        return self._spread([np.matmul(L, L.swapaxes(1, 2)) for L in self.factors])

    def precision(self) -> FloatArray:
        """The inverse covariance as a (p, p) matrix."""
        return self._spread([np.matmul(W.swapaxes(1, 2), W) for W in self._whiteners])

    def _spread(self, stacked: list[FloatArray]) -> FloatArray:
        p = self.partition.n_columns
        whole = np.zeros((p, p), dtype=stacked[0].dtype)
        for stack, matrices in zip(self.partition.stacks, stacked, strict=True):
            whole[stack[:, :, None], stack[:, None, :]] = matrices
        return whole


def logdets(S: FloatArray, partitions: Sequence[Partition]) -> FloatArray:
    """log|Σ_k D_k S D_k| for m partitions of one matrix (p, p), or of one matrix each (m, p, p), shape (m,)."""
    if S.shape[-1] > _SMALL:
        each = np.broadcast_to(S, (len(partitions), *S.shape[-2:]))
        return np.array([BlockCovariance.of(own, part).logdet for own, part in zip(each, partitions, strict=True)])
    # Small matrices are masked and factored in one call, which saves a call for each size of block.
    labels = np.array([partition.labels for partition in partitions])
    factors = cholesky(S * (labels[:, :, None] == labels[:, None, :]))
    return np.asarray(2 * np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1, dtype=float))


def within(S: Covariance, stack: IntArray, keep: FloatArray) -> FloatArray:
    """Submatrices of S on rows of column indices, (b, c) to (b, c, c), with off-diagonals times keep, shape (b,)."""
    matrices: FloatArray = S[stack[:, :, None], stack[:, None, :]]
    if (keep != 1).any():
        diagonals = np.diagonal(matrices, axis1=1, axis2=2).copy()
        matrices *= keep[:, None, None]
        at = np.arange(stack.shape[1])
        matrices[:, at, at] = diagonals
    return matrices


def cholesky(matrices: FloatArray) -> FloatArray:
    """Lower Cholesky factors of stacked matrices, with the diagonal raised as far as a factor needs it.

    The ridge of the estimators makes the first attempt succeed unless rounding cancels it (float32, hundreds of
    duplicated columns). Then the diagonal is raised, starting at machine precision and tenfold each time.
    """
    try:
        factors: FloatArray = np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        factors = np.stack([_raised_cholesky(matrix) for matrix in matrices])
    # LAPACK lets NaN through without an error; it ends up on the diagonal of the factor.
    if not np.isfinite(np.diagonal(factors, axis1=1, axis2=2)).all():
        raise ValueError(_refusal(matrices.shape[1]))
    return factors


def _raised_cholesky(matrix: FloatArray) -> FloatArray:
    raised = np.array(matrix)
    variances = np.diagonal(matrix).copy()
    for power in range(8):
        try:
            return np.linalg.cholesky(raised)
        except np.linalg.LinAlgError:
            lift = len(matrix) * np.finfo(matrix.dtype).eps * 10.0**power
            raised.flat[:: len(matrix) + 1] = variances * (1 + lift)
    raise ValueError(_refusal(len(matrix)))


def _refusal(c: int) -> str:
    return f"a block of {c} columns has no positive definite covariance: check for NaN or zero variance"


def inverse_factors(factor: FloatArray) -> FloatArray:
    """Inverses of stacked lower triangular factors, shape (b, c, c)."""
    if factor.shape[1] == 1:
        return 1 / factor
    if factor.shape[1] <= _SMALL:
        # Of unit diagonals: columns of very different scale would make the dense inverse pivot.
        diagonal = np.diagonal(factor, axis1=1, axis2=2)
        return np.linalg.inv(factor / diagonal[:, :, None]) / diagonal[:, None, :]
    identity = np.eye(factor.shape[1], dtype=factor.dtype)
    return np.stack([solve_triangular(L, identity, lower=True, check_finite=False) for L in factor])


_SMALL = 32  # up to this size one batched dense call is faster than a call per block that exploits the zeros


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
        from blockmix.blocks.kernels import block_places

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
        from blockmix.blocks.kernels import invert

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
        from blockmix.blocks.kernels import summaries

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
