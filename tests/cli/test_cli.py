"""The command: what it writes, what it says and how it ends, on good files and on bad ones."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import select as waiting
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from typer.testing import CliRunner

import blockmix
from blockmix import GaussianBiclustering
from blockmix.cli import fitting
from blockmix.cli.app import app
from blockmix.metrics import adjusted_rand

MIXTURE = {"model.blockmix", "rows.csv", "columns.csv", "summary.json", "report.html"}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands write to the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BLOCKMIX_TRACEBACK", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(Path(blockmix.__file__).parents[1]))  # a relative one has another meaning here


def wine() -> pd.DataFrame:
    data = load_wine(as_frame=True)
    frame = data.data.copy()
    frame.insert(0, "id", [f"w{i}" for i in range(len(frame))])
    frame["kind"] = [str(data.target_names[k]) for k in data.target]
    return frame


@pytest.fixture
def wine_csv(tmp_path: Path) -> str:
    wine().to_csv(tmp_path / "wine.csv", index=False)
    return "wine.csv"


def run(*arguments: str, code: int = 0, text: str | None = None) -> Any:
    done = CliRunner().invoke(app, arguments, input=text, prog_name="blockmix")
    assert done.exit_code == code, f"{done.exit_code}: {done.stdout} {done.stderr} {done.exception!r}"
    return done


def fails(*arguments: str) -> str:
    """The sentence of a command that ends with exit code 1, and leaves nothing behind."""
    before = sorted(Path().rglob("*"))
    done = run(*arguments, code=1)
    assert sorted(Path().rglob("*")) == before
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if line.startswith("blockmix: ")]
    assert len(lines) == 1
    assert "Traceback" not in done.stderr
    return lines[0].removeprefix("blockmix: ")


def lines_of(path: str) -> list[dict[str, str]]:
    with Path(path).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_fit_chooses_and_writes_everything(wine_csv: str) -> None:
    done = run("fit", wine_csv, "--label", "kind")
    folder = Path("wine-blockmix")
    assert {path.name for path in folder.iterdir()} == MIXTURE | {"selection.csv"}
    model = blockmix.load(folder / "model.blockmix")
    rows, columns = lines_of(f"{folder}/rows.csv"), lines_of(f"{folder}/columns.csv")
    assert [row["row"] for row in rows] == list(wine()["id"])
    assert [int(row["cluster"]) for row in rows] == model.row_labels_.tolist()
    X = wine()[list(model.feature_names_in_)]
    np.testing.assert_allclose(
        [float(row["probability"]) for row in rows], model.predict_proba(X).max(axis=1), rtol=1e-5
    )
    found = np.array([int(line["group"]) for line in columns]).reshape(model.column_labels_.shape)
    np.testing.assert_array_equal(found, model.column_labels_)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["command"] == "blockmix fit wine.csv --label kind"
    assert summary["n_components"] == len(model.weights_) == 3
    assert summary["ari"] == pytest.approx(adjusted_rand(wine()["kind"], model.row_labels_))
    assert summary["bic"] == pytest.approx(model.bic(X))
    assert len(summary["selection"]) == len(lines_of(f"{folder}/selection.csv")) == 5
    assert sorted(summary["files"]) == sorted(path.name for path in folder.iterdir())
    assert f"adjusted Rand index {summary['ari']:.3f}" in done.stdout
    assert model.describe() in done.stdout
    assert "row names: id" in done.stderr


def test_a_column_that_gives_the_classes_away_is_named(wine_csv: str) -> None:
    codes = {"class_0": 1, "class_1": 2, "class_2": 3}
    wine().assign(code=wine()["kind"].map(codes)).to_csv("leak.csv", index=False)
    told = run("fit", "leak.csv", "--label", "kind", "--components", "2", "--out", "out").stderr
    assert "code: one value in each class of kind, so the fit sees the classes; --drop NAME" in told
    assert "one value" not in run("fit", wine_csv, "--label", "kind", "--components", "2", "--out", "out").stderr


def test_one_number_is_fitted_without_a_comparison(wine_csv: str) -> None:
    done = run("fit", wine_csv, "--components", "2", "--groups", "4", "--shared", "--seed", "3", "--out", "a/b")
    assert {path.name for path in Path("a/b").iterdir()} == MIXTURE
    assert "left out: kind ('class_0')" in done.stderr
    X = wine().drop(columns=["id", "kind"])
    model = GaussianBiclustering(2, 4, shared_covariance=True, random_state=3).fit(X)
    assert [int(row["cluster"]) for row in lines_of("a/b/rows.csv")] == model.row_labels_.tolist()


def test_json_is_the_summary_and_nothing_else(wine_csv: str) -> None:
    done = run("fit", wine_csv, "--components", "2", "--json", "--out", "out")
    assert json.loads(done.stdout) == json.loads(Path("out/summary.json").read_text())


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
    summary = json.loads(Path("out/summary.json").read_text())
    assert summary["icl"] == pytest.approx(min(float(line["icl"]) for line in lines))
    assert "warning: the smallest icl is at --components 2, the edge of 1 … 2 tried" in done.stderr
    assert "such as --components 3:" in done.stderr
    assert summary["warnings"][0] in done.stderr


def test_covariance_groups_columns(wine_csv: str) -> None:
    run("covariance", wine_csv, "--groups", "4", "--out", "out")
    assert {path.name for path in Path("out").iterdir()} == MIXTURE - {"rows.csv"}
    model = blockmix.load("out/model.blockmix")
    assert [int(line["group"]) for line in lines_of("out/columns.csv")] == model.column_labels_.tolist()
    assert json.loads(Path("out/summary.json").read_text())["groups"] == model.groups_
    warned = run("covariance", wine_csv, "--out", "auto").stderr
    assert "warning: --groups 'auto' found one group: all 13 columns are correlated" in warned


def test_topics_of_reviews() -> None:
    rng = np.random.default_rng(0)
    low, high = ["dirty carpet", "rude manager", "smell smoke"], ["metro station", "friendly staff", "lovely view"]
    texts = [" ".join(rng.choice(words, 3)) for words in [low] * 50 + [high] * 50]
    frame = pd.DataFrame({"stars": [1] * 50 + [5] * 50, "review": texts})
    frame.to_csv("reviews.csv", index=False)
    how = ("--text", "review", "--rating", "stars", "--topics", "2", "--groups", "6")
    done = run("topics", "reviews.csv", *how, "--out", "out")
    assert {path.name for path in Path("out").iterdir()} == {
        "model.blockmix",
        "rows.csv",
        "columns.csv",
        "topics.csv",
        "topics.png",
        "summary.json",
    }
    assert [int(row["topic"]) for row in lines_of("out/rows.csv")] == [0] * 50 + [1] * 50
    assert "carpet, dirty" in done.stdout
    assert {line["term"] for line in lines_of("out/columns.csv")} >= {"dirty", "metro"}
    predicted = run("predict", "out/model.blockmix", "reviews.csv", "--text", "review").stdout
    assert predicted == Path("out/rows.csv").read_text()
    assert "name the column of texts with --text" in fails("predict", "out/model.blockmix", "reviews.csv")
    assert "holds topics, which have no page" in fails("report", "out/model.blockmix")
    frame.loc[3, "stars"] = np.nan
    frame.loc[7, "review"] = None
    frame.to_csv("gaps.csv", index=False)
    assert "no review or no stars in 2 of 100 rows" in fails("topics", "gaps.csv", *how)
    assert "left out 2 of 100 rows" in run("topics", "gaps.csv", *how, "--drop-missing").stderr
    frame["stars"] = "good"
    frame.to_csv("words.csv", index=False)
    assert "holds 'good' in row 1" in fails("topics", "words.csv", *how, "--drop-missing")


@pytest.fixture
def wine_model(wine_csv: str) -> str:
    run("fit", wine_csv, "--components", "3", "--label", "kind", "--out", "out")
    return "out/model.blockmix"


def test_predict_finds_columns_by_name(wine_csv: str, wine_model: str) -> None:
    shuffled = wine().iloc[:, ::-1].rename(columns={"id": "name"})
    shuffled.insert(0, "extra", 1.0)
    shuffled.to_csv("new.csv", index=False)
    done = run("predict", wine_model, "new.csv", "--label", "kind")
    assert done.stdout == Path("out/rows.csv").read_text()
    assert "agreement with kind: adjusted Rand index 0.9" in done.stderr
    run("predict", wine_model, "new.csv", "--out", "new")
    assert Path("new/rows.csv").read_text() == done.stdout
    assert {path.name for path in Path("new").iterdir()} == {"rows.csv", "summary.json"}
    told = json.loads(run("predict", wine_model, "new.csv", "--json").stdout)
    assert len(told["assignments"]) == told["rows"] == 178


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


def test_models_that_are_none(wine_csv: str) -> None:
    Path("text.blockmix").write_text("hello")
    assert "is not a saved model" in fails("predict", "text.blockmix", wine_csv)
    assert fails("predict", "nothing.blockmix", wine_csv) == "nothing.blockmix does not exist"
    assert "is a folder" in fails("report", ".")


def test_report_again(wine_csv: str, wine_model: str) -> None:
    first = Path("out/report.html").read_text()
    run("report", wine_model, wine_csv, "--label", "kind", "--out", "page.html")
    assert Path("out/report.html").read_text() == first
    assert "alcohol" in Path("page.html").read_text()
    wine()[:100].to_csv("less.csv", index=False)
    assert "less.csv has 100 rows, but the model was fitted to 178" in fails("report", wine_model, "less.csv")
    assert "does not exist: make it first" in fails("report", wine_model, "--out", "no/page.html")


def shown(page: str) -> dict[str, Any]:
    """What a page holds, but for the time when it was written."""
    found = re.search(r'id="report-data">(.*?)</script>', Path(page).read_text(), re.DOTALL)
    assert found is not None
    document: dict[str, Any] = json.loads(found[1])
    del document["made"]["date"]
    return document


def test_report_without_a_file_is_the_page_of_the_fit(wine_csv: str) -> None:
    holes = wine()
    holes.loc[3, "ash"] = np.nan
    holes.to_csv("holes.csv", index=False)
    how = ("--drop-missing", "--drop", "hue", "--label", "kind", "--groups", "3", "--criterion", "icl", "--scale")
    run("select", "holes.csv", "--components", "2:3", *how, "--out", "all/wine")
    first = shown("all/wine/report.html")
    assert first["checkerboard"] and first["classes"] and first["selection"]["criterion"] == "icl"
    assert any("the edge of 2 … 3 tried" in text for text in first["warnings"])
    Path("all/wine/report.html").unlink()
    run("report", "all/wine/model.blockmix")
    assert shown("all/wine/report.html") == first
    run("fit", wine_csv, "--components", "2", "--out", "out")
    first = shown("out/report.html")
    os.chdir("all")  # the table lies beside the folder of the results, not here
    run("report", "../out/model.blockmix", "--out", "page.html")
    assert shown("page.html")["checkerboard"] == first["checkerboard"]


def test_a_table_that_may_not_be_read_is_named(wine_csv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise PermissionError(13, "Permission denied", wine_csv)

    monkeypatch.setattr("blockmix.cli.data.read_table", refused)
    assert fails("fit", wine_csv) == "wine.csv: Permission denied"


def test_report_does_not_replace_a_page_by_one_that_shows_less(wine_csv: str, wine_model: str) -> None:
    first = Path("out/report.html").read_text()
    wine()[:100].to_csv(wine_csv, index=False)
    told = (
        "out/report.html would lose what it shows of the data (wine.csv has 100 rows, but the model was fitted to 178)"
    )
    assert told in fails("report", wine_model)
    Path(wine_csv).unlink()
    assert "(the table that out/model.blockmix was fitted to, wine.csv, is not found)" in fails("report", wine_model)
    assert "is not found" in fails("report", wine_model, "--label", "kind")
    assert Path("out/report.html").read_text() == first
    assert "the page shows no data" in run("report", wine_model, "--out", "page.html").stderr
    assert not shown("page.html")["hasRows"]
    Path("out/summary.json").write_text("{")
    assert "nothing beside out/model.blockmix tells which table" in fails("report", wine_model)


def test_a_column_without_a_name_that_was_left_out_is_left_out_again() -> None:
    X = np.random.default_rng(0).standard_normal((30, 4))
    X[:, 1] = 5
    np.save("a.npy", X)
    run("fit", "a.npy", "--components", "1", "--out", "out")
    assert run("predict", "out/model.blockmix", "a.npy").stdout == Path("out/rows.csv").read_text()


def test_sizes_of_a_prediction_count_every_cluster(wine_csv: str, wine_model: str) -> None:
    first = [line["cluster"] == "0" for line in lines_of("out/rows.csv")]
    wine()[first][:20].to_csv("few.csv", index=False)
    told = json.loads(run("predict", wine_model, "few.csv", "--json").stdout)
    assert told["sizes"] == [20, 0, 0]


def test_demo() -> None:
    done = run("demo")
    assert {path.name for path in Path("blockmix-demo").iterdir()} == MIXTURE | {"selection.csv"}
    assert "* smallest bic" in done.stdout
    assert json.loads(Path("blockmix-demo/summary.json").read_text())["ari"] > 0.9


def bad_files() -> dict[str, tuple[bytes, str]]:
    def text(frame: pd.DataFrame) -> bytes:
        return frame.to_csv(index=False).encode()

    gaps, infinite = wine(), wine()
    gaps.loc[3:5, "ash"] = np.nan
    infinite.loc[7, "hue"] = np.inf
    return {
        "empty": (b"", "is empty"),
        "header": (b"a,b,c\n", "has names of columns but no rows"),
        "ragged": (b"a,b\n1,2\n3\n", "has a row of 1 cell where there are 2 columns"),
        "text": (b"a,b\nu,v\nw,v\n", "has no numeric column: a ('u'), b ('v')"),
        "encoding": ("é,b\n1,2\n".encode("latin-1"), "is not encoded in UTF-8"),
        "twins": (b"a,a\n1,2\n3,4\n", "has two columns called 'a'"),
        "missing": (
            text(gaps),
            "has missing values in 3 of 178 rows: ash (3); replace them, leave those rows",
        ),
        "infinite": (text(infinite), "has infinite values in 1 of 178 rows: hue (1)"),
        "constant": (b"a,b\n1,2\n1,2\n1,2\n", "has 3 rows in which no numeric column varies"),
        "one row": (b"a,b\n1,2\n", "has one row: two are needed to see what varies"),
        "binary": (b"\0\1\2\3", "is no table of text"),
    }


@pytest.mark.parametrize("kind", bad_files())
@pytest.mark.parametrize("command", ["fit", "covariance"])
def test_bad_files(command: str, kind: str) -> None:
    content, sentence = bad_files()[kind]
    Path("bad.csv").write_bytes(content)
    assert fails(command, "bad.csv").startswith(f"bad.csv {sentence}")


def test_what_is_no_file() -> None:
    assert fails("fit", "nothing.csv") == "nothing.csv does not exist"
    assert fails("select", ".") == ". is a folder: give a file"
    assert fails("topics", "nothing.csv", "--text", "a") == "nothing.csv does not exist"


def test_one_column_has_clusters_but_no_groups() -> None:
    values = [0.0, 0.1, 0.2, 0.3, 9.0, 9.1, 9.3, 9.2]
    pd.DataFrame({"a": values}).to_csv("one.csv", index=False)
    done = run("fit", "one.csv", "--components", "2", "--out", "out")
    assert "only one numeric column, a: there are no columns to group" in done.stderr
    clusters = [row["cluster"] for row in lines_of("out/rows.csv")]
    assert adjusted_rand(clusters, [0] * 4 + [1] * 4) == 1


def test_missing_rows_can_be_left_out() -> None:
    frame = wine()
    frame.loc[3:5, "ash"] = np.nan
    frame.loc[9, "kind"] = None
    frame.to_csv("gaps.csv", index=False)
    done = run("fit", "gaps.csv", "--components", "3", "--drop-missing", "--label", "kind", "--out", "out")
    assert "left out 3 of 178 rows with missing values" in done.stderr
    names = [row["row"] for row in lines_of("out/rows.csv")]
    assert names == [name for name in frame["id"] if name not in ("w3", "w4", "w5")]
    assert json.loads(Path("out/summary.json").read_text())["ari"] > 0.8  # over the rows that have a kind
    run("fit", "gaps.csv", "--components", "3", "--drop", "ash", "--out", "out")
    assert "ash" not in {line["column"] for line in lines_of("out/columns.csv")}


def test_fits_that_fail_are_one_sentence(wine_csv: str) -> None:
    assert fails("fit", wine_csv, "--components", "200").startswith("--components 200 exceeds the n_samples=178 rows")
    assert fails("fit", wine_csv, "--components", "2", "--groups", "14") == "--groups 14 exceeds the 13 columns of X"
    assert fails("select", wine_csv, "--components", "200:201").startswith("none of the 2 fits succeeded")
    wine().assign(kind=None).to_csv("unlabeled.csv", index=False)
    assert "the column 'kind' of unlabeled.csv is empty" in fails(
        "fit", "unlabeled.csv", "--label", "kind", "--components", "2"
    )
    assert fails("fit", wine_csv, "--label", "kinds") == "wine.csv has no column 'kinds': did you mean 'kind'?"


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit",),
        ("fit", "wine.csv", "--components", "none"),
        ("fit", "wine.csv", "--components", "3:1"),
        ("fit", "wine.csv", "--groups", "many"),
        ("fit", "wine.csv", "--init", "wish"),
        ("fit", "wine.csv", "--shrinkage", "2"),
        ("covariance", "wine.csv", "--groups", "2:4"),
        ("topics", "wine.csv"),
        ("fot", "wine.csv"),
        ("fit", "wine.csv", "--nonsense"),
    ],
)
def test_usage_errors_have_exit_code_2(arguments: tuple[str, ...], wine_csv: str) -> None:
    done = run(*arguments, code=2)
    assert done.stdout == ""
    assert "Error: " in done.stderr
    assert [path.name for path in Path().iterdir()] == [wine_csv]


@pytest.mark.parametrize("command", ["fit", "covariance", "select", "topics", "predict", "report", "demo"])
def test_every_help_has_examples(command: str) -> None:
    text = run(command, "--help").stdout
    assert f"\n    blockmix {command}" in text.partition("Examples:")[2]


def test_an_output_folder_that_is_a_file(wine_csv: str) -> None:
    assert fails("fit", wine_csv, "--out", wine_csv) == "wine.csv is a file: give a folder for the results with --out"
    assert "wine.csv/below cannot be written to: give another" in fails("fit", wine_csv, "--out", "wine.csv/below")


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """A folder that a user without rights may read but not write; root itself may always write."""
    folder = Path(tempfile.mkdtemp())
    (folder / "wine.csv").write_text(wine().to_csv(index=False))
    (folder / "out").mkdir()
    (folder / "out" / "rows.csv").write_text("old")
    folder.chmod(0o555)
    (folder / "out").chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)
        (folder / "out").chmod(0o755)
        subprocess.run(["rm", "-r", str(folder)], check=True)


def test_no_permission_to_write(as_nobody: Path) -> None:
    for out in (as_nobody / "new", as_nobody / "out"):
        done = run("fit", str(as_nobody / "wine.csv"), "--components", "2", "--out", str(out), code=1)
        assert done.stderr == f"blockmix: {out} cannot be written to: give another folder with --out\n"
    assert (as_nobody / "out" / "rows.csv").read_text() == "old"


def test_results_replace_the_old_ones_only_when_they_are_complete(
    wine_csv: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("fit", wine_csv, "--components", "1:2", "--out", "out")
    Path("out/mine.txt").write_text("notes")
    before = {path.name: path.read_bytes() for path in Path("out").iterdir()}

    def broken(*arguments: Any) -> None:
        raise OSError(28, "No space left on device", "report.html")

    with monkeypatch.context() as patch:
        patch.setattr(fitting, "report", broken)
        sentence = fails("fit", wine_csv, "--components", "3", "--out", "out")
    assert sentence == "report.html: No space left on device"
    assert {path.name: path.read_bytes() for path in Path("out").iterdir()} == before
    run("fit", wine_csv, "--components", "3", "--out", "out")
    # selection.csv told of another model; a stranger's file is not ours to remove.
    assert {path.name for path in Path("out").iterdir()} == MIXTURE | {"mine.txt"}
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []


def test_what_should_not_happen_is_one_sentence_too(wine_csv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> None:
        raise KeyError("inside")

    monkeypatch.setattr(fitting, "fit_mixture", broken)
    assert "please report it (KeyError: 'inside')" in fails("fit", wine_csv)
    monkeypatch.setenv("BLOCKMIX_TRACEBACK", "1")
    assert isinstance(run("fit", wine_csv, code=1).exception, KeyError)


def test_an_interrupted_fit_writes_nothing(wine_csv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The estimator itself keeps the best so far; red if the command would write that as a result.
    original = GaussianBiclustering.fit

    def interrupted(self: GaussianBiclustering, X: Any, **arguments: Any) -> GaussianBiclustering:
        def stop(progress: Any) -> None:
            if progress.iteration == 1:
                raise KeyboardInterrupt

        return original(self, X, callback=stop)

    monkeypatch.setattr(GaussianBiclustering, "fit", interrupted)
    for components in ("3", "2:4"):
        done = run("fit", wine_csv, "--components", components, code=130)
        assert "blockmix: interrupted, nothing was written" in done.stderr
    assert [path.name for path in Path().iterdir()] == [wine_csv]


def test_a_missing_extra_is_named() -> None:
    code = "import sys; sys.modules['typer'] = None; from blockmix.cli import main; main([])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "blockmix: typer is needed and not installed: pip install 'blockmix[app]'\n"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "blockmix", *arguments]


def test_help_imports_nothing_heavy() -> None:
    code = """
