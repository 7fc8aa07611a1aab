"""Parameters of the block mixture, and log-densities and distances of rows under them (paper, section 3).

The density of a row with missing values is that of its values (docs/adr/0014). With heavy tails each row also has a
weight u in each component, which is small where the row is far away (docs/adr/0013).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.special import gammaln
from scipy.stats import beta, f

from blockmix.blocks.blocks import Blocks, Layout, block_of, factorized
from blockmix.blocks.shapes import SMALL
from blockmix.partition import FloatArray, IntArray, Partition
from blockmix.rows import Chunk
from blockmix.rows.powers import Powers

_CLEAN = 0.999  # share of the rows of a normal component that are not outliers
_LEAST_FREEDOM = 4.5  # from which a score has a variance


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
        Inverse blocks, for rows with missing values; empty otherwise.
    loadings, slopes : arrays of shape (G, q, p)
        Λᵀ and β of the common factors (see `blocks.Scoring`), with the columns in the order of the groups.
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
    loadings: FloatArray
    slopes: FloatArray


class Summaries(NamedTuple):
    """log|Ψ_g| and log π_g − ½ log|2π Ψ_g|, shapes (G,), and the diagonals of Ψ_g⁻¹, shape (G, p), of the blocks Ψ."""

    logdets: FloatArray
    levels: FloatArray
    precisions: FloatArray


@dataclass(frozen=True, eq=False)
class Parameters:
    """Weights (G,), means (G, p) and block-diagonal covariances, in double precision.

    With `degrees_of_freedom` (G,) components are t distributions whose scale matrices take the place of the
    covariances; None is the normal mixture. With `powers` they are those of powered columns; None is columns as they
    are.
    """

    weights: FloatArray
    means: FloatArray
    blocks: Blocks
    degrees_of_freedom: FloatArray | None = None
    powers: Powers | None = None

    @cached_property
    def summaries(self) -> Summaries:
        """Numbers that follow from the covariances and are used in several places."""
        from blockmix.blocks.kernels import summaries

        layout, G = self.blocks.layout, len(self.weights)
        written = Summaries(np.zeros(G), np.zeros(G), np.zeros(self.means.shape))
        summaries(self.weights, self.blocks.whiteners, layout.order, layout.blocks, layout.first, *written)
        return written

    def density(self, missing: bool) -> Density:
        """The arrays that compiled loops take; with inverse blocks if values may be missing.

        Common factors make missing values of all groups depend on each other: these have one block of all columns.
        """
        layout, whiteners, loadings = self.blocks.layout, self.blocks.whiteners, self.blocks.loadings
        if missing and loadings is not None:
            return self.dense.density(missing)
        _, level, precisions = self.summaries
        freedom = np.full(len(level), np.inf) if self.degrees_of_freedom is None else self.degrees_of_freedom
        inverses = self.inverses if missing else np.empty(0)
        places = layout.order, layout.blocks, layout.first
        common: Any = (np.empty((len(level), 0, self.means.shape[1])),) * 2
        if loadings is not None:
            slopes, _, _, logdets, solved = (np.repeat(v, layout.n_sharing, axis=0) for v in self.blocks.scoring)
            # The diagonal of Ψ⁻¹ − Σ⁻¹ = Ψ⁻¹Λβ.
            level, precisions = level - 0.5 * logdets, precisions - np.einsum("gpq,gqp->gp", solved, slopes)
            transposed = np.repeat(loadings.mT, layout.n_sharing, axis=0)
            at = layout.order[:, None]
            common = tuple(np.take_along_axis(cast(Any, v), at, axis=2) for v in (transposed, slopes))
        return Density(level, self.means, *places, whiteners, precisions, freedom, inverses, *common)

    @cached_property
    def dense(self) -> Parameters:
        """The same mixture with one block of all columns in place of common factors and blocks."""
        layout = self.blocks.layout
        one = Layout((Partition.single(self.means.shape[1]),) * len(layout.distinct), (), layout.n_sharing)
        return replace(self, blocks=Blocks(one, factorized(one, self.covariances.ravel())))

    @property
    def covariances(self) -> FloatArray:
        """The distinct covariances, shape (distinct, p, p)."""
        each = range(0, len(self.weights), self.blocks.layout.n_sharing)
        return np.stack([self.blocks[g].dense() for g in each])

    @cached_property
    def inverses(self) -> FloatArray:
        """Inverse blocks P = WᵀW, flat."""
        from blockmix.em.missing_kernels import square

        layout, whiteners = self.blocks.layout, self.blocks.whiteners
        inverses = np.empty(layout.size)
        square(layout.distinct_blocks, whiteners, inverses, SMALL)
        for place in layout.large:
            W = block_of(whiteners, *place)
            block_of(inverses, *place)[:] = W.T @ W
        return inverses

    def moved(self, weights: FloatArray, means: FloatArray) -> Parameters:
        """The same covariances with other weights and means."""
        return replace(self, weights=weights, means=means)

    def in_units(self, location: FloatArray, scale: FloatArray) -> Parameters:
        """The same mixture for columns x·scale + location."""
        powers = None if self.powers is None else self.powers.in_units(location, scale)
        return replace(self, means=self.means * scale + location, blocks=self.blocks.scaled(scale), powers=powers)


@dataclass(frozen=True)
class Prior:
    """A penalty −½ Σ_g [κ log|Σ_g| + (κ + ρ) tr Σ_g⁻¹] in standardized columns, fixed, so that EM stays monotone.

    With common factors it is a penalty on the blocks Ψ. κ (`shrinkage`) pseudo-rows pull each block to the diagonal of
    overall variances; ρ (`ridge`) keeps a singular block invertible.
    """

    shrinkage: float = 0.0
    ridge: float = 0.0

    def value(self, parameters: Parameters) -> float:
        """The penalty, to be added to the log-likelihood."""
        logdets, _, precisions = parameters.summaries
        pull = self.shrinkage + self.ridge
        return -0.5 * float(self.shrinkage * logdets.sum() + pull * precisions.sum()) if pull else 0.0


def posterior(chunk: Chunk, density: Density) -> tuple[FloatArray, float, FloatArray | None]:
    """Responsibilities (m, G) of the rows of a chunk, their log-likelihood, and their weights u as from `log_joint`."""
    from blockmix.em.kernels import responsibilities

    z, u = log_joint(chunk, density)
    return z, responsibilities(z, chunk.weights), u


def log_joint(chunk: Chunk, density: Density) -> tuple[FloatArray, FloatArray | None]:
    """Log π_g f_g(x) of the rows of a chunk, shape (m, G), in double precision, and weights u of that shape.

    The weights (ν + p)/(ν + δ) of the rows in the moments of a component are None, for 1, if components are normal. A
    row whose component is known has −∞ for the others, so that its responsibilities and log-likelihood follow.
    """
    u = None
    if np.isinf(density.freedom).all():
        joint, gain = distances(chunk, density)
    else:
        joint, gain = distances(chunk, density._replace(level=np.zeros(len(density.level))))
        u = student(joint, density.level, density.freedom, chunk.observed, chunk.X.shape[1])
    if gain is not None:
        joint += gain
    if chunk.gain is not None:
        joint += chunk.gain[:, None]
    with np.errstate(over="ignore"):
        finite = np.isfinite(joint.sum())  # the largest of each row takes a fifth of a sweep of a small table
    if not finite:
        lost = np.flatnonzero(~(joint.max(axis=1) > -np.inf))
        if len(lost):
            joint[lost] = _beyond(chunk.take(lost), density)
    if chunk.known is not None:
        rows = np.flatnonzero(chunk.known >= 0)
        own = rows, chunk.known[rows]
        density_there = np.maximum(joint[own], -np.finfo(float).max)
        joint[rows] = -np.inf
        joint[own] = density_there
    return joint, u


def distances(chunk: Chunk, density: Density) -> tuple[FloatArray, FloatArray | None]:
    """Level − ½δ of the rows, shape (m, G), and what missing values add to the log-density; None if there are none.

    δ = (x − μ)ᵀΣ⁻¹(x − μ) + Σ_j Δ_j (Σ⁻¹)_jj over the columns that a row has: a rounded value has the mean of the
    values that it stands for.
    """
    from blockmix.em.kernels import block_log_joint

    m, G = len(chunk.X), len(density.level)
    joint, gain, work = np.empty((m, G)), None, None
    if chunk.has_missing:
        gain, work = np.empty((m, G)), missing_room(chunk, density)
    given = chunk.units, chunk.rounding, density, room(density), work
    block_log_joint(chunk.X, np.arange(m), *given, joint, gain)
    return joint, gain


def room(density: Density) -> Any:
    """Room of the compiled loops over rows: a tile of rows, centered, common scores, two vectors and distances."""
    from blockmix.em.missing_kernels import tiles

    p, q = density.means.shape[1], density.slopes.shape[1]
    return tuple(np.split(tiles(2 * p + q + 3), [p, 2 * p, 2 * p + q, 2 * p + q + 2]))


def missing_room(chunk: Chunk, density: Density) -> Any:
    """Room for missing values, the gain in log-density of a row's only one in a block, (G, p), and no scatter."""
    from blockmix.em.missing_kernels import LOG_2PI, workspace

    widest = int(np.diff(density.blocks[:, :2]).max())
    halves = 0.5 * (LOG_2PI - np.log(density.precisions))
    return workspace(chunk.X.shape[1], len(chunk.rounding[0]), widest), halves, np.empty(0)


