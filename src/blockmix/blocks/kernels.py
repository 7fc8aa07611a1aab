"""Compiled loops over trees of columns: correlations, log-determinants and trees of strongest correlations.

Importing this module loads Numba, so callers import it inside their functions. Columns of R are in the order of the
leaves of a tree of columns in SciPy's format, and node v holds the columns ``span[v, 0]`` to ``span[v, 1]``.
Correlations are given by `Entries`, as arrays or as rows.
"""

from __future__ import annotations

import gc
import os
import stat
import tempfile
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numba import config, njit, version_info

F = TypeVar("F")
_LOADS_ALONE = (0, 68)  # the newest Numba whose compiled loops are known to need nothing but themselves


def jit(**options: Any) -> Callable[[F], F]:
    """Decorate a loop to be compiled at its first call, and stored where Numba finds a folder to write to.

    Numba raises an exception if there is no such folder, or if it is full. Here a temporary folder takes its place, or
    the loop is compiled again.
    """

    def decorated(loop: F) -> F:
        given: Any = {"nogil": True, "no_cfunc_wrapper": True, **options}
        dispatcher: Any = njit(**given)(loop)
        dispatcher.compile = partial(_compile, dispatcher.compile)
        if _stored(dispatcher):
            store = dispatcher._cache
            store.save_overload = partial(_store, store.save_overload)
            if version_info[:2] <= _LOADS_ALONE:
                store.load_overload = partial(_load, store._load_overload)
        return dispatcher  # type: ignore[no-any-return]

    return decorated


