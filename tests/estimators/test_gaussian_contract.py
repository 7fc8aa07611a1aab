"""GaussianBiclustering: scikit-learn's contract, names of columns, samples and biclusters."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from fits import LABELS, NAMES, SETTINGS, Fit, assert_same_mixture, every_setting, quiet, table
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks
from strategies import SPARSE_CHECKS, Matrix

from blockmix import GaussianBiclustering
from blockmix.grouping import GreedyGrouping, HierarchicalGrouping, SilhouetteRule

# Contract.

CONTRACT: list[dict[str, Any]] = [
    {},
    {"n_components": 2, "n_column_groups": "silhouette", "grouping": "greedy"},
    {"n_components": 2, "shared_covariance": True, "shrinkage": 0.5, "tails": "t"},
]


def cannot_pass(estimator: GaussianBiclustering) -> dict[str, str]:
    """One component cannot separate three blobs, which the check asks of every clusterer."""
    alone = {"check_clustering": "one component is one cluster"} if estimator.n_components == 1 else {}
    return SPARSE_CHECKS | alone


@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore::blockmix.GroupingWarning",
    "ignore::blockmix.estimators.fitting.FitWarning",  # the checks fit two components to one cluster
)
@parametrize_with_checks([Fit(**parameters) for parameters in CONTRACT], expected_failed_checks=cannot_pass)
def test_scikit_learns_checks(estimator: GaussianBiclustering, check: Callable[[object], None]) -> None:
    check(estimator)


@every_setting
def test_clone_parameters_and_pickle(setting: str) -> None:
    model = quiet(table(), init=LABELS, **SETTINGS[setting])
    copied = clone(model)
    assert not hasattr(copied, "means_")
    assert str(copied.get_params()) == str(model.get_params())
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(table()), model.predict_proba(table()))
    assert_same_mixture(model, again)


def test_grid_search_reaches_into_the_grouping() -> None:
    # The truth has two groups per component; three repeats of the rows so that every fold has both clusters.
    X = np.random.default_rng(0).permutation(table(n_rows=150))
    grid = {"n_column_groups": [1, 2, 6], "grouping__linkage": ["average", "single"]}
    search = GridSearchCV(Fit(2, grouping=HierarchicalGrouping(), random_state=0), grid, cv=3).fit(X)
    assert search.best_params_["n_column_groups"] == 2


def test_parameters_are_not_changed_by_fit() -> None:
    grouping, rule = GreedyGrouping(), SilhouetteRule(candidates=[2, 3])
    model = quiet(table(), n_column_groups=rule, grouping=grouping, init=LABELS)
    assert model.grouping is grouping
    assert model.n_column_groups is rule
    assert model.init is LABELS
    assert set(model.n_column_groups_.tolist()) <= {2, 3}


def test_numpys_numbers_are_numbers() -> None:
    plain = Fit(2, 2, init=LABELS, ridge=0.25, tol=0.5, shrinkage=0.5, max_iter=9).fit(table())
    numpys: dict[str, Any] = {"ridge": np.float32(0.25), "tol": np.float32(0.5), "shrinkage": np.float32(0.5)}
    same = Fit(np.int64(2), np.int32(2), init=LABELS, max_iter=np.int64(9), **numpys).fit(table())
    assert_same_mixture(plain, same)
    assert_same_mixture(plain, Fit(2, np.array([2, 2]), init=LABELS, max_iter=9, **numpys).fit(table()))


def test_nothing_is_known_before_fit() -> None:
    model = Fit(2)
    names = ["weights_", "means_", "covariances_", "blocks_", "column_labels_", "n_column_groups_", "n_parameters_"]
    for name in [*names, "rows_", "columns_", "biclusters_", "labels_", "n_features_in_"]:
        assert not hasattr(model, name)
    with pytest.raises(NotFittedError):
        model.predict(table())


# Names, samples, biclusters.


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_keep_their_column_names(frame: Callable[[dict[str, Matrix]], Any]) -> None:
    X = frame(dict(zip(NAMES, table(n_rows=200).T, strict=True)))
    model = Fit(2, random_state=0).fit(X)
    assert model.feature_names_in_.tolist() == NAMES
    plain = Fit(2, random_state=0).fit(table(n_rows=200))
    assert_same_mixture(plain, model)
    assert_allclose(model.predict_proba(X), plain.predict_proba(table(n_rows=200)), atol=1e-10)
    text = model.describe()
    assert "(3): age, rent, luck" in text and "(3): age, luck, waist" in text
    assert text.startswith("Two clusters of 200 and 200 rows.")
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(X.rename(columns={"age": "old"}) if frame is pd.DataFrame else X.rename({"age": "old"}))


def test_samples_have_the_moments_of_the_fit() -> None:
    model = Fit(2, [2, 3], init=LABELS, random_state=0).fit(table())
    X, labels = model.sample(40_000)
    assert_allclose(np.bincount(labels) / 40_000, model.weights_, atol=0.01)
    for g in range(2):
        deviations = np.sqrt(np.diag(model.covariances_[g]))
        assert_allclose((X[labels == g].mean(axis=0) - model.means_[g]) / deviations, 0, atol=0.05)
        difference = np.cov(X[labels == g].T) - model.covariances_[g]
        assert_allclose(difference / np.outer(deviations, deviations), 0, atol=0.05)


def test_biclusters_are_the_rows_of_a_component_and_the_columns_of_its_groups() -> None:
    X = table()
    model = Fit(2, [2, 3], init=LABELS).fit(X)
    assert model.rows_.shape == (5, 80)
    assert model.columns_.shape == (5, 6)
    owner = [0, 0, 1, 1, 1]
    group = [0, 1, 0, 1, 2]
    for i in range(5):
        rows, columns = model.get_indices(i)
        assert np.array_equal(rows, np.flatnonzero(model.row_labels_ == owner[i]))
        assert np.array_equal(columns, np.flatnonzero(model.column_labels_[owner[i]] == group[i]))
        assert np.array_equal(model.get_submatrix(i, X), X[np.ix_(rows, columns)])
        assert model.get_shape(i) == (len(rows), len(columns))
