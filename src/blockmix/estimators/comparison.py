"""Comparison: which column groups and means differ between classes, clusters or tables (paper, section 3.2).

Each group of one part is followed into every other: whether its columns stay together there, how strongly they are
correlated in both, and whether the difference exceeds that of permuted rows. Rows are centered and scaled within their
part first, so that only correlations are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import false_discovery_control, ttest_ind
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from blockmix import plotting
from blockmix.estimators.tables import group_numbers
from blockmix.estimators.validation import check_whole, matrix
from blockmix.partition import FloatArray, IntArray, Partition, RandomState, column_names
from blockmix.plotting.views import correlations_of
from blockmix.rows.files import needed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEVEL, _NORMAL = 0.05, 1.96
_BOOTSTRAPS = 200  # enough for a deviation
_LEAST_ROWS = 4  # of a part
_CIRCULAR = "No p-values: the clusters were found in the values that are compared, so that noise would differ, too."


@dataclass(frozen=True, eq=False)
class Comparison:
    """Groups and means of several parts of the rows.

    Attributes
    ----------
    groups : DataFrame
        One row per group of two or more columns and other part: `own`, `other`, `group` (from 1), `columns`, `size`;
        `fate`, same, merged, split or gone; `kept`, share of the pairs of columns that share a group there too; `r_own`
        and `r_other`, mean |r|; `difference` of these less that of permuted rows, which is not 0 where one part has
        fewer rows; `low` and `high`, its 95 % interval; `p`; `q`, false discovery rate over all groups; `differs`,
        whether q is below 0.05.
    means : DataFrame
        One row per column and pair of parts: `own`, `other`, `column`, `mean_own`, `mean_other`, `difference` in
        standard deviations within parts, `p` (Welch) and `q`.
    parts : tuple of str
    partitions : tuple of Partition
    correlations : tuple of arrays of shape (p, p)
    names : tuple of str
    note : str
        What p-values rest on.
    """

    groups: Any
    means: Any
    parts: tuple[str, ...]
    partitions: tuple[Partition, ...]
    correlations: tuple[FloatArray, ...]
    names: tuple[str, ...]
    note: str

    def plot(self, own: str | None = None, other: str | None = None, *, ax: Sequence[Axes] | None = None) -> Any:
        """Correlations of two parts as triangles, the columns of each in its group order and linked between them."""
        asked = [str(name) for name in (own, other) if name is not None]
        if unknown := [name for name in asked if name not in self.parts]:
            raise ValueError(f"{unknown[0]!r} is not compared: the parts are {', '.join(self.parts)}")
        chosen = [self.parts.index(name) for name in asked]
        a, b = [*chosen, *(i for i in range(len(self.parts)) if i not in chosen)][:2]
        pair = ((self.correlations[i], self.partitions[i], self.parts[i]) for i in (a, b))
        return plotting.linked_correlations(*pair, names=self.names, ax=ax)

    def __str__(self) -> str:
        shown = self.groups.drop(columns=["size", "kept", "p"]).round(3)
        return f"{shown.to_string(index=False)}\n{self.note}"

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class _Part:
    """Some rows, shape (n, p), their column groups with numbers from 1, and the rows as from `scaled_rows`."""

    name: str
    partition: Partition
    numbers: IntArray
    rows: FloatArray
    scaled: FloatArray
    present: FloatArray


def compare(
    model: Any, X: Any, y: ArrayLike | None = None, *, n_resamples: int = 1000, random_state: RandomState = None
) -> Comparison:
    """Follow the column groups of each class, cluster or table into the others, and compare their means.

    Parameters
    ----------
    model : estimator or dict of estimators
        A `BlockDiscriminantAnalysis`, whose classes are compared; a mixture, whose clusters are; or one covariance per
        name, each fitted to a table of its own.
    X : array-like of shape (N, p) or dict of these
        The rows; with a dict of models the table of each.
    y : array-like of shape (N,)
        The classes, which a classifier needs. Rows of other values are left out.
    n_resamples : int
        Permutations of the rows of two parts.
    random_state : int, RandomState or None

    Examples
    --------
    >>> from blockmix import BlockDiscriminantAnalysis
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.standard_normal((200, 4)), np.repeat(["healthy", "ill"], 100)
    >>> X[100:, :3] += rng.standard_normal((100, 1))
    >>> model = BlockDiscriminantAnalysis(shared_covariance=False).fit(X, y)
    >>> found = compare(model, X, y, random_state=0).groups
    >>> found[["own", "columns", "fate", "differs"]].values.tolist()
    [['ill', 'x0, x1, x2', 'gone', True]]
    """
    check_whole("n_resamples", n_resamples)
    parts, names, known = _parts(model, X, y)
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    pandas, groups, means = needed("pandas", "app"), list[Any](), list[Any]()
    for a, b in combinations(parts, 2):
        groups += _pair(a, b, names, n_resamples if known else 0, rng)
        means.append(pandas.DataFrame(_means(a, b, names, known)))
    figures = ["kept", "r_own", "r_other", "difference", "low", "high", "p"]
    heads = ["own", "other", "group", "columns", "size", "fate", *figures]
    frame, columns = pandas.DataFrame(groups, columns=heads), pandas.concat(means, ignore_index=True)
    # Groups share columns and rows, so that their p-values depend on each other: Benjamini and Yekutieli's rate.
    frame["q"] = false_discovery_control(frame["p"].to_numpy(float), method="by") if known and len(frame) else np.nan
    columns["q"] = false_discovery_control(columns["p"].to_numpy(float)) if known else np.nan
    frame["differs"] = (frame["q"] < _LEVEL) if known else None
    note = f"p: {n_resamples} permutations of rows; q over {len(frame)} comparisons of groups." if known else _CIRCULAR
    correlations = tuple(correlations_of(part.scaled, part.present) for part in parts)
    texts, partitions = zip(*((part.name, part.partition) for part in parts), strict=True)
    return Comparison(frame, columns, texts, partitions, correlations, tuple(names), note)


def _parts(model: Any, X: Any, y: ArrayLike | None) -> tuple[list[_Part], list[str], bool]:
    """The parts to compare, the names of the columns, and whether the parts are known and not found."""
    if isinstance(model, Mapping):
        if not (isinstance(X, Mapping) and X.keys() == model.keys() and len(model) > 1):
            raise ValueError("model is a dict: give at least two models, and X as a dict of tables with the same keys")
        for each in model.values():
            check_is_fitted(each)
        names = [column_names(each) for each in model.values()]
        if any(others != names[0] for others in names):
            raise ValueError("the models have different columns: fit them to the same ones")
        tables = {key: matrix(each, X[key], allow_missing=True, reset=False) for key, each in model.items()}
        return [_part(str(key), each, 0, tables[key]) for key, each in model.items()], names[0], True
    check_is_fitted(model)
    mixture = getattr(model, "mixture_", model)
    blocks = getattr(mixture, "blocks_", ())
    if not isinstance(blocks, tuple) or len({id(covariance) for covariance in blocks}) < 2:
        raise ValueError("model has one covariance: fit two components or classes with shared_covariance=False")
    rows: FloatArray = matrix(model, X, reset=False)
    known = hasattr(model, "classes_")
    if known and y is None:
        raise ValueError("y is missing: give the class of each row, which the model was fitted to")
    if y is not None and (not known or np.shape(y) != (len(rows),)):
        kind = "one class for each row" if known else "it only for a classifier"
        raise ValueError(f"y has shape {np.shape(y)} for {len(rows)} rows: give {kind}")
    labels: IntArray | Any = np.asarray(y) if known else mixture.predict(X)
    values = model.classes_.tolist() if known else range(len(mixture.weights_))
    texts = [str(value) if known else f"cluster {value + 1}" for value in values]
    parts = [_part(text, mixture, g, rows[labels == values[g]]) for g, text in enumerate(texts)]
    return parts, column_names(model), known


def _part(name: str, model: Any, g: int, rows: FloatArray) -> _Part:
    if len(rows) < _LEAST_ROWS:
        raise ValueError(f"{name} has {len(rows)} rows: at least {_LEAST_ROWS} are needed to compare correlations")
    rows, partition = rows.astype(float), Partition(np.atleast_2d(model.column_labels_)[g])
    return _Part(name, partition, group_numbers(model)[g] + 1, rows, *scaled_rows(rows))


def scaled_rows(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows centered and in units of their deviations, 0 where missing, and 1 where present, shapes (n, p)."""
    present = ~np.isnan(rows)
    counts = np.maximum(present.sum(axis=0), 1)
    scaled = np.where(present, rows - np.nansum(rows, axis=0) / counts, 0)
    deviations = np.sqrt((scaled**2).sum(axis=0) / counts)
    return scaled / np.where(deviations > 0, deviations, 1), present.astype(float)


