"""Saved models: predictions, missing values filled, reports and stability."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import fails, lines_of, run, summary_of, wine

import blockmix
from blockmix.command import formats


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
    # The sizes count every cluster, also those without rows.
    first = [line["cluster"] == "0" for line in lines_of("out/rows.csv")]
    wine()[first][:20].to_csv("few.csv", index=False)
    found = json.loads(run("predict", wine_model, "few.csv", "--json").stdout)
    assert found["sizes"] == [20, 0, 0]
    assert found["rows"] == 20


def test_predict_with_other_columns(wine_csv: str, wine_model: str) -> None:
    wine().drop(columns=["ash", "hue"]).to_csv("less.csv", index=False)
    assert fails("predict", wine_model, "less.csv") == "less.csv lacks 2 of 13 columns: ash, hue"
    wine().assign(ash="much").to_csv("text.csv", index=False)
    assert fails("predict", wine_model, "text.csv") == "the column 'ash' of text.csv is not numeric: 'much'"
    run("covariance", wine_csv, "--groups", "3", "--out", "cov")
    assert "holds a covariance, which has no row clusters" in fails("predict", "cov/model.blockmix", wine_csv)
    np.save("array.npy", np.ones((3, 4)))
    np.save("train.npy", np.random.default_rng(0).standard_normal((30, 3)))
    run("fit", "train.npy", "--components", "1", "--out", "plain")
    assert "array.npy has 4 numeric columns, but plain/model.blockmix was fitted to 3" in fails(
        "predict", "plain/model.blockmix", "array.npy"
    )
    Path("text.blockmix").write_text("hello")
    assert "is not a saved model" in fails("predict", "text.blockmix", wine_csv)
    assert fails("predict", "nothing.blockmix", wine_csv) == "nothing.blockmix does not exist"


def test_a_column_without_a_name_that_was_left_out_is_left_out_again() -> None:
    X = np.random.default_rng(0).standard_normal((30, 4))
    X[:, 1] = 5
    np.save("a.npy", X)
    run("fit", "a.npy", "--components", "1", "--out", "out")
    assert run("predict", "out/model.blockmix", "a.npy").stdout == Path("out/rows.csv").read_text()
    X[3, 2] = np.nan
    np.save("holes.npy", X)
    run("impute", "out/model.blockmix", "holes.npy")
    assert list(pd.read_csv("holes-imputed.csv")) == ["x0", "x2", "x3"]


def test_predictions_of_pieces_are_written_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "LARGE", 100)
    wine().drop(columns="id").to_parquet("wine.parquet", row_group_size=50)
    run("fit", "wine.parquet", "--components", "3", "--out", "out")
    run("predict", "out/model.blockmix", "wine.parquet", "--label", "kind", "--out", "new")
    assert Path("new/predictions.csv").read_text() == Path("out/rows.csv").read_text()
    assert json.loads(Path("new/predictions.json").read_text())["sizes"] == summary_of("out")["sizes"]
    wine().drop(columns="ash").to_parquet("less.parquet")
    assert "less.parquet has no column 'ash'" in fails("predict", "out/model.blockmix", "less.parquet")


def test_impute_fills_missing_values_and_nothing_else() -> None:
    given, rng = wine(), np.random.default_rng(0)
    given.loc[rng.choice(178, 40, replace=False), "ash"] = np.nan
    given.to_csv("holes.csv", index=False)
    before = Path("holes.csv").read_bytes()
    run("fit", "holes.csv", "--components", "3", "--out", "out")
    done = run("impute", "out/model.blockmix", "holes.csv")
    assert "Written: holes-imputed.csv, with 40 missing values filled in 40 of 178 rows" in done.stdout
    found = pd.read_csv("holes-imputed.csv")
    pd.testing.assert_frame_equal(found[["id", "kind"]], given[["id", "kind"]])
    assert list(found) == list(given)
    columns = list(wine().columns[1:-1])
    observed = given[columns].notna().to_numpy()
    # Observed cells keep their last bit.
    np.testing.assert_array_equal(found[columns].to_numpy()[observed], given[columns].to_numpy()[observed])
    plain = blockmix.GaussianBiclustering(3, random_state=0).fit(given[columns])
    np.testing.assert_allclose(found[columns], plain.impute(given[columns]), rtol=1e-3)
    for out in ((), ("--out", "holes.csv")):
        assert "exists already: give another name" in fails("impute", "out/model.blockmix", "holes.csv", *out)
    assert Path("holes.csv").read_bytes() == before


@pytest.mark.parametrize("large", [False, True])
def test_a_column_without_values_in_a_new_table_is_filled(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Red if an empty column of the model is called not numeric.
    wine().to_parquet("wine.parquet")
    run("fit", "wine.parquet", "--components", "2", "--out", "out")
    wine().assign(ash=np.nan).to_parquet("new.parquet")
    if large:
        monkeypatch.setattr(formats, "LARGE", 100)
    stderr = run("predict", "out/model.blockmix", "new.parquet").stderr
    assert "178 of 2314 cells (7.7%) are missing: ash (178)" in stderr
    run("impute", "out/model.blockmix", "new.parquet", "--out", "full.csv")
    assert pd.read_csv("full.csv")["ash"].std() > 0


def shown(page: str) -> dict[str, Any]:
    """What a page holds, but for the time when it was written."""
    found = re.search(r'id="report-data">(.*?)</script>', Path(page).read_text(), re.DOTALL)
    assert found is not None
    document: dict[str, Any] = json.loads(found[1])
    del document["made"]["date"]
    return document


def test_a_report_replaces_only_reports(wine_csv: str, wine_model: str) -> None:
    Path("notes.html").write_text("<html>my notes</html>")
    for page in (wine_csv, wine_model, "notes.html"):
        assert fails("report", wine_model, "--out", page) == (
            f"{page} is not a report of blockmix: give another name with --out"
        )
    for _ in range(2):
        run("report", wine_model, wine_csv, "--label", "kind", "--out", "page.html")
    assert shown("page.html")["checkerboard"] == shown("out/report.html")["checkerboard"]
    wine()[:100].to_csv("less.csv", index=False)
    assert "less.csv has 100 rows, but the model was fitted to 178" in fails("report", wine_model, "less.csv")
    assert "does not exist: make it first" in fails("report", wine_model, "--out", "no/page.html")


def test_report_without_a_file_is_the_page_of_the_fit() -> None:
    holes = wine()
    holes.loc[3, "ash"] = np.nan
    holes.to_csv("holes.csv", index=False)
    how = ("--drop-missing", "--drop", "hue", "--label", "kind", "--groups", "3", "--criterion", "icl")
    run("select", "holes.csv", "--components", "2:3", *how, "--out", "all/wine")
    first = shown("all/wine/report.html")
    assert first["checkerboard"] and first["classes"] and first["selection"]["criterion"] == "icl"
    assert any("the edge of 2 … 3 tried" in text for text in first["warnings"])
    Path("all/wine/report.html").unlink()
    os.chdir("all")
    Path("../holes.csv").rename("holes.csv")  # the table lies beside the folder of the results
    os.chdir("wine")
    run("report", "../wine/model.blockmix")
    assert shown("report.html") == first


def test_report_does_not_replace_a_page_by_one_that_shows_less(wine_csv: str, wine_model: str) -> None:
    first = Path("out/report.html").read_text()
    wine()[:100].to_csv(wine_csv, index=False)
    sentence = "wine.csv has 100 rows, but the model was fitted to 178: give FILE after the model, or --out NEW"
    assert sentence in fails("report", wine_model)
    Path(wine_csv).unlink()
    assert "the table that out/model.blockmix was fitted to, wine.csv, was not found" in fails("report", wine_model)
    assert "was not found" in fails("report", wine_model, "--label", "kind")
    assert Path("out/report.html").read_text() == first
    assert "the page shows no data" in run("report", wine_model, "--out", "page.html").stderr
    assert not shown("page.html")["hasRows"]
    Path("out/summary.json").write_text("{")
    assert "no summary beside out/model.blockmix names the table" in fails("report", wine_model)


def test_stability_with_a_fit_and_afterwards(wine_csv: str) -> None:
    few = ("--resamples", "10", "--refits", "2")
    done = run("fit", wine_csv, "--components", "3", "--stability", *few, "--out", "out")
    assert {"groups.csv", "clusters.csv"} <= {path.name for path in Path("out").iterdir()}
    assert "of 10" in done.stdout
    assert "not whether the model is right" in done.stdout
    groups, clusters = lines_of("out/groups.csv"), lines_of("out/clusters.csv")
    assert [int(line["rows"]) for line in clusters] == summary_of("out")["sizes"]
    for line in groups:
        assert int(line["size"]) == len(line["columns"].split("; ")) > 1
        assert line["in_words"].startswith(f"{round(10 * float(line['again']))} of 10")
    run("stability", "out/model.blockmix", *few)
    # The same seed: the same resamples, whether the model was just fitted or loaded.
    assert Path("out/stability/groups.csv").read_text() == Path("out/groups.csv").read_text()
    assert Path("out/stability/clusters.csv").read_text() == Path("out/clusters.csv").read_text()
    assert '"stability"' in Path("out/stability/report.html").read_text()
    run("fit", wine_csv, "--components", "3", "--out", "out")
    assert not Path("out/groups.csv").exists()  # that of the fit before would be another's
    assert Path("out/stability/groups.csv").exists()


def test_stability_of_the_candidates(wine_csv: str) -> None:
    few = ("--components", "1:2", "--stability", "--resamples", "2")
    done = run("select", wine_csv, *few, "--refits", "1", "--out", "out")
    lines = lines_of("out/selection.csv")
    assert lines[0]["least_stable"] == "1.0"
    assert 0.5 < float(lines[1]["least_stable"]) <= 1
    assert "Nothing here shows that there is one too few." in done.stdout
    page = Path("out/report.html").read_text()
    run("report", "out/model.blockmix")  # from summary.json
    assert page.count('"leastStable":') == Path("out/report.html").read_text().count('"leastStable":') == 2
    run("fit", wine_csv, *few, "--refits", "0", "--out", "out")
    assert "least_stable" not in lines_of("out/selection.csv")[0]


def test_stability_of_a_covariance_and_of_units(wine_csv: str) -> None:
    run("covariance", wine_csv, "--groups", "4", "--stability", "--resamples", "5", "--out", "cov")
    assert {line["component"] for line in lines_of("cov/groups.csv")} == {"0"}
    assert not Path("cov/clusters.csv").exists()
    how = ("--units", "kind", "--resamples", "5", "--out", "units", "--json")
    found = json.loads(run("stability", "cov/model.blockmix", wine_csv, *how).stdout)
    assert found["units"] == "kind"
    assert found["resamples"] == 5
    pd.read_csv(wine_csv).assign(patient=["a", None] * 89).to_csv("patients.csv", index=False)
    assert "units has missing values" in fails("stability", "cov/model.blockmix", "patients.csv", "--units", "patient")
    Path("cov/stability").mkdir()
    Path("cov/stability/groups.csv").write_text("mine")
    assert "has a groups.csv that is not the result" in fails("stability", "cov/model.blockmix")
