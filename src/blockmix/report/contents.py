"""Contents of a report as one JSON document: numbers, texts and encoded pictures.

Nothing here knows HTML: the page inserts every text of the document as text.
"""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from typing import Any

import numpy as np

import blockmix
from blockmix.estimators.stability import NOTE, Stability
from blockmix.metrics import adjusted_rand, matched_accuracy
from blockmix.partition import column_names
from blockmix.plotting.views import aligned_labels
from blockmix.report.board import checkerboard, gaps
from blockmix.report.components import components, loadings
from blockmix.report.differences import differences
from blockmix.report.rows import row_list, row_map
from blockmix.report.subject import Subject
from blockmix.report.wording import finite, grouped, short, written
from blockmix.selection import CRITERIA, STABILITY_NOTE, SelectionTable

_LISTED_CLASSES = 20  # the smallest classes beyond this are added up: nobody reads a wider table


def contents(subject: Subject, title: str, command: str | None) -> dict[str, Any]:
    """The JSON document of a page."""
    views, classes = components(subject), _classes(subject)
    labels = subject.row_labels if subject.is_listed else None
    return {
        "title": title,
        "estimator": type(subject.model).__name__,
        "columns": column_names(subject.model),
        "rowNames": None if labels is None else _row_names(subject),
        "rowLabels": None if labels is None else labels.tolist(),
        "facts": _facts(subject, classes),
        "summaries": _summaries(subject),
        "labels": subject.column_labels.tolist(),
        "loadings": loadings(subject.model),
        "families": aligned_labels(subject.column_labels).tolist(),
        "views": views,
        "checkerboard": checkerboard(subject, np.array(views[0]["leaves"])),
        "gaps": gaps(subject),
        "differences": differences(subject),
        "map": row_map(subject),
        "rows": row_list(subject),
        "stability": _stability(subject.stability),
        "classes": classes,
        "selection": _selection(subject.table),
        "trace": _trace(subject.model),
        "warnings": _warnings(subject.model),
        "hasRows": subject.X is not None,
        "isMixture": subject.is_mixture,
        "made": made(subject.model, command),
    }


def _facts(subject: Subject, classes: dict[str, Any] | None) -> list[dict[str, str]]:
    """The key figures at the top of the page."""
    model, labels, probabilities = subject.model, subject.row_labels, subject.probabilities
    facts: list[dict[str, str]] = []

    def add(name: str, value: str, note: str = "") -> None:
        facts.append({"name": name, "value": value, "note": note})

    if labels is not None:
        add("Rows", grouped(len(labels)))
    add("Columns", grouped(model.n_features_in_))
    if subject.is_mixture:
        add("Components", str(len(model.weights_)), "row clusters")
    numbers = [int((np.bincount(row) > 1).sum()) for row in subject.column_labels]
    note = "of several columns" + (", in each component" if subject.is_mixture else "")
    add("Column groups", " · ".join(map(str, numbers[:8])) + (" …" if len(numbers) > 8 else ""), note)
    if subject.X is not None:
        criteria = model._criteria(subject.data, None) if subject.is_mixture else {}
        for name in (n for n in ("bic", "icl") if n in criteria):
            add(name.upper(), grouped(criteria[name], 1), "smaller is better")
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
    place = np.full(C + 1, len(listed))  # those that are added up come after those that are listed
    place[[*listed, -1]] = [*range(len(listed)), -1]
    return {
        "names": [names[k] for k in listed],
        "codes": place[subject.classes.codes[subject.sample]].tolist(),
        "counts": counts[:, listed].tolist(),
        "others": len(others),
        "otherCounts": counts[:, others].sum(axis=1).tolist(),
        "unknown": int(len(known) - known.sum()),
        "ari": round(adjusted_rand(codes, found), 4),
        "accuracy": round(matched_accuracy(codes, found), 4),
    }


def _row_names(subject: Subject) -> list[str] | None:
    return None if subject.row_names is None else [short(str(name)) for name in subject.row_names]


def _stability(found: Stability | None) -> dict[str, Any] | None:
    """How often groups and clusters come back, in the words of the page."""
    if found is None:
        return None
    groups: list[list[str]] = [[] for _ in found.partitions]  # of several columns, which come first
    for group in found.groups:
        groups[group.component].append(found.words(group))
    return {
        "note": NOTE,
        "headings": [found.heading(g) for g in range(len(found.partitions))],
        "groups": groups,
        "columns": np.round(found.columns, 3).tolist(),
        "clusters": None
        if found.clusters is None
        else [
            {"stability": round(c.stability, 3), "certainty": round(c.certainty, 3), "verdict": c.verdict}
            for c in found.clusters
        ],
    }


def _selection(table: SelectionTable | None) -> dict[str, Any] | None:
    if table is None:
        return None
    best = table._best_or_none()
    rows = [
        {
            "components": row.n_components,
            "asked": row.asked,
            "groups": list(row.groups),
            "parameters": row.n_parameters,
            **{name: finite(getattr(row, name)) for name in CRITERIA},
            "leastStable": finite(row.least_stable),
            "outcome": row.outcome,
            "best": row is best,
        }
        for row in table.rows
    ]
    note = STABILITY_NOTE[0].upper() + STABILITY_NOTE[1:] if table.with_stability else None
    return {"criterion": table.criterion, "rows": rows, "stabilityNote": note}


def _trace(model: Any) -> list[float]:
    trace = np.asarray(getattr(model, "log_likelihood_trace_", []), dtype=float)
    return [round(value, 6) for value in trace.tolist() if np.isfinite(value)]


def _warnings(model: Any) -> list[str]:
    """Warnings of the fit; models of older versions only know their outcome."""
    ended = getattr(model, "outcome_", "converged")
    fallback = [] if ended == "converged" else [f"the fit did not converge: {ended}"]
    return list(getattr(model, "warnings_", fallback))


def made(model: Any, command: str | None) -> dict[str, Any]:
    """Versions and parameters of a model, and the command that reproduces it."""
    defaults = type(model)().get_params(deep=False)
    parameters = [
        {"name": name, "value": written(value), "default": written(value) == written(defaults[name])}
        for name, value in model.get_params(deep=False).items()
    ]
    return {
        "version": blockmix.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "parameters": parameters,
        "command": command,
    }
