"""Silhouettes of column groups: of one partition, and of every cut of a tree (paper, section 2.6).

One pass up the tree with running sums gives the mean silhouette for every number of groups. A column alone has
silhouette 0, and so have K = 1 and K = p.
"""

from __future__ import annotations

import numpy as np

from blockmix.blocks.moments import Covariance
from blockmix.partition import FloatArray, IntArray, Partition

_CHUNK = 512


def silhouette(R: Covariance, partition: Partition) -> float:
    """Mean silhouette of a partition for the distance 1 − |R|, in O(p²)."""
    if partition.n_groups in (1, partition.n_columns):
        return 0.0
    order, sizes = partition.order, partition.sizes
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    total = 0.0
    for first in range(0, len(R), _CHUNK):
        columns = np.arange(first, min(first + _CHUNK, len(R)))
        sums = np.add.reduceat(1 - np.abs(R[np.ix_(columns, order)]), starts, axis=1)
        total += _values(sums, sizes, partition.labels[columns]).sum()
    return float(total / len(R))


def _values(sums: FloatArray, sizes: IntArray, own: IntArray) -> FloatArray:
    """(b − a) / max(a, b) per column, from its summed distance to each group, shape (n, K)."""
    at = np.arange(len(own)), own
    inner = sums[at] / np.maximum(sizes[own] - 1, 1)
    means = sums / sizes
    means[at] = np.inf
    return _ratio(inner, means.min(axis=1), sizes[own])


def _ratio(inner: FloatArray, outer: FloatArray, own_sizes: FloatArray | IntArray) -> FloatArray:
    largest = np.maximum(inner, outer)
    safe = (own_sizes > 1) & (largest > 0)
    return np.where(safe, (outer - inner) / np.where(safe, largest, 1), 0.0)


def tree_silhouettes(distances: FloatArray, tree: FloatArray) -> FloatArray:
    """Mean silhouette of every cut of a tree; entry K belongs to K groups, shape (p + 1,).

    When groups A and B merge, the mean distance of a column to their union lies between its mean distances to A and
    to B. So its nearest other group changes only if that was A or B, and only those columns and the members of the
    union need an update.
    """
    p = len(distances)
    sums = np.array(distances, dtype=float)  # (p, slots): summed distance of a column to the group in that slot
    np.fill_diagonal(sums, np.inf)
    sizes = np.ones(p)
    slot = np.arange(2 * p - 1)
    own = np.arange(p)
    nearest = np.argmin(sums, axis=1) if p > 1 else own
    outer = sums[own, nearest]
    np.fill_diagonal(sums, 0.0)
    found = np.zeros(p + 1)
    for k in range(p - 2):
        a, b = slot[tree[k, :2].astype(int)]
        slot[p + k] = a
        sums[:, a] += sums[:, b]
        sums[:, b] = np.inf
        sizes[a] += sizes[b]
        own[own == b] = a
        changed = np.flatnonzero((own == a) | (nearest == a) | (nearest == b))
        means = sums[changed] / sizes
        means[np.arange(len(changed)), own[changed]] = np.inf
        nearest[changed] = np.argmin(means, axis=1)
        outer[changed] = means[np.arange(len(changed)), nearest[changed]]
        inner = sums[np.arange(p), own] / np.maximum(sizes[own] - 1, 1)
        found[p - 1 - k] = _ratio(inner, outer, sizes[own]).mean()
    return found
