"""BlockDiscriminantAnalysis beside scikit-learn's classifiers, and with few labels beside self-training.

Not a result of the paper. The tables are those of the folder `tables` beside the other data, the paper's, and
scikit-learn's; classes of fewer than five rows are left out, and 1000 rows are drawn of larger tables. The classifier
was shaped on `SHAPE`, every table at an odd place of five in alphabetical order; the figures of the .md are of all
others. `--full` has every table and five draws of labels, without it two.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.feature_selection import VarianceThreshold
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import LabelEncoder, StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

from blockmix import BlockDiscriminantAnalysis
from experiments import data
from experiments.harness import Task, arguments, mean_by, run, show, write

METHODS: dict[str, Any] = {
    "blockmix": BlockDiscriminantAnalysis(),
    "blockmix own": BlockDiscriminantAnalysis(shared_covariance=False),
    "blockmix shared": BlockDiscriminantAnalysis(shared_covariance=True),
    "LDA": LinearDiscriminantAnalysis(),
    "LDA shrunk": LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
    "QDA": QuadraticDiscriminantAnalysis(),
    "QDA shrunk": QuadraticDiscriminantAnalysis(solver="eigen", shrinkage="auto"),
    "naive Bayes": GaussianNB(),
    "logistic": LogisticRegression(max_iter=2000),
}
SELF_TRAINED = ("LDA shrunk", "naive Bayes", "logistic")
ROWS, LEAST, LABELLED = 1000, 5, 0.1


def tables() -> list[str]:
    """Names of all tables, in alphabetical order."""
    files = [path.name.split(".")[0] for path in (data.folder() / "tables").glob("*.csv.gz")]
    return sorted([*files, "iris", "wine", "breast", "digits", "wine27", "olive", "olive areas", "ecoli"])


def shape() -> set[str]:
    """The tables that the classifier was shaped on."""
    return {name for i, name in enumerate(tables()) if i % 5 in (1, 3)}


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Columns that vary, standardized, and classes as numbers."""
    loaders = {"iris": load_iris, "wine": load_wine, "breast": load_breast_cancer, "digits": load_digits}
    if name in loaders:
        X, y = loaders[name](return_X_y=True)
    elif name in ("wine27", "olive", "olive areas", "ecoli"):
        frame = pd.read_csv(data.folder() / f"{name.split()[0].removesuffix('27')}.csv.gz")
        label = {"wine27": "type", "olive": "region", "olive areas": "area", "ecoli": "class"}[name]
        others = ["class", "year", "region", "area", "region_code", "area_code", "sequence_name", label]
        X, y = frame.drop(columns=others, errors="ignore").to_numpy(float), frame[label].to_numpy(str)
    else:
        frame = pd.read_csv(data.folder() / "tables" / f"{name}.csv.gz")
        X, y = frame.iloc[:, :-1].to_numpy(float), frame.iloc[:, -1].to_numpy(str)
    codes = LabelEncoder().fit_transform(y)
    kept = np.flatnonzero(np.bincount(codes)[codes] >= LEAST)
    if len(kept) > ROWS:
        kept = np.random.default_rng(0).choice(kept, ROWS, replace=False)
    kept = kept[np.bincount(codes[kept], minlength=codes.max() + 1)[codes[kept]] >= LEAST]
    X = VarianceThreshold().fit_transform(X[kept])
    return X, LabelEncoder().fit_transform(codes[kept])


def score(model: Any, X: np.ndarray, y: np.ndarray, train: np.ndarray, labels: np.ndarray, test: np.ndarray) -> Task:
    """Accuracy and log-loss on the test rows of a model of the others, whose labels may be -1."""
    whole = make_pipeline(VarianceThreshold(), StandardScaler(), clone(model))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            whole.fit(X[train], labels)
        except np.linalg.LinAlgError:  # QDA of a class with fewer rows than columns
            return {"accuracy": float("nan"), "log_loss": float("nan")}
        p = np.nan_to_num(whole.predict_proba(X[test]), nan=0.0)
    full = np.zeros((len(test), int(y.max()) + 1))
    full[:, whole.classes_] = p
    full = np.clip(full, 1e-12, None)
    guess = full.argmax(axis=1)
    loss = log_loss(y[test], full / full.sum(axis=1, keepdims=True), labels=np.arange(y.max() + 1))
    figures: Task = {"accuracy": accuracy_score(y[test], guess), "log_loss": loss}
    if isinstance(whole[-1], BlockDiscriminantAnalysis):
        figures["shared"] = float(whole[-1].shared_covariance_)
    return figures


def folded(task: Task) -> Task:
    """Means over five folds."""
    X, y = table(task["data"])
    folds = StratifiedKFold(5, shuffle=True, random_state=task["seed"]).split(X, y)
    scores = [score(METHODS[task["method"]], X, y, train, y[train], test) for train, test in folds]
    return {"shared": 0.0} | {key: float(np.mean([s[key] for s in scores])) for key in scores[0]}


def half_labelled(task: Task) -> Task:
    """Accuracy on the other half of the rows where a tenth of this half has labels, at least two of each class."""
    X, y = table(task["data"])
    rng = np.random.default_rng(task["seed"])
    order = rng.permutation(len(y))
    train, test = np.sort(order[: len(y) // 2]), np.sort(order[len(y) // 2 :])
    labels = np.full(len(train), -1)
    for g in np.unique(y):
        here = np.flatnonzero(y[train] == g)
        held = rng.permutation(here)[: max(2, round(LABELLED * len(here)))]
        labels[held] = g
    method, known = METHODS[task["method"]], labels >= 0
    X = X[:, X[train[known]].std(axis=0) > 0]  # self-training begins with these rows alone
    if task["way"] == "labels only":
        return score(method, X, y, train[known], labels[known], test)
    if task["way"] == "self-training":
        method = SelfTrainingClassifier(method)
    return score(method, X, y, train, labels, test)


def main() -> None:
    options = arguments(__doc__)
    judged = [name for name in tables() if name not in shape()]
    names = tables() if options.full else sorted(shape())
    tasks = [{"data": name, "method": method, "seed": 0} for name in names for method in METHODS]
    rows = run("classes", folded, tasks, options)
    rows = [{"part": "judge" if row["data"] in judged else "shape"} | row for row in rows]
    write("classes", rows, options)
    show(mean_by(rows, ("part", "method"), ("accuracy", "log_loss", "shared")))
    ways = [("blockmix", way) for way in ("EM", "labels only", "self-training")]
    ways += [(method, way) for method in SELF_TRAINED for way in ("labels only", "self-training")]
    n = options.runs or (5 if options.full else 2)
    tasks = [
        {"data": name, "method": method, "way": way, "seed": seed}
        for name in names
        for method, way in ways
        for seed in range(n)
    ]
    rows = run("classes_unknown", half_labelled, tasks, options)
    rows = [{"part": "judge" if row["data"] in judged else "shape"} | row for row in rows]
    table_ = mean_by(rows, ("part", "data", "method", "way"), ("accuracy", "log_loss"))
    write("classes_unknown", table_, options)
    show(mean_by(rows, ("part", "method", "way"), ("accuracy", "log_loss")))


if __name__ == "__main__":
    main()
