"""Options of the commands: one dataclass per command, made of the groups that commands share.

`parameters` turns the fields of such a class into parameters that Typer reads, so that an option is written once.
Field by field: the help, the name of the value in the help, and how its text is read.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

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


@dataclass(frozen=True)
class Option:
    """An option as it is declared: its help, the name of its value, its parser, and whatever else Typer takes."""

    help: str
    metavar: str | None = None
    parser: Callable[[str], Any] | None = None
    names: tuple[str, ...] = ()
    limits: dict[str, Any] = field(default_factory=dict)


COUNT, SIZE = {"min": 1}, {"min": 0}  # limits of numbers
SEED = Option("Random seed; the same seed gives the same result.", "N", limits={"min": 0, "max": 2**32 - 1})
LABEL = Option("Column of known classes: not fitted, but compared with the clusters.", "COL")
TOP_VARIANCE = Option(
    "Keep only the N columns of largest variance, as measured in the file: for very wide tables in one unit.",
    "N",
    limits=COUNT,
)
RAW_TEXT = Option("Write texts that begin with = + - @ to csv as they are, without a disarming apostrophe.")

_FILE_HELP = "csv, tsv (also .gz), parquet, arrow, feather, xlsx, npy or h5ad; - is standard input."
_FITTED_HELP = "The table that was fitted; by default the one that the summary beside the model names."
_MODEL_HELP = "The model.blockmix of an earlier command."
FileArgument = Annotated[str, typer.Argument(metavar="FILE", help=_FILE_HELP, show_default=False)]
ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help=_MODEL_HELP, show_default=False)]
FittedArgument = Annotated[str | None, typer.Argument(metavar="[FILE]", help=_FITTED_HELP)]
Texts = list[str] | None


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How a file is read."""

    columns: Annotated[
        Texts, Option("Use only columns whose names match, as 'x*' does. Can be repeated.", "PATTERN")
    ] = None
    exclude: Annotated[Texts, Option("Leave out columns whose names match, as '*_id'. Can be repeated.", "PATTERN")] = (
        None
    )
    drop: Annotated[Texts, Option("Leave this column out. Can be repeated.", "COL")] = None
    drop_missing: Annotated[bool, Option("Leave out rows with missing or infinite values.")] = False
    missing: Annotated[Texts, Option("A cell that means a missing value, such as '?'. Can be repeated.", "TEXT")] = None
    encoding: Annotated[str | None, Option("Encoding of a text file, such as latin-1; UTF-8 by default.", "NAME")] = (
        None
    )
    header: Annotated[
        bool | None,
        Option("Whether the first row holds the column names; recognized by default.", names=("--header/--no-header",)),
    ] = None
    layer: Annotated[str | None, Option("Layer of an h5ad file; X by default.", "NAME")] = None


@dataclass(frozen=True, kw_only=True)
class WritingOptions:
    """Where the results go."""

    out: Annotated[Any, Option("Folder for the results; created if needed.", "DIR", path)] = None
    raw_text: Annotated[bool, RAW_TEXT] = False
    json: Annotated[bool, Option("Print the summary as JSON, for programs, instead of text.")] = False


@dataclass(frozen=True, kw_only=True)
class MoreOptions:
    """Results on request."""

    figures: Annotated[
        Any, Option("Write figures for a paper, as in pdf,png.", "FORMATS", choice("pdf", "svg", "png", several=True))
    ] = None
    stability: Annotated[bool, Option("Measure how often groups and clusters come back when rows are reweighted.")] = (
        False
    )
    resamples: Annotated[int, Option("Resamples of --stability for column groups.", "N", limits=COUNT)] = 100
    refits: Annotated[int, Option("Resamples of --stability for row clusters.", "N", limits=SIZE)] = 25


@dataclass(frozen=True, kw_only=True)
class MixtureOptions(MoreOptions, ReadingOptions, WritingOptions):
    """The mixture that is fitted, or the candidates that are compared."""

    file: FileArgument
    label: Annotated[str | None, LABEL] = None
    components: Annotated[Any, Option("Number of row clusters; several are compared.", "N|A:B", numbers())] = "1:5"
    groups: Annotated[
        Any, Option(f"Number of column groups, or a rule: {', '.join(RULES)}.", "N|RULE", numbers(*RULES))
    ] = "auto"
    shared: Annotated[bool, Option("One partition of the columns, and one covariance, for all clusters.")] = False
    compare_shared: Annotated[bool, Option("Compare covariances of each cluster with a shared one.")] = False
    tails: Annotated[
        Any,
        Option(
            "Tails of the clusters: normal, or t, which holds up against outliers; normal,t compares both.",
            "KIND",
            choice("normal", "t", several=True),
        ),
    ] = "normal"
    criterion: Annotated[Any, Option(f"Of a comparison: {', '.join(CRITERIA)}.", "NAME", choice(*CRITERIA))] = "bic"
    scale: Annotated[bool, Option("Standardize the columns. The clusters do not depend on it; means and BIC do.")] = (
        False
    )
    seed: Annotated[int, SEED] = 0
    init: Annotated[Any, Option(f"Kind of start: {', '.join(STARTS)}.", "KIND", choice(*STARTS))] = "auto"
    n_init: Annotated[int, Option("Number of starts; the best is kept.", "N", names=("--starts",), limits=COUNT)] = 1
    shrinkage: Annotated[
        float | None,
        Option("Shrinks covariances towards the diagonal; for few rows.", "A", limits={"min": 0, "max": 0.99}),
    ] = None
    max_iter: Annotated[int, Option("Maximum number of iterations of a start.", "N", limits=COUNT)] = 200
    top_variance: Annotated[int | None, TOP_VARIANCE] = None
    checkpoint: Annotated[
        Any, Option("Keep the state of the fit in this file; the same command resumes a killed fit.", "FILE", path)
    ] = None


