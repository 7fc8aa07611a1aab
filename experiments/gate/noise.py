"""Tables without clusters or groups, which must not be given any, and tables whose clusters nobody could miss."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import adjusted_rand_score

from blockmix import BlockDiagonalCovariance, select
from experiments.gate.table import guarded
from experiments.harness import Task

SIZES = ((10, 4), (12, 8), (15, 6), (20, 12), (20, 30), (30, 12))
_ENOUGH = 15  # rows from which the groups of a mixture are held to the bar
PLANTED, APART = (3, 15), 6.0  # clusters and their rows; distance of their means in deviations


def tasks(full: bool, runs: int | None) -> list[Task]:
    number = runs or (200 if full else 30)
    sizes = [(N, p, 0.0) for N, p in SIZES] + [(60, 6, missing) for missing in (0.0, 0.2, 0.4)]
    noise = [{"rows": N, "columns": p, "missing": m, "seed": s} for N, p, m in sizes for s in range(number)]
    G, n = PLANTED
    return noise + [
        {"rows": G * n, "columns": p, "missing": 0.0, "planted": G, "seed": seed}
        for p in (4, 8)
        for seed in range(number)
    ]


def run(task: Task) -> Task:
    """Figures of one table."""
    return guarded(measured, task)


def measured(task: Task) -> Task:
    """Whether one cluster was chosen and no group found; or whether the planted clusters were."""
    rng = np.random.default_rng([task["seed"], task["rows"], task["columns"]])
    N, p = task["rows"], task["columns"]
    X = rng.standard_normal((N, p))
    if "planted" in task:
        z = np.arange(N) % task["planted"]
        corners = np.linalg.qr(rng.standard_normal((p, task["planted"])))[0].T  # √2 apart from each other
        X += (APART / np.sqrt(2) * corners)[z]
        model = select(X, range(1, 6), random_state=0).best_estimator_
        right = len(model.weights_) == task["planted"] and adjusted_rand_score(z, model.row_labels_) > 0.85
        return {"planted clusters found": float(right)}
    correlated = task["seed"] % 2 and p % 3 == 0
    if correlated:  # one cluster with groups of three columns, correlation 0.6
        X = np.sqrt(0.4) * X + np.sqrt(0.6) * np.repeat(rng.standard_normal((N, p // 3)), 3, axis=1)
    X[rng.random(X.shape) < task["missing"]] = np.nan
    X = X[~np.isnan(X).all(axis=1)]
    model = select(X, range(1, 6), random_state=0).best_estimator_
    figures = {"more than one cluster": float(len(model.weights_) > 1)}
    if correlated:
        return figures
    alone = BlockDiagonalCovariance().fit(X).n_groups_ == p
    figures["a group of columns, one table"] = float(not alone)
    # BIC, which chooses them, is a limit for many rows: below 15 the share is shown but held to no bar.
    name = "a group of columns, chosen mixture" if N >= _ENOUGH else "false groups of fewer than 15 rows"
    return figures | {name: float((model.n_column_groups_ < p).any())}
