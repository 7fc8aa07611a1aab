"""The speeds of the README, as ratios of processor times taken in turns in one process, with quality beside them.

    OMP_NUM_THREADS=1 python benchmarks/table.py benchmarks/table.csv

The file gets a line per figure, and the versions it was measured with. Olive and Ecoli need the data folder
(experiments/README.md). How well numbers of clusters are chosen takes an hour: `python -m experiments.benchmark`.
"""

from __future__ import annotations

import csv
import platform
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import mixture_speed
import numpy as np
from mixture_speed import iteration, peer_from, planted
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from turns import in_turns

from blockmix import GaussianBiclustering, select
from experiments.data import available, load_ecoli, load_olive, load_wine, standardize
from experiments.metrics import adjusted_rand

TURNS = 9
PACKAGES = "blockmix", "numpy", "scipy", "scikit-learn", "numba"
Line = tuple[str, str, float, float, float, float, float]


def compared(
    figure: str, peer: str, ours: Callable[[], Any], theirs: Callable[[], Any], quality: Callable[[Any], float]
) -> Line:
    """Name of the figure and of the peer, seconds of both, median ratio, and quality of both."""
    a, b, ratio = in_turns(ours, theirs, TURNS, time.process_time)
    return figure, peer, a, b, ratio, quality(ours()), quality(theirs())


def small() -> list[Line]:
    """A fit from given labels, and the default fit, of small tables against one start with the same tolerance."""
    lines = []
    sets = {"Wine": load_wine, "Olive": load_olive, "Ecoli": load_ecoli}
    for name in available(sets):
        bunch = sets[name]()
        X, y, G = standardize(bunch.data), bunch.target, len(bunch.target_names)
        labels = KMeans(G, n_init=10, random_state=0).fit_predict(X)

        def quality(model: Any, X: np.ndarray = X, y: np.ndarray = y) -> float:
            return float(adjusted_rand(y, model.predict(X)))

        for groups in (3, "auto"):
            ours, theirs = GaussianBiclustering(G, groups, init=labels), peer_from(X, labels, tol=1e-4, max_iter=200)
            fits = (lambda m=ours, X=X: m.fit(X)), (lambda m=theirs, X=X: m.fit(X))
            what = f"{name}, from the same labels, groups {groups}"
            lines.append(compared(what, "GaussianMixture", *fits, quality))
        own = GaussianBiclustering(G, random_state=0)
        for peer, model in {
            "GaussianMixture": GaussianMixture(G, tol=1e-4, max_iter=200, random_state=0),
            "its own single start": GaussianBiclustering(G, init="kmeans", random_state=0),
        }.items():
            fits = (lambda X=X, m=own: m.fit(X)), (lambda X=X, m=model: m.fit(X))
            lines.append(compared(f"{name}, all defaults", peer, *fits, quality))
    return lines


def chosen() -> Line:
    """One to nine clusters of 500 × 20 compared, against the four types of Gaussian mixtures with one start each."""
    X, truth = planted(500, 20, 3, 5, 1.0)

    def theirs() -> Any:
        types = "full", "tied", "diag", "spherical"
        fits = [GaussianMixture(G, covariance_type=t, random_state=0).fit(X) for G in range(1, 10) for t in types]
        return min(fits, key=lambda model: model.bic(X))

    def ours() -> Any:
        return select(X, n_components=range(1, 10), random_state=0).best_estimator_

    def quality(model: Any) -> float:
        return float(adjusted_rand(truth, model.predict(X)))

    return compared("select, 1 to 9 clusters of 500 x 20", "36 GaussianMixture", ours, theirs, quality)


def large() -> Line:
    """An iteration of 50 000 × 200 in five components; quality is the held-out log-likelihood per row."""
    X, _ = planted(55_000, 200, 5, 20, 0.5)
    X, held = X[:50_000], X[50_000:]
    labels = KMeans(5, n_init=1, max_iter=5, random_state=0).fit_predict(X)
    ours = GaussianBiclustering(5, 20, init=labels).fit(X)
    theirs = peer_from(X, labels).fit(X)
    return (
        "iteration, 50 000 x 200",
        "GaussianMixture",
        *iteration(X, labels, ours),
        ours.score(held),
        theirs.score(held),
    )


def main() -> None:
    warnings.simplefilter("ignore")
    mixture_speed.CLOCK = time.process_time
    lines = [*small(), chosen(), large()]
    for figure, peer, a, b, ratio, own, other in lines:
        print(f"{figure}: {1e3 * a:.1f} ms, {peer} {1e3 * b:.1f} ms: {ratio:.2f} x; quality {own:.3f} and {other:.3f}")
    if len(sys.argv) > 1:
        versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
        with open(sys.argv[1], "w", newline="") as stream:
            stream.write(f"# Python {platform.python_version()}, {versions}, {platform.machine()}\n")
            table = csv.writer(stream, lineterminator="\n")
            table.writerow(["figure", "peer", "seconds", "peer_seconds", "ratio", "quality", "peer_quality"])
            table.writerows([figure, peer, *(f"{x:.4g}" for x in numbers)] for figure, peer, *numbers in lines)


if __name__ == "__main__":
    main()
