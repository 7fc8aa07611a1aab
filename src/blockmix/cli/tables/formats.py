"""Formats: which kind of file a table is in, and how each is opened.

A path, or "-" for standard input, comes in; a table goes out. Each kind becomes batches of columns, except arrays and
AnnData, which are numbers already.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from blockmix.anndata import matrix
from blockmix.cli.tables.gather import gather
from blockmix.cli.tables.table import Reading, RowNumbers, Table, refuse_twins, refuse_unknown
from blockmix.cli.tables.text import Batches, Tell, read_text
from blockmix.structure.extras import needed
from blockmix.structure.types import FloatArray


def read_table(path: str | os.PathLike[str], how: Reading | None = None, tell: Tell | None = None) -> Table:
    """Read the numeric columns of a file.

    Parameters
    ----------
    path : path or "-"
        csv or tsv (also .gz), parquet, feather, xlsx, npy or h5ad; any other ending is read as text. "-" is standard
        input, as text.
    how : Reading, optional
    tell : callable, optional
        Is given the number of bytes read so far, of a text file.

    Returns
    -------
    Table

    Raises
    ------
    OSError, ValueError
        One sentence that says what is wrong with the file.
    """
    how, tell = how or Reading(), tell or (lambda count: None)
    if str(path) == "-":
        return _text("standard input", sys.stdin.buffer, how, tell)
    file, source = Path(path), str(path)
    if file.is_dir():
        raise ValueError(f"{source} is a folder: give a file")
    if not file.exists():
        raise FileNotFoundError(f"{source} does not exist")
    if file.stat().st_size == 0:
        raise ValueError(f"{source} is empty")
    kind = file.suffix.lower()
    if kind == ".npy":
        return _array(source, file, how)
    if kind == ".h5ad":
        return _annotated(source, file, how)
    if kind in _OPENERS:
        with _explained(source, kind):
            return gather(source, _OPENERS[kind](source, file, how), how)
    if kind == ".xls":
        raise ValueError(f"{source} is of the old kind of Excel: save it as xlsx or csv")
    with file.open("rb") as stream:
        return _text(source, stream, how, tell)


def _text(source: str, stream: IO[bytes], how: Reading, tell: Tell) -> Table:
    try:
        return gather(source, read_text(source, stream, how, tell), how)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise ValueError(f"{source} is damaged: it cannot be unpacked to its end") from None


@contextmanager
def _explained(source: str, kind: str) -> Iterator[None]:
    """Whatever the library of a format raises, as one sentence."""
    try:
        yield
    except (ValueError, ImportError, MemoryError, PermissionError):
        if type(sys.exception()).__module__.startswith("pyarrow"):
            raise ValueError(f"{source} is no {kind[1:]} file, or it is damaged") from None
        raise
    except Exception as error:  # a zip that is no workbook, and what else a damaged file can raise
        raise ValueError(f"{source} is no {kind[1:]} file, or it is damaged ({type(error).__name__})") from None


def _parquet(source: str, file: Path, how: Reading) -> Batches:
    opened = needed("pyarrow.parquet", "app").ParquetFile(file)
    return Batches(tuple(opened.schema_arrow.names), opened.iter_batches())


def _feather(source: str, file: Path, how: Reading) -> Batches:
    table = needed("pyarrow.feather", "app").read_table(file)
    return Batches(tuple(table.column_names), table.to_batches())


def _workbook(source: str, file: Path, how: Reading) -> Batches:
    """The first sheet, by way of csv: cells of one column may be of any types."""
    book = needed("openpyxl", "app").load_workbook(file, read_only=True, data_only=True)
    rows = [row for row in book.worksheets[0].iter_rows(values_only=True) if any(cell is not None for cell in row)]
    width = max((j + 1 for row in rows for j, cell in enumerate(row) if cell is not None), default=0)
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t")
    writer.writerows([*row[:width], *[None] * (width - len(row))] for row in rows)
    book.close()
    return read_text(source, io.BytesIO(text.getvalue().encode()), how, lambda count: None)


_OPENERS = {".parquet": _parquet, ".feather": _feather, ".arrow": _feather, ".xlsx": _workbook}


def _array(source: str, file: Path, how: Reading) -> Table:
    try:
        values = np.load(file, allow_pickle=False)
    except (ValueError, EOFError):
        raise ValueError(f"{source} is not an array of numbers in NumPy's format") from None
    if values.ndim != 2 or values.dtype.kind not in "iuf":
        raise ValueError(f"{source} holds {values.dtype} of shape {values.shape}: a matrix of numbers is needed")
    if how.kept:
        raise ValueError(f"{source} is a matrix without names, so it has no column {how.kept[0]!r}")
    names = tuple(f"x{j}" for j in range(values.shape[1]))
    return _matrix(source, names, values, RowNumbers(len(values)), how)


def _annotated(source: str, file: Path, how: Reading) -> Table:
    with _explained(source, ".h5ad"):
        adata = needed("anndata", "anndata").read_h5ad(file)
        values = _dense(source, matrix(adata, how.layer))
    refuse_unknown(source, list(adata.obs.columns), how.kept)
    texts = {name: [None if cell != cell else str(cell) for cell in adata.obs[name]] for name in how.kept}
    names, rows = tuple(map(str, adata.var_names)), list(map(str, adata.obs_names))
    return _matrix(source, names, values, rows, how, texts)


def _dense(source: str, values: Any) -> FloatArray:
    if not hasattr(values, "toarray"):
        return np.asarray(values)
    size, available = float(values.shape[0]) * values.shape[1] * values.dtype.itemsize, _memory()
    if size > available / 4:  # the table, a copy for the starts and what the fit itself needs
        raise MemoryError(
            f"{source} needs {size / 1e9:.1f} GB as a dense table, and the fit up to four times that, but there are "
            f"{available / 1e9:.1f} GB: use blockmix.anndata.fit in Python, which keeps it sparse"
        )
    dense: FloatArray = values.toarray()
    return dense


def _memory() -> float:
    """Bytes of memory of the machine."""
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _matrix(
    source: str,
    names: tuple[str, ...],
    values: FloatArray,
    row_names: Sequence[str],
    how: Reading,
    texts: dict[str, list[str | None]] | None = None,
) -> Table:
    """A table of numbers that are in memory already."""
    if len(values) == 0:
        raise ValueError(f"{source} has no rows")
    refuse_twins(source, names)
    refuse_unknown(source, names, how.dropped if how.only is None else (*how.only, *how.dropped))
    wanted = names if how.only is None else how.only
    used = tuple(name for name in wanted if name not in how.dropped)
    if used != names:
        place = {name: j for j, name in enumerate(names)}
        values = values[:, [place[name] for name in used]]
    numbers = values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
    return Table(source, used, numbers, row_names, texts or {}, named=texts is not None)
