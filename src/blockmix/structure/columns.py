"""Columns: their names in messages and printed groups.

Names come from the data frame an estimator was fitted on, or are x0, x1, … as in scikit-learn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray


def column_names(estimator: Any) -> list[str]:
    """Return the column names of the table that an estimator was fitted on."""
    if hasattr(estimator, "feature_names_in_"):
        return [str(name) for name in estimator.feature_names_in_]
    return [f"x{j}" for j in range(estimator.n_features_in_)]


def refuse_constant(mean: FloatArray, variances: FloatArray, names: list[str], dtype: Any = None) -> None:
    """Raise a ValueError that names the first column without variation."""
    large = np.flatnonzero(~np.isfinite(variances))
    if len(large):
        raise ValueError(
            f"column {large[0]} ({names[large[0]]!r}) has values so large that their squares are not finite: "
            "divide it by a power of ten"
        )
    noise = (8 * np.finfo(dtype or variances.dtype).eps * np.abs(mean)) ** 2
    constant = np.flatnonzero(~(variances > noise))
    if len(constant):
        j = int(constant[0])
        others = f" (and {len(constant) - 1} more)" if len(constant) > 1 else ""
        raise ValueError(
            f"column {j} ({names[j]!r}){others} is constant at {float(mean[j]):g}: "
            "remove it, it has no correlation with others"
        )


def grouped_names(partition: Partition, names: list[str]) -> list[list[str]]:
    """Return the column names of each group."""
    return [[names[j] for j in group] for group in partition.groups]


def describe(partition: Partition, names: list[str], width: int = 110) -> str:
    """Text with one line per group of several columns, largest first, and one line for all single columns."""
    groups = sorted(grouped_names(partition, names), key=len, reverse=True)
    alone = [group[0] for group in groups if len(group) == 1]
    K, p = partition.n_groups, partition.n_columns
    lines = [f"{K} group{'' if K == 1 else 's'} of {p} column{'' if p == 1 else 's'}"]
    lines += [_line(f"  {len(group)} together: ", group, width) for group in groups if len(group) > 1]
    if alone:
        lines.append(_line(f"  {len(alone)} alone: ", alone, width))
    return "\n".join(lines)


def _line(head: str, names: list[str], width: int) -> str:
    text = head + ", ".join(names)
    return text if len(text) <= width else text[: width - 2].rsplit(", ", 1)[0] + ", …"
