"""Time of `tails="t"` against normal tails from the same start, in turns; the bar is 2.2 times in the median.

python benchmarks/tails_speed.py
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_wine
from sklearn.metrics import adjusted_rand_score
from turns import in_turns

from blockmix import GaussianBiclustering

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from robust import DESIGNS, table


def compare(name: str, X: np.ndarray, labels: np.ndarray, truth: np.ndarray, turns: int) -> float:
    heavy, normal = (GaussianBiclustering(3, tails=tails, init=labels) for tails in ("t", "normal"))
    t, n, ratio = in_turns(lambda: heavy.fit(X), lambda: normal.fit(X), turns)
    scores = [adjusted_rand_score(truth, model.row_labels_) for model in (heavy, normal)]
    print(
        f"{name}: {1e3 * t:.0f} ms against {1e3 * n:.0f} ms, {ratio:.2f} x; iterations {heavy.n_iter_} and "
        f"{normal.n_iter_}; ARI {scores[0]:.2f} and {scores[1]:.2f}"
    )
    return ratio


def main() -> None:
    warnings.simplefilter("ignore")
    wine = load_wine()
    X = (wine.data - wine.data.mean(axis=0)) / wine.data.std(axis=0)
    ratios = [compare("Wine", X, KMeans(3, n_init=10, random_state=0).fit_predict(X), wine.target, 9)]
    for n_rows, turns in ((300, 9), (20_000, 3)):
        for design in DESIGNS:
            X, truth, _, _ = table(design, n_rows, 0)
            ratios.append(compare(f"{design}, {n_rows} rows", X, truth, truth, turns))
    print(f"median {np.median(ratios):.2f} x")


if __name__ == "__main__":
    main()
