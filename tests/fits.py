"""A small table of two clusters, fits of it without warnings, and what makes two fits the same."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning
from strategies import Matrix, block_rows

from blockmix import GaussianBiclustering
from blockmix.estimators.fitting import FitWarning
from blockmix.partition import Partition

TRUTH = (Partition([0, 0, 0, 1, 1, 1]), Partition([0, 1, 0, 1, 0, 1]))
LABELS = np.repeat([0, 1], 40)
NAMES = ["age", "rent", "luck", "hip", "waist", "income"]

SETTINGS: dict[str, dict[str, Any]] = {
    "auto": {},
    "full": {"n_column_groups": 1},
    "diagonal": {"n_column_groups": 6},
    "three": {"n_column_groups": 3},
    "each": {"n_column_groups": [2, 4]},
    "silhouette": {"n_column_groups": "silhouette"},
    "tied": {"n_column_groups": 2, "shared_covariance": True},
    "shrunk": {"n_column_groups": 2, "shrinkage": 0.3},
    "shrunk tied": {"shared_covariance": True, "shrinkage": 0.3},
    "ridged": {"n_column_groups": 2, "ridge": 0.1},
    "greedy": {"n_column_groups": 2, "grouping": "greedy"},
    "relaxed": {"n_column_groups": 2, "grouping": "relaxed", "random_state": 0},
}
every_setting = pytest.mark.parametrize("setting", SETTINGS)
STARTS = ("auto", "kmeans")


def Fit(*given: Any, rounding: bool = True, ridge: float = 1e-9, **parameters: Any) -> GaussianBiclustering:
    """The estimator, with the numerics that are not parameters."""
    model = GaussianBiclustering(*given, **parameters)
    vars(model).update({} if rounding else {"_rounding": False}, **({} if ridge == 1e-9 else {"_ridge": ridge}))
    return model


def table(seed: int = 0, n_rows: int = 40, apart: float = 2.0) -> Matrix:
    """Two clusters of rows with different column groups, in columns of different place and scale."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([block_rows(rng, n_rows, TRUTH[0]), block_rows(rng, n_rows, TRUTH[1]) + apart])
    return X * np.arange(1, 7) + np.arange(6)


def drawn(seed: int, n_rows: int = 80, n_components: int = 2) -> Matrix:
    """Responsibilities drawn evenly: a start from which EM has some way to go."""
    return np.random.default_rng(seed).dirichlet(np.ones(n_components), n_rows)


def quiet(X: Any, sample_weight: Any = None, checkpoint: Any = None, **parameters: Any) -> GaussianBiclustering:
    """Fit without the warnings on how it ended, which small tables often give."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FitWarning)
        return Fit(**{"n_components": 2, **parameters}).fit(X, sample_weight=sample_weight, checkpoint=checkpoint)


def assert_same_mixture(a: Fit, b: Fit, order: Any = slice(None), atol: float = 1e-6) -> None:
    """Equal up to the order of the components: component g of b is component order[g] of a."""
    assert_allclose(b.log_likelihood_trace_, a.log_likelihood_trace_, rtol=1e-8)
    assert_allclose(b.weights_, a.weights_[order], atol=atol)
    assert_allclose(b.means_, a.means_[order], atol=atol * np.abs(a.means_).max())
    assert_allclose(b.covariances_, a.covariances_[order], atol=atol * np.abs(a.covariances_).max())
    assert np.array_equal(b.column_labels_, a.column_labels_[order])
    assert b.outcome_ == a.outcome_
    assert b.n_parameters_ == a.n_parameters_
