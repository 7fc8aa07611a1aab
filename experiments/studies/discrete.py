"""Columns of few values: the number of clusters by BIC where there is one cluster, and clusters of counts.

One cluster of each kind, G chosen among 1 to 5; three clusters of log1p counts at G = 3 beside k-means; Wine, Olive and
Ecoli with all defaults, and G chosen on Ecoli. No answer should rest on a penalty.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from blockmix import GaussianBiclustering, select
from experiments.data import available, load_ecoli, load_olive, load_wine
from experiments.harness import Task, arguments, mean_by, run, show, write
from experiments.metrics import adjusted_rand

Rng = np.random.Generator


def normal_and_binary(rng: Rng) -> np.ndarray:
    X = rng.standard_normal((200, 5))
    X[:, 4] = rng.integers(0, 2, 200)
    return X


def likert(rng: Rng) -> np.ndarray:
    return np.clip(np.round(3 + 1.2 * rng.standard_normal((300, 6))), 1, 5)


def poisson(rng: Rng) -> np.ndarray:
    return rng.poisson(1.0, (300, 6)).astype(float)


def zeros_and_gamma(rng: Rng) -> np.ndarray:
    return np.where(rng.random((300, 6)) < 0.5, 0.0, rng.gamma(2.0, 1.0, (300, 6)))


def counts(rng: Rng, rates: np.ndarray, n_rows: int = 600) -> np.ndarray:
    """log1p of overdispersed counts, about half of them zero."""
    depth = rng.lognormal(0, 0.3, (n_rows, 1))
    return np.log1p(rng.poisson(depth * rates * rng.gamma(1.0, 1.0, (n_rows, len(rates)))))


def one_of_counts(rng: Rng) -> np.ndarray:
    return counts(rng, rng.lognormal(0.2, 0.6, 30))


def three_of_counts(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    rates = rng.lognormal(0.2, 0.6, 30)
    each = [counts(rng, rates * np.exp(0.9 * rng.standard_normal(30) * (rng.random(30) < 0.4)), 200) for _ in range(3)]
    return np.concatenate(each), np.repeat(np.arange(3), 200)


ONE: dict[str, Callable[[Rng], np.ndarray]] = {
    "normal with a 0/1 column": normal_and_binary,
    "Likert 1-5": likert,
    "Poisson(1)": poisson,
    "log1p counts, half zeros": one_of_counts,
    "half zeros, gamma rest": zeros_and_gamma,
}
REAL: dict[str, tuple[Callable[[], Any], int]] = {
    "Wine": (load_wine, 3),
    "Olive": (load_olive, 3),
    "Ecoli": (load_ecoli, 8),
}


def chosen(task: Task) -> dict[str, float]:
    """The number of clusters by BIC among 1 to 5, and how many fits of the best rest on a penalty."""
    X = ONE[task["design"]](np.random.default_rng([14, task["seed"]]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = select(X, range(1, 6), random_state=task["seed"]).best_estimator_
    return {"G": best.n_components, "one": float(best.n_components == 1), "degenerate": best.outcome_ == "degenerate"}


def clusters_of_counts(task: Task) -> dict[str, float]:
    X, truth = three_of_counts(np.random.default_rng([15, task["seed"]]))
    model = GaussianBiclustering(3, random_state=task["seed"]).fit(X)
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    means = KMeans(3, n_init=10, random_state=task["seed"]).fit_predict(standard)
    return {"ari": adjusted_rand(truth, model.row_labels_), "kmeans": adjusted_rand(truth, means)}


def real(task: Task) -> dict[str, float]:
    load, G = REAL[task["data"]]
    data = load()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GaussianBiclustering(G, random_state=task["seed"]).fit(data.data)
        best = select(data.data, range(1, 9), random_state=task["seed"]).best_.n_components
    ari = adjusted_rand(data.target, model.row_labels_)
    return {"ari": ari, "degenerate": model.outcome_ == "degenerate", "G by BIC": best}


def main() -> None:
    options = arguments(__doc__)
    runs = options.runs or (10 if options.full else 3)
    tasks = [{"design": design, "seed": seed} for design in ONE for seed in range(runs)]
    one = mean_by(run("discrete_one", chosen, tasks, options), ["design"], ["G", "one", "degenerate"])
    show(one)
    write("discrete_one", one, options)
    three = run("discrete_three", clusters_of_counts, [{"seed": seed} for seed in range(runs)], options)
    show(mean_by(three, [], ["ari", "kmeans"]))
    write("discrete_three", three, options)
    sets = available({name: load for name, (load, _) in REAL.items()})
    tables = run("discrete_real", real, [{"data": name, "seed": s} for name in sets for s in range(runs)], options)
    show(tables)
    write("discrete_real", tables, options)


if __name__ == "__main__":
    main()
