"""Gather: batches of columns of any type become a table of numbers.

Batches come in one after another; a column stays numeric as long as all its cells are numbers, and the first column of
different texts names the rows. Only the numbers, and the texts that are needed, are held in memory.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from blockmix.cli.tables.table import Reading, RowNumbers, Table, refuse_twins, refuse_unknown
from blockmix.cli.tables.text import Batches
from blockmix.structure.types import FloatArray

_GROWTH = 1.25  # of the matrix, whose new rows are touched at once
# Names that pandas and R give to a first column of row names, and pandas to its index wherever it stands.
_INDEX = {"", "Unnamed: 0", "rownames"}
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # also those that turn the direction of text
_LEVEL = re.compile(r"__index_level_\d+__")


def gather(source: str, found: Batches, how: Reading) -> Table:
    """Read all batches into a table."""
    names = tuple(_printable(name) or (f"column {j}" if j else "") for j, name in enumerate(found.names))
    refuse_twins(source, names)
    refuse_unknown(source, names, (*how.kept, *how.dropped))
    if how.only is not None:
        refuse_unknown(source, names, how.only)
    columns = _Columns(names, how, found.decimal)
    for batch in found.batches:
        columns.add(batch)
    return columns.table(source, found.named)


class _Columns:
    """The columns read so far."""

    def __init__(self, names: tuple[str, ...], how: Reading, decimal: str) -> None:
        apart = {*how.kept, *how.dropped}
        self._names, self._how, self._decimal = names, how, decimal
        wanted = set(names if how.only is None else how.only) - apart
        self._numeric = [j for j, name in enumerate(names) if name in wanted]
        index = [j for j, name in enumerate(names) if _LEVEL.fullmatch(name) or (j == 0 and name in _INDEX)]
        self._numeric = [j for j in self._numeric if j not in index]
        self._left_out: dict[str, str] = {}
        self._kept: dict[str, list[Any]] = {name: [] for name in how.kept}
        # Columns that may name the rows, by place: the first one, an index, and all texts.
        self._naming: dict[int, list[Any]] = {}
        self._unused = [j for j, name in enumerate(names) if j not in self._numeric and name not in apart]
        self._index = {0, *index}
        self._n_rows = 0
        self._matrix: FloatArray = np.empty((0, 0))
        self._places: dict[int, int] = {}

    def add(self, batch: Any) -> None:
        """Take over the rows of a batch."""
        found = {j: self._numbers(batch.column(j)) for j in self._numeric}
        for j in [j for j in self._numeric if found[j] is None]:
            self._turn_to_text(j, batch.column(j))
        if self._n_rows == 0:
            for j in self._unused:
                if j in self._index or self._numbers(batch.column(j)) is None:
                    self._naming[j] = []
            self._places = {j: place for place, j in enumerate(self._numeric)}
            self._matrix = np.empty((batch.num_rows, len(self._places)))
        end = self._n_rows + batch.num_rows
        if end > len(self._matrix):
            # In place: a second matrix would double the memory.
            self._matrix.resize((max(end, int(_GROWTH * self._n_rows)), len(self._places)), refcheck=False)
        for j in self._numeric:
            self._matrix[self._n_rows : end, self._places[j]] = found[j]
        for name, pieces in self._kept.items():
            pieces.append(batch.column(self._names.index(name)))
        for j in list(self._naming):
            self._name_rows(j, batch.column(j))
        self._n_rows = end

    def table(self, source: str, named: bool) -> Table:
        """What was read."""
        if self._n_rows == 0:
            raise ValueError(f"{source} has names of columns but no rows")
        self._matrix.resize((self._n_rows, len(self._places)), refcheck=False)
        named_by, row_names = self._row_names()
        notes: tuple[str, ...] = ()
        if row_names is None and 0 in self._numeric and self._how.only is None and self._counts():
            self._numeric.remove(0)
            notes = (f"{self._names[0]} counts the rows, so it is not used",)
        empty = np.asarray(np.isnan(self._matrix).all(axis=0))
        self._left_out |= {self._names[j]: "empty" for j in self._numeric if empty[self._places[j]]}
        places = [j for j in self._numeric if self._names[j] not in self._left_out]
        if self._how.only is not None:
            order = {name: k for k, name in enumerate(self._how.only)}
            places.sort(key=lambda j: order[self._names[j]])
        kept = [self._places[j] for j in places]
        whole = kept == list(range(self._matrix.shape[1]))
        return Table(
            source,
            tuple(self._names[j] for j in places),
            self._matrix if whole else self._matrix[:, kept],
            RowNumbers(self._n_rows) if row_names is None else row_names,
            {name: _texts(pieces) for name, pieces in self._kept.items()},
            self._left_out,
            named,
            named_by,
            notes,
        )

    def _numbers(self, cells: Any) -> FloatArray | None:
        """The cells as numbers, NaN where they are empty; None if one is no number."""
        import pyarrow as pa
        from pyarrow import compute as pc

        kind = cells.type
        if pa.types.is_boolean(kind) or pa.types.is_temporal(kind):
            return None
        if pa.types.is_dictionary(kind):
            cells = cells.cast(kind.value_type)
        text = pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)
        if text and self._decimal == ",":
            cells = pc.replace_substring(cells, ",", ".")
        try:
            return _cast(cells)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass
        try:
            return _cast(pc.utf8_trim_whitespace(cells)) if text else None
        except pa.ArrowInvalid:
            return None

    def _turn_to_text(self, j: int, cells: Any) -> None:
        self._numeric.remove(j)
        self._left_out[self._names[j]] = self._why(cells)
        if self._n_rows == 0:
            self._naming[j] = []

    def _why(self, cells: Any) -> str:
        """The first cell that is no number, and where it is if it is not at the top."""
        for i in range(len(cells)):
            if cells[i].is_valid and self._numbers(cells.slice(i, 1)) is None:
                text = str(cells[i].as_py())
                row = self._n_rows + i
                return repr(text if len(text) <= 20 else text[:19] + "…") + (f" in row {row + 1}" if row else "")
        return str(cells.type)

    def _name_rows(self, j: int, cells: Any) -> None:
        import pyarrow as pa
        from pyarrow import compute as pc

        if pa.types.is_nested(cells.type) or cells.null_count or pc.count_distinct(cells).as_py() < len(cells):
            del self._naming[j]
        else:
            self._naming[j].append(cells)

    def _row_names(self) -> tuple[str | None, list[str] | None]:
        for j in sorted(self._naming):
            texts = [str(text) for text in _texts(self._naming[j])]
            if len(set(texts)) == len(texts) > 0:
                return self._names[j], texts
        return None, None

    def _counts(self) -> bool:
        """Whether the first column counts the rows from 0 or from 1."""
        first = self._column(0)
        return self._n_rows > 2 and first[0] in (0, 1) and bool((np.diff(first) == 1).all())

    def _column(self, j: int) -> FloatArray:
        column: FloatArray = self._matrix[:, self._places[j]]
        return column


def _printable(name: str) -> str:
    """A name that does nothing to a terminal: a sign stands for each control character."""
    return _CONTROL.sub("\ufffd", name)


def _cast(cells: Any) -> FloatArray:
    import pyarrow as pa

    numbers: FloatArray = cells.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return numbers


def _texts(pieces: list[Any]) -> list[str | None]:
    same: dict[Any, str | None] = {None: None}  # a class that a million rows share is one string
    return [same.setdefault(cell, str(cell)) for piece in pieces for cell in piece.to_pylist()]
