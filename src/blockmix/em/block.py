"""The paper's mixture as a family of the EM loop: block-diagonal covariances with learned blocks (paper, section 3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np

from blockmix.blocks.blocks import Layout, Parameters
from blockmix.blocks.shapes import FULL
from blockmix.em.loop import Regroup
from blockmix.em.m_step import leap, maximize
from blockmix.em.regroup import Proposer, from_coarser_blocks
from blockmix.em.sweep import Density, Statistics, applies, log_joint, posterior, sweep, sweep_shared
from blockmix.em.tails import FIRST
from blockmix.partition import FloatArray, IntArray
from blockmix.rows import Chunk, Rows

_LOOSE = 1e-2  # per row
# Gain per row from which degrees of freedom leap, also at the loose tolerance: left to EM it takes 200 sweeps.
_LEAP = 1e-4
_JUDGED_AFTER = 5  # EM steps in new groups; judged after one, good groups are refused


@dataclass(frozen=True)
class BlockFamily:
    """Gaussian or t mixtures with block-diagonal covariances, for rows of a given total weight.

    See `em.family.Family` for the methods.
    """

    proposer: Proposer
    total_weight: float
    heavy: bool = False  # t components

    def first(self, rows: Rows, z: FloatArray) -> Regroup[Parameters]:
        """Parameters from responsibilities z, shape (N, G), with the first column groups."""
        found = self.with_tails(self.proposer.first(rows, z))
        # Without this leap EM takes 15 sweeps instead of 4 on normal data.
        leapt = leap(rows, found, 0.0) if self.heavy else None
        known = not self.heavy and self.proposer.holds_rows(rows, found.layout.n_sharing)
        return Regroup(leapt or found, changed=True, memory=frozenset([_digest(z[:])] if known else []))

    def layouts(self, n_columns: int, judged: bool) -> dict[str, BlockFamily]:
        """Return the family with each kind of first column groups worth a start, by name.

        One group (where a full covariance can be judged) and columns alone are tried beside the groups of a rule that
        admits them.
        """
        wanted = self.proposer.n_groups
        if not self.proposer.admits_any:
            names: dict[tuple[object, ...], str] = {
                (1,) * len(wanted): "one group",
                (n_columns,) * len(wanted): "alone",
            }
            return {names.get(wanted, "given groups"): self}
        one = {"one group": self._held(1)} if judged else {}
        return {"rule": self, **one, "alone": self._held(n_columns)}

    def _held(self, n_groups: int) -> BlockFamily:
        """Return the family with a given number of full first groups, at the same prices."""
        number = (n_groups,) * len(self.proposer.n_groups)
        return replace(self, proposer=replace(self.proposer, n_groups=number, shape=FULL))

    def with_tails(self, parameters: Parameters) -> Parameters:
        """The same parameters, with degrees of freedom if the family has heavy tails and without them if not."""
        known = parameters.degrees_of_freedom
        if self.heavy and known is None:
            known = np.full(len(parameters.weights), FIRST)
        return replace(parameters, degrees_of_freedom=known if self.heavy else None)

    def sweep(self, rows: Rows, parameters: Parameters) -> Statistics:
        """E-step, using the shortcut for a shared covariance when it applies."""
        return sweep_shared(rows, parameters) if applies(rows, parameters) else sweep(rows, parameters)

    def objective(self, statistics: Statistics, parameters: Parameters) -> float:
        """Log-likelihood + penalty of the prior − price of the covariance parameters."""
        proposer = self.proposer
        return statistics.log_likelihood + proposer.prior.value(parameters) - proposer.paid(parameters.layout)

    def maximize(self, statistics: Statistics, parameters: Parameters) -> Parameters:
        """M-step in the present column groups."""
        return maximize(statistics, parameters, self.proposer.prior)

    def regroup(
        self, rows: Rows, parameters: Parameters, statistics: Statistics, enough: float, memory: frozenset[str]
    ) -> Regroup[Parameters]:
        """M-step in new column groups where they raise the objective, else in the present ones.

        With heavy tails the degrees of freedom leap first, alone, if that is worth it.
        """
        worth = min(enough, _LEAP * self.total_weight)
        if self.heavy and (leapt := leap(rows, parameters, worth)) is not None:
            return Regroup(leapt, changed=True)
        z, own = None, frozenset[str]()
        if not self.heavy and self.proposer.holds_rows(rows, parameters.layout.n_sharing):
            density = Density.of(parameters, gaps=False)
            z = np.concatenate(list(rows.map(lambda chunk: posterior(chunk, density).z)))
            own = frozenset([_digest(z)])
        # With many columns responsibilities are 0 and 1, and often the same as when the groups were last proposed.
        found = None if own and own == memory else self.proposer.regroup(rows, parameters, z)
        if found is None and rows.has_missing:
            found = self._from_coarser_blocks(rows, parameters, self.objective(statistics, parameters))
        return Regroup(self.maximize(statistics, parameters) if found is None else found, found is not None, own)

    def _from_coarser_blocks(self, rows: Rows, parameters: Parameters, value: float) -> Parameters | None:
        """Parameters in groups proposed from coarser blocks, if a few EM steps raise them above the present objective.

        The comparison is by the objective of the rows, so the trace does not fall.
        """
        found = from_coarser_blocks(rows, parameters, self.proposer)
        if found.layout.is_same(parameters.layout):
            return None
        for _ in range(_JUDGED_AFTER):
            found = self.maximize(self.sweep(rows, found), found)
        gain = self.objective(self.sweep(rows, found), found) - value
        return found if gain > 1e-9 * self.total_weight else None

    def thin(self, parameters: Parameters, spare: int = 0) -> IntArray:
        """Components with at most `spare` rows more than their blocks need.

        A shared covariance has the rows of all its components, less one for each mean but the first. None if the
        prior brings pseudo-rows.
        """
        layout = parameters.layout
        if self.proposer.prior.shrinkage:
            return np.empty(0, dtype=np.intp)
        counts = layout.pooled(parameters.weights) * self.total_weight - (layout.n_sharing - 1)
        needed = np.array([layout.rows_needed(layout.members(d).start) for d in range(len(counts))])
        return np.flatnonzero(np.repeat(counts <= needed + spare, layout.n_sharing))

    def resting(self, parameters: Parameters) -> IntArray:
        """Thin components with a direction in which most of the variance is the ridge.

        The ridge ρ adds ρ/n to each variance, so tr(Σ⁻¹)ρ/n counts such directions. Rounded values may leave none.
        """
        thin, layout = self.thin(parameters), parameters.layout
        counts = np.repeat(layout.pooled(parameters.weights) / layout.n_sharing, layout.n_sharing) * self.total_weight
        rests = self.proposer.prior.ridge * parameters.precisions[thin].sum(axis=1) > counts[thin] / 2
        return np.asarray(thin[rests])

    def loose(self, tol: float) -> float:
        """Tolerance per row at which the groups are first revised."""
        return max(tol, _LOOSE)

    def log_joint(self, chunk: Chunk, parameters: Parameters) -> FloatArray:
        """Log π_g f_g of the rows of a chunk in standardized columns, shape (m, G)."""
        return log_joint(chunk, Density.of(parameters))

    def admits(self, layout: Layout) -> bool:
        """Whether a layout has the sharing, the numbers of groups and the shapes that the settings ask for."""
        return self.proposer.admits(layout)


def _digest(z: FloatArray) -> str:
    """Digest of responsibilities, which a checkpoint can hold where the array would be too large."""
    return sha256(np.ascontiguousarray(z, dtype=float).tobytes()).hexdigest()
