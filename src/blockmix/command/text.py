"""Text tables (csv, tsv) of any size: cells of text, and the numbers in them.

The first rows reveal gzip, encoding, separator, header and decimal sign; pyarrow parses the file. pandas would pad a
short row with missing values instead of reporting it, and `csv.Sniffer` picks the wrong separator for one in six
tables with texts or with R's short header. Cells of other types, as in Parquet, become numbers in the same way.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any, cast

import numpy as np

from blockmix.command.options import ReadingOptions
from blockmix.command.table import Table, shortened
from blockmix.partition import BoolArray, FloatArray
from blockmix.rows.files import needed

_SAMPLE_ROWS = 50
_SAMPLE = 2**18  # bytes read to recognize the layout, more if they hold fewer than two rows
_LARGEST_SAMPLE = 2**26
_BLOCK = 2**23  # bytes of a batch
_SEPARATORS = "\t;,| "  # in this order of preference: 1,5;2,5 has the cells 1,5 and 2,5
_NUMBER = re.compile(r"\s*[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?\s*")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(,\d{3})+")
_ARROW_NUMBER = r"^[-+]?((\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|(?i:nan|inf|infinity))$"
_GROWTH = 1.25  # of the matrix when it is full


@dataclass(frozen=True, eq=False)
class Cells:
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
    sample, whole = _sample(stream)
    encoding = options.encoding or ("utf-16" if sample[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8")
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample, whole).removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise _wrong_encoding(source, encoding) from None
    except (LookupError, TypeError, ValueError):
        raise ValueError(
            f"--encoding {encoding} is not an encoding of text: common ones are utf-8, utf-16, latin-1 and cp1252"
        ) from None
    if "\0" in text:
        raise ValueError(f"{source} is not a text table: csv, tsv, parquet, feather, xlsx, npy and h5ad can be read")
    if not text.strip():
        raise ValueError(f"{source} is empty")
    layout = recognize(text if whole else text[: text.rfind("\n") + 1] or text, options.header)
    block = max(_BLOCK, 2 * len(sample))  # a batch must hold the header, and each row
    batches = _batches(source, stream, layout, encoding, options.missing or (), block)
    return Cells(layout.names, batches, layout.named, layout.decimal)


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


def _wrong_encoding(source: str, encoding: str) -> ValueError:
    return ValueError(
        f"{source} is not encoded in {encoding.upper()}: save it as UTF-8, or give its encoding, such as "
        "--encoding latin-1"
    )


def recognize(text: str, header: bool | None = None) -> Layout:
    r"""The layout of a table, from its first lines; `header` says whether the first row holds names, if known.

    The separator cuts most rows into as many cells as the first, or into one more (R's short header).

    Examples
    --------
    >>> recognize("a;b\n1,5;2\n")
    Layout(separator=';', names=('a', 'b'), named=True, skipped_lines=1, decimal=',')
    """
    separator, best = ",", 0.0
    for sign in _SEPARATORS:
        n_first, *lengths = (len(row) for _, row in _rows(text, sign))
        agreement = (1 + max(lengths.count(n_first), lengths.count(n_first + 1))) / (1 + len(lengths))
        if n_first > 1 and agreement > best:
            separator, best = sign, agreement
    (end_of_first, first), *others = _rows(text, separator)
    rows = [row for _, row in others]
    named = not all(_NUMBER.fullmatch(cell) for cell in first) if header is None else header
    names = [cell.strip() if named else f"x{j}" for j, cell in enumerate(first)]
    if named and _is_short(text, first, rows):
        names = ["", *names]
    # A comma is the decimal sign in a table with semicolons, or if there are commas that separate no thousands.
    numbers = [cell.strip() for row in rows for cell in row if _NUMBER.fullmatch(cell)]
    commas = any("," in number and not _THOUSANDS.fullmatch(number) for number in numbers)
    point = separator == "," or any("." in number for number in numbers)
    decimal = "," if not point and (separator == ";" or commas) else "."
    return Layout(separator, tuple(names), named, end_of_first if named else 0, decimal)


def _rows(text: str, separator: str) -> list[tuple[int, list[str]]]:
    """The first rows that are not blank, each with the number of lines up to its end."""
    usual = csv.field_size_limit(len(text) + 1)  # the limit is that of the whole process
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        return list(islice(((reader.line_num, row) for row in reader if row), _SAMPLE_ROWS))
    finally:
        csv.field_size_limit(usual)


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
        text = row.text if len(row.text) <= 40 else row.text[:39] + "…"
        cells = f"{n} cell{'' if n == 1 else 's'} in row {row.number - above}"
        return ValueError(f"{source} has {cells} and {row.expected_columns} columns: {text!r}")
    if isinstance(error, UnicodeError) or "UTF8" in str(error):
        return _wrong_encoding(source, encoding)
    if "Could not skip" in str(error):  # the header is the last line, without a line end
        return ValueError(f"{source} has column names but no rows")
    return ValueError(f"{source} cannot be read: {' '.join(str(error).split())[:200]}")


class Columns:
    """The columns of a table of cells while it is read; only numbers, kept texts and possible row names stay in memory.

    Parameters
    ----------
    names : sequence of str
        Of all columns of the file.
    kept : sequence of str
        Columns to return as text.
    used, read, index : numbers of columns
        Those of numbers, those that are read for them or for row names, and those that only name rows.
    decimal : str
        The decimal sign.
    missing : sequence of str
        Texts that mean a missing value.
    """

    def __init__(
        self,
        names: Sequence[str],
        kept: Sequence[str],
        chosen: tuple[list[int], list[int], set[int]],
        decimal: str,
        missing: Sequence[str],
    ) -> None:
        self._names, self._decimal, self._missing = names, decimal, missing
        self._used, self._read, index = chosen
        # A first column that is not used may name the rows, even if it holds numbers.
        self._may_name = index | {0} - set(self._used)
        self._row_names: dict[int, list[Any]] = {}
        self._kept: dict[int, list[Any]] = {names.index(name): [] for name in kept}
        self._first_text: dict[int, tuple[str, int]] = {}  # the first cell of text and its row
        self._surplus = np.zeros(len(names), dtype=int)  # how many more cells are numbers than texts
        self._numeric: list[int] = []  # the columns of the matrix
        self._matrix: FloatArray = np.empty((0, 0))
        self.n_rows = 0

    def add(self, batch: Any) -> None:
        """Read a batch."""
        begin, end = self.n_rows, self.n_rows + batch.num_rows
        numbers: dict[int, FloatArray] = {}
        for j in self._read:
            numbers[j], text = _numbers(batch.column(j), self._decimal, self._missing)
            self._surplus[j] += len(text) - np.isnan(numbers[j]).sum() - text.sum()
            if text.any() and j not in self._first_text:
                i = int(np.argmax(text))
                self._first_text[j] = str(batch.column(j)[i].as_py()).strip(), begin + i
        if begin == 0:
            self._numeric = [j for j in self._used if j not in self._first_text or self._surplus[j] > 0]
            self._row_names = {j: [] for j in self._read if j in self._may_name or j in self._first_text}
        if end > len(self._matrix):
            # In place, since a second matrix would double the memory.
            self._matrix.resize((max(end, int(_GROWTH * begin)), len(self._numeric)), refcheck=False)
        for k, j in enumerate(self._numeric):
            self._matrix[begin:end, k] = numbers[j]
        self._row_names = {j: cells for j, cells in self._row_names.items() if _all_differ(batch.column(j))}
        for j, cells in (*self._row_names.items(), *self._kept.items()):
            cells.append(batch.column(j))
        self.n_rows = end

    def table(self, source: str, named: bool) -> Table:
        """The table of all batches.

        Raises
        ------
        ValueError
            A column of numbers has a text.
        """
        text = {j: text if len(text) <= 20 else text[:19] + "…" for j, (text, _) in self._first_text.items()}
        typos = [j for j in self._used if j in text and self._surplus[j] > 0]
        if typos:
            listed = [f"{self._names[j]} ({text[j]!r} in row {self._first_text[j][1] + 1})" for j in typos]
            name, typo = self._names[typos[0]], self._first_text[typos[0]][0]
            raise ValueError(
                f"{source} has text in columns of numbers: {shortened(listed)}; correct it, declare it missing with "
                f"--missing {shlex.quote(typo)}, or leave out the column with --drop {shlex.quote(name)}"
            )
        self._matrix.resize((self.n_rows, len(self._numeric)), refcheck=False)
        shown = {j: repr(text[j]) + (f" in row {row + 1}" if row else "") for j, (_, row) in self._first_text.items()}
        left_out = {self._names[j]: shown[j] for j in sorted(self._used) if j in shown}
        numeric = [k for k, j in enumerate(self._numeric) if j not in shown]
        named_by: str | None = None
        row_names: Sequence[object] = range(1, self.n_rows + 1)
        for j, cells in self._row_names.items():  # the first column whose cells all differ
            names = [str(cell) for cell in texts_of(cells)]
            if len(set(names)) == len(names):
                named_by, row_names = self._names[j], names
                break
        return Table(
            source,
            tuple(self._names[self._numeric[k]] for k in numeric),
            self._matrix if len(numeric) == len(self._numeric) else self._matrix[:, numeric],
            row_names,
            {self._names[j]: texts_of(cells) for j, cells in self._kept.items()},
            left_out,
            named,
            named_by,
        )


def _numbers(cells: Any, decimal: str, missing: Sequence[str]) -> tuple[FloatArray, BoolArray]:
    """The cells as numbers, NaN where there is none, and which of them are text that does not mean a missing value."""
    import pyarrow as pa
    from pyarrow import compute as pc

    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    if str(cells.type) == "string_view":
        cells = cells.cast(pa.string())
    text = np.zeros(len(cells), dtype=bool)
    if pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type):
        if decimal == ",":
            cells = pc.replace_substring(cells, ",", ".")
        try:
            numbers = cells.cast(pa.float64())
        except pa.ArrowInvalid:
            cells = pc.utf8_trim_whitespace(cells)
            number = pc.match_substring_regex(cells, _ARROW_NUMBER)
            accepted = pc.or_(number, pc.is_in(cells, pa.array(missing, cells.type)))
            text = pc.invert(accepted).fill_null(False).to_numpy(zero_copy_only=False)
            numbers = pc.if_else(number, cells, None).cast(pa.float64())
    elif pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type) or pa.types.is_decimal(cells.type):
        numbers = cells.cast(pa.float64(), safe=False)
    else:
        text = cells.is_valid().to_numpy(zero_copy_only=False)
        numbers = pa.nulls(len(cells), pa.float64())
    return numbers.to_numpy(zero_copy_only=False), text


def _all_differ(cells: Any) -> bool:
    import pyarrow as pa
    from pyarrow import compute as pc

    if pa.types.is_nested(cells.type) or cells.null_count:
        return False
    return bool(pc.count_distinct(cells).as_py() == len(cells))


def texts_of(pieces: Iterable[Any]) -> list[str | None]:
    """Cells as texts, None where they are empty."""
    same: dict[Any, str | None] = {None: None}  # one string for a class that a million rows share
    return [same.setdefault(cell, str(cell)) for piece in pieces for cell in piece.to_pylist()]
