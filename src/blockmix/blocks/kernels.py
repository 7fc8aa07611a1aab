"""Compiled loops over trees of columns: correlations, log-determinants and trees of strongest correlations.

Importing this module loads Numba, so callers import it inside their functions. Columns of R are in the order of the
leaves of a tree of columns in SciPy's format, and node v holds the columns ``span[v, 0]`` to ``span[v, 1]``.
Correlations are given by `Entries`, as arrays or as rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np
from numba import njit

from blockmix.partition import FloatArray, IntArray

F = TypeVar("F")


def jit(**options: Any) -> Callable[[F], F]:
    """Decorate a loop to be compiled at its first call, and stored where Numba finds a folder to write to.

    Numba raises an exception if there is no such folder, or if it is full. Here the loop is compiled again instead.
    """

    def decorated(loop: F) -> F:
        dispatcher: Any = njit(nogil=True, **options)(loop)
        try:
            dispatcher.enable_caching()
        except RuntimeError:
            _warn_not_stored()
        else:
            store = dispatcher._cache
            store.save_overload = partial(_store, store.save_overload)
        return dispatcher  # type: ignore[no-any-return]

    return decorated


def _store(save: Callable[..., object], *compilation: Any) -> None:
    try:
        save(*compilation)
    except OSError:
        _warn_not_stored()


@cache  # once
def _warn_not_stored() -> None:
    remedy = "set NUMBA_CACHE_DIR to a folder with space that can be written to"
    warnings.warn(f"compiled loops cannot be stored, so each process compiles them again: {remedy}", stacklevel=2)


# Sums may be reordered and multiplications fused; infinities keep their meaning: log 0 is a log-weight.
FAST = {"reassoc", "contract", "arcp", "nsz"}
compiled = jit(error_model="numpy", fastmath=FAST)


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
    """Edges (parent, child) of the tree with the largest Σ r², parents first, shape (c − 1, 2), and its covariance.

    The covariance has the variances of S and its covariances along the edges. The third value is its deviance from S.
    """
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
    covariance = np.zeros((c, c))
    covariance[0, 0] = S[0, 0]
    reached = np.zeros(c, dtype=np.intp)
    deviance = c + np.log(S[0, 0])
    for k in range(c - 1):
        source, child = edges[k]
        slope = S[source, child] / S[source, source]
        for i in range(k + 1):
            value = slope * covariance[source, reached[i]]
            covariance[child, reached[i]] = value
            covariance[reached[i], child] = value
        covariance[child, child] = S[child, child]
        reached[k + 1] = child
        deviance += np.log(max(S[child, child] - slope * S[source, child], 1e-12 * S[child, child]))
    return edges, covariance, deviance


@jit()
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


@jit()
def full_deviances(R: Any, tree: FloatArray, span: IntArray, largest: float) -> FloatArray:
    """log|R_v| + c of every node with fewer than `largest` columns, else infinite, shape (2p − 1,)."""
    deviances = node_logdets(R, tree, np.arange(len(tree) + 1), span, largest)
    for v in range(len(span)):
        c = span[v, 1] - span[v, 0]
        deviances[v] = deviances[v] + c if c < largest else np.inf
    return deviances


_FLOOR = 0.005  # least share of its variance that a column has of its own (Heywood cases end here)
_NODE_STEPS = 5  # of EM at each node: the choice of groups agrees with that of converged factors
_TRIAL_STEPS = 3  # of these, after which two starts are compared


@compiled
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


@compiled
def _scores(lo: int, hi: int, loadings: Any, noise: Any, B: Any, scaled: Any, M: Any) -> float:
    """Weights B = M⁻¹ΛᵀΨ⁻¹ of the factor scores, M = I + ΛᵀΨ⁻¹Λ; returns log|M| and leaves M⁻¹ in M."""
    q = len(loadings)
    for a in range(q):
        for i in range(lo, hi):
            scaled[a, i] = loadings[a, i] / noise[i]
        for b in range(a + 1):
            value = 1.0 if a == b else 0.0
            for i in range(lo, hi):
                value += scaled[a, i] * loadings[b, i]
            M[a, b] = M[b, a] = value
    logdet = _invert(M)
    for a in range(q):
        for i in range(lo, hi):
            B[a, i] = M[a, 0] * scaled[0, i]
        for b in range(1, q):
            for i in range(lo, hi):
                B[a, i] += M[a, b] * scaled[b, i]
    return logdet


@compiled
def _product(S: Any, lo: int, hi: int, start: int, stop: int, B: Any, products: Any) -> None:
    """Write S_ij B_aj, summed over the columns [start, stop), to found (q, p) for the rows [lo, hi)."""
    dense, left, right, spare = S
    for a in range(len(B)):
        if len(dense):
            odd = (stop - start) % 2
            w = B[a, start] if odd else 0.0
            for i in range(lo, hi):
                products[a, i] = w * dense[start, i]
            for j in range(start + odd, stop, 2):  # two at a time saves a tenth of `factor_deviances`
                w, v = B[a, j], B[a, j + 1]
                for i in range(lo, hi):
                    products[a, i] += w * dense[j, i] + v * dense[j + 1, i]
            continue
        total = np.zeros(right.shape[1])
        for j in range(start, stop):
            for k in range(len(total)):
                total[k] += right[j, k] * B[a, j]
        for i in range(lo, hi):
            value = spare[i] * B[a, i] if start <= i < stop else 0.0
            for k in range(len(total)):
                value += left[i, k] * total[k]
            products[a, i] = value


@compiled
def factor_step(S: Any, lo: int, hi: int, loadings: Any, noise: Any, least: Any, work: Any) -> Any:
    """One step of parameter-expanded EM, in place; returns the deviance before it.

    Θ = M⁻¹ + BSBᵀ = CCᵀ; Λ ← SBᵀ C⁻ᵀ; ψ ← max(diag S − rowsum Λ², least).
    """
    B, SB, theta, C, variances = work
    q = len(loadings)
    deviance, product = _scores(lo, hi, loadings, noise, B, SB, theta), 1.0
    _product(S, lo, hi, lo, hi, B, SB)
    for i in range(lo, hi):
        rest = variances[i]
        for a in range(q):
            rest -= loadings[a, i] * SB[a, i]
        deviance += rest / noise[i]
        product *= noise[i]
        if not 1e-200 < product < 1e200:  # one logarithm for many columns
            deviance += np.log(product)
            product = 1.0
    deviance += np.log(product)
    for a in range(q):
        for b in range(a + 1):
            value = theta[a, b]
            for i in range(lo, hi):
                value += B[a, i] * SB[b, i]
            for k in range(b):
                value -= C[a, k] * C[b, k]
            C[a, b] = np.sqrt(max(value, 1e-300)) if a == b else value / C[b, b]
    for i in range(lo, hi):
        noise[i] = variances[i]
    for a in range(q):
        for b in range(a):
            for i in range(lo, hi):
                SB[a, i] -= C[a, b] * loadings[b, i]
        for i in range(lo, hi):
            loadings[a, i] = SB[a, i] / C[a, a]
            noise[i] -= loadings[a, i] ** 2
    for i in range(lo, hi):
        noise[i] = max(noise[i], least[i])
    return deviance


@compiled
def workspace(S: Any, q: int, p: int) -> Any:
    """Room for the steps of EM: B, SB, Θ and C; and the diagonal of S, which is 1 if S is not dense."""
    variances = np.ones(p)
    for i in range(len(S[0])):
        variances[i] = S[0][i, i]
    return np.empty((q, p)), np.empty((q, p)), np.empty((q, q)), np.empty((q, q)), variances


@compiled
def factor_fit(S: Any, lo: int, hi: int, loadings: Any, noise: Any, tolerance: float, max_steps: int) -> Any:
    """EM for columns lo = 0 to hi until the deviance falls by less than the tolerance, in place; returns the deviance.

    The floor of the noise is lowered to the start where that is below it, so that no step is for the worse. The bounds
    are arguments because a literal 0 would have the steps compiled again.
    """
    q, c = loadings.shape
    least, work = np.empty(c), workspace(S, q, c)
    old, old_noise = np.empty((q, c)), np.empty(c)
    for i in range(c):
        least[i] = min(_FLOOR * work[4][i], noise[i])
    before = np.inf
    for step in range(max_steps + 1):
        _copy(lo, hi, loadings, noise, old, old_noise)
        deviance = factor_step(S, lo, hi, loadings, noise, least, work)
        if before - deviance < tolerance or step == max_steps:
            break
        before = deviance
    # The deviance is that before the last step, which is taken back.
    _copy(lo, hi, old, old_noise, loadings, noise)
    return deviance


@compiled
def _copy(lo: int, hi: int, source: Any, noise: Any, target: Any, target_noise: Any) -> None:
    """Copy loadings and noise of the columns lo to hi; loadings that the source lacks are 0."""
    for i in range(lo, hi):
        for a in range(len(target)):
            target[a, i] = source[a, i] if a < len(source) else 0.0
        target_noise[i] = noise[i]


@compiled
def _join(R: Any, lo: int, stop: int, hi: int, loadings: Any, noise: Any, work: Any) -> None:
    """Loadings of the columns of [stop, hi) on the factors of those of [lo, stop), by regression."""
    B, q = work[0], len(loadings)
    _scores(lo, stop, loadings, noise, B, work[1], work[2])
    _product(R, stop, hi, lo, stop, B, loadings)
    for i in range(stop, hi):
        shared = 0.0
        for a in range(q):
            shared += loadings[a, i] ** 2
        if shared > 0.9:
            for a in range(q):
                loadings[a, i] *= np.sqrt(0.9 / shared)
            shared = 0.9
        noise[i] = 1 - shared


@compiled
def _one_factor(R: Any, lo: int, stop: int, hi: int, one: Any, noise: Any, least: Any, work: Any) -> float:
    """One factor of a node, from that of its larger branch [lo, stop), in place; returns the deviance."""
    deviance = np.inf
    if hi - lo > 2:
        _join(R, lo, stop, hi, one, noise, work)
        for _ in range(_NODE_STEPS):
            deviance = factor_step(R, lo, hi, one, noise, least, work)
        return deviance
    r = entry(R, lo, lo + 1)
    size = np.sqrt(min(abs(r), 0.9))
    one[0, lo], one[0, lo + 1] = size, size if r >= 0 else -size
    noise[lo] = noise[lo + 1] = 1 - size * size
    return deviance


@compiled
def _apart(stop: int, hi: int, slot: int, one: Any, one_noise: Any, apart: Any, apart_noise: Any) -> None:
    """Give the columns of [stop, hi), the smaller branch of a node, factor `at` for themselves."""
    for i in range(stop, hi):
        for a in range(len(apart)):
            apart[a, i] = 0.0
        apart[slot, i], apart_noise[i] = one[0, i], one_noise[i]
    if hi - stop == 1:
        apart[slot, stop], apart_noise[stop] = 0.3, 0.9


@compiled
def factor_deviances(R: Any, tree: Any, span: Any, q: int) -> Any:
    """Deviance of q factors at every node of c > q columns with (c − q)² > c + q, else infinite, shape (2p − 1,).

    A node starts from the factors of its larger branch, which has its first columns, or if that is better from these
    and one for the smaller branch. If all are in use, each branch has one. A factor without loadings stays so in EM.
    """
    p = len(tree) + 1
    deviances, least, used = np.full(2 * p - 1, np.inf), np.full(p, _FLOOR), np.ones(2 * p - 1, np.intp)
    one, one_noise, small = np.zeros((1, p)), np.ones(p), workspace(R, 1, p)
    many, noise, work = np.zeros((q, p)), np.ones(p), workspace(R, q, p)
    apart, apart_noise = np.zeros((q, p)), np.ones(p)
    for k in range(p - 1):
        lo, hi = span[p + k, 0], span[p + k, 1]
        c, left = hi - lo, np.intp(tree[k, 0])
        larger = left if span[left, 0] == lo else np.intp(tree[k, 1])
        stop, spare = span[larger, 1], used[larger] if used[larger] < q else 1
        if q > 1:
            if spare == used[larger]:
                _copy(lo, stop, many, noise, apart, apart_noise)
            else:
                _copy(lo, stop, one, one_noise, apart, apart_noise)
            _apart(stop, hi, spare, one, one_noise, apart, apart_noise)
        deviance = _one_factor(R, lo, stop, hi, one, one_noise, least, small)
        if c <= q or (c - q) ** 2 <= c + q:
            _copy(lo, hi, one, one_noise, many, noise)
        elif q == 1:
            deviances[p + k] = deviance
        else:
            used[p + k] = used[larger]
            _join(R, lo, stop, hi, many, noise, work)
            ahead = behind = 0.0
            for _ in range(_TRIAL_STEPS):
                ahead = factor_step(R, lo, hi, many, noise, least, work)
                behind = factor_step(R, lo, hi, apart, apart_noise, least, work)
            if behind < ahead:
                _copy(lo, hi, apart, apart_noise, many, noise)
                used[p + k] = spare + 1
            for _ in range(_NODE_STEPS - _TRIAL_STEPS):
                deviances[p + k] = factor_step(R, lo, hi, many, noise, least, work)
    return deviances


@compiled
def block_places(labels: Any) -> Any:
    """Order of the columns, blocks, first blocks and diagonals of covariances whose columns have these groups.

    The labels have shape (covariances, p).
    """
    n, p = labels.shape
    order, first, offset = np.empty((n, p), np.intp), np.zeros(n + 1, np.intp), 0
    for g in range(n):
        for j in range(p):
            first[g + 1] = max(first[g + 1], first[g] + labels[g, j] + 1)
    blocks, diagonal, entry_number = np.zeros((first[n], 3), np.intp), np.empty(n * p, np.intp), 0
    for g in range(n):
        places = blocks[first[g] : first[g + 1]]
        for j in range(p):
            places[labels[g, j], 1] += 1  # the size, until the places are known
        lo = 0
        for k in range(len(places)):
            c = places[k, 1]
            places[k, 0], places[k, 1], places[k, 2] = lo, lo, offset
            for i in range(c):
                diagonal[entry_number] = offset + i * (c + 1)
                entry_number += 1
            lo += c
            offset += c * c
        for j in range(p):
            order[g, places[labels[g, j], 1]] = j
            places[labels[g, j], 1] += 1
    return order, blocks, first, diagonal


@compiled
def normalize(flat: Any, mass: Any, shift: Any, added: Any, divisors: Any, order: Any, blocks: Any, first: Any) -> Any:
    """Turn flat scatters into covariances, in place and symmetric; return the least variance of each.

    The scatters are moved from the old means to the new, n_g d dᵀ less with d = shift (G, p); `added` (covariances, p)
    goes to their diagonals, and they are divided by `divisors` (covariances,). Their lower triangles count.
    """
    for g in range(len(mass)):
        for lo, hi, offset in blocks[first[g] : first[g + 1]]:
            for i in range(hi - lo):
                d = mass[g] * shift[g, order[g, lo + i]]
                for j in range(i + 1):
                    flat[offset + i * (hi - lo) + j] -= d * shift[g, order[g, lo + j]]
    least = np.full(len(divisors), np.inf)
    for g in range(len(divisors)):
        for lo, hi, offset in blocks[first[g] : first[g + 1]]:
            c = hi - lo
            for i in range(c):
                for j in range(i):
                    flat[offset + i * c + j] /= divisors[g]
                    flat[offset + j * c + i] = flat[offset + i * c + j]
                flat[offset + i * c + i] = (flat[offset + i * c + i] + added[g, order[g, lo + i]]) / divisors[g]
                least[g] = min(least[g], flat[offset + i * c + i])
    return least


@jit()
def gather(matrix: Any, columns: Any, blocks: Any, flat: Any) -> None:
    """Copy the blocks of a matrix (p, p), over these columns (p,), to a flat array."""
    for lo, hi, offset in blocks:
        for i in range(hi - lo):
            for j in range(hi - lo):
                flat[offset + i * (hi - lo) + j] = matrix[columns[lo + i], columns[lo + j]]


@compiled
def summaries(weights: Any, whiteners: Any, order: Any, blocks: Any, first: Any) -> Any:
    """log|Σ_g| and log π_g − ½ log|2π Σ_g|, shapes (G,), and the diagonals of Σ_g⁻¹, shape (G, p)."""
    G, p = order.shape
    logdets, levels, precisions = np.zeros(G), np.empty(G), np.zeros((G, p))
    for g in range(G):
        for lo, hi, offset in blocks[first[g] : first[g + 1]]:
            for i in range(hi - lo):
                logdets[g] -= 2 * np.log(whiteners[offset + i * (hi - lo + 1)])
                for j in range(i + 1):
                    precisions[g, order[g, lo + j]] += whiteners[offset + i * (hi - lo) + j] ** 2
        levels[g] = np.log(weights[g]) - 0.5 * (logdets[g] + p * np.log(2 * np.pi))
    return logdets, levels, precisions


@compiled
def factorize(blocks: Any, flat: Any, factors: Any, largest: Any) -> Any:
    """Cholesky factors of blocks of at most `largest` columns; −1, or the first block that is not positive definite."""
    for b in range(len(blocks)):
        lo, hi, offset = blocks[b]
        c = hi - lo
        if c > largest:
            continue
        for i in range(c):
            for j in range(i + 1):
                value = flat[offset + i * c + j]
                for k in range(j):
                    value -= factors[offset + i * c + k] * factors[offset + j * c + k]
                if j < i:
                    factors[offset + i * c + j] = value / factors[offset + j * c + j]
                elif value > 0:
                    factors[offset + i * c + i] = np.sqrt(value)
                else:
                    return b
    return -1


@compiled
def invert(blocks: Any, factors: Any, whiteners: Any, largest: Any) -> None:
    """Inverses of lower triangular factors of at most `largest` columns, by forward substitution."""
    for lo, hi, offset in blocks:
        c = hi - lo
        if c > largest:
            continue
        for j in range(c):
            whiteners[offset + j * c + j] = 1 / factors[offset + j * c + j]
            for i in range(j + 1, c):
                value = 0.0
                for k in range(j, i):
                    value -= factors[offset + i * c + k] * whiteners[offset + k * c + j]
                whiteners[offset + i * c + j] = value / factors[offset + i * c + i]


@compiled
def solve(order: Any, blocks: Any, first: Any, whiteners: Any, values: Any, solved: Any) -> None:
    """Add Ψ⁻¹Y = WᵀWY to `solved` for values Y, shape (distinct, p, q), of distinct covariances with blocks Ψ."""
    for d in range(len(values)):
        for lo, hi, offset in blocks[first[d] : first[d + 1]]:
            columns, c = order[d, lo:hi], hi - lo
            for a in range(values.shape[2]):
                for i in range(c):
                    row, white = offset + i * c, 0.0
                    for j in range(i + 1):
                        white += whiteners[row + j] * values[d, columns[j], a]
                    for j in range(i + 1):
                        solved[d, columns[j], a] += whiteners[row + j] * white


@compiled
def subtract_products(loadings: Any, counts: Any, order: Any, blocks: Any, first: Any, flat: Any) -> None:
    """Subtract nΛΛᵀ from the flat blocks of distinct covariances, for loadings (distinct, p, q) and counts n."""
    for d in range(len(loadings)):
        for lo, hi, offset in blocks[first[d] : first[d + 1]]:
            columns, c = order[d, lo:hi], hi - lo
            for i in range(c):
                for j in range(c):
                    value = 0.0
                    for a in range(loadings.shape[2]):
                        value += loadings[d, columns[i], a] * loadings[d, columns[j], a]
                    flat[offset + i * c + j] -= counts[d] * value