def _pair(a: _Part, b: _Part, names: Sequence[str], n_resamples: int, rng: np.random.Generator) -> list[Any]:
    """The groups of both parts of a pair, followed into the other."""
    groups = [(own, other, A) for own, other in ((a, b), (b, a)) for A in own.partition.groups if len(A) > 1]
    scaled, present = np.concatenate([a.scaled, b.scaled]), np.concatenate([a.present, b.present])
    n, N = len(a.scaled), len(scaled)
    if not groups:
        return []

    def strengths(order: IntArray) -> FloatArray:
        """Mean |r| of each group in the first n rows of an order and in the others, shape (groups, 2)."""
        sides = (order[:n], order[n:])
        return np.array([[_strength(scaled[s][:, A], present[s][:, A]) for s in sides] for *_, A in groups])

    both, drawn = strengths(np.arange(N)), []
    for _ in range(_BOOTSTRAPS):
        drawn.append(strengths(np.concatenate([rng.integers(0, n, n), rng.integers(n, N, N - n)])))
    difference, half = both @ [1, -1], _NORMAL * (np.array(drawn) @ [1, -1]).std(axis=0)
    p = np.full(len(groups), np.nan)
    if n_resamples:
        permuted = np.array([strengths(rng.permutation(N)) for _ in range(n_resamples)]) @ [1, -1]
        chance = permuted.mean(axis=0)
        difference -= chance
        p = (1 + (np.abs(permuted - chance) >= np.abs(difference)).sum(axis=0)) / (1 + n_resamples)
    table = []
    for i, (own, other, A) in enumerate(groups):
        sign = 1 if own is a else -1
        d, about = sign * difference[i], (own.name, other.name, own.numbers[A[0]], ", ".join(names[j] for j in A))
        strong = both[i][::sign].tolist()
        table.append((*about, len(A), *_fate(A, other.partition), *strong, d, d - half[i], d + half[i], p[i]))
    return table


