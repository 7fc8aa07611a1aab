"""Topics on documents whose subjects are known: TopicBiclustering beside NMF, LDA and SVD + k-means.

Labels and held-out ratings judge; no method sees the labels. The corpora of ../shared/data/corpora were used to develop
the method, except for `docstrings`, which is read from installed packages when the experiment runs.

Tables: agreement with the labels; the ten words of each topic in documents that were not fitted; how often a stated
probability is right; what can be said about the number of topics; how much of held-out ratings topics explain.
"""

from __future__ import annotations

import ast
import time
import warnings
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import NMF, LatentDirichletAllocation, TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import adjusted_rand_score, average_precision_score, normalized_mutual_info_score
from sklearn.preprocessing import normalize

from blockmix import TopicBiclustering
from blockmix.estimators.terms import default_vectorizer
from experiments.data import folder, load_disneyland, load_tripadvisor
from experiments.harness import Task, arguments, mean_by, run, show, write
from experiments.metrics import npmi_coherence

FILES = {"posts": "ng20", "snippets": "snippets", "fortunes": "fortunes"}
PACKAGES = ("scipy", "sklearn", "pandas", "matplotlib", "numpy", "dask", "polars", "email", "asyncio")
METHODS = ("smoothed", "paper", "NMF", "LDA", "SVD + k-means")
NUMBERS = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30)
BINS = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0)
RATED = {"hotels": load_tripadvisor, "disneyland": load_disneyland}


@cache
def corpus(name: str) -> tuple[list[str], np.ndarray]:
    """Texts and labels."""
    if name == "docstrings":
        return docstrings()
    import pandas as pd

    frame = pd.read_parquet(folder() / "corpora" / f"{FILES[name]}.parquet")
    return frame["text"].tolist(), frame["label"].to_numpy(str)


def docstrings(least: int = 60, most: int = 300) -> tuple[list[str], np.ndarray]:
    """Docstrings of 15 or more words of installed packages; the label is the package and its part."""
    texts: dict[str, set[str]] = {}
    for package in PACKAGES:
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            continue
        root = Path(spec.origin).parent
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root).parts
            if "tests" in parts or "externals" in parts or "_externals" in parts:
                continue
            label = f"{package}.{parts[0]}" if len(parts) > 1 and package in ("scipy", "sklearn") else package
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8", errors="replace"))):
                if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)):
                    text = ast.get_docstring(node) or ""
                    if len(text.split()) >= 15:
                        texts.setdefault(label, set()).add(text)
    rng = np.random.default_rng(0)
    kept = {label: sorted(found) for label, found in sorted(texts.items()) if len(found) >= least}
    kept = {label: [found[i] for i in rng.permutation(len(found))[:most]] for label, found in kept.items()}
    labels = np.repeat(list(kept), [len(found) for found in kept.values()])
    order = rng.permutation(len(labels))
    documents = [text for found in kept.values() for text in found]
    return [documents[i] for i in order], labels[order]


def topics_of(method: str, texts: list[str], G: int, seed: int) -> tuple[np.ndarray, list[list[str]]]:
    """Topic of each text, and ten words of each topic."""
    if method in ("smoothed", "paper"):
        model = TopicBiclustering(G, 25, smoothing=method == "smoothed", random_state=seed).fit(texts)
        return model.labels_, [list(topic.words) for topic in model.topics_]
    vectorizer = default_vectorizer("english").set_params(max_features=2000)
    counts = vectorizer.fit_transform(texts)
    names, X = vectorizer.get_feature_names_out(), TfidfTransformer().fit_transform(counts)
    if method == "SVD + k-means":
        z = normalize(TruncatedSVD(100, random_state=seed).fit_transform(X))
        labels = KMeans(G, n_init=20, random_state=seed).fit_predict(z)
        means = np.stack([np.asarray(X[labels == g].mean(axis=0)).ravel() for g in range(G)])
    else:
        given = counts if method == "LDA" else X
        if method == "LDA":
            model = LatentDirichletAllocation(G, learning_method="online", random_state=seed)
        else:
            model = NMF(G, init="nndsvda", max_iter=400, tol=1e-3, random_state=seed)
        labels = model.fit_transform(given).argmax(axis=1)
        means = model.components_
    return labels, [list(names[np.argsort(-row, kind="stable")[:10]]) for row in means]


def judged(task: Task) -> Task:
    """Agreement with the labels on all documents; the words of a fit to one half in the other half."""
    warnings.simplefilter("ignore")
    texts, labels = corpus(task["corpus"])
    G, method, seed = len(np.unique(labels)), task["method"], task["seed"]
    begin = time.process_time()
    topics, _ = topics_of(method, texts, G, seed)
    seconds = time.process_time() - begin
    half = len(texts) // 2
    part, words = topics_of(method, texts[:half], G, seed)
    vectorizer = default_vectorizer("english").fit(texts)
    held = vectorizer.transform(texts[half:])
    columns = [[vectorizer.vocabulary_[word] for word in found] for found in words]
    weights, precision = TfidfTransformer().fit_transform(held), []
    for g, found in enumerate(columns):
        if (part == g).any() and found:
            main = most_frequent(labels[:half][part == g])
            score = np.asarray(weights[:, found].sum(axis=1)).ravel()
            precision.append(average_precision_score(labels[half:] == main, score))
    used = [word for found in words for word in found]
    return {
        "nmi": float(normalized_mutual_info_score(labels, topics)),
        "ari": float(adjusted_rand_score(labels, topics)),
        "largest": float(np.bincount(topics[topics >= 0]).max() / len(topics)),
        "npmi": npmi_coherence([found for found in columns if len(found) > 1], held),
        "diversity": len(set(used)) / len(used),
        "average_precision": float(np.mean(precision)),
        "cpu_seconds": seconds,
    }


