"""Memory and time of `blockmix fit` on a large csv, against the size of the file.

    python benchmarks/csv_memory.py [--rows 1000000] [--columns 50] [--folder DIR]

The file is made first (three row clusters, five column groups) and removed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

CHUNK = 50_000


def make(path: Path, n_rows: int, n_columns: int) -> None:
    rng = np.random.default_rng(0)
    names = [*(f"c{j}" for j in range(n_columns)), "cluster"]
    centers = 3 * rng.standard_normal((3, n_columns))
    schema = pa.schema([*((name, pa.float64()) for name in names[:-1]), ("cluster", pa.string())])
    with csv.CSVWriter(path, schema) as writer:
        for first in range(0, n_rows, CHUNK):
            n = min(CHUNK, n_rows - first)
            labels = rng.integers(3, size=n)
            factors = np.repeat(rng.standard_normal((n, 5)), -(-n_columns // 5), axis=1)[:, :n_columns]
            X = np.round(centers[labels] + factors + rng.standard_normal((n, n_columns)), 8)
            arrays = [*map(pa.array, X.T), pa.array(np.array(["a", "b", "c"])[labels])]
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def run(*command: str) -> tuple[float, float]:
    """Seconds and peak memory in bytes of a process."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, f"{command} ended with status {status}"
    return time.perf_counter() - start, usage.ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        file, out = Path(folder, "large.csv"), Path(folder, "out")
        make(file, given.rows, given.columns)
        size = file.stat().st_size
        print(f"{given.rows} × {given.columns} csv: {size / 1e9:.2f} GB", flush=True)
        reading = f"from blockmix.command.reading import read_table; read_table({str(file)!r})"
        fitting = ("-m", "blockmix", "fit", str(file), "--label", "cluster", "--components", "3", "--out", str(out))
        for name, command in {"reading": ("-c", reading), "blockmix fit": fitting}.items():
            seconds, peak = run(*command)
            print(f"{name}: {seconds:.0f} s, peak {peak / 1e9:.2f} GB, {peak / size:.2f} × the file", flush=True)
        found = json.loads((out / "summary.json").read_text())
        page = (out / "report.html").stat().st_size / 1e6
        print(f"ARI {found['ari']:.3f}, {found['outcome']}, {found['iterations']} iterations; page {page:.1f} MB")


if __name__ == "__main__":
    main()
