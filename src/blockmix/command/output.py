"""Output: what the command prints and writes, and how it ends.

Standard streams cannot fail a command, and a signal leaves no half-written file. The files of a run are written to a
hidden folder and swapped in together when all of them are complete, so that an error or Ctrl-C leaves the folder of the
user as it was.
"""

from __future__ import annotations

import errno
import io
import os
import platform
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

MODEL, ROWS, COLUMNS, SUMMARY, REPORT = "model.blockmix", "rows.csv", "columns.csv", "summary.json", "report.html"
SELECTION, TOPICS, TYPICAL = "selection.csv", "topics.csv", "documents.csv"
SHARES, SCORES, ASSOCIATIONS = "shares.csv", "scores.csv", "associations.csv"
GROUPS, CLUSTERS, TABLE = "groups.csv", "clusters.csv", "table.csv"

# The files that each kind of run may write; the last is the summary, which lists them.
KINDS = {
    "mixture": (MODEL, ROWS, COLUMNS, SCORES, ASSOCIATIONS, TABLE, SELECTION, GROUPS, CLUSTERS, REPORT, SUMMARY),
    "covariance": (MODEL, COLUMNS, SCORES, ASSOCIATIONS, GROUPS, REPORT, SUMMARY),
    "topics": (MODEL, ROWS, COLUMNS, TOPICS, TYPICAL, SHARES, SELECTION, REPORT, SUMMARY),
}
# Parameters of the library and the options that set them; a name comes before those that it ends with.
_OPTIONS = dict.fromkeys(("n_column_groups", "n_term_groups", "n_groups"), "--groups") | {
    "n_components": "--components",
    "n_topics": "--topics",
    "shrinkage": "--shrinkage",
    "max_iter": "--max-iter",
    "ngrams": "--ngrams",
}
ENDING = (signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))  # no SIGHUP on Windows
_HOST = re.sub(r"\W", "_", platform.node()) or "host"
_SCRATCH = re.compile(rf"\.blockmix-{_HOST}-(\d+)-[0-9a-f]{{8}}\.part")  # the hidden folder of a process
_FIGURE = re.compile(r"figure-[a-z0-9-]+\.(pdf|svg|png)")
_FORMULA = {"=", "+", "-", "@", "\t", "\r"}  # a spreadsheet takes a cell that begins so for a formula
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")

signals: list[int] = []  # that arrived so far
_stdout: _Stream | None = None


class _Stream(io.RawIOBase):
    """A raw stream that keeps the error of a failed write instead of raising it."""

    def __init__(self, raw: Any, error: OSError | None = None) -> None:
        self._raw, self.error = raw, error
        self.fileno, self.isatty, self.writable = raw.fileno, raw.isatty, raw.writable  # type: ignore[method-assign]

    def write(self, data: Any) -> int | None:
        if self.error is None:
            try:
                written: int | None = self._raw.write(data)
                return written
            except OSError as error:
                self.error = error
        return len(data)


def guard_streams() -> None:
    """Replace the standard streams of the process by streams that never raise.

    A terminal shows characters that it lacks as escapes. A closed stream becomes the null device, so that no file that
    is opened later takes its place.
    """
    global _stdout
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115
    for name in ("stderr", "stdout"):
        stream: Any = getattr(sys, name)
        if stream is None:
            _stdout = _Stream(open(os.devnull, "wb", buffering=0), OSError(errno.EBADF, "it is closed"))  # noqa: SIM115
            settings: dict[str, Any] = {"encoding": "utf-8"}
        else:
            _stdout = _Stream(getattr(stream.buffer, "raw", stream.buffer))
            lines = stream.line_buffering or stream.write_through
            settings = {"encoding": stream.encoding, "errors": "backslashreplace", "line_buffering": lines}
        setattr(sys, name, io.TextIOWrapper(io.BufferedWriter(_stdout), **settings))


def check_output() -> None:
    """Raise an OSError if standard output could not be written to; a reader may stop reading, as `head` does."""
    sys.stdout.flush()
    if _stdout is not None and _stdout.error is not None and not isinstance(_stdout.error, BrokenPipeError):
        raise OSError(f"standard output cannot be written to ({_stdout.error.strerror})")


def end(number: int, frame: object) -> None:
    """Raise a signal as an exception, so that half-written files are removed."""
    signals.append(number)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


