"""Signals that end the command, raised again where their exception was dropped.

Python delivers a signal as an exception in the Python code that runs next. If that is a callback of LLVM, which loads
and compiles the loops of a fit, the exception is printed and dropped, and the command would go on.
"""

from __future__ import annotations

import signal
import sys

ENDING = (signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))  # no SIGHUP on Windows

_arrived: list[int] = []


def handle_signals() -> None:
    """Exit as after Ctrl-C on signals that end a process, so that half-written files are removed."""
    handlers = {signal.SIGINT: signal.default_int_handler, **dict.fromkeys(ENDING, signal.SIG_DFL)}
    for number, default in handlers.items():
        if signal.getsignal(number) is default:  # else ignored, as under nohup
            signal.signal(number, _end)


def _end(number: int, frame: object) -> None:
    _arrived.append(number)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


def n_arrived() -> int:
    """Number of signals received so far."""
    return len(_arrived)


def raise_dropped(since: int) -> None:
    """Raise the next signal after the first `since` again: the command is still running, so its exception was lost."""
    for number in _arrived[since:]:
        signal.raise_signal(number)


def ending() -> int | None:
    """The first signal that ends the process, if any; Ctrl-C only ends a fit."""
    return next((number for number in _arrived if number in ENDING), None)


def raise_ending() -> None:
    """Exit if a signal that ends the process was dropped."""
    if (number := ending()) is not None:
        sys.exit(128 + number)
