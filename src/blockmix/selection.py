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
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from joblib import hash as content
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import has_fit_parameter

from blockmix.em.loop import Outcome, Progress
from blockmix.estimators.gaussian import GaussianBiclustering
from blockmix.estimators.mixture import Mixture
from blockmix.estimators.resampling import least_stable
from blockmix.plotting import selection_curve
from blockmix.rows.files import needed

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
            numbers = model._criteria(model._sums(X, arguments.get("sample_weight")))
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


Rows = Sequence[SelectionRow]


def warn(rows: Rows, best: SelectionRow | None, criterion: str, notes: list[Warning]) -> None:
    """Pass on the warnings of the fits, and warn of reasons why the best row may not be the best."""
    interrupted = any(isinstance(note, SelectionWarning) for note in notes)
    caveats = [] if interrupted else [SelectionWarning(text) for text in _caveats(rows, best, criterion)]
    for note in (*notes, *caveats):
        warnings.warn(note, stacklevel=3)


def _caveats(rows: Rows, best: SelectionRow | None, criterion: str) -> list[str]:
    """Reasons why the best row may not be the best."""
    if best is None:
        return [f"none of the {len(rows)} fits succeeded; the first {rows[0].outcome}"]
    found = []
    if best.degenerate:
        # The outcome names the component and the remedy, which depend on the estimator.
        found.append(f"all fits are degenerate, so their criteria say little; the best is {best.outcome}")
    found += [*_thin(rows, best, criterion), *_heavy(rows, best, criterion)]
    N, p = len(best.model.row_labels_), best.model.n_features_in_
    for name, limit in (("n_components", N), ("n_column_groups", p)):
        chosen = getattr(best, name)
        values = {getattr(row, name) for row in rows if isinstance(getattr(row, name), int)}
        if len(values) < 2 or chosen not in (min(values), max(values)) or chosen in (1, limit):
            continue
        beyond = (chosen + 1, min(chosen + 4, limit + 1)) if chosen == max(values) else (max(1, chosen - 3), chosen)
        found.append(
            f"the smallest {criterion} is at {name}={chosen}, the edge of {min(values)} … {max(values)} tried: "
            f"try more, by extend({name}=range({beyond[0]}, {beyond[1]})) of the table"
        )
    return found


def _thin(rows: Rows, best: SelectionRow, criterion: str) -> list[str]:
    """A warning if candidates that rest on a penalty were passed over."""
    passed = [row for row in rows if row.degenerate and row.value(criterion) < best.value(criterion)]
    if not passed:
        return []
    return [
        f"{len(passed)} of {len(rows)} candidates have a smaller {criterion} than the best, but components "
        f"with too few rows, so their {criterion} means nothing; the first is {passed[0].outcome}"
    ]


def _heavy(rows: Rows, best: SelectionRow, criterion: str) -> list[str]:
    """A warning if t components are preferred to normal ones."""
    if best.kind.get("tails") != "t":
        return []
    normal = [row.value(criterion) for row in rows if row.model is not None and row.model.tails == "normal"]
    if not normal:
        return []
    return [
        f'tails="t" has the smallest {criterion}, {best.value(criterion):.1f} against {min(normal):.1f}: some rows '
        "are far away, or the clusters are not normal. See outliers_ of the model, and count clusters with care: "
        f"{criterion} may pay for their tails with more clusters"
    ]


CRITERIA = ("bic", "icl", "aic")

STABILITY_NOTE = (
    "least stable: stability of the least stable cluster. A low value shows that there is one cluster too many. "
    "Nothing here shows that there is one too few."
)
_WIDTH = 60  # characters of the outcome in the printed table


