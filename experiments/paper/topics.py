"""Topics of hotel and park reviews (paper, section 3.4, the two heat maps), and what they are worth.

Four answers: what the topics are, how long they take beside scikit-learn's NMF, how coherent the term groups are beside
NMF and LDA, and whether two halves of the reviews give the same groups. The data sets are not those of the paper in
full: the output says which were used.
"""

from __future__ import annotations

import time
import warnings
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import NMF, LatentDirichletAllocation, MiniBatchNMF
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer

from blockmix import TopicBiclustering
from blockmix.estimators.terms import RelativeTfidf, default_vectorizer
from experiments.data import available, load_disneyland, load_tripadvisor
from experiments.figures import save
from experiments.harness import Task, arguments, run, show, write
from experiments.metrics import adjusted_rand, npmi_coherence

SETS: dict[str, tuple[str, Callable[[], Any]]] = {
    "tripadvisor": ("TripAdvisor, the paper's Kaggle reviews in part", load_tripadvisor),
    "tripadvisor_lara": (
        "TripAdvisor, stand-in of full size from the LARA corpus",
        lambda: load_tripadvisor(lara=True),
    ),
    "disneyland": ("Disneyland Paris, the paper's Kaggle reviews in part", load_disneyland),
}
JUDGED = "tripadvisor_lara"  # the set of full size
TOPICS, GROUPS, SEED = 5, 25, 0
KINDS = {"smoothed": True, "paper": False}


def load(name: str, full: bool) -> tuple[str, list[str], np.ndarray]:
    """Title, reviews and ratings; in a quick run 3000 of them at most."""
    title, bunch = SETS[name][0], SETS[name][1]()
    texts, ratings = bunch.data, bunch.target
    if not full:
        texts, ratings = texts[:3000], ratings[:3000]
    return f"{title}: {len(texts)} reviews", texts, ratings


def counted(full: bool) -> tuple[Any, np.ndarray, np.ndarray]:
    """Counts of all terms, the terms, and the ratings of the reviews that are judged."""
    _, texts, ratings = load(JUDGED, full)
    vectorizer = default_vectorizer("english")
    return vectorizer.fit_transform(texts), vectorizer.get_feature_names_out(), ratings


def picture(name: str, options: Any) -> None:
    """Fit one data set with and without smoothing, print its topics and keep the heat maps side by side."""
    title, texts, ratings = load(name, options.full)
    figure, axes = plt.subplots(1, 2, figsize=(24, 10), layout="constrained")
    for smoothing, ax in zip((True, False), axes, strict=True):
        model = TopicBiclustering(TOPICS, GROUPS, smoothing=smoothing, random_state=SEED).fit(texts, ratings)
        kind = "default" if smoothing else "smoothing=False, the paper's pipeline"
        model.plot(title=f"{title}\n{kind}: {GROUPS} term groups, {TOPICS} topics", ax=ax)
        described(name if smoothing else f"{name}_paper", f"{title}, {kind}", model, texts, options)
    save(figure, f"topics_{name}", options)


def described(name: str, title: str, model: TopicBiclustering, texts: list[str], options: Any) -> None:
    """Print the topics and keep the table of importances."""
    print(f"\n{title}\n{model.summary()}")
    for g, topic in enumerate(model.topics_):
        print(f"  typical of topic {g}: {' '.join(texts[topic.documents[0]].split())[:150]}")
    table = [
        {"group": model.group_names_[k], "terms": len(terms), "all_terms": " ".join(term for term, _ in terms)}
        | {
            f"topic {g}, {t.size} documents, rating {t.mean_rating:.2f}": float(model.importance_[g, k])
            for g, t in enumerate(model.topics_)
        }
        for k, terms in enumerate(model.term_groups_)
    ]
    write(f"topics_{name}", table, options)


def timing(options: Any) -> None:
    """Texts to topics, ours and NMF's, in turns in one process."""
    tasks = [{"turn": turn, "full": options.full} for turn in range(3 if options.full else 1)]
    alone = Namespace(**vars(options) | {"jobs": 1})
    turns = run("topics_timing", turn, tasks, alone)
    medians = {name: float(np.median([turn[name] for turn in turns])) for name in METHODS}
    ours = medians[next(iter(METHODS))]
    table = [
        {"method": name, "seconds": seconds, "ours_is_times_as_long": ours / seconds}
        for name, seconds in medians.items()
    ]
    print(f"\nTime, median of the runs. {load(JUDGED, options.full)[0]}")
    show(table)
    write("topics_timing", table, options)


def turn(task: Task) -> dict[str, float]:
    """Seconds of each method."""
    _, texts, ratings = load(JUDGED, task["full"])
    seconds = {}
    for name, method in METHODS.items():
        start = time.perf_counter()
        method(texts, ratings)
        seconds[name] = time.perf_counter() - start
    return seconds


def nmf(n_topics: int, texts: list[str]) -> object:
    weights = TfidfVectorizer(stop_words="english", max_features=1000).fit_transform(texts)
    return MiniBatchNMF(n_topics, random_state=SEED).fit(weights)


