"""Rows that cannot be read: the message names the file or chunk, the row and the column, and says what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sources import SOURCES, as_folder, as_npy, as_parquet, pieces_of, table
from strategies import Matrix

from blockmix import GaussianBiclustering
from blockmix.rows import Parquet


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blockmix.rows.rows._CHUNK_NUMBERS", 1)  # chunks of 64 rows


def with_value(value: float) -> Matrix:
    X = table()
    X[222, 3] = value
    return X


def raising(X: Matrix) -> Iterator[Matrix]:
    yield X[:100]
    raise OSError("the disk is gone")


def truncated(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-1000])
    return path


def overwritten(path: Path) -> Path:
    """Damaged where the rows lie, not where the file says what it holds."""
    damaged = bytearray(path.read_bytes())
    damaged[4:900] = bytes(896)
    path.write_bytes(damaged)
    return path


def other_columns(folder: Path) -> Path:
    as_parquet(table(), folder / "a.parquet")
    pd.DataFrame(table(), columns=list("uvwxyz")).to_parquet(folder / "b.parquet")
    return folder


def changing() -> Callable[[], Iterator[Matrix]]:
    lengths = iter([700, 700, 600, 600])
    return lambda: iter([table()[: next(lengths)]])


REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "infinity in a file": (
        lambda folder: as_npy(with_value(np.inf), folder),
        r"X\.npy, rows 192 to 255: row 222 has inf in column 3: fill it or leave the row out$",
    ),
    "infinity in a chunk": (
        lambda folder: pieces_of(with_value(np.inf)),
        r"^chunk 2 of X cannot be read \(ValueError: its row 22 has inf in column 3: fill it or leave the row out\)$",
    ),
    "other columns": (
        lambda folder: lambda: iter([table()[:100], table()[100:, 1:]]),
        r"^chunk 1 of X has shape \(600, 5\) instead of \(rows, 6\)",
    ),
    "a chunk that raises": (
        lambda folder: lambda: raising(table()),
        r"^chunk 1 of X cannot be read \(OSError: the disk is gone\)$",
    ),
    "a sparse chunk": (
        lambda folder: lambda: iter([csr_array(table())]),
        r"^chunk 0 of X cannot be read \(TypeError",
    ),
    "text": (
        lambda folder: lambda: iter([table(), np.full((3, 6), "a")]),
        r"^chunk 1 of X cannot be read \(ValueError",
    ),
    "no chunks": (lambda folder: lambda: iter([]), "^X returned no chunks: give a function"),
    "a vector": (lambda folder: lambda: iter([np.ones(3)]), r"^chunk 0 of X has shape \(3,\) and type float64: give"),
    "one row": (lambda folder: lambda: iter([table()[:1]]), "^X has 1 row: at least 2 are needed$"),
    "other rows in the second pass": (
        lambda folder: changing(),
        "^X had 700 rows at first and now has 600: leave it as it is during a fit$",
    ),
    "truncated file": (
        lambda folder: truncated(as_npy(table(), folder)),
        r"X\.npy ends before its array does: copy it again or save it again$",
    ),
    "a vector in a file": (lambda folder: as_npy(np.ones(5), folder), r"X\.npy holds an array of shape \(5,\): give a"),
    "text in a file": (
        lambda folder: as_npy(np.full((5, 2), "a"), folder),
        r"X\.npy holds values of type <U1: give numbers$",
    ),
    "no file of rows": (lambda folder: folder / "X.csv", r"X\.csv is not a file that rows are read from: give \.npy, "),
    "infinity in a row group": (
        lambda folder: as_parquet(with_value(np.inf), folder / "X.parquet"),
        r"X\.parquet, row group 1: row 222 has inf in column 3 \('hip'\): fill it or leave the row out$",
    ),
    "truncated parquet": (
        lambda folder: truncated(as_parquet(table(), folder / "X.parquet")),
        r"X\.parquet cannot be read \(ArrowInvalid: ",
    ),
    "overwritten row group": (
        lambda folder: overwritten(as_parquet(table(), folder / "X.parquet")),
        r"X\.parquet, row group 0 cannot be read \(",
    ),
    "a column of text": (
        lambda folder: as_parquet(table(), folder / "X.parquet", extra="city"),
        r"^column 'city' of .*X\.parquet holds (large_)?string: choose columns of numbers$",
    ),
    "a column that is not there": (
        lambda folder: Parquet(as_folder(table(), folder), ["age", "height"]),
        r"a\.parquet has no column 'height', it has age, rent, luck, hip, waist, income$",
    ),
    "other columns in the second file": (lambda folder: other_columns(folder), r"b\.parquet has no column 'age', it"),
    "one name": (
        lambda folder: Parquet(as_folder(table(), folder), "age"),
        "^columns='age' is one name: give a list of names$",
    ),
    "an empty folder": (lambda folder: folder, "holds no .parquet file$"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_named(case: str, tmp_path: Path) -> None:
    make, sentence = REFUSED[case]
    with pytest.raises(ValueError, match=sentence):
        GaussianBiclustering(3, 2, random_state=0).fit(make(tmp_path))


def test_a_file_that_is_missing_and_a_generator_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"X\.npy does not exist$"):
        GaussianBiclustering(2).fit(tmp_path / "X.npy")
    with pytest.raises(TypeError, match=r"^X can be read only once, and a fit reads it many times: give the function"):
        GaussianBiclustering(2).fit(pieces_of(table())())


def test_a_file_that_shrinks_during_a_fit_is_named(tmp_path: Path) -> None:
    path = as_npy(table(), tmp_path)

    def shrink(progress: object) -> None:
        truncated(path)

    with pytest.raises(ValueError, match=r"X\.npy, rows 640 to 699 cannot be read \(ValueError: the file ends"):
        GaussianBiclustering(2, 2, random_state=0).fit(path, callback=shrink)


@pytest.mark.parametrize(("kind", "count"), [("npy", 699), ("factory", 701)])
def test_as_many_weights_as_rows_are_needed(kind: str, count: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"^sample_weight has {count} numbers for "):
        GaussianBiclustering(2).fit(SOURCES[kind](table(), tmp_path), sample_weight=np.ones(count))


def test_labels_that_cannot_be_found_leave_the_file_as_it_was(tmp_path: Path) -> None:
    X = table()
    model = GaussianBiclustering(2, 2, random_state=0).fit(X)
    file = tmp_path / "labels.npy"
    before = model.predict(X, out=file).tobytes()
    with pytest.raises(ValueError, match=r"^chunk 1 of X cannot be read \(OSError: the disk is gone\)$"):
        model.predict(lambda: raising(X), out=file)
    assert np.load(file).tobytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["labels.npy"]
