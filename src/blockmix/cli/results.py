"""The folder of results, whose files appear together when all of them are complete.

Until then they are written to a hidden folder beside it, so that an error or Ctrl-C leaves neither half a file nor a
mixture of old and new ones.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

MODEL, ROWS, COLUMNS, SUMMARY, REPORT = "model.blockmix", "rows.csv", "columns.csv", "summary.json", "report.html"
SELECTION, TOPICS, HEATMAP = "selection.csv", "topics.csv", "topics.png"
FILES = (MODEL, ROWS, COLUMNS, SUMMARY, REPORT, SELECTION, TOPICS, HEATMAP)


@contextmanager
def folder(out: Path) -> Iterator[Path]:
    """A hidden folder to write to, whose files are moved to `out` if the block succeeds.

    Files of an earlier run are replaced, and removed if this run did not write them. Other files are left alone.
    """
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file: give a folder for the results with --out")
    made = [folder for folder in (out.parent, *out.parent.parents) if not folder.exists()]
    scratch = out.parent / f".{out.name}.{uuid4().hex[:8]}.part"
    try:
        with _blaming(out):
            scratch.mkdir(parents=True)
            if out.exists() and not os.access(out, os.W_OK):
                raise PermissionError
        yield scratch
        with _blaming(out):
            _move(scratch, out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        for folder in made:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


@contextmanager
def _blaming(out: Path) -> Iterator[None]:
    """Name the folder of the user in errors, not the hidden one."""
    try:
        yield
    except OSError:
        raise OSError(f"{out} cannot be written to: give another folder with --out") from None


def _move(scratch: Path, out: Path) -> None:
    if not out.exists():
        scratch.rename(out)
        return
    for name in FILES:
        if (scratch / name).exists():
            os.replace(scratch / name, out / name)
        else:
            (out / name).unlink(missing_ok=True)


def write_csv(path: Path, head: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    """Write lines of cells under a header, as UTF-8."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(lines)


def write_json(path: Path, summary: dict[str, Any]) -> None:
    """Write a summary as strict JSON."""
    path.write_text(as_json(summary) + "\n", encoding="utf-8")


def as_json(summary: dict[str, Any]) -> str:
    """JSON text, with null for numbers that are not finite.

    Examples
    --------
    >>> print(as_json({"bic": float("nan"), "groups": (2, 3)}))
    {
      "bic": null,
      "groups": [
        2,
        3
      ]
    }
    """
    return json.dumps(_plain(summary), indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not -float("inf") < value < float("inf"):
        return None
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
