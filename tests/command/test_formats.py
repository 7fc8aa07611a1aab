"""Every kind of file gives the same table, and a bad file gives one sentence."""

from __future__ import annotations

import gzip
import os
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from optional import package
from scipy import sparse

from blockmix.command import formats
from blockmix.command.options import ReadingOptions
from blockmix.command.reading import read_table

NUMBERS = pd.DataFrame(
    {
        "id": [f"r{i}" for i in range(6)],
        "a": [1.5, -2.0, 3.25, 0.5, 1e-3, 7.0],
        "kind": ["x", "y", "x", "y", "x", "y"],
        "b": [1, 2, 3, 5, 8, 13],
    }
)
EXPECTED = NUMBERS[["a", "b"]].to_numpy(dtype=float)


WRITERS: dict[str, Any] = {
    "csv": NUMBERS.to_csv,
    "tsv": partial(NUMBERS.to_csv, sep="\t"),
    "semicolon.csv": partial(NUMBERS.to_csv, sep=";", decimal=","),
    "utf16.csv": partial(NUMBERS.to_csv, sep="\t", encoding="utf-16"),
    "bom.csv": partial(NUMBERS.to_csv, encoding="utf-8-sig"),
    "mac.csv": partial(NUMBERS.to_csv, lineterminator="\r"),
    "csv.gz": NUMBERS.to_csv,
    "parquet": NUMBERS.to_parquet,
    "xlsx": NUMBERS.to_excel,
}


@pytest.mark.parametrize("ending", [*WRITERS, "feather"])
def test_every_format_gives_the_same_table(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"table.{ending}"
    if ending == "feather":
        NUMBERS.astype({"kind": "category"}).to_feather(path)
    else:
        WRITERS[ending](path, index=False)
    table = read_table(path, kept=("kind",))
    assert table.names == ("a", "b")
    np.testing.assert_array_equal(table.values, EXPECTED)
    assert list(table.row_names) == list(NUMBERS["id"])
    assert table.named_by == "id"
    assert table.texts == {"kind": list(NUMBERS["kind"])}


def test_a_workbook_with_gaps_and_types(tmp_path: Path) -> None:
    sheet = pd.DataFrame({"a": [1.5, 2.0], "empty": [None, None], "when": pd.to_datetime(["2020-01-01", "2020-01-02"])})
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        sheet.to_excel(book, index=False, startrow=2, sheet_name="first")
        NUMBERS.to_excel(book, index=False, sheet_name="second")
    table = read_table(tmp_path / "t.xlsx")
    assert table.names == ("a",)
    assert table.left_out == {"empty": "empty", "when": "'2020-01-01 00:00:00'"}


def test_an_array_is_a_table_without_names(tmp_path: Path) -> None:
    np.save(tmp_path / "table.npy", EXPECTED.astype(np.float32))
    table = read_table(tmp_path / "table.npy")
    assert not table.named
    assert table.names == ("x0", "x1")
    assert table.values.dtype == np.float32
    assert list(table.row_names) == [1, 2, 3, 4, 5, 6]


def test_annotated_data_have_their_names_and_layers(tmp_path: Path) -> None:
    anndata = package("anndata")
    adata = anndata.AnnData(
        sparse.csr_matrix(EXPECTED),
        obs=pd.DataFrame({"kind": list(NUMBERS["kind"])}, index=list(NUMBERS["id"])),
        var=pd.DataFrame(index=["a", "b"]),
        layers={"double": 2 * EXPECTED},
    )
    adata.write_h5ad(tmp_path / "table.h5ad")
    table = read_table(tmp_path / "table.h5ad", kept=("kind",))
    np.testing.assert_array_equal(table.values, EXPECTED)
    assert table.names == ("a", "b")
    assert list(table.row_names) == list(NUMBERS["id"])
    assert table.texts["kind"] == list(NUMBERS["kind"])
    double = read_table(tmp_path / "table.h5ad", ReadingOptions(layer="double"), only=("b",))
    np.testing.assert_array_equal(double.values, 2 * EXPECTED[:, 1:])
    with pytest.raises(ValueError, match="no layer 'counts': the layers are double"):
        read_table(tmp_path / "table.h5ad", ReadingOptions(layer="counts"))


def test_sparse_data_that_do_not_fit_into_memory_are_refused(tmp_path: Path) -> None:
    anndata = package("anndata")
    n = 400_000  # 1.3 TB as a dense matrix
    anndata.AnnData(sparse.csr_matrix((n, n))).write_h5ad(tmp_path / "t.h5ad")
    with pytest.raises(MemoryError, match=r"use blockmix.anndata.fit in Python, which keeps it sparse"):
        read_table(tmp_path / "t.h5ad")


@pytest.mark.parametrize("ending", ["parquet", "feather", "xlsx", "npy", "h5ad"])
def test_a_file_that_is_not_what_its_name_says(ending: str, tmp_path: Path) -> None:
    if ending == "h5ad":
        package("anndata")
    path = tmp_path / f"bad.{ending}"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=f"is damaged or not a {ending} file|cannot be read as a .npy file"):
        read_table(path)


