"""The M-step of normal and t components against its literal formula; components that are empty or singular."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracles
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mixtures import (
    Case,
    dense,
    labels_of,
    literal,
    mixtures,
    stacked,
    two_clusters,
    values,
)
from numpy.testing import assert_allclose, assert_array_equal
from strategies import Matrix

from blockmix.em.parameters import Parameters, Prior
from blockmix.em.sweep import Statistics, full_scatter, maximize, sweep
from blockmix.partition import Partition
from blockmix.rows import ArrayRows

priors = st.builds(Prior, st.floats(0, 20), st.floats(0.01, 5))


def statistics_of(rows: ArrayRows, parameters: Parameters, z: Matrix) -> Statistics:
    """Statistics of given responsibilities with the scatter within blocks, flat."""
    full = full_scatter(rows, parameters, z=z)
    pairs = zip(full.scatter, parameters.blocks.layout.distinct, strict=True)
    flat = [S[np.ix_(group, group)].ravel() for S, partition in pairs for group in partition.groups]
    return replace(full, scatter=np.concatenate(flat))


def start(groups: list[Partition], n_sharing: int = 1) -> Parameters:
    """Identity covariances, means 0 and equal weights."""
    G, p = len(groups) * n_sharing, groups[0].n_columns
    return Parameters(np.full(G, 1 / G), np.zeros((G, p)), stacked([np.eye(p)] * len(groups), groups, n_sharing))


@given(mixtures(missing=False, heavy=False), priors)
def test_the_m_step_is_its_formula(made: Case, prior: Prior) -> None:
    # Red if the scatter stays about the old means, if κ counts once for a shared covariance, or ρ is left out; red if
    # the statistics are changed, which a regroup would take again.
    rows, parameters = made
    rows, layout = ArrayRows(rows.X.astype(float), rows.weights, rows.location, rows.scale), parameters.blocks.layout
    statistics = sweep(rows, parameters)
    assume((statistics.weight > 1e-6).all())
    before = statistics.weight.copy(), statistics.excess.copy(), statistics.scatter.copy()
    new = maximize(statistics, parameters, prior)
    assert_array_equal(statistics.scatter, before[2])
    assert new.blocks.layout is layout
    z = oracles.responsibilities(literal(rows, parameters)[0])[0]
    shared = layout.n_sharing > 1
    wanted = oracles.m_step(values(rows), z, labels_of(parameters), rows.weights, prior.shrinkage, prior.ridge, shared)
    assert_allclose(new.weights, wanted[0], atol=1e-9)
    assert_allclose(new.means, wanted[1], rtol=1e-6, atol=1e-7)
    assert_allclose(dense(new), wanted[2], rtol=1e-5, atol=1e-6)


@given(mixtures(), priors)
def test_no_m_step_lowers_the_penalized_likelihood(made: Case, prior: Prior) -> None:
    # With missing values, rounding and the scale α of the weights of t components (PX-EM).
    rows, parameters = made
    statistics = sweep(rows, parameters)
    assume((statistics.weight > 1e-6).all())
    new = maximize(statistics, parameters, prior)
    before = statistics.log_likelihood + prior.value(parameters)
    assert sweep(rows, new).log_likelihood + prior.value(new) >= before - 1e-9 * abs(before)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("prior", [Prior(), Prior(shrinkage=2.0, ridge=1e-6)])
@pytest.mark.parametrize("left", [0.0, 1e-300, 1e-12])
def test_a_component_without_weight_is_finite_and_takes_nothing_from_the_others(
    shared: bool, prior: Prior, left: float
) -> None:
    # Red if its moments are divided by its weight.
    rows = ArrayRows.standardized(np.random.default_rng(0).standard_normal((60, 4)))
    z = np.column_stack([np.arange(60) < 30, np.arange(60) >= 30, np.full(60, left / 60)]).astype(float)
    old = start([Partition([0, 0, 1, 2])] * (1 if shared else 3), 3 if shared else 1)
    new = maximize(statistics_of(rows, old, z), old, prior)
    wanted = oracles.m_step(values(rows), z[:, :2], labels_of(old)[:2], np.ones(60), prior.shrinkage, prior.ridge)
    assert np.isfinite(dense(new)).all() and np.isfinite(new.means).all()
    assert_allclose(new.weights, [*wanted[0], 0], atol=1e-9)
    assert_allclose(new.means[:2], wanted[1], atol=1e-9)
    if shared:
        within = (wanted[2] * (30 + prior.shrinkage)).sum(axis=0) + (prior.shrinkage + prior.ridge) * np.eye(4)
        assert_allclose(dense(new), [within / (60 + 3 * prior.shrinkage)] * 3, atol=1e-9)
    else:
        assert_allclose(dense(new)[:2], wanted[2], atol=1e-9)
    again = sweep(rows, new)
    assert np.isfinite(again.log_likelihood) and again.weight[2] <= 1e-9


def test_the_penalty_of_a_component_does_not_grow_when_it_becomes_empty() -> None:
    # Red if an empty component gets the overall variances: just before, its variances were ρ/n, far larger.
    rows, prior = ArrayRows.standardized(np.random.default_rng(0).standard_normal((60, 4))), Prior(ridge=1e-4)
    old = start([Partition.single(4)] * 2)

    def penalty(left: float) -> float:
        z = np.column_stack([np.full(60, 1 - left), np.full(60, left)])
        return prior.value(maximize(statistics_of(rows, old, z), old, prior))

    assert -1e-12 <= penalty(0.9e-10) - penalty(1.1e-10) < 1e-6


def test_a_component_without_variance_is_refused_only_without_a_ridge() -> None:
    X = np.random.default_rng(0).standard_normal((20, 3))
    rows = ArrayRows(X, np.ones(20), np.zeros(3), np.ones(3))
    z = np.eye(2)[(np.arange(20) == 5).astype(int)]
    old = start([Partition([0, 0, 1]), Partition.separate(3)]).moved(np.full(2, 0.5), X[[0, 5]])
    statistics = statistics_of(rows, old, z)
    with pytest.raises(ValueError) as caught:
        maximize(statistics, old, Prior())
    assert str(caught.value) == "component 1 has no variance in some column: give a ridge above 0"
    assert_allclose(dense(maximize(statistics, old, Prior(ridge=0.3)))[1], 0.3 * np.eye(3))


def test_a_layout_of_other_blocks_keeps_the_m_step_of_each_block() -> None:
    # The blocks are independent: a block that two layouts have in common has one covariance.
    rows, z = two_clusters()
    matrices = []
    for labels in ([0, 0, 1, 1, 2, 2], [0, 0, 1, 3, 2, 2]):
        old = start([Partition(labels)])
        matrices.append(dense(maximize(statistics_of(rows, old, np.ones((len(z), 1))), old, Prior(ridge=0.1)))[0])
    assert_allclose(matrices[0][:2, :2], matrices[1][:2, :2], rtol=1e-12)
    assert_allclose(np.diag(matrices[0]), np.diag(matrices[1]), rtol=1e-12)
    assert matrices[1][2, 3] == 0 != matrices[0][2, 3]
