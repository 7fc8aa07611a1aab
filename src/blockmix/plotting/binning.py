"""Binning: large matrices averaged to as many cells as a picture can show.

Bins are given by where each begins, with the end of the last appended, shape (bins + 1,).
"""

from __future__ import annotations

import numpy as np

from blockmix.partition import FloatArray, IntArray


def bins(n: int, most: int) -> IntArray:
    """At most `most` bins of n items, as even as possible.

    Examples
    --------
    >>> bins(10, 3)
    array([ 0,  3,  6, 10])
    """
    count = min(n, most)
    return np.arange(count + 1) * n // count


def cluster_bins(sizes: IntArray, most: int) -> IntArray:
    """About `most` bins of rows sorted by cluster; no bin spans two clusters.

    Examples
    --------
    >>> cluster_bins(np.array([0, 1, 9]), 4)
    array([ 0,  1,  4,  7, 10])
    """
    starts, first = [0], 0
    total = int(sizes.sum())
    for size in sizes[sizes > 0].tolist():
        starts += (first + bins(size, max(1, most * size // total))[1:]).tolist()
        first += size
    return np.array(starts)


def binned(values: FloatArray, row_bins: IntArray, column_bins: IntArray) -> FloatArray:
    """Means of a matrix over its bins, shape (row bins, column bins); NaN where a bin has nothing but NaN."""
    there = ~np.isnan(values)
    if not there.all():
        sums, counts = (
            binned(part, row_bins, column_bins) for part in (np.where(there, values, 0), there.astype(float))
        )
        return np.where(counts > 0, sums / np.where(counts > 0, counts, 1), np.nan)
    for axis, starts in enumerate((row_bins, column_bins)):
        if len(starts) - 1 < values.shape[axis]:
            sizes = np.expand_dims(np.diff(starts), 1 - axis)
            values = np.add.reduceat(values, starts[:-1], axis=axis, dtype=float) / sizes
    return values
