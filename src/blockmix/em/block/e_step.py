"""E-step of the block mixture: log π_g f_g of rows under given parameters (paper, section 3).

Rows and parameters come in; joint log-densities go out, from which responsibilities and scores follow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from blockmix.em.block.parameters import Parameters
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
    """

    level: FloatArray
    means: FloatArray
    order: IntArray
    blocks: IntArray
    first: IntArray
    whiteners: FloatArray
    precisions: FloatArray

    @classmethod
    def of(cls, parameters: Parameters, dtype: np.dtype[Any]) -> Density:
        """Round the parameters to the precision of the rows.

        The log-determinants are those of the rounded whiteners, so the density is exactly that of the rounded
        parameters, and the objective does not fall by rounding alone.
        """
        layout, p = parameters.layout, parameters.means.shape[1]
        whiteners = parameters.whiteners.astype(dtype, copy=False)
        half_logdets = layout.per_component(np.log(whiteners[layout.diagonal].astype(float)))
        with np.errstate(divide="ignore"):
            level = np.log(parameters.weights) + half_logdets - 0.5 * p * np.log(2 * np.pi)
        means = parameters.means.astype(dtype, copy=False)
        return cls(level, means, layout.order, layout.blocks, layout.first, whiteners, parameters.precisions)


def log_joint(chunk: Chunk, density: Density) -> FloatArray:
    """Log π_g f_g(x) of the standardized rows of a chunk, shape (m, G), in double precision."""
    from blockmix.em.block.kernels import log_joint

    joint = np.empty((len(chunk.X), len(density.level)))
    log_joint(chunk.X, chunk.units, chunk.rounding, density, joint)
    lost = np.flatnonzero(~(joint.max(axis=1) > -np.inf))
    if len(lost):
        joint[lost] = _beyond(chunk.X[lost], 1 / chunk.scale, density)
    return joint


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


def posterior(chunk: Chunk, density: Density) -> tuple[FloatArray, float]:
    """Responsibilities (m, G) of the rows of a chunk, and its log-likelihood."""
    from blockmix.em.block.kernels import responsibilities

    z = log_joint(chunk, density)
    return z, responsibilities(z, chunk.weights)
