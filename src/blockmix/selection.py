"""Selection: one fit for each number of components and column groups and each kind of model (paper, section 3.1).

`select` fits all combinations and returns a `SelectionTable`, which prints, extends and plots, and knows the candidate
with the smallest BIC, ICL or AIC.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from html import escape
from itertools import product
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from blockmix.em.loop import Outcome, Progress
from blockmix.estimators.answer import answer
from blockmix.estimators.gaussian import GaussianBiclustering
from blockmix.estimators.mixture import FitWarning, Mixture
from blockmix.estimators.resampling import drawn_like, least_stable
from blockmix.partition import FloatArray
from blockmix.plotting import selection_curve
from blockmix.rows.files import needed
from blockmix.starts.pooled import likelier_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CRITERIA = ("bic", "icl", "aic")
# Parameters of an estimator of which several values can be compared.
KINDS = ("shared_covariance", "tails", "block_model", "model")
REFITS = 20  # of each candidate, for its stability
# Tables up to this size are drawn from a model with fewer components where the criterion prefers more by little: there
# the criterion alone finds two clusters in a third of the tables of pure noise.
_DRAWN_ROWS, _DRAWN_NUMBERS = 100, 20_000
_DRAWS = 39  # which a true gain exceeds: 1 in 40 by chance
_CLEAR = 30.0  # difference of a criterion that needs no draws
_LEVEL = 6.0  # difference of a criterion below which models are called level
STABILITY_NOTE = (
    "least stable: stability of the least stable cluster. A low value shows that there is one cluster too many. "
    "Nothing here shows that there is one too few."
)


class SelectionWarning(UserWarning):
    """The choice may be wrong: it is at the edge of the candidates, or fits failed, degenerated or were interrupted."""


@dataclass(frozen=True, eq=False)
class SelectionRow:
    """One candidate and its fit; a fit that failed has NaN for its numbers and no model.

    Attributes
    ----------
    n_components, n_column_groups
        The candidate as given.
    groups : tuple of int
        Number of column groups of each fitted component.
    n_parameters, log_likelihood, bic, icl, aic, seconds, model
        Smaller criteria are better.
    outcome : str
        How the fit ended, with its ConvergenceWarnings, or "failed" with the error.
    few_rows : bool
        Whether one of several components has hardly more rows than its covariance needs.
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
    few_rows: bool = False
    model: Any = field(default=None, repr=False)
    kind: dict[str, Any] = field(default_factory=dict)
    least_stable: float = np.nan

    @property
    def degenerate(self) -> bool:
        """Whether the likelihood of the fit rests on a penalty, because a component has too few rows."""
        return self.outcome.partition(":")[0] == Outcome.DEGENERATE.value

    @property
    def sound(self) -> bool:
        """Whether the criteria of the fit can be compared with those of others: each component has enough rows."""
        return not (self.degenerate or self.few_rows)


@dataclass(frozen=True)
class SelectionProgress:
    """Argument of the callback after each fit: numbers of fits done and of all fits, and the new row."""

    done: int
    total: int
    row: SelectionRow


@dataclass(frozen=True, eq=False)
class _Search:
    """The rows, the estimator, and the candidates for the value of each parameter."""

    X: ArrayLike
    sample_weight: ArrayLike | None
    prototype: Mixture[Any, Any]
    stability: bool
    choices: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def extended(self, **more: Any) -> _Search:
        """The search with more candidates; duplicates are dropped."""
        choices = {}
        for name in (*KINDS, "n_components", "n_column_groups"):
            if name not in self.choices and name not in more:
                continue
            # Earlier fits have the value of the estimator.
            values = list(self.choices.get(name, (getattr(self.prototype, name),) if self.choices else ()))
            new = more.get(name, ())
            for value in [new] if isinstance(new, str) or not isinstance(new, Iterable) else new:
                if isinstance(value, Iterable) and not isinstance(value, str):  # one number per component
                    value = tuple(int(number) if isinstance(number, np.integer) else number for number in value)
                values.append(int(value) if isinstance(value, np.integer) else value)
            # Rules with equal settings are one candidate, and True is not 1. The first is kept: earlier rows have it.
            keys = [(type(value), repr(getattr(value, "__dict__", value))) for value in values]
            choices[name] = tuple(value for i, value in enumerate(values) if keys.index(keys[i]) == i)
        for G in choices["n_components"]:
            if isinstance(G, bool) or not isinstance(G, Integral) or int(G) < 1:
                raise ValueError(f"n_components={G!r} must be a whole number that is at least 1, or several of them")
        return replace(self, choices=choices)


