"""Topics of a column of texts: which column it is, the fit, its files and its printed summary.

The column of texts is the one with the longest texts, the column of ratings one that is called so and has few values.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import blockmix
from blockmix import TopicBiclustering
from blockmix.command import output
from blockmix.command.fit import row_lines
from blockmix.command.formats import is_text_folder
from blockmix.command.options import ReadingOptions, TopicOptions
from blockmix.command.output import note, progress_bar, warnings_collected, write_csv, write_frame
from blockmix.command.reading import read_table, stem_of
from blockmix.command.table import Table, abridged
from blockmix.estimators.importance import is_background
from blockmix.partition import FloatArray

TOPIC_HEAD: tuple[str, ...] = ("row", "topic", "probability")
_AGREEMENT = 0.75  # share of the documents on which two halves must agree
_LEAST_DOCUMENTS = 8  # for each topic
_RATING = re.compile(r"(?i).*(rating|stars?|score|grade|review_?score)s?")
_MAX_RATINGS = 20
_LEAST_LENGTH = 15  # characters of a text on average
_SAMPLE = 1000  # texts that are looked at
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")  # no spaces between words


def fit_topics(options: TopicOptions, line: str) -> None:
    """Find topics, and write all their files."""
    out = options.out or Path(f"{stem_of(options.file)}-blockmix")
    with output.folder(out, "topics", options.file) as folder:
        text, rating = guess_columns(options.file, options, options.text, options.rating)
        others = [] if options.by is None else [options.by]
        table = read_documents(options.file, options, [text] if rating is None else [text, rating], others)
        texts, ratings = table.texts[text], _ratings(table, rating)
        with warnings_collected() as warnings:
            models, tried = _compared(texts, ratings, options)
        place, reason = chosen(tried)
        best = models[place]
        values = None if options.by is None else category_values(table.texts[options.by])
        about: dict[str, Any] = {"kind": "topics", "folder": str(out), "blockmix": blockmix.__version__}
        about |= {"command": line, "file": table.source, "text": text, "rating": rating, "rows": len(texts)}
        about |= {"selection": tried, "reason": reason} if len(models) > 1 else {}
        summary = about | _about_topics(best, table) | {"warnings": warnings}
        with progress_bar("writing the results"):
            _write_files(folder, best, table, texts, ratings, values, summary, options)
    if options.json:
        output.write_json(summary)
        return
    if len(models) > 1:
        print("\n".join(_comparison(tried, place, reason)), end="\n\n")
    print(best.summary())
    print(f"\nWritten to {out}: {', '.join(summary['files'])}")


def _about_topics(model: TopicBiclustering, table: Table) -> dict[str, Any]:
    """What summary.json says about the topics."""
    sizes = {"n_topics": "topics_", "n_groups": "term_groups_", "n_terms": "terms_", "unclear": "unclear_"}
    named = [vars(topic) | {"documents": [str(table.row_names[i]) for i in topic.documents]} for topic in model.topics_]
    return {
        **{name: len(getattr(model, kept)) for name, kept in sizes.items()},
        "model": type(model).__name__,
        "agreement": model.agreement_,
        "without_topic": len(model.without_terms_),
        "topics": named,
        "stable_terms": model.stable_terms_,
    }


def chosen(tried: Sequence[dict[str, Any]]) -> tuple[int, str]:
    """Place of the number of topics to keep, and why, in one sentence.

    Most topics on which two halves of the documents agree. BIC falls with every topic and says nothing here.
    """
    agreement = [line["agreement"] or 0.0 for line in tried]
    if not any(agreement):
        return 0, f"{tried[0]['n_topics']} are the fewest topics: the documents are too few to be halved"
    enough = [i for i, share in enumerate(agreement) if share >= _AGREEMENT]
    place = max(enough, key=lambda i: tried[i]["n_topics"]) if enough else int(np.argmax(agreement))
    n, share = tried[place]["n_topics"], f"{100 * agreement[place]:.0f} %"
    if enough:
        return place, f"{n} are the most topics on which two halves of the documents agree: for {share} of them"
    return place, f"no number of topics holds: two halves of the documents agree best on {n}, for {share} of them"


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
    """A model for each number of topics, and how they compare; Ctrl-C keeps those that are done."""
    stop_words: Any = None if options.stop_words == "none" else options.stop_words
    if stop_words not in (None, "english"):
        file = Path(stop_words)
        if not file.is_file():
            raise FileNotFoundError(f"--stop-words {file} is neither english, nor none, nor a file of words")
        stop_words = sorted({word.lower() for word in file.read_text(encoding="utf-8").split()})
    settings: dict[str, Any] = {"stop_words": stop_words, "ngrams": options.ngrams, "characters": is_unspaced(texts)}
    settings |= {"max_terms": options.words, "random_state": options.seed}
    if settings["characters"]:
        note("pairs of letters take the place of words, because the texts have no spaces between words")
    models: list[TopicBiclustering] = []
    tried: list[dict[str, Any]] = []
    numbers = [n for n in options.topics if n <= max(len(texts) // _LEAST_DOCUMENTS, 2)]
    for n in numbers or options.topics[:1]:
        begin = time.perf_counter()
        try:
            with progress_bar(f"finding {n} topics"):
                model = TopicBiclustering(n, options.groups, **settings).fit(texts, ratings)
        except KeyboardInterrupt:
            if not models:
                raise
            note(f"interrupted after {len(models)} of {len(numbers)} numbers of topics")
            break
        models.append(model)
        line: dict[str, Any] = {"n_topics": n, "agreement": model.agreement_ and round(model.agreement_, 4)}
        line |= {"unclear": len(model.unclear_), "seconds": round(time.perf_counter() - begin, 3)}
        line["says"] = "; ".join(f"topic {g}: {', '.join(t.words[:3])}" for g, t in enumerate(model.topics_, start=1))
        tried.append(line)
    return models, tried


def _write_files(
    folder: Path,
    model: TopicBiclustering,
    table: Table,
    texts: list[Any],
    ratings: FloatArray | None,
    values: Any,
    summary: dict[str, Any],
    options: TopicOptions,
) -> None:
    """Write the model, its tables and page, and the completed summary."""
    from blockmix.report import write_topics

    model.save(folder / output.MODEL)
    write_csv(folder / output.ROWS, TOPIC_HEAD, row_lines(model, texts, table.row_names))
    lines: list[Any] = []
    for k, terms in enumerate(model.term_groups_, start=1):
        kind = "background" if is_background(terms, len(model.terms_)) else "group" if len(terms) > 1 else "alone"
        lines += [(k, kind, term, f"{weight:.4g}") for term, weight in terms]
    write_csv(folder / output.COLUMNS, ["group", "kind", "term", "weight"], lines)
    lines = [[g, *(f"{cell:.4g}" for cell in row)] for g, row in enumerate(model.importance_, start=1)]
    write_csv(folder / output.TOPICS, ["topic", *model.group_names_], lines)
    if values is not None:
        write_frame(folder / output.SHARES, model.by(values))
    lines = [
        (g, rank, table.row_names[i], "" if ratings is None else f"{ratings[i]:g}", texts[i])
        for g, topic in enumerate(model.topics_, start=1)
        for rank, i in enumerate(topic.documents, start=1)
    ]
    write_csv(folder / output.TYPICAL, ["topic", "rank", "row", "rating", "text"], lines)
    if tried := summary.get("selection"):
        write_csv(folder / output.SELECTION, list(tried[0]), [list(line.values()) for line in tried])
    summary["files"] = [*sorted(path.name for path in folder.iterdir()), output.SUMMARY, output.REPORT]
    output.write_json(summary, folder / output.SUMMARY)
    about = {"warnings": summary["warnings"], "command": summary["command"], "title": Path(table.source).name}
    about |= {"by": None if values is None else (str(options.by), values), "reason": summary.get("reason")}
    write_topics(model, folder / output.REPORT, texts, ratings, names=table.row_names, **about)


def _comparison(tried: Sequence[dict[str, Any]], place: int, reason: str) -> Iterator[str]:
    """A table of the numbers of topics and why one of them is kept."""
    yield f"{'topics':>8}{'agreement':>11}  words"
    for i, line in enumerate(tried):
        agreement = "–" if line["agreement"] is None else f"{100 * line['agreement']:.0f} %"
        mark = "*" if i == place else " "
        yield f"{mark}{line['n_topics']:>7}{agreement:>11}  {abridged(line['says'], 80)}"
    yield f"* {reason}"


def read_documents(file: str, options: ReadingOptions, columns: list[str], others: Sequence[str] = ()) -> Table:
    """A table of texts, without the rows that lack one of these columns if they may be left out."""
    table = read_table(file, options, (*columns, *others), ())
    full = [all(cells) for cells in zip(*(table.texts[name] for name in columns), strict=True)]
    if (lost := full.count(False)) == 0:
        return table
    if not options.drop_missing or lost == len(full):
        remedy = "fill them in, or leave out those rows with --drop-missing"
        raise ValueError(f"{table.source} has no {' or no '.join(columns)} in {lost} of {len(full)} rows: {remedy}")
    note(f"left out {lost} of {len(full)} rows without {' or '.join(columns)}")
    return table.rows([i for i, whole in enumerate(full) if whole])


def guess_columns(file: str, options: ReadingOptions, text: str | None, rating: str | None) -> tuple[str, str | None]:
    """Columns of texts and of ratings: those given, or the ones that look so, with a note."""
    given = None if rating == "none" else rating
    if is_text_folder(Path(file)):  # paths may be longer than texts
        return text or "text", given
    if text is not None and (rating is not None or file == "-"):
        return text, given
    if file == "-":
        raise ValueError("the columns of standard input cannot be guessed: name the column of texts with --text")
    cells_of = read_table(file, options, None, ()).texts
    columns = {name: [cell for cell in cells[:_SAMPLE] if cell] for name, cells in cells_of.items()}
    if text is None:
        lengths = {name: np.mean([len(str(cell)) for cell in cells]) for name, cells in columns.items() if cells}
        text = max(lengths, key=lambda name: lengths[name], default="")
        if not text or lengths[text] < _LEAST_LENGTH:
            raise ValueError(f"{file} has no column of texts that could be guessed: name it with --text")
        note(f"texts are those of the column {text!r}: --text names another")
    if rating is None:
        given = next((name for name, cells in columns.items() if name != text and _is_rating(name, cells)), None)
        if given is not None:
            note(f"ratings are those of the column {given!r}: --rating names another, or none")
    return text, given


def _is_rating(name: str, cells: list[Any]) -> bool:
    """Whether a column is called like ratings and has few different numbers."""
    try:
        levels = {float(cell) for cell in cells}
    except (TypeError, ValueError):
        return False
    return bool(_RATING.fullmatch(name)) and 2 <= len(levels) <= _MAX_RATINGS


def is_unspaced(texts: Sequence[Any]) -> bool:
    """Whether most letters belong to scripts without spaces between words, such as Chinese, Japanese and Thai."""
    sample = "".join(map(str, texts[:_SAMPLE]))
    letters = sum(map(str.isalpha, sample))
    return len(_UNSPACED.findall(sample)) > letters / 2


def category_values(cells: Sequence[str | None]) -> Any:
    """Cells as dates, as numbers or as they are, for `TopicBiclustering.by`."""
    for kind, empty in (("datetime64[s]", "NaT"), (float, "nan")):
        with suppress(ValueError):
            values = np.array([cell or empty for cell in cells], dtype=kind)
            days = values.astype("datetime64[D]") if empty == "NaT" else values
            return days if (days == values)[values == values].all() else values
    return np.array(cells, dtype=object)
