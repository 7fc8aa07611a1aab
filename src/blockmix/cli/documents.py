"""Documents: topics of a column of texts, their files and what is printed of them.

A file and the names of its columns come in; the folder of results is written, and the table of topics is printed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import blockmix
from blockmix.cli.bars import bar
from blockmix.cli.data import as_numbers, read_file, without_gaps
from blockmix.cli.fitting import cluster_lines
from blockmix.cli.folder import COLUMNS, HEATMAP, MODEL, ROWS, SUMMARY, TOPICS, as_json, results, write_csv, write_json
from blockmix.cli.options import ReadingOptions
from blockmix.cli.speaking import warnings_heard
from blockmix.cli.tables import Table
from blockmix.estimators.topics.biclustering import TopicBiclustering


def fit_topics(
    file: str,
    text: str,
    rating: str | None,
    settings: dict[str, Any],
    reading: ReadingOptions,
    out: Path,
    command: str,
    json: bool,
) -> None:
    """Find topics and write all their files."""
    columns = [text] if rating is None else [text, rating]
    with results(out) as folder:
        table = without_gaps(read_file(file, reading, tuple(columns), ()), columns, reading.drop_missing)
        ratings = None if rating is None else as_numbers(table, rating)
        model = TopicBiclustering(**settings)
        with warnings_heard() as heard, bar("finding topics", 200, left="left at most") as shown:
            model.fit(table.texts[text], ratings, callback=lambda progress: shown.show(progress.iteration + 1))
        if model.mixture_.outcome_ == "interrupted":
            raise KeyboardInterrupt
        summary = _summary(model, table, heard, command)
        summary |= {"folder": str(out), "files": [COLUMNS, MODEL, ROWS, TOPICS, HEATMAP, SUMMARY]}
        with bar("writing the results"):
            _write(folder, model, table, text)
            write_json(folder / SUMMARY, summary)
    if json:
        print(as_json(summary))
    else:
        print(model.summary())
        print(f"\nWritten to {out}: {', '.join(summary['files'])}")


def _write(folder: Path, model: TopicBiclustering, table: Table, text: str) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    model.save(folder / MODEL)
    write_csv(folder / ROWS, ["row", "topic", "probability"], cluster_lines(model, table.texts[text], table.row_names))
    lines = [(k, term, f"{weight:.4g}") for k, terms in enumerate(model.term_groups_) for term, weight in terms]
    write_csv(folder / COLUMNS, ["group", "term", "weight"], lines)
    importances = [[g, *(f"{cell:.4g}" for cell in row)] for g, row in enumerate(model.importance_)]
    write_csv(folder / TOPICS, ["topic", *model.group_names_], importances)
    figure: Any = model.plot().figure
    canvas: Any = FigureCanvasAgg(figure)  # without pyplot's choice of a window
    canvas.print_png(folder / HEATMAP)


def _summary(model: TopicBiclustering, table: Table, heard: list[str], command: str) -> dict[str, Any]:
    return {
        "blockmix": blockmix.__version__,
        "command": command,
        "file": table.source,
        "rows": len(table.row_names),
        "model": type(model).__name__,
        "n_topics": len(model.topics_),
        "n_groups": len(model.term_groups_),
        "n_terms": len(model.terms_),
        "topics": [
            {"size": topic.size, "mean_rating": topic.mean_rating, "top_groups": topic.top_groups}
            for topic in model.topics_
        ],
        "warnings": heard,
    }
