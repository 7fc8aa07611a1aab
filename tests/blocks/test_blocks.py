"""Laws of Blocks: it is the dense block-diagonal Gaussian, by a shorter way."""

from __future__ import annotations

import pickle

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from strategies import Matrix, covariance, covariances, partitions, rescaled, seeds

from blockmix.blocks.blocks import Blocks, cholesky, logdets
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


@given(cases())
def test_dense_is_the_sum_of_the_papers_terms(case: tuple[Matrix, Partition]) -> None:
    S, partition = case
    sigma = oracles.block_diagonal(S, partition.labels)
    found = Blocks.of(S, partition)
    assert_allclose(relative(found.dense(), S), relative(sigma, S), atol=1e-12)
    assert (found.dense()[sigma == 0] == 0).all()
    for group, block in zip(partition.groups, found.blocks, strict=True):
        assert_allclose(relative(block, S[np.ix_(group, group)]), relative(*[S[np.ix_(group, group)]] * 2), atol=1e-12)
    assert found.n_parameters == oracles.n_parameters(partition.labels)


@given(cases())
def test_precision_is_the_inverse(case: tuple[Matrix, Partition]) -> None:
    S, partition = case
    found = Blocks.of(S, partition)
    deviations = np.sqrt(np.diag(S))
    scaled = relative(found.dense(), S) @ (found.precision() * np.outer(deviations, deviations))
    assert_allclose(scaled, np.eye(len(S)), atol=1e-8)


@given(cases(), seeds)
def test_density_is_scipys(case: tuple[Matrix, Partition], seed: int) -> None:
    S, partition = case
    rng = np.random.default_rng(seed)
    mean = rng.standard_normal(len(S))
    X = mean + rng.standard_normal((5, len(S))) * np.sqrt(np.diag(S))
    found = Blocks.of(S, partition)
    deviations = np.sqrt(np.diag(S))
    # SciPy sees the standardised columns: it would call the badly scaled S singular. The rest is the Jacobian.
    dense = multivariate_normal(mean / deviations, oracles.block_diagonal(relative(S, S), partition.labels))
    expected = np.atleast_1d(dense.logpdf(X / deviations)) - np.log(deviations).sum()
    assert_allclose(found.log_density(X, mean), expected, rtol=1e-8)
    assert found.logdet == pytest.approx(dense.cov_object.log_pdet + 2 * np.log(deviations).sum(), rel=1e-8, abs=1e-8)
    inverse = np.linalg.inv(oracles.block_diagonal(S, partition.labels))
    assert_allclose(found.squared_distances(X - mean), np.diag((X - mean) @ inverse @ (X - mean).T), rtol=1e-6)


@pytest.mark.parametrize("labels", [[0, 0, 0, 0, 0], [0, 1, 2, 3, 4], [0, 1, 0, 2, 1]])
@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_samples_have_the_covariance(labels: list[int], make: type) -> None:
    S = covariance(np.random.default_rng(3).standard_normal((8, 5)))
    sigma = oracles.block_diagonal(S, labels)
    n_rows = 40_000
    X = Blocks.of(S, Partition(labels)).sample(n_rows, make(0))
    assert X.shape == (n_rows, 5)
    variances = np.diag(sigma)
    # Five standard errors of a covariance; red if a factor is transposed or a stack is out of order.
    error = np.sqrt((np.outer(variances, variances) + sigma**2) / n_rows)
    assert (np.abs(covariance(X) - sigma) < 5 * error).all()
    assert (np.abs(X.mean(axis=0)) < 5 * np.sqrt(variances / n_rows)).all()


@given(cases(), seeds)
def test_scaled_multiplies_rows_and_columns(case: tuple[Matrix, Partition], seed: int) -> None:
    S, partition = case
    s = rescaled(np.random.default_rng(seed), len(S))
    found = Blocks.of(S, partition).scaled(s)
    whole = np.outer(s, s) * S
    expected = oracles.block_diagonal(whole, partition.labels)
    assert_allclose(relative(found.dense(), whole), relative(expected, whole), atol=1e-12)


