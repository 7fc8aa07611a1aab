"""The command `blockmix`: row clusters and column groups of a table, without writing Python."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from blockmix.cli.streams import guard_streams, output_error
from blockmix.structure.extras import needed

_ENDING = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]  # no SIGHUP on Windows


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command; `arguments` are those of the process by default."""
    guard_streams()
    try:
        code = _run(arguments)
    except KeyboardInterrupt:  # before a command has begun
        code = 130
    if code == 0 and (error := output_error()):
        print(f"warning: standard output cannot be written to ({error.strerror})", file=sys.stderr)
    for number in (signal.SIGINT, *_ENDING):  # everything is done: let Python exit with this code
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

    for number in _ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:
            # Exit as after Ctrl-C, so that half-written files are removed.
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        app(arguments, prog_name="blockmix")
    except SystemExit as ended:
        return ended.code
    return 0
