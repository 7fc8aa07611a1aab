"""Multistart: EM from several starts, of which the best is kept (diverse starts beat repeated ones, docs/adr/0004).

Named starts and a function that runs the EM loop come in; the results, best first, go out: fewest thin components,
then highest objective. In a portfolio every start runs for a few iterations and only the best few are continued.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Generic, Protocol

from joblib import effective_n_jobs

from blockmix.em.convergence import Outcome
from blockmix.em.family import Family, P, S
from blockmix.em.loop import Callback, LoopResult, LoopState
from blockmix.rows import Rows
from blockmix.structure.types import FloatArray

SHORT = 25  # iterations of each start of a portfolio
_ROUNDING = 1e-12  # of an objective
FINALISTS = 5  # starts of a portfolio that are continued


@dataclass(frozen=True)
class Progress:
    """One iteration: the name of its start, its number and the objective."""

    start: str
    iteration: int
    objective: float


@dataclass(frozen=True, eq=False)
class Start(Generic[P]):
    """A name, and a function that makes the first state.

    With a finite `most` it is a fallback, run only if the others end below that, and below the objective of its first
    state if that has one.
    """

    name: str
    begin: Callable[[], LoopState[P]]
    most: float = math.inf


def first_state(family: Family[P, S], rows: Rows, tolerance: float, z: FloatArray) -> LoopState[P]:
    """The state after the M-step from responsibilities z, shape (N, G)."""
    found = family.first(rows, z)
    return LoopState(found.parameters, tolerance, memory=found.memory)


@dataclass(frozen=True, eq=False)
class StartResult(Generic[P]):
    """The name of a start and the result of its EM."""

    name: str
    result: LoopResult[P]

    @property
    def unfinished(self) -> bool:
        """Whether EM stopped at an iteration limit."""
        return self.result.outcome is Outcome.ITERATION_LIMIT


class RunLoop(Protocol[P]):
    """Runs the EM loop from a state until its trace has max_iter values."""

    def __call__(self, name: str, state: LoopState[P], max_iter: int, callback: Callback) -> LoopResult[P]:
        """Run the loop of the start of that name."""
        ...


def multistart(
    starts: Sequence[Start[P]],
    run: RunLoop[P],
    max_iter: int,
    n_jobs: int | None,
    report: Callable[[Progress], object] | None,
    portfolio: bool,
) -> list[StartResult[P]]:
    """Run EM from every start; results, best first.

    An interrupt ends all of them; the best is then marked as interrupted, whether it had converged or not.
    """
    short = min(SHORT, max_iter) if portfolio and len(starts) > 1 else max_iter
    pool = _Pool(run, n_jobs, report)
    results = _ranked(pool.run([start for start in starts if start.most == math.inf], short))
    for start in starts:
        if not pool.stopped and start.most < math.inf and results[0].result.state.trace[-1] < start.most:
            results = _ranked([*results, *pool.run([start], max_iter, results[0].result.state.trace[-1])])
    if not results:
        raise KeyboardInterrupt
    going = [result for result in results[:FINALISTS] if result.unfinished]
    while going and not pool.stopped and short < max_iter:
        ends = pool.run([_continuation(result) for result in going], max_iter)
        longer = {end.name: end for end in ends}
        results = _ranked([longer.get(result.name, result) for result in results])
        # Finalists may have become thin: then the one that leads now is continued too.
        leader = results[0]
        going = [leader] if leader.unfinished and len(leader.result.state.trace) < max_iter else []
    return interrupted(results) if pool.stopped else results


def interrupted(results: list[StartResult[P]]) -> list[StartResult[P]]:
    """The results with the best of them marked as interrupted."""
    best = replace(results[0].result, outcome=Outcome.INTERRUPTED)
    return [replace(results[0], result=best), *results[1:]]


def _continuation(result: StartResult[P]) -> Start[P]:
    return Start(result.name, lambda: result.result.state)


def _ranked(results: list[StartResult[P]]) -> list[StartResult[P]]:
    """The best first; of those that differ from it by rounding only, which depends on the source of rows, the first."""
    if not results:
        return results
    ranked = sorted(results, key=lambda found: (found.result.thin, -found.result.state.trace[-1]))
    thin, value = ranked[0].result.thin, ranked[0].result.state.trace[-1]
    level = value - _ROUNDING * abs(value)
    same = (found for found in results if found.result.thin == thin and found.result.state.trace[-1] >= level)
    first = next(same, ranked[0])
    return [first, *(found for found in ranked if found is not first)]


class _Pool(Generic[P]):
    """Runs starts on threads; an interrupt or an error in one of them ends the others at their next iteration."""

    def __init__(self, run: RunLoop[P], n_jobs: int | None, report: Callable[[Progress], object] | None) -> None:
        self._run = run
        self._n_jobs = n_jobs
        self._report = report
        self._stop = threading.Event()

    @property
    def stopped(self) -> bool:
        """Whether an interrupt has ended the runs."""
        return self._stop.is_set()

    def run(self, starts: Sequence[Start[P]], max_iter: int, above: float = -math.inf) -> list[StartResult[P]]:
        """Results in the order of the starts, without those that had no iteration before an interrupt.

        A start whose first state has an objective is left out unless that is above `above`.
        """
        n_threads = min(effective_n_jobs(self._n_jobs), len(starts))
        if n_threads == 1:
            found = [self._one(start, max_iter, above) for start in starts]
        else:
            found = self._on_threads(starts, max_iter, n_threads)
        return [result for result in found if result is not None]

    def _on_threads(self, starts: Sequence[Start[P]], max_iter: int, n_threads: int) -> list[StartResult[P] | None]:
        # Filled by the threads themselves: an interrupt in the middle of `submit` loses a future, not its result.
        found: dict[str, StartResult[P] | None] = {}
        ended = [threading.Event() for _ in starts]
        begun: list[threading.Event] = []

        def work(start: Start[P], end: threading.Event) -> None:
            begun.append(end)
            try:
                found[start.name] = self._one(start, max_iter)
            finally:
                end.set()

        futures: list[Future[None]] = []
        with ThreadPoolExecutor(n_threads) as pool:
            with suppress(KeyboardInterrupt):
                for start, end in zip(starts, ended, strict=True):
                    futures.append(pool.submit(work, start, end))
                wait(futures, return_when=FIRST_EXCEPTION)
            if len(futures) < len(starts) or not all(future.done() for future in futures):
                self._stop.set()
        for end in begun:
            end.wait()
        for future in futures:
            future.result()
        return [found.get(start.name) for start in starts]

    def _one(self, start: Start[P], max_iter: int, above: float = -math.inf) -> StartResult[P] | None:
        def callback(iteration: int, value: float) -> None:
            if self.stopped:
                raise KeyboardInterrupt
            if self._report is not None:
                self._report(Progress(start.name, iteration, value))

        if self.stopped:
            return None
        try:
            state = start.begin()
            if state.trace and state.trace[-1] <= above:
                return None
            result = self._run(start.name, state, max_iter, callback)
        except KeyboardInterrupt:  # before the first iteration: nothing to keep
            self._stop.set()
            return None
        if result.outcome is Outcome.INTERRUPTED:
            self._stop.set()
        return StartResult(start.name, result)
