"""Saved models: clusters of new rows, missing values filled, whether they hold in other rows, and with how many."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from blockmix import BlockDiagonalCovariance, BlockDiscriminantAnalysis, TopicBiclustering, load, plan, replicate
from blockmix.command import output
from blockmix.command.extras import appended, read_whole
from blockmix.command.fit import agreement, compiling, row_head, row_lines
from blockmix.command.options import ImputeOptions, PlanOptions, PredictOptions, ReplicateOptions
from blockmix.command.output import note, progress_bar, write_csv
from blockmix.command.reading import read_table, stem_of
from blockmix.command.table import Names, Table, print_notes
from blockmix.command.topics import TOPIC_HEAD, read_documents
from blockmix.estimators.validation import takes_missing
from blockmix.files.archive import replacing


def predict_rows(options: PredictOptions, _: str) -> None:
    """Print or write the cluster of each row."""
    model, label = _mixture(options.model), options.label
    head: Sequence[str]
    if isinstance(model, BlockDiagonalCovariance):
        raise ValueError(f"{options.model} holds a covariance, which has no row clusters: use blockmix fit")
    _refuse_existing(options.out)
    kept = () if label is None else (label,)
    if isinstance(model, TopicBiclustering):
        if options.text is None:
            raise ValueError(f"{options.model} holds topics: name the column of texts with --text")
        table, head = read_documents(options.file, options, [options.text], kept), TOPIC_HEAD
        X: Any = table.texts[options.text]
    else:
        table = _read_for_model(model, options, kept)
        X = table.X
        head = row_head(table)[: None if hasattr(model, "outlier_scores_") else 3]
    whole = read_whole(options.file, options) if options.append else None
    clusters: list[int] = []

    def noted(lines: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """The lines as they are, whose clusters are compared with the label at the end."""
        for cells in lines:
            clusters.append(cells[1])
            yield cells

    lines: Any = noted(row_lines(model, X, table.row_names, new=True))
    if whole is not None:
        head, lines = appended(whole, table, model, head, lines)
    with progress_bar("assigning rows to clusters", rows=X), compiling():
        if options.out is None:
            write_csv(sys.stdout, head, lines)
            output.check_output()
        else:
            _write_new(options.out, head, lines)
            print(f"Written: {options.out}")
    if label is not None:
        ari = agreement(table, label, np.array(clusters))
        note(f"agreement with {label}: adjusted Rand index {ari:.3f}")


def _mixture(path: Path) -> Any:
    """The model in a file, which is not a classifier: there are commands for clusters only."""
    model = load(path)
    if isinstance(model, BlockDiscriminantAnalysis):
        raise ValueError(f"{path} holds a classifier, which has no commands: blockmix.load reads it in Python")
    return model


def _refuse_existing(out: Path | None) -> None:
    if out is not None and os.path.lexists(out):
        raise ValueError(f"{out} exists already: give another name with --out")
    if out is not None and out.suffix.lower() in (".parquet", ".xlsx", ".npy", ".h5ad"):
        raise ValueError(f"{out} would hold csv: give a name that ends in .csv with --out")


def _write_new(out: Path, head: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    """Write a csv file that appears when it is complete."""
    with replacing(out) as stream:
        text = io.TextIOWrapper(stream, "utf-8", "backslashreplace", newline="")
        write_csv(text, head, lines)
        text.flush()
        text.detach()


def _read_for_model(model: Any, options: Any, kept: Names | None = ()) -> Table:
    """The columns of a file that a model was fitted to, in its order, and others as text; None is all others."""
    names = getattr(model, "feature_names_in_", None)
    only = None if names is None else tuple(map(str, names))
    table = read_table(options.file, options, () if only is kept is None else kept, only)
    for name in only or ():
        if name in table.left_out:
            raise ValueError(f"the column {name!r} of {table.source} is not numeric: {table.left_out[name]}")
    table = table.complete(options.drop_missing, takes_missing(model))
    print_notes(table)
    if (n := len(table.names)) != model.n_features_in_:
        expected = f"{options.model} was fitted to {model.n_features_in_}"
        raise ValueError(f"{options.file} has {n} numeric columns, but {expected}")
    return table


def write_completed(options: ImputeOptions, _: str) -> None:
    """Write the table with all values in the columns of the model; an existing file is never replaced."""
    out: Path = options.out or Path(f"{stem_of(options.file)}-imputed.csv")
    _refuse_existing(out)
    model = _mixture(options.model)
    if not hasattr(model, "impute"):
        kind = type(model).__name__
        raise ValueError(f"{options.model} holds a {kind}, which cannot fill missing values: use blockmix fit")
    table = _read_for_model(model, options, None)
    texts: dict[str, Any] = table.texts if table.named_by is None else {table.named_by: table.row_names}
    names = {*texts, *table.names}
    head = [name for name in table.header if name in names]
    missing, n_rows = int(table.description.missing.sum()), np.count_nonzero(table.description.row_missing)

    def lines() -> Iterator[Sequence[Any]]:
        """The completed rows, some at a time, between the other cells of the file."""
        start = 0
        for values in table.blocks():
            X = replace(table, values=values).X if hasattr(model, "feature_names_in_") else values
            completed = np.asarray(model.impute(X)).astype(values.dtype, copy=False)
            cells: dict[str, Any] = {name: column[start : start + len(values)] for name, column in texts.items()}
            cells |= {name: map(str, column) for name, column in zip(table.names, completed.T, strict=True)}
            yield from zip(*(cells[name] for name in head), strict=True)
            start += len(values)

    with progress_bar("filling missing values", rows=table.values), compiling():
        _write_new(out, head, lines())
    print(f"Written: {out}, with {missing} missing values filled in {n_rows} of {table.n_rows} rows")


def replicate_model(options: ReplicateOptions, _: str) -> None:
    """Print how groups and clusters fare in other rows."""
    model = _mixture(options.model)
    _refuse_existing(options.out)
    if isinstance(model, TopicBiclustering):
        raise ValueError(f"{options.model} holds topics: replicate needs a model of a table of numbers")
    table = _read_for_model(model, options)
    result = replicate(model, table.X, random_state=options.seed)
    print(result)
    if options.out is not None:
        _write_new(options.out, list(result.groups), result.groups.round(4).to_numpy().tolist())
        print(f"Written: {options.out}")


def plan_rows(options: PlanOptions, _: str) -> None:
    """Print the share of groups and clusters that come out right for each number of rows."""
    model, n_tables = _mixture(options.model), len(options.rows) * options.draws
    settings: dict[str, Any] = {"n_draws": options.draws, "random_state": options.seed}
    with progress_bar("fitting tables drawn from the model", n_tables) as update, compiling():
        shares = plan(model, options.rows, **settings, callback=lambda done, _: update(done))
    print(shares.round(2).to_string(index=False))
