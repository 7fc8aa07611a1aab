"""The methods of the paper's two tables of real data, and how one of them is scored.

A method maps a problem and a seed to row labels. The true classes are used only to score them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import KMeans, SpectralCoclustering
from sklearn.mixture import GaussianMixture

from blockmix import FactorBiclustering, GaussianBiclustering
from blockmix.grouping import HierarchicalGrouping, SilhouetteRule
from experiments.harness import Task, mean_by
from experiments.metrics import adjusted_rand, matched_accuracy
from experiments.paper.paper_em import paper_em


class Problem(NamedTuple):
    """A data set as it is clustered: rows, true classes, and what the authors set for it."""

    X: np.ndarray
    y: np.ndarray
    n_clusters: int
    candidates: tuple[int, ...]  # numbers of column groups among which the silhouette chooses
    n_factors: int  # column groups of UCUU


Method = Callable[[Problem, int], np.ndarray]
SCORES = {"ari": "adjusted Rand index", "accuracy": "share in the right cluster", "seconds": "processor time, s"}


def kmeans(problem: Problem, seed: int) -> np.ndarray:
    labels: np.ndarray = KMeans(problem.n_clusters, n_init=10, random_state=seed).fit_predict(problem.X)
    return labels


def gmm(problem: Problem, seed: int, tol: float = 1e-3) -> np.ndarray:
    labels: np.ndarray = GaussianMixture(problem.n_clusters, tol=tol, random_state=seed).fit_predict(problem.X)
    return labels


def ucuu(problem: Problem, seed: int) -> np.ndarray:
    """What the paper calls UCUU: its program has a T for each component, which is UUUU; data as they are."""
    start = kmeans(problem, seed)
    model = FactorBiclustering(problem.n_clusters, problem.n_factors, model="UUUU", init=start, standardize=False)
    return model.fit(problem.X).row_labels_


def printed(problem: Problem, seed: int) -> np.ndarray:
    return paper_em(problem.X, kmeans(problem, seed), problem.candidates)[0]


def authors(problem: Problem, seed: int) -> GaussianBiclustering:
    """The authors' settings in our EM, which keeps a new grouping only where the objective rises."""
    rule, grouping = SilhouetteRule(candidates=problem.candidates), HierarchicalGrouping(distance="profile")
    start = kmeans(problem, seed)
    return GaussianBiclustering(problem.n_clusters, rule, grouping=grouping, max_iter=20, init=start).fit(problem.X)


def coclustered(problem: Problem, seed: int) -> np.ndarray:
    """It takes positive numbers only: where there are others, the smallest is moved to just above 0."""
    positive = problem.X if problem.X.min() > 0 else problem.X - problem.X.min() + 1e-3
    return np.asarray(SpectralCoclustering(problem.n_clusters, random_state=seed).fit(positive).row_labels_)


def blockmix(**settings: Any) -> Method:
    """`GaussianBiclustering` with these settings and our defaults for the others."""
    return lambda problem, seed: (
        GaussianBiclustering(problem.n_clusters, random_state=seed, **settings).fit(problem.X).row_labels_
    )


OF_THE_PAPER: dict[str, Method] = {
    "K-means": kmeans,
    "GMM": gmm,
    "UCUU": ucuu,
    "proposed, EM as printed": printed,
    "proposed, authors' settings": lambda problem, seed: authors(problem, seed).row_labels_,
    "spectral co-clustering": coclustered,
}


def score(problem: Problem, method: Method, seed: int) -> dict[str, float]:
    """ARI and accuracy against the true classes, and the processor's seconds, which other programs do not lengthen."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = method(problem, seed)
    seconds = time.process_time() - start
    y = problem.y
    return {"ari": adjusted_rand(y, labels), "accuracy": matched_accuracy(y, labels), "seconds": seconds}


def beside_paper(rows: list[Task], paper: dict[tuple[str, str], Iterable[float | None]]) -> list[Task]:
    """Means over the seeds with the paper's figures beside them; both of our EMs stand beside its "Proposed"."""
    table = mean_by(rows, ["data", "method"], SCORES)
    for line in table:
        published = paper.get((line["data"], line["method"].split(",")[0]), (None,) * len(SCORES))
        line |= {f"paper_{figure}": value for figure, value in zip(SCORES, published, strict=True)}
    return table
