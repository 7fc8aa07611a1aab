"""The table of a command: what is refused, left out and noted."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import fails, lines_of, run, summary_of, wine


def test_a_column_that_gives_the_classes_away_is_named(wine_csv: str) -> None:
    codes = {"class_0": 1, "class_1": 2, "class_2": 3}
    wine().assign(code=wine()["kind"].map(codes)).to_csv("leak.csv", index=False)
    stderr = run("fit", "leak.csv", "--label", "kind", "--components", "2", "--out", "out").stderr
    assert "code: one value in each class of kind, so the fit sees the classes; leave out with --drop NAME" in stderr
    assert "one value" not in run("fit", wine_csv, "--label", "kind", "--components", "2", "--out", "out").stderr


def bad_files() -> dict[str, tuple[bytes, str]]:
    def text(frame: pd.DataFrame) -> bytes:
        return frame.to_csv(index=False).encode()

    gaps, infinite = wine(), wine()
    gaps.loc[3:5, "ash"] = np.nan
    infinite.loc[7, "hue"] = np.inf
    return {
        "empty": (b"", "is empty"),
        "header": (b"a,b,c\n", "has column names but no rows"),
        "ragged": (b"a,b\n1,2\n3\n", "has 1 cell in row 2 and 2 columns: '3'"),
        "text": (b"a,b\nu,v\nw,v\n", "has no numeric column: a ('u'), b ('v')"),
        "typo": (b"a,b\n1,v\n1.5x,v\n3,v\n", "has text in columns of numbers: a ('1.5x' in row 2); correct it"),
        "encoding": ("é,b\n1,2\n".encode("latin-1"), "is not encoded in UTF-8"),
        "twins": (
            b"a,a\n1,2\n3,4\n",
            "has columns of the same name: a (1, 2); rename them, or leave them out",
        ),
        "infinite": (text(infinite), "has infinite values in 1 of 178 rows: hue (1)"),
        "constant": (b"a,b\n1,2\n1,2\n1,2\n", "has 3 rows but no numeric column that varies"),
        "one row": (b"a,b\n1,2\n", "has only one row: at least two are needed"),
        "binary": (b"\0\1\2\3", "is not a text table"),
    }


@pytest.mark.parametrize("kind", bad_files())
@pytest.mark.parametrize("command", ["fit", "covariance"])
def test_bad_files(command: str, kind: str) -> None:
    content, sentence = bad_files()[kind]
    Path("bad.csv").write_bytes(content)
    assert fails(command, "bad.csv").startswith(f"bad.csv {sentence}")


def test_paths_that_are_not_files() -> None:
    assert fails("fit", "nothing.csv") == "nothing.csv does not exist"
    assert fails("select", ".") == ". is a folder: give a file"
    assert fails("topics", "nothing.csv", "--text", "a") == "nothing.csv does not exist"


def test_a_table_too_wide_for_the_memory_is_refused_before_the_fit() -> None:
    rng = np.random.default_rng(0)
    np.save("wide.npy", rng.standard_normal((3, 1_000_000)))  # correlations of 8 TB
    sentence = fails("covariance", "wide.npy")
    assert re.match(r"wide.npy has 1000000 columns, so a fit needs about \d+ GB of memory, and \d+ GB are", sentence)
    assert re.search(r"such as --top-variance \d+$", sentence)


def test_the_columns_of_largest_variance_are_kept_and_found_again(wine_csv: str) -> None:
    done = run("fit", wine_csv, "--components", "2", "--top-variance", "3", "--out", "out")
    assert "kept the 3 of 13 columns with the largest variance" in done.stderr
    variances = wine().drop(columns=["id", "kind"]).var()
    columns = {line["column"] for line in lines_of("out/columns.csv")}
    assert columns == set(variances.nlargest(3).index)
    assert run("predict", "out/model.blockmix", wine_csv).stdout == Path("out/rows.csv").read_text()


def test_missing_rows_can_be_left_out() -> None:
    frame = wine()
    frame.loc[3:5, "ash"] = np.nan
    frame.loc[9, "kind"] = None
    frame.to_csv("gaps.csv", index=False)
    done = run("fit", "gaps.csv", "--components", "3", "--drop-missing", "--label", "kind", "--out", "out")
    assert "left out 3 of 178 rows with missing values" in done.stderr
    names = [row["row"] for row in lines_of("out/rows.csv")]
    assert names == [name for name in frame["id"] if name not in ("w3", "w4", "w5")]
    assert summary_of("out")["ari"] > 0.8  # over the rows that have a kind
    run("fit", "gaps.csv", "--components", "3", "--drop", "ash", "--out", "out")
    assert "ash" not in {line["column"] for line in lines_of("out/columns.csv")}
