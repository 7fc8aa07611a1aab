"""The factor mixture as a family: exact moves, changes kept only for a gain, nested models, negative correlations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracles
import pytest
from factors import ended, factor_rows, family_of, log_joint, model_of, quiet, random_parameters, random_start
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import seeds

from blockmix.em.factor import FactorParameters, factor_responsibilities, factor_sweep
from blockmix.em.factor_family import (
    NegativeGroup,
    State,
    cut_names,
    move_costs,
    negative_groups,
    with_cuts,
    with_moves,
)
from blockmix.em.factor_steps import factor_m_step, first_groups, first_parameters, profiled
from blockmix.rows import ArrayRows


@pytest.mark.parametrize("letters", ["UUUU", "CUUU", "UCUU", "UIUU", "UUCU", "CUUC"])
def test_the_cost_of_a_single_move_is_exact(letters: str) -> None:
    # Against the dense likelihood with z fixed. Red if a column is not taken out of its present group first.
    X = factor_rows(3, n=30, p=6)
    rows, model, z = ArrayRows.standardized(X), model_of(letters, 6, 2), random_start(X, 2, 0)
    parameters = first_parameters(rows, z, first_groups(rows, z, model), model)
    for _ in range(3):
        parameters = factor_m_step(factor_sweep(rows, parameters), parameters, model)
    Z = (X - rows.location) / rows.scale
    z = oracles.responsibilities(log_joint(Z, parameters))[0]
    scatter, old = profiled(factor_sweep(rows, parameters), parameters, model)
    change, noise = move_costs(scatter, old, model)

    def expected(chosen: FactorParameters) -> float:
        return float((z * log_joint(Z, chosen)).sum())

    def moved(j: int, k: int) -> FactorParameters:
        labels, d = old.labels.copy(), np.array(old.noise)
        for g in moving:
            labels[g, j], d[g, j] = k, noise[g, k, j]
        return replace(old, labels=labels, noise=d)

    moving, tried = [0, 1] if model.shared_groups else [0], 0
    for j in range(6):
        if any((old.labels[g] == old.labels[g, j]).sum() == 1 for g in moving):
            continue
        home = int(old.labels[0, j])
        for k in range(3):
            # At home, too, the column takes the noise that is best for it.
            assert_allclose(-change[0, k, j], expected(moved(j, k)) - expected(moved(j, home)), atol=1e-8)
            tried += 1
    assert tried >= 6


def random_state(seed: int, letters: str, n: int, p: int) -> tuple[ArrayRows, State]:
    """Rows and parameters in random groups."""
    X = factor_rows(seed % 1000, n=n, p=p)
    rows, model, rng = ArrayRows.standardized(X), model_of(letters, p, 2), np.random.default_rng(seed)
    labels = np.stack([rng.permutation(np.arange(p) % 3) for _ in range(2)])
    z = np.repeat(np.eye(2), n, axis=0)
    parameters = first_parameters(rows, z, labels[[0, 0]] if model.shared_groups else labels, model)
    return rows, (parameters, factor_sweep(rows, parameters))


@given(seeds, st.sampled_from(["UUUU", "CUUU", "UCCC"]))
def test_moves_together_are_kept_only_where_they_gain(seed: int, letters: str) -> None:
    # Red if a batch of moves, each of which would gain alone, is taken without a sweep.
    rows, state = random_state(seed, letters, n=20, p=8)
    parameters, statistics = with_moves(rows, state, model_of(letters, 8, 2), 0)
    assert statistics.log_likelihood >= state[1].log_likelihood
    assert_allclose(factor_sweep(rows, parameters).log_likelihood, statistics.log_likelihood)
    assert all(len(np.unique(row)) == 3 for row in parameters.labels)


@pytest.mark.parametrize("letters", ["UUUU", "CUUU", "UCCC"])
def test_a_new_cut_of_the_tree_is_kept_only_where_it_gains_and_is_tried_once(letters: str) -> None:
    gained, model = 0, model_of(letters, 12, 2)
    for seed in range(12):
        rows, state = random_state(seed, letters, n=40, p=12)
        better, tried = with_cuts(rows, state, model, frozenset())
        gained += better[1].log_likelihood > state[1].log_likelihood
        assert better is state or better[1].log_likelihood > state[1].log_likelihood
        assert_allclose(factor_sweep(rows, better[0]).log_likelihood, better[1].log_likelihood)
        assert tried == set(cut_names(factor_responsibilities(rows, state[0])))
        again, remembered = with_cuts(rows, state, model, tried)
        assert again is state
        assert remembered == tried
    assert gained > 3


def test_a_cut_is_named_by_its_component_and_its_rows() -> None:
    z = np.random.default_rng(0).dirichlet([0.3, 0.3], 40)
    names = cut_names(z)
    assert len(set(names)) == 2
    assert cut_names(np.where(z > 0.5, 0.9, 0.1)) == names
    other = z.copy()
    other[0] = other[0, ::-1]
    assert not set(cut_names(other)) & set(names)
    assert not set(cut_names(z[:, ::-1])) & set(names)
    # The cuts of the start count as tried: red if the first regroup tries the groups that the fit began with.
    rows, z = ArrayRows.standardized(factor_rows(0)), random_start(factor_rows(0), 2, 0)
    assert family_of("UUUU", rows, 2).first(rows, z, 0.0).memory == set(cut_names(z))


@pytest.mark.parametrize("letters", ["UUUU", "UCUU", "CCUC", "UIUU"])
@pytest.mark.parametrize("seed", range(3))
def test_a_regroup_at_the_end_gains_less_than_tol(letters: str, seed: int) -> None:
    X, tol = factor_rows(seed, n=25, apart=0.5), 1e-4
    rows = ArrayRows.standardized(X)
    family = family_of(letters, rows, 2)
    result = ended(family, rows, random_start(X, 2, seed), tol, 500)
    assert result.outcome.value == "converged"
    statistics, enough = family.sweep(rows, result.state.parameters), tol * rows.total_weight
    assert not family.regroup(rows, result.state.parameters, statistics, enough, result.state.memory).changed


@pytest.mark.parametrize(("letters", "G"), [("UIUU", 1), ("CICU", 2)])
def test_small_noise_is_reached_in_few_steps(letters: str, G: int) -> None:
    # EM alone creeps to a noise near zero: 2000 steps and more. Red without the exact step of one column.
    X = factor_rows(0, n=45, p=8, G=G)
    rows = ArrayRows.standardized(X)
    result = ended(family_of(letters, rows, G), rows, random_start(X, G, 0), 1e-7, 300)
    assert len(result.state.trace) < 150
    assert result.outcome.value == "converged"
    assert result.state.parameters.noise.min() < 1e-3


@pytest.mark.parametrize("letters", ["UUUU", "UICU"])
@pytest.mark.parametrize("seed", [22, 42])
def test_columns_that_tie_do_not_move_together(letters: str, seed: int) -> None:
    # Two columns that mirror each other gain equally: red if both take the noise that is best for one alone.
    A = np.random.default_rng(seed).standard_normal((8, 2))
    A += 3 * A.mean(axis=1, keepdims=True)
    X = np.concatenate([A, A[:, ::-1]])
    trace = quiet(X, n_components=1, n_column_groups=1, model=letters, rounding=False).log_likelihood_trace_
    assert (np.diff(trace) >= -1e-9 * np.abs(trace[1:])).all()


@pytest.mark.parametrize("smaller", ["UCUU", "CUUU", "UUCU", "UUUC", "UIUU", "CICC", "CCCC"])
def test_a_larger_model_fits_better_from_where_the_smaller_one_ends(smaller: str) -> None:
    X = factor_rows(5)
    rows = ArrayRows.standardized(X)
    first = ended(family_of(smaller, rows, 2), rows, random_start(X, 2, 1), 1e-6, 100).state
    trace = ended(family_of("UUUU", rows, 2), rows, first.parameters, 1e-6, 100).state.trace
    assert_allclose(trace[0], factor_sweep(rows, first.parameters).log_likelihood)
    assert trace[-1] > first.trace[-1]


def test_thin_components_rest_on_the_floor_or_on_two_rows() -> None:
    rows, free, floor = ArrayRows.standardized(factor_rows(0, n=50)), np.full(7, 0.5), np.full(7, 1e-6)

    def thin(letters: str, weights: list[float], *noise: np.ndarray) -> list[int]:
        chosen = replace(random_parameters(0, p=7), weights=np.array(weights), noise=np.stack(noise))
        return family_of(letters, rows, 2).thin(rows, chosen).tolist()

    assert thin("UUUU", [0.5, 0.5], free, free) == []
    assert thin("UUUU", [0.5, 0.5], free, floor) == [1]
    four, three = (np.where(np.arange(7) < count, floor, free) for count in (4, 3))
    assert thin("UUUU", [0.5, 0.5], four, three) == [0]
    assert thin("UUUU", [0.98, 0.02], free, free) == [1]  # two rows of 100
    assert thin("UUUU", [0.97, 0.03], free, free) == []
    assert thin("UUCU", [0.98, 0.02], free, free) == []  # their noise is that of all rows


def negative_in(X: np.ndarray, q: int) -> list[NegativeGroup]:
    rows, model, z = ArrayRows.standardized(X), model_of("UUUU", X.shape[1], 1, q), np.ones((len(X), 1))
    return negative_groups(rows, first_parameters(rows, z, first_groups(rows, z, model), model), model)


def test_the_most_negative_pair_of_each_planted_group_is_reported_worst_first() -> None:
    rng = np.random.default_rng(0)
    signs = np.array([1, 1, -1, 1, 1, -1, 1, 1])
    X = rng.standard_normal((300, 3))[:, [0, 0, 0, 1, 1, 1, 2, 2]] * signs + 0.5 * rng.standard_normal((300, 8))
    groups, R = negative_in(X, 3), np.corrcoef(X.T)
    assert sorted(group.columns for group in groups) == [[0, 1, 2], [3, 4, 5]]
    assert [group.correlation for group in groups] == sorted(group.correlation for group in groups)
    for group in groups:
        block = R[np.ix_(group.columns, group.columns)]
        assert_allclose([group.correlation, R[group.pair]], block.min(), rtol=1e-9)


def test_columns_without_negative_correlations_are_rarely_reported() -> None:
    # At most one in a hundred tables of independent columns; eight columns have 28 pairs.
    rng = np.random.default_rng(0)
    assert sum(bool(negative_in(rng.standard_normal((60, 8)), 2)) for _ in range(100)) <= 4
    shared = rng.standard_normal((300, 2))[:, [0, 0, 0, 1, 1, 1]]
    assert negative_in(shared + rng.standard_normal((300, 6)), 2) == []
    few_rows = rng.standard_normal((4, 1)) * [1, -1] + 1e-3 * np.eye(4, 2)
    assert negative_in(few_rows, 1) == []
    assert negative_in(np.arange(9.0)[:, None], 1) == []
