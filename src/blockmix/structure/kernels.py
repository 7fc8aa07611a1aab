"""Compiled loops over trees of columns: correlations, log-determinants and trees of strongest correlations.

Importing this module loads Numba, so callers import it inside their functions. Columns of R are in the order of the
leaves of a tree of columns in SciPy's format, and node v holds the columns ``span[v, 0]`` to ``span[v, 1]``.
Correlations are given by `Entries`, as arrays or as rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from blockmix.structure.types import FloatArray, IntArray

compiled = njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})


@compiled
def entry(S: Any, i: int, j: int) -> float:
    """Entry of a matrix that is given by `Entries`; i ≠ j unless it is dense."""
    dense, left, right, _ = S
    if len(left) == 0:
        return np.float64(dense[i, j])
    value = 0.0
    for k in range(left.shape[1]):
        value += left[i, k] * right[j, k]
    return value


@compiled
def tree_deviances(R: Any, tree: Any, span: Any) -> Any:
    """C + Σ log(1 − r²) over the edges, at every node from 3 columns on, else infinite, shape (2p − 1,).

    R is given by `Entries`.
    """
    p = len(tree) + 1
    gains = np.zeros(2 * p - 1)
    deviances = np.full(2 * p - 1, np.inf)
    for k in range(p - 1):
        left, right = np.intp(tree[k, 0]), np.intp(tree[k, 1])
        small, large = span[left], span[right]
        if small[1] - small[0] > large[1] - large[0]:
            small, large = large, small
        strongest = 0.0
        for i in range(large[0], large[1]):
            for j in range(small[0], small[1]):  # the smaller branch stays in the cache
                strongest = max(strongest, abs(entry(R, i, j)))
        gains[p + k] = gains[left] + gains[right] + np.log(1 - min(strongest**2, 1 - 1e-12))
        c = span[p + k, 1] - span[p + k, 0]
        if c > 2:
            deviances[p + k] = gains[p + k] + c
    return deviances


@compiled
def strongest_tree(S: Any) -> Any:
    """Edges (parent, child) of the spanning tree with the largest Σ r² of its kind, parents first, shape (c − 1, 2)."""
    c = len(S)
    edges = np.empty((c - 1, 2), dtype=np.intp)
    strength, parent = np.full(c, -1.0), np.zeros(c, dtype=np.intp)
    inside = np.zeros(c, dtype=np.bool_)
    inside[0] = True
    new = 0
    for k in range(c - 1):
        best = -1
        for j in range(c):
            if inside[j]:
                continue
            r = S[new, j] ** 2 / (S[new, new] * S[j, j])
            if r > strength[j]:
                strength[j], parent[j] = r, new
            if best < 0 or strength[j] > strength[best]:
                best = j
        edges[k, 0], edges[k, 1] = parent[best], best
        inside[best] = True
        new = best
    return edges


@compiled
def tree_covariance(S: Any, edges: Any) -> Any:
    """The covariance with the variances of S and its correlations along the edges, and the deviance from S."""
    c = len(S)
    covariance = np.zeros((c, c))
    reached = np.empty(c, dtype=np.intp)
    first = edges[0, 0] if c > 1 else 0
    covariance[first, first] = S[first, first]
    reached[0] = first
    deviance = c + np.log(S[first, first])
    for k in range(c - 1):
        parent, child = edges[k]
        slope = S[parent, child] / S[parent, parent]
        for i in range(k + 1):
            value = slope * covariance[parent, reached[i]]
            covariance[child, reached[i]] = value
            covariance[reached[i], child] = value
        covariance[child, child] = S[child, child]
        reached[k + 1] = child
        deviance += np.log(max(S[child, child] - slope * S[parent, child], 1e-12 * S[child, child]))
    return covariance, deviance


@njit(cache=True, nogil=True)
def node_logdets(R: Any, tree: FloatArray, order: IntArray, span: IntArray, largest: float) -> FloatArray:
    """log|R_AA| for the columns A of every node with fewer than `largest` columns, else 0, shape (2p − 1,).

    A node, its larger branch, the larger branch of that and so on start at the same place of the leaf order. Each is a
    leading block of the one before, so one Cholesky factor yields the determinants of all. The factors cost O(p³) in
    total, whatever the shape of the tree. R is a correlation that is given by `Entries`.
    """
    p = len(tree) + 1
    logdets, leading = np.zeros(2 * p - 1), np.empty(p)
    done = np.zeros(2 * p - 1, dtype=np.bool_)
    for top in range(2 * p - 2, p - 1, -1):
        start, stop = span[top]
        if done[top] or stop - start >= largest:
            continue
        block = np.empty((stop - start, stop - start))
        for i in range(stop - start):
            block[i, i] = 1
            for j in range(i):
                block[i, j] = block[j, i] = entry(R, order[start + i], order[start + j])
        factor = np.linalg.cholesky(block)
        total = 0.0
        for i in range(stop - start):
            total += 2 * np.log(factor[i, i])
            leading[i] = total
        node = np.intp(top)
        while node >= p:
            logdets[node], done[node] = leading[span[node, 1] - start - 1], True
            left, right = np.intp(tree[node - p, 0]), np.intp(tree[node - p, 1])
            node = left if span[left, 0] == start else right
    return logdets


@njit(cache=True, nogil=True)
def full_deviances(R: Any, tree: FloatArray, span: IntArray, largest: float) -> FloatArray:
    """log|R_v| + c of every node with fewer than `largest` columns, else infinite, shape (2p − 1,)."""
    found = node_logdets(R, tree, np.arange(len(tree) + 1), span, largest)
    for v in range(len(span)):
        c = span[v, 1] - span[v, 0]
        found[v] = found[v] + c if c < largest else np.inf
    return found


@njit(cache=True, nogil=True)
def gather(matrix: Any, columns: Any, blocks: Any, flat: Any) -> None:
    """Copy the blocks of a matrix (p, p), over these columns (p,), to a flat array."""
    for lo, hi, at in blocks:
        for i in range(hi - lo):
            for j in range(hi - lo):
                flat[at + i * (hi - lo) + j] = matrix[columns[lo + i], columns[lo + j]]
