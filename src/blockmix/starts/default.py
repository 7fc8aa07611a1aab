"""The default start: several clusterings and several first column groups, of which EM keeps the best (docs/adr/0004).

Clusterings are compared by short EM where the rows can judge; where they cannot, k-means is kept. Rows with missing
values are completed for the clusterings only: EM itself never sees a filled value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from blockmix.blocks.blocks import Blocks, Layout
from blockmix.em.loop import SPARE, Family, LoopState, Outcome, P, S, Start, multistart, run
from blockmix.em.parameters import Parameters, Prior
from blockmix.em.sweep import expected, maximize, sweep
from blockmix.partition import FloatArray, IntArray, Partition
from blockmix.rows import ArrayRows, Rows
from blockmix.starts.clusterings import by_ranks, clip, clusterings, distinct, seeds
from blockmix.starts.pooled import flatter, likelier

# Size of the part of the rows that the default start compares clusterings on.
_PART_ROWS = 2000
_PART_NUMBERS = 2**19
_SWEEPS = 5  # after which the end of a fallback is extrapolated
_FURTHER = 50  # times the last gain is added for it: columns alone start far behind
_ROWS_PER_COLUMN = 2  # rows of a component from which a full covariance can judge
# Share of cells beyond three robust deviations from which normal scores are clustered too; normal columns have 0.003.
# Without tails or skew they add a partition that the judge may prefer for no good reason: on Ecoli (0.009) ARI 0.45.
_FAR = 0.02
_COLUMNS = 64  # up to which full covariances are swept: beyond that it would take longer than the rest of the fit
_FEW, _MORE = 10, 15  # sweeps of all clusterings in short EM, and further ones of the best
_KEPT = 8  # clusterings that have the further sweeps
_FLOOR = 1e-3  # least number added to the variances of standardized columns in short EM
# Degrees of freedom. The normal likelihood prefers a component of outliers and merges two clusters for it. Under t
# components outliers cost little.
_DEGREES = 5.0
_NUMBERS = 2**22  # of the products of short EM: 32 MB
_DIGITS = 6  # of standardized values that clusterings see: fewer than float32 has
_NEIGHBORS = 7
_DONORS = 1000  # rows that are searched for neighbors
_STEPS, _PSEUDO_ROWS = 10, 64.0  # of the fit of one covariance, which missing values are regressed by


def default_starts(
    make_family: Callable[[Rows], Family[P, S]],
    rows: Rows,
    sample: ArrayRows,
    n_components: int,
    n_init: int,
    tol: float,
    max_iter: int,
    rng: np.random.RandomState,
) -> list[Start[P]]:
    """The default starts. Of many rows a part is fitted, and EM goes on from the best fit of it.

    Parameters
    ----------
    make_family : callable
        Returns the family for some rows.
    rows : Rows
    sample : ArrayRows
        A sample of rows that are not in memory; the rows themselves otherwise.
    n_components, n_init : int
    tol, max_iter
        Of the fit.
    rng : RandomState
    """
    size = max(_PART_ROWS, _PART_NUMBERS // rows.n_columns, n_components)
    part = sample.sample(size, rng)
    family = make_family(part)
    # Neither way to fill missing values is the better start everywhere: neighbors keep clusters apart, regression keeps
    # correlations.
    tables: list[FloatArray] = [(part.X - part.location) / part.scale]
    starts: list[Start[P]] = []
    if part.has_missing:
        tables = [by_neighbors(part)] + ([by_regression(part)] if rows.n_columns <= _COLUMNS else [])
    # Where values tie, the last bits of location and scale, which depend on the source of rows, would decide.
    tables = [np.round(np.ascontiguousarray(table), _DIGITS) for table in tables]
    for i in range(1, n_init + 1):
        for number, table in enumerate(tables):
            prefix = f"auto {i}" if number == 0 else f"auto {i}, regression"
            candidates = starts_from_table(family, part, table, n_components, tol, max_iter, rng)
            starts += [replace(start, name=f"{prefix}: {start.name}") for start in candidates]
    if part.n_rows == rows.n_rows:
        return starts
    best = multistart(starts, family, part, tol, max_iter)[0]
    if best.outcome is Outcome.INTERRUPTED:
        raise KeyboardInterrupt
    return [Start(best.name, partial(LoopState, best.state.parameters, max(tol, family.loose)))]


def starts_from_table(
    family: Family[P, S],
    rows: ArrayRows,
    table: FloatArray,
    n_components: int,
    tol: float,
    max_iter: int,
    rng: np.random.RandomState,
) -> list[Start[P]]:
    """The starts worth a whole EM, from clusterings of standardized rows without missing values, shape (N, p).

    They begin in the groups of the rule. One group (where rows can judge) and columns alone are fallbacks: EM runs
    within them, one group is then regrouped once, and they take over only if they end above. A fallback whose
    extrapolated objective is too low is not run, so the fit is almost never below the full or diagonal mixture from
    the same start (docs/adr/0004).
    """
    floor, resolution = np.full(rows.n_columns, _FLOOR), rows.resolution
    if len(resolution.columns):
        steps = np.minimum.reduceat(resolution.variances, resolution.first[:-1])
        floor[resolution.columns] = np.maximum(_FLOOR, steps / rows.scale[resolution.columns] ** 2)
    candidates, judged = candidate_clusterings(table, rows.weights, n_components, rng, floor)
    # One group rests on the rows that have all columns, whatever the table was completed with.
    complete = float(rows.weights @ ~np.isnan(rows.X).any(axis=1)) if rows.has_missing else math.inf
    judged &= complete >= _ROWS_PER_COLUMN * rows.n_columns * n_components
    if getattr(family, "shared", False):
        known = next(iter(candidates.values()))
        if (likely := likelier(table, rows.weights, n_components, rng, known)) is not None:
            candidates["one covariance"] = likely[0]
    starts: list[Start[P]] = []
    for groups, held in family.layouts(rows.n_columns, judged).items():
        tolerance = tol if groups in ("one group", "alone") else max(tol, family.loose)
        for name, z in candidates.items():
            begin = partial(held.first, rows, z, tolerance)
            if not starts or groups == "rule":
                starts.append(Start(f"{name}, {groups}", begin))
            elif name == next(iter(candidates)):
                # Columns alone have much to gain by a regroup, in wrong clusters too (docs/adr/0004).
                then = family if groups == "one group" else None
                starts.append(_fallback(f"{name}, {groups}", held, then, rows, begin(), tol, max_iter))
    return starts


def candidate_clusterings(
    X: FloatArray, weights: FloatArray, n_components: int, rng: np.random.RandomState, floor: FloatArray
) -> tuple[dict[str, FloatArray], bool]:
    """Clusterings to start from by name, shapes (N, G), and whether they could be judged.

    The best one after short EM; without enough rows to judge, k-means and the clipped k-means. For the floor (p,) of
    the variances see `best_start`.
    """
    different, weight, place = distinct(X, weights, n_components)
    pool = clusterings(different, weight, n_components, rng)
    p, share = X.shape[1], float(weight.sum()) / n_components
    if p > _COLUMNS or share < _ROWS_PER_COLUMN * p or len(pool) == 1:
        return {name: z[place] for name, z in pool.items() if name != "trimmed"}, False
    # Drawn seeds differ widely, and the likelihood is to choose among them: that takes twice as many rows as a full
    # component has parameters. On Ecoli, 42 rows and 35 parameters, it prefers ARI 0.46 to the 0.64 of k-means.
    drawn = seeds(different, weight, n_components, rng) if share > p * (p + 3) else {}
    if (clip(different) != different).mean() > _FAR:
        pool["ranks"] = by_ranks(different, weight, n_components, rng)
    if (flat := flatter(different, weight, n_components, [pool["kmeans"]])) is not None:
        pool["axis"] = flat
    pool |= drawn
    order, z = best_start(different, weight, list(pool.values()), SPARE, rng, floor)
    return {list(pool)[order[0]]: z[place]}, True


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

    Its limit is extrapolated from a few sweeps and ignores the regroup.
    """

    def swept(family: Family[P, S], state: LoopState[P], max_iter: int) -> LoopState[P]:
        result = run(family, rows, state, tol, max_iter)
        if result.outcome is Outcome.INTERRUPTED:
            raise KeyboardInterrupt
        return result.state

    def begin() -> LoopState[P]:
        end = swept(held, short, max_iter)
        end = replace(end, converged=False, unmoved=-np.inf, memory=frozenset())  # `held` tried other groups
        if then is None:
            return replace(end, recent=())
        return swept(then, end, min(len(end.trace) + 2, max_iter))  # the regroup, and a sweep for its objective

    short = swept(held, state, min(_SWEEPS, max_iter))
    limit = short.trace[-1] + _FURTHER * float(np.diff(short.trace)[-1:].sum())
    return Start(name, begin, limit)


