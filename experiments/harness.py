"""Runs of an experiment: independent tasks, in parallel, with progress, kept on disk so that a killed run resumes.

A task is a dictionary of plain values with its seed among them; a function turns it into a dictionary of figures. Each
result is appended to results/.runs/NAME.jsonl, and a second call computes only what is missing there.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

RESULTS = Path(__file__).parent / "results"

Task = dict[str, Any]


def arguments(description: str | None) -> argparse.Namespace:
    """Options that every experiment has."""
    parser = argparse.ArgumentParser(description=description)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="few runs, to see that it works (default)")
    size.add_argument("--full", action="store_true", help="the paper's number of runs")
    parser.add_argument("--runs", type=int, help="another number of runs than that of --quick or --full")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: all cores)")
    parser.add_argument("--fresh", action="store_true", help="forget the runs that are already on disk")
    return parser.parse_args()


def run(name: str, function: Callable[[Task], Task], tasks: Iterable[Task], options: Any) -> list[Task]:
    """Return every task with its figures, computing those that are not on disk yet."""
    tasks = list(tasks)
    if function.__module__ == "__main__":  # a process would be sent all that the function refers to
        script = importlib.import_module(sys.modules["__main__"].__spec__.name)
        function = getattr(script, function.__name__)
    kept = RESULTS / ".runs" / f"{name}.jsonl"
    kept.parent.mkdir(parents=True, exist_ok=True)
    if options.fresh:
        kept.unlink(missing_ok=True)
    done = _read(kept)
    missing = [task for task in tasks if _key(task) not in done]
    started = time.monotonic()
    with kept.open("a") as file:
        work = (joblib.delayed(_computed)(function, task) for task in missing)
        pool = joblib.Parallel(n_jobs=options.jobs, return_as="generator_unordered")
        for count, (task, figures) in enumerate(pool(work), start=1):
            done[_key(task)] = figures
            file.write(json.dumps([task, figures]) + "\n")
            file.flush()
            if sys.stderr.isatty():
                left = (time.monotonic() - started) / count * (len(missing) - count)
                end = "\n" if count == len(missing) else ""
                print(f"\r{name}: {count}/{len(missing)}, {left:.0f} s left   ", end=end, file=sys.stderr, flush=True)
    return [task | done[_key(task)] for task in tasks]


def mean_by(rows: list[Task], keys: Iterable[str], figures: Iterable[str]) -> list[Task]:
    """Mean and standard deviation of the figures over the rows that agree in the keys, in order of appearance."""
    keys, figures = list(keys), list(figures)
    groups: dict[tuple[Any, ...], list[Task]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[key] for key in keys)].append(row)
    table = []
    for values, members in groups.items():
        line: Task = dict(zip(keys, values, strict=True)) | {"runs": len(members)}
        for figure in figures:
            column = np.array([member[figure] for member in members], dtype=float)
            line |= {figure: float(column.mean()), f"{figure}_sd": float(column.std())}
        table.append(line)
    return table


def folder(options: Any) -> Path:
    """Where results go: those of a full run to results/, of a quick one to results/quick/, which is not kept."""
    path = RESULTS if options.full else RESULTS / "quick"
    path.mkdir(parents=True, exist_ok=True)
    return path


def write(name: str, table: list[Task], options: Any) -> None:
    """Write a table to NAME.csv."""
    with (folder(options) / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _short(value) for key, value in line.items()} for line in table)


def show(table: list[Task]) -> None:
    """Print a table without its standard deviations."""
    heads = [head for head in table[0] if not head.endswith("_sd")]
    cells = [[str(_short(line[head])) for head in heads] for line in table]
    widths = [max(len(head), *(len(row[i]) for row in cells)) for i, head in enumerate(heads)]
    for row in [heads, *cells]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))


def _computed(function: Callable[[Task], Task], task: Task) -> tuple[Task, Task]:
    with threadpool_limits(1):  # the processes are the parallelism
        return task, function(task)


def _read(kept: Path) -> dict[str, Task]:
    done = {}
    for line in kept.read_text().splitlines() if kept.exists() else ():
        try:
            task, figures = json.loads(line)
        except ValueError:  # the last line of a killed run
            continue
        done[_key(task)] = figures
    return done


def _key(task: Task) -> str:
    return json.dumps(task, sort_keys=True)


def _short(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value
