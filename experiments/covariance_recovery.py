"""Recovery of a 12 × 12 block-diagonal covariance, positive and negative (paper, figure 4 and appendix A)."""

from __future__ import annotations

import warnings

import numpy as np
from harness import Task, arguments, mean_by, run, show, write
from sklearn.covariance import EmpiricalCovariance, GraphicalLassoCV, LedoitWolf

from blockmix import BlockDiagonalCovariance
from blockmix.datasets import simulated
from blockmix.metrics import frobenius_loss, mape, stein_loss

METHODS = {
    "empirical": EmpiricalCovariance(),
    "Ledoit-Wolf": LedoitWolf(),
    "graphical lasso": GraphicalLassoCV(),
    "hierarchical": BlockDiagonalCovariance(3),
    "hierarchical, auto": BlockDiagonalCovariance(),
}
DESIGNS = {"positive": simulated.covariance_positive, "negative": simulated.covariance_negative}


def recover(task: Task) -> dict[str, float]:
    design = DESIGNS[task["design"]]()
    X = design.sample(300, task["seed"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimate = np.asarray(METHODS[task["method"]].fit(X).covariance_)
    return {
        "mape": mape(design.covariance, estimate),
        "frobenius": frobenius_loss(design.covariance, estimate),
        "stein": stein_loss(design.covariance, estimate),
    }


def main() -> None:
    options = arguments(__doc__)
    tasks = [
        {"design": design, "method": method, "seed": seed}
        for design in DESIGNS
        for method in METHODS
        for seed in range(10)
    ]
    rows = run("covariance_recovery", recover, tasks, options)
    table = mean_by(rows, ["design", "method"], ["mape", "frobenius", "stein"])
    show(table)
    write("covariance_recovery", table, options)


if __name__ == "__main__":
    main()
