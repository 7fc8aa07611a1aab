"""Statistics of rows that add up: counts of values, location and scale, and how finely values were recorded.

Sums are taken pairwise in a tree that depends only on the number of parts, so the same chunks give the same sum
wherever they are stored. The paper takes its data standardized and complete; this is the part before its section 2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from blockmix.partition import FloatArray, IntArray

_FEW_VALUES = 8  # up to which comparing with each is faster than a search: float32 columns repeat one or two
_SAMPLE_ROWS = 2048  # rows whose resolution is determined: sorting 200 columns of them takes 20 ms
_OUTLYING = 16.0  # squared deviations between the mean and the shift that cost one digit of a variance


S = TypeVar("S", bound=Any)  # statistics that add up


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
        level, partial_sum = 0, part
        while waiting and waiting[-1][0] == level:
            level, partial_sum = level + 1, waiting.pop()[1] + partial_sum
        waiting.append((level, partial_sum))
    _, result = waiting.pop()
    while waiting:
        result = waiting.pop()[1] + result
    return result


@dataclass(frozen=True, eq=False)
class Resolution:
    """Repeated values and their variances.

    A value that occurs k times was rounded: δ is its distance to the k-th value below or above, the smaller of the two.

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
        """Resolution of rows X, shape (N, p); a weight of 2 counts a row twice. Of many rows it uses about 2000.

        If repeated values hold more than half of the weight of a column, it was recorded in steps, and its other values
        get the smallest step. A column with only one value has no resolution. NaN is not a value.
        """
        counted = np.flatnonzero(weights > 0)
        some = counted[:: -(-len(counted) // _SAMPLE_ROWS)]
        columns, weights = np.ascontiguousarray(X[some].T, dtype=float), weights[some]  # shape (p, n)
        order = np.argsort(columns, axis=1, kind="stable") if (weights != 1).any() else None
        ordered = np.sort(columns, axis=1) if order is None else np.take_along_axis(columns, order, axis=1)
        begins = np.ones(ordered.shape, dtype=bool)  # whether a cell is the first with its value, NaN being one
        begins[:, 1:] = (ordered[:, 1:] != ordered[:, :-1]) & ~np.isnan(ordered[:, :-1])
        # Most columns of measurements have no repeats; they cost no more than the sort.
        repeating = np.flatnonzero(~begins.all(axis=1) | bool((weights >= 2).any()))
        begins, ordered = begins[repeating], ordered[repeating]
        starts = np.flatnonzero(begins)
        value = ordered.ravel()[starts]
        if order is None:
            mass = np.diff(starts, append=ordered.size).astype(float)
        else:
            mass = np.add.reduceat(weights[order[repeating]].astype(float).ravel(), starts) if len(starts) else value
        there = ~np.isnan(value)
        owner = (starts // len(some))[there]
        return cls._from_masses(repeating, owner, value[there], mass[there])

    @classmethod
    def _from_masses(cls, columns: IntArray, owner: IntArray, value: FloatArray, mass: FloatArray) -> Resolution:
        """Widths of the distinct values of some columns, flat and ascending; owner[i] is the place of i's column."""
        n_values = np.bincount(owner, minlength=len(columns))
        stop = np.cumsum(n_values)
        repeated = mass >= 2
        weight = np.bincount(owner, weights=mass, minlength=len(columns))
        in_steps = 2 * np.bincount(owner, weights=mass * repeated, minlength=len(columns)) > weight
        step = np.full(len(columns), np.inf)
        same = owner[1:] == owner[:-1]
        np.minimum.at(step, owner[1:][same], np.diff(value)[same])

        k = np.flatnonzero((repeated | in_steps[owner]) & (n_values > 1)[owner])
        column = owner[k]
        # The values that hold the k-th unit of weight below and above, or the outermost ones. Weights are summed over
        # all columns, so ties have some slack: the position of a column must not decide them.
        upper, slack = np.cumsum(mass), 1e-6 * mass[k]
        below = np.searchsorted(upper, upper[k] - 2 * mass[k] + slack, side="right")
        below = np.maximum(below, (stop - n_values)[column])
        above = np.minimum(np.searchsorted(upper, upper[k] + mass[k] - slack), stop[column] - 1)
        left = np.where(below < k, value[k] - value[np.minimum(below, k)], np.inf)
        right = np.where(above > k, value[above] - value[k], np.inf)
        widths = np.where(repeated[k], np.minimum(left, right), step[column])
        n_listed = np.bincount(column, minlength=len(columns))
        listed = np.flatnonzero(n_listed)
        return cls(columns[listed], np.append(0, np.cumsum(n_listed[listed])), value[k], widths**2 / 12)

    def rounding(self, X: FloatArray, scale: FloatArray) -> tuple[IntArray, FloatArray, NDArray[np.uint16]]:
        """Columns with repeated values, variances by code (D, codes) and codes (m, D), for rows X, shape (m, p).

        The code of a value is its number among the repeated ones of its column, from 1 on, or 0. The variances are
        those of columns divided by scale (p,).
        """
        codes = np.zeros((len(X), len(self.columns)), dtype=np.uint16)
        first = self.first.tolist()
        for d, j in enumerate(self.columns.tolist()):
            x, values = np.ascontiguousarray(X[:, j]), self.values[first[d] : first[d + 1]]
            if len(values) <= _FEW_VALUES:
                for k in range(len(values)):
                    codes[x == X.dtype.type(values[k]), d] = k + 1
                continue
            place = values.searchsorted(x)
            codes[:, d] = (place + 1) * (values.take(place, mode="clip") == x)
        return self.columns, self.table(self.variances, scale), codes

    def table(self, numbers: FloatArray, scale: FloatArray | None) -> FloatArray:
        """Numbers of the values by code, shape (D, codes): variances of columns divided by scale (p,) if given.

        Code 0 has none, which is 0 for variances and 1 otherwise.
        """
        sizes = np.diff(self.first)
        table = np.full((len(self.columns), int(sizes.max(initial=0)) + 1), 1.0 if scale is None else 0.0)
        code = np.arange(len(self.values)) - np.repeat(self.first[:-1], sizes) + 1
        column = np.repeat(np.arange(len(sizes)), sizes)
        table[column, code] = numbers if scale is None else numbers / scale[self.columns[column]] ** 2
        return table


EXACT = Resolution(np.empty(0, dtype=np.intp), np.zeros(1, dtype=np.intp), np.empty(0), np.empty(0))  # no repeats


@dataclass(frozen=True, eq=False)
class Observed(Additive):
    """How many rows and values there are.

    Attributes
    ----------
    n_rows : int
    n_missing : int
        Cells without a value.
    weight : float
        Σw of the rows, of which those without values have weight 0.
    columns : array of shape (p,)
        Σw of the rows that have a value in each column.
    pairs : float
        Mean over all pairs of columns of Σw of the rows that have both: what a covariance rests on.
    """

    n_rows: int
    n_missing: int
    weight: float
    columns: FloatArray
    pairs: float

    @classmethod
    def of(cls, X: FloatArray, weights: FloatArray, has_missing: bool) -> Observed:
        """Values of rows X, shape (m, p)."""
        weight, p = float(weights.sum(dtype=float)), X.shape[1]
        if not has_missing:
            return cls(len(X), 0, weight, np.full(p, weight), weight)
        there = ~np.isnan(X)
        o = there.sum(axis=1)
        pairs = o * (o - 1) / (p * (p - 1)) if p > 1 else o
        return cls(len(X), int((p - o).sum()), weight, weights @ there, float(weights @ pairs))


@dataclass(frozen=True, eq=False)
class Spread:
    """Counts of values, and mean (p,) and squared deviations (p,) of each column, in double precision."""

    observed: Observed
    mean: FloatArray
    squares: FloatArray

    @classmethod
    def of(cls, chunk: Any) -> Spread:
        """Spread of a `Chunk` in its own units.

        Deviations are measured from a row that counts, so a constant column has exactly none. If that row is an
        outlier, which would cost the variance its digits, they are measured again from the mean.
        """
        X, weights = chunk.X, chunk.weights
        observed = Observed.of(X, weights, chunk.has_missing)
        weight = observed.columns
        shift = X[int(np.argmax(weights > 0))].astype(float)
        missing = np.isnan(X) if chunk.has_missing else None
        if missing is not None:
            there = ~missing & (weights > 0)[:, None]
            first = X[there.argmax(axis=0), np.arange(len(shift))]
            shift = np.where(there.any(axis=0), first, 0).astype(float)
        # Squares that overflow are refused by name later.
        with np.errstate(over="ignore", invalid="ignore"):
            mean = shift
            for _ in range(2):
                shift = mean
                deviations = X - shift
                if missing is not None:
                    deviations[missing] = 0
                offset = weights @ deviations / np.where(weight > 0, weight, 1)
                np.multiply(deviations, deviations, out=deviations)
                squares = np.maximum(weights @ deviations - weight * offset**2, 0)
                mean = shift + offset
                if not (weight * offset**2 > _OUTLYING * squares).any():
                    break
        return cls(observed, mean, squares)

    def __add__(self, other: Spread) -> Spread:
        observed, step = self.observed + other.observed, other.mean - self.mean
        share = other.observed.columns / np.where(observed.columns > 0, observed.columns, 1)
        with np.errstate(over="ignore"):
            squares = self.squares + other.squares + step**2 * (self.observed.columns * share)
        return Spread(observed, self.mean + step * share, squares)
