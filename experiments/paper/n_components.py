"""The number of components chosen by BIC, covariances block-diagonal and general (paper, figure 7, appendix B)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.mixture import GaussianMixture

from blockmix import GaussianBiclustering, select
from blockmix.grouping import HierarchicalGrouping
from experiments import designs
from experiments.figures import curves, save, sheet
from experiments.harness import Task, arguments, mean_by, run, show, write

SIZES = (30, 50, 100, 200, 500)
SCENARIOS = {"block": "Block-diagonal covariances", "general": "General covariances"}
SETTINGS = {
    "authors' settings": {"n_column_groups": 3, "grouping": HierarchicalGrouping(distance="profile"), "max_iter": 20},
    "blockmix, K = 3": {"n_column_groups": 3},
    "blockmix, auto": {},
}
SELECT = "blockmix, select"  # sets fits with components of too few rows aside; the others take the smallest BIC
METHODS = (*SETTINGS, SELECT, "GMM")


def fitted(method: str, G: int, X: np.ndarray, seed: int) -> GaussianBiclustering | GaussianMixture:
    if method == "GMM":
        return GaussianMixture(G, random_state=seed, n_init=1).fit(X)
    return GaussianBiclustering(G, random_state=seed, **SETTINGS[method]).fit(X)


def choose(task: Task) -> dict[str, float]:
    rng = np.random.RandomState(task["seed"])
    design = designs.components_block() if task["scenario"] == "block" else designs.components_random(rng)
    X, _ = design.sample(task["rows"], rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if task["method"] == SELECT:
            chosen = select(X, range(1, 6), random_state=task["seed"]).best_estimator_.n_components
            return {"G": float(chosen), "right": float(chosen == 3)}
        criteria = [fitted(task["method"], G, X, task["seed"]).bic(X) for G in range(1, 6)]
    chosen = int(np.argmin(criteria)) + 1
    return {"G": float(chosen), "right": float(chosen == 3)}


def draw(table: list[Task], options: Any) -> None:
    title = f"Number of components chosen by BIC among 1…5 (true number 3), {table[0]['runs']} runs"
    figure, axes = sheet(2, 2, title, (6, 3.6))
    for j, (scenario, label) in enumerate(SCENARIOS.items()):
        lines = [line for line in table if line["scenario"] == scenario]
        average, right = axes[:, j]
        curves(average, lines, "rows", "G", deviations=True)
        average.axhline(3, color="gray", linestyle="--", linewidth=1)
        average.set(title=label, ylabel="chosen G, mean ± standard deviation")
        curves(right, lines, "rows", "right", factor=100)
        right.set(title=f"{label}: accuracy", ylabel="G = 3 chosen, % of runs", ylim=(-3, 103))
        for ax in axes[:, j]:
            ax.set_xlabel("rows per component")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    save(figure, "n_components", options)


def main() -> None:
    options = arguments(__doc__)
    runs = options.runs or (100 if options.full else 10)
    tasks = [
        {"scenario": scenario, "rows": rows, "method": method, "seed": seed}
        for scenario in SCENARIOS
        for rows in SIZES
        for method in METHODS
        for seed in range(runs)
    ]
    table = mean_by(run("n_components", choose, tasks, options), ["scenario", "rows", "method"], ["G", "right"])
    show(table)
    write("n_components", table, options)
    draw(table, options)


if __name__ == "__main__":
    main()
