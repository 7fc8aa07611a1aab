"""Trials: one fit for each candidate: numbers of components and column groups, kind of model (paper, section 3.1).

A `Study` holds the rows, the estimator and the candidates; `run` returns a `SelectionRow` for each, with the fitted
model or the error that stopped it.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import product
from numbers import Integral
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from joblib import hash as content
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from blockmix.em.convergence import Outcome
from blockmix.em.multistart import Progress
from blockmix.estimators.base import Mixture
from blockmix.estimators.stability.resampling import least_stable

# Catching warnings is not thread-safe. Fits run in processes, or one at a time where a joblib backend uses threads.
_warnings_lock = threading.Lock()


# Parameters of an estimator of which several values can be compared.
KINDS = ("shared_covariance", "tails", "block_model", "model")
REFITS = 20  # of each candidate, for its stability


class SelectionWarning(UserWarning):
    """The choice may be wrong: it is at the edge of the candidates, or fits failed, degenerated or were interrupted."""


@dataclass(frozen=True, eq=False)
class SelectionRow:
    """One candidate and its fit.

    Attributes
    ----------
    n_components : int
    n_column_groups : int, tuple of ints, str or rule
        The candidate as given.
    groups : tuple of int
        Number of column groups of each fitted component.
    n_parameters : int or None
    log_likelihood, bic, icl, aic : float
        NaN for a fit that failed. Smaller criteria are better.
    seconds : float
        Duration of the fit.
    outcome : str
        How the fit ended, with its ConvergenceWarnings, or "failed" with the error.
    model : fitted estimator or None
    kind : dict
        Values of the parameters that were compared, such as ``{"tails": "t"}``.
    least_stable : float
        The lowest stability of a cluster; NaN if it was not asked for.
    """

    n_components: int
    n_column_groups: Any
    groups: tuple[int, ...] = ()
    n_parameters: int | None = None
    log_likelihood: float = np.nan
    bic: float = np.nan
    icl: float = np.nan
    aic: float = np.nan
    seconds: float = np.nan
    outcome: str = ""
    model: Any = field(default=None, repr=False)
    kind: dict[str, Any] = field(default_factory=dict)
    least_stable: float = np.nan

    def value(self, criterion: str) -> float:
        """The criterion of this name."""
        found: float = getattr(self, criterion)
        return found

    @property
    def asked(self) -> str:
        """Column groups and kind of model as text, such as "auto, tails=t"."""
        kind = (f"{name}={value}" for name, value in self.kind.items())
        return ", ".join([" ".join(str(self.n_column_groups).split()), *kind])

    @property
    def key(self) -> Any:
        """What distinguishes this candidate from others."""
        return _key((self.n_components, self.n_column_groups, self.kind))

    @property
    def degenerate(self) -> bool:
        """Whether the likelihood of the fit rests on a penalty, because a component has too few rows."""
        return self.outcome.partition(":")[0] == Outcome.DEGENERATE.value


@dataclass(frozen=True)
class SelectionProgress:
    """Argument of the callback after each fit: the number of fits done, the number of all fits, and the new row."""

    done: int
    total: int
    row: SelectionRow


@dataclass(frozen=True, eq=False)
class Study:
    """The rows, the estimator and the candidates."""

    X: ArrayLike
    sample_weight: ArrayLike | None
    prototype: Mixture
    n_components: tuple[int, ...]
    n_column_groups: tuple[Any, ...]
    kinds: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    stability: bool = False

    def with_more(self, n_components: int | Iterable[int], n_column_groups: Any, kinds: dict[str, Any]) -> Study:
        """The study with more candidates; duplicates are dropped."""
        numbers = [_number(item) for item in _listed(n_components)]
        return replace(
            self,
            n_components=tuple(dict.fromkeys([*self.n_components, *numbers])),
            n_column_groups=_different((*self.n_column_groups, *map(_candidate, _listed(n_column_groups)))),
            kinds={
                name: _different((*self._known(name), *_listed(kinds.get(name, ())))) for name in self._named(kinds)
            },
        )

    def _named(self, kinds: dict[str, Any]) -> list[str]:
        return [name for name in KINDS if name in self.kinds or name in kinds]

    def _known(self, name: str) -> tuple[Any, ...]:
        """The values of a parameter so far; the estimator's own if none were compared, and there were candidates."""
        own = (getattr(self.prototype, name),) if self.n_components else ()
        return self.kinds.get(name, own)

    def complete(self, kind: dict[str, Any]) -> dict[str, Any]:
        """A kind with the values of parameters that were not compared when it was fitted."""
        return {name: kind.get(name, getattr(self.prototype, name)) for name in self.kinds}

    @property
    def candidates(self) -> list[SelectionRow]:
        """All combinations, as rows without a fit.

        One number of column groups per component goes with that many components only, and one component has a shared
        covariance either way.
        """
        kinds = [dict(zip(self.kinds, values, strict=True)) for values in product(*self.kinds.values())]
        return [
            SelectionRow(G, K, kind=kind)
            for kind in kinds
            for G in self.n_components
            for K in self.n_column_groups
            if not isinstance(K, tuple) or len(K) == G
            if G > 1 or not kind.get("shared_covariance") or False not in self.kinds["shared_covariance"]
        ]


