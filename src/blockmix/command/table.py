"""Table: the numeric columns of a file, its row names and what was left out, whatever the format of the file.

One pass describes the columns. The numbers are in memory, or stay in the file if they are many. Its checks either
return a table that can be fitted or raise one sentence that names the columns or rows in the way and the remedy.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np

from blockmix.command.description import Description, describe, floats, without
from blockmix.command.options import ReadingOptions
from blockmix.command.output import note, progress_bar
from blockmix.partition import BoolArray, FloatArray
from blockmix.rows import ArrayRows, opened
from blockmix.rows.rows import chosen_rows, places, sampled

Names = Sequence[str]
Chosen = tuple[list[int], list[int], set[int], Names]  # see `choose`
_SHOWN = 5  # names in a message
_NAMELESS = "the first column, which has no name"
_INDEX = {"", "Unnamed: 0", "rownames"}  # what R and pandas call a first column of row names
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # including those that reverse text
REMEDY = "--keep {} uses it"
_LEVEL = re.compile(r"__index_level_\d+__")  # what pandas calls its index in parquet, wherever it stands


@dataclass(frozen=True, eq=False)
class Table:
    """Numeric columns by name, and the rest of a file.

    Attributes
    ----------
    source : str
        The file, for messages.
    names : tuple of p str
    values : array of shape (N, p) or FileRows
        Missing values are NaN.
    row_names : sequence of N str or int
        The numbers 1, 2, … if the file has no row names.
    texts : dict of N texts by column
        The columns requested as text, None where a cell is empty.
    left_out : dict of reason by column
        Columns that are not numeric, empty or constant, including the one that names the rows.
    named : bool
        Whether the file has column names.
    named_by : str or None
        The column that names the rows.
    notes : tuple of str
        Decisions that the user should know, for `print_notes`.
    header : tuple of str
        All columns of the file, in its order.
    taken : sequence of int or None
        The rows of the file that were not left out, if some were.
    """

    source: str
    names: tuple[str, ...]
    values: Any
    row_names: Sequence[object]
    texts: dict[str, list[str | None]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    named: bool = True
    named_by: str | None = None
    notes: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    taken: Sequence[int] | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows N."""
        return len(self.row_names)

    @property
    def lines(self) -> Sequence[int]:
        """The rows of the file, from 0, that this table has."""
        return range(self.n_rows) if self.taken is None else self.taken

    @property
    def in_memory(self) -> bool:
        """Whether the numbers are in memory, and not read from the file in each pass."""
        return isinstance(self.values, np.ndarray)

    @property
    def X(self) -> Any:
        """The rows for an estimator, with names, which a model remembers, if there are any or columns are left out."""
        named = self.named or self.names != tuple(f"x{j}" for j in range(len(self.names)))
        if not self.in_memory:
            return self.values if named else replace(self.values, names=None)
        if not named:
            return self.values
        import pandas as pd

        return pd.DataFrame(self.values, columns=[*self.names], copy=False)

    def blocks(self) -> Iterator[FloatArray]:
        """The values, some rows at a time."""
        if self.in_memory:
            yield from (self.values[place] for place in places(*self.values.shape)) if self.names else ()
        else:
            yield from (np.asarray(piece.read()) for piece in self.values.pieces())

    @cached_property
    def description(self) -> Description:
        """What one pass finds in the columns."""
        return describe(map(floats, self.blocks()), *self.values.shape)

    def column(self, j: int) -> FloatArray:
        """The numbers of a column."""
        return np.concatenate([*self.taking([j]).blocks()]).ravel()

    def taking(self, columns: Sequence[int], **changes: Any) -> Table:
        """The table with only some of the columns, in this order; these were described already."""
        columns = list(columns)
        values = self.values[:, columns] if self.in_memory else self.values.taking(columns)
        table = replace(self, names=tuple(self.names[j] for j in columns), values=values, **changes)
        described = self.description
        # Among the columns that go, only empty ones matter to the rows: see `tidied`.
        n_empty = np.count_nonzero(np.delete(described.missing, columns) == self.values.shape[0])
        kept = {name: array[columns] for name, array in vars(described).items() if not name.startswith("row_")}
        vars(table)["description"] = replace(described, **kept, row_missing=described.row_missing - n_empty)
        return table

    def without(self, flawed: BoolArray, why: str) -> Table:
        """The table without some columns, for which there is a reason."""
        names = [self.names[j] for j in np.flatnonzero(flawed)]
        left_out = self.left_out | {name: why.format(shlex.quote(name)) for name in names}
        return self.taking(np.flatnonzero(~flawed).tolist(), left_out=left_out)

    def tidied(self, keep: Names | None) -> Table:
        """The table without empty columns, and without ids but for those to keep; None keeps all."""
        if (empty := self.description.missing == self.values.shape[0]).any():
            return self.without(empty, "empty").tidied(keep)
        if keep is None or not self.names:
            return self
        may_count = isinstance(self.row_names, range)
        ids = self.description.ids(self.names, may_count, self.column) & [name not in keep for name in self.names]
        if not ids.any():
            return self
        table, first = self.without(ids, f"ids, which all differ: {REMEDY}"), int(np.argmax(ids))
        if not (may_count and self.in_memory):  # names of many rows are many texts
            return table
        row_names = [str(int(number)) for number in self.column(first)]
        return replace(table, named_by=self.names[first], row_names=row_names)

    def declared_missing(self, numbers: Sequence[float]) -> Table:
        """The table with missing values in place of these numbers."""
        if not numbers or not self.names:
            return self
        values = without(floats(self.values), numbers) if self.in_memory else replace(self.values, missing=numbers)
        return replace(self, values=values)

    def sentinels(self) -> list[str]:
        """Numbers that seem to mean a missing value, each as a sentence with the remedy."""
        sentences = []
        for code, counts in self.description.suspicious():
            listed = shortened([self.names[j] for j in np.flatnonzero(counts)])
            remedy = f"give --missing {code} if it does"
            sentences.append(f"{code} may mean a missing value in {counts.sum()} cells of {listed}: {remedy}")
        return sentences

    def varying(self) -> Table:
        """The table without constant columns.

        Raises
        ------
        ValueError
            There is nothing left to fit.
        """
        N, varies = self.values.shape[0], self.description.varies
        if not self.names:
            reasons = [f"{name} ({why})" for name, why in self.left_out.items()]
            raise ValueError(f"{self.source} has no numeric column" + (f": {shortened(reasons)}" if reasons else ""))
        if N == 1:
            raise ValueError(f"{self.source} has only one row: at least two are needed")
        if not varies.any():
            raise ValueError(f"{self.source} has {N} rows but no numeric column that varies")
        return self if varies.all() else self.without(~varies, "constant")

    def most_varying(self, n: int) -> Table:
        """The table with only the `n` columns of largest variance."""
        p = len(self.names)
        if n >= p:
            return self
        rows = ArrayRows.of(self.values) if self.in_memory else opened(self.values, allow_missing=True)
        scale = rows.measured().scale
        kept = np.sort(np.argsort(-scale, kind="stable")[:n])
        return self.taking(kept.tolist()).noted(f"kept the {n} of {p} columns with the largest variance")

    def complete(self, drop: bool, missing: bool = False) -> Table:
        """The table if all its numbers are finite or, where that is accepted, missing.

        With `drop`, without the rows that have others.
        """
        described, (N, p), stays = self.description, self.values.shape, missing and not drop
        bad = described.infinite + (0 if stays else described.missing)
        whole = described.row_infinite + (0 if stays else described.row_missing) == 0
        kind, counts = ("infinite", bad) if described.infinite.any() else ("missing", described.missing)
        worst = sorted(np.flatnonzero(counts), key=lambda j: -counts[j])
        columns, lost = shortened([f"{self.names[j]} ({counts[j]})" for j in worst]), int(N - whole.sum())
        if not counts.any():
            return self
        if lost == 0:  # missing values may stay
            text = f"{counts.sum()} of {N * p} cells ({counts.sum() / (N * p):.1%}) are missing: {columns}"
            return self.noted(text)
        if not drop:
            remedy = "replace them, leave out those rows with --drop-missing, or a column with --drop NAME"
            raise ValueError(f"{self.source} has {kind} values in {lost} of {N} rows: {columns}; {remedy}")
        if lost == N:
            remedy = f"so --drop-missing leaves none: drop a column ({columns})"
            raise ValueError(f"{self.source} has {kind} values in all rows, {remedy}")
        return self.rows(np.flatnonzero(whole).tolist()).noted(f"left out {lost} of {N} rows with {kind} values")

    def noted(self, text: str) -> Table:
        """The table with one more note."""
        table = replace(self, notes=(*self.notes, text))
        vars(table).update((name, value) for name, value in vars(self).items() if name == "description")
        return table

    def rows(self, numbers: list[int]) -> Table:
        """The table with only these rows; of a file, they must be those whose values are all finite."""
        shape = (len(numbers), len(self.names))
        return replace(
            self,
            values=self.values[numbers] if self.in_memory else replace(self.values, complete=True, shape=shape),
            row_names=[self.row_names[i] for i in numbers],
            texts={name: [column[i] for i in numbers] for name, column in self.texts.items()},
            taken=numbers,
        )

    def sample(self, n_rows: int) -> Table:
        """At most `n_rows` of the rows of a file, in memory; all rows if they are there already."""
        if self.in_memory:
            return self
        N = self.values.shape[0]
        numbers = chosen_rows(N, None, n_rows, np.random.RandomState(0))
        with progress_bar("drawing a sample", rows=self.values):
            drawn = sampled(opened(self.values, allow_missing=True), numbers)
        chosen = range(N) if numbers is None else numbers.tolist()
        texts = {name: [column[i] for i in chosen] for name, column in self.texts.items()}
        names = [self.row_names[i] for i in chosen]
        return Table(self.source, self.names, drawn.X, names, texts, self.left_out, self.named)


