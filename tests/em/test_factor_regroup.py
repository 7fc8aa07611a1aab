"""Regroup of the factor mixture: the gain of a move is exact, and changes are kept only where the likelihood rises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracles
import pytest
from factors import ended, factor_rows, family_of, log_joint, model_of, random_start
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import seeds

from blockmix.em.factor import FactorParameters, responsibilities, sweep
from blockmix.em.factor_steps import (
    column_cost,
    column_costs,
    cuts_of,
    first_groups,
    first_parameters,
    home_predictions,
    maximize,
    move_gains,
    moved,
    profiled,
    recut,
)
from blockmix.rows import ArrayRows


@pytest.mark.parametrize("letters", ["UUUU", "CUUU", "UCUU", "UIUU", "UUCU", "CUUC"])
def test_the_gain_of_a_single_move_is_exact(letters: str) -> None:
    # Against the dense likelihood with z fixed. Red if a column is not taken out of its own group first.
    X = factor_rows(3, n=30, p=6)
    rows, model = ArrayRows.standardized(X), model_of(letters, 6, 2)
    z = random_start(X, 2, 0)
    begun = first_parameters(rows, z, first_groups(rows, z, model), model)
    for _ in range(3):
        begun = maximize(sweep(rows, begun), begun, model)
    Z = (X - rows.location) / rows.scale
    z = oracles.responsibilities(log_joint(Z, begun))[0]
    seen, old = profiled(sweep(rows, begun), begun, model)

    def expected(chosen: FactorParameters) -> float:
        return float((z * log_joint(Z, chosen)).sum())

    change, noise = move_gains(seen, old, model)
    costs, (c, V) = column_costs(seen, old, model)[0], home_predictions(seen, old)
    at_home = column_cost(old.noise + c, V)
    tried = 0
    for j in range(6):
        for k in range(3):
            labels, d = old.labels.copy(), np.array(old.noise)
            moving = [0, 1] if model.shared_groups else [0]
            if any((labels[g] == labels[g, j]).sum() == 1 for g in moving):
                continue
            stay = sum(0.5 * seen.rows[g] * (costs[g, labels[g, j], j] - at_home[g, j]) for g in moving)
            for g in moving:
                labels[g, j], d[g, j] = k, noise[g, k, j]
            gain = expected(replace(old, labels=labels, noise=d)) - expected(old)
            assert_allclose(-(change[0, k, j] + stay), gain, atol=1e-8)
            tried += 1
    assert tried >= 6


@given(seeds, st.sampled_from(["UUUU", "CUUU", "UCCC"]))
def test_moves_together_are_kept_only_where_they_gain(seed: int, letters: str) -> None:
    # Red if a batch of moves, each of which would gain alone, is taken unseen.
    X = factor_rows(seed % 1000, n=20, p=8)
    rows, model = ArrayRows.standardized(X), model_of(letters, 8, 2)
    z, rng = random_start(X, 2, seed), np.random.default_rng(seed)
    labels = np.stack([rng.permutation(np.arange(8) % 3) for _ in range(2)])
    begun = first_parameters(rows, z, labels[[0, 0]] if model.shared_groups else labels, model)
    state = (begun, sweep(rows, begun))
    chosen, statistics = moved(rows, state, model, 0)
    assert statistics.log_likelihood >= state[1].log_likelihood
    assert_allclose(sweep(rows, chosen).log_likelihood, statistics.log_likelihood)
    assert all(len(np.unique(row)) == 3 for row in chosen.labels)


@pytest.mark.parametrize("letters", ["UUUU", "CUUU", "UCCC"])
def test_a_new_cut_of_the_tree_is_kept_only_where_it_gains_and_is_tried_once(letters: str) -> None:
    gained = 0
    for seed in range(12):
        X = factor_rows(seed, n=40, p=12)
        rows, model = ArrayRows.standardized(X), model_of(letters, 12, 2)
        z, rng = np.repeat(np.eye(2), 40, axis=0), np.random.default_rng(seed)
        labels = np.stack([rng.permutation(np.arange(12) % 3) for _ in range(2)])
        begun = first_parameters(rows, z, labels[[0, 0]] if model.shared_groups else labels, model)
        state = (begun, sweep(rows, begun))
        better, tried = recut(rows, state, model, frozenset())
        gained += better[1].log_likelihood > state[1].log_likelihood
        assert better is state or better[1].log_likelihood > state[1].log_likelihood
        assert_allclose(sweep(rows, better[0]).log_likelihood, better[1].log_likelihood)
        assert tried == set(cuts_of(responsibilities(rows, begun)))
        again, remembered = recut(rows, state, model, tried)
        assert again is state
        assert remembered == tried
    assert gained > 3


def test_a_cut_is_named_by_its_component_and_the_rows_that_it_holds() -> None:
    z = np.random.default_rng(0).dirichlet([0.3, 0.3], 40)
    names = cuts_of(z)
    assert len(set(names)) == 2
    assert cuts_of(np.where(z > 0.5, 0.9, 0.1)) == names  # only who holds a row counts
    other = z.copy()
    other[0] = other[0, ::-1]
    assert not set(cuts_of(other)) & set(names)
    assert not set(cuts_of(z[:, ::-1])) & set(names)


@pytest.mark.parametrize("letters", ["UUUU", "UCUU", "CCUC", "UIUU"])
@pytest.mark.parametrize("seed", range(6))
def test_a_regroup_at_the_end_gains_less_than_tol(letters: str, seed: int) -> None:
    X, tol = factor_rows(seed, n=25, apart=0.5), 1e-4
    rows = ArrayRows.standardized(X)
    family = family_of(letters, rows, 2)
    found = ended(family, rows, random_start(X, 2, seed), tol, 500)
    assert found.outcome.value == "converged"
    statistics, enough = family.sweep(rows, found.state.parameters), tol * rows.total_weight
    again = family.regroup(rows, found.state.parameters, statistics, enough, found.state.memory)
    assert not again.changed
