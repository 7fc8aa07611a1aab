"""Filling the missing values of a table with a saved model."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from blockmix.cli import results
from blockmix.cli.data import Data
from blockmix.cli.options import ReadingOptions
from blockmix.cli.predicting import read_for_model
from blockmix.cli.progress import progress_bar
from blockmix.cli.reading.file_rows import watched
from blockmix.cli.reading.large import LargeTable
from blockmix.estimators.models import load
from blockmix.files.archive import replacing
from blockmix.partition import FloatArray, column_names
from blockmix.rows.files import needed
from blockmix.rows.rows import places


def write_completed(path: Path, file: str, out: Path, raw: bool, reading: ReadingOptions) -> None:
    """Write the columns of the model with all values; an existing file is never replaced."""
    if os.path.lexists(out):
        raise ValueError(f"{out} exists already: give another name with --out")
    model = load(path)
    if not hasattr(model, "impute"):
        raise ValueError(f"{path} holds a {type(model).__name__}, which cannot fill missing values: use blockmix fit")
    data = read_for_model(path, model, file, None, reading, scaled=False)
    counts = {"cells": 0, "rows": 0}
    named = data.table.named_by
    head = [*([] if named is None else [named]), *column_names(model)]
    with progress_bar("filling missing values", 1) as bar, watched(data.X, bar.update), replacing(out) as stream:
        text = io.TextIOWrapper(stream, "utf-8", "backslashreplace", newline="")
        results.csv_to(text, head, _lines(model, data, counts), raw)
        text.flush()
        text.detach()
    filled = f"{counts['cells']} missing values filled in {counts['rows']} of {data.table.shape[0]} rows"
    print(f"Written: {out}, with {filled}")


def _lines(model: Any, data: Data, counts: dict[str, int]) -> Iterator[list[Any]]:
    """The completed rows, with their names if the file has them."""
    start, names = 0, data.table.row_names
    for values in _blocks(data):
        gaps = np.isnan(values)
        found = _completed(model, values) if gaps.any() else values
        counts["cells"] += int(gaps.sum())
        counts["rows"] += int(gaps.any(axis=1).sum())
        for i, row in enumerate(found):
            yield [*([] if data.table.named_by is None else [names[start + i]]), *map(str, row)]
        start += len(found)


def _blocks(data: Data) -> Iterator[FloatArray]:
    if isinstance(data.table, LargeTable):
        yield from (np.asarray(piece.read()) for piece in data.table.values.pieces())
    else:
        yield from (data.table.values[place] for place in places(*data.table.shape))


def _completed(model: Any, values: FloatArray) -> FloatArray:
    """Rows with their gaps filled, in the units of the file; what is there stays as it is to the last bit."""
    scaling = getattr(model, "scaling_", None)
    location, scale = (0.0, 1.0) if scaling is None else (scaling["location"], scaling["scale"])
    X = (values - location) / scale
    if hasattr(model, "feature_names_in_"):
        X = needed("pandas", "app").DataFrame(X, columns=column_names(model))
    filled = np.asarray(model.impute(X)) * scale + location
    return np.where(np.isnan(values), filled, values).astype(values.dtype)
