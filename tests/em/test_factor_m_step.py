"""Steps of the factor mixture: each raises the likelihood from anywhere, and the corners are scikit-learn's."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from factors import FAMILY, IDENTITY, ended, factor_rows, family_of, model_of, random_parameters
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from strategies import seeds

from blockmix.em.factor import sweep
from blockmix.em.factor_steps import (
    Scatter,
    certain_gain,
    column_cost,
    factor_variances,
    first_groups,
    first_parameters,
    group_cost,
    home_predictions,
    maximize,
)
from blockmix.rows import ArrayRows


@given(seeds, st.sampled_from(FAMILY + IDENTITY))
@settings(max_examples=60)
def test_every_step_from_anywhere_raises_the_likelihood(seed: int, letters: str) -> None:
    # From arbitrary parameters, not only those on EM's path.
    rows, model = ArrayRows.standardized(factor_rows(seed % 1000, n=15, p=6)), model_of(letters, 6, 2)
    chosen = random_parameters(seed)
    t = chosen.factor_variances[[0, 0] if model.shared_factors else [0, 1]]
    chosen = replace(
        chosen,
        labels=chosen.labels[[0, 0]] if model.shared_groups else chosen.labels,
        factor_variances=np.ones((2, 3)) if model.unit_factors else t,
        noise=np.full((2, 6), 0.7) if model.isotropic else chosen.noise[[0, 0] if model.shared_noise else [0, 1]],
    )
    for _ in range(3):
        statistics = sweep(rows, chosen)
        chosen = maximize(statistics, chosen, model)
        assert sweep(rows, chosen).log_likelihood >= statistics.log_likelihood - 1e-9 * abs(statistics.log_likelihood)
        assert all(len(np.unique(row)) == 3 for row in chosen.labels)


@pytest.mark.parametrize("seed", [0, 1, 3, 4])
def test_a_gain_is_promised_only_if_rounding_leaves_it(seed: int) -> None:
    # A column alone in its group, with noise at the floor: without it nothing is left of the sums of the group, so its
    # prediction is its variance. What is left of the sums is rounding, more than d; such gains lowered the likelihood.
    rows = ArrayRows.standardized(factor_rows(seed, n=40, p=6))
    chosen = replace(
        random_parameters(seed),
        labels=np.tile([0, 1, 2, 2, 2, 2], (2, 1)),
        factor_variances=np.ones((2, 3)),
        noise=np.tile([1e-7, 1e-7, 0.5, 0.5, 0.5, 0.5], (2, 1)),
    )
    seen = Scatter.of(sweep(rows, chosen), chosen)
    c, V = home_predictions(seen, chosen)
    S = seen.variances[:, :2]
    assert np.abs(V[:, :2] - S).max() > 1e-7
    for noise in (1e-7, 1e-3, 0.1, 1.0, 10.0):
        promised = certain_gain(np.full_like(V, noise), c, V, seen, chosen)[:, :2]
        assert (promised <= column_cost(chosen.noise[:, :2] + 1, S) - column_cost(np.full_like(S, noise) + 1, S)).all()


@given(seeds)
def test_a_scatter_holds_the_weighted_moments_about_the_new_means(seed: int) -> None:
    rows, chosen = ArrayRows.standardized(factor_rows(seed % 1000, p=6)), random_parameters(seed)
    X, z = (rows.X - rows.location) / rows.scale, np.random.default_rng(seed).dirichlet([1, 1], rows.n_rows)
    seen = Scatter.of(sweep(rows, chosen, z), chosen)
    assert_allclose(seen.rows, z.sum(axis=0))
    for g in range(2):
        S = np.cov(X.T, aweights=z[:, g], ddof=0)
        projection = chosen.projection[g]
        assert_allclose(seen.means[g], np.average(X, weights=z[:, g], axis=0), atol=1e-10)
        assert_allclose(seen.variances[g], np.diag(S), rtol=1e-9)
        assert_allclose(seen.cross[g], projection @ S, atol=1e-9)
        assert_allclose(seen.spread[g], np.diag(projection @ S @ projection.T), rtol=1e-9)


@pytest.mark.parametrize("letters", ["UUUU", "UCUU"])
@given(seed=seeds)
def test_variances_of_factors_are_at_the_minimum_of_their_cost(letters: str, seed: int) -> None:
    rows, chosen = ArrayRows.standardized(factor_rows(seed % 1000, p=6)), random_parameters(seed)
    model = model_of(letters, 6, 2)
    if model.shared_factors:
        chosen = replace(chosen, factor_variances=chosen.factor_variances[[0, 0]])
    seen = Scatter.of(sweep(rows, chosen), chosen)
    for _ in range(20):  # a shared T takes a few calls of scoring
        chosen = replace(chosen, factor_variances=factor_variances(seen, chosen, model))
    t, n = chosen.factor_variances, seen.rows[:, None]

    def cost(variances: np.ndarray) -> np.ndarray:
        each = n * group_cost(chosen.precisions, seen.spread, variances)
        return np.asarray(each.sum(axis=0) if model.shared_factors else each)

    for other in (t * 1.01, t * 0.99, t + 1e-4, np.maximum(t - 1e-4, 0)):
        assert (cost(other) >= cost(t) - 1e-7 * n.sum()).all()


def test_t_of_zero_is_the_diagonal_mixture_step_by_step() -> None:
    rows, model = ArrayRows.standardized(factor_rows(8, n=50, p=5)), model_of("UUUU", 5, 2, q=5)
    Z = (rows.X - rows.location) / rows.scale
    chosen = replace(
        random_parameters(3, p=5, q=5), labels=np.tile(np.arange(5), (2, 1)), factor_variances=np.zeros((2, 5))
    )
    theirs = GaussianMixture(2, covariance_type="diag", max_iter=1, reg_covar=0, tol=0)
    for _ in range(5):
        theirs.weights_init, theirs.means_init = chosen.weights, chosen.means
        theirs.precisions_init = 1 / np.diagonal(chosen.covariances, axis1=1, axis2=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            theirs.fit(Z)
        chosen = maximize(sweep(rows, chosen), chosen, model)
        assert_allclose(chosen.means, theirs.means_, rtol=1e-8, atol=1e-10)
        assert_allclose(np.diagonal(chosen.covariances, axis1=1, axis2=2), theirs.covariances_, rtol=1e-8)


def test_groups_of_the_components_are_numbered_to_suit_a_common_t() -> None:
    # Two components with factors of variance 2 and 0.2 in other columns each. Red if group k of one is held to the t of
    # the other group.
    rng = np.random.default_rng(0)
    t, labels = np.array([2.0, 0.2]), np.array([[0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0]])
    parts = [rng.standard_normal((300, 2)) * np.sqrt(t) @ np.eye(2)[row].T for row in labels]
    X = np.concatenate(parts) + rng.standard_normal((600, 6)) * 0.7 + np.repeat([[0.0], [6.0]], 300, axis=0)
    rows = ArrayRows.of(X)
    family = family_of("UCUU", rows, 2, q=2)
    z = np.repeat(np.eye(2), 300, axis=0)
    begun = first_parameters(rows, z, first_groups(rows, z, family.model), family.model)
    swapped = replace(begun, labels=np.stack([begun.labels[0], 1 - begun.labels[1]]))
    for start in (begun, swapped):
        found = ended(family, rows, start, 1e-6, 100).state.parameters
        assert_allclose(np.sort(found.factor_variances[0])[::-1], t, rtol=0.25)


@pytest.mark.parametrize("letters", ["UUUU", "UCUU", "CCUC", "UUCC"])
@pytest.mark.parametrize("left", [0.0, 1e-300, 1e-14])
def test_a_component_without_rows_keeps_its_mean_and_leaves_no_nan(letters: str, left: float) -> None:
    rows, model = ArrayRows.standardized(factor_rows(4, p=6)), model_of(letters, 6, 2)
    z = np.tile([1 - left, left], (rows.n_rows, 1))
    old = random_parameters(0)
    old = replace(old, labels=old.labels[[0, 0]], factor_variances=old.factor_variances[[0, 0]], noise=np.ones((2, 6)))
    new = maximize(sweep(rows, old, z), old, model)
    assert_allclose(new.weights, [1, 0], atol=1e-12)
    assert_allclose(new.means[1], old.means[1])
    assert all(np.isfinite(array).all() for array in (new.means, new.factor_variances, new.noise))
    assert np.isfinite(sweep(rows, new).log_likelihood)
