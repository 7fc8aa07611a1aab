"""Options of the commands: one dataclass per command, made of the groups that commands share.

`parameters` turns the fields of such a class into parameters that Typer reads, so that an option is written once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

# Copies of the library's names: importing them would import NumPy, and slow down `blockmix --help`.
RULES = ("auto", "silhouette")
STARTS = ("auto", "kmeans")
CRITERIA = ("bic", "icl", "aic")
_LONGEST = 1_000_000  # numbers in a range


def numbers(*rules: str) -> Callable[[str], tuple[Any, ...]]:
    """A parser of whole numbers and of some words: "3", "1:5" (with both ends), "2,4,8" or "auto,4".

    Examples
    --------
    >>> numbers()("1:5"), numbers("auto")("auto,2:3")
    ((1, 2, 3, 4, 5), ('auto', 2, 3))
    """

    def parse(text: str) -> tuple[Any, ...]:
        values: list[int | str] = []
        for part in text.split(","):
            if part in rules:
                values.append(part)
                continue
            first, colon, last = part.partition(":")
            try:
                begin = int(first)
                end = int(last) if colon else begin
            except ValueError:
                otherwise = f"one of {', '.join(rules)}" if rules else "a range such as 1:5"
                raise typer.BadParameter(f"{part!r} is neither a whole number nor {otherwise}") from None
            if not 1 <= begin <= end:
                raise typer.BadParameter(f"{text!r} must be at least 1, and a range must ascend, as in 1:5")
            if end - begin >= _LONGEST:
                raise typer.BadParameter(f"{text!r} is a range of more than {_LONGEST} numbers")
            values += range(begin, end + 1)
        return tuple(dict.fromkeys(values))

    return parse


def choice(*words: str, several: bool = False) -> Callable[[str], Any]:
    """A parser that accepts only these words, or several of them with commas.

    Examples
    --------
    >>> choice("pdf", "png")("png"), choice("pdf", "png", several=True)("png,pdf")
    ('png', ('png', 'pdf'))
    """

    def parse(text: str) -> Any:
        parts = [part.strip() for part in text.split(",")] if several else [text]
        for part in parts:
            if part not in words:
                raise typer.BadParameter(f"{part!r} is not one of {', '.join(words)}")
        return tuple(dict.fromkeys(parts)) if several else text

    return parse


def path(text: str) -> Path:
    """A path; an empty one would be the working folder."""
    if not text:
        raise typer.BadParameter("the name is empty")
    return Path(text)


def option(help: str, *names: str, **settings: Any) -> Any:
    """An option with its help."""
    return typer.Option(*names, help=help, **settings)


FileArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="csv, tsv (also .gz), parquet, arrow, feather, xlsx, npy or h5ad; - is standard input.",
        show_default=False,
    ),
]
ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="The model.blockmix of an earlier command.", show_default=False)
]
FittedArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[FILE]", help="The table that was fitted; by default the one that the summary beside the model names."
    ),
]
LabelOption = Annotated[
    str | None, option("Column of known classes: not fitted, but compared with the clusters.", metavar="COL")
]
TopVarianceOption = Annotated[
    int | None,
    option(
        "Keep only the N columns of largest variance, as measured in the file: for very wide tables in one unit.",
        min=1,
        metavar="N",
    ),
]
SeedOption = Annotated[
    int, option("Random seed; the same seed gives the same result.", min=0, max=2**32 - 1, metavar="N")
]
RawTextOption = Annotated[
    bool,
    option("Write texts that begin with = + - @ to csv as they are, without a disarming apostrophe.", "--raw-text"),
]


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How a file is read."""

    columns: Annotated[
        list[str] | None,
        option("Use only columns whose names match, such as 'x*'. Can be repeated.", metavar="PATTERN"),
    ] = None
    exclude: Annotated[
        list[str] | None,
        option("Leave out columns whose names match, such as '*_id'. Can be repeated.", metavar="PATTERN"),
    ] = None
    drop: Annotated[list[str] | None, option("Leave this column out. Can be repeated.", metavar="COL")] = None
    drop_missing: Annotated[bool, option("Leave out rows with missing or infinite values.", "--drop-missing")] = False
    missing: Annotated[
        list[str] | None, option("A cell that means a missing value, such as '?'. Can be repeated.", metavar="TEXT")
    ] = None
    encoding: Annotated[
        str | None, option("Encoding of a text file, such as latin-1; UTF-8 by default.", metavar="NAME")
    ] = None
    header: Annotated[
        bool | None,
        option("Whether the first row holds the column names; recognized by default.", "--header/--no-header"),
    ] = None
    layer: Annotated[str | None, option("Layer of an h5ad file; X by default.", metavar="NAME")] = None


