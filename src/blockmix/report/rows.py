"""Rows: how certain each is of its component, which others are near, which are far, and a map of all."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler
from sklearn.utils.extmath import randomized_svd

from blockmix.partition import FloatArray
from blockmix.report.differences import Centers
from blockmix.report.pixels import fractions
from blockmix.report.subject import Subject

_NEIGHBORS = 3  # rows named beside a row
_COMPARED = 400  # least certain rows that have neighbors: all pairs of rows would take long


def row_list(subject: Subject) -> dict[str, Any] | None:
    """Certainty, neighbors and distance of each row that is listed; None if rows are not listed."""
    if not subject.is_listed or not subject.is_mixture:
        return None
    return {"certainty": _certainty(subject), "far": _far(subject)}


def _certainty(subject: Subject) -> dict[str, Any] | None:
    """Probability of each row's component and of the next one, and the nearest rows of the least certain ones."""
    z = subject.probabilities
    if z is None or z.shape[1] < 2:
        return None
    own = z.max(axis=1)
    order = np.argsort(z, axis=1, kind="stable")[:, ::-1]
    least = np.argsort(own, kind="stable")[:_COMPARED]
    return {
        "own": fractions(own),
        "next": order[:, 1].tolist(),
        "nextOwn": fractions(np.take_along_axis(z, order[:, 1:2], axis=1)[:, 0]),
        "compared": least.tolist(),
        "neighbors": _neighbors(_standardized(subject), least).tolist(),
    }


def _neighbors(Z: FloatArray, rows: Any) -> Any:
    """The rows nearest to each of the given ones, nearest first, shape (rows, at most 3)."""
    most = min(_NEIGHBORS + 1, len(Z))
    near = NearestNeighbors(n_neighbors=most, algorithm="brute").fit(Z).kneighbors(Z[rows], return_distance=False)
    others = near != np.asarray(rows)[:, None]
    others[others.all(axis=1), -1] = False  # rows like this one may hide it
    return near[others].reshape(len(rows), most - 1)


def _far(subject: Subject) -> dict[str, Any] | None:
    """Distance of each row from its component and the group where it is largest; None for rows that were not fitted."""
    model = subject.model
    labels = subject.row_labels
    known = labels is not None and hasattr(model, "outlier_scores_") and np.array_equal(model.row_labels_, labels)
    if not known:
        return None
    return {
        "scores": [float(f"{score:.4g}") for score in model.outlier_scores_.tolist()],
        "groups": model.outlier_groups_.tolist(),
        "outliers": np.flatnonzero(model.outliers_).tolist(),
    }


def row_map(subject: Subject) -> dict[str, Any] | None:
    """The rows on two axes that separate the components; principal axes where there are too few components."""
    X, labels = subject.X, subject.row_labels
    if X is None or labels is None or X.shape[1] < 2 or len(X) < 3:
        return None
    sample = subject.sample
    Z = _standardized(subject)[sample]
    scores, names = _axes(subject, Z)
    low, high = np.quantile(scores, [0.005, 0.995], axis=0)
    room = 0.25 * np.maximum(high - low, np.finfo(float).tiny)
    low, high = np.maximum(low - room, scores.min(axis=0)), np.minimum(high + room, scores.max(axis=0))
    places = (scores - low) / np.maximum(high - low, np.finfo(float).tiny)
    return {
        "x": fractions(places[:, 0]),
        "y": fractions(places[:, 1]),
        "low": np.round(low, 4).tolist(),
        "high": np.round(high, 4).tolist(),
        "beyond": int(((places < 0) | (places > 1)).any(axis=1).sum()),
        "names": names,
        "rows": None if len(sample) == len(X) else sample.tolist(),
        "components": labels[sample].tolist(),
    }


def _standardized(subject: Subject) -> FloatArray:
    """Rows in standard deviations within components from the overall mean."""
    X = subject.filled
    assert X is not None
    if not subject.is_mixture:
        return np.asarray(StandardScaler().fit_transform(X.astype(float)))
    centers = Centers.of(subject.model)
    return np.asarray((X - centers.overall) / centers.scale)


def _axes(subject: Subject, Z: FloatArray) -> tuple[FloatArray, list[str]]:
    """Scores of the rows on two axes, shape (N, 2), and the names of the axes."""
    directions, shares = _discriminants(subject)
    scores = [Z @ direction for direction in directions.T]
    names = [f"discriminant axis {k + 1}, {share:.0%} of the differences" for k, share in enumerate(shares)]
    residual = Z - Z.mean(axis=0)
    total = float(np.square(residual).sum())
    for score in scores:
        residual = _without(residual, score)
    for k in range(2 - len(scores)):
        U, s, _ = randomized_svd(residual, 1, random_state=0)
        scores.append(U[:, 0] * s[0])
        names.append(f"principal axis {k + 1}, {s[0] ** 2 / total:.0%} of the variance")
        residual = _without(residual, scores[-1])
    return np.stack(scores, axis=1), names


def _discriminants(subject: Subject) -> tuple[FloatArray, list[float]]:
    """At most two directions v of largest vᵀBv / vᵀWv for standardized rows, shape (p, ≤ 2), and their shares.

    B = Σ_g π_g (μ_g − μ)(μ_g − μ)ᵀ has rank G − 1, so they are W⁻¹M u, where B = MMᵀ and u are the leading eigenvectors
    of MᵀW⁻¹M. W is the fitted covariance within components.
    """
    if not subject.is_mixture or len(subject.model.weights_) < 2:
        return np.empty((subject.model.n_features_in_, 0)), []
    centers = Centers.of(subject.model)
    W = np.zeros((len(centers.scale),) * 2)
    for weight, block in zip(centers.weights, subject.model.blocks_, strict=True):
        W += weight * block.dense()
    W /= np.outer(centers.scale, centers.scale)
    M = (centers.standardized() * np.sqrt(centers.weights)[:, None]).T
    solved = np.linalg.solve(W, M)
    values, vectors = np.linalg.eigh(M.T @ solved)
    kept = [k for k in (-1, -2) if values[k] > 1e-6]
    V = solved @ vectors[:, kept] / np.sqrt(values[kept])
    return V, [float(values[k] / values[values > 0].sum()) for k in kept]


def _without(residual: FloatArray, score: FloatArray) -> FloatArray:
    """Residual of the regression of the columns on a score."""
    centered = score - score.mean()
    square = float(centered @ centered)
    return residual if square == 0 else residual - np.outer(centered, centered @ residual / square)
