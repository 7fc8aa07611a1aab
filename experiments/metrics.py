"""Metrics: how close a partition is to the true one, and how well the terms of a group go together.

A partition is a `Partition` or one label per item; each function returns one number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix

from blockmix.partition import IntArray, Partition

__all__ = [
    "adjusted_rand",
    "matched_accuracy",
    "npmi_coherence",
]


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


def _labels(labels: Partition | ArrayLike, name: str) -> NDArray[Any]:
    values = np.asarray(labels.labels if isinstance(labels, Partition) else labels)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"{name} must be a non-empty vector of labels, got shape {values.shape}")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(f"{name} has a label that is not finite: {values[~np.isfinite(values)][0]}")
    return values


def _label_pair(true: Partition | ArrayLike, found: Partition | ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    a, b = _labels(true, "true"), _labels(found, "found")
    if len(a) != len(b):
        raise ValueError(f"true has {len(a)} labels and found has {len(b)}; both must label the same items")
    return a, b


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
    every = np.concatenate([*listed, np.zeros(1, dtype=np.intp)])
    if every.min() < 0 or every.max() >= p:
        raise ValueError(f"groups holds columns {every.min()} to {every.max()}, but document_term_matrix has {p}")
    return listed
