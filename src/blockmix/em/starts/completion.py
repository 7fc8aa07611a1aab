"""Completion of rows with gaps, for the clusterings of the default start only (docs/adr/0014).

Rows with missing values become standardized tables without gaps. EM itself never sees a filled value. There are two
tables because neither is the better start everywhere: neighbors keep clusters apart, regression keeps correlations.
"""

from __future__ import annotations

import numpy as np

from blockmix.em.block.e_step import Density
from blockmix.em.block.m_step import maximize
from blockmix.em.block.parameters import Layout, Prior
from blockmix.em.block.sweep import expected, sweep, unit_parameters
from blockmix.em.starts.starts import distinct
from blockmix.rows import ArrayRows
from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray

_NEIGHBORS = 7
_DONORS = 1000  # rows that are searched for neighbors
_COLUMNS = 64  # up to which one covariance of all columns is fitted
_STEPS, _PSEUDO_ROWS = 10, 64.0  # of that fit


def completed(rows: ArrayRows) -> list[FloatArray]:
    """Standardized rows, shape (N, p) each: one table if no value is missing, else one for each way to fill gaps."""
    if not rows.has_gaps:
        return [(rows.X - rows.location) / rows.scale]
    found = [by_neighbors(rows)]
    return found if rows.n_columns > _COLUMNS else [*found, by_regression(rows)]


def by_neighbors(rows: ArrayRows) -> FloatArray:
    """Gaps filled by the mean of the nearest rows; by the mean of the column if none of them has a value.

    The distance is the mean squared difference over the columns that both rows have. At most 1000 distinct rows are
    candidates.
    """
    X = (rows.X - rows.location) / rows.scale
    counted = np.flatnonzero(rows.weights > 0)
    _, _, place = distinct(np.nan_to_num(X), rows.weights, 1)
    different = counted[np.unique(place[counted], return_index=True)[1]]
    donors = X[different[:: -(-len(different) // _DONORS)]]
    parts = rows.map(lambda chunk: _near_means(X[chunk.place], donors))
    return np.concatenate(list(parts))


def _near_means(X: FloatArray, donors: FloatArray) -> FloatArray:
    """Rows X, shape (m, p), whose gaps have the means of the nearest donors, shape (D, p)."""
    found = X.copy()
    incomplete = np.flatnonzero(np.isnan(X).any(axis=1))
    values, there = np.nan_to_num(donors), ~np.isnan(donors)
    for some in np.array_split(incomplete, -(-len(incomplete) // _DONORS) or 1):
        own, known = np.nan_to_num(X[some]), (~np.isnan(X[some])).astype(float)
        both = known @ there.T
        squares = own**2 @ there.T + known @ (values**2).T - 2 * (own @ values.T)
        apart = np.where(both > 0, squares / np.maximum(both, 1), np.inf)
        # A row is its own neighbor too, but has no value where it is filled.
        near = np.argpartition(apart, min(_NEIGHBORS, len(donors) - 1), axis=1)[:, : _NEIGHBORS + 1]
        known_there = there[near] & np.isfinite(np.take_along_axis(apart, near, axis=1))[:, :, None]
        means = (values[near] * known_there).sum(axis=1) / np.maximum(known_there.sum(axis=1), 1)
        found[some] = np.where(known > 0, own, means)
    return found


def by_regression(rows: ArrayRows) -> FloatArray:
    """Gaps filled by their conditional means under one normal distribution, shrunk to independent columns."""
    layout = Layout((Partition.single(rows.n_columns),))
    parameters = unit_parameters(np.zeros((1, rows.n_columns)), layout)
    for _ in range(_STEPS):
        parameters = maximize(sweep(rows, parameters), parameters, Prior(_PSEUDO_ROWS))
    density = Density.of(parameters, gaps=True)
    return np.concatenate(list(rows.map(lambda chunk: expected(chunk, density, np.ones((len(chunk.X), 1))))))
