"""Rows from disk and on a cluster: memory, time per sweep, growth with N, and Dask against threads.

    python benchmarks/scale.py                  # all of it; 1.6 GB of scratch in a temporary folder
    python benchmarks/scale.py disk --rows 1e6  # fewer rows
    python benchmarks/scale.py dask --folder .  # scratch elsewhere; it is removed at the end

"disk" fits N × 20 float32 rows from a .npy file in a process of its own, whose peak memory the system tells, and times
one sweep against reading the file through NumPy once (by megabytes, or whole with `np.load`) plus matrix products of
the same flops: one large product, or products of the shape that a sweep has, 60 × 20 times 20 × 52428 and back. "dask"
times one sweep of 4 000 000 × 20 rows on two single-threaded processes against the same rows in memory on two threads.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from turns import in_turns

P, G, K = 20, 3, 4
YARDSTICKS = {
    "large": "read by megabytes + one large product",
    "loaded": "np.load + one large product",
    "alike": "read by megabytes + products of a sweep's shape",
}


def planted(n: int, seed: int) -> np.ndarray:
    """Rows of three components, each with four groups of five columns of its own."""
    rng = np.random.default_rng(seed)
    shape = np.random.default_rng(0)
    X = rng.standard_normal((n, P), dtype=np.float32)
    labels = rng.integers(0, G, n)
    for g in range(G):
        rows, groups = labels == g, shape.permutation(P) % K
        factors = rng.standard_normal((int(rows.sum()), K), dtype=np.float32)
        X[rows] += 1.5 * factors[:, groups] + shape.standard_normal(P).astype(np.float32)
    return X


def write(path: Path, n: int) -> None:
    from numpy.lib import format as npy

    with path.open("wb") as stream:
        npy.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": (n, P)})
        for first in range(0, n, 500_000):
            stream.write(planted(min(500_000, n - first), seed=first + 1).data)


def read_once(path: Path) -> None:
    """The file through NumPy, by megabytes, as a program that only reads would do."""
    with path.open("rb") as stream:
        stream.seek(128)
        while np.fromfile(stream, np.float32, 2**18).size:
            pass


def one_product(n: int) -> None:
    """Matrix products with the flops of a sweep: whitening and scatter of p × p for each row and component."""
    chunk = 2**20 // P
    A = np.ones((P * G, P), np.float32)
    B = np.ones((P, chunk), np.float32)
    out = np.empty((P * G, chunk), np.float32)
    back = np.empty((P * G, P), np.float32)
    for _ in range(n // chunk):
        np.matmul(A, B, out=out)
        np.matmul(out, B.T, out=back)


def large_product(n: int) -> None:
    """One product with as many flops, of a shape at which the machine is fastest."""
    inner = max(1, round(4 * n * G * P**2 / (2 * 2000**2)))
    A, B = np.ones((2000, 4000), np.float32), np.ones((4000, 2000), np.float32)
    for first in range(0, inner, 4000):
        left = min(4000, inner - first)
        A[:, :left] @ B[:left]


def on_threads(n: int) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from blockmix.rows import one_blas_thread

    cores = os.cpu_count() or 1
    with one_blas_thread(), ThreadPoolExecutor(cores) as pool:
        list(pool.map(one_product, [n // cores] * cores))


def child(path: Path) -> None:
    """Fit the file, then time sweeps of the fitted parameters; figures go to standard output."""
    from blockmix import GaussianBiclustering
    from blockmix.em.sweep import sweep
    from blockmix.rows import one_blas_thread, opened

    warnings.simplefilter("ignore")
    beats: list[float] = []
    start = time.perf_counter()
    model = GaussianBiclustering(G, K, random_state=0, max_iter=6)
    model.fit(path, callback=lambda progress: beats.append(time.perf_counter()))
    whole = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    rows = opened(path).measured()
    parameters = model._parameters.in_units(-rows.location / rows.scale, 1 / rows.scale)

    def ours() -> None:
        with one_blas_thread():
            sweep(rows, parameters)

    def large() -> None:
        read_once(path)
        large_product(rows.n_rows)

    def loaded() -> None:
        np.load(path)
        large_product(rows.n_rows)

    def alike() -> None:
        read_once(path)
        on_threads(rows.n_rows)

    told = {"peak": peak, "fit": whole}
    turns = [[timed(work) for work in (ours, large, loaded, alike)] for _ in range(5)]
    for name, wall, cpu in zip(("sweep", *YARDSTICKS), *np.min(turns, axis=0).T, strict=True):
        told[name], told[f"{name} cpu"] = wall, cpu
    print(json.dumps(told))


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock and of the processor; others on the machine change the first, hardly the second."""
    start, busy = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - busy


def disk(folder: Path, most: int) -> None:
    before: tuple[int, dict[str, float]] | None = None
    for n in (most // 20, most // 4, most):
        path = folder / "rows.npy"
        write(path, n)
        found = json.loads(subprocess.check_output([sys.executable, __file__, "child", "--folder", str(path)]))
        print(f"{n:,} x {P} float32, {path.stat().st_size / 1e9:.2f} GB: peak memory of the fit {found['peak']:.2f} GB")
        print(f"  6 iterations with first look, start and labels {found['fit']:.1f} s; a sweep {found['sweep']:.2f} s")
        for name, words in YARDSTICKS.items():
            ratio, cpu = found["sweep"] / found[name], found["sweep cpu"] / found[f"{name} cpu"]
            print(f"  {words} {found[name]:.2f} s: {ratio:.1f} x, of processor time {cpu:.1f} x")
        if before is not None:
            wall, cpu = (found[name] / before[1][name] / (n / before[0]) for name in ("sweep", "sweep cpu"))
            print(
                f"  growth of a sweep from {before[0]:,}: {wall:.2f} of linear, of processor time {cpu:.2f}", flush=True
            )
        before = n, found
        path.unlink()


def cluster(n: int) -> None:
    import dask.array as da
    from distributed import Client, LocalCluster

    from blockmix import GaussianBiclustering
    from blockmix.em.sweep import sweep
    from blockmix.rows import ArrayRows, one_blas_thread, opened

    warnings.simplefilter("ignore")
    X = planted(n, 1)
    model = GaussianBiclustering(G, K, random_state=0, max_iter=4).fit(X)
    here = ArrayRows.of(X).measured()
    parameters = model._parameters.in_units(-here.location / here.scale, 1 / here.scale)
    address = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**address) as local, Client(local):
        there = opened(da.from_array(X, chunks=(n // 16, P)).persist()).measured()

        def ours() -> None:
            sweep(there, parameters)

        def theirs() -> None:
            with one_blas_thread():
                sweep(here, parameters)

        ours()
        a, b, ratio = in_turns(ours, theirs, 9)
        gap = np.abs(sweep(there, parameters).excess - sweep(here, parameters).excess).max() / n
        print(
            f"{n:,} x {P} float32: sweep by Dask on 2 processes of 1 thread {a:.2f} s, in memory on {here.n_threads} "
            f"threads {b:.2f} s: {ratio:.2f} x; means differ by {gap:.1e} deviations"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["disk", "dask"])
    parser.add_argument("--rows", type=float, default=20e6)
    parser.add_argument("--folder", type=Path, default=None)
    asked = parser.parse_args()
    if asked.what == ["child"]:
        child(asked.folder)
        return
    with tempfile.TemporaryDirectory(dir=asked.folder) as scratch:
        if "disk" in asked.what:
            disk(Path(scratch), int(asked.rows))
    if "dask" in asked.what:
        cluster(int(min(asked.rows, 4e6)))


if __name__ == "__main__":
    main()
