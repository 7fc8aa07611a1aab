"""Ten thousand random fits: does the objective ever fall, and does anything fail?

`GaussianBiclustering`, normal and t, float64 and float32, with own and shared covariances, on dense, block, singular,
wide (p > N), discrete, tied, tiny-component and outlying data; `FactorBiclustering` for all 16 models and T = I, half
of them in float32, a quarter on discrete and tied columns. Not a result of the paper, whose EM does fall.
"""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import numpy as np

from blockmix import FactorBiclustering, GaussianBiclustering
from experiments.harness import Task, arguments, mean_by, run, show, write

KINDS = ("dense", "block", "singular", "wide", "tiny", "discrete", "tied", "outliers")
GROUPINGS = ("hierarchical", "greedy", "relaxed")
FAMILY = ["".join(letters) for letters in product("UC", repeat=4)] + ["UIUU", "CIUU", "UICU", "UIUC"]
# A component on rows that agree in a column is refused in these words.
DOCUMENTED = ("component ", "the column")


def data(kind: str, rng: np.random.Generator) -> np.ndarray:
    G, p = int(rng.integers(1, 5)), int(rng.integers(2, 13))
    N = int(rng.integers(30, 200))
    if kind == "wide":
        N, p = int(rng.integers(6, 16)), int(rng.integers(17, 33))
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
    if kind == "discrete":  # 0/1, counts, five levels, zeros with a continuous rest
        steps = [(X > 0), np.floor(np.exp(X / 4)), np.round(X).clip(-2, 2), np.maximum(X, 0)]
        X = np.stack([steps[j % 4][:, j] for j in range(p)], axis=1).astype(float)
        X[:2] = [[0.0], [1.0]]  # no column is constant
    if kind == "tied":  # copies of columns, and rows recorded more than once
        X[:, p // 2 :] = X[:, : p - p // 2]
        X[N // 2 :] = X[: N - N // 2]
    if kind == "outliers":
        X[: max(1, N // 25)] = rng.uniform(-1e3, 1e3, (max(1, N // 25), p))
    return X


def fit(task: Task) -> dict[str, float]:
    rng = np.random.default_rng(task["seed"])
    X = data(task["kind"], rng).astype(task["dtype"])
    p = X.shape[1]
    n_components = int(rng.integers(1, 6))
    settings = {
        "n_column_groups": [1, p, int(rng.integers(1, p + 1)), "auto", "auto", "silhouette"][rng.integers(6)],
        "grouping": GROUPINGS[rng.integers(3)],
        "shared_covariance": bool(rng.integers(2)),
        "tails": task["tails"],
        "shrinkage": [None, 0.1, 0.5][rng.integers(3)],
        "init": ["auto", "kmeans", rng.permutation(np.arange(len(X)) % n_components)][rng.integers(3)],
        "random_state": task["seed"],
        "max_iter": 60,
    }
    model = GaussianBiclustering(n_components, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(X)
        except Exception as error:
            documented = str(error).startswith(DOCUMENTED)
            ended = {"error": float(not documented), "refused": float(documented), "what": f"{settings} {error!r}"}
            return {"fall": 0.0, "nan": 0.0, "worst": 0.0, **ended}
    steps, scale = np.diff(model.log_likelihood_trace_), rounding(model, X)
    parts = (model.predict_proba(X), model.means_, model.covariances_, model.outlier_scores_, model.score_samples(X))
    values = np.concatenate([part.ravel() for part in parts])
    return {
        "fall": float((steps < -scale).any()),
        "error": 0.0,
        "refused": 0.0,
        "nan": float(not np.isfinite(values).all()),
        "worst": float(-steps.min(initial=0.0) / scale),
        "what": f"{settings} {steps.min():.3g} of {model.log_likelihood_trace_[-1]:.5g}" if len(steps) else "",
    }


def rounding(model: Any, X: np.ndarray) -> float:
    """Rounding of the objective: eps N (|objective| + p Σ_g π_g tr Σ_g⁻¹) for covariances in standardized columns.

    N terms are added, and an error of eps in each entry of Σ_g changes the log-likelihood of a row by up to
    eps Σ_jk |Σ_g⁻¹|_jk / 2, which is below eps p tr Σ_g⁻¹.
    """
    N, p = X.shape
    eps, deviations = np.finfo(float).eps, X.astype(float).std(axis=0)
    eigenvalues = np.linalg.eigvalsh(model.covariances_.astype(float) / np.outer(deviations, deviations))
    traces = (1 / np.maximum(eigenvalues, eps * eigenvalues[:, -1:])).sum(axis=1)
    return float(eps * N * (np.abs(model.log_likelihood_trace_).max() + p * (model.weights_ @ traces)))


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


def fit_factors(task: Task) -> dict[str, float]:
    X, G, q = random_rows(task["seed"])
    if task["seed"] % 4 == 1:  # few values, and two columns that are one
        X[:, ::2] = np.round(X[:, ::2] / X[:, ::2].std(axis=0))
        X[:, -1] = X[:, -2]
    X = X.astype("float32" if task["seed"] % 2 else "float64")
    labels = np.random.default_rng(task["seed"]).permutation(np.arange(len(X)) % G)
    init = ["auto", "kmeans", labels][task["seed"] % 3]
    model = FactorBiclustering(G, q, model=task["model"], init=init, random_state=task["seed"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    steps, scale = np.diff(model.log_likelihood_trace_), rounding(model, X)
    falls = steps < -scale
    return {
        "fits_that_fell": float(falls.any()),
        "steps": float(len(steps)),
        "worst": float(-steps.min(initial=0.0) / scale),
        "converged": float(model.converged_),
    }


def main() -> None:
    options = arguments(__doc__)
    sets = 50 if options.full else 4
    runs = options.runs or (285 if options.full else 8)
    tasks = [
        {"kind": kind, "tails": tails, "dtype": dtype, "seed": seed}
        for kind in KINDS
        for tails in ("normal", "t")
        for dtype in ("float64", "float32")
        for seed in range(runs)
    ]
    rows = run("monotone", fit, tasks, options)
    for row in rows:
        if row["fall"] or row["error"] or row["nan"]:
            print(row)
    table = mean_by(rows, ["kind", "tails", "dtype"], ["fall", "error", "refused", "nan", "worst"])
    show(table)
    write("monotone", table, options)
    tasks = [{"model": letters, "seed": seed} for letters in FAMILY for seed in range(sets)]
    rows = run("factor_ascent", fit_factors, tasks, options)
    table = mean_by(rows, ["model"], ["fits_that_fell", "steps", "worst", "converged"])
    show(table)
    write("factor_ascent", table, options)


if __name__ == "__main__":
    main()
