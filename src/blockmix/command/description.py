"""Description: what one pass over a table finds in its columns: ids, and numbers that may mean a missing value.

Blocks of rows come in, so a table need not be in memory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from blockmix.partition import BoolArray, FloatArray, IntArray

_ID = re.compile(
    r"(?i:(.*[\W_])?(id|ids|uid|uuid|idx|index|key|no|nr|barcode|rownames?)\W*|(.*[\W_])?(sample|patient|subject|participant|"
    r"person|respondent|donor|specimen|customer|client|user|student|case|record|row|obs|observation)s?"
    r"[\W_]?(id|idx|no|nr|num|number|name|code|key)?\W*)|.*[a-z]I[Dd]"
)
_CHANCE = 10_000  # one in so many tables may have a column of data that is sorted by chance
# Numbers that often mean a missing value; the small ones are frequent as numbers.
_SMALL = (-1, -9)
_CODES = (*_SMALL, -99, -999, -9999, 999, 9999, 99999)


@dataclass(frozen=True, eq=False)
class Description:
    """What one pass finds in N rows and p columns.

    Attributes
    ----------
    missing, infinite : arrays of shape (p,)
        Number of such cells.
    varies, whole, ascends : arrays of shape (p,)
        Whether a column has different values, only whole numbers, and values that each exceed the last.
    codes : array of shape (p, n)
        Number of cells with each of `_CODES`.
    low, high : arrays of shape (p,)
        Limits of all other cells.
    row_missing, row_infinite : arrays of shape (N,)
        Number of such cells.
    """

    missing: IntArray
    infinite: IntArray
    varies: BoolArray
    whole: BoolArray
    ascends: BoolArray
    codes: IntArray
    low: FloatArray
    high: FloatArray
    row_missing: Any
    row_infinite: Any

    def ids(self, names: Sequence[str], may_count: bool, column: Callable[[int], FloatArray]) -> BoolArray:
        """Which columns hold whole numbers that all differ, and ascend (not by chance) or are named like ids.

        `may_count` is whether 1, 2, 3, … in the first place are ids even of few rows; `column` returns a column.
        """
        N, p = len(self.row_missing), len(names)
        numbers = self.whole & (self.missing + self.infinite == 0)
        ids: BoolArray = numbers & self.ascends & (math.lgamma(N + 1) > math.log(_CHANCE * p))
        for j in np.flatnonzero(numbers & ~ids & (N > 2)).tolist():
            named = _ID.fullmatch(names[j]) is not None
            if named or (may_count and j == 0 and self.ascends[0]):
                values = column(j)
                ids[j] = len(np.unique(values)) == N and (named or np.ptp(values) == N - 1)
        return ids

    def suspicious(self) -> Iterator[tuple[int, IntArray]]:
        """Numbers that seem to mean a missing value, and in how many cells of each column, shape (p,).

        They lie apart from all other values of a column and are in several cells, the small ones in several columns.
        """
        for code, counts in zip(_CODES, self.codes.T, strict=True):
            apart = self.low > code / 2 if code < 0 else self.high < code / 2
            if code in _SMALL:  # -1 beside 0 and 1 may be an answer
                apart = (self.low >= 0) & ((self.high > 1) | ~self.whole)
            counts = np.where(apart, counts, 0)
            if np.count_nonzero(counts) > 1 or (code not in _SMALL and counts.sum() > 1):
                yield code, counts


def describe(blocks: Iterable[FloatArray], n_rows: int, n_columns: int) -> Description:
    """Describe the columns of a table that is given some rows at a time."""
    p = n_columns
    missing, infinite, varies = np.zeros(p, dtype=int), np.zeros(p, dtype=int), np.zeros(p, dtype=bool)
    whole, ascends, codes = np.ones(p, dtype=bool), np.ones(p, dtype=bool), np.zeros((p, len(_CODES)), dtype=int)
    first, last, low, high = (np.full(p, value) for value in (np.nan, -np.inf, np.inf, -np.inf))
    row_missing, row_infinite, start = np.zeros(n_rows, dtype=np.int32), np.zeros(n_rows, dtype=np.int32), 0
    for values in blocks:
        rows = slice(start, start + len(values))
        absent, unbounded = np.isnan(values), np.isinf(values)
        missing += absent.sum(axis=0)
        infinite += unbounded.sum(axis=0)
        row_missing[rows], row_infinite[rows] = absent.sum(axis=1), unbounded.sum(axis=1)
        first = np.where(np.isnan(first), values[np.argmax(~absent, axis=0), np.arange(p)], first)
        varies |= ((values != first) & ~absent).any(axis=0)
        whole &= ((values == np.trunc(values)) | absent).all(axis=0)
        ascends &= (values[0] > last) & (values[1:] > values[:-1]).all(axis=0)
        last, start, other = values[-1], rows.stop, ~absent
        for k, code in enumerate(_CODES):
            codes[:, k] += (equal := values == code).sum(axis=0)
            other &= ~equal
        low = np.minimum(low, values.min(axis=0, where=other, initial=np.inf))
        high = np.maximum(high, values.max(axis=0, where=other, initial=-np.inf))
    return Description(missing, infinite, varies, whole, ascends, codes, low, high, row_missing, row_infinite)


def floats(values: Any) -> Any:
    """Numbers in floating point; single precision stays."""
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def without(values: FloatArray, numbers: Sequence[float]) -> FloatArray:
    """The values with NaN in place of some numbers, changed in place."""
    for number in numbers:
        values[values == values.dtype.type(number)] = np.nan
    return values
