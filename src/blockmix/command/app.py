"""The application: its commands with their help, in the order of the help.

The modules that do the work are imported when a command runs, so that the help appears at once.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import blockmix as package
from blockmix.command.options import (
    CovarianceOptions,
    ImputeOptions,
    MixtureOptions,
    PredictOptions,
    ReportOptions,
    StabilityOptions,
    TopicOptions,
    WritingOptions,
    parameters,
)
from blockmix.command.output import errors_reported


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


Run = Callable[[Any, str], None]


def command(name: str, kind: type, *examples: str) -> Callable[[Run], Run]:
    """Register a function of options and of the command line as a command; its docstring is the help."""

    def register(function: Run) -> Run:
        def run(ctx: typer.Context, **given: Any) -> None:
            with errors_reported():
                function(kind(**given), ctx.obj)

        context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        run.__signature__ = inspect.Signature([context, *parameters(kind)])  # type: ignore[attr-defined]
        # The backspace keeps the lines apart.
        epilog = "\b\nExamples:\n" + "\n".join(f"  blockmix {name} {example}".rstrip() for example in examples)
        app.command(name, help=inspect.getdoc(function), epilog=epilog)(run)
        return function

    return register


@command(
    "fit",
    MixtureOptions,
    "wine.csv",
    "wine.csv --label type --out wine",
    "genes.tsv.gz --components 3 --groups 20 --shared --top-variance 5000",
    "- --components 2:4 --json < data.csv",
)
def fit(options: MixtureOptions, line: str) -> None:
    """Row clusters and column groups of a table.

    Uses all numeric columns, compares 1 to 5 row clusters by default, and writes the model, rows.csv (cluster of each
    row and its probability), columns.csv (group of each column in each cluster), summary.json and report.html into a
    folder named after FILE.
    """
    from blockmix.command.fit import fit_mixture

    fit_mixture(options, line)


@command(
    "select",
    MixtureOptions,
    "wine.csv --components 1:6",
    "wine.csv --components 2:4 --groups auto,2:6 --criterion icl",
    "large.parquet --components 2,4,8,16",
)
def select(options: MixtureOptions, line: str) -> None:
    """Compare numbers of row clusters and of column groups: another name of fit.

    The comparison is printed and written to selection.csv; the other files describe the best model.
    """
    fit(options, line)


@command("covariance", CovarianceOptions, "wine.csv", "genes.parquet --groups 20 --shrinkage 0.2")
def covariance(options: CovarianceOptions, line: str) -> None:
    """Column groups of a table, without row clusters.

    Estimates one block-diagonal covariance, and writes the model, columns.csv (group of each column), summary.json and
    report.html.
    """
    from blockmix.command.fit import fit_covariance

    fit_covariance(options, line)


@command(
    "topics",
    TopicOptions,
    "reviews.csv --text review --rating stars",
    "reviews.csv --text review --topics 2:8 --ngrams 2 --stop-words my-words.txt",
)
def topics(options: TopicOptions, line: str) -> None:
    """Topics of texts, and the groups of words that matter for each.

    Writes the model, rows.csv (topic of each text and its probability), columns.csv (group of each word), topics.csv
    and topics.png (importance of each group for each topic, in percent), documents.csv (typical texts of each topic),
    summary.json and report.html.
    """
    from blockmix.command.topics import fit_topics

    fit_topics(options, line)


@command("demo", WritingOptions, "", "--out wine")
def demo(options: WritingOptions, line: str) -> None:
    """Run the full workflow on a built-in data set.

    178 wines and 13 measurements; all settings are the defaults, with --scale.
    """
    from blockmix.command.fit import fit_demo

    fit_demo(options, line)


@command(
    "predict",
    PredictOptions,
    "wine-blockmix/model.blockmix new.csv",
    "wine-blockmix/model.blockmix new.csv --label type --out new",
)
def predict(options: PredictOptions, line: str) -> None:
    """Row clusters of new rows, from a saved model.

    Prints row, cluster and probability as csv, or writes predictions.csv and predictions.json with --out. Columns are
    matched by name, in any order.
    """
    from blockmix.command.model import predict_rows

    predict_rows(options, line)


@command(
    "impute",
    ImputeOptions,
    "survey-blockmix/model.blockmix survey.csv",
    "survey-blockmix/model.blockmix new.csv --out complete.csv",
)
def impute(options: ImputeOptions, line: str) -> None:
    """Fill the missing values of a table, from a saved model.

    Writes the columns of the model as csv, each missing value replaced by its expectation given the other values of
    its row. No file is replaced.
    """
    from blockmix.command.model import write_completed

    write_completed(options)


@command(
    "report",
    ReportOptions,
    "wine-blockmix/model.blockmix wine.csv --label type",
    "wine-blockmix/model.blockmix",
    "wine-blockmix/model.blockmix --out wine.html",
)
def report(options: ReportOptions, line: str) -> None:
    """Write the report of a saved model again.

    One file that opens in any browser, offline. The table and its options are those of the fit unless FILE is given.
    """
    from blockmix.command.model import report_again

    report_again(options, line)


@command(
    "stability",
    StabilityOptions,
    "wine-blockmix/model.blockmix",
    "wine-blockmix/model.blockmix wine.csv --resamples 500 --refits 0",
    "visits-blockmix/model.blockmix visits.csv --units patient",
)
def stability(options: StabilityOptions, line: str) -> None:
    """How often the column groups and row clusters of a model come back when rows are reweighted at random.

    Writes groups.csv, clusters.csv, summary.json and report.html into the folder stability beside the model.
    """
    from blockmix.command.model import measure_again

    measure_again(options, line)
