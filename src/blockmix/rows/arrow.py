"""Arrow: a file in Arrow's format for files (.arrow, .feather), read by record batches, with chosen columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from blockmix.rows.chunks import chunk_rows
from blockmix.rows.parquet import PyarrowTable, side_by_side
from blockmix.rows.streamed import Piece


@dataclass(frozen=True, eq=False)
class Arrow(PyarrowTable):
    """Columns of an Arrow or Feather file.

    Parameters
    ----------
    path : path
    columns : sequence of str or None
        Names of the columns, in the order wanted; None takes all of them, which must be numbers then.
    """

    @property
    def schema(self) -> Any:
        """Names and types of all columns of the file."""
        return self._open().schema

    @property
    def n_rows(self) -> int:
        """Number of rows, as the file states it."""
        from pyarrow import dataset

        return int(dataset.dataset(self.path, format="arrow").count_rows())

    def column(self, name: str) -> Iterator[Any]:
        """The arrays of one column of the table, of any type, in order."""
        file = self._open([name])
        return (file.get_batch(number).column(0) for number in range(file.num_record_batches))

    def pieces(self) -> Iterator[Piece]:
        """Chunks of each record batch in turn; one record batch is in memory."""
        file = self._open(self.names)
        for number in range(file.num_record_batches):
            name = f"{self.path}, record batch {number}"
            try:
                batch = file.get_batch(number)
            except Exception as error:
                raise ValueError(f"{name} cannot be read ({type(error).__name__}: {error})") from error
            for first in range(0, batch.num_rows, chunk_rows(self.n_columns)):
                part = batch.slice(first, chunk_rows(self.n_columns))
                yield Piece(name, part.num_rows, partial(side_by_side, part, self.names))

    def _open(self, only: Sequence[str] | None = None) -> Any:
        """The file, of which only some columns are read."""
        try:
            import pyarrow as pa
        except ImportError as error:
            raise ImportError(f"{self.path} is read by pyarrow: install blockmix[app] or pyarrow") from error
        path = str(self.files[0])
        try:
            # Not mapped: mapped pages would count as memory of the process.
            file = pa.ipc.open_file(pa.OSFile(path))
            if only is None:
                return file
            fields = [file.schema.get_field_index(name) for name in only if name in file.schema.names]
            options = pa.ipc.IpcReadOptions(included_fields=fields)
            return pa.ipc.open_file(pa.OSFile(path), options=options)
        except Exception as error:
            raise ValueError(f"{self.path} cannot be read ({type(error).__name__}: {error})") from error
