"""Classic labelled tables that the default start was not shaped on: ARI, BIC and time of the default and of its peers.

Not a result of the paper. The tables are csv files with numeric columns and the class in the last column, in a folder
of yours that $BLOCKMIX_CLASSIC names; they are not part of this repository. Columns are standardized for every method
and G is the number of classes. `above` is the share of fits whose BIC is above that of one column group, or of all
columns alone, from the same start. `--full` has five seeds; `select` over 1 to 6 components has one.
"""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from blockmix import GaussianBiclustering, select
from experiments.harness import Task, arguments, run, show, write
from experiments.metrics import adjusted_rand

METHODS = ("blockmix", 'init="kmeans"', "K-means", "GMM", "select")
_FOLDER = "BLOCKMIX_CLASSIC"


def tables() -> dict[str, Path]:
    """Files by name, in alphabetical order."""
    folder = os.environ.get(_FOLDER)
    return {path.stem: path for path in sorted(Path(folder).glob("*.csv"))} if folder else {}


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Standardized columns and classes."""
    frame = pd.read_csv(tables()[name])
    X = frame.iloc[:, :-1].to_numpy(float)
    return (X - X.mean(axis=0)) / X.std(axis=0), frame.iloc[:, -1].to_numpy(str)


def fit(task: Task) -> Task:
    X, y = table(task["data"])
    G, seed, method = len(np.unique(y)), task["seed"], task["method"]
    start = time.process_time()
    figures: Task = {"G": G, "bic": float("nan"), "above": float("nan"), "said": ""}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if method == "K-means":
            labels = KMeans(G, n_init=10, random_state=seed).fit_predict(X)
        elif method == "GMM":
            labels = GaussianMixture(G, n_init=10, random_state=seed).fit_predict(X)
        else:
            model = (
                select(X, range(1, 7), random_state=seed).best_estimator_
                if method == "select"
                else GaussianBiclustering(G, init=_init(method), random_state=seed).fit(X)
            )
            labels = model.row_labels_
            figures |= {"G": model.n_components, "bic": model.bic(X)}
    figures |= {"ari": adjusted_rand(y, labels), "seconds": time.process_time() - start}
    if method == "blockmix":
        figures |= {
            "above": float(_above(X, G, seed, figures["bic"])),
            "said": " | ".join(str(w.message) for w in said),
        }
    return figures


def _init(method: str) -> str:
    return "auto" if method == "blockmix" else "kmeans"


def _above(X: np.ndarray, G: int, seed: int, bic: float) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        held = [GaussianBiclustering(G, K, random_state=seed).fit(X).bic(X) for K in (1, X.shape[1])]
    return bic > min(held) + 1e-6


def summary(rows: list[Task]) -> list[Task]:
    """One line for each table: mean and least ARI of each method, and what else is worth knowing of the default."""
    lines = []
    for name in dict.fromkeys(row["data"] for row in rows):
        X, y = table(name)
        line: Task = {"data": name, "N": len(X), "p": X.shape[1], "G": len(np.unique(y))}
        for method in METHODS:
            of_method = [row for row in rows if (row["data"], row["method"]) == (name, method)]
            ari = [row["ari"] for row in of_method]
            line |= {method: float(np.mean(ari))}
            if method == "select":
                line["chosen G"] = of_method[0]["G"]
            else:
                line |= {
                    f"{method}, least": min(ari),
                    f"{method}, s": float(np.median([row["seconds"] for row in of_method])),
                }
            if method == "blockmix":
                bic = [row["bic"] for row in of_method]
                line |= {"BIC, least": min(bic), "BIC, most": max(bic)}
                line |= {"above": float(np.mean([row["above"] for row in of_method]))}
                line |= {"warned": float(np.mean([row["said"] != "" for row in of_method]))}
        lines.append(line)
    return lines


def main() -> None:
    options = arguments(__doc__)
    if not tables():
        print(f"No tables: set {_FOLDER} to a folder of csv files with the class in the last column.")
        return
    runs = options.runs or (5 if options.full else 1)
    tasks = [
        {"data": data, "method": method, "seed": seed}
        for data in tables()
        for method in METHODS
        for seed in range(1 if method == "select" else runs)
    ]
    lines = summary(run("classic", fit, tasks, options))
    show(lines)
    write("classic", lines, options)


if __name__ == "__main__":
    main()
