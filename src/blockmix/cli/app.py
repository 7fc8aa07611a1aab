"""The commands, with their arguments and help.

What a person types comes in; each command reads, fits, writes and prints by the modules beside this one, which are
imported only when a command runs: the help page is there at once.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import blockmix as package
from blockmix.cli.options import (
    LabelOption,
    MixtureOptions,
    ReadingOptions,
    WritingOptions,
    choice,
    examples,
    groups,
    option,
    takes,
)
from blockmix.cli.speaking import errors_told


class _Commands(TyperGroup):
    """The group of commands, which remembers the line that was typed."""

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
        help="csv, tsv (also .gz), parquet, feather, xlsx, npy or h5ad; - is standard input.",
        show_default=False,
    ),
]
ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model.blockmix of an earlier command.", show_default=False)
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
        "blockmix fit genes.tsv.gz --components 3 --groups 20 --shared",
        "zcat data.csv.gz | blockmix fit - --components 2:4 --json",
    )
)
@takes(MixtureOptions, ReadingOptions, WritingOptions)
def fit(
    ctx: typer.Context,
    file: FileArgument,
    label: LabelOption = None,
    *,
    mixture: MixtureOptions,
    reading: ReadingOptions,
    writing: WritingOptions,
) -> None:
    """Row clusters and column groups of a table.

    Uses all numeric columns, tries 1 to 5 row clusters unless told otherwise, and writes the model, rows.csv (cluster
    of each row and its probability), columns.csv (group of each column in each cluster), summary.json and report.html,
    into a folder named after FILE.
    """
    _mixture(ctx, file, label, mixture, reading, writing)


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
        option("What is smallest for the best: bic, icl or aic.", parser=choice("bic", "icl", "aic"), metavar="NAME"),
    ] = "bic",
    jobs: Annotated[int | None, option("Fits at the same time, in processes.", min=1, metavar="N")] = None,
    *,
    mixture: MixtureOptions,
    reading: ReadingOptions,
    writing: WritingOptions,
) -> None:
    """Compare numbers of row clusters and of column groups.

    As fit, with any list of candidates, other criteria, and several fits at a time. The comparison is printed and
    written to selection.csv; the other files are those of the best model.
    """
    _mixture(ctx, file, label, mixture, reading, writing, criterion, jobs)


@app.command(
    epilog=examples(
        "blockmix covariance wine.csv",
        "blockmix covariance genes.parquet --groups 20 --shrinkage 0.2",
    )
)
@takes(ReadingOptions, WritingOptions)
def covariance(
    ctx: typer.Context,
    file: FileArgument,
    n_groups: Annotated[
        Any,
        option("Number of groups, or a rule: auto, silhouette, bic.", "--groups", parser=groups, metavar="N|RULE"),
    ] = "auto",
    shrinkage: Annotated[
        float | None, option("From 0 to 1: pulls covariances to the diagonal. For few rows.", min=0, max=1, metavar="A")
    ] = None,
    *,
    reading: ReadingOptions,
    writing: WritingOptions,
) -> None:
    """Column groups of a table, without row clusters.

    Estimates one block-diagonal covariance, and writes the model, columns.csv (group of each column), summary.json and
    report.html.
    """
    if len(n_groups) > 1:
        raise typer.BadParameter("one number or one rule is needed here", param_hint="--groups")
    with errors_told():
        from blockmix.cli.data import read_data
        from blockmix.cli.fitting import fit_covariance, say, write_results
        from blockmix.cli.folder import results

        out = _folder(writing, file)
        with results(out) as folder:
            data = read_data(file, reading)
            fitted = fit_covariance(data, n_groups[0], shrinkage)
            summary = write_results(folder, out, data, fitted, ctx.obj)
        say(summary, fitted, writing.json)


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
        str | None, option("Column of ratings: they select the words and order the topics.", metavar="COL")
    ] = None,
    n_topics: Annotated[int, option("Number of topics.", "--topics", min=1, metavar="N")] = 5,
    n_groups: Annotated[int, option("Number of word groups; 15 or more.", "--groups", min=1, metavar="N")] = 20,
    words: Annotated[int, option("Words that are kept.", min=1, metavar="N")] = 400,
    seed: Annotated[int, option("Seed of the starts.", min=0, metavar="N")] = 0,
    *,
    reading: ReadingOptions,
    writing: WritingOptions,
) -> None:
    """Topics of texts, and the groups of words that matter for each.

    Writes the model, rows.csv (topic of each text and its probability), columns.csv (group of each word), topics.csv
    (importance of each group for each topic, in percent), its picture topics.png and summary.json.
    """
    with errors_told():
        from blockmix.cli.documents import fit_topics

        settings = {"n_topics": n_topics, "n_term_groups": n_groups, "n_selected_terms": words, "random_state": seed}
        fit_topics(file, text, rating, settings, reading, _folder(writing, file), ctx.obj, writing.json)


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
    """Row clusters of new rows, by a model that was fitted before.

    Prints row, cluster and probability as csv; with --out it writes rows.csv and summary.json. Columns are found by
    their names, in any order.
    """
    with errors_told():
        from blockmix.cli.predicting import predict_rows

        predict_rows(model, file, label, text, reading, writing, ctx.obj)


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
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]",
            help="The table that was fitted; found by the summary beside the model if it is still there.",
        ),
    ] = None,
    label: LabelOption = None,
    out: Annotated[Path | None, option("The page; report.html beside the model by default.", metavar="PAGE")] = None,
    *,
    reading: ReadingOptions,
) -> None:
    """The page of a model, again.

    One file that opens in any browser, without network. The table and its options are those of the fit unless FILE is
    given.
    """
    with errors_told():
        from blockmix.cli.reporting import write_page

        write_page(model, file, label, out, reading, ctx.obj)


@app.command(
    epilog=examples(
        "blockmix demo",
        "blockmix demo --out wine",
    )
)
@takes(WritingOptions)
def demo(ctx: typer.Context, *, writing: WritingOptions) -> None:
    """The whole way on real data.

    178 wines and 13 measurements; everything is chosen by the program.
    """
    with errors_told():
        from blockmix.cli.data import Data
        from blockmix.cli.fitting import fit_mixture, say, write_results
        from blockmix.cli.folder import results
        from blockmix.cli.wine import wine_table

        out = writing.out or Path("blockmix-demo")
        with results(out) as folder:
            data = Data(wine_table(), "cultivar")
            fitted = fit_mixture(data, MixtureOptions(components=(1, 2, 3, 4, 5), groups=("auto",), scale=True))
            summary = write_results(folder, out, data, fitted, ctx.obj)
        say(summary, fitted, writing.json)


def _folder(writing: WritingOptions, file: str) -> Path:
    stem = "table" if file == "-" else Path(file).name.partition(".")[0] or "table"
    return writing.out or Path(f"{stem}-blockmix")


def _mixture(
    ctx: typer.Context,
    file: str,
    label: str | None,
    mixture: MixtureOptions,
    reading: ReadingOptions,
    writing: WritingOptions,
    criterion: str = "bic",
    jobs: int | None = None,
) -> None:
    with errors_told():
        from blockmix.cli.data import read_data
        from blockmix.cli.fitting import fit_mixture, say, write_results
        from blockmix.cli.folder import results

        out = _folder(writing, file)
        # First of all: a folder that cannot be written to is told before hours of work, not after.
        with results(out) as folder:
            data = read_data(file, reading, label)
            fitted = fit_mixture(data, mixture, criterion, jobs)
            summary = write_results(folder, out, data, fitted, ctx.obj)
        say(summary, fitted, writing.json)
