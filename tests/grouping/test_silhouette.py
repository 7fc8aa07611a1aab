"""Silhouettes against scikit-learn, of any partition and of every cut of a tree, and the rule that compares them."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import Matrix, covariances, singular_covariances

from blockmix.blocks.moments import correlation
from blockmix.grouping import HierarchicalGrouping, SilhouetteRule
from blockmix.grouping.rules import tree_silhouettes

any_covariance = st.one_of(covariances(), singular_covariances())
TREES = [
    HierarchicalGrouping(linkage, distance)
    for linkage in ("average", "single")
    for distance in ("correlation", "profile")
]


def distances_of(R: Matrix) -> Matrix:
    distances = 1 - np.abs(R)
    np.fill_diagonal(distances, 0)
    return distances


@given(any_covariance, st.sampled_from(["average", "single", "complete"]))
def test_every_cut_of_a_tree_has_scikit_learns_silhouette(S: Matrix, linkage: str) -> None:
    # Red if the nearest group is not looked for again where it was one of the two that merged.
    R = correlation(S)
    distances = distances_of(R)
    tree = HierarchicalGrouping(linkage).tree(R)
    expected = [oracles.silhouette(distances, oracles.tree_cut(tree, K)) for K in range(1, len(S) + 1)]
    assert_allclose(tree_silhouettes(distances, tree), [0, *expected], atol=1e-9)


def test_distances_are_not_written_to() -> None:
    R = correlation(np.cov(np.random.default_rng(0).standard_normal((30, 11)).T))
    distances = distances_of(R)
    before = distances.copy()
    tree_silhouettes(distances, HierarchicalGrouping().tree(R))
    assert np.array_equal(distances, before)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_smallest_tables(p: int) -> None:
    R = np.eye(p) + 0.5 * (1 - np.eye(p))
    tree = HierarchicalGrouping().tree(R)
    assert tree_silhouettes(distances_of(R), tree).tolist() == [0] * (p + 1)


@given(covariances(min_p=3), st.sampled_from(TREES), st.data())
def test_the_rule_takes_the_candidate_with_the_largest_silhouette(
    S: Matrix, grouping: HierarchicalGrouping, data: st.DataObject
) -> None:
    R, p = correlation(S), len(S)
    distances, tree = grouping.distances(R), grouping.tree(R)
    np.fill_diagonal(distances, 0)
    scores = [0.0, *(oracles.silhouette(distances, oracles.tree_cut(tree, K)) for K in range(1, p + 1))]
    given_numbers = data.draw(st.none() | st.lists(st.integers(1, p), min_size=1))
    proposal = SilhouetteRule(given_numbers).choose(S, 100, grouping, price=1e6)  # which it ignores
    numbers, n_groups = given_numbers or range(2, p), proposal.partition.n_groups
    assert n_groups in numbers
    assert scores[n_groups] == pytest.approx(max(scores[K] for K in numbers), abs=1e-9)
    assert proposal.partition == grouping.group(S, n_groups).partition
    assert np.array_equal(proposal.linkage, tree)


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


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (SilhouetteRule(candidates=[2, 9]), "n_groups=9 exceeds the 4 columns of X"),
        (SilhouetteRule(candidates=[]), "candidates is empty: give at least one number of groups"),
        (SilhouetteRule(center=9), "center=9 exceeds the 4 columns of X"),
        (SilhouetteRule(center=2.5), "center=2.5 must be a whole number of column groups"),  # type: ignore[arg-type]
    ],
)
def test_impossible_candidates_are_refused(rule: SilhouetteRule, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        rule.choose(np.eye(4), 10, HierarchicalGrouping())
    assert str(caught.value) == sentence
