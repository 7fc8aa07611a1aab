"""Predicting: what a saved model says of a table.

A model file and a table come in; clusters of the rows go out.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np

import blockmix
from blockmix.cli.bars import bar
from blockmix.cli.data import Data, read_data, read_file, without_gaps
from blockmix.cli.fitting import cluster_lines
from blockmix.cli.folder import ROWS, SUMMARY, as_json, results, write_csv, write_json
from blockmix.cli.options import ReadingOptions, WritingOptions
from blockmix.cli.speaking import note
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
        head, lines, ari = ["row", "topic", "probability"], *_topics(path, model, file, label, text, reading)
    else:
        data = read_for(path, model, file, label, reading)
        with bar("assigning rows to clusters"):
            head, lines = ["row", "cluster", "probability"], list(cluster_lines(model, data.X, data.table.row_names))
        ari = data.agreement([line[1] for line in lines])
    G = len(model.topics_ if isinstance(model, TopicBiclustering) else model.weights_)
    summary: dict[str, Any] = {
        "blockmix": blockmix.__version__,
        "command": command,
        "model": str(path),
        "file": file,
        "rows": len(lines),
        "sizes": np.bincount([line[1] for line in lines if line[1] >= 0], minlength=G),
        "label": label,
        "ari": ari,
    }
    if writing.out is not None:
        with results(writing.out) as folder:
            write_csv(folder / ROWS, head, lines)
            write_json(folder / SUMMARY, summary)
    if writing.json:
        named = [{head[0]: name, head[1]: cluster, head[2]: float(p)} for name, cluster, p in lines]
        print(as_json(summary | {"assignments": named}))
    elif writing.out is None:
        csv.writer(sys.stdout, lineterminator="\n").writerows([head, *lines])
    else:
        print(f"Written to {writing.out}: {ROWS}, {SUMMARY}")
    if ari is not None and not writing.json:
        note(f"agreement with {label}: adjusted Rand index {ari:.3f}")


def read_for(path: Path, model: Any, file: str, label: str | None, reading: ReadingOptions) -> Data:
    """The columns of a file that a model was fitted to, in its order and its units."""
    names = getattr(model, "feature_names_in_", None)
    data = read_data(file, reading, label, None if names is None else tuple(map(str, names)), vary=False)
    found, wanted = len(data.table.names), model.n_features_in_
    if found != wanted:
        raise ValueError(f"{file} has {found} numeric columns, but {path} was fitted to {wanted}")
    scaling = getattr(model, "scaling_", None)
    return data if scaling is None else data.scaled(scaling["location"], scaling["scale"])


def _topics(
    path: Path, model: TopicBiclustering, file: str, label: str | None, text: str | None, reading: ReadingOptions
) -> tuple[list[tuple[str, int, str]], float | None]:
    if text is None:
        raise ValueError(f"{path} holds topics: name the column of texts with --text")
    kept = [text] if label is None else [text, label]
    table = without_gaps(read_file(file, reading, tuple(kept), ()), [text], reading.drop_missing)
    lines = list(cluster_lines(model, table.texts[text], table.row_names))
    return lines, Data(table, label).agreement([line[1] for line in lines])
