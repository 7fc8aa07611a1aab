"""Columns: cells of text or of any type, in batches, become the numbers, row names and texts of a `Table`.

Numbers are read as people write them: with thousands separated by commas, points, apostrophes or spaces, with a decimal
comma, and with the minus of a word processor.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from blockmix.command.formats import Cells
from blockmix.command.table import REMEDY, Chosen, Table, abridged, shortened, texts_of
from blockmix.partition import BoolArray, FloatArray

SPACES = "\u00a0\u202f\u2009 '’"  # that separate thousands in some countries
GROUPED = r"[-+]?[1-9]\d{0,2}(?:[%s]\d{3})+"  # thousands
NUMBER = r"^[-+]?((\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|(?i:nan|inf|infinity))$"
_GROWTH = 1.25  # of the matrix when it is full


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
        text = {j: repr(abridged(text, 20)) for j, (text, _) in self.first_text.items()}
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
            number = pc.match_substring_regex(plain, NUMBER)
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
    grouped = pc.match_substring_regex(cells, rf"^{GROUPED % (SPACES + sign)}([{decimal or '.,'}]\d*)?$")
    removed = bool(sign) and bool(pc.any(pc.and_(grouped, pc.match_substring(cells, sign))).as_py())
    cells = pc.if_else(grouped, pc.replace_substring_regex(cells, f"[{SPACES}{sign}]", ""), cells)
    return (cells if decimal == "." else pc.replace_substring(cells, ",", ".")), removed


def _all_differ(cells: Any) -> bool:
    import pyarrow as pa
    from pyarrow import compute as pc

    if pa.types.is_nested(cells.type) or cells.null_count:
        return False
    return bool(pc.count_distinct(cells).as_py() == len(cells))
