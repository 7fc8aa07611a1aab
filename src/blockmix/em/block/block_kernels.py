"""Compiled loops over the blocks of covariances: where they lie, scatters, Cholesky factors (paper, section 3).

Block b of component g holds the columns ``order[g, lo:hi]`` with ``lo, hi, at = blocks[b]``; its matrix, row by row,
starts at ``at`` of a flat array. The blocks of component g are ``first[g]`` to ``first[g + 1]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from blockmix.em.block.gap_kernels import compiled as _compiled


@_compiled
def recenter(scatter: Any, weight: Any, shift: Any, order: Any, blocks: Any, first: Any) -> None:
    """Move the flat scatter from the old means to the new: subtract n_g d dᵀ with d = shift[g]; lower triangles."""
    for g in range(len(weight)):
        for lo, hi, at in blocks[first[g] : first[g + 1]]:
            for i in range(hi - lo):
                d = weight[g] * shift[g, order[g, lo + i]]
                for j in range(i + 1):
                    scatter[at + i * (hi - lo) + j] -= d * shift[g, order[g, lo + j]]


@_compiled
def block_places(labels: Any) -> Any:
    """Order of the columns, blocks and first blocks of covariances whose columns have these groups (covariances, p)."""
    n, p = labels.shape
    order, first, at = np.empty((n, p), np.intp), np.zeros(n + 1, np.intp), 0
    for g in range(n):
        for j in range(p):
            first[g + 1] = max(first[g + 1], first[g] + labels[g, j] + 1)
    blocks = np.zeros((first[n], 3), np.intp)
    for g in range(n):
        own = blocks[first[g] : first[g + 1]]
        for j in range(p):
            own[labels[g, j], 1] += 1  # the size, until the places are known
        lo = 0
        for k in range(len(own)):
            c = own[k, 1]
            own[k, 0], own[k, 1], own[k, 2] = lo, lo, at
            lo += c
            at += c * c
        for j in range(p):
            order[g, own[labels[g, j], 1]] = j
            own[labels[g, j], 1] += 1
    return order, blocks, first


@_compiled
def normalize(flat: Any, added: Any, divisors: Any, order: Any, blocks: Any, first: Any) -> Any:
    """Add to the diagonals of flat scatters (covariances, p) and divide by (covariances,), in place; symmetric blocks.

    Returns the least variance of each covariance.
    """
    least = np.full(len(divisors), np.inf)
    for g in range(len(divisors)):
        for lo, hi, at in blocks[first[g] : first[g + 1]]:
            c = hi - lo
            for i in range(c):
                for j in range(i):
                    flat[at + i * c + j] /= divisors[g]
                    flat[at + j * c + i] = flat[at + i * c + j]
                flat[at + i * c + i] = (flat[at + i * c + i] + added[g, order[g, lo + i]]) / divisors[g]
                least[g] = min(least[g], flat[at + i * c + i])
    return least


@_compiled
def half_logdets(blocks: Any, factors: Any) -> Any:
    """Sums of the logs of the diagonals of triangular blocks, shape (blocks,)."""
    found = np.zeros(len(blocks))
    for b in range(len(blocks)):
        lo, hi, at = blocks[b]
        for i in range(hi - lo):
            found[b] += np.log(np.float64(factors[at + i * (hi - lo + 1)]))
    return found


@_compiled
def summaries(weights: Any, whiteners: Any, order: Any, blocks: Any, first: Any) -> Any:
    """log|Σ_g| and log π_g − ½ log|2π Σ_g|, shapes (G,), and the diagonals of Σ_g⁻¹, shape (G, p)."""
    G, p = order.shape
    logdets, levels, precisions = np.zeros(G), np.empty(G), np.zeros((G, p))
    for g in range(G):
        for lo, hi, at in blocks[first[g] : first[g + 1]]:
            for i in range(hi - lo):
                logdets[g] -= 2 * np.log(whiteners[at + i * (hi - lo + 1)])
                for j in range(i + 1):
                    precisions[g, order[g, lo + j]] += whiteners[at + i * (hi - lo) + j] ** 2
        levels[g] = np.log(weights[g]) - 0.5 * (logdets[g] + p * np.log(2 * np.pi))
    return logdets, levels, precisions


@_compiled
def factorize(blocks: Any, flat: Any, factors: Any, largest: Any) -> Any:
    """Cholesky factors of blocks of at most `largest` columns; −1, or the first block that is not positive definite."""
    for b in range(len(blocks)):
        lo, hi, at = blocks[b]
        c = hi - lo
        if c > largest:
            continue
        for i in range(c):
            for j in range(i + 1):
                value = flat[at + i * c + j]
                for k in range(j):
                    value -= factors[at + i * c + k] * factors[at + j * c + k]
                if j < i:
                    factors[at + i * c + j] = value / factors[at + j * c + j]
                elif value > 0:
                    factors[at + i * c + i] = np.sqrt(value)
                else:
                    return b
    return -1


@_compiled
def invert(blocks: Any, factors: Any, whiteners: Any, largest: Any) -> None:
    """Inverses of lower triangular factors of at most `largest` columns, by forward substitution."""
    for lo, hi, at in blocks:
        c = hi - lo
        if c > largest:
            continue
        for j in range(c):
            whiteners[at + j * c + j] = 1 / factors[at + j * c + j]
            for i in range(j + 1, c):
                value = 0.0
                for k in range(j, i):
                    value -= factors[at + i * c + k] * whiteners[at + k * c + j]
                whiteners[at + i * c + j] = value / factors[at + i * c + i]
