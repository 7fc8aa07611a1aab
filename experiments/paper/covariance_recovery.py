"""Recovery of a 12 × 12 block-diagonal covariance, positive and negative (paper, figure 4 and appendix A).

Mean and standard deviation of the estimates as heat maps; MAPE as the paper has it, whose denominator is a signed sum,
and the Frobenius and Stein losses beside it.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components
from sklearn.covariance import EmpiricalCovariance, GraphicalLassoCV, LedoitWolf

from blockmix import BlockDiagonalCovariance, FactorBiclustering, Partition
from blockmix.grouping import HierarchicalGrouping
from experiments import designs
from experiments.figures import matrix, save, sheet
from experiments.harness import Task, arguments, mean_by, run, show, write
from experiments.losses import frobenius_loss, mape, stein_loss

METHODS = {
    "empirical": EmpiricalCovariance(),
    "Ledoit-Wolf": LedoitWolf(),
    "graphical lasso": GraphicalLassoCV(),
    "hierarchical, profile": BlockDiagonalCovariance(3, grouping=HierarchicalGrouping(distance="profile")),
    "hierarchical, 1-|R|": BlockDiagonalCovariance(3),
    "hierarchical, auto": BlockDiagonalCovariance(),
    "UCUU": FactorBiclustering(1, 3),
    "UIUU": FactorBiclustering(1, 3, model="UIUU"),
}
DRAWN = ("empirical", "Ledoit-Wolf", "graphical lasso", "hierarchical, profile", "UCUU")  # the five of the paper
DESIGNS = {"positive": designs.covariance_positive, "negative": designs.covariance_negative}


def recover(task: Task) -> dict[str, Any]:
    design = DESIGNS[task["design"]]()
    X = design.sample(300, task["seed"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = METHODS[task["method"]].fit(X)
    estimate = fitted.covariances_[0] if isinstance(fitted, FactorBiclustering) else np.asarray(fitted.covariance_)
    _, blocks = connected_components(np.abs(estimate) > 1e-12)
    return {
        "exact": float(design.partition == Partition(blocks)),
        "mape": mape(design.covariance, estimate),
        "frobenius": frobenius_loss(design.covariance, estimate),
        "stein": stein_loss(design.covariance, estimate),
        "estimate": estimate.tolist(),
    }


def draw(rows: list[Task], table: list[Task], options: Any) -> None:
    """A row of matrices per design: the truth and the mean estimates; then the deviations of the estimates."""
    runs = table[0]["runs"]
    means, mean_axes = sheet(
        2, 6, f"12 × 12 covariance, N = 300: the truth and mean estimates of {runs} runs", (2.9, 2.9)
    )
    title = f"12 × 12 covariance, N = 300: standard deviations of the estimates over {runs} runs"
    deviations, deviation_axes = sheet(2, 5, title, (2.9, 2.9))
    for i, (name, design) in enumerate(DESIGNS.items()):
        matrix(mean_axes[i, 0], design().covariance, f"{name}: the truth", (-4.5, 4.5), "RdBu_r")
        for j, method in enumerate(DRAWN):
            estimates = [row["estimate"] for row in rows if row["design"] == name and row["method"] == method]
            error = next(line["mape"] for line in table if line["design"] == name and line["method"] == method)
            shown = f"{method}\nMAPE {error:.0f} %"
            mean = matrix(mean_axes[i, j + 1], np.mean(estimates, axis=0), shown, (-4.5, 4.5), "RdBu_r")
            deviation = matrix(
                deviation_axes[i, j], np.std(estimates, axis=0), f"{name}: {method}", (0, 0.6), "viridis"
            )
    means.colorbar(mean, ax=mean_axes, label="covariance", shrink=0.7)
    deviations.colorbar(deviation, ax=deviation_axes, label="standard deviation of the covariance", shrink=0.7)
    save(means, "covariance_recovery", options)
    save(deviations, "covariance_recovery_sd", options)


def main() -> None:
    options = arguments(__doc__)
    tasks = [
        {"design": design, "method": method, "seed": seed}
        for design in DESIGNS
        for method in METHODS
        for seed in range(options.runs or 10)
    ]
    rows = run("covariance_recovery", recover, tasks, options)
    table = mean_by(rows, ["design", "method"], ["exact", "mape", "frobenius", "stein"])
    show(table)
    write("covariance_recovery", table, options)
    draw(rows, table, options)


if __name__ == "__main__":
    main()