@given(cases(), seeds)
def test_shrinkage_multiplies_what_is_off_the_diagonal(case: tuple[Matrix, Partition], seed: int) -> None:
    S, partition = case
    amounts = np.random.default_rng(seed).uniform(0, 1, partition.n_groups)
    kept = (1 - amounts)[partition.labels]
    expected = oracles.block_diagonal(S, partition.labels) * kept  # inside a block all columns have one amount
    np.fill_diagonal(expected, np.diag(S))
    each = Blocks.of(S, partition, amounts).dense()
    assert_allclose(relative(each, S), relative(expected, S), atol=1e-12)
    assert_allclose(Blocks.of(S, partition, 1.0).dense(), np.diag(np.diag(S)))


@pytest.mark.parametrize("seed", range(6))
def test_precisions_of_columns_of_any_scale(seed: int) -> None:
    # Red if a triangular factor is inverted with pivots: some rows are 10²⁴ times as large as others.
    rng = np.random.default_rng(seed)
    X = np.cumsum(rng.standard_normal((100, 8)), axis=1)
    S, scale = covariance(X), 10.0 ** rng.uniform(-12, 12, 8)
    factor = np.linalg.cholesky(S)
    factor[np.tril_indices(8, -1)] += 1e-17 * rng.standard_normal(28)  # what rounding leaves of a zero
    plain = Blocks(Partition.single(8), (factor[None],)).precision()
    found = Blocks(Partition.single(8), ((scale[:, None] * factor)[None],)).precision()
    assert_allclose(found * np.outer(scale, scale), plain, rtol=1e-7, atol=1e-10)


def test_float32_stays_float32() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 5)).astype(np.float32)
    blocks = Blocks.of(np.cov(X.T).astype(np.float32), Partition([0, 0, 1, 1, 2]), 0.1)
    mean = X.mean(axis=0)
    for found in (blocks.dense(), blocks.precision(), blocks.log_density(X, mean), blocks.squared_distances(X - mean)):
        assert found.dtype == np.float32
    wide = Blocks.of(blocks.dense().astype(float), blocks.partition)
    assert_allclose(blocks.log_density(X, mean), wide.log_density(X.astype(float), mean.astype(float)), rtol=1e-4)


def test_density_of_whole_numbers_is_not_rounded() -> None:
    # Red if the density is cast to the type of X.
    found = Blocks.of(np.eye(2), Partition([0, 1])).log_density(np.array([[1, 2]]), np.zeros(2))
    assert_allclose(found, [-np.log(2 * np.pi) - 2.5])


def test_pickled_blocks_are_the_same() -> None:
    blocks = Blocks.of(np.array([[2.0, 1.0], [1.0, 3.0]]), Partition.single(2))
    blocks.precision()  # so that the cached factors travel too
    assert_allclose(pickle.loads(pickle.dumps(blocks)).precision(), blocks.precision())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_factors_of_a_singular_matrix_are_raised_a_little(dtype: type[np.floating]) -> None:
    # Red if the factorization is not tried again; the regular matrix beside the singular one stays as it is.
    matrices = np.stack([np.full((6, 6), 2), np.eye(6) + 1]).astype(dtype)
    L = cholesky(matrices)
    assert L.dtype == dtype
    assert_allclose(L @ L.swapaxes(1, 2), matrices, rtol=100 * np.finfo(dtype).eps)
    assert np.array_equal(L[1], np.linalg.cholesky(matrices[1]))


@pytest.mark.parametrize("bad", [np.nan, 0.0, -1.0])
def test_a_block_that_is_no_covariance_is_refused(bad: float) -> None:
    S = np.eye(3)
    S[1, 1] = bad
    with pytest.raises(ValueError) as caught:
        Blocks.of(S, Partition([0, 0, 1]))
    expected = "a block of 2 columns has no positive definite covariance: check for NaN or zero variance"
    assert str(caught.value) == expected


@given(covariances(), st.data(), st.sampled_from([32, 1]))
def test_log_determinants_of_stacked_matrices_are_those_of_their_blocks(
    S: Matrix, data: st.DataObject, small: int
) -> None:
    # Of one masked matrix and block by block.
    chosen = [data.draw(partitions(len(S))) for _ in range(3)]
    stacked = np.stack([S, 2 * S, S + np.diag(S.diagonal())])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("blockmix.structure.blocks._SMALL", small)
        found = logdets(stacked, chosen)
    every = zip(stacked, chosen, strict=True)
    literal = [np.linalg.slogdet(own * (part.labels[:, None] == part.labels))[1] for own, part in every]
    assert_allclose(found, literal, rtol=1e-8, atol=1e-8)
