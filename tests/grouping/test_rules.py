"""The rules for the number of groups against literal scores, and what a price does to them."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import Matrix, block_rows, covariance, covariances, rescaled, seeds, singular_covariances

from blockmix.blocks.moments import correlation, definite_correlation
from blockmix.grouping import (
    BicRule,
    ChanceRule,
    GreedyGrouping,
    HierarchicalGrouping,
    Rule,
    SilhouetteRule,
)
from blockmix.grouping.rules import tree_objective
from blockmix.partition import Partition, bic_price, extended_price

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
    distances, tree = grouping.distances(R), grouping.tree(R)
    np.fill_diagonal(distances, 0)
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
def test_every_cut_has_the_literal_objective(S: Matrix, n_rows: float, gamma: float) -> None:
    # Red if a node is read off a factor whose columns come in another order, or a block may fill the rows.
    R = definite_correlation(S)
    tree = HierarchicalGrouping().tree(R)
    found = tree_objective(R, tree, n_rows, extended_price(bic_price(n_rows), len(R), gamma))
    assert_allclose(found, oracles.tree_penalized(R, tree, n_rows, gamma), rtol=1e-4, atol=1e-6 * n_rows)


@given(covariances(), trees, st.integers(5, 500), st.sampled_from([0.0, 0.5]))
def test_bic_takes_the_best_cut_of_the_tree(
    S: Matrix, grouping: HierarchicalGrouping, n_rows: int, gamma: float
) -> None:
    values = oracles.tree_penalized(definite_correlation(S), grouping.tree(correlation(S)), n_rows, gamma)
    best = int(np.argmax(values))
    assert BicRule(gamma=gamma).choose(S, n_rows, grouping).partition == grouping.group(S, best).partition


@pytest.mark.parametrize("rule", [SilhouetteRule(), BicRule()])
def test_a_grouping_without_a_tree_is_asked_for_the_best_number(rule: Rule) -> None:
    truth = Partition([0, 0, 0, 0, 1, 1, 1, 2, 2])
    S = covariance(block_rows(np.random.default_rng(5), 300, truth))
    assert rule.choose(S, 300, HierarchicalGrouping()).partition == truth
    found = rule.choose(S, 300, GreedyGrouping())
    assert found.partition == GreedyGrouping().group(S, 3).partition
    assert found.linkage is None


@given(covariances(), st.integers(5, 500), st.floats(0, 30), st.sampled_from([0.0, 0.5]))
def test_bic_takes_the_best_cut_at_the_callers_price(S: Matrix, n_rows: int, price: float, gamma: float) -> None:
    # Red if the price is ignored, or takes the place of the γ of the rule.
    grouping = HierarchicalGrouping()
    R, tree = definite_correlation(S), grouping.tree(correlation(S))
    paid = price + 2 * gamma * np.log(len(S))
    labels = [oracles.tree_cut(tree, K) for K in range(1, len(S) + 1)]
    values = [
        n_rows * oracles.objective(R, own) - paid * oracles.n_parameters(own)
        if max(map(len, oracles.members(own))) < n_rows
        else -np.inf
        for own in labels
    ]
    found = BicRule(gamma=gamma).choose(S, n_rows, grouping, price=price).partition
    assert values[found.n_groups - 1] == pytest.approx(max(values), rel=1e-9, abs=1e-6 * n_rows)


def test_a_higher_price_gives_more_groups() -> None:
    S = covariance(block_rows(np.random.default_rng(0), 60, Partition(np.repeat(range(3), 5)), 0.4))
    for grouping in (HierarchicalGrouping(),):
        counts = [BicRule().choose(S, 60, grouping, price=price).partition.n_groups for price in (0.0, 2.0, 1e3)]
        assert counts[0] < counts[1] < counts[2] == 15


@pytest.mark.parametrize("rule", [ChanceRule(), SilhouetteRule()])
def test_other_rules_ignore_the_price(rule: Rule) -> None:
    S = covariance(block_rows(np.random.default_rng(5), 300, Partition([0, 0, 0, 0, 1, 1, 1, 2, 2])))
    found = [rule.choose(S, 300, HierarchicalGrouping(), price=price).partition for price in (None, 0.0, 1e6)]
    assert found[0] == found[1] == found[2]


def test_what_is_no_covariance_is_refused() -> None:
    S = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])  # as pairwise deletion may give
    with pytest.raises(ValueError) as caught:
        BicRule().choose(S, 50, HierarchicalGrouping())
    expected = "S, shape (3, 3), is not positive semidefinite: estimate it from complete rows, or raise its diagonal"
    assert str(caught.value) == expected


@given(covariances(min_p=3), st.sampled_from([SilhouetteRule(), BicRule()]), seeds)
def test_permuting_and_rescaling_columns_permutes_the_groups(S: Matrix, rule: Rule, seed: int) -> None:
    rng = np.random.default_rng(seed)
    permutation, factors = rng.permutation(len(S)), rescaled(rng, len(S))
    changed = (S * np.outer(factors, factors))[np.ix_(permutation, permutation)]
    found = rule.choose(S, 100, HierarchicalGrouping()).partition
    assert rule.choose(changed, 100, HierarchicalGrouping()).partition == Partition(found.labels[permutation])
