"""Chunks: some rows at a time, what every source of rows offers, and sums over its chunks.

`Rows` hands standardized chunks to a function, in order. Sums are taken pairwise, in a tree that depends on the number
of chunks only, so that the same chunks give the same sum wherever they lie.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from blockmix.structure.types import FloatArray, IntArray

# Numbers in one chunk. Fits of 50 000 × 200 (20 blocks, two threads) by chunks of 2¹⁸, 2¹⁹, 2²⁰, 2²¹ numbers take 0.86,
# 0.75, 0.73, 0.68 s, of 200 000 × 50 (10 blocks) 1.04, 0.91, 0.96, 1.03 s: with shorter calls the threads wait for each
# other, and longer ones leave the caches.
_CHUNK_NUMBERS = 2**20
_FAR = 16.0  # squared deviations from the mean that cost one digit of a variance


class Summable(Protocol):
    """Statistics that add up."""

    def __add__(self: S, other: S) -> S:
        """Statistics of both sets of rows."""
        ...


S = TypeVar("S", bound=Summable)
A = TypeVar("A")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some consecutive rows: standardized values (p, m), their weights (m,) and their place in the data."""

    values: FloatArray
    weights: FloatArray
    place: slice


class Rows(ABC):
    """Rows that are read as standardized chunks, as often as one likes.

    A subclass is a frozen dataclass with `location` and `scale`, arrays of shape (p,) and of the type of the chunks: a
    value x is read as (x − location) / scale.
    """

    location: FloatArray
    scale: FloatArray
    names: list[str] | None = None  # of the columns, where the source has them
    is_array: ClassVar[bool] = False  # whether all rows are in memory anyway, so that a number per row is no burden

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows N."""

    @property
    @abstractmethod
    def total_weight(self) -> float:
        """Σw, the number of rows when all weights are 1."""

    @abstractmethod
    def map(self, function: Callable[[Chunk], T]) -> Iterator[T]:
        """Apply a function to every chunk, in order; several chunks are worked on at a time."""

    @abstractmethod
    def sample(self, most: int, rng: np.random.RandomState) -> Any:
        """At most so many of the rows, in order, as rows in memory; the rows themselves where they are an array."""

    @property
    def n_columns(self) -> int:
        """Number of columns p."""
        return len(self.location)

    def map_sum(self, function: Callable[[Chunk], S]) -> S:
        """Sum of a statistic over all chunks."""
        return total(self.map(function))

    def plain(self) -> Self:
        """The same rows in their own units."""
        return self._in(location=np.zeros_like(self.location), scale=np.ones_like(self.scale))

    def scaled(self, scale: FloatArray) -> Self:
        """The same rows with another scale."""
        return self._in(scale=scale)

    def measured(self) -> Self:
        """The same rows, standardized by their own weighted mean and deviation, after one look at all of them."""
        return self._in(**self.plain().map_sum(Spread.of).units(self.location.dtype))

    def _in(self, **units: Any) -> Self:
        return replace(self, **units)  # type: ignore[type-var]


def chunk_rows(n_columns: int) -> int:
    """Rows in a chunk of so many columns."""
    return max(64, _CHUNK_NUMBERS // n_columns)


def places(n_rows: int, n_columns: int, start: int = 0) -> list[slice]:
    """Places of the chunks of so many rows, the first of which is row `start`."""
    size, stop = chunk_rows(n_columns), start + n_rows
    return [slice(first, min(first + size, stop)) for first in range(start, stop, size)]


def total(parts: Iterable[S]) -> S:
    """Sum of at least one part: of pairs, then of pairs of pairs; rounding grows with the logarithm of their number.

    Examples
    --------
    >>> total("abcdefg")  # ((ab)(cd))((ef)g)
    'abcdefg'
    """
    waiting: list[tuple[int, S]] = []  # sums of 2^level parts, the level falling
    for part in parts:
        level, found = 0, part
        while waiting and waiting[-1][0] == level:
            level, found = level + 1, waiting.pop()[1] + found
        waiting.append((level, found))
    _, found = waiting.pop()
    while waiting:
        found = waiting.pop()[1] + found
    return found


def in_order(pool: Executor, function: Callable[[A], T], items: Iterable[A], ahead: int) -> Iterator[T]:
    """Results of a function, in the order of the items, of which no more than `ahead` are taken in advance."""
    waiting: deque[Future[T]] = deque()
    for item in items:
        waiting.append(pool.submit(function, item))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


@dataclass(frozen=True, eq=False)
class Spread:
    """Number of rows, total weight, and mean (p,) and squared deviations (p,) of each column, in double precision."""

    n_rows: int
    weight: float
    mean: FloatArray
    squares: FloatArray

    @classmethod
    def of(cls, chunk: Chunk) -> Spread:
        """Look at a chunk in its own units.

        Deviations are taken from a row that counts, so that a constant column has none exactly; where that row lies far
        out, which would lose the digits of the variance, again from the mean.
        """
        row = chunk.values[:, int(np.argmax(chunk.weights > 0))]
        found = cls._about(chunk, row)
        far = found.weight * (found.mean - row) ** 2 > _FAR * found.squares
        return cls._about(chunk, found.mean.astype(row.dtype)) if far.any() else found

    @classmethod
    def _about(cls, chunk: Chunk, shift: FloatArray) -> Spread:
        weight = float(chunk.weights.sum(dtype=float))
        centered = chunk.values - shift[:, None]
        offset = (centered @ chunk.weights).astype(float) / (weight or 1)
        squares = (np.multiply(centered, centered, out=centered) @ chunk.weights).astype(float)
        return cls(len(chunk.weights), weight, shift + offset, np.maximum(squares - weight * offset**2, 0))

    def __add__(self, other: Spread) -> Spread:
        weight = self.weight + other.weight
        share, gap = other.weight / (weight or 1), other.mean - self.mean
        squares = self.squares + other.squares + gap**2 * (self.weight * share)
        return Spread(self.n_rows + other.n_rows, weight, self.mean + gap * share, squares)

    def units(self, dtype: np.dtype[np.floating[Any]]) -> dict[str, FloatArray]:
        """Location and scale by which these rows have mean 0 and variance 1; the scale of a constant column is 0."""
        return {"location": self.mean.astype(dtype), "scale": np.sqrt(self.squares / self.weight).astype(dtype)}


class Buffer(threading.local):
    """An array that a thread uses again for each chunk, of which it is the only one at a time.

    Fresh arrays of a megabyte cost page faults. In the workers of Dask, which give memory back to the system at once,
    they were a quarter of a sweep.
    """

    held: NDArray[Any] = np.empty(0)

    def array(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
        """An array of that shape, with anything in it, that is valid until the next one is asked for."""
        size = shape[0] * shape[1]
        if self.held.dtype != dtype or self.held.size < size:
            self.held = np.empty(size, dtype)
        return self.held[:size].reshape(shape)


def chosen_rows(n_rows: int, weights: FloatArray | None, most: int, rng: np.random.RandomState) -> IntArray | None:
    """Numbers of at most so many rows that count, drawn evenly, in order; None stands for all rows."""
    if n_rows <= most:
        return None
    counted = None if weights is None else np.flatnonzero(weights > 0)
    n_counted = n_rows if counted is None else len(counted)
    if counted is not None and n_counted <= most:
        return counted
    # A generator of the new kind draws few of many without an array of all.
    draw = np.random.default_rng(rng.randint(2**31 - 1)).choice(n_counted, most, replace=False, shuffle=False)
    numbers: IntArray = np.sort(draw)
    return numbers if counted is None else counted[numbers]