def _compile(compile: Callable[..., object], signature: object) -> object:
    """Compile a loop without garbage collections, which take a fifth of the time: most objects live until its end."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return compile(signature)
    finally:
        if collecting:
            gc.enable()


def _stored(dispatcher: Any) -> bool:
    """Whether there is a folder to store a loop in."""
    try:
        dispatcher.enable_caching()
    except RuntimeError:
        settings: Any = config
        given, settings.CACHE_DIR = settings.CACHE_DIR, _temporary_folder()
        try:
            dispatcher.enable_caching()
        except (RuntimeError, OSError):
            _warn_not_stored()
            return False
        finally:
            settings.CACHE_DIR = given
    return True


@cache  # once
def _temporary_folder() -> str:
    """A folder that nobody else can write to: what is loaded from it is run. Empty if there is none."""
    if not hasattr(os, "getuid"):
        return ""
    folder = Path(tempfile.gettempdir(), f"blockmix-{os.getuid()}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return ""
    private = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077 and status.st_uid == os.getuid()
    return str(folder) if private else ""


def _store(save: Callable[..., object], *compilation: Any) -> None:
    try:
        save(*compilation)
    except OSError:
        _warn_not_stored()


def _load(load: Callable[..., object], signature: object, context: object) -> object:
    """Load a compiled loop without what Numba needs to compile one, which takes 0.15 s."""
    from numba.core.runtime.nrt import rtsys

    rtsys.initialize(context)  # the memory of arrays
    return load(signature, context)


@cache  # once
def _warn_not_stored() -> None:
    remedy = "set NUMBA_CACHE_DIR to a folder with space that can be written to"
    warnings.warn(f"compiled loops cannot be stored, so each process compiles them again: {remedy}", stacklevel=2)


# Sums may be reordered and multiplications fused; infinities keep their meaning: log 0 is a log-weight.
FAST = {"reassoc", "contract", "arcp", "nsz"}
compiled = jit(error_model="numpy", fastmath=FAST, _nrt=False)
# A part of other loops: never compiled by itself, and no call that counts references to each array argument.
inlined = njit(inline="always", error_model="numpy")


@inlined
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
def tree_deviances(R: Any, tree: Any, span: Any, gains: Any, deviances: Any) -> None:
    """Write C + Σ log(1 − r²) over the edges to each node from 3 columns on, shape (2p − 1,); `gains` are its sums.

    R is given by `Entries`; the gains of single columns are 0.
    """
    p = len(tree) + 1
    for k in range(p - 1):
        left, right = np.intp(tree[k, 0]), np.intp(tree[k, 1])
        small, large = left, right
        if span[left, 1] - span[left, 0] > span[right, 1] - span[right, 0]:
            small, large = right, left
        strongest = 0.0
        for i in range(span[large, 0], span[large, 1]):
            for j in range(span[small, 0], span[small, 1]):  # the smaller branch stays in the cache
                strongest = max(strongest, abs(entry(R, i, j)))
        gains[p + k] = gains[left] + gains[right] + np.log(1 - min(strongest**2, 1 - 1e-12))
        c = span[p + k, 1] - span[p + k, 0]
        if c > 2:
            deviances[p + k] = gains[p + k] + c


@compiled
def strongest_tree(S: Any, edges: Any, covariance: Any, strength: Any, parent: Any) -> Any:
    """Write the edges (parent, child) of the tree with the largest Σ r², parents first, shape (c − 1, 2).

    Its covariance (c, c) has the variances of S and its covariances along the edges; returns its deviance from S.
    `strength` and `parent` (c,) are overwritten.
    """
    c, new = len(S), 0
    for j in range(c):
        strength[j] = -1
    covariance[0, 0] = S[0, 0]
    deviance = c + np.log(S[0, 0])
    for k in range(c - 1):
        strength[new], best = -2, -1  # −2: in the tree
        for j in range(c):
            if strength[j] > -2:
                r = S[new, j] ** 2 / (S[new, new] * S[j, j])
                if r > strength[j]:
                    strength[j], parent[j] = r, new
                if best < 0 or strength[j] > strength[best]:
                    best = j
        source, new = parent[best], best
        edges[k, 0], edges[k, 1] = source, new
        slope = S[source, new] / S[source, source]
        for i in range(k + 1):
            column = edges[i - 1, 1] if i > 0 else 0
            covariance[new, column] = covariance[column, new] = slope * covariance[source, column]
        covariance[new, new] = S[new, new]
        deviance += np.log(max(S[new, new] - slope * S[source, new], 1e-12 * S[new, new]))
    return deviance


@compiled
def node_logdets(R: Any, tree: Any, span: Any, largest: float, factor: Any, logdets: Any) -> None:
    """Write log|R_v| of every node v with fewer than `largest` columns to logdets (2p − 1,), from 0.

    A node, its larger branch, the larger branch of that and so on start at the same place of the leaf order. Each is a
    leading block of the one before, so one Cholesky factor yields the determinants of all. The factors cost O(p³) in
    total, whatever the shape of the tree. R is a correlation that is given by `Entries`; `factor` has room for a factor
    and, beside its diagonal, for these determinants.
    """
    p = len(tree) + 1
    for top in range(2 * p - 2, p - 1, -1):
        start, stop = span[top, 0], span[top, 1]
        if logdets[top] != 0 or stop - start >= largest:
            continue
        total = 0.0
        for i in range(stop - start):
            pivot = 1.0
            for j in range(i):
                value = entry(R, start + i, start + j)
                for k in range(j):
                    value -= factor[i, k] * factor[j, k]
                factor[i, j] = value / factor[j, j]
                pivot -= factor[i, j] ** 2
            total += np.log(pivot)
            factor[i, i], factor[i, i + 1] = np.sqrt(pivot), total
        node = np.intp(top)
        while node >= p:
            last = span[node, 1] - start - 1
            logdets[node] = factor[last, last + 1]
            left, right = np.intp(tree[node - p, 0]), np.intp(tree[node - p, 1])
            node = left if span[left, 0] == start else right


_NODE_STEPS = 5  # of EM at each node: the choice of groups agrees with that of converged factors
_TRIAL_STEPS = 3  # of these, after which two starts are compared


@inlined
def _scores(lo: int, hi: int, loadings: Any, noise: Any, B: Any, scaled: Any, M: Any) -> float:
    """Weights B = M⁻¹ΛᵀΨ⁻¹ of the factor scores, M = I + ΛᵀΨ⁻¹Λ; returns log|M| and leaves M⁻¹ in M."""
    q, logdet = len(loadings), 0.0
    for a in range(q):
        for i in range(lo, hi):
            scaled[a, i] = loadings[a, i] / noise[i]
        for b in range(a + 1):
            value = 1.0 if a == b else 0.0
            for i in range(lo, hi):
                value += scaled[a, i] * loadings[b, i]
            M[a, b] = M[b, a] = value
    for a in range(q):  # inverted in place, by Gauss and Jordan
        pivot = max(M[a, a], 1e-300)
        logdet += np.log(pivot)
        M[a, a] = 1
        for b in range(q):
            M[a, b] /= pivot
        for b in range(q):
            if b != a:
                factor = M[b, a]
                M[b, a] = 0
                for e in range(q):
                    M[b, e] -= factor * M[a, e]
    for a in range(q):
        for b in range(q):
            for i in range(lo, hi):
                B[a, i] = (B[a, i] if b > 0 else 0.0) + M[a, b] * scaled[b, i]
    return logdet


@inlined
def _product(S: Any, first: int, hi: int, lo: int, known: int, B: Any, products: Any, totals: Any, q: int) -> None:
    """Write S_ij B_aj, summed over the columns [lo, known), to products (q, p) for the rows [first, hi)."""
    dense, left, right, spare = S
    odd = (known - lo) % 2
    for a in range(q):
        w = B[a, lo] if odd else 0.0
        for i in range(first, hi):
            products[a, i] = w * dense[lo, i] if len(dense) else spare[i] * B[a, i] if i < known else 0.0
        for j in range(lo + odd, known if len(dense) else lo, 2):  # two at a time saves a quarter of the products
            w, v = B[a, j], B[a, j + 1]
            for i in range(first, hi):
                products[a, i] += w * dense[j, i] + v * dense[j + 1, i]
        for j in range(lo, known if len(totals) else lo):
            for k in range(len(totals)):
                totals[k] = (totals[k] if j > lo else 0.0) + B[a, j] * right[j, k]
        for i in range(first, hi if len(totals) else first):
            for k in range(len(totals)):
                products[a, i] += left[i, k] * totals[k]


@inlined
def _step(lo: int, hi: int, loadings: Any, noise: Any, least: Any, work: Any) -> None:
    """Θ = M⁻¹ + BSBᵀ = CCᵀ; Λ ← SBᵀ C⁻ᵀ; ψ ← max(diag S − rowsum Λ², least): parameter-expanded EM, in place."""
    B, SB, theta, C, variances, _ = work
    q = len(loadings)
    for a in range(q):
        for b in range(a + 1):
            value = theta[a, b]
            for i in range(lo, hi):
                value += B[a, i] * SB[b, i]
            for k in range(b):
                value -= C[a, k] * C[b, k]
            C[a, b] = np.sqrt(max(value, 1e-300)) if a == b else value / C[b, b]
    for a in range(q):
        for b in range(a):
            for i in range(lo, hi):
                SB[a, i] -= C[a, b] * loadings[b, i]
        for i in range(lo, hi):
            loadings[a, i] = SB[a, i] / C[a, a]
            rest = (noise[i] if a > 0 else variances[i]) - loadings[a, i] ** 2
            noise[i] = max(rest, least[i]) if a == q - 1 else rest


@inlined
def _regress(stop: int, hi: int, loadings: Any, noise: Any, SB: Any) -> None:
    """Loadings of the columns of [stop, hi) on the factors of the others, from their covariances with the scores."""
    for i in range(stop, hi):
        shared = 0.0
        for a in range(len(loadings)):
            loadings[a, i] = SB[a, i]
            shared += loadings[a, i] ** 2
        if shared > 0.9:
            for a in range(len(loadings)):
                loadings[a, i] *= np.sqrt(0.9 / shared)
            shared = 0.9
        noise[i] = 1 - shared


@compiled
def factor_em(
    S: Any, lo: int, stop: int, hi: int, loadings: Any, noise: Any, least: Any, work: Any, n_steps: int, tolerance: Any
) -> Any:
    """Steps of EM for the columns lo to hi, in place; returns the deviance before the last one.

    If stop < hi, the columns from there on join the factors of the others first. With a tolerance above 0 the steps
    end where the deviance falls by less, and the last one is left out. `work` is that of `workspace`.
    """
    B, SB, theta, _, variances, totals = work
    q, joining, before = len(loadings), stop < hi, np.inf
    for step in range(-1 if joining else 0, n_steps):
        joining = step < 0
        known, first = (stop, stop) if joining else (hi, lo)
        deviance, product = _scores(lo, known, loadings, noise, B, SB, theta), 1.0
        _product(S, first, hi, lo, known, B, SB, totals, q)
        if joining:
            _regress(stop, hi, loadings, noise, SB)
            continue
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
        if tolerance > 0 and (before - deviance < tolerance or step == n_steps - 1):
            return deviance
        before = deviance
        _step(lo, hi, loadings, noise, least, work)
    return before


@inlined
def _copy(lo: int, hi: int, source: int, target: int, loadings: Any, noise: Any) -> None:
    """Copy loadings and noise of the columns lo to hi."""
    for i in range(lo, hi):
        for a in range(loadings.shape[1]):
            loadings[target, a, i] = loadings[source, a, i]
        noise[target, i] = noise[source, i]


@inlined
def _pair(R: Any, lo: int, one: Any, noise: Any) -> None:
    """One factor of two columns."""
    r = entry(R, lo, lo + 1)
    size = np.sqrt(min(abs(r), 0.9))
    one[0, lo], one[0, lo + 1] = size, size if r >= 0 else -size
    noise[lo] = noise[lo + 1] = 1 - size * size


@inlined
def _apart(stop: int, hi: int, factor: int, loadings: Any, noise: Any) -> None:
    """Give the columns of [stop, hi), the smaller branch of a node, a factor for themselves."""
    for i in range(stop, hi):
        for a in range(loadings.shape[1]):
            loadings[2, a, i] = 0.0
        loadings[2, factor, i], noise[2, i] = loadings[0, 0, i], noise[0, i]
    if hi - stop == 1:
        loadings[2, factor, stop], noise[2, stop] = 0.3, 0.9


@compiled
def factor_deviances(
    R: Any, tree: Any, span: Any, deviances: Any, used: Any, loadings: Any, noise: Any, least: Any, work: Any
) -> None:
    """Write the deviance of q factors at every node of c > q columns with (c − q)² > c + q, shape (2p − 1,).

    A node starts from the factors of its larger branch, which has its first columns, or if that is better from these
    and one for the smaller branch. If all are in use, each branch has one. A factor without loadings stays so in EM.
    Loadings (3, q, p), from 0, and noise (3, p) are those of one factor, of q, and of q for branches apart; `used`
    (2p − 1,), from 1, counts the factors in use.
    """
    p, q = len(tree) + 1, loadings.shape[1]
    for k in range(p - 1):
        lo, hi = span[p + k, 0], span[p + k, 1]
        c, left = hi - lo, np.intp(tree[k, 0])
        larger = left if span[left, 0] == lo else np.intp(tree[k, 1])
        stop, spare = span[larger, 1], used[larger] if used[larger] < q else 1
        enough = c > q and (c - q) ** 2 > c + q
        if q > 1 and enough:
            _copy(lo, stop, 1 if spare == used[larger] else 0, 2, loadings, noise)
            _apart(stop, hi, spare, loadings, noise)
        if c == 2:
            _pair(R, lo, loadings[0], noise[0])
        slot, ahead, deviance = 0, np.inf, np.inf
        # One factor; both starts of several factors; the better one further.
        for turn in range(1 if c == 2 else 0, 4 if q > 1 and enough else 1):
            slot = turn if turn < 3 else 2 if deviance < ahead else 1
            n_steps = _NODE_STEPS if turn == 0 else _TRIAL_STEPS if turn < 3 else _NODE_STEPS - _TRIAL_STEPS
            known, ahead, some = stop if turn < 2 else hi, deviance, loadings[slot, : q if turn else 1]
            deviance = factor_em(R, lo, known, hi, some, noise[slot], least, work, n_steps, 0.0)
        if enough:
            deviances[p + k] = deviance
            used[p + k] = spare + 1 if slot == 2 else used[larger]
        if slot != 1:
            _copy(lo, hi, slot, 1, loadings, noise)


def workspace(S: Any, q: int, p: int) -> Any:
    """Room for `factor_em` of S, given by `Entries`: B, SB, Θ and C, the diagonal, 1 if S is not dense, and sums."""
    variances = S[0].diagonal().copy() if len(S[0]) else np.ones(p)
    shapes = (q, p), (q, p), (q, q), (q, q)
    return *(np.empty(shape) for shape in shapes), variances, np.empty(S[1].shape[1])


@compiled
def block_places(labels: Any, order: Any, first: Any, blocks: Any, diagonal: Any) -> None:
    """Write order of the columns, blocks, and diagonals of covariances whose columns have these groups.

    The labels and the order have shape (covariances, p); `first`, the first block of each, is given, blocks are 0.
    """
    p, offset, entry_number = labels.shape[1], 0, 0
    for g in range(len(labels)):
        for j in range(p):
            blocks[first[g] + labels[g, j], 1] += 1  # the size, until the places are known
        lo = 0
        for b in range(first[g], first[g + 1]):
            c = blocks[b, 1]
            blocks[b, 0], blocks[b, 1], blocks[b, 2] = lo, lo, offset
            for i in range(c):
                diagonal[entry_number] = offset + i * (c + 1)
                entry_number += 1
            lo += c
            offset += c * c
        for j in range(p):
            b = first[g] + labels[g, j]
            order[g, blocks[b, 1]] = j
            blocks[b, 1] += 1


@compiled
def normalize(flat: Any, mass: Any, shift: Any, added: Any, divisors: Any, order: Any, blocks: Any, first: Any) -> None:
    """Turn flat scatters into covariances, in place and symmetric.

    The scatters are moved from the old means to the new, n_g d dᵀ less with d = shift (G, p); `added` (covariances, p)
    goes to their diagonals, and they are divided by `divisors` (covariances,). Their lower triangles count.
    """
    for g in range(len(mass)):
        for b in range(first[g], first[g + 1]):
            lo, c, offset = blocks[b, 0], blocks[b, 1] - blocks[b, 0], blocks[b, 2]
            for i in range(c):
                d = mass[g] * shift[g, order[g, lo + i]]
                for j in range(i + 1):
                    flat[offset + i * c + j] -= d * shift[g, order[g, lo + j]]
    for g in range(len(divisors)):
        for b in range(first[g], first[g + 1]):
            lo, c, offset = blocks[b, 0], blocks[b, 1] - blocks[b, 0], blocks[b, 2]
            for i in range(c):
                for j in range(i):
                    flat[offset + i * c + j] /= divisors[g]
                    flat[offset + j * c + i] = flat[offset + i * c + j]
                flat[offset + i * c + i] = (flat[offset + i * c + i] + added[g, order[g, lo + i]]) / divisors[g]


@compiled
def gather(matrix: Any, columns: Any, blocks: Any, flat: Any) -> None:
    """Copy the blocks of a matrix (p, p), over these columns (p,), to a flat array."""
    for b in range(len(blocks)):
        lo, c, offset = blocks[b, 0], blocks[b, 1] - blocks[b, 0], blocks[b, 2]
        for i in range(c):
            for j in range(c):
                flat[offset + i * c + j] = matrix[columns[lo + i], columns[lo + j]]


@compiled
def summaries(
    weights: Any, whiteners: Any, order: Any, blocks: Any, first: Any, logdets: Any, levels: Any, precisions: Any
) -> None:
    """Write log|Σ_g| and log π_g − ½ log|2π Σ_g|, shapes (G,), and the diagonals of Σ_g⁻¹, shape (G, p), from 0."""
    for g in range(len(order)):
        for b in range(first[g], first[g + 1]):
            lo, c, offset = blocks[b, 0], blocks[b, 1] - blocks[b, 0], blocks[b, 2]
            for i in range(c):
                logdets[g] -= 2 * np.log(whiteners[offset + i * (c + 1)])
                for j in range(i + 1):
                    precisions[g, order[g, lo + j]] += whiteners[offset + i * c + j] ** 2
        levels[g] = np.log(weights[g]) - 0.5 * (logdets[g] + order.shape[1] * np.log(2 * np.pi))


@compiled
def factorize(blocks: Any, flat: Any, factors: Any, largest: Any) -> Any:
    """Cholesky factors of blocks of at most `largest` columns; −1, or the first block that is not positive definite."""
    for b in range(len(blocks)):
        c, offset = blocks[b, 1] - blocks[b, 0], blocks[b, 2]
        for i in range(c if c <= largest else 0):
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
    for b in range(len(blocks)):
        c, offset = blocks[b, 1] - blocks[b, 0], blocks[b, 2]
        for j in range(c if c <= largest else 0):
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
        for b in range(first[d], first[d + 1]):
            lo, c, offset = blocks[b, 0], blocks[b, 1] - blocks[b, 0], blocks[b, 2]
            for a in range(values.shape[2]):
                for i in range(c):
                    row, white = offset + i * c, 0.0
                    for j in range(i + 1):
                        white += whiteners[row + j] * values[d, order[d, lo + j], a]
                    for j in range(i + 1):
                        solved[d, order[d, lo + j], a] += whiteners[row + j] * white


@compiled
def subtract_products(loadings: Any, counts: Any, order: Any, blocks: Any, first: Any, flat: Any) -> None:
    """Subtract nΛΛᵀ from the flat blocks of distinct covariances, for loadings (distinct, p, q) and counts n."""
    for d in range(len(loadings)):
        for b in range(first[d], first[d + 1]):
            lo, c, offset = blocks[b, 0], blocks[b, 1] - blocks[b, 0], blocks[b, 2]
            for i in range(c):
                for j in range(c):
                    value = 0.0
                    for a in range(loadings.shape[2]):
                        value += loadings[d, order[d, lo + i], a] * loadings[d, order[d, lo + j], a]
                    flat[offset + i * c + j] -= counts[d] * value
