"""Topics: the contents of the page about topics of documents, as one JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from blockmix.estimators.importance import is_background, top_groups
from blockmix.estimators.topics import TopicBiclustering
from blockmix.partition import FloatArray
from blockmix.report.contents import made
from blockmix.report.subject import finite, grouped, short

_MAX_LEVELS = 20  # of more distinct ratings only the mean is shown
_MAX_TEXT = 2000  # characters of a document


def topic_contents(
    model: TopicBiclustering,
    texts: Sequence[str | bytes] | None,
    ratings: FloatArray | None,
    names: Sequence[object] | None,
    title: str,
    command: str | None,
) -> dict[str, Any]:
    """The JSON document of a page about topics; texts, ratings and names have one entry per document of the fit."""
    levels = np.unique([] if ratings is None else ratings)
    if len(levels) > _MAX_LEVELS:
        levels = levels[:0]
    return {
        "title": title,
        "estimator": type(model).__name__,
        "facts": _topic_facts(model, ratings),
        "topics": [_topic(model, g, levels, texts, ratings, names) for g in range(len(model.topics_))],
        "groups": [
            {
                "name": name,
                "terms": [term for term, _ in terms],
                "weights": [round(weight, 3) for _, weight in terms],
                "background": is_background(terms, len(model.terms_)),
            }
            for name, terms in zip(model.group_names_, model.term_groups_, strict=True)
        ],
        "importance": [[finite(cell, 1) for cell in row] for row in model.importance_.tolist()],
        "levels": levels.tolist(),
        "withoutTopic": len(model.without_terms_),
        "isText": texts is not None,
        "made": made(model, command),
    }


def _topic_facts(model: TopicBiclustering, ratings: FloatArray | None) -> list[dict[str, str]]:
    groups = model.term_groups_
    note = f"{sum(len(terms) > 1 for terms in groups)} of several terms"
    if any(is_background(terms, len(model.terms_)) for terms in groups):
        note += ", one is background"
    facts = [
        ("Documents", grouped(len(model.labels_)), ""),
        ("Topics", str(len(model.topics_)), "clusters of documents"),
        ("Term groups", str(len(groups)), note),
        ("Terms", grouped(len(model.terms_)), f"of {grouped(model.n_vocabulary_)} in the documents"),
        ("Without a topic", grouped(len(model.without_terms_)), "documents with none of the terms"),
    ]
    if ratings is not None:
        facts.append(("Mean rating", f"{ratings.mean():.2f}", f"from {ratings.min():g} to {ratings.max():g}"))
    return [{"name": name, "value": value, "note": note} for name, value, note in facts]


def _topic(
    model: TopicBiclustering,
    g: int,
    levels: FloatArray,
    texts: Sequence[str | bytes] | None,
    ratings: FloatArray | None,
    names: Sequence[object] | None,
) -> dict[str, Any]:
    """One topic: its size, how often each rating occurs, its important term groups and its typical documents."""
    topic, counts, documents = model.topics_[g], None, []
    if ratings is not None:
        counts = [int((ratings[model.labels_ == g] == level).sum()) for level in levels.tolist()]
    for i in topic.documents:
        text = None if texts is None else texts[i]
        documents.append(
            {
                "name": str(i) if names is None else short(str(names[i])),
                "rating": None if ratings is None else finite(ratings[i]),
                "text": None if text is None else short(text.decode() if isinstance(text, bytes) else text, _MAX_TEXT),
            }
        )
    return {
        "size": topic.size,
        "share": round(topic.share, 4),
        "rating": None if topic.mean_rating is None else finite(topic.mean_rating),
        "counts": counts,
        "top": top_groups(model.importance_[g]),
        "documents": documents,
    }
