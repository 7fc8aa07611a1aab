"""Powers: one increasing function of each column, x ↦ o + s ψ_λ((x − o)/s), that makes skewed columns symmetric.

ψ_λ is Yeo and Johnson's power with 0 ≤ λ ≤ 2, where it maps all numbers onto all numbers, so a density of powered
columns is one of the columns, and every powered value has a value. λ = 1 leaves a column as it is, λ < 1 compresses
large values, as logarithms do, and λ > 1 small ones. The paper has no counterpart: its columns are normal in a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from blockmix.partition import BoolArray, FloatArray, IntArray

_STEPS = 6.0  # s to the median: with 6 the logarithm of a column that begins at 0 is within the family, but for 1/6
_FEW = 8  # different values from which a column can have a power: the values of an answer 1 … 5 are moved by any
_LINEAR = 1e-9  # exponents this near to 0 are logarithms


@dataclass(frozen=True, eq=False)
class Powers:
    """Exponents λ, origins o and steps s of the columns, and location and scale of powered columns; arrays (p,).

    A column with λ = 1 has o = 0 and s = 1.
    """

    exponents: FloatArray
    origin: FloatArray
    step: FloatArray
    location: FloatArray
    scale: FloatArray

    @property
    def columns(self) -> Any:
        """Numbers of the columns with an exponent other than 1."""
        return np.flatnonzero(self.exponents != 1)

    @property
    def n_exponents(self) -> int:
        """Number of fitted exponents."""
        return len(self.columns)

    def of(self, X: FloatArray) -> FloatArray:
        """Powered values of X, shape (m, p), in double precision; a missing value stays one."""
        return self._mapped(X, power)

    def inverse(self, Y: FloatArray) -> FloatArray:
        """Values whose powered values are Y, shape (m, p)."""
        return self._mapped(Y, _inverse)

    def _mapped(self, X: FloatArray, function: Any) -> FloatArray:
        Y, j = np.array(X, dtype=float, order="C"), self.columns
        o, s = self.origin[j], self.step[j]
        Y[:, j] = o + s * function((Y[:, j] - o) / s, self.exponents[j])
        return Y

    def log_slopes(self, X: FloatArray) -> FloatArray:
        """Log of the derivative, shape (m, p); NaN at missing values."""
        j, logs = self.columns, np.zeros(X.shape)
        logs[:, j] = log_slopes((X[:, j] - self.origin[j]) / self.step[j], self.exponents[j])
        return logs

    def chords(self, columns: IntArray, values: FloatArray, widths: FloatArray) -> FloatArray:
        """Mean derivatives at values of some columns over the intervals of these widths that they stand for."""
        a, o, s = self.exponents[columns], self.origin[columns], self.step[columns]
        rise = power((values + widths / 2 - o) / s, a) - power((values - widths / 2 - o) / s, a)
        return np.where(a == 1, 1.0, rise * s / np.maximum(widths, np.finfo(float).tiny))

    def in_units(self, location: FloatArray, scale: FloatArray) -> Powers:
        """The same functions, standardized so that a value v becomes v·scale + location."""
        deviation = self.scale / scale
        return replace(self, location=self.location - location * deviation, scale=deviation)


def power(t: FloatArray, exponent: Any) -> FloatArray:
    """Yeo and Johnson's ψ_λ(t) = ((1 + t)^λ − 1)/λ for t ≥ 0, and −ψ_{2−λ}(−t) below.

    Examples
    --------
    >>> power(np.array([-2.0, 0.0, 2.0]), np.array([1.0])).round(12)
    array([-2.,  0.,  2.])
    """
    a = np.where(t < 0, 2 - exponent, exponent)
    logs = np.log1p(np.abs(t))
    plain = np.abs(a) < _LINEAR
    with np.errstate(over="ignore"):
        sizes = np.where(plain, logs, np.expm1(a * logs) / np.where(plain, 1, a))
    return np.asarray(np.copysign(sizes, t))


def log_slopes(t: FloatArray, exponent: Any) -> FloatArray:
    """Log of the derivative of ψ_λ at t."""
    return np.asarray((exponent - 1) * np.sign(t) * np.log1p(np.abs(t)))


def _inverse(y: FloatArray, exponent: Any) -> FloatArray:
    """The t with ψ_λ(t) = y."""
    a = np.where(y < 0, 2 - exponent, exponent)
    plain = np.abs(a) < _LINEAR
    with np.errstate(over="ignore"):
        logs = np.where(plain, np.abs(y), np.log1p(a * np.abs(y)) / np.where(plain, 1, a))
        return np.asarray(np.copysign(np.expm1(logs), y))


def ends(X: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Origins and steps for exponents up to 1 and from 1 on, both (2, p), and which columns may have one.

    Small values are compressed from the largest value, large ones from the smallest, in steps of a sixth of the way to
    the median: changing the units of a column, or its sign, changes nothing else.
    """
    p = X.shape[1]
    origin, step, able = np.zeros((2, p)), np.ones((2, p)), np.zeros(p, dtype=bool)
    for j in range(p):
        there = (weights > 0) & ~np.isnan(X[:, j])
        values, place = np.unique(X[there, j].astype(float), return_inverse=True)
        if len(values) < _FEW:
            continue
        mass = np.cumsum(np.bincount(place, weights[there].astype(float)))
        low, high = np.searchsorted(mass, [mass[-1] * (0.5 - 1e-9), mass[-1] * (0.5 + 1e-9)])
        median, least, most = (values[low] + values[min(high, len(values) - 1)]) / 2, values[0], values[-1]
        # Of a column that is mostly one value, which is its end, the median says nothing.
        shares = np.maximum(np.array([median - least, most - median]), (most - least) / 50)
        origin[:, j], step[:, j], able[j] = (least, most), shares / _STEPS, True
    return origin, step, able
