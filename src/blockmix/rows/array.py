"""The rows of an array in memory, read in chunks on threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np

from blockmix.rows.chunks import Chunk, Observed, Rows, chosen_rows, contiguous, counting, in_order, places
from blockmix.rows.resolution import EXACT, Resolution
from blockmix.structure.types import FloatArray, IntArray

T = TypeVar("T")


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
