"""Writing: one HTML file from the contents of a page, a JSON document, and the scripts and styles in the folder `page`.

The file needs no other file and no network. Its content security policy admits only this package's script and style,
by their hashes, so that nothing in the data can run or be fetched.
"""

from __future__ import annotations

import json
import os
import platform
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

import blockmix
from blockmix.candidates import CRITERIA, STABILITY_NOTE, SelectionTable
from blockmix.estimators.answer import answer
from blockmix.estimators.covariance import BlockDiagonalCovariance
from blockmix.estimators.mixture import Mixture
from blockmix.estimators.resampling import quick_stability
from blockmix.estimators.stability import NOTE, Stability
from blockmix.estimators.tables import column_loadings
from blockmix.estimators.topics import TopicBiclustering
from blockmix.files.archive import replacing
from blockmix.partition import column_names
from blockmix.plotting.views import aligned_labels
from blockmix.report import sections
from blockmix.report.subject import MAX_ROWS, Subject, finite, grouped, short, subject_of

# Scripts in order: each may use what those before it define.
SHARED = ("core", "colors", "downloads", "tables", "charts", "shell")
_MAPS = ("raster", "dendrogram", "groups", "component", "checkerboard", "scatter")
_REPORT = (*SHARED, "names", "traits", *_MAPS, "overview", "differences", "answer", "lists", "main")


_COVARIANCES = {"False": "a covariance each", "True": "one covariance for all"}
_KINDS = {"shared_covariance": _COVARIANCES, "tails": {"normal": "normal", "t": "heavy tails"}}  # in words


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    X: Any = None,
    *,
    table: SelectionTable | None = None,
    traits: Mapping[str, Any] | None = None,
    row_names: Sequence[object] | None = None,
    stability: Stability | bool | None = None,
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
    traits : data frame or dict, optional
        Columns that were left out of the fit, one value per row: classes, numbers or dates.
    row_names : sequence of N names, optional
        By default the index of a pandas frame, or numbers.
    stability : Stability or False, optional
        The result of ``model.stability(X)``: how often groups and clusters come back in resamples. By default groups
        are resampled if that takes seconds.
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
    if traits is not None and not hasattr(traits, "keys"):
        raise TypeError(f"traits is a {type(traits).__name__}: give a data frame or a dict of columns")
    measured = stability if isinstance(stability, Stability) else None
    subject = subject_of(model, X, traits=traits, row_names=row_names, stability=measured)
    if stability is None and subject.X is not None and len(getattr(model, "row_labels_", subject.X)) == len(subject.X):
        subject = replace(subject, stability=quick_stability(model, X))
    p, noun = model.n_features_in_, "Column groups" if subject.centers is None else "Row clusters and column groups"
    document = contents(subject, title or f"{noun} of {p} column{'' if p == 1 else 's'}", command, table)
    if warnings is not None:
        document["warnings"] = list(warnings)
    write_page(document, _REPORT, path)


def contents(subject: Subject, title: str, command: str | None, table: SelectionTable | None) -> dict[str, Any]:
    """The JSON document of a page; the model was chosen by the comparison in `table`."""
    model, labels, names = subject.model, subject.row_labels, subject.row_names
    views, sample = sections.components(subject), subject.sample
    traits = [
        {"name": name, "values": values, "codes": codes[sample].tolist()} for name, values, codes in subject.traits
    ]
    loadings, gaps = None, None
    if hasattr(model, "loadings_"):  # correlation of each column with the factor of its group, by component
        loadings = [[finite(value) for value in row] for row in column_loadings(model).tolist()]
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
        "names": getattr(model, "names_", {}),
        "answer": _answer(subject, table),
        "facts": _facts(subject),
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
        "traits": traits,
        "selection": None if table is None else _selection(table),
        "sampled": None if labels is None else labels[sample].tolist(),
        "trace": [round(value, 6) for value in trace.tolist() if np.isfinite(value)],
        "warnings": list(getattr(model, "warnings_", [])),
        "hasRows": subject.X is not None,
        "isMixture": subject.centers is not None,
        "made": made(model, command),
    }


def _answer(subject: Subject, table: SelectionTable | None) -> dict[str, Any]:
    """The sentences at the top of the page; the page puts names in."""
    said = answer(subject.model, subject.stability, table)
    return {
        "head": said.head,
        "marks": [marks for _, _, marks in said.clusters],
        "columns": said.columns,
        "groups": [group._asdict() | {"listed": said.listed(group.columns)} for group in said.groups],
        "alone": said.listed(said.alone),
        "trust": said.trust,
        "note": None if subject.stability is None else NOTE,
    }


def _facts(subject: Subject) -> list[dict[str, str]]:
    """The figures of the fit, for people who want them."""
    model, criteria = subject.model, subject.criteria or {}
    facts = [(name.upper(), grouped(criteria[name], 1), "smaller is better") for name in ("bic", "icl") if criteria]
    if subject.centers is not None:
        iterations = f"after {model.n_iter_} iteration{'' if model.n_iter_ == 1 else 's'}"
        facts += [("Parameters", grouped(model.n_parameters_), ""), ("Outcome", str(model.outcome_), iterations)]
    return [{"name": name, "value": value, "note": note} for name, value, note in facts]


def _summaries(subject: Subject) -> list[dict[str, Any]]:
    """Rows and weight of each cluster."""
    weights, G = np.ones(1) if subject.centers is None else subject.centers.weights, len(subject.column_labels)
    counts = [None] * G if subject.row_labels is None else np.bincount(subject.row_labels, minlength=G).tolist()
    return [{"rows": n, "weight": round(float(weight), 4)} for n, weight in zip(counts, weights, strict=True)]


def _stability(stability: Stability) -> dict[str, Any]:
    """How often groups and clusters come back, in the words of the page."""
    groups: list[list[dict[str, str]]] = [[] for _ in stability.partitions]  # of several columns, which come first
    for group in stability.groups:
        groups[group.component].append({"verdict": group.verdict, "words": stability.words(group)})
    clusters = stability.clusters and [
        {"stability": round(c.stability, 3), "certainty": round(c.certainty, 3), "verdict": c.verdict}
        for c in stability.clusters
    ]
    return {
        "note": NOTE,
        "groups": groups,
        "columns": np.round(stability.columns, 3).tolist(),
        "clusters": clusters,
    }


def _selection(table: SelectionTable) -> dict[str, Any]:
    """The candidates of a comparison, with the best marked."""
    best, rows = table._best_or_none(), []
    for row in table.rows:
        kind = [_KINDS.get(name, {}).get(str(value), f"{name}={value}") for name, value in row.kind.items()]
        asked = [" ".join(str(row.n_column_groups).split())] * (row.n_column_groups != "auto") + kind
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
    level = [] if best is None else table.level_models()
    return {
        "criterion": table.criterion,
        "rows": rows,
        "stabilityNote": note,
        "reason": "" if best is None else table.reason,
        "level": [[one.row.words, finite(one.difference), finite(one.agreement)] for one in level],
    }


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
        "date": _date(),
        "parameters": parameters,
        "command": command,
    }


def _date() -> str:
    """The time, or that of the input if SOURCE_DATE_EPOCH says so: then the same input gives the same page."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    when = datetime.fromtimestamp(int(epoch), UTC) if epoch.isdecimal() else datetime.now(UTC)
    return when.strftime("%Y-%m-%d %H:%M UTC")


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
