"""The default start against one k-means start: ARI, BIC and time on classic sets and on a planted table.

Not a result of the paper. `above` is the share of fits whose BIC is above that of the mixture with one group, or with
all columns alone, from the same start. The planted table has 300 rows, 2000 columns in modules of 25 and three clusters
that are shifted by 1.2 deviations in a tenth of the columns each. `--full` has ten seeds.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

from harness import Task, arguments, available, mean_by, run, show, write  # before NumPy: it sets the number of threads

# isort: split
import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris

from blockmix import GaussianBiclustering, select
from blockmix.datasets import load_ecoli, load_olive, load_wine
from blockmix.metrics import adjusted_rand

SETS: dict[str, tuple[Callable[..., Any], int]] = {
    "Iris": (load_iris, 3),
    "Wine": (load_wine, 3),
    "Olive": (load_olive, 3),
    "Ecoli": (load_ecoli, 8),
    "breast cancer": (load_breast_cancer, 2),
}
STARTS = ("kmeans", "auto")


def planted(seed: int, N: int = 300, p: int = 2000, size: int = 25) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, N)
    common = np.repeat(rng.standard_normal((N, p // size)), size, axis=1)
    X = np.sqrt(0.4) * common + np.sqrt(0.6) * rng.standard_normal((N, p))
    for g in range(3):
        X[np.ix_(y == g, rng.choice(p, p // 10, replace=False))] += 1.2
    return X, y


def fit(task: Task) -> dict[str, float]:
    seed = task["seed"]
    is_planted = task["data"] == "planted"
    load, G = (lambda return_X_y: planted(seed), 3) if is_planted else SETS[task["data"]]
    X, y = load(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if task["init"] == "select":
            table = select(X, range(1, 6), shared_covariance=[False, True], random_state=seed)
            return {"ari": float("nan"), "bic": table.best_.bic, "seconds": 0.0, "chosen": table.best_.n_components}
        begin = time.process_time()
        model = GaussianBiclustering(G, init=task["init"], random_state=seed).fit(X)
        seconds = time.process_time() - begin
        bic = model.bic(X)
        held = (
            []
            if is_planted
            else [GaussianBiclustering(G, K, init=task["init"], random_state=seed) for K in (1, X.shape[1])]
        )
        above = any(bic > other.fit(X).bic(X) + 1e-6 for other in held)
    return {"ari": adjusted_rand(y, model.row_labels_), "bic": bic, "seconds": seconds, "above": float(above)}


def main() -> None:
    options = arguments(__doc__)
    runs = options.runs or (10 if options.full else 2)
    sets = [*available({name: load for name, (load, _) in SETS.items()}), "planted"]
    tasks = [{"data": data, "init": init, "seed": seed} for data in sets for init in STARTS for seed in range(runs)]
    rows = run("starts", fit, tasks, options)
    table = mean_by(rows, ["data", "init"], ["ari", "bic", "seconds", "above"])
    for line in table:
        found = [row["ari"] for row in rows if (row["data"], row["init"]) == (line["data"], line["init"])]
        line["least_ari"] = min(found)
    show(table)
    write("starts", table, options)
    chosen = run("starts", fit, [{"data": "planted", "init": "select", "seed": seed} for seed in range(runs)], options)
    print("components chosen by select in the planted tables:", [row["chosen"] for row in chosen])


if __name__ == "__main__":
    main()
