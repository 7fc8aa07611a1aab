"""GaussianBiclustering: scikit-learn's corners step by step, what changes nothing, how a fit ends, and its contract."""

from __future__ import annotations

import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import oracles
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks
from strategies import SPARSE_CHECKS, Matrix, block_rows, rescaled, seeds
from threadpoolctl import ThreadpoolController, threadpool_limits

from blockmix import GaussianBiclustering
from blockmix.em.multistart import Progress
from blockmix.em.starts.starts import distinct, start
from blockmix.grouping import BicRule, GreedyGrouping, HierarchicalGrouping, RelaxedGrouping, SilhouetteRule
from blockmix.structure.partition import Partition

Fit = GaussianBiclustering
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
    "penalized": {"grouping": "penalized"},
    "relaxed": {"n_column_groups": 2, "grouping": "relaxed", "random_state": 0},
}
every_setting = pytest.mark.parametrize("setting", SETTINGS)
STARTS = ("kmeans", "kmeans++", "random", "whitened", "hierarchical", "annealed")


def table(seed: int = 0, n_rows: int = 40, apart: float = 2.0) -> Matrix:
    """Two clusters of rows with different column groups, in columns of different place and scale."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([block_rows(rng, n_rows, TRUTH[0]), block_rows(rng, n_rows, TRUTH[1]) + apart])
    return X * np.arange(1, 7) + np.arange(6)


def quiet(X: Any, sample_weight: Any = None, **parameters: Any) -> GaussianBiclustering:
    """Fit without the warnings on how it ended, which small tables often give."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return Fit(**{"n_components": 2, **parameters}).fit(X, sample_weight=sample_weight)


def assert_same_mixture(a: Fit, b: Fit, order: Any = slice(None), atol: float = 1e-6) -> None:
    """Equal up to the order of the components: component g of b is component order[g] of a."""
    assert_allclose(b.log_likelihood_trace_, a.log_likelihood_trace_, rtol=1e-8)
    assert_allclose(b.weights_, a.weights_[order], atol=atol)
    assert_allclose(b.means_, a.means_[order], atol=atol * np.abs(a.means_).max())
    assert_allclose(b.covariances_, a.covariances_[order], atol=atol * np.abs(a.covariances_).max())
    assert np.array_equal(b.column_labels_, a.column_labels_[order])
    assert b.outcome_ == a.outcome_
    assert b.n_parameters_ == a.n_parameters_


# Corners: scikit-learn's mixtures from the same start.


class FromLabels(GaussianMixture):
    """scikit-learn's mixture with its first M-step from given labels."""

    def __init__(self, labels: Any = None, n_components: int = 1, covariance_type: str = "full", **other: Any) -> None:
        super().__init__(n_components, covariance_type=covariance_type, **other)
        self.labels = labels

    def _initialize_parameters(self, X: Matrix, random_state: object, xp: object = None) -> None:
        self._initialize(X, np.eye(self.n_components)[self.labels])


CORNERS = {"full": (1, False), "diag": (5, False), "tied": (1, True)}


@pytest.mark.parametrize("covariance_type", CORNERS)
@pytest.mark.parametrize("seed", range(4))
def test_corners_follow_scikit_learn_step_by_step(covariance_type: str, seed: int) -> None:
    n_groups, shared = CORNERS[covariance_type]
    rng = np.random.default_rng(seed)
    G, p, N, steps = 3, 5, 150, 40
    X = (
        rng.standard_normal((N, p)) @ rng.standard_normal((p, p))
        + 2 * rng.standard_normal((G, p))[rng.integers(0, G, N)]
    )
    labels = rng.integers(0, G, N)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        options: dict[str, Any] = {"n_components": G, "tol": 0.0, "max_iter": steps}
        theirs = FromLabels(labels, covariance_type=covariance_type, reg_covar=0, **options).fit(X)
        ours = Fit(n_column_groups=n_groups, shared_covariance=shared, ridge=0, init=labels, **options).fit(X)
    covariances = {
        "full": lambda found: found,
        "diag": lambda found: np.stack([np.diag(variances) for variances in found]),
        "tied": lambda found: np.stack([found] * G),
    }[covariance_type](theirs.covariances_)
    assert len(ours.log_likelihood_trace_) == len(theirs.lower_bounds_) == steps
    assert_allclose(ours.log_likelihood_trace_ / N, theirs.lower_bounds_, atol=1e-8)
    assert_allclose(ours.weights_, theirs.weights_, atol=1e-8)
    assert_allclose(ours.means_, theirs.means_, atol=1e-8)
    assert_allclose(ours.covariances_, covariances, atol=1e-8)
    assert ours.n_parameters_ == theirs._n_parameters()
    assert ours.bic(X) == pytest.approx(theirs.bic(X), rel=1e-10)
    assert ours.aic(X) == pytest.approx(theirs.aic(X), rel=1e-10)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-8)
    assert_allclose(ours.score_samples(X), theirs.score_samples(X), atol=1e-8)


def test_tight_clusters_that_share_a_covariance_keep_its_digits() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 4)) @ rng.standard_normal((4, 4))
    labels = np.repeat([0, 1, 2], 30)
    Y = X + 1e3 * np.eye(3, 4)[labels]
    model = quiet(Y, n_components=3, n_column_groups=1, shared_covariance=True, ridge=0, init=labels)
    within = X - np.stack([X[labels == g].mean(axis=0) for g in range(3)])[labels]
    assert_allclose(model.covariances_[0], within.T @ within / 90, rtol=1e-7, atol=1e-8)


# Laws.


