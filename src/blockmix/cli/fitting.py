"""Fitting: a mixture or a covariance of a table, its files and what is printed of it.

Options come in; the folder of results is written and the summary goes to standard output.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import blockmix
from blockmix.cli.bars import bar
from blockmix.cli.data import Data
from blockmix.cli.folder import COLUMNS, MODEL, REPORT, ROWS, SELECTION, SUMMARY, as_json, write_csv, write_json
from blockmix.cli.options import MixtureOptions, ReadingOptions
from blockmix.cli.speaking import warnings_heard, worded
from blockmix.em.multistart import FINALISTS, SHORT, Progress
from blockmix.em.starts.starts import portfolio
from blockmix.estimators.biclustering import GaussianBiclustering
from blockmix.estimators.covariance import BlockDiagonalCovariance
from blockmix.selection.table import SelectionTable, select
from blockmix.structure.columns import column_names

_LINES = 14  # of the description of one component


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model, the comparison that it was chosen by, and what was said of it."""

    model: Any
    selection: SelectionTable | None = None
    warnings: list[str] | None = None
    seconds: float = 0.0


def fit_mixture(data: Data, options: MixtureOptions, criterion: str = "bic", jobs: int | None = None) -> Fitted:
    """Fit the mixture, or compare several and take the best."""
    if options.scale:
        location, scale = data.table.values.mean(axis=0), data.table.values.std(axis=0)
        data.scaled(location, scale)
    prototype = GaussianBiclustering(
        shared_covariance=options.shared,
        init=options.init,
        n_init=options.n_init,
        shrinkage=options.shrinkage,
        max_iter=options.max_iter,
        random_state=options.seed,
    )
    begin = time.perf_counter()
    with warnings_heard() as heard:
        if len(options.components) == len(options.groups) == 1:
            prototype.set_params(n_components=options.components[0], n_column_groups=options.groups[0])
            model, table = _fit_one(prototype, data.X), None
        else:
            table = _compare(prototype, data.X, options, criterion, jobs)
            model = table.best_estimator_
    if options.scale:
        # Saved with the model, so that `predict` treats new rows alike.
        model.scaling_ = {"location": location, "scale": scale}
    if table is not None and ": " in table.best_.outcome:
        heard.append(worded(table.best_.outcome.partition(": ")[2]))
    return Fitted(model, table, heard, time.perf_counter() - begin)


def _fit_one(model: GaussianBiclustering, X: Any) -> GaussianBiclustering:
    text = f"fitting {model.n_components} row clusters"
    with bar(text, _most_iterations(model, X), left="left at most") as shown:
        done = iter(range(1, 10**9))
        model.fit(X, callback=lambda progress: shown.show(next(done), text=f"{text}: {progress.start}"))
    if model.outcome_ == "interrupted":
        raise KeyboardInterrupt
    return model


def _most_iterations(model: GaussianBiclustering, X: Any) -> int:
    if model.init != "portfolio":
        return model.n_init * model.max_iter
    heat = min(SHORT, model.max_iter)
    return heat * model.n_init * len(portfolio(*X.shape)) + FINALISTS * (model.max_iter - heat)


def _compare(
    prototype: GaussianBiclustering, X: Any, options: MixtureOptions, criterion: str, jobs: int | None
) -> SelectionTable:
    n_pairs = len(options.components) * len(options.groups)
    with bar(f"comparing {n_pairs} models", n_pairs) as shown:
        done = 0

        def tried(event: Any) -> None:
            nonlocal done
            done = event.done
            shown.show(done)

        def iterated(progress: Progress) -> None:
            # A part of one step, so that the bar moves within a long fit.
            part = min(progress.iteration / prototype.max_iter, 0.99)
            shown.show(done + part, text=f"comparing {n_pairs} models: iteration {progress.iteration + 1}")

        table = select(
            X,
            options.components,
            options.groups,
            criterion=criterion,
            estimator=prototype,
            n_jobs=jobs,
            callback=tried,
            on_iteration=iterated if jobs is None else None,
        )
    if len(table.rows) < n_pairs:
        raise KeyboardInterrupt
    return table


def fit_covariance(data: Data, n_groups: int | str, shrinkage: float | None) -> Fitted:
    """Find the column groups of the whole table."""
    begin = time.perf_counter()
    with warnings_heard() as heard, bar(f"grouping {len(data.table.names)} columns"):
        model = BlockDiagonalCovariance(n_groups, shrinkage=shrinkage).fit(data.X)
    return Fitted(model, None, heard, time.perf_counter() - begin)