import atexit, sys
from blockmix.cli import main
atexit.register(lambda: print(*{name.partition(".")[0] for name in sys.modules}, file=sys.stderr))
main(["--help"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert "typer" in loaded
    assert not loaded & {"pandas", "matplotlib", "sklearn", "scipy", "numpy", "pyarrow", "anndata"}


def test_standard_input_and_a_quiet_pipe() -> None:
    text = wine().to_csv(index=False, sep="\t")
    arguments = ("fit", "-", "--components", "2", "--label", "kind", "--json", "--out", "out")
    done = subprocess.run(command(*arguments), input=text, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["file"] == "standard input"
    assert done.stderr == "row names: id\n"


def test_the_installed_command_is_this_one() -> None:
    pyproject = Path(__file__).parents[2] / "pyproject.toml"
    module, _, name = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["scripts"]["blockmix"].partition(
        ":"
    )
    assert callable(getattr(import_module(module), name))


def test_completion_knows_the_commands() -> None:
    asked = {"_BLOCKMIX_COMPLETE": "complete_bash", "COMP_WORDS": "blockmix co", "COMP_CWORD": "1"}
    done = subprocess.run(command(), env=os.environ | asked, capture_output=True, text=True)
    assert done.stdout.split() == ["covariance"]


def in_a_terminal(*arguments: str, until: str | None = None) -> tuple[str, int]:
    """What a person sees; Ctrl-C is pressed when some text appears."""
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores it
        os.execv(sys.executable, command(*arguments))
    seen, begin = b"", time.monotonic()
    while time.monotonic() - begin < 120:
        if not waiting.select([terminal], [], [], 1)[0]:
            continue
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        seen += piece
        if not piece:
            break
        if until is not None and until.encode() in seen:
            os.write(terminal, b"\x03")
            until = None
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode(errors="replace")), os.waitstatus_to_exitcode(status)


def large_csv() -> str:
    X = np.random.default_rng(0).standard_normal((20_000, 20))
    pd.DataFrame(X, columns=[f"c{j}" for j in range(20)]).to_csv("large.csv", index=False)
    return "large.csv"


def test_a_terminal_shows_bars_with_the_time_left() -> None:
    seen, code = in_a_terminal("fit", large_csv(), "--components", "2", "--max-iter", "3", "--out", "out")
    assert code == 0, seen
    assert re.search(r"reading large.csv .* MB [-\d:]+ left", seen)
    assert re.search(r"fitting 2 row clusters.* \d/3 [-\d:]+ left at most", seen)
    assert "writing the report" in seen
    assert "warning: EM stopped at --max-iter 3 before it settled: raise --max-iter" in seen


def test_ctrl_c_leaves_nothing() -> None:
    file = large_csv()
    arguments = ("fit", file, "--components", "2:9", "--init", "random", "--out", "out")
    seen, code = in_a_terminal(*arguments, until="iteration")
    assert code == 130, seen
    assert "blockmix: interrupted, nothing was written" in seen
    assert "Traceback" not in seen
    assert [path.name for path in Path().iterdir()] == [file]


def test_a_terminated_process_leaves_nothing() -> None:
    file = large_csv()
    arguments = ("fit", file, "--components", "2:9", "--init", "random", "--out", "out")
    process = subprocess.Popen(command(*arguments), stderr=subprocess.PIPE)
    while not list(Path().glob(".out.*.part")):
        assert process.poll() is None
        time.sleep(0.01)
    process.terminate()
    _, said = process.communicate()
    assert process.returncode == 143
    assert b"Traceback" not in said
    assert [path.name for path in Path().iterdir()] == [file]
