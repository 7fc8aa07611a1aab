"""Arrow: a file in Arrow's format for files (.arrow, .feather), read by record batches, with chosen columns."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from blockmix.rows.chunks import chunk_rows
from blockmix.rows.parquet import column_types, side_by_side
from blockmix.rows.streamed import Piece


@dataclass(frozen=True, eq=False)
class Arrow:
    """Columns of an Arrow or Feather file.

    Parameters
    ----------
    path : path
    columns : sequence of str or None
        Names of the columns, in the order wanted; None takes all of them, which must be numbers then.
    """

    path: str | os.PathLike[str]
    columns: Sequence[str] | None = None

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.open().schema.names if self.columns is None else self.columns)

    @property
    def n_columns(self) -> int:
        """Number of columns p."""
        return len(self.names)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Single precision if all columns have it."""
        return np.result_type(*column_types(Path(self.path), self.open().schema, self.names))

    def pieces(self) -> Iterator[Piece]:
        """Chunks of each record batch in turn; one record batch is in memory."""
        file = self.open(self.names)
        for number in range(file.num_record_batches):
            name = f"{self.path}, record batch {number}"
            try:
                batch = file.get_batch(number)
            except Exception as error:
                raise ValueError(f"{name} cannot be read ({type(error).__name__}: {error})") from error
            for first in range(0, batch.num_rows, chunk_rows(self.n_columns)):
                part = batch.slice(first, chunk_rows(self.n_columns))
                yield Piece(name, part.num_rows, partial(side_by_side, part, self.names))

    def open(self, only: Sequence[str] | None = None) -> Any:
        """The file, of which only some columns are read."""
        try:
            import pyarrow as pa
        except ImportError as error:
            raise ImportError(f"{self.path} is read by pyarrow: install blockmix[app] or pyarrow") from error
        if not Path(self.path).exists():
            raise FileNotFoundError(f"{self.path} does not exist")
        try:
            # Not mapped: mapped pages would count as memory of the process.
            file = pa.ipc.open_file(pa.OSFile(os.fspath(self.path)))
            if only is None:
                return file
            fields = [file.schema.get_field_index(name) for name in only if name in file.schema.names]
            options = pa.ipc.IpcReadOptions(included_fields=fields)
            return pa.ipc.open_file(pa.OSFile(os.fspath(self.path)), options=options)
        except Exception as error:
            raise ValueError(f"{self.path} cannot be read ({type(error).__name__}: {error})") from error
