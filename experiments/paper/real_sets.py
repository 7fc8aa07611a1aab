"""Wine, Olive and Ecoli: ARI, accuracy and time of the paper's methods and of ours (paper, table 2).

The paper's figures stand beside ours. No method sees a label. "blockmix, BIC over K" is the number of column groups
with the smallest BIC; UUUU and UCUU are the factor models with our default start (the paper's program of "UCUU" is
UUUU: see docs/factor.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from blockmix import FactorBiclustering, select
from experiments.data import available, load_ecoli, load_olive, load_wine, standardize
from experiments.figures import compared, save
from experiments.harness import Task, arguments, run, show, write
from experiments.paper.contenders import OF_THE_PAPER, SCORES, Method, Problem, beside_paper, blockmix, gmm, score

# Loader, clusters, the authors' candidates for K, their number of factors (Ecoli: none is known).
SETS: dict[str, tuple[Callable[..., Any], int, tuple[int, ...], int]] = {
    "Wine": (load_wine, 3, (2, 3, 4), 5),
    "Olive": (load_olive, 3, (2, 3, 4), 3),
    "Ecoli": (load_ecoli, 8, (3,), 3),
}
PAPER: dict[tuple[str, str], Any] = {  # ARI, accuracy, seconds
    ("Wine", "K-means"): (0.897, 0.966, 0.015),
    ("Wine", "GMM"): (0.831, 0.927, 0.009),
    ("Wine", "UCUU"): (0.948, 0.983, 4.320),
    ("Wine", "proposed"): (0.945, 0.983, 0.120),
    ("Wine", "spectral co-clustering"): (0.738, 0.909, 0.020),
    ("Olive", "K-means"): (0.448, 0.765, 0.047),
    ("Olive", "GMM"): (0.601, 0.781, 0.019),
    ("Olive", "UCUU"): (0.517, 0.791, 19.62),
    ("Olive", "proposed"): (0.574, 0.804, 0.169),
    ("Olive", "spectral co-clustering"): (0.237, 0.573, 0.042),
    ("Ecoli", "K-means"): (0.509, 0.652, 0.036),
    ("Ecoli", "GMM"): (0.646, 0.744, 0.015),
    ("Ecoli", "proposed"): (0.656, 0.762, 0.138),
    ("Ecoli", "spectral co-clustering"): (0.394, 0.564, 0.048),
}


def by_bic(problem: Problem, seed: int) -> np.ndarray:
    numbers = range(1, problem.X.shape[1] + 1)
    table = select(problem.X, problem.n_clusters, numbers, random_state=seed)
    return np.asarray(table.best_estimator_.row_labels_)


def factors(model: str) -> Method:
    return lambda problem, seed: (
        FactorBiclustering(problem.n_clusters, problem.n_factors, model=model, random_state=seed)
        .fit(problem.X)
        .row_labels_
    )


METHODS: dict[str, Method] = OF_THE_PAPER | {
    "GMM with our tolerance, 1e-4": lambda problem, seed: gmm(problem, seed, tol=1e-4),
    "blockmix, all defaults": blockmix(),
    "blockmix, BIC over K": by_bic,
    "blockmix, UUUU": factors("UUUU"),
    "blockmix, UCUU": factors("UCUU"),
}


def cluster(task: Task) -> dict[str, float]:
    load, *settings = SETS[task["data"]]
    bunch = load()
    return score(Problem(standardize(bunch.data), bunch.target, *settings), METHODS[task["method"]], task["seed"])


def draw(table: list[Task], options: Any) -> None:
    title = f"Wine, Olive and Ecoli, mean of {table[0]['runs']} runs"
    save(compared(table, title, SCORES), "real_sets", options)


def main() -> None:
    options = arguments(__doc__)
    runs = options.runs or (10 if options.full else 2)
    sets = available({name: load for name, (load, *_) in SETS.items()})
    tasks = [
        {"data": data, "method": method, "seed": seed} for data in sets for method in METHODS for seed in range(runs)
    ]
    table = beside_paper(run("real_sets", cluster, tasks, options), PAPER)
    show(table)
    write("real_sets", table, options)
    draw(table, options)


if __name__ == "__main__":
    main()
