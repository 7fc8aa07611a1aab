"""Moments: weight, mean and scatter of a set of rows (paper, section 2.1), and ranks of their values.

Moments of rows give the maximum-likelihood mean and covariance S and the correlation R. Merging the moments of two sets
of rows gives those of their union, so rows can be read in chunks of any size. The correlation of ranks is Spearman's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from blockmix.blocks.matrices import Covariance, DenseMatrix, GramMatrix
from blockmix.partition import FloatArray


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
    scatter: Any  # Covariance, of the kind that `of` was asked for

    @classmethod
    def of(cls, X: FloatArray, weights: FloatArray | None = None, as_rows: bool = False) -> Moments:
        """Moments of the rows of X, shape (N, p), in the arithmetic of X; the scatter as a `GramMatrix` if `as_rows`.

        The first row is subtracted before averaging, so that a constant column has scatter exactly 0; otherwise the
        rounding of a mean over 100 rows of 0.1 would look like variation. Without rows the weight is 0.
        """
        kind = GramMatrix if as_rows else DenseMatrix
        weight = float(len(X) if weights is None else weights.sum(dtype=float))
        if weight == 0:
            p = X.shape[1]
            return cls(0.0, np.zeros(p, dtype=X.dtype), kind.of(np.zeros((1, p), dtype=X.dtype)))
        centered = X - X[0]
        if weights is None:
            # In double precision: NumPy adds a float32 column term by term, which drifts over many rows.
            offset = centered.mean(axis=0, dtype=float).astype(X.dtype)
            centered -= offset
        else:
            weights = weights.astype(X.dtype, copy=False)
            offset = (weights @ centered) / X.dtype.type(weight)
            centered -= offset
            centered *= np.sqrt(weights)[:, None]
        return cls(weight, X[0] + offset, kind.of(centered))

    def merge(self, other: Moments) -> Moments:
        """Moments of both sets of rows together, with the pairwise correction for their means."""
        weight = self.weight + other.weight
        if weight == 0:
            return self
        shift = other.mean - self.mean
        root = shift.dtype.type(np.sqrt(self.weight * other.weight / weight))
        scatter = self.scatter + other.scatter + type(self.scatter).of(root * shift[None])
        return Moments(weight, self.mean + shift * (other.weight / weight), scatter)

    def about_origin(self) -> Moments:
        """Moments of the same rows if their mean is known to be zero."""
        root = self.mean.dtype.type(np.sqrt(self.weight))
        outer = type(self.scatter).of(root * self.mean[None])
        return Moments(self.weight, np.zeros_like(self.mean), self.scatter + outer)

    @property
    def variances(self) -> FloatArray:
        """Maximum-likelihood variance of each column, shape (p,)."""
        return np.asarray(self.scatter.diagonal() / self.scatter.dtype.type(self.weight))

    def standardized(self, ridge: float) -> tuple[FloatArray, Covariance]:
        """S + ridge · diag(S) as deviations (p,) and correlation (p, p); the ridge is relative to each variance."""
        R = self.scatter.correlation(ridge)
        return np.sqrt(self.variances * R.dtype.type(1 + ridge)), R


def mid_ranks(X: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Rank of each value within its column, tied values at the middle of theirs, shape (N, p).

    With weights it is the weight of the rows below plus half of that of the tied rows, so that a row of weight 2 ranks
    as the row twice does.
    """
    ranks = np.empty(X.shape)
    for j, column in enumerate(X.T):
        values, inverse = np.unique(column, return_inverse=True)
        tied = np.bincount(inverse, weights, minlength=len(values))
        ranks[:, j] = (np.cumsum(tied) - tied / 2)[inverse]
    return ranks
