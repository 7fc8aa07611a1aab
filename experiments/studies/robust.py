"""Outliers and heavy tails: row clusters and column groups of normal and t components on ten designs.

Three clusters (shares 0.4, 0.35, 0.25) of 20 columns, each with its own blocks of 5 columns (|r| = 0.6):

- a: normal.
- b: t with 3 degrees of freedom, one scale per row; b2: one scale per row and block.
- c2, c5: 2 or 5 % of the rows are uniform in a box ten times as wide as the data; c3: 5 %, a box three times as wide.
- d: 2 % of the cells are uniform in a range five times as wide.
- e1: exponential and lognormal noise around the means; e2: exp of a normal mixture; f: Poisson counts around that.

ARI of rows is over clean rows, ARI of columns is over matched components. Not a result of the paper.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from scipy import special
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix

from blockmix import GaussianBiclustering, select
from experiments.harness import Task, arguments, mean_by, run, show, write

Rng = np.random.Generator
DESIGNS = ("a", "b", "b2", "c2", "c5", "c3", "d", "e1", "e2", "f")
SHARES = (0.4, 0.35, 0.25)
P, SIZE, R, APART = 20, 5, 0.6, 0.95
FIRST_SEED = 1000  # the designs were set up on seeds below
FIGURES = ("rows", "columns", "seconds", "far_clean")


def factors(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Groups of the columns of one cluster, and a factor L (p, p) of their correlation."""
    labels = rng.permutation(np.repeat(np.arange(P // SIZE), SIZE))
    signs = rng.choice([-1.0, 1.0], P)
    correlation = np.where(labels[:, None] == labels, R * np.outer(signs, signs), 0.0)
    np.fill_diagonal(correlation, 1)
    return labels, np.linalg.cholesky(correlation)


def scales(kind: str, n: int, labels: np.ndarray, rng: Rng) -> np.ndarray | float:
    """What the deviations of n rows are multiplied by, shape (n, 1) or (n, p)."""
    if kind == "b":
        return 1 / np.sqrt(rng.chisquare(3, (n, 1)) / 3)
    if kind == "b2":
        return (1 / np.sqrt(rng.chisquare(3, (n, P // SIZE)) / 3))[:, labels]
    return 1.0


def skewed(normal: np.ndarray) -> np.ndarray:
    """Deviations of the same order: exponential in the even columns, lognormal in the odd ones; mean 0, variance 1."""
    exponential = -np.log(special.ndtr(normal))
    lognormal = np.exp(normal)
    mixed = np.where(np.arange(P) % 2, lognormal, exponential)
    return (mixed - mixed.mean(axis=0)) / mixed.std(axis=0)


def table(kind: str, n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows, their clusters, which of them are clean, and the groups of the columns by cluster (3, p)."""
    rng = np.random.default_rng([DESIGNS.index(kind), seed])
    clusters = rng.choice(3, n_rows, p=SHARES)
    X, groups = np.empty((n_rows, P)), []
    for g in range(3):
        rows = np.flatnonzero(clusters == g)
        labels, L = factors(rng)
        deviations = rng.standard_normal((len(rows), P)) @ L.T * scales(kind, len(rows), labels, rng)
        X[rows] = (skewed(deviations) if kind == "e1" else deviations) + APART * rng.standard_normal(P)
        groups.append(labels)
    clean = np.ones(n_rows, dtype=bool)
    if kind in ("e2", "f"):
        X = np.exp(X)
    if kind == "f":
        X = rng.poisson(5 * X).astype(float)
    low, high = X.min(axis=0), X.max(axis=0)
    middle, half = (low + high) / 2, {"c3": 3, "d": 5}.get(kind, 10) * (high - low) / 2
    if kind in ("c2", "c5", "c3"):
        clean[rng.permutation(n_rows)[: round((0.02 if kind == "c2" else 0.05) * n_rows)]] = False
        X[~clean] = rng.uniform(middle - half, middle + half, (int((~clean).sum()), P))
    if kind == "d":
        X = np.where(rng.random(X.shape) < 0.02, rng.uniform(middle - half, middle + half, X.shape), X)
    return X, clusters, clean, np.stack(groups)


def column_score(model: Any, clusters: np.ndarray, clean: np.ndarray, groups: np.ndarray) -> float:
    """Mean ARI of the column groups over components matched to clusters by their clean rows."""
    both = contingency_matrix(clusters[clean], model.row_labels_[clean])
    components = np.unique(model.row_labels_[clean])
    pairs = zip(*linear_sum_assignment(-both), strict=True)
    scores = [adjusted_rand_score(groups[g], model.column_labels_[components[h]]) for g, h in pairs]
    return float(sum(scores) / len(groups))


def judge(task: Task) -> Task:
    X, clusters, clean, groups = table(task["design"], task["N"], task["seed"])
    model = GaussianBiclustering(3, tails=task["tails"], random_state=task["seed"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model.fit(X)
    return {
        "rows": float(adjusted_rand_score(clusters[clean], model.row_labels_[clean])),
        "columns": column_score(model, clusters, clean, groups),
        "bic": model.bic(X),
        "seconds": time.process_time() - start,
        "far_clean": float(model.outliers_[clean].mean()),
    }


def preferred(rows: list[Task]) -> list[Task]:
    """In how many tables of each design BIC prefers t to normal, at three clusters."""
    bics = {(row["design"], row["seed"], row["tails"]): row["bic"] for row in rows}
    line: Task = {"tails": "t preferred by BIC"}
    for design in DESIGNS:
        pairs = [(d, s) for d, s, tails in bics if d == design and tails == "t"]
        wins = sum(bics[d, s, "t"] < bics[d, s, "normal"] for d, s in pairs)
        line[design] = f"{wins} of {len(pairs)}"
    return [line]


def choose(task: Task) -> Task:
    """Number of clusters by BIC among 1 to 6, truth 3."""
    X, *_ = table(task["design"], task["N"], task["seed"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        selected = select(X, range(1, 7), tails=task["tails"], random_state=task["seed"])
        by_icl = min((row for row in selected.rows if not row.degenerate), key=lambda row: row.icl)
    G = selected.best_.n_components
    return {"bic": float(G), "bic_right": float(G == 3), "icl": float(by_icl.n_components)}


def main() -> None:
    options = arguments(__doc__)
    runs = options.runs or (10 if options.full else 3)
    seeds = range(FIRST_SEED, FIRST_SEED + runs)
    tasks = [
        {"tails": tails, "design": design, "N": 300, "seed": seed}
        for tails in ("normal", "t")
        for design in DESIGNS
        for seed in seeds
    ]
    rows = run("robust", judge, tasks, options)
    table = mean_by(rows, ["tails", "design"], FIGURES)
    hard = [row for row in rows if row["design"] != "a"]
    table += [{"tails": line.pop("tails"), "design": "b to f", **line} for line in mean_by(hard, ["tails"], FIGURES)]
    show(table)
    write("robust", table, options)
    show(preferred(rows))
    tasks = [task for task in tasks if task["seed"] < FIRST_SEED + max(1, runs // 3)]
    table = mean_by(run("robust_numbers", choose, tasks, options), ["tails", "design"], ["bic", "bic_right", "icl"])
    show(table)
    write("robust_numbers", table, options)


if __name__ == "__main__":
    main()
