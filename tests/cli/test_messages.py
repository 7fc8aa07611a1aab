"""How a command ends when something goes wrong: one sentence, an exit code, and nothing left behind."""

from __future__ import annotations

import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest
import typer
from commands import command, in_a_terminal, large_csv

from blockmix.cli.messages import errors_reported


def test_a_bug_is_one_sentence_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(typer.Exit) as ended, errors_reported():
        raise KeyError("inside")
    assert ended.value.exit_code == 1
    assert "please report it (KeyError: 'inside')" in capsys.readouterr().err
    monkeypatch.setenv("BLOCKMIX_TRACEBACK", "1")
    with pytest.raises(KeyError), errors_reported():
        raise KeyError("inside")


@pytest.mark.parametrize(("components", "until"), [("2:9", "iteration"), ("9", ": random")])
def test_ctrl_c_leaves_nothing(components: str, until: str) -> None:
    # The estimator keeps its best parameters after an interrupt; red if the command wrote them as a result.
    file = large_csv()
    arguments = ("fit", file, "--components", components, "--init", "random", "--out", "out")
    seen, code = in_a_terminal(*arguments, until=until)
    assert code == 130, seen
    assert "blockmix: interrupted, nothing was written" in seen
    assert "Traceback" not in seen
    assert [path.name for path in Path().iterdir()] == [file]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminated_process_leaves_nothing(number: signal.Signals) -> None:
    file = large_csv()
    arguments = ("fit", file, "--components", "2:9", "--init", "random", "--out", "out")
    unignored = partial(signal.signal, number, signal.SIG_DFL)  # tests under nohup ignore SIGHUP
    started = subprocess.Popen(command(*arguments), stderr=subprocess.PIPE, preexec_fn=unignored)
    while not list(Path().glob(".blockmix-*.part")):
        assert started.poll() is None
        time.sleep(0.01)
    started.send_signal(number)
    _, stderr = started.communicate()
    assert started.returncode == 128 + number
    assert b"Traceback" not in stderr
    assert [path.name for path in Path().iterdir()] == [file]
