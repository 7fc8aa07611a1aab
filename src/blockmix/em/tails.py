"""Heavy tails: components with multivariate t densities, whose degrees of freedom ν say how heavy (docs/adr/0013).

The densities themselves are in `parameters`. Here are the row weights u in the sums of a sweep, and the M-step of the
degrees of freedom.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma

from blockmix.blocks.blocks import Blocks
from blockmix.em.parameters import Density, Parameters, Prior, distances, posterior, student_constants
from blockmix.partition import FloatArray, IntArray
from blockmix.rows import Chunk, Rows

# From a Cauchy component to one that no sample distinguishes from a normal one.
LEAST, LARGEST = 1.0, 200.0
_GRID = np.geomspace(LEAST, LARGEST, 16)  # candidates of a leap
_SOME, _SHRUNK = (2.0, 4.0, 8.0, 16.0, 32.0), np.geomspace(0.05, 1, 10)  # ν and a of a first look
FIRST = 4.0  # heavy enough to give outliers in the clusters of a start little weight from the first sweep on


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


def expanded(statistics: Any, old: Parameters, prior: Prior, first: int = 0) -> tuple[Any, Blocks]:
    """Statistics with weights u/α in place of u, for the α that is best with the old covariances Σ (PX-EM).

    A t distribution does not say in which units u is measured. With b = Σ(νn − κp) and a = (κ + ρ) Σ tr Σ⁻¹ over the
    components that share a covariance, α solves a α² + b α = Σνm. The ascent stays exact and takes far fewer sweeps
    where tails are heavy; without a prior the covariance is Σzu(x − μ)(x − μ)ᵀ/Σzu. The old blocks are returned as
    Σ/α, which new covariances must not be worse than. Full scatters begin at covariance `first`.
    """
    layout, nu = old.blocks.layout, old.degrees_of_freedom
    if statistics.tail is None or nu is None:
        return statistics, old.blocks
    a = layout.pooled((prior.shrinkage + prior.ridge) * old.summaries.precisions.sum(axis=1))
    b = layout.pooled(nu * statistics.weight - prior.shrinkage * old.means.shape[1])
    c = layout.pooled(nu * statistics.mass)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 2 * c / (b + np.sqrt(b**2 + 4 * a * c))
    scale = np.where(np.isfinite(scale) & (scale > 0), scale, 1.0)  # of a component without rows
    if statistics.scatter.ndim == 3:
        owners = scale[first : first + len(statistics.scatter), None, None]
    else:  # of the blocks, or of all columns
        all_columns = len(statistics.scatter) > layout.size
        owners = np.repeat(scale, len(statistics.scatter) // len(scale)) if all_columns else scale[layout.owner]
    each = np.repeat(scale, layout.n_sharing)
    mass = statistics.mass / each
    new = replace(
        statistics,
        mass=mass,
        excess=statistics.excess / each[:, None],
        blur=statistics.blur / each[:, None],
        scatter=statistics.scatter / owners,
        tail=statistics.tail + statistics.mass - statistics.weight * np.log(each) - mass,
        cross=None if statistics.cross is None else statistics.cross / np.sqrt(each)[:, None, None],  # β grows by √α
    )
    return new, old.blocks.scaled(np.tile(scale[:, None] ** -0.5, old.means.shape[1]))


def tail_gains(distances: FloatArray, observed: IntArray, labels: IntArray, weights: FloatArray | None) -> FloatArray:
    """Σ log t(x; ν, aΣ) − Σ log n(x; Σ) of the rows of each normal component, the largest of a grid of ν and a.

    Squared distances of the rows from their components, numbers of values and labels, all of shape (N,).
    """
    c = observed.astype(np.intp)
    counts, gains = np.ones(len(c)) if weights is None else weights, np.full(int(labels.max()) + 1, -np.inf)
    for nu, a in product(_SOME, _SHRUNK):
        logs = (nu + c) * np.log1p(distances / (a * nu)) + c * np.log(a) - distances
        logs = student_constants(np.array(nu), int(c.max()))[c] - 0.5 * logs
        gains = np.maximum(gains, np.bincount(labels, counts * logs, len(gains)))
    return gains


def leap(rows: Rows, parameters: Parameters, enough: float) -> Parameters | None:
    """Parameters with other degrees of freedom, if that raises the log-likelihood by more than `enough`.

    EM moves ν slowly where tails are light: on normal data it would take hundreds of sweeps to the largest value. With
    the weights u integrated out only the responsibilities are missing, so moving ν alone to the best of a grid raises
    the likelihood by at least the gain computed here.
    """
    present = parameters.degrees_of_freedom
    assert present is not None
    candidates = np.column_stack([present, np.tile(_GRID, (len(present), 1))])
    rows, density = rows.powered(parameters.powers), parameters.density(rows.has_missing)
    sums = rows.map_sum(partial(_chunk_profile, density=density, candidates=candidates))
    best = sums.argmax(axis=1, keepdims=True)
    gain = np.take_along_axis(sums, best, axis=1).sum() - sums[:, 0].sum()
    if not gain > enough:
        return None
    return replace(parameters, degrees_of_freedom=np.take_along_axis(candidates, best, axis=1)[:, 0])


def _chunk_profile(chunk: Chunk, density: Density, candidates: FloatArray) -> FloatArray:
    """Σ z log t(x; ν) of a chunk for candidates (G, M), without what does not depend on ν; shape (G, M)."""
    from blockmix.em.kernels import profile

    sums, p = np.zeros(candidates.shape), chunk.X.shape[1]
    halves, _ = distances(chunk, density._replace(level=np.zeros(len(density.level))))
    z, _, _ = posterior(chunk, density)
    profile(chunk.weights, z, halves, candidates, student_constants(candidates, p), chunk.observed, sums)
    return sums
