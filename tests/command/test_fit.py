"""Fits from the command line: what they read, write, print and warn of."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import MIXTURE, command, fails, in_a_terminal, lines_of, process, run, summary_of, wine
from matplotlib import image
from sklearn.datasets import load_wine

import blockmix
from blockmix import GaussianBiclustering, select
from blockmix.command import formats
from experiments.metrics import adjusted_rand


def numbered(**more: object) -> pd.DataFrame:
    """The wines without row names, since those of large tables are numbers."""
    return wine().drop(columns="id").assign(**more)


def with_missing() -> pd.DataFrame:
    """The wines with 40 missing cells in two columns, and a column without values."""
    frame, rng = wine(), np.random.default_rng(0)
    frame.loc[rng.choice(178, 30, replace=False), "ash"] = np.nan
    frame.loc[rng.choice(178, 10, replace=False), "hue"] = np.nan
    return frame.assign(empty=np.nan)


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is too large for memory."""
    monkeypatch.setattr(formats, "LARGE", 100)


def test_fit_chooses_and_writes_everything(wine_csv: str) -> None:
    done = run("fit", wine_csv, "--label", "kind")
    folder = Path("wine-blockmix")
    assert {path.name for path in folder.iterdir()} == MIXTURE | {"selection.csv"}
    model = blockmix.load(folder / "model.blockmix")
    rows, columns = lines_of(folder / "rows.csv"), lines_of(folder / "columns.csv")
    assert [row["id"] for row in rows] == list(wine()["id"])
    assert [int(row["cluster"]) for row in rows] == (model.row_labels_ + 1).tolist()
    X = wine()[list(model.feature_names_in_)]
    np.testing.assert_allclose(
        [float(row["probability"]) for row in rows], model.predict_proba(X).max(axis=1), rtol=1e-5
    )
    for name in ("size", "group"):
        assert [int(line[name]) for line in columns] == model.column_table()[name].tolist()
    expected = model.column_table()["loading"]
    np.testing.assert_allclose([float(line["loading"] or "nan") for line in columns], expected, atol=5e-4)
    summary = summary_of(folder)
    assert summary["command"] == "blockmix fit wine.csv --label kind"
    assert summary["n_components"] == len(model.weights_) == 3
    assert summary["ari"] == pytest.approx(adjusted_rand(wine()["kind"], model.row_labels_))
    assert summary["bic"] == pytest.approx(model.bic(X))
    assert len(summary["selection"]) == len(lines_of(folder / "selection.csv")) > 9
    assert sorted(summary["files"]) == sorted(path.name for path in folder.iterdir())
    assert f"adjusted Rand index {summary['ari']:.3f}" in done.stdout
    assert model.describe().splitlines()[1] in done.stdout and "resamples of the rows." in done.stdout
    assert "row names: id" in done.stderr


def test_one_number_is_fitted_without_a_comparison(wine_csv: str) -> None:
    how = ("--components", "2", "--groups", "4", "--shared", "--seed", "3", "--out", "a/b", "--json")
    done = run("fit", wine_csv, *how)
    assert {path.name for path in Path("a/b").iterdir()} == MIXTURE
    assert json.loads(done.stdout) == summary_of("a/b")
    assert "left out: kind ('class_0')" in done.stderr
    X = wine().drop(columns=["id", "kind"])
    model = GaussianBiclustering(2, 4, shared_covariance=True, random_state=3).fit(X)
    assert [int(row["cluster"]) for row in lines_of("a/b/rows.csv")] == (model.row_labels_ + 1).tolist()


def test_select_compares_all_pairs(wine_csv: str) -> None:
    how = ("--components", "1:2", "--groups", "auto,3", "--criterion", "icl", "--shared", "--out", "out")
    done = run("fit", wine_csv, *how)
    lines = lines_of("out/selection.csv")
    pairs = [(line["n_components"], line["n_column_groups"]) for line in lines]
    assert pairs[:4] == [("1", "auto"), ("1", "3"), ("2", "auto"), ("2", "3")]  # before powers and tails
    summary = summary_of("out")
    assert summary["icl"] == pytest.approx(min(float(line["icl"]) for line in lines))
    assert "warning: the best is at --components 2, the edge of 1 … 2 tried: try more\n" in done.stderr
    assert summary["warnings"][0] in done.stderr
    done = run("fit", wine_csv, "--components", "3", "--max-iter", "2", "--out", "out")
    assert "warning: EM stopped at --max-iter 2 before it converged: raise --max-iter" in done.stderr


