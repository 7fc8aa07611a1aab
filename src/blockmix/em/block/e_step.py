"""E-step of the block mixture: log π_g f_g of rows under given parameters (paper, section 3).

Rows and parameters come in; joint log-densities go out, from which responsibilities and scores follow.
"""

from __future__ import annotations

import numpy as np

from blockmix.em.block.parameters import Parameters
from blockmix.rows import Chunk
from blockmix.structure.types import FloatArray


def log_joint(chunk: Chunk, parameters: Parameters) -> FloatArray:
    """Log π_g f_g(x) of standardized rows, shape (m, G), in double precision.

    The whiteners are rounded to the precision of the rows, and the log-determinants are those of the rounded ones: the
    density is exactly that of the rounded parameters, so the objective does not fall by rounding alone.
    """
    from blockmix.em.block.kernels import log_joint

    layout = parameters.layout
    whiteners = parameters.whiteners.astype(chunk.X.dtype, copy=False)
    half_logdets = layout.per_component(np.log(whiteners[layout.diagonal].astype(float)))
    with np.errstate(divide="ignore"):
        level = np.log(parameters.weights) + half_logdets - 0.5 * chunk.X.shape[1] * np.log(2 * np.pi)
    joint = np.empty((len(chunk.X), len(level)))
    means = parameters.means.astype(chunk.X.dtype, copy=False)
    inverse = 1 / chunk.scale
    log_joint(
        chunk.X, chunk.location, inverse, level, means, layout.order, layout.blocks, layout.first, whiteners, joint
    )
    return joint
