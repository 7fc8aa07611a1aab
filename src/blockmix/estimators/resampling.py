"""Resampling: column groups and clusters of a fitted model when the rows get random weights (Gamma(2)).

Column groups are proposed again with the responsibilities of the fit. Statistics add up, so many rows are first summed
in buckets, and a resample is a weighted sum of these. Clusters are refitted.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state

from blockmix.em import loop
from blockmix.em.block import BlockFamily
from blockmix.em.parameters import Density, Parameters
from blockmix.em.sweep import Statistics, chunk_scatter, full_scatter
from blockmix.estimators.stability import Stability, cluster_stability, column_stability
from blockmix.estimators.validation import check_whole, counts, matrix, rows_to_score
from blockmix.partition import FloatArray, IntArray, Partition, RandomState, column_names
from blockmix.rows import Chunk, one_blas_thread

BUCKETS = 256
_LEAST_BUCKETS = 16
QUICK = 100, 25  # resamples unasked, the most that take
_SECONDS = 5.0
_NUMBERS = 2**25  # of the statistics of all buckets: 256 MB

Progress = Callable[[int, int], object]  # gets the number of resamples and refits that are done, and that of all
T = TypeVar("T")


def stability_of(
    model: Any,
    X: Any,
    n_resamples: int,
    n_refits: int,
    units: ArrayLike | None,
    sample_weight: ArrayLike | None,
    random_state: RandomState,
    callback: Progress | None,
) -> Stability:
    """Stability of the groups of a block mixture or a covariance, and of clusters; see `GaussianBiclustering`."""
    fitted = np.atleast_2d(model.column_labels_)
    check_whole("n_resamples", n_resamples)
    check_whole("n_refits", n_refits, least=0)
    n_refits = n_refits if len(fitted) > 1 else 0  # one cluster is all rows, always
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    if hasattr(model, "weights_"):
        rows = rows_to_score(model, X, sample_weight).powered(model._parameters.powers).measured()
        if n_refits and not rows.is_array:
            raise ValueError(f"n_refits={n_refits} needs rows in memory: give n_refits=0 for the column groups only")
        if n_refits and rows.n_rows != len(model.row_labels_):
            rest = f"the model was fitted to {len(model.row_labels_)}: give the rows of the fit, or n_refits=0"
            raise ValueError(f"X has {rows.n_rows} rows, but {rest}")
        codes = _unit_codes(units, rows.n_rows)
        parameters = model._parameters.in_units(-rows.location / rows.scale, 1 / rows.scale)
        rows, family = rows.powered(parameters.powers), model._family(rows, np.ones(rows.n_columns))
        resampled = _resampled_groups(rows, parameters, family, n_resamples, codes, rng)
        fitted = fitted[: len(parameters.blocks.layout.distinct)]
    else:
        values = matrix(model, X, allow_missing=True, reset=False)
        if np.isnan(values).any():
            raise ValueError("X has missing values: use the stability of GaussianBiclustering(1), which takes them")
        codes = _unit_codes(units, len(values))
        resampled = _refitted_groups(model, X, counts(sample_weight, values, 2), n_resamples, codes, rng)
    total = n_resamples + n_refits
    with one_blas_thread():
        reported = _reported(resampled, 0, total, callback)
        stability = column_stability([Partition(labels) for labels in fitted], reported, column_names(model))
    if not n_refits or stability.n_resamples < n_resamples:  # an interrupt
        return stability
    refits = _refits(model, X, sample_weight, n_refits, codes, rng)
    z = model.predict_proba(X).astype(float)
    try:
        clusters, n_done = cluster_stability(model.predict(X), z, _reported(refits, n_resamples, total, callback))
    except KeyboardInterrupt:  # before the first refit
        return stability
    return replace(stability, clusters=clusters, n_refits=n_done)


def _refitted_groups(
    model: Any, X: Any, given: FloatArray | None, n: int, codes: IntArray, rng: np.random.Generator
) -> Iterator[list[Partition]]:
    """The column groups of a covariance in each of n resamples."""
    again = clone(model)
    for _ in range(n):
        weights = (1.0 if given is None else given) * _row_weights(codes, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield [again.fit(X, sample_weight=weights).partition_]


def quick_stability(model: Any, X: Any) -> Stability | None:
    """Resamples of the column groups alone, as many as take about five seconds; None for wider tables.

    A resample takes up to 1 µs per pair of columns and covariance, 8 µs with common factors. The number does not depend
    on a clock, so that the same fit has the same page.
    """
    labels = np.unique(np.atleast_2d(model.column_labels_), axis=0)
    is_mixture = hasattr(model, "weights_")
    blocks = model.blocks_ if is_mixture else (model.blocks_,)
    each = 8e-6 if any(block.common.size for block in blocks) else 1e-6
    n = next((n for n in QUICK if n * each * len(labels) * labels.shape[1] ** 2 <= _SECONDS), 0)
    if n == 0 or not hasattr(model, "stability") or labels.shape[1] < 2:
        return None
    if not is_mixture and np.isnan(np.asarray(X, dtype=float)).any():  # that of a covariance takes complete rows
        return None
    stability: Stability = model.stability(X, n, **({"n_refits": 0} if is_mixture else {}), random_state=0)
    return stability


def least_stable(
    model: Any,
    X: Any,
    sample_weight: ArrayLike | None,
    n_refits: int,
    on_iteration: Callable[[loop.Progress], object] | None = None,
) -> float:
    """Stability of the least stable cluster of a mixture, from refits, which are reported like iterations."""
    G = len(model.weights_)
    if G == 1:
        return 1.0
    if not rows_to_score(model, X, sample_weight).is_array:
        raise ValueError("stability=True needs rows in memory: leave it out, or give a sample of the rows")
    rng = np.random.default_rng(check_random_state(model.random_state).randint(2**31 - 1))
    labels, objective, refits = model.predict(X), float(model.log_likelihood_trace_[-1]), list[IntArray]()
    for refit in _refits(model, X, sample_weight, n_refits, np.arange(len(labels)), rng):
        refits.append(refit)
        if on_iteration is not None:
            on_iteration(loop.Progress(f"refit {len(refits)} of {n_refits}", len(refits), objective))
    clusters, _ = cluster_stability(labels, np.eye(G)[labels], refits)
    return min(cluster.stability for cluster in clusters if cluster.rows)


def drawn_like(model: Any, X: FloatArray, seed: int) -> FloatArray:
    """A table like X, shape (N, p), whose rows in each component of a mixture are normal, or their powers are.

    They have the whole covariance of the rows of the component: correlations that few rows hide from the model would
    otherwise be taken for clusters. Missing values stay where they are, and columns of repeated values have values of
    theirs.
    """
    rng, missing, labels = np.random.RandomState(seed), np.isnan(X), model.row_labels_
    drawn, complete = np.empty_like(X), X
    if missing.any():  # filled with draws given the values of the row
        for g in np.unique(labels).tolist():
            drawn[labels == g] = model._sample_component(g, int((labels == g).sum()), rng)
        complete = model.impute(X) + drawn - model.impute(np.where(missing, np.nan, drawn))
    powers = model._parameters.powers
    complete = complete if powers is None else powers.of(complete)
    for g in np.unique(labels).tolist():
        part = complete[labels == g]
        mean, n = part.mean(axis=0), len(part)
        drawn[labels == g] = mean + rng.standard_normal((n, n)) @ (part - mean) / np.sqrt(n)
    drawn = drawn if powers is None else powers.inverse(drawn)
    for j in model.resolution_.columns.tolist():
        values = np.unique(X[~missing[:, j], j])
        drawn[:, j] = values[np.searchsorted((values[1:] + values[:-1]) / 2, drawn[:, j])]
    return np.where(missing, np.nan, drawn)


def _reported(items: Iterable[T], done: int, total: int, callback: Progress | None) -> Iterator[T]:
    """The items, each reported after it has been used."""
    for number, item in enumerate(items, start=done + 1):
        yield item
        if callback is not None:
            callback(number, total)


def _refits(
    model: Any, X: Any, sample_weight: ArrayLike | None, n: int, codes: IntArray, rng: np.random.Generator
) -> Iterator[IntArray]:
    """Labels of the rows after refits to random weights, each the best from the fitted clustering and fresh starts.

    There are as many fresh starts as the fit had: with fewer, the solution that won among many would seem stable only
    because the refits look for others less thoroughly.
    """
    given = 1.0 if sample_weight is None else np.asarray(sample_weight, dtype=float)
    fitted = np.maximum(model.predict_proba(X), np.finfo(np.float32).tiny)  # so that no component is without rows
    for _ in range(n):
        weights = given * _row_weights(codes, rng)
        warm = clone(model).set_params(init=fitted)
        fresh = clone(model).set_params(init="kmeans", random_state=int(rng.integers(2**31)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ends = [candidate.fit(X, sample_weight=weights) for candidate in (warm, fresh)]
        if any(end.outcome_ == loop.Outcome.INTERRUPTED.value for end in ends):
            raise KeyboardInterrupt
        # A fit with a component of too few rows comes last, whatever its objective.
        yield min(ends, key=lambda end: (len(end.few_rows_), -float(end.log_likelihood_trace_[-1]))).row_labels_


def _unit_codes(units: ArrayLike | None, n_rows: int) -> IntArray:
    """Number of the unit of each row; by default each row is one of its own."""
    if units is None:
        return np.arange(n_rows)
    given = np.asarray(units)
    if given.shape != (n_rows,):
        raise ValueError(f"units has shape {given.shape}: give one unit for each of the {n_rows} rows")
    if any(unit is None or unit != unit for unit in given.tolist()):
        raise ValueError("units has missing values: give each row a unit, such as a number of its own")
    codes: IntArray = np.unique(given, return_inverse=True)[1]
    if codes.max() == 0:
        raise ValueError("all rows are of one unit: at least two are needed to reweight them at random")
    return codes


def _row_weights(codes: IntArray, rng: np.random.Generator) -> FloatArray:
    """One random weight per row, shape (N,); rows of one unit share it."""
    return np.asarray(_draw(1, int(codes.max()) + 1, rng)[0, codes])


def _draw(n_resamples: int, n_units: int, rng: np.random.Generator) -> FloatArray:
    """Random weights of mean 1 of each unit in each resample: Gamma(2) over their mean, shape (resamples, units)."""
    weights = rng.standard_gamma(2, (n_resamples, n_units))
    return np.asarray(weights / weights.mean(axis=1, keepdims=True))


def _resampled_groups(
    rows: Any, parameters: Parameters, family: BlockFamily, n: int, codes: IntArray, rng: np.random.Generator
) -> Iterator[list[Partition]]:
    """The column groups of each distinct covariance of standardized rows in each of n resamples.

    Rows with the same code share a weight.
    """
    n_covariances, z = len(parameters.blocks.layout.distinct), None
    if rows.has_missing:
        # Filled by the fitted blocks, missing values would confirm these.
        z, parameters = parameters, family.in_coarser_blocks(rows, parameters)
    size, n_buckets = n_covariances * rows.n_columns**2, min(BUCKETS, int(codes.max()) + 1)
    if n_buckets * size > _NUMBERS and rows.is_array:
        # Statistics of buckets would take more memory than many passes take time.
        for _ in range(n):
            weights = rows.weights * _row_weights(codes, rng)
            yield family.proposals(full_scatter(replace(rows, weights=weights), parameters, z=z), parameters)
        return
    n_buckets = min(n_buckets, max(_LEAST_BUCKETS, _NUMBERS // size))
    settings = {"n": n_covariances, "z": z, "codes": codes, "n_buckets": n_buckets}
    buckets = rows.map_sum(partial(_chunk_buckets, density=parameters.density(rows.has_missing), **settings))
    names = [field.name for field in fields(Statistics) if getattr(buckets[0], field.name) is not None]
    stacked = {name: np.stack([getattr(bucket, name) for bucket in buckets]) for name in names}
    step = max(1, _NUMBERS // size)
    for start in range(0, n, step):
        weights = _draw(min(step, n - start), n_buckets, rng)
        summed = {name: np.tensordot(weights, values, 1) for name, values in stacked.items()}
        for b in range(len(weights)):
            statistics = Statistics(**{name: values[b] for name, values in summed.items()})
            yield family.proposals(statistics, parameters)


def _chunk_buckets(
    chunk: Chunk, density: Density, n: int, z: Parameters | None, codes: IntArray, n_buckets: int
) -> Any:
    """Statistics of the buckets of a chunk, with full scatters of n covariances; an array of objects, which adds up.

    Rows are spread over buckets by a hash of their number or unit.
    """
    number = codes[chunk.place]
    bucket = number if number.max() < n_buckets else (number * 2654435761 % 2**32) % n_buckets
    parts, components = (np.flatnonzero(bucket == b) for b in range(n_buckets)), range(len(density.level))
    return np.array([chunk_scatter(chunk.take(part), density, n, components, z) for part in parts], dtype=object)
