"""Resolution: how finely the values of each column were recorded.

Rows come in; a variance for every value that is recorded more than once goes out. A value that k rows share is known
only to within its neighbourhood: an interval as wide as the distance to the k-th value below or above it, whichever is
nearer. Steps of 0.1 give 0.1, a 0/1 column gives 1, and zeros that are half of a column give the spread of the other
half. An interval of width δ leaves a variance of δ²/12; a mixture must not explain the value more sharply than that.
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
        Repeated values, ascending within a column, and δ²/12.
    """

    columns: IntArray
    first: IntArray
    values: FloatArray
    variances: FloatArray

    @classmethod
    def of(cls, X: FloatArray, weights: FloatArray) -> Resolution:
        """Resolution of rows X, shape (N, p); a weight of 2 counts a row twice. Looks at some 2000 rows of many."""
        counted = np.flatnonzero(weights > 0)
        some = counted[:: -(-len(counted) // _ROWS)]
        X, weights = X[some].astype(float), weights[some]
        ordered = np.sort(X, axis=0)
        candidates = (ordered[1:] == ordered[:-1]).any(axis=0) | (weights >= 2).any()
        columns, first = list[int](), [0]
        values: list[FloatArray] = [np.empty(0)]
        variances: list[FloatArray] = [np.empty(0)]
        for j in np.flatnonzero(candidates).tolist():
            repeated, width = _widths(X[:, j], weights)
            if len(repeated):
                columns.append(j)
                first.append(first[-1] + len(repeated))
                values.append(repeated)
                variances.append(width**2 / 12)
        return cls(np.array(columns, dtype=np.intp), np.array(first), np.concatenate(values), np.concatenate(variances))

    def codes(self, X: FloatArray) -> NDArray[np.uint16]:
        """For each value of the columns of X, shape (m, p), its number among the repeated ones or 0, shape (m, D)."""
        codes = np.zeros((len(X), len(self.columns)), dtype=np.uint16)
        for d, j in enumerate(self.columns.tolist()):
            known = self.values[self.first[d] : self.first[d + 1]]
            at = np.minimum(np.searchsorted(known, X[:, j]), len(known) - 1)
            codes[:, d] = np.where(known[at] == X[:, j], at + 1, 0)
        return codes

    def table(self, scale: FloatArray) -> FloatArray:
        """Variances by code, of columns divided by scale (p,); shape (D, largest code + 1)."""
        sizes = np.diff(self.first)
        table = np.zeros((len(self.columns), int(sizes.max(initial=0)) + 1))
        at = np.arange(len(self.values)) - np.repeat(self.first[:-1], sizes) + 1
        column = np.repeat(np.arange(len(sizes)), sizes)
        table[column, at] = self.variances / scale[self.columns[column]] ** 2
        return table


def _widths(x: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Repeated values of a column and the width of the interval of each; none if the column has too many values."""
    there = ~np.isnan(x)
    x, weights = x[there], weights[there]
    values, place = np.unique(x, return_inverse=True)
    mass = np.bincount(place, weights)
    upper = np.cumsum(mass)
    lower = upper - mass
    last = len(values) - 1
    # The values that hold the k-th unit of weight below and above, or the outermost ones where there are fewer.
    below = np.minimum(np.searchsorted(upper, np.maximum(lower - mass, 0), side="right"), last)
    above = np.minimum(np.searchsorted(upper, upper + mass, side="left"), last)
    left = np.where(below < np.arange(len(values)), values - values[below], np.inf)
    right = np.where(above > np.arange(len(values)), values[above] - values, np.inf)
    repeated = (mass >= 2) & (len(values) > 1)
    if np.count_nonzero(repeated) > _MOST_VALUES:
        return np.empty(0), np.empty(0)
    return values[repeated], np.minimum(left, right)[repeated]


EXACT = Resolution(np.empty(0, dtype=np.intp), np.zeros(1, dtype=np.intp), np.empty(0), np.empty(0))  # no repeats
