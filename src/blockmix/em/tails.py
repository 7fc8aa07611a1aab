"""Heavy tails: components with multivariate t densities, whose degrees of freedom ν say how heavy (docs/adr/0013).

Squared distances δ of rows give their log-densities and weights u; the sums of a sweep give new degrees of freedom.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, gammaln

from blockmix.partition import FloatArray, IntArray
from blockmix.rows import Chunk

# From a Cauchy component to one that no sample distinguishes from a normal one.
LEAST, LARGEST = 1.0, 200.0
FIRST = 4.0  # heavy enough to give outliers in the clusters of a start little weight from the first sweep on


def student(
    joint: FloatArray, level: FloatArray, freedom: FloatArray, observed: IntArray, n_columns: int
) -> FloatArray:
    """Turn −½δ (m, G) into log π_g t(x; μ_g, Σ_g, ν_g) in place; return the weights u = (ν + p)/(ν + δ), shape (m, G).

    Parameters
    ----------
    joint : array of shape (m, G)
    level : array of shape (G,)
        log π_g − ½ log|2π Σ_g|, as of a normal component.
    freedom : array of shape (G,)
    observed : array of shape (m,)
        Number of columns that each row has, at most `n_columns`; it takes the place of p.
    n_columns : int
    """
    from blockmix.em import kernels

    u = np.empty_like(joint)
    kernels.student(joint, level, freedom, constants(freedom, n_columns), observed, u)
    return u


def constants(freedom: FloatArray, n_columns: int) -> FloatArray:
    """Log of t's constant over the normal one's for ν (…,) and 0 … p columns, shape (…, p + 1)."""
    half, c = freedom[..., None] / 2, np.arange(n_columns + 1) / 2
    return np.asarray(gammaln(half + c) - gammaln(half) - c * np.log(half))


def reweighted(chunk: Chunk, z: FloatArray, u: FloatArray, freedom: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Σz and Σz(E log u − u) of a chunk, shapes (G,), with z multiplied by u in place."""
    from blockmix.em.kernels import reweight

    weight, tail = np.zeros(z.shape[1]), np.zeros(z.shape[1])
    # E log u − log E u, given a row, for 0 … p columns.
    half = (freedom[:, None] + np.arange(chunk.X.shape[1] + 1)) / 2
    reweight(chunk.weights, z, u, digamma(half) - np.log(half), chunk.observed, weight, tail)
    return weight, tail


def new_freedom(tail: FloatArray, weight: FloatArray, old: FloatArray) -> FloatArray:
    """The ν that solve log(ν/2) − ψ(ν/2) + 1 + T/n = 0, shape (G,), with T = Σz(E log u − E u) and n = Σz.

    The left side falls with ν, so beyond the ends of the range the ν at the end is best. A component without rows
    keeps its own.
    """
    new = old.copy()
    for g in np.flatnonzero(weight > 0):
        slope = 1 + tail[g] / weight[g]
        if _slope(LEAST, slope) <= 0:
            new[g] = LEAST
        elif _slope(LARGEST, slope) >= 0:
            new[g] = LARGEST
        else:
            new[g] = brentq(_slope, LEAST, LARGEST, args=(slope,), xtol=1e-10)
    return new


def _slope(freedom: float, rest: float) -> float:
    return float(np.log(freedom / 2) - digamma(freedom / 2) + rest)
