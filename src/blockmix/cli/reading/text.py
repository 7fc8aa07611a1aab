"""Text tables (csv, tsv) of any size, opened as a stream of batches.

The first rows reveal gzip, encoding, separator, header and decimal sign; pyarrow parses the file. pandas would pad a
short row with missing values instead of reporting it, and `csv.Sniffer` picks the wrong separator for one in six
tables with texts or with R's short header.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any, cast

from blockmix.cli.options import ReadingOptions
from blockmix.rows.files import needed

_SAMPLE_ROWS = 50
_SAMPLE = 2**18  # bytes read to recognize the layout, more if they hold fewer than two rows
_LARGEST_SAMPLE = 2**26
_BLOCK = 2**23  # bytes of a batch
_SEPARATORS = "\t;,| "  # in this order of preference: 1,5;2,5 has the cells 1,5 and 2,5
_NUMBER = re.compile(r"\s*[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?\s*")

_THOUSANDS = re.compile(r"[-+]?\d{1,3}(,\d{3})+")


@dataclass(frozen=True, eq=False)
class Batches:
    """Column names, and batches of rows (pyarrow record batches).

    `decimal` is the decimal sign in cells of text.
    """

    names: tuple[str, ...]
    batches: Iterable[Any]
    named: bool = True
    decimal: str = "."


@dataclass(frozen=True)
class Layout:
    """How a text table is laid out: its columns, and the lines above its first row."""

    separator: str
    names: tuple[str, ...]
    named: bool
    skipped_lines: int
    decimal: str


def open_text(source: str, stream: IO[bytes], options: ReadingOptions) -> Batches:
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
    sample, whole = _sample(stream)
    encoding = options.encoding or ("utf-16" if sample[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8")
    text = _decoded(source, sample, whole, encoding)
    if "\0" in text:
        raise ValueError(f"{source} is not a text table: csv, tsv, parquet, feather, xlsx, npy and h5ad can be read")
    if not text.strip():
        raise ValueError(f"{source} is empty")
    layout = recognize(text, options.header)
    block = max(_BLOCK, 2 * len(sample))  # a batch must hold the header, and each row
    batches = _batches(source, stream, layout, encoding, options.missing or (), block)
    return Batches(layout.names, batches, layout.named, layout.decimal)


def _sample(stream: IO[bytes]) -> tuple[bytes, bool]:
    """The first bytes, with two rows of the table if possible, and whether they are the whole file."""
    size = _SAMPLE
    while True:
        stream.seek(0)
        sample = stream.read(size)
        unquoted = b"".join(sample.split(b'"')[::2])  # a quoted cell may contain line ends
        if len(sample) < size or size >= _LARGEST_SAMPLE or unquoted.count(b"\n") > 1:
            stream.seek(0)
            return sample, len(sample) < size
        size *= 2


def _decoded(source: str, sample: bytes, whole: bool, encoding: str) -> str:
    """The sample as text, up to its last complete line."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample, whole).removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise _wrong_encoding(source, encoding) from None
    except (LookupError, TypeError, ValueError):
        raise ValueError(
            f"--encoding {encoding} is not an encoding of text: common ones are utf-8, utf-16, latin-1 and cp1252"
        ) from None
    return text if whole else text[: text.rfind("\n") + 1] or text


def _wrong_encoding(source: str, encoding: str) -> ValueError:
    return ValueError(
        f"{source} is not encoded in {encoding.upper()}: save it as UTF-8, or give its encoding, such as "
        "--encoding latin-1"
    )


def recognize(text: str, header: bool | None = None) -> Layout:
    r"""The layout of a table, from its first lines; `header` says whether the first row holds names, if known.

    Examples
    --------
    >>> recognize("a;b\n1,5;2\n")
    Layout(separator=';', names=('a', 'b'), named=True, skipped_lines=1, decimal=',')
    """
    separator = _separator(text)
    (end_of_first, first), *others = _rows(text, separator)
    rows = [row for _, row in others]
    named = not all(_NUMBER.fullmatch(cell) for cell in first) if header is None else header
    names = [cell.strip() if named else f"x{j}" for j, cell in enumerate(first)]
    if named and _is_short(text, first, rows):
        names = ["", *names]
    return Layout(separator, tuple(names), named, end_of_first if named else 0, _decimal(separator, rows))


