"""First parameters and column groups of the factor mixture: Ward's tree on the correlations within components.

Rows and responsibilities come in; groups, and variances of factors and noise that suit them, go out.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from blockmix.em.factor.m_step import Scatter, noise_variances
from blockmix.em.factor.parameters import FactorModel, FactorParameters
from blockmix.em.factor.sweep import sweep
from blockmix.grouping.hierarchical import cut
from blockmix.rows import Chunk, Rows
from blockmix.structure.types import FloatArray, IntArray

_TREE_COLUMNS = 200  # a tree needs all correlations between its columns; the others join its groups
_WEAK, _LEFT = 0.01, 0.1  # least share of a first factor, and of the first noise, in a column's variance


def first_parameters(rows: Rows, z: FloatArray, labels: IntArray, model: FactorModel) -> FactorParameters:
    """Parameters from responsibilities and groups: t_k is their mean covariance, d_j what it leaves of S_jj."""
    G, q = len(labels), model.n_groups
    unit = replace(_blank(G, rows.n_columns, q), labels=labels)
    statistics = sweep(rows, unit, z)
    seen = Scatter.of(statistics, unit)
    variances = _steadied(seen)
    totals = np.einsum("gkj,gj->gk", unit.projection, seen.variances)
    sizes = unit.precisions
    t = np.maximum((seen.spread - totals) / np.maximum(sizes * (sizes - 1), 1), _WEAK * totals / sizes)
    if model.unit_factors:
        t = np.ones_like(t)
    elif model.shared_factors:
        # Groups are matched by rank, so that group k of every component can share t_k.
        order = np.argsort(-t, axis=1) if not model.shared_groups else np.tile(np.arange(q), (G, 1))
        labels = np.take_along_axis(np.argsort(order, axis=1), labels, axis=1)
        t = np.broadcast_to(seen.rows @ np.take_along_axis(t, order, axis=1) / seen.rows.sum(), t.shape)
    left = np.maximum(variances - np.take_along_axis(t, labels, axis=1), _LEFT * variances)
    noise = noise_variances(left, np.maximum(seen.rows, 1), unit.noise, model)
    return FactorParameters(statistics.weight / statistics.weight.sum(), seen.means, labels, t, noise)


def _blank(G: int, p: int, q: int) -> FactorParameters:
    labels = np.zeros((G, p), dtype=np.intp)
    return FactorParameters(np.full(G, 1 / G), np.zeros((G, p)), labels, np.zeros((G, q)), np.ones((G, p)))


def _steadied(seen: Scatter) -> FloatArray:
    """Variances (G, p) with one row's worth of the pooled ones: a component of one row has none of its own."""
    n = seen.rows[:, None]
    pooled = (n * seen.variances).sum(axis=0) / n.sum()
    return np.asarray((n * seen.variances + pooled) / (n + 1))


def first_groups(rows: Rows, z: FloatArray, model: FactorModel) -> IntArray:
    """Ward's tree on the correlations within components, cut into q groups; shape (G, p).

    Correlations have their sign, since columns of one group cannot be correlated negatively. The tree of a wide table
    is made of some of its columns, evenly spaced; the others join the group whose mean they are nearest to.
    """
    G, p = z.shape[1], rows.n_columns
    blank = _blank(G, p, 1)
    seen = Scatter.of(sweep(rows, blank, z), blank)
    columns = tree_columns(p, 2 * model.n_groups)
    R = correlations(rows, z, seen.means, columns, model, model.shared_groups)
    found = np.stack([cut(_ward(correlation), model.n_groups).labels for correlation in R])
    labels = np.zeros((G, p), dtype=np.intp)
    labels[:, columns] = found
    if len(columns) < p:
        labels = _nearest_groups(rows, z, seen, labels, columns, model)
        labels[:, columns] = found
    return labels


def _nearest_groups(
    rows: Rows, z: FloatArray, seen: Scatter, labels: IntArray, columns: IntArray, model: FactorModel
) -> IntArray:
    """The group whose mean of standardized columns, of those in the tree, each column is nearest to; shape (G, p)."""
    deviations = np.sqrt(_steadied(seen))
    noise = np.full(labels.shape, np.inf)  # a column of infinite noise has no part in the sums of its group
    noise[:, columns] = deviations[:, columns]
    sampled = FactorParameters(seen.rows, seen.means, labels, np.zeros((len(labels), model.n_groups)), noise)
    near = Scatter.of(sweep(rows, sampled, z), sampled)
    sizes = np.stack([np.bincount(row, minlength=model.n_groups) for row in labels[:, columns]])
    distances = (near.spread / sizes**2)[:, :, None] - 2 * near.cross / (sizes[:, :, None] * deviations[:, None, :])
    if model.shared_groups:
        distances = np.broadcast_to(np.einsum("g,gkj->kj", seen.rows, distances), distances.shape)
    return np.asarray(distances.argmin(axis=1))


def tree_columns(p: int, least: int = 0) -> IntArray:
    """Columns that a tree is made of: all, or evenly spaced ones where there are many."""
    count = min(p, max(_TREE_COLUMNS, least))
    return np.asarray(np.linspace(0, p - 1, count), dtype=np.intp)


def correlations(
    rows: Rows, z: FloatArray, means: FloatArray, columns: IntArray, model: FactorModel, pooled: bool = False
) -> FloatArray:
    """Correlations of some columns within each component, shape (G, c, c), or (1, c, c) within all of them together.

    A column whose variance is below the floor of the noise is taken as constant: its correlations would be rounding.
    """
    scatter = rows.map_sum(partial(_weighted_scatter, z=z, means=means, columns=columns))
    counts = rows.map_sum(partial(_counts, z=z))
    if pooled:
        scatter, counts = scatter.sum(axis=0, keepdims=True), counts.sum(keepdims=True)
    variances = np.diagonal(scatter, axis1=1, axis2=2)
    varies = variances > counts[:, None] * model.floor[columns]
    inverse = np.where(varies, 1 / np.sqrt(np.where(varies, variances, 1)), 0)
    R = np.clip(scatter * inverse[:, :, None] * inverse[:, None, :], -1, 1)
    R[:, np.arange(len(columns)), np.arange(len(columns))] = 1
    return R


def _weighted_scatter(chunk: Chunk, z: FloatArray, means: FloatArray, columns: IntArray) -> FloatArray:
    weights = (z[chunk.place] * chunk.weights[:, None]).T
    centered = chunk.values[:, columns].T - means[:, columns, None]
    return np.asarray(np.matmul(centered * weights[:, None, :], centered.swapaxes(1, 2)))


def _counts(chunk: Chunk, z: FloatArray) -> FloatArray:
    return np.asarray(chunk.weights @ z[chunk.place])


def _ward(R: FloatArray) -> FloatArray:
    """Ward's tree of standardized columns, whose squared distances are 2 (1 − r)."""
    if len(R) == 1:
        return np.empty((0, 4))
    return np.asarray(linkage(squareform(np.sqrt(2 * (1 - R)), checks=False), method="ward"))
