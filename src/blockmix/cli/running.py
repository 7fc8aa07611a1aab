"""A command that fits: read a table, fit a model, write all its files together, print the summary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import typer

import blockmix
from blockmix.cli import results
from blockmix.cli.data import Data
from blockmix.cli.fitting import Fitted
from blockmix.cli.messages import note
from blockmix.cli.options import ReadingOptions, WritingOptions
from blockmix.cli.progress import progress_bar
from blockmix.cli.reading.file_rows import watched
from blockmix.cli.streams import check_output
from blockmix.cli.tables import COLUMN_HEAD, column_lines, group_texts, row_head, row_lines, selection_line, values
from blockmix.estimators.covariance import BlockDiagonalCovariance
from blockmix.structure.columns import column_names
from blockmix.structure.partition import Partition

_LINES = 14  # printed for one component
_FARTHEST = 5  # rows listed
_PAGE_ROWS = 20_000  # rows of a large table that the page shows


def run(
    kind: str,
    out: Path,
    read: Callable[[], Data],
    fit: Callable[[Data], Fitted],
    command: str,
    writing: WritingOptions,
    *inputs: str,
) -> None:
    """Read a table, fit a model to it, write the results to `out` and print the summary.

    A fit that Ctrl-C cut short is written all the same, and ends with exit code 130.
    """
    # The folder comes first: if it cannot be written to, better to know before hours of work.
    with results.folder(out, kind, inputs) as folder:
        data = read()
        fitted = fit(data)
        summary = {"kind": kind, "folder": str(out)} | _summary(data, fitted, command)
        with results.blaming(out):
            _write(folder, data, fitted, summary, writing.raw_text)
    print_summary(summary, fitted, writing.json)
    if fitted.interrupted:
        note("blockmix: interrupted, the best model so far was written")
        raise typer.Exit(130)


def _write(folder: Path, data: Data, fitted: Fitted, summary: dict[str, Any], raw: bool) -> None:
    """Write all files of a fit, and complete its summary."""
    model, X, selection = fitted.model, data.X, fitted.selection
    names = column_names(model)
    with progress_bar("writing the results", 1) as bar, watched(X, bar.update):
        model.save(folder / results.MODEL)
        if isinstance(model, BlockDiagonalCovariance):
            lines: Any = column_lines(names, model.blocks_, getattr(model, "loadings_", None))
            results.write_csv(folder / results.COLUMNS, COLUMN_HEAD, lines, raw)
        else:
            summary |= model._criteria_of(model._fit_sums) if selection is None else values(selection.best_)
            lines = row_lines(model, X, data.table.row_names)
            results.write_csv(folder / results.ROWS, row_head(model), lines, raw)
            each = zip(model.blocks_, model.loadings_, strict=True)
            lines = ((g, *line) for g, own in enumerate(each) for line in column_lines(names, *own))
            results.write_csv(folder / results.COLUMNS, ["component", *COLUMN_HEAD], lines, raw)
    if selection is not None:
        tried = [selection_line(row) for row in selection.rows]
        results.write_csv(folder / results.SELECTION, list(tried[0]), [list(line.values()) for line in tried], raw)
        summary |= {"criterion": selection.criterion, "selection": tried}
    summary["files"] = [*sorted(path.name for path in folder.iterdir()), results.SUMMARY, results.REPORT]
    results.write_json(folder / results.SUMMARY, summary)
    report(folder / results.REPORT, fitted, data, summary["command"])


def report(path: Path, fitted: Fitted, data: Data | None, command: str) -> None:
    """Write the report of a model; of a large table it shows a sample of the rows."""
    from blockmix.report import write_report

    warnings = fitted.warnings
    with progress_bar("writing the report"):
        if data is not None:
            N, shown = data.table.shape[0], data.table.sample(_PAGE_ROWS)
            data = Data(shown, data.label, data.reading)
            if len(shown.row_names) < N:
                text = f"this page shows a sample of {len(shown.row_names)} of the {N} rows that were fitted"
                warnings = [*(warnings or ()), text]
        labels = None if data is None or data.labels is None else ["" if text is None else text for text in data.labels]
        write_report(
            fitted.model,
            path,
            None if data is None else data.X,
            table=fitted.selection,
            labels=labels,
            row_names=None if data is None else data.table.row_names,
            title=None if data is None else Path(data.table.source).name,
            warnings=warnings,
            command=command,
        )


def _summary(data: Data, fitted: Fitted, command: str) -> dict[str, Any]:
    model, table, defaults = fitted.model, data.table, vars(ReadingOptions())
    summary: dict[str, Any] = {
        "blockmix": blockmix.__version__,
        "command": command,
        "file": table.source,
        "rows": len(table.row_names),
        "columns": len(table.names),
        "left_out": {name: why for name, why in table.left_out.items() if name != table.named_by},
        "row_names": table.named_by,
        "reading": {key: value for key, value in vars(data.reading).items() if value != defaults[key]},
        "model": type(model).__name__,
        "seconds": round(fitted.seconds, 3),
        "warnings": fitted.warnings,
    }
    if isinstance(model, BlockDiagonalCovariance):
        return summary | {"n_groups": model.n_groups_, "groups": model.groups_}
    return summary | {
        "n_components": len(model.weights_),
        "weights": model.weights_,
        "sizes": np.bincount(model.row_labels_, minlength=len(model.weights_)),
        "n_column_groups": model.n_column_groups_,
        "n_parameters": model.n_parameters_,
        "tails": model.tails,
        "degrees_of_freedom": model.degrees_of_freedom_,
        "outcome": model.outcome_,
        "iterations": model.n_iter_,
        "label": data.label,
        "ari": data.agreement(model.row_labels_),
        "outliers": int(model.outliers_.sum()),
        "farthest": _farthest(model, table.row_names),
    }


def _farthest(model: Any, row_names: Any) -> list[dict[str, Any]]:
    """The outliers that are farthest from their cluster, farthest first."""
    scores, names, groups = model.outlier_scores_, column_names(model), group_texts(model)
    found = []
    for i in np.argsort(-scores, kind="stable")[:_FARTHEST].tolist():
        if not model.outliers_[i]:
            break
        g, k = int(model.row_labels_[i]), int(model.outlier_groups_[i])
        columns = [names[j] for j in Partition(model.column_labels_[g]).groups[k]]
        line = {"row": str(row_names[i]), "cluster": g, "outlier_score": round(float(scores[i]), 2)}
        found.append({**line, "farthest_group": groups[g][k], "columns": columns})
    return found


def print_summary(summary: dict[str, Any], fitted: Fitted, json: bool) -> None:
    """Print the result as JSON or as text."""
    if json:
        print(results.as_json(summary, ascii=True))
        check_output()
        return
    print(f"{summary['file']}: {summary['rows']} rows × {summary['columns']} numeric columns\n")
    if fitted.selection is not None:
        print(fitted.selection, end="\n\n")
    print(_shortened(fitted.model.describe()))
    if summary.get("ari") is not None:
        print(f"\nAgreement of the clusters with {summary['label']}: adjusted Rand index {summary['ari']:.3f}")
    if summary.get("farthest"):
        print("\n" + _far_text(summary, fitted.model.n_features_in_))
    print(f"\nWritten to {summary['folder']}: {', '.join(summary['files'])}")


def _far_text(summary: dict[str, Any], p: int) -> str:
    """The farthest rows, one per line."""
    n = summary["outliers"]
    lines = [f"{n} row{' is' if n == 1 else 's are'} far from {'its cluster' if n == 1 else 'their clusters'}:"]
    for far in summary["farthest"]:
        columns = far["columns"][:3] + ["…"] * (len(far["columns"]) > 3)
        score = f"score {far['outlier_score']:g} (about {p} is usual)"
        lines.append(f"  {far['row']}: cluster {far['cluster']}, {score}, farthest in {', '.join(columns)}")
    more = n - len(summary["farthest"])
    return "\n".join(lines + ([f"  and {more} more: outlier in {results.ROWS}"] if more else []))


def _shortened(text: str) -> str:
    """The description without the many small groups of a wide table."""
    kept: list[str] = []
    count = 0
    for line in text.splitlines():
        count = count + 1 if line.startswith(" ") else 0
        if count < _LINES or line.startswith("  alone"):
            kept.append(line)
        elif count == _LINES:
            kept.append(f"  …: all groups are in {results.COLUMNS}")
    return "\n".join(kept)
