"""Greedy moves against the whole objective: never down, to a local optimum with K groups."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import oracles
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from strategies import Matrix, block_rows, covariance, covariances, rescaled, seeds, singular_covariances

from blockmix.blocks.moments import correlation, definite_correlation
from blockmix.grouping import GreedyGrouping
from blockmix.grouping.greedy import fill_empty, principal_start
from blockmix.partition import Partition


@st.composite
def cases(draw: st.DrawFn) -> tuple[Matrix, int]:
    R = correlation(draw(covariances(max_p=7)))
    return R, draw(st.integers(1, len(R)))


@given(cases())
def test_the_objective_never_falls_and_ends_where_no_move_helps(case: tuple[Matrix, int]) -> None:
    S, n_groups = case
    R = definite_correlation(S)  # what is maximised has the ridge
    path = [principal_start(R, n_groups)]
    path += [GreedyGrouping(max_sweeps=n).group(S, n_groups).partition for n in range(1, 10)]
    values = [oracles.objective(R, partition.labels) for partition in path]
    assert all(after >= before - 1e-9 for before, after in pairwise(values))
    found = GreedyGrouping().group(S, n_groups)
    assert found.converged
    labels = found.partition.labels
    best = oracles.objective(R, labels)
    for j in range(len(R)):
        if found.partition.sizes[labels[j]] > 1:
            for k in range(n_groups):
                assert oracles.objective(R, oracles.relabelled(labels, j, k)) <= best + 2e-6


@given(st.one_of(covariances(), singular_covariances()))
def test_exactly_k_groups_for_every_k(S: Matrix) -> None:
    # Red if a move may empty a group, or a block is inverted without a ridge.
    for n_groups in range(1, len(S) + 1):
        assert GreedyGrouping().group(S, n_groups).partition.n_groups == n_groups


@given(covariances(), seeds, st.data())
def test_rescaling_columns_changes_no_group(S: Matrix, seed: int, data: st.DataObject) -> None:
    n_groups = data.draw(st.integers(1, len(S)))
    factors = rescaled(np.random.default_rng(seed), len(S))
    rescaled_groups = GreedyGrouping().group(S * np.outer(factors, factors), n_groups).partition
    assert rescaled_groups == GreedyGrouping().group(S, n_groups).partition


@given(covariances(), seeds, st.data())
def test_permuting_columns_permutes_the_groups(S: Matrix, seed: int, data: st.DataObject) -> None:
    # Red if a sweep goes through the columns as they stand in the table: it ends in another local optimum.
    n_groups = data.draw(st.integers(1, len(S)))
    permutation = np.random.default_rng(seed).permutation(len(S))
    found = GreedyGrouping().group(S, n_groups).partition
    permuted = GreedyGrouping().group(S[np.ix_(permutation, permutation)], n_groups).partition
    assert permuted == Partition(found.labels[permutation])


@given(cases(), seeds)
def test_the_start_ignores_the_signs_of_eigenvectors(case: tuple[Matrix, int], seed: int) -> None:
    # Red if the largest signed element is taken, as the paper says: flipping a column flips its loadings.
    R, n_groups = case
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], len(R))
    assert principal_start(R * np.outer(signs, signs), n_groups) == principal_start(R, n_groups)


@given(cases())
def test_the_start_is_the_largest_loading(case: tuple[Matrix, int]) -> None:
    R, n_groups = case
    values, vectors = np.linalg.eigh(R)
    leading = vectors[:, np.argsort(values)[::-1][:n_groups]]
    labels = np.argmax(np.abs(leading), axis=1)
    assume(len(set(labels)) == n_groups)
    assert principal_start(R, n_groups) == Partition(labels)


@st.composite
def memberships(draw: st.DrawFn) -> Matrix:
    p = draw(st.integers(1, 8))
    shape = (p, draw(st.integers(1, p)))
    return draw(arrays(float, shape, elements=st.sampled_from([0.0, 0.3, 0.5, 1.0])))


@given(memberships())
def test_empty_groups_are_filled(membership: Matrix) -> None:
    partition = fill_empty(membership)
    assert partition.n_groups == membership.shape[1]
    largest = np.argmax(membership, axis=1)
    if len(set(largest)) == membership.shape[1]:
        assert partition == Partition(largest)


def test_an_empty_group_takes_its_best_column_from_a_group_of_several() -> None:
    membership = np.array([[0.9, 0.0, 0.1], [0.8, 0.0, 0.3], [0.7, 0.0, 0.2], [0.0, 1.0, 0.9]])
    # Column 3 wants group 2 most, but it is alone in group 1.
    assert fill_empty(membership) == Partition([0, 2, 0, 1])


def test_a_search_cut_short_says_so() -> None:
    rng = np.random.default_rng(0)
    S = covariance(rng.standard_normal((40, 12)))
    short, whole = GreedyGrouping(max_sweeps=1).group(S, 3), GreedyGrouping().group(S, 3)
    assert short.partition != whole.partition
    assert not short.converged
    assert whole.converged


def test_clear_blocks_are_found() -> None:
    # Of unequal size: the principal components of equal blocks are arbitrary mixtures of them.
    truth = Partition([0, 1, 0, 0, 2, 1, 0, 1, 2, 0])
    for seed in range(5):
        S = covariance(block_rows(np.random.default_rng(seed), 500, truth))
        assert GreedyGrouping().group(S, 3).partition == truth


@pytest.mark.parametrize("labels", [[0, 1, 0, 0, 1, 0], [0, 0, 1, 2, 0, 1]])
def test_clear_blocks_are_the_best_of_all_partitions(labels: list[int]) -> None:
    S = covariance(block_rows(np.random.default_rng(0), 500, Partition(labels)))
    n_groups = max(labels) + 1
    best, _ = oracles.best_partition(6, n_groups, lambda labels: oracles.objective(S, labels))
    assert GreedyGrouping().group(S, n_groups).partition == Partition(best) == Partition(labels)


@pytest.mark.parametrize("p", [1, 2])
def test_smallest_tables(p: int) -> None:
    for n_groups in range(1, p + 1):
        assert GreedyGrouping().group(np.eye(p), n_groups).partition.n_groups == n_groups
