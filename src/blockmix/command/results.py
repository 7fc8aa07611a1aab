"""Results: the tables, figures, page and summary of a fitted model, as files and as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import blockmix
from blockmix import BlockDiagonalCovariance, Partition, SelectionTable
from blockmix.command import output
from blockmix.command.options import CovarianceOptions, MixtureOptions, ReadingOptions
from blockmix.command.output import note, progress_bar, write_csv
from blockmix.command.table import Table, watched
from blockmix.em.parameters import outlier_limits
from blockmix.estimators.mixture import Mixture, most_probable, probabilities
from blockmix.estimators.stability import Stability
from blockmix.estimators.validation import rows_to_score
from blockmix.metrics import adjusted_rand
from blockmix.partition import FloatArray, IntArray, column_names
from blockmix.plotting import style
from blockmix.rows import Chunk, one_blas_thread
from blockmix.rows.files import needed
from blockmix.selection import CRITERIA

_LINES = 14  # printed for one component
_FARTHEST = 5  # rows listed
_SHOWN_ROWS = 20_000  # rows of a large table that the page and the figures show
_SHOWN_COLUMNS = 5000  # of a page, whose maps and trees need several p × p matrices
_SHOWN_MAPS = 8  # components with a correlation map of their own
_UNDATED = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}  # the same figure is the same file
ROW_HEAD: tuple[str, ...] = ("row", "cluster", "probability", "outlier_score", "outlier", "farthest_group")
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


def write(
    folder: Path,
    table: Table,
    fitted: Fitted,
    summary: dict[str, Any],
    options: MixtureOptions | CovarianceOptions,
) -> None:
    """Write the model, its tables, figures and page, and the completed summary."""
    model, selection, raw, X = fitted.model, fitted.selection, options.raw_text, table.X
    mixture = not isinstance(model, BlockDiagonalCovariance)
    with progress_bar("writing the results", 1) as update, watched(X, update):
        model.save(folder / output.MODEL)
        if mixture:
            criteria = ("log_likelihood", *CRITERIA)
            best = None if selection is None else selection.best_
            summary |= model._criteria(model._fit_sums) if best is None else {k: getattr(best, k) for k in criteria}
            write_csv(folder / output.ROWS, ROW_HEAD, row_lines(model, X, table.row_names), raw)
        head = [*(["component"] if mixture else []), "column", "group", "size", "loading"]
        write_csv(folder / output.COLUMNS, head, _column_lines(model, mixture), raw)
    if selection is not None:
        tried = [_selection_line(row, selection.with_stability) for row in selection.rows]
        write_csv(folder / output.SELECTION, list(tried[0]), [list(line.values()) for line in tried], raw)
        summary |= {"criterion": selection.criterion, "selection": tried}
    if fitted.stability is not None:
        write_stability(folder, fitted.stability, raw)
    table = table.sample(_SHOWN_ROWS)
    if options.figures:
        with progress_bar("drawing the figures"):
            _write_figures(folder, table.X, fitted, options.figures)
    has_page = summary["columns"] <= _SHOWN_COLUMNS
    names = sorted(path.name for path in folder.iterdir())
    summary["files"] = [*names, output.SUMMARY, *([output.REPORT] if has_page else [])]
    output.write_json(folder / output.SUMMARY, summary)
    if has_page:
        write_report_page(folder / output.REPORT, fitted, table, summary.get("label"), summary["command"])
    else:
        remedy = f"a page shows at most {_SHOWN_COLUMNS}: use --top-variance {_SHOWN_COLUMNS} to get one"
        note(f"no {output.REPORT}: the table has {summary['columns']} columns, {remedy}")


def row_lines(model: Any, X: Any, row_names: Sequence[object]) -> Iterator[tuple[Any, ...]]:
    """Row name, cluster and its probability, and how far the row is from its cluster, as the rows are read.

    The farthest group is the number of a column group of the cluster, or the name of a column alone.
    """
    if not isinstance(model, Mixture):
        found = model.predict_proba(X)
        clusters = np.where(found.any(axis=1), found.argmax(axis=1), -1)  # -1: a text without a topic
        yield from zip(map(str, row_names), clusters.tolist(), (f"{p:.6g}" for p in found.max(axis=1)), strict=True)
        return
    start, describe = 0, None
    if model._describe is not None:
        describe = partial(model._describe, parameters=model._parameters)
    limit, groups = outlier_limits(model.n_features_in_), _group_texts(model)
    with one_blas_thread():
        assigned = rows_to_score(model, X).map(partial(_assigned, scorer=model._scorer(), describe=describe))
        for clusters, largest, far in assigned:
            names = map(str, row_names[start : start + len(clusters)])
            start += len(clusters)
            cells = [names, clusters.tolist(), [f"{p:.6g}" for p in largest.tolist()]]
            if describe is not None:
                scores, k = far["outlier_scores_"], far["outlier_groups_"].tolist()
                cells.append([f"{score:.4g}" for score in scores.tolist()])
                cells.append(["yes" if beyond else "no" for beyond in (scores > limit[far["n_values_"]]).tolist()])
                cells.append([groups[g][k] for g, k in zip(clusters.tolist(), k, strict=True)])
            yield from zip(*cells, strict=True)


def _assigned(chunk: Chunk, scorer: Any, describe: Any) -> tuple[IntArray, FloatArray, dict[str, Any]]:
    """Clusters of the rows of a chunk, their probabilities, and how far the rows are from them."""
    joint: FloatArray = scorer(chunk)
    clusters = most_probable(joint)
    return clusters, probabilities(joint).max(axis=1), {} if describe is None else describe(chunk, clusters)


def _group_texts(model: Any) -> list[list[str]]:
    """The number of each column group of each component, or the name of a column alone."""
    names = column_names(model)
    return [
        [str(k) if len(group) > 1 else names[group[0]] for k, group in enumerate(Partition(labels).groups)]
        for labels in model.column_labels_
    ]


def _column_lines(model: Any, mixture: bool) -> Iterator[tuple[Any, ...]]:
    """Component of a mixture, column, group, size of the group and loading, the correlation with its factor."""
    for entry in model.column_table():
        group = "alone" if entry.alone else entry.group
        loading = "" if np.isnan(entry.loading) else f"{entry.loading:.3f}"
        yield *([entry.component] if mixture else []), entry.column, group, entry.size, loading


def _selection_line(row: Any, stability: bool) -> dict[str, Any]:
    """A candidate of a comparison, with its least stable cluster if that was measured."""
    return {
        "n_components": row.n_components,
        "n_column_groups": row.n_column_groups,
        **row.kind,
        "n_parameters": row.n_parameters,
        "groups": " ".join(map(str, row.groups)),
        **{name: getattr(row, name) for name in ("log_likelihood", *CRITERIA)},
        **({"least_stable": row.least_stable} if stability else {}),
        "seconds": row.seconds,
        "outcome": row.outcome,
    }


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


def _write_figures(folder: Path, X: Any, fitted: Fitted, formats: Sequence[str]) -> None:
    """Write every figure in every format, as figure-NAME.FORMAT: one column wide, readable in black and white."""
    needed("matplotlib", "app").use("agg")  # no windows
    pyplot = needed("matplotlib.pyplot", "app")
    with style("paper"):
        for name, axes in _drawn(X, fitted):
            figure = np.ravel(axes)[0].figure
            for kind in formats:
                figure.savefig(folder / f"figure-{name}.{kind}", dpi=300, metadata=_UNDATED.get(kind))
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


def write_report_page(path: Path, fitted: Fitted, table: Table | None, label: str | None, command: str) -> None:
    """Write the report of a model; of a large table it shows a sample of the rows."""
    from blockmix.report import write_report

    N, texts, shown = len(getattr(fitted.model, "row_labels_", ())), fitted.warnings, {}
    if table is not None:
        table = table.sample(_SHOWN_ROWS)
        labels = None if label is None else ["" if text is None else text for text in table.texts[label]]
        shown = {"X": table.X, "labels": labels, "row_names": table.row_names, "title": Path(table.source).name}
        if (n := table.shape[0]) < N:
            texts = [
                *(texts or ()),
                f"this page shows a sample of {n} of the {N} rows: counts of rows are the sample's",
            ]
    with progress_bar("writing the report"):
        write_report(
            fitted.model,
            path,
            **shown,
            table=fitted.selection,
            stability=fitted.stability,
            warnings=texts,
            command=command,
        )


def summary(table: Table, fitted: Fitted, options: MixtureOptions | CovarianceOptions, command: str) -> dict[str, Any]:
    """What summary.json says about a fit, but for its criteria and files."""
    model = fitted.model
    given = {item.name: getattr(options, item.name) for item in fields(ReadingOptions)}
    missing = zip(table.names, table.description.missing.tolist(), strict=True)
    found: dict[str, Any] = {
        "blockmix": blockmix.__version__,
        "command": command,
        "file": table.source,
        "rows": table.shape[0],
        "columns": table.shape[1],
        "left_out": {name: why for name, why in table.left_out.items() if name != table.named_by},
        "missing": {name: n for name, n in missing if n},
        "row_names": table.named_by,
        "reading": {name: value for name, value in given.items() if value != getattr(ReadingOptions, name)},
        "model": type(model).__name__,
        "seconds": round(fitted.seconds, 3),
        "warnings": fitted.warnings,
    }
    if isinstance(model, BlockDiagonalCovariance):
        return found | {"n_groups": model.n_groups_, "groups": model.groups_}
    label = getattr(options, "label", None)
    return found | {
        "n_components": len(model.weights_),
        "weights": model.weights_,
        "sizes": np.bincount(model.row_labels_, minlength=len(model.weights_)),
        "n_column_groups": model.n_column_groups_,
        "n_parameters": model.n_parameters_,
        "tails": model.tails,
        "degrees_of_freedom": model.degrees_of_freedom_,
        "outcome": model.outcome_,
        "iterations": model.n_iter_,
        "label": label,
        "ari": None if label is None else agreement(table, label, model.row_labels_),
        "outliers": int(model.outliers_.sum()),
        "farthest": _farthest(model, table.row_names),
    }


def agreement(table: Table, label: str, clusters: IntArray) -> float:
    """Adjusted Rand index of clusters and known classes, over the rows that have one; -1 is a text without a topic."""
    labels = table.texts[label]
    number = {text: k for k, text in enumerate(dict.fromkeys(labels))}  # numbers take less memory than texts
    codes = np.array([-1 if text is None else number[text] for text in labels])
    labelled = codes >= 0
    if not labelled.any():
        raise ValueError(f"the column {label!r} of {table.source} is empty: there is nothing to compare")
    return adjusted_rand(codes[labelled], clusters[labelled])


def _farthest(model: Any, row_names: Any) -> list[dict[str, Any]]:
    """The outliers that are farthest from their cluster, farthest first."""
    scores, names, groups = model.outlier_scores_, column_names(model), _group_texts(model)
    lines = []
    for i in np.argsort(-scores, kind="stable")[:_FARTHEST].tolist():
        if not model.outliers_[i]:
            break
        g, k = int(model.row_labels_[i]), int(model.outlier_groups_[i])
        columns = [names[j] for j in Partition(model.column_labels_[g]).groups[k]]
        line = {"row": str(row_names[i]), "cluster": g, "outlier_score": round(float(scores[i]), 2)}
        lines.append({**line, "n_values": int(model.n_values_[i]), "farthest_group": groups[g][k], "columns": columns})
    return lines


def print_summary(summary: dict[str, Any], fitted: Fitted, json: bool) -> None:
    """Print the result as JSON or as text, without the many small groups of a wide table."""
    if json:
        output.print_json(summary)
        return
    print(f"{summary['file']}: {summary['rows']} rows × {summary['columns']} numeric columns\n")
    if fitted.selection is not None:
        print(fitted.selection, end="\n\n")
    n_lines = 0
    for line in fitted.model.describe().splitlines():
        n_lines = n_lines + 1 if line.startswith(" ") else 0
        if n_lines < _LINES or line.startswith("  alone"):
            print(line)
        elif n_lines == _LINES:
            print(f"  …: all groups are in {output.COLUMNS}")
    if summary.get("ari") is not None:
        print(f"\nAgreement of the clusters with {summary['label']}: adjusted Rand index {summary['ari']:.3f}")
    if summary.get("farthest"):
        n = summary["outliers"]
        print(f"\n{n} row{' is' if n == 1 else 's are'} far from {'its cluster' if n == 1 else 'their clusters'}:")
        for row in summary["farthest"]:
            columns = row["columns"][:3] + ["…"] * (len(row["columns"]) > 3)
            score = f"score {row['outlier_score']:g} (about {row['n_values']} is usual)"
            print(f"  {row['row']}: cluster {row['cluster']}, {score}, farthest in {', '.join(columns)}")
        if n > len(summary["farthest"]):
            print(f"  and {n - len(summary['farthest'])} more: outlier in {output.ROWS}")
    if fitted.stability is not None:
        print(f"\n{fitted.stability}")
    print(f"\nWritten to {summary['folder']}: {', '.join(summary['files'])}")
