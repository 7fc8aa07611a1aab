"""Fitting a mixture or a covariance to a table: the fit, its files and its printed summary."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import blockmix
from blockmix.cli import results
from blockmix.cli.compiling import compile_loops
from blockmix.cli.data import Data
from blockmix.cli.messages import in_terms_of_options, note, warnings_collected
from blockmix.cli.options import MixtureOptions, ReadingOptions, WritingOptions
from blockmix.cli.progress import progress_bar
from blockmix.cli.streams import check_output
from blockmix.estimators.biclustering import GaussianBiclustering
from blockmix.estimators.covariance import BlockDiagonalCovariance
from blockmix.selection.table import CRITERIA, SelectionTable, select
from blockmix.structure.blocks import BlockCovariance
from blockmix.structure.columns import column_names, leading_loadings
from blockmix.structure.types import FloatArray

_LINES = 14  # printed for one component
_MANY = 20  # candidates
_COLUMN_HEAD = ("column", "group", "size", "loading")


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model, the comparison that chose it, and the warnings of the fit."""

    model: Any
    selection: SelectionTable | None = None
    warnings: list[str] | None = None
    seconds: float = 0.0


def run(
    kind: str,
    out: Path,
    read: Callable[[], Data],
    fit: Callable[[Data], Fitted],
    command: str,
    writing: WritingOptions,
    *inputs: str,
) -> None:
    """Read a table, fit a model to it, write the results to `out` and print the summary."""
    # The folder comes first: if it cannot be written to, better to know before hours of work.
    with results.folder(out, kind, inputs) as folder:
        data = read()
        fitted = fit(data)
        summary = {"kind": kind, "folder": str(out)} | _summary(data, fitted, command)
        with results.blaming(out):
            _write(folder, data, fitted, summary, writing.raw_text)
    print_summary(summary, fitted, writing.json)


def fit_mixture(data: Data, options: MixtureOptions, criterion: str = "bic", jobs: int | None = None) -> Fitted:
    """Fit the mixture, or compare several and take the best."""
    _check_candidates(data, options)
    scaling = data.standardize() if options.scale else None
    prototype = GaussianBiclustering(
        shared_covariance=options.shared,
        init=options.init,
        n_init=options.n_init,
        shrinkage=options.shrinkage,
        max_iter=options.max_iter,
        random_state=options.seed,
    )
    compile_loops()
    begin = time.perf_counter()
    with warnings_collected() as warnings:
        if len(options.components) == len(options.groups) == 1:
            prototype.set_params(n_components=options.components[0], n_column_groups=options.groups[0])
            model, table = _fit_one(prototype, data.X), None
        else:
            table = _compare(prototype, data.X, options, criterion, jobs)
            model = table.best_estimator_
    if scaling is not None:
        model.scaling_ = scaling  # saved with the model, so that `predict` scales new rows alike
    if table is not None and ": " in table.best_.outcome:
        warnings.append(in_terms_of_options(table.best_.outcome.partition(": ")[2]))
    return Fitted(model, table, warnings, time.perf_counter() - begin)


def _check_candidates(data: Data, options: MixtureOptions) -> None:
    """Refuse at once what no fit can do."""
    N, p = data.table.values.shape
    largest = max(options.components)
    if largest > N:
        raise ValueError(f"--components {largest} exceeds the {N} rows of {data.table.source}")
    most_groups = max((K for K in options.groups if isinstance(K, int)), default=1)
    if most_groups > p:
        raise ValueError(f"--groups {most_groups} exceeds the {p} columns of {data.table.source}")
    if (n := len(options.components) * len(options.groups)) > _MANY:
        note(f"comparing {n} models, from {min(options.components)} to {largest} row clusters: this may take a while")


def _fit_one(model: GaussianBiclustering, X: Any) -> GaussianBiclustering:
    text = f"fitting {model.n_components} row clusters"
    most = None if model.init == "portfolio" else model.n_init * model.max_iter
    with progress_bar(text, most, left="left at most") as bar:
        done = count(1)
        model.fit(X, callback=lambda progress: bar.update(next(done), f"{text}: {progress.start}"))
    if model.outcome_ == "interrupted":
        raise KeyboardInterrupt
    return model


