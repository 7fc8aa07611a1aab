"""The lines of the csv files: rows and their clusters, columns and their groups, candidates, stability."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from blockmix.blocks.blocks import Blocks
from blockmix.estimators.gaussian import limits
from blockmix.estimators.mixture import Mixture, most_probable, probabilities
from blockmix.estimators.validation import rows_to_score
from blockmix.partition import FloatArray, Partition, column_names, leading_loadings
from blockmix.rows import Chunk, one_blas_thread
from blockmix.selection import CRITERIA

COLUMN_HEAD = ("column", "group", "size", "loading")
_FAR_HEAD = ("outlier_score", "outlier", "farthest_group")


def row_head(model: Any, cluster: str = "cluster") -> list[str]:
    """The header of the lines of `row_lines`."""
    return ["row", cluster, "probability", *(_FAR_HEAD if hasattr(model, "outlier_scores_") else ())]


def row_lines(model: Any, X: Any, row_names: Sequence[object]) -> Iterator[tuple[Any, ...]]:
    """Row name, cluster and its probability, and how far the row is from its cluster, as the rows are read.

    The farthest group is the number of a column group of the cluster, or the name of a column alone.
    """
    start = 0
    for clusters, largest, far in _assigned(model, X):
        names = row_names[start : start + len(clusters)]
        start += len(clusters)
        cells = zip(map(str, names), clusters.tolist(), (f"{p:.6g}" for p in largest.tolist()), *far, strict=True)
        yield from cells


def _assigned(model: Any, X: Any) -> Iterator[tuple[Any, FloatArray, list[list[str]]]]:
    """Clusters, their probabilities and further columns of text, chunk by chunk."""
    if not isinstance(model, Mixture):
        found = model.predict_proba(X)
        yield np.where(found.any(axis=1), found.argmax(axis=1), -1), found.max(axis=1), []  # -1: a text without a topic
        return
    is_far = hasattr(model, "outlier_scores_")
    describe = model._describer() if is_far else None
    most = limits(model.n_features_in_)
    groups = group_texts(model) if is_far else []
    rows = rows_to_score(model, X)
    with one_blas_thread():
        for joint, far in rows.map(partial(_chunk, scorer=model._scorer(), describe=describe)):
            clusters, cells = most_probable(joint), list[list[str]]()
            if far is not None:
                scores = far["outlier_scores_"]
                cells.append([f"{score:.4g}" for score in scores.tolist()])
                cells.append(["yes" if beyond else "no" for beyond in (scores > most[far["n_values_"]]).tolist()])
                pairs = zip(clusters.tolist(), far["outlier_groups_"].tolist(), strict=True)
                cells.append([groups[g][k] for g, k in pairs])
            yield clusters, probabilities(joint).max(axis=1), cells


def _chunk(chunk: Chunk, scorer: Any, describe: Any) -> tuple[FloatArray, dict[str, Any] | None]:
    joint: FloatArray = scorer(chunk)
    return joint, None if describe is None else describe(chunk, most_probable(joint))


def group_texts(model: Any) -> list[list[str]]:
    """The number of each column group of each component, or the name of a column alone."""
    names = column_names(model)
    found = []
    for labels in model.column_labels_:
        groups = Partition(labels).groups
        found.append([str(k) if len(group) > 1 else names[group[0]] for k, group in enumerate(groups)])
    return found


def column_lines(
    names: list[str], covariance: Blocks, loadings: Sequence[FloatArray | None] | None
) -> Iterator[tuple[str, int | str, int, str]]:
    """Column name, group, size of the group and loading, the correlation with the strongest factor of the group."""
    labels, sizes = covariance.partition.labels.tolist(), covariance.partition.sizes.tolist()
    own = np.full(len(names), np.nan) if loadings is None else leading_loadings(covariance, loadings)
    for name, label, loading in zip(names, labels, own.tolist(), strict=True):
        group = label if sizes[label] > 1 else "alone"
        yield name, group, sizes[label], "" if np.isnan(loading) else f"{loading:.3f}"


def selection_line(row: Any, stability: bool) -> dict[str, Any]:
    """A candidate of a comparison, with its least stable cluster if that was measured."""
    return {
        "n_components": row.n_components,
        "n_column_groups": row.n_column_groups,
        **row.kind,
        "n_parameters": row.n_parameters,
        "groups": " ".join(map(str, row.groups)),
        **values(row),
        **({"least_stable": row.least_stable} if stability else {}),
        "seconds": row.seconds,
        "outcome": row.outcome,
    }


def values(row: Any) -> dict[str, float]:
    """Log-likelihood and criteria of a candidate."""
    return {name: getattr(row, name) for name in ("log_likelihood", *CRITERIA)}
