"""Topics: `write_topics`, the page about topics of documents and its contents."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from blockmix.estimators.importance import is_background, top_groups
from blockmix.estimators.terms import as_ratings, as_texts, is_matrix
from blockmix.estimators.topics import TopicBiclustering
from blockmix.partition import FloatArray
from blockmix.report.subject import finite, grouped, short
from blockmix.report.writing import SHARED, made, write_page

_MAX_LEVELS = 20  # of more distinct ratings only the mean is shown
_MAX_TEXT = 2000  # characters of a document


def write_topics(
    model: TopicBiclustering,
    path: str | os.PathLike[str],
    documents: Any = None,
    ratings: ArrayLike | None = None,
    *,
    names: Sequence[object] | None = None,
    warnings: Sequence[str] = (),
    title: str | None = None,
    command: str | None = None,
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
    names : sequence of N names, optional
        Names of the documents; by default they are numbered.
    warnings : sequence of str, optional
        Warnings of the fit.
    title : str, optional
    command : str, optional
        The command that reproduces the result; shown on the page.
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
    rated, listed = as_ratings(ratings, N), None if names is None else list(names)
    levels = np.unique([] if rated is None else rated)
    if len(levels) > _MAX_LEVELS:
        levels = levels[:0]
    document = {
        "title": title or f"Topics of {N} documents",
        "estimator": type(model).__name__,
        "facts": _topic_facts(model, rated),
        "topics": [_topic(model, g, levels, texts, rated, listed) for g in range(len(model.topics_))],
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
        "warnings": list(warnings),
    }
    write_page(document, (*SHARED, "topics"), path)


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
