"""Traces of some seventy fits, to check that a faster version gives the same answers.

    python benchmarks/traces.py before.json              # in the version to compare with
    python benchmarks/traces.py after.json before.json   # in this one; prints the largest relative difference

The fits cross numbers of groups, shapes, tails, sharing, priors, starts, weights, rounded columns and precision.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

from blockmix import GaussianBiclustering

SETTINGS: dict[str, dict[str, object]] = {
    "auto": {},
    "three groups": {"n_column_groups": 3},
    "full": {"block_model": "full"},
    "two factors": {"block_model": 2},
    "greedy": {"n_column_groups": 2, "grouping": "greedy"},
    "shared": {"shared_covariance": True},
    "shared, three groups": {"shared_covariance": True, "n_column_groups": 3, "shrinkage": 0.1},
    "heavy tails": {"tails": "t"},
    "shared heavy tails": {"tails": "t", "shared_covariance": True},
    "shrunk": {"shrinkage": 0.2},
}


def planted(n: int, p: int, G: int, seed: int) -> np.ndarray:
    """Rows of G components with factors, chains and single columns."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    for g, rows in enumerate(np.array_split(np.arange(n), G)):
        columns = rng.permutation(p)
        X[np.ix_(rows, columns[: p // 2])] += rng.standard_normal((len(rows), 1))
        for j in range(p // 2, 3 * p // 4):
            X[rows, columns[j]] += X[rows, columns[j - 1]]
        X[rows] += 1.5 * g * rng.standard_normal(p)
    return X


def designs() -> Iterator[tuple[str, np.ndarray, int]]:
    for name, load, G in (("wine", load_wine, 3), ("iris", load_iris, 3), ("breast", load_breast_cancer, 2)):
        X = load().data
        yield name, X / X.std(axis=0), G
    yield "planted", planted(400, 12, 3, 0), 3
    yield "planted, rounded", planted(300, 8, 2, 1).round(1), 2
    yield "planted, wide", planted(60, 70, 2, 2), 2


def fits() -> Iterator[tuple[str, np.ndarray]]:
    for design, X, G in designs():
        for name, settings in SETTINGS.items():
            if X.shape[1] < 3 or (X.shape[1] > 50 and settings.get("grouping") == "greedy"):
                continue
            model = GaussianBiclustering(G, random_state=0, init=settings.get("init", "kmeans"), max_iter=60)
            yield f"{design}; {name}", model.set_params(**settings).fit(X).log_likelihood_trace_
    weights = np.random.default_rng(0).integers(0, 3, 400)
    model = GaussianBiclustering(3, random_state=0, init="kmeans")
    yield "planted; weighted", model.fit(planted(400, 12, 3, 0), sample_weight=weights).log_likelihood_trace_
    yield "planted; float32", model.fit(planted(400, 12, 3, 0).astype(np.float32)).log_likelihood_trace_


def main() -> None:
    warnings.simplefilter("ignore")
    traces = {name: trace.tolist() for name, trace in fits()}
    Path(sys.argv[1]).write_text(json.dumps(traces))
    if len(sys.argv) < 3:
        return
    before = json.loads(Path(sys.argv[2]).read_text())
    worst = 0.0
    for name, trace in traces.items():
        old, new = np.array(before[name]), np.array(trace)
        same = len(old) == len(new)
        difference = float(np.max(np.abs(old - new) / np.maximum(np.abs(old), 1))) if same else np.inf
        worst = max(worst, difference)
        if difference > 1e-9:
            print(
                f"{name}: {difference:.1e}; {len(old)} and {len(new)} iterations, ends {old[-1]:.6f} and {new[-1]:.6f}"
            )
    print(f"{len(traces)} fits: largest relative difference {worst:.1e}")


if __name__ == "__main__":
    main()
