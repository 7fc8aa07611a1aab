"""The sweep is the literal E-step, whatever the rows, the tails and the shortcut; statistics add up in any chunks."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import (
    TILE,
    Case,
    assert_same,
    case,
    chunk_log_joint,
    chunk_of,
    dense,
    in_full,
    labels_of,
    literal,
    mixture,
    mixtures,
    values,
    within_blocks,
)
from numpy.testing import assert_allclose
from oracles import moments, responsibilities
from scipy.stats import multivariate_normal, multivariate_t
from strategies import seeds

from blockmix.blocks.blocks import Blocks, Layout
from blockmix.em import kernels
from blockmix.em import sweep as module
from blockmix.em.parameters import Parameters, filled, posterior
from blockmix.em.sweep import expected, full_scatter, sweep, unit_parameters
from blockmix.partition import Partition
from blockmix.rows import EXACT, ArrayRows, Chunk
from blockmix.rows import rows as chunks_module


def size_of(rows: ArrayRows, parameters: Parameters) -> float:
    """The size of a scatter, to compare sums by."""
    return float(
        rows.total_weight * (1 + np.abs(np.nan_to_num(values(rows))).max() + np.abs(parameters.means).max()) ** 2
    )


@given(mixtures(missing=False))
def test_log_densities_are_those_of_scipy(made: Case) -> None:
    rows, parameters = made
    rows = replace(rows, resolution=EXACT)
    X, nu = values(rows), parameters.degrees_of_freedom
    pairs = enumerate(zip(parameters.means, dense(parameters), strict=True))
    logs = [(multivariate_normal(m, S) if nu is None else multivariate_t(m, S, nu[g])).logpdf(X) for g, (m, S) in pairs]
    wanted = np.log(parameters.weights) + np.reshape(logs, (-1, len(X))).T
    assert_allclose(chunk_log_joint(chunk_of(rows), parameters), wanted, rtol=1e-9, atol=1e-8)


@settings(max_examples=100)
@given(mixtures())
def test_a_sweep_is_the_literal_e_step(made: Case) -> None:
    # Red if a block, a unit, a weight or a last tile is mixed up; if a conditional covariance is left out, weighted by
    # u or added outside its block; if the shortcut for a shared covariance leaves out a part.
    rows, parameters = made
    layout, (joint, _, statistics) = parameters.blocks.layout, literal(rows, parameters)
    size = size_of(rows, parameters)
    assert_allclose(chunk_log_joint(chunk_of(rows), parameters), joint, rtol=1e-9, atol=1e-9)
    full = full_scatter(rows, parameters)
    assert_same(full, statistics, rtol=1e-9, atol=1e-11 * size)
    blocks = replace(statistics, scatter=within_blocks(statistics.scatter, layout))
    assert_same(in_full(sweep(rows, parameters), layout), in_full(blocks, layout), rtol=1e-9, atol=1e-11 * size)


@given(mixtures(heavy=False), st.integers(0, 2), st.integers(1, 3))
def test_a_full_scatter_of_some_components_and_given_responsibilities(made: Case, first: int, count: int) -> None:
    rows, parameters = made
    G, shared = len(parameters.weights), parameters.blocks.layout.n_sharing > 1
    components = range(G) if shared else range(G)[first % G : first % G + count]
    whole = full_scatter(rows, parameters)
    some = full_scatter(rows, parameters, components)
    assert_same(some, replace(whole, scatter=whole.scatter if shared else whole.scatter[list(components)]))
    if not np.isnan(rows.X).any():
        z = np.random.default_rng(0).dirichlet(np.ones(G), rows.n_rows)
        n, excess, scatter = moments(values(rows), rows.weights, z, parameters.means)
        statistics = full_scatter(rows, parameters, z=z)
        assert_allclose(statistics.weight, n, rtol=1e-9, atol=1e-9)
        assert_allclose(statistics.excess, excess, atol=1e-9 * size_of(rows, parameters))
        pooled = parameters.blocks.layout.pooled(scatter)
        assert_allclose(statistics.scatter, pooled, atol=1e-9 * size_of(rows, parameters))
        as_rows = full_scatter(rows, parameters, z=z, as_rows=True)
        assert_allclose([matrix[:] for matrix in as_rows.scatter], statistics.scatter, atol=1e-9)


@given(mixtures(), st.integers(1, 600), st.integers(2, 4), st.booleans())
def test_chunks_and_threads_change_nothing_and_a_weight_is_a_repeated_row(
    made: Case, numbers: int, n_threads: int, full: bool
) -> None:
    # Red if a sum depends on which thread is first, or if a chunk loses its last rows.
    rows, parameters = made
    read, size = full_scatter if full else sweep, size_of(*made)
    whole = read(rows, parameters)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks_module, "_CHUNK_NUMBERS", numbers)
        parts = read(replace(rows, n_threads=1), parameters)
        assert_same(read(replace(rows, n_threads=n_threads), parameters), parts, rtol=0, atol=0)
    assert_same(parts, whole, rtol=1e-11, atol=1e-13 * size)
    repeated = np.repeat(rows.X, rows.weights.astype(int), axis=0)
    again = read(replace(rows, X=repeated, weights=np.ones(len(repeated))), parameters)
    assert_same(again, whole, rtol=1e-9, atol=1e-11 * size)


@given(seeds, st.integers(2, 4), st.integers(7, 150), st.booleans())
def test_the_shortcut_of_a_shared_covariance_is_the_plain_sweep(seed: int, G: int, n: int, is_rounded: bool) -> None:
    rng = np.random.default_rng(seed)
    groups = [Partition(rng.integers(0, 4, 6))] * G
    rows, parameters = case(rng, n, groups, shared=True, is_rounded=is_rounded)
    if G > 2:  # a component without rows leaves the others as they are
        parameters = parameters.moved(np.append(np.full(G - 1, 1 / (G - 1)), 0), parameters.means)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LARGEST_PRECISION", np.inf)
        short = in_full(sweep(rows, parameters), parameters.blocks.layout)
        patch.setattr(module, "_LARGEST_PRECISION", 0.0)
        plain = in_full(sweep(rows, parameters), parameters.blocks.layout)
    assert_same(short, plain, rtol=1e-9, atol=1e-11 * size_of(rows, parameters))


@dataclass(frozen=True, eq=False)
class Counted(ArrayRows):
    """Rows that count how often they are read."""

    passes: list[int] | None = None

    def map(self, function: Callable[[Chunk], Any]) -> Iterator[Any]:
        assert self.passes is not None
        self.passes.append(1)
        return super().map(function)


@pytest.mark.parametrize(("n_rows", "shared", "passes"), [(150, True, 2), (5, True, 1), (150, False, 1)])
def test_the_total_scatter_is_read_once_and_goes_with_its_rows(n_rows: int, shared: bool, passes: int) -> None:
    # Tables with more columns than rows and covariances of their own take the plain sweep.
    gc.collect()
    before = len(module._totals)
    rows, parameters = mixture(np.random.default_rng(0), n_rows, [Partition([0, 1, 2, 0, 1, 2])] * 3, shared)
    counted = Counted(rows.X, rows.weights, rows.location, rows.scale, passes=[])
    assert not counted.has_missing
    counted.passes.clear()  # type: ignore[union-attr]
    first = sweep(counted, parameters)
    assert len(counted.passes) == passes  # type: ignore[arg-type]
    assert_same(sweep(counted, parameters), first, rtol=0, atol=0)
    assert len(counted.passes) == passes + 1  # type: ignore[arg-type]
    assert len(module._totals) == before + passes - 1
    del counted
    gc.collect()
    assert len(module._totals) == before


@given(mixtures())
def test_missing_values_are_filled_by_their_conditional_means(made: Case) -> None:
    rows, parameters = made
    chunk, every, density = chunk_of(rows), np.arange(rows.n_rows), parameters.density(missing=True)
    joint, completed, _ = literal(rows, parameters)
    for g, mean in enumerate(parameters.means):
        centered, _ = filled(chunk, density, g, every, np.ones((2, rows.n_rows)))
        assert_allclose(mean + centered, completed[:, g], rtol=1e-9, atol=1e-9)
    z = responsibilities(joint)[0]
    wanted = np.where(np.isnan(rows.X), np.einsum("ng,ngi->ni", z, completed), values(rows))
    assert_allclose(expected(chunk, density, z), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_large_blocks_in_any_layout_of_memory(dtype: type, missing: float) -> None:
    # 60 columns in one block are factored by LAPACK. Rows may lie by columns, backwards or read-only.
    groups = [Partition.single(60), Partition(np.arange(60) // 20)]
    rows, parameters = case(np.random.default_rng(0), TILE + 6, groups, missing, dtype=dtype)
    fixed = rows.X.copy()
    fixed.flags.writeable = False
    wanted = literal(rows, parameters)[0]
    for X in (rows.X, np.asfortranarray(rows.X), np.repeat(rows.X, 2, axis=1)[:, ::2], fixed):
        assert_allclose(chunk_log_joint(chunk_of(replace(rows, X=X)), parameters), wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("far", [1e100, 1e160, 1e300])
def test_a_row_whose_distance_overflows_has_the_nearest_component(far: float, missing: bool) -> None:
    rows, parameters = mixture(np.random.default_rng(0), TILE + 3, [Partition([0, 0, 1]), Partition.separate(3)])
    X = rows.X.copy()
    X[2] = [far, np.nan if missing else far, far]
    rows = replace(rows, X=X, weights=np.ones(len(X)))
    z, log_likelihood, _ = posterior(chunk_of(rows), parameters.density(missing=True))
    assert_allclose(z.sum(axis=1), 1)
    assert np.isfinite(log_likelihood)
    statistics = sweep(rows, parameters)
    assert np.isfinite(statistics.weight).all()
    if far < 1e150:
        assert np.isfinite(statistics.scatter).all()


def test_responsibilities_below_the_threshold_are_zero_and_a_component_of_weight_0_has_no_rows() -> None:
    z = np.array([[0.0, kernels.NEGLIGIBLE - 1e-6], [0.0, kernels.NEGLIGIBLE + 1e-6], [-1e6, -1e6 + np.log(3)]])
    total = kernels.responsibilities(z, np.array([0.0, 0.0, 2.0]))
    assert_allclose(z, [[1, 0], [1, np.exp(kernels.NEGLIGIBLE)], [0.25, 0.75]], rtol=1e-5)
    assert total == pytest.approx(2 * (-1e6 + np.log(4)))
    rows, parameters = mixture(np.random.default_rng(0), 70, [Partition.single(4)] * 3)
    statistics = sweep(rows, parameters.moved(np.array([0.5, 0.0, 0.5]), parameters.means))
    assert statistics.weight[1] == 0 and (statistics.excess[1] == 0).all() and (statistics.scatter[16:32] == 0).all()


def test_sums_are_taken_in_double_whatever_the_rows() -> None:
    # Red if float32 sums run over many rows, or many columns: 2²⁴ + 1 is 2²⁴ there.
    n, p = 2**18 + 3, 301
    ones = Parameters(np.ones(1), np.zeros((1, 1)), Blocks(Layout((Partition.single(1),)), np.ones(1)))
    rows = ArrayRows(np.full((n, 1), 4097, np.float32), np.ones(n), np.zeros(1), np.ones(1))
    statistics = sweep(rows, ones)
    assert (statistics.weight[0], statistics.excess[0, 0], statistics.scatter[0]) == (n, 4097 * n, 4097**2 * n)
    X = np.concatenate([[4096.0], np.ones(p - 1)]).astype(np.float32)[None]
    wide = Parameters(np.ones(1), np.zeros((1, p)), Blocks(Layout((Partition.separate(p),)), np.ones(p)))
    (value,) = chunk_log_joint(Chunk(X, np.ones(1), slice(0, 1), np.zeros(p), np.ones(p)), wide)[0]
    assert value == pytest.approx(-0.5 * (2**24 + 300 + p * np.log(2 * np.pi)), rel=1e-13)


@pytest.mark.parametrize("left", [0.0, 1e-300, 1e-12])
def test_unit_parameters_have_the_means_of_the_values_and_the_overall_one_for_an_empty_component(left: float) -> None:
    rows, parameters = mixture(np.random.default_rng(0), 60, [Partition([0, 1, 0, 2])] * 3)
    rows = replace(rows, X=np.where(np.arange(240).reshape(60, 4) == 21, np.nan, rows.X))
    z = np.tile([0.7 - left, 0.3, left], (60, 1))
    unit = unit_parameters(rows, z, parameters.blocks.layout)
    mean = np.ma.average(np.ma.masked_invalid(values(rows)), weights=rows.weights, axis=0)
    assert_allclose(unit.means, [mean, mean, np.zeros(4)], atol=1e-9)
    assert labels_of(unit) == labels_of(parameters)
    assert_allclose(dense(unit), [np.eye(4)] * 3)
    assert_allclose(unit.weights, 1 / 3)
    assert_allclose(full_scatter(rows, unit, z=z).means(unit.means)[2], 0)
