"""Files of rows: what X may be if it is not an array in memory, and the formats that are read in pieces.

`opened` decides what X is, `source_of` which format a path has; the command asks the same table, `FORMATS`. A `.npy`
file is read from the file itself: mapped pages would count as memory of the process.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse

from blockmix.partition import FloatArray
from blockmix.rows.rows import Rows, chunk_rows, places
from blockmix.rows.streamed import Piece, StreamedRows, factory_source, sparse_source

_BUFFER = 2**20  # bytes that are read ahead of a column: without a buffer a whole row group would be in memory


@dataclass(frozen=True)
class ArrayFile:
    """A matrix in a file from byte `offset` on, row by row, or one that is mapped from it."""

    path: str
    n_rows: int
    n_columns: int
    dtype: np.dtype[Any]
    offset: int = 0
    mapped: Any = None
    names: None = None

    @classmethod
    def of(cls, X: Any, path: str | os.PathLike[str] | None = None) -> ArrayFile:
        """The matrix that a `numpy.memmap` shows."""
        name = str(path or getattr(X, "filename", None) or "X")
        if X.ndim != 2 or X.shape[1] == 0:
            raise ValueError(f"{name} holds an array of shape {X.shape}: give a matrix of rows and columns")
        if X.dtype.kind not in "biuf":
            raise ValueError(f"{name} holds values of type {X.dtype}: give numbers")
        # A part of a mapping has the file and offset of the whole; changes to a copy are not in the file.
        whole = isinstance(X.base, mmap.mmap) and X.flags.c_contiguous and X.mode != "c" and X.filename is not None
        return cls(name, X.shape[0], X.shape[1], X.dtype, X.offset if whole else 0, None if whole else np.asarray(X))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ArrayFile:
        """The matrix in a `.npy` file."""
        try:
            X = np.load(path, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError:
            raise FileNotFoundError(f"{path} does not exist") from None
        except Exception as error:  # whatever a damaged file can raise
            if "mmap length" in str(error):
                raise ValueError(f"{path} ends before its array does: copy it again or save it again") from None
            raise ValueError(f"{path} cannot be read as a .npy file ({type(error).__name__}: {error})") from error
        return cls.of(X, Path(path).resolve())

    def pieces(self) -> Iterator[Piece]:
        """Chunks in turn."""
        for place in places(self.n_rows, self.n_columns):
            name = f"{self.path}, rows {place.start} to {place.stop - 1}"
            yield Piece(name, place.stop - place.start, partial(self._read, place))

    def _read(self, place: slice) -> np.ndarray[Any, Any]:
        if self.mapped is not None:
            return np.asarray(self.mapped[place])
        begin = self.offset + place.start * self.n_columns * self.dtype.itemsize
        values = np.fromfile(self.path, self.dtype, (place.stop - place.start) * self.n_columns, offset=begin)
        if len(values) < (place.stop - place.start) * self.n_columns:
            raise ValueError("the file ends before its rows do")
        return values.reshape(-1, self.n_columns)


@dataclass(frozen=True, eq=False)
class Parquet:
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

    path: str | os.PathLike[str]
    columns: Sequence[str] | None = None

    @cached_property
    def files(self) -> list[Path]:
        """The files, in order."""
        path = Path(self.path)
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist")
        if not (files := sorted(path.rglob("*.parquet")) if path.is_dir() else [path]):
            raise ValueError(f"{path} holds no .parquet file")
        return files

    def column(self, name: str) -> Iterator[Any]:
        """The arrays of one column of the table, of any type, in order."""
        parts = (part for path in self.files for part in self.parts(path, [name]))
        return (batch.column(batch.schema.get_field_index(name)) for _, batches in parts for batch in batches)

    def pieces(self) -> Iterator[Piece]:
        """Chunks of each part in turn; no more than one chunk of a row group, or one record batch, is in memory."""
        for path in self.files:
            column_types(path, self.schema_of(path), self.names)
            for part, batches in self.parts(path, self.names):
                try:
                    for batch in batches:
                        yield Piece(f"{path}, {part}", batch.num_rows, partial(side_by_side, batch, self.names))
                except Exception as error:
                    raise unreadable(f"{path}, {part}", error) from error

    @property
    def schema(self) -> Any:
        """Names and types of all columns of the table, those of its first file."""
        return self.schema_of(self.files[0])

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

    def schema_of(self, path: Path) -> Any:
        """Names and types of all columns of a file."""
        return _file(path).schema_arrow

    @property
    def n_rows(self) -> int:
        """Number of rows, as the files state it."""
        return sum(_file(path).metadata.num_rows for path in self.files)

    def parts(self, path: Path, names: list[str]) -> Iterator[tuple[str, Any]]:
        """Name of each part of a file, and the batches of these columns in it: row groups, in chunks."""
        file = _file(path)
        for group in range(file.num_row_groups):
            yield f"row group {group}", file.iter_batches(chunk_rows(len(names)), [group], names)


def _file(path: Path) -> Any:
    parquet = needed("pyarrow.parquet", "app")
    try:
        return parquet.ParquetFile(path, buffer_size=_BUFFER)
    except Exception as error:
        raise unreadable(path, error) from error


def unreadable(what: object, error: Exception) -> ValueError:
    """An error about a file, or part of it, that a library cannot read."""
    return ValueError(f"{what} cannot be read ({type(error).__name__}: {error})")


def column_types(path: Path, schema: Any, names: list[str]) -> list[Any]:
    """Types of the columns of a file with this pyarrow schema, which must be numbers."""
    types = []
    for name in names:
        place = schema.get_field_index(name)
        if place < 0:
            raise ValueError(f"{path} has no column {name!r}, it has {', '.join(schema.names)}")
        kind = schema.field(place).type
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


class Arrow(Parquet):
    """Columns of an Arrow or Feather file.

    Parameters
    ----------
    path : path
    columns : sequence of str or None
        Names of the columns, in the order wanted; None takes all of them, which must be numbers then.
    """

    def schema_of(self, path: Path) -> Any:
        """Names and types of all columns of a file."""
        return self._open(path).schema

    @property
    def n_rows(self) -> int:
        """Number of rows, as the file states it."""
        from pyarrow import dataset

        return int(dataset.dataset(self.path, format="arrow").count_rows())

    def parts(self, path: Path, names: list[str]) -> Iterator[tuple[str, Any]]:
        """Record batches, each in chunks."""
        file, rows = self._open(path, names), chunk_rows(len(names))

        def chunks(number: int) -> Iterator[Any]:
            batch = file.get_batch(number)
            yield from (batch.slice(first, rows) for first in range(0, batch.num_rows, rows))

        yield from ((f"record batch {number}", chunks(number)) for number in range(file.num_record_batches))

    def _open(self, path: Path, only: Sequence[str] = ()) -> Any:
        """A file, of which only some columns are read; all of them by default."""
        pa = needed("pyarrow", "app")
        try:
            # Not mapped: mapped pages would count as memory of the process.
            file = pa.ipc.open_file(pa.OSFile(str(path)))
            fields = [file.schema.get_field_index(name) for name in only if name in file.schema.names]
            options = pa.ipc.IpcReadOptions(included_fields=fields)
            return pa.ipc.open_file(pa.OSFile(str(path)), options=options) if fields else file
        except Exception as error:
            raise unreadable(path, error) from error


FORMATS: dict[str, Callable[[Path], Any]] = {  # by suffix; a folder is one of Parquet files
    ".npy": ArrayFile.load,
    ".parquet": Parquet,
    ".pq": Parquet,
    ".arrow": Arrow,
    ".feather": Arrow,
}


def source_of(path: Path) -> Any:
    """The rows of a file or of a folder of Parquet files, as a `Source` that states its number of rows."""
    make = Parquet if path.is_dir() else FORMATS.get(path.suffix.lower())
    if make is None:
        raise ValueError(
            f"{path} is not a file that rows are read from: give .npy, .parquet, .arrow or .feather, or a folder of "
            ".parquet files"
        )
    return make(path)


def opened(X: Any, weights: FloatArray | None = None, dtype: Any = None, allow_missing: bool = False) -> Rows:
    """Rows, in their own units, of what is not a dense array in memory.

    Parameters
    ----------
    X : path, Source such as Parquet, numpy.memmap, CSR matrix, Dask collection, or function that returns chunks
    weights : array of shape (N,) or None
        How often each row counts.
    dtype : type or None
        Type of the chunks; None takes that of X if it is float32, and double precision otherwise.
    allow_missing : bool
        Whether values may be missing; NaN is refused if not.
    """
    if hasattr(X, "__dask_graph__"):
        from blockmix.rows.dask import DaskRows

        return DaskRows.of(X, weights, dtype, allow_missing)
    source: Any = X
    if isinstance(X, np.memmap):
        source = ArrayFile.of(X)
    elif isinstance(X, (str, os.PathLike)):
        source = source_of(Path(X))
    elif isinstance(X, Iterator):
        raise TypeError("X can be read only once, and a fit reads it many times: give the function that makes it")
    elif issparse(X):
        source = sparse_source(X)
    elif not hasattr(X, "pieces"):
        source = factory_source(X)
    return StreamedRows.of(source, weights, dtype, allow_missing)


def needed(module: str, extra: str) -> Any:
    """Import a module, or raise an ImportError that names the extra to install.

    Examples
    --------
    >>> needed("no_such_module", "app")
    Traceback (most recent call last):
    ImportError: no_such_module is needed and not installed: pip install 'blockmix[app]'
    """
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise ImportError(f"{package} is needed and not installed: pip install 'blockmix[{extra}]'") from None


def available_memory() -> float:
    """Bytes of memory that are free, infinitely many if the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):  # not Linux
        return float("inf")
