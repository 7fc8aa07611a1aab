"""EMMixture: a mixture fitted by EM from several starts (paper, section 3).

A subclass brings its family of mixtures and adopts the parameters; checks, starts, multistart, fitted attributes and
warnings follow here.
"""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, Generic, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from blockmix.em.convergence import Outcome
from blockmix.em.family import Family, P, S
from blockmix.em.loop import MIN_ROWS, Callback, LoopResult, LoopState, run
from blockmix.em.multistart import Progress, Start, StartResult, first_state, interrupted, multistart
from blockmix.em.starts.annealing import critical_eigenvalues
from blockmix.em.starts.auto import auto
from blockmix.em.starts.completion import completed
from blockmix.em.starts.given import given
from blockmix.em.starts.starts import STARTS, distinct, start
from blockmix.em.starts.starts import portfolio as portfolio_of
from blockmix.estimators.base import Mixture, Scorer, criterion_sums, most_probable, probabilities
from blockmix.estimators.cautions import CautionWarning, cautions
from blockmix.estimators.stored_values import VALUES
from blockmix.estimators.validation import check_whole, rows_to_fit
from blockmix.persistence.checkpoint import Checkpoint
from blockmix.plotting import likelihood_trace
from blockmix.rows import EXACT, ArrayRows, Chunk, Resolution, Rows, one_blas_thread
from blockmix.structure.columns import column_names, refuse_constant
from blockmix.structure.types import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Size of the sample that starts are made from where the rows are not in memory.
_SAMPLE_ROWS = 20_000
_SAMPLE_NUMBERS = 2**24
# Size of the part of the rows that the default start compares clusterings on.
_PART_ROWS = 2000
_PART_NUMBERS = 2**19

# More attributes of the rows of a chunk with these components, by name, each of shape (m,).
Describer = Callable[[Chunk, IntArray], dict[str, Any]]


