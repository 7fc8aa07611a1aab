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

LOG_2PI = np.log(2 * np.pi)
_PIVOT = 1e-14  # least pivot of P_mm over its diagonal
TILE = 64  # rows: a block of 10 columns then fits in the first-level cache


@compiled
def largest(blocks: Any) -> Any:
    """Number of columns of the largest block."""
    most = 0
    for b in range(len(blocks)):
        most = max(most, blocks[b, 1] - blocks[b, 0])
    return most


@compiled
def workspace(centered: Any) -> Any:
    """Room for blocks of at most c columns: for a tile, and for one row of it; centered (c, TILE) is used for x − μ.

    For the tile: x − μ, gaps of each row and the sum of their places. For the row: columns with gaps, C, factor and its
    inverse, x − μ, coefficients, number of gaps and log|P_mm|.
    """
    c = len(centered)
    tile = centered, np.empty(TILE), np.empty(TILE)
    row = np.empty(c, np.int64), np.empty((c, c)), np.empty((c, c)), np.empty(c), np.empty(c), np.zeros(2)
    return tile, row


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
def single_gains(first: Any, blocks: Any, inverses: Any, gains: Any) -> None:
    """Write ½ (log 2π − log P_jj), what the only gap of a row in a block gains in log-density, in order, (G, p)."""
    for g in range(len(gains)):
        for lo, hi, at in blocks[first[g] : first[g + 1]]:
            for i in range(hi - lo):
                gains[g, lo + i] = 0.5 * (LOG_2PI - np.log(inverses[at + i * (hi - lo + 1)]))


@compiled
def load_blurs(rows: Any, rounding: Any, blurs: Any) -> None:
    """Write the variances Δ that rounding leaves of some rows to blurs (p, TILE), which is 0 elsewhere."""
    rounded, variances, codes = rounding
    for d in range(len(rounded)):
        for r in range(len(rows)):
            blurs[rounded[d], r] = variances[d, codes[rows[r], d]]


@compiled
def _center(tile: Any, n: Any, columns: Any, mean: Any, room: Any) -> None:
    """Write x − μ of n rows in some columns, 0 in gaps, and count the gaps of each row and add up their places."""
    centered, counts, places = room
    for r in range(n):
        counts[r] = places[r] = 0
    for i in range(len(columns)):
        j = columns[i]
        m, place = mean[j], float(i)
        for r in range(n):
            x = tile[j, r]
            counts[r] += 0.0 if x == x else 1.0
            places[r] += 0.0 if x == x else place
            centered[i, r] = x - m if x == x else 0.0


@compiled
def _fill_single(r: Any, i: Any, P: Any, c: Any, centered: Any) -> Any:
    """Replace the only gap of row r in a block, column i, by its conditional mean, less the mean; return C.

    This is the common case.
    """
    value = 0.0
    for j in range(c):
        value += P[i * c + j] * centered[j, r]
    C = 1 / P[i * c + i]
    centered[i, r] = -value * C
    return C


@compiled
def _fill(r: Any, tile: Any, columns: Any, P: Any, centered: Any, work: Any) -> Any:
    """Replace the gaps of row r in a block by their conditional means, less the mean; return their number."""
    missing, C, _, d, b, state = work
    c, k, same = len(columns), 0, True
    for i in range(c):
        d[i] = centered[i, r]
        if np.isnan(tile[columns[i], r]):
            same = same and k < state[0] and missing[k] == i
            missing[k] = i
            k += 1
    if not same or k < state[0]:
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
        centered[missing[a], r] = -value
    return k


