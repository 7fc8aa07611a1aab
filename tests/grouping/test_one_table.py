"""The groups of one table: p-values, copies, few rows, rare values, and answers where truth is clear."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import Matrix, block_rows, covariance, covariances, seeds, singular_covariances

from blockmix.blocks.moments import Moments, as_matrix, correlation, mid_ranks
from blockmix.blocks.shapes import block_models
from blockmix.grouping import GreedyGrouping, Grouping, HierarchicalGrouping, Proposal, one_table
from blockmix.grouping.kernels import between_branches
from blockmix.grouping.one_table import (
    OneTableRule,
    groups_of_rows,
    merge_log_p,
    standardized_squares,
    tail_factor,
    temper,
    too_few_rows,
)
from blockmix.partition import Partition
from experiments.metrics import adjusted_rand

HIERARCHICAL = HierarchicalGrouping()


def squares(X: Matrix) -> Matrix:
    """Squared standardized entries over √N."""
    return np.asarray(((X - X.mean(axis=0)) / X.std(axis=0)) ** 2 / np.sqrt(len(X)))


def proposed(X: Matrix, grouping: Grouping = HIERARCHICAL) -> Proposal:
    return groups_of_rows(X, None, Moments.of(X), grouping, block_models("auto"))


def groups_found(X: Matrix) -> Partition:
    """From ranks, as the default is."""
    return proposed(mid_ranks(X, None)).partition


@given(seeds, st.integers(5, 40), st.integers(1, 6))
def test_squares_and_tails_are_the_literal_ones(seed: int, n_rows: int, p: int) -> None:
    rng = np.random.default_rng(seed)
    X, weights = rng.standard_t(3, (n_rows, p)), rng.integers(1, 4, n_rows).astype(float)
    repeated = np.repeat(X, weights.astype(int), axis=0)
    found = standardized_squares(X, weights, Moments.of(X, weights))
    Y = squares(repeated)
    assert_allclose(found.T @ found, Y.T @ Y, atol=1e-9)
    R = correlation(covariance(repeated))
    Q = [(Y[:, i] @ Y[:, j]) - 2 * R[i, j] ** 2 for i, j in combinations(range(p), 2)]
    assert tail_factor(R, found) == pytest.approx(max(1.0, float(np.median(Q))) if Q else 1.0)


@given(seeds, st.integers(3, 12), st.integers(2, 12))
@settings(max_examples=30)
def test_tempering_keeps_a_correlation_and_exact_copies(seed: int, n_rows: int, p: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_t(2, (n_rows, p)) ** 3
    X[:, -1] = 7 - 2 * X[:, 0]
    R = correlation(covariance(X))
    tempered = temper(R, squares(X))
    assert np.linalg.eigvalsh(tempered).min() > -1e-9
    assert_allclose(np.diagonal(tempered), 1)
    assert tempered[0, -1] == -1
    assert (np.abs(tempered) <= np.abs(R) + 1e-12).all()


def test_ranks_without_ties_are_not_tempered() -> None:
    ranks = mid_ranks(np.random.default_rng(0).standard_cauchy((30, 4)), None)
    R = correlation(covariance(ranks))
    assert np.array_equal(temper(R, squares(ranks)), R)


@given(st.one_of(covariances(), singular_covariances()), st.floats(3, 1000))
def test_p_values_are_the_literal_ones(S: Matrix, effective: float) -> None:
    # Red if t₂ is taken without its noise, if the ratio looks at the stronger branch, or if ν − 1.5 changes.
    R = correlation(S)
    tree = HIERARCHICAL.tree(R)
    found = merge_log_p(tree, *between_branches(as_matrix(R).entries, tree), effective)
    assert_allclose(found, oracles.merge_log_p(R, tree, effective), rtol=1e-6, atol=1e-9)


def test_p_values_are_uniform_between_independent_columns() -> None:
    # Of single columns the test is a likelihood ratio with Bartlett's factor: its level is right, not just monotone.
    rng = np.random.default_rng(0)
    n_rows, tree = 30, np.array([[0, 1, 0.5, 2]])
    correlations = (correlation(covariance(rng.standard_normal((n_rows, 2)))) for _ in range(2000))
    log_p = [merge_log_p(tree, *between_branches(as_matrix(R).entries, tree), n_rows - 1)[0] for R in correlations]
    for level in (0.5, 0.1, 0.02):
        rate = np.mean(np.array(log_p) < np.log(level))
        assert abs(rate - level) < 4 * np.sqrt(level * (1 - level) / 2000)


def test_too_few_rows_by_hand() -> None:
    # Two columns are in the same order, or its reverse, with probability 2/N!: 2/24 for 4 rows, and 10 pairs of 5.
    assert too_few_rows(4, 5) and too_few_rows(6, 5) and not too_few_rows(7, 5)  # 0.83, 0.03, 0.004
    assert too_few_rows(2, 2) and not too_few_rows(1, 1)


@pytest.mark.parametrize(("n_rows", "p"), [(2, 2), (2, 3), (4, 5), (6, 5), (8, 5), (12, 20)])
def test_few_rows_have_no_false_groups(n_rows: int, p: int) -> None:
    # Red if the likelihood ratio of few rows is taken for that of many: it then finds groups in a fifth of the tables.
    tables = [np.random.default_rng(seed).standard_normal((n_rows, p)) for seed in range(100)]
    assert sum(groups_found(X).n_groups < p for X in tables) <= 5


@pytest.mark.parametrize("kind", ["wide", "lognormal", "t"])
def test_independent_columns_have_no_groups(kind: str) -> None:
    # By design two tables in a hundred have a group. Red without the gate, without tempering (lognormal), and if heavy
    # tails do not reduce the number of rows (t).
    answers = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = {
            "wide": rng.standard_normal((60, 100)),
            "lognormal": rng.lognormal(size=(50, 40)),
            "t": rng.standard_normal((100, 20)) / np.sqrt(rng.gamma(2, 1, (100, 1))),
        }[kind]
        answers.append(proposed(X).partition == Partition.separate(X.shape[1]))
    assert np.mean(answers) >= 0.9


def test_a_rare_value_that_two_columns_share_by_chance_is_no_group() -> None:
    # Three of five rare values in common happens once in 200 pairs, in one of five tables of 10 such columns.
    tables = [np.random.default_rng(seed).poisson(0.1, (50, 10)) + 0.0 for seed in range(100)]
    found = [groups_found(X) for X in tables if (X.std(axis=0) > 0).all()]
    assert len(found) > 80 and np.mean([partition.n_groups < 10 for partition in found]) <= 0.05


@pytest.mark.parametrize("n_rows", [50, 200])
def test_one_equicorrelated_block_is_one_group(n_rows: int) -> None:
    for seed in range(10):
        X = block_rows(np.random.default_rng(seed), n_rows, Partition.single(20), 0.5)
        assert groups_found(X) == Partition.single(20)


def test_blocks_of_mixed_signs_among_single_columns_are_found() -> None:
    truth = Partition([*np.repeat(range(4), 5), *range(4, 14)])
    found = [groups_found(block_rows(np.random.default_rng(seed), 150, truth, 0.6)) for seed in range(10)]
    assert np.mean([adjusted_rand(truth, partition) for partition in found]) > 0.98


def test_a_common_factor_is_taken_out_of_the_groups() -> None:
    rng = np.random.default_rng(0)
    truth = Partition(np.repeat(range(6), 5))
    X = rng.standard_normal((200, 1)) + block_rows(rng, 200, truth, 0.7)
    models = block_models("auto")
    with_factors = groups_of_rows(X, None, Moments.of(X), HIERARCHICAL, models, (0, 3))
    assert with_factors.partition == truth and with_factors.common is not None and with_factors.common.shape == (30, 1)
    assert 0.3 < np.median(with_factors.common**2) < 0.7
    Y = block_rows(rng, 200, truth, 0.7)
    assert groups_of_rows(Y, None, Moments.of(Y), HIERARCHICAL, models, (0, 3)).common is None


def test_another_grouping_is_asked_for_as_many_groups() -> None:
    truth = Partition([0, 0, 0, 0, 1, 1, 1, 2, 2])
    X = block_rows(np.random.default_rng(2), 300, truth)
    proposal = proposed(X, GreedyGrouping())
    assert proposal.partition == GreedyGrouping().group(covariance(X), 3).partition
    assert len(proposal.shapes) == 3 and proposal.linkage is None


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("n_rows", [2, 3, 50])
def test_smallest_tables(p: int, n_rows: int) -> None:
    R = np.eye(p) + 0.99 * (1 - np.eye(p))
    assert OneTableRule().choose(R, n_rows, HIERARCHICAL).partition.n_groups == (1 if n_rows == 50 else p)


def test_copies_of_columns_in_float32_are_one_group() -> None:
    # Red if −log(1 − r²) is taken in float32, where 1 − 1e-12 is 1.
    X = np.repeat(np.random.default_rng(0).standard_normal((50, 3)), 4, axis=1).astype(np.float32)
    assert proposed(X).partition == Partition(np.repeat(range(3), 4))


def test_wide_tables_take_their_medians_from_some_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    truth = Partition(np.repeat(range(5), 6))
    X = rng.standard_normal((200, 1)) + block_rows(rng, 200, truth)
    monkeypatch.setattr(one_table, "_MEDIAN_COLUMNS", 12)
    models = block_models("auto")
    assert groups_of_rows(X, None, Moments.of(X), HIERARCHICAL, models, (0, 3)).partition == truth


@pytest.mark.parametrize("n_rows", [60, 100])
def test_chains_are_found_whole(n_rows: int) -> None:
    # Average linkage cuts chains of 30 into pieces: ARI 0.6 to 0.8. Red without the tree of strongest correlations.
    steps = np.arange(30)
    L = np.linalg.cholesky(0.8 ** np.abs(steps[:, None] - steps))
    truth = np.repeat([0, 1, *range(2, 22)], [30, 30, *[1] * 20])
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = np.hstack([rng.standard_normal((n_rows, 30)) @ L.T for _ in range(2)] + [rng.standard_normal((n_rows, 20))])
        assert adjusted_rand(truth, groups_found(X)) > 0.9