def _strength(scaled: FloatArray, present: FloatArray) -> float:
    """Mean |r| of the pairs of columns."""
    return float(np.abs(correlations_of(scaled, present)[np.triu_indices(scaled.shape[1], 1)]).mean())


def _fate(columns: IntArray, other: Partition) -> tuple[str, float]:
    """What becomes of a group in another partition, and the share of its pairs that are together there."""
    sizes, c = np.bincount(other.labels[columns]), len(columns)
    kept = float((sizes * (sizes - 1)).sum() / (c * (c - 1)))
    if kept == 1:
        return "same" if other.sizes[other.labels[columns[0]]] == c else "merged", kept
    return "split" if kept else "gone", kept


def _means(a: _Part, b: _Part, names: Sequence[str], known: bool) -> dict[str, Any]:
    """Means of each column in both parts, and their differences."""
    own, other = (np.nanmean(part.rows, axis=0, dtype=float) for part in (a, b))
    squares = sum(np.nansum((part.rows - mean) ** 2, axis=0) for part, mean in ((a, own), (b, other)))
    rows = a.present.sum(axis=0) + b.present.sum(axis=0) - 2
    figures = {"column": list(names), "mean_own": own, "mean_other": other}
    with np.errstate(divide="ignore", invalid="ignore"):
        figures["difference"] = (own - other) / np.sqrt(squares / rows)
        p = ttest_ind(a.rows, b.rows, equal_var=False, nan_policy="omit").pvalue
    return {"own": a.name, "other": b.name, **figures, "p": np.nan_to_num(p, nan=1.0) if known else np.nan}
