"""Heavy tails: densities against SciPy, the sweep against dense sums, EM against its textbook form, and its limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import oracles
import pytest
from blockmix.em.m_step import expanded, leap, maximize
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import (
    Fixed,
    begin,
    dense,
    family,
    mixtures,
    responsibilities,
    rounded,
    rounding,
    two_clusters,
    unpacked,
    values,
    within_blocks,
)
from numpy.testing import assert_allclose
from scipy.special import digamma, gammaln
from scipy.stats import multivariate_t
from strategies import Matrix

from blockmix.blocks.blocks import Layout, Parameters, Prior
from blockmix.em import block as family_module
from blockmix.em import tails
from blockmix.em import tails as leap_module
from blockmix.em.block import BlockFamily
from blockmix.em.loop import run
from blockmix.em.sweep import full_scatter, sweep
from blockmix.grouping import BestCut
from blockmix.partition import Partition
from blockmix.rows import EXACT, ArrayRows
from blockmix.rows import rows as chunks_module

Mixture = tuple[ArrayRows, Parameters]


@st.composite
def heavy(draw: st.DrawFn) -> Mixture:
    """Rows, some of them rounded, and a mixture of t components."""
    rows, parameters = draw(mixtures())
    rows = rounded(rows) if draw(st.booleans()) else rows
    freedom = draw(st.lists(st.floats(1, 200), min_size=4, max_size=4))
    return rows, replace(parameters, degrees_of_freedom=np.array(freedom[: len(parameters.weights)]))


def distances(rows: ArrayRows, parameters: Parameters) -> Matrix:
    """δ = (x − μ)ᵀΣ⁻¹(x − μ) + Σ_j Δ_j (Σ⁻¹)_jj from dense matrices, shape (N, G)."""
    precisions = np.linalg.inv(dense(parameters))
    centered = values(rows)[:, None] - parameters.means
    squares = np.einsum("ngi,gij,ngj->ng", centered, precisions, centered)
    return squares + rounding(rows) @ np.diagonal(precisions, axis1=1, axis2=2).T


def literal_joint(rows: ArrayRows, parameters: Parameters) -> Matrix:
    """log π_g + log of the t density at distance δ, from its formula, shape (N, G)."""
    nu, p = parameters.degrees_of_freedom, rows.n_columns
    assert nu is not None
    level = gammaln((nu + p) / 2) - gammaln(nu / 2) - p / 2 * np.log(nu * np.pi)
    level = level - 0.5 * np.linalg.slogdet(dense(parameters))[1] + np.log(parameters.weights)
    found: Matrix = level - (nu + p) / 2 * np.log1p(distances(rows, parameters) / nu)
    return found


def joint(rows: ArrayRows, parameters: Parameters) -> Matrix:
    found = family(rows)
    return np.concatenate(list(rows.map(lambda chunk: found.log_joint(chunk, parameters))))


def likelihood(rows: ArrayRows, parameters: Parameters) -> float:
    return float(rows.weights @ oracles.responsibilities(literal_joint(rows, parameters))[1])


# Densities and sums


@settings(max_examples=100)
@given(heavy())
def test_densities_are_those_of_scipy(mixture: Mixture) -> None:
    rows, parameters = mixture
    rows = replace(rows, resolution=EXACT)
    assert parameters.degrees_of_freedom is not None
    pairs = zip(parameters.means, dense(parameters), parameters.degrees_of_freedom, strict=True)
    logs = [np.atleast_1d(multivariate_t(m, S, nu).logpdf(values(rows))) for m, S, nu in pairs]
    expected = np.log(parameters.weights) + np.stack(logs, axis=1)
    assert_allclose(joint(rows, parameters), expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=100)
@given(heavy())
def test_a_sweep_has_the_weights_of_the_rows_in_it(mixture: Mixture) -> None:
    rows, parameters = mixture
    nu, p = parameters.degrees_of_freedom, rows.n_columns
    assert nu is not None
    z, density = oracles.responsibilities(literal_joint(rows, parameters))
    u = (nu + p) / (nu + distances(rows, parameters))
    share = rows.weights[:, None] * z
    logs = np.log(u) + digamma((nu + p) / 2) - np.log((nu + p) / 2)
    mass, excess, scatter = oracles.moments(values(rows), rows.weights, z * u, parameters.means)
    scatter = parameters.layout.pooled(scatter)
    for found in (sweep(rows, parameters), full_scatter(rows, parameters)):
        assert_allclose(found.log_likelihood, rows.weights @ density, rtol=1e-9)
        assert_allclose(found.weight, share.sum(axis=0), rtol=1e-9, atol=1e-9)
        assert_allclose(found.mass, mass, rtol=1e-9, atol=1e-9)
        assert_allclose(found.tail, (share * (logs - u)).sum(axis=0), rtol=1e-9, atol=1e-8)
        assert_allclose(found.excess, excess, rtol=1e-9, atol=1e-8)
        assert_allclose(found.blur, (share * u).T @ rounding(rows), rtol=1e-9, atol=1e-9)
    assert_allclose(full_scatter(rows, parameters).scatter, scatter, rtol=1e-9, atol=1e-8)
    flat = unpacked(sweep(rows, parameters).scatter, parameters.layout)
    assert_allclose(flat, within_blocks(scatter, parameters.layout), rtol=1e-9, atol=1e-8)


@given(heavy(), st.integers(1, 600))
def test_chunks_do_not_change_a_sweep(mixture: Mixture, numbers: int) -> None:
    rows, parameters = mixture
    whole = sweep(rows, parameters)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks_module, "_CHUNK_NUMBERS", numbers)
        parts = sweep(replace(rows), parameters)  # chunks are kept by their rows
    for name in ("log_likelihood", "weight", "mass", "excess", "blur", "scatter", "tail"):
        assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-9, atol=1e-9, err_msg=name)


# The M-step


@given(heavy())
def test_the_slope_of_the_likelihood_in_the_degrees_of_freedom_is_that_of_the_m_step(mixture: Mixture) -> None:
    # ∂ log L/∂ν = ½[n(log(ν/2) − ψ(ν/2) + 1) + T]. Red if E log u lacks its correction, or T or n leave out a weight.
    rows, parameters = mixture
    nu = parameters.degrees_of_freedom
    assert nu is not None
    found = sweep(rows, parameters)
    slope = 0.5 * (found.weight * (np.log(nu / 2) - digamma(nu / 2) + 1) + found.tail)
    for g in range(len(nu)):
        step = 1e-4 * nu[g] * np.eye(len(nu))[g]
        ends = [likelihood(rows, replace(parameters, degrees_of_freedom=nu + s)) for s in (step, -step)]
        difference = (ends[0] - ends[1]) / (2 * step[g])
        assert_allclose(slope[g], difference, rtol=1e-4, atol=1e-6 * (1 + rows.total_weight))


def test_the_scatter_moves_to_the_new_means_by_the_mass_of_the_rows() -> None:
    # Red if the scatter moves by n dᵀd. Without a prior covariances are weighted by zu alone.
    rows, z = two_clusters()
    parameters = replace(family(rows).first(rows, z).parameters, degrees_of_freedom=np.array([2.0, 5.0]))
    parameters = parameters.moved(parameters.weights, parameters.means + 0.7)  # far from the weighted means
    nu = parameters.degrees_of_freedom
    assert nu is not None
    posterior = oracles.responsibilities(literal_joint(rows, parameters))[0]
    u = (nu + rows.n_columns) / (nu + distances(rows, parameters))
    found = maximize(sweep(rows, parameters), parameters, Prior())
    X = values(rows)
    for g in range(2):
        share = posterior[:, g] * u[:, g]
        mean = share @ X / share.sum()
        S = (share[:, None] * (X - mean)).T @ (X - mean) / share.sum()
        assert_allclose(found.means[g], mean, rtol=1e-10, atol=1e-12)
        labels = parameters.layout.partitions[g].labels
        assert_allclose(dense(found)[g], oracles.block_diagonal(S, labels), rtol=1e-9, atol=1e-12)
    assert abs(posterior.sum(axis=0) - (posterior * u).sum(axis=0)).min() > 5


@pytest.mark.parametrize("nu", [1.0, 3.0, 40.0, 200.0])
def test_new_degrees_of_freedom_solve_the_equation_or_lie_at_an_end(nu: float) -> None:
    rest = digamma(nu / 2) - np.log(nu / 2)  # 1 + T/n
    found = tails.new_freedom(np.array([4 * (rest - 1)]), np.array([4.0]), np.array([7.0]))
    assert_allclose(found, nu, rtol=1e-6)
    beyond = tails.new_freedom(np.array([-100.0, -1.0, 0.0]), np.array([1.0, 1.0, 0.0]), np.array([7.0, 7.0, 7.0]))
    assert_allclose(beyond, [tails.LEAST, tails.MOST, 7.0])


def test_one_component_with_one_block_is_textbook_px_em() -> None:
    rng = np.random.default_rng(0)
    X = multivariate_t([1, 2, 3], np.diag([1.0, 4.0, 9.0]) + 0.5, 3).rvs(400, random_state=rng)
    rows = ArrayRows.standardized(X)
    found = heavy_family(rows, 1, prior=Prior())
    parameters = found.first(rows, np.ones((400, 1))).parameters
    mean, S, nu = parameters.means[0], dense(parameters)[0], float(parameters.degrees_of_freedom[0])  # type: ignore[index]
    Z = values(rows)
    for _ in range(5):
        u = (nu + 3) / (nu + np.einsum("ni,ij,nj->n", Z - mean, np.linalg.inv(S), Z - mean))
        mean = u @ Z / u.sum()
        S = (u[:, None] * (Z - mean)).T @ (Z - mean) / u.sum()
        u = u / u.mean()
        logs = np.log(u) + digamma((nu + 3) / 2) - np.log((nu + 3) / 2)
        grid = np.linspace(1, 20, 190001)
        value = np.log(grid / 2) - digamma(grid / 2) + 1 + (logs - u).mean()
        nu = float(grid[np.abs(value).argmin()])
        parameters = found.maximize(found.sweep(rows, parameters), parameters)
    assert_allclose(parameters.means[0], mean, atol=1e-6)
    assert_allclose(dense(parameters)[0], S, atol=1e-4)
    assert_allclose(parameters.degrees_of_freedom, nu, atol=2e-3)


@given(heavy(), st.floats(0, 30), st.floats(0, 5))
def test_the_scale_of_the_weights_is_the_best_one_under_the_prior(
    mixture: Mixture, shrinkage: float, ridge: float
) -> None:
    # −½ Σ[(νn − κp) log α + νm/α + (κ + ρ) α tr Σ⁻¹] is largest at the α by which the weights are divided.
    rows, parameters = mixture
    nu, found = parameters.degrees_of_freedom, sweep(rows, parameters)
    assert nu is not None
    divided, _ = expanded(found, parameters, Prior(shrinkage, ridge))
    counted = found.mass > 1e-8
    scale = found.mass[counted] / divided.mass[counted]
    traces = np.trace(np.linalg.inv(dense(parameters)), axis1=1, axis2=2)

    def value(alpha: Matrix) -> float:
        logs = (nu * found.weight - shrinkage * rows.n_columns)[counted] * np.log(alpha)
        return -0.5 * float(
            (logs + (nu * found.mass)[counted] / alpha + (shrinkage + ridge) * traces[counted] * alpha).sum()
        )

    if counted.all() or not parameters.layout.shared:
        best = value(scale)
        assert all(value(scale * factor) <= best + 1e-9 * abs(best) for factor in (0.9, 0.999, 1.001, 1.1))
    z = oracles.responsibilities(literal_joint(rows, parameters))[0]
    u = (nu + rows.n_columns) / (nu + distances(rows, parameters)) / np.where(counted, found.mass / divided.mass, 1)
    logs = np.log(u) + digamma((nu + rows.n_columns) / 2) - np.log((nu + rows.n_columns) / 2)
    expected = (rows.weights[:, None] * z * (logs - u)).sum(axis=0)
    assert divided.tail is not None
    assert_allclose(divided.tail[counted], expected[counted], rtol=1e-8, atol=1e-7)


# Leaps


@settings(max_examples=100)
@given(heavy())
def test_a_leap_raises_the_likelihood_and_moves_nothing_else(mixture: Mixture) -> None:
    rows, parameters = mixture
    before = likelihood(rows, parameters)
    found = leap(rows, parameters, 1e-6)
    if found is None:
        return
    assert likelihood(rows, found) >= before + 1e-6 - 1e-9 * abs(before)
    assert np.array_equal(found.means, parameters.means)
    assert np.array_equal(found.factors, parameters.factors)
    assert np.array_equal(found.weights, parameters.weights)


def test_a_leap_is_not_worth_making_twice() -> None:
    rows, z = two_clusters()
    parameters = heavy_family(rows, 2, 2).first(rows, z).parameters
    again = leap(rows, replace(parameters, degrees_of_freedom=np.array([1.0, 1.0])), 0.0)
    assert again is not None
    assert_allclose(again.degrees_of_freedom, 200)  # the rows are normal
    assert leap(rows, again, 0.0) is None


# EM


def heavy_family(rows: ArrayRows, *n_groups: object, **given: Any) -> BlockFamily:
    return replace(family(rows, *n_groups, **given), heavy=True)


SETTINGS: dict[str, dict[str, Any]] = {
    "two groups": {},
    "ridge": {"prior": Prior(ridge=0.5)},
    "shrinkage": {"prior": Prior(shrinkage=20.0, ridge=0.01)},
    "shared": {"shared": True},
    "shared, shrunk": {"shared": True, "prior": Prior(shrinkage=20.0)},
    "shapes": {"rule": BestCut("auto"), "priced": True},
    "wrong groups first": {"grouping": Fixed(Partition([0, 1, 1, 0, 0, 1]), Partition([0, 0, 0, 1, 1, 1]))},
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("seed", range(6))
def test_the_objective_never_falls(setting: str, seed: int) -> None:
    given = dict(SETTINGS[setting])
    rule = given.pop("rule", 2)
    rng = np.random.default_rng(seed)
    rows, z = two_clusters(seed, n_rows=60, apart=1.0)
    X = rows.X / np.sqrt(rng.chisquare(2 + seed, (len(rows.X), 1)) / (2 + seed))
    X[:3] = rng.uniform(-40, 40, (3, 6))
    rows = ArrayRows.standardized(X)
    found = heavy_family(rows, rule, rule, **given)
    state = run(found, rows, begin(found, rows, z, 1e-9), 1e-9, 300).state
    trace = np.array(state.trace)
    assert len(trace) > 3
    assert (np.diff(trace) >= -1e-10 * np.abs(trace).max()).all()


@pytest.mark.parametrize("shared", [False, True])
def test_many_degrees_of_freedom_are_the_normal_fit(shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((tails, "LEAST"), (tails, "MOST"), (family_module, "FIRST")):
        monkeypatch.setattr(module, name, 1e9)
    monkeypatch.setattr(leap_module, "_GRID", np.array([1e9]))
    rows, z = two_clusters(apart=1.5)
    ends = []
    for found in (family(rows, 2, 2, shared=shared), heavy_family(rows, 2, 2, shared=shared)):
        ends.append(run(found, rows, begin(found, rows, z, 1e-8), 1e-8, 200).state)
    normal, heavy = ends
    assert_allclose(heavy.trace, normal.trace, rtol=1e-6)
    assert_allclose(heavy.parameters.means, normal.parameters.means, atol=1e-5)
    assert_allclose(dense(heavy.parameters), dense(normal.parameters), atol=1e-5)
    assert heavy.parameters.layout.partitions == normal.parameters.layout.partitions


def test_far_rows_move_nothing() -> None:
    # One row at 10⁶: the normal component follows it, the t component does not.
    rows, z = two_clusters()
    X = np.concatenate([rows.X, np.full((1, 6), 1e6)])
    located = ArrayRows(X, np.ones(len(X)), rows.location, rows.scale)
    z = np.concatenate([z, [[0, 1]]])
    layout = Layout((Partition([0, 0, 0, 1, 1, 1]), Partition([0, 1, 0, 1, 0, 1])))
    found = heavy_family(located, 2, 2, grouping=Fixed(*layout.distinct))
    first = family(rows, 2, 2, grouping=Fixed(*layout.distinct)).first(rows, z[:-1]).parameters
    state = begin(found, located, z, 1e-6)
    state = replace(state, parameters=found.with_tails(first))
    end = run(found, located, state, 1e-6, 200).state.parameters
    assert_allclose(end.means, first.means, atol=0.3)
    assert np.isfinite(dense(end)).all()
    assert np.abs(dense(end)).max() < 2


def test_a_lost_component_keeps_its_degrees_of_freedom() -> None:
    rows, z = two_clusters()
    parameters = heavy_family(rows, 2, 2).first(rows, z).parameters
    parameters = replace(
        parameters.moved(np.array([1.0, 0.0]), parameters.means), degrees_of_freedom=np.array([5, 9.0])
    )
    found = maximize(sweep(rows, parameters), parameters, Prior(ridge=1e-4))
    assert found.weights.tolist() == [1.0, 0.0]
    assert found.degrees_of_freedom is not None
    assert found.degrees_of_freedom[1] == 9.0
    assert np.isfinite(dense(found)).all()


def test_responsibilities_without_tails_are_left_alone() -> None:
    rows, z = two_clusters()
    parameters = family(rows).first(rows, z).parameters
    found = sweep(rows, parameters)
    assert found.tail is None
    assert_allclose(found.mass, found.weight)
    assert_allclose(found.weight, (rows.weights[:, None] * responsibilities(rows, parameters)).sum(axis=0))
