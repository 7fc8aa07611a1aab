"""Formats other than text: matrices, Parquet, Arrow, JSON lines, AnnData and Excel, as a `Table` or as cells.

`blockmix.rows` knows the formats whose rows can be read in pieces. A large file stays where it is: `FileRows` reads
its rows as often as they are needed.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from blockmix.anndata import matrix
from blockmix.command.description import floats, without
from blockmix.command.options import ReadingOptions
from blockmix.command.table import REMEDY, Names, Table, choose, lacking, printable, texts_of
from blockmix.partition import FloatArray, IntArray
from blockmix.rows.files import FORMATS, ArrayFile, available_memory, needed, source_of
from blockmix.rows.streamed import Piece

LARGE = 2**24  # numbers from which a table stays in its file: 134 MB in memory, and four times that during a fit
ENDINGS = {*FORMATS, ".xlsx", ".h5ad", ".jsonl"}
_NUMBER = re.compile(r"u?int\d+|float|double|halffloat|float16")  # types of pyarrow


@dataclass(frozen=True, eq=False)
class Cells:
    """Column names, and batches of rows (pyarrow record batches).

    `decimal` is the decimal sign in cells of text.
    """

    names: tuple[str, ...]
    batches: Iterable[Any]
    named: bool = True
    decimal: str = "."


@dataclass(frozen=True, eq=False)
class FileRows:
    """Some columns of a file as rows for an estimator.

    Attributes
    ----------
    file : Source
    names : list of str or None
    places : array of p int
        The columns of `file`.
    shape : (N, p)
    complete : bool
        Whether rows with values that are not finite are left out.
    missing : sequence of float
        Numbers that mean a missing value.
    listeners : list of functions
        Each is called with the share of the rows read so far in a pass.
    """

    file: Any
    names: list[str] | None
    places: IntArray
    shape: tuple[int, int]
    complete: bool = False
    missing: Sequence[float] = ()
    listeners: list[Callable[[float], object]] = field(default_factory=list)

    @property
    def n_columns(self) -> int:
        """Number of columns p."""
        return len(self.places)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values as stored."""
        stored: np.dtype[Any] = self.file.dtype
        return floats(np.empty(0, stored)).dtype if self.missing else stored

    def taking(self, columns: Sequence[int]) -> FileRows:
        """Only some of the columns, in this order."""
        chosen = self.places[columns]
        names = None if self.names is None else [self.names[j] for j in columns]
        rows = replace(self, names=names, places=chosen, shape=(self.shape[0], len(chosen)))
        if isinstance(self.file, ArrayFile):
            return rows
        file = replace(self.file, columns=[self.file.names[j] for j in chosen])
        return replace(rows, file=file, places=np.arange(len(chosen)))

    def pieces(self) -> Iterator[Piece]:
        """All rows, in the order of the file."""
        done = 0
        for stored in self.file.pieces():
            piece = Piece(stored.name, stored.n_rows, partial(self._read, stored))
            if self.complete:
                values = piece.read()
                values = values[np.isfinite(values).all(axis=1)]
                piece = Piece(stored.name, len(values), partial(np.asarray, values))
            if piece.n_rows:
                yield piece
            done += piece.n_rows
            for listener in self.listeners:
                listener(done / max(self.shape[0], 1))

    def _read(self, piece: Piece) -> FloatArray:
        values: FloatArray = np.asarray(piece.read())
        values = values if values.shape[1] == len(self.places) else values[:, self.places]
        return without(floats(values), self.missing) if self.missing else values

    def __getstate__(self) -> dict[str, Any]:
        """Another process has no bar to move."""
        return {**self.__dict__, "listeners": []}


