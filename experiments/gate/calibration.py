"""Is a stated probability one? Tables drawn from fitted models, fitted again, and held against what was drawn.

A model of each shape of blocks, with normal or t components and own or shared covariances, is fitted to a large table.
Small tables drawn from it have known clusters, groups and missing values, so that probabilities of rows, outliers,
intervals of imputed values, stability and the number of clusters can be compared with the truth.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise, product
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm
from scipy.stats import t as student

from blockmix import GaussianBiclustering, select
from blockmix.command.fit import row_lines
from experiments.gate.table import guarded
from experiments.harness import Task

BINS = (0.5, 0.8, 0.95, 0.99, 1.0)
SIZES = (5, 4)  # columns of the groups
# Distances of the means in deviations along the line that joins them. Clusters that overlap show whether probabilities
# are right; everything else is asked of clusters that are found, because nothing said of wrong clusters can be right.
OVERLAPPING, CLEAR = 4.0, 8.0
NEW = 500  # rows that the fit has not seen
SETTINGS = {"block_model": "shape", "tails": "tails", "shared_covariance": "shared"}
TRUTH = ("shape", "tails", "shared", "apart")


def tasks(full: bool, runs: int | None) -> list[Task]:
    shapes, apart = ("auto", "full", 1, "tree"), (OVERLAPPING, CLEAR)
    cells = product(shapes, ("normal", "t"), (0.0, 0.3), (False, True), (30, 60, 200), apart)
    names = ("shape", "tails", "missing", "shared", "rows", "apart")
    return [
        dict(zip(names, cell, strict=True)) | {"seed": seed}
        for cell in cells
        for seed in range(runs or (20 if full else 1 if cell[4] == 200 else 2))
    ]


@cache
def truth(shape: Any, tails: str, shared: bool, apart: float) -> GaussianBiclustering:
    """A model of two clusters and two column groups, fitted to 1000 rows of each cluster."""
    rng = np.random.default_rng(1)
    X = np.concatenate([correlated(rng, shape, 0 if shared else g) for g in range(2)])
    if tails == "t":
        X /= np.sqrt(rng.chisquare(6, len(X)) / 6)[:, None]
    inverse = np.linalg.inv(np.cov(X.T))
    shift = rng.standard_normal(X.shape[1])
    X[len(X) // 2 :] += shift * apart / np.sqrt(shift @ inverse @ shift)
    X = X[:, rng.permutation(X.shape[1])] * rng.uniform(0.5, 20, X.shape[1])
    settings = {"block_model": shape, "tails": tails, "shared_covariance": shared}
    return GaussianBiclustering(2, init=np.repeat([0, 1], len(X) // 2), **settings).fit(X)


def correlated(rng: np.random.Generator, shape: Any, g: int, N: int = 1000) -> np.ndarray:
    """Rows of unit variance in groups of `SIZES`: one factor, a chain for trees, or two factors for full blocks."""
    blocks = []
    for c in SIZES[::-1] if g else SIZES:
        noise = rng.standard_normal((N, c))
        if shape == "tree":
            for j in range(1, c):
                noise[:, j] = 0.75 * noise[:, j - 1] + np.sqrt(1 - 0.75**2) * noise[:, j]
            blocks.append(noise)
            continue
        second = 0.4 * rng.standard_normal((N, 1)) * rng.standard_normal(c) if shape in ("full", "auto") else 0.0
        blocks.append(0.8 * rng.standard_normal((N, 1)) + second + 0.6 * noise)
    return np.concatenate(blocks, axis=1)


def run(task: Task) -> Task:
    """Figures of one table."""
    return guarded(measured, task)


def measured(task: Task) -> Task:
    """The figures that a table of this setting has."""
    whole, X, z = drawn(task)
    old, new = slice(NEW, None), slice(0, NEW)
    settings = {name: task[key] for name, key in SETTINGS.items()} | {"random_state": 0}
    chosen = select(X[old], range(1, 5), **settings).best_estimator_
    G = len(chosen.weights_)
    figures: Task = {"right number of clusters": float(G == 2), "more clusters than there are": float(G > 2)}
    if G == 2:
        figures |= probabilities(chosen, X[new], z[new], clusters_matched(chosen.row_labels_, z[old]))
    if task["apart"] == OVERLAPPING:
        return figures
    model = GaussianBiclustering(2, **settings).fit(X[old])
    stability = model.stability(X[old], 50, 0, random_state=0)
    matched = clusters_matched(model.row_labels_, z[old])
    true = truth(*(task[key] for key in TRUTH))
    figures |= outliers(model, X[new], task) | firm_groups(stability, true, matched)
    return figures | (imputed(model, true, matched, X[old], whole[old]) if task["missing"] else {})


def drawn(task: Task) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the truth, the same with missing values, and their clusters: `NEW` rows, then those to fit."""
    rng = np.random.default_rng([task["seed"], task["rows"]])
    model = truth(*(task[key] for key in TRUTH)).set_params(random_state=int(rng.integers(2**31)))
    rows, z = model.sample(2 * task["rows"] + NEW)
    order = rng.permutation(len(rows))
    X = np.where(rng.random(rows.shape) < task["missing"], np.nan, rows)
    empty = np.isnan(X).all(axis=1)
    X[empty] = rows[empty]
    return rows[order], X[order], z[order]


