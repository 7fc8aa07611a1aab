"""Sums of statistics, taken pairwise in a tree that depends only on the number of parts.

The same chunks therefore give the same sum wherever they are stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from blockmix.partition import FloatArray, IntArray

if TYPE_CHECKING:
    from blockmix.rows.rows import Chunk


class Summable(Protocol):
    """Statistics that add up."""

    def __add__(self: S, other: S) -> S:
        """Statistics of both sets of rows."""
        ...


S = TypeVar("S", bound=Summable)


class Additive:
    """Statistics, a dataclass, whose fields add up one by one; a field that is None stays None."""

    def __add__(self, other: Self) -> Self:
        one: Any = self
        pairs = ((getattr(self, field.name), getattr(other, field.name)) for field in fields(one))
        return type(self)(*(None if a is None or b is None else a + b for a, b in pairs))


def total(parts: Iterable[S]) -> S:
    """Sum of at least one part: of pairs, then of pairs of pairs; rounding grows with the logarithm of their number.

    Examples
    --------
    >>> total("abcdefg")  # ((ab)(cd))((ef)g)
    'abcdefg'
    """
    waiting: list[tuple[int, S]] = []  # sums of 2^level parts, the level falling
    for part in parts:
        level, found = 0, part
        while waiting and waiting[-1][0] == level:
            level, found = level + 1, waiting.pop()[1] + found
        waiting.append((level, found))
    _, found = waiting.pop()
    while waiting:
        found = waiting.pop()[1] + found
    return found


_ROWS = 2048  # rows that are looked at: sorting 200 columns of them takes 20 ms
_MOST_VALUES = 2**16 - 1  # codes have two bytes


@dataclass(frozen=True, eq=False)
class Resolution:
    """Repeated values and their variances.

    Attributes
    ----------
    columns : array of shape (D,)
        Columns with repeated values.
    first : array of shape (D + 1,)
        Where the values of each of them start.
    values, variances : flat arrays
        Values that are not exact, ascending within a column, and δ²/12.
    """

    columns: IntArray
    first: IntArray
    values: FloatArray
    variances: FloatArray

    @classmethod
    def of(cls, X: FloatArray, weights: FloatArray) -> Resolution:
        """Resolution of rows X, shape (N, p); a weight of 2 counts a row twice. Looks at some 2000 rows of many."""
        from blockmix.rows.kernels import repeated_values

        counted = np.flatnonzero(weights > 0)
        some = counted[:: -(-len(counted) // _ROWS)]
        X, weights = X[some].astype(float), weights[some]
        if (weights == 1).all():
            ordered, counts = np.sort(X, axis=0), np.ones(X.shape)
        else:
            order = np.argsort(X, axis=0, kind="stable")
            ordered, counts = np.take_along_axis(X, order, axis=0), weights[order].astype(float)
        first, values, widths = repeated_values(ordered, counts, _MOST_VALUES)
        columns = np.flatnonzero(np.diff(first))
        return cls(columns, np.append(first[columns], len(values)), values, widths**2 / 12)

    def codes(self, X: FloatArray) -> NDArray[np.uint16]:
        """For each value of the columns of X, shape (m, p), its number among the repeated ones or 0, shape (m, D)."""
        from blockmix.rows.kernels import value_codes

        codes = np.zeros((len(X), len(self.columns)), dtype=np.uint16)
        if len(self.columns):
            value_codes(X, self.columns, self.first, self.values, codes)
        return codes

    def table(self, scale: FloatArray) -> FloatArray:
        """Variances by code, of columns divided by scale (p,); shape (D, largest code + 1)."""
        sizes = np.diff(self.first)
        table = np.zeros((len(self.columns), int(sizes.max(initial=0)) + 1))
        at = np.arange(len(self.values)) - np.repeat(self.first[:-1], sizes) + 1
        column = np.repeat(np.arange(len(sizes)), sizes)
        table[column, at] = self.variances / scale[self.columns[column]] ** 2
        return table


EXACT = Resolution(np.empty(0, dtype=np.intp), np.zeros(1, dtype=np.intp), np.empty(0), np.empty(0))  # no repeats


_FAR = 16.0  # squared deviations from the mean that cost one digit of a variance


@dataclass(frozen=True, eq=False)
class Observed(Additive):
    """How many values there are.

    Attributes
    ----------
    n_missing : int
        Cells without a value.
    weight : float
        Σw of the rows, of which those without values have weight 0.
    columns : array of shape (p,)
        Σw of the rows that have a value in each column.
    pairs : float
        Mean over all pairs of columns of Σw of the rows that have both.
    """

    n_missing: int
    weight: float
    columns: FloatArray
    pairs: float

    @classmethod
    def of(cls, chunk: Chunk) -> Observed:
        """Values of a chunk."""
        weight, p = float(chunk.weights.sum()), chunk.X.shape[1]
        if not chunk.has_missing:
            return cls(0, weight, np.full(p, weight), weight)
        o = chunk.observed
        pairs = o * (o - 1) / (p * (p - 1)) if p > 1 else o
        columns = chunk.weights @ ~np.isnan(chunk.X)
        return cls(int((p - o).sum()), weight, columns, float(chunk.weights @ pairs))


@dataclass(frozen=True, eq=False)
class Spread:
    """Number of rows and values, and mean (p,) and squared deviations (p,) of each column, in double precision."""

    n_rows: int
    observed: Observed
    mean: FloatArray
    squares: FloatArray

    @classmethod
    def of(cls, chunk: Chunk) -> Spread:
        """Spread of a chunk in its own units.

        Deviations are measured from a row that counts, so a constant column has exactly none. If that row is an
        outlier, which would cost the variance its digits, they are measured again from the mean.
        """
        row = chunk.X[int(np.argmax(chunk.weights > 0))].astype(float)
        if np.isnan(row).any():
            there = ~np.isnan(chunk.X) & (chunk.weights > 0)[:, None]
            first = chunk.X[there.argmax(axis=0), np.arange(len(row))]
            row = np.where(there.any(axis=0), first, 0).astype(float)
        # Squares that overflow are refused by name later.
        with np.errstate(over="ignore", invalid="ignore"):
            found = cls._about(chunk, row)
            far = found.observed.columns * (found.mean - row) ** 2 > _FAR * found.squares
            return cls._about(chunk, found.mean) if far.any() else found

    @classmethod
    def _about(cls, chunk: Chunk, shift: FloatArray) -> Spread:
        from blockmix.rows.kernels import deviations

        observed = Observed.of(chunk)
        weight = observed.columns
        offset, squares = np.zeros_like(shift), np.zeros_like(shift)
        X = np.where(np.isnan(chunk.X), shift, chunk.X) if chunk.has_missing else chunk.X
        deviations(X, chunk.weights, shift, offset, squares)
        offset /= np.where(weight > 0, weight, 1)
        return cls(len(X), observed, shift + offset, np.maximum(squares - weight * offset**2, 0))

    def __add__(self, other: Spread) -> Spread:
        observed, own = self.observed + other.observed, self.observed.columns
        weight, step = observed.columns, other.mean - self.mean
        share = other.observed.columns / np.where(weight > 0, weight, 1)
        with np.errstate(over="ignore"):
            squares = self.squares + other.squares + step**2 * (own * share)
        return Spread(self.n_rows + other.n_rows, observed, self.mean + step * share, squares)

    def units(self) -> dict[str, FloatArray]:
        """Location and scale that give these rows mean 0 and variance 1.

        The scale of a constant column is 0; a column without values has neither.
        """
        weight = np.where(self.observed.columns > 0, self.observed.columns, np.nan)
        return {"location": self.mean + 0 * weight, "scale": np.sqrt(self.squares / weight)}
