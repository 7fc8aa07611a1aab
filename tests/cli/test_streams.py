"""Standard streams that are closed, full or narrow: a fit that is written has not failed."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from commands import MIXTURE, command, process, summary_of

FIT = ("fit", "wine.csv", "--components", "2", "--out", "out")


def redirected(redirection: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a shell with a redirection such as >&-."""
    shell = ["sh", "-c", f'exec "$@" {redirection}', "sh"]
    return subprocess.run([*shell, *command(*arguments)], capture_output=True, text=True)


def assert_written() -> None:
    assert {path.name for path in Path("out").iterdir()} == MIXTURE


def test_a_terminal_that_shows_only_ascii(wine_csv: str) -> None:
    environment = {"env": os.environ | {"PYTHONIOENCODING": "ascii"}}
    done = process(*FIT, **environment)
    assert done.returncode == 0, done.stderr
    assert "178 rows \\xd7 13 numeric columns" in done.stdout
    table = Path(wine_csv).read_text().replace("w0,", "größe,").replace("alcohol,", "größe,")
    Path(wine_csv).write_text(table, encoding="utf-8")
    done = process(*FIT, "--json", **environment)
    assert json.loads(done.stdout) == summary_of("out")
    done = process("predict", "out/model.blockmix", wine_csv, **environment)
    assert done.returncode == 0
    assert done.stdout.splitlines()[1].startswith("gr\\xf6\\xdfe,")


def test_a_file_name_that_is_not_text(wine_csv: str) -> None:
    name = os.fsdecode(b"w\xff.csv")
    Path(wine_csv).rename(name)
    done = process("fit", name, *FIT[2:])
    assert done.returncode == 0, done.stderr
    assert summary_of("out")["file"] == name


@pytest.mark.parametrize(
    ("redirection", "warning"),
    [
        ("> /dev/full", "warning: standard output cannot be written to (No space left on device)"),
        (">&-", "warning: standard output cannot be written to (it is closed)"),
        ("<&-", "row names: id"),
        ("2>&-", None),
        ("2> /dev/full", None),
        ("<&- >&- 2>&-", None),
    ],
)
def test_results_that_are_written_are_a_success(redirection: str, warning: str | None, wine_csv: str) -> None:
    done = redirected(redirection, *FIT)
    assert done.returncode == 0
    assert_written()
    if warning is not None:
        assert warning in done.stderr.splitlines()


@pytest.mark.parametrize(
    ("redirection", "reason"), [("> /dev/full", "No space left on device"), (">&-", "it is closed")]
)
def test_results_that_go_nowhere_are_an_error(redirection: str, reason: str, wine_model: str) -> None:
    for arguments in (("predict", wine_model, "wine.csv"), (*FIT, "--json")):
        done = redirected(redirection, *arguments)
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1] == f"blockmix: standard output cannot be written to ({reason})"


def test_a_closed_standard_input_is_empty() -> None:
    done = redirected("<&-", "fit", "-")
    assert done.returncode == 1
    assert done.stderr == "blockmix: standard input is empty\n"


@pytest.mark.parametrize(
    "arguments", [FIT, (*FIT, "--json"), ("--help",), ("predict", "out/model.blockmix", "wine.csv")]
)
def test_a_reader_that_stops_is_no_error(arguments: Any, wine_model: str) -> None:
    with subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        assert started.stdout is not None and started.stderr is not None
        started.stdout.close()  # before anything is printed
        errors = started.stderr.read()
    assert started.returncode == 0, errors
    assert b"Traceback" not in errors and b"Exception" not in errors
    assert_written()
