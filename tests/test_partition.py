"""Laws of Partition: the groups are what the labels say, however they are numbered."""

from __future__ import annotations

import copy
import pickle
from math import comb

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from blockmix.blocks.blocks import Layout
from blockmix.partition import Partition, partition_prices

labels_of_columns = st.lists(st.integers(-5, 5), min_size=1, max_size=12)


def together(labels: list[int]) -> list[list[bool]]:
    return [[a == b for a in labels] for b in labels]


@given(labels_of_columns)
def test_groups_sizes_and_order_follow_from_the_labels(labels: list[int]) -> None:
    partition = Partition(labels)
    groups = [group.tolist() for group in partition.groups]
    # By size, and groups of one size by their first column; ascending inside.
    assert groups == sorted(oracles.members(labels), key=lambda group: (-len(group), group[0]))
    assert partition.n_columns == len(labels)
    assert partition.n_groups == len(groups) == len(set(labels))
    assert partition.sizes.tolist() == [len(group) for group in groups]
    assert partition.order.tolist() == [j for group in groups for j in group]
    assert partition.n_parameters == oracles.n_parameters(labels)
    assert together(partition.labels.tolist()) == together(labels)


@given(labels_of_columns)
def test_indicator_is_the_matrix_d_of_the_paper(labels: list[int]) -> None:
    partition = Partition(labels)
    D = partition.indicator
    assert D.shape == (partition.n_columns, partition.n_groups)
    assert (D.sum(axis=1) == 1).all()
    assert np.array_equal(D @ D.T == 1, together(labels))
    assert np.array_equal(D.T @ D, np.diag(partition.sizes))


@given(labels_of_columns)
def test_stacks_hold_every_group_once(labels: list[int]) -> None:
    partition = Partition(labels)
    stacked = [tuple(group) for stack in partition.stacks for group in stack]
    assert sorted(stacked) == sorted(tuple(group) for group in partition.groups)
    widths = [stack.shape[1] for stack in partition.stacks]
    assert widths == sorted(set(partition.sizes))


@given(labels_of_columns, st.permutations(range(11)))
def test_renaming_the_labels_changes_nothing(labels: list[int], names: list[int]) -> None:
    # Red if labels were numbered by np.unique alone, without sizes and first columns.
    partition, renamed = Partition(labels), Partition([names[label + 5] for label in labels])
    assert partition == renamed
    assert hash(partition) == hash(renamed)
    assert np.array_equal(partition.labels, renamed.labels)


@given(labels_of_columns, labels_of_columns)
def test_equal_means_the_same_columns_together(left: list[int], right: list[int]) -> None:
    assert (Partition(left) == Partition(right)) == (together(left) == together(right))


def test_a_partition_equals_nothing_else() -> None:
    assert Partition([0, 1]) != [0, 1]


@given(labels_of_columns, st.randoms(use_true_random=False))
def test_groups_in_any_order_give_the_partition_back(labels: list[int], random: object) -> None:
    partition = Partition(labels)
    groups = [random.sample(list(group), len(group)) for group in partition.groups]  # type: ignore[attr-defined]
    random.shuffle(groups)  # type: ignore[attr-defined]
    assert Partition.from_groups(groups) == partition


@pytest.mark.parametrize("p", [1, 2, 5])
def test_corners_are_full_and_diagonal(p: int) -> None:
    assert Partition.single(p).labels.tolist() == [0] * p
    assert Partition.separate(p).labels.tolist() == list(range(p))
    assert Partition.single(p).n_parameters == p * (p + 1) // 2
    assert Partition.separate(p).n_parameters == p


@pytest.mark.parametrize("copied", [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy])
def test_copies_are_equal(copied: object) -> None:
    partition = Partition([3, 3, 1])
    again = copied(partition)  # type: ignore[operator]
    assert again == partition
    assert again.groups[0].tolist() == [0, 1]


def test_labels_cannot_be_written() -> None:
    given_labels = np.array([0, 0, 1])
    partition = Partition(given_labels)
    given_labels[0] = 1
    assert partition.labels.tolist() == [0, 0, 1]
    with pytest.raises(ValueError, match="read-only"):
        partition.labels[0] = 1
    with pytest.raises(AttributeError):
        partition.labels = given_labels  # type: ignore[misc]


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ([], "labels must be a non-empty vector, one label per column, not shape (0,)"),
        ([[0, 1]], "labels must be a non-empty vector, one label per column, not shape (1, 2)"),
        ([0.5, 1.0], "labels must be integers, not float64"),
        ([True, False], "labels must be integers, not bool"),
        (["a", "b"], "labels must be integers, not <U1"),
    ],
)
def test_wrong_labels_are_refused(labels: object, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        Partition(labels)  # type: ignore[arg-type]
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ([[0, 1], [1]], "groups must name each column 0, 1, … once, not columns [0, 1, 1]"),
        ([[0], [2]], "groups must name each column 0, 1, … once, not columns [0, 2]"),
        ([[0, -1]], "groups must name each column 0, 1, … once, not columns [-1, 0]"),
        ([[0, 1], []], "group 1 is empty"),
        ([], "labels must be a non-empty vector, one label per column, not shape (0,)"),
    ],
)
def test_groups_that_do_not_name_every_column_once_are_refused(groups: list[list[int]], sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        Partition.from_groups(groups)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("p", range(1, 8))
def test_the_oracle_lists_every_set_partition_once(p: int) -> None:
    for n_groups in range(1, p + 1):
        found = [Partition(labels) for labels in oracles.set_partitions(p, n_groups)]
        stirling = sum((-1) ** i * comb(n_groups, i) * (n_groups - i) ** p for i in range(n_groups + 1))
        assert len(found) == len(set(found)) == stirling // np.prod(range(1, n_groups + 1))
        assert {partition.n_groups for partition in found} == {n_groups}


def test_prices_of_groups_by_hand() -> None:
    # p = 4: log p + Σ_{j<c} log(p/j) for c = 2, 3, 4; nothing for no column and for one alone.
    log4, log2 = np.log(4), np.log(2)
    expected = [0, 0, log4 + log4, log4 + log4 + log2, log4 + log4 + log2 + np.log(4 / 3)]
    assert_allclose(partition_prices(4), expected)
    assert_allclose(partition_prices(1), [0, 0])


@given(st.lists(st.integers(0, 6), min_size=1, max_size=7))
def test_the_price_of_a_partition_is_its_literal_sum(labels: list[int]) -> None:
    assert Layout([Partition(labels)]).partition_price == pytest.approx(oracles.partition_price(labels), abs=1e-12)
