"""M-step of the block mixture: parameters from the statistics of a sweep (paper, section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from blockmix.em.block.parameters import SMALL, Layout, Parameters, Prior
from blockmix.em.block.sweep import Statistics
from blockmix.em.block.tails import new_freedom
from blockmix.structure.blocks import cholesky
from blockmix.structure.types import FloatArray

SINGULAR = "component {} has no variance in some column: give a ridge above 0"
NO_VARIANCE = 1e-26  # of a standardized column: what rounding leaves of none


def maximize(statistics: Statistics, old: Parameters, prior: Prior) -> Parameters:
    """New parameters from the statistics of a sweep; column groups and shapes stay."""
    from blockmix.em.block.kernels import recenter

    layout, means = old.layout, statistics.means(old.means)
    scatter = statistics.scatter.copy()
    scatter[layout.diagonal] += layout.in_order(layout.pooled(statistics.blur))
    recenter(scatter, statistics.mass, means - old.means, layout.order, layout.blocks, layout.first)
    return from_scatter(statistics, means, layout, scatter, prior, old.states, old.degrees_of_freedom)


def from_scatter(
    statistics: Statistics,
    means: FloatArray,
    layout: Layout,
    scatter: FloatArray,
    prior: Prior,
    states: Mapping[int, FloatArray],
    freedom: FloatArray | None,
) -> Parameters:
    """Covariances (scatter + (κ + ρ) I) / (n + κ), pooled over the components that share one; scatter is flat.

    The degrees of freedom, if any, were `freedom` in the sweep.
    """
    counts = layout.pooled(statistics.weight)
    # An empty component has the weight at which it became empty and the overall variances: finite without a prior, and
    # with one no narrower than just before, so that the penalty does not grow.
    empty = counts < statistics.least
    if empty.any():
        scatter[empty[layout.owner]] = 0
        scatter[layout.diagonal] += np.repeat(empty, means.shape[1]) * statistics.least
        counts = np.where(empty, statistics.least, counts)
    scatter[layout.diagonal] += layout.n_sharing * (prior.shrinkage + prior.ridge)
    covariance = scatter / (counts + layout.n_sharing * prior.shrinkage)[layout.owner]
    variances = covariance[layout.diagonal].reshape(len(counts), -1)
    if not (variances > NO_VARIANCE).all():
        raise ValueError(SINGULAR.format(int(np.argmin(variances.min(axis=1)))))
    solved = solve(layout, covariance, states)
    if freedom is not None and statistics.tail is not None:
        freedom = new_freedom(statistics.tail, statistics.weight, freedom)
    weights = statistics.weight / statistics.weight.sum()
    return Parameters(weights, means, layout, solved.factors, solved.states, freedom)


@dataclass(frozen=True, eq=False)
class Solution:
    """Best covariances in the shapes of a layout: flat Cholesky factors, states, and log|Σ| + tr Σ⁻¹S in all."""

    factors: FloatArray
    states: dict[int, FloatArray]
    deviance: float


def solve(layout: Layout, covariance: FloatArray, states: Mapping[int, FloatArray]) -> Solution:
    """Best covariances for flat covariances, of which the lower triangles count, from given states.

    A block that rounding has made indefinite is raised on its diagonal (see `structure.blocks.cholesky`).
    """
    from blockmix.em.block.kernels import factorize

    found: dict[int, FloatArray] = {}
    excess = 0.0  # of the traces over the number of columns; that of a full block is none
    for b, model in layout.shaped:
        lo, hi, at = layout.blocks[b].tolist()
        part = slice(at, at + (hi - lo) ** 2)
        fit = model.fit(_symmetric(covariance[part]), states.get(b))
        covariance[part] = fit.covariance.ravel()
        excess += fit.deviance - float(np.linalg.slogdet(fit.covariance)[1]) - (hi - lo)
        if fit.state is not None:
            found[b] = fit.state
    factors = np.zeros_like(covariance)
    distinct = layout.blocks[: layout.first[len(layout.distinct)]]
    by_hand = [tuple(block) for block in layout.large]
    start = 0
    while (failed := factorize(distinct[start:], covariance, factors, SMALL)) >= 0:
        by_hand.append(tuple(distinct[start + failed].tolist()))
        start += failed + 1
    for lo, hi, at in by_hand:
        part = slice(at, at + (hi - lo) ** 2)
        factors[part] = cholesky(_symmetric(covariance[part])[None])[0].ravel()
    diagonal = factors[layout.diagonal]
    return Solution(factors, found, float(2 * np.log(diagonal).sum()) + len(diagonal) + excess)


def _symmetric(flat: FloatArray) -> FloatArray:
    """The matrix (c, c) of a flat block of which the lower triangle counts."""
    c = int(np.sqrt(len(flat)))
    lower = np.tril(flat.reshape(c, c))
    return np.asarray(lower + np.tril(lower, -1).T)
