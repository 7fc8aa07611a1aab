"""Resolution: how finely the values of each column were recorded.

Rows come in; a variance for every value that is recorded more than once goes out. A value that k rows share is known
only to within its neighbourhood: an interval as wide as the distance to the k-th value below or above it, whichever is
nearer. Steps of 0.1 give 0.1, a 0/1 column gives 1, and zeros that are half of a column give the spread of the other
half. A value that occurs once is exact, unless more than half of the values of its column are repeated: then it is
known to within the smallest step of the column. An interval of width δ leaves a variance of δ²/12; a mixture must not
explain the value more sharply than that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockmix.structure.types import FloatArray, IntArray

_ROWS = 2048  # rows that are looked at: sorting 200 columns of them takes 20 ms
_MOST_VALUES = 2**16 - 1  # codes have two bytes


@dataclass(frozen=True, eq=False)
class Resolution:
    """Repeated values and their variances.

    Attributes
    ----------
    columns : array of shape (D,)
        Columns with repeated values.
    first : array of shape (D + 1,)
        Where the values of each of them start.
    values, variances : flat arrays
        Values that are not exact, ascending within a column, and δ²/12.
    """

    columns: IntArray
    first: IntArray
    values: FloatArray
    variances: FloatArray

    @classmethod
    def of(cls, X: FloatArray, weights: FloatArray) -> Resolution:
        """Resolution of rows X, shape (N, p); a weight of 2 counts a row twice. Looks at some 2000 rows of many."""
        from blockmix.rows.kernels import repeated_values

        counted = np.flatnonzero(weights > 0)
        some = counted[:: -(-len(counted) // _ROWS)]
        X, weights = X[some].astype(float), weights[some]
        if (weights == 1).all():
            ordered, counts = np.sort(X, axis=0), np.ones(X.shape)
        else:
            order = np.argsort(X, axis=0, kind="stable")
            ordered, counts = np.take_along_axis(X, order, axis=0), weights[order].astype(float)
        first, values, widths = repeated_values(ordered, counts, _MOST_VALUES)
        columns = np.flatnonzero(np.diff(first))
        return cls(columns, np.append(first[columns], len(values)), values, widths**2 / 12)

    def codes(self, X: FloatArray) -> NDArray[np.uint16]:
        """For each value of the columns of X, shape (m, p), its number among the repeated ones or 0, shape (m, D)."""
        from blockmix.rows.kernels import value_codes

        codes = np.zeros((len(X), len(self.columns)), dtype=np.uint16)
        if len(self.columns):
            value_codes(X, self.columns, self.first, self.values, codes)
        return codes

    def table(self, scale: FloatArray) -> FloatArray:
        """Variances by code, of columns divided by scale (p,); shape (D, largest code + 1)."""
        sizes = np.diff(self.first)
        table = np.zeros((len(self.columns), int(sizes.max(initial=0)) + 1))
        at = np.arange(len(self.values)) - np.repeat(self.first[:-1], sizes) + 1
        column = np.repeat(np.arange(len(sizes)), sizes)
        table[column, at] = self.variances / scale[self.columns[column]] ** 2
        return table


EXACT = Resolution(np.empty(0, dtype=np.intp), np.zeros(1, dtype=np.intp), np.empty(0), np.empty(0))  # no repeats
