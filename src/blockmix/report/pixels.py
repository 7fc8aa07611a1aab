"""Pixels: matrices quantized to 8 or 16 bits and encoded as base64 text, for the page to draw."""

from __future__ import annotations

from base64 import b64encode

import numpy as np

from blockmix.partition import FloatArray

LEVELS = 127  # bytes 0 … 254 are −limit … limit; 127 is exactly zero
MISSING = 255  # the byte of a value that is not there


def encoded(values: FloatArray, limit: float = 1.0) -> str:
    """One byte per value, row by row: round(127 · value / limit) + 127, clipped at ± limit; NaN is `MISSING`."""
    levels = np.rint(np.clip(values / limit, -1, 1) * LEVELS) + LEVELS
    return b64encode(np.where(np.isnan(levels), MISSING, levels).astype(np.uint8).tobytes()).decode("ascii")


def fractions(values: FloatArray) -> str:
    """Numbers from 0 to 1 as 16 bits each, little-endian: round(65535 · value)."""
    return b64encode(np.rint(np.clip(values, 0, 1) * 65535).astype("<u2").tobytes()).decode("ascii")


def triangle(matrix: FloatArray) -> FloatArray:
    """Lower triangle of a symmetric matrix, row by row: entry (i, j) is at i (i + 1) / 2 + j."""
    return np.asarray(matrix[np.tril_indices(len(matrix))])


def two_triangles(upper: FloatArray | None, lower: FloatArray) -> FloatArray:
    """Two symmetric matrices in one array of shape (m, m + 1).

    Entry (i, j) of `upper` is at (i, j + 1) for i ≤ j, entry (i, j) of `lower` at (i, j) for i ≥ j.
    """
    m = len(lower)
    both = np.zeros((m, m + 1))
    both[:, :m] = np.tril(lower)
    if upper is not None:
        both[:, 1:] += np.triu(upper)
    return both
