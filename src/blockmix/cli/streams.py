"""Standard streams that cannot fail a command, whether they are closed, full or too narrow for some characters."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any


class _Output(io.RawIOBase):
    """A raw stream that keeps the error of a failed write instead of raising it."""

    def __init__(self, raw: Any, error: OSError | None = None) -> None:
        self._raw, self.error = raw, error

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self._raw.fileno())

    def isatty(self) -> bool:
        return bool(self._raw.isatty())

    def write(self, data: Any) -> int | None:
        if self.error is None:
            try:
                written: int | None = self._raw.write(data)
                return written
            except OSError as error:
                self.error = error
        return len(data)


_stdout: _Output | None = None


def guard_streams() -> None:
    """Replace the standard streams of the process by streams that never raise.

    A closed stream becomes the null device, so that no file that is opened later takes its place. Characters that the
    terminal cannot show are written as escapes.
    """
    global _stdout
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115
    _stdout, sys.stdout = _guarded(sys.stdout)
    _, sys.stderr = _guarded(sys.stderr)


def _guarded(stream: Any) -> tuple[_Output, io.TextIOWrapper]:
    if stream is None:
        raw = _Output(open(os.devnull, "wb", buffering=0), OSError(errno.EBADF, "it is closed"))  # noqa: SIM115
        return raw, io.TextIOWrapper(io.BufferedWriter(raw), "utf-8")
    raw = _Output(getattr(stream.buffer, "raw", stream.buffer))
    lines = stream.line_buffering or stream.write_through
    return raw, io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, "backslashreplace", line_buffering=lines)


def output_error() -> OSError | None:
    """Why standard output could not be written, if so; a reader that has stopped reading (`| head`) is no error."""
    sys.stdout.flush()
    error = None if _stdout is None else _stdout.error
    return None if isinstance(error, BrokenPipeError) else error


def check_output() -> None:
    """Raise an OSError if standard output could not be written to, after printing what is written nowhere else."""
    if error := output_error():
        raise OSError(f"standard output cannot be written to ({error.strerror})")
