"""Tables: every format gives the same numbers, and whatever stands in the way is one sentence."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from optional import package

from blockmix.cli.tables import Reading, Table, formats, read_table
from blockmix.cli.tables import text as text_module
from blockmix.cli.tables.table import RowNumbers

NUMBERS = pd.DataFrame(
    {
        "id": [f"r{i}" for i in range(6)],
        "a": [1.5, -2.0, 3.25, 0.5, 1e-3, 7.0],
        "kind": ["x", "y", "x", "y", "x", "y"],
        "b": [1, 2, 3, 5, 8, 13],
    }
)
EXPECTED = NUMBERS[["a", "b"]].to_numpy(dtype=float)


def written(folder: Path, ending: str) -> Path:
    path = folder / f"table.{ending}"
    match ending:
        case "csv":
            NUMBERS.to_csv(path, index=False)
        case "tsv" | "txt":
            NUMBERS.to_csv(path, index=False, sep="\t")
        case "semicolon.csv":
            NUMBERS.to_csv(path, index=False, sep=";", decimal=",")
        case "utf16.csv":
            NUMBERS.to_csv(path, index=False, sep="\t", encoding="utf-16")
        case "bom.csv":
            NUMBERS.to_csv(path, index=False, encoding="utf-8-sig")
        case "csv.gz":
            path.write_bytes(gzip.compress(NUMBERS.to_csv(index=False).encode()))
        case "parquet":
            NUMBERS.to_parquet(path)
        case "feather":
            NUMBERS.astype({"kind": "category"}).to_feather(path)
        case "xlsx":
            NUMBERS.to_excel(path, index=False)
        case _:
            raise AssertionError(ending)
    return path


@pytest.mark.parametrize(
    "ending",
    ["csv", "tsv", "txt", "semicolon.csv", "utf16.csv", "bom.csv", "csv.gz", "parquet", "feather", "xlsx"],
)
def test_every_format_gives_the_same_table(ending: str, tmp_path: Path) -> None:
    table = read_table(written(tmp_path, ending), Reading(kept=("kind",)))
    assert table.names == ("a", "b")
    np.testing.assert_array_equal(table.values, EXPECTED)
    assert list(table.row_names) == list(NUMBERS["id"])
    assert table.named_by == "id"
    assert table.texts == {"kind": list(NUMBERS["kind"])}


def read(tmp_path: Path, text: str, **how: Any) -> Table:
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8")
    return read_table(path, Reading(**how))


def test_an_array_is_a_table_without_names(tmp_path: Path) -> None:
    np.save(tmp_path / "table.npy", EXPECTED.astype(np.float32))
    table = read_table(tmp_path / "table.npy")
    assert not table.named
    assert table.names == ("x0", "x1")
    assert table.values.dtype == np.float32
    assert list(table.row_names) == ["1", "2", "3", "4", "5", "6"]


def test_annotated_data_have_their_names_and_layers(tmp_path: Path) -> None:
    anndata = package("anndata")
    from scipy import sparse

    adata = anndata.AnnData(
        sparse.csr_matrix(EXPECTED),
        obs=pd.DataFrame({"kind": list(NUMBERS["kind"])}, index=list(NUMBERS["id"])),
        var=pd.DataFrame(index=["a", "b"]),
        layers={"double": 2 * EXPECTED},
    )
    adata.write_h5ad(tmp_path / "table.h5ad")
    table = read_table(tmp_path / "table.h5ad", Reading(kept=("kind",)))
    np.testing.assert_array_equal(table.values, EXPECTED)
    assert table.names == ("a", "b")
    assert list(table.row_names) == list(NUMBERS["id"])
    assert table.texts["kind"] == list(NUMBERS["kind"])
    double = read_table(tmp_path / "table.h5ad", Reading(layer="double", only=("b",)))
    np.testing.assert_array_equal(double.values, 2 * EXPECTED[:, 1:])
    with pytest.raises(ValueError, match="no layer 'counts': the layers are double"):
        read_table(tmp_path / "table.h5ad", Reading(layer="counts"))


def test_annotated_data_that_would_not_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    anndata = package("anndata")
    from scipy import sparse

    anndata.AnnData(sparse.csr_matrix(EXPECTED)).write_h5ad(tmp_path / "t.h5ad")
    monkeypatch.setattr(formats, "_memory", lambda: 100.0)
    with pytest.raises(MemoryError, match=r"use blockmix.anndata.fit in Python, which keeps it sparse"):
        read_table(tmp_path / "t.h5ad")


def test_many_batches_are_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Red if the growing matrix loses or repeats rows at the border of two batches.
    monkeypatch.setattr(text_module, "_BLOCK", 2000)
    X = np.random.default_rng(0).standard_normal((3000, 4))
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.insert(0, "name", [f"row {i}" for i in range(3000)])
    frame.to_csv(tmp_path / "table.csv", index=False)
    seen: list[int] = []
    table = read_table(tmp_path / "table.csv", tell=seen.append)
    np.testing.assert_array_equal(table.values, X)
    assert list(table.row_names) == list(frame["name"])
    assert seen == sorted(seen)
    assert seen[-1] == (tmp_path / "table.csv").stat().st_size


def test_a_column_that_turns_out_to_be_text_later_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "_BLOCK", 2000)
    lines = [f"{i},{i * i},{i % 7}" for i in range(1, 2001)]
    lines[1500] = "1501,unknown,3"
    table = read(tmp_path, "\n".join(["a,b,c", *lines]), only=("a", "b", "c"))
    assert table.names == ("a", "c")
    assert table.left_out == {"b": "'unknown' in row 1501"}
    np.testing.assert_array_equal(table.values[:, 0], np.arange(1, 2001))
    np.testing.assert_array_equal(table.values[:, 1], np.arange(1, 2001) % 7)


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "rownames"])
def test_an_index_names_the_rows(name: str, tmp_path: Path) -> None:
    table = read(tmp_path, f"{name},a,b\n7,1,2\n9,3,4\n8,5,6\n")
    assert table.names == ("a", "b")
    assert list(table.row_names) == ["7", "9", "8"]


def test_a_first_column_that_counts_is_no_data(tmp_path: Path) -> None:
    table = read(tmp_path, "n,a\n1,5\n2,7\n3,6\n")
    assert table.names == ("a",)
    assert table.notes == ("n counts the rows, so it is not used",)
    assert read(tmp_path, "n,a\n1,5\n2,7\n4,6\n").names == ("n", "a")


def test_texts_that_repeat_name_no_rows(tmp_path: Path) -> None:
    table = read(tmp_path, "k,a\nu,5\nv,7\nu,6\n")
    assert list(table.row_names) == ["1", "2", "3"]
    assert table.named_by is None
    assert table.left_out == {"k": "'u'"}


def test_a_table_without_header_gets_names(tmp_path: Path) -> None:
    table = read(tmp_path, "1.5,2\n2.5,-3e2\n")
    assert not table.named
    assert table.names == ("x0", "x1")
    assert len(table.values) == 2
    years = read(tmp_path, "1990,1991\n2.5,-3e2\n", header=True)
    assert years.names == ("1990", "1991")
    assert len(years.values) == 1


def test_missing_cells_are_nan_and_an_empty_column_is_left_out(tmp_path: Path) -> None:
    table = read(tmp_path, "a,b,c\n1,,?\n 2 ,,3\nNA,,4\n", missing=("?",))
    np.testing.assert_array_equal(table.values, [[1, np.nan], [2, 3], [np.nan, 4]])
    assert table.left_out == {"b": "empty"}


def test_quoted_cells_hold_separators_and_line_ends(tmp_path: Path) -> None:
    table = read(tmp_path, 'a,text\n1,"one, two\nthree"\n2,"four ""five"""\n', kept=("text",))
    assert table.texts["text"] == ["one, two\nthree", 'four "five"']


