"""M-step of the block mixture: parameters from the statistics of a sweep (paper, section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from blockmix.blocks.blocks import SMALL, Layout, Parameters, Prior, block_of, cholesky
from blockmix.em.sweep import Density, Statistics, half_distances, posterior
from blockmix.em.tails import LEAST, MOST, constants, new_freedom
from blockmix.partition import FloatArray
from blockmix.rows import Chunk, Rows

SINGULAR = "component {} has no variance in some column: give a ridge above 0"
NO_VARIANCE = 1e-26  # of a standardized column: what rounding leaves of none


def maximize(statistics: Statistics, old: Parameters, prior: Prior) -> Parameters:
    """New parameters from the statistics of a sweep; column groups and shapes stay."""
    from blockmix.blocks.kernels import recenter

    statistics, states = expanded(statistics, old, prior)
    layout, means = old.layout, statistics.means(old.means)
    scatter = statistics.scatter.copy()
    recenter(scatter, statistics.mass, means - old.means, layout.order, layout.blocks, layout.first)
    return from_scatter(statistics, means, layout, scatter, prior, states, old.degrees_of_freedom)


def expanded(
    statistics: Statistics, old: Parameters, prior: Prior, first: int = 0
) -> tuple[Statistics, Mapping[int, FloatArray]]:
    """Statistics with weights u/α in place of u, for the α that is best with the old covariances Σ (PX-EM).

    A t distribution does not say in which units u is measured. With b = Σ(νn − κp) and a = (κ + ρ) Σ tr Σ⁻¹ over the
    components that share a covariance, α solves a α² + b α = Σνm. The ascent stays exact and takes far fewer sweeps
    where tails are heavy; without a prior the covariance is Σzu(x − μ)(x − μ)ᵀ/Σzu. The states of the old blocks come
    out as those of Σ/α, which new covariances must not be worse than. Full scatters begin at covariance `first`.
    """
    layout, nu = old.layout, old.degrees_of_freedom
    if statistics.tail is None or nu is None:
        return statistics, old.states
    a = layout.pooled((prior.shrinkage + prior.ridge) * old.precisions.sum(axis=1))
    b = layout.pooled(nu * statistics.weight - prior.shrinkage * old.means.shape[1])
    c = layout.pooled(nu * statistics.mass)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 2 * c / (b + np.sqrt(b**2 + 4 * a * c))
    scale = np.where(np.isfinite(scale) & (scale > 0), scale, 1.0)  # of a component without rows
    full = statistics.scatter.ndim == 3
    owners = scale[first : first + len(statistics.scatter), None, None] if full else scale[layout.owner]
    own = np.repeat(scale, layout.n_sharing)
    mass = statistics.mass / own
    found = replace(
        statistics,
        mass=mass,
        excess=statistics.excess / own[:, None],
        blur=statistics.blur / own[:, None],
        scatter=statistics.scatter / owners,
        tail=statistics.tail + statistics.mass - statistics.weight * np.log(own) - mass,
    )
    return found, old.scaled_states(np.tile(scale[:, None] ** -0.5, old.means.shape[1]))


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
    solved = solve(layout, scatter, states)
    if freedom is not None and statistics.tail is not None:
        freedom = new_freedom(statistics.tail, statistics.weight, freedom)
    weights = statistics.weight / statistics.weight.sum()
    return Parameters(weights, means, layout, solved.factors, solved.states, freedom)


@dataclass(frozen=True, eq=False)
class Solution:
    """Best covariances in the shapes of a layout: flat Cholesky factors, and states and deviances of shaped blocks."""

    layout: Layout
    factors: FloatArray
    states: dict[int, FloatArray]
    deviances: dict[int, float]

    @property
    def deviance(self) -> float:
        """log|Σ| + tr Σ⁻¹S, summed over the distinct covariances."""
        from blockmix.blocks.kernels import half_logdets

        blocks = self.layout.own_blocks
        each = 2 * half_logdets(blocks, self.factors) + (blocks[:, 1] - blocks[:, 0])
        each[list(self.deviances)] = list(self.deviances.values())
        return float(each.sum())


def solve(layout: Layout, covariance: FloatArray, states: Mapping[int, FloatArray]) -> Solution:
    """Best covariances for flat covariances from given states; those of blocks that are not full are overwritten.

    A block that rounding has made indefinite is raised on its diagonal (see `structure.blocks.cholesky`).
    """
    from blockmix.blocks.kernels import factorize

    found: dict[int, FloatArray] = {}
    deviances: dict[int, float] = {}
    for b, model in layout.shaped:
        block = block_of(covariance, *layout.blocks[b].tolist())
        fit = model.fit(block, states.get(b))
        block[:], deviances[b] = fit.covariance, fit.deviance
        if fit.state is not None:
            found[b] = fit.state
    factors, blocks = np.zeros_like(covariance), layout.own_blocks
    by_hand, start = list(layout.large), 0
    while (failed := factorize(blocks[start:], covariance, factors, SMALL)) >= 0:
        by_hand.append(blocks[start + failed].tolist())
        start += failed + 1
    for place in by_hand:
        block_of(factors, *place)[:] = cholesky(block_of(covariance, *place)[None])[0]
    return Solution(layout, factors, found, deviances)


_GRID = np.geomspace(LEAST, MOST, 16)


def leap(rows: Rows, parameters: Parameters, enough: float) -> Parameters | None:
    """Parameters with other degrees of freedom, if that raises the log-likelihood by more than `enough`."""
    present = parameters.degrees_of_freedom
    assert present is not None
    candidates = np.column_stack([present, np.tile(_GRID, (len(present), 1))])
    density = Density.of(parameters, rows.has_missing)
    sums = rows.map_sum(partial(_chunk_profile, density=density, candidates=candidates))
    best = sums.argmax(axis=1, keepdims=True)
    gain = np.take_along_axis(sums, best, axis=1).sum() - sums[:, 0].sum()
    if not gain > enough:
        return None
    return replace(parameters, degrees_of_freedom=np.take_along_axis(candidates, best, axis=1)[:, 0])


def _chunk_profile(chunk: Chunk, density: Density, candidates: FloatArray) -> FloatArray:
    """Σ z log t(x; ν) of a chunk for candidates (G, M), without what does not depend on ν; shape (G, M)."""
    from blockmix.em.kernels import profile

    sums, p = np.zeros(candidates.shape), chunk.X.shape[1]
    z, halves = posterior(chunk, density).z, half_distances(chunk, density)
    profile(chunk.weights, z, halves, candidates, constants(candidates, p), chunk.observed, sums)
    return sums
