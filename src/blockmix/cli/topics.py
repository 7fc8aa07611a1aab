"""Topics of a column of texts: the fit, its files and its printed summary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import blockmix
from blockmix.cli import results
from blockmix.cli.data import as_numbers, read_file, without_gaps
from blockmix.cli.messages import warnings_collected
from blockmix.cli.options import ReadingOptions, WritingOptions
from blockmix.cli.progress import progress_bar
from blockmix.cli.reading import InputTable
from blockmix.cli.streams import check_output
from blockmix.cli.tables import row_head, row_lines
from blockmix.estimators.topics.biclustering import TopicBiclustering


def fit_topics(
    file: str,
    text: str,
    rating: str | None,
    settings: dict[str, Any],
    reading: ReadingOptions,
    writing: WritingOptions,
    out: Path,
    command: str,
) -> None:
    """Find topics, and write all their files."""
    columns = [text] if rating is None else [text, rating]
    with results.folder(out, "topics", [file]) as folder:
        table = without_gaps(read_file(file, reading, tuple(columns), ()), columns, reading.drop_missing)
        ratings = None if rating is None else as_numbers(table, rating)
        model = TopicBiclustering(**settings)
        with warnings_collected() as warnings, progress_bar("finding topics", 200, left="left at most") as bar:
            model.fit(table.texts[text], ratings, callback=lambda progress: bar.update(progress.iteration + 1))
        if model.mixture_.outcome_ == "interrupted":
            raise KeyboardInterrupt
        summary = _summary(model, table, warnings, command)
        summary |= {
            "kind": "topics",
            "folder": str(out),
            "files": [results.COLUMNS, results.MODEL, results.ROWS, results.TOPICS, results.HEATMAP, results.SUMMARY],
        }
        with results.blaming(out), progress_bar("writing the results"):
            _write(folder, model, table, text, writing.raw_text)
            results.write_json(folder / results.SUMMARY, summary)
    if writing.json:
        print(results.as_json(summary, ascii=True))
        check_output()
    else:
        print(model.summary())
        print(f"\nWritten to {out}: {', '.join(summary['files'])}")


def _write(folder: Path, model: TopicBiclustering, table: InputTable, text: str, raw: bool) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    model.save(folder / results.MODEL)
    lines: Any = row_lines(model, table.texts[text], table.row_names)
    results.write_csv(folder / results.ROWS, row_head(model, "topic"), lines, raw)
    lines = [(k, term, f"{weight:.4g}") for k, terms in enumerate(model.term_groups_) for term, weight in terms]
    results.write_csv(folder / results.COLUMNS, ["group", "term", "weight"], lines, raw)
    importances = [[g, *(f"{cell:.4g}" for cell in row)] for g, row in enumerate(model.importance_)]
    results.write_csv(folder / results.TOPICS, ["topic", *model.group_names_], importances, raw)
    figure: Any = model.plot().figure
    canvas: Any = FigureCanvasAgg(figure)  # pyplot would choose a window
    canvas.print_png(folder / results.HEATMAP)


def _summary(model: TopicBiclustering, table: InputTable, warnings: list[str], command: str) -> dict[str, Any]:
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
        "warnings": warnings,
    }