@dataclass(frozen=True, eq=False)
class SelectionTable:
    """The fitted candidates, in the order of fitting, and the best of them by a criterion."""

    rows: tuple[SelectionRow, ...]
    criterion: str
    _search: Any = field(default=None, repr=False)
    _simpler: SelectionRow | None = None  # that the best one by the criterion is not better than, but for chance

    @property
    def best_(self) -> SelectionRow:
        """The row with the smallest criterion; one with a component of too few rows only if all others are so too.

        The likelihood of a degenerate fit grows as the ridge shrinks, so its criterion is meaningless: on 24 rows of
        20 columns two components had BIC 64, one had 1967. That of a component with hardly more rows than its
        covariance needs rests on chance: noise of 12 rows and 8 columns had two clusters or more in 4 of 5 tables.
        Of up to 100 rows, fewer components are preferred to more if tables that are drawn from them show the same gain.
        """
        best = self._best_or_none()
        if best is None:
            raise ValueError(f"none of the {len(self.rows)} fits succeeded; the first {self.rows[0].outcome}")
        return best

    def _best_or_none(self) -> SelectionRow | None:
        return self._smallest() if self._simpler is None else self._simpler

    def _smallest(self) -> SelectionRow | None:
        fitted = [row for row in self.rows if np.isfinite(getattr(row, self.criterion))]
        sound = [row for row in fitted if row.sound] or [row for row in fitted if not row.degenerate] or fitted
        return min(sound, key=lambda row: getattr(row, self.criterion), default=None)

    @property
    def best_estimator_(self) -> Any:
        """The fitted model of the best row."""
        return self.best_.model

    @property
    def with_stability(self) -> bool:
        """Whether the least stable cluster of the candidates is known."""
        return any(not np.isnan(row.least_stable) for row in self.rows)

    @property
    def models(self) -> list[Any]:
        """The fitted model of each row, None where the fit failed."""
        return [row.model for row in self.rows]

    def extend(
        self,
        n_components: int | Iterable[int] = (),
        n_column_groups: Any = (),
        *,
        callback: Callable[[SelectionProgress], object] | None = None,
        **kinds: Any,
    ) -> SelectionTable:
        """Return a table with more candidates: all pairs of old and new ones, of which only the new are fitted.

        More kinds of models are given as to `select`, such as ``tails="t"``.
        """
        if unknown := set(kinds) - set(KINDS):
            raise TypeError(f"extend takes {', '.join(KINDS)}, not {', '.join(sorted(unknown))}: call select instead")
        search = self._search.extended(n_components=n_components, n_column_groups=n_column_groups, **kinds)
        earlier = {name: getattr(search.prototype, name) for name in KINDS if name in search.choices}
        rows = [replace(row, kind=earlier | row.kind) for row in self.rows]
        return _compare(search, rows, self.criterion, callback)

    def plot(self, *, criterion: str | None = None, ax: Axes | None = None) -> Axes:
        """Plot the criterion over the numbers of components and column groups, with the best marked."""
        return selection_curve(self, criterion=criterion, ax=ax)

    def to_frame(self) -> Any:
        """The table as a pandas data frame, one row per candidate; `best` marks the best."""
        pandas, best = needed("pandas", "app"), self._best_or_none()
        frame = pandas.DataFrame([vars(row) for row in self.rows]).drop(columns=["model", "kind", "few_rows"])
        for place, name in enumerate(self.rows[0].kind, start=2):
            frame.insert(place, name, [row.kind[name] for row in self.rows])
        frame["n_parameters"] = frame["n_parameters"].astype("Int64")  # missing where the fit failed
        frame["best"] = [row is best for row in self.rows]
        return frame if self.with_stability else frame.drop(columns="least_stable")

    def __str__(self) -> str:
        best, stability = self._best_or_none(), ["least stable"] if self.with_stability else []
        head = ["", "n_components", "n_column_groups", *self.rows[0].kind, "groups", "parameters", *CRITERIA]
        lines = [[*head, *stability, "seconds", "outcome"]]
        for row in self.rows:
            numbers = [str(row.n_parameters), *(f"{getattr(row, name):.1f}" for name in CRITERIA)]
            numbers = ["-"] * len(numbers) if row.model is None else numbers
            least = ["-" if np.isnan(row.least_stable) else f"{row.least_stable:.2f}"] * len(stability)
            cells = [row.n_components, row.n_column_groups, *row.kind.values(), row.groups or "-", row.outcome]
            words = [",".join(map(str, cell)) if isinstance(cell, tuple) else str(cell) for cell in cells]
            *asked, groups, outcome = [" ".join(word.split()) for word in words]
            groups, outcome = (s if len(s) <= n else s[: n - 1] + "…" for s, n in ((groups, 24), (outcome, 60)))
            mark = "*" if row is best else ""
            lines.append([mark, *asked, groups, *numbers, *least, f"{row.seconds:.2f}", outcome])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        widths[-1] = 0  # the outcome is not padded
        text = ["  ".join(map(str.rjust, line, widths)) for line in lines]
        if best is not None:
            text.append(f"* {self._reason()}")
            text += [STABILITY_NOTE] if stability else []
        return "\n".join(text)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The answer of the best candidate, and the candidates, for a notebook."""
        best, lines = self._best_or_none(), f"<pre>{escape(str(self))}</pre>"
        return lines if best is None or best.model is None else answer(best.model, table=self).html(lines)

    def _reason(self) -> str:
        """Why the best row is the best, in one sentence."""
        best, smallest, name = self.best_, self._smallest(), self.criterion
        value = getattr(best, name)
        if self._simpler is not None and smallest is not None:
            less = value - getattr(smallest, name)
            text = f"{smallest.n_components} components have a smaller {name} by {less:.1f}, but tables drawn from the"
            return f"{text} model of {best.n_components} show as much by chance"
        smaller = any(getattr(row, name) < value for row in self.rows)
        text = f"smallest {name}" + (" of the fits with enough rows in each component" if smaller else "")
        level = [row for row in self.rows if row.sound and row is not best and getattr(row, name) < value + _LEVEL]
        if level:
            other = min(level, key=lambda row: float(getattr(row, name)))
            kind = "".join(f", {key}={item}" for key, item in other.kind.items())
            text += f"; {other.n_components} components{kind} are level ({getattr(other, name) - value:+.1f})"
        return text


def select(
    X: ArrayLike,
    n_components: int | Iterable[int] = range(1, 6),
    n_column_groups: Any = "auto",
    *,
    criterion: str = "bic",
    estimator: Mixture[Any, Any] | None = None,
    sample_weight: ArrayLike | None = None,
    callback: Callable[[SelectionProgress], object] | None = None,
    on_iteration: Callable[[Progress], object] | None = None,
    stability: bool = False,
    **params: Any,
) -> SelectionTable:
    """Fit all combinations of a number of components, a number of column groups and a kind of model; compare them.

    Parameters
    ----------
    X : array-like of shape (N, p)
        The rows. The table keeps a reference, so that it can be extended.
    n_components : int or iterable of int
    n_column_groups : one candidate or an iterable of candidates, default="auto"
        A candidate is what the estimator accepts. A list, tuple, range or array is always a list of candidates, so one
        int per component goes inside it: ``[(2, 3)]``. It is fitted only with as many components as it has numbers.
    criterion : {"bic", "icl", "aic"}
        The best candidate has the smallest value; the table has all three.
    estimator : Mixture, default=GaussianBiclustering()
        The estimator, which is cloned.
    sample_weight : array-like of shape (N,), optional
        A weight of 2 counts a row twice, in the fits and in the criteria.
    callback : callable, optional
        Called with a `SelectionProgress` after each fit.
    on_iteration : callable, optional
        Called with the `Progress` of each iteration, and of each refit of `stability`.
    stability : bool, default=False
        Also refit each candidate 20 times to randomly reweighted rows, which must be in memory, and show the stability
        of its least stable cluster: it shows whether one cluster is too many, not whether one is missing.
    **params
        Parameters of the estimator. A list for `shared_covariance`, `tails`, `block_model` or `model` (of
        FactorBiclustering) is a list of candidates. All fits have the same `random_state`; a RandomState or None is
        turned into an int first, so that every model can be reproduced. Several numbers of components of
        GaussianBiclustering are compared with ``shared_covariance=[False, True]`` unless it is given here.

    Returns
    -------
    SelectionTable
        A fit that fails is a row with its error. An interrupt (Ctrl-C) ends the selection with the rows so far. A
        `SelectionWarning` says why the best candidate may not be the best.

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
    if estimator is not None and not isinstance(estimator, Mixture):
        raise TypeError(f"estimator={estimator!r} must be a mixture such as GaussianBiclustering()")
    kinds = {name: params.pop(name) for name in KINDS if isinstance(params.get(name), (list, tuple))}
    prototype: Any = clone(GaussianBiclustering() if estimator is None else estimator).set_params(**params)
    # The same seed for all pairs, so that a row depends neither on other rows nor on their order.
    if not isinstance(prototype.random_state, Integral):
        seed = int(check_random_state(prototype.random_state).randint(np.iinfo(np.int32).max))
        prototype.set_params(random_state=seed)
    several = not isinstance(n_components, Integral) and "shared_covariance" not in {*kinds, *params}
    if several and estimator is None:
        kinds["shared_covariance"] = [False, True]
    if unknown := [name for name in kinds if name not in prototype.get_params()]:
        raise ValueError(f"{type(prototype).__name__} has no parameter {unknown[0]}")
    search = _Search(X, sample_weight, prototype, stability)
    search = search.extended(n_components=n_components, n_column_groups=n_column_groups, **kinds)
    return _compare(search, [], criterion, callback, on_iteration)


