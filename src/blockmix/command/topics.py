"""Topics of a column of texts: the fit, its files and its printed summary."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model with some number of topics, and how it compares: coherence is better if larger, BIC if smaller."""

    model: TopicBiclustering
    coherence: float
    bic: float
    seconds: float


def fit_topics(options: TopicOptions, line: str) -> None:
    """Find topics, and write all their files."""
    columns = [options.text] if options.rating is None else [options.text, options.rating]
    out: Path = options.out or Path(f"{stem_of(options.file)}-blockmix")
    with output.folder(out, "topics", options.file) as folder:
        table = read_documents(options.file, options, columns)
        texts, ratings = table.texts[options.text], _ratings(table, options.rating)
        with warnings_collected() as warnings:
            candidates = _candidates(texts, ratings, options)
        best = max(candidates, key=lambda candidate: candidate.coherence)
        summary = _summary(best.model, table, warnings, line) | {"kind": "topics", "folder": str(out)}
        if len(candidates) > 1:
            summary["selection"] = [_candidate_line(candidate) for candidate in candidates]
        with progress_bar("writing the results"):
            _write(folder, best.model, table, texts, ratings, summary, options.raw_text)
    if options.json:
        output.write_json(summary)
        return
    if len(candidates) > 1:
        print("\n".join(_comparison(candidates, best)), end="\n\n")
    print("\n".join(_printed(best.model, texts)))
    print(f"\nWritten to {out}: {', '.join(summary['files'])}")


def read_documents(file: str, options: ReadingOptions, columns: list[str], others: Sequence[str] = ()) -> Table:
    """A table of texts, without the rows that lack one of these columns if they may be left out."""
    table = read_table(file, options, (*columns, *others), ())
    full = [all(cells) for cells in zip(*(table.texts[name] for name in columns), strict=True)]
    lost = full.count(False)
    if lost == 0:
        return table
    if not options.drop_missing:
        raise ValueError(
            f"{table.source} has no {' or no '.join(columns)} in {lost} of {len(full)} rows: fill them in, or leave "
            "out those rows with --drop-missing"
        )
    if lost == len(full):
        raise ValueError(f"{table.source} has no row with {' and '.join(columns)}")
    note(f"left out {lost} of {len(full)} rows without {' or '.join(columns)}")
    return table.rows([i for i, whole in enumerate(full) if whole])


def _ratings(table: Table, column: str | None) -> FloatArray | None:
    """A column that was kept as text, as numbers."""
    if column is None:
        return None
    numbers = []
    for row, text in enumerate(table.texts[column], start=1):
        try:
            numbers.append(float(text or "nan"))
        except ValueError:
            raise ValueError(
                f"the column {column!r} of {table.source} holds {text!r} in row {row}: numbers are needed"
            ) from None
    return np.array(numbers)


def _candidates(texts: list[Any], ratings: FloatArray | None, options: TopicOptions) -> list[Candidate]:
    """Fit all numbers of topics; Ctrl-C keeps those that are done."""
    stop_words: Any = None if options.stop_words == "none" else options.stop_words
    if stop_words not in (None, "english"):
        file = Path(stop_words)
        if not file.is_file():
            raise FileNotFoundError(f"--stop-words {file} is neither english, nor none, nor a file of words")
        stop_words = sorted({word.lower() for word in file.read_text(encoding="utf-8").split()})
    candidates: list[Candidate] = []
    for n in options.topics:
        model = TopicBiclustering(
            n,
            options.groups,
            n_selected_terms=options.words,
            stop_words=stop_words,
            ngrams=options.ngrams,
            random_state=options.seed,
        )
        begin = time.perf_counter()
        with progress_bar(f"finding {n} topics"):
            model.fit(texts, ratings)
        if model.mixture_.outcome_ == "interrupted":
            if not candidates:
                raise KeyboardInterrupt
            note(f"interrupted after {len(candidates)} of {len(options.topics)} numbers of topics")
            break
        seconds = round(time.perf_counter() - begin, 3)
        candidates.append(Candidate(model, *_criteria(model, texts), seconds))
    return candidates


