"""Predicting the clusters of new rows with a saved model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import blockmix
from blockmix.cli import results
from blockmix.cli.data import Data, read_data, read_file, without_gaps
from blockmix.cli.messages import note
from blockmix.cli.options import ReadingOptions, WritingOptions
from blockmix.cli.progress import progress_bar
from blockmix.cli.reading.file_rows import watched
from blockmix.cli.reading.large import LargeTable
from blockmix.cli.streams import check_output
from blockmix.cli.tables import row_head, row_lines
from blockmix.estimators.covariance import BlockDiagonalCovariance
from blockmix.estimators.models import load
from blockmix.estimators.topics import TopicBiclustering
from blockmix.estimators.validation import takes_missing
from blockmix.partition import IntArray


def predict_rows(
    path: Path,
    file: str,
    label: str | None,
    text: str | None,
    reading: ReadingOptions,
    writing: WritingOptions,
    command: str,
) -> None:
    """Print or write the cluster of each row."""
    model = load(path)
    if isinstance(model, BlockDiagonalCovariance):
        raise ValueError(f"{path} holds a covariance, which has no row clusters: fit a mixture with blockmix fit")
    if isinstance(model, TopicBiclustering):
        head, n_clusters = row_head(model, "topic"), len(model.topics_)
        data, X = _documents(path, file, label, text, reading)
    else:
        head, n_clusters = row_head(model), len(model.weights_)
        data = read_for_model(path, model, file, label, reading)
        X = data.X
    if writing.json and isinstance(data.table, LargeTable):
        raise ValueError(f"{file} has too many rows for --json: write them with --out DIR")
    N = data.table.shape[0]
    clusters: IntArray = np.empty(N, dtype=np.int32)
    lines = _noted(row_lines(model, X, data.table.row_names), clusters)
    summary: dict[str, Any] = {
        "blockmix": blockmix.__version__,
        "kind": "predictions",
        "files": results.KINDS["predictions"],
        "command": command,
        "model": str(path),
        "file": file,
        "rows": N,
        "label": label,
    }

    def complete() -> dict[str, Any]:
        """Add what is known when all rows have been read."""
        summary["sizes"] = np.bincount(clusters[clusters >= 0], minlength=n_clusters)
        summary["ari"] = data.agreement(clusters)
        return summary

    with progress_bar("assigning rows to clusters", 1) as bar, watched(X, bar.update):
        _output(lines, head, complete, writing, [path, file])
    if summary["ari"] is not None and not writing.json:
        note(f"agreement with {label}: adjusted Rand index {summary['ari']:.3f}")


def _noted(lines: Iterable[tuple[Any, ...]], clusters: Any) -> Iterator[tuple[Any, ...]]:
    """The lines as they are, while their clusters are collected."""
    for i, line in enumerate(lines):
        clusters[i] = line[1]
        yield line


def _output(
    lines: Iterable[tuple[Any, ...]],
    head: list[str],
    complete: Callable[[], dict[str, Any]],
    writing: WritingOptions,
    inputs: list[str | Path],
) -> None:
    """Write or print the lines one by one, and then the summary."""
    if writing.json:
        lines = list(lines)
    if writing.out is not None:
        with results.folder(writing.out, "predictions", inputs) as folder, results.blaming(writing.out):
            results.write_csv(folder / results.PREDICTIONS, head, lines, writing.raw_text)
            results.write_json(folder / results.PREDICTIONS_SUMMARY, complete())
    if writing.json:
        assignments = [dict(zip(head, line, strict=True)) | {head[2]: float(line[2])} for line in lines]
        print(results.as_json(complete() | {"assignments": assignments}, ascii=True))
        check_output()
    elif writing.out is None:
        results.csv_to(sys.stdout, head, lines, writing.raw_text)
        complete()
        check_output()
    else:
        print(f"Written to {writing.out}: {', '.join(results.KINDS['predictions'])}")


def read_for_model(
    path: Path, model: Any, file: str, label: str | None, reading: ReadingOptions, scaled: bool = True
) -> Data:
    """The columns of a file that a model was fitted to, in its order and, if `scaled`, in its units."""
    names = getattr(model, "feature_names_in_", None)
    data = read_data(
        file, reading, label, None if names is None else tuple(map(str, names)), to_fit=False, gaps=takes_missing(model)
    )
    found, wanted = len(data.table.names), model.n_features_in_
    if found != wanted:
        raise ValueError(f"{file} has {found} numeric columns, but {path} was fitted to {wanted}")
    if scaled and (scaling := getattr(model, "scaling_", None)) is not None:
        data.scale(**scaling)
    return data


def _documents(
    path: Path, file: str, label: str | None, text: str | None, reading: ReadingOptions
) -> tuple[Data, list[str | None]]:
    if text is None:
        raise ValueError(f"{path} holds topics: name the column of texts with --text")
    kept = (text,) if label is None else (text, label)
    table = without_gaps(read_file(file, reading, kept, ()), [text], reading.drop_missing)
    return Data(table, label, reading), table.texts[text]
