"""Shapes of a block: how many parameters it has, and its best covariance for a scatter.

For a covariance S of c columns a shape gives the Σ that minimizes the deviance log|Σ| + tr Σ⁻¹S. A full block (the
paper's) has c(c+1)/2 parameters. A block of few factors, ΛΛᵀ + Ψ, and a tree, in which each column depends on one
other, have a few per column, and can hold modules of many columns that few rows support.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from numbers import Integral
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from blockmix.blocks.moments import Covariance, as_matrix
from blockmix.partition import FloatArray, IntArray

# Largest block that the compiled loops factor; LAPACK is faster from here on and calling it costs 10 µs a block.
SMALL = 48
_TOLERANCE = 1e-8  # fall of the deviance, per column, from which the factors of a block have settled
_MAX_STEPS = 1000
_LEAST_NOISE = 0.005  # least share of its variance that a column has of its own (Heywood cases end here)


@dataclass(frozen=True, eq=False)
class BlockFit:
    """The best covariance of a shape.

    Attributes
    ----------
    covariance : array of shape (c, c)
    deviance : float
        log|Σ| + tr Σ⁻¹S.
    state : array or None
        What a later fit to a similar scatter starts from.
    """

    covariance: FloatArray
    deviance: float
    state: FloatArray | None = None


@runtime_checkable
class BlockModel(Protocol):
    """A shape of a block. Derive from it for the defaults: no structure to choose, no state, no factors.

    It is hashable, as objects are unless they define equality.

    Attributes
    ----------
    name : str
    rank : float
        min(c, rank) rows are needed for a covariance of c columns that is not singular; infinite by default.
    """

    name: str
    rank: float = math.inf

    def n_parameters(self, c: int) -> int:
        """Free parameters of a block of c columns."""

    def fit(self, S: FloatArray, start: FloatArray | None = None) -> BlockFit:
        """Best covariance for S, shape (c, c); from a start no worse than the start itself."""

    def deviances(self, R: Any, tree: FloatArray, span: IntArray, largest: float) -> FloatArray:
        """Deviance of every node of a tree of columns; infinite where the shape is not offered, shape (2p − 1,).

        The columns of R, shape (p, p), are in the order of the leaves, and node v holds the columns ``span[v, 0]`` to
        ``span[v, 1]``. Nodes of `largest` columns or more have too few rows for a full block.
        """

    def choice_price(self, c: int, p: int) -> float:
        """Log-likelihood that the choice among the structures of the shape must earn, for c of p columns.

        It comes on top of the price of a group, `partition.partition_prices`.
        """
        return 0.0

    def scaled(self, state: FloatArray, deviations: FloatArray) -> FloatArray:
        """The state for columns multiplied by deviations, shape (c,)."""
        return state

    def accepts(self, state: FloatArray, c: int) -> bool:
        """Whether an array can be the state of a block of c columns."""
        return False

    def loadings(self, state: FloatArray | None) -> FloatArray | None:
        """Loadings of the columns on common factors, shape (c, q); None if the shape has none."""
        return None


class FullBlock(BlockModel):
    """Any covariance: c(c+1)/2 parameters (paper, eq. 2).

    Parameters
    ----------
    other : BlockModel, optional
        A shape that takes the place of full blocks wherever it is cheaper.
    """

    name = "full"

    def __init__(self, other: BlockModel | None = None) -> None:
        self.other = other

    def n_parameters(self, c: int) -> int:
        """Free parameters of a block of c columns."""
        return c * (c + 1) // 2

    def fit(self, S: FloatArray, start: FloatArray | None = None) -> BlockFit:
        """S itself."""
        return BlockFit(S, float(np.linalg.slogdet(S)[1]) + len(S))

    def deviances(self, R: Covariance, tree: FloatArray, span: IntArray, largest: float) -> FloatArray:
        """log|R_v| + c for nodes of fewer than `largest` columns."""
        from blockmix.blocks.kernels import node_logdets  # loads Numba

        c, logdets = span[:, 1] - span[:, 0], np.zeros(len(span))
        room = np.empty((min(len(R), SMALL), min(len(R), SMALL) + 1))
        node_logdets(as_matrix(R).entries, tree, span, min(largest, SMALL + 1.0), room, logdets)
        for top in np.flatnonzero((c > SMALL) & (c < largest))[::-1].tolist():
            if logdets[top] == 0:  # else one with the same first column has been factored
                lo, hi = span[top].tolist()
                pivots = np.linalg.cholesky(R[np.ix_(np.arange(lo, hi), np.arange(lo, hi))]).diagonal()
                nested = (span[:, 0] == lo) & (span[:, 1] <= hi) & (c > SMALL)
                logdets[nested] = 2 * np.cumsum(np.log(pivots))[c[nested] - 1]
        return np.where((c < largest) | (c < 2), logdets + c, np.inf)


class FactorBlock(BlockModel):
    """q common factors and a noise of its own for each column, ΛΛᵀ + Ψ: c(q+1) − q(q−1)/2 parameters.

    The state holds Λ and the diagonal of Ψ side by side, shape (c, q + 1).

    Parameters
    ----------
    n_factors : int
    """

    def __init__(self, n_factors: int = 1) -> None:
        self.n_factors = n_factors
        self.name = f"{n_factors} factor{'' if n_factors == 1 else 's'}"
        self.rank = n_factors + 1

    def n_parameters(self, c: int) -> int:
        """Free parameters of a block of c columns; factors beyond c add none."""
        q = min(self.n_factors, c)
        return c * (q + 1) - q * (q - 1) // 2

    def fit(self, S: FloatArray, start: FloatArray | None = None) -> BlockFit:
        """EM for factor analysis from a start, or from the leading principal axes of the correlation."""
        from blockmix.blocks.kernels import factor_em, workspace  # loads Numba

        q, c = self.n_factors, len(S)
        if start is None:
            deviations = np.sqrt(np.diagonal(S))
            values, vectors = np.linalg.eigh(S / deviations[:, None] / deviations)
            rest = max(float(values[:-q].mean()) if c > q else 0.0, 0.0)  # as in probabilistic PCA
            axes = vectors[:, ::-1][:, :q] * np.sqrt(np.maximum(values[::-1][:q] - rest, 0.01))
            unique = np.maximum(1 - (axes**2).sum(axis=1), 0.1)
            start = np.column_stack([axes * deviations[:, None], unique * deviations**2])
        loadings, noise = np.array(start[:, :q].T, order="C"), np.array(start[:, q])
        entries = as_matrix(np.ascontiguousarray(S)).entries
        # The floor is lowered to the start where that is below it, so that no step is for the worse.
        least = np.minimum(_LEAST_NOISE * np.diagonal(S), noise)
        work = workspace(entries, q, c)
        deviance = factor_em(entries, 0, c, c, loadings, noise, least, work, _MAX_STEPS + 1, _TOLERANCE * c)
        covariance = loadings.T @ loadings
        covariance.flat[:: c + 1] += noise
        return BlockFit(covariance, deviance, np.column_stack([loadings.T, noise]))

    def scaled(self, state: FloatArray, deviations: FloatArray) -> FloatArray:
        """Loadings times the deviations, noise times their squares."""
        powers = np.column_stack([deviations] * self.n_factors + [deviations**2])
        return np.asarray(state * powers)

    def accepts(self, state: FloatArray, c: int) -> bool:
        """Whether an array holds loadings and positive noise of c columns."""
        return state.shape == (c, self.n_factors + 1) and bool((state[:, -1] > 0).all())

    def loadings(self, state: FloatArray | None) -> FloatArray | None:
        """Principal axes of ΛΛᵀ in columns of unit noise, strongest first, the largest loading of each positive."""
        if state is None:
            return None
        raw, deviations = state[:, :-1], np.sqrt(state[:, -1:])
        # Only ΛΛᵀ is identified: rotate Λ so that ΛᵀΨ⁻¹Λ is diagonal.
        rotation = np.linalg.svd(raw / deviations, full_matrices=False)[2].T
        axes = raw / deviations @ rotation  # free of units, so that these do not decide about the signs
        largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)
        return np.asarray(axes * np.where(largest < 0, -1, 1) * deviations)

    def deviances(self, R: Covariance, tree: FloatArray, span: IntArray, largest: float) -> FloatArray:
        """Deviances of nodes for which the shape is cheaper than a full block, by a few steps of EM at each node."""
        from blockmix.blocks.kernels import factor_deviances, workspace

        entries, q, p = as_matrix(R).entries, self.n_factors, len(R)
        deviances, used = np.full(len(span), np.inf), np.ones(len(span), dtype=np.intp)
        loadings, noise, least = np.zeros((3, q, p)), np.ones((3, p)), np.full(p, _LEAST_NOISE)
        factor_deviances(entries, tree, span, deviances, used, loadings, noise, least, workspace(entries, q, p))
        return deviances


class TreeBlock(BlockModel):
    """Each column depends on one other: a spanning tree of correlations, with 2c − 1 parameters.

    The correlation of two columns is the product of those along the path between them. Suits chains, such as time
    points, positions or ordered sensors. The state holds the edges, parents first, shape (c − 1, 2).
    """

    name = "tree"
    rank = 2
    linkage = "single"  # the tree of columns whose branches are its best groups: that of the strongest correlations

    def n_parameters(self, c: int) -> int:
        """Free parameters of a block of c columns."""
        return 2 * c - 1

    def choice_price(self, c: int, p: int) -> float:
        """What makes each edge cost 3/2 log p, the price of the group included.

        An edge may join any two of p columns. The log of the number c^(c−2) of trees would not do: the larger a group,
        the less a further column costs, so joining two trees by their strongest correlation cost next to nothing.
        """
        if c < 3:
            return 0.0
        group = c * math.log(p) - math.lgamma(c)
        return 1.5 * (c - 1) * math.log(p) - group

    def fit(self, S: FloatArray, start: FloatArray | None = None) -> BlockFit:
        """The tree of the strongest correlations (Chow and Liu): the best of all trees, so no start is needed."""
        from blockmix.blocks.kernels import strongest_tree

        S, c = np.ascontiguousarray(S), len(S)
        edges, covariance = np.empty((c - 1, 2), dtype=np.intp), np.empty((c, c))
        deviance = strongest_tree(S, edges, covariance, np.empty(c), np.empty(c, dtype=np.intp))
        return BlockFit(covariance, deviance, edges.astype(float))

    def accepts(self, state: FloatArray, c: int) -> bool:
        """Whether an array holds the edges of a tree, each from a column reached before to a new one."""
        if state.shape != (c - 1, 2) or not np.isin(state, np.arange(c)).all():
            return False
        reached = {float(state[0, 0])} if c > 1 else set[float]()
        for parent, child in state.tolist():
            if parent not in reached or child in reached:
                return False
            reached.add(child)
        return True

    def deviances(self, R: Covariance, tree: FloatArray, span: IntArray, largest: float) -> FloatArray:
        """Deviances of the trees that join the trees of two branches by their strongest correlation."""
        from blockmix.blocks.kernels import tree_deviances

        deviances = np.full(len(span), np.inf)
        tree_deviances(as_matrix(R).entries, tree, span, np.zeros(len(span)), deviances)
        return deviances


FULL = FullBlock()
_TREE = TreeBlock()
_SHAPES: dict[str, tuple[BlockModel, ...]] = {"auto": (FULL, FactorBlock(1), FactorBlock(2), _TREE), "full": (FULL,)}


# One object for each number of factors, and one full block beside each shape, so that prices are computed once.
_factor_block = cache(FactorBlock)


@cache
def _full_beside(shape: Any) -> FullBlock:
    return FullBlock(shape)


def block_models(shape: object) -> tuple[BlockModel, ...]:
    """The shapes that a parameter `block_model` allows: all of ours for "auto", else the one it names.

    Groups of so few columns that the shape has no fewer parameters than a full block have full ones.
    """
    if isinstance(shape, str) and shape in _SHAPES:
        return _SHAPES[shape]
    if isinstance(shape, str) and shape == _TREE.name:
        shape = _TREE
    if isinstance(shape, Integral) and not isinstance(shape, bool) and int(shape) >= 1:
        shape = _factor_block(int(shape))
    if isinstance(shape, FullBlock):
        return (shape,)
    if isinstance(shape, BlockModel) and not isinstance(shape, type):
        return _full_beside(cast(Any, shape)), shape
    if isinstance(shape, Sequence) and shape and all(isinstance(model, BlockModel) for model in shape):
        return tuple(shape)
    raise ValueError(
        f"block_model={shape!r} must be one of {', '.join(_SHAPES)}, {_TREE.name}, a number of factors, or an object "
        "with the methods of BlockModel"
    )


def given_shape(shape: object) -> BlockModel:
    """The shape that a parameter `block_model` gives to groups whose number is given; full if that may be chosen."""
    models = block_models(shape)
    return FULL if FULL in models else models[-1]


def offered(model: BlockModel, c: int) -> bool:
    """Whether a block of c columns may have a shape: one that is cheaper than full, or full beside no such shape."""
    if isinstance(model, FullBlock):
        return model.other is None or not offered(model.other, c)
    return 2 * model.n_parameters(c) < c * (c + 1)


def cheaper_shapes(shape: BlockModel, sizes: IntArray) -> tuple[BlockModel, ...]:
    """The given shape for the groups where it is cheaper than a full block, full for the others; empty if all are."""
    if shape.name == FULL.name:
        return ()
    shapes = tuple(shape if offered(shape, c) else FULL for c in sizes.tolist())
    return shapes if any(model.name != FULL.name for model in shapes) else ()
