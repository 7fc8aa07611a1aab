"""Pixels: matrices as bytes that a page can draw.

Matrices of numbers in a known range come in; they go out quantized to 8 bits, as base64 text.
"""

from __future__ import annotations

from base64 import b64encode

import numpy as np

from blockmix.structure.types import FloatArray

LEVELS = 127  # bytes 0 … 254 stand for −limit … limit, and 127 for zero exactly


def encoded(values: FloatArray, limit: float = 1.0) -> str:
    """Values as one byte each, row by row: round(127 value / limit) + 127, beyond the limit as at the limit."""
    levels = np.rint(np.clip(values / limit, -1, 1) * LEVELS) + LEVELS
    return b64encode(levels.astype(np.uint8).tobytes()).decode("ascii")


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