def filled(
    chunk: Chunk, density: Density, g: int, rows: IntArray, shares: FloatArray, corrections: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """√share (x − μ_g) of some rows with missing values filled, shape (k, p), and what these add to the scatter, flat.

    The shares, shape (2, m), are those of the conditional covariances and of the rows. What rounding adds to the
    distances is added to the corrections (k, K) of the blocks.
    """
    from blockmix.em.missing_kernels import TILE, fill, find_missing

    (tile, centered, *_), (work, halves, _) = room(density), missing_room(chunk, density)
    values, scatter = np.empty((len(rows), chunk.X.shape[1])), np.zeros(len(density.inverses))
    gains, distances = np.zeros(TILE), np.zeros((1 if corrections is None else corrections.shape[1], TILE))
    order, of_rows, (location, inverse) = density.order[g], np.zeros((2, TILE)), chunk.units
    for start in range(0, len(rows), TILE):
        some = rows[start : start + TILE]
        n = len(some)
        tile[:, :n] = ((chunk.X[some] - location) * inverse).T
        centered[:, :n] = tile[order, :n] - density.means[g, order, None]
        of_rows[:, :n] = shares[:, some]
        distances[:] = 0
        find_missing(tile, n, some, chunk.rounding, work)
        fill(centered, g, density, halves, work, of_rows[0], of_rows[1], (gains, distances), scatter)
        values[start : start + n, order] = (centered[:, :n] * np.sqrt(of_rows[1, :n])).T
        if corrections is not None:
            corrections[start : start + n] += distances[:, :n].T
    return values, scatter


def _beyond(chunk: Chunk, density: Density) -> FloatArray:
    """Log π_g f_g of rows so far away that their distances overflow: the least number for the nearest component."""
    # Only the direction matters at such distances.
    X = chunk.X
    directions = X / np.nanmax(np.abs(X), axis=1, keepdims=True)
    level = np.where(np.isfinite(density.level), 0.0, -np.inf)
    central = density._replace(level=level, means=np.zeros_like(density.means))
    origin, scale = np.zeros_like(chunk.location), chunk.scale / chunk.scale.min()
    joint, _ = distances(Chunk(directions, chunk.weights, chunk.place, origin, scale), central)
    nearest = np.full(joint.shape, -np.inf)
    nearest[np.arange(len(X)), joint.argmax(axis=1)] = -np.finfo(float).max
    return nearest


def student(
    joint: FloatArray, level: FloatArray, freedom: FloatArray, observed: IntArray, n_columns: int
) -> FloatArray:
    """Turn −½δ (m, G) into log π_g t(x; μ_g, Σ_g, ν_g) in place; return the weights u = (ν + p)/(ν + δ), shape (m, G).

    Parameters
    ----------
    joint : array of shape (m, G)
    level : array of shape (G,)
        log π_g − ½ log|2π Σ_g|, as of a normal component.
    freedom : array of shape (G,)
    observed : array of shape (m,)
        Number of columns that each row has, at most `n_columns`; it takes the place of p.
    n_columns : int
    """
    from blockmix.em.kernels import student_densities

    u = np.empty_like(joint)
    student_densities(joint, level, freedom, student_constants(freedom, n_columns), observed, u)
    return u


def student_constants(freedom: FloatArray, n_columns: int) -> FloatArray:
    """Log of t's constant over the normal one's for ν (…,) and 0 … p columns, shape (…, p + 1)."""
    half, c = freedom[..., None] / 2, np.arange(n_columns + 1) / 2
    return np.asarray(gammaln(half + c) - gammaln(half) - c * np.log(half))


def group_distances(chunk: Chunk, labels: IntArray, parameters: Parameters) -> FloatArray:
    """δ_k of each column group of the component of each row, shape (m, K); NaN where that component has fewer groups.

    Σ_k δ_k = δ, because the blocks of a component are independent. With common factors δ_k is that of what they leave
    of the row, x − μ − Λf with f = E(f | x), and Σ_k δ_k + ‖f‖² = δ. As in the E-step a rounded value has the mean of
    the squared distances of the values that it stands for.
    """
    largest, chunk = np.finfo(chunk.X.dtype).max, chunk.powered(parameters.powers)
    partitions = parameters.blocks.layout.partitions
    if parameters.blocks.loadings is not None:
        scores = common_scores(chunk, labels, parameters)
        owner = np.minimum(labels, len(parameters.blocks.loadings) - 1)
        common = np.einsum("mq,mpq->mp", scores, parameters.blocks.loadings[owner]) * chunk.scale
        chunk = replace(chunk, X=chunk.X - common)
        parameters = replace(parameters, blocks=parameters.blocks.remaining)
    density = parameters.density(chunk.has_missing)
    distances = np.full((len(labels), max(partition.n_groups for partition in partitions)), np.nan)
    for g in np.unique(labels).tolist():
        rows = np.flatnonzero(labels == g)
        distances[rows, : partitions[g].n_groups] = np.minimum(_block_distances(chunk.take(rows), g, density), largest)
    return distances


def _block_distances(chunk: Chunk, g: int, density: Density) -> FloatArray:
    """Squared distances of rows from component g in each of its blocks, shape (m, K)."""
    m, places = len(chunk.X), density.blocks[density.first[g] : density.first[g + 1]].tolist()
    distances, centered = np.zeros((m, len(places))), chunk.values - density.means[g]
    if chunk.has_missing:
        centered, _ = filled(chunk, density, g, np.arange(m), np.ones((2, m)), distances)
    blurred = chunk.rounding_variances * density.precisions[g]
    single = [k for k, (lo, hi, _) in enumerate(places) if hi - lo == 1]
    alone = density.order[g, [places[k][0] for k in single]]
    scales = density.whiteners[[places[k][2] for k in single]]
    distances[:, single] += (centered[:, alone] * scales) ** 2 + blurred[:, alone]
    for k, place in enumerate(places):
        if place[1] - place[0] == 1:
            continue
        columns = density.order[g, place[0] : place[1]]
        white = centered[:, columns] @ block_of(density.whiteners, *place).T
        distances[:, k] += np.einsum("ij,ij->i", white, white) + blurred[:, columns].sum(axis=1)
    return distances


def common_scores(chunk: Chunk, labels: IntArray, parameters: Parameters) -> FloatArray:
    """E(f | x), the common factors of rows in the components with these labels, shape (m, q)."""
    blocks, chunk = parameters.blocks, chunk.powered(parameters.powers)
    if blocks.loadings is None:
        return np.zeros((len(labels), 0))
    density = parameters.density(missing=True)
    scores = np.empty((len(labels), blocks.loadings.shape[2]))
    for g in np.unique(labels).tolist():
        rows = np.flatnonzero(labels == g)
        centered, _ = filled(chunk, density, g, rows, np.ones((2, len(chunk.X))))
        scores[rows] = centered @ blocks.scoring.slopes[min(g, len(blocks.loadings) - 1)].T
    return scores


def row_distances(chunk: Chunk, labels: IntArray, parameters: Parameters) -> tuple[FloatArray, FloatArray]:
    """Outlier score δ of each row in its component, shape (m,), and `group_distances`, of which it is the sum.

    With common factors the scores on these count too.
    """
    each = group_distances(chunk, labels, parameters)
    return np.nansum(each, axis=1) + (common_scores(chunk, labels, parameters) ** 2).sum(axis=1), each


def outliers_of(chunk: Chunk, labels: IntArray, parameters: Parameters) -> dict[str, Any]:
    """Outlier scores and groups of the rows of a chunk with these components, and how many values they have.

    The score of a row is δ from its component, its group the one in which it is least likely. Groups of different
    sizes, or numbers of values, are compared by Wilson and Hilferty's normal score of a χ² value.
    """
    partitions, (total, distances) = parameters.blocks.layout.partitions, row_distances(chunk, labels, parameters)
    sizes = np.zeros(distances.shape)
    for g in np.unique(labels).tolist():
        rows, K = np.flatnonzero(labels == g), partitions[g].n_groups
        sizes[rows, :K] = partitions[g].sizes
        if chunk.has_missing:
            sizes[rows, :K] = ~np.isnan(chunk.X[rows]) @ np.eye(K)[partitions[g].labels]
    spread = 2 / (9 * np.maximum(sizes, 1))
    scores = (np.cbrt(distances / np.maximum(sizes, 1)) - (1 - spread)) / np.sqrt(spread)
    groups = np.where(sizes > 0, scores, -np.inf).argmax(axis=1)
    return {
        "outlier_scores_": total.astype(chunk.X.dtype),
        "outlier_groups_": groups.astype(np.min_scalar_type(-distances.shape[1])),
        "n_values_": chunk.observed.astype(np.min_scalar_type(chunk.X.shape[1])),
    }


def outlier_limits(parameters: Parameters, block_rows: FloatArray, new: bool) -> FloatArray:
    """The score that one normal row in a thousand exceeds, by component and number of values, shape (G, p + 1).

    A covariance that was estimated from n rows is too narrow for a new row, whose score in a full block of c columns
    has the distribution of c (n + 1)/(n − c) F(c, n − c) (Hotelling), and too wide for a row of the fit, whose score
    has that of (n − 1) Beta(c/2, (n − c − 1)/2). A shape with fewer parameters k counts as 2k/c − 1 columns. The sum
    over the blocks has these first two moments. Squared correlations between groups of up to 1/n cannot be told from
    chance, so the variance is that of groups which have them.

    Parameters
    ----------
    parameters : Parameters
    block_rows : array of shape (B,)
        Rows that each distinct block rests on.
    new : bool
        Whether the rows to judge did not take part in the fit.
    """
    layout, (G, p) = parameters.blocks.layout, parameters.means.shape
    sizes = np.concatenate([partition.sizes for partition in layout.distinct])
    models = [model for models in layout.models for model in models]
    counted = np.array([2 * m.n_parameters(c) / c - 1 for m, c in zip(models, sizes.tolist(), strict=True)])
    limits = np.empty((G, p + 1))
    for g in range(G):
        part = slice(None) if layout.n_sharing > 1 else slice(layout.first[g], layout.first[g + 1])
        c, n, d = sizes[part], np.maximum(block_rows[part] - (layout.n_sharing - 1), 1), counted[part]
        if new:
            left = np.maximum(n - d, _LEAST_FREEDOM)
            share = parameters.weights[g] if layout.n_sharing > 1 else 1.0
            means = c * (1 + 1 / np.maximum(n * share, 1)) * n / (left - 2)
            variances = 2 * means**2 * (c + left - 2) / (c * (left - 4))
        else:
            means, variances = c, 2 * c * np.clip((n - d - 1) / (n + 1), 0.01, 1)
        hidden = 2 * float((c * (p - c) / n).sum())
        limits[g] = _limits(float(means.sum()), float(variances.sum()) + hidden, p)
    return limits


def _limits(mean: float, variance: float, p: int) -> FloatArray:
    """Limits of a sum of p squares with this mean and variance, and of 0 … p of them, shape (p + 1,).

    The sum is a multiple of F where it varies more than χ², of a beta variable where it varies less.
    """
    c, ratio = np.arange(p + 1), p * variance / mean**2
    if ratio > 2:
        freedom = (2 * p - 4 + 4 * ratio) / (ratio - 2)
        return np.asarray(c * mean / p * (freedom - 2) / freedom * f.ppf(_CLEAN, np.maximum(c, 1), freedom))
    half = ratio / 2 * (p / 2 + 1) / (1 - min(ratio / 2, 1 - 1e-9))
    return np.asarray(mean / p * (c + 2 * half) * beta.ppf(_CLEAN, np.maximum(c, 1) / 2, half) * (c > 0))
