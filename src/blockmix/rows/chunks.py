"""Chunks of rows, and the interface of every source of rows.

`Rows` hands its chunks to a function, in order, and adds up the results.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from blockmix.rows.resolution import EXACT, Resolution
from blockmix.rows.sums import Additive, S, total
from blockmix.structure.types import FloatArray, IntArray

_CHUNK_NUMBERS = 2**19  # values per chunk: 4 MB in double precision
_WIDE_ROWS = 512  # fewer would not pay for a matrix (p, p) of each chunk
_FAR = 16.0  # squared deviations from the mean that cost one digit of a variance


A = TypeVar("A")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some consecutive rows.

    Attributes
    ----------
    X : array of shape (m, p)
        Values as they are stored, row-major and writeable: compiled code has one version for these. NaN is a gap.
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
    def has_gaps(self) -> bool:
        """Whether values are missing."""
        return has_nan(self.X)

    @cached_property
    def observed(self) -> IntArray:
        """Number of values of each row, shape (m,)."""
        m, p = self.X.shape
        return p - np.isnan(self.X).sum(axis=1) if self.has_gaps else np.full(m, p)

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
    def has_gaps(self) -> bool:
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


@dataclass(frozen=True, eq=False)
class Observed(Additive):
    """How many values there are.

    Attributes
    ----------
    n_missing : int
        Cells without a value.
    weight : float
        Σw of the rows, of which those without values have weight 0.
    columns : array of shape (p,)
        Σw of the rows that have a value in each column.
    pairs : float
        Mean over all pairs of columns of Σw of the rows that have both.
    """

    n_missing: int
    weight: float
    columns: FloatArray
    pairs: float

    @classmethod
    def of(cls, chunk: Chunk) -> Observed:
        """Values of a chunk."""
        weight, p = float(chunk.weights.sum()), chunk.X.shape[1]
        if not chunk.has_gaps:
            return cls(0, weight, np.full(p, weight), weight)
        o = chunk.observed
        pairs = o * (o - 1) / (p * (p - 1)) if p > 1 else o
        columns = chunk.weights @ ~np.isnan(chunk.X)
        return cls(int((p - o).sum()), weight, columns, float(chunk.weights @ pairs))


@dataclass(frozen=True, eq=False)
class Spread:
    """Number of rows and values, and mean (p,) and squared deviations (p,) of each column, in double precision."""

    n_rows: int
    observed: Observed
    mean: FloatArray
    squares: FloatArray

    @classmethod
    def of(cls, chunk: Chunk) -> Spread:
        """Spread of a chunk in its own units.

        Deviations are measured from a row that counts, so a constant column has exactly none. If that row is an
        outlier, which would cost the variance its digits, they are measured again from the mean.
        """
        row = chunk.X[int(np.argmax(chunk.weights > 0))].astype(float)
        if np.isnan(row).any():
            there = ~np.isnan(chunk.X) & (chunk.weights > 0)[:, None]
            first = chunk.X[there.argmax(axis=0), np.arange(len(row))]
            row = np.where(there.any(axis=0), first, 0).astype(float)
        # Squares that overflow are refused by name later.
        with np.errstate(over="ignore", invalid="ignore"):
            found = cls._about(chunk, row)
            far = found.observed.columns * (found.mean - row) ** 2 > _FAR * found.squares
            return cls._about(chunk, found.mean) if far.any() else found

    @classmethod
    def _about(cls, chunk: Chunk, shift: FloatArray) -> Spread:
        from blockmix.rows.kernels import deviations

        observed = Observed.of(chunk)
        weight = observed.columns
        offset, squares = np.zeros_like(shift), np.zeros_like(shift)
        X = np.where(np.isnan(chunk.X), shift, chunk.X) if chunk.has_gaps else chunk.X
        deviations(X, chunk.weights, shift, offset, squares)
        offset /= np.where(weight > 0, weight, 1)
        return cls(len(X), observed, shift + offset, np.maximum(squares - weight * offset**2, 0))

    def __add__(self, other: Spread) -> Spread:
        observed, own = self.observed + other.observed, self.observed.columns
        weight, gap = observed.columns, other.mean - self.mean
        share = other.observed.columns / np.where(weight > 0, weight, 1)
        with np.errstate(over="ignore"):
            squares = self.squares + other.squares + gap**2 * (own * share)
        return Spread(self.n_rows + other.n_rows, observed, self.mean + gap * share, squares)

    def units(self) -> dict[str, FloatArray]:
        """Location and scale that give these rows mean 0 and variance 1.

        The scale of a constant column is 0; a column without values has neither.
        """
        weight = np.where(self.observed.columns > 0, self.observed.columns, np.nan)
        return {"location": self.mean + 0 * weight, "scale": np.sqrt(self.squares / weight)}


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
