"""Densities where clusters are apart: what is left out is nothing, and it is left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import oracles
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mixtures import assert_same, dense, mixtures
from numpy.testing import assert_allclose
from strategies import Matrix

from blockmix.em.block import e_step as density
from blockmix.em.block import parameters as parameters_module
from blockmix.em.block import sweep as em
from blockmix.em.block.e_step import explained, log_joint
from blockmix.em.block.parameters import Parameters, assemble
from blockmix.em.block.sweep import sweep
from blockmix.rows import ArrayRows
from blockmix.rows import chunks as chunks_module
from blockmix.structure.blocks import BlockCovariance
from blockmix.structure.partition import Partition

REACH = -np.log(density.NEGLIGIBLE)


@pytest.fixture(autouse=True)
def no_size_is_small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parameters_module, "_WHOLE", 0)
        patch.setattr(density, "_FEW", 0)
        yield


def apart(mixture: tuple[ArrayRows, Parameters], distance: float) -> tuple[ArrayRows, Parameters]:
    """The means that far from each other, and each row near one of them."""
    rows, parameters = mixture
    G, p = parameters.means.shape
    directions = np.random.default_rng(0).standard_normal((G, p))
    near = np.arange(rows.n_rows) % G
    return replace(rows, X=rows.X + distance * directions[near]), replace(
        parameters, means=parameters.means + distance * directions
    )


distances = st.sampled_from([0.0, 3.0, 10.0, 100.0])


@given(mixtures(max_p=9), distances)
def test_densities_are_exact_where_they_count_and_negligible_where_they_do_not(
    mixture: tuple[ArrayRows, Parameters], distance: float
) -> None:
    rows, parameters = apart(mixture, distance)
    found = log_joint(rows.X.T, parameters) - 0.5 * rows.n_columns * np.log(2 * np.pi)
    expected = oracles.log_joint(rows.X, parameters.weights, parameters.means, dense(parameters)).T
    top = expected.max(axis=0)
    counts = expected > top - REACH + 1e-3
    assert_allclose(found[counts], expected[counts], rtol=1e-8, atol=1e-7)
    left_out = expected < top - REACH - 1e-3
    assert (found[left_out] < np.broadcast_to(top, found.shape)[left_out] - REACH + 1e-3).all()
    assert (found >= expected - 1e-7 * np.abs(expected)).all()  # a bound from above


@given(mixtures(max_p=9), distances, st.booleans())
def test_statistics_do_not_change_by_what_is_left_out(
    mixture: tuple[ArrayRows, Parameters], distance: float, full: bool
) -> None:
    rows, parameters = apart(mixture, distance)
    found = sweep(rows, parameters, full=full)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(density, "_FEW", 10**9)
        patch.setattr(em, "NEGLIGIBLE", 0.0)
        expected = sweep(rows, parameters, full=full)
    assert_same(found, expected, rtol=1e-9, atol=1e-6)


def four_clusters(distance: float) -> tuple[Matrix, Parameters]:
    rng = np.random.default_rng(0)
    block = BlockCovariance.of(np.eye(12), Partition(np.arange(12) // 3))
    means = distance * rng.standard_normal((4, 12))
    X = rng.standard_normal((200, 12)) + means[np.arange(200) % 4]
    covariances = tuple(BlockCovariance(block.partition, block.factors) for _ in range(4))
    return X.T, assemble(np.full(4, 0.25), means, covariances)


def test_clusters_apart_are_each_looked_at_for_their_own_rows() -> None:
    values, parameters = four_clusters(50.0)
    _, parts = explained(values, parameters)
    assert parts is not None
    assert [part.component for part in parts] == [0, 1, 2, 3]
    for part in parts:
        assert part.rows.tolist() == list(range(part.component, 200, 4))
        assert_allclose(part.centered, values[:, part.rows] - parameters.means[part.component][:, None])


def test_clusters_that_overlap_are_looked_at_for_all_rows() -> None:
    values, parameters = four_clusters(0.5)
    assert explained(values, parameters)[1] is None


def test_rows_far_from_all_components_have_exact_densities_too() -> None:
    # Red if what the first look has left out is guessed: here it is far more than one per column.
    values, parameters = four_clusters(30.0)
    first = {int(j) for look in parameters.looks[0] for j in look.columns.ravel()}
    values[[j for j in range(12) if j not in first]] *= 1000.0
    joint, parts = explained(values, parameters)
    expected = oracles.log_joint(values.T, parameters.weights, parameters.means, dense(parameters)).T
    assert parts is None
    counts = joint > joint.max(axis=0) - REACH
    assert_allclose((joint - 6 * np.log(2 * np.pi))[counts], expected[counts], rtol=1e-8)
    assert np.array_equal(counts, expected > expected.max(axis=0) - REACH)


@pytest.mark.parametrize("distance", [0.5, 50.0])
def test_threads_do_not_share_scratch(distance: float) -> None:
    values, parameters = four_clusters(distance)
    X = np.tile(values.T, (40, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks_module, "_CHUNK_NUMBERS", 64 * 12)
        rows = ArrayRows.of(X)
        found = [sweep(replace(rows, n_threads=n), parameters) for n in (1, 8)]
    assert_same(found[1], found[0], rtol=0, atol=0)


@pytest.mark.parametrize("distance", [0.5, 50.0])
def test_float32_has_its_own_densities(distance: float) -> None:
    values, parameters = four_clusters(distance)
    small = log_joint(values.astype(np.float32), parameters.astype(np.dtype(np.float32)))
    assert small.dtype == np.float32
    assert_allclose(
        np.exp(small - small.max(axis=0)), np.exp(log_joint(values, parameters) - small.max(axis=0)), atol=1e-3
    )


def test_kept_responsibilities_serve_a_full_sweep() -> None:
    values, parameters = four_clusters(1.0)
    rows = ArrayRows.of(values.T.copy(), np.random.default_rng(1).integers(0, 3, 200).astype(float))
    keep = np.full((200, 4), np.nan)
    sweep(rows, parameters, keep=keep)
    expected = sweep(rows, parameters, full=True)
    found = sweep(rows, parameters, full=True, z=keep)
    assert_same(replace(found, log_likelihood=expected.log_likelihood), expected)


def test_a_component_without_weight_explains_nothing() -> None:
    values, parameters = four_clusters(50.0)
    parameters = replace(parameters, weights=np.array([0.5, 0.25, 0.25, 0.0]))
    joint, _ = explained(values, parameters)
    assert (joint[3] == -np.inf).all()
    assert np.isfinite(joint[:3]).all()


@given(mixtures(max_p=9))
def test_looks_are_all_blocks_once(mixture: tuple[ArrayRows, Parameters]) -> None:
    _, parameters = mixture
    assume(not parameters.layout.shared)
    first, rest = parameters.looks
    for g, covariance in enumerate(parameters.covariances):
        precision = np.zeros((parameters.means.shape[1],) * 2)
        for look in first + rest:
            if look.component == g:
                for columns, W in zip(look.columns, look.whiteners, strict=True):
                    precision[np.ix_(columns, columns)] += W.T @ W
        assert_allclose(precision, np.linalg.inv(covariance.dense()), rtol=1e-6, atol=1e-8)


def test_the_first_look_is_at_the_block_that_tells_most() -> None:
    # Columns 2 and 3 are nearly the same in the first component; in the second the means of column 0 are apart.
    S = np.eye(16)
    S[2, 3] = S[3, 2] = 0.999
    labels = np.arange(16)
    labels[3] = 2
    covariances = (BlockCovariance.of(S, Partition(labels)), BlockCovariance.of(np.eye(16), Partition(np.arange(16))))
    means = np.zeros((2, 16))
    means[1, [0, 1]] = 9, 8
    first, _ = assemble(np.full(2, 0.5), means, covariances).looks
    assert [(look.component, look.columns.tolist()) for look in first] == [(0, [[2, 3]]), (1, [[0], [1]])]
