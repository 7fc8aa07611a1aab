"""Topics: the contents of the page about topics of documents, as one JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from blockmix.estimators.importance import is_background, top_groups
from blockmix.estimators.terms import is_matrix
from blockmix.estimators.topics import TopicBiclustering
from blockmix.partition import FloatArray
from blockmix.report.contents import made
from blockmix.report.wording import finite, grouped, short

_MOST_LEVELS = 20  # of more distinct ratings only the mean is shown
_MOST_TEXT = 2000  # characters of a document


@dataclass(frozen=True, eq=False)
class Topics:
    """A fitted model of topics with its documents and their ratings, each None if it is not given."""

    model: TopicBiclustering
    documents: Any = None
    ratings: FloatArray | None = None
    names: Sequence[object] | None = None

    @property
    def is_text(self) -> bool:
        """Whether the documents can be read."""
        return self.documents is not None and not is_matrix(self.documents)

    @property
    def levels(self) -> FloatArray:
        """The distinct ratings if they are few, else an empty array."""
        found = np.unique([] if self.ratings is None else self.ratings)
        return found if len(found) <= _MOST_LEVELS else found[:0]


def topic_contents(topics: Topics, title: str, command: str | None, warnings: Sequence[str]) -> dict[str, Any]:
    """The JSON document of a page about topics."""
    model = topics.model
    return {
        "title": title,
        "estimator": type(model).__name__,
        "facts": _facts(topics),
        "topics": [_topic(topics, g) for g in range(len(model.topics_))],
        "groups": [_group(topics, k) for k in range(len(model.term_groups_))],
        "importance": [[finite(cell, 1) for cell in row] for row in model.importance_.tolist()],
        "levels": topics.levels.tolist(),
        "withoutTopic": len(model.without_terms_),
        "isText": topics.is_text,
        "warnings": list(warnings),
        "made": made(model, command),
    }


def _facts(topics: Topics) -> list[dict[str, str]]:
    model, ratings = topics.model, topics.ratings
    several = sum(len(terms) > 1 for terms in model.term_groups_)
    note = f"{several} of several terms" + (
        ", one is background" if any(is_background(group, len(model.terms_)) for group in model.term_groups_) else ""
    )
    facts = [
        ("Documents", grouped(len(model.labels_)), ""),
        ("Topics", str(len(model.topics_)), "clusters of documents"),
        ("Term groups", str(len(model.term_groups_)), note),
        ("Terms", grouped(len(model.terms_)), f"of {grouped(model.n_vocabulary_)} in the documents"),
        ("Without a topic", grouped(len(model.without_terms_)), "documents with none of the terms"),
    ]
    if ratings is not None:
        facts.append(("Mean rating", f"{ratings.mean():.2f}", f"from {ratings.min():g} to {ratings.max():g}"))
    return [{"name": name, "value": value, "note": note} for name, value, note in facts]


def _topic(topics: Topics, g: int) -> dict[str, Any]:
    model, ratings = topics.model, topics.ratings
    topic = model.topics_[g]
    own = None if ratings is None else ratings[model.labels_ == g]
    return {
        "size": topic.size,
        "share": round(topic.share, 4),
        "rating": None if topic.mean_rating is None else finite(topic.mean_rating),
        "counts": None if own is None else [int((own == level).sum()) for level in topics.levels.tolist()],
        "top": top_groups(model.importance_[g]),
        "documents": [_document(topics, i) for i in topic.documents],
    }


def _document(topics: Topics, i: int) -> dict[str, Any]:
    text = topics.documents[i] if topics.is_text else None
    return {
        "name": str(i) if topics.names is None else short(str(topics.names[i])),
        "rating": None if topics.ratings is None else finite(topics.ratings[i]),
        "text": None if text is None else short(text.decode() if isinstance(text, bytes) else text, _MOST_TEXT),
    }


def _group(topics: Topics, k: int) -> dict[str, Any]:
    model = topics.model
    terms = model.term_groups_[k]
    return {
        "name": model.group_names_[k],
        "terms": [term for term, _ in terms],
        "weights": [round(weight, 3) for _, weight in terms],
        "background": is_background(terms, len(model.terms_)),
    }
