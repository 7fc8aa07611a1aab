"""Answer: what a fitted model says about its rows and columns, in sentences that need no statistics.

`answer` makes it for `describe`, the command, a notebook and the page: how many clusters and of what size, what marks
each, which columns go together, how far to trust it, and what cannot be known. People count clusters and groups from 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np

from blockmix.blocks.blocks import Blocks
from blockmix.blocks.moments import correlation
from blockmix.estimators.stability import Stability
from blockmix.estimators.tables import group_numbers, named, ranged
from blockmix.partition import FloatArray, IntArray, column_names

CLEAR = 0.9  # probability of its cluster from which a row is clear
_APART = 0.5  # standard deviations from which a column marks a cluster
_SINGLES = 0.5  # and by which it must lie beyond every other cluster to single it out
_MARKS = 4  # of each direction in a sentence
_LISTED = 12  # groups in the text
_WIDTH = 110
_CLOSE = 10.0  # difference of a criterion below which a number of clusters is close
_WORDS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


class Centers(NamedTuple):
    """Means of the clusters in comparable units.

    Attributes
    ----------
    weights : array of shape (G,)
    overall : array of shape (p,)
        Mean of all rows.
    scale : array of shape (p,)
        Standard deviation within clusters: √Σ_g π_g Σ_g,jj.
    standardized : array of shape (G, p)
        Means of the clusters in standard deviations from the overall mean.
    apart : array of shape (G, p)
        (mean of the cluster − mean of all others) / scale, which is standardized / (1 − π_g).
    singled : boolean array of shape (G, p)
        Whether the cluster lies beyond every other one by half a standard deviation.
    """

    weights: FloatArray
    overall: FloatArray
    scale: FloatArray
    standardized: FloatArray
    apart: FloatArray
    singled: FloatArray

    @classmethod
    def of(cls, model: Any) -> Centers:
        """The centers of a fitted mixture."""
        weights, means = model.weights_.astype(float), model.means_.astype(float)
        weights = weights / weights.sum()
        scale = np.sqrt(weights @ np.stack([block.variances for block in model.blocks_]).astype(float))
        overall = weights @ means
        standardized = (means - overall) / scale
        apart = standardized / np.maximum(1 - weights, np.finfo(float).eps)[:, None]
        ranked = np.sort(standardized, axis=0)
        high, low = ranked[-2:][[0]] + _SINGLES, ranked[:2][[-1]] - _SINGLES
        return cls(weights, overall, scale, standardized, apart, (standardized >= high) | (standardized <= low))

    def marks(self, g: int, most: int) -> tuple[IntArray, IntArray]:
        """Columns in which cluster g is high, and low; those that single it out first, then by the difference.

        If some do in one direction, a direction without any is left out: there another cluster stands apart, not this.
        """
        order = np.lexsort((-np.abs(self.apart[g]), ~self.singled[g]))
        order = order[np.abs(self.apart[g, order]) >= _APART]
        both = [order[sign * self.apart[g, order] > 0][:most] for sign in (1, -1)]
        told = [bool(len(part)) and bool(self.singled[g, part[0]]) for part in both]
        high, low = (part if tells or not any(told) else part[:0] for part, tells in zip(both, told, strict=True))
        return high, low


def group_scores(centers: Centers, covariances: Iterable[Blocks]) -> list[list[tuple[IntArray, FloatArray]]]:
    """Columns and mean score of each cluster, shape (G,), of the groups of several columns of each covariance.

    The score of a group is the mean of its standardized columns; one that correlates negatively with the column of
    strongest correlations counts with the opposite sign.
    """
    found: list[list[tuple[IntArray, FloatArray]]] = []
    for covariance in covariances:
        found.append([])
        for block, group in zip(covariance.blocks, covariance.partition.groups, strict=True):
            if len(group) > 1:
                R = correlation(block)
                central = np.abs(R).sum(axis=0).round(9).argmax()  # two columns tie: the first, whatever the rounding
                signs = np.where(R[central] < 0, -1.0, 1.0)
                found[-1].append((group, centers.standardized[:, group] @ signs / len(group)))
    return found


class GroupAnswer(NamedTuple):
    """Columns that go together in some clusters: the number of the group, from 0, and what resamples say of it."""

    number: int
    name: str
    columns: tuple[int, ...]
    clusters: tuple[int, ...]
    verdict: str = ""
    words: str = ""


@dataclass(frozen=True)
class Answer:
    """The answer in parts, which `str` joins and `html` draws.

    Attributes
    ----------
    head : str
        How many clusters and of what size.
    clusters : tuple of (name, rows, sentence)
        What marks each cluster; empty for one.
    columns : str
        How many groups, and where.
    groups : tuple of GroupAnswer
    alone : tuple of int
        Columns that are in no group of any cluster.
    trust : tuple of str
        How far to trust it, and what cannot be known.
    names : tuple of str
        Names of the columns.
    warnings : tuple of str
        Those of the fit.
    """

    head: str
    clusters: tuple[tuple[str, int, str], ...]
    columns: str
    groups: tuple[GroupAnswer, ...]
    alone: tuple[int, ...]
    trust: tuple[str, ...]
    names: tuple[str, ...]
    warnings: tuple[str, ...]

    def titled(self, group: GroupAnswer) -> str:
        """The name of a group, its clusters if it is not in all, its size and verdict."""
        some = len(group.clusters) < len(self.clusters)
        within = f" of {', '.join(self.clusters[g][0] for g in group.clusters)}" if some else ""
        return f"{group.name}{within} ({len(group.columns)}{', ' * bool(group.verdict)}{group.verdict})"

    def __str__(self) -> str:
        lines = [self.head, *(f"  {name} ({rows}): {marks}" for name, rows, marks in self.clusters), self.columns]
        for group in self.groups[:_LISTED]:
            lines.append(_cut(f"  {self.titled(group)}: {', '.join(self.listed(group.columns))}"))
            lines += [f"    {group.words}"] if group.words else []
        n = len(self.groups) - _LISTED
        lines += [f"  and {n} more group{'s' * (n > 1)}: see column_table()"] if n > 0 else []
        lines += [_cut(f"  alone ({len(self.alone)}): {', '.join(self.listed(self.alone))}")] if self.alone else []
        return "\n".join([*lines, *self.trust])

    def listed(self, columns: Sequence[int]) -> list[str]:
        """The names of columns, those with consecutive numbers together."""
        return ranged([self.names[j] for j in columns])

    def html(self, more: str = "") -> str:
        """The answer for a notebook: plain elements, without scripts or styles of its own."""
        rows = [(name, str(n), marks) for name, n, marks in self.clusters]
        shown = self.groups[:_LISTED]
        groups = [(self.titled(g), ", ".join(self.listed(g.columns)), g.words) for g in shown]
        groups += [(f"and {len(self.groups) - _LISTED} more", "", "")] * (len(self.groups) > _LISTED)
        groups += [(f"alone ({len(self.alone)})", ", ".join(self.listed(self.alone)), "")] * bool(self.alone)
        notes = "".join(f"<p>{escape(text)}</p>" for text in (*self.trust, *map("Warning: {}".format, self.warnings)))
        parts = [f"<p><b>{escape(self.head)}</b></p>", html_table(("Cluster", "Rows", "What marks it"), rows)]
        head = ("Group", "Columns", *["In resamples of the rows"] * any(group.words for group in self.groups))
        parts += [f"<p><b>{escape(self.columns)}</b></p>", html_table(head, groups), notes, more]
        return f"<div>{''.join(parts)}</div>"


def answer(model: Any, stability: Stability | None = None, table: Any = None) -> Answer:
    """What a fitted mixture or covariance says.

    Parameters
    ----------
    model : Mixture or BlockDiagonalCovariance
    stability : Stability, optional
        How often its groups and clusters come back.
    table : SelectionTable, optional
        The comparison that the model was chosen by.
    """
    names, is_mixture = column_names(model), hasattr(model, "weights_")
    G = len(model.weights_) if is_mixture else 1
    check_names(model, G)
    groups, alone = _groups(model, stability)
    clusters: list[tuple[str, int, str]] = []
    if G > 1:
        centers, sizes = Centers.of(model), np.bincount(model.row_labels_, minlength=G).tolist()
        shared = bool(getattr(model, "shared_covariance", False))
        clusters = [(named(model, "cluster", g), sizes[g], _marks(centers, g, names, shared)) for g in range(G)]
    return Answer(
        head=_head(model, table) if is_mixture else _counted(model.n_features_in_, "column") + ".",
        clusters=tuple(clusters),
        columns=_columns(model, groups, len(alone)),
        groups=tuple(groups),
        alone=tuple(alone),
        trust=(*_shared(model), *_trust(model, groups, stability)),
        names=tuple(names),
        warnings=tuple(getattr(model, "warnings_", ())),
    )


def check_names(model: Any, G: int) -> None:
    """Raise a ValueError unless `names_` names clusters and groups that there are."""
    given, n_groups = getattr(model, "names_", {}), int(group_numbers(model).max()) + 1
    possible = {f"cluster {g + 1}" for g in range(G)} | {f"group {k + 1}" for k in range(n_groups)}
    if not isinstance(given, dict) or not {*given} <= possible:
        wrong = given if not isinstance(given, dict) else next(key for key in given if key not in possible)
        raise ValueError(f"names_ has {wrong!r}: give a dict such as {{'cluster 1': 'calm', 'group 2': 'sleep'}}")


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A plain table; nothing without rows."""
    if not rows:
        return ""
    tagged = [("th", head), *(("td", row[: len(head)]) for row in rows)]
    lines = ("".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) for tag, row in tagged)
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _word(number: int) -> str:
    return _WORDS[number] if number < len(_WORDS) else f"{number:,}".replace(",", "\u202f")


