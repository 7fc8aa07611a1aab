"""Compiled loops of the block mixture: log-densities, responsibilities and moments (paper, section 3).

They turn a chunk of rows and the flat arrays of a `Layout` into sums. Rows are processed in tiles, transposed so that
the innermost loops run over rows. Everything is computed in double precision, however the rows are stored: in single
precision the scatter of a few far rows was indefinite, and the likelihood fell.

Block b of component g holds the columns ``order[g, lo:hi]`` with ``lo, hi, offset = blocks[b]``; its matrix, row by
row, starts at ``offset`` of a flat array. The blocks of component g are ``first[g]`` to ``first[g + 1]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from blockmix.blocks.kernels import compiled, inlined
from blockmix.em.missing_kernels import TILE, fill, find_missing

NEGLIGIBLE = -46.0  # log-responsibility (1e-20) from which a row adds nothing to the moments of a component


@inlined
def _load(X: Any, rows: Any, start: Any, n: Any, units: Any, tile: Any) -> None:
    """Standardize the n rows from `start` on into the columns of a tile, eight at a time: that fills a cache line."""
    location, inverse = units
    whole = start + n // 8 * 8
    for i in range(start, whole, 8):
        r, a, b, c, d = i - start, rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        e, f, g, h = rows[i + 4], rows[i + 5], rows[i + 6], rows[i + 7]
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
    for i in range(whole, start + n):
        for j in range(len(location)):
            tile[j, i - start] = (X[rows[i], j] - location[j]) * inverse[j]


@inlined
def _center(tile: Any, n: Any, g: Any, density: Any, centered: Any) -> None:
    """Write x − μ_g of the n rows of a tile, group by group, to centered (p, TILE)."""
    for i in range(len(tile)):
        j = density.order[g, i]
        m = density.means[g, j]
        for r in range(n):
            centered[i, r] = tile[j, r] - m


@inlined
def _add_distances(centered: Any, n: Any, blocks: Any, b: Any, whiteners: Any, white: Any, distance: Any) -> None:
    """Add ‖W (x − μ)‖² of n rows in block b with whitener W. Several columns at a time save reads and writes."""
    lo, hi, offset = blocks[b, 0], blocks[b, 1], blocks[b, 2]
    for i in range(hi - lo):
        row, odd, whole = offset + i * (hi - lo), (i + 1) % 2, (i + 1) % 4
        w = whiteners[row] if odd else 0.0
        for r in range(n):
            white[r] = w * centered[lo, r]
        for j in range(odd, whole, 2):
            w, v = whiteners[row + j], whiteners[row + j + 1]
            for r in range(n):
                white[r] += w * centered[lo + j, r] + v * centered[lo + j + 1, r]
        for j in range(whole, i + 1, 4):
            k, w, v = lo + j, whiteners[row + j], whiteners[row + j + 1]
            u, t = whiteners[row + j + 2], whiteners[row + j + 3]
            for r in range(n):
                white[r] += w * centered[k, r] + v * centered[k + 1, r] + u * centered[k + 2, r]
                white[r] += t * centered[k + 3, r]
        for r in range(n):
            distance[r] += white[r] * white[r]


@inlined
def _take_common(centered: Any, n: Any, g: Any, density: Any, scores: Any, distance: Any) -> None:
    """Subtract from n centered rows what common factors explain, Λf with f = β(x − μ), and add ‖f‖² to the distance.

    The distance of x is ‖f‖² plus that of the rest in Ψ, which loses no digits where that of x in Ψ is much larger.
    """
    for a in range(len(scores)):
        for r in range(n):
            scores[a, r] = 0
        for i in range(len(centered)):
            w = density.slopes[g, a, i]
            for r in range(n):
                scores[a, r] += w * centered[i, r]
    for a in range(len(scores)):
        for r in range(n):
            distance[r] += scores[a, r] * scores[a, r]
        for i in range(len(centered)):
            w = density.loadings[g, a, i]
            for r in range(n):
                centered[i, r] -= w * scores[a, r]


@compiled
def block_log_joint(
    X: Any, rows: Any, units: Any, rounding: Any, density: Any, room: Any, work: Any, joint: Any, gain: Any
) -> None:
    """Write level_g − ½ [Σ_k ‖L_gk⁻¹ (x − μ_g)_k‖² + Σ_j Δ_j (Σ_g⁻¹)_jj] to joint (m, G).

    Δ_j is the variance that the rounding of the value in column j leaves. If values are missing, they are filled first,
    and what is to be added to the log-density for them is written to gain (m, G). It is None if there are none, so that
    Numba leaves out the code for them.
    """
    rounded, variances, codes = rounding
    tile, centered, scores, vectors, distances = room
    white, gained, distance = vectors[0], vectors[1], distances[0]
    for start in range(0, len(rows), TILE):
        n = min(TILE, len(rows) - start)
        _load(X, rows, start, n, units, tile)
        if gain is not None:
            find_missing(tile, n, rows[start : start + n], rounding, work[0])
        for g in range(len(density.level)):
            for r in range(n):
                distance[r] = gained[r] = 0
            for d in range(len(rounded)):
                precision = density.precisions[g, rounded[d]]
                for r in range(n):
                    distance[r] += precision * variances[d, codes[start + r, d]]
            _center(tile, n, g, density, centered)
            if gain is not None:
                fill(centered, g, density, work[1], work[0], white, white, (gained, distances), work[2])
            _take_common(centered, n, g, density, scores, distance)
            for b in range(density.first[g], density.first[g + 1]):
                _add_distances(centered, n, density.blocks, b, density.whiteners, white, distance)
            for r in range(n):
                joint[start + r, g] = density.level[g] - 0.5 * distance[r]
            if gain is not None:
                for r in range(n):
                    gain[start + r, g] = gained[r]


@compiled
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
            below = joint[r, g] - top
            joint[r, g] = 1.0 if below == 0 else np.exp(below) if below > NEGLIGIBLE else 0.0
            share += joint[r, g]
        if share > 1:  # most rows have one component only
            for g in range(G):
                joint[r, g] /= share
            top += np.log(share)
        total += weights[r] * top
    return total


@compiled
def moments(
    X: Any,
    weights: Any,
    z: Any,
    certain: Any,
    units: Any,
    rounding: Any,
    density: Any,
    room: Any,
    work: Any,
    near: Any,
    sums: Any,
) -> None:
    """Add Σz, Σz(x − μ), ΣzΔ, Σz(x − μ)(x − μ)ᵀ and Σzβ(x − μ)(x − μ)ᵀ to the sums.

    Their shapes are (G,), (G, p) and (G, p); the fourth is flat and has the lower triangles of the blocks; the last has
    shape (G, q, p) for q common factors. The rows with z > 0 are listed in near (m,). If values are missing, they are
    filled, and their conditional covariances are weighted by certain (m, G); it is None if there are none.
    """
    rounded, variances, codes = rounding
    weight, excess, blur, scatter, cross = sums
    tile, centered, _, vectors, distances = room
    root, own, unused = vectors[0], vectors[1], distances[0]
    for g in range(z.shape[1]):
        count = 0
        for r in range(len(weights)):
            share = weights[r] * z[r, g]
            if share > 0:
                weight[g] += share
                near[count] = r
                count += 1
                for d in range(len(rounded)):
                    blur[g, rounded[d]] += share * variances[d, codes[r, d]]
        for start in range(0, count, TILE):
            n = min(TILE, count - start)
            _load(X, near, start, n, units, tile)
            _center(tile, n, g, density, centered)
            if certain is not None:
                find_missing(tile, n, near[start : start + n], rounding, work[0])
                for r in range(n):
                    own[r] = weights[near[start + r]] * certain[near[start + r], g]
                    root[r] = weights[near[start + r]] * z[near[start + r], g]
                fill(centered, g, density, work[1], work[0], own, root, (unused, distances), scatter)
            for r in range(n):
                root[r] = np.sqrt(weights[near[start + r]] * z[near[start + r], g])
            _add_excess(centered, n, root, g, density.order, excess)
            for b in range(density.first[g], density.first[g + 1]):
                _add_scatter(centered, n, density.blocks, b, scatter)
            for a in range(cross.shape[1]):
                _add_cross(centered, n, g, a, density, root, cross)


@inlined
def _add_excess(centered: Any, n: Any, root: Any, g: Any, order: Any, excess: Any) -> None:
    """Multiply n centered rows by the roots of their shares, and add Σz(x − μ)."""
    for i in range(len(centered)):
        total = 0.0
        for r in range(n):
            centered[i, r] *= root[r]
            total += root[r] * centered[i, r]
        excess[g, order[g, i]] += total


@inlined
def _add_cross(centered: Any, n: Any, g: Any, a: Any, density: Any, score: Any, cross: Any) -> None:
    """Add the products of the columns with the score of the rows on a common factor, which is written to `score`."""
    for r in range(n):
        score[r] = 0
    for i in range(len(centered)):
        w = density.slopes[g, a, i]
        for r in range(n):
            score[r] += w * centered[i, r]
    for i in range(len(centered)):
        total = 0.0
        for r in range(n):
            total += score[r] * centered[i, r]
        cross[g, a, density.order[g, i]] += total


@inlined
def _add_scatter(centered: Any, n: Any, blocks: Any, b: Any, scatter: Any) -> None:
    """Add the products of the columns of block b, its lower triangle, over n rows."""
    lo, hi, offset = blocks[b, 0], blocks[b, 1], blocks[b, 2]
    for i in range(hi - lo):
        for j in range(i + 1):
            total = 0.0
            for r in range(n):
                total += centered[lo + i, r] * centered[lo + j, r]
            scatter[offset + i * (hi - lo) + j] += total


@compiled
def center(X: Any, rows: Any, share: Any, units: Any, mean: Any, centered: Any) -> None:
    """Write √share (x − μ) of some rows, standardized, to centered (k, p); in NumPy a regroup takes twice the time."""
    location, inverse = units
    for i in range(len(rows)):
        root = np.sqrt(share[rows[i]])
        for j in range(len(mean)):
            centered[i, j] = ((X[rows[i], j] - location[j]) * inverse[j] - mean[j]) * root


@compiled
def student_densities(joint: Any, level: Any, freedom: Any, constants: Any, observed: Any, u: Any) -> None:
    """Turn −½δ (m, G) into level_g + c_g − ½(ν_g + p) log(1 + δ/ν_g) in place, and write u = (ν_g + p)/(ν_g + δ).

    p is the number of columns that a row has, `observed` (m,); c_g are the constants (G, p + 1) for that number.
    """
    m, G = joint.shape
    for r in range(m):
        p = observed[r]
        for g in range(G):
            total = freedom[g] + p
            distance = -2 * joint[r, g]
            joint[r, g] = level[g] + constants[g, p] - 0.5 * total * np.log1p(distance / freedom[g])
            u[r, g] = total / (freedom[g] + distance)


@compiled
def reweight(weights: Any, z: Any, u: Any, expected_logs: Any, observed: Any, weight: Any, tail: Any) -> None:
    """Add Σz and Σz(E log u − u) to sums of shape (G,), and multiply z (m, G) by u in place.

    E log u is log u + `expected_logs` (G, p + 1) for the number of columns that a row has.
    """
    m, G = z.shape
    for r in range(m):
        for g in range(G):
            share = weights[r] * z[r, g]
            if share > 0:
                weight[g] += share
                if u[r, g] > 0:  # 0 where the distance overflows
                    tail[g] += share * (np.log(u[r, g]) + expected_logs[g, observed[r]] - u[r, g])
                z[r, g] *= u[r, g]


@compiled
def profile(weights: Any, z: Any, halves: Any, freedom: Any, constants: Any, observed: Any, sums: Any) -> None:
    """Add Σz [c − ½(ν + p) log(1 + δ/ν)] to the sums for candidates ν, shape (G, M); `halves` (m, G) are −½δ."""
    m, G = z.shape
    for r in range(m):
        p = observed[r]
        for g in range(G):
            share = weights[r] * z[r, g]
            if share > 0 and halves[r, g] > -np.inf:
                for k in range(freedom.shape[1]):
                    nu = freedom[g, k]
                    sums[g, k] += share * (constants[g, k, p] - 0.5 * (nu + p) * np.log1p(-2 * halves[r, g] / nu))
