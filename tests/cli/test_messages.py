"""How a command ends when something goes wrong: one sentence, an exit code, and nothing left behind."""

from __future__ import annotations

import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest
import typer
from commands import command, in_a_terminal, large_csv, summary_of

from blockmix.cli.messages import errors_reported


def test_a_bug_is_one_sentence_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(typer.Exit) as ended, errors_reported():
        raise KeyError("inside")
    assert ended.value.exit_code == 1
    assert "please report it (KeyError: 'inside')" in capsys.readouterr().err
    monkeypatch.setenv("BLOCKMIX_TRACEBACK", "1")
    with pytest.raises(KeyError), errors_reported():
        raise KeyError("inside")


def test_ctrl_c_before_the_first_result_leaves_nothing() -> None:
    file = large_csv()
    arguments = ("fit", file, "--components", "9:12", "--init", "kmeans", "--out", "out")
    seen, code = in_a_terminal(*arguments, until="iteration")
    assert code == 130, seen
    assert "blockmix: interrupted, nothing was written" in seen
    assert "Traceback" not in seen
    assert [path.name for path in Path().iterdir()] == [file]


def test_ctrl_c_keeps_the_best_so_far() -> None:
    # As the estimator does; red if an interrupted fit were taken for a finished one.
    file = large_csv()
    arguments = ("fit", file, "--components", "9", "--init", "kmeans", "--out", "out")
    seen, code = in_a_terminal(*arguments, until=": kmeans")
    assert code == 130, seen
    assert "warning: interrupted after" in seen
    assert "blockmix: interrupted, the best model so far was written" in seen
    assert "Traceback" not in seen
    assert summary_of("out")["outcome"] == "interrupted"
    assert not list(Path().glob(".blockmix-*"))


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
    assert started.returncode == 128 + number, stderr
    assert b"Traceback" not in stderr
    assert [path.name for path in Path().iterdir()] == [file]
