"""Compiled kernels against dense NumPy over random mixtures: blocks of 1 to 60 columns, few rows, both precisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import chunk_log_joint, dense, mixture, rounded, rounding, unpacked, values, within_blocks
from mixtures import log_joint as dense_log_joint
from numpy.testing import assert_allclose
from strategies import Matrix, seeds

from blockmix.blocks import kernels as block_kernels
from blockmix.blocks.blocks import Layout, Parameters
from blockmix.blocks.kernels import gather
from blockmix.em import kernels
from blockmix.em.kernels import NEGLIGIBLE, TILE
from blockmix.em.sweep import Density
from blockmix.partition import Partition
from blockmix.rows import ArrayRows, Chunk

many = settings(max_examples=300)
ROWS = [1, 2, 7, 8, 9, TILE - 1, TILE, TILE + 1, 2 * TILE + 9]


class Case(NamedTuple):
    """Weighted rows of either precision, fewer than eight or a tile or more, and a mixture."""

    p: int
    n_groups: int
    G: int
    shared: bool
    n_rows: int
    dtype: type
    rounded: bool
    seed: int

    def made(self) -> tuple[ArrayRows, Parameters]:
        rng = np.random.default_rng(self.seed)
        groups = [Partition(rng.integers(0, self.n_groups, self.p)) for _ in range(self.G)]
        groups = groups[:1] * self.G if self.shared else groups
        rows, parameters = mixture(rng, self.n_rows, groups, self.shared, self.dtype)
        return rounded(rows) if self.rounded else rows, parameters


@st.composite
def cases(draw: st.DrawFn) -> Case:
    p, G = draw(st.sampled_from([1, 2, 3, 5, 8, 17, 33, 48, 49, 60])), draw(st.integers(1, 4))
    n_groups = draw(st.sampled_from(sorted({1, min(2, p), -(-p // 4), p})))
    shared = G > 1 and draw(st.booleans())
    n_rows, dtype = draw(st.sampled_from(ROWS)), draw(st.sampled_from([np.float64, np.float32]))
    return Case(p, n_groups, G, shared, n_rows, dtype, draw(st.booleans()), draw(seeds))


def chunk_of(rows: ArrayRows) -> Chunk:
    (chunk,) = rows.map(lambda chunk: chunk)
    return chunk


def rounding_of_centered(rows: ArrayRows, parameters: Parameters) -> Matrix:
    """Bound on the rounding of x − μ, shape (N, G, p): that of x, of μ and of the difference."""
    eps = float(np.finfo(rows.dtype).eps)
    return eps * (np.abs(values(rows))[:, None, :] + 2 * np.abs(parameters.means))


def rounding_of_log_joint(rows: ArrayRows, parameters: Parameters) -> Matrix:
    """Bound on the rounding of log π_g f_g, shape (N, G), from that of W(x − μ) term by term."""
    eps, p = float(np.finfo(rows.dtype).eps), rows.n_columns
    centered = values(rows)[:, None, :] - parameters.means
    whiteners = np.stack([np.linalg.inv(block.factor()) for block in parameters.covariances])
    white = np.einsum("gij,ngj->ngi", whiteners, centered)
    off = rounding_of_centered(rows, parameters) + (p + 2) * eps * np.abs(centered)
    wrong = np.einsum("gij,ngj->ngi", np.abs(whiteners), off)
    exact = 1e-11 * (1 + np.abs(dense_log_joint(rows, parameters)))  # of the oracle itself
    bound: Matrix = 0.5 * (2 * np.abs(white) * wrong + wrong**2).sum(axis=2) + p * eps + exact
    return bound


@many
@given(cases())
def test_log_densities_are_those_of_the_dense_mixture(case: Case) -> None:
    # Red if a block, a column, the constant or the units of the rows are mixed up, or the last tile is not whole.
    rows, parameters = case.made()
    found, expected = chunk_log_joint(chunk_of(rows), parameters), dense_log_joint(rows, parameters)
    assert found.shape == expected.shape
    assert found.dtype == np.float64
    assert (np.abs(found - expected) <= rounding_of_log_joint(rows, parameters)).all()


@many
@given(cases())
def test_responsibilities_and_the_likelihood_follow_from_log_densities(case: Case) -> None:
    rows, parameters = case.made()
    joint = dense_log_joint(rows, parameters)
    z, density = oracles.responsibilities(joint)
    found = joint.copy()
    total = kernels.responsibilities(found, rows.weights)
    assert total == pytest.approx(rows.weights @ density, rel=1e-12, abs=1e-12)
    assert_allclose(found, z, rtol=1e-12, atol=2 * np.exp(NEGLIGIBLE))
    assert_allclose(found.sum(axis=1), 1, rtol=1e-14)


@many
@given(cases())
def test_moments_are_the_literal_sums_within_blocks(case: Case) -> None:
    # Red if a row of weight 0 counts, if a row is left out at the edge of a tile, or if components overwrite each
    # other where they share a covariance.
    rows, parameters = case.made()
    layout, means = parameters.layout, parameters.means
    z = dense_log_joint(rows, parameters)
    kernels.responsibilities(z, rows.weights)
    weight, excess, blur, scatter = _moments(chunk_of(rows), z, parameters)
    n, first, second = oracles.moments(values(rows), rows.weights, z, means)
    assert_allclose(weight, n, rtol=1e-13, atol=0)
    share = rows.weights[:, None] * z
    assert_allclose(blur, share.T @ rounding(rows), rtol=1e-12, atol=1e-300)
    centered = np.abs(values(rows)[:, None, :] - means)
    off = rounding_of_centered(rows, parameters) + (TILE + 6) * float(np.finfo(rows.dtype).eps) * centered
    assert (np.abs(excess - first) <= np.einsum("ng,ngi->gi", share, off) + 1e-300).all()
    wrong = np.einsum("ng,ngi,ngj->gij", share, centered + off, off)
    wrong = layout.pooled(wrong + wrong.swapaxes(1, 2)) + 1e-300
    assert (np.abs(unpacked(scatter, layout) - within_blocks(layout.pooled(second), layout)) <= wrong).all()


def _moments(chunk: Chunk, z: Matrix, parameters: Parameters) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    shape, size = parameters.means.shape, parameters.layout.size
    sums = np.zeros(shape[0]), np.zeros(shape), np.zeros(shape), np.zeros(size)
    density = Density.of(parameters)
    kernels.moments(chunk.X, chunk.weights, z, np.empty((0, z.shape[1])), chunk.units, chunk.rounding, density, sums)
    return sums


@given(cases())
def test_a_moved_scatter_is_the_scatter_about_the_new_means(case: Case) -> None:
    rows, parameters = case.made()
    layout = parameters.layout
    z = oracles.responsibilities(dense_log_joint(rows, parameters))[0]
    n, first, second = oracles.moments(values(rows), rows.weights, z, parameters.means)
    alive = n > 1e-6 * n.sum()
    shift = np.where(alive[:, None], first / np.where(alive, n, 1)[:, None], 0)
    flat = _gathered(layout.pooled(second), layout)
    block_kernels.recenter(flat, n, shift, layout.order, layout.blocks, layout.first)
    about_the_mean = oracles.moments(values(rows), rows.weights, z, parameters.means + shift)[2]
    expected = within_blocks(layout.pooled(about_the_mean), layout)
    assert_allclose(unpacked(flat, layout), expected, atol=1e-10 * np.abs(second).max())


def _gathered(matrices: Matrix, layout: Layout) -> Matrix:
    """Blocks of one matrix per covariance, flat."""
    flat = []
    for matrix, partition in zip(matrices, layout.distinct, strict=True):
        own = Layout((partition,))
        flat.append(np.zeros(own.size))
        gather(matrix, partition.order, own.blocks, flat[-1])
    return np.concatenate(flat)


@given(cases())
def test_factors_and_their_inverses_are_those_of_the_blocks(case: Case) -> None:
    _, parameters = case.made()
    layout, sigma = parameters.layout, dense(parameters)[: len(parameters.layout.distinct)]
    flat = _gathered(sigma, layout)
    assert_allclose(unpacked(flat, layout), sigma)
    factors, whiteners = np.zeros_like(flat), np.zeros_like(flat)
    distinct = layout.blocks[: layout.first[len(layout.distinct)]]
    assert block_kernels.factorize(distinct, flat, factors, 60) == -1
    block_kernels.invert(distinct, factors, whiteners, 60)
    for lo, hi, at in distinct:
        c = hi - lo
        block, L, W = (found[at : at + c * c].reshape(c, c) for found in (flat, factors, whiteners))
        whole = np.tril(block) + np.tril(block, -1).T
        assert_allclose(L, np.linalg.cholesky(whole), atol=1e-12)
        assert_allclose(W, np.linalg.inv(L), rtol=1e-9, atol=1e-10)


@given(cases(), seeds)
def test_normalized_scatters_are_symmetric_covariances(case: Case, seed: int) -> None:
    # Red if a triangle is not divided, or the diagonal takes what belongs to another column or component.
    _, parameters = case.made()
    layout, rng = parameters.layout, np.random.default_rng(seed)
    scatter = dense(parameters)[: len(layout.distinct)]
    added, n = rng.uniform(0, 2, scatter.shape[:2]), rng.uniform(1, 9, len(scatter))
    expected = (scatter + added[:, :, None] * np.eye(scatter.shape[1])) / n[:, None, None]
    flat = np.where(_gathered(np.tril(np.ones_like(scatter)), layout) > 0, _gathered(scatter, layout), np.nan)
    least = block_kernels.normalize(flat, added, n, layout.order, layout.blocks, layout.first)
    assert_allclose(flat, _gathered(expected, layout))
    assert_allclose(least, np.diagonal(expected, axis1=1, axis2=2).min(axis=1))


def test_blocks_larger_than_asked_for_are_left_out() -> None:
    layout = Layout((Partition([0, 0, 0, 1, 1]),))
    flat = _gathered(np.eye(5)[None] * 4, layout)
    factors, whiteners = np.zeros_like(flat), np.zeros_like(flat)
    assert block_kernels.factorize(layout.blocks, flat, factors, 2) == -1
    block_kernels.invert(layout.blocks, factors, whiteners, 2)
    assert factors.tolist() == [0] * 9 + [2, 0, 0, 2]
    assert whiteners.tolist() == [0] * 9 + [0.5, 0, 0, 0.5]


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan])
def test_the_first_block_that_is_not_positive_definite_is_named(wrong: float) -> None:
    layout = Layout((Partition([0, 0, 0, 1, 1, 2]),))
    S = np.eye(6)
    S[4, 4] = S[5, 5] = wrong
    flat = _gathered(S[None], layout)
    assert block_kernels.factorize(layout.blocks, flat, np.zeros_like(flat), 48) == 1


def test_rows_far_from_every_component_have_finite_responsibilities() -> None:
    # Red if densities leave log space: exp(−10⁶) is 0.
    z = np.array([[-1e6, -1e6 + np.log(3)], [-np.inf, -1e5], [-1e300, -1.5e300]])
    total = kernels.responsibilities(z, np.array([1.0, 2.0, 0.0]))
    assert_allclose(z, [[0.25, 0.75], [0, 1], [1, 0]])
    assert total == pytest.approx(-1e6 + np.log(4) - 2e5)


@pytest.mark.parametrize(("dtype", "far"), [(np.float64, 1e100), (np.float32, 1e15)])
@pytest.mark.parametrize("n_rows", [3, TILE + 3])
def test_a_far_row_leaves_no_nan(dtype: Any, far: float, n_rows: int) -> None:
    rng = np.random.default_rng(0)
    rows, parameters = mixture(rng, n_rows, [Partition([0, 0, 1]), Partition.separate(3)], dtype=dtype)
    rows.X[-1] = far
    chunk = chunk_of(rows)
    z = chunk_log_joint(chunk, parameters)
    assert np.isfinite(z).all()
    assert np.isfinite(kernels.responsibilities(z, rows.weights))
    assert_allclose(z.sum(axis=1), 1)
    assert all(np.isfinite(found).all() for found in _moments(chunk, z, parameters))


def test_a_component_of_weight_0_has_no_rows() -> None:
    rows, parameters = mixture(np.random.default_rng(0), 70, [Partition.single(4)] * 3)
    parameters = parameters.moved(np.array([0.5, 0.0, 0.5]), parameters.means)
    chunk = chunk_of(rows)
    z = chunk_log_joint(chunk, parameters)
    assert (z[:, 1] == -np.inf).all()
    assert np.isfinite(kernels.responsibilities(z, rows.weights))
    assert (z[:, 1] == 0).all()
    weight, excess, _, scatter = _moments(chunk, z, parameters)
    assert weight[1] == 0
    assert (excess[1] == 0).all()
    assert (unpacked(scatter, parameters.layout)[1] == 0).all()


def test_a_responsibility_below_the_threshold_is_zero() -> None:
    z = np.array([[0.0, NEGLIGIBLE - 1e-6], [0.0, NEGLIGIBLE + 1e-6]])
    kernels.responsibilities(z, np.ones(2))
    assert z[0].tolist() == [1, 0]
    assert_allclose(z[1, 1], np.exp(NEGLIGIBLE), rtol=1e-5)


def test_sums_are_taken_in_double_whatever_the_rows() -> None:
    # Red if float32 sums run over more than a tile: Σz(x − μ)² of a million equal rows would stand still.
    n = 2**20 + 3
    rows = ArrayRows(np.full((n, 1), 1.5, np.float32), np.ones(n), np.zeros(1), np.ones(1))
    layout = Layout((Partition.single(1),))
    parameters = Parameters(np.ones(1), np.zeros((1, 1)), layout, np.ones(1))
    chunk = Chunk(rows.X, rows.weights, slice(0, n), rows.location, rows.scale)
    weight, excess, _, scatter = _moments(chunk, np.ones((n, 1)), parameters)
    assert (weight[0], excess[0, 0], scatter[0]) == (n, 1.5 * n, 2.25 * n)


def test_distances_are_summed_over_columns_in_double_whatever_the_rows() -> None:
    # Red if squares are added in float32: 2²⁴ + 1 is 2²⁴ there.
    p = 301
    X = np.concatenate([[4096.0], np.ones(p - 1)]).astype(np.float32)[None]
    parameters = Parameters(np.ones(1), np.zeros((1, p)), Layout((Partition.separate(p),)), np.ones(p))
    (found,) = chunk_log_joint(Chunk(X, np.ones(1), slice(0, 1), np.zeros(p), np.ones(p)), parameters)[0]
    assert found == pytest.approx(-0.5 * (2**24 + 300 + p * np.log(2 * np.pi)), rel=1e-13)


def arrangements(X: Matrix) -> dict[str, Matrix]:
    """The same matrix in other places of the memory."""
    fixed = X.copy()
    fixed.flags.writeable = False
    return {
        "by columns": np.asfortranarray(X),
        "read-only": fixed,
        "every second row": np.repeat(X, 2, axis=0)[::2],
        "every second column": np.repeat(X, 2, axis=1)[:, ::2],
        "backwards": X[::-1].copy()[::-1],
    }


@pytest.mark.parametrize("kind", arrangements(np.zeros((1, 1))))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_are_read_however_they_lie_in_memory(kind: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    rows, parameters = mixture(rng, TILE + 9, [Partition([0, 0, 1, 1, 2]), Partition.single(5)], dtype=dtype)
    z = rng.dirichlet([1, 1], TILE + 9)
    plain, other = chunk_of(rows), replace(chunk_of(rows), X=arrangements(rows.X)[kind])
    assert_allclose(chunk_log_joint(other, parameters), chunk_log_joint(plain, parameters), rtol=1e-12)
    for found, expected in zip(_moments(other, z, parameters), _moments(plain, z, parameters), strict=True):
        assert_allclose(found, expected, rtol=1e-12)
