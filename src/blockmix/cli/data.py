"""Data: the table of a command, read with a bar and made ready for an estimator.

A file and the options of reading come in; numbers with column names, row names and known classes go out. What was left
out is said on standard error.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from blockmix.cli.bars import bar
from blockmix.cli.options import ReadingOptions
from blockmix.cli.speaking import note
from blockmix.cli.tables import Reading, Table, read_table
from blockmix.structure.types import FloatArray

_SHOWN = 8  # names in a note


@dataclass(frozen=True, eq=False)
class Data:
    """Numbers that an estimator takes, and what belongs to them."""

    table: Table
    label: str | None = None
    reading: ReadingOptions = field(default_factory=ReadingOptions)

    @property
    def X(self) -> Any:
        """The numbers: a data frame where the columns have names or some are left out, which the model remembers."""
        if self.table.names == tuple(f"x{j}" for j in range(len(self.table.names))) and not self.table.named:
            return self.table.values
        import pandas as pd

        return pd.DataFrame(self.table.values, columns=list(self.table.names), copy=False)

    @property
    def labels(self) -> list[str | None] | None:
        """Known class of each row, None where there is none."""
        return None if self.label is None else self.table.texts[self.label]

    def agreement(self, clusters: Sequence[int]) -> float | None:
        """Adjusted Rand index of clusters and known classes, over the rows that have one."""
        if self.labels is None:
            return None
        from blockmix.metrics import adjusted_rand

        known = [(label, cluster) for label, cluster in zip(self.labels, clusters, strict=True) if label is not None]
        if not known:
            raise ValueError(f"the column {self.label!r} of {self.table.source} is empty: there is nothing to compare")
        return float(adjusted_rand(*map(list, zip(*known, strict=True))))

    def scaled(self, location: FloatArray, scale: FloatArray) -> Data:
        """The numbers as (x − location) / scale, in place: they are large, and nobody needs the others any more."""
        values = self.table.values
        values -= location
        values /= scale
        return self


def read_file(file: str, how: ReadingOptions, kept: tuple[str, ...] = (), only: tuple[str, ...] | None = None) -> Table:
    """Read a table with a bar, and say what the reader decided."""
    reading = Reading(
        kept=kept,
        dropped=tuple(how.drop or ()),
        only=only,
        missing=tuple(how.missing or ()),
        encoding=how.encoding,
        header=how.header,
        layer=how.layer,
    )
    size = os.path.getsize(file) if os.path.isfile(file) else None
    name = "standard input" if file == "-" else os.path.basename(file)
    with bar(f"reading {name}", size, bytes=True) as shown:
        return read_table(file, reading, lambda count: shown.show(count))


def read_data(
    file: str, how: ReadingOptions, label: str | None = None, only: tuple[str, ...] | None = None, vary: bool = True
) -> Data:
    """The numbers of a file: complete, and varying if they are to be fitted."""
    found = read_file(file, how, () if label is None else (label,), only)
    if only is not None:
        _refuse_texts(found, only)
    table = found.complete(how.drop_missing)
    if vary:
        table = table.with_numbers()
    for text in [*_left_out(table), *table.notes, *_given_away(table, label if vary else None)]:
        note(text)
    return Data(table, label, how)


def _refuse_texts(table: Table, only: tuple[str, ...]) -> None:
    for name in only:
        if name in table.left_out:
            raise ValueError(f"the column {name!r} of {table.source} is not numeric: {table.left_out[name]}")


def _left_out(table: Table) -> list[str]:
    reasons = [f"{name} ({why})" for name, why in table.left_out.items() if name != table.named_by]
    more = f" and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
    texts = [f"row names: {table.named_by}"] if table.named_by else []
    texts += [f"left out: {', '.join(reasons[:_SHOWN])}{more}"] if reasons else []
    if len(table.names) == 1:
        texts.append(f"only one numeric column, {table.names[0]}: there are no columns to group")
    if not table.named and not table.source.endswith(".npy"):
        texts.append("the first row holds numbers, so columns are called x0, x1, …: give --header if it holds names")
    return texts


def _given_away(table: Table, label: str | None) -> list[str]:
    """A note on numeric columns that are the known classes in another coding."""
    if label is None:
        return []
    codes = np.unique([str(text) for text in table.texts[label]], return_inverse=True)[1]
    first = np.unique(codes, return_index=True)[1]
    if not 1 < len(first) <= len(codes) / 2:  # one class tells nothing, and a class of one row has one value anyhow
        return []
    same = [
        name
        for name, column in zip(table.names, table.values.T, strict=True)
        if (column[:1000] == column[first[codes[:1000]]]).all() and (column == column[first[codes]]).all()
    ]
    named = ", ".join(same[:_SHOWN])
    return [f"{named}: one value in each class of {label}, so the fit sees the classes; --drop NAME"] if same else []


def as_numbers(table: Table, column: str) -> FloatArray:
    """A column that was kept as text, as numbers."""
    numbers = []
    for row, text in enumerate(table.texts[column], start=1):
        try:
            numbers.append(float(text or "nan"))
        except ValueError:
            raise ValueError(
                f"the column {column!r} of {table.source} holds {text!r} in row {row}: give numbers"
            ) from None
    return np.array(numbers)


def without_gaps(table: Table, columns: list[str], drop: bool) -> Table:
    """The table without rows where one of the kept columns is empty, or a sentence that counts them."""
    full = [all(cells) for cells in zip(*(table.texts[name] for name in columns), strict=True)]
    lost = full.count(False)
    if lost == 0:
        return table
    if not drop:
        raise ValueError(
            f"{table.source} has no {' or no '.join(columns)} in {lost} of {len(full)} rows: fill them in, or leave "
            "those rows out with --drop-missing"
        )
    if lost == len(full):
        raise ValueError(f"{table.source} has no row with {' and '.join(columns)}")
    note(f"left out {lost} of {len(full)} rows without {' or '.join(columns)}")
    places = [i for i, whole in enumerate(full) if whole]
    return replace(
        table,
        values=table.values[places],
        row_names=[table.row_names[i] for i in places],
        texts={name: [cells[i] for i in places] for name, cells in table.texts.items()},
    )
