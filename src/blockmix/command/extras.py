"""Extras of a fit, on request: figures for a paper, and how often its groups and clusters come back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from blockmix import BlockDiagonalCovariance, SelectionTable
from blockmix.command import output
from blockmix.command.options import FitOptions, StabilityOptions
from blockmix.command.output import note, progress_bar, warnings_collected, write_csv
from blockmix.command.table import Table
from blockmix.estimators.stability import Stability
from blockmix.plotting import style
from blockmix.rows.files import needed

_SHOWN_MAPS = 8  # components with a correlation map of their own
_DPI = 150
_UNDATED = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}  # the same figure is the same file
_GROUP_HEAD = ("component", "columns", "size", "again", "split", "joined", "joined_with", "weakest", "in_words")
_CLUSTER_HEAD = ("component", "rows", "stability", "dissolved", "certainty", "in_words")


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model, the comparison that chose it, its warnings, whether Ctrl-C cut it short, and its stability."""

    model: Any
    selection: SelectionTable | None = None
    warnings: list[str] | None = None
    seconds: float = 0.0
    interrupted: bool = False
    stability: Stability | None = None


def write_figures(folder: Path, X: Any, fitted: Fitted, formats: Sequence[str]) -> None:
    """Write every figure in every format, as figure-NAME.FORMAT: one column wide, readable in black and white."""
    needed("matplotlib", "app").use("agg")  # no windows
    pyplot = needed("matplotlib.pyplot", "app")
    with progress_bar("drawing the figures"), style("paper"):
        for name, axes in _drawn(X, fitted):
            figure = np.ravel(axes)[0].figure
            for kind in formats:
                figure.savefig(folder / f"figure-{name}.{kind}", dpi=_DPI, metadata=_UNDATED.get(kind))
            pyplot.close(figure)


def _drawn(X: Any, fitted: Fitted) -> Iterator[tuple[str, Any]]:
    """Name and Axes of each figure in turn."""
    model, stability = fitted.model, fitted.stability
    if isinstance(model, BlockDiagonalCovariance):
        yield "correlations", model.plot_correlations(X)
        if model.linkage_ is not None:
            yield "dendrogram", model.plot_dendrogram()
    else:
        G = len(model.weights_)
        yield "checkerboard", model.plot_checkerboard(X)
        for g in range(min(G, _SHOWN_MAPS)):
            yield f"correlations-{g}", model.plot_correlations(X, g)
        if G > 1:
            yield "groups", model.plot_groups()
        yield "trace", model.plot_trace()
    if fitted.selection is not None:
        yield "selection", fitted.selection.plot()
    if stability is not None:
        for g in range(min(len(stability.partitions), _SHOWN_MAPS)):
            yield f"pairs-{g}", stability.plot_pairs(g)
        if stability.clusters is not None:
            yield "clusters", stability.plot_clusters()


def measure(
    model: Any, table: Table, options: FitOptions | StabilityOptions, seed: int, units: Sequence[Any] | None = None
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
    total, done, before = options.resamples + several * settings.get("n_refits", 0), 0, len(output.signals)
    with warnings_collected(), progress_bar("reweighting the rows at random", total, table.values) as update:

        def resampled(n_done: int, _: int) -> None:
            nonlocal done
            output.raise_dropped(before)  # the first resample loads loops that the fit did not need
            done = n_done
            update(done)

        stability: Stability = model.stability(table.X, **settings, callback=resampled)
    if done < total:
        note(f"blockmix: interrupted after {done} of {total} resamples: the results come from these")
    return stability, done < total


def write_stability(folder: Path, stability: Stability, raw: bool) -> list[str]:
    """Write the tables of groups and clusters; returns their names."""
    lines: list[tuple[Any, ...]] = []
    for group in stability.groups:
        shares = (f"{share:.3f}" for share in (group.again, group.split, group.joined))
        columns, size = "; ".join(group.columns), len(group.columns)
        others = (group.joined_with or "", group.weakest, stability.words(group))
        lines.append((group.component, columns, size, *shares, *others))
    write_csv(folder / output.GROUPS, _GROUP_HEAD, lines, raw)
    if stability.clusters is None:
        return [output.GROUPS]
    lines = [
        (c.component, c.rows, *(f"{share:.3f}" for share in (c.stability, c.dissolved, c.certainty)), c.verdict)
        for c in stability.clusters
    ]
    write_csv(folder / output.CLUSTERS, _CLUSTER_HEAD, lines, raw)
    return [output.CLUSTERS, output.GROUPS]
