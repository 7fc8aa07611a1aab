"""Topics: `write_topics`, the page about topics of documents and its contents."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from sklearn.preprocessing import normalize
from sklearn.utils.validation import check_is_fitted

from blockmix.estimators.importance import is_background, top_groups
from blockmix.estimators.terms import as_ratings, as_texts, is_matrix
from blockmix.estimators.topics import TopicBiclustering
from blockmix.partition import FloatArray, IntArray
from blockmix.report.subject import finite, grouped, short
from blockmix.report.writing import SHARED, made, write_page

_MAX_LEVELS = 20  # of more distinct ratings only the mean is shown
_MAX_TEXT = 2000  # characters of a document
_MAX_HOVER = 220  # characters of a document on the map
_MAX_POINTS = 2500  # documents on the map
_PUSHES = 400  # until no disc overlaps another
_GOLDEN = 0.6180339887  # its multiples modulo 1 fill an interval evenly


def write_topics(
    model: TopicBiclustering,
    path: str | os.PathLike[str],
    documents: Any = None,
    ratings: ArrayLike | None = None,
    *,
    embeddings: ArrayLike | None = None,
    by: tuple[str, ArrayLike] | None = None,
    names: Sequence[object] | None = None,
    warnings: Sequence[str] = (),
    title: str | None = None,
    command: str | None = None,
    reason: str | None = None,
) -> None:
    """Write an HTML page about the topics of documents: one file that opens offline in any browser.

    Parameters
    ----------
    model : TopicBiclustering
        Fitted.
    path : path
        The file, in an existing folder; an existing file is replaced atomically.
    documents : sequence of N texts, optional
        The documents of the fit. Without them, or if they are a matrix, the page shows no texts.
    ratings : array-like of shape (N,), optional
        The ratings of the fit.
    embeddings : array-like of shape (N, e), optional
        The embeddings of the fit.
    by : name and array-like of shape (N,), optional
        Categories, dates or numbers that the topics are shown by.
    names : sequence of N names, optional
        Names of the documents; by default they are numbered.
    warnings : sequence of str, optional
        Warnings of the fit.
    title : str, optional
    command : str, optional
        The command that reproduces the result; shown on the page.
    reason : str, optional
        Why there are as many topics, in one sentence.
    """
    if not isinstance(model, TopicBiclustering):
        raise TypeError(f"write_topics takes a TopicBiclustering, not a {type(model).__name__}: call write_report")
    check_is_fitted(model)
    N = len(model.labels_)
    for name, given in (("documents", documents), ("names", names)):
        n = N if given is None else given.shape[0] if hasattr(given, "shape") else len(given)
        if n != N:
            raise ValueError(f"{name} has {n} entries for the {N} documents of the fit: give one for each")
    texts = None if documents is None or is_matrix(documents) else as_texts(documents)
    rated = as_ratings(ratings, N)
    shown = _Documents(texts, rated, range(N) if names is None else list(names))
    levels = np.unique([] if rated is None else rated)
    levels = levels if len(levels) <= _MAX_LEVELS else levels[:0]
    document = {
        "title": title or f"Topics of {N} documents",
        "estimator": type(model).__name__,
        "facts": _topic_facts(model, rated),
        "topics": [_topic(model, g, levels, shown) for g in range(len(model.topics_))],
        "groups": [_group(model, k) for k in range(len(model.term_groups_))],
        "stable": model.stable_terms_,
        "importance": [[finite(cell, 1) for cell in row] for row in model.importance_.tolist()],
        "levels": levels.tolist(),
        "smoothing": model.smoothing,
        "characters": model.characters,
        "agreement": model.agreement_,
        "unclear": len(model.unclear_),
        "withoutTopic": len(model.without_terms_),
        "map": None if documents is None else _map(model, model.predict_proba(documents, embeddings=embeddings), shown),
        "by": None if by is None else _shares(model, *by),
        "reason": reason,
        "isText": texts is not None,
        "made": made(model, command),
        "warnings": list(warnings),
    }
    write_page(document, (*SHARED, "raster", "topics"), path)


class _Documents(NamedTuple):
    """What is known of the documents beside their topics."""

    texts: list[str] | None
    ratings: FloatArray | None
    names: Sequence[object]

    def about(self, i: int, width: int) -> dict[str, Any]:
        """Name, rating and the beginning of the text."""
        rating = None if self.ratings is None else finite(self.ratings[i])
        text = None if self.texts is None else self.texts[i]
        return {
            "name": short(str(self.names[i])),
            "rating": rating,
            "text": None if text is None else short(text, width),
        }


def _group(model: TopicBiclustering, k: int) -> dict[str, Any]:
    """A group of terms and their weights."""
    terms, weights = zip(*model.term_groups_[k], strict=True)
    about = {"name": model.group_names_[k], "background": is_background(model.term_groups_[k], len(model.terms_))}
    return about | {"terms": terms, "weights": np.round(weights, 3).tolist()}


def _map(model: TopicBiclustering, probabilities: FloatArray, given: _Documents) -> dict[str, Any]:
    """Places of topics and of at most 2500 documents, and what the page says about these."""
    centers, radii = topic_places(probabilities, model.labels_)
    places = document_places(probabilities, model.labels_, centers, radii)
    with_topic = np.flatnonzero(model.labels_ >= 0)
    shown = with_topic[np.unique(np.linspace(0, len(with_topic) - 1, min(len(with_topic), _MAX_POINTS)).astype(int))]
    x, y = np.round(places[shown].T, 4).tolist()
    about = [given.about(i, _MAX_TEXT) for i in shown]
    return {
        **{"centers": np.round(centers, 4).tolist(), "radii": np.round(radii, 4).tolist(), "x": x, "y": y},
        "topics": model.labels_[shown].tolist(),
        "probabilities": np.round(model.probabilities_[shown], 2).tolist(),
        "names": [each["name"] for each in about],
        "ratings": None if given.ratings is None else [each["rating"] for each in about],
        "texts": None if given.texts is None else [short(" ".join(each["text"].split()), _MAX_HOVER) for each in about],
        "of": len(with_topic),
    }


def topic_places(probabilities: FloatArray, labels: IntArray) -> tuple[FloatArray, FloatArray]:
    """Centers (G, 2) and radii (G,) of topics on a map of width 1: near each other if documents may belong to both.

    Scaling of the distances √(1 − cosine of two topics' probabilities), then the discs are packed without overlap.
    """
    G = probabilities.shape[1]
    unit = normalize(probabilities.T)
    middle = np.eye(G) - 1 / G
    _, vectors = eigh(-0.5 * middle @ np.maximum(1 - unit @ unit.T, 0) @ middle)
    places = vectors[:, [-1, -2] if G > 1 else [-1, -1]]
    places = places * np.where(places.max(axis=0) < -places.min(axis=0), -1, 1)  # the same on every machine
    turn = 2.4 * np.arange(G)
    places = places / max(float(np.abs(places).max()), 1e-9) + 0.01 * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    radii = np.sqrt(np.maximum(np.bincount(labels[labels >= 0], minlength=G), 1) / max(int((labels >= 0).sum()), 1))
    radii = np.maximum(0.45 * radii, 0.06)
    for step in range(_PUSHES):
        places *= np.array([0.995, 0.98]) if step < 0.7 * _PUSHES else 1.0  # wider than high
        apart = places[:, None] - places
        away = np.sqrt((apart**2).sum(axis=2)) + np.eye(G)
        room = 0.03 + 0.09 * np.abs(apart[:, :, 1]) / away  # for the words below a disc
        overlap = np.maximum(radii[:, None] + radii + room - away, 0) * (1 - np.eye(G))
        places = places + 0.5 * (apart / away[:, :, None] * overlap[:, :, None]).sum(axis=1)
    low, high = (places - radii[:, None]).min(axis=0), (places + radii[:, None]).max(axis=0)
    span = float((high - low)[0])
    return (places - low) / span, radii / span


def document_places(probabilities: FloatArray, labels: IntArray, centers: FloatArray, radii: FloatArray) -> FloatArray:
    """Places of documents, shape (N, 2): the clearer its topic, the nearer to the center a document lies.

    A document that may belong to other topics lies on their side of the disc.
    """
    places = np.zeros((len(labels), 2))
    for g in range(len(centers)):
        rows = np.flatnonzero(labels == g)
        rank = np.empty(len(rows))
        rank[np.argsort(-probabilities[rows, g], kind="stable")] = np.arange(len(rows))
        others = probabilities[rows].copy()
        others[:, g] = 0
        toward = others @ centers / np.maximum(others.sum(axis=1, keepdims=True), 1e-300) - centers[g]
        spread = (np.arange(len(rows)) * _GOLDEN % 1 - 0.5) * np.pi * 1.5
        angle = np.arctan2(toward[:, 1], toward[:, 0]) + spread
        reach = radii[g] * np.sqrt((rank + 0.5) / max(len(rows), 1))
        places[rows] = centers[g] + reach[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return places


def _shares(model: TopicBiclustering, name: str, values: ArrayLike) -> dict[str, Any]:
    """Topics by category in the words of the page."""
    table, G = model.by(values), len(model.topics_)
    names, ordered = list(table["category"].cat.categories), table["category"].cat.ordered
    about = {"name": name, "names": names, "ordered": ordered}
    about["counts"] = table["documents"].to_numpy().reshape(G, -1).tolist()
    for key, column in (("shares", "share"), ("low", "low"), ("high", "high")):
        about[key] = [[finite(cell, 4) for cell in row] for row in table[column].to_numpy().reshape(G, -1)]
    return about


def _topic_facts(model: TopicBiclustering, ratings: FloatArray | None) -> list[dict[str, str]]:
    N, unclear = len(model.labels_), len(model.unclear_)
    facts = [("Documents", grouped(N), ""), ("Topics", str(len(model.topics_)), "clusters of documents")]
    if model.agreement_ is not None:
        note = "of the documents get the same topic from two halves"
        facts.append(("Agreement", f"{100 * model.agreement_:.0f}\u00a0%", note))
    facts += [
        ("Unclear", grouped(unclear), f"{100 * unclear / N:.0f}\u00a0%: probability of the topic below 0.5"),
        ("Without a topic", grouped(len(model.without_terms_)), "documents with none of the words"),
        ("Words", grouped(len(model.words_)), f"of {grouped(model.n_vocabulary_)} in the documents"),
        ("Term groups", str(len(model.term_groups_)), f"of {grouped(len(model.terms_))} terms"),
    ]
    if ratings is not None:
        facts.append(("Mean rating", f"{ratings.mean():.2f}", f"from {ratings.min():g} to {ratings.max():g}"))
    return [{"name": name, "value": value, "note": note} for name, value, note in facts]


def _topic(model: TopicBiclustering, g: int, levels: FloatArray, given: _Documents) -> dict[str, Any]:
    """One topic: its size, how often each rating occurs, its important term groups and its typical documents."""
    topic, own = model.topics_[g], None if given.ratings is None else given.ratings[model.labels_ == g]
    likely = np.round(model.probabilities_, 2).tolist()
    documents = [given.about(i, _MAX_TEXT) | {"probability": likely[i]} for i in topic.documents]
    return {
        **{"size": topic.size, "share": round(topic.share, 4), "words": list(topic.words), "documents": documents},
        "rating": None if topic.mean_rating is None else finite(topic.mean_rating),
        "counts": None if own is None else [int((own == level).sum()) for level in levels.tolist()],
        "unclear": int((model.labels_[model.unclear_] == g).sum()),
        "top": top_groups(model.importance_[g]),
    }
