"""Aitken's rule: it knows how far a geometric sequence has to go, and trusts no other."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from blockmix.em.loop import Aitken, Outcome

tolerances = st.floats(1e-8, 1e-1)


def first_settled(rule: Aitken, values: list[float]) -> int | None:
    """Index of the first value at which the sequence is said to have settled."""
    return next((t for t, value in enumerate(values) if rule.settled(value)), None)


@given(st.floats(0.05, 0.95), st.floats(0.5, 50), tolerances)
def test_a_geometric_sequence_settles_when_it_is_within_tol_of_its_limit(rate: float, gap: float, tol: float) -> None:
    # Red if the distance left is measured from the second value, or if the gain itself is compared with tol.
    values = [-gap * rate**t for t in range(400)]
    near = [t for t in range(2, 400) if gap * rate**t < tol]
    # The extrapolation cancels: leave out sequences that reach tol by a hair, or whose first gain is within rounding.
    assume(near and all(abs(gap * rate**t / tol - 1) > 1e-3 for t in range(near[0] + 1)))
    assume(gap * (1 - rate) > 1e-3 * tol)
    assert first_settled(Aitken(tol), values) == near[0]


@given(st.floats(1e-9, 1.0), tolerances)
def test_steady_or_growing_gains_settle_only_below_tol(gain: float, tol: float) -> None:
    assume(abs(gain / tol - 1) > 1e-6 and abs(1.1 * gain / tol - 1) > 1e-6)
    steady = [gain * t for t in range(50)]
    growing = list(accumulate([gain * 1.1**t for t in range(50)], initial=0.0))
    assert (first_settled(Aitken(tol), steady) is not None) == (gain < tol)
    assert (first_settled(Aitken(tol), growing) is not None) == (1.1 * gain < tol)  # the first gain that has a rate


def test_a_sequence_that_stands_still_settles_at_once_but_not_at_its_first_value() -> None:
    assert first_settled(Aitken(1e-4), [-5.0, -5.0, -5.0]) == 1


def test_two_values_settle_only_far_below_tol() -> None:
    # One gain has no rate yet: a slow rise may begin with gains just below tol.
    assert first_settled(Aitken(1e-2), [0.0, 5e-3]) is None
    assert first_settled(Aitken(1e-2), [0.0, 5e-6]) == 1


def test_tol_zero_never_settles() -> None:
    assert first_settled(Aitken(0.0), [-1.0] * 20) is None


def test_a_pause_is_forgotten() -> None:
    # Red if more than three values are kept, or fewer.
    rule = Aitken(1e-3)
    assert [rule.settled(value) for value in (0.0, 0.0, 1.0, 2.0, 3.0)] == [False, True, False, False, False]
    assert rule.values == (1.0, 2.0, 3.0)


def test_a_rule_goes_on_from_the_values_of_another() -> None:
    loose = Aitken(1e-1)
    values = [1 - 0.5**t for t in range(30)]
    at = first_settled(loose, values)
    assert at == 4
    strict = Aitken(1e-4, loose.values)
    assert first_settled(strict, values[at + 1 :]) == first_settled(Aitken(1e-4), values) - at - 1


@pytest.mark.parametrize("outcome", ["converged", "iteration limit", "degenerate", "interrupted"])
def test_outcomes_have_the_words_of_the_documentation(outcome: str) -> None:
    assert Outcome(outcome).value == outcome
