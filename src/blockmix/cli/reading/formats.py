"""The kinds of files that hold tables, and how each is opened."""

from __future__ import annotations

import gzip
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from blockmix.anndata import matrix
from blockmix.cli.memory import available_memory
from blockmix.cli.options import ReadingOptions
from blockmix.cli.reading.columns import Wanted, chosen, collect
from blockmix.cli.reading.large import is_large, open_large
from blockmix.cli.reading.table import InputTable, check_present, check_unique
from blockmix.cli.reading.text import Batches, open_text
from blockmix.partition import FloatArray
from blockmix.rows.files import needed


def read_table(
    path: str | os.PathLike[str],
    options: ReadingOptions | None = None,
    kept: tuple[str, ...] = (),
    only: tuple[str, ...] | None = None,
    progress: Callable[[int], object] | None = None,
) -> InputTable:
    """Read the numeric columns of a file.

    Parameters
    ----------
    path : path or "-"
        csv or tsv (also .gz), parquet, feather, xlsx, npy or h5ad; any other ending is read as text. "-" is standard
        input, as text.
    options : ReadingOptions, optional
    kept : tuple of str
        Columns to return as text instead: labels, documents, ratings.
    only : tuple of str, optional
        The numeric columns to return, in this order; all by default.
    progress : callable, optional
        Called with the number of bytes of a text file, or of a large file, read so far.

    Returns
    -------
    InputTable

    Raises
    ------
    OSError, ValueError
        One sentence that says what is wrong with the file.
    """
    options = options or ReadingOptions()
    missing = ("", *(text.strip() for text in options.missing or ()))
    patterns = tuple(options.columns or ()), tuple(options.exclude or ())
    wanted = Wanted(kept, tuple(options.drop or ()), only, missing, *patterns)
    if str(path) == "-":
        return _piped("standard input", sys.stdin.buffer.read(), options, wanted)
    file, source = Path(path), str(path) or "."
    kind = file.suffix.lower()
    if file.is_dir() and not is_large(file):
        raise ValueError(f"{source} is a folder: give a file")
    if not file.exists():
        raise FileNotFoundError(f"{source} does not exist")
    if not file.is_file() and not file.is_dir():
        return _piped(source, file.read_bytes(), options, wanted)
    if file.is_file() and file.stat().st_size == 0:
        raise ValueError(f"{source} is empty")
    if kind == ".xls":
        raise ValueError(f"{source} has the old Excel format: save it as xlsx or csv")
    with _damage_explained(source, kind):
        if is_large(file):
            return open_large(file, wanted, progress and (lambda share: progress(int(share * file.stat().st_size))))
        if kind in _MATRICES:
            return _selected(_MATRICES[kind](source, file, options, kept), wanted)
        if kind in _OPENERS:
            return collect(source, _OPENERS[kind](source, file, options), wanted)
        with file.open("rb") as opened:
            report = None if progress is None else lambda: progress(opened.tell())
            return collect(source, open_text(source, opened, options), wanted, report)


def _piped(source: str, content: bytes, options: ReadingOptions, wanted: Wanted) -> InputTable:
    """The table in a pipe, which can be read only once."""
    with _damage_explained(source, ".csv"):
        return collect(source, open_text(source, io.BytesIO(content), options), wanted)


@contextmanager
def _damage_explained(source: str, kind: str) -> Iterator[None]:
    """Turn whatever the library of a format raises on a damaged file into one sentence."""
    try:
        yield
    except Exception as error:
        foreign = isinstance(error, gzip.BadGzipFile) or type(error).__module__.startswith("pyarrow")
        if isinstance(error, (ValueError, ImportError, MemoryError, PermissionError)) and not foreign:
            raise
        raise ValueError(f"{source} is damaged or not a {kind[1:]} file ({type(error).__name__})") from None


def _parquet(source: str, file: Path, options: ReadingOptions) -> Batches:
    opened = needed("pyarrow.parquet", "app").ParquetFile(file)
    return Batches(tuple(opened.schema_arrow.names), opened.iter_batches())


def _feather(source: str, file: Path, options: ReadingOptions) -> Batches:
    table = needed("pyarrow.feather", "app").read_table(file)
    return Batches(tuple(table.column_names), table.to_batches())


def _workbook(source: str, file: Path, options: ReadingOptions) -> Batches:
    """The first sheet as csv, since the cells of one column may have any types."""
    needed("openpyxl", "app")
    frame = needed("pandas", "app").read_excel(file, header=None, dtype=object, engine="openpyxl")
    frame = frame.dropna(how="all").dropna(how="all", axis=1)
    text = frame.to_csv(sep="\t", header=False, index=False)
    return open_text(source, io.BytesIO(text.encode()), replace(options, encoding="utf-8"))


def _array(source: str, file: Path, options: ReadingOptions, kept: tuple[str, ...]) -> InputTable:
    try:
        values = np.load(file, allow_pickle=False)
    except (ValueError, EOFError):
        raise ValueError(f"{source} is not an array of numbers in NumPy's format") from None
    if values.ndim != 2 or values.dtype.kind not in "iuf":
        raise ValueError(f"{source} holds {values.dtype} of shape {values.shape}: a matrix of numbers is needed")
    if kept:
        raise ValueError(f"{source} is a matrix without names, so it has no column {kept[0]!r}")
    names = tuple(f"x{j}" for j in range(values.shape[1]))
    return InputTable(source, names, values, range(1, len(values) + 1), named=False)


def _annotated(source: str, file: Path, options: ReadingOptions, kept: tuple[str, ...]) -> InputTable:
    adata = needed("anndata", "anndata").read_h5ad(file)
    values = _dense(source, matrix(adata, options.layer))
    check_present(source, list(adata.obs.columns), kept)
    texts = {name: [None if cell != cell else str(cell) for cell in adata.obs[name]] for name in kept}
    return InputTable(source, tuple(map(str, adata.var_names)), values, list(map(str, adata.obs_names)), texts)


_OPENERS = {".parquet": _parquet, ".pq": _parquet, ".feather": _feather, ".arrow": _feather, ".xlsx": _workbook}
_MATRICES = {".npy": _array, ".h5ad": _annotated}


def _dense(source: str, values: Any) -> FloatArray:
    if not hasattr(values, "toarray"):
        return np.asarray(values)
    size, available = float(values.shape[0]) * values.shape[1] * values.dtype.itemsize, available_memory()
    if size > available / 4:  # the table, a copy for the starts, and what the fit itself needs
        raise MemoryError(
            f"{source} needs {size / 1e9:.1f} GB as a dense table, and the fit up to four times that, but there are "
            f"{available / 1e9:.1f} GB: use blockmix.anndata.fit in Python, which keeps it sparse"
        )
    dense: FloatArray = values.toarray()
    return dense


def _selected(table: InputTable, wanted: Wanted) -> InputTable:
    """The wanted columns of a matrix, in floating point."""
    names, values = table.names, table.values
    if len(values) == 0:
        raise ValueError(f"{table.source} has no rows")
    wanted = chosen(table.source, names, wanted)
    check_unique(table.source, names, wanted.dropped)
    check_present(table.source, names, (*(wanted.only or ()), *wanted.dropped))
    used = tuple(name for name in wanted.only or names if name not in wanted.dropped)
    if used != names:
        place = {name: j for j, name in enumerate(names)}
        values = values[:, [place[name] for name in used]]
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float64)
    return replace(table, names=used, values=values)
