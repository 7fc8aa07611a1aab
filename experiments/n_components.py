"""The number of components chosen by BIC, covariances block-diagonal and general (paper, figure 7, appendix B)."""

from __future__ import annotations

import warnings

import numpy as np
from harness import Task, arguments, mean_by, run, show, write
from sklearn.mixture import GaussianMixture

from blockmix import GaussianBiclustering
from blockmix.datasets import simulated

SIZES = (30, 50, 100, 200, 500)
METHODS = ("blockmix, K = 3", "blockmix, auto", "GMM")


def fitted(method: str, G: int, X: np.ndarray, seed: int) -> GaussianBiclustering | GaussianMixture:
    if method == "GMM":
        return GaussianMixture(G, random_state=seed, n_init=1).fit(X)
    groups = 3 if method.endswith("3") else "auto"
    return GaussianBiclustering(G, groups, random_state=seed).fit(X)


def choose(task: Task) -> dict[str, float]:
    rng = np.random.RandomState(task["seed"])
    design = simulated.components_block() if task["scenario"] == "block" else simulated.components_random(rng)
    X, _ = design.sample(task["rows"], rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        criteria = [fitted(task["method"], G, X, task["seed"]).bic(X) for G in range(1, 6)]
    found = int(np.argmin(criteria)) + 1
    return {"G": float(found), "right": float(found == 3)}


def main() -> None:
    options = arguments(__doc__)
    runs = 100 if options.full else 10
    tasks = [
        {"scenario": scenario, "rows": rows, "method": method, "seed": seed}
        for scenario in ("block", "general")
        for rows in SIZES
        for method in METHODS
        for seed in range(runs)
    ]
    table = mean_by(run("n_components", choose, tasks, options), ["scenario", "rows", "method"], ["G", "right"])
    show(table)
    write("n_components", table, options)


if __name__ == "__main__":
    main()
