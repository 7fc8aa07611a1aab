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
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from blockmix.command.formats import ENDINGS, Cells, from_file
from blockmix.command.options import ReadingOptions
from blockmix.command.output import progress_bar
from blockmix.command.table import REMEDY, Chosen, Names, Table, choose, printable, shortened, texts_of
from blockmix.partition import BoolArray, FloatArray

_SAMPLE_ROWS = 50
_SAMPLE = 2**18  # bytes read to recognize the layout, more if they hold fewer than two rows
_LARGEST_SAMPLE = 2**26
_BLOCK = 2**23  # bytes of a batch
_SEPARATORS = "\t;,| "  # in this order of preference: 1,5;2,5 has the cells 1,5 and 2,5
_SPACES = "\u00a0\u202f\u2009 '’"  # that separate thousands in some countries
_NUMBER = re.compile(r"\s*[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?\s*")
_GROUPED = r"[-+]?[1-9]\d{0,2}(?:[%s]\d{3})+"  # thousands
_ARROW_NUMBER = r"^[-+]?((\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|(?i:nan|inf|infinity))$"
_HINT = re.compile(r'"?sep=(.)"?\r?\n')  # a first line for Excel
_GROWTH = 1.25  # of the matrix when it is full


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
    kind, size = file.suffix.lower(), None
    if source == "-":
        source, kind = "standard input", "-"
    elif not file.exists():
        raise FileNotFoundError(f"{source} does not exist")
    elif file.is_dir() and not any(file.rglob("*.parquet")):
        raise ValueError(f"{source} is a folder: give a file")
    elif file.is_file():
        size = file.stat().st_size
        if size == 0:
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
                columns = Columns(source, cells, chosen, ("", *map(str.strip, options.missing or ())))
                for batch in cells.batches:
                    columns.add(batch)
                    update(0 if content is cells else content.tell())
                table = columns.table()
    except Exception as error:  # whatever the library of a format raises on a damaged file
        foreign = any(type(part).__module__.startswith("pyarrow") for part in (error, error.__cause__))
        foreign = foreign or isinstance(error, gzip.BadGzipFile)
        if isinstance(error, (ValueError, ImportError, MemoryError, PermissionError)) and not foreign:
            raise
        name = type(error.__cause__ or error).__name__
        raise ValueError(f"{source} is damaged or not a {kind[1:] or 'csv'} file ({name})") from None
    table = table.declared_missing(_floats_of(options.missing or ()))
    if only is not None:  # a column that a model asks for may have values only in other tables
        return table
    return table.tidied(None if options.columns else options.keep or ())


def _floats_of(texts: Iterable[str]) -> list[float]:
    """The texts that are numbers, as numbers: -99 is -99.0 as well."""
    return [float(text) for text in texts if re.fullmatch(_ARROW_NUMBER, text.strip())]


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
    return bool(_NUMBER.fullmatch(cell := _spaceless(cell)) or re.fullmatch(rf"{_GROUPED % ',.'}([.,]\d*)?", cell))


def _spaceless(cell: str) -> str:
    """A cell with an ASCII minus, and without spaces between thousands."""
    cell = cell.strip().replace("\u2212", "-")
    return re.sub(f"[{_SPACES}]", "", cell) if re.match(_GROUPED % _SPACES, cell) else cell


