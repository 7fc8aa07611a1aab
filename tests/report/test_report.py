"""The report: what is in the file, what is not, and that nothing in the data becomes markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from blockmix.report.pixels import encoded, two_triangles
from sklearn.datasets import load_wine

from blockmix import (
    BlockDiagonalCovariance,
    FactorBiclustering,
    GaussianBiclustering,
    TopicBiclustering,
    load,
    select,
)
from blockmix.estimators.stability import Stability
from blockmix.grouping import Proposal
from blockmix.grouping.grouping import cut
from blockmix.metrics import adjusted_rand
from blockmix.partition import Partition
from blockmix.report import write_report

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "\"quoted\" & 'single'",
    "%%SCRIPT%%",
    "<!--",
    "\u2028line\ud800",
]


def groups_of_three(n: int, p: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two clusters; in the first columns form groups of three, in the second groups of three others."""
    rng = np.random.default_rng(seed)
    z = np.repeat([0, 1], [n // 2, n - n // 2])
    X = rng.standard_normal((n, p)) * 0.5
    for g in range(2):
        factors = rng.standard_normal((int((z == g).sum()), p))
        X[z == g] += factors[:, (np.arange(p) + g) // 3] + 4 * g
    return X, z


def read(path: Path) -> tuple[str, dict[str, Any]]:
    page = path.read_text(encoding="utf-8")
    data = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    return page, json.loads(data[1])


@pytest.fixture(scope="module")
def wine() -> tuple[GaussianBiclustering, pd.DataFrame, np.ndarray]:
    bunch = load_wine(as_frame=True)
    X = (bunch.data - bunch.data.mean()) / bunch.data.std()
    return GaussianBiclustering(3, random_state=0).fit(X), X, bunch.target_names[bunch.target]


def test_the_page_of_wine(wine: Any, tmp_path: Path) -> None:
    model, X, classes = wine
    write_report(model, tmp_path / "a.html", X, labels=classes, title="Wine", command="blockmix fit wine.csv")
    page, data = read(tmp_path / "a.html")
    assert len(page.encode()) < 150_000
    assert data["columns"] == list(X.columns)
    assert data["rowLabels"] == model.row_labels_.tolist()
    assert np.array_equal(data["labels"], model.column_labels_)
    assert np.sum(data["classes"]["counts"]) == len(X)
    assert data["made"]["command"] == "blockmix fit wine.csv"
    facts = {fact["name"]: fact["value"] for fact in data["facts"]}
    assert float(facts["BIC"].replace("\u202f", "").replace("−", "-")) == pytest.approx(model.bic(X), abs=0.06)
    assert "<title>Wine</title>" in page


def test_nothing_outside_is_named_and_only_our_script_may_run(wine: Any, tmp_path: Path) -> None:
    model, X, _ = wine
    write_report(model, tmp_path / "a.html", X)
    page, _ = read(tmp_path / "a.html")
    # The name space of SVG is a name, not an address that is fetched.
    outside = set(re.findall(r"(?:https?:)?//[a-z][\w.]+\.[a-z]{2,}[^\s\"'<]*", page)) - {"http://www.w3.org/2000/svg"}
    assert outside == set()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", page)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None and "default-src 'none'" in policy[1] and "unsafe" not in policy[1]
    for tag, name in (("style", "style-src"), ("script", "script-src")):
        text = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert len(text) == 1
        digest = base64.b64encode(hashlib.sha256(text[0].encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy[1]


def test_names_from_the_data_are_text(tmp_path: Path) -> None:
    X, z = groups_of_three(60, len(HOSTILE))
    frame = pd.DataFrame(X, columns=HOSTILE, index=[f"<b>{i}</b>" for i in range(59)] + ["word " * 10_000])
    model = GaussianBiclustering(2, n_column_groups=2, random_state=0).fit(frame)
    classes = np.array(["<i>a</i>", "</script>"])[z]
    write_report(model, tmp_path / "a.html", frame, labels=classes, title="</title><script>x", command="</script>")
    page, data = read(tmp_path / "a.html")
    assert page.count("<script") == 2  # the data and our own
    assert page.count("</script") == 2
    assert "<img" not in page and "<b>" not in page and "<i>" not in page
    assert data["columns"][:5] == HOSTILE[:5]
    assert data["rowNames"][7] == "<b>7</b>" and len(data["rowNames"][59]) == 120
    title = re.search(r"<title>(.*?)</title>", page)
    assert title is not None and unescape(title[1]) == "</title><script>x"


@pytest.mark.parametrize("reduced", [False, True])
def test_the_trees_and_pixels_of_the_page_are_the_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reduced: bool
) -> None:
    if reduced:
        monkeypatch.setattr("blockmix.report.components.MOST_SIDE", 7)
    X, _ = groups_of_three(300, 12)
    model = GaussianBiclustering(2, random_state=0).fit(X)
    write_report(model, tmp_path / "a.html", X)
    _, data = read(tmp_path / "a.html")
    weights = model.predict_proba(X)
    for g, view in enumerate(data["views"]):
        tree = np.column_stack([np.reshape(view["merges"], (-1, 2)), view["heights"], np.zeros(11)])
        assert cut(tree, model.n_column_groups_[g]).labels.tolist() == view["labels"]
        assert view["isCut"]
        R = np.cov(X.T, aweights=weights[:, g])
        R /= np.sqrt(np.outer(R.diagonal(), R.diagonal()))
        S = model.covariances_[g] / np.sqrt(np.outer(*[model.covariances_[g].diagonal()] * 2))
        m = len(view["starts"]) - 1
        assert m == (7 if reduced else 12)
        shown = (np.frombuffer(base64.b64decode(view["pixels"]), np.uint8).reshape(m, m + 1) - 127.0) / 127
        order, starts = view["leaves"], view["starts"]
        for i in range(m):
            for j in range(i, m):
                rows, columns = order[starts[i] : starts[i + 1]], order[starts[j] : starts[j + 1]]
                assert shown[i, j + 1] == pytest.approx(R[np.ix_(rows, columns)].mean(), abs=0.005)
                assert shown[j, i] == pytest.approx(S[np.ix_(rows, columns)].mean(), abs=0.005)


def test_the_checkerboard_has_every_row_once_and_no_pixel_of_two_components(wine: Any, tmp_path: Path) -> None:
    model, X, _ = wine
    write_report(model, tmp_path / "a.html", X)
    board = read(tmp_path / "a.html")[1]["checkerboard"]
    assert sorted(board["rows"]) == list(range(178))
    assert [model.row_labels_[i] for i in board["rows"]] == board["rowComponents"] == sorted(board["rowComponents"])
    shown = np.frombuffer(base64.b64decode(board["pixels"]), np.uint8).reshape(178, 13)
    Z = ((X - X.mean()) / X.std(ddof=0)).to_numpy()[board["rows"]] / board["limit"]
    assert np.abs((shown - 127.0) / 127 - np.clip(Z, -1, 1)).max() < 0.01


def test_gaps_are_counted_by_column_and_component_and_stay_gaps(wine: Any, tmp_path: Path) -> None:
    _, X, _ = wine
    gappy = X.mask(np.random.default_rng(0).random(X.shape) < 0.1)
    gappy["hue"] = X["hue"]
    model = GaussianBiclustering(3, random_state=0).fit(gappy)
    write_report(model, tmp_path / "a.html", gappy)
    _, data = read(tmp_path / "a.html")
    missing, found = gappy.isna().to_numpy(), data["gaps"]
    assert found["cells"] == missing.sum() and found["complete"] == (~missing.any(axis=1)).sum()
    assert [X.columns[j] for j in found["columns"]] == [name for name in X.columns if name != "hue"]
    for g in range(3):
        own = missing[model.row_labels_ == g]
        assert found["each"][g] == pytest.approx(own.mean(axis=0)[found["columns"]], abs=1e-4)
        assert found["components"][g] == pytest.approx(own.mean(), abs=1e-4)
    board = data["checkerboard"]
    shown = np.frombuffer(base64.b64decode(board["pixels"]), np.uint8).reshape(178, 13)
    assert np.array_equal(shown == 255, missing[board["rows"]])
    assert data["map"] is not None and len(data["rows"]["certainty"]["compared"]) == 178


def test_a_table_without_gaps_has_no_such_section(wine: Any, tmp_path: Path) -> None:
    model, X, _ = wine
    write_report(model, tmp_path / "a.html", X)
    assert read(tmp_path / "a.html")[1]["gaps"] is None


def test_without_rows_the_page_says_what_is_missing(wine: Any, tmp_path: Path) -> None:
    model, _, classes = wine
    model.save(tmp_path / "model")
    write_report(load(tmp_path / "model"), tmp_path / "a.html", labels=classes)
    _, data = read(tmp_path / "a.html")
    assert data["checkerboard"] is None and not data["hasRows"]
    assert data["rowLabels"] == model.row_labels_.tolist()
    assert [view["minGroups"] for view in data["views"]] == model.n_column_groups_.tolist()
    assert all(view["isCut"] and not view["observed"] for view in data["views"])


def test_rows_without_a_label_are_not_compared(wine: Any, tmp_path: Path) -> None:
    model, X, classes = wine
    some = classes.astype(object)
    some[::3], some[1], some[4] = None, float("nan"), ""
    known = np.array([isinstance(label, str) and label != "" for label in some])
    write_report(model, tmp_path / "a.html", X, labels=some)
    found = read(tmp_path / "a.html")[1]["classes"]
    assert found["names"] == sorted(set(classes)) and found["unknown"] == np.sum(~known)
    assert np.sum(found["counts"]) == known.sum()
    assert found["ari"] == pytest.approx(adjusted_rand(classes[known], model.row_labels_[known]), abs=1e-4)
    write_report(model, tmp_path / "a.html", X, labels=[None] * len(X))
    assert read(tmp_path / "a.html")[1]["classes"] is None


def test_of_many_classes_the_smallest_are_added_up(wine: Any, tmp_path: Path) -> None:
    model, X, _ = wine
    labels = [f"often {i % 20:02}" if i < 120 else f"once {i}" for i in range(len(X))]
    write_report(model, tmp_path / "a.html", X, labels=labels)
    found = read(tmp_path / "a.html")[1]["classes"]
    assert found["names"] == [f"often {k:02}" for k in range(20)] and found["others"] == len(X) - 120
    assert np.sum(found["counts"]) == 120 and sum(found["otherCounts"]) == len(X) - 120


def test_other_models_have_a_page(wine: Any, tmp_path: Path) -> None:
    _, X, _ = wine
    covariance = BlockDiagonalCovariance(4).fit(X)
    write_report(covariance, tmp_path / "a.html", X)
    _, data = read(tmp_path / "a.html")
    assert data["labels"] == [covariance.column_labels_.tolist()] and not data["isMixture"]
    write_report(covariance, tmp_path / "a.html")
    shared = GaussianBiclustering(3, 4, shared_covariance=True, random_state=0).fit(X)
    write_report(shared, tmp_path / "b.html", X)
    assert [view["name"] for view in read(tmp_path / "b.html")[1]["views"]] == ["All components"]
    positive, _ = groups_of_three(80, 6)
    factor = FactorBiclustering(2, 2, random_state=0).fit(positive)
    write_report(factor, tmp_path / "c.html", positive)
    assert len(read(tmp_path / "c.html")[1]["views"]) == 2


def test_a_single_column_and_a_component_without_variation(tmp_path: Path) -> None:
    X = np.concatenate([np.zeros((30, 2)), np.random.default_rng(0).standard_normal((30, 2)) + 9])
    X[:30, 1] = np.linspace(0, 1e-3, 30)
    model = GaussianBiclustering(2, 1, shrinkage=0.1, random_state=0).fit(X)
    write_report(model, tmp_path / "a.html", X)
    write_report(GaussianBiclustering(2, random_state=0).fit(X[:, 1:]), tmp_path / "b.html", X[:, 1:])
    assert read(tmp_path / "b.html")[1]["views"][0]["merges"] == []


def test_the_table_and_the_warnings_are_shown(wine: Any, tmp_path: Path) -> None:
    _, X, _ = wine
    with pytest.warns(UserWarning, match="the edge of 1 … 2 tried"):
        table = select(X, [1, 2], random_state=0, max_iter=2)
    with pytest.warns(UserWarning, match="max_iter=2"):
        model = GaussianBiclustering(2, max_iter=2, random_state=0).fit(X)
    write_report(model, tmp_path / "a.html", X, table=table)
    _, data = read(tmp_path / "a.html")
    assert any("max_iter=2" in text for text in data["warnings"])
    assert [row["best"] for row in data["selection"]["rows"]] == [row is table.best_ for row in table.rows]
    assert {"name": "max_iter", "value": "2", "default": False} in data["made"]["parameters"]


def test_a_wide_table_stays_small(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((10_000, 50)), 10, axis=1) + rng.standard_normal((10_000, 500))
    X[5_000:] += 2 * rng.standard_normal(500)
    model = GaussianBiclustering(2, 50, init=np.repeat([0, 1], 5_000)).fit(X)
    write_report(model, tmp_path / "a.html", X, row_names=[f"sample number {i}" for i in range(10_000)])
    page, data = read(tmp_path / "a.html")
    assert len(page.encode()) < 8_000_000
    assert len(data["views"][0]["starts"]) - 1 == 500  # one pixel per column
    assert len(data["rowNames"]) == 10_000


def test_two_thousand_columns_with_stability_stay_below_four_megabytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    z = np.repeat([0, 1, 2], 30)
    X = np.repeat(rng.standard_normal((90, 80)), 25, axis=1) + rng.standard_normal((90, 2000))
    X += 2 * rng.standard_normal((3, 2000))[z]
    model = GaussianBiclustering(3, 80, init=z, shrinkage=0.1, max_iter=3, tol=1e9).fit(X)
    partitions = tuple(Partition(labels) for labels in model.column_labels_)
    pairs = rng.random((3, 2000, 2000))
    found = Stability(
        (), pairs, np.ones((3, 2000)), np.full((3, 9), 80), None, partitions, tuple(map(str, range(2000)))
    )
    write_report(model, tmp_path / "a.html", X, stability=found)
    assert (tmp_path / "a.html").stat().st_size < 4_000_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": [1, 2]}, "labels has 2 entries for 178 rows"),
        ({"labels": np.zeros((178, 2))}, r"labels has shape \(178, 2\): give one label per row"),
        ({"row_names": ["a"]}, "row_names has 1 entries for 178 rows"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(wine: Any, tmp_path: Path, arguments: Any, message: str) -> None:
    model, X, _ = wine
    with pytest.raises(ValueError, match=message):
        write_report(model, tmp_path / "a.html", X, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_page_is_never_half_written(wine: Any, tmp_path: Path) -> None:
    model, X, _ = wine
    (tmp_path / "a.html").write_text("before")
    with pytest.raises(ValueError, match="feature names"):
        write_report(model, tmp_path / "a.html", X.iloc[:, :5])
    assert (tmp_path / "a.html").read_text() == "before"
    with pytest.raises(FileNotFoundError, match="make it first"):
        write_report(model, tmp_path / "missing" / "a.html", X)
    with pytest.raises(ValueError, match="is a folder"):
        write_report(model, tmp_path, X)
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


class Neighbors:
    """A user's own grouping: neighboring columns, as evenly as possible, and no tree."""

    def group(self, S: np.ndarray, n_groups: int, n_rows: float) -> Proposal:
        return Proposal(Partition(np.arange(len(S)) * n_groups // len(S)))


@pytest.mark.parametrize(
    "model",
    [
        GaussianBiclustering(1, 2, grouping=Neighbors(), random_state=0),
        BlockDiagonalCovariance(2, grouping=Neighbors()),
    ],
)
def test_a_users_own_grouping_has_a_page(model: Any, tmp_path: Path) -> None:
    X, _ = groups_of_three(80, 6)
    write_report(model.fit(X), tmp_path / "a.html", X)
    view = read(tmp_path / "a.html")[1]["views"][0]
    assert view["labels"] == [0, 0, 0, 1, 1, 1]
    assert len(view["merges"]) == 10  # a tree is drawn all the same


def test_models_without_a_report_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not a TopicBiclustering"):
        write_report(TopicBiclustering(), tmp_path / "a.html")


def test_pixels() -> None:
    assert base64.b64decode(encoded(np.array([np.nan, 0.0]))) == bytes([255, 127])
    assert base64.b64decode(encoded(np.array([-9.0, -1.0, 0.0, 1.0, 2.0]), 2.0)) == bytes([0, 63, 127, 191, 254])
    both = two_triangles(np.array([[1, 2], [2, 3]]), np.array([[5, 6], [6, 7]]))
    assert both.tolist() == [[5, 1, 2], [6, 7, 3]]
