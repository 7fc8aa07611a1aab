"""Parameters of the block mixture, log-densities of rows under them, and the M-step (paper, section 3).

The density of a row with missing values is that of its values (docs/adr/0014). With heavy tails each row also has a
weight u in each component, which is small where the row is far away (docs/adr/0013).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from blockmix.blocks.blocks import SMALL, Blocks, Layout, block_of, factorized
from blockmix.em.tails import new_freedom, student
from blockmix.partition import FloatArray, IntArray
from blockmix.rows import Chunk

if TYPE_CHECKING:
    from blockmix.em.sweep import Statistics

SINGULAR = "component {} has no variance in some column: give a ridge above 0"
NO_VARIANCE = 1e-26  # of a standardized column: what rounding leaves of none


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


@dataclass(frozen=True, eq=False)
class Parameters:
    """Weights (G,), means (G, p) and block-diagonal covariances, in double precision.

    With `degrees_of_freedom` (G,) components are t distributions whose scale matrices take the place of the
    covariances; None is the normal mixture.
    """

    weights: FloatArray
    means: FloatArray
    blocks: Blocks
    degrees_of_freedom: FloatArray | None = None

    @cached_property
    def summaries(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """log|Σ_g|, log π_g − ½ log|2π Σ_g| and the diagonals of Σ_g⁻¹; shapes (G,), (G,) and (G, p)."""
        from blockmix.blocks.kernels import summaries

        layout = self.blocks.layout
        places = layout.order, layout.blocks, layout.first
        sums: tuple[FloatArray, FloatArray, FloatArray] = summaries(self.weights, self.blocks.whiteners, *places)
        return sums

    def density(self, missing: bool) -> Density:
        """The arrays that compiled loops take; with inverse blocks if values may be missing."""
        layout, whiteners = self.blocks.layout, self.blocks.whiteners
        _, level, precisions = self.summaries
        freedom = np.full(len(level), np.inf) if self.degrees_of_freedom is None else self.degrees_of_freedom
        inverses = self.inverses if missing else np.empty(0)
        places = layout.order, layout.blocks, layout.first
        return Density(level, self.means, *places, whiteners, precisions, freedom, inverses)

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
        return replace(self, means=self.means * scale + location, blocks=self.blocks.scaled(scale))


@dataclass(frozen=True)
class Prior:
    """A penalty −½ Σ_g [κ log|Σ_g| + (κ + ρ) tr Σ_g⁻¹] in standardized columns, fixed, so that EM stays monotone.

    κ (`shrinkage`) pseudo-rows pull each block to the diagonal of overall variances; ρ (`ridge`) keeps a singular block
    invertible.
    """

    shrinkage: float = 0.0
    ridge: float = 0.0

    def value(self, parameters: Parameters) -> float:
        """The penalty, to be added to the log-likelihood."""
        pull = self.shrinkage + self.ridge
        if pull == 0:
            return 0.0
        logdets, _, precisions = parameters.summaries
        return -0.5 * float(self.shrinkage * logdets.sum() + pull * precisions.sum())


def posterior(chunk: Chunk, density: Density) -> tuple[FloatArray, float, FloatArray | None]:
    """Responsibilities (m, G) of the rows of a chunk, their log-likelihood, and their weights u as from `log_joint`."""
    from blockmix.em.kernels import responsibilities

    z, u = log_joint(chunk, density)
    return z, responsibilities(z, chunk.weights), u


def log_joint(chunk: Chunk, density: Density) -> tuple[FloatArray, FloatArray | None]:
    """Log π_g f_g(x) of the rows of a chunk, shape (m, G), in double precision, and weights u of that shape.

    The weights (ν + p)/(ν + δ) of the rows in the moments of a component are None, for 1, if components are normal.
    """
    u = None
    if np.isinf(density.freedom).all():
        joint, gain = distances(chunk, density)
    else:
        joint, gain = distances(chunk, density._replace(level=np.zeros(len(density.level))))
        u = student(joint, density.level, density.freedom, chunk.observed, chunk.X.shape[1])
    if gain is not None:
        joint += gain
    lost = np.flatnonzero(~(joint.max(axis=1) > -np.inf))
    if len(lost):
        joint[lost] = _beyond(chunk.take(lost), density)
    return joint, u


def distances(chunk: Chunk, density: Density) -> tuple[FloatArray, FloatArray | None]:
    """Level − ½δ of the rows, shape (m, G), and what missing values add to the log-density; None if there are none.

    δ = (x − μ)ᵀΣ⁻¹(x − μ) + Σ_j Δ_j (Σ⁻¹)_jj over the columns that a row has: a rounded value has the mean of the
    values that it stands for.
    """
    from blockmix.em.kernels import log_joint

    joint = np.empty((len(chunk.X), len(density.level)))
    gain = np.zeros_like(joint) if chunk.has_missing else None
    log_joint(chunk.X, chunk.units, chunk.rounding, density, joint, gain)
    return joint, gain


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


def maximize(statistics: Statistics, old: Parameters, prior: Prior) -> Parameters:
    """New parameters from the statistics of a sweep; column groups and shapes stay."""
    from blockmix.blocks.kernels import recenter

    layout, states = old.blocks.layout, old.blocks.states
    if old.degrees_of_freedom is not None:
        statistics, states = expanded(statistics, old, prior)
    means = statistics.means(old.means)
    scatter = statistics.scatter.copy()
    recenter(scatter, statistics.mass, means - old.means, layout.order, layout.blocks, layout.first)
    return from_scatter(statistics, means, layout, scatter, prior, states, old.degrees_of_freedom)


def expanded(
    statistics: Statistics, old: Parameters, prior: Prior, first: int = 0
) -> tuple[Statistics, Mapping[int, FloatArray]]:
    """Statistics with weights u/α in place of u, for the α that is best with the old covariances Σ (PX-EM).

    A t distribution does not say in which units u is measured. With b = Σ(νn − κp) and a = (κ + ρ) Σ tr Σ⁻¹ over the
    components that share a covariance, α solves a α² + b α = Σνm. The ascent stays exact and takes far fewer sweeps
    where tails are heavy; without a prior the covariance is Σzu(x − μ)(x − μ)ᵀ/Σzu. The states of the old blocks are
    returned as those of Σ/α, which new covariances must not be worse than. Full scatters begin at covariance `first`.
    """
    layout, nu = old.blocks.layout, old.degrees_of_freedom
    if statistics.tail is None or nu is None:
        return statistics, old.blocks.states
    a = layout.pooled((prior.shrinkage + prior.ridge) * old.summaries[2].sum(axis=1))
    b = layout.pooled(nu * statistics.weight - prior.shrinkage * old.means.shape[1])
    c = layout.pooled(nu * statistics.mass)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 2 * c / (b + np.sqrt(b**2 + 4 * a * c))
    scale = np.where(np.isfinite(scale) & (scale > 0), scale, 1.0)  # of a component without rows
    full = statistics.scatter.ndim == 3
    owners = scale[first : first + len(statistics.scatter), None, None] if full else scale[layout.owner]
    each = np.repeat(scale, layout.n_sharing)
    mass = statistics.mass / each
    new = replace(
        statistics,
        mass=mass,
        excess=statistics.excess / each[:, None],
        blur=statistics.blur / each[:, None],
        scatter=statistics.scatter / owners,
        tail=statistics.tail + statistics.mass - statistics.weight * np.log(each) - mass,
    )
    return new, old.blocks.scaled(np.tile(scale[:, None] ** -0.5, old.means.shape[1])).states


def from_scatter(
    statistics: Statistics,
    means: FloatArray,
    layout: Layout,
    scatter: FloatArray,
    prior: Prior,
    states: Mapping[int, FloatArray],
    freedom: FloatArray | None,
) -> Parameters:
    """Covariances (scatter + blur + (κ + ρ) I) / (n + κ), pooled over the components that share one.

    The scatter is flat and is used up. The degrees of freedom, if any, were `freedom` in the sweep.
    """
    from blockmix.blocks.kernels import normalize

    counts, added = layout.pooled(statistics.weight), layout.pooled(statistics.blur)
    # An empty component has the weight at which it became empty and the overall variances: finite without a prior, and
    # with one no narrower than just before, so that the penalty does not grow.
    empty = counts < statistics.least
    if empty.any():
        scatter[empty[layout.owner]] = 0
        added = np.where(empty[:, None], statistics.least, added)
        counts = np.where(empty, statistics.least, counts)
    added = added + layout.n_sharing * (prior.shrinkage + prior.ridge)
    divisors = counts + layout.n_sharing * prior.shrinkage
    variances = normalize(scatter, added, divisors, layout.order, layout.blocks, layout.first)
    if not (variances > NO_VARIANCE).all():
        raise ValueError(SINGULAR.format(int(np.argmin(variances))))
    blocks, _ = best_blocks(layout, scatter, states)
    if freedom is not None and statistics.tail is not None:
        freedom = new_freedom(statistics.tail, statistics.weight, freedom)
    return Parameters(statistics.weight / statistics.weight.sum(), means, blocks, freedom)


def best_blocks(layout: Layout, flat: FloatArray, states: Mapping[int, FloatArray]) -> tuple[Blocks, dict[int, float]]:
    """Best covariances in the shapes of a layout for flat covariances, and the deviances of the blocks not full.

    Fits begin at the given states. Covariances of blocks that are not full are overwritten.
    """
    fitted: dict[int, FloatArray] = {}
    deviances: dict[int, float] = {}
    for b, model in layout.shaped:
        block = block_of(flat, *layout.blocks[b].tolist())
        fit = model.fit(block, states.get(b))
        block[:], deviances[b] = fit.covariance, fit.deviance
        if fit.state is not None:
            fitted[b] = fit.state
    return Blocks(layout, factorized(layout, flat), fitted), deviances
