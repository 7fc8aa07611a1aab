"""Tables that come in pieces: a sparse matrix, and a factory of chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from blockmix.rows.chunks import places
from blockmix.rows.streamed import Piece


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
