"""Kernels: compiled loops over the merges of a tree (paper, section 2.4).

Importing this module loads Numba, so its callers import it inside their functions. A tree is a linkage matrix in
SciPy's format, shape (p − 1, 4): merge k joins the nodes of columns 0 and 1 into node p + k at the height of column 2,
and nodes 0 … p − 1 are the columns of the table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from blockmix.blocks.kernels import entry, inlined, jit
from blockmix.partition import BoolArray, FloatArray, IntArray

exact = jit(error_model="numpy")  # reordered sums would break ties of distances


def linkage(distances: FloatArray, method: int) -> FloatArray:
    """Tree of average (method 0), single (1) or complete (2) linkage; overwrites the distances, shape (p, p).

    SciPy's `linkage` gives the same tree. Checks take most of its 28 µs for 7 columns; this takes 6 µs.
    """
    if not np.isfinite(distances.sum()):
        raise ValueError("S has entries that are not finite: remove or fill missing values")
    p = len(distances)
    tree, numbers = np.empty((p - 1, 4)), np.empty((2, 2 * p), dtype=np.intp)
    merges(distances, method, tree, *numbers)
    tree = tree[np.argsort(tree[:, 2], kind="stable")]
    numbered(tree, *numbers)
    return tree


def spans(tree: FloatArray) -> tuple[IntArray, IntArray]:
    """Leaf order and, per node, where its columns start and stop in that order, shapes (p,) and (2p − 1, 2)."""
    p = len(tree) + 1
    order, span = np.empty(p, dtype=np.intp), np.empty((2 * p - 1, 2), dtype=np.intp)
    place(tree, order, span)
    return order, span


def best_cut(
    deviances: FloatArray,
    prices: FloatArray,
    n_rows: float,
    barred: BoolArray,
    margins: FloatArray,
    tree: FloatArray,
    order: IntArray,
    span: IntArray,
) -> tuple[IntArray, IntArray, FloatArray]:
    """Cut of the largest total worth: the group of each column, shape (p,), and shape and worth of each group.

    Deviances and prices are those of `worths`; `barred` tells which merges may not be a group, shape (p − 1,), and
    `margins` by how much groups must be worth more as one than apart, shape (shapes,).
    """
    p = len(tree) + 1
    worth, shape, labels = np.zeros((2, 2 * p - 1)), np.zeros(2 * p - 1, dtype=np.intp), np.full(p, -1)
    chosen = np.empty(p, dtype=np.intp)
    count = write_cut(deviances, prices, n_rows, barred, margins, tree, order, span, worth, shape, labels, chosen)
    chosen = chosen[:count]
    return labels, shape[chosen], worth[0, chosen]


def best_of_both(one: IntArray, other: IntArray, worth: FloatArray, n: int) -> tuple[IntArray, IntArray]:
    """Groups of two cuts, from the one that is worth more in each union of groups that overlap.

    The first n numbers of `worth` are those of the groups of `one`. Returns the group of each column, shape (p,), and
    which of the groups of both were taken.
    """
    above, gain, labels = np.arange(len(worth)), np.zeros(len(worth)), np.empty_like(one)
    number, taken = np.empty((2, len(worth)), dtype=np.intp)
    return labels, taken[: better(one, other, worth, n, above, gain, number, taken, labels)]


def between_branches(R: Any, tree: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Σ r² and Σ −log(1 − r²) over the pairs of columns that each merge brings together, shapes (p − 1,).

    R is given by `Entries`.
    """
    squares, deviances = np.zeros((2, len(tree)))
    between(R, tree, *spans(tree), squares, deviances)
    return squares, deviances


@inlined
def _topmost(above: Any, node: Any) -> Any:
    """The topmost node above a node; shortens the way there for the next time."""
    while above[node] != node:
        above[node] = above[above[node]]
        node = above[node]
    return node


@exact
def merges(D: Any, method: int, tree: Any, size: Any, chain: Any) -> None:
    """Merges of a tree in no particular order: a column of each branch and the height, shape (p − 1, 4).

    A chain steps from a group to its nearest group until two are nearest to each other and merge. In these linkages a
    merged group is never nearer to a third than both its parts were, so the rest of the chain remains valid, and the
    whole takes O(p²) (Müllner, 2011). One of its columns stands for a group: D[a, b] is the distance of two groups.
    """
    p, length, start = len(D), 0, 0
    for i in range(p):
        size[i], D[i, i] = 1, np.inf  # no column is its own neighbor
        for j in range(i):  # if the triangles differed, even by rounding, a chain could run in circles
            D[i, j] = D[j, i]
    for k in range(p - 1):
        if length == 0:
            while size[start] == 0:
                start += 1
            chain[0], length = start, 1
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
        tree[k, 0], tree[k, 1], tree[k, 2] = a, b, height
        _join(D, size, a, b, method)


@inlined
def _join(D: Any, size: Any, a: int, b: int, method: int) -> None:
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


