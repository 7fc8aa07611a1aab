"""Fitting: how a mixture is fitted, which rows belong to its components, and what the fit warns of (paper, section 3).

`fit_by_em` reads as the algorithm: check, describe the rows, start, EM from every start, keep the best, warn. It is
what `Mixture.fit` calls, and the classifier with known classes.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from blockmix.em.loop import MIN_ROWS, Family, LoopResult, Outcome, Progress, Start, interrupted, multistart
from blockmix.estimators.answer import CLEAR
from blockmix.estimators.validation import check_whole, rows_to_fit
from blockmix.files.checkpoint import Checkpoint
from blockmix.partition import FloatArray, IntArray, refuse_constant
from blockmix.rows import EXACT, ArrayRows, Chunk, Resolution, Rows, one_blas_thread
from blockmix.starts.clusterings import plain_starts
from blockmix.starts.default import default_starts

# Size of the sample that starts are made from where the rows are not in memory.
_SAMPLE_ROWS = 20_000
_SAMPLE_NUMBERS = 2**24

WIDE = (
    "X has more columns than rows ({} and {}): the likelihood cannot tell which rows belong together, so the clusters "
    "are those of the start; compare with KMeans"
)

Scorer = Callable[[Chunk], FloatArray]  # log π_g f_g of the rows of a chunk, in the units of X, shape (m, G)


class FitWarning(UserWarning):
    """The fit ended well, but its clusters may not be what they seem."""


def fit_by_em(
    model: Any,
    X: Any,
    sample_weight: ArrayLike | None = None,
    callback: Callable[[Progress], object] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    known: tuple[IntArray, FloatArray] | None = None,
) -> None:
    """See `Mixture.fit`; rows in memory may have a known component each, or −1, (N,), and first z (N, G)."""
    _check_parameters(model)
    model._check_parameters()
    rng = check_random_state(model.random_state)
    with one_blas_thread():  # threads of BLAS would compete with those that read chunks
        rows, sample, variances = _described(model, X, sample_weight, rng)
        saved = None
        if checkpoint is not None:
            from blockmix.estimators.stored import VALUES  # loads what topics need

            saved = Checkpoint(checkpoint, model, rows, VALUES)
    family = model._family(rows, variances)
    # By how much the log-likelihood of standardized rows exceeds that of the rows themselves.
    values = rows.observed.columns if rows.observed is not None else np.full(rows.n_columns, rows.total_weight)
    shift = float(values @ np.log(rows.scale))
    report = None if callback is None else lambda p: callback(replace(p, objective=p.objective - shift))
    with one_blas_thread():
        make_family = partial(model._family, variances=variances)
        if known is not None:
            rows, z = rows.replace(known=known[0]), known[1].astype(rows.dtype)
            starts = [Start("known components", partial(family.first, rows, z, max(model.tol, family.loose)))]
        elif isinstance(model.init, str) and model.init == "auto" and model.n_components > 1:
            settings = model.n_components, model.n_init, model.tol, model.max_iter
            starts = default_starts(make_family, rows, sample, *settings, rng)
        else:
            given = sample if isinstance(model.init, str) else rows
            first = make_family(given)
            starts = plain_starts(model.init, first, given, model.n_components, model.n_init, model.tol, rng)
        results = multistart(starts, family, rows, model.tol, model.max_iter, report, saved)
        try:
            _keep(model, results, rows, shift)
        except KeyboardInterrupt:  # the model is fitted: repeat the last pass; a second interrupt is not caught
            results = interrupted(results)
            _keep(model, results, rows, shift)
    if saved is not None and results[0].outcome not in (Outcome.INTERRUPTED, Outcome.ITERATION_LIMIT):
        saved.remove()
    _warn(model, results[0], rows, family)


def _check_parameters(model: Any) -> None:
    """Refuse values that no mixture takes."""
    for name in ("n_components", "n_init", "max_iter"):
        check_whole(name, getattr(model, name))
    if not (isinstance(model.tol, Real) and 0 <= float(model.tol) < np.inf):
        raise ValueError(f"tol={model.tol!r} must be a number that is at least 0")
    if isinstance(model.init, str) and model.init not in ("auto", "kmeans"):
        raise ValueError(f"init={model.init!r} must be auto, kmeans, or an array of labels or responsibilities")


def _described(
    model: Any, X: Any, sample_weight: ArrayLike | None, rng: np.random.RandomState
) -> tuple[Rows, ArrayRows, FloatArray]:
    """Rows in the units of the fit, the sample of them that starts are made from, and the variances of its columns.

    The rows are checked, standardized and resolved: `resolution_` says how finely their values were recorded.
    """
    standardized = rows_to_fit(model, X, sample_weight)
    refuse_constant(standardized.location, standardized.scale**2, model, standardized.dtype)
    rows = standardized if model.standardize else standardized.replace(scale=np.ones_like(standardized.scale))
    size = max(model.n_components, min(_SAMPLE_ROWS, _SAMPLE_NUMBERS // rows.n_columns))
    sample = rows.sample(size, rng)
    model.resolution_ = Resolution.of(sample.X, sample.weights) if model._rounding else EXACT
    resolved: Any = rows.replace(resolution=model.resolution_)
    # The starts of an array are made from all of its rows.
    resolved_sample = resolved if rows.is_array else sample.replace(resolution=model.resolution_)
    return resolved, resolved_sample, (standardized.scale / rows.scale) ** 2


def _keep(model: Any, results: list[LoopResult[Any]], rows: Rows, shift: float) -> None:
    """Store the best result and label the rows."""
    best = results[0].state
    model._adopt(best.parameters, rows)
    model.log_likelihood_trace_ = np.array(best.trace) - shift
    model.n_iter_ = len(best.trace)
    model.converged_ = results[0].outcome is Outcome.CONVERGED
    model.starts_ = [(r.name, r.state.trace[-1] - shift, len(r.state.trace)) for r in results]
    # Not the end of the trace: at the iteration limit the parameters are one step ahead of it.
    plain = rows.replace(location=np.zeros_like(rows.location), scale=np.ones_like(rows.scale))
    labels, model._fit_sums, others = labelled_rows(model, plain)
    vars(model).update(others)
    model.row_labels_ = labels.astype(np.intp if rows.is_array else np.int32)
    model.log_likelihood_ = float(model._fit_sums[1])


def _warn(model: Any, best: LoopResult[Any], rows: Rows, family: Family[Any, Any]) -> None:
    """Set `outcome_` and `warnings_`, and warn."""
    parameters, messages = best.state.parameters, list(best.state.notes)
    if best.outcome is Outcome.INTERRUPTED:
        messages.append(f"interrupted after {model.n_iter_} iterations: the best parameters so far are kept")
    elif best.outcome is Outcome.ITERATION_LIMIT:
        messages.append(f"EM stopped at max_iter={model.max_iter} before it converged: raise max_iter or tol")
    model.few_rows_ = list(best.thin)
    counts = parameters.weights * rows.total_weight
    degenerate = [
        f"component {g} has lost all rows: fewer components or another start may fit better"
        for g in np.flatnonzero(counts < MIN_ROWS)
    ]
    resting = [g for g in family.resting(rows, parameters).tolist() if counts[g] >= MIN_ROWS] if best.thin else []
    degenerate += [model._thin_message(g, float(counts[g]), parameters) for g in resting[:1]]
    ended = Outcome.DEGENERATE if degenerate and best.outcome is not Outcome.INTERRUPTED else best.outcome
    model.outcome_ = ended.value
    others = model._warnings(best, rows, family)
    if not degenerate:
        missing = " with their missing values" if rows.has_missing else ""
        several = len(counts) > 1
        remedy = "ask for fewer components" if several else "give shrinkage=0.1"
        others += [
            f"component {g} has {counts[g]:.1f} rows, too few{missing} to trust its covariance: {remedy}"
            for g in (model.few_rows_ if several else family.thin(rows, parameters).tolist())[:1]
        ]
    model.warnings_ = [*messages, *degenerate, *others]
    for number, message in enumerate(model.warnings_):
        kind = ConvergenceWarning if number < len(messages) + len(degenerate) else FitWarning
        warnings.warn(kind(message), stacklevel=4)


def tells_rows_apart(model: Any) -> bool:
    """Whether probabilities and distances of rows mean something.

    With several components and more columns than rows a row is so near to its own component, whatever that is, that
    all probabilities are 0 and 1.
    """
    return len(getattr(model, "weights_", ())) < 2 or model.n_features_in_ <= len(model.row_labels_)


def most_probable(joint: FloatArray) -> IntArray:
    """Component with the largest log π_g f_g (m, G) of each row, in the smallest signed integer type, shape (m,)."""
    labels: IntArray = joint.argmax(axis=1).astype(np.min_scalar_type(-joint.shape[1]))
    return labels


def probabilities(joint: FloatArray) -> FloatArray:
    """Probability of each component from log π_g f_g, shape (m, G)."""
    return np.asarray(softmax(joint, axis=1))


def log_density(joint: FloatArray) -> FloatArray:
    """Log Σ_g π_g f_g from log π_g f_g, shape (m, G) to (m,); −inf for rows whose distances overflow."""
    density = np.asarray(logsumexp(joint, axis=1))
    return np.where(density > -np.finfo(float).max, density, -np.inf)


def in_component(
    chunk: Chunk, scorer: Scorer, function: Callable[[Chunk, IntArray, Any], Any], parameters: Any
) -> FloatArray:
    """A function of a chunk and the most probable components of its rows."""
    return np.asarray(function(chunk, most_probable(scorer(chunk)), parameters))


def labelled_rows(model: Any, rows: Rows) -> tuple[IntArray, FloatArray, dict[str, Any]]:
    """`labelled` of all rows, in the units of X."""
    describe = partial(model._describe, parameters=model._parameters) if model._describe else None
    with one_blas_thread():
        ends = rows.map(partial(labelled, scorer=model._scorer(), describe=describe))
        labels, sums, others = zip(*ends, strict=True)
    attributes = {name: np.concatenate([part[name] for part in others]) for name in others[0]}
    return np.concatenate(labels), np.sum(sums, axis=0), attributes


def labelled(
    chunk: Chunk, scorer: Scorer, describe: Callable[[Chunk, IntArray], dict[str, Any]] | None = None
) -> tuple[IntArray, FloatArray, dict[str, Any]]:
    """Most probable components of the rows of a chunk, its sums for the information criteria, and more attributes.

    The sums are weight, log-likelihood, Σ log of the largest probabilities, and the weight of the rows that are clear.
    """
    joint, weights = scorer(chunk), chunk.weights
    labels = joint.argmax(axis=1)
    top = np.take_along_axis(joint, labels[:, None], axis=1)[:, 0]
    rest = np.log(np.exp(joint - top[:, None]).sum(axis=1))  # what the others add to the most probable component
    counted = weights > 0  # −inf times 0 is NaN
    density = np.where(top > -np.finfo(float).max, top + rest, -np.inf)[counted]
    sums = np.array([weights.sum(), weights[counted] @ density, -weights @ rest, weights @ (rest <= -np.log(CLEAR))])
    small = labels.astype(np.min_scalar_type(-joint.shape[1]))
    return small, sums, {} if describe is None else describe(chunk, small)
