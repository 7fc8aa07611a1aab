"""Greedy moves against the whole objective: never down, to a local optimum with K groups."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import oracles
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from strategies import Matrix, block_rows, covariance, covariances, partitions

from blockmix.blocks.moments import as_matrix, correlation
from blockmix.grouping import GreedyGrouping
from blockmix.grouping.greedy import MutablePartition, fill_empty, principal_start
from blockmix.partition import Partition


@st.composite
def cases(draw: st.DrawFn) -> tuple[Matrix, int]:
    R = correlation(draw(covariances(max_p=7)))
    return R, draw(st.integers(1, len(R)))


@st.composite
def grouped(draw: st.DrawFn) -> tuple[Matrix, Partition]:
    S = draw(covariances(min_p=1))
    return S, draw(partitions(len(S)))


@given(grouped())
def test_a_sweep_is_the_literal_one(case: tuple[Matrix, Partition]) -> None:
    S, start = case
    moving = MutablePartition(S, start)
    moving.sweep()
    # Red if a column that has moved is still counted in its old group, or a group loses its last column.
    assert Partition(moving.labels) == Partition(oracles.greedy_sweep(S, start.labels))
    assert start.n_groups == Partition(moving.labels).n_groups


@given(grouped(), st.lists(st.tuples(st.integers(0, 7), st.integers(0, 8)), max_size=12))
def test_conditional_variances_survive_any_sequence_of_moves(
    case: tuple[Matrix, Partition], path: list[tuple[int, int]]
) -> None:
    S, partition = case
    before, moving, labels = partition.labels.copy(), MutablePartition(S, partition), partition.labels.tolist()
    for column, to in path:
        j, k = column % len(S), to % partition.n_groups
        if labels.count(labels[j]) == 1:
            continue
        value, variances = oracles.objective(S, labels), moving.conditional_variances(j)
        groups = [[i for i, label in enumerate(labels) if label == group] for group in range(partition.n_groups)]
        # Red if a factor is not updated, or a group keeps a column that left it.
        assert_allclose(variances, [oracles.conditional_variance(S, j, A) for A in groups], rtol=1e-6)
        came_from, labels[j] = labels[j], k
        moving.move(j, k)
        gained = oracles.objective(S, labels) - value
        assert gained == pytest.approx(0.5 * np.log(variances[came_from] / variances[k]), rel=1e-6, abs=1e-7)
        assert Partition(moving.labels) == Partition(labels)
    assert np.array_equal(partition.labels, before)


def test_a_copy_of_a_column_has_a_positive_conditional_variance() -> None:
    # Red without the floor: rounding makes it zero or negative, and its logarithm is what the search compares.
    S = np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]])
    variances = MutablePartition(S, Partition([0, 1, 2])).conditional_variances(0)
    assert 0 < variances[1] < 1e-12
    assert_allclose(variances[[0, 2]], [1, 0.75])


@given(cases())
def test_the_objective_never_falls_and_ends_where_no_move_helps(case: tuple[Matrix, int]) -> None:
    S, n_groups = case
    R = as_matrix(S).definite()  # what is maximised has the ridge
    path = [principal_start(R, n_groups)]
    path += [GreedyGrouping(max_sweeps=n).group(S, n_groups).partition for n in range(1, 10)]
    values = [oracles.objective(R, partition.labels) for partition in path]
    assert all(after >= before - 1e-9 for before, after in pairwise(values))
    found = GreedyGrouping().group(S, n_groups)
    assert found.converged
    labels = found.partition.labels
    best = oracles.objective(R, labels)
    for j in range(len(R)):
        if found.partition.sizes[labels[j]] > 1:
            for k in range(n_groups):
                assert oracles.objective(R, oracles.relabelled(labels, j, k)) <= best + 2e-6


@given(cases())
def test_the_start_is_the_largest_loading(case: tuple[Matrix, int]) -> None:
    R, n_groups = case
    values, vectors = np.linalg.eigh(R)
    leading = vectors[:, np.argsort(values)[::-1][:n_groups]]
    labels = np.argmax(np.abs(leading), axis=1)
    assume(len(set(labels)) == n_groups)
    assert principal_start(R, n_groups) == Partition(labels)


@st.composite
def memberships(draw: st.DrawFn) -> Matrix:
    p = draw(st.integers(1, 8))
    shape = (p, draw(st.integers(1, p)))
    return draw(arrays(float, shape, elements=st.sampled_from([0.0, 0.3, 0.5, 1.0])))


@given(memberships())
def test_empty_groups_are_filled(membership: Matrix) -> None:
    partition = fill_empty(membership)
    assert partition.n_groups == membership.shape[1]
    largest = np.argmax(membership, axis=1)
    if len(set(largest)) == membership.shape[1]:
        assert partition == Partition(largest)


def test_an_empty_group_takes_its_best_column_from_a_group_of_several() -> None:
    membership = np.array([[0.9, 0.0, 0.1], [0.8, 0.0, 0.3], [0.7, 0.0, 0.2], [0.0, 1.0, 0.9]])
    # Column 3 wants group 2 most, but it is alone in group 1.
    assert fill_empty(membership) == Partition([0, 2, 0, 1])


def test_a_search_cut_short_says_so() -> None:
    rng = np.random.default_rng(0)
    S = covariance(rng.standard_normal((40, 12)))
    short, whole = GreedyGrouping(max_sweeps=1).group(S, 3), GreedyGrouping().group(S, 3)
    assert short.partition != whole.partition
    assert not short.converged
    assert whole.converged


@pytest.mark.parametrize("labels", [[0, 1, 0, 0, 1, 0], [0, 0, 1, 2, 0, 1]])
def test_clear_blocks_are_the_best_of_all_partitions(labels: list[int]) -> None:
    S = covariance(block_rows(np.random.default_rng(0), 500, Partition(labels)))
    n_groups = max(labels) + 1
    best, _ = oracles.best_partition(6, n_groups, lambda labels: oracles.objective(S, labels))
    assert GreedyGrouping().group(S, n_groups).partition == Partition(best) == Partition(labels)