def test_covariance_groups_columns(wine_csv: str) -> None:
    run("covariance", wine_csv, "--groups", "4", "--out", "out")
    assert {path.name for path in Path("out").iterdir()} == MIXTURE - {"rows.csv"}
    model = blockmix.load("out/model.blockmix")
    assert [int(line["group"]) for line in lines_of("out/columns.csv")] == (model.column_labels_ + 1).tolist()
    assert summary_of("out")["groups"] == model.groups_
    printed = run("covariance", wine_csv, "--out", "auto").stdout
    assert "Four column groups; two columns are alone." in printed
    assert "On top of the groups all columns share two common factors: 42 % of their variance." in printed


def test_fits_that_fail_are_one_sentence(wine_csv: str) -> None:
    for components, largest in (("200", 200), ("1:1000000", 1_000_000)):
        sentence = fails("fit", wine_csv, "--components", components)
        assert sentence == f"--components {largest} exceeds the 178 rows of wine.csv"
    for arguments in (("fit", wine_csv, "--groups", "auto,14"), ("covariance", wine_csv, "--groups", "14")):
        assert fails(*arguments) == "--groups 14 exceeds the 13 columns of wine.csv"
    wine().assign(kind=None).to_csv("unlabeled.csv", index=False)
    sentence = fails("fit", "unlabeled.csv", "--label", "kind", "--components", "2")
    assert "the column 'kind' of unlabeled.csv is empty" in sentence
    assert fails("fit", wine_csv, "--label", "kinds") == "wine.csv has no column 'kinds': did you mean 'kind'?"
    for content, sentence in (
        (b"", "is empty"),
        (b"a,b\nu,v\nw,v\n", "has no numeric column: a ('u'), b ('v')"),
        (b"a,b\n1,v\n1.5x,v\n3,v\n", "has text in columns of numbers: a ('1.5x' in row 2); correct it"),
        (b"a,b\n1,2\n1,2\n1,2\n", "has 3 rows but no numeric column that varies"),
        (b"a,b\n1,2\n2,inf\n3,1\n", "has infinite values in 1 of 3 rows: b (1)"),
    ):
        Path("bad.csv").write_bytes(content)
        assert fails("fit", "bad.csv").startswith(f"bad.csv {sentence}")
    assert fails("fit", "nothing.csv") == "nothing.csv does not exist"
    assert fails("fit", ".") == ". is a folder: give a file"


def test_a_table_too_wide_for_memory_is_refused() -> None:
    np.save("wide.npy", np.random.default_rng(0).standard_normal((3, 1_000_000)))  # correlations of 8 TB
    sentence = fails("covariance", "wide.npy")
    assert re.match(r"column groups of 1000000 columns need about [\d.e+]+ GB of memory, and [\d.e+]+ GB are", sentence)
    assert re.search(r"keep those of largest variance: --top-variance \d+$", sentence)


