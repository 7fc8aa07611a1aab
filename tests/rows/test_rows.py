"""Rows in memory: the same in any chunks and on any threads, standardized by their weighted moments; BLAS threads."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from missing import with_missing
from numpy.testing import assert_allclose
from scipy import sparse
from sources import as_npy, table
from strategies import Matrix, rescaled, seeds
from threadpoolctl import ThreadpoolController, threadpool_limits

from blockmix.rows import ArrayRows, Chunk, one_blas_thread, opened
from blockmix.rows import rows as chunks_module


@contextmanager
def chunks_of(numbers: int) -> Iterator[None]:
    """Chunks of about this many numbers; never of fewer than 64 rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks_module, "_CHUNK_NUMBERS", numbers)
        yield


def weighted(seed: int, n_rows: int, p: int) -> tuple[Matrix, Matrix]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, p)) * rescaled(rng, p) + 10 * rng.standard_normal(p)
    return X, rng.integers(0, 4, n_rows) + np.eye(n_rows)[0]  # the first row counts


@given(seeds, st.integers(1, 700), st.integers(1, 5), st.integers(1, 1000), st.integers(1, 4))
def test_every_row_is_read_once_and_in_order(seed: int, n_rows: int, p: int, numbers: int, n_threads: int) -> None:
    X, weights = weighted(seed, n_rows, p)
    location, scale = np.arange(p), np.arange(1.0, p + 1)
    with chunks_of(numbers):
        chunks = list(ArrayRows(X, weights, location, scale, n_threads).map(lambda chunk: chunk))
    assert np.array_equal(np.concatenate([chunk.X for chunk in chunks]), X)
    assert_allclose(np.concatenate([chunk.values for chunk in chunks]), (X - location) / scale)
    assert np.array_equal(np.concatenate([chunk.weights for chunk in chunks]), weights)
    assert np.array_equal(np.concatenate([np.arange(n_rows)[chunk.place] for chunk in chunks]), np.arange(n_rows))
    sizes = [len(chunk.weights) for chunk in chunks]
    assert len(set(sizes[:-1])) <= 1 <= sizes[-1]


@given(seeds, st.integers(2, 700), st.integers(1, 4))
def test_a_sum_over_rows_depends_on_no_chunk_and_on_no_thread(seed: int, n_rows: int, n_threads: int) -> None:
    X, weights = weighted(seed, n_rows, 3)
    with chunks_of(200):
        sums = [
            ArrayRows(X, weights, np.zeros(3), np.ones(3), threads).map_sum(lambda chunk: chunk.weights @ chunk.values)
            for threads in (1, n_threads)
        ]
    assert np.array_equal(*sums)  # the parts are added in the order of the rows: the very same sum
    assert_allclose(sums[0], X.T @ weights, rtol=1e-9, atol=1e-9 * np.abs(X).sum())


def test_several_threads_read_and_what_they_raise_is_raised() -> None:
    # Red if the pool is never used: all that is said of threads above would be empty.
    def refuse(chunk: Chunk) -> int:
        raise ValueError(f"not rows {chunk.place}")

    together = threading.Barrier(2)
    rows = ArrayRows(np.ones((1000, 2)), np.ones(1000), np.zeros(2), np.ones(2), n_threads=2)
    with chunks_of(1):
        list(rows.map(lambda chunk: together.wait(timeout=60)))
        with pytest.raises(ValueError, match=r"^not rows slice\(0, 64, None\)$"):
            rows.map_sum(refuse)


def test_a_chunk_of_many_columns_has_at_least_64_rows() -> None:
    X = np.zeros((130, 20_000))
    rows = ArrayRows(X, X[:, 0], X[0], X[0] + 1)
    assert [chunk.place for chunk in rows.map(lambda chunk: chunk)] == [slice(0, 64), slice(64, 128), slice(128, 130)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_chunks_are_row_major_and_writeable_however_the_rows_are_stored(dtype: type) -> None:
    # Red if compiled code had to be made again for each of these.
    X = table().astype(dtype)
    fixed = X.copy()
    fixed.flags.writeable = False
    strided = np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2]
    with chunks_of(1):
        for stored in (X, np.asfortranarray(X), fixed, strided, X[::-1].copy()[::-1]):
            chunks = list(ArrayRows.of(stored).map(lambda chunk: chunk.X))
            assert all(part.flags.c_contiguous and part.flags.writeable and part.dtype == dtype for part in chunks)
            assert np.array_equal(np.concatenate(chunks), X)
            assert (chunks[0].base is stored) == (stored is X)  # and only copied if need be


def test_a_chunk_is_standardized_in_double() -> None:
    # Red if float32 values are moved and scaled in their own precision: 1e7 + 1 has no digit left for the 1.
    X = np.array([[1e7 + 1], [1e7]], dtype=np.float32)
    chunk = Chunk(X, np.ones(2), slice(0, 2), np.array([1e7 + 0.25]), np.array([0.5]))
    assert chunk.values.dtype == np.float64
    assert chunk.values.tolist() == [[1.5], [-0.5]]


