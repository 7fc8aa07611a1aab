"""Selection: one fit for each number of components and column groups and each kind of model (paper, section 3.1).

`select` fits all combinations and returns a `SelectionTable`. Where the user leaves them open, own and shared
covariances are always compared, powers of the columns and heavy tails where the rows of the clusters ask for them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice, product
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from blockmix.candidates import CRITERIA, KINDS, SelectionProgress, SelectionRow, SelectionTable, doubts
from blockmix.em.loop import Outcome, Progress
from blockmix.em.tails import power_gain, tail_gains
from blockmix.estimators.fitting import FitWarning
from blockmix.estimators.gaussian import GaussianBiclustering
from blockmix.estimators.mixture import Mixture
from blockmix.estimators.resampling import drawn_like, least_stable
from blockmix.estimators.validation import rows_to_score
from blockmix.partition import FloatArray
from blockmix.rows import Rows
from blockmix.starts.pooled import likelier_labels

REFITS = 20  # of each candidate, for its stability
# Tables up to this size are drawn from a model with fewer components where the criterion prefers more by little: there
# the criterion alone finds two clusters in a third of the tables of pure noise.
_DRAWN_ROWS, _DRAWN_NUMBERS = 100, 20_000
_DRAWS = 39  # which a true gain over one component exceeds: 1 in 40 by chance
_EXCEEDED = 3  # of them may exceed the gain over several components: 1 in 10 by chance
_CLEAR = 30.0  # difference of a criterion that needs no draws
_LOST = 1 / 3  # of the likelihood
_FURTHER = 1.5  # times the gain of a first step: what EM may gain in all, on simulated skewed and heavy-tailed tables
_OPEN = {"columns": ("linear", "power"), "tails": ("normal", "t")}  # kinds that are fitted where the rows ask for them


class SelectionWarning(UserWarning):
    """The choice may be wrong: it is at the edge of the candidates, or fits failed, degenerated or were interrupted."""


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
        The table has all three. The best candidate has the smallest value; without an estimator, and with several
        numbers of components, the largest gain over one component times agreement with the clusters of the others.
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
        Parameters of the estimator. A list for `shared_covariance`, `tails`, `columns`, `block_model` or `model` (of
        FactorBiclustering) is a list of candidates. All fits have the same `random_state`; a RandomState or None is
        turned into an int first, so that every model can be reproduced. Unless an estimator is given, several numbers
        of components are compared with ``shared_covariance=[False, True]``, and with ``columns="power"`` and
        ``tails="t"`` where a first step from the clusters promises the smallest criterion; a value that is given here
        is kept to. With ``common_factors="auto"`` candidates have none, and the best is fitted on them from its
        clusters.

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
    free = set() if isinstance(n_components, Integral) or estimator is not None else {*KINDS} - {*kinds, *params}
    if "shared_covariance" in free:
        kinds["shared_covariance"] = [False, True]
    if unknown := [name for name in kinds if name not in prototype.get_params()]:
        raise ValueError(f"{type(prototype).__name__} has no parameter {unknown[0]}")
    common = getattr(prototype, "common_factors", None) == "auto"
    if common:
        prototype.set_params(common_factors=0)
    open_kinds = tuple(name for name in _OPEN if name in free)
    search = _Search(X, sample_weight, prototype, stability, open_kinds, common, bool(free))
    search = search.extended(n_components=n_components, n_column_groups=n_column_groups, **kinds)
    return search.compared([], criterion, callback, on_iteration)


@dataclass(frozen=True, eq=False)
class _Search:
    """The rows, the estimator, the candidates for each parameter, and the kinds that the rows may ask for."""

    X: ArrayLike
    sample_weight: ArrayLike | None
    prototype: Mixture[Any, Any]
    stability: bool
    open: tuple[str, ...] = ()
    common: bool = False  # whether the best candidate may have common factors
    agreeing: bool = False  # whether agreement with other candidates counts
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
        return replace(self, choices=choices, open=tuple(name for name in self.open if name not in more))

    def compared(
        self,
        rows: Iterable[SelectionRow],
        criterion: str,
        callback: Callable[[SelectionProgress], object] | None = None,
        on_iteration: Callable[[Progress], object] | None = None,
        draws: bool = True,
    ) -> SelectionTable:
        """The table of the rows and of the other candidates, which are fitted; it warns on behalf of the caller.

        With `draws` a small gain over fewer components is compared with that of chance.
        """
        earlier = {name: getattr(self.prototype, name) for name in KINDS if name in self.choices}
        done = _of_same_kinds([*rows], earlier)
        n_old, messages, texts = len(done), list[Warning](), list[str]()
        missing = self._missing(done)
        try:
            for candidate in chain(missing, *(self._promising(name, done, criterion) for name in self.open)):
                row, others = self._fit(candidate, done, on_iteration)
                done.append(row)
                messages += others
                n_new = len(done) - n_old
                if callback is not None:
                    callback(SelectionProgress(n_new, max(n_new, len(missing)), row))
        except KeyboardInterrupt:
            if not done:
                raise
            n_new = len(done) - n_old
            texts.append(
                f"interrupted after {n_new} of {max(n_new, len(missing))} fits: extend() of the table continues"
            )
        table = SelectionTable(tuple(_of_same_kinds(done, {})), criterion, self, self.agreeing)
        if draws and not texts:
            table = replace(table, _simpler=_simpler(table))
            try:
                table = self._on_common_factors(table) if self.common else table
            except KeyboardInterrupt:
                texts.append("interrupted before the best candidate was fitted on common factors")
        for message in (*messages, *map(SelectionWarning, texts or doubts(table))):
            warnings.warn(message, stacklevel=3)
        return table

    def _on_common_factors(self, table: SelectionTable) -> SelectionTable:
        """The table with the best candidate fitted on common factors from its clusters, if that is better still.

        Candidates have none: in rotated cigars of 20 columns they made one component as good as three, and they take
        most of the time.
        """
        best, name = table._best_or_none(), table.criterion
        if best is None or best.model is None or best.model.common_factors == "auto":
            return table
        init = best.model.row_labels_ if _array(self) is not None else self.prototype.init
        prototype: Any = clone(self.prototype).set_params(common_factors="auto", init=init)
        row, _ = replace(self, prototype=prototype, stability=False)._fit(best, [], None)
        if row.model is None or not row.sound or not getattr(row, name) < getattr(best, name):
            return table
        row = replace(row, least_stable=best.least_stable, seconds=best.seconds + row.seconds)
        rows = tuple(row if other is best else other for other in table.rows)
        return replace(table, rows=rows, _simpler=row if table._simpler is best else table._simpler)

    def _missing(self, rows: list[SelectionRow]) -> list[SelectionRow]:
        """The candidates that are not among the rows."""
        choices, candidates = self.choices, list[SelectionRow]()
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
        fitted = [_asked(row) for row in rows]
        return [row for row in candidates if _asked(row) not in fitted]

    def _promising(self, name: str, done: list[SelectionRow], criterion: str) -> Iterator[SelectionRow]:
        """Candidates with powers of the columns, or heavy tails, as long as one may be the best of all that are done.

        What it promises is the criterion of the fit without them less a multiple of what a first step from its clusters
        gains: the largest multiple of this table, and a fifth more. For a shared covariance see `_pooled`.
        """
        plain, other = _OPEN[name]
        sound = [row for row in done if row.sound and row.kind.get(name, plain) == plain and row.model is not None]
        if not sound or _array(self) is None:  # from a file each gain is a pass, and each fit has starts of its own
            return
        rows = rows_to_score(sound[0].model, self.X, self.sample_weight).measured()
        waiting = [(row, gain) for row in sound if (gain := _GAINS[name](rows, row.model)) > 0]
        multiples: dict[bool, list[float]] = {False: [], True: []}
        siblings = list[str]()
        while waiting:
            further = {kind: 1.2 * max(seen) if seen else _FURTHER for kind, seen in multiples.items()}
            promised = [
                -np.inf if _asked(row) in siblings else getattr(row, criterion) - further[_shares(row)] * gain
                for row, gain in waiting
            ]
            best = int(np.argmin(promised))
            if promised[best] >= _least(done, criterion):
                return
            row, gain = waiting.pop(best)
            yield _with(row, **{name: other})
            new = done[-1]
            if new.sound and new.model is not None:
                multiples[_shares(row)].append((getattr(row, criterion) - getattr(new, criterion)) / gain)
                if not _shares(row) and _pooled(new, criterion, rows.total_weight) < _least(done, criterion):
                    siblings.append(_asked(_with(row, shared_covariance=True)))

    def _fit(
        self,
        candidate: SelectionRow,
        earlier: list[SelectionRow],
        on_iteration: Callable[[Progress], object] | None,
    ) -> tuple[SelectionRow, list[Warning]]:
        """Row of one candidate, and the warnings of its fit that are not about convergence."""
        settings = {"n_components": candidate.n_components, "n_column_groups": candidate.n_column_groups}
        model: Any = clone(self.prototype).set_params(**settings, **candidate.kind)
        if (labels := self._start(candidate, earlier)) is not None:
            model.set_params(init=labels)
        begin, least = time.perf_counter(), np.nan
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            try:
                model.fit(self.X, sample_weight=self.sample_weight, callback=on_iteration)
                if labels is not None and _shares(candidate) and candidate.kind.get("columns", "linear") == "linear":
                    model = _better(self, model, earlier, on_iteration)
                seconds = time.perf_counter() - begin
                if self.stability and model.outcome_ != Outcome.INTERRUPTED.value:
                    least = least_stable(model, self.X, self.sample_weight, REFITS, on_iteration)
            except Exception as error:
                text = f"failed: {' '.join(str(error).split()) or type(error).__name__}"
                return replace(candidate, outcome=text, seconds=time.perf_counter() - begin), []
        if model.outcome_ == Outcome.INTERRUPTED.value:
            raise KeyboardInterrupt
        messages = [warning.message for warning in caught if isinstance(warning.message, Warning)]
        own = (ConvergenceWarning, FitWarning)  # also those of a fit that `_better` has dropped
        messages = [each for each in messages if not isinstance(each, own) or str(each) in model.warnings_]
        few = len(model.column_labels_) > 1 and bool(model.few_rows_)  # one component is what others are compared with
        kinds = own if few else ConvergenceWarning
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

    def _start(self, candidate: SelectionRow, earlier: list[SelectionRow]) -> Any:
        """The clusters of the best fit with as many components and covariances of their own, or of a plainer kind.

        They are as good as starts of its own on 21 labelled tables, in a quarter of the time. None without such a fit.
        """
        plain = {"shared_covariance": False, **{name: _OPEN[name][0] for name in self.open}}
        asking = {name: value for name, value in plain.items() if candidate.kind.get(name, value) != value}
        if not asking or not isinstance(getattr(self.prototype, "init", None), str) or _array(self) is None:
            return None
        same = _asked(_with(candidate, **plain))
        fits = [row for row in earlier if row.model is not None and _asked(_with(row, **plain)) == same]
        fits = [row for row in fits if len(np.unique(row.model.row_labels_)) == candidate.n_components]
        best = min(fits, key=lambda row: (not row.sound, row.bic), default=None)
        return None if best is None else best.model.row_labels_


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


def _asked(row: SelectionRow) -> str:
    """What a candidate asks for, to be compared: a plain kind is as good as none."""
    plain = [values[0] for values in _OPEN.values()]
    kind = sorted((name, str(value)) for name, value in row.kind.items() if value not in plain)
    return str((row.n_components, row.n_column_groups, kind))


def _shares(row: SelectionRow) -> bool:
    return bool(row.kind.get("shared_covariance"))


def _with(row: SelectionRow, **kind: Any) -> SelectionRow:
    """The candidate of a row with another kind."""
    kinds = row.kind | kind
    return SelectionRow(row.n_components, row.n_column_groups, kind={n: kinds[n] for n in KINDS if n in kinds})


def _least(rows: list[SelectionRow], criterion: str) -> float:
    return min(float(getattr(row, criterion)) for row in rows if row.sound and row.model is not None)


def _pooled(row: SelectionRow, criterion: str, total: float) -> float:
    """What a shared covariance promises: others are saved, and a third of what their mean loses is lost for good."""
    model = row.model
    covariances, weights = np.stack([block.dense() for block in model.blocks_]), model.weights_.astype(float)
    logdets = np.linalg.slogdet(covariances)[1]
    worse = float(np.linalg.slogdet(np.tensordot(weights, covariances, 1))[1] - weights @ logdets)
    saved = model._parameters.blocks.layout.n_parameters * (1 - 1 / len(weights))
    return float(getattr(row, criterion) + _LOST * total * worse - saved * np.log(total))


def _of_same_kinds(rows: list[SelectionRow], earlier: dict[str, Any]) -> list[SelectionRow]:
    """The rows, which all say of which kind they are where one of them does; one that does so already is not copied."""
    plain = {name: _OPEN[name][0] for name in _OPEN if any(name in row.kind for row in rows)} | earlier
    kinds = [plain | row.kind for row in rows]
    return [
        row if len(kind) == len(row.kind) else replace(row, kind={name: kind[name] for name in KINDS if name in kind})
        for row, kind in zip(rows, kinds, strict=True)
    ]


def _power_gain(rows: Rows, model: Any) -> float:
    """By how much BIC falls by the best powers of the columns, given the clusters, if columns are independent."""
    parameters = model._parameters.in_units(-rows.location / rows.scale, 1 / rows.scale)
    return 2 * power_gain(rows, parameters, bool(model.shared_covariance))


def _tail_gain(rows: Rows, model: Any) -> float:
    """By how much BIC falls by heavy tails, given the clusters, if each covariance keeps its proportions."""
    gains = tail_gains(model.outlier_scores_.astype(float), model.n_values_, model.row_labels_, rows.weights)
    return 2 * float(gains.sum()) - len(gains) * float(np.log(rows.total_weight))


_GAINS: dict[str, Callable[[Rows, Any], float]] = {"columns": _power_gain, "tails": _tail_gain}


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
        exceeded = (_drawn_gain(table, X, row, best, seed) >= gain for seed in range(_DRAWS))
        allowed = _EXCEEDED if G > 1 else 0  # where there are clusters, one too many misleads less than one too few
        if gain < _CLEAR and sum(islice(filter(None, exceeded), allowed + 1)) > allowed:
            return row
    return None


def _drawn_gain(table: SelectionTable, X: FloatArray, simple: SelectionRow, best: SelectionRow, seed: int) -> float:
    """By how much the number of components of the best candidate is better on a table drawn from a simpler model."""
    choices: dict[str, tuple[Any, ...]] = {name: (value,) for name, value in best.kind.items()}
    if best.kind.get("shared_covariance"):
        choices["shared_covariance"] = (False, True)
    choices |= {"n_components": (simple.n_components, best.n_components), "n_column_groups": (best.n_column_groups,)}
    search = replace(table._search, X=drawn_like(simple.model, X, seed), stability=False, open=(), choices=choices)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = search.compared([], table.criterion, draws=False).rows
    few, many = (
        min((getattr(row, table.criterion) for row in rows if row.n_components == G and row.sound), default=np.inf)
        for G in choices["n_components"]
    )
    return float(few - many) if np.isfinite(few) else -np.inf
