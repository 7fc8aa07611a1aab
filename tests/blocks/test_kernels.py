"""Compiled loops of the shapes: EM of factors step by step, and deviances of all nodes of a tree of columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import Matrix, covariance, seeds

from blockmix.blocks.kernels import factor_step, workspace
from blockmix.blocks.moments import correlation, entries
from blockmix.blocks.shapes import FULL, BlockModel, FactorBlock, TreeBlock
from blockmix.grouping import HierarchicalGrouping
from blockmix.grouping.kernels import spans
from blockmix.partition import IntArray


def deviance(sigma: Matrix, S: Matrix) -> float:
    return float(np.linalg.slogdet(sigma)[1] + np.trace(np.linalg.solve(sigma, S)))


def module_rows(seed: int, sizes: list[int], n_rows: int = 120, strength: float = 0.5, q: int = 1) -> Matrix:
    """Rows with q common factors in each group of columns, random signs."""
    rng = np.random.default_rng(seed)
    parts = []
    for c in sizes:
        loadings = rng.uniform(0.8, 1.2, (q, c)) * rng.choice([-1, 1], (q, c)) * np.sqrt(strength / q)
        parts.append(
            rng.standard_normal((n_rows, q)) @ loadings + np.sqrt(1 - strength) * rng.standard_normal((n_rows, c))
        )
    return np.concatenate(parts, axis=1)


def ordered(X: Matrix) -> tuple[Matrix, Matrix, IntArray]:
    """Correlation in the order of the leaves, the tree, and the span of each node."""
    R = correlation(covariance(X))
    tree = HierarchicalGrouping().tree(R)
    order, span = spans(tree)
    return R[np.ix_(order, order)], tree, span


def optimum(model: BlockModel, R: Matrix) -> float:
    """Least deviance of several starts: the likelihood of factors has local optima."""
    ends = [model.fit(R).deviance]
    if isinstance(model, FactorBlock):
        rng, c = np.random.default_rng(0), len(R)
        starts = [np.column_stack([rng.uniform(-0.7, 0.7, (c, model.n_factors)), np.full(c, 0.5)]) for _ in range(20)]
        ends += [model.fit(R, start).deviance for start in starts]
    return min(ends)


@given(seeds, st.integers(2, 15), st.integers(1, 3), st.integers(2, 80), st.sampled_from([1e-4, 0.005, 0.3]))
@settings(max_examples=60)
def test_no_step_raises_the_deviance(seed: int, c: int, q: int, n_rows: int, floor: float) -> None:
    # Whether the floor binds or not. Red if noise is not the minimum given Λ, or Θ lacks M⁻¹.
    rng = np.random.default_rng(seed)
    S = covariance(module_rows(seed, [c], n_rows, q=q)) + 1e-3 * np.eye(c)
    least = floor * S.diagonal()
    loadings, noise = rng.standard_normal((q, c)), np.maximum(rng.uniform(0.1, 2, c), least)
    before = np.inf
    for _ in range(30):
        dense = deviance(loadings.T @ loadings + np.diag(noise), S)
        found = factor_step(entries(S), 0, c, loadings, noise, least, workspace(entries(S), q, c))
        assert found == pytest.approx(dense, rel=1e-9, abs=1e-9)  # of what the step began with
        assert found <= before + 1e-9 * (1 + abs(before))
        assert (noise >= least).all()
        before = found


def test_a_step_is_that_of_parameter_expanded_em() -> None:
    # The literal formulas, with a Cholesky factor C of Θ.
    rng = np.random.default_rng(0)
    S = covariance(module_rows(0, [7], q=2))
    L, psi = rng.standard_normal((7, 2)), rng.uniform(0.5, 1, 7)
    M = np.eye(2) + L.T @ np.diag(1 / psi) @ L
    B = np.diag(1 / psi) @ L @ np.linalg.inv(M)
    C = np.linalg.cholesky(np.linalg.inv(M) + B.T @ S @ B)
    expected = S @ B @ np.linalg.inv(C).T
    loadings, noise = np.ascontiguousarray(L.T), psi.copy()
    factor_step(entries(S), 0, 7, loadings, noise, np.zeros(7), workspace(entries(S), 2, 7))
    assert_allclose(loadings, expected.T, rtol=1e-10)
    assert_allclose(noise, S.diagonal() - (expected**2).sum(axis=1), rtol=1e-10)


@pytest.mark.parametrize(
    "model", [FULL, FactorBlock(1), FactorBlock(2), FactorBlock(3), TreeBlock()], ids=lambda m: m.name
)
@pytest.mark.parametrize("seed", range(5))
def test_no_node_is_below_its_optimum_or_offered_too_early(model: BlockModel, seed: int) -> None:
    # Nodes where the shape is not cheaper than a full block are infinite, all others finite.
    R, tree, span = ordered(module_rows(seed, [6, 5, 4, 1, 1]))
    found = model.deviances(R, tree, span, 119.0)
    assert found.shape == (len(span),)
    for v in range(len(R), len(span)):
        lo, hi = span[v]
        c = hi - lo
        cheaper = model.n_parameters(c) < c * (c + 1) // 2 or model is FULL
        assert np.isfinite(found[v]) == cheaper
        if cheaper:
            assert found[v] >= optimum(model, R[lo:hi, lo:hi]) - 1e-5 * c


@pytest.mark.parametrize("seed", range(5))
def test_full_nodes_are_exact_up_to_the_largest(seed: int) -> None:
    R, tree, span = ordered(module_rows(seed, [6, 5, 4]))
    found = FULL.deviances(R, tree, span, 7.0)
    for v, (lo, hi) in enumerate(span):
        expected = FULL.fit(R[lo:hi, lo:hi]).deviance if hi - lo < 7 else np.inf
        assert found[v] == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("sizes", [[8, 8, 8], [20, 5, 1, 1]])
@pytest.mark.parametrize("seed", range(4))
def test_nodes_of_one_factor_are_near_their_optimum(sizes: list[int], seed: int) -> None:
    # Within modules, where the shape is right. Red if a node starts from nothing, or takes one step.
    R, tree, span = ordered(module_rows(seed, sizes))
    model = FactorBlock(1)
    found = model.deviances(R, tree, span, 119.0)
    for v in range(len(R), len(span)):
        lo, hi = span[v]
        if np.isfinite(found[v]) and hi - lo <= sizes[0]:
            best = model.fit(R[lo:hi, lo:hi]).deviance
            assert found[v] - best < 2 / 120 * 2, (lo, hi)  # two nats of 120 rows


@pytest.mark.parametrize("seed", range(5))
def test_nodes_of_trees_join_the_trees_of_their_branches(seed: int) -> None:
    # A spanning tree of the columns of the node: never better than the best, and the best where two columns join.
    R, tree, span = ordered(module_rows(seed, [5, 4, 3]))
    found = TreeBlock().deviances(R, tree, span, 119.0)
    p = len(R)
    edges: list[list[tuple[int, int]]] = [[] for _ in span]
    for k, (left, right) in enumerate(tree[:, :2].astype(int)):
        a, b = (range(*span[child]) for child in (left, right))
        joint = max(((i, j) for i in a for j in b), key=lambda pair: abs(R[pair]))
        edges[p + k] = [*edges[left], *edges[right], joint]
        lo, hi = span[p + k]
        assert len(edges[p + k]) == hi - lo - 1
        if hi - lo > 2:
            literal = hi - lo + sum(np.log(1 - R[pair] ** 2) for pair in edges[p + k])
            assert found[p + k] == pytest.approx(literal, abs=1e-9)
            assert found[p + k] >= TreeBlock().fit(R[lo:hi, lo:hi]).deviance - 1e-9


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