@compiled
def _invert(P: Any, c: Any, k: Any, work: Any) -> Any:
    """Write C = P_mm⁻¹ by Cholesky's factor; return log|P_mm|."""
    missing, C, L, _, _, _ = work
    logdet, determinant = 0.0, 1.0
    for i in range(k):
        for j in range(i + 1):
            value = P[missing[i] * c + missing[j]]
            for e in range(j):
                value -= L[i, e] * L[j, e]
            # Rounding may leave nothing of the pivot of a nearly singular block.
            L[i, j] = value * C[j, j] if j < i else np.sqrt(max(value, _PIVOT * P[missing[i] * c + missing[i]]))
        C[i, i] = 1 / L[i, i]
        determinant *= L[i, i] * L[i, i]
        if not 1e-100 < determinant < 1e100:
            logdet += np.log(determinant)
            determinant = 1.0
    for j in range(k):  # the inverse factor, transposed, above the diagonal of L and on that of C
        for i in range(j + 1, k):
            value = L[i, j] * C[j, j]
            for e in range(j + 1, i):
                value += L[i, e] * L[j, e]
            L[j, i] = -value * C[i, i]
    for j in range(k):
        L[j, j] = C[j, j]
    for i in range(k):
        for j in range(i + 1):
            value = 0.0
            for e in range(i, k):
                value += L[i, e] * L[j, e]
            C[i, j] = C[j, i] = value
    return logdet + np.log(determinant)


@compiled
def _regress(i: Any, c: Any, k: Any, P: Any, work: Any) -> None:
    """Write by how much the conditional means of the gaps move with column i, −C P_mi, to the coefficients."""
    missing, C, _, _, b, _ = work
    for a in range(k):
        b[a] = 0
        for e in range(k):
            b[a] -= C[a, e] * P[missing[e] * c + i]


@compiled
def explain(tile: Any, n: Any, blurs: Any, columns: Any, mean: Any, P: Any, halves: Any, work: Any, found: Any) -> None:
    """Center n rows in a block and fill their gaps; correct the distances for rounding and add the gain in log-density.

    Per row the gain is ½ (k log 2π − log|P_mm|), for single gaps the `halves` (c,), and Δ_j counts by
    (Σ_oo⁻¹)_jj = P_jj − P_jm C P_mj.
    """
    distance, gain = found
    (centered, counts, places), row = work
    missing, _, _, _, b, state = row
    c, rounded = len(columns), len(blurs) > 0
    state[0] = 0
    _center(tile, n, columns, mean, work[0])
    for r in range(n):
        if counts[r] == 0:
            continue
        if counts[r] == 1 and not rounded:
            i = int(places[r])
            _fill_single(r, i, P, c, centered)
            gain[r] += halves[i]
            continue
        k = _fill(r, tile, columns, P, centered, row)
        gain[r] += 0.5 * (k * LOG_2PI - state[1])
        for i in range(c if rounded else 0):
            blur = blurs[columns[i], r]
            if blur > 0:
                _regress(i, c, k, P, row)
                for a in range(k):
                    distance[r] += blur * b[a] * P[missing[a] * c + i]


@compiled
def complete(tile: Any, n: Any, blurs: Any, columns: Any, mean: Any, P: Any, work: Any, sums: Any) -> None:
    """Fill the gaps of n rows in a block, and add Σ z C and what rounding leaves of the filled values to its scatter.

    `sums` are the weights z and zu of the rows (the scatter of t components is weighted by u, but C is not), and the
    flat block, of which the lower triangle counts.
    """
    certain, share, scatter = sums
    (centered, counts, places), row = work
    missing, C, _, _, b, state = row
    c, rounded = len(columns), len(blurs) > 0
    state[0] = 0
    _center(tile, n, columns, mean, work[0])
    for r in range(n):
        if counts[r] == 0:
            continue
        if counts[r] == 1 and not rounded:
            i = int(places[r])
            scatter[i * c + i] += certain[r] * _fill_single(r, i, P, c, centered)
            continue
        k = _fill(r, tile, columns, P, centered, row)
        for a in range(k):
            for e in range(a + 1):
                scatter[missing[a] * c + missing[e]] += certain[r] * C[a, e]
        for i in range(c if rounded else 0):
            blur = share[r] * blurs[columns[i], r]
            if blur > 0:
                _regress(i, c, k, P, row)
                for a in range(k):
                    scatter[max(missing[a], i) * c + min(missing[a], i)] += blur * b[a]
                    for e in range(a + 1):
                        scatter[missing[a] * c + missing[e]] += blur * b[a] * b[e]
    for i in range(c):
        j = columns[i]
        m = mean[j]
        for r in range(n):
            x = tile[j, r]
            tile[j, r] = x if x == x else m + centered[i, r]
