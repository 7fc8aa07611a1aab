"""Losses: how close an estimated covariance is to the true one (paper, section 2.6).

A covariance is a dense p × p matrix. The paper's MAPE has a denominator that can vanish; the Frobenius and Stein losses
do not have that flaw.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from blockmix.partition import FloatArray


def mape(true_cov: ArrayLike, est_cov: ArrayLike) -> float:
    """Mean absolute percentage error, in the paper's form.

    100 Σ_ij |σ_ij − σ̂_ij| / Σ_ij σ_ij. The denominator is a signed sum, which negative covariances can make small or
    negative. Use it to compare methods on one covariance, not as an absolute measure.

    Parameters
    ----------
    true_cov, est_cov : array-like of shape (p, p)

    Returns
    -------
    float
        Percent.

    Examples
    --------
    >>> mape([[2.0, 0.0], [0.0, 2.0]], [[2.0, 1.0], [1.0, 2.0]])
    50.0
    """
    sigma, estimate = _covariance_pair(true_cov, est_cov)
    total = sigma.sum()
    if total == 0:
        raise ValueError("MAPE is undefined: the entries of true_cov sum to 0; use frobenius_loss or stein_loss")
    return float(100 * np.abs(sigma - estimate).sum() / total)


def frobenius_loss(true_cov: ArrayLike, est_cov: ArrayLike) -> float:
    """Frobenius norm of the error, ‖Σ̂ − Σ‖_F.

    Parameters
    ----------
    true_cov, est_cov : array-like of shape (p, p)

    Returns
    -------
    float

    Examples
    --------
    >>> frobenius_loss([[1.0, 0.0], [0.0, 1.0]], [[4.0, 0.0], [0.0, 5.0]])
    5.0
    """
    sigma, estimate = _covariance_pair(true_cov, est_cov)
    return float(np.linalg.norm(estimate - sigma))


def stein_loss(true_cov: ArrayLike, est_cov: ArrayLike) -> float:
    """Stein's loss, tr(Σ̂Σ⁻¹) − log|Σ̂Σ⁻¹| − p.

    Twice the Kullback–Leibler divergence from N(0, Σ̂) to N(0, Σ): at least 0, and 0 only for Σ̂ = Σ. A linear change
    of coordinates (Σ → BΣBᵀ, Σ̂ → BΣ̂Bᵀ) does not change it.

    Parameters
    ----------
    true_cov, est_cov : array-like of shape (p, p)
        Both positive definite.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If one of them is not positive definite to working precision.

    Examples
    --------
    >>> round(stein_loss([[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [0.0, 1.0]]), 4)
    0.3069
    """
    sigma, estimate = _covariance_pair(true_cov, est_cov)
    L, L_hat = _cholesky(sigma, "true_cov"), _cholesky(estimate, "est_cov")
    # W = L⁻¹ L̂ is triangular: the trace is Σ w_ij² and the determinant Π w_ii². Entry by entry each term is at
    # least 0, so nothing cancels when the estimate is close.
    W = solve_triangular(L, L_hat, lower=True)
    excess = W.diagonal() ** 2 - 1
    return float((np.tril(W, -1) ** 2).sum() + (excess - np.log1p(excess)).sum())


def _covariance_pair(true_cov: ArrayLike, est_cov: ArrayLike) -> tuple[FloatArray, FloatArray]:
    sigma, estimate = (np.asarray(values, dtype=np.float64) for values in (true_cov, est_cov))
    for name, values in (("true_cov", sigma), ("est_cov", estimate)):
        if values.ndim != 2 or values.shape[0] != values.shape[1] or values.size == 0:
            raise ValueError(f"{name} must be a square matrix, got shape {values.shape}")
        if not np.isfinite(values).all():
            raise ValueError(f"{name} has an entry that is not finite: {values[~np.isfinite(values)][0]}")
    if sigma.shape != estimate.shape:
        raise ValueError(f"true_cov has shape {sigma.shape} and est_cov {estimate.shape}; they must be equal")
    return sigma, estimate


def _cholesky(covariance: FloatArray, name: str) -> FloatArray:
    """Lower Cholesky factor, with singularity judged on the scale-free correlation matrix."""
    variances = covariance.diagonal()
    if variances.min() <= 0:
        raise ValueError(f"{name} is not positive definite: it has a variance of {variances.min():.3g}")
    scale = np.sqrt(variances)
    correlation = covariance / np.outer(scale, scale)
    if not np.allclose(correlation, correlation.T, rtol=0, atol=1e-8):
        raise ValueError(f"{name} is not symmetric")
    # Rounding often lets a singular matrix pass Cholesky with tiny pivots; computed eigenvalues are within
    # p · eps · λ_max of the exact ones, so they do show the zero.
    eigenvalues = np.linalg.eigvalsh(correlation)
    if eigenvalues[0] <= len(scale) * np.finfo(float).eps * eigenvalues[-1]:
        raise ValueError(
            f"{name} is singular: the smallest eigenvalue of its correlation matrix is {eigenvalues[0]:.3g}; "
            "add a ridge first"
        )
    return np.asarray(scale[:, None] * np.linalg.cholesky(correlation))
