"""E-step of the block mixture: log π_g f_g of rows under given parameters (paper, section 3).

Rows and parameters come in; joint log-densities go out, from which responsibilities and scores follow. The density of
a row with gaps is that of its values (docs/adr/0014). With heavy tails each row also has a weight u in each component,
which is small where the row is far away (docs/adr/0013).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from blockmix.em.block.parameters import SMALL, Layout, Parameters, block_of
from blockmix.em.block.tails import student
from blockmix.rows import Chunk
from blockmix.structure.types import FloatArray, IntArray


class Density(NamedTuple):
    """Parameters as the compiled loops take them.

    Attributes
    ----------
    level : array of shape (G,)
        log π_g − ½ log|2π Σ_g|.
    means : array of shape (G, p)
    order, blocks, first : arrays
        See `Layout`.
    whiteners : flat array
        Inverse Cholesky factors of the blocks.
    precisions : array of shape (G, p)
        Diagonals of the inverse covariances.
    freedom : array of shape (G,)
        Degrees of freedom; infinite for normal components.
    inverses : flat array
        Inverse blocks, for rows with gaps; empty if there are none.
    """

    level: FloatArray
    means: FloatArray
    order: IntArray
    blocks: IntArray
    first: IntArray
    whiteners: FloatArray
    precisions: FloatArray
    freedom: FloatArray
    inverses: FloatArray

    @classmethod
    def of(cls, parameters: Parameters, gaps: bool = True) -> Density:
        """The arrays of some parameters."""
        layout, level, freedom = parameters.layout, parameters.levels, parameters.degrees_of_freedom
        freedom = np.full(len(level), np.inf) if freedom is None else freedom
        whiteners = parameters.whiteners
        flat = whiteners, parameters.precisions, freedom, _inverses(layout, whiteners) if gaps else np.empty(0)
        return cls(level, parameters.means, layout.order, layout.blocks, layout.first, *flat)


def _inverses(layout: Layout, whiteners: FloatArray) -> FloatArray:
    """Inverse blocks P = WᵀW, flat."""
    from blockmix.em.block.gap_kernels import square

    inverses = np.empty(layout.size)
    square(layout.own_blocks, whiteners, inverses, SMALL)
    for place in layout.large:
        W = block_of(whiteners, *place)
        block_of(inverses, *place)[:] = W.T @ W
    return inverses


class Posterior(NamedTuple):
    """What the E-step knows of the rows of a chunk.

    Attributes
    ----------
    z : array of shape (m, G)
        Responsibilities.
    log_likelihood : float
    u : array of shape (m, G) or None
        Weights of the rows in the moments of a component, (ν + p)/(ν + δ); None, for 1, if components are normal.
    """

    z: FloatArray
    log_likelihood: float
    u: FloatArray | None


def posterior(chunk: Chunk, density: Density) -> Posterior:
    """Responsibilities, log-likelihood and weights of the rows of a chunk."""
    from blockmix.em.block.kernels import responsibilities

    z, u = _log_joint(chunk, density)
    return Posterior(z, responsibilities(z, chunk.weights), u)


def log_joint(chunk: Chunk, density: Density) -> FloatArray:
    """Log π_g f_g(x) of the standardized rows of a chunk, shape (m, G), in double precision."""
    return _log_joint(chunk, density)[0]


def half_distances(chunk: Chunk, density: Density) -> FloatArray:
    """−½δ of the rows of a chunk, shape (m, G).

    δ = (x − μ)ᵀΣ⁻¹(x − μ) + Σ_j Δ_j (Σ⁻¹)_jj over the columns that a row has: a rounded value has the mean of the
    values that it stands for.
    """
    return _distances(chunk, density._replace(level=np.zeros(len(density.level))))[0]


def _distances(chunk: Chunk, density: Density) -> tuple[FloatArray, FloatArray | None]:
    """Level − ½δ of the rows, shape (m, G), and what gaps gain in log-density, of that shape; None without gaps."""
    from blockmix.em.block.kernels import log_joint

    found = np.empty((len(chunk.X), len(density.level)))
    gain = np.zeros_like(found) if chunk.has_gaps else None
    log_joint(chunk.X, chunk.units, chunk.rounding, density, found, gain)
    return found, gain


def _log_joint(chunk: Chunk, density: Density) -> tuple[FloatArray, FloatArray | None]:
    """Log π_g f_g(x), shape (m, G), and the weights u if the tails are heavy."""
    from blockmix.em.block.kernels import beyond_reach

    u = None
    if np.isinf(density.freedom).all():
        joint, gain = _distances(chunk, density)
    else:
        joint, gain = _distances(chunk, density._replace(level=np.zeros(len(density.level))))
        u = student(joint, density.level, density.freedom, chunk.observed, chunk.X.shape[1])
    if gain is not None:
        joint += gain
    lost = beyond_reach(joint)
    if len(lost):
        joint[lost] = _beyond(chunk.take(lost), density)
    return joint, u


def _beyond(chunk: Chunk, density: Density) -> FloatArray:
    """Log π_g f_g of rows so far away that their distances overflow: the least number for the nearest component."""
    # Only the direction matters at such distances.
    X = chunk.X
    directions = X / np.nanmax(np.abs(X), axis=1, keepdims=True)
    level = np.where(np.isfinite(density.level), 0.0, -np.inf)
    central = density._replace(level=level, means=np.zeros_like(density.means))
    none = np.zeros_like(chunk.location)
    scale = chunk.scale / chunk.scale.min()
    joint, _ = _distances(Chunk(directions, chunk.weights, chunk.place, none, scale), central)
    far = np.full(joint.shape, -np.inf)
    far[np.arange(len(X)), joint.argmax(axis=1)] = -np.finfo(float).max
    return far