@every_setting
def test_the_result_is_the_mixture_it_says(setting: str) -> None:
    X = table()
    model = quiet(X, init=LABELS, **SETTINGS[setting])
    joint = oracles.log_joint(X, model.weights_, model.means_, model.covariances_)
    density = logsumexp(joint, axis=1)
    assert_allclose(model.score_samples(X), density, rtol=1e-8)
    assert model.log_likelihood_ == pytest.approx(density.sum(), rel=1e-10)
    assert_allclose(model.predict_proba(X), np.exp(joint - density[:, None]), atol=1e-8)
    assert np.array_equal(model.row_labels_, joint.argmax(axis=1))
    assert np.array_equal(model.row_labels_, model.predict(X))
    assert np.array_equal(model.labels_, model.fit_predict(X) if model.converged_ else model.row_labels_)
    assert_allclose(model.weights_.sum(), 1)
    assert model.n_iter_ == len(model.log_likelihood_trace_)
    groups = [Partition(labels) for labels in model.column_labels_]
    assert model.n_column_groups_.tolist() == [partition.n_groups for partition in groups]
    for block, partition, dense in zip(model.blocks_, groups, model.covariances_, strict=True):
        assert block.partition == partition
        assert_allclose(dense, oracles.block_diagonal(dense, partition.labels))
    shared = model.shared_covariance
    assert (model.blocks_[0] is model.blocks_[1]) == shared
    free = [oracles.n_parameters(partition.labels) for partition in groups[: 1 if shared else None]]
    assert model.n_parameters_ == 1 + 12 + sum(free)
    assert model.icl(X) >= model.bic(X) == pytest.approx(-2 * density.sum() + model.n_parameters_ * np.log(80))


@pytest.mark.parametrize("n_column_groups", [1, 3, "auto"])
@pytest.mark.parametrize("max_iter", [1, 2, 7])
def test_the_log_likelihood_is_that_of_the_parameters_at_the_iteration_limit_too(
    n_column_groups: Any, max_iter: int
) -> None:
    # Red if it is read from the trace: there the parameters are one step ahead of it.
    X = table(apart=1.0)
    model = quiet(X, n_column_groups=n_column_groups, init="random", random_state=0, max_iter=max_iter, tol=0)
    assert model.outcome_ == "iteration limit"
    assert model.log_likelihood_ == pytest.approx(model.score_samples(X).sum(), rel=1e-10)
    assert model.log_likelihood_ == pytest.approx(X.shape[0] * model.score(X), rel=1e-10)


def test_the_paper_s_rows_and_columns_are_found() -> None:
    X = table(n_rows=200)
    model = Fit(2, random_state=0).fit(X)  # warnings are errors: it converges
    assert adjusted_rand_score(model.row_labels_, np.repeat([0, 1], 200)) > 0.95
    first = model.row_labels_[0]
    assert Partition(model.column_labels_[first]) == TRUTH[0]
    assert Partition(model.column_labels_[1 - first]) == TRUTH[1]
    assert model.converged_
    assert model.outcome_ == "converged"


@every_setting
def test_permuting_rescaling_and_shifting_columns_permutes_the_groups_and_nothing_else(setting: str) -> None:
    rng = np.random.default_rng(3)
    X = table()
    permutation, factors, shift = rng.permutation(6), rescaled(rng, 6), 10 * rng.standard_normal(6)
    before = quiet(X, init=LABELS, **SETTINGS[setting])
    Y = (X * factors + shift)[:, permutation]
    after = quiet(Y, init=LABELS, **SETTINGS[setting])
    for old, new in zip(before.column_labels_, after.column_labels_, strict=True):
        assert Partition(new) == Partition(old[permutation])
    assert_allclose(after.predict_proba(Y), before.predict_proba(X), atol=1e-6)
    stretch = len(X) * np.log(np.abs(factors)).sum()
    assert_allclose(after.log_likelihood_trace_, before.log_likelihood_trace_ - stretch, rtol=1e-7, atol=1e-4)
    assert_allclose(after.means_, (before.means_ * factors + shift)[:, permutation], rtol=1e-5, atol=1e-6)
    assert after.n_parameters_ == before.n_parameters_


@every_setting
def test_swapping_the_components_of_the_start_swaps_the_components(setting: str) -> None:
    parameters = dict(SETTINGS[setting])
    before = quiet(table(), init=LABELS, **parameters)
    if setting == "each":
        parameters["n_column_groups"] = [4, 2]
    assert_same_mixture(before, quiet(table(), init=1 - LABELS, **parameters), [1, 0])
    z = np.eye(2)[LABELS]
    assert_same_mixture(before, quiet(table(), init=z[:, ::-1], **parameters), [1, 0])


@pytest.mark.parametrize("other", [[7, 9], [-1, 4], ["a", "b"], [0.5, 1.5], [False, True]])
def test_labels_of_a_start_are_names_in_their_order(other: list[Any]) -> None:
    before = quiet(table(), n_column_groups=2, init=LABELS)
    assert_same_mixture(before, quiet(table(), n_column_groups=2, init=np.array(other)[LABELS]))
    assert_same_mixture(before, quiet(table(), n_column_groups=2, init=[other[k] for k in LABELS]))
    assert_same_mixture(before, quiet(table(), n_column_groups=2, init=np.array(other)[1 - LABELS]), [1, 0])


@every_setting
def test_a_weight_of_two_is_a_repeated_row_and_the_order_of_the_rows_is_none(setting: str) -> None:
    # Red if rows are counted without their weights anywhere: priors, prices, thresholds.
    rng = np.random.default_rng(0)
    X = table(apart=1.5)
    counts = rng.integers(0, 4, len(X))
    weighted = quiet(X, counts, init=LABELS, **SETTINGS[setting])
    order = rng.permutation(counts.sum())
    repeated = quiet(np.repeat(X, counts, axis=0)[order], init=np.repeat(LABELS, counts)[order], **SETTINGS[setting])
    assert_same_mixture(weighted, repeated)
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)
    assert weighted.log_likelihood_ == pytest.approx(repeated.log_likelihood_)
    # Without weights it is another mixture, so the lines above can fail.
    assert np.abs(quiet(X, init=LABELS, **SETTINGS[setting]).means_ - weighted.means_).max() > 1e-3


@pytest.mark.parametrize("init", [*STARTS, "portfolio"])
def test_named_starts_see_neither_repeats_nor_the_order_of_rows_and_columns(init: str) -> None:
    # Red if a start draws rows by their position in X.
    rng = np.random.default_rng(1)
    X = np.round(table(apart=4.0), 1)
    counts = rng.integers(0, 4, len(X))
    options = {"n_components": 3, "n_column_groups": 2, "init": init, "random_state": 5, "max_iter": 30}
    weighted = quiet(X, counts, **options)
    order, columns = rng.permutation(counts.sum()), rng.permutation(6)
    repeated = quiet((-np.repeat(X, counts, axis=0))[order][:, columns], **options)
    assert_allclose(repeated.log_likelihood_trace_, weighted.log_likelihood_trace_, rtol=1e-7)
    assert_allclose(repeated.predict_proba(-X[:, columns]), weighted.predict_proba(X), atol=1e-5)