def shortened(names: list[str], shown: int = _SHOWN) -> str:
    """The first names of a list, and how many more there are.

    Examples
    --------
    >>> shortened(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def abridged(text: str, width: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= width else text[: width - 1] + "…"


def print_notes(table: Table) -> None:
    """Print what the user should know about the table."""
    reasons = [f"{name or _NAMELESS} ({why})" for name, why in table.left_out.items() if name != table.named_by]
    name, why = table.named_by or _NAMELESS, table.left_out.get(table.named_by or "", "")
    remedy = f": {REMEDY.format(shlex.quote(table.named_by or ''))}" if not table.named_by or "ids" in why else ""
    notes = [] if table.named_by is None else [f"row names: {name}{remedy}"]
    notes += [f"left out: {shortened(reasons, 8)}"] if reasons else []
    if len(table.names) == 1:
        notes.append(f"only one numeric column, {table.names[0]}: there are no columns to group")
    if not table.named and not table.source.endswith(".npy"):
        notes.append("the first row holds numbers, so columns are called x0, x1, …: give --header if it holds names")
    for text in (*notes, *table.notes, *(f"warning: {text}" for text in table.sentinels())):
        note(text)


def choose(source: str, names: Names, options: ReadingOptions, kept: Names | None, only: Names | None) -> Chosen:
    """The numbers of columns: of numbers, of those read for them or for row names, and of those that only name rows.

    `kept` are returned as text and `only` are the only numbers, in this order. The names of the columns of text come
    last; with kept=None these are all but `only`.

    Raises
    ------
    ValueError
        Several columns have one name, one that is asked for is not there, or a pattern matches no column.
    """
    asked = {*(only or ()), *(options.keep or ())}
    only = matching(source, names, options.columns) if only is None and options.columns else only
    dropped = {*matching(source, names, options.drop or ())} - {*(kept or ())}
    if kept is None:
        others = {*names} - dropped - {*(only or ())}
        kept = [name for name in names if name in others]
    times = Counter(names)
    if repeated := [name for name in times if times[name] > 1 and name not in dropped]:
        listed = shortened(repeated)
        remedy = f"rename them, or leave them out with --drop {shlex.quote(repeated[0])}"
        raise ValueError(f"{source} has columns of the same name: {listed}; {remedy}")
    wanted = (*kept, *(options.keep or ()), *(only or ()))
    if any(name not in times for name in wanted):
        raise lacking(source, names, wanted)
    apart, place = dropped | {*kept}, {name: j for j, name in enumerate(names)}
    read = [j for j, name in enumerate(names) if name not in apart]
    index = {j for j in read if (j == 0 and names[j] in _INDEX) or _LEVEL.fullmatch(names[j])}
    index -= {place[name] for name in asked}
    columns = {*read} - index
    used = [place[name] for name in (names if only is None else only) if place[name] in columns]
    return used, read, index, kept


def matching(source: str, names: Names, patterns: Names) -> list[str]:
    """The columns that patterns match, each of which must match one."""
    hits = {pattern: {name for name in names if name == pattern or fnmatchcase(name, pattern)} for pattern in patterns}
    if unmatched := [pattern for pattern, columns in hits.items() if not columns]:
        raise lacking(source, names, unmatched)
    return [name for name in names if any(name in columns for columns in hits.values())]


def printable(names: Sequence[str]) -> tuple[str, ...]:
    """Names that cannot control the terminal they are printed on, and are empty only in the first place."""
    return tuple(_CONTROL.sub("\ufffd", name) or (f"column {j}" if j else "") for j, name in enumerate(names))


def texts_of(pieces: Iterable[Any]) -> list[str | None]:
    """Cells as texts, None where they are empty."""
    same: dict[Any, str | None] = {None: None}  # one string for a class that a million rows share
    return [same.setdefault(cell, str(cell)) for piece in pieces for cell in piece.to_pylist()]


def lacking(source: str, names: Sequence[str], wanted: Sequence[str]) -> ValueError:
    """An error about the wanted columns that are not there, with similar names."""
    absent = [name for name in wanted if name not in names]
    folded = {name.casefold(): name for name in names}
    near = [get_close_matches(name.casefold(), folded, 1) for name in absent[:_SHOWN]] + [[]] * len(absent)
    hints = [f"did you mean {folded[similar[0]]!r}?" if similar else "" for similar in near]
    if len(absent) == 1:
        return ValueError(f"{source} has no column {absent[0]!r}: {hints[0] or f'it has {shortened([*names])}'}")
    listed = [f"{name} ({hint})" if hint else name for name, hint in zip(absent, hints, strict=False)]
    return ValueError(f"{source} lacks {len(absent)} of {len(wanted)} columns: {shortened(listed)}")
