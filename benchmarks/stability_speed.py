"""Time of `stability`: 100 resamples of the columns of large tables, and all of Wine with 25 refits.

    python benchmarks/stability_speed.py

Bars: 10 000 × 40 in 0.5 s, 100 000 × 100 in 2 s, Wine in 3 s. Printed are the least wall and processor seconds of three
runs, after one that compiles, and the mean share of `again`, so that the speed comes with what it found.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_wine

from blockmix import GaussianBiclustering


def planted(n: int, p: int, size: int = 5) -> np.ndarray:
    """Rows of independent groups of `size` columns with correlation 0.5."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, p)) + np.repeat(rng.standard_normal((n, p // size)), size, axis=1)


def timed(model: Any, X: Any, n_resamples: int, n_refits: int) -> tuple[float, float, Any]:
    times = []
    for _ in range(3):
        wall, processor = time.perf_counter(), time.process_time()
        found = model.stability(X, n_resamples, n_refits, random_state=0)
        times.append((time.perf_counter() - wall, time.process_time() - processor))
    return (*np.min(times, axis=0).tolist(), found)


def main() -> None:
    warnings.simplefilter("ignore")
    small = planted(300, 10)
    GaussianBiclustering(2, random_state=0).fit(small).stability(small, 2, 1)
    for n, p, bar in ((10_000, 40, 0.5), (100_000, 100, 2.0)):
        X = planted(n, p)
        model = GaussianBiclustering(1).fit(X)
        wall, processor, found = timed(model, X, 100, 0)
        again = np.mean([group.again for group in found.groups])
        print(f"{n} x {p}: {wall:.2f} s, {processor:.2f} s of processor time (bar {bar}); mean again {again:.2f}")
    X = load_wine().data
    wall, processor, found = timed(GaussianBiclustering(3, random_state=0).fit(X), X, 100, 25)
    least = min(cluster.stability for cluster in found.clusters)
    print(f"Wine: {wall:.2f} s, {processor:.2f} s of processor time (bar 3); least stable cluster {least:.2f}")


if __name__ == "__main__":
    main()