@every_setting
@pytest.mark.parametrize("kind", ["labels", "random"])
def test_float32_stays_float32(setting: str, kind: str) -> None:
    X = table()
    init = LABELS if kind == "labels" else "random"
    parameters = {"init": init, "random_state": 0, **SETTINGS[setting]}
    model, wide = quiet(X.astype(np.float32), **parameters), quiet(X, **parameters)
    found = [model.weights_, model.means_, model.covariances_, model.predict_proba(X), model.score_samples(X)]
    assert {array.dtype for array in found} == {np.dtype(np.float32)}
    assert wide.means_.dtype == wide.covariances_.dtype == np.float64
    assert np.diff(model.log_likelihood_trace_).min(initial=0) >= -1e-5 * abs(model.log_likelihood_)
    if kind == "labels":
        assert np.array_equal(model.column_labels_, wide.column_labels_)
        assert_allclose(model.means_, wide.means_, atol=2e-2)
        assert model.log_likelihood_ == pytest.approx(wide.log_likelihood_, rel=1e-4)
        assert (model.row_labels_ == wide.row_labels_).mean() > 0.97
    X_new, labels = model.sample(20)
    assert X_new.shape == (20, 6)
    assert len(labels) == 20


def data(kind: str, rng: np.random.Generator) -> Matrix:
    """Rows of up to four components: dense, in blocks, singular, wider than long, with tiny components."""
    G, p, N = int(rng.integers(1, 5)), int(rng.integers(2, 10)), int(rng.integers(20, 90))
    if kind == "wide":
        N, p = int(rng.integers(6, 20)), int(rng.integers(20, 40))
    labels = rng.integers(0, G, N)
    if kind == "tiny":
        labels = np.where(np.arange(N) < 3, labels, 0)
    X = np.empty((N, p))
    for g in range(G):
        loadings = rng.standard_normal((p, p))
        if kind == "block":
            groups = rng.integers(0, 3, p)
            loadings = loadings * (groups[:, None] == groups)
        X[labels == g] = rng.standard_normal(((labels == g).sum(), p)) @ loadings.T + 3 * rng.standard_normal(p)
    if kind == "singular":
        X[:, 0] = X[:, -1]
        X[: N // 2, p // 2] = 1.0
        X[N // 2 : N // 2 + 5] = X[N // 2]
    return X


@pytest.mark.parametrize("kind", ["dense", "block", "singular", "wide", "tiny"])
@pytest.mark.parametrize("grouping", ["hierarchical", "greedy", "penalized", "relaxed"])
@settings(max_examples=5)
@given(data_=st.data())
def test_the_trace_never_falls_and_nothing_is_nan(kind: str, grouping: str, data_: st.DataObject) -> None:
    seed = data_.draw(seeds)
    rng = np.random.default_rng(seed)
    X = data(kind, rng)
    N, p = X.shape
    parameters = {
        "n_components": int(rng.integers(1, 6)),
        "n_column_groups": [1, p, int(rng.integers(1, p + 1)), "auto", "silhouette"][rng.integers(5)],
        "shared_covariance": bool(rng.integers(2)),
        "shrinkage": [None, 0.1, 0.5][rng.integers(3)],
        "init": STARTS[rng.integers(len(STARTS))],
    }
    weights = rng.integers(0, 3, N) + 1 if rng.integers(2) else None
    model = quiet(X, weights, grouping=grouping, random_state=seed, max_iter=25, **parameters)
    assert np.diff(model.log_likelihood_trace_).min(initial=0) >= -1e-10 * np.abs(model.log_likelihood_trace_).max()
    for values in (model.means_, model.covariances_, model.predict_proba(X), model.score_samples(X)):
        assert np.isfinite(values).all()
    number = parameters["n_column_groups"]
    assert isinstance(number, str) or set(model.n_column_groups_.tolist()) == {number}


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("n_column_groups", [1, "auto", "bic", "silhouette"])
@pytest.mark.parametrize("grouping", ["hierarchical", "greedy", "penalized", "relaxed"])
def test_tables_of_one_and_two_columns_are_fitted(p: int, n_column_groups: Any, grouping: str) -> None:
    X = table()[:, :p]
    model = quiet(X, n_column_groups=n_column_groups, grouping=grouping, random_state=0)
    assert model.column_labels_.shape == (2, p)
    assert np.isfinite(model.score(X))


@pytest.mark.parametrize("setting", ["auto", "three", "tied"])
def test_threads_over_chunks_change_nothing(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X = table(n_rows=300)
    labels = np.repeat([0, 1], 300)
    whole = quiet(X, init=labels, **SETTINGS[setting])
    monkeypatch.setattr("blockmix.rows.chunks._CHUNK_NUMBERS", 1)  # chunks of 64 rows
    found = []
    for cores in (1, 2, 3):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        found.append(quiet(X, init=labels, **SETTINGS[setting]))
        assert_same_mixture(whole, found[-1])
    assert np.array_equal(found[0].log_likelihood_trace_, found[1].log_likelihood_trace_)
    assert np.array_equal(found[0].log_likelihood_trace_, found[2].log_likelihood_trace_)


def test_a_table_in_columns_order_or_with_gaps_is_the_same_table() -> None:
    X = table()
    plain = quiet(X, n_column_groups=2, init=LABELS)
    gaps = np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2]
    for other in (np.asfortranarray(X), gaps, X.tolist()):
        assert_same_mixture(plain, quiet(other, n_column_groups=2, init=LABELS))


def test_neither_table_nor_weights_nor_start_are_changed() -> None:
    X, weights, z = table(), np.arange(80) % 3 + 1.0, np.random.default_rng(0).dirichlet([1, 1], 80)
    held = [array.copy() for array in (X, weights, z)]
    quiet(X, weights, init=z)
    assert all(np.array_equal(a, b) for a, b in zip(held, (X, weights, z), strict=True))


# Names, samples, biclusters.


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_keep_their_column_names(frame: Callable[[dict[str, Matrix]], Any]) -> None:
    X = frame(dict(zip(NAMES, table(n_rows=200).T, strict=True)))
    model = Fit(2, random_state=0).fit(X)
    assert model.feature_names_in_.tolist() == NAMES
    plain = Fit(2, random_state=0).fit(table(n_rows=200))
    assert_same_mixture(plain, model)
    assert_allclose(model.predict_proba(X), plain.predict_proba(table(n_rows=200)), atol=1e-10)
    first = model.row_labels_[0]
    lines = model.describe().splitlines()
    assert "  3 together: age, rent, luck" in lines
    assert "  3 together: age, luck, waist" in lines
    assert lines[3 * first].startswith(f"component {first}: {(model.row_labels_ == first).sum()} rows, weight 0.")
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


# Starts.


@given(seeds, st.integers(1, 40), st.integers(1, 3), st.integers(1, 3))
def test_different_rows_are_each_there_once_in_an_order_of_their_own(
    seed: int, n_rows: int, p: int, largest: int
) -> None:
    # Small integers of both signs: many repeats, and many rows of equal length that differ.
    rng = np.random.default_rng(seed)
    X, weights = rng.integers(-largest, largest + 1, (n_rows, p)).astype(float), rng.integers(0, 3, n_rows) * 1.0
    expected = {tuple(x): weights[(x == X).all(axis=1)].sum() for x in X[weights > 0]}
    found, totals, place = distinct(X, weights, 0)
    assert dict(zip(map(tuple, found), totals, strict=True)) == expected
    assert len(found) == len(expected)
    assert np.array_equal(found[place[weights > 0]], X[weights > 0])
    order = rng.permutation(n_rows)
    again = distinct(X[order], weights[order], 0)
    assert np.array_equal(again[0], found)
    assert np.array_equal(again[1], totals)
    assert np.array_equal(again[2], place[order])


def test_fewer_different_rows_than_components_are_left_as_they_are() -> None:
    X, weights = np.array([[1.0], [0.0], [1.0]]), np.array([1.0, 2.0, 3.0])
    assert len(distinct(X, weights, 2)[0]) == 2
    found = distinct(X, weights, 3)
    assert found[0] is X
    assert found[1] is weights
    assert found[2].tolist() == [0, 1, 2]


def alone(X: Matrix, n_starts: int, **parameters: Any) -> list[GaussianBiclustering]:
    """The fits that several random starts with seed 0 make, one by one."""
    rng, G = np.random.RandomState(0), parameters["n_components"]
    standard, weights, place = distinct((X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(X)), G)
    return [quiet(X, init=start("random", standard, weights, G, rng)[place], **parameters) for _ in range(n_starts)]


def test_n_init_keeps_the_best_start_and_shows_all_of_them() -> None:
    X = table(apart=1.0)
    options = {"n_components": 4, "n_column_groups": 6}
    model = quiet(X, init="random", n_init=5, random_state=0, **options)
    expected = [fit.log_likelihood_trace_[-1] for fit in alone(X, 5, **options)]
    order = np.argsort(expected)[::-1]
    names, objectives, iterations = zip(*model.starts_, strict=True)
    assert list(names) == [f"random {i + 1}" for i in order]
    assert_allclose(objectives, np.array(expected)[order])
    assert objectives[0] == model.log_likelihood_trace_[-1]
    assert iterations[0] == model.n_iter_
    assert np.ptp(expected) > 1  # the starts differ, so that there is something to choose


def test_one_component_has_one_start() -> None:
    assert len(quiet(table(), n_components=1, init="portfolio", n_init=3, random_state=0).starts_) == 1


def test_the_forecast_of_an_annealed_start_does_not_outlive_it() -> None:
    model = quiet(table()[::16], n_components=2, init="annealed", random_state=0)
    assert model.critical_ratio_ >= 1
    assert not hasattr(model.set_params(init="kmeans").fit(table()), "critical_ratio_")


def test_starts_with_thin_components_come_last() -> None:
    # Red if the likelihood alone decides: a covariance of six columns from eight rows has too much of it.
    X = np.concatenate([table(), table(seed=1, n_rows=4) + 60])
    options = {"n_components": 3, "n_column_groups": 1}
    fits = alone(X, 8, **options)
    thin = [int((fit.weights_ * 88 <= 6 + 5).sum()) for fit in fits]
    order = sorted(range(8), key=lambda i: (thin[i], -fits[i].log_likelihood_trace_[-1]))
    model = quiet(X, init="random", n_init=8, random_state=0, **options)
    assert [name for name, _, _ in model.starts_] == [f"random {i + 1}" for i in order]
    objectives = [objective for _, objective, _ in model.starts_]
    assert objectives != sorted(objectives, reverse=True)  # thin ones do have higher objectives


@pytest.mark.parametrize("init", ["random", "portfolio"])
@pytest.mark.parametrize("n_jobs", [2, -1])
def test_n_jobs_changes_nothing(init: str, n_jobs: int) -> None:
    options = {"n_components": 3, "n_column_groups": 2, "n_init": 2, "init": init, "random_state": 0}
    alone, together = quiet(table(), **options), quiet(table(), n_jobs=n_jobs, **options)
    assert alone.starts_ == together.starts_
    assert_same_mixture(alone, together)


def test_a_portfolio_tries_every_kind_and_shows_them() -> None:
    model = quiet(table(), init="portfolio", random_state=0, max_iter=5)
    kinds = {name.split()[0] for name, _, _ in model.starts_}
    assert kinds == set(STARTS) - {"annealed"}
    objectives = [objective for _, objective, _ in model.starts_]
    assert objectives == sorted(objectives, reverse=True)
    assert max(iterations for _, _, iterations in model.starts_) <= 5
    wide = quiet(table()[::8], n_components=2, init="portfolio", random_state=0, max_iter=2)
    assert "annealed" not in {name.split()[0] for name, _, _ in wide.starts_}
    wide = quiet(table()[::16], n_components=2, init="portfolio", random_state=0, max_iter=2)
    assert "annealed" in {name.split()[0] for name, _, _ in wide.starts_}


@pytest.mark.parametrize("init", [*STARTS, "portfolio"])
def test_the_seed_decides(init: str) -> None:
    options = {"n_components": 3, "n_column_groups": 2, "init": init, "max_iter": 5}
    first, second = (quiet(table(), random_state=7, **options) for _ in range(2))
    assert np.array_equal(first.means_, second.means_)
    assert first.starts_ == second.starts_


def test_the_seed_is_handed_to_a_grouping_that_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    group = RelaxedGrouping.group

    def listening(self: RelaxedGrouping, *arguments: Any) -> Any:
        asked.append(self.random_state)
        return group(self, *arguments)

    monkeypatch.setattr(RelaxedGrouping, "group", listening)
    quiet(table(), n_column_groups=2, grouping="relaxed", random_state=11)
    assert set(asked) == {11}


def test_warm_start_continues_where_the_last_fit_ended() -> None:
    X = table(apart=1.0)
    options = {"n_column_groups": 1, "init": LABELS, "tol": 0.0}
    whole = quiet(X, max_iter=20, **options)
    model = Fit(2, warm_start=True, max_iter=8, **options)
    with pytest.warns(ConvergenceWarning):
        model.fit(X)
    first = model.log_likelihood_trace_
    model.set_params(max_iter=12)
    with pytest.warns(ConvergenceWarning):
        model.fit(X)
    assert_allclose(np.concatenate([first, model.log_likelihood_trace_]), whole.log_likelihood_trace_, rtol=1e-10)
    assert_allclose(model.means_, whole.means_, atol=1e-6)
    assert [name for name, _, _ in model.starts_] == ["warm"]
    model.set_params(warm_start=False)
    with pytest.warns(ConvergenceWarning):
        model.fit(X)
    assert [name for name, _, _ in model.starts_] == ["given"]


def test_warm_start_fits_other_rows_from_the_last_mixture() -> None:
    # The new rows have another place and scale. Red if the parameters are handed on in the units of the old ones.
    model = Fit(2, 2, init=LABELS, warm_start=True).fit(table())
    mixture = (model.weights_, model.means_, model.covariances_)
    new = table(seed=1) * 1.5 + 3
    begin = logsumexp(oracles.log_joint(new, *mixture), axis=1).sum()
    heard: list[Progress] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(new, callback=heard.append)
    assert heard[0].objective == pytest.approx(begin, rel=1e-4)  # but for the penalty of the ridge


@pytest.mark.parametrize(
    "change",
    [
        {"n_column_groups": 3},
        {"n_column_groups": [1, 4]},
        {"shared_covariance": True},
        {"n_components": 3},
        {"n_column_groups": "auto"},
        {"shared_covariance": True, "n_column_groups": 4},
    ],
)
def test_warm_start_does_what_is_asked_for_by_now(change: dict[str, Any]) -> None:
    # Red if the last parameters are taken as they are: their groups would stay, for they are never worse.
    X = table()
    model = Fit(2, 1, random_state=0, warm_start=True).fit(X)
    last = model.log_likelihood_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.set_params(**change).fit(X)
    number = change.get("n_column_groups", 1)
    if not isinstance(number, str):
        expected = number if isinstance(number, list) else [number] * model.n_components
        assert model.n_column_groups_.tolist() == expected
    shared = change.get("shared_covariance", False)
    assert (model.blocks_[0] is model.blocks_[1]) == shared
    assert len(model.weights_) == change.get("n_components", 2)
    assert model.log_likelihood_ < last or change == {"n_components": 3}


@pytest.mark.parametrize(("first", "second"), [(np.float64, np.float32), (np.float32, np.float64)])
def test_warm_start_takes_the_type_of_the_new_rows(first: type, second: type) -> None:
    model = Fit(2, 2, init=LABELS, warm_start=True).fit(table().astype(first))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(table().astype(second))
    assert model.means_.dtype == model.covariances_.dtype == model.weights_.dtype == second


def test_warm_start_begins_anew_with_other_columns() -> None:
    model = Fit(2, 2, random_state=0, warm_start=True).fit(table())
    assert model.fit(table()[:, :4]).starts_[0][0] == "kmeans 1"
    assert model.means_.shape == (2, 4)


# How a fit ends.


def test_the_iteration_limit_is_told() -> None:
    with pytest.warns(ConvergenceWarning) as told:
        model = Fit(2, 2, init="random", random_state=0, max_iter=1).fit(table())
    assert [str(one.message) for one in told] == ["EM stopped at max_iter=1 before it settled: raise max_iter or tol"]
    assert told[0].filename == __file__  # the line that called fit, not ours
    assert model.outcome_ == "iteration limit"
    assert not model.converged_
    assert model.n_iter_ == 1


def test_a_component_with_too_few_rows_is_named() -> None:
    X = np.concatenate([table(), table(seed=1, n_rows=2) + 60])
    labels = np.repeat([0, 1, 2], [40, 40, 4])
    with pytest.warns(ConvergenceWarning) as told:
        model = Fit(3, 1, init=labels).fit(X)
    assert [str(one.message) for one in told] == [
        "component 2 has 4.0 rows for a block of 6 columns, so its covariance rests on the ridge: give shrinkage=0.1, "
        "more column groups or fewer components"
    ]
    assert model.outcome_ == "degenerate"
    assert np.isfinite(model.covariances_).all()
    # What the warning advises helps: these raise no warning, which would be an error.
    for advice in (
        {"shrinkage": 0.1},
        {"n_column_groups": 6},
        {"n_components": 2, "init": np.repeat([0, 1], [40, 44])},
    ):
        Fit(**{"n_components": 3, "n_column_groups": 1, "init": labels, **advice}).fit(X)


def with_a_third(left: float) -> Matrix:
    return np.column_stack([np.eye(2)[LABELS] * (1 - left), np.full(80, left)])


def test_a_component_that_dies_is_told_and_leaves_a_usable_mixture() -> None:
    X = table(apart=5.0)
    with pytest.warns(ConvergenceWarning) as told:
        model = Fit(3, 2, init=with_a_third(1e-12)).fit(X)
    assert [str(one.message) for one in told] == [
        "component 2 has lost all rows: fewer components or another start may fit better"
    ]
    assert model.outcome_ == "degenerate"
    assert model.weights_[2] < 1e-9
    for values in (model.predict_proba(X), model.covariances_, model.means_, model.score_samples(X)):
        assert np.isfinite(values).all()
    assert np.bincount(model.predict(X), minlength=3).tolist() == [40, 40, 0]
    assert model.sample(100)[1].max() == 1
    assert model.get_shape(4) == (0, 3) or model.get_shape(4)[0] == 0
    without = Fit(2, 2, init=LABELS).fit(X)
    assert model.log_likelihood_ == pytest.approx(without.log_likelihood_, rel=1e-5)


@pytest.mark.parametrize("sample_weight", [None, np.ones(80)])
def test_a_component_that_dies_is_seeded_where_rows_are_explained_worst(sample_weight: Any) -> None:
    X = table(apart=5.0)
    X[17] += 300
    with pytest.warns(ConvergenceWarning) as told:
        model = Fit(3, 6, shared_covariance=True, init=with_a_third(1e-3)).fit(X, sample_weight=sample_weight)
    assert [str(one.message) for one in told] == ["component 2 had lost all rows and was seeded again at row 17"]
    assert np.flatnonzero(model.row_labels_ == 2).tolist() == [17]
    assert model.outcome_ == "converged"


def interrupt_at(count: int) -> Callable[[Progress], None]:
    heard: list[Progress] = []

    def callback(progress: Progress) -> None:
        heard.append(progress)
        if len(heard) == count:
            raise KeyboardInterrupt

    return callback


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"init": "random"}, 1),
        ({"init": "random"}, 6),
        ({"init": "random", "n_init": 3}, 30),
        ({"init": "random", "n_init": 4, "n_jobs": 2}, 4),
        ({"init": "portfolio"}, 5),
        ({"init": "portfolio"}, 40),
        ({"init": "portfolio", "n_jobs": 2}, 40),
    ],
)
def test_an_interrupt_leaves_a_usable_mixture(options: dict[str, Any], count: int) -> None:
    X = table(apart=1.0)
    model = Fit(3, 2, random_state=0, tol=1e-9, **options)
    with pytest.warns(ConvergenceWarning) as told:
        model.fit(X, callback=interrupt_at(count))
    messages = [str(one.message) for one in told]
    assert f"interrupted after {model.n_iter_} iterations: the best parameters so far are kept" in messages
    assert model.outcome_ == "interrupted"
    assert not model.converged_
    assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert model.log_likelihood_ == pytest.approx(model.score_samples(X).sum(), rel=1e-10)
    assert model.bic(X) > 0
    assert len(model.sample(5)[0]) == 5
    assert np.array_equal(model.predict(X), model.row_labels_)


