"""Extras on request: figures for a paper, how often groups and clusters come back, the table with its clusters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from blockmix import BlockDiagonalCovariance, SelectionTable
from blockmix.command import output
from blockmix.command.options import FitOptions, ReadingOptions
from blockmix.command.output import note, progress_bar, warnings_collected, write_csv, write_frame
from blockmix.command.reading import read_table
from blockmix.command.table import Table
from blockmix.estimators.mixture import Mixture
from blockmix.estimators.resampling import QUICK, quick_stability
from blockmix.estimators.stability import Stability
from blockmix.estimators.tables import group_numbers
from blockmix.plotting import style
from blockmix.rows.files import needed

_SHOWN_MAPS = 8  # components with a correlation map of their own
_DPI = 150
_CLASSES = 20  # values of a column of the table that is a trait
_NOTED = 0.05  # q of the associations that are listed


@dataclass(eq=False)
class Fitted:
    """A fitted model, the comparison that chose it, its warnings, whether Ctrl-C cut it short, and its stability."""

    model: Any
    selection: SelectionTable | None
    warnings: list[str]
    seconds: float
    interrupted: bool = False
    stability: Stability | None = None


def write_figures(folder: Path, X: Any, fitted: Fitted, formats: Sequence[str]) -> None:
    """Write every figure in every format, as figure-NAME.FORMAT: one column wide."""
    needed("matplotlib", "app").use("agg")  # no windows
    pyplot = needed("matplotlib.pyplot", "app")
    same = {"svg.hashsalt": "blockmix"}  # the same figure is the same file
    with progress_bar("drawing the figures"), style("paper"), pyplot.rc_context(same):
        for name, axes in _drawn(X, fitted):
            figure = np.ravel(axes)[0].figure
            for kind in formats:
                figure.savefig(folder / f"figure-{name}.{kind}", dpi=_DPI)
            pyplot.close(figure)


def _drawn(X: Any, fitted: Fitted) -> Iterator[tuple[str, Any]]:
    """Name and Axes of each figure in turn."""
    model = fitted.model
    if isinstance(model, BlockDiagonalCovariance):
        yield "correlations", model.plot_correlations(X)
        if model.linkage_ is not None:
            yield "dendrogram", model.plot_dendrogram()
    else:
        G = len(model.weights_)
        yield "checkerboard", model.plot_checkerboard(X)
        yield "map", model.plot_map(X)
        for g in range(min(G, _SHOWN_MAPS)):
            yield f"correlations-{g + 1}", model.plot_correlations(X, g)
        if G > 1:
            yield "differences", model.plot_differences()
        if G > 1 and (group_numbers(model) >= 0).any():
            yield "profiles", model.plot_profiles()
    if fitted.selection is not None:
        yield "selection", fitted.selection.plot()


def measure(fitted: Fitted, table: Table, options: FitOptions) -> None:
    """Reweight the rows at random and group and cluster them again; a large table is not clustered again.

    Unless asked for, only what takes seconds.
    """
    model = fitted.model
    if not (options.stability or options.units):
        with warnings_collected(), progress_bar("reweighting the rows at random"):
            fitted.stability = quick = quick_stability(model, table.X)
        fitted.interrupted = quick is not None and quick.n_resamples not in QUICK
        return
    seed, units = getattr(model, "random_state", None) or 0, options.units and table.texts[options.units]
    settings: dict[str, Any] = {"n_resamples": options.resamples, "random_state": seed, "units": units}
    if not isinstance(model, BlockDiagonalCovariance):
        settings["n_refits"] = options.refits if table.in_memory else 0
        if settings["n_refits"] < options.refits:
            note("the clusters of a large table are not fitted again: only the column groups are resampled")
    elif table.description.missing.any():
        remedy = "use blockmix fit --components 1 --stability, which takes them"
        raise ValueError(f"{table.source} has missing values: {remedy}")
    several = len(getattr(model, "weights_", ())) > 1  # one cluster is not fitted again
    total, done, before = options.resamples + several * settings.get("n_refits", 0), 0, len(output.signals)
    with warnings_collected(), progress_bar("reweighting the rows at random", total, table.values) as update:

        def resampled(n_done: int, _: int) -> None:
            nonlocal done
            output.raise_dropped(before)  # the first resample loads loops that the fit did not need
            done = n_done
            update(done)

        fitted.stability = model.stability(table.X, **settings, callback=resampled)
    if done < total:
        fitted.interrupted = True
        note(f"blockmix: interrupted after {done} of {total} resamples: the results come from these")


def write_stability(folder: Path, stability: Stability) -> None:
    """Write the tables of groups and clusters."""
    groups = stability.to_frame().assign(columns=["; ".join(group.columns) for group in stability.groups])
    groups["core"] = ["; ".join(group.core) for group in stability.groups]
    groups["in_words"] = [f"{group.verdict}: {stability.words(group)}" for group in stability.groups]
    clusters = stability.clusters_to_frame().assign(in_words=[c.verdict for c in stability.clusters or ()])
    for name, frame in ((output.GROUPS, groups), (output.CLUSTERS, clusters)):
        if name == output.GROUPS or len(frame):
            frame["component"] += 1
            write_frame(folder / name, frame.rename(columns={"component": "cluster"}).round(3))


def write_scores(
    folder: Path, table: Table, model: Any, others: dict[str, Any], traits: dict[str, Any]
) -> list[dict[str, Any]]:
    """Write the scores of the rows, and how clusters and scores go with traits; returns what is beyond chance.

    Of the other columns of the table, those of 2 to 20 values are traits.
    """
    X, few = table.X, {name for name, cells in others.items() if 1 < len({*cells} - {None}) <= _CLASSES}
    names = model.get_feature_names_out().tolist()
    if names:
        scores = zip(table.row_names, model.transform(X).round(4).tolist(), strict=True)
        lines = ([str(name), *cells] for name, cells in scores)
        write_csv(folder / output.SCORES, [table.named_by or "row", *names], lines)
    found = model.associate(X, {name: others[name] for name in others if name in few} | traits)
    if len(found):
        write_frame(folder / output.ASSOCIATIONS, found.round({"estimate": 4, "low": 4, "high": 4}))
    columns = ["trait", "what", "kind", "estimate", "n", "q"]
    return list(found.loc[found["q"] < _NOTED, columns].sort_values("q").to_dict("records"))


def read_traits(file: str, table: Table) -> dict[str, Any]:
    """The columns of a file with a line for each row of a table.

    Lines are matched by the column that holds the row names, or else by their order.
    """
    whole = read_whole(file, ReadingOptions(), "--traits")
    names, rows = list(map(str, table.row_names)), table.lines
    keys = [name for name, cells in whole.texts.items() if table.named_by and {*names} <= {*cells}]
    if keys:
        lines = dict(zip(whole.texts.pop(keys[0]), range(whole.n_rows), strict=True))
        rows = [lines[name] for name in names]
    elif whole.n_rows <= rows[-1] or (table.taken is None and whole.n_rows > len(names)):
        by_name = f"no column of {file} holds the row names, {table.named_by}, and it" if table.named_by else file
        raise ValueError(f"{by_name} has {whole.n_rows} rows: give one for each row of {table.source}")
    traits: dict[str, Any] = {}
    for name, cells in whole.texts.items():
        chosen = [cells[i] for i in rows]
        try:
            traits[name] = np.array([np.nan if cell is None else float(cell) for cell in chosen])
        except ValueError:
            traits[name] = chosen
    return traits


def read_whole(file: str, options: ReadingOptions, option: str = "--append") -> Table:
    """All columns of a file as texts, to which `appended` adds."""
    if file == "-":
        raise ValueError(f"standard input cannot be read twice: {option} needs a file")
    unchanged = ReadingOptions(encoding=options.encoding, header=options.header, layer=options.layer)
    whole = read_table(file, unchanged, None, ())
    if not whole.texts:
        raise ValueError(f"{file} has no names of columns: {option} needs a text file, xlsx or Parquet with names")
    return whole


def left_out(table: Table, options: FitOptions) -> dict[str, Sequence[Any]]:
    """The columns of a file that took no part in the fit and say something of the rows, as texts, for the page."""
    named = {name for name, why in table.left_out.items() if why.startswith(("ids", "empty", "constant"))}
    rest = {*table.header} - {*table.names, *table.texts, *named, table.named_by}
    traits: dict[str, Sequence[Any]] = dict(table.texts)
    if rest and table.in_memory and Path(options.file).is_file():
        with suppress(ValueError):  # of columns that were left out because they share a name
            texts = read_whole(options.file, options).texts
            chosen = [name for name in table.header if name in rest and name in texts]
            traits |= {name: [texts[name][i] for i in table.lines] for name in chosen}
    return traits


def appended(
    whole: Table, table: Table, model: Any, head: Sequence[str], lines: Iterable[Sequence[Any]]
) -> tuple[list[str], Iterator[list[Any]]]:
    """A whole table with more columns: the lines of its rows in `table`, but for their names, and the group scores."""
    scores, names = np.empty((table.n_rows, 0)), [*head[1:]]
    if isinstance(model, Mixture):  # topics have none
        scores, names = np.asarray(model.transform(table.X)), [*names, *model.get_feature_names_out()]
    names = [f"blockmix_{name}" if name in whole.texts else name for name in names]
    pairs = zip(lines, scores.tolist(), strict=True)
    cells_of = ([*line[1:], *(f"{score:.4g}" for score in row)] for line, row in pairs)
    added = dict(zip(table.lines, cells_of, strict=True))
    rows = zip(*whole.texts.values(), strict=True)
    empty = [""] * len(names)
    return [*whole.texts, *names], ([*cells, *added.get(i, empty)] for i, cells in enumerate(rows))
