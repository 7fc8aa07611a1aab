"""E-step of the block mixture: log π_g f_g of rows under given parameters (paper, section 3).

Rows and parameters come in; joint log-densities go out, from which responsibilities and scores follow. The density of
a row with gaps is that of its values (docs/adr/0014). With heavy tails each row also has a weight u in each component,
which is small where the row is far away (docs/adr/0013).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from blockmix.blocks.blocks import SMALL, Layout, Parameters, block_of
from blockmix.blocks.moments import GramMatrix, products
from blockmix.em.tails import expected_logs, student
from blockmix.partition import FloatArray, IntArray
from blockmix.rows import Chunk, Rows
from blockmix.rows.measured import Additive


class Density(NamedTuple):
    """Parameters as the compiled loops take them.

    Attributes
    ----------
    level : array of shape (G,)
        log π_g − ½ log|2π Σ_g|.
    means : array of shape (G, p)
    order, blocks, first : arrays
        See `Layout`.
    whiteners : flat array
        Inverse Cholesky factors of the blocks.
    precisions : array of shape (G, p)
        Diagonals of the inverse covariances.
    freedom : array of shape (G,)
        Degrees of freedom; infinite for normal components.
    inverses : flat array
        Inverse blocks, for rows with gaps; empty if there are none.
    """

    level: FloatArray
    means: FloatArray
    order: IntArray
    blocks: IntArray
    first: IntArray
    whiteners: FloatArray
    precisions: FloatArray
    freedom: FloatArray
    inverses: FloatArray

    @classmethod
    def of(cls, parameters: Parameters, gaps: bool = True) -> Density:
        """The arrays of some parameters."""
        layout, level, freedom = parameters.layout, parameters.levels, parameters.degrees_of_freedom
        freedom = np.full(len(level), np.inf) if freedom is None else freedom
        whiteners = parameters.whiteners
        flat = whiteners, parameters.precisions, freedom, _inverses(layout, whiteners) if gaps else np.empty(0)
        return cls(level, parameters.means, layout.order, layout.blocks, layout.first, *flat)


def _inverses(layout: Layout, whiteners: FloatArray) -> FloatArray:
    """Inverse blocks P = WᵀW, flat."""
    from blockmix.em.missing_kernels import square

    inverses = np.empty(layout.size)
    square(layout.own_blocks, whiteners, inverses, SMALL)
    for place in layout.large:
        W = block_of(whiteners, *place)
        block_of(inverses, *place)[:] = W.T @ W
    return inverses


class Posterior(NamedTuple):
    """What the E-step knows of the rows of a chunk.

    Attributes
    ----------
    z : array of shape (m, G)
        Responsibilities.
    log_likelihood : float
    u : array of shape (m, G) or None
        Weights of the rows in the moments of a component, (ν + p)/(ν + δ); None, for 1, if components are normal.
    """

    z: FloatArray
    log_likelihood: float
    u: FloatArray | None


def posterior(chunk: Chunk, density: Density) -> Posterior:
    """Responsibilities, log-likelihood and weights of the rows of a chunk."""
    from blockmix.em.kernels import responsibilities

    z, u = _log_joint(chunk, density)
    return Posterior(z, responsibilities(z, chunk.weights), u)


def log_joint(chunk: Chunk, density: Density) -> FloatArray:
    """Log π_g f_g(x) of the standardized rows of a chunk, shape (m, G), in double precision."""
    return _log_joint(chunk, density)[0]


def half_distances(chunk: Chunk, density: Density) -> FloatArray:
    """−½δ of the rows of a chunk, shape (m, G).

    δ = (x − μ)ᵀΣ⁻¹(x − μ) + Σ_j Δ_j (Σ⁻¹)_jj over the columns that a row has: a rounded value has the mean of the
    values that it stands for.
    """
    return _distances(chunk, density._replace(level=np.zeros(len(density.level))))[0]


def _distances(chunk: Chunk, density: Density) -> tuple[FloatArray, FloatArray | None]:
    """Level − ½δ of the rows, shape (m, G), and what gaps gain in log-density, of that shape; None without gaps."""
    from blockmix.em.kernels import log_joint

    found = np.empty((len(chunk.X), len(density.level)))
    gain = np.zeros_like(found) if chunk.has_missing else None
    log_joint(chunk.X, chunk.units, chunk.rounding, density, found, gain)
    return found, gain


def _log_joint(chunk: Chunk, density: Density) -> tuple[FloatArray, FloatArray | None]:
    """Log π_g f_g(x), shape (m, G), and the weights u if the tails are heavy."""
    from blockmix.em.kernels import beyond_reach

    u = None
    if np.isinf(density.freedom).all():
        joint, gain = _distances(chunk, density)
    else:
        joint, gain = _distances(chunk, density._replace(level=np.zeros(len(density.level))))
        u = student(joint, density.level, density.freedom, chunk.observed, chunk.X.shape[1])
    if gain is not None:
        joint += gain
    lost = beyond_reach(joint)
    if len(lost):
        joint[lost] = _beyond(chunk.take(lost), density)
    return joint, u


def _beyond(chunk: Chunk, density: Density) -> FloatArray:
    """Log π_g f_g of rows so far away that their distances overflow: the least number for the nearest component."""
    # Only the direction matters at such distances.
    X = chunk.X
    directions = X / np.nanmax(np.abs(X), axis=1, keepdims=True)
    level = np.where(np.isfinite(density.level), 0.0, -np.inf)
    central = density._replace(level=level, means=np.zeros_like(density.means))
    none = np.zeros_like(chunk.location)
    scale = chunk.scale / chunk.scale.min()
    joint, _ = _distances(Chunk(directions, chunk.weights, chunk.place, none, scale), central)
    far = np.full(joint.shape, -np.inf)
    far[np.arange(len(X)), joint.argmax(axis=1)] = -np.finfo(float).max
    return far


_EMPTY = 1e-10  # share of the rows below which a component has no moments of its own


@dataclass(frozen=True, eq=False)
class Statistics(Additive):
    """What a sweep learns.

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
    """

    log_likelihood: float
    weight: FloatArray
    mass: FloatArray
    excess: FloatArray
    blur: FloatArray
    scatter: Any
    tail: FloatArray | None = None

    @property
    def empty(self) -> FloatArray:
        """Whether a component has next to no weight left, shape (G,)."""
        return np.asarray(self.weight < self.least)

    @property
    def least(self) -> float:
        """The weight from which a component counts as empty."""
        return float(_EMPTY * self.weight.sum())

    def means(self, old: FloatArray) -> FloatArray:
        """New means, shape (G, p); the overall mean, which is zero, for an empty component."""
        new = old + self.excess / np.where(self.mass > 0, self.mass, 1)[:, None]
        return np.where(self.empty[:, None], 0.0, new)


class RowScatters(list[GramMatrix]):
    """Full scatters, one per covariance, stored as rows; they add up like an array of shape (covariances, p, p)."""

    ndim = 3

    def __add__(self, other: RowScatters) -> RowScatters:  # type: ignore[override]
        return RowScatters(a + b for a, b in zip(self, other, strict=True))

    def __truediv__(self, divisors: FloatArray) -> RowScatters:
        return RowScatters(matrix / n for matrix, n in zip(self, divisors.ravel().tolist(), strict=True))


def sweep(rows: Rows, parameters: Parameters) -> Statistics:
    """Read every row once."""
    density = Density.of(parameters, rows.has_missing)
    return rows.map_sum(partial(_chunk_statistics, density=density, size=parameters.layout.size))


def _chunk_statistics(chunk: Chunk, density: Density, size: int) -> Statistics:
    from blockmix.em.kernels import moments

    found = posterior(chunk, density)
    certain = _certain(chunk, found)
    weight, tail = _reweighed(chunk, found, density)
    shape = density.means.shape
    sums = np.zeros(shape[0]), np.zeros(shape), np.zeros(shape), np.zeros(size)
    moments(chunk.X, chunk.weights, found.z, certain, chunk.units, chunk.rounding, density, sums)
    return Statistics(found.log_likelihood, sums[0] if weight is None else weight, *sums, tail)


def _certain(chunk: Chunk, found: Posterior) -> FloatArray | None:
    """Responsibilities z before they are multiplied by u, by which the covariances of gaps count; None without gaps."""
    return found.z.copy() if chunk.has_missing else None


def _reweighed(chunk: Chunk, found: Posterior, density: Density) -> tuple[FloatArray, FloatArray] | tuple[None, None]:
    """Weight and tail of a chunk, and z multiplied by u in place; nothing to do if the tails are normal."""
    from blockmix.em.kernels import reweigh

    if found.u is None:
        return None, None
    weight, tail, p = np.zeros(found.z.shape[1]), np.zeros(found.z.shape[1]), chunk.X.shape[1]
    reweigh(chunk.weights, found.z, found.u, expected_logs(density.freedom, p), chunk.observed, weight, tail)
    return weight, tail


def full_scatter(
    rows: Rows,
    parameters: Parameters,
    components: range | None = None,
    z: FloatArray | Density | None = None,
    as_rows: bool = False,
) -> Statistics:
    """Statistics with full scatter matrices, of some components or, where they share a covariance, of their sum.

    Weight, mass and excess are those of all components.
    Responsibilities z, shape (N, G), are those of the parameters unless they are given, or those of another density.
    Scatters of complete rows can be had `as_rows`.
    """
    chosen = range(len(parameters.weights)) if components is None else components
    density = Density.of(parameters, rows.has_missing)
    n = len(chosen) // parameters.layout.n_sharing
    settings: dict[str, Any] = {"density": density, "n_covariances": n, "components": chosen, "given": z}
    return rows.map_sum(partial(chunk_scatter, as_rows=as_rows, **settings))


def chunk_scatter(
    chunk: Chunk,
    density: Density,
    n_covariances: int,
    components: range,
    given: FloatArray | Density | None,
    as_rows: bool = False,
) -> Statistics:
    """Statistics of a chunk with full scatter matrices; see `full_scatter`."""
    if given is None or isinstance(given, Density):
        found = posterior(chunk, given or density)
    else:
        found = Posterior(given[chunk.place], np.nan, None)
    certain = _certain(chunk, found)
    weight, tail = _reweighed(chunk, found, density)
    share = np.asarray(found.z * chunk.weights[:, None])
    mass, p = share.sum(axis=0), density.means.shape[1]
    none = RowScatters([GramMatrix.of(np.empty((0, p)))] * n_covariances)
    scatter: Any = none if as_rows else np.zeros((n_covariances, p, p))
    excess = _add_scatters(chunk, density, certain, share, components, scatter)
    weight = mass if weight is None else weight
    return Statistics(found.log_likelihood, weight, mass, excess, blurred(chunk, share), scatter, tail)


def _add_scatters(
    chunk: Chunk,
    density: Density,
    certain: FloatArray | None,
    share: FloatArray,
    components: range,
    scatter: Any,
) -> FloatArray:
    """Add the full scatters of some components of a chunk in place; return Σzu(x − μ) of all, shape (G, p).

    Between blocks a gap has no covariance with other values: the scatter there is that of the filled rows.
    """
    from blockmix.em.kernels import center

    excess = np.zeros(density.means.shape)
    for g in range(len(excess)):
        own = np.ascontiguousarray(share[:, g])
        rows = np.flatnonzero(own)
        at = g - components.start if len(scatter) > 1 else 0
        if certain is not None:
            centered, extra = filled(chunk, density, g, rows, np.stack([certain[:, g] * chunk.weights, own]))
            if g in components:
                _add_blocks(scatter[at], extra, density, g)
        else:
            centered = np.empty((len(rows), chunk.X.shape[1]))
            center(chunk.X, rows, own, chunk.units, density.means[g], centered)
        excess[g] = np.sqrt(own[rows]) @ centered
        if g in components:
            scatter[at] += products(centered, scatter[at])
    return excess


def _add_blocks(full: FloatArray, flat: FloatArray, density: Density, g: int) -> None:
    """Add the lower triangles of flat blocks of component g, and their mirror images, to a matrix (p, p)."""
    for lo, hi, at in density.blocks[density.first[g] : density.first[g + 1]].tolist():
        columns = density.order[g, lo:hi]
        lower = np.tril(block_of(flat, lo, hi, at))
        full[np.ix_(columns, columns)] += lower + np.tril(lower, -1).T


def filled(chunk: Chunk, density: Density, g: int, rows: IntArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """√share (x − μ_g) of some rows with their gaps filled, shape (k, p), and what gaps add to the scatter, flat.

    The shares, shape (2, m), are those of the conditional covariances and of the rows.
    """
    from blockmix.em.kernels import center_filled

    found = np.empty((len(rows), density.means.shape[1])), np.zeros(len(density.inverses))
    center_filled(chunk.X, rows, shares, g, chunk.units, chunk.rounding, density, found)
    return found


def expected(chunk: Chunk, density: Density, z: FloatArray) -> FloatArray:
    """Standardized values of a chunk, whose gaps have their expectations Σ_g z_g E(x_m | x_o, g), shape (m, p)."""
    values, gaps = chunk.values, np.isnan(chunk.X)
    rows = np.flatnonzero(gaps.any(axis=1))
    part, every = chunk.take(rows), np.arange(len(rows))
    means = np.zeros(part.X.shape)
    for g, mean in enumerate(density.means):
        centered, _ = filled(part, density, g, every, np.ones((2, len(rows))))
        means += z[rows, g, None] * (mean + centered)
    values[rows] = np.where(gaps[rows], means, values[rows])
    return values


def blurred(chunk: Chunk, share: FloatArray) -> FloatArray:
    """ΣzuΔ of a chunk with weighted responsibilities (m, G), shape (G, p)."""
    columns, table, codes = chunk.rounding
    found = np.zeros((share.shape[1], chunk.X.shape[1]))
    if len(columns):
        found[:, columns] = share.T @ table[np.arange(len(columns)), codes]
    return found


def component_means(rows: Rows, z: FloatArray) -> FloatArray:
    """Means of the values of each component, shape (G, p), for given responsibilities (N, G).

    The overall mean, which is zero, for an empty component and for a column of which it has no values.
    """
    sums, weight = rows.map_sum(lambda chunk: _chunk_sums(chunk, z[chunk.place]))
    return np.where(weight < _EMPTY * weight.sum(axis=0), 0.0, sums / np.where(weight > 0, weight, 1))


def _chunk_sums(chunk: Chunk, z: FloatArray) -> FloatArray:
    """Σzx and Σz of the values of a chunk with responsibilities z (m, G), shape (2, G, p)."""
    share = np.asarray(z * chunk.weights[:, None])
    if not chunk.has_missing:
        sums = share.T @ (chunk.X - chunk.location) / chunk.scale
        return np.stack([sums, np.repeat(share.sum(axis=0)[:, None], sums.shape[1], axis=1)])
    values = chunk.values
    there = ~np.isnan(values)
    return np.stack([share.T @ np.where(there, values, 0), share.T @ there])


def unit_parameters(means: FloatArray, layout: Layout) -> Parameters:
    """Equal weights and identity covariances: what full sweeps with given responsibilities are centered by."""
    factors = np.zeros(layout.size)
    factors[layout.diagonal] = 1
    return Parameters(np.full(len(means), 1 / len(means)), means, layout, factors)


# Largest diagonal entry of Σ⁻¹ in standardized columns. The shortcut loses this factor times machine precision, the
# plain sweep does not: with copies of columns the trace fell by 1e-7 per row, at 1e4 by 1e-11.
_MOST_PRECISE = 1e4
# Total scatters of rows still in use: EM sweeps the same rows a hundred times.
_totals: WeakKeyDictionary[Rows, FloatArray] = WeakKeyDictionary()


def applies(rows: Rows, parameters: Parameters) -> bool:
    """Whether the shortcut can be taken: not with heavy tails, whose log-odds are not linear, and not with gaps.

    With more columns than rows the total scatter costs more than it saves, and copies of columns cost it its digits.
    """
    if not parameters.layout.shared or parameters.degrees_of_freedom is not None or rows.has_missing:
        return False
    return rows.n_rows > rows.n_columns and float(parameters.precisions[0].max()) < _MOST_PRECISE


def sweep_shared(rows: Rows, parameters: Parameters) -> Statistics:
    """Statistics as from `sweep.sweep`."""
    from blockmix.blocks.kernels import gather, recenter

    layout, means = parameters.layout, parameters.means
    precision = parameters.covariances[0].precision()
    slopes = means @ precision
    with np.errstate(divide="ignore"):
        level = np.log(parameters.weights) - 0.5 * np.einsum("gj,gj->g", slopes, means)
    found = rows.map_sum(partial(_shared_statistics, slopes=slopes, level=level))
    total = _total_scatter(rows)
    constant = rows.n_columns * np.log(2 * np.pi) + parameters.logdets[0]
    log_likelihood = found.log_likelihood - 0.5 * (rows.total_weight * constant + float((precision * total).sum()))
    new = found.means(np.zeros_like(means))
    scatter = np.zeros(layout.size)
    gather(np.tril(total - (found.weight * new.T) @ new), layout.order[0], layout.own_blocks, scatter)
    recenter(scatter, -found.weight, new - means, layout.order, layout.blocks, layout.first)
    excess = found.excess - found.weight[:, None] * means
    return Statistics(log_likelihood, found.weight, found.weight, excess, found.blur, scatter)


def _shared_statistics(chunk: Chunk, slopes: FloatArray, level: FloatArray) -> Statistics:
    """Weight and Σzx of a chunk, and its log-likelihood without the part that all components have in common."""
    from blockmix.em.kernels import responsibilities

    values = chunk.values
    z = level + values @ slopes.T
    log_likelihood = responsibilities(z, chunk.weights)
    z *= chunk.weights[:, None]
    sums = z.T @ values
    weight = z.sum(axis=0)
    return Statistics(log_likelihood, weight, weight, sums, np.zeros_like(sums), np.zeros(0))


def _total_scatter(rows: Rows) -> FloatArray:
    """Σ w (x xᵀ + Δ) of the standardized rows, shape (p, p); Δ is what rounding leaves of their variances."""
    if rows not in _totals:
        _totals[rows] = rows.map_sum(_total_chunk_scatter)
    return _totals[rows]


def _total_chunk_scatter(chunk: Chunk) -> FloatArray:
    values = chunk.values
    scatter = (values.T * chunk.weights) @ values
    scatter.flat[:: len(scatter) + 1] += blurred(chunk, chunk.weights[:, None])[0]
    return np.asarray(scatter)
