"""The rules for the number of groups against literal scores, and the one place that reads `n_groups`."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.spatial.distance import squareform
from sklearn.base import clone
from strategies import Matrix, block_rows, covariance, covariances, rescaled, seeds, singular_covariances

from blockmix.grouping import (
    AutoRule,
    BicRule,
    GreedyGrouping,
    HierarchicalGrouping,
    PenalizedGrouping,
    RelaxedGrouping,
    SilhouetteRule,
)
from blockmix.grouping.protocols import Grouping, Rule
from blockmix.grouping.rules import GROUPINGS, RULES, as_grouping, as_rule, find_groups, tree_penalized
from blockmix.structure.moments import correlation, definite_correlation
from blockmix.structure.objective import price
from blockmix.structure.partition import Partition

any_covariance = st.one_of(covariances(), singular_covariances())
trees = st.sampled_from(
    [
        HierarchicalGrouping(linkage, distance)
        for linkage in ("average", "single")
        for distance in ("correlation", "profile")
    ]
)


def silhouettes(S: Matrix, grouping: HierarchicalGrouping) -> list[float]:
    """Literal score of each number of groups from 0, which has none, to p."""
    R = correlation(S)
    distances, tree = squareform(grouping.distances(R)), grouping.tree(R)
    scores = [oracles.silhouette(distances, oracles.tree_cut(tree, K)) for K in range(1, len(S) + 1)]
    return [-np.inf, *scores]


@given(covariances(min_p=3), trees)
def test_silhouette_takes_the_best_cut_of_the_tree(S: Matrix, grouping: HierarchicalGrouping) -> None:
    scores = silhouettes(S, grouping)
    best = max(range(2, len(S)), key=lambda K: scores[K])
    found = SilhouetteRule().choose(S, 100, grouping)
    assert found.partition == grouping.group(S, best).partition
    assert found.linkage is not None


@given(covariances(min_p=3), st.data())
def test_candidates_limit_the_choice(S: Matrix, data: st.DataObject) -> None:
    p = len(S)
    candidates = data.draw(st.lists(st.integers(1, p), min_size=1))
    grouping = HierarchicalGrouping()
    scores = silhouettes(S, grouping)
    values = oracles.tree_penalized(definite_correlation(S), grouping.tree(correlation(S)), 1000)
    by_silhouette = SilhouetteRule(candidates).choose(S, 1000, grouping).partition.n_groups
    by_bic = BicRule(candidates).choose(S, 1000, grouping).partition.n_groups
    assert by_silhouette in candidates
    assert by_bic in candidates
    assert scores[by_silhouette] == pytest.approx(max(scores[K] for K in candidates), abs=1e-12)
    assert values[by_bic] == pytest.approx(max(values[K] for K in candidates))


@pytest.mark.parametrize(
    ("p", "center", "expected"),
    [
        (100, 30, range(10, 51)),  # center ± 2√p
        (100, 5, range(2, 26)),
        (100, 95, range(75, 100)),
        (24, 3, range(2, 13)),
        (3, 1, [2]),
        (2, 1, [2]),
        (1, 1, [1]),
    ],
)
def test_the_papers_range_around_a_center(p: int, center: int, expected: range) -> None:
    assert SilhouetteRule(center=center)._numbers(p).tolist() == list(expected)


@given(any_covariance, st.floats(2, 200), st.sampled_from([0.0, 0.5]))
def test_every_cut_has_the_literal_penalized_likelihood(S: Matrix, n_rows: float, gamma: float) -> None:
    # Red if a node is read off a factor whose columns come in another order, or a block may fill the rows.
    R = definite_correlation(S)
    tree = HierarchicalGrouping().tree(R)
    found = tree_penalized(R, tree, n_rows, price(n_rows, len(R), gamma))
    assert_allclose(found, oracles.tree_penalized(R, tree, n_rows, gamma), rtol=1e-4, atol=1e-6 * n_rows)


@given(covariances(), trees, st.integers(5, 500), st.sampled_from([0.0, 0.5]))
def test_bic_takes_the_best_cut_of_the_tree(
    S: Matrix, grouping: HierarchicalGrouping, n_rows: int, gamma: float
) -> None:
    values = oracles.tree_penalized(definite_correlation(S), grouping.tree(correlation(S)), n_rows, gamma)
    best = int(np.argmax(values))
    assert BicRule(gamma=gamma).choose(S, n_rows, grouping).partition == grouping.group(S, best).partition


def test_bic_leaves_it_to_the_penalized_grouping_unless_there_are_candidates() -> None:
    S = covariance(block_rows(np.random.default_rng(0), 100, Partition([0, 0, 0, 1, 1, 2, 2, 2, 3])))
    grouping = PenalizedGrouping(gamma=4.0)  # at this price its own number is another one than the rule's
    assert grouping.group(S, None, 100).partition != BicRule().choose(S, 100, HierarchicalGrouping()).partition
    assert BicRule().choose(S, 100, grouping).partition == grouping.group(S, None, 100).partition
    assert BicRule(candidates=[2]).choose(S, 100, grouping).partition == grouping.group(S, 2, 100).partition


@pytest.mark.parametrize("rule", [SilhouetteRule(), BicRule()])
def test_a_grouping_without_a_tree_is_asked_for_the_best_number(rule: Rule) -> None:
    truth = Partition([0, 0, 0, 0, 1, 1, 1, 2, 2])
    S = covariance(block_rows(np.random.default_rng(5), 300, truth))
    assert rule.choose(S, 300, HierarchicalGrouping()).partition == truth
    found = rule.choose(S, 300, GreedyGrouping())
    assert found.partition == GreedyGrouping().group(S, 3).partition
    assert found.linkage is None


@given(covariances(min_p=3), st.sampled_from([SilhouetteRule(), BicRule()]), seeds)
def test_permuting_and_rescaling_columns_permutes_the_groups(S: Matrix, rule: Rule, seed: int) -> None:
    rng = np.random.default_rng(seed)
    permutation, factors = rng.permutation(len(S)), rescaled(rng, len(S))
    changed = (S * np.outer(factors, factors))[np.ix_(permutation, permutation)]
    found = rule.choose(S, 100, HierarchicalGrouping()).partition
    assert rule.choose(changed, 100, HierarchicalGrouping()).partition == Partition(found.labels[permutation])


@given(singular_covariances(), st.sampled_from(list(RULES)), st.sampled_from(list(GROUPINGS)), st.integers(2, 30))
def test_every_rule_and_grouping_takes_a_singular_covariance(S: Matrix, rule: str, grouping: str, n_rows: int) -> None:
    found = find_groups(S, n_rows, rule, as_grouping(grouping, 0)).partition
    assert found.n_columns == len(S)


@given(st.one_of(covariances(max_p=6), singular_covariances(max_p=6)), st.sampled_from(list(GROUPINGS)))
def test_a_number_gives_exactly_as_many_groups(S: Matrix, grouping: str) -> None:
    for n_groups in range(1, len(S) + 1):
        assert find_groups(S, 20, n_groups, as_grouping(grouping, 0)).partition.n_groups == n_groups


def test_names_and_objects_are_understood() -> None:
    for name, kind in (("auto", AutoRule), ("silhouette", SilhouetteRule), ("bic", BicRule)):
        assert type(as_rule(name)) is kind
    for name, kind in (
        ("hierarchical", HierarchicalGrouping),
        ("greedy", GreedyGrouping),
        ("relaxed", RelaxedGrouping),
        ("penalized", PenalizedGrouping),
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
        f"n_groups={n_groups!r} must be a whole number, one of auto, silhouette, bic, or a rule such as "
        "SilhouetteRule(candidates=range(2, 5))"
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
    names = "hierarchical, greedy, relaxed, penalized"
    assert str(caught.value) == f"grouping={grouping!r} must be one of {names} or an object with a method `group`"
