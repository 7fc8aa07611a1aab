"""GramMatrix: a covariance or correlation of many columns, stored as the few rows that it was computed from.

With N rows and p columns it takes p(N + 2) numbers instead of p², and a product with a vector as many operations. It
is indexed like an array, by blocks or by rows. `worth_rows` decides when to use it. The functions below take either
kind of matrix, so that no other folder has to ask which one it has.

Entries differ from those of an array by rounding. Tied distances between columns, as between exact copies or columns of
zeros and ones, may therefore be merged in another order, and the groups of such tables may differ. They are the same
once distances are rounded to 12 digits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from blockmix.partition import FloatArray, IntArray

_MANY = 1000  # columns from which p × p matrices, and work of p² per node of a tree, take long
_PER_ROW = 8  # columns per row from which products of rows are cheaper
_STRIP = 64  # rows of a matrix that are computed at a time
_COPY = 1e-9  # |r| of exact copies is this near 1


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


Covariance: TypeAlias = FloatArray | GramMatrix


def entries(R: Covariance) -> Entries:
    """A correlation as compiled loops take it."""
    none = np.empty((0, 0))
    if isinstance(R, GramMatrix):
        return Entries(none, R.columns, R._signed, R._spare)
    return Entries(R, none, none, np.empty(0))


def products(rows: FloatArray, like: Covariance) -> Any:
    """AᵀA for rows A, shape (m, p), as the kind of matrix that `like` is."""
    return GramMatrix.of(rows) if isinstance(like, GramMatrix) else rows.T @ rows


def raised(S: Covariance, added: FloatArray) -> Covariance:
    """S with numbers, shape (p,), added to its diagonal; an array is changed in place."""
    if isinstance(S, GramMatrix):
        return replace(S, variances=S.variances + added)
    S.flat[:: len(S) + 1] += added
    return S


def reordered(R: Covariance, order: IntArray) -> Covariance:
    """R with its rows and columns in another order."""
    if isinstance(R, GramMatrix):
        return replace(R, columns=R.columns[order], variances=R.variances[order])
    return R[order[:, None], order]


def gathered(S: Covariance, order: IntArray, blocks: IntArray, size: int) -> FloatArray:
    """Blocks of S as a flat array of this size; a block has the columns ``order[lo:hi]`` and begins at `at`.

    The rows of `blocks`, shape (K, 3), are lo, hi and at.
    """
    from blockmix.blocks.kernels import gather  # loads Numba

    flat = np.zeros(size)
    if not isinstance(S, GramMatrix):
        gather(S, order, blocks, flat)
        return flat
    lo, hi, at = blocks.T
    for c in np.unique(hi - lo).tolist():
        own = hi - lo == c
        columns = order[lo[own, None] + np.arange(c)]
        flat[at[own, None] + np.arange(c * c)] = S[columns[:, :, None], columns[:, None]].reshape(-1, c * c)
    return flat


def row_squares(R: Covariance) -> FloatArray:
    """Sum of the squares of each row, shape (p,)."""
    if not isinstance(R, GramMatrix):
        return np.asarray(np.einsum("ij,ij->i", R, R))
    inner = (R._signed.T @ R._signed) @ R.columns.T
    among = np.einsum("ij,ji->i", R.columns, inner)  # with the diagonal of the products in place of ours
    return np.asarray(among + R.variances**2 - (R.variances - R._spare) ** 2)


def magnitudes(R: Covariance) -> FloatArray:
    """|R| of a correlation as a new array in double precision, shape (p, p)."""
    if not isinstance(R, GramMatrix):
        return np.abs(R, dtype=float)
    found = np.empty(R.shape)
    for first in range(0, len(R), _STRIP):  # no second p × p matrix
        strip = found[first : first + _STRIP]
        np.minimum(np.abs(R[first : first + _STRIP], out=strip), 1, out=strip)
    return found


def shrunk(R: Covariance, d: FloatArray) -> Covariance:
    """Correlations r_ij multiplied by d_i d_j, except those of exact copies, whose d are equal."""
    if isinstance(R, GramMatrix):
        return R.scaled(d) + _restored_copies(R, d)
    found = R * d * d[:, None]
    copies = np.abs(R) > 1 - _COPY
    found[copies] = np.sign(R[copies])
    return np.asarray(found)


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


M = TypeVar("M", FloatArray, GramMatrix, Covariance)


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
        weight = float(len(X) if weights is None else weights.sum(dtype=float))
        if weight == 0:
            p = X.shape[1]
            return cls(0.0, np.zeros(p, dtype=X.dtype), np.zeros((p, p), dtype=X.dtype))
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
        return cls(weight, X[0] + offset, GramMatrix.of(centered) if as_rows else centered.T @ centered)

    def merge(self, other: Moments) -> Moments:
        """Moments of both sets of rows together, with the pairwise correction for their means."""
        weight = self.weight + other.weight
        if weight == 0:
            return self
        shift = other.mean - self.mean
        between = np.outer(shift, shift) * (self.weight * other.weight / weight)
        return Moments(
            weight,
            self.mean + shift * (other.weight / weight),
            self.scatter + other.scatter + between.astype(self.scatter.dtype, copy=False),
        )

    def about_origin(self) -> Moments:
        """Moments of the same rows if their mean is known to be zero."""
        root = self.mean.dtype.type(np.sqrt(self.weight))
        outer = products(root * self.mean[None], self.scatter)
        return Moments(self.weight, np.zeros_like(self.mean), self.scatter + outer)

    @property
    def variances(self) -> FloatArray:
        """Maximum-likelihood variance of each column, shape (p,)."""
        return np.asarray(self.scatter.diagonal() / self.scatter.dtype.type(self.weight))

    @property
    def covariance(self) -> FloatArray:
        """Maximum-likelihood covariance S = scatter / weight."""
        return np.asarray(self.scatter / self.scatter.dtype.type(self.weight))

    def standardized(self, ridge: float) -> tuple[FloatArray, Covariance]:
        """S + ridge · diag(S) as deviations (p,) and correlation (p, p); the ridge is relative to each variance."""
        R = correlation(self.scatter, ridge)
        return np.sqrt(self.variances * R.dtype.type(1 + ridge)), R


def correlation(S: M, ridge: float = 0.0) -> M:
    """Correlation matrix of S + ridge · diag(S), shape (p, p); S itself if its diagonal is 1 and there is no ridge."""
    variances = S.diagonal()
    if not (variances > 0).all():
        j = int(np.argmin(variances > 0))
        raise ValueError(f"column {j} has variance {variances[j]:g}: remove columns that do not vary")
    if isinstance(S, GramMatrix):
        return replace(S.scaled(((1 + ridge) * variances) ** -0.5), variances=np.ones(len(S)))
    R = S
    if not (variances == 1).all():
        deviations = np.sqrt(variances)
        R = S / deviations
        R /= deviations[:, None]
        # Twice as fast on a small matrix as np.clip.
        np.minimum(R, 1, out=R)
        np.maximum(R, -1, out=R)
        R.flat[:: len(R) + 1] = 1
    if ridge:
        R = R / R.dtype.type(1 + ridge)
        R.flat[:: len(R) + 1] = 1
    return R


def definite_correlation(S: M) -> M:
    """Correlation in double precision with a ridge above rounding, so that every block of a singular S has an inverse.

    A conditional variance computed from an inverse P is exact to about eps · ‖P‖. With a ridge of √eps or less that
    error is as large as the variance itself.
    """
    if isinstance(S, GramMatrix):
        return correlation(S, max(1e-6, 10 * len(S) * float(np.finfo(float).eps)))
    rounding = 10 * S.shape[-1] * np.finfo(np.result_type(S, np.float32)).eps
    return correlation(np.asarray(S, dtype=float), max(1e-6, float(rounding)))


def mid_ranks(X: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Rank of each value within its column, tied values at the middle of theirs, shape (N, p).

    With weights it is the weight of the rows below plus half of that of the tied rows, so that a row of weight 2 ranks
    as the row twice does.
    """
    ranks = np.empty(X.shape)
    for j, column in enumerate(X.T):
        at, inverse = np.unique(column, return_inverse=True)
        tied = np.bincount(inverse, weights, minlength=len(at))
        ranks[:, j] = (np.cumsum(tied) - tied / 2)[inverse]
    return ranks
