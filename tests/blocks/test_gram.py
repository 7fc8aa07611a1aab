"""GramMatrix: read like the dense matrix, and the same answers as from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from blockmix import BlockDiagonalCovariance, GaussianBiclustering
from blockmix.blocks import moments as gram
from blockmix.blocks.moments import (
    GramMatrix,
    Moments,
    correlation,
    definite_correlation,
    entries,
    raised,
    reordered,
    row_squares,
)
from blockmix.blocks.shapes import FULL, BlockModel, FactorBlock, TreeBlock
from blockmix.grouping import HierarchicalGrouping
from blockmix.grouping.kernels import between_branches, spans
from blockmix.grouping.one_table import temper, without

seeds = st.integers(0, 10_000)


def signed(seed: int, p: int = 7, m: int = 5) -> tuple[GramMatrix, np.ndarray]:
    """A matrix with a row taken out and a raised diagonal, and the same as an array."""
    rng = np.random.default_rng(seed)
    rows, out, added = rng.standard_normal((m, p)), 0.1 * rng.standard_normal((1, p)), rng.uniform(0, 1, p)
    return raised(GramMatrix.of(rows) - GramMatrix.of(out), added), rows.T @ rows - out.T @ out + np.diag(added)


@given(seeds)
def test_it_is_read_like_the_array(seed: int) -> None:
    # Red if the diagonal is that of the products, or signs are lost.
    S, dense = signed(seed)
    rng = np.random.default_rng(seed)
    i, j, v, order = rng.permutation(7)[:3], rng.permutation(7)[:4], rng.standard_normal(7), rng.permutation(7)
    stack = rng.permutation(7)[:6].reshape(2, 3)
    assert_allclose(S[:], dense, atol=1e-12)
    assert_allclose(S[2:5], dense[2:5], atol=1e-12)
    assert_allclose(S[np.ix_(i, j)], dense[np.ix_(i, j)], atol=1e-12)
    both = stack[:, :, None], stack[:, None, :]
    assert_allclose(S[both], dense[both], atol=1e-12)
    assert_allclose(S @ v, dense @ v, atol=1e-12)
    assert_allclose(row_squares(S), (dense**2).sum(axis=1))
    assert_allclose(reordered(S, order)[:], dense[np.ix_(order, order)], atol=1e-12)
    assert_allclose((S / 3 + S)[:], dense * 4 / 3, atol=1e-12)
    assert_allclose(correlation(raised(S, np.ones(7)), 0.1)[:], correlation(dense + np.eye(7), 0.1), atol=1e-12)


def few_rows(seed: int, n: int = 12, p: int = 60) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, p)) + np.repeat(rng.standard_normal((n, p // 6)), 6, axis=1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("model", [FULL, FactorBlock(1), FactorBlock(2), TreeBlock()], ids=lambda m: m.name)
def test_nodes_have_the_deviances_of_the_array(model: BlockModel, seed: int) -> None:
    R = definite_correlation(Moments.of(few_rows(seed), as_rows=True).scatter)
    tree = HierarchicalGrouping().tree(R)
    assert_allclose(tree, HierarchicalGrouping().tree(R[:]), rtol=1e-9)
    order, span = spans(tree)
    own = reordered(R, order)
    assert_allclose(model.deviances(own, tree, span, 11.0), model.deviances(own[:], tree, span, 11.0), rtol=1e-7)
    assert_allclose(between_branches(entries(R), tree), between_branches(entries(R[:]), tree), rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_what_auto_does_to_a_correlation_is_the_same(seed: int) -> None:
    # Red if exact copies of a column with rare values are tempered apart.
    X = np.exp(few_rows(seed))
    X[:, 7], X[:, 20] = X[:, 3], -X[:, 4]
    moments = Moments.of(X, as_rows=True)
    R = correlation(moments.scatter)
    squares = (X - moments.mean) ** 2 / moments.variances / np.sqrt(len(X))
    tempered = temper(R, squares)
    assert_allclose(tempered[:], temper(R[:], squares), atol=1e-9)
    assert abs(tempered[:][3, 7]) == pytest.approx(1)
    loadings = np.random.default_rng(seed).uniform(-0.9, 0.9, len(R))
    assert_allclose(without(R, loadings)[:], without(R[:], loadings), atol=1e-4)


@pytest.mark.parametrize("settings", [{}, {"correlation": "pearson", "assume_centered": True}, {"n_groups": 10}])
def test_a_wide_covariance_is_that_of_the_dense_way(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    X = few_rows(0, 30, 300)
    dense = BlockDiagonalCovariance(**settings).fit(X)
    monkeypatch.setattr(gram, "_MANY", 100)
    wide = BlockDiagonalCovariance(**settings).fit(X)
    assert np.array_equal(wide.column_labels_, dense.column_labels_)
    assert wide.block_shapes_ == dense.block_shapes_
    assert_allclose(wide.covariance_, dense.covariance_, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(
    "settings", [{}, {"shared_covariance": True}, {"n_column_groups": 40, "shrinkage": 0.1}, {"tails": "t"}], ids=str
)
def test_a_wide_mixture_is_that_of_the_dense_way(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    X = few_rows(1, 24, 420)
    X[:10] += 1.0
    model = GaussianBiclustering(2, random_state=0, **settings)
    dense = model.fit(X).log_likelihood_trace_, model.column_labels_
    monkeypatch.setattr(gram, "_MANY", 100)
    model.fit(X)
    assert np.array_equal(model.column_labels_, dense[1])
    assert_allclose(model.log_likelihood_trace_, dense[0], rtol=1e-8)
