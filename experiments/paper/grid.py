"""The (p, K) grid at N = 50, with the number of groups known and unknown (paper, figure 6)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from blockmix import BlockDiagonalCovariance
from blockmix.grouping import HierarchicalGrouping, SilhouetteRule
from experiments import designs
from experiments.figures import matrix, save, sheet
from experiments.harness import Task, arguments, mean_by, run, show, write
from experiments.metrics import adjusted_rand, matched_accuracy

METHODS = ("ours, K known", "ours, auto", "ours, silhouette", "paper, K known", "paper, silhouette")
SCORES = {"accuracy": "columns in the right group", "exact": "all groups right"}


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
    design = designs.block_grid(task["p"], task["K"], rng)
    X = design.sample(50, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BlockDiagonalCovariance(**settings(task["method"], task["K"])).fit(X)
    return {
        "accuracy": matched_accuracy(design.partition, model.partition_),
        "exact": float(design.partition == model.partition_),
        "ari": adjusted_rand(design.partition, model.partition_),
        "found": float(model.n_groups_),
    }


def draw(table: list[Task], options: Any) -> None:
    """The paper's 3 × 3 heat maps, a column of them for each method; p from left to right, K from top to bottom."""
    title = f"Column groups at N = 50 for p = 24, 96, 384 columns in K groups, mean of {table[0]['runs']} runs"
    figure, axes = sheet(2, len(METHODS), title, (3.3, 3.2))
    for j, method in enumerate(METHODS):
        lines = [line for line in table if line["method"] == method]
        for i, (score, label) in enumerate(SCORES.items()):
            values = np.array([line[score] for line in lines]).reshape(3, 3).T
            image = matrix(axes[i, j], values, f"{method}\n{label}", (0, 1), "viridis", digits=3)
            axes[i, j].set_xticks(range(3), ["p = 24", "p = 96", "p = 384"])
            axes[i, j].set_yticks(range(3), ["K = 3, 4, 8", "K = 6, 8, 16", "K = 12, 16, 32"] if j == 0 else [])
            if j == 0:
                axes[i, j].set_ylabel("few, more, many groups (K for p = 24, 96, 384)", fontsize=8)
    figure.colorbar(image, ax=axes, label="share (of columns above, of runs below)", shrink=0.7)
    save(figure, "grid", options)


def main() -> None:
    options = arguments(__doc__)
    runs = options.runs or (500 if options.full else 10)
    tasks = [
        {"p": p, "K": K, "method": method, "seed": seed}
        for p, K in designs.GRID
        for method in METHODS
        for seed in range(runs)
    ]
    table = mean_by(run("grid", recover, tasks, options), ["p", "K", "method"], ["accuracy", "exact", "ari", "found"])
    show(table)
    write("grid", table, options)
    draw(table, options)


if __name__ == "__main__":
    main()
