"""The n-th open, write, fsync, rename, mkdir or cache write fails, for n = 1, 2, … until nothing fails.

An allocation fails once for each chain of calls that leads to one: a fit makes thousands, in some hundred places.
Whatever fails, an operation ends well or with one clear error, and the user's files are whole: an old file is as it
was or replaced as a whole, nothing half-written stays, and a checkpoint that stays can be resumed.
"""

from __future__ import annotations

import builtins
import errno
import hashlib
import io
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir, contextmanager
from functools import cache
from pathlib import Path
from traceback import walk_stack
from typing import Any
from unittest.mock import patch

import numpy as np
from typer.testing import CliRunner

import blockmix
from blockmix import GaussianBiclustering
from blockmix.command.app import app
from blockmix.report import write_report
from experiments.harness import Task

NEVER = 10**9
DATED = re.compile(rb'"date":"[^"]*"|"seconds": [-.e\d]+')  # differs from run to run
ERRORS = (OSError, MemoryError, ValueError)
CALLS = ("fsync", "replace", "rename", "mkdir")
ARRAYS = ("empty", "zeros", "ones", "full", "concatenate", "stack", "empty_like", "zeros_like", "full_like")
CACHE = (
    "import numba.core.caching as c, numpy as np, itertools, sys\n"
    "first, count, save = int(sys.argv[1]), itertools.count(1), c.IndexDataCacheFile.save\n"
    "def fail(*_): raise OSError(28, 'No space left on device')\n"
    "def failing(*given): fail() if next(count) >= first else save(*given)\n"
    "def nowhere(*_): raise OSError(30, 'Read-only file system')\n"
    "c.IndexDataCacheFile.save = failing\n"
    "if first == 0: c._CacheLocator.ensure_cache_path = nowhere\n"
    "from blockmix import BlockDiagonalCovariance\n"
    "X = np.random.default_rng(0).standard_normal((60, 4))\n"
    "print(BlockDiagonalCovariance().fit(X).n_groups_)\n"
)


class Fault:
    """Counts the events of one kind under a folder, and fails at the n-th."""

    def __init__(self, kind: str, error: str, n: int, root: Path) -> None:
        self.kind, self.error, self.n, self.root, self.count = kind, error, n, os.path.realpath(root), 0
        self.chains: dict[int, int] = {}  # of calls that lead to an allocation, and the first event of each

    @property
    def fired(self) -> bool:
        return self.count >= self.n

    def event(self, kind: str, path: Any = None) -> None:
        inside = path is None or isinstance(path, int) or os.path.realpath(path).startswith(self.root)
        if kind != self.kind or not inside:
            return
        self.count += 1
        if kind == "allocation" and self.n == NEVER:
            self.chains.setdefault(hash(tuple((f.f_code, line) for f, line in walk_stack(sys._getframe()))), self.count)
        if self.count == self.n:
            number = getattr(errno, self.error, 0)
            raise OSError(number, os.strerror(number), path) if number else MemoryError("no memory for an array")

    @contextmanager
    def injected(self) -> Iterator[None]:
        opened, calls = io.open, {name: getattr(os, name) for name in CALLS}
        arrays = {name: getattr(np, name) for name in ARRAYS}

        def failing(kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*given: Any, **named: Any) -> Any:
                self.event(kind, None if kind == "allocation" else given[0])
                return function(*given, **named)

            return call

        def open_file(path: Any, mode: str = "r", *a: Any, **k: Any) -> Any:
            writes = not isinstance(path, int) and any(letter in mode for letter in "wxa+")
            self.event("open" if writes else "read", path)
            file = opened(path, mode, *a, **k)
            return Written(file, path, self) if writes else file

        with ExitStack() as stack:
            for name in calls if self.kind in CALLS else ():
                stack.enter_context(patch.object(os, name, failing(name, calls[name])))
            for name in arrays if self.kind == "allocation" else ():
                stack.enter_context(patch.object(np, name, failing("allocation", arrays[name])))
            for module in (io, builtins) if self.kind in ("open", "read", "write") else ():
                stack.enter_context(patch.object(module, "open", open_file))
            yield


class Written:
    """A file whose writes can fail."""

    def __init__(self, file: Any, path: Any, fault: Fault) -> None:
        self._file, self._path, self._fault = file, path, fault

    def write(self, data: Any) -> Any:
        self._fault.event("write", self._path)
        return self._file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Written:
        return self

    def __exit__(self, *given: Any) -> Any:
        return self._file.__exit__(*given)


@cache
def fitted() -> tuple[np.ndarray, Any]:
    X = np.random.default_rng(0).standard_normal((60, 4))
    X[:30] += 5
    X[::7, 1] = np.nan
    return X, GaussianBiclustering(2, random_state=0).fit(X)


def command(*words: str) -> str:
    """Run the command in this process; its files are the result."""
    done = CliRunner().invoke(app, words, prog_name="blockmix", obj="blockmix")
    if done.exit_code:
        sentence = done.stderr.strip().splitlines()[-1:] or [""]
        clear = isinstance(done.exception, SystemExit) and sentence[0].startswith("blockmix: ")
        raise OSError(sentence[0]) if clear else RuntimeError(f"{done.exception!r} {sentence[0]}")
    return ""


def labels(model: Any) -> list[int]:
    return list(model.predict(fitted()[0]).tolist())


def refit(checkpoint: str | None = None) -> list[int]:
    X, model = fitted()
    return labels(GaussianBiclustering(**model.get_params()).fit(X, checkpoint=checkpoint))


