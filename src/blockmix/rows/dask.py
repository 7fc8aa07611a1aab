"""Rows of a Dask collection: reduced where they are stored, on threads or on a cluster; only statistics travel.

Each pass over a `dask.array` or `dask.dataframe` is one graph, a task per block and then sums of eight at a time, run
by the scheduler or client in scope. Tasks are pure and blocks come from their own graph, so the results of a lost
worker are recomputed and the sum is the same. The paper has no counterpart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from dask.base import compute
from dask.delayed import delayed

from blockmix.partition import FloatArray
from blockmix.rows.measured import EXACT, Observed, Resolution, S, total
from blockmix.rows.powers import Powers
from blockmix.rows.rows import Chunk, Rows, one_blas_thread
from blockmix.rows.streamed import Piece, chunks_of, listed, summed

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
    allow_missing : bool
        Whether NaN, a missing value, is accepted.
    resolution : Resolution
    powers : Powers or None
    collection : object
        Where the blocks come from. Held so that the cluster does not release persisted blocks.
    counted : Observed or None
        How many values there are; None before the first pass, which also checks them.
    """

    blocks: Sequence[Any]
    lengths: Sequence[int]
    weights: FloatArray | None
    location: FloatArray
    scale: FloatArray
    dtype: np.dtype[Any]
    names: list[str] | None = None
    allow_missing: bool = False
    resolution: Resolution = EXACT
    powers: Powers | None = None
    collection: Any = None
    counted: InitVar[Observed | None] = None

    def __post_init__(self, counted: Observed | None) -> None:
        self._derive(counted, int(sum(self.lengths)))

    @classmethod
    def of(cls, X: Any, weights: FloatArray | None = None, dtype: Any = None, allow_missing: bool = False) -> DaskRows:
        """The rows of a collection in their own units; of its type, or double precision for whole numbers."""
        names, stored = _columns(X)
        blocks = list(X.rechunk({1: -1}).to_delayed().ravel() if names is None else X.to_delayed())
        stated: Any = X.chunks[0] if names is None else (np.nan,)
        lengths = compute(*[delayed(len)(block) for block in blocks]) if np.isnan(sum(stated)) else stated
        if sum(lengths) == 0:
            raise ValueError("X has no rows")
        if weights is not None and len(weights) != sum(lengths):
            raise ValueError(f"sample_weight has {len(weights)} numbers for {sum(lengths)} rows: give one for each row")
        dtype = np.dtype(dtype or (stored if stored == np.float32 else np.float64))
        counts, p = None if weights is None else weights.astype(float), X.shape[1]
        return cls(blocks, lengths, counts, np.zeros(p), np.ones(p), dtype, names, allow_missing, collection=X)

    def map(self, function: Callable[[Chunk], T]) -> Iterator[T]:
        """Apply a function to every chunk on its worker; the results come here, in order."""
        for results in self._computed(self._parts(partial(listed, function))):
            yield from results

    def map_sum(self, function: Callable[[Chunk], S]) -> S:
        """Sum of a statistic over all chunks, of which only the sum comes here."""
        parts = self._parts(partial(summed, function))
        while len(parts) > 1:
            places = range(0, len(parts), _TOGETHER)
            parts = [delayed(total)(parts[first : first + _TOGETHER]) for first in places]
        result: S = self._computed(parts)[0]
        return result

    def _parts(self, work: Callable[[Iterator[Chunk]], Any]) -> list[Any]:
        """Tasks of the work on each block that has rows."""
        # One node of the graph: parameters go to a worker once, not with each of its blocks.
        shared = delayed((self.replace(blocks=(), lengths=(), weights=None, collection=None), work), traverse=False)
        starts, parts = np.concatenate([[0], np.cumsum(self.lengths)]).tolist(), []
        for number, (block, start, stop) in enumerate(zip(self.blocks, starts[:-1], starts[1:], strict=True)):
            weights = None if self.weights is None else self.weights[start:stop]
            if stop > start:
                parts.append(delayed(_at_block)(shared, block, number, start, stop, weights))
        return parts

    def _computed(self, parts: list[Any]) -> Any:
        """Results of tasks."""
        try:
            return compute(*parts)
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


def _at_block(shared: Any, block: Any, number: int, start: int, stop: int, weights: FloatArray | None) -> Any:
    """Result of the work on a block, on its worker."""
    units, work = shared
    piece = Piece(f"block {number} of X", stop - start, lambda: block)
    with one_blas_thread():  # as many tasks at a time as the worker has threads
        return work(chunks_of(units, piece, start, weights))


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
