"""Race: several starts of one fit, of which the best is kept (findings: diverse starts beat repeated ones).

Named starts and a function that climbs from a start come in; the ascents, best first, go out: fewest thin components,
then highest objective. In a portfolio every start climbs for a few iterations and only the best few go on to the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from joblib import effective_n_jobs

from blockmix.em.convergence import Outcome
from blockmix.em.loop import Ascent

SHORT = 25  # iterations of each start of a portfolio
FINALISTS = 5  # starts of a portfolio that go on

# A start or parameters, iterations, who hears of them, and the name of this part of the race; where it ended.
Climb = Callable[[Any, int, Callable[[int, float], object] | None, str], Ascent]


@dataclass(frozen=True)
class Progress:
    """What a callback is told: which start, which iteration, and the objective it has reached."""

    start: str
    iteration: int
    objective: float


@dataclass(frozen=True, eq=False)
class Runner:
    """A start's name and where it ended."""

    name: str
    ascent: Ascent


def race(
    starts: Sequence[tuple[str, Any]],
    climb: Climb,
    max_iter: int,
    n_jobs: int | None,
    tell: Callable[[Progress], object] | None,
    portfolio: bool,
) -> list[Runner]:
    """Climb from every start; the runners, best first.

    An interrupt ends all of them where they are; the best is then marked as interrupted, whether it had settled or not.
    """
    heat = min(SHORT, max_iter) if portfolio and len(starts) > 1 else max_iter
    runners, stopped = _run(starts, climb, heat, n_jobs, tell)
    if not runners:
        raise KeyboardInterrupt
    runners = _ranked(runners)
    going = _unfinished(runners[:FINALISTS], max_iter)
    while going and not stopped:
        further = [(runner.name, runner.ascent.parameters) for runner in going]
        ends, stopped = _run(further, climb, max_iter - heat, n_jobs, tell, first=heat)
        longer = {runner.name: runner.ascent for runner in ends}
        runners = _ranked([_continued(runner, longer.get(runner.name)) for runner in runners])
        # Finalists may have grown thin on their way: then the one that now leads goes on too.
        going = _unfinished(runners[:1], max_iter)
    if stopped:
        runners[0] = replace(runners[0], ascent=replace(runners[0].ascent, outcome=Outcome.INTERRUPTED))
    return runners


def _run(
    starts: Sequence[tuple[str, Any]],
    climb: Climb,
    max_iter: int,
    n_jobs: int | None,
    tell: Callable[[Progress], object] | None,
    first: int = 0,
) -> tuple[list[Runner], bool]:
    """Climb from every start; the runners in the order of the starts, and whether an interrupt ended the run."""
    stop = threading.Event()
    found: dict[str, Runner] = {}
    begun: dict[str, threading.Event] = {}

    def one(name: str, start: Any) -> None:
        ended = begun[name] = threading.Event()
        try:
            alone(name, start)
        finally:
            ended.set()

    def alone(name: str, start: Any) -> None:
        def hear(iteration: int, value: float) -> None:
            if stop.is_set():
                raise KeyboardInterrupt
            if tell is not None:
                tell(Progress(name, first + iteration, value))

        if stop.is_set():
            return
        try:
            found[name] = Runner(name, climb(start, max_iter, hear, f"{name} from {first}"))
        except KeyboardInterrupt:  # before the first iteration: nothing to keep
            stop.set()
        else:
            if found[name].ascent.outcome is Outcome.INTERRUPTED:
                stop.set()

    n_threads = min(effective_n_jobs(n_jobs), len(starts))
    if n_threads == 1:
        for name, start in starts:
            one(name, start)
    else:
        futures: list[Future[None]] = []
        with ThreadPoolExecutor(n_threads) as pool:
            with suppress(KeyboardInterrupt):
                for name, start in starts:
                    futures.append(pool.submit(one, name, start))
                wait(futures, return_when=FIRST_EXCEPTION)
            if len(futures) < len(starts) or not all(future.done() for future in futures):
                stop.set()  # an interrupt here or an error in one of them: the others end at their next iteration
        # An interrupt in the middle of a submission leaves a thread that the pool does not know and does not wait for.
        for ended in list(begun.values()):
            ended.wait()
        for future in futures:
            future.result()
    return [found[name] for name, _ in starts if name in found], stop.is_set()


def _ranked(runners: list[Runner]) -> list[Runner]:
    return sorted(runners, key=lambda runner: (runner.ascent.thin, -runner.ascent.trace[-1]))


def _unfinished(runners: list[Runner], max_iter: int) -> list[Runner]:
    """Runners that have neither settled nor had all their iterations."""
    return [
        runner
        for runner in runners
        if runner.ascent.outcome is Outcome.ITERATION_LIMIT and len(runner.ascent.trace) < max_iter
    ]


def _continued(runner: Runner, end: Ascent | None) -> Runner:
    if end is None:
        return runner
    return replace(
        runner, ascent=replace(end, trace=runner.ascent.trace + end.trace, notes=runner.ascent.notes + end.notes)
    )
