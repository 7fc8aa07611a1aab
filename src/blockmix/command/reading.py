"""Reading: a file of any format becomes a `Table`.

The ending of its name tells the format: `blockmix.rows` knows those whose rows can be read in pieces, Excel workbooks
and AnnData have a reader here, and everything else is text.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any

import numpy as np

from blockmix.anndata import matrix
from blockmix.command.options import ReadingOptions
from blockmix.command.output import note, progress_bar
from blockmix.command.table import FileRows, Table, shortened, watched
from blockmix.command.text import Cells, Columns, open_text, texts_of
from blockmix.rows.files import FORMATS, ArrayFile, needed, source_of

LARGE = 2**24  # numbers from which a table stays in its file: 134 MB in memory, and four times that during a fit
_SHOWN = 8  # names in a note
_SHOWN_TYPES = 30  # letters of a type in a message
_NUMBER = re.compile(r"u?int\d+|float|double|halffloat|float16")  # types of pyarrow
_INDEX = {"", "Unnamed: 0", "rownames"}  # what R and pandas call a first column of row names
_LEVEL = re.compile(r"__index_level_\d+__")  # what pandas calls its index in parquet, wherever it stands
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # including those that reverse text


def stem_of(file: str) -> str:
    """The name of a file without its endings."""
    return "table" if file == "-" else Path(file).name.partition(".")[0] or "table"


def read_table(
    path: str | os.PathLike[str],
    options: ReadingOptions | None = None,
    kept: Sequence[str] = (),
    only: Sequence[str] | None = None,
) -> Table:
    """Read the numeric columns of a file, with a progress bar.

    Parameters
    ----------
    path : path or "-"
        csv or tsv (also .gz), parquet, feather, xlsx, npy or h5ad; any other ending is read as text. "-" is standard
        input, as text.
    options : ReadingOptions, optional
    kept : sequence of str
        Columns to return as text instead: labels, documents, ratings.
    only : sequence of str, optional
        The numeric columns to return, in this order; all by default.

    Returns
    -------
    Table

    Raises
    ------
    OSError, ValueError
        One sentence that says what is wrong with the file.
    """
    options, file, source = options or ReadingOptions(), Path(path), str(path) or "."
    if source == "-":
        source = "standard input"
        with _damage_explained(source, ".csv"), progress_bar(f"reading {source}"):
            content: IO[bytes] = io.BytesIO(sys.stdin.buffer.read())
            return _from_cells(source, open_text(source, content, options), options, kept, only)
    if not file.exists():
        raise FileNotFoundError(f"{source} does not exist")
    if file.is_dir() and not any(file.rglob("*.parquet")):
        raise ValueError(f"{source} is a folder: give a file")
    if file.is_file() and file.stat().st_size == 0:
        raise ValueError(f"{source} is empty")
    kind = file.suffix.lower()
    if kind == ".xls":
        raise ValueError(f"{source} has the old Excel format: save it as xlsx or csv")
    size = file.stat().st_size if file.is_file() else None
    with _damage_explained(source, kind), progress_bar(f"reading {file.name}", size, bytes=True) as update:
        if kind == ".h5ad":
            return _annotated(source, file, options, kept, only)
        if file.is_dir() or (file.is_file() and kind in FORMATS):
            rows = source_of(file)
            return _from_rows(source, rows, options, kept, only, lambda share: update(share * (size or 0)))
        if kind == ".xlsx":
            return _from_cells(source, _workbook(source, file, options), options, kept, only)
        # A named pipe can be read only once.
        content = file.open("rb") if file.is_file() else io.BytesIO(file.read_bytes())
        with content:
            cells = open_text(source, content, options)
            return _from_cells(source, cells, options, kept, only, lambda: update(content.tell()))


@contextmanager
def _damage_explained(source: str, kind: str) -> Iterator[None]:
    """Turn whatever the library of a format raises on a damaged file into one sentence."""
    try:
        yield
    except Exception as error:
        foreign = any(type(part).__module__.startswith("pyarrow") for part in (error, error.__cause__))
        foreign = foreign or isinstance(error, gzip.BadGzipFile)
        if isinstance(error, (ValueError, ImportError, MemoryError, PermissionError)) and not foreign:
            raise
        name = type(error.__cause__ or error).__name__
        raise ValueError(f"{source} is damaged or not a {kind[1:]} file ({name})") from None


def _from_cells(
    source: str,
    cells: Cells,
    options: ReadingOptions,
    kept: Sequence[str],
    only: Sequence[str] | None,
    progress: Callable[[], object] = lambda: None,
) -> Table:
    """The table of all batches of cells."""
    names = _printable(cells.names)
    chosen = choose(source, names, options, kept, only)
    missing = ("", *(text.strip() for text in options.missing or ()))
    columns = Columns(names, kept, chosen, cells.decimal, missing)
    for batch in cells.batches:
        columns.add(batch)
        progress()
    if columns.n_rows == 0:
        raise ValueError(f"{source} has column names but no rows")
    return _tidied(columns.table(source, cells.named), options, only, chosen[0])


def _from_rows(
    source: str,
    rows: Any,
    options: ReadingOptions,
    kept: Sequence[str],
    only: Sequence[str] | None,
    progress: Callable[[float], object],
) -> Table:
    """The table of a file that can be read in pieces; it stays there if it is large, as a folder always does."""
    N, large = rows.n_rows, os.path.isdir(source) or rows.n_columns * rows.n_rows > LARGE
    if N == 0:
        raise ValueError(f"{source} has no rows")
    named = not isinstance(rows, ArrayFile)
    if named and not large:
        return _from_cells(source, Cells(tuple(rows.names), _whole(rows)), options, kept, only)
    if kept and not named:
        raise ValueError(f"{source} is a matrix without names, so it has no column {kept[0]!r}")
    names = _printable(rows.schema.names) if named else tuple(f"x{j}" for j in range(rows.n_columns))
    types = (
        {name: str(kind)[:_SHOWN_TYPES] for name, kind in zip(names, rows.schema.types, strict=True)} if named else {}
    )
    used, _, _ = choose(source, names, options, kept, only)
    left_out = {names[j]: types[names[j]] for j in used if named and not _NUMBER.fullmatch(types[names[j]])}
    numeric = [j for j in used if names[j] not in left_out]
    values: Any = FileRows(rows, list(names), np.arange(len(names)), (N, len(names))).taking(numeric)
    notes = (f"{source} is read in pieces, as often as needed, because it is large",) if large else ()
    if not large:
        values = _floats(np.concatenate([piece.read() for piece in values.pieces()]))
    texts = {name: texts_of(rows.column(rows.names[names.index(name)])) for name in kept}
    chosen = tuple(names[j] for j in numeric)
    table = Table(source, chosen, values, range(1, N + 1), texts, left_out, named, notes=notes)
    with watched(values, progress):
        return _tidied(table, options, only, used)


def _whole(rows: Any) -> Iterator[Any]:
    """All columns of a small file as one batch of cells."""
    pa = needed("pyarrow", "app")
    yield pa.RecordBatch.from_arrays([pa.concat_arrays([*rows.column(name)]) for name in rows.names], rows.names)


def _workbook(source: str, file: Path, options: ReadingOptions) -> Cells:
    """The first sheet as csv, since the cells of one column may have any types."""
    needed("openpyxl", "app")
    frame = needed("pandas", "app").read_excel(file, header=None, dtype=object, engine="openpyxl")
    frame = frame.dropna(how="all").dropna(how="all", axis=1)
    text = frame.to_csv(sep="\t", header=False, index=False)
    return open_text(source, io.BytesIO(text.encode()), replace(options, encoding="utf-8"))


def _annotated(
    source: str, file: Path, options: ReadingOptions, kept: Sequence[str], only: Sequence[str] | None
) -> Table:
    """An AnnData: names of rows and columns, and classes of the rows in obs."""
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
    _check_present(source, list(adata.obs.columns), kept)
    texts = {name: [None if cell != cell else str(cell) for cell in adata.obs[name]] for name in kept}
    names = tuple(map(str, adata.var_names))
    used, _, _ = choose(source, names, options, (), only)
    chosen = tuple(names[j] for j in used)
    values = _floats(values if chosen == names else values[:, used])
    return _tidied(Table(source, chosen, values, list(map(str, adata.obs_names)), texts), options, only, used)


def _floats(values: Any) -> Any:
    """Numbers in floating point; single precision stays."""
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def _tidied(table: Table, options: ReadingOptions, only: Sequence[str] | None, used: list[int]) -> Table:
    """The table without empty columns and without a count of the rows, unless its columns are asked for by name."""
    if only is not None:  # a column that a model asks for may have values only in other tables
        return table
    return table.tidied(not options.columns and used[:1] == [0] and isinstance(table.row_names, range))


def _printable(names: Sequence[str]) -> tuple[str, ...]:
    """Names that cannot control the terminal they are printed on, and are empty only in the first place."""
    return tuple(_CONTROL.sub("\ufffd", name) or (f"column {j}" if j else "") for j, name in enumerate(names))


def available_memory() -> float:
    """Bytes of memory that are free; those of the machine, or infinitely many, if the system does not say more."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        pass
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # Windows
        return float("inf")


