"""Shapes of a block: each fit against dense algebra, scikit-learn's FactorAnalysis and the laws of its family."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.sparse.csgraph import minimum_spanning_tree
from sklearn.decomposition import FactorAnalysis
from strategies import Matrix, covariance, rescaled, seeds

from blockmix.blocks.kernels import tree_covariance
from blockmix.blocks.shapes import FULL, BlockModel, FactorBlock, FullBlock, TreeBlock, block_models, offered
from blockmix.partition import partition_prices

MODELS = [FULL, FactorBlock(1), FactorBlock(2), FactorBlock(3), TreeBlock()]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)


def factor_rows(seed: int, c: int, q: int, n_rows: int = 200) -> Matrix:
    """Rows of c columns with q common factors; every column keeps noise of its own."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((n_rows, c)) * rng.uniform(0.7, 1.5, c)
    X: Matrix = rng.standard_normal((n_rows, q)) @ rng.standard_normal((q, c)) + noise
    return X


def deviance(sigma: Matrix, S: Matrix) -> float:
    """log|Σ| + tr Σ⁻¹S from dense matrices."""
    return float(np.linalg.slogdet(sigma)[1] + np.trace(np.linalg.solve(sigma, S)))


def tree_of(edges: Any, c: int) -> Matrix:
    """Adjacency matrix of edges."""
    joined = np.zeros((c, c), dtype=bool)
    for a, b in np.asarray(edges).astype(int):
        joined[a, b] = joined[b, a] = True
    return joined


def path(joined: Matrix, a: int, b: int) -> list[int]:
    """Columns from a to b along the tree."""
    waiting = [[a]]
    while waiting:
        walk = waiting.pop()
        if walk[-1] == b:
            return walk
        waiting += [[*walk, j] for j in np.flatnonzero(joined[walk[-1]]) if j not in walk]
    raise AssertionError("not connected")


@every_model
@given(seeds, st.integers(2, 9))
@settings(max_examples=20)
def test_the_deviance_is_that_of_the_dense_covariance(model: BlockModel, seed: int, c: int) -> None:
    # Red if the deviance is that before the last step, or a term of it is left out.
    S = covariance(factor_rows(seed, c, 2) * rescaled(np.random.default_rng(seed), c))
    if isinstance(model, FactorBlock) and model.n_factors > c:
        return
    fit = model.fit(S)
    assert_allclose(fit.covariance, fit.covariance.T, rtol=1e-12)
    assert fit.deviance == pytest.approx(deviance(fit.covariance, S), rel=1e-9, abs=1e-8)
    assert fit.deviance >= deviance(S, S) - 1e-8  # no covariance is better than S
    if fit.state is not None:
        assert model.accepts(fit.state, c)


def test_parameters_counted_by_hand() -> None:
    # c = 2 … 8. One factor: c loadings and c noises; two: one rotation less; three: three rotations less.
    counts = {
        "full": [3, 6, 10, 15, 21, 28, 36],
        "1 factor": [4, 6, 8, 10, 12, 14, 16],
        "2 factors": [5, 8, 11, 14, 17, 20, 23],
        "3 factors": [5, 9, 13, 17, 21, 25, 29],
        "tree": [3, 5, 7, 9, 11, 13, 15],
    }
    cheaper = {  # than a full block: q = 1 from 4 columns on, q = 2 from 5, q = 3 from 7
        "full": range(2, 9),
        "1 factor": range(4, 9),
        "2 factors": range(5, 9),
        "3 factors": range(7, 9),
        "tree": range(3, 9),
    }
    for model in MODELS:
        assert [model.n_parameters(c) for c in range(2, 9)] == counts[model.name]
        assert [c for c in range(2, 9) if offered(model, c)] == list(cheaper[model.name])