def test_a_degenerate_mixture_that_was_interrupted_was_interrupted() -> None:
    X = np.concatenate([table(), table(seed=1, n_rows=2) + 60])
    with pytest.warns(ConvergenceWarning) as told:
        model = Fit(3, 1, init=np.repeat([0, 1, 2], [40, 40, 4])).fit(X, callback=interrupt_at(2))
    assert len(told) == 2
    assert model.outcome_ == "interrupted"


def test_a_callback_sees_the_trace_of_every_start() -> None:
    heard: list[Progress] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = Fit(3, 2, init="random", n_init=3, random_state=0).fit(table(), callback=heard.append)
    winner = [progress for progress in heard if progress.start == model.starts_[0][0]]
    # Red if the objective of standardized columns is told: the trace is in the units of the table.
    assert_allclose([progress.objective for progress in winner], model.log_likelihood_trace_)
    assert [progress.iteration for progress in winner] == list(range(model.n_iter_))
    for name, objective, iterations in model.starts_:
        own = [progress for progress in heard if progress.start == name]
        assert len(own) == iterations
        assert own[-1].objective == pytest.approx(objective)


def test_verbose_prints_a_line_per_start_or_per_iteration(capsys: pytest.CaptureFixture[str]) -> None:
    options = {"n_components": 3, "n_column_groups": 2, "init": "random", "n_init": 3, "random_state": 0}
    model = quiet(table(), **options)
    assert capsys.readouterr().out == ""
    quiet(table(), verbose=1, **options)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["random 1", "random 2", "random 3"]
    quiet(table(), verbose=2, **options)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == sum(iterations for _, _, iterations in model.starts_)
    name, objective, iterations = model.starts_[0]
    assert f"{name}: iteration {iterations - 1}, objective {objective:.4f}" in lines


