"""The priced search against the literal penalised objective: it stops where no merge and no move helps."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Matrix, block_rows, covariance, covariances, rescaled, seeds, singular_covariances

from blockmix import datasets
from blockmix.blocks.moments import correlation, definite_correlation
from blockmix.grouping import PenalizedGrouping
from blockmix.grouping.penalized import merge
from blockmix.partition import Partition, bic_price, extended_price

n_rows_of = st.integers(12, 400)
gammas = st.sampled_from([0.0, 0.5, 1.0])


def merged_labels(labels: list[int]) -> list[list[int]]:
    return [[b if k == a else k for k in labels] for a, b in combinations(sorted(set(labels)), 2)]


@given(covariances(max_p=7), n_rows_of, gammas)
def test_it_ends_where_neither_merge_nor_move_helps(S: Matrix, n_rows: int, gamma: float) -> None:
    R = definite_correlation(S)  # what is maximised has the ridge
    found = PenalizedGrouping(gamma).group(S, None, n_rows)
    assert found.converged
    labels = found.partition.labels.tolist()
    best = oracles.penalized(R, labels, n_rows, gamma)
    new_group = len(S)  # a column may also open a group of its own
    moved = [oracles.relabelled(labels, j, k) for j in range(len(S)) for k in {*labels, new_group}]
    for other in moved + merged_labels(labels):
        assert oracles.penalized(R, other, n_rows, gamma) <= best + 2e-6 * n_rows
    # Red if the search ends below its start.
    assert best >= oracles.penalized(R, range(len(S)), n_rows, gamma) - 1e-9


@given(covariances(max_p=7), n_rows_of, st.data())
def test_a_given_number_is_kept_and_no_move_helps(S: Matrix, n_rows: int, data: st.DataObject) -> None:
    R = definite_correlation(S)
    n_groups = data.draw(st.integers(1, len(S)))
    found = PenalizedGrouping().group(S, n_groups, n_rows)
    assert found.converged
    labels = found.partition.labels
    best = oracles.penalized(R, labels, n_rows)
    for j in range(len(S)):
        if found.partition.sizes[labels[j]] > 1:
            for k in range(n_groups):
                assert oracles.penalized(R, oracles.relabelled(labels, j, k), n_rows) <= best + 2e-6 * n_rows


@given(covariances(max_p=6), n_rows_of, gammas)
def test_merges_are_the_literal_ones(S: Matrix, n_rows: int, gamma: float) -> None:
    R = correlation(S)
    expected = list(range(len(S)))
    while len(set(expected)) > 1:
        candidates = [(oracles.penalized(R, labels, n_rows, gamma), labels) for labels in merged_labels(expected)]
        value, best = max(candidates)
        if value <= oracles.penalized(R, expected, n_rows, gamma):
            break
        expected = best
    price = extended_price(bic_price(n_rows), len(S), gamma)
    found = merge(R, Partition.separate(len(S)), n_rows, price, None)
    # Red if a gain is not brought up to date after a merge.
    assert found == Partition(expected)


@pytest.mark.parametrize("labels", [[0, 0, 1, 1, 1, 2], [0, 1, 2, 3, 0, 1], [0, 0, 0, 0, 0, 0], [0, 1, 2, 3, 4, 5]])
def test_clear_blocks_are_the_best_of_all_partitions(labels: list[int]) -> None:
    S = covariance(block_rows(np.random.default_rng(0), 200, Partition(labels)))
    best = [oracles.best_partition(6, K, lambda labels: oracles.penalized(S, labels, 200)) for K in range(1, 7)]
    found = PenalizedGrouping().group(S, None, 200).partition
    assert found == Partition(max(best, key=lambda one: one[1])[0]) == Partition(labels)


@pytest.mark.parametrize("design", [datasets.sigma_a, datasets.sigma_b])
def test_the_papers_designs_are_found_without_their_number(design: object) -> None:
    truth = design()  # type: ignore[operator]
    for seed in range(5):
        S = covariance(truth.sample(300, random_state=seed))
        assert PenalizedGrouping().group(S, None, 300).partition == truth.partition


@given(st.one_of(covariances(), singular_covariances()), st.integers(2, 50))
def test_exactly_k_groups_for_every_k(S: Matrix, n_rows: int) -> None:
    for n_groups in range(1, len(S) + 1):
        assert PenalizedGrouping().group(S, n_groups, n_rows).partition.n_groups == n_groups


@given(singular_covariances(), st.integers(3, 8))
def test_a_block_has_fewer_columns_than_there_are_rows(S: Matrix, n_rows: int) -> None:
    # Red without the limit in merges or in moves: a singular block has an unbounded likelihood, whatever it costs.
    assert PenalizedGrouping().group(S, None, n_rows).partition.sizes.max() < n_rows


@given(covariances(), n_rows_of, seeds, st.data())
def test_permuting_columns_permutes_the_groups(S: Matrix, n_rows: int, seed: int, data: st.DataObject) -> None:
    n_groups = data.draw(st.one_of(st.none(), st.integers(1, len(S))))
    permutation = np.random.default_rng(seed).permutation(len(S))
    found = PenalizedGrouping().group(S, n_groups, n_rows).partition
    permuted = PenalizedGrouping().group(S[np.ix_(permutation, permutation)], n_groups, n_rows).partition
    assert permuted == Partition(found.labels[permutation])


@given(covariances(), n_rows_of, seeds)
def test_rescaling_columns_changes_no_group(S: Matrix, n_rows: int, seed: int) -> None:
    factors = rescaled(np.random.default_rng(seed), len(S))
    found = PenalizedGrouping().group(S, None, n_rows).partition
    assert PenalizedGrouping().group(S * np.outer(factors, factors), None, n_rows).partition == found


def test_a_higher_price_gives_more_groups() -> None:
    S = covariance(block_rows(np.random.default_rng(0), 60, Partition(np.repeat(range(3), 5)), 0.4))
    counts = [PenalizedGrouping(gamma).group(S, None, 60).partition.n_groups for gamma in (0.0, 0.5, 4.0)]
    assert counts[0] < counts[1] < counts[2] == 15


@given(covariances(), n_rows_of)
def test_a_price_of_the_callers_takes_the_place_of_bics(S: Matrix, n_rows: int) -> None:
    search = PenalizedGrouping()
    given_price = search.group_at_price(S, n_rows, 0.5 * np.log(n_rows)).partition
    assert given_price == search.group(S, None, n_rows).partition
    assert search.group_at_price(S, n_rows, 1e6).partition == Partition.separate(len(S))


def test_a_column_may_open_a_group_of_its_own() -> None:
    # Red if moves go to existing groups only: here a merge is regretted after other columns have moved.
    rng = np.random.default_rng(69)
    loadings = rng.standard_normal((14, 4)) * (rng.random((14, 4)) < 0.4)
    S = covariance(rng.standard_normal((40, 4)) @ loadings.T + 0.7 * rng.standard_normal((40, 14)))
    R = definite_correlation(S)
    labels = PenalizedGrouping().group(S, None, 40).partition.labels
    best = oracles.penalized(R, labels, 40)
    for j in range(14):
        assert oracles.penalized(R, oracles.relabelled(labels, j, 14), 40) <= best + 1e-4


def test_a_search_cut_short_says_so() -> None:
    rng = np.random.default_rng(3)
    S = covariance(block_rows(rng, 40, Partition(rng.integers(0, 6, 20)), 0.4))
    short, whole = PenalizedGrouping(max_sweeps=1).group(S, None, 40), PenalizedGrouping().group(S, None, 40)
    assert not short.converged
    assert whole.converged
    assert oracles.penalized(S, short.partition.labels, 40) <= oracles.penalized(S, whole.partition.labels, 40) + 1e-9
