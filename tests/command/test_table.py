"""Table: which columns are numbers, which name the rows, which are left out, and what can be fitted."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import read

from blockmix.command import formats
from blockmix.command.options import ReadingOptions
from blockmix.command.reading import read_table
from blockmix.command.table import Table, print_notes


def test_many_batches_are_one_table(tmp_path: Path) -> None:
    # Red if rows are lost or repeated between batches, which have 8 MB.
    X = np.random.default_rng(0).standard_normal((1000, 4))
    rows = [",".join(map(repr, row)) for row in X.tolist()]
    n = 300_000
    text = "\n".join(["name,a,b,c,d", *(f"row {i},{rows[i % 1000]}" for i in range(n))])
    table = read(tmp_path, text)
    np.testing.assert_array_equal(table.values, np.tile(X, (n // 1000, 1)))
    assert list(table.row_names) == [f"row {i}" for i in range(n)]


def test_a_typo_in_a_column_of_numbers_is_an_error_with_its_row(tmp_path: Path) -> None:
    remedy = "correct it, declare it missing with --missing 1.5x, or leave out the column with --drop a"
    with pytest.raises(ValueError, match=rf"has text in columns of numbers: a \('1.5x' in row 2\); {remedy}"):
        read(tmp_path, "a,b\n1,2\n1.5x,3\n4,1\n")  # a typo makes the cells differ, as names of rows do
    with pytest.raises(ValueError, match=r"a \('\?' in row 1\), b \('x y' in row 3\); .* --missing '\?', .* --drop a"):
        read(tmp_path, "a,b\n?,2\n5,3\n4,x y\n")
    assert read(tmp_path, "a,b\n1,2\n1.5x,3\n4,1\n", drop=["a"]).names == ("b",)
    assert np.isnan(read(tmp_path, "a,b\n1,2\n1.5x,3\n4,1\n", missing=["1.5x"]).values[1, 0])
    assert read(tmp_path, "a,b\n1,2\n1.5x,3\n4,1\n", only=("b",)).names == ("b",)


def test_a_column_of_numbers_and_as_many_texts_is_text(tmp_path: Path) -> None:
    table = read(tmp_path, "a,b\n1,2\nx,3\ny,1\n2,5\n")
    assert table.names == ("b",)
    assert table.left_out == {"a": "'x' in row 2"}


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "rownames"])
def test_an_index_names_the_rows(name: str, tmp_path: Path) -> None:
    table = read(tmp_path, f"{name},a,b\n7,1,2\n9,3,4\n8,5,6\n")
    assert table.names == ("a", "b")
    assert list(table.row_names) == ["7", "9", "8"]


def csv_of(**columns: Any) -> str:
    return "\n".join([",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))])


ROWS = np.random.default_rng(0).permutation(30)
SHUFFLED = ROWS * 7 + 3


@pytest.mark.parametrize(
    ("name", "values"),
    [("n", range(30)), ("n", range(1000, 1030)), ("n", SHUFFLED[SHUFFLED.argsort()] ** 2)]
    + [(name, SHUFFLED) for name in ("id", "Patient", "sample_id", "PassengerId", "customer no", "subject.nr")],
)
def test_ids_are_left_out_wherever_they_stand(name: str, values: Any, tmp_path: Path) -> None:
    a, b = np.sin(ROWS), np.cos(ROWS)
    for columns in ({name: values, "a": a, "b": b}, {"a": a, "b": b, name: values}):
        table = read(tmp_path, csv_of(**columns))
        assert table.names == ("a", "b")
        assert list(table.left_out) == [name]
        assert f"--keep {shlex.quote(name)} uses it" in table.left_out[name]
        assert read(tmp_path, csv_of(**columns), keep=[name]).names == tuple(columns)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("n", SHUFFLED),  # in no order
        ("id", SHUFFLED // 8),  # classes
        ("id", SHUFFLED + 0.5),  # measured
        ("width", SHUFFLED),  # ends with id
        ("n", [*range(29), 5]),
    ],
)
def test_whole_numbers_that_are_not_ids_stay(name: str, values: Any, tmp_path: Path) -> None:
    assert read(tmp_path, csv_of(a=np.sin(ROWS), **{name: values})).names == ("a", name)


def test_few_rows_may_ascend_by_chance(tmp_path: Path) -> None:
    assert read(tmp_path, "n,a\n1,5\n2,7\n4,6\n").names == ("n", "a")
    assert read(tmp_path, "a,n\n5,1\n7,2\n6,3\n").names == ("a", "n")
    assert read(tmp_path, "n,a\n1,5\n2,7\n3,6\n").names == ("a",)  # counts the rows


def test_a_column_to_keep_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no column 'idd': did you mean 'id'"):
        read(tmp_path, "id,a\n1,5\n2,7\n", keep=["idd"])


def test_an_index_that_repeats_is_left_out_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Red if the column vanishes without a word.
    text = ",a,b\n0,1.5,2\n0,3.5,4\n1,5,6\n"
    table = read(tmp_path, text)
    assert table.names == ("a", "b")
    print_notes(table)
    assert "left out: the first column, which has no name (it " in capsys.readouterr().err
    assert read(tmp_path, text, keep=[""]).names == ("", "a", "b")
    print_notes(read(tmp_path, ",a,b\n7,1,2\n9,3,4\n8,5,6\n"))
    assert "row names: the first column, which has no name" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["csv", "parquet", "npy"])
@pytest.mark.parametrize("large", [False, True])
def test_a_number_that_means_missing_is_compared_as_a_number(
    ending: str, large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "LARGE", 3 if large else 1000)
    values, file = np.array([[-99, 2.5], [3, -99], [4, 5.0]]), tmp_path / f"t.{ending}"
    frame = pd.DataFrame(values, columns=["x0", "x1"])
    if ending == "npy":
        np.save(file, values)
    else:
        getattr(frame, f"to_{ending}")(file, index=False)
    table = read_table(file, ReadingOptions(missing=["-99"]))
    np.testing.assert_array_equal(np.concatenate([*table.blocks()]), np.where(values == -99, np.nan, values))
    assert table.description.missing.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("code", "n_columns", "named"),
    [(-99, 1, True), (999, 1, True), (-9999, 2, True), (-1, 2, True), (-9, 2, True), (-1, 1, False), (-8, 2, False)],
)
def test_codes_of_missing_values_are_named(code: int, n_columns: int, named: bool) -> None:
    values = np.abs(np.random.default_rng(0).standard_normal((40, 3))) * 20
    values[3:6, :n_columns] = code
    names = ", ".join("abc"[:n_columns])
    expected = f"{code} may mean a missing value in {3 * n_columns} cells of {names}: give --missing {code} if it does"
    assert Table("t.csv", ("a", "b", "c"), values, range(40)).sentinels() == [expected] * named


def test_numbers_among_others_are_not_codes() -> None:
    rng = np.random.default_rng(0)
    for values in (rng.integers(-1, 2, (99, 3)), rng.integers(-20, 20, (99, 3)), rng.integers(900, 1100, (99, 3))):
        assert Table("t.csv", ("a", "b", "c"), values.astype(float), range(99)).sentinels() == []


def test_a_first_column_that_is_not_wanted_names_the_rows(tmp_path: Path) -> None:
    table = read(tmp_path, "n,a\n10,5\n30,7\n20,6\n", only=("a",))
    assert list(table.row_names) == ["10", "30", "20"]


def test_missing_cells_are_nan_and_an_empty_column_is_left_out(tmp_path: Path) -> None:
    table = read(tmp_path, "a,b,c\n1,,?\n +2 ,,3\nNA,,4\n", missing=["?"])
    np.testing.assert_array_equal(table.values, [[1, np.nan], [2, 3], [np.nan, 4]])
    assert table.left_out == {"b": "empty"}


def test_wanted_columns_have_the_wanted_order(tmp_path: Path) -> None:
    table = read(tmp_path, "a,b,c\n1,2,3\n4,5,6\n", only=("c", "a"))
    assert table.names == ("c", "a")
    np.testing.assert_array_equal(table.values, [[3, 1], [6, 4]])
    assert read(tmp_path, "a,b,c\n1,2,3\n4,5,6\n", drop=["b"]).names == ("a", "c")


def test_names_cannot_control_a_terminal(tmp_path: Path) -> None:
    names = '"\x1b[2Ja","größe","c\u200cd","\u202ee"'
    assert read(tmp_path, f"{names}\n1,2,3,4\n4,5,6,8\n").names == ("\ufffd[2Ja", "größe", "c\u200cd", "\ufffde")


def test_columns_that_do_not_exist_are_named_with_similar_ones(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no column 'alcohl': did you mean 'alcohol'"):
        read(tmp_path, "alcohol,b\n1,2\n", kept=("alcohl",))
    with pytest.raises(ValueError, match="has no column 'zzz': it has alcohol, b"):
        read(tmp_path, "alcohol,b\n1,2\n", drop=["zzz"])
    with pytest.raises(ValueError, match="lacks 2 of 3 columns: c, d"):
        read(tmp_path, "alcohol,b\n1,2\n", only=("b", "c", "d"))
    with pytest.raises(ValueError, match=r"lacks 2 of 2 columns: ALCOHOL \(did you mean 'alcohol'\?\), zzz$"):
        read(tmp_path, "alcohol,b\n1,2\n", kept=("ALCOHOL", "zzz"))


def test_columns_of_the_same_name(tmp_path: Path) -> None:
    text = "a,b,a,c,c\n1,2,3,4,5\n"
    with pytest.raises(ValueError, match=r"columns of the same name: a, c; rename .* --drop a$"):
        read(tmp_path, text)
    table = read(tmp_path, text, drop=["a", "c"])
    assert table.names == ("b",)
    assert table.values.tolist() == [[2]]


def table_of(values: Any, names: tuple[str, ...] = ("a", "b")) -> Table:
    return Table("t.csv", names, np.array(values, dtype=float), range(1, len(values) + 1), {"k": list("uvwx")})


def test_missing_values_are_counted_or_dropped() -> None:
    table = table_of([[1, 2], [np.nan, 3], [np.nan, np.nan], [4, 5]])
    with pytest.raises(ValueError, match=r"missing values in 2 of 4 rows: a \(2\), b \(1\); .* --drop-missing"):
        table.complete(drop=False)
    dropped = table.complete(drop=True)
    np.testing.assert_array_equal(dropped.values, [[1, 2], [4, 5]])
    assert list(dropped.row_names) == [1, 4]
    assert dropped.texts == {"k": ["u", "x"]}
    assert dropped.notes == ("left out 2 of 4 rows with missing values",)


def test_infinite_values_are_not_called_missing() -> None:
    with pytest.raises(ValueError, match=r"infinite values in 1 of 4 rows: b \(1\)"):
        table_of([[1, 2], [1, np.inf], [2, 3], [4, 5]]).complete(drop=False)
    # Missing values that may stay are not counted.
    with pytest.raises(ValueError, match=r"infinite values in 1 of 4 rows: b \(1\);"):
        table_of([[1, 2], [1, np.inf], [np.nan, 3], [4, np.nan]]).complete(drop=False, missing=True)
    with pytest.raises(ValueError, match="--drop-missing leaves none"):
        table_of([[1, np.nan]] * 4).complete(drop=True)


def test_the_columns_of_largest_variance_stay_in_their_order() -> None:
    values = np.array([[0, 0, 0, 1e100], [1, 5, 2, -1e100], [2, -5, 4, 0.0]])
    table = Table("t.csv", ("a", "b", "c", "d"), values, range(3))
    kept = table.most_varying(3)
    assert kept.names == ("b", "c", "d")
    np.testing.assert_array_equal(kept.values, values[:, 1:])
    assert kept.notes == ("kept the 3 of 4 columns with the largest variance",)
    assert table.most_varying(4) is table


def test_constant_columns_are_left_out() -> None:
    table = table_of([[1, 2], [1, 3], [1, 3], [1, 5]]).varying()
    assert table.names == ("b",)
    assert table.left_out == {"a": "constant"}
    with pytest.raises(ValueError, match="no numeric column that varies"):
        table_of([[1, 2]] * 4).varying()
    with pytest.raises(ValueError, match="has no numeric column"):
        table_of(np.empty((4, 0)), ()).varying()
    with pytest.raises(ValueError, match="has only one row"):
        table_of([[1, 2]]).varying()
