"""Replication: whether groups and clusters hold in other rows, and how many rows would find them again.

`replicate` judges the groups of a fitted model by new rows, `plan` refits the model to rows drawn from it. The paper
has no counterpart; modulePreservation (WGCNA) and NetRep ask the same of modules of genes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import linear_sum_assignment
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from blockmix.estimators.comparison import scaled_rows
from blockmix.estimators.tables import group_numbers
from blockmix.estimators.validation import check_whole, is_elsewhere, matrix
from blockmix.partition import FloatArray, IntArray, Partition, RandomState, column_names
from blockmix.plotting.views import correlations_of
from blockmix.rows.files import needed

_LEAST_ROWS = 10  # of a cluster among the new rows, for a verdict
_CLEAR = 1.645  # standard errors that a gain is above 0
_CHANCE = 0.95  # quantile of independent columns that correlations must exceed
_RANDOM = 200  # groups of random columns
_AGAIN = 0.75  # Jaccard index from which a cluster has come out right


@dataclass(frozen=True, eq=False)
class Replication:
    """How the groups and clusters of a model fare in new rows.

    Attributes
    ----------
    groups : DataFrame
        One row per group of two or more columns: `cluster`, `group` (both from 1, as in `column_table`), `columns`,
        `size`; `rows` of the cluster; `gain` per row in log-likelihood of the fitted correlations over independent
        columns, and its standard error `se`;
        `r_fit` and `r_new`, mean |r|; `z` of r_new among groups of random columns of the same size; `signs`, share of
        the columns whose loading has the same sign; `verdict`.
    clusters : DataFrame
        One row per cluster: `cluster`, `rows`, `share` of the new rows, `share_fit`, and `distance` of the mean from
        that of the fit, the root mean square over the columns in standard deviations.
    """

    groups: Any
    clusters: Any

    def __str__(self) -> str:
        return "\n\n".join(frame.round(2).to_string(index=False) for frame in (self.groups, self.clusters))

    __repr__ = __str__


def replicate(model: Any, X_new: Any, *, random_state: RandomState = None) -> Replication:
    """Judge by new rows whether the column groups and the clusters of a fitted model hold.

    New rows are assigned to clusters and scaled by their own means and deviations within them: a shift of the means is
    told per cluster, not held against the groups. A group *holds* if its fitted correlations predict the new rows
    clearly better than independent columns do. Otherwise it is *not found* if its columns are not correlated beyond
    chance, *changed* if they are but the prediction is clearly worse, and *unclear* if it is neither.

    Parameters
    ----------
    model : GaussianBiclustering, BlockDiagonalCovariance, FactorBiclustering or BlockDiscriminantAnalysis
        A fitted model.
    X_new : array-like of shape (N, p)
        Rows that did not take part in the fit.
    random_state : int, RandomState or None
        Seed of the random groups.

    Examples
    --------
    >>> from blockmix import BlockDiagonalCovariance
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 6)) + np.repeat(rng.standard_normal((200, 2)), 3, axis=1)
    >>> model = BlockDiagonalCovariance().fit(X[:100])
    >>> X[100:, 3:] = rng.standard_normal((100, 3))
    >>> replicate(model, X[100:]).groups["verdict"].tolist()
    ['holds', 'not found']
    """
    mixture, rows, labels = _assigned(model, X_new)
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    covariances = mixture.blocks_ if isinstance(mixture.blocks_, tuple) else (mixture.blocks_,)
    means = np.atleast_2d(mixture.means_ if hasattr(mixture, "means_") else mixture.location_)
    shares = getattr(mixture, "weights_", np.ones(1))
    groups, clusters, names = list[tuple[Any, ...]](), list[tuple[Any, ...]](), column_names(model)
    numbers = group_numbers(mixture) + 1
    for g, covariance in enumerate(covariances):
        part, deviations = rows[labels == g].astype(float), np.sqrt(covariance.variances)
        scaled, present = scaled_rows(part)
        R, fitted = correlations_of(scaled, present), covariance.dense() / np.outer(deviations, deviations)
        for A in (A for A in covariance.partition.groups if len(A) > 1):
            about = g + 1, numbers[g, A[0]], ", ".join(names[j] for j in A), len(A), len(part)
            groups.append((*about, *_judged(scaled[:, A], present[:, A], fitted[np.ix_(A, A)], R, A, rng)))
        counts = present.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            shift = (np.nansum(part, axis=0) / counts - means[g]) / deviations
        distance = float(np.sqrt(np.mean(shift[counts > 0] ** 2))) if counts.any() else np.nan
        clusters.append((g + 1, len(part), len(part) / len(rows), float(shares[g]), distance))
    heads = ["cluster", "group", "columns", "size", "rows", "gain", "se", "r_fit", "r_new", "z", "signs", "verdict"]
    of_clusters, frame = ["cluster", "rows", "share", "share_fit", "distance"], needed("pandas", "app").DataFrame
    return Replication(frame(groups, columns=heads), frame(clusters, columns=of_clusters))


def _assigned(model: Any, X: Any) -> tuple[Any, FloatArray, IntArray]:
    """The mixture or covariance of a model, rows in memory, shape (N, p), and the component of each."""
    check_is_fitted(model)
    mixture = getattr(model, "mixture_", model)
    if not hasattr(mixture, "blocks_"):
        raise ValueError(f"model is a {type(model).__name__}, which has no column groups: give a mixture or covariance")
    if is_elsewhere(X):
        raise ValueError("X must be in memory: give an array or a data frame, or a sample of the rows")
    has_clusters = hasattr(mixture, "weights_")
    rows = matrix(model, X, allow_missing=None if has_clusters else True, reset=False)
    return mixture, rows, mixture.predict(X) if has_clusters else np.zeros(len(rows), dtype=np.intp)


def _judged(
    scaled: FloatArray, present: FloatArray, fitted: FloatArray, R: FloatArray, A: IntArray, rng: np.random.Generator
) -> tuple[Any, ...]:
    """Figures and verdict of a group A from its rows, its fitted correlations and those of all columns in the rows."""
    c, p = len(A), len(R)
    present = present * scaled.any(axis=0)  # a constant column shows nothing
    new, pairs = R[np.ix_(A, A)], np.triu_indices(c, 1)
    gains = _gains(scaled, present, fitted)
    gain, se = (gains.mean(), gains.std(ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else (np.nan, np.nan)
    drawn = [rng.choice(p, c, replace=False) for _ in range(_RANDOM)] if c < p else []
    strengths = np.array([np.abs(R[np.ix_(B, B)][pairs]).mean() for B in drawn])
    r_new = float(np.abs(new[pairs]).mean())
    z = (r_new - strengths.mean()) / strengths.std() if len(drawn) and strengths.std() > 0 else np.nan
    leading = np.sign([np.linalg.eigh(each)[1][:, -1] for each in (fitted, new)])
    agree = float((leading[0] == leading[1]).mean())
    together = present.T @ present
    correlated = float((together * new**2)[pairs].sum()) > chi2.ppf(_CHANCE, len(pairs[0]))
    verdict = "holds" if gain > _CLEAR * se else "changed" if gain < -_CLEAR * se else "unclear"
    verdict = "not found" if verdict != "holds" and not correlated else verdict
    verdict = verdict if len(gains) >= _LEAST_ROWS else "too few rows"
    return gain, se, float(np.abs(fitted[pairs]).mean()), r_new, z, max(agree, 1 - agree), verdict


def _gains(scaled: FloatArray, present: FloatArray, R: FloatArray) -> FloatArray:
    """Log N(x; 0, R) − log N(x; 0, I) of the values of each row, for the rows that have two or more."""
    patterns, number = np.unique(present > 0, axis=0, return_inverse=True)
    gains = []
    for i, columns in enumerate(patterns):
        if columns.sum() > 1:
            values = scaled[number.ravel() == i][:, columns]
            L = np.linalg.cholesky(R[np.ix_(columns, columns)])
            white = solve_triangular(L, values.T, lower=True)
            gains.append(0.5 * ((values**2).sum(axis=1) - (white**2).sum(axis=0)) - np.log(L.diagonal()).sum())
    return np.concatenate(gains) if gains else np.empty(0)


def plan(
    model: Any,
    n_rows: int | Sequence[int],
    *,
    n_draws: int = 20,
    random_state: RandomState = None,
    callback: Callable[[int, int], object] | None = None,
) -> Any:
    """Say which share of groups and clusters comes out right in tables of so many rows, drawn from a model.

    Each table is drawn from the fitted model and fitted with its settings. A cluster is right if its Jaccard index with
    the matching one is at least 0.75, a group of two or more columns if exactly these are a group of that cluster.

    Parameters
    ----------
    model : GaussianBiclustering, FactorBiclustering or BlockDiagonalCovariance
        A fitted model, taken as the truth: if its own groups are wrong, so is the plan.
    n_rows : int or sequence of int
        Numbers of rows of the tables.
    n_draws : int
        Tables of each size.
    random_state : int, RandomState or None
    callback : callable, optional
        Gets the number of tables that are done, and that of all.

    Returns
    -------
    DataFrame
        One row per number of rows: `n_rows`, the mean shares `groups` and `clusters`, and their standard errors
        `groups_se` and `clusters_se`; NaN if the model has no group of two columns.
    """
    check_is_fitted(model)
    if not hasattr(model, "blocks_"):
        raise ValueError(f"model is a {type(model).__name__}: give a mixture or a covariance, such as model.mixture_")
    sizes: list[Any] = np.atleast_1d(np.asarray(n_rows)).tolist()
    for n in sizes:
        check_whole("n_rows", n, least=2)
    check_whole("n_draws", n_draws)
    rng, lines = check_random_state(random_state), []
    for number, n in enumerate(sizes):
        shares = np.empty((n_draws, 2))
        for i in range(n_draws):
            shares[i] = _again(model, n, rng.randint(2**31 - 1))
            if callback is not None:
                callback(number * n_draws + i + 1, len(sizes) * n_draws)
        errors = shares.std(axis=0) / np.sqrt(n_draws)
        lines.append((n, *np.stack([shares.mean(axis=0), errors], axis=1).ravel()))
    heads = ["n_rows", "groups", "groups_se", "clusters", "clusters_se"]
    return needed("pandas", "app").DataFrame(lines, columns=heads)


def _again(model: Any, n: int, seed: int) -> tuple[float, float]:
    """Shares of groups and of clusters that come out right in n rows drawn from a model."""
    if mixture := hasattr(model, "weights_"):
        source = copy(model)
        source.random_state = seed
        X, labels = source.sample(n)
    else:
        X, labels = model.location_ + model.blocks_.sample(n, np.random.RandomState(seed)), np.zeros(n, dtype=np.intp)
    true = [Partition(row) for row in np.atleast_2d(model.column_labels_)]
    n_groups = sum(int((partition.sizes > 1).sum()) for partition in true)
    again = clone(model).set_params(random_state=seed, **({"init": "auto"} if mixture else {}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            again.fit(X)
        except ValueError:  # too few rows
            return 0.0 if n_groups else np.nan, 0.0
    found = [Partition(row) for row in np.atleast_2d(again.column_labels_)]
    both = np.zeros((len(true), len(found)))
    np.add.at(both, (labels, again.row_labels_ if mixture else labels), 1)
    jaccard = both / np.maximum(both.sum(axis=1)[:, None] + both.sum(axis=0) - both, 1)
    right = 0
    pairs = linear_sum_assignment(-jaccard)
    for g, h in zip(*pairs, strict=True):
        groups = {tuple(A) for A in found[h].groups if len(A) > 1}
        right += sum(tuple(A) in groups for A in true[g].groups)
    return right / n_groups if n_groups else np.nan, float((jaccard[pairs] >= _AGAIN).sum() / len(true))
