"""Figures of stability from resampled column groups and refitted clusters.

Partitions and labels come in; a `Stability` goes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from sklearn.metrics.cluster import contingency_matrix

from blockmix.estimators.stability.values import ClusterStability, GroupStability, Stability
from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray, IntArray


def column_stability(
    fitted: Sequence[Partition],
    resampled: Iterable[Sequence[Partition]],
    names: Sequence[str],
    done: Callable[[], object],
) -> Stability:
    """Stability of the fitted groups of each covariance, given those of each resample.

    An interrupt ends the resamples early; those so far count.
    """
    p = len(names)
    together = np.zeros((len(fitted), p, p), dtype=np.float32)
    stays = np.zeros((len(fitted), p))
    counts = [np.zeros((3, partition.n_groups)) for partition in fitted]  # again, split, joined
    n_groups: list[list[int]] = []
    try:
        for found in resampled:
            for g, partition in enumerate(found):
                together[g] += partition.labels[:, None] == partition.labels
                group_stays, returned = _returned(fitted[g], partition)
                stays[g] += group_stays
                counts[g] += returned
            n_groups.append([int((partition.sizes > 1).sum()) for partition in found])
            done()
    except KeyboardInterrupt:
        if not n_groups:
            raise
    B = len(n_groups)
    together /= B
    stays /= B
    groups = [
        _group(g, columns, counts[g][:, k] / B, together[g], stays[g], names)
        for g, partition in enumerate(fitted)
        for k, columns in enumerate(partition.groups)
        if len(columns) > 1
    ]
    return Stability(tuple(groups), together, stays, np.array(n_groups).T, None, tuple(fitted), tuple(names))


def _returned(fitted: Partition, found: Partition) -> tuple[FloatArray, FloatArray]:
    """Whether each column stays with its group (p,), and whether each group is there again, split, joined (3, K)."""
    both = contingency_matrix(fitted.labels, found.labels)
    jaccard = both / (fitted.sizes[:, None] + found.sizes - both)
    nearest = jaccard.argmax(axis=1)
    split = (both > 0).sum(axis=1) > 1
    joined = ((both > 0) & (found.sizes > both)).any(axis=1)
    again = jaccard[np.arange(len(jaccard)), nearest] == 1
    return found.labels == nearest[fitted.labels], np.stack([again, split, joined])


def _group(
    g: int, columns: IntArray, shares: FloatArray, together: FloatArray, stays: FloatArray, names: Sequence[str]
) -> GroupStability:
    outside = np.setdiff1d(np.arange(len(names)), columns)
    mean = together[np.ix_(columns, outside)].mean(axis=0, dtype=float)
    best = int(mean.argmax()) if len(outside) and mean.max() > 0 else None
    again, split, joined = shares.tolist()
    return GroupStability(
        g,
        tuple(names[j] for j in columns),
        again,
        split,
        joined,
        None if best is None else names[outside[best]],
        0.0 if best is None else float(mean[best]),
        names[columns[stays[columns].argmin()]],
    )


def cluster_stability(labels: IntArray, z: FloatArray, refits: Iterable[IntArray]) -> tuple[ClusterStability, ...]:
    """Stability of the clusters with these labels (N,) and probabilities (N, G), given the labels of each refit."""
    G = z.shape[1]
    sizes = np.bincount(labels, minlength=G)
    found: list[FloatArray] = []
    try:
        for again in refits:
            both = np.bincount(labels * G + again, minlength=G * G).reshape(G, G)
            union = sizes[:, None] + np.bincount(again, minlength=G) - both
            found.append((both / np.maximum(union, 1)).max(axis=1))
    except KeyboardInterrupt:
        if not found:
            raise
    jaccard = np.stack(found)
    own = np.eye(G, dtype=bool)[labels]
    certainty = (z * own).sum(axis=0) / np.maximum(sizes + (z * ~own).sum(axis=0), 1e-300)
    return tuple(
        ClusterStability(
            g, int(sizes[g]), float(jaccard[:, g].mean()), float((jaccard[:, g] <= 0.5).mean()), float(certainty[g])
        )
        for g in range(G)
    )
