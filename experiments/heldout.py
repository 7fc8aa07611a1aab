"""What shapes of blocks are worth: held-out log-likelihood per row, and groups of genes in halves of the samples.

The default of `GaussianBiclustering` beside full blocks with groups by BIC, its former default. Simulated: two
components of N rows each, 150 columns, modules of each component's own; 500 new rows of each are scored. Wine, Olive
and Ecoli are scored in five folds. Of Alon and Golub the groups are counted, and those of two halves of the rows are
compared.
"""

from __future__ import annotations

import warnings
from typing import Any

import modules
from harness import Task, arguments, available, mean_by, run, show, write  # before NumPy: it sets the number of threads

# isort: split
import numpy as np
from real_sets import SETS
from sklearn.model_selection import KFold

from blockmix import GaussianBiclustering, datasets
from blockmix.grouping import BicRule, HierarchicalGrouping, OptimalRule
from blockmix.metrics import adjusted_rand

FIRST_SEED = 2000  # rules were shaped on earlier ones
APART = 0.5
NEW_ROWS = 500
MODELS: dict[str, dict[str, Any]] = {
    "default": {},
    "former": {"n_column_groups": "bic", "block_model": "full"},
}
GENES = {"Alon": datasets.alon_full, "Golub": datasets.load_golub}
RULES = {"default": OptimalRule, "former": BicRule}


def fitted(model: str, G: int, X: np.ndarray, seed: int) -> GaussianBiclustering:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GaussianBiclustering(G, random_state=seed, **MODELS[model]).fit(X)


def simulated(task: Task) -> dict[str, float]:
    rng = modules.table_rng(task["design"], task["N"], task["seed"])
    parts = [modules.draw_rows(task["design"], task["N"] + NEW_ROWS, rng)[0] + APART * g for g in range(2)]
    N = task["N"]
    model = fitted(task["model"], 2, np.concatenate([part[:N] for part in parts]), task["seed"])
    ari = adjusted_rand(np.repeat([0, 1], N), model.row_labels_)
    return {"log-likelihood": model.score(np.concatenate([part[N:] for part in parts])), "ari": ari}


def folds(task: Task) -> dict[str, float]:
    load, G = SETS[task["set"]][:2]
    X, labels = load(return_X_y=True)
    X = datasets.scale(X[:, [len(np.unique(column)) > 2 for column in X.T]])  # a fold of Ecoli has one value in chg
    scores = [
        fitted(task["model"], G, X[train], task["seed"]).score(X[test])
        for train, test in KFold(5, shuffle=True, random_state=task["seed"]).split(X)
    ]
    return {
        "log-likelihood": np.mean(scores),
        "ari": adjusted_rand(labels, fitted(task["model"], G, X, task["seed"]).row_labels_),
    }


def halves(task: Task) -> dict[str, float]:
    """Groups of each component of the whole set, and how well those of two halves of its rows agree."""
    X = np.asarray(GENES[task["set"]]().data, dtype=float)
    model = fitted(task["model"], 2, X, task["seed"])
    g, rng = task["component"], np.random.default_rng(task["seed"])
    sizes = np.bincount(model.column_labels_[g])
    rows = rng.permutation(np.flatnonzero(model.row_labels_ == g))
    parts = [X[half][:, X[rows].std(axis=0) > 0] for half in np.array_split(rows, 2)]
    varied = np.all([part.std(axis=0) > 0 for part in parts], axis=0)
    found = [
        RULES[task["model"]]().choose(np.cov(part[:, varied].T), len(part), HierarchicalGrouping()).partition
        for part in parts
    ]
    pairs = [int((part.sizes * (part.sizes - 1)).sum()) // 2 for part in found]
    both = np.unique(np.stack([part.labels for part in found]), axis=1, return_counts=True)[1]
    return {
        "rows": float(len(rows)),
        "groups": float((sizes > 1).sum()),
        "alone": float((sizes == 1).sum()),
        "largest": float(sizes.max()),
        "ari": adjusted_rand(found[0], found[1]),
        "pairs": float(np.mean(pairs)),
        "common": float((both * (both - 1)).sum() / 2),
    }


def main() -> None:
    options = arguments(__doc__)
    runs = options.runs or (4 if options.full else 1)
    seeds = range(FIRST_SEED, FIRST_SEED + runs)
    designs = ("unequal", "two factors", "AR(1)", "independent")
    tasks: list[Task] = [
        {"design": design, "N": N, "model": model, "seed": seed}
        for design in designs
        for N in (30, 60, 150)
        for model in MODELS
        for seed in seeds
    ]
    figures = ["log-likelihood", "ari"]
    table = mean_by(run("heldout", simulated, tasks, options), ["design", "N", "model"], figures)
    show(table)
    write("heldout", table, options)
    tasks = [{"set": name, "model": model, "seed": seed} for name in SETS for model in MODELS for seed in seeds]
    table = mean_by(run("heldout_sets", folds, tasks, options), ["set", "model"], figures)
    show(table)
    write("heldout_sets", table, options)
    tasks = [
        {"set": name, "model": model, "component": g, "seed": FIRST_SEED}
        for name in available(GENES)
        for model in MODELS
        for g in range(2)
    ]
    table = run("heldout_genes", halves, tasks, options)
    show(table)
    write("heldout_genes", table, options)


if __name__ == "__main__":
    main()
