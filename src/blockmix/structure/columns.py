"""Columns: their names in messages and printed groups.

Names come from the data frame an estimator was fitted on, or are x0, x1, … as in scikit-learn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from blockmix.structure.block_models import FULL
from blockmix.structure.blocks import BlockCovariance
from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray


def column_names(estimator: Any) -> list[str]:
    """Return the column names of the table that an estimator was fitted on."""
    if hasattr(estimator, "feature_names_in_"):
        return [str(name) for name in estimator.feature_names_in_]
    return [f"x{j}" for j in range(estimator.n_features_in_)]


def refuse_constant(mean: FloatArray, variances: FloatArray, names: list[str], dtype: Any = None) -> None:
    """Raise a ValueError that names the first column without values, whose mean is NaN, or without variation.

    Values whose squares are out of the range of the type are refused as well.
    """
    limits = np.finfo(dtype or variances.dtype)
    with np.errstate(over="ignore"):
        noise = (8 * limits.eps * np.abs(mean)) ** 2
        vanishing = (variances < limits.tiny) & (mean != 0) & (mean**2 < limits.tiny)
    for wrong, message in (
        (np.isnan(mean), "has no values: remove it"),
        (
            ~(variances <= limits.max),
            f"has values so large that their squares are not finite in {limits.dtype}: divide it by a power of ten",
        ),
        (
            vanishing,
            f"has values so small that their squares vanish in {limits.dtype}: multiply it by a power of ten",
        ),
        (~(variances > noise), "is constant at {mean:g}: remove it, it has no correlation with others"),
    ):
        found = np.flatnonzero(wrong)
        if len(found):
            j = int(found[0])
            others = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            raise ValueError(f"column {j} ({names[j]!r}){others} {message.format(mean=float(mean[j]))}")


def leading_loadings(covariance: BlockCovariance, loadings: Sequence[FloatArray | None]) -> FloatArray:
    """Correlation of each column with the strongest factor of its group, shape (p,); NaN where there is no factor.

    Parameters
    ----------
    covariance : BlockCovariance
    loadings : sequence of K arrays of shape (c, q), or None
        Loadings of the columns of each group, strongest factor first, in the units of the covariance.
    """
    found = np.full(covariance.partition.n_columns, np.nan)
    for group, own in zip(covariance.partition.groups, loadings, strict=True):
        if own is not None:
            found[group] = own[:, 0]
    return np.asarray(found / np.sqrt(covariance.variances))


class ColumnEntry(NamedTuple):
    """One column in one component, as in `columns.csv` and on the page.

    `loading` is the correlation with the strongest factor of the group, NaN where there is no factor.
    """

    component: int
    column: str
    group: int
    size: int
    loading: float
    alone: bool


def column_entries(g: int, names: list[str], partition: Partition, loadings: FloatArray) -> Iterator[ColumnEntry]:
    """An entry for each column of component g, in the order of the table; loadings have shape (p,)."""
    for name, k, loading in zip(names, partition.labels.tolist(), loadings.tolist(), strict=True):
        size = int(partition.sizes[k])
        yield ColumnEntry(g, name, k, size, loading, size == 1)


def grouped_names(partition: Partition, names: list[str]) -> list[list[str]]:
    """Return the column names of each group."""
    return [[names[j] for j in group] for group in partition.groups]


def describe(partition: Partition, names: list[str], shapes: Sequence[str] = (), width: int = 110) -> str:
    """Text with one line per group of several columns, largest first, and one line for all columns alone.

    Shapes of the blocks are mentioned where they are not full.
    """
    groups = grouped_names(partition, names)
    together = [group for group in groups if len(group) > 1]
    alone = [group[0] for group in groups if len(group) == 1]
    p, n = partition.n_columns, len(together)
    head = f"{p} column{'' if p == 1 else 's'}: {n or 'no'} group{'' if n == 1 else 's'}"
    if n == 1 and not alone and shapes and shapes[0] != FULL.name:
        head += ": all columns are correlated, no part of them stands out"
    lines = [head + (f", {len(alone)} alone" if together and alone else "")]
    for k, group in enumerate(together):
        shape = f", {shapes[k]}" if shapes and shapes[k] != FULL.name else ""
        lines.append(_line(f"  group {k} ({len(group)}{shape}): ", group, width))
    if alone:
        lines.append(_line(f"  alone ({len(alone)}): ", alone, width))
    return "\n".join(lines)


def _line(head: str, names: list[str], width: int) -> str:
    text = head + ", ".join(names)
    return text if len(text) <= width else text[: width - 2].rsplit(", ", 1)[0] + ", …"
