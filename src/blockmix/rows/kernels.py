"""Compiled loops over the rows of a chunk."""

from __future__ import annotations

from typing import Any

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