def _compare(
    search: _Search,
    rows: list[SelectionRow],
    criterion: str,
    callback: Callable[[SelectionProgress], object] | None,
    on_iteration: Callable[[Progress], object] | None = None,
    draws: bool = True,
) -> SelectionTable:
    """The table of the rows and of the other candidates, which are fitted; it warns on behalf of the caller.

    With `draws` a small gain over fewer components is compared with that of chance.
    """
    choices, candidates = search.choices, list[SelectionRow]()
    for values in product(*choices.values()):
        kind = dict(zip(choices, values, strict=True))
        G, K = kind.pop("n_components"), kind.pop("n_column_groups")
        # One component has a shared covariance either way.
        twice = G == 1 and kind.get("shared_covariance") and False in choices["shared_covariance"]
        # One number of column groups per component goes with that many components only.
        if not twice and (not isinstance(K, tuple) or len(K) == G):
            candidates.append(SelectionRow(G, K, kind=kind))
    if not candidates:
        given = " and ".join(f"{name}={list(choices[name])}" for name in ("n_components", "n_column_groups"))
        remedy = "give at least one of each, and sequences of column groups as many numbers as there are components"
        raise ValueError(f"{given} make no pair: {remedy}")
    fitted = [(row.n_components, row.n_column_groups, row.kind) for row in rows]
    missing = [row for row in candidates if (row.n_components, row.n_column_groups, row.kind) not in fitted]
    new, messages, texts = list[SelectionRow](), list[Warning](), list[str]()
    try:
        for candidate in missing:
            row, others = _fit(search, candidate, [*rows, *new], on_iteration)
            new.append(row)
            messages += others
            if callback is not None:
                callback(SelectionProgress(len(new), len(missing), row))
    except KeyboardInterrupt:
        if not rows and not new:
            raise
        texts.append(f"interrupted after {len(new)} of {len(missing)} fits: extend() of the table continues")
    table = SelectionTable((*rows, *new), criterion, search)
    if draws and not texts:
        table = replace(table, _simpler=_simpler(table))
    for message in (*messages, *map(SelectionWarning, texts or _warnings(table))):
        warnings.warn(message, stacklevel=3)
    return table