@exact
def numbered(tree: Any, above: Any, size: Any) -> None:
    """Turn a column of each branch into the number of its node, in place, and count the columns of each merge."""
    p = len(tree) + 1
    for v in range(2 * p - 1):
        above[v], size[v] = v, 1  # `above` holds a node above each, or the topmost itself
    for k in range(p - 1):
        a, b = _topmost(above, np.intp(tree[k, 0])), _topmost(above, np.intp(tree[k, 1]))
        above[a] = above[b] = p + k
        size[p + k] = size[a] + size[b]
        tree[k, 0], tree[k, 1], tree[k, 3] = min(a, b), max(a, b), size[p + k]


@exact
def place(tree: Any, order: Any, span: Any) -> None:
    """Write what `spans` returns."""
    p = len(order)
    span[2 * p - 2, 0], span[2 * p - 2, 1] = 0, p
    for k in range(p - 2, -1, -1):
        large, small = np.intp(tree[k, 0]), np.intp(tree[k, 1])
        c = 1 if large < p else np.intp(tree[large - p, 3])
        other = 1 if small < p else np.intp(tree[small - p, 3])
        if c < other:
            large, small, c = small, large, other
        start, stop = span[p + k, 0], span[p + k, 1]
        span[large, 0], span[large, 1] = start, start + c
        span[small, 0], span[small, 1] = start + c, stop
    for j in range(p):
        order[span[j, 0]] = j


@inlined
def worths(deviances: Any, prices: Any, span: Any, n_rows: float, worth: Any, shape: Any) -> None:
    """Write −n/2 (F − c) − price of each node in its best shape, and the number of that shape, shapes (2p − 1,).

    The deviances F have shape (shapes, 2p − 1), the prices (shapes, p + 1). A column alone is worth 0.
    """
    for v in range(len(span)):
        c = span[v, 1] - span[v, 0]
        worth[v] = 0 if c == 1 else -np.inf
        for m in range(len(deviances) if c > 1 else 0):
            value = -0.5 * n_rows * (deviances[m, v] - c) - prices[m, c]
            if value > worth[v]:
                worth[v], shape[v] = value, m


@exact
def write_cut(
    deviances: Any,
    prices: Any,
    n_rows: float,
    barred: Any,
    margins: Any,
    tree: Any,
    order: Any,
    span: Any,
    worth: Any,
    shape: Any,
    labels: Any,
    chosen: Any,
) -> int:
    """Write groups, their nodes, and worth and best shape of every node; return the number of groups.

    The worth of a node as one group and that of its best cut have shape (2, 2p − 1). Labels are −1 before.
    """
    p, count = len(order), 0
    worths(deviances, prices, span, n_rows, worth[0], shape)
    for v in range(2 * p - 1):
        if v >= p and barred[v - p]:
            worth[0, v] = -np.inf
        worth[1, v] = worth[0, v]
        if v >= p:
            one, other = worth[1, np.intp(tree[v - p, 0])], worth[1, np.intp(tree[v - p, 1])]
            margin = margins[shape[v]] if one > 0 and other > 0 else 0.0
            if one + other + margin >= worth[1, v]:
                worth[1, v], shape[v] = one + other, -1 - shape[v]
    for v in range(2 * p - 2, -1, -1):  # a node comes after those above it
        if shape[v] >= 0 and labels[order[span[v, 0]]] < 0:
            for i in range(span[v, 0], span[v, 1]):
                labels[order[i]] = count
            chosen[count] = v
            count += 1
    return count


@exact
def better(
    one: Any, other: Any, worth: Any, n: int, above: Any, gain: Any, number: Any, taken: Any, labels: Any
) -> int:
    """Write what `best_of_both` returns, and return how many groups were taken."""
    count = 0
    for j in range(len(one)):
        a, b = _topmost(above, one[j]), _topmost(above, n + other[j])
        above[max(a, b)] = min(a, b)
    for k in range(len(worth)):
        above[k] = above[above[k]]  # the topmost: the nodes before have theirs
        gain[above[k]] += worth[k] if k >= n else -worth[k]  # of `other`, in each union
    for k in range(len(worth)):
        if (gain[above[k]] > 0) == (k >= n):
            number[k], taken[count] = count, k
            count += 1
    for j in range(len(one)):
        labels[j] = number[n + other[j] if gain[above[one[j]]] > 0 else one[j]]
    return count


@exact
def between(R: Any, tree: Any, order: Any, span: Any, squares: Any, deviances: Any) -> None:
    """Add what `between_branches` returns."""
    for k in range(len(tree)):
        small, large = np.intp(tree[k, 0]), np.intp(tree[k, 1])
        if span[small, 1] - span[small, 0] > span[large, 1] - span[large, 0]:
            small, large = large, small
        product = 1.0  # of 1 − r²: a logarithm per pair would take as long as all the rest
        for i in range(span[large, 0], span[large, 1]):
            for j in range(span[small, 0], span[small, 1]):  # the smaller branch stays in the cache
                # In double precision: float32 has no number between 1 − 1e-8 and 1, and log 0 would follow.
                q = min(entry(R, order[i], order[j]) ** 2, 1 - 1e-12)
                squares[k] += q
                product *= 1 - q
                if product < 1e-250:
                    deviances[k] -= np.log(product)
                    product = 1.0
        deviances[k] -= np.log(product)
