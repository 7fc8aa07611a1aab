"""Outliers: squared distances of rows from their own component, by column group.

Σ_k δ_k = δ, because the blocks of a component are independent, so the group in which a row is far away can be named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.stats import chi2

from blockmix.em.parameters import Parameters
from blockmix.partition import FloatArray, IntArray
from blockmix.rows import Chunk

_CLEAN = 0.999  # share of the rows of a normal component that are not outliers


def group_distances(chunk: Chunk, labels: IntArray, parameters: Parameters) -> FloatArray:
    """δ_k of each column group of the component of each row, shape (m, K); NaN where that component has fewer groups.

    As in the E-step a rounded value has the mean of the squared distances of the values that it stands for.
    """
    most = max(partition.n_groups for partition in parameters.blocks.layout.partitions)
    found = np.full((len(labels), most), np.nan)
    for _, rows, own in _by_component(chunk, labels, parameters):
        found[rows, : own.shape[1]] = own
    return found


def farthest_groups(chunk: Chunk, labels: IntArray, parameters: Parameters) -> tuple[FloatArray, IntArray]:
    """δ of each row from its component, and the column group in which it is least likely, shapes (m,).

    Groups of different sizes, or numbers of values, are compared by Wilson and Hilferty's normal score of a χ² value.
    """
    partitions = parameters.blocks.layout.partitions
    most = max(partition.n_groups for partition in partitions)
    distances, groups = np.empty(len(labels)), np.empty(len(labels), np.min_scalar_type(-most))
    for g, rows, own in _by_component(chunk, labels, parameters):
        sizes: FloatArray = partitions[g].sizes.astype(float)
        if chunk.has_missing:
            sizes = ~np.isnan(chunk.X[rows]) @ (partitions[g].labels[:, None] == np.arange(len(sizes))).astype(float)
        spread = 2 / (9 * np.maximum(sizes, 1))
        scores = (np.cbrt(own / np.maximum(sizes, 1)) - (1 - spread)) / np.sqrt(spread)
        distances[rows] = own.sum(axis=1)
        groups[rows] = np.where(sizes > 0, scores, -np.inf).argmax(axis=1)
    return distances, groups


def _by_component(chunk: Chunk, labels: IntArray, parameters: Parameters) -> Iterator[tuple[int, IntArray, FloatArray]]:
    """Each component that rows have, these rows, and their δ_k, shape (k, K)."""
    from blockmix.em.kernels import block_distances
    from blockmix.em.missing_kernels import TILE

    density, gain = parameters.density(chunk.has_missing), np.empty(TILE) if chunk.has_missing else None
    for g in np.unique(labels).tolist():
        rows = np.flatnonzero(labels == g)
        own = np.empty((len(rows), parameters.blocks.layout.partitions[g].n_groups))
        block_distances(chunk.X, rows, g, chunk.units, chunk.rounding, density, gain, own)
        yield g, rows, np.minimum(own, np.finfo(chunk.X.dtype).max)


def outlier_limits(n_columns: int) -> FloatArray:
    """The score that one normal row in a thousand exceeds, for rows with 0 … p values, shape (p + 1,)."""
    return np.asarray(chi2.ppf(_CLEAN, np.arange(n_columns + 1)))


def outliers_of(chunk: Chunk, labels: IntArray, parameters: Parameters) -> dict[str, Any]:
    """Outlier scores and groups of the rows of a chunk with these components, and how many values they have."""
    distances, groups = farthest_groups(chunk, labels, parameters)
    return {
        "outlier_scores_": distances.astype(chunk.X.dtype),
        "outlier_groups_": groups,
        "n_values_": chunk.observed.astype(np.min_scalar_type(chunk.X.shape[1])),
    }