@pytest.mark.parametrize("large", [False, True])
def test_chosen_columns(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    numbered().to_parquet("wine.parquet")
    if large:
        monkeypatch.setattr(formats, "LARGE", 100)
    done = run("fit", "wine.parquet", "--components", "2", "--top-variance", "3", "--out", "out")
    assert "kept the 3 of 13 columns with the largest variance" in done.stderr
    kept = wine().drop(columns=["id", "kind"]).var().nlargest(3).index
    assert {line["column"] for line in lines_of("out/columns.csv")} == set(kept)
    assert run("predict", "out/model.blockmix", "wine.parquet").stdout == Path("out/rows.csv").read_text()
    how = ("--columns", "*al*", "--columns", "hue", "--drop", "total*", "--drop", "hue", "--components", "1")
    run("fit", "wine.parquet", *how, "--out", "out")
    names = list(blockmix.load("out/model.blockmix").feature_names_in_)
    assert names == ["alcohol", "malic_acid", "alcalinity_of_ash"]
    for option in ("--columns", "--drop"):
        assert "wine.parquet has no column 'x*': it has alcohol" in fails("fit", "wine.parquet", option, "x*")


def test_demo_is_the_python_of_the_readme() -> None:
    done = run("demo")
    assert {path.name for path in Path("blockmix-demo").iterdir()} == MIXTURE | {"selection.csv"}
    assert ": smallest bic" in done.stdout
    summary = summary_of("blockmix-demo")
    assert summary["ari"] > 0.9
    with pytest.warns(UserWarning, match="heavy tails|some rows are far away"):
        table = select(load_wine(as_frame=True).data, n_components=range(1, 6), random_state=0)
    np.testing.assert_allclose([line["bic"] for line in summary["selection"]], [row.bic for row in table.rows])


def test_the_same_input_gives_the_same_page(wine_csv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Red if the page has the time of the run, or the order of a set.
    pages = []
    for out in ("a", "b"):
        monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
        done = process("fit", wine_csv, "--components", "2", "--figures", "pdf,svg", "--out", "out")
        assert done.returncode == 0, done.stderr
        Path("out").rename(out)
        names = sorted(path.name for path in Path(out).glob("[fr]*") if path.suffix != ".csv")
        pages.append({name: Path(out, name).read_bytes() for name in names})
    assert pages[0] == pages[1]
    assert len(pages[0]) > 5


# The whole table with clusters


def test_the_table_comes_back_with_its_clusters() -> None:
    # Red if a row or a cell is lost, moved or written otherwise.
    frame = wine().astype(object)
    frame.insert(0, "cluster", [f"ward {i % 3}" for i in range(178)])
    frame.loc[[3, 70], "ash"] = ["", "?"]
    frame.to_csv("holes.csv", index=False, sep=";")
    how = ("--components", "3", "--missing", "?", "--drop-missing", "--drop", "hue", "--append", "--out", "out")
    run("fit", "holes.csv", *how)
    given, rows = pd.read_csv("holes.csv", sep=";", dtype=str), lines_of("out/rows.csv")
    found = pd.read_csv("out/table.csv", dtype=str)
    pd.testing.assert_frame_equal(found[list(given)], given)
    model = blockmix.load("out/model.blockmix")
    assert list(found)[given.shape[1] :][:2] == ["blockmix_cluster", "probability"]
    scores = model.transform(wine()[list(model.feature_names_in_)].drop(index=[3, 70]))
    np.testing.assert_allclose(
        found[[*model.get_feature_names_out()]].dropna().astype(float), scores, rtol=1e-3, atol=1e-3
    )
    assert found.index[found["blockmix_cluster"].isna()].tolist() == [3, 70]
    kept = found.drop(index=[3, 70])
    assert kept["blockmix_cluster"].tolist() == [row["cluster"] for row in rows]
    assert kept["id"].tolist() == [row["id"] for row in rows]
    how = ("holes.csv", "--missing", "?", "--drop-missing", "--append")
    again = run("predict", "out/model.blockmix", *how).stdout
    assert [line["blockmix_cluster"] for line in csv.DictReader(again.splitlines())] == list(
        found["blockmix_cluster"].fillna("")
    )


def test_a_table_that_cannot_come_back_is_refused_first(small_limit: None) -> None:
    numbered().to_parquet("wine.parquet")
    assert "wine.parquet is too large to be copied with --append" in fails("fit", "wine.parquet", "--append")
    np.save("a.npy", np.random.default_rng(0).standard_normal((9, 3)))
    assert "a.npy has no names of columns: --append needs a text file" in fails("fit", "a.npy", "--append")


def test_columns_of_the_same_name_that_are_left_out_are_no_error_after_the_fit() -> None:
    numbers = numbered()[["ash", "hue", "proline"]]
    numbers.assign(again=numbers["hue"]).to_csv("twice.csv", index=False, header=["ash", "hue", "proline", "hue"])
    run("fit", "twice.csv", "--drop", "hue", "--components", "2", "--out", "out")
    assert "columns of the same name: hue" in fails("fit", "twice.csv", "--drop", "hue", "--append")


def test_numbers_that_name_rows_do_so(wine_csv: str) -> None:
    wine().assign(id=range(1000, 1178)).to_csv("numbered.csv", index=False)
    done = run("fit", "numbered.csv", "--components", "2", "--out", "out")
    assert "row names: id: --keep id uses it" in done.stderr
    assert [row["id"] for row in lines_of("out/rows.csv")] == [str(i) for i in range(1000, 1178)]


# Missing values


@pytest.mark.parametrize("large", [False, True])
def test_missing_values_are_fitted_as_they_are_and_counted(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with_missing().drop(columns="id").to_parquet("holes.parquet", row_group_size=50)
    if large:
        monkeypatch.setattr(formats, "LARGE", 100)
    done = run("fit", "holes.parquet", "--components", "3", "--label", "kind", "--out", "out")
    assert "40 of 2314 cells (1.7%) are missing: ash (30), hue (10)" in done.stderr
    assert "left out: empty (empty)" in done.stderr
    X = with_missing().drop(columns=["id", "kind", "empty"])
    model = GaussianBiclustering(3, random_state=0).fit(X)
    assert [int(row["cluster"]) for row in lines_of("out/rows.csv")] == (model.row_labels_ + 1).tolist()
    assert summary_of("out")["missing"] == {"ash": 30, "hue": 10}
    Path("again.csv").write_text(run("predict", "out/model.blockmix", "holes.parquet").stdout)
    of_fit, new = ([{**row, "outlier": ""} for row in lines_of(path)] for path in ("out/rows.csv", "again.csv"))
    assert new == of_fit  # but for the limit of outliers, which is higher for new rows
    done = run("fit", "holes.parquet", "--components", "2", "--drop-missing", "--label", "kind", "--out", "out")
    complete = X.notna().all(axis=1)
    assert f"left out {178 - complete.sum()} of 178 rows with missing values" in done.stderr
    assert [int(row["row"]) - 1 for row in lines_of("out/rows.csv")] == np.flatnonzero(complete).tolist()
    model = GaussianBiclustering(2, random_state=0).fit(X[complete])
    assert [int(row["cluster"]) for row in lines_of("out/rows.csv")] == (model.row_labels_ + 1).tolist()


def test_an_outlier_is_compared_with_the_number_of_its_values() -> None:
    # Red if a row with missing values is compared with the number of columns.
    frame = wine()
    frame.loc[5, ["ash", "hue"]] = np.nan
    frame.loc[5, "proline"] = 1e5
    frame.loc[9, frame.columns.difference(["id", "kind"])] = np.nan
    frame.to_csv("far.csv", index=False)
    done = run("fit", "far.csv", "--components", "1", "--out", "out")
    assert "cells (0.6%) are missing: " in done.stderr
    assert summary_of("out")["farthest"][0] == "w5" and blockmix.load("out/model.blockmix").n_values_[5] == 11


def test_the_columns_of_a_table_with_missing_values_are_grouped() -> None:
    with_missing().to_csv("holes.csv", index=False)
    done = run("covariance", "holes.csv", "--out", "cov")
    assert "40 of 2314 cells (1.7%) are missing: ash (30), hue (10)" in done.stderr
    assert fails("covariance", "holes.csv", "--stability", "--resamples", "3") == (
        "holes.csv has missing values: use blockmix fit --components 1 --stability, which takes them"
    )


# Files that are read in pieces


@pytest.mark.parametrize("kind", ["npy", "parquet", "arrow", "feather"])
def test_pieces_and_memory_give_the_same_results(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Red if a pass loses, repeats or reorders rows.
    frame, file, label = numbered(), f"wine.{kind}", () if kind == "npy" else ("--label", "kind")
    if kind == "npy":
        np.save(file, frame.drop(columns="kind").to_numpy())
    elif kind == "parquet":
        frame.to_parquet(file, row_group_size=50)
    else:
        frame.to_feather(file, chunksize=50)
    run("fit", file, *label, "--components", "3", "--out", "memory")
    monkeypatch.setattr(formats, "LARGE", 100)
    done = run("fit", file, *label, "--components", "3", "--out", "pieces")
    assert f"{file} is read in pieces" in done.stderr
    rows = [lines_of(f"{folder}/rows.csv") for folder in ("memory", "pieces")]
    assert [row["row"] for row in rows[0]] == [row["row"] for row in rows[1]]
    assert [row["cluster"] for row in rows[0]] == [row["cluster"] for row in rows[1]]
    np.testing.assert_allclose(*([float(row["outlier_score"]) for row in part] for part in rows), rtol=1e-3)
    assert lines_of("memory/columns.csv") == lines_of("pieces/columns.csv")
    memory, pieces = summary_of("memory"), summary_of("pieces")
    assert memory["ari"] == pieces["ari"]
    assert memory["bic"] == pytest.approx(pieces["bic"])
    # A large table is not written once more: neither its scores, nor what they go with.
    assert {*memory["files"]} - {*pieces["files"]} == {"scores.csv", *(["associations.csv"] if label else [])}
    assert run("predict", "pieces/model.blockmix", file).stdout == Path("pieces/rows.csv").read_text()


def test_columns_of_a_large_file_that_are_no_data_are_left_out(small_limit: None) -> None:
    frame = numbered(constant=1.0, empty=np.nan, when=pd.Timestamp("2026-01-01"))
    frame.insert(0, "n", range(1, len(frame) + 1))
    frame.to_parquet("wine.parquet", row_group_size=50)
    done = run("fit", "wine.parquet", "--components", "1", "--out", "out")
    left_out = summary_of("out")["left_out"]
    assert set(left_out) == {"n", "when", "kind", "empty", "constant"}
    assert (left_out["empty"], left_out["constant"]) == ("empty", "constant")
    assert "n (ids, which all differ: --keep n uses it)" in done.stderr
    assert list(blockmix.load("out/model.blockmix").feature_names_in_) == list(wine().columns[1:-1])


def test_a_folder_of_parquet_files_is_one_table() -> None:
    Path("wines").mkdir()
    numbered()[:100].to_parquet("wines/a.parquet")
    numbered()[100:].to_parquet("wines/b.parquet")
    run("fit", "wines", "--components", "3", "--label", "kind", "--out", "out")
    assert summary_of("out")["rows"] == 178
    assert summary_of("out")["ari"] > 0.8


def test_covariance_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    numbered().to_parquet("wine.parquet")
    monkeypatch.setattr(formats, "LARGE", 1300)
    done = run("covariance", "wine.parquet", "--out", "out")
    assert "the covariance is that of a sample of 100 of the 178 rows" in done.stderr


# Results on request


def test_outliers_are_listed_with_their_worst_group() -> None:
    frame = wine()
    frame.loc[5, ["ash", "hue"]] = [60.0, 40.0]
    frame.to_csv("far.csv", index=False)
    done = run("fit", "far.csv", "--components", "3", "--tails", "t", "--out", "out")
    rows, model = lines_of("out/rows.csv"), blockmix.load("out/model.blockmix")
    np.testing.assert_allclose([float(row["outlier_score"]) for row in rows], model.outlier_scores_, rtol=1e-3)
    assert [row["outlier"] == "yes" for row in rows] == model.outliers_.tolist()
    assert summary_of("out")["outliers"] == model.outliers_.sum()
    # A normal component would rather stretch to reach the row.
    assert summary_of("out")["farthest"][0] == "w5"
    assert "farthest first: w5" in done.stdout
    columns = model.column_table().query(f"cluster == {rows[5]['cluster']} and group == {rows[5]['farthest_group']}")
    assert {"ash", "hue"} & set(columns["column"])


def test_figures_are_written_and_replaced_together(wine_csv: str) -> None:
    run("fit", wine_csv, "--components", "2", "--figures", "png,svg,pdf", "--out", "out")
    names = sorted(path.stem for path in Path("out").glob("figure-*.png"))
    kinds = ("checkerboard", "correlations-1", "correlations-2", "differences", "map", "profiles")
    assert names == [f"figure-{name}" for name in kinds]
    for name in names:
        pixels = image.imread(f"out/{name}.png")
        assert pixels.shape[1] == int(85 / 25.4 * 150)  # one column of a journal
        assert Path(f"out/{name}.pdf").read_bytes().startswith(b"%PDF")
        assert "<svg" in Path(f"out/{name}.svg").read_text()
    assert set(summary_of("out")["files"]) == {path.name for path in Path("out").iterdir()}
    run("fit", wine_csv, "--components", "1", "--figures", "svg", "--out", "out")
    assert sorted(path.name for path in Path("out").glob("figure-*")) == [
        "figure-checkerboard.svg",
        "figure-correlations-1.svg",
        "figure-map.svg",
    ]
    Path("own").mkdir()
    Path("own/figure-map.svg").write_text("mine")
    sentence = fails("fit", wine_csv, "--components", "1", "--figures", "svg", "--out", "own")
    assert "own has a figure-map.svg that is not the result of an earlier run" in sentence
    run("covariance", wine_csv, "--groups", "4", "--figures", "png", "--out", "cov")
    assert Path("cov/figure-dendrogram.png").exists()


def test_a_table_too_wide_for_a_page_is_fitted_without_one(wine_csv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Red if the page is tried, whose p × p matrices do not fit into memory, or if that of an earlier fit stays.
    run("fit", wine_csv, "--components", "2", "--out", "out")
    assert Path("out/report.html").exists()
    monkeypatch.setattr("blockmix.command.fit._SHOWN_COLUMNS", 12)
    done = run("fit", wine_csv, "--components", "2", "--out", "out")
    assert "no report.html: the table has 13 columns, a page shows at most 12" in done.stderr
    assert "report.html" not in summary_of("out")["files"]
    assert not Path("out/report.html").exists()


def test_ctrl_c_keeps_the_fit_and_the_resamples_that_are_done(wine_csv: str) -> None:
    arguments = ("fit", wine_csv, "--components", "2", "--stability", "--refits", "0", "--resamples", "100000")
    screen, code = in_a_terminal(*arguments, "--out", "out", until="reweighting the rows")
    assert code == 130, screen
    assert Path("out/model.blockmix").exists()
    assert "of 100000 resamples: the results come from these" in screen or "best model so far" in screen


def begun(*arguments: str, checkpoint: str) -> subprocess.Popen[str]:
    """A fit that has written its checkpoint a few times."""
    listening = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # tests in the background ignore Ctrl-C
    process = subprocess.Popen(
        command(*arguments), stderr=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL, preexec_fn=listening
    )
    times: set[int] = set()
    end = time.monotonic() + 120
    while len(times) < 3 and time.monotonic() < end:
        time.sleep(0.005)
        if os.path.exists(checkpoint):
            times.add(os.stat(checkpoint).st_mtime_ns)
    assert len(times) == 3
    return process


def test_a_killed_fit_resumes_and_an_interrupted_one_is_kept(wine_csv: str) -> None:
    X = np.random.default_rng(0).standard_normal((60_000, 12))
    X[:30_000] += 0.3  # clusters that overlap, so that a fit takes many iterations
    np.save("slow.npy", X)
    fit = ("fit", "slow.npy", "--components", "3", "--groups", "12", "--checkpoint", "fit.checkpoint", "--out")
    killed = begun(*fit, "killed", checkpoint="fit.checkpoint")
    killed.kill()
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert Path("fit.checkpoint").exists()
    run(*fit, "killed")
    assert not Path("fit.checkpoint").exists()
    run("fit", "slow.npy", "--components", "3", "--groups", "12", "--out", "whole")
    assert Path("killed/rows.csv").read_bytes() == Path("whole/rows.csv").read_bytes()
    stopped = begun(*fit, "stopped", checkpoint="fit.checkpoint")
    stopped.send_signal(signal.SIGINT)
    _, said = stopped.communicate(timeout=120)
    assert stopped.returncode == 130
    assert said.endswith("blockmix: interrupted, the best model so far was written\n")
    assert 3 <= summary_of("stopped")["iterations"] < summary_of("whole")["iterations"]
    assert Path("fit.checkpoint").exists()
    before = Path(wine_csv).read_bytes()
    assert "wine.csv" in fails("fit", wine_csv, "--components", "2", "--checkpoint", wine_csv)
    assert Path(wine_csv).read_bytes() == before


def test_traits_of_a_file_are_matched_by_row_names_or_by_order(wine_csv: str) -> None:
    rng, frame = np.random.default_rng(0), wine()
    price = frame["alcohol"] + rng.standard_normal(178)
    traits = pd.DataFrame({"who": frame["id"], "price": price, "sort": rng.choice(["a", "b"], 178)})
    traits.sample(frac=1, random_state=0).to_csv("traits.csv", index=False)
    traits.drop(columns="who").to_csv("ordered.csv", index=False)
    how = ("--components", "2", "--out", "out", "--traits")
    run("fit", wine_csv, *how, "traits.csv")
    found, scores = pd.read_csv("out/associations.csv"), pd.read_csv("out/scores.csv")
    run("fit", wine_csv, *how, "ordered.csv")
    assert found.equals(pd.read_csv("out/associations.csv"))
    model = blockmix.load("out/model.blockmix")
    X = wine()[list(model.feature_names_in_)]
    np.testing.assert_allclose(scores.iloc[:, 1:], model.transform(X), atol=1e-4)
    assert scores["id"].tolist() == frame["id"].tolist()
    expected = model.associate(X, {"kind": frame["kind"], "price": price, "sort": traits["sort"]})
    assert found["trait"].unique().tolist() == ["kind", "price", "sort"]
    np.testing.assert_allclose(found["q"], expected["q"], rtol=1e-6)
    traits[:10].to_csv("short.csv", index=False)
    said = "no column of short.csv holds the row names, id, and it has 10 rows: give one for each row of wine.csv"
    assert fails("fit", wine_csv, *how, "short.csv") == said