def _rows(text: str, separator: str) -> list[tuple[int, list[str]]]:
    """The first rows that are not blank, each with the number of lines up to its end."""
    usual = csv.field_size_limit(len(text) + 1)  # the limit is that of the whole process
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        return list(islice(((reader.line_num, row) for row in reader if row), _SAMPLE_ROWS))
    finally:
        csv.field_size_limit(usual)


def _separator(text: str) -> str:
    """The sign that cuts most rows into as many cells as the first, or into one more (R's short header)."""

    def agreement(sign: str) -> float:
        first, *others = (len(row) for _, row in _rows(text, sign))
        return (1 + max(others.count(first), others.count(first + 1))) / (1 + len(others)) if first > 1 else 0.0

    best = max(_SEPARATORS, key=agreement)
    return best if agreement(best) > 0 else ","


def _decimal(separator: str, rows: list[list[str]]) -> str:
    """The decimal sign: a comma in a table with semicolons, or if there are commas that separate no thousands."""
    numbers = [cell.strip() for row in rows for cell in row if _NUMBER.fullmatch(cell)]
    if separator == "," or any("." in number for number in numbers):
        return "."
    commas = any("," in number and not _THOUSANDS.fullmatch(number) for number in numbers)
    return "," if separator == ";" or commas else "."


def _is_short(text: str, header: list[str], rows: list[list[str]]) -> bool:
    """Whether the header has no cell for the row names, as `write.table` of R writes it.

    A separator at the end of each row makes the header one cell short as well, and so does a title above the table.
    """
    if len(header) < 2 or {len(row) for row in rows} != {len(header) + 1}:
        return False
    names = [row[0] for row in rows]
    texts = text.lstrip().startswith('"') or not any(_NUMBER.fullmatch(name) for name in names)
    return texts and len(set(names)) == len(names) and any(row[-1] for row in rows)


def _batches(
    source: str, stream: IO[bytes], layout: Layout, encoding: str, missing: Iterable[str], block: int
) -> Iterator[Any]:
    """Batches of text cells: the type of a column is decided later, when all of its cells are known."""
    pa, pacsv = needed("pyarrow", "app"), needed("pyarrow.csv", "app")
    invalid: list[Any] = []
    columns = [str(j) for j in range(len(layout.names))]
    try:
        yield from pacsv.open_csv(
            stream,
            # One thread costs no time here, and lets pyarrow count the rows.
            pacsv.ReadOptions(
                column_names=columns,
                skip_rows=layout.skipped_lines,
                block_size=block,
                encoding=encoding,
                use_threads=False,
            ),
            pacsv.ParseOptions(
                delimiter=layout.separator,
                newlines_in_values=True,
                invalid_row_handler=lambda row: invalid.append(row) or "error",  # type: ignore[func-returns-value]
            ),
            pacsv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()),
                null_values=[*pacsv.ConvertOptions().null_values, *missing],
                strings_can_be_null=True,
            ),
        )
    except (pa.ArrowInvalid, UnicodeError) as error:
        raise _explained(source, error, invalid, layout.skipped_lines, encoding) from None


def _explained(source: str, error: Exception, invalid: list[Any], above: int, encoding: str) -> ValueError:
    """What pyarrow says about a text table, as one sentence; `above` is the number of lines above the first row."""
    if invalid:
        row, n = invalid[0], invalid[0].actual_columns
        return ValueError(
            f"{source} has {n} cell{'' if n == 1 else 's'} in row {row.number - above} and {row.expected_columns} "
            f"columns: {_cut(row.text, 40)!r}"
        )
    if isinstance(error, UnicodeError) or "UTF8" in str(error):
        return _wrong_encoding(source, encoding)
    if "Could not skip" in str(error):  # the header is the last line, without a line end
        return ValueError(f"{source} has column names but no rows")
    return ValueError(f"{source} cannot be read: {_cut(' '.join(str(error).split()), 200)}")


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