def best_start(
    X: FloatArray,
    weights: FloatArray,
    clusterings: list[FloatArray],
    spare: float,
    rng: np.random.RandomState,
    floor: FloatArray,
) -> tuple[IntArray, FloatArray]:
    """Numbers of the clusterings, best first after short EM, and responsibilities for the first M-step, shape (N, G).

    Short EM fits t components with full covariances. The best has the fewest components with at most p + spare rows,
    then the highest likelihood. Its responsibilities are returned times the weights of the rows, at most 1: outliers
    count little in the first M-step. Of many rows only a sample is swept, and the clustering itself is returned.

    Parameters
    ----------
    X : array of shape (N, p)
        Standardized rows.
    weights : array of shape (N,)
    clusterings : list of arrays of shape (N, G)
        A row without responsibilities is left out of the first M-step.
    spare : float
    rng : RandomState
    floor : array of shape (p,)
        Added to the variances: at least what rounding leaves of a column, so that no cluster can sit on a value that is
        recorded often. A 0/1 column of noise would take the clusters over.

    Examples
    --------
    >>> X = np.random.RandomState(0).standard_normal((60, 1)) + np.repeat([[-9.0], [0], [9]], 20, axis=0)
    >>> right, wrong = np.repeat(np.eye(3), 20, axis=0), np.tile(np.eye(3), (20, 1))
    >>> best_start(X / X.std(), np.ones(60), [wrong, right], 5, np.random.RandomState(0), np.full(1, 1e-3))[0]
    array([1, 0])
    """
    N, p = X.shape
    size = max(_NUMBERS // (p * (p + 3) // 2 + 1), 1)
    part = slice(None) if size >= N else np.sort(rng.choice(N, size, replace=False))
    least = (p + spare) / float(weights[part].sum())
    # Products x_i x_j (i ≤ j), x and 1, shape (D, N), and weights of sum 1, in single precision: it is enough to
    # compare and twice as fast.
    i, j = np.triu_indices(p)
    columns = np.ascontiguousarray(X[part].T, dtype=np.float32)
    phi = np.concatenate([columns[i] * columns[j], columns, np.ones((1, columns.shape[1]), dtype=np.float32)])
    share = (weights[part].astype(float) / weights[part].sum(dtype=float)).astype(np.float32)
    z = np.stack([clustering[part].T for clustering in clusterings], axis=1).astype(np.float32)
    z, u, value, thin = short_em(phi, share, floor, z, np.ones_like(z), _FEW, least)
    order = np.lexsort((-value, thin))
    z, u, value, thin = short_em(phi, share, floor, z[:, order[:_KEPT]], u[:, order[:_KEPT]], _MORE, least)
    again = np.lexsort((-value, thin))
    order[:_KEPT] = order[again]
    swept = (z * np.minimum(u, 1))[:, again[0]].T.astype(X.dtype)
    return order, swept if isinstance(part, slice) else clusterings[order[0]]


def short_em(
    phi: FloatArray, weights: FloatArray, floor: FloatArray, z: FloatArray, u: FloatArray, n_sweeps: int, least: float
) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
    """Some sweeps of S mixtures from responsibilities z and row weights u, both (G, S, N).

    Returns both, the log-likelihoods per row up to a constant (S,), and the numbers of components with a share of at
    most `least` (S,). All mixtures are swept together: a Mahalanobis distance is linear in the products, so the E-steps
    of all of them are one matrix product and their M-steps another.
    """
    # Components come first: sums over the last of three axes take twice the time of all the rest.
    (G, S, N), p = z.shape, len(floor)
    total = _DEGREES + p
    value, share, (i, j) = np.empty(S), np.empty((G, S)), np.triu_indices(p)
    rounded = np.where(floor > _FLOOR, floor, 0.0)
    for _ in range(n_sweeps):
        share = np.maximum(z @ weights, np.finfo(np.float32).tiny)
        sums = ((z * u * weights).reshape(G * S, N) @ phi.T).astype(float)
        weight = np.maximum(sums[:, -1:], np.finfo(float).tiny)
        squares, means = np.split(sums[:, :-1] / weight, [len(i)], axis=1)
        covariance = np.empty((len(means), p, p))
        covariance[:, i, j] = covariance[:, j, i] = squares - means[:, i] * means[:, j]
        covariance[:, range(p), range(p)] += floor
        precision, logdet = np.linalg.inv(covariance), np.linalg.slogdet(covariance)[1].astype(np.float32)
        linear = np.einsum("cij,cj->ci", precision, means)
        quadratic = np.where(i == j, 1.0, 2.0) * precision[:, i, j]
        # A rounded value has the mean distance of the values that it stands for, or sitting on one would pay.
        constant = np.einsum("ci,ci->c", linear, means) + np.einsum("cii,i->c", precision, rounded)
        coefficients = np.concatenate([quadratic, -2 * linear, constant[:, None]], axis=1).astype(np.float32)
        u = total / (_DEGREES + np.maximum(coefficients @ phi, 0).reshape(G, S, N))
        joint = (0.5 * total) * np.log(u)
        joint += (np.log(share) - 0.5 * logdet.reshape(G, S))[:, :, None]
        top = joint.max(axis=0)
        z = np.exp(joint - top)
        density = z.sum(axis=0)
        z /= density
        value = (top + np.log(density)) @ weights
    return z, u, value, (share <= least).sum(axis=0)


def by_neighbors(rows: ArrayRows) -> FloatArray:
    """Missing values filled by the mean of the nearest rows; by the mean of the column if none of them has a value.

    The distance is the mean squared difference over the columns that both rows have. At most 1000 distinct rows are
    candidates.
    """
    X = np.round((rows.X - rows.location) / rows.scale, _DIGITS)
    counted = np.flatnonzero(rows.weights > 0)
    _, _, place = distinct(np.nan_to_num(X), rows.weights, 1)
    different = counted[np.unique(place[counted], return_index=True)[1]]
    donors = X[different[:: -(-len(different) // _DONORS)]]
    parts = rows.map(lambda chunk: _near_means(X[chunk.place], donors))
    return np.concatenate(list(parts))


def _near_means(X: FloatArray, donors: FloatArray) -> FloatArray:
    """Rows X, shape (m, p), whose missing values have the means of the nearest donors, shape (D, p)."""
    completed = X.copy()
    incomplete = np.flatnonzero(np.isnan(X).any(axis=1))
    values, present = np.nan_to_num(donors), ~np.isnan(donors)
    for some in np.array_split(incomplete, -(-len(incomplete) // _DONORS) or 1):
        rows, here = np.nan_to_num(X[some]), (~np.isnan(X[some])).astype(float)
        both = here @ present.T
        squares = rows**2 @ present.T + here @ (values**2).T - 2 * (rows @ values.T)
        apart = np.where(both > 0, squares / np.maximum(both, 1), np.inf)
        # A row is its own neighbor too, but has no value where it is filled.
        near = np.argpartition(apart, min(_NEIGHBORS, len(donors) - 1), axis=1)[:, : _NEIGHBORS + 1]
        usable = present[near] & np.isfinite(np.take_along_axis(apart, near, axis=1))[:, :, None]
        means = (values[near] * usable).sum(axis=1) / np.maximum(usable.sum(axis=1), 1)
        completed[some] = np.where(here > 0, rows, means)
    return completed


def by_regression(rows: ArrayRows) -> FloatArray:
    """Missing values filled by their conditional means under one normal distribution, shrunk to independent columns."""
    p, layout = rows.n_columns, Layout((Partition.single(rows.n_columns),))
    parameters = Parameters(np.ones(1), np.zeros((1, p)), Blocks(layout, np.eye(p).ravel()))
    for _ in range(_STEPS):
        parameters = maximize(sweep(rows, parameters), parameters, Prior(_PSEUDO_ROWS))
    density = parameters.density(missing=True)
    return np.concatenate(list(rows.map(lambda chunk: expected(chunk, density, np.ones((len(chunk.X), 1))))))
