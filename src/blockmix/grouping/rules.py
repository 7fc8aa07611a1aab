"""Rules for the number of groups that compare the cuts of a tree by one score.

`SilhouetteRule` is the paper's (section 2.6), `BicRule` maximizes the objective with a price per parameter. Both take a
covariance and a grouping and return a proposal. A grouping without a tree is asked for the number of groups that scores
best on the default tree.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from sklearn.base import BaseEstimator

from blockmix.blocks.moments import correlation, definite_correlation, entries
from blockmix.grouping.hierarchical import cut, tree_of
from blockmix.grouping.protocols import Grouping, Proposal, check_n_groups, has_tree
from blockmix.grouping.silhouette import tree_silhouettes
from blockmix.partition import FloatArray, IntArray, bic_price, extended_price, merge_gain


class SilhouetteRule(BaseEstimator):
    """The number of groups with the largest mean silhouette (paper, section 2.6).

    Parameters
    ----------
    candidates : iterable of int, optional
        Numbers of groups to compare; 2 … p − 1 by default.
    center : int, optional
        Compare the paper's range center ± 2√p instead.

    Examples
    --------
    >>> from blockmix.grouping import HierarchicalGrouping
    >>> S = np.kron(np.eye(3), np.full((4, 4), 0.6)) + 0.4 * np.eye(12)
    >>> SilhouetteRule().choose(S, 100, HierarchicalGrouping()).partition.n_groups
    3
    """

    def __init__(self, candidates: Iterable[int] | None = None, center: int | None = None) -> None:
        self.candidates = candidates
        self.center = center

    def choose(
        self,
        S: FloatArray,
        n_rows: float,
        grouping: Grouping,
        squares: FloatArray | None = None,
        price: float | None = None,
    ) -> Proposal:
        """Take the cut with the largest silhouette; `squares` and `price` are not used."""
        R = correlation(S)
        cutter = tree_of(grouping)
        tree = cutter.tree(R)
        scores = tree_silhouettes(cutter.distances(R), tree)
        return _best_cut(scores, self._numbers(len(S)), tree, S, n_rows, grouping)

    def _numbers(self, p: int) -> IntArray:
        if self.candidates is not None:
            return _checked(self.candidates, p)
        low, high = 2, p - 1
        if self.center is not None:
            center, reach = check_n_groups(self.center, p, "center"), int(2 * np.sqrt(p))
            low, high = max(low, center - reach), min(high, center + reach)
        return np.arange(low, high + 1) if high >= low else np.array([p])  # p ≤ 2: nothing to compare


class BicRule(BaseEstimator):
    """The number of groups with the smallest (extended) BIC along the tree.

    Parameters
    ----------
    candidates : iterable of int, optional
        Numbers of groups to compare; all by default. A cut with a block of as many columns as rows is left out.
    gamma : float
        γ of the extended BIC; 0 is BIC.

    Examples
    --------
    >>> from blockmix.grouping import HierarchicalGrouping
    >>> S = np.kron(np.eye(3), np.full((4, 4), 0.6)) + 0.4 * np.eye(12)
    >>> BicRule().choose(S, 100, HierarchicalGrouping()).partition.n_groups
    3
    """

    def __init__(self, candidates: Iterable[int] | None = None, gamma: float = 0.0) -> None:
        self.candidates = candidates
        self.gamma = gamma

    def choose(
        self,
        S: FloatArray,
        n_rows: float,
        grouping: Grouping,
        squares: FloatArray | None = None,
        price: float | None = None,
    ) -> Proposal:
        """Take the cut with the largest objective at this price, plus 2γ log p; `squares` is not used."""
        price = bic_price(n_rows) if price is None else price
        R = correlation(S)
        tree = tree_of(grouping).tree(R)
        values = tree_objective(definite_correlation(R), tree, n_rows, extended_price(price, len(S), self.gamma))
        numbers = np.arange(1, len(S) + 1) if self.candidates is None else _checked(self.candidates, len(S))
        return _best_cut(values, numbers, tree, S, n_rows, grouping)


def tree_objective(R: FloatArray, tree: FloatArray, n_rows: float, price: float) -> FloatArray:
    """Objective of every cut of a tree less that of p single columns, shape (p + 1,); entry K belongs to K groups.

    A cut with a block of n_rows columns or more has value −∞.
    """
    from blockmix.grouping import kernels  # loads Numba

    try:
        log_ratios, pairs = kernels.merge_log_ratios(entries(R), tree, float(n_rows))
    except np.linalg.LinAlgError:
        raise ValueError(
            f"S, shape {R.shape}, is not positive semidefinite: estimate it from complete rows, or raise its diagonal"
        ) from None
    gains = merge_gain(log_ratios, pairs, n_rows, price)
    gains[tree[:, 3] >= n_rows] = -np.inf
    values = np.zeros(len(R) + 1)
    values[0] = -np.inf
    values[-2:0:-1] = np.cumsum(gains)
    return values


def _best_cut(
    scores: FloatArray, numbers: IntArray, tree: FloatArray, S: FloatArray, n_rows: float, grouping: Grouping
) -> Proposal:
    """Groups for the number with the largest score: a cut of the tree, or what a grouping without a tree finds."""
    best = int(numbers[np.argmax(scores[numbers])])
    return Proposal(cut(tree, best), tree) if has_tree(grouping) else grouping.group(S, best, n_rows)


def _checked(candidates: Iterable[int], p: int) -> IntArray:
    numbers = np.array(sorted({check_n_groups(number, p) for number in candidates}))
    if len(numbers) == 0:
        raise ValueError("candidates is empty: give at least one number of groups")
    return numbers