def test_wanted_columns_come_in_the_wanted_order(tmp_path: Path) -> None:
    table = read(tmp_path, "a,b,c\n1,2,3\n4,5,6\n", only=("c", "a"))
    assert table.names == ("c", "a")
    np.testing.assert_array_equal(table.values, [[3, 1], [6, 4]])
    assert read(tmp_path, "a,b,c\n1,2,3\n4,5,6\n", dropped=("b",)).names == ("a", "c")


def test_columns_of_other_types_are_left_out(tmp_path: Path) -> None:
    frame = pd.DataFrame({"t": pd.to_datetime(["2020-01-01", "2020-01-01"]), "f": [True, False], "a": [1, 2]})
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert table.names == ("a",)
    assert set(table.left_out) == {"t", "f"}


@pytest.mark.parametrize("sign", ["\t", " ", ",", ";"])
@pytest.mark.parametrize("first", ["1", "ALL_1"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_rs_names_of_rows_have_no_name(sign: str, first: str, encoding: str, tmp_path: Path) -> None:
    # What write.table(x, "file") of R makes: the header is one cell short.
    path = tmp_path / "r.txt"
    path.write_text(
        "\n".join(sign.join(row) for row in (['"g1"', '"g2"'], [f'"{first}"', "1.5", "2"], ['"2"', "3", "4"]))
    )
    table = read_table(path)
    assert table.names == ("g1", "g2")
    assert table.values.tolist() == [[1.5, 2], [3, 4]]
    assert list(table.row_names) == [first, "2"]


def test_names_do_nothing_to_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "escape.csv"
    path.write_text('"\x1b[2Ja","größe","c\u200cd","\u202ee"\n1,2,3,4\n4,5,6,8\n', encoding="utf-8")
    assert read_table(path).names == ("\ufffd[2Ja", "größe", "c\u200cd", "\ufffde")


def test_rs_table_of_many_genes(tmp_path: Path) -> None:
    # Red if the first row of data, longer than what is looked at first, is not seen.
    path, genes = tmp_path / "genes.tsv", [f"gene_number_{j}" for j in range(30_000)]
    rows = [f"s{i}\t" + "\t".join(f"{i + 0.125}" for _ in genes) for i in range(3)]
    path.write_text("\n".join(["\t".join(genes), *rows]))
    table = read_table(path)
    assert table.names == tuple(genes)
    assert list(table.row_names) == ["s0", "s1", "s2"]


@pytest.mark.parametrize(
    "content",
    [
        "a,b\ns,2,3\nt,5,6\nu,8\n",
        "a,b\n1,2,3\n4,5,6\n",  # numbers that are not quoted are no names
        "a,b,c\n1,2,3,\n4,5,6,\n",  # a separator at the end of rows
        "a,b\ns,2,\nt,5,\n",
        "a,b\ns,2,3\ns,5,6\n",  # names of rows differ
    ],
)
def test_rows_that_are_too_long_are_no_table_of_r(content: str, tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"has a row of \d cells where there are \d columns"):
        read_table(path)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"\n\n \n", "is empty"),
        (b"a,b,c\n", "has names of columns but no rows"),
        (b"a,b,c\n1,2,3\n4,5\n", "has a row of 2 cells where there are 3 columns: '4,5'"),
        (b"a,b\n1,2\n4,5,6\n", "has a row of 3 cells where there are 2 columns: '4,5,6'"),
        (b"a,b,a\n1,2,3\n", "has two columns called 'a' (1 and 3): rename one of them"),
        ("na\u00efve,b\n1,2\n".encode("latin-1"), "is not encoded in UTF-8: save it as UTF-8, or name its encoding"),
        (b"a,b\n" + b"1,2\n" * 200_000 + "\u00e9,2\n".encode("latin-1"), "is not encoded in UTF-8"),
        (bytes(range(256)), "is no table of text"),
    ],
)
def test_a_bad_text_is_one_sentence(content: bytes, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError) as caught:
        read_table(path)
    assert str(caught.value).startswith(f"{path} {sentence}")


