"""Shapes of a block: how many parameters it has, and its best covariance for a scatter.

A covariance S of c columns comes in; the covariance Σ of a shape that minimizes the deviance log|Σ| + tr Σ⁻¹S goes out.
A full block (the paper's) has c(c+1)/2 parameters. A block of few factors, ΛΛᵀ + Ψ, and a tree, in which each column
depends on one other, have a few per column, and can hold modules of many columns that few rows support.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Protocol, runtime_checkable

import numpy as np

from blockmix.blocks.moments import Covariance, entries
from blockmix.partition import FloatArray, IntArray

_TOLERANCE = 1e-8  # fall of the deviance, per column, from which the factors of a block have settled
_MAX_STEPS = 1000


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
    """A shape of a block. It is hashable, as objects are unless they define equality."""

    @property
    def name(self) -> str:
        """Name of the shape."""
        ...

    def n_parameters(self, c: int) -> int:
        """Free parameters of a block of c columns."""
        ...

    def choice_price(self, c: int, p: int) -> float:
        """Log-likelihood that the choice among the structures of the shape must earn, for c of p columns.

        It comes on top of the price of a group, `structure.objective.partition_prices`.
        """
        ...

    def rows_needed(self, c: int) -> int:
        """Rows from which the covariance of c columns is not singular."""
        ...

    def fit(self, S: FloatArray, start: FloatArray | None = None) -> BlockFit:
        """Best covariance for S, shape (c, c); from a start no worse than the start itself."""
        ...

    def scaled(self, state: FloatArray, deviations: FloatArray) -> FloatArray:
        """The state for columns multiplied by deviations, shape (c,)."""
        ...

    def accepts(self, state: FloatArray, c: int) -> bool:
        """Whether an array can be the state of a block of c columns."""
        ...

    def loadings(self, state: FloatArray | None) -> FloatArray | None:
        """Loadings of the columns on common factors, shape (c, q); None if the shape has none."""
        ...

    def deviances(self, R: Any, tree: FloatArray, span: IntArray, largest: float) -> FloatArray:
        """Deviance of every node of a tree of columns; infinite where the shape is not offered, shape (2p − 1,).

        The columns of R, shape (p, p), are in the order of the leaves, and node v holds the columns ``span[v, 0]`` to
        ``span[v, 1]``. Nodes of `largest` columns or more have too few rows for a full block. A shape with an attribute
        `takes_rows` that is true may be given a `GramMatrix` in place of an array.
        """
        ...


class FullBlock:
    """Any covariance: c(c+1)/2 parameters (paper, eq. 2)."""

    name = "full"
    takes_rows = True

    def n_parameters(self, c: int) -> int:
        """Free parameters of a block of c columns."""
        return c * (c + 1) // 2

    def choice_price(self, c: int, p: int) -> float:
        """There is one structure."""
        return 0.0

    def rows_needed(self, c: int) -> int:
        """Rows from which the covariance of c columns is not singular."""
        return c

    def fit(self, S: FloatArray, start: FloatArray | None = None) -> BlockFit:
        """S itself."""
        return BlockFit(S, float(np.linalg.slogdet(S)[1]) + len(S))

    def scaled(self, state: FloatArray, deviations: FloatArray) -> FloatArray:
        """A full block has no state."""
        return state

    def accepts(self, state: FloatArray, c: int) -> bool:
        """A full block has no state."""
        return False

    def loadings(self, state: FloatArray | None) -> FloatArray | None:
        """The shape has no factors."""
        return None

    def deviances(self, R: Covariance, tree: FloatArray, span: IntArray, largest: float) -> FloatArray:
        """log|R_v| + c for nodes of fewer than `largest` columns."""
        from blockmix.blocks.kernels import full_deviances

        found: FloatArray = full_deviances(entries(R), tree, span, float(max(largest, 2)))
        return found


class FactorBlock:
    """q common factors and a noise of its own for each column, ΛΛᵀ + Ψ: c(q+1) − q(q−1)/2 parameters.

    The state holds Λ and the diagonal of Ψ side by side, shape (c, q + 1).

    Parameters
    ----------
    n_factors : int
    """

    takes_rows = True

    def __init__(self, n_factors: int = 1) -> None:
        self.n_factors = n_factors

    @property
    def name(self) -> str:
        """Name of the shape."""
        return f"{self.n_factors} factor{'' if self.n_factors == 1 else 's'}"

    def n_parameters(self, c: int) -> int:
        """Free parameters of a block of c columns; factors beyond c add none."""
        q = min(self.n_factors, c)
        return c * (q + 1) - q * (q - 1) // 2

    def choice_price(self, c: int, p: int) -> float:
        """There is one structure."""
        return 0.0

    def rows_needed(self, c: int) -> int:
        """Rows from which the covariance of c columns is not singular."""
        return min(c, self.n_factors + 1)

    def fit(self, S: FloatArray, start: FloatArray | None = None) -> BlockFit:
        """EM for factor analysis from a start, or from principal axes."""
        from blockmix.blocks.kernels import factor_fit

        q = self.n_factors
        state = np.array(_principal(S, q) if start is None else start)
        loadings, noise = np.ascontiguousarray(state[:, :q].T), np.ascontiguousarray(state[:, q])
        given, c = entries(np.ascontiguousarray(S)), len(S)
        deviance = factor_fit(given, 0, c, loadings, noise, _TOLERANCE * c, _MAX_STEPS)
        covariance = loadings.T @ loadings
        covariance.flat[:: len(S) + 1] += noise
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
        from blockmix.blocks.kernels import factor_deviances

        found: FloatArray = factor_deviances(entries(R), tree, span, self.n_factors)
        return found


class TreeBlock:
    """Each column depends on one other: a spanning tree of correlations, with 2c − 1 parameters.

    The correlation of two columns is the product of those along the path between them. Suits chains, such as time
    points, positions or ordered sensors. The state holds the edges, parents first, shape (c − 1, 2).
    """

    name = "tree"
    takes_rows = True
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

    def rows_needed(self, c: int) -> int:
        """Rows from which the covariance of c columns is not singular."""
        return min(c, 2)

    def fit(self, S: FloatArray, start: FloatArray | None = None) -> BlockFit:
        """The tree of the strongest correlations (Chow and Liu): the best of all trees, so no start is needed."""
        from blockmix.blocks.kernels import strongest_tree, tree_covariance

        S = np.ascontiguousarray(S)
        edges = strongest_tree(S)
        covariance, deviance = tree_covariance(S, edges)
        return BlockFit(covariance, deviance, edges.astype(float))

    def scaled(self, state: FloatArray, deviations: FloatArray) -> FloatArray:
        """Edges have no units."""
        return state

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

    def loadings(self, state: FloatArray | None) -> FloatArray | None:
        """The shape has no factors."""
        return None

    def deviances(self, R: Covariance, tree: FloatArray, span: IntArray, largest: float) -> FloatArray:
        """Deviances of the trees that join the trees of two branches by their strongest correlation."""
        from blockmix.blocks.kernels import tree_deviances

        found: FloatArray = tree_deviances(entries(R), tree, span)
        return found


def _principal(S: FloatArray, q: int) -> FloatArray:
    """Loadings and noise from the leading q principal axes of the correlation, shape (c, q + 1)."""
    c, deviations = len(S), np.sqrt(np.diagonal(S))
    values, vectors = np.linalg.eigh(S / deviations[:, None] / deviations)
    spare = max(float(values[:-q].mean()) if c > q else 0.0, 0.0)  # the mean of what is left, as in probabilistic PCA
    loadings = vectors[:, ::-1][:, :q] * np.sqrt(np.maximum(values[::-1][:q] - spare, 0.01))
    noise = np.maximum(1 - (loadings**2).sum(axis=1), 0.1)
    return np.column_stack([loadings * deviations[:, None], noise * deviations**2])


FULL = FullBlock()


def block_models(shape: object) -> tuple[BlockModel, ...]:
    """The shapes that a parameter `block_model` allows: all of ours for "auto", else the one it names."""
    if isinstance(shape, str) and shape in _SHAPES:
        return _SHAPES[shape]
    if isinstance(shape, Integral) and not isinstance(shape, bool) and int(shape) >= 1:
        return FULL, FactorBlock(int(shape))
    if isinstance(shape, BlockModel) and not isinstance(shape, type):
        return FULL, shape
    if isinstance(shape, Sequence) and shape and all(isinstance(model, BlockModel) for model in shape):
        return tuple(shape)
    raise ValueError(
        f"block_model={shape!r} must be one of {', '.join(_SHAPES)}, a number of factors, or an object with the "
        "methods of BlockModel"
    )


_SHAPES: dict[str, tuple[BlockModel, ...]] = {
    "auto": (FULL, FactorBlock(1), FactorBlock(2), TreeBlock()),
    "full": (FULL,),
    "tree": (FULL, TreeBlock()),
}


def offered(model: BlockModel, c: int) -> bool:
    """Whether a shape is cheaper than a full block of c columns."""
    return model.name == FULL.name or model.n_parameters(c) < FULL.n_parameters(c)


def given_shape(shape: object) -> BlockModel:
    """The shape that a parameter `block_model` names for given groups; full for "auto"."""
    return FULL if shape == "auto" else block_models(shape)[-1]


def cheaper_shapes(model: BlockModel, sizes: IntArray) -> tuple[BlockModel, ...]:
    """The given shape for the groups where it is cheaper than a full block, full for the others."""
    return tuple(model if offered(model, c) else FULL for c in sizes.tolist())