def _fit(
    search: _Search,
    candidate: SelectionRow,
    earlier: list[SelectionRow],
    on_iteration: Callable[[Progress], object] | None,
) -> tuple[SelectionRow, list[Warning]]:
    """Row of one candidate, and the warnings of its fit that are not about convergence.

    A shared covariance starts from the clusters of the same candidate without one: as good as starts of its own on 21
    labelled tables, in a quarter of the time.
    """
    settings = {"n_components": candidate.n_components, "n_column_groups": candidate.n_column_groups, **candidate.kind}
    model: Any = clone(search.prototype).set_params(**settings)
    same = replace(candidate, kind=candidate.kind | {"shared_covariance": False})
    started = [row.model for row in earlier if _asked(row) == _asked(same) and row.model is not None]
    if (
        candidate.kind.get("shared_covariance")
        and started
        and isinstance(model.init, str)
        and _array(search) is not None
    ):
        labels = started[0].row_labels_
        model.set_params(init=labels if len(np.unique(labels)) == candidate.n_components else model.init)
    begin, least = time.perf_counter(), np.nan
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            model.fit(search.X, sample_weight=search.sample_weight, callback=on_iteration)
            shared = candidate.kind.get("shared_covariance")
            if shared and isinstance(search.prototype.init, str) and not isinstance(model.init, str):
                model = _better(search, model, earlier, on_iteration)
            seconds = time.perf_counter() - begin
            if search.stability and model.outcome_ != Outcome.INTERRUPTED.value:
                least = least_stable(model, search.X, search.sample_weight, REFITS, on_iteration)
        except Exception as error:
            text = f"failed: {' '.join(str(error).split()) or type(error).__name__}"
            return replace(candidate, outcome=text, seconds=time.perf_counter() - begin), []
    if model.outcome_ == Outcome.INTERRUPTED.value:
        raise KeyboardInterrupt
    messages = [warning.message for warning in caught if isinstance(warning.message, Warning)]
    few = len(model.column_labels_) > 1 and bool(model.few_rows_)  # one component is what others are compared with
    kinds = (ConvergenceWarning, FitWarning) if few else ConvergenceWarning
    texts = dict.fromkeys(str(message) for message in messages if isinstance(message, kinds))
    row = replace(
        candidate,
        groups=tuple(int(labels.max()) + 1 for labels in model.column_labels_),
        n_parameters=int(model.n_parameters_),
        outcome=model.outcome_ + (f": {'; '.join(texts)}" if texts else ""),
        few_rows=few,
        seconds=seconds,
        model=model,
        least_stable=least,
        **model._criteria(model._fit_sums),
    )
    return row, [message for message in messages if not isinstance(message, kinds)]


