"""Rows with gaps in the E-step and the sweep: a dense computation row by row, Anderson's closed form, derivatives."""

from __future__ import annotations

from dataclasses import replace

import missing
import numpy as np
import pytest
from blockmix.em.outliers import group_distances
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import assert_same, chunk_log_joint, unpacked, within_blocks
from numpy.testing import assert_allclose
from strategies import seeds

from blockmix.blocks.blocks import Parameters
from blockmix.em.missing_kernels import TILE
from blockmix.em.sweep import Density, filled, full_scatter, sweep
from blockmix.partition import Partition
from blockmix.rows import EXACT, ArrayRows, Chunk
from blockmix.rows import rows as chunks_module

Case = tuple[ArrayRows, Parameters]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rng = np.random.default_rng(draw(seeds))
    p, G = draw(st.sampled_from([1, 2, 3, 5, 8])), draw(st.integers(1, 3))
    shared = G > 1 and draw(st.booleans())
    groups = [Partition(rng.integers(0, draw(st.integers(1, p)), p)) for _ in range(G)]
    return missing.case(
        rng,
        draw(st.sampled_from([3, 20, TILE + 6])),  # red if gaps of the first tile are left for the second
        groups[:1] * G if shared else groups,
        draw(st.sampled_from([0.01, 0.2, 0.5, 0.9])),
        shared=shared,
        rounded=draw(st.booleans()),
        heavy=draw(st.booleans()),
    )


def chunk_of(rows: ArrayRows) -> Chunk:
    (chunk,) = rows.map(lambda chunk: chunk)
    return chunk


@settings(max_examples=60)
@given(cases())
def test_the_density_of_a_row_is_that_of_its_values(case: Case) -> None:
    rows, parameters = case
    expected = missing.literal(rows, parameters)[0]
    assert_allclose(chunk_log_joint(chunk_of(rows), parameters), expected, rtol=1e-10, atol=1e-10)


@settings(max_examples=60)
@given(cases())
def test_a_sweep_is_the_literal_e_step(case: Case) -> None:
    # Red if C is left out, weighted by u, or added outside its block.
    rows, parameters = case
    expected = missing.literal(rows, parameters)[2]
    expected = replace(expected, scatter=within_blocks(expected.scatter, parameters.layout))
    found = sweep(rows, parameters)
    found = replace(found, scatter=unpacked(found.scatter, parameters.layout))
    assert_same(found, expected, rtol=1e-10, atol=1e-10 * rows.total_weight)
    assert_allclose(found.mass, expected.mass, rtol=1e-10)


@settings(max_examples=60)
@given(cases(), st.integers(0, 2))
def test_a_full_scatter_is_the_literal_one(case: Case, first: int) -> None:
    rows, parameters = case
    G = len(parameters.weights)
    components = range(G) if parameters.layout.shared else range(G)[first % G :]
    found, expected = full_scatter(rows, parameters, components), missing.literal(rows, parameters)[2]
    wanted = expected.scatter if parameters.layout.shared else expected.scatter[list(components)]
    assert_same(found, replace(expected, scatter=wanted), rtol=1e-10, atol=1e-10 * rows.total_weight)


@given(cases())
def test_gaps_are_filled_by_their_conditional_means(case: Case) -> None:
    rows, parameters = case
    chunk, expected = chunk_of(rows), missing.literal(rows, parameters)[1]
    density, every = Density.of(parameters), np.arange(rows.n_rows)
    for g, mean in enumerate(parameters.means):
        found, _ = filled(chunk, density, g, every, np.ones((2, rows.n_rows)))
        assert_allclose(mean + found, expected[:, g], rtol=1e-10, atol=1e-10)


@given(cases(), st.integers(1, 200))
def test_neither_chunks_nor_full_matrices_change_a_sweep(case: Case, numbers: int) -> None:
    rows, parameters = case
    with pytest.MonkeyPatch.context() as patch:
        whole = sweep(rows, parameters)
        patch.setattr(chunks_module, "_CHUNK_NUMBERS", numbers)
        assert_same(sweep(replace(rows), parameters), whole, rtol=1e-11, atol=1e-11 * rows.total_weight)


@given(cases())
def test_the_distances_of_the_groups_add_up_to_that_of_the_row(case: Case) -> None:
    rows, parameters = case
    parameters = replace(parameters, degrees_of_freedom=None)
    chunk, G = chunk_of(rows), len(parameters.weights)
    for g in range(G):
        found = np.nansum(group_distances(chunk, np.full(rows.n_rows, g), parameters), axis=1)
        joint, logs = chunk_log_joint(chunk, parameters)[:, g], np.log(parameters.weights[g])
        centered = replace(rows, X=np.where(np.isnan(rows.X), np.nan, parameters.means[g] * rows.scale + rows.location))
        at_mean = chunk_log_joint(replace(chunk_of(centered), resolution=EXACT), parameters)[:, g]
        assert np.isfinite(logs)
        assert_allclose(found, 2 * (at_mean - joint), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("p", [3, 60])
def test_float32_rows_and_large_blocks(p: int, dtype: type) -> None:
    # 60 columns in one block are factored by LAPACK.
    rows, parameters = missing.case(np.random.default_rng(0), TILE + 6, [Partition.single(p)] * 2, 0.2, dtype=dtype)
    exact = replace(rows, X=rows.X.astype(float))
    tolerance = 1e-9 if dtype == np.float64 else 2e-3
    expected = missing.literal(exact, parameters)[0]
    assert_allclose(chunk_log_joint(chunk_of(rows), parameters), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("far", [1e160, 1e300])
def test_a_far_row_with_gaps_goes_to_the_nearest_component(far: float) -> None:
    rows, parameters = missing.case(np.random.default_rng(0), 5, [Partition([0, 0, 1]), Partition.separate(3)], 0.0)
    rows.X[2] = [far, np.nan, far]
    found = chunk_log_joint(chunk_of(rows), parameters)[2]
    assert not np.isnan(found).any()
    assert np.isfinite(found.max())


def test_a_row_without_values_has_density_1() -> None:
    rows, parameters = missing.case(np.random.default_rng(0), 5, [Partition([0, 0, 1]), Partition.separate(3)], 0.0)
    assert_allclose(chunk_log_joint(chunk_of(rows), parameters)[0], np.log(parameters.weights), atol=1e-14)
