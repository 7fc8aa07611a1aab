"""Partition: the columns split into K non-empty groups (the matrix D of the paper, eq. 3).

A partition is built from labels in any numbering. It has groups, sizes, the 0/1 matrix D and the column order that
makes a covariance block-diagonal. Groups are numbered by size, largest first, so columns alone come last and equal
partitions have equal labels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from blockmix.structure.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Partition:
    """K non-empty groups of p columns.

    Parameters
    ----------
    labels : array-like of shape (p,)
        One integer per column, renumbered 0 … K − 1 by size, largest first; groups of one size by their first column.

    Examples
    --------
    >>> Partition([2, 7, 7, 7]).labels
    array([1, 0, 0, 0])
    >>> Partition([2, 7, 7, 7]) == Partition([0, 5, 5, 5])
    True
    """

    labels: IntArray

    def __init__(self, labels: ArrayLike) -> None:
        given = np.asarray(labels)
        if given.ndim != 1 or given.size == 0:
            raise ValueError(f"labels must be a non-empty vector, one label per column, not shape {given.shape}")
        if given.dtype.kind not in "iu":
            raise ValueError(f"labels must be integers, not {given.dtype}")
        seen: dict[int, int] = {}
        appeared = np.array([seen.setdefault(label, len(seen)) for label in given.tolist()], dtype=np.intp)
        number = np.empty(len(seen), dtype=np.intp)
        number[np.argsort(-np.bincount(appeared), kind="stable")] = np.arange(len(seen))
        canonical = number[appeared]
        canonical.flags.writeable = False
        object.__setattr__(self, "labels", canonical)

    @classmethod
    def single(cls, p: int) -> Partition:
        """All p columns in one group: the full covariance."""
        return cls(np.zeros(p, dtype=np.intp))

    @classmethod
    def separate(cls, p: int) -> Partition:
        """Every column alone: the diagonal covariance."""
        return cls(np.arange(p))

    @classmethod
    def from_groups(cls, groups: Iterable[ArrayLike]) -> Partition:
        """Build from lists of column indices that together contain every column once."""
        members = [np.asarray(group, dtype=np.intp) for group in groups]
        sizes = [len(group) for group in members]
        named = np.concatenate(members) if members else np.empty(0, dtype=np.intp)
        if 0 in sizes:
            raise ValueError(f"group {sizes.index(0)} is empty")
        if not np.array_equal(np.sort(named), np.arange(len(named))):
            raise ValueError(f"groups must name each column 0, 1, … once, not columns {np.sort(named).tolist()}")
        labels = np.empty(len(named), dtype=np.intp)
        labels[named] = np.repeat(np.arange(len(members)), sizes)
        return cls(labels)

    @cached_property
    def sizes(self) -> IntArray:
        """Number of columns c_k of each group, shape (K,)."""
        return np.bincount(self.labels)

    @property
    def n_groups(self) -> int:
        """The number of groups K."""
        return len(self.sizes)

    @property
    def n_columns(self) -> int:
        """The number of columns p."""
        return len(self.labels)

    @cached_property
    def order(self) -> IntArray:
        """Column order in which the groups are contiguous, shape (p,)."""
        return np.argsort(self.labels, kind="stable")

    @cached_property
    def groups(self) -> tuple[IntArray, ...]:
        """The column indices of each group, ascending."""
        return tuple(np.split(self.order, np.cumsum(self.sizes)[:-1]))

    @cached_property
    def stacks(self) -> tuple[IntArray, ...]:
        """The groups stacked by size: one (b, c) array of column indices per distinct size c.

        Blocks of one size are factored and multiplied in one batched call, so p single columns cost one call.
        """
        return tuple(np.stack([group for group in self.groups if len(group) == size]) for size in np.unique(self.sizes))

    @property
    def indicator(self) -> FloatArray:
        """The 0/1 matrix D, shape (p, K)."""
        return np.eye(self.n_groups)[self.labels]

    @cached_property
    def n_parameters(self) -> int:
        """Free entries of a covariance with these blocks, Σ c(c+1)/2."""
        return int(self.sizes @ (self.sizes + 1)) // 2

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partition) and np.array_equal(self.labels, other.labels)

    def __hash__(self) -> int:
        return hash(self.labels.tobytes())

    def __reduce__(self) -> tuple[Any, ...]:
        return Partition, (np.array(self.labels),)