def _better(
    search: _Search,
    model: Any,
    earlier: list[SelectionRow],
    on_iteration: Callable[[Progress], object] | None,
) -> Any:
    """The model, or one with a likelier shared covariance, which clusters with their own covariances do not lead to.

    It is fitted where twice the gain that the search promises would make it the best so far.
    """
    X, best = np.asarray(search.X, dtype=float), min((row.bic for row in earlier if row.sound), default=np.inf)
    found = likelier_labels(X, search.sample_weight, model.row_labels_, model.random_state)
    if found is None or len(np.unique(found[0])) < model.n_components:
        return model
    labels, gain = found
    bic = model._criteria(model._fit_sums)["bic"]
    if bic - 4 * gain > best:
        return model
    other = clone(model).set_params(init=labels)
    other.fit(search.X, sample_weight=search.sample_weight, callback=on_iteration)
    ranks = [(len(each.few_rows_), each._criteria(each._fit_sums)["bic"]) for each in (other, model)]
    return other if ranks[0] < ranks[1] else model


def _asked(row: SelectionRow) -> tuple[Any, ...]:
    """What a candidate asks for, to be compared."""
    return row.n_components, row.n_column_groups, row.kind


def _array(search: _Search) -> FloatArray | None:
    """The rows if they are one array of numbers in memory."""
    try:
        rows = np.asarray(search.X, dtype=float)
    except (TypeError, ValueError):
        return None
    return rows if rows.ndim == 2 else None


