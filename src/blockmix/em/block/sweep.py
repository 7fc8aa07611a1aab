"""One sweep over the rows: responsibilities, and the moments and log-likelihood they give (paper, section 3).

Rows and parameters come in; statistics that add up go out. While the column groups are fixed a sweep takes the scatter
within blocks only, Σ c² numbers per component; `full_scatter` takes all of it, so that new groups can be proposed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from blockmix.em.block.e_step import log_joint
from blockmix.em.block.parameters import Layout, Parameters
from blockmix.rows import Chunk, Rows
from blockmix.structure.types import FloatArray

_EMPTY = 1e-10  # share of the rows below which a component has no moments of its own


@dataclass(frozen=True, eq=False)
class Statistics:
    """What a sweep learns.

    Attributes
    ----------
    log_likelihood : float
    weight : array of shape (G,)
        Σz.
    excess : array of shape (G, p)
        Σz(x − μ), about the means μ of the parameters that the sweep was made with.
    scatter : array
        Σz(x − μ)(x − μ)ᵀ: the blocks of the distinct covariances, flat, of which the lower triangles count; or full
        matrices, shape (covariances, p, p).
    """

    log_likelihood: float
    weight: FloatArray
    excess: FloatArray
    scatter: FloatArray

    @property
    def empty(self) -> FloatArray:
        """Whether a component has next to no weight left, shape (G,)."""
        return np.asarray(self.weight < _EMPTY * self.weight.sum())

    @property
    def least(self) -> float:
        """The weight from which a component counts as empty."""
        return float(_EMPTY * self.weight.sum())

    def means(self, old: FloatArray) -> FloatArray:
        """New means, shape (G, p); the overall mean, which is zero, for an empty component."""
        new = old + self.excess / np.where(self.empty, 1, self.weight)[:, None]
        return np.where(self.empty[:, None], 0.0, new)

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.log_likelihood + other.log_likelihood,
            self.weight + other.weight,
            self.excess + other.excess,
            self.scatter + other.scatter,
        )


def posterior(chunk: Chunk, parameters: Parameters) -> tuple[FloatArray, float]:
    """Responsibilities (m, G) of the rows of a chunk, and its log-likelihood."""
    from blockmix.em.block.kernels import responsibilities

    z = log_joint(chunk, parameters)
    return z, responsibilities(z, chunk.weights)


def sweep(rows: Rows, parameters: Parameters) -> Statistics:
    """Read every row once."""
    return rows.map_sum(partial(_chunk_statistics, parameters=parameters))


def _chunk_statistics(chunk: Chunk, parameters: Parameters) -> Statistics:
    from blockmix.em.block.kernels import moments

    layout, means = parameters.layout, parameters.means
    z, log_likelihood = posterior(chunk, parameters)
    weight, excess, scatter = np.zeros(len(means)), np.zeros(means.shape), np.zeros(layout.size)
    moments(
        chunk.X,
        chunk.weights,
        z,
        chunk.location,
        1 / chunk.scale,
        means.astype(chunk.X.dtype, copy=False),
        layout.order,
        layout.blocks,
        layout.first,
        weight,
        excess,
        scatter,
    )
    return Statistics(log_likelihood, weight, excess, scatter)


def full_scatter(
    rows: Rows, parameters: Parameters, components: slice = slice(None), z: FloatArray | None = None
) -> Statistics:
    """Statistics with full scatter matrices, of some components or, where they share a covariance, of their sum.

    Weight and excess are those of all components.

    Responsibilities z, shape (N, G), are those of the parameters unless they are given.
    """
    return rows.map_sum(partial(_chunk_scatter, parameters=parameters, components=components, given=z))


def _chunk_scatter(chunk: Chunk, parameters: Parameters, components: slice, given: FloatArray | None) -> Statistics:
    z, log_likelihood = posterior(chunk, parameters) if given is None else (given[chunk.place], np.nan)
    share = np.asarray(z * chunk.weights[:, None])
    values = chunk.values
    p = values.shape[1]
    weight = share.sum(axis=0)
    excess = share.T @ values - weight[:, None] * parameters.means
    chosen = range(share.shape[1])[components]
    scatter = np.zeros((1 if parameters.layout.shared else len(chosen), p, p))
    for at, g in enumerate(chosen):
        counts = share[:, g] > 0
        root = np.sqrt(share[counts, g])
        centered = (values[counts] - parameters.means[g]) * root[:, None]
        scatter[0 if parameters.layout.shared else at] += centered.T @ centered
    return Statistics(log_likelihood, weight, excess, scatter)


def component_means(rows: Rows, z: FloatArray) -> FloatArray:
    """Means of the components, shape (G, p), for given responsibilities (N, G)."""

    def of(chunk: Chunk) -> Statistics:
        share = np.asarray(z[chunk.place] * chunk.weights[:, None])
        return Statistics(np.nan, share.sum(axis=0), share.T @ chunk.values, np.zeros(0))

    found = rows.map_sum(of)
    return found.means(np.zeros_like(found.excess))


def unit_parameters(means: FloatArray, layout: Layout) -> Parameters:
    """Equal weights and identity covariances: what full sweeps with given responsibilities are centered by."""
    factors = np.zeros(layout.size)
    factors[layout.diagonal] = 1
    return Parameters(np.full(len(means), 1 / len(means)), means, layout, factors)
