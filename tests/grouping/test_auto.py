"""The rule "auto": copies, few rows, rare values, a correlation that all columns share, and chains."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import Matrix, block_rows, covariance, seeds

from blockmix.blocks.moments import correlation, mid_ranks
from blockmix.grouping import AutoRule, GreedyGrouping, HierarchicalGrouping
from blockmix.grouping.auto import temper, too_few_rows, without
from blockmix.metrics import adjusted_rand
from blockmix.partition import Partition

HIERARCHICAL = HierarchicalGrouping()


def squares(X: Matrix) -> Matrix:
    """Squared standardized entries over √N."""
    return np.asarray(((X - X.mean(axis=0)) / X.std(axis=0)) ** 2 / np.sqrt(len(X)))


def groups_found(X: Matrix) -> Partition:
    ranks = mid_ranks(X, None)
    return AutoRule().choose(covariance(ranks), len(X), HIERARCHICAL, squares(ranks)).partition


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


@given(seeds, st.integers(3, 20))
@settings(max_examples=30)
def test_what_is_left_without_a_common_factor_is_a_correlation(seed: int, p: int) -> None:
    rng = np.random.default_rng(seed)
    R = correlation(covariance(rng.standard_normal((8, p)) + rng.standard_normal((8, 1))))
    left = without(R, rng.uniform(-0.9, 0.9, p))
    assert np.linalg.eigvalsh(left).min() > -1e-6
    assert_allclose(np.diagonal(left), 1)


def test_too_few_rows_by_hand() -> None:
    # Two columns are in the same order, or its reverse, with probability 2/N!: 2/24 for 4 rows, and 10 pairs of 5.
    assert too_few_rows(4, 5) and too_few_rows(6, 5) and not too_few_rows(7, 5)  # 0.83, 0.03, 0.004
    assert too_few_rows(2, 2) and not too_few_rows(1, 1)


@pytest.mark.parametrize(("n_rows", "p"), [(2, 2), (2, 3), (4, 5), (6, 5), (8, 5), (12, 20)])
def test_few_rows_have_no_false_groups(n_rows: int, p: int) -> None:
    # Red if the likelihood ratio of few rows is taken for that of many: it then finds groups in a fifth of the tables.
    tables = [np.random.default_rng(seed).standard_normal((n_rows, p)) for seed in range(100)]
    assert sum(groups_found(X).n_groups < p for X in tables) <= 5


def test_a_rare_value_that_two_columns_share_by_chance_is_no_group() -> None:
    # Three of five rare values in common happens once in 200 pairs, in one of five tables of 10 such columns.
    tables = [np.random.default_rng(seed).poisson(0.1, (50, 10)) + 0.0 for seed in range(100)]
    found = [groups_found(X) for X in tables if (X.std(axis=0) > 0).all()]
    assert len(found) > 80 and np.mean([partition.n_groups < 10 for partition in found]) <= 0.05


def test_a_common_factor_is_set_aside_and_told() -> None:
    rng = np.random.default_rng(0)
    truth = Partition(np.repeat(range(6), 5))
    X = rng.standard_normal((200, 1)) + block_rows(rng, 200, truth, 0.7)
    found = AutoRule().choose(covariance(X), 200, HIERARCHICAL)
    assert found.partition == truth
    assert 0.3 < found.common < 0.7
    assert AutoRule().choose(covariance(block_rows(rng, 200, truth, 0.7)), 200, HIERARCHICAL).common == 0


def test_another_grouping_is_asked_for_as_many_groups() -> None:
    truth = Partition([0, 0, 0, 0, 1, 1, 1, 2, 2])
    S = covariance(block_rows(np.random.default_rng(2), 300, truth))
    found = AutoRule().choose(S, 300, GreedyGrouping())
    assert found.partition == GreedyGrouping().group(S, 3, 300).partition
    assert len(found.shapes) == 3


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
