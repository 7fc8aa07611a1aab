"""Reports of saved models: the page again, and how often their groups and clusters come back.

What the command line leaves open (the table, how it was read, the candidates, the command) comes from the summary
beside the model.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import typer

import blockmix
from blockmix.cli import results
from blockmix.cli.data import Data
from blockmix.cli.fitting import Fitted
from blockmix.cli.messages import note, warnings_collected
from blockmix.cli.options import MoreOptions, ReadingOptions, WritingOptions
from blockmix.cli.predicting import read_for_model
from blockmix.cli.running import report
from blockmix.cli.stability import measure, write_stability
from blockmix.cli.streams import check_output
from blockmix.estimators.models import load
from blockmix.estimators.topics import TopicBiclustering
from blockmix.selection import CRITERIA, KINDS, SelectionRow, SelectionTable, Study

_MARK = b'id="report-data"'  # in every page that blockmix writes


def write_page(
    path: Path, file: str | None, label: str | None, out: Path | None, reading: ReadingOptions, command: str
) -> None:
    """Write the report of a saved model; an existing page is not replaced by one that shows less."""
    model = load(path)
    if isinstance(model, TopicBiclustering):
        raise ValueError(f"{path} holds topics, whose report blockmix topics writes")
    summary = _summary(path, model)
    page = out or path.parent / results.REPORT
    if page.is_file() and _MARK not in page.read_bytes():
        raise ValueError(f"{page} is not a report of blockmix: give another name with --out")
    data = None
    try:
        table = _fitted_to(path, summary) if file is None else file
        data = _data(path, model, table, label, reading, summary if file is None else {})
    except ValueError as error:
        if file is not None or label is not None:
            raise
        if out is None and page.exists():
            raise ValueError(
                f"{page} would lose what it shows of the data ({error}): give FILE after the model, or --out PAGE for "
                "a page without data"
            ) from None
        note(f"the page shows no data ({error}): give FILE after the model to include them")
    if results.GROUPS in summary.get("files", ()):
        note(f"the page does not show the stability: blockmix stability {path} writes one that does")
    fitted = Fitted(model, _comparison(model, summary), summary.get("warnings"))
    with warnings_collected():
        report(page, fitted, data, summary.get("command", command))
    print(f"Written: {page}")


def write_again(
    path: Path,
    file: str | None,
    options: MoreOptions,
    settings: dict[str, Any],
    reading: ReadingOptions,
    writing: WritingOptions,
    command: str,
) -> None:
    """Measure how often the groups and clusters of a saved model come back, and write tables and a page."""
    model = load(path)
    if isinstance(model, TopicBiclustering) or not hasattr(model, "stability"):
        raise ValueError(f"{path} holds a {type(model).__name__}, whose stability cannot be measured")
    summary = _summary(path, model)
    units: str | None = settings["units"]
    out: Path = writing.out or path.parent / "stability"
    table = _fitted_to(path, summary) if file is None else file
    with results.folder(out, "stability", [path, table]) as folder:
        data = _data(path, model, table, units, reading, summary if file is None else {})
        codes = None if units is None else list(data.table.texts[units])
        found, interrupted = measure(model, data, options, settings["seed"], codes)
        about: dict[str, Any] = {
            "blockmix": blockmix.__version__,
            "kind": "stability",
            "command": command,
            "model": str(path),
            "file": data.table.source,
            "folder": str(out),
            "resamples": found.n_resamples,
            "refits": found.n_refits,
            "units": units,
        }
        with results.blaming(out):
            about["files"] = [*write_stability(folder, found, writing.raw_text), results.SUMMARY, results.REPORT]
            results.write_json(folder / results.SUMMARY, about)
            fitted = Fitted(model, _comparison(model, summary), summary.get("warnings"), stability=found)
            report(folder / results.REPORT, fitted, data, command)
    if writing.json:
        print(results.as_json(about | {"groups": [vars(group) for group in found.groups]}, ascii=True))
        check_output()
    else:
        print(found)
        print(f"\nWritten to {out}: {', '.join(about['files'])}")
    if interrupted:
        raise typer.Exit(130)


def _summary(path: Path, model: Any) -> dict[str, Any]:
    """The summary beside a model; empty if there is none, or if it belongs to another model."""
    try:
        found = json.loads((path.parent / results.SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    wanted = {"model": type(model).__name__, "columns": model.n_features_in_}
    same = isinstance(found, dict) and all(found.get(key) == value for key, value in wanted.items())
    return found if same else {}


def _fitted_to(path: Path, summary: dict[str, Any]) -> str:
    """The table that a model was fitted to, relative to the working folder or to the parent of the results folder."""
    if "file" not in summary:
        raise ValueError(f"no summary beside {path} names the table it was fitted to")
    named = summary["file"]
    for place in (Path(named), path.parent.parent / named):
        if place.is_file():
            return str(place)
    raise ValueError(f"the table that {path} was fitted to, {named}, was not found")


def _data(
    path: Path, model: Any, file: str, label: str | None, reading: ReadingOptions, summary: dict[str, Any]
) -> Data:
    """The rows of a file, read as for the fit unless there are other options; they must be as many as were fitted."""
    if reading == ReadingOptions():
        saved = summary.get("reading", {})
        reading = ReadingOptions(**{item.name: saved[item.name] for item in fields(reading) if item.name in saved})
    data = read_for_model(path, model, file, label or summary.get("label"), reading)
    found, fitted = len(data.table.row_names), len(getattr(model, "row_labels_", ())) or summary.get("rows")
    if fitted is not None and found != fitted:
        raise ValueError(f"{file} has {found} rows, but the model was fitted to {fitted}")
    return data


def _comparison(model: Any, summary: dict[str, Any]) -> SelectionTable | None:
    """The candidates that the model was chosen from."""
    if "selection" not in summary:
        return None
    rows, figures = [], ("log_likelihood", *CRITERIA, "least_stable", "seconds")
    for line in summary["selection"]:
        numbers = {name: np.nan for name in figures if line.get(name) is None}
        kind = {name: line[name] for name in KINDS if name in line}
        known = {name: value for name, value in line.items() if name not in kind}
        groups = tuple(map(int, line["groups"].split()))
        rows.append(SelectionRow(**known | numbers | {"groups": groups, "kind": kind}))
    study = Study((), None, model, (), (), stability="least_stable" in summary["selection"][0])
    return SelectionTable(tuple(rows), summary["criterion"], study)
