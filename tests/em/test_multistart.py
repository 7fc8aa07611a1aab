"""The race: who wins, who goes on, what a callback hears, and what an interrupt leaves."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from blockmix.em.convergence import Outcome
from blockmix.em.loop import Ascent, Callback
from blockmix.em.multistart import FINALISTS, SHORT, Progress, Runner, race

MAX_ITER = SHORT + 20
jobs = pytest.mark.parametrize("n_jobs", [None, 1, 2, -1])


class Hill:
    """A climb that rises by one per iteration up to a top; its parameters are where it stands."""

    def __init__(self, top: float, foot: float = 0.0, thin: Callable[[float], int] = lambda at: 0) -> None:
        self.top, self.foot, self.thin = top, foot, thin


def climb(start: Hill | tuple[Hill, float], max_iter: int, hear: Callback | None, leg: str = "") -> Ascent:
    hill, at = start if isinstance(start, tuple) else (start, start.foot)
    trace: list[float] = []
    outcome = Outcome.ITERATION_LIMIT
    try:
        for iteration in range(max_iter):
            trace.append(at)
            if hear is not None:
                hear(iteration, at)
            if at >= hill.top:
                outcome = Outcome.CONVERGED
                break
            at += 1
    except KeyboardInterrupt:
        outcome = Outcome.INTERRUPTED
    return Ascent((hill, at), trace, outcome, hill.thin(at), [f"{len(trace)} steps"])


def run(
    hills: dict[str, Hill],
    portfolio: bool = False,
    n_jobs: int | None = None,
    tell: Callable[[Progress], object] | None = None,
    max_iter: int = MAX_ITER,
) -> list[Runner]:
    return race(list(hills.items()), climb, max_iter, n_jobs, tell, portfolio)


def names(runners: list[Runner]) -> list[str]:
    return [runner.name for runner in runners]


@jobs
def test_the_highest_objective_comes_first(n_jobs: int | None) -> None:
    hills = {"low": Hill(3), "high": Hill(9), "middle": Hill(6)}
    runners = run(hills, n_jobs=n_jobs)
    assert names(runners) == ["high", "middle", "low"]
    assert [runner.ascent.trace[-1] for runner in runners] == [9, 6, 3]
    assert all(runner.ascent.outcome is Outcome.CONVERGED for runner in runners)


@jobs
def test_thin_components_come_last_whatever_their_objective(n_jobs: int | None) -> None:
    hills = {"two": Hill(9, thin=lambda at: 2), "none": Hill(3), "one": Hill(8, thin=lambda at: 1), "also": Hill(4)}
    assert names(run(hills, n_jobs=n_jobs)) == ["also", "none", "one", "two"]


@jobs
def test_equal_starts_keep_their_order(n_jobs: int | None) -> None:
    assert names(run({name: Hill(5) for name in "abcdef"}, n_jobs=n_jobs)) == list("abcdef")


def test_without_a_portfolio_every_start_has_all_its_iterations() -> None:
    runners = run({name: Hill(1000, foot=i) for i, name in enumerate("abcdefgh")})
    assert {len(runner.ascent.trace) for runner in runners} == {MAX_ITER}
    assert {runner.ascent.outcome for runner in runners} == {Outcome.ITERATION_LIMIT}


@jobs
def test_only_the_finalists_of_a_portfolio_go_on(n_jobs: int | None) -> None:
    hills = {f"start {i}": Hill(1000, foot=i) for i in range(FINALISTS + 3)}
    runners = run(hills, portfolio=True, n_jobs=n_jobs)
    assert names(runners) == list(hills)[::-1]
    assert [len(runner.ascent.trace) for runner in runners] == [MAX_ITER] * FINALISTS + [SHORT] * 3
    # One trace from the heat to the end, no value twice.
    assert runners[0].ascent.trace == [FINALISTS + 2 + i for i in range(MAX_ITER)]
    assert runners[0].ascent.notes == [f"{SHORT} steps", f"{MAX_ITER - SHORT} steps"]


def test_who_has_settled_in_the_heat_does_not_run_again() -> None:
    heard: list[Progress] = []
    runners = run({"flat": Hill(2, foot=2), "long": Hill(SHORT + 5)}, portfolio=True, tell=heard.append)
    assert [len(runner.ascent.trace) for runner in runners] == [SHORT + 6, 1]
    assert sum(progress.start == "flat" for progress in heard) == 1


@pytest.mark.parametrize("max_iter", [1, SHORT - 1, SHORT])
def test_a_portfolio_has_no_more_iterations_than_it_may(max_iter: int) -> None:
    runners = run({"a": Hill(1000), "b": Hill(1000)}, portfolio=True, max_iter=max_iter)
    assert [len(runner.ascent.trace) for runner in runners] == [max_iter] * 2


def test_a_portfolio_of_one_runs_without_a_heat() -> None:
    assert len(run({"only": Hill(1000)}, portfolio=True)[0].ascent.trace) == MAX_ITER


def test_the_winner_of_a_portfolio_has_settled_or_had_all_its_iterations() -> None:
    # All finalists grow thin after the heat, so one that was no finalist leads. Red if it is returned as it stood.
    hills = {f"thin {i}": Hill(1000, foot=10 + i, thin=lambda at: int(at > SHORT + 20)) for i in range(FINALISTS)}
    runners = run({**hills, "sound": Hill(1000), "worse": Hill(1000, foot=-1)}, portfolio=True)
    assert names(runners)[:2] == ["sound", "worse"]
    assert [len(runner.ascent.trace) for runner in runners[:2]] == [MAX_ITER, SHORT]


def test_a_callback_hears_of_every_iteration_once_and_counts_on_after_the_heat() -> None:
    # Red if the finalists begin again at iteration 0.
    heard: list[Progress] = []
    runners = run({"a": Hill(1000), "b": Hill(SHORT + 3, foot=1)}, portfolio=True, tell=heard.append)
    for runner in runners:
        own = [progress for progress in heard if progress.start == runner.name]
        assert [progress.iteration for progress in own] == list(range(len(runner.ascent.trace)))
        assert [progress.objective for progress in own] == runner.ascent.trace


def interrupt_at(count: int, heard: list[Progress]) -> Callable[[Progress], None]:
    def tell(progress: Progress) -> None:
        heard.append(progress)
        if len(heard) == count:
            raise KeyboardInterrupt

    return tell


def test_an_interrupt_in_the_only_start_keeps_it() -> None:
    (runner,) = run({"a": Hill(1000)}, tell=interrupt_at(4, []))
    assert runner.ascent.outcome is Outcome.INTERRUPTED
    assert runner.ascent.trace == [0, 1, 2, 3]


def test_an_interrupt_in_a_later_start_is_told_though_an_earlier_one_had_settled() -> None:
    # Red if the best runner's own outcome is all that is looked at.
    heard: list[Progress] = []
    runners = run({"first": Hill(9), "second": Hill(1000), "third": Hill(1000)}, tell=interrupt_at(13, heard))
    assert len(heard) == 13
    assert names(runners) == ["first", "second"]
    assert runners[0].ascent.trace[-1] == 9
    assert runners[0].ascent.outcome is Outcome.INTERRUPTED


@pytest.mark.parametrize("count", [3, SHORT + 2, 3 * SHORT, 3 * SHORT + 5])
def test_an_interrupt_ends_a_portfolio_in_heat_and_final(count: int) -> None:
    # Red if the finalists run on after the heat was interrupted.
    heard: list[Progress] = []
    runners = run({name: Hill(1000) for name in "abc"}, portfolio=True, tell=interrupt_at(count, heard))
    assert len(heard) == count
    assert runners[0].ascent.outcome is Outcome.INTERRUPTED
    assert sum(len(runner.ascent.trace) for runner in runners) == count


@pytest.mark.parametrize("portfolio", [False, True])
def test_an_interrupt_on_a_thread_ends_the_others(portfolio: bool) -> None:
    # Warnings are errors: joblib's word on cancelled tasks would be one.
    heard: list[Progress] = []
    runners = run({name: Hill(10**6) for name in "abcd"}, portfolio, 2, interrupt_at(5, heard), max_iter=10**6)
    assert runners[0].ascent.outcome is Outcome.INTERRUPTED
    assert set(names(runners)) <= {"a", "b"}


def test_an_interrupt_of_the_waiting_thread_keeps_what_the_others_have() -> None:
    # Ctrl-C reaches the main thread, which only waits. Red if it drops the ascents that are under way.
    begun = threading.Barrier(2)

    def tell(progress: Progress) -> None:
        if progress.iteration == 3:
            begun.wait(timeout=60)  # both are under way
            if progress.start == "a":
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    # A process that was started in the background ignores the signal unless it is told not to.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        runners = run({name: Hill(10**6) for name in "abcd"}, n_jobs=2, tell=tell, max_iter=10**6)
    finally:
        signal.signal(signal.SIGINT, before)
    assert sorted(names(runners)) == ["a", "b"]
    assert runners[0].ascent.outcome is Outcome.INTERRUPTED
    assert all(len(runner.ascent.trace) > 3 for runner in runners)


@jobs
def test_an_interrupt_with_nothing_to_keep_is_raised(n_jobs: int | None) -> None:
    def stopped(start: object, max_iter: int, hear: Callback | None, leg: str) -> Ascent:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        race([("a", None), ("b", None)], stopped, 5, n_jobs, None, False)


def test_an_interrupt_before_a_later_start_begins_keeps_the_earlier() -> None:
    def second_stops(start: Hill, max_iter: int, hear: Callback | None, leg: str) -> Ascent:
        if start.top == 7:
            raise KeyboardInterrupt
        return climb(start, max_iter, hear)

    starts = [("a", Hill(5)), ("b", Hill(7)), ("c", Hill(9))]
    runners = race(starts, second_stops, MAX_ITER, None, None, False)
    assert names(runners) == ["a"]
    assert runners[0].ascent.outcome is Outcome.INTERRUPTED


@jobs
def test_any_other_error_is_raised_and_ends_the_race(n_jobs: int | None) -> None:
    def tell(progress: Progress) -> None:
        if progress.start == "b" and progress.iteration == 2:
            raise RuntimeError("no more disk")

    tops = {"a": Hill(10**9 if n_jobs in (2, -1) else 5), "b": Hill(10**9)}
    with pytest.raises(RuntimeError, match=r"^no more disk$"):
        run(tops, n_jobs=n_jobs, tell=tell, max_iter=10**9)


@pytest.mark.parametrize("portfolio", [False, True])
def test_threads_change_nothing(portfolio: bool) -> None:
    hills = {f"{i}": Hill(10 + 7 * i % 40, foot=i % 3, thin=lambda at: int(at) % 2) for i in range(12)}
    alone, together = (
        [(runner.name, replace(runner.ascent, parameters=None)) for runner in run(hills, portfolio, n_jobs)]
        for n_jobs in (1, 2)
    )
    assert [vars(ascent) for _, ascent in alone] == [vars(ascent) for _, ascent in together]
    assert [name for name, _ in alone] == [name for name, _ in together]
