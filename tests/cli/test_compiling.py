"""The first fit on a machine compiles; the command says so, once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


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
    assert said[0]
    assert any((tmp_path / "cache").rglob("*.nbi"))
