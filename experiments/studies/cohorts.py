"""Seven gene-expression cohorts, more columns than rows: ARI of the default start and of its peers.

Each cohort is clustered as it is and with standardized samples (each row to mean 0 and deviation 1), at its true number
of classes; columns are standardized for every method. No method sees a label. The cohorts are files NAME.npz with
`X` and `labels` in the folder `cohorts` of the data folder.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import AgglomerativeClustering
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture

from experiments.data import cohorts, folder, standardize, standardize_samples
from experiments.harness import Task, arguments, mean_by, run, show, write
from experiments.paper.contenders import Method, Problem, blockmix, kmeans, score

PREPARATIONS = ("as is", "standardized samples")


def pca_gmm(problem: Problem, seed: int) -> np.ndarray:
    scores = PCA(5, random_state=seed).fit_transform(problem.X)
    return np.asarray(GaussianMixture(problem.n_clusters, random_state=seed).fit_predict(scores))


def ward(problem: Problem, seed: int) -> np.ndarray:
    return np.asarray(AgglomerativeClustering(problem.n_clusters).fit_predict(problem.X))


METHODS: dict[str, Method] = {
    "K-means, 10 starts": kmeans,
    "PCA(5) + GMM": pca_gmm,
    "Ward": ward,
    "blockmix": blockmix(),
    'blockmix, init="kmeans"': blockmix(init="kmeans"),
}


def cluster(task: Task) -> dict[str, float]:
    with np.load(cohorts()[task["data"]]) as stored:
        X, y = stored["X"].astype(float), stored["labels"]
    X = X[:, X.std(axis=0) > 0]
    if task["preparation"] == PREPARATIONS[1]:
        X = standardize_samples(X)
    classes = len(np.unique(y))
    return score(Problem(standardize(X), y, classes, (), 2), METHODS[task["method"]], task["seed"])


def means(rows: list[Task]) -> list[Task]:
    """Mean ARI of each method over cohorts and seeds, one column per preparation and cohort."""
    table = []
    for method in METHODS:
        of_method = [row for row in rows if row["method"] == method]
        line: dict[str, Any] = {"method": method}
        for preparation in PREPARATIONS:
            scores = mean_by([row for row in of_method if row["preparation"] == preparation], ["data"], ["ari"])
            line[preparation] = float(np.mean([cohort["ari"] for cohort in scores]))
            short = "" if preparation == PREPARATIONS[0] else ", std"
            line |= {f"{cohort['data']}{short}": cohort["ari"] for cohort in scores}
        line["seconds"] = float(np.mean([row["seconds"] for row in of_method]))
        table.append(line)
    return table


def main() -> None:
    options = arguments(__doc__)
    if not cohorts():
        print(f"No cohorts in {folder() / 'cohorts'}.")
        return
    runs = options.runs or (5 if options.full else 1)
    tasks = [
        {"data": data, "preparation": preparation, "method": method, "seed": seed}
        for seed in range(runs)
        for method in METHODS
        for data in cohorts()
        for preparation in PREPARATIONS
    ]
    table = means(run("cohorts", cluster, tasks, options))
    show(table)
    write("cohorts", table, options)


if __name__ == "__main__":
    main()