def _counted(number: int, noun: str) -> str:
    text = f"{_word(number)} {noun}{'' if number == 1 else 's'}"
    return text[0].upper() + text[1:]


def _joined(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _head(model: Any, table: Any) -> str:
    """The number and the sizes of the clusters, and what is as good."""
    G, sizes = len(model.weights_), np.bincount(model.row_labels_, minlength=len(model.weights_))
    if G > 1:
        shown = [f"{n:,}".replace(",", "\u202f") for n in sizes.tolist()]
        text = f"{_counted(G, 'cluster')} of {_joined(shown)} rows."
    else:
        text = "One cluster, as asked: no others were tried."
    if table is None:
        return text
    name, best = table.criterion, table.best_
    value, others = getattr(best, name), dict[int, float]()
    for row in table.rows:
        if row.n_components != best.n_components and row.sound and np.isfinite(getattr(row, name)):
            others[row.n_components] = min(others.get(row.n_components, np.inf), getattr(row, name) - value)
    if G == 1 and len({row.n_components for row in table.rows}) > 1:
        text = f"No clusters: one describes these {sizes.sum()} rows best"
    if not others:
        return text
    number, more = min(others.items(), key=lambda item: item[1])
    verb = "is" if number == 1 else "are"
    gap = f"{name.upper()} {more:+.0f}".replace("-", "−")
    if G == 1:
        return f"{text}; {_word(number)} {verb} {'close' if more < _CLOSE else 'worse'} ({gap})."
    if more <= -_CLOSE and table._simpler is None:
        return f"{text} {_word(number).capitalize()} {verb} better ({gap}), but agree less with the other fits."
    return f"{text} {_word(number).capitalize()} {verb} close ({gap})." if more < _CLOSE else text


def _marks(centers: Centers, g: int, names: Sequence[str], shared: bool) -> str:
    """What marks a cluster: columns in which its mean is high and low, against all others, in standard deviations."""
    parts = []
    for columns, word, sign in zip(centers.marks(g, 12), ("high", "low"), ("+", "−"), strict=True):
        if not len(columns):
            continue
        sizes = np.abs(centers.apart[g, columns])
        columns, sizes = columns[sizes >= 0.5 * sizes.max()], sizes[sizes >= 0.5 * sizes.max()]
        listed = ranged([names[j] for j in np.sort(columns)])
        shorter = len(listed) <= _MARKS and len(listed) < len(columns)
        shown = listed if shorter else [names[j] for j in columns[:_MARKS]]
        reach = f"{sign}{sizes.min():.1f}" + (f" to {sign}{sizes.max():.1f}" if np.ptp(sizes) >= 0.05 else "")
        parts.append(f"{word} {', '.join(shown)} ({reach} sd)")
    if not parts:
        return "no mean stands out" + ("" if shared else ": its columns vary together in another way")
    return "the opposite" if len(centers.weights) == 2 and g == 1 else "; ".join(parts)


def _groups(model: Any, stability: Stability | None) -> tuple[list[GroupAnswer], list[int]]:
    """The groups of several columns, those of most clusters first in each number, and columns that are in none."""
    names, numbers = column_names(model), group_numbers(model)
    shared = len(numbers) > 1 and bool(getattr(model, "shared_covariance", False))
    where: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for g, row in enumerate(numbers[:1] if shared else numbers):
        order = np.argsort(row, kind="stable")
        starts = np.flatnonzero(np.diff(row[order], prepend=-1))  # of the numbers from 0 on
        for members in np.split(order, starts)[1:]:
            where.setdefault((int(row[members[0]]), tuple(members.tolist())), []).append(g)
    measured = {(group.component, frozenset(group.columns)): group for group in stability.groups} if stability else {}
    found = []
    for (number, columns), clusters in sorted(where.items(), key=lambda item: (item[0][0], -len(item[1]))):
        key = frozenset(names[j] for j in columns)
        each = [measured[g, key] for g in clusters if (g, key) in measured]
        worst = min(each, key=lambda group: (len(group.core), group.together), default=None)
        said = ("", "") if worst is None or stability is None else (worst.verdict, stability.words(worst))
        inside = tuple(range(len(numbers)) if shared else clusters)
        found.append(GroupAnswer(number, named(model, "group", number), columns, inside, *said))
    return found, np.flatnonzero((numbers < 0).all(axis=0)).tolist()


def _columns(model: Any, groups: Sequence[GroupAnswer], alone: int) -> str:
    """How many groups of columns there are, and whether they are the same in all clusters."""
    p, G = model.n_features_in_, len(np.atleast_2d(model.column_labels_))
    if not groups:
        return "No columns go together: each varies on its own" + (" in every cluster." if G > 1 else ".")
    rest = f"; {_word(alone)} {'column is' if alone == 1 else 'columns are'} alone" if alone else ""
    if len(groups) == 1 and len(groups[0].columns) == p:
        return f"All {p} columns are correlated: no part of them stands out."
    if all(len(group.clusters) == G for group in groups):
        where = ", the same in all clusters" if G > 1 else ""
        return f"{_counted(len(groups), 'column group')}{where}{rest}."
    counts = [sum(g in group.clusters for group in groups) for g in range(G)]
    same = sum(len(group.clusters) == G for group in groups)
    common = f", {_word(same)} of them the same in all" if same else ""
    return f"Column groups differ between clusters: {_joined(list(map(str, counts)))}{common}{rest}."


def _shared(model: Any) -> Iterable[str]:
    """What all columns share, and the split that stands out where the groups say little."""
    single = np.ndim(model.column_labels_) == 1
    blocks = [model.blocks_] if single else model.blocks_
    splits = [getattr(model, "split_", None)] if single else getattr(model, "splits_", [None] * len(blocks))
    numbers, names = [block.common.shape[1] for block in blocks], column_names(model)
    if any(numbers):
        shares = [float(((b.common**2).sum(axis=1) / b.variances).mean()) for b in blocks if b.common.size]
        low, high = (f"{100 * share:.0f}" for share in (min(shares), max(shares)))
        some = [named(model, "cluster", g) for g, q in enumerate(numbers) if q]
        where, q = "" if len(some) == len(blocks) else f" in {_joined(some)}", max(numbers)
        of = f"{low if low == high else f'{low} to {high}'} % of their variance"
        factors = (
            "a common factor"
            if q == 1
            else f"{'' if min(n for n in numbers if n) == q else 'up to '}{_word(q)} common factors"
        )
        yield f"On top of the groups all columns share {factors}{where}: {of}."
    shared = getattr(model, "shared_covariance", False)
    for g, split in enumerate(splits[:1] if shared else splits):
        if split is not None:
            where = f" in {named(model, 'cluster', g)}" if len(blocks) > 1 and not shared else ""
            listed = "; ".join(
                ", ".join(ranged([names[j] for j in group])) for group in split.partition.groups if len(group) > 1
            )
            number = int((split.partition.sizes > 1).sum())
            text = f"No split{where} is certain. The one that stands out (silhouette {split.silhouette:.2f}) has"
            yield _cut(f"{text} {_word(number)} group{'s' * (number > 1)}: {listed}", 3 * _WIDTH)


def _trust(model: Any, groups: Sequence[GroupAnswer], stability: Stability | None) -> Iterable[str]:
    """How clear the rows are and how often groups and clusters come back, or why that cannot be known."""
    if len(getattr(model, "weights_", ())) > 1:
        if model.n_features_in_ > len(model.row_labels_):
            yield (
                "More columns than rows: how sure the cluster of a row is cannot be known, and the clusters are those "
                "of the start. Compare them with k-means."
            )
        elif len(getattr(model, "_fit_sums", ())) > 3:
            share = model._fit_sums[3] / model._fit_sums[0]
            yield f"{100 * share:.0f} % of the rows are clear: their cluster has a probability of at least {CLEAR:g}."
    verdicts = [group.verdict for group in groups if group.verdict]
    if stability is None or not verdicts:
        return
    counts = [(word, verdicts.count(word)) for word in ("firm", "open", "chance") if word in verdicts]
    if len(counts) == 1:
        every = "The column group is" if len(verdicts) == 1 else "All column groups are"
        yield f"{every} {counts[0][0]} in {stability.n_resamples} resamples of the rows."
    else:
        listed = _joined([f"{n} {'are' if n > 1 else 'is'} {word}" for word, n in counts])
        yield f"Of {len(verdicts)} column groups {listed} in {stability.n_resamples} resamples of the rows."
    if stability.clusters:
        least = min(stability.clusters, key=lambda cluster: cluster.stability)
        name = named(model, "cluster", least.component)
        text = f"Fitted again {stability.n_refits} times, the clusters overlap with themselves by at least"
        yield f"{text} {100 * least.stability:.0f} % on average ({name}: {least.verdict})."


def _cut(line: str, width: int = _WIDTH) -> str:
    return line if len(line) <= width else line[: width - 2].rsplit(", ", 1)[0] + ", …"
