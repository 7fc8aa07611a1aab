"""Tables that are too large for memory: `.npy`, Parquet and Arrow files, read in pieces as often as needed.

One pass counts the rows and describes the columns; the rows themselves stay in the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from blockmix.cli.reading.columns import INDEX, LEVEL, Wanted, chosen, shown_name, texts_of
from blockmix.cli.reading.file_rows import Columns, FileRows, watched
from blockmix.cli.reading.table import InputTable, check_present, check_unique
from blockmix.partition import BoolArray, FloatArray
from blockmix.rows import Arrow, Parquet, opened
from blockmix.rows.files import ArrayFile
from blockmix.rows.rows import chosen_rows, sampled

LARGE = 2**24  # numbers from which a table stays in its file: 134 MB in memory, and four times that during a fit
_KINDS = {".npy", ".parquet", ".pq", ".arrow", ".feather"}
_NUMBER = re.compile(r"u?int\d+|float|double|halffloat|float16")  # types of pyarrow
_SHOWN_TYPES = 30  # letters of a type in a message


def is_large(path: Path) -> bool:
    """Whether a file can be read in pieces and is too large to be read at once; a folder of Parquet files always is."""
    if path.is_dir():
        return any(path.rglob("*.parquet"))
    if path.suffix.lower() not in _KINDS or path.stat().st_size <= LARGE // 32:  # no sensible file is denser than that
        return False
    file = _open(path)
    return bool(file.n_columns * file.n_rows > LARGE)


def open_large(path: Path, wanted: Wanted, progress: Callable[[float], object] | None = None) -> LargeTable:
    """Describe the numeric columns of a file in one pass; `progress` gets the share of the rows read."""
    source, file = str(path), _open(path)
    if isinstance(file, ArrayFile):
        names, reasons = [f"x{j}" for j in range(file.n_columns)], {}
    else:
        schema = file.schema
        names = [shown_name(name, j) for j, name in enumerate(schema.names)]
        reasons = {name: str(kind)[:_SHOWN_TYPES] for name, kind in zip(names, schema.types, strict=True)}
        reasons = {name: kind for name, kind in reasons.items() if not _NUMBER.fullmatch(kind)}
    asked_for = wanted.only is not None
    wanted = chosen(source, names, wanted)
    check_unique(source, names, wanted.dropped)
    check_present(source, names, (*wanted.kept, *wanted.dropped, *(wanted.only or ())))
    place = {name: j for j, name in enumerate(names)}
    index = {name for j, name in enumerate(names) if (j == 0 and name in INDEX) or LEVEL.fullmatch(name)}
    apart = index | {*wanted.kept, *wanted.dropped}
    listed = [name for name in (wanted.only or names) if name not in apart]
    left_out = {name: reasons[name] for name in listed if name in reasons}
    used = [name for name in listed if name not in reasons]
    rows = FileRows(file, names, np.arange(len(names)), (file.n_rows, len(names))).taking([place[n] for n in used])
    with watched(rows, progress or (lambda share: None)):
        found = Columns.of(rows)
    texts = {name: _texts(path, file, place[name]) for name in wanted.kept}
    table = LargeTable(
        source,
        tuple(used),
        rows,
        range(1, rows.shape[0] + 1),
        texts,
        left_out,
        not isinstance(file, ArrayFile),
        notes=(f"{source} is read in pieces, as often as needed, because it is large",),
        found=found,
    )
    return table if asked_for else table.tidied(wanted.only is None)


@dataclass(frozen=True, eq=False)
class LargeTable(InputTable):
    """A table whose values are `FileRows`."""

    found: Columns = field(kw_only=True)

    def tidied(self, all_wanted: bool) -> LargeTable:
        """The table without empty columns, and without a first column that counts the rows."""
        empty = self.found.missing == self.shape[0]
        table = self._without(empty, "empty")
        if all_wanted and len(table.names) and table.found.counts[0] and table.names[0] == self.names[0]:
            notes = (*self.notes, f"{self.names[0]} counts the rows, so it is not used")
            table = replace(table._taking(range(1, len(table.names))), notes=notes)
        return table

    def varying(self) -> LargeTable:
        """The table without constant columns."""
        self._check_columns()
        table = self._without(~self.found.varies, "constant")
        if not table.names:
            raise ValueError(f"{self.source} has {self.shape[0]} rows but no numeric column that varies")
        return table

    def most_varying(self, n: int) -> LargeTable:
        """The table with only the `n` columns of largest variance."""
        p = len(self.names)
        if n >= p:
            return self
        kept = np.sort(np.argsort(-self.scaling()["scale"], kind="stable")[:n])
        notes = (*self.notes, f"kept the {n} of {p} columns with the largest variance")
        return replace(self._taking(kept.tolist()), notes=notes)

    def complete(self, drop: bool, gaps: bool = False) -> LargeTable:
        """The table if all its numbers are finite, or missing and there may be gaps; see `InputTable.complete`."""
        counts = self.found.missing + self.found.infinite
        if not counts.any():
            return self
        kind = "infinite" if self.found.infinite.any() else "missing"
        if gaps and not drop and kind == "missing":
            return replace(self, notes=(*self.notes, self._gaps(counts)))
        if not drop:
            counts = self.found.infinite if gaps and kind == "infinite" else counts
            raise ValueError(
                f"{self.source} has {kind} values: {self.worst(counts)}; replace them, leave out those rows with "
                "--drop-missing, or a column with --drop NAME"
            )
        N = self.shape[0]
        whole = np.concatenate([np.isfinite(piece.read()).all(axis=1) for piece in self.values.pieces()])
        kept = np.flatnonzero(whole)
        if not len(kept):
            raise ValueError(
                f"{self.source} has {kind} values in all rows, so --drop-missing leaves none: drop a column "
                f"({self.worst(counts)})"
            )
        rows = replace(self.values, whole=True, shape=(len(kept), len(self.names)))
        return replace(
            self,
            values=rows,
            row_names=(kept + 1).tolist(),
            texts={name: [column[i] for i in kept.tolist()] for name, column in self.texts.items()},
            notes=(*self.notes, f"left out {N - len(kept)} of {N} rows with {kind} values"),
            found=Columns.of(rows),
        )

    def scaling(self) -> dict[str, FloatArray]:
        """Mean and deviation of each column."""
        measured = opened(self.values, allow_missing=True).measured()
        return {"location": measured.location, "scale": measured.scale}

    def scaled(self, location: FloatArray, scale: FloatArray) -> LargeTable:
        """The table with values (x − location) / scale."""
        return replace(self, values=replace(self.values, location=location, scale=scale))

    def sample(self, most: int) -> InputTable:
        """At most `most` of the rows, in memory."""
        numbers = chosen_rows(self.shape[0], None, most, np.random.RandomState(0))
        drawn = sampled(opened(self.values, allow_missing=True), numbers)
        places = range(self.shape[0]) if numbers is None else numbers.tolist()
        return InputTable(
            self.source,
            self.names,
            drawn.X,
            [self.row_names[i] for i in places],
            {name: [column[i] for i in places] for name, column in self.texts.items()},
            self.left_out,
            self.named,
        )

    def missing(self) -> dict[str, int]:
        """Number of missing cells by column, of columns that have any."""
        return self._by_name(self.found.missing)

    def matrix(self) -> Any:
        """The rows for an estimator."""
        return self.values if self._has_names() else replace(self.values, names=None)

    def _taking(self, columns: Sequence[int]) -> LargeTable:
        columns = list(columns)
        return replace(
            self,
            names=tuple(self.names[j] for j in columns),
            values=self.values.taking(columns),
            found=self.found.taking(columns),
        )

    def _without(self, flawed: BoolArray, why: str) -> LargeTable:
        if not flawed.any():
            return self
        left_out = self.left_out | {self.names[j]: why for j in np.flatnonzero(flawed)}
        return replace(self._taking(np.flatnonzero(~flawed).tolist()), left_out=left_out)


def _open(path: Path) -> Any:
    """The file as a source of all its columns."""
    if path.suffix.lower() == ".npy":
        return ArrayFile.load(path)
    return Arrow(path) if path.suffix.lower() in (".arrow", ".feather") else Parquet(path)


def _texts(path: Path, file: Any, place: int) -> list[str | None]:
    """A column as text."""
    if isinstance(file, ArrayFile):
        raise ValueError(f"{path} is a matrix without names")
    return texts_of(file.column(file.names[place]))
