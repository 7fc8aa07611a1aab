"""Kernels: compiled loops over the merges of a tree (paper, section 2.4).

Importing this module loads Numba, so its callers import it inside their functions. A tree is a linkage matrix in
SciPy's format, shape (p − 1, 4): merge k joins the nodes of columns 0 and 1 into node p + k at the height of column 2,
and nodes 0 … p − 1 are the columns of the table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from blockmix.blocks.kernels import entry, jit
from blockmix.partition import BoolArray, FloatArray, IntArray


@jit()
def linkage(distances: FloatArray, method: int) -> FloatArray:
    """Tree of average (method 0), single (1) or complete (2) linkage; overwrites the distances, shape (p, p).

    SciPy's `linkage` gives the same tree. Checks take most of its 28 µs for 7 columns; this takes 2 µs.
    """
    pairs, heights = merges(distances, method)
    p, order = len(distances), np.arange(len(heights))
    for k in range(1, p - 1):  # sorted by insertion, which is stable: compiling NumPy's sort would take two seconds
        m = k
        while m > 0 and heights[order[m - 1]] > heights[k]:
            order[m] = order[m - 1]
            m -= 1
        order[m] = k
    tree = np.empty((p - 1, 4))
    above, size = np.arange(2 * p - 1), np.ones(2 * p - 1)  # `above` holds a node above each, or the topmost itself
    for k in range(p - 1):
        m = order[k]
        a, b = _topmost(above, pairs[m, 0]), _topmost(above, pairs[m, 1])
        above[a] = above[b] = p + k
        size[p + k] = size[a] + size[b]
        tree[k, 0], tree[k, 1], tree[k, 2], tree[k, 3] = min(a, b), max(a, b), heights[m], size[p + k]
    return tree


@jit()
def _topmost(above: IntArray, node: int) -> int:
    """The topmost node above a node; shortens the way there for the next time."""
    while above[node] != node:
        above[node] = above[above[node]]
        node = above[node]
    return node


@jit()
def worths(deviances: FloatArray, prices: FloatArray, span: IntArray, n_rows: float) -> tuple[FloatArray, IntArray]:
    """−n/2 (F − c) − price of each node in its best shape, and the number of that shape, shapes (2p − 1,).

    The deviances F have shape (shapes, 2p − 1), the prices (shapes, p + 1). A column alone is worth 0.
    """
    n_nodes = len(span)
    worth, shape = np.full(n_nodes, -np.inf), np.zeros(n_nodes, np.intp)
    for v in range((n_nodes + 1) // 2):
        worth[v] = 0
    for v in range((n_nodes + 1) // 2, n_nodes):
        c = span[v, 1] - span[v, 0]
        for m in range(len(deviances)):
            value = -0.5 * n_rows * (deviances[m, v] - c) - prices[m, c]
            if value > worth[v]:
                worth[v], shape[v] = value, m
    return worth, shape


@jit()
def best_cut(
    deviances: FloatArray,
    prices: FloatArray,
    n_rows: float,
    barred: BoolArray,
    tree: FloatArray,
    order: IntArray,
    span: IntArray,
) -> tuple[IntArray, IntArray, FloatArray]:
    """Cut of the largest total worth: the group of each column, shape (p,), and shape and worth of each group.

    Deviances and prices are those of `worths`; `barred` tells which merges may not be a group, shape (p − 1,).
    """
    p = len(tree) + 1
    worth, shape = worths(deviances, prices, span, n_rows)
    for k in range(p - 1):
        if barred[k]:
            worth[p + k] = -np.inf
    gain, whole = worth.copy(), np.ones(2 * p - 1, np.bool_)
    for k in range(p - 1):
        apart = gain[np.intp(tree[k, 0])] + gain[np.intp(tree[k, 1])]
        if apart >= gain[p + k]:
            gain[p + k], whole[p + k] = apart, False
    chosen, labels = np.empty(p, np.intp), np.full(p, -1)
    count = 0
    for v in range(2 * p - 2, -1, -1):  # a node comes after those above it
        if whole[v] and labels[order[span[v, 0]]] < 0:
            for i in range(span[v, 0], span[v, 1]):
                labels[order[i]] = count
            chosen[count] = v
            count += 1
    chosen = chosen[:count]
    return labels, shape[chosen], worth[chosen]


@jit()
def best_of_both(one: IntArray, other: IntArray, worth: FloatArray, n: int) -> tuple[IntArray, IntArray]:
    """Groups of two cuts, from the one that is worth more in each union of groups that overlap.

    The first n numbers of `worth` are those of the groups of `one`. Returns the group of each column, shape (p,), and
    which of the groups of both were taken.
    """
    above = np.arange(len(worth))
    for j in range(len(one)):
        a, b = _topmost(above, one[j]), _topmost(above, n + other[j])
        above[max(a, b)] = min(a, b)
    gain = np.zeros(len(worth))  # of `other`, in each union
    for k in range(len(worth)):
        gain[_topmost(above, k)] += worth[k] if k >= n else -worth[k]
    number, taken, count = np.empty(len(worth), np.intp), np.empty(len(worth), np.intp), 0
    for k in range(len(worth)):
        if (gain[_topmost(above, k)] > 0) == (k >= n):
            number[k], taken[count] = count, k
            count += 1
    labels = np.empty(len(one), np.intp)
    for j in range(len(one)):
        labels[j] = number[n + other[j] if gain[_topmost(above, one[j])] > 0 else one[j]]
    return labels, taken[:count]


@jit()
def merges(D: FloatArray, method: int) -> tuple[IntArray, FloatArray]:
    """Merges of a tree in no particular order: a column of each branch, shape (p − 1, 2), and heights, shape (p − 1,).

    A chain steps from a group to its nearest group until two are nearest to each other and merge. In these linkages a
    merged group is never nearer to a third than both its parts were, so the rest of the chain remains valid, and the
    whole takes O(p²) (Müllner, 2011). One of its columns stands for a group: D[a, b] is the distance of two groups.
    """
    p = len(D)
    _mirror(D)
    size, first = np.ones(p), 0
    chain, length = np.empty(p + 1, dtype=np.intp), 0
    pairs, heights = np.empty((p - 1, 2), dtype=np.intp), np.empty(p - 1)
    for k in range(p - 1):
        if length == 0:
            while size[first] == 0:
                first += 1
            chain[0], length = first, 1
        while True:
            a, before = chain[length - 1], chain[max(length - 2, 0)]
            b, height = before, D[a, before]  # the group it came from wins ties; at the first step D[a, a] = inf
            for i in range(p):
                if D[a, i] < height and size[i] > 0:
                    b, height = i, D[a, i]
            if length > 1 and b == before:
                break
            chain[length] = b
            length += 1
        length -= 2
        a, b = min(a, b), max(a, b)
        pairs[k, 0], pairs[k, 1], heights[k] = a, b, height
        _join(D, size, a, b, method)
    return pairs, heights


@jit()
def _mirror(D: FloatArray) -> None:
    """Copy the upper triangle to the lower one, and no column is its own neighbor.

    If the triangles differed, even by rounding, a chain could run in circles.
    """
    for i in range(len(D)):
        D[i, i] = np.inf
        for j in range(i):
            D[i, j] = D[j, i]
            if not np.isfinite(D[i, j]):
                raise ValueError("S has entries that are not finite: remove or fill missing values")


@jit()
def _join(D: FloatArray, size: FloatArray, a: int, b: int, method: int) -> None:
    """Put the columns of group a into group b and update its distances to the other groups."""
    for i in range(len(D)):
        if size[i] > 0 and i != a and i != b:
            if method == 0:
                D[b, i] = (size[a] * D[a, i] + size[b] * D[b, i]) / (size[a] + size[b])
            elif method == 1:
                D[b, i] = min(D[a, i], D[b, i])
            else:
                D[b, i] = max(D[a, i], D[b, i])
            D[i, b] = D[b, i]
    size[b] += size[a]
    size[a] = 0


@jit()
def spans(tree: FloatArray) -> tuple[IntArray, IntArray]:
    """Leaf order and, per node, where its columns start and stop in that order, shapes (p,) and (2p − 1, 2)."""
    p = len(tree) + 1
    size = np.ones(2 * p - 1, dtype=np.intp)
    for k in range(p - 1):
        size[p + k] = np.intp(tree[k, 3])
    span = np.empty((2 * p - 1, 2), dtype=np.intp)
    span[2 * p - 2, 0], span[2 * p - 2, 1] = 0, p
    for k in range(p - 2, -1, -1):
        large, small = np.intp(tree[k, 0]), np.intp(tree[k, 1])
        if size[large] < size[small]:
            large, small = small, large
        start, stop = span[p + k]
        span[large, 0], span[large, 1] = start, start + size[large]
        span[small, 0], span[small, 1] = start + size[large], stop
    order = np.empty(p, dtype=np.intp)
    for j in range(p):
        order[span[j, 0]] = j
    return order, span


@jit()
def between_branches(R: Any, tree: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Σ r² and Σ −log(1 − r²) over the pairs of columns that each merge brings together, shapes (p − 1,).

    R is given by `Entries`.
    """
    p = len(tree) + 1
    order, span = spans(tree)
    squares, deviances = np.zeros(p - 1), np.zeros(p - 1)
    for k in range(p - 1):
        small, large = span[np.intp(tree[k, 0])], span[np.intp(tree[k, 1])]
        if small[1] - small[0] > large[1] - large[0]:
            small, large = large, small
        product = 1.0  # of 1 − r²: a logarithm per pair would take as long as all the rest
        for i in order[large[0] : large[1]]:
            for j in order[small[0] : small[1]]:  # the smaller branch stays in the cache
                # In double precision: float32 has no number between 1 − 1e-8 and 1, and log 0 would follow.
                q = min(entry(R, i, j) ** 2, 1 - 1e-12)
                squares[k] += q
                product *= 1 - q
                if product < 1e-250:
                    deviances[k] -= np.log(product)
                    product = 1.0
        deviances[k] -= np.log(product)
    return squares, deviances
