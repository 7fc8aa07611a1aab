"""Laws of Partition: the groups are what the labels say, however they are numbered; their prices, names and text."""

from __future__ import annotations

import copy
import pickle
from math import comb
from types import SimpleNamespace
from typing import Any

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from blockmix import GaussianBiclustering
from blockmix.blocks.blocks import Blocks
from blockmix.partition import (
    Partition,
    column_names,
    leading_loadings,
    partition_prices,
    refuse_constant,
)

labels_of_columns = st.lists(st.integers(-5, 5), min_size=1, max_size=12)


def named(*names: str) -> Any:
    """An estimator that was fitted to a table with these columns."""
    return SimpleNamespace(feature_names_in_=names)


def together(labels: list[int]) -> list[list[bool]]:
    return [[a == b for a in labels] for b in labels]


@given(labels_of_columns)
def test_groups_sizes_order_and_d_follow_from_the_labels(labels: list[int]) -> None:
    partition = Partition(labels)
    groups = [group.tolist() for group in partition.groups]
    # By size, and groups of one size by their first column; ascending inside.
    assert groups == sorted(oracles.members(labels), key=lambda group: (-len(group), group[0]))
    assert (partition.n_columns, partition.n_groups) == (len(labels), len(set(labels)))
    assert partition.sizes.tolist() == [len(group) for group in groups]
    assert partition.order.tolist() == [j for group in groups for j in group]
    D = np.eye(partition.n_groups)[partition.labels]
    assert (D.sum(axis=1) == 1).all()
    assert np.array_equal(D @ D.T == 1, together(labels)) and np.array_equal(D.T @ D, np.diag(partition.sizes))


@given(labels_of_columns, labels_of_columns, st.permutations(range(11)))
def test_equal_means_the_same_columns_together(left: list[int], right: list[int], names: list[int]) -> None:
    # Red if labels were numbered by np.unique alone, without sizes and first columns.
    partition, renamed = Partition(left), Partition([names[label + 5] for label in left])
    assert partition == renamed and hash(partition) == hash(renamed)
    assert np.array_equal(partition.labels, renamed.labels)
    assert (Partition(left) == Partition(right)) == (together(left) == together(right))
    assert partition != partition.labels.tolist()


@given(labels_of_columns, st.randoms(use_true_random=False))
def test_groups_in_any_order_and_copies_give_the_partition_back(labels: list[int], random: Any) -> None:
    partition = Partition(labels)
    groups = [random.sample(list(group), len(group)) for group in partition.groups]
    random.shuffle(groups)
    assert oracles.partition_of(groups) == partition
    for copied in (pickle.loads(pickle.dumps(partition)), copy.copy(partition), copy.deepcopy(partition)):
        assert copied == partition and len(copied.groups) == partition.n_groups


@pytest.mark.parametrize("p", [1, 2, 5])
def test_corners_are_full_and_diagonal(p: int) -> None:
    assert Partition.single(p).labels.tolist() == [0] * p
    assert Partition.separate(p).labels.tolist() == list(range(p))


def test_labels_cannot_be_written() -> None:
    given_labels = np.array([0, 0, 1])
    partition = Partition(given_labels)
    given_labels[0] = 1
    assert partition.labels.tolist() == [0, 0, 1]
    with pytest.raises(ValueError, match="read-only"):
        partition.labels[0] = 1
    with pytest.raises(AttributeError):
        partition.labels = given_labels  # type: ignore[misc]


VECTOR = "labels must be a non-empty vector, one label per column, not shape"


