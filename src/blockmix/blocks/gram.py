"""GramMatrix: a covariance or correlation of many columns, stored as the few rows that it was computed from.

With N rows and p columns it takes p(N + 2) numbers instead of p², and a product with a vector as many operations. It
has the methods of `moments.DenseMatrix`, so no other module asks which one it has.

Entries differ from those of an array by rounding. Tied distances between columns, as between exact copies or columns of
zeros and ones, may therefore be merged in another order, and the groups of such tables may differ. They are the same
once distances are rounded to 12 digits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from blockmix.partition import FloatArray, IntArray

_STRIP = 64  # rows of a matrix that are computed at a time
COPY = 1e-9  # |r| of exact copies is this near 1
NO_MATRIX, NO_VECTOR = np.empty((0, 0)), np.empty(0)


# A matrix as compiled loops take it: dense (p, p), or left and right (p, m) and spare (p,) with entries
# Σ_k left_ik right_jk for i ≠ j and spare_i more on the diagonal; the other is empty. A plain tuple, because the cache
# of compiled loops would keep the name of a class.
Entries: TypeAlias = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class GramMatrix:
    """The symmetric matrix with entries Σ_k s_k a_ik a_jk off its diagonal.

    Parameters
    ----------
    columns : array of shape (p, m)
        a: the values of each column in m rows.
    signs : array of shape (m,)
        s: 1, or −1 for a row that is taken out.
    variances : array of shape (p,)
        The diagonal.

    Examples
    --------
    >>> S = GramMatrix.of(np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0]]))
    >>> S[np.ix_([0, 1], [1, 2])]
    array([[2., 0.],
           [5., 3.]])
    """

    columns: FloatArray
    signs: FloatArray
    variances: FloatArray

    @classmethod
    def of(cls, rows: FloatArray) -> GramMatrix:
        """AᵀA for rows A, shape (m, p)."""
        columns = np.ascontiguousarray(rows.T, dtype=float)
        return cls(columns, np.ones(len(rows)), np.einsum("ij,ij->i", columns, columns))

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def shape(self) -> tuple[int, int]:
        """(p, p)."""
        return len(self), len(self)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Double precision."""
        return self.columns.dtype

    def diagonal(self) -> FloatArray:
        """The diagonal, shape (p,)."""
        return self.variances

    @cached_property
    def _signed(self) -> FloatArray:
        return self.columns if (self.signs == 1).all() else self.columns * self.signs

    def __getitem__(self, index: Any) -> FloatArray:
        """Rows, or entries at index arrays of shapes (…, c, 1) and (…, 1, d) as of `np.ix_`."""
        if not isinstance(index, tuple):
            rows = np.arange(len(self))[index]
            values = self.columns[index] @ self._signed.T
            values[np.arange(len(rows)), rows] = self.variances[rows]
            return np.asarray(values)
        i, j = index
        values = self.columns[i[..., 0]] @ np.swapaxes(self._signed[j[..., 0, :]], -1, -2)
        same = i == j
        values[same] = np.broadcast_to(self.variances[i], same.shape)[same]
        return np.asarray(values)

    @cached_property
    def _spare(self) -> FloatArray:
        """The diagonal less that of the products."""
        return np.asarray(self.variances - np.einsum("ij,ij->i", self.columns, self._signed))

    def __matmul__(self, v: FloatArray) -> FloatArray:
        """Product with a vector."""
        return np.asarray(self.columns @ (v @ self._signed) + self._spare * v)

    matvec = __matmul__  # SciPy's name for it

    def __add__(self, other: GramMatrix) -> GramMatrix:
        """The sum of both, by the rows of both."""
        columns = np.concatenate([self.columns, other.columns], axis=1)
        signs = np.concatenate([self.signs, other.signs])
        return GramMatrix(columns, signs, self.variances + other.variances)

    def __truediv__(self, divisor: float) -> GramMatrix:
        return replace(self, columns=self.columns / np.sqrt(divisor), variances=self.variances / divisor)

    def __sub__(self, other: GramMatrix) -> GramMatrix:
        return self + replace(other, signs=-other.signs, variances=-other.variances)

    def scaled(self, factors: FloatArray) -> GramMatrix:
        """The matrix of columns multiplied by factors, shape (p,), with the same diagonal."""
        return replace(self, columns=self.columns * factors[:, None])

    @property
    def entries(self) -> Entries:
        """The matrix as compiled loops take it."""
        return NO_MATRIX, self.columns, self._signed, self._spare

    def correlation(self, ridge: float = 0.0) -> GramMatrix:
        """Correlation matrix of S + ridge · diag(S)."""
        if not (self.variances > 0).all():
            refuse_no_variance(self.variances)
        return replace(self.scaled(((1 + ridge) * self.variances) ** -0.5), variances=np.ones(len(self)))

    def definite(self) -> GramMatrix:
        """Correlation with a ridge above rounding; see `DenseMatrix.definite`."""
        return self.correlation(max(1e-6, 10 * len(self) * float(np.finfo(float).eps)))

    def raised(self, added: FloatArray) -> GramMatrix:
        """The matrix with numbers, shape (p,), added to its diagonal."""
        return replace(self, variances=self.variances + added)

    def reordered(self, order: IntArray) -> GramMatrix:
        """The matrix with its rows and columns in another order."""
        return replace(self, columns=self.columns[order], variances=self.variances[order])

    def gathered(self, order: IntArray, blocks: IntArray, size: int) -> FloatArray:
        """Blocks as a flat array; see `DenseMatrix.gathered`."""
        flat, (lo, hi, start) = np.zeros(size), blocks.T
        for c in np.unique(hi - lo).tolist():
            alike = hi - lo == c
            columns = order[lo[alike, None] + np.arange(c)]
            matrices = self[columns[:, :, None], columns[:, None]]
            flat[start[alike, None] + np.arange(c * c)] = matrices.reshape(-1, c * c)
        return flat

    def row_squares(self) -> FloatArray:
        """Sum of the squares of each row, shape (p,)."""
        inner = (self._signed.T @ self._signed) @ self.columns.T
        among = np.einsum("ij,ji->i", self.columns, inner)  # with the diagonal of the products in place of ours
        return np.asarray(among + self.variances**2 - (self.variances - self._spare) ** 2)

    def magnitudes(self) -> FloatArray:
        """|R| of a correlation as a new array, shape (p, p)."""
        values = np.empty(self.shape)
        for first in range(0, len(self), _STRIP):  # no second p × p matrix
            strip = values[first : first + _STRIP]
            np.minimum(np.abs(self[first : first + _STRIP], out=strip), 1, out=strip)
        return values

    def shrunk(self, d: FloatArray) -> GramMatrix:
        """Correlations r_ij multiplied by d_i d_j, except those of exact copies, whose d are equal."""
        return self.scaled(d) + _restored_copies(self, d)


def refuse_no_variance(variances: FloatArray) -> None:
    """Raise a ValueError that names the first column without variance."""
    j = int(np.argmin(variances > 0))
    raise ValueError(f"column {j} has variance {variances[j]:g}: remove columns that do not vary")


def _restored_copies(R: GramMatrix, d: FloatArray) -> GramMatrix:
    """1 − d² between exact copies: one row √(1 − d²) for each set of copies."""
    heavy = np.flatnonzero(d < 1)
    first, sign = np.empty_like(heavy), np.empty(len(heavy))
    for start in range(0, len(heavy), _STRIP):
        part = slice(start, start + _STRIP)
        r = R[np.ix_(heavy[part], heavy)]
        first[part] = (np.abs(r) > 1 - COPY).argmax(axis=1)
        sign[part] = np.sign(r[np.arange(len(r)), first[part]])
    _, number, counts = np.unique(first, return_inverse=True, return_counts=True)
    copied = counts[number] > 1
    sets, number = np.unique(number[copied], return_inverse=True)
    columns = np.zeros((len(R), len(sets)))
    columns[heavy[copied], number] = (sign * np.sqrt(1 - d[heavy] ** 2))[copied]
    return GramMatrix(columns, np.ones(len(sets)), np.zeros(len(R)))