def test_structures_counted_by_hand() -> None:
    # A tree pays 3/2 log p for each edge, less what its group pays: log p + log p/1 + log p/2 + … Other shapes have one
    # structure of any size. Red if joining two trees cost less than one edge.
    edge = 1.5 * np.log(9)
    expected = [0, 0, 2 * edge - np.log(9**3 / 2), 3 * edge - np.log(9**4 / 6)]
    assert_allclose([TreeBlock().choice_price(c, 9) for c in range(1, 5)], expected)
    assert all(model.choice_price(c, 9) == 0 for model in MODELS[:-1] for c in range(1, 10))
    whole = partition_prices(9)
    paid = [whole[c] + TreeBlock().choice_price(c, 9) for c in range(10)]
    assert all(paid[a + b] - paid[a] - paid[b] == pytest.approx(edge) for a in (3, 4) for b in (3, 4, 5))


@every_model
def test_a_block_has_the_rows_it_needs(model: BlockModel) -> None:
    # The rank of a scatter of n rows about their mean is n − 1: rows_needed + 1 rows leave no block singular.
    c = 8
    X = np.random.default_rng(0).standard_normal((model.rows_needed(c) + 1, c))
    fit = model.fit(covariance(X) + 0)
    assert np.linalg.eigvalsh(fit.covariance)[0] > 1e-8


@every_model
@given(seeds, st.integers(3, 8))
@settings(max_examples=15)
def test_scaling_flipping_and_permuting_columns_do_so_to_the_fit(model: BlockModel, seed: int, c: int) -> None:
    # Red if a start, a floor or a stopping rule is in units of the columns, or depends on their order or sign.
    rng = np.random.default_rng(seed)
    S = covariance(factor_rows(seed, c, 1))
    if isinstance(model, FactorBlock) and (c - model.n_factors) ** 2 <= c + model.n_factors:
        return  # the likelihood has a ridge of equal optima
    fit, factors, order = model.fit(S), rescaled(rng, c), rng.permutation(c)
    tolerance = {"rtol": 2e-3, "atol": 2e-3} if isinstance(model, FactorBlock) else {"rtol": 1e-9, "atol": 1e-9}
    units = np.sqrt(np.outer(S.diagonal(), S.diagonal()))

    moved = model.fit(S * np.outer(factors, factors))
    assert_allclose(moved.covariance / np.outer(factors, factors) / units, fit.covariance / units, **tolerance)
    assert moved.deviance == pytest.approx(fit.deviance + 2 * np.log(np.abs(factors)).sum(), abs=1e-5)

    moved = model.fit(S[np.ix_(order, order)])
    assert_allclose(
        moved.covariance / units[np.ix_(order, order)], (fit.covariance / units)[np.ix_(order, order)], **tolerance
    )
    assert moved.deviance == pytest.approx(fit.deviance, abs=1e-5)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_flipping_a_column_flips_its_loadings(q: int) -> None:
    S = covariance(factor_rows(0, 9, q))
    signs = np.where(np.arange(9) % 3, 1, -1)
    model = FactorBlock(q)
    one, other = model.fit(S), model.fit(S * np.outer(signs, signs))
    L, M = model.loadings(one.state), model.loadings(other.state)
    assert L is not None and M is not None
    assert_allclose(M @ M.T, (L @ L.T) * np.outer(signs, signs), atol=1e-6)


@every_model
@given(seeds, st.integers(2, 8))
@settings(max_examples=15)
def test_a_state_follows_the_units_of_its_columns(model: BlockModel, seed: int, c: int) -> None:
    # Red if loadings are not scaled, or noise is scaled once: the start of the scaled fit would be another one.
    if isinstance(model, FactorBlock) and model.n_factors > c:
        return
    deviations = np.abs(rescaled(np.random.default_rng(seed), c))
    S = covariance(factor_rows(seed, c, 1))
    fit = model.fit(S)
    if fit.state is None:
        return
    state = model.scaled(fit.state, deviations)
    assert model.accepts(state, c)
    again, scaled = model.fit(S, fit.state), model.fit(S * np.outer(deviations, deviations), state)
    assert scaled.deviance == pytest.approx(again.deviance + 2 * np.log(deviations).sum(), abs=1e-7)
    assert_allclose(scaled.covariance / np.outer(deviations, deviations), again.covariance, rtol=1e-6, atol=1e-6)


