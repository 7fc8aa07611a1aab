"""Pixels: matrices as bytes that a page can draw, reduced to what a screen can show.

Matrices of numbers in a known range come in; block averages, quantized to 8 bits, go out as base64 text.
"""

from __future__ import annotations

from base64 import b64encode

import numpy as np

from blockmix._types import FloatArray, IntArray

LEVELS = 127  # bytes 0 … 254 stand for −limit … limit, and 127 for zero exactly


def encoded(values: FloatArray, limit: float = 1.0) -> str:
    """Values as one byte each, row by row: round(127 value / limit) + 127, beyond the limit as at the limit."""
    levels = np.rint(np.clip(values / limit, -1, 1) * LEVELS) + LEVELS
    return b64encode(levels.astype(np.uint8).tobytes()).decode("ascii")


def bins(n: int, most: int) -> IntArray:
    """Where each of at most `most` even bins of n items begins, and n itself at the end."""
    count = min(n, most)
    return np.arange(count + 1) * n // count


def averaged(values: FloatArray, starts: IntArray, axis: int) -> FloatArray:
    """Means over the bins along an axis."""
    if len(starts) - 1 == values.shape[axis]:
        return values
    shape = [1, 1]
    shape[axis] = -1
    sums = np.add.reduceat(values, starts[:-1], axis=axis, dtype=float)
    return np.asarray(sums / np.diff(starts).reshape(shape))


def row_bins(sizes: IntArray, most: int) -> IntArray:
    """Bins of rows that stand cluster by cluster, about `most` in all: no bin holds rows of two clusters."""
    starts, first = [0], 0
    total = int(sizes.sum())
    for size in sizes[sizes > 0].tolist():
        share = max(1, most * size // total)
        starts += (first + bins(size, share)[1:]).tolist()
        first += size
    return np.array(starts)


def two_triangles(upper: FloatArray | None, lower: FloatArray) -> FloatArray:
    """Two symmetric matrices in one, shape (m, m + 1): the first right of the step diagonal, the second left of it.

    Entry (i, j) of the first is at (i, j + 1) for i ≤ j, that of the second at (i, j) for i ≥ j.
    """
    m = len(lower)
    both = np.zeros((m, m + 1))
    both[:, :m] = np.tril(lower)
    if upper is not None:
        both[:, 1:] += np.triu(upper)
    return both
