"""Compiled loops of the shapes of a block: factor analysis by EM, and trees of strongest correlations.

Importing this module loads Numba, so callers import it inside their functions. Columns of R are in the order of the
leaves of a tree of columns in SciPy's format, and node v holds the columns ``span[v, 0]`` to ``span[v, 1]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from blockmix.structure.types import FloatArray, IntArray

_compiled = njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})

_FLOOR = 0.005  # least share of its variance that a column has of its own (Heywood cases end here)
_NODE_STEPS = 5  # of EM at each node: the choice of groups agrees with that of converged factors


@_compiled
def _inverse(M: Any, inverse: Any) -> float:
    """Inverse of a small positive definite matrix; returns its log-determinant."""
    q = len(M)
    L = np.zeros((q, q))
    logdet = 0.0
    for i in range(q):
        for j in range(i + 1):
            value = M[i, j]
            for k in range(j):
                value -= L[i, k] * L[j, k]
            if i == j:
                L[i, i] = np.sqrt(max(value, 1e-300))
                logdet += 2 * np.log(L[i, i])
            else:
                L[i, j] = value / L[j, j]
    W = np.zeros((q, q))
    for j in range(q):
        W[j, j] = 1 / L[j, j]
        for i in range(j + 1, q):
            value = 0.0
            for k in range(j, i):
                value -= L[i, k] * W[k, j]
            W[i, j] = value / L[i, i]
    for i in range(q):
        for j in range(q):
            value = 0.0
            for k in range(max(i, j), q):
                value += W[k, i] * W[k, j]
            inverse[i, j] = value
    return logdet


@_compiled
def _scores(loadings: Any, noise: Any, B: Any, inverse: Any) -> float:
    """Weights B = Ψ⁻¹Λ M⁻¹ of the factor scores, M = I + ΛᵀΨ⁻¹Λ; returns log|M|."""
    c, q = loadings.shape
    M = np.eye(q)
    for i in range(c):
        for a in range(q):
            for b in range(q):
                M[a, b] += loadings[i, a] * loadings[i, b] / noise[i]
    logdet = _inverse(M, inverse)
    for i in range(c):
        for a in range(q):
            value = 0.0
            for b in range(q):
                value += loadings[i, b] * inverse[b, a]
            B[i, a] = value / noise[i]
    return logdet


@_compiled
def entry(S: Any, i: int, j: int) -> float:
    """Entry of a matrix that is given by `Entries`, i ≠ j."""
    dense, left, right, _ = S
    if len(left) == 0:
        return np.float64(dense[i, j])
    value = 0.0
    for k in range(left.shape[1]):
        value += left[i, k] * right[j, k]
    return value


@_compiled
def _product(S: Any, lo: int, hi: int, start: int, stop: int, B: Any, found: Any) -> None:
    """Rows [lo, hi) and columns [start, stop) of a matrix that is given by `Entries`, times B, (stop − start, q)."""
    dense, left, right, spare = S
    q = B.shape[1]
    if len(left) == 0:
        for a in range(q):
            for i in range(lo, hi):
                value = 0.0
                for j in range(start, stop):
                    value += dense[i, j] * B[j - start, a]
                found[i - lo, a] = value
        return
    for a in range(q):
        total = np.zeros(right.shape[1])
        for j in range(start, stop):
            for k in range(len(total)):
                total[k] += right[j, k] * B[j - start, a]
        for i in range(lo, hi):
            value = spare[i] * B[i - start, a] if start <= i < stop else 0.0
            for k in range(len(total)):
                value += left[i, k] * total[k]
            found[i - lo, a] = value


@_compiled
def factor_step(S: Any, lo: int, loadings: Any, noise: Any, least: Any, B: Any, SB: Any) -> float:
    """One step of parameter-expanded EM for c columns from lo on, in place; returns the deviance before it.

    Θ = M⁻¹ + BᵀSB = CCᵀ; Λ ← SB C⁻ᵀ; ψ ← max(diag S − rowsum Λ², least). S is given by `Entries`, and has a diagonal of
    1 if it is not dense.
    """
    dense = S[0]
    c, q = loadings.shape
    theta = np.empty((q, q))
    deviance = _scores(loadings, noise, B, theta)
    _product(S, lo, lo + c, lo, lo + c, B, SB)
    for a in range(q):
        for i in range(c):
            deviance -= loadings[i, a] * SB[i, a] / noise[i]
    for i in range(c):
        deviance += np.log(noise[i]) + (dense[lo + i, lo + i] if len(dense) else 1.0) / noise[i]
        for a in range(q):
            for b in range(q):
                theta[a, b] += B[i, a] * SB[i, b]
    C = np.zeros((q, q))
    for a in range(q):
        for b in range(a + 1):
            value = theta[a, b]
            for k in range(b):
                value -= C[a, k] * C[b, k]
            C[a, b] = np.sqrt(max(value, 1e-300)) if a == b else value / C[b, b]
    for i in range(c):
        own = dense[lo + i, lo + i] if len(dense) else 1.0
        for a in range(q):
            value = SB[i, a]
            for b in range(a):
                value -= C[a, b] * loadings[i, b]
            loadings[i, a] = value / C[a, a]
            own -= loadings[i, a] ** 2
        noise[i] = max(own, least[i])
    return deviance


@_compiled
def factor_fit(S: Any, loadings: Any, noise: Any, tolerance: float, max_steps: int) -> float:
    """EM until the deviance falls by less than the tolerance, in place; returns the deviance reached.

    The floor of the noise is lowered to the start where that is below it, so that no step is for the worse.
    """
    c, q = loadings.shape
    none = np.empty((0, 0))
    given = (S, none, none, np.empty(0))
    least, B, SB = np.empty(c), np.empty((c, q)), np.empty((c, q))
    for i in range(c):
        least[i] = min(_FLOOR * S[i, i], noise[i])
    before = np.inf
    for _ in range(max_steps):
        deviance = factor_step(given, 0, loadings, noise, least, B, SB)
        if before - deviance < tolerance:
            break
        before = deviance
    old, own = loadings.copy(), noise.copy()
    deviance = factor_step(given, 0, old, own, least, B, SB)
    return deviance


@_compiled
def _join(R: Any, lo: int, hi: int, stop: int, loadings: Any, noise: Any, B: Any) -> None:
    """Loadings of the columns of [stop, hi) on the factors of those of [lo, stop), by regression."""
    q = loadings.shape[1]
    inverse = np.empty((q, q))
    _scores(loadings[lo:stop], noise[lo:stop], B, inverse)
    _product(R, stop, hi, lo, stop, B[: stop - lo], loadings[stop:hi])
    for i in range(stop, hi):
        shared = 0.0
        for a in range(q):
            shared += loadings[i, a] ** 2
        if shared > 0.9:
            for a in range(q):
                loadings[i, a] *= np.sqrt(0.9 / shared)
            shared = 0.9
        noise[i] = 1 - shared


@_compiled
def _copy(source: Any, lo: int, target: Any, at: int, noise: Any, target_noise: Any, c: int) -> None:
    """Copy loadings and noise of c columns, loadings that the source lacks as 0; slices take long to compile."""
    for i in range(c):
        for a in range(target.shape[1]):
            target[at + i, a] = source[lo + i, a] if a < source.shape[1] else 0.0
        target_noise[at + i] = noise[lo + i]


@_compiled
def _settle(R: Any, lo: int, hi: int, loadings: Any, noise: Any, least: Any, B: Any, SB: Any, steps: int) -> float:
    """A few steps of EM for the columns of [lo, hi), in place; returns the deviance before the last."""
    c, deviance = hi - lo, 0.0
    for _ in range(steps):
        deviance = factor_step(R, lo, loadings[lo:hi], noise[lo:hi], least[lo:hi], B[:c], SB[:c])
    return deviance


@_compiled
def _one_factor(R: Any, lo: int, hi: int, stop: int, one: Any, noise: Any, least: Any, work: Any) -> float:
    """One factor of a node, from that of its larger branch [lo, stop), in place; returns the deviance."""
    if hi - lo > 2:
        _join(R, lo, hi, stop, one, noise, work[0])
        return _settle(R, lo, hi, one, noise, least, work[0], work[1], _NODE_STEPS)
    r = entry(R, lo, lo + 1)
    size = np.sqrt(min(abs(r), 0.9))
    one[lo, 0], one[lo + 1, 0] = size, size if r >= 0 else -size
    noise[lo] = noise[lo + 1] = 1 - size * size
    return np.inf


@_compiled
def factor_deviances(R: Any, tree: Any, span: Any, q: int) -> Any:
    """Deviance of q factors at every node of c > q columns with (c − q)² > c + q, else infinite, shape (2p − 1,).

    R is given by `Entries`. A node starts from the factors of its larger branch, which has its first columns, or if
    that is better from one factor of each branch.
    """
    p = len(tree) + 1
    deviances, least = np.full(2 * p - 1, np.inf), np.full(p, _FLOOR)
    one, one_noise, small = np.zeros((p, 1)), np.ones(p), (np.empty((p, 1)), np.empty((p, 1)))
    many, noise = np.zeros((p, q)), np.ones(p)
    apart, apart_noise = np.zeros((p, q)), np.ones(p)
    trial, trial_noise = np.zeros((p, q)), np.ones(p)
    B, SB = np.empty((p, q)), np.empty((p, q))
    for k in range(p - 1):
        lo, hi = span[p + k]
        c, left = hi - lo, np.intp(tree[k, 0])
        stop = span[left if span[left, 0] == lo else np.intp(tree[k, 1]), 1]
        _copy(one, lo, apart, lo, one_noise, apart_noise, c)
        for i in range(stop, hi):
            if q > 1:
                apart[i, 0], apart[i, 1] = 0.0, one[i, 0]
        deviance = _one_factor(R, lo, hi, stop, one, one_noise, least, small)
        if c <= q or (c - q) ** 2 <= c + q:
            _copy(one, lo, many, lo, one_noise, noise, c)
        elif q == 1:
            deviances[p + k] = deviance
        else:
            if hi - stop == 1:
                apart[stop, 1], apart_noise[stop] = 0.3, 0.9
            _join(R, lo, hi, stop, many, noise, B)
            _copy(many, lo, trial, lo, noise, trial_noise, c)
            ahead = _settle(R, lo, hi, trial, trial_noise, least, B, SB, 1)
            _copy(apart, lo, trial, lo, apart_noise, trial_noise, c)
            if _settle(R, lo, hi, trial, trial_noise, least, B, SB, 1) < ahead:
                _copy(apart, lo, many, lo, apart_noise, noise, c)
            deviances[p + k] = _settle(R, lo, hi, many, noise, least, B, SB, _NODE_STEPS)
    return deviances


@_compiled
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


@_compiled
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


@_compiled
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
