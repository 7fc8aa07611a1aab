"""FactorBiclustering: scores like its covariances, its corners, and what changes nothing."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import oracles
import pandas as pd
import pytest
from factors import every_model, factor_rows, quiet, random_start
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from blockmix import BlockDiagonalCovariance, FactorBiclustering, GroupingWarning, datasets
from blockmix.metrics import exact_recovery, mape

# The likelihood.


@every_model
def test_a_fitted_model_scores_like_its_covariances(letters: str) -> None:
    X = factor_rows(1)
    model = quiet(X, n_components=2, n_column_groups=3, model=letters, random_state=0)
    joint = oracles.log_joint(X, model.weights_, model.means_, model.covariances_)
    assert_allclose(model.score_samples(X), logsumexp(joint, axis=1), rtol=1e-8, atol=1e-8)
    assert_allclose(model.log_likelihood_, logsumexp(joint, axis=1).sum(), rtol=1e-8)
    assert_allclose([block.dense() for block in model.blocks_], model.covariances_)
    assert_array_equal(model.predict(X), model.row_labels_)


@every_model
def test_what_is_shared_is_equal(letters: str) -> None:
    model = quiet(factor_rows(2), n_components=2, n_column_groups=3, model=letters, random_state=0)
    B, T, D, shape = letters
    labels, t, d = model.column_labels_, model.factor_variances_, model.noise_variances_
    assert B == "U" or (labels[0] == labels[1]).all()
    assert T != "C" or np.allclose(np.sort(t[0]), np.sort(t[1]))
    assert T != "I" or (t == 1).all()
    assert D == "U" or np.allclose(d[0], d[1])
    assert shape == "U" or np.allclose(d, d[:, :1])
    assert (np.sort(np.unique(labels[0])) == np.arange(3)).all()
    if letters == "UUUU":
        assert not np.allclose(np.sort(t[0]), np.sort(t[1]))
        assert not np.allclose(d[0], d[1])


# Corners.


def test_without_factors_it_is_the_diagonal_mixture() -> None:
    # As many groups as columns: only t + d matters, and each step is that of scikit-learn's diagonal mixture.
    X = factor_rows(7, n=80, p=4, apart=2)
    X = X / X.std(axis=0)
    start = random_start(X, 2, 0)
    ours = quiet(X, n_components=2, n_column_groups=4, model="UUUU", init=start, tol=1e-9, standardize=False)
    theirs = GaussianMixture(2, covariance_type="diag", tol=1e-12, max_iter=5000, reg_covar=0)
    theirs.means_init, theirs.weights_init = ours.means_, ours.weights_
    theirs.precisions_init = 1 / np.diagonal(ours.covariances_, axis1=1, axis2=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs.fit(X)
    assert_allclose(ours.score_samples(X), theirs.score_samples(X), atol=1e-4)


@pytest.mark.parametrize("N", [100, 300])
def test_one_component_recovers_the_positive_design(N: int) -> None:
    # No warning either: warnings are errors here.
    design = datasets.covariance_positive()
    for seed in range(5):
        X = design.sample(N, seed)
        model = FactorBiclustering(1, 3).fit(X)
        assert exact_recovery(design.partition, model.column_labels_[0])
        other = BlockDiagonalCovariance(3).fit(X)
        assert mape(design.covariance, model.covariances_[0]) < 1.1 * mape(design.covariance, other.covariance_)


def test_the_negative_design_fails_and_says_so() -> None:
    design = datasets.covariance_negative()
    X = pd.DataFrame(design.sample(300, 0), columns=[f"c{j}" for j in range(12)])
    with pytest.warns(GroupingWarning) as caught:
        model = FactorBiclustering(1, 3).fit(X)
    assert not exact_recovery(design.partition, model.column_labels_[0])
    message = str(caught[0].message)
    assert "component 0 form a group with negative correlations" in message
    assert "GaussianBiclustering" in message
    assert any(group in message for group in ("c0, c1, c2, c3 ", "c4, c5, c6, c7 ", "c8, c9, c10, c11 "))
    assert caught[0].filename == __file__


def test_with_one_component_there_is_nothing_to_share() -> None:
    X = factor_rows(9, G=1)
    one, other = (quiet(X, n_column_groups=3, model=letters) for letters in ("UUUU", "CCCU"))
    assert_allclose(one.log_likelihood_, other.log_likelihood_)
    assert one.n_parameters_ == other.n_parameters_


def test_groups_of_many_columns_are_found_from_some_of_them() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 700)
    X = rng.standard_normal((50, 4))[:, labels] + rng.standard_normal((50, 700))
    assert exact_recovery(labels, quiet(X, n_column_groups=4).column_labels_[0])


# What changes nothing.


@pytest.mark.parametrize("letters", ["UUUU", "UCUU", "CCUC", "UIUU"])
def test_permuted_columns_have_permuted_groups(letters: str) -> None:
    X, order = factor_rows(10), np.random.default_rng(0).permutation(7)
    start = random_start(X, 2, 0)
    one, other = (quiet(Y, n_components=2, n_column_groups=3, model=letters, init=start) for Y in (X, X[:, order]))
    assert_allclose(one.log_likelihood_, other.log_likelihood_, rtol=1e-7)
    for g in range(2):
        assert exact_recovery(one.column_labels_[g][order], other.column_labels_[g])
    assert_allclose(one.noise_variances_[:, order], other.noise_variances_, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("letters", ["UUUU", "UCUU", "CUCC"])
def test_rescaled_columns_change_nothing_but_their_own_units(letters: str) -> None:
    X, factors = factor_rows(11), 10.0 ** np.linspace(-3, 3, 7)
    one, other = (
        quiet(Y, n_components=2, n_column_groups=3, model=letters, random_state=0) for Y in (X, X * factors + 5)
    )
    assert_array_equal(one.row_labels_, other.row_labels_)
    assert_array_equal(one.column_labels_, other.column_labels_)
    assert_allclose(one.log_likelihood_ - len(X) * np.log(factors).sum(), other.log_likelihood_, rtol=1e-6)
    assert_allclose(one.covariances_ * factors[:, None] * factors, other.covariances_, rtol=1e-3)


def test_without_standardization_units_matter() -> None:
    X = factor_rows(11)
    settings: dict[str, Any] = {"n_components": 2, "n_column_groups": 3, "standardize": False, "random_state": 0}
    one, other = (quiet(Y, **settings) for Y in (X, X * 10.0 ** np.linspace(-1, 1, 7)))
    assert not np.allclose(one.noise_variances_, other.noise_variances_)
    assert_array_equal(one.scale_, 1)
    unit = quiet(X, **(settings | {"model": "UIUU"}))
    offdiagonal = unit.covariances_[0][unit.column_labels_[0][:, None] == unit.column_labels_[0]]
    assert (np.isclose(offdiagonal, 1) | (offdiagonal > 1)).all()


@pytest.mark.parametrize("letters", ["UUUU", "CCUU", "UCCC"])
def test_weight_counts_rows(letters: str) -> None:
    X, weights = factor_rows(12), np.random.default_rng(0).integers(0, 4, 120)
    start = random_start(X, 2, 0)
    settings: dict[str, Any] = {"n_components": 2, "n_column_groups": 3, "model": letters}
    one = quiet(X, weights, init=start, **settings)
    other = quiet(np.repeat(X, weights, axis=0), init=np.repeat(start, weights, axis=0), **settings)
    assert_allclose(one.log_likelihood_, other.log_likelihood_, rtol=1e-7)
    assert_array_equal(one.column_labels_, other.column_labels_)
    assert_allclose(one.covariances_, other.covariances_, rtol=1e-4, atol=1e-8)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X = factor_rows(13, n=150)
    whole = quiet(X, n_components=2, n_column_groups=3, random_state=0)
    monkeypatch.setattr("blockmix.rows.rows._CHUNK_NUMBERS", 1)  # the least chunk, 64 rows
    parts = quiet(X, n_components=2, n_column_groups=3, random_state=0)
    assert_allclose(whole.log_likelihood_, parts.log_likelihood_, rtol=1e-9)


def test_float32_stays_float32() -> None:
    X = factor_rows(14).astype(np.float32)
    one, other = (quiet(Y, n_components=2, n_column_groups=3, random_state=0) for Y in (X, X.astype(float)))
    made = (
        one.weights_,
        one.means_,
        one.covariances_,
        one.noise_variances_,
        one.score_samples(X),
        one.predict_proba(X),
    )
    assert {array.dtype for array in made} == {np.dtype(np.float32)}
    assert_allclose(one.log_likelihood_, other.log_likelihood_, rtol=1e-4)


# Parameters and criteria.


@pytest.mark.parametrize(
    ("letters", "covariance"),
    [
        ("UUUU", 6 + 14),
        ("UCUU", 3 + 14),
        ("UUCU", 6 + 7),
        ("UUUC", 6 + 2),
        ("CCCC", 3 + 1),
        ("CUCC", 6 + 1),
        ("UIUU", 14),
    ],
)
def test_parameters_are_counted(letters: str, covariance: int) -> None:
    X = factor_rows(15)
    model = quiet(X, n_components=2, n_column_groups=3, model=letters, random_state=0)
    # A column alone in its group has a variance t + d, one parameter unless other groups tell which is which.
    alone = sum(int((np.bincount(row) == 1).sum()) for row in model.column_labels_)
    assert 1 + 14 + covariance - alone <= model.n_parameters_ <= 1 + 14 + covariance
    assert model.n_parameters_ == 1 + 14 + covariance - (alone if letters == "UUUU" else int(letters == "UCUU"))
    assert_allclose(model.bic(X), -2 * model.log_likelihood_ + model.n_parameters_ * np.log(120), rtol=1e-8)
    without = model.n_parameters_
    model.set_params(count_partition=True)
    assert model.n_parameters_ == without + (7 if letters[0] == "C" else 14)


def test_a_sample_has_the_fitted_moments() -> None:
    X = factor_rows(16)
    model = quiet(X, n_components=2, n_column_groups=3, model="UUUU", random_state=0)
    rows, components = model.sample(40_000)
    scale = X.std(axis=0)
    for g in range(2):
        drawn = rows[components == g] / scale
        assert_allclose(np.cov(drawn.T), model.covariances_[g] / np.outer(scale, scale), atol=0.05)
        assert_allclose(drawn.mean(axis=0), model.means_[g] / scale, atol=0.05)
