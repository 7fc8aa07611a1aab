"""The sweep against dense moments; statistics that add up, in any chunks and on any threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import (
    assert_same,
    labels_of,
    literal_statistics,
    mixture,
    mixtures,
    responsibilities,
    rounded,
    unpacked,
    values,
    within_blocks,
)
from numpy.testing import assert_allclose
from strategies import seeds

from blockmix.blocks.blocks import Parameters
from blockmix.em.sweep import Density, Statistics, component_means, full_scatter, posterior, sweep, unit_parameters
from blockmix.partition import Partition
from blockmix.rows import ArrayRows
from blockmix.rows import rows as chunks_module

Mixture = tuple[ArrayRows, Parameters]


def in_full(statistics: Statistics, parameters: Parameters) -> Statistics:
    """The statistics of a sweep with matrices instead of flat blocks."""
    return replace(statistics, scatter=unpacked(statistics.scatter, parameters.layout))


@settings(max_examples=100)
@given(mixtures(), st.booleans())
def test_a_sweep_is_the_literal_e_step(mixture: Mixture, is_rounded: bool) -> None:
    rows, parameters = mixture
    rows = rounded(rows) if is_rounded else rows
    expected = literal_statistics(rows, parameters)
    expected = replace(expected, scatter=within_blocks(expected.scatter, parameters.layout))
    assert_same(in_full(sweep(rows, parameters), parameters), expected, rtol=1e-9, atol=1e-8)


@given(mixtures(), st.booleans(), st.booleans(), st.integers(0, 3), st.integers(1, 4))
def test_a_full_scatter_is_the_literal_one_of_the_components_asked_for(
    mixture: Mixture, is_rounded: bool, given_z: bool, first: int, count: int
) -> None:
    rows, parameters = mixture
    rows = rounded(rows) if is_rounded else rows
    G = len(parameters.weights)
    z = np.random.default_rng(0).dirichlet(np.ones(G), rows.n_rows) if given_z else None
    components = range(G) if parameters.layout.shared else range(G)[first % G : first % G + count]
    expected = literal_statistics(rows, parameters, z)
    found = full_scatter(rows, parameters, components, z)
    assert_allclose(found.weight, expected.weight, rtol=1e-9, atol=1e-9)
    assert_allclose(found.excess, expected.excess, rtol=1e-9, atol=1e-8)
    assert_allclose(found.blur, expected.blur, rtol=1e-9, atol=1e-9)
    wanted = expected.scatter if parameters.layout.shared else expected.scatter[list(components)]
    assert_allclose(found.scatter, wanted, rtol=1e-9, atol=1e-8)
    if not given_z:
        assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=1e-9)


@given(mixtures())
def test_a_sweep_is_the_full_scatter_on_the_blocks(mixture: Mixture) -> None:
    rows, parameters = mixture
    full = full_scatter(rows, parameters)
    expected = replace(full, scatter=within_blocks(full.scatter, parameters.layout))
    assert_same(in_full(sweep(rows, parameters), parameters), expected)


@given(mixtures(), st.integers(1, 600), st.integers(1, 4), st.booleans())
def test_neither_chunks_nor_threads_change_a_sweep(mixture: Mixture, numbers: int, n_threads: int, full: bool) -> None:
    # Red if a sum depends on which thread is first, or if a chunk loses its last rows.
    rows, parameters = mixture
    read = full_scatter if full else sweep
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks_module, "_CHUNK_NUMBERS", numbers)
        parts = read(replace(rows, n_threads=1), parameters)
        again = read(replace(rows, n_threads=n_threads), parameters)
        patch.setattr(chunks_module, "_CHUNK_NUMBERS", 10**9)
        whole = read(rows, parameters)
    assert_same(again, parts, rtol=0, atol=0)  # on threads parts are added in the order of the rows
    size = rows.total_weight * (1 + np.abs(values(rows)).max() + np.abs(parameters.means).max()) ** 2
    assert_same(parts, whole, rtol=1e-12, atol=1e-14 * size)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("numbers", [1, 1000, 10**9])
def test_many_rows_in_any_chunks_on_any_threads_have_the_same_statistics(n_threads: int, numbers: int) -> None:
    groups = [Partition(np.arange(8) // 2), Partition(np.arange(8) % 3), Partition.single(8)]
    rows, parameters = mixture(np.random.default_rng(0), 5003, groups)
    expected = sweep(rows, parameters)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks_module, "_CHUNK_NUMBERS", numbers)
        found = sweep(replace(rows, n_threads=n_threads), parameters)
    assert_same(found, expected, rtol=1e-12, atol=1e-12 * rows.total_weight)


@given(mixtures(), st.integers(0, 2**16), st.booleans())
def test_statistics_add_up_in_any_grouping(mixture: Mixture, cut: int, full: bool) -> None:
    rows, parameters = mixture
    read = full_scatter if full else sweep
    a, b = sorted((cut % (rows.n_rows + 1), cut // 256 % (rows.n_rows + 1)))
    # A component or a part may have no rows at all.
    parts = [
        read(replace(rows, X=rows.X[part], weights=rows.weights[part]), parameters)
        for part in (slice(0, a), slice(a, b), slice(b, None))
        if len(rows.X[part])
    ]
    left, right = parts[0], parts[-1]
    for part in parts[1:]:
        left = left + part
    for part in reversed(parts[:-1]):
        right = part + right
    assert_same(left, right)
    assert_same(left, read(rows, parameters))


@given(mixtures())
def test_a_weight_is_a_repeated_row(mixture: Mixture) -> None:
    rows, parameters = mixture
    repeated = np.repeat(rows.X, rows.weights.astype(int), axis=0)
    other = replace(rows, X=repeated, weights=np.ones(len(repeated)))
    assert_same(sweep(rows, parameters), sweep(other, parameters), rtol=1e-9, atol=1e-8)


@given(mixtures())
def test_the_posterior_of_a_chunk_is_dense_bayes(mixture: Mixture) -> None:
    rows, parameters = mixture
    (found,) = rows.map(lambda chunk: posterior(chunk, Density.of(parameters)))
    assert_allclose(found[0], responsibilities(rows, parameters), atol=1e-7)
    assert_allclose(found[1], literal_statistics(rows, parameters).log_likelihood, rtol=1e-9)


@settings(max_examples=60)
@given(mixtures(), st.sampled_from([3.0, 30.0, 1000.0]))
def test_components_far_apart_have_the_same_statistics(mixture: Mixture, distance: float) -> None:
    # Red if a row that counts is left out with those whose responsibility is negligible.
    rows, parameters = mixture
    G, p = parameters.means.shape
    directions = distance * np.random.default_rng(0).standard_normal((G, p))
    rows = replace(rows, X=rows.X + directions[np.arange(rows.n_rows) % G] * rows.scale)
    parameters = parameters.moved(parameters.weights, parameters.means + directions)
    expected = literal_statistics(rows, parameters)
    expected = replace(expected, scatter=within_blocks(expected.scatter, parameters.layout))
    assert_same(in_full(sweep(rows, parameters), parameters), expected, rtol=1e-8, atol=1e-6)


@given(mixtures(), st.booleans())
def test_float32_rows_have_statistics_in_double(mixture: Mixture, full: bool) -> None:
    rows, parameters = mixture
    read = full_scatter if full else sweep
    narrow = replace(rows, X=rows.X.astype(np.float32))
    found = read(narrow, parameters)
    assert {array.dtype for array in (found.weight, found.excess, found.scatter)} == {np.dtype(float)}
    # The same rows in double: only the arithmetic differs. Whitened deviations reach some tens.
    exact = read(replace(rows, X=narrow.X.astype(float)), parameters)
    assert_same(found, exact, rtol=1e-4, atol=1e-4 * rows.total_weight)


@given(mixtures(), seeds)
def test_means_of_given_responsibilities(mixture: Mixture, seed: int) -> None:
    rows, _ = mixture
    z = np.random.default_rng(seed).dirichlet(np.ones(3), rows.n_rows)
    share = z * rows.weights[:, None]
    assert_allclose(component_means(rows, z), (share.T @ values(rows)) / share.sum(axis=0)[:, None], atol=1e-9)


@pytest.mark.parametrize("left", [0.0, 1e-300, 1e-12])
def test_a_component_without_weight_is_empty_and_has_the_overall_mean(left: float) -> None:
    rows, parameters = mixture(np.random.default_rng(0), 60, [Partition.single(4)] * 3)
    z = np.tile([1 - left, 0.0, left], (60, 1))
    statistics = full_scatter(rows, parameters, z=z)
    assert statistics.empty.tolist() == [False, True, True]
    new = statistics.means(parameters.means)
    expected = np.average(values(rows), weights=rows.weights, axis=0)
    assert_allclose(new, [expected, np.zeros(4), np.zeros(4)], atol=1e-9)


def test_unit_parameters_have_equal_weights_and_identities() -> None:
    _, parameters = mixture(np.random.default_rng(0), 5, [Partition([0, 1, 0]), Partition.single(3)])
    unit = unit_parameters(parameters.means, parameters.layout)
    assert labels_of(unit) == labels_of(parameters)
    assert_allclose([block.dense() for block in unit.covariances], [np.eye(3)] * 2)
    assert_allclose(unit.weights, 0.5)
