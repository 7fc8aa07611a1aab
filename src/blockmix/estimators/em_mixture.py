"""RacedMixture: a mixture that is fitted by EM from several starts, of which the best is kept (paper, section 3).

A subclass brings its model of the components and how to climb from a start; the checks, the starts, the race, what is
kept of it and what the user is told of it follow here.
"""

from __future__ import annotations

import math
import os
import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from blockmix.em.block.e_step import posterior
from blockmix.em.convergence import Outcome
from blockmix.em.loop import Ascent, Callback
from blockmix.em.multistart import Progress, Runner, race
from blockmix.em.starts.annealing import critical_eigenvalues
from blockmix.em.starts.starts import STARTS, distinct, given, start
from blockmix.em.starts.starts import portfolio as portfolio_of
from blockmix.estimators.base import Mixture, Scorer, most_probable
from blockmix.estimators.stored_values import VALUES
from blockmix.estimators.validation import rows_to_fit
from blockmix.persistence.checkpoint import Checkpoint
from blockmix.plotting import likelihood_trace
from blockmix.rows import Chunk, Rows, one_blas_thread
from blockmix.structure.columns import column_names, refuse_constant
from blockmix.structure.types import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Of rows that do not lie in memory so many, and so many numbers, are sampled for the start.
_SAMPLE_ROWS = 20_000
_SAMPLE_NUMBERS = 2**24


