"""Sources: wherever the rows lie, the fit is the same; what cannot be read is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sources import (
    NAMES,
    SOURCES,
    as_folder,
    as_npy,
    as_parquet,
    assert_same_fit,
    every_source,
    pieces_of,
    table,
)
from strategies import Matrix

from blockmix import FactorBiclustering, GaussianBiclustering
from blockmix.rows import ArrayRows, Parquet, Rows, in_memory, opened
from blockmix.rows.chunks import Spread, total


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blockmix.rows.chunks._CHUNK_NUMBERS", 1)  # chunks of 64 rows


# The same rows, the same fit.


@every_source
@pytest.mark.parametrize(
    "setting", [{}, {"shared_covariance": True}, {"n_column_groups": 2, "init": "random", "n_init": 2}]
)
def test_a_fit_is_the_same_from_every_source(kind: str, setting: dict[str, Any], tmp_path: Path) -> None:
    X = table()
    expected = GaussianBiclustering(2, random_state=0, **setting).fit(X)
    assert_same_fit(GaussianBiclustering(2, random_state=0, **setting).fit(SOURCES[kind](X, tmp_path)), expected)


@every_source
@pytest.mark.filterwarnings("ignore::blockmix.GroupingWarning")
def test_the_factor_mixture_is_the_same_from_every_source(kind: str, tmp_path: Path) -> None:
    X = table()
    expected = FactorBiclustering(2, 2, random_state=0).fit(X)
    assert_same_fit(FactorBiclustering(2, 2, random_state=0).fit(SOURCES[kind](X, tmp_path)), expected)


@every_source
def test_predictions_and_scores_are_the_same_from_every_source(kind: str, tmp_path: Path) -> None:
    X, new = table(), table(333, seed=1)
    model = GaussianBiclustering(2, 2, random_state=0).fit(X)
    given = SOURCES[kind](new, tmp_path)
    counts = np.random.default_rng(0).integers(0, 3, len(new))
    assert np.array_equal(model.predict(given), model.predict(new))
    assert_allclose(model.predict_proba(given), model.predict_proba(new), atol=1e-12)
    assert_allclose(model.score_samples(given), model.score_samples(new), rtol=1e-12)
    assert model.score(given) == pytest.approx(model.score_samples(new).mean(), rel=1e-12)
    for name in ("bic", "aic", "icl"):
        criterion = getattr(model, name)
        assert criterion(given, sample_weight=counts) == pytest.approx(criterion(new, sample_weight=counts), rel=1e-12)


@every_source
def test_labels_are_written_to_a_file(kind: str, tmp_path: Path) -> None:
    X = table()
    model = GaussianBiclustering(2, 2, random_state=0).fit(X)
    expected, given, file = model.predict(X), SOURCES[kind](X, tmp_path), tmp_path / "labels.npy"
    found = model.predict(given, out=file)
    assert isinstance(found, np.memmap)
    assert np.array_equal(found, expected)
    assert np.array_equal(np.load(file), expected)
    assert np.load(file).dtype == np.int8
    assert model.fit(given).row_labels_.dtype == (np.intp if kind == "array" else np.int32)


def test_labels_that_cannot_be_found_leave_the_file_as_it_was(tmp_path: Path) -> None:
    X = table()
    model = GaussianBiclustering(2, 2, random_state=0).fit(X)
    file = tmp_path / "labels.npy"
    model.predict(X, out=file)
    before = file.read_bytes()
    with pytest.raises(ValueError, match=r"^chunk 1 of X cannot be read \(OSError: the disk is gone\)$"):
        model.predict(lambda: raising(X), out=file)
    assert file.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["labels.npy"]


@every_source
def test_weights_count_rows_in_every_source(kind: str, tmp_path: Path) -> None:
    X = table()
    weights = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    expected = GaussianBiclustering(2, 2, random_state=0).fit(X, sample_weight=weights)
    found = GaussianBiclustering(2, 2, random_state=0).fit(SOURCES[kind](X, tmp_path), sample_weight=weights)
    assert_same_fit(found, expected)
    assert (weights == 0).any()


@every_source
def test_float32_stays_float32_and_whole_numbers_become_float64(kind: str, tmp_path: Path) -> None:
    for dtype, expected in ((np.float32, np.float32), (np.int64, np.float64)):
        folder = tmp_path / np.dtype(dtype).name
        folder.mkdir()
        model = GaussianBiclustering(2, 2, random_state=0).fit(SOURCES[kind](table().astype(dtype), folder))
        assert model.means_.dtype == model.covariances_.dtype == expected
        assert model.score_samples(SOURCES[kind](table(), folder)).dtype == expected


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr"])
@pytest.mark.parametrize("container", [sparse.coo_array, sparse.coo_matrix])
def test_every_form_of_a_sparse_matrix_is_taken(form: str, container: Any) -> None:
    X = table(200)
    given = container(X).asformat(form)
    model = GaussianBiclustering(2, 2, random_state=0).fit(given)
    assert_same_fit(model, GaussianBiclustering(2, 2, random_state=0).fit(X))
    assert np.array_equal(model.predict(given), model.row_labels_)
    assert model.predict_proba(given).shape == (200, 2)


# More rows than the start takes.


@pytest.mark.parametrize(("kind", "init"), [("npy", "kmeans"), ("csr", "random"), ("factory", "portfolio")])
def test_a_start_from_a_sample_ends_where_the_start_from_all_rows_ends(
    kind: str, init: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blockmix.estimators.em_mixture._SAMPLE_ROWS", 250)
    X = table(1000)
    whole = GaussianBiclustering(2, 2, tol=1e-8, max_iter=1000, random_state=0).fit(X)
    found = GaussianBiclustering(2, 2, tol=1e-8, max_iter=1000, random_state=0, init=init)
    found.fit(SOURCES[kind](X, tmp_path))
    order = np.argsort(found.means_[:, 0])
    assert_allclose(found.means_[order], np.sort(whole.means_, axis=0), atol=1e-2)
    assert found.log_likelihood_ == pytest.approx(whole.log_likelihood_, rel=1e-6)
    assert (np.diff(found.log_likelihood_trace_) > -1e-6).all()


def test_the_sample_depends_on_the_seed_alone(tmp_path: Path) -> None:
    X = table()
    rows = [opened(SOURCES[kind](X, tmp_path)).measured() for kind in ("npy", "factory", "memmap")]
    drawn = [found.sample(50, np.random.RandomState(3)).X for found in rows]
    assert np.array_equal(drawn[0], drawn[1])
    assert np.array_equal(drawn[0], drawn[2])
    assert not np.array_equal(drawn[0], rows[0].sample(50, np.random.RandomState(4)).X)
    assert len({tuple(row) for row in drawn[0]} & {tuple(row) for row in X}) == 50


def test_every_row_that_counts_is_drawn_as_often() -> None:
    # Red if the sample takes the first rows, or rows of weight 0.
    X = np.arange(200.0)[:, None] * [1, -1]
    weights = (np.arange(200) % 4 > 0).astype(float)
    rows = in_memory(sparse.csr_array(X), weights).measured()
    drawn = np.concatenate([rows.sample(30, np.random.RandomState(seed)).X[:, 0] for seed in range(200)])
    counts = np.bincount(drawn.astype(int), minlength=200)
    assert (counts[::4] == 0).all()
    assert (np.abs(counts[weights > 0] - 40) < 5 * np.sqrt(40 * 0.8)).all()
    sample = rows.sample(30, np.random.RandomState(0))
    assert (np.diff(sample.X[:, 0]) > 0).all()
    assert (sample.weights == 1).all()
    assert len(rows.sample(160, np.random.RandomState(0)).X) == 150
    assert len(rows.sample(200, np.random.RandomState(0)).X) == 200


def test_a_given_start_is_taken_row_by_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blockmix.estimators.em_mixture._SAMPLE_ROWS", 100)
    X = table()
    labels = np.where(X[:, 0] > 1, "high", "low")
    z = np.random.default_rng(0).dirichlet([1, 1], len(X))
    for init in (labels, z):
        expected = GaussianBiclustering(2, 2, init=init).fit(X)
        assert_same_fit(GaussianBiclustering(2, 2, init=init).fit(as_npy(X, tmp_path)), expected)
    with pytest.raises(ValueError, match=r"^init has shape \(699,\): give labels of shape \(700,\) or "):
        GaussianBiclustering(2, 2, init=labels[1:]).fit(as_npy(X, tmp_path))


@pytest.mark.parametrize("change", [{}, {"n_column_groups": 3}])
def test_a_warm_start_reads_other_rows_from_anywhere(
    change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blockmix.estimators.em_mixture._SAMPLE_ROWS", 300)
    model = GaussianBiclustering(2, 2, warm_start=True, random_state=0).fit(table())
    model.set_params(**change).fit(as_npy(table(seed=5), tmp_path))
    assert model.starts_[0][0] == "warm"
    assert model.n_column_groups_.tolist() == [change.get("n_column_groups", 2)] * 2


# Names.


def test_names_of_columns_are_kept_and_compared(tmp_path: Path) -> None:
    X = table()
    frames = pieces_of(pd.DataFrame(X, columns=NAMES))
    model = GaussianBiclustering(2, 2, random_state=0).fit(frames)
    assert model.feature_names_in_.tolist() == NAMES
    assert np.array_equal(model.predict(pd.DataFrame(X, columns=NAMES)), model.predict(as_npy(X, tmp_path)))
    swapped = pieces_of(pd.DataFrame(X, columns=NAMES[::-1]))
    with pytest.raises(ValueError, match=r"^column 0 of X is 'income' and was 'age' in the fit: choose the same"):
        model.predict(swapped)
    with pytest.raises(ValueError, match=r"^X has 5 columns, but GaussianBiclustering was fitted to 6: "):
        model.predict(pieces_of(X[:, 1:]))
    assert not hasattr(model.fit(as_npy(X, tmp_path)), "feature_names_in_")


# What cannot be read.


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
    "nan in a file": (
        lambda folder: as_npy(with_value(np.nan), folder),
        r"X\.npy, rows 192 to 255: row 222 has nan in column 3: fill it or leave the row out$",
    ),
    "infinity in a mapping": (
        lambda folder: np.load(as_npy(with_value(np.inf), folder), mmap_mode="r"),
        r"X\.npy, rows 192 to 255: row 222 has inf in column 3: fill it",
    ),
    "nan in a chunk": (
        lambda folder: pieces_of(with_value(np.nan)),
        r"^chunk 2 of X cannot be read \(ValueError: its row 22 has nan in column 3: fill it or leave the row out\)$",
    ),
    "other columns": (
        lambda folder: lambda: iter([table()[:100], table()[100:, 1:]]),
        r"^chunk 1 of X has shape \(600, 5\) instead of \(rows, 6\)",
    ),
    "a chunk that raises": (
        lambda folder: lambda: raising(table()),
        r"^chunk 1 of X cannot be read \(OSError: the disk is gone\)$",
    ),
    "text": (
        lambda folder: lambda: iter([table(), np.full((3, 6), "a")]),
        r"^chunk 1 of X cannot be read \(ValueError",
    ),
    "no chunks": (lambda folder: lambda: iter([]), "^X returned no chunks: give a function"),
    "a vector": (lambda folder: lambda: iter([np.ones(3)]), r"^chunk 0 of X has shape \(3,\) and type float64: give"),
    "one row": (lambda folder: lambda: iter([table()[:1]]), "^X has 1 row: at least 2 are needed$"),
    "fewer rows than components": (
        lambda folder: lambda: iter([table()[:2]]),
        "^n_components=3 exceeds the n_samples=2 rows of X$",
    ),
    "other rows at the second look": (
        lambda folder: changing(),
        "^X had 700 rows at first and now has 600: leave it as it is during a fit$",
    ),
    "truncated file": (lambda folder: truncated(as_npy(table(), folder)), r"X\.npy cannot be read as a \.npy file"),
    "a vector in a file": (lambda folder: as_npy(np.ones(5), folder), r"X\.npy holds an array of shape \(5,\): give a"),
    "text in a file": (
        lambda folder: as_npy(np.full((5, 2), "a"), folder),
        r"X\.npy holds values of type <U1: give numbers$",
    ),
    "no file of rows": (lambda folder: folder / "X.csv", r"X\.csv is no file that rows are read from: give \.npy, "),
    "missing value in a row group": (
        lambda folder: as_parquet(with_value(np.nan), folder / "X.parquet"),
        r"X\.parquet, row group 1: row 222 has nan in column 3 \('hip'\): fill it or leave the row out$",
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
    "constant column": (
        lambda folder: as_npy(table() * (np.arange(6) != 2), folder),
        r"^column 2 \('x2'\) is constant",
    ),
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


@pytest.mark.parametrize("count", [699, 701])
@pytest.mark.parametrize("kind", ["npy", "factory"])
def test_as_many_weights_as_rows_are_needed(kind: str, count: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"^sample_weight has {count} numbers for "):
        GaussianBiclustering(2).fit(SOURCES[kind](table(), tmp_path), sample_weight=np.ones(count))


# Chunks and their sums.


def test_a_sum_in_pairs_keeps_the_order_and_depends_on_the_number_alone() -> None:
    class Nested:
        def __init__(self, text: str) -> None:
            self.text = text

        def __add__(self, other: Nested) -> Nested:
            return Nested(f"({self.text}{other.text})")

    assert [total(map(Nested, "abcdefg"[:n])).text for n in (1, 2, 3, 5, 7)] == [
        "a",
        "(ab)",
        "((ab)c)",
        "(((ab)(cd))e)",
        "(((ab)(cd))((ef)g))",
    ]


def test_the_spread_of_parts_adds_up_where_a_part_does_not_count() -> None:
    X = table(300) + 1e6
    weights = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    weights[64:192] = 0  # whole chunks
    spread = ArrayRows.of(X, weights).map_sum(Spread.of)
    mean = np.average(X, weights=weights, axis=0)
    assert_allclose(spread.mean, mean, rtol=1e-12)
    assert_allclose(spread.squares, weights @ (X - mean) ** 2, rtol=1e-8)
    assert (spread.n_rows, spread.weight) == (300, weights.sum())


def test_rows_in_memory_and_from_a_file_have_the_same_chunks(tmp_path: Path) -> None:
    X = table()

    def chunks(rows: Rows) -> list[Any]:
        return list(rows.measured().map(lambda chunk: (chunk.place, chunk.values.tobytes(), chunk.weights.tobytes())))

    assert chunks(opened(as_npy(X, tmp_path))) == chunks(in_memory(X)) == chunks(in_memory(sparse.csr_array(X)))