@pytest.mark.parametrize("ending", ["parquet", "feather", "xlsx", "npy", "h5ad"])
def test_a_file_that_is_not_what_its_name_says(ending: str, tmp_path: Path) -> None:
    if ending == "h5ad":
        package("anndata")
    path = tmp_path / f"bad.{ending}"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=f"is (not an array|no {ending} file, or it is damaged)"):
        read_table(path)


def test_what_is_no_matrix_of_numbers_is_refused(tmp_path: Path) -> None:
    for array in (np.arange(3.0), np.array([["a"]]), np.zeros((0, 3))):
        np.save(tmp_path / "bad.npy", array)
        with pytest.raises(ValueError, match=r"holds .* of shape|has no rows"):
            read_table(tmp_path / "bad.npy")
    np.save(tmp_path / "object.npy", np.array([[{}]]), allow_pickle=True)
    with pytest.raises(ValueError, match="is not an array of numbers"):
        read_table(tmp_path / "object.npy")


def test_columns_that_are_not_there_are_named_with_their_neighbors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no column 'alcohl': did you mean 'alcohol'"):
        read(tmp_path, "alcohol,b\n1,2\n", kept=("alcohl",))
    with pytest.raises(ValueError, match="has no column 'zzz': it has alcohol, b"):
        read(tmp_path, "alcohol,b\n1,2\n", dropped=("zzz",))
    with pytest.raises(ValueError, match="lacks 2 of 3 columns: c, d"):
        read(tmp_path, "alcohol,b\n1,2\n", only=("b", "c", "d"))
    with pytest.raises(ValueError, match="encoding 'klingon' is not known"):
        read(tmp_path, "alcohol,b\n1,2\n", encoding="klingon")


