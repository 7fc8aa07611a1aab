"""M-step against its literal formula; a component without rows or variance is finite or refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracles
import pytest
from blockmix.em.m_step import maximize
from hypothesis import assume, given
from hypothesis import strategies as st
from mixtures import dense, labels_of, mixtures, responsibilities, values
from numpy.testing import assert_allclose, assert_array_equal
from strategies import Matrix

from blockmix.blocks.blocks import Blocks, Layout, Parameters, Prior, assemble
from blockmix.em.sweep import Statistics, full_scatter, sweep, unit_parameters
from blockmix.partition import Partition
from blockmix.rows import ArrayRows


def statistics_of(rows: ArrayRows, parameters: Parameters, z: Matrix) -> Statistics:
    """Statistics of given responsibilities with the scatter within blocks, flat."""
    full = full_scatter(rows, parameters, z=z)
    pairs = zip(full.scatter, parameters.layout.distinct, strict=True)
    flat = [S[np.ix_(group, group)].ravel() for S, partition in pairs for group in partition.groups]
    return replace(full, scatter=np.concatenate(flat))


@given(mixtures(), st.floats(0, 20), st.floats(0.01, 5))
def test_the_m_step_is_its_formula(mixture: tuple[ArrayRows, Parameters], shrinkage: float, ridge: float) -> None:
    # Red if the scatter stays about the old means, if κ counts once for a shared covariance, or ρ is left out.
    rows, parameters = mixture
    statistics = sweep(rows, parameters)
    assume(not statistics.empty.any())  # these have a test of their own
    new = maximize(statistics, parameters, Prior(shrinkage, ridge))
    z = responsibilities(rows, parameters)
    shared = parameters.layout.shared
    expected = oracles.m_step(values(rows), z, labels_of(parameters), rows.weights, shrinkage, ridge, shared)
    assert_allclose(new.weights, expected[0], atol=1e-9)
    assert_allclose(new.means, expected[1], rtol=1e-6, atol=1e-7)
    assert_allclose(dense(new), expected[2], rtol=1e-5, atol=1e-6)
    assert new.layout is parameters.layout


@given(mixtures(), st.floats(0, 20), st.floats(0.01, 5))
def test_an_m_step_raises_the_penalized_likelihood(
    mixture: tuple[ArrayRows, Parameters], shrinkage: float, ridge: float
) -> None:
    rows, parameters = mixture
    prior, statistics = Prior(shrinkage, ridge), sweep(rows, parameters)
    assume(not statistics.empty.any())
    new = maximize(statistics, parameters, prior)
    before = statistics.log_likelihood + prior.value(parameters)
    assert sweep(rows, new).log_likelihood + prior.value(new) >= before - 1e-9 * abs(before)


def test_statistics_are_left_as_they_were() -> None:
    # Red if the scatter of a sweep is moved to the new means in place: a regroup would move it again.
    rows = ArrayRows.standardized(np.random.default_rng(0).standard_normal((50, 4)))
    S = Blocks.of(np.eye(4), Partition([0, 0, 1, 1]))
    old = assemble(np.full(2, 0.5), np.random.default_rng(1).standard_normal((2, 4)), (S, S))
    statistics = sweep(rows, old)
    before = [array.copy() for array in (statistics.weight, statistics.excess, statistics.scatter, old.factors)]
    maximize(statistics, old, Prior(ridge=0.1))
    for a, b in zip(before, (statistics.weight, statistics.excess, statistics.scatter, old.factors), strict=True):
        assert_array_equal(a, b)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("prior", [Prior(), Prior(ridge=1e-6), Prior(shrinkage=2.0, ridge=1e-6)])
@pytest.mark.parametrize("left", [0.0, 1e-300, 1e-12])
def test_a_component_without_weight_is_finite_and_takes_nothing_from_the_others(
    shared: bool, prior: Prior, left: float
) -> None:
    # Red if its moments are divided by its weight.
    rows = ArrayRows.standardized(np.random.default_rng(0).standard_normal((60, 4)))
    z = np.zeros((60, 3))
    z[:30, 0], z[30:, 1], z[:, 2] = 1, 1, left / 60
    partition = Partition([0, 0, 1, 2])
    blocks = [Blocks.of(np.eye(4), partition) for _ in range(3)]
    old = assemble(np.full(3, 1 / 3), np.zeros((3, 4)), blocks[:1] * 3 if shared else blocks)
    statistics = statistics_of(rows, old, z)
    assert statistics.empty.tolist() == [False, False, True]
    new = maximize(statistics, old, prior)
    assert all(np.isfinite(found).all() for found in (new.weights, new.means, dense(new), new.logdets))
    expected = oracles.m_step(values(rows), z[:, :2], labels_of(old)[:2], np.ones(60), prior.shrinkage, prior.ridge)
    assert_allclose(new.weights, [*expected[0], 0], atol=1e-9)
    assert_allclose(new.means[:2], expected[1], atol=1e-9)
    if shared:
        within = (expected[2] * (30 + prior.shrinkage)).sum(axis=0) + (prior.shrinkage + prior.ridge) * np.eye(4)
        assert_allclose(dense(new), [within / (60 + 3 * prior.shrinkage)] * 3, atol=1e-9)
    else:
        assert_allclose(dense(new)[:2], expected[2], atol=1e-9)
    again = sweep(rows, new)
    assert np.isfinite(again.log_likelihood)
    assert again.weight[2] <= 1e-9


def test_the_penalty_of_a_component_does_not_grow_when_it_becomes_empty() -> None:
    # Red if an empty component gets the overall variances: just before, its variances were ρ/n, far larger.
    rows = ArrayRows.standardized(np.random.default_rng(0).standard_normal((60, 4)))
    partition, prior = Partition.single(4), Prior(ridge=1e-4)
    blocks = [Blocks.of(np.eye(4), partition) for _ in range(2)]
    old = assemble(np.full(2, 0.5), np.zeros((2, 4)), blocks)

    def penalty(left: float) -> float:
        z = np.column_stack([np.full(60, 1 - left), np.full(60, left)])
        return prior.value(maximize(statistics_of(rows, old, z), old, prior))

    assert penalty(1.1e-10) <= penalty(0.9e-10) + 1e-12
    assert penalty(0.9e-10) - penalty(1.1e-10) < 1e-6


def test_a_component_without_variance_is_refused_only_without_a_ridge() -> None:
    X = np.random.default_rng(0).standard_normal((20, 3))
    rows = ArrayRows(X, np.ones(20), np.zeros(3), np.ones(3))
    z = np.column_stack([np.ones(20), np.zeros(20)])
    z[5] = [0, 1]
    S = Blocks.of(np.eye(3), Partition([0, 0, 1]))
    old = assemble(np.full(2, 0.5), np.stack([X[0], X[5]]), (S, Blocks.of(np.eye(3), Partition.separate(3))))
    statistics = statistics_of(rows, old, z)
    with pytest.raises(ValueError) as caught:
        maximize(statistics, old, Prior())
    assert str(caught.value) == "component 1 has no variance in some column: give a ridge above 0"
    assert_allclose(dense(maximize(statistics, old, Prior(ridge=0.3)))[1], 0.3 * np.eye(3))


def test_a_layout_of_other_blocks_keeps_the_m_step_of_each_block() -> None:
    # The blocks are independent: a block that two layouts have in common has one covariance.
    rows = ArrayRows.standardized(np.random.default_rng(0).standard_normal((50, 4)) @ np.triu(np.ones((4, 4))))
    found = []
    for labels in ([0, 0, 1, 1], [0, 0, 1, 2]):
        layout = Layout((Partition(labels),))
        old = unit_parameters(np.zeros((1, 4)), layout)
        found.append(dense(maximize(statistics_of(rows, old, np.ones((50, 1))), old, Prior(ridge=0.1)))[0])
    assert_allclose(found[0][:2, :2], found[1][:2, :2], rtol=1e-12)
    assert_allclose(np.diag(found[0]), np.diag(found[1]), rtol=1e-12)
    assert found[1][2, 3] == 0 != found[0][2, 3]
