"""Predicting the clusters of new rows with a saved model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import blockmix
from blockmix.cli import results
from blockmix.cli.data import Data, read_data, read_file, without_gaps
from blockmix.cli.fitting import cluster_lines
from blockmix.cli.messages import note
from blockmix.cli.options import ReadingOptions, WritingOptions
from blockmix.cli.progress import progress_bar
from blockmix.cli.streams import check_output
from blockmix.estimators.covariance import BlockDiagonalCovariance
from blockmix.estimators.loading import load
from blockmix.estimators.topics.biclustering import TopicBiclustering


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
        head, n_clusters = ["row", "topic", "probability"], len(model.topics_)
        data, X = _documents(path, file, label, text, reading)
    else:
        head, n_clusters = ["row", "cluster", "probability"], len(model.weights_)
        data = read_for_model(path, model, file, label, reading)
        X = data.X
    with progress_bar("assigning rows to clusters"):
        lines = list(cluster_lines(model, X, data.table.row_names))
    clusters = [line[1] for line in lines]
    summary: dict[str, Any] = {
        "blockmix": blockmix.__version__,
        "kind": "predictions",
        "files": results.KINDS["predictions"],
        "command": command,
        "model": str(path),
        "file": file,
        "rows": len(lines),
        "sizes": np.bincount([cluster for cluster in clusters if cluster >= 0], minlength=n_clusters),
        "label": label,
        "ari": data.agreement(clusters),
    }
    if writing.out is not None:
        with results.folder(writing.out, "predictions", [path, file]) as folder, results.blaming(writing.out):
            results.write_csv(folder / results.PREDICTIONS, head, lines, writing.raw_text)
            results.write_json(folder / results.PREDICTIONS_SUMMARY, summary)
    if writing.json:
        assignments = [{head[0]: name, head[1]: cluster, head[2]: float(p)} for name, cluster, p in lines]
        print(results.as_json(summary | {"assignments": assignments}, ascii=True))
        check_output()
    elif writing.out is None:
        results.csv_to(sys.stdout, head, lines, writing.raw_text)
        check_output()
    else:
        print(f"Written to {writing.out}: {', '.join(summary['files'])}")
    if summary["ari"] is not None and not writing.json:
        note(f"agreement with {label}: adjusted Rand index {summary['ari']:.3f}")


def read_for_model(path: Path, model: Any, file: str, label: str | None, reading: ReadingOptions) -> Data:
    """The columns of a file that a model was fitted to, in its order and its units."""
    names = getattr(model, "feature_names_in_", None)
    data = read_data(file, reading, label, None if names is None else tuple(map(str, names)), to_fit=False)
    found, wanted = len(data.table.names), model.n_features_in_
    if found != wanted:
        raise ValueError(f"{file} has {found} numeric columns, but {path} was fitted to {wanted}")
    if (scaling := getattr(model, "scaling_", None)) is not None:
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
