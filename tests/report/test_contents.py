"""The contents of a page: key figures, tables and classes are those of the model."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from blockmix import BlockDiagonalCovariance, FactorBiclustering, GaussianBiclustering, select
from blockmix.report.subject import subject_of
from blockmix.report.writing import contents


def document(model: Any, X: Any = None, table: Any = None, **arguments: Any) -> dict[str, Any]:
    return contents(subject_of(model, X, **arguments), "title", None, table)


def test_the_page_of_wine(wine: Any) -> None:
    model, X, data = wine.model, wine.X, wine.data
    assert data["columns"] == list(X.columns) and data["rowNames"] == list(X.index)
    assert data["rowLabels"] == model.row_labels_.tolist()
    assert np.array_equal(data["labels"], model.column_labels_)
    assert data["traits"][0]["name"] == "known class" and data["sampled"] == model.row_labels_.tolist()
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


def test_traits_are_values_and_codes_and_names_of_rows_are_none(wine: Any) -> None:
    labels = wine.labels.astype(object)
    labels[::3], labels[1], labels[4] = None, float("nan"), ""
    days = np.datetime64("2024-01-01") + np.arange(178)
    given = {"kind": labels, "age": np.arange(178.0), "seen": days, "text": [f"row {i}" for i in range(178)]}
    traits = document(wine.model, wine.X, traits=given | {"empty": [None] * 178})["traits"]
    assert [trait["name"] for trait in traits] == ["kind", "age", "seen"]
    for trait in traits:
        told = [trait["values"][k] if k >= 0 else None for k in trait["codes"]]
        cells = given[trait["name"]]
        assert told == [str(cell) if cell and str(cell) not in ("nan", "None") else None for cell in cells] or (
            trait["name"] == "age" and told == [str(cell) for cell in cells]
        )


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
        table = select(wine.X, [1, 2], tails=["normal"], columns="linear", shared_covariance=False, max_iter=2)
    with pytest.warns(UserWarning, match="max_iter=2"):
        model = GaussianBiclustering(2, max_iter=2, random_state=0).fit(wine.X)
    data = document(model, wine.X, table)
    assert any("max_iter=2" in text for text in data["warnings"])
    assert [row["best"] for row in data["selection"]["rows"]] == [row is table.best_ for row in table.rows]
    assert data["selection"]["reason"] == table.reason
    assert len(data["selection"]["level"]) == len(table.level_models())
    assert {row["asked"] for row in data["selection"]["rows"]} == {"normal"}
    assert {"name": "max_iter", "value": "2", "default": False} in data["made"]["parameters"]
