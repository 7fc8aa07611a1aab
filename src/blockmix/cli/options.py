"""The options of the commands, in groups that several commands share.

Each group is a dataclass; `takes` turns its fields into options of a command and passes the filled group to it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from math import prod
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

# Copies of the library's names: importing them would import NumPy, and slow down `blockmix --help`.
RULES = ("auto", "optimal", "chance", "silhouette", "bic")
STARTS = ("auto", "kmeans", "kmeans++", "random", "whitened", "hierarchical", "annealed", "portfolio")
CRITERIA = ("bic", "icl", "aic")
TAILS = ("normal", "t")
FIGURES = ("pdf", "svg", "png")
_LONGEST = 1_000_000  # numbers in a range


def counts(text: str) -> tuple[int, ...]:
    """Whole numbers: "3", "1:5" (with both ends) or "2,4,8".

    Examples
    --------
    >>> counts("1:5"), counts("3"), counts("2,4,8")
    ((1, 2, 3, 4, 5), (3,), (2, 4, 8))
    """
    found: list[int] = []
    for part in text.split(","):
        first, colon, last = part.partition(":")
        try:
            begin = int(first)
            end = int(last) if colon else begin
        except ValueError:
            raise typer.BadParameter(f"{text!r} is neither a whole number nor a range such as 1:5") from None
        if not 1 <= begin <= end:
            raise typer.BadParameter(f"{text!r} must be at least 1, and a range must ascend, as in 1:5")
        if end - begin >= _LONGEST:
            raise typer.BadParameter(f"{text!r} is a range of more than {_LONGEST} numbers")
        found += range(begin, end + 1)
    return tuple(dict.fromkeys(found))


def groups(text: str) -> tuple[int | str, ...]:
    """Numbers of column groups, or rules: "4", "auto", "2:6", "auto,4".

    Examples
    --------
    >>> groups("auto,2:3")
    ('auto', 2, 3)
    """
    found: list[int | str] = []
    for part in text.split(","):
        if part in RULES:
            found.append(part)
        elif part[:1].isdigit():
            found += counts(part)
        else:
            raise typer.BadParameter(f"{part!r} is neither a number of groups nor one of {', '.join(RULES)}")
    return tuple(found)


def tails(text: str) -> tuple[str, ...]:
    """Kinds of tails.

    Examples
    --------
    >>> tails("normal,t")
    ('normal', 't')
    """
    return tuple(dict.fromkeys(choice(*TAILS)(part.strip()) for part in text.split(",")))


def choice(*known: str) -> Callable[[str], str]:
    """A parser that accepts only these words."""

    def parse(text: str) -> str:
        if text not in known:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(known)}")
        return text

    return parse


def option(help: str, *names: str, **settings: Any) -> Any:
    """An option with its help."""
    return typer.Option(*names, help=help, **settings)


def examples(*lines: str) -> str:
    """The end of a help page; the backspace keeps its lines apart."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def path(text: str) -> Path:
    """A path; an empty one would be the working folder."""
    if not text:
        raise typer.BadParameter("the name is empty")
    return Path(text)


@dataclass(frozen=True)
class ReadingOptions:
    """How the file is read."""

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
        list[str] | None,
        option("A cell that means a missing value, such as '?'. Can be repeated.", metavar="TEXT"),
    ] = None
    encoding: Annotated[
        str | None, option("Encoding of a text file, such as latin-1; UTF-8 by default.", metavar="NAME")
    ] = None
    header: Annotated[
        bool | None,
        option("Whether the first row holds the column names; recognized by default.", "--header/--no-header"),
    ] = None
    layer: Annotated[str | None, option("Layer of an h5ad file; X by default.", metavar="NAME")] = None


RawTextOption = Annotated[
    bool,
    option("Write texts that begin with = + - @ to csv as they are, without a disarming apostrophe.", "--raw-text"),
]


@dataclass(frozen=True)
class WritingOptions:
    """Where the results go."""

    out: Annotated[Any, option("Folder for the results; created if needed.", parser=path, metavar="DIR")] = None
    raw_text: RawTextOption = False
    json: Annotated[bool, option("Print the summary as JSON, for programs, instead of text.", "--json")] = False


