"""Mixture: what follows from log-densities and column labels alone, on a mixture whose parameters are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data
from strategies import Matrix, seeds

from blockmix.estimators.fitting import Scorer
from blockmix.estimators.mixture import Mixture

WEIGHTS = np.array([0.2, 0.5, 0.3])
MEANS = np.array([[0.0, 0.0, 0.0, 0.0], [4.0, 0.0, 1.0, 0.0], [0.0, 4.0, 0.0, -1.0]])
COVARIANCES = np.array([np.eye(4), np.diag([1.0, 2.0, 3.0, 4.0]), np.eye(4) + 0.5])
COLUMN_LABELS = np.array([[0, 0, 1, 1], [0, 1, 2, 3], [0, 0, 0, 0]])


class Known(Mixture):
    """Three known Gaussians; a fit only assigns the rows."""

    def __init__(self, n_components: int = 3, random_state: Any = None) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: object = None, only: int | None = None) -> Known:
        rows = validate_data(self, X, dtype=np.float64)
        self.weights_, self.means_ = WEIGHTS, MEANS
        self.column_labels_ = COLUMN_LABELS
        self.n_parameters_ = 24
        joint = oracles.log_joint(rows, WEIGHTS, MEANS, COVARIANCES)
        self.row_labels_ = joint.argmax(axis=1) if only is None else np.full(len(rows), only)
        return self

    def _scorer(self) -> Scorer:
        return lambda chunk: oracles.log_joint(chunk.X, WEIGHTS, MEANS, COVARIANCES)

    def _sample_component(self, g: int, n: int, rng: np.random.RandomState) -> Matrix:
        return rng.multivariate_normal(MEANS[g], COVARIANCES[g], n)


def table(seed: int = 0, n_rows: int = 50) -> Matrix:
    return np.random.default_rng(seed).normal(1, 3, (n_rows, 4))


@given(seeds, st.integers(1, 50))
def test_probabilities_labels_and_scores_follow_from_the_densities(seed: int, n_rows: int) -> None:
    X = table(seed, n_rows)
    model = Known().fit(X)
    joint = oracles.log_joint(X, WEIGHTS, MEANS, COVARIANCES)
    probabilities = model.predict_proba(X)
    assert_allclose(probabilities, np.exp(joint) / np.exp(joint).sum(axis=1, keepdims=True), atol=1e-12)
    assert_allclose(probabilities.sum(axis=1), 1)
    assert np.array_equal(model.predict(X), probabilities.argmax(axis=1))
    assert np.array_equal(model.predict(X), model.row_labels_)
    assert model.labels_ is model.row_labels_
    assert_allclose(model.score_samples(X), logsumexp(joint, axis=1))
    assert model.score(X) == pytest.approx(model.score_samples(X).mean())
    assert model.score(X, y=np.zeros(n_rows)) == model.score(X)


def test_probabilities_far_away_are_still_probabilities() -> None:
    # Red if densities leave log space: all of them are 0 there.
    assert_allclose(Known().fit(table()).predict_proba(np.full((1, 4), 1e3)).sum(), 1)


@given(seeds, st.integers(1, 50))
def test_criteria_are_their_formulas_and_icl_is_never_below_bic(seed: int, n_rows: int) -> None:
    X = table(seed, n_rows)
    model = Known().fit(X)
    likelihood = model.score_samples(X).sum()
    certainty = np.log(model.predict_proba(X).max(axis=1)).sum()
    assert model.bic(X) == pytest.approx(-2 * likelihood + 24 * np.log(n_rows))
    assert model.aic(X) == pytest.approx(-2 * likelihood + 48)
    assert model.icl(X) == pytest.approx(model.bic(X) - 2 * certainty)
    assert model.icl(X) >= model.bic(X)


def test_doubt_about_rows_is_what_icl_adds() -> None:
    model = Known().fit(table())
    certain = np.array([[100.0, 0, 0, 0]])
    assert model.icl(certain) == pytest.approx(model.bic(certain))
    doubtful = np.array([[2.0, 0, 0.5, 0]])
    assert model.icl(doubtful) > model.bic(doubtful) + 0.5


@given(seeds)
def test_a_weight_of_two_counts_a_row_twice_in_the_criteria(seed: int) -> None:
    X = table(seed, 20)
    counts = np.random.default_rng(seed).integers(0, 3, 20)
    counts[0] = 1
    model = Known().fit(X)
    repeated = np.repeat(X, counts, axis=0)
    for criterion in (model.bic, model.aic, model.icl):
        assert criterion(X, sample_weight=counts) == pytest.approx(criterion(repeated))


def test_samples_have_the_moments_of_the_mixture() -> None:
    X, labels = Known(random_state=0).fit(table()).sample(60_000)
    assert X.shape == (60_000, 4)
    assert_allclose(np.bincount(labels) / 60_000, WEIGHTS, atol=0.01)
    for g in range(3):
        assert_allclose(X[labels == g].mean(axis=0), MEANS[g], atol=0.08)
        assert_allclose(np.cov(X[labels == g].T), COVARIANCES[g], atol=0.2)


def test_the_seed_decides_a_sample() -> None:
    one, same, other = (Known(random_state=seed).fit(table()).sample(30)[0] for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    rng = np.random.RandomState(0)
    model = Known(random_state=rng).fit(table())
    assert not np.array_equal(model.sample(30)[0], model.sample(30)[0])
    assert model.sample()[0].shape == (1, 4)


def test_float32_weights_that_exceed_one_can_be_sampled_from() -> None:
    # Red if they are handed on as they are: numpy adds all but the last and refuses more than one.
    model = Known(random_state=0).fit(table())
    model.weights_ = np.array([0.3333334, 0.6666667, 0], dtype=np.float32)
    assert np.asarray(model.weights_, dtype=float)[:2].sum() > 1 + 1e-12
    assert set(model.sample(100)[1].tolist()) == {0, 1}


@pytest.mark.parametrize("n_samples", [0, -3])
def test_a_sample_of_no_rows_is_refused(n_samples: int) -> None:
    with pytest.raises(ValueError) as caught:
        Known().fit(table()).sample(n_samples)
    assert str(caught.value) == f"n_samples={n_samples} must be at least 1"


def test_biclusters_are_pairs_of_a_component_and_one_of_its_groups() -> None:
    X = table()
    model = Known().fit(X)
    pairs = [(0, [0, 1]), (0, [2, 3]), (1, [0]), (1, [1]), (1, [2]), (1, [3]), (2, [0, 1, 2, 3])]
    assert model.rows_.shape == (7, 50)
    assert model.columns_.shape == (7, 4)
    assert model.rows_.dtype == model.columns_.dtype == bool
    assert np.array_equal(model.biclusters_[0], model.rows_)
    assert np.array_equal(model.biclusters_[1], model.columns_)
    for i, (g, columns) in enumerate(pairs):
        rows = np.flatnonzero(model.row_labels_ == g)
        found = model.get_indices(i)
        assert found[0].tolist() == rows.tolist()
        assert found[1].tolist() == columns
        assert model.get_shape(i) == (len(rows), len(columns))
        assert np.array_equal(model.get_submatrix(i, X), X[np.ix_(rows, columns)])
    # A row and a column meet in exactly one bicluster: the groups of the row's component split the columns.
    assert (model.rows_.T.astype(int) @ model.columns_.astype(int) == 1).all()


def test_a_component_without_rows_has_biclusters_without_rows() -> None:
    model = Known().fit(table(), only=1)
    assert model.rows_.sum(axis=1).tolist() == [0, 0, 50, 50, 50, 50, 0]
    assert model.get_submatrix(0, table()).shape == (0, 2)


def test_fit_predict_is_fit_and_its_labels() -> None:
    X = table()
    assert np.array_equal(Known().fit_predict(X), Known().fit(X).predict(X))
    assert Known().fit_predict(X, only=2).tolist() == [2] * 50  # what fit takes goes to fit


def test_nothing_is_known_before_fit() -> None:
    model = Known()
    for name in ("rows_", "columns_", "biclusters_", "labels_"):
        assert not hasattr(model, name)
    calls: list[Any] = [model.predict, model.predict_proba, model.score_samples, model.score, model.bic, model.icl]
    for call in calls:
        with pytest.raises(NotFittedError):
            call(table())
    for call in (model.sample, model.describe):
        with pytest.raises(NotFittedError):
            call()


def test_other_columns_than_those_of_the_fit_are_refused() -> None:
    model = Known().fit(table())
    with pytest.raises(ValueError, match=r"^X has 3 features, but Known is expecting 4 features as input\.$"):
        model.predict(table()[:, :3])