@pytest.mark.parametrize(
    ("make", "argument", "sentence"),
    [
        (Partition, [], f"{VECTOR} (0,)"),
        (Partition, [[0, 1]], f"{VECTOR} (1, 2)"),
        (Partition, [0.5, 1.0], "labels must be integers, not float64"),
        (Partition, [True, False], "labels must be integers, not bool"),
        (Partition, ["a", "b"], "labels must be integers, not <U1"),
    ],
)
def test_wrong_labels_and_groups_are_refused(make: Any, argument: object, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        make(argument)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("p", range(1, 8))
def test_the_oracle_lists_every_set_partition_once(p: int) -> None:
    for n_groups in range(1, p + 1):
        every = [Partition(labels) for labels in oracles.set_partitions(p, n_groups)]
        stirling = sum((-1) ** i * comb(n_groups, i) * (n_groups - i) ** p for i in range(n_groups + 1))
        assert len(every) == len(set(every)) == stirling // np.prod(range(1, n_groups + 1))
        assert {partition.n_groups for partition in every} == {n_groups}


def test_prices_of_groups_by_hand() -> None:
    # p = 4: log p + Σ_{j<c} log(p/j) for c = 2, 3, 4; nothing for no column and for one alone.
    log4, log2 = np.log(4), np.log(2)
    assert_allclose(partition_prices(4), [0, 0, 2 * log4, 2 * log4 + log2, 2 * log4 + log2 + np.log(4 / 3)])
    assert_allclose(partition_prices(1), [0, 0])


# Columns by name.


def test_names_are_the_frames_or_numbered() -> None:
    assert column_names(SimpleNamespace(n_features_in_=3)) == ["x0", "x1", "x2"]
    named = SimpleNamespace(n_features_in_=2, feature_names_in_=np.array(["height", "weight"], dtype=object))
    assert column_names(named) == ["height", "weight"]


CONSTANT = "remove it, it has no correlation with others"


@pytest.mark.parametrize(
    ("mean", "variances", "sentence"),
    [
        ([1.0, 5.0, 2.0], [1, 0, 1], f"column 1 ('b') is constant at 5: {CONSTANT}"),
        ([0.0, 5.0, 2.0], [0, 1, 0], f"column 0 ('a') (and 1 more) is constant at 0: {CONSTANT}"),
        ([1.0, 1e8, 2.0], [1, 1e-16, 1], f"column 1 ('b') is constant at 1e+08: {CONSTANT}"),  # rounding in its digits
        ([1.0, np.nan, 2.0], [1, 1, 1], "column 1 ('b') has no values: remove it"),
    ],
)
def test_a_constant_column_is_named(mean: list[float], variances: list[float], sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        refuse_constant(np.array(mean), np.array(variances, dtype=float), named("a", "b", "c"))
    assert str(caught.value) == sentence


@pytest.mark.parametrize(("dtype", "power"), [(np.float64, 200), (np.float32, 25)])
@pytest.mark.parametrize("missing", [False, True])
def test_squares_out_of_range_are_named_and_small_variation_is_variation(dtype: Any, power: int, missing: bool) -> None:
    # Red if float32 covariances become infinite or 0, if tiny values that vary are called constant, or if the limit is
    # absolute or does not follow the precision of the numbers.
    name = np.dtype(dtype).name
    reasons = {
        power: f"so large that their squares are not finite in {name}: divide",
        -power: f"so small that their squares vanish in {name}: multiply",
    }
    for exponent, reason in reasons.items():
        X = (np.random.default_rng(0).normal(1, 1, (30, 3)) * [1, 10.0**exponent, 1]).astype(dtype)
        X[0, 0] = np.nan if missing else 0
        with pytest.raises(ValueError) as caught:
            GaussianBiclustering().fit(X)
        assert str(caught.value) == f"column 1 ('x1') has values {reason} it by a power of ten"
    small = np.array([(100 * np.finfo(dtype).eps * 1000) ** 2, 1e-30], dtype=dtype)
    refuse_constant(np.array([1000.0, 0.0], dtype=dtype), small, named("a", "b"))


def test_leading_loadings_are_correlations() -> None:
    # Loadings are correlations with the strongest factor, in units 1, 10, 2 and 3; the third column is alone.
    axes = np.array([[0.8, 0.1], [9.0, 2.0], [-1.5, 0.3]])
    covariance = Blocks.of(np.diag([1.0, 100.0, 4.0, 9.0]), Partition([0, 0, 1, 0]))
    assert_allclose(leading_loadings(covariance, [axes, None]), [0.8, 0.9, np.nan, -0.5])
