"""The block mixture as a family: new column groups are taken where the objective rises, and only there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import (
    ODD,
    TRUTH,
    Fixed,
    dense,
    ended,
    family,
    labels_of,
    literal,
    parameters_with,
    two_clusters,
    value_of,
    values,
)
from numpy.testing import assert_allclose
from strategies import Matrix, block_rows, partitions, seeds

from blockmix import GaussianBiclustering
from blockmix.em import block as module
from blockmix.em.loop import Outcome
from blockmix.em.parameters import Prior
from blockmix.em.sweep import sweep
from blockmix.partition import Partition
from blockmix.rows import ArrayRows


def one_structure(z: Matrix) -> ArrayRows:
    """Two clusters with the same column groups."""
    return ArrayRows.standardized(block_rows(np.random.default_rng(0), len(z), TRUTH[0]) + 3 * z[:, :1])


@given(seeds, st.sampled_from([1, 3, "auto", "silhouette"]), st.booleans(), st.sampled_from([0.0, 10.0]))
@settings(max_examples=15)
def test_the_objective_is_its_formula(seed: int, number: object, shared: bool, shrinkage: float) -> None:
    rows, _ = two_clusters(seed, n_rows=30, apart=1.0)
    z = np.random.default_rng(seed).dirichlet(np.ones(3), rows.n_rows)
    chosen = family(rows, number, 3, Prior(shrinkage, 1e-4), shared, block_model="full")
    result = ended(chosen, rows, z, 1e-6, 60)
    parameters = result.state.parameters
    distinct = parameters.blocks.layout.distinct
    value = value_of(rows, parameters, chosen)
    wanted = oracles.responsibilities(literal(rows, parameters)[0])[1].sum()
    wanted += oracles.penalty(dense(parameters), shrinkage, 1e-4)
    if isinstance(number, str):
        wanted -= 0.5 * np.log(rows.n_rows) * sum(oracles.n_parameters(k.labels) for k in distinct)
        wanted -= sum(oracles.partition_price(k.labels) for k in distinct)
    assert value == pytest.approx(wanted, rel=1e-8)
    if result.outcome is Outcome.CONVERGED:
        assert result.state.trace[-1] == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(("number", "priced"), [(2, False), ([2, 3], False), ("auto", True), ("silhouette", True)])
def test_parameters_are_priced_only_where_their_number_is_chosen(number: object, priced: bool) -> None:
    rows, _ = two_clusters()
    for weighted, count in ((rows, 160), (ArrayRows.of(rows.X, np.full(160, 2.0)), 320)):
        assert family(weighted, number).price == pytest.approx(0.5 * np.log(count) if priced else 0)


@pytest.mark.parametrize("shared", [False, True])
def test_groups_are_taken_if_they_raise_the_objective_and_refused_if_not(shared: bool) -> None:
    # Red if a proposal is kept as it comes: then EM is the paper's, whose likelihood falls.
    rows, z = two_clusters()
    rows, right = (one_structure(z), TRUTH[:1]) if shared else (rows, TRUTH)
    chosen = family(rows, shared=shared)
    good, odd = (parameters_with(k, rows, z, shared) for k in (right, (ODD,) * len(right)))
    assert replace(chosen, grouping=Fixed(ODD)).regrouped(rows, good, judge=True) is good
    new = chosen.regrouped(rows, odd, judge=True)
    assert new.blocks.layout.distinct == right
    assert value_of(rows, new, chosen) > value_of(rows, odd, chosen) + 10


def test_each_component_is_judged_and_equal_groups_under_other_numbers_are_no_change() -> None:
    rows, z = two_clusters()
    old = parameters_with((TRUTH[0], ODD), rows, z)
    # The grouping is wrong for the first component and right for the second.
    new = family(rows, grouping=Fixed(ODD, TRUTH[1])).regrouped(rows, old, judge=True)
    assert new.blocks.layout.partitions == TRUTH
    again = Fixed(Partition([7, 7, 7, 3, 3, 3]), Partition([5, 1, 5, 1, 5, 1]))
    assert family(rows, grouping=again).regrouped(rows, new, judge=True) is new
    settled = ended(family(rows), rows, z, 1e-9, 100).state.parameters
    assert family(rows).regrouped(rows, settled, judge=True) is settled


@given(seeds, partitions(6), partitions(6), st.booleans(), st.booleans(), st.sampled_from([0.0, 40.0]))
@settings(max_examples=60)
def test_a_regroup_never_lowers_the_objective_and_a_better_one_is_never_refused(
    seed: int, old: Partition, new: Partition, shared: bool, priced: bool, shrinkage: float
) -> None:
    # From responsibilities that the parameters themselves give, so the literal objective of both layouts is at hand.
    # Pseudo-rows of the prior count once per component.
    rows, z = two_clusters(seed, n_rows=20, apart=1.0)
    prior = Prior(shrinkage, ridge=0.01)
    parameters = parameters_with((old,) if shared else (old, old), rows, z, shared, prior)
    chosen = family(rows, new.n_groups, 2, prior, shared, grouping=Fixed(new))
    chosen = replace(chosen, price=0.5 * np.log(rows.total_weight) if priced else 0.0)
    after = chosen.regrouped(rows, parameters, judge=True)
    assert value_of(rows, after, chosen) >= value_of(rows, parameters, chosen) - 1e-9

    z = oracles.responsibilities(literal(rows, parameters)[0])[0]
    weights, X = rows.weights, values(rows)
    weight, excess, _ = oracles.moments(X, weights, z, parameters.means)
    pulled = oracles.moments(X, weights, z, parameters.means + excess / weight[:, None])[2]
    pulled = pulled + (shrinkage + 0.01) * np.eye(6)
    totals, counts = (pulled, weight + shrinkage) if not shared else (pulled.sum(axis=0)[None], [40 + 2 * shrinkage])
    for total, n, taken in zip(totals, counts, after.blocks.layout.distinct, strict=True):
        worth = {
            partition: n * oracles.objective(total / n, partition.labels)
            - chosen.price * oracles.n_parameters(partition.labels)
            - (oracles.partition_price(partition.labels) if priced else 0)
            for partition in (old, new)
        }
        assert worth[taken] >= max(worth.values()) - 1e-6


@given(seeds, st.booleans(), st.integers(1, 3))
@settings(max_examples=15)
def test_a_regroup_in_several_passes_is_one_in_a_single_pass(seed: int, shared: bool, at_once: int) -> None:
    # The full scatters of some of four components in memory at once, one of them empty and none with a prior. Red if a
    # pass keeps only its own moments, or if a component without rows is divided by its weight.
    rows = two_clusters(seed, apart=1.0)[0]
    z = np.random.default_rng(seed).dirichlet(np.ones(4), rows.n_rows) * [1, 1, 0, 1]
    chosen = family(rows, "auto", 4, Prior(), shared)
    ends = []
    for numbers in (at_once * 36, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_TOGETHER", numbers)
            first = chosen.first(rows, z / z.sum(axis=1, keepdims=True), 0.0).parameters
            ends.append((first, chosen.regrouped(rows, first, judge=True)))
    for one, other in zip(*ends, strict=True):
        assert labels_of(one) == labels_of(other)
        assert_allclose(one.means, other.means, atol=1e-10)
        assert_allclose(one.blocks.factors, other.blocks.factors, atol=1e-10)
        assert np.isfinite(one.means).all() and np.isfinite(one.blocks.factors).all()
    if not shared:  # an empty component has nothing to group
        assert ends[0][0].blocks.layout.partitions[2] == Partition.separate(6)


def test_the_first_covariances_of_tight_clusters_keep_their_digits() -> None:
    # Red if the first scatter is taken about the overall mean: a variance of 1e-13 is a rounding error beside 1.
    X = 1e-7 * np.random.default_rng(0).standard_normal((60, 3)) + np.repeat([[0.0], [1.0]], 30, axis=0)
    rows = ArrayRows.standardized(X)
    first = family(rows, 1, prior=Prior()).first(rows, np.repeat(np.eye(2), 30, axis=0), 0.0).parameters
    for S, part in zip(dense(first.in_units(rows.location, rows.scale)), (X[:30], X[30:]), strict=True):
        assert_allclose(S, np.cov(part.T, ddof=0), rtol=1e-5, atol=1e-18)


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_component_without_variance_is_named(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Red at 1 if components are counted from the first of a pass.
    monkeypatch.setattr(module, "_TOGETHER", at_once * 36)
    rows, z = two_clusters()
    z[:], z[3] = [1, 0], [0, 1]
    with pytest.raises(ValueError, match="component 1 has no variance in some column: give a ridge above 0"):
        family(rows, prior=Prior()).first(rows, z, 0.0)


def test_thin_components_have_no_more_rows_than_their_largest_block_has_columns() -> None:
    rows, z = two_clusters()
    most = rows.n_rows - 1 - 6  # a shared covariance has all rows, less one mean, beyond a block of six columns
    shared = parameters_with((Partition.single(6),), rows, z, shared=True)
    assert family(rows, shared=True).thin(rows, shared).tolist() == []
    assert family(rows, shared=True).thin(rows, shared, spare=int(z.sum(axis=0).min())).tolist() != []  # of a mean
    assert family(rows, shared=True).thin(rows, shared, spare=most).tolist() == [0, 1]
    z[:], z[:4] = [1, 0], [0, 1]
    large = parameters_with((Partition.single(6), Partition([0, 0, 0, 0, 1, 2])), rows, z)
    smaller = parameters_with((Partition.single(6), Partition([0, 0, 0, 1, 1, 2])), rows, z)
    assert family(rows).thin(rows, large).tolist() == [1]
    assert [family(rows).thin(rows, smaller, spare).tolist() for spare in (0, 1, 150)] == [[], [1], [0, 1]]
    # Pseudo-rows make up for rows, and a covariance rests on the ridge if most of a variance is the ridge's.
    assert family(rows, prior=Prior(shrinkage=1.0)).thin(rows, large).tolist() == []
    assert family(rows).resting(rows, large).tolist() == [1]
    rows = ArrayRows.standardized(np.random.default_rng(0).standard_normal((8, 3)))
    assert (
        family(rows, 1, 1).resting(rows, parameters_with((Partition.single(3),), rows, np.ones((8, 1)))).tolist() == []
    )


@pytest.mark.parametrize("setting", [{}, {"n_column_groups": 3}, {"block_model": 1}, {"n_column_groups": 6}])
def test_one_group_and_columns_alone_stand_beside_the_groups_of_a_free_rule(setting: dict[str, object]) -> None:
    rows, _ = two_clusters()
    chosen = GaussianBiclustering(2, **setting)._family(rows, np.ones(6))  # type: ignore[arg-type]
    names = {True: list(chosen.layouts(6, True)), False: list(chosen.layouts(6, False))}
    if "n_column_groups" not in setting:
        assert names == {True: ["rule", "one group", "alone"], False: ["rule", "alone"]}
        assert chosen.layouts(6, True)["alone"].n_groups == (6, 6)
    else:
        assert names[True] == names[False] == ["alone" if setting["n_column_groups"] == 6 else "given groups"]


@pytest.mark.parametrize("share", [0.2, 0.4])
def test_groups_hidden_by_missing_values_are_found_through_coarser_blocks(share: float) -> None:
    # Red if groups are proposed from values that were filled as if columns were independent.
    rng = np.random.default_rng(0)
    X = block_rows(rng, 150, Partition([0, 0, 0, 1, 1, 1]), strength=0.35)
    X[rng.random(X.shape) < share] = np.nan
    rows = ArrayRows.standardized(X)
    chosen = family(rows, "auto", 1, block_model="full")
    alone = parameters_with((Partition.separate(6),), rows, np.ones((150, 1)))
    for _ in range(20):
        alone = chosen.maximize(sweep(rows, alone), alone)
    new = chosen.regroup(rows, alone, sweep(rows, alone), 1e-4, frozenset())
    assert new.changed
    assert value_of(rows, new.parameters, chosen) > value_of(rows, alone, chosen)
