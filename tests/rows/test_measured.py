"""Sums in a fixed tree; resolution: widths of repeated values by definition, codes, and terms of both families."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracles
import pytest
from factors import random_parameters
from hypothesis import given
from hypothesis import strategies as st
from mixtures import chunk_log_joint, labels_of, mixture, unpacked, values, within_blocks
from numpy.testing import assert_allclose
from strategies import Matrix, seeds

from blockmix.blocks.blocks import Parameters, Prior
from blockmix.em.factor import chunk_log_joint as chunk_log_joint_of_factors
from blockmix.em.factor import sweep as sweep_factors
from blockmix.em.factor_steps import Scatter
from blockmix.em.m_step import maximize
from blockmix.em.sweep import full_scatter, sweep, sweep_shared
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
    codes, table = resolution.codes(X), resolution.table(scale)
    for d, j in enumerate(resolution.columns):
        x = X[:, j].astype(float)
        widths = literal_widths(np.repeat(x[~np.isnan(x)], int(weight)))
        expected = [widths.get(value, 0.0) ** 2 / 12 / scale[j] ** 2 for value in x.tolist()]
        assert_allclose(table[d, codes[:, d]], expected, rtol=1e-12)
    assert (table[:, 0] == 0).all()
    new = np.full((4, 5), [[0.12345], [77.0], [np.inf], [np.nan]])
    assert not resolution.codes(new).any()  # a value that did not occur is exact


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
    variances = np.zeros(rows.X.shape)
    for j in range(rows.n_columns):
        widths = literal_widths(rows.X[:, j].astype(float), rows.weights.astype(int))
        variances[:, j] = [widths.get(float(x), 0.0) ** 2 / 12 for x in rows.X[:, j]]
    return variances / rows.scale**2


@pytest.mark.parametrize(
    ("seed", "shared", "dtype", "n_rows"),
    [(0, False, float, 150), (1, True, float, 150), (2, False, np.float32, 90), (3, True, np.float32, 90)],
)
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
        new = maximize(statistics, parameters, Prior())
        assert_allclose(new.means, means, **tolerance)
        assert_allclose([block.dense() for block in new.covariances], expected, rtol=10 * rtol, atol=10 * rtol)


@pytest.mark.parametrize("given_z", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_the_factor_mixture_has_the_term_in_density_and_statistics(seed: int, given_z: bool) -> None:
    # Rounding is noise of each column by itself: Δ_j is added to x_j², and Δ_j / d_j to s_k x_j for its own group only.
    rows, _ = discrete(seed, 150, [Partition([0, 0, 1, 1, 2, 2])] * 2, False, float)
    parameters, X, delta = random_parameters(seed), values(rows), roundings(rows)
    joint = oracles.log_joint(X, parameters.weights, parameters.means, parameters.covariances)
    joint -= 0.5 * np.stack([delta @ np.linalg.inv(S).diagonal() for S in parameters.covariances], axis=1)
    (found,) = rows.map(lambda chunk: chunk_log_joint_of_factors(chunk, parameters))
    assert_allclose(found, joint, rtol=1e-9, atol=1e-9)

    z, density = oracles.responsibilities(joint)
    z = np.random.default_rng(seed).dirichlet([1, 1], rows.n_rows) if given_z else z
    share = z * rows.weights[:, None]
    B, d = np.eye(3)[parameters.labels], parameters.noise
    s = np.einsum("gjk,ngj->ngk", B, (X[:, None, :] - parameters.means) / d)
    cross = np.einsum("ng,ngk,nj->gkj", share, s, X) + np.einsum("ng,nj,gj,gjk->gkj", share, delta, 1 / d, B)
    statistics = sweep_factors(rows, parameters, z if given_z else None)
    assert_allclose(statistics.second, share.T @ (X**2 + delta), rtol=1e-9)
    assert_allclose(statistics.cross, cross, rtol=1e-9, atol=1e-8)
    assert_allclose(statistics.first, share.T @ X, rtol=1e-9, atol=1e-8)
    if not given_z:
        assert statistics.log_likelihood == pytest.approx(rows.weights @ density, rel=1e-10)

    # The moments that the M-step is made of are those of Σ_i z_i [(x − m)(x − m)ᵀ + diag Δ] / n.
    seen = Scatter.of(statistics, parameters)
    for g in range(2):
        n, mean = share[:, g].sum(), share[:, g] @ X / share[:, g].sum()
        S = (X - mean).T * share[:, g] @ (X - mean) / n + np.diag(share[:, g] @ delta / n)
        P = parameters.projection[g]
        assert_allclose(seen.variances[g], S.diagonal(), rtol=1e-8)
        assert_allclose(seen.cross[g], P @ S, rtol=1e-8, atol=1e-8)
        assert_allclose(seen.spread[g], (P @ S @ P.T).diagonal(), rtol=1e-8)


def test_exact_rows_have_no_term() -> None:
    rows, parameters = mixture(np.random.default_rng(0), 50, [Partition([0, 0, 1])] * 2)
    assert rows.resolution is EXACT
    assert not sweep(rows, parameters).blur.any()
