"""FactorParameters: the factor mixture Σ_g = B_g T_g B_gᵀ + D_g that the paper compares with (docs/factor.md).

`FactorModel` says which of B, T and D the components share, and `factor_sweep` is the E-step. B_g is a partition of the
columns, T_g ≥ 0 and D_g > 0 are diagonal, so a p × p matrix is never formed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import logsumexp

from blockmix.partition import FloatArray, IntArray, Partition
from blockmix.rows import Chunk, Rows
from blockmix.rows.measured import Additive

_EMPTY = 1e-10  # a component with a smaller share of the rows keeps its mean and its shape


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

    def n_parameters(self, labels: IntArray, factor_variances: FloatArray) -> int:
        """Identified entries of T and D, for groups of the columns (G, p) and T, shape (G, q)."""
        G, p = labels.shape
        D = (1 if self.isotropic else p) * (1 if self.shared_noise else G)
        if self.unit_factors:
            return D
        return self.n_groups * (1 if self.shared_factors else G) + D - self._n_redundant(labels, factor_variances)

    def _n_redundant(self, labels: IntArray, factor_variances: FloatArray) -> int:
        """Entries of T and D that are not identified.

        A column alone in its group has only t + d; in a group of two or more both are identified. So each set of
        entries that single columns connect has one redundant entry, unless another group identifies one of the set.
        """
        G, p = labels.shape
        component = np.arange(G)[:, None]
        # Components number their groups in different orders; a shared t has the same rank in each.
        ranks = factor_variances.argsort(axis=1).argsort(axis=1) + component * self.n_groups * (not self.shared_factors)
        t = np.take_along_axis(ranks, labels, axis=1)
        d = np.zeros((G, p), dtype=np.intp) if self.isotropic else np.tile(np.arange(p), (G, 1))
        d = d + component * p * (not self.shared_noise) + G * self.n_groups
        alone = np.take_along_axis(group_sizes(labels, self.n_groups), labels, axis=1) == 1
        # Entries are the nodes of a graph, with one more node for everything that is identified.
        identified = np.full((G, p), G * (self.n_groups + p))
        sources, targets = np.stack([t, d]), np.where(alone, np.stack([d, t]), identified)
        nodes = np.concatenate([sources.ravel(), targets.ravel(), identified[0, :1]])
        names, nodes = np.unique(nodes, return_inverse=True)
        edges = nodes[: sources.size], nodes[sources.size : -1]
        graph = coo_array((np.ones(sources.size), edges), shape=(len(names), len(names)))
        return int(connected_components(graph, directed=False)[0]) - 1


def group_sizes(labels: IntArray, n_groups: int) -> IntArray:
    """Number of columns in each group of each component, shape (G, q)."""
    return np.stack([np.bincount(row, minlength=n_groups) for row in labels])


@dataclass(frozen=True, eq=False)
class FactorParameters:
    """Weights (G,), means (G, p), groups of the columns (G, p), variances of factors (G, q) and of noise (G, p)."""

    weights: FloatArray
    means: FloatArray
    labels: IntArray
    factor_variances: FloatArray
    noise: FloatArray
    powers: ClassVar[None] = None  # of the columns

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
    """Sums of a sweep: log-likelihood, Σz (G,), Σzx (G, p), Σzx² (G, p) and Σzsx (G, q, p)."""

    log_likelihood: float
    weight: FloatArray
    first: FloatArray
    second: FloatArray
    cross: FloatArray


@dataclass(frozen=True, eq=False)
class Scatter:
    """Moments of each component about its new mean.

    Parameters
    ----------
    rows : array of shape (G,)
        Rows n_g that a component explains; 0 if it is empty.
    means, variances : arrays of shape (G, p)
        Means of x_j and variances S_jj.
    cross : array of shape (G, q, p)
        Covariances A_kj of s_k and x_j.
    spread : array of shape (G, q)
        Variances b_k of s_k.
    """

    rows: FloatArray
    means: FloatArray
    variances: FloatArray
    cross: FloatArray
    spread: FloatArray

    @classmethod
    def of(cls, statistics: FactorStatistics, old: FactorParameters) -> Scatter:
        """Center the statistics of a sweep that was made with the parameters `old`."""
        alive = statistics.weight > _EMPTY * statistics.weight.sum()
        n = np.where(alive, statistics.weight, 1)[:, None]
        means = np.where(alive[:, None], statistics.first / n, old.means)
        variances = np.maximum(statistics.second / n - means**2, 0)
        drift = np.einsum("gkj,gj->gk", old.projection, means - old.means)
        cross = statistics.cross / n[:, :, None] - drift[:, :, None] * means[:, None, :]
        spread = np.maximum(np.einsum("gkj,gkj->gk", old.projection, cross), 0)
        return cls(np.where(alive, statistics.weight, 0), means, variances, cross, spread)

    @property
    def steady_variances(self) -> FloatArray:
        """Variances (G, p) shrunk by one row towards the pooled ones: a component of one row has none of its own."""
        n = self.rows[:, None]
        pooled = (n * self.variances).sum(axis=0) / n.sum()
        return np.asarray((n * self.variances + pooled) / (n + 1))


def factor_sweep(rows: Rows, parameters: FactorParameters, z: FloatArray | None = None) -> FactorStatistics:
    """E-step: read every row once for its responsibilities, and add up the moments and the log-likelihood.

    Given responsibilities z, shape (N, G), replace those of the parameters; the log-likelihood is then NaN.
    """
    return rows.map_sum(partial(_statistics, parameters=parameters, given=z))


def factor_responsibilities(rows: Rows, parameters: FactorParameters) -> FloatArray:
    """Responsibilities of every row, shape (N, G)."""
    return np.concatenate(list(rows.map(partial(_responsibilities, parameters=parameters))))


def factor_log_joint(chunk: Chunk, parameters: FactorParameters) -> FloatArray:
    """Log π_g f_g of the rows of a chunk, shape (m, G); finite for one component even if a row is extremely far."""
    values = chunk.values
    with np.errstate(over="ignore", invalid="ignore"):
        joint = _log_densities(values, _sums(values, parameters), chunk.rounding_variances, parameters)
    overflown = np.flatnonzero(~(joint.max(axis=1) > -np.inf))
    if len(overflown):
        # At such distances only the direction matters: compare distances from zero of rows scaled to the unit box.
        directions = values[overflown] / np.abs(values[overflown]).max(axis=1, keepdims=True)
        central = parameters.moved(parameters.weights, np.zeros_like(parameters.means))
        nearest = _squared_distances(directions, _sums(directions, central), central).argmin(axis=1)
        joint[overflown] = -np.inf
        joint[overflown, nearest] = -np.finfo(float).max
    return joint


def _responsibilities(chunk: Chunk, parameters: FactorParameters) -> FloatArray:
    joint = factor_log_joint(chunk, parameters)
    return np.asarray(np.exp(joint - logsumexp(joint, axis=1, keepdims=True)))


def _statistics(chunk: Chunk, parameters: FactorParameters, given: FloatArray | None) -> FactorStatistics:
    # Chunks are standardized in double precision whatever their type: Σ(x − μ)²/d is taken from Σx²/d, which would lose
    # the digits of float32 where a component is tight.
    values = chunk.values
    s = _sums(values, parameters)
    log_likelihood = np.nan
    if given is None:
        joint = _log_densities(values, s, chunk.rounding_variances, parameters)
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
    rounding = z @ chunk.rounding_variances
    within = parameters.labels[:, None, :]
    corrected = np.take_along_axis(cross, within, axis=1) + (rounding / parameters.noise)[:, None, :]
    np.put_along_axis(cross, within, corrected, axis=1)
    return FactorStatistics(log_likelihood, z.sum(axis=1), products[G * q :], z @ values**2 + rounding, cross)


def _log_densities(values: FloatArray, s: FloatArray, rounding: FloatArray, parameters: FactorParameters) -> FloatArray:
    """Log π_g f_g of standardized rows (m, p) with sums s (G, q, m) and rounding variances Δ (m, p), shape (m, G).

    Rounding adds Σ_j Δ_j (Σ⁻¹)_jj to the squared distances.
    """
    distances = _squared_distances(values, s, parameters) + rounding @ parameters.inverse_diagonals.T
    with np.errstate(divide="ignore"):
        level = np.log(parameters.weights) - 0.5 * (parameters.logdets + values.shape[1] * np.log(2 * np.pi))
    return np.asarray(level - 0.5 * distances)


def _squared_distances(values: FloatArray, s: FloatArray, parameters: FactorParameters) -> FloatArray:
    """(x − μ)ᵀ Σ⁻¹ (x − μ) = Σ_j (x_j − μ_j)² / d_j − Σ_k c_k s_k² of rows (m, p) with sums s (G, q, m), (m, G)."""
    scaled = parameters.means / parameters.noise
    distances = (values**2) @ (1 / parameters.noise).T - 2 * (values @ scaled.T)
    distances += (scaled * parameters.means).sum(axis=1)
    return np.asarray(distances - np.einsum("gk,gkm->mg", parameters.gains, s**2))


def _sums(values: FloatArray, parameters: FactorParameters) -> FloatArray:
    """s_k = Σ_{j in k} (x_j − μ_j) / d_j of standardized rows (m, p), shape (G, q, m)."""
    G, q, p = parameters.projection.shape
    center = np.einsum("gkj,gj->gk", parameters.projection, parameters.means)
    return np.asarray((parameters.projection.reshape(G * q, p) @ values.T).reshape(G, q, -1) - center[:, :, None])
