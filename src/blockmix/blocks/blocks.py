"""Blocks: covariances that are block-diagonal over partitions of the columns, as Cholesky factors (paper, eq. 2).

Common factors may be added to the blocks: Σ = ΛΛᵀ + Ψ, where Ψ has the blocks and Λ the loadings of all columns.

A `Layout` says where the blocks of one or several covariances lie in a flat array, and `Blocks` holds that array.
Estimators, compiled loops, files and the report all use it. A full covariance is one block, a diagonal one is p blocks
of one column. Components that share a covariance point to the same blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.linalg.lapack import dtrtri

from blockmix.blocks.moments import Covariance
from blockmix.blocks.shapes import FULL, SMALL, BlockModel
from blockmix.partition import FloatArray, IntArray, Partition, partition_prices


class Layout:
    """Where the blocks of the covariances of G components lie in a flat array, and in which shapes.

    Parameters
    ----------
    distinct : sequence of Partition
        The column groups of each distinct covariance: one that all components share, or one per component.
    shapes : tuple of tuples of BlockModel
        For each distinct covariance the shape of each block; empty if all are full.
    n_sharing : int
        Number of components that share a covariance: 1, or G with a single distinct one.

    Attributes
    ----------
    partitions : tuple of G Partition
    labels : array of shape (distinct, p)
        Group of each column in each distinct covariance.
    order : array of shape (G, p)
        Columns of each component, group by group.
    blocks : array of shape (B, 3)
        For each block (lo, hi, start): its columns are ``order[g, lo:hi]``, its matrix, row by row, begins at `start`.
    first : array of shape (G + 1,)
        First block of each component, and the number of all blocks at the end.
    distinct_blocks : array
        The blocks of the distinct covariances: `blocks` without those that are shared.
    size : int
        Length of the flat array, Σ c² over the distinct blocks.
    diagonal : array of shape (p · distinct,)
        Where the diagonals lie in the flat array, distinct covariances in turn.
    shaped : list of (int, BlockModel)
        Distinct blocks that are not full, and their shapes.
    models : tuple of tuples of BlockModel
        For each distinct covariance the shape of each block.
    rows_needed : array
        Rows from which a block is not singular, for each distinct block.
    large : list of [lo, hi, start]
        Distinct blocks that LAPACK factors.
    n_parameters : int
        Free parameters of the distinct covariances.
    partition_price : float
        Price of choosing these groups, and structures within them; see `partition.partition_prices`.
    """

    def __init__(
        self, distinct: Sequence[Partition], shapes: tuple[tuple[BlockModel, ...], ...] = (), n_sharing: int = 1
    ) -> None:
        from blockmix.blocks.kernels import block_places  # loads Numba

        self.distinct, self.shapes, self.n_sharing = tuple(distinct), shapes, n_sharing
        self.partitions, p = self.distinct * n_sharing, distinct[0].n_columns
        self.labels = np.array([partition.labels for partition in distinct])
        first = np.cumsum([0, *(partition.n_groups for partition in distinct)])
        order, blocks = np.empty_like(self.labels), np.zeros((first[-1], 3), dtype=np.intp)
        self.diagonal = np.empty(self.labels.size, dtype=np.intp)
        block_places(self.labels, order, first, blocks, self.diagonal)
        self.distinct_blocks: IntArray = blocks
        c = blocks[:, 1] - blocks[:, 0]
        sizes: list[int] = c.tolist()
        self.size = sum(size * size for size in sizes)
        if n_sharing > 1:
            order, blocks = np.tile(order, (n_sharing, 1)), np.tile(blocks, (n_sharing, 1))
            first = np.arange(n_sharing + 1) * len(self.distinct_blocks)
        self.order, self.blocks, self.first = order, blocks, first
        self.large: list[list[int]] = self.distinct_blocks[c > SMALL].tolist() if max(sizes) > SMALL else []
        every = (model for models in shapes for model in models)
        self.shaped = [(b, model) for b, model in enumerate(every) if model.name != FULL.name]
        prices = partition_prices(p)
        self.n_parameters = sum(size * (size + 1) for size in sizes) // 2
        self.partition_price = float(prices[c[c < p]].sum())  # one full group is not a choice
        for b, model in self.shaped:
            self.n_parameters += model.n_parameters(sizes[b]) - sizes[b] * (sizes[b] + 1) // 2
            self.partition_price += model.choice_price(sizes[b], p) + (float(prices[p]) if sizes[b] == p else 0.0)
        self.models = shapes or tuple((FULL,) * partition.n_groups for partition in self.distinct)
        self.rows_needed = c.copy()
        for b, model in self.shaped:
            self.rows_needed[b] = min(sizes[b], model.rank)

    @cached_property
    def owner(self) -> IntArray:
        """The covariance that each entry of the flat array belongs to, shape (size,)."""
        sizes = [int((partition.sizes**2).sum()) for partition in self.distinct]
        return np.repeat(np.arange(len(sizes)), sizes)

    def pooled(self, values: FloatArray) -> FloatArray:
        """Sum values (G, …) over the components that share a covariance, shape (distinct, …)."""
        if self.n_sharing == 1:
            return values
        return np.asarray(values.reshape(-1, self.n_sharing, *values.shape[1:]).sum(axis=1))

    def is_same(self, other: Layout) -> bool:
        """Whether groups and shapes are equal."""
        names, others = ([model.name for shapes in layout.models for model in shapes] for layout in (self, other))
        return np.array_equal(self.labels, other.labels) and names == others


class Scoring(NamedTuple):
    """What the common factors f of a row x are expected to be: E(f | x) = β (x − μ), cov(f | x) = M⁻¹.

    Attributes
    ----------
    slopes : array of shape (distinct, q, p)
        β = M⁻¹ΛᵀΨ⁻¹, with M = I + ΛᵀΨ⁻¹Λ.
    rest : array of shape (distinct, q, q)
        M⁻¹.
    information : array of shape (distinct, q, q)
        M.
    logdets : array of shape (distinct,)
        log|M| = log|Σ| − log|Ψ|.
    solved : array of shape (distinct, p, q)
        Ψ⁻¹Λ.
    """

    slopes: FloatArray
    rest: FloatArray
    information: FloatArray
    logdets: FloatArray
    solved: FloatArray


@dataclass(frozen=True, eq=False)
class Blocks:
    """The covariances of all components, as the Cholesky factors of their blocks.

    ``blocks[g]`` is the covariance of one component. The methods from `partition` on are those of a single covariance.

    Parameters
    ----------
    layout : Layout
    factors : flat array
        Lower triangular factors, 0 above the diagonal, in double precision.
    states : mapping
        For each distinct block that is not full, what the next fit of its shape starts from.
    loadings : array of shape (distinct, p, q) or None
        Λ of each distinct covariance: Σ = ΛΛᵀ + the blocks. None without common factors.

    Examples
    --------
    >>> S = np.array([[2.0, 1.0, 0.3], [1.0, 2.0, 0.1], [0.3, 0.1, 1.0]])
    >>> Blocks.of(S, Partition([0, 0, 1])).dense()
    array([[2., 1., 0.],
           [1., 2., 0.],
           [0., 0., 1.]])
    """

    layout: Layout
    factors: FloatArray
    states: Mapping[int, FloatArray] = field(default_factory=dict)
    loadings: FloatArray | None = None

    @classmethod
    def of(cls, S: Covariance, partition: Partition) -> Blocks:
        """Restrict S, shape (p, p), to the blocks of the partition."""
        layout = Layout((partition,))
        flat = np.concatenate([np.asarray(S[np.ix_(A, A)], dtype=float).ravel() for A in partition.groups])
        return cls(layout, factorized(layout, flat))

    def __getitem__(self, g: int) -> Blocks:
        """The covariance of component g."""
        layout = self.layout
        d = range(len(layout.partitions))[g] // layout.n_sharing
        if len(layout.partitions) == 1:
            return self
        first, stop = layout.first[d : d + 2].tolist()
        start, (lo, hi, last) = int(layout.blocks[first, 2]), layout.blocks[stop - 1].tolist()
        states = {b - first: state for b, state in self.states.items() if first <= b < stop}
        single = Layout(layout.distinct[d : d + 1], layout.shapes[d : d + 1])
        loadings = None if self.loadings is None else self.loadings[d : d + 1]
        return Blocks(single, self.factors[start : last + (hi - lo) ** 2], states, loadings)

    @cached_property
    def whiteners(self) -> FloatArray:
        """Inverse factors L⁻¹, flat: they make a centered block white."""
        from blockmix.blocks.kernels import invert

        layout, whiteners = self.layout, np.zeros(self.factors.shape)
        invert(layout.distinct_blocks, self.factors, whiteners, SMALL)
        for place in layout.large:
            block_of(whiteners, *place)[:] = dtrtri(block_of(self.factors, *place), lower=1)[0]
        return whiteners

    @cached_property
    def scoring(self) -> Scoring:
        """How the common factors of a row follow from its values (Woodbury)."""
        assert self.loadings is not None
        solved = self.solved(self.loadings)
        M = np.eye(solved.shape[2]) + self.loadings.mT @ solved
        values, vectors = np.linalg.eigh(M)  # one call in place of two; a search makes hundreds
        rest = (vectors / values[:, None]) @ vectors.mT
        return Scoring(rest @ solved.mT, rest, M, np.log(values).sum(axis=1), solved)

    def solved(self, values: FloatArray) -> FloatArray:
        """Ψ⁻¹Y for values Y of the distinct covariances with blocks Ψ, shape (distinct, p, q)."""
        from blockmix.blocks.kernels import solve

        solved, layout = np.zeros(values.shape), self.layout
        solve(layout.order, layout.blocks, layout.first, self.whiteners, values, solved)
        return solved

    @cached_property
    def n_common(self) -> list[int]:
        """Number of common factors of each distinct covariance."""
        if self.loadings is None:
            return [0] * len(self.layout.distinct)
        return [int(n) for n in self.loadings.any(axis=1).sum(axis=1)]

    @property
    def n_loadings(self) -> int:
        """Free parameters of the common factors, pq − q(q − 1)/2 of each covariance: rotations change nothing."""
        p = self.layout.order.shape[1]
        return sum(p * q - q * (q - 1) // 2 for q in self.n_common)

    def canonical(self) -> Blocks:
        """The same covariances with loadings as they are reported.

        They are rotated so that ΛᵀΨ⁻¹Λ is diagonal, strongest factor first, and most columns load positively.
        """
        if self.loadings is None:
            return self
        rotation = np.linalg.eigh(np.swapaxes(self.loadings, 1, 2) @ self.solved(self.loadings))[1][:, :, ::-1]
        axes = self.loadings @ rotation
        deviations = np.stack([np.sqrt(self[d * self.layout.n_sharing].variances) for d in range(len(axes))])
        axes *= np.where((axes / deviations[:, :, None]).sum(axis=1, keepdims=True) < 0, -1, 1)
        most = max(self.n_common)
        for loadings, q in zip(axes, self.n_common, strict=True):
            loadings[:, q:] = 0
        return replace(self, loadings=np.ascontiguousarray(axes[:, :, :most]) if most else None)

    @property
    def common(self) -> FloatArray:
        """Loadings of the columns on the common factors, shape (p, q); q is 0 without any."""
        if self.loadings is None:
            return np.zeros((self.partition.n_columns, 0))
        return np.asarray(self.loadings[0][:, : self.n_common[0]])

    def scaled(self, scale: FloatArray) -> Blocks:
        """The covariances of columns multiplied by a scale, shape (p,) or (distinct, p)."""
        layout, factors, states = self.layout, self.factors.copy(), {}
        scales = np.broadcast_to(scale, (len(layout.distinct), layout.order.shape[1]))
        factors *= np.concatenate(
            [
                np.repeat(scales[d, layout.order[d]], np.repeat(partition.sizes, partition.sizes))
                for d, partition in enumerate(layout.distinct)
            ]
        )
        for b, model in layout.shaped:
            if b in self.states:
                d = int(np.searchsorted(layout.first, b, side="right")) - 1
                lo, hi, _ = layout.blocks[b].tolist()
                states[b] = model.scaled(self.states[b], scales[d, layout.order[d, lo:hi]])
        loadings = None if self.loadings is None else self.loadings * scales[:, :, None]
        return replace(self, factors=factors, states=states, loadings=loadings)

    @property
    def partition(self) -> Partition:
        """The column groups."""
        return self.layout.distinct[0]

    @property
    def blocks(self) -> tuple[FloatArray, ...]:
        """The matrix of each block, in the order of ``partition.groups``; of Ψ with common factors."""
        places = self.layout.distinct_blocks.tolist()
        return tuple(L @ L.T for L in (block_of(self.factors, *place) for place in places))

    @property
    def logdet(self) -> float:
        """log|Σ|, the sum over the blocks and that of the common factors."""
        common = 0.0 if self.loadings is None else float(self.scoring.logdets[0])
        return float(2 * np.log(self.factors[self.layout.diagonal]).sum()) + common

    @property
    def variances(self) -> FloatArray:
        """The diagonal of Σ, shape (p,)."""
        variances = np.empty(self.partition.n_columns)
        for group, (lo, hi, start) in zip(self.partition.groups, self.layout.distinct_blocks.tolist(), strict=True):
            L = block_of(self.factors, lo, hi, start)
            variances[group] = np.einsum("ij,ij->i", L, L)
        return variances if self.loadings is None else variances + (self.loadings[0] ** 2).sum(axis=1)

    def sample(self, n: int, rng: np.random.RandomState | np.random.Generator) -> FloatArray:
        """Draw n centered rows, shape (n, p)."""
        noise: FloatArray = rng.standard_normal((n, self.partition.n_columns))
        rows = np.empty_like(noise)
        for group, place in zip(self.partition.groups, self.layout.distinct_blocks.tolist(), strict=True):
            rows[:, group] = noise[:, group] @ block_of(self.factors, *place).T
        if self.loadings is not None:
            rows += rng.standard_normal((n, self.loadings.shape[2])) @ self.loadings[0].T
        return rows

    def dense(self) -> FloatArray:
        """The covariance as a (p, p) matrix."""
        psi = self._spread(self.blocks)
        return psi if self.loadings is None else psi + self.loadings[0] @ self.loadings[0].T

    def precision(self) -> FloatArray:
        """The inverse covariance as a (p, p) matrix."""
        places = self.layout.distinct_blocks.tolist()
        inverse = self._spread([W.T @ W for W in (block_of(self.whiteners, *place) for place in places)])
        if self.loadings is None:
            return inverse
        return np.asarray(inverse - self.scoring.solved[0] @ self.scoring.slopes[0])

    @property
    def remaining(self) -> Blocks:
        """Ψ: the covariance without its common factors."""
        return self if self.loadings is None else replace(self, loadings=None)

    def _spread(self, matrices: Sequence[FloatArray]) -> FloatArray:
        place = np.argsort(self.partition.order)
        return np.asarray(block_diag(*matrices)[np.ix_(place, place)])


def block_of(flat: FloatArray, lo: int, hi: int, start: int) -> FloatArray:
    """The matrix (c, c) of a block of a flat array, as a view."""
    return flat[start : start + (hi - lo) ** 2].reshape(hi - lo, -1)


def factorized(layout: Layout, flat: FloatArray) -> FloatArray:
    """Cholesky factors of the distinct blocks of flat covariances, flat.

    A block that rounding has made indefinite is raised on its diagonal (see `cholesky`).
    """
    from blockmix.blocks.kernels import factorize

    factors, blocks = np.zeros(flat.shape), layout.distinct_blocks
    by_lapack, start = list(layout.large), 0
    while (failed := factorize(blocks[start:], flat, factors, SMALL)) >= 0:
        by_lapack.append(blocks[start + failed].tolist())
        start += failed + 1
    for place in by_lapack:
        block_of(factors, *place)[:] = cholesky(block_of(flat, *place))
    return factors


def cholesky(matrix: FloatArray) -> FloatArray:
    """Lower Cholesky factor of a matrix (c, c), with the diagonal raised as far as a factor needs it.

    The ridge of the estimators makes the first attempt succeed unless rounding cancels it (float32, hundreds of
    duplicated columns). Then the diagonal is raised, starting at machine precision and tenfold each time.
    """
    raised = np.array(matrix)
    variances = np.diagonal(matrix).copy()
    for power in range(12):  # to 1e-5: what rounding leaves of a correlation in float32
        try:
            factor: FloatArray = np.linalg.cholesky(raised)
        except np.linalg.LinAlgError:
            lift = len(matrix) * np.finfo(matrix.dtype).eps * 10.0**power
            raised.flat[:: len(matrix) + 1] = variances * (1 + lift)
            continue
        # LAPACK lets NaN through without an error; it ends up on the diagonal of the factor.
        if np.isfinite(np.diagonal(factor)).all():
            return factor
        break
    raise ValueError(
        f"a block of {len(matrix)} columns has no positive definite covariance: check for NaN or zero variance"
    )


def best_blocks(
    layout: Layout, flat: FloatArray, states: Mapping[int, FloatArray], loadings: FloatArray | None = None
) -> tuple[Blocks, dict[int, float]]:
    """Best covariances in the shapes of a layout for flat covariances, and the deviances of the blocks not full.

    Fits begin at the given states. Covariances of blocks that are not full are overwritten.
    """
    fitted: dict[int, FloatArray] = {}
    deviances: dict[int, float] = {}
    for b, model in layout.shaped:
        block = block_of(flat, *layout.blocks[b].tolist())
        fit = model.fit(block, states.get(b))
        block[:], deviances[b] = fit.covariance, fit.deviance
        if fit.state is not None:
            fitted[b] = fit.state
    return Blocks(layout, factorized(layout, flat), fitted, loadings), deviances
