"""The factor mixture: Σ = B T Bᵀ + D against dense matrices, its parameter count, its sweep against literal sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracles
from factors import every_model, log_joint, model_of, random_parameters, standardized
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from strategies import Matrix, seeds

from blockmix.em.factor import (
    FactorModel,
    FactorParameters,
    FactorStatistics,
    Scatter,
    factor_log_joint,
    factor_responsibilities,
    factor_sweep,
)
from blockmix.partition import IntArray, Partition
from blockmix.rows import ArrayRows, Resolution


@given(seeds)
def test_covariances_gains_and_projections_are_those_of_the_literal_product(seed: int) -> None:
    # E[u | x] = T Bᵀ Σ⁻¹ (x − μ) = c s, and its variance T − T Bᵀ Σ⁻¹ B T = c.
    parameters = random_parameters(seed)
    for g in range(2):
        B, T = np.eye(3)[parameters.labels[g]], np.diag(parameters.factor_variances[g])
        S = B @ T @ B.T + np.diag(parameters.noise[g])
        assert_allclose(parameters.covariances[g], S)
        assert_allclose(parameters.logdets[g], np.linalg.slogdet(S)[1], rtol=1e-10, atol=1e-10)
        regression = T @ B.T @ np.linalg.inv(S)
        assert_allclose(parameters.gains[g][:, None] * parameters.projection[g], regression, atol=1e-10)
        assert_allclose(np.diag(parameters.gains[g]), T - regression @ B @ T, atol=1e-10)


@given(seeds)
def test_canonical_parameters_are_the_same_mixture(seed: int) -> None:
    parameters = random_parameters(seed, p=7)
    canonical = parameters.canonical()
    assert all(np.array_equal(Partition(row).labels, row) for row in canonical.labels)
    assert_allclose(canonical.covariances, parameters.covariances)


def test_letters_name_what_is_shared() -> None:
    names = ["shared_groups", "shared_factors", "shared_noise", "isotropic", "unit_factors"]
    for letters, shared in (("UUUU", []), ("CCUU", names[:2]), ("UUCC", names[2:4]), ("UICU", names[2::2])):
        assert [name for name in names if getattr(model_of(letters, 7, 2), name)] == shared
    # A single component has no other to share with.
    assert [name for name in names if getattr(model_of("CICC", 7, 1), name)] == names[3:]


def rank(model: FactorModel, labels: IntArray) -> int:
    """Dimension of the set of covariances near random T and D: the rank of their derivative."""
    G, p = labels.shape
    T = np.empty((1 if model.shared_factors else G, model.n_groups))
    D = np.empty((1 if model.shared_noise else G, 1 if model.isotropic else p))
    n_factors = 0 if model.unit_factors else T.size

    def covariances(free: Matrix) -> Matrix:
        t = np.ones((G, model.n_groups)) if model.unit_factors else free[:n_factors].reshape(T.shape)
        t, d = np.broadcast_to(t, (G, model.n_groups)), free[n_factors:].reshape(D.shape)
        parameters = FactorParameters(np.full(G, 1 / G), np.zeros((G, p)), labels, t, np.broadcast_to(d, (G, p)))
        return parameters.covariances.ravel()

    center = np.random.default_rng(0).uniform(0.5, 2, n_factors + D.size)
    derivative = [covariances(center + step) - covariances(center - step) for step in 0.1 * np.eye(len(center))]
    return int(np.linalg.matrix_rank(np.stack(derivative)))


@every_model
def test_parameters_are_as_many_as_the_covariances_have_dimensions(letters: str) -> None:
    # A column alone in its group has a t and a d, but one variance.
    for labels in (
        [[0, 0, 0, 1, 1, 1], [0, 0, 1, 0, 1, 1]],
        [[0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 1]],
        [[0, 0, 0, 0, 0, 1], [0, 1, 1, 1, 1, 1]],
        [[0, 0, 1, 1, 2, 3], [0, 1, 1, 2, 2, 3]],
        [[0, 1, 2, 3, 4, 5], [1, 0, 2, 3, 4, 5]],
    ):
        q = max(labels[0]) + 1
        model, groups = model_of(letters, 6, 2, q=q), np.array(labels)
        groups = groups[[0, 0]] if model.shared_groups else groups
        t = np.sort(np.random.default_rng(0).uniform(0.5, 2, q))
        assert model.n_parameters(groups, np.stack([t, t])) == rank(model, groups), labels


def rows_of(seed: int, is_rounded: bool = False, n_rows: int = 150) -> ArrayRows:
    """Weighted rows in units of their own."""
    rng = np.random.default_rng(seed)
    location, scale = rng.standard_normal(6), rng.uniform(0.5, 2, 6)
    X = 2 * rng.standard_normal((n_rows, 6)) * scale + location
    rows = ArrayRows(X, rng.integers(0, 3, n_rows) + np.eye(n_rows)[0], location, scale)
    if not is_rounded:
        return rows
    rows = replace(rows, X=X.round(1))
    return rows.resolved(Resolution.of(rows.X, rows.weights))


def rounding_of(rows: ArrayRows) -> Matrix:
    return np.concatenate(list(rows.map(lambda chunk: np.broadcast_to(chunk.rounding_variances, chunk.X.shape))))


def literal_log_joint(rows: ArrayRows, parameters: FactorParameters) -> Matrix:
    """Dense log π_g f_g; rounding adds Σ_j Δ_j (Σ⁻¹)_jj to the squared distances."""
    precisions = np.diagonal(np.linalg.inv(parameters.covariances), axis1=1, axis2=2)
    return log_joint(standardized(rows), parameters) - 0.5 * rounding_of(rows) @ precisions.T


def assert_same(statistics: FactorStatistics, expected: FactorStatistics, **tolerance: float) -> None:
    for name in ("log_likelihood", "weight", "first", "second", "cross"):
        assert_allclose(getattr(statistics, name), getattr(expected, name), **tolerance, err_msg=name)


@given(seeds, st.booleans())
def test_log_densities_are_those_of_the_dense_mixture(seed: int, is_rounded: bool) -> None:
    # Red if c, the log-determinant or the cross term with the mean is wrong in any place.
    rows, parameters = rows_of(seed, is_rounded), random_parameters(seed)
    (joint,) = rows.map(lambda chunk: factor_log_joint(chunk, parameters))
    assert_allclose(joint, literal_log_joint(rows, parameters), rtol=1e-9, atol=1e-9)
    assert_allclose(factor_responsibilities(rows, parameters), oracles.responsibilities(joint)[0], atol=1e-9)


@given(seeds, st.booleans(), st.booleans())
def test_a_sweep_is_the_literal_e_step(seed: int, given_z: bool, is_rounded: bool) -> None:
    # Rounding is noise of a column by itself: x_j² is larger by Δ_j, and s_k x_j by Δ_j / d_j where j is in k.
    rows, parameters = rows_of(seed, is_rounded), random_parameters(seed)
    X, delta = standardized(rows), rounding_of(rows)
    z, density = oracles.responsibilities(literal_log_joint(rows, parameters))
    given_responsibilities = np.random.default_rng(seed).dirichlet([1, 1], rows.n_rows) if given_z else None
    z = (z if given_responsibilities is None else given_responsibilities) * rows.weights[:, None]
    B, d = np.eye(3)[parameters.labels], parameters.noise
    s = np.einsum("gjk,ngj->ngk", B, (X[:, None, :] - parameters.means) / d)
    cross = np.einsum("ng,ngk,nj->gkj", z, s, X) + np.einsum("ng,gjk,nj->gkj", z, B / d[:, :, None], delta)
    value = np.nan if given_z else float(rows.weights @ density)
    literal = FactorStatistics(value, z.sum(axis=0), z.T @ X, z.T @ (X**2 + delta), cross)
    assert_same(factor_sweep(rows, parameters, given_responsibilities), literal, rtol=1e-9, atol=1e-8)


@given(seeds, st.booleans())
def test_a_scatter_holds_the_weighted_moments_about_the_new_means(seed: int, is_rounded: bool) -> None:
    rows, parameters = rows_of(seed, is_rounded), random_parameters(seed)
    X, z = standardized(rows), np.random.default_rng(seed).dirichlet([1, 1], rows.n_rows)
    scatter = Scatter.of(factor_sweep(rows, parameters, z), parameters)
    shares = z * rows.weights[:, None]
    assert_allclose(scatter.rows, shares.sum(axis=0))
    for g, share in enumerate(shares.T):
        S = np.cov(X.T, aweights=share, ddof=0) + np.diag(share @ rounding_of(rows) / share.sum())
        P = parameters.projection[g]
        assert_allclose(scatter.means[g], np.average(X, weights=share, axis=0), atol=1e-10)
        assert_allclose(scatter.variances[g], np.diag(S), rtol=1e-9)
        assert_allclose(scatter.cross[g], P @ S, atol=1e-8)
        assert_allclose(scatter.spread[g], np.diag(P @ S @ P.T), rtol=1e-8)


def test_float32_rows_are_summed_in_double() -> None:
    rows, parameters = rows_of(0), random_parameters(0)
    narrow = replace(rows, X=rows.X.astype(np.float32))
    wide = factor_sweep(replace(rows, X=narrow.X.astype(float)), parameters)
    assert_same(factor_sweep(narrow, parameters), wide, rtol=1e-12, atol=1e-10)


def test_an_outlier_leaves_no_nan() -> None:
    rows, parameters = rows_of(0), random_parameters(0)
    rows.X[3] = 1e100
    statistics = factor_sweep(rows, parameters)
    sums = (statistics.log_likelihood, statistics.weight, statistics.first, statistics.cross)
    assert all(np.isfinite(array).all() for array in sums)
    rows.X[3] = 1e200  # its squared distances overflow
    assert_allclose(factor_responsibilities(rows, parameters).sum(axis=1), 1)


def test_a_component_of_weight_0_has_no_rows() -> None:
    rows, parameters = rows_of(0), random_parameters(0)
    statistics = factor_sweep(rows, parameters.moved(np.array([1.0, 0.0]), parameters.means))
    assert np.isfinite(statistics.log_likelihood)
    assert_allclose(statistics.weight, [rows.total_weight, 0])
    assert_array_equal(statistics.first[1], 0)
    assert_array_equal(statistics.cross[1], 0)
