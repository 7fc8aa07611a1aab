"""The command `blockmix`: what a person does who has a table and no Python prompt."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command; `arguments` are those of the process by default."""
    try:
        from blockmix.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "blockmix").partition(".")[0] == "blockmix":
            raise
        print(f"blockmix: {error.name} is needed and not installed: pip install 'blockmix[app]'", file=sys.stderr)
        raise SystemExit(1) from None
    # As Ctrl-C: what is half-written is removed on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    app(arguments, prog_name="blockmix")
    raise SystemExit(0)
