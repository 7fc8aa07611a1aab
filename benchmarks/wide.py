"""Many more columns than rows: peak memory and time of the default fits, each in a process of its own.

    python benchmarks/wide.py                    # 100 rows of 5000, 10 000 and 20 000 columns
    python benchmarks/wide.py 20000 --rows 200   # other sizes
    python benchmarks/wide.py 5000 --only covariance

Half of the columns form modules of 50 with one factor each, in either of two components of as many rows, a tenth of the
columns differ in the mean, and the rest is noise. "matrices" is the peak in units of p × p numbers of double precision.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
import warnings

import numpy as np

MODULE = 50
FITS = ("mixture", "covariance")


def planted(n: int, p: int) -> np.ndarray:
    """Rows of two components with modules of their own."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    for rows in np.array_split(np.arange(n), 2):
        for columns in np.array_split(rng.permutation(p)[: p // 2], max(1, p // 2 // MODULE)):
            X[np.ix_(rows, columns)] += rng.standard_normal((len(rows), 1))
    X[: n // 2, : p // 10] += 1.5
    return X


def fit(name: str, n: int, p: int) -> None:
    """Fit in this process and print its figures; a small fit first compiles the kernels."""
    from blockmix import BlockDiagonalCovariance, GaussianBiclustering

    warnings.simplefilter("ignore")
    model = BlockDiagonalCovariance() if name == "covariance" else GaussianBiclustering(2, random_state=0)
    model.fit(planted(50, 1200))
    X = planted(n, p)
    clock, cpu = time.perf_counter(), time.process_time()
    model.fit(X)
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    groups = model.n_groups_ if name == "covariance" else model.n_column_groups_
    print(
        f"{name}, {n} x {p}: peak {peak / 1e9:.2f} GB ({peak / (8 * p * p):.2f} matrices), {clock:.0f} s, "
        f"{cpu:.0f} s of processor time, groups {groups}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("columns", nargs="*", type=int, default=[5000, 10_000, 20_000])
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--only", choices=FITS)
    parser.add_argument("--here", action="store_true", help="fit in this process")
    given = parser.parse_args()
    for p in given.columns:
        for name in FITS if given.only is None else (given.only,):
            if given.here:
                fit(name, given.rows, p)
            else:
                subprocess.run(
                    [sys.executable, __file__, str(p), "--rows", str(given.rows), "--only", name, "--here"], check=True
                )


if __name__ == "__main__":
    main()
