"""Output: the folder of results, standard streams, signals and messages."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numba
import pytest
from commands import (
    MIXTURE,
    command,
    fails,
    files_below,
    in_a_terminal,
    large_csv,
    lines_of,
    process,
    run,
    summary_of,
)

from blockmix import GaussianBiclustering
from blockmix.command import output
from blockmix.command.fit import compile_loops

FIT = ("fit", "wine.csv", "--components", "2", "--out", "out")


# The folder of results


def test_predictions_leave_the_fit_alone(wine_csv: str, wine_model: str) -> None:
    before = files_below("out")
    run("predict", wine_model, wine_csv, "--out", "out/new.csv")
    after = files_below("out")
    assert set(after) - set(before) == {"out/new.csv"}
    assert before.items() <= after.items()
    run("fit", wine_csv, "--components", "2", "--out", "out")
    assert {path.name for path in Path("out").iterdir()} == MIXTURE | {"new.csv"}


def test_files_of_the_user_are_refused_or_stay(wine_csv: str) -> None:
    shutil.copy(wine_csv, "selection.csv")
    assert fails("fit", wine_csv, "--components", "2", "--out", ".").startswith(
        ". has a selection.csv that is not the result of an earlier run of this kind: give another folder"
    )
    Path("selection.csv").rename("topics.csv")  # of another kind of run
    before = files_below(".")
    run("fit", wine_csv, "--components", "2", "--out", ".")
    assert before.items() <= files_below(".").items()
    assert ". has a model.blockmix that is not the result" in fails("covariance", wine_csv, "--out", ".")
    # A summary that lists files of the user does not make them ours.
    Path("mine").mkdir()
    Path("mine/wine.csv").write_text("a,b\n1,2\n")
    Path("mine/summary.json").write_text('{"kind": "mixture", "files": ["wine.csv", "summary.json", "../wine.csv"]}')
    before = {path: content for path, content in files_below(".").items() if path.endswith("wine.csv")}
    run("fit", wine_csv, "--components", "2", "--out", "mine")
    assert before.items() <= files_below(".").items()


@pytest.mark.parametrize("summary", ["", "[]", "{}", '{"kind": "mixture", "files": 3}'])
def test_a_summary_of_someone_else_owns_nothing(summary: str) -> None:
    Path("out").mkdir()
    Path("out/summary.json").write_text(summary)
    with pytest.raises(ValueError, match=r"out has a summary\.json that is not the result"):
        output._replaceable(Path("out"), "mixture", ())


def test_an_input_is_never_replaced(wine_csv: str, wine_model: str) -> None:
    sentence = "out/rows.csv is an input and would be replaced: give another folder with --out"
    Path("link.csv").symlink_to("out/rows.csv")
    for file in ("out/rows.csv", "link.csv"):
        assert fails("fit", file, "--components", "1", "--out", "out") == sentence
    Path("out/rows.csv").unlink()
    Path("out/rows.csv").mkdir()
    assert "out has a rows.csv that is not the result" in fails("fit", wine_csv, "--components", "2", "--out", "out")


def test_links_and_files_in_the_place_of_the_folder(wine_csv: str) -> None:
    Path("dangling").symlink_to("nowhere")
    for out in (wine_csv, "dangling"):
        sentence = fails("fit", wine_csv, "--out", out)
        assert sentence == f"{out} is not a folder: give a folder for the results with --out"
    assert "wine.csv/below cannot be written to" in fails("fit", wine_csv, "--out", "wine.csv/below")
    Path("real").mkdir()
    Path("link").symlink_to("real")
    run("fit", wine_csv, "--components", "2", "--out", "link")
    assert {path.name for path in Path("real").iterdir()} == MIXTURE
    assert Path("link").is_symlink()


def test_a_failed_swap_leaves_everything_as_it_was() -> None:
    # The last move fails: a file cannot take the place of a folder.
    for name in ("out/rows.csv/mine", "out/model.blockmix", "new/model.blockmix", "new/columns.csv", "new/rows.csv"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(name)
    before = files_below(".")
    with pytest.raises(OSError):
        output._swap(Path("new"), Path("out"), ["model.blockmix"])
    Path("new/old").rmdir()
    assert files_below(".") == before


def test_cells_that_look_like_formulas_are_disarmed() -> None:
    names = ["=HYPERLINK(1)", "+x", "-5", "@a", "-1+2", "a=b", "-1.5e3"]
    lines = "\n".join(f"{name},{i},{i * i % 5}" for i, name in enumerate(names))
    Path("names.csv").write_text(f"id,=cmd|x,b\n{lines}\n")
    run("fit", "names.csv", "--components", "1", "--out", "out")
    safe = ["'=HYPERLINK(1)", "'+x", "-5", "'@a", "'-1+2", "a=b", "-1.5e3"]
    assert [line["id"] for line in lines_of("out/rows.csv")] == safe
    assert [line["column"] for line in lines_of("out/columns.csv")] == ["'=cmd|x", "b"]
    assert run("predict", "out/model.blockmix", "names.csv").stdout == Path("out/rows.csv").read_text()


# Standard streams


def redirected(redirection: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a shell with a redirection such as >&-."""
    shell = ["sh", "-c", f'exec "$@" {redirection}', "sh"]
    return subprocess.run([*shell, *command(*arguments)], capture_output=True, text=True)