def _different(candidates: Iterable[Any]) -> tuple[Any, ...]:
    return tuple({_key(item): item for item in candidates}.values())


def _listed(given: Any) -> list[Any]:
    return [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)


def _number(given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, Integral) or int(given) < 1:
        raise ValueError(f"n_components={given!r} must be a whole number that is at least 1, or several of them")
    return int(given)


def _candidate(given: Any) -> Any:
    """A number as an int, one number per component as a tuple, anything else as given."""
    if isinstance(given, Integral) and not isinstance(given, bool):
        return int(given)
    if isinstance(given, Iterable) and not isinstance(given, str):
        return tuple(_candidate(item) for item in given)
    return given


def _key(candidate: Any) -> Any:
    if isinstance(candidate, dict):
        return tuple((name, _key(value)) for name, value in candidate.items())
    if isinstance(candidate, tuple):
        return tuple(map(_key, candidate))
    if isinstance(candidate, (int, str)):
        return type(candidate), candidate  # True is not 1
    # Rules with equal settings are one candidate. Of a class itself no hash can be taken where it cannot be imported.
    return type(candidate), content(getattr(candidate, "__dict__", candidate))


def run(
    study: Study,
    known: Sequence[SelectionRow],
    n_jobs: int | None,
    callback: Callable[[SelectionProgress], object],
    on_iteration: Callable[[Progress], object] | None = None,
) -> tuple[list[SelectionRow], list[Warning]]:
    """Fit the candidates of a study that are not among the known rows.

    Returns
    -------
    rows : list of SelectionRow
        New rows, one per candidate; fewer after an interrupt (Ctrl-C).
    notes : list of Warning
        Warnings of the fits, except those about convergence, which are part of the rows.
    """
    fitted = {_key((row.n_components, row.n_column_groups, study.complete(row.kind))) for row in known}
    missing = [row for row in study.candidates if row.key not in fitted]
    rows: list[SelectionRow] = []
    notes: list[Warning] = []
    given = {"sample_weight": study.sample_weight, "callback": on_iteration}
    arguments = {name: value for name, value in given.items() if value is not None}
    # Processes, because small fits hold the interpreter lock: 24 fits of 178 × 13 took 1.8 s on one thread and on two.
    pool = Parallel(n_jobs=n_jobs, return_as="generator")
    jobs = (delayed(_fit)(study.prototype, row, study.X, arguments, study.stability) for row in missing)
    try:
        with closing(pool(jobs)) as fits:
            for done, (row, others) in enumerate(fits, start=1):
                rows.append(row)
                notes += others
                callback(SelectionProgress(done, len(missing), row))
    except KeyboardInterrupt:
        if not rows and not known:
            raise
        text = f"interrupted after {len(rows)} of {len(missing)} fits: extend() of the table continues"
        notes.append(SelectionWarning(text))
    return rows, notes


def _fit(
    prototype: Mixture, candidate: SelectionRow, X: ArrayLike, arguments: dict[str, Any], stability: bool
) -> tuple[SelectionRow, list[Warning]]:
    """Row of one candidate, and the warnings of its fit that are not about convergence."""
    settings = {"n_components": candidate.n_components, "n_column_groups": candidate.n_column_groups, **candidate.kind}
    model: Any = clone(prototype).set_params(**settings)
    begin = time.perf_counter()
    least = np.nan
    with _warnings_lock, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            model.fit(X, **arguments)
            numbers = model._criteria(X, arguments.get("sample_weight"))
            seconds = time.perf_counter() - begin
            if stability and _outcome(model) != Outcome.INTERRUPTED.value:
                refitted = _refit_reporter(model, arguments.get("callback"))
                least = least_stable(model, X, arguments.get("sample_weight"), REFITS, refitted)
        except Exception as error:
            text = f"failed: {' '.join(str(error).split()) or type(error).__name__}"
            return replace(candidate, outcome=text, seconds=time.perf_counter() - begin), []
    outcome = _outcome(model)
    if outcome == Outcome.INTERRUPTED.value:
        raise KeyboardInterrupt
    notes = [note.message for note in caught if isinstance(note.message, Warning)]
    texts = dict.fromkeys(str(note) for note in notes if isinstance(note, ConvergenceWarning))
    found: dict[str, Any] = {
        "groups": tuple(int(labels.max()) + 1 for labels in model.column_labels_),
        "n_parameters": int(model.n_parameters_),
        "outcome": outcome + (f": {'; '.join(texts)}" if texts else ""),
    }
    row = replace(candidate, **found, **numbers, seconds=seconds, model=model, least_stable=least)
    return row, [note for note in notes if not isinstance(note, ConvergenceWarning)]


def _refit_reporter(
    model: Any, on_iteration: Callable[[Progress], object] | None
) -> Callable[[int, int], object] | None:
    """Callback of the refits, which reports them like iterations; None without a listener."""
    if on_iteration is None:
        return None
    objective = float(model.log_likelihood_trace_[-1])
    return lambda done, total: on_iteration(Progress(f"refit {done} of {total}", done, objective))


def _outcome(model: Any) -> str:
    default = Outcome.CONVERGED if getattr(model, "converged_", True) else Outcome.ITERATION_LIMIT
    return str(getattr(model, "outcome_", default.value))
