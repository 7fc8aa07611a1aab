"""The command `blockmix`: row clusters and column groups of a table, without writing Python."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from blockmix.structure.extras import needed


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command; `arguments` are those of the process by default."""
    try:
        needed("typer", "app")
    except ImportError as error:
        print(f"blockmix: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    from blockmix.cli.app import app

    # Exit as after Ctrl-C, so that half-written files are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    app(arguments, prog_name="blockmix")
    raise SystemExit(0)
