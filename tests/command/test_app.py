"""The command as a whole: usage, help, start."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from commands import command, run, wine

from blockmix import GaussianBiclustering, select
from blockmix.command.options import RULES, Criterion


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit",),
        ("fit", "wine.csv", "--components", "none"),
        ("fit", "wine.csv", "--components", "3:1"),
        ("fit", "wine.csv", "--components", "1:100000000000"),
        ("fit", "wine.csv", "--groups", "many"),
        ("fit", "wine.csv", "--tails", "wide"),
        ("fit", "wine.csv", "--shrinkage", "2"),
        ("fit", "wine.csv", "--figures", "bmp"),
        ("fit", "wine.csv", "--checkpoint", "a.checkpoint"),  # of several fits
        ("fit", "wine.csv", "--nonsense"),
        ("covariance", "wine.csv", "--groups", "2:4"),
        ("topics", "wine.csv", "--topics", "many"),
        ("fot", "wine.csv"),
    ],
)
def test_usage_errors_have_exit_code_2(arguments: tuple[str, ...], wine_csv: str) -> None:
    done = run(*arguments, code=2)
    assert done.stdout == ""
    assert "Error: " in done.stderr
    assert [path.name for path in Path().iterdir()] == [wine_csv]


@pytest.mark.parametrize("name", ["fit", "covariance", "topics", "predict", "impute", "demo"])
def test_every_help_has_examples(name: str) -> None:
    assert f"\n    blockmix {name}" in run(name, "--help").stdout.partition("Examples:")[2]


def test_a_newcomer_sees_seven_options() -> None:
    # Red if an option is added without a decision who needs it.
    first, _, others = run("fit", "--help").stdout.partition("\nAdvanced:\n")
    first = first.partition("\nOptions:\n")[2]
    names = re.findall(r"^  (?:-h, )?(--[a-z-]+)", first, re.MULTILINE)
    assert names == ["--label", "--components", "--append", "--figures", "--drop", "--missing", "--out", "--help"]
    assert "--seed" in others and "--stability" in others


def test_the_library_takes_the_names_that_the_command_offers() -> None:
    X = np.random.default_rng(0).standard_normal((20, 3))
    for rule in RULES:
        GaussianBiclustering(1, rule).fit(X)
    for criterion in get_args(Criterion):
        select(X, 1, criterion=criterion)


def test_a_missing_extra_is_named() -> None:
    code = "import sys; sys.modules['typer'] = None; from blockmix.command import main; main([])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "blockmix: typer is needed and not installed: pip install 'blockmix[app]'\n"


def test_help_imports_nothing_heavy() -> None:
    code = """
import atexit, sys
from blockmix.command import main
atexit.register(lambda: print(*{name.partition(".")[0] for name in sys.modules}, file=sys.stderr))
main(["--help"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert "typer" in loaded
    assert not loaded & {"pandas", "matplotlib", "sklearn", "scipy", "numpy", "pyarrow", "anndata"}


def test_standard_input_in_small_pieces_and_a_quiet_pipe() -> None:
    content = wine().to_csv(index=False, sep="\t").encode()
    arguments = ("fit", "-", "--components", "2", "--label", "kind", "--json", "--out", "out")
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command(*arguments), **pipes) as started:
        assert started.stdin is not None and started.stdout is not None and started.stderr is not None
        for first in range(0, len(content), 1000):
            started.stdin.write(content[first : first + 1000])
            started.stdin.flush()
        started.stdin.close()
        assert json.loads(started.stdout.read())["file"] == "standard input"
        assert started.stderr.read() == b"row names: id\n"
