"""OptimalRule: groups and shapes of their blocks with the largest objective among all cuts of a tree.

A covariance, the number of rows and a price come in; a proposal with groups and shapes goes out. A branch of the tree
is one group if that is worth more than the best cuts of its two halves, so the best of all cuts is found in one pass
from the leaves to the root, whatever their height.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from sklearn.base import BaseEstimator

from blockmix.blocks.moments import Covariance, correlation, definite_correlation, reordered, take_rows
from blockmix.blocks.shapes import FULL, BlockModel, block_models, offered
from blockmix.grouping.hierarchical import HierarchicalGrouping, is_default, spans, tree_of
from blockmix.grouping.protocols import Grouping, Proposal, has_price, has_tree
from blockmix.partition import BoolArray, FloatArray, IntArray, Partition, bic_price, partition_prices


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

    @property
    def takes_rows(self) -> bool:
        """Whether a `GramMatrix` may take the place of an array."""
        return take_rows(*block_models(self.block_model))

    def choose(
        self,
        S: Covariance,
        n_rows: float,
        grouping: Grouping,
        squares: FloatArray | None = None,
        price: float | None = None,
    ) -> Proposal:
        """Take the best cut at this price; `squares` is not used.

        S may be a `GramMatrix`. A grouping without a tree is asked for as many groups as the best cut of the default
        tree has. No groups are found if the rows weigh 2 or less in all.
        """
        models = block_models(self.block_model)
        if n_rows <= 2:
            # Two rows have correlations ±1 (0 with a prior): all trees tie, and cutting one took 20 s for 2000 columns.
            return Proposal(Partition.separate(len(S)), shapes=(models[0],) * len(S))
        price = bic_price(n_rows) if price is None else price
        R = correlation(S)
        found = best_groups(R, n_rows, price, models, grouping)
        if has_tree(grouping):
            return found
        if has_price(grouping):
            own = grouping.group_at_price(S[:], n_rows, price)
        else:
            own = grouping.group(S[:], found.partition.n_groups, n_rows)
        return replace(own, shapes=best_shapes(R, own.partition, n_rows, price, models))


@dataclass(frozen=True, eq=False)
class Cut:
    """Group of each column, shape (p,), and the shape of each group and what it is worth."""

    labels: IntArray
    shapes: list[BlockModel]
    worth: FloatArray


def best_groups(
    R: Covariance,
    n_rows: float,
    price: float,
    models: Sequence[BlockModel],
    grouping: Grouping,
    forbidden: Sequence[Callable[[FloatArray], BoolArray]] = (),
    tree: FloatArray | None = None,
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
    grouping : Grouping
    forbidden : two callables, optional
        Given the tree, and that of the strongest correlations, shape (p − 1, 4), which merges may not be a group,
        shape (p − 1,).
    tree : array of shape (p − 1, 4), optional
        The tree, if it is known.
    """
    definite, cutter = definite_correlation(R), tree_of(grouping)
    tree = cutter.tree(R) if tree is None else tree
    found = _tree_cut(definite, tree, n_rows, price, models, *forbidden[:1])
    chains = tuple(model for model in models if model.name == FULL.name or hasattr(model, "linkage"))
    if is_default(cutter) and any(hasattr(model, "linkage") for model in chains):
        single = HierarchicalGrouping("single").tree(R)
        found = _best_of_both(found, _tree_cut(definite, single, n_rows, price, chains, *forbidden[1:]))
    partition = Partition(found.labels)
    number = dict(zip(partition.labels.tolist(), found.labels.tolist(), strict=True))
    return Proposal(partition, tree, shapes=tuple(found.shapes[number[k]] for k in range(len(number))))


def _tree_cut(
    R: Covariance,
    tree: FloatArray,
    n_rows: float,
    price: float,
    models: Sequence[BlockModel],
    forbidden: Callable[[FloatArray], BoolArray] | None = None,
) -> Cut:
    """The best cut of one tree of the columns of R, which is definite."""
    from blockmix.grouping.kernels import best_cut  # loads Numba

    order, span = spans(tree)
    worth, shape = branch_worths(reordered(R, order), tree, span, n_rows, price, models)
    if forbidden is not None:
        worth[len(R) :][forbidden(tree)] = -np.inf
    chosen, labels = best_cut(worth, tree, order, span)
    return Cut(labels, [models[number] for number in shape[chosen].tolist()], worth[chosen])


def _best_of_both(one: Cut, other: Cut) -> Cut:
    """The more valuable of two cuts in each of the smallest sets of columns that are unions of groups of both."""
    from blockmix.grouping.kernels import best_of_both  # loads Numba

    worth, shapes = np.concatenate([one.worth, other.worth]), one.shapes + other.shapes
    labels, taken = best_of_both(one.labels, other.labels, worth, len(one.worth))
    return Cut(labels, [shapes[k] for k in taken.tolist()], worth[taken])


def branch_worths(
    R: Covariance, tree: FloatArray, span: IntArray, n_rows: float, price: float, models: Sequence[BlockModel]
) -> tuple[FloatArray, IntArray]:
    """What each node is worth as one group, and the number of its best shape, shapes (2p − 1,)."""
    from blockmix.grouping.kernels import worths  # loads Numba

    deviances = np.array([model.deviances(R, tree, span, n_rows - 1) for model in models])
    worth, shape = worths(deviances, _prices(tuple(models), len(R), price), span, float(n_rows))
    return worth, shape


@lru_cache(maxsize=64)  # EM asks for the same ones at every regroup
def _prices(models: tuple[BlockModel, ...], p: int, price: float) -> FloatArray:
    """Price of a group of 0 … p of p columns in each shape, beyond that of columns alone, shape (shapes, p + 1).

    It is infinite where the shape is not offered.
    """
    sizes, found = range(p + 1), np.empty((len(models), p + 1))
    for own, model in zip(found, models, strict=True):
        choice = [model.choice_price(c, p) if offered(model, c) else np.inf for c in sizes]
        own[:] = price * np.array([model.n_parameters(c) - c for c in sizes]) + partition_prices(p) + choice
        if model.name == FULL.name:
            own[-1] -= partition_prices(p)[-1]  # one full group takes no choice
    return found


def best_shapes(
    R: Covariance, partition: Partition, n_rows: float, price: float, models: Sequence[BlockModel]
) -> tuple[BlockModel, ...]:
    """The shape of each block of a partition that is worth most."""
    shapes: list[BlockModel] = []
    definite = definite_correlation(R)
    for group in partition.groups:
        block, c = definite[np.ix_(group, group)], len(group)
        able = [m for m in models if offered(m, c) and min(c, m.rank) < max(n_rows, 2)] or [FULL]
        worth = [
            -0.5 * n_rows * m.fit(block).deviance - price * m.n_parameters(c) - m.choice_price(c, len(R)) for m in able
        ]
        shapes.append(able[int(np.argmax(worth))])
    return tuple(shapes)
