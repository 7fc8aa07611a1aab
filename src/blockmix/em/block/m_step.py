"""M-step of the block mixture: parameters from the statistics of a sweep (paper, section 3)."""

from __future__ import annotations

import numpy as np

from blockmix.em.block.parameters import Layout, Parameters, Prior, factored
from blockmix.em.block.sweep import Statistics
from blockmix.structure.types import FloatArray

SINGULAR = "component {} has no variance in some column: give a ridge above 0"


def maximize(statistics: Statistics, old: Parameters, prior: Prior) -> Parameters:
    """New parameters from the statistics of a sweep; the column groups stay."""
    from blockmix.em.block.kernels import recenter

    layout, means = old.layout, statistics.means(old.means)
    scatter = statistics.scatter.copy()
    scatter[layout.diagonal] += layout.in_order(layout.pooled(statistics.blur))
    recenter(scatter, statistics.weight, means - old.means, layout.order, layout.blocks, layout.first)
    return from_scatter(statistics, means, layout, scatter, prior)


def from_scatter(
    statistics: Statistics, means: FloatArray, layout: Layout, scatter: FloatArray, prior: Prior
) -> Parameters:
    """Covariances (scatter + (κ + ρ) I) / (n + κ), pooled over the components that share one; scatter is flat."""
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
    if not (variances > 0).all():
        raise ValueError(SINGULAR.format(int(np.argmin(variances.min(axis=1)))))
    return Parameters(statistics.weight / statistics.weight.sum(), means, layout, factored(layout, covariance))
