"""Saved models: clusters of new rows, missing values filled, the page again, and the stability afterwards.

What the command line leaves open (the table, how it was read, the candidates, the command) comes from the summary
beside the model.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

import blockmix
from blockmix import BlockDiagonalCovariance, SelectionTable, TopicBiclustering, load
from blockmix.command import output
from blockmix.command.documents import read_documents
from blockmix.command.extras import Fitted, measure, write_stability
from blockmix.command.fit import ROW_HEAD, agreement, row_lines, write_page
from blockmix.command.options import ImputeOptions, PredictOptions, ReadingOptions, ReportOptions, StabilityOptions
from blockmix.command.output import note, progress_bar, warnings_collected, write_csv
from blockmix.command.reading import read_table, stem_of
from blockmix.command.table import Names, Table, print_notes
from blockmix.command.topics import TOPIC_HEAD
from blockmix.comparison import CRITERIA, KINDS, SelectionRow
from blockmix.estimators.validation import takes_missing
from blockmix.files.archive import replacing
from blockmix.partition import IntArray

_MARK = b'id="report-data"'  # in every page that blockmix writes


def predict_rows(options: PredictOptions, line: str) -> None:
    """Print or write the cluster of each row."""
    model, label = load(options.model), options.label
    if isinstance(model, BlockDiagonalCovariance):
        raise ValueError(f"{options.model} holds a covariance, which has no row clusters: use blockmix fit")
    kept = () if label is None else (label,)
    if isinstance(model, TopicBiclustering):
        if options.text is None:
            raise ValueError(f"{options.model} holds topics: name the column of texts with --text")
        head, n_clusters = TOPIC_HEAD, len(model.topics_)
        table = read_documents(options.file, options, [options.text], kept)
        X: Any = table.texts[options.text]
    else:
        head, n_clusters = ROW_HEAD, len(model.weights_)
        head = head if hasattr(model, "outlier_scores_") else head[:3]
        table = _read_for_model(options.model, model, options.file, options, kept)
        X = table.X
    N = table.values.shape[0]
    clusters: IntArray = np.empty(N, dtype=np.int32)
    summary: dict[str, Any] = {
        "blockmix": blockmix.__version__,
        "kind": "predictions",
        "files": output.KINDS["predictions"],
        "command": line,
        "model": str(options.model),
        "file": options.file,
        "rows": N,
        "label": label,
    }

    def noted(lines: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """The lines as they are; their clusters complete the summary when all of them have been read."""
        for i, cells in enumerate(lines):
            clusters[i] = cells[1]
            yield cells
        summary["sizes"] = np.bincount(clusters[clusters >= 0], minlength=n_clusters)
        summary["ari"] = None if label is None else agreement(table, label, clusters)

    lines = noted(row_lines(model, X, table.row_names, new=True))
    with progress_bar("assigning rows to clusters", rows=X):
        if options.out is not None:
            with output.folder(options.out, "predictions", options.model, options.file) as folder:
                write_csv(folder / output.PREDICTIONS, head, lines, options.raw_text)
                output.write_json(summary, folder / output.PREDICTIONS_SUMMARY)
        elif options.json:
            for _ in lines:
                pass
        else:
            write_csv(sys.stdout, head, lines, options.raw_text)
            output.check_output()
    if options.json:
        output.write_json(summary)
    elif options.out is not None:
        print(f"Written to {options.out}: {', '.join(output.KINDS['predictions'])}")
    if summary["ari"] is not None and not options.json:
        note(f"agreement with {label}: adjusted Rand index {summary['ari']:.3f}")


def _read_for_model(path: Path, model: Any, file: str, options: ReadingOptions, kept: Names | None = ()) -> Table:
    """The columns of a file that a model was fitted to, in its order, and others as text; None is all others."""
    names = getattr(model, "feature_names_in_", None)
    only = None if names is None else tuple(map(str, names))
    table = read_table(file, options, () if only is kept is None else kept, only)
    for name in only or ():
        if name in table.left_out:
            raise ValueError(f"the column {name!r} of {table.source} is not numeric: {table.left_out[name]}")
    table = table.complete(options.drop_missing, takes_missing(model))
    print_notes(table)
    if len(table.names) != model.n_features_in_:
        expected = model.n_features_in_
        raise ValueError(f"{file} has {len(table.names)} numeric columns, but {path} was fitted to {expected}")
    return table


def write_completed(options: ImputeOptions) -> None:
    """Write the table with all values in the columns of the model; an existing file is never replaced."""
    out: Path = options.out or Path(f"{stem_of(options.file)}-imputed.csv")
    if os.path.lexists(out):
        raise ValueError(f"{out} exists already: give another name with --out")
    model = load(options.model)
    if not hasattr(model, "impute"):
        kind = type(model).__name__
        raise ValueError(f"{options.model} holds a {kind}, which cannot fill missing values: use blockmix fit")
    table = _read_for_model(options.model, model, options.file, options, None)
    texts: dict[str, Any] = table.texts if table.named_by is None else {table.named_by: table.row_names}
    names = {*texts, *table.names}
    head = [name for name in table.header if name in names]
    n_cells = n_rows = 0

    def lines() -> Iterator[list[Any]]:
        """The completed rows, between the other cells of the file."""
        nonlocal n_cells, n_rows
        start = 0
        for values in table.blocks():
            missing = np.isnan(values)
            n_cells += int(missing.sum())
            n_rows += int(missing.any(axis=1).sum())
            if missing.any():
                X = replace(table, values=values).X if hasattr(model, "feature_names_in_") else values
                values = np.where(missing, model.impute(X), values).astype(values.dtype)
            cells: dict[str, Any] = {name: column[start : start + len(values)] for name, column in texts.items()}
            cells |= {name: map(str, column) for name, column in zip(table.names, values.T, strict=True)}
            yield from map(list, zip(*(cells[name] for name in head), strict=True))
            start += len(values)

    with progress_bar("filling missing values", rows=table.values), replacing(out) as stream:
        text = io.TextIOWrapper(stream, "utf-8", "backslashreplace", newline="")
        write_csv(text, head, lines(), options.raw_text)
        text.flush()
        text.detach()
    print(f"Written: {out}, with {n_cells} missing values filled in {n_rows} of {table.values.shape[0]} rows")


def report_again(options: ReportOptions, line: str) -> None:
    """Write the report of a saved model; an existing page is not replaced by one that shows less."""
    path, model = options.model, load(options.model)
    if isinstance(model, TopicBiclustering):
        raise ValueError(f"{path} holds topics, whose report blockmix topics writes")
    summary = _stored_summary(path, model)
    page = options.out or path.parent / output.REPORT
    if page.is_file() and _MARK not in page.read_bytes():
        raise ValueError(f"{page} is not a report of blockmix: give another name with --out")
    label = options.label or (summary.get("label") if options.file is None else None)
    table = None
    try:
        table = _fitted_table(options, model, summary, label)
    except ValueError as error:
        if options.file is not None or options.label is not None or page.exists():
            raise ValueError(f"{error}: give FILE after the model, or --out NEW for a new page without data") from None
        note(f"the page shows no data ({error}): give FILE after the model to include them")
    fitted = Fitted(model, _stored_comparison(summary), summary.get("warnings"))
    with warnings_collected():
        write_page(page, fitted, table, label, summary.get("command", line))
    print(f"Written: {page}")


def measure_again(options: StabilityOptions, line: str) -> None:
    """Measure how often the groups and clusters of a saved model come back, and write tables and a page."""
    path, model, units = options.model, load(options.model), options.units
    if isinstance(model, TopicBiclustering) or not hasattr(model, "stability"):
        raise ValueError(f"{path} holds a {type(model).__name__}, whose stability cannot be measured")
    summary = _stored_summary(path, model)
    out: Path = options.out or path.parent / "stability"
    with output.folder(out, "stability", path, options.file or summary.get("file", "")) as folder:
        label = units or (summary.get("label") if options.file is None else None)
        table = _fitted_table(options, model, summary, label)
        codes = None if units is None else list(table.texts[units])
        stability, interrupted = measure(model, table, options, options.seed, codes)
        about: dict[str, Any] = {
            "blockmix": blockmix.__version__,
            "kind": "stability",
            "command": line,
            "model": str(path),
            "file": table.source,
            "folder": str(out),
            "resamples": stability.n_resamples,
            "refits": stability.n_refits,
            "units": units,
        }
        names = write_stability(folder, stability, options.raw_text)
        about["files"] = [*names, output.SUMMARY, output.REPORT]
        output.write_json(about, folder / output.SUMMARY)
        fitted = Fitted(model, _stored_comparison(summary), summary.get("warnings"), stability=stability)
        write_page(folder / output.REPORT, fitted, table, label, line)
    if options.json:
        output.write_json(about | {"groups": [vars(group) for group in stability.groups]})
    else:
        print(stability)
        print(f"\nWritten to {out}: {', '.join(about['files'])}")
    if interrupted:
        raise SystemExit(130)


def _stored_summary(path: Path, model: Any) -> dict[str, Any]:
    """The summary beside a model; empty if there is none, or if it belongs to another model."""
    try:
        summary = json.loads((path.parent / output.SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    expected = {"model": type(model).__name__, "columns": model.n_features_in_}
    return summary if isinstance(summary, dict) and expected.items() <= summary.items() else {}


def _fitted_table(options: Any, model: Any, summary: dict[str, Any], label: str | None) -> Table:
    """The table that a model was fitted to, which must have as many rows.

    Unless it is given, it is the one that the summary names, relative to the working folder or to the parent of the
    results folder, and read as for the fit if there are no other options.
    """
    path, file, reading = options.model, options.file, options
    if file is None:
        if "file" not in summary:
            raise ValueError(f"no summary beside {path} names the table it was fitted to")
        name = summary["file"]
        file = next((str(place) for place in (Path(name), path.parent.parent / name) if place.is_file()), None)
        if file is None:
            raise ValueError(f"the table that {path} was fitted to, {name}, was not found")
        if all(getattr(options, item.name) == item.default for item in fields(ReadingOptions)):
            reading = replace(options, **summary.get("reading", {}))
    table = _read_for_model(path, model, file, reading, () if label is None else (label,))
    N, fitted = table.values.shape[0], len(getattr(model, "row_labels_", ())) or summary.get("rows")
    if fitted is not None and fitted != N:
        raise ValueError(f"{file} has {N} rows, but the model was fitted to {fitted}")
    return table


def _stored_comparison(summary: dict[str, Any]) -> SelectionTable | None:
    """The candidates that the model was chosen from."""
    if "selection" not in summary:
        return None
    rows, figures = [], ("log_likelihood", *CRITERIA, "least_stable", "seconds")
    for line in summary["selection"]:
        numbers = {name: np.nan for name in figures if line.get(name) is None}
        kind = {name: line[name] for name in KINDS if name in line}
        others = {name: value for name, value in line.items() if name not in kind}
        groups = tuple(map(int, line["groups"].split()))
        rows.append(SelectionRow(**others | numbers | {"groups": groups, "kind": kind}))
    return SelectionTable(tuple(rows), summary["criterion"])
