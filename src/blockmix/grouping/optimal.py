"""OptimalRule: groups and shapes of their blocks with the largest objective among all cuts of a tree.

A covariance, the number of rows and a price come in; a proposal with groups and shapes goes out. A branch of the tree
is one group if that is worth more than the best cuts of its two halves, so the best of all cuts is found in one pass
from the leaves to the root, whatever their height.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from sklearn.base import BaseEstimator

from blockmix.grouping.hierarchical import spans, tree_of
from blockmix.grouping.protocols import Grouping, Proposal, has_price, has_tree
from blockmix.structure.block_models import FULL, BlockModel, block_models, offered
from blockmix.structure.moments import correlation, definite_correlation
from blockmix.structure.objective import bic_price, partition_prices
from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray, IntArray


class OptimalRule(BaseEstimator):
    """The cut of the tree, and the shapes of its blocks, with the largest objective.

    With n rows and a price per parameter, a branch v of c columns in a shape of k parameters and deviance F is worth

        one(v) = −n/2 (F − c) − price · (k − c) − (prices of a group of c columns and of the structure of its shape),

    and gain(v) = max(one(v), gain(left) + gain(right)). A column alone is worth 0.

    Parameters
    ----------
    block_model : {"auto", "full", "tree"}, int, BlockModel or sequence of BlockModel, default="auto"
        Shapes that a block may have; an int is a number of factors.

    Examples
    --------
    >>> from blockmix.grouping import HierarchicalGrouping
    >>> S = np.kron(np.eye(3), np.full((4, 4), 0.6)) + 0.4 * np.eye(12)
    >>> OptimalRule().choose(S, 100, HierarchicalGrouping()).partition.n_groups
    3
    """

    def __init__(self, block_model: str | int | BlockModel | Sequence[BlockModel] = "auto") -> None:
        self.block_model = block_model

    def choose(
        self,
        S: FloatArray,
        n_rows: float,
        grouping: Grouping,
        squares: FloatArray | None = None,
        price: float | None = None,
    ) -> Proposal:
        """Take the best cut at this price; `squares` is not used.

        A grouping without a tree is asked for as many groups as the best cut of the default tree has.
        """
        models = block_models(self.block_model)
        price = bic_price(n_rows) if price is None else price
        R = correlation(S)
        tree = tree_of(grouping).tree(R)
        order, span = spans(tree)
        ordered = definite_correlation(R[np.ix_(order, order)])
        worth, shape = branch_worths(ordered, tree, span, n_rows, price, models)
        chosen = best_cut(worth, tree)
        labels = np.empty(len(S), dtype=np.intp)
        for k, v in enumerate(chosen):
            labels[order[span[v, 0] : span[v, 1]]] = k
        partition = Partition(labels)
        shapes: list[BlockModel] = [FULL] * partition.n_groups
        for v in chosen:
            shapes[partition.labels[order[span[v, 0]]]] = models[shape[v]]
        if has_tree(grouping):
            return Proposal(partition, tree, shapes=tuple(shapes))
        if has_price(grouping):
            found = grouping.group_at_price(S, n_rows, price)
        else:
            found = grouping.group(S, partition.n_groups, n_rows)
        return replace(found, shapes=best_shapes(R, found.partition, n_rows, price, models))


def branch_worths(
    R: FloatArray, tree: FloatArray, span: IntArray, n_rows: float, price: float, models: Sequence[BlockModel]
) -> tuple[FloatArray, IntArray]:
    """What each node is worth as one group, and the number of its best shape, shapes (2p − 1,)."""
    sizes = span[:, 1] - span[:, 0]
    worth = np.full(len(span), -np.inf)
    shape = np.zeros(len(span), dtype=np.intp)
    for number, model in enumerate(models):
        extra, choice = _prices(model, len(R))  # type: ignore[arg-type]
        deviances = model.deviances(R, tree, span, n_rows - 1)
        value = -0.5 * n_rows * (deviances - sizes) - (price * extra + choice)[sizes]
        better = value > worth
        worth[better], shape[better] = value[better], number
    worth[: len(R)] = 0
    return worth, shape


@lru_cache(maxsize=64)  # EM asks for the same ones at every regroup
def _prices(model: BlockModel, p: int) -> tuple[FloatArray, FloatArray]:
    """Parameters beyond one per column, and prices of the choice, of a group of 0 … p of p columns, shapes (p + 1,).

    The price is infinite where the shape is not offered.
    """
    sizes = range(p + 1)
    extra = np.array([model.n_parameters(c) - c for c in sizes])
    choice = partition_prices(p) + np.array([model.choice_price(c) if offered(model, c) else np.inf for c in sizes])
    if model.name == FULL.name:
        choice[-1] = 0  # one full group is no choice
    return extra, choice


def best_shapes(
    R: FloatArray, partition: Partition, n_rows: float, price: float, models: Sequence[BlockModel]
) -> tuple[BlockModel, ...]:
    """The shape of each block of a partition that is worth most."""
    shapes: list[BlockModel] = []
    definite = definite_correlation(R)
    for group in partition.groups:
        block, c = definite[np.ix_(group, group)], len(group)
        able = [m for m in models if offered(m, c) and m.rows_needed(c) < max(n_rows, 2)] or [FULL]
        worth = [-0.5 * n_rows * m.fit(block).deviance - price * m.n_parameters(c) - m.choice_price(c) for m in able]
        shapes.append(able[int(np.argmax(worth))])
    return tuple(shapes)


def best_cut(worth: FloatArray, tree: FloatArray) -> list[int]:
    """Nodes of the cut with the largest total worth."""
    p = len(tree) + 1
    gain, children = worth.tolist(), tree[:, :2].astype(np.intp).tolist()
    whole = [True] * (2 * p - 1)
    for k, (left, right) in enumerate(children, start=p):
        apart = gain[left] + gain[right]
        if apart >= gain[k]:
            gain[k], whole[k] = apart, False
    chosen, waiting = [], [2 * p - 2]
    while waiting:
        v = waiting.pop()
        if whole[v]:
            chosen.append(v)
        else:
            waiting += children[v - p]
    return chosen
