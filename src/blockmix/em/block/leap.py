"""Leaps of the degrees of freedom: the best of a grid for the present responsibilities (docs/adr/0013).

EM moves ν slowly where tails are light: on normal data it would take hundreds of sweeps to the largest value. With the
weights u integrated out only the responsibilities are missing, so moving ν alone to the best of a grid raises the
likelihood by at least the gain computed here.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from blockmix.em.block.e_step import Density, half_distances, posterior
from blockmix.em.block.parameters import Parameters
from blockmix.em.block.tails import LEAST, MOST, constants
from blockmix.rows import Chunk, Rows
from blockmix.structure.types import FloatArray

_GRID = np.geomspace(LEAST, MOST, 16)


def leap(rows: Rows, parameters: Parameters, enough: float) -> Parameters | None:
    """Parameters with other degrees of freedom, if that raises the log-likelihood by more than `enough`."""
    present = parameters.degrees_of_freedom
    assert present is not None
    candidates = np.column_stack([present, np.tile(_GRID, (len(present), 1))])
    density = Density.of(parameters, rows.has_gaps)
    sums = rows.map_sum(partial(_chunk_profile, density=density, candidates=candidates))
    best = sums.argmax(axis=1, keepdims=True)
    gain = np.take_along_axis(sums, best, axis=1).sum() - sums[:, 0].sum()
    if not gain > enough:
        return None
    return replace(parameters, degrees_of_freedom=np.take_along_axis(candidates, best, axis=1)[:, 0])


def _chunk_profile(chunk: Chunk, density: Density, candidates: FloatArray) -> FloatArray:
    """Σ z log t(x; ν) of a chunk for candidates (G, M), without what does not depend on ν; shape (G, M)."""
    from blockmix.em.block.tail_kernels import profile

    sums, p = np.zeros(candidates.shape), chunk.X.shape[1]
    z, halves = posterior(chunk, density).z, half_distances(chunk, density)
    profile(chunk.weights, z, halves, candidates, constants(candidates, p), chunk.observed, sums)
    return sums
