"""Rows: the rows of the data, read in chunks any number of times and standardized as they are read.

This is the X of the paper's section 2. `Rows` says what every kind of rows offers, `ArrayRows` is the kind in memory;
files, streams and Dask collections are in the modules beside this one. A chunk goes to a function whose results are
summed in a fixed order, so the place where rows are stored does not change a result.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import InitVar, dataclass, field, replace
from functools import cache, cached_property
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from blockmix.partition import FloatArray, IntArray
from blockmix.rows.measured import EXACT, Observed, Resolution, S, Spread, total
from blockmix.rows.powers import Powers

_CHUNK_NUMBERS = 2**19  # values per chunk: 4 MB in double precision
_WIDE_ROWS = 512  # fewer would not pay for a matrix (p, p) of each chunk

T = TypeVar("T")

_controller = cache(ThreadpoolController)
_blas_lock = threading.Lock()
_blas_limit = ExitStack()
_blas_holders: list[int] = []  # threads that have asked for one BLAS thread


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread while our own threads work, from the first holder to the last.

    The setting belongs to the process. If two overlapping fits each restored what they had read, the one that began
    second would restore the limit of the first.
    """
    with _blas_lock:
        if not _blas_holders:
            _blas_limit.enter_context(_controller().limit(limits=1, user_api="blas"))
        _blas_holders.append(threading.get_ident())
    try:
        yield
    finally:
        with _blas_lock:
            _blas_holders.pop()
            if not _blas_holders:
                _blas_limit.close()


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some consecutive rows, and what the kernels need of them, computed once.

    Parameters
    ----------
    X : array of shape (m, p)
        Values as stored, row-major and writeable: compiled code has one version for these. NaN is a missing value.
    weights : array of shape (m,)
        0 for rows without values.
    place : slice
        Numbers of the rows in the data.
    location, scale : arrays of shape (p,), in double precision
    resolution : Resolution
        Which values are repeated, and how finely they were recorded.
    may_miss : bool
        Whether to look for missing values.
    known : array of shape (m,) or None
        Component of each row where it is given, −1 where it is not.

    Attributes
    ----------
    has_missing : bool
    observed : array of shape (m,)
        Number of values of each row.
    units : location and 1 / scale
    rounding : columns with repeated values, variances by code (D, codes) and codes (m, D)
    gain : array of shape (m,) or None
        What the powers of the columns add to the log-density of each row; None if there are none.
    powers, plain : Powers of the columns, and the rows without them; None if there are none
    """

    X: FloatArray
    weights: FloatArray
    place: slice
    location: FloatArray
    scale: FloatArray
    resolution: Resolution = EXACT
    may_miss: InitVar[bool] = True
    known: IntArray | None = None
    has_missing: bool = field(init=False)
    observed: IntArray = field(init=False)
    units: tuple[FloatArray, FloatArray] = field(init=False)
    rounding: tuple[IntArray, FloatArray, NDArray[np.uint16]] = field(init=False)
    gain: FloatArray | None = field(init=False, default=None)
    powers: Powers | None = field(init=False, default=None)
    plain: Chunk | None = field(init=False, default=None)

    def __post_init__(self, may_miss: bool) -> None:
        X, resolution = self.X, self.resolution
        has_missing = may_miss and bool(np.isnan(X.min(initial=np.inf)))
        with np.errstate(divide="ignore"):  # constant columns are refused by name, not here
            inverse = 1 / self.scale
        vars(self).update(  # the fields of a frozen dataclass cannot be assigned
            has_missing=has_missing,
            observed=X.shape[1] - np.isnan(X).sum(axis=1) if has_missing else np.full(len(X), X.shape[1]),
            units=(self.location, inverse),
            rounding=resolution.rounding(X, self.scale),
        )

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
        columns, table, codes = self.rounding
        each = {name: getattr(self, name) for name in ("X", "weights", "observed", "gain", "known")}
        some = {name: None if values is None else values[rows] for name, values in each.items()}
        return self._with(**some, place=slice(0, len(rows)), rounding=(columns, table, codes[rows]), plain=None)

    def powered(self, powers: Powers | None) -> Chunk:
        """The same rows with powers of their columns, in the units of these; itself if there are none.

        A rounded value has the mean slope over the interval that it stands for, so that a power does not gain by the
        slope at a value that many rows share.
        """
        if powers is self.powers:
            return self
        if self.powers is not None:
            assert self.plain is not None
            return self.plain.powered(powers)
        assert powers is not None
        resolution, logs, (columns, _, codes) = self.resolution, powers.log_slopes(self.X), self.rounding
        listed = np.repeat(columns, np.diff(resolution.first))
        chords = powers.chords(listed, resolution.values, np.sqrt(12 * resolution.variances))
        table = resolution.table(resolution.variances * chords**2, powers.scale)
        known = np.log(resolution.table(chords, None))
        for d in np.flatnonzero(powers.exponents[columns] != 1).tolist():
            logs[:, columns[d]] = np.where(codes[:, d] > 0, known[d, codes[:, d]], logs[:, columns[d]])
        location, scale = powers.location, powers.scale
        return self._with(
            X=powers.of(self.X),
            location=location,
            scale=scale,
            units=(location, 1 / scale),
            rounding=(columns, table, codes),
            gain=np.where(np.isnan(self.X), 0, logs + np.log(self.scale / scale)).sum(axis=1),
            powers=powers,
            plain=self,
        )

    def _with(self, **changes: Any) -> Chunk:
        chunk = copy(self)
        vars(chunk).update(changes)  # not by `replace`, which would look the codes of the values up again
        return chunk


class Rows(ABC):
    """Rows that can be read in chunks any number of times.

    A subclass is a frozen dataclass with `location` and `scale`, arrays of shape (p,) in double precision: a value x
    stands for (x − location) / scale. Its `counted` is the result of an earlier count of the same values.

    Attributes
    ----------
    n_rows, n_columns : int
        N and p; N is 0 before streamed rows have been counted.
    total_weight : float
        Σw, the number of rows if all weights are 1.
    pair_weight : float
        Mean number of rows that have both of two columns: what a covariance rests on.
    has_missing : bool
        Whether values are missing, or may be, as long as the rows have not been measured.
    """

    weights: FloatArray | None  # None counts every row once
    location: FloatArray
    scale: FloatArray
    dtype: np.dtype[Any]  # of the values
    resolution: Resolution
    observed: Observed | None  # None until the rows have been counted
    powers: Powers | None  # of the columns, in which chunks come
    n_rows: int
    n_columns: int
    total_weight: float
    pair_weight: float
    has_missing: bool
    names: list[str] | None = None  # of the columns, if the source has them
    is_array: ClassVar[bool] = False  # whether all rows are in memory, so that one more number per row costs little

    def _derive(self, observed: Observed | None, n_rows: int, **others: Any) -> None:
        """Set the attributes that follow from the fields, once: those of a frozen dataclass cannot be assigned."""
        weight = float(n_rows if self.weights is None else self.weights.sum(dtype=float))
        vars(self).update(
            observed=observed,
            n_rows=n_rows,
            n_columns=len(self.location),
            total_weight=weight if observed is None else observed.weight,
            pair_weight=weight if observed is None else observed.pairs,
            has_missing=observed is None or observed.n_missing > 0,
            **others,
        )

    @abstractmethod
    def map(self, function: Callable[[Chunk], T]) -> Iterator[T]:
        """Apply a function to every chunk, in order; several chunks are processed at a time."""

    def map_sum(self, function: Callable[[Chunk], S]) -> S:
        """Sum of a statistic over all chunks."""
        return total(self.map(function))

    def replace(self, **changes: Any) -> Self:
        """The same values with another location, scale or resolution; they are not counted again."""
        return replace(self, **{"counted": self.observed, **changes})  # type: ignore[type-var]

    def powered(self, powers: Powers | None) -> Self:
        """The same rows, whose chunks come with powers of their columns; those of the last powers are kept."""
        if powers is self.powers:
            return self
        last: Self | None = vars(self).get("_powered")
        if last is None or last.powers is not powers:
            last = self.replace(powers=powers)
            vars(self)["_powered"] = last
        return last

    def measured(self) -> Self:
        """The same rows, counted and standardized by their weighted mean and deviation; takes one pass.

        The scale of a constant column is 0; a column without values has neither location nor scale.
        """
        spread = self.map_sum(Spread.of)
        weight = np.where(spread.observed.columns > 0, spread.observed.columns, np.nan)
        location, scale = spread.mean + 0 * weight, np.sqrt(spread.squares / weight)
        return self.replace(location=location, scale=scale, counted=spread.observed)

    def sample(self, size: int, rng: np.random.RandomState) -> ArrayRows:
        """Draw at most `size` rows of positive weight, evenly and in order, as rows in memory."""
        return sampled(self, chosen_rows(self.n_rows, self.weights, size, rng))


def chunk_rows(n_columns: int) -> int:
    """Number of rows per chunk; with many columns a chunk is up to twice as large, so that it has enough rows."""
    return max(64, _CHUNK_NUMBERS // n_columns, min(_WIDE_ROWS, 2 * _CHUNK_NUMBERS // n_columns))


def places(n_rows: int, n_columns: int, start: int = 0) -> list[slice]:
    """Places of the chunks of `n_rows` rows that begin at row `start`."""
    size, stop = chunk_rows(n_columns), start + n_rows
    return [slice(first, min(first + size, stop)) for first in range(start, stop, size)]


def in_order(pool: Executor, function: Callable[[Any], T], items: Iterable[Any], ahead: int) -> Iterator[T]:
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


def chosen_rows(n_rows: int, weights: FloatArray | None, size: int, rng: np.random.RandomState) -> IntArray | None:
    """Numbers of at most `size` rows of positive weight, drawn evenly and in order; None means all rows."""
    if n_rows <= size:
        return None
    counted = None if weights is None else np.flatnonzero(weights > 0)
    n_counted = n_rows if counted is None else len(counted)
    if counted is not None and n_counted <= size:
        return counted
    # The new generators draw a few of many without an array of all.
    draw = np.random.default_rng(rng.randint(2**31 - 1)).choice(n_counted, size, replace=False, shuffle=False)
    numbers: IntArray = np.sort(draw)
    return numbers if counted is None else counted[numbers]


@dataclass(frozen=True, eq=False)
class ArrayRows(Rows):
    """The rows of an array in memory, read in chunks on threads.

    Parameters
    ----------
    X : array of shape (N, p)
    weights : array of shape (N,)
        Rows without values get weight 0.
    location, scale : arrays of shape (p,)
        A value x stands for (x − location) / scale.
    n_threads : int
        Threads that read chunks.
    resolution : Resolution
    powers : Powers or None
    known : array of shape (N,) or None
        Component of each row where it is given, −1 where it is not.
    counted : Observed or None
        How many values there are; None counts them.
    """

    X: FloatArray
    weights: FloatArray
    location: FloatArray
    scale: FloatArray
    n_threads: int = 1
    resolution: Resolution = EXACT
    powers: Powers | None = None
    known: IntArray | None = None
    counted: InitVar[Observed | None] = None  # not kept, so that `dataclasses.replace` of X counts again
    is_array: ClassVar[bool] = True

    def __post_init__(self, counted: Observed | None) -> None:
        X = self.X
        if counted is None:
            has_missing = bool(np.isnan(X.min(initial=np.inf)))
            if has_missing:
                vars(self).update(weights=np.where(np.isnan(X).all(axis=1), 0.0, self.weights))
            parts = places(*X.shape) if has_missing else [slice(None)]
            counted = total(Observed.of(X[place], self.weights[place], has_missing) for place in parts)
        self._derive(counted, len(X), dtype=X.dtype, _chunks={})

    @classmethod
    def of(cls, X: FloatArray, weights: FloatArray | None = None) -> ArrayRows:
        """The rows of an array in their own units, on as many threads as there are cores."""
        counts = np.ones(len(X)) if weights is None else weights.astype(float)
        return cls(X, counts, np.zeros(X.shape[1]), np.ones(X.shape[1]), os.cpu_count() or 1)

    @classmethod
    def standardized(cls, X: FloatArray, weights: FloatArray | None = None) -> ArrayRows:
        """Rows standardized by their own weighted mean and deviation; a column must vary."""
        return cls.of(X, weights).measured()

    def sample(self, size: int, rng: np.random.RandomState) -> ArrayRows:
        """At most `size` rows of positive weight, drawn evenly and in order, as a file with these rows would be."""
        if self.n_rows <= size:
            return self
        numbers = chosen_rows(self.n_rows, self.weights, size, rng)
        known = None if self.known is None else self.known[numbers]
        return replace(self, X=self.X[numbers], weights=self.weights[numbers], known=known)

    def map(self, function: Callable[[Chunk], T]) -> Iterator[T]:
        """Apply a function to every chunk, in order; several chunks are processed at a time."""
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
        kept: dict[int, Chunk] = vars(self)["_chunks"]
        if place.start in kept:
            return kept[place.start]
        stored = self.X[place]
        # A table of one chunk is double: loops for single precision would take longer to compile than to run.
        X = np.require(stored, float if len(stored) == self.n_rows else None, ["C", "W"])
        known = None if self.known is None else self.known[place]
        units = self.location, self.scale, self.resolution
        chunk = Chunk(X, self.weights[place], place, *units, self.has_missing, known)
        chunk = chunk.powered(self.powers)
        # EM reads the same rows a hundred times. A chunk that is a view of them costs nothing to keep, powers a copy.
        if X is stored or len(X) == self.n_rows:
            kept[place.start] = chunk
        return chunk


def sampled(rows: Rows, numbers: IntArray | None) -> ArrayRows:
    """The rows with these numbers, or all rows, in memory and in the same units."""

    def of(chunk: Chunk) -> tuple[FloatArray, FloatArray]:
        if numbers is None:
            return chunk.X.copy(), chunk.weights
        first, last = np.searchsorted(numbers, [chunk.place.start, chunk.place.stop])
        here = numbers[first:last] - chunk.place.start
        return chunk.X[here], chunk.weights[here]

    values, weights = zip(*rows.map(of), strict=True)
    X, counts = np.concatenate(values), np.concatenate(weights)
    return ArrayRows(X, counts, rows.location, rows.scale, os.cpu_count() or 1, rows.resolution)
