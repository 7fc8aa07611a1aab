"""Laws of Moments: parts merge into the whole, a weight is a repetition, scale does not reach the correlation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from strategies import Matrix, covariances, seeds, singular_covariances

from blockmix.blocks.moments import Moments, correlation, definite_correlation


def rows(seed: int, n_rows: int, p: int = 3) -> Matrix:
    """Rows far from the origin, where a careless scatter loses its digits."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n_rows, p)) * 10.0 ** rng.uniform(-2, 2, p) + 1e4 * rng.standard_normal(p)


def assert_same(left: Moments, right: Moments) -> None:
    assert left.weight == pytest.approx(right.weight)
    assert_allclose(left.mean, right.mean, rtol=1e-12)
    scale = np.sqrt(np.outer(right.scatter.diagonal(), right.scatter.diagonal())) + 1e-12
    assert_allclose(left.scatter / scale, right.scatter / scale, atol=1e-7)


@given(seeds, st.integers(2, 30))
def test_moments_are_numpys(seed: int, n_rows: int) -> None:
    X = rows(seed, n_rows)
    weights = np.random.default_rng(seed).uniform(0.1, 3, n_rows)
    plain, weighted = Moments.of(X), Moments.of(X, weights)
    assert plain.weight == n_rows
    assert_allclose(plain.mean, X.mean(axis=0))
    assert_allclose(plain.covariance, np.cov(X.T, ddof=0), rtol=1e-7, atol=1e-9)
    assert_allclose(plain.variances, X.var(axis=0), rtol=1e-7)
    assert weighted.weight == pytest.approx(weights.sum())
    assert_allclose(weighted.mean, np.average(X, axis=0, weights=weights))
    assert_allclose(weighted.covariance, np.cov(X.T, ddof=0, aweights=weights), rtol=1e-6, atol=1e-8)


@given(seeds, st.lists(st.integers(0, 7), min_size=2, max_size=5))
def test_merged_parts_are_the_whole_in_any_bracketing(seed: int, sizes: list[int]) -> None:
    sizes[0] += 1  # at least one row in all; the others may have none
    X = rows(seed, sum(sizes))
    weights = np.random.default_rng(seed).uniform(0.1, 3, len(X))
    cuts = np.cumsum(sizes)[:-1]
    parts = [Moments.of(part, w) for part, w in zip(np.split(X, cuts), np.split(weights, cuts), strict=True)]
    left, right = parts[0], parts[-1]
    for part in parts[1:]:
        left = left.merge(part)
    for part in parts[-2::-1]:
        right = part.merge(right)
    whole = Moments.of(X, weights)
    assert_same(left, whole)
    assert_same(right, whole)


@given(seeds, st.lists(st.integers(0, 3), min_size=2, max_size=8))
def test_a_weight_is_a_repetition(seed: int, counts: list[int]) -> None:
    counts[0] += 1
    X = rows(seed, len(counts))
    assert_same(Moments.of(X, np.array(counts, dtype=float)), Moments.of(np.repeat(X, counts, axis=0)))


def test_rows_of_no_weight_merge_without_effect() -> None:
    # Red without the branch for weight 0: the mean is 0/0.
    X = rows(0, 6)
    whole, nothing, empty = Moments.of(X), Moments.of(X, np.zeros(6)), Moments.of(X[:0])
    for none in (nothing, empty):
        assert none.weight == 0
        assert_same(whole.merge(none), whole)
        assert_same(none.merge(whole), whole)
    assert nothing.merge(empty).weight == 0
    assert np.isfinite(nothing.merge(empty).mean).all()


