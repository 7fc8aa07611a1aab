"""Options of the commands: one dataclass per command, made of the groups that commands share.

A field is declared once, with its help, the name of its value in the help, and what its text may be; `app` turns the
fields into parameters of Typer. The few that a newcomer needs are marked; the help lists the others as advanced.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

# Copies of the library's names: importing them would import NumPy, and slow down `blockmix --help`.
RULES = ("auto", "silhouette")
CRITERIA = ("bic", "icl", "aic")


@dataclass(frozen=True, eq=False, repr=False)
class Option:
    """An option as it is declared.

    Attributes
    ----------
    help, metavar : str
        Its help, and the name of its value there.
    words : tuple of str
        The words that it accepts.
    many : bool
        Whether it accepts several words with commas.
    numbers : bool
        Whether it accepts whole numbers and ranges such as 1:5 as well; then there may be several.
    names : tuple of str
        Its names, if it is not called like the field.
    limits : dict
        The limits of a number.
    argument : bool
        Whether it is an argument, without a name.
    basic : bool
        Whether a newcomer may need it.
    """

    help: str
    metavar: str | None = None
    words: tuple[str, ...] = ()
    many: bool = False
    numbers: bool = False
    names: tuple[str, ...] = ()
    limits: dict[str, Any] = field(default_factory=dict)
    argument: bool = False
    basic: bool = False


COUNT = {"min": 1}  # limits of a number
SEED = Option("Random seed; the same seed gives the same result.", "N", limits={"min": 0, "max": 2**32 - 1})
LABEL = Option("Column of known classes: not fitted, but compared with the clusters.", "COL", basic=True)
APPEND = Option("Write the whole table with the cluster, probability and group scores of each row.", basic=True)
GROUPS = Option(f"Number of column groups, or a rule: {', '.join(RULES)}.", "N|RULE", RULES, numbers=True)
SHRINKAGE = Option("Shrinks covariances towards the diagonal; for few rows.", "A", limits={"min": 0, "max": 0.99})
TOP_VARIANCE = Option("Keep only the N columns of largest variance in the units of the file.", "N", limits=COUNT)
FILE = Option(
    "csv, tsv (also .gz), parquet, arrow, feather, xlsx, npy or h5ad; - is standard input.", "FILE", argument=True
)
MODEL = Option("The model.blockmix of an earlier command.", "MODEL", argument=True)
MISSING = Option("A cell that means a missing value, such as '?'. Can be repeated.", "TEXT", basic=True)
HEADER = Option("Whether the first row has the column names; recognized by default.", names=("--header/--no-header",))
TRAITS = Option("Table of further columns, a line per row, to relate to clusters and scores.", "FILE")
FIGURES = Option("Write figures for a paper, as in pdf,png.", "FORMATS", ("pdf", "svg", "png"), many=True, basic=True)
STABILITY = Option("Measure how often groups and clusters come back when rows are reweighted.")
UNITS = Option("Column of what rows belong to, such as patients, which --stability resamples.", "COL")
COMPONENTS = Option("Number of row clusters; several are compared.", "N|A:B", numbers=True, basic=True)
SHARED = Option("One covariance for all clusters; without it both kinds are compared by --components A:B.")
TAILS = Option("Tails of the clusters: normal, or t, which holds up against outliers.", "KIND", ("normal", "t"))
CHECKPOINT = Option("Keep the state of the fit in this file; the same command resumes a killed fit.", "FILE")
RATING = Option("Column of ratings, or none; by default one that is called so and has few values.", "COL", basic=True)
BY = Option("Column of categories, dates or numbers to show the topics by.", "COL", basic=True)
TOPICS = Option("Number of topics; several are compared.", "N|A:B", numbers=True, basic=True)
Text = str | None
Texts = list[str] | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ReadingOptions:
    """How a file is read."""

    columns: Annotated[Texts, Option("Use only columns that match, as 'x*'. Can be repeated.", "PATTERN")] = None
    drop: Annotated[Texts, Option("Leave out columns that match, as '*_id'. Can be repeated.", "COL", basic=True)] = (
        None
    )
    keep: Annotated[Texts, Option("Use this column although it looks like ids. Can be repeated.", "COL")] = None
    drop_missing: Annotated[bool, Option("Leave out rows with missing or infinite values.")] = False
    missing: Annotated[Texts, MISSING] = None
    encoding: Annotated[Text, Option("Encoding of a text file, such as latin-1; UTF-8 by default.", "NAME")] = None
    header: Annotated[bool | None, HEADER] = None
    layer: Annotated[str | None, Option("Layer of an h5ad file; X by default.", "NAME")] = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WritingOptions:
    """Where the results go."""

    out: Annotated[Path | None, Option("Folder for the results; created if needed.", "DIR", basic=True)] = None
    json: Annotated[bool, Option("Print the summary as JSON, for programs, instead of text.")] = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FitOptions(ReadingOptions, WritingOptions):
    """A table, the numbers of column groups, and results on request."""

    file: Annotated[str, FILE]
    groups: Annotated[Any, GROUPS] = "auto"
    shrinkage: Annotated[float | None, SHRINKAGE] = None
    top_variance: Annotated[int | None, TOP_VARIANCE] = None
    traits: Annotated[Text, TRAITS] = None
    figures: Annotated[Any, FIGURES] = None
    stability: Annotated[bool, STABILITY] = False
    units: Annotated[Text, UNITS] = None
    resamples: Annotated[int, Option("Resamples for column groups.", "N", limits=COUNT)] = 100
    refits: Annotated[int, Option("Resamples for row clusters, which are fitted again.", "N", limits={"min": 0})] = 25


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MixtureOptions(FitOptions):
    """The mixture that is fitted, or the candidates that are compared."""

    label: Annotated[Text, LABEL] = None
    components: Annotated[Any, COMPONENTS] = "1:5"
    append: Annotated[bool, APPEND] = False
    shared: Annotated[bool, SHARED] = False
    tails: Annotated[Any, TAILS] = "normal"
    criterion: Annotated[Any, Option(f"Of a comparison: {', '.join(CRITERIA)}.", "NAME", CRITERIA)] = "bic"
    seed: Annotated[int, SEED] = 0
    n_init: Annotated[int, Option("Number of starts; the best is kept.", "N", names=("--starts",), limits=COUNT)] = 1
    max_iter: Annotated[int, Option("Maximum number of iterations of a start.", "N", limits=COUNT)] = 200
    checkpoint: Annotated[Path | None, CHECKPOINT] = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TopicOptions(ReadingOptions, WritingOptions):
    """The topics that are looked for."""

    file: Annotated[str, FILE]
    text: Annotated[Text, Option("Column of texts; by default the one with the longest.", "COL", basic=True)] = None
    rating: Annotated[Text, RATING] = None
    by: Annotated[Text, BY] = None
    topics: Annotated[Any, TOPICS] = "3:8,10,12,15,20"
    groups: Annotated[int, Option("Number of word groups; 15 or more.", "N", limits=COUNT)] = 25
    words: Annotated[int, Option("Number of words to group.", "N", limits=COUNT)] = 1000
    stop_words: Annotated[str, Option("Words to leave out: english, none, or a file of words.", "WORDS")] = "english"
    ngrams: Annotated[int, Option("Also count phrases of up to N words.", "N", limits={"min": 1, "max": 5})] = 1
    seed: Annotated[int, SEED] = 0


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PredictOptions(ReadingOptions):
    """A saved model and new rows."""

    model: Annotated[Path, MODEL]
    file: Annotated[str, FILE]
    label: Annotated[str | None, LABEL] = None
    text: Annotated[str | None, Option("Column of texts, for a model of topics.", "COL")] = None
    out: Annotated[Path | None, Option("Write to this csv file instead of printing.", "CSV", basic=True)] = None
    append: Annotated[bool, APPEND] = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ImputeOptions(ReadingOptions):
    """A saved model and a table with missing values."""

    model: Annotated[Path, MODEL]
    file: Annotated[str, FILE]
    out: Annotated[Path | None, Option("The completed table; FILE-imputed.csv by default.", "CSV", basic=True)] = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ReplicateOptions(ReadingOptions):
    """A saved model and rows that it was not fitted to."""

    model: Annotated[Path, MODEL]
    file: Annotated[str, FILE]
    out: Annotated[Path | None, Option("Also write the table of groups to this csv file.", "CSV", basic=True)] = None
    seed: Annotated[int, SEED] = 0


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PlanOptions:
    """A saved model, and the numbers of rows to try."""

    model: Annotated[Path, MODEL]
    rows: Annotated[Any, Option("Numbers of rows to try.", "N,N", numbers=True, basic=True)] = "50,100,200,400"
    draws: Annotated[int, Option("Tables that are drawn for each.", "N", limits=COUNT)] = 20
    seed: Annotated[int, SEED] = 0
