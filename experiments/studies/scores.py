"""Scores, associations and conditional intervals on planted tables: the bars of the guide page "Modules and traits".

factor: correlation of the score of a group of 8 columns with loadings from 0.5 to 0.9 with its planted factor, beside
the largest that theory allows, √(a / (1 + a)) with a = Σ λ² / (1 − λ²).
traits: 1000 traits that have nothing to do with two planted clusters of 100 rows, each with two groups of 4 columns:
the share of tables with any q < 0.05, which is the false discovery rate; also with clusters of 15 and 185 rows. "plain"
is that share for F and χ² tests of the clusters as they are. A trait
with r = 0.3 to the factor of a group, in 200 rows, among nine such traits: how often q < 0.05 finds it.
cells: share of the missing values within mean ± 1.645 √variance of `conditional`, 200 rows. A full run has 100 tables
of each kind.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from zlib import crc32

import numpy as np
from scipy.stats import chi2_contingency, f_oneway, false_discovery_control

from blockmix import BlockDiagonalCovariance, GaussianBiclustering
from experiments.harness import Task, arguments, mean_by, run, show, write

Rng = np.random.Generator
LOADINGS = np.linspace(0.5, 0.9, 8)
N_TRAITS = 1000

TRAITS: dict[str, Callable[[int, Rng], np.ndarray]] = {
    "normal": lambda N, rng: rng.standard_normal(N),
    "lognormal": lambda N, rng: np.exp(rng.standard_normal(N)),
    "t, 2 df": lambda N, rng: rng.standard_t(2, N),
    "0/1, 5 %": lambda N, rng: (rng.random(N) < 0.05).astype(float),
    "3 categories": lambda N, rng: rng.choice(["a", "b", "c"], N, p=[0.5, 0.4, 0.1]),
    "12 categories": lambda N, rng: rng.choice([*"abcdefghijkl"], N),
    "20 % missing": lambda N, rng: np.where(rng.random(N) < 0.2, np.nan, rng.standard_normal(N)),
}


def one_factor(N: int, loadings: np.ndarray, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Rows of unit variance with these loadings on a factor, and the factor."""
    u = rng.standard_normal(N)
    return u, u[:, None] * loadings + rng.standard_normal((N, len(loadings))) * np.sqrt(1 - loadings**2)


def clustered(N: int, rng: Rng, first: int = 100) -> np.ndarray:
    """Two clusters, with two groups of four columns each."""
    X = np.concatenate([one_factor(N, np.full(4, 0.8), rng)[1] for _ in range(2)], axis=1)
    X[:first] = X[:first, rng.permutation(8)] + 3
    return X


def factor(task: Task, rng: Rng) -> dict[str, float]:
    u, X = one_factor(task["N"], LOADINGS, rng)
    settings = {"default": {}, "one factor": {"n_groups": 1, "block_model": 1}, "full": {"n_groups": 1}}
    found = {}
    for name, options in settings.items():
        scores = BlockDiagonalCovariance(**options).fit_transform(X)
        found[name] = abs(np.corrcoef(scores[:, 0], u)[0, 1]) if scores.shape[1] else 0.0
    a = float((LOADINGS**2 / (1 - LOADINGS**2)).sum())
    return found | {"limit": (a / (1 + a)) ** 0.5}


def traits(task: Task, rng: Rng) -> dict[str, float]:
    X, make = clustered(200, rng, task["first"]), TRAITS[task["kind"]]
    model = GaussianBiclustering(2, random_state=0).fit(X)
    made = {str(j): make(200, rng) for j in range(N_TRAITS)}
    null = model.associate(X, made)
    labels = [model.row_labels_ == g for g in range(len(model.weights_))]
    plain = [
        chi2_contingency(
            [[(trait[rows] == a).sum() for a in np.unique(trait)] for rows in labels], correction=False
        ).pvalue
        if trait.dtype.kind == "U"
        else f_oneway(*(trait[rows & ~np.isnan(trait)] for rows in labels)).pvalue
        for trait in made.values()
    ]
    u, rows = one_factor(200, np.full(6, 0.8), rng)
    planted = {str(j): make(200, rng) for j in range(9)} | {"planted": 0.3 * u + 0.91**0.5 * rng.standard_normal(200)}
    table = BlockDiagonalCovariance().fit(rows).associate(rows, planted)
    q = table.loc[table.trait == "planted", "q"]
    return {
        "plain": float((false_discovery_control(np.nan_to_num(plain, nan=1.0)) < 0.05).any()),
        "false": float((null.q < 0.05).any()),
        "p < 0.05": float((null.p < 0.05).mean()),
        "found": float((q < 0.05).any()),
    }


def cells(task: Task, rng: Rng) -> dict[str, float]:
    whole = clustered(200, rng)
    X = np.where(rng.random(whole.shape) < task["missing"], np.nan, whole)
    mean, variance = GaussianBiclustering(2, random_state=0).fit(X).conditional(X)
    gone = np.isnan(X)
    return {"covered": float((np.abs(whole - mean) < 1.645 * np.sqrt(variance))[gone].mean())}


PARTS = {
    "factor": (factor, [{"N": N} for N in (50, 100, 400)], ["default", "one factor", "full", "limit"]),
    "traits": (
        traits,
        [{"kind": kind, "first": n} for kind in TRAITS for n in (100, 15)],
        ["plain", "false", "p < 0.05", "found"],
    ),
    "cells": (cells, [{"missing": share} for share in (0.1, 0.2, 0.3)], ["covered"]),
}


def look(task: Task) -> dict[str, float]:
    rng = np.random.default_rng([crc32(repr(sorted(task.items())).encode())])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PARTS[task["part"]][0](task, rng)


def main() -> None:
    options = arguments(__doc__)
    runs = options.runs or (100 if options.full else 10)
    for name, (_, cases, figures) in PARTS.items():
        tasks = [{"part": name, **case, "seed": seed} for case in cases for seed in range(runs)]
        means = mean_by(run(f"scores_{name}", look, tasks, options), [*cases[0]], figures)
        show(means)
        write(f"scores_{name}", means, options)


if __name__ == "__main__":
    main()
