"""Components: the maps of the correlations, the tree of the columns and the groups, for each component."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from blockmix.partition import leading_loadings
from blockmix.plotting.binning import binned, bins
from blockmix.plotting.views import ComponentView, component_view
from blockmix.report.pixels import encoded, triangle, two_triangles
from blockmix.report.subject import Subject
from blockmix.report.wording import finite

_MOST_PIXELS = 2_400_000  # of all correlation maps together: 3.2 MB as base64
MOST_SIDE = 800  # of one map: few screens show it wider


def components(subject: Subject) -> list[dict[str, Any]]:
    """Maps, tree and groups of each component."""
    # One view at a time: the p × p matrices of all components may not fit into memory.
    n_maps = len(subject.column_labels) * (1 if subject.stability is None else 1.5)
    side = min(MOST_SIDE, int(np.sqrt(_MOST_PIXELS / n_maps)))
    return [_component(name, view, side, subject, g) for g, (name, view) in enumerate(_views(subject))]


def _views(subject: Subject) -> Iterator[tuple[str, ComponentView]]:
    """View of each component in turn; a shared covariance has one, of the rows minus their component's mean."""
    model, X, probabilities = subject.model, subject.X, subject.probabilities
    if not subject.is_mixture:
        yield "All rows", component_view(model.blocks_, X, None, model)
        return
    if subject.is_shared:
        residuals = None if X is None else X - model.means_[subject.row_labels]
        yield "All components", component_view(model.blocks_[0], residuals, None, model)
        return
    for g, block in enumerate(model.blocks_):
        weights = None if probabilities is None else np.ascontiguousarray(probabilities[:, g])
        yield f"Component {g}", component_view(block, X, weights, model)


def _component(name: str, view: ComponentView, side: int, subject: Subject, g: int) -> dict[str, Any]:
    order, found = view.order, subject.stability
    cells = bins(view.partition.n_columns, side)

    def shrunk(matrix: Any) -> Any:
        return None if matrix is None else binned(matrix[np.ix_(order, order)], cells, cells)

    return {
        "name": name,
        "labels": view.partition.labels.tolist(),
        "merges": view.tree[:, :2].astype(int).ravel().tolist(),
        "heights": np.round(view.tree[:, 2], 4).tolist(),
        "leaves": order.tolist(),
        "minGroups": view.min_groups,
        "isCut": view.is_cut,
        "observed": view.observed is not None,
        "starts": cells.tolist(),
        "pixels": encoded(two_triangles(shrunk(view.observed), shrunk(view.estimated))),
        "pairs": None if found is None else encoded(triangle(shrunk(found.pairs[g]))),
        "strength": _strengths(view),
    }


def loadings(model: Any) -> list[list[float | None]] | None:
    """Correlation of each column with the factor of its group, by component; None for a model without loadings."""
    if not hasattr(model, "loadings_"):
        return None
    single = hasattr(model, "partition_")
    each = [(model.blocks_, model.loadings_)] if single else list(zip(model.blocks_, model.loadings_, strict=True))
    return [[finite(value) for value in leading_loadings(*own).tolist()] for own in each]


def _strengths(view: ComponentView) -> list[float | None]:
    """Mean absolute correlation between the columns of each group, None for a column alone."""
    R = np.abs(view.estimated if view.observed is None else view.observed)
    found: list[float | None] = []
    for group in view.partition.groups:
        c = len(group)
        found.append(None if c == 1 else round(float((R[np.ix_(group, group)].sum() - c) / (c * (c - 1))), 3))
    return found