def test_verbose_portfolio_prints_each_start_once(capsys: pytest.CaptureFixture[str]) -> None:
    model = quiet(table(apart=0.5), init="portfolio", random_state=0, verbose=1, max_iter=60, tol=1e-7)
    names = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(names) == sorted(name for name, _, _ in model.starts_)
    assert max(iterations for _, _, iterations in model.starts_) > 25  # some went on


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in ThreadpoolController().info() if library["user_api"] == "blas"}


@pytest.fixture
def two_blas_threads() -> Iterator[None]:
    with threadpool_limits(2, user_api="blas"):
        yield


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_has_one_thread_in_a_fit_and_its_own_number_afterwards() -> None:
    inside: list[set[int]] = []
    Fit(2, 2, init=LABELS).fit(table(), callback=lambda progress: inside.append(blas_threads()))
    assert inside[0] == {1}
    assert blas_threads() == {2}

    def refuse(progress: Progress) -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match=r"^no$"):
        Fit(2, 2, init=LABELS).fit(table(), callback=refuse)
    assert blas_threads() == {2}
    with pytest.raises(ValueError, match="has shape"):
        Fit(2, 2, init=LABELS[:-1]).fit(table())
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_blas_threads")
def test_fits_on_threads_leave_blas_as_it_was() -> None:
    # The first to begin is the first to end. Red if each fit restores what it found.
    both = threading.Barrier(2)
    ended = threading.Event()

    def fit(first: bool) -> None:
        def callback(progress: Progress) -> None:
            if progress.iteration == 0:
                both.wait(timeout=60)
                if not first:
                    assert ended.wait(timeout=60)

        Fit(2, 2, init=LABELS).fit(table(), callback=callback)
        ended.set()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(fit, (True, False)))
    assert blas_threads() == {2}


