"""AutoRule: the groups of one covariance, from the best cut of its tree.

From correlations and the number of rows it finds groups and shapes of their blocks; the answer may be "no groups" or
"one group". If all columns share a background correlation, the cut is repeated without it, and that answer is kept if
its silhouette is clearly better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from scipy.special import gammaln
from sklearn.base import BaseEstimator

from blockmix.blocks.moments import Covariance, correlation, products, shrunk, take_rows
from blockmix.blocks.shapes import BlockModel, block_models
from blockmix.grouping.chance import (
    GATE,
    MARGIN,
    background,
    between_branches,
    beyond_chance,
    faint_merges,
    tail_factor,
)
from blockmix.grouping.hierarchical import tree_of
from blockmix.grouping.optimal import best_groups, best_shapes
from blockmix.grouping.protocols import Grouping, Proposal, TreeGrouping, has_tree
from blockmix.grouping.silhouette import silhouette
from blockmix.partition import BoolArray, FloatArray, Partition, bic_price

JOIN = 0.5  # a correlation that joins two chains must be at least this fraction of those within the weaker one


class AutoRule(BaseEstimator):
    """Groups and shapes of blocks with the largest objective that stand out from what all columns share.

    The best cut is that of `OptimalRule`, with three differences, which make it an answer to "which columns belong
    together?" rather than to "which covariance is the most likely one?". A branch whose halves are correlated less than
    a quarter as much as the columns within them is not a group, however many rows. A correlation that all columns
    share is set aside if the groups without it are clearer. Columns with rare values count as if they had fewer rows.

    Parameters
    ----------
    block_model : {"auto", "full", "tree"}, int, BlockModel or sequence of BlockModel, default="auto"
        Shapes that a block may have; an int is a number of factors.

    Examples
    --------
    >>> from blockmix.grouping import HierarchicalGrouping
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 6)) + np.repeat(rng.standard_normal((100, 2)), 3, axis=1)
    >>> AutoRule().choose(np.cov(X.T), 100, HierarchicalGrouping()).partition.labels
    array([0, 0, 0, 1, 1, 1])
    """

    prefers_ranks = True  # of one covariance, where ranks are at hand

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
        """Take the best cut; a grouping without a tree is asked for as many groups as that has."""
        models, R = block_models(self.block_model), correlation(S)
        tempered, tails = (R, 1.0) if squares is None else (temper(R, squares), tail_factor(R, squares))
        effective, tree = (n_rows - 1) / tails, tree_of(grouping).tree(tempered)
        between = between_branches(tempered, tree)
        if too_few_rows(n_rows, len(R)) or not beyond_chance(tree, between, max(effective, 2.0)):
            return Proposal(Partition.separate(len(R)), tree)
        price = bic_price(n_rows) if price is None else price
        groups = partial(_groups, price=price, models=models, grouping=grouping)
        found = _clearest(tempered, effective, (tree, between[0]), tree_of(grouping), groups)
        if not has_tree(grouping):
            common, found = found.common, grouping.group(S[:], found.partition.n_groups, n_rows)
            found = replace(found, common=common)
        return replace(found, shapes=best_shapes(R, found.partition, n_rows, price, models))


def too_few_rows(n_rows: float, p: int) -> bool:
    """Whether chance alone puts the rows in the same order, or its reverse, in two of p columns: p(p−1)/2 · 2/N!."""
    return p > 1 and bool(np.log(p * (p - 1)) - gammaln(n_rows + 1) > np.log(GATE))


def temper(R: Covariance, squares: FloatArray) -> Covariance:
    """Shrink the correlations of columns whose variance rests on few rows, those of exact copies excepted.

    r_ij is multiplied by d_i d_j, with d⁴ = 2 / max(2, kurtosis − 2): 1 for normal columns and for ranks without many
    ties. The result is positive semidefinite, as D R D + I − D² is.
    """
    d = (2 / np.maximum(2, (squares**2).sum(axis=0) - 2)) ** 0.25
    return shrunk(R, d)


def _clearest(
    R: Covariance,
    effective: float,
    known: tuple[FloatArray, FloatArray],
    cutter: TreeGrouping,
    groups: Callable[[Covariance, float, tuple[FloatArray, FloatArray]], Proposal],
) -> Proposal:
    """Groups in R, or in R without its background if those are clearer; `known` as for `_groups`, of R."""
    plain = groups(R, effective, known)
    loadings = background(R, effective)
    if loadings is None:
        return plain
    rest = without(R, loadings)
    tree = cutter.tree(rest)
    cleared = groups(rest, effective - 1, (tree, between_branches(rest, tree)[0]))
    better = silhouette(rest, cleared.partition) > silhouette(R, plain.partition) + MARGIN
    return replace(cleared, common=float(np.median(np.abs(loadings)) ** 2)) if better else plain


def _groups(
    R: Covariance,
    effective: float,
    known: tuple[FloatArray, FloatArray],
    price: float,
    models: Sequence[BlockModel],
    grouping: Grouping,
) -> Proposal:
    """Groups of the best cut, given the tree of R and Σ r² between the branches of each merge."""
    # (ν − 1.5) log(1 − r²) has the mean of a χ², as Bartlett found; ν log(1 − r²) finds groups in few rows by chance.
    n_rows, (tree, squares) = max(effective - 1.5, 1e-3), known
    forbidden = partial(faint_merges, squares=squares, effective=effective), faint_joins
    return best_groups(R, n_rows, price, models, grouping, forbidden, tree)


def faint_joins(tree: FloatArray) -> BoolArray:
    """Merges of single linkage much weaker than the mean of the correlations that join a branch, shape (p − 1,).

    The mean over all pairs of two long chains, which `faint_merges` looks at, is small however well they join.
    """
    p = len(tree) + 1
    joins, sizes = np.concatenate([np.zeros(p), (1 - tree[:, 2]) ** 2]), np.concatenate([np.ones(p), tree[:, 3]])
    totals, children = joins.copy(), tree[:, :2].astype(np.intp)
    for k, (a, b) in enumerate(children.tolist(), start=p):
        totals[k] += totals[a] + totals[b]
    strengths = np.where(sizes > 1, totals / np.maximum(sizes - 1, 1), np.inf)  # a single column sets no limit
    weaker = strengths[children].min(axis=1)
    return np.asarray((joins[p:] < JOIN**2 * weaker) & np.isfinite(weaker))


def without(R: Covariance, loadings: FloatArray) -> Covariance:
    """Correlation that is left in R without a common factor with these loadings, positive semidefinite."""
    rest: Covariance = R - products(loadings[None], R)
    try:
        # Without one factor at most one eigenvalue is negative, far from the others.
        values, vectors = eigsh(rest, 1, which="SA", v0=loadings, tol=1e-6, maxiter=300)  # type: ignore[call-overload]
    except ArpackNoConvergence:
        values, vectors = eigh(rest[:], subset_by_index=[0, 0])
    if values[0] < 0:
        rest += products(np.sqrt(-values[0]) * vectors.T, R)
    return correlation(rest)
