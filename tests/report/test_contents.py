"""The contents of a page: key figures, tables and classes are those of the model."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import numpy as np
import pytest

from blockmix import BlockDiagonalCovariance, FactorBiclustering, GaussianBiclustering, select
from blockmix.metrics import adjusted_rand
from blockmix.report.subject import subject_of
from blockmix.report.writing import contents


def document(model: Any, X: Any = None, table: Any = None, **arguments: Any) -> dict[str, Any]:
    return contents(subject_of(model, X, **arguments), "title", None, table)


def test_the_page_of_wine(wine: Any) -> None:
    model, X, data = wine.model, wine.X, wine.data
    assert data["columns"] == list(X.columns) and data["rowNames"] == list(X.index)
    assert data["rowLabels"] == model.row_labels_.tolist()
    assert np.array_equal(data["labels"], model.column_labels_)
    assert np.sum(data["traits"][0]["counts"]) == len(X)
    assert data["made"]["command"] == "blockmix fit a.csv"
    assert data["gaps"] is None
    facts = {fact["name"]: fact["value"] for fact in data["facts"]}
    assert float(facts["BIC"].replace("\u202f", "").replace("−", "-")) == pytest.approx(model.bic(X), abs=0.06)
    assert [line["rows"] for line in data["summaries"]] == np.bincount(model.row_labels_).tolist()
    assert data["answer"]["head"] in model.describe()


def test_without_rows_the_page_has_what_the_model_knows(wine: Any) -> None:
    data = document(wine.model, traits={"kind": wine.labels})
    assert data["checkerboard"] is data["map"] is None and not data["hasRows"]
    assert data["rowLabels"] == wine.model.row_labels_.tolist()
    assert [view["minGroups"] for view in data["views"]] == wine.model.n_column_groups_.tolist()
    assert all(view["isCut"] and not view["observed"] for view in data["views"])


def test_rows_without_a_label_are_not_compared(wine: Any) -> None:
    labels = wine.labels.astype(object)
    labels[::3], labels[1], labels[4] = None, float("nan"), ""
    is_known = np.array([isinstance(label, str) and label != "" for label in labels])
    (trait,) = document(wine.model, wine.X, traits={"kind": labels})["traits"]
    assert trait["classes"] == sorted(set(wine.labels)) and trait["unknown"] == np.sum(~is_known)
    assert np.sum(trait["counts"]) == is_known.sum()
    assert trait["ari"] == pytest.approx(
        adjusted_rand(wine.labels[is_known], wine.model.row_labels_[is_known]), abs=1e-3
    )
    assert document(wine.model, wine.X, traits={"kind": [None] * 178})["traits"] == []


def test_of_many_classes_the_smallest_are_added_up(wine: Any) -> None:
    labels = [f"often {i % 19:02}" if i < 114 else f"once {i}" for i in range(178)]
    (trait,) = document(wine.model, wine.X, traits={"kind": labels})["traits"]
    assert trait["classes"] == [*(f"often {k:02}" for k in range(19)), "64 others"]
    codes = np.frombuffer(b64decode(trait["codes"]), np.uint8)
    assert codes[:19].tolist() == list(range(1, 20)) and set(codes[114:]) == {20}


def test_numbers_and_dates_are_means_and_the_lines_of_the_board_have_their_colors(wine: Any) -> None:
    days = np.datetime64("2024-01-01") + np.arange(178)
    data = document(wine.model, wine.X, traits={"age": np.arange(178.0), "seen": days.astype(str)})
    age, seen = data["traits"]
    labels, order = wine.model.row_labels_, np.array(data["checkerboard"]["rows"])
    assert age["means"] == pytest.approx([np.arange(178)[labels == g].mean() for g in range(3)], rel=1e-5)
    assert seen["date"] and seen["low"] == pytest.approx(age["low"] + 19_723)  # days since 1970
    total = np.square(np.arange(178) - 88.5).sum()
    between = sum((labels == g).sum() * (np.arange(178)[labels == g].mean() - 88.5) ** 2 for g in range(3))
    assert age["effect"] == ["η²", pytest.approx(between / total, abs=6e-4)]
    codes, lines = (
        np.frombuffer(b64decode(text), np.uint8) for text in (age["codes"], data["checkerboard"]["strips"][0])
    )
    assert np.array_equal(codes[order], lines) and codes.min() == 1 and codes.max() == 255


def test_other_models_have_a_page(wine: Any) -> None:
    covariance = BlockDiagonalCovariance(4).fit(wine.X)
    for X in (wine.X, None):
        data = document(covariance, X)
        assert data["labels"] == [covariance.column_labels_.tolist()]
        assert not data["isMixture"] and data["differences"] is None
    shared = GaussianBiclustering(3, 4, shared_covariance=True, random_state=0).fit(wine.X)
    assert len(document(shared, wine.X)["views"]) == 1
    rng = np.random.default_rng(0)
    positive = np.repeat(rng.standard_normal((80, 2)), 3, axis=1) + 0.5 * rng.standard_normal((80, 6))
    positive[:40] += 4
    factor = FactorBiclustering(2, 2, random_state=0).fit(positive)
    assert len(document(factor, positive)["views"]) == 2
    single = document(GaussianBiclustering(1, random_state=0).fit(wine.X[["proline"]]), wine.X[["proline"]])
    assert single["views"][0]["merges"] == [] and single["differences"] is single["rows"]["certainty"] is None


def test_a_column_that_does_not_vary_in_a_component() -> None:
    X = np.concatenate([np.zeros((30, 2)), np.random.default_rng(0).standard_normal((30, 2)) + 9])
    X[:30, 1] = np.linspace(0, 1e-3, 30)
    data = document(GaussianBiclustering(2, 1, shrinkage=0.1, random_state=0).fit(X), X)
    json.dumps(data, allow_nan=False)  # raises if a figure is not finite


def test_the_table_the_warnings_and_the_parameters_are_shown(wine: Any) -> None:
    with pytest.warns(UserWarning, match="the edge of 1 … 2 tried"):
        table = select(wine.X, [1, 2], tails=["normal"], shared_covariance=False, random_state=0, max_iter=2)
    with pytest.warns(UserWarning, match="max_iter=2"):
        model = GaussianBiclustering(2, max_iter=2, random_state=0).fit(wine.X)
    data = document(model, wine.X, table)
    assert any("max_iter=2" in text for text in data["warnings"])
    assert [row["best"] for row in data["selection"]["rows"]] == [row is table.best_ for row in table.rows]
    assert {row["asked"] for row in data["selection"]["rows"]} == {"normal"}
    assert {"name": "max_iter", "value": "2", "default": False} in data["made"]["parameters"]
