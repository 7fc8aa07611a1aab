"""Reading: a file of any format becomes a `Table`.

The ending of its name tells the format; what is not in `formats` is text (csv, tsv) of any size. The first rows of a
text reveal gzip, encoding, separator, header and decimal sign; pyarrow parses it. pandas would pad a short row with
missing values instead of reporting it, and `csv.Sniffer` picks the wrong separator for one in six tables with texts or
with R's short header. Cells of other types, as in Parquet, become numbers in the same way.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from blockmix.command.columns import GROUPED, NUMBER, SPACES, table_of
from blockmix.command.formats import ENDINGS, Cells, from_file, is_text_folder
from blockmix.command.options import ReadingOptions
from blockmix.command.output import progress_bar
from blockmix.command.table import Names, Table, abridged, choose, printable

_SAMPLE_ROWS = 50
_SAMPLE = 2**18  # bytes read to recognize the layout, more if they hold fewer than two rows
_LARGEST_SAMPLE = 2**26
_BLOCK = 2**23  # bytes of a batch
_SEPARATORS = "\t;,| "  # in this order of preference: 1,5;2,5 has the cells 1,5 and 2,5
_NUMBER = re.compile(r"\s*[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?\s*")
_HINT = re.compile(r'"?sep=(.)"?\r?\n')  # a first line for Excel


def stem_of(file: str) -> str:
    """The name of a file without its endings."""
    return "table" if file == "-" else Path(file).name.partition(".")[0] or "table"


def read_table(
    path: Any, options: ReadingOptions | None = None, kept: Names | None = (), only: Names | None = None
) -> Table:
    """Read the numeric columns of a file, with a progress bar.

    Parameters
    ----------
    path : path or "-"
        csv or tsv (also .gz), parquet, feather, xlsx, npy or h5ad; any other ending is read as text. "-" is standard
        input, as text.
    options : ReadingOptions, optional
    kept : sequence of str, or None
        Columns to return as text instead: labels, documents, ratings; None returns all but `only`.
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
    kind, size = file.suffix.lower(), file.stat().st_size if file.is_file() else None
    if source == "-":
        source, kind, size = "standard input", "-", None
    elif not file.exists():
        raise FileNotFoundError(f"{source} does not exist")
    elif file.is_dir() and not any(file.rglob("*.parquet")) and not is_text_folder(file):
        raise ValueError(f"{source} is a folder: give a file")
    elif size == 0:
        raise ValueError(f"{source} is empty")
    try:
        with progress_bar(f"reading {file.name}", size) as update, ExitStack() as files:
            content: Any
            if file.is_dir() or (size and kind in ENDINGS):
                content = from_file(source, file, options, kept, only)
                options = replace(options, encoding="utf-8") if kind == ".xlsx" else options
            elif size:
                content = files.enter_context(file.open("rb"))
            else:  # a pipe can be read only once
                content = io.BytesIO(sys.stdin.buffer.read() if kind == "-" else file.read_bytes())
            if isinstance(content, Table):
                table = content
            else:
                cells = content if isinstance(content, Cells) else open_text(source, content, options)
                chosen = choose(source, cells.names, options, kept, only)
                missing, where = ("", *map(str.strip, options.missing or ())), getattr(content, "tell", int)
                table = table_of(source, cells, chosen, missing, lambda: update(where()))
    except Exception as error:  # whatever the library of a format raises on a damaged file
        foreign = any(type(part).__module__.startswith("pyarrow") for part in (error, error.__cause__))
        foreign = foreign or isinstance(error, gzip.BadGzipFile)
        if isinstance(error, (ValueError, ImportError, MemoryError, PermissionError)) and not foreign:
            raise
        name = type(error.__cause__ or error).__name__
        raise ValueError(f"{source} is damaged or not a {kind[1:] or 'csv'} file ({name})") from None
    table = table.declared_missing([float(text) for text in options.missing or () if re.match(NUMBER, text.strip())])
    if only is not None:  # a column that a model asks for may have values only in other tables
        return table
    return table.tidied(None if options.columns else options.keep or ())


@dataclass(frozen=True)
class Layout:
    """How a text table is laid out: its columns, and the lines above its first row."""

    separator: str
    names: tuple[str, ...]
    named: bool
    skipped_lines: int
    decimal: str  # "" if no number shows it: then both signs are accepted