def saved() -> list[int]:
    fitted()[1].save("model")
    return labels(blockmix.load("model"))


OUT = ("fit", "table.csv", "--components", "2", "--out", "out")
OPERATIONS: dict[str, Callable[[], Any]] = {
    "save": saved,
    "load": lambda: labels(blockmix.load("old/model.blockmix")),
    "checkpoint": lambda: refit("checkpoint"),
    "fit": refit,
    "predict": lambda: labels(fitted()[1]),
    "impute": lambda: fitted()[1].impute(fitted()[0]).tolist(),
    "report": lambda: write_report(fitted()[1], "page.html", fitted()[0]),
    "command fit": lambda: command(*OUT),
    "command fit again": lambda: command(*OUT[:-1], "old", "--seed", "1"),
    "command predict": lambda: command("predict", "old/model.blockmix", "table.csv", "--out", "out"),
    "command impute": lambda: command("impute", "old/model.blockmix", "table.csv", "--out", "full.csv"),
}


@cache
def prepared() -> dict[str, bytes]:
    """Files that an operation finds: a table, an older result, an older model and an older page."""
    with tempfile.TemporaryDirectory() as name, chdir(name):
        head = ",".join("abcd")
        np.savetxt("table.csv", fitted()[0], delimiter=",", header=head, comments="")
        Path("table.csv").write_text(Path("table.csv").read_text().replace("nan", ""))
        command(*OUT[:-1], "old")
        write_report(fitted()[1], "page.html", fitted()[0])
        Path("model").write_bytes(b"old")
        return {str(path): path.read_bytes() for path in sorted(Path().rglob("*")) if path.is_file()}


def tasks(full: bool, runs: int | None) -> list[Task]:
    most = runs or (100_000 if full else 12)  # of one kind: a quick run spreads them over the whole operation
    kinds = [(kind, error) for kind in ("open", "read", "write", *CALLS) for error in ("ENOSPC", "EIO")]
    kinds = [(k, e) for k, e in kinds if full or e == "ENOSPC"] + [("allocation", "memory")]
    writing = [{"operation": o, "kind": k, "error": e, "most": most} for o in OPERATIONS for k, e in kinds]
    # 0: no place for the cache; n: the n-th write to it and all later ones fail. Each compiles for half a minute.
    firsts = (0, 1, 3) if full else (0,)
    return [{"operation": "first fit", "kind": "cache", "error": str(n), "most": 1} for n in firsts] + writing


def run(task: Task) -> Task:
    """Number of faults of one kind in one operation, and what broke, by the number of the fault."""
    if task["kind"] == "cache":
        return uncached(task["error"])
    operate = OPERATIONS[task["operation"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fault, right, _, written = once(operate, task, NEVER)
        events = list(fault.chains.values()) or list(range(1, fault.count + 1))
        numbers = sorted({events[int(i)] for i in np.linspace(0, len(events) - 1, min(len(events), task["most"]))})
        broken = {}
        for n in numbers:
            fault, result, error, after = once(operate, task, n)
            problems = problems_of(error, after, done=after == written)
            if error is None and not (after == written and result == right):
                problems.append("another result")
            if problems:
                broken[str(n)] = "; ".join(problems)[:300]
    return {"faults": len(numbers), "broken": broken}


def problems_of(error: BaseException | None, after: dict[str, str], done: bool) -> list[str]:
    """What is wrong with the files after an operation that ended with this error, or well, and did its work or not."""
    problems = [f"left {path}" for path in after if ".part" in path or Path(path).name.startswith(".")]
    problems += ["a checkpoint that resumes to another result"] if after.get("checkpoint") == "other" else []
    if error is not None:
        before = {path: digest_of(content) for path, content in prepared().items()}
        touched = {path for path in before | after if before.get(path) != after.get(path)} - {"checkpoint"}
        problems += [f"changed {path}" for path in sorted(touched) if not done]
        if not isinstance(error, ERRORS) or not str(error).strip() or "\n" in str(error).strip():
            problems.append(f"{type(error).__name__}: {error}")
    return problems


def once(operate: Callable[[], Any], task: Task, n: int) -> tuple[Fault, Any, BaseException | None, dict[str, str]]:
    """Run the operation with its n-th event failing: the fault, the result, the error and the files afterwards."""
    with tempfile.TemporaryDirectory() as name, chdir(name):
        for path, content in prepared().items():
            Path(path).parent.mkdir(exist_ok=True)
            Path(path).write_bytes(content)
        fault, result, error = Fault(task["kind"], task["error"], n, Path(name)), None, None
        with fault.injected():
            try:
                result = operate()
            except BaseException as caught:
                error = caught
        after = {str(path): digest_of(path.read_bytes()) for path in Path().rglob("*") if path.is_file()}
        if "checkpoint" in after:
            after["checkpoint"] = resumed()
        return fault, result, error, after


def resumed() -> str:
    """Whether the checkpoint that was left can be resumed, to the same result."""
    try:
        return "whole" if refit("checkpoint") == labels(fitted()[1]) else "other"
    except ValueError:
        return "other"


def digest_of(content: bytes) -> str:
    return hashlib.sha1(DATED.sub(b"", content)).hexdigest()


def uncached(first: str) -> Task:
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        words = [sys.executable, "-W", "ignore", "-c", CACHE, first]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    last = (done.stderr.strip().splitlines() or [""])[-1]
    return {"faults": 1, "broken": {} if done.returncode == 0 else {first: last[:300]}}
