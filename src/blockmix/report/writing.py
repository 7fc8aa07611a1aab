"""Writing: one HTML file from the contents of a page and the scripts and styles in the folder `page`.

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
from blockmix.report.subject import subject_of
from blockmix.report.topics import topic_contents
from blockmix.selection import SelectionTable

# Scripts in order: each may use what those before it define.
_SHARED = ("core", "colors", "downloads", "tables", "charts", "shell")
_MAPS = ("raster", "dendrogram", "groups", "component", "checkerboard", "scatter")
_REPORT = (*_SHARED, *_MAPS, "overview", "differences", "lists", "main")
_TOPICS = (*_SHARED, "topics")


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
    subject = subject_of(model, X, labels=labels, row_names=row_names, stability=stability)
    p, noun = model.n_features_in_, "Column groups" if subject.centers is None else "Row clusters and column groups"
    document = contents(subject, title or f"{noun} of {p} column{'' if p == 1 else 's'}", command, table)
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
        n = N if given is None else given.shape[0] if hasattr(given, "shape") else len(given)
        if n != N:
            raise ValueError(f"{name} has {n} entries for the {N} documents of the fit: give one for each")
    texts = None if documents is None or is_matrix(documents) else as_texts(documents)
    listed = None if names is None else list(names)
    heading = title or f"Topics of {N} documents"
    document = topic_contents(model, texts, as_ratings(ratings, N), listed, heading, command)
    _write(document | {"warnings": list(warnings)}, _TOPICS, path)


def _write(document: dict[str, Any], scripts: Sequence[str], path: str | os.PathLike[str]) -> None:
    """Write the page of a document with these scripts; an existing file is replaced when the page is complete."""
    names = ("page.html", "style.css", *(f"{name}.js" for name in scripts))
    folder = files("blockmix.report").joinpath("page")
    template, style, *sources = (folder.joinpath(name).read_text(encoding="utf-8") for name in names)
    script = "\n".join(['"use strict";', *sources])
    hashes = [b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii") for text in (style, script)]
    data = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Safe inside a script element: no < can close it or open a comment.
    data = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    parts = {
        "TITLE": escape(document["title"]),
        "POLICY": f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'",
        "STYLE": style,
        "DATA": data,
        "SCRIPT": script,
    }
    # Split once instead of replacing repeatedly: a title that looks like a placeholder stays text.
    pieces = template.split("%%")
    page = "".join(piece if i % 2 == 0 else parts[piece] for i, piece in enumerate(pieces))
    with replacing(path) as stream:
        stream.write(page.encode("utf-8", "replace"))
