"""Far rows: squared distances of rows from their own component, by column group.

Rows and their components come in; distances go out. Σ_k δ_k = δ, because the blocks of a component are independent, so
the group that makes a row far can be named.
"""

from __future__ import annotations

import numpy as np

from blockmix.em.block.e_step import Density
from blockmix.em.block.parameters import Parameters
from blockmix.rows import Chunk
from blockmix.structure.types import FloatArray, IntArray


def group_distances(chunk: Chunk, labels: IntArray, parameters: Parameters) -> FloatArray:
    """δ_k of each column group of the component of each row, shape (m, K); NaN where that component has fewer groups.

    As in the E-step a rounded value has the mean of the squared distances of the values that it stands for.
    """
    from blockmix.em.block.gap_kernels import TILE
    from blockmix.em.block.kernels import block_distances

    n_groups = [partition.n_groups for partition in parameters.layout.partitions]
    found = np.full((len(labels), max(n_groups)), np.nan)
    density, gain = Density.of(parameters, chunk.has_gaps), np.empty(TILE) if chunk.has_gaps else None
    for g in np.unique(labels).tolist():
        rows = np.flatnonzero(labels == g)
        own = np.empty((len(rows), n_groups[g]))
        block_distances(chunk.X, rows, g, chunk.units, chunk.rounding, density, gain, own)
        found[rows, : n_groups[g]] = own
    return np.asarray(np.minimum(found, np.finfo(chunk.X.dtype).max))


def farthest_groups(chunk: Chunk, distances: FloatArray, labels: IntArray, parameters: Parameters) -> IntArray:
    """The column group in which each row is least likely, shape (m,), from distances (m, K).

    Groups of different sizes, or numbers of values, are compared by Wilson and Hilferty's normal score of a χ² value.
    """
    sizes: FloatArray = np.ones((len(parameters.means), distances.shape[1]))
    for g, partition in enumerate(parameters.layout.partitions):
        sizes[g, : partition.n_groups] = partition.sizes
    if chunk.has_gaps:
        sizes, labels = _n_values(chunk, labels, parameters, sizes[labels]), np.arange(len(labels))
    spread = 2 / (9 * np.maximum(sizes, 1))
    slopes, levels = 1 / np.cbrt(np.maximum(sizes, 1)) / np.sqrt(spread), (1 - spread) / np.sqrt(spread)
    scores = np.fmax(np.cbrt(distances) * slopes[labels] - levels[labels], -np.inf)  # NaN: there is no such group
    scores = np.where(sizes[labels] > 0, scores, -np.inf)
    groups: IntArray = scores.argmax(axis=1).astype(np.min_scalar_type(-distances.shape[1]))
    return groups


def _n_values(chunk: Chunk, labels: IntArray, parameters: Parameters, sizes: FloatArray) -> FloatArray:
    """Number of values that each row has in the column groups of its component, in place of their sizes (m, K)."""
    for g, partition in enumerate(parameters.layout.partitions):
        rows, K = np.flatnonzero(labels == g), partition.n_groups
        sizes[rows, :K] = ~np.isnan(chunk.X[rows]) @ (partition.labels[:, None] == np.arange(K)).astype(float)
    return sizes