def raise_dropped(since: int | None = None) -> None:
    """Raise the signals after the first `since` again, or by default those that end the process.

    Python delivers a signal as an exception in the Python code that runs next. If that is a callback of LLVM, which
    loads and compiles the loops of a fit, the exception is printed and dropped, and the command would go on.
    """
    for number in [number for number in signals if number in ENDING] if since is None else signals[since:]:
        signal.raise_signal(number)


def note(text: str) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr)


def sentence(error: Exception) -> str:
    """What went wrong, as one sentence, with options in place of parameters of the library."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'a file'}: {error.strerror}"
    if (parameter := getattr(error, "parameter", None)) in _OPTIONS:  # a ParameterError
        return f"{_OPTIONS[parameter]} {error.value} {error.problem}"  # type: ignore[attr-defined]
    text = " ".join(str(error).split())
    text = re.sub(r"keep the (\d+) of largest variance", r"keep those of largest variance: --top-variance \1", text)
    if isinstance(error, (ValueError, OSError, ImportError, TypeError, MemoryError)):
        return text or "not enough memory for this table"
    name = type(error).__name__
    return f"this is a bug, please report it ({name}: {text}); BLOCKMIX_TRACEBACK=1 shows where it happened"


@contextmanager
def warnings_collected() -> Iterator[list[str]]:
    """Collect the warnings of a block, each once and with options in place of parameters, and print them at its end."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        yield texts
    for text in dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught):
        line = text.partition(", by extend(")[0].partition(": extend()")[0]
        line = line.replace("raise max_iter or tol", "raise --max-iter")
        for parameter, name in _OPTIONS.items():
            line = line.replace(f"{parameter}=", f"{name} ")
        line = re.sub(r"\bcomponent (\d+)", lambda number: f"cluster {int(number[1]) + 1}", line)
        line = re.sub(r"(?<!-)\bcomponent(s?)\b", r"cluster\1", line)
        texts.append(line)
        note(f"warning: {line}")


@contextmanager
def progress_bar(text: str, total: float | None = None, rows: Any = None) -> Iterator[Callable[..., object]]:
    """Show a bar on the terminal while the block runs.

    Parameters
    ----------
    text : str
        What is going on.
    total : float, optional
        The amount at the end; without it the bar shows only that something is going on, and for how long.
    rows : optional
        Those of a large file (`FileRows`), of which the text shows the share that is read.

    Yields
    ------
    update : callable
        Takes how much is done, None if that is as before, and optionally a detail that follows the text.
    """
    if not sys.stderr.isatty():
        yield lambda done, detail="": None
        return
    from rich import console
    from rich import progress as rich

    columns: list[Any] = [rich.TextColumn("{task.description}", markup=False), rich.BarColumn(bar_width=24)]
    if total is None:
        columns.append(rich.TimeElapsedColumn())
    else:
        columns += [rich.TaskProgressColumn(), rich.TimeRemainingColumn(), rich.TextColumn("left")]
    with rich.Progress(*columns, console=console.Console(stderr=True), transient=True) as display:
        task = display.add_task(text, total=total)
        listeners: list[Any] = getattr(rows, "listeners", [])
        listeners.append(lambda share: display.update(task, description=f"{text}, {share:.0%} of the rows"))
        try:
            yield lambda done, detail="": display.update(task, completed=done, description=text + detail)
        finally:
            listeners.pop()


@contextmanager
def folder(out: Path, kind: str, *inputs: str | Path) -> Iterator[Path]:
    """A hidden folder to write to, whose files become those of `out` if the block succeeds.

    Parameters
    ----------
    out : path
        The folder of the user; created if needed.
    kind : str
        The kind of run, a key of `KINDS`.
    *inputs : paths
        Files that must not be replaced.
    """
    import shutil

    _replaceable(out, kind, inputs)
    made = [folder for folder in (out.parent, *out.parent.parents) if not folder.exists()]
    _remove_orphans(out)
    # Inside `out` if it exists: it may be a link to another file system, where files cannot be moved to.
    scratch = (out if out.exists() else out.parent) / f".blockmix-{_HOST}-{os.getpid()}-{uuid4().hex[:8]}.part"
    try:
        scratch.mkdir(parents=True)
        yield scratch
        raise_dropped()
        if out.exists():
            _swap(scratch, out, _replaceable(out, kind, inputs, [path.name for path in scratch.iterdir()]))
        else:
            scratch.rename(out)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("nothing was written") from None
    except OSError as error:
        # Name the folder of the user, not the hidden one; a full disk has no file name.
        if error.errno is None or scratch.name not in str(error.filename or scratch):
            raise
        raise OSError(f"{out} cannot be written to ({error.strerror}): give another folder with --out") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        for parent in made:
            if parent.is_dir() and not any(parent.iterdir()):
                parent.rmdir()


