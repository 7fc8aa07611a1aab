"""The folder of results: complete or untouched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import MIXTURE, fails, files_below, run, wine


def test_an_output_folder_that_is_a_file(wine_csv: str) -> None:
    assert fails("fit", wine_csv, "--out", wine_csv) == "wine.csv is a file: give a folder for the results with --out"
    assert "wine.csv/below cannot be written to: give another" in fails("fit", wine_csv, "--out", "wine.csv/below")


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """A folder that a user without rights may read but not write; root itself may always write."""
    folder = Path(tempfile.mkdtemp())
    (folder / "wine.csv").write_text(wine().to_csv(index=False))
    (folder / "secret.csv").write_text("a,b\n1,2\n")
    (folder / "secret.csv").chmod(0o000)
    (folder / "out").mkdir()
    (folder / "out" / "rows.csv").write_text("old")
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    folder.chmod(0o555)
    (folder / "out").chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)
        (folder / "out").chmod(0o755)
        shutil.rmtree(folder)


def test_no_permission_to_write(as_nobody: Path) -> None:
    for out in (as_nobody / "new", as_nobody / "out"):
        done = run("fit", str(as_nobody / "wine.csv"), "--components", "2", "--out", str(out), code=1)
        assert done.stderr == f"blockmix: {out} cannot be written to: give another folder with --out\n"
    assert (as_nobody / "out" / "rows.csv").read_text() == "old"


def test_a_table_that_may_not_be_read_is_named(as_nobody: Path) -> None:
    file = as_nobody / "secret.csv"
    done = run("fit", str(file), "--out", str(as_nobody / "open" / "out"), code=1)
    assert done.stderr == f"blockmix: {file}: Permission denied\n"


def test_results_replace_the_old_ones_only_when_they_are_complete(wine_csv: str) -> None:
    run("fit", wine_csv, "--components", "1:2", "--out", "out")
    Path("out/mine.txt").write_text("notes")
    before = files_below(".")
    # The largest file that the process may write is smaller than the report.
    limit = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); "
    code = limit + "from blockmix.cli import main; main(sys.argv[1:])"
    arguments = ("fit", wine_csv, "--components", "3", "--out", "out")
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == 1 and "File too large" in done.stderr
    assert files_below(".") == before
    run(*arguments)
    # selection.csv described another model; mine.txt is not ours to remove.
    assert {path.name for path in Path("out").iterdir()} == MIXTURE | {"mine.txt"}
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []
