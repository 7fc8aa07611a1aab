"""Race: several starts of one fit, of which the best is kept (findings: diverse starts beat repeated ones).

Named starts and a function that climbs from a start come in; the ascents, best first, go out: fewest thin components,
then highest objective. In a portfolio every start climbs for a few iterations and only the best few go on to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from joblib import Parallel, delayed

from blockmix.ascent import Ascent
from blockmix.convergence import Outcome

SHORT = 25  # iterations of each start of a portfolio
FINALISTS = 5  # starts of a portfolio that go on

Climb = Callable[[Any, int, Callable[[int, float], object] | None], Ascent]


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
    """Climb from every start; the runners, best objective first."""
    if not portfolio or len(starts) == 1:
        return _ranked(_run(starts, climb, max_iter, n_jobs, tell))
    short = _ranked(_run(starts, climb, min(SHORT, max_iter), n_jobs, tell))
    going = [runner for runner in short[:FINALISTS] if runner.ascent.outcome is Outcome.ITERATION_LIMIT]
    left = max_iter - min(SHORT, max_iter)
    if not going or left < 1:
        return short
    ends = _run([(runner.name, runner.ascent.parameters) for runner in going], climb, left, n_jobs, tell)
    longer = {runner.name: runner.ascent for runner in ends}
    return _ranked([_continued(runner, longer.get(runner.name)) for runner in short])


def _run(
    starts: Sequence[tuple[str, Any]],
    climb: Climb,
    max_iter: int,
    n_jobs: int | None,
    tell: Callable[[Progress], object] | None,
) -> list[Runner]:
    def one(name: str, start: Any) -> Runner:
        hear = None if tell is None else lambda iteration, value: tell(Progress(name, iteration, value))
        return Runner(name, climb(start, max_iter, hear))

    runners: list[Runner] = []
    arrivals: Iterable[Runner] = (one(name, start) for name, start in starts)
    if n_jobs not in (None, 1):
        pool = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")
        arrivals = pool(delayed(one)(name, start) for name, start in starts)
    try:
        for runner in arrivals:
            runners.append(runner)
            if runner.ascent.outcome is Outcome.INTERRUPTED:
                break
    except KeyboardInterrupt:
        if not runners:
            raise
    return runners


def _ranked(runners: list[Runner]) -> list[Runner]:
    return sorted(runners, key=lambda runner: (runner.ascent.thin, -runner.ascent.trace[-1]))


def _continued(runner: Runner, end: Ascent | None) -> Runner:
    if end is None:
        return runner
    return replace(
        runner, ascent=replace(end, trace=runner.ascent.trace + end.trace, notes=runner.ascent.notes + end.notes)
    )
