"""Candidates that `select` fitted, as a table that prints, extends and plots (paper, section 3.1).

A row is one candidate and its fit. The table knows the best one, why it is the best, and which
others are level with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import adjusted_rand_score

from blockmix.em.loop import Outcome
from blockmix.estimators.answer import answer
from blockmix.partition import FloatArray, IntArray
from blockmix.plotting import selection_curve
from blockmix.rows.files import needed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CRITERIA = ("bic", "icl", "aic")
# Parameters of an estimator of which several values can be compared.
KINDS = ("shared_covariance", "columns", "tails", "block_model", "model")
# What the values of some of them mean for the clusters.
_WORDS = {
    ("shared_covariance", False): "covariances of their own",
    ("shared_covariance", True): "one covariance for all",
    ("columns", "power"): "powers of columns",
    ("tails", "t"): "heavy tails",
}
_PLAIN = ("linear", "normal")  # values that need no words
_EQUAL = 2.0  # difference of a criterion below which the kind with fewer parameters is preferred
LEVEL = 6.0  # difference of a criterion below which models are called level
_NAMED = 3  # models in the sentence
_SOME_ROWS = 2**16  # at most, by which clusters are compared
STABILITY_NOTE = (
    "least stable: stability of the least stable cluster. A low value shows that there is one cluster too many. "
    "Nothing here shows that there is one too few."
)


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
    def words(self) -> str:
        """The candidate in words: "3 clusters with one covariance for all, powers of columns"."""
        several = self.n_components > 1
        known = {name: _WORDS.get((name, value), f"{name}={value}") for name, value in self.kind.items()}
        said = [known[n] for n, v in self.kind.items() if v not in _PLAIN and (several or n != "shared_covariance")]
        if self.n_column_groups != "auto":
            said.append(f"n_column_groups={self.n_column_groups}")
        clusters = f"{self.n_components} cluster{'s' if several else ''}"
        return f"{clusters} with {', '.join(said)}" if said else clusters

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


class LevelModel(NamedTuple):
    """A model that the criterion cannot tell from the best one.

    Attributes
    ----------
    row : SelectionRow
    difference : float
        Its criterion less that of the best; negative where the simpler of two level models is the best.
    agreement : float
        Adjusted Rand index of its clusters and those of the best; 1 for the same clusters.
    """

    row: SelectionRow
    difference: float
    agreement: float


@dataclass(frozen=True, eq=False)
class SelectionTable:
    """The fitted candidates, in the order of fitting, and the best of them by a criterion."""

    rows: tuple[SelectionRow, ...]
    criterion: str
    _search: Any = field(default=None, repr=False)
    _agreeing: bool = False  # whether the best is that of the largest gain times agreement
    _simpler: SelectionRow | None = None  # that the best one by the criterion is not better than, but for chance

    @property
    def best_(self) -> SelectionRow:
        """The best row: the smallest criterion, or, where `select` chooses the kinds, the largest gain times agreement.

        The gain is that over one component, and the agreement how similar the clusters are to those of all candidates,
        which count by their gains: see `agreed`. A row with a component of too few rows is only taken if all are so.

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

    def _comparable(self) -> list[SelectionRow]:
        """The rows whose criteria can be compared, the smallest first."""
        fitted = [row for row in self.rows if np.isfinite(getattr(row, self.criterion))]
        sound = [row for row in fitted if row.sound] or [row for row in fitted if not row.degenerate] or fitted
        return sorted(sound, key=lambda row: float(getattr(row, self.criterion)))

    def _smallest(self) -> SelectionRow | None:
        """The preferred row; another kind with fewer parameters if within 2 of it, where a seed would decide."""
        rows = self._comparable()
        if not rows:
            return None
        first = self._first()
        near = [row for row in rows if getattr(row, self.criterion) <= getattr(first, self.criterion) + _EQUAL]
        same = [row for row in near if row.n_components == first.n_components]
        near = [row for row in same if row is first or row.kind != first.kind]
        return min(near, key=lambda row: (row.n_parameters or 0, getattr(row, self.criterion)), default=None)

    def _first(self) -> SelectionRow:
        """The row of the smallest criterion, or of the largest gain times agreement."""
        rows = self._comparable()
        return agreed(rows, self.criterion, self._search.sample_weight) if self._agreeing else rows[0]

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
        table: SelectionTable = search.compared(self.rows, self.criterion, callback)
        return table

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
            text.append(f"* {self.reason}")
            text += [STABILITY_NOTE] if stability else []
        return "\n".join(text)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The answer of the best candidate, and the candidates, for a notebook."""
        best, lines = self._best_or_none(), f"<pre>{escape(str(self))}</pre>"
        return lines if best is None or best.model is None else answer(best.model, table=self).html(lines)

    @property
    def reason(self) -> str:
        """Why the best row is the best, in one sentence, with the best of other kinds and what is level with it."""
        best, smallest, name = self.best_, self._smallest(), self.criterion
        value = getattr(best, name)
        if self._simpler is not None and smallest is not None:
            less = value - getattr(smallest, name)
            text = f"{smallest.words} have a smaller {name} by {less:.1f}, but tables drawn from the model of"
            return f"{text} {best.words} show as much by chance"
        least = getattr(self._comparable()[0], name)
        smaller = [row for row in self.rows if getattr(row, name) < min(value, least)]
        text = f"{best.words}: {'smallest' if value == least else 'fewest parameters of those level in'} {name}"
        if self._first() is not self._comparable()[0]:
            text = f"{best.words}: largest gain in {name} times agreement with the clusters of the other candidates"
        if any(not row.sound for row in smaller):
            text += " of the fits with enough rows in each component"
        others = dict[str, SelectionRow]()
        for row in self._comparable():
            if row.kind != best.kind and getattr(row, name) >= value + LEVEL:
                others.setdefault(str(row.kind), row)
        if others:
            costs = [f"{row.words} ({getattr(row, name) - value:+.1f})" for row in others.values()]
            text += "; the best of other kinds: " + ", ".join(costs[:_NAMED])
        if level := self.level_models():
            text += "; level: " + ", ".join(f"{one.row.words} ({one.difference:+.1f})" for one in level[:_NAMED])
        return text

    def level_models(self) -> list[LevelModel]:
        """Other models whose criterion is within 6 of the best one's, the smallest first.

        A difference of 6 is a Bayes factor of 20; below it a choice is a matter of taste, so look at both. The
        agreement of their clusters says whether the choice matters. A model that chance alone made better is one too.
        """
        best, name, smallest = self.best_, self.criterion, self._smallest()
        value, models = getattr(best, name), list[LevelModel]()
        for row in self._comparable():
            if row is not best and (row is smallest or abs(getattr(row, name) - value) < LEVEL):
                fitted = best.model is not None and row.model is not None
                agreement = adjusted_rand_score(best.model.row_labels_, row.model.row_labels_) if fitted else np.nan
                models.append(LevelModel(row, float(getattr(row, name) - value), agreement))
        return models


def agreed(rows: list[SelectionRow], criterion: str, sample_weight: ArrayLike | None = None) -> SelectionRow:
    """The row with the largest gain over one component times agreement; the first if one component is as good.

    The agreement of a row is Σ_s gain_s ARI(row, s) / Σ_s gain_s over all rows, the smallest criterion first. Where the
    clusters are not of the shape of the model, a criterion gains by more and more of them, each time others.
    """
    values = np.array([getattr(row, criterion) for row in rows])
    one = max((value for row, value in zip(rows, values, strict=True) if row.n_components == 1), default=values[0])
    places = [i for i, row in enumerate(rows) if row.n_components > 1 and values[i] < one and row.model is not None]
    if rows[0].n_components == 1 or not places:
        return rows[0]
    gains = one - values[places]
    indices = _rand_indices(np.stack([rows[i].model.row_labels_ for i in places]), sample_weight)
    return rows[places[int(np.argmax(gains * (indices @ gains)))]]


def _rand_indices(labels: IntArray, sample_weight: ArrayLike | None) -> FloatArray:
    """Adjusted Rand indices of all pairs of M partitions, labels of shape (M, N), pairs of rows drawn with return."""
    step = -(-labels.shape[1] // _SOME_ROWS)
    labels = labels[:, ::step]
    weights = np.ones(labels.shape[1]) if sample_weight is None else np.asarray(sample_weight, dtype=float)[::step]
    sizes = labels.max(axis=1) + 1
    begins = np.cumsum(sizes) - sizes
    members = np.zeros((labels.shape[1], int(sizes.sum())))
    np.put_along_axis(members, (labels + begins[:, None]).T, 1.0, axis=1)
    squares = ((members * (weights / weights.sum())[:, None]).T @ members) ** 2
    together = np.add.reduceat(np.add.reduceat(squares, begins, axis=0), begins, axis=1)
    own = np.diag(together)
    expected = np.outer(own, own)
    most = (own[:, None] + own) / 2 - expected
    return np.asarray(np.divide(together - expected, most, out=np.zeros_like(most), where=most > 0))


def doubts(table: SelectionTable) -> list[str]:
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
    normal = [getattr(row, criterion) for row in rows if row.sound and row.kind.get("tails") == "normal"]
    if normal and best.kind["tails"] == "t":
        texts.append(
            f'tails="t" is the best, by {criterion} {value:.1f} against {min(normal):.1f}: some rows '
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
            f"the best is at {name}={chosen}, the edge of {min(values)} … {max(values)} tried: "
            f"try more, by extend({name}=range({beyond[0]}, {beyond[1]})) of the table"
        )
    return texts
