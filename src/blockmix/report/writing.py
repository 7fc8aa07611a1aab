"""Writing: one HTML file from the contents of a page, a JSON document, and the scripts and styles in the folder `page`.

The file needs no other file and no network. Its content security policy admits only this package's script and style,
by their hashes, so that nothing in the data can run or be fetched.
"""

from __future__ import annotations

import json
import os
import platform
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

import blockmix
from blockmix.comparison import CRITERIA, STABILITY_NOTE, SelectionTable
from blockmix.estimators.covariance import BlockDiagonalCovariance
from blockmix.estimators.mixture import Mixture, tells_rows_apart
from blockmix.estimators.stability import NOTE, Stability
from blockmix.estimators.topics import TopicBiclustering
from blockmix.files.archive import replacing
from blockmix.metrics import adjusted_rand, matched_accuracy
from blockmix.partition import IntArray, column_names
from blockmix.plotting.views import aligned_labels
from blockmix.report import sections
from blockmix.report.subject import MAX_ROWS, Classes, Subject, finite, grouped, short, subject_of

# Scripts in order: each may use what those before it define.
SHARED = ("core", "colors", "downloads", "tables", "charts", "shell")
_MAPS = ("raster", "dendrogram", "groups", "component", "checkerboard", "scatter")
_REPORT = (*SHARED, *_MAPS, "overview", "differences", "lists", "main")
_LISTED_CLASSES = 20  # the smallest classes beyond this are added up: nobody reads a wider table


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    X: Any = None,
    *,
    table: SelectionTable | None = None,
    labels: ArrayLike | None = None,
    row_names: Sequence[object] | None = None,
    stability: Stability | None = None,
    warnings: Sequence[str] | None = None,
    title: str | None = None,
    command: str | None = None,
) -> None:
    """Write an HTML page about a fitted model: one file that opens offline in any browser.

    Parameters
    ----------
    model : GaussianBiclustering, FactorBiclustering or BlockDiagonalCovariance
        Fitted.
    path : path
        The file, in an existing folder; an existing file is replaced atomically.
    X : array-like of shape (N, p), optional
        The rows. Without them the page has no observed correlations and no checkerboard, and says so.
    table : SelectionTable, optional
        The comparison that the model was chosen by.
    labels : array-like of shape (N,), optional
        Known classes of the rows, to compare with the components; rows with a missing label are not compared.
    row_names : sequence of N names, optional
        By default the index of a pandas frame, or numbers.
    stability : Stability, optional
        The result of ``model.stability(X)``: how often groups and clusters come back in resamples.
    warnings : sequence of str, optional
        Warnings to show; by default those of the model's own fit.
    title : str, optional
    command : str, optional
        The command that reproduces the result; shown on the page.
    """
    if not isinstance(model, (Mixture, BlockDiagonalCovariance)):
        hint = ": call write_topics" if isinstance(model, TopicBiclustering) else ": the order is model, path, X"
        raise TypeError(
            "write_report takes a mixture such as GaussianBiclustering, or a BlockDiagonalCovariance, "
            f"not a {type(model).__name__}{hint}"
        )
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path is a {type(path).__name__}, not the name of a file: the order is model, path, X")
    check_is_fitted(model)
    subject = subject_of(model, X, labels=labels, row_names=row_names, stability=stability)
    p, noun = model.n_features_in_, "Column groups" if subject.centers is None else "Row clusters and column groups"
    document = contents(subject, title or f"{noun} of {p} column{'' if p == 1 else 's'}", command, table)
    if warnings is not None:
        document["warnings"] = list(warnings)
    write_page(document, _REPORT, path)