# Contract.

CONTRACT: list[dict[str, Any]] = [
    {},
    {"n_components": 2},
    {"n_components": 2, "n_column_groups": 1},
    {"n_components": 2, "n_column_groups": "silhouette"},
    {"n_components": 2, "shared_covariance": True},
    {"n_components": 2, "shrinkage": 0.5},
    {"n_components": 2, "grouping": "greedy"},
    {"n_components": 2, "grouping": "penalized"},
    {"n_components": 2, "init": "portfolio", "max_iter": 4},
]


def cannot_pass(estimator: GaussianBiclustering) -> dict[str, str]:
    """One component cannot tell three blobs apart; the check asks that of every clusterer."""
    alone = {"check_clustering": "one component is one cluster"} if estimator.n_components == 1 else {}
    return SPARSE_CHECKS | alone


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::blockmix.GroupingWarning")
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
    assert set(quiet(table(), n_column_groups=BicRule(candidates=[4, 5])).n_column_groups_.tolist()) <= {4, 5}


def test_numpys_numbers_are_numbers() -> None:
    plain = Fit(2, 2, init=LABELS, ridge=0.25, tol=0.5, shrinkage=0.5, max_iter=9).fit(table())
    numpys: dict[str, Any] = {"ridge": np.float32(0.25), "tol": np.float32(0.5), "shrinkage": np.float32(0.5)}
    same = Fit(np.int64(2), np.int32(2), init=LABELS, max_iter=np.int64(9), **numpys).fit(table())
    assert_same_mixture(plain, same)
    assert_same_mixture(plain, Fit(2, np.array([2, 2]), init=LABELS, max_iter=9, **numpys).fit(table()))


