"""A command that fits: read a table, fit a model, write all its files together, print the summary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import typer

import blockmix
from blockmix.cli import results
from blockmix.cli.data import Data
from blockmix.cli.figures import write_figures
from blockmix.cli.fitting import Fitted
from blockmix.cli.messages import note
from blockmix.cli.options import MoreOptions, ReadingOptions, WritingOptions
from blockmix.cli.progress import progress_bar
from blockmix.cli.reading.file_rows import watched
from blockmix.cli.stability import measure, write_stability
from blockmix.cli.streams import check_output
from blockmix.cli.tables import COLUMN_HEAD, column_lines, group_texts, row_head, row_lines, selection_line, values
from blockmix.estimators.covariance import BlockDiagonalCovariance
from blockmix.partition import Partition, column_names

_LINES = 14  # printed for one component
_FARTHEST = 5  # rows listed
_SHOWN_ROWS = 20_000  # rows of a large table that the page and the figures show
_SHOWN_COLUMNS = 5000  # of a page, whose maps and trees need several p × p matrices


def run(
    kind: str,
    out: Path,
    read: Callable[[], Data],
    fit: Callable[[Data], Fitted],
    command: str,
    writing: WritingOptions,
    *inputs: str,
    more: MoreOptions | None = None,
) -> None:
    """Read a table, fit a model to it, write the results to `out` and print the summary.

    A fit that Ctrl-C cut short is written all the same, and ends with exit code 130.
    """
    # The folder comes first: if it cannot be written to, better to know before hours of work.
    with results.folder(out, kind, inputs) as folder:
        data = read()
        fitted = fit(data)
        if more is not None and more.stability and not fitted.interrupted:
            fitted = _with_stability(fitted, data, more)
        summary = {"kind": kind, "folder": str(out)} | _summary(data, fitted, command)
        with results.blaming(out):
            _write_tables(folder, data, fitted, summary, writing.raw_text)
            shown = _shown(data)
            if more is not None and more.figures:
                with progress_bar("drawing the figures"):
                    write_figures(folder, shown, fitted, more.figures)
            names = sorted(path.name for path in folder.iterdir())
            has_page = summary["columns"] <= _SHOWN_COLUMNS
            summary["files"] = [*names, results.SUMMARY, *([results.REPORT] if has_page else [])]
            results.write_json(folder / results.SUMMARY, summary)
            if has_page:
                report(folder / results.REPORT, fitted, shown, command)
            else:
                most = f"a page shows at most {_SHOWN_COLUMNS}: use --top-variance {_SHOWN_COLUMNS} to get one"
                note(f"no {results.REPORT}: the table has {summary['columns']} columns, {most}")
    print_summary(summary, fitted, writing.json)
    if fitted.interrupted:
        if fitted.stability is None:
            note("blockmix: interrupted, the best model so far was written")
        raise typer.Exit(130)


def _with_stability(fitted: Fitted, data: Data, more: MoreOptions) -> Fitted:
    """Measure how often groups and clusters come back; Ctrl-C keeps the fit, and the weighings that are done."""
    seed = getattr(fitted.model, "random_state", None) or 0
    try:
        found, interrupted = measure(fitted.model, data, more, seed)
    except KeyboardInterrupt:
        return replace(fitted, interrupted=True)
    return replace(fitted, stability=found, interrupted=interrupted)


def _write_tables(folder: Path, data: Data, fitted: Fitted, summary: dict[str, Any], raw: bool) -> None:
    """Write the model and all tables of a fit, and complete its summary."""
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
        tried = [selection_line(row, selection.with_stability) for row in selection.rows]
        results.write_csv(folder / results.SELECTION, list(tried[0]), [list(line.values()) for line in tried], raw)
        summary |= {"criterion": selection.criterion, "selection": tried}
    if fitted.stability is not None:
        write_stability(folder, fitted.stability, raw)


def _shown(data: Data) -> Data:
    """The rows that pages and figures show: all, or a sample of a large table."""
    with progress_bar("drawing a sample", 1) as bar, watched(data.X, bar.update):
        return Data(data.table.sample(_SHOWN_ROWS), data.label, data.reading)


def report(path: Path, fitted: Fitted, data: Data | None, command: str) -> None:
    """Write the report of a model; of a large table it shows a sample of the rows."""
    from blockmix.report import write_report

    data = None if data is None else _shown(data)
    labels = None if data is None or data.labels is None else ["" if text is None else text for text in data.labels]
    with progress_bar("writing the report"):
        write_report(
            fitted.model,
            path,
            None if data is None else data.X,
            table=fitted.selection,
            labels=labels,
            row_names=None if data is None else data.table.row_names,
            title=None if data is None else Path(data.table.source).name,
            stability=fitted.stability,
            warnings=_page_warnings(fitted, data),
            command=command,
        )


def _page_warnings(fitted: Fitted, data: Data | None) -> list[str] | None:
    """The warnings of the fit, and that the page shows a sample if so."""
    N = len(getattr(fitted.model, "row_labels_", ()))
    if data is None or (n := data.table.shape[0]) >= N:
        return fitted.warnings
    return [
        *(fitted.warnings or ()),
        f"this page shows a sample of {n} of the {N} rows: counts of rows are the sample's",
    ]


def _summary(data: Data, fitted: Fitted, command: str) -> dict[str, Any]:
    model, table, defaults = fitted.model, data.table, vars(ReadingOptions())
    summary: dict[str, Any] = {
        "blockmix": blockmix.__version__,
        "command": command,
        "file": table.source,
        "rows": len(table.row_names),
        "columns": len(table.names),
        "left_out": {name: why for name, why in table.left_out.items() if name != table.named_by},
        "missing": table.missing(),
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
        found.append({**line, "n_values": int(model.n_values_[i]), "farthest_group": groups[g][k], "columns": columns})
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
        print("\n" + _far_text(summary))
    if fitted.stability is not None:
        print(f"\n{fitted.stability}")
    print(f"\nWritten to {summary['folder']}: {', '.join(summary['files'])}")


def _far_text(summary: dict[str, Any]) -> str:
    """The farthest rows, one per line."""
    n = summary["outliers"]
    lines = [f"{n} row{' is' if n == 1 else 's are'} far from {'its cluster' if n == 1 else 'their clusters'}:"]
    for far in summary["farthest"]:
        columns = far["columns"][:3] + ["…"] * (len(far["columns"]) > 3)
        score = f"score {far['outlier_score']:g} (about {far['n_values']} is usual)"
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
