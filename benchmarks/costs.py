"""What single features cost, as ratios of things timed in turns in one process, with the quality beside them.

    OMP_NUM_THREADS=1 python benchmarks/costs.py                # all, or some of them: ... missing tails

- missing: an EM iteration with missing values over one of the complete table.
- tails: a fit with t components over one with normal components from the same start; the bar is 2.2 in the median.
- stability: 100 resamples of large tables (bars 0.5 and 2 s), and Wine with 25 refits (bar 3 s).
- factor: a fit of `FactorBiclustering` to 62 × 2000 over K-means with ten starts.
- covariance: `BlockDiagonalCovariance` over correlation and linkage; a greedy grouping against the literal objective.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform
from sklearn.cluster import KMeans
from sklearn.datasets import load_wine
from turns import in_turns

from blockmix import BlockDiagonalCovariance, FactorBiclustering, GaussianBiclustering
from blockmix.grouping import GreedyGrouping
from experiments.designs import block_grid
from experiments.metrics import adjusted_rand, matched_accuracy
from experiments.studies import robust


def grouped_rows(n: int, p: int, G: int, K: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of G components with K groups of columns each, and their components."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, G, n)
    X = rng.standard_normal((n, p))
    for g in range(G):
        groups, rows = rng.permutation(np.arange(p) % K), labels == g
        X[rows] += 0.8 * rng.standard_normal((rows.sum(), K))[:, groups] + rng.standard_normal(p)
    return X, labels


def iteration_seconds(X: np.ndarray, labels: np.ndarray, G: int, K: int) -> float:
    """Median seconds of an EM iteration, from the callback of a fit."""
    stamps: list[float] = []
    model = GaussianBiclustering(G, K, init=labels, max_iter=8, tol=0)
    model.fit(X, callback=lambda progress: stamps.append(time.perf_counter()))
    return float(np.median(np.diff(stamps)))


def missing() -> None:
    for name, (n, p, G, K) in {"10 blocks": (20_000, 60, 3, 10), "one block": (5000, 200, 2, 1)}.items():
        X, labels = grouped_rows(n, p, G, K)
        for share in (0.01, 0.05, 0.15, 0.3):
            incomplete = np.where(np.random.default_rng(1).random(X.shape) < share, np.nan, X)
            pairs = [[iteration_seconds(rows, labels, G, K) for rows in (incomplete, X)] for _ in range(3)]
            a, b = np.median(pairs, axis=0)
            print(f"{n} x {p}, {name}, {share:.0%} missing: {1e3 * a:.1f} ms against {1e3 * b:.1f} ms: {a / b:.2f} x")


def tails() -> None:
    wine = load_wine()
    X = (wine.data - wine.data.mean(axis=0)) / wine.data.std(axis=0)
    tables = {"Wine": (X, KMeans(3, n_init=10, random_state=0).fit_predict(X), wine.target, 9)}
    for n_rows, turns in ((300, 9), (20_000, 3)):
        for design in robust.DESIGNS:
            X, truth, _, _ = robust.table(design, n_rows, 0)
            tables[f"{design}, {n_rows} rows"] = (X, truth, truth, turns)
    ratios = []
    for name, (X, labels, truth, turns) in tables.items():
        heavy, normal = (GaussianBiclustering(3, tails=kind, init=labels) for kind in ("t", "normal"))
        t, n, ratio = in_turns(lambda m=heavy, X=X: m.fit(X), lambda m=normal, X=X: m.fit(X), turns)
        scores = [adjusted_rand(truth, model.row_labels_) for model in (heavy, normal)]
        print(
            f"{name}: {1e3 * t:.0f} ms against {1e3 * n:.0f} ms, {ratio:.2f} x; iterations {heavy.n_iter_} and "
            f"{normal.n_iter_}; ARI {scores[0]:.2f} and {scores[1]:.2f}"
        )
        ratios.append(ratio)
    print(f"median {np.median(ratios):.2f} x")


def stability() -> None:
    rng = np.random.default_rng(0)
    cases: dict[str, tuple[Any, np.ndarray, int, float]] = {}
    for n, p, bar in ((10_000, 40, 0.5), (100_000, 100, 2.0)):
        X = rng.standard_normal((n, p)) + np.repeat(rng.standard_normal((n, p // 5)), 5, axis=1)
        cases[f"{n} x {p}"] = (GaussianBiclustering(1), X, 0, bar)
    cases["Wine"] = (GaussianBiclustering(3, random_state=0), load_wine().data, 25, 3.0)
    for name, (model, X, n_refits, bar) in cases.items():
        model.fit(X).stability(X, 2, min(n_refits, 1), random_state=0)  # compiles
        times = []
        for _ in range(3):
            wall, processor = time.perf_counter(), time.process_time()
            result = model.stability(X, 100, n_refits, random_state=0)
            times.append((time.perf_counter() - wall, time.process_time() - processor))
        wall, processor = np.min(times, axis=0)
        again = np.mean([group.again for group in result.groups])
        print(f"{name}: {wall:.2f} s, {processor:.2f} s of processor time (bar {bar:g} s); mean again {again:.2f}")


def factor() -> None:
    """Components 0.5 deviations apart: one k-means start finds them, and a wrong optimum would cost iterations."""
    rng = np.random.default_rng(0)
    X, components = np.empty((62, 2000)), np.arange(62) % 2
    for g in range(2):
        factors = rng.standard_normal((31, 5)) * np.sqrt(rng.uniform(0.25, 1, 5))
        noise = rng.standard_normal((31, 2000))
        X[components == g] = rng.normal(0, 0.5, 2000) + factors[:, rng.integers(0, 5, 2000)] + noise
    for letters in ("UCUU", "UUUU"):
        model = FactorBiclustering(2, 5, model=letters, random_state=0)
        kmeans = KMeans(2, n_init=10, random_state=0)
        ours, peer, ratio = in_turns(lambda m=model: m.fit(X), lambda k=kmeans: k.fit(X), 5)
        ari = adjusted_rand(components, model.row_labels_)
        print(
            f"62 x 2000, 5 factors, {letters}: {ours:.3f} s against {peer:.3f} s of K-means, {ratio:.1f} x; "
            f"{model.n_iter_} iterations, ARI {ari:.2f}"
        )


def covariance() -> None:
    design = block_grid(2000, 20, 0)
    X = design.sample(100, 1)

    def peer() -> None:
        linkage(squareform(1 - np.abs(np.corrcoef(X.T)), checks=False), "average")

    for n_groups in (20, "auto"):
        model = BlockDiagonalCovariance(n_groups)
        ours, theirs, ratio = in_turns(lambda m=model: m.fit(X), peer, 5)
        accuracy = matched_accuracy(design.partition, model.partition_)
        print(
            f"100 x 2000, n_groups={n_groups}: {ours:.3f} s, correlation and linkage {theirs:.3f} s, {ratio:.2f} x; "
            f"{model.n_groups_} groups, accuracy {accuracy:.3f}"
        )
    R = np.corrcoef(block_grid(200, 10, 0).sample(1000, 1).T)
    labels = np.arange(200) % 10

    def literal() -> None:
        """The paper's objective of 12 of the 200 columns in each group, by determinant, inverse and trace."""
        for j in range(12):
            for k in range(10):
                labels[j] = k
                masked = R * (labels[:, None] == labels)
                _ = np.linalg.slogdet(masked)[1] + np.trace(np.linalg.solve(masked, R))

    ours, part, _ = in_turns(lambda: GreedyGrouping().group(R, 10, 1000), literal, 3)
    sweep = part * 200 / 12
    print(f"greedy, p=200 K=10: {ours:.3f} s to the end, one literal sweep {sweep:.1f} s, {sweep / ours:.0f} x faster")


COSTS = {"missing": missing, "tails": tails, "stability": stability, "factor": factor, "covariance": covariance}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or COSTS:
        COSTS[name]()
