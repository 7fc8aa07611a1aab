"""Imputation: missing cells given the other values of their row, as expectations, variances and draws.

Given its component, a missing value depends on its own block only: with precision P = Σ⁻¹ of the block, the covariance
of its missing values is P_mm⁻¹ (docs/adr/0014). With heavy tails it is larger the farther the row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax

from blockmix.blocks.blocks import block_of
from blockmix.em.parameters import Density, filled, log_joint
from blockmix.em.sweep import expected
from blockmix.estimators.validation import rows_to_score
from blockmix.partition import FloatArray, IntArray
from blockmix.rows import ArrayRows, Chunk, Rows, one_blas_thread
from blockmix.rows.powers import Powers

_LEAST = 1e-12  # eigenvalue of a precision with diagonal 1, below which rounding decides


def imputed(model: Any, X: Any, draws: int | None, seed: int) -> list[Any]:
    """The completed tables: one with expectations, or as many as there are draws."""
    numbers: list[int | None] = [None] if draws is None else [*range(draws)]
    rows = rows_to_score(model, X, cast=False)
    tables = zip(*_mapped(model, rows, partial(_tables, numbers=numbers, seed=seed)), strict=True)
    completed = [np.concatenate(parts) for parts in tables]
    if isinstance(rows, ArrayRows) and (hasattr(X, "isetitem") or hasattr(X, "with_columns")):
        changed = np.flatnonzero(np.isnan(rows.X).any(axis=0)).tolist()
        return [_replaced(X, values, changed) for values in completed]
    return completed


def conditional_moments(model: Any, X: Any) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of each cell given the other values of its row, shapes (N, p)."""
    if model._parameters.powers is not None:
        raise ValueError('columns="power" leaves no simple variance of a missing cell: use impute(X, draws=100)')
    means, variances = zip(*_mapped(model, rows_to_score(model, X, cast=False), _moments), strict=True)
    return np.concatenate(means), np.concatenate(variances)


def _mapped(model: Any, rows: Rows, function: Any) -> Iterator[Any]:
    """A function of each chunk, the chunk in the type of the fit, its density, probabilities and weights u."""
    density = model._parameters.density(missing=True)
    settings: dict[str, Any] = {"density": density, "powers": model._parameters.powers, "dtype": model.means_.dtype}
    with one_blas_thread():
        yield from rows.map(partial(_of_chunk, function=function, **settings))


def _of_chunk(chunk: Chunk, function: Any, density: Density, powers: Powers | None, dtype: Any) -> Any:
    cast = replace(chunk, X=chunk.X.astype(dtype, copy=False)).powered(powers)
    joint, u = log_joint(cast, density)
    return function(chunk, cast, density, softmax(joint, axis=1), np.ones_like(joint) if u is None else u)


def _tables(
    chunk: Chunk, cast: Chunk, density: Density, z: FloatArray, u: FloatArray, numbers: list[int | None], seed: int
) -> list[FloatArray]:
    """The rows of a chunk once per number, in the units of X; values that are present stay to the last bit."""
    if not chunk.has_missing:
        return [chunk.X.copy() for _ in numbers]
    tables = []
    for number in numbers:
        rng = None if number is None else np.random.default_rng([seed, number, chunk.place.start])
        values = expected(cast, density, z) if rng is None else _drawn(cast, density, z, u, rng)
        values = values if cast.powers is None else cast.powers.inverse(values)
        tables.append(np.where(np.isnan(chunk.X), values.astype(chunk.X.dtype), chunk.X))
    return tables


def _cells(chunk: Chunk, density: Density, g: int) -> Iterator[tuple[IntArray, IntArray, FloatArray, FloatArray]]:
    """Missing cells of a chunk in component g, by block and number k in a row.

    Rows (r,), columns (r, k), conditional means (r, k) and roots A, C = AAᵀ, of their covariances (r, k, k).
    """
    every, missing = np.arange(len(chunk.X)), np.isnan(chunk.X)
    means = density.means[g] + filled(chunk, density, g, every, np.ones((2, len(every))))[0]
    for place in density.blocks[density.first[g] : density.first[g + 1]].tolist():
        columns, P = density.order[g, place[0] : place[1]], block_of(density.inverses, *place)
        gone = missing[:, columns]
        counts = gone.sum(axis=1)
        for k in np.unique(counts[counts > 0]).tolist():
            rows = np.flatnonzero(counts == k)
            places = np.nonzero(gone[rows])[1].reshape(-1, k)
            scale = np.sqrt(np.diagonal(P))[places]
            precisions = P[places[:, :, None], places[:, None, :]] / scale[:, :, None] / scale[:, None, :]
            values, vectors = np.linalg.eigh(precisions)
            roots = vectors / np.sqrt(np.maximum(values, _LEAST))[:, None, :] / scale[:, :, None]
            yield rows, columns[places], means[rows[:, None], columns[places]], roots


def _moments(
    chunk: Chunk, cast: Chunk, density: Density, z: FloatArray, u: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Conditional means Σ_g z_g m_g and variances Σ_g z_g (v_g + (m_g − m)²) of the cells of a chunk."""
    means = np.where(np.isnan(chunk.X), expected(cast, density, z), chunk.X)
    variances, freedom = np.zeros(means.shape), density.freedom + chunk.observed[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):  # (ν + δ)/(ν + n − 2) for the n values of a row
        spread = np.where(np.isinf(freedom), 1.0, np.where(freedom > 2, freedom / (freedom - 2), np.inf)) / u
    for g in range(z.shape[1] if chunk.has_missing else 0):
        for rows, columns, centers, roots in _cells(cast, density, g):
            at = rows[:, None], columns
            own = (roots**2).sum(axis=2) * spread[rows, None, g]
            variances[at] += z[rows, None, g] * (own + (centers - means[at]) ** 2)
    return means, variances


def _drawn(chunk: Chunk, density: Density, z: FloatArray, u: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The values of a chunk with a draw in place of each missing one: first the component of a row, then its cells."""
    values = chunk.X.astype(float)
    components = (z.cumsum(axis=1) < rng.random(len(z))[:, None]).sum(axis=1).clip(max=z.shape[1] - 1)
    for g in np.unique(components).tolist():
        rows = np.flatnonzero(components == g)
        freedom, stretch = density.freedom[g] + chunk.observed[rows], np.ones(len(rows))
        if np.isfinite(density.freedom[g]):
            stretch = np.sqrt(freedom / rng.chisquare(freedom) / u[rows, g])
        for at, columns, centers, roots in _cells(chunk.take(rows), density, g):
            noise = np.einsum("rij,rj->ri", roots, rng.standard_normal(columns.shape))
            values[rows[at][:, None], columns] = centers + stretch[at, None] * noise
    return values


def _replaced(frame: Any, values: FloatArray, numbers: list[int]) -> Any:
    """A pandas or polars data frame with some of its columns replaced; whole numbers become floating point."""
    if hasattr(frame, "with_columns"):
        new = [type(frame[:, j])(frame.columns[j], values[:, j]) for j in numbers]
        types = [frame.schema[column.name] for column in new]
        return frame.with_columns([x.cast(a) if a.is_float() else x for x, a in zip(new, types, strict=True)])
    completed = frame.copy()
    for j in numbers:
        column = frame.iloc[:, j]
        dtype = column.dtype if column.dtype.kind == "f" else "Float64"
        completed.isetitem(j, type(column)(values[:, j], index=column.index, dtype=dtype))
    return completed
