"""Compiled loops of the block mixture: log-densities, responsibilities and moments (paper, section 3).

A chunk of rows and the flat arrays of a `Layout` come in; sums go out. Rows are worked on in tiles, transposed so that
the innermost loops run over rows. Everything is computed in double precision, however the rows are stored: in single
precision the scatter of a few far rows was indefinite, and the likelihood fell.

Block b of component g holds the columns ``order[g, lo:hi]`` with ``lo, hi, at = blocks[b]``; its matrix, row by row,
starts at ``at`` of a flat array. The blocks of component g are ``first[g]`` to ``first[g + 1]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from blockmix.em.block.gap_kernels import TILE, complete, explain, largest, load_blurs, single_gains, workspace
from blockmix.em.block.gap_kernels import compiled as _compiled

NEGLIGIBLE = -46.0  # log-responsibility (1e-20) from which a row adds nothing to the moments of a component


@_compiled
def _load(X: Any, rows: Any, location: Any, inverse: Any, tile: Any) -> None:
    """Standardize some rows into the columns of a tile (p, TILE), eight at a time: that fills a line of the cache."""
    whole = len(rows) // 8 * 8
    for r in range(0, whole, 8):
        a, b, c, d = rows[r], rows[r + 1], rows[r + 2], rows[r + 3]
        e, f, g, h = rows[r + 4], rows[r + 5], rows[r + 6], rows[r + 7]
        for j in range(len(location)):
            x, s = location[j], inverse[j]
            tile[j, r] = (X[a, j] - x) * s
            tile[j, r + 1] = (X[b, j] - x) * s
            tile[j, r + 2] = (X[c, j] - x) * s
            tile[j, r + 3] = (X[d, j] - x) * s
            tile[j, r + 4] = (X[e, j] - x) * s
            tile[j, r + 5] = (X[f, j] - x) * s
            tile[j, r + 6] = (X[g, j] - x) * s
            tile[j, r + 7] = (X[h, j] - x) * s
    for r in range(whole, len(rows)):
        for j in range(len(location)):
            tile[j, r] = (X[rows[r], j] - location[j]) * inverse[j]


@_compiled
def log_joint(X: Any, units: Any, rounding: Any, density: Any, joint: Any, gain: Any) -> None:
    """Write level_g − ½ [Σ_k ‖L_gk⁻¹ (x − μ_g)_k‖² + Σ_j Δ_j (Σ_g⁻¹)_jj] to joint (m, G).

    Δ_j is the variance that the rounding of the value in column j leaves. If there are gaps, they are filled first, and
    what is to be added to the log-density for them is written to gain (m, G). It is None if there are none, so that
    Numba leaves out the code for gaps.
    """
    location, inverse = units
    rounded, variances, codes = rounding
    level, means, order, blocks, first, whiteners, precisions, _, inverses = density
    m, p = X.shape
    G = len(level)
    rows = np.arange(m)
    tile, centered = np.empty((p, TILE)), np.empty((largest(blocks), TILE))
    white, distance, gained = np.empty(TILE), np.empty(TILE), np.empty(TILE)
    if gain is not None:
        work = workspace(centered)
        blurs, singles = np.zeros((p if len(rounded) else 0, TILE)), np.empty((G, p))
        single_gains(first, blocks, inverses, singles)
    for start in range(0, m, TILE):
        n = min(TILE, m - start)
        _load(X, rows[start : start + n], location, inverse, tile)
        if gain is not None:
            load_blurs(rows[start : start + n], rounding, blurs)
        for g in range(G):
            for r in range(n):
                distance[r] = gained[r] = 0
            for d in range(len(rounded)):
                precision = precisions[g, rounded[d]]
                for r in range(n):
                    distance[r] += precision * variances[d, codes[start + r, d]]
            for lo, hi, at in blocks[first[g] : first[g + 1]]:
                if gain is None:
                    for i in range(hi - lo):
                        j = order[g, lo + i]
                        mean = means[g, j]
                        for r in range(n):
                            centered[i, r] = tile[j, r] - mean
                else:
                    columns, P = order[g, lo:hi], inverses[at : at + (hi - lo) ** 2]
                    explain(tile, n, blurs, columns, means[g], P, singles[g, lo:hi], work, (distance, gained))
                for i in range(hi - lo):
                    row, odd = at + i * (hi - lo), (i + 1) % 2
                    w = whiteners[row] if odd else 0.0
                    for r in range(n):
                        white[r] = w * centered[0, r]
                    # Two columns at a time: 1.2 to 1.5 times as fast as one.
                    for j in range(odd, i + 1, 2):
                        w, v = whiteners[row + j], whiteners[row + j + 1]
                        for r in range(n):
                            white[r] += w * centered[j, r] + v * centered[j + 1, r]
                    for r in range(n):
                        distance[r] += white[r] * white[r]
            for r in range(n):
                joint[start + r, g] = level[g] - 0.5 * distance[r]
            if gain is not None:
                for r in range(n):
                    gain[start + r, g] = gained[r]


@_compiled
def block_distances(X: Any, rows: Any, g: Any, units: Any, rounding: Any, density: Any, gain: Any, found: Any) -> None:
    """Write the squared distance of some rows from component g in each of its blocks to found (k, K).

    `gain` (TILE,) is overwritten; it is None if there are no gaps.
    """
    location, inverse = units
    _, means, order, blocks, first, whiteners, precisions, _, inverses = density
    p = X.shape[1]
    tile, blurs, singles = np.empty((p, TILE)), np.zeros((p, TILE)), np.zeros(p)
    distance, white, centered = np.empty(TILE), np.empty(TILE), np.empty((largest(blocks), TILE))
    if gain is not None:
        work = workspace(centered)
    for start in range(0, len(rows), TILE):
        some = rows[start : start + TILE]
        n = len(some)
        _load(X, some, location, inverse, tile)
        load_blurs(some, rounding, blurs)
        for k in range(first[g + 1] - first[g]):
            lo, hi, at = blocks[first[g] + k]
            columns = order[g, lo:hi]
            for r in range(n):
                distance[r] = 0
            if gain is None:
                for i in range(hi - lo):
                    for r in range(n):
                        centered[i, r] = tile[columns[i], r] - means[g, columns[i]]
            else:
                P = inverses[at : at + (hi - lo) ** 2]
                explain(tile, n, blurs, columns, means[g], P, singles, work, (distance, gain))
            for i in range(hi - lo):
                for r in range(n):
                    white[r] = 0
                for j in range(i + 1):
                    w = whiteners[at + i * (hi - lo) + j]
                    for r in range(n):
                        white[r] += w * centered[j, r]
                precision = precisions[g, columns[i]]
                for r in range(n):
                    distance[r] += white[r] * white[r] + precision * blurs[columns[i], r]
            for r in range(n):
                found[start + r, k] = distance[r]


@_compiled
def responsibilities(joint: Any, weights: Any) -> Any:
    """Turn log π_g f_g, shape (m, G), into responsibilities in place; return Σ w log Σ_g π_g f_g."""
    m, G = joint.shape
    total = 0.0
    for r in range(m):
        top = joint[r, 0]
        for g in range(1, G):
            top = max(top, joint[r, g])
        share = 0.0
        for g in range(G):
            gap = joint[r, g] - top
            joint[r, g] = np.exp(gap) if gap > NEGLIGIBLE else 0.0
            share += joint[r, g]
        for g in range(G):
            joint[r, g] /= share
        total += weights[r] * (top + np.log(share))
    return total


@_compiled
def moments(X: Any, weights: Any, z: Any, certain: Any, units: Any, rounding: Any, density: Any, sums: Any) -> None:
    """Add Σz, Σz(x − μ), ΣzΔ and Σz(x − μ)(x − μ)ᵀ to the sums.

    Their shapes are (G,), (G, p) and (G, p); the last is flat and has the lower triangles of the blocks. If there are
    gaps, they are filled, and their conditional covariances are weighted by certain (m, G); it is None if there are
    none.
    """
    location, inverse = units
    rounded, variances, codes = rounding
    _, means, order, blocks, first, _, _, _, inverses = density
    weight, excess, blur, scatter = sums
    m, p = X.shape
    near = np.empty(m, np.int64)
    tile, root = np.empty((p, TILE)), np.empty(TILE)
    if certain is not None:
        work = workspace(np.empty((largest(blocks), TILE)))
        blurs, own, whole = np.zeros((p if len(rounded) else 0, TILE)), np.empty(TILE), np.empty(TILE)
    for g in range(z.shape[1]):
        count = 0
        for r in range(m):
            share = weights[r] * z[r, g]
            if share > 0:
                weight[g] += share
                near[count] = r
                count += 1
                for d in range(len(rounded)):
                    blur[g, rounded[d]] += share * variances[d, codes[r, d]]
        for start in range(0, count, TILE):
            n = min(TILE, count - start)
            rows = near[start : start + n]
            _load(X, rows, location, inverse, tile)
            if certain is not None:
                load_blurs(rows, rounding, blurs)
                for r in range(n):
                    own[r] = weights[rows[r]] * certain[rows[r], g]
                    whole[r] = weights[rows[r]] * z[rows[r], g]
                for lo, hi, at in blocks[first[g] : first[g + 1]]:
                    columns, part = order[g, lo:hi], slice(at, at + (hi - lo) ** 2)
                    complete(tile, n, blurs, columns, means[g], inverses[part], work, (own, whole, scatter[part]))
            for r in range(n):
                root[r] = np.sqrt(weights[rows[r]] * z[rows[r], g])
            for j in range(p):
                mean = means[g, j]
                total = 0.0
                for r in range(n):
                    tile[j, r] = root[r] * (tile[j, r] - mean)
                    total += root[r] * tile[j, r]
                excess[g, j] += total
            for lo, hi, at in blocks[first[g] : first[g + 1]]:
                for i in range(hi - lo):
                    one = tile[order[g, lo + i]]
                    for j in range(i + 1):
                        other = tile[order[g, lo + j]]
                        total = 0.0
                        for r in range(n):
                            total += one[r] * other[r]
                        scatter[at + i * (hi - lo) + j] += total


@_compiled
def center(X: Any, rows: Any, share: Any, units: Any, mean: Any, centered: Any) -> None:
    """Write √share (x − μ) of some rows, standardized, to centered (k, p)."""
    location, inverse = units
    for i in range(len(rows)):
        root = np.sqrt(share[rows[i]])
        for j in range(len(mean)):
            centered[i, j] = ((X[rows[i], j] - location[j]) * inverse[j] - mean[j]) * root


@_compiled
def center_filled(X: Any, rows: Any, shares: Any, g: Any, units: Any, rounding: Any, density: Any, found: Any) -> None:
    """Write √share (x − μ_g) of some rows, standardized and with their gaps filled, to the first array found (k, p).

    What `moments` adds to the scatter for the gaps is added to the second one, flat. The shares, shape (2, m), are
    those of their conditional covariances and of the rows.
    """
    location, inverse = units
    _, means, order, blocks, first, _, _, _, inverses = density
    centered, scatter = found
    p = X.shape[1]
    tile, blurs = np.empty((p, TILE)), np.zeros((p if len(rounding[0]) else 0, TILE))
    work = workspace(np.empty((largest(blocks), TILE)))
    for start in range(0, len(rows), TILE):
        some = rows[start : start + TILE]
        n = len(some)
        _load(X, some, location, inverse, tile)
        load_blurs(some, rounding, blurs)
        own, all_own = shares[0][some], shares[1][some]
        for lo, hi, at in blocks[first[g] : first[g + 1]]:
            columns, part = order[g, lo:hi], slice(at, at + (hi - lo) ** 2)
            complete(tile, n, blurs, columns, means[g], inverses[part], work, (own, all_own, scatter[part]))
        for j in range(p):
            for r in range(n):
                centered[start + r, j] = (tile[j, r] - means[g, j]) * np.sqrt(shares[1, some[r]])


@_compiled
def beyond_reach(joint: Any) -> Any:
    """Numbers of the rows of joint (m, G) without a component whose log-density is a number above −∞."""
    m, G = joint.shape
    found, count = np.empty(m, np.int64), 0
    for r in range(m):
        reached = False
        for g in range(G):
            reached |= joint[r, g] > -np.inf
        if not reached:
            found[count] = r
            count += 1
    return found[:count]
