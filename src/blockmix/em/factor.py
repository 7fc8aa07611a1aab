"""Parameters of the factor mixture Σ_g = B_g T_g B_gᵀ + D_g, and which parts the components share (docs/factor.md).

The letters of a model come in; variances of factors and noise, projections and log-determinants go out. B_g is a
partition of the columns, T_g ≥ 0 and D_g > 0 are diagonal, so no p × p matrix is made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import logsumexp

from blockmix.partition import FloatArray, IntArray, Partition
from blockmix.rows import Chunk, Rows
from blockmix.rows.measured import Additive

EMPTY = 1e-10  # a component with a smaller share of the rows keeps its mean and its shape


@dataclass(frozen=True, eq=False)
class FactorModel:
    """Which of B, T and D the components share.

    Parameters
    ----------
    n_groups : int
        Number q of column groups.
    shared_groups, shared_factors, shared_noise : bool
        One B, T or D for all components.
    unit_factors : bool
        T = I, not estimated.
    isotropic : bool
        D_g = δ_g I.
    floor : array of shape (p,)
        Least noise variance of each column.
    """

    n_groups: int
    shared_groups: bool
    shared_factors: bool
    unit_factors: bool
    shared_noise: bool
    isotropic: bool
    floor: FloatArray

    @classmethod
    def named(cls, letters: str, n_components: int, n_groups: int, floor: FloatArray) -> FactorModel:
        """Model from its four letters: is B, T, D shared (C) or not (U), is D isotropic; I in second place is T = I.

        A single component has no other to share with.
        """
        B, T, D, shape = (letter == "C" for letter in letters)
        several = n_components > 1
        return cls(n_groups, several and B, several and T, letters[1] == "I", several and D, shape, floor)

    @property
    def free_noise(self) -> bool:
        """Whether each column of each component has a noise variance of its own."""
        return not (self.shared_noise or self.isotropic)

    def n_redundant(self, labels: IntArray, factor_variances: FloatArray) -> int:
        """Entries of T and D that are not identified, for groups of the columns (G, p) and T, shape (G, q).

        A column alone in its group has only t + d; in a group of two or more both are identified. So one entry is
        free to choose in each set of entries that columns alone connect, unless other groups identify one of the set.
        """
        if self.unit_factors:
            return 0
        G, p = labels.shape
        component = np.arange(G)[:, None]
        # Components number their groups in different orders; a shared t has the same rank in each.
        ranks = factor_variances.argsort(axis=1).argsort(axis=1) + component * self.n_groups * (not self.shared_factors)
        t = np.take_along_axis(ranks, labels, axis=1)
        d = np.zeros((G, p), dtype=np.intp) if self.isotropic else np.tile(np.arange(p), (G, 1))
        d = d + component * p * (not self.shared_noise) + G * self.n_groups
        sizes = np.stack([np.bincount(row, minlength=self.n_groups) for row in labels])
        known = np.full((G, p), G * (self.n_groups + p))
        alone = np.take_along_axis(sizes, labels, axis=1) == 1
        one, other = np.stack([t, d]), np.stack([np.where(alone, d, known), np.where(alone, t, known)])
        _, places = np.unique(np.concatenate([one.ravel(), other.ravel(), known[0, :1]]), return_inverse=True)
        links = places[: one.size], places[one.size : -1]
        sets = connected_components(coo_array((np.ones(one.size), links), shape=2 * (places.max() + 1,)), False)[0]
        return int(sets) - 1  # without the set that is identified

    def n_parameters(self, n_components: int, p: int) -> int:
        """Entries of T and D."""
        T = 0 if self.unit_factors else self.n_groups * (1 if self.shared_factors else n_components)
        D = (1 if self.isotropic else p) * (1 if self.shared_noise else n_components)
        return T + D


@dataclass(frozen=True, eq=False)
class FactorParameters:
    """Weights (G,), means (G, p), groups of the columns (G, p), variances of factors (G, q) and of noise (G, p)."""

    weights: FloatArray
    means: FloatArray
    labels: IntArray
    factor_variances: FloatArray
    noise: FloatArray

    def moved(self, weights: FloatArray, means: FloatArray) -> FactorParameters:
        """The same covariances with other weights and means."""
        return replace(self, weights=weights, means=means)

    @cached_property
    def projection(self) -> FloatArray:
        """Rows 1/d_j on the columns of a group, zero elsewhere: s = projection (x − μ), shape (G, q, p)."""
        G, p = self.means.shape
        rows = np.zeros((G, self.factor_variances.shape[1], p))
        rows[np.arange(G)[:, None], self.labels, np.arange(p)] = 1 / self.noise
        return rows

    @cached_property
    def precisions(self) -> FloatArray:
        """a_k = Σ_{j in k} 1/d_j, shape (G, q)."""
        return np.asarray(self.projection.sum(axis=2))

    @cached_property
    def gains(self) -> FloatArray:
        """c_k = t_k / (1 + t_k a_k): the expected factor of a row is c_k s_k, and its variance c_k; shape (G, q)."""
        return np.asarray(self.factor_variances / (1 + self.factor_variances * self.precisions))

    @cached_property
    def logdets(self) -> FloatArray:
        """log|Σ_g| = Σ_j log d_j + Σ_k log(1 + t_k a_k), shape (G,)."""
        common = np.log1p(self.factor_variances * self.precisions).sum(axis=1)
        return np.asarray(np.log(self.noise).sum(axis=1) + common)

    @cached_property
    def inverse_diagonals(self) -> FloatArray:
        """Diagonals of Σ_g⁻¹, 1/d_j − c_k/d_j² with k the group of j, shape (G, p)."""
        return np.asarray(1 / self.noise - np.take_along_axis(self.gains, self.labels, axis=1) / self.noise**2)

    @property
    def covariances(self) -> FloatArray:
        """Σ_g as matrices, shape (G, p, p)."""
        together = self.labels[:, :, None] == self.labels[:, None, :]
        t = np.take_along_axis(self.factor_variances, self.labels, axis=1)
        return np.asarray(together * t[:, :, None] + np.eye(self.means.shape[1]) * self.noise[:, :, None])

    def canonical(self) -> FactorParameters:
        """The same mixture with the groups of each component numbered as in `Partition`."""
        labels = np.stack([Partition(row).labels for row in self.labels])
        variances = np.empty_like(self.factor_variances)
        np.put_along_axis(variances, labels, np.take_along_axis(self.factor_variances, self.labels, axis=1), axis=1)
        return replace(self, labels=labels, factor_variances=variances)


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


_LOOSE = 1e-3  # per row and column
