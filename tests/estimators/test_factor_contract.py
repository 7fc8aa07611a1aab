"""FactorBiclustering: scikit-learn's contract, starts, awkward tables and refusals."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from factors import factor_rows, quiet
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks
from strategies import SPARSE_CHECKS, Matrix

from blockmix import FactorBiclustering, GroupingWarning
from blockmix.estimators.models import load
from blockmix.selection import select

# Contract.


@parametrize_with_checks(
    [
        FactorBiclustering(3, 2),
        FactorBiclustering(3, 1, model="UUUU", init="kmeans++"),
        FactorBiclustering(3, 2, model="CICC", init="random", standardize=False),
        FactorBiclustering(3, 2, model="CCUC", init="hierarchical"),
    ],
    expected_failed_checks=lambda estimator: SPARSE_CHECKS,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::blockmix.GroupingWarning")
def test_scikit_learns_contract(estimator: Any, check: Any) -> None:
    check(estimator)


def test_biclusters_are_pairs_of_component_and_group() -> None:
    X = pd.DataFrame(factor_rows(17), columns=list("abcdefg"))
    model = quiet(X, n_components=2, n_column_groups=3, random_state=0)
    assert model.rows_.shape == (6, 120) and model.columns_.shape == (6, 7)
    assert_array_equal(model.columns_[:3].sum(axis=0), 1)
    assert model.get_submatrix(4, X.to_numpy()).shape == model.get_shape(4)
    assert list(model.feature_names_in_) == list("abcdefg")
    assert_array_equal(model.n_column_groups_, [3, 3])
    assert "component 1" in model.describe()
    assert all(row[0] == 0 for row in model.column_labels_)


def test_a_file_brings_it_back(tmp_path: Path) -> None:
    X = factor_rows(18)
    model = quiet(X, n_components=2, n_column_groups=3, random_state=0)
    model.save(tmp_path / "factor")
    found = load(tmp_path / "factor")
    assert_array_equal(found.predict_proba(X), model.predict_proba(X))
    assert found.n_parameters_ == model.n_parameters_


def test_select_takes_it() -> None:
    X = np.concatenate([factor_rows(19, G=1), factor_rows(20, G=1) + 20 * factor_rows(19, G=1).std(axis=0)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = select(X, [1, 2], [2, 3], estimator=FactorBiclustering(model="UUUU", random_state=0))
    assert table.best_.n_components == 2


def test_the_portfolio_keeps_its_best_start_and_reports_all() -> None:
    X, reported = factor_rows(21), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FactorBiclustering(2, 3, init="portfolio", random_state=0).fit(X, callback=reported.append)
    assert len(model.starts_) >= 8
    assert {progress.start for progress in reported} == {name for name, _, _ in model.starts_}
    assert_allclose(model.log_likelihood_trace_[-1], max(value for _, value, _ in model.starts_))


def test_a_warm_start_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    X = factor_rows(22, apart=0.3)
    model = FactorBiclustering(2, 3, max_iter=3, warm_start=True, random_state=0, verbose=1)
    with pytest.warns(ConvergenceWarning, match="max_iter=3"):
        model.fit(X)
    assert "given groups: iteration 0" in capsys.readouterr().out
    assert model.outcome_ == "iteration limit"
    before = model.log_likelihood_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.set_params(max_iter=100).fit(X)
        assert_allclose(model.log_likelihood_trace_[0], before)
        # Another model cannot go on from these parameters, but from these row clusters.
        model.set_params(model="CCCC", n_column_groups=2).fit(X)
    assert model.n_column_groups_[0] == 2


def test_an_interrupt_keeps_the_best_so_far() -> None:
    def stop(progress: Any) -> None:
        if progress.iteration == 3:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted after 4 iterations"):
        model = FactorBiclustering(2, 3, random_state=0).fit(factor_rows(22, apart=0.3), callback=stop)
    assert model.outcome_ == "interrupted"


# Awkward tables.

AWKWARD: dict[str, tuple[Matrix, dict[str, Any]]] = {
    "two rows": (factor_rows(0)[:2], {}),
    "a row per component": (factor_rows(0)[:3], {"n_components": 3}),
    "duplicated rows": (np.repeat(factor_rows(0)[:5], 8, axis=0), {"n_components": 3}),
    "duplicated columns": (factor_rows(0)[:, [0, 0, 0, 1, 1, 2, 2]], {"n_components": 2}),
    "opposite columns": (factor_rows(0)[:, [0, 0, 1, 1]] * [1, -1, 1, -1], {"n_column_groups": 2}),
    "more columns than rows": (np.random.default_rng(0).standard_normal((8, 300)), {"n_components": 2}),
    "one column": (factor_rows(0)[:, :1], {"n_column_groups": 1, "n_components": 2}),
    "two columns": (factor_rows(0)[:, :2], {"n_components": 2}),
    "a group per column": (factor_rows(0), {"n_column_groups": 7, "n_components": 2}),
    "far apart": (factor_rows(0) + 1e6 * (np.arange(120) < 60)[:, None], {"n_components": 2}),
    "far from zero": (factor_rows(0) + 1e8, {"n_components": 2}),
    "huge and tiny": (factor_rows(0) * 10.0 ** np.linspace(-100, 100, 7), {"n_components": 2}),
    "too many components": (factor_rows(0), {"n_components": 12, "init": "random"}),
    "binary": ((factor_rows(0) > 0).astype(float), {"n_components": 3}),
}


@pytest.mark.parametrize("letters", ["UUUU", "UCUU", "CICC"])
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_tables_have_finite_answers(name: str, letters: str) -> None:
    X, given = AWKWARD[name]
    model = quiet(X, model=letters, max_iter=50, random_state=0, **given)
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.means_).all() and (model.noise_variances_ > 0).all()
    assert (np.diff(model.log_likelihood_trace_) > -1e-6 * (1 + np.abs(model.log_likelihood_trace_[-1]))).all()
    assert all(len(np.unique(row)) == model.n_column_groups_[0] for row in model.column_labels_)


def test_a_component_that_rests_on_the_floor_is_named() -> None:
    X = np.concatenate([factor_rows(0, n=30, G=1), np.full((2, 7), 50.0) + np.array([[0.0], [1e-3]])])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GroupingWarning)
        with pytest.warns(
            ConvergenceWarning, match=r"component 1 has 2\.0 rows and its noise variances rest on min_noise"
        ):
            model = FactorBiclustering(2, 2, init=[0] * 30 + [1] * 2).fit(X)
    assert model.outcome_ == "degenerate"


# Refusals.


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"model": "UCU"}, "model='UCU' must be four letters"),
        ({"model": "UXUU"}, "model='UXUU' must be four letters"),
        ({"model": "IUUU"}, "model='IUUU' must be four letters, U or C each (I in second place fixes T = I)"),
        ({"model": None}, "model=None must be four letters"),
        ({"n_column_groups": 8}, "n_column_groups=8 exceeds the 7 columns of X"),
        ({"n_column_groups": 0}, "n_column_groups=0 must be at least 1"),
        ({"n_column_groups": "auto"}, "n_column_groups='auto' must be a whole number"),
        ({"n_components": 0}, "n_components=0 must be a whole number that is at least 1"),
        ({"n_components": 121}, "n_components=121 exceeds the n_samples=120 rows of X"),
        ({"min_noise": 0}, "min_noise=0 must be between 0 and 1"),
        ({"min_noise": "a"}, "min_noise='a' must be a number"),
        ({"tol": -1}, "tol=-1 must be a number that is at least 0"),
        ({"init": "best"}, "init='best' must be one of"),
        ({"max_iter": 0}, "max_iter=0 must be a whole number"),
    ],
)
def test_refusals_say_what_is_wrong(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        FactorBiclustering(**given).fit(factor_rows(0))
    assert str(error.value).startswith(sentence)


def test_a_constant_column_is_named() -> None:
    X = pd.DataFrame(factor_rows(0), columns=list("abcdefg")).assign(e=3.0)
    with pytest.raises(ValueError, match=r"column 4 \('e'\) is constant at 3"):
        FactorBiclustering(2).fit(X)


def test_unfitted_it_says_so() -> None:
    for call in (lambda m: m.predict(factor_rows(0)), lambda m: m.covariances_, lambda m: m.n_parameters_):
        with pytest.raises(NotFittedError):
            call(clone(FactorBiclustering()))
