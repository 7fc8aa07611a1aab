"""The factor mixture as a family: its trace never falls, larger models fit better, and which components are thin."""

from __future__ import annotations

import numpy as np
import pytest
from factors import ended, every_model, factor_rows, family_of, quiet, random_parameters, random_start
from numpy.testing import assert_allclose

from blockmix.em.factor import FactorFamily, sweep
from blockmix.em.factor_steps import cuts_of
from blockmix.rows import ArrayRows


@every_model
def test_the_likelihood_never_falls(letters: str) -> None:
    # Red if a step of T, B or D, or a regroup that is kept, lowers it. On 50 sets each: experiments/monotone.py.
    for seed in range(4):
        G = 1 + seed % 3
        X = factor_rows(seed, n=25, G=G, apart=0.5)
        rows = ArrayRows.standardized(X)
        trace = ended(family_of(letters, rows, G), rows, random_start(X, G, seed), 1e-6, 60).state.trace
        assert (np.diff(trace) > -1e-8 * np.abs(trace[-1])).all()


@pytest.mark.parametrize(("letters", "G"), [("UIUU", 1), ("CICU", 2)])
def test_small_noise_is_reached_in_few_steps(letters: str, G: int) -> None:
    # EM alone creeps to a noise near zero: 2000 steps and more. Red without the exact step of one column.
    X = factor_rows(0, n=45, p=8, G=G)
    rows = ArrayRows.standardized(X)
    found = ended(family_of(letters, rows, G), rows, random_start(X, G, 0), 1e-7, 300)
    assert len(found.state.trace) < 150
    assert found.outcome.value == "converged"
    assert found.state.parameters.noise.min() < 1e-3


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        ("UCUU", "UUUU"),
        ("CUUU", "UUUU"),
        ("CCUU", "UCUU"),
        ("CCUU", "CUUU"),
        ("UUCU", "UUUU"),
        ("UUUC", "UUUU"),
        ("CCCC", "CCUC"),
        ("CCCC", "CCCU"),
        ("UIUU", "UUUU"),
        ("CICC", "CCCC"),
        ("CCCC", "UUUU"),
    ],
)
def test_a_larger_model_fits_better_from_where_the_smaller_one_ends(smaller: str, larger: str) -> None:
    X = factor_rows(5)
    rows = ArrayRows.standardized(X)
    first = ended(family_of(smaller, rows, 2), rows, random_start(X, 2, 1), 1e-6, 100).state
    trace = ended(family_of(larger, rows, 2), rows, first.parameters, 1e-6, 100).state.trace
    assert_allclose(trace[0], sweep(rows, first.parameters).log_likelihood)
    assert trace[-1] > first.trace[-1]


def test_the_cuts_of_the_start_count_as_tried() -> None:
    # Red if the first regroup tries the groups that the fit began with.
    X = factor_rows(0)
    rows, z = ArrayRows.standardized(X), random_start(X, 2, 0)
    assert family_of("UUUU", rows, 2).first(rows, z).memory == set(cuts_of(z))


def thin(letters: str, weights: list[float], noise: np.ndarray) -> list[int]:
    rows = ArrayRows.standardized(factor_rows(0, n=50))
    family: FactorFamily = family_of(letters, rows, 2)
    chosen = random_parameters(0, p=7).moved(np.array(weights), np.zeros((2, 7)))
    chosen.noise[:] = noise
    return family.thin(chosen).tolist()


def test_thin_components_rest_on_the_floor_or_on_two_rows() -> None:
    floor, free = np.full(7, 1e-6), np.full(7, 0.5)
    assert thin("UUUU", [0.5, 0.5], np.stack([free, free])) == []
    assert thin("UUUU", [0.5, 0.5], np.stack([free, floor])) == [1]
    most, half = np.where(np.arange(7) < 4, floor, free), np.where(np.arange(7) < 3, floor, free)
    assert thin("UUUU", [0.5, 0.5], np.stack([most, half])) == [0]
    assert thin("UUUU", [0.98, 0.02], np.stack([free, free])) == [1]  # two rows of 100
    assert thin("UUUU", [0.97, 0.03], np.stack([free, free])) == []
    assert thin("UUCU", [0.98, 0.02], np.stack([free, free])) == []  # their noise is that of all rows


@pytest.mark.parametrize("letters", ["UUUU", "UICU"])
@pytest.mark.parametrize("seed", [22, 42])
def test_columns_that_tie_do_not_move_together(letters: str, seed: int) -> None:
    # Two columns that mirror each other gain equally: red if both take the noise that is best for one alone.
    A = np.random.default_rng(seed).standard_normal((8, 2))
    A += 3 * A.mean(axis=1, keepdims=True)
    X = np.concatenate([A, A[:, ::-1]])
    trace = quiet(X, n_components=1, n_column_groups=1, model=letters, rounding=False).log_likelihood_trace_
    assert (np.diff(trace) >= -1e-9 * np.abs(trace[1:])).all()
