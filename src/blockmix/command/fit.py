"""Fits: read a table, fit a mixture or a covariance to it with a progress bar, and write the results together."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import typer

from blockmix import BlockDiagonalCovariance, GaussianBiclustering, SelectionTable, select
from blockmix.blocks.moments import worth_rows
from blockmix.command import output, reading, results
from blockmix.command.options import CovarianceOptions, MixtureOptions, MoreOptions, StabilityOptions, WritingOptions
from blockmix.command.output import in_options, note, progress_bar, warnings_collected
from blockmix.command.reading import available_memory, print_notes, read_table, stem_of
from blockmix.command.results import Fitted
from blockmix.command.table import Table, shortened, watched
from blockmix.estimators.stability import Stability
from blockmix.selection import REFITS

_MANY = 20  # candidates
# Matrices of p × p numbers, and copies of the table, at the peak of a fit, its regroup. With many columns and few rows
# only the distances are p × p; else scatter, covariance, correlation, its definite form, that in the order of the tree,
# and distances.
_MATRICES, _COPIES = 6, 4
_WIDE_MATRICES, _WIDE_COPIES = 1, 20
_PROGRAM = 0.25e9  # bytes of the process itself
_WIDE = 4000  # columns from which a fit is announced


def fit_mixture(options: MixtureOptions, line: str) -> None:
    """Fit a mixture, or compare several and take the best."""
    kinds: dict[str, Any] = {"shared_covariance": [False, True]} if options.compare_shared else {}
    kinds |= {"tails": list(options.tails)} if len(options.tails) > 1 else {}
    n_candidates = len(options.components) * len(options.groups) * prod(map(len, kinds.values()))
    if options.checkpoint is not None and n_candidates > 1:
        raise typer.BadParameter("it belongs to one fit: give one number with --components", param_hint="--checkpoint")
    read = partial(_table_to_fit, options, options.label)
    _run("mixture", options, line, read, partial(_fitted_mixture, options=options, kinds=kinds, n=n_candidates))


def fit_demo(options: WritingOptions, line: str) -> None:
    """Fit mixtures to 178 wines of three cultivars and 13 measurements, as if read from a file."""
    from sklearn.datasets import load_wine

    wine = load_wine()
    cultivars: list[str | None] = [str(wine.target_names[k]) for k in wine.target]
    names, row_names = tuple(wine.feature_names), range(1, len(wine.data) + 1)
    table = Table("wine", names, wine.data, row_names, {"cultivar": cultivars})
    settings: dict[str, Any] = {"components": (1, 2, 3, 4, 5), "groups": ("auto",), "tails": ("normal",), "scale": True}
    mixture = MixtureOptions(file="", label="cultivar", **settings, **vars(options))
    mixture = replace(mixture, out=options.out or Path("blockmix-demo"))
    _run("mixture", mixture, line, lambda: table, partial(_fitted_mixture, options=mixture, kinds={}, n=5))


def fit_covariance(options: CovarianceOptions, line: str) -> None:
    """Find the column groups of a whole table."""
    if len(options.groups) > 1:
        raise typer.BadParameter("one number or one rule is needed here", param_hint="--groups")

    def fit(table: Table) -> tuple[Table, Fitted]:
        N, p = table.shape
        table = table.sample(reading.LARGE // p)
        if table.shape[0] < N:
            note(f"the covariance is that of a sample of {table.shape[0]} of the {N} rows")
        begin = time.perf_counter()
        with warnings_collected() as texts, progress_bar(f"grouping {p} columns"):
            model = BlockDiagonalCovariance(options.groups[0], shrinkage=options.shrinkage).fit(table.X)
        return table, Fitted(model, None, texts, time.perf_counter() - begin)

    _run("covariance", options, line, partial(_table_to_fit, options, None), fit)


def _run(
    kind: str,
    options: MixtureOptions | CovarianceOptions,
    line: str,
    read: Callable[[], Table],
    fit: Callable[[Table], tuple[Table, Fitted]],
) -> None:
    """Read a table, fit a model to it, write the results and print the summary.

    A fit that Ctrl-C cut short is written all the same, and ends with exit code 130.
    """
    out: Path = options.out or Path(f"{stem_of(options.file)}-blockmix")
    # The folder comes first: if it cannot be written to, better to know before hours of work.
    with output.folder(out, kind, options.file) as folder:
        table, fitted = fit(read())
        if options.stability and not fitted.interrupted:
            try:
                stability, cut = measure(fitted.model, table, options, getattr(fitted.model, "random_state", None) or 0)
                fitted = replace(fitted, stability=stability, interrupted=cut)
            except KeyboardInterrupt:  # the fit is kept
                fitted = replace(fitted, interrupted=True)
        summary = {"kind": kind, "folder": str(out)} | results.summary(table, fitted, options, line)
        with output.blaming(out):
            results.write(folder, table, fitted, summary, options)
    results.print_summary(summary, fitted, options.json)
    if fitted.interrupted:
        if fitted.stability is None:
            note("blockmix: interrupted, the best model so far was written")
        raise SystemExit(130)


def _table_to_fit(options: MixtureOptions | CovarianceOptions, label: str | None) -> Table:
    """The numbers of a file, varying, not too many, and enough for the candidates; missing values may be among them."""
    table = read_table(options.file, options, () if label is None else (label,))
    table = table.complete(options.drop_missing, missing=True).varying()
    if options.top_variance is not None:
        table = table.most_varying(options.top_variance)
    _check_memory(table)
    print_notes(table)
    if label is not None and (revealing := _revealing_columns(table, table.texts[label])):
        names = shortened(revealing, 8)
        note(f"{names}: one value in each class of {label}, so the fit sees the classes; leave out with --drop NAME")
    numbers = [K for K in options.groups if isinstance(K, int)]
    for name, limit, what, values in (
        ("--components", table.shape[0], "rows", getattr(options, "components", ())),
        ("--groups", table.shape[1], "columns", numbers),
    ):
        if max(values, default=0) > limit:
            raise ValueError(f"{name} {max(values)} exceeds the {limit} {what} of {table.source}")
    return table


def _revealing_columns(table: Table, labels: list[str | None]) -> list[str]:
    """Numeric columns that are a coding of the known classes."""
    codes = np.unique([str(text) for text in labels], return_inverse=True)[1]
    first = np.unique(codes, return_index=True)[1]
    if not table.in_memory or not 1 < len(first) <= len(codes) / 2:  # a class, or classes of one row, show nothing
        return []
    return [
        name
        for name, column in zip(table.names, table.values.T, strict=True)
        if (column[:1000] == column[first[codes[:1000]]]).all() and (column == column[first[codes]]).all()
    ]


def needed_memory(n_rows: int, n_columns: int) -> float:
    """Bytes that a fit with the default column groups needs, for N × p numbers.

    Examples
    --------
    >>> f"{needed_memory(100, 10_000) / 1e9:.1f} GB"
    '1.2 GB'
    >>> f"{needed_memory(4000, 10_000) / 1e9:.1f} GB"
    '6.3 GB'
    """
    wide = worth_rows(n_rows, n_columns)
    copies, matrices = (_WIDE_COPIES, _WIDE_MATRICES) if wide else (_COPIES, _MATRICES)
    return _PROGRAM + 8.0 * (copies * n_rows * n_columns + matrices * n_columns**2)


def _check_memory(table: Table) -> None:
    """Say how much memory a wide table needs; raise a MemoryError if there is not as much."""
    N, p = table.shape
    required, available = needed_memory(N, p), available_memory()
    if required <= available or p < N:  # fewer columns are no remedy for too many rows
        if p >= _WIDE:
            few = _WIDE // 2
            note(
                f"{p} columns: a fit needs about {required / 1e9:.1f} GB of memory; --top-variance {few} would "
                f"need {needed_memory(N, few) / 1e9:.1f} GB and a fraction of the time"
            )
        return
    affordable = int(sqrt(available / 2 / 8 / (_WIDE_MATRICES if worth_rows(N, p) else _MATRICES)))
    rounded = affordable // 1000 * 1000 or affordable
    raise MemoryError(
        f"{table.source} has {p} columns, so a fit needs about {required / 1e9:.0f} GB of memory, and "
        f"{available / 1e9:.0f} GB are available: keep only those of largest variance, such as --top-variance {rounded}"
    )


def _fitted_mixture(table: Table, options: MixtureOptions, kinds: dict[str, Any], n: int) -> tuple[Table, Fitted]:
    """Fit the only candidate, or compare `n` of them; Ctrl-C ends with the best so far.

    With --stability the comparison has the least stable cluster of each candidate, if the rows are in memory.
    """
    if n > _MANY:
        several = f"{min(options.components)} to {max(options.components)}"
        note(f"comparing {n} models, from {several} row clusters: this may take a while")
    scaling = table.scaling() if options.scale else None
    table = table if scaling is None else table.scaled(**scaling)
    model = GaussianBiclustering(
        options.components[0],
        options.groups[0],
        shared_covariance=options.shared,
        tails=options.tails[0],
        init=options.init,
        n_init=options.n_init,
        shrinkage=options.shrinkage,
        max_iter=options.max_iter,
        random_state=options.seed,
    )
    compile_loops()
    begin = time.perf_counter()
    with warnings_collected() as texts:
        if n == 1:
            _fit(model, table.X, options.checkpoint)
            selection, interrupted = None, model.outcome_ == "interrupted"
        else:
            selection, interrupted = _compare(model, table, options, kinds, n)
            model = selection.best_estimator_
    if scaling is not None:
        model.scaling_ = scaling  # saved with the model, so that `predict` scales new rows alike
    if selection is not None and ": " in selection.best_.outcome:
        texts.append(in_options(selection.best_.outcome.partition(": ")[2]))
    return table, Fitted(model, selection, texts, time.perf_counter() - begin, interrupted)


def _fit(model: GaussianBiclustering, X: Any, checkpoint: Path | None) -> None:
    """Fit a model with a bar that moves with the iterations, and within one as a large file is read."""
    text, done = f"fitting {model.n_components} row clusters", 0
    most = None if model.init == "auto" else model.n_init * model.max_iter
    with progress_bar(text, most, left="left at most") as update:

        def iterated(progress: Any) -> None:
            nonlocal done
            done += 1
            update(done, f"{text}: {progress.start}")

        with watched(X, lambda share: update(done + 0.99 * min(share, 1), f"{text}, {share:.0%} of the rows")):
            model.fit(X, callback=iterated, checkpoint=checkpoint)


def _compare(
    prototype: GaussianBiclustering, table: Table, options: MixtureOptions, kinds: dict[str, Any], n: int
) -> tuple[SelectionTable, bool]:
    """The comparison of `n` candidates, and whether Ctrl-C cut it short."""
    text, X = f"comparing {n} models", table.X
    stability = options.stability and options.refits > 0 and table.in_memory
    # With more columns than rows each candidate is fitted twice, with its own and with a shared covariance.
    fits, total, done = 0, n, 0.0
    with progress_bar(text, n) as update:

        def fitted(event: Any) -> None:
            nonlocal fits, total, done
            fits, total = event.done, event.total
            done = fits * n / total
            update(done, text)

        def iterated(progress: Any) -> None:
            # A fraction of one fit, so that the bar moves during a long one; most of the time goes into refits.
            nonlocal done
            refit = progress.start.startswith("refit")
            part = 0.0 if stability and not refit else progress.iteration / (REFITS if refit else prototype.max_iter)
            done = (fits + min(part, 0.99)) * n / max(total, n)
            update(done, f"{text}: {progress.start if refit else f'iteration {progress.iteration + 1}'}")

        with watched(X, lambda share: update(done, f"{text}, {share:.0%} of the rows")):
            selection = select(
                X,
                options.components,
                options.groups,
                criterion=options.criterion,
                estimator=prototype,
                callback=fitted,
                on_iteration=iterated,
                stability=stability,
                **kinds,
            )
    return selection, fits < total


def compile_loops() -> None:
    """Compile the loops of a sweep, or load them from the cache, by a fit to a tiny table.

    The user is told once if they are compiled, and no signal that arrives meanwhile is lost.
    """
    from numba.core import event

    before, told = len(output.signals), False

    def on_start(self: Any, event: object) -> None:
        nonlocal told
        output.raise_dropped(before)
        if not told:
            note("compiling (once)")
        told = True

    methods = {"on_start": on_start, "on_end": lambda self, event: output.raise_dropped(before)}
    listener = type("Listener", (event.Listener,), methods)()
    with warnings.catch_warnings(), event.install_listener("numba:compile", listener):
        warnings.simplefilter("ignore")  # this fit is not the one that was asked for
        GaussianBiclustering(2, random_state=0, max_iter=2).fit(np.random.default_rng(0).standard_normal((40, 6)))
    output.raise_dropped(before)


def measure(
    model: Any, table: Table, options: MoreOptions | StabilityOptions, seed: int, units: Sequence[Any] | None = None
) -> tuple[Stability, bool]:
    """Reweight the rows at random and group and cluster them again; a large table is not clustered again.

    Returns the stability, and whether Ctrl-C cut it short.
    """
    settings: dict[str, Any] = {"n_resamples": options.resamples, "random_state": seed, "units": units}
    if isinstance(model, BlockDiagonalCovariance):
        if table.description.missing.any():
            remedy = "use blockmix fit --components 1 --stability, which takes them"
            raise ValueError(f"{table.source} has missing values: {remedy}")
    else:
        if not table.in_memory and options.refits:
            note("the clusters of a large table are not fitted again: only the column groups are resampled")
        settings["n_refits"] = options.refits if table.in_memory else 0
    several = len(getattr(model, "weights_", ())) > 1  # one cluster is not fitted again
    total, done = options.resamples + several * settings.get("n_refits", 0), 0
    with warnings_collected(), progress_bar("reweighting the rows at random", total) as update:

        def resampled(n_done: int, _: int) -> None:
            nonlocal done
            done = n_done
            update(done)

        stability: Stability = model.stability(table.X, **settings, callback=resampled)
    if done < total:
        note(f"blockmix: interrupted after {done} of {total} resamples: the results come from these")
    return stability, done < total
