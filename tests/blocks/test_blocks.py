"""Blocks are the dense block-diagonal Gaussian, by a shorter way; a layout holds every block once."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixtures import stacked, unpacked
from numpy.testing import assert_allclose, assert_array_equal
from strategies import Matrix, covariance, covariances, partitions, rescaled, seeds

from blockmix.blocks.blocks import SMALL, Blocks, Layout, block_of, cholesky, factorized
from blockmix.blocks.shapes import FULL, FactorBlock, TreeBlock
from blockmix.partition import Partition


@st.composite
def cases(draw: st.DrawFn) -> tuple[Matrix, Partition]:
    S = draw(covariances(min_p=1))
    return S, draw(partitions(len(S)))


def relative(matrix: Matrix, S: Matrix) -> Matrix:
    """Entries on the scale of the correlation: S has columns of very different size."""
    deviations = np.sqrt(np.diag(S))
    scaled: Matrix = matrix / np.outer(deviations, deviations)
    return scaled


@given(cases(), seeds)
def test_matrices_are_the_sum_of_the_papers_terms(case: tuple[Matrix, Partition], seed: int) -> None:
    S, partition = case
    sigma, deviations = oracles.block_diagonal(S, partition.labels), np.sqrt(np.diag(S))
    blocks = Blocks.of(S, partition)
    assert_allclose(relative(blocks.dense(), S), relative(sigma, S), atol=1e-12)
    assert (blocks.dense()[sigma == 0] == 0).all()
    assert [block.shape for block in blocks.blocks] == [(c, c) for c in partition.sizes]
    assert_allclose(blocks.variances, np.diag(S), rtol=1e-9)
    assert blocks.layout.n_parameters == oracles.n_parameters(partition.labels)
    assert blocks.layout.partition_price == pytest.approx(oracles.partition_price(partition.labels))
    inverse = relative(blocks.dense(), S) @ (blocks.precision() * np.outer(deviations, deviations))
    assert_allclose(inverse, np.eye(len(S)), atol=1e-8)
    s = rescaled(np.random.default_rng(seed), len(S))
    moved = blocks.scaled(s).dense() / np.outer(s, s)
    assert_allclose(relative(moved, S), relative(sigma, S), atol=1e-12)
    assert_allclose(pickle.loads(pickle.dumps(blocks)).precision(), blocks.precision())


@given(cases(), seeds, st.integers(1, 3))
def test_common_factors_add_to_the_blocks(case: tuple[Matrix, Partition], seed: int, q: int) -> None:
    S, partition = case
    rng, p = np.random.default_rng(seed), len(S)
    deviations = np.sqrt(np.diag(S))
    loadings = rng.standard_normal((p, q)) * deviations[:, None]
    plain = Blocks.of(0.7 * S + 0.3 * np.diag(np.diag(S)), partition)
    blocks = replace(plain, loadings=loadings[None])
    sigma = relative(plain.dense() + loadings @ loadings.T, S)
    assert_allclose(relative(blocks.dense(), S), sigma, atol=1e-10)
    assert_allclose(blocks.variances / deviations**2, np.diag(sigma), rtol=1e-9)
    assert blocks.logdet == pytest.approx(
        np.linalg.slogdet(sigma)[1] + 2 * np.log(deviations).sum(), rel=1e-7, abs=1e-7
    )
    assert_allclose(blocks.precision() * np.outer(deviations, deviations), np.linalg.inv(sigma), rtol=1e-5, atol=1e-5)
    # β = ΛᵀΣ⁻¹ and M⁻¹ = I − βΛ.
    slopes = (loadings / deviations[:, None]).T @ np.linalg.inv(sigma)
    assert_allclose(blocks.scoring.slopes[0] * deviations, slopes, rtol=1e-5, atol=1e-5)
    assert_allclose(blocks.scoring.rest[0], np.eye(q) - slopes @ (loadings / deviations[:, None]), atol=1e-5)
    canonical = blocks.canonical()
    assert_allclose(relative(canonical.dense(), S), sigma, atol=1e-9)
    inner = canonical.common.T @ plain.precision() @ canonical.common
    assert_allclose(inner, np.diag(np.diag(inner)), atol=1e-6 * inner.max())
    assert blocks.n_loadings == p * q - q * (q - 1) // 2 and blocks.remaining.n_loadings == 0
    s = rescaled(rng, p)
    assert_allclose(relative(blocks.scaled(s).dense() / np.outer(s, s), S), sigma, atol=1e-9)


@pytest.mark.parametrize("labels", [[0, 0, 0, 0, 0], [0, 1, 2, 3, 4], [0, 1, 0, 2, 1]])
@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_samples_have_the_covariance(labels: list[int], make: type) -> None:
    S = covariance(np.random.default_rng(3).standard_normal((8, 5)))
    sigma = oracles.block_diagonal(S, labels)
    X = Blocks.of(S, Partition(labels)).sample(40_000, make(0))
    variances = np.diag(sigma)
    # Five standard errors of a covariance; red if a factor is transposed or a block is out of order.
    error = np.sqrt((np.outer(variances, variances) + sigma**2) / len(X))
    assert (np.abs(covariance(X) - sigma) < 5 * error).all()
    assert (np.abs(X.mean(axis=0)) < 5 * np.sqrt(variances / len(X))).all()


@given(st.lists(partitions(5), min_size=1, max_size=4), st.booleans(), seeds)
def test_a_layout_holds_every_block_of_every_component_once(groups: list[Partition], shared: bool, seed: int) -> None:
    G = len(groups)
    distinct, n_sharing = (groups[:1], G) if shared else (groups, 1)
    rng = np.random.default_rng(seed)
    S = [covariance(rng.standard_normal((20, 5))) for _ in distinct]
    blocks = stacked(S, distinct, n_sharing)
    layout = blocks.layout
    assert layout.first[-1] == len(layout.blocks) and len(layout.partitions) == G
    for g, partition in enumerate(layout.partitions):
        places = layout.blocks[layout.first[g] : layout.first[g + 1]]
        assert [layout.order[g, lo:hi].tolist() for lo, hi, _ in places] == [k.tolist() for k in partition.groups]
        assert blocks[g].partition == partition
        assert_allclose(blocks[g].dense(), oracles.block_diagonal(S[g // n_sharing], partition.labels), atol=1e-12)
    assert_array_equal(blocks[-1].factors, blocks[G - 1].factors)
    taken = np.zeros(layout.size, dtype=int)
    for lo, hi, start in layout.distinct_blocks:
        taken[start : start + (hi - lo) ** 2] += 1
    assert (taken == 1).all()
    flat = np.zeros(layout.size)
    flat[layout.diagonal] = 1
    assert_array_equal(unpacked(flat, layout), [np.eye(5)] * len(distinct))
    assert_array_equal(layout.owner, np.repeat(np.arange(len(distinct)), [(k.sizes**2).sum() for k in distinct]))
    assert layout.n_parameters == sum(oracles.n_parameters(partition.labels) for partition in distinct)
    assert layout.pooled(np.ones((G, 2))).tolist() == [[n_sharing] * 2] * len(distinct)


def test_shapes_of_a_layout_have_their_prices_and_rows() -> None:
    partition = Partition([0, 0, 0, 0, 1, 1])
    full, shaped = Layout((partition,)), Layout((partition,), ((TreeBlock(), FULL),))
    assert (full.n_parameters, shaped.n_parameters) == (10 + 3, 7 + 3)
    assert shaped.partition_price == pytest.approx(full.partition_price + TreeBlock().choice_price(4, 6))
    assert (full.rows_needed.tolist(), shaped.rows_needed.tolist()) == ([4, 2], [2, 2])
    assert full.is_same(Layout((partition,), ((FULL, FULL),))) and not full.is_same(shaped)
    # One group of a few factors is a choice; one full group is not.
    one = Partition.single(6)
    assert Layout((one,)).partition_price == 0 < Layout((one,), ((FactorBlock(1),),)).partition_price


@pytest.mark.parametrize("p", [1, SMALL - 1, SMALL, SMALL + 1, 80])
def test_large_blocks_are_factored_by_lapack_and_small_ones_by_kernels_alike(p: int) -> None:
    # One large block, small ones before and after it, in columns that are mixed.
    rng = np.random.default_rng(p)
    labels = rng.permutation(np.repeat([0, 1, 2], [3, p, 2]))
    groups = [Partition(labels), Partition(labels[::-1])]
    blocks = stacked([covariance(rng.standard_normal((3 * p + 20, p + 5))) for _ in groups], groups)
    for g in range(2):
        assert_allclose(blocks[g].precision(), np.linalg.inv(blocks[g].dense()), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_precisions_of_columns_of_any_scale(seed: int) -> None:
    # Red if a triangular factor is inverted with pivots: some rows are 10²⁴ times as large as others.
    rng = np.random.default_rng(seed)
    S, scale = covariance(np.cumsum(rng.standard_normal((100, 8)), axis=1)), 10.0 ** rng.uniform(-12, 12, 8)
    plain = Blocks.of(S, Partition.single(8))
    moved = plain.scaled(scale).precision() * np.outer(scale, scale)
    assert_allclose(moved, plain.precision(), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("c", [2, 3, SMALL, 60])
def test_a_block_that_rounding_made_singular_is_raised_on_its_diagonal(c: int) -> None:
    # Copies of one column among blocks that are not singular. Red if a failed block stops those after it.
    layout = Layout((Partition(np.repeat([0, 1, 2, 3, 4], [1, c, 2, c, 1])),))
    matrices = [
        np.full((c, c), 2.0),
        np.array([[4.0, 1.0], [1.0, 4.0]]),
        np.full((c, c), 3.0),
        np.eye(1),
        9 * np.eye(1),
    ]
    matrices.sort(key=len, reverse=True)  # as groups are numbered
    factors = factorized(layout, np.concatenate([matrix.ravel() for matrix in matrices]))
    for place, matrix in zip(layout.blocks.tolist(), matrices, strict=True):
        L = block_of(factors, *place)
        assert_allclose(L @ L.T, matrix, rtol=1e-5)
        assert_array_equal(L, np.tril(L))
        assert (np.diag(L) > 0).all()
    assert_array_equal(cholesky(np.eye(6) + 1), np.linalg.cholesky(np.eye(6) + 1))


@pytest.mark.parametrize("bad", [np.nan, 0.0, -1.0])
def test_a_block_that_has_no_covariance_is_refused(bad: float) -> None:
    S = np.diag([1.0, bad, 1.0])
    with pytest.raises(ValueError) as caught:
        Blocks.of(S, Partition([0, 0, 1]))
    wanted = "a block of 2 columns has no positive definite covariance: check for NaN or zero variance"
    assert str(caught.value) == wanted
