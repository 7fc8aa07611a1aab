"""Fitting a mixture or a covariance to a table, with a progress bar."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from blockmix.cli.compiling import compile_loops
from blockmix.cli.data import Data
from blockmix.cli.messages import in_terms_of_options, note, warnings_collected
from blockmix.cli.options import MixtureOptions
from blockmix.cli.progress import ProgressBar, progress_bar
from blockmix.cli.reading.file_rows import watched
from blockmix.cli.reading.large import LARGE, LargeTable
from blockmix.estimators.covariance import BlockDiagonalCovariance
from blockmix.estimators.gaussian import GaussianBiclustering
from blockmix.estimators.stability import Stability
from blockmix.estimators.validation import takes_missing
from blockmix.selection import REFITS, SelectionTable, select

_MANY = 20  # candidates
COVARIANCE_GAPS = takes_missing(BlockDiagonalCovariance())


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model, the comparison that chose it, its warnings, whether Ctrl-C cut it short, and its stability."""

    model: Any
    selection: SelectionTable | None = None
    warnings: list[str] | None = None
    seconds: float = 0.0
    interrupted: bool = False
    stability: Stability | None = None


def fit_mixture(
    data: Data,
    options: MixtureOptions,
    criterion: str = "bic",
    jobs: int | None = None,
    checkpoint: Any = None,
    stability: bool = False,
) -> Fitted:
    """Fit the mixture, or compare several and take the best; Ctrl-C ends with the best so far.

    With `stability` the comparison has the least stable cluster of each candidate, if the rows are in memory.
    """
    _check_candidates(data, options)
    scaling = data.standardize() if options.scale else None
    prototype = GaussianBiclustering(
        shared_covariance=options.shared,
        tails=options.tails[0],
        init=options.init,
        n_init=options.n_init,
        shrinkage=options.shrinkage,
        max_iter=options.max_iter,
        random_state=options.seed,
        checkpoint=checkpoint,
    )
    compile_loops()
    begin = time.perf_counter()
    with warnings_collected() as warnings:
        if options.n_candidates == 1:
            prototype.set_params(n_components=options.components[0], n_column_groups=options.groups[0])
            model, table = _fit_one(prototype, data.X), None
            interrupted = model.outcome_ == "interrupted"
        else:
            table, interrupted = _compare(
                prototype, data.X, options, criterion, jobs, stability and not isinstance(data.table, LargeTable)
            )
            model = table.best_estimator_
    model.set_params(checkpoint=None)  # it belonged to this fit
    if scaling is not None:
        model.scaling_ = scaling  # saved with the model, so that `predict` scales new rows alike
    if table is not None and ": " in table.best_.outcome:
        warnings.append(in_terms_of_options(table.best_.outcome.partition(": ")[2]))
    return Fitted(model, table, warnings, time.perf_counter() - begin, interrupted)


def _check_candidates(data: Data, options: MixtureOptions) -> None:
    """Refuse at once what no fit can do."""
    N, p = data.table.shape
    largest = max(options.components)
    if largest > N:
        raise ValueError(f"--components {largest} exceeds the {N} rows of {data.table.source}")
    most_groups = max((K for K in options.groups if isinstance(K, int)), default=1)
    if most_groups > p:
        raise ValueError(f"--groups {most_groups} exceeds the {p} columns of {data.table.source}")
    if (n := options.n_candidates) > _MANY:
        note(f"comparing {n} models, from {min(options.components)} to {largest} row clusters: this may take a while")


class _Steps:
    """A bar that moves with the steps done, and within a step as a large file is read."""

    def __init__(self, bar: ProgressBar, text: str) -> None:
        self._bar, self._text, self.done = bar, text, 0.0

    def reached(self, done: float, text: str) -> None:
        """Show how many steps are done, and what is going on."""
        self.done, self._text = done, text
        self._bar.update(done, text)

    def reading(self, share: float) -> None:
        """Show which share of the rows has been read in this step."""
        self._bar.update(self.done + 0.99 * min(share, 1), f"{self._text}, {share:.0%} of the rows")


def _fit_one(model: GaussianBiclustering, X: Any) -> GaussianBiclustering:
    text = f"fitting {model.n_components} row clusters"
    most = None if model.init in ("auto", "portfolio") else model.n_init * model.max_iter
    with progress_bar(text, most, left="left at most") as bar:
        steps = _Steps(bar, text)
        with watched(X, steps.reading):
            model.fit(X, callback=lambda progress: steps.reached(steps.done + 1, f"{text}: {progress.start}"))
    return model


def _compare(
    prototype: GaussianBiclustering,
    X: Any,
    options: MixtureOptions,
    criterion: str,
    jobs: int | None,
    stability: bool,
) -> tuple[SelectionTable, bool]:
    """The comparison, and whether Ctrl-C cut it short."""
    text = f"comparing {options.n_candidates} models"
    with progress_bar(text, options.n_candidates) as bar:
        fits, total = 0, 0
        steps = _Steps(bar, text)

        def fitted(event: Any) -> None:
            nonlocal fits, total
            # With more columns than rows each pair is fitted twice, with own and with a shared covariance.
            fits, total = event.done, event.total
            steps.reached(fits * options.n_candidates / total, text)

        def iterated(progress: Any) -> None:
            # A fraction of one fit, so that the bar moves during a long one; most of the time goes into refits.
            refit = progress.start.startswith("refit")
            part = 0.0 if stability and not refit else progress.iteration / (REFITS if refit else prototype.max_iter)
            share = options.n_candidates / max(total, options.n_candidates)
            now = progress.start if refit else f"iteration {progress.iteration + 1}"
            steps.reached((fits + min(part, 0.99)) * share, f"{text}: {now}")

        with watched(X, lambda share: bar.update(steps.done, f"{text}, {share:.0%} of the rows")):
            table = select(
                X,
                options.components,
                options.groups,
                criterion=criterion,
                estimator=prototype,
                n_jobs=jobs,
                callback=fitted,
                on_iteration=iterated if jobs is None else None,
                stability=stability,
                **options.kinds,
            )
    return table, fits < total


def fit_covariance(data: Data, n_groups: int | str, shrinkage: float | None) -> Fitted:
    """Find the column groups of the whole table."""
    _, p = data.table.shape
    few = data.table.sample(LARGE // p)
    if few.shape != data.table.shape:
        note(f"the covariance is that of a sample of {few.shape[0]} of the {data.table.shape[0]} rows")
        data.table = few
    begin = time.perf_counter()
    with warnings_collected() as warnings, progress_bar(f"grouping {p} columns"):
        model = BlockDiagonalCovariance(n_groups, shrinkage=shrinkage).fit(data.X)
    return Fitted(model, None, warnings, time.perf_counter() - begin)
