"""The groups of one table: n_groups="auto" of `BlockDiagonalCovariance`.

From rows, or from a correlation and the number of its rows, it finds groups and shapes of their blocks; the answer may
be "no groups" or "one group". It is the best cut of the tree, with three differences, which make it an answer to "which
columns belong together?" rather than to "which covariance is the most likely one?". A branch whose halves are
correlated less than a quarter as much as the columns within them is not a group, however many rows. Independent columns
give no groups, whatever the best of many would gain. Columns with rare values count as if they had fewer rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import gammaln
from scipy.stats import chi2

from blockmix.blocks.blocks import Layout
from blockmix.blocks.moments import Covariance, Moments, correlation
from blockmix.blocks.shapes import BlockModel, block_models
from blockmix.grouping.common_factors import Scatter, best_common
from blockmix.grouping.grouping import Grouping, Proposal, layout_of, tree_of
from blockmix.grouping.rules import GATE, best_groups, best_shapes
from blockmix.partition import BoolArray, FloatArray, Partition, bic_price

# docs/adr has the reason for each constant and what it is worth; none was fitted to a data set of this package.
RATIO = 0.25  # a merge must be at least this fraction as strong as its weaker branch
JOIN = 0.5  # a correlation that joins two chains must be at least this fraction of those within the weaker one
_MEDIAN_COLUMNS = 2000  # medians over pairs use at most this many columns, evenly spaced


def groups_of_rows(
    X: FloatArray,
    weights: FloatArray | None,
    moments: Moments,
    grouping: Grouping,
    models: Sequence[BlockModel],
    common: tuple[int, int] = (0, 0),
) -> Proposal:
    """Groups of the columns of X, shape (N, p), or of their ranks.

    Parameters
    ----------
    X : array of shape (N, p)
    weights : array of shape (N,) or None
    moments : Moments
        Of these rows.
    grouping : Grouping
        Without a tree it is asked for as many groups as the best cut of the default tree has.
    models : sequence of BlockModel
        Shapes that a block may have.
    common : tuple of two ints
        Least and largest number of common factors.

    Examples
    --------
    >>> from blockmix.grouping import HierarchicalGrouping
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 6)) + np.repeat(rng.standard_normal((100, 2)), 3, axis=1)
    >>> groups_of_rows(X, None, Moments.of(X), HierarchicalGrouping(), block_models("auto")).partition.labels
    array([0, 0, 0, 1, 1, 1])
    """
    n_rows, squares = moments.weight, standardized_squares(X, weights, moments)
    R = correlation(moments.scatter)  # without a ridge, so that exact copies have r = 1
    tempered, effective = temper(R, squares), (n_rows - 1) / tail_factor(R, squares)
    return _groups(R, tempered, n_rows, effective, bic_price(n_rows), grouping, models, common)


@dataclass(frozen=True)
class OneTableRule:
    """The same without the rows, from a covariance: the rule of rows with missing values."""

    block_model: str | int | BlockModel | Sequence[BlockModel] = "auto"

    def choose(
        self, S: FloatArray, n_rows: float, grouping: Grouping, price: float | None = None, remaining: bool = False
    ) -> Proposal:
        """Choose the groups of S, as if its rows were normal."""
        R, price = correlation(S), bic_price(n_rows) if price is None else price
        # Common factors are those of the mixture that asks.
        return _groups(R, R, n_rows, n_rows - 1, price, grouping, block_models(self.block_model), (0, 0), remaining)


def standardized_squares(X: FloatArray, weights: FloatArray | None, moments: Moments) -> FloatArray:
    """√(w/Σw) (x − mean)² / variance: the cross-product of its columns is the matrix of mean(y_i² y_j²)."""
    squares = (X - moments.mean) ** 2 / moments.variances
    share = np.full(len(X), 1 / len(X)) if weights is None else weights / weights.sum()
    squares *= np.sqrt(share).astype(X.dtype)[:, None]
    return np.asarray(squares)


def too_few_rows(n_rows: float, p: int) -> bool:
    """Whether two of p independent columns may well order the rows alike, or in reverse: p(p−1)/2 · 2/N! > GATE."""
    return p > 1 and bool(np.log(p * (p - 1)) - gammaln(n_rows + 1) > np.log(GATE))


def temper(R: Covariance, squares: FloatArray) -> Covariance:
    """Shrink the correlations of columns whose variance rests on few rows, those of exact copies excepted.

    r_ij is multiplied by d_i d_j, with d⁴ = 2 / max(2, kurtosis − 2): 1 for normal columns and for ranks without many
    ties. The result is positive semidefinite, as D R D + I − D² is.
    """
    d = (2 / np.maximum(2, (squares**2).sum(axis=0) - 2)) ** 0.25
    return R.shrunk(d)


def tail_factor(R: Covariance, squares: FloatArray) -> float:
    """The factor by which heavy tails reduce the row count: the median over pairs of Q_ij = mean(y_i² y_j²) − 2 r_ij².

    It is at least 1, the value for normal columns.
    """
    some = np.unique(np.linspace(0, len(R) - 1, min(len(R), _MEDIAN_COLUMNS)).astype(np.intp))
    if len(some) < 2:
        return 1.0
    Q = squares[:, some].T @ squares[:, some] - 2 * R[np.ix_(some, some)] ** 2
    return max(1.0, float(np.median(Q[np.triu_indices(len(some), 1)])))


def _groups(
    R: Any,
    tempered: Any,
    n_rows: float,
    nu: float,
    price: float,
    grouping: Grouping,
    models: Sequence[BlockModel],
    common: tuple[int, int],
    remaining: bool = False,
) -> Proposal:
    """Groups in the tempered correlation of ν effective rows, on common factors where these pay."""
    from blockmix.grouping.kernels import between_branches  # loads Numba

    cutter, (least, most) = tree_of(grouping), common
    effective = max(nu - 1.5, 1e-3)  # (ν − 1.5) log(1 − r²) has the mean of a χ², as Bartlett showed

    def cut(rest: Any, tree: FloatArray, squares: FloatArray, remaining: bool = remaining) -> Proposal:
        forbidden = partial(faint_merges, squares=squares, effective=nu), faint_joins
        return best_groups(rest, effective, price, models, cutter, tree, forbidden, remaining)

    def propose(rest: Any) -> Layout:
        rest = correlation(rest)
        tree = cutter.tree(rest)
        return layout_of(cut(rest, tree, between_branches(rest.entries, tree)[0], remaining=True))

    tree = cutter.tree(tempered)
    squares, deviances = between_branches(tempered.entries, tree)
    if not least and (too_few_rows(n_rows, len(R)) or not any_significant(tree, squares, deviances, max(nu, 2.0))):
        return Proposal(Partition.separate(len(R)), tree)
    proposal, rest = cut(tempered, tree, squares), R
    if most:
        scatter = Scatter.of(tempered, effective, price, price)
        # Common factors compete with groups that merge as reluctantly as those on top of them.
        fit = best_common(scatter, propose, propose(tempered), None, least, most)
        if fit.blocks.loadings is not None:
            rest = correlation(scatter.without(fit.blocks.common))
            proposal = Proposal(fit.blocks.partition, cutter.tree(rest), common=fit.blocks.common)
    if cutter is not grouping:
        proposal = replace(grouping.group(rest, proposal.partition.n_groups, n_rows), common=proposal.common)
    return replace(proposal, shapes=best_shapes(rest, proposal.partition, n_rows, price, models))


def any_significant(tree: FloatArray, squares: FloatArray, deviances: FloatArray, effective: float) -> bool:
    """Whether any merge of a tree is significant, which has probability GATE between independent columns."""
    p = len(tree) + 1
    if p == 1:
        return False
    log_p = merge_log_p(tree, squares, deviances, effective)
    return bool(log_p.min() <= np.log(GATE / (p * (p - 1) / 2)))


def merge_log_p(tree: FloatArray, squares: FloatArray, deviances: FloatArray, effective: float) -> FloatArray:
    """Log p-value, per merge of the tree, of the hypothesis that its branches A and B are independent, shape (p − 1,).

    Let a and b be the sizes of the branches and ν the effective number of rows. Under independence the statistic
    T = (ν − 1.5) Σ_{i∈A, j∈B} −log(1 − r_ij²) has mean ab, variance 2 t₂(A) t₂(B) and skewness √(8/d) with
    d = δ(A) δ(B). So d + √(d / t₂(A) t₂(B)) (T − ab) has the first three moments of χ² with d degrees of freedom,
    which gives the p-value. A merge much weaker than its branches has p-value 1, whatever its T.

    For m columns of strength ρ², t₂ = tr R² = m + m(m − 1)ρ² and δ = max(1, t₂³ / t₃²), where t₃ = tr R³ is that of
    equicorrelated columns, whose eigenvalues are 1 + (m − 1)ρ once and 1 − ρ for the others.
    The sums Σ r² and Σ −log(1 − r²) between branches are those of `kernels.between_branches`.
    """
    children = tree[:, :2].astype(np.intp)
    sizes, strengths = node_strengths(tree, squares, effective)
    rho = np.minimum(np.sqrt(strengths), 1)
    t2 = sizes + sizes * (sizes - 1) * strengths
    t3 = (1 + (sizes - 1) * rho) ** 3 + (sizes - 1) * (1 - rho) ** 3
    ab, t2t2, d = (value[children].prod(axis=1) for value in (sizes, t2, np.maximum(1, t2**3 / t3**2)))
    T = (effective - 1.5) * deviances
    log_p: FloatArray = chi2.logsf(np.maximum(d + np.sqrt(d / t2t2) * (T - ab), 0), d)
    log_p[faint_merges(tree, squares, effective)] = 0
    return log_p


def faint_merges(tree: FloatArray, squares: FloatArray, effective: float) -> BoolArray:
    """Merges of a tree whose branches are correlated much less with each other than within, shape (p − 1,).

    `squares` is Σ r² between the branches of each merge.
    """
    children = tree[:, :2].astype(np.intp)
    sizes, strengths = node_strengths(tree, squares, effective)
    ab = sizes[children].prod(axis=1)
    between = np.maximum(0, squares / ab - 1 / effective)
    weaker = np.where(sizes > 1, strengths, np.inf)[children].min(axis=1)  # a single column sets no limit
    return np.asarray((between < RATIO**2 * weaker) & (ab > 1))


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


def node_strengths(tree: FloatArray, squares: FloatArray, effective: float) -> tuple[FloatArray, FloatArray]:
    """Size m of each node and ρ² = max(0, mean r² within it − 1/ν), its strength beyond noise, shapes (2p − 1,).

    `squares` is Σ r² between the branches of each merge, shape (p − 1,).
    """
    p = len(tree) + 1
    sizes = np.concatenate([np.ones(p), tree[:, 3]])
    within = np.zeros(2 * p - 1)  # Σ r² over the pairs of columns in a node, each pair once
    for k, (a, b) in enumerate(tree[:, :2].astype(np.intp).tolist()):
        within[p + k] = within[a] + within[b] + squares[k]
    n_pairs = np.maximum(sizes * (sizes - 1) / 2, 1)
    return sizes, np.maximum(0, within / n_pairs - 1 / effective)