def _remove_orphans(out: Path) -> None:
    """Remove hidden folders for `out` of processes of this computer that were killed.

    One that holds replaced results stays: its process was killed between moving them out and new ones in.
    """
    import shutil

    for path in [*out.glob(".blockmix-*.part"), *out.parent.glob(".blockmix-*.part")]:
        name = _SCRATCH.fullmatch(path.name)
        if name and not path.is_symlink() and not (path / "old").exists() and not _runs(int(name[1])):
            shutil.rmtree(path, ignore_errors=True)


def _runs(pid: int) -> bool:
    """Whether there is such a process, as far as one can tell."""
    if os.name == "nt":  # where this would end it
        return True
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError) as error:
        return not isinstance(error, ProcessLookupError)
    return True


def _replaceable(out: Path, kind: str, inputs: Sequence[str | Path], new: Sequence[str] = ()) -> list[str]:
    """Files in `out` that a new run replaces: those that the summary of an earlier run of the same kind lists.

    Raises
    ------
    ValueError
        There are others with the names of the results or of `new`, or one of them is an input.
    """
    import json

    if os.path.lexists(out) and not out.is_dir():
        raise ValueError(f"{out} is not a folder: give a folder for the results with --out")
    try:
        summary = json.loads((out / KINDS[kind][-1]).read_text(encoding="utf-8"))
        listed = list(summary["files"]) if summary["kind"] == kind else []
    except (OSError, ValueError, TypeError, KeyError):
        listed = []
    figures = [name for name in listed if isinstance(name, str) and _FIGURE.fullmatch(name)]
    present = [name for name in dict.fromkeys([*KINDS[kind], *figures, *new]) if os.path.lexists(out / name)]
    foreign = [name for name in present if name not in listed or (out / name).is_dir()]
    if foreign:
        what = f"{out} has a {foreign[0]} that is not the result of an earlier run of this kind"
        raise ValueError(f"{what}: give another folder with --out, or move it away")
    for name in present:
        if any(os.path.exists(path) and os.path.samefile(out / name, path) for path in inputs):
            raise ValueError(f"{out / name} is an input and would be replaced: give another folder with --out")
    return present


def _swap(scratch: Path, out: Path, old: list[str]) -> None:
    """Move the old files out and the new ones in, or leave everything as it was."""
    new, aside = [path.name for path in scratch.iterdir()], scratch / "old"
    aside.mkdir()
    moves = [(out / name, aside / name) for name in old] + [(scratch / name, out / name) for name in new]
    try:
        for source, target in moves:
            source.rename(target)
    except BaseException:
        for source, target in reversed(moves):
            if not os.path.lexists(source):
                target.rename(source)
        raise


def write_frame(to: Path, frame: Any) -> None:
    """Write a data frame as csv, empty where a value is missing."""
    write_csv(to, list(frame), frame.astype(object).where(frame.notna(), "").values.tolist())


def write_csv(to: Path | IO[str], head: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    """Write lines of cells under a header to a file, as UTF-8, or to a stream.

    An apostrophe keeps spreadsheets from running cells as formulas.
    """
    import csv

    if isinstance(to, Path):
        with to.open("w", newline="", encoding="utf-8", errors="backslashreplace") as stream:
            return write_csv(stream, head, lines)
    writer = csv.writer(to, lineterminator="\n")
    for line in chain([head], lines):
        writer.writerow([f"'{cell}" if _is_formula(cell) else cell for cell in line])


def _is_formula(cell: Any) -> bool:
    return isinstance(cell, str) and cell[:1] in _FORMULA and not _NUMBER.fullmatch(cell)


def write_json(summary: dict[str, Any], to: Path | None = None) -> None:
    """Write a summary as strict JSON to a file, or print it in ASCII: null for numbers that are not finite."""
    import json

    text = json.dumps(summary, default=lambda value: value.tolist() if hasattr(value, "tolist") else str(value))
    plain = json.loads(text, parse_constant=lambda _: None)
    text = json.dumps(plain, indent=2, ensure_ascii=to is None, allow_nan=False)
    if to is None:
        print(text)
        check_output()
    else:
        to.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