def _compare(
    prototype: GaussianBiclustering, X: Any, options: MixtureOptions, criterion: str, jobs: int | None
) -> SelectionTable:
    n_pairs = len(options.components) * len(options.groups)
    text = f"comparing {n_pairs} models"
    with progress_bar(text, n_pairs) as bar:
        done, total = 0.0, n_pairs

        def fitted(event: Any) -> None:
            # With more columns than rows each pair is fitted twice, with own and with a shared covariance.
            nonlocal done, total
            done, total = event.done * n_pairs / event.total, event.total
            bar.update(done)

        def iterated(progress: Any) -> None:
            # A fraction of one fit, so that the bar moves during a long one.
            part = min(progress.iteration / prototype.max_iter, 0.99)
            bar.update(done + part, f"{text}: iteration {progress.iteration + 1}")

        table = select(
            X,
            options.components,
            options.groups,
            criterion=criterion,
            estimator=prototype,
            n_jobs=jobs,
            callback=fitted,
            on_iteration=iterated if jobs is None else None,
        )
    if len(table.rows) < total:
        raise KeyboardInterrupt
    return table


def fit_covariance(data: Data, n_groups: int | str, shrinkage: float | None) -> Fitted:
    """Find the column groups of the whole table."""
    begin = time.perf_counter()
    with warnings_collected() as warnings, progress_bar(f"grouping {len(data.table.names)} columns"):
        model = BlockDiagonalCovariance(n_groups, shrinkage=shrinkage).fit(data.X)
    return Fitted(model, None, warnings, time.perf_counter() - begin)


def _write(folder: Path, data: Data, fitted: Fitted, summary: dict[str, Any], raw: bool) -> None:
    """Write all files of a fit, and complete its summary."""
    model, X, selection = fitted.model, data.X, fitted.selection
    with progress_bar("writing the results"):
        model.save(folder / results.MODEL)
        names = column_names(model)
        if isinstance(model, BlockDiagonalCovariance):
            lines: Any = _column_lines(names, model.blocks_, getattr(model, "loadings_", None))
            results.write_csv(folder / results.COLUMNS, _COLUMN_HEAD, lines, raw)
        else:
            summary |= model._criteria(X, None) if selection is None else _values(selection.best_)
            lines = cluster_lines(model, X, data.table.row_names)
            results.write_csv(folder / results.ROWS, ["row", "cluster", "probability"], lines, raw)
            each = zip(model.blocks_, model.loadings_, strict=True)
            lines = ((g, *line) for g, own in enumerate(each) for line in _column_lines(names, *own))
            results.write_csv(folder / results.COLUMNS, ["component", *_COLUMN_HEAD], lines, raw)
    if selection is not None:
        tried = [_selection_line(row) for row in selection.rows]
        results.write_csv(folder / results.SELECTION, list(tried[0]), [list(line.values()) for line in tried], raw)
        summary |= {"criterion": selection.criterion, "selection": tried}
    summary["files"] = [*sorted(path.name for path in folder.iterdir()), results.SUMMARY, results.REPORT]
    results.write_json(folder / results.SUMMARY, summary)
    report(folder / results.REPORT, fitted, data, summary["command"])


def report(path: Path, fitted: Fitted, data: Data | None, command: str) -> None:
    """Write the report of a model."""
    from blockmix.report import write_report

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
            warnings=fitted.warnings,
            command=command,
        )


def cluster_lines(model: Any, X: Any, row_names: Any) -> Iterator[tuple[str, int, str]]:
    """Row name, cluster and its probability, for each row."""
    probabilities = model.predict_proba(X)
    clusters = np.where(probabilities.any(axis=1), probabilities.argmax(axis=1), -1)  # -1: a text without a topic
    largest = probabilities.max(axis=1)
    for name, cluster, probability in zip(row_names, clusters.tolist(), largest.tolist(), strict=True):
        yield str(name), cluster, f"{probability:.6g}"


def _column_lines(
    names: list[str], covariance: BlockCovariance, loadings: Sequence[FloatArray | None] | None
) -> Iterator[tuple[str, int | str, int, str]]:
    """Column name, group, size of the group and loading, the correlation with the strongest factor of the group."""
    labels, sizes = covariance.partition.labels.tolist(), covariance.partition.sizes.tolist()
    own = np.full(len(names), np.nan) if loadings is None else leading_loadings(covariance, loadings)
    for name, label, loading in zip(names, labels, own.tolist(), strict=True):
        group = label if sizes[label] > 1 else "alone"
        yield name, group, sizes[label], "" if np.isnan(loading) else f"{loading:.3f}"


def _selection_line(row: Any) -> dict[str, Any]:
    return {
        "n_components": row.n_components,
        "n_column_groups": row.n_column_groups,
        "n_parameters": row.n_parameters,
        "groups": " ".join(map(str, row.groups)),
        **_values(row),
        "seconds": row.seconds,
        "outcome": row.outcome,
    }


def _values(row: Any) -> dict[str, float]:
    """Log-likelihood and criteria of a candidate."""
    return {name: getattr(row, name) for name in ("log_likelihood", *CRITERIA)}


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
    print(f"\nWritten to {summary['folder']}: {', '.join(summary['files'])}")


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
