"""The forest: the trees of several covariances, grown and cut at once (paper, sections 2.4 and 3).

Covariances, their numbers of rows and of groups (or rules) and a grouping come in; a partition of each goes out, the
one that `find_groups` finds. In a table of few columns that is the overhead of calls, a third of a millisecond for each
component: here all components share them, and a regroup of 8 components of 7 columns takes 0.55 ms instead of 2.7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from blockmix.grouping.hierarchical import HierarchicalGrouping
from blockmix.grouping.protocols import Grouping
from blockmix.grouping.rules import SMALL, BicRule, find_groups
from blockmix.structure.blocks import whole_logdets
from blockmix.structure.moments import correlation, definite_correlation
from blockmix.structure.objective import price
from blockmix.structure.partition import Partition
from blockmix.structure.types import BoolArray, FloatArray, IntArray

# Columns of all covariances together that are worth one call: with 3 covariances of 32 columns a regroup takes 1.1 ms
# instead of 1.7, with 4 of them as long as one at a time. Linkage is quadratic in the columns, and large arrays cost
# page faults.
AT_ONCE = 96


def find_all_groups(
    S: FloatArray, n_rows: FloatArray, n_groups: Sequence[object], grouping: Grouping
) -> list[Partition]:
    """Column groups of each covariance, shape (G, p, p), as `find_groups` finds them one at a time."""
    if not _suits(S.shape[1], n_groups, grouping):
        every = zip(S, n_rows.tolist(), n_groups, strict=True)
        return [find_groups(own, n, number, grouping).partition for own, n, number in every]
    R = correlation(S)
    forest = Forest.of(R)
    given = np.array([0 if isinstance(number, BicRule) else number for number in n_groups], dtype=np.intp)
    if given.all():
        return forest.cut(given)
    gammas = [number.gamma if isinstance(number, BicRule) else 0.0 for number in n_groups]
    costs = [price(n, S.shape[1], gamma) for n, gamma in zip(n_rows.tolist(), gammas, strict=True)]
    values = forest.penalized(definite_correlation(R), n_rows.astype(float), np.array(costs))
    return forest.cut(np.where(given, given, 1 + np.argmax(values, axis=1)))


def _suits(p: int, n_groups: Sequence[object], grouping: Grouping) -> bool:
    """Whether all groups can be found at once; what is no possible number is left for `find_groups` to refuse."""
    return (
        1 < p <= SMALL
        and len(n_groups) * p <= AT_ONCE
        and type(grouping) is HierarchicalGrouping
        and (grouping.linkage, grouping.distance) == ("average", "correlation")
        and all(
            number.candidates is None
            if type(number) is BicRule
            else isinstance(number, int | np.integer) and not isinstance(number, bool) and 1 <= number <= p
            for number in n_groups
        )
    )


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees of G covariances of p columns: their m = G(p − 1) merges, the nearest first, those of a tree in its order.

    Parameters
    ----------
    owner : array of shape (m,)
        The covariance of each merge.
    children : array of shape (m, 2)
        The nodes that it joins: columns, counted through all covariances, then merges.
    member : array of shape (m, p)
        Whether a column of the covariance is below it.
    """

    owner: IntArray
    children: IntArray
    member: BoolArray

    @classmethod
    def of(cls, R: FloatArray) -> Forest:
        """Average linkage by 1 − |r_ij| for stacked correlations (G, p, p).

        SciPy is asked for one tree of all Gp columns, those of different covariances being farther apart (2) than any
        in one (at most 1): each tree is whole before it meets another, and is the one that it would be alone.
        """
        G, p = R.shape[:2]
        apart = np.full((G, p, G, p), 2.0)
        each = np.arange(G)
        apart[each, :, each] = 1 - np.abs(R)
        condensed = squareform(apart.reshape(G * p, G * p), checks=False)
        children = linkage(condensed, "average")[: G * (p - 1), :2].astype(np.intp)
        owner = np.repeat(each, p).tolist()
        below = [1 << j for j in range(p)] * G  # the columns below a node as the bits of a number
        for left, right in children.tolist():
            owner.append(owner[left])
            below.append(below[left] | below[right])
        bits = np.array(below[G * p :])[:, None] >> np.arange(p) & 1
        return cls(np.array(owner[G * p :]), children, bits.astype(bool))

    def penalized(self, R: FloatArray, n_rows: FloatArray, costs: FloatArray) -> FloatArray:
        """Penalised log-likelihood of the cuts into 1 … p groups, shape (G, p), as `tree_penalized` has it."""
        n, sizes = n_rows[self.owner], self.member.sum(axis=1)
        both = self.member[:, :, None] & self.member[:, None, :]
        both |= np.eye(both.shape[1], dtype=bool)  # a column that is not below the node adds log 1
        masked = R[self.owner]
        masked *= both
        logdets = whole_logdets(masked)
        logdets[sizes >= n] = 0
        leaves = R.shape[0] * R.shape[1]
        pairs = np.concatenate([np.ones(leaves), sizes])[self.children].prod(axis=1)
        apart = np.concatenate([np.zeros(leaves), logdets])[self.children].sum(axis=1)
        gains = 0.5 * n * (apart - logdets) - costs[self.owner] * pairs
        gains[sizes >= n] = -np.inf
        values = np.zeros(R.shape[:2])
        values[:, -2::-1] = np.cumsum(gains[self._by_tree], axis=1)
        return values

    def cut(self, n_groups: IntArray) -> list[Partition]:
        """Partition of each covariance after the first p − K merges of its tree: exactly K groups."""
        p = self.member.shape[1]
        step = np.arange(1, p)
        made = step * (step <= p - n_groups[:, None])
        # The label of a column is the last merge made above it, or its own where there is none.
        last = (made[:, :, None] * self.member[self._by_tree]).max(axis=1)
        return [Partition(labels) for labels in np.where(last, last, -np.arange(p))]

    @property
    def _by_tree(self) -> IntArray:
        """The merges of each tree, shape (G, p − 1)."""
        return np.argsort(self.owner, kind="stable").reshape(-1, self.member.shape[1] - 1)
