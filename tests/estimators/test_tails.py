"""tails="t": the estimator with heavy tails, wherever its rows are, and the far rows it tells of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fits import drawn, quiet
from fits import table as small_table
from numpy.testing import assert_allclose, assert_array_equal
from optional import package
from scipy.stats import chi2, kstest, multivariate_t
from sklearn.metrics import adjusted_rand_score
from sources import as_npy, as_parquet, assert_same_fit, pieces_of, table
from strategies import Matrix, block_rows

from blockmix import GaussianBiclustering, load
from blockmix.em.loop import Progress
from blockmix.partition import Partition

SETTINGS: dict[str, Any] = {"n_components": 2, "tails": "t", "random_state": 0}
VARIANTS: dict[str, dict[str, Any]] = {
    "own": {},
    "shared": {"shared_covariance": True},
    "given": {"n_column_groups": 2},
    "factor": {"block_model": 1},
    "shrunk": {"shrinkage": 0.2},
}


def contaminated(seed: int = 0, n_rows: int = 150, n_far: int = 12) -> tuple[Matrix, Matrix]:
    """Two clusters with different column groups, and rows that are far from both; the cluster of each, −1 for those."""
    rng = np.random.default_rng(seed)
    X = np.concatenate(
        [
            block_rows(rng, n_rows, Partition([0, 0, 0, 1, 1, 1])),
            block_rows(rng, n_rows, Partition([0, 1, 0, 1, 0, 1])) + 5,
            rng.uniform(-60, 60, (n_far, 6)),
        ]
    )
    return X, np.repeat([0, 1, -1], [n_rows, n_rows, n_far])


def start(labels: Matrix) -> Matrix:
    return np.maximum(labels, 0)


# Densities and samples


@pytest.mark.parametrize("variant", VARIANTS)
def test_scores_are_those_of_scipy(variant: str) -> None:
    model = quiet(small_table(), **SETTINGS | VARIANTS[variant], rounding=False)
    X = np.random.default_rng(1).standard_normal((20, 6)) * 10
    parts = zip(model.weights_, model.means_, model.covariances_, model.degrees_of_freedom_, strict=True)
    densities = [w * multivariate_t(m, S, nu).pdf(X) for w, m, S, nu in parts]
    assert_allclose(model.score_samples(X), np.log(np.sum(densities, axis=0)), rtol=1e-9)
    assert_allclose(model.predict_proba(X), np.transpose(densities / np.sum(densities, axis=0)), atol=1e-9)


def test_samples_have_the_tails_of_the_model() -> None:
    X = multivariate_t([0, 1], [[1, 0.5], [0.5, 1]], 2.5).rvs(2000, random_state=0)
    model = GaussianBiclustering(1, 1, tails="t", random_state=0).fit(X)
    assert 2 < model.degrees_of_freedom_[0] < 3.2
    drawn, _ = model.sample(5000)
    distances = np.sum(
        (drawn - model.means_[0]) * np.linalg.solve(model.covariances_[0], (drawn - model.means_[0]).T).T, 1
    )
    assert kstest(distances / 2, "f", (2, model.degrees_of_freedom_[0])).pvalue > 1e-3
    assert kstest(distances, "chi2", (2,)).pvalue < 1e-10  # red if the rows are drawn from the normal component


def test_the_number_of_parameters_has_the_degrees_of_freedom() -> None:
    X = small_table()
    normal, heavy = (quiet(X, n_column_groups=2, tails=tails, random_state=0) for tails in ("normal", "t"))
    assert heavy.n_parameters_ == normal.n_parameters_ + 2
    assert np.isinf(normal.degrees_of_freedom_).all()
    assert heavy.bic(X) == pytest.approx(-2 * heavy.log_likelihood_ + heavy.n_parameters_ * np.log(len(X)), rel=1e-12)


# Laws of the fit


@pytest.mark.parametrize("seed", range(4))
def test_the_trace_never_falls_with_few_rows_and_factors(seed: int) -> None:
    # Red if the factors of a block start from its old covariance: PX-EM has changed the scale of that.
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((20, 40)) @ (0.3 * rng.standard_normal((40, 40)) + np.eye(40))
    X[:2] *= 5
    model = quiet(
        X, **SETTINGS | {"random_state": seed}, n_column_groups=1, block_model=2, init=drawn(seed, 20), max_iter=40
    )
    assert (np.diff(model.log_likelihood_trace_) >= -1e-10 * np.abs(model.log_likelihood_trace_).max()).all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_weight_of_two_is_a_row_twice(variant: str) -> None:
    X, labels = contaminated()
    weights = np.where(np.arange(len(X)) % 3, 1.0, 2.0)
    twice = np.concatenate([X, X[::3]])
    given = SETTINGS | VARIANTS[variant] | {"rounding": False, "tol": 1e-9}
    weighed = quiet(X, weights, **given, init=start(labels))
    repeated = quiet(twice, **given, init=np.concatenate([start(labels), start(labels)[::3]]))
    assert_allclose(weighed.means_, repeated.means_, atol=1e-6)
    assert_allclose(weighed.degrees_of_freedom_, repeated.degrees_of_freedom_, rtol=1e-4)
    assert_array_equal(weighed.column_labels_, repeated.column_labels_)
    assert weighed.bic(X, weights) == pytest.approx(repeated.bic(twice), rel=1e-8)


def test_units_change_neither_tails_nor_groups_nor_far_rows() -> None:
    X, labels = contaminated()
    units = 10.0 ** np.arange(-3, 3)
    model, other = (quiet(rows, **SETTINGS, init=start(labels), tol=1e-8) for rows in (X, X * units + 7 * units))
    assert_allclose(other.degrees_of_freedom_, model.degrees_of_freedom_, rtol=1e-5)
    assert_array_equal(other.column_labels_, model.column_labels_)
    assert_allclose(other.outlier_scores_, model.outlier_scores_, rtol=1e-5)
    assert_array_equal(other.outlier_groups_, model.outlier_groups_)


@pytest.mark.parametrize("variant", ["own", "shared"])
def test_files_chunks_and_dask_agree_with_the_array(variant: str, tmp_path: Path) -> None:
    X = table()
    X[:9] *= 30
    # The shared shortcut of the normal mixture must not be taken: its log-odds are linear.
    given = SETTINGS | VARIANTS[variant] | {"tol": 1e-8}
    expected = quiet(X, **given)
    da = package("dask.array")
    others = [as_npy(X, tmp_path), as_parquet(X, tmp_path / "X.parquet"), pieces_of(X), da.from_array(X, (90, 4))]
    for rows in others:
        with package("dask").config.set(scheduler="threads"):
            model = quiet(rows, **given)
        assert_same_fit(model, expected)
        for name in ("degrees_of_freedom_", "outlier_scores_", "outliers_", "outlier_groups_"):
            assert_allclose(getattr(model, name), getattr(expected, name), rtol=1e-6, err_msg=name)


# What is stored


def test_a_saved_model_is_the_model(tmp_path: Path) -> None:
    X, _ = contaminated()
    model = quiet(X, **SETTINGS)
    model.save(tmp_path / "model.blockmix")
    again = load(tmp_path / "model.blockmix")
    for name in ("degrees_of_freedom_", "outlier_scores_", "outliers_", "outlier_groups_"):
        assert_array_equal(getattr(again, name), getattr(model, name))
    assert_array_equal(again.score_samples(X), model.score_samples(X))
    assert_array_equal(again.group_distances(X), model.group_distances(X))
    assert_array_equal(again.sample(7)[0], model.sample(7)[0])


def test_a_killed_fit_goes_on_where_it_was(tmp_path: Path) -> None:
    X, _ = contaminated()
    expected = quiet(X, **SETTINGS, tol=1e-9)

    def stop(progress: Progress) -> None:
        if progress.iteration == 4:
            raise RuntimeError("killed")

    model, path = GaussianBiclustering(**SETTINGS, tol=1e-9), tmp_path / "fit"
    with pytest.raises(RuntimeError, match="killed"):
        model.fit(X, callback=stop, checkpoint=path)
    assert path.exists()
    model.fit(X, checkpoint=path)
    assert_array_equal(model.degrees_of_freedom_, expected.degrees_of_freedom_)
    assert_array_equal(model.log_likelihood_trace_, expected.log_likelihood_trace_)


# Far rows


def test_far_rows_neither_make_a_cluster_nor_hide() -> None:
    X, labels = contaminated()
    clean = labels >= 0
    model = quiet(X, **SETTINGS, init=start(labels))
    assert adjusted_rand_score(labels[clean], model.row_labels_[clean]) > 0.98
    assert model.column_labels_.tolist() == [[0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1]]
    assert model.outliers_[~clean].mean() > 0.9
    assert model.outliers_[clean].mean() < 0.03
    normal = quiet(X, **SETTINGS | {"tails": "normal"}, init=start(labels))
    assert model.bic(X) < normal.bic(X)


@pytest.mark.parametrize("tails", ["normal", "t"])
def test_scores_are_squared_distances_and_groups_add_up(tails: str) -> None:
    X, labels = contaminated()
    model = quiet(X, **SETTINGS | {"tails": tails}, init=start(labels), rounding=False)
    own = model.row_labels_
    centered = X - model.means_[own]
    precisions = np.linalg.inv(model.covariances_)[own]
    expected = np.einsum("ni,nij,nj->n", centered, precisions, centered)
    assert_allclose(model.outlier_scores_, expected, rtol=1e-7)
    assert_allclose(np.nansum(model.group_distances(X), axis=1), expected, rtol=1e-7)
    assert_array_equal(model.outliers_, expected > chi2.ppf(0.999, 6))


def test_the_group_in_which_a_row_is_far_is_named() -> None:
    X, labels = contaminated(n_far=0)
    X[7, 4] += 30  # of the first cluster, whose second group has columns 3, 4, 5
    X[200, 0] += 30  # of the second, whose first group has columns 0, 2, 4
    model = quiet(X, **SETTINGS, init=start(labels))
    groups = [model.column_labels_[model.row_labels_[row], column] for row, column in ((7, 4), (200, 0))]
    assert model.outliers_[[7, 200]].all()
    assert model.outlier_groups_[[7, 200]].tolist() == groups


def test_groups_of_different_sizes_are_compared_by_their_chance() -> None:
    # Red if the largest distance were named: 8 columns have a distance of about 8 without being far.
    rng = np.random.default_rng(0)
    X = np.concatenate([block_rows(rng, 300, Partition([0] * 8 + [1, 1]))])
    model = GaussianBiclustering(1, 2, random_state=0).fit(X)
    chances = chi2.sf(model.group_distances(X), [8, 2])
    extreme = chances.min(axis=1) < 0.02
    assert extreme.sum() > 5
    assert (model.outlier_groups_[extreme] == chances[extreme].argmin(axis=1)).mean() > 0.9


def test_a_normal_mixture_marks_one_clean_row_in_a_thousand() -> None:
    X = np.random.default_rng(0).standard_normal((20000, 4))
    model = GaussianBiclustering(1, random_state=0).fit(X)
    assert 0.0004 < model.outliers_.mean() < 0.002


@pytest.mark.parametrize("tails", ["T", "cauchy", None, True])
def test_other_tails_are_refused(tails: Any) -> None:
    with pytest.raises(ValueError, match='must be "normal" or "t"'):
        GaussianBiclustering(2, tails=tails).fit(small_table())
