"""Bars: how far something is and how long it still takes, on a terminal; nothing anywhere else.

A text and a total come in; a function to be told of the progress goes out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Bar:
    """A bar that can be told of progress; without a display it does nothing."""

    def __init__(self, display: Any = None, task: Any = None) -> None:
        self._display, self._task = display, task

    def show(self, done: float | None = None, total: float | None = None, text: str | None = None) -> None:
        """Say how much is done, of how much, and what is going on."""
        if self._display is not None:
            told = {"completed": done, "total": total, "description": text}
            self._display.update(self._task, **{key: value for key, value in told.items() if value is not None})


@contextmanager
def bar(text: str, total: float | None = None, *, bytes: bool = False, left: str = "left") -> Iterator[Bar]:
    """Show a bar on standard error while the block runs.

    Parameters
    ----------
    text : str
        What is going on.
    total : float, optional
        What is done at the end; without it the bar only shows that something moves, and for how long.
    bytes : bool
        Whether the total counts bytes.
    left : str
        What the remaining time is: "left", or "left at most".
    """
    if not sys.stderr.isatty():
        yield Bar()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    amount = [DownloadColumn() if bytes else MofNCompleteColumn()] if bytes or total is not None else []
    remaining = [TimeRemainingColumn(), TextColumn(left)] if total is not None else [TimeElapsedColumn()]
    columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), *amount, *remaining)
    with Progress(*columns, console=Console(stderr=True), transient=True) as display:
        yield Bar(display, display.add_task(text, total=total))
