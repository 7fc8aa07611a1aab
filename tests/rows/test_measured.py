"""Sums in a fixed tree; resolution: widths of repeated values by definition, codes, and M-steps of both families."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import oracles
import pytest
from factors import random_parameters
from hypothesis import given
from hypothesis import strategies as st
from mixtures import labels_of, log_joint, mixture, rounding, values
from numpy.testing import assert_allclose
from strategies import Matrix, seeds

from blockmix.em.factor import Scatter, factor_sweep
from blockmix.em.parameters import Parameters, Prior
from blockmix.em.sweep import maximize, sweep
from blockmix.partition import Partition
from blockmix.rows import EXACT, ArrayRows, Resolution
from blockmix.rows.measured import total


def test_a_sum_in_pairs_keeps_the_order_and_depends_on_the_number_alone() -> None:
    class Nested(str):
        def __add__(self, other: str) -> Nested:
            return Nested(f"({self}{other})")

    sums = [total(map(Nested, "abcdefg"[:n])) for n in (1, 2, 3, 5, 7)]
    assert sums == ["a", "(ab)", "((ab)c)", "(((ab)(cd))e)", "(((ab)(cd))((ef)g))"]


def literal_widths(x: Matrix, counts: Any = None) -> dict[float, float]:
    """δ of each repeated value: the smaller distance to the k-th value below and above, or to the outermost.

    The smallest step for the other values, where fewer than half of the rows have one.
    """
    x = np.sort(np.repeat(x, np.ones(len(x), dtype=int) if counts is None else counts))
    widths = {}
    distinct, counts = np.unique(x, return_counts=True)
    for value in distinct:
        below, above, k = x[x < value], x[x > value], int((x == value).sum())
        if k < 2 and len(x) > 1 and 2 * counts[counts > 1].sum() > len(x):
            widths[float(value)] = float(np.diff(distinct).min())
        if k < 2 or k == len(x):
            continue
        left = [value - below[-min(k, len(below))]] if len(below) else []
        right = [above[min(k, len(above)) - 1] - value] if len(above) else []
        widths[float(value)] = float(min(left + right))
    return widths


def of(x: Any, weights: Any = None) -> dict[float, float]:
    """Widths that the package gives the values of one column."""
    x = np.asarray(x, dtype=float)
    resolution = Resolution.of(x[:, None], np.ones(len(x)) if weights is None else np.asarray(weights, dtype=float))
    return dict(zip(resolution.values.tolist(), np.sqrt(12 * resolution.variances).tolist(), strict=True))


REST = np.random.default_rng(0).gamma(2, size=50)
WIDTHS: dict[str, tuple[Any, dict[float, float]]] = {
    "binary": ([0, 0, 0, 1, 1], {0: 1, 1: 1}),
    "rarely one": ([0] * 99 + [1], {0: 1, 1: 1}),
    "a value that occurs once is exact": ([0, 0, 0, 0.5, 1, 3], {0: 3}),
    "unless the column is recorded in steps": ([0, 0, 0, 0, 0.5, 1, 3], {0: 3, 0.5: 0.5, 1: 0.5, 3: 0.5}),
    "zeros of half the rows have the spread of the others": (np.append(np.zeros(50), REST), {0: REST.max()}),
    "zeros of fewer rows": (np.append(np.zeros(20), REST), {0: np.sort(REST)[19]}),
    "one value": ([3, 3, 3], {}),
    "missing values are not values": ([0, np.nan, 0, np.nan, 1, 1, np.nan], {0: 1, 1: 1}),
    "no repeats": (REST, {}),
}


@pytest.mark.parametrize("case", WIDTHS)
def test_widths_of_a_column(case: str) -> None:
    x, widths = WIDTHS[case]
    assert of(x) == pytest.approx(widths)


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
    assert list(of(x * factor).values()) == pytest.approx([width * factor for width in of(x).values()])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weight", [1.0, 2.0])
def test_codes_and_table_give_each_value_its_variance(dtype: Any, weight: float) -> None:
    # Columns 1 and 3 of five are discrete, with different numbers of values, 4 is empty. Red if codes of a column are
    # another's. With weight 2 every value is repeated.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    X[:, 1], X[:, 3], X[:, 4] = np.round(X[:, 1], 1), rng.integers(0, 2, 200), np.nan
    X[::7, 3] = np.nan
    X = X.astype(dtype)
    resolution, scale = Resolution.of(X, np.full(200, weight)), np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert resolution.columns.tolist() == ([1, 3] if weight == 1 else [0, 1, 2, 3])
    _, table, codes = resolution.rounding(X, scale)
    for d, j in enumerate(resolution.columns):
        x = X[:, j].astype(float)
        widths = literal_widths(np.repeat(x[~np.isnan(x)], int(weight)))
        expected = [widths.get(value, 0.0) ** 2 / 12 / scale[j] ** 2 for value in x.tolist()]
        assert_allclose(table[d, codes[:, d]], expected, rtol=1e-12)
    assert (table[:, 0] == 0).all()
    new = np.full((4, 5), [[0.12345], [77.0], [np.inf], [np.nan]])
    assert not resolution.rounding(new, scale)[2].any()  # a value that did not occur is exact


def test_fractional_weights_and_the_place_of_a_column_decide_no_tie() -> None:
    # Red if weights summed over columns are compared to the last bit: 0.7 + 0.7 + 0.7 is not three times 0.7.
    x = np.repeat(np.arange(9.0), 7)
    widths = {float(value): 1.0 for value in range(9)}
    for weight in (0.7, 1.1, 1 / 3, 3e5 / 7):
        resolution = Resolution.of(np.tile(x[:, None], 40), np.full(63, weight))
        assert_allclose(resolution.values.reshape(40, 9), np.tile(list(widths), (40, 1)))
        assert_allclose(np.sqrt(12 * resolution.variances), 1)


def test_every_fifth_of_ten_thousand_rows_is_looked_at() -> None:
    # Evenly over the rows: data sorted by a column are sampled as others are. Rows of weight 0 do not count.
    x = np.sort(np.random.default_rng(0).integers(0, 50, 10_000)).astype(float)
    assert of(x) == pytest.approx(literal_widths(x[::5]))
    assert of(np.repeat(x, 2), np.tile([0, 1], 10_000)) == pytest.approx(literal_widths(x[::5]))


# What the M-steps make of it; the E-steps and sweeps are compared with dense matrices in tests/em


def discrete(seed: int, groups: list[Partition], shared: bool = False) -> tuple[ArrayRows, Parameters]:
    """A random mixture on rows of which two columns are rounded, with their resolution."""
    rows, parameters = mixture(np.random.default_rng(seed), 150, groups, shared)
    X = rows.X.copy()
    X[:, 0], X[:, 2] = np.round(X[:, 0]), np.round(X[:, 2], 1)
    return replace(rows, X=X, resolution=Resolution.of(X, rows.weights)), parameters


def test_a_chunk_has_the_variances_of_its_standardized_values() -> None:
    rows, _ = discrete(0, [Partition([0, 0, 1, 1, 2, 2])])
    delta = np.zeros(rows.X.shape)
    for j in range(6):
        widths = literal_widths(rows.X[:, j], rows.weights.astype(int))
        delta[:, j] = [widths.get(float(x), 0.0) ** 2 / 12 / rows.scale[j] ** 2 for x in rows.X[:, j]]
    assert_allclose(rounding(rows), delta, rtol=1e-9)
    assert delta.any(axis=0).all()  # a weight of 2 repeats a value
    assert not rounding(rows.replace(resolution=EXACT)).any()


@pytest.mark.parametrize("shared", [False, True])
def test_the_m_step_of_the_block_mixture_adds_the_variances_of_rounding(shared: bool) -> None:
    # Σ = (scatter + diag Σ_i z_i Δ_ij) / n, from dense matrices.
    rng = np.random.default_rng(1)
    groups = [Partition(rng.integers(0, 3, 6)) for _ in range(3)]
    rows, parameters = discrete(1, groups[:1] * 3 if shared else groups, shared)
    X, z = values(rows), oracles.responsibilities(log_joint(rows, parameters))[0]
    share = z * rows.weights[:, None]
    weight = share.sum(axis=0)
    means = share.T @ X / weight[:, None]
    scatter = oracles.moments(X, rows.weights, z, means)[2] + (share.T @ rounding(rows))[:, :, None] * np.eye(6)
    literal = [scatter.sum(axis=0) / weight.sum()] * 3 if shared else scatter / weight[:, None, None]
    expected = [oracles.block_diagonal(S, k) for S, k in zip(literal, labels_of(parameters), strict=True)]
    new = maximize(sweep(rows, parameters), parameters, Prior())
    assert_allclose(new.means, means, rtol=1e-8, atol=1e-8)
    assert_allclose([new.blocks[g].dense() for g in range(3)], expected, rtol=1e-8, atol=1e-8)


def test_the_moments_of_the_factor_mixture_have_the_variances_of_rounding() -> None:
    # Rounding is noise of each column by itself: the M-step is made of Σ_i z_i [(x − m)(x − m)ᵀ + diag Δ] / n.
    rows, _ = discrete(2, [Partition([0, 0, 1, 1, 2, 2])] * 2)
    parameters, X, z = random_parameters(2), values(rows), np.random.default_rng(2).dirichlet([1, 1], 150)
    moments = Scatter.of(factor_sweep(rows, parameters, z), parameters)
    for g, share in enumerate((z * rows.weights[:, None]).T):
        n, mean = share.sum(), share @ X / share.sum()
        S = (X - mean).T * share @ (X - mean) / n + np.diag(share @ rounding(rows) / n)
        P = parameters.projection[g]
        assert_allclose(moments.variances[g], S.diagonal(), rtol=1e-8)
        assert_allclose(moments.cross[g], P @ S, rtol=1e-8, atol=1e-8)
        assert_allclose(moments.spread[g], (P @ S @ P.T).diagonal(), rtol=1e-8)
