"""Memory and time of `blockmix fit` and `blockmix predict` on a large file.

    python benchmarks/command_memory.py [--rows 5000000] [--columns 30] [--kind parquet] [--folder DIR]

The file (float32, three row clusters, five column groups) is made first and removed at the end. Parquet, Arrow and npy
are read in pieces: the fit runs in full, is killed by SIGKILL midway and resumed from its checkpoint, and is
interrupted by SIGINT. A csv is read whole, so its fit runs once.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

CHUNK = 100_000
WRITERS = {".parquet": parquet.ParquetWriter, ".arrow": pa.ipc.new_file, ".csv": csv.CSVWriter}


def batches(n_rows: int, n_columns: int) -> pa.RecordBatch:
    rng = np.random.default_rng(0)
    names = [f"c{j}" for j in range(n_columns)]
    centers = 0.9 * rng.standard_normal((3, n_columns))
    for first in range(0, n_rows, CHUNK):
        n = min(CHUNK, n_rows - first)
        labels = rng.integers(3, size=n)
        factors = np.repeat(rng.standard_normal((n, 5)), -(-n_columns // 5), axis=1)[:, :n_columns]
        X = (centers[labels] + factors + rng.standard_normal((n, n_columns))).astype(np.float32)
        classes = pa.array(np.array(["a", "b", "c"])[labels])
        yield pa.record_batch([*map(pa.array, X.T), classes], names=[*names, "cluster"])


def make(path: Path, n_rows: int, n_columns: int) -> None:
    if path.suffix == ".npy":
        mapped = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, n_columns))
        for i, batch in enumerate(batches(n_rows, n_columns)):
            columns = [column.to_numpy() for column in batch.columns[:-1]]
            mapped[i * CHUNK : i * CHUNK + batch.num_rows] = np.stack(columns).T
        return
    writer = None
    for batch in batches(n_rows, n_columns):
        if writer is None:
            writer = WRITERS[path.suffix](path, batch.schema)
        writer.write_batch(batch)
    writer.close()


class Command:
    """A run of the command, and its seconds, peak memory and exit code."""

    def __init__(self, *arguments: str) -> None:
        self._begin = time.perf_counter()
        words = [sys.executable, "-m", "blockmix", *arguments]
        listening = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a run in the background ignores Ctrl-C
        settings = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, "preexec_fn": listening}
        self.process = subprocess.Popen(words, **settings)

    def ended(self, name: str) -> int:
        """Wait for the end and print a line."""
        said = self.process.stderr.read().splitlines()
        _, status, usage = os.wait4(self.process.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        seconds, peak = time.perf_counter() - self._begin, usage.ru_maxrss * 1024 / 1e9
        print(f"{name}: exit code {code}, {seconds:.0f} s, peak {peak:.2f} GB; {said[-1] if said else ''}", flush=True)
        return code


def written(checkpoint: Path) -> int:
    """When the checkpoint was last written, 0 if it does not exist."""
    return checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0


def wait_for(checkpoint: Path, changes: int) -> None:
    """Wait until the checkpoint has been written that many times."""
    count, last = 0, written(checkpoint)
    while count < changes:
        time.sleep(0.01)
        if (now := written(checkpoint)) != last:
            count, last = count + 1, now


def summary(folder: str, name: str) -> None:
    """Print the quality of a fit and the size of its page."""
    figures = json.loads(Path(folder, name, "summary.json").read_text())
    size = Path(folder, name, "report.html").stat().st_size / 1e6
    ari = "" if figures["ari"] is None else f"ARI {figures['ari']:.3f}, "
    print(f"{name}: {ari}{figures['outcome']}, {figures['iterations']} iterations; page {size:.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--columns", type=int, default=30)
    parser.add_argument("--kind", choices=["parquet", "arrow", "npy", "csv"], default="parquet")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        file, saved = Path(folder, f"large.{given.kind}"), Path(folder, "fit.checkpoint")
        make(file, given.rows, given.columns)
        print(f"{given.rows} × {given.columns} {given.kind}: {file.stat().st_size / 1e9:.2f} GB", flush=True)
        label = () if given.kind == "npy" else ("--label", "cluster")
        fit = ("fit", str(file), *label, "--components", "3", "--checkpoint", str(saved), "--out")
        if given.kind == "csv":
            fit = tuple(word for word in fit if word not in ("--checkpoint", str(saved)))
        assert Command(*fit, f"{folder}/whole").ended("fit") == 0
        model = f"{folder}/whole/model.blockmix"
        assert Command("predict", model, str(file), "--out", f"{folder}/new").ended("predict") == 0
        if given.kind == "csv":
            summary(folder, "whole")
            return
        killed = Command(*fit, f"{folder}/resumed")
        wait_for(saved, 3)
        killed.process.kill()
        assert killed.ended("killed after 3 iterations") == -signal.SIGKILL
        assert Command(*fit, f"{folder}/resumed").ended("resumed") == 0
        same = [Path(folder, name, "rows.csv").read_bytes() for name in ("whole", "resumed")]
        print(f"resumed rows.csv is that of the whole fit: {same[0] == same[1]}")
        interrupted = Command(*fit, f"{folder}/interrupted")
        wait_for(saved, 3)
        interrupted.process.send_signal(signal.SIGINT)
        assert interrupted.ended("Ctrl-C after 3 iterations") == 130
        for name in ("whole", "resumed", "interrupted"):
            summary(folder, name)


if __name__ == "__main__":
    main()
