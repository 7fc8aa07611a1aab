"""AutoRule: how many groups there are, by testing the merges of the tree from the top.

Correlations and the number of rows come in; a partition goes out, which may be "no groups" or "one group". A branch of
the average-linkage tree is a group when its two halves are correlated beyond chance; if all columns share a
background of correlation, the same is done with the background removed and kept if its silhouette is clearly better.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2
from sklearn.base import BaseEstimator

from blockmix.grouping.hierarchical import HierarchicalGrouping, spans
from blockmix.grouping.protocols import Grouping, Proposal
from blockmix.grouping.silhouette import silhouette
from blockmix.structure.moments import correlation
from blockmix.structure.partition import Partition
from blockmix.structure.types import BoolArray, FloatArray, IntArray

# The constants and what each is worth are in docs/adr; they were not fitted to any data set of this package.
GATE = 0.02  # chance of reporting any group when all columns are independent
LEVEL, LEVEL_ROWS = 0.07, 5.0  # level of one merge: min(LEVEL, LEVEL_ROWS / effective rows)
RATIO = 0.25  # a merge is at least this fraction as strong as its weaker branch
MARGIN = 0.05  # silhouette by which the answer without background must be better
_MEDIAN_COLUMNS = 2000  # medians over pairs look at this many columns, evenly spaced, of a wider table
_CHUNK = 512


class AutoRule(BaseEstimator):
    """Number of groups by a top-down test of the tree; needs no candidates and may answer 1 or p.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 6)) + np.repeat(rng.standard_normal((100, 2)), 3, axis=1)
    >>> AutoRule().choose(np.cov(X.T), 100, HierarchicalGrouping()).partition.labels
    array([0, 0, 0, 1, 1, 1])
    """

    def choose(self, S: FloatArray, n_rows: float, grouping: Grouping, squares: FloatArray | None = None) -> Proposal:
        """Test the tree; another grouping than the default one is asked for as many groups as the test found."""
        R, tails = correlation(S), 1.0
        if squares is not None:
            R, tails = temper(R, squares)
        effective = (n_rows - 1) / tails
        found = groups_beyond_chance(R, max(effective, 2.0))
        if _is_default(grouping):
            return found
        return grouping.group(S, found.partition.n_groups, n_rows)


def _is_default(grouping: Grouping) -> bool:
    default = HierarchicalGrouping()
    return isinstance(grouping, HierarchicalGrouping) and grouping.get_params() == default.get_params()


def temper(R: FloatArray, squares: FloatArray) -> tuple[FloatArray, float]:
    """Shrink correlations that rest on a few rows; also the factor by which heavy tails lessen the number of rows.

    Q_ij = mean(y_i² y_j²) − 2 r_ij² is 1 for Gaussian columns; its median is the factor c, and r_ij is divided by
    √max(1, Q_ij / (c + 1)). `squares` holds y² so that squaresᵀ squares is the matrix of means, shape (N, p).
    """
    some = _some_columns(len(R))
    Q = squares[:, some].T @ squares[:, some] - 2 * R[np.ix_(some, some)] ** 2
    factor = max(1.0, float(np.median(Q[np.triu_indices(len(some), 1)]))) if len(some) > 1 else 1.0
    tempered = np.empty_like(R)
    for first in range(0, len(R), _CHUNK):
        part = slice(first, first + _CHUNK)
        Q = squares[:, part].T @ squares - 2 * R[part] ** 2
        tempered[part] = R[part] / np.sqrt(np.maximum(1, Q / (factor + 1)))
    np.fill_diagonal(tempered, 1)
    return tempered, factor


def groups_beyond_chance(R: FloatArray, effective: float) -> Proposal:
    """Groups that the test finds in R, with or without a common background."""
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
    log_p = merge_log_p(R, tree, effective)
    if p == 1 or log_p.min() > np.log(GATE / (p * (p - 1) / 2)):
        return Proposal(Partition.separate(p), tree)
    n_before = np.arange(p, 1, -1.0)
    level = min(LEVEL, LEVEL_ROWS / effective)
    return Proposal(_topmost(tree, log_p < np.log(level / (n_before * (n_before - 1) / 2))), tree)


def _topmost(tree: FloatArray, accepted: BoolArray) -> Partition:
    """Partition into the topmost accepted nodes; a column under none of them stays alone."""
    p = len(tree) + 1
    member = np.arange(2 * p - 1)
    inside = np.zeros(2 * p - 1, dtype=bool)
    for k in range(p - 2, -1, -1):
        if inside[p + k] or accepted[k]:
            children = tree[k, :2].astype(int)
            member[children] = member[p + k]
            inside[children] = True
    return Partition(member[:p])


def merge_log_p(R: FloatArray, tree: FloatArray, effective: float) -> FloatArray:
    """Log p-value, per merge of the tree, that its two branches A and B are independent, shape (p − 1,).

    T = (ν − 1.5) Σ_{i∈A, j∈B} −log(1 − r_ij²) has, under independence, mean ab, variance 2 t₂(A) t₂(B), skewness √(8/d)
    with d = δ(A) δ(B), δ = t₂³/t₃², where t₂ = tr R² of a branch without its sampling noise and t₃ = tr R³ if it were
    equicorrelated. So T is compared with the χ² of d degrees of freedom, moved and stretched to its mean and variance.
    """
    p = len(R)
    order, span = spans(tree)
    children = tree[:, :2].astype(int)
    size = np.concatenate([np.ones(p), tree[:, 3]])
    squares = np.ones(2 * p - 1)  # Σ r² over all pairs of a node, its diagonal included
    strength = np.zeros(2 * p - 1)  # mean r² within a node beyond noise
    statistic, between = np.empty(p - 1), np.empty(p - 1)
    for k, (a, b) in enumerate(children):
        between[k], deviance = _between(R, order[slice(*span[a])], order[slice(*span[b])])
        statistic[k] = (effective - 1.5) * deviance
        c, m = p + k, size[p + k]
        squares[c] = squares[a] + squares[b] + 2 * between[k]
        strength[c] = max(0.0, (squares[c] - m) / (m * (m - 1)) - 1 / effective)
    rho = np.minimum(np.sqrt(strength), 1)
    second = size + size * (size - 1) * strength
    third = (1 + (size - 1) * rho) ** 3 + (size - 1) * (1 - rho) ** 3
    pairs, variance, degrees = (
        value[children].prod(axis=1) for value in (size, second, np.maximum(1, second**3 / third**2))
    )
    standing = degrees + np.sqrt(degrees / variance) * (statistic - pairs)
    log_p: FloatArray = chi2.logsf(np.maximum(standing, 0), degrees)
    weaker = np.where(size > 1, strength, np.inf)[children].min(axis=1)  # a single column never limits
    weak = np.maximum(0, between / pairs - 1 / effective) < RATIO**2 * weaker
    log_p[weak & (pairs > 1)] = 0
    return log_p


def _between(R: FloatArray, A: IntArray, B: IntArray) -> tuple[float, float]:
    """Σ r² and Σ −log(1 − r²) over the pairs between two sets of columns."""
    squares = deviance = 0.0
    step = max(1, 2**22 // len(B))
    for first in range(0, len(A), step):
        # In double precision: float32 has no number between 1 − 1e-8 and 1, and log 0 would follow.
        q = np.minimum(R[np.ix_(A[first : first + step], B)].astype(float) ** 2, 1 - 1e-12)
        squares += float(q.sum(dtype=float))
        deviance -= float(np.log1p(-q).sum(dtype=float))
    return squares, deviance


def background(R: FloatArray, effective: float) -> FloatArray | None:
    """Signed loadings of a correlation that all columns share, or None if it is below one standard error."""
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


def _leading_signs(R: FloatArray) -> FloatArray:
    """Signs of the leading eigenvector, by power iterations from the column with the largest Σ r²."""
    v = R[:, np.argmax(np.einsum("ij,ij->i", R, R))]
    for _ in range(30):
        v = R @ v
        v /= np.linalg.norm(v)
    return np.where(v < 0, -1.0, 1.0)


def _some_columns(p: int) -> IntArray:
    return np.unique(np.linspace(0, p - 1, min(p, _MEDIAN_COLUMNS)).astype(np.intp))