def test_other_values_are_counted_again_and_other_units_are_not() -> None:
    # Red if `replace` of X keeps the count of the old values, or if `Rows.replace` passes over all rows.
    X = with_missing(table(200), 0.2, np.random.default_rng(0))
    X[3] = np.nan
    rows = ArrayRows.standardized(X)
    assert rows.has_missing and rows.weights[3] == 0 and rows.total_weight == 199
    there = ~np.isnan(X)
    pairs = there.T.astype(int) @ there
    assert rows.pair_weight == pytest.approx(pairs[~np.eye(6, dtype=bool)].mean())
    assert rows.replace(scale=np.ones(6)).observed is rows.observed
    full = replace(rows, X=table(200), weights=np.ones(200))
    assert not full.has_missing and full.pair_weight == full.total_weight == 200
    assert not next(full.map(lambda chunk: chunk.has_missing))
    some = full.replace(scale=np.ones(6)).map(lambda chunk: chunk.take(np.array([1, 5])).X)
    assert np.array_equal(next(some), table(200)[[1, 5]])


# Standardized rows


@given(seeds, st.integers(2, 300), st.integers(1, 4), st.sampled_from([np.float32, np.float64]))
def test_standardized_rows_have_mean_zero_and_variance_one_and_weights_repeat_rows(
    seed: int, n_rows: int, p: int, dtype: type
) -> None:
    X, weights = weighted(seed, n_rows + 2, p)
    weights[:2] = 1  # two rows that count differ
    rows = ArrayRows.standardized(X.astype(dtype), weights.astype(dtype))
    values = (rows.X - rows.location) / rows.scale
    # Measured in double, whatever the type of the rows.
    assert_allclose(np.average(values, weights=weights, axis=0), 0, atol=1e-9)
    assert_allclose(np.average(values**2, weights=weights, axis=0), 1, atol=1e-9)
    assert rows.location.dtype == rows.scale.dtype == rows.weights.dtype == np.float64
    assert rows.dtype == rows.X.dtype == dtype
    repeated = ArrayRows.standardized(np.repeat(X.astype(dtype), weights.astype(int), axis=0))
    assert_allclose(rows.location, repeated.location, rtol=1e-9)
    assert_allclose(rows.scale, repeated.scale, rtol=1e-9)
    assert rows.total_weight == repeated.total_weight == repeated.n_rows


def test_standardizing_adds_up_over_chunks_where_a_chunk_does_not_count() -> None:
    X = table(300) + 1e6
    weights = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    weights[64:192] = 0  # whole chunks
    with chunks_of(1):
        rows = ArrayRows.standardized(X, weights)
    mean = np.average(X, weights=weights, axis=0)
    assert_allclose(rows.location, mean, rtol=1e-12)
    assert_allclose(rows.scale**2 * weights.sum(), weights @ (X - mean) ** 2, rtol=1e-8)


@pytest.mark.parametrize("weight", [0.0, 1e-9, 1.0])
@pytest.mark.parametrize("first", [True, False])
def test_an_outlier_costs_the_variance_no_digits(weight: float, first: bool) -> None:
    # Red if the variance comes from sums about the first row, whatever its weight: their difference has no digits left.
    X = np.random.default_rng(0).standard_normal((2001, 2)).astype(np.float32 if weight == 1 else float)
    X[0] = 1e9 if weight < 1 else 30
    weights = np.r_[weight, np.ones(2000)]
    order = slice(None) if first else slice(None, None, -1)
    rows = ArrayRows.standardized(X[order], weights[order])
    mean = np.average(X.astype(float), weights=weights, axis=0)
    assert_allclose(rows.location, mean, rtol=1e-9)
    assert_allclose(rows.scale, np.sqrt(np.average((X - mean) ** 2, weights=weights, axis=0)), rtol=1e-6)


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


def test_rows_in_memory_and_from_elsewhere_have_the_same_chunks(tmp_path: Path) -> None:
    # To the last bit, also of what is measured.
    X = table().astype(np.float32)
    with chunks_of(1):
        for given_X in (X, X.astype(float)):
            kinds = [ArrayRows.of(given_X), opened(sparse.csr_array(given_X)), opened(as_npy(given_X, tmp_path))]
            read = []
            for rows in [kind.measured() for kind in kinds]:
                assert rows.dtype == given_X.dtype
                assert_allclose(rows.scale, X.astype(float).std(axis=0), rtol=1e-12)
                read.append(list(rows.map(lambda chunk: (chunk.place, chunk.values.tobytes(), chunk.X.tobytes()))))
            assert read[0] == read[1] == read[2]


# Threads of BLAS


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in ThreadpoolController().info() if library["user_api"] == "blas"}


@pytest.fixture
def two_blas_threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """BLAS with two threads, so that one is a change even where the suite runs with one."""
    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:  # happens after other tests of the same process: a new one decides
            again = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", request.node.nodeid]
            subprocess.run(again, cwd=request.config.rootpath, check=True)
            pytest.skip("passed in a process of its own")
        yield


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_has_one_thread_inside_and_its_own_number_afterwards() -> None:
    with one_blas_thread():
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {2}
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), one_blas_thread():
            raise error
        assert blas_threads() == {2}


@pytest.mark.usefixtures("two_blas_threads")
def test_two_fits_that_overlap_leave_blas_as_it_was() -> None:
    # Red if each restores what it read: the second read one thread, and ends last.
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert blas_threads() == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == {2}
