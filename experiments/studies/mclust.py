"""Mixtures of classic tables beside mclust: BIC, ARI and seconds, G among 1 to 6 and at the number of classes.

mclust's rows are read from results/mclust.csv, which `--r` remakes with R and its package mclust. Columns are
standardized for both. Repeated values are taken as exact here, as mclust takes them: BIC is comparable only then.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_iris

from blockmix import GaussianBiclustering, select
from experiments.data import available, load_ecoli, load_olive, load_wine, standardize
from experiments.harness import RESULTS, Task, show
from experiments.metrics import adjusted_rand

SETS: dict[str, Callable[[], Any]] = {
    "Wine": load_wine,
    "Olive": load_olive,
    "Ecoli": load_ecoli,
    "Iris": load_iris,
    "breast cancer": load_breast_cancer,
}
KEPT = RESULTS / "mclust.csv"


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Standardized columns and classes of the sets that are here."""
    standardized = {}
    for name in available(SETS):
        bunch = SETS[name]()
        standardized[name] = (standardize(bunch.data[:, bunch.data.std(axis=0) > 0]), bunch.target)
    return standardized


def run_mclust() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, (X, classes) in tables().items():
            frame = pd.DataFrame(X)
            frame.insert(0, "class", classes)
            frame.to_csv(Path(folder) / f"{name}.csv", index=False)
        script = Path(__file__).with_suffix(".R")
        printed = subprocess.run(["Rscript", str(script), folder], check=True, capture_output=True, text=True).stdout
    KEPT.write_text(printed)


class Exact(GaussianBiclustering):
    """Values count as exact, as in mclust, so that BIC can be compared."""

    _rounding = False


def ours(X: np.ndarray, classes: np.ndarray, components: list[int], rounding: bool) -> Task:
    start = time.perf_counter()
    kinds = {"shared_covariance": [False, True], "tails": ["normal", "t"]}
    estimator = GaussianBiclustering() if rounding else Exact()
    table = select(X, components, estimator=estimator, random_state=0, **kinds)
    best = table.best_estimator_
    seconds = time.perf_counter() - start
    ari = adjusted_rand(classes, best.row_labels_)
    return {"chosen": best.n_components, "bic": best.bic(X), "ari": ari, "seconds": seconds}


def main() -> None:
    if "--r" in sys.argv:
        run_mclust()
    peers = pd.read_csv(KEPT).set_index(["data", "G"])
    lines = []
    for name, (X, classes) in tables().items():
        for components in (list(range(1, 7)), [len(np.unique(classes))]):
            label = "1 to 6" if len(components) > 1 else str(components[0])
            peer = peers.loc[(name, label)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exact, rounded = (ours(X, classes, components, rounding) for rounding in (False, True))
            lines.append(
                {"data": name, "G": label}
                | {f"mclust {key}": peer[key] for key in ("chosen", "model", "bic", "ari", "seconds")}
                | {key: exact[key] for key in ("chosen", "bic", "ari", "seconds")}
                | {f"default {key}": rounded[key] for key in ("chosen", "ari")}
            )
            show(lines[-1:])
    pd.DataFrame(lines).round(3).to_csv(RESULTS / "mclust_compared.csv", index=False)


if __name__ == "__main__":
    main()
