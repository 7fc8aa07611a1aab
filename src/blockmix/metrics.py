"""Metrics: how close an estimated partition or covariance is to the true one (paper, sections 2.5 and 2.6).

A partition is a `Partition` or one label per item, a covariance a dense p × p matrix; each function returns one number.
The paper scores partitions by exact recovery and covariances by MAPE, whose denominator can vanish. The Frobenius and
Stein losses do not have that flaw.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.linalg import solve_triangular
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix

from blockmix.partition import FloatArray, IntArray, Partition

__all__ = [
    "adjusted_rand",
    "exact_recovery",
    "frobenius_loss",
    "mape",
    "matched_accuracy",
    "npmi_coherence",
    "stein_loss",
]


def exact_recovery(true: Partition | ArrayLike, found: Partition | ArrayLike) -> bool:
    """Whether two partitions are equal up to the names of their groups.

    Parameters
    ----------
    true, found : Partition or array-like of shape (n,)

    Returns
    -------
    bool

    Examples
    --------
    >>> exact_recovery([0, 0, 1], ["b", "b", "a"])
    True
    >>> exact_recovery([0, 0, 1], [0, 1, 1])
    False
    """
    # Every group overlaps with at least one group of the other partition, and in equal partitions with no more.
    table = contingency_matrix(*_label_pair(true, found), sparse=True)
    return bool(table.nnz == table.shape[0] == table.shape[1])


def matched_accuracy(true: Partition | ArrayLike, found: Partition | ArrayLike) -> float:
    """Share of items in matching groups, under the best one-to-one matching of groups.

    max over matchings M of Σ_{(a, b) ∈ M} |a ∩ b| / n. If the numbers of groups differ, the surplus groups stay
    unmatched and their items count as errors.

    Parameters
    ----------
    true, found : Partition or array-like of shape (n,)

    Returns
    -------
    float
        In (0, 1]; 1 for the same partition.

    Examples
    --------
    >>> matched_accuracy([0, 0, 1, 1], [1, 1, 0, 2])
    0.75
    """
    table = contingency_matrix(*_label_pair(true, found))
    matched = linear_sum_assignment(table, maximize=True)
    return float(table[matched].sum() / table.sum())


def adjusted_rand(true: Partition | ArrayLike, found: Partition | ArrayLike) -> float:
    """Adjusted Rand index: agreement over pairs of items, about 0 by chance and 1 for the same partition.

    A trivial partition (one group, or every item alone) has index 1 with itself and 0 with any other.

    Parameters
    ----------
    true, found : Partition or array-like of shape (n,)

    Returns
    -------
    float

    Examples
    --------
    >>> adjusted_rand([0, 0, 0], [5, 5, 5])
    1.0
    >>> adjusted_rand([0, 0, 0], [0, 1, 2])
    0.0
    """
    return float(adjusted_rand_score(*_label_pair(true, found)))


def mape(true_cov: ArrayLike, est_cov: ArrayLike) -> float:
    """Mean absolute percentage error, in the paper's form.

    100 Σ_ij |σ_ij − σ̂_ij| / Σ_ij σ_ij. The denominator is a signed sum, which negative covariances can make small or
    negative. Use it to compare methods on one covariance, not as an absolute measure.

    Parameters
    ----------
    true_cov, est_cov : array-like of shape (p, p)

    Returns
    -------
    float
        Percent.

    Examples
    --------
    >>> mape([[2.0, 0.0], [0.0, 2.0]], [[2.0, 1.0], [1.0, 2.0]])
    50.0
    """
    sigma, estimate = _covariance_pair(true_cov, est_cov)
    total = sigma.sum()
    if total == 0:
        raise ValueError("MAPE is undefined: the entries of true_cov sum to 0; use frobenius_loss or stein_loss")
    return float(100 * np.abs(sigma - estimate).sum() / total)


def frobenius_loss(true_cov: ArrayLike, est_cov: ArrayLike) -> float:
    """Frobenius norm of the error, ‖Σ̂ − Σ‖_F.

    Parameters
    ----------
    true_cov, est_cov : array-like of shape (p, p)

    Returns
    -------
    float

    Examples
    --------
    >>> frobenius_loss([[1.0, 0.0], [0.0, 1.0]], [[4.0, 0.0], [0.0, 5.0]])
    5.0
    """
    sigma, estimate = _covariance_pair(true_cov, est_cov)
    return float(np.linalg.norm(estimate - sigma))


def stein_loss(true_cov: ArrayLike, est_cov: ArrayLike) -> float:
    """Stein's loss, tr(Σ̂Σ⁻¹) − log|Σ̂Σ⁻¹| − p.

    Twice the Kullback–Leibler divergence from N(0, Σ̂) to N(0, Σ): at least 0, and 0 only for Σ̂ = Σ. A linear change
    of coordinates (Σ → BΣBᵀ, Σ̂ → BΣ̂Bᵀ) does not change it.

    Parameters
    ----------
    true_cov, est_cov : array-like of shape (p, p)
        Both positive definite.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If one of them is not positive definite to working precision.

    Examples
    --------
    >>> round(stein_loss([[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [0.0, 1.0]]), 4)
    0.3069
    """
    sigma, estimate = _covariance_pair(true_cov, est_cov)
    L, L_hat = _cholesky(sigma, "true_cov"), _cholesky(estimate, "est_cov")
    # W = L⁻¹ L̂ is triangular: the trace is Σ w_ij² and the determinant Π w_ii². Entry by entry each term is at
    # least 0, so nothing cancels when the estimate is close.
    W = solve_triangular(L, L_hat, lower=True)
    excess = W.diagonal() ** 2 - 1
    return float((np.tril(W, -1) ** 2).sum() + (excess - np.log1p(excess)).sum())


def _labels(labels: Partition | ArrayLike, name: str) -> NDArray[Any]:
    values = np.asarray(labels.labels if isinstance(labels, Partition) else labels)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"{name} must be a non-empty vector of labels, got shape {values.shape}")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(f"{name} has a label that is not finite: {values[~np.isfinite(values)][0]}")
    return values


def _label_pair(true: Partition | ArrayLike, found: Partition | ArrayLike) -> tuple[IntArray, IntArray]:
    a, b = _labels(true, "true"), _labels(found, "found")
    if len(a) != len(b):
        raise ValueError(f"true has {len(a)} labels and found has {len(b)}; both must label the same items")
    return np.unique_inverse(a).inverse_indices, np.unique_inverse(b).inverse_indices


def _covariance_pair(true_cov: ArrayLike, est_cov: ArrayLike) -> tuple[FloatArray, FloatArray]:
    sigma, estimate = (np.asarray(values, dtype=np.float64) for values in (true_cov, est_cov))
    for name, values in (("true_cov", sigma), ("est_cov", estimate)):
        if values.ndim != 2 or values.shape[0] != values.shape[1] or values.size == 0:
            raise ValueError(f"{name} must be a square matrix, got shape {values.shape}")
        if not np.isfinite(values).all():
            raise ValueError(f"{name} has an entry that is not finite: {values[~np.isfinite(values)][0]}")
    if sigma.shape != estimate.shape:
        raise ValueError(f"true_cov has shape {sigma.shape} and est_cov {estimate.shape}; they must be equal")
    return sigma, estimate


def _cholesky(covariance: FloatArray, name: str) -> FloatArray:
    """Lower Cholesky factor, with singularity judged on the scale-free correlation matrix."""
    variances = covariance.diagonal()
    if variances.min() <= 0:
        raise ValueError(f"{name} is not positive definite: it has a variance of {variances.min():.3g}")
    scale = np.sqrt(variances)
    correlation = covariance / np.outer(scale, scale)
    if not np.allclose(correlation, correlation.T, rtol=0, atol=1e-8):
        raise ValueError(f"{name} is not symmetric")
    # Rounding often lets a singular matrix pass Cholesky with tiny pivots; computed eigenvalues are within
    # p · eps · λ_max of the exact ones, so they do show the zero.
    eigenvalues = np.linalg.eigvalsh(correlation)
    if eigenvalues[0] <= len(scale) * np.finfo(float).eps * eigenvalues[-1]:
        raise ValueError(
            f"{name} is singular: the smallest eigenvalue of its correlation matrix is {eigenvalues[0]:.3g}; "
            "add a ridge first"
        )
    return np.asarray(scale[:, None] * np.linalg.cholesky(correlation))


def npmi_coherence(groups: Partition | ArrayLike | Sequence[ArrayLike], document_term_matrix: Any) -> float:
    """Mean normalized pointwise mutual information of the terms of a group, averaged over the groups.

    NPMI(i, j) = log(p_ij / (p_i p_j)) / −log p_ij, where p_i is the share of documents that hold term i and p_ij the
    share that hold both: −1 for terms that never occur together, 0 by chance, 1 for terms that only occur together. The
    mean is over the pairs of a group first; a group of one term has no pairs and is left out.

    Parameters
    ----------
    groups : Partition, array-like of shape (p,), or sequence of sequences of int
        The group of each term, or the columns of each group; those may overlap, like the top words of topics.
    document_term_matrix : array or sparse matrix of shape (N, p)
        A document holds a term if the entry is not 0.

    Returns
    -------
    float

    Examples
    --------
    >>> held = [[1, 1, 0, 0], [1, 1, 0, 1], [0, 0, 1, 0], [0, 0, 1, 1]]
    >>> npmi_coherence([0, 0, 1, 1], held)
    0.5
    >>> npmi_coherence([[0, 1]], held)
    1.0
    """
    given: Any = document_term_matrix
    values: Any = given if sparse.issparse(given) else np.asarray(given)
    holds = sparse.csr_array(values).astype(bool).astype(float)
    scores = []
    for columns in _column_groups(groups, int(holds.shape[1])):
        if len(columns) > 1:
            terms = holds[:, columns]
            together = (terms.T @ terms).toarray() / holds.shape[0]
            alone = together.diagonal()
            with np.errstate(divide="ignore", invalid="ignore"):
                npmi = np.log(together / np.outer(alone, alone)) / -np.log(together)
            # Limits: a pair that never occurs together, and one that is in every document.
            npmi = np.where(together == 0, -1.0, np.where(together == 1, 1.0, npmi))
            scores.append(float(npmi[np.triu_indices(len(columns), 1)].mean()))
    if not scores:
        raise ValueError("no group has two terms, so none has a coherence")
    return float(np.mean(scores))


def _column_groups(groups: Any, p: int) -> list[IntArray]:
    """Columns of each group, from labels or from the columns themselves."""
    if isinstance(groups, Partition) or np.ndim(next(iter(groups), 0)) == 0:
        labels = _labels(groups, "groups")
        if len(labels) != p:
            raise ValueError(f"groups has {len(labels)} labels for the {p} columns of document_term_matrix")
        return [np.flatnonzero(labels == label) for label in np.unique(labels)]
    listed = [np.asarray(columns, dtype=np.intp) for columns in groups]
    for columns in listed:
        if len(columns) and (columns.min() < 0 or columns.max() >= p):
            raise ValueError(
                f"groups holds columns {columns.min()} to {columns.max()}, but document_term_matrix has {p} of them"
            )
    return listed
