"""The command `blockmix`: row clusters and column groups of a table, without writing Python."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from blockmix.cli.signals import ENDING, ending, handle_signals
from blockmix.cli.streams import guard_streams, output_error
from blockmix.rows.files import needed


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command; `arguments` are those of the process by default."""
    guard_streams()
    try:
        code = _run(arguments)
    except KeyboardInterrupt:  # before a command has begun
        code = 130
    if code == 0 and (error := output_error()):
        print(f"warning: standard output cannot be written to ({error.strerror})", file=sys.stderr)
    for number in (signal.SIGINT, *ENDING):  # everything is done: let Python exit with this code
        signal.signal(number, signal.SIG_IGN)
    raise SystemExit(code)


def _run(arguments: Sequence[str] | None) -> Any:
    """The exit code of the command."""
    try:
        needed("typer", "app")
    except ImportError as error:
        print(f"blockmix: {error}", file=sys.stderr)
        return 1
    from blockmix.cli.app import app

    handle_signals()
    try:
        app(arguments, prog_name="blockmix")
    except SystemExit as ended:
        # An error on the way out, such as a failed import, does not change why the command ended.
        return ended.code if (number := ending()) is None else 128 + number
    return 0
