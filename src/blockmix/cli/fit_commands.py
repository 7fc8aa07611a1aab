"""The commands that fit a model to a table, with their arguments and help.

The modules that do the work are imported when a command runs, so that the help appears at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from blockmix.cli.application import FileArgument, app, folder_of
from blockmix.cli.messages import errors_reported
from blockmix.cli.options import (
    CRITERIA,
    RULES,
    CheckpointOption,
    LabelOption,
    MixtureOptions,
    MoreOptions,
    ReadingOptions,
    TopicOptions,
    TopVarianceOption,
    WritingOptions,
    choice,
    examples,
    groups,
    option,
    takes,
)


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
    if checkpoint is not None and mixture.n_candidates > 1:
        raise typer.BadParameter("it belongs to one fit: give one number with --components", param_hint="--checkpoint")
    _mixture(ctx, file, label, top_variance, {"options": mixture, "checkpoint": checkpoint}, reading, writing, more)


@app.command(
    epilog=examples(
        "blockmix select wine.csv --components 1:6",
        "blockmix select wine.csv --components 2:4 --groups auto,2:6 --criterion icl",
        "blockmix select large.parquet --components 2,4,8,16 --jobs 4",
    )
)
@takes(MixtureOptions, MoreOptions, ReadingOptions, WritingOptions)
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
    more: MoreOptions,
    reading: ReadingOptions,
    writing: WritingOptions,
) -> None:
    """Compare numbers of row clusters and of column groups.

    Like fit, with any list of candidates, other criteria and parallel fits. The comparison is printed and written to
    selection.csv; the other files describe the best model.
    """
    settings = {"options": mixture, "criterion": criterion, "jobs": jobs}
    _mixture(ctx, file, label, top_variance, settings, reading, writing, more)


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
            folder_of(writing, file),
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
        "blockmix topics reviews.csv --text review --topics 2:8 --ngrams 2 --stop-words my-words.txt",
    )
)
@takes(TopicOptions, ReadingOptions, WritingOptions)
def topics(
    ctx: typer.Context,
    file: FileArgument,
    text: Annotated[str, option("Column of texts.", metavar="COL", show_default=False)],
    rating: Annotated[
        str | None, option("Column of ratings, which select the words and order the topics.", metavar="COL")
    ] = None,
    *,
    settings: TopicOptions,
    reading: ReadingOptions,
    writing: WritingOptions,
) -> None:
    """Topics of texts, and the groups of words that matter for each.

    Writes the model, rows.csv (topic of each text and its probability), columns.csv (group of each word), topics.csv
    and topics.png (importance of each group for each topic, in percent), documents.csv (typical texts of each topic),
    summary.json and report.html.
    """
    with errors_reported():
        from blockmix.cli.topics import fit_topics

        fit_topics(file, text, rating, settings, reading, writing, folder_of(writing, file), ctx.obj)


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

        mixture = MixtureOptions(components=(1, 2, 3, 4, 5), groups=("auto",), tails=("normal",), scale=True)
        out = writing.out or Path("blockmix-demo")
        run("mixture", out, demo_data, lambda data: fit_mixture(data, mixture), ctx.obj, writing)


def _mixture(
    ctx: typer.Context,
    file: str,
    label: str | None,
    top_variance: int | None,
    settings: dict[str, Any],
    reading: ReadingOptions,
    writing: WritingOptions,
    more: MoreOptions,
) -> None:
    with errors_reported():
        from blockmix.cli.data import read_data
        from blockmix.cli.fitting import fit_mixture
        from blockmix.cli.running import run

        run(
            "mixture",
            folder_of(writing, file),
            lambda: read_data(file, reading, label, top_variance=top_variance, gaps=True),
            lambda data: fit_mixture(data, **settings, stability=more.stability and more.refits > 0),
            ctx.obj,
            writing,
            file,
            more=more,
        )
