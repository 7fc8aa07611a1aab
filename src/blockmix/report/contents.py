"""Contents of a report as one JSON document: numbers, texts and encoded pictures.

Nothing here knows HTML: the page inserts every text of the document as text.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np

from blockmix.metrics import adjusted_rand, matched_accuracy
from blockmix.persistence.model_file import installed_version
from blockmix.plotting.binning import binned, bins
from blockmix.plotting.views import ComponentView, aligned_labels, board_view, component_view
from blockmix.report.pixels import encoded, two_triangles
from blockmix.report.subject import Subject
from blockmix.selection.table import CRITERIA, SelectionTable
from blockmix.structure.blocks import BlockCovariance
from blockmix.structure.columns import column_names, leading_loadings
from blockmix.structure.types import IntArray

_MOST_PIXELS = 3_200_000  # of all correlation maps together: 4.3 MB as base64
_MOST_SIDE = 800  # of one map: few screens show it wider
_MOST_ROWS = 480  # rows of pixels of the checkerboard
_SAMPLED_ROWS = 20_000  # rows the checkerboard is drawn from: 480 rows of pixels need no more
_LISTED_ROWS = 20_000  # beyond this, rows are not listed by name
_LISTED_CLASSES = 20  # the smallest classes beyond this are added up: nobody reads a wider table


def contents(subject: Subject, title: str, command: str | None) -> dict[str, Any]:
    """The JSON document of a page."""
    # One view at a time: the p × p matrices of all components may not fit into memory.
    views = [_component(name, view, len(subject.column_labels)) for name, view in _views(subject)]
    classes = _classes(subject)
    listed = subject.row_labels is not None and subject.n_rows <= _LISTED_ROWS
    return {
        "title": title,
        "estimator": type(subject.model).__name__,
        "columns": column_names(subject.model),
        "rowNames": [_short(str(name)) for name in subject.row_names]
        if listed and subject.row_names is not None
        else None,
        "rowLabels": subject.row_labels.tolist() if listed else None,  # type: ignore[union-attr]
        "facts": _facts(subject, classes),
        "summaries": _summaries(subject),
        "labels": subject.column_labels.tolist(),
        "loadings": _loadings(subject.model),
        "families": aligned_labels(subject.column_labels).tolist(),
        "views": views,
        "checkerboard": _checkerboard(subject, np.array(views[0]["leaves"])),
        "classes": classes,
        "selection": _selection(subject.table),
        "trace": _trace(subject.model),
        "warnings": _warnings(subject.model),
        "hasRows": subject.X is not None,
        "isMixture": subject.is_mixture,
        "made": _made(subject.model, command),
    }


def _views(subject: Subject) -> Iterator[tuple[str, ComponentView]]:
    """View of each component in turn; a shared covariance has one, of the rows minus their component's mean."""
    model, X, probabilities = subject.model, subject.X, subject.probabilities
    if not subject.is_mixture:
        yield "All rows", component_view(model.blocks_, X, None, model)
        return
    blocks = model.blocks_
    if len(blocks) > 1 and all(block is blocks[0] for block in blocks):
        residuals = None if X is None else X - model.means_[subject.row_labels]
        yield "All components", component_view(blocks[0], residuals, None, model)
        return
    for g, block in enumerate(blocks):
        weights = None if probabilities is None else np.ascontiguousarray(probabilities[:, g])
        yield f"Component {g}", component_view(block, X, weights, model)


def _component(name: str, view: ComponentView, n_views: int) -> dict[str, Any]:
    p, order = view.partition.n_columns, view.order
    cells = bins(p, min(_MOST_SIDE, int(np.sqrt(_MOST_PIXELS / n_views))))
    estimated = binned(view.estimated[np.ix_(order, order)], cells, cells)
    observed = None if view.observed is None else binned(view.observed[np.ix_(order, order)], cells, cells)
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
        "pixels": encoded(two_triangles(observed, estimated)),
        "strength": _strengths(view),
    }


def _loadings(model: Any) -> list[list[float | None]] | None:
    """Correlation of each column with the factor of its group, by component; None for a model without loadings."""
    if not hasattr(model, "loadings_"):
        return None
    single = isinstance(model.blocks_, BlockCovariance)
    each = [(model.blocks_, model.loadings_)] if single else list(zip(model.blocks_, model.loadings_, strict=True))
    found = [leading_loadings(*own).tolist() for own in each]
    return [[_finite(value) for value in own] for own in found]


def _strengths(view: ComponentView) -> list[float | None]:
    """Mean absolute correlation between the columns of each group, None for a column alone."""
    R = np.abs(view.estimated if view.observed is None else view.observed)
    found: list[float | None] = []
    for group in view.partition.groups:
        c = len(group)
        found.append(None if c == 1 else round(float((R[np.ix_(group, group)].sum() - c) / (c * (c - 1))), 3))
    return found


def _checkerboard(subject: Subject, leaves: IntArray) -> dict[str, Any] | None:
    """Standardized rows sorted by component, as pixels; columns as in the table unless they are too many."""
    if subject.X is None or subject.row_labels is None:
        return None
    N, p = subject.X.shape
    sample = np.unique(np.linspace(0, N - 1, min(N, _SAMPLED_ROWS)).astype(int))
    labels, columns = subject.row_labels[sample], np.arange(p) if p <= _MOST_SIDE else leaves
    board = board_view(subject.X[sample], labels, columns, (_MOST_ROWS, _MOST_SIDE))
    return {
        "pixels": encoded(board.values, board.limit),
        "limit": round(board.limit, 3),
        "rowStarts": board.row_bins.tolist(),
        "rowComponents": labels[board.order[board.row_bins[:-1]]].tolist(),
        "rows": board.order.tolist() if len(board.values) == N else None,
        "sampled": len(sample),
        "total": N,
        "columns": columns.tolist(),
        "starts": board.column_bins.tolist(),
    }