# Factors


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_factors_are_those_of_factor_analysis(seed: int, q: int) -> None:
    # Per column: the fit stops where a step gains less than 1e-8 per column. Red at a looser tolerance (1e-6).
    X = factor_rows(seed, 9, q)
    other = FactorAnalysis(q, tol=1e-14, max_iter=100_000, svd_method="lapack").fit(X).get_covariance()
    S = covariance(X)
    fit = FactorBlock(q).fit(S)
    assert fit.deviance / 9 == pytest.approx(deviance(other, S) / 9, abs=1e-6)
    assert_allclose(fit.covariance, other, atol=5e-3)


@given(seeds, st.integers(5, 12), st.integers(1, 3), st.integers(3, 60))
@settings(max_examples=40)
def test_one_more_factor_is_never_worse(seed: int, c: int, q: int, n_rows: int) -> None:
    # From the fit of q factors and a small further one; also with fewer rows than columns.
    S = covariance(factor_rows(seed, c, q, n_rows)) + 1e-6 * np.eye(c)
    fewer = FactorBlock(q).fit(S)
    assert fewer.state is not None
    spare = 0.1 * np.sqrt(fewer.state[:, -1:]) * np.random.default_rng(seed).standard_normal((c, 1))
    # The same covariance's diagonal, so that the further factor starts from no change of the variances.
    start = np.column_stack(
        [fewer.state[:, :q], spare, fewer.state[:, q:] - spare**2 * (fewer.state[:, q:] > spare**2)]
    )
    more = FactorBlock(q + 1).fit(S, start)
    assert more.deviance <= fewer.deviance + 1e-5 * c


@pytest.mark.parametrize("seed", range(8))
def test_one_more_factor_from_principal_axes_is_never_worse(seed: int) -> None:
    S = covariance(factor_rows(seed, 10, 3))
    ends = [FactorBlock(q).fit(S).deviance for q in (1, 2, 3)]
    assert ends[1] <= ends[0] + 1e-6 and ends[2] <= ends[1] + 1e-6


@given(seeds, st.integers(2, 12), st.integers(1, 3), st.integers(2, 60))
@settings(max_examples=60)
def test_a_start_is_never_made_worse(seed: int, c: int, q: int, n_rows: int) -> None:
    # Any loadings and noise, with fewer rows than columns as well.
    rng = np.random.default_rng(seed)
    S = covariance(factor_rows(seed, c, q, n_rows)) + 1e-3 * np.eye(c)
    start = np.column_stack([rng.standard_normal((c, q)), 10.0 ** rng.uniform(-6, 1, c)])
    before = deviance(start[:, :q] @ start[:, :q].T + np.diag(start[:, q]), S)
    fit = FactorBlock(q).fit(S, start)
    assert fit.deviance <= before + 1e-9 * (1 + abs(before))


def test_a_start_below_the_floor_is_never_made_worse() -> None:
    # The population itself, one column of which has next to no noise. Red if the floor is not lowered to the start.
    L, noise = np.linspace(0.5, 1.5, 6)[:, None], np.array([1e-5, 1.0, 1.0, 1.0, 1.0, 1.0])
    S = L @ L.T + np.diag(noise)
    fit = FactorBlock(1).fit(S, np.column_stack([L, noise]))
    assert fit.deviance <= deviance(S, S) + 1e-9
    assert FactorBlock(1).fit(S).deviance > deviance(S, S) + 1e-4  # without a start the floor holds


def test_a_fit_goes_on_from_its_own_state() -> None:
    S = covariance(factor_rows(0, 8, 2))
    fit = FactorBlock(2).fit(S)
    again = FactorBlock(2).fit(S, fit.state)
    assert again.deviance <= fit.deviance
    assert again.deviance == pytest.approx(fit.deviance, abs=1e-6)