def test_nothing_is_known_before_fit_nor_by_a_look_at_the_modes() -> None:
    model = Fit(2)
    X = np.random.default_rng(0).standard_normal((12, 30))
    assert len(model.modes(X)) > 0
    names = ["weights_", "means_", "covariances_", "blocks_", "column_labels_", "n_column_groups_", "n_parameters_"]
    for name in [*names, "rows_", "columns_", "biclusters_", "labels_", "n_features_in_"]:
        assert not hasattr(model, name)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_shrinkage_is_a_prior_of_pseudo_rows_at_the_overall_variances() -> None:
    X = table()
    model = Fit(1, 1, shrinkage=0.25, ridge=0).fit(X)
    S = np.cov(X.T, ddof=0)
    assert_allclose(model.covariances_[0], 0.75 * S + 0.25 * np.diag(np.diag(S)), rtol=1e-9)
    # Two components far apart: κ = a / (1 − a) times the rows of an average one, at the variances of the whole table.
    X = table(apart=30.0)
    model = Fit(2, 1, shrinkage=0.25, ridge=0, init=LABELS).fit(X)
    pull = 40 / 3 * np.diag(X.var(axis=0))
    for g, rows in enumerate((X[:40], X[40:])):
        assert_allclose(model.covariances_[g], (40 * np.cov(rows.T, ddof=0) + pull) / (40 + 40 / 3), rtol=1e-9)


def test_ridge_is_relative_to_the_overall_variance_of_each_column() -> None:
    # Red if it were absolute: the columns differ in scale by six.
    X = table()
    S = np.cov(X.T, ddof=0)
    model = Fit(1, 1, ridge=0.2).fit(X)
    assert_allclose(model.covariances_[0], S + 0.2 * np.diag(np.diag(S)), rtol=1e-9)


@pytest.mark.parametrize("n_components", [2, 3])
def test_fewer_rows_than_columns_crash_nothing_with_shrinkage(n_components: int) -> None:
    X = np.random.default_rng(0).standard_normal((15, 60))
    X[:7] += 1.5
    model = Fit(n_components, 1, shrinkage=0.5, random_state=0).fit(X)  # no warning either
    assert np.isfinite(model.score_samples(X)).all()
    assert model.outcome_ == "converged"


# Degenerate inputs.


def with_entry(value: object) -> Any:
    X = table().astype(type(value) if isinstance(value, str) else float)
    X[3, 1] = value
    return X


def z_with(row: int, values: Any) -> Matrix:
    z = np.eye(2)[LABELS]
    z[row] = values
    return z


