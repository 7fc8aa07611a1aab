"""What shapes of blocks are worth: held-out log-likelihood per row of the default and of full blocks.

Simulated: two components of N rows each, 150 columns, modules of each component's own; 500 new rows of each are scored.
Wine, Olive and Ecoli are scored in five folds.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from blockmix import GaussianBiclustering
from experiments.data import available, standardize
from experiments.harness import Task, arguments, mean_by, run, show, write
from experiments.metrics import adjusted_rand
from experiments.paper.real_sets import SETS
from experiments.studies import modules

FIRST_SEED = 2000  # rules were shaped on earlier ones
APART = 0.5
NEW_ROWS = 500
MODELS: dict[str, dict[str, Any]] = {
    "default": {},
    "full blocks": {"block_model": "full"},
}


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
    bunch = load()
    varied = [len(np.unique(column)) > 2 for column in bunch.data.T]  # a fold of Ecoli has one value in chg
    X = standardize(bunch.data[:, varied])
    scores = [
        fitted(task["model"], G, X[train], task["seed"]).score(X[test])
        for train, test in KFold(5, shuffle=True, random_state=task["seed"]).split(X)
    ]
    return {
        "log-likelihood": np.mean(scores),
        "ari": adjusted_rand(bunch.target, fitted(task["model"], G, X, task["seed"]).row_labels_),
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
    names = available({name: load for name, (load, *_) in SETS.items()})
    tasks = [{"set": name, "model": model, "seed": seed} for name in names for model in MODELS for seed in seeds]
    table = mean_by(run("heldout_sets", folds, tasks, options), ["set", "model"], figures)
    show(table)
    write("heldout_sets", table, options)


if __name__ == "__main__":
    main()
