"""The application: its commands with their help, in the order of the help, and how Typer reads their options.

The modules that do the work are imported when a command runs, so that the help appears at once.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand
from typer.models import OptionInfo

import blockmix as package
from blockmix.command import options
from blockmix.command.output import note, sentence

Help = Callable[[], None]

app = typer.Typer(
    no_args_is_help=True,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def blockmix(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Which rows of a table belong together, and which columns move together in each row cluster.

    Start with blockmix fit FILE, or with blockmix demo.
    """
    if version:
        print(f"blockmix {package.__version__}")
        raise typer.Exit


def parameters(kind: type) -> list[inspect.Parameter]:
    """The fields of a class of options as parameters of a function, its own before those of its groups."""
    hints, found = get_type_hints(kind, include_extras=True), []
    for name in [name for part in kind.__mro__ for name in inspect.get_annotations(part)]:
        declared = get_args(hints[name])[1]
        if isinstance(declared, OptionInfo):  # a flag has no --no-flag unless it says so
            declared.param_decls = declared.param_decls or (f"--{name.replace('_', '-')}",)
        default = getattr(kind, name, inspect.Parameter.empty)
        found.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[name]))
    return found


class Command(TyperCommand):
    """A command whose help lists its advanced options last."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options by panel."""
        panels: dict[str, list[Any]] = {"Arguments": [], "Options": [], "Advanced": []}
        for parameter in self.get_params(ctx):
            argument = parameter.param_type_name == "argument"
            panel = "Arguments" if argument else getattr(parameter, "rich_help_panel", None) or "Options"
            panels[panel].append(parameter.get_help_record(ctx))
        for panel, records in panels.items():
            if records:
                with formatter.section(panel):
                    formatter.write_dl(records)


def command(name: str, target: str, kind: type, *examples: str) -> Callable[[Help], Help]:
    """Register a command whose help is the docstring of a function, and which calls `target` of `blockmix.command`.

    That takes the options and the command line.

    A problem with the data or the fit ends it with one sentence and exit code 1, Ctrl-C with 130.
    """

    def register(function: Help) -> Help:
        def run(ctx: typer.Context, **given: Any) -> None:
            source = given.get("file") or package.__file__
            if os.path.isfile(source):  # the same input gives the same page and figures, to the byte
                os.environ.setdefault("SOURCE_DATE_EPOCH", str(int(os.path.getmtime(source))))
            try:
                module, _, called = target.partition(".")
                getattr(import_module(f"blockmix.command.{module}"), called)(kind(**given), ctx.obj)
            except KeyboardInterrupt as error:
                note(", ".join(["blockmix: interrupted", *error.args]))
                raise SystemExit(130) from None
            except Exception as error:
                if type(error).__module__.startswith("typer") or os.environ.get("BLOCKMIX_TRACEBACK"):
                    raise
                note(f"blockmix: {sentence(error)}")
                raise SystemExit(1) from None

        context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        run.__signature__ = inspect.Signature([context, *parameters(kind)])  # type: ignore[attr-defined]
        # The backspace keeps the lines apart.
        epilog = "\b\nExamples:\n" + "\n".join(f"  blockmix {name} {example}".rstrip() for example in examples)
        app.command(name, cls=Command, help=inspect.getdoc(function), epilog=epilog)(run)
        return function

    return register


@command(
    "fit",
    "fit.fit_mixture",
    options.MixtureOptions,
    "wine.csv --label type --out wine",
    "- --components 2:4 --json < data.csv",
)
def fit() -> None:
    """Row clusters and column groups of a table.

    Uses all numeric columns, compares 1 to 5 row clusters by default, and writes report.html (open it first), rows.csv
    (cluster of each row and its probability), columns.csv (group of each column in each cluster), selection.csv (what
    was compared), summary.json and the model into a folder named after FILE.
    """


@command("covariance", "fit.fit_covariance", options.FitOptions, "wine.csv", "genes.parquet --groups 20")
def covariance() -> None:
    """Column groups of a table, without row clusters.

    Estimates one block-diagonal covariance, and writes the model, columns.csv (group of each column), summary.json and
    report.html.
    """


@command(
    "topics",
    "topics.fit_topics",
    options.TopicOptions,
    "reviews.csv",
    "reviews.csv --text review --rating stars --by date --topics 2:8 --ngrams 2",
)
def topics() -> None:
    """Topics of texts, the words that name them and the groups of words that matter for each.

    FILE may also be a folder of .txt files or JSON lines. Writes the model, rows.csv (topic of each text and its
    probability), columns.csv (group of each word), topics.csv (importance of each group for each topic, in percent),
    documents.csv (typical texts of each topic), shares.csv (topics by the column of --by), summary.json and
    report.html.
    """


@command("demo", "fit.fit_demo", options.WritingOptions, "", "--out wine")
def demo() -> None:
    """Run the full workflow on a built-in data set.

    178 wines and 13 measurements; all settings are the defaults.
    """


@command(
    "predict",
    "model.predict_rows",
    options.PredictOptions,
    "wine-blockmix/model.blockmix new.csv --append --out new-clusters.csv",
)
def predict() -> None:
    """Row clusters of new rows, from a saved model.

    Prints row, cluster and probability as csv, or writes them with --out. Columns are matched by name, in any order. No
    file is replaced.
    """


@command(
    "impute",
    "model.write_completed",
    options.ImputeOptions,
    "survey-blockmix/model.blockmix survey.csv --out complete.csv",
)
def impute() -> None:
    """Fill the missing values of a table, from a saved model.

    Writes the columns of the model as csv, each missing value replaced by its expectation given the other values of
    its row. No file is replaced.
    """


@command(
    "replicate",
    "model.replicate_model",
    options.ReplicateOptions,
    "wine-blockmix/model.blockmix new.csv --out groups.csv",
)
def replicate() -> None:
    """Whether the column groups and row clusters of a saved model hold in other rows.

    Prints for each group how much better its correlations predict the new rows than independent columns do, and a
    verdict, and for each cluster its share of the rows and how far its mean has moved. No file is replaced.
    """


@command("plan", "model.plan_rows", options.PlanOptions, "wine-blockmix/model.blockmix --rows 50,100,200")
def plan() -> None:
    """How many rows are needed: the share of groups and clusters that come out right with so many.

    Tables are drawn from a saved model, which is taken as the truth, and fitted with its settings.
    """


@app.command("warm-up")
def prepare() -> None:
    """Compile what fits need and store it, so that the first fit starts at once: for images and CI."""
    package.warm_up()
    note("compiled and stored")
