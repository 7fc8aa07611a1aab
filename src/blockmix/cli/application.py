"""The application: its name, its version, and the arguments that commands share."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import blockmix as package
from blockmix.cli.options import WritingOptions


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


def folder_of(writing: WritingOptions, file: str) -> Path:
    """The folder for the results of a file."""
    out: Path = writing.out or Path(f"{stem_of(file)}-blockmix")
    return out


def stem_of(file: str) -> str:
    """The name of a file without its endings."""
    return "table" if file == "-" else Path(file).name.partition(".")[0] or "table"
