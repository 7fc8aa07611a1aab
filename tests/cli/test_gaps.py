"""Tables with missing values: fitted as they are, counted, and completed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import fails, lines_of, run, summary_of, wine

import blockmix
from blockmix.cli.reading import large


def gappy() -> pd.DataFrame:
    """The wines with 40 missing cells in two columns, and a column without values."""
    frame = wine()
    rng = np.random.default_rng(0)
    frame.loc[rng.choice(178, 30, replace=False), "ash"] = np.nan
    frame.loc[rng.choice(178, 10, replace=False), "hue"] = np.nan
    return frame.assign(empty=np.nan)


@pytest.fixture
def gaps_csv() -> str:
    gappy().to_csv("gaps.csv", index=False)
    return "gaps.csv"


def test_gaps_are_fitted_as_they_are_and_counted(gaps_csv: str) -> None:
    done = run("fit", gaps_csv, "--components", "3", "--label", "kind", "--out", "out")
    assert "40 of 2314 cells (1.7%) are missing: ash (30), hue (10)" in done.stderr
    assert "left out: empty (empty)" in done.stderr
    X = gappy().drop(columns=["id", "kind", "empty"])
    model = blockmix.GaussianBiclustering(3, random_state=0).fit(X)
    assert [int(row["cluster"]) for row in lines_of("out/rows.csv")] == model.row_labels_.tolist()
    assert summary_of("out")["missing"] == {"ash": 30, "hue": 10}
    assert summary_of("out")["ari"] > 0.85
    predicted = run("predict", "out/model.blockmix", gaps_csv).stdout
    assert predicted == Path("out/rows.csv").read_text()


def test_a_far_row_is_compared_with_the_number_of_its_values() -> None:
    # Red if a row with gaps is compared with the number of columns.
    frame = wine()
    frame.loc[5, ["ash", "hue"]] = np.nan
    frame.loc[5, "proline"] = 1e5
    frame.loc[9, frame.columns.difference(["id", "kind"])] = np.nan
    frame.to_csv("far.csv", index=False)
    done = run("fit", "far.csv", "--components", "1", "--out", "out")
    assert "cells (0.6%) are missing: " in done.stderr and "; 1 row has no values" in done.stderr
    assert next(line for line in done.stdout.splitlines() if "w5: " in line).count("(about 11 is usual)") == 1


def test_scaling_ignores_gaps(gaps_csv: str) -> None:
    run("fit", gaps_csv, "--components", "2", "--out", "plain")
    run("fit", gaps_csv, "--components", "2", "--scale", "--out", "scaled")
    assert lines_of("plain/columns.csv") == lines_of("scaled/columns.csv")


@pytest.mark.parametrize("in_pieces", [False, True])
def test_a_column_without_values_in_a_new_table_is_filled(in_pieces: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Red if an empty column of the model is called not numeric.
    wine().to_parquet("wine.parquet")
    run("fit", "wine.parquet", "--components", "2", "--out", "out")
    wine().assign(ash=np.nan).to_parquet("new.parquet")
    if in_pieces:
        monkeypatch.setattr(large, "LARGE", 100)
    assert (
        "178 of 2314 cells (7.7%) are missing: ash (178)" in run("predict", "out/model.blockmix", "new.parquet").stderr
    )
    run("impute", "out/model.blockmix", "new.parquet", "--out", "full.csv")
    assert pd.read_csv("full.csv")["ash"].std() > 0


def test_rows_with_gaps_can_be_left_out(gaps_csv: str) -> None:
    done = run("fit", gaps_csv, "--components", "2", "--drop-missing", "--out", "out")
    lost = int(gappy().drop(columns="empty").isna().any(axis=1).sum())
    assert f"left out {lost} of 178 rows with missing values" in done.stderr
    assert summary_of("out")["rows"] == 178 - lost


@pytest.mark.parametrize("scale", [(), ("--scale",)])
def test_impute_fills_gaps_and_nothing_else(gaps_csv: str, scale: tuple[str, ...]) -> None:
    run("fit", gaps_csv, "--components", "3", "--out", "out", *scale)
    before = Path(gaps_csv).read_bytes()
    done = run("impute", "out/model.blockmix", gaps_csv)
    assert "Written: gaps-imputed.csv, with 40 missing values filled in" in done.stdout
    found, given = pd.read_csv("gaps-imputed.csv"), gappy()
    assert list(found["id"]) == list(given["id"])
    columns = list(wine().columns[1:-1])
    observed = given[columns].notna().to_numpy()
    # Observed cells keep their last bit, whatever the scaling of the model.
    np.testing.assert_array_equal(found[columns].to_numpy()[observed], given[columns].to_numpy()[observed])
    assert found[columns].notna().all(axis=None)
    plain = blockmix.GaussianBiclustering(3, random_state=0).fit(given[columns])
    np.testing.assert_allclose(found[columns], plain.impute(given[columns]), rtol=1e-3)
    assert fails("impute", "out/model.blockmix", gaps_csv) == (
        "gaps-imputed.csv exists already: give another name with --out"
    )
    assert "exists already" in fails("impute", "out/model.blockmix", gaps_csv, "--out", gaps_csv)
    assert Path(gaps_csv).read_bytes() == before


def test_gaps_of_a_large_file(monkeypatch: pytest.MonkeyPatch) -> None:
    gappy().drop(columns="id").to_parquet("gaps.parquet", row_group_size=50)
    run("fit", "gaps.parquet", "--components", "3", "--out", "memory")
    monkeypatch.setattr(large, "LARGE", 100)
    done = run("fit", "gaps.parquet", "--components", "3", "--out", "pieces")
    assert "40 of 2314 cells (1.7%) are missing: ash (30), hue (10)" in done.stderr
    clusters = [[row["cluster"] for row in lines_of(f"{name}/rows.csv")] for name in ("memory", "pieces")]
    assert clusters[0] == clusters[1]
    run("impute", "pieces/model.blockmix", "gaps.parquet", "--out", "whole.csv")
    assert pd.read_csv("whole.csv").notna().all(axis=None)


def test_the_columns_of_a_table_with_gaps_are_grouped(gaps_csv: str) -> None:
    done = run("covariance", gaps_csv, "--out", "cov")
    assert "40 of 2314 cells (1.7%) are missing: ash (30), hue (10)" in done.stderr
    if not hasattr(blockmix.load("cov/model.blockmix"), "impute"):
        assert "which cannot fill missing values" in fails("impute", "cov/model.blockmix", gaps_csv, "--out", "a.csv")


def test_the_stability_of_a_covariance_with_gaps_names_the_command_that_has_it(gaps_csv: str) -> None:
    assert fails("covariance", gaps_csv, "--stability", "--resamples", "3").endswith(
        "X has missing values: use blockmix fit --components 1 --stability, which takes them"
    )
