"""Missing values: the exact fit beside imputing first, on Wine, Olive and Ecoli; and does the objective ever fall?

Cells are deleted completely at random (5, 15 and 30 %), ten draws. ARI of the rows to the true classes, ARI of the
column groups to those of the same fit to the complete table, and RMSE of the deleted cells in standard deviations.
Every method has the same fit: the defaults with n_init=4. Not a result of the paper.

With --monotone instead: random fits with values missing at random and depending on observed ones, 1 to 50 % missing,
blank rows, columns with 95 % missing, p > N, float32, t components and shared covariances.
"""

from __future__ import annotations

import sys
import warnings
from functools import cache
from typing import Any

import numpy as np
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.metrics import adjusted_rand_score

from blockmix import GaussianBiclustering
from experiments.data import available, load_ecoli, load_olive, load_wine, standardize
from experiments.harness import Task, arguments, mean_by, run, show, write

SETS = {"Wine": (load_wine, 3), "Olive": (load_olive, 3), "Ecoli": (load_ecoli, 8)}
SHARES = (0.05, 0.15, 0.3)
IMPUTERS = {
    "mean": SimpleImputer,
    "KNN": KNNImputer,
    "iterative": lambda: IterativeImputer(random_state=0),
}
DESIGNS = ("random", "depending", "blank", "sparse column", "wide")


