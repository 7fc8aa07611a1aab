"""The commands that use a saved model, with their arguments and help.

The modules that do the work are imported when a command runs, so that the help appears at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from blockmix.cli.application import FileArgument, FittedArgument, ModelArgument, app, stem_of
from blockmix.cli.messages import errors_reported
from blockmix.cli.options import (
    LabelOption,
    MoreOptions,
    RawTextOption,
    ReadingOptions,
    WritingOptions,
    examples,
    option,
    path,
    takes,
)


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

        write_completed(model, file, out or Path(f"{stem_of(file)}-imputed.csv"), raw_text, reading)


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
