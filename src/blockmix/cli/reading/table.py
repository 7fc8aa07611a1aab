"""The table that was read: numeric columns, row names and what was left out.

Its checks either return a table that can be fitted or raise one sentence that names the columns or rows in the way and
the remedy.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from blockmix.partition import FloatArray, IntArray
from blockmix.rows.files import needed

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
        Missing values are NaN. A large table has `FileRows` instead.
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
    values: Any
    row_names: Sequence[object]
    texts: dict[str, list[str | None]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    named: bool = True
    named_by: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """N and p."""
        return len(self.row_names), len(self.names)

    def matrix(self) -> Any:
        """The numbers for an estimator; a data frame if columns have names or are left out, which a model remembers."""
        if not self._has_names():
            return self.values
        return needed("pandas", "app").DataFrame(self.values, columns=list(self.names), copy=False)

    def _has_names(self) -> bool:
        return self.named or self.names != tuple(f"x{j}" for j in range(len(self.names)))

    def scaling(self) -> dict[str, FloatArray]:
        """Mean and deviation of each column."""
        largest = np.maximum(np.nanmax(self.values, axis=0), -np.nanmin(self.values, axis=0))
        unit = self.values / largest  # so that squares do not overflow
        return {"location": np.nanmean(unit, axis=0) * largest, "scale": np.nanstd(unit, axis=0) * largest}

    def scaled(self, location: FloatArray, scale: FloatArray) -> InputTable:
        """The table with values (x − location) / scale, in place to save memory."""
        values = self.values
        values -= location
        values /= scale
        return self

    def sample(self, most: int) -> InputTable:
        """At most `most` of the rows of a large table; all rows of one in memory."""
        return self

    def worst(self, counts: IntArray) -> str:
        """The columns with the most of something, such as missing cells."""
        order = sorted(np.flatnonzero(counts), key=lambda j: -counts[j])
        return shortened([f"{self.names[j]} ({counts[j]})" for j in order])

    def missing(self) -> dict[str, int]:
        """Number of missing cells by column, of columns that have any."""
        return self._by_name(np.isnan(self.values).sum(axis=0))

    def _by_name(self, counts: IntArray) -> dict[str, int]:
        return {name: n for name, n in zip(self.names, counts.tolist(), strict=True) if n}

    def _gaps(self, counts: IntArray) -> str:
        """How many cells are missing, and in which columns most."""
        n, (N, p) = int(counts.sum()), self.shape
        return f"{n} of {N * p} cells ({n / (N * p):.1%}) are missing: {self.worst(counts)}"

    def _check_columns(self) -> None:
        if not self.names:
            reasons = [f"{name} ({why})" for name, why in self.left_out.items()]
            raise ValueError(f"{self.source} has no numeric column" + (f": {shortened(reasons)}" if reasons else ""))

    def varying(self) -> InputTable:
        """The table without constant columns.

        Raises
        ------
        ValueError
            There is nothing left to fit.
        """
        self._check_columns()
        if len(self.values) == 1:
            raise ValueError(f"{self.source} has only one row: at least two are needed")
        gaps = np.isnan(self.values)
        first = self.values[np.argmin(gaps, axis=0), np.arange(len(self.names))]
        varies = ((self.values != first) & ~gaps).any(axis=0)
        if not varies.any():
            raise ValueError(f"{self.source} has {len(self.values)} rows but no numeric column that varies")
        if varies.all():
            return self
        pairs = zip(self.names, varies.tolist(), np.isnan(first).tolist(), strict=True)
        left_out = {name: "empty" if empty else "constant" for name, kept, empty in pairs if not kept}
        names = tuple(name for name in self.names if name not in left_out)
        return replace(self, names=names, values=self.values[:, varies], left_out=self.left_out | left_out)

    def most_varying(self, n: int) -> InputTable:
        """The table with only the `n` columns of largest variance."""
        p = len(self.names)
        if n >= p:
            return self
        with np.errstate(over="ignore"):  # an infinite variance is among the largest
            variances = np.concatenate([np.nanvar(self.values[:, j : j + 1000], axis=0) for j in range(0, p, 1000)])
        kept = np.sort(np.argsort(-variances, kind="stable")[:n])
        names = tuple(self.names[j] for j in kept)
        notes = (*self.notes, f"kept the {n} of {p} columns with the largest variance")
        return replace(self, names=names, values=self.values[:, kept], notes=notes)

    def complete(self, drop: bool, gaps: bool = False) -> InputTable:
        """The table if all its numbers are finite, or missing and there may be gaps.

        With `drop`, without the rows that have others.
        """
        finite = np.isfinite(self.values)
        whole = np.asarray(finite.all(axis=1))
        if whole.all():
            return self
        counts = len(finite) - np.count_nonzero(finite, axis=0)
        infinite = np.isinf(self.values)
        kind = "infinite" if infinite.any() else "missing"
        if gaps and not drop and kind == "missing":
            blank = int((~finite.any(axis=1)).sum())
            note = f"; {blank} row{' has' if blank == 1 else 's have'} no values" if blank else ""
            return replace(self, notes=(*self.notes, self._gaps(counts) + note))
        if gaps and not drop:  # only these must go
            counts, whole = np.count_nonzero(infinite, axis=0), ~infinite.any(axis=1)
        columns = self.worst(counts)
        lost = int(len(whole) - whole.sum())
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


def check_unique(source: str, names: Sequence[str], dropped: Sequence[str] = ()) -> None:
    """Raise a ValueError that lists the names that several columns have, except those that are dropped."""
    places: dict[str, list[str]] = {}
    for place, name in enumerate(names, start=1):
        places.setdefault(name, []).append(str(place))
    repeated = [name for name in places if len(places[name]) > 1 and name not in dropped]
    if repeated:
        listed = shortened([f"{name} ({', '.join(places[name])})" for name in repeated])
        raise ValueError(
            f"{source} has columns of the same name: {listed}; rename them, or leave them out with --drop "
            f"{shlex.quote(repeated[0])}"
        )


def check_present(source: str, names: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise a ValueError that names the wanted columns that are not there, with similar names."""
    known = set(names)
    absent = [name for name in wanted if name not in known]
    if not absent:
        return
    folded = {name.casefold(): name for name in names}
    near = {name: get_close_matches(name.casefold(), folded, 1) for name in absent[:_SHOWN]}
    hints = {name: f"did you mean {folded[found[0]]!r}?" for name, found in near.items() if found}
    if len(absent) == 1:
        hint = hints.get(absent[0], f"it has {shortened(list(names))}")
        raise ValueError(f"{source} has no column {absent[0]!r}: {hint}")
    listed = [f"{name} ({hints[name]})" if name in hints else name for name in absent]
    raise ValueError(f"{source} lacks {len(absent)} of {len(wanted)} columns: {shortened(listed)}")


def shortened(names: list[str], shown: int = _SHOWN) -> str:
    """The first names of a list, and how many more there are.

    Examples
    --------
    >>> shortened(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