@pytest.mark.parametrize("q", [1, 2])
def test_a_heywood_case_stays_finite(q: int) -> None:
    # A column that is the factor itself, and its copy: without a floor their noise tends to 0.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 8)) + rng.standard_normal((100, 1)) * rng.choice([-1, 1], 8)
    X[:, 0] = 50 * X.mean(axis=1)
    X[:, 1] = -X[:, 0]
    fit = FactorBlock(q).fit(covariance(X))
    assert fit.state is not None and np.isfinite(fit.state).all() and np.isfinite(fit.deviance)
    assert (fit.state[:, -1] >= 0.005 * covariance(X).diagonal() * (1 - 1e-12)).all()
    assert np.linalg.eigvalsh(fit.covariance)[0] > 0


@pytest.mark.parametrize("q", [1, 2, 3])
def test_loadings_reproduce_what_the_factors_explain(q: int) -> None:
    S = covariance(factor_rows(1, 9, q))
    model = FactorBlock(q)
    fit = model.fit(S)
    assert fit.state is not None
    L = model.loadings(fit.state)
    assert L is not None and L.shape == (9, q)
    assert_allclose(L @ L.T + np.diag(fit.state[:, -1]), fit.covariance, rtol=1e-10)
    inner = L.T @ (L / fit.state[:, -1:])  # diagonal and descending
    assert_allclose(inner, np.diag(inner.diagonal()), atol=1e-8 * inner.max())
    assert (np.diff(inner.diagonal()) <= 0).all()
    assert (np.take_along_axis(L, np.abs(L).argmax(axis=0)[None], axis=0) > 0).all()


def test_loadings_have_the_signs_of_the_columns() -> None:
    rng = np.random.default_rng(0)
    signs = np.array([1, -1, 1, -1, 1, 1])
    X = rng.standard_normal((500, 1)) * signs * np.array([2, 1, 1, 1, 1, 1]) + 0.5 * rng.standard_normal((500, 6))
    model = FactorBlock(1)
    L = model.loadings(model.fit(covariance(X)).state)
    assert L is not None
    assert_allclose(L[:, 0], signs * np.array([2, 1, 1, 1, 1, 1]), atol=0.2)
    assert FULL.loadings(None) is None and TreeBlock().loadings(np.array([[0.0, 1.0]])) is None


def test_what_is_no_state_of_factors_is_refused() -> None:
    model, state = FactorBlock(2), np.ones((4, 3))
    assert model.accepts(state, 4)
    assert not model.accepts(state, 5)
    assert not FactorBlock(1).accepts(state, 4)
    state[2, 2] = 0
    assert not model.accepts(state, 4)


# Trees


@given(seeds, st.integers(1, 9))
def test_a_tree_has_the_correlations_of_its_edges_and_their_products_along_paths(seed: int, c: int) -> None:
    # Red if a path is followed from the wrong end, or a variance comes from the slope.
    S = covariance(factor_rows(seed, c, 2))
    fit = TreeBlock().fit(S)
    assert fit.state is not None
    joined, deviations = tree_of(fit.state, c), np.sqrt(S.diagonal())
    R, found = S / np.outer(deviations, deviations), fit.covariance / np.outer(deviations, deviations)
    assert joined.sum() == 2 * (c - 1)
    for a in range(c):
        for b in range(c):
            walk = path(joined, a, b)
            expected = np.prod([R[i, j] for i, j in pairwise(walk)])
            assert found[a, b] == pytest.approx(expected, abs=1e-12)
    precision = np.linalg.inv(found)
    outside = ~(joined | np.eye(c, dtype=bool))
    assert_allclose(precision[outside], 0, atol=1e-9 * np.abs(precision).max())