@dataclass(frozen=True, eq=False)
class SelectionTable:
    """The fitted candidates, in the order of fitting, and the best of them.

    Attributes
    ----------
    rows : tuple of SelectionRow
    criterion : {"bic", "icl", "aic"}
    """

    rows: tuple[SelectionRow, ...]
    criterion: str
    _study: Study = field(repr=False)

    @property
    def best_(self) -> SelectionRow:
        """The row with the smallest criterion; a degenerate fit only if all are.

        The likelihood of a degenerate fit grows as the ridge shrinks, so its criterion is meaningless: on 24 rows of
        20 columns two components had BIC 64, one had 1967.
        """
        fitted = [row for row in self.rows if np.isfinite(self._value(row))]
        if not fitted:
            raise ValueError(f"none of the {len(self.rows)} fits succeeded; the first {self.rows[0].outcome}")
        return min([row for row in fitted if not row.degenerate] or fitted, key=self._value)

    @property
    def best_estimator_(self) -> Any:
        """The fitted model of the best row."""
        return self.best_.model

    @property
    def with_stability(self) -> bool:
        """Whether the rows have a least stable cluster."""
        return self._study.stability

    @property
    def models(self) -> list[Any]:
        """The fitted model of each row, None where the fit failed."""
        return [row.model for row in self.rows]

    def extend(
        self,
        n_components: int | Iterable[int] = (),
        n_column_groups: Any = (),
        *,
        n_jobs: int | None = None,
        callback: Callable[[SelectionProgress], object] | None = None,
        verbose: int = 0,
        **kinds: Any,
    ) -> SelectionTable:
        """Return a table with more candidates: all pairs of old and new ones, of which only the new are fitted.

        More kinds of models are given as to `select`, such as ``tails="t"``.
        """
        if unknown := set(kinds) - set(KINDS):
            raise TypeError(f"extend takes {', '.join(KINDS)}, not {', '.join(sorted(unknown))}: call select instead")
        study = self._study.with_more(n_components, n_column_groups, kinds)
        rows, notes = run(study, self.rows, n_jobs, _reporter(callback, verbose, self.criterion))
        table = SelectionTable((*self.rows, *rows), self.criterion, study)
        warn(table.rows, table._best_or_none(), table.criterion, notes)
        return table

    def plot(self, *, criterion: str | None = None, ax: Axes | None = None) -> Axes:
        """Plot the criterion over the numbers of components and column groups, with the best marked."""
        return selection_curve(self, criterion=criterion, ax=ax)

    def to_frame(self) -> Any:
        """The table as a pandas data frame, one row per candidate; `best` marks the best."""
        pandas = needed("pandas", "app")
        frame = pandas.DataFrame([vars(row) for row in self.rows]).drop(columns=["model", "kind"])
        for at, name in enumerate(self._study.kinds):
            frame.insert(2 + at, name, [self._study.complete(row.kind)[name] for row in self.rows])
        if not self.with_stability:
            frame = frame.drop(columns="least_stable")
        frame["n_parameters"] = frame["n_parameters"].astype("Int64")  # missing where the fit failed
        frame["best"] = [row is self._best_or_none() for row in self.rows]
        return frame

    def __str__(self) -> str:
        best = self._best_or_none()
        kinds, stability = list(self._study.kinds), ["least stable"] if self.with_stability else []
        head = ["", "n_components", "n_column_groups", *kinds, "groups", "parameters", *CRITERIA, *stability]
        head += ["seconds", "outcome"]
        lines = [head, *(self._cells(row, row is best) for row in self.rows)]
        widths = [*(max(len(line[j]) for line in lines) for j in range(len(head) - 1)), 0]
        text = ["  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in lines]
        return "\n".join([*text, *self._footnote(best)])

    __repr__ = __str__

    def _footnote(self, best: SelectionRow | None) -> list[str]:
        if best is None:
            return []
        smaller = [row for row in self.rows if self._value(row) < self._value(best)]
        found = f"* smallest {self.criterion}" + (" of the fits that are not degenerate" if smaller else "")
        return [found, STABILITY_NOTE] if self.with_stability else [found]

    def _cells(self, row: SelectionRow, best: bool) -> list[str]:
        """Cells of one line of the printed table."""
        fitted = row.model is not None
        least = "-" if np.isnan(row.least_stable) else f"{row.least_stable:.2f}"
        return [
            "*" if best else "",
            str(row.n_components),
            _written(row.n_column_groups),
            *map(_written, self._study.complete(row.kind).values()),
            _short(",".join(map(str, row.groups)), 24) or "-",
            str(row.n_parameters) if fitted else "-",
            *(f"{getattr(row, name):.1f}" if fitted else "-" for name in CRITERIA),
            *([least] if self.with_stability else []),
            f"{row.seconds:.2f}",
            _short(row.outcome),
        ]

    def _best_or_none(self) -> SelectionRow | None:
        try:
            return self.best_
        except ValueError:
            return None

    def _value(self, row: SelectionRow) -> float:
        return row.value(self.criterion)


def select(
    X: ArrayLike,
    n_components: int | Iterable[int] = range(1, 6),
    n_column_groups: Any = "auto",
    *,
    criterion: str = "bic",
    estimator: Mixture | None = None,
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
    callback: Callable[[SelectionProgress], object] | None = None,
    on_iteration: Callable[[Progress], object] | None = None,
    stability: bool = False,
    verbose: int = 0,
    **params: Any,
) -> SelectionTable:
    """Fit all combinations of a number of components, a number of column groups and a kind of model; compare them.

    Parameters
    ----------
    X : array-like of shape (N, p)
        The rows. The table keeps a reference, so that it can be extended.
    n_components : int or iterable of int
        Candidates for the number of row clusters.
    n_column_groups : one candidate or an iterable of candidates, default="auto"
        A candidate is what the estimator accepts: an int, a rule or its name, or a sequence with one int per component.
        A list, tuple, range or array is always a list of candidates, so a sequence goes inside it: ``[(2, 3)]``. It is
        fitted only with as many components as it has numbers.
    criterion : {"bic", "icl", "aic"}
        The best pair has the smallest value; the table has all three.
    estimator : Mixture, default=GaussianBiclustering()
        The estimator, which is cloned.
    sample_weight : array-like of shape (N,), optional
        A weight of 2 counts a row twice, in the fits and in the criteria.
    n_jobs : int or None
        Number of processes. Starting them takes seconds, which does not pay on small data.
    callback : callable, optional
        Called with a `SelectionProgress` after each fit.
    on_iteration : callable, optional
        Called with the `Progress` of each iteration, and of each refit of `stability`; only without `n_jobs`.
    stability : bool, default=False
        Also refit each candidate 20 times to randomly weighed rows and show the stability of its least stable cluster:
        it shows whether one cluster is too many, not whether one is missing. The rows must be in memory.
    verbose : int, default=0
        1 prints a line after each fit.
    **params
        Parameters of the estimator. A list for `shared_covariance`, `tails`, `block_model` or `model` (of
        FactorBiclustering) is a list of candidates, each tried with all numbers. All fits have the same `random_state`;
        a RandomState or None is turned into an int first, so that every model in the table can be reproduced. With more
        columns than rows, several numbers of components are compared with ``shared_covariance=[False, True]`` unless it
        is given here.

    Returns
    -------
    SelectionTable
        A fit that fails is a row with its error. An interrupt (Ctrl-C) ends the selection with the rows so far.

    Warns
    -----
    SelectionWarning
        The best candidate is at the edge, so a better one may lie beyond (not at 1 or at as many groups as columns);
        candidates with a smaller criterion rest on components of too few rows; or t components are preferred.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 4)) + np.repeat(rng.standard_normal((200, 2)), 2, axis=1)
    >>> X[:100] += 6
    >>> table = select(X, [1, 2, 3], random_state=0)
    >>> table.best_.n_components, table.best_.groups
    (2, (2, 2))
    """
    if criterion not in CRITERIA:
        raise ValueError(f"criterion={criterion!r} must be one of {', '.join(CRITERIA)}")
    kinds = {name: params.pop(name) for name in KINDS if isinstance(params.get(name), (list, tuple))}
    prototype = _prototype(estimator, params)
    if "shared_covariance" not in {*kinds, *params} and _is_wide(X) and not isinstance(n_components, Integral):
        # There components with covariances of their own pay for more parameters than their rows can earn.
        kinds |= {"shared_covariance": [False, True]} if getattr(prototype, "shared_covariance", True) is False else {}
    if unknown := [name for name in kinds if name not in prototype.get_params()]:
        raise ValueError(f"{type(prototype).__name__} has no parameter {unknown[0]}")
    if sample_weight is not None and not has_fit_parameter(prototype, "sample_weight"):
        raise ValueError(f"{type(prototype).__name__} takes no sample_weight: leave it out or choose another estimator")
    study = Study(X, sample_weight, prototype, (), (), stability=stability)
    study = study.with_more(n_components, n_column_groups, kinds)
    if not study.candidates:
        raise ValueError(
            f"n_components={list(study.n_components)} and n_column_groups={list(study.n_column_groups)} make no pair: "
            "give at least one of each, and sequences of column groups as many numbers as there are components"
        )
    if on_iteration is not None and n_jobs not in (None, 1):
        raise ValueError(f"on_iteration is not called from the processes of n_jobs={n_jobs}: leave one of them out")
    rows, notes = run(study, (), n_jobs, _reporter(callback, verbose, criterion), on_iteration)
    table = SelectionTable(tuple(rows), criterion, study)
    warn(table.rows, table._best_or_none(), table.criterion, notes)
    return table


def _is_wide(X: Any) -> bool:
    """Whether an array or data frame has more columns than rows."""
    shape: tuple[int, ...] = getattr(X, "shape", ())
    return len(shape) == 2 and bool(shape[1] > shape[0])


def _prototype(estimator: Mixture | None, params: dict[str, Any]) -> Mixture:
    if estimator is not None and not isinstance(estimator, Mixture):
        raise TypeError(f"estimator={estimator!r} must be a mixture such as GaussianBiclustering()")
    prototype: Mixture = clone(GaussianBiclustering() if estimator is None else estimator).set_params(**params)
    if getattr(prototype, "checkpoint", None) is not None:
        raise ValueError(
            f"checkpoint={prototype.checkpoint!r} belongs to one fit, but select makes several: leave it out"
        )
    # The same seed for all pairs, so that a row depends neither on other rows nor on their order.
    if not isinstance(prototype.random_state, Integral):
        seed = int(check_random_state(prototype.random_state).randint(np.iinfo(np.int32).max))
        prototype.set_params(random_state=seed)
    return prototype


def _reporter(
    callback: Callable[[SelectionProgress], object] | None, verbose: int, criterion: str
) -> Callable[[SelectionProgress], object]:
    def report(progress: SelectionProgress) -> None:
        if verbose:
            row = progress.row
            tried = {"n_components": row.n_components, "n_column_groups": row.n_column_groups, **row.kind}
            pair = ", ".join(f"{name}={_written(value)}" for name, value in tried.items())
            value = f"{criterion} {getattr(row, criterion):.1f}"
            print(f"{progress.done} of {progress.total}: {pair}: {value}, {row.seconds:.2f} s, {_short(row.outcome)}")
        if callback is not None:
            callback(progress)

    return report


def _written(candidate: Any) -> str:
    return ",".join(map(str, candidate)) if isinstance(candidate, tuple) else " ".join(str(candidate).split())


def _short(text: str, width: int = _WIDTH) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
