"""Rules: how many column groups there are, by the objective or by the silhouette (paper, section 2.6).

`BestCut`, the default, takes groups and shapes of their blocks with the largest objective among all cuts of a tree: a
branch is one group if that is worth more than the best cuts of its two halves, by a margin if there are groups in both.
`SilhouetteRule` is the paper's rule; it also names the split that stands out where the groups say little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from sklearn.base import BaseEstimator

from blockmix.blocks.moments import Covariance, as_matrix, correlation
from blockmix.blocks.shapes import FULL, BlockModel, FactorBlock, FullBlock, TreeBlock, block_models, offered
from blockmix.grouping.grouping import Grouping, HierarchicalGrouping, Proposal, check_n_groups, cut, tree_of
from blockmix.partition import BoolArray, FloatArray, IntArray, Partition, bic_price, partition_prices

# When to name the split that stands out: groups found, share of columns alone, columns at most, silhouette at least.
_HUNDREDS, _ALONE, _MANY, _LEAST = 100, 0.8, 2000, 0.05
GATE = 0.02  # probability of a group, or of a merge of what common factors leave, by chance

Forbidden: TypeAlias = Callable[[FloatArray], BoolArray]


@dataclass(eq=False, repr=False)
class BestCut(BaseEstimator):
    """The cut of the tree, and the shapes of its blocks, with the largest objective.

    With n rows and a price per parameter, a branch v of c columns in a shape of k parameters and deviance F is worth

        one(v) = −n/2 (F − c) − price · (k − c) − (prices of a group of c columns and of the structure of its shape),

    and gain(v) = max(one(v), gain(left) + gain(right)). A column alone is worth 0. If there are groups in both halves,
    one(v) must be larger by the logarithm of the number of pairs of columns: which groups are merged is a choice.

    Parameters
    ----------
    block_model : {"auto", "full", "tree"}, int, BlockModel or sequence of BlockModel, default="auto"
        Shapes that a block may have; an int is a number of factors.

    Examples
    --------
    >>> from blockmix.grouping import HierarchicalGrouping
    >>> S = np.kron(np.eye(3), np.full((4, 4), 0.6)) + 0.4 * np.eye(12)
    >>> BestCut().choose(S, 100, HierarchicalGrouping()).partition.n_groups
    3
    """

    block_model: str | int | BlockModel | Sequence[BlockModel] = "auto"

    def choose(
        self, S: Covariance, n_rows: float, grouping: Grouping, price: float | None = None, remaining: bool = False
    ) -> Proposal:
        """Take the best cut at this price.

        A grouping without a tree is asked for as many groups as the best cut of the default tree has. There are no
        groups if the rows count 2 or less in all. `remaining` is for what common factors leave.
        """
        models = block_models(self.block_model)
        if n_rows <= 2:
            # Two rows have correlations ±1 (0 with a prior): all trees tie, and cutting one took 20 s for 2000 columns.
            return Proposal(Partition.separate(len(S)), shapes=(models[0],) * len(S))
        price = bic_price(n_rows) if price is None else price
        R = as_matrix(S).correlation()
        best = best_groups(R, n_rows, price, models, tree_of(grouping), remaining=remaining)
        if hasattr(grouping, "tree"):
            return best
        n_groups = best.partition.n_groups
        proposal = grouping.group(cast(FloatArray, S), n_groups, n_rows)
        return replace(proposal, shapes=best_shapes(R, proposal.partition, n_rows, price, models))


def takes_gram(grouping: object, rule: object) -> bool:
    """Whether a `GramMatrix` may take the place of an array: in our tree and its best cut; users get arrays.

    The rule may be a number of groups.
    """
    if not (type(grouping) is HierarchicalGrouping and grouping.distance == "correlation"):
        return False
    if type(rule) is BestCut:
        return all(type(model) in (FullBlock, FactorBlock, TreeBlock) for model in block_models(rule.block_model))
    return isinstance(rule, (int, Partition))


class Cut(NamedTuple):
    """Group of each column, shape (p,), and the shape of each group and what it is worth."""

    labels: IntArray
    shapes: list[BlockModel]
    worth: FloatArray


def best_groups(
    R: Covariance,
    n_rows: float,
    price: float,
    models: Sequence[BlockModel],
    cutter: Any,
    tree: FloatArray | None = None,
    forbidden: Sequence[Forbidden | None] = (None, None),
    remaining: bool = False,
) -> Proposal:
    """Groups and shapes of the best cut of the tree of a grouping.

    With the default grouping a second tree serves the shapes that are searched on a tree of their own, such as chains
    on that of the strongest correlations, and the better cut is taken wherever the two differ.

    Parameters
    ----------
    R : array of shape (p, p), or GramMatrix
        Correlation estimated from n_rows rows.
    n_rows, price : float
    models : sequence of BlockModel
    cutter : grouping that cuts a tree
    tree : array of shape (p − 1, 4), optional
        The tree of the cutter, if it is known.
    forbidden : two callables or None, optional
        Given the tree, and that of the strongest correlations, shape (p − 1, 4), which merges may not be a group,
        shape (p − 1,).
    remaining : bool
        Whether R is what common factors leave.
    """
    from blockmix.grouping import kernels  # loads Numba

    definite = as_matrix(R).definite()
    tree = cutter.tree(R) if tree is None else tree
    best = tree_cut(definite, tree, n_rows, price, models, forbidden[0], remaining)
    chains = [model for model in models if model.name == FULL.name or hasattr(model, "linkage")]
    default = type(cutter) is HierarchicalGrouping and (cutter.linkage, cutter.distance) == ("average", "correlation")
    if default and any(hasattr(model, "linkage") for model in chains):
        strongest = HierarchicalGrouping("single").tree(R)
        other = tree_cut(definite, strongest, n_rows, price, chains, forbidden[1], remaining)
        worth, shapes = np.concatenate([best.worth, other.worth]), best.shapes + other.shapes
        labels, taken = kernels.best_of_both(best.labels, other.labels, worth, len(best.worth))
        best = Cut(labels, [shapes[k] for k in taken.tolist()], worth[taken])
    partition = Partition(best.labels)
    number = dict(zip(partition.labels.tolist(), best.labels.tolist(), strict=True))
    return Proposal(partition, tree, shapes=tuple(best.shapes[number[k]] for k in range(len(number))))


def tree_cut(
    R: Covariance,
    tree: FloatArray,
    n_rows: float,
    price: float,
    models: Sequence[BlockModel],
    forbidden: Forbidden | None = None,
    remaining: bool = False,
) -> Cut:
    """The best cut of one tree of the columns of R, which is definite."""
    from blockmix.grouping import kernels  # loads Numba

    order, span = kernels.spans(tree)
    leaves = R.reordered(order)
    deviances = np.array([model.deviances(leaves, tree, span, n_rows - 1) for model in models])
    barred = np.zeros(len(tree), dtype=bool) if forbidden is None else forbidden(tree)
    prices, margins = group_prices(tuple(models), len(R), price), merge_margins(models, len(R), remaining)
    labels, shape, worth = kernels.best_cut(deviances, prices, float(n_rows), barred, margins, tree, order, span)
    return Cut(labels, [models[number] for number in shape.tolist()], worth)


@lru_cache(maxsize=64)  # EM asks for the same ones at every regroup
def group_prices(models: tuple[BlockModel, ...], p: int, price: float) -> FloatArray:
    """Price of a group of 0 … p of p columns in each shape, beyond that of columns alone, shape (shapes, p + 1).

    It is infinite where the shape is not offered.
    """
    sizes, prices = range(p + 1), np.empty((len(models), p + 1))
    for row, model in zip(prices, models, strict=True):
        choice = [model.choice_price(c, p) if offered(model, c) else np.inf for c in sizes]
        row[:] = price * np.array([model.n_parameters(c) - c for c in sizes]) + partition_prices(p) + choice
        if model.name == FULL.name:
            row[-1] -= partition_prices(p)[-1]  # one full group takes no choice
    return prices


def merge_margins(models: Sequence[BlockModel], p: int, remaining: bool) -> FloatArray:
    """By how much two groups must be worth more as one than apart, for each shape, shape (shapes,).

    A group pays for being one of all sets of its size. Which two groups are merged is chosen too, but two small ones
    get back some of what they paid, and the best of many pairs gains a few parameters by chance. So the margin is
    log p(p−1)/2, but none for trees, which pay for their edges. What common factors leave is never exactly zero between
    groups: there it is larger by −log GATE, and trees have it as well.
    """
    pairs = np.log(max(p * (p - 1) / 2, 1))
    if remaining:
        return np.full(len(models), pairs - np.log(GATE))
    return np.array([0.0 if hasattr(model, "linkage") else pairs for model in models])


def best_shapes(
    R: Covariance, partition: Partition, n_rows: float, price: float, models: Sequence[BlockModel]
) -> tuple[BlockModel, ...]:
    """The shape of each block of a partition that is worth most."""
    shapes: list[BlockModel] = []
    definite = as_matrix(R).definite()
    for group in partition.groups:
        block, c = definite[np.ix_(group, group)], len(group)
        allowed = [m for m in models if offered(m, c)] or [FULL]
        able = [m for m in allowed if min(c, m.rank) < max(n_rows, 2)] or allowed[-1:]
        worth = [
            -0.5 * n_rows * m.fit(block).deviance - price * m.n_parameters(c) - m.choice_price(c, len(R)) for m in able
        ]
        shapes.append(able[int(np.argmax(worth))])
    return tuple(shapes)


@dataclass(eq=False, repr=False)
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

    candidates: Iterable[int] | None = None
    center: int | None = None

    def choose(self, S: FloatArray, n_rows: float, grouping: Grouping, price: float | None = None) -> Proposal:
        """Take the cut with the largest silhouette; `price` is not used.

        A grouping without a tree is asked for the number of groups that scores best on the default tree.
        """
        R, cutter, numbers = correlation(S), tree_of(grouping), self._numbers(len(S))
        tree = cutter.tree(R)
        scores = tree_silhouettes(cutter.distances(R), tree)
        best = int(numbers[np.argmax(scores[numbers])])
        return Proposal(cut(tree, best), tree) if cutter is grouping else grouping.group(S, best, n_rows)

    def _numbers(self, p: int) -> IntArray:
        """The numbers of groups to compare."""
        if self.candidates is not None:
            numbers = np.array(sorted({check_n_groups(number, p) for number in self.candidates}))
            if len(numbers) == 0:
                raise ValueError("candidates is empty: give at least one number of groups")
            return numbers
        low, high = 2, p - 1
        if self.center is not None:
            center, reach = check_n_groups(self.center, p, "center"), int(2 * np.sqrt(p))
            low, high = max(low, center - reach), min(high, center + reach)
        return np.arange(low, high + 1) if high >= low else np.array([p])  # p ≤ 2: nothing to compare


@dataclass(frozen=True)
class Split:
    """Column groups, and how far they stand out: their mean silhouette, 0 for none and 1 at most."""

    partition: Partition
    silhouette: float


def split(R: Any, grouping: object, n_groups: int | None = None) -> Split:
    """The cut of the tree of a correlation into so many groups, or the one with the largest silhouette."""
    cutter, p = tree_of(grouping), len(R)
    tree = cutter.tree(R)
    scores = tree_silhouettes(cutter.distances(R), tree)
    number = int(np.argmax(scores)) or p if n_groups is None else check_n_groups(n_groups, p)
    return Split(cut(tree, number), float(scores[number]))


def says_little(found: Partition) -> bool:
    """Whether groups are one, hundreds, or nearly all columns alone."""
    p, several = found.n_columns, int((found.sizes > 1).sum())
    return 3 < p <= _MANY and (found.n_groups == 1 or several >= _HUNDREDS or found.n_groups - several >= _ALONE * p)


def standing_out(R: Any, grouping: object, n_rows: float, known: Partition) -> Split | None:
    """The split that stands out beyond chance in so many rows, if it is another than the known one; None if not."""
    best = split(R, grouping)
    beyond = best.silhouette > max(_LEAST, 2 / np.sqrt(max(n_rows, 1.0)))
    return best if beyond and 1 < best.partition.n_groups < len(R) and best.partition != known else None


def _ratio(inner: FloatArray, outer: FloatArray, sizes: FloatArray | IntArray) -> FloatArray:
    """(b − a) / max(a, b) per column, from its mean distances to its group and to the nearest other one."""
    largest = np.maximum(inner, outer)
    safe = (sizes > 1) & (largest > 0)
    return np.where(safe, (outer - inner) / np.where(safe, largest, 1), 0.0)


def tree_silhouettes(distances: FloatArray, tree: FloatArray) -> FloatArray:
    """Mean silhouette of every cut of a tree; entry K belongs to K groups, shape (p + 1,).

    When groups A and B merge, the mean distance of a column to their union lies between its mean distances to A and
    to B. So its nearest other group changes only if that was A or B, and only those columns and the members of the
    union need an update.
    """
    p = len(distances)
    sums = np.array(distances, dtype=float)  # (p, slots): summed distance of a column to the group in that slot
    np.fill_diagonal(sums, np.inf)
    sizes = np.ones(p)
    slot = np.arange(2 * p - 1)
    group = np.arange(p)
    nearest = np.argmin(sums, axis=1) if p > 1 else group
    outer = sums[group, nearest]
    np.fill_diagonal(sums, 0.0)
    scores = np.zeros(p + 1)
    for k in range(p - 2):
        a, b = slot[tree[k, :2].astype(int)]
        slot[p + k] = a
        sums[:, a] += sums[:, b]
        sums[:, b] = np.inf
        sizes[a] += sizes[b]
        group[group == b] = a
        changed = np.flatnonzero((group == a) | (nearest == a) | (nearest == b))
        means = sums[changed] / sizes
        means[np.arange(len(changed)), group[changed]] = np.inf
        nearest[changed] = np.argmin(means, axis=1)
        outer[changed] = means[np.arange(len(changed)), nearest[changed]]
        inner = sums[np.arange(p), group] / np.maximum(sizes[group] - 1, 1)
        scores[p - 1 - k] = _ratio(inner, outer, sizes[group]).mean()
    return scores
