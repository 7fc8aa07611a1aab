"""The factor mixture as a family of the EM loop: UCUU and its relatives (docs/factor.md)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blockmix.em.factor.first import first_groups, first_parameters
from blockmix.em.factor.m_step import maximize
from blockmix.em.factor.parameters import FactorModel, FactorParameters
from blockmix.em.factor.regroup import cuts_of, moved, recut
from blockmix.em.factor.sweep import FactorStatistics, chunk_log_joint, sweep
from blockmix.em.family import Regroup
from blockmix.rows import Chunk, Rows
from blockmix.structure.types import FloatArray, IntArray

_LOOSE = 1e-3  # per row and column


@dataclass(frozen=True, eq=False)
class FactorFamily:
    """Gaussian mixtures with one common factor per column group, for rows of a given total weight.

    See `em.family.Family` for the methods.
    """

    model: FactorModel
    total_weight: float

    def first(self, rows: Rows, z: FloatArray) -> Regroup[FactorParameters]:
        """Parameters from responsibilities z, shape (N, G), with the first column groups."""
        parameters = first_parameters(rows, z, first_groups(rows, z, self.model), self.model)
        return Regroup(parameters, changed=True, memory=frozenset(cuts_of(z[:])))

    def layouts(self, n_columns: int, judged: bool) -> dict[str, FactorFamily]:
        """Return the family alone: the number of groups is given."""
        return {"given groups": self}

    def sweep(self, rows: Rows, parameters: FactorParameters) -> FactorStatistics:
        """E-step."""
        return sweep(rows, parameters)

    def objective(self, statistics: FactorStatistics, parameters: FactorParameters) -> float:
        """Log-likelihood: the number of parameters does not change during a fit."""
        return statistics.log_likelihood

    def maximize(self, statistics: FactorStatistics, parameters: FactorParameters) -> FactorParameters:
        """M-step: T exactly, then B and D by EM."""
        return maximize(statistics, parameters, self.model)

    def regroup(
        self,
        rows: Rows,
        parameters: FactorParameters,
        statistics: FactorStatistics,
        enough: float,
        memory: frozenset[str],
    ) -> Regroup[FactorParameters]:
        """M-step after moves of single columns and new cuts of the tree, where these raise the likelihood."""
        better = moved(rows, (parameters, statistics), self.model, enough)
        better, memory = recut(rows, better, self.model, memory)
        changed = better[1].log_likelihood - statistics.log_likelihood >= enough
        return Regroup(self.maximize(better[1], better[0]), changed, memory)

    def thin(self, parameters: FactorParameters, spare: int = 0) -> IntArray:
        """Components whose noise rests on its floor in more than half of the columns, or on two rows or fewer."""
        resting = (parameters.noise <= self.model.floor * (1 + 1e-9)).mean(axis=1) > 0.5
        few = parameters.weights * self.total_weight <= 2
        return np.flatnonzero(resting | (few & (not self.model.shared_noise)))

    def resting(self, parameters: FactorParameters) -> IntArray:
        """The same components: fewer rows than these leave the noise on its floor."""
        return self.thin(parameters)

    def loose(self, tol: float) -> float:
        """Tolerance per row at which the groups are first revised."""
        return max(tol, _LOOSE * len(self.model.floor))

    def log_joint(self, chunk: Chunk, parameters: FactorParameters) -> FloatArray:
        """Log π_g f_g of the rows of a chunk in standardized columns, shape (m, G)."""
        return chunk_log_joint(chunk, parameters)
