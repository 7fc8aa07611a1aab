"""The table that was read: numeric columns, row names and what was left out.

Its checks either return a table that can be fitted or raise one sentence that names the columns or rows in the way and
the remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

import numpy as np

from blockmix.structure.types import FloatArray

_SHOWN = 5  # names in a message


@dataclass(frozen=True, eq=False)
class InputTable:
    """Numeric columns by name, and the rest of a file.

    Attributes
    ----------
    source : str
        The file, for messages.
    names : tuple of p str
    values : array of shape (N, p)
        Missing values are NaN.
    row_names : sequence of N str or int
        The numbers 1, 2, … if the file has no row names.
    texts : dict of N texts by column
        The columns requested as text, None where a cell is empty.
    left_out : dict of reason by column
        Columns that are not numeric, empty or constant, including the one that names the rows.
    named : bool
        Whether the file has column names.
    named_by : str or None
        The column that names the rows.
    notes : tuple of str
        Decisions of the reader that the user should know.
    """

    source: str
    names: tuple[str, ...]
    values: FloatArray
    row_names: Sequence[object]
    texts: dict[str, list[str | None]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    named: bool = True
    named_by: str | None = None
    notes: tuple[str, ...] = ()

    def varying(self) -> InputTable:
        """The table without constant columns.

        Raises
        ------
        ValueError
            There is nothing left to fit.
        """
        if not self.names:
            reasons = [f"{name} ({why})" for name, why in self.left_out.items()]
            raise ValueError(f"{self.source} has no numeric column" + (f": {shortened(reasons)}" if reasons else ""))
        if len(self.values) == 1:
            raise ValueError(f"{self.source} has only one row: at least two are needed")
        varies = (self.values != self.values[0]).any(axis=0)
        if not varies.any():
            raise ValueError(f"{self.source} has {len(self.values)} rows but no numeric column that varies")
        if varies.all():
            return self
        constant = {name: "constant" for name, kept in zip(self.names, varies, strict=True) if not kept}
        names = tuple(name for name in self.names if name not in constant)
        return replace(self, names=names, values=self.values[:, varies], left_out=self.left_out | constant)

    def complete(self, drop: bool) -> InputTable:
        """The table if all its numbers are finite; with `drop`, without the rows that have others."""
        finite = np.isfinite(self.values)
        whole = np.asarray(finite.all(axis=1))
        if whole.all():
            return self
        counts = len(finite) - np.count_nonzero(finite, axis=0)
        worst = sorted(np.flatnonzero(counts), key=lambda j: -counts[j])
        columns = shortened([f"{self.names[j]} ({counts[j]})" for j in worst])
        lost = int(len(whole) - whole.sum())
        kind = "infinite" if np.isinf(self.values).any() else "missing"
        if not drop:
            raise ValueError(
                f"{self.source} has {kind} values in {lost} of {len(whole)} rows: {columns}; replace them, leave out "
                "those rows with --drop-missing, or a column with --drop NAME"
            )
        if lost == len(whole):
            raise ValueError(
                f"{self.source} has {kind} values in all rows, so --drop-missing leaves none: drop a column ({columns})"
            )
        kept = self.rows(np.flatnonzero(whole).tolist())
        return replace(kept, notes=(*self.notes, f"left out {lost} of {len(whole)} rows with {kind} values"))

    def rows(self, places: list[int]) -> InputTable:
        """The table with only the rows at these places."""
        return replace(
            self,
            values=self.values[places],
            row_names=[self.row_names[i] for i in places],
            texts={name: [column[i] for i in places] for name, column in self.texts.items()},
        )


def check_unique(source: str, names: Sequence[str]) -> None:
    """Raise a ValueError if two columns have the same name."""
    seen: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if name in seen:
            raise ValueError(f"{source} has two columns called {name!r} ({seen[name]} and {place}): rename one of them")
        seen[name] = place


def check_present(source: str, names: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise a ValueError that names the wanted columns that are not there, with similar names."""
    known = set(names)
    absent = [name for name in wanted if name not in known]
    if not absent:
        return
    near = get_close_matches(absent[0], names, 1)
    if len(absent) == 1:
        hint = f"did you mean {near[0]!r}?" if near else f"it has {shortened(list(names))}"
        raise ValueError(f"{source} has no column {absent[0]!r}: {hint}")
    raise ValueError(f"{source} lacks {len(absent)} of {len(wanted)} columns: {shortened(absent)}")


def shortened(names: list[str], shown: int = _SHOWN) -> str:
    """The first names of a list, and how many more there are.

    Examples
    --------
    >>> shortened(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
