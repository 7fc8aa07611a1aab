"""Streamed rows: read from a source piece by piece, never all at once.

A source (a file, a sparse matrix, a function that returns chunks) yields its pieces in order, any number of times.
Threads cut them into chunks and apply a function. An error names the piece that cannot be read. The paper has no
counterpart: its data are in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import InitVar, dataclass, field
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np

from blockmix.partition import FloatArray
from blockmix.rows.measured import EXACT, Observed, Resolution, S, total
from blockmix.rows.powers import Powers
from blockmix.rows.rows import Chunk, Rows, in_order, places

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Piece:
    """Some consecutive rows of a source: a name for errors, their number, a function that reads them, shape (m, p)."""

    name: str
    n_rows: int
    read: Callable[[], Any]


@dataclass(frozen=True, eq=False)
class Source:
    """Rows of one type that need not be in memory; any object with these attributes will do, such as `Parquet`.

    Attributes
    ----------
    n_columns : int
    dtype : dtype
        Type of the values as stored.
    names : list of str or None
        Names of the columns, if they have any.
    pieces : function
        Returns an iterator over all rows, in the same order at every call.
    """

    n_columns: int
    dtype: np.dtype[Any]
    names: list[str] | None
    pieces: Callable[[], Iterator[Piece]]


@dataclass(frozen=True, eq=False)
class StreamedRows(Rows):
    """The rows of a source, read in chunks on threads, a few pieces at a time.

    Parameters
    ----------
    source : Source
    weights : array of shape (N,) or None
        None counts every row once.
    location, scale : arrays of shape (p,)
        A value x stands for (x − location) / scale.
    dtype : dtype
        Type of the chunks.
    allow_missing : bool
        Whether NaN, a missing value, is accepted.
    resolution : Resolution
    powers : Powers or None
    n_threads : int
        Threads that read chunks.
    counted : Observed or None
        How many values there are; None before the first pass, which also checks them.
    """

    source: Any
    weights: FloatArray | None
    location: FloatArray
    scale: FloatArray
    dtype: np.dtype[Any]
    allow_missing: bool = False
    resolution: Resolution = EXACT
    powers: Powers | None = None
    n_threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    counted: InitVar[Observed | None] = None

    def __post_init__(self, counted: Observed | None) -> None:
        self._derive(counted, 0 if counted is None else counted.n_rows, names=self.source.names)

    @classmethod
    def of(cls, source: Any, weights: FloatArray | None = None, dtype: Any = None, allow_missing: bool = False) -> Self:
        """The rows of a source in their own units; of its type, or double precision for whole numbers."""
        dtype = np.dtype(dtype or (source.dtype if source.dtype == np.float32 else np.float64))
        counts = None if weights is None else weights.astype(float)
        return cls(source, counts, np.zeros(source.n_columns), np.ones(source.n_columns), dtype, allow_missing)

    def map(self, function: Callable[[Chunk], T]) -> Iterator[T]:
        """Apply a function to every chunk, in order; several pieces are processed at a time."""
        for results in self._each(partial(listed, function)):
            yield from results

    def map_sum(self, function: Callable[[Chunk], S]) -> S:
        """Sum of a statistic over all chunks: within each piece, and then over the pieces."""
        return total(self._each(partial(summed, function)))

    def _each(self, work: Callable[[Iterator[Chunk]], T]) -> Iterator[T]:
        """Results of some work on the chunks of each piece."""

        def worked(placed: tuple[Piece, int]) -> T:
            (piece, start), weights = placed, self.weights
            if weights is not None and len(weights) < start + piece.n_rows:
                raise ValueError(f"sample_weight has {len(weights)} numbers for more rows: give one for each row")
            part = None if weights is None else weights[start : start + piece.n_rows]
            return work(chunks_of(self, piece, start, part))

        with ThreadPoolExecutor(self.n_threads) as pool:
            yield from in_order(pool, worked, self._placed(), 2 * self.n_threads)

    def _placed(self) -> Iterator[tuple[Piece, int]]:
        """Pieces, each with the number of its first row; refuses a source whose number of rows has changed."""
        start = 0
        for piece in self.source.pieces():
            yield piece, start
            start += piece.n_rows
        if start == 0:
            raise ValueError("X has no rows")
        if self.n_rows not in (0, start):
            raise ValueError(f"X had {self.n_rows} rows at first and now has {start}: leave it as it is during a fit")
        if self.weights is not None and len(self.weights) != start:
            raise ValueError(f"sample_weight has {len(self.weights)} numbers for {start} rows: give one for each row")


def listed(function: Callable[[Chunk], T], chunks: Iterator[Chunk]) -> list[T]:
    """Results of a function for each chunk of a piece."""
    return [function(chunk) for chunk in chunks]


def summed(function: Callable[[Chunk], S], chunks: Iterator[Chunk]) -> S:
    """Sum of a statistic over the chunks of a piece."""
    return total(function(chunk) for chunk in chunks)


def chunks_of(rows: Any, piece: Piece, start: int, weights: FloatArray | None) -> Iterator[Chunk]:
    """Chunks of a piece whose first row has the number `start`, with the units of streamed or Dask rows.

    Values are checked in the first pass, before the rows have been counted.
    """
    values = dense(piece, rows.dtype, rows.n_columns)
    if rows.observed is None:
        refuse(values, start, piece.name, rows.names, rows.allow_missing)
    counts = np.ones(piece.n_rows) if weights is None else weights
    may_miss = rows.allow_missing and rows.has_missing and bool(np.isnan(values.min(initial=np.inf)))
    if may_miss:
        counts = np.where(np.isnan(values).all(axis=1), 0.0, counts)
    for place in places(piece.n_rows, rows.n_columns, start):
        here = slice(place.start - start, place.stop - start)
        X = np.require(values[here], requirements=["C", "W"])
        chunk = Chunk(X, counts[here], place, rows.location, rows.scale, rows.resolution, may_miss)
        yield chunk.powered(rows.powers)


def dense(piece: Piece, dtype: np.dtype[Any], n_columns: int) -> FloatArray:
    """Values of a piece, shape (m, p), checked against its number of rows and columns."""
    try:
        stored = np.asarray(piece.read())
        if stored.dtype.kind == "c":
            raise TypeError("complex numbers")
        values: FloatArray = stored.astype(dtype, copy=False)
    except Exception as error:
        raise ValueError(f"{piece.name} cannot be read ({type(error).__name__}: {error})") from error
    if values.ndim != 2 or values.shape[1] != n_columns:
        raise ValueError(f"{piece.name} has shape {values.shape} instead of (rows, {n_columns}): all need as many")
    if len(values) != piece.n_rows:
        raise ValueError(f"{piece.name} has {len(values)} rows instead of {piece.n_rows}: it is truncated")
    return values


def refuse(values: FloatArray, start: int, name: str, names: list[str] | None, allow_missing: bool) -> None:
    """Raise an error that names the first value (m, p) that is infinite or, unless values may be missing, NaN."""
    wrong = np.isinf(values) if allow_missing else ~np.isfinite(values)
    if not wrong.any():
        return
    row, j = np.argwhere(wrong)[0]
    column = f"column {j}" if names is None else f"column {j} ({names[j]!r})"
    raise ValueError(f"{name}: row {start + row} has {values[row, j]:g} in {column}: fill it or leave the row out")


def sparse_source(X: Any) -> Source:
    """A `scipy.sparse` matrix in CSR form, of which one chunk at a time is made dense."""

    def pieces() -> Iterator[Piece]:
        for place in places(*X.shape):
            name = f"rows {place.start} to {place.stop - 1} of X"
            yield Piece(name, place.stop - place.start, X[place].toarray)

    return Source(X.shape[1], X.dtype, None, pieces)


def factory_source(make: Callable[[], Iterable[Any]]) -> Source:
    """A function without arguments that returns all chunks, matrices or data frames, at each call.

    The first chunk decides on columns and type.
    """
    first = next(_named_chunks(make), None)
    if first is None:
        raise ValueError("X returned no chunks: give a function that returns an iterator of matrices")
    values = np.asarray(first[1])
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        raise ValueError(f"chunk 0 of X has shape {values.shape} and type {values.dtype}: give matrices of numbers")
    columns = getattr(first[1], "columns", None)

    def pieces() -> Iterator[Piece]:
        for name, chunk in _named_chunks(make):
            yield Piece(name, len(chunk), partial(_checked, chunk))

    return Source(values.shape[1], values.dtype, None if columns is None else [str(name) for name in columns], pieces)


def _named_chunks(make: Callable[[], Iterable[Any]]) -> Iterator[tuple[str, Any]]:
    """Chunks that are not empty, and their names; an error of the factory says which chunk it was."""
    number = 0
    try:
        for chunk in make():
            if len(chunk):
                yield f"chunk {number} of X", chunk
            number += 1
    except Exception as error:
        raise ValueError(f"chunk {number} of X cannot be read ({type(error).__name__}: {error})") from error


def _checked(chunk: Any) -> Any:
    values = np.asarray(chunk)
    # In every pass: a function may return something else at its second call.
    if values.dtype.kind == "f" and np.isinf(values).any():
        row, j = np.argwhere(np.isinf(values))[0]
        raise ValueError(f"its row {row} has {values[row, j]:g} in column {j}: fill it or leave the row out")
    return values