def open_text(source: str, stream: IO[bytes], options: ReadingOptions) -> Cells:
    """Recognize the layout of a text table and open it.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    stream : binary file
        It can be read again from its beginning.
    options : ReadingOptions
    """
    if stream.read(2) == b"\x1f\x8b":
        stream.seek(0)
        stream = cast(IO[bytes], gzip.GzipFile(fileobj=stream))
    for size in (_SAMPLE, _LARGEST_SAMPLE):
        stream.seek(0)
        sample = stream.read(size)
        if b"".join(sample.split(b'"')[::2]).count(b"\n") > 1:  # a quoted cell may contain line ends
            break
    whole = len(sample) < size
    stream.seek(0)
    encoding = options.encoding or ("utf-16" if sample[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8")
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample, whole).removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise _wrong_encoding(source, encoding) from None
    except (LookupError, TypeError, ValueError):
        raise ValueError(f"--encoding {encoding} is not an encoding of text, such as utf-16 or latin-1") from None
    if "\0" in text:
        raise ValueError(f"{source} is not a text table: csv, tsv, parquet, feather, xlsx, npy and h5ad can be read")
    if not text.strip():
        raise ValueError(f"{source} is empty")
    layout = recognize(text if whole else text[: text.rfind("\n") + 1] or text, options.header)
    block = max(_BLOCK, 2 * len(sample))  # a batch must hold the header, and each row
    batches = _batches(source, stream, layout, encoding, options.missing or (), block)
    return Cells(printable(layout.names), batches, layout.named, layout.decimal)


def _wrong_encoding(source: str, encoding: str) -> ValueError:
    remedy = "save it as UTF-8, or give its encoding, such as --encoding latin-1"
    return ValueError(f"{source} is not encoded in {encoding.upper()}: {remedy}")


def recognize(text: str, header: bool | None = None) -> Layout:
    r"""The layout of a table, from its first lines; `header` says whether the first row holds names, if known.

    The separator cuts most rows into as many cells as the first, or into one more (R's short header).

    Examples
    --------
    >>> recognize("a;b\n1,5;2\n")
    Layout(separator=';', names=('a', 'b'), named=True, skipped_lines=1, decimal=',')
    """
    hint = _HINT.match(text)
    text = text[hint.end() :] if hint else text
    separator, best = ",", 0.0
    for sign in hint[1] if hint else _SEPARATORS:
        n_first, *lengths = (len(row) for _, row in _rows(text, sign))
        agreement = (1 + max(lengths.count(n_first), lengths.count(n_first + 1))) / (1 + len(lengths))
        if n_first > 1 and agreement > best:
            separator, best = sign, agreement
    (end_of_first, first), *others = _rows(text, separator)
    rows = [row for _, row in others]
    named = not all(_is_number(cell) for cell in first) if header is None else header
    names = [cell.strip() if named else f"x{j}" for j, cell in enumerate(first)]
    if named and len(first) > 1 and {len(row) for row in rows} == {len(first) + 1}:
        # `write.table` of R leaves out the cell above the row names. A separator at the end of each row makes the
        # header one cell short as well, and so does a title above the table.
        leading = [row[0] for row in rows]
        texts = text.lstrip().startswith('"') or not any(_is_number(cell) for cell in leading)
        if texts and len(set(leading)) == len(leading) and any(row[-1] for row in rows):
            names = ["", *names]
    skipped = (end_of_first if named else 0) + (hint is not None)
    return Layout(separator, tuple(names), named, skipped, _decimal_sign(rows, separator))


def _is_number(cell: str) -> bool:
    return bool(_NUMBER.fullmatch(cell := _spaceless(cell)) or re.fullmatch(rf"{GROUPED % ',.'}([.,]\d*)?", cell))


def _spaceless(cell: str) -> str:
    """A cell with an ASCII minus, and without spaces between thousands."""
    cell = cell.strip().replace("\u2212", "-")
    return re.sub(f"[{SPACES}]", "", cell) if re.match(GROUPED % SPACES, cell) else cell


def _decimal_sign(rows: list[list[str]], separator: str) -> str:
    """The decimal sign, which 1,5 or 1.234,5 or 1.234.567 show for certain; 1.234 alone has a point."""
    numbers = [number for row in rows for cell in row if _is_number(number := _spaceless(cell))]

    def certain(sign: str, other: str) -> bool:
        return any(
            sign in number.partition(other)[2] or number.count(other) > 1
            if other in number
            else sign in number and not re.fullmatch(GROUPED % sign, number)
            for number in numbers
        )

    comma = certain(",", ".")
    if certain(".", ",") or (not comma and any("." in number for number in numbers)):
        return "."
    semicolons = separator == ";"
    return "," if comma or (semicolons and any("," in number for number in numbers)) else "" if semicolons else "."


def _rows(text: str, separator: str) -> list[tuple[int, list[str]]]:
    """The first rows that are not blank, each with the number of lines up to its end."""
    usual = csv.field_size_limit(len(text) + 1)  # the limit is that of the whole process
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        return list(islice(((reader.line_num, row) for row in reader if row), _SAMPLE_ROWS))
    finally:
        csv.field_size_limit(usual)


def _batches(
    source: str, stream: IO[bytes], layout: Layout, encoding: str, missing: Iterable[str], block: int
) -> Iterator[Any]:
    """Batches of text cells: the type of a column is decided later, when all of its cells are known."""
    import pyarrow as pa
    from pyarrow import csv as pacsv

    invalid: list[Any] = []
    columns = [str(j) for j in range(len(layout.names))]
    # One thread costs no time here, and lets pyarrow count the rows.
    read = pacsv.ReadOptions(use_threads=False, block_size=block, encoding=encoding)
    read.column_names, read.skip_rows = columns, layout.skipped_lines
    parse = pacsv.ParseOptions(delimiter=layout.separator, newlines_in_values=True)
    parse.invalid_row_handler = lambda row: invalid.append(row) or "error"  # type: ignore[func-returns-value]
    convert = pacsv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=True)
    convert.null_values = [*convert.null_values, *missing]
    try:
        yield from pacsv.open_csv(stream, read, parse, convert)
    except (pa.ArrowInvalid, UnicodeError) as error:
        raise _explained(source, error, invalid, layout.skipped_lines, encoding) from None


def _explained(source: str, error: Exception, invalid: list[Any], above: int, encoding: str) -> ValueError:
    """What pyarrow says about a text table, as one sentence; `above` is the number of lines above the first row."""
    if invalid:
        row, n = invalid[0], invalid[0].actual_columns
        cells = f"{n} cell{'' if n == 1 else 's'} in row {row.number - above}"
        return ValueError(f"{source} has {cells} and {row.expected_columns} columns: {abridged(row.text, 40)!r}")
    if isinstance(error, UnicodeError) or "UTF8" in str(error):
        return _wrong_encoding(source, encoding)
    if "Could not skip" in str(error):  # the header is the last line, without a line end
        return ValueError(f"{source} has column names but no rows")
    return ValueError(f"{source} cannot be read: {' '.join(str(error).split())[:200]}")