@given(seeds, st.integers(2, 12))
def test_the_tree_is_the_spanning_tree_of_least_log_residual_variance(seed: int, c: int) -> None:
    # Chow and Liu; scipy's minimum_spanning_tree is the oracle. Red if an edge is not taken at its strongest.
    S = covariance(factor_rows(seed, c, 2))
    R = S / np.sqrt(np.outer(S.diagonal(), S.diagonal()))
    weights = np.log(1 - np.minimum(R**2, 1 - 1e-12) * (1 - np.eye(c)))
    oracle = minimum_spanning_tree(weights)  # all weights are below 0, none is missing
    fit = TreeBlock().fit(S)
    assert fit.deviance == pytest.approx(c + np.log(S.diagonal()).sum() + oracle.sum(), abs=1e-9)


@given(seeds, st.integers(3, 8), st.data())
def test_no_other_tree_is_better(seed: int, c: int, data: st.DataObject) -> None:
    S = covariance(factor_rows(seed, c, 2))
    edges = np.array([[data.draw(st.integers(0, j - 1)), j] for j in range(1, c)], dtype=float)
    model = TreeBlock()
    assert model.accepts(edges, c)
    _, of_edges = tree_covariance(S, edges.astype(np.intp))
    # From these edges as well: red if a tree keeps the edges that it started from, which cost mixtures up to 19 nats.
    assert of_edges >= model.fit(S, edges).deviance - 1e-9
    assert model.fit(S, edges).deviance == pytest.approx(model.fit(S).deviance, abs=1e-12)


@pytest.mark.parametrize("rho", [-0.8, 0.3, 0.95])
def test_a_chain_is_reproduced_exactly(rho: float) -> None:
    c = 9
    order = np.random.default_rng(0).permutation(c)
    S = rho ** np.abs(np.subtract.outer(order, order)) * np.outer(np.arange(1, c + 1), np.arange(1, c + 1))
    fit = TreeBlock().fit(S.astype(float))
    assert_allclose(fit.covariance, S, rtol=1e-10)
    assert fit.deviance == pytest.approx(np.linalg.slogdet(S)[1] + c, abs=1e-9)


def test_copies_of_a_column_have_a_finite_tree() -> None:
    X = np.random.default_rng(0).standard_normal((50, 3))[:, [0, 0, 1, 1, 2]]
    fit = TreeBlock().fit(covariance(X))
    assert np.isfinite(fit.deviance) and np.isfinite(fit.covariance).all()


def test_what_is_no_tree_is_refused() -> None:
    model = TreeBlock()
    assert model.accepts(np.array([[0.0, 1], [1, 2]]), 3)
    assert model.accepts(np.array([[2.0, 1], [2, 0]]), 3)
    assert model.accepts(np.empty((0, 2)), 1)
    for wrong in ([[0, 1], [2, 1]], [[0, 1], [1, 0]], [[0, 1], [1, 3]], [[0, 1], [1, 1.5]], [[0, 1]], [[0, 0], [0, 1]]):
        assert not model.accepts(np.array(wrong, dtype=float), 3)


# The parameter block_model


def test_the_parameter_names_the_shapes() -> None:
    names = {shape: [model.name for model in block_models(shape)] for shape in ("auto", "full", "tree", 1, 3)}
    assert names == {
        "auto": ["full", "1 factor", "2 factors", "tree"],
        "full": ["full"],
        "tree": ["full", "tree"],
        1: ["full", "1 factor"],
        3: ["full", "3 factors"],
    }
    own = TreeBlock()
    assert block_models(own) == (FULL, own)
    assert block_models((own,)) == (own,)
    assert [model.name for model in block_models(np.int64(2))] == ["full", "2 factors"]


@pytest.mark.parametrize("wrong", ["chain", 0, -1, True, 1.5, None, FullBlock, [1, 2], ()])
def test_other_values_are_refused_with_what_is_allowed(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"block_model=.* must be one of auto, full, tree, a number of factors"):
        block_models(wrong)
