"""Speed of the covariance estimators, as ratios of things timed in turns in one process with one BLAS thread.

    python benchmarks/covariance_speed.py [--wide]

--wide adds p = 20 000 (two BLAS threads, several GB) and prints its time and peak memory.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import resource
import time
import warnings

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform
from threadpoolctl import threadpool_limits
from turns import in_turns

from blockmix import BlockDiagonalCovariance
from blockmix.blocks.moments import correlation
from blockmix.datasets import simulated
from blockmix.grouping import HierarchicalGrouping
from blockmix.grouping.greedy import MutablePartition, principal_start
from blockmix.metrics import matched_accuracy


def whole_fit() -> None:
    design = simulated.block_grid(2000, 20, 0)
    X = design.sample(100, 1)

    def theirs() -> None:
        distance = 1 - np.abs(np.corrcoef(X.T))
        linkage(squareform(distance, checks=False), "average")

    model = BlockDiagonalCovariance(20)
    ours, peer, times = in_turns(lambda: model.fit(X), theirs, 7)
    quality = matched_accuracy(design.partition, model.partition_)
    print(
        f"p=2000 N=100 K=20: fit {ours:.3f} s, correlation and linkage {peer:.3f} s: {times:.2f} x "
        f"(accuracy {quality:.3f})"
    )
    model = BlockDiagonalCovariance()
    ours, peer, times = in_turns(lambda: model.fit(X), theirs, 3)
    quality = matched_accuracy(design.partition, model.partition_)
    print(f"the same with auto: {ours:.3f} s: {times:.2f} x (found {model.n_groups_}, accuracy {quality:.3f})")


def literal_objective(S: np.ndarray, labels: np.ndarray) -> float:
    """The paper's objective with its determinant, inverse and trace of a p × p matrix."""
    masked = S * (labels[:, None] == labels)
    return -0.5 * np.linalg.slogdet(masked)[1] - 0.5 * np.trace(np.linalg.solve(masked, S))


def greedy_sweep() -> None:
    design = simulated.block_grid(200, 10, 0)
    R = correlation(np.cov(design.sample(1000, 1).T))
    start = principal_start(R, 10)
    found = []

    def ours() -> None:
        groups = MutablePartition(R, start)
        groups.sweep()
        found.append(groups.partition)

    def literal() -> None:
        labels = start.labels.copy()
        for j in range(12):  # a part of the 200 columns, scaled up below: a whole sweep takes minutes
            values = []
            for k in range(10):
                labels[j] = k
                values.append(literal_objective(R, labels))
            labels[j] = int(np.argmax(values))
        assert found[-1].labels[:12].max() < 10

    seconds, part, _ = in_turns(ours, literal, 3)
    print(
        f"greedy sweep p=200 K=10: {seconds:.3f} s, literal {part * 200 / 12:.1f} s: "
        f"{part * 200 / 12 / seconds:.0f} x faster"
    )


def wide(dtype: type, n_groups: int | str) -> None:
    rng = np.random.default_rng(0)
    p, N = 20_000, 100
    factors = rng.standard_normal((N, 200))
    X = (np.repeat(factors, 100, axis=1) + rng.standard_normal((N, p))).astype(dtype)
    start = time.perf_counter()
    model = BlockDiagonalCovariance(n_groups).fit(X)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    quality = matched_accuracy(np.repeat(np.arange(200), 100), model.partition_)
    print(
        f"p=20000 N=100 {np.dtype(dtype).name} n_groups={n_groups}: {seconds:.0f} s, peak so far {peak:.1f} GB, "
        f"{model.n_groups_} groups, accuracy {quality:.3f}",
        flush=True,
    )


def profile_distance() -> None:
    from scipy.spatial.distance import pdist

    design = simulated.block_grid(1000, 20, 0)
    R = correlation(np.cov(design.sample(100, 1).T))
    grouping = HierarchicalGrouping(distance="profile")
    ours, peer, times = in_turns(lambda: grouping.distances(R), lambda: pdist(np.abs(R)), 3)
    print(f"profile distance p=1000: {ours:.3f} s, pdist {peer:.3f} s: {1 / times:.1f} x faster")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--wide", action="store_true")
    warnings.simplefilter("ignore")
    if parser.parse_args().wide:
        with threadpool_limits(2):
            wide(np.float32, 200)
            wide(np.float32, "auto")
            wide(np.float64, 200)
    whole_fit()
    greedy_sweep()
    profile_distance()
