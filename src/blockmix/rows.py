"""Rows: where the rows of the data come from, and in which pieces they are read.

A matrix comes in; standardized chunks, feature-major, go out to a function whose results are summed. Nothing above this
module knows whether the rows lie in one array, and nothing here knows what is computed from them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import cache, cached_property, partial, reduce
from typing import Protocol, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from blockmix._types import FloatArray

# Numbers in one chunk. Sweeps of 50 000 × 200 (20 blocks, two threads) by chunks of 2¹⁵, 2¹⁶, 2¹⁷, 2¹⁸ numbers take
# 0.49, 0.31, 0.25, 0.25 s, of 200 000 × 50 (10 blocks) 0.56, 0.35, 0.35, 0.30 s: with shorter calls the threads wait
# for each other.
_CHUNK_NUMBERS = 2**18
# Data of up to so many numbers are standardized once, not in every sweep: that was a quarter of a sweep of the factor
# mixture at N = 62, p = 2000.
_KEPT_NUMBERS = 2**20


class Summable(Protocol):
    """Statistics that add up."""

    def __add__(self: S, other: S) -> S:
        """Statistics of both sets of rows."""
        ...


S = TypeVar("S", bound=Summable)
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some consecutive rows: standardized values (p, m), their weights (m,) and their place in the data."""

    values: FloatArray
    weights: FloatArray
    place: slice


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """The rows of an array in memory, read as standardized chunks on threads.

    Parameters
    ----------
    X : array of shape (N, p)
    weights : array of shape (N,)
    location, scale : arrays of shape (p,)
        A value x is read as (x − location) / scale.
    n_threads : int
        Threads that read chunks.
    """

    X: FloatArray
    weights: FloatArray
    location: FloatArray
    scale: FloatArray
    n_threads: int = 1

    @classmethod
    def standardized(cls, X: FloatArray, weights: FloatArray | None = None) -> ArrayRows:
        """Rows standardized by their own weighted mean and deviation; a column must vary."""
        counted = np.ones(len(X), dtype=X.dtype) if weights is None else weights
        unit = cls(X, counted, np.zeros_like(X[0]), np.ones_like(X[0]), os.cpu_count() or 1)
        # From a row that counts, so that a constant column is 0 exactly, and then from the mean: one pass alone would
        # lose the digits of the variance where that row lies far out.
        shift = X[np.argmax(counted > 0)]
        for _ in range(2):
            sums = unit.map_sum(partial(_Sums.of, shift=shift))
            shift = shift + sums.first / sums.weight
        variances = sums.second / sums.weight - (sums.first / sums.weight) ** 2
        return cls(X, counted, shift, np.sqrt(np.maximum(variances, 0)), unit.n_threads)

    @property
    def total_weight(self) -> float:
        """Σw, the number of rows when all weights are 1."""
        return float(self.weights.sum(dtype=float))

    @property
    def n_rows(self) -> int:
        """Number of rows N."""
        return len(self.X)

    @property
    def n_columns(self) -> int:
        """Number of columns p."""
        return int(self.X.shape[1])

    def map_sum(self, function: Callable[[Chunk], S]) -> S:
        """Sum of a statistic over all chunks."""
        return reduce(lambda a, b: a + b, self.map(function))

    def map(self, function: Callable[[Chunk], T]) -> Iterator[T]:
        """Apply a function to every chunk, in order; several chunks are worked on at a time."""
        size = max(64, _CHUNK_NUMBERS // self.n_columns)
        places = [slice(first, min(first + size, self.n_rows)) for first in range(0, self.n_rows, size)]
        if self.n_threads == 1 or len(places) < 2 * self.n_threads:
            yield from (function(self._chunk(place)) for place in places)
            return
        with ThreadPoolExecutor(self.n_threads) as pool:
            yield from pool.map(lambda place: function(self._chunk(place)), places)

    def _chunk(self, place: slice) -> Chunk:
        if place.start in self._kept:
            return self._kept[place.start]
        values = np.subtract(self.X[place].T, self.location[:, None], order="C")
        values /= self.scale[:, None]
        chunk = Chunk(values, self.weights[place], place)
        if self.X.size <= _KEPT_NUMBERS:
            values.flags.writeable = False
            self._kept[place.start] = chunk
        return chunk

    @cached_property
    def _kept(self) -> dict[int, Chunk]:
        return {}


@dataclass(frozen=True, eq=False)
class _Sums:
    weight: float
    first: FloatArray
    second: FloatArray

    @classmethod
    def of(cls, chunk: Chunk, shift: FloatArray) -> _Sums:
        centered = chunk.values - shift[:, None]
        return cls(float(chunk.weights.sum()), centered @ chunk.weights, centered**2 @ chunk.weights)

    def __add__(self, other: _Sums) -> _Sums:
        return _Sums(self.weight + other.weight, self.first + other.first, self.second + other.second)


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