def _decimal_sign(rows: list[list[str]], separator: str) -> str:
    """The decimal sign, which 1,5 or 1.234,5 or 1.234.567 show for certain; 1.234 alone has a point."""
    numbers = [number for row in rows for cell in row if _is_number(number := _spaceless(cell))]

    def certain(sign: str, other: str) -> bool:
        return any(
            sign in number.partition(other)[2] or number.count(other) > 1
            if other in number
            else sign in number and not re.fullmatch(_GROUPED % sign, number)
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
        text = row.text if len(row.text) <= 40 else row.text[:39] + "…"
        cells = f"{n} cell{'' if n == 1 else 's'} in row {row.number - above}"
        return ValueError(f"{source} has {cells} and {row.expected_columns} columns: {text!r}")
    if isinstance(error, UnicodeError) or "UTF8" in str(error):
        return _wrong_encoding(source, encoding)
    if "Could not skip" in str(error):  # the header is the last line, without a line end
        return ValueError(f"{source} has column names but no rows")
    return ValueError(f"{source} cannot be read: {' '.join(str(error).split())[:200]}")


@dataclass(eq=False)
class Columns:
    """The columns of a table of cells while it is read; only numbers, kept texts and possible row names stay in memory.

    Attributes
    ----------
    source : str
        Name of the file, for messages.
    cells : Cells
    chosen : used, read, index, kept
        See `choose`.
    missing : sequence of str
        Texts that mean a missing value.
    """

    source: str
    cells: Cells
    chosen: Chosen
    missing: Sequence[str]
    n_rows: int = 0
    matrix: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    numeric: list[int] = field(default_factory=list)  # the columns of the matrix
    row_names: dict[int, list[Any]] = field(default_factory=dict)
    texts: dict[str, list[Any]] = field(default_factory=dict)
    first_text: dict[int, tuple[str, int]] = field(default_factory=dict)  # the first cell of text and its row
    surplus: dict[int, int] = field(default_factory=dict)  # how many more cells are numbers than texts
    grouped: set[int] = field(default_factory=set)  # columns with commas or points between thousands

    def add(self, batch: Any) -> None:
        """Read a batch."""
        (used, read, index, kept), begin, end = self.chosen, self.n_rows, self.n_rows + batch.num_rows
        numbers: dict[int, FloatArray] = {}
        for j in read:
            numbers[j], text, grouped = _numbers(batch.column(j), self.cells.decimal, self.missing)
            self.grouped |= {j} if grouped else set()
            self.surplus[j] = self.surplus.get(j, 0) + int(len(text) - np.isnan(numbers[j]).sum() - text.sum())
            if text.any() and j not in self.first_text:
                i = int(np.argmax(text))
                self.first_text[j] = str(batch.column(j)[i].as_py()).strip(), begin + i
        if begin == 0:
            self.numeric = [j for j in used if j not in self.first_text or self.surplus[j] > 0]
            # A first column that is not used may name the rows, even if it holds numbers.
            may_name = index | {0} - {*used} | {*self.first_text}
            self.row_names = {j: [] for j in read if j in may_name}
            self.texts = {name: [] for name in kept}
        if end > len(self.matrix):
            # In place, since a second matrix would double the memory.
            self.matrix.resize((max(end, int(_GROWTH * begin)), len(self.numeric)), refcheck=False)
        for k, j in enumerate(self.numeric):
            self.matrix[begin:end, k] = numbers[j]
        self.row_names = {j: cells for j, cells in self.row_names.items() if _all_differ(batch.column(j))}
        for j, cells in self.row_names.items():
            cells.append(batch.column(j))
        for name, cells in self.texts.items():
            cells.append(batch.column(self.cells.names.index(name)))
        self.n_rows = end

    def table(self) -> Table:
        """The table of all batches.

        Raises
        ------
        ValueError
            There are no rows, or a column of numbers has a text.
        """
        used, names = self.chosen[0], self.cells.names
        if self.n_rows == 0:
            raise ValueError(f"{self.source} has column names but no rows")
        text = {j: repr(text if len(text) <= 20 else text[:19] + "…") for j, (text, _) in self.first_text.items()}
        place = {j: f"{text[j]} in row {row + 1}" for j, (_, row) in self.first_text.items()}
        if typos := [j for j in used if j in text and self.surplus[j] > 0]:
            listed = shortened([f"{names[j]} ({place[j]})" for j in typos])
            typo, name = shlex.quote(self.first_text[typos[0]][0]), shlex.quote(names[typos[0]])
            remedy = f"declare it missing with --missing {typo}, or leave out the column with --drop {name}"
            raise ValueError(f"{self.source} has text in columns of numbers: {listed}; correct it, {remedy}")
        self.matrix.resize((self.n_rows, len(self.numeric)), refcheck=False)
        numeric = [k for k, j in enumerate(self.numeric) if j not in text]
        named_by: str | None = None
        row_names: Sequence[object] = range(1, self.n_rows + 1)
        for j, cells in self.row_names.items():  # the first column whose cells all differ
            values = [str(cell) for cell in texts_of(cells)]
            if len(set(values)) == len(values):
                named_by, row_names = names[j], values
                break
        left_out = {names[j]: place[j].removesuffix(" in row 1") for j in sorted(used) if j in text}
        repeats = f"it looks like row names, but repeats: {REMEDY}"
        left_out |= {names[j]: repeats.format(shlex.quote(names[j])) for j in self.chosen[2] if names[j] != named_by}
        grouped = shortened([names[j] for j in self.numeric if j in self.grouped and j not in text])
        sign = "." if self.cells.decimal == "," else ","
        return Table(
            self.source,
            tuple(names[self.numeric[k]] for k in numeric),
            self.matrix if len(numeric) == len(self.numeric) else self.matrix[:, numeric],
            row_names,
            {name: texts_of(cells) for name, cells in self.texts.items()},
            left_out,
            self.cells.named,
            named_by,
            (f"1{sign}234 is read as 1234: {grouped}",) if grouped else (),
            names,
        )


def _numbers(cells: Any, decimal: str, missing: Sequence[str]) -> tuple[FloatArray, BoolArray, bool]:
    """The cells as numbers, NaN where there is none, which of them are text, and whether points or commas were removed.

    A text that means a missing value is not counted as text.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    if str(cells.type) == "string_view":
        cells = cells.cast(pa.string())
    text, grouped = np.zeros(len(cells), dtype=bool), False
    if pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type):
        plain, grouped = (cells, False) if decimal == "." else _plain(cells, decimal)
        try:
            numbers = plain.cast(pa.float64())
        except pa.ArrowInvalid:
            cells = pc.utf8_trim_whitespace(cells)
            plain, grouped = _plain(cells, decimal)
            number = pc.match_substring_regex(plain, _ARROW_NUMBER)
            accepted = pc.or_(number, pc.is_in(cells, pa.array(missing, cells.type)))
            text = pc.invert(accepted).fill_null(False).to_numpy(zero_copy_only=False)
            numbers = pc.if_else(number, plain, None).cast(pa.float64())
    elif pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type) or pa.types.is_decimal(cells.type):
        numbers = cells.cast(pa.float64(), safe=False)
    else:
        text = cells.is_valid().to_numpy(zero_copy_only=False)
        numbers = pa.nulls(len(cells), pa.float64())
    return numbers.to_numpy(zero_copy_only=False), text, grouped


def _plain(cells: Any, decimal: str) -> tuple[Any, bool]:
    """Cells with an ASCII minus, a decimal point and no signs between thousands, and whether commas or points went."""
    from pyarrow import compute as pc

    sign = {".": ",", ",": "."}.get(decimal, "")
    cells = pc.replace_substring(pc.utf8_trim_whitespace(cells), "\u2212", "-")
    grouped = pc.match_substring_regex(cells, rf"^{_GROUPED % (_SPACES + sign)}([{decimal or '.,'}]\d*)?$")
    removed = bool(sign) and bool(pc.any(pc.and_(grouped, pc.match_substring(cells, sign))).as_py())
    cells = pc.if_else(grouped, pc.replace_substring_regex(cells, f"[{_SPACES}{sign}]", ""), cells)
    return (cells if decimal == "." else pc.replace_substring(cells, ",", ".")), removed


def _all_differ(cells: Any) -> bool:
    import pyarrow as pa
    from pyarrow import compute as pc

    if pa.types.is_nested(cells.type) or cells.null_count:
        return False
    return bool(pc.count_distinct(cells).as_py() == len(cells))
