"""The default start: several clusterings and several first column groups, of which EM keeps the best (docs/adr/0004).

A family of mixtures and rows come in; a few starts of the EM loop go out. Clusterings are compared by short EM where
the rows can judge; where they cannot, k-means is kept.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from blockmix.em.convergence import Outcome
from blockmix.em.family import Family, P, S
from blockmix.em.loop import SPARE, LoopState, run
from blockmix.em.multistart import Start, first_state
from blockmix.em.starts.clusterings import by_ranks, clusterings, far_cells, seeds
from blockmix.em.starts.short_em import best_start
from blockmix.em.starts.starts import distinct
from blockmix.rows import ArrayRows, Rows
from blockmix.structure.types import FloatArray

_SWEEPS = 5  # after which the end of a fallback is extrapolated
_FURTHER = 50  # times the last gain is added for it: columns alone start far behind
_ROWS_PER_COLUMN = 2  # rows of a component from which a full covariance can judge
# Share of cells beyond three robust deviations from which normal scores are clustered too; normal columns have 0.003.
# Without tails or skew they add a partition that the judge may prefer for no good reason: on Ecoli (0.009) ARI 0.45.
_FAR = 0.02
_COLUMNS = 64  # up to which full covariances are swept: beyond that it would take longer than the rest of the fit


def auto(
    family: Family[P, S],
    rows: ArrayRows,
    table: FloatArray,
    n_components: int,
    tol: float,
    max_iter: int,
    rng: np.random.RandomState,
) -> list[Start[P]]:
    """The starts worth a whole EM, from clusterings of the standardized rows in a table without gaps, shape (N, p).

    They begin in the groups of the rule. One group (where rows can judge) and columns alone are fallbacks: EM runs
    within them, one group is then regrouped once, and they take over only if they end above. A fallback whose
    extrapolated objective is too low is not run, so the fit is almost never below the full or diagonal mixture from
    the same start (docs/adr/0004).
    """
    found, judged = compared(table, rows.weights, n_components, rng)
    starts: list[Start[P]] = []
    for groups, held in family.layouts(rows.n_columns, judged).items():
        tolerance = tol if groups in ("one group", "alone") else family.loose(tol)
        for name, z in found.items():
            begin = partial(first_state, held, rows, tolerance, z)
            if not starts or groups == "rule":
                starts.append(Start(f"{name}, {groups}", begin))
            elif name == next(iter(found)):
                # Columns alone have much to gain by a regroup, in wrong clusters too (docs/adr/0004).
                then = family if groups == "one group" else None
                starts.append(_fallback(f"{name}, {groups}", held, then, rows, begin(), tol, max_iter))
    return starts


def compared(
    X: FloatArray, weights: FloatArray, n_components: int, rng: np.random.RandomState
) -> tuple[dict[str, FloatArray], bool]:
    """Clusterings to start from by name, shapes (N, G), and whether they could be judged.

    The best one after short EM; without enough rows to judge, k-means and the clipped k-means.
    """
    different, weight, place = distinct(X, weights, n_components)
    found = clusterings(different, weight, n_components, rng)
    p, share = X.shape[1], float(weight.sum()) / n_components
    if p > _COLUMNS or share < _ROWS_PER_COLUMN * p or len(found) == 1:
        return {name: z[place] for name, z in found.items() if name != "trimmed"}, False
    # Drawn seeds differ widely, and the likelihood is to choose among them: that takes twice as many rows as a full
    # component has parameters. On Ecoli, 42 rows and 35 parameters, it prefers ARI 0.46 to the 0.64 of k-means.
    drawn = seeds(different, weight, n_components, rng) if share > p * (p + 3) else {}
    ranks = {"ranks": by_ranks(different, weight, n_components, rng)} if far_cells(different) > _FAR else {}
    pool = found | ranks | drawn
    order, swept = best_start(different, weight, list(pool.values()), SPARE, rng)
    return {list(pool)[order[0]]: swept[place]}, True


def _fallback(
    name: str,
    held: Family[P, S],
    then: Family[P, S] | None,
    rows: Rows,
    state: LoopState[P],
    tol: float,
    max_iter: int,
) -> Start[P]:
    """A start that begins where EM within the first groups of `held` ends, after one regroup by `then` if given.

    Its limit `most` is extrapolated from a few sweeps and ignores the regroup.
    """

    def swept(family: Family[P, S], state: LoopState[P], max_iter: int) -> LoopState[P]:
        found = run(family, rows, state, tol, max_iter)
        if found.outcome is Outcome.INTERRUPTED:
            raise KeyboardInterrupt
        return found.state

    def begin() -> LoopState[P]:
        end = swept(held, short, max_iter)
        end = replace(end, converged=False, unmoved=-np.inf, memory=frozenset())  # `held` tried other groups
        if then is None:
            return replace(end, recent=())
        return swept(then, end, min(len(end.trace) + 2, max_iter))  # the regroup, and a sweep for its objective

    short = swept(held, state, min(_SWEEPS, max_iter))
    most = short.trace[-1] + _FURTHER * float(np.diff(short.trace)[-1:].sum())
    return Start(name, begin, most)
