"""Compiled loops over missing values, given a component and a block (docs/adr/0014).

A centered tile of rows has NaN in place of missing values. They are replaced by their conditional means, less the
means; what they change in the density and in the scatter is added up. Given the component, a missing value concerns its
own block only.

Within a block with precision P = Σ⁻¹, let d be x − μ with 0 in place of the missing values m. Then C = P_mm⁻¹ is their
covariance given the others, −C (P d)_m their conditional mean, and log|Σ_oo| = log|Σ| + log|P_mm|.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from blockmix.blocks.kernels import compiled, inlined
from blockmix.partition import FloatArray

TILE = 128  # rows: with 64 loops are too short, with 256 nothing is gained
LOG_2PI = np.log(2 * np.pi)
_PIVOT = 1e-14  # least pivot of P_mm over its diagonal


def tiles(n: int) -> FloatArray:
    """Room for n values of the rows of a tile, shape (n, TILE), from a cache line on.

    Vectors that straddle two lines cost 1.6 times as much.
    """
    room = np.empty(n * TILE + 8)
    start = -(room.__array_interface__["data"][0] // 8) % 8
    return room[start : start + n * TILE].reshape(n, TILE)


def workspace(p: int, n_rounded: int, c: int) -> Any:
    """Room for the missing values of a tile of p columns, of a block of at most c columns, and of one row.

    For the tile: what rounding leaves, where the missing values of each column begin, and their rows. For the block:
    number and places of those of each row, and the rows that have some. For the row: C, factor and its inverse,
    coefficients.
    """
    blurs = np.zeros((p if n_rounded else 0, TILE))
    cells = np.zeros(p + 1, np.int64), np.empty(p * TILE + 1, np.int64)
    block = np.zeros(TILE, np.int64), np.empty((TILE, c), np.int64), np.empty(TILE, np.int64)
    return blurs, cells, block, (*np.empty((2, c, c)), np.empty(c))


@compiled
def square(blocks: Any, whiteners: Any, inverses: Any, largest: Any) -> None:
    """Precisions P = WᵀW of the blocks of at most `largest` columns, flat, from their whiteners W."""
    for b in range(len(blocks)):
        c, offset = blocks[b, 1] - blocks[b, 0], blocks[b, 2]
        for i in range(c if c <= largest else 0):
            for j in range(i + 1):
                value = 0.0
                for k in range(i, c):
                    value += whiteners[offset + k * c + i] * whiteners[offset + k * c + j]
                inverses[offset + i * c + j] = inverses[offset + j * c + i] = value


@compiled
def find_missing(tile: Any, n: Any, rows: Any, rounding: Any, work: Any) -> None:
    """List the rows of the missing values of each column of a tile, and the variances Δ that rounding leaves."""
    blurs, (first, missing), _, _ = work
    rounded, variances, codes = rounding
    count = 0
    for j in range(len(tile)):
        first[j] = count
        for r in range(n):
            missing[count] = r
            count += tile[j, r] != tile[j, r]
    first[len(tile)] = count
    for d in range(len(rounded)):
        for r in range(n):
            blurs[rounded[d], r] = variances[d, codes[rows[r], d]]


@inlined
def _mark(columns: Any, lo: Any, centered: Any, cells: Any, block: Any) -> Any:
    """Write 0 for the missing values of a block and count those of each row; return the number of such rows."""
    first, rows = cells
    counts, places, marked = block
    k = 0
    for i in range(len(columns)):
        for e in range(first[columns[i]], first[columns[i] + 1]):
            r = rows[e]
            centered[lo + i, r] = 0
            if counts[r] == 0:
                marked[k] = r
                k += 1
            places[r, counts[r]] = i
            counts[r] += 1
    return k


@inlined
def _fill_single(r: Any, i: Any, lo: Any, c: Any, inverses: Any, offset: Any, centered: Any) -> Any:
    """Replace the only missing value of row r in a block, column i, by its conditional mean less the mean; return C."""
    value, row = 0.0, offset + i * c
    for j in range(c):
        value += inverses[row + j] * centered[lo + j, r]
    C = 1 / inverses[row + i]
    centered[lo + i, r] = -value * C
    return C


@inlined
def _same(places: Any, r: Any, last: Any, k: Any, n_known: Any) -> Any:
    """Whether row r misses the same k values as the last row that missed several, which missed `n_known`."""
    a = 0
    while k == n_known and a < k and places[r, a] == places[last, a]:
        a += 1
    return a == k


@inlined
def _fill(
    r: Any, lo: Any, c: Any, k: Any, inverses: Any, offset: Any, missing: Any, C: Any, b: Any, centered: Any
) -> None:
    """Replace the k missing values of row r in a block by their conditional means, less the mean."""
    for a in range(k):
        row, value = offset + missing[a] * c, 0.0
        for j in range(c):
            value += inverses[row + j] * centered[lo + j, r]
        b[a] = value
    for a in range(k):
        value = 0.0
        for e in range(k):
            value += C[a, e] * b[e]
        centered[lo + missing[a], r] = -value


@inlined
def _invert_pair(inverses: Any, offset: Any, c: Any, missing: Any, C: Any) -> Any:
    """Write C = P_mm⁻¹ of two missing values, as in most rows that miss several of a block; return log|P_mm|."""
    row, other = offset + missing[0] * c, offset + missing[1] * c
    a, d = inverses[row + missing[0]], inverses[other + missing[1]]
    slope = inverses[other + missing[0]] / a  # products of precisions would leave the range of numbers
    rest = max(d - slope * inverses[other + missing[0]], _PIVOT * d)
    C[0, 0], C[1, 1] = 1 / a + slope * slope / rest, 1 / rest
    C[0, 1] = C[1, 0] = -slope / rest
    return np.log(a) + np.log(rest)


@inlined
def _invert(inverses: Any, offset: Any, c: Any, k: Any, missing: Any, C: Any, L: Any) -> Any:
    """Write C = P_mm⁻¹ by Cholesky's factor; return log|P_mm|."""
    logdet, determinant = 0.0, 1.0
    for i in range(k):
        row = offset + missing[i] * c
        for j in range(i + 1):
            value = inverses[row + missing[j]]
            for e in range(j):
                value -= L[i, e] * L[j, e]
            # Rounding may leave nothing of the pivot of a nearly singular block.
            L[i, j] = value * C[j, j] if j < i else np.sqrt(max(value, _PIVOT * inverses[row + missing[i]]))
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


