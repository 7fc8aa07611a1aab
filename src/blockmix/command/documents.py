"""Documents: texts and what belongs to them, from a table, a file of JSON lines or a folder of .txt files.

The column of texts is the one with the longest texts, the column of ratings one that is called so and has few values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from blockmix.command.options import ReadingOptions
from blockmix.command.output import note
from blockmix.command.reading import read_table
from blockmix.command.table import Table

FOLDER_TEXT, FOLDER = "text", "folder"  # columns of a folder of .txt files
_RATING = re.compile(r"(?i).*(rating|stars?|score|grade|review_?score)s?")
_MAX_RATINGS = 20
_LEAST_LENGTH = 15  # characters of a text on average
_SAMPLE = 1000  # texts that are looked at
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")  # no spaces between words


def is_text_folder(file: str) -> bool:
    """Whether a path is a folder of .txt files."""
    path = Path(file)
    return path.is_dir() and not any(path.rglob("*.parquet")) and any(path.rglob("*.txt"))


def read_documents(file: str, options: ReadingOptions, columns: list[str], others: Sequence[str] = ()) -> Table:
    """A table of texts, without the rows that lack one of these columns if they may be left out."""
    table = _read_folder(file, options) if is_text_folder(file) else read_table(file, options, (*columns, *others), ())
    if lacking := [name for name in (*columns, *others) if name not in table.texts]:
        raise ValueError(f"{file} is a folder and has no column {lacking[0]!r}: it has {', '.join(table.texts)}")
    full = [all(cells) for cells in zip(*(table.texts[name] for name in columns), strict=True)]
    if (lost := full.count(False)) == 0:
        return table
    if not options.drop_missing or lost == len(full):
        remedy = "fill them in, or leave out those rows with --drop-missing"
        raise ValueError(f"{table.source} has no {' or no '.join(columns)} in {lost} of {len(full)} rows: {remedy}")
    note(f"left out {lost} of {len(full)} rows without {' or '.join(columns)}")
    return table.rows([i for i, whole in enumerate(full) if whole])


def _read_folder(file: str, options: ReadingOptions) -> Table:
    """Each .txt file of a folder and of those below it as a document, named by its path."""
    paths = sorted(Path(file).rglob("*.txt"))
    names = [path.relative_to(file) for path in paths]
    try:
        texts: list[str | None] = [path.read_text(encoding=options.encoding or "utf-8") or None for path in paths]
    except UnicodeDecodeError:
        raise ValueError(f"a file of {file} is not in UTF-8: give its encoding, such as --encoding latin-1") from None
    columns: dict[str, list[str | None]] = {FOLDER_TEXT: texts, FOLDER: [str(name.parent) for name in names]}
    return Table(file, (), np.empty((len(paths), 0)), [str(name) for name in names], columns)


def guess_columns(file: str, options: ReadingOptions, text: str | None, rating: str | None) -> tuple[str, str | None]:
    """Columns of texts and of ratings: those given, or the ones that look so, with a note."""
    given = None if rating == "none" else rating
    if is_text_folder(file):
        return text or FOLDER_TEXT, given
    if text is not None and (rating is not None or file == "-"):
        return text, given
    if file == "-":
        raise ValueError("the columns of standard input cannot be guessed: name the column of texts with --text")
    cells_of = read_table(file, options, None, ()).texts
    columns = {name: [cell for cell in cells[:_SAMPLE] if cell] for name, cells in cells_of.items()}
    if text is None:
        lengths = {name: np.mean([len(str(cell)) for cell in cells]) for name, cells in columns.items() if cells}
        text = max(lengths, key=lambda name: lengths[name], default="")
        if not text or lengths[text] < _LEAST_LENGTH:
            raise ValueError(f"{file} has no column of texts that could be guessed: name it with --text")
        note(f"texts are those of the column {text!r}: --text names another")
    if rating is None:
        given = next((name for name, cells in columns.items() if name != text and _is_rating(name, cells)), None)
        if given is not None:
            note(f"ratings are those of the column {given!r}: --rating names another, or none")
    return text, given


def _is_rating(name: str, cells: list[Any]) -> bool:
    """Whether a column is called like ratings and has few different numbers."""
    try:
        levels = {float(cell) for cell in cells}
    except (TypeError, ValueError):
        return False
    return bool(_RATING.fullmatch(name)) and 2 <= len(levels) <= _MAX_RATINGS


def is_unspaced(texts: Sequence[Any]) -> bool:
    """Whether most letters belong to scripts without spaces between words, such as Chinese, Japanese and Thai."""
    sample = "".join(map(str, texts[:_SAMPLE]))
    letters = sum(map(str.isalpha, sample))
    return len(_UNSPACED.findall(sample)) > letters / 2


def category_values(cells: Sequence[str | None]) -> Any:
    """Cells as dates, as numbers or as they are, for `TopicBiclustering.by`."""
    for kind, empty in (("datetime64[s]", "NaT"), (float, "nan")):
        with suppress(ValueError):
            values = np.array([cell or empty for cell in cells], dtype=kind)
            days = values.astype("datetime64[D]") if empty == "NaT" else values
            return days if (days == values)[values == values].all() else values
    return np.array(cells, dtype=object)
