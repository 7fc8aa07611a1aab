"""The file: nothing in the data becomes markup, nothing outside is named, and bad input writes nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from browsing import document

from blockmix import GaussianBiclustering, TopicBiclustering
from blockmix.estimators.stability import Stability
from blockmix.partition import Partition
from blockmix.report import write_report


def test_nothing_outside_is_named_and_only_our_script_may_run(wine: Any) -> None:
    page = wine.path.read_text(encoding="utf-8")
    # The name space of SVG is a name, not an address that is fetched.
    outside = set(re.findall(r"(?:https?:)?//[a-z][\w.]+\.[a-z]{2,}[^\s\"'<]*", page)) - {"http://www.w3.org/2000/svg"}
    assert outside == set()
    assert not re.search(r"innerHTML|outerHTML\s*=|insertAdjacentHTML|document\.write|eval\(", page)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None and "default-src 'none'" in policy[1] and "unsafe" not in policy[1]
    for tag, name in (("style", "style-src"), ("script", "script-src")):
        text = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert len(text) == 1
        digest = base64.b64encode(hashlib.sha256(text[0].encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy[1]


def test_names_from_the_data_are_text(hostile: Any) -> None:
    page = hostile.path.read_text(encoding="utf-8")
    assert page.count("<script") == page.count("</script") == 2  # the data and our script
    assert not re.search("<(img|b|i|u)[ >]", page)
    assert hostile.data["columns"] == list(hostile.X.columns)
    assert hostile.data["rowNames"][7] == "<i>row 7</i>" and len(hostile.data["rowNames"][89]) == 120
    title = re.search(r"<title>(.*?)</title>", page)
    assert title is not None and unescape(title[1]) == "</title><b>title"


def test_a_lone_surrogate_is_written(wine: Any, tmp_path: Path) -> None:
    write_report(wine.model, tmp_path / "a.html", title="\ud800")
    assert "<title>?</title>" in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_two_thousand_columns_with_stability_stay_below_three_megabytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    z = np.repeat([0, 1, 2], 30)
    X = np.repeat(rng.standard_normal((90, 80)), 25, axis=1) + rng.standard_normal((90, 2000))
    X += 2 * rng.standard_normal((3, 2000))[z]
    model = GaussianBiclustering(3, 80, init=z, shrinkage=0.1, max_iter=3, tol=1e9).fit(X)
    partitions, names = tuple(Partition(labels) for labels in model.column_labels_), tuple(map(str, range(2000)))
    pairs = rng.random((3, 2000, 2000))
    stability = Stability((), pairs, np.ones((3, 2000)), np.full((3, 9), 80), None, partitions, names)
    write_report(model, tmp_path / "a.html", X, stability=stability)
    assert (tmp_path / "a.html").stat().st_size < 3_000_000
    assert document(tmp_path / "a.html")["checkerboard"]["columns"] != list(range(2000))  # too many: in tree order


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"traits": {"known class": [1, 2]}}, "known class has 2 entries for 178 rows"),
        ({"traits": {"known class": np.zeros((178, 2))}}, r"known class has shape \(178, 2\): give one value per row"),
        ({"traits": [1, 2]}, "traits is a list: give a data frame or a dict of columns"),
        ({"row_names": ["a"]}, "row_names has 1 entries for 178 rows"),
        ({"X": pd.DataFrame({"hue": [1.0]})}, "feature names"),
        ({"path": "."}, "is a folder"),
        ({"path": "none/a.html"}, "make it first"),
        ({"model": "a.html"}, "not a str: the order is model, path, X"),
        ({"X": "a.html", "path": np.eye(3)}, "path is a ndarray, not the name of a file: the order is model, path, X"),
        ({"model": TopicBiclustering()}, "not a TopicBiclustering: call write_topics"),
    ],
)
def test_bad_input_is_refused_and_an_existing_page_stays(
    wine: Any, tmp_path: Path, arguments: Any, message: str
) -> None:
    (tmp_path / "a.html").write_text("before")
    path = arguments.pop("path", "a.html")
    path = tmp_path / path if isinstance(path, str) else path
    with pytest.raises((TypeError, ValueError, FileNotFoundError), match=message):
        write_report(**{"model": wine.model, "path": path, "X": wine.X, **arguments})
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.html", "before")]