@dataclass(frozen=True)
class MixtureOptions:
    """The mixture that is fitted."""

    components: Annotated[
        Any,
        option("Number of row clusters; several are compared.", parser=counts, metavar="N|A:B"),
    ] = "1:5"
    groups: Annotated[
        Any,
        option(
            f"Number of column groups, or a rule that chooses it: {', '.join(RULES)}.", parser=groups, metavar="N|RULE"
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
            parser=tails,
            metavar="KIND",
        ),
    ] = "normal"
    scale: Annotated[
        bool,
        option("Standardize the columns. The clusters do not depend on it; means and BIC do.", "--scale"),
    ] = False
    seed: Annotated[
        int, option("Random seed; the same seed gives the same result.", min=0, max=2**32 - 1, metavar="N")
    ] = 0
    init: Annotated[Any, option(f"Kind of start: {', '.join(STARTS)}.", parser=choice(*STARTS), metavar="KIND")] = (
        "auto"
    )
    n_init: Annotated[int, option("Number of starts; the best is kept.", "--starts", min=1, metavar="N")] = 1
    shrinkage: Annotated[
        float | None,
        option("From 0 to 1: shrinks covariances towards the diagonal; for few rows.", min=0, max=0.99, metavar="A"),
    ] = None
    max_iter: Annotated[int, option("Maximum number of iterations of a start.", min=1, metavar="N")] = 200

    @property
    def kinds(self) -> dict[str, Any]:
        """Parameters of the estimator of which several values are compared."""
        shared = {"shared_covariance": [False, True]} if self.compare_shared else {}
        return shared | ({"tails": list(self.tails)} if len(self.tails) > 1 else {})

    @property
    def n_candidates(self) -> int:
        """Number of models that are compared; a shared covariance of one cluster is its own."""
        return len(self.components) * len(self.groups) * prod(map(len, self.kinds.values()))


@dataclass(frozen=True)
class TopicOptions:
    """The topics that are looked for."""

    topics: Annotated[
        Any,
        option(
            "Number of topics; several are compared by coherence and BIC.",
            "--topics",
            "--n-topics",
            parser=counts,
            metavar="N|A:B",
        ),
    ] = "5"
    groups: Annotated[int, option("Number of word groups; 15 or more.", min=1, metavar="N")] = 20
    words: Annotated[int, option("Number of words to keep.", min=1, metavar="N")] = 400
    stop_words: Annotated[str, option("Words to leave out: english, none, or a file of words.", metavar="WORDS")] = (
        "english"
    )
    ngrams: Annotated[int, option("Also count phrases of up to N words.", min=1, max=5, metavar="N")] = 1
    seed: Annotated[int, option("Random seed.", min=0, max=2**32 - 1, metavar="N")] = 0


def formats(text: str) -> tuple[str, ...]:
    """Formats of figures.

    Examples
    --------
    >>> formats("pdf,png")
    ('pdf', 'png')
    """
    return tuple(dict.fromkeys(choice(*FIGURES)(part.strip()) for part in text.split(",")))


@dataclass(frozen=True)
class MoreOptions:
    """Results on request."""

    figures: Annotated[
        Any,
        option(
            "Write figures for a paper: pdf, svg, png, or several of them, as in pdf,png.",
            parser=formats,
            metavar="FORMATS",
        ),
    ] = None
    stability: Annotated[
        bool, option("Measure how often groups and clusters come back when rows are weighed at random.", "--stability")
    ] = False
    resamples: Annotated[int, option("Random weighings of --stability for column groups.", min=1, metavar="N")] = 100
    refits: Annotated[int, option("Random weighings of --stability for row clusters.", min=0, metavar="N")] = 25


TopVarianceOption = Annotated[
    int | None,
    option(
        "Keep only the N columns of largest variance, as measured in the file: for very wide tables in one unit.",
        min=1,
        metavar="N",
    ),
]
CheckpointOption = Annotated[
    Any,
    option(
        "Keep the state of the fit in this file; the same command resumes it if it was killed.",
        parser=path,
        metavar="FILE",
    ),
]
LabelOption = Annotated[
    str | None, option("Column of known classes: not fitted, but compared with the clusters.", metavar="COL")
]


def takes(*kinds: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of some groups; the filled groups are its last arguments.

    Typer reads options from a signature. This one is assembled, so that an option is written once for all commands.
    """

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        parameters = inspect.signature(command, eval_str=True).parameters
        names = list(parameters)[-len(kinds) :]
        own = [parameter for name, parameter in parameters.items() if name not in names]
        options = [parameter for kind in kinds for parameter in _parameters(kind)]

        def run(**given: Any) -> None:
            filled = [kind(**{item.name: given.pop(item.name) for item in fields(kind)}) for kind in kinds]
            command(**given, **dict(zip(names, filled, strict=True)))

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        keyed = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        run.__signature__ = inspect.Signature([*keyed, *options])  # type: ignore[attr-defined]
        return run

    return wrap


@cache
def _parameters(kind: type) -> list[inspect.Parameter]:
    """The fields of a group of options as parameters of a function."""
    hints = get_type_hints(kind, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(item.name, keyword, default=item.default, annotation=hints[item.name])
        for item in fields(kind)
    ]
