"""Fits to rows with missing values: closed form, derivative, laws, coarser blocks, impute and the covariance."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from fits import Fit
from missing import with_missing
from numpy.testing import assert_allclose
from optional import package
from scipy.stats import multivariate_normal
from sources import NAMES, table
from strategies import Matrix

from blockmix import BlockDiagonalCovariance, GaussianBiclustering
from blockmix.em import kernels
from blockmix.em.block import BlockFamily

EXACT: dict[str, Any] = {"rounding": False, "ridge": 0, "tol": 1e-12, "max_iter": 5000, "random_state": 0}


def likelihood(X: Matrix, weights: Matrix, means: Matrix, covariances: Matrix) -> float:
    """Log-likelihood of the values of the rows, from dense covariances."""
    total = 0.0
    for x in X:
        o = ~np.isnan(x)
        parts = zip(weights, means, covariances, strict=True)
        density = [w * multivariate_normal(m[o], S[np.ix_(o, o)]).pdf(x[o]) for w, m, S in parts]
        total += float(np.log(np.sum(density))) if o.any() else 0.0
    return total


def test_a_monotone_pattern_has_andersons_closed_form() -> None:
    # The last columns are missing in the last rows: regress each part on those before, on the rows that have it.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4)) @ rng.standard_normal((4, 4)) + 5
    X[120:, 2:] = np.nan
    seen, both = X[:, :2], X[:120]
    m1, S11 = seen.mean(axis=0), np.cov(seen.T, bias=True)
    A = np.column_stack([np.ones(120), both[:, :2]])
    B, *_ = np.linalg.lstsq(A, both[:, 2:], rcond=None)
    rest = both[:, 2:] - A @ B
    b0, b = B[0], B[1:].T
    S21, S22 = b @ S11, rest.T @ rest / 120 + b @ S11 @ b.T
    model = Fit(1, 1, **EXACT).fit(X)
    assert_allclose(model.means_[0], np.r_[m1, b0 + b @ m1], rtol=1e-5)
    assert_allclose(model.covariances_[0], np.block([[S11, S21.T], [S21, S22]]), rtol=1e-4, atol=1e-5)
    covariance = BlockDiagonalCovariance(1, ridge=0).fit(X)
    assert_allclose(covariance.location_, model.means_[0], rtol=1e-3)


def test_a_block_rests_on_the_rows_that_tell_its_variance() -> None:
    # In direction v a row tells 1 − vᵀCv / vᵀΣv of a variance, C the conditional covariance of what it misses.
    X = with_missing(table(150)[:, :4], 0.25, np.random.default_rng(0))
    model = Fit(1, 1, **EXACT).fit(X)
    S, filled_in = model.covariances_[0], np.zeros((4, 4))
    for x in X:
        m, o = np.isnan(x), ~np.isnan(x)
        filled_in[np.ix_(m, m)] += S[np.ix_(m, m)] - S[np.ix_(m, o)] @ np.linalg.solve(S[np.ix_(o, o)], S[np.ix_(o, m)])
    assert_allclose(model.block_rows_, [150 - np.linalg.eigvals(np.linalg.solve(S, filled_in)).real.max()], rtol=1e-6)


@pytest.mark.parametrize("settings", [{}, {"tails": "t"}, {"shared_covariance": True}])
def test_few_rows_with_missing_values_leave_no_singular_covariance_in_silence(settings: dict[str, Any]) -> None:
    # The likelihood is unbounded where a block has hardly any complete rows. Red if these are not what is counted.
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = np.repeat(rng.standard_normal((60, 3)), 3, axis=1) * 0.8 + 0.6 * rng.standard_normal((60, 9))
        X[:30] += 3 * rng.standard_normal(9)
        X[rng.random(X.shape) < 0.3] = np.nan
        for n_groups, least in (("auto", 0.02), (1, 0.0)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = GaussianBiclustering(2, n_groups, random_state=0, **settings).fit(X)
            smallest = min(np.linalg.eigvalsh(S)[0] for S in model.covariances_)
            assert smallest > least
            said = any("too few with their missing values" in text or "ridge" in text for text in model.warnings_)
            assert said or smallest > 0.01


def test_the_log_likelihood_is_stationary_at_the_end() -> None:
    X = with_missing(table(150)[:, :4], 0.25, np.random.default_rng(0))
    model = Fit(2, 2, **EXACT).fit(X)
    weights, means, covariances = model.weights_, model.means_, model.covariances_
    at_end = likelihood(X, weights, means, covariances)
    assert at_end == pytest.approx(model.log_likelihood_, rel=1e-10)
    rng = np.random.default_rng(1)
    for g in range(2):
        same = model.column_labels_[g][:, None] == model.column_labels_[g]
        scale = np.sqrt(np.diagonal(covariances[g]))
        step = 1e-4 * scale * rng.standard_normal(4)
        moved = [likelihood(X, weights, means + s * np.eye(2)[g][:, None] * step, covariances) for s in (1, -1)]
        assert abs(moved[0] - moved[1]) / 2e-4 < 1e-2
        H = rng.standard_normal((4, 4))
        change = 1e-4 * np.outer(scale, scale) * (H + H.T) * same
        moved = [likelihood(X, weights, means, covariances + s * np.eye(2)[g][:, None, None] * change) for s in (1, -1)]
        assert abs(moved[0] - moved[1]) / 2e-4 < 1e-2


moments = kernels.moments


def without_covariance(X: Any, weights: Any, z: Any, certain: Any, *rest: Any) -> None:
    moments(X, weights, z, np.zeros_like(certain), *rest)


def test_the_trace_falls_without_the_conditional_covariance() -> None:
    # The law of tests/test_product.py can fail.
    falls = 0
    for seed in range(6):
        X = with_missing(table(120, seed), 0.3, np.random.default_rng(seed))
        with patch.object(kernels, "moments", without_covariance):
            model = Fit(2, 2, random_state=0, max_iter=30, tol=1e-9, rounding=False)
            with pytest.MonkeyPatch.context() as quiet:
                quiet.setattr("warnings.warn", lambda *a, **k: None)
                model.fit(X)
        falls += bool((np.diff(model.log_likelihood_trace_) < -1e-6).any())
    assert falls >= 3


def test_rows_without_values_change_nothing() -> None:
    X = with_missing(table(200), 0.2, np.random.default_rng(0))
    blank = np.insert(X, [0, 50, 200], np.nan, axis=0)
    a, b = (
        GaussianBiclustering(2, random_state=0, init=labels).fit(rows)
        for rows, labels in ((X, np.arange(200) % 2), (blank, np.insert(np.arange(200) % 2, [0, 50, 200], 1)))
    )
    assert_allclose(b.log_likelihood_trace_, a.log_likelihood_trace_, rtol=1e-12)
    assert_allclose(b.covariances_, a.covariances_, rtol=1e-9, atol=1e-9)
    assert b.bic(blank) == pytest.approx(a.bic(X), rel=1e-12)
    assert_allclose(b.predict_proba(blank)[0], b.weights_)
    assert_allclose(b.score_samples(blank)[[0, 51, 202]], 0, atol=1e-12)


def test_a_weight_of_2_counts_a_row_twice() -> None:
    X = with_missing(table(100), 0.2, np.random.default_rng(0))
    labels, weights = np.arange(100) % 2, np.arange(100) % 3
    a = Fit(2, init=labels, rounding=False).fit(X, sample_weight=weights)
    b = Fit(2, init=np.repeat(labels, weights), rounding=False).fit(np.repeat(X, weights, axis=0))
    assert_allclose(a.log_likelihood_trace_, b.log_likelihood_trace_, rtol=1e-10)


def test_units_of_the_columns_do_not_matter() -> None:
    X = with_missing(table(200), 0.2, np.random.default_rng(0))
    scale, shift = np.array([2.0, 0.1, 100, 3, 1, 7]), np.arange(6)
    a, b = (GaussianBiclustering(2, init=np.arange(200) % 2).fit(rows) for rows in (X, X * scale + shift))
    assert_allclose(b.means_, a.means_ * scale + shift, rtol=1e-6, atol=1e-6)
    cells = (~np.isnan(X)).sum(axis=0) @ np.log(scale)
    assert b.log_likelihood_ == pytest.approx(a.log_likelihood_ - cells, rel=1e-8)


def test_a_checkpoint_resumes_a_fit_with_missing(tmp_path: Any) -> None:
    X = with_missing(table(200), 0.2, np.random.default_rng(0))
    whole = GaussianBiclustering(2, random_state=0, tol=1e-7).fit(X)
    part, path = GaussianBiclustering(2, random_state=0, tol=1e-7, max_iter=3), tmp_path / "fit"
    with pytest.warns(match="max_iter"):
        part.fit(X, checkpoint=path)
    assert_allclose(
        part.set_params(max_iter=200).fit(X, checkpoint=path).log_likelihood_trace_,
        whole.log_likelihood_trace_,
        rtol=1e-12,
    )


def test_groups_are_proposed_from_coarser_blocks() -> None:
    # Within its own blocks EM sees correlations of 0.4 at half their size, and never finds the groups.
    rng = np.random.default_rng(100)
    groups = np.arange(12) % 3
    X = np.sqrt(0.4) * rng.standard_normal((300, 3))[:, groups] + np.sqrt(0.6) * rng.standard_normal((300, 12))
    X[rng.random(X.shape) < 0.35] = np.nan
    found = GaussianBiclustering(1, block_model="full", random_state=0).fit(X)
    with patch.object(BlockFamily, "_from_coarser_blocks", lambda self, rows, old, value: old):
        without = GaussianBiclustering(1, block_model="full", random_state=0).fit(X)
    assert found.log_likelihood_trace_[-1] > without.log_likelihood_trace_[-1] + 10
    same = found.column_labels_[0][:, None] == found.column_labels_[0]
    assert (same == (groups[:, None] == groups)).mean() > 0.9


def test_impute_is_the_expectation_given_the_row_and_keeps_values() -> None:
    X = table(200)
    X_missing = with_missing(X, 0.2, np.random.default_rng(0))
    model = GaussianBiclustering(2, random_state=0).fit(X_missing)
    found = model.impute(X_missing)
    there = ~np.isnan(X_missing)
    assert np.array_equal(found[there], X_missing[there])
    z = model.predict_proba(X_missing)
    i = int(np.flatnonzero(~there.all(axis=1))[0])
    o, m = there[i], ~there[i]
    expected = sum(
        z[i, g] * (mean[m] + S[np.ix_(m, o)] @ np.linalg.solve(S[np.ix_(o, o)], X_missing[i, o] - mean[o]))
        for g, (mean, S) in enumerate(zip(model.means_, model.covariances_, strict=True))
    )
    assert_allclose(found[i, m], expected, rtol=1e-9)
    frame = pd.DataFrame(X_missing, columns=NAMES, index=np.arange(200) * 2)
    frame["age"] = frame["age"].astype("float32")
    frame["rent"] = frame["rent"].round().astype("Int64")
    completed = GaussianBiclustering(2, random_state=0).fit(frame).impute(frame)
    assert list(completed.columns) == NAMES
    assert (completed.index == frame.index).all()
    assert completed.notna().all().all()
    assert completed.dtypes.astype(str).tolist() == ["float32", "Float64", *["float64"] * 4]


def as_polars(frame: pd.DataFrame) -> Any:
    return package("polars").from_pandas(frame)  # NaN becomes null


FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "nullable": lambda frame: frame.convert_dtypes(),
    "arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "objects": lambda frame: frame.astype(object).where(frame.notna(), None),
    "objects with NA": lambda frame: frame.astype(object).where(frame.notna(), pd.NA),
    "polars": as_polars,
    "polars with NaN": lambda frame: package("polars").from_pandas(frame, nan_to_null=False),
    "single precision": lambda frame: frame.astype("float32"),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_every_data_frame_is_fitted_and_returned_with_the_values_it_had(kind: str) -> None:
    X = with_missing(table(200), 0.2, np.random.default_rng(0))
    X[:, 1] = np.round(X[:, 1])
    frame = FRAMES[kind](pd.DataFrame(X, columns=NAMES).astype({"luck": "float32"}))
    model = GaussianBiclustering(2, random_state=0).fit(frame)
    found = model.impute(frame)
    assert type(found) is type(frame)
    assert list(found.columns) == NAMES
    values, given = as_array(found), as_array(frame)
    there = ~np.isnan(given)
    assert np.array_equal(values[there], given[there])
    plain = GaussianBiclustering(2, random_state=0).fit(given).impute(given)
    assert_allclose(values, plain, rtol=1e-3, atol=1e-3)


def as_array(frame: Any) -> Matrix:
    columns = [np.asarray(frame[name].to_numpy()) for name in NAMES]
    return np.stack([[np.nan if pd.isna(x) else float(x) for x in column] for column in columns], axis=1)


def test_a_model_in_single_precision_keeps_the_digits_of_other_rows() -> None:
    X = with_missing(table(200), 0.2, np.random.default_rng(0))
    found = GaussianBiclustering(2, random_state=0).fit(X.astype("float32")).impute(X)
    assert found.dtype == float
    assert np.array_equal(found[~np.isnan(X)], X[~np.isnan(X)])


def test_a_masked_cell_is_missing_whatever_it_holds() -> None:
    # scikit-learn takes the values behind a mask.
    X = with_missing(table(200), 0.2, np.random.default_rng(0))
    masked = np.ma.array(np.where(np.isnan(X), 9999, X), mask=np.isnan(X))
    a, b = (GaussianBiclustering(2, random_state=0).fit(rows) for rows in (X, masked))
    assert np.array_equal(a.means_, b.means_)
    assert np.array_equal(b.impute(masked), a.impute(X))


def test_infinity_is_refused_by_column() -> None:
    X = with_missing(table(50), 0.2, np.random.default_rng(0))
    X[3, 1] = np.inf
    with pytest.raises(ValueError, match=r"X has infinity in column 1 \(1\)"):
        GaussianBiclustering(2).fit(X)


def test_a_column_without_values_is_named() -> None:
    X = table(50)
    X[:, 3] = np.nan
    with pytest.raises(ValueError, match=r"column 3 \('x3'\) has no values: remove it"):
        GaussianBiclustering(2).fit(X)
    with pytest.raises(ValueError, match=r"column 3 \('x3'\) has no values: remove it"):
        BlockDiagonalCovariance().fit(X)


def test_a_covariance_of_rows_with_missing_speaks_of_its_own_columns_and_parameters() -> None:
    X = pd.DataFrame(with_missing(table(), 0.1, np.random.default_rng(0)), columns=NAMES)
    with pytest.raises(ValueError, match=r"^n_groups=99 exceeds"):
        BlockDiagonalCovariance(99).fit(X)
    with pytest.raises(ValueError, match=rf"^column 1 \('{NAMES[1]}'\) is constant at 7: "):
        BlockDiagonalCovariance().fit(X.assign(**{NAMES[1]: 7.0}))


def test_a_covariance_of_rows_with_missing_scores_their_values() -> None:
    X = with_missing(table(300), 0.1, np.random.default_rng(0))
    model = BlockDiagonalCovariance(2).fit(X)
    density = likelihood(X, np.ones(1), model.location_[None], model.covariance_[None])
    assert model.score(X) == pytest.approx(density / 300, rel=1e-9)
    i = int(np.flatnonzero(np.isnan(X).any(axis=1))[0])
    o = ~np.isnan(X[i])
    d = X[i, o] - model.location_[o]
    expected = d @ np.linalg.solve(model.covariance_[np.ix_(o, o)], d)
    assert model.mahalanobis(X)[i] == pytest.approx(expected, rel=1e-9)


def test_outlier_scores_of_rows_with_missing_count_their_values_only() -> None:
    X = with_missing(table(300), 0.2, np.random.default_rng(0))
    model = Fit(2, random_state=0, rounding=False).fit(X)
    assert np.isfinite(model.outlier_scores_).all()
    assert (model.outlier_scores_[np.isnan(X).all(axis=1)] == 0).all()
    i = int(np.flatnonzero(np.isnan(X).any(axis=1))[0])
    o, g = ~np.isnan(X[i]), model.row_labels_[i]
    d = X[i, o] - model.means_[g, o]
    expected = d @ np.linalg.solve(model.covariances_[g][np.ix_(o, o)], d)
    assert model.outlier_scores_[i] == pytest.approx(expected, rel=1e-9)
    assert model.n_values_.tolist() == (~np.isnan(X)).sum(axis=1).tolist()
    assert model.outliers_.mean() < 0.05


def test_the_farthest_group_of_a_row_is_one_that_it_has_values_in() -> None:
    X = with_missing(table(300), 0.3, np.random.default_rng(0))
    X[4] = np.nan
    model = GaussianBiclustering(2, random_state=0).fit(X)
    for i in np.flatnonzero(model.n_values_ > 0):
        group = model.column_labels_[model.row_labels_[i]] == model.outlier_groups_[i]
        assert (~np.isnan(X[i]))[group].any()
    assert not model.outliers_[4]


@pytest.mark.parametrize("exponent", [-90, -60, 60, 90])
def test_scores_of_rows_with_missing_do_not_depend_on_the_units(exponent: int) -> None:
    # Red if precisions are multiplied with each other: their products leave the range of numbers.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4)) + rng.standard_normal((200, 1))
    X[rng.random(X.shape) < 0.3] = np.nan
    scale = 10.0**exponent
    model = Fit(1, 1, block_model="full", rounding=False).fit(X)
    far = Fit(1, 1, block_model="full", rounding=False).fit(X * scale)
    n_values = (~np.isnan(X)).sum(axis=1)
    assert_allclose(far.score_samples(X * scale) + n_values * np.log(scale), model.score_samples(X), atol=1e-6)
    assert_allclose(far.impute(X * scale) / scale, model.impute(X), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("tails", ["normal", "t"])
def test_conditional_moments_are_those_of_the_formula_and_of_draws(tails: str) -> None:
    rng = np.random.default_rng(0)  # without repeated values, which stand for intervals
    X = with_missing(table(200) + 1e-6 * rng.random((200, 6)), 0.25, rng)
    X[7] = np.nan
    model = GaussianBiclustering(2, tails=tails, random_state=0).fit(X)
    mean, variance = model.conditional(X)
    gone, z, parameters = np.isnan(X), model.predict_proba(X), list(zip(model.means_, model.covariances_, strict=True))
    assert_allclose(mean, model.impute(X), rtol=1e-9)
    assert (variance[~gone] == 0).all()
    for i in (7, *np.flatnonzero(gone.any(axis=1))[:20]):
        o, m = ~gone[i], gone[i]
        centers, spreads = [], []
        for g, (mu, S) in enumerate(parameters):
            B = np.linalg.solve(S[np.ix_(o, o)], S[np.ix_(o, m)]).T
            nu, d = model.degrees_of_freedom_[g], X[i, o] - mu[o]
            heavy = 1 if tails == "normal" else (nu + d @ np.linalg.solve(S[np.ix_(o, o)], d)) / (nu + o.sum() - 2)
            centers.append(mu[m] + B @ d)
            spreads.append(heavy * np.diag(S[np.ix_(m, m)] - B @ S[np.ix_(o, m)]))
        center = z[i] @ centers
        assert_allclose(variance[i, m], z[i] @ (np.array(spreads) + (np.array(centers) - center) ** 2), rtol=1e-8)
    draws = np.stack(model.impute(X, draws=1000))
    assert (draws[:, ~gone] == X[~gone]).all()
    error = (draws.mean(axis=0) - mean)[gone] / np.sqrt(variance[gone] / 1000)
    assert np.abs(error).max() < 4.5
    assert_allclose(draws.var(axis=0)[gone], variance[gone], rtol=0.35)
    assert np.array_equal(model.impute(X, draws=2)[1], model.impute(X, draws=3)[1])
    frames = model.fit(pd.DataFrame(X, columns=NAMES)).impute(pd.DataFrame(X, columns=NAMES), draws=2)
    assert all(isinstance(frame, pd.DataFrame) and frame.notna().all().all() for frame in frames)
    with pytest.raises(ValueError, match="draws=0 must be a whole number that is at least 1"):
        model.impute(X, draws=0)
