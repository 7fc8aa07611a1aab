"""Parameters of the factor mixture Σ_g = B_g T_g B_gᵀ + D_g, and which parts the components share (docs/factor.md).

The letters of a model come in; variances of factors and noise, projections and log-determinants go out. B_g is a
partition of the columns, T_g ≥ 0 and D_g > 0 are diagonal, so no p × p matrix is made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray, IntArray

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
