"""Calibration of stability: how many groups that come back in most resamples are exactly right?

Tables with known groups, full or of one factor, some with columns alone: 8 to 100 columns, 20 to 300 rows, in one
covariance, within mixtures of two and with a shared covariance. Each group of two or more columns is right or not, and
has its share of the resamples in which it came back. Independent columns come on top, and the clusters of Wine with
three and with four components.
"""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
from sklearn.datasets import load_wine

from blockmix import BlockDiagonalCovariance, GaussianBiclustering
from experiments.harness import Task, arguments, run, show, write

Rng = np.random.Generator
RESAMPLES = 50
EDGES = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0001)
SIZES = ((8, 20), (8, 60), (20, 40), (20, 120), (40, 30), (40, 300), (100, 60), (100, 150))  # columns, rows
RULES: dict[str, Any] = {  # the defaults first
    "covariance, auto": lambda G: BlockDiagonalCovariance(),
    "mixture, auto": lambda G: GaussianBiclustering(G, random_state=0),
    "mixture, shared": lambda G: GaussianBiclustering(G, shared_covariance=True, random_state=0),
    "mixture, full blocks": lambda G: GaussianBiclustering(G, block_model="full", random_state=0),
    "covariance, silhouette": lambda G: BlockDiagonalCovariance("silhouette"),
}


def block(c: int, kind: str, rng: Rng) -> np.ndarray:
    """Cholesky factor of the correlation of a group of c columns."""
    loadings = rng.uniform(0.5, 0.9, c) * rng.choice([-1, 1], c)
    R = np.outer(loadings, loadings)
    np.fill_diagonal(R, 1)
    if kind == "full":
        R = 0.6 * R + 0.4 * np.corrcoef(rng.standard_normal((3 * c, c)).T)
    return np.linalg.cholesky(R)


def groups(p: int, kind: str, rng: Rng) -> np.ndarray:
    """Group of each column: groups of 2 to 10, and a quarter of the columns alone; all alone if independent."""
    if kind == "independent":
        return np.arange(p)
    sizes: list[int] = []
    while sum(sizes) < 0.75 * p:
        sizes.append(int(min(rng.integers(2, 11), p - sum(sizes))))
    sizes += [1] * (p - sum(sizes))
    return rng.permutation(np.repeat(np.arange(len(sizes)), sizes))


def covariance(p: int, kind: str, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Groups of the columns, and a factor L of their correlation, shape (p, p)."""
    labels, L = groups(p, kind, rng), np.eye(p)
    for k in range(labels.max() + 1):
        columns = np.flatnonzero(labels == k)
        if len(columns) > 1:
            L[np.ix_(columns, columns)] = block(len(columns), kind, rng)
    return labels, L


def judge(task: Task) -> Task:
    """`again` of each group that was found, and whether it is exactly right."""
    seed = [crc32(task["kind"].encode()), task["p"], task["N"], task["seed"]]
    rng = np.random.default_rng(seed)
    within, shared = task["rule"].startswith("mixture"), task["rule"].endswith("shared")
    G = 2 if within else 1
    made = [covariance(task["p"], task["kind"], rng) for _ in range(1 if shared else G)]
    made = made * G if shared else made
    X = np.concatenate([rng.standard_normal((task["N"], task["p"])) @ L.T + 1.5 * g for g, (_, L) in enumerate(made)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = RULES[task["rule"]](G).fit(X)
        given = {"n_refits": 0} if within else {}
        stability = model.stability(X, RESAMPLES, random_state=task["seed"], **given)
    halves = np.split(model.row_labels_, G) if within and not shared else []
    owners = [int(np.bincount(half, minlength=G).argmax()) for half in halves] or [0]
    right = {(owner, members) for owner, (labels, _) in zip(owners, made, strict=False) for members in _sets(labels)}
    names = [f"x{j}" for j in range(task["p"])]
    pairs = [(g.again, (g.component, frozenset(map(names.index, g.columns))) in right) for g in stability.groups]
    return {"again": [a for a, _ in pairs], "right": [int(r) for _, r in pairs]}


def _sets(labels: np.ndarray) -> list[frozenset[int]]:
    return [frozenset(np.flatnonzero(labels == k).tolist()) for k in range(labels.max() + 1)]


def _is_of(result: Task, design: str) -> bool:
    if design in ("all", "p > N"):
        return bool(design == "all" or result["p"] > result["N"])
    return bool(result["kind"] == design and result["p"] <= result["N"])


def table_of(results: list[Task]) -> list[Task]:
    table = []
    for rule in RULES:
        for kind in ("all", "full", "one factor", "p > N"):
            chosen = [r for r in results if r["rule"] == rule and r["kind"] != "independent" and _is_of(r, kind)]
            again = np.array([a for r in chosen for a in r["again"]])
            right = np.array([a for r in chosen for a in r["right"]])
            line: Task = {"rule": rule, "design": kind}
            for low, high in pairwise(EDGES):
                inside = (again >= low) & (again < high)
                share = f"{right[inside].mean():.2f}" if inside.any() else "-"
                line[f"from {low:g}"] = f"{share} ({inside.sum()})"
            table.append(line)
        nothing = [r for r in results if r["rule"] == rule and r["kind"] == "independent"]
        firm = np.mean([max(r["again"], default=0) >= 0.9 for r in nothing])
        table.append(
            {
                "rule": rule,
                "design": "independent: tables with a group from 0.9",
                "from 0.9": f"{firm:.2f} ({len(nothing)})",
            }
        )
    heads = list(table[0])
    return [{head: line.get(head, "") for head in heads} for line in table]


def wine(task: Task) -> Task:
    """Stability of the clusters of Wine, least stable first, with their sizes."""
    X = load_wine().data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GaussianBiclustering(task["n_components"], random_state=task["seed"]).fit(X)
        stability = model.stability(X, 5, 25, random_state=task["seed"])
    clusters = sorted(stability.clusters, key=lambda cluster: cluster.stability)
    return {"bic": model.bic(X), "clusters": ", ".join(f"{c.stability:.2f} ({c.rows} rows)" for c in clusters)}


def main() -> None:
    options = arguments(__doc__)
    runs = options.runs or (12 if options.full else 2)
    tasks = [
        {"rule": rule, "kind": kind, "p": p, "N": N, "seed": seed}
        for rule in RULES
        for kind in ("full", "one factor", "independent")
        for p, N in SIZES
        for seed in range(runs)
    ]
    table = table_of(run("stability", judge, tasks, options))
    show(table)
    write("stability", table, options)
    tasks = [{"n_components": G, "seed": seed} for G in (3, 4) for seed in range(10)]
    table = run("stability_wine", wine, tasks, options)
    show(table)
    write("stability_wine", table, options)


if __name__ == "__main__":
    main()
