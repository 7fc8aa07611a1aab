"""Running the command `blockmix`: in this process, in another, and in a terminal."""

from __future__ import annotations

import csv
import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_wine
from typer.testing import CliRunner

from blockmix.command.app import app
from blockmix.command.options import ReadingOptions
from blockmix.command.reading import read_table
from blockmix.command.table import Table

MIXTURE = {
    "model.blockmix",
    "rows.csv",
    "columns.csv",
    "scores.csv",
    "associations.csv",
    "groups.csv",
    "summary.json",
    "report.html",
}


def wine() -> pd.DataFrame:
    """The wines with row names in front and the known classes at the end."""
    data = load_wine(as_frame=True)
    frame = data.data.copy()
    frame.insert(0, "id", [f"w{i}" for i in range(len(frame))])
    frame["kind"] = [str(data.target_names[k]) for k in data.target]
    return frame


def run(*arguments: str, code: int = 0, text: str | None = None) -> Any:
    """Run the command in this process."""
    line = shlex.join(["blockmix", *arguments])
    done = CliRunner().invoke(app, arguments, input=text, prog_name="blockmix", obj=line)
    assert done.exit_code == code, f"{done.exit_code}: {done.stdout} {done.stderr} {done.exception!r}"
    return done


def read(folder: Path, text: str, kept: Any = (), only: Any = None, **options: Any) -> Table:
    """Read a text as a table."""
    path = folder / "table.csv"
    path.write_text(text, encoding="utf-8", newline="")
    return read_table(path, ReadingOptions(**options), kept, only)


def fails(*arguments: str) -> str:
    """The sentence of a command that ends with exit code 1 and changes nothing."""
    before = files_below(".")
    done = run(*arguments, code=1)
    assert files_below(".") == before
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if line.startswith("blockmix: ")]
    assert len(lines) == 1
    assert "Traceback" not in done.stderr
    return lines[0].removeprefix("blockmix: ")


def files_below(folder: str | Path) -> dict[str, bytes | None]:
    """Contents of all files below a folder, None for folders, links as they are."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(Path(folder).rglob("*"))}


def command(*arguments: str) -> list[str]:
    """The words that run the command in a process."""
    return [sys.executable, "-m", "blockmix", *arguments]


def process(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run the command in a process."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, **settings)


def in_a_terminal(*arguments: str, until: str | None = None) -> tuple[str, int]:
    """Run the command in a terminal; Ctrl-C is pressed when some text appears. Returns the screen and the exit code."""
    import pty  # not on Windows

    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores it
        os.execv(sys.executable, command(*arguments))
    seen, begin = b"", time.monotonic()
    while time.monotonic() - begin < 120:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        seen += piece
        if not piece:
            break
        if until is not None and until.encode() in seen:
            os.write(terminal, b"\x03")
            until = None
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode(errors="replace")), os.waitstatus_to_exitcode(status)


def large_csv() -> str:
    """A table whose fit takes a while."""
    X = np.random.default_rng(0).standard_normal((20_000, 20))
    pd.DataFrame(X, columns=[f"c{j}" for j in range(20)]).to_csv("large.csv", index=False)
    return "large.csv"


def lines_of(path: str | Path) -> list[dict[str, str]]:
    """The lines of a csv file, by the names in its header."""
    with Path(path).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def summary_of(folder: str | Path) -> dict[str, Any]:
    """The summary in a folder of results."""
    summary: dict[str, Any] = json.loads(Path(folder, "summary.json").read_text(encoding="utf-8"))
    return summary
