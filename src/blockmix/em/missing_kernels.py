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

from blockmix.blocks.kernels import FAST, compiled, jit

# Inlined: a call counts references to each array argument, half of the time of a sweep over rows with missing values.
inlined = jit(error_model="numpy", fastmath=FAST, forceinline=True)

LOG_2PI = np.log(2 * np.pi)
_PIVOT = 1e-14  # least pivot of P_mm over its diagonal
TILE = 128  # rows: with 64 loops are too short, with 256 nothing is gained


@compiled
def largest(blocks: Any) -> Any:
    """Number of columns of the largest block."""
    widest = 0
    for b in range(len(blocks)):
        widest = max(widest, blocks[b, 1] - blocks[b, 0])
    return widest


@compiled
def tiles(n: Any) -> Any:
    """Room for n values of the rows of a tile, shape (n, TILE), from a cache line on.

    Vectors that straddle two lines cost 1.6 times as much.
    """
    room = np.empty(n * TILE + 8)
    start = -(room.ctypes.data // 8) % 8
    return room[start : start + n * TILE].reshape(n, TILE)


@compiled
def workspace(p: Any, c: Any) -> Any:
    """Room for the missing values of a tile of p columns, of a block of at most c columns, and of one row.

    For the tile: where those of each column begin, and their rows. For the block: number and places of those of each
    row, and the rows that have some. For the row: C, factor and its inverse, coefficients.
    """
    cells = np.zeros(p + 1, np.int64), np.empty(p * TILE + 1, np.int64)
    block = np.zeros(TILE, np.int64), np.empty((TILE, c), np.int64), np.empty(TILE, np.int64)
    row = np.empty((c, c)), np.empty((c, c)), np.empty(c)
    return cells, block, row


@compiled
def square(blocks: Any, whiteners: Any, inverses: Any, largest: Any) -> None:
    """Precisions P = WᵀW of the blocks of at most `largest` columns, flat, from their whiteners W."""
    for lo, hi, offset in blocks:
        c = hi - lo
        if c > largest:
            continue
        for i in range(c):
            for j in range(i + 1):
                value = 0.0
                for k in range(i, c):
                    value += np.float64(whiteners[offset + k * c + i]) * whiteners[offset + k * c + j]
                inverses[offset + i * c + j] = inverses[offset + j * c + i] = value


@compiled
def single_gains(first: Any, blocks: Any, inverses: Any, gains: Any) -> None:
    """Write ½ (log 2π − log P_jj), the gain in log-density of a row's only missing value in a block, (G, p)."""
    for g in range(len(gains)):
        for lo, hi, offset in blocks[first[g] : first[g + 1]]:
            for i in range(hi - lo):
                gains[g, lo + i] = 0.5 * (LOG_2PI - np.log(inverses[offset + i * (hi - lo + 1)]))


@inlined
def load_blurs(rows: Any, rounding: Any, blurs: Any) -> None:
    """Write the variances Δ that rounding leaves of some rows to blurs (p, TILE), which is 0 elsewhere."""
    rounded, variances, codes = rounding
    for d in range(len(rounded)):
        for r in range(len(rows)):
            blurs[rounded[d], r] = variances[d, codes[rows[r], d]]


@inlined
def find_missing(tile: Any, n: Any, work: Any) -> None:
    """List the rows of the missing values of each column of a tile of n rows."""
    first, rows = work[0]
    count = 0
    for j in range(len(tile)):
        first[j] = count
        for r in range(n):
            rows[count] = r
            count += tile[j, r] != tile[j, r]
    first[len(tile)] = count


@inlined
def _mark(columns: Any, lo: Any, hi: Any, centered: Any, cells: Any, block: Any) -> Any:
    """Write 0 for the missing values of a block and count those of each row; return the number of such rows."""
    first, rows = cells
    counts, places, marked = block
    k = 0
    for i in range(lo, hi):
        for e in range(first[columns[i]], first[columns[i] + 1]):
            r = rows[e]
            centered[i, r] = 0
            if counts[r] == 0:
                marked[k] = r
                k += 1
            places[r, counts[r]] = i - lo
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
def _invert(inverses: Any, offset: Any, c: Any, k: Any, missing: Any, C: Any, L: Any) -> Any:
    """Write C = P_mm⁻¹; return log|P_mm|."""
    if k == 2:  # as in most rows that miss several values of a block
        row, other = offset + missing[0] * c, offset + missing[1] * c
        a, d = inverses[row + missing[0]], inverses[other + missing[1]]
        slope = inverses[other + missing[0]] / a  # products of precisions would leave the range of numbers
        rest = max(d - slope * inverses[other + missing[0]], _PIVOT * d)
        C[0, 0], C[1, 1] = 1 / a + slope * slope / rest, 1 / rest
        C[0, 1] = C[1, 0] = -slope / rest
        return np.log(a) + np.log(rest)
    return _invert_by_factor(inverses, offset, c, k, missing, C, L)


@inlined
def _invert_by_factor(inverses: Any, offset: Any, c: Any, k: Any, missing: Any, C: Any, L: Any) -> Any:
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


@compiled
def fill(
    centered: Any, blurs: Any, g: Any, some: Any, density: Any, halves: Any, work: Any, rows: Any, scatter: Any
) -> None:
    """Fill the missing values of a tile centered for component g in the blocks some[0] to some[1] − 1.

    `rows` are weights z and zu, distances and gains of the rows of the tile. The distances are corrected for rounding,
    and the gain in log-density is added: per row and block ½ (k log 2π − log|P_mm|), for single ones the `halves` (p,).
    Δ_j counts by (Σ_oo⁻¹)_jj = P_jj − P_jm C P_mj. Σ z C and their rounding are added to the flat scatter, of which the
    lower triangles count, unless it is empty; the scatter of t components is weighted by u, but C is not.
    """
    certain, share, distance, gain = rows
    cells, block, row = work
    counts, places, marked = block
    C, L, b = row
    columns, blocks, inverses, rounded = density.order[g], density.blocks, density.inverses, len(blurs) > 0
    adding = len(scatter) > 0
    for at_block in range(some[0], some[1]):
        lo, hi, offset = blocks[at_block, 0], blocks[at_block, 1], blocks[at_block, 2]
        c = hi - lo
        n_known, last, logdet = 0, 0, 0.0
        for t in range(_mark(columns, lo, hi, centered, cells, block)):
            r = marked[t]
            k, counts[r] = counts[r], 0
            missing = places[r]
            if k == 1 and not rounded:
                C_ii = _fill_single(r, missing[0], lo, c, inverses, offset, centered)
                gain[r] += halves[lo + missing[0]]
                if adding:
                    scatter[offset + missing[0] * (c + 1)] += certain[r] * C_ii
                continue
            if not _same(places, r, last, k, n_known):
                n_known, last, logdet = k, r, _invert(inverses, offset, c, k, missing, C, L)
            _fill(r, lo, c, k, inverses, offset, missing, C, b, centered)
            gain[r] += 0.5 * (k * LOG_2PI - logdet)
            for a in range(k if adding else 0):
                for e in range(a + 1):
                    scatter[offset + missing[a] * c + missing[e]] += certain[r] * C[a, e]
            for i in range(c if rounded else 0):
                blur = blurs[columns[lo + i], r]
                if blur > 0:
                    _regress(i, c, k, inverses, offset, missing, C, b)
                    for a in range(k):
                        distance[r] += blur * b[a] * inverses[offset + missing[a] * c + i]
                    for a in range(k if adding else 0):
                        moved = share[r] * blur * b[a]
                        scatter[offset + max(missing[a], i) * c + min(missing[a], i)] += moved
                        for e in range(a + 1):
                            scatter[offset + missing[a] * c + missing[e]] += moved * b[e]
