"""E-step of the block mixture: log π_g f_g of rows under given parameters (paper, section 3).

Rows and parameters come in; joint log-densities go out, from which responsibilities and scores follow. With heavy
tails each row also has a weight u in each component, which is small where the row is far away (docs/adr/0013).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from blockmix.em.block.parameters import Parameters
from blockmix.em.block.tails import student
from blockmix.rows import Chunk
from blockmix.structure.types import FloatArray, IntArray


class Density(NamedTuple):
    """Parameters as the compiled loops take them, in the precision of the rows.

    Attributes
    ----------
    level : array of shape (G,)
        log π_g − ½ log|2π Σ_g|, in double precision.
    means : array of shape (G, p)
    order, blocks, first : arrays
        See `Layout`.
    whiteners : flat array
        Inverse Cholesky factors of the blocks.
    precisions : array of shape (G, p)
        Diagonals of the inverse covariances, in double precision.
    freedom : array of shape (G,)
        Degrees of freedom; infinite for normal components.
    """

    level: FloatArray
    means: FloatArray
    order: IntArray
    blocks: IntArray
    first: IntArray
    whiteners: FloatArray
    precisions: FloatArray
    freedom: FloatArray

    @classmethod
    def of(cls, parameters: Parameters, dtype: np.dtype[Any]) -> Density:
        """Round the parameters to the precision of the rows.

        The log-determinants are those of the rounded whiteners, so the density is exactly that of the rounded
        parameters, and the objective does not fall by rounding alone.
        """
        from blockmix.em.block.kernels import half_logdets

        layout, p = parameters.layout, parameters.means.shape[1]
        whiteners = parameters.whiteners.astype(dtype, copy=False)
        logs = layout.per_component(half_logdets(layout.blocks, whiteners))
        with np.errstate(divide="ignore"):
            level = np.log(parameters.weights) + logs - 0.5 * p * np.log(2 * np.pi)
        means = parameters.means.astype(dtype, copy=False)
        freedom = parameters.degrees_of_freedom
        freedom = np.full(len(level), np.inf) if freedom is None else freedom
        return cls(level, means, layout.order, layout.blocks, layout.first, whiteners, parameters.precisions, freedom)


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

    δ = (x − μ)ᵀΣ⁻¹(x − μ) + Σ_j Δ_j (Σ⁻¹)_jj: a rounded value has the mean of the values that it stands for.
    """
    from blockmix.em.block.kernels import log_joint

    found = np.empty((len(chunk.X), len(density.level)))
    log_joint(chunk.X, chunk.units, chunk.rounding, density._replace(level=np.zeros(len(density.level))), found)
    return found


def _log_joint(chunk: Chunk, density: Density) -> tuple[FloatArray, FloatArray | None]:
    """Log π_g f_g(x), shape (m, G), and the weights u if the tails are heavy."""
    from blockmix.em.block.kernels import log_joint

    joint: FloatArray = np.empty((len(chunk.X), len(density.level)))
    u = None
    if np.isinf(density.freedom).all():
        log_joint(chunk.X, chunk.units, chunk.rounding, density, joint)
    else:
        joint = half_distances(chunk, density)
        u = student(joint, density.level, density.freedom, chunk.X.shape[1])
    lost = np.flatnonzero(~(joint.max(axis=1) > -np.inf))
    if len(lost):
        joint[lost] = _beyond(chunk.X[lost], 1 / chunk.scale, density)
    return joint, u


def _beyond(X: FloatArray, inverse: FloatArray, density: Density) -> FloatArray:
    """Log π_g f_g of rows so far away that their distances overflow: the least number for the nearest component."""
    from blockmix.em.block.kernels import log_joint

    # Only the direction matters at such distances.
    directions = (X / np.abs(X).max(axis=1, keepdims=True)).astype(density.means.dtype)
    none = np.empty(0, dtype=np.intp), np.zeros((0, 1)), np.zeros((len(X), 0), dtype=np.uint16)
    level = np.where(np.isfinite(density.level), 0.0, -np.inf)
    central = density._replace(level=level, means=np.zeros_like(density.means))
    joint = np.empty((len(X), len(level)))
    log_joint(directions, (np.zeros_like(inverse), inverse / inverse.max()), none, central, joint)
    far = np.full(joint.shape, -np.inf)
    far[np.arange(len(X)), joint.argmax(axis=1)] = -np.finfo(float).max
    return far
