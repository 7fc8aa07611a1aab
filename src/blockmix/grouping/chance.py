"""ChanceRule: the number of groups from a top-down test of the merges of a tree.

From correlations and the number of rows it finds a partition, which may be "no groups" or "one group". A branch of the
average-linkage tree is a group if its two halves are correlated beyond chance. If all columns share a background
correlation, the test is repeated without it, and that answer is kept if its silhouette is clearly better.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2
from sklearn.base import BaseEstimator

from blockmix.blocks.moments import Covariance, correlation, entries, row_squares
from blockmix.grouping.hierarchical import HierarchicalGrouping, is_default, topmost
from blockmix.grouping.protocols import Grouping, Proposal
from blockmix.grouping.silhouette import silhouette
from blockmix.partition import BoolArray, FloatArray, IntArray, Partition

# docs/adr has the reason for each constant and what it is worth; none was fitted to a data set of this package.
GATE = 0.02  # probability of reporting any group if all columns are independent
LEVEL, LEVEL_ROWS = 0.07, 5.0  # level of one merge: min(LEVEL, LEVEL_ROWS / effective rows)
RATIO = 0.25  # a merge must be at least this fraction as strong as its weaker branch
MARGIN = 0.05  # gain in silhouette required of the answer without background
_MEDIAN_COLUMNS = 2000  # medians over pairs use at most this many columns, evenly spaced
_CHUNK = 512


class ChanceRule(BaseEstimator):
    """Number of groups by a top-down test of the tree; needs no candidates and may answer 1 or p.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 6)) + np.repeat(rng.standard_normal((100, 2)), 3, axis=1)
    >>> ChanceRule().choose(np.cov(X.T), 100, HierarchicalGrouping()).partition.labels
    array([0, 0, 0, 1, 1, 1])
    """

    tests_against_chance = True  # so rows of random weights must count as fewer

    def choose(
        self,
        S: FloatArray,
        n_rows: float,
        grouping: Grouping,
        squares: FloatArray | None = None,
        price: float | None = None,
    ) -> Proposal:
        """Return the groups that pass the test; `price` is not used.

        A grouping other than the default one is asked for as many groups as passed.
        """
        R, tails = correlation(S), 1.0
        if squares is not None:
            R, tails = temper(R, squares)
        effective = (n_rows - 1) / tails
        found = groups_beyond_chance(R, max(effective, 2.0))
        return found if is_default(grouping) else grouping.group(S, found.partition.n_groups, n_rows)


def temper(R: FloatArray, squares: FloatArray) -> tuple[FloatArray, float]:
    """Shrink correlations that rest on a few rows; also return the factor by which heavy tails reduce the row count.

    Q_ij = mean(y_i² y_j²) − 2 r_ij² is 1 for Gaussian columns. The factor c is its median, and r_ij is divided by
    √max(1, Q_ij / (c + 1)). `squares` holds y² such that squaresᵀ squares is the matrix of means, shape (N, p).
    """
    factor = tail_factor(R, squares)
    tempered = np.empty_like(R)
    for first in range(0, len(R), _CHUNK):
        part = slice(first, first + _CHUNK)
        Q = squares[:, part].T @ squares - 2 * R[part] ** 2
        tempered[part] = R[part] / np.sqrt(np.maximum(1, Q / (factor + 1)))
    np.fill_diagonal(tempered, 1)
    return tempered, factor


def tail_factor(R: Covariance, squares: FloatArray) -> float:
    """The factor by which heavy tails reduce the row count, the median of Q over pairs of columns, at least 1."""
    some = _some_columns(len(R))
    if len(some) < 2:
        return 1.0
    Q = squares[:, some].T @ squares[:, some] - 2 * R[np.ix_(some, some)] ** 2
    return max(1.0, float(np.median(Q[np.triu_indices(len(some), 1)])))


def groups_beyond_chance(R: FloatArray, effective: float) -> Proposal:
    """Groups that pass the test in R, or in R without its background if those are clearly better."""
    plain = top_down(R, effective)
    loadings = background(R, effective)
    if loadings is None:
        return plain
    cleaned = (R - np.outer(loadings, loadings)) / np.sqrt(np.outer(1 - loadings**2, 1 - loadings**2))
    np.clip(cleaned, -1, 1, out=cleaned)
    np.fill_diagonal(cleaned, 1)
    without = top_down(cleaned, effective - 1)
    better = silhouette(cleaned, without.partition) > silhouette(R, plain.partition) + MARGIN
    return without if better else plain


def top_down(R: FloatArray, effective: float) -> Proposal:
    """Walk down the tree and keep the first branches whose merge is beyond chance."""
    p = len(R)
    tree = HierarchicalGrouping().tree(R)
    log_p = merge_log_p(tree, between_branches(R, tree), effective)
    if p == 1 or not _any_beyond(log_p):
        return Proposal(Partition.separate(p), tree)
    n_before = np.arange(p, 1, -1.0)  # groups just before each merge
    level = min(LEVEL, LEVEL_ROWS / effective)
    return Proposal(topmost(tree, log_p < np.log(level / (n_before * (n_before - 1) / 2))), tree)


def between_branches(R: Covariance, tree: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Σ r² and Σ −log(1 − r²) over the pairs of columns that each merge brings together, shapes (p − 1,)."""
    from blockmix.grouping import kernels  # loads Numba

    squares, deviances = kernels.between_branches(entries(R), tree)
    return squares, deviances


