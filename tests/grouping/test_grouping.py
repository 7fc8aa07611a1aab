"""Laws of every grouping and rule, and the tree against textbook agglomeration."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.cluster.hierarchy import is_valid_linkage
from scipy.spatial.distance import pdist, squareform
from sklearn.base import clone
from strategies import Matrix, block_rows, covariance, covariances, rescaled, seeds, singular_covariances

from blockmix.blocks.moments import correlation
from blockmix.grouping import (
    BestCut,
    GreedyGrouping,
    Grouping,
    HierarchicalGrouping,
    RelaxedGrouping,
    Rule,
    SilhouetteRule,
)
from blockmix.grouping.grouping import DISTANCES, LINKAGES, cut, leaf_order, topmost
from blockmix.grouping.kernels import spans
from blockmix.partition import Partition

TREES = [HierarchicalGrouping(*setting) for setting in product(LINKAGES, DISTANCES)]
GROUPINGS: list[Any] = [*TREES, GreedyGrouping(), RelaxedGrouping(n_init=3)]
RULES: list[Any] = [BestCut(), BestCut("full"), SilhouetteRule()]
every_grouping = pytest.mark.parametrize("grouping", GROUPINGS, ids=str)
every_rule = pytest.mark.parametrize("rule", RULES, ids=str)
trees = st.sampled_from(TREES)


@every_grouping
@given(S=st.one_of(covariances(max_p=7), singular_covariances(max_p=7)))
@settings(max_examples=30)
def test_exactly_k_groups_for_every_k(grouping: Grouping, S: Matrix) -> None:
    # Red if a move may empty a group, a block is inverted without a ridge, or a tree is cut by height.
    for n_groups in range(1, len(S) + 1):
        assert grouping.group(S, n_groups, 20).partition.n_groups == n_groups


@every_grouping
@given(S=covariances(min_p=3, max_p=7), seed=seeds)
@settings(max_examples=30)
def test_permuting_and_rescaling_columns_permutes_the_groups(grouping: Grouping, S: Matrix, seed: int) -> None:
    # Red if a search goes through the columns as they stand in the table, or takes a covariance for a correlation.
    rng = np.random.default_rng(seed)
    order, factors = rng.permutation(len(S)), rescaled(rng, len(S))
    changed = (S * np.outer(factors, factors))[np.ix_(order, order)]
    for n_groups in range(1, len(S) + 1):
        expected = Partition(grouping.group(S, n_groups, 20).partition.labels[order])
        assert grouping.group(changed, n_groups, 20).partition == expected


@every_rule
@given(S=covariances(min_p=3), seed=seeds)
@settings(max_examples=30)
def test_permuting_and_rescaling_columns_changes_no_choice(rule: Rule, S: Matrix, seed: int) -> None:
    rng = np.random.default_rng(seed)
    order, factors = rng.permutation(len(S)), rescaled(rng, len(S))
    changed = (S * np.outer(factors, factors))[np.ix_(order, order)]
    expected = Partition(rule.choose(S, 100, HierarchicalGrouping()).partition.labels[order])
    assert rule.choose(changed, 100, HierarchicalGrouping()).partition == expected


@every_rule
@pytest.mark.parametrize("grouping", [HierarchicalGrouping(), GreedyGrouping(), RelaxedGrouping(n_init=2)], ids=str)
@given(S=singular_covariances(), n_rows=st.integers(2, 30))
@settings(max_examples=20)
def test_every_rule_and_grouping_takes_a_singular_covariance(
    rule: Rule, grouping: Grouping, S: Matrix, n_rows: int
) -> None:
    assert rule.choose(S, n_rows, grouping).partition.n_columns == len(S)


@every_rule
def test_a_grouping_without_a_tree_is_asked_for_the_best_number(rule: Rule) -> None:
    truth = Partition([0, 0, 0, 0, 1, 1, 1, 2, 2])
    S = covariance(block_rows(np.random.default_rng(5), 300, truth))
    assert rule.choose(S, 300, HierarchicalGrouping()).partition == truth
    proposal = rule.choose(S, 300, GreedyGrouping())
    assert proposal.partition == GreedyGrouping().group(S, 3).partition
    assert proposal.linkage is None
    assert len(proposal.shapes) == (0 if isinstance(rule, SilhouetteRule) else 3)


@pytest.mark.parametrize("thing", [*GROUPINGS, *RULES, SilhouetteRule(range(2, 5))], ids=str)
def test_rules_and_groupings_can_be_cloned(thing: Any) -> None:
    assert clone(thing).get_params() == thing.get_params()


@every_grouping
@pytest.mark.parametrize(
    ("n_groups", "sentence"),
    [
        (0, "n_groups=0 must be at least 1"),
        (4, "n_groups=4 exceeds the 3 columns of X"),
        (True, "n_groups=True must be a whole number of column groups"),
        (2.5, "n_groups=2.5 must be a whole number of column groups"),
    ],
)
def test_impossible_numbers_are_refused(grouping: Grouping, n_groups: Any, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        grouping.group(np.eye(3), n_groups, 10)
    assert str(caught.value) == sentence


def literal_distances(R: Matrix, distance: str) -> Matrix:
    if distance == "profile":
        profiles: Matrix = squareform(pdist(np.abs(R), "euclidean"))
        return profiles
    return 1 - np.abs(R)


@given(covariances(), trees)
def test_every_cut_is_the_textbooks(S: Matrix, grouping: HierarchicalGrouping) -> None:
    R = correlation(S)
    steps = oracles.agglomerate(literal_distances(R, grouping.distance), grouping.linkage)
    tree = grouping.tree(R)
    assert is_valid_linkage(tree)
    assert_allclose(tree[:, 2], [height for height, _ in steps[1:]], atol=1e-7)
    for n_groups in range(1, len(S) + 1):
        proposal = grouping.group(S, n_groups)
        assert proposal.partition == steps[len(S) - n_groups][1]
        assert np.array_equal(proposal.linkage, tree)


@given(st.one_of(covariances(), singular_covariances()), st.sampled_from(DISTANCES))
def test_distances_are_the_literal_ones(S: Matrix, distance: str) -> None:
    R = correlation(S)
    # √ of a rounded zero: columns that are copies are 1e-8 apart.
    assert_allclose(HierarchicalGrouping(distance=distance).distances(R), literal_distances(R, distance), atol=1e-7)


def test_the_correlation_is_not_written_to() -> None:
    R = np.eye(4) + 0.3 * (1 - np.eye(4))
    before = R.copy()
    for distance in DISTANCES:
        HierarchicalGrouping(distance=distance).group(R, 2)
    assert np.array_equal(R, before)


@pytest.mark.parametrize("grouping", TREES, ids=str)
@pytest.mark.parametrize("off_diagonal", [0.0, 0.5, 1.0])
def test_ties_do_not_cost_groups(grouping: HierarchicalGrouping, off_diagonal: float) -> None:
    # Red if the tree is cut by height (fcluster): all merges are at the same one.
    R = np.full((6, 6), off_diagonal)
    np.fill_diagonal(R, 1)
    assert [grouping.group(R, K).partition.n_groups for K in range(1, 7)] == [1, 2, 3, 4, 5, 6]


@given(covariances(), st.data())
def test_cuts_and_orders_read_the_tree(S: Matrix, data: st.DataObject) -> None:
    p = len(S)
    tree = HierarchicalGrouping().tree(correlation(S))
    nodes, (order, span) = oracles.tree_nodes(tree), spans(tree)
    assert sorted(order) == list(range(p)) and np.array_equal(leaf_order(tree), order)
    assert [sorted(order[start:stop]) for start, stop in span] == [sorted(node) for node in nodes]
    for n_groups in range(1, p + 1):
        assert cut(tree, n_groups) == Partition(oracles.tree_cut(tree, n_groups))
    accepted = np.array(data.draw(st.lists(st.booleans(), min_size=p - 1, max_size=p - 1)))
    labels = list(range(p))
    for k in np.flatnonzero(accepted):  # a merge above overwrites those below
        for j in nodes[p + k]:
            labels[j] = p + k
    assert topmost(tree, accepted) == Partition(labels)


def test_one_column_is_one_group() -> None:
    found = HierarchicalGrouping().group(np.array([[2.0]]), 1)
    assert found.partition == Partition([0])
    assert found.linkage is not None
    assert found.linkage.shape == (0, 4)


def test_float32_groups_like_float64() -> None:
    X = block_rows(np.random.default_rng(0), 60, Partition(np.repeat(range(4), 5)))
    S = covariance(X)
    for distance in DISTANCES:
        grouping = HierarchicalGrouping(distance=distance)
        assert grouping.group(S.astype(np.float32), 4).partition == grouping.group(S, 4).partition


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"linkage": "ward"}, "linkage='ward' must be one of average, single, complete"),
        ({"linkage": None}, "linkage=None must be one of average, single, complete"),
        ({"distance": "l2"}, "distance='l2' must be one of correlation, profile"),
    ],
)
@pytest.mark.parametrize("p", [1, 3])
def test_unknown_names_are_refused(parameters: dict[str, str], sentence: str, p: int) -> None:
    with pytest.raises(ValueError) as caught:
        HierarchicalGrouping(**parameters).group(np.eye(p), 1)
    assert str(caught.value) == sentence
