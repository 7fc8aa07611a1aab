"""The rows of a file that is read in pieces, and a description of its columns from one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np

from blockmix.partition import BoolArray, FloatArray, IntArray
from blockmix.rows.files import ArrayFile
from blockmix.rows.streamed import Piece


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
    whole : bool
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
    whole: bool = False
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
        found: np.dtype[Any] = self.file.dtype
        return found

    def taking(self, columns: Sequence[int]) -> FileRows:
        """Only some of the columns, in this order."""
        places = self.places[columns]
        names = None if self.names is None else [self.names[j] for j in columns]
        found = replace(self, names=names, places=places, shape=(self.shape[0], len(places)))
        if isinstance(self.file, ArrayFile):
            return found
        file = replace(self.file, columns=[self.file.names[j] for j in places])
        return replace(found, file=file, places=np.arange(len(places)))

    def pieces(self) -> Iterator[Piece]:
        """All rows, in the order of the file."""
        done = 0
        for piece in self.file.pieces():
            mine = Piece(piece.name, piece.n_rows, partial(self._read, piece))
            if self.whole:
                values = mine.read()
                values = values[np.isfinite(values).all(axis=1)]
                mine = Piece(piece.name, len(values), partial(np.asarray, values))
            if mine.n_rows:
                yield mine
            done += mine.n_rows
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


@dataclass(frozen=True, eq=False)
class Columns:
    """What one pass finds in p columns: missing and infinite cells, and whether values vary and count the rows."""

    missing: IntArray
    infinite: IntArray
    varies: BoolArray
    counts: BoolArray

    @classmethod
    def of(cls, rows: FileRows) -> Columns:
        """Read all rows."""
        p = rows.n_columns
        missing, infinite = np.zeros(p, dtype=int), np.zeros(p, dtype=int)
        first, varies, counts, start = np.full(p, np.nan), np.zeros(p, dtype=bool), np.ones(p, dtype=bool), 0
        for piece in rows.pieces():
            values = np.asarray(piece.read())
            gaps, finite = np.isnan(values), np.isfinite(values)
            missing += gaps.sum(axis=0)
            infinite += (~finite & ~gaps).sum(axis=0)
            first = np.where(np.isnan(first), values[np.argmax(~gaps, axis=0), np.arange(p)], first)
            varies |= ((values != first) & ~gaps).any(axis=0)
            counts &= (values == np.arange(start, start + len(values))[:, None] + first).all(axis=0)
            start += len(values)
        return cls(missing, infinite, varies, counts & np.isin(first, (0, 1)))

    def taking(self, columns: Sequence[int]) -> Columns:
        """Only some of the columns."""
        return Columns(*(getattr(self, item.name)[columns] for item in fields(self)))


@contextmanager
def watched(X: Any, listener: Callable[[float], object]) -> Iterator[None]:
    """Call `listener` with the share of the rows read so far, in each pass over a large file; not for other tables."""
    listeners = X.listeners if isinstance(X, FileRows) else []
    listeners.append(listener)
    try:
        yield
    finally:
        listeners.remove(listener)
