"""Topics of a column of texts: the fit, its files and its printed summary."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import blockmix
from blockmix import TopicBiclustering
from blockmix.command import output
from blockmix.command.fit import row_lines
from blockmix.command.options import ReadingOptions, TopicOptions
from blockmix.command.output import note, progress_bar, warnings_collected, write_csv
from blockmix.command.reading import read_table, stem_of
from blockmix.command.table import Table
from blockmix.estimators.importance import is_background, topic_means
from blockmix.metrics import npmi_coherence
from blockmix.partition import FloatArray

TOPIC_HEAD: tuple[str, ...] = ("row", "topic", "probability")
_TOP_TERMS = 10  # of a topic, in its coherence
_SHOWN_DOCUMENTS = 2  # of a topic, printed
_SHOWN_TEXT = 140  # characters of a document, printed


def fit_topics(options: TopicOptions, line: str) -> None:
    """Find topics, and write all their files."""
    columns = [options.text] if options.rating is None else [options.text, options.rating]
    out = options.out or Path(f"{stem_of(options.file)}-blockmix")
    with output.folder(out, "topics", options.file) as folder:
        table = read_documents(options.file, options, columns)
        texts, ratings = table.texts[options.text], _ratings(table, options.rating)
        with warnings_collected() as warnings:
            models, tried = _compared(texts, ratings, options)
        best = models[int(np.argmax(np.nan_to_num([line["coherence"] for line in tried], nan=-2)))]
        summary: dict[str, Any] = {
            "kind": "topics",
            "folder": str(out),
            "blockmix": blockmix.__version__,
            "command": line,
            "file": table.source,
            "rows": len(texts),
            "model": type(best).__name__,
            "n_topics": len(best.topics_),
            "n_groups": len(best.term_groups_),
            "n_terms": len(best.terms_),
            "without_topic": len(best.without_terms_),
            "topics": [
                vars(topic) | {"documents": [str(table.row_names[i]) for i in topic.documents]}
                for topic in best.topics_
            ],
            "warnings": warnings,
        }
        if len(models) > 1:
            summary["selection"] = tried
        with progress_bar("writing the results"):
            _write_files(folder, best, table, ratings, summary, options)
    if options.json:
        output.write_json(summary)
        return
    if len(models) > 1:
        print("\n".join(_comparison(tried, len(best.topics_))), end="\n\n")
    print("\n".join(_printed(best, texts)))
    print(f"\nWritten to {out}: {', '.join(summary['files'])}")


def read_documents(file: str, options: ReadingOptions, columns: list[str], others: Sequence[str] = ()) -> Table:
    """A table of texts, without the rows that lack one of these columns if they may be left out."""
    table = read_table(file, options, (*columns, *others), ())
    full = [all(cells) for cells in zip(*(table.texts[name] for name in columns), strict=True)]
    lost = full.count(False)
    if lost == 0:
        return table
    if not options.drop_missing:
        remedy = "fill them in, or leave out those rows with --drop-missing"
        raise ValueError(f"{table.source} has no {' or no '.join(columns)} in {lost} of {len(full)} rows: {remedy}")
    if lost == len(full):
        raise ValueError(f"{table.source} has no row with {' and '.join(columns)}")
    note(f"left out {lost} of {len(full)} rows without {' or '.join(columns)}")
    return table.rows([i for i, whole in enumerate(full) if whole])


def _ratings(table: Table, column: str | None) -> FloatArray | None:
    """A column that was kept as text, as numbers."""
    if column is None:
        return None
    try:
        return np.array([float(text or "nan") for text in table.texts[column]])
    except ValueError as error:
        raise ValueError(f"the column {column!r} of {table.source} holds text: {error}") from None


def _compared(
    texts: list[Any], ratings: FloatArray | None, options: TopicOptions
) -> tuple[list[TopicBiclustering], list[dict[str, Any]]]:
    """A model for each number of topics, and how they compare; Ctrl-C keeps those that are done.

    Coherence is that of the terms that are most frequent in each topic compared with all documents: larger is better.
    """
    stop_words: Any = None if options.stop_words == "none" else options.stop_words
    if stop_words not in (None, "english"):
        file = Path(stop_words)
        if not file.is_file():
            raise FileNotFoundError(f"--stop-words {file} is neither english, nor none, nor a file of words")
        stop_words = sorted({word.lower() for word in file.read_text(encoding="utf-8").split()})
    settings = {"n_selected_terms": options.words, "stop_words": stop_words, "ngrams": options.ngrams}
    models: list[TopicBiclustering] = []
    tried: list[dict[str, Any]] = []
    for n in options.topics:
        begin = time.perf_counter()
        with progress_bar(f"finding {n} topics"):
            model = TopicBiclustering(n, options.groups, random_state=options.seed, **settings).fit(texts, ratings)
        if model.mixture_.outcome_ == "interrupted":
            if not models:
                raise KeyboardInterrupt
            note(f"interrupted after {len(models)} of {len(options.topics)} numbers of topics")
            break
        models.append(model)
        topics, mixture, X = model.topics_, model.mixture_, model._weigh(texts)
        X, labels = X[model.labels_ >= 0], model.labels_[model.labels_ >= 0]
        more = np.nan_to_num((topic_means(X, labels, len(topics)) - X.mean(axis=0)) / X.std(axis=0))
        terms = [np.argsort(-row, kind="stable")[:_TOP_TERMS] for row in more]
        tried.append(
            {
                "n_topics": len(topics),
                "coherence": round(npmi_coherence(terms, X) if X.shape[1] > 1 else np.nan, 4),
                "bic": round(float(mixture._criteria(mixture._fit_sums)["bic"]), 1),
                "seconds": round(time.perf_counter() - begin, 3),
                "says": "; ".join(f"topic {g}: {' | '.join(topic.top_groups[:3])}" for g, topic in enumerate(topics)),
            }
        )
    return models, tried


def _write_files(
    folder: Path, model: TopicBiclustering, table: Table, ratings: Any, summary: dict[str, Any], options: TopicOptions
) -> None:
    """Write the model, its tables, heat map and page, and the completed summary."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from blockmix.report import write_topics

    texts, raw = table.texts[options.text], options.raw_text
    model.save(folder / output.MODEL)
    lines: Any = row_lines(model, texts, table.row_names)
    write_csv(folder / output.ROWS, TOPIC_HEAD, lines, raw)
    lines = []
    for k, terms in enumerate(model.term_groups_):
        kind = "background" if is_background(terms, len(model.terms_)) else "group" if len(terms) > 1 else "alone"
        lines += [(k, kind, term, f"{weight:.4g}") for term, weight in terms]
    write_csv(folder / output.COLUMNS, ["group", "kind", "term", "weight"], lines, raw)
    importances = [[g, *(f"{cell:.4g}" for cell in row)] for g, row in enumerate(model.importance_)]
    write_csv(folder / output.TOPICS, ["topic", *model.group_names_], importances, raw)
    lines = [
        (g, rank, table.row_names[i], "" if ratings is None else f"{ratings[i]:g}", texts[i])
        for g, topic in enumerate(model.topics_)
        for rank, i in enumerate(topic.documents, start=1)
    ]
    write_csv(folder / output.TYPICAL, ["topic", "rank", "row", "rating", "text"], lines, raw)
    if "selection" in summary:
        tried = summary["selection"]
        write_csv(folder / output.SELECTION, list(tried[0]), [list(line.values()) for line in tried], raw)
    figure: Any = model.plot().figure
    canvas: Any = FigureCanvasAgg(figure)  # pyplot would choose a window
    canvas.print_png(folder / output.HEATMAP)
    summary["files"] = [*sorted(path.name for path in folder.iterdir()), output.SUMMARY, output.REPORT]
    output.write_json(summary, folder / output.SUMMARY)
    about = {"warnings": summary["warnings"], "command": summary["command"], "title": Path(table.source).name}
    write_topics(model, folder / output.REPORT, texts, ratings, names=table.row_names, **about)