class RacedMixture(Mixture):
    """A mixture fitted from several starts.

    `_parameters` are those of the last fit; it has ``weights``, ``means`` and what the subclass needs.
    """

    n_column_groups: Any
    tol: float
    max_iter: int
    n_init: int
    init: str | ArrayLike
    warm_start: bool
    n_jobs: int | None
    verbose: int
    checkpoint: str | os.PathLike[str] | None = None
    _parameters: Any

    @abstractmethod
    def _model(self, rows: Rows) -> Any:
        """What is fitted, from the constructor's parameters, checked, for standardized rows."""

    @abstractmethod
    def _climb(
        self, rows: Rows, begin: Any, model: Any, max_iter: int, hear: Callback | None, keep: Any = None
    ) -> Ascent:
        """EM from responsibilities (N, G), from parameters or from a waypoint to its end; `keep` is told waypoints."""

    @abstractmethod
    def _resumed(self, rows: Rows, model: Any) -> Any:
        """The parameters of the last fit, whose number of components and columns is right, or None if they do not suit.

        Then EM begins with their responsibilities.
        """

    @abstractmethod
    def _first(self, rows: Rows, z: FloatArray) -> Any:
        """The M-step from responsibilities (N, G) of rows in memory, for the model of these rows."""

    @abstractmethod
    def _adopt(self, parameters: Any, rows: Rows) -> None:
        """Take over parameters that fit the rows in the units of the fit."""

    @abstractmethod
    def _degenerate(self, parameters: Any, rows: Rows, model: Any) -> list[str]:
        """What is wrong with components that have no rows, or too few."""

    def fit(
        self,
        X: Any,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        callback: Callable[[Progress], object] | None = None,
    ) -> Self:
        """Fit the mixture to the rows of X, shape (N, p).

        X is an array, a data frame, a sparse matrix, or something that need not be in memory: the path of a `.npy` or
        Parquet file or of a folder of Parquet files, `blockmix.rows.Parquet`, a `numpy.memmap`, a Dask array or data
        frame, or a function that returns the chunks anew at each call.

        A weight of 2 counts a row twice. `callback` is told of every iteration. An interrupt (Ctrl-C) ends the fit
        with the best parameters so far.
        """
        self._check_parameters()
        rows = rows_to_fit(self, X, sample_weight)
        refuse_constant(rows.location, rows.scale**2, column_names(self))
        model = self._model(rows)
        rows = self._in_units(rows)
        kept = None if self.checkpoint is None else Checkpoint(self.checkpoint, self, rows, VALUES)
        with one_blas_thread():
            runners = self._race(rows, model, self._teller(callback, _shift(rows)), kept)
            self._keep(runners, rows)
            found = self._warnings(runners[0].ascent, rows, model)
        if kept is not None and runners[0].ascent.outcome not in (Outcome.INTERRUPTED, Outcome.ITERATION_LIMIT):
            kept.remove()
        self.warnings_ = [str(warning) for warning in found]
        for warning in found:
            warnings.warn(warning, stacklevel=2)
        return self

    def _in_units(self, rows: Rows) -> Rows:
        """The standardized rows, in the units of the fit."""
        return rows

    def _race(
        self, rows: Rows, model: Any, tell: Callable[[Progress], object] | None, kept: Checkpoint | None
    ) -> list[Runner]:
        def run(begin: Any, max_iter: int, hear: Callback | None, leg: str) -> Ascent:
            if kept is None:
                return self._climb(rows, begin, model, max_iter, hear)

            def keep(here: Any) -> None:
                # A copy of the trace, which grows: another start may write it between a value and its parameters.
                kept.write(leg, replace(here, trace=list(here.trace)))

            return self._climb(rows, kept.state(leg) or begin, model, max_iter, hear, keep)

        portfolio = isinstance(self.init, str) and self.init == "portfolio"
        return race(self._starts(rows, model, portfolio), run, self.max_iter, self.n_jobs, tell, portfolio)

    def _starts(self, rows: Rows, model: Any, portfolio: bool) -> list[tuple[str, Any]]:
        rng = check_random_state(self.random_state)
        sample = rows.sample(max(self.n_components, min(_SAMPLE_ROWS, _SAMPLE_NUMBERS // rows.n_columns)), rng)

        def begun(z: FloatArray) -> Any:
            # Where the rows do not fit in memory EM begins with the M-step of the sample.
            return z if sample.n_rows == rows.n_rows else self._first(sample, z)

        shape = (self.n_components, rows.n_columns)
        if self.warm_start and hasattr(self, "_parameters") and self._parameters.means.shape == shape:
            resumed = self._resumed(rows, model)
            return [("warm", begun(self._responsibilities(sample)) if resumed is None else resumed)]
        if not isinstance(self.init, str):
            if sample.n_rows < rows.n_rows:
                return [("given", given(self.init, rows.n_rows, self.n_components, rows.location.dtype))]
            return [("given", start(self.init, sample.X, sample.weights, self.n_components, rng))]
        standard = (sample.X - sample.location) / sample.scale
        kinds = (portfolio_of(*standard.shape) if portfolio else [self.init]) * self.n_init
        kinds = kinds if self.n_components > 1 else kinds[:1]  # one component has one start, whatever it is called
        self.__dict__.pop("critical_ratio_", None)  # of an earlier fit
        if "annealed" in kinds:
            leading = critical_eigenvalues(standard, sample.weights)
            self.critical_ratio_ = float(leading[0] / leading[1]) if len(leading) > 1 else np.inf
        different, weights, place = distinct(standard, sample.weights, self.n_components)
        return [
            (f"{kind} {i}", begun(start(kind, different, weights, self.n_components, rng)[place]))
            for i, kind in enumerate(kinds, start=1)
        ]

    def _responsibilities(self, rows: Rows) -> FloatArray:
        """Probabilities of the components of the last fit, shape (N, G)."""
        scorer = self._scorer()
        return np.concatenate([z.T for z in rows.plain().map(lambda chunk: posterior(scorer(chunk.values))[0])])

    def _keep(self, runners: list[Runner], rows: Rows) -> None:
        best, shift = runners[0].ascent, _shift(rows)
        self._adopt(best.parameters, rows)
        self.log_likelihood_trace_ = np.array(best.trace) - shift
        self.n_iter_ = len(best.trace)
        self.converged_ = best.outcome is Outcome.CONVERGED
        self.starts_ = [(r.name, r.ascent.trace[-1] - shift, len(r.ascent.trace)) for r in runners]
        # Not the end of the trace: at the iteration limit the parameters are one step ahead of it.
        scorer = self._scorer()
        labels, likelihoods = zip(*rows.plain().map(lambda chunk: _ending(chunk, scorer)), strict=True)
        self.row_labels_ = np.concatenate(labels, dtype=np.intp if rows.is_array else np.int32)
        self.log_likelihood_ = math.fsum(likelihoods)

    def _warnings(self, best: Ascent, rows: Rows, model: Any) -> list[Warning]:
        """What the user is to be told of the fit."""
        messages = list(best.notes)
        if best.outcome is Outcome.INTERRUPTED:
            messages.append(f"interrupted after {self.n_iter_} iterations: the best parameters so far are kept")
        elif best.outcome is Outcome.ITERATION_LIMIT:
            messages.append(f"EM stopped at max_iter={self.max_iter} before it settled: raise max_iter or tol")
        degenerate = self._degenerate(best.parameters, rows, model)
        ended = Outcome.DEGENERATE if degenerate and best.outcome is not Outcome.INTERRUPTED else best.outcome
        self.outcome_ = ended.value
        return [ConvergenceWarning(message) for message in messages + degenerate]

    def plot_trace(self, *, ax: Axes | None = None) -> Axes:
        """The objective at each iteration of the winning start."""
        check_is_fitted(self)
        return likelihood_trace(self.log_likelihood_trace_, ax=ax)

    def _teller(
        self, callback: Callable[[Progress], object] | None, shift: float
    ) -> Callable[[Progress], object] | None:
        if not self.verbose and callback is None:
            return None

        def tell(standard: Progress) -> None:
            progress = replace(standard, objective=standard.objective - shift)
            if self.verbose > 1 or (self.verbose and progress.iteration == 0):
                print(f"{progress.start}: iteration {progress.iteration}, objective {progress.objective:.4f}")
            if callback is not None:
                callback(progress)

        return tell

    def _check_parameters(self) -> None:
        for name in ("n_components", "n_init", "max_iter"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name}={value!r} must be a whole number that is at least 1")
        self._check_number("tol")
        if not isinstance(self.checkpoint, (str, os.PathLike, type(None))):
            raise ValueError(f"checkpoint={self.checkpoint!r} must be None or the name of a file")
        if isinstance(self.init, str) and self.init not in (*STARTS, "portfolio"):
            names = ", ".join([*STARTS, "portfolio"])
            raise ValueError(f"init={self.init!r} must be one of {names}, or an array of labels or responsibilities")

    def _check_number(self, name: str) -> None:
        value = getattr(self, name)
        if not (isinstance(value, Real) and 0 <= float(value) < np.inf):
            raise ValueError(f"{name}={value!r} must be a number that is at least 0")


def _shift(rows: Rows) -> float:
    """By how much the log-likelihood of standardized rows exceeds that of the rows themselves."""
    return rows.total_weight * float(np.log(rows.scale).sum(dtype=float))


def _ending(chunk: Chunk, scorer: Scorer) -> tuple[IntArray, float]:
    """Most probable components of the rows of a chunk, and its log-likelihood."""
    joint = scorer(chunk.values)
    return most_probable(joint), float(chunk.weights.astype(float) @ posterior(joint)[1])
