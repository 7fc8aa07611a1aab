"""Signs: column groups held together by negative correlations, which the factor mixture cannot express.

Rows and fitted parameters come in; the groups that have a significantly negative correlation, worst first, go out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from blockmix.em.factor.first import correlations, tree_columns
from blockmix.em.factor.parameters import FactorModel, FactorParameters
from blockmix.em.factor.sweep import responsibilities
from blockmix.grouping.hierarchical import HierarchicalGrouping
from blockmix.rows import Rows
from blockmix.structure.types import FloatArray, IntArray

_LEVEL = 0.01  # chance that a component without negative correlations is named


class NegativeGroup(NamedTuple):
    """A component, columns that are related in it, and their most negative correlation."""

    component: int
    columns: list[int]
    pair: tuple[int, int]
    correlation: float

    def describe(self, names: list[str], labels: IntArray) -> str:
        """A sentence with the names of the columns and the groups (G, p) that the fit has put them in."""
        listed = ", ".join(names[j] for j in self.columns[:8]) + (", …" if len(self.columns) > 8 else "")
        first, second = (f"{names[j]} (fitted in group {labels[self.component, j]})" for j in self.pair)
        return (
            f"columns {listed} of component {self.component} form a group with negative correlations, "
            f"{self.correlation:.2f} between {first} and {second}"
        )


def negative_groups(rows: Rows, parameters: FactorParameters, model: FactorModel) -> list[NegativeGroup]:
    """Groups of the tree on 1 − |R| within a component that have a negative correlation, worst first.

    The fit itself avoids groups with negative correlations by parting their columns, so these are the groups that signs
    do not matter to. A correlation counts below −tanh(u / √(n − 3)), with u the normal quantile for all pairs.
    """
    z = responsibilities(rows, parameters)
    columns = tree_columns(rows.n_columns)
    found: list[NegativeGroup] = []
    for g, R in enumerate(correlations(rows, z, parameters.means, columns, model)):
        found += _negative(g, R, columns, float(parameters.weights[g] * rows.total_weight), model.n_groups)
    return sorted(found, key=lambda group: group.correlation)


def _negative(g: int, R: FloatArray, columns: IntArray, n: float, n_groups: int) -> list[NegativeGroup]:
    pairs = len(R) * (len(R) - 1) // 2
    if n <= 4 or pairs == 0:
        return []
    least = -np.tanh(norm.isf(_LEVEL / pairs) / np.sqrt(n - 3))
    if R.min() >= least:
        return []
    found = []
    for group in HierarchicalGrouping().group(R, min(n_groups, len(R))).partition.groups:
        block = R[np.ix_(group, group)]
        i, j = np.unravel_index(int(np.argmin(block)), block.shape)
        if block[i, j] < least:
            pair = (int(columns[group[i]]), int(columns[group[j]]))
            found.append(NegativeGroup(g, [int(columns[k]) for k in group], pair, float(block[i, j])))
    return found
