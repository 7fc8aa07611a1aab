"""The folder of results, whose files are replaced together or not at all.

New files are written to a hidden folder and swapped in when all of them are complete, so that an error or Ctrl-C leaves
the folder as it was. A run replaces or removes only files that the summary of an earlier run of the same kind lists.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from blockmix.cli.signals import raise_ending

MODEL, ROWS, COLUMNS, SUMMARY, REPORT = "model.blockmix", "rows.csv", "columns.csv", "summary.json", "report.html"
SELECTION, TOPICS, HEATMAP, TYPICAL = "selection.csv", "topics.csv", "topics.png", "documents.csv"
GROUPS, CLUSTERS = "groups.csv", "clusters.csv"
PREDICTIONS, PREDICTIONS_SUMMARY = "predictions.csv", "predictions.json"

# The files that each kind of run may write; the last is the summary, which lists them.
KINDS = {
    "mixture": (MODEL, ROWS, COLUMNS, SELECTION, GROUPS, CLUSTERS, REPORT, SUMMARY),
    "covariance": (MODEL, COLUMNS, GROUPS, REPORT, SUMMARY),
    "stability": (GROUPS, CLUSTERS, REPORT, SUMMARY),
    "topics": (MODEL, ROWS, COLUMNS, TOPICS, HEATMAP, TYPICAL, SELECTION, REPORT, SUMMARY),
    "predictions": (PREDICTIONS, PREDICTIONS_SUMMARY),
}
_FIGURE = re.compile(r"figure-[a-z0-9-]+\.(pdf|svg|png)")
_FORMULA = {"=", "+", "-", "@", "\t", "\r"}  # a spreadsheet takes a cell that begins so for a formula
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


@contextmanager
def folder(out: Path, kind: str, inputs: Sequence[str | Path] = ()) -> Iterator[Path]:
    """A hidden folder to write to, whose files become those of `out` if the block succeeds.

    Parameters
    ----------
    out : path
        The folder of the user; created if needed.
    kind : str
        The kind of run, a key of `KINDS`.
    inputs : sequence of paths
        Files that must not be replaced.
    """
    _replaceable(out, kind, inputs)
    made = [folder for folder in (out.parent, *out.parent.parents) if not folder.exists()]
    # Inside `out` if it exists: it may be a link to another file system, where files cannot be moved to.
    scratch = (out if out.exists() else out.parent) / f".blockmix-{uuid4().hex[:8]}.part"
    try:
        with blaming(out):
            scratch.mkdir(parents=True)
        yield scratch
        raise_ending()
        if out.exists():
            old = _replaceable(out, kind, inputs, [path.name for path in scratch.iterdir()])
            with blaming(out):
                _swap(scratch, out, old)
        else:
            with blaming(out):
                scratch.rename(out)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("nothing was written") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        for parent in made:
            if parent.is_dir() and not any(parent.iterdir()):
                parent.rmdir()


def _replaceable(out: Path, kind: str, inputs: Sequence[str | Path], new: Sequence[str] = ()) -> list[str]:
    """Files in `out` that a new run replaces: those of an earlier run of the same kind; `new` are written.

    Raises
    ------
    ValueError
        There are others with the names of the results, or one of them is an input.
    """
    if os.path.lexists(out) and not out.is_dir():
        raise ValueError(f"{out} is not a folder: give a folder for the results with --out")
    listed = _listed(out, kind)
    figures = [name for name in listed if isinstance(name, str) and _FIGURE.fullmatch(name)]
    known = dict.fromkeys([*KINDS[kind], *figures, *new])
    present = [name for name in known if os.path.lexists(out / name)]
    foreign = [name for name in present if name not in listed or (out / name).is_dir()]
    if foreign:
        raise ValueError(
            f"{out} has a {foreign[0]} that is not the result of an earlier run of this kind: give another folder with "
            "--out, or move it away"
        )
    for name in present:
        if any(os.path.exists(path) and os.path.samefile(out / name, path) for path in inputs):
            raise ValueError(f"{out / name} is an input and would be replaced: give another folder with --out")
    return present


def _listed(out: Path, kind: str) -> list[Any]:
    """The files that the summary of an earlier run of the same kind lists."""
    try:
        summary = json.loads((out / KINDS[kind][-1]).read_text(encoding="utf-8"))
        return list(summary["files"]) if summary["kind"] == kind else []
    except (OSError, ValueError, TypeError, KeyError):
        return []


@contextmanager
def blaming(out: Path) -> Iterator[None]:
    """Name the folder of the user in errors, not the hidden one."""
    try:
        yield
    except OSError as error:
        reason = f" ({error.strerror})" if error.strerror else ""
        raise OSError(f"{out} cannot be written to{reason}: give another folder with --out") from None


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


def write_csv(path: Path, head: Sequence[str], lines: Iterable[Sequence[Any]], raw: bool) -> None:
    """Write lines of cells under a header, as UTF-8; see `csv_to`."""
    with path.open("w", newline="", encoding="utf-8", errors="backslashreplace") as stream:
        csv_to(stream, head, lines, raw)


def csv_to(stream: IO[str], head: Sequence[str], lines: Iterable[Sequence[Any]], raw: bool) -> None:
    """Write csv; unless `raw`, an apostrophe keeps spreadsheets from running cells as formulas."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(head if raw else map(without_formula, head))
    writer.writerows(lines if raw else (tuple(map(without_formula, line)) for line in lines))


def without_formula(cell: Any) -> Any:
    """A cell with an apostrophe in front if a spreadsheet would take it for a formula.

    Examples
    --------
    >>> without_formula("=HYPERLINK(1)"), without_formula("-1.5"), without_formula("a=b")
    ("'=HYPERLINK(1)", '-1.5', 'a=b')
    """
    if isinstance(cell, str) and cell[:1] in _FORMULA and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


def write_json(path: Path, summary: dict[str, Any]) -> None:
    """Write a summary as strict JSON."""
    path.write_text(as_json(summary) + "\n", encoding="utf-8", errors="backslashreplace")


def as_json(summary: dict[str, Any], ascii: bool = False) -> str:
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
    return json.dumps(_plain(summary), indent=2, ensure_ascii=ascii, allow_nan=False)


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