def most_frequent(values: np.ndarray) -> Any:
    levels, counts = np.unique(values, return_counts=True)
    return levels[counts.argmax()]


def calibrated(task: Task) -> Task:
    """How often the label is the main one of the topic, by stated probability; and how stable terms fare."""
    warnings.simplefilter("ignore")
    texts, labels = corpus(task["corpus"])
    G = len(np.unique(labels))
    model = TopicBiclustering(G, 25, random_state=task["seed"]).fit(texts)
    topics, stated = model.labels_, model.probabilities_
    right = np.zeros(len(texts), dtype=bool)
    for g in range(G):
        if (topics == g).any():
            right[topics == g] = labels[topics == g] == most_frequent(labels[topics == g])
    lines = []
    for low, high in pairwise(BINS):
        inside = (topics >= 0) & (stated >= low) & ((stated < high) | (high == 1))
        lines.append([f"{low:g} to {high:g}", int(inside.sum()), float(stated[inside].sum()), int(right[inside].sum())])
    return {"bins": lines, "unclear": len(model.unclear_) / len(texts), "agreement": model.agreement_}


def numbered(task: Task) -> Task:
    """What can be said about a number of topics without labels, and what the labels say."""
    warnings.simplefilter("ignore")
    texts, labels = corpus(task["corpus"])
    models = [TopicBiclustering(task["n_topics"], 25, random_state=seed).fit(texts) for seed in (0, 1)]
    vectorizer = default_vectorizer("english").fit(texts)
    words = [[vectorizer.vocabulary_[word] for word in topic.words] for topic in models[0].topics_]
    return {
        "labels": len(np.unique(labels)),
        "halves": float(np.mean([model.agreement_ for model in models])),
        "seeds": float(adjusted_rand_score(models[0].labels_, models[1].labels_)),
        "npmi": npmi_coherence(words, vectorizer.transform(texts)),
        "nmi": float(normalized_mutual_info_score(labels, models[0].labels_)),
        "ari": float(adjusted_rand_score(labels, models[0].labels_)),
    }


def rated(task: Task) -> Task:
    """Share of the variance of the ratings between topics, in the fitted half and in the other."""
    warnings.simplefilter("ignore")
    bunch = RATED[task["corpus"]]()
    texts, ratings = bunch.data, np.asarray(bunch.target, dtype=float)
    order = np.random.default_rng(task["seed"]).permutation(len(texts))
    order = order[: min(len(order), 8000)]
    fitted, held = order[: len(order) // 2], order[len(order) // 2 :]
    model = TopicBiclustering(task["n_topics"], 25, smoothing=task["smoothing"], random_state=task["seed"])
    model.fit([texts[i] for i in fitted], ratings[fitted] if task["with_ratings"] else None)
    return {
        "fitted": explained(ratings[fitted], model.labels_),
        "held_out": explained(ratings[held], model.predict([texts[i] for i in held])),
    }


def explained(ratings: np.ndarray, topics: np.ndarray) -> float:
    """1 − variance within topics / variance; documents without a topic are one group."""
    means = np.array([ratings[topics == g].mean() if (topics == g).any() else 0 for g in range(-1, topics.max() + 1)])
    return float(1 - np.mean((ratings - means[topics + 1]) ** 2) / ratings.var())


def main() -> None:
    """Run all tables on the corpora that are there."""
    options = arguments(__doc__)
    names = [name for name, file in FILES.items() if (folder() / "corpora" / f"{file}.parquet").exists()]
    names, seeds = [*names, "docstrings"], range(3 if options.full else 1)
    tasks: list[Task] = [{"corpus": n, "method": m, "seed": s} for n in names for m in METHODS for s in seeds]
    figures = ("nmi", "ari", "largest", "npmi", "diversity", "average_precision", "cpu_seconds")
    table = mean_by(run("topics_labelled", judged, tasks, options), ("corpus", "method"), figures)
    show(table)
    write("topics_labelled", table, options)
    lines: list[Task] = []
    calibration = run(
        "topics_calibration", calibrated, [{"corpus": n, "seed": s} for n in names for s in seeds], options
    )
    for name in names:
        found = [result for result in calibration if result["corpus"] == name]
        for bin_lines in zip(*(result["bins"] for result in found), strict=True):
            count, stated, right = (sum(line[i] for line in bin_lines) for i in (1, 2, 3))
            share, mean = (right / count, stated / count) if count else (float("nan"), float("nan"))
            lines.append({"corpus": name, "stated": bin_lines[0][0], "documents": count, "mean": mean, "right": share})
    show(lines)
    write("topics_calibration", lines, options)
    numbers: list[Task] = [{"corpus": n, "n_topics": G} for n in names for G in (NUMBERS if options.full else (5, 20))]
    table = run("topics_number", numbered, numbers, options)
    show(table)
    write("topics_number", table, options)
    kinds = ((True, True), (True, False), (False, True))
    tasks = [
        {"corpus": n, "n_topics": G, "smoothing": a, "with_ratings": b, "seed": s}
        for n in RATED
        for G in (5, 10)
        for a, b in kinds
        for s in range(2 if options.full else 1)
    ]
    keys = ("corpus", "n_topics", "smoothing", "with_ratings")
    table = mean_by(run("topics_rated", rated, tasks, options), keys, ("fitted", "held_out"))
    show(table)
    write("topics_rated", table, options)


if __name__ == "__main__":
    main()
