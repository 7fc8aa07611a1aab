"""Tables with missing values, and the literal density and moments of their rows, row by row from dense covariances."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from mixtures import dense, mixture, rounded, rounding, values
from scipy.special import gammaln
from strategies import Matrix

from blockmix.blocks.blocks import Parameters
from blockmix.em.sweep import Statistics
from blockmix.partition import Partition
from blockmix.rows import ArrayRows, Resolution


def with_missing(X: Matrix, share: float, rng: np.random.Generator, depending: bool = False) -> Matrix:
    """X with about this share of its values missing: at random, or more likely where the first column is large."""
    odds = np.full(X.shape, share)
    if depending:
        odds *= np.where(X[:, :1] > np.median(X[:, 0]), 1.8, 0.2)
        odds[:, 0] = 0
    incomplete = X.copy()
    incomplete[rng.random(X.shape) < odds] = np.nan
    return incomplete


def case(
    rng: np.random.Generator, n_rows: int, partitions: list[Partition], share: float, **settings: Any
) -> tuple[ArrayRows, Parameters]:
    """A random mixture and rows of which about this share of the values is missing; the first row has none at all."""
    is_rounded, heavy = settings.pop("rounded", False), settings.pop("heavy", False)
    rows, parameters = mixture(rng, n_rows, partitions, **settings)
    rows = rounded(rows) if is_rounded else rows
    X = with_missing(rows.X, share, rng)
    X[0] = np.nan
    rows = replace(rows, X=X, resolution=Resolution.of(X, rows.weights) if is_rounded else rows.resolution)
    if heavy:
        parameters = replace(parameters, degrees_of_freedom=rng.uniform(1.5, 20, len(parameters.weights)))
    return rows, parameters


def literal(rows: ArrayRows, parameters: Parameters) -> tuple[Matrix, Matrix, Statistics]:
    """Log π_g f_g (N, G), filled values under each component (N, G, p) and statistics with full scatters.

    Every row has its own Σ_oo, inverted as a whole. Rounding adds Σ_j Δ_j (Σ_oo⁻¹)_jj to the distance of a row and
    A Δ Aᵀ to its scatter, where A = [I; Σ_mo Σ_oo⁻¹] fills in missing values.
    """
    X, sigma, blurs, means = values(rows), dense(parameters), rounding(rows), parameters.means
    (N, p), G = X.shape, len(means)
    joint, filled, u = np.zeros((N, G)), np.zeros((N, G, p)), np.ones((N, G))
    extra = np.zeros((N, G, p, p))  # conditional covariances
    moved = np.zeros((N, G, p, p))  # what rounding leaves beyond the diagonal
    for i in range(N):
        o, m = np.flatnonzero(~np.isnan(X[i])), np.flatnonzero(np.isnan(X[i]))
        for g in range(G):
            inverse = np.linalg.inv(sigma[g][np.ix_(o, o)])
            d = X[i, o] - means[g, o]
            A = np.zeros((p, len(o)))
            A[o], A[m] = np.eye(len(o)), sigma[g][np.ix_(m, o)] @ inverse
            filled[i, g] = means[g] + A @ d
            filled[i, g, o] = X[i, o]
            extra[i, g] = np.pad(np.zeros((0, 0)), (0, p))
            extra[i, g][np.ix_(m, m)] = sigma[g][np.ix_(m, m)] - A[m] @ sigma[g][np.ix_(o, m)]
            moved[i, g] = A @ np.diag(blurs[i, o]) @ A.T - np.diag(blurs[i])
            delta = d @ inverse @ d + blurs[i, o] @ np.diagonal(inverse)
            logdet = np.linalg.slogdet(2 * np.pi * sigma[g][np.ix_(o, o)])[1]
            joint[i, g] = np.log(parameters.weights[g]) - 0.5 * logdet
            if parameters.degrees_of_freedom is None:
                joint[i, g] -= 0.5 * delta
            else:
                nu, c = parameters.degrees_of_freedom[g], len(o)
                joint[i, g] += gammaln((nu + c) / 2) - gammaln(nu / 2) - c / 2 * np.log(nu / 2)
                joint[i, g] -= (nu + c) / 2 * np.log1p(delta / nu)
                u[i, g] = (nu + c) / (nu + delta)
    top = joint.max(axis=1, keepdims=True)
    z = np.exp(joint - top)
    z /= z.sum(axis=1, keepdims=True)
    certain = z * rows.weights[:, None]
    share = certain * u
    centered = filled - means
    scatter = np.einsum("ng,ngi,ngj->gij", share, centered, centered)
    scatter += np.einsum("ng,ngij->gij", certain, extra) + np.einsum("ng,ngij->gij", share, moved)
    log_likelihood = float(rows.weights @ (top[:, 0] + np.log(np.exp(joint - top).sum(axis=1))))
    excess = np.einsum("ng,ngi->gi", share, centered)
    statistics = Statistics(
        log_likelihood,
        certain.sum(axis=0),
        share.sum(axis=0),
        excess,
        share.T @ blurs,
        parameters.layout.pooled(scatter),
    )
    return joint, filled, statistics
