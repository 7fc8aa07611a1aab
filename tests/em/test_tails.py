"""Heavy tails: degrees of freedom, the scale of the weights (PX-EM), leaps and limits. Sums: see test_sweep."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mixtures import TRUTH, Case, Fixed, dense, ended, family, mixtures, state, two_clusters, values
from numpy.testing import assert_allclose
from scipy.special import digamma
from scipy.stats import multivariate_t
from strategies import Matrix

from blockmix.em import block, tails
from blockmix.em.loop import run
from blockmix.em.parameters import Parameters, Prior
from blockmix.em.sweep import maximize, sweep
from blockmix.em.tails import expanded, leap
from blockmix.rows import ArrayRows


@st.composite
def heavy(draw: st.DrawFn) -> Case:
    """Rows, complete or not, and a mixture of t components with rows in each of them."""
    rows, parameters = draw(mixtures(heavy=False))
    freedom = draw(st.lists(st.floats(1, 200), min_size=3, max_size=3))
    parameters = replace(parameters, degrees_of_freedom=np.array(freedom[: len(parameters.weights)]))
    assume((sweep(rows, parameters).mass > 1e-6).all())
    return rows, parameters


def freedom(parameters: Parameters) -> Matrix:
    """Degrees of freedom of components that have them."""
    assert parameters.degrees_of_freedom is not None
    return np.asarray(parameters.degrees_of_freedom)


@given(heavy())
def test_the_slope_of_the_likelihood_in_the_degrees_of_freedom_is_that_of_the_m_step(made: Case) -> None:
    # ∂ log L/∂ν = ½[n(log(ν/2) − ψ(ν/2) + 1) + T]. Red if E log u lacks its correction, or T or n leave out a weight.
    rows, parameters = made
    nu, statistics = freedom(parameters), sweep(rows, parameters)
    assert statistics.tail is not None
    slope = 0.5 * (statistics.weight * (np.log(nu / 2) - digamma(nu / 2) + 1) + statistics.tail)
    for g, step in enumerate(1e-4 * nu):
        moved = (replace(parameters, degrees_of_freedom=nu + s * np.eye(len(nu))[g]) for s in (step, -step))
        ends = [sweep(rows, other).log_likelihood for other in moved]
        assert_allclose(slope[g], (ends[0] - ends[1]) / (2 * step), rtol=1e-4, atol=1e-6 * (1 + rows.total_weight))


@pytest.mark.parametrize("nu", [1.0, 3.0, 40.0, 200.0])
def test_new_degrees_of_freedom_solve_the_equation_or_lie_at_an_end(nu: float) -> None:
    rest = digamma(nu / 2) - np.log(nu / 2)  # 1 + T/n
    assert_allclose(tails.new_freedom(np.array([4 * (rest - 1)]), np.array([4.0]), np.array([7.0])), nu, rtol=1e-6)
    beyond = tails.new_freedom(np.array([-100.0, -1.0, 0.0]), np.array([1.0, 1.0, 0.0]), np.full(3, 7.0))
    assert_allclose(beyond, [tails.LEAST, tails.LARGEST, 7.0])  # without rows a component keeps its own


def test_one_component_with_one_block_is_textbook_px_em() -> None:
    # Red if the scatter moves to the new means by n dᵀd, or if it is divided by n without a prior.
    X = multivariate_t([1, 2, 3], np.diag([1.0, 4.0, 9.0]) + 0.5, 3).rvs(400, random_state=np.random.default_rng(0))
    rows = ArrayRows.standardized(X)
    chosen = family(rows, 1, 1, prior=Prior(), tails="t")
    parameters = chosen.first(rows, np.ones((400, 1)), 0.0).parameters
    parameters = parameters.moved(parameters.weights, parameters.means + 0.7)  # far from the weighted means
    mean, S, nu, Z = parameters.means[0], dense(parameters)[0], float(freedom(parameters)[0]), values(rows)
    for _ in range(5):
        u = (nu + 3) / (nu + np.einsum("ni,ij,nj->n", Z - mean, np.linalg.inv(S), Z - mean))
        mean = u @ Z / u.sum()
        S = (u[:, None] * (Z - mean)).T @ (Z - mean) / u.sum()
        u = u / u.mean()
        logs = np.log(u) + digamma((nu + 3) / 2) - np.log((nu + 3) / 2)
        grid = np.linspace(1, 20, 190001)
        nu = float(grid[np.abs(np.log(grid / 2) - digamma(grid / 2) + 1 + (logs - u).mean()).argmin()])
        parameters = chosen.maximize(chosen.sweep(rows, parameters), parameters)
    assert_allclose(parameters.means[0], mean, atol=1e-6)
    assert_allclose(dense(parameters)[0], S, atol=1e-4)
    assert_allclose(freedom(parameters), nu, atol=2e-3)


@given(heavy(), st.floats(0, 30), st.floats(0, 5))
def test_the_scale_of_the_weights_is_the_best_one_under_the_prior(made: Case, shrinkage: float, ridge: float) -> None:
    # −½ Σ[(νn − κp) log α + νm/α + (κ + ρ) α tr Σ⁻¹] is largest at the α by which the weights are divided.
    rows, parameters = made
    nu, statistics = freedom(parameters), sweep(rows, parameters)
    divided, _ = expanded(statistics, parameters, Prior(shrinkage, ridge))
    scale = statistics.mass / divided.mass
    traces = np.trace(np.linalg.inv(dense(parameters)), axis1=1, axis2=2)

    def value(alpha: Matrix) -> float:
        logs = (nu * statistics.weight - shrinkage * rows.n_columns) * np.log(alpha)
        return -0.5 * float((logs + nu * statistics.mass / alpha + (shrinkage + ridge) * traces * alpha).sum())

    best = value(scale)
    assert all(value(scale * factor) <= best + 1e-9 * abs(best) for factor in (0.9, 0.999, 1.001, 1.1))
    assert divided.tail is not None and statistics.tail is not None
    # Σz(E log u − u) for u/α in place of u.
    tail = statistics.tail + statistics.mass - statistics.weight * np.log(scale) - statistics.mass / scale
    assert_allclose(divided.tail, tail, rtol=1e-8, atol=1e-7)


@settings(max_examples=60)
@given(heavy())
def test_a_leap_raises_the_likelihood_and_moves_nothing_else(made: Case) -> None:
    rows, parameters = made
    before = sweep(rows, parameters).log_likelihood
    moved = leap(rows, parameters, 1e-6)
    if moved is not None:
        assert sweep(rows, moved).log_likelihood >= before + 1e-6 - 1e-9 * abs(before)
        assert moved.means is parameters.means and moved.blocks is parameters.blocks
        assert moved.weights is parameters.weights


def test_a_leap_is_not_worth_making_twice() -> None:
    rows, z = two_clusters()
    parameters = family(rows, tails="t").first(rows, z, 0.0).parameters
    again = leap(rows, replace(parameters, degrees_of_freedom=np.array([1.0, 1.0])), 0.0)
    assert again is not None
    assert_allclose(freedom(again), 200)  # the rows are normal
    assert leap(rows, again, 0.0) is None


@pytest.mark.parametrize("shared", [False, True])
def test_many_degrees_of_freedom_are_the_normal_fit(shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((tails, "LEAST"), (tails, "LARGEST"), (block, "FIRST")):
        monkeypatch.setattr(module, name, 1e9)
    monkeypatch.setattr(tails, "_GRID", np.array([1e9]))
    rows, z = two_clusters(apart=1.5)
    normal, t = (ended(family(rows, shared=shared, tails=name), rows, z, 1e-8, 200).state for name in ("normal", "t"))
    assert_allclose(t.trace, normal.trace, rtol=1e-6)
    assert_allclose(t.parameters.means, normal.parameters.means, atol=1e-5)
    assert_allclose(dense(t.parameters), dense(normal.parameters), atol=1e-5)
    assert t.parameters.blocks.layout.partitions == normal.parameters.blocks.layout.partitions


def test_an_outlier_moves_nothing_and_a_lost_component_keeps_its_degrees_of_freedom() -> None:
    # One row at 10⁶: a normal component follows it, a t component does not.
    rows, z = two_clusters()
    first = family(rows, grouping=Fixed(*TRUTH)).first(rows, z, 0.0).parameters
    first = replace(first, degrees_of_freedom=np.array([5.0, 9.0]))
    X = np.concatenate([rows.X, np.full((1, 6), 1e6)])
    located = ArrayRows(X, np.ones(len(X)), rows.location, rows.scale)
    end = run(family(located, tails="t", grouping=Fixed(*TRUTH)), located, state(first), 1e-6, 200).state.parameters
    assert_allclose(end.means, first.means, atol=0.3)
    assert np.abs(dense(end)).max() < 2
    lost = first.moved(np.array([1.0, 0.0]), first.means)
    new = maximize(sweep(rows, lost), lost, Prior(ridge=1e-4))
    assert new.weights.tolist() == [1.0, 0.0] and freedom(new)[1] == 9.0
    assert np.isfinite(dense(new)).all()
