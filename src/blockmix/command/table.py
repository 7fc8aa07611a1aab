"""Table: the numeric columns of a file, its row names and what was left out, whatever the format of the file.

One pass describes the columns. The numbers are in memory, or stay in the file if they are many. Its checks either
return a table that can be fitted or raise one sentence that names the columns or rows in the way and the remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from blockmix.command.output import progress_bar
from blockmix.partition import BoolArray, FloatArray, IntArray
from blockmix.rows import opened
from blockmix.rows.files import ArrayFile, needed
from blockmix.rows.rows import chosen_rows, places, sampled
from blockmix.rows.streamed import Piece

_SHOWN = 5  # names in a message
_BLOCK = 1000  # columns that are scaled at once


@dataclass(frozen=True, eq=False)
class FileRows:
    """Some columns of a file as rows for an estimator.

    Attributes
    ----------
    file : Source
    names : list of str or None
    places : array of p int
        The columns of `file`.
    shape : (N, p)
    complete : bool
        Whether rows with values that are not finite are left out.
    location, scale : arrays of shape (p,) or None
        A value x is read as (x − location) / scale.
    listeners : list of functions
        Each is called with the share of the rows read so far in a pass.
    """

    file: Any
    names: list[str] | None
    places: IntArray
    shape: tuple[int, int]
    complete: bool = False
    location: FloatArray | None = None
    scale: FloatArray | None = None
    listeners: list[Callable[[float], object]] = field(default_factory=list)

    @property
    def n_columns(self) -> int:
        """Number of columns p."""
        return len(self.places)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values as stored."""
        stored: np.dtype[Any] = self.file.dtype
        return stored

    def taking(self, columns: Sequence[int]) -> FileRows:
        """Only some of the columns, in this order."""
        chosen = self.places[columns]
        names = None if self.names is None else [self.names[j] for j in columns]
        rows = replace(self, names=names, places=chosen, shape=(self.shape[0], len(chosen)))
        if isinstance(self.file, ArrayFile):
            return rows
        file = replace(self.file, columns=[self.file.names[j] for j in chosen])
        return replace(rows, file=file, places=np.arange(len(chosen)))

    def pieces(self) -> Iterator[Piece]:
        """All rows, in the order of the file."""
        done = 0
        for stored in self.file.pieces():
            piece = Piece(stored.name, stored.n_rows, partial(self._read, stored))
            if self.complete:
                values = piece.read()
                values = values[np.isfinite(values).all(axis=1)]
                piece = Piece(stored.name, len(values), partial(np.asarray, values))
            if piece.n_rows:
                yield piece
            done += piece.n_rows
            for listener in self.listeners:
                listener(done / max(self.shape[0], 1))

    def _read(self, piece: Piece) -> FloatArray:
        values: FloatArray = np.asarray(piece.read())
        if values.shape[1] != len(self.places):
            values = values[:, self.places]
        if self.location is None or self.scale is None:
            return values
        return np.asarray((values - self.location) / self.scale)

    def __getstate__(self) -> dict[str, Any]:
        """Another process has no bar to move."""
        return {**self.__dict__, "listeners": []}


@contextmanager
def watched(X: Any, listener: Callable[[float], object]) -> Iterator[None]:
    """Call `listener` with the share of the rows read so far, in each pass over a large file; not for other tables."""
    listeners = X.listeners if isinstance(X, FileRows) else []
    listeners.append(listener)
    try:
        yield
    finally:
        listeners.remove(listener)


