"""What all columns share: column groups with and without common factors as tables grow, and what that costs.

Not a result of the paper, but its grid is among the designs. Shaped on seeds below 1000, judged on those from 1000 on.
See docs/adr/0020-common-factors.md.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from scipy.linalg import block_diag
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.model_selection import KFold

from blockmix import BlockDiagonalCovariance, GaussianBiclustering
from experiments.data import cohorts, load_olive, standardize
from experiments.designs import GRID, block_grid
from experiments.harness import Task, arguments, mean_by, run, show, write
from experiments.metrics import adjusted_rand, matched_accuracy

FIRST_SEED = 1000
ESTIMATORS: dict[str, Any] = {
    "mixture": lambda q: GaussianBiclustering(common_factors=q, random_state=0),
    "covariance": lambda q: BlockDiagonalCovariance(common_factors=q),
}
ROWS = (60, 300, 1000, 3000, 20_000, 50_000)


def factor(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Five equal blocks of eight, correlation 0.6, and one factor over all."""
    block = np.full((8, 8), 0.6) + 0.4 * np.eye(8)
    X = rng.standard_normal((n, 40)) @ np.linalg.cholesky(block_diag(*[block] * 5)).T
    return X + rng.standard_normal((n, 1)) * rng.uniform(0.4, 0.8, 40), np.repeat(range(5), 8)


