"""Compiled loops over the rows of a chunk."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(nogil=True, cache=True, fastmath={"contract"})
def deviations(X: Any, weights: Any, shift: Any, offset: Any, squares: Any) -> None:
    """Add Σw(x − shift) to offset and Σw(x − shift)² to squares, shape (p,), in double precision."""
    for i in range(len(X)):
        w = weights[i]
        for j in range(len(shift)):
            d = X[i, j] - shift[j]
            offset[j] += w * d
            squares[j] += w * d * d


@njit(nogil=True, cache=True)
def repeated_values(ordered: Any, weights: Any, most: int) -> Any:
    """Values of each sorted column (n, p) whose weight is 2 or more, and the width of the interval of each.

    Where they hold more than half of the weight the column is recorded in steps, and its other values are listed too,
    with the smallest step as their width. Column j has the values ``first[j]`` to ``first[j + 1]``; none if they are
    more than `most` or its only value. NaN comes last in a column and is not a value. The weights (n, p) are sorted
    likewise.
    """
    n, p = ordered.shape
    first, values, widths = np.zeros(p + 1, np.int64), np.empty(n * p), np.empty(n * p)
    value, mass, upper = np.empty(n), np.empty(n), np.empty(n)
    for j in range(p):
        d, total = 0, 0.0
        for i in range(n):
            x = ordered[i, j]
            if np.isnan(x):
                break
            if d == 0 or x != value[d - 1]:
                value[d], mass[d] = x, 0.0
                d += 1
            mass[d - 1] += weights[i, j]
        repeated, step = 0.0, np.inf
        for k in range(d):
            total += mass[k]
            upper[k] = total
            repeated += mass[k] if mass[k] >= 2 else 0.0
            step = min(step, value[k] - value[k - 1]) if k > 0 else step
        stop = first[j]
        for k in range(d if d > 1 else 0):
            if mass[k] >= 2:
                # The values that hold the k-th unit of weight below and above, or the outermost ones.
                below, above = k, k
                while below > 0 and upper[below - 1] > max(upper[k] - mass[k] - mass[k], 0.0):
                    below -= 1
                while above < d - 1 and upper[above] < upper[k] + mass[k]:
                    above += 1
                left = value[k] - value[below] if below < k else np.inf
                right = value[above] - value[k] if above > k else np.inf
                values[stop], widths[stop] = value[k], min(left, right)
                stop += 1
            elif 2 * repeated > total:
                values[stop], widths[stop] = value[k], step
                stop += 1
        first[j + 1] = stop if stop - first[j] <= most else first[j]
    return first, values[: first[p]], widths[: first[p]]


@njit(nogil=True, cache=True)
def value_codes(X: Any, columns: Any, first: Any, values: Any, codes: Any) -> None:
    """Write the number, from 1 on, of each value of some columns of X among the known ones to codes, or 0."""
    for r in range(len(X)):
        for d in range(len(columns)):
            x, lo, hi = X[r, columns[d]], first[d], first[d + 1]
            while lo < hi:
                middle = (lo + hi) // 2
                if values[middle] < x:
                    lo = middle + 1
                else:
                    hi = middle
            known = lo < first[d + 1] and values[lo] == x
            codes[r, d] = lo - first[d] + 1 if known else 0
