"""One sweep of the factor mixture over the rows (Tu & Subedi's family, the paper's UCUU; docs/factor.md).

Rows and parameters come in; statistics that add up go out. Everything comes from q sums per row,
s_k = Σ_{j in k} (x_j − μ_j) / d_j, at O(N p q) per component.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import logsumexp

from blockmix.em.factor.parameters import FactorParameters
from blockmix.rows import Chunk, Rows
from blockmix.rows.sums import Additive
from blockmix.structure.types import FloatArray


@dataclass(frozen=True, eq=False)
class FactorStatistics(Additive):
    """What a sweep learns: log-likelihood, Σz (G,), Σzx (G, p), Σzx² (G, p) and Σzsx (G, q, p)."""

    log_likelihood: float
    weight: FloatArray
    first: FloatArray
    second: FloatArray
    cross: FloatArray


def sums(values: FloatArray, parameters: FactorParameters) -> FloatArray:
    """s_k = Σ_{j in k} (x_j − μ_j) / d_j of standardized rows (m, p), shape (G, q, m)."""
    G, q, p = parameters.projection.shape
    center = np.einsum("gkj,gj->gk", parameters.projection, parameters.means)
    return np.asarray((parameters.projection.reshape(G * q, p) @ values.T).reshape(G, q, -1) - center[:, :, None])


def squared_distances(values: FloatArray, s: FloatArray, parameters: FactorParameters) -> FloatArray:
    """(x − μ)ᵀ Σ⁻¹ (x − μ) = Σ_j (x_j − μ_j)² / d_j − Σ_k c_k s_k² of rows (m, p) with sums s (G, q, m), (m, G)."""
    scaled = parameters.means / parameters.noise
    distances = (values**2) @ (1 / parameters.noise).T - 2 * (values @ scaled.T)
    distances += (scaled * parameters.means).sum(axis=1)
    return np.asarray(distances - np.einsum("gk,gkm->mg", parameters.gains, s**2))


def log_joint(values: FloatArray, s: FloatArray, rounding: FloatArray, parameters: FactorParameters) -> FloatArray:
    """Log π_g f_g of standardized rows (m, p) with sums s (G, q, m) and rounding variances Δ (m, p), shape (m, G).

    Rounding adds Σ_j Δ_j (Σ⁻¹)_jj to the squared distances.
    """
    distances = squared_distances(values, s, parameters) + rounding @ parameters.inverse_diagonals.T
    with np.errstate(divide="ignore"):
        level = np.log(parameters.weights) - 0.5 * (parameters.logdets + values.shape[1] * np.log(2 * np.pi))
    return np.asarray(level - 0.5 * distances)


def chunk_log_joint(chunk: Chunk, parameters: FactorParameters) -> FloatArray:
    """Log π_g f_g of the rows of a chunk, shape (m, G)."""
    values = chunk.values
    with np.errstate(over="ignore", invalid="ignore"):
        joint = log_joint(values, sums(values, parameters), chunk.rounding_variances, parameters)
    lost = np.flatnonzero(~(joint.max(axis=1) > -np.inf))
    if len(lost):
        # Distances overflow. Only the direction matters so far away: the nearest component has the least number.
        directions = values[lost] / np.abs(values[lost]).max(axis=1, keepdims=True)
        central = parameters.moved(parameters.weights, np.zeros_like(parameters.means))
        nearest = squared_distances(directions, sums(directions, central), central).argmin(axis=1)
        joint[lost] = -np.inf
        joint[lost, nearest] = -np.finfo(float).max
    return joint


def responsibilities(rows: Rows, parameters: FactorParameters) -> FloatArray:
    """Responsibilities of every row, shape (N, G)."""
    return np.concatenate(list(rows.map(partial(_posterior, parameters=parameters))))


def _posterior(chunk: Chunk, parameters: FactorParameters) -> FloatArray:
    joint = chunk_log_joint(chunk, parameters)
    return np.asarray(np.exp(joint - logsumexp(joint, axis=1, keepdims=True)))


def sweep(rows: Rows, parameters: FactorParameters, z: FloatArray | None = None) -> FactorStatistics:
    """Read every row once: responsibilities, and at once the moments and the log-likelihood they give.

    Given responsibilities z, shape (N, G), are taken as they are; the log-likelihood is then meaningless.
    """
    return rows.map_sum(partial(_chunk_statistics, parameters=parameters, given=z))


def _chunk_statistics(chunk: Chunk, parameters: FactorParameters, given: FloatArray | None) -> FactorStatistics:
    # Chunks are standardized in double precision whatever their type: Σ(x − μ)²/d is taken from Σx²/d, which would lose
    # the digits of float32 where a component is tight.
    values = chunk.values
    s = sums(values, parameters)
    log_likelihood = np.nan
    if given is None:
        joint = log_joint(values, s, chunk.rounding_variances, parameters)
        density = logsumexp(joint, axis=1)
        log_likelihood = float(chunk.weights @ density)
        z = np.exp(joint - density[:, None])
    else:
        z = given[chunk.place]
    z = (z * chunk.weights[:, None]).T
    G, q, m = s.shape
    # One product for Σzsx and Σzx: it reads the values once.
    products = np.concatenate([(s * z[:, None, :]).reshape(G * q, m), z]) @ values
    cross = products[: G * q].reshape(G, q, -1)
    # Rounding is noise of each column by itself: it adds to x_j², and to s_k x_j for the group k of the column.
    blur = z @ chunk.rounding_variances
    at = parameters.labels[:, None, :]
    own = np.take_along_axis(cross, at, axis=1) + (blur / parameters.noise)[:, None, :]
    np.put_along_axis(cross, at, own, axis=1)
    return FactorStatistics(log_likelihood, z.sum(axis=1), products[G * q :], z @ values**2 + blur, cross)
