"""Streamed rows: read from a source piece by piece, never all at once.

A source (a file, a sparse matrix, a factory of chunks) yields its pieces in order, any number of times; their chunks go
to a function on threads. An error names the piece that cannot be read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from blockmix.partition import FloatArray
from blockmix.rows.measured import EXACT, Observed, Resolution, S, Spread, total
from blockmix.rows.rows import ArrayRows, Chunk, Rows, chosen_rows, contiguous, counting, in_order, places

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Piece:
    """Some consecutive rows of a source: a name for errors, their number, a function that reads them, shape (m, p)."""

    name: str
    n_rows: int
    read: Callable[[], Any]


class Source(Protocol):
    """Rows of one type that need not be in memory."""

    @property
    def n_columns(self) -> int:
        """Number of columns p."""
        ...

    @property
    def names(self) -> list[str] | None:
        """Names of the columns, if they have any."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values as stored."""
        ...

    def pieces(self) -> Iterator[Piece]:
        """All rows, in the same order at every call."""
        ...


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
    count : int
        Number of rows, 0 before they have been counted.
    n_threads : int
        Threads that read chunks.
    allow_missing : bool
        Whether values may be missing.
    observed : Observed or None
        How many values there are, once they have been counted.
    """

    source: Source
    weights: FloatArray | None
    location: FloatArray
    scale: FloatArray
    dtype: np.dtype[Any]
    count: int = 0
    n_threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    resolution: Resolution = EXACT
    allow_missing: bool = False
    observed: Observed | None = None

    @classmethod
    def of(
        cls, source: Source, weights: FloatArray | None = None, dtype: Any = None, allow_missing: bool = False
    ) -> Self:
        """The rows of a source in their own units; of its type, or double precision for whole numbers."""
        kept = np.dtype(dtype or (source.dtype if source.dtype == np.float32 else np.float64))
        counted = None if weights is None else weights.astype(float)
        return cls(
            source, counted, np.zeros(source.n_columns), np.ones(source.n_columns), kept, allow_missing=allow_missing
        )

    @property
    def names(self) -> list[str] | None:  # type: ignore[override]
        """Names of the columns, if they have any."""
        return self.source.names

    @property
    def n_rows(self) -> int:
        """Number of rows N."""
        return self.count

    def measured(self) -> Self:
        """The same rows, counted and standardized by their weighted mean and deviation."""
        spread = self.map_sum(Spread.of)
        return self._in(count=spread.n_rows, observed=spread.observed, **spread.units())

    def sample(self, most: int, rng: np.random.RandomState) -> ArrayRows:
        """Draw at most `most` rows of positive weight, evenly and in order, as rows in memory."""
        return sampled(self, chosen_rows(self.n_rows, self.weights, most, rng))

    def map(self, function: Callable[[Chunk], T]) -> Iterator[T]:
        """Apply a function to every chunk, in order; several pieces are worked on at a time."""
        for results in self._each(lambda chunks: [function(chunk) for chunk in chunks]):
            yield from results

    def map_sum(self, function: Callable[[Chunk], S]) -> S:
        """Sum of a statistic over all chunks: within each piece, and then over the pieces."""
        return total(self._each(lambda chunks: total(function(chunk) for chunk in chunks)))

    def _each(self, work: Callable[[Iterator[Chunk]], T]) -> Iterator[T]:
        """Results of some work on the chunks of each piece."""
        with ThreadPoolExecutor(self.n_threads) as pool:
            yield from in_order(pool, lambda found: work(self._chunks(*found)), self._placed(), 2 * self.n_threads)

    def _placed(self) -> Iterator[tuple[Piece, int]]:
        """Pieces, each with the number of its first row; refuses a source whose number of rows has changed."""
        start = 0
        for piece in self.source.pieces():
            yield piece, start
            start += piece.n_rows
        if start == 0:
            raise ValueError("X has no rows")
        if self.count not in (0, start):
            raise ValueError(f"X had {self.count} rows at first and now has {start}: leave it as it is during a fit")
        if self.weights is not None and len(self.weights) != start:
            raise ValueError(f"sample_weight has {len(self.weights)} numbers for {start} rows: give one for each row")

    def _chunks(self, piece: Piece, start: int) -> Iterator[Chunk]:
        first_pass = self.count == 0
        reading = Reading(
            self.location, self.scale, self.dtype, self.resolution, self.names, first_pass, self.allow_missing
        )
        if self.weights is not None and len(self.weights) < start + piece.n_rows:
            raise ValueError(f"sample_weight has {len(self.weights)} numbers for more rows: give one for each row")
        return reading.chunks(
            piece, start, None if self.weights is None else self.weights[start : start + piece.n_rows]
        )


@dataclass(frozen=True, eq=False)
class Reading:
    """How pieces become chunks.

    Parameters
    ----------
    location, scale : arrays of shape (p,)
    dtype : dtype
        Type of the chunks.
    resolution : Resolution
    names : list of str or None
        Names of the columns, for messages.
    check : bool
        Whether to refuse values that are not finite.
    allow_missing : bool
        Whether NaN, a missing value, is accepted.
    """

    location: FloatArray
    scale: FloatArray
    dtype: np.dtype[Any]
    resolution: Resolution
    names: list[str] | None
    check: bool
    allow_missing: bool = False

    def chunks(self, piece: Piece, start: int, weights: FloatArray | None) -> Iterator[Chunk]:
        """Chunks of a piece whose first row has the number `start`."""
        values = dense(piece, self.dtype, len(self.location))
        if self.check:
            refuse(values, start, piece.name, self.names, self.allow_missing)
        for place in places(piece.n_rows, len(self.location), start):
            here = slice(place.start - start, place.stop - start)
            X = contiguous(values[here])
            counted = np.ones(len(X)) if weights is None else weights[here]
            yield Chunk(
                X,
                counting(X, counted) if self.allow_missing else counted,
                place,
                self.location,
                self.scale,
                self.resolution,
            )


def dense(piece: Piece, dtype: np.dtype[Any], n_columns: int) -> FloatArray:
    """Values of a piece, shape (m, p), checked against its number of rows and columns."""
    try:
        found = np.asarray(piece.read())
        if found.dtype.kind == "c":
            raise TypeError("complex numbers")
        values: FloatArray = found.astype(dtype, copy=False)
    except Exception as error:
        raise ValueError(f"{piece.name} cannot be read ({type(error).__name__}: {error})") from error
    if values.ndim != 2 or values.shape[1] != n_columns:
        raise ValueError(f"{piece.name} has shape {values.shape} instead of (rows, {n_columns}): all need as many")
    if len(values) != piece.n_rows:
        raise ValueError(f"{piece.name} has {len(values)} rows instead of {piece.n_rows}: it is truncated")
    return values


def refuse(values: FloatArray, start: int, name: str, names: list[str] | None, allow_missing: bool) -> None:
    """Raise an error that names the first value (m, p) that is infinite or, unless values may be missing, NaN."""
    if np.isfinite(values).all():
        return
    wrong = np.argwhere(np.isinf(values) if allow_missing else ~np.isfinite(values))
    if not len(wrong):
        return
    row, j = wrong[0]
    column = f"column {j}" if names is None else f"column {j} ({names[j]!r})"
    raise ValueError(f"{name}: row {start + row} has {values[row, j]:g} in {column}: fill it or leave the row out")


def sampled(rows: Rows, numbers: Any) -> ArrayRows:
    """The rows with these numbers, or all rows, in memory and in the same units."""

    def of(chunk: Chunk) -> tuple[FloatArray, FloatArray]:
        if numbers is None:
            return chunk.X.copy(), chunk.weights
        first, last = np.searchsorted(numbers, [chunk.place.start, chunk.place.stop])
        here = numbers[first:last] - chunk.place.start
        return chunk.X[here], chunk.weights[here]

    values, weights = zip(*rows.map(of), strict=True)
    X, counted = np.concatenate(values), np.concatenate(weights)
    return ArrayRows(X, counted, rows.location, rows.scale, os.cpu_count() or 1, rows.resolution)


@dataclass(frozen=True, eq=False)
class SparseTable:
    """A `scipy.sparse` matrix in CSR form, of which one chunk at a time is made dense."""

    X: Any
    names: list[str] | None = None

    @property
    def n_columns(self) -> int:
        """Number of columns p."""
        return int(self.X.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        found: np.dtype[Any] = self.X.dtype
        return found

    def pieces(self) -> Iterator[Piece]:
        """Chunks in turn."""
        for place in places(*self.X.shape):
            name = f"rows {place.start} to {place.stop - 1} of X"
            yield Piece(name, place.stop - place.start, partial(self._read, place))

    def _read(self, place: slice) -> Any:
        return self.X[place].toarray()


@dataclass(frozen=True, eq=False)
class ChunkFactory:
    """A function without arguments that returns all chunks, matrices or data frames, at each call."""

    make: Callable[[], Iterable[Any]]
    n_columns: int
    dtype: np.dtype[Any]
    names: list[str] | None

    @classmethod
    def of(cls, make: Callable[[], Iterable[Any]]) -> ChunkFactory:
        """Look at the first chunk for columns and type."""
        first = next(_named_chunks(make), None)
        if first is None:
            raise ValueError("X returned no chunks: give a function that returns an iterator of matrices")
        values = np.asarray(first[1])
        if values.ndim != 2 or values.dtype.kind not in "biuf":
            raise ValueError(f"chunk 0 of X has shape {values.shape} and type {values.dtype}: give matrices of numbers")
        columns = getattr(first[1], "columns", None)
        names = None if columns is None else [str(name) for name in columns]
        return cls(make, values.shape[1], values.dtype, names)

    def pieces(self) -> Iterator[Piece]:
        """The chunks, one after the other."""
        for name, chunk in _named_chunks(self.make):
            yield Piece(name, len(chunk), partial(_checked, chunk))


def _named_chunks(make: Callable[[], Iterable[Any]]) -> Iterator[tuple[str, Any]]:
    """Chunks that are not empty, and their names; an error of the factory says which chunk it was."""
    number = 0
    try:
        chunks = iter(make())
        while True:
            chunk = next(chunks, None)
            if chunk is None:
                return
            if len(chunk):
                yield f"chunk {number} of X", chunk
            number += 1
    except GeneratorExit:
        raise
    except Exception as error:
        raise ValueError(f"chunk {number} of X cannot be read ({type(error).__name__}: {error})") from error


def _checked(chunk: Any) -> Any:
    values = np.asarray(chunk)
    # In every pass: a function may return something else at its second call.
    if values.dtype.kind == "f" and np.isinf(values).any():
        row, j = np.argwhere(np.isinf(values))[0]
        raise ValueError(f"its row {row} has {values[row, j]:g} in column {j}: fill it or leave the row out")
    return values
