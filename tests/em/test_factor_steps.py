"""Steps of the factor mixture: first groups against planted ones, and an M-step that never lowers the likelihood."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from factors import MODELS, every_model, factor_rows, model_of, random_parameters, random_start, standardized
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from strategies import seeds

from blockmix.em import factor_steps as steps
from blockmix.em.factor import Scatter, factor_sweep
from blockmix.em.factor_steps import correlations, factor_m_step, first_groups, first_parameters, tree_columns
from blockmix.partition import Partition
from blockmix.rows import ArrayRows
from experiments.metrics import matched_accuracy


@pytest.mark.parametrize("pooled", [False, True])
def test_correlations_are_those_within_components(pooled: bool) -> None:
    rows, z = ArrayRows.standardized(factor_rows(0)), np.random.default_rng(0).dirichlet([1, 1], 120)
    X, columns = standardized(rows), np.array([0, 2, 3, 6])
    means = np.stack([np.average(X, weights=z[:, g], axis=0) for g in range(2)])
    R = correlations(rows, z, means, columns, np.zeros((2, 4)), pooled)
    scatter = np.stack([((X - means[g]) * z[:, [g]]).T @ (X - means[g]) for g in range(2)])
    scatter = scatter.sum(axis=0, keepdims=True) if pooled else scatter
    deviations = np.sqrt(np.diagonal(scatter, axis1=1, axis2=2))
    expected = scatter / (deviations[:, :, None] * deviations[:, None, :])
    assert_allclose(R, expected[:, columns[:, None], columns], atol=1e-10)


def test_a_column_that_is_constant_within_a_component_has_no_correlation() -> None:
    # Red if rounding is divided by rounding.
    X = factor_rows(1)
    X[:60, 2] = 5.0
    rows, z = ArrayRows.standardized(X), np.repeat(np.eye(2), 60, axis=0)
    means = standardized(rows).reshape(2, 60, 7).mean(axis=1)
    R = correlations(rows, z, means, np.arange(7), np.full((2, 7), 60e-6))
    assert_array_equal(R[0, 2], np.eye(7)[2])
    assert (np.abs(R[1, 2, [0, 1, 3]]) > 0).all()


def test_groups_of_many_columns_are_recovered_from_some_of_them() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 700)
    X = rng.standard_normal((50, 4))[:, labels] + rng.standard_normal((50, 700))
    groups = first_groups(ArrayRows.standardized(X), np.ones((50, 1)), model_of("UUUU", 700, 1, q=4))
    assert matched_accuracy(labels, groups[0]) > 0.95
    assert [len(np.unique(tree_columns(p, least))) for p, least in ((1, 0), (201, 0), (5000, 300))] == [1, 200, 300]
    assert np.ptp(np.diff(tree_columns(700))) <= 1 and tree_columns(700)[-1] == 699


def test_components_have_separate_or_common_groups() -> None:
    rng = np.random.default_rng(0)
    planted = np.array([[0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1]])
    X = np.concatenate([rng.standard_normal((200, 2))[:, row] for row in planted]) + 0.3 * rng.standard_normal((400, 6))
    rows, z = ArrayRows.standardized(X), np.repeat(np.eye(2), 200, axis=0)
    separate = first_groups(rows, z, model_of("UUUU", 6, 2, q=2))
    assert all(Partition(a) == Partition(b) for a, b in zip(planted, separate, strict=True))
    common = first_groups(rows, z, model_of("CUUU", 6, 2, q=2))
    assert_array_equal(common[0], common[1])


@every_model
def test_first_parameters_are_those_that_the_model_allows(letters: str) -> None:
    X = factor_rows(2)
    rows, model, z = ArrayRows.standardized(X), model_of(letters, 7, 2), random_start(X, 2, 0)
    first = first_parameters(rows, z, first_groups(rows, z, model), model)
    t, d = first.factor_variances, first.noise
    assert (t > 0).all() and (d >= model.floor).all()
    assert not model.shared_groups or (first.labels[0] == first.labels[1]).all()
    assert not model.shared_factors or (t[0] == t[1]).all()
    assert not model.unit_factors or (t == 1).all()
    assert not model.shared_noise or (d[0] == d[1]).all()
    assert not model.isotropic or (d == d[:, :1]).all()
    assert_allclose(first.weights, 0.5)
    assert_allclose(first.means, (z / z.sum(axis=0)).T @ standardized(rows), atol=1e-10)


@given(seeds, st.sampled_from(MODELS))
@settings(max_examples=60)
def test_every_step_from_anywhere_raises_the_likelihood(seed: int, letters: str) -> None:
    # From arbitrary parameters, not only those on EM's path.
    rows, model = ArrayRows.standardized(factor_rows(seed % 1000, n=15, p=6)), model_of(letters, 6, 2)
    parameters = random_parameters(seed)
    t = parameters.factor_variances[[0, 0] if model.shared_factors else [0, 1]]
    d = parameters.noise[[0, 0] if model.shared_noise else [0, 1]]
    parameters = replace(
        parameters,
        labels=parameters.labels[[0, 0]] if model.shared_groups else parameters.labels,
        factor_variances=np.ones((2, 3)) if model.unit_factors else t,
        noise=np.full((2, 6), 0.7) if model.isotropic else d,
    )
    for _ in range(3):
        statistics = factor_sweep(rows, parameters)
        parameters = factor_m_step(statistics, parameters, model)
        value = factor_sweep(rows, parameters).log_likelihood
        assert value >= statistics.log_likelihood - 1e-9 * abs(statistics.log_likelihood)
        assert all(len(np.unique(row)) == 3 for row in parameters.labels)


def test_a_gain_is_promised_only_if_rounding_leaves_it() -> None:
    # A column alone in its group, with noise at the floor: without it nothing is left of the sums of the group, so its
    # prediction is its variance. What is left of the sums is rounding, more than d; such gains lowered the likelihood.
    errors = []
    for seed in range(10):
        rows = ArrayRows.standardized(factor_rows(seed, n=40, p=6))
        old = replace(
            random_parameters(seed),
            labels=np.tile([0, 1, 2, 2, 2, 2], (2, 1)),
            factor_variances=np.ones((2, 3)),
            noise=np.tile([1e-7, 1e-7, 0.5, 0.5, 0.5, 0.5], (2, 1)),
        )
        scatter = Scatter.of(factor_sweep(rows, old), old)
        c, V = steps.home_predictions(scatter, old)
        S = scatter.variances[:, :2]
        errors.append(np.abs(V[:, :2] - S).max())
        for noise in (1e-7, 1e-3, 0.1, 1.0, 10.0):
            promised = steps.certain_gain(np.full_like(V, noise), c, V, scatter, old)[:, :2]
            gain = steps.column_cost(old.noise[:, :2] + 1, S) - steps.column_cost(np.full_like(S, noise) + 1, S)
            assert (promised <= gain).all()
    assert np.median(errors) > 1e-7


@pytest.mark.parametrize("letters", ["UUUU", "UCUU"])
@given(seed=seeds)
def test_variances_of_factors_are_at_the_minimum_of_their_cost(letters: str, seed: int) -> None:
    rows, parameters = ArrayRows.standardized(factor_rows(seed % 1000, p=6)), random_parameters(seed)
    model = model_of(letters, 6, 2)
    if model.shared_factors:
        parameters = replace(parameters, factor_variances=parameters.factor_variances[[0, 0]])
    scatter = Scatter.of(factor_sweep(rows, parameters), parameters)
    for _ in range(20):  # a shared T takes a few calls of scoring
        parameters = replace(parameters, factor_variances=steps.factor_variances(scatter, parameters, model))
    t, n = parameters.factor_variances, scatter.rows[:, None]

    def cost(variances: np.ndarray) -> np.ndarray:
        each = n * steps.group_cost(parameters.precisions, scatter.spread, variances)
        return np.asarray(each.sum(axis=0) if model.shared_factors else each)

    # A shared t of 0 may stay there: if scoring overshoots, EM's step takes its place, which does not leave 0.
    judged = t[0] > 0 if model.shared_factors else t >= 0
    for other in (t * 1.01, t * 0.99, t + 1e-4, np.maximum(t - 1e-4, 0)):
        assert (cost(other) >= cost(t) - 1e-7 * n.sum())[judged].all()


def test_t_of_zero_is_the_diagonal_mixture_step_by_step() -> None:
    rows, model = ArrayRows.standardized(factor_rows(8, n=50, p=5)), model_of("UUUU", 5, 2, q=5)
    labels = np.tile(np.arange(5), (2, 1))
    parameters = replace(random_parameters(3, p=5, q=5), labels=labels, factor_variances=np.zeros((2, 5)))
    theirs = GaussianMixture(2, covariance_type="diag", max_iter=1, reg_covar=0, tol=0)
    for _ in range(5):
        theirs.weights_init, theirs.means_init = parameters.weights, parameters.means
        theirs.precisions_init = 1 / np.diagonal(parameters.covariances, axis1=1, axis2=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            theirs.fit(standardized(rows))
        parameters = factor_m_step(factor_sweep(rows, parameters), parameters, model)
        assert_allclose(parameters.means, theirs.means_, rtol=1e-8, atol=1e-10)
        assert_allclose(np.diagonal(parameters.covariances, axis1=1, axis2=2), theirs.covariances_, rtol=1e-8)


def test_groups_of_the_components_are_numbered_to_suit_a_common_t() -> None:
    # Two components with factors of variance 2 and 0.2 in other columns each. Red if group k of one is held to the t of
    # the other group.
    rng = np.random.default_rng(0)
    t, labels = np.array([2.0, 0.2]), np.array([[0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0]])
    parts = [rng.standard_normal((300, 2)) * np.sqrt(t) @ np.eye(2)[row].T for row in labels]
    X = np.concatenate(parts) + rng.standard_normal((600, 6)) * 0.7 + np.repeat([[0.0], [6.0]], 300, axis=0)
    rows, z, model = ArrayRows.of(X), np.repeat(np.eye(2), 300, axis=0), model_of("UCUU", 6, 2, q=2)
    first = first_parameters(rows, z, first_groups(rows, z, model), model)
    swapped = replace(first, labels=np.stack([first.labels[0], 1 - first.labels[1]]))
    for parameters in (first, swapped):
        for _ in range(30):
            parameters = factor_m_step(factor_sweep(rows, parameters), parameters, model)
        assert_allclose(np.sort(parameters.factor_variances[0])[::-1], t, rtol=0.25)


@pytest.mark.parametrize("letters", ["UUUU", "UCUU", "CCUC", "UUCC"])
@pytest.mark.parametrize("left", [0.0, 1e-300, 1e-14])
def test_a_component_without_rows_keeps_its_mean_and_leaves_no_nan(letters: str, left: float) -> None:
    rows, model = ArrayRows.standardized(factor_rows(4, p=6)), model_of(letters, 6, 2)
    z = np.tile([1 - left, left], (rows.n_rows, 1))
    old = random_parameters(0)
    old = replace(old, labels=old.labels[[0, 0]], factor_variances=old.factor_variances[[0, 0]], noise=np.ones((2, 6)))
    new = factor_m_step(factor_sweep(rows, old, z), old, model)
    assert_allclose(new.weights, [1, 0], atol=1e-12)
    assert_allclose(new.means[1], old.means[1])
    assert all(np.isfinite(array).all() for array in (new.means, new.factor_variances, new.noise))
    assert np.isfinite(factor_sweep(rows, new).log_likelihood)
