"""The data of a command: a table read with a progress bar, checked, and ready for an estimator.

What the reader left out or decided is printed on standard error.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from blockmix.cli.memory import check_memory
from blockmix.cli.messages import note
from blockmix.cli.options import ReadingOptions
from blockmix.cli.progress import progress_bar
from blockmix.cli.reading import InputTable, read_table
from blockmix.cli.reading.large import LargeTable
from blockmix.cli.reading.table import shortened
from blockmix.partition import FloatArray, IntArray

_SHOWN = 8  # names in a note


@dataclass(eq=False)
class Data:
    """The table to fit, the column of known classes, and how the file was read."""

    table: InputTable
    label: str | None = None
    reading: ReadingOptions = field(default_factory=ReadingOptions)

    @property
    def X(self) -> Any:
        """The numbers for an estimator."""
        return self.table.matrix()

    @property
    def labels(self) -> list[str | None] | None:
        """Known class of each row, None where there is none."""
        return None if self.label is None else self.table.texts[self.label]

    def agreement(self, clusters: IntArray) -> float | None:
        """Adjusted Rand index of clusters and known classes, over the rows that have one."""
        if self.labels is None:
            return None
        number = dict(zip(dict.fromkeys(self.labels), count()))
        n_clusters = int(clusters.max()) + 2  # -1: a text without a topic
        cells = np.array([-1 if label is None else number[label] for label in self.labels])
        known = cells >= 0
        if not known.any():
            raise ValueError(f"the column {self.label!r} of {self.table.source} is empty: there is nothing to compare")
        cells = cells[known] * n_clusters + clusters[known] + 1
        return rand_of_counts(np.bincount(cells, minlength=len(number) * n_clusters).reshape(-1, n_clusters))

    def standardize(self) -> dict[str, FloatArray]:
        """Scale the columns to mean 0 and standard deviation 1; returns the scaling."""
        scaling = self.table.scaling()
        self.scale(**scaling)
        return scaling

    def scale(self, location: FloatArray, scale: FloatArray) -> None:
        """Replace the numbers by (x − location) / scale."""
        self.table = self.table.scaled(location, scale)


def rand_of_counts(table: IntArray) -> float:
    """Adjusted Rand index of two labelings with these counts of pairs of labels; a million rows need no more memory.

    Examples
    --------
    >>> rand_of_counts(np.array([[2, 0], [0, 3]])), round(rand_of_counts(np.array([[2, 1], [1, 2]])), 3)
    (1.0, -0.111)
    """
    pairs = [
        int((counts.astype(float) * (counts - 1)).sum()) for counts in (table, table.sum(axis=0), table.sum(axis=1))
    ]
    both, first, second = pairs
    n = int(table.sum())
    expected = first * second / (n * (n - 1)) if n > 1 else 0.0
    most = (first + second) / 2
    return 1.0 if both == most else (both - expected) / (most - expected)


def read_file(
    file: str, options: ReadingOptions, kept: tuple[str, ...] = (), only: tuple[str, ...] | None = None
) -> InputTable:
    """Read a table with a progress bar."""
    size = os.path.getsize(file) if os.path.isfile(file) else None
    name = "standard input" if file == "-" else os.path.basename(file)
    with progress_bar(f"reading {name}", size, bytes=True) as bar:
        return read_table(file, options, kept, only, bar.update)


def read_data(
    file: str,
    options: ReadingOptions,
    label: str | None = None,
    only: tuple[str, ...] | None = None,
    to_fit: bool = True,
    top_variance: int | None = None,
    gaps: bool = False,
) -> Data:
    """The numbers of a file, complete unless there may be gaps; varying and not too many if they are to be fitted."""
    table = read_file(file, options, () if label is None else (label,), only)
    for name in only or ():
        if name in table.left_out:
            raise ValueError(f"the column {name!r} of {table.source} is not numeric: {table.left_out[name]}")
    table = table.complete(options.drop_missing, gaps)
    if to_fit:
        table = table.varying()
        if top_variance is not None:
            table = table.most_varying(top_variance)
        check_memory(table.source, *table.shape)
    for text in [*_notes(table), *table.notes]:
        note(text)
    data = Data(table, label, options)
    if to_fit and (revealing := _revealing_columns(data)):
        names = shortened(revealing, _SHOWN)
        note(f"{names}: one value in each class of {label}, so the fit sees the classes; leave out with --drop NAME")
    return data


def demo_data() -> Data:
    """178 wines of three cultivars and 13 measurements, as if read from a file."""
    from sklearn.datasets import load_wine

    wine = load_wine()
    texts: dict[str, list[str | None]] = {"cultivar": [str(wine.target_names[k]) for k in wine.target]}
    table = InputTable("wine", tuple(wine.feature_names), wine.data, range(1, len(wine.data) + 1), texts)
    return Data(table, "cultivar")


def _notes(table: InputTable) -> list[str]:
    """What the user should know about the columns."""
    reasons = [f"{name} ({why})" for name, why in table.left_out.items() if name != table.named_by]
    notes = [f"row names: {table.named_by}"] if table.named_by else []
    notes += [f"left out: {shortened(reasons, _SHOWN)}"] if reasons else []
    if len(table.names) == 1:
        notes.append(f"only one numeric column, {table.names[0]}: there are no columns to group")
    if not table.named and not table.source.endswith(".npy"):
        notes.append("the first row holds numbers, so columns are called x0, x1, …: give --header if it holds names")
    return notes


def _revealing_columns(data: Data) -> list[str]:
    """Numeric columns that are a coding of the known classes."""
    if data.labels is None or isinstance(data.table, LargeTable):
        return []
    codes = np.unique([str(text) for text in data.labels], return_inverse=True)[1]
    first = np.unique(codes, return_index=True)[1]
    if not 1 < len(first) <= len(codes) / 2:  # a single class, or classes of one row, show nothing
        return []
    return [
        name
        for name, column in zip(data.table.names, data.table.values.T, strict=True)
        if (column[:1000] == column[first[codes[:1000]]]).all() and (column == column[first[codes]]).all()
    ]


def as_numbers(table: InputTable, column: str) -> FloatArray:
    """A column that was kept as text, as numbers."""
    numbers = []
    for row, text in enumerate(table.texts[column], start=1):
        try:
            numbers.append(float(text or "nan"))
        except ValueError:
            raise ValueError(
                f"the column {column!r} of {table.source} holds {text!r} in row {row}: numbers are needed"
            ) from None
    return np.array(numbers)


def without_gaps(table: InputTable, columns: list[str], drop: bool) -> InputTable:
    """The table if none of its kept columns has an empty cell; with `drop`, without the rows that have one."""
    full = [all(cells) for cells in zip(*(table.texts[name] for name in columns), strict=True)]
    lost = full.count(False)
    if lost == 0:
        return table
    if not drop:
        raise ValueError(
            f"{table.source} has no {' or no '.join(columns)} in {lost} of {len(full)} rows: fill them in, or leave "
            "out those rows with --drop-missing"
        )
    if lost == len(full):
        raise ValueError(f"{table.source} has no row with {' and '.join(columns)}")
    note(f"left out {lost} of {len(full)} rows without {' or '.join(columns)}")
    return table.rows([i for i, whole in enumerate(full) if whole])
