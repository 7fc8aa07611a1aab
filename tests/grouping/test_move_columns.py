"""Moves of single columns: conditional variances against literal ones, and passes against the literal search."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import Matrix, covariances, partitions

from blockmix.grouping.move_columns import MutablePartition, move_columns
from blockmix.partition import Partition


@st.composite
def cases(draw: st.DrawFn) -> tuple[Matrix, Partition]:
    S = draw(covariances(min_p=1))
    return S, draw(partitions(len(S)))


@given(cases())
def test_a_pass_without_a_price_is_the_literal_one(case: tuple[Matrix, Partition]) -> None:
    S, start = case
    moving = MutablePartition(S, start)
    move_columns(moving)
    # Red if a column that has moved is still counted in its old group.
    assert moving.partition == Partition(oracles.greedy_sweep(S, start.labels))


@given(cases(), st.integers(2, 400), st.floats(0, 5), st.booleans())
def test_a_pass_never_lowers_the_objective(
    case: tuple[Matrix, Partition], n_rows: int, price: float, may_empty: bool
) -> None:
    S, start = case
    moving = MutablePartition(S, start, spare=may_empty)
    move_columns(moving, n_rows, price, may_empty=may_empty)
    before, after = (
        n_rows * oracles.objective(S, part.labels) - price * oracles.n_parameters(part.labels)
        for part in (start, moving.partition)
    )
    assert after >= before - 1e-6 * n_rows
    assert may_empty or moving.partition.n_groups == start.n_groups


@given(cases(), st.integers(2, 4))
def test_no_group_grows_to_the_limit(case: tuple[Matrix, Partition], largest: int) -> None:
    # Red if the column itself is not counted.
    S, start = case
    moving = MutablePartition(S, start)
    move_columns(moving, largest=largest)
    grown = moving.sizes > start.sizes
    assert (moving.sizes[grown] < largest).all()


@given(cases(), st.booleans(), st.lists(st.tuples(st.integers(0, 7), st.integers(0, 8)), max_size=12))
def test_conditional_variances_survive_any_sequence_of_moves(
    case: tuple[Matrix, Partition], spare: bool, path: list[tuple[int, int]]
) -> None:
    S, partition = case
    moving = MutablePartition(S, partition, spare=spare)
    labels = partition.labels.tolist()
    for column, to in path:
        j, k = column % len(S), to % len(moving.sizes)
        before, variances = oracles.objective(S, labels), moving.conditional_variances(j)
        groups = [[i for i, label in enumerate(labels) if label == group] for group in range(len(moving.sizes))]
        # Red if a factor is not updated, or a group keeps a column that left it.
        assert_allclose(variances, [oracles.conditional_variance(S, j, A) for A in groups], rtol=1e-6)
        assert moving.sizes.tolist() == [len(A) for A in groups]
        came_from, labels[j] = labels[j], k
        moving.move(j, k)
        gained = oracles.objective(S, labels) - before
        assert gained == pytest.approx(0.5 * np.log(variances[came_from] / variances[k]), rel=1e-6, abs=1e-7)
        assert moving.partition == Partition(labels)
        assert not spare or moving.sizes[-1] == 0


def test_moves_leave_the_partition_they_started_from_alone() -> None:
    partition = Partition([0, 0, 1])
    moving = MutablePartition(np.eye(3), partition)
    moving.move(0, 1)
    assert partition.labels.tolist() == [0, 0, 1]
    assert [group.tolist() for group in partition.groups] == [[0, 1], [2]]
    assert moving.partition == Partition([1, 0, 1])


def test_a_copy_of_a_column_has_a_positive_conditional_variance() -> None:
    # Red without the floor: rounding makes it zero or negative, and its logarithm is what the searches compare.
    S = np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]])
    variances = MutablePartition(S, Partition([0, 1, 2])).conditional_variances(0)
    assert 0 < variances[1] < 1e-12
    assert_allclose(variances[[0, 2]], [1, 0.75])
