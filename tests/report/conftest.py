"""Pages that several tests look at, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from browsing import document
from sklearn.datasets import load_wine

from blockmix import GaussianBiclustering
from blockmix.estimators.stability import Stability
from blockmix.report import write_report


class Page(NamedTuple):
    """A page and what it is about."""

    path: Path
    model: GaussianBiclustering
    X: pd.DataFrame
    labels: np.ndarray
    stability: Stability | None
    data: dict


def page(path: Path, model: GaussianBiclustering, X: pd.DataFrame, labels: np.ndarray, n: int, title: str) -> Page:
    stability = model.stability(X, n, 1, random_state=0) if n else None
    write_report(
        model,
        path,
        X,
        traits=None if labels is None else {"known class": labels},
        stability=stability,
        title=title,
        command="blockmix fit a.csv",
    )
    return Page(path, model, X, labels, stability, document(path))


@pytest.fixture(scope="session")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Wine with its cultivars, named bottles and stability."""
    bunch = load_wine(as_frame=True)
    X = bunch.data.set_index(pd.Index([f"bottle {i}" for i in range(178)]))
    model, labels = GaussianBiclustering(3, random_state=0).fit(X), bunch.target_names[bunch.target]
    return page(tmp_path_factory.mktemp("page") / "wine report.html", model, X, labels, 20, "Wine")


@pytest.fixture(scope="session")
def missing(wine: Page, tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Wine with a tenth of its cells missing, none of them in the column hue."""
    X = wine.X.mask(np.random.default_rng(0).random(wine.X.shape) < 0.1)
    X["hue"] = wine.X["hue"]
    model = GaussianBiclustering(3, random_state=0).fit(X)
    return page(tmp_path_factory.mktemp("page") / "missing.html", model, X, wine.labels, 0, "Missing")


@pytest.fixture(scope="session")
def shared_factor() -> tuple[GaussianBiclustering, np.ndarray]:
    """Three groups of four columns on top of a common factor with loadings of both signs, and the rows."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((2000, 3)), 4, axis=1) + 0.7 * rng.standard_normal((2000, 12))
    X += rng.standard_normal((2000, 1)) * np.where(np.arange(12) == 5, -1, 1) * rng.uniform(0.6, 1.0, 12)
    model = GaussianBiclustering(common_factors=1, random_state=0).fit(X)
    assert model.n_column_groups_ == [3] and model.common_loadings_[0].shape == (12, 1)
    return model, X


HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>" + "x" * 120,
    "\"quoted\" & 'single'&amp;",
    "%%SCRIPT%%",
    "<!--",
    "\u2028line",
]


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Names of columns, rows and classes, a title and a document as a row name, that would be markup."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((90, 3)), 2, axis=1) + 0.5 * rng.standard_normal((90, 6))
    X[:45] += 5
    names = [f"<i>row {i}</i>" for i in range(89)] + ["word " * 10_000]
    frame = pd.DataFrame(X, columns=HOSTILE, index=names)
    model = GaussianBiclustering(2, 3, random_state=0).fit(frame)
    labels = np.repeat(["<u>a</u>", "</script>"], 45)
    return page(tmp_path_factory.mktemp("page") / "a.html", model, frame, labels, 5, "</title><b>title")
