"""Tables that pyarrow reads, and Parquet: a file or a folder of files, read by row groups, with chosen columns."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from blockmix.rows.chunks import chunk_rows
from blockmix.rows.streamed import Piece

_BUFFER = 2**20  # bytes that are read ahead of a column: without a buffer a whole row group would be in memory


@dataclass(frozen=True, eq=False)
class PyarrowTable(ABC):
    """Columns of a table that pyarrow reads; see `Parquet` for the parameters."""

    path: str | os.PathLike[str]
    columns: Sequence[str] | None = None

    @property
    @abstractmethod
    def schema(self) -> Any:
        """Names and types of all columns of the table."""

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows, as the file states it."""

    @abstractmethod
    def column(self, name: str) -> Iterator[Any]:
        """The arrays of one column of the table, of any type, in order."""

    @cached_property
    def files(self) -> list[Path]:
        """The files, in order."""
        if not Path(self.path).exists():
            raise FileNotFoundError(f"{self.path} does not exist")
        return [Path(self.path)]

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns: those asked for, or all that the table has."""
        if isinstance(self.columns, str):
            raise ValueError(f"columns={self.columns!r} is one name: give a list of names")
        return list(self.schema.names if self.columns is None else self.columns)

    @property
    def n_columns(self) -> int:
        """Number of columns p."""
        return len(self.names)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Single precision if all columns have it."""
        return np.result_type(*column_types(self.files[0], self.schema, self.names))


@dataclass(frozen=True, eq=False)
class Parquet(PyarrowTable):
    """Columns of a Parquet file, or of all `.parquet` files of a folder in the order of their names.

    Parameters
    ----------
    path : path
    columns : sequence of str or None
        Names of the columns, in the order wanted; None takes all of them, which must be numbers then.

    Examples
    --------
    >>> model.fit(Parquet("trips", columns=["distance", "fare", "tip"]))  # doctest: +SKIP
    """

    @cached_property
    def files(self) -> list[Path]:
        """The files, in order."""
        (path,) = super().files
        found = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
        if not found:
            raise ValueError(f"{path} holds no .parquet file")
        return found

    @property
    def schema(self) -> Any:
        """Names and types of all columns of the first file."""
        return _file(self.files[0]).schema_arrow

    @property
    def n_rows(self) -> int:
        """Number of rows, as the files state it."""
        return sum(_file(path).metadata.num_rows for path in self.files)

    def column(self, name: str) -> Iterator[Any]:
        """The arrays of one column of the table, of any type, in order."""
        return (batch.column(0) for path in self.files for batch in _file(path).iter_batches(columns=[name]))

    def pieces(self) -> Iterator[Piece]:
        """Chunks of each row group in turn; no more than one chunk of it is in memory."""
        for path in self.files:
            file = _file(path)
            column_types(path, file.schema_arrow, self.names)
            for group in range(file.num_row_groups):
                name = f"{path}, row group {group}"
                try:
                    for batch in file.iter_batches(chunk_rows(self.n_columns), [group], self.names):
                        yield Piece(name, batch.num_rows, partial(side_by_side, batch, self.names))
                except Exception as error:
                    raise ValueError(f"{name} cannot be read ({type(error).__name__}: {error})") from error


def _file(path: Path) -> Any:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"{path} is read by pyarrow: install blockmix[app] or pyarrow") from error
    try:
        return parquet.ParquetFile(path, buffer_size=_BUFFER)
    except Exception as error:
        raise ValueError(f"{path} cannot be read ({type(error).__name__}: {error})") from error


def column_types(path: Path, schema: Any, names: list[str]) -> list[Any]:
    """Types of the columns of a file with this pyarrow schema, which must be numbers."""
    types = []
    for name in names:
        at = schema.get_field_index(name)
        if at < 0:
            raise ValueError(f"{path} has no column {name!r}, it has {', '.join(schema.names)}")
        kind = schema.field(at).type
        try:
            types.append(np.dtype(kind.to_pandas_dtype()))
        except (NotImplementedError, TypeError):
            types.append(np.dtype(object))
        if types[-1].kind not in "biuf":
            raise ValueError(f"column {name!r} of {path} holds {kind}: choose columns of numbers")
    return types


def side_by_side(batch: Any, names: list[str]) -> Any:
    """The columns of a pyarrow batch side by side; a missing value is NaN."""
    columns = [batch.column(batch.schema.get_field_index(name)).to_numpy(zero_copy_only=False) for name in names]
    return np.stack(columns).T