def clusters_matched(labels: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The true cluster of each fitted one, (G,)."""
    counts = np.zeros((2, 2))
    np.add.at(counts, (labels, z), 1)
    return np.asarray(linear_sum_assignment(-counts)[1])


def probabilities(model: Any, X: np.ndarray, z: np.ndarray, matched: np.ndarray) -> Task:
    """By how much stated probabilities exceed the share of rows that are right, over all new rows and by bins."""
    P = model.predict_proba(X)
    stated, right = P.max(axis=1), matched[P.argmax(axis=1)] == z
    figures = {"overconfidence, all rows": float((stated - right).mean())}
    for low, high in pairwise(BINS):
        rows = (stated >= low) & ((stated < high) | (high == 1.0))
        if rows.sum() >= 5:
            figures[f"overconfidence, stated {low:g} to {high:g}"] = float((stated - right)[rows].mean())
    return figures


def outliers(model: Any, X: np.ndarray, task: Task) -> Task:
    """Rates of outliers as the command writes them, and whether new rows with one wild value are still flagged."""
    if task["tails"] != "normal":  # the limit is that of normal rows
        return {}
    wild = X[:50].copy()
    wild[:, 0] = model.means_[:, 0].mean() + 15 * np.sqrt(model.covariances_[:, 0, 0].max())

    def rate(rows: np.ndarray) -> float:
        return float(np.mean([line[4] == "yes" for line in row_lines(model, rows, range(len(rows)), new=True)]))

    fitted = float(model.outliers_.mean())
    return {"outliers, fitted rows": fitted, "outliers, new rows": rate(X), "wild rows flagged": rate(wild)}


def firm_groups(stability: Any, true: Any, matched: np.ndarray) -> Task:
    """Share of the groups called firm (`again` from 0.9) that are exactly groups of the truth."""
    names = np.array(stability.names)
    hits = []
    for group in stability.groups:
        labels = true.column_labels_[matched[group.component]]
        if group.again >= 0.9:
            hits.append(any(set(group.columns) == set(names[labels == k]) for k in range(labels.max() + 1)))
    return {"firm groups that are right": float(np.mean(hits))} if hits else {}


def imputed(model: Any, true: Any, matched: np.ndarray, X: np.ndarray, whole: np.ndarray) -> Task:
    """Coverage of imputed values, and whether a covariance collapsed without a warning that names covariances."""
    inverses = np.linalg.inv(np.linalg.cholesky(true.covariances_))[matched]
    relative = inverses @ model.covariances_ @ inverses.transpose(0, 2, 1)  # I where the fit is the truth
    collapsed = np.linalg.eigvalsh(relative).min() < 0.01
    silent = collapsed and not any("covariance" in warning for warning in model.warnings_)
    return {
        "imputed values in their 90 % interval": intervals(model, X, whole),
        "covariances that collapse": float(collapsed),
        "covariances that collapse in silence": float(silent),
    }


def intervals(model: Any, X: np.ndarray, whole: np.ndarray) -> float:
    """Share of the missing values within the central 90 % of their conditional distribution, Σ_g z_g F_g(x | x_o)."""
    P, S, nu = model.predict_proba(X), model.covariances_, model.degrees_of_freedom_
    levels: list[float] = []
    for i in np.flatnonzero(np.isnan(X).any(axis=1)):
        m, o = np.isnan(X[i]), ~np.isnan(X[i])
        level = np.zeros(m.sum())
        for g in range(len(P[i])):
            solved = np.linalg.lstsq(S[g][np.ix_(o, o)], S[g][np.ix_(o, m)], rcond=None)[0]
            deviation = X[i, o] - model.means_[g, o]
            variance = np.diag(S[g][np.ix_(m, m)] - S[g][np.ix_(m, o)] @ solved).clip(1e-300)
            score = whole[i, m] - model.means_[g, m] - deviation @ solved
            if np.isinf(nu[g]):
                level += P[i, g] * norm.cdf(score / np.sqrt(variance))
                continue
            distance = deviation @ np.linalg.lstsq(S[g][np.ix_(o, o)], deviation, rcond=None)[0]
            variance *= (nu[g] + distance) / (nu[g] + o.sum())
            level += P[i, g] * student.cdf(score / np.sqrt(variance), nu[g] + o.sum())
        levels.extend(level)
    return float(np.mean(np.abs(np.array(levels) - 0.5) <= 0.45))