def print_notes(table: Table) -> None:
    """Print what the user should know about the table."""
    reasons = [f"{name} ({why})" for name, why in table.left_out.items() if name != table.named_by]
    notes = [f"row names: {table.named_by}"] if table.named_by else []
    notes += [f"left out: {shortened(reasons, _SHOWN)}"] if reasons else []
    if len(table.names) == 1:
        notes.append(f"only one numeric column, {table.names[0]}: there are no columns to group")
    if not table.named and not table.source.endswith(".npy"):
        notes.append("the first row holds numbers, so columns are called x0, x1, …: give --header if it holds names")
    for text in (*notes, *table.notes):
        note(text)


def choose(
    source: str, names: Sequence[str], options: ReadingOptions, kept: Sequence[str], only: Sequence[str] | None
) -> tuple[list[int], list[int], set[int]]:
    """The columns of numbers, those that may be read for them or for row names, and those that only name rows.

    `kept` are returned as text and `only` are the only numbers, in this order.

    Raises
    ------
    ValueError
        Several columns have one name, one that is asked for is not there, or a pattern matches no column.
    """
    matching: dict[str, list[str]] = {}
    for name, patterns in (("--columns", options.columns or ()), ("--exclude", options.exclude or ())):
        for pattern in patterns:
            if not any(fnmatchcase(column, pattern) for column in names):
                shown = shortened([*names])
                raise ValueError(f"{name} {shlex.quote(pattern)} matches no column of {source}: it has {shown}")
        matching[name] = [column for column in names if any(fnmatchcase(column, pattern) for pattern in patterns)]
    if only is None and options.columns:
        only = matching["--columns"]
    dropped = {*(options.drop or ()), *matching["--exclude"]} - {*kept}
    positions: dict[str, list[str]] = {}
    for j, name in enumerate(names, start=1):
        positions.setdefault(name, []).append(str(j))
    if repeated := [name for name in positions if len(positions[name]) > 1 and name not in dropped]:
        listed = shortened([f"{name} ({', '.join(positions[name])})" for name in repeated])
        raise ValueError(
            f"{source} has columns of the same name: {listed}; rename them, or leave them out with --drop "
            f"{shlex.quote(repeated[0])}"
        )
    _check_present(source, names, (*kept, *(options.drop or ())))
    _check_present(source, names, only or ())
    apart, place = dropped | {*kept}, {name: j for j, name in enumerate(names)}
    read = [j for j, name in enumerate(names) if name not in apart]
    index = {j for j in read if (j == 0 and names[j] in _INDEX) or _LEVEL.fullmatch(names[j])}
    columns = {*read} - index
    used = [place[name] for name in (names if only is None else only) if place[name] in columns]
    return used, read, index


def _check_present(source: str, names: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise a ValueError that names the wanted columns that are not there, with similar names."""
    present = set(names)
    absent = [name for name in wanted if name not in present]
    if not absent:
        return
    folded = {name.casefold(): name for name in names}
    near = {name: get_close_matches(name.casefold(), folded, 1) for name in absent[:_SHOWN]}
    hints = {name: f"did you mean {folded[similar[0]]!r}?" for name, similar in near.items() if similar}
    if len(absent) == 1:
        hint = hints.get(absent[0], f"it has {shortened(list(names))}")
        raise ValueError(f"{source} has no column {absent[0]!r}: {hint}")
    listed = [f"{name} ({hints[name]})" if name in hints else name for name in absent]
    raise ValueError(f"{source} lacks {len(absent)} of {len(wanted)} columns: {shortened(listed)}")