@dataclass(frozen=True, kw_only=True)
class CovarianceOptions(MoreOptions, ReadingOptions, WritingOptions):
    """The covariance that is estimated."""

    file: FileArgument
    groups: Annotated[Any, Option(f"Number of groups, or a rule: {', '.join(RULES)}.", "N|RULE", numbers(*RULES))] = (
        "auto"
    )
    shrinkage: Annotated[
        float | None,
        Option("Shrinks the covariance towards the diagonal; for few rows.", "A", limits={"min": 0, "max": 1}),
    ] = None
    top_variance: Annotated[int | None, TOP_VARIANCE] = None


@dataclass(frozen=True, kw_only=True)
class TopicOptions(ReadingOptions, WritingOptions):
    """The topics that are looked for."""

    file: FileArgument
    text: Annotated[str, Option("Column of texts.", "COL")]
    rating: Annotated[str | None, Option("Column of ratings, which select the words and order the topics.", "COL")] = (
        None
    )
    topics: Annotated[
        Any,
        Option("Number of topics; several are compared.", "N|A:B", numbers(), ("--topics", "--n-topics")),
    ] = "5"
    groups: Annotated[int, Option("Number of word groups; 15 or more.", "N", limits=COUNT)] = 20
    words: Annotated[int, Option("Number of words to keep.", "N", limits=COUNT)] = 400
    stop_words: Annotated[str, Option("Words to leave out: english, none, or a file of words.", "WORDS")] = "english"
    ngrams: Annotated[int, Option("Also count phrases of up to N words.", "N", limits={"min": 1, "max": 5})] = 1
    seed: Annotated[int, SEED] = 0


@dataclass(frozen=True, kw_only=True)
class PredictOptions(ReadingOptions, WritingOptions):
    """A saved model and new rows."""

    model: ModelArgument
    file: FileArgument
    label: Annotated[str | None, LABEL] = None
    text: Annotated[str | None, Option("Column of texts, for a model of topics.", "COL")] = None


@dataclass(frozen=True, kw_only=True)
class ImputeOptions(ReadingOptions):
    """A saved model and a table with missing values."""

    model: ModelArgument
    file: FileArgument
    out: Annotated[Any, Option("The completed table; FILE with -imputed.csv at its end by default.", "CSV", path)] = (
        None
    )
    raw_text: Annotated[bool, RAW_TEXT] = False


@dataclass(frozen=True, kw_only=True)
class ReportOptions(ReadingOptions):
    """A saved model and the table it was fitted to."""

    model: ModelArgument
    file: FittedArgument = None
    label: Annotated[str | None, LABEL] = None
    out: Annotated[Any, Option("The page; report.html beside the model by default.", "PAGE", path)] = None


@dataclass(frozen=True, kw_only=True)
class StabilityOptions(ReadingOptions, WritingOptions):
    """A saved model, the table it was fitted to, and how often that is resampled."""

    model: ModelArgument
    file: FittedArgument = None
    resamples: Annotated[int, Option("Resamples for column groups.", "N", limits=COUNT)] = 100
    refits: Annotated[int, Option("Resamples for row clusters, which are fitted again.", "N", limits=SIZE)] = 25
    units: Annotated[
        str | None, Option("Column of what rows depend on, such as patients: its rows share a weight.", "COL")
    ] = None
    seed: Annotated[int, SEED] = 0


def parameters(kind: type) -> list[inspect.Parameter]:
    """The fields of a class of options as parameters of a function, its own before those of its groups."""
    hints, found = get_type_hints(kind, include_extras=True), []
    for name in [name for part in kind.__mro__ for name in inspect.get_annotations(part)]:
        type_, declared = get_args(hints[name])
        if isinstance(declared, Option):
            # A flag has no --no-flag unless it says so.
            names = declared.names or (f"--{name.replace('_', '-')}",)
            settings = {"metavar": declared.metavar, "parser": declared.parser, **declared.limits}
            declared = typer.Option(*names, help=declared.help, **settings)
        default = getattr(kind, name, inspect.Parameter.empty)
        keyword = inspect.Parameter.KEYWORD_ONLY
        found.append(inspect.Parameter(name, keyword, default=default, annotation=Annotated[type_, declared]))
    return found
