"""The tree against textbook agglomeration, its cuts, and what permuting and rescaling columns may not change."""

from __future__ import annotations

from itertools import product

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.cluster.hierarchy import is_valid_linkage
from scipy.spatial.distance import pdist, squareform
from strategies import Matrix, block_rows, covariance, covariances, rescaled, seeds, singular_covariances

from blockmix import datasets
from blockmix.blocks.moments import correlation
from blockmix.grouping import HierarchicalGrouping
from blockmix.grouping.hierarchical import DISTANCES, LINKAGES, cut, spans
from blockmix.partition import Partition

SETTINGS = list(product(LINKAGES, DISTANCES))
settings = st.sampled_from(SETTINGS)


def literal_distances(R: Matrix, distance: str) -> Matrix:
    if distance == "profile":
        profiles: Matrix = squareform(pdist(np.abs(R), "euclidean"))
        return profiles
    return 1 - np.abs(R)


@given(covariances(), settings)
def test_every_cut_is_the_textbooks(S: Matrix, setting: tuple[str, str]) -> None:
    linkage, distance = setting
    grouping = HierarchicalGrouping(linkage, distance)
    steps = oracles.agglomerate(literal_distances(correlation(S), distance), linkage)
    tree = grouping.tree(correlation(S))
    assert is_valid_linkage(tree)
    assert_allclose(tree[:, 2], [height for height, _ in steps[1:]], atol=1e-7)
    for n_groups in range(1, len(S) + 1):
        found = grouping.group(S, n_groups)
        assert found.partition == steps[len(S) - n_groups][1]
        assert np.array_equal(found.linkage, tree)


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


@given(covariances(), settings, seeds)
def test_permuting_columns_permutes_the_groups(S: Matrix, setting: tuple[str, str], seed: int) -> None:
    permutation = np.random.default_rng(seed).permutation(len(S))
    for n_groups in range(1, len(S) + 1):
        found = HierarchicalGrouping(*setting).group(S, n_groups).partition
        permuted = HierarchicalGrouping(*setting).group(S[np.ix_(permutation, permutation)], n_groups).partition
        assert permuted == Partition(found.labels[permutation])


@given(covariances(), settings, seeds)
def test_rescaling_columns_changes_no_group(S: Matrix, setting: tuple[str, str], seed: int) -> None:
    # Red if a covariance were taken for a correlation, or the sign of a correlation were kept.
    factors = rescaled(np.random.default_rng(seed), len(S))
    for n_groups in range(1, len(S) + 1):
        found = HierarchicalGrouping(*setting).group(S, n_groups).partition
        assert HierarchicalGrouping(*setting).group(S * np.outer(factors, factors), n_groups).partition == found


@given(st.one_of(covariances(), singular_covariances()), settings)
def test_exactly_k_groups_for_every_k(S: Matrix, setting: tuple[str, str]) -> None:
    for n_groups in range(1, len(S) + 1):
        assert HierarchicalGrouping(*setting).group(S, n_groups).partition.n_groups == n_groups


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("off_diagonal", [0.0, 0.5, 1.0])
def test_ties_do_not_cost_groups(setting: tuple[str, str], off_diagonal: float) -> None:
    # Red if the tree is cut by height (fcluster): all merges are at the same one.
    R = np.full((6, 6), off_diagonal)
    np.fill_diagonal(R, 1)
    assert [HierarchicalGrouping(*setting).group(R, K).partition.n_groups for K in range(1, 7)] == [1, 2, 3, 4, 5, 6]


@given(covariances())
def test_cut_and_spans_read_the_tree(S: Matrix) -> None:
    p = len(S)
    tree = HierarchicalGrouping().tree(correlation(S))
    order, span = spans(tree)
    assert sorted(order) == list(range(p))
    assert [sorted(order[start:stop]) for start, stop in span] == [sorted(node) for node in oracles.tree_nodes(tree)]
    for n_groups in range(1, p + 1):
        assert cut(tree, n_groups) == Partition(oracles.tree_cut(tree, n_groups))


def test_one_column_is_one_group() -> None:
    found = HierarchicalGrouping().group(np.array([[2.0]]), 1)
    assert found.partition == Partition([0])
    assert found.linkage is not None
    assert found.linkage.shape == (0, 4)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("design", [datasets.sigma_a, datasets.sigma_b])
def test_the_papers_designs_are_recovered(design: object, distance: str) -> None:
    truth = design()  # type: ignore[operator]
    for seed in range(10):
        S = covariance(truth.sample(200, random_state=seed))
        assert HierarchicalGrouping(distance=distance).group(S, 3).partition == truth.partition


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
