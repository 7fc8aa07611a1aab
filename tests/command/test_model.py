"""Saved models: predictions and missing values filled; stability."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import fails, lines_of, run, summary_of, wine

import blockmix
from blockmix.command import formats


def test_predict_finds_columns_by_name(wine_csv: str, wine_model: str) -> None:
    shuffled = wine().iloc[:, ::-1]
    shuffled.insert(0, "extra", 1.0)
    shuffled.to_csv("new.csv", index=False)
    done = run("predict", wine_model, "new.csv", "--label", "kind")
    assert done.stdout == Path("out/rows.csv").read_text()
    assert float(done.stderr.split("agreement with kind: adjusted Rand index ")[1].split()[0]) > 0.9
    run("predict", wine_model, "new.csv", "--out", "new/clusters.csv", code=1)
    run("predict", wine_model, "new.csv", "--out", "new-clusters.csv")
    assert Path("new-clusters.csv").read_text() == done.stdout
    assert "exists already: give another name" in fails("predict", wine_model, "new.csv", "--out", "new-clusters.csv")


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
    run("predict", "out/model.blockmix", "wine.parquet", "--label", "kind", "--out", "new.csv")
    assert Path("new.csv").read_text() == Path("out/rows.csv").read_text()
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


def test_stability_with_a_fit(wine_csv: str) -> None:
    few = ("--resamples", "10", "--refits", "2")
    done = run("fit", wine_csv, "--components", "3", "--stability", *few, "--out", "out")
    assert {"groups.csv", "clusters.csv"} <= {path.name for path in Path("out").iterdir()}
    assert "of 10" in done.stdout
    assert "not whether the model is right" in done.stdout
    groups, clusters = lines_of("out/groups.csv"), lines_of("out/clusters.csv")
    assert [int(line["rows"]) for line in clusters] == summary_of("out")["sizes"]
    assert {line["cluster"] for line in [*groups, *clusters]} == {"1", "2", "3"}
    for line in groups:
        assert int(line["size"]) == len(line["columns"].split("; ")) > 1
        assert line["in_words"].split(":")[0] in ("firm", "open", "chance")
    run("fit", wine_csv, "--components", "3", "--out", "out")
    assert not Path("out/clusters.csv").exists()  # those of the fit before would be another's


def test_stability_of_the_candidates(wine_csv: str) -> None:
    few = ("--components", "1:2", "--stability", "--resamples", "2", "--shared")
    done = run("fit", wine_csv, *few, "--refits", "1", "--out", "out")
    lines = lines_of("out/selection.csv")
    assert lines[0]["least_stable"] == "1.0"
    assert 0.5 < float(lines[1]["least_stable"]) <= 1
    assert "Nothing here shows that there is one too few." in done.stdout
    assert Path("out/report.html").read_text().count('"leastStable":') == len(lines_of("out/selection.csv"))
    run("fit", wine_csv, *few, "--refits", "0", "--out", "out")
    assert "least_stable" not in lines_of("out/selection.csv")[0]


def test_stability_of_a_covariance_and_of_units(wine_csv: str) -> None:
    how = ("--groups", "4", "--resamples", "5", "--out", "cov")
    run("covariance", wine_csv, "--stability", *how)
    plain = lines_of("cov/groups.csv")
    assert {line["cluster"] for line in plain} == {"1"}
    assert not Path("cov/clusters.csv").exists()
    # Red if the rows of a unit do not share their weight.
    run("covariance", wine_csv, "--units", "kind", *how)
    assert [line["again"] for line in lines_of("cov/groups.csv")] != [line["again"] for line in plain]
    pd.read_csv(wine_csv).assign(patient=["a", None] * 89).to_csv("patients.csv", index=False)
    assert "units has missing values" in fails("covariance", "patients.csv", "--units", "patient", "--out", "new")


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A mixture of the wines in a file of the working folder."""
    monkeypatch.chdir(tmp_path)
    blockmix.GaussianBiclustering(3, random_state=0).fit(wine().iloc[:, 1:-1]).save("wine.blockmix")
    return "wine.blockmix"


def test_replicate_prints_verdicts_and_writes_no_file_twice(saved: str) -> None:
    wine().iloc[::2].to_csv("half.csv", index=False)
    done = run("replicate", saved, "half.csv", "--out", "held.csv").stdout
    lines = lines_of("held.csv")
    assert {line["verdict"] for line in lines} <= {"holds", "unclear", "changed", "not found", "too few rows"}
    assert {line["cluster"] for line in lines} == {"1", "2", "3"} and lines[0]["verdict"] in done
    assert "distance" in done
    assert "held.csv exists already" in fails("replicate", saved, "half.csv", "--out", "held.csv")
    assert "would hold csv" in fails("replicate", saved, "half.csv", "--out", "held.parquet")


def test_plan_prints_a_share_for_each_number_of_rows(saved: str) -> None:
    lines = run("plan", saved, "--rows", "40,200", "--draws", "2").stdout.split("\n")
    assert lines[0].split() == ["n_rows", "groups", "groups_se", "clusters", "clusters_se"]
    assert [line.split()[0] for line in lines[1:3]] == ["40", "200"]


def test_a_classifier_has_no_commands(saved: str) -> None:
    frame = wine()
    frame.to_csv("wine.csv", index=False)
    blockmix.BlockDiscriminantAnalysis().fit(frame.iloc[:, 1:-1], frame["kind"]).save("classes.blockmix")
    for command in ("predict", "impute", "replicate"):
        assert "holds a classifier, which has no commands" in fails(command, "classes.blockmix", "wine.csv")