@inlined
def _regress(i: Any, c: Any, k: Any, inverses: Any, offset: Any, missing: Any, C: Any, b: Any) -> None:
    """Write by how much the conditional means move with column i, −C P_mi, to the coefficients."""
    for a in range(k):
        b[a] = 0
        for e in range(k):
            b[a] -= C[a, e] * inverses[offset + missing[e] * c + i]


@inlined
def _add_rounding(
    r: Any, columns: Any, k: Any, share: Any, P: Any, offset: Any, missing: Any, row: Any, blurs: Any, scatter: Any
) -> Any:
    """Add zu Δ of a row with k missing values to the scatter; return what Δ adds to its distance from C."""
    C, _, b = row
    c, distance = len(columns), 0.0
    for i in range(c):
        blur = blurs[columns[i], r]
        if blur > 0:
            _regress(i, c, k, P, offset, missing, C, b)
            for a in range(k):
                distance += blur * b[a] * P[offset + missing[a] * c + i]
            for a in range(k if len(scatter) else 0):
                moved = share * blur * b[a]
                scatter[offset + max(missing[a], i) * c + min(missing[a], i)] += moved
                for e in range(a + 1):
                    scatter[offset + missing[a] * c + missing[e]] += moved * b[e]
    return distance


@compiled
def fill(
    centered: Any, g: Any, density: Any, halves: Any, work: Any, certain: Any, share: Any, sums: Any, scatter: Any
) -> None:
    """Fill the missing values of a tile centered for component g.

    Added to the sums are, per row, the gain in log-density and what rounding adds to the distance, shape (1, TILE) or
    by block (K, TILE). The gain is ½ (k log 2π − log|P_mm|) per block, for single values the `halves` (G, p). Δ_j
    counts by (Σ_oo⁻¹)_jj = P_jj − P_jm C P_mj. Σ z C and its rounding are added to the flat scatter, of which the lower
    triangles count, unless it is empty; the weights z and zu of the rows are `certain` and their share: the scatter of
    t components is weighted by u, but C is not.
    """
    blurs, cells, block, row = work
    gains, distances = sums
    counts, places, marked = block
    C, L, moved = row
    P, adding, before = density.inverses, len(scatter) > 0, density.first[g]
    for b in range(before, density.first[g + 1]):
        lo, hi, offset = density.blocks[b, 0], density.blocks[b, 1], density.blocks[b, 2]
        columns, c, n_known, last, logdet = density.order[g, lo:hi], hi - lo, 0, 0, 0.0
        for t in range(_mark(columns, lo, centered, cells, block)):
            r = marked[t]
            k, missing = counts[r], places[r]
            counts[r] = 0
            if k == 1 and not len(blurs):
                only = _fill_single(r, missing[0], lo, c, P, offset, centered)
                gains[r] += halves[g, columns[missing[0]]]
                if adding:
                    scatter[offset + missing[0] * (c + 1)] += certain[r] * only
                continue
            if not _same(places, r, last, k, n_known):
                n_known, last = k, r
                logdet = _invert_pair(P, offset, c, missing, C) if k == 2 else _invert(P, offset, c, k, missing, C, L)
            _fill(r, lo, c, k, P, offset, missing, C, moved, centered)
            gains[r] += 0.5 * (k * LOG_2PI - logdet)
            for a in range(k if adding else 0):
                for e in range(a + 1):
                    scatter[offset + missing[a] * c + missing[e]] += certain[r] * C[a, e]
            if len(blurs):
                corrected = _add_rounding(r, columns, k, share[r], P, offset, missing, row, blurs, scatter)
                distances[min(b - before, len(distances) - 1), r] += corrected
