"""The objective against the paper's D matrices, and the moves of single columns against conditional variances."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import Matrix, covariances, partitions

from blockmix.structure.objective import ColumnMoves, log_likelihood, penalized, price
from blockmix.structure.partition import Partition


@st.composite
def cases(draw: st.DrawFn) -> tuple[Matrix, Partition]:
    S = draw(covariances(min_p=1))
    return S, draw(partitions(len(S)))


@given(cases())
def test_log_likelihood_is_the_papers_objective(case: tuple[Matrix, Partition]) -> None:
    S, partition = case
    assert log_likelihood(S, partition) == pytest.approx(oracles.objective(S, partition.labels), rel=1e-7, abs=1e-7)


@given(cases(), st.floats(2, 1e4), st.floats(0, 1))
def test_penalized_is_the_literal_one(case: tuple[Matrix, Partition], n_rows: float, gamma: float) -> None:
    S, partition = case
    expected = oracles.penalized(S, partition.labels, n_rows, gamma)
    assert penalized(S, partition, n_rows, gamma) == pytest.approx(expected, rel=1e-6, abs=1e-4)


def test_price_is_half_of_bics() -> None:
    # −½ BIC = log L − ½ (number of parameters) log N; Foygel and Drton's extended BIC adds 4γ log p to BIC.
    assert price(100, 7) == pytest.approx(0.5 * np.log(100))
    assert price(100, 7, gamma=0.5) == pytest.approx(0.5 * np.log(100) + np.log(7))


@given(cases(), st.booleans(), st.lists(st.tuples(st.integers(0, 7), st.integers(0, 8)), max_size=12))
def test_conditional_variances_survive_any_sequence_of_moves(
    case: tuple[Matrix, Partition], spare: bool, path: list[tuple[int, int]]
) -> None:
    S, partition = case
    moves = ColumnMoves(S, partition, spare=spare)
    labels = partition.labels.tolist()
    for column, to in path:
        j, k = column % len(S), to % len(moves.sizes)
        before, variances = oracles.objective(S, labels), moves.conditional_variances(j)
        groups = [[i for i, label in enumerate(labels) if label == group] for group in range(len(moves.sizes))]
        # Red if one border of an inverse is not updated, or a group keeps a column that left it.
        assert_allclose(variances, [oracles.conditional_variance(S, j, A) for A in groups], rtol=1e-6)
        assert moves.sizes.tolist() == [len(A) for A in groups]
        came_from, labels[j] = labels[j], k
        moves.move(j, k)
        gained = oracles.objective(S, labels) - before
        assert gained == pytest.approx(0.5 * np.log(variances[came_from] / variances[k]), rel=1e-6, abs=1e-7)
        assert moves.partition == Partition(labels)
        assert not spare or moves.sizes[-1] == 0


def test_moves_leave_the_partition_they_started_from_alone() -> None:
    partition = Partition([0, 0, 1])
    moves = ColumnMoves(np.eye(3), partition)
    moves.move(0, 1)
    assert partition.labels.tolist() == [0, 0, 1]
    assert [group.tolist() for group in partition.groups] == [[0, 1], [2]]
    assert moves.partition == Partition([1, 0, 1])


def test_a_copy_of_a_column_has_a_positive_conditional_variance() -> None:
    # Red without the floor: rounding makes it zero or negative, and its logarithm is what the searches compare.
    S = np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]])
    variances = ColumnMoves(S, Partition([0, 1, 2])).conditional_variances(0)
    assert 0 < variances[1] < 1e-12
    assert_allclose(variances[[0, 2]], [1, 0.75])
