"""Rows of a Dask collection: reduced where they are stored, on threads or on a cluster; only statistics travel.

A `dask.array` or `dask.dataframe` comes in. Each pass is one graph: a task per block, then sums of eight at a time, by
the scheduler or client that is in scope. Tasks are pure and blocks come from their own graph, so the
results of a lost worker are recomputed and the sum is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
from dask._task_spec import DataNode, List, Task, TaskRef
from dask.base import compute
from dask.delayed import Delayed, delayed
from dask.highlevelgraph import HighLevelGraph

from blockmix.partition import FloatArray
from blockmix.rows.measured import EXACT, Resolution, S, total
from blockmix.rows.rows import ArrayRows, Chunk, Observed, Rows, Spread, chosen_rows, one_blas_thread
from blockmix.rows.streamed import Piece, Reading, sampled

# Tasks are objects of a module of Dask that is private by name: calls of `delayed` cost 20 times as much, 1 ms a block.
_TOGETHER = 8  # sums that one task adds up
_OURS = "block "  # errors of our own tasks begin with the name of the block

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class DaskRows(Rows):
    """The rows of a Dask collection, read in chunks by its workers.

    Parameters
    ----------
    blocks : sequence of delayed matrices
    lengths : sequence of int
        Rows of each block.
    weights : array of shape (N,) or None
        None counts every row once; an array travels to the workers with every pass.
    location, scale : arrays of shape (p,)
    dtype : dtype
        Type of the chunks.
    names : list of str or None
    checked : bool
        Whether the values are known to be finite.
    collection : object
        Where the blocks come from. Held so that the cluster does not release persisted blocks.
    allow_missing : bool
        Whether values may be missing.
    observed : Observed or None
        How many values there are, once they have been counted.
    """

    blocks: Sequence[Any]
    lengths: Sequence[int]
    weights: FloatArray | None
    location: FloatArray
    scale: FloatArray
    dtype: np.dtype[Any]
    names: list[str] | None = None
    checked: bool = False
    collection: Any = None
    resolution: Resolution = EXACT
    allow_missing: bool = False
    observed: Observed | None = None

    @classmethod
    def of(cls, X: Any, weights: FloatArray | None = None, dtype: Any = None, allow_missing: bool = False) -> DaskRows:
        """The rows of a collection in their own units; of its type, or double precision for whole numbers."""
        names, found = _columns(X)
        blocks = list(X.rechunk({1: -1}).to_delayed().ravel() if names is None else X.to_delayed())
        known: Any = X.chunks[0] if names is None else (np.nan,)
        lengths = compute(*[delayed(len)(block) for block in blocks]) if np.isnan(sum(known)) else known
        if sum(lengths) == 0:
            raise ValueError("X has no rows")
        if weights is not None and len(weights) != sum(lengths):
            raise ValueError(f"sample_weight has {len(weights)} numbers for {sum(lengths)} rows: give one for each row")
        kept = np.dtype(dtype or (found if found == np.float32 else np.float64))
        p = X.shape[1]
        counted = None if weights is None else weights.astype(float)
        return cls(
            blocks, lengths, counted, np.zeros(p), np.ones(p), kept, names, collection=X, allow_missing=allow_missing
        )

    @property
    def n_rows(self) -> int:
        """Number of rows N."""
        return int(sum(self.lengths))

    def measured(self) -> DaskRows:
        """The same rows, standardized by their weighted mean and deviation."""
        spread = self.map_sum(Spread.of)
        return self._in(checked=True, observed=spread.observed, **spread.units())

    def sample(self, most: int, rng: np.random.RandomState) -> ArrayRows:
        """Draw at most `most` rows of positive weight, evenly and in order, as rows in memory."""
        return sampled(self, chosen_rows(self.n_rows, self.weights, most, rng))

    def map(self, function: Callable[[Chunk], T]) -> Iterator[T]:
        """Apply a function to every chunk on its worker; the results come here, in order."""
        tasks, keys = self._tasks(_Each(function), "map")
        for results in self._computed(tasks, keys):
            yield from results

    def map_sum(self, function: Callable[[Chunk], S]) -> S:
        """Sum of a statistic over all chunks, of which only the sum comes here."""
        tasks, keys = self._tasks(_Sum(function), "sweep")
        while len(keys) > 1:
            sums = {
                key: Task(key, total, List(*[TaskRef(part) for part in keys[first : first + _TOGETHER]]))
                for first in range(0, len(keys), _TOGETHER)
                for key in [f"blockmix-add-{uuid4().hex}"]
            }
            tasks, keys = tasks | sums, list(sums)
        (found,) = self._computed(tasks, keys)
        result: S = found
        return result

    def _tasks(self, work: Callable[[Iterator[Chunk]], Any], name: str) -> tuple[dict[str, Any], list[str]]:
        """Tasks of the work on each block that has rows, and their keys, by which the dashboard shows them."""
        run = uuid4().hex
        # One node of the graph: parameters go to a worker once, not with each of its blocks.
        shared = f"blockmix-parameters-{run}"
        check = not self.checked
        reading = Reading(self.location, self.scale, self.dtype, self.resolution, self.names, check, self.allow_missing)
        tasks: dict[str, Any] = {shared: DataNode(shared, _Work(reading, work))}
        starts = np.concatenate([[0], np.cumsum(self.lengths)]).tolist()
        for number, block in enumerate(self.blocks):
            start, stop = starts[number : number + 2]
            if stop > start:
                weights = None if self.weights is None else self.weights[start:stop]
                at = (TaskRef(shared), TaskRef(block.key), number, start, stop, weights)
                key = f"blockmix-{name}-{run}-{number}"
                tasks[key] = Task(key, _at_block, *at)
        return tasks, list(tasks)[1:]

    def _computed(self, tasks: dict[str, Any], keys: list[str]) -> Any:
        """Results of the tasks with these keys."""
        graph = HighLevelGraph.merge(*{id(block.dask): block.dask for block in self.blocks}.values())
        layers, dependencies = dict(graph.layers), dict(graph.dependencies)
        layers[keys[0]], dependencies[keys[0]] = tasks, set(graph.layers)
        whole = HighLevelGraph(layers, dependencies)
        try:
            return compute(*[Delayed(key, whole, layer=keys[0]) for key in keys])
        except Exception as error:
            if not str(error).startswith(_OURS):
                self._refuse_block(error)
            raise

    def _refuse_block(self, error: Exception) -> None:
        """Raise an error that names the block which cannot be made, if it is one."""
        for number, block in enumerate(self.blocks):
            with suppress(Exception):
                compute(delayed(len)(block))
                continue
            raise ValueError(f"block {number} of X cannot be read ({type(error).__name__}: {error})") from error


@dataclass(frozen=True)
class _Each:
    function: Callable[[Chunk], Any]

    def __call__(self, chunks: Iterator[Chunk]) -> list[Any]:
        return [self.function(chunk) for chunk in chunks]


@dataclass(frozen=True)
class _Sum:
    function: Callable[[Chunk], Any]

    def __call__(self, chunks: Iterator[Chunk]) -> Any:
        return total(self.function(chunk) for chunk in chunks)


@dataclass(frozen=True)
class _Work:
    reading: Reading
    work: Callable[[Iterator[Chunk]], Any]


def _at_block(shared: _Work, block: Any, number: int, start: int, stop: int, weights: FloatArray | None) -> Any:
    piece = Piece(f"block {number} of X", stop - start, lambda: block)
    with one_blas_thread():  # as many tasks at a time as the worker has threads
        return shared.work(shared.reading.chunks(piece, start, weights))


def _columns(X: Any) -> tuple[list[str] | None, Any]:
    """Names of the columns, None for an array, and their common type."""
    if not hasattr(X, "columns"):
        if X.ndim != 2 or X.dtype.kind not in "biuf":
            raise ValueError(f"X has shape {X.shape} and type {X.dtype}: give a matrix of numbers")
        return None, X.dtype
    for name, dtype in X.dtypes.items():
        if getattr(dtype, "kind", "O") not in "biuf":
            raise ValueError(f"column {name!r} of X holds {dtype}: choose columns of numbers")
    return [str(name) for name in X.columns], np.result_type(*[np.dtype(dtype.name.lower()) for dtype in X.dtypes])