@given(seeds)
def test_about_origin_is_the_second_moment(seed: int) -> None:
    X = rows(seed, 9)
    weights = np.random.default_rng(seed).uniform(0.1, 3, 9)
    found = Moments.of(X, weights).about_origin()
    assert (found.mean == 0).all()
    assert_allclose(found.scatter, X.T @ (weights[:, None] * X), rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_rows", [3, 100, 20_000])
def test_a_constant_column_has_scatter_zero_exactly(dtype: type[np.floating], n_rows: int) -> None:
    # Red if rows are centered by their mean alone: the mean of 100 times 0.1 is not 0.1.
    X = np.full((n_rows, 2), [0.1, 1e6 / 3], dtype=dtype)
    for moments in (
        Moments.of(X),
        Moments.of(X, np.linspace(0.1, 2, n_rows, dtype=dtype)),
        Moments.of(X[:2]).merge(Moments.of(X[2:])),
    ):
        assert (moments.scatter == 0).all()
        assert np.array_equal(moments.mean, X[0])


@pytest.mark.parametrize("weights", [None, np.float32, np.float64])
def test_float32_stays_float32(weights: type[np.floating] | None) -> None:
    X = rows(1, 50).astype(np.float32)
    w = None if weights is None else np.full(50, 0.5, dtype=weights)
    moments = Moments.of(X, w).merge(Moments.of(X, w)).about_origin()
    assert moments.mean.dtype == moments.scatter.dtype == moments.covariance.dtype == np.float32
    deviations, R = moments.standardized(1e-6)
    assert moments.variances.dtype == deviations.dtype == R.dtype == np.float32


def test_float32_means_of_many_rows_are_right() -> None:
    # Red if the mean is added up in float32: it is off by 1e-4 or more.
    X = np.random.default_rng(0).uniform(0, 1, (300_000, 2)).astype(np.float32)
    X[0] = 0
    assert_allclose(Moments.of(X).mean, X.mean(axis=0, dtype=float), rtol=3e-7)


@given(st.one_of(covariances(), singular_covariances()))
def test_correlation_is_free_of_scale(S: Matrix) -> None:
    R = correlation(S)
    deviations = np.sqrt(np.diag(S))
    assert_allclose(R * np.outer(deviations, deviations), S, rtol=1e-10)
    assert (R.diagonal() == 1).all()
    assert (np.abs(R) <= 1).all()
    assert correlation(R) is R  # no copy of what may be gigabytes


@given(covariances(), st.floats(0, 1))
def test_standardized_is_the_ridged_covariance(S: Matrix, ridge: float) -> None:
    moments = Moments(7.0, np.zeros(len(S)), 7 * S)
    deviations, R = moments.standardized(ridge)
    assert_allclose(R * np.outer(deviations, deviations), S + ridge * np.diag(np.diag(S)), rtol=1e-9)
    assert (R.diagonal() == 1).all()


def test_standardizing_leaves_the_moments_alone() -> None:
    # Red if the ridge is divided out in place: a scatter with unit diagonal is its own correlation matrix.
    moments = Moments(4.0, np.zeros(2), np.array([[1.0, 0.5], [0.5, 1.0]]))
    first, second = moments.standardized(0.25)[1], moments.standardized(0.25)[1]
    assert moments.scatter[0, 1] == 0.5
    assert first[0, 1] == second[0, 1] == 0.4


@pytest.mark.parametrize(("variance", "shown"), [(0.0, "0"), (-1.0, "-1"), (np.nan, "nan")])
def test_a_column_without_variance_is_named(variance: float, shown: str) -> None:
    with pytest.raises(ValueError) as caught:
        correlation(np.diag([2.0, variance, 1.0]))
    assert str(caught.value) == f"column 1 has variance {shown}: remove columns that do not vary"


@given(singular_covariances())
def test_definite_correlation_factors_where_the_correlation_does_not(S: Matrix) -> None:
    R = correlation(S)
    for given_dtype in (np.float64, np.float32):
        found: NDArray[np.float64] = definite_correlation(S.astype(given_dtype))
        assert found.dtype == np.float64
        # Red without the ridge: the smallest eigenvalue of R is zero or just below.
        assert np.linalg.eigvalsh(found)[0] > 1e-7
        assert_allclose(found, R, atol=1e-4)
