"""Predictions of saved models."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from commands import fails, lines_of, run, wine


def test_predict_finds_columns_by_name(wine_csv: str, wine_model: str) -> None:
    shuffled = wine().iloc[:, ::-1].rename(columns={"id": "name"})
    shuffled.insert(0, "extra", 1.0)
    shuffled.to_csv("new.csv", index=False)
    done = run("predict", wine_model, "new.csv", "--label", "kind")
    assert done.stdout == Path("out/rows.csv").read_text()
    assert float(done.stderr.split("agreement with kind: adjusted Rand index ")[1].split()[0]) > 0.9
    run("predict", wine_model, "new.csv", "--out", "new")
    assert Path("new/predictions.csv").read_text() == done.stdout
    assert {path.name for path in Path("new").iterdir()} == {"predictions.csv", "predictions.json"}
    found = json.loads(run("predict", wine_model, "new.csv", "--json").stdout)
    assert len(found["assignments"]) == found["rows"] == 178


def test_predict_with_other_columns(wine_csv: str, wine_model: str) -> None:
    wine().drop(columns=["ash", "hue"]).to_csv("less.csv", index=False)
    assert fails("predict", wine_model, "less.csv") == "less.csv lacks 2 of 13 columns: ash, hue"
    wine().assign(ash="much").to_csv("text.csv", index=False)
    assert fails("predict", wine_model, "text.csv") == "the column 'ash' of text.csv is not numeric: 'much'"
    np.save("array.npy", np.ones((3, 4)))
    run("covariance", wine_csv, "--groups", "3", "--out", "cov")
    assert "holds a covariance, which has no row clusters" in fails("predict", "cov/model.blockmix", wine_csv)
    np.save("train.npy", np.random.default_rng(0).standard_normal((30, 3)))
    run("fit", "train.npy", "--components", "1", "--out", "plain")
    assert "array.npy has 4 numeric columns, but plain/model.blockmix was fitted to 3" in fails(
        "predict", "plain/model.blockmix", "array.npy"
    )


def test_files_that_are_not_models(wine_csv: str) -> None:
    Path("text.blockmix").write_text("hello")
    assert "is not a saved model" in fails("predict", "text.blockmix", wine_csv)
    assert fails("predict", "nothing.blockmix", wine_csv) == "nothing.blockmix does not exist"
    assert "is a folder" in fails("report", ".")


def test_a_column_without_a_name_that_was_left_out_is_left_out_again() -> None:
    X = np.random.default_rng(0).standard_normal((30, 4))
    X[:, 1] = 5
    np.save("a.npy", X)
    run("fit", "a.npy", "--components", "1", "--out", "out")
    assert run("predict", "out/model.blockmix", "a.npy").stdout == Path("out/rows.csv").read_text()


def test_sizes_of_a_prediction_count_every_cluster(wine_csv: str, wine_model: str) -> None:
    first = [line["cluster"] == "0" for line in lines_of("out/rows.csv")]
    wine()[first][:20].to_csv("few.csv", index=False)
    found = json.loads(run("predict", wine_model, "few.csv", "--json").stdout)
    assert found["sizes"] == [20, 0, 0]
