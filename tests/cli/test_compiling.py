"""The first fit on a machine compiles; the command says so, once. Signals that arrive meanwhile are not lost."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blockmix.cli import signals
from blockmix.cli.compiling import compile_loops
from blockmix.cli.results import folder
from blockmix.estimators.gaussian import GaussianBiclustering


def test_the_first_fit_says_that_it_compiles_and_the_next_does_not(tmp_path: Path) -> None:
    # Red if the cache is not used: each run would compile again.
    table = tmp_path / "table.csv"
    table.write_text("a,b,c\n" + "".join(f"{i % 7},{i * i % 11},{i % 3 + i / 9}\n" for i in range(40)))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    said = []
    for out in ("one", "two"):
        command = [
            sys.executable,
            "-m",
            "blockmix",
            "fit",
            str(table),
            "--components",
            "2",
            "--out",
            str(tmp_path / out),
        ]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        said.append("compiling (once)" in done.stderr)
    assert said == [True, False]
    assert any((tmp_path / "cache").rglob("*.nbi"))


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Signals are handled as in the command, and exceptions that nobody can catch are not reported."""
    monkeypatch.setattr(sys, "unraisablehook", lambda error: None)
    monkeypatch.setattr(signals, "_arrived", [])
    defaults = {signal.SIGINT: signal.default_int_handler, **dict.fromkeys(signals.ENDING, signal.SIG_DFL)}
    before = {number: signal.signal(number, default) for number, default in defaults.items()}
    signals.handle_signals()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def dropped(number: int) -> None:
    """A signal that arrives in a callback of C code, as those of LLVM are: its exception goes nowhere."""
    ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(number))()


@pytest.mark.usefixtures("handled")
@pytest.mark.parametrize("number", [signal.SIGINT, *signals.ENDING])
def test_a_signal_while_compiling_is_not_lost(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(self: Any, X: Any) -> None:
        dropped(number)

    monkeypatch.setattr(GaussianBiclustering, "fit", fit)
    with pytest.raises(KeyboardInterrupt if number == signal.SIGINT else SystemExit) as raised:
        compile_loops()
    assert number == signal.SIGINT or raised.value.code == 128 + number


@pytest.mark.usefixtures("handled")
@pytest.mark.parametrize("number", signals.ENDING)
def test_nothing_is_written_after_a_signal_that_ends_the_process(number: int, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as raised, folder(tmp_path / "out", "mixture") as scratch:
        (scratch / "summary.json").write_text("{}")
        dropped(number)
    assert raised.value.code == 128 + number
    assert list(tmp_path.iterdir()) == []
