"""The factor mixture Σ_g = B_g T_g B_gᵀ + D_g: which parts are shared, its parameters, and one sweep over the rows.

Rows and parameters come in; statistics that add up go out (Tu & Subedi's family, the paper's UCUU; docs/factor.md).
B_g is a partition of the columns, T_g ≥ 0 and D_g > 0 are diagonal, so everything comes from q sums per row,
s_k = Σ_{j in k} (x_j − μ_j) / d_j, at O(N p q) per component: no p × p matrix is made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from blockmix.em.block.e_step import posterior
from blockmix.rows import Chunk, Rows
from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray, IntArray

DEAD = 1e-10  # a component with a smaller share of the rows keeps its mean and its shape


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

        A single component has nobody to share with.
        """
        B, T, D, shape = (letter == "C" for letter in letters)
        several = n_components > 1
        return cls(n_groups, several and B, several and T, letters[1] == "I", several and D, shape, floor)

    @property
    def free_noise(self) -> bool:
        """Whether each column of each component has a noise variance of its own."""
        return not (self.shared_noise or self.isotropic)

    def n_parameters(self, n_components: int, p: int) -> int:
        """Free entries of T and D."""
        T = 0 if self.unit_factors else self.n_groups * (1 if self.shared_factors else n_components)
        D = (1 if self.isotropic else p) * (1 if self.shared_noise else n_components)
        return T + D


@dataclass(frozen=True, eq=False)
class FactorParameters:
    """Weights (G,), means (G, p), groups of the columns (G, p), variances of factors (G, q) and of noise (G, p)."""

    weights: FloatArray
    means: FloatArray
    labels: IntArray
    factors: FloatArray
    noise: FloatArray

    @cached_property
    def projection(self) -> FloatArray:
        """Rows 1/d_j on the columns of a group, zero elsewhere: s = projection (x − μ), shape (G, q, p)."""
        G, p = self.means.shape
        rows = np.zeros((G, self.factors.shape[1], p))
        rows[np.arange(G)[:, None], self.labels, np.arange(p)] = 1 / self.noise
        return rows

    @cached_property
    def precisions(self) -> FloatArray:
        """a_k = Σ_{j in k} 1/d_j, shape (G, q)."""
        return np.asarray(self.projection.sum(axis=2))

    @cached_property
    def gains(self) -> FloatArray:
        """c_k = t_k / (1 + t_k a_k): the expected factor of a row is c_k s_k, and its variance c_k; shape (G, q)."""
        return np.asarray(self.factors / (1 + self.factors * self.precisions))

    @cached_property
    def logdets(self) -> FloatArray:
        """log|Σ_g| = Σ_j log d_j + Σ_k log(1 + t_k a_k), shape (G,)."""
        return np.asarray(np.log(self.noise).sum(axis=1) + np.log1p(self.factors * self.precisions).sum(axis=1))

    @property
    def covariances(self) -> FloatArray:
        """Σ_g as matrices, shape (G, p, p)."""
        together = self.labels[:, :, None] == self.labels[:, None, :]
        t = np.take_along_axis(self.factors, self.labels, axis=1)
        return np.asarray(together * t[:, :, None] + np.eye(self.means.shape[1]) * self.noise[:, :, None])

    def canonical(self) -> FactorParameters:
        """The same mixture with the groups of each component numbered by first appearance."""
        labels = np.stack([Partition(row).labels for row in self.labels])
        factors = np.empty_like(self.factors)
        np.put_along_axis(factors, labels, np.take_along_axis(self.factors, self.labels, axis=1), axis=1)
        return replace(self, labels=labels, factors=factors)


@dataclass(frozen=True, eq=False)
class FactorStatistics:
    """What a sweep learns: log-likelihood, Σz (G,), Σzx (G, p), Σzx² (G, p) and Σzsx (G, q, p)."""

    log_likelihood: float
    weight: FloatArray
    first: FloatArray
    second: FloatArray
    cross: FloatArray

    def __add__(self, other: FactorStatistics) -> FactorStatistics:
        return FactorStatistics(
            self.log_likelihood + other.log_likelihood,
            self.weight + other.weight,
            self.first + other.first,
            self.second + other.second,
            self.cross + other.cross,
        )


def sums(values: FloatArray, parameters: FactorParameters) -> FloatArray:
    """s_k = Σ_{j in k} (x_j − μ_j) / d_j of columns x (p, m), shape (G, q, m)."""
    G, q, p = parameters.projection.shape
    center = np.einsum("gkj,gj->gk", parameters.projection, parameters.means)
    return np.asarray((parameters.projection.reshape(G * q, p) @ values).reshape(G, q, -1) - center[:, :, None])


def log_joint(values: FloatArray, squares: FloatArray, s: FloatArray, parameters: FactorParameters) -> FloatArray:
    """Logarithm of π_g f_g(x), shape (G, m), of columns x (p, m), their squares and their sums s (G, q, m).

    (x − μ)ᵀ Σ⁻¹ (x − μ) = Σ_j (x_j − μ_j)² / d_j − Σ_k c_k s_k².
    """
    scaled = parameters.means / parameters.noise
    distances = (1 / parameters.noise) @ squares - 2 * (scaled @ values)
    distances += (scaled * parameters.means).sum(axis=1)[:, None]
    distances -= np.einsum("gk,gkm->gm", parameters.gains, s**2)
    with np.errstate(divide="ignore"):
        level = np.log(parameters.weights) - 0.5 * (parameters.logdets + len(values) * np.log(2 * np.pi))
    return np.asarray(level[:, None] - 0.5 * distances)


def log_joint_rows(rows: Rows, parameters: FactorParameters) -> FloatArray:
    """Logarithm of π_g f_g of every row, shape (N, G)."""

    def of(chunk: Chunk) -> FloatArray:
        values = chunk.values.astype(np.float64, copy=False)
        return log_joint(values, values**2, sums(values, parameters), parameters).T

    return np.concatenate(list(rows.map(of)))


def sweep(rows: Rows, parameters: FactorParameters, z: FloatArray | None = None) -> FactorStatistics:
    """Read every row once: responsibilities, and at once the moments and the log-likelihood they give.

    Given responsibilities z, shape (N, G), are taken as they are; the log-likelihood is then meaningless.
    """

    def of(chunk: Chunk) -> FactorStatistics:
        return _chunk_statistics(chunk, parameters, None if z is None else z[chunk.place].T)

    return rows.map_sum(of)


def _chunk_statistics(chunk: Chunk, parameters: FactorParameters, z: FloatArray | None) -> FactorStatistics:
    # A chunk is small, so its arithmetic is in double precision whatever the type of the data: Σ(x − μ)²/d is taken
    # from Σx²/d, which would lose the digits of float32 where a component is tight.
    values, weights = chunk.values.astype(np.float64, copy=False), chunk.weights.astype(np.float64, copy=False)
    squares, s = values**2, sums(values, parameters)
    log_likelihood = np.nan
    if z is None:
        z, density = posterior(log_joint(values, squares, s, parameters))
        log_likelihood = float(weights @ density)
    z = z * weights
    G, q, m = s.shape
    # One product for Σzsx and Σzx: it reads the values once.
    products = np.concatenate([(s * z[:, None, :]).reshape(G * q, m), z]) @ values.T
    cross = products[: G * q].reshape(G, q, -1)
    return FactorStatistics(log_likelihood, z.sum(axis=1), products[G * q :], z @ squares.T, cross)
