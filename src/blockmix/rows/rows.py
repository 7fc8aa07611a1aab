"""BLAS threads: one while our own threads or Dask's workers read chunks, and afterwards what it was."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from blockmix.partition import FloatArray, IntArray
from blockmix.rows.measured import EXACT, Observed, Resolution, S, Spread, total


class _BlasHold:
    """One thread for BLAS from the first that asks for it to the last that lets go.

    The setting belongs to the process: were each of two fits on threads to restore what it had found, the one that
    began second would restore the limit of the first.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._found = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if self._holders == 0:
                self._found.enter_context(_controller().limit(limits=1, user_api="blas"))
            self._holders += 1

    def __exit__(self, *reason: object) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                self._found.close()


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


_hold = _BlasHold()


def one_blas_thread() -> AbstractContextManager[None]:
    """Keep BLAS to one thread while our own threads work; the process's setting is restored."""
    return _hold


_CHUNK_NUMBERS = 2**19  # values per chunk: 4 MB in double precision
_WIDE_ROWS = 512  # fewer would not pay for a matrix (p, p) of each chunk


A = TypeVar("A")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some consecutive rows.

    Attributes
    ----------
    X : array of shape (m, p)
        Values as stored, row-major and writeable: compiled code has one version for these. NaN is a missing value.
    weights : array of shape (m,)
        0 for rows without values.
    place : slice
        Numbers of the rows in the data.
    location, scale : arrays of shape (p,), in double precision
    resolution : Resolution
        Which values are repeated, and how finely they are known.
    codes : array of shape (m, D) or None
        The numbers of repeated values, see `Resolution.codes`, if they are known.
    """

    X: FloatArray
    weights: FloatArray
    place: slice
    location: FloatArray
    scale: FloatArray
    resolution: Resolution = EXACT
    codes: NDArray[np.uint16] | None = None

    @cached_property
    def has_missing(self) -> bool:
        """Whether values are missing."""
        return has_nan(self.X)

    @cached_property
    def observed(self) -> IntArray:
        """Number of values of each row, shape (m,)."""
        m, p = self.X.shape
        return p - np.isnan(self.X).sum(axis=1) if self.has_missing else np.full(m, p)

    @cached_property
    def units(self) -> tuple[FloatArray, FloatArray]:
        """Location and 1 / scale, for compiled code."""
        return self.location, 1 / self.scale

    @cached_property
    def rounding(self) -> tuple[IntArray, FloatArray, NDArray[np.uint16]]:
        """Columns with repeated values, variances by code and codes, for compiled code."""
        codes = self.resolution.codes(self.X) if self.codes is None else self.codes
        return self.resolution.columns, self.resolution.table(self.scale), codes

    @property
    def rounding_variances(self) -> FloatArray:
        """Variances that rounding leaves of the standardized values, shape (m, p)."""
        variances = np.zeros(self.X.shape)
        columns, table, codes = self.rounding
        if len(columns):
            variances[:, columns] = table[np.arange(len(columns)), codes]
        return variances

    @property
    def values(self) -> FloatArray:
        """Standardized values (x − location) / scale in double precision, shape (m, p)."""
        return (self.X - self.location) / self.scale

    def take(self, rows: IntArray) -> Chunk:
        """Some of the rows; their numbers in the data are lost."""
        codes = None if self.codes is None else self.codes[rows]
        return replace(self, X=self.X[rows], weights=self.weights[rows], place=slice(0, len(rows)), codes=codes)


def contiguous(X: FloatArray) -> FloatArray:
    """X row-major and writeable; a copy only where it is not."""
    return np.require(X, requirements=["C", "W"])


def has_nan(X: FloatArray) -> bool:
    """Whether any number is NaN."""
    return bool(X.size) and bool(np.isnan(X.min()))


def counting(X: FloatArray, weights: FloatArray) -> FloatArray:
    """The weights of rows X, with 0 for rows without values."""
    return np.where(np.isnan(X).all(axis=1), 0.0, weights) if has_nan(X) else weights


class Rows(ABC):
    """Rows that can be read in chunks any number of times.

    A subclass is a frozen dataclass with `location` and `scale`, arrays of shape (p,) in double precision: a value x
    stands for (x − location) / scale.
    """

    weights: FloatArray | None  # None counts every row once
    location: FloatArray
    scale: FloatArray
    dtype: np.dtype[Any]  # of the values
    resolution: Resolution
    observed: Observed | None  # known once the rows have been measured
    names: list[str] | None = None  # of the columns, if the source has them
    is_array: ClassVar[bool] = False  # whether all rows are in memory, so that one more number per row costs little

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows N."""

    @property
    def total_weight(self) -> float:
        """Σw, the number of rows when all weights are 1."""
        if self.observed is not None:
            return self.observed.weight
        return float(self.n_rows if self.weights is None else self.weights.sum(dtype=float))

    @abstractmethod
    def map(self, function: Callable[[Chunk], T]) -> Iterator[T]:
        """Apply a function to every chunk, in order; several chunks are worked on at a time."""

    @abstractmethod
    def sample(self, most: int, rng: np.random.RandomState) -> Any:
        """Draw a sample of at most `most` rows, in order, as rows in memory; an array returns itself."""

    @property
    def n_columns(self) -> int:
        """Number of columns p."""
        return len(self.location)

    @property
    def has_missing(self) -> bool:
        """Whether values are missing, or may be, as long as the rows have not been measured."""
        return self.observed is None or self.observed.n_missing > 0

    @property
    def pair_weight(self) -> float:
        """Mean number of rows that have both of two columns: what a covariance rests on."""
        return self.total_weight if self.observed is None else self.observed.pairs

    def map_sum(self, function: Callable[[Chunk], S]) -> S:
        """Sum of a statistic over all chunks."""
        return total(self.map(function))

    def plain(self) -> Self:
        """The same rows in their own units."""
        return self._in(location=np.zeros_like(self.location), scale=np.ones_like(self.scale))

    def scaled(self, scale: FloatArray) -> Self:
        """The same rows with another scale."""
        return self._in(scale=scale)

    def resolved(self, resolution: Resolution) -> Self:
        """The same rows, whose repeated values are known only to within this resolution."""
        return self._in(resolution=resolution)

    def measured(self) -> Self:
        """The same rows, standardized by their weighted mean and deviation; takes one pass."""
        return self._in(**self.map_sum(Spread.of).units())

    def _in(self, **units: Any) -> Self:
        return replace(self, **units)  # type: ignore[type-var]


