"""FactorFamily: the factor mixture for the EM loop, with the regroup of its columns (docs/factor.md).

A regroup moves single columns and cuts the tree of a component again; both are kept only if they raise the likelihood.
`negative_groups` looks for columns that the model cannot group because they are correlated negatively.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm

from blockmix.em.factor import (
    FactorModel,
    FactorParameters,
    FactorStatistics,
    Scatter,
    factor_log_joint,
    factor_responsibilities,
    factor_sweep,
    group_sizes,
)
from blockmix.em.factor_steps import (
    column_cost,
    correlations,
    factor_m_step,
    first_groups,
    first_parameters,
    home_predictions,
    predictions,
    profiled,
    tree_columns,
    without_empty,
)
from blockmix.em.loop import LoopState, Regroup
from blockmix.grouping.grouping import HierarchicalGrouping
from blockmix.partition import FloatArray, IntArray
from blockmix.rows import Chunk, Rows

_LOOSE = 1e-3  # tolerance of the first revision of the groups, per row and column
_LEAST_GAIN = 1e-9  # per row: what a new grouping must gain, well above rounding
_ROUNDS = 20  # rounds of single moves in a regroup
_TRIAL_STEPS = 5  # EM steps before newly cut groups are judged
_ALIKE = 0.9  # new groups that match this share of the columns are not worth a trial
_SIGNIFICANCE = 0.01  # probability that a component without negative correlations is reported

State = tuple[FactorParameters, FactorStatistics]


@dataclass(frozen=True, eq=False)
class FactorFamily:
    """Gaussian mixtures with one common factor per column group, for rows of a given total weight.

    See `em.loop.Family` for the methods.
    """

    model: FactorModel
    total_weight: float

    def first(self, rows: Rows, z: FloatArray, tolerance: float) -> LoopState[FactorParameters]:
        """The state after an M-step from responsibilities z, shape (N, G), with the first column groups."""
        parameters = first_parameters(rows, z, first_groups(rows, z, self.model), self.model)
        return LoopState(parameters, tolerance, memory=frozenset(cut_names(z)))

    def layouts(self, n_columns: int, judged: bool) -> dict[str, FactorFamily]:
        """Return the family alone: the number of groups is given."""
        return {"given groups": self}

    def sweep(self, rows: Rows, parameters: FactorParameters) -> FactorStatistics:
        """E-step."""
        return factor_sweep(rows, parameters)

    def objective(self, statistics: FactorStatistics, parameters: FactorParameters) -> float:
        """Log-likelihood: the number of parameters does not change during a fit."""
        return statistics.log_likelihood

    def maximize(self, statistics: FactorStatistics, parameters: FactorParameters) -> FactorParameters:
        """M-step: T exactly, then B and D by EM."""
        return factor_m_step(statistics, parameters, self.model)

    def regroup(
        self,
        rows: Rows,
        parameters: FactorParameters,
        statistics: FactorStatistics,
        enough: float,
        memory: frozenset[str],
    ) -> Regroup[FactorParameters]:
        """M-step after moves of single columns and new cuts of the tree, where these raise the likelihood."""
        better = with_moves(rows, (parameters, statistics), self.model, enough)
        better, memory = with_cuts(rows, better, self.model, memory)
        changed = better[1].log_likelihood - statistics.log_likelihood >= enough
        return Regroup(self.maximize(better[1], better[0]), changed, memory)

    def thin(self, rows: Rows, parameters: FactorParameters, spare: int = 0) -> IntArray:
        """Components whose noise rests on its floor in more than half of the columns, or on two rows or fewer."""
        resting = (parameters.noise <= self.model.floor * (1 + 1e-9)).mean(axis=1) > 0.5
        few = parameters.weights * self.total_weight <= 2
        return np.flatnonzero(resting | (few & (not self.model.shared_noise)))

    def resting(self, rows: Rows, parameters: FactorParameters) -> IntArray:
        """The same components: fewer rows than these leave the noise on its floor."""
        return self.thin(rows, parameters)

    @property
    def loose(self) -> float:
        """Least tolerance per row at which the groups are first revised."""
        return _LOOSE * len(self.model.floor)

    def log_joint(self, chunk: Chunk, parameters: FactorParameters) -> FloatArray:
        """Log π_g f_g of the rows of a chunk in standardized columns, shape (m, G)."""
        return factor_log_joint(chunk, parameters)


def with_moves(rows: Rows, state: State, model: FactorModel, enough: float) -> State:
    """The state after rounds of moves of single columns, until a round gains less than `enough`."""
    for _ in range(_ROUNDS):
        before, state = state, _one_round(rows, state, model)
        if state is before or state[1].log_likelihood - before[1].log_likelihood < enough:
            break
    return state


def _one_round(rows: Rows, state: State, model: FactorModel) -> State:
    """Move all columns that would gain alone, or the best quarter of them, and so on down to the best one.

    Together they may lose what each would gain alone; the best one alone does gain.
    """
    scatter, old = profiled(state[1], state[0], model)
    change, noise = move_costs(scatter, old, model)
    target = change.argmin(axis=1)
    best = np.take_along_axis(change, target[:, None, :], axis=1)[:, 0]
    order = np.argsort(best, axis=None, kind="stable")
    count = int((best < -_LEAST_GAIN * rows.total_weight).sum())
    while count:
        chosen = np.unravel_index(order[:count], best.shape)
        labels = np.array(old.labels[: len(target)])
        labels[chosen] = target[chosen]
        pairs = zip(labels, old.labels, strict=False)  # one row where components share their groups
        labels = np.stack([without_empty(new, before, model.n_groups) for new, before in pairs])
        labels = np.broadcast_to(labels, old.labels.shape)
        new_noise = np.take_along_axis(noise, labels[:, None, :], axis=1)[:, 0]
        candidate = replace(old, labels=labels, noise=np.where(labels != old.labels, new_noise, old.noise))
        statistics = factor_sweep(rows, candidate)
        if _rises(rows, state[1], statistics):
            return candidate, statistics
        count = max(count // 4, 1) if count > 1 else 0
    return state


def move_costs(scatter: Scatter, old: FactorParameters, model: FactorModel) -> tuple[FloatArray, FloatArray]:
    """Change of −log-likelihood when one column moves, z fixed, and its noise there, shapes (G, q, p).

    Given the columns of group k without j, x_j has mean square V about its prediction, and variance d_j + c in the
    model: it costs log(d + c) + V / (d + c), and the best free noise is d = V − c. A column that is alone in its group
    stays. Where components share their groups, their changes are added: shape (1, q, p).
    """
    home = old.labels[:, None, :]
    S, t = scatter.variances[:, None, :], old.factor_variances[:, :, None]
    c, V = predictions(S, old.precisions[:, :, None], scatter.spread[:, :, None], scatter.cross, t)
    c = np.broadcast_to(c, V.shape).copy()
    for table, at_home in zip((c, V), home_predictions(scatter, old), strict=True):
        np.put_along_axis(table, home, at_home[:, None, :], axis=1)
    d = np.maximum(V - c, model.floor) if model.free_noise else np.broadcast_to(old.noise[:, None, :], V.shape)
    cost = column_cost(d + c, V)
    change = 0.5 * scatter.rows[:, None, None] * (cost - np.take_along_axis(cost, home, axis=1))
    sizes = np.take_along_axis(group_sizes(old.labels, model.n_groups), old.labels, axis=1)
    change = np.where(sizes[:, None, :] > 1, change, 0)
    return (change.sum(axis=0, keepdims=True) if model.shared_groups else change), d


def with_cuts(rows: Rows, state: State, model: FactorModel, tried: frozenset[str]) -> tuple[State, frozenset[str]]:
    """The state with the tree of a component cut again where that raises the likelihood, and the cuts tried so far.

    A cut is identified by the rows of its component. One that was tried before is not tried again: EM and the moves led
    from it to here. Where new groups are much like the present ones, single moves have decided between them.
    """
    z = factor_responsibilities(rows, state[0])
    names = cut_names(z)
    new = [g for g, name in enumerate(names) if name not in tried]
    tried |= set(names)
    labels = first_groups(rows, z, model) if new else state[0].labels
    new = [g for g in new if _agreement(labels[g], state[0].labels[g]) < _ALIKE]
    if not new:
        return state, tried
    fresh = first_parameters(rows, z, labels, model)
    for part in [slice(None)] if model.shared_groups else [slice(g, g + 1) for g in new]:
        trial = _on_trial(rows, _exchanged(state[0], fresh, part, model), model, state[1].log_likelihood)
        if _rises(rows, state[1], trial[1]):
            state = trial
    return state, tried


def _on_trial(rows: Rows, parameters: FactorParameters, model: FactorModel, rival: float) -> State:
    """The state after a few EM steps, fewer if even gains that do not shrink would not lead past the rival."""
    last = -np.inf
    for left in range(_TRIAL_STEPS, -1, -1):
        statistics = factor_sweep(rows, parameters)
        value = statistics.log_likelihood
        if left == 0 or value + left * (value - last) < rival:
            break
        last, parameters = value, factor_m_step(statistics, parameters, model)
    return parameters, statistics


def cut_names(z: FloatArray) -> list[str]:
    """Names of the cuts of all components: the component, and a digest of its rows by responsibilities (N, G)."""
    return [f"{g} {blake2b((share > 0.5).tobytes(), digest_size=16).hexdigest()}" for g, share in enumerate(z.T)]


def _agreement(one: IntArray, other: IntArray) -> float:
    """Share of the columns in matching groups, under the best matching."""
    q = int(max(one.max(), other.max())) + 1
    table = np.bincount(one * q + other, minlength=q * q).reshape(q, q)
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / len(one))


def _exchanged(old: FactorParameters, fresh: FactorParameters, part: slice, model: FactorModel) -> FactorParameters:
    """Old parameters with the fresh groups of some components, and with the fresh T and D that they do not share."""
    exchange = {"labels": True, "factor_variances": not model.shared_factors, "noise": not model.shared_noise}
    mixed = {name: np.array(getattr(old, name)) for name in exchange}
    for name, values in mixed.items():
        if exchange[name]:
            values[part] = getattr(fresh, name)[part]
    return replace(old, **mixed)


def _rises(rows: Rows, old: FactorStatistics, new: FactorStatistics) -> bool:
    return new.log_likelihood > old.log_likelihood + _LEAST_GAIN * rows.total_weight


class NegativeGroup(NamedTuple):
    """The most negative correlation of a group of related columns, its pair of columns, the component and the group."""

    correlation: float
    pair: tuple[int, int]
    component: int
    columns: list[int]


def negative_groups(rows: Rows, parameters: FactorParameters, model: FactorModel) -> list[NegativeGroup]:
    """Groups of the tree on 1 − |R| within a component that have a negative correlation, worst first.

    The fit itself avoids groups with negative correlations by separating their columns, so these are the groups of a
    tree that ignores signs. A correlation counts below −tanh(u / √(n − 3)), with u the normal quantile for all pairs.
    """
    z = factor_responsibilities(rows, parameters)
    columns = tree_columns(rows.n_columns)
    counts, c = parameters.weights * rows.total_weight, len(columns)
    R_of_components = correlations(rows, z, parameters.means, columns, counts[:, None] * model.floor[columns])
    groups: list[NegativeGroup] = []
    for g, (n, R) in enumerate(zip(counts, R_of_components, strict=True)):
        if n <= 4 or c == 1:
            continue
        limit = -np.tanh(norm.isf(_SIGNIFICANCE / (c * (c - 1) // 2)) / np.sqrt(n - 3))
        if R.min() >= limit:
            continue
        for group in HierarchicalGrouping().group(R, min(model.n_groups, c)).partition.groups:
            block, members = R[np.ix_(group, group)], columns[group].tolist()
            i, j = np.unravel_index(int(np.argmin(block)), block.shape)
            if block[i, j] < limit:
                groups.append(NegativeGroup(float(block[i, j]), (members[i], members[j]), g, members))
    return sorted(groups, key=lambda group: group.correlation)
