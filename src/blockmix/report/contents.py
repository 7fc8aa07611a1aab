"""Contents of a page about a model as one JSON document: key figures, tables and the sections.

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
from blockmix.partition import IntArray, column_names
from blockmix.plotting.views import aligned_labels
from blockmix.report import sections
from blockmix.report.subject import MAX_ROWS, Classes, Subject, finite, grouped, short
from blockmix.selection import CRITERIA, STABILITY_NOTE, SelectionTable

_LISTED_CLASSES = 20  # the smallest classes beyond this are added up: nobody reads a wider table


def contents(subject: Subject, title: str, command: str | None, table: SelectionTable | None) -> dict[str, Any]:
    """The JSON document of a page; the model was chosen by the comparison in `table`."""
    model, labels, names = subject.model, subject.row_labels, subject.row_names
    views, classes = sections.components(subject), None
    if subject.classes is not None and labels is not None and (subject.classes.codes >= 0).any():
        classes = _classes(subject.classes, labels, len(subject.column_labels), subject.sample)
    listed = labels if labels is not None and 0 < len(labels) <= MAX_ROWS else None
    trace = np.asarray(getattr(model, "log_likelihood_trace_", []), dtype=float)
    return {
        "title": title,
        "estimator": type(model).__name__,
        "columns": column_names(model),
        "rowNames": None if listed is None or names is None else [short(str(name)) for name in names],
        "rowLabels": None if listed is None else listed.tolist(),
        "facts": _facts(subject, None if classes is None else classes["ari"]),
        "summaries": _summaries(subject),
        "labels": subject.column_labels.tolist(),
        "loadings": sections.loadings(subject),
        "families": aligned_labels(subject.column_labels).tolist(),
        "views": views,
        "checkerboard": sections.checkerboard(subject, np.array(views[0]["leaves"])),
        "gaps": sections.missing_values(subject),
        "differences": sections.differences(subject),
        "map": sections.row_map(subject),
        "rows": sections.row_list(subject),
        "stability": None if subject.stability is None else _stability(subject.stability),
        "classes": classes,
        "selection": None if table is None else _selection(table),
        "trace": [round(value, 6) for value in trace.tolist() if np.isfinite(value)],
        "warnings": list(getattr(model, "warnings_", [])),
        "hasRows": subject.X is not None,
        "isMixture": subject.centers is not None,
        "made": made(model, command),
    }


def _facts(subject: Subject, agreement: float | None) -> list[dict[str, str]]:
    """The key figures at the top of the page."""
    model, z, is_mixture = subject.model, subject.z, subject.centers is not None
    facts = [] if subject.row_labels is None else [("Rows", grouped(len(subject.row_labels)), "")]
    facts.append(("Columns", grouped(model.n_features_in_), ""))
    if is_mixture:
        facts.append(("Components", str(len(model.weights_)), "row clusters"))
    numbers = [int((np.bincount(row) > 1).sum()) for row in subject.column_labels]
    note = "of several columns" + (", in each component" if is_mixture else "")
    facts.append(("Column groups", " · ".join(map(str, numbers[:8])) + (" …" if len(numbers) > 8 else ""), note))
    if is_mixture and subject.X is not None:
        criteria = model._criteria(model._sums(subject.data))
        facts += [(name.upper(), grouped(criteria[name], 1), "smaller is better") for name in ("bic", "icl")]
    if is_mixture:
        iterations = f"after {model.n_iter_} iteration{'' if model.n_iter_ == 1 else 's'}"
        facts.append(("Outcome", str(model.outcome_), iterations))
    if z is not None and z.shape[1] > 1:
        clear = float((z.max(axis=1) >= 0.9).mean())
        facts.append(("Clear rows", f"{100 * clear:.1f}\u00a0%", "probability at least 0.9"))
    if agreement is not None:
        facts.append(("Agreement", f"{agreement:.2f}", "adjusted Rand index with the known classes"))
    return [{"name": name, "value": value, "note": note} for name, value, note in facts]


def _summaries(subject: Subject) -> list[dict[str, Any]]:
    """One table row per component."""
    labels, z = subject.row_labels, subject.z
    weights = np.ones(1) if subject.centers is None else subject.model.weights_
    lines = []
    for g, groups in enumerate(subject.column_labels):
        sizes = np.bincount(groups)
        rows = None if labels is None else np.flatnonzero(labels == g)
        certainty = None if z is None or rows is None or len(rows) == 0 else round(float(z[rows, g].mean()), 4)
        lines.append(
            {
                "rows": None if rows is None else len(rows),
                "weight": round(float(weights[g]), 4),
                "groups": int((sizes > 1).sum()),
                "largest": int(sizes.max()),
                "alone": int((sizes == 1).sum()),
                "certainty": certainty,
            }
        )
    return lines


def _classes(classes: Classes, row_labels: IntArray, n_components: int, sample: IntArray) -> dict[str, Any]:
    """Components by known class, over the rows whose class is known."""
    is_known = classes.codes >= 0
    labels, codes, C = row_labels[is_known], classes.codes[is_known], len(classes.names)
    counts = np.bincount(labels * C + codes, minlength=n_components * C).reshape(n_components, C)
    largest = np.argsort(-counts.sum(axis=0), kind="stable")
    listed, others = np.sort(largest[:_LISTED_CLASSES]), largest[_LISTED_CLASSES:]
    position = np.full(C + 1, len(listed))  # those that are added up come after those that are listed
    position[[*listed, -1]] = [*range(len(listed)), -1]
    return {
        "names": [classes.names[k] for k in listed],
        "codes": position[classes.codes[sample]].tolist(),
        "counts": counts[:, listed].tolist(),
        "others": len(others),
        "otherCounts": counts[:, others].sum(axis=1).tolist(),
        "unknown": int((~is_known).sum()),
        "ari": round(adjusted_rand(codes, labels), 4),
        "accuracy": round(matched_accuracy(codes, labels), 4),
    }


def _stability(stability: Stability) -> dict[str, Any]:
    """How often groups and clusters come back, in the words of the page."""
    groups: list[list[str]] = [[] for _ in stability.partitions]  # of several columns, which come first
    for group in stability.groups:
        groups[group.component].append(stability.words(group))
    clusters = None
    if stability.clusters is not None:
        clusters = [
            {"stability": round(c.stability, 3), "certainty": round(c.certainty, 3), "verdict": c.verdict}
            for c in stability.clusters
        ]
    return {
        "note": NOTE,
        "headings": [stability.heading(g) for g in range(len(stability.partitions))],
        "groups": groups,
        "columns": np.round(stability.columns, 3).tolist(),
        "clusters": clusters,
    }


def _selection(table: SelectionTable) -> dict[str, Any]:
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


def made(model: Any, command: str | None) -> dict[str, Any]:
    """Versions and parameters of a model, and the command that reproduces it."""
    defaults = type(model)().get_params(deep=False)
    parameters = [
        {"name": name, "value": _written(value), "default": _written(value) == _written(defaults[name])}
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


def _written(value: Any) -> str:
    """A parameter value as one short line."""
    return f"array of shape {value.shape}" if isinstance(value, np.ndarray) else short(" ".join(repr(value).split()))
