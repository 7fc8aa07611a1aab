"""Regroup: new column groups are taken only where the objective rises, and then always."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mixtures import (
    ODD,
    TRUTH,
    Fixed,
    dense,
    family,
    mixtures,
    parameters_with,
    responsibilities,
    two_clusters,
    values,
)
from numpy.testing import assert_allclose
from strategies import block_rows, partitions, seeds

from blockmix.blocks.blocks import Layout, Parameters, Prior
from blockmix.em import regroup as regroup_module
from blockmix.em.block import BlockFamily
from blockmix.em.sweep import full_scatter, sweep
from blockmix.grouping import BestCut
from blockmix.partition import Partition
from blockmix.rows import ArrayRows


def value_of(rows: ArrayRows, parameters: Parameters, chosen: BlockFamily) -> float:
    return chosen.objective(chosen.sweep(rows, parameters), parameters)


@pytest.mark.parametrize("shared", [False, True])
def test_groups_that_would_lower_the_objective_are_not_taken(shared: bool) -> None:
    # Red if a proposal is kept as it comes: then EM is the paper's, whose likelihood falls.
    rows, z = two_clusters()
    right = Layout((TRUTH[0],) * 2 if shared else TRUTH, shared)
    if shared:
        rows = ArrayRows.standardized(block_rows(np.random.default_rng(0), 160, TRUTH[0]) + 3 * z[:, :1])
    parameters = parameters_with(right, rows, z)
    assert family(rows, grouping=Fixed(ODD), shared=shared).proposer.regroup(rows, parameters) is None


@pytest.mark.parametrize("shared", [False, True])
def test_groups_that_raise_the_objective_are_taken(shared: bool) -> None:
    rows, z = two_clusters()
    if shared:
        rows = ArrayRows.standardized(block_rows(np.random.default_rng(0), 160, TRUTH[0]) + 3 * z[:, :1])
    parameters = parameters_with(Layout((ODD, ODD), shared), rows, z)
    chosen = family(rows, shared=shared)
    new = chosen.proposer.regroup(rows, parameters)
    assert new is not None
    assert new.layout.partitions == ((TRUTH[0],) * 2 if shared else TRUTH)
    assert new.layout.shared == shared
    assert value_of(rows, new, chosen) > value_of(rows, parameters, chosen) + 10


@pytest.mark.parametrize("shared", [False, True])
def test_pseudo_rows_of_the_prior_count_in_a_regroup(shared: bool) -> None:
    # Columns from uncorrelated to correlated: where joining them begins to pay depends on κ, once per component.
    prior, joined = Prior(shrinkage=60.0), Partition.single(2)
    taken, expected = [], []
    for strength in np.linspace(0.3, 0.95, 60):
        X = block_rows(np.random.default_rng(0), 40, joined, strength)
        rows, z = ArrayRows.standardized(X), np.full((40, 2), 0.5)
        parameters = parameters_with(Layout((Partition.separate(2),) * 2, shared), rows, z, prior)
        chosen = family(rows, 1, 1, grouping=Fixed(joined), shared=shared, prior=prior, priced=True)
        new = chosen.proposer.regroup(rows, parameters)
        taken.append(new is not None)
        n, total = (40.0, 160.0) if shared else (20.0, 80.0)  # with pseudo-rows
        r = np.corrcoef(X.T)[0, 1] * n / total
        expected.append(-0.5 * total * np.log(1 - r**2) > 0.5 * np.log(40))
    assert taken == expected
    assert 5 < sum(taken) < 55


def test_one_component_may_change_its_groups_and_the_other_keep_them() -> None:
    rows, z = two_clusters()
    parameters = parameters_with(Layout((TRUTH[0], ODD)), rows, z)
    # The grouping is wrong for the first component and right for the second.
    new = family(rows, grouping=Fixed(ODD, TRUTH[1])).proposer.regroup(rows, parameters)
    assert new is not None
    assert new.layout.partitions == TRUTH


def test_equal_groups_under_other_numbers_are_no_change() -> None:
    rows, z = two_clusters()
    parameters = parameters_with(Layout(TRUTH), rows, z)
    again = Fixed(Partition([7, 7, 7, 3, 3, 3]), Partition([5, 1, 5, 1, 5, 1]))
    assert family(rows, grouping=again).proposer.regroup(rows, parameters) is None


@given(mixtures(), st.data())
def test_the_m_step_in_proposed_groups_is_its_formula(
    mixture: tuple[ArrayRows, Parameters], data: st.DataObject
) -> None:
    rows, parameters = mixture
    shared, G = parameters.layout.shared, len(parameters.weights)
    assume(not full_scatter(rows, parameters).empty.any())
    groups = [data.draw(partitions(rows.n_columns)) for _ in range(1 if shared else G)]
    z = responsibilities(rows, parameters)
    new = parameters_with(Layout(tuple(groups) * (G // len(groups)), shared), rows, z, Prior(0.5, 0.1))
    labels = [partition.labels.tolist() for partition in new.layout.partitions]
    assert labels == [partition.labels.tolist() for partition in groups] * (G // len(groups))
    expected = oracles.m_step(values(rows), z, labels, rows.weights, 0.5, 0.1, shared)
    assert_allclose(new.weights, expected[0], atol=1e-9)
    assert_allclose(new.means, expected[1], rtol=1e-6, atol=1e-7)
    assert_allclose(dense(new), expected[2], rtol=1e-5, atol=1e-6)


@given(seeds, st.booleans(), st.sampled_from([1, 2, 3, 5]), st.sampled_from([np.float64, np.float32]))
@settings(max_examples=30)
def test_a_regroup_in_several_passes_is_one_in_a_single_pass(
    seed: int, shared: bool, at_once: int, dtype: type
) -> None:
    # The full scatters of 1, 2, 3 and 5 of five components in memory at once. Red if a pass keeps only its own moments.
    rng = np.random.default_rng(seed)
    rows = ArrayRows.standardized(two_clusters(seed, apart=1.0)[0].X.astype(dtype))
    z = rng.dirichlet(np.ones(5), rows.n_rows)
    chosen = family(rows, BestCut(), 3, BestCut(), BestCut(), 2, shared=shared, priced=True)
    old = tuple(Partition(rng.integers(0, 3, 6)) for _ in range(5))
    parameters = parameters_with(Layout(old[:1] * 5 if shared else old, shared), rows, z)
    whole = chosen.proposer.regroup(rows, parameters)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regroup_module, "_TOGETHER", at_once * 36)
        parts = chosen.proposer.regroup(rows, parameters)
        first = chosen.proposer.first(rows, z)
    assert (parts is None) == (whole is None)
    for found, expected in ((parts or first, whole or first), (first, chosen.proposer.first(rows, z))):
        assert found.layout.partitions == expected.layout.partitions
        assert_allclose(found.weights, expected.weights, rtol=1e-12)
        assert_allclose(found.means, expected.means, atol=1e-10)
        assert_allclose(found.factors, expected.factors, atol=1e-10)


@pytest.mark.parametrize("at_once", [1, 5])
def test_an_empty_component_has_nothing_to_group(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without a prior, the fourth of five components empty.
    monkeypatch.setattr(regroup_module, "_TOGETHER", at_once * 36)
    rng = np.random.default_rng(0)
    rows, _ = two_clusters(apart=1.0)
    z = rng.dirichlet(np.ones(5), rows.n_rows)
    z[:, 3] = 0
    chosen = family(rows, *[BestCut()] * 5, prior=Prior(), priced=True)
    first = chosen.first(rows, z / z.sum(axis=1, keepdims=True)).parameters
    assert first.layout.partitions[3] == Partition.separate(6)
    again = chosen.proposer.regroup(rows, first)
    for parameters in [first] if again is None else [first, again]:
        assert all(np.isfinite(found).all() for found in (parameters.means, parameters.factors, parameters.weights))


@given(seeds, partitions(6), partitions(6), st.booleans(), st.booleans(), st.sampled_from([0.0, 40.0]))
@settings(max_examples=100)
def test_a_regroup_never_lowers_the_objective_and_a_better_one_is_never_refused(
    seed: int, old: Partition, new: Partition, shared: bool, priced: bool, shrinkage: float
) -> None:
    # From responsibilities that the parameters themselves give, so the literal objective of both layouts is at hand.
    rows, z = two_clusters(seed, n_rows=20, apart=1.0)
    prior = Prior(shrinkage, ridge=0.01)
    parameters = parameters_with(Layout((old, old), shared), rows, z, prior)
    chosen = family(rows, new.n_groups, new.n_groups, grouping=Fixed(new), shared=shared, prior=prior, priced=priced)
    after = chosen.proposer.regroup(rows, parameters)
    layout = parameters.layout if after is None else after.layout
    if after is not None:
        assert value_of(rows, after, chosen) >= value_of(rows, parameters, chosen) - 1e-9

    z = responsibilities(rows, parameters)
    weight, excess, _ = oracles.moments(values(rows), rows.weights, z, parameters.means)
    means = parameters.means + excess / weight[:, None]
    pulled = oracles.moments(values(rows), rows.weights, z, means)[2] + (shrinkage + 0.01) * np.eye(6)
    sources = (
        [(pulled.sum(axis=0), weight.sum() + 2 * shrinkage)]
        if shared
        else list(zip(pulled, weight + shrinkage, strict=True))
    )
    price = 0.5 * np.log(rows.total_weight) if priced else 0.0
    for (total, n), taken in zip(sources, layout.partitions, strict=False):
        worth = {
            partition: n * oracles.objective(total / n, partition.labels)
            - price * oracles.n_parameters(partition.labels)
            - (oracles.partition_price(partition.labels) if priced else 0)
            for partition in (old, new)
        }
        assert worth[taken] >= max(worth.values()) - 1e-6


def test_the_first_covariances_of_tight_clusters_keep_their_digits() -> None:
    # Red if the first scatter is taken about the overall mean: a variance of 1e-13 is a rounding error beside 1.
    rng = np.random.default_rng(0)
    X = 1e-7 * rng.standard_normal((60, 3)) + np.repeat([[0.0], [1.0]], 30, axis=0)
    rows = ArrayRows.standardized(X)
    first = family(rows, 1, 1, prior=Prior()).first(rows, np.repeat(np.eye(2), 30, axis=0)).parameters
    moved = first.in_units(rows.location, rows.scale)
    for block, part in zip(moved.covariances, (X[:30], X[30:]), strict=True):
        assert_allclose(block.dense(), np.cov(part.T, ddof=0), rtol=1e-5, atol=1e-18)


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_component_left_without_variance_is_named_where_there_is_no_ridge(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Red at 1 if components are counted from the first of a pass.
    monkeypatch.setattr(regroup_module, "_TOGETHER", at_once * 36)
    rows, z = two_clusters()
    z[:] = [1, 0]
    z[3] = [0, 1]
    with pytest.raises(ValueError) as caught:
        family(rows, prior=Prior()).first(rows, z)
    assert str(caught.value) == "component 1 has no variance in some column: give a ridge above 0"


def test_a_regroup_of_parameters_that_have_settled_changes_nothing() -> None:
    rows, z = two_clusters()
    chosen = family(rows)
    parameters = chosen.first(rows, z).parameters
    for _ in range(50):
        parameters = chosen.maximize(sweep(rows, parameters), parameters)
    assert chosen.proposer.regroup(rows, parameters) is None