def test_a_terminal_that_shows_only_ascii(wine_csv: str) -> None:
    table = Path(wine_csv).read_text().replace("w0,", "größe,").replace("alcohol,", "größe,")
    name = os.fsdecode(b"w\xff.csv")  # not text
    Path(name).write_text(table, encoding="utf-8")
    assert json.loads(run("fit", name, *FIT[2:], "--json").stdout) == summary_of("out")
    assert summary_of("out")["file"] == name
    done = process("predict", "out/model.blockmix", name, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert done.stdout.splitlines()[1].startswith("gr\\xf6\\xdfe,")


@pytest.mark.parametrize("inside", [False, True])
def test_folders_of_killed_processes_are_removed_and_no_others(inside: bool) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    out = Path("out")
    place = out if inside else Path()
    place.mkdir(exist_ok=True)
    with output.folder(Path("other"), "mixture") as scratch:
        name = scratch.name.replace(str(os.getpid()), str(gone.pid))
        kept = [scratch.name.replace(output._HOST, "elsewhere"), name.replace("-", "+"), name.replace(".part", ".py")]
        for each in (name, *kept):
            place.joinpath(each).mkdir()
            place.joinpath(each, "rows.csv").touch()
        swapping = place / name.replace(str(gone.pid), f"0{gone.pid}")  # the same number, as another name
        (swapping / "old").mkdir(parents=True)
        with output.folder(out, "mixture"):
            assert scratch.is_dir()
            assert not place.joinpath(name).exists()
            assert all(place.joinpath(each).is_dir() for each in (*kept, swapping.name))


@pytest.mark.parametrize(
    ("redirection", "warning"),
    [
        ("> /dev/full", "warning: standard output cannot be written to (No space left on device)"),
        ("<&- >&- 2>&-", None),
    ],
)
def test_results_that_are_written_are_a_success(redirection: str, warning: str | None, wine_csv: str) -> None:
    done = redirected(redirection, *FIT)
    assert done.returncode == 0
    assert {path.name for path in Path("out").iterdir()} == MIXTURE
    if warning is not None:
        assert warning in done.stderr.splitlines()


def test_results_that_go_nowhere_are_an_error(wine_model: str) -> None:
    done = redirected(">&-", "predict", wine_model, "wine.csv")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "blockmix: standard output cannot be written to (it is closed)"
    done = redirected("<&-", "fit", "-")
    assert done.stderr == "blockmix: standard input is empty\n"


def test_a_reader_that_stops_is_no_error(wine_model: str) -> None:
    with subprocess.Popen(
        command("predict", wine_model, "wine.csv"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as started:
        assert started.stdout is not None and started.stderr is not None
        started.stdout.close()  # before anything is printed
        errors = started.stderr.read()
    assert started.returncode == 0, errors
    assert b"Traceback" not in errors and b"Exception" not in errors


def test_a_terminal_shows_bars_with_the_time_left() -> None:
    arguments = ("fit", large_csv(), "--components", "1:2", "--max-iter", "3", "--out", "out")
    screen, code = in_a_terminal(*arguments)
    assert code == 0, screen
    assert re.search(r"reading large.csv .* \d+% [-\d:]+ left", screen)
    assert re.search(r"comparing models.* \d+% [-\d:]+ left", screen)
    assert "writing the report" in screen


# Messages and signals


def test_a_bug_is_one_sentence_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blockmix.command.fit.fit_demo", lambda options, line: {}["inside"])
    assert fails("demo").startswith("this is a bug, please report it (KeyError: 'inside')")
    monkeypatch.setenv("BLOCKMIX_TRACEBACK", "1")
    assert isinstance(run("demo", code=1).exception, KeyError)


def test_ctrl_c_before_the_first_result_leaves_nothing() -> None:
    file = large_csv()
    arguments = ("fit", file, "--components", "9:12", "--out", "out")
    screen, code = in_a_terminal(*arguments, until="iteration")
    assert code == 130, screen
    assert "blockmix: interrupted, nothing was written" in screen
    assert "Traceback" not in screen
    assert [path.name for path in Path().iterdir()] == [file]


def test_a_terminated_process_leaves_nothing() -> None:
    file = large_csv()
    arguments = ("fit", file, "--components", "2:9", "--out", "out")
    started = subprocess.Popen(command(*arguments), stderr=subprocess.PIPE)
    while not list(Path().glob(".blockmix-*.part")):
        assert started.poll() is None
        time.sleep(0.01)
    started.terminate()
    _, stderr = started.communicate()
    assert started.returncode == 128 + signal.SIGTERM, stderr
    assert b"Traceback" not in stderr
    assert [path.name for path in Path().iterdir()] == [file]


def test_a_fit_says_once_that_it_compiles(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # Two types, so two compilations; the next fit has both.
    plus = numba.njit(lambda x: x + 1)
    monkeypatch.setattr(GaussianBiclustering, "fit", lambda self, X: plus(1) + plus(1.0))
    announced = []
    for _ in range(2):
        compile_loops()
        announced.append(capsys.readouterr().err)
    assert announced == ["compiling (once)\n", ""]


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Signals are handled as in the command, and exceptions that nobody can catch are not reported."""
    monkeypatch.setattr(sys, "unraisablehook", lambda error: None)
    monkeypatch.setattr(output, "signals", [])
    before = {number: signal.signal(number, output.end) for number in (signal.SIGINT, *output.ENDING)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def dropped(number: int) -> None:
    """A signal that arrives in a callback of C code, as those of LLVM are: its exception goes nowhere."""
    ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(number))()


@pytest.mark.usefixtures("handled")
@pytest.mark.parametrize("number", [signal.SIGINT, *output.ENDING])
def test_a_signal_while_compiling_is_not_lost(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GaussianBiclustering, "fit", lambda self, X: dropped(number))
    with pytest.raises(KeyboardInterrupt if number == signal.SIGINT else SystemExit) as raised:
        compile_loops()
    assert number == signal.SIGINT or raised.value.code == 128 + number


@pytest.mark.usefixtures("handled")
@pytest.mark.parametrize("number", output.ENDING)
def test_nothing_is_written_after_a_signal_that_ends_the_process(number: int, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as raised, output.folder(tmp_path / "out", "mixture") as scratch:
        (scratch / "summary.json").write_text("{}")
        dropped(number)
    assert raised.value.code == 128 + number
    assert list(tmp_path.iterdir()) == []
