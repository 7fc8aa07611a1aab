"""Parameters of the factor mixture: Σ = B T Bᵀ + D against dense matrices, and what the letters of a model share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from factors import every_model, model_of, random_parameters
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from strategies import Matrix, seeds

from blockmix.em.factor import FactorModel, FactorParameters
from blockmix.partition import IntArray


@given(seeds)
def test_covariances_are_the_literal_product(seed: int) -> None:
    chosen = random_parameters(seed)
    B, T = np.eye(3)[chosen.labels], chosen.factor_variances
    literal = B @ (T[:, :, None] * B.swapaxes(1, 2)) + chosen.noise[:, :, None] * np.eye(6)
    assert_allclose(chosen.covariances, literal)
    assert_allclose(chosen.logdets, np.linalg.slogdet(literal)[1], rtol=1e-10, atol=1e-10)


@given(seeds)
def test_gains_and_projections_are_the_regression_of_factors_on_columns(seed: int) -> None:
    # E[u | x] = T Bᵀ Σ⁻¹ (x − μ) = c s, and its variance T − T Bᵀ Σ⁻¹ B T = c.
    chosen = random_parameters(seed)
    for g in range(2):
        B, T = np.eye(3)[chosen.labels[g]], np.diag(chosen.factor_variances[g])
        regression = T @ B.T @ np.linalg.inv(chosen.covariances[g])
        assert_allclose(chosen.gains[g][:, None] * chosen.projection[g], regression, atol=1e-10)
        assert_allclose(np.diag(chosen.gains[g]), T - regression @ B @ T, atol=1e-10)
        assert_allclose(chosen.precisions[g], np.diag(B.T @ np.diag(1 / chosen.noise[g]) @ B))


@given(seeds)
def test_groups_numbered_by_first_appearance_are_the_same_mixture(seed: int) -> None:
    chosen = random_parameters(seed)
    found = chosen.canonical()
    assert_array_equal(found.labels[:, 0], 0)
    assert all(list(dict.fromkeys(row.tolist())) == [0, 1, 2] for row in found.labels)
    assert_allclose(found.covariances, chosen.covariances)


def test_moved_parameters_keep_their_covariances() -> None:
    chosen = random_parameters(0)
    other = chosen.moved(np.array([1.0, 0.0]), chosen.means + 1)
    assert_allclose(other.covariances, chosen.covariances)
    assert_allclose(other.means, chosen.means + 1)
    assert other.weights.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("letters", "shared"),
    [
        ("UUUU", set()),
        ("CUUU", {"shared_groups"}),
        ("UCUU", {"shared_factors"}),
        ("UIUU", {"unit_factors"}),
        ("UUCU", {"shared_noise"}),
        ("UUUC", {"isotropic"}),
        ("CICC", {"shared_groups", "unit_factors", "shared_noise", "isotropic"}),
    ],
)
def test_letters_name_what_is_shared(letters: str, shared: set[str]) -> None:
    flags = vars(model_of(letters, 7, 2))
    assert {name for name, value in flags.items() if value is True} == shared
    # A single component has no other to share with.
    alone = vars(model_of(letters, 7, 1))
    assert {name for name, value in alone.items() if value is True} == shared & {"unit_factors", "isotropic"}


@pytest.mark.parametrize(
    ("letters", "count"),
    [("UUUU", 6 + 14), ("UCUU", 3 + 14), ("UUCU", 6 + 7), ("UUUC", 6 + 2), ("CCCC", 3 + 1), ("UIUU", 14)],
)
def test_parameters_are_the_free_entries_of_t_and_d(letters: str, count: int) -> None:
    assert FactorModel.named(letters, 2, 3, np.empty(0)).n_parameters(2, 7) == count


def rank(model: FactorModel, labels: IntArray) -> int:
    """Dimension of the set of covariances near random T and D: the rank of their derivative."""
    G, p = labels.shape
    rng = np.random.default_rng(0)
    T = np.empty((1 if model.shared_factors else G, model.n_groups))
    D = np.empty((1 if model.shared_noise else G, 1 if model.isotropic else p))
    n_factors = 0 if model.unit_factors else T.size

    def covariances(free: Matrix) -> Matrix:
        t = np.ones((G, model.n_groups)) if model.unit_factors else free[:n_factors].reshape(T.shape)
        t, d = np.broadcast_to(t, (G, model.n_groups)), free[n_factors:].reshape(D.shape)
        chosen = FactorParameters(np.full(G, 1 / G), np.zeros((G, p)), labels, t, np.broadcast_to(d, (G, p)))
        return chosen.covariances.ravel()

    at = rng.uniform(0.5, 2, n_factors + D.size)
    derivative = [covariances(at + step) - covariances(at - step) for step in 0.1 * np.eye(len(at))]
    return int(np.linalg.matrix_rank(np.stack(derivative)))


@every_model
@pytest.mark.parametrize(
    "labels",
    [
        [[0, 0, 0, 1, 1, 1], [0, 0, 1, 0, 1, 1]],
        [[0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 1]],
        [[0, 0, 0, 0, 0, 1], [0, 1, 1, 1, 1, 1]],
        [[0, 0, 1, 1, 2, 3], [0, 1, 1, 2, 2, 3]],
        [[0, 1, 2, 3, 4, 5], [1, 0, 2, 3, 4, 5]],
    ],
)
def test_parameters_are_as_many_as_the_covariances_have_dimensions(letters: str, labels: list[list[int]]) -> None:
    # A column alone in its group has a t and a d, but one variance.
    q = max(labels[0]) + 1
    model, groups = model_of(letters, 6, 2, q=q), np.array(labels)
    groups = groups[[0, 0]] if model.shared_groups else groups
    t = np.sort(np.random.default_rng(0).uniform(0.5, 2, q))
    assert model.n_parameters(2, 6) - model.n_redundant(groups, np.stack([t, t])) == rank(model, groups)


def test_without_factors_noise_is_the_covariance() -> None:
    chosen = replace(random_parameters(1), factor_variances=np.zeros((2, 3)))
    assert_allclose(chosen.covariances, [np.diag(row) for row in chosen.noise])
    assert_array_equal(chosen.gains, 0)