def from_file(source: str, file: Path, options: ReadingOptions, kept: Names | None, only: Names | None) -> Any:
    """A workbook as text, a small file of columns as cells, and everything else as a table.

    A file that can be read in pieces stays where it is if it is large, as a folder always does.
    """
    if file.suffix.lower() == ".xlsx":  # the cells of one column may have any types
        needed("openpyxl", "app")
        frame = needed("pandas", "app").read_excel(file, header=None, dtype=object, engine="openpyxl")
        frame = frame.dropna(how="all").dropna(how="all", axis=1)
        return io.BytesIO(frame.to_csv(sep="\t", header=False, index=False).encode())
    if is_text_folder(file):
        return _documents(source, file, options.encoding or "utf-8")
    if file.suffix.lower() == ".h5ad":
        return _annotated(source, file, options, kept, only)
    if file.suffix.lower() == ".jsonl":
        table = needed("pyarrow.json", "app").read_json(file)
        return Cells(printable(table.column_names), table.combine_chunks().to_batches())
    rows = source_of(file)
    N, large = rows.n_rows, file.is_dir() or rows.n_columns * rows.n_rows > LARGE
    if N == 0:
        raise ValueError(f"{source} has no rows")
    named = not isinstance(rows, ArrayFile)
    if named and not large:
        pa = needed("pyarrow", "app")
        columns = [pa.concat_arrays([*rows.column(name)]) for name in rows.names]
        return Cells(printable(rows.names), [pa.RecordBatch.from_arrays(columns, rows.names)])
    if kept and not named:
        raise ValueError(f"{source} is a matrix without names, so it has no column {kept[0]!r}")
    names = printable(rows.schema.names) if named else tuple(f"x{j}" for j in range(rows.n_columns))
    used, _, index, kept = choose(source, names, options, kept if named else (), only)
    types = {j: str(rows.schema.types[j])[:30] for j in used} if named else {}
    left_out = {names[j]: types[j] for j in types if not _NUMBER.fullmatch(types[j])}
    numeric = [j for j in used if names[j] not in left_out]
    left_out |= {names[j]: f"row names: {REMEDY.format(quote(names[j]))}" for j in index}
    values: Any = FileRows(rows, list(names), np.arange(len(names)), (N, len(names))).taking(numeric)
    notes = (f"{source} is read in pieces, as often as needed, because it is large",) if large else ()
    if not large:
        values = floats(np.concatenate([piece.read() for piece in values.pieces()]))
    texts = {name: texts_of(rows.column(rows.names[names.index(name)])) for name in kept}
    chosen = tuple(names[j] for j in numeric)
    return Table(source, chosen, values, range(1, N + 1), texts, left_out, named, notes=notes, header=names)


def is_text_folder(file: Path) -> bool:
    """Whether a path is a folder of .txt files."""
    return file.is_dir() and not any(file.rglob("*.parquet")) and any(file.rglob("*.txt"))


def _documents(source: str, folder: Path, encoding: str) -> Cells:
    """Each .txt file of a folder and of those below it as a document, named by its path."""
    paths = sorted(folder.rglob("*.txt"))
    try:
        texts = [path.read_text(encoding=encoding) for path in paths]
    except UnicodeDecodeError:
        raise ValueError(
            f"a file of {source} is not in {encoding.upper()}: give its encoding, such as --encoding latin-1"
        ) from None
    names = [path.relative_to(folder) for path in paths]
    columns = {"file": map(str, names), "text": texts, "folder": [str(name.parent) for name in names]}
    batch = needed("pyarrow", "app").RecordBatch.from_pydict({name: [*cells] for name, cells in columns.items()})
    return Cells(tuple(columns), [batch])


def _annotated(source: str, file: Path, options: ReadingOptions, kept: Names | None, only: Names | None) -> Table:
    """The table of an AnnData: names of rows and columns, and classes of the rows in obs."""
    adata = needed("anndata", "anndata").read_h5ad(file)
    values = matrix(adata, options.layer)
    if hasattr(values, "toarray"):
        size, available = float(values.shape[0]) * values.shape[1] * values.dtype.itemsize, available_memory()
        if size > available / 4:  # the table, a copy for the starts, and what the fit itself needs
            raise MemoryError(
                f"{source} needs {size / 1e9:.1f} GB as a dense table, and the fit up to four times that, but there "
                f"are {available / 1e9:.1f} GB: use blockmix.anndata.fit in Python, which keeps it sparse"
            )
        values = values.toarray()
    if len(values) == 0:
        raise ValueError(f"{source} has no rows")
    kept = list(map(str, adata.obs)) if kept is None else kept
    if any(name not in adata.obs for name in kept):
        raise lacking(source, list(adata.obs.columns), kept)
    texts = {name: [None if cell != cell else str(cell) for cell in adata.obs[name]] for name in kept}
    names = tuple(map(str, adata.var_names))
    used, *_ = choose(source, names, options, (), only)
    chosen = tuple(names[j] for j in used)
    values = floats(values if chosen == names else values[:, used])
    return Table(source, chosen, values, list(map(str, adata.obs_names)), texts, header=(*kept, *names))
