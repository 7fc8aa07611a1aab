"""Compiled loops of the shapes of a block: factor analysis by EM, and trees of strongest correlations.

Importing this module loads Numba, so callers import it inside their functions. Columns of R are in the order of the
leaves of a tree of columns in SciPy's format, and node v holds the columns ``span[v, 0]`` to ``span[v, 1]``. Loadings
have shape (q, p): the long loops run over the columns.
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
def _invert(M: Any) -> float:
    """Invert a small positive definite matrix in place, by Gauss and Jordan; returns its log-determinant."""
    q, logdet = len(M), 0.0
    for k in range(q):
        pivot = max(M[k, k], 1e-300)
        logdet += np.log(pivot)
        M[k, k] = 1
        for j in range(q):
            M[k, j] /= pivot
        for i in range(q):
            if i != k:
                factor = M[i, k]
                M[i, k] = 0
                for j in range(q):
                    M[i, j] -= factor * M[k, j]
    return logdet


@_compiled
def _scores(lo: int, hi: int, loadings: Any, noise: Any, B: Any, M: Any) -> float:
    """Weights B = M⁻¹ΛᵀΨ⁻¹ of the factor scores, M = I + ΛᵀΨ⁻¹Λ; returns log|M| and leaves M⁻¹ in M."""
    q = len(loadings)
    for a in range(q):
        for b in range(a + 1):
            value = 1.0 if a == b else 0.0
            for i in range(lo, hi):
                value += loadings[a, i] * loadings[b, i] / noise[i]
            M[a, b] = M[b, a] = value
    logdet = _invert(M)
    for a in range(q):
        for i in range(lo, hi):
            B[a, i] = 0
        for b in range(q):
            for i in range(lo, hi):
                B[a, i] += M[a, b] * loadings[b, i] / noise[i]
    return logdet


@_compiled
def factor_step(S: Any, lo: int, hi: int, loadings: Any, noise: Any, least: Any, work: Any) -> float:
    """One step of parameter-expanded EM, in place; returns the deviance before it.

    Θ = M⁻¹ + BSBᵀ = CCᵀ; Λ ← SBᵀ C⁻ᵀ; ψ ← max(diag S − rowsum Λ², least).
    """
    B, SB, theta, C = work
    q = len(loadings)
    deviance = _scores(lo, hi, loadings, noise, B, theta)
    for i in range(lo, hi):
        deviance += np.log(noise[i]) + S[i, i] / noise[i]
        for a in range(q):
            value = 0.0
            for j in range(lo, hi):
                value += S[i, j] * B[a, j]
            SB[a, i] = value
            deviance -= loadings[a, i] * value / noise[i]
    for a in range(q):
        for b in range(a + 1):
            value = theta[a, b]
            for i in range(lo, hi):
                value += B[a, i] * SB[b, i]
            for k in range(b):
                value -= C[a, k] * C[b, k]
            C[a, b] = np.sqrt(max(value, 1e-300)) if a == b else value / C[b, b]
    for i in range(lo, hi):
        own = S[i, i]
        for a in range(q):
            value = SB[a, i]
            for b in range(a):
                value -= C[a, b] * loadings[b, i]
            loadings[a, i] = value / C[a, a]
            own -= loadings[a, i] ** 2
        noise[i] = max(own, least[i])
    return deviance


@_compiled
def _workspace(q: int, p: int) -> Any:
    """Room for the steps of EM: B, SB, Θ and C."""
    return np.empty((q, p)), np.empty((q, p)), np.empty((q, q)), np.empty((q, q))


@_compiled
def factor_fit(S: Any, lo: int, hi: int, loadings: Any, noise: Any, tolerance: float, max_steps: int) -> float:
    """EM for columns lo = 0 to hi until the deviance falls by less than the tolerance, in place; returns the deviance.

    The floor of the noise is lowered to the start where that is below it, so that no step is for the worse. The bounds
    are arguments because a literal 0 would have the steps compiled again.
    """
    q, c = loadings.shape
    least, work = np.empty(c), _workspace(q, c)
    old, own = np.empty((q, c)), np.empty(c)
    for i in range(c):
        least[i] = min(_FLOOR * S[i, i], noise[i])
    before = np.inf
    for step in range(max_steps + 1):
        _copy(lo, hi, loadings, noise, old, own)
        deviance = factor_step(S, lo, hi, loadings, noise, least, work)
        if before - deviance < tolerance or step == max_steps:
            break
        before = deviance
    # The deviance is that before the last step, which is taken back.
    _copy(lo, hi, old, own, loadings, noise)
    return deviance


@_compiled
def _copy(lo: int, hi: int, source: Any, noise: Any, target: Any, target_noise: Any) -> None:
    """Copy loadings and noise of the columns lo to hi; loadings that the source lacks are 0."""
    for i in range(lo, hi):
        for a in range(len(target)):
            target[a, i] = source[a, i] if a < len(source) else 0.0
        target_noise[i] = noise[i]


@_compiled
def _join(R: Any, lo: int, hi: int, start: int, stop: int, loadings: Any, noise: Any, work: Any) -> None:
    """Loadings of the columns of [lo, hi) outside [start, stop) on the factors of those inside, by regression."""
    B, q = work[0], len(loadings)
    _scores(start, stop, loadings, noise, B, work[2])
    for i in range(lo, hi):
        if start <= i < stop:
            continue
        shared = 0.0
        for a in range(q):
            value = 0.0
            for j in range(start, stop):
                value += R[i, j] * B[a, j]
            loadings[a, i] = value
            shared += value * value
        if shared > 0.9:
            for a in range(q):
                loadings[a, i] *= np.sqrt(0.9 / shared)
            shared = 0.9
        noise[i] = 1 - shared


@_compiled
def _one_factor(R: Any, lo: int, hi: int, start: int, stop: int, one: Any, noise: Any, least: Any, work: Any) -> float:
    """One factor of a node, from that of its larger branch [start, stop), in place; returns the deviance."""
    deviance = np.inf
    if hi - lo > 2:
        _join(R, lo, hi, start, stop, one, noise, work)
        for _ in range(_NODE_STEPS):
            deviance = factor_step(R, lo, hi, one, noise, least, work)
        return deviance
    r = R[lo, lo + 1]
    size = np.sqrt(min(abs(r), 0.9))
    one[0, lo], one[0, lo + 1] = size, size if r >= 0 else -size
    noise[lo] = noise[lo + 1] = 1 - size * size
    return deviance


@_compiled
def factor_deviances(R: Any, tree: Any, span: Any, q: int) -> Any:
    """Deviance of q factors at every node of c > q columns with (c − q)² > c + q, else infinite, shape (2p − 1,).

    A node starts from the factors of its larger branch, or if that is better from one factor of each branch.
    """
    p = len(R)
    deviances, least = np.full(2 * p - 1, np.inf), np.full(p, _FLOOR)
    one, one_noise, small = np.zeros((1, p)), np.ones(p), _workspace(1, p)
    many, noise, work = np.zeros((q, p)), np.ones(p), _workspace(q, p)
    apart, apart_noise = np.zeros((q, p)), np.ones(p)
    trial, trial_noise = np.zeros((q, p)), np.ones(p)
    for k in range(p - 1):
        lo, hi = span[p + k, 0], span[p + k, 1]
        c, left = hi - lo, np.intp(tree[k, 0])
        larger = left if span[left, 0] == lo else np.intp(tree[k, 1])
        start, stop = span[larger, 0], span[larger, 1]
        _copy(lo, hi, one, one_noise, apart, apart_noise)
        for i in range(stop, hi):
            if q > 1:
                apart[0, i], apart[1, i] = 0.0, one[0, i]
        deviance = _one_factor(R, lo, hi, start, stop, one, one_noise, least, small)
        if c <= q or (c - q) ** 2 <= c + q:
            _copy(lo, hi, one, one_noise, many, noise)
        elif q == 1:
            deviances[p + k] = deviance
        else:
            if hi - stop == 1:
                apart[1, stop], apart_noise[stop] = 0.3, 0.9
            _join(R, lo, hi, start, stop, many, noise, work)
            _copy(lo, hi, many, noise, trial, trial_noise)
            ahead = factor_step(R, lo, hi, trial, trial_noise, least, work)
            _copy(lo, hi, apart, apart_noise, trial, trial_noise)
            if factor_step(R, lo, hi, trial, trial_noise, least, work) < ahead:
                _copy(lo, hi, apart, apart_noise, many, noise)
            for _ in range(_NODE_STEPS):
                deviances[p + k] = factor_step(R, lo, hi, many, noise, least, work)
    return deviances


@_compiled
def tree_deviances(R: Any, tree: Any, span: Any) -> Any:
    """C + Σ log(1 − r²) over the edges, at every node from 3 columns on, else infinite, shape (2p − 1,)."""
    p = len(R)
    gains = np.zeros(2 * p - 1)
    deviances = np.full(2 * p - 1, np.inf)
    for k in range(p - 1):
        left, right = np.intp(tree[k, 0]), np.intp(tree[k, 1])
        strongest = 0.0
        for i in range(span[left, 0], span[left, 1]):
            for j in range(span[right, 0], span[right, 1]):
                strongest = max(strongest, abs(R[i, j]))
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
def node_logdets(R: FloatArray, tree: FloatArray, order: IntArray, span: IntArray, largest: float) -> FloatArray:
    """log|R_AA| for the columns A of every node with fewer than `largest` columns, else 0, shape (2p − 1,).

    A node, its larger branch, the larger branch of that and so on start at the same place of the leaf order. Each is a
    leading block of the one before, so one Cholesky factor yields the determinants of all. The factors cost O(p³) in
    total, whatever the shape of the tree.
    """
    p = len(R)
    logdets, leading = np.zeros(2 * p - 1), np.empty(p)
    done = np.zeros(2 * p - 1, dtype=np.bool_)
    for top in range(2 * p - 2, p - 1, -1):
        start, stop = span[top]
        if done[top] or stop - start >= largest:
            continue
        block = np.empty((stop - start, stop - start))
        for i in range(stop - start):
            for j in range(stop - start):
                block[i, j] = R[order[start + i], order[start + j]]
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
