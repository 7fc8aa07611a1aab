"""Resolution: the interval of a repeated value against a literal count of its neighbours."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from strategies import Matrix, seeds

from blockmix.rows import ArrayRows
from blockmix.rows.resolution import EXACT, Resolution


def literal_width(column: list[float], value: float) -> float:
    """Distance to the k-th value below or above, whichever is nearer, or to the outermost one where there are fewer."""
    k = column.count(value)
    below = sorted((x for x in column if x < value), reverse=True)
    above = sorted(x for x in column if x > value)
    gaps = [abs(side[min(k, len(side)) - 1] - value) for side in (below, above) if side]
    return min(gaps)


def variances_of(found: Resolution, j: int) -> dict[float, float]:
    """Variance by value of a column."""
    at = found.columns.tolist()
    if j not in at:
        return {}
    own = slice(*found.first[at.index(j) : at.index(j) + 2])
    return dict(zip(found.values[own].tolist(), found.variances[own].tolist(), strict=True))


@given(seeds, st.integers(2, 60), st.integers(1, 8))
def test_a_repeated_value_is_known_to_within_its_neighbours(seed: int, n_rows: int, largest: int) -> None:
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, largest + 1, n_rows) ** 2 / 4, rng.standard_normal(n_rows)])
    weights = rng.integers(0, 3, n_rows).astype(float)
    weights[0] = 1
    found = Resolution.of(X, weights)
    for j in range(2):
        column = np.repeat(X[:, j], weights.astype(int)).tolist()
        repeated = sorted({x for x in column if column.count(x) > 1}) if len(set(column)) > 1 else []
        expected = {x: literal_width(column, x) ** 2 / 12 for x in repeated}
        assert variances_of(found, j) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("column", "value", "width"),
    [
        (np.arange(400) % 20 / 10, 0.5, 0.1),  # steps of 0.1
        (np.arange(100) % 2, 1.0, 1.0),  # a 0/1 column
        (np.r_[np.zeros(50), np.linspace(1, 2, 50)], 0.0, 2.0),  # half are zeros
    ],
)
def test_steps_switches_and_zeros_have_the_widths_that_are_promised(column: Matrix, value: float, width: float) -> None:
    found = Resolution.of(column[:, None].astype(float), np.ones(len(column)))
    assert variances_of(found, 0)[value] == pytest.approx(width**2 / 12)


def test_rows_without_repeats_or_with_one_value_are_exact() -> None:
    X = np.column_stack([np.random.default_rng(0).standard_normal(50), np.full(50, 3.0)])
    found = Resolution.of(X, np.ones(50))
    assert len(found.columns) == 0
    assert EXACT.codes(X).shape == (50, 0)
    assert EXACT.table(np.ones(2)).shape == (0, 1)
    assert (ArrayRows.of(X).map(lambda chunk: chunk.rounding_variances).__next__() == 0).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_codes_find_the_variance_of_each_value_in_the_units_of_the_column(dtype: type) -> None:
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((200, 3)), 1).astype(dtype)
    X[:, 1] = rng.standard_normal(200)
    rows = ArrayRows.standardized(X).resolved(Resolution.of(X, np.ones(200)))
    assert rows.resolution.columns.tolist() == [0, 2]
    (found,) = rows.map(lambda chunk: chunk.rounding_variances)
    for j in range(3):
        known = variances_of(rows.resolution, j)
        expected = [known.get(float(x), 0.0) / rows.scale[j] ** 2 for x in X[:, j]]
        assert_allclose(found[:, j], expected, rtol=1e-12)
    assert (found[:, [0, 2]] > 0).sum() > 300
    # A value that was not seen has no variance of its own.
    assert_array_equal(rows.resolution.codes(np.full((1, 3), 0.12345)), 0)
