"""Compiled loops over squared distances of t components: log-densities, weights, degrees of freedom (docs/adr/0013)."""

from __future__ import annotations

from typing import Any

import numpy as np

from blockmix.em.block.gap_kernels import compiled


@compiled
def student(joint: Any, level: Any, freedom: Any, constants: Any, observed: Any, u: Any) -> None:
    """Turn −½δ (m, G) into level_g + c_g − ½(ν_g + p) log(1 + δ/ν_g) in place, and write u = (ν_g + p)/(ν_g + δ).

    p is the number of columns that a row has, `observed` (m,); c_g are the constants (G, p + 1) for that number.
    """
    m, G = joint.shape
    for r in range(m):
        p = observed[r]
        for g in range(G):
            total = freedom[g] + p
            distance = -2 * joint[r, g]
            joint[r, g] = level[g] + constants[g, p] - 0.5 * total * np.log1p(distance / freedom[g])
            u[r, g] = total / (freedom[g] + distance)


@compiled
def reweigh(weights: Any, z: Any, u: Any, expected_logs: Any, observed: Any, weight: Any, tail: Any) -> None:
    """Add Σz and Σz(E log u − u) to sums of shape (G,), and multiply z (m, G) by u in place.

    E log u is log u + `expected_logs` (G, p + 1) for the number of columns that a row has.
    """
    m, G = z.shape
    for r in range(m):
        for g in range(G):
            share = weights[r] * z[r, g]
            if share > 0:
                weight[g] += share
                if u[r, g] > 0:  # 0 where the distance overflows
                    tail[g] += share * (np.log(u[r, g]) + expected_logs[g, observed[r]] - u[r, g])
                z[r, g] *= u[r, g]


@compiled
def profile(weights: Any, z: Any, halves: Any, freedom: Any, constants: Any, observed: Any, sums: Any) -> None:
    """Add Σz [c − ½(ν + p) log(1 + δ/ν)] to the sums for candidates ν, shape (G, M); `halves` (m, G) are −½δ."""
    m, G = z.shape
    for r in range(m):
        p = observed[r]
        for g in range(G):
            share = weights[r] * z[r, g]
            if share > 0 and halves[r, g] > -np.inf:
                for k in range(freedom.shape[1]):
                    nu = freedom[g, k]
                    sums[g, k] += share * (constants[g, k, p] - 0.5 * (nu + p) * np.log1p(-2 * halves[r, g] / nu))
