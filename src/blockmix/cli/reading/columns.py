"""Batches of cells of any type, collected into a table of numbers.

Only the numbers, the requested texts and the possible row names are kept in memory.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from blockmix.cli.reading.table import InputTable, check_present, check_unique, shortened
from blockmix.cli.reading.text import Batches
from blockmix.partition import BoolArray, FloatArray

INDEX = {"", "Unnamed: 0", "rownames"}  # what R and pandas call a first column of row names
LEVEL = re.compile(r"__index_level_\d+__")  # what pandas calls its index in parquet, wherever it stands
_GROWTH = 1.25  # of the matrix when it is full
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # including those that reverse text
_NUMBER = r"^[-+]?((\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|(?i:nan|inf|infinity))$"


@dataclass(frozen=True)
class Wanted:
    """The columns to return as text, those to leave out, the only ones to return as numbers, and texts to ignore.

    `columns` and `exclude` are patterns of names, which `chosen` turns into `only` and `dropped`.
    """

    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None
    missing: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


def chosen(source: str, names: Sequence[str], wanted: Wanted) -> Wanted:
    """What is wanted of these columns, with names instead of patterns.

    Raises
    ------
    ValueError
        A pattern matches no column.
    """
    for option, patterns in (("--columns", wanted.columns), ("--exclude", wanted.exclude)):
        idle = [pattern for pattern in patterns if not _matching(names, [pattern])]
        if idle:
            raise ValueError(
                f"{option} {shlex.quote(idle[0])} matches no column of {source}: it has {shortened([*names])}"
            )
    only = wanted.only
    if only is None and wanted.columns:
        only = tuple(name for name in _matching(names, wanted.columns) if name not in wanted.kept)
    dropped = dict.fromkeys((*wanted.dropped, *_matching(names, wanted.exclude)))
    return replace(wanted, dropped=tuple(name for name in dropped if name not in wanted.kept), only=only)


def _matching(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def shown_name(name: str, place: int) -> str:
    """A name that cannot control the terminal it is printed on, and is empty only in the first place."""
    return _CONTROL.sub("\ufffd", name) or (f"column {place}" if place else "")


def collect(source: str, found: Batches, wanted: Wanted, report: Callable[[], object] | None = None) -> InputTable:
    """Read all batches into a table; `report` is called after each."""
    names = tuple(shown_name(name, j) for j, name in enumerate(found.names))
    asked_for = wanted.only is not None
    wanted = chosen(source, names, wanted)
    check_unique(source, names, wanted.dropped)
    check_present(source, names, (*wanted.kept, *wanted.dropped))
    check_present(source, names, wanted.only or ())
    columns = _Columns(names, wanted, found.decimal, asked_for)
    for batch in found.batches:
        columns.add(batch)
        if report is not None:
            report()
    if columns.n_rows == 0:
        raise ValueError(f"{source} has column names but no rows")
    return columns.table(source, found.named)


class _Columns:
    """The columns read so far, known by their places: numbers, texts and possible row names."""

    def __init__(self, names: tuple[str, ...], wanted: Wanted, decimal: str, asked_for: bool) -> None:
        self._names, self._decimal, self._missing, self._asked_for = names, decimal, wanted.missing, asked_for
        self._all_wanted = wanted.only is None
        place = {name: j for j, name in enumerate(names)}
        apart = {*wanted.kept, *wanted.dropped}
        self._read = [j for j, name in enumerate(names) if name not in apart]
        index = {j for j in self._read if (j == 0 and names[j] in INDEX) or LEVEL.fullmatch(names[j])}
        order = names if wanted.only is None else wanted.only
        self._wanted = [place[name] for name in order if name not in apart and place[name] not in index]
        # A first column that is not wanted may name the rows, even if it holds numbers.
        self._may_name = index | {0} - set(self._wanted)
        self._row_names: dict[int, list[Any]] = {}
        self._kept: dict[int, list[Any]] = {place[name]: [] for name in wanted.kept}
        self._first_text: dict[int, tuple[str, int]] = {}  # the first cell of text and its row
        self._surplus = np.zeros(len(names), dtype=int)  # how many more cells are numbers than texts
        self._numeric: list[int] = []  # the columns of the matrix
        self._matrix: FloatArray = np.empty((0, 0))
        self.n_rows = 0

    def add(self, batch: Any) -> None:
        """Read a batch."""
        begin, end = self.n_rows, self.n_rows + batch.num_rows
        numbers: dict[int, FloatArray] = {}
        for j in self._read:
            numbers[j], text = _numbers(batch.column(j), self._decimal, self._missing)
            self._surplus[j] += len(text) - np.isnan(numbers[j]).sum() - text.sum()
            if text.any() and j not in self._first_text:
                i = int(np.argmax(text))
                self._first_text[j] = str(batch.column(j)[i].as_py()).strip(), begin + i
        if begin == 0:
            self._numeric = [j for j in self._wanted if j not in self._first_text or self._surplus[j] > 0]
            self._row_names = {j: [] for j in self._read if j in self._may_name or j in self._first_text}
        if end > len(self._matrix):
            # In place, since a second matrix would double the memory.
            self._matrix.resize((max(end, int(_GROWTH * begin)), len(self._numeric)), refcheck=False)
        for k, j in enumerate(self._numeric):
            self._matrix[begin:end, k] = numbers[j]
        self._row_names = {j: cells for j, cells in self._row_names.items() if _all_differ(batch.column(j))}
        for j, cells in (*self._row_names.items(), *self._kept.items()):
            cells.append(batch.column(j))
        self.n_rows = end

    def table(self, source: str, named: bool) -> InputTable:
        """The table of all batches."""
        self._refuse_typos(source)
        self._matrix.resize((self.n_rows, len(self._numeric)), refcheck=False)
        left_out = {j: self._shown_text(j) for j in self._wanted if j in self._first_text}
        # A column that a model asks for may have values only in other tables.
        empty = np.flatnonzero(np.isnan(self._matrix).all(axis=0) & (not self._asked_for))
        left_out = {self._numeric[k]: "empty" for k in empty} | left_out
        named_by, row_names = self._chosen_row_names()
        counts = row_names is None and self._all_wanted and self._first_column_counts()
        used = [k for k, j in enumerate(self._numeric) if j not in left_out and not (counts and j == 0)]
        return InputTable(
            source,
            tuple(self._names[self._numeric[k]] for k in used),
            self._matrix if len(used) == len(self._numeric) else self._matrix[:, used],
            range(1, self.n_rows + 1) if row_names is None else row_names,
            {self._names[j]: texts_of(cells) for j, cells in self._kept.items()},
            {self._names[j]: why for j, why in sorted(left_out.items())},
            named,
            named_by,
            (f"{self._names[0]} counts the rows, so it is not used",) if counts else (),
        )

    def _refuse_typos(self, source: str) -> None:
        """Raise a ValueError that names the texts in columns that otherwise hold numbers."""
        typos = [j for j in self._wanted if j in self._first_text and self._surplus[j] > 0]
        if typos:
            listed = shortened([f"{self._names[j]} ({self._shown_text(j, first=True)})" for j in typos])
            name, text = self._names[typos[0]], self._first_text[typos[0]][0]
            raise ValueError(
                f"{source} has text in columns of numbers: {listed}; correct it, declare it missing with --missing "
                f"{shlex.quote(text)}, or leave out the column with --drop {shlex.quote(name)}"
            )

    def _shown_text(self, j: int, first: bool = False) -> str:
        """The first text of a column for a message, with its row; if that is the first row, only on request."""
        text, row = self._first_text[j]
        return repr(text if len(text) <= 20 else text[:19] + "…") + (f" in row {row + 1}" if row or first else "")

    def _chosen_row_names(self) -> tuple[str | None, list[str] | None]:
        """The first column whose cells all differ, and its cells."""
        for j, cells in self._row_names.items():
            texts = [str(text) for text in texts_of(cells)]
            if len(set(texts)) == len(texts):
                return self._names[j], texts
        return None, None

    def _first_column_counts(self) -> bool:
        """Whether the first column is 0, 1, 2, … or 1, 2, 3, …."""
        if self.n_rows <= 2 or self._numeric[:1] != [0]:
            return False
        first = self._matrix[:, 0]
        return first[0] in (0, 1) and bool((np.diff(first) == 1).all())


def _numbers(cells: Any, decimal: str, missing: tuple[str, ...]) -> tuple[FloatArray, BoolArray]:
    """The cells as numbers, NaN where there is none, and which of them are text that does not mean a missing value."""
    import pyarrow as pa
    from pyarrow import compute as pc

    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    if str(cells.type) == "string_view":
        cells = cells.cast(pa.string())
    text = np.zeros(len(cells), dtype=bool)
    if pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type):
        if decimal == ",":
            cells = pc.replace_substring(cells, ",", ".")
        try:
            numbers = cells.cast(pa.float64())
        except pa.ArrowInvalid:
            cells = pc.utf8_trim_whitespace(cells)
            number = pc.match_substring_regex(cells, _NUMBER)
            known = pc.or_(number, pc.is_in(cells, pa.array(missing, cells.type)))
            text = pc.invert(known).fill_null(False).to_numpy(zero_copy_only=False)
            numbers = pc.if_else(number, cells, None).cast(pa.float64())
    elif pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type) or pa.types.is_decimal(cells.type):
        numbers = cells.cast(pa.float64(), safe=False)
    else:
        text = cells.is_valid().to_numpy(zero_copy_only=False)
        numbers = pa.nulls(len(cells), pa.float64())
    return numbers.to_numpy(zero_copy_only=False), text


def _all_differ(cells: Any) -> bool:
    import pyarrow as pa
    from pyarrow import compute as pc

    if pa.types.is_nested(cells.type) or cells.null_count:
        return False
    return bool(pc.count_distinct(cells).as_py() == len(cells))


def texts_of(pieces: Iterable[Any]) -> list[str | None]:
    """Cells as texts, None where they are empty."""
    same: dict[Any, str | None] = {None: None}  # one string for a class that a million rows share
    return [same.setdefault(cell, str(cell)) for piece in pieces for cell in piece.to_pylist()]