RULES = "must be a whole number, one of auto, silhouette, bic, or a rule such as SilhouetteRule(candidates=range(2, 5))"
Case = tuple[dict[str, Any], Any, Any, str]
DEGENERATE: dict[str, Case] = {
    "NaN": ({}, with_entry(np.nan), None, "Input X contains NaN."),
    "inf": ({}, with_entry(np.inf), None, "Input X contains infinity or a value too large for dtype('float64')."),
    "text": ({}, [["a", "b"], ["c", "d"]], None, "could not convert string to float: 'a'"),
    "no rows": (
        {},
        table()[:0],
        None,
        "Found array with 0 sample(s) (shape=(0, 6)) while a minimum of 2 is required by GaussianBiclustering.",
    ),
    "no columns": (
        {},
        table()[:, :0],
        None,
        "Found array with 0 feature(s) (shape=(80, 0)) while a minimum of 1 is required by GaussianBiclustering.",
    ),
    "one row": (
        {},
        table()[:1],
        None,
        "Found array with 1 sample(s) (shape=(1, 6)) while a minimum of 2 is required by GaussianBiclustering.",
    ),
    "G > N": ({"n_components": 81}, table(), None, "n_components=81 exceeds the n_samples=80 rows of X"),
    "G = 0": ({"n_components": 0}, table(), None, "n_components=0 must be a whole number that is at least 1"),
    "G = 2.5": ({"n_components": 2.5}, table(), None, "n_components=2.5 must be a whole number that is at least 1"),
    "G = True": ({"n_components": True}, table(), None, "n_components=True must be a whole number that is at least 1"),
    "n_init": ({"n_init": 0}, table(), None, "n_init=0 must be a whole number that is at least 1"),
    "max_iter": ({"max_iter": 0}, table(), None, "max_iter=0 must be a whole number that is at least 1"),
    "tol": ({"tol": -1}, table(), None, "tol=-1 must be a number that is at least 0"),
    "tol NaN": ({"tol": np.nan}, table(), None, "tol=nan must be a number that is at least 0"),
    "ridge": ({"ridge": -1}, table(), None, "ridge=-1 must be a number that is at least 0"),
    "ridge name": ({"ridge": "auto"}, table(), None, "ridge='auto' must be a number that is at least 0"),
    "shrinkage 1": ({"shrinkage": 1}, table(), None, "shrinkage=1 must be None or a number from 0 up to, but not, 1"),
    "shrinkage < 0": (
        {"shrinkage": -0.1},
        table(),
        None,
        "shrinkage=-0.1 must be None or a number from 0 up to, but not, 1",
    ),
    "K = 0": ({"n_column_groups": 0}, table(), None, "n_column_groups=0 must be at least 1"),
    "K > p": ({"n_column_groups": 7}, table(), None, "n_column_groups=7 exceeds the 6 columns of X"),
    "K = 2.5": ({"n_column_groups": 2.5}, table(), None, f"n_column_groups=2.5 {RULES}"),
    "K = True": (
        {"n_column_groups": True},
        table(),
        None,
        "n_column_groups=True must be a whole number of column groups",
    ),
    "K unknown": ({"n_column_groups": "gap"}, table(), None, f"n_column_groups='gap' {RULES}"),
    "K too many": (
        {"n_column_groups": [2, 3, 4]},
        table(),
        None,
        "n_column_groups=[2, 3, 4] has 3 numbers for n_components=2: give one number per component, or a rule such as "
        "SilhouetteRule(candidates=...) to choose",
    ),
    "K of one > p": ({"n_column_groups": [2, 7]}, table(), None, "n_column_groups=7 exceeds the 6 columns of X"),
    "K of one no number": (
        {"n_column_groups": [2, "auto"]},
        table(),
        None,
        "n_column_groups='auto' must be a whole number of column groups",
    ),
    "K differ, shared": (
        {"n_column_groups": [2, 3], "shared_covariance": True},
        table(),
        None,
        "n_column_groups=[2, 3] differ, but shared_covariance=True has one partition",
    ),
    "grouping": (
        {"grouping": "ward"},
        table(),
        None,
        "grouping='ward' must be one of hierarchical, greedy, relaxed, penalized or an object with a method `group`",
    ),
    "constant": (
        {},
        table() * [1, 1, 0, 1, 1, 1] + [0, 0, 0.1, 0, 0, 0],
        None,
        "column 2 ('x2') is constant at 0.1: remove it, it has no correlation with others",
    ),
    "constant by name": (
        {},
        pd.DataFrame({"a": table()[:, 0], "batch": 7, "site": 8}),
        None,
        "column 1 ('batch') (and 1 more) is constant at 7: remove it, it has no correlation with others",
    ),
    "constant where it counts": (
        {},
        np.column_stack([np.r_[np.full(40, 2.0), np.arange(40)], np.arange(80)]),
        np.repeat([1.0, 0.0], 40),
        "column 0 ('x0') is constant at 2: remove it, it has no correlation with others",
    ),
    "init unknown": (
        {"init": "spectral"},
        table(),
        None,
        "init='spectral' must be one of kmeans, kmeans++, random, whitened, hierarchical, annealed, portfolio, or an "
        "array of labels or responsibilities",
    ),
    "init too short": (
        {"init": LABELS[:-1]},
        table(),
        None,
        "init has shape (79,): give labels of shape (80,) or responsibilities of shape (80, 2), or a name",
    ),
    "init of three": (
        {"init": np.eye(3)[LABELS]},
        table(),
        None,
        "init has shape (80, 3): give labels of shape (80,) or responsibilities of shape (80, 2), or a name",
    ),
    "init with too few labels": (
        {"init": 0 * LABELS},
        table(),
        None,
        "init has 1 different labels, n_components is 2: make them equal",
    ),
    "init no sum of one": (
        {"init": z_with(5, [0.5, 0.25])},
        table(),
        None,
        "row 5 of init sums to 0.75: divide each row of responsibilities by its sum",
    ),
    "init NaN": (
        {"init": z_with(5, [np.nan, 1])},
        table(),
        None,
        "init[5, 0] is nan, not finite: give responsibilities between 0 and 1",
    ),
    "init labels NaN": (
        {"init": np.r_[np.nan, LABELS[1:]]},
        table(),
        None,
        "label nan of row 0 in init is no label: give every row an integer or a name",
    ),
    "init negative": (
        {"init": z_with(5, [-0.5, 1.5])},
        table(),
        None,
        "init[5, 0] is -0.5, negative: give responsibilities between 0 and 1",
    ),
    "init of an empty component": (
        {"init": np.eye(2)[0 * LABELS]},
        table(),
        None,
        "component 1 of init has no rows: give each component some, or lower n_components",
    ),
    "weights negative": ({}, table(), -np.ones(80), "Negative values in data passed to `sample_weight`."),
    "weights zero": ({}, table(), np.zeros(80), "Sample weights must contain at least one non-zero number."),
    "weights too few": ({}, table(), np.ones(79), "sample_weight.shape == (79,), expected (80,)!"),
    "weights on one row": (
        {},
        table(),
        np.eye(80)[0],
        "sample_weight is positive for 1 rows: at least 2 are needed",
    ),
    "weights on two rows": (
        {"n_components": 3},
        table(),
        np.eye(80)[0] + np.eye(80)[1],
        "sample_weight is positive for 2 rows: at least 3 are needed",
    ),
    "weights of probabilities": (
        {},
        table(),
        np.full(80, 1 / 80),
        "sample_weight sums to 1, but a weight counts rows and at least 2 are needed: multiply the weights",
    ),
    "no ridge": (
        {"ridge": 0, "n_column_groups": 1, "init": (np.arange(80) == 5).astype(int)},
        table(),
        None,
        "component 1 has no variance in some column: give a ridge above 0",
    ),
}


@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_input_is_refused_with_the_value(case: str) -> None:
    parameters, X, weights, sentence = DEGENERATE[case]
    with pytest.raises(ValueError) as caught:
        Fit(**{"n_components": 2, **parameters}).fit(X, sample_weight=weights)
    assert str(caught.value).splitlines()[0] == sentence


def test_a_refused_fit_leaves_the_last_one_as_it_was() -> None:
    model = Fit(2, 2, init=LABELS).fit(table())
    before = model.predict_proba(table())
    with pytest.raises(ValueError, match="NaN"):
        model.fit(with_entry(np.nan))
    with pytest.raises(ValueError, match="has shape"):
        model.set_params(init=LABELS[1:]).fit(table())
    assert np.array_equal(model.predict_proba(table()), before)


def test_repeated_rows_are_fitted_though_fewer_differ_than_there_are_components() -> None:
    X = np.repeat([[0.0, 1.0], [1.0, 0.0]], 10, axis=0)
    model = quiet(X, n_components=4, n_column_groups=2, random_state=0)
    assert np.isfinite(model.score_samples(X)).all()
    assert np.diff(model.log_likelihood_trace_).min(initial=0) >= -1e-8
