"""Selection: which numbers of components and column groups, and which kind of model, suit the data (section 3.1).

`select` fits every candidate and returns a table of the information criteria, which holds the fitted models and can be
printed, plotted and extended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import has_fit_parameter

from blockmix.em.multistart import Progress
from blockmix.estimators.base import Mixture
from blockmix.estimators.biclustering import GaussianBiclustering
from blockmix.plotting import selection_curve
from blockmix.selection.caveats import warn
from blockmix.selection.trials import KINDS, SelectionProgress, SelectionRow, Study, run
from blockmix.structure.extras import needed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
