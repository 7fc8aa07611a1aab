"""Fits from the command line: what they write, print and warn of."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import MIXTURE, fails, lines_of, run, summary_of, wine

import blockmix
from blockmix import GaussianBiclustering
from blockmix.metrics import adjusted_rand


def test_fit_chooses_and_writes_everything(wine_csv: str) -> None:
    done = run("fit", wine_csv, "--label", "kind")
    folder = Path("wine-blockmix")
    assert {path.name for path in folder.iterdir()} == MIXTURE | {"selection.csv"}
    model = blockmix.load(folder / "model.blockmix")
    rows, columns = lines_of(folder / "rows.csv"), lines_of(folder / "columns.csv")
    assert [row["row"] for row in rows] == list(wine()["id"])
    assert [int(row["cluster"]) for row in rows] == model.row_labels_.tolist()
    X = wine()[list(model.feature_names_in_)]
    np.testing.assert_allclose(
        [float(row["probability"]) for row in rows], model.predict_proba(X).max(axis=1), rtol=1e-5
    )
    sizes = np.concatenate([np.bincount(labels)[labels] for labels in model.column_labels_]).tolist()
    assert [int(line["size"]) for line in columns] == sizes
    pairs = zip(model.column_labels_.ravel().tolist(), sizes, strict=True)
    assert [line["group"] for line in columns] == [str(label) if size > 1 else "alone" for label, size in pairs]
    loadings = [np.full(13, np.nan) for _ in model.weights_]
    for own, labels, found in zip(loadings, model.column_labels_, model.loadings_, strict=True):
        for k, group in enumerate(found):
            own[labels == k] = np.nan if group is None else group[:, 0]
    expected = np.concatenate([own / block.variances**0.5 for own, block in zip(loadings, model.blocks_, strict=True)])
    np.testing.assert_allclose([float(line["loading"] or "nan") for line in columns], expected, atol=5e-4)
    summary = summary_of(folder)
    assert summary["command"] == "blockmix fit wine.csv --label kind"
    assert summary["n_components"] == len(model.weights_) == 3
    assert summary["ari"] == pytest.approx(adjusted_rand(wine()["kind"], model.row_labels_))
    assert summary["bic"] == pytest.approx(model.bic(X))
    assert len(summary["selection"]) == len(lines_of(folder / "selection.csv")) == 5
    assert sorted(summary["files"]) == sorted(path.name for path in folder.iterdir())
    assert f"adjusted Rand index {summary['ari']:.3f}" in done.stdout
    assert model.describe() in done.stdout
    assert "row names: id" in done.stderr


def test_one_number_is_fitted_without_a_comparison(wine_csv: str) -> None:
    done = run("fit", wine_csv, "--components", "2", "--groups", "4", "--shared", "--seed", "3", "--out", "a/b")
    assert {path.name for path in Path("a/b").iterdir()} == MIXTURE
    assert "left out: kind ('class_0')" in done.stderr
    X = wine().drop(columns=["id", "kind"])
    model = GaussianBiclustering(2, 4, shared_covariance=True, random_state=3).fit(X)
    assert [int(row["cluster"]) for row in lines_of("a/b/rows.csv")] == model.row_labels_.tolist()


def test_json_is_the_summary_and_nothing_else(wine_csv: str) -> None:
    done = run("fit", wine_csv, "--components", "2", "--json", "--out", "out")
    assert json.loads(done.stdout) == summary_of("out")


def test_scaling_changes_units_only_and_is_remembered(wine_csv: str) -> None:
    run("fit", wine_csv, "--components", "3", "--out", "plain")
    run("fit", wine_csv, "--components", "3", "--scale", "--out", "scaled")
    assert lines_of("plain/columns.csv") == lines_of("scaled/columns.csv")
    model = blockmix.load("scaled/model.blockmix")
    np.testing.assert_allclose(model.weights_ @ model.means_, 0, atol=1e-6)
    # Red if predict forgets the units: all rows would be far from all means.
    predicted = run("predict", "scaled/model.blockmix", wine_csv).stdout
    assert predicted.splitlines() == Path("scaled/rows.csv").read_text().splitlines()


def test_select_compares_all_pairs(wine_csv: str) -> None:
    done = run(
        "select", wine_csv, "--components", "1:2", "--groups", "auto,3", "--criterion", "icl", "--out", "out", "--scale"
    )
    lines = lines_of("out/selection.csv")
    assert [(line["n_components"], line["n_column_groups"]) for line in lines] == [
        ("1", "auto"),
        ("1", "3"),
        ("2", "auto"),
        ("2", "3"),
    ]
    summary = summary_of("out")
    assert summary["icl"] == pytest.approx(min(float(line["icl"]) for line in lines))
    assert "warning: the smallest icl is at --components 2, the edge of 1 … 2 tried" in done.stderr
    assert "such as --components 3:" in done.stderr
    assert summary["warnings"][0] in done.stderr


def test_covariance_groups_columns(wine_csv: str) -> None:
    run("covariance", wine_csv, "--groups", "4", "--out", "out")
    assert {path.name for path in Path("out").iterdir()} == MIXTURE - {"rows.csv"}
    model = blockmix.load("out/model.blockmix")
    labels, sizes = model.column_labels_.tolist(), model.partition_.sizes
    expected = [str(label) if sizes[label] > 1 else "alone" for label in labels]
    assert [line["group"] for line in lines_of("out/columns.csv")] == expected
    assert "alone" in expected
    assert summary_of("out")["groups"] == model.groups_
    stderr = run("covariance", wine_csv, "--out", "auto").stderr
    assert "warning: --groups 'auto' found that all 13 columns share a correlation of about 0." in stderr


def test_one_column_has_clusters_but_no_groups() -> None:
    values = [0.0, 0.1, 0.2, 0.3, 9.0, 9.1, 9.3, 9.2]
    pd.DataFrame({"a": values}).to_csv("one.csv", index=False)
    done = run("fit", "one.csv", "--components", "2", "--out", "out")
    assert "only one numeric column, a: there are no columns to group" in done.stderr
    clusters = [row["cluster"] for row in lines_of("out/rows.csv")]
    assert adjusted_rand(clusters, [0] * 4 + [1] * 4) == 1


def test_fits_that_fail_are_one_sentence(wine_csv: str) -> None:
    for components, largest in (("200", 200), ("170:201", 201), ("1:1000000", 1_000_000)):
        sentence = fails("fit", wine_csv, "--components", components)
        assert sentence == f"--components {largest} exceeds the 178 rows of wine.csv"
    for number in ("14", "auto,2,14"):
        sentence = fails("select", wine_csv, "--components", "2", "--groups", number)
        assert sentence == "--groups 14 exceeds the 13 columns of wine.csv"
    wine().assign(kind=None).to_csv("unlabeled.csv", index=False)
    assert "the column 'kind' of unlabeled.csv is empty" in fails(
        "fit", "unlabeled.csv", "--label", "kind", "--components", "2"
    )
    assert fails("fit", wine_csv, "--label", "kinds") == "wine.csv has no column 'kinds': did you mean 'kind'?"


def test_many_candidates_are_announced(wine_csv: str) -> None:
    done = run("fit", wine_csv, "--components", "1:3", "--groups", "1:7", "--max-iter", "1", "--out", "out")
    assert "comparing 21 models, from 1 to 3 row clusters" in done.stderr


def test_values_whose_squares_overflow_can_be_scaled() -> None:
    X = np.random.default_rng(0).standard_normal((50, 3))
    for name, factor in (("plain.csv", 1.0), ("huge.csv", 1e300)):
        pd.DataFrame(X * [factor, 1, 1], columns=list("abc")).to_csv(name, index=False)
        run("fit", name, "--components", "2", "--scale", "--out", name[:-4])
    assert Path("huge/rows.csv").read_text() == Path("plain/rows.csv").read_text()
    assert run("predict", "huge/model.blockmix", "huge.csv").stdout == Path("plain/rows.csv").read_text()


def test_demo() -> None:
    done = run("demo")
    assert {path.name for path in Path("blockmix-demo").iterdir()} == MIXTURE | {"selection.csv"}
    assert "* smallest bic" in done.stdout
    assert summary_of("blockmix-demo")["ari"] > 0.9
