"""Wine, Olive and Ecoli: ARI, accuracy and time of the paper's methods and of ours (paper, table 2).

The paper's figures stand beside ours. "blockmix, BIC over K" uses no labels: the number of column groups with the
smallest BIC, each fitted from a portfolio of starts.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
from harness import Task, arguments, mean_by, run, show, write
from sklearn.cluster import KMeans, SpectralCoclustering
from sklearn.mixture import GaussianMixture

from blockmix import GaussianBiclustering
from blockmix.datasets import load_ecoli, load_olive, load_wine, scale
from blockmix.grouping import HierarchicalGrouping, SilhouetteRule
from blockmix.metrics import adjusted_rand, matched_accuracy

SETS: dict[str, tuple[Callable[..., object], int, tuple[int, ...]]] = {
    "Wine": (load_wine, 3, (2, 3, 4)),
    "Olive": (load_olive, 3, (2, 3, 4)),
    "Ecoli": (load_ecoli, 8, (3,)),
}
PAPER = {  # ARI
    "K-means": (0.897, 0.448, 0.509),
    "GMM": (0.831, 0.601, 0.646),
    "blockmix, authors' settings": (0.945, 0.574, 0.656),
    "spectral co-clustering": (0.738, 0.237, 0.394),
}


def proposed(X: np.ndarray, G: int, seed: int, candidates: tuple[int, ...]) -> np.ndarray:
    """The authors' settings: k-means start, profile distance, silhouette among few candidates, 20 iterations."""
    rule = SilhouetteRule(candidates=candidates)
    grouping = HierarchicalGrouping(distance="profile")
    model = GaussianBiclustering(G, rule, grouping=grouping, max_iter=20, random_state=seed)
    return model.fit(X).row_labels_


def by_bic(X: np.ndarray, G: int, seed: int, candidates: tuple[int, ...]) -> np.ndarray:
    fits = [GaussianBiclustering(G, K, init="portfolio", random_state=seed).fit(X) for K in range(1, X.shape[1] + 1)]
    return min(fits, key=lambda model: model.bic(X)).row_labels_


def coclustered(X: np.ndarray, G: int, seed: int, candidates: tuple[int, ...]) -> np.ndarray:
    return SpectralCoclustering(G, random_state=seed).fit(X - X.min() + 1e-3).row_labels_


METHODS: dict[str, Callable[[np.ndarray, int, int, tuple[int, ...]], np.ndarray]] = {
    "K-means": lambda X, G, seed, _: KMeans(G, n_init=10, random_state=seed).fit_predict(X),
    "GMM": lambda X, G, seed, _: GaussianMixture(G, random_state=seed).fit_predict(X),
    "blockmix, authors' settings": proposed,
    "spectral co-clustering": coclustered,
    "blockmix": lambda X, G, seed, _: GaussianBiclustering(G, random_state=seed).fit(X).row_labels_,
    "blockmix, portfolio": lambda X, G, seed, _: (
        GaussianBiclustering(G, init="portfolio", random_state=seed).fit(X).row_labels_
    ),
    "blockmix, BIC over K": by_bic,
}


def cluster(task: Task) -> dict[str, float]:
    load, G, candidates = SETS[task["data"]]
    X, y = load(return_X_y=True)
    X = scale(X)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = METHODS[task["method"]](X, G, task["seed"], candidates)
    seconds = time.perf_counter() - start
    return {"ari": adjusted_rand(y, labels), "accuracy": matched_accuracy(y, labels), "seconds": seconds}


def main() -> None:
    options = arguments(__doc__)
    runs = 10 if options.full else 3
    tasks = [
        {"data": data, "method": method, "seed": seed} for data in SETS for method in METHODS for seed in range(runs)
    ]
    table = mean_by(run("real_sets", cluster, tasks, options), ["data", "method"], ["ari", "accuracy", "seconds"])
    for line in table:
        line["paper_ari"] = PAPER.get(line["method"], (None,) * 3)[list(SETS).index(line["data"])]
    show(table)
    write("real_sets", table, options)


if __name__ == "__main__":
    main()
