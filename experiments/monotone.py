"""A thousand random fits (dense, block, singular, p > N, tiny components): falls of the trace and exceptions."""

from __future__ import annotations

import warnings

import numpy as np
from harness import Task, arguments, mean_by, run, show, write

from blockmix import GaussianBiclustering

KINDS = ("dense", "block", "singular", "wide", "tiny")
GROUPINGS = ("hierarchical", "greedy", "penalized", "relaxed")
STARTS = ("kmeans", "random", "kmeans++", "whitened", "hierarchical")


def data(kind: str, rng: np.random.Generator) -> np.ndarray:
    G, p = int(rng.integers(1, 5)), int(rng.integers(2, 13))
    N = int(rng.integers(30, 200))
    if kind == "wide":
        N, p = int(rng.integers(8, 30)), int(rng.integers(30, 60))
    labels = rng.integers(0, G, N)
    if kind == "tiny":
        labels = np.where(np.arange(N) < 3, labels, 0)
    X = np.empty((N, p))
    for g in range(G):
        rows = labels == g
        loadings = rng.standard_normal((p, p))
        if kind == "block":
            groups = rng.integers(0, 3, p)
            loadings = loadings * (groups[:, None] == groups)
        X[rows] = rng.standard_normal((rows.sum(), p)) @ loadings.T + 3 * rng.standard_normal(p)
    if kind == "singular":
        X[:, 0] = X[:, -1]
        X[: N // 2, p // 2] = 1.0
        X[N // 2 : N // 2 + 5] = X[N // 2]
    return X


def fit(task: Task) -> dict[str, float]:
    rng = np.random.default_rng(task["seed"])
    X = data(task["kind"], rng)
    p = X.shape[1]
    n_components = int(rng.integers(1, 6))
    settings = {
        "n_column_groups": [1, p, int(rng.integers(1, p + 1)), "auto", "silhouette"][rng.integers(5)],
        "grouping": GROUPINGS[rng.integers(4)],
        "shared_covariance": bool(rng.integers(2)),
        "shrinkage": [None, 0.1, 0.5][rng.integers(3)],
        "init": STARTS[rng.integers(5)],
        "random_state": task["seed"],
        "max_iter": 60,
    }
    model = GaussianBiclustering(n_components, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(X)
        except Exception as error:
            return {"fall": 0.0, "error": 1.0, "nan": 0.0, "what": f"{settings} {error!r}"}
    steps = np.diff(model.log_likelihood_trace_)
    scale = 1e-10 * np.abs(model.log_likelihood_trace_).max()
    values = np.concatenate([model.predict_proba(X).ravel(), model.means_.ravel(), model.covariances_.ravel()])
    return {
        "fall": float((steps < -scale).any()),
        "error": 0.0,
        "nan": float(not np.isfinite(values).all()),
        "what": f"{settings} {steps.min():.3g} of {model.log_likelihood_trace_[-1]:.5g}" if len(steps) else "",
    }


def main() -> None:
    options = arguments(__doc__)
    runs = 200 if options.full else 20
    tasks = [{"kind": kind, "seed": seed} for kind in KINDS for seed in range(runs)]
    rows = run("monotone", fit, tasks, options)
    for row in rows:
        if row["fall"] or row["error"] or row["nan"]:
            print(row)
    table = mean_by(rows, ["kind"], ["fall", "error", "nan"])
    show(table)
    write("monotone", table, options)


if __name__ == "__main__":
    main()
