"""Shapes of a block: fits against dense algebra, scikit-learn and all trees, and deviances of the nodes of a tree."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.decomposition import FactorAnalysis
from strategies import Matrix, covariance, rescaled, seeds

from blockmix.blocks.kernels import factor_em, workspace
from blockmix.blocks.moments import as_matrix, correlation
from blockmix.blocks.shapes import (
    FULL,
    BlockModel,
    FactorBlock,
    FullBlock,
    TreeBlock,
    block_models,
    given_shape,
    offered,
)
from blockmix.grouping import HierarchicalGrouping
from blockmix.grouping.kernels import spans
from blockmix.partition import IntArray, partition_prices

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


@every_model
@given(seeds, st.integers(3, 9))
@settings(max_examples=20)
def test_a_fit_has_the_dense_deviance_and_follows_units_signs_and_order(model: BlockModel, seed: int, c: int) -> None:
    # Red if the deviance is that before the last step; if a start, a floor or a stopping rule is in units of the
    # columns; if loadings are not scaled, or noise is scaled once.
    assume(not isinstance(model, FactorBlock) or model.n_factors <= c)
    rng = np.random.default_rng(seed)
    S = covariance(factor_rows(seed, c, 1))
    fit, factors, order = model.fit(S), rescaled(rng, c), rng.permutation(c)
    assert_allclose(fit.covariance, fit.covariance.T, rtol=1e-12)
    assert fit.deviance == pytest.approx(deviance(fit.covariance, S), rel=1e-9, abs=1e-8)
    assert fit.deviance >= deviance(S, S) - 1e-8  # no covariance is better than S
    stretch, units = 2 * np.log(np.abs(factors)).sum(), np.outer(factors, factors)
    if fit.state is not None:
        state = model.scaled(fit.state, np.abs(factors))
        assert model.accepts(fit.state, c) and model.accepts(state, c)
        again, scaled = model.fit(S, fit.state), model.fit(S * np.abs(units), state)
        assert again.deviance <= fit.deviance + 1e-9
        assert scaled.deviance == pytest.approx(again.deviance + stretch, abs=1e-7)
        assert_allclose(scaled.covariance / np.abs(units), again.covariance, rtol=1e-6, atol=1e-6)
    if isinstance(model, FactorBlock) and (c - model.n_factors) ** 2 <= c + model.n_factors:
        return  # the likelihood has a ridge of equal optima
    mixed = np.ix_(order, order)
    moved, permuted = model.fit(S * units), model.fit(S[mixed])
    size = np.sqrt(np.outer(S.diagonal(), S.diagonal()))
    atol = 2e-3 if isinstance(model, FactorBlock) else 1e-9
    assert_allclose(moved.covariance / units / size, fit.covariance / size, atol=atol)
    assert_allclose(permuted.covariance / size[mixed], (fit.covariance / size)[mixed], atol=atol)
    assert moved.deviance == pytest.approx(fit.deviance + stretch, abs=1e-5)
    assert permuted.deviance == pytest.approx(fit.deviance, abs=1e-5)


def test_parameters_counted_by_hand() -> None:
    # c = 2 … 8. One factor: c loadings and c noises; two: one rotation less; three: three rotations less. A shape is
    # offered where it is cheaper than a full block.
    counts = {
        "full": ([3, 6, 10, 15, 21, 28, 36], 2),
        "1 factor": ([4, 6, 8, 10, 12, 14, 16], 4),
        "2 factors": ([5, 8, 11, 14, 17, 20, 23], 5),
        "3 factors": ([5, 9, 13, 17, 21, 25, 29], 7),
        "tree": ([3, 5, 7, 9, 11, 13, 15], 3),
    }
    for model in MODELS:
        assert [model.n_parameters(c) for c in range(2, 9)] == counts[model.name][0]
        assert [c for c in range(2, 9) if offered(model, c)] == list(range(counts[model.name][1], 9))


def test_structures_counted_by_hand() -> None:
    # A tree pays 3/2 log p for each edge, less what its group pays: log p + log p/1 + log p/2 + … Other shapes have one
    # structure of any size. Red if joining two trees cost less than one edge.
    edge = 1.5 * np.log(9)
    wanted = [0, 0, 2 * edge - np.log(9**3 / 2), 3 * edge - np.log(9**4 / 6)]
    assert_allclose([TreeBlock().choice_price(c, 9) for c in range(1, 5)], wanted)
    assert all(model.choice_price(c, 9) == 0 for model in MODELS[:-1] for c in range(1, 10))
    paid = [partition_prices(9)[c] + TreeBlock().choice_price(c, 9) for c in range(10)]
    assert all(paid[a + b] - paid[a] - paid[b] == pytest.approx(edge) for a in (3, 4) for b in (3, 4, 5))


@every_model
def test_a_block_has_the_rows_it_needs(model: BlockModel) -> None:
    # The scatter of n rows about their mean has rank n − 1: one row more than needed leaves no block singular.
    X = np.random.default_rng(0).standard_normal((int(min(8, model.rank)) + 1, 8))
    assert np.linalg.eigvalsh(model.fit(covariance(X)).covariance)[0] > 1e-8


# Factors


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_factors_are_those_of_factor_analysis(seed: int, q: int) -> None:
    # Per column: the fit stops where a step gains less than 1e-8 per column. Red at a looser tolerance (1e-6).
    X = factor_rows(seed, 9, q)
    other = FactorAnalysis(q, tol=1e-14, max_iter=100_000, svd_method="lapack").fit(X).get_covariance()
    S = covariance(X)
    fit = FactorBlock(q).fit(S)
    assert fit.deviance / 9 == pytest.approx(deviance(other, S) / 9, abs=1e-6)
    assert_allclose(fit.covariance, other, atol=5e-3)


@given(seeds, st.integers(2, 12), st.integers(1, 3), st.integers(2, 60), st.sampled_from([1e-4, 0.005, 0.3]))
@settings(max_examples=60)
def test_no_step_and_no_fit_makes_a_start_worse(seed: int, c: int, q: int, n_rows: int, floor: float) -> None:
    # Any loadings and noise, with fewer rows than columns as well, whether the floor binds or not. Red if noise is not
    # the minimum given Λ, or Θ lacks M⁻¹.
    rng = np.random.default_rng(seed)
    S = covariance(factor_rows(seed, c, q, n_rows)) + 1e-3 * np.eye(c)
    least = floor * S.diagonal()
    loadings, noise = rng.standard_normal((q, c)), np.maximum(10.0 ** rng.uniform(-6, 1, c), least)
    first = deviance(loadings.T @ loadings + np.diag(noise), S)
    assert FactorBlock(q).fit(S, np.column_stack([loadings.T, noise])).deviance <= first + 1e-9 * (1 + abs(first))
    before, entries = np.inf, as_matrix(S).entries
    for _ in range(20):
        dense = deviance(loadings.T @ loadings + np.diag(noise), S)
        value = factor_em(entries, 0, c, c, loadings, noise, least, workspace(entries, q, c), 1, 0.0)
        assert value == pytest.approx(dense, rel=1e-9, abs=1e-9)  # of what the step began with
        assert value <= before + 1e-9 * (1 + abs(before))
        assert (noise >= least).all()
        before = value


def test_a_step_is_that_of_parameter_expanded_em() -> None:
    # The literal formulas, with a Cholesky factor C of Θ.
    rng = np.random.default_rng(0)
    S = covariance(factor_rows(0, 7, 2))
    L, psi = rng.standard_normal((7, 2)), rng.uniform(0.5, 1, 7)
    M = np.eye(2) + L.T @ np.diag(1 / psi) @ L
    B = np.diag(1 / psi) @ L @ np.linalg.inv(M)
    C = np.linalg.cholesky(np.linalg.inv(M) + B.T @ S @ B)
    wanted = S @ B @ np.linalg.inv(C).T
    loadings, noise, entries = np.ascontiguousarray(L.T), psi.copy(), as_matrix(S).entries
    factor_em(entries, 0, 7, 7, loadings, noise, np.zeros(7), workspace(entries, 2, 7), 1, 0.0)
    assert_allclose(loadings, wanted.T, rtol=1e-10)
    assert_allclose(noise, S.diagonal() - (wanted**2).sum(axis=1), rtol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_one_more_factor_is_never_worse(seed: int) -> None:
    S = covariance(factor_rows(seed, 10, 3))
    ends = [FactorBlock(q).fit(S).deviance for q in (1, 2, 3)]
    assert ends[1] <= ends[0] + 1e-6 and ends[2] <= ends[1] + 1e-6


def test_a_start_below_the_floor_is_never_made_worse() -> None:
    # The population itself, one column of which has next to no noise. Red if the floor is not lowered to the start.
    L, noise = np.linspace(0.5, 1.5, 6)[:, None], np.array([1e-5, 1.0, 1.0, 1.0, 1.0, 1.0])
    S = L @ L.T + np.diag(noise)
    assert FactorBlock(1).fit(S, np.column_stack([L, noise])).deviance <= deviance(S, S) + 1e-9
    assert FactorBlock(1).fit(S).deviance > deviance(S, S) + 1e-4  # without a start the floor holds


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
def test_loadings_are_principal_axes_with_the_signs_of_the_columns(q: int) -> None:
    S, signs, model = covariance(factor_rows(1, 9, q)), np.where(np.arange(9) % 3, 1, -1), FactorBlock(q)
    fit = model.fit(S)
    assert fit.state is not None
    L, flipped = model.loadings(fit.state), model.loadings(model.fit(S * np.outer(signs, signs)).state)
    assert L is not None and flipped is not None and L.shape == (9, q)
    assert_allclose(L @ L.T + np.diag(fit.state[:, -1]), fit.covariance, rtol=1e-10)
    assert_allclose(flipped @ flipped.T, (L @ L.T) * np.outer(signs, signs), atol=1e-6)
    inner = L.T @ (L / fit.state[:, -1:])  # diagonal and descending
    assert_allclose(inner, np.diag(inner.diagonal()), atol=1e-8 * inner.max())
    assert (np.diff(inner.diagonal()) <= 0).all()
    white = L / np.sqrt(fit.state[:, -1:])
    assert (np.take_along_axis(white, np.abs(white).argmax(axis=0)[None], axis=0) > 0).all()
    assert FULL.loadings(None) is None and TreeBlock().loadings(np.array([[0.0, 1.0]])) is None


# Trees


def trees(c: int) -> list[list[tuple[int, int]]]:
    """All c^(c−2) labelled trees, by their Prüfer sequences."""
    every = []
    for sequence in product(range(c), repeat=c - 2):
        degree = [1 + sequence.count(j) for j in range(c)]
        edges = []
        for node in sequence:
            leaf = degree.index(1)
            edges.append((leaf, node))
            degree[leaf] -= 1
            degree[node] -= 1
        a, b = (j for j in range(c) if degree[j] == 1)
        every.append([*edges, (a, b)])
    return every


def path(joined: Any, a: int, b: int) -> list[int]:
    """Columns from a to b along the tree."""
    waiting = [[a]]
    while waiting:
        walk = waiting.pop()
        if walk[-1] == b:
            return walk
        waiting += [[*walk, j] for j in np.flatnonzero(joined[walk[-1]]) if j not in walk]
    raise AssertionError("not connected")


@given(seeds, st.integers(2, 5))
def test_the_tree_is_the_best_of_all_trees(seed: int, c: int) -> None:
    # Chow and Liu. From any edges: red if a tree keeps those that it started from, which cost mixtures up to 19 nats.
    S = covariance(factor_rows(seed, c, 2))
    R = correlation(S)
    level = c + np.log(S.diagonal()).sum()
    every = {tuple(edges): level + sum(np.log(1 - R[edge] ** 2) for edge in edges) for edges in trees(c)}
    assert len(every) == c ** (c - 2)
    worst = np.array(max(every, key=lambda edges: every[edges]), dtype=float)
    assert TreeBlock().fit(S).deviance == pytest.approx(min(every.values()), abs=1e-9)
    assert TreeBlock().fit(S, worst).deviance == pytest.approx(min(every.values()), abs=1e-9)


@given(seeds, st.integers(1, 9))
def test_a_tree_has_the_correlations_of_its_edges_and_their_products_along_paths(seed: int, c: int) -> None:
    # Red if a path is followed from the wrong end, or a variance comes from the slope.
    S = covariance(factor_rows(seed, c, 2))
    fit = TreeBlock().fit(S)
    assert fit.state is not None
    joined = np.zeros((c, c), dtype=bool)
    for a, b in fit.state.astype(int):
        joined[a, b] = joined[b, a] = True
    R = correlation(S)
    wanted = [[np.prod([R[e] for e in pairwise(path(joined, a, b))]) for a in range(c)] for b in range(c)]
    assert_allclose(correlation(fit.covariance), wanted, atol=1e-12)
    assert_allclose(fit.covariance.diagonal(), S.diagonal())


@pytest.mark.parametrize("rho", [-0.8, 0.3, 0.95])
def test_a_chain_is_reproduced_exactly_and_copies_of_a_column_have_a_finite_tree(rho: float) -> None:
    c = 9
    order = np.random.default_rng(0).permutation(c)
    S = rho ** np.abs(np.subtract.outer(order, order)) * np.outer(np.arange(1, c + 1), np.arange(1, c + 1))
    fit = TreeBlock().fit(S.astype(float))
    assert_allclose(fit.covariance, S, rtol=1e-10)
    assert fit.deviance == pytest.approx(np.linalg.slogdet(S)[1] + c, abs=1e-9)
    copies = TreeBlock().fit(S[np.ix_([0, 0, 1, 1], [0, 0, 1, 1])])
    assert np.isfinite(copies.deviance) and np.isfinite(copies.covariance).all()


def test_what_is_not_a_state_is_refused() -> None:
    factors, tree, state = FactorBlock(2), TreeBlock(), np.ones((4, 3))
    assert factors.accepts(state, 4) and not factors.accepts(state, 5) and not FactorBlock(1).accepts(state, 4)
    state[2, 2] = 0
    assert not factors.accepts(state, 4)
    assert tree.accepts(np.array([[2.0, 1], [2, 0]]), 3) and tree.accepts(np.empty((0, 2)), 1)
    for wrong in ([[0, 1], [2, 1]], [[0, 1], [1, 0]], [[0, 1], [1, 3]], [[0, 1], [1, 1.5]], [[0, 1]], [[0, 0], [0, 1]]):
        assert not tree.accepts(np.array(wrong, dtype=float), 3)


# Deviances of all nodes of a tree of columns


def module_rows(seed: int, sizes: list[int], n_rows: int = 120) -> Matrix:
    """Rows with a common factor in each group of columns, random signs."""
    rng = np.random.default_rng(seed)
    strengths = [rng.uniform(0.6, 0.8, c) * rng.choice([-1, 1], c) for c in sizes]
    parts = [rng.standard_normal((n_rows, 1)) * s + 0.7 * rng.standard_normal((n_rows, len(s))) for s in strengths]
    return np.concatenate(parts, axis=1)


def ordered(X: Matrix) -> tuple[Matrix, Matrix, IntArray]:
    """Correlation in the order of the leaves, the tree, and the span of each node."""
    R = correlation(covariance(X))
    tree = HierarchicalGrouping().tree(R)
    order, span = spans(tree)
    return R[np.ix_(order, order)], tree, span


@every_model
@pytest.mark.parametrize("seed", range(3))
def test_nodes_are_near_their_optimum_never_below_and_not_offered_too_early(model: BlockModel, seed: int) -> None:
    # Nodes where the shape is not cheaper than a full block are infinite, as are full ones that are too large. Red if a
    # node of one factor starts from nothing, or takes one step.
    sizes = [8, 6, 5, 1, 1]
    R, tree, span = ordered(module_rows(seed, sizes))
    rng, values = np.random.default_rng(0), model.deviances(R, tree, span, 10.0)
    assert values.shape == (len(span),)
    for v in range(len(R), len(span)):
        lo, hi = span[v]
        c, node = hi - lo, R[lo:hi, lo:hi]
        expected_finite = c < 10 if model is FULL else offered(model, c)
        assert np.isfinite(values[v]) == expected_finite
        if not expected_finite:
            continue
        ends = [model.fit(node).deviance]
        if isinstance(model, FactorBlock):  # the likelihood of factors has local optima
            q = model.n_factors
            starts = [np.column_stack([rng.uniform(-0.7, 0.7, (c, q)), np.full(c, 0.5)]) for _ in range(5)]
            ends += [model.fit(node, start).deviance for start in starts]
        assert values[v] >= min(ends) - 1e-5 * c
        if model is FULL:
            assert values[v] == pytest.approx(ends[0], abs=1e-10)
        if model.name == "1 factor" and c <= sizes[0]:
            assert values[v] - ends[0] < 4 / 120, (lo, hi)  # two nats of 120 rows


@pytest.mark.parametrize("seed", range(3))
def test_nodes_of_trees_join_the_trees_of_their_branches_by_the_strongest_correlation(seed: int) -> None:
    R, tree, span = ordered(module_rows(seed, [5, 4, 3]))
    values, p = TreeBlock().deviances(R, tree, span, 119.0), len(R)
    gains = np.zeros(len(span))
    for k, (left, right) in enumerate(tree[:, :2].astype(int)):
        strongest = np.abs(R[slice(*span[left]), slice(*span[right])]).max()
        gains[p + k] = gains[left] + gains[right] + np.log(1 - strongest**2)
        c = span[p + k, 1] - span[p + k, 0]
        if c > 2:
            assert values[p + k] == pytest.approx(c + gains[p + k], abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_third_factor_of_a_node_is_used(seed: int) -> None:
    # 14 columns of three factors: the root must come near its optimum, far below that of two factors.
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 14)) + rng.standard_normal((200, 14))
    R, tree, span = ordered(X)
    two, three = (FactorBlock(q).deviances(R, tree, span, 199.0)[-1] for q in (2, 3))
    ends = [FactorBlock(q).fit(R).deviance for q in (2, 3)]
    assert ends[0] - ends[1] > 0.5
    assert two - three > 0.5 * (ends[0] - ends[1])


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
    assert block_models(own)[1:] == (own,) == block_models((own,))
    # A shape that is named takes the place of full blocks where it is cheaper; among several, full may be chosen.
    assert [c for c in range(1, 7) if offered(block_models(1)[0], c)] == [1, 2, 3]
    assert [c for c in range(1, 7) if offered(block_models("tree")[0], c)] == [1, 2]
    assert given_shape("auto") is FULL and given_shape(1).name == "1 factor"
    assert [model.name for model in block_models(np.int64(2))] == ["full", "2 factors"]


@pytest.mark.parametrize("wrong", ["chain", 0, -1, True, 1.5, None, FullBlock, [1, 2], ()])
def test_other_values_are_refused_with_what_is_allowed(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"block_model=.* must be one of auto, full, tree, a number of factors"):
        block_models(wrong)
