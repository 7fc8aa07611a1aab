"""Stability of fitted estimators: the column groups and clusters of randomly weighed rows.

A fitted model and its rows come in; a `Stability` goes out. The model is not changed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from blockmix.em.block.parameters import Parameters
from blockmix.em.block.regroup import Proposer
from blockmix.em.block.resampling import draw, resampled_groups
from blockmix.em.convergence import Outcome
from blockmix.estimators.stability.measuring import cluster_stability, column_stability
from blockmix.estimators.stability.values import Stability
from blockmix.estimators.validation import check_whole, counts, matrix, rows_to_score
from blockmix.grouping.protocols import Grouping, Proposal, Rule
from blockmix.grouping.registry import as_rule
from blockmix.rows import Rows, one_blas_thread
from blockmix.structure.columns import column_names
from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray, IntArray, RandomState

# Gamma(2) weights have variance ½, so a weighed correlation varies as one of 2/3 as many rows does.
EFFECTIVE = 2 / 3

Progress = Callable[[int, int], object]


class EffectiveRows:
    """A rule for randomly weighed rows, which count as fewer.

    A test against chance must allow for the noise that the weights add: with the full number of rows it merges nearly
    everything in a wide table. A price of log N needs no correction.
    """

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    def choose(self, S: FloatArray, n_rows: float, grouping: Grouping, **others: Any) -> Proposal:
        """Let the rule choose for the effective number of rows."""
        return self.rule.choose(S, EFFECTIVE * n_rows, grouping, **others)


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
        found = column_stability(model._parameters.layout.distinct, resampled, names or column_names(model), progress)
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
    rows = matrix(model, X, gaps=True, reset=False)
    if np.isnan(rows).any():
        raise ValueError("X has missing values: use the stability of GaussianBiclustering(1), which takes them")
    given = counts(sample_weight, rows, 2)
    codes = _codes(units, len(rows))
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    own = np.ones(len(rows)) if given is None else given
    factor = EFFECTIVE if tests(model.n_groups) else 1.0

    def resampled() -> Iterator[list[Partition]]:
        again = clone(model)
        for _ in range(n_resamples):
            weights = factor * own * _row_weights(codes, len(rows), rng)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield [again.fit(X, sample_weight=weights).partition_]

    return column_stability([model.partition_], resampled(), column_names(model), _Counter(n_resamples, callback))


def tests(n_groups: object) -> bool:
    """Whether a number of groups is chosen by a test against chance."""
    return bool(getattr(as_rule(n_groups), "tests_against_chance", False))


def _resampled(
    model: Any, rows: Rows, n_resamples: int, codes: IntArray | None, rng: np.random.Generator
) -> Iterator[list[Partition]]:
    parameters = model._parameters.in_units(-rows.location / rows.scale, 1 / rows.scale)
    proposer: Proposer = model._family(rows, np.ones(rows.n_columns)).proposer
    rules = [EffectiveRows(cast(Rule, rule)) if tests(rule) else rule for rule in proposer.n_groups]
    return resampled_groups(rows, parameters, replace(proposer, n_groups=tuple(rules)), n_resamples, codes, rng)


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
    """Labels of the rows after refits to random weights, each the best of a warm start and fresh ones.

    There are as many fresh starts as the fit had: with fewer, the solution that won among many would seem stable only
    because the refits look for others less thoroughly.
    """
    own = np.ones(n_rows) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    for _ in range(n_refits):
        weights = own * _row_weights(codes, n_rows, rng)
        warm = deepcopy(model).set_params(warm_start=True, checkpoint=None, verbose=0)
        fresh = clone(model).set_params(
            warm_start=False, checkpoint=None, verbose=0, init="kmeans", random_state=int(rng.integers(2**31))
        )
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