@dataclass(frozen=True, kw_only=True)
class WritingOptions:
    """Where the results go."""

    out: Annotated[Any, option("Folder for the results; created if needed.", parser=path, metavar="DIR")] = None
    raw_text: RawTextOption = False
    json: Annotated[bool, option("Print the summary as JSON, for programs, instead of text.", "--json")] = False


@dataclass(frozen=True, kw_only=True)
class MoreOptions:
    """Results on request."""

    figures: Annotated[
        Any,
        option(
            "Write figures for a paper: pdf, svg, png, or several of them, as in pdf,png.",
            parser=choice("pdf", "svg", "png", several=True),
            metavar="FORMATS",
        ),
    ] = None
    stability: Annotated[
        bool,
        option("Measure how often groups and clusters come back when rows are reweighted at random.", "--stability"),
    ] = False
    resamples: Annotated[int, option("Resamples of --stability for column groups.", min=1, metavar="N")] = 100
    refits: Annotated[int, option("Resamples of --stability for row clusters.", min=0, metavar="N")] = 25


@dataclass(frozen=True, kw_only=True)
class MixtureOptions(MoreOptions, ReadingOptions, WritingOptions):
    """The mixture that is fitted, or the candidates that are compared."""

    file: FileArgument
    label: LabelOption = None
    components: Annotated[
        Any, option("Number of row clusters; several are compared.", parser=numbers(), metavar="N|A:B")
    ] = "1:5"
    groups: Annotated[
        Any,
        option(
            f"Number of column groups, or a rule that chooses it: {', '.join(RULES)}; several are compared.",
            parser=numbers(*RULES),
            metavar="N|RULE",
        ),
    ] = "auto"
    shared: Annotated[
        bool, option("One partition of the columns, and one covariance, for all clusters.", "--shared")
    ] = False
    compare_shared: Annotated[
        bool, option("Compare covariances of each cluster with a shared one.", "--compare-shared")
    ] = False
    tails: Annotated[
        Any,
        option(
            "Tails of the clusters: normal, or t, which holds up against outliers; normal,t compares both.",
            parser=choice("normal", "t", several=True),
            metavar="KIND",
        ),
    ] = "normal"
    criterion: Annotated[
        Any,
        option(f"Criterion of the comparison: {', '.join(CRITERIA)}.", parser=choice(*CRITERIA), metavar="NAME"),
    ] = "bic"
    jobs: Annotated[int | None, option("Number of candidates fitted at the same time.", min=1, metavar="N")] = None
    scale: Annotated[
        bool, option("Standardize the columns. The clusters do not depend on it; means and BIC do.", "--scale")
    ] = False
    seed: SeedOption = 0
    init: Annotated[Any, option(f"Kind of start: {', '.join(STARTS)}.", parser=choice(*STARTS), metavar="KIND")] = (
        "auto"
    )
    n_init: Annotated[int, option("Number of starts; the best is kept.", "--starts", min=1, metavar="N")] = 1
    shrinkage: Annotated[
        float | None,
        option("From 0 to 1: shrinks covariances towards the diagonal; for few rows.", min=0, max=0.99, metavar="A"),
    ] = None
    max_iter: Annotated[int, option("Maximum number of iterations of a start.", min=1, metavar="N")] = 200
    top_variance: TopVarianceOption = None
    checkpoint: Annotated[
        Any,
        option(
            "Keep the state of the fit in this file; the same command resumes it if it was killed.",
            parser=path,
            metavar="FILE",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class CovarianceOptions(MoreOptions, ReadingOptions, WritingOptions):
    """The covariance that is estimated."""

    file: FileArgument
    groups: Annotated[
        Any,
        option(f"Number of groups, or a rule: {', '.join(RULES)}.", parser=numbers(*RULES), metavar="N|RULE"),
    ] = "auto"
    shrinkage: Annotated[
        float | None,
        option("From 0 to 1: shrinks the covariance towards the diagonal; for few rows.", min=0, max=1, metavar="A"),
    ] = None
    top_variance: TopVarianceOption = None


@dataclass(frozen=True, kw_only=True)
class TopicOptions(ReadingOptions, WritingOptions):
    """The topics that are looked for."""

    file: FileArgument
    text: Annotated[str, option("Column of texts.", metavar="COL", show_default=False)]
    rating: Annotated[
        str | None, option("Column of ratings, which select the words and order the topics.", metavar="COL")
    ] = None
    topics: Annotated[
        Any,
        option(
            "Number of topics; several are compared by coherence and BIC.",
            "--topics",
            "--n-topics",
            parser=numbers(),
            metavar="N|A:B",
        ),
    ] = "5"
    groups: Annotated[int, option("Number of word groups; 15 or more.", min=1, metavar="N")] = 20
    words: Annotated[int, option("Number of words to keep.", min=1, metavar="N")] = 400
    stop_words: Annotated[str, option("Words to leave out: english, none, or a file of words.", metavar="WORDS")] = (
        "english"
    )
    ngrams: Annotated[int, option("Also count phrases of up to N words.", min=1, max=5, metavar="N")] = 1
    seed: SeedOption = 0


@dataclass(frozen=True, kw_only=True)
class PredictOptions(ReadingOptions, WritingOptions):
    """A saved model and new rows."""

    model: ModelArgument
    file: FileArgument
    label: LabelOption = None
    text: Annotated[str | None, option("Column of texts, for a model of topics.", metavar="COL")] = None


@dataclass(frozen=True, kw_only=True)
class ImputeOptions(ReadingOptions):
    """A saved model and a table with missing values."""

    model: ModelArgument
    file: FileArgument
    out: Annotated[
        Any, option("The completed table; FILE with -imputed.csv at its end by default.", parser=path, metavar="CSV")
    ] = None
    raw_text: RawTextOption = False


@dataclass(frozen=True, kw_only=True)
class ReportOptions(ReadingOptions):
    """A saved model and the table it was fitted to."""

    model: ModelArgument
    file: FittedArgument = None
    label: LabelOption = None
    out: Annotated[Any, option("The page; report.html beside the model by default.", parser=path, metavar="PAGE")] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class StabilityOptions(ReadingOptions, WritingOptions):
    """A saved model, the table it was fitted to, and how often that is resampled."""

    model: ModelArgument
    file: FittedArgument = None
    resamples: Annotated[int, option("Resamples for column groups.", min=1, metavar="N")] = 100
    refits: Annotated[int, option("Resamples for row clusters, which are fitted again.", min=0, metavar="N")] = 25
    units: Annotated[
        str | None, option("Column of what rows depend on, such as patients: its rows share a weight.", metavar="COL")
    ] = None
    seed: SeedOption = 0


def parameters(kind: type) -> list[inspect.Parameter]:
    """The fields of a class of options as parameters of a function, its own before those of its groups."""
    hints = get_type_hints(kind, include_extras=True)
    names = [name for part in kind.__mro__ for name in inspect.get_annotations(part)]
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, keyword, default=getattr(kind, name, inspect.Parameter.empty), annotation=hints[name])
        for name in names
    ]
