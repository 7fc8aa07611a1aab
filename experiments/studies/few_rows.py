"""Few rows: covariances and imputed values where values are missing, outliers of new rows, and columns of few levels.

Not a result of the paper. Three groups of three or more columns, correlation 0.6, in clusters at random distances. See
docs/adr/0017-few-rows.md.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.stats import norm
from sklearn.impute import KNNImputer
from sklearn.metrics import adjusted_rand_score

from blockmix import GaussianBiclustering
from experiments.harness import Task, arguments, mean_by, run, show, write

COLLAPSED = 0.004  # a hundredth of the smallest eigenvalue of the covariance that is drawn from
LEVELS = (2, 3, 5)


def drawn(rng: np.random.Generator, labels: np.ndarray, p: int, apart: float) -> np.ndarray:
    """Rows in clusters with these labels."""
    block = np.arange(p) // 3
    covariance = np.where(block[:, None] == block, 0.6, 0.0) + 0.4 * np.eye(p)
    means = apart * rng.standard_normal((labels.max() + 1, p))
    return means[labels] + rng.standard_normal((len(labels), p)) @ np.linalg.cholesky(covariance).T


def missing(task: Task) -> Task:
    """Smallest eigenvalue, error and coverage of imputed values."""
    rng = np.random.default_rng(task["seed"])
    whole = drawn(rng, rng.integers(0, 2, 2 * task["rows"]), task["columns"], 3.0)
    X = np.where(rng.random(whole.shape) < task["missing"], np.nan, whole)
    kept = ~np.isnan(X).all(axis=1)
    X, whole = X[kept], whole[kept]
    model = GaussianBiclustering(2, random_state=0).fit(X)
    cells = np.isnan(X)
    errors = [
        np.sqrt(np.mean((filled - whole)[cells] ** 2)) for filled in (model.impute(X), KNNImputer().fit_transform(X))
    ]
    smallest = min(np.linalg.eigvalsh(S)[0] for S in model.covariances_)
    return {
        "collapsed in silence": float(smallest < COLLAPSED and not model.warnings_),
        "coverage of 90 %": coverage(model, X, whole),
        "error over KNN's": errors[0] / errors[1],
    }


def coverage(model: GaussianBiclustering, X: np.ndarray, whole: np.ndarray) -> float:
    """Share of the missing values within the middle 90 % of their conditional distributions."""
    inside: list[bool] = []
    for x, y, z in zip(X, whole, model.predict_proba(X), strict=True):
        m, o = np.isnan(x), ~np.isnan(x)
        levels = np.zeros(int(m.sum()))
        for weight, mean, S in zip(z, model.means_, model.covariances_, strict=True):
            slopes = np.linalg.solve(S[np.ix_(o, o)], S[np.ix_(o, m)]).T
            center = mean[m] + slopes @ (x[o] - mean[o])
            deviation = np.sqrt(np.diag(S[np.ix_(m, m)] - slopes @ S[np.ix_(o, m)]))
            levels += weight * norm.cdf((y[m] - center) / deviation)
        inside += ((levels > 0.05) & (levels < 0.95)).tolist()
    return float(np.mean(inside))


def outliers(task: Task) -> Task:
    """Share of new rows from the same clusters that are marked."""
    rng = np.random.default_rng(task["seed"])
    new = 3000
    labels = np.arange(2 * task["rows"] + new) % 2
    X = drawn(rng, labels, task["columns"], 4.0)
    model = GaussianBiclustering(2, random_state=0).fit(X[new:])
    return {"new rows marked": float(model.outliers(X[:new]).mean())}


def levels(task: Task) -> Task:
    """What a column of noise with few levels costs."""
    rng = np.random.default_rng(task["seed"])
    labels = rng.integers(0, 3, 300)
    means = 3 * rng.standard_normal((3, task["columns"]))
    X = means[labels] + rng.standard_normal((300, task["columns"]))
    with_noise = np.column_stack([X, rng.integers(0, task["levels"], 300)])
    fits = (GaussianBiclustering(3, random_state=0).fit(table).row_labels_ for table in (X, with_noise))
    plain, noisy = (adjusted_rand_score(labels, found) for found in fits)
    return {"loss of ARI": plain - noisy}


PARTS = {"missing": missing, "outliers": outliers, "levels": levels}


def fit(task: Task) -> Task:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PARTS[task["part"]](task)


def main() -> None:
    options = arguments(__doc__)
    seeds = range(500, 500 + (options.runs or (20 if options.full else 3)))
    cells = {
        "missing": [
            {"rows": n, "columns": p, "missing": share}
            for n in (20, 30, 40, 60)
            for p in (6, 9, 12)
            for share in (0.2, 0.3, 0.4)
        ],
        "outliers": [{"rows": n, "columns": p} for n, p in ((20, 6), (30, 12), (50, 12), (100, 12), (30, 30))],
        "levels": [{"columns": p, "levels": number} for p in (4, 8, 16) for number in LEVELS],
    }
    for part, settings in cells.items():
        tasks = [{"part": part, **setting, "seed": seed} for setting in settings for seed in seeds]
        rows = run(f"few_rows_{part}", fit, tasks, options)
        figures = [name for name in rows[0] if name not in tasks[0]]
        table = mean_by(rows, list(settings[0]), figures)
        show(table)
        write(f"few_rows_{part}", table, options)


if __name__ == "__main__":
    main()
