"""The rule "chance": its p-values against the literal ones, and its answers where the truth is clear."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import Matrix, block_rows, covariance, covariances, rescaled, seeds, singular_covariances

from blockmix.blocks.moments import correlation
from blockmix.grouping import ChanceRule, GreedyGrouping, HierarchicalGrouping, chance
from blockmix.grouping.chance import background, between_branches, merge_log_p, temper, top_down
from blockmix.grouping.silhouette import silhouette
from blockmix.partition import Partition

any_covariance = st.one_of(covariances(), singular_covariances())
effective_rows = st.floats(3, 1000)


def standardized_squares(X: Matrix) -> Matrix:
    squares: Matrix = (X - X.mean(axis=0)) ** 2 / X.var(axis=0) / np.sqrt(len(X))
    return squares


def groups_found(X: Matrix) -> Partition:
    return ChanceRule().choose(covariance(X), len(X), HierarchicalGrouping(), standardized_squares(X)).partition


@given(any_covariance, effective_rows)
def test_p_values_are_the_literal_ones(S: Matrix, effective: float) -> None:
    # Red if t₂ is taken without its noise, if the ratio looks at the stronger branch, or if ν − 1.5 changes.
    R = correlation(S)
    tree = HierarchicalGrouping().tree(R)
    expected = oracles.merge_log_p(R, tree, effective)
    assert_allclose(merge_log_p(tree, between_branches(R, tree), effective), expected, rtol=1e-6, atol=1e-9)


def test_p_values_are_uniform_between_independent_columns() -> None:
    # Of single columns the test is a likelihood ratio with Bartlett's factor: its level is right, not just monotone.
    rng = np.random.default_rng(0)
    n_rows, tree = 30, np.array([[0, 1, 0.5, 2]])
    correlations = (correlation(covariance(rng.standard_normal((n_rows, 2)))) for _ in range(2000))
    log_p = [merge_log_p(tree, between_branches(R, tree), n_rows - 1)[0] for R in correlations]
    for level in (0.5, 0.1, 0.02):
        rate = np.mean(np.array(log_p) < np.log(level))
        assert abs(rate - level) < 4 * np.sqrt(level * (1 - level) / 2000)


def literal_top_down(R: Matrix, effective: float) -> Partition:
    """Gate, then from the root: a node whose merge passes its level is a group, else go into both branches."""
    p = len(R)
    tree = HierarchicalGrouping().tree(R)
    log_p = oracles.merge_log_p(R, tree, effective)
    nodes = oracles.tree_nodes(tree)
    if log_p.min() > np.log(0.02 / (p * (p - 1) / 2)):
        return Partition.separate(p)

    def groups(node: int) -> list[list[int]]:
        if node < p:
            return [nodes[node]]
        m = 2 * p - node  # groups just before this merge
        if log_p[node - p] < np.log(min(0.07, 5 / effective) / (m * (m - 1) / 2)):
            return [nodes[node]]
        a, b = tree[node - p, :2].astype(int)
        return groups(a) + groups(b)

    return Partition.from_groups(groups(2 * p - 2))


@given(any_covariance, st.floats(3, 300))
def test_the_walk_from_the_top_is_the_literal_one(S: Matrix, effective: float) -> None:
    R = correlation(S)
    found = top_down(R, effective)
    assert found.partition == literal_top_down(R, effective)
    assert np.array_equal(found.linkage, HierarchicalGrouping().tree(R))


@given(seeds, st.integers(2, 6), st.integers(5, 40))
def test_tempering_is_the_literal_formula(seed: int, p: int, n_rows: int) -> None:
    X = np.random.default_rng(seed).standard_t(3, (n_rows, p))
    R = correlation(covariance(X))
    Y = (X - X.mean(axis=0)) / X.std(axis=0)
    Q = {(i, j): np.mean(Y[:, i] ** 2 * Y[:, j] ** 2) - 2 * R[i, j] ** 2 for i in range(p) for j in range(p)}
    c = max(1.0, float(np.median([Q[pair] for pair in combinations(range(p), 2)])))
    expected = [[1 if i == j else R[i, j] / np.sqrt(max(1, Q[i, j] / (c + 1))) for j in range(p)] for i in range(p)]
    tempered, factor = temper(R, standardized_squares(X))
    assert factor == pytest.approx(c)
    assert_allclose(tempered, expected, atol=1e-10)


def test_the_background_is_the_literal_one() -> None:
    # Mixed signs: red if the medians are taken before the signs of the leading eigenvector are.
    rng = np.random.default_rng(4)
    loadings = rng.uniform(0.5, 0.9, 9) * rng.choice([-1, 1], 9)
    X = rng.standard_normal((300, 1)) * loadings + rng.standard_normal((300, 9)) * np.sqrt(1 - loadings**2)
    R = correlation(covariance(X))
    s = np.sign(np.linalg.eigh(R)[1][:, -1])
    signed = R * np.outer(s, s)
    b = np.median([signed[i, j] for i, j in combinations(range(9), 2)])
    g = np.array([max(0.0, float(np.median(np.delete(signed[i], i)))) for i in range(9)])
    tau = b / np.median([g[i] * g[j] for i, j in combinations(range(9), 2)])
    expected = s * np.sqrt(np.minimum(tau * g**2, 0.95))
    found = background(R, 299.0)
    assert found is not None
    assert_allclose(found * np.sign(found[0]), expected * np.sign(expected[0]), rtol=1e-9)
    assert np.corrcoef(found, loadings)[0, 1] ** 2 > 0.95


def test_a_background_below_one_standard_error_is_none() -> None:
    R = np.full((5, 5), 0.1) + 0.9 * np.eye(5)
    assert background(R, 99) is None  # 1/√99 is just above 0.1
    assert background(R, 101) is not None
    assert background(np.full((2, 2), 1.0), 100) is None


@given(covariances(min_p=3), st.integers(10, 300), seeds)
def test_permuting_columns_permutes_the_groups(S: Matrix, n_rows: int, seed: int) -> None:
    permutation = np.random.default_rng(seed).permutation(len(S))
    found = ChanceRule().choose(S, n_rows, HierarchicalGrouping()).partition
    permuted = ChanceRule().choose(S[np.ix_(permutation, permutation)], n_rows, HierarchicalGrouping()).partition
    assert permuted == Partition(found.labels[permutation])


@given(covariances(), st.integers(10, 300), seeds)
def test_signs_and_scales_change_no_group(S: Matrix, n_rows: int, seed: int) -> None:
    factors = rescaled(np.random.default_rng(seed), len(S))
    found = ChanceRule().choose(S, n_rows, HierarchicalGrouping()).partition
    assert ChanceRule().choose(S * np.outer(factors, factors), n_rows, HierarchicalGrouping()).partition == found


@pytest.mark.parametrize(("p", "n_rows"), [(40, 50), (40, 200), (100, 60)])
def test_independent_columns_have_no_groups(p: int, n_rows: int) -> None:
    # By design two runs in a hundred report a group. Red without the gate.
    answers = [groups_found(np.random.default_rng(seed).standard_normal((n_rows, p))).n_groups for seed in range(20)]
    assert np.mean(np.array(answers) == p) >= 0.9


def test_independent_columns_with_heavy_tails_have_no_groups() -> None:
    # Red without tempering: a correlation of two lognormal columns rests on a few rows.
    answers = [groups_found(np.random.default_rng(seed).lognormal(size=(50, 40))).n_groups for seed in range(10)]
    assert np.mean(np.array(answers) == 40) >= 0.9


def test_rows_of_very_different_size_count_for_fewer() -> None:
    # Red if the number of rows is not divided by the median of Q: all pairs of a multivariate t have too wide a spread.
    answers = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        answers.append(groups_found(rng.standard_normal((100, 20)) / np.sqrt(rng.gamma(2, 1, (100, 1)))).n_groups)
    assert np.mean(np.array(answers) == 20) >= 0.9


@pytest.mark.parametrize("n_rows", [50, 200])
def test_one_equicorrelated_block_is_one_group(n_rows: int) -> None:
    # Red without the margin of the silhouette: what is left without the background is cut up.
    for seed in range(10):
        X = block_rows(np.random.default_rng(seed), n_rows, Partition.single(20), 0.5)
        assert groups_found(X) == Partition.single(20)


def test_blocks_of_mixed_signs_among_single_columns_are_found() -> None:
    truth = Partition([*np.repeat(range(4), 5), *range(4, 14)])
    for seed in range(10):
        assert groups_found(block_rows(np.random.default_rng(seed), 150, truth, 0.6)) == truth


def test_a_common_factor_does_not_join_the_blocks() -> None:
    # Red without the second pass: every merge of the tree is beyond chance, and the answer is one group.
    truth = Partition(np.repeat(range(6), 5))
    answers = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        loadings = rng.uniform(0.5, 0.8, 30) * rng.choice([-1, 1], 30)
        X = rng.standard_normal((200, 1)) * loadings + block_rows(rng, 200, truth, 0.7) * np.sqrt(1 - loadings**2)
        assert top_down(correlation(covariance(X)), 199).partition != truth
        answers.append(groups_found(X) == truth)
    assert np.mean(answers) >= 0.9


def test_the_second_answer_needs_a_clearly_better_silhouette(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    truth = Partition(np.repeat(range(4), 4))
    R = correlation(covariance(rng.standard_normal((200, 1)) + block_rows(rng, 200, truth, 0.8)))
    plain = top_down(R, 199).partition
    without = chance.groups_beyond_chance(R, 199).partition
    assert without == truth != plain
    monkeypatch.setattr(chance, "MARGIN", 1 - silhouette(R, plain))
    assert chance.groups_beyond_chance(R, 199).partition == plain


def test_another_grouping_is_asked_for_as_many_groups() -> None:
    truth = Partition([0, 0, 0, 0, 1, 1, 1, 2, 2])
    S = covariance(block_rows(np.random.default_rng(2), 300, truth))
    assert ChanceRule().choose(S, 300, HierarchicalGrouping()).partition == truth
    for grouping in (GreedyGrouping(), HierarchicalGrouping("single"), HierarchicalGrouping(distance="profile")):
        found = ChanceRule().choose(S, 300, grouping)
        assert found.partition == grouping.group(S, 3).partition
        assert (found.linkage is None) == isinstance(grouping, GreedyGrouping)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("n_rows", [2, 3, 50])
def test_smallest_tables(p: int, n_rows: int) -> None:
    R = np.eye(p) + 0.99 * (1 - np.eye(p))
    found = ChanceRule().choose(R, n_rows, HierarchicalGrouping()).partition
    assert found.n_groups == (1 if n_rows == 50 else p)


def test_copies_of_columns_in_float32_are_one_group() -> None:
    # Red if −log(1 − r²) is taken in float32, where 1 − 1e-12 is 1.
    X = np.repeat(np.random.default_rng(0).standard_normal((50, 3)), 4, axis=1).astype(np.float32)
    S = np.corrcoef(X.T).astype(np.float32)
    np.fill_diagonal(S, 1)
    assert ChanceRule().choose(S, 50, HierarchicalGrouping()).partition == Partition(np.repeat(range(3), 4))


def test_wide_tables_take_their_medians_from_some_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    truth = Partition(np.repeat(range(5), 6))
    X = rng.standard_normal((200, 1)) + block_rows(rng, 200, truth)
    whole = groups_found(X)
    for name, value in (("_MEDIAN_COLUMNS", 12), ("_CHUNK", 7)):
        monkeypatch.setattr(chance, name, value)
        assert groups_found(X) == whole == truth
