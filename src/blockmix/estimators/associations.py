"""Associations: how clusters and scores of a fit go with traits, columns that took no part in it.

Clusters and groups were made without the traits, so given them the usual tests hold: a trait that has nothing to do
with the table is as likely to have a small p as it should be. A trait that is a column of the table, or equal to one,
went into the clusters; it has an effect but no p.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, fdtr, fdtrc, ndtri
from scipy.stats import false_discovery_control, rankdata

from blockmix.estimators.scores import Axis
from blockmix.partition import BoolArray, FloatArray, IntArray
from blockmix.rows import Chunk, Rows
from blockmix.rows.files import needed

CLUSTERS = "clusters"
_TAIL = 0.025  # beyond each end of an interval
_LEAST_ROWS = 4
_LEAST_EXPECTED = 5.0  # rows in a cell, from which χ² holds
_PERMUTATIONS, _EXCEEDING = 10_000, 20  # at most, and effects as large after which there are enough
_EQUAL = 1e-6  # 1 − |r|, below which two columns hold the same but for digits
_MOST_VALUES = 0.5  # a category has fewer values than this share of the rows, or names them


class Trait(NamedTuple):
    """A column that took no part in a fit: numbers, NaN where missing, or codes of categories, −1 where missing."""

    name: str
    values: NDArray[Any]
    is_category: bool

    @property
    def present(self) -> BoolArray:
        """Which rows have a value, shape (N,)."""
        return np.asarray(self.values >= 0 if self.is_category else ~np.isnan(self.values))


class Target(NamedTuple):
    """What a trait may go with: the clusters (codes), or the score of a group in the rows of its component."""

    name: str
    component: int
    group: int
    values: NDArray[Any]
    rows: BoolArray


class Effect(NamedTuple):
    """An effect, the rows it rests on, its degrees of freedom, p, and why it could not be measured.

    The degrees of freedom are those of F, or of χ² and of the smaller side of the table.
    """

    kind: str
    estimate: float
    n: int
    first: float
    second: float
    p: float
    note: str = ""


def associated(
    traits: Any, X: Any, rows: Rows, axes: Sequence[Axis], values: FloatArray, labels: IntArray | None, names: list[str]
) -> Any:
    """Every trait with the clusters, if there are several, and with the scores, shape (N, number of axes)."""
    given = traits_of(traits, X, len(values))
    every = np.ones(len(values), dtype=bool)
    targets = [] if labels is None else [Target(CLUSTERS, -1, -1, labels, every)]
    for axis, score in zip(axes, values.T, strict=True):
        own = every if labels is None or axis.component < 0 else labels == axis.component
        targets.append(Target(axis.name, axis.component, axis.group, score, own & ~np.isnan(score)))
    return associations(targets, given, equal_columns(rows, given, names) if given else {})


def traits_of(traits: Any, X: Any, n_rows: int) -> list[Trait]:
    """Traits of a data frame, a mapping of columns, a series or an array, checked against the rows of X."""
    index: Any = getattr(traits, "index", None)
    expected: Any = getattr(X, "index", None)
    if hasattr(index, "equals") and hasattr(expected, "equals") and not index.equals(expected):
        raise ValueError("the rows of traits and X have different names: give traits.loc[X.index]")
    if not (isinstance(traits, Mapping) or hasattr(traits, "columns")):
        array: Any = traits if hasattr(traits, "dtype") else np.asarray(traits)
        name = "trait" if getattr(traits, "name", None) is None else traits.name
        is_matrix = len(array.shape) == 2  # a series of polars has no ndim
        traits = {f"trait {j + 1}": column for j, column in enumerate(array.T)} if is_matrix else {name: array}
    names = list(getattr(traits, "columns", traits))
    columns = {str(name): traits[name] for name in names}
    if len(columns) < len(names):
        raise ValueError("traits has several columns of the same name: rename or drop them")
    for name, values in columns.items():
        if np.ndim(values) != 1 or len(values) != n_rows:
            raise ValueError(f"trait {name!r} has shape {np.shape(values)} for {n_rows} rows: give one value per row")
    return [coded(name, values) for name, values in columns.items()]


def coded(name: str, values: Any) -> Trait:
    """A column of any type as numbers or as codes of categories; dates are numbers of days.

    Examples
    --------
    >>> coded("site", ["b", "a", None, "b"])
    Trait(name='site', values=array([ 0,  1, -1,  0]), is_category=True)
    """
    pandas = needed("pandas", "app")
    series = pandas.Series(values.to_list() if hasattr(values, "to_list") and not hasattr(values, "iloc") else values)
    types = pandas.api.types
    if series.dtype == object:
        series = series.infer_objects()
        kind = types.infer_dtype(series, skipna=True)
        series = pandas.to_numeric(series) if kind in ("integer", "floating", "mixed-integer-float") else series
    if types.is_datetime64_any_dtype(series) or types.is_timedelta64_dtype(series):
        series = (series - series.min()) / pandas.Timedelta(days=1)
    if types.is_numeric_dtype(series) and not types.is_complex_dtype(series) and series.dtype.kind != "b":
        numbers = series.to_numpy(dtype=float, na_value=np.nan)
        if np.isinf(numbers).any():
            raise ValueError(f"trait {name!r} has infinite values: replace or drop them")
        return Trait(name, numbers, False)
    try:
        return Trait(name, pandas.factorize(series)[0], True)
    except TypeError:
        kind = type(series.iloc[0]).__name__
        raise ValueError(f"trait {name!r} holds {kind}s: give numbers, texts or dates") from None


def equal_columns(rows: Rows, traits: Sequence[Trait], names: Sequence[str]) -> dict[str, str]:
    """Traits that took part in the fit and the column they are, by name or because they hold the same values."""
    # The codes of a category of more than two values are no numbers.
    known = [one.present & (not one.is_category or one.values.max(initial=0) < 2) for one in traits]
    numbers = np.stack([np.where(own, one.values, np.nan) for own, one in zip(known, traits, strict=True)], axis=1)
    numbers -= np.nansum(numbers, axis=0) / np.maximum(np.sum(known, axis=1), 1)
    n, sx, st, sxx, stt, sxt = rows.measured().map_sum(partial(_cross_moments, traits=numbers))
    with np.errstate(divide="ignore", invalid="ignore"):
        r = (sxt - sx * st / n) / np.sqrt((sxx - sx**2 / n) * (stt - st**2 / n))
    same = (np.abs(np.where(np.isfinite(r), r, 0)) > 1 - _EQUAL) & (n > 2)
    columns = {one.name: names[int(equal.argmax())] for one, equal in zip(traits, same.T, strict=True) if equal.any()}
    return columns | {trait.name: trait.name for trait in traits if trait.name in names}


def _cross_moments(chunk: Chunk, traits: FloatArray) -> FloatArray:
    """Pairwise n, Σx, Σt, Σx², Σt², Σxt of the columns and traits of a chunk, shape (6, p, T)."""
    x, t = chunk.values, traits[chunk.place]
    has_x, has_t = (~np.isnan(values) for values in (x, t))
    x, t = np.where(has_x, x, 0), np.where(has_t, t, 0)
    a, b = has_x.T.astype(float), has_t.astype(float)
    return np.stack([a @ b, x.T @ b, a @ t, (x**2).T @ b, a @ t**2, x.T @ t])


def associations(targets: Sequence[Target], traits: Sequence[Trait], circular: Mapping[str, str]) -> Any:
    """Every trait with every target, as a data frame; see `GaussianBiclustering.associate`."""
    pairs = [(trait, target) for trait in traits for target in targets]
    pandas = needed("pandas", "app")
    effects = [_effect(*pair, circular.get(pair[0].name)) for pair in pairs]
    types = {"n": int, **dict.fromkeys(("estimate", "first", "second", "p"), float)}
    frame = pandas.DataFrame(effects, columns=Effect._fields).astype(types)
    frame["low"], frame["high"] = _intervals(*(frame[name].to_numpy() for name in Effect._fields[:5]))
    p, frame["q"] = frame["p"].to_numpy(), np.nan
    if np.isfinite(p).any():
        frame.loc[np.isfinite(p), "q"] = false_discovery_control(p[np.isfinite(p)])
    frame["trait"], frame["what"] = [trait.name for trait, _ in pairs], [target.name for _, target in pairs]
    for name, place in (("cluster", "component"), ("group", "group")):
        frame[name] = pandas.array([getattr(target, place) + 1 or None for _, target in pairs], dtype="Int64")
    return frame[["trait", "what", "cluster", "group", "kind", "estimate", "low", "high", "n", "p", "q", "note"]]


def _effect(trait: Trait, target: Target, column: str | None) -> Effect:
    """The effect over the rows that have both, or why there is none; without p for a column of the fit."""
    rows, of_clusters = trait.present & target.rows, target.name == CLUSTERS
    a, b, n = trait.values[rows], target.values[rows], int(rows.sum())
    kind = "Cramér's V" if of_clusters and trait.is_category else "η²" if of_clusters or trait.is_category else "r"
    lacking = partial(Effect, kind, np.nan, n, np.nan, np.nan, np.nan)
    if n < _LEAST_ROWS:
        return lacking(f"fewer than {_LEAST_ROWS} rows have a value")
    if a.min() == a.max() or b.min() == b.max():
        return lacking("all values are equal" if a.min() == a.max() else f"one value of {target.name} in these rows")
    a = np.unique(a, return_inverse=True)[1] if trait.is_category else a
    sides = [a, np.unique(b, return_inverse=True)[1] if of_clusters else b]
    n_values = [int(v.max()) + 1 if v.dtype.kind in "iu" else 2 for v in sides]
    if max(n_values) > _MOST_VALUES * n:
        return lacking("nearly as many values as rows")
    A, B = map(_directions, sides)
    share, (c, d) = min(float(((A.T @ B) ** 2).sum()), min(n_values) - 1.0), n_values
    freedom = {"r": (1, n - 2), "η²": (max(c, d) - 1, n - max(c, d)), "Cramér's V": ((c - 1) * (d - 1), min(c, d) - 1)}
    estimate = float((A.T @ B)[0, 0]) if kind == "r" else share if kind == "η²" else (share / freedom[kind][1]) ** 0.5
    if column is not None:
        return Effect(kind, estimate, n, np.nan, np.nan, np.nan, f"{column} took part in the fit: no p")
    return Effect(kind, estimate, n, *freedom[kind], _p_value(sides, *freedom[kind]))


def _directions(values: NDArray[Any]) -> FloatArray:
    """Centered indicators of codes over the roots of their sizes, or centered numbers of unit length, shape (n, k).

    The squares of the products of two such matrices sum to r², η² or χ²/n.
    """
    if values.dtype.kind in "iu":
        sizes = np.bincount(values)
        return np.asarray((np.eye(len(sizes))[values] - sizes / len(values)) / np.sqrt(sizes))
    centered = values - values.mean()
    return np.asarray(centered / np.linalg.norm(centered))[:, None]


def _p_value(sides: Sequence[NDArray[Any]], first: float, second: float) -> float:
    """How often an effect as large comes by chance, from F or χ²; numbers count by their normal scores.

    With raw numbers a few rows of a small cluster or of long tails decide. Where a table has cells of fewer than 5
    expected rows, neither holds, and the clusters are permuted.
    """
    n = len(sides[0])
    A, B = (_directions(v if v.dtype.kind in "iu" else ndtri((rankdata(v) - 0.5) / n)) for v in sides)
    share = float(((A.T @ B) ** 2).sum())
    # Of each side, the rarest code, or the numbers that are not the most frequent one if that holds half of them.
    counts = [(v.dtype.kind in "iu", np.unique(v, return_counts=True)[1] / n) for v in sides]
    rarest = [c.min() if codes else 1 - c.max() if c.max() > 0.5 else 1.0 for codes, c in counts]
    if n * np.prod(rarest) < _LEAST_EXPECTED:
        return _permuted(A, B, share)
    if all(codes for codes, _ in counts):
        return float(chdtrc(first, n * share))
    return float(fdtrc(first, second, share / max(1 - share, np.finfo(float).tiny) * second / first))


def _permuted(A: FloatArray, B: FloatArray, share: float) -> float:
    """Probability of an effect as large after permuting rows, at least 1e-4."""
    rng, count, total = np.random.default_rng(0), 0, 0
    while total < _PERMUTATIONS and count < _EXCEEDING:
        orders = rng.permuted(np.tile(np.arange(len(B)), (200, 1)), axis=1)
        shares = ((A.T @ B[orders]) ** 2).sum(axis=(1, 2))
        count, total = count + int((shares > share * (1 - 1e-9)).sum()), total + 200
    return (count + 1) / (total + 1)


def _intervals(kinds: Any, estimates: FloatArray, n: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """Both ends of the intervals, shape (2, M); NaN where the degrees of freedom are.

    r: Fisher's z. η²: the noncentral F that its F comes from, with noncentrality N η²/(1 − η²), in Patnaik's
    approximation. V: the same with χ².
    """
    r, v = kinds == "r", kinds == "Cramér's V"
    shares, given = np.where(r | v, estimates**2, estimates), 0 * (first + second)
    with np.errstate(divide="ignore", invalid="ignore"):
        F = np.where(v, n * second * shares / first, shares / (1 - shares) * second / first)
        rest = np.where(v, 1e9, second)

        def below(share: FloatArray) -> FloatArray:
            """How likely a smaller F is with this share in the population."""
            moved = np.where(v, n * second * share, n * share / (1 - share))
            return np.asarray(fdtr((first + moved) ** 2 / (first + 2 * moved), rest, F * first / (first + moved)))

        ends = []
        for tail in (1 - _TAIL, _TAIL):
            low, high = np.zeros(len(n)), np.ones(len(n))
            for _ in range(40):
                middle = (low + high) / 2
                low, high = np.where(below(middle) > tail, (middle, high), (low, middle))
            ends.append(np.where(v, np.sqrt(low), low))
        z, half = np.arctanh(np.clip(estimates, -1, 1)), -ndtri(_TAIL) / np.sqrt(n - 3)
        return np.stack([np.where(r, np.tanh(z + s * half), end) + given for s, end in zip((-1, 1), ends, strict=True)])
