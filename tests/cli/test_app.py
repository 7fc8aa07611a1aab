"""The command as a whole: usage, help, start and standard input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from commands import command, run, wine


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit",),
        ("fit", "wine.csv", "--components", "none"),
        ("fit", "wine.csv", "--components", "3:1"),
        ("fit", "wine.csv", "--groups", "many"),
        ("fit", "wine.csv", "--init", "wish"),
        ("fit", "wine.csv", "--shrinkage", "2"),
        ("covariance", "wine.csv", "--groups", "2:4"),
        ("topics", "wine.csv"),
        ("fot", "wine.csv"),
        ("fit", "wine.csv", "--nonsense"),
        ("fit", "wine.csv", "--out", ""),
        ("report", "out/model.blockmix", "--out", ""),
        ("fit", "wine.csv", "--components", "1:100000000000"),
        ("fit", "wine.csv", "--top-variance", "0"),
    ],
)
def test_usage_errors_have_exit_code_2(arguments: tuple[str, ...], wine_csv: str) -> None:
    done = run(*arguments, code=2)
    assert done.stdout == ""
    assert "Error: " in done.stderr
    assert [path.name for path in Path().iterdir()] == [wine_csv]


@pytest.mark.parametrize("command", ["fit", "covariance", "select", "topics", "predict", "report", "demo"])
def test_every_help_has_examples(command: str) -> None:
    text = run(command, "--help").stdout
    assert f"\n    blockmix {command}" in text.partition("Examples:")[2]


def test_a_missing_extra_is_named() -> None:
    code = "import sys; sys.modules['typer'] = None; from blockmix.cli import main; main([])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "blockmix: typer is needed and not installed: pip install 'blockmix[app]'\n"


def test_help_imports_nothing_heavy() -> None:
    code = """
import atexit, sys
from blockmix.cli import main
atexit.register(lambda: print(*{name.partition(".")[0] for name in sys.modules}, file=sys.stderr))
main(["--help"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert "typer" in loaded
    assert not loaded & {"pandas", "matplotlib", "sklearn", "scipy", "numpy", "pyarrow", "anndata"}


def test_standard_input_and_a_quiet_pipe() -> None:
    text = wine().to_csv(index=False, sep="\t")
    arguments = ("fit", "-", "--components", "2", "--label", "kind", "--json", "--out", "out")
    done = subprocess.run(command(*arguments), input=text, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["file"] == "standard input"
    assert done.stderr == "row names: id\n"


def test_the_installed_command_is_this_one() -> None:
    pyproject = Path(__file__).parents[2] / "pyproject.toml"
    module, _, name = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["scripts"]["blockmix"].partition(
        ":"
    )
    assert callable(getattr(import_module(module), name))


def test_completion_knows_the_commands() -> None:
    asked = {"_BLOCKMIX_COMPLETE": "complete_bash", "COMP_WORDS": "blockmix co", "COMP_CWORD": "1"}
    done = subprocess.run(command(), env=os.environ | asked, capture_output=True, text=True)
    assert done.stdout.split() == ["covariance"]
