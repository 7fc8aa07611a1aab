"""Topics of a column of texts: the fit, its files and its printed summary."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import blockmix
from blockmix.cli import results
from blockmix.cli.data import as_numbers, read_file, without_gaps
from blockmix.cli.messages import note, warnings_collected
from blockmix.cli.options import ReadingOptions, TopicOptions, WritingOptions
from blockmix.cli.progress import progress_bar
from blockmix.cli.reading import InputTable
from blockmix.cli.streams import check_output
from blockmix.cli.tables import row_head, row_lines
from blockmix.estimators.importance import is_background, topic_means
from blockmix.estimators.topics import TopicBiclustering
from blockmix.metrics import npmi_coherence

_TOP_TERMS = 10  # of a topic, in its coherence
_SHOWN_DOCUMENTS = 2  # of a topic, printed
_SHOWN_TEXT = 140  # characters of a document, printed
_TYPICAL_HEAD = ("topic", "rank", "row", "rating", "text")


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model with some number of topics, and how it compares: coherence is better if larger, BIC if smaller."""

    model: TopicBiclustering
    coherence: float
    bic: float
    seconds: float

    def line(self) -> dict[str, Any]:
        """The candidate as a line of csv."""
        says = "; ".join(f"topic {g}: {' | '.join(topic.top_groups[:3])}" for g, topic in enumerate(self.model.topics_))
        n = len(self.model.topics_)
        return {"n_topics": n, "coherence": self.coherence, "bic": self.bic, "seconds": self.seconds, "says": says}


def fit_topics(
    file: str,
    text: str,
    rating: str | None,
    options: TopicOptions,
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
        with warnings_collected() as warnings:
            candidates = _candidates(table.texts[text], ratings, options)
        best = max(candidates, key=lambda found: found.coherence)
        summary = _summary(best.model, table, warnings, command) | {"kind": "topics", "folder": str(out)}
        if len(candidates) > 1:
            summary["selection"] = [found.line() for found in candidates]
        with results.blaming(out), progress_bar("writing the results"):
            _write(folder, best.model, table, (text, ratings), summary, writing.raw_text)
    if writing.json:
        print(results.as_json(summary, ascii=True))
        check_output()
        return
    if len(candidates) > 1:
        print("\n".join(_comparison(candidates, best)), end="\n\n")
    print("\n".join(_printed(best.model, table.texts[text])))
    print(f"\nWritten to {out}: {', '.join(summary['files'])}")


def _candidates(texts: list[Any], ratings: Any, options: TopicOptions) -> list[Candidate]:
    """Fit all numbers of topics; Ctrl-C keeps those that are done."""
    stop_words = _stop_words(options.stop_words)
    found: list[Candidate] = []
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
        with progress_bar(f"finding {n} topics", 200, left="left at most") as bar:
            model.fit(texts, ratings, callback=lambda progress, bar=bar: bar.update(progress.iteration + 1))  # type: ignore[misc]
        if model.mixture_.outcome_ == "interrupted":
            if not found:
                raise KeyboardInterrupt
            note(f"interrupted after {len(found)} of {len(options.topics)} numbers of topics")
            break
        seconds = round(time.perf_counter() - begin, 3)
        found.append(Candidate(model, *_criteria(model, texts), seconds))
    return found


def _stop_words(given: str) -> Any:
    """The words to leave out: English ones, none, or those in a file."""
    if given in ("english", "none"):
        return None if given == "none" else given
    file = Path(given)
    if not file.is_file():
        raise FileNotFoundError(f"--stop-words {given} is neither english, nor none, nor a file of words")
    return sorted({word.lower() for word in file.read_text(encoding="utf-8").split()})


def _criteria(model: TopicBiclustering, texts: list[Any]) -> tuple[float, float]:
    """Coherence of the terms that are most frequent in each topic compared with all documents, and BIC."""
    X = model._weigh(texts)
    known = model.labels_ >= 0
    means = topic_means(X[known], model.labels_[known], len(model.topics_))
    more = np.nan_to_num((means - X[known].mean(axis=0)) / X[known].std(axis=0))
    terms = [np.argsort(-row, kind="stable")[:_TOP_TERMS] for row in more]
    coherence = npmi_coherence(terms, X[known]) if X.shape[1] > 1 else np.nan
    return round(coherence, 4), round(float(model.mixture_._criteria_of(model.mixture_._fit_sums)["bic"]), 1)


def _write(
    folder: Path,
    model: TopicBiclustering,
    table: InputTable,
    given: tuple[str, Any],
    summary: dict[str, Any],
    raw: bool,
) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from blockmix.report import write_topics

    text, ratings = given
    texts = table.texts[text]
    model.save(folder / results.MODEL)
    lines: Any = row_lines(model, texts, table.row_names)
    results.write_csv(folder / results.ROWS, row_head(model, "topic"), lines, raw)
    results.write_csv(folder / results.COLUMNS, ["group", "kind", "term", "weight"], _term_lines(model), raw)
    importances = [[g, *(f"{cell:.4g}" for cell in row)] for g, row in enumerate(model.importance_)]
    results.write_csv(folder / results.TOPICS, ["topic", *model.group_names_], importances, raw)
    lines = [
        (g, rank, table.row_names[i], "" if ratings is None else f"{ratings[i]:g}", texts[i])
        for g, topic in enumerate(model.topics_)
        for rank, i in enumerate(topic.documents, start=1)
    ]
    results.write_csv(folder / results.TYPICAL, _TYPICAL_HEAD, lines, raw)
    if "selection" in summary:
        tried = summary["selection"]
        results.write_csv(folder / results.SELECTION, list(tried[0]), [list(line.values()) for line in tried], raw)
    figure: Any = model.plot().figure
    canvas: Any = FigureCanvasAgg(figure)  # pyplot would choose a window
    canvas.print_png(folder / results.HEATMAP)
    summary["files"] = [*sorted(path.name for path in folder.iterdir()), results.SUMMARY, results.REPORT]
    results.write_json(folder / results.SUMMARY, summary)
    write_topics(
        model,
        folder / results.REPORT,
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
    smallest = min(candidates, key=lambda found: found.bic)
    yield f"{'topics':>8}{'coherence':>11}{'bic':>14}  most important group of each"
    for found in candidates:
        marks = ("+" if found is best else " ") + ("*" if found is smallest else " ")
        tops = "; ".join(topic.top_groups[0] if topic.top_groups else "–" for topic in found.model.topics_)
        n = len(found.model.topics_)
        yield f"{marks}{n:>6}{found.coherence:>11.3f}{found.bic:>14.1f}  {_short(tops, 80)}"
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
