"""GramMatrix: a covariance or correlation of many columns, held as the few rows that it comes from.

With N rows and p columns it takes p(N + 2) numbers in place of p², and a product with a vector as many operations. It
is read like an array, by blocks or by rows. `worth_rows` decides where that pays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from blockmix.structure.types import FloatArray, IntArray

_MANY = 1000  # columns from which p × p matrices, and work of p² per node of a tree, take long
_PER_ROW = 8  # columns per row from which products of rows are cheaper


class Entries(NamedTuple):
    """A correlation as compiled loops take it: dense, or r_ij = Σ_k left_ik right_jk for i ≠ j; the other is empty.

    Attributes
    ----------
    dense : array of shape (p, p)
    left, right : arrays of shape (p, m)
    spare : array of shape (p,)
        r_ii − Σ_k left_ik right_ik.
    """

    dense: FloatArray
    left: FloatArray
    right: FloatArray
    spare: FloatArray


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
            own = np.arange(len(self))[index]
            found = self.columns[index] @ self._signed.T
            found[np.arange(len(own)), own] = self.variances[own]
            return np.asarray(found)
        i, j = index
        found = self.columns[i[..., 0]] @ np.swapaxes(self._signed[j[..., 0, :]], -1, -2)
        same = i == j
        found[same] = np.broadcast_to(self.variances[i], same.shape)[same]
        return np.asarray(found)

    @cached_property
    def _spare(self) -> FloatArray:
        """The diagonal less that of the products."""
        return np.asarray(self.variances - np.einsum("ij,ij->i", self.columns, self._signed))

    def __matmul__(self, v: FloatArray) -> FloatArray:
        return np.asarray(self.columns @ (v @ self._signed) + self._spare * v)

    @property
    def row_squares(self) -> FloatArray:
        """Sum of the squares of each row, shape (p,)."""
        products = (self._signed.T @ self._signed) @ self.columns.T
        among = np.einsum("ij,ji->i", self.columns, products)  # with the diagonal of the products in place of ours
        return np.asarray(among + self.variances**2 - (self.variances - self._spare) ** 2)

    def __add__(self, other: GramMatrix) -> GramMatrix:
        """The sum of both, by the rows of both."""
        columns = np.concatenate([self.columns, other.columns], axis=1)
        signs = np.concatenate([self.signs, other.signs])
        return GramMatrix(columns, signs, self.variances + other.variances)

    def __truediv__(self, divisor: float) -> GramMatrix:
        return replace(self, columns=self.columns / np.sqrt(divisor), variances=self.variances / divisor)

    def raised(self, added: FloatArray) -> GramMatrix:
        """The same with numbers, shape (p,), added to the diagonal."""
        return replace(self, variances=self.variances + added)

    def minus(self, rows: FloatArray) -> GramMatrix:
        """The matrix less AᵀA for rows A, shape (m, p)."""
        other = GramMatrix.of(rows)
        return self + replace(other, signs=-other.signs, variances=-other.variances)

    def scaled(self, factors: FloatArray) -> GramMatrix:
        """The matrix of columns multiplied by factors, shape (p,), with the same diagonal."""
        return replace(self, columns=self.columns * factors[:, None])

    def reordered(self, order: IntArray) -> GramMatrix:
        """The matrix with its rows and columns in another order."""
        return replace(self, columns=self.columns[order], variances=self.variances[order])

    @property
    def entries(self) -> Entries:
        """The matrix for compiled loops."""
        return Entries(np.empty((0, 0)), self.columns, self._signed, self._spare)


Covariance: TypeAlias = FloatArray | GramMatrix


def entries(R: Covariance) -> Entries:
    """A correlation as compiled loops take it."""
    if isinstance(R, GramMatrix):
        return R.entries
    none = np.empty((0, 0))
    return Entries(R, none, none, np.empty(0))


def reordered(R: Covariance, order: IntArray) -> Covariance:
    """A matrix with its rows and columns in another order."""
    return R.reordered(order) if isinstance(R, GramMatrix) else R[np.ix_(order, order)]


def worth_rows(n_rows: int, n_columns: int, *takers: object) -> bool:
    """Whether to hold covariances of so many rows and columns as rows: if they are wide and all takers accept that."""
    return n_columns >= max(_MANY, _PER_ROW * n_rows) and all(getattr(taker, "takes_rows", False) for taker in takers)