def beyond_chance(tree: FloatArray, between: tuple[FloatArray, FloatArray], effective: float) -> bool:
    """Whether any merge of a tree is beyond chance, which happens with probability GATE between independent columns."""
    return len(tree) > 0 and _any_beyond(merge_log_p(tree, between, effective))


def _any_beyond(log_p: FloatArray) -> bool:
    p = len(log_p) + 1
    return bool(log_p.min() <= np.log(GATE / (p * (p - 1) / 2)))


def merge_log_p(tree: FloatArray, between: tuple[FloatArray, FloatArray], effective: float) -> FloatArray:
    """Log p-value, per merge of the tree, of the hypothesis that its branches A and B are independent, shape (p − 1,).

    Let a and b be the sizes of the branches and ν the effective number of rows. Under independence the statistic
    T = (ν − 1.5) Σ_{i∈A, j∈B} −log(1 − r_ij²) has mean ab, variance 2 t₂(A) t₂(B) and skewness √(8/d) with
    d = δ(A) δ(B), see `trace_moments`. So d + √(d / t₂(A) t₂(B)) (T − ab) has the first three moments of χ² with d
    degrees of freedom, which gives the p-value. A merge much weaker than its branches has p-value 1, whatever its T.
    The sums between branches are those of `between_branches`.
    """
    children = tree[:, :2].astype(np.intp)
    squares, deviances = between
    sizes, strengths = node_strengths(tree, squares, effective)
    t2, delta = trace_moments(sizes, strengths)
    ab, t2t2, d = (value[children].prod(axis=1) for value in (sizes, t2, delta))
    T = (effective - 1.5) * deviances
    log_p: FloatArray = chi2.logsf(np.maximum(d + np.sqrt(d / t2t2) * (T - ab), 0), d)
    log_p[_faint(tree, squares, sizes, strengths, effective)] = 0
    return log_p


def faint_merges(tree: FloatArray, squares: FloatArray, effective: float) -> BoolArray:
    """Merges of a tree whose branches are correlated much less with each other than within, shape (p − 1,).

    `squares` is Σ r² between the branches of each merge, as of `between_branches`.
    """
    return _faint(tree, squares, *node_strengths(tree, squares, effective), effective)


def _faint(
    tree: FloatArray, squares: FloatArray, sizes: FloatArray, strengths: FloatArray, effective: float
) -> BoolArray:
    children = tree[:, :2].astype(np.intp)
    ab = sizes[children].prod(axis=1)
    between = np.maximum(0, squares / ab - 1 / effective)
    weaker = np.where(sizes > 1, strengths, np.inf)[children].min(axis=1)  # a single column sets no limit
    return np.asarray((between < RATIO**2 * weaker) & (ab > 1))


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


def trace_moments(sizes: FloatArray, strengths: FloatArray) -> tuple[FloatArray, FloatArray]:
    """t₂ = tr R² = m + m(m − 1)ρ² of m columns of strength ρ², and δ = max(1, t₂³ / t₃²).

    t₃ = tr R³ is that of equicorrelated columns, whose eigenvalues are 1 + (m − 1)ρ once and 1 − ρ for the others.
    """
    rho = np.minimum(np.sqrt(strengths), 1)
    t2 = sizes + sizes * (sizes - 1) * strengths
    t3 = (1 + (sizes - 1) * rho) ** 3 + (sizes - 1) * (1 - rho) ** 3
    return t2, np.maximum(1, t2**3 / t3**2)


def background(R: Covariance, effective: float) -> FloatArray | None:
    """Signed loadings l of a correlation l_i l_j that all columns share, or None if it is below one standard error.

    With the signs of the leading eigenvector, g_i = max(0, median_j ±r_ij) and l_i² = min(τ g_i², 0.95), where τ makes
    the median of τ g_i g_j that of the signed correlations.
    """
    p = len(R)
    if p < 3:
        return None
    signs = _leading_signs(R)
    some = _some_columns(p)
    upper = np.triu_indices(len(some), 1)
    level = float(np.median((R[np.ix_(some, some)] * np.outer(signs[some], signs[some]))[upper]))
    if level <= 1 / np.sqrt(effective):
        return None
    own = np.empty(p)
    for first in range(0, p, _CHUNK):
        columns = np.arange(first, min(first + _CHUNK, p))
        signed = R[columns] * signs
        signed[np.arange(len(columns)), columns] = np.nan
        own[columns] = np.nanmedian(signed, axis=1) * signs[columns]
    own = np.maximum(own, 0)
    typical = float(np.median(np.outer(own[some], own[some])[upper]))
    if typical <= 0:
        return None
    loadings: FloatArray = signs * np.sqrt(np.minimum(own**2 * level / typical, 0.95))
    return loadings


def _leading_signs(R: Covariance) -> FloatArray:
    """Signs of the leading eigenvector, by power iterations from the column with the largest Σ r²."""
    first = np.argmax(row_squares(R))
    v = R[first : first + 1][0]
    for _ in range(30):
        v = R @ v
        v /= np.linalg.norm(v)
    return np.where(v < 0, -1.0, 1.0)


def _some_columns(p: int) -> IntArray:
    return np.unique(np.linspace(0, p - 1, min(p, _MEDIAN_COLUMNS)).astype(np.intp))
