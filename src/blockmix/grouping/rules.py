"""The number of groups: rules that choose it, and the one place that reads the parameter `n_groups`.

A covariance, the number of rows, a grouping and `n_groups` (a number, a rule or its name) come in; a proposal goes out.
The paper's rule is the largest silhouette; `BicRule` prices parameters; `AutoRule` is the one we recommend.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral

import numpy as np
from scipy.spatial.distance import squareform
from sklearn.base import BaseEstimator

from blockmix.grouping.auto import AutoRule
from blockmix.grouping.greedy import GreedyGrouping
from blockmix.grouping.hierarchical import HierarchicalGrouping, cut, spans
from blockmix.grouping.penalized import PenalizedGrouping
from blockmix.grouping.protocols import Grouping, Proposal, Rule, check_n_groups
from blockmix.grouping.relaxed import RelaxedGrouping
from blockmix.grouping.silhouette import tree_silhouettes
from blockmix.structure.blocks import cholesky, whole_logdets
from blockmix.structure.moments import correlation, definite_correlation
from blockmix.structure.objective import price
from blockmix.structure.types import FloatArray, IntArray, RandomState


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
    >>> S = np.kron(np.eye(3), np.full((4, 4), 0.6)) + 0.4 * np.eye(12)
    >>> SilhouetteRule().choose(S, 100, HierarchicalGrouping()).partition.n_groups
    3
    """

    def __init__(self, candidates: Iterable[int] | None = None, center: int | None = None) -> None:
        self.candidates = candidates
        self.center = center

    def choose(self, S: FloatArray, n_rows: float, grouping: Grouping, squares: FloatArray | None = None) -> Proposal:
        """Compare all cuts of one tree; a grouping without a tree is asked for the best number."""
        R = correlation(S)
        tree_of = _tree_of(grouping)
        tree = tree_of.tree(R)
        scores = tree_silhouettes(squareform(tree_of.distances(R), checks=False), tree)
        numbers = self._numbers(len(S))
        best = int(numbers[np.argmax(scores[numbers])])
        return _at(best, tree, S, n_rows, grouping)

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

    Notes
    -----
    `PenalizedGrouping` finds its own number by the same price, so without candidates it is asked directly.
    """

    def __init__(self, candidates: Iterable[int] | None = None, gamma: float = 0.0) -> None:
        self.candidates = candidates
        self.gamma = gamma

    def choose(self, S: FloatArray, n_rows: float, grouping: Grouping, squares: FloatArray | None = None) -> Proposal:
        """Compare all cuts of one tree; a grouping without a tree is asked for the best number."""
        if self.candidates is None and isinstance(grouping, PenalizedGrouping):
            return grouping.group(S, None, n_rows)
        R = correlation(S)
        tree = _tree_of(grouping).tree(R)
        values = tree_penalized(definite_correlation(R), tree, n_rows, price(n_rows, len(S), self.gamma))
        numbers = np.arange(1, len(S) + 1) if self.candidates is None else _checked(self.candidates, len(S))
        best = int(numbers[np.argmax(values[numbers])])
        return _at(best, tree, S, n_rows, grouping)


def tree_penalized(R: FloatArray, tree: FloatArray, n_rows: float, cost: float) -> FloatArray:
    """Penalised log-likelihood of every cut, up to a constant; entry K belongs to K groups, shape (p + 1,).

    A cut with a block of n_rows columns or more has value −∞.
    """
    p = len(R)
    children = tree[:, :2].astype(np.intp)
    sizes = np.concatenate([np.ones(p), tree[:, 3]])
    logdets = node_logdets(R, tree, n_rows)
    pairs = sizes[children].prod(axis=1)
    gains = 0.5 * n_rows * (logdets[children].sum(axis=1) - logdets[p:]) - cost * pairs
    gains[tree[:, 3] >= n_rows] = -np.inf
    return np.concatenate([[-np.inf], np.cumsum(gains)[::-1], [0.0]])


def node_logdets(R: FloatArray, tree: FloatArray, most: float) -> FloatArray:
    """log|R_AA| for the columns A of every node of a tree with fewer than `most` columns, else 0, shape (2p − 1,).

    Where the larger branch always comes first, the nodes that start at one place are leading blocks of the largest of
    them: its Cholesky factor has the determinants of all. The factors cost O(p³) in all, whatever the tree looks like.
    """
    if 1 < len(R) <= SMALL:
        return _few_logdets(R, tree, most)
    order, span = spans(tree)
    start, stop = span.T
    nodes = np.flatnonzero((stop - start > 1) & (stop - start < most))
    top = np.zeros(len(R), dtype=np.intp)
    np.maximum.at(top, start[nodes], stop[nodes])
    logdets = np.zeros(len(span))
    for first in np.flatnonzero(top):
        columns = order[first : top[first]]
        factor = cholesky(R[np.ix_(columns, columns)][None])[0]
        leading = 2 * np.cumsum(np.log(np.diagonal(factor)))
        own = nodes[start[nodes] == first]
        logdets[own] = leading[stop[own] - first - 1]
    return logdets


def _few_logdets(R: FloatArray, tree: FloatArray, most: float) -> FloatArray:
    p = len(R)
    member = np.zeros((2 * p - 1, p), dtype=bool)
    member[:p] = np.eye(p)
    for node, (left, right) in enumerate(tree[:, :2].astype(np.intp).tolist(), start=p):
        np.logical_or(member[left], member[right], out=member[node])
    both = member[p:, :, None] & member[p:, None, :]
    logdets = np.zeros(2 * p - 1)
    logdets[p:] = np.where(tree[:, 3] < most, whole_logdets(np.where(both, R, np.eye(p))), 0)
    return logdets


SMALL = 32  # up to so many columns one batched call for all nodes is faster than a call per heavy path


GROUPINGS: dict[str, type[BaseEstimator]] = {
    "hierarchical": HierarchicalGrouping,
    "greedy": GreedyGrouping,
    "relaxed": RelaxedGrouping,
    "penalized": PenalizedGrouping,
}
RULES: dict[str, type[BaseEstimator]] = {"auto": AutoRule, "silhouette": SilhouetteRule, "bic": BicRule}


def as_grouping(grouping: str | Grouping, random_state: RandomState = None) -> Grouping:
    """Return the grouping of that name, seeded if it draws starts, or the object itself."""
    if isinstance(grouping, str) and grouping in GROUPINGS:
        found = GROUPINGS[grouping]()
        if "random_state" in found.get_params():
            found.set_params(random_state=random_state)
        return found  # type: ignore[no-any-return]
    if isinstance(grouping, Grouping) and not isinstance(grouping, type):
        return grouping
    raise ValueError(f"grouping={grouping!r} must be one of {', '.join(GROUPINGS)} or an object with a method `group`")


def as_rule(n_groups: object, name: str = "n_groups") -> Rule | None:
    """Return the rule that `n_groups` names, the rule itself, or None for a number."""
    if isinstance(n_groups, Integral):
        return None
    if isinstance(n_groups, str) and n_groups in RULES:
        found: Rule = RULES[n_groups]()
        return found
    # NumPy's numbers and arrays have a method `choose` of their own.
    if isinstance(n_groups, Rule) and not isinstance(n_groups, (type, np.generic, np.ndarray)):
        return n_groups
    raise ValueError(
        f"{name}={n_groups!r} must be a whole number, one of {', '.join(RULES)}, or a rule such as "
        "SilhouetteRule(candidates=range(2, 5))"
    )


def find_groups(
    S: FloatArray, n_rows: float, n_groups: object, grouping: Grouping, squares: FloatArray | None = None
) -> Proposal:
    """Column groups of S: as many as `n_groups` says or its rule finds, by the given grouping."""
    rule = as_rule(n_groups)
    if rule is None:
        return grouping.group(S, check_n_groups(n_groups, len(S)), n_rows)
    return rule.choose(S, n_rows, grouping, squares)


def _tree_of(grouping: Grouping) -> HierarchicalGrouping:
    return grouping if isinstance(grouping, HierarchicalGrouping) else HierarchicalGrouping()


def _at(n_groups: int, tree: FloatArray, S: FloatArray, n_rows: float, grouping: Grouping) -> Proposal:
    if isinstance(grouping, HierarchicalGrouping):
        return Proposal(cut(tree, n_groups), tree)
    return grouping.group(S, n_groups, n_rows)


def _checked(candidates: Iterable[int], p: int) -> IntArray:
    numbers = np.array(sorted({check_n_groups(number, p) for number in candidates}))
    if len(numbers) == 0:
        raise ValueError("candidates is empty: give at least one number of groups")
    return numbers