def _simpler(table: SelectionTable) -> SelectionRow | None:
    """The fewest components that the best candidate is not better than, but for chance; None if it is better than all.

    This is the bootstrap of the likelihood ratio (McLachlan 1987), where the table is small and the gain is.
    """
    best, name, X = table._smallest(), table.criterion, _array(table._search)
    if best is None or X is None or len(X) > _DRAWN_ROWS or X.size > _DRAWN_NUMBERS:
        return None
    sound = [row for row in table.rows if row.sound and np.isfinite(getattr(row, name))]
    for G in sorted({row.n_components for row in sound if row.n_components < best.n_components}):
        row = min((row for row in sound if row.n_components == G), key=lambda row: float(getattr(row, name)))
        gain = getattr(row, name) - getattr(best, name)
        if gain < _CLEAR and any(_drawn_gain(table, X, row, best, seed) >= gain for seed in range(_DRAWS)):
            return row
    return None


def _drawn_gain(table: SelectionTable, X: FloatArray, simple: SelectionRow, best: SelectionRow, seed: int) -> float:
    """By how much the number of components of the best candidate is better on a table drawn from a simpler model."""
    choices: dict[str, tuple[Any, ...]] = {name: (value,) for name, value in best.kind.items()}
    if best.kind.get("shared_covariance"):
        choices["shared_covariance"] = (False, True)
    choices |= {"n_components": (simple.n_components, best.n_components), "n_column_groups": (best.n_column_groups,)}
    search = replace(table._search, X=drawn_like(simple.model, X, seed), stability=False, choices=choices)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = _compare(search, [], table.criterion, None, draws=False).rows
    few, many = (
        min((getattr(row, table.criterion) for row in rows if row.n_components == G and row.sound), default=np.inf)
        for G in choices["n_components"]
    )
    return float(few - many) if np.isfinite(few) else -np.inf


def _warnings(table: SelectionTable) -> list[str]:
    """Reasons why the best row may not be the best."""
    rows, criterion, best = table.rows, table.criterion, table._best_or_none()
    if best is None:
        return [f"none of the {len(rows)} fits succeeded; the first {rows[0].outcome}"]
    texts, value = [], getattr(best, criterion)
    if best.degenerate:
        # The outcome names the component and the remedy, which depend on the estimator.
        texts.append(f"all fits are degenerate, so their criteria say little; the best is {best.outcome}")
    elif best.few_rows:
        texts.append(
            f"every fit has a component of too few rows, so their criteria say little; the best {best.outcome}"
        )
    if passed := [row for row in rows if not row.sound and getattr(row, criterion) < value]:
        texts.append(
            f"{len(passed)} of {len(rows)} candidates have a smaller {criterion} than the best, but components "
            f"with too few rows, so their {criterion} means little; the first is {passed[0].outcome}"
        )
    normal = [getattr(row, criterion) for row in rows if row.model is not None and row.kind.get("tails") == "normal"]
    if normal and best.kind["tails"] == "t":
        texts.append(
            f'tails="t" has the smallest {criterion}, {value:.1f} against {min(normal):.1f}: some rows '
            "are far away, or the clusters are not normal. See outliers_ of the model, and count clusters with care: "
            f"{criterion} may pay for their tails with more clusters"
        )
    limits = {"n_components": len(best.model.row_labels_), "n_column_groups": best.model.n_features_in_}
    for name, limit in limits.items():
        chosen = getattr(best, name)
        values = {getattr(row, name) for row in rows if isinstance(getattr(row, name), int)}
        if len(values) < 2 or chosen not in (min(values), max(values)) or chosen in (1, limit):
            continue
        beyond = (chosen + 1, min(chosen + 4, limit + 1)) if chosen == max(values) else (max(1, chosen - 3), chosen)
        texts.append(
            f"the smallest {criterion} is at {name}={chosen}, the edge of {min(values)} … {max(values)} tried: "
            f"try more, by extend({name}=range({beyond[0]}, {beyond[1]})) of the table"
        )
    return texts
