"""The factor mixture (UCUU and its family) beside the paper's figures 4 and A.1 and its tables of Wine and Olive.

Three questions. Does the log-likelihood ever fall, for all 16 models and T = I, on 50 random data sets each? What does
the model make of the 12 × 12 positive and negative covariances? Which ARI has the best likelihood of a portfolio of
starts on Wine and Olive? Labels are looked at after the fit only.
"""

from __future__ import annotations

import time
import warnings
from itertools import product
from typing import Any

import numpy as np
from harness import Task, arguments, mean_by, run, show, write

from blockmix import BlockDiagonalCovariance, datasets
from blockmix.datasets import simulated
from blockmix.factor import FactorBiclustering
from blockmix.grouping.proposal import GroupingWarning
from blockmix.metrics import adjusted_rand, exact_recovery, frobenius_loss, mape, matched_accuracy, stein_loss

FAMILY = ["".join(letters) for letters in product("UC", repeat=4)]
IDENTITY = ["UIUU", "CIUU", "UICU", "UIUC"]
DESIGNS = {"positive": simulated.covariance_positive, "negative": simulated.covariance_negative}
# Column groups as in the paper's program; the paper's ARI for what it calls UCUU (a T for each component: UUUU).
REAL = {"wine": (datasets.load_wine, 5, 0.948), "olive": (datasets.load_olive, 3, 0.517)}


def random_rows(seed: int) -> tuple[Any, int, int]:
    """Rows with or without factors, near or far components, few or many rows; G and q need not be the true ones."""
    rng = np.random.default_rng(seed)
    G, q, p = int(rng.integers(1, 5)), int(rng.integers(1, 5)), int(rng.integers(5, 16))
    parts = []
    for _ in range(int(rng.integers(1, 4))):
        n, groups = int(rng.integers(15, 80)), rng.integers(0, 3, p)
        factors = rng.standard_normal((n, 3)) * rng.uniform(0, 2, 3) * rng.choice([0, 1])
        signs = rng.choice([-1, 1], p) if seed % 5 == 0 else 1
        noise = rng.standard_normal((n, p)) * rng.uniform(0.05, 2, p)
        parts.append(rng.normal(0, rng.uniform(0, 3), p) + factors[:, groups] * signs + noise)
    return np.concatenate(parts) * 10.0 ** rng.uniform(-2, 2, p), G, q


def climbed(task: Task) -> dict[str, float]:
    X, G, q = random_rows(task["seed"])
    init = ["kmeans", "random", "kmeans++"][task["seed"] % 3]
    model = FactorBiclustering(G, q, model=task["model"], init=init, random_state=task["seed"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    # Rounding: the likelihood is a sum of N·p terms, each with a relative error of 1e-16.
    steps = np.diff(model.log_likelihood_trace_)
    falls = steps < -1e-10 * np.abs(model.log_likelihood_trace_).max()
    return {
        "fits_that_fell": float(falls.any()),
        "steps": float(len(steps)),
        "worst_step": float(min(steps.min(initial=0.0), 0.0)),
        "converged": float(model.converged_),
    }


def covariance(task: Task) -> dict[str, float]:
    design = DESIGNS[task["design"]]()
    X = design.sample(300, task["seed"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if task["method"] == "hierarchical":
            fitted = BlockDiagonalCovariance(3).fit(X)
            labels, S = fitted.column_labels_, np.asarray(fitted.covariance_)
        else:
            model = FactorBiclustering(1, 3, model=task["method"]).fit(X)
            labels, S = model.column_labels_[0], model.covariances_[0]
    return {
        "exact": float(exact_recovery(design.partition, labels)),
        "mape": mape(design.covariance, S),
        "frobenius": frobenius_loss(design.covariance, S),
        "stein": stein_loss(design.covariance, S),
        "warned": float(any(issubclass(warning.category, GroupingWarning) for warning in caught)),
    }


def clustered(task: Task) -> dict[str, float]:
    load, q, paper = REAL[task["data"]]
    X, y = load(return_X_y=True)
    model = FactorBiclustering(3, q, model=task["model"], init="portfolio", n_init=task["n_init"])
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.set_params(random_state=task["seed"]).fit(X)
    ari = adjusted_rand(y, model.row_labels_)
    return {
        "log_likelihood": model.log_likelihood_,
        "bic": model.bic(X),
        "ari": ari,
        "accuracy": matched_accuracy(y, model.row_labels_),
        "at_least_the_paper": float(ari >= paper),
        "seconds": time.perf_counter() - start,
    }


def main() -> None:
    options = arguments(__doc__)
    sets, seeds = (50, 10) if options.full else (4, 2)
    tasks: list[Task] = [{"model": letters, "seed": seed} for letters in FAMILY + IDENTITY for seed in range(sets)]
    rows = run("factor_ascent", climbed, tasks, options)
    table = mean_by(rows, ["model"], ["fits_that_fell", "steps", "worst_step", "converged"])
    show(table)
    write("factor_ascent", table, options)

    methods = ["UCUU", "UIUU", "hierarchical"]
    tasks = [{"design": d, "method": m, "seed": s} for d in DESIGNS for m in methods for s in range(seeds)]
    rows = run("factor_covariance", covariance, tasks, options)
    table = mean_by(rows, ["design", "method"], ["exact", "mape", "frobenius", "stein", "warned"])
    show(table)
    write("factor_covariance", table, options)

    tasks = [
        {"data": name, "model": letters, "n_init": n_init, "seed": seed}
        for name in REAL
        for letters in ("UUUU", "UCUU")
        for n_init in (1, 5)
        for seed in range(seeds)
    ]
    rows = run("factor_real", clustered, tasks, options)
    figures = ["log_likelihood", "bic", "ari", "accuracy", "at_least_the_paper", "seconds"]
    table = mean_by(rows, ["data", "model", "n_init"], figures)
    for line in table:
        same = [row for row in rows if all(row[key] == line[key] for key in ("data", "model", "n_init"))]
        best = max(same, key=lambda row: row["log_likelihood"])
        line |= {"best_log_likelihood": f"{best['log_likelihood']:.2f}", "its_ari": best["ari"]}
    show(table)
    write("factor_real", table, options)


if __name__ == "__main__":
    main()
