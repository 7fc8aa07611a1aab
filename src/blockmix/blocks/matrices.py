"""Matrices of many columns: a covariance or correlation as an array, or as the few rows that it was computed from.

`DenseMatrix` and `GramMatrix` have the same methods, so no other module asks which one it has. With N rows and p
columns a Gram matrix takes p(N + 2) numbers instead of p², and a product with a vector as many operations. `worth_rows`
decides when to use it.

Entries of a Gram matrix differ from those of an array by rounding. Tied distances between columns, as between exact
copies or columns of zeros and ones, may therefore be merged in another order, and the groups of such tables may differ.
They are the same once distances are rounded to 12 digits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from blockmix.partition import FloatArray, IntArray

_MANY = 1000  # columns from which p × p matrices, and work of p² per node of a tree, take long
_PER_ROW = 8  # columns per row from which products of rows are cheaper
_STRIP = 64  # rows of a matrix that are computed at a time
_COPY = 1e-9  # |r| of exact copies is this near 1
_NO_MATRIX, _NO_VECTOR = np.empty((0, 0)), np.empty(0)


# A matrix as compiled loops take it: dense (p, p), or left and right (p, m) and spare (p,) with entries
# Σ_k left_ik right_jk for i ≠ j and spare_i more on the diagonal; the other is empty. A plain tuple, because the cache
# of compiled loops would keep the name of a class.
Entries: TypeAlias = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


class DenseMatrix(np.ndarray[Any, np.dtype[Any]]):
    """A symmetric matrix as an array, shape (p, p)."""

    @classmethod
    def of(cls, rows: FloatArray) -> DenseMatrix:
        """AᵀA for rows A, shape (m, p)."""
        return (rows.T @ rows).view(cls)

    @property
    def entries(self) -> Entries:
        """The matrix as compiled loops take it."""
        return self.view(np.ndarray), _NO_MATRIX, _NO_MATRIX, _NO_VECTOR

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
        lo, hi, start = blocks.T
        c = np.repeat(hi - lo, (hi - lo) ** 2)
        row, column = np.divmod(np.arange(size) - np.repeat(start, (hi - lo) ** 2), c)
        first = np.repeat(lo, (hi - lo) ** 2)
        flat: FloatArray = self.view(np.ndarray)[order[first + row], order[first + column]].astype(float)
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
        copies = np.abs(self) > 1 - _COPY
        matrix[copies] = np.sign(self[copies])
        return matrix  # type: ignore[no-any-return]


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
        return _NO_MATRIX, self.columns, self._signed, self._spare

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


Covariance: TypeAlias = DenseMatrix | GramMatrix


def as_matrix(S: Any) -> Any:
    """S itself if it is a matrix of ours, else the array as a `DenseMatrix`."""
    return S if isinstance(S, (DenseMatrix, GramMatrix)) else np.asarray(S).view(DenseMatrix)


def correlation(S: Any, ridge: float = 0.0) -> Any:
    """Correlation matrix of S + ridge · diag(S), shape (p, p), where S is an array or a matrix of ours."""
    return as_matrix(S).correlation(ridge)


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
        first[part] = (np.abs(r) > 1 - _COPY).argmax(axis=1)
        sign[part] = np.sign(r[np.arange(len(r)), first[part]])
    _, number, counts = np.unique(first, return_inverse=True, return_counts=True)
    copied = counts[number] > 1
    sets, number = np.unique(number[copied], return_inverse=True)
    columns = np.zeros((len(R), len(sets)))
    columns[heavy[copied], number] = (sign * np.sqrt(1 - d[heavy] ** 2))[copied]
    return GramMatrix(columns, np.ones(len(sets)), np.zeros(len(R)))


def worth_rows(n_rows: int, n_columns: int) -> bool:
    """Whether a table is so wide that a `GramMatrix` is the better matrix."""
    return n_columns >= max(_MANY, _PER_ROW * n_rows)