def _facts(subject: Subject, classes: dict[str, Any] | None) -> list[dict[str, str]]:
    """The key figures at the top of the page."""
    model, labels, probabilities = subject.model, subject.row_labels, subject.probabilities
    facts: list[dict[str, str]] = []

    def add(name: str, value: str, note: str = "") -> None:
        facts.append({"name": name, "value": value, "note": note})

    if labels is not None:
        add("Rows", _grouped(len(labels)))
    add("Columns", _grouped(model.n_features_in_))
    if subject.is_mixture:
        add("Components", str(len(model.weights_)), "row clusters")
    numbers = [int((np.bincount(row) > 1).sum()) for row in subject.column_labels]
    note = "of several columns" + (", in each component" if subject.is_mixture else "")
    add("Column groups", " · ".join(map(str, numbers[:8])) + (" …" if len(numbers) > 8 else ""), note)
    if subject.X is not None:
        criteria = model._criteria(subject.data, None) if subject.is_mixture else {}
        for name in (n for n in ("bic", "icl") if n in criteria):
            add(name.upper(), _grouped(criteria[name], 1), "smaller is better")
    if subject.is_mixture and hasattr(model, "outcome_"):
        add("Outcome", str(model.outcome_), f"after {model.n_iter_} iteration{'' if model.n_iter_ == 1 else 's'}")
    if probabilities is not None and probabilities.shape[1] > 1:
        certain = float((probabilities.max(axis=1) >= 0.9).mean())
        add("Clear rows", f"{100 * certain:.1f}\u00a0%", "probability at least 0.9")
    if classes is not None:
        add("Agreement", f"{classes['ari']:.2f}", "adjusted Rand index with the known classes")
    return facts


def _summaries(subject: Subject) -> list[dict[str, Any]]:
    """One table row per component."""
    G, labels, probabilities = len(subject.column_labels), subject.row_labels, subject.probabilities
    weights = subject.model.weights_ if subject.is_mixture else np.ones(1)
    counts = None if labels is None else np.bincount(labels, minlength=G)
    lines = []
    for g, groups in enumerate(subject.column_labels):
        sizes = np.bincount(groups)
        own = None if probabilities is None or labels is None else probabilities[labels == g, g]
        lines.append(
            {
                "rows": None if counts is None else int(counts[g]),
                "weight": round(float(weights[g]), 4),
                "groups": int((sizes > 1).sum()),
                "largest": int(sizes.max()),
                "alone": int((sizes == 1).sum()),
                "certainty": None if own is None or len(own) == 0 else round(float(own.mean()), 4),
            }
        )
    return lines


def _classes(subject: Subject) -> dict[str, Any] | None:
    """Components by known class, over the rows whose class is known."""
    if subject.classes is None or subject.row_labels is None:
        return None
    names, codes = subject.classes.names, subject.classes.codes
    known = codes >= 0
    if not known.any():
        return None
    found, codes = subject.row_labels[known], codes[known]
    G, C = len(subject.column_labels), len(names)
    counts = np.bincount(found * C + codes, minlength=G * C).reshape(G, C)
    largest = np.argsort(-counts.sum(axis=0), kind="stable")
    listed, others = np.sort(largest[:_LISTED_CLASSES]), largest[_LISTED_CLASSES:]
    return {
        "names": [names[k] for k in listed],
        "counts": counts[:, listed].tolist(),
        "others": len(others),
        "otherCounts": counts[:, others].sum(axis=1).tolist(),
        "unknown": int(len(known) - known.sum()),
        "ari": round(adjusted_rand(codes, found), 4),
        "accuracy": round(matched_accuracy(codes, found), 4),
    }


def _selection(table: SelectionTable | None) -> dict[str, Any] | None:
    if table is None:
        return None
    best = table._best_or_none()
    rows = [
        {
            "components": row.n_components,
            "asked": " ".join(str(row.n_column_groups).split()),
            "groups": list(row.groups),
            "parameters": row.n_parameters,
            **{name: _finite(getattr(row, name)) for name in CRITERIA},
            "outcome": row.outcome,
            "best": row is best,
        }
        for row in table.rows
    ]
    return {"criterion": table.criterion, "rows": rows}


def _trace(model: Any) -> list[float]:
    trace = np.asarray(getattr(model, "log_likelihood_trace_", []), dtype=float)
    return [round(value, 6) for value in trace.tolist() if np.isfinite(value)]


def _warnings(model: Any) -> list[str]:
    """Warnings of the fit; models of older versions only know their outcome."""
    ended = getattr(model, "outcome_", "converged")
    fallback = [] if ended == "converged" else [f"the fit did not converge: {ended}"]
    return list(getattr(model, "warnings_", fallback))


def _made(model: Any, command: str | None) -> dict[str, Any]:
    defaults = type(model)().get_params(deep=False)
    parameters = [
        {"name": name, "value": _written(value), "default": _written(value) == _written(defaults[name])}
        for name, value in model.get_params(deep=False).items()
    ]
    return {
        "version": installed_version(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "parameters": parameters,
        "command": command,
    }


def _written(value: Any) -> str:
    """A parameter value as one short line."""
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    return _short(" ".join(repr(value).split()))


def _short(text: str) -> str:
    """At most 120 characters: row names may be whole documents."""
    return text if len(text) <= 120 else text[:119] + "…"


def _grouped(number: float, digits: int = 0) -> str:
    """The number with narrow no-break spaces between thousands and a true minus sign, which never breaks off."""
    return f"{number:,.{digits}f}".replace(",", "\u202f").replace("-", "−")


def _finite(value: float) -> float | None:
    return round(float(value), 3) if np.isfinite(value) else None
