"""Columns: cells of text or of any type, in batches, become the numbers, row names and texts of a `Table`.

Numbers are read as people write them: with thousands separated by commas, points, apostrophes or spaces, with a decimal
comma, and with the minus of a word processor.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from blockmix.command.formats import Cells
from blockmix.command.table import REMEDY, Chosen, Table, abridged, shortened, texts_of
from blockmix.partition import BoolArray, FloatArray

SPACES = "\u00a0\u202f\u2009 '’"  # that separate thousands in some countries
GROUPED = r"[-+]?[1-9]\d{0,2}(?:[%s]\d{3})+"  # thousands
NUMBER = r"^[-+]?((\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|(?i:nan|inf|infinity))$"


def table_of(source: str, cells: Cells, chosen: Chosen, missing: Sequence[str], update: Callable[[], object]) -> Table:
    """The table of all batches of cells; only numbers, kept texts and possible row names stay in memory.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    cells : Cells
    chosen : used, read, index, kept
        See `choose`.
    missing : sequence of str
        Texts that mean a missing value.
    update : callable
        Called after each batch.

    Raises
    ------
    ValueError
        There are no rows, or a column of numbers has a text.
    """
    (used, read, index, kept), names, n_rows = chosen, cells.names, 0
    numbers: dict[int, list[FloatArray]] = {j: [] for j in used}
    row_names: dict[int, list[Any]] = {j: [] for j in read}
    texts: dict[str, list[Any]] = {name: [] for name in kept}
    first_text: dict[int, tuple[str, int]] = {}  # the first cell of text and its row
    surplus = dict.fromkeys(read, 0)  # how many more cells are numbers than texts
    grouped: set[int] = set()  # columns with commas or points between thousands
    for batch in cells.batches:
        for j in read:
            values, text, signs = _numbers(batch.column(j), cells.decimal, missing)
            grouped |= {j} if signs else set()
            surplus[j] += int(len(text) - np.isnan(values).sum() - text.sum())
            if text.any() and j not in first_text:
                i = int(np.argmax(text))
                first_text[j] = str(batch.column(j)[i].as_py()).strip(), n_rows + i + 1
            if j in numbers:
                numbers[j].append(values)
        if n_rows == 0:
            numbers = {j: pieces for j, pieces in numbers.items() if j not in first_text or surplus[j] > 0}
            # A first column that is not used may name the rows, even if it holds numbers.
            row_names = {j: [] for j in read if j in index | {0} - {*used} | {*first_text}}
        row_names = {j: [*pieces, batch.column(j)] for j, pieces in row_names.items() if _all_differ(batch.column(j))}
        for name, pieces in texts.items():
            pieces.append(batch.column(names.index(name)))
        n_rows += batch.num_rows
        update()
    if n_rows == 0:
        raise ValueError(f"{source} has column names but no rows")
    place = {j: f"{abridged(text, 20)!r} in row {row}" for j, (text, row) in first_text.items()}
    if typos := [j for j in used if j in place and surplus[j] > 0]:
        listed = shortened([f"{names[j]} ({place[j]})" for j in typos])
        typo, name = shlex.quote(first_text[typos[0]][0]), shlex.quote(names[typos[0]])
        remedy = f"declare it missing with --missing {typo}, or leave out the column with --drop {name}"
        raise ValueError(f"{source} has text in columns of numbers: {listed}; correct it, {remedy}")
    numeric = [j for j in numbers if j not in first_text]
    matrix = np.empty((n_rows, len(numeric)))
    for k, j in enumerate(numeric):
        matrix[:, k] = np.concatenate(numbers.pop(j))
    columns = {j: [str(cell) for cell in texts_of(pieces)] for j, pieces in row_names.items()}
    by = next((j for j, cells in columns.items() if len({*cells}) == n_rows), None)  # the first whose cells all differ
    left_out = {names[j]: place[j].removesuffix(" in row 1") for j in sorted(used) if j in place}
    repeats = f"it looks like row names, but repeats: {REMEDY}"
    left_out |= {names[j]: repeats.format(shlex.quote(names[j])) for j in index if j != by}
    signs_in, sign = shortened([names[j] for j in numeric if j in grouped]), "." if cells.decimal == "," else ","
    return Table(
        source,
        tuple(names[j] for j in numeric),
        matrix,
        range(1, n_rows + 1) if by is None else columns[by],
        {name: texts_of(pieces) for name, pieces in texts.items()},
        left_out,
        cells.named,
        None if by is None else names[by],
        (f"1{sign}234 is read as 1234: {signs_in}",) if signs_in else (),
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
