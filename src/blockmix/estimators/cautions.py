"""Cautions: what a fit that ended well may still mislead about.

Parameters in standardized columns and the size of the table come in; sentences for the user go out.
"""

from __future__ import annotations

import math

import numpy as np

from blockmix.em.block.parameters import Parameters
from blockmix.em.family import MixtureParameters
from blockmix.rows import Rows

_SMALL = 0.2  # of an equal share of the rows, below which a component is looked at
_WIDE = 10.0  # times the variance of the other components, from which its rows are far ones


class CautionWarning(UserWarning):
    """The fit ended well, but its clusters may not be what they seem."""


def cautions(parameters: MixtureParameters, rows: Rows, log_likelihood: float) -> list[str]:
    """Sentences about a mixture whose rows have this log-likelihood in standardized columns."""
    G, p = parameters.means.shape
    if G == 1:
        return []
    found = []
    if p > rows.n_rows:
        found.append(
            f"X has more columns than rows ({p} and {rows.n_rows}): the likelihood cannot tell which rows belong "
            "together, so the clusters are those of the start; compare the answers of modes(X)"
        )
    if isinstance(parameters, Parameters):
        found += _far_components(parameters, rows.total_weight)
        alone = -0.5 * rows.total_weight * p * (1 + math.log(2 * math.pi))
        exact = not rows.has_gaps and not len(rows.resolution.columns)  # else that likelihood takes a pass of its own
        if log_likelihood < alone and exact:
            one = "one component with independent columns"
            found.append(f"{G} components have a lower likelihood than {one}: ask for fewer of them")
    return found


def _far_components(parameters: Parameters, total: float) -> list[str]:
    """Sentences about small components whose rows lie far apart."""
    counts = parameters.weights * total
    small = np.flatnonzero((parameters.weights < _SMALL / len(counts)) & (counts >= 1))
    traces = np.bincount(
        parameters.layout.owner, parameters.factors**2
    )  # tr Σ = Σ L_ij²: factors are 0 above the diagonal
    spread = np.tile(traces, parameters.layout.n_sharing)
    found = []
    for g in small:
        others = np.delete(np.arange(len(counts)), g)
        ratio = spread[g] / np.average(spread[others], weights=counts[others])
        if ratio > _WIDE:
            found.append(
                f"component {g} holds {counts[g]:.0f} rows that are spread {ratio:.0f} times as wide as the others: "
                'these may be outliers and not a cluster; try tails="t"'
            )
    return found
