"""Chunks: their sums depend on the number of chunks alone, their spread adds up, and compiled code can read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sources import as_npy, table

from blockmix.rows import ArrayRows, Chunk, Rows, opened
from blockmix.rows.measured import Spread, total


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blockmix.rows.rows._CHUNK_NUMBERS", 1)  # chunks of 64 rows


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
    assert (spread.observed.n_rows, spread.observed.weight) == (300, weights.sum())


def test_rows_in_memory_and_from_a_file_have_the_same_chunks(tmp_path: Path) -> None:
    X = table()

    def chunks(rows: Rows) -> list[Any]:
        return list(rows.measured().map(lambda chunk: (chunk.place, chunk.values.tobytes(), chunk.weights.tobytes())))

    assert chunks(opened(as_npy(X, tmp_path))) == chunks(ArrayRows.of(X)) == chunks(opened(sparse.csr_array(X)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_column_constant_where_it_counts_has_scale_zero_exactly(dtype: type) -> None:
    X = np.random.default_rng(0).standard_normal((1000, 3)).astype(dtype)
    X[:, 1] = 0.1
    X[0, 1] = 1e9  # red if this row is what the others are measured from
    weights = np.random.default_rng(1).uniform(0.5, 2, 1000).astype(dtype)
    weights[0] = 0
    scale = ArrayRows.standardized(X, weights).scale
    assert scale[1] == 0
    assert (scale[[0, 2]] > 0.5).all()


def test_a_first_row_far_out_costs_no_digits() -> None:
    X = np.random.default_rng(0).standard_normal((2000, 1)).astype(np.float32)
    X[0] = 30.0  # deviations: seen from there float32 would lose three digits of a variance
    assert_allclose(ArrayRows.standardized(X).scale, X.astype(float).std(axis=0), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_chunks_are_row_major_and_writeable_however_the_rows_are_stored(dtype: type) -> None:
    # Red if compiled code had to be made again for each of these.
    X = table().astype(dtype)
    fixed = X.copy()
    fixed.flags.writeable = False
    gaps = np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2]
    expected = [chunk.X.copy() for chunk in ArrayRows.of(X).map(lambda chunk: chunk)]
    for other in (np.asfortranarray(X), fixed, gaps, X[::-1].copy()[::-1]):
        for chunk, plain in zip(ArrayRows.of(other).map(lambda chunk: chunk), expected, strict=True):
            assert chunk.X.flags.c_contiguous and chunk.X.flags.writeable
            assert chunk.X.dtype == dtype
            assert np.array_equal(chunk.X, plain)
    assert next(ArrayRows.of(X).map(lambda chunk: chunk)).X.base is X  # and is not copied


def test_a_chunk_is_standardized_in_double() -> None:
    # Red if float32 values are moved and scaled in their own precision: 1e7 + 1 has no digit left for the 1.
    X = np.array([[1e7 + 1], [1e7]], dtype=np.float32)
    chunk = Chunk(X, np.ones(2), slice(0, 2), np.array([1e7 + 0.25]), np.array([0.5]))
    assert chunk.values.dtype == np.float64
    assert chunk.values.tolist() == [[1.5], [-0.5]]


def test_rows_know_the_type_of_their_values_and_measure_them_in_double(tmp_path: Path) -> None:
    X = table().astype(np.float32)
    for rows in (ArrayRows.of(X), opened(sparse.csr_array(X)), opened(as_npy(X, tmp_path)), opened(lambda: iter([X]))):
        measured = rows.measured()
        assert measured.dtype == np.float32
        assert measured.location.dtype == measured.scale.dtype == np.float64
        assert {chunk.X.dtype for chunk in measured.map(lambda chunk: chunk)} == {np.dtype(np.float32)}
        assert_allclose(measured.location, X.astype(float).mean(axis=0), rtol=1e-12)
        assert_allclose(measured.scale, X.astype(float).std(axis=0), rtol=1e-12)
