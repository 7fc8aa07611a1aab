"""Rows in memory: the same in any chunks and on any threads, and standardized by their weighted moments."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import Matrix, rescaled, seeds

from blockmix.rows import ArrayRows, Chunk
from blockmix.rows import rows as chunks_module


@contextmanager
def chunks_of(numbers: int) -> Iterator[None]:
    """Chunks of about this many numbers; never of fewer than 64 rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks_module, "_CHUNK_NUMBERS", numbers)
        yield


def table(seed: int, n_rows: int, p: int) -> tuple[Matrix, Matrix]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, p)) * rescaled(rng, p) + 10 * rng.standard_normal(p)
    return X, rng.integers(0, 4, n_rows) + np.eye(n_rows)[0]  # the first row counts


@given(seeds, st.integers(1, 700), st.integers(1, 5), st.integers(1, 1000), st.integers(1, 4))
def test_every_row_is_read_once_and_in_order(seed: int, n_rows: int, p: int, numbers: int, n_threads: int) -> None:
    X, weights = table(seed, n_rows, p)
    location, scale = np.arange(p), np.arange(1.0, p + 1)
    rows = ArrayRows(X, weights, location, scale, n_threads)
    with chunks_of(numbers):
        chunks = list(rows.map(lambda chunk: chunk))
    assert np.array_equal(np.concatenate([chunk.X for chunk in chunks]), X)
    assert_allclose(np.concatenate([chunk.values for chunk in chunks]), (X - location) / scale)
    assert np.array_equal(np.concatenate([chunk.weights for chunk in chunks]), weights)
    assert np.array_equal(np.concatenate([np.arange(n_rows)[chunk.place] for chunk in chunks]), np.arange(n_rows))
    sizes = [len(chunk.weights) for chunk in chunks]
    assert len(set(sizes[:-1])) <= 1 <= sizes[-1]


@given(seeds, st.integers(2, 700), st.integers(1, 4))
def test_a_sum_over_rows_depends_on_no_chunk_and_on_no_thread(seed: int, n_rows: int, n_threads: int) -> None:
    X, weights = table(seed, n_rows, 3)

    def total(numbers: int, threads: int) -> Matrix:
        rows = ArrayRows(X, weights, np.zeros(3), np.ones(3), threads)
        with chunks_of(numbers):
            return rows.map_sum(lambda chunk: chunk.weights @ chunk.values)

    # On threads the parts are added in the order of the rows: the very same sum.
    assert np.array_equal(total(200, n_threads), total(200, 1))
    assert_allclose(total(200, 1), X.T @ weights, rtol=1e-9, atol=1e-9 * np.abs(X).sum())


def test_several_threads_do_read() -> None:
    # Red if the pool is never used: all that is said of threads above would be empty.
    X = np.ones((1000, 2))
    together = threading.Barrier(2)
    rows = ArrayRows(X, X[:, 0], np.zeros(2), np.ones(2), n_threads=2)
    with chunks_of(1):
        list(rows.map(lambda chunk: together.wait(timeout=60)))


@given(seeds, st.integers(2, 300), st.integers(1, 4), st.sampled_from([np.float32, np.float64]))
def test_standardized_rows_have_mean_zero_and_variance_one(seed: int, n_rows: int, p: int, dtype: type) -> None:
    X, weights = table(seed, n_rows + 2, p)
    weights[:2] = 1  # two rows that count differ
    rows = ArrayRows.standardized(X.astype(dtype), weights.astype(dtype))
    values = (rows.X - rows.location) / rows.scale
    # Measured in double, whatever the type of the rows.
    assert_allclose(np.average(values, weights=weights, axis=0), 0, atol=1e-9)
    assert_allclose(np.average(values**2, weights=weights, axis=0), 1, atol=1e-9)
    assert rows.location.dtype == rows.scale.dtype == rows.weights.dtype == np.float64
    assert rows.dtype == rows.X.dtype == dtype
    assert rows.total_weight == weights.sum()


@given(seeds, st.integers(2, 100))
def test_a_weight_of_two_is_a_repeated_row(seed: int, n_rows: int) -> None:
    X, weights = table(seed, n_rows + 2, 3)
    weights[:2] = 1
    weighted = ArrayRows.standardized(X, weights)
    repeated = ArrayRows.standardized(np.repeat(X, weights.astype(int), axis=0))
    assert_allclose(weighted.location, repeated.location, rtol=1e-9)
    assert_allclose(weighted.scale, repeated.scale, rtol=1e-9)
    assert weighted.total_weight == repeated.total_weight == repeated.n_rows


@pytest.mark.parametrize("weight", [0.0, 1e-9])
@pytest.mark.parametrize("first", [True, False])
def test_a_far_row_of_no_weight_takes_no_digits(weight: float, first: bool) -> None:
    # Red if the variance comes from sums about the first row, whatever its weight: their difference has no digits left.
    X = np.concatenate([np.full((1, 2), 1e9), np.random.default_rng(0).standard_normal((50, 2))])
    weights = np.r_[weight, np.ones(50)]
    order = slice(None) if first else slice(None, None, -1)
    rows = ArrayRows.standardized(X[order], weights[order])
    mean = np.average(X, weights=weights, axis=0)
    variance = np.average((X - mean) ** 2, weights=weights, axis=0)
    assert_allclose(rows.location, mean, rtol=1e-9)
    assert_allclose(rows.scale, np.sqrt(variance), rtol=1e-6)


def test_what_a_function_raises_on_a_thread_is_raised() -> None:
    def refuse(chunk: Chunk) -> int:
        raise ValueError(f"not rows {chunk.place}")

    rows = ArrayRows(np.ones((500, 1)), np.ones(500), np.zeros(1), np.ones(1), n_threads=2)
    with chunks_of(1), pytest.raises(ValueError, match=r"^not rows slice\(0, 64, None\)$"):
        rows.map_sum(refuse)


def test_a_chunk_of_many_columns_has_at_least_64_rows() -> None:
    X = np.zeros((130, 20_000))
    rows = ArrayRows(X, X[:, 0], X[0], X[0] + 1)
    assert [chunk.place for chunk in rows.map(lambda chunk: chunk)] == [slice(0, 64), slice(64, 128), slice(128, 130)]
