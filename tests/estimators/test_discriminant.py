"""BlockDiscriminantAnalysis: scikit-learn's contract, the corners LDA, QDA and naive Bayes, rows of unknown class."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from blockmix import BlockDiscriminantAnalysis, load
from blockmix.estimators.fitting import FitWarning
from blockmix.partition import FloatArray, IntArray


@pytest.mark.filterwarnings("ignore::blockmix.estimators.fitting.FitWarning")
@parametrize_with_checks([BlockDiscriminantAnalysis()])
def test_scikit_learns_checks(estimator: BlockDiscriminantAnalysis, check: Callable[[object], None]) -> None:
    check(estimator)


def classes(n: int = 60, seed: int = 0, apart: float = 2.0) -> tuple[FloatArray, IntArray]:
    """Three classes of four columns, with a group of two columns that has another sign in each."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((3 * n, 4)), np.repeat([0, 1, 2], n)
    X[:, 1] = 0.6 * X[:, 1] + 0.8 * X[:, 0] * np.array([1, -1, 0])[y]
    X[:, 2] += apart * y
    return X, y


@pytest.mark.parametrize(
    ("n_column_groups", "shared", "textbook"),
    [
        (1, False, QuadraticDiscriminantAnalysis()),
        (1, True, LinearDiscriminantAnalysis(solver="lsqr")),
        (4, False, GaussianNB(var_smoothing=0)),
    ],
)
def test_corners_are_the_textbook_classifiers(n_column_groups: int, shared: bool, textbook: Any) -> None:
    # Red if a labelled row gives another class some of its weight. QDA divides by n − 1: the log-odds differ by 1/n.
    X, y = classes()
    settings: dict[str, Any] = {"shared_covariance": shared, "tails": "normal"}
    model = BlockDiscriminantAnalysis(n_column_groups, **settings).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2] and model.shared_covariance_ is shared
    assert_allclose(model.predict_proba(X), textbook.fit(X, y).predict_proba(X), atol=0.03)
    assert_allclose(model.mixture_.weights_, 1 / 3)
    assert_allclose(model.mixture_.means_, [X[y == g].mean(axis=0) for g in range(3)])


def test_the_objective_of_labelled_rows_is_that_of_their_classes() -> None:
    # Σ log π_y f_y(x), and not the density of the mixture: that is what own and shared covariances are compared by.
    X, y = classes()
    mixture = BlockDiscriminantAnalysis(tails="normal", shared_covariance=False).fit(X, y).mixture_
    joint = np.log(1 / 3) + np.array(
        [multivariate_normal(mixture.means_[g], mixture.covariances_[g]).logpdf(X) for g in range(3)]
    )
    assert mixture.log_likelihood_ == pytest.approx(joint[y, np.arange(len(y))].sum())
    assert mixture.row_labels_.tolist() == y.tolist()


@pytest.mark.filterwarnings("ignore::blockmix.estimators.fitting.FitWarning")  # few of the rows have labels
@pytest.mark.parametrize("tails", ["t", "normal"])
@pytest.mark.parametrize("shared", [True, False])
def test_unknown_rows_take_part_and_the_trace_does_not_fall(tails: str, shared: bool) -> None:
    X, y = classes(apart=4.0)
    X[5, 0] = np.nan
    some = np.where(np.arange(len(y)) % 10 == 0, y, -1)
    model = BlockDiscriminantAnalysis(tails=tails, shared_covariance=shared).fit(X, some)
    trace = model.mixture_.log_likelihood_trace_
    assert np.diff(trace).min() >= -1e-9 * np.abs(trace).max()
    assert (model.mixture_.row_labels_ == y)[some >= 0].all()  # known rows stay where they are
    labels_only = BlockDiscriminantAnalysis(tails=tails, shared_covariance=shared, shrinkage=0.1)
    assert model.score(X, y) > max(0.95, labels_only.fit(X[some >= 0], some[some >= 0]).score(X, y) - 0.01)


def test_names_of_classes_and_marks_of_unknown_ones() -> None:
    X, y = classes()
    numbers = BlockDiscriminantAnalysis().fit(X, y)
    frame = pd.DataFrame(X, columns=list("abcd"))
    words = BlockDiscriminantAnalysis().fit(frame, np.array(["x", "y", "z"])[y])
    assert words.predict(frame).tolist() == np.array(["x", "y", "z"])[numbers.predict(X)].tolist()
    mixed = np.array(["x", "y", "z"], dtype=object)[y]
    mixed[::3] = -1
    assert BlockDiscriminantAnalysis().fit(X, mixed).classes_.tolist() == ["x", "y", "z"]
    two = BlockDiscriminantAnalysis().fit(X, np.where(y == 0, -1, 1))  # not one class and unknown rows
    assert two.classes_.tolist() == [-1, 1]
    with pytest.raises(ValueError, match="y is -1 in every row"):
        BlockDiscriminantAnalysis().fit(X, np.full(len(y), -1))


def test_own_and_shared_covariances_are_told_apart() -> None:
    X, y = classes()
    assert BlockDiscriminantAnalysis().fit(X, y).shared_covariance_ is False
    same = np.random.default_rng(0).standard_normal((180, 4)) + 3 * y[:, None]
    assert BlockDiscriminantAnalysis().fit(same, y).shared_covariance_ is True


def test_few_rows_of_a_class_are_said() -> None:
    X, y = classes()
    kept = (y < 2) | (np.cumsum(y == 2) <= 4)
    with pytest.warns(FitWarning, match="too few rows of class 2 for covariances by class: all classes share one"):
        model = BlockDiscriminantAnalysis().fit(X[kept], y[kept])
    assert model.shared_covariance_ and model.mixture_.tails == "normal" and model.mixture_.shrinkage is None
    with pytest.warns(FitWarning):
        model = BlockDiscriminantAnalysis().fit(X[::20], y[::20])
    assert model.mixture_.shrinkage == 0.1


def test_zero_weights_are_as_good_as_absent() -> None:
    X, y = classes()
    weights = np.where(y < 2, np.arange(len(y)) % 3, 0)
    model = BlockDiscriminantAnalysis().fit(X, y, sample_weight=weights)
    repeated = np.repeat(np.arange(len(y)), weights)
    assert model.classes_.tolist() == [0, 1]
    again = BlockDiscriminantAnalysis().fit(X[repeated], y[repeated])
    assert_allclose(model.predict_proba(X), again.predict_proba(X), atol=1e-6)


def test_save_and_load(tmp_path: Path) -> None:
    X, y = classes()
    model = BlockDiscriminantAnalysis().fit(X, np.array(["x", "y", "z"])[y])
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.predict(X).tolist() == model.predict(X).tolist()


@pytest.mark.parametrize(
    ("parameters", "X", "message"),
    [
        ({"shared_covariance": "own"}, None, "shared_covariance='own' must be"),
        ({"tails": "heavy"}, None, "tails='heavy'"),
        ({}, "rows.npy", "X must be in memory"),
    ],
)
def test_wrong_input_is_named(parameters: dict[str, Any], X: Any, message: str) -> None:
    rows, y = classes()
    with pytest.raises(ValueError, match=message):
        BlockDiscriminantAnalysis(**parameters).fit(rows if X is None else X, y)
