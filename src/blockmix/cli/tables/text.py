"""Text: csv and tsv files as a stream of batches, however large they are.

Bytes come in, from a file or a pipe; separator, names and batches of text cells go out. The separator, a header, gzip
and UTF-16 are recognized by the first bytes.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from blockmix.cli.tables.table import Reading

_HEAD = 2**18  # bytes that are looked at to recognize the format
_CUT = 8  # bytes at the end of them that may be half a character
_LINES = 50
_BLOCK = 2**23  # bytes of a batch, and so of the longest row
_SEPARATORS = "\t;,| "  # in this order where several fit equally well: 1,5;2,5 has columns 1,5 and 2,5
_NUMBER = re.compile(r"\s*[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?\s*")

Tell = Callable[[int], object]  # is told how many bytes were read so far


@dataclass(frozen=True, eq=False)
class Batches:
    """Names of the columns and batches of rows (pyarrow), each with one array per column.

    `decimal` is the sign that separates decimals in cells of text.
    """

    names: tuple[str, ...]
    batches: Iterable[Any]
    named: bool = True
    decimal: str = "."


def read_text(source: str, stream: IO[bytes], how: Reading, tell: Tell) -> Batches:
    """Recognize the format of a text file and open it.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    stream : binary file
    how : Reading
    tell : callable
        Is given the number of bytes that were taken from the stream so far.
    """
    raw: Any = io.BufferedReader(_Tap(stream, b"", tell), _HEAD)
    if raw.peek(2)[:2] == b"\x1f\x8b":
        raw = gzip.GzipFile(fileobj=raw)
    head = _read(raw, _HEAD)
    # The names of 20 000 genes are longer than the head, and so is a row of them.
    while head[:-_CUT].count(b"\n") < 2 and len(head) < _BLOCK and (more := _read(raw, _HEAD)):
        head += more
    encoding = how.encoding or ("utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8")
    if encoding == "utf-8":
        head = head.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")  # blank lines would be taken for the header
        if b"\0" in head:
            raise ValueError(f"{source} is no table of text: csv, tsv, parquet, feather, xlsx, npy and h5ad are read")
    *lines, last = _decoded(source, head, encoding).splitlines()[: _LINES + 1] or [""]
    if len(head) < _HEAD and len(lines) < _LINES:
        lines.append(last)  # the last line may be half a row elsewhere
    lines = lines or [last]
    if not any(line.strip() for line in lines):
        raise ValueError(f"{source} is empty")
    separator = _separator(lines)
    first = _cells(lines[:1], separator)[0]
    named = not all(_NUMBER.fullmatch(cell) for cell in first) if how.header is None else how.header
    names = tuple(cell.strip() for cell in first) if named else tuple(f"x{j}" for j in range(len(first)))
    short = named and _lacks_a_name(first, lines[1:], separator)
    rest = io.BufferedReader(_Tap(raw, head, lambda count: None), _BLOCK)
    names = ("", *names) if short else names
    header = {"skip_rows": 1} if short else {"skip_rows_after_names": int(named)}
    batches = _batches(source, rest, len(names), separator, header, encoding, how.missing)
    return Batches(names, batches, named, "," if separator == ";" and not _dotted(lines) else ".")


class _Tap(io.RawIOBase):
    """A stream whose first bytes were read already, and which tells how many bytes went through."""

    def __init__(self, stream: IO[bytes], head: bytes, tell: Tell) -> None:
        self._stream, self._head, self._tell, self._count = stream, head, tell, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece, self._head = self._head[: len(buffer)], self._head[len(buffer) :]
        piece = piece or self._stream.read(len(buffer))
        buffer[: len(piece)] = piece
        self._count += len(piece)
        self._tell(self._count)
        return len(piece)


def _read(stream: IO[bytes], size: int) -> bytes:
    """Up to `size` bytes, also from a pipe that gives fewer at a time."""
    pieces: list[bytes] = []
    while size > 0 and (piece := stream.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _decoded(source: str, head: bytes, encoding: str) -> str:
    try:
        # The head may end within a character or a line.
        return head.decode(encoding) if len(head) < _HEAD else head[:-_CUT].decode(encoding, "ignore")
    except LookupError:
        raise ValueError(f"encoding {encoding!r} is not known: utf-8, utf-16, latin-1 and cp1252 are common") from None
    except UnicodeDecodeError:
        raise _misread(source, encoding) from None


def _misread(source: str, encoding: str) -> ValueError:
    return ValueError(
        f"{source} is not encoded in {encoding.upper()}: save it as UTF-8, or name its encoding, such as "
        "--encoding latin-1"
    )


def _cells(lines: list[str], separator: str) -> list[list[str]]:
    usual = csv.field_size_limit(_BLOCK)  # a text may be longer than the usual limit, which holds for the whole process
    try:
        return list(csv.reader(lines, delimiter=separator))
    finally:
        csv.field_size_limit(usual)


def _separator(lines: list[str]) -> str:
    """The sign that cuts most lines into as many cells as the first, or into one more than the names of R."""

    def agreement(sign: str) -> float:
        first, *body = (len(row) for row in _cells(lines, sign) if row)
        return (1 + max(body.count(first), body.count(first + 1))) / (1 + len(body)) if first > 1 else 0.0

    best = max(_SEPARATORS, key=agreement)
    return best if agreement(best) > 0 else ","


def _lacks_a_name(first: list[str], lines: list[str], separator: str) -> bool:
    """Whether, as in R's tables, the column with the names of the rows has no name, not even an empty one.

    A separator at the end of the rows, or a title above them, makes the first line one cell short as well.
    """
    rows = [row for row in _cells(lines, separator) if row]
    if len(first) < 2 or {len(row) for row in rows} != {len(first) + 1}:
        return False
    names = [row[0] for row in rows]
    texts = lines[0].startswith('"') or not any(_NUMBER.fullmatch(name) for name in names)
    return texts and len(set(names)) == len(names) and any(row[-1] for row in rows)


def _dotted(lines: list[str]) -> bool:
    return any(re.search(r"(^|;)[-+]?\d*\.\d+(;|$)", line) for line in lines)


def _batches(
    source: str,
    stream: IO[bytes],
    width: int,
    separator: str,
    header: dict[str, int],
    encoding: str,
    missing: tuple[str, ...],
) -> Iterator[Any]:
    """Batches of text cells: what a column holds is decided later, since its first rows do not tell.

    `header` is the option of pyarrow that skips the names.
    """
    import pyarrow as pa
    from pyarrow import csv as pacsv

    bad: list[Any] = []
    columns = [f"{j}" for j in range(width)]
    known = pacsv.ConvertOptions().null_values
    try:
        reader = pacsv.open_csv(
            stream,
            pacsv.ReadOptions(column_names=columns, block_size=_BLOCK, encoding=encoding, **header),
            pacsv.ParseOptions(
                delimiter=separator,
                newlines_in_values=True,
                invalid_row_handler=lambda row: bad.append(row) or "error",  # type: ignore[func-returns-value]
            ),
            pacsv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()),
                null_values=[*known, *missing],
                strings_can_be_null=True,
            ),
        )
        yield from reader
    except (pa.ArrowInvalid, UnicodeError) as error:
        if bad:
            row, n = bad[0], bad[0].actual_columns
            raise ValueError(
                f"{source} has a row of {n} cell{'' if n == 1 else 's'} where there are {row.expected_columns} "
                f"columns: {_short(row.text)!r}"
            ) from None
        if isinstance(error, UnicodeError) or "UTF8" in str(error):
            raise _misread(source, encoding) from None
        raise ValueError(f"{source} cannot be read: {_short(' '.join(str(error).split()), 200)}") from None


def _short(text: str, width: int = 40) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
