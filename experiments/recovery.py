"""Recovery of the column groups of Σ_A and Σ_B against the number of rows (paper, figures 2 and 3)."""

from __future__ import annotations

import time
import warnings

from harness import Task, arguments, mean_by, run, show, write

from blockmix import BlockDiagonalCovariance
from blockmix.datasets import simulated
from blockmix.grouping import HierarchicalGrouping
from blockmix.metrics import adjusted_rand, exact_recovery

METHODS = {
    "greedy": {"n_groups": 3, "grouping": "greedy"},
    "relaxed": {"n_groups": 3, "grouping": "relaxed", "random_state": 0},
    "hierarchical, profile": {"n_groups": 3, "grouping": HierarchicalGrouping(distance="profile")},
    "hierarchical, 1-|R|": {"n_groups": 3},
    "penalized": {"n_groups": 3, "grouping": "penalized"},
    "auto": {"n_groups": "auto"},
    "bic, penalized": {"n_groups": "bic", "grouping": "penalized"},
}
DESIGNS = {"A": simulated.sigma_a, "B": simulated.sigma_b}


def recover(task: Task) -> dict[str, float]:
    design = DESIGNS[task["design"]]()
    X = design.sample(task["N"], task["seed"])
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = BlockDiagonalCovariance(**METHODS[task["method"]]).fit(X)
    milliseconds = 1e3 * (time.perf_counter() - start)
    return {
        "exact": float(exact_recovery(design.partition, found.partition_)),
        "ari": adjusted_rand(design.partition, found.partition_),
        "three_groups": float(found.n_groups_ == 3),
        "ms": milliseconds,
    }


def main() -> None:
    options = arguments(__doc__)
    runs = options.runs or (200 if options.full else 20)
    tasks = [
        {"design": design, "method": method, "N": N, "seed": seed}
        for design in DESIGNS
        for method in METHODS
        for N in (50, 80, 100, 200, 500, 800, 1600)
        for seed in range(runs)
    ]
    table = mean_by(
        run("recovery", recover, tasks, options), ["design", "method", "N"], ["exact", "ari", "three_groups", "ms"]
    )
    show(table)
    write("recovery", table, options)


if __name__ == "__main__":
    main()
