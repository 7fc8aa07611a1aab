"""First groups and parameters of the factor mixture: correlations against NumPy's, groups against planted ones."""

from __future__ import annotations

import numpy as np
import pytest
from factors import every_model, factor_rows, model_of, random_start
from numpy.testing import assert_allclose, assert_array_equal

from blockmix.em.factor import sweep
from blockmix.em.factor_steps import correlations, first_groups, first_parameters, tree_columns
from blockmix.metrics import exact_recovery, matched_accuracy
from blockmix.rows import ArrayRows


@pytest.mark.parametrize("pooled", [False, True])
def test_correlations_are_those_within_components(pooled: bool) -> None:
    rows, z = ArrayRows.standardized(factor_rows(0)), np.random.default_rng(0).dirichlet([1, 1], 120)
    X, columns = (rows.X - rows.location) / rows.scale, np.array([0, 2, 3, 6])
    means = np.stack([np.average(X, weights=z[:, g], axis=0) for g in range(2)])
    found = correlations(rows, z, means, columns, model_of("UUUU", 7, 2), pooled)
    scatter = np.stack([((X - means[g]) * z[:, [g]]).T @ (X - means[g]) for g in range(2)])
    scatter = scatter.sum(axis=0, keepdims=True) if pooled else scatter
    deviations = np.sqrt(np.diagonal(scatter, axis1=1, axis2=2))
    expected = scatter / (deviations[:, :, None] * deviations[:, None, :])
    assert_allclose(found, expected[:, columns[:, None], columns], atol=1e-10)


def test_a_column_that_is_constant_within_a_component_has_no_correlation() -> None:
    # Red if rounding is divided by rounding.
    X = factor_rows(1)
    X[:60, 2] = 5.0
    rows, z = ArrayRows.standardized(X), np.repeat(np.eye(2), 60, axis=0)
    values = (rows.X - rows.location) / rows.scale
    means = np.stack([values[:60].mean(axis=0), values[60:].mean(axis=0)])
    found = correlations(rows, z, means, np.arange(7), model_of("UUUU", 7, 2))
    assert_array_equal(found[0, 2], np.eye(7)[2])
    assert (np.abs(found[1, 2, [0, 1, 3]]) > 0).all()


def test_groups_of_many_columns_are_found_from_some_of_them() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 700)
    X = rng.standard_normal((50, 4))[:, labels] + rng.standard_normal((50, 700))
    found = first_groups(ArrayRows.standardized(X), np.ones((50, 1)), model_of("UUUU", 700, 1, q=4))
    assert matched_accuracy(labels, found[0]) > 0.95


def test_components_have_groups_of_their_own_or_in_common() -> None:
    rng = np.random.default_rng(0)
    planted = np.array([[0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1]])
    X = np.concatenate([rng.standard_normal((200, 2))[:, row] for row in planted]) + 0.3 * rng.standard_normal((400, 6))
    rows, z = ArrayRows.standardized(X), np.repeat(np.eye(2), 200, axis=0)
    own = first_groups(rows, z, model_of("UUUU", 6, 2, q=2))
    assert all(exact_recovery(a, b) for a, b in zip(planted, own, strict=True))
    common = first_groups(rows, z, model_of("CUUU", 6, 2, q=2))
    assert_array_equal(common[0], common[1])


@every_model
def test_first_parameters_are_those_that_the_model_allows(letters: str) -> None:
    X = factor_rows(2)
    rows, model, z = ArrayRows.standardized(X), model_of(letters, 7, 2), random_start(X, 2, 0)
    found = first_parameters(rows, z, first_groups(rows, z, model), model)
    t, d = found.factor_variances, found.noise
    assert (t > 0).all() and (d >= model.floor).all()
    assert not model.shared_groups or (found.labels[0] == found.labels[1]).all()
    assert not model.shared_factors or (t[0] == t[1]).all()
    assert not model.unit_factors or (t == 1).all()
    assert not model.shared_noise or (d[0] == d[1]).all()
    assert not model.isotropic or (d == d[:, :1]).all()
    assert_allclose(found.weights, 0.5)
    values = (rows.X - rows.location) / rows.scale
    assert_allclose(found.means, (z / z.sum(axis=0)).T @ values, atol=1e-10)
    assert np.isfinite(sweep(rows, found).log_likelihood)


@pytest.mark.parametrize(("p", "least", "count"), [(1, 0, 1), (200, 0, 200), (201, 0, 200), (5000, 300, 300)])
def test_a_tree_is_made_of_all_columns_or_of_evenly_spaced_ones(p: int, least: int, count: int) -> None:
    columns = tree_columns(p, least)
    assert len(np.unique(columns)) == len(columns) == count
    assert columns[0] == 0 and columns[-1] == p - 1
    assert count == 1 or np.ptp(np.diff(columns)) <= 1