def scales(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Five scales of five items with loading 0.7; scales correlate 0.3."""
    labels = np.repeat(range(5), 5)
    each = np.sqrt(0.3) * rng.standard_normal((n, 1)) + np.sqrt(0.7) * rng.standard_normal((n, 5))
    return 0.7 * each[:, labels] + np.sqrt(0.51) * rng.standard_normal((n, 25)), labels


def uneven(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Six blocks of three to seven columns, correlation 0.5, and a common share of about 0.3."""
    sizes = rng.integers(3, 8, 6)
    labels = np.repeat(range(6), sizes)
    own = np.sqrt(0.5) * rng.standard_normal((n, 6))[:, labels] + np.sqrt(0.5) * rng.standard_normal((n, len(labels)))
    shared = rng.standard_normal((n, 1)) * rng.uniform(0.6, 1.2, len(labels))
    return np.sqrt(0.7) * own + np.sqrt(0.3) * shared, labels


def chains(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Five AR(1) blocks of eight, nothing in common."""
    block = 0.7 ** np.abs(np.subtract.outer(range(8), range(8)))
    return rng.standard_normal((n, 40)) @ np.linalg.cholesky(block_diag(*[block] * 5)).T, np.repeat(range(5), 8)


def signed(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Five blocks of four to ten columns with loadings of either sign, nothing in common."""
    labels = np.repeat(range(5), (10, 8, 7, 6, 4))
    loadings = rng.choice([-1, 1], 35) * rng.uniform(0.6, 0.9, 35)
    return rng.standard_normal((n, 5))[:, labels] * loadings + 0.6 * rng.standard_normal((n, 35)), labels


DESIGNS = {f.__name__: f for f in (factor, scales, uneven, chains, signed)}


def fitted(model: Any, X: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X)


def columns_of(model: Any) -> tuple[np.ndarray, float]:
    """Groups and number of common factors of the first component."""
    labels, loadings = model.column_labels_, model.common_loadings_
    return (labels, loadings.shape[1]) if labels.ndim == 1 else (labels[0], loadings[0].shape[1])


def recovered(task: Task) -> Task:
    X, truth = DESIGNS[task["design"]](task["rows"], np.random.default_rng(task["seed"]))
    labels, q = columns_of(fitted(ESTIMATORS[task["estimator"]](task["q"]), X))
    return {"ari": adjusted_rand(truth, labels), "factors": q}


def grid(task: Task) -> Task:
    design = block_grid(task["p"], task["K"], task["seed"])
    X = design.sample(50, task["seed"] + 1)
    labels, q = columns_of(fitted(ESTIMATORS[task["estimator"]](task["q"]), X))
    return {"accuracy": matched_accuracy(design.partition, labels), "factors": q}


def clusters(task: Task) -> Task:
    """Three clusters, each with groups of its own and a common factor."""
    rng, n, parts = np.random.default_rng(task["seed"]), task["rows"], []
    truth = [rng.permutation(np.repeat(range(4), 5)) for _ in range(3)]
    for labels in truth:
        own = 0.8 * rng.standard_normal((n, 4))[:, labels] + 0.6 * rng.standard_normal((n, 20))
        shared = rng.standard_normal((n, 1)) * rng.uniform(0.4, 0.8, 20)
        parts.append(own + shared + 0.8 * rng.standard_normal(20))
    model = fitted(GaussianBiclustering(3, common_factors=task["q"], random_state=0), np.concatenate(parts))
    match = [model.row_labels_[g * n : (g + 1) * n] for g in range(3)]
    components = [int(np.bincount(labels, minlength=3).argmax()) for labels in match]
    groups = [adjusted_rand(truth[g], model.column_labels_[components[g]]) for g in range(3)]
    rows = adjusted_rand(np.repeat(range(3), n), model.row_labels_)
    return {
        "groups": np.mean(groups),
        "clusters": rows,
        "factors": np.mean([L.shape[1] for L in model.common_loadings_]),
    }


def independent(task: Task) -> Task:
    X = np.random.default_rng(task["seed"]).standard_normal((task["rows"], task["p"]))
    labels, q = columns_of(fitted(ESTIMATORS[task["estimator"]]("auto"), X))
    sizes = np.bincount(labels)
    return {"columns in false groups": float((sizes[labels] > 1).mean()), "no factor": float(q == 0)}


def table(name: str) -> tuple[np.ndarray, int]:
    if name == "wine":
        return load_wine().data, 3
    if name == "cancer":
        return load_breast_cancer().data, 2
    if name == "olive":
        return load_olive().data, 3
    X = np.load(cohorts()[name])["X"]
    return X[:, np.argsort(-X.var(axis=0))[:60]], 2


def held_out(task: Task) -> Task:
    """Log-likelihood per row in five folds."""
    X, G = table(task["table"])
    X = standardize(X)
    folds = KFold(5, shuffle=True, random_state=task["seed"]).split(X)
    models = [(fitted(GaussianBiclustering(G, common_factors=task["q"], random_state=0), X[a]), b) for a, b in folds]
    q = np.mean([np.mean([L.shape[1] for L in model.common_loadings_]) for model, _ in models])
    return {"log-likelihood": np.mean([model.score(X[b]) for model, b in models]), "factors": q}


def speed(options: Any) -> list[Task]:
    """Processor time of a sweep and its M-step with one common factor over that without, in turns."""
    from blockmix.em.sweep import maximize, sweep
    from blockmix.partition import Partition
    from blockmix.rows import ArrayRows

    n = 50_000 if options.full else 5_000
    rng = np.random.default_rng(0)
    rows = []
    for c in (5, 10, 20):
        own = rng.standard_normal((n, 200 // c)).repeat(c, axis=1) + rng.standard_normal((n, 200))
        X = own + rng.standard_normal((n, 1))
        models = [
            fitted(GaussianBiclustering(2, Partition(np.repeat(range(200 // c), c)), common_factors=q, max_iter=2), X)
            for q in (0, 1)
        ]
        data, seconds = ArrayRows.of(X), np.zeros((2, 7))
        for turn in range(7):
            for q, model in enumerate(models):
                started = time.process_time()
                maximize(sweep(data, model._parameters), model._parameters, model._family(data, np.ones(200)).prior)
                seconds[q, turn] = time.process_time() - started
        rows.append({"columns in a block": c, "ratio": float(np.median(seconds[1]) / np.median(seconds[0]))})
    return rows


def tasks_of(options: Any) -> dict[str, tuple[Any, list[Task], tuple[str, ...], tuple[str, ...]]]:
    runs = options.runs or (20 if options.full else 2)
    seeds, most = range(FIRST_SEED, FIRST_SEED + runs), 50_000 if options.full else 3000
    both = [(e, q) for e in ESTIMATORS for q in (0, "auto")]
    recovery = [
        {"design": d, "rows": n, "estimator": e, "q": q, "seed": s}
        for d in DESIGNS
        for n in ROWS
        if n <= most
        for e, q in both
        for s in seeds
    ]
    cells = [{"p": p, "K": K, "estimator": e, "q": q, "seed": s} for p, K in GRID for e, q in both for s in seeds]
    mixed = [
        {"rows": n, "q": q, "seed": s} for n in (100, 1000, 10_000) if n <= most for q in (0, "auto") for s in seeds
    ]
    alone = [
        {"rows": n, "p": p, "estimator": e, "seed": s}
        for p in (30, 300)
        for n in (50, 500, 5000)
        for e in ESTIMATORS
        for s in seeds
    ]
    names = ["wine", "cancer", "olive", *cohorts()]
    tables = [{"table": t, "q": q, "seed": s} for t in names for q in (0, "auto") for s in seeds[: max(runs // 4, 1)]]
    return {
        "common": (recovered, recovery, ("design", "rows", "estimator", "q"), ("ari", "factors")),
        "common_grid": (grid, cells, ("p", "K", "estimator", "q"), ("accuracy", "factors")),
        "common_clusters": (clusters, mixed, ("rows", "q"), ("groups", "clusters", "factors")),
        "common_independent": (
            independent,
            alone,
            ("p", "rows", "estimator"),
            ("columns in false groups", "no factor"),
        ),
        "common_heldout": (held_out, tables, ("table", "q"), ("log-likelihood", "factors")),
    }


def main() -> None:
    options = arguments(__doc__)
    for name, (function, tasks, by, values) in tasks_of(options).items():
        figures = mean_by(run(name, function, tasks, options), by, values)
        show(figures)
        write(name, figures, options)
    write("common_speed", speed(options), options)


if __name__ == "__main__":
    main()
