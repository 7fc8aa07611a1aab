"""Files that are read in pieces: the same results as from memory, options and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import fails, lines_of, run, summary_of, wine

import blockmix
from blockmix.cli.reading import large


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is too large for memory."""
    monkeypatch.setattr(large, "LARGE", 100)


def numbered(**more: object) -> pd.DataFrame:
    """The wines without row names, since those of large tables are numbers."""
    return wine().drop(columns="id").assign(**more)


def written(kind: str) -> str:
    frame, file = numbered(), f"wine.{kind}"
    if kind == "npy":
        np.save(file, frame.drop(columns="kind").to_numpy())
    elif kind == "parquet":
        frame.to_parquet(file, row_group_size=50)
    else:
        frame.to_feather(file, chunksize=50)
    return file


@pytest.mark.parametrize("kind", ["npy", "parquet", "arrow", "feather"])
@pytest.mark.parametrize("scale", [(), ("--scale",)])
def test_pieces_and_memory_give_the_same_results(
    kind: str, scale: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Red if a pass loses, repeats or reorders rows, or forgets the scaling of the command.
    file = written(kind)
    label = () if kind == "npy" else ("--label", "kind")
    run("fit", file, *label, "--components", "3", "--out", "memory", *scale)
    monkeypatch.setattr(large, "LARGE", 100)
    done = run("fit", file, *label, "--components", "3", "--out", "pieces", *scale)
    assert f"{file} is read in pieces" in done.stderr
    rows = [lines_of(f"{folder}/rows.csv") for folder in ("memory", "pieces")]
    assert [row["row"] for row in rows[0]] == [row["row"] for row in rows[1]]
    assert [row["cluster"] for row in rows[0]] == [row["cluster"] for row in rows[1]]
    scores = [[float(row["outlier_score"]) for row in found] for found in rows]
    np.testing.assert_allclose(*scores, rtol=1e-3)
    assert lines_of("memory/columns.csv") == lines_of("pieces/columns.csv")
    memory, pieces = summary_of("memory"), summary_of("pieces")
    assert memory["ari"] == pieces["ari"]
    assert memory["bic"] == pytest.approx(pieces["bic"])
    assert pieces["files"] == memory["files"]
    predicted = run("predict", "pieces/model.blockmix", file).stdout
    assert predicted == Path("pieces/rows.csv").read_text()
    run("report", "pieces/model.blockmix")


def test_columns_that_are_no_data_are_left_out(small_limit: None) -> None:
    frame = numbered(constant=1.0, empty=np.nan, when=pd.Timestamp("2026-01-01"))
    frame.insert(0, "n", range(1, len(frame) + 1))
    frame.to_parquet("wine.parquet", row_group_size=50)
    done = run("fit", "wine.parquet", "--components", "1", "--out", "out")
    left_out = summary_of("out")["left_out"]
    assert {name: left_out[name] for name in ("constant", "empty")} == {"constant": "constant", "empty": "empty"}
    assert "when" in left_out
    assert "kind" in left_out
    assert "n counts the rows, so it is not used" in done.stderr
    assert list(blockmix.load("out/model.blockmix").feature_names_in_) == list(wine().columns[1:-1])


def test_rows_with_missing_values_can_be_left_out(small_limit: None) -> None:
    frame = numbered()
    frame.loc[[3, 77, 150], "ash"] = np.nan
    frame.to_parquet("gaps.parquet", row_group_size=50)
    run("fit", "gaps.parquet", "--components", "2", "--label", "kind", "--drop-missing", "--out", "out")
    names = [int(row["row"]) for row in lines_of("out/rows.csv")]
    assert names == [i + 1 for i in range(178) if i not in (3, 77, 150)]
    clusters = [int(row["cluster"]) for row in lines_of("out/rows.csv")]
    whole = frame.dropna()
    model = blockmix.GaussianBiclustering(2, random_state=0).fit(whole.drop(columns="kind"))
    assert clusters == model.row_labels_.tolist()
    assert summary_of("out")["rows"] == 175
    frame.loc[9, "hue"] = np.inf
    frame.to_parquet("gaps.parquet")
    assert "gaps.parquet has infinite values: hue (1); " in fails("fit", "gaps.parquet")


def test_a_folder_of_parquet_files_is_one_table() -> None:
    Path("wines").mkdir()
    numbered()[:100].to_parquet("wines/a.parquet")
    numbered()[100:].to_parquet("wines/b.parquet")
    run("fit", "wines", "--components", "3", "--label", "kind", "--out", "out")
    assert summary_of("out")["rows"] == 178
    assert summary_of("out")["ari"] > 0.8
    Path("nothing").mkdir()
    assert fails("fit", "nothing") == "nothing is a folder: give a file"


def test_the_largest_variances_of_pieces(small_limit: None) -> None:
    numbered().to_parquet("wine.parquet")
    run("fit", "wine.parquet", "--components", "1", "--top-variance", "3", "--out", "out")
    assert set(blockmix.load("out/model.blockmix").feature_names_in_) == {"proline", "magnesium", "alcalinity_of_ash"}


def test_covariance_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    from blockmix.cli import fitting

    numbered().to_parquet("wine.parquet")
    monkeypatch.setattr(large, "LARGE", 1300)
    monkeypatch.setattr(fitting, "LARGE", 1300)
    done = run("covariance", "wine.parquet", "--out", "out")
    assert "the covariance is that of a sample of 100 of the 178 rows" in done.stderr


def test_predictions_of_pieces_are_written_as_they_come(small_limit: None) -> None:
    numbered().to_parquet("wine.parquet", row_group_size=50)
    run("fit", "wine.parquet", "--components", "3", "--out", "out")
    run("predict", "out/model.blockmix", "wine.parquet", "--label", "kind", "--out", "new")
    assert Path("new/predictions.csv").read_text() == Path("out/rows.csv").read_text()
    assert json.loads(Path("new/predictions.json").read_text())["sizes"] == summary_of("out")["sizes"]
    assert "has too many rows for --json" in fails("predict", "out/model.blockmix", "wine.parquet", "--json")
    numbered().drop(columns="ash").to_parquet("less.parquet")
    assert "less.parquet has no column 'ash'" in fails("predict", "out/model.blockmix", "less.parquet")


def test_patterns_choose_columns(wine_csv: str) -> None:
    run(
        "fit",
        wine_csv,
        "--columns",
        "*al*",
        "--columns",
        "hue",
        "--exclude",
        "total*",
        "--components",
        "1",
        "--out",
        "out",
    )
    names = list(blockmix.load("out/model.blockmix").feature_names_in_)
    assert names == ["alcohol", "malic_acid", "alcalinity_of_ash", "hue"]
    assert [row["row"] for row in lines_of("out/rows.csv")][:2] == ["w0", "w1"]
    run("report", "out/model.blockmix")
    assert "--columns 'x*' matches no column of wine.csv: it has id, alcohol" in fails(
        "fit", wine_csv, "--columns", "x*"
    )
    assert "--exclude zzz matches no column" in fails("fit", wine_csv, "--exclude", "zzz")


def test_patterns_choose_columns_of_pieces(small_limit: None) -> None:
    numbered().to_parquet("wine.parquet")
    run("fit", "wine.parquet", "--columns", "*al*", "--exclude", "total*", "--components", "1", "--out", "out")
    names = list(blockmix.load("out/model.blockmix").feature_names_in_)
    assert names == ["alcohol", "malic_acid", "alcalinity_of_ash"]
