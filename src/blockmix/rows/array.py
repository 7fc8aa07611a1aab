"""The rows of an array in memory, read in chunks on threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeVar

import numpy as np

from blockmix.rows.chunks import Chunk, Rows, in_order, places
from blockmix.structure.types import FloatArray

# Data of up to so many numbers (256 MB) are standardized and turned once, not in every sweep: that was a quarter of a
# sweep of the factor mixture at N = 62, p = 2000, and a sixth of one of EM at 50 000 × 200.
_KEPT_NUMBERS = 2**25

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class ArrayRows(Rows):
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
    is_array: ClassVar[bool] = True

    @classmethod
    def of(cls, X: FloatArray, weights: FloatArray | None = None) -> ArrayRows:
        """The rows of an array in their own units, on as many threads as there are cores."""
        counted = np.ones(len(X), dtype=X.dtype) if weights is None else weights
        return cls(X, counted, np.zeros_like(X[0]), np.ones_like(X[0]), os.cpu_count() or 1)

    @classmethod
    def standardized(cls, X: FloatArray, weights: FloatArray | None = None) -> ArrayRows:
        """Rows standardized by their own weighted mean and deviation; a column must vary."""
        return cls.of(X, weights).measured()

    @property
    def total_weight(self) -> float:
        """Σw, the number of rows when all weights are 1."""
        return float(self.weights.sum(dtype=float))

    @property
    def n_rows(self) -> int:
        """Number of rows N."""
        return len(self.X)

    def sample(self, most: int, rng: np.random.RandomState) -> ArrayRows:
        """The rows themselves: they are in memory already."""
        return self

    def map(self, function: Callable[[Chunk], T]) -> Iterator[T]:
        """Apply a function to every chunk, in order; several chunks are worked on at a time."""
        chunks = places(self.n_rows, self.n_columns)
        n_threads = min(self.n_threads, len(chunks))
        if n_threads == 1:
            yield from (function(self._chunk(place)) for place in chunks)
            return
        with ThreadPoolExecutor(n_threads) as pool:
            yield from in_order(pool, lambda place: function(self._chunk(place)), chunks, 2 * n_threads)

    def _chunk(self, place: slice) -> Chunk:
        if self._is_plain:
            return Chunk(np.array(self.X[place].T, order="C"), self.weights[place], place)
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
    def _is_plain(self) -> bool:
        """Whether the rows are read in their own units; that is done once, so nothing is kept for another time."""
        return not self.location.any() and bool((self.scale == 1).all())

    @cached_property
    def _kept(self) -> dict[int, Chunk]:
        return {}
