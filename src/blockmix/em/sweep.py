"""One sweep over the rows, and the M-step from its statistics (paper, section 3).

The statistics add up over rows. While the column groups are fixed a sweep takes the scatter within blocks
only, Σ c² numbers per component; `full_scatter` takes all of it, so that new groups can be proposed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from blockmix.blocks.blocks import Blocks, Layout, best_blocks, block_of, factorized
from blockmix.blocks.gram import GramMatrix
from blockmix.blocks.moments import as_matrix
from blockmix.em.parameters import Density, Parameters, Prior, filled, missing_room, posterior, room
from blockmix.em.tails import expanded, new_freedom, reweighted
from blockmix.grouping.common_factors import common_step
from blockmix.partition import FloatArray
from blockmix.rows import Chunk, Rows
from blockmix.rows.measured import Additive

SINGULAR = "component {} has no variance in some column: give a ridge above 0"
DEPENDENT = "a component has columns that depend on each other, or too few rows: give a ridge above 0"
# Share of the variance of a column that others leave to it: without a ridge the digits of the objective end here.
_SINGULAR = 1e-12
NO_VARIANCE = 1e-26  # of a standardized column: what rounding leaves of none
EMPTY = 1e-10  # share of the rows below which a component has no moments of its own
# Largest diagonal entry of Σ⁻¹ in standardized columns. The shortcut for a shared covariance loses this factor times
# machine precision, the plain sweep does not: with copies of columns the trace fell by 1e-7 per row, at 1e4 by 1e-11.
_LARGEST_PRECISION = 1e4
# Total scatters of rows still in use: EM sweeps the same rows a hundred times.
_totals: WeakKeyDictionary[Rows, FloatArray] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Statistics(Additive):
    """Sums over the rows that the M-step needs.

    Attributes
    ----------
    log_likelihood : float
    weight : array of shape (G,)
        Σz.
    mass : array of shape (G,)
        Σzu: the weight of the rows in the moments below. Rows have u = 1 unless tails are heavy.
    excess : array of shape (G, p)
        Σzu(x − μ), about the means μ of the parameters that the sweep was made with.
    blur : array of shape (G, p)
        ΣzuΔ, the variance that rounding leaves: to be added to the diagonal of the scatter.
    scatter : array
        Σzu(x − μ)(x − μ)ᵀ: the blocks of the distinct covariances, flat, of which the lower triangles count; or full
        matrices, shape (covariances, p, p), or `RowScatters` in place of these.
    tail : array of shape (G,) or None
        Σz(E log u − u); None if the tails are normal.
    cross : array of shape (G, q, p) or None
        Σzuβ(x − μ)(x − μ)ᵀ for common factors; None without any, and where the scatter is that of all columns.
    """

    log_likelihood: float
    weight: FloatArray
    mass: FloatArray
    excess: FloatArray
    blur: FloatArray
    scatter: Any
    tail: FloatArray | None = None
    cross: FloatArray | None = None

    def means(self, old: FloatArray) -> FloatArray:
        """New means, shape (G, p); the overall mean, which is zero, for an empty component."""
        new = old + self.excess / np.where(self.mass > 0, self.mass, 1)[:, None]
        return np.where((self.weight < EMPTY * self.weight.sum())[:, None], 0.0, new)


class RowScatters(list[GramMatrix]):
    """Full scatters, one per covariance, stored as rows; they add up like an array of shape (covariances, p, p)."""

    ndim = 3

    def __add__(self, other: RowScatters) -> RowScatters:  # type: ignore[override]
        return RowScatters(a + b for a, b in zip(self, other, strict=True))

    def __truediv__(self, divisors: FloatArray) -> RowScatters:
        return RowScatters(matrix / n for matrix, n in zip(self, divisors.ravel().tolist(), strict=True))


def sweep(rows: Rows, parameters: Parameters) -> Statistics:
    """Read every row once, using the shortcut for a shared covariance where it applies.

    The shortcut does not apply to heavy tails, whose log-odds are not linear, nor to missing values or rows of known
    components. With more columns
    than rows the total scatter costs more than it saves, and copies of columns cost it its digits.
    """
    rows = rows.powered(parameters.powers)
    shared = parameters.blocks.layout.n_sharing > 1 and parameters.degrees_of_freedom is None
    shared = shared and not rows.has_missing and getattr(rows, "known", None) is None
    if shared and rows.n_rows > rows.n_columns and parameters.summaries.precisions[0].max() < _LARGEST_PRECISION:
        return _sweep_shared(rows, parameters)
    # Common factors let missing values depend on all columns, so these rows have the scatter of all columns.
    swept = parameters.dense if rows.has_missing and parameters.blocks.loadings is not None else parameters
    density = swept.density(rows.has_missing)
    return rows.map_sum(partial(_chunk_statistics, density=density, size=swept.blocks.layout.size))


def _chunk_statistics(chunk: Chunk, density: Density, size: int) -> Statistics:
    from blockmix.em.kernels import moments

    z, log_likelihood, u = posterior(chunk, density)
    # Covariances of missing values count by z before it is multiplied by u.
    certain = z.copy() if chunk.has_missing else None
    weight, tail = (None, None) if u is None else reweighted(chunk, z, u, density.freedom)
    shape = density.means.shape
    sums = np.zeros(shape[0]), np.zeros(shape), np.zeros(shape), np.zeros(size), np.zeros(density.slopes.shape)
    work = missing_room(chunk, density) if chunk.has_missing else None
    given = chunk.units, chunk.rounding, density, room(density), work, np.empty(len(z), dtype=np.intp)
    moments(chunk.X, chunk.weights, z, certain, *given, sums)
    cross = sums[-1] if sums[-1].size else None
    return Statistics(log_likelihood, sums[0] if weight is None else weight, *sums[:-1], tail, cross)


def _sweep_shared(rows: Rows, parameters: Parameters) -> Statistics:
    """The sweep of components that share one covariance, by a shortcut (paper, section 3.4, topic modelling).

    The scatter within components is the total scatter, which never changes, less that of their means, and log-odds are
    linear in x: O(N p G) for a sweep instead of O(N G Σ c²). At 20 491 × 400, G = 5, largest block 325, the plain sweep
    takes 1.2 s of processor time, this one 0.06 s.
    """
    layout, means, blocks = parameters.blocks.layout, parameters.means, parameters.blocks[0]
    precision = blocks.precision()
    slopes = means @ precision
    with np.errstate(divide="ignore"):
        level = np.log(parameters.weights) - 0.5 * np.einsum("gj,gj->g", slopes, means)
    linear = rows.map_sum(partial(_linear_statistics, slopes=slopes, level=level))
    if rows not in _totals:
        _totals[rows] = rows.map_sum(_total_scatter)
    total = _totals[rows]
    constant = rows.n_columns * np.log(2 * np.pi) + blocks.logdet
    log_likelihood = linear.log_likelihood - 0.5 * (rows.total_weight * constant + float((precision * total).sum()))
    new = linear.means(np.zeros_like(means))
    shift = new - means
    about_old = as_matrix(total - (linear.weight * new.T) @ new + (linear.weight * shift.T) @ shift)
    scatter = about_old.gathered(layout.order[0], layout.distinct_blocks, layout.size)
    excess, cross = linear.excess - linear.weight[:, None] * means, None
    if blocks.loadings is not None:  # all of it with the first component: it is summed over those that share
        cross = np.zeros((len(means), *blocks.scoring.slopes.shape[1:]))
        cross[0] = blocks.scoring.slopes[0] @ about_old
    return Statistics(log_likelihood, linear.weight, linear.weight, excess, linear.blur, scatter, cross=cross)


def _linear_statistics(chunk: Chunk, slopes: FloatArray, level: FloatArray) -> Statistics:
    """Weight and Σzx of a chunk, and its log-likelihood without the part that all components have in common."""
    from blockmix.em.kernels import responsibilities

    values = chunk.values
    z = level + values @ slopes.T
    log_likelihood = responsibilities(z, chunk.weights)
    log_likelihood += 0.0 if chunk.gain is None else float(chunk.weights @ chunk.gain)
    z *= chunk.weights[:, None]
    sums = z.T @ values
    weight = z.sum(axis=0)
    return Statistics(log_likelihood, weight, weight, sums, np.zeros_like(sums), np.zeros(0))


def _total_scatter(chunk: Chunk) -> FloatArray:
    """Σ w (x xᵀ + Δ) of standardized rows, shape (p, p); Δ is what rounding leaves of their variances."""
    values = chunk.values
    scatter = (values.T * chunk.weights) @ values
    scatter.flat[:: len(scatter) + 1] += chunk.weights @ chunk.rounding_variances
    return np.asarray(scatter)


def full_scatter(
    rows: Rows,
    parameters: Parameters,
    components: range | None = None,
    z: FloatArray | Parameters | None = None,
    as_rows: bool = False,
) -> Statistics:
    """Statistics with full scatter matrices, of some components or, where they share a covariance, of their sum.

    Weight, mass and excess are those of all components.
    Responsibilities z, shape (N, G), are those of the parameters unless they are given, or those of other parameters.
    Scatters of complete rows can be had `as_rows`.
    """
    chosen = range(len(parameters.weights)) if components is None else components
    rows, density = rows.powered(parameters.powers), parameters.density(rows.has_missing)
    n = len(chosen) // parameters.blocks.layout.n_sharing
    settings: dict[str, Any] = {"density": density, "n_covariances": n, "components": chosen, "given": z}
    return rows.map_sum(partial(chunk_scatter, as_rows=as_rows, **settings))


def chunk_scatter(
    chunk: Chunk,
    density: Density,
    n_covariances: int,
    components: range,
    given: FloatArray | Parameters | None,
    as_rows: bool = False,
) -> Statistics:
    """Statistics of a chunk with full scatter matrices; see `full_scatter`.

    Between blocks a missing value has no covariance with other values: the scatter there is that of the filled rows.
    """
    from blockmix.em.kernels import center

    if given is None:
        z, log_likelihood, u = posterior(chunk, density)
    elif isinstance(given, Parameters):
        z, log_likelihood, u = posterior(chunk.powered(given.powers), given.density(missing=True))
    else:
        z, log_likelihood, u = given[chunk.place], np.nan, None
    certain = z.copy() if chunk.has_missing else None
    weight, tail = (None, None) if u is None else reweighted(chunk, z, u, density.freedom)
    share = np.asarray(z * chunk.weights[:, None])
    mass, excess, p = share.sum(axis=0), np.zeros(density.means.shape), density.means.shape[1]
    scatter: Any = np.zeros((0 if as_rows else n_covariances, p, p))
    scatter = RowScatters([GramMatrix.of(np.empty((0, p)))] * n_covariances) if as_rows else scatter
    for g in range(len(excess)):
        weights = np.ascontiguousarray(share[:, g])
        rows = np.flatnonzero(weights)
        number = g - components.start if n_covariances > 1 else 0
        centered: FloatArray = np.empty((len(rows), p))
        if certain is None:
            center(chunk.X, rows, weights, chunk.units, density.means[g], centered)
        else:
            centered, extra = filled(chunk, density, g, rows, np.stack([certain[:, g] * chunk.weights, weights]))
            if g in components:
                _add_blocks(scatter[number], extra, density, g)
        excess[g] = np.sqrt(weights[rows]) @ centered
        if g in components:
            scatter[number] += GramMatrix.of(centered) if as_rows else centered.T @ centered
    blur, (columns, table, codes) = np.zeros_like(excess), chunk.rounding
    if len(columns):
        blur[:, columns] = share.T @ table[np.arange(len(columns)), codes]
    return Statistics(log_likelihood, mass if weight is None else weight, mass, excess, blur, scatter, tail)


def _add_blocks(full: FloatArray, flat: FloatArray, density: Density, g: int) -> None:
    """Add the lower triangles of flat blocks of component g, and their mirror images, to a matrix (p, p)."""
    for lo, hi, start in density.blocks[density.first[g] : density.first[g + 1]].tolist():
        columns = density.order[g, lo:hi]
        lower = np.tril(block_of(flat, lo, hi, start))
        full[np.ix_(columns, columns)] += lower + np.tril(lower, -1).T


def supporting_rows(rows: Rows, parameters: Parameters) -> FloatArray:
    """Rows that the variance of each distinct block rests on, in the direction where they are fewest, shape (B,).

    With C, the mean conditional covariance of what is missing, a direction v of a block Σ of n rows rests on
    n (1 − vᵀCv / vᵀΣv) of them: the rest of its variance is what the model itself fills in. A block that collapses
    leaves only the rows that are complete in its columns.
    """
    layout, blocks = parameters.blocks.layout, parameters.blocks
    counts = np.repeat(layout.pooled(parameters.weights) * rows.total_weight, [d.n_groups for d in layout.distinct])
    if not rows.has_missing:
        return counts
    rows, density = rows.powered(parameters.powers), parameters.density(missing=True)
    total = rows.map_sum(partial(_missing_scatter, density=density))
    whiteners = blocks.whiteners
    if blocks.loadings is not None:
        total, covariances = within_groups(total, layout), parameters.covariances
        whiteners = Blocks(layout, factorized(layout, within_groups(covariances, layout))).whiteners
    for b, (lo, hi, start) in enumerate(layout.distinct_blocks.tolist()):
        W, lower = block_of(whiteners, lo, hi, start), np.tril(block_of(total, lo, hi, start))
        filled_in = W @ (lower + np.tril(lower, -1).T) @ W.T
        counts[b] -= min(float(np.linalg.eigvalsh(filled_in)[-1]), float(counts[b]))
    return counts


def within_groups(full: FloatArray, layout: Layout) -> FloatArray:
    """Blocks of full matrices of the distinct covariances, of which the lower triangles count, flat."""
    flat, p = np.empty(layout.size), layout.order.shape[1]
    for d, matrix in enumerate(full.reshape(-1, p, p)):
        whole = np.tril(matrix) + np.tril(matrix, -1).T
        for lo, hi, start in layout.blocks[layout.first[d] : layout.first[d + 1]].tolist():
            columns = layout.order[d, lo:hi]
            block_of(flat, lo, hi, start)[:] = whole[np.ix_(columns, columns)]
    return flat


def _missing_scatter(chunk: Chunk, density: Density) -> FloatArray:
    """Σz times the conditional covariance of the missing values of the rows of a chunk, flat."""
    z, _, _ = posterior(chunk, density)
    total = np.zeros(len(density.inverses))
    for g in range(z.shape[1]):
        share = z[:, g] * chunk.weights
        total += filled(chunk, density, g, np.flatnonzero(share), np.stack([share, share]))[1]
    return total


def expected(chunk: Chunk, density: Density, z: FloatArray) -> FloatArray:
    """Standardized values of a chunk, with Σ_g z_g E(x_m | x_o, g) in place of missing ones, shape (m, p)."""
    values, missing = chunk.values, np.isnan(chunk.X)
    rows = np.flatnonzero(missing.any(axis=1))
    part, every = chunk.take(rows), np.arange(len(rows))
    means = np.zeros(part.X.shape)
    for g, mean in enumerate(density.means):
        centered, _ = filled(part, density, g, every, np.ones((2, len(rows))))
        means += z[rows, g, None] * (mean + centered)
    values[rows] = np.where(missing[rows], means, values[rows])
    return values


def unit_parameters(rows: Rows, z: FloatArray | Parameters, layout: Layout) -> Parameters:
    """Equal weights, identity covariances and the means of the values of each component, for given z (N, G).

    Full sweeps with given responsibilities are centered by it. The mean is the overall one, which is zero, for an empty
    component and for a column of which it has no values.
    """
    sums, weight = rows.map_sum(partial(_chunk_sums, given=z))
    means = np.where(weight < EMPTY * weight.sum(axis=0), 0.0, sums / np.where(weight > 0, weight, 1))
    factors = np.zeros(layout.size)
    factors[layout.diagonal] = 1
    return Parameters(np.full(len(means), 1 / len(means)), means, Blocks(layout, factors), powers=rows.powers)


def _chunk_sums(chunk: Chunk, given: FloatArray | Parameters) -> FloatArray:
    """Σzx and Σz of the values of a chunk with given responsibilities, shape (2, G, p)."""
    if isinstance(given, Parameters):
        z = posterior(chunk.powered(given.powers), given.density(missing=True))[0]
    else:
        z = given[chunk.place]
    share = np.asarray(z * chunk.weights[:, None])
    if not chunk.has_missing:
        sums = share.T @ (chunk.X - chunk.location) / chunk.scale
        return np.stack([sums, np.repeat(share.sum(axis=0)[:, None], sums.shape[1], axis=1)])
    values = chunk.values
    present = ~np.isnan(values)
    return np.stack([share.T @ np.where(present, values, 0), share.T @ present])


def maximize(statistics: Statistics, old: Parameters, prior: Prior) -> Parameters:
    """New parameters from the statistics of a sweep; column groups and shapes stay."""
    blocks, layout = old.blocks, old.blocks.layout
    if old.degrees_of_freedom is not None:
        statistics, blocks = expanded(statistics, old, prior)
    if blocks.loadings is None:
        return from_scatter(statistics, old, layout, statistics.scatter.copy(), prior, blocks.states)
    loadings = _new_loadings(statistics, old.means, blocks)
    scatter = statistics.scatter.copy() if statistics.cross is not None else within_groups(statistics.scatter, layout)
    return from_scatter(statistics, old, layout, scatter, prior, blocks.states, loadings=loadings)


def _new_loadings(statistics: Statistics, old_means: FloatArray, blocks: Blocks) -> FloatArray:
    """Loadings from the cross-products of rows with their common factors, or from the scatter of all columns."""
    slopes, layout, p = blocks.scoring.slopes, blocks.layout, old_means.shape[1]
    shift, each = statistics.means(old_means) - old_means, np.repeat(slopes, layout.n_sharing, axis=0)
    moved = statistics.mass[:, None] * np.einsum("gqp,gp->gq", each, shift)
    change = layout.pooled(each * statistics.blur[:, None] - moved[:, :, None] * shift[:, None])
    if statistics.cross is not None:
        cross = layout.pooled(statistics.cross)
    else:
        lower = np.tril(statistics.scatter.reshape(-1, p, p))
        cross = slopes @ (lower + np.swapaxes(np.tril(lower, -1), 1, 2))
    return common_step(blocks, np.swapaxes(cross + change, 1, 2), layout.pooled(statistics.weight))


def from_scatter(
    statistics: Statistics,
    old: Parameters,
    layout: Layout,
    scatter: FloatArray,
    prior: Prior,
    states: Mapping[int, FloatArray],
    centered: bool = False,
    loadings: FloatArray | None = None,
) -> Parameters:
    """Covariances (scatter + blur + (κ + ρ) I) / (n + κ), pooled over the components that share one.

    The scatter is flat, about the old means or, if centered, about the new, and is used up. The sweep was made with the
    old parameters. With loadings the blocks are those of what they leave.
    """
    from blockmix.blocks.kernels import normalize, subtract_products

    means, mass, freedom = statistics.means(old.means), statistics.mass, old.degrees_of_freedom
    shift = np.zeros(means.shape) if centered else means - old.means
    counts, added = layout.pooled(statistics.weight), layout.pooled(statistics.blur)
    # An empty component has the weight at which it became empty and the overall variances: finite without a prior, and
    # with one no narrower than just before, so that the penalty does not grow.
    least = EMPTY * statistics.weight.sum()
    empty = counts < least
    if empty.any():
        scatter[empty[layout.owner]], mass = 0, np.where(np.repeat(empty, layout.n_sharing), 0, mass)
        added = np.where(empty[:, None], least, added)
        counts = np.where(empty, least, counts)
        loadings = None if loadings is None else np.where(empty[:, None, None], 0.0, loadings)
    if loadings is not None:
        subtract_products(loadings, counts, layout.order, layout.blocks, layout.first, scatter)
    added = added + layout.n_sharing * (prior.shrinkage + prior.ridge)
    divisors = counts + layout.n_sharing * prior.shrinkage
    normalize(scatter, mass, shift, added, divisors, layout.order, layout.blocks, layout.first)
    variances = scatter[layout.diagonal]
    if not (variances > NO_VARIANCE).all():
        raise ValueError(SINGULAR.format(int(np.argmin(variances)) // means.shape[1]))
    blocks, _ = best_blocks(layout, scatter, states, loadings)
    if not prior.ridge + prior.shrinkage:
        for place in layout.distinct_blocks.tolist():
            squares = block_of(blocks.factors, *place) ** 2
            if (squares.diagonal() < _SINGULAR * squares.sum(axis=1)).any():
                raise ValueError(DEPENDENT)
    if freedom is not None and statistics.tail is not None:
        freedom = new_freedom(statistics.tail, statistics.weight, freedom)
    return Parameters(statistics.weight / statistics.weight.sum(), means, blocks, freedom, old.powers)
