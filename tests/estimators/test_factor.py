"""FactorBiclustering: scores like its covariances, its corners, what changes nothing, awkward tables and refusals."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import oracles
import pandas as pd
import pytest
from factors import every_model, factor_rows, quiet, random_start
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture
from sklearn.utils.estimator_checks import parametrize_with_checks
from strategies import SPARSE_CHECKS, Matrix

from blockmix import BlockDiagonalCovariance, FactorBiclustering, Partition, load, select
from blockmix.em.loop import Progress
from blockmix.estimators.fitting import FitWarning
from experiments import designs
from experiments.losses import mape


@parametrize_with_checks(
    [FactorBiclustering(3, 2), FactorBiclustering(3, 2, model="CICC", init="kmeans", standardize=False)],
    expected_failed_checks=lambda estimator: SPARSE_CHECKS,
)
@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::blockmix.estimators.fitting.FitWarning"
)
def test_scikit_learns_contract(estimator: Any, check: Any) -> None:
    check(estimator)


@every_model
def test_a_fitted_model_scores_like_its_covariances_and_shares_what_it_says(letters: str) -> None:
    X = factor_rows(1)
    model = quiet(X, n_components=2, n_column_groups=3, model=letters, random_state=0)
    joint = oracles.log_joint(X, model.weights_, model.means_, model.covariances_)
    assert_allclose(model.score_samples(X), logsumexp(joint, axis=1), rtol=1e-8, atol=1e-8)
    assert_allclose(model.log_likelihood_, logsumexp(joint, axis=1).sum(), rtol=1e-8)
    assert_allclose([block.dense() for block in model.blocks_], model.covariances_)
    assert_array_equal(model.predict(X), model.row_labels_)
    B, T, D, shape = letters
    labels, t, d = model.column_labels_, model.factor_variances_, model.noise_variances_
    assert (labels[0] == labels[1]).all() == (B == "C")
    assert np.allclose(np.sort(t[0]), np.sort(t[1])) == (T != "U")
    assert (t == 1).all() == (T == "I")
    assert np.allclose(d[0], d[1]) == (D == "C")
    assert np.allclose(d, d[:, :1]) == (shape == "C")
    assert (np.sort(np.unique(labels[0])) == np.arange(3)).all()


def test_without_factors_it_is_the_diagonal_mixture() -> None:
    # As many groups as columns: only t + d matters, and scikit-learn's diagonal mixture stays where this one ends.
    X = factor_rows(7, n=80, p=4, apart=2)
    X, start = X / X.std(axis=0), random_start(X, 2, 0)
    ours = quiet(X, n_components=2, n_column_groups=4, model="UUUU", init=start, tol=1e-9, standardize=False)
    theirs = GaussianMixture(2, covariance_type="diag", tol=1e-12, max_iter=5000, reg_covar=0)
    theirs.means_init, theirs.weights_init = ours.means_, ours.weights_
    theirs.precisions_init = 1 / np.diagonal(ours.covariances_, axis1=1, axis2=2)
    assert_allclose(ours.score_samples(X), theirs.fit(X).score_samples(X), atol=1e-4)


def test_one_component_recovers_the_positive_design() -> None:
    # No warning either: warnings are errors here.
    design = designs.covariance_positive()
    for seed, N in ((0, 100), (1, 100), (2, 300), (3, 300)):
        X = design.sample(N, seed)
        model = FactorBiclustering(1, 3).fit(X)
        assert design.partition == Partition(model.column_labels_[0])
        other = BlockDiagonalCovariance(3).fit(X)
        assert mape(design.covariance, model.covariances_[0]) < 1.1 * mape(design.covariance, other.covariance_)


def test_the_negative_design_fails_and_the_warning_names_columns_and_groups() -> None:
    design = designs.covariance_negative()
    X = pd.DataFrame(design.sample(300, 0), columns=[f"c{j}" for j in range(12)])
    with pytest.warns(FitWarning) as caught:
        model = FactorBiclustering(1, 3).fit(X)
    assert design.partition != Partition(model.column_labels_[0])
    (message,) = model.warnings_
    assert str(caught[0].message) == message and caught[0].filename == __file__
    listed, pair = message.split(" of component 0 form a group with negative correlations, ")
    assert listed in ("columns c0, c1, c2, c3", "columns c4, c5, c6, c7", "columns c8, c9, c10, c11")
    names = [name for name in listed[8:].split(", ") if f"{name} (fitted in group" in pair]
    assert len(names) == 2
    for name in names:
        assert f"{name} (fitted in group {model.column_labels_[0, int(name[1:])]})" in pair
    assert "(and 2 more such groups); covariances within a group of this model are never negative" in pair


def test_with_one_component_there_is_nothing_to_share() -> None:
    one, other = (quiet(factor_rows(9, G=1), n_column_groups=3, model=letters) for letters in ("UUUU", "CCCU"))
    assert_allclose(one.log_likelihood_, other.log_likelihood_)
    assert one.n_parameters_ == other.n_parameters_


@pytest.mark.parametrize("letters", ["UUUU", "UCUU", "CCUC", "UIUU"])
def test_permuted_columns_have_permuted_groups(letters: str) -> None:
    X, order = factor_rows(10), np.random.default_rng(0).permutation(7)
    start = random_start(X, 2, 0)
    one, other = (quiet(Y, n_components=2, n_column_groups=3, model=letters, init=start) for Y in (X, X[:, order]))
    assert_allclose(one.log_likelihood_, other.log_likelihood_, rtol=1e-7)
    for g in range(2):
        assert Partition(one.column_labels_[g][order]) == Partition(other.column_labels_[g])
    assert_allclose(one.noise_variances_[:, order], other.noise_variances_, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("letters", ["UCUU", "CUCC"])
def test_rescaled_columns_change_only_units_unless_they_are_fitted_as_they_are(letters: str) -> None:
    X, factors = factor_rows(11), 10.0 ** np.linspace(-3, 3, 7)
    settings: dict[str, Any] = {"n_components": 2, "n_column_groups": 3, "model": letters, "random_state": 0}
    one, other = (quiet(Y, **settings) for Y in (X, X * factors + 5))
    assert_array_equal(one.row_labels_, other.row_labels_)
    assert_array_equal(one.column_labels_, other.column_labels_)
    assert_allclose(one.log_likelihood_ - len(X) * np.log(factors).sum(), other.log_likelihood_, rtol=1e-6)
    assert_allclose(one.covariances_ * factors[:, None] * factors, other.covariances_, rtol=1e-3)
    one, other = (quiet(Y, standardize=False, **settings) for Y in (X, X * 10.0 ** np.linspace(-1, 1, 7)))
    assert not np.allclose(one.noise_variances_, other.noise_variances_)
    assert_array_equal(one.scale_, 1)


def test_float32_stays_float32() -> None:
    X = factor_rows(14).astype(np.float32)
    one, other = (quiet(Y, n_components=2, n_column_groups=3, random_state=0) for Y in (X, X.astype(float)))
    fitted = (one.weights_, one.means_, one.covariances_, one.noise_variances_)
    assert {array.dtype for array in (*fitted, one.score_samples(X), one.predict_proba(X))} == {np.dtype(np.float32)}
    assert_allclose(one.log_likelihood_, other.log_likelihood_, rtol=1e-4)


def test_bic_counts_weights_means_and_identified_variances() -> None:
    X = factor_rows(15)
    model = quiet(X, n_components=2, n_column_groups=3, model="UUUU", random_state=0)
    # A column alone in its group has a variance t + d, which is one parameter.
    alone = sum(int((np.bincount(row) == 1).sum()) for row in model.column_labels_)
    assert model.n_parameters_ == 1 + 14 + 6 + 14 - alone
    assert_allclose(model.bic(X), -2 * model.log_likelihood_ + model.n_parameters_ * np.log(120), rtol=1e-8)


def test_a_sample_has_the_fitted_moments() -> None:
    X = factor_rows(16)
    model = quiet(X, n_components=2, n_column_groups=3, model="UUUU", random_state=0)
    rows, components = model.sample(40_000)
    scale = X.std(axis=0)
    for g in range(2):
        drawn = rows[components == g] / scale
        assert_allclose(np.cov(drawn.T), model.covariances_[g] / np.outer(scale, scale), atol=0.05)
        assert_allclose(drawn.mean(axis=0), model.means_[g] / scale, atol=0.05)


def test_biclusters_are_pairs_of_component_and_group_also_from_a_file(tmp_path: Path) -> None:
    X = pd.DataFrame(factor_rows(17), columns=list("abcdefg"))
    model = quiet(X, n_components=2, n_column_groups=3, random_state=0)
    model.save(tmp_path / "factor")
    again = load(tmp_path / "factor")
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.n_parameters_ == model.n_parameters_
    assert again.rows_.shape == (6, 120) and again.columns_.shape == (6, 7)
    assert_array_equal(again.columns_[:3].sum(axis=0), 1)
    assert again.get_submatrix(4, X.to_numpy()).shape == model.get_shape(4)
    assert_array_equal(again.n_column_groups_, [3, 3])
    assert again.describe() == model.describe()


def test_select_takes_it() -> None:
    X = np.concatenate([factor_rows(19, G=1), factor_rows(20, G=1) + 20 * factor_rows(19, G=1).std(axis=0)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = select(X, [1, 2], [2, 3], estimator=FactorBiclustering(model="UUUU", random_state=0))
    assert table.best_.n_components == 2


@pytest.mark.parametrize("iteration", [4, 12])
@pytest.mark.parametrize("letters", ["UCUU", "CCUC"])
def test_a_stopped_fit_resumes_from_its_checkpoint_to_the_same_result(
    letters: str, iteration: int, tmp_path: Path
) -> None:
    # Red if the cuts that were tried are forgotten, or a state is saved with half of a step.
    X, path = factor_rows(22, apart=0.3), tmp_path / "fit"
    settings: dict[str, Any] = {"n_components": 2, "n_column_groups": 3, "model": letters, "init": "kmeans"}
    settings |= {"random_state": 0, "tol": 1e-9}
    expected = quiet(X, **settings)
    assert expected.n_iter_ > 13

    def stop(progress: Progress) -> None:
        if progress.iteration == iteration:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        FactorBiclustering(**settings).fit(X, callback=stop, checkpoint=path)
    resumed = quiet(X, checkpoint=path, **settings)
    names = ("weights_", "means_", "factor_variances_", "noise_variances_", "column_labels_", "log_likelihood_trace_")
    for name in names:
        assert_array_equal(getattr(resumed, name), getattr(expected, name), err_msg=name)


AWKWARD: dict[str, tuple[Matrix, dict[str, Any]]] = {
    "two rows": (factor_rows(0)[:2], {}),
    "a row per component": (factor_rows(0)[:3], {"n_components": 3}),
    "duplicated rows": (np.repeat(factor_rows(0)[:5], 8, axis=0), {"n_components": 3}),
    "duplicated columns": (factor_rows(0)[:, [0, 0, 0, 1, 1, 2, 2]], {"n_components": 2}),
    "opposite columns": (factor_rows(0)[:, [0, 0, 1, 1]] * [1, -1, 1, -1], {"n_column_groups": 2}),
    "more columns than rows": (np.random.default_rng(0).standard_normal((8, 300)), {"n_components": 2}),
    "one column": (factor_rows(0)[:, :1], {"n_column_groups": 1, "n_components": 2}),
    "a group per column": (factor_rows(0), {"n_column_groups": 7, "n_components": 2}),
    "far apart": (factor_rows(0) + 1e6 * (np.arange(120) < 60)[:, None], {"n_components": 2}),
    "far from zero": (factor_rows(0) + 1e8, {"n_components": 2}),
    "huge and tiny": (factor_rows(0) * 10.0 ** np.linspace(-100, 100, 7), {"n_components": 2}),
    "too many components": (factor_rows(0), {"n_components": 12}),
    "binary": ((factor_rows(0) > 0).astype(float), {"n_components": 3}),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_tables_have_finite_answers(name: str) -> None:
    X, settings = AWKWARD[name]
    for letters in ("UUUU", "UCUU", "CICC"):
        model = quiet(X, model=letters, max_iter=50, random_state=0, **settings)
        assert np.isfinite(model.score_samples(X)).all()
        assert np.isfinite(model.means_).all() and (model.noise_variances_ > 0).all()
        assert (np.diff(model.log_likelihood_trace_) > -1e-6 * (1 + np.abs(model.log_likelihood_trace_[-1]))).all()
        assert all(len(np.unique(row)) == model.n_column_groups_[0] for row in model.column_labels_)


def test_a_component_that_rests_on_the_floor_is_reported() -> None:
    X = np.concatenate([factor_rows(0, n=30, G=1), np.full((2, 7), 50.0) + np.array([[0.0], [1e-3]])])
    model = quiet(X, n_components=2, init=[0] * 30 + [1] * 2)
    assert model.outcome_ == "degenerate"
    assert model.warnings_[0].startswith("component 1 has 2.0 rows and its noise variances rest on their floor: ask")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"model": "UCU"}, "model='UCU' must be four letters"),
        ({"model": "IUUU"}, "model='IUUU' must be four letters, U or C each (I in second place fixes T = I)"),
        ({"model": None}, "model=None must be four letters"),
        ({"n_column_groups": 8}, "n_column_groups=8 exceeds the 7 columns of X"),
        ({"n_column_groups": "auto"}, "n_column_groups='auto' must be a whole number"),
    ],
)
def test_refusals_say_what_is_wrong(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        FactorBiclustering(**settings).fit(factor_rows(0))
    assert str(error.value).startswith(sentence)


def test_an_unfitted_model_has_no_attributes() -> None:
    for name in ("covariances_", "factor_variances_", "column_labels_", "n_parameters_"):
        with pytest.raises(NotFittedError):
            getattr(FactorBiclustering(), name)
