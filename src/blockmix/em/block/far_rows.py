"""Far rows: squared distances of rows from their own component, by column group.

Rows and their components come in; distances go out. Σ_k δ_k = δ, because the blocks of a component are independent, so
the group that makes a row far can be named.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blockmix.em.block.e_step import Density
from blockmix.em.block.parameters import Parameters
from blockmix.rows import Chunk
from blockmix.structure.types import FloatArray, IntArray


def group_distances(chunk: Chunk, labels: IntArray, parameters: Parameters) -> FloatArray:
    """δ_k of each column group of the component of each row, shape (m, K); NaN where that component has fewer groups.

    As in the E-step a rounded value has the mean of the squared distances of the values that it stands for.
    """
    most = max(partition.n_groups for partition in parameters.layout.partitions)
    found = np.full((len(labels), most), np.nan)
    for _, rows, own in _by_component(chunk, labels, parameters):
        found[rows, : own.shape[1]] = own
    return found


def farthest_groups(chunk: Chunk, labels: IntArray, parameters: Parameters) -> tuple[FloatArray, IntArray]:
    """δ of each row from its component, and the column group in which it is least likely, shapes (m,).

    Groups of different sizes, or numbers of values, are compared by Wilson and Hilferty's normal score of a χ² value.
    """
    partitions = parameters.layout.partitions
    most = max(partition.n_groups for partition in partitions)
    distances, groups = np.empty(len(labels)), np.empty(len(labels), np.min_scalar_type(-most))
    for g, rows, own in _by_component(chunk, labels, parameters):
        sizes: FloatArray = partitions[g].sizes.astype(float)
        if chunk.has_gaps:
            sizes = ~np.isnan(chunk.X[rows]) @ (partitions[g].labels[:, None] == np.arange(len(sizes))).astype(float)
        spread = 2 / (9 * np.maximum(sizes, 1))
        scores = (np.cbrt(own / np.maximum(sizes, 1)) - (1 - spread)) / np.sqrt(spread)
        distances[rows] = own.sum(axis=1)
        groups[rows] = np.where(sizes > 0, scores, -np.inf).argmax(axis=1)
    return distances, groups


def _by_component(chunk: Chunk, labels: IntArray, parameters: Parameters) -> Iterator[tuple[int, IntArray, FloatArray]]:
    """Each component that rows have, these rows, and their δ_k, shape (k, K)."""
    from blockmix.em.block.gap_kernels import TILE
    from blockmix.em.block.kernels import block_distances

    density, gain = Density.of(parameters, chunk.has_gaps), np.empty(TILE) if chunk.has_gaps else None
    for g in np.unique(labels).tolist():
        rows = np.flatnonzero(labels == g)
        own = np.empty((len(rows), parameters.layout.partitions[g].n_groups))
        block_distances(chunk.X, rows, g, chunk.units, chunk.rounding, density, gain, own)
        yield g, rows, np.minimum(own, np.finfo(chunk.X.dtype).max)
