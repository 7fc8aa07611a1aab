"""Pixels: matrices quantized to 8 bits and encoded as base64 text, for the page to draw."""

from __future__ import annotations

from base64 import b64encode

import numpy as np

from blockmix.structure.types import FloatArray

LEVELS = 127  # bytes 0 … 254 are −limit … limit; 127 is exactly zero


def encoded(values: FloatArray, limit: float = 1.0) -> str:
    """One byte per value, row by row: round(127 · value / limit) + 127, clipped at ± limit."""
    levels = np.rint(np.clip(values / limit, -1, 1) * LEVELS) + LEVELS
    return b64encode(levels.astype(np.uint8).tobytes()).decode("ascii")


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
