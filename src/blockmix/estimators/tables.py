"""Tables: columns and rows of a fitted model as pandas data frames, in which clusters and groups count from 1.

Groups of different clusters that share most of their columns have one number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from blockmix.partition import FloatArray, IntArray, column_names, leading_loadings
from blockmix.plotting.views import aligned_labels
from blockmix.rows.files import needed


def named(model: Any, kind: str, number: int) -> str:
    """The name of a "cluster" or "group" with this number, which counts from 0; that in `names_`, or its number."""
    name = f"{kind} {number + 1}"
    return str(getattr(model, "names_", {}).get(name, name[0].upper() + name[1:]))


def group_numbers(model: Any) -> IntArray:
    """Group of each column in each cluster, shape (G, p), from 0; matching groups have one number, −1 is alone."""
    labels = aligned_labels(np.atleast_2d(model.column_labels_))
    sizes = np.stack([np.bincount(row, minlength=labels.max() + 1)[row] for row in labels])
    return np.where(sizes > 1, labels, -1)


def ranged(names: Sequence[str]) -> list[str]:
    """Names in which consecutive numbers after the same word are one.

    Examples
    --------
    >>> ranged(["a_1", "a_2", "a_3", "b", "c1", "c3"])
    ['a_1–3', 'b', 'c1', 'c3']
    """
    found: list[list[Any]] = []  # word, first and last number, as written
    for name in names:
        match = re.fullmatch(r"(.*?\D)(\d{1,9})", name)
        word, digits = match.groups() if match else (name, "")
        last = found[-1] if found else ["", "", ""]
        if digits and last[0] == word and last[2] and int(digits) == int(last[2]) + 1:
            last[2] = digits
        else:
            found.append([word, digits, digits])
    short = ((word, a, b) for word, a, b in found)
    return [
        text
        for word, a, b in short
        for text in ([f"{word}{a}"] if a == b else [word + a, word + b] if int(b) == int(a) + 1 else [f"{word}{a}–{b}"])
    ]


def column_table(model: Any) -> Any:
    """The groups of the columns as a pandas data frame; see `Mixture.column_table`."""
    names, numbers = np.array(column_names(model), dtype=object), aligned_labels(np.atleast_2d(model.column_labels_))
    rows = numbers[:1] if getattr(model, "shared_covariance", False) else numbers
    sizes = np.concatenate([np.bincount(row)[row] for row in rows])
    columns: dict[str, Any] = {"column": np.tile(names, len(rows)), "group": rows.ravel() + 1, "size": sizes}
    columns["loading"] = column_loadings(model)[: len(rows)].ravel()
    if any(key.startswith("group") for key in getattr(model, "names_", {})):
        pairs = zip(rows.ravel().tolist(), sizes.tolist(), strict=True)
        columns["name"] = [named(model, "group", k) if size > 1 else "alone" for k, size in pairs]
    frame = needed("pandas", "app").DataFrame(columns)
    if len(rows) > 1:
        frame.insert(0, "cluster", np.repeat(np.arange(1, len(rows) + 1), len(names)))
    return frame


def row_table(model: Any, index: Any, z: FloatArray, described: dict[str, Any]) -> Any:
    """Cluster, probability and distance of the rows as a pandas data frame; see `Mixture.row_table`."""
    labels, G = z.argmax(axis=1), z.shape[1]
    columns: dict[str, Any] = {"cluster": labels + 1}
    if any(key.startswith("cluster") for key in getattr(model, "names_", {})):
        columns["name"] = [named(model, "cluster", g) for g in labels.tolist()]
    columns["probability"] = z.max(axis=1) if G < 2 or model.n_features_in_ <= len(model.row_labels_) else np.nan
    if described:
        scores, groups, seen = (described[name] for name in ("outlier_scores_", "outlier_groups_", "n_values_"))
        limits = model._outlier_limits(new=not np.array_equal(scores, model.outlier_scores_, equal_nan=True))
        columns |= {"outlier_score": scores, "outlier": scores > limits[labels, seen]}
        columns["farthest_group"] = label_numbers(model)[labels, groups]
    return needed("pandas", "app").DataFrame(columns, index=None if callable(index) else index)


def column_loadings(model: Any) -> FloatArray:
    """Correlation of each column with the strongest factor of its group, shape (G, p); NaN where there is no factor."""
    labels = np.atleast_2d(model.column_labels_)
    if not hasattr(model, "loadings_"):
        return np.full(labels.shape, np.nan)
    one = np.ndim(model.column_labels_) == 1  # a covariance
    pairs = [(model.blocks_, model.loadings_)] if one else zip(model.blocks_, model.loadings_, strict=True)
    return np.stack([leading_loadings(*pair) for pair in pairs])


def label_numbers(model: Any) -> IntArray:
    """Number of the group, from 1, of each label of each cluster, shape (G, most labels)."""
    labels = np.atleast_2d(model.column_labels_)
    numbers = np.zeros((len(labels), labels.max() + 1), dtype=np.intp)
    np.put_along_axis(numbers, labels, aligned_labels(labels) + 1, axis=1)
    return numbers
