"""Completion of rows with gaps for the default start: what it keeps, what it fills in, and what it is good for."""

from __future__ import annotations

import numpy as np
import pytest
from missing import with_missing
from numpy.testing import assert_allclose
from sources import table
from strategies import Matrix

from blockmix.rows import ArrayRows
from blockmix.starts.default import by_neighbors, by_regression, completed

WAYS = pytest.mark.parametrize("fill", [by_neighbors, by_regression])


def standard(rows: ArrayRows) -> Matrix:
    return np.asarray((rows.X - rows.location) / rows.scale)


@WAYS
def test_values_stay_and_gaps_are_filled_nearer_to_the_truth_than_by_means(fill: object) -> None:
    X = table(400)
    rows = ArrayRows.standardized(with_missing(X, 0.2, np.random.default_rng(0)))
    found, gaps = fill(rows), np.isnan(rows.X)  # type: ignore[operator]
    assert np.array_equal(found[~gaps], standard(rows)[~gaps])
    truth = ((X - rows.location) / rows.scale)[gaps]
    assert ((found[gaps] - truth) ** 2).mean() < 0.9 * (truth**2).mean()


@WAYS
def test_a_row_without_values_has_the_means_and_rows_of_weight_0_decide_nothing(fill: object) -> None:
    X = with_missing(table(150), 0.2, np.random.default_rng(0))
    X[3] = np.nan
    a = fill(ArrayRows.standardized(X))  # type: ignore[operator]
    assert_allclose(a[3], 0, atol=0.1)
    others = np.append(X, X[:50] + 3, axis=0)
    b = fill(ArrayRows.standardized(others, np.repeat([1.0, 0.0], [150, 50])))  # type: ignore[operator]
    assert_allclose(b[:150], a, atol=1e-9)


@WAYS
def test_a_row_of_weight_2_is_a_repeated_row(fill: object) -> None:
    X, weights = with_missing(table(120), 0.2, np.random.default_rng(0)), 1 + np.arange(120) % 3
    a = fill(ArrayRows.standardized(X, weights))  # type: ignore[operator]
    b = fill(ArrayRows.standardized(np.repeat(X, weights, axis=0)))  # type: ignore[operator]
    assert_allclose(np.repeat(a, weights, axis=0), b, atol=1e-9)


def test_the_neighbors_of_a_row_are_those_near_in_the_columns_that_both_have() -> None:
    X = np.repeat([[0.0, 0.0, 1.0], [9.0, 9.0, 5.0]], 10, axis=0)
    X[:, :2] += np.random.default_rng(0).standard_normal((20, 2))
    X[0, 2] = X[10, 2] = X[11, 0] = np.nan
    rows = ArrayRows.standardized(X)
    found = by_neighbors(rows) * rows.scale + rows.location
    assert_allclose(found[[0, 10], 2], [1, 5])


def test_complete_rows_are_one_table_and_many_columns_are_not_regressed() -> None:
    X = table(60)
    rows = ArrayRows.standardized(X)
    (found,) = completed(rows)
    assert np.array_equal(found, standard(rows))
    wide = np.random.default_rng(0).standard_normal((40, 70))
    wide[0, 0] = np.nan
    assert len(completed(ArrayRows.standardized(wide))) == 1