def _comparison(tried: Sequence[dict[str, Any]], n: int) -> Iterator[str]:
    """A table of the numbers of topics, of which `n` is the most coherent, and what each criterion says."""
    other = min(tried, key=lambda line: line["bic"])["n_topics"]
    yield f"{'topics':>8}{'coherence':>11}{'bic':>14}  most important groups"
    for line in tried:
        marks = ("+" if line["n_topics"] == n else " ") + ("*" if line["n_topics"] == other else " ")
        yield f"{marks}{line['n_topics']:>6}{line['coherence']:>11.3f}{line['bic']:>14.1f}  {_short(line['says'], 80)}"
    if n == other:
        yield f"+ highest coherence, * smallest bic: both say {n} topics"
    else:
        yield f"+ highest coherence says {n} topics, which are written; * smallest bic says --topics {other}"


def _printed(model: TopicBiclustering, texts: Sequence[Any]) -> Iterator[str]:
    """The summary of the model, typical documents of each topic, and the background."""
    yield model.summary()
    yield "\nTypical documents:"
    for g, topic in enumerate(model.topics_):
        for i in topic.documents[:_SHOWN_DOCUMENTS]:
            yield f"  topic {g}: {_short(' '.join(str(texts[i]).split()), _SHOWN_TEXT)}"
    for terms in model.term_groups_:
        if is_background(terms, len(model.terms_)):
            few = ", ".join(term for term, _ in terms[:5])
            yield f"\nBackground: {len(terms)} of {len(model.terms_)} terms go with no others ({few}, …)"


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
