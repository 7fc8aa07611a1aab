"""Fits: read a table, fit a mixture or a covariance to it, write the results together, and print the summary."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import typer
from sklearn.metrics import adjusted_rand_score

import blockmix
from blockmix import BlockDiagonalCovariance, GaussianBiclustering, select
from blockmix.candidates import CRITERIA
from blockmix.command import extras, formats, output
from blockmix.command.extras import Fitted
from blockmix.command.options import FitOptions, MixtureOptions, WritingOptions
from blockmix.command.output import note, progress_bar, warnings_collected, write_csv, write_frame
from blockmix.command.reading import read_table, stem_of
from blockmix.command.table import Table, print_notes
from blockmix.estimators.answer import answer
from blockmix.estimators.fitting import probabilities, tells_rows_apart
from blockmix.estimators.mixture import Mixture
from blockmix.estimators.tables import label_numbers
from blockmix.estimators.validation import rows_to_score
from blockmix.partition import FloatArray, IntArray
from blockmix.rows import Chunk, one_blas_thread

_FARTHEST = 5  # rows listed
_SHOWN_ROWS = 20_000  # rows of a large table that the page and the figures show
_SHOWN_COLUMNS = 5000  # of a page, whose maps and trees need several p × p matrices
Fit = Callable[[Table, Any], tuple[Table, Fitted]]


def fit_mixture(options: MixtureOptions, line: str, table: Table | None = None) -> None:
    """Fit a mixture to a file, or to a table that is given, or compare several and take the best."""
    if options.checkpoint is not None and len(options.components) * len(options.groups) > 1:
        raise typer.BadParameter("it belongs to one fit: give one number with --components", param_hint="--checkpoint")
    _run("mixture", options, line, _fitted_mixture, table)


def fit_demo(options: WritingOptions, line: str) -> None:
    """Fit mixtures to 178 wines of three cultivars and 13 measurements, as if read from a file."""
    from sklearn.datasets import load_wine

    wine = load_wine()
    cultivars: list[str | None] = [str(wine.target_names[k]) for k in wine.target]
    names, row_names = tuple(wine.feature_names), range(1, len(wine.data) + 1)
    table = Table("wine", names, wine.data, row_names, {"cultivar": cultivars})
    settings = {"components": (1, 2, 3, 4, 5), "groups": ("auto",), **vars(options)}
    settings["out"] = options.out or Path("blockmix-demo")
    fit_mixture(MixtureOptions(file="", label="cultivar", **settings), line, table)


def fit_covariance(options: FitOptions, line: str) -> None:
    """Find the column groups of a whole table."""
    if len(options.groups) > 1:
        raise typer.BadParameter("one number or one rule is needed here", param_hint="--groups")
    _run("covariance", options, line, _fitted_covariance)


def _run(kind: str, options: FitOptions, line: str, fit: Fit, table: Table | None = None) -> None:
    """Read a table unless it is given, fit a model to it, write the results and print the summary.

    A fit that Ctrl-C cut short is written all the same, and ends with exit code 130.
    """
    out = options.out or Path(f"{stem_of(options.file)}-blockmix")
    # The folder comes first: if it cannot be written to, better to know before hours of work.
    with output.folder(out, kind, options.file) as folder:
        table = _table_to_fit(options) if table is None else table
        whole = extras.read_whole(options.file, options) if getattr(options, "append", False) else None
        traits = {} if options.traits is None else extras.read_traits(options.traits, table)
        doubts, (table, fitted) = table.sentinels(), fit(table, options)
        fitted.warnings[:0] = doubts
        if not fitted.interrupted:
            try:
                extras.measure(fitted, table, options)
            except KeyboardInterrupt:  # the fit is kept
                fitted.interrupted = True
        summary = {"kind": kind, "folder": str(out)} | _summary(table, fitted, options, line)
        _write(folder, (table, whole), traits, fitted, summary, options)
    if options.json:
        output.write_json(summary)
    else:
        _print_summary(summary, fitted)
    if fitted.interrupted:
        if fitted.stability is None:
            note("blockmix: interrupted, the best model so far was written")
        raise SystemExit(130)


def _table_to_fit(options: FitOptions) -> Table:
    """The numbers of a file, varying, not too many, and enough for the candidates; missing values may be among them."""
    kept = {name: None for name in (getattr(options, "label", None), options.units) if name is not None}
    table = read_table(options.file, options, [*kept])
    table = table.complete(options.drop_missing, missing=True).varying()
    if options.top_variance is not None:
        table = table.most_varying(options.top_variance)
    N, p = table.values.shape
    print_notes(table)
    if getattr(options, "append", False) and not table.in_memory:
        raise ValueError(f"{table.source} is too large to be copied with --append: {output.ROWS} has its rows in order")
    numbers = max((K for K in options.groups if isinstance(K, int)), default=0)
    components = max(getattr(options, "components", ()), default=0)
    for name, most, limit, what in (("--components", components, N, "rows"), ("--groups", numbers, p, "columns")):
        if most > limit:
            raise ValueError(f"{name} {most} exceeds the {limit} {what} of {table.source}")
    return table


def _fitted_mixture(table: Table, options: MixtureOptions) -> tuple[Table, Fitted]:
    """Fit the only candidate, or compare several; Ctrl-C ends with the best so far.

    With --stability the comparison has the least stable cluster of each candidate, if the rows are in memory.
    """
    names = ("n_init", "shrinkage", "max_iter")
    settings: dict[str, Any] = {name: getattr(options, name) for name in names} | {"random_state": options.seed}
    settings |= {"shared_covariance": True} if options.shared else {}
    settings |= {"tails": options.tails} if options.tails != "normal" else {}
    n, X, selection = len(options.components) * len(options.groups), table.X, None
    text = "comparing models" if n > 1 else f"fitting {options.components[0]} row clusters"
    compile_loops(bool(table.description.missing.any()))
    begin = time.perf_counter()
    with warnings_collected() as texts, progress_bar(text, 1 if n > 1 else None, X) as update:
        iterated = lambda progress: update(None, f", iteration {progress.iteration + 1}")  # noqa: E731
        if n == 1:
            model = GaussianBiclustering(options.components[0], options.groups[0], **settings)
            model.fit(X, callback=iterated, checkpoint=options.checkpoint)
        else:
            settings |= {"criterion": options.criterion, "on_iteration": iterated}
            settings["callback"] = lambda event: update(event.done / event.total)
            settings["stability"] = options.stability and options.refits > 0 and table.in_memory
            selection = select(X, options.components, options.groups, **settings)
            model = selection.best_.model
            if ": " in selection.best_.outcome:
                warnings.warn(selection.best_.outcome.partition(": ")[2], stacklevel=1)
    interrupted = model.outcome_ == "interrupted" or any(text.startswith("interrupted after") for text in texts)
    return table, Fitted(model, selection, texts, time.perf_counter() - begin, interrupted)


def _fitted_covariance(table: Table, options: FitOptions) -> tuple[Table, Fitted]:
    """Group the columns, of a sample of the rows if the table is large."""
    N, p = table.values.shape
    if not table.in_memory and (table := table.sample(formats.LARGE // p)).values.shape[0] < N:
        note(f"the covariance is that of a sample of {table.values.shape[0]} of the {N} rows")
    begin = time.perf_counter()
    with warnings_collected() as texts, progress_bar(f"grouping {p} columns"):
        model = BlockDiagonalCovariance(options.groups[0]).fit(table.X)
    return table, Fitted(model, None, texts, time.perf_counter() - begin)


def compile_loops(missing: bool = False) -> None:
    """Compile the loops of a sweep, or load them from the cache, by a fit to a tiny table like that of the user."""
    tiny = np.random.default_rng(0).standard_normal((40, 6))
    tiny[::9, 0] = np.nan if missing else 0
    with warnings.catch_warnings(record=True) as caught, compiling():
        warnings.simplefilter("always")
        GaussianBiclustering(2, random_state=0, max_iter=2).fit(tiny)
    for text in [str(warning.message) for warning in caught if "NUMBA_CACHE_DIR" in str(warning.message)]:
        note(f"warning: {text}")  # others are of a fit that was not asked for


@contextmanager
def compiling() -> Iterator[None]:
    """Tell the user once if loops are compiled; no signal that arrives meanwhile is lost."""
    from numba.core import event

    before, told = len(output.signals), False

    def on_start(self: Any, event: object) -> None:
        nonlocal told
        output.raise_dropped(before)
        if not told:
            note("compiling (once)")
        told = True

    methods = {"on_start": on_start, "on_end": lambda self, event: output.raise_dropped(before)}
    with event.install_listener("numba:compile", type("Listener", (event.Listener,), methods)()):
        yield
    output.raise_dropped(before)


def _write(folder: Path, tables: Any, traits: dict[str, Any], fitted: Fitted, summary: Any, options: Any) -> None:
    """Write the model, its tables, figures and page, and the completed summary.

    The tables are that of the fit and, for --append, that of the file.
    """
    table, whole = tables
    model, selection, X = fitted.model, fitted.selection, table.X
    with progress_bar("writing the results", rows=X):
        model.save(folder / output.MODEL)
        if not isinstance(model, BlockDiagonalCovariance):
            best = selection and {name: getattr(selection.best_, name) for name in ("log_likelihood", *CRITERIA)}
            summary |= best or model._criteria(model._fit_sums)
            lines: Any = row_lines(model, X, table.row_names)
            if whole is not None:
                lines = list(lines)
                write_csv(folder / output.TABLE, *extras.appended(whole, table, model, row_head(table), lines))
            write_csv(folder / output.ROWS, row_head(table), lines)
        write_frame(folder / output.COLUMNS, model.column_table().round({"loading": 3}))
    others = extras.left_out(table, options)
    if table.in_memory:
        summary["associations"] = extras.write_scores(folder, table, model, others, traits)
    if selection is not None:
        frame = selection.to_frame()
        frame["groups"] = [" ".join(map(str, groups)) for groups in frame["groups"]]
        write_frame(folder / output.SELECTION, frame)
        lines = frame.astype(object).where(frame.notna(), None).to_dict("records")
        summary |= {"criterion": selection.criterion, "selection": lines}
    if fitted.stability is not None:
        extras.write_stability(folder, fitted.stability)
    if options.figures:
        extras.write_figures(folder, table.sample(_SHOWN_ROWS).X, fitted, options.figures)
    has_page = summary["columns"] <= _SHOWN_COLUMNS
    files = sorted(path.name for path in folder.iterdir())
    summary["files"] = [*files, output.SUMMARY, *([output.REPORT] if has_page else [])]
    output.write_json(summary, folder / output.SUMMARY)
    if has_page:
        write_page(folder / output.REPORT, fitted, table, others | traits, summary["command"])
    else:
        remedy = f"a page shows at most {_SHOWN_COLUMNS}: use --top-variance {_SHOWN_COLUMNS} to get one"
        note(f"no {output.REPORT}: the table has {summary['columns']} columns, {remedy}")


def row_head(table: Table) -> tuple[str, ...]:
    """The names of the cells of `row_lines`; row names keep the name of their column."""
    cells = ("cluster", "probability", "outlier_score", "outlier", "farthest_group")
    return ("row" if not table.named_by or table.named_by in cells else table.named_by, *cells)


def row_lines(model: Any, X: Any, row_names: Sequence[object], new: bool = False) -> Iterator[tuple[Any, ...]]:
    """Row name, cluster and its probability, and how far the row is from its cluster, as the rows are read.

    Clusters, topics and column groups count from 1. The limit of outliers is higher for new rows than for those of the
    fit.
    """
    if not isinstance(model, Mixture):
        found = model.predict_proba(X)
        clusters = np.where(found.any(axis=1), found.argmax(axis=1) + 1, -1)  # -1: a text without a topic
        yield from zip(map(str, row_names), clusters.tolist(), (f"{p:.6g}" for p in found.max(axis=1)), strict=True)
        return
    start, describe = 0, None
    if model._describe is not None:
        describe = partial(model._describe, parameters=model._parameters)
        limits, numbers = model._outlier_limits(new), label_numbers(model)
    with one_blas_thread():
        assigned = rows_to_score(model, X).map(partial(_assigned, scorer=model._scorer(), describe=describe))
        for clusters, largest, far in assigned:
            names = map(str, row_names[start : start + len(clusters)])
            start += len(clusters)
            cells = [names, (clusters.astype(int) + 1).tolist(), [f"{p:.6g}" for p in largest.tolist()]]
            if describe is not None:
                scores = far["outlier_scores_"]
                beyond = np.where(scores > limits[clusters, far["n_values_"]], "yes", "no")
                groups = numbers[clusters, far["outlier_groups_"]]
                cells += [[f"{score:.4g}" for score in scores.tolist()], beyond.tolist(), groups.tolist()]
            yield from zip(*cells, strict=True)


def _assigned(chunk: Chunk, scorer: Any, describe: Any) -> tuple[IntArray, FloatArray, dict[str, Any]]:
    """Clusters of the rows of a chunk, their probabilities, and how far the rows are from them."""
    joint: FloatArray = scorer(chunk)
    clusters: IntArray = joint.argmax(axis=1).astype(np.min_scalar_type(-joint.shape[1]))
    return clusters, probabilities(joint).max(axis=1), {} if describe is None else describe(chunk, clusters)


def write_page(path: Path, fitted: Fitted, table: Table, traits: dict[str, Sequence[Any]], command: str) -> None:
    """Write the report of a model; of a large table it shows a sample of the rows."""
    from blockmix.report import write_report

    N, texts = len(getattr(fitted.model, "row_labels_", ())), fitted.warnings
    if not table.in_memory:
        table = table.sample(_SHOWN_ROWS)
        traits = dict(table.texts)
    if (n := table.values.shape[0]) < N:
        texts = [*texts, f"pictures and tables of rows show a sample of {n} of the {N} rows"]
    shown: dict[str, Any] = {"X": table.X, "traits": traits, "row_names": table.row_names}
    shown |= {"title": Path(table.source).name, "stability": fitted.stability or False}
    with progress_bar("writing the report"):
        write_report(fitted.model, path, table=fitted.selection, warnings=texts, command=command, **shown)


def _summary(table: Table, fitted: Fitted, options: FitOptions, command: str) -> dict[str, Any]:
    """What summary.json says about a fit, but for its criteria and files."""
    model = fitted.model
    missing = zip(table.names, table.description.missing.tolist(), strict=True)
    about: dict[str, Any] = {
        "blockmix": blockmix.__version__,
        "command": command,
        "file": table.source,
        "rows": table.values.shape[0],
        "columns": table.values.shape[1],
        "left_out": {name: why for name, why in table.left_out.items() if name != table.named_by},
        "missing": {name: n for name, n in missing if n},
        "row_names": table.named_by,
        "model": type(model).__name__,
        "seconds": round(fitted.seconds, 3),
        "warnings": fitted.warnings,
    }
    if isinstance(model, BlockDiagonalCovariance):
        return about | {"n_groups": model.n_groups_, "groups": model.groups_}
    label, outliers = getattr(options, "label", None), model.outliers_ & tells_rows_apart(model)
    beyond = np.flatnonzero(outliers)  # of millions of rows only these are sorted
    farthest = beyond[np.argsort(-model.outlier_scores_[beyond], kind="stable")]
    stated = ("weights_", "n_column_groups_", "n_parameters_", "tails", "degrees_of_freedom_", "outcome_")
    return about | {
        "n_components": len(model.weights_),
        "sizes": np.bincount(model.row_labels_, minlength=len(model.weights_)),
        **{name.removesuffix("_"): getattr(model, name) for name in stated},
        "iterations": model.n_iter_,
        "label": label,
        "ari": None if label is None else agreement(table, label, model.row_labels_),
        "outliers": len(beyond),
        "farthest": [str(table.row_names[i]) for i in farthest[:_FARTHEST].tolist()],
    }


def agreement(table: Table, label: str, clusters: IntArray) -> float:
    """Adjusted Rand index of clusters and known classes, over the rows that have one; -1 is a text without a topic."""
    number = {text: k for k, text in enumerate(dict.fromkeys(table.texts[label]))} | {None: -1}
    codes = np.array([number[text] for text in table.texts[label]])  # numbers take less memory than texts
    if codes.max() < 0:
        raise ValueError(f"the column {label!r} of {table.source} is empty: there is nothing to compare")
    return float(adjusted_rand_score(codes[codes >= 0], clusters[codes >= 0]))


def _print_summary(summary: dict[str, Any], fitted: Fitted) -> None:
    """Print the result, without the many small groups of a wide table."""
    print(f"{summary['file']}: {summary['rows']} rows × {summary['columns']} numeric columns\n")
    if fitted.selection is not None:
        print(fitted.selection, end="\n\n")
    print(answer(fitted.model, fitted.stability, fitted.selection))
    if summary.get("ari") is not None:
        print(f"\nAgreement of the clusters with {summary['label']}: adjusted Rand index {summary['ari']:.3f}")
    if summary.get("farthest"):
        names = ", ".join(summary["farthest"])
        print(f"\n{summary['outliers']} outliers (see {output.ROWS}), farthest first: {names}")
    if noted := summary.get("associations"):
        print(f"\nAssociations with traits beyond chance (q < 0.05, see {output.ASSOCIATIONS}): {len(noted)}, such as")
        for line in noted[:_FARTHEST]:
            print(f"  {line['trait']} with {line['what']}: {line['kind']} = {line['estimate']:.2f}")
    if fitted.stability is not None and fitted.stability.clusters is not None:
        print(f"\n{fitted.stability}")
    print(f"\nWritten to {summary['folder']}: {', '.join(summary['files'])}")