def write_results(folder: Path, out: Path, data: Data, fitted: Fitted, command: str) -> dict[str, Any]:
    """Write all files of a fit, and return its summary."""
    model, X = fitted.model, data.X
    summary = _summary(data, fitted, command)
    with bar("writing the results"):
        model.save(folder / MODEL)
        names = column_names(model)
        if isinstance(model, BlockDiagonalCovariance):
            write_csv(folder / COLUMNS, ["column", "group"], zip(names, model.column_labels_.tolist(), strict=True))
        else:
            summary |= model._criteria(X, None)
            write_csv(folder / ROWS, ["row", "cluster", "probability"], cluster_lines(model, X, data.table.row_names))
            write_csv(folder / COLUMNS, ["component", "column", "group"], _column_lines(model, names))
    if fitted.selection is not None:
        lines = [_selection_line(row) for row in fitted.selection.rows]
        write_csv(folder / SELECTION, list(lines[0]), [list(line.values()) for line in lines])
        summary |= {"criterion": fitted.selection.criterion, "selection": lines}
    summary["folder"] = str(out)
    summary["files"] = [*sorted(path.name for path in folder.iterdir()), SUMMARY, REPORT]
    write_json(folder / SUMMARY, summary)
    report(folder / REPORT, fitted, data, command)
    return summary


def report(path: Path, fitted: Fitted, data: Data | None, command: str) -> None:
    """Write the page of a model."""
    from blockmix.report import write_report

    labels = None if data is None or data.labels is None else ["" if text is None else text for text in data.labels]
    with bar("writing the report"):
        write_report(
            fitted.model,
            path,
            None if data is None else data.X,
            table=fitted.selection,
            labels=labels,
            row_names=None if data is None else data.table.row_names,
            title=None if data is None else Path(data.table.source).name,
            warnings=fitted.warnings,
            command=command,
        )


def cluster_lines(model: Any, X: Any, row_names: Any) -> Iterator[tuple[str, int, str]]:
    """Row name, cluster and its probability, line by line."""
    probabilities = model.predict_proba(X)
    clusters = np.where(probabilities.any(axis=1), probabilities.argmax(axis=1), -1)  # -1: a text without a topic
    largest = probabilities.max(axis=1)
    for name, cluster, probability in zip(row_names, clusters.tolist(), largest.tolist(), strict=True):
        yield name, cluster, f"{probability:.6g}"


def _column_lines(model: Any, names: list[str]) -> Iterator[tuple[int, str, int]]:
    for g, labels in enumerate(model.column_labels_.tolist()):
        yield from ((g, name, group) for name, group in zip(names, labels, strict=True))


def _selection_line(row: Any) -> dict[str, Any]:
    line = {name: getattr(row, name) for name in ("n_components", "n_column_groups", "n_parameters")}
    return (
        line
        | {"groups": " ".join(map(str, row.groups))}
        | {name: getattr(row, name) for name in ("log_likelihood", "bic", "icl", "aic", "seconds", "outcome")}
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
        "outcome": model.outcome_,
        "iterations": model.n_iter_,
        "label": data.label,
        "ari": data.agreement(model.row_labels_),
    }


def say(summary: dict[str, Any], fitted: Fitted, json: bool) -> None:
    """Print the result: for a program as JSON, for a person as text."""
    if json:
        print(as_json(summary))
        return
    print(f"{summary['file']}: {summary['rows']} rows × {summary['columns']} numeric columns\n")
    if fitted.selection is not None:
        print(fitted.selection, end="\n\n")
    print(_shortened(fitted.model.describe()))
    if summary.get("ari") is not None:
        print(f"\nAgreement of the clusters with {summary['label']}: adjusted Rand index {summary['ari']:.3f}")
    print(f"\nWritten to {summary['folder']}: {', '.join(summary['files'])}")


def _shortened(text: str) -> str:
    """The description without the many small groups of a wide table."""
    kept: list[str] = []
    count = 0
    for line in text.splitlines():
        count = count + 1 if line.startswith(" ") else 0
        if count < _LINES or "alone: " in line:
            kept.append(line)
        elif count == _LINES:
            kept.append(f"  …: all groups are in {COLUMNS}")
    return "\n".join(kept)
