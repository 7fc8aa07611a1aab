"""Cost of gaps: an EM iteration with missing values over one of the complete table, in turns in one process.

    python benchmarks/missing_speed.py

"blocks" is 20 000 × 60 in 3 components of 10 blocks, "one block" 5000 × 200 in 2 components of one block, where every
row has its own pattern of gaps. A turn is five iterations.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from turns import in_turns

from blockmix import GaussianBiclustering
from blockmix.em.block import BlockFamily
from blockmix.rows import ArrayRows, one_blas_thread

CASES = {"blocks": (20_000, 60, 3, 10), "one block": (5000, 200, 2, 1)}


def table(n: int, p: int, G: int, K: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of G components with K groups of columns each, and their components."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, G, n)
    X = rng.standard_normal((n, p))
    for g in range(G):
        groups, rows = rng.permutation(np.arange(p) % K), labels == g
        X[rows] += 0.8 * rng.standard_normal((rows.sum(), K))[:, groups] + rng.standard_normal(p)
    return X, labels


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name, (n, p, G, K) in CASES.items():
        X, labels = table(n, p, G, K)
        model = GaussianBiclustering(G, K, init=labels, max_iter=3).fit(X)
        complete = ArrayRows.standardized(X)
        family: BlockFamily = model._family(complete, np.ones(p))
        parameters = model._resumed(complete, family)

        def step(rows: ArrayRows, family: BlockFamily = family, parameters: object = parameters) -> None:
            for _ in range(5):  # one after the other, as EM makes them: the first after a pause finds cold caches
                family.maximize(family.sweep(rows, parameters), parameters)

        for share in (0.0, 0.01, 0.05, 0.15, 0.3):
            gaps = X.copy()
            gaps[np.random.default_rng(1).random(X.shape) < share] = np.nan
            rows = ArrayRows.standardized(gaps)
            with one_blas_thread():
                a, b, ratio = in_turns(lambda rows=rows: step(rows), lambda rows=complete: step(rows), 7)
            print(f"{name}, {share:.0%} missing: {200 * a:.1f} ms against {200 * b:.1f} ms: {ratio:.2f} x")


if __name__ == "__main__":
    main()
