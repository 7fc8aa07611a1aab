"""The (p, K) grid at N = 50, with the number of groups known and unknown (paper, figure 6)."""

from __future__ import annotations

import warnings

import numpy as np
from harness import Task, arguments, mean_by, run, show, write

from blockmix import BlockDiagonalCovariance
from blockmix.datasets import simulated
from blockmix.grouping import HierarchicalGrouping, SilhouetteRule
from blockmix.metrics import adjusted_rand, exact_recovery, matched_accuracy

METHODS = ("ours, K known", "ours, auto", "ours, silhouette", "paper, K known", "paper, silhouette")


def settings(method: str, n_groups: int) -> dict[str, object]:
    paper = {"grouping": HierarchicalGrouping(distance="profile")}
    return {
        "ours, K known": {"n_groups": n_groups},
        "ours, auto": {},
        "ours, silhouette": {"n_groups": "silhouette"},
        "paper, K known": {"n_groups": n_groups, **paper},
        "paper, silhouette": {"n_groups": SilhouetteRule(center=n_groups), **paper},
    }[method]


def recover(task: Task) -> dict[str, float]:
    rng = np.random.RandomState(task["seed"])
    design = simulated.block_grid(task["p"], task["K"], rng)
    X = design.sample(50, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = BlockDiagonalCovariance(**settings(task["method"], task["K"])).fit(X)
    return {
        "accuracy": matched_accuracy(design.partition, found.partition_),
        "exact": float(exact_recovery(design.partition, found.partition_)),
        "ari": adjusted_rand(design.partition, found.partition_),
        "found": float(found.n_groups_),
    }


def main() -> None:
    options = arguments(__doc__)
    runs = options.runs or (500 if options.full else 10)
    tasks = [
        {"p": p, "K": K, "method": method, "seed": seed}
        for p, K in simulated.GRID
        for method in METHODS
        for seed in range(runs)
    ]
    table = mean_by(run("grid", recover, tasks, options), ["p", "K", "method"], ["accuracy", "exact", "ari", "found"])
    show(table)
    write("grid", table, options)


if __name__ == "__main__":
    main()
