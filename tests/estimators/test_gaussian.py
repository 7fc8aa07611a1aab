"""GaussianBiclustering: scikit-learn's corners step by step, and what changes nothing but names and units."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import oracles
import pytest
from fits import LABELS, SETTINGS, TRUTH, Fit, assert_same_mixture, drawn, every_setting, quiet, table
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from strategies import Matrix, rescaled

from blockmix.partition import Partition

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
        warnings.simplefilter("ignore")
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
    first, second = model.blocks_
    assert (first is second) == shared
    free = [oracles.n_parameters(partition.labels) for partition in groups[: 1 if shared else None]]
    assert model.n_parameters_ == 1 + 12 + sum(free)
    usual = -2 * density.sum() + model.n_parameters_ * np.log(80)
    assert model.icl(X) >= model.bic(X) == pytest.approx(usual + 2 * model.partition_price_)


@pytest.mark.parametrize("n_column_groups", [1, 3, "auto"])
@pytest.mark.parametrize("max_iter", [1, 2, 7])
def test_the_log_likelihood_is_that_of_the_parameters_at_the_iteration_limit_too(
    n_column_groups: Any, max_iter: int
) -> None:
    # Red if it is read from the trace: there the parameters are one step ahead of it.
    X = table(apart=1.0)
    model = quiet(X, n_column_groups=n_column_groups, init=drawn(0), max_iter=max_iter, tol=0)
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


def test_k_means_sees_neither_repeats_nor_the_order_of_rows_and_columns() -> None:
    # Red if a start draws rows by their position in X.
    rng = np.random.default_rng(1)
    X = np.round(table(apart=4.0), 1)
    counts = rng.integers(0, 4, len(X))
    options = {"n_components": 3, "n_column_groups": 2, "init": "kmeans", "random_state": 5, "max_iter": 30}
    weighted = quiet(X, counts, **options)
    order, columns = rng.permutation(counts.sum()), rng.permutation(6)
    repeated = quiet((-np.repeat(X, counts, axis=0))[order][:, columns], **options)
    assert_allclose(repeated.log_likelihood_trace_, weighted.log_likelihood_trace_, rtol=1e-7)
    assert_allclose(repeated.predict_proba(-X[:, columns]), weighted.predict_proba(X), atol=1e-5)


@every_setting
def test_float32_stays_float32(setting: str) -> None:
    X = table()
    parameters = {"init": LABELS, "random_state": 0, **SETTINGS[setting]}
    model, wide = quiet(X.astype(np.float32), **parameters), quiet(X, **parameters)
    found = [model.weights_, model.means_, model.covariances_, model.predict_proba(X), model.score_samples(X)]
    assert {array.dtype for array in found} == {np.dtype(np.float32)}
    assert wide.means_.dtype == wide.covariances_.dtype == np.float64
    assert np.diff(model.log_likelihood_trace_).min(initial=0) >= -1e-5 * abs(model.log_likelihood_)
    assert np.array_equal(model.column_labels_, wide.column_labels_)
    assert_allclose(model.means_, wide.means_, atol=2e-2)
    assert model.log_likelihood_ == pytest.approx(wide.log_likelihood_, rel=1e-4)
    assert (model.row_labels_ == wide.row_labels_).mean() > 0.97
    X_new, labels = model.sample(20)
    assert X_new.shape == (20, 6)
    assert len(labels) == 20


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("n_column_groups", [1, "auto", "silhouette"])
@pytest.mark.parametrize("grouping", ["hierarchical", "greedy", "relaxed"])
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
    monkeypatch.setattr("blockmix.rows.rows._CHUNK_NUMBERS", 1)  # chunks of 64 rows
    found = []
    for cores in (1, 2, 3):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        found.append(quiet(X, init=labels, **SETTINGS[setting]))
        assert_same_mixture(whole, found[-1])
    assert np.array_equal(found[0].log_likelihood_trace_, found[1].log_likelihood_trace_)
    assert np.array_equal(found[0].log_likelihood_trace_, found[2].log_likelihood_trace_)


def test_a_table_in_columns_order_or_strided_is_the_same_table() -> None:
    X = table()
    plain = quiet(X, n_column_groups=2, init=LABELS)
    strided = np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2]
    for other in (np.asfortranarray(X), strided, X.tolist()):
        assert_same_mixture(plain, quiet(other, n_column_groups=2, init=LABELS))


def test_neither_table_nor_weights_nor_start_are_changed() -> None:
    X, weights, z = table(), np.arange(80) % 3 + 1.0, np.random.default_rng(0).dirichlet([1, 1], 80)
    held = [array.copy() for array in (X, weights, z)]
    quiet(X, weights, init=z)
    assert all(np.array_equal(a, b) for a, b in zip(held, (X, weights, z), strict=True))


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


def test_without_a_ridge_columns_that_depend_on_each_other_are_refused() -> None:
    # Red if they are fitted: the diagonal would be raised as rounding needs it, and the trace fall.
    X = np.random.default_rng(0).standard_normal((60, 6))
    X[:, 5], X[:30] = X[:, :5].sum(axis=1), X[:30] + 3
    with pytest.raises(ValueError, match="columns that depend on each other, or too few rows: give a ridge above 0"):
        Fit(2, 1, ridge=0, init="kmeans", random_state=0).fit(X)


@pytest.mark.parametrize("shape", [1, "tree"])
def test_a_shape_that_is_named_is_that_of_every_block_where_it_is_cheaper(shape: object) -> None:
    # A full covariance pays here, so full blocks would win if they might compete.
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((200, 6)) @ rng.standard_normal((6, 6)) + 9 * g for g in range(2)])
    model = Fit(2, block_model=shape, common_factors=0, random_state=0).fit(X)
    sizes = [np.bincount(labels) for labels in model.column_labels_]
    names = [name for names in model.block_shapes_ for name in names]
    assert max(map(max, sizes)) > 3
    assert all(name != "full" or size <= 3 for name, size in zip(names, np.concatenate(sizes), strict=True))
