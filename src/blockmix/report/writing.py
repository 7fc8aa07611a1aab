"""Writing: a self-contained HTML file from the contents of a report and the parts of the page.

The file needs no other file and no network. Its content security policy admits only this package's script and style,
by their hashes, so that nothing in the data can run or be fetched.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from blockmix.estimators.stability import Stability
from blockmix.estimators.terms import as_ratings, as_texts, is_matrix
from blockmix.estimators.topics import TopicBiclustering
from blockmix.files.archive import replacing
from blockmix.report.contents import contents
from blockmix.report.subject import Classes, Subject, check_subject, row_names_of
from blockmix.report.topics import Topics, topic_contents
from blockmix.selection import SelectionTable

# One script after the other; what one defines, those after it may use.
_SHARED = ("core", "colors", "downloads", "tables", "charts", "facts", "made")
_MODEL = (
    "raster",
    "dendrogram",
    "groups",
    "component",
    "checkerboard",
    "gaps",
    "overview",
    "differences",
    "scatter",
    "rows",
)
_REPORT = (*_SHARED, *_MODEL, "lists", "shell", "main")
_TOPICS = (*_SHARED, "heat", "topics", "shell", "topics_main")


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    X: Any = None,
    *,
    table: SelectionTable | None = None,
    labels: ArrayLike | None = None,
    row_names: Sequence[object] | None = None,
    stability: Stability | None = None,
    warnings: Sequence[str] | None = None,
    title: str | None = None,
    command: str | None = None,
) -> None:
    """Write an HTML page about a fitted model: one file that opens offline in any browser.

    Parameters
    ----------
    model : GaussianBiclustering, FactorBiclustering or BlockDiagonalCovariance
        Fitted.
    path : path
        The file, in an existing folder; an existing file is replaced atomically.
    X : array-like of shape (N, p), optional
        The rows. Without them the page has no observed correlations and no checkerboard, and says so.
    table : SelectionTable, optional
        The comparison that the model was chosen by.
    labels : array-like of shape (N,), optional
        Known classes of the rows, to compare with the components; rows with a missing label are not compared.
    row_names : sequence of N names, optional
        By default the index of a pandas frame, or numbers.
    stability : Stability, optional
        The result of ``model.stability(X)``: how often groups and clusters come back in resamples.
    warnings : sequence of str, optional
        Warnings to show; by default those of the model's own fit.
    title : str, optional
    command : str, optional
        The command that reproduces the result; shown on the page.
    """
    check_subject(model)
    check_is_fitted(model)
    classes = None if labels is None else Classes.of(labels)
    subject = Subject(model, X, row_names_of(X, row_names), classes, table, stability)
    for name, given in (("labels", None if classes is None else classes.codes), ("row_names", subject.row_names)):
        if given is not None and len(given) != subject.n_rows:
            raise ValueError(f"{name} has {len(given)} entries for {subject.n_rows} rows: give one per row")
    found = "Row clusters and column groups" if subject.is_mixture else "Column groups"
    p = model.n_features_in_
    heading = title or f"{found} of {p} column{'' if p == 1 else 's'}"
    document = contents(subject, heading, command)
    if warnings is not None:
        document["warnings"] = list(warnings)
    _write(document, _REPORT, path)


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
        found = N if given is None else given.shape[0] if hasattr(given, "shape") else len(given)
        if found != N:
            raise ValueError(f"{name} has {found} entries for the {N} documents of the fit: give one for each")
    texts = documents if documents is None or is_matrix(documents) else as_texts(documents)
    topics = Topics(model, texts, as_ratings(ratings, N), None if names is None else list(names))
    _write(topic_contents(topics, title or f"Topics of {N} documents", command, warnings), _TOPICS, path)


def _write(document: dict[str, Any], scripts: Sequence[str], path: str | os.PathLike[str]) -> None:
    page = _page(document, scripts)
    with replacing(path) as stream:
        stream.write(page.encode("utf-8", "replace"))


def _page(document: dict[str, Any], scripts: Sequence[str]) -> str:
    """The page with the document filled in."""
    style, script = _part("style.css"), "\n".join(['"use strict";', *(_part(f"{name}.js") for name in scripts)])
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "TITLE": escape(document["title"]),
        "POLICY": policy,
        "STYLE": style,
        "DATA": _embedded(document),
        "SCRIPT": script,
    }
    # Split once instead of replacing repeatedly: a title that looks like a placeholder stays text.
    pieces = _part("page.html").split("%%")
    return "".join(piece if i % 2 == 0 else parts[piece] for i, piece in enumerate(pieces))


def _embedded(document: dict[str, Any]) -> str:
    """JSON that is safe inside a script element: no < can close it or open a comment."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _part(name: str) -> str:
    return files("blockmix.report").joinpath("page", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")
