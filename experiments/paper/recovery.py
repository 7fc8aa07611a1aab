"""Recovery of the column groups of Σ_A and Σ_B against the number of rows (paper, figures 2 and 3)."""

from __future__ import annotations

import time
import warnings
from typing import Any

from matplotlib.ticker import FixedLocator, NullLocator

from blockmix import BlockDiagonalCovariance
from blockmix.grouping import HierarchicalGrouping
from experiments import designs
from experiments.figures import curves, save, sheet
from experiments.harness import Task, arguments, mean_by, run, show, write
from experiments.metrics import adjusted_rand

METHODS = {
    "greedy": {"n_groups": 3, "grouping": "greedy"},
    "relaxed": {"n_groups": 3, "grouping": "relaxed", "random_state": 0},
    "hierarchical, profile": {"n_groups": 3, "grouping": HierarchicalGrouping(distance="profile")},
    "hierarchical, 1-|R|": {"n_groups": 3},
    "hierarchical, K by auto": {"n_groups": "auto"},
}
DESIGNS = {"A": designs.sigma_a, "B": designs.sigma_b}


def recover(task: Task) -> dict[str, float]:
    design = DESIGNS[task["design"]]()
    X = design.sample(task["N"], task["seed"])
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BlockDiagonalCovariance(**METHODS[task["method"]]).fit(X)
    milliseconds = 1e3 * (time.process_time() - start)
    return {
        "exact": float(design.partition == model.partition_),
        "ari": adjusted_rand(design.partition, model.partition_),
        "three_groups": float(model.n_groups_ == 3),
        "ms": milliseconds,
    }


# What the paper says about its hierarchical approach.
PAPER = {
    "A": "the paper, hierarchical: “100 % starting from 100 data\npoints” and “> 90 % even with N = 50” (dashed)",
    "B": "the paper gives no numbers: “the hierarchical approach\nleads in terms of both efficiency and accuracy”",
}


def draw(table: list[Task], options: Any) -> None:
    runs = table[0]["runs"]
    title = rf"Column groups of the 8 × 8 covariances $\Sigma_A$ and $\Sigma_B$, mean of {runs} runs"
    figure, axes = sheet(2, 2, title, (6.4, 3.8))
    for i, name in enumerate(DESIGNS):
        lines = [line for line in table if line["design"] == name]
        signs = "no negative covariances" if name == "A" else "covariances of both signs"
        accuracy, time_ = axes[i]
        curves(accuracy, lines, "N", "exact", factor=100)
        if name == "A":
            accuracy.axhline(90, color="gray", linestyle="--", linewidth=1)
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8}
        accuracy.text(0.99, 0.04, PAPER[name], ha="right", fontsize=8, transform=accuracy.transAxes, bbox=box)
        low = 100 * min(line["exact"] for line in lines) - 18  # room for the note
        accuracy.set(title=rf"$\Sigma_{name}$ ({signs})", ylabel="all groups right, % of runs", ylim=(low, 103))
        curves(time_, lines, "N", "ms")
        time_.set(title=rf"$\Sigma_{name}$: time of a fit", ylabel="processor time, ms", yscale="log")
        time_.yaxis.set_major_locator(FixedLocator([1, 2, 5, 10, 20, 50, 100]))
        time_.yaxis.set_major_formatter("{x:g}")
        time_.yaxis.set_minor_locator(NullLocator())
        for ax in axes[i]:
            ax.set_xlabel("number of rows N")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    save(figure, "recovery", options)


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
    draw(table, options)


if __name__ == "__main__":
    main()
