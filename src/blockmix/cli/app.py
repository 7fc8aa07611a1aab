"""The commands, with their arguments and help.

The modules that do the work are imported when a command runs, so that the help appears at once.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import blockmix as package
from blockmix.cli.messages import errors_reported
from blockmix.cli.options import (
    CRITERIA,
    RULES,
    CheckpointOption,
    LabelOption,
    MixtureOptions,
    MoreOptions,
    RawTextOption,
    ReadingOptions,
    TopVarianceOption,
    WritingOptions,
    choice,
    examples,
    groups,
    option,
    path,
    takes,
)


class _Commands(TyperGroup):
    """The group of commands, which remembers the command line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.obj = shlex.join(["blockmix", *args])
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

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
        metavar="[FILE]",
        help="The table that was fitted; by default the one that the summary beside the model names.",
    ),
]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"blockmix {package.__version__}")
        raise typer.Exit


@app.callback()
def blockmix(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Which rows of a table belong together, and which columns move together in each row cluster.

    Start with blockmix fit FILE, or with blockmix demo.
    """


@app.command(
    epilog=examples(
        "blockmix fit wine.csv",
        "blockmix fit wine.csv --label type --out wine",
        "blockmix fit genes.tsv.gz --components 3 --groups 20 --shared --top-variance 5000",
        "zcat data.csv.gz | blockmix fit - --components 2:4 --json",
    )
)
@takes(MixtureOptions, MoreOptions, ReadingOptions, WritingOptions)
def fit(
    ctx: typer.Context,
    file: FileArgument,
    label: LabelOption = None,
    top_variance: TopVarianceOption = None,
    checkpoint: CheckpointOption = None,
    *,
    mixture: MixtureOptions,
    more: MoreOptions,
    reading: ReadingOptions,
    writing: WritingOptions,
) -> None:
    """Row clusters and column groups of a table.

    Uses all numeric columns, compares 1 to 5 row clusters by default, and writes the model, rows.csv (cluster of each
    row and its probability), columns.csv (group of each column in each cluster), summary.json and report.html into a
    folder named after FILE.
    """
    if checkpoint is not None and len(mixture.components) * len(mixture.groups) > 1:
        raise typer.BadParameter("it belongs to one fit: give one number with --components", param_hint="--checkpoint")
    _mixture(ctx, file, label, top_variance, (mixture, "bic", None, checkpoint), reading, writing, more)


@app.command(
    epilog=examples(
        "blockmix select wine.csv --components 1:6",
        "blockmix select wine.csv --components 2:4 --groups auto,2:6 --criterion icl",
        "blockmix select large.parquet --components 2,4,8,16 --jobs 4",
    )
)
@takes(MixtureOptions, ReadingOptions, WritingOptions)
def select(
    ctx: typer.Context,
    file: FileArgument,
    label: LabelOption = None,
    criterion: Annotated[
        Any,
        option(f"Criterion to minimize: {', '.join(CRITERIA)}.", parser=choice(*CRITERIA), metavar="NAME"),
    ] = "bic",
    jobs: Annotated[int | None, option("Number of fits that run at the same time.", min=1, metavar="N")] = None,
    top_variance: TopVarianceOption = None,
    *,
    mixture: MixtureOptions,
    reading: ReadingOptions,
    writing: WritingOptions,
) -> None:
    """Compare numbers of row clusters and of column groups.

    Like fit, with any list of candidates, other criteria and parallel fits. The comparison is printed and written to
    selection.csv; the other files describe the best model.
    """
    _mixture(ctx, file, label, top_variance, (mixture, criterion, jobs), reading, writing)


@app.command(
    epilog=examples(
        "blockmix covariance wine.csv",
        "blockmix covariance genes.parquet --groups 20 --shrinkage 0.2",
    )
)
@takes(MoreOptions, ReadingOptions, WritingOptions)
def covariance(
    ctx: typer.Context,
    file: FileArgument,
    n_groups: Annotated[
        Any,
        option(f"Number of groups, or a rule: {', '.join(RULES)}.", "--groups", parser=groups, metavar="N|RULE"),
    ] = "auto",
    shrinkage: Annotated[
        float | None,
        option("From 0 to 1: shrinks the covariance towards the diagonal; for few rows.", min=0, max=1, metavar="A"),
    ] = None,
    top_variance: TopVarianceOption = None,
    *,
    more: MoreOptions,
    reading: ReadingOptions,
    writing: WritingOptions,
) -> None:
    """Column groups of a table, without row clusters.

    Estimates one block-diagonal covariance, and writes the model, columns.csv (group of each column), summary.json and
    report.html.
    """
    if len(n_groups) > 1:
        raise typer.BadParameter("one number or one rule is needed here", param_hint="--groups")
    with errors_reported():
        from blockmix.cli.data import read_data
        from blockmix.cli.fitting import COVARIANCE_GAPS, fit_covariance
        from blockmix.cli.running import run

        run(
            "covariance",
            _folder(writing, file),
            lambda: read_data(file, reading, top_variance=top_variance, gaps=COVARIANCE_GAPS),
            lambda data: fit_covariance(data, n_groups[0], shrinkage),
            ctx.obj,
            writing,
            file,
            more=more,
        )


@app.command(
    epilog=examples(
        "blockmix topics reviews.csv --text review --rating stars",
        "blockmix topics reviews.csv --text review --topics 8 --groups 40 --out topics",
    )
)
@takes(ReadingOptions, WritingOptions)
def topics(
    ctx: typer.Context,
    file: FileArgument,
    text: Annotated[str, option("Column of texts.", metavar="COL", show_default=False)],
    rating: Annotated[
        str | None, option("Column of ratings, which select the words and order the topics.", metavar="COL")
    ] = None,
    n_topics: Annotated[int, option("Number of topics.", "--topics", min=1, metavar="N")] = 5,
    n_groups: Annotated[int, option("Number of word groups; 15 or more.", "--groups", min=1, metavar="N")] = 20,
    words: Annotated[int, option("Number of words to keep.", min=1, metavar="N")] = 400,
    seed: Annotated[int, option("Random seed.", min=0, max=2**32 - 1, metavar="N")] = 0,
    *,
    reading: ReadingOptions,
    writing: WritingOptions,
) -> None:
    """Topics of texts, and the groups of words that matter for each.

    Writes the model, rows.csv (topic of each text and its probability), columns.csv (group of each word), topics.csv
    and topics.png (importance of each group for each topic, in percent) and summary.json.
    """
    with errors_reported():
        from blockmix.cli.topics import fit_topics

        settings = {"n_topics": n_topics, "n_term_groups": n_groups, "n_selected_terms": words, "random_state": seed}
        fit_topics(file, text, rating, settings, reading, writing, _folder(writing, file), ctx.obj)


@app.command(
    epilog=examples(
        "blockmix predict wine-blockmix/model.blockmix new.csv",
        "blockmix predict wine-blockmix/model.blockmix new.csv --label type --out new",
    )
)
@takes(ReadingOptions, WritingOptions)
def predict(
    ctx: typer.Context,
    model: ModelArgument,
    file: FileArgument,
    label: LabelOption = None,
    text: Annotated[str | None, option("Column of texts, for a model of topics.", metavar="COL")] = None,
    *,
    reading: ReadingOptions,
    writing: WritingOptions,
) -> None:
    """Row clusters of new rows, from a saved model.

    Prints row, cluster and probability as csv, or writes predictions.csv and predictions.json with --out. Columns are
    matched by name, in any order.
    """
    with errors_reported():
        from blockmix.cli.predicting import predict_rows

        predict_rows(model, file, label, text, reading, writing, ctx.obj)


@app.command(
    epilog=examples(
        "blockmix impute survey-blockmix/model.blockmix survey.csv",
        "blockmix impute survey-blockmix/model.blockmix new.csv --out complete.csv",
    )
)
@takes(ReadingOptions)
def impute(
    ctx: typer.Context,
    model: ModelArgument,
    file: FileArgument,
    out: Annotated[
        Any, option("The completed table; FILE with -imputed.csv at its end by default.", parser=path, metavar="CSV")
    ] = None,
    raw_text: RawTextOption = False,
    *,
    reading: ReadingOptions,
) -> None:
    """Fill the missing values of a table, from a saved model.

    Writes the columns of the model as csv, each missing value replaced by its expectation given the other values of
    its row. No file is replaced.
    """
    with errors_reported():
        from blockmix.cli.imputing import write_completed

        write_completed(model, file, out or Path(f"{_stem(file)}-imputed.csv"), raw_text, reading)


@app.command(
    epilog=examples(
        "blockmix report wine-blockmix/model.blockmix wine.csv --label type",
        "blockmix report wine-blockmix/model.blockmix",
        "blockmix report wine-blockmix/model.blockmix --out wine.html",
    )
)
@takes(ReadingOptions)
def report(
    ctx: typer.Context,
    model: ModelArgument,
    file: FittedArgument = None,
    label: LabelOption = None,
    out: Annotated[
        Any, option("The page; report.html beside the model by default.", parser=path, metavar="PAGE")
    ] = None,
    *,
    reading: ReadingOptions,
) -> None:
    """Write the report of a saved model again.

    One file that opens in any browser, offline. The table and its options are those of the fit unless FILE is given.
    """
    with errors_reported():
        from blockmix.cli.reporting import write_page

        write_page(model, file, label, out, reading, ctx.obj)


@app.command(
    epilog=examples(
        "blockmix stability wine-blockmix/model.blockmix",
        "blockmix stability wine-blockmix/model.blockmix wine.csv --resamples 500 --refits 0",
        "blockmix stability visits-blockmix/model.blockmix visits.csv --units patient",
    )
)
@takes(ReadingOptions, WritingOptions)
def stability(
    ctx: typer.Context,
    model: ModelArgument,
    file: FittedArgument = None,
    resamples: Annotated[int, option("Random weighings for column groups.", min=1, metavar="N")] = 100,
    refits: Annotated[
        int, option("Random weighings for row clusters, which are fitted again.", min=0, metavar="N")
    ] = 25,
    units: Annotated[
        str | None, option("Column of what rows depend on, such as patients: its rows share a weight.", metavar="COL")
    ] = None,
    seed: Annotated[int, option("Random seed.", min=0, max=2**32 - 1, metavar="N")] = 0,
    *,
    reading: ReadingOptions,
    writing: WritingOptions,
) -> None:
    """How often the column groups and row clusters of a model come back when rows are weighed at random.

    Writes groups.csv, clusters.csv, summary.json and report.html into the folder stability beside the model.
    """
    with errors_reported():
        from blockmix.cli.reporting import write_again

        more = MoreOptions(resamples=resamples, refits=refits)
        write_again(model, file, more, {"units": units, "seed": seed}, reading, writing, ctx.obj)


@app.command(
    epilog=examples(
        "blockmix demo",
        "blockmix demo --out wine",
    )
)
@takes(WritingOptions)
def demo(ctx: typer.Context, *, writing: WritingOptions) -> None:
    """Run the full workflow on a built-in data set.

    178 wines and 13 measurements; all settings are the defaults, with --scale.
    """
    with errors_reported():
        from blockmix.cli.data import demo_data
        from blockmix.cli.fitting import fit_mixture
        from blockmix.cli.running import run

        mixture = MixtureOptions(components=(1, 2, 3, 4, 5), groups=("auto",), scale=True)
        out = writing.out or Path("blockmix-demo")
        run("mixture", out, demo_data, lambda data: fit_mixture(data, mixture), ctx.obj, writing)


def _folder(writing: WritingOptions, file: str) -> Path:
    out: Path = writing.out or Path(f"{_stem(file)}-blockmix")
    return out


def _stem(file: str) -> str:
    return "table" if file == "-" else Path(file).name.partition(".")[0] or "table"


def _mixture(
    ctx: typer.Context,
    file: str,
    label: str | None,
    top_variance: int | None,
    settings: tuple[Any, ...],
    reading: ReadingOptions,
    writing: WritingOptions,
    more: MoreOptions | None = None,
) -> None:
    with errors_reported():
        from blockmix.cli.data import read_data
        from blockmix.cli.fitting import fit_mixture
        from blockmix.cli.running import run

        run(
            "mixture",
            _folder(writing, file),
            lambda: read_data(file, reading, label, top_variance=top_variance, gaps=True),
            lambda data: fit_mixture(data, *settings),
            ctx.obj,
            writing,
            file,
            more=more,
        )