def contents(subject: Subject, title: str, command: str | None, table: SelectionTable | None) -> dict[str, Any]:
    """The JSON document of a page; the model was chosen by the comparison in `table`."""
    model, labels, names = subject.model, subject.row_labels, subject.row_names
    views, classes = sections.components(subject), None
    if subject.classes is not None and labels is not None and (subject.classes.codes >= 0).any():
        classes = _classes(subject.classes, labels, len(subject.column_labels), subject.sample)
    loadings, gaps = None, None
    if hasattr(model, "loadings_"):  # correlation of each column with the factor of its group, by component
        each = np.reshape([entry.loading for entry in model.column_table()], subject.column_labels.shape)
        loadings = [[finite(value) for value in row] for row in each.tolist()]
    if subject.X is not None and labels is not None and np.isnan(subject.X).any():
        gaps = sections.missing_values(subject.X, labels, len(subject.column_labels))
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
        "loadings": loadings,
        "families": aligned_labels(subject.column_labels).tolist(),
        "views": views,
        "checkerboard": sections.checkerboard(subject, np.array(views[0]["leaves"])),
        "gaps": gaps,
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
    if subject.criteria is not None:
        facts += [(name.upper(), grouped(subject.criteria[name], 1), "smaller is better") for name in ("bic", "icl")]
    if is_mixture:
        iterations = f"after {model.n_iter_} iteration{'' if model.n_iter_ == 1 else 's'}"
        facts.append(("Outcome", str(model.outcome_), iterations))
    if not tells_rows_apart(model):
        facts.append(("Clear rows", "not known", "more columns than rows: the likelihood cannot tell"))
    elif z is not None and z.shape[1] > 1:
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
        certainty = None
        if z is not None and rows is not None and len(rows) and tells_rows_apart(subject.model):
            certainty = round(float(z[rows, g].mean()), 4)
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
    clusters = stability.clusters and [
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
    """The candidates of a comparison, with the best marked."""
    best, rows = table._best_or_none(), []
    for row in table.rows:
        asked = [" ".join(str(row.n_column_groups).split()), *(f"{name}={value}" for name, value in row.kind.items())]
        rows.append(
            {
                "components": row.n_components,
                "asked": ", ".join(asked),
                "groups": list(row.groups),
                "parameters": row.n_parameters,
                **{name: finite(getattr(row, name)) for name in CRITERIA},
                "leastStable": finite(row.least_stable),
                "outcome": row.outcome,
                "best": row is best,
            }
        )
    note = STABILITY_NOTE[0].upper() + STABILITY_NOTE[1:] if table.with_stability else None
    return {"criterion": table.criterion, "rows": rows, "stabilityNote": note}


def made(model: Any, command: str | None) -> dict[str, Any]:
    """Versions and parameters of a model, and the command that reproduces it."""
    parameters, defaults = [], type(model)().get_params(deep=False)
    for name, value in model.get_params(deep=False).items():
        is_array = isinstance(value, np.ndarray)
        text = f"array of shape {value.shape}" if is_array else short(" ".join(repr(value).split()))
        parameters.append({"name": name, "value": text, "default": repr(value) == repr(defaults[name])})
    return {
        "version": blockmix.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "parameters": parameters,
        "command": command,
    }


def write_page(document: dict[str, Any], scripts: Sequence[str], path: str | os.PathLike[str]) -> None:
    """Write the page of a document with these scripts; an existing file is replaced when the page is complete."""
    names = ("page.html", "style.css", *(f"{name}.js" for name in scripts))
    folder = files("blockmix.report").joinpath("page")
    template, style, *sources = (folder.joinpath(name).read_text(encoding="utf-8") for name in names)
    script = "\n".join(['"use strict";', *sources])
    hashes = [b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii") for text in (style, script)]
    data = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Safe inside a script element: no < can close it or open a comment.
    data = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    parts = {
        "TITLE": escape(document["title"]),
        "POLICY": f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'",
        "STYLE": style,
        "DATA": data,
        "SCRIPT": script,
    }
    # Split once instead of replacing repeatedly: a title that looks like a placeholder stays text.
    pieces = template.split("%%")
    page = "".join(piece if i % 2 == 0 else parts[piece] for i, piece in enumerate(pieces))
    with replacing(path) as stream:
        stream.write(page.encode("utf-8", "replace"))
