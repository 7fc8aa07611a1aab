"""Trials: one fit for each pair of a number of components and a number of column groups (paper, section 3.1).

A `Study` holds the rows, the estimator and the candidates; `run` returns a `SelectionRow` for each pair, with the
fitted model or the error that stopped it.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
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

# Catching warnings is not thread-safe. Fits run in processes, or one at a time where a joblib backend uses threads.
_warnings_lock = threading.Lock()


class SelectionWarning(UserWarning):
    """The choice may be wrong: it is at the edge of the candidates, or fits failed, degenerated or were interrupted."""


@dataclass(frozen=True, eq=False)
class SelectionRow:
    """One pair and its fit.

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

    def with_more(self, n_components: int | Iterable[int], n_column_groups: Any) -> Study:
        """The study with more candidates; duplicates are dropped."""
        numbers = [_number(item) for item in _listed(n_components)]
        groups = {_key(item): item for item in (*self.n_column_groups, *map(_candidate, _listed(n_column_groups)))}
        return replace(
            self,
            n_components=tuple(dict.fromkeys([*self.n_components, *numbers])),
            n_column_groups=tuple(groups.values()),
        )

    @property
    def pairs(self) -> list[tuple[int, Any]]:
        """All pairs; a candidate with one number per component goes with that many components only."""
        return [
            (G, K) for G in self.n_components for K in self.n_column_groups if not isinstance(K, tuple) or len(K) == G
        ]


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
    if isinstance(candidate, (int, str, tuple)):
        return candidate
    # Rules with equal settings are one candidate. Of a class itself no hash can be taken where it cannot be imported.
    return type(candidate), content(getattr(candidate, "__dict__", candidate))


def run(
    study: Study,
    known: Sequence[SelectionRow],
    n_jobs: int | None,
    callback: Callable[[SelectionProgress], object],
    on_iteration: Callable[[Progress], object] | None = None,
) -> tuple[list[SelectionRow], list[Warning]]:
    """Fit the pairs of a study that are not among the known rows.

    Returns
    -------
    rows : list of SelectionRow
        New rows, one per pair; fewer after an interrupt (Ctrl-C).
    notes : list of Warning
        Warnings of the fits, except those about convergence, which are part of the rows.
    """
    fitted = {(row.n_components, _key(row.n_column_groups)) for row in known}
    missing = [(G, K) for G, K in study.pairs if (G, _key(K)) not in fitted]
    rows: list[SelectionRow] = []
    notes: list[Warning] = []
    given = {"sample_weight": study.sample_weight, "callback": on_iteration}
    arguments = {name: value for name, value in given.items() if value is not None}
    # Processes, because small fits hold the interpreter lock: 24 fits of 178 × 13 took 1.8 s on one thread and on two.
    pool = Parallel(n_jobs=n_jobs, return_as="generator")
    jobs = (delayed(_fit)(study.prototype, G, K, study.X, arguments) for G, K in missing)
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
    prototype: Mixture, G: int, K: Any, X: ArrayLike, arguments: dict[str, Any]
) -> tuple[SelectionRow, list[Warning]]:
    """Row of one pair, and the warnings of its fit that are not about convergence."""
    model: Any = clone(prototype).set_params(n_components=G, n_column_groups=K)
    begin = time.perf_counter()
    with _warnings_lock, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            model.fit(X, **arguments)
            numbers = model._criteria(X, arguments.get("sample_weight"))
        except Exception as error:
            text = f"failed: {' '.join(str(error).split()) or type(error).__name__}"
            return SelectionRow(G, K, outcome=text, seconds=time.perf_counter() - begin), []
    seconds = time.perf_counter() - begin
    outcome = _outcome(model)
    if outcome == Outcome.INTERRUPTED.value:
        raise KeyboardInterrupt
    notes = [note.message for note in caught if isinstance(note.message, Warning)]
    texts = dict.fromkeys(str(note) for note in notes if isinstance(note, ConvergenceWarning))
    groups = tuple(int(labels.max()) + 1 for labels in model.column_labels_)
    outcome += f": {'; '.join(texts)}" if texts else ""
    row = SelectionRow(G, K, groups, int(model.n_parameters_), **numbers, seconds=seconds, outcome=outcome, model=model)
    return row, [note for note in notes if not isinstance(note, ConvergenceWarning)]


def _outcome(model: Any) -> str:
    default = Outcome.CONVERGED if getattr(model, "converged_", True) else Outcome.ITERATION_LIMIT
    return str(getattr(model, "outcome_", default.value))
