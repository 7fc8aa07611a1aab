"""Partition: the columns split into K non-empty groups (the matrix D of the paper, eq. 3), their price and their names.

Groups are numbered by size, largest first, so columns alone come last and equal partitions have equal labels. The
package's type aliases are defined here too: every module imports this one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]
RandomState = int | np.random.RandomState | None


@dataclass(frozen=True, eq=False)
class Partition:
    """K non-empty groups of p columns.

    Parameters
    ----------
    labels : array-like of shape (p,)
        One integer per column, renumbered 0 … K − 1 by size, largest first; groups of one size by their first column.

    Attributes
    ----------
    sizes : array of shape (K,)
        Number of columns c_k of each group.
    n_groups, n_columns : int
        K and p.

    Examples
    --------
    >>> Partition([2, 7, 7, 7]).labels
    array([1, 0, 0, 0])
    >>> Partition([2, 7, 7, 7]) == Partition([0, 5, 5, 5])
    True
    """

    labels: IntArray
    sizes: IntArray = field(init=False, repr=False)
    n_groups: int = field(init=False, repr=False)
    n_columns: int = field(init=False, repr=False)

    def __init__(self, labels: ArrayLike) -> None:
        given = np.asarray(labels)
        if given.ndim != 1 or given.size == 0:
            raise ValueError(f"labels must be a non-empty vector, one label per column, not shape {given.shape}")
        if given.dtype.kind not in "iu":
            raise ValueError(f"labels must be integers, not {given.dtype}")
        numbers: dict[int, int] = {}
        appeared = np.array([numbers.setdefault(label, len(numbers)) for label in given.tolist()], dtype=np.intp)
        sizes = np.bincount(appeared)
        by_size = np.argsort(-sizes, kind="stable")
        number = np.empty(len(sizes), dtype=np.intp)
        number[by_size] = np.arange(len(sizes))
        canonical = number[appeared]
        canonical.flags.writeable = False
        # The class is frozen, so that a partition can be shared.
        vars(self).update(labels=canonical, sizes=sizes[by_size], n_groups=len(sizes), n_columns=len(canonical))

    @classmethod
    def single(cls, p: int) -> Partition:
        """All p columns in one group: the full covariance."""
        return cls(np.zeros(p, dtype=np.intp))

    @classmethod
    def separate(cls, p: int) -> Partition:
        """Every column alone: the diagonal covariance."""
        return cls(np.arange(p))

    @cached_property
    def order(self) -> IntArray:
        """Column order in which the groups are contiguous, shape (p,)."""
        return np.concatenate(self.groups)

    @cached_property
    def groups(self) -> tuple[IntArray, ...]:
        """The column indices of each group, ascending."""
        return tuple(np.split(np.argsort(self.labels, kind="stable"), np.cumsum(self.sizes)[:-1]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partition) and np.array_equal(self.labels, other.labels)

    def __hash__(self) -> int:
        return hash(self.labels.tobytes())

    def __reduce__(self) -> tuple[Any, ...]:
        return Partition, (np.array(self.labels),)


def bic_price(n_rows: float) -> float:
    """Log-likelihood that one parameter must earn under BIC, ½ log N: −½ BIC = log L − ½ log N · (parameters)."""
    return 0.5 * math.log(n_rows)


@cache
def partition_prices(n_columns: int) -> FloatArray:
    """Log-likelihood that a group of c columns must earn for being chosen, for c = 0 … p, shape (p + 1,).

    log p + Σ_{j<c} log(p/j): a group may begin at any of p columns, and the j-th column that joins it was one of p/j
    as likely ones, as in a Chinese restaurant process. A column alone takes no choice and costs nothing. Without this
    price the best of the many possible groups pays for its parameters by chance: of 30 independent columns BIC alone
    groups half (100 rows) or a fifth (1000 rows). All columns in one full group are no choice and cost nothing.
    """
    sizes = np.arange(n_columns + 1)
    prices = sizes * np.log(n_columns) - gammaln(np.maximum(sizes, 1))
    prices[:2] = 0
    prices.flags.writeable = False
    return np.asarray(prices)


def column_names(estimator: Any) -> list[str]:
    """Return the column names of the table that an estimator was fitted on."""
    if hasattr(estimator, "feature_names_in_"):
        return [str(name) for name in estimator.feature_names_in_]
    return [f"x{j}" for j in range(estimator.n_features_in_)]


def refuse_constant(mean: FloatArray, variances: FloatArray, estimator: Any, dtype: Any = None) -> None:
    """Raise a ValueError that names the first column without values, whose mean is NaN, or without variation.

    Values whose squares are out of the range of the type are refused as well.
    """
    limits = np.finfo(dtype or variances.dtype)
    with np.errstate(over="ignore"):
        noise = (8 * limits.eps * np.abs(mean)) ** 2
        vanishing = (variances < limits.tiny) & (mean != 0) & (mean**2 < limits.tiny)
    remedies = {
        "has no values: remove it": np.isnan(mean),
        f"has values so large that their squares are not finite in {limits.dtype}: divide it by a power of ten": ~(
            variances <= limits.max
        ),
        f"has values so small that their squares vanish in {limits.dtype}: multiply it by a power of ten": vanishing,
        "is constant at {mean:g}: remove it, it has no correlation with others": ~(variances > noise),
    }
    for message, refused in remedies.items():
        if refused.any():
            j, n = int(np.argmax(refused)), int(refused.sum())
            others = f" (and {n - 1} more)" if n > 1 else ""
            name = column_names(estimator)[j]
            raise ValueError(f"column {j} ({name!r}){others} {message.format(mean=float(mean[j]))}")


def leading_loadings(covariance: Any, loadings: Sequence[FloatArray | None]) -> FloatArray:
    """Correlation of each column with the strongest factor of its group, shape (p,); NaN where there is no factor.

    Parameters
    ----------
    covariance : Blocks
    loadings : sequence of K arrays of shape (c, q), or None
        Loadings of the columns of each group, strongest factor first, in the units of the covariance.
    """
    leading = np.full(covariance.partition.n_columns, np.nan)
    for group, factors in zip(covariance.partition.groups, loadings, strict=True):
        if factors is not None:
            leading[group] = factors[:, 0]
    return np.asarray(leading / np.sqrt(covariance.variances))
