"""Time of a default fit against another edition of the package, in turns: two processes that stay alive and alternate.

    git worktree add ../first d04caf7                             # the first edition
    OMP_NUM_THREADS=1 python benchmarks/editions.py ../first      # all tables, or some of them: ... Wine large

Olive and Ecoli need the data folder (experiments/README.md). "wide" is 100 × 2000 in three clusters, "large"
50 000 × 200 in five components of 20 blocks. Ratios of processor and wall time are medians over the turns; each turn
has a seed of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import turns  # noqa: F401

from experiments import data

TABLES = {"Wine": (3, 20), "Olive": (3, 20), "Ecoli": (8, 20), "wide": (3, 5), "large": (5, 3)}  # components, turns


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name in ("wide", "large"):
        return planted(100, 2000, 3, 80) if name == "wide" else planted(50_000, 200, 5, 20)
    bunch = getattr(data, f"load_{name.lower()}")()
    return bunch.data, bunch.target


def planted(n: int, p: int, G: int, blocks: int) -> tuple[np.ndarray, np.ndarray]:
    """Components that differ in a tenth of the columns, each with equal blocks of its own, r = 0.4."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, G, n)
    X = np.sqrt(0.6) * rng.standard_normal((n, p))
    for g in range(G):
        rows = np.flatnonzero(y == g)
        common = np.repeat(rng.standard_normal((len(rows), blocks)), p // blocks, axis=1)
        X[rows] += np.sqrt(0.4) * common[:, rng.permutation(p)]
        X[np.ix_(rows, rng.choice(p, p // 10, replace=False))] += 1.2
    return X, y


def work() -> None:
    """Fit a table and a seed for each line of standard input; print processor time, wall time and ARI."""
    from sklearn.metrics import adjusted_rand_score

    from blockmix import GaussianBiclustering

    warnings.simplefilter("ignore")
    loaded: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for line in sys.stdin:
        name, seed = line.split()
        if name not in loaded:
            loaded = {name: table(name)}
        X, y = loaded[name]
        model = GaussianBiclustering(TABLES[name][0], random_state=int(seed))
        cpu, wall = time.process_time(), time.perf_counter()
        model.fit(X)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        print(cpu, wall, adjusted_rand_score(y, model.row_labels_), flush=True)


class Edition:
    """A process that fits with the package of a checkout."""

    def __init__(self, checkout: Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
        command = [sys.executable, __file__, "--work"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)

    def fit(self, name: str, seed: int) -> list[float]:
        """Processor time, wall time and ARI of one fit."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(name, seed, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"the fit of {name} failed")
        return [float(value) for value in answer.split()]


def main() -> None:
    other, *names = sys.argv[1:]
    editions = Edition(Path(__file__).parents[1]), Edition(Path(other).resolve())
    for name in names or TABLES:
        for edition in editions:
            edition.fit(name, 0)  # compiles, and reads the table
        seeds = range(1, TABLES[name][1] + 1)
        figures = np.array([[edition.fit(name, seed) for edition in editions] for seed in seeds])
        (cpu, wall, ari), (its_cpu, its_wall, its_ari) = np.median(figures, axis=0)
        ratios = np.median(figures[:, 0, :2] / figures[:, 1, :2], axis=0)
        print(
            f"{name}: processor {1e3 * cpu:.0f} ms against {1e3 * its_cpu:.0f}, {ratios[0]:.2f} x; "
            f"wall {1e3 * wall:.0f} against {1e3 * its_wall:.0f}, {ratios[1]:.2f} x; ARI {ari:.2f} and {its_ari:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    work() if "--work" in sys.argv else main()