@dataclass(frozen=True, eq=False)
class Description:
    """What one pass finds in N rows and p columns.

    Attributes
    ----------
    missing, infinite : arrays of shape (p,)
        Number of such cells.
    varies, counts : arrays of shape (p,)
        Whether a column has different values, and whether it is 0, 1, 2, … or 1, 2, 3, ….
    row_missing, row_infinite : arrays of shape (N,)
        Number of such cells.
    """

    missing: IntArray
    infinite: IntArray
    varies: BoolArray
    counts: BoolArray
    row_missing: Any
    row_infinite: Any


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
        Decisions of the reader that the user should know.
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

    @property
    def shape(self) -> tuple[int, int]:
        """N and p."""
        return len(self.row_names), len(self.names)

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
        return (
            needed("pandas", "app").DataFrame(self.values, columns=[*self.names], copy=False) if named else self.values
        )

    def blocks(self) -> Iterator[FloatArray]:
        """The values, some rows at a time."""
        if self.in_memory:
            yield from (self.values[place] for place in places(*self.values.shape)) if self.names else ()
        else:
            yield from (np.asarray(piece.read()) for piece in self.values.pieces())

    @cached_property
    def description(self) -> Description:
        """What one pass finds in the columns."""
        N, p = self.shape
        missing, infinite = np.zeros(p, dtype=int), np.zeros(p, dtype=int)
        row_missing, row_infinite = np.zeros(N, dtype=np.int32), np.zeros(N, dtype=np.int32)
        first, varies, counts, start = np.full(p, np.nan), np.zeros(p, dtype=bool), np.ones(p, dtype=bool), 0
        for values in self.blocks():
            rows = slice(start, start + len(values))
            absent, unbounded = np.isnan(values), np.isinf(values)
            missing += absent.sum(axis=0)
            infinite += unbounded.sum(axis=0)
            row_missing[rows], row_infinite[rows] = absent.sum(axis=1), unbounded.sum(axis=1)
            first = np.where(np.isnan(first), values[np.argmax(~absent, axis=0), np.arange(p)], first)
            varies |= ((values != first) & ~absent).any(axis=0)
            counts &= (values == np.arange(rows.start, rows.stop)[:, None] + first).all(axis=0)
            start = rows.stop
        return Description(missing, infinite, varies, counts & np.isin(first, (0, 1)), row_missing, row_infinite)

    def taking(self, columns: Sequence[int], **changes: Any) -> Table:
        """The table with only some of the columns, in this order; these were described already."""
        columns = list(columns)
        values = self.values[:, columns] if self.in_memory else self.values.taking(columns)
        table = replace(self, names=tuple(self.names[j] for j in columns), values=values, **changes)
        known = self.description
        # Among the columns that go, only empty ones matter to the rows: see `tidied`.
        n_empty = np.count_nonzero(np.delete(known.missing, columns) == self.shape[0])
        vars(table)["description"] = Description(
            known.missing[columns],
            known.infinite[columns],
            known.varies[columns],
            known.counts[columns],
            known.row_missing - n_empty,
            known.row_infinite,
        )
        return table

    def without(self, flawed: BoolArray, why: Sequence[str]) -> Table:
        """The table without some columns, for which there is a reason."""
        if not flawed.any():
            return self
        left_out = self.left_out | {self.names[j]: why[j] for j in np.flatnonzero(flawed).tolist()}
        return self.taking(np.flatnonzero(~flawed).tolist(), left_out=left_out)

    def tidied(self, all_wanted: bool) -> Table:
        """The table without empty columns and, if all are wanted, without a first column that counts the rows."""
        table = self.without(self.description.missing == self.shape[0], ["empty"] * len(self.names))
        first_counts = table.names[:1] == self.names[:1] and table.description.counts[:1].any()
        if not (all_wanted and first_counts and self.shape[0] > 2):
            return table
        notes = (*self.notes, f"{self.names[0]} counts the rows, so it is not used")
        return table.taking(range(1, len(table.names)), notes=notes)

    def varying(self) -> Table:
        """The table without constant columns.

        Raises
        ------
        ValueError
            There is nothing left to fit.
        """
        if not self.names:
            reasons = [f"{name} ({why})" for name, why in self.left_out.items()]
            raise ValueError(f"{self.source} has no numeric column" + (f": {shortened(reasons)}" if reasons else ""))
        N = self.shape[0]
        if N == 1:
            raise ValueError(f"{self.source} has only one row: at least two are needed")
        if not self.description.varies.any():
            raise ValueError(f"{self.source} has {N} rows but no numeric column that varies")
        empty = self.description.missing == N
        return self.without(~self.description.varies, np.where(empty, "empty", "constant").tolist())

    def most_varying(self, n: int) -> Table:
        """The table with only the `n` columns of largest variance."""
        p = len(self.names)
        if n >= p:
            return self
        kept = np.sort(np.argsort(-self.scaling()["scale"], kind="stable")[:n])
        notes = (*self.notes, f"kept the {n} of {p} columns with the largest variance")
        return self.taking(kept.tolist(), notes=notes)

    def complete(self, drop: bool, missing: bool = False) -> Table:
        """The table if all its numbers are finite or, where that is accepted, missing.

        With `drop`, without the rows that have others.
        """
        known, (N, p) = self.description, self.shape
        if not (known.missing.any() or known.infinite.any()):
            return self
        kind = "infinite" if known.infinite.any() else "missing"
        bad, whole = known.missing + known.infinite, known.row_missing + known.row_infinite == 0
        if missing and not drop and kind == "missing":
            n, blank = int(bad.sum()), int((known.row_missing == p).sum())
            note = f"{n} of {N * p} cells ({n / (N * p):.1%}) are missing: {self._worst(bad)}"
            note += f"; {blank} row{' has' if blank == 1 else 's have'} no values" if blank else ""
            return replace(self, notes=(*self.notes, note))
        if missing and not drop:  # only these must go
            bad, whole = known.infinite, known.row_infinite == 0
        lost = int(N - whole.sum())
        if not drop:
            raise ValueError(
                f"{self.source} has {kind} values in {lost} of {N} rows: {self._worst(bad)}; replace them, leave out "
                "those rows with --drop-missing, or a column with --drop NAME"
            )
        if lost == N:
            raise ValueError(
                f"{self.source} has {kind} values in all rows, so --drop-missing leaves none: drop a column "
                f"({self._worst(bad)})"
            )
        table = self.rows(np.flatnonzero(whole).tolist())
        return replace(table, notes=(*self.notes, f"left out {lost} of {N} rows with {kind} values"))

    def _worst(self, counts: IntArray) -> str:
        """The columns with the most of something, such as missing cells."""
        order = sorted(np.flatnonzero(counts), key=lambda j: -counts[j])
        return shortened([f"{self.names[j]} ({counts[j]})" for j in order])

    def rows(self, numbers: list[int]) -> Table:
        """The table with only these rows; of a file, they must be those whose values are all finite."""
        shape = (len(numbers), len(self.names))
        return replace(
            self,
            values=self.values[numbers] if self.in_memory else replace(self.values, complete=True, shape=shape),
            row_names=[self.row_names[i] for i in numbers],
            texts={name: [column[i] for i in numbers] for name, column in self.texts.items()},
        )

    def scaling(self) -> dict[str, FloatArray]:
        """Mean and deviation of each column."""
        if not self.in_memory:
            measured = opened(self.values, allow_missing=True).measured()
            return {"location": measured.location, "scale": measured.scale}
        parts = []
        for first in range(0, len(self.names), _BLOCK):
            values = self.values[:, first : first + _BLOCK]
            largest = np.maximum(np.nanmax(values, axis=0), -np.nanmin(values, axis=0))
            unit = values / largest  # so that squares do not overflow
            parts.append((np.nanmean(unit, axis=0) * largest, np.nanstd(unit, axis=0) * largest))
        location, scale = map(np.concatenate, zip(*parts, strict=True))
        return {"location": location, "scale": scale}

    def scaled(self, location: FloatArray, scale: FloatArray) -> Table:
        """The table with values (x − location) / scale, in place to save memory."""
        if not self.in_memory:
            return replace(self, values=replace(self.values, location=location, scale=scale))
        values = self.values
        values -= location
        values /= scale
        return self

    def sample(self, most: int) -> Table:
        """At most `most` of the rows of a file, in memory; all rows if they are there already."""
        if self.in_memory:
            return self
        N = self.shape[0]
        numbers = chosen_rows(N, None, most, np.random.RandomState(0))
        with progress_bar("drawing a sample", 1) as update, watched(self.values, update):
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