def table(name: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Standardized values, classes and their number."""
    load, n_components = SETS[name]
    bunch = load()
    return standardize(bunch.data), bunch.target, n_components


def fitted(X: np.ndarray, n_components: int, seed: int, **settings: Any) -> GaussianBiclustering:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GaussianBiclustering(n_components, random_state=seed, n_init=4, **settings).fit(X)


@cache
def complete_fit(name: str, seed: int) -> GaussianBiclustering:
    """The fit to the table before cells were deleted."""
    X, _, n_components = table(name)
    return fitted(X, n_components, seed)


def column_agreement(a: GaussianBiclustering, b: GaussianBiclustering) -> float:
    """Mean ARI of the column groups of the components that share most rows."""
    scores = [
        adjusted_rand_score(
            a.column_labels_[g], b.column_labels_[np.bincount(b.row_labels_[a.row_labels_ == g]).argmax()]
        )
        for g in range(len(a.weights_))
        if (a.row_labels_ == g).any()
    ]
    return float(np.mean(scores))


def compare(task: Task) -> dict[str, float]:
    X, y, G = table(task["set"])
    rng = np.random.default_rng([task["draw"], int(100 * task["share"])])
    deleted = rng.random(X.shape) < task["share"]
    deleted &= ~(deleted.all(axis=1, keepdims=True))  # every row keeps a value, which KNNImputer needs
    incomplete = np.where(deleted, np.nan, X)
    for j in np.flatnonzero(
        np.nanmax(incomplete, axis=0) == np.nanmin(incomplete, axis=0)
    ):  # Ecoli: one row differs in chg
        deleted[:, j], incomplete[:, j] = False, X[:, j]
    whole = complete_fit(task["set"], task["draw"])
    if task["way"] == "exact":
        model = fitted(incomplete, G, task["draw"])
        completed = model.impute(incomplete)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            completed = IMPUTERS[task["way"]]().fit_transform(incomplete)
        model = fitted(completed, G, task["draw"])
    return {
        "rows": float(adjusted_rand_score(y, model.row_labels_)),
        "columns": column_agreement(whole, model),
        "rmse": float(np.sqrt(((completed - X)[deleted] ** 2).mean())),
        "complete": float(adjusted_rand_score(y, whole.row_labels_)),
    }


def differences(rows: list[Task]) -> list[Task]:
    """By how much the exact fit is ahead of the best way of imputing in the ARI of rows, with its standard error."""
    table: list[Task] = []
    for name, share in dict.fromkeys((row["set"], row["share"]) for row in rows):
        of_share = [row for row in rows if (row["set"], row["share"]) == (name, share)]
        by_way = {way: np.array([row["rows"] for row in of_share if row["way"] == way]) for way in ("exact", *IMPUTERS)}
        best = max(IMPUTERS, key=lambda way: float(by_way[way].mean()))
        gain = by_way["exact"] - by_way[best]
        error = float(gain.std(ddof=1) / np.sqrt(len(gain)))
        table.append({"set": name, "share": share, "best": best, "ahead": float(gain.mean()), "error": error})
    return table


def incomplete_table(design: str, rng: np.random.Generator) -> np.ndarray:
    """A table of 1 to 4 clusters with 1 to 50 % of its values missing."""
    N, p = int(rng.integers(30, 200)), int(rng.integers(2, 13))
    if design == "wide":
        N, p = int(rng.integers(10, 30)), int(rng.integers(30, 50))
    labels = rng.integers(0, rng.integers(1, 5), N)
    X = rng.standard_normal((N, p)) @ rng.standard_normal((p, p)) + 3 * rng.standard_normal((4, p))[labels]
    odds = np.full(X.shape, rng.uniform(0.01, 0.5))
    if design == "depending":
        odds = np.minimum(odds * np.where(X[:, :1] > np.median(X[:, 0]), 1.8, 0.2), 0.9)
        odds[:, 0] = 0
    if design == "sparse column":
        odds[:, rng.integers(p)] = 0.95
    if design == "blank":
        odds[rng.random(N) < 0.1] = 1
    values = X.copy()
    X[rng.random(X.shape) < odds] = np.nan
    for j in np.flatnonzero((~np.isnan(X)).sum(axis=0) < 3):  # a column needs two different values
        X[:3, j] = values[:3, j]
    return X


def climb(task: Task) -> dict[str, Any]:
    rng = np.random.default_rng([task["seed"], DESIGNS.index(task["design"])])
    X = incomplete_table(task["design"], rng)
    settings = {
        "n_column_groups": [1, X.shape[1], int(rng.integers(1, X.shape[1] + 1)), "auto", "auto"][rng.integers(5)],
        "block_model": ["auto", "full", 1, "tree"][rng.integers(4)],
        "shared_covariance": bool(rng.integers(2)),
        "tails": ["normal", "t"][rng.integers(2)],
        "shrinkage": [None, 0.1][rng.integers(2)],
        "max_iter": 60,
        "random_state": task["seed"],
    }
    single, decimals, G = rng.random() < 0.2, rng.random() < 0.3, int(rng.integers(1, 5))
    X = np.round(X, 1) if decimals else X
    X = X.astype(np.float32) if single else X
    weights = rng.integers(0, 3, len(X)) + (np.arange(len(X)) < 8) if rng.random() < 0.3 else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = GaussianBiclustering(G, **settings).fit(X, sample_weight=weights)
        values = [model.score_samples(X), model.predict_proba(X), model.means_, model.covariances_, model.impute(X)]
    except Exception as error:
        return {"fall": 0.0, "nan": 0.0, "error": 1.0, "what": f"{settings} {error!r}"}
    trace = model.log_likelihood_trace_
    allowed = (1e-4 if single else 1e-9) * np.abs(trace).max()
    steps = np.diff(trace)
    return {
        "fall": float((steps < -allowed).any()),
        "nan": float(not (np.isfinite(trace).all() and all(np.isfinite(value).all() for value in values))),
        "error": 0.0,
        "what": f"G={G} {settings} {steps.min(initial=0):.3g} of {trace[-1]:.5g}",
    }


def monotone(options: Any) -> None:
    runs = options.runs or (200 if options.full else 12)
    tasks = [{"design": design, "seed": seed} for design in DESIGNS for seed in range(runs)]
    rows = run("missing_monotone", climb, tasks, options)
    for row in rows:
        if row["fall"] or row["error"] or row["nan"]:
            print(row)
    table = mean_by(rows, ["design"], ["fall", "nan", "error"])
    show(table)
    write("missing_monotone", table, options)


def main() -> None:
    wanted = "--monotone" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--monotone"]
    options = arguments(__doc__)
    if wanted:
        monotone(options)
        return
    draws = options.runs or (10 if options.full else 2)
    names = available({name: load for name, (load, _) in SETS.items()})
    tasks = [
        {"set": name, "share": share, "way": way, "draw": draw}
        for name in names
        for share in SHARES
        for way in ("exact", *IMPUTERS)
        for draw in range(draws)
    ]
    rows = run("missing", compare, tasks, options)
    table = mean_by(rows, ["set", "share", "way"], ["rows", "columns", "rmse", "complete"])
    show(table)
    write("missing", table, options)
    ahead = differences(rows)
    show(ahead)
    write("missing_differences", ahead, options)


if __name__ == "__main__":
    main()
