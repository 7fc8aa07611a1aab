"""The block mixture as a family: its objective, thin components, and the layouts that it admits."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import begin, dense, family, log_joint, mixture, parameters_with, two_clusters
from strategies import seeds

from blockmix import GaussianBiclustering
from blockmix.blocks.blocks import Layout, Prior
from blockmix.em.loop import Outcome, run
from blockmix.grouping import BestCut, SilhouetteRule
from blockmix.partition import Partition
from blockmix.rows import ArrayRows


@given(seeds, st.sampled_from([1, 3, 6, BestCut(), SilhouetteRule()]), st.booleans(), st.sampled_from([0.0, 10.0]))
@settings(max_examples=20)
def test_the_trace_is_the_objective_and_never_falls(seed: int, number: object, shared: bool, shrinkage: float) -> None:
    rows, _ = two_clusters(seed, n_rows=30, apart=1.0)
    z = np.random.default_rng(seed).dirichlet(np.ones(3), rows.n_rows)
    priced = not isinstance(number, int)
    chosen = family(rows, number, number, number, shared=shared, prior=Prior(shrinkage, 1e-4), priced=priced)
    found = run(chosen, rows, begin(chosen, rows, z, 1e-6), 1e-6, 60)
    state = found.state
    assert np.diff(state.trace).min() >= -1e-10 * abs(state.trace[-1])
    value = chosen.objective(chosen.sweep(rows, state.parameters), state.parameters)
    if found.outcome is Outcome.CONVERGED:
        assert value == pytest.approx(state.trace[-1], rel=1e-12)
    density = oracles.responsibilities(log_joint(rows, state.parameters))[1]
    free = sum(oracles.n_parameters(k.labels) for k in state.parameters.layout.partitions[: 1 if shared else None])
    expected = density.sum() + oracles.penalty(dense(state.parameters), shrinkage, 1e-4)
    if priced:
        distinct = state.parameters.layout.partitions[: 1 if shared else None]
        chosen_groups = sum(oracles.partition_price(partition.labels) for partition in distinct)
        expected -= 0.5 * np.log(rows.n_rows) * free + chosen_groups
    assert value == pytest.approx(expected, rel=1e-8)


def test_thin_components_have_no_more_rows_than_their_largest_block_has_columns() -> None:
    rows, z = two_clusters()
    z[:] = [1, 0]
    z[:4] = [0, 1]
    chosen = family(rows)
    large = parameters_with(Layout((Partition.single(6), Partition([0, 0, 0, 0, 1, 2]))), rows, z)
    assert chosen.thin(large).tolist() == [1]
    smaller = parameters_with(Layout((Partition.single(6), Partition([0, 0, 0, 1, 1, 2]))), rows, z)
    assert chosen.thin(smaller).tolist() == []
    assert chosen.thin(smaller, spare=1).tolist() == [1]
    assert chosen.thin(smaller, spare=150).tolist() == [0, 1]


def test_a_shared_covariance_has_all_rows_less_those_of_the_other_means() -> None:
    rows, z = two_clusters()
    shared = parameters_with(Layout((Partition.single(6),) * 2, shared=True), rows, z)
    most = rows.n_rows - 1 - 6  # rows of two components, less one mean, beyond a block of six columns
    assert family(rows, shared=True).thin(shared, spare=most - 1).tolist() == []
    assert family(rows, shared=True).thin(shared, spare=most).tolist() == [0, 1]


def test_no_component_is_thin_with_pseudo_rows() -> None:
    rows, z = two_clusters()
    separate = parameters_with(Layout((Partition.single(6),) * 2), rows, z)
    assert family(rows, prior=Prior(shrinkage=1.0)).thin(separate, spare=150).tolist() == []


def test_a_result_counts_its_thin_components() -> None:
    # Eight rows, two more than a block of six columns: few enough to count against a start.
    far, z = two_clusters(apart=9.0)
    rows = ArrayRows.standardized(far.X[:88])
    families = [family(rows, number, number) for number in (1, 6)]
    found = [run(chosen, rows, begin(chosen, rows, z[:88], 1e-4), 1e-4, 20) for chosen in families]
    assert [result.state.parameters.weights[1] for result in found] == pytest.approx([1 / 11, 1 / 11])
    assert [result.thin for result in found] == [1, 0]


def test_a_family_admits_layouts_of_its_numbers_only() -> None:
    rows, _ = mixture(np.random.default_rng(0), 9, [Partition.single(3)])
    layout = Layout((Partition.single(3), Partition.separate(3)))
    assert family(rows, 1, 3).admits(layout)
    assert family(rows, BestCut(), 3).admits(layout)
    assert not family(rows, 1, 2).admits(layout)
    assert not family(rows, 1, 3, shared=True).admits(layout)
    assert not family(rows, 1, 1).admits(Layout((Partition.single(3),) * 2, shared=True))


@pytest.mark.parametrize(("n_column_groups", "priced"), [(2, False), ([2, 3], False), ("auto", True)])
def test_parameters_are_priced_only_where_their_number_is_chosen(n_column_groups: object, priced: bool) -> None:
    rows, _ = two_clusters()
    for weighted, count in ((rows, 160), (ArrayRows.of(rows.X, np.full(160, 2.0)), 320)):
        found = GaussianBiclustering(2, n_column_groups)._family(weighted, rows.scale**2)  # type: ignore[arg-type]
        assert found.proposer.price == pytest.approx(0.5 * np.log(count) if priced else 0)
