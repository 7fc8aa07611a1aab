"""Options of the commands: one dataclass per command, made of the groups that commands share.

A field is declared once, as an option of Typer; `app` makes the fields the parameters of a command. The few that a
newcomer needs are marked; the help lists the others as advanced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

# Copies of the library's names: importing them would import NumPy, and slow down `blockmix --help`.
RULES = ("auto", "silhouette")
Criterion = Literal["bic", "icl", "aic"]
_LONGEST = 1_000_000  # numbers in a range


def option(help: str, metavar: str | None = None, *names: str, basic: bool = False, **settings: Any) -> Any:
    """An option of Typer called like its field, or by `names`; the help lists it as advanced unless it is `basic`."""
    declared = typer.Option(help=help, metavar=metavar, rich_help_panel=None if basic else "Advanced", **settings)
    declared.param_decls = names
    return declared


def parse(text: str, words: Sequence[str] = (), numbers: bool = True) -> tuple[Any, ...]:
    """The words and numbers of an option: "3", "1:5" (with both ends), "2,4,8", "auto,4" or "pdf,png".

    Examples
    --------
    >>> parse("auto,2:3", ("auto",))
    ('auto', 2, 3)
    """
    values: list[Any] = []
    for part in text.split(","):
        first, colon, last = part.partition(":")
        if part in words:
            values.append(part)
        elif not numbers or not (first.isdecimal() and (last.isdecimal() or not colon)):
            choices = [*(["whole numbers", "ranges such as 1:5"] if numbers else []), *words]
            raise typer.BadParameter(f"{part!r} is not one of {', '.join(choices)}")
        elif not 1 <= int(first) <= int(last or first) < int(first) + _LONGEST:
            raise typer.BadParameter(f"{text!r} must be at least 1, and a range must ascend, as in 1:5")
        else:
            values += range(int(first), int(last or first) + 1)
    return tuple(dict.fromkeys(values))


SEED = option("Random seed; the same seed gives the same result.", "N", min=0, max=2**32 - 1)
LABEL = option("Column of known classes: not fitted, but compared with the clusters.", "COL", basic=True)
APPEND = option("Write the whole table with the cluster, probability and group scores of each row.", basic=True)
_GROUPS = partial(parse, words=RULES)
GROUPS = option(f"Number of column groups, or a rule: {', '.join(RULES)}.", "N|RULE", parser=_GROUPS)
SHRINKAGE = option("Shrinks covariances towards the diagonal; for few rows.", "A", min=0, max=0.99)
TOP_VARIANCE = option("Keep only the N columns of largest variance in the units of the file.", "N", min=1)
_KINDS = "csv, tsv (also .gz), parquet, arrow, feather, xlsx, npy or h5ad; - is standard input."
FILE = typer.Argument(metavar="FILE", show_default=False, help=_KINDS)
MODEL = typer.Argument(metavar="MODEL", show_default=False, help="The model.blockmix of an earlier command.")
DROP = option("Leave out columns that match, as '*_id'. Can be repeated.", "COL", basic=True)
MISSING = option("A cell that means a missing value, such as '?'. Can be repeated.", "TEXT", basic=True)
HEADER = option("Whether the first row has the column names; recognized by default.", None, "--header/--no-header")
TRAITS = option("Table of further columns, a line per row, to relate to clusters and scores.", "FILE")
_FORMATS = partial(parse, words=("pdf", "svg", "png"), numbers=False)
FIGURES = option("Write figures for a paper, as in pdf,png.", "FORMATS", parser=_FORMATS, basic=True)
STABILITY = option("Measure how often groups and clusters come back when rows are reweighted.")
UNITS = option("Column of what rows belong to, such as patients, which --stability resamples.", "COL")
COMPONENTS = option("Number of row clusters; several are compared.", "N|A:B", parser=parse, basic=True)
SHARED = option("One covariance for all clusters; without it both kinds are compared by --components A:B.")
TAILS = option("Tails of the clusters: normal, or t, which holds up against outliers.", "KIND")
CHECKPOINT = option("Keep the state of the fit in this file; the same command resumes a killed fit.", "FILE")
RATING = option("Column of ratings, or none; by default one that is called so and has few values.", "COL", basic=True)
BY = option("Column of categories, dates or numbers to show the topics by.", "COL", basic=True)
TOPICS = option("Number of topics; several are compared.", "N|A:B", parser=parse, basic=True)
Text = str | None
Texts = list[str] | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ReadingOptions:
    """How a file is read."""

    columns: Annotated[Texts, option("Use only columns that match, as 'x*'. Can be repeated.", "PATTERN")] = None
    drop: Annotated[Texts, DROP] = None
    keep: Annotated[Texts, option("Use this column although it looks like ids. Can be repeated.", "COL")] = None
    drop_missing: Annotated[bool, option("Leave out rows with missing or infinite values.")] = False
    missing: Annotated[Texts, MISSING] = None
    encoding: Annotated[Text, option("Encoding of a text file, such as latin-1; UTF-8 by default.", "NAME")] = None
    header: Annotated[bool | None, HEADER] = None
    layer: Annotated[str | None, option("Layer of an h5ad file; X by default.", "NAME")] = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WritingOptions:
    """Where the results go."""

    out: Annotated[Path | None, option("Folder for the results; created if needed.", "DIR", basic=True)] = None
    json: Annotated[bool, option("Print the summary as JSON, for programs, instead of text.")] = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FitOptions(ReadingOptions, WritingOptions):
    """A table, the numbers of column groups, and results on request."""

    file: Annotated[str, FILE]
    groups: Annotated[Any, GROUPS] = "auto"
    top_variance: Annotated[int | None, TOP_VARIANCE] = None
    traits: Annotated[Text, TRAITS] = None
    figures: Annotated[Any, FIGURES] = None
    stability: Annotated[bool, STABILITY] = False
    units: Annotated[Text, UNITS] = None
    resamples: Annotated[int, option("Resamples for column groups.", "N", min=1)] = 100
    refits: Annotated[int, option("Resamples for row clusters, which are fitted again.", "N", min=0)] = 25


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MixtureOptions(FitOptions):
    """The mixture that is fitted, or the candidates that are compared."""

    label: Annotated[Text, LABEL] = None
    components: Annotated[Any, COMPONENTS] = "1:5"
    append: Annotated[bool, APPEND] = False
    shared: Annotated[bool, SHARED] = False
    tails: Annotated[Literal["normal", "t"], TAILS] = "normal"
    criterion: Annotated[Criterion, option("Of a comparison: bic, icl, aic.", "NAME")] = "bic"
    seed: Annotated[int, SEED] = 0
    shrinkage: Annotated[float | None, SHRINKAGE] = None
    n_init: Annotated[int, option("Number of starts; the best is kept.", "N", "--starts", min=1)] = 1
    max_iter: Annotated[int, option("Maximum number of iterations of a start.", "N", min=1)] = 200
    checkpoint: Annotated[Path | None, CHECKPOINT] = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TopicOptions(ReadingOptions, WritingOptions):
    """The topics that are looked for."""

    file: Annotated[str, FILE]
    text: Annotated[Text, option("Column of texts; by default the one with the longest.", "COL", basic=True)] = None
    rating: Annotated[Text, RATING] = None
    by: Annotated[Text, BY] = None
    topics: Annotated[Any, TOPICS] = "3:8,10,12,15,20"
    groups: Annotated[int, option("Number of word groups; 15 or more.", "N", min=1)] = 25
    words: Annotated[int, option("Number of words to group.", "N", min=1)] = 1000
    stop_words: Annotated[str, option("Words to leave out: english, none, or a file of words.", "WORDS")] = "english"
    ngrams: Annotated[int, option("Also count phrases of up to N words.", "N", min=1, max=5)] = 1
    seed: Annotated[int, SEED] = 0


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PredictOptions(ReadingOptions):
    """A saved model and new rows."""

    model: Annotated[Path, MODEL]
    file: Annotated[str, FILE]
    label: Annotated[str | None, LABEL] = None
    text: Annotated[str | None, option("Column of texts, for a model of topics.", "COL")] = None
    out: Annotated[Path | None, option("Write to this csv file instead of printing.", "CSV", basic=True)] = None
    append: Annotated[bool, APPEND] = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ImputeOptions(ReadingOptions):
    """A saved model and a table with missing values."""

    model: Annotated[Path, MODEL]
    file: Annotated[str, FILE]
    out: Annotated[Path | None, option("The completed table; FILE-imputed.csv by default.", "CSV", basic=True)] = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ReplicateOptions(ReadingOptions):
    """A saved model and rows that it was not fitted to."""

    model: Annotated[Path, MODEL]
    file: Annotated[str, FILE]
    out: Annotated[Path | None, option("Also write the table of groups to this csv file.", "CSV", basic=True)] = None
    seed: Annotated[int, SEED] = 0


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PlanOptions:
    """A saved model, and the numbers of rows to try."""

    model: Annotated[Path, MODEL]
    rows: Annotated[Any, option("Numbers of rows to try.", "N,N", parser=parse, basic=True)] = "50,100,200,400"
    draws: Annotated[int, option("Tables that are drawn for each.", "N", min=1)] = 20
    seed: Annotated[int, SEED] = 0
