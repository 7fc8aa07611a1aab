"""Arrays in files: a `.npy` file or a `numpy.memmap`, read by chunks.

Contiguous rows are read from the file itself: mapped pages would count as memory of the process.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from blockmix.rows.chunks import places
from blockmix.rows.streamed import Piece


@dataclass(frozen=True)
class ArrayFile:
    """A matrix in a file from byte `offset` on, row by row, or one that is mapped from it."""

    path: str
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    offset: int = 0
    mapped: Any = None
    names: list[str] | None = None

    @classmethod
    def of(cls, X: Any, path: str | os.PathLike[str] | None = None) -> ArrayFile:
        """The matrix that a `numpy.memmap` shows."""
        name = str(path or getattr(X, "filename", None) or "X")
        if X.ndim != 2:
            raise ValueError(f"{name} holds an array of shape {X.shape}: give a matrix of rows and columns")
        if X.dtype.kind not in "biuf":
            raise ValueError(f"{name} holds values of type {X.dtype}: give numbers")
        # A part of a mapping has the file and offset of the whole; changes to a copy are not in the file.
        whole = isinstance(X.base, mmap.mmap) and X.flags.c_contiguous and X.mode != "c" and X.filename is not None
        return cls(name, X.shape, X.dtype, X.offset if whole else 0, None if whole else np.asarray(X))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ArrayFile:
        """The matrix in a `.npy` file."""
        try:
            X = np.load(path, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError:
            raise FileNotFoundError(f"{path} does not exist") from None
        except Exception as error:  # whatever a damaged file can raise
            raise ValueError(f"{path} cannot be read as a .npy file ({type(error).__name__}: {error})") from error
        return cls.of(X, Path(path).resolve())

    @property
    def n_rows(self) -> int:
        """Number of rows N."""
        return self.shape[0]

    @property
    def n_columns(self) -> int:
        """Number of columns p."""
        return self.shape[1]

    def pieces(self) -> Iterator[Piece]:
        """Chunks in turn."""
        for place in places(*self.shape):
            name = f"{self.path}, rows {place.start} to {place.stop - 1}"
            yield Piece(name, place.stop - place.start, partial(self._read, place))

    def _read(self, place: slice) -> np.ndarray[Any, Any]:
        if self.mapped is not None:
            return np.asarray(self.mapped[place])
        values = np.empty((place.stop - place.start, self.n_columns), self.dtype)
        with Path(self.path).open("rb", buffering=0) as file:
            file.seek(self.offset + place.start * self.n_columns * self.dtype.itemsize)
            rest = values.data.cast("B")
            while len(rest) and (count := file.readinto(rest)):
                rest = rest[count:]
        if len(rest):
            raise ValueError("the file ends before its rows do")
        return values
