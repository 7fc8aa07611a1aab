"""Topics of hotel and park reviews (paper, section 3.4, the two heat maps), and what they are worth.

Four answers: what the topics are, how long they take beside scikit-learn's NMF, how coherent the term groups are beside
NMF and LDA, and whether two halves of the reviews give the same groups. The data sets are not those of the paper in
full: the output says which were used.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

from figures import save
from harness import Task, arguments, available, show, write  # before NumPy: it sets the number of threads

# isort: split
import numpy as np
from sklearn.decomposition import NMF, LatentDirichletAllocation, MiniBatchNMF
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer

from blockmix.datasets import load_disneyland, load_tripadvisor
from blockmix.grouping import HierarchicalGrouping
from blockmix.metrics import adjusted_rand, npmi_coherence
from blockmix.terms import RelativeTfidf, default_vectorizer
from blockmix.topics import TopicBiclustering, TopicWarning

SETS: dict[str, tuple[str, Callable[[], Any]]] = {
    "tripadvisor": ("TripAdvisor, the paper's Kaggle reviews in part", load_tripadvisor),
    "tripadvisor_lara": ("TripAdvisor, stand-in of full size from the LARA corpus", lambda: load_tripadvisor("lara")),
    "disneyland": ("Disneyland Paris, the paper's Kaggle reviews in part", load_disneyland),
}
TOPICS, GROUPS, SEED = 5, 25, 0
DISTANCES = {"profile": HierarchicalGrouping(distance="profile"), "1-|R|": HierarchicalGrouping()}


def load(name: str, options: Any) -> tuple[str, list[str], np.ndarray]:
    """Title, reviews and ratings; in a quick run 3000 of them at most."""
    title, bunch = SETS[name][0], SETS[name][1]()
    texts, ratings = bunch.data, bunch.target
    if not options.full:
        texts, ratings = texts[:3000], ratings[:3000]
    return f"{title}: {len(texts)} reviews", texts, ratings


def picture(name: str, options: Any) -> None:
    """Fit one data set, print its topics and keep the heat map."""
    title, texts, ratings = load(name, options)
    model = TopicBiclustering(TOPICS, GROUPS, random_state=SEED).fit(texts, ratings)
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
    ax = model.plot(title=f"{title}\nimportance of {GROUPS} term groups for {TOPICS} topics")
    save(ax.figure, f"topics_{name}", options)


def timing(options: Any) -> None:
    """Texts to topics, ours and NMF's, in turns in one process."""
    title, texts, ratings = load("tripadvisor_lara", options)

    def nmf(n: int) -> Callable[[], object]:
        def run() -> object:
            weights = TfidfVectorizer(stop_words="english", max_features=1000).fit_transform(texts)
            return MiniBatchNMF(n, random_state=SEED).fit(weights)

        return run

    runs = {
        "blockmix, 5 topics, 25 term groups": lambda: TopicBiclustering(TOPICS, GROUPS, random_state=SEED).fit(
            texts, ratings
        ),
        "TfidfVectorizer + MiniBatchNMF, 5 topics": nmf(TOPICS),
        "TfidfVectorizer + MiniBatchNMF, 25 topics": nmf(GROUPS),
    }
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(3 if options.full else 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    ours = np.median(seconds["blockmix, 5 topics, 25 term groups"])
    table = [
        {"method": name, "seconds": float(np.median(found)), "ours_is_times_as_long": float(ours / np.median(found))}
        for name, found in seconds.items()
    ]
    print(f"\nTime, median of the runs. {title}")
    show(table)
    write("topics_timing", table, options)


def coherence(options: Any) -> None:
    """Term groups from one half of the reviews, their NPMI in the other; NMF and LDA see the same terms."""
    title, texts, ratings = load("tripadvisor_lara", options)
    vectorizer = default_vectorizer("english")
    counts = vectorizer.fit_transform(texts)
    names = vectorizer.get_feature_names_out()
    half = np.random.default_rng(SEED).permutation(len(texts)) < len(texts) // 2
    table: list[Task] = []
    for K in (25, 50, 100) if options.full else (25,):
        for distance, grouping in DISTANCES.items():
            model = TopicBiclustering(TOPICS, K, grouping=grouping, random_state=SEED)
            model.fit(counts[half], ratings[half], term_names=names)
            kept = np.isin(names, model.terms_)  # the same for both distances
            sizes = np.bincount(model.term_labels_)
            found = npmi_coherence(model.term_labels_, counts[~half][:, kept])
            table.append(scored(K, f"term groups, {distance}", found, sizes[sizes > 1]))
            if distance == "profile":
                ours = sizes[sizes > 1]
        table += peers(K, counts[half][:, kept], counts[~half][:, kept], ours)
    print(f"\nCoherence: NPMI in reviews that were not fitted. {title}")
    show(table)
    write("topics_coherence", table, options)


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
    title, texts, ratings = load("tripadvisor_lara", options)
    vectorizer = default_vectorizer("english")
    counts = vectorizer.fit_transform(texts)
    names = vectorizer.get_feature_names_out()
    whole = TopicBiclustering(TOPICS, GROUPS, random_state=SEED).fit(counts, ratings, term_names=names)
    weights = RelativeTfidf().fit_transform(counts)[:, np.isin(names, whole.terms_)].toarray()
    table = []
    for data in ("reviews", "permuted"):
        found = []
        for seed in range(5 if options.full else 2):
            rng = np.random.default_rng(seed)
            rows = weights[rng.permutation(len(weights))] if data == "reviews" else rng.permuted(weights, axis=0)
            model = TopicBiclustering(TOPICS, GROUPS, weighting="none", random_state=SEED)
            parts = [model.fit(part).term_labels_ for part in np.array_split(rows, 2)]
            found.append(adjusted_rand(*parts))
        table.append({"data": data, "splits": len(found), "mean_ari": float(np.mean(found)), "least": min(found)})
    print(f"\nStability: ARI of the term groups of two halves. {title}")
    show(table)
    write("topics_stability", table, options)


def main() -> None:
    options = arguments(__doc__)
    warnings.simplefilter("ignore", TopicWarning)
    sets = available({name: bunch for name, (_, bunch) in SETS.items()})
    for name in sets:
        picture(name, options)
    if "tripadvisor_lara" in sets:
        timing(options)
        coherence(options)
        stability(options)


if __name__ == "__main__":
    main()
