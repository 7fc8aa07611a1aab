"""The sweep of the factor mixture against dense densities and literal sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracles
import pytest
from factors import log_joint, random_parameters
from hypothesis import given
from hypothesis import strategies as st
from mixtures import rounded, rounding, values
from numpy.testing import assert_allclose
from strategies import Matrix, seeds

from blockmix.em.factor import FactorParameters, FactorStatistics, chunk_log_joint, responsibilities, sweep
from blockmix.rows import ArrayRows
from blockmix.rows import rows as chunks_module


def rows_of(seed: int, n_rows: int = 150) -> ArrayRows:
    """Weighted rows in units of their own."""
    rng = np.random.default_rng(seed)
    location, scale = rng.standard_normal(6), rng.uniform(0.5, 2, 6)
    X = 2 * rng.standard_normal((n_rows, 6)) * scale + location
    return ArrayRows(X, rng.integers(0, 3, n_rows) + np.eye(n_rows)[0], location, scale)


def assert_same(found: FactorStatistics, expected: FactorStatistics, **tolerance: float) -> None:
    for name in ("log_likelihood", "weight", "first", "second", "cross"):
        assert_allclose(getattr(found, name), getattr(expected, name), **tolerance, err_msg=name)


def literal(rows: ArrayRows, parameters: FactorParameters, z: Matrix | None = None) -> FactorStatistics:
    X, delta = values(rows), rounding(rows)
    own, density = oracles.responsibilities(literal_log_joint(rows, parameters))
    z = (own if z is None else z) * rows.weights[:, None]
    B, d = np.eye(3)[parameters.labels], parameters.noise
    s = np.einsum("gjk,ngj->ngk", B, (X[:, None, :] - parameters.means) / d)
    # Rounding is noise of a column by itself: x_j² is larger by Δ_j, and s_k x_j by Δ_j / d_j where j is in k.
    cross = np.einsum("ng,ngk,nj->gkj", z, s, X) + np.einsum("ng,gjk,nj->gkj", z, B / d[:, :, None], delta)
    return FactorStatistics(float(rows.weights @ density), z.sum(axis=0), z.T @ X, z.T @ (X**2 + delta), cross)


def literal_log_joint(rows: ArrayRows, parameters: FactorParameters) -> Matrix:
    precisions = np.diagonal(np.linalg.inv(parameters.covariances), axis1=1, axis2=2)
    return log_joint(values(rows), parameters) - 0.5 * rounding(rows) @ precisions.T


@given(seeds, st.booleans())
def test_log_densities_are_those_of_the_dense_mixture(seed: int, is_rounded: bool) -> None:
    # Red if c, the log-determinant or the cross term with the mean is wrong in any place.
    rows, chosen = rows_of(seed), random_parameters(seed)
    rows = rounded(rows) if is_rounded else rows
    (found,) = rows.map(lambda chunk: chunk_log_joint(chunk, chosen))
    assert_allclose(found, literal_log_joint(rows, chosen), rtol=1e-9, atol=1e-9)
    assert_allclose(responsibilities(rows, chosen), oracles.responsibilities(found)[0], atol=1e-9)


@given(seeds, st.booleans(), st.booleans())
def test_a_sweep_is_the_literal_e_step(seed: int, given_z: bool, is_rounded: bool) -> None:
    rows, chosen = rows_of(seed), random_parameters(seed)
    rows = rounded(rows) if is_rounded else rows
    z = np.random.default_rng(seed).dirichlet([1, 1], rows.n_rows) if given_z else None
    found, expected = sweep(rows, chosen, z), literal(rows, chosen, z)
    expected = replace(expected, log_likelihood=np.nan) if given_z else expected
    assert_same(found, expected, rtol=1e-9, atol=1e-8)


@given(seeds, st.integers(1, 4))
def test_neither_chunks_nor_threads_change_a_sweep(seed: int, n_threads: int) -> None:
    rows, chosen = rows_of(seed, 400), random_parameters(seed)
    whole = sweep(rows, chosen)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks_module, "_CHUNK_NUMBERS", 1)
        parts, again = (sweep(replace(rows, n_threads=count), chosen) for count in (1, n_threads))
    assert_same(again, parts, rtol=0)
    assert_same(parts, whole, rtol=1e-12, atol=1e-12 * rows.total_weight)


@given(seeds)
def test_float32_rows_are_summed_in_double(seed: int) -> None:
    rows, chosen = rows_of(seed), random_parameters(seed)
    narrow = replace(rows, X=rows.X.astype(np.float32))
    assert_same(sweep(narrow, chosen), sweep(replace(rows, X=narrow.X.astype(float)), chosen), rtol=1e-12, atol=1e-10)


def test_a_far_row_leaves_no_nan() -> None:
    rows, chosen = rows_of(0), random_parameters(0)
    rows.X[3] = 1e100
    found = sweep(rows, chosen)
    assert all(np.isfinite(array).all() for array in (found.log_likelihood, found.weight, found.first, found.cross))
    assert_allclose(responsibilities(rows, chosen).sum(axis=1), 1)


def test_a_component_of_weight_0_has_no_rows() -> None:
    rows, chosen = rows_of(0), random_parameters(0)
    found = sweep(rows, chosen.moved(np.array([1.0, 0.0]), chosen.means))
    assert np.isfinite(found.log_likelihood)
    assert_allclose(found.weight, [rows.total_weight, 0])
    assert (found.first[1] == 0).all()
    assert (found.cross[1] == 0).all()
