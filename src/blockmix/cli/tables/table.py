"""Table: the numeric columns of a file, the names of its rows, and what was left out.

What a reader has found comes in; a table goes out whose numbers can be fitted, or one sentence that says which column
or row stands in the way and what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from blockmix.structure.types import FloatArray

_SHOWN = 5  # names in a message


@dataclass(frozen=True)
class Reading:
    """How a file is to be read.

    Attributes
    ----------
    kept : tuple of str
        Columns that are wanted as text, and are no data: labels, documents, ratings.
    dropped : tuple of str
        Columns that are not to be used.
    only : tuple of str or None
        The numeric columns that are wanted, in this order; None takes all.
    missing : tuple of str
        Cells that mean a missing value, besides an empty cell, NA, NaN, null and their like.
    encoding : str or None
        Encoding of a text file; None is UTF-8, or UTF-16 where the file begins so.
    header : bool or None
        Whether the first row holds the names; None looks whether it holds only numbers.
    layer : str or None
        Layer of an AnnData file; None is X.
    """

    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None
    missing: tuple[str, ...] = ()
    encoding: str | None = None
    header: bool | None = None
    layer: str | None = None


@dataclass(frozen=True, eq=False)
class Table:
    """Numeric columns by name, and the rest of a file.

    Attributes
    ----------
    source : str
        The file, for messages.
    names : tuple of p str
    values : array of shape (N, p)
        A missing value is NaN.
    row_names : sequence of N str
        The numbers 1, 2, … as text where the file has no names.
    texts : dict of N texts by column
        The columns that were asked for as text, None where a cell is empty.
    left_out : dict of reason by column
        Columns that are not numeric, empty or constant; also the one that names the rows.
    named : bool
        Whether the columns have names of their own.
    named_by : str or None
        The column that names the rows.
    notes : tuple of str
        What the reader decided by itself.
    """

    source: str
    names: tuple[str, ...]
    values: FloatArray
    row_names: Sequence[str]
    texts: dict[str, list[str | None]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    named: bool = True
    named_by: str | None = None
    notes: tuple[str, ...] = ()

    def with_numbers(self) -> Table:
        """The table without columns that never vary, or a sentence if nothing is left to be fitted."""
        if not self.names:
            raise ValueError(f"{self.source} has no numeric column{_reasons(self.left_out)}")
        if len(self.values) == 1:
            raise ValueError(f"{self.source} has one row: two are needed to see what varies")
        varies = (self.values != self.values[0]).any(axis=0)
        still = {name: "constant" for name, moves in zip(self.names, varies, strict=True) if not moves}
        if len(still) == len(self.names):
            raise ValueError(f"{self.source} has {len(self.values)} rows in which no numeric column varies")
        names = tuple(name for name in self.names if name not in still)
        values = self.values[:, varies] if still else self.values
        return replace(self, names=names, values=values, left_out=self.left_out | still)

    def complete(self, drop: bool) -> Table:
        """The table if all its numbers are finite, or without the rows where they are not."""
        finite = np.isfinite(self.values)
        whole = np.asarray(finite.all(axis=1))
        if whole.all():
            return self
        counts = len(finite) - np.count_nonzero(finite, axis=0)
        worst = sorted(np.flatnonzero(counts), key=lambda j: -counts[j])
        columns = _some([f"{self.names[j]} ({counts[j]})" for j in worst])
        lost = int(len(whole) - whole.sum())
        kind = "infinite" if np.isinf(self.values).any() else "missing"
        if not drop:
            raise ValueError(
                f"{self.source} has {kind} values in {lost} of {len(whole)} rows: {columns}; replace them, leave those "
                "rows out with --drop-missing, or a column with --drop NAME"
            )
        if lost == len(whole):
            raise ValueError(
                f"{self.source} has {kind} values in all rows, so --drop-missing leaves none: drop a column ({columns})"
            )
        places = np.flatnonzero(whole).tolist()
        return replace(
            self,
            values=self.values[whole],
            row_names=[self.row_names[i] for i in places],
            texts={name: [column[i] for i in places] for name, column in self.texts.items()},
            notes=(*self.notes, f"left out {lost} of {len(whole)} rows with {kind} values"),
        )


class RowNumbers(Sequence[str]):
    """The row names 1, 2, …, which need no memory.

    Examples
    --------
    >>> list(RowNumbers(3))
    ['1', '2', '3']
    """

    def __init__(self, n: int) -> None:
        self._numbers = range(1, n + 1)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, i: Any) -> Any:
        return [str(number) for number in self._numbers[i]] if isinstance(i, slice) else str(self._numbers[i])


def refuse_twins(source: str, names: Sequence[str]) -> None:
    """Raise a ValueError that names the first column name that is there twice."""
    seen: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if name in seen:
            raise ValueError(f"{source} has two columns called {name!r} ({seen[name]} and {place}): rename one of them")
        seen[name] = place


def refuse_unknown(source: str, names: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise a ValueError that names the wanted columns that are not there, with names that are near."""
    known = set(names)
    absent = [name for name in wanted if name not in known]
    if not absent:
        return
    near = get_close_matches(absent[0], names, 1)
    if len(absent) == 1:
        hint = f"did you mean {near[0]!r}?" if near else f"it has {_some(list(names))}"
        raise ValueError(f"{source} has no column {absent[0]!r}: {hint}")
    raise ValueError(f"{source} lacks {len(absent)} of {len(wanted)} columns: {_some(absent)}")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _reasons(left_out: dict[str, str]) -> str:
    return ": " + _some([f"{name} ({why})" for name, why in left_out.items()]) if left_out else ""
