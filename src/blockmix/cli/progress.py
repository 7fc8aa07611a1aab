"""Progress bars on a terminal: how much is done and how long the rest will take. Elsewhere nothing is shown."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from blockmix.rows.files import needed


class ProgressBar:
    """A bar that can be updated; without a display it does nothing."""

    def __init__(self, display: Any = None, task: Any = None) -> None:
        self._display, self._task = display, task

    def update(self, done: float, text: str | None = None) -> None:
        """Show how much is done, and what is going on."""
        if self._display is not None:
            self._display.update(self._task, completed=done, description=text)


@contextmanager
def progress_bar(
    text: str, total: float | None = None, *, bytes: bool = False, left: str = "left"
) -> Iterator[ProgressBar]:
    """Show a bar on standard error while the block runs.

    Parameters
    ----------
    text : str
        What is going on.
    total : float, optional
        The amount at the end; without it the bar shows only that something is going on, and for how long.
    bytes : bool
        Whether the total counts bytes.
    left : str
        The label of the remaining time: "left", or "left at most".
    """
    if not sys.stderr.isatty():
        yield ProgressBar()
        return
    rich = needed("rich.progress", "app")
    amount = [rich.DownloadColumn() if bytes else rich.MofNCompleteColumn()] if bytes or total is not None else []
    time = [rich.TimeRemainingColumn(), rich.TextColumn(left)] if total is not None else [rich.TimeElapsedColumn()]
    columns = (rich.TextColumn("{task.description}", markup=False), rich.BarColumn(bar_width=24), *amount, *time)
    console = needed("rich.console", "app").Console(stderr=True)
    with rich.Progress(*columns, console=console, transient=True) as display:
        yield ProgressBar(display, display.add_task(text, total=total))