class EMMixture(Mixture, Generic[P, S]):
    """A mixture fitted by EM from several starts."""

    n_column_groups: Any
    tol: float
    max_iter: int
    n_init: int
    init: str | ArrayLike
    warm_start: bool
    n_jobs: int | None
    verbose: int
    checkpoint: str | os.PathLike[str] | None
    rounding: bool
    _parameters: P

    @abstractmethod
    def _family(self, rows: Rows, variances: FloatArray) -> Family[P, S]:
        """The family that the constructor's parameters describe, for rows whose columns have these variances (p,)."""

    @abstractmethod
    def _resumed(self, rows: Rows, family: Family[P, S]) -> P | None:
        """The parameters of the last fit for these rows, or None if the settings no longer admit them."""

    @abstractmethod
    def _adopt(self, parameters: P, rows: Rows) -> None:
        """Take over parameters that fit the rows in the units of the fit."""

    @abstractmethod
    def _thin_message(self, g: int, count: float, parameters: P) -> str:
        """What is wrong with component g, which is thin and has `count` rows."""

    def _describer(self) -> Describer:
        """A function that returns attributes with one entry per row; it can be sent to other processes."""
        return _nothing

    def fit(
        self,
        X: Any,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        callback: Callable[[Progress], object] | None = None,
    ) -> Self:
        """Fit the mixture to the rows of X, shape (N, p).

        Parameters
        ----------
        X : array, data frame, sparse matrix, or rows that need not be in memory
            The path of a `.npy` or Parquet file or of a folder of Parquet files, `blockmix.rows.Parquet`, a
            `numpy.memmap`, a Dask array or data frame, or a function that returns all chunks at each call. NaN is a
            missing value where the model takes them.
        y : ignored
        sample_weight : array of shape (N,) or None
            A weight of 2 counts a row twice.
        callback : callable or None
            Gets a `Progress` after every iteration.

        Notes
        -----
        An interrupt (Ctrl-C) ends the fit with the best parameters so far, also while the rows are being labelled.
        """
        self._check_parameters()
        standardized = rows_to_fit(self, X, sample_weight)
        refuse_constant(standardized.location, standardized.scale**2, column_names(self), standardized.dtype)
        rows = self._in_units(standardized)
        rng = check_random_state(self.random_state)
        most = max(self.n_components, min(_SAMPLE_ROWS, _SAMPLE_NUMBERS // rows.n_columns))
        # An array is sampled for its resolution as a file is, and not for its start.
        same = deepcopy(rng) if rows.n_rows > most else rng
        sample = rows.sample(most, rng)
        some = sample.some(most, same)
        self.resolution_ = Resolution.of(sample.X[some], sample.weights[some]) if self.rounding else EXACT
        resolved: Any = rows.resolved(self.resolution_)
        rows, sample = resolved, resolved if sample is rows else sample.resolved(self.resolution_)
        variances = (standardized.scale / rows.scale) ** 2
        family = self._family(rows, variances)
        saved = None if self.checkpoint is None else Checkpoint(self.checkpoint, self, rows, VALUES)
        with one_blas_thread():
            starts = self._starts(rows, sample, family, variances, rng)
            results = self._multistart(rows, family, starts, self._reporter(callback, _shift(rows)), saved)
            try:
                found = self._keep(results, rows, family)
            except KeyboardInterrupt:  # the model is fitted: repeat the last pass; a second interrupt is not caught
                results = interrupted(results)
                found = self._keep(results, rows, family)
        if saved is not None and results[0].result.outcome not in (Outcome.INTERRUPTED, Outcome.ITERATION_LIMIT):
            saved.remove()
        self.warnings_ = [str(warning) for warning in found]
        for warning in found:
            warnings.warn(warning, stacklevel=2)
        return self

    def _in_units(self, rows: Rows) -> Rows:
        """The standardized rows, in the units of the fit."""
        return rows

    def _multistart(
        self,
        rows: Rows,
        family: Family[P, S],
        starts: list[Start[P]],
        report: Callable[[Progress], object] | None,
        saved: Checkpoint | None,
    ) -> list[StartResult[P]]:
        def run_loop(name: str, state: LoopState[P], max_iter: int, callback: Callback) -> LoopResult[P]:
            save = None
            if saved is not None:
                state, save = saved.state(name) or state, partial(saved.write, name)
            return run(family, rows, state, self.tol, max_iter, callback, save)

        return multistart(starts, run_loop, self.max_iter, self.n_jobs, report, self._is_portfolio)

    @property
    def _is_portfolio(self) -> bool:
        return isinstance(self.init, str) and self.init == "portfolio"

    def _starts(
        self,
        rows: Rows,
        sample: ArrayRows,
        family: Family[P, S],
        variances: FloatArray,
        rng: np.random.RandomState,
    ) -> list[Start[P]]:
        """Named starts; those of rows that are not in memory are made from a sample."""
        own = family if sample is rows else self._family(sample, variances)
        begin = partial(first_state, own, sample, family.loose(self.tol))
        if self.warm_start and hasattr(self, "_parameters") and self._parameters.means.shape == self._shape(rows):
            resumed = self._resumed(rows, family)
            if resumed is None:
                return [Start("warm", partial(begin, self._responsibilities(sample)))]
            return [Start("warm", partial(LoopState, resumed, family.loose(self.tol)))]
        if not isinstance(self.init, str):
            if rows.is_array:
                z: Any = start(self.init, sample.X, sample.weights, self.n_components, rng)
            else:
                z = given(self.init, rows.n_rows, self.n_components, rows.dtype)
            return [Start("given", partial(first_state, family, rows, family.loose(self.tol), z))]
        if self.init == "auto" and self.n_components > 1:
            return self._compared(rows, sample, variances, rng)
        kinds = (portfolio_of(rows.n_rows, rows.n_columns) if self._is_portfolio else [self.init]) * self.n_init
        kinds = kinds if self.n_components > 1 else ["kmeans"]  # one component has one start, whatever it is called
        standard = np.nan_to_num((sample.X - sample.location) / sample.scale)  # in a gap the mean of the column
        self._forecast(standard, sample.weights, kinds)
        different, weights, place = distinct(standard, sample.weights, self.n_components)
        return [
            Start(f"{kind} {i}", partial(begin, start(kind, different, weights, self.n_components, rng)[place]))
            for i, kind in enumerate(kinds, start=1)
        ]

    def _compared(
        self, rows: Rows, sample: ArrayRows, variances: FloatArray, rng: np.random.RandomState
    ) -> list[Start[P]]:
        """The default starts. Of many rows a part is fitted, and EM goes on from the best fit of it."""
        some = sample.some(max(_PART_ROWS, _PART_NUMBERS // rows.n_columns, self.n_components), rng)
        part = sample if isinstance(some, slice) else replace(sample, X=sample.X[some], weights=sample.weights[some])
        family = self._family(part, variances)
        tables, starts = completed(part), list[Start[P]]()
        for i in range(1, self.n_init + 1):
            for at, table in enumerate(tables):
                found = auto(family, part, table, self.n_components, self.tol, self.max_iter, rng)
                name = f"auto {i}" if at == 0 else f"auto {i}, regression"
                starts += [replace(start, name=f"{name}: {start.name}") for start in found]
        if part.n_rows == rows.n_rows:
            return starts
        best = self._multistart(part, family, starts, None, None)[0]
        if best.result.outcome is Outcome.INTERRUPTED:
            raise KeyboardInterrupt
        return [Start(best.name, partial(LoopState, best.result.state.parameters, family.loose(self.tol)))]

    def _shape(self, rows: Rows) -> tuple[int, int]:
        return self.n_components, rows.n_columns

    def _forecast(self, X: FloatArray, weights: FloatArray, kinds: list[str]) -> None:
        """Store how far annealed starts are expected to agree."""
        self.__dict__.pop("critical_ratio_", None)  # of an earlier fit
        if "annealed" in kinds:
            leading = critical_eigenvalues(X, weights)
            self.critical_ratio_ = float(leading[0] / leading[1]) if len(leading) > 1 else np.inf

    def _responsibilities(self, rows: Rows) -> FloatArray:
        """Probabilities of the components of the last fit, shape (N, G)."""
        return np.concatenate(list(rows.plain().map(partial(_probabilities, scorer=self._scorer()))))

    def _keep(self, results: list[StartResult[P]], rows: Rows, family: Family[P, S]) -> list[Warning]:
        """Store the best result and label the rows; returns warnings about the fit."""
        best, shift = results[0].result.state, _shift(rows)
        self._adopt(best.parameters, rows)
        self.log_likelihood_trace_ = np.array(best.trace) - shift
        self.n_iter_ = len(best.trace)
        self.converged_ = results[0].result.outcome is Outcome.CONVERGED
        self.starts_ = [(r.name, r.result.state.trace[-1] - shift, len(r.result.state.trace)) for r in results]
        # Not the end of the trace: at the iteration limit the parameters are one step ahead of it.
        ends = rows.plain().map(partial(_ending, scorer=self._scorer(), describe=self._describer()))
        labels, sums, others = zip(*ends, strict=True)
        for name in others[0]:
            setattr(self, name, np.concatenate([part[name] for part in others]))
        self.row_labels_ = np.concatenate(labels, dtype=np.intp if rows.is_array else np.int32)
        self._fit_sums = np.sum(sums, axis=0)
        self.log_likelihood_ = float(self._fit_sums[1])
        return self._warnings(results[0].result, rows, family)

    def _warnings(self, best: LoopResult[P], rows: Rows, family: Family[P, S]) -> list[Warning]:
        """Warnings about the fit; sets `outcome_`."""
        messages = list(best.state.notes)
        if best.outcome is Outcome.INTERRUPTED:
            messages.append(f"interrupted after {self.n_iter_} iterations: the best parameters so far are kept")
        elif best.outcome is Outcome.ITERATION_LIMIT:
            messages.append(f"EM stopped at max_iter={self.max_iter} before it converged: raise max_iter or tol")
        degenerate = self._degenerate(best.state.parameters, rows, family)
        ended = Outcome.DEGENERATE if degenerate and best.outcome is not Outcome.INTERRUPTED else best.outcome
        self.outcome_ = ended.value
        others = cautions(best.state.parameters, rows, self.log_likelihood_ + _shift(rows))
        if not degenerate:
            counts = best.state.parameters.weights * rows.total_weight
            others += [
                f"component {g} has {counts[g]:.1f} rows, too few to estimate its covariance: ask for fewer components"
                for g in family.thin(best.state.parameters)[:1]
            ]
        return [
            *(ConvergenceWarning(message) for message in messages + degenerate),
            *(CautionWarning(message) for message in others),
        ]

    def _degenerate(self, parameters: P, rows: Rows, family: Family[P, S]) -> list[str]:
        """Messages about components that have no rows, and about the first that has too few."""
        counts = parameters.weights * rows.total_weight
        messages = [
            f"component {g} has lost all rows: fewer components or another start may fit better"
            for g in np.flatnonzero(counts < MIN_ROWS)
        ]
        thin = [g for g in family.resting(parameters).tolist() if counts[g] >= MIN_ROWS]
        return messages + [self._thin_message(g, float(counts[g]), parameters) for g in thin[:1]]

    def plot_trace(self, *, ax: Axes | None = None) -> Axes:
        """Plot the objective at each iteration of the winning start."""
        check_is_fitted(self)
        return likelihood_trace(self.log_likelihood_trace_, ax=ax)

    def _reporter(
        self, callback: Callable[[Progress], object] | None, shift: float
    ) -> Callable[[Progress], object] | None:
        """What is called after each iteration, with the objective in the units of X."""
        if not self.verbose and callback is None:
            return None

        def report(standard: Progress) -> None:
            progress = replace(standard, objective=standard.objective - shift)
            if self.verbose > 1 or (self.verbose and progress.iteration == 0):
                print(f"{progress.start}: iteration {progress.iteration}, objective {progress.objective:.4f}")
            if callback is not None:
                callback(progress)

        return report

    def _check_parameters(self) -> None:
        for name in ("n_components", "n_init", "max_iter"):
            check_whole(name, getattr(self, name))
        self._check_number("tol")
        if not isinstance(self.checkpoint, (str, os.PathLike, type(None))):
            raise ValueError(f"checkpoint={self.checkpoint!r} must be None or the name of a file")
        if isinstance(self.init, str) and self.init not in ("auto", *STARTS, "portfolio"):
            names = ", ".join(["auto", *STARTS, "portfolio"])
            raise ValueError(f"init={self.init!r} must be one of {names}, or an array of labels or responsibilities")

    def _check_number(self, name: str) -> None:
        value = getattr(self, name)
        if not (isinstance(value, Real) and 0 <= float(value) < np.inf):
            raise ValueError(f"{name}={value!r} must be a number that is at least 0")


def _shift(rows: Rows) -> float:
    """By how much the log-likelihood of standardized rows exceeds that of the rows themselves."""
    if rows.observed is not None and rows.has_gaps:
        return float(rows.observed.columns @ np.log(rows.scale))
    return rows.total_weight * float(np.log(rows.scale).sum())


def _probabilities(chunk: Chunk, scorer: Scorer) -> FloatArray:
    return probabilities(scorer(chunk))


def _ending(chunk: Chunk, scorer: Scorer, describe: Describer) -> tuple[IntArray, FloatArray, dict[str, Any]]:
    """Most probable components of the rows of a chunk, its sums for the information criteria, and more attributes."""
    joint = scorer(chunk)
    labels = most_probable(joint)
    return labels, criterion_sums(joint, chunk.weights), describe(chunk, labels)


def _nothing(chunk: Chunk, labels: IntArray) -> dict[str, Any]:
    return {}