def _criteria(model: TopicBiclustering, texts: list[Any]) -> tuple[float, float]:
    """Coherence of the terms that are most frequent in each topic compared with all documents, and BIC."""
    X = model._weigh(texts)
    assigned = model.labels_ >= 0
    means = topic_means(X[assigned], model.labels_[assigned], len(model.topics_))
    more = np.nan_to_num((means - X[assigned].mean(axis=0)) / X[assigned].std(axis=0))
    terms = [np.argsort(-row, kind="stable")[:_TOP_TERMS] for row in more]
    coherence = npmi_coherence(terms, X[assigned]) if X.shape[1] > 1 else np.nan
    return round(coherence, 4), round(float(model.mixture_._criteria(model.mixture_._fit_sums)["bic"]), 1)


def _candidate_line(candidate: Candidate) -> dict[str, Any]:
    """A candidate as a line of csv."""
    topics = candidate.model.topics_
    says = "; ".join(f"topic {g}: {' | '.join(topic.top_groups[:3])}" for g, topic in enumerate(topics))
    criteria = {"coherence": candidate.coherence, "bic": candidate.bic, "seconds": candidate.seconds}
    return {"n_topics": len(topics), **criteria, "says": says}


def _write(
    folder: Path,
    model: TopicBiclustering,
    table: Table,
    texts: list[Any],
    ratings: FloatArray | None,
    summary: dict[str, Any],
    raw: bool,
) -> None:
    """Write the model, its tables, heat map and page, and the completed summary."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from blockmix.report import write_topics

    model.save(folder / output.MODEL)
    lines: Any = row_lines(model, texts, table.row_names)
    write_csv(folder / output.ROWS, TOPIC_HEAD, lines, raw)
    write_csv(folder / output.COLUMNS, ["group", "kind", "term", "weight"], _term_lines(model), raw)
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
    write_topics(
        model,
        folder / output.REPORT,
        texts,
        ratings,
        names=table.row_names,
        warnings=summary["warnings"],
        title=Path(table.source).name,
        command=summary["command"],
    )


def _term_lines(model: TopicBiclustering) -> Iterator[tuple[Any, ...]]:
    for k, terms in enumerate(model.term_groups_):
        kind = "background" if is_background(terms, len(model.terms_)) else "group" if len(terms) > 1 else "alone"
        yield from ((k, kind, term, f"{weight:.4g}") for term, weight in terms)


def _comparison(candidates: Sequence[Candidate], best: Candidate) -> Iterator[str]:
    """A table of the numbers of topics, and what each criterion says."""
    smallest = min(candidates, key=lambda candidate: candidate.bic)
    yield f"{'topics':>8}{'coherence':>11}{'bic':>14}  most important group of each"
    for candidate in candidates:
        marks = ("+" if candidate is best else " ") + ("*" if candidate is smallest else " ")
        tops = "; ".join(topic.top_groups[0] if topic.top_groups else "–" for topic in candidate.model.topics_)
        n = len(candidate.model.topics_)
        yield f"{marks}{n:>6}{candidate.coherence:>11.3f}{candidate.bic:>14.1f}  {_short(tops, 80)}"
    n, other = len(best.model.topics_), len(smallest.model.topics_)
    if n == other:
        yield f"+ highest coherence, * smallest bic: both say {n} topics"
    else:
        yield (
            f"+ highest coherence says {n} topics, which are written; * smallest bic says {other}: for those give "
            f"--topics {other}"
        )


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


def _summary(model: TopicBiclustering, table: Table, warnings: list[str], command: str) -> dict[str, Any]:
    return {
        "blockmix": blockmix.__version__,
        "command": command,
        "file": table.source,
        "rows": table.values.shape[0],
        "model": type(model).__name__,
        "n_topics": len(model.topics_),
        "n_groups": len(model.term_groups_),
        "n_terms": len(model.terms_),
        "without_topic": len(model.without_terms_),
        "topics": [
            {
                "size": topic.size,
                "mean_rating": topic.mean_rating,
                "top_groups": topic.top_groups,
                "documents": [str(table.row_names[i]) for i in topic.documents],
            }
            for topic in model.topics_
        ],
        "warnings": warnings,
    }
