"""Multistart: which start is best, which are continued, what is reported, and what an interrupt leaves."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from blockmix.em.loop import (
    FINALISTS,
    SHORT,
    Callback,
    LoopResult,
    LoopState,
    Outcome,
    Progress,
    Start,
    StartResult,
    multistart,
)

MAX_ITER = SHORT + 20
jobs = pytest.mark.parametrize("n_jobs", [None, 1, 2, -1])


@dataclass(frozen=True)
class Slope:
    """A start whose objective begins at `foot` and rises by one per iteration up to a top."""

    top: float
    foot: float = 0.0
    thin: Callable[[float], int] = lambda value: 0


def run_slope(name: str, state: LoopState[Any], max_iter: int, callback: Callback) -> LoopResult[Any]:
    slope: Slope = state.parameters
    outcome = Outcome.ITERATION_LIMIT
    try:
        while not state.converged and len(state.trace) < max_iter:
            value = slope.foot + len(state.trace)
            state = replace(state, trace=(*state.trace, value))
            callback(len(state.trace) - 1, value)
            state = replace(state, converged=value >= slope.top)
    except KeyboardInterrupt:
        outcome = Outcome.INTERRUPTED
    outcome = Outcome.CONVERGED if state.converged else outcome
    return LoopResult(state, outcome, slope.thin(state.trace[-1]))


def start(name: str, slope: Slope) -> Start[Any]:
    return Start(name, lambda: LoopState(slope, 1.0))  # type: ignore[type-var]


def run(
    slopes: dict[str, Slope],
    portfolio: bool = False,
    n_jobs: int | None = None,
    report: Callable[[Progress], object] | None = None,
    max_iter: int = MAX_ITER,
) -> list[StartResult[Any]]:
    return multistart([start(*item) for item in slopes.items()], run_slope, max_iter, n_jobs, report, portfolio)


def names(results: list[StartResult[Any]]) -> list[str]:
    return [found.name for found in results]


def traces(results: list[StartResult[Any]]) -> list[tuple[float, ...]]:
    return [found.result.state.trace for found in results]


def lengths(results: list[StartResult[Any]]) -> list[int]:
    return [len(trace) for trace in traces(results)]


@jobs
def test_the_highest_objective_comes_first(n_jobs: int | None) -> None:
    results = run({"low": Slope(3), "high": Slope(9), "middle": Slope(6)}, n_jobs=n_jobs)
    assert names(results) == ["high", "middle", "low"]
    assert [trace[-1] for trace in traces(results)] == [9, 6, 3]
    assert all(found.result.outcome is Outcome.CONVERGED for found in results)


def test_of_starts_that_differ_by_rounding_the_first_comes_first() -> None:
    # Red if the last digit of a sum, which depends on how a file is cut into chunks, decides.
    slopes = {"low": Slope(3), "one": Slope(9), "same": Slope(9, 1e-13), "more": Slope(9, 1e-10)}
    assert names(run(slopes)) == ["more", "same", "one", "low"]
    del slopes["more"]
    assert names(run(slopes)) == ["one", "same", "low"]


@jobs
def test_thin_components_come_last_whatever_their_objective(n_jobs: int | None) -> None:
    slopes = {
        "two": Slope(9, thin=lambda value: 2),
        "none": Slope(3),
        "one": Slope(8, thin=lambda value: 1),
        "also": Slope(4),
    }
    assert names(run(slopes, n_jobs=n_jobs)) == ["also", "none", "one", "two"]


@jobs
def test_equal_starts_keep_their_order(n_jobs: int | None) -> None:
    assert names(run({name: Slope(5) for name in "abcdef"}, n_jobs=n_jobs)) == list("abcdef")


def test_without_a_portfolio_every_start_has_all_its_iterations() -> None:
    results = run({name: Slope(1000, foot=i) for i, name in enumerate("abcdefgh")})
    assert set(lengths(results)) == {MAX_ITER}
    assert {found.result.outcome for found in results} == {Outcome.ITERATION_LIMIT}
    assert all(found.unfinished for found in results)


@jobs
def test_only_the_best_starts_of_a_portfolio_are_continued(n_jobs: int | None) -> None:
    slopes = {f"start {i}": Slope(1000, foot=i) for i in range(FINALISTS + 3)}
    results = run(slopes, portfolio=True, n_jobs=n_jobs)
    assert names(results) == list(slopes)[::-1]
    assert lengths(results) == [MAX_ITER] * FINALISTS + [SHORT] * 3
    # One trace from the first iteration to the last, no value twice.
    assert traces(results)[0] == tuple(FINALISTS + 2 + i for i in range(MAX_ITER))


def test_a_start_that_has_converged_is_not_continued() -> None:
    reported: list[Progress] = []
    results = run({"flat": Slope(2, foot=2), "long": Slope(SHORT + 5)}, portfolio=True, report=reported.append)
    assert lengths(results) == [SHORT + 6, 1]
    assert sum(progress.start == "flat" for progress in reported) == 1


def test_a_start_begins_once() -> None:
    # Red if a continuation calls `begin` again: its first state costs a pass over the rows, and k-means before it.
    begun: list[str] = []

    def counted(name: str) -> Start[Any]:
        def begin() -> LoopState[Any]:
            begun.append(name)
            return LoopState(Slope(1000), 1.0)  # type: ignore[type-var]

        return Start(name, begin)

    results = multistart([counted(name) for name in "abc"], run_slope, MAX_ITER, None, None, True)
    assert begun == list("abc")
    assert set(lengths(results)) == {MAX_ITER}


@pytest.mark.parametrize("max_iter", [1, SHORT - 1, SHORT])
def test_a_portfolio_has_no_more_iterations_than_it_may(max_iter: int) -> None:
    results = run({"a": Slope(1000), "b": Slope(1000)}, portfolio=True, max_iter=max_iter)
    assert lengths(results) == [max_iter] * 2


def test_a_portfolio_of_one_start_runs_it_at_once() -> None:
    assert lengths(run({"only": Slope(1000)}, portfolio=True)) == [MAX_ITER]


def test_the_best_start_of_a_portfolio_has_converged_or_had_all_its_iterations() -> None:
    # All that are continued become thin, so another one leads. Red if it is returned as it stood.
    slopes = {f"thin {i}": Slope(1000, 10 + i, lambda value: int(value > SHORT + 20)) for i in range(FINALISTS)}
    results = run({**slopes, "sound": Slope(1000), "worse": Slope(1000, foot=-1)}, portfolio=True)
    assert names(results)[:2] == ["sound", "worse"]
    assert lengths(results)[:2] == [MAX_ITER, SHORT]


def test_every_iteration_is_reported_once_and_counted_on_in_a_continuation() -> None:
    # Red if a continued start begins again at iteration 0.
    reported: list[Progress] = []
    results = run({"a": Slope(1000), "b": Slope(SHORT + 3, foot=1)}, portfolio=True, report=reported.append)
    for found in results:
        own = [progress for progress in reported if progress.start == found.name]
        assert [progress.iteration for progress in own] == list(range(len(found.result.state.trace)))
        assert tuple(progress.objective for progress in own) == found.result.state.trace


# Interrupts and errors.


def interrupt_at(count: int, reported: list[Progress]) -> Callable[[Progress], None]:
    def report(progress: Progress) -> None:
        reported.append(progress)
        if len(reported) == count:
            raise KeyboardInterrupt

    return report


def test_an_interrupt_in_the_only_start_keeps_it() -> None:
    (found,) = run({"a": Slope(1000)}, report=interrupt_at(4, []))
    assert found.result.outcome is Outcome.INTERRUPTED
    assert found.result.state.trace == (0, 1, 2, 3)


def test_an_interrupt_in_a_later_start_is_reported_though_an_earlier_one_had_converged() -> None:
    # Red if only the outcome of the best start counts.
    reported: list[Progress] = []
    slopes = {"first": Slope(9), "second": Slope(1000), "third": Slope(1000)}
    results = run(slopes, report=interrupt_at(13, reported))
    assert len(reported) == 13
    assert names(results) == ["first", "second"]
    assert traces(results)[0][-1] == 9
    assert results[0].result.outcome is Outcome.INTERRUPTED


@pytest.mark.parametrize("count", [3, SHORT + 2, 3 * SHORT, 3 * SHORT + 5])
def test_an_interrupt_ends_a_portfolio_before_and_after_its_short_runs(count: int) -> None:
    # Red if starts are continued after an interrupt in the short runs.
    reported: list[Progress] = []
    results = run({name: Slope(1000) for name in "abc"}, portfolio=True, report=interrupt_at(count, reported))
    assert len(reported) == count
    assert results[0].result.outcome is Outcome.INTERRUPTED
    assert sum(lengths(results)) == count


@pytest.mark.parametrize("portfolio", [False, True])
def test_an_interrupt_on_a_thread_ends_the_others(portfolio: bool) -> None:
    reported: list[Progress] = []
    results = run({name: Slope(10**6) for name in "abcd"}, portfolio, 2, interrupt_at(5, reported), max_iter=10**6)
    assert results[0].result.outcome is Outcome.INTERRUPTED
    assert set(names(results)) <= {"a", "b"}


def test_an_interrupt_of_the_waiting_thread_keeps_what_the_others_have() -> None:
    # Ctrl-C reaches the main thread, which only waits. Red if it drops the results that are under way.
    begun = threading.Barrier(2)

    def report(progress: Progress) -> None:
        if progress.iteration == 3:
            begun.wait(timeout=60)  # both are under way
            if progress.start == "a":
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    # A process that was started in the background ignores the signal unless a handler is set.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        results = run({name: Slope(10**6) for name in "abcd"}, n_jobs=2, report=report, max_iter=10**6)
    finally:
        signal.signal(signal.SIGINT, before)
    assert sorted(names(results)) == ["a", "b"]
    assert results[0].result.outcome is Outcome.INTERRUPTED
    assert all(length > 3 for length in lengths(results))


@jobs
def test_an_interrupt_with_nothing_to_keep_is_raised(n_jobs: int | None) -> None:
    def interrupted(name: str, state: LoopState[Any], max_iter: int, callback: Callback) -> LoopResult[Any]:
        raise KeyboardInterrupt

    starts = [start(name, Slope(5)) for name in "ab"]
    with pytest.raises(KeyboardInterrupt):
        multistart(starts, interrupted, 5, n_jobs, None, False)


def test_an_interrupt_before_a_later_start_begins_keeps_the_earlier() -> None:
    def begin() -> LoopState[Any]:
        raise KeyboardInterrupt

    starts = [start("a", Slope(5)), Start("b", begin), start("c", Slope(9))]
    results = multistart(starts, run_slope, MAX_ITER, None, None, False)
    assert names(results) == ["a"]
    assert results[0].result.outcome is Outcome.INTERRUPTED


@jobs
def test_any_other_error_is_raised_and_ends_the_other_starts(n_jobs: int | None) -> None:
    def report(progress: Progress) -> None:
        if progress.start == "b" and progress.iteration == 2:
            raise RuntimeError("no more disk")

    slopes = {"a": Slope(10**9 if n_jobs in (2, -1) else 5), "b": Slope(10**9)}
    with pytest.raises(RuntimeError, match=r"^no more disk$"):
        run(slopes, n_jobs=n_jobs, report=report, max_iter=10**9)


@pytest.mark.parametrize("portfolio", [False, True])
def test_threads_change_nothing(portfolio: bool) -> None:
    slopes = {f"{i}": Slope(10 + 7 * i % 40, i % 3, lambda value: int(value) % 2) for i in range(12)}
    alone, together = (run(slopes, portfolio, n_jobs) for n_jobs in (1, 2))
    assert names(alone) == names(together)
    assert traces(alone) == traces(together)
    for one, other in zip(alone, together, strict=True):
        assert (one.result.outcome, one.result.thin) == (other.result.outcome, other.result.thin)


def test_a_start_that_can_hardly_overtake_is_skipped() -> None:
    # Red if a bound is compared with anything but the objective that the others have reached.
    def bounded(name: str, slope: Slope, most: float) -> Start[Any]:
        return replace(start(name, slope), most=most)

    starts = [start("sure", Slope(9)), bounded("low", Slope(8), 8.5), bounded("may", Slope(12), 9.5)]
    assert names(multistart(starts, run_slope, MAX_ITER, None, None, False)) == ["may", "sure"]


def test_a_fallback_takes_over_only_if_it_begins_above_the_others() -> None:
    # Red if it is ranked by where it ends.
    def fallback(name: str, first: float) -> Start[Any]:
        begin = LoopState(Slope(20, first), 1.0, trace=(first,))  # type: ignore[type-var]
        return Start(name, lambda: begin, most=30.0)

    starts = [start("sure", Slope(9)), fallback("below", 8.0), fallback("above", 9.5)]
    assert names(multistart(starts, run_slope, MAX_ITER, None, None, False)) == ["above", "sure"]


def test_an_interrupt_before_a_fallback_keeps_the_others() -> None:
    def interrupted() -> LoopState[Any]:
        raise KeyboardInterrupt

    found = multistart(
        [start("sure", Slope(9)), Start("late", interrupted, most=30.0)], run_slope, MAX_ITER, None, None, False
    )
    assert names(found) == ["sure"]
    assert found[0].result.outcome is Outcome.INTERRUPTED
