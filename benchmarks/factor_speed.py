"""Speed of FactorBiclustering where the paper could not run it: N = 62, p = 2000, and N = 500, p = 20 000; q = 5.

    python benchmarks/factor_speed.py [--wide]

A whole fit is timed in turns with K-means of ten starts on the same data, in one process with one BLAS thread. --wide
adds p = 20 000 and prints its time and peak memory.

The simulated components are far enough apart (0.5 deviations of the means) for one k-means start to find them. Nearer
ones make K-means no slower but a fit is, when it ends in a wrong optimum: at 0.3, seed 0, ARI 0 after 74 iterations and
a ratio above 20. Alon stands for real data, where nothing was chosen.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import resource
import time
import warnings
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from turns import in_turns

from blockmix import datasets
from blockmix.estimators.factor import FactorBiclustering

TURNS = 9


def factor_rows(N: int, p: int, G: int, q: int, seed: int) -> tuple[Any, Any, Any]:
    """Rows of the model with correlations of 0.2 to 0.5 within groups, their components and their column groups."""
    rng = np.random.default_rng(seed)
    X, components = np.empty((N, p)), np.arange(N) % G
    groups = rng.integers(0, q, (G, p))
    for g in range(G):
        rows = np.flatnonzero(components == g)
        factors = rng.standard_normal((len(rows), q)) * np.sqrt(rng.uniform(0.25, 1, q))
        X[rows] = rng.normal(0, 0.5, p) + factors[:, groups[g]] + rng.standard_normal((len(rows), p))
    return X, components, groups


def quality(model: FactorBiclustering, components: Any, groups: Any) -> str:
    rows = adjusted_rand_score(components, model.row_labels_)
    order = [int(np.bincount(components[model.row_labels_ == g]).argmax()) for g in range(len(groups))]
    columns = [adjusted_rand_score(groups[h], labels) for h, labels in zip(order, model.column_labels_, strict=True)]
    return f"row ARI {rows:.3f}, column ARI {np.mean(columns):.3f}"


def against_kmeans(name: str, X: Any, letters: str) -> FactorBiclustering:
    """Time whole fits and K-means in turns; print medians of both and of their ratio."""
    model = FactorBiclustering(2, 5, model=letters, random_state=0)
    kmeans = KMeans(2, n_init=10, random_state=0)
    ours, peer, ratio = in_turns(lambda: model.fit(X), lambda: kmeans.fit(X), TURNS)
    print(
        f"{name}, N={X.shape[0]} p={X.shape[1]} G=2 q=5 {letters}: fit {ours:.3f} s, K-means with ten starts "
        f"{peer:.3f} s, median ratio {ratio:.1f}, {model.n_iter_} iterations",
        flush=True,
    )
    return model


def wide(letters: str) -> None:
    X, components, groups = factor_rows(500, 20_000, 2, 5, seed=0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    start = time.perf_counter()
    model = FactorBiclustering(2, 5, model=letters, random_state=0).fit(X)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"N=500 p=20000 G=2 q=5 {letters}: fit {seconds:.1f} s, peak {peak:.2f} GB, {before:.2f} GB before the fit "
        f"({quality(model, components, groups)}, {model.n_iter_} iterations)",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wide", action="store_true")
    warnings.simplefilter("ignore")
    if parser.parse_args().wide:
        wide("UCUU")
    X, components, groups = factor_rows(62, 2000, 2, 5, seed=0)
    genes = datasets.alon_full().data
    for letters in ("UCUU", "UUUU"):
        print(f"  {quality(against_kmeans('simulated', X, letters), components, groups)}")
        against_kmeans("Alon", genes, letters)
