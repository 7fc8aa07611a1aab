"""Moments: weight, mean and scatter of a set of rows, which merge (paper, section 2.1).

Rows come in; the maximum-likelihood mean and covariance S and the correlation R go out. Merging the moments of
two sets of rows gives the moments of their union, so chunks of rows can be read in any grouping.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blockmix._types import FloatArray


@dataclass(frozen=True, eq=False)
class Moments:
    """Weight Σw, mean Σwx/Σw and scatter Σw(x−mean)(x−mean)ᵀ of weighted rows.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 8.0]])
    >>> whole = Moments.of(X)
    >>> parts = Moments.of(X[:1]).merge(Moments.of(X[1:]))
    >>> np.allclose(whole.scatter, parts.scatter)
    True
    """

    weight: float
    mean: FloatArray
    scatter: FloatArray

    @classmethod
    def of(cls, X: FloatArray, weights: FloatArray | None = None) -> Moments:
        """Moments of the rows of X, shape (N, p), in the arithmetic of X."""
        if weights is None:
            mean = X.mean(axis=0)
            centered = X - mean
            return cls(float(len(X)), mean, centered.T @ centered)
        weight = float(weights.sum())
        mean = (weights @ X) / X.dtype.type(weight)
        centered = (X - mean) * np.sqrt(weights)[:, None]
        return cls(weight, mean, centered.T @ centered)

    def merge(self, other: Moments) -> Moments:
        """Moments of both sets of rows together; associative, with the pairwise correction of the means."""
        weight = self.weight + other.weight
        shift = other.mean - self.mean
        between = np.outer(shift, shift) * (self.weight * other.weight / weight)
        return Moments(
            weight,
            self.mean + shift * (other.weight / weight),
            self.scatter + other.scatter + between.astype(self.scatter.dtype, copy=False),
        )

    def about_origin(self) -> Moments:
        """The same rows with mean known to be zero."""
        outer = np.outer(self.mean, self.mean) * self.scatter.dtype.type(self.weight)
        return Moments(self.weight, np.zeros_like(self.mean), self.scatter + outer)

    @property
    def variances(self) -> FloatArray:
        """Maximum-likelihood variance of each column, shape (p,)."""
        return self.scatter.diagonal() / self.scatter.dtype.type(self.weight)

    @property
    def covariance(self) -> FloatArray:
        """Maximum-likelihood covariance S = scatter / weight."""
        return self.scatter / self.scatter.dtype.type(self.weight)

    def standardized(self, ridge: float) -> tuple[FloatArray, FloatArray]:
        """S + ridge · diag(S) as deviations (p,) and correlation (p, p): the ridge is relative to each variance."""
        R = correlation(self.scatter)
        R /= R.dtype.type(1 + ridge)
        np.fill_diagonal(R, 1)
        return np.sqrt(self.variances * R.dtype.type(1 + ridge)), R


def correlation(S: FloatArray) -> FloatArray:
    """Correlation matrix of a covariance, diag(S)^(−½) S diag(S)^(−½); a correlation matrix is returned as it is."""
    variances = S.diagonal()
    if (variances == 1).all():
        return S
    if not (variances > 0).all():
        j = int(np.argmin(variances > 0))
        raise ValueError(f"column {j} has variance {variances[j]:g}: remove columns that do not vary")
    deviations = np.sqrt(variances)
    R = S / deviations
    R /= deviations[:, None]
    np.clip(R, -1, 1, out=R)
    np.fill_diagonal(R, 1)
    return R
