"""The one place that reads `grouping` and `n_groups`: names, objects, numbers, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from strategies import Matrix, block_rows, covariance, covariances, singular_covariances

from blockmix.grouping import (
    AutoRule,
    BicRule,
    ChanceRule,
    GreedyGrouping,
    Grouping,
    HierarchicalGrouping,
    RelaxedGrouping,
    SilhouetteRule,
)
from blockmix.grouping.registry import GROUPINGS, RULES, as_grouping, as_rule, find_groups
from blockmix.partition import Partition


@given(singular_covariances(), st.sampled_from(list(RULES)), st.sampled_from(list(GROUPINGS)), st.integers(2, 30))
def test_every_rule_and_grouping_takes_a_singular_covariance(S: Matrix, rule: str, grouping: str, n_rows: int) -> None:
    found = find_groups(S, n_rows, rule, as_grouping(grouping, 0)).partition
    assert found.n_columns == len(S)


@given(st.one_of(covariances(max_p=6), singular_covariances(max_p=6)), st.sampled_from(list(GROUPINGS)))
def test_a_number_gives_exactly_as_many_groups(S: Matrix, grouping: str) -> None:
    for n_groups in range(1, len(S) + 1):
        assert find_groups(S, 20, n_groups, as_grouping(grouping, 0)).partition.n_groups == n_groups


def test_the_price_reaches_the_rule() -> None:
    S = covariance(block_rows(np.random.default_rng(0), 60, Partition([0, 0, 0, 1, 1, 1])))
    for rule in ("bic", BicRule()):
        assert find_groups(S, 60, rule, HierarchicalGrouping()).partition.n_groups == 2
        assert find_groups(S, 60, rule, HierarchicalGrouping(), price=1e6).partition.n_groups == 6


def test_names_and_objects_are_understood() -> None:
    for name, kind in (("auto", AutoRule), ("chance", ChanceRule), ("silhouette", SilhouetteRule), ("bic", BicRule)):
        assert type(as_rule(name)) is kind
    for name, kind in (
        ("hierarchical", HierarchicalGrouping),
        ("greedy", GreedyGrouping),
        ("relaxed", RelaxedGrouping),
    ):
        assert type(as_grouping(name)) is kind
        assert isinstance(as_grouping(name), Grouping)
    rule, grouping = BicRule(gamma=1.0), GreedyGrouping(max_sweeps=3)
    assert as_rule(rule) is rule
    assert as_grouping(grouping) is grouping
    assert as_rule(3) is None
    assert as_rule(np.int64(3)) is None
    assert as_grouping("relaxed", 7).get_params()["random_state"] == 7  # type: ignore[attr-defined]


def test_rules_and_groupings_can_be_cloned() -> None:
    for thing in (
        SilhouetteRule(range(2, 5)),
        BicRule([1, 2], 0.5),
        AutoRule(),
        *(kind() for kind in GROUPINGS.values()),
    ):
        assert clone(thing).get_params() == thing.get_params()


@pytest.mark.parametrize(
    "n_groups", [2.5, None, "gap", "2", [2, 3], np.float64(2), np.array([2, 3]), AutoRule, np.True_]
)
def test_what_is_neither_number_nor_rule_is_refused(n_groups: object) -> None:
    # Red for NumPy's numbers if a method `choose` is all that makes a rule: they have one.
    with pytest.raises(ValueError) as caught:
        find_groups(np.eye(4), 10, n_groups, HierarchicalGrouping())
    assert str(caught.value) == (
        f"n_groups={n_groups!r} must be a whole number, one of auto, optimal, chance, silhouette, bic, or a rule "
        "such as SilhouetteRule(candidates=range(2, 5))"
    )


@pytest.mark.parametrize(
    ("n_groups", "sentence"),
    [
        (0, "n_groups=0 must be at least 1"),
        (-3, "n_groups=-3 must be at least 1"),
        (5, "n_groups=5 exceeds the 4 columns of X"),
        (True, "n_groups=True must be a whole number of column groups"),
        (SilhouetteRule(candidates=[2, 9]), "n_groups=9 exceeds the 4 columns of X"),
        (SilhouetteRule(candidates=[]), "candidates is empty: give at least one number of groups"),
        (BicRule(candidates=[2.5]), "n_groups=2.5 must be a whole number of column groups"),
        (SilhouetteRule(center=9), "center=9 exceeds the 4 columns of X"),
        (SilhouetteRule(center=2.5), "center=2.5 must be a whole number of column groups"),
    ],
)
def test_impossible_numbers_are_refused(n_groups: object, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        find_groups(np.eye(4), 10, n_groups, HierarchicalGrouping())
    assert str(caught.value) == sentence


@pytest.mark.parametrize("grouping", list(GROUPINGS))
@pytest.mark.parametrize(
    ("n_groups", "sentence"),
    [(0, "n_groups=0 must be at least 1"), (4, "n_groups=4 exceeds the 3 columns of X")],
)
def test_a_grouping_by_itself_refuses_impossible_numbers(grouping: str, n_groups: int, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        as_grouping(grouping).group(np.eye(3), n_groups, 10)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("grouping", ["ward", None, 3, HierarchicalGrouping])
def test_what_is_no_grouping_is_refused(grouping: object) -> None:
    with pytest.raises(ValueError) as caught:
        as_grouping(grouping)  # type: ignore[arg-type]
    names = "hierarchical, greedy, relaxed"
    assert str(caught.value) == f"grouping={grouping!r} must be one of {names} or an object with a method `group`"
