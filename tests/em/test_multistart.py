"""Multistart: which start is best, which fallbacks run, and what an interrupt leaves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from blockmix.em import loop
from blockmix.em.loop import LoopResult, LoopState, Outcome, Start


@dataclass(frozen=True)
class Slope:
    """A start whose objective begins at `foot` and rises by one per iteration up to a top; an interrupt at `stop`."""

    top: float
    foot: float = 0.0
    thin: tuple[int, ...] = ()
    stop: float = 1e9


def run_slope(family: object, rows: object, state: LoopState[Any], *others: object) -> LoopResult[Any]:
    slope: Slope = state.parameters
    while not state.converged and len(state.trace) < 30:
        value = slope.foot + len(state.trace)
        if value >= slope.stop:
            return LoopResult(state, Outcome.INTERRUPTED, slope.thin)
        state = replace(state, trace=(*state.trace, value), converged=value >= slope.top)
    return LoopResult(state, Outcome.CONVERGED if state.converged else Outcome.ITERATION_LIMIT, slope.thin)


def multistart(starts: list[Start[Any]], run: Any = run_slope) -> list[LoopResult[Any]]:
    """EM from these starts, with another loop in the place of ours."""
    unused: Any = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "run", run)
        return loop.multistart(starts, unused, unused, 0.0, 30)


def start(name: str, slope: Slope, **options: Any) -> Start[Any]:
    return Start(name, lambda: LoopState(slope, 1.0), **options)


def fallback(name: str, first: float, limit: float = 30.0) -> Start[Any]:
    """A fallback whose first state has an objective."""
    return Start(name, lambda: LoopState(Slope(20, first), 1.0, trace=(first,)), limit)


def interrupted(*_: object) -> Any:
    raise KeyboardInterrupt


def ends(results: list[LoopResult[Any]]) -> dict[str, float]:
    return {result.name: result.state.trace[-1] for result in results}


def run(slopes: dict[str, Slope]) -> list[LoopResult[Any]]:
    return multistart([start(*item) for item in slopes.items()])


def names(results: list[LoopResult[Any]]) -> list[str]:
    return [result.name for result in results]


def test_the_highest_objective_comes_first_and_thin_components_last_whatever_their_objective() -> None:
    results = run({"low": Slope(3), "high": Slope(9), "middle": Slope(6)})
    assert list(ends(results).items()) == [("high", 9), ("middle", 6), ("low", 3)]
    assert all(result.outcome is Outcome.CONVERGED for result in results)
    slopes = {"two": Slope(9, thin=(0, 1)), "none": Slope(3), "one": Slope(8, thin=(0,)), "also": Slope(4)}
    assert names(run(slopes)) == ["also", "none", "one", "two"]
    assert names(run({name: Slope(5) for name in "abcdef"})) == list("abcdef")


def test_of_starts_that_differ_by_rounding_the_first_comes_first() -> None:
    # Red if the last digit of a sum, which depends on how a file is cut into chunks, decides.
    slopes = {"low": Slope(3), "one": Slope(9), "same": Slope(9, 1e-13), "more": Slope(9, 1e-10)}
    assert names(run(slopes))[0] == "more"
    del slopes["more"]
    assert names(run(slopes)) == ["one", "same", "low"]


def test_every_start_has_all_its_iterations_and_begins_once() -> None:
    begun: list[str] = []

    def counted(name: str) -> Start[Any]:
        return Start(name, lambda: begun.append(name) or LoopState(Slope(1000), 1.0))  # type: ignore[func-returns-value]

    results = multistart([counted(name) for name in "abc"])
    assert begun == list("abc")
    assert {(len(result.state.trace), result.outcome) for result in results} == {(30, Outcome.ITERATION_LIMIT)}


def test_fallbacks_run_last_and_only_where_they_may_overtake() -> None:
    # Red if a limit is compared with anything but the objective that the others have reached, or a fallback is ranked
    # by where it ends.
    starts = [start("low", Slope(8), limit=8.5), start("may", Slope(12), limit=9.5), start("sure", Slope(9))]
    assert names(multistart(starts)) == ["may", "sure"]
    starts = [start("sure", Slope(9)), fallback("below", 8.0), fallback("above", 9.5)]
    assert names(multistart(starts)) == ["above", "sure"]


def test_an_interrupt_ends_all_starts_and_keeps_the_best() -> None:
    # Red if only the outcome of the best start counts, or if starts are begun after an interrupt.
    (only,) = run({"a": Slope(1000, stop=4)})
    assert only.outcome is Outcome.INTERRUPTED and only.state.trace == (0, 1, 2, 3)
    results = run({"first": Slope(9), "second": Slope(1000, stop=3), "third": Slope(1000)})
    assert list(ends(results).items()) == [("first", 9), ("second", 2)]
    assert results[0].outcome is Outcome.INTERRUPTED


@pytest.mark.parametrize("limit", [float("inf"), 30.0])
def test_an_interrupt_before_a_later_start_or_fallback_begins_keeps_the_earlier(limit: float) -> None:
    starts = [start("a", Slope(5)), Start("b", interrupted, limit), start("c", Slope(4), limit=6)]
    results = multistart(starts)
    assert names(results)[0] == "a" and "b" not in names(results)
    assert results[0].outcome is Outcome.INTERRUPTED


def test_an_interrupt_with_nothing_to_keep_and_any_other_error_are_raised() -> None:
    with pytest.raises(KeyboardInterrupt):
        multistart([start("a", Slope(5))], interrupted)

    def fail(*_: object) -> Any:
        raise RuntimeError("no more disk")

    with pytest.raises(RuntimeError, match=r"^no more disk$"):
        multistart([start("a", Slope(5)), start("b", Slope(5))], fail)


@pytest.mark.parametrize("outcome", ["converged", "iteration limit", "degenerate", "interrupted"])
def test_outcomes_have_the_words_of_the_documentation(outcome: str) -> None:
    assert Outcome(outcome).value == outcome