def test_arrays_other_than_matrices_of_numbers_are_refused(tmp_path: Path) -> None:
    for array in (np.arange(3.0), np.array([["a"]]), np.zeros((0, 3)), np.zeros((3, 0))):
        np.save(tmp_path / "bad.npy", array)
        with pytest.raises(ValueError, match=r"holds (an array of shape|values of type)|has no rows"):
            read_table(tmp_path / "bad.npy")
    np.save(tmp_path / "object.npy", np.array([[{}]]), allow_pickle=True)
    with pytest.raises(ValueError, match=r"cannot be read as a \.npy file"):
        read_table(tmp_path / "object.npy")


@pytest.mark.parametrize("shape", ["(6, 2)", "(9999999999, 2)"])
def test_an_array_that_is_cut_off_is_one_sentence(shape: str, tmp_path: Path) -> None:
    np.save(tmp_path / "cut.npy", EXPECTED)
    content = (tmp_path / "cut.npy").read_bytes().replace(b"(6, 2)", shape.encode())
    (tmp_path / "cut.npy").write_bytes(content[:-8])
    with pytest.raises(ValueError, match=r"cut\.npy ends before its array does: copy it again or save it again$"):
        read_table(tmp_path / "cut.npy")


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: data[:60] + b"?" * 40 + data[100:]]
)
def test_a_damaged_archive_is_one_sentence(damage: Any, tmp_path: Path) -> None:
    rows = "a,b\n" + "".join(f"{i / 7},{i * i / 3}\n" for i in range(200))
    (tmp_path / "a.csv.gz").write_bytes(damage(gzip.compress(rows.encode())))
    with pytest.raises(ValueError, match="is damaged or not a gz file"):
        read_table(tmp_path / "a.csv.gz")


def test_a_named_pipe_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = gzip.compress(NUMBERS.to_csv(index=False).encode())
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    np.testing.assert_array_equal(read_table(pipe, kept=("kind",)).values, EXPECTED)
    writer.join()


def test_columns_of_lists_and_records_are_left_out(tmp_path: Path) -> None:
    NUMBERS.assign(many=[[1, 2]] * 6, record=[{"k": i} for i in range(6)]).to_parquet(tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet")
    assert table.names == ("a", "b")
    assert table.left_out["many"] == "'[1, 2]'"


def test_the_index_of_pandas_is_not_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    NUMBERS.drop(columns="id").iloc[[1, 2, 5]].to_parquet(tmp_path / "a.parquet")  # pandas puts its index last
    table = read_table(tmp_path / "a.parquet")
    assert table.names == ("a", "b") and table.named_by == "__index_level_0__"
    assert list(table.row_names) == ["1", "2", "5"]
    monkeypatch.setattr(formats, "LARGE", 3)
    large = read_table(tmp_path / "a.parquet")
    assert large.names == ("a", "b")
    assert large.left_out["__index_level_0__"] == "row names: --keep __index_level_0__ uses it"


def test_columns_of_other_types(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "t": pd.to_datetime(["2020-01-01", "2020-01-01"]),
            "f": [True, False],
            "large": [2**60, 1],  # more digits than a double has, as in a csv file
            "a": [1, 2],
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert table.names == ("large", "a")
    assert set(table.left_out) == {"t", "f"}
