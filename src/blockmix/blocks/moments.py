"""Moments: weight, mean and scatter of a set of rows (paper, section 2.1), and the matrices that they are made of.

Moments of rows give the maximum-likelihood mean and covariance S and the correlation R. A matrix is an array,
`DenseMatrix`, or for wide tables a `GramMatrix`; both have the same methods. The correlation of ranks is Spearman's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.special import ndtri

from blockmix.blocks.gram import COPY, NO_MATRIX, NO_VECTOR, Entries, GramMatrix, refuse_no_variance
from blockmix.partition import FloatArray, IntArray

_MANY = 1000  # columns from which p × p matrices, and work of p² per node of a tree, take long
_PER_ROW = 8  # columns per row from which products of rows are cheaper


class DenseMatrix(np.ndarray[Any, np.dtype[Any]]):
    """A symmetric matrix as an array, shape (p, p)."""

    @classmethod
    def of(cls, rows: FloatArray) -> DenseMatrix:
        """AᵀA for rows A, shape (m, p)."""
        return (rows.T @ rows).view(cls)

    @property
    def entries(self) -> Entries:
        """The matrix as compiled loops take it."""
        return self.view(np.ndarray), NO_MATRIX, NO_MATRIX, NO_VECTOR

    def correlation(self, ridge: float = 0.0) -> DenseMatrix:
        """Correlation matrix of S + ridge · diag(S); S itself if its diagonal is 1 and there is no ridge."""
        variances = self.diagonal()
        if not (variances > 0).all():
            refuse_no_variance(variances)
        R = self
        if not (variances == 1).all():
            deviations = np.sqrt(variances)
            R = self / deviations
            R /= deviations[:, None]
            # Twice as fast on a small matrix as np.clip.
            np.minimum(R, 1, out=R)
            np.maximum(R, -1, out=R)
            R.flat[:: len(R) + 1] = 1
        if ridge:
            R = R / R.dtype.type(1 + ridge)
            R.flat[:: len(R) + 1] = 1
        return R

    def definite(self) -> DenseMatrix:
        """Correlation in double precision with a ridge above rounding, so that every block has an inverse.

        A conditional variance computed from an inverse P is exact to about eps · ‖P‖. With a ridge of √eps or less that
        error is as large as the variance itself.
        """
        rounding = 10 * len(self) * np.finfo(np.result_type(self, np.float32)).eps
        matrix: Any = self.astype(float)
        definite: DenseMatrix = matrix.correlation(max(1e-6, float(rounding)))
        return definite

    def raised(self, added: FloatArray) -> DenseMatrix:
        """The matrix, changed in place, with numbers, shape (p,), added to its diagonal."""
        self.flat[:: len(self) + 1] += added
        return self

    def reordered(self, order: IntArray) -> DenseMatrix:
        """The matrix with its rows and columns in another order."""
        matrix: Any = self[order[:, None], order]
        return matrix  # type: ignore[no-any-return]

    def gathered(self, order: IntArray, blocks: IntArray, size: int) -> FloatArray:
        """Blocks as a flat array of this size; a block has the columns ``order[lo:hi]`` and begins at `start`.

        The rows of `blocks`, shape (K, 3), are lo, hi and start.
        """
        from blockmix.blocks.kernels import gather  # loads Numba

        flat = np.empty(size)
        gather(self.view(np.ndarray), order, blocks, flat)
        return flat

    def row_squares(self) -> FloatArray:
        """Sum of the squares of each row, shape (p,)."""
        squares: FloatArray = np.einsum("ij,ij->i", self.view(np.ndarray), self.view(np.ndarray))
        return squares

    def magnitudes(self) -> FloatArray:
        """|R| of a correlation as a new array in double precision, shape (p, p)."""
        return np.abs(self.view(np.ndarray), dtype=float)

    def shrunk(self, d: FloatArray) -> DenseMatrix:
        """Correlations r_ij multiplied by d_i d_j, except those of exact copies, whose d are equal."""
        matrix: Any = self * d * d[:, None]
        copies = np.abs(self) > 1 - COPY
        matrix[copies] = np.sign(self[copies])
        return matrix  # type: ignore[no-any-return]


Covariance: TypeAlias = DenseMatrix | GramMatrix


def as_matrix(S: Any) -> Any:
    """S itself if it is a matrix of ours, else the array as a `DenseMatrix`."""
    return S if isinstance(S, (DenseMatrix, GramMatrix)) else np.asarray(S).view(DenseMatrix)


def correlation(S: Any, ridge: float = 0.0) -> Any:
    """Correlation matrix of S + ridge · diag(S), shape (p, p), where S is an array or a matrix of ours."""
    return as_matrix(S).correlation(ridge)


def worth_rows(n_rows: int, n_columns: int) -> bool:
    """Whether a table is so wide that a `GramMatrix` is the better matrix."""
    return n_columns >= max(_MANY, _PER_ROW * n_rows)


@dataclass(frozen=True, eq=False)
class Moments:
    """Weight Σw, mean Σwx/Σw and scatter Σw(x−mean)(x−mean)ᵀ of weighted rows.

    Examples
    --------
    >>> Moments.of(np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 8.0]])).variances.round(3)
    array([2.667, 8.667])
    """

    weight: float
    mean: FloatArray
    scatter: Any  # Covariance, of the kind that `of` was asked for

    @classmethod
    def of(cls, X: FloatArray, weights: FloatArray | None = None, as_rows: bool = False) -> Moments:
        """Moments of the rows of X, shape (N, p), in the arithmetic of X; the scatter as a `GramMatrix` if `as_rows`.

        The first row is subtracted before averaging, so that a constant column has scatter exactly 0; otherwise the
        rounding of a mean over 100 rows of 0.1 would look like variation.
        """
        kind = GramMatrix if as_rows else DenseMatrix
        weight = float(len(X) if weights is None else weights.sum(dtype=float))
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


def normal_scores(X: FloatArray, weights: FloatArray) -> FloatArray:
    """Columns with each value replaced by the normal quantile of its weighted mid-rank.

    Examples
    --------
    >>> normal_scores(np.array([[0.0], [1], [1], [50]]), np.ones(4)).round(2).ravel()
    array([-1.15,  0.  ,  0.  ,  1.15])
    """
    # A row of weight 0 may have rank 0, whose quantile is not finite.
    quantiles = np.clip(mid_ranks(X, weights) / weights.sum(dtype=float), 1e-9, 1 - 1e-9)
    scores: FloatArray = ndtri(quantiles).astype(X.dtype)
    return scores
