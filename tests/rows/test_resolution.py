"""Resolution: widths of repeated values by their definition, codes, and the terms that both families take from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracles
import pytest
from blockmix.em.m_step import maximize
from hypothesis import given
from hypothesis import strategies as st
from mixtures import chunk_log_joint, labels_of, mixture, unpacked, values, within_blocks
from numpy.testing import assert_allclose, assert_array_equal
from strategies import Matrix, seeds

from blockmix.blocks.blocks import Parameters, Prior
from blockmix.em.sweep import full_scatter, sweep, sweep_shared
from blockmix.partition import Partition
from blockmix.rows import EXACT, ArrayRows, Resolution


def literal_widths(x: Matrix, counts: Any = None) -> dict[float, float]:
    """δ of each repeated value: the smaller distance to the k-th value below and above, or to the outermost.

    The smallest step for the other values, where fewer than half of the rows have one.
    """
    x = np.sort(np.repeat(x, np.ones(len(x), dtype=int) if counts is None else counts))
    found = {}
    distinct, counts = np.unique(x, return_counts=True)
    for value in distinct:
        below, above, k = x[x < value], x[x > value], int((x == value).sum())
        if k < 2 and len(x) > 1 and 2 * counts[counts > 1].sum() > len(x):
            found[float(value)] = float(np.diff(distinct).min())
        if k < 2 or k == len(x):
            continue
        widths = []
        if len(below):
            widths.append(value - below[-min(k, len(below))])
        if len(above):
            widths.append(above[min(k, len(above)) - 1] - value)
        found[float(value)] = float(min(widths))
    return found


def of(x: Any, weights: Any = None) -> dict[float, float]:
    """Widths that the package gives the values of one column."""
    x = np.asarray(x, dtype=float)
    found = Resolution.of(x[:, None], np.ones(len(x)) if weights is None else np.asarray(weights, dtype=float))
    return dict(zip(found.values.tolist(), np.sqrt(12 * found.variances).tolist(), strict=True))


def test_steps_of_a_tenth_have_a_width_of_a_tenth() -> None:
    x = np.round(np.random.default_rng(0).standard_normal(500), 1)
    found = of(x)
    middle = [value for value in found if abs(value) <= 1]
    assert len(middle) > 15
    # The counts of neighbours differ, so some need two steps; none of the frequent values more.
    assert min(found.values()) == pytest.approx(0.1) and max(found[value] for value in middle) < 0.21


def test_a_binary_column_has_a_width_of_one() -> None:
    assert of([0, 0, 0, 1, 1]) == pytest.approx({0: 1, 1: 1})
    assert of([0] * 99 + [1] * 2) == pytest.approx({0: 1, 1: 1})
    assert of([0] * 99 + [1]) == pytest.approx({0: 1, 1: 1})


def test_a_value_that_occurs_once_is_exact_unless_the_column_is_recorded_in_steps() -> None:
    assert of([0, 0, 0, 0.5, 1, 3]) == pytest.approx({0: 3})
    assert of([0, 0, 0, 0, 0.5, 1, 3]) == pytest.approx({0: 3, 0.5: 0.5, 1: 0.5, 3: 0.5})


def test_zeros_of_half_the_rows_have_the_spread_of_the_other_half() -> None:
    rest = np.random.default_rng(0).gamma(2, size=50)
    assert of(np.concatenate([np.zeros(50), rest])) == pytest.approx({0: rest.max()})
    assert of(np.concatenate([np.zeros(20), rest])) == pytest.approx({0: np.sort(rest)[19]})


def test_a_column_of_one_value_has_no_width() -> None:
    assert of([3, 3, 3]) == {}


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=40), st.data())
def test_widths_are_those_of_the_definition_also_with_weights(x: list[int], data: st.DataObject) -> None:
    # Weight 2 is a row twice, weight 0 none. Red if the k-th value is counted among distinct values.
    counts = data.draw(st.lists(st.integers(0, 3), min_size=len(x), max_size=len(x)))
    counts[0] = max(counts[0], 1)
    assert of(x) == pytest.approx(literal_widths(np.array(x, dtype=float)))
    assert of(x, counts) == pytest.approx(literal_widths(np.array(x, dtype=float), counts))
    assert of(x, counts) == pytest.approx(of(np.repeat(x, counts)))


@given(seeds)
def test_permuting_rows_changes_nothing_and_scaling_values_scales_widths(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, factor = rng.poisson(2, 60).astype(float), 10.0 ** rng.uniform(-3, 3)
    assert of(rng.permutation(x)) == of(x)
    assert of(-x) == pytest.approx({-value: width for value, width in of(x).items()})
    scaled = of(x * factor)
    assert list(scaled.values()) == pytest.approx([width * factor for width in of(x).values()])


def test_continuous_columns_have_no_resolution() -> None:
    X = np.random.default_rng(0).standard_normal((300, 4))
    found = Resolution.of(X, np.ones(300))
    assert len(found.columns) == len(found.values) == 0
    assert_array_equal(found.first, [0])
    assert found.codes(X).shape == (300, 0) and found.table(np.ones(4)).shape == (0, 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_codes_and_table_give_each_value_its_variance(dtype: Any) -> None:
    # Columns 1 and 3 of five are discrete, with different numbers of values. Red if codes of a column are another's.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    X[:, 1], X[:, 3] = np.round(X[:, 1], 1), rng.integers(0, 2, 200)
    X = X.astype(dtype)
    found, scale = Resolution.of(X, np.ones(200)), np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert found.columns.tolist() == [1, 3]
    codes, table = found.codes(X), found.table(scale)
    for d, j in enumerate([1, 3]):
        widths = literal_widths(X[:, j].astype(float))
        expected = [widths.get(float(x), 0.0) ** 2 / 12 / scale[j] ** 2 for x in X[:, j]]
        assert_allclose(table[d, codes[:, d]], expected, rtol=1e-12)
    assert (table[:, 0] == 0).all()
    new = np.full((3, 5), [[0.12345], [77.0], [np.inf]])
    assert_array_equal(found.codes(new), np.zeros((3, 2)))  # a value that was not seen is exact


def test_every_fifth_of_ten_thousand_rows_is_looked_at() -> None:
    # Evenly over the rows: data sorted by a column are sampled as others are. Rows of weight 0 do not count.
    x = np.sort(np.random.default_rng(0).integers(0, 50, 10_000)).astype(float)
    assert of(x) == pytest.approx(literal_widths(x[::5]))
    assert of(np.repeat(x, 2), np.tile([0, 1], 10_000)) == pytest.approx(literal_widths(x[::5]))


# The terms of the mixtures


def discrete(seed: int, n_rows: int, groups: list[Partition], shared: bool, dtype: Any) -> tuple[ArrayRows, Parameters]:
    """A random mixture on rows of which two columns are rounded, with their resolution."""
    rng = np.random.default_rng(seed)
    rows, parameters = mixture(rng, n_rows, groups, shared, dtype)
    X = rows.X.copy()
    X[:, 0], X[:, 2] = np.round(X[:, 0]), np.round(X[:, 2], 1)
    rows = ArrayRows(X, rows.weights, rows.location, rows.scale)
    return rows.replace(resolution=Resolution.of(X, rows.weights)), parameters


def roundings(rows: ArrayRows) -> Matrix:
    """Δ = δ²/12 of every standardized value, by the definition."""
    found = np.zeros(rows.X.shape)
    for j in range(rows.n_columns):
        widths = literal_widths(rows.X[:, j].astype(float), rows.weights.astype(int))
        found[:, j] = [widths.get(float(x), 0.0) ** 2 / 12 for x in rows.X[:, j]]
    return found / rows.scale**2


CASES = pytest.mark.parametrize(
    ("shared", "dtype", "n_rows"),
    [
        (False, np.float64, 150),
        (True, np.float64, 150),
        (False, np.float32, 90),
        (True, np.float32, 90),
        (False, float, 9),
    ],
)


@CASES
@pytest.mark.parametrize("seed", range(3))
def test_the_block_mixture_has_the_term_in_density_statistics_and_m_step(
    seed: int, shared: bool, dtype: Any, n_rows: int
) -> None:
    # log π f − ½ Σ_j Δ_ij (Σ⁻¹)_jj and Σ = (scatter + diag Σ_i z_i Δ_ij) / n, from dense matrices.
    rng = np.random.default_rng(seed)
    groups = [Partition(rng.integers(0, 3, 6)) for _ in range(3)]
    rows, parameters = discrete(seed, n_rows, groups[:1] * 3 if shared else groups, shared, dtype)
    delta, X = roundings(rows), values(rows)
    assert delta.any()
    rtol = 1e-9 if rows.dtype == np.float64 else 2e-4
    dense = np.stack([block.dense() for block in parameters.covariances])
    joint = oracles.log_joint(X, parameters.weights, parameters.means, dense)
    joint -= 0.5 * np.stack([delta @ np.linalg.inv(S).diagonal() for S in dense], axis=1)
    (chunk,) = rows.map(lambda chunk: chunk)
    assert_allclose(chunk.rounding_variances, delta, rtol=1e-9)
    assert_allclose(chunk_log_joint(chunk, parameters), joint, rtol=rtol, atol=rtol)

    z, density = oracles.responsibilities(joint)
    share = z * rows.weights[:, None]
    weight, _, scatter = oracles.moments(X, rows.weights, z, parameters.means)
    blur = share.T @ delta
    found = sweep(rows, parameters)
    assert found.log_likelihood == pytest.approx(rows.weights @ density, rel=rtol)
    tolerance = {"rtol": 10 * rtol, "atol": 10 * rtol * n_rows}
    assert_allclose(found.blur, blur, **tolerance)
    layout = parameters.layout
    assert_allclose(unpacked(found.scatter, layout), within_blocks(layout.pooled(scatter), layout), **tolerance)
    assert_allclose(full_scatter(rows, parameters).blur, blur, **tolerance)

    # The M-step: the scatter about the new means and the rounding, within the blocks.
    means = np.stack([share[:, g] @ X / weight[g] for g in range(3)])
    centered = oracles.moments(X, rows.weights, z, means)[2] + np.stack([np.diag(row) for row in blur])
    pooled = centered.sum(axis=0) / weight.sum()
    literal = [pooled] * 3 if shared else centered / weight[:, None, None]
    expected = [oracles.block_diagonal(S, k) for S, k in zip(literal, labels_of(parameters), strict=True)]
    sweeps = [found] + ([sweep_shared(rows, parameters)] if shared else [])
    for statistics in sweeps:
        assert statistics.log_likelihood == pytest.approx(rows.weights @ density, rel=rtol)
        if n_rows < 20:
            continue
        new = maximize(statistics, parameters, Prior())
        assert_allclose(new.means, means, **tolerance)
        assert_allclose([block.dense() for block in new.covariances], expected, rtol=10 * rtol, atol=10 * rtol)


def test_exact_rows_have_no_term() -> None:
    rows, parameters = mixture(np.random.default_rng(0), 50, [Partition([0, 0, 1])] * 2)
    assert rows.resolution is EXACT
    assert not sweep(rows, parameters).blur.any()
