"""Compiled loops over gaps: rows with missing values, given a component and a block (docs/adr/0014).

A tile of standardized rows comes in, with NaN in its gaps; the conditional means of the gaps go out in their place,
with what the gaps change in the density and in the scatter. Given the component, a gap concerns its own block only.

Within a block with precision P = Σ⁻¹, let d be x − μ with 0 in the gaps m. Then C = P_mm⁻¹ is the covariance of the
missing values given the others, −C (P d)_m their conditional mean, and log|Σ_oo| = log|Σ| + log|P_mm|.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

# Sums may be reordered and multiplications fused; infinities keep their meaning: log 0 is a log-weight.
compiled = njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})

_LOG_2PI = np.log(2 * np.pi)


@compiled
def workspace(largest: Any) -> Any:
    """Room for the gaps of one row in blocks of at most `largest` columns.

    Columns with gaps, C, factor and its inverse, x − μ, a column of regression coefficients, number of gaps and
    log|P_mm|.
    """
    square = np.empty((largest, largest))
    return (
        np.empty(largest, np.int64),
        square,
        np.empty_like(square),
        np.empty(largest),
        np.empty(largest),
        np.zeros(2),
    )


@compiled
def square(blocks: Any, whiteners: Any, inverses: Any, largest: Any) -> None:
    """Precisions P = WᵀW of the blocks of at most `largest` columns, flat, from their whiteners W."""
    for lo, hi, at in blocks:
        c = hi - lo
        if c > largest:
            continue
        for i in range(c):
            for j in range(i + 1):
                value = 0.0
                for k in range(i, c):
                    value += np.float64(whiteners[at + k * c + i]) * whiteners[at + k * c + j]
                inverses[at + i * c + j] = inverses[at + j * c + i] = value


@compiled
def load_blurs(rows: Any, rounding: Any, blurs: Any) -> None:
    """Write the variances Δ that rounding leaves of some rows to blurs (p, TILE), which is 0 elsewhere."""
    rounded, variances, codes = rounding
    for d in range(len(rounded)):
        for r in range(len(rows)):
            blurs[rounded[d], r] = variances[d, codes[rows[r], d]]


@compiled
def count_gaps(tile: Any, columns: Any, counts: Any) -> None:
    """Write the number of gaps of each row of a tile in some columns."""
    for r in range(len(counts)):
        counts[r] = 0
    for j in columns:
        for r in range(len(counts)):
            counts[r] += np.isnan(tile[j, r])


@compiled
def _fill(tile: Any, columns: Any, mean: Any, r: Any, k: Any, P: Any, work: Any) -> None:
    """Replace the k gaps of row r in the columns of a block by their conditional means."""
    missing, C, _, d, b, state = work
    c = len(columns)
    found, same = 0, state[0] == k
    for i in range(c):
        d[i] = tile[columns[i], r] - mean[columns[i]]
        if np.isnan(d[i]):
            same = same and missing[found] == i
            missing[found] = i
            found += 1
            d[i] = 0
    if not same:
        state[0], state[1] = k, _invert(P, c, k, work)
    for a in range(k):
        row, value = missing[a] * c, 0.0
        for j in range(c):
            value += P[row + j] * d[j]
        b[a] = value
    for a in range(k):
        value = 0.0
        for e in range(k):
            value += C[a, e] * b[e]
        j = columns[missing[a]]
        tile[j, r] = mean[j] - value


@compiled
def _invert(P: Any, c: Any, k: Any, work: Any) -> Any:
    """Write C = P_mm⁻¹ by Cholesky's factor; return log|P_mm|."""
    missing, C, L, _, _, _ = work
    logdet = 0.0
    for i in range(k):
        for j in range(i + 1):
            value = P[missing[i] * c + missing[j]]
            for e in range(j):
                value -= L[i, e] * L[j, e]
            L[i, j] = value / L[j, j] if j < i else np.sqrt(value)
        logdet += 2 * np.log(L[i, i])
    for j in range(k):  # the inverse factor, transposed, above the diagonal of L and on that of C
        C[j, j] = 1 / L[j, j]
        for i in range(j + 1, k):
            value = L[i, j] * C[j, j]
            for e in range(j + 1, i):
                value += L[i, e] * L[j, e]
            L[j, i] = -value / L[i, i]
    for j in range(k):
        L[j, j] = C[j, j]
    for i in range(k):
        for j in range(i + 1):
            value = 0.0
            for e in range(i, k):
                value += L[i, e] * L[j, e]
            C[i, j] = C[j, i] = value
    return logdet


@compiled
def _regress(i: Any, c: Any, k: Any, P: Any, work: Any) -> None:
    """Write by how much the conditional means of the gaps move with column i, −C P_mi, to the coefficients."""
    missing, C, _, _, b, _ = work
    for a in range(k):
        b[a] = 0
        for e in range(k):
            b[a] -= C[a, e] * P[missing[e] * c + i]


@compiled
def explain(tile: Any, blurs: Any, counts: Any, columns: Any, mean: Any, P: Any, work: Any, found: Any) -> None:
    """Fill the gaps of a tile in a block; correct the distances for rounding, and add what gaps gain in log-density.

    Per row the gain is ½ (k log 2π − log|P_mm|), and Δ_j counts by (Σ_oo⁻¹)_jj = P_jj − P_jm C P_mj.
    """
    distance, gain = found
    missing, _, _, _, b, state = work
    c = len(columns)
    state[0] = 0
    count_gaps(tile, columns, counts)
    for r in range(len(counts)):
        k = counts[r]
        if k == 0:
            continue
        _fill(tile, columns, mean, r, k, P, work)
        gain[r] += 0.5 * (k * _LOG_2PI - state[1])
        for i in range(c):
            blur = blurs[columns[i], r]
            if blur > 0:
                _regress(i, c, k, P, work)
                for a in range(k):
                    distance[r] += blur * b[a] * P[missing[a] * c + i]


@compiled
def complete(tile: Any, blurs: Any, counts: Any, columns: Any, mean: Any, P: Any, work: Any, sums: Any) -> None:
    """Fill the gaps of a tile in a block, and add Σ z C and what rounding leaves of the filled values to its scatter.

    `sums` are the weights z and zu of the rows (the scatter of t components is weighted by u, but C is not), and the
    flat block, of which the lower triangle counts.
    """
    certain, share, scatter = sums
    missing, C, _, _, b, state = work
    c = len(columns)
    state[0] = 0
    count_gaps(tile, columns, counts)
    for r in range(len(counts)):
        k = counts[r]
        if k == 0:
            continue
        _fill(tile, columns, mean, r, k, P, work)
        for a in range(k):
            for e in range(a + 1):
                scatter[missing[a] * c + missing[e]] += certain[r] * C[a, e]
        for i in range(c):
            blur = share[r] * blurs[columns[i], r]
            if blur > 0:
                _regress(i, c, k, P, work)
                for a in range(k):
                    scatter[max(missing[a], i) * c + min(missing[a], i)] += blur * b[a]
                    for e in range(a + 1):
                        scatter[missing[a] * c + missing[e]] += blur * b[a] * b[e]
