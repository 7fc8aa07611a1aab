"""Moments are NumPy's, a weight is a repetition, scale does not reach the correlation; a GramMatrix is the array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy.stats import rankdata, spearmanr
from strategies import Matrix, covariances, seeds, singular_covariances

from blockmix import BlockDiagonalCovariance, GaussianBiclustering
from blockmix.blocks import moments as module
from blockmix.blocks.gram import GramMatrix
from blockmix.blocks.moments import Moments, as_matrix, correlation, mid_ranks
from blockmix.blocks.shapes import FULL, BlockModel, FactorBlock, TreeBlock
from blockmix.grouping import HierarchicalGrouping
from blockmix.grouping.kernels import spans


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
    assert plain.weight == n_rows and weighted.weight == pytest.approx(weights.sum())
    assert_allclose(plain.mean, X.mean(axis=0))
    assert_allclose(plain.scatter / plain.weight, np.cov(X.T, ddof=0), rtol=1e-7, atol=1e-9)
    assert_allclose(plain.variances, X.var(axis=0), rtol=1e-7)
    assert_allclose(weighted.mean, np.average(X, axis=0, weights=weights))
    assert_allclose(weighted.scatter / weighted.weight, np.cov(X.T, ddof=0, aweights=weights), rtol=1e-6, atol=1e-8)


@given(seeds, st.lists(st.integers(0, 3), min_size=2, max_size=8))
def test_a_weight_is_a_repetition(seed: int, counts: list[int]) -> None:
    counts[0] += 1
    X = rows(seed, len(counts))
    assert_same(Moments.of(X, np.array(counts, dtype=float)), Moments.of(np.repeat(X, counts, axis=0)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_rows", [3, 100, 20_000])
def test_a_constant_column_has_scatter_zero_exactly(dtype: type[np.floating], n_rows: int) -> None:
    # Red if rows are centered by their mean alone: the mean of 100 times 0.1 is not 0.1.
    X = np.full((n_rows, 2), [0.1, 1e6 / 3], dtype=dtype)
    weights = np.linspace(0.1, 2, n_rows, dtype=dtype)
    for moments in (Moments.of(X), Moments.of(X, weights)):
        assert (moments.scatter == 0).all()
        assert np.array_equal(moments.mean, X[0])


@pytest.mark.parametrize("weights", [None, np.float32, np.float64])
def test_float32_stays_float32_and_its_means_of_many_rows_are_right(weights: type[np.floating] | None) -> None:
    # Red if the mean is added up in float32: it is off by 1e-4 or more.
    X = np.random.default_rng(0).uniform(0, 1, (300_000, 2)).astype(np.float32)
    X[0] = 0
    w = None if weights is None else np.full(len(X), 0.5, dtype=weights)
    moments = Moments.of(X, w)
    assert_allclose(moments.mean, X.mean(axis=0, dtype=float), rtol=3e-7 if w is None else 1e-4)
    deviations, R = moments.standardized(1e-6)
    assert moments.mean.dtype == moments.scatter.dtype == deviations.dtype == R.dtype == np.float32


@given(st.one_of(covariances(), singular_covariances()), st.floats(0, 1))
def test_correlation_is_free_of_scale(S: Matrix, ridge: float) -> None:
    R, units = correlation(S), np.sqrt(np.outer(np.diag(S), np.diag(S)))
    assert_allclose(R * units, S, rtol=1e-10)
    assert (R.diagonal() == 1).all() and (np.abs(R) <= 1).all()
    assert correlation(R) is R  # no copy of what may be gigabytes
    moments = Moments(7.0, np.zeros(len(S)), as_matrix(7 * S))
    for _ in range(2):  # red if the ridge is divided out in place
        deviations, ridged = moments.standardized(ridge)
        assert_allclose(ridged * np.outer(deviations, deviations), S + ridge * np.diag(np.diag(S)), rtol=1e-9)


@pytest.mark.parametrize(("variance", "shown"), [(0.0, "0"), (-1.0, "-1"), (np.nan, "nan")])
def test_a_column_without_variance_is_named(variance: float, shown: str) -> None:
    with pytest.raises(ValueError) as caught:
        correlation(np.diag([2.0, variance, 1.0]))
    assert str(caught.value) == f"column 1 has variance {shown}: remove columns that do not vary"


@given(singular_covariances())
def test_definite_correlation_factors_where_the_correlation_does_not(S: Matrix) -> None:
    for dtype in (np.float64, np.float32):
        R: NDArray[np.float64] = as_matrix(S.astype(dtype)).definite()
        assert R.dtype == np.float64
        # Red without the ridge: the smallest eigenvalue of R is zero or just below.
        assert np.linalg.eigvalsh(R)[0] > 1e-7
        assert_allclose(R, correlation(S), atol=1e-4)


@given(seeds, st.integers(4, 30), st.integers(1, 5))
def test_ranks_are_scipys_and_a_weight_of_two_is_a_row_twice(seed: int, n_rows: int, values: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, values + 1, (n_rows, 3)).astype(float)
    assert_allclose(mid_ranks(X, None) + 0.5, rankdata(X, axis=0))
    X = np.round(rng.standard_normal((n_rows, 4)), 1) + np.arange(n_rows)[:, None] * 1e-9
    counts = rng.integers(1, 4, n_rows)
    R = Moments.of(mid_ranks(X, counts.astype(float)), counts.astype(float)).standardized(0.0)[1]
    assert_allclose(R, spearmanr(np.repeat(X, counts, axis=0)).statistic, atol=1e-12)


# A covariance of many columns, stored as rows.


@given(seeds)
def test_a_gram_matrix_is_read_like_the_array(seed: int) -> None:
    # With a row taken out and a raised diagonal: red if the diagonal is that of the products, or signs are lost.
    rng = np.random.default_rng(seed)
    A, out, added = rng.standard_normal((5, 7)), 0.1 * rng.standard_normal((1, 7)), rng.uniform(0, 1, 7)
    S, dense = (GramMatrix.of(A) - GramMatrix.of(out)).raised(added), A.T @ A - out.T @ out + np.diag(added)
    i, j, v, order = rng.permutation(7)[:3], rng.permutation(7)[:4], rng.standard_normal(7), rng.permutation(7)
    stack = rng.permutation(7)[:6].reshape(2, 3)
    both = stack[:, :, None], stack[:, None, :]
    for index in (slice(None), slice(2, 5), np.ix_(i, j), both):
        assert_allclose(S[index], dense[index], atol=1e-12)
    assert_allclose(S @ v, dense @ v, atol=1e-12)
    assert_allclose(S.row_squares(), (dense**2).sum(axis=1))
    assert_allclose(S.reordered(order)[:], dense[np.ix_(order, order)], atol=1e-12)
    assert_allclose((S / 3 + S)[:], dense * 4 / 3, atol=1e-12)
    places = np.array([[0, 3, 0], [3, 5, 9], [5, 7, 13]])
    assert_allclose(S.gathered(order, places, 17), as_matrix(dense).gathered(order, places, 17), atol=1e-12)
    R, plain = correlation(S.raised(np.ones(7)), 0.1), correlation(dense + np.eye(7), 0.1)
    assert_allclose(R[:], plain, atol=1e-12)
    assert_allclose(R.magnitudes(), np.abs(plain), atol=1e-12)


def few_rows(seed: int, n: int = 12, p: int = 60) -> Matrix:
    rng = np.random.default_rng(seed)
    X: Matrix = rng.standard_normal((n, p)) + np.repeat(rng.standard_normal((n, p // 6)), 6, axis=1)
    return X


@pytest.mark.parametrize("model", [FULL, FactorBlock(1), FactorBlock(2), TreeBlock()], ids=lambda m: m.name)
def test_nodes_of_a_gram_matrix_have_the_deviances_of_the_array(model: BlockModel) -> None:
    R = as_matrix(Moments.of(few_rows(0), as_rows=True).scatter).definite()
    tree = HierarchicalGrouping().tree(R)
    assert_allclose(tree, HierarchicalGrouping().tree(R[:]), rtol=1e-9)
    order, span = spans(tree)
    own = R.reordered(order)
    assert_allclose(model.deviances(own, tree, span, 11.0), model.deviances(own[:], tree, span, 11.0), rtol=1e-7)


@given(seeds)
def test_exact_copies_stay_copies_when_correlations_are_shrunk(seed: int) -> None:
    X, d = few_rows(seed % 100), np.random.default_rng(seed).uniform(0.3, 1, 60)
    X[:, 7], X[:, 20] = X[:, 3], -X[:, 4]
    d[7], d[20] = d[3], d[4]
    R = correlation(Moments.of(X, as_rows=True).scatter)
    assert_allclose(R.shrunk(d)[:], as_matrix(R[:]).shrunk(d), atol=1e-9)
    assert R.shrunk(d)[:][3, 7] == pytest.approx(1) and R.shrunk(d)[:][4, 20] == pytest.approx(-1)


WIDE: list[Any] = [
    BlockDiagonalCovariance(),
    BlockDiagonalCovariance(10),
    GaussianBiclustering(2, random_state=0),
    GaussianBiclustering(2, shared_covariance=True, random_state=0),
    GaussianBiclustering(2, 40, shrinkage=0.1, tails="t", random_state=0),
]


@pytest.mark.filterwarnings("ignore::blockmix.estimators.fitting.FitWarning")
@pytest.mark.parametrize("model", WIDE, ids=str)
def test_a_wide_fit_is_that_of_the_dense_way(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X = few_rows(1, 24, 420)
    X[:10] += 1.0
    dense = model.fit(X).column_labels_, model.score(X)
    monkeypatch.setattr(module, "_MANY", 100)
    assert np.array_equal(model.fit(X).column_labels_, dense[0])
    assert model.score(X) == pytest.approx(dense[1], rel=1e-6)