METHODS: dict[str, Callable[[list[str], np.ndarray], object]] = {
    "blockmix, 5 topics, 25 term groups": TopicBiclustering(TOPICS, GROUPS, random_state=SEED).fit,
    "TfidfVectorizer + MiniBatchNMF, 5 topics": lambda texts, ratings: nmf(TOPICS, texts),
    "TfidfVectorizer + MiniBatchNMF, 25 topics": lambda texts, ratings: nmf(GROUPS, texts),
}


def coherence(options: Any) -> None:
    """Term groups from one half of the reviews, their NPMI in the other; NMF and LDA see the same terms."""
    tasks = [{"K": K, "full": options.full} for K in ((25, 50, 100) if options.full else (25,))]
    table = [line for result in run("topics_coherence", coherences, tasks, options) for line in result["lines"]]
    print(f"\nCoherence: NPMI in reviews that were not fitted. {load(JUDGED, options.full)[0]}")
    show(table)
    write("topics_coherence", table, options)


def coherences(task: Task) -> Task:
    """Coherence of all methods at one number of groups."""
    warnings.simplefilter("ignore", UserWarning)
    K, (counts, names, ratings) = task["K"], counted(task["full"])
    half = np.random.default_rng(SEED).permutation(len(ratings)) < len(ratings) // 2
    lines: list[Task] = []
    for kind, smoothing in KINDS.items():
        model = TopicBiclustering(TOPICS, K, smoothing=smoothing, random_state=SEED)
        model.fit(counts[half], ratings[half], term_names=names)
        kept = np.isin(names, model.terms_)
        sizes = np.bincount(model.term_labels_)
        npmi = npmi_coherence(model.term_labels_, counts[~half][:, kept])
        lines.append(scored(K, f"term groups, {kind}", npmi, sizes[sizes > 1]))
        if kind == "paper":
            ours = sizes[sizes > 1]
    return {"lines": lines + peers(K, counts[half][:, kept], counts[~half][:, kept], ours)}


def peers(K: int, terms: Any, held: Any, sizes: np.ndarray) -> list[Task]:
    """Top words of NMF and LDA: ten, and on average over the topics as many as our groups have."""
    nmf = NMF(K, init="nndsvda", max_iter=400, tol=1e-3, random_state=SEED)
    lda = LatentDirichletAllocation(K, learning_method="online", random_state=SEED)
    fitted = {"NMF": nmf.fit(TfidfTransformer().fit_transform(terms)), "LDA": lda.fit(terms)}
    table = []
    for name, model in fitted.items():
        order = np.argsort(-model.components_, axis=1, kind="stable")
        table.append(scored(K, f"{name}, top 10 words", npmi_coherence(order[:, :10], held), np.full(K, 10)))
        same = float(np.mean([npmi_coherence(order[:, :size], held) for size in sizes]))
        table.append(scored(K, f"{name}, as many words as our groups", same, sizes))
    return table


def scored(K: int, method: str, npmi: float, sizes: np.ndarray) -> Task:
    return {
        "K": K,
        "method": method,
        "npmi": npmi,
        "groups_of_2_or_more": len(sizes),
        "median_size": float(np.median(sizes)),
        "largest": int(sizes.max()),
    }


def stability(options: Any) -> None:
    """ARI between the term groups of two halves of the reviews; the permuted reviews have each term shuffled."""
    seeds = range(5 if options.full else 2)
    tasks = [{"data": data, "seed": s, "full": options.full} for data in ("reviews", "permuted") for s in seeds]
    runs = run("topics_stability", agreement, tasks, options)
    table = []
    for data in ("reviews", "permuted"):
        scores = [one["ari"] for one in runs if one["data"] == data]
        table.append({"data": data, "splits": len(scores), "mean_ari": float(np.mean(scores)), "least": min(scores)})
    print(f"\nStability: ARI of the term groups of two halves. {load(JUDGED, options.full)[0]}")
    show(table)
    write("topics_stability", table, options)


def agreement(task: Task) -> dict[str, float]:
    """ARI of one split."""
    warnings.simplefilter("ignore", UserWarning)
    counts, names, ratings = counted(task["full"])
    whole = TopicBiclustering(TOPICS, GROUPS, smoothing=False, random_state=SEED).fit(counts, ratings, term_names=names)
    weights = RelativeTfidf().fit_transform(counts)[:, np.isin(names, whole.terms_)].toarray()
    rng = np.random.default_rng(task["seed"])
    rows = weights[rng.permutation(len(weights))] if task["data"] == "reviews" else rng.permuted(weights, axis=0)
    model = TopicBiclustering(TOPICS, GROUPS, smoothing=False, random_state=SEED)
    return {"ari": adjusted_rand(*(model.fit(part).term_labels_ for part in np.array_split(rows, 2)))}


def main() -> None:
    options = arguments(__doc__)
    warnings.simplefilter("ignore", UserWarning)
    sets = available({name: bunch for name, (_, bunch) in SETS.items()})
    for name in sets:
        picture(name, options)
    if JUDGED in sets:
        timing(options)
        coherence(options)
        stability(options)


if __name__ == "__main__":
    main()