def test_a_folder_and_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is a folder"):
        read_table(tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_table(tmp_path / "nothing.csv")
    (tmp_path / "old.xls").write_bytes(b"x")
    with pytest.raises(ValueError, match="save it as xlsx or csv"):
        read_table(tmp_path / "old.xls")


def test_standard_input_is_read_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pipe(io.RawIOBase):
        """Gives a few bytes at a time, as a slow program does."""

        def __init__(self, content: bytes) -> None:
            self._rest = content

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            piece, self._rest = self._rest[: min(7, len(buffer))], self._rest[min(7, len(buffer)) :]
            buffer[: len(piece)] = piece
            return len(piece)

    class Input:
        buffer = Pipe(NUMBERS.to_csv(index=False, sep="\t").encode())

    monkeypatch.setattr("sys.stdin", Input)
    table = read_table("-")
    np.testing.assert_array_equal(table.values, EXPECTED)
    assert table.source == "standard input"


def table_of(values: Any, names: tuple[str, ...] = ("a", "b")) -> Table:
    return Table("t.csv", names, np.array(values, dtype=float), RowNumbers(len(values)), {"k": list("uvwx")})


def test_missing_values_are_counted_or_dropped() -> None:
    table = table_of([[1, 2], [np.nan, 3], [np.nan, np.nan], [4, 5]])
    with pytest.raises(ValueError, match=r"missing values in 2 of 4 rows: a \(2\), b \(1\); .* --drop-missing"):
        table.complete(drop=False)
    dropped = table.complete(drop=True)
    np.testing.assert_array_equal(dropped.values, [[1, 2], [4, 5]])
    assert list(dropped.row_names) == ["1", "4"]
    assert dropped.texts == {"k": ["u", "x"]}
    assert dropped.notes == ("left out 2 of 4 rows with missing values",)


def test_infinite_values_are_told_from_missing_ones() -> None:
    with pytest.raises(ValueError, match=r"infinite values in 1 of 4 rows: b \(1\)"):
        table_of([[1, 2], [1, np.inf], [2, 3], [4, 5]]).complete(drop=False)
    with pytest.raises(ValueError, match="--drop-missing leaves none"):
        table_of([[1, np.nan]] * 4).complete(drop=True)


def test_constant_columns_are_left_out() -> None:
    table = table_of([[1, 2], [1, 3], [1, 3], [1, 5]]).with_numbers()
    assert table.names == ("b",)
    assert table.left_out == {"a": "constant"}
    with pytest.raises(ValueError, match="no numeric column varies"):
        table_of([[1, 2]] * 4).with_numbers()
    with pytest.raises(ValueError, match="has no numeric column"):
        table_of(np.empty((4, 0)), ()).with_numbers()


def test_the_index_of_pandas_is_no_column(tmp_path: Path) -> None:
    NUMBERS.drop(columns="id").iloc[[1, 2, 5]].to_parquet(tmp_path / "a.parquet")  # pandas puts its index last
    table = read_table(tmp_path / "a.parquet")
    assert table.names == ("a", "b") and table.named_by == "__index_level_0__"
    assert list(table.row_names) == ["1", "2", "5"]


def test_columns_of_lists_and_records_are_left_out(tmp_path: Path) -> None:
    NUMBERS.assign(many=[[1, 2]] * 6, record=[{"k": i} for i in range(6)]).to_parquet(tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet")
    assert table.names == ("a", "b")
    assert table.left_out["many"] == "'[1, 2]'"


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: data[:60] + b"?" * 40 + data[100:]]
)
def test_a_damaged_archive_is_one_sentence(damage: Any, tmp_path: Path) -> None:
    rows = "a,b\n" + "".join(f"{i / 7},{i * i / 3}\n" for i in range(200))
    (tmp_path / "a.csv.gz").write_bytes(damage(gzip.compress(rows.encode())))
    with pytest.raises(ValueError, match="is damaged: it cannot be unpacked to its end"):
        read_table(tmp_path / "a.csv.gz")


def test_names_longer_than_what_is_looked_at_first(tmp_path: Path) -> None:
    names = [f"gene {j:030}" for j in range(10_000)]
    rows = np.arange(30_000.0).reshape(3, -1) ** 1.5
    text = "\n".join([",".join(names), *(",".join(map(str, row)) for row in rows.tolist())])
    (tmp_path / "a.csv").write_text(text)
    assert len(",".join(names)) > text_module._HEAD
    table = read_table(tmp_path / "a.csv")
    assert table.names == tuple(names) and np.array_equal(table.values, rows)


def test_a_cell_longer_than_the_limit_of_csv(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    (tmp_path / "a.csv").write_text(f"a,text\n1,{'z' * (limit + 1)}\n2,b\n")
    assert read_table(tmp_path / "a.csv", Reading(kept=("text",))).texts["text"][1] == "b"
    assert csv.field_size_limit() == limit
