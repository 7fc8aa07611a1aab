"""Figures of stability from resampled column groups and refitted clusters.

Partitions and labels come in; a `Stability` goes out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.metrics.cluster import contingency_matrix
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from blockmix.em.block import BlockFamily
from blockmix.em.loop import Outcome
from blockmix.em.parameters import Parameters
from blockmix.em.resampling import draw, resampled_groups
from blockmix.estimators.stability import ClusterStability, GroupStability, Stability
from blockmix.estimators.validation import check_whole, counts, matrix, rows_to_score
from blockmix.partition import FloatArray, IntArray, Partition, RandomState, column_names
from blockmix.rows import Rows, one_blas_thread


def column_stability(
    fitted: Sequence[Partition],
    resampled: Iterable[Sequence[Partition]],
    names: Sequence[str],
    done: Callable[[], object],
) -> Stability:
    """Stability of the fitted groups of each covariance, given those of each resample.

    An interrupt ends the resamples early; those so far count.
    """
    p = len(names)
    together = np.zeros((len(fitted), p, p), dtype=np.float32)
    stays = np.zeros((len(fitted), p))
    counts = [np.zeros((3, partition.n_groups)) for partition in fitted]  # again, split, joined
    n_groups: list[list[int]] = []
    try:
        for found in resampled:
            for g, partition in enumerate(found):
                together[g] += partition.labels[:, None] == partition.labels
                group_stays, returned = _returned(fitted[g], partition)
                stays[g] += group_stays
                counts[g] += returned
            n_groups.append([int((partition.sizes > 1).sum()) for partition in found])
            done()
    except KeyboardInterrupt:
        if not n_groups:
            raise
    B = len(n_groups)
    together /= B
    stays /= B
    groups = [
        _group(g, columns, counts[g][:, k] / B, together[g], stays[g], names)
        for g, partition in enumerate(fitted)
        for k, columns in enumerate(partition.groups)
        if len(columns) > 1
    ]
    return Stability(tuple(groups), together, stays, np.array(n_groups).T, None, tuple(fitted), tuple(names))


def _returned(fitted: Partition, found: Partition) -> tuple[FloatArray, FloatArray]:
    """Whether each column stays with its group (p,), and whether each group is there again, split, joined (3, K)."""
    both = contingency_matrix(fitted.labels, found.labels)
    jaccard = both / (fitted.sizes[:, None] + found.sizes - both)
    nearest = jaccard.argmax(axis=1)
    split = (both > 0).sum(axis=1) > 1
    joined = ((both > 0) & (found.sizes > both)).any(axis=1)
    again = jaccard[np.arange(len(jaccard)), nearest] == 1
    return found.labels == nearest[fitted.labels], np.stack([again, split, joined])


def _group(
    g: int, columns: IntArray, shares: FloatArray, together: FloatArray, stays: FloatArray, names: Sequence[str]
) -> GroupStability:
    outside = np.setdiff1d(np.arange(len(names)), columns)
    mean = together[np.ix_(columns, outside)].mean(axis=0, dtype=float)
    best = int(mean.argmax()) if len(outside) and mean.max() > 0 else None
    again, split, joined = shares.tolist()
    return GroupStability(
        g,
        tuple(names[j] for j in columns),
        again,
        split,
        joined,
        None if best is None else names[outside[best]],
        0.0 if best is None else float(mean[best]),
        names[columns[stays[columns].argmin()]],
    )


def cluster_stability(labels: IntArray, z: FloatArray, refits: Iterable[IntArray]) -> tuple[ClusterStability, ...]:
    """Stability of the clusters with these labels (N,) and probabilities (N, G), given the labels of each refit."""
    G = z.shape[1]
    sizes = np.bincount(labels, minlength=G)
    found: list[FloatArray] = []
    try:
        for again in refits:
            both = np.bincount(labels * G + again, minlength=G * G).reshape(G, G)
            union = sizes[:, None] + np.bincount(again, minlength=G) - both
            found.append((both / np.maximum(union, 1)).max(axis=1))
    except KeyboardInterrupt:
        if not found:
            raise
    jaccard = np.stack(found)
    own = np.eye(G, dtype=bool)[labels]
    certainty = (z * own).sum(axis=0) / np.maximum(sizes + (z * ~own).sum(axis=0), 1e-300)
    return tuple(
        ClusterStability(
            g, int(sizes[g]), float(jaccard[:, g].mean()), float((jaccard[:, g] <= 0.5).mean()), float(certainty[g])
        )
        for g in range(G)
    )


Progress = Callable[[int, int], object]


def mixture_stability(
    model: Any,
    X: Any,
    n_resamples: int,
    n_refits: int,
    units: ArrayLike | None,
    sample_weight: ArrayLike | None,
    random_state: RandomState,
    callback: Progress | None,
    names: Sequence[str] | None = None,
) -> Stability:
    """Stability of the groups and clusters of a block mixture; see `GaussianBiclustering.stability`.

    `names` are those of the columns, if the mixture does not know them.
    """
    check_is_fitted(model)
    if not isinstance(model._parameters, Parameters):
        raise ValueError(
            f"the column groups of {type(model).__name__} follow from its factors and cannot be resampled: use "
            "GaussianBiclustering(block_model=1), or select(..., stability=True) for the clusters alone"
        )
    check_whole("n_resamples", n_resamples)
    check_whole("n_refits", n_refits, least=0)
    n_refits = n_refits if len(model.weights_) > 1 else 0  # one cluster is all rows, always
    rows = rows_to_score(model, X, sample_weight).measured()
    if n_refits and not rows.is_array:
        raise ValueError(
            f"n_refits={n_refits} needs rows in memory: give n_refits=0 to resample the column groups only"
        )
    if n_refits and rows.n_rows != len(model.row_labels_):
        raise ValueError(
            f"X has {rows.n_rows} rows, but the model was fitted to {len(model.row_labels_)}: give the rows of the fit,"
            " or n_refits=0"
        )
    codes = _codes(units, rows.n_rows)
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    progress = _Counter(n_resamples + n_refits, callback)
    with one_blas_thread():
        resampled = _resampled(model, rows, n_resamples, codes, rng)
        found = column_stability(
            model._parameters.blocks.layout.distinct, resampled, names or column_names(model), progress
        )
    if not n_refits or found.n_resamples < n_resamples:  # an interrupt
        return found
    refits = _refits(model, X, sample_weight, n_refits, codes, rows.n_rows, rng, progress)
    try:
        clusters = cluster_stability(model.predict(X), model.predict_proba(X).astype(float), refits)
    except KeyboardInterrupt:  # before the first refit
        return found
    return replace(found, clusters=clusters, n_refits=progress.done - n_resamples)


def least_stable(
    model: Any, X: Any, sample_weight: ArrayLike | None, n_refits: int, callback: Progress | None = None
) -> float:
    """Stability of the least stable cluster of a mixture fitted by EM, from refits to randomly weighed rows."""
    G = len(model.weights_)
    if G == 1:
        return 1.0
    if not rows_to_score(model, X, sample_weight).is_array:
        raise ValueError("stability=True needs rows in memory: leave it out, or give a sample of the rows")
    rng = np.random.default_rng(check_random_state(model.random_state).randint(2**31 - 1))
    labels = model.predict(X)
    refits = list(_refits(model, X, sample_weight, n_refits, None, len(labels), rng, _Counter(n_refits, callback)))
    found = cluster_stability(labels, np.eye(G)[labels], refits)
    return min(cluster.stability for cluster in found if cluster.rows)


def covariance_stability(
    model: Any,
    X: ArrayLike,
    n_resamples: int,
    units: ArrayLike | None,
    sample_weight: ArrayLike | None,
    random_state: RandomState,
    callback: Progress | None,
) -> Stability:
    """Stability of the groups of a covariance; see `BlockDiagonalCovariance.stability`."""
    check_is_fitted(model, "blocks_")
    check_whole("n_resamples", n_resamples)
    rows = matrix(model, X, allow_missing=True, reset=False)
    if np.isnan(rows).any():
        raise ValueError("X has missing values: use the stability of GaussianBiclustering(1), which takes them")
    given = counts(sample_weight, rows, 2)
    codes = _codes(units, len(rows))
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    own = np.ones(len(rows)) if given is None else given

    def resampled() -> Iterator[list[Partition]]:
        again = clone(model)
        for _ in range(n_resamples):
            weights = own * _row_weights(codes, len(rows), rng)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield [again.fit(X, sample_weight=weights).partition_]

    return column_stability([model.partition_], resampled(), column_names(model), _Counter(n_resamples, callback))


def _resampled(
    model: Any, rows: Rows, n_resamples: int, codes: IntArray | None, rng: np.random.Generator
) -> Iterator[list[Partition]]:
    parameters = model._parameters.in_units(-rows.location / rows.scale, 1 / rows.scale)
    family: BlockFamily = model._family(rows, np.ones(rows.n_columns))
    return resampled_groups(rows, parameters, family, n_resamples, codes, rng)


def _refits(
    model: Any,
    X: Any,
    sample_weight: ArrayLike | None,
    n_refits: int,
    codes: IntArray | None,
    n_rows: int,
    rng: np.random.Generator,
    done: Callable[[], object],
) -> Iterator[IntArray]:
    """Labels of the rows after refits to random weights, each the best from the fitted clustering and fresh starts.

    There are as many fresh starts as the fit had: with fewer, the solution that won among many would seem stable only
    because the refits look for others less thoroughly.
    """
    own = np.ones(n_rows) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    fitted = np.maximum(model.predict_proba(X), np.finfo(np.float32).tiny)  # so that no component is without rows
    for _ in range(n_refits):
        weights = own * _row_weights(codes, n_rows, rng)
        warm = clone(model).set_params(init=fitted)
        fresh = clone(model).set_params(init="kmeans", random_state=int(rng.integers(2**31)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ends = [candidate.fit(X, sample_weight=weights) for candidate in (warm, fresh)]
        if any(end.outcome_ == Outcome.INTERRUPTED.value for end in ends):
            raise KeyboardInterrupt
        done()
        yield max(ends, key=_quality).row_labels_


def _quality(end: Any) -> tuple[bool, float]:
    """A fit with a component of too few rows comes last, whatever its objective."""
    return end.outcome_ != Outcome.DEGENERATE.value, float(end.log_likelihood_trace_[-1])


def _row_weights(codes: IntArray | None, n_rows: int, rng: np.random.Generator) -> FloatArray:
    weights: FloatArray = draw(1, n_rows if codes is None else int(codes.max()) + 1, rng)[0]
    return weights if codes is None else weights[codes]


def _codes(units: ArrayLike | None, n_rows: int) -> IntArray | None:
    """Number of the unit of each row, or None if each row is one of its own."""
    if units is None:
        return None
    given = np.asarray(units)
    if given.shape != (n_rows,):
        raise ValueError(f"units has shape {given.shape}: give one unit for each of the {n_rows} rows")
    if any(unit is None or unit != unit for unit in given.tolist()):
        raise ValueError("units has missing values: give each row a unit, such as a number of its own")
    names, codes = np.unique(given, return_inverse=True)
    if len(names) < 2:
        raise ValueError("all rows are of one unit: at least two are needed to weigh them at random")
    return np.asarray(codes)


class _Counter:
    """Counts what is done and reports it."""

    def __init__(self, total: int, callback: Progress | None) -> None:
        self.total, self.done, self.callback = total, 0, callback

    def __call__(self) -> None:
        self.done += 1
        if self.callback is not None:
            self.callback(self.done, self.total)