def chunk_rows(n_columns: int) -> int:
    """Number of rows per chunk; with many columns a chunk is up to twice as large, so that it has enough rows."""
    return max(64, _CHUNK_NUMBERS // n_columns, min(_WIDE_ROWS, 2 * _CHUNK_NUMBERS // n_columns))


def places(n_rows: int, n_columns: int, start: int = 0) -> list[slice]:
    """Places of the chunks of `n_rows` rows that begin at row `start`."""
    size, stop = chunk_rows(n_columns), start + n_rows
    return [slice(first, min(first + size, stop)) for first in range(start, stop, size)]


def in_order(pool: Executor, function: Callable[[A], T], items: Iterable[A], ahead: int) -> Iterator[T]:
    """Results of a function in the order of the items, reading at most `ahead` items in advance."""
    waiting: deque[Future[T]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:  # after an error or an interrupt, which the pool may outlive
            future.cancel()


def chosen_rows(n_rows: int, weights: FloatArray | None, most: int, rng: np.random.RandomState) -> IntArray | None:
    """Numbers of at most `most` rows of positive weight, drawn evenly and in order; None means all rows."""
    if n_rows <= most:
        return None
    counted = None if weights is None else np.flatnonzero(weights > 0)
    n_counted = n_rows if counted is None else len(counted)
    if counted is not None and n_counted <= most:
        return counted
    # The new generators draw a few of many without an array of all.
    draw = np.random.default_rng(rng.randint(2**31 - 1)).choice(n_counted, most, replace=False, shuffle=False)
    numbers: IntArray = np.sort(draw)
    return numbers if counted is None else counted[numbers]


@dataclass(frozen=True, eq=False)
class ArrayRows(Rows):
    """The rows of an array in memory, read in chunks on threads.

    Parameters
    ----------
    X : array of shape (N, p)
    weights : array of shape (N,)
    location, scale : arrays of shape (p,)
        A value x stands for (x − location) / scale.
    n_threads : int
        Threads that read chunks.
    """

    X: FloatArray
    weights: FloatArray
    location: FloatArray
    scale: FloatArray
    n_threads: int = 1
    resolution: Resolution = EXACT
    is_array: ClassVar[bool] = True

    @classmethod
    def of(cls, X: FloatArray, weights: FloatArray | None = None) -> ArrayRows:
        """The rows of an array in their own units, on as many threads as there are cores."""
        counted = counting(X, np.ones(len(X)) if weights is None else weights.astype(float))
        return cls(X, counted, np.zeros(X.shape[1]), np.ones(X.shape[1]), os.cpu_count() or 1)

    @classmethod
    def standardized(cls, X: FloatArray, weights: FloatArray | None = None) -> ArrayRows:
        """Rows standardized by their own weighted mean and deviation; a column must vary."""
        return cls.of(X, weights).measured()

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """Type of the values."""
        return self.X.dtype

    @cached_property
    def observed(self) -> Observed:  # type: ignore[override]
        """How many values there are."""
        return self.map_sum(Observed.of)

    @property
    def total_weight(self) -> float:
        """Σw, the number of rows when all weights are 1."""
        return float(self.weights.sum(dtype=float))

    @property
    def n_rows(self) -> int:
        """Number of rows N."""
        return len(self.X)

    def sample(self, most: int, rng: np.random.RandomState) -> ArrayRows:
        """The rows themselves, which are in memory already."""
        return self

    def some(self, most: int, rng: np.random.RandomState) -> IntArray | slice:
        """Numbers of at most `most` rows, those that a file with these rows would be sampled at."""
        found = chosen_rows(self.n_rows, self.weights, most, rng)
        return slice(None) if found is None else found

    def map(self, function: Callable[[Chunk], T]) -> Iterator[T]:
        """Apply a function to every chunk, in order; several chunks are worked on at a time."""
        chunks = places(self.n_rows, self.n_columns)
        if min(self.n_threads, len(chunks)) == 1:
            yield from (function(self._chunk(place)) for place in chunks)
        else:
            yield from in_order(self._pool, lambda place: function(self._chunk(place)), chunks, 2 * self.n_threads)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        # Kept with the rows: starting threads for every sweep took a tenth of a fit of 200 000 × 50. A function that is
        # mapped must not map in turn.
        return ThreadPoolExecutor(self.n_threads)

    def _chunk(self, place: slice) -> Chunk:
        if place.start in self._chunks:
            return self._chunks[place.start]
        stored = self.X[place]
        X = contiguous(stored)
        codes = self.resolution.codes(X)
        chunk = Chunk(X, self.weights[place], place, self.location, self.scale, self.resolution, codes)
        # EM reads the same rows a hundred times. A chunk that is a view of them costs nothing to keep.
        if X is stored or len(X) == self.n_rows:
            self._chunks[place.start] = chunk
        return chunk

    @cached_property
    def _chunks(self) -> dict[int, Chunk]:
        return {}
