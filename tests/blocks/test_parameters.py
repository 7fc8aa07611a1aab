"""Parameters: where blocks lie in flat arrays, their factors against NumPy's, and the same mixture in other units."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from blockmix.em.m_step import solve
from hypothesis import given
from hypothesis import strategies as st
from mixtures import dense, labels_of, log_joint, mixture, mixtures, unpacked
from numpy.testing import assert_allclose, assert_array_equal
from strategies import block_rows, covariance, partitions, seeds

from blockmix.blocks.blocks import Blocks, Layout, Parameters, Prior, assemble
from blockmix.partition import Partition
from blockmix.rows import ArrayRows


@given(st.lists(partitions(5), min_size=1, max_size=4), st.booleans())
def test_a_layout_holds_every_block_of_every_component_once(groups: list[Partition], shared: bool) -> None:
    G = len(groups)
    shared = shared and G > 1
    layout = Layout(tuple(groups[:1] * G if shared else groups), shared)
    assert layout.first[-1] == len(layout.blocks)
    taken = np.zeros((G, layout.size), dtype=int)
    for g, partition in enumerate(layout.partitions):
        own = layout.blocks[layout.first[g] : layout.first[g + 1]]
        assert [layout.order[g, lo:hi].tolist() for lo, hi, _ in own] == [group.tolist() for group in partition.groups]
        for lo, hi, at in own:
            taken[g, at : at + (hi - lo) ** 2] += 1
    # A shared covariance has one place for all components, others lie one after the other.
    owner = np.repeat(np.arange(len(layout.distinct)), [(partition.sizes**2).sum() for partition in layout.distinct])
    assert_array_equal(taken, [np.ones(layout.size)] * G if shared else np.eye(G, dtype=int)[owner].T)
    assert len(layout.distinct) * layout.n_sharing == G
    flat = np.zeros(layout.size)
    flat[layout.diagonal] = np.arange(layout.diagonal.size) + 1
    by_column = np.diagonal(unpacked(flat, layout), axis1=1, axis2=2)
    own_order = np.take_along_axis(by_column, layout.order[: len(layout.distinct)], axis=1)
    assert_array_equal(own_order.ravel(), np.arange(layout.diagonal.size) + 1)
    expected = [oracles.n_parameters(partition.labels) for partition in layout.distinct]
    assert layout.n_parameters == sum(expected)


@given(mixtures())
def test_covariances_assemble_to_the_parameters_they_come_from(mixture: tuple[ArrayRows, Parameters]) -> None:
    _, parameters = mixture
    again = assemble(parameters.weights, parameters.means, parameters.covariances)
    assert again.layout.partitions == parameters.layout.partitions
    assert again.layout.shared == parameters.layout.shared
    assert_array_equal(again.factors, parameters.factors)
    assert (len(set(map(id, again.covariances))) == 1) == (again.layout.shared or len(again.weights) == 1)


@given(mixtures())
def test_determinants_and_traces_are_those_of_dense_matrices(mixture: tuple[ArrayRows, Parameters]) -> None:
    _, parameters = mixture
    sigma = dense(parameters)
    assert_allclose(sigma, [oracles.block_diagonal(S, k) for S, k in zip(sigma, labels_of(parameters), strict=True)])
    assert_allclose(parameters.logdets, np.linalg.slogdet(sigma)[1], atol=1e-8)
    assert_allclose(parameters.precisions, [np.diagonal(np.linalg.inv(S)) for S in sigma], rtol=1e-8)


@pytest.mark.parametrize("p", [1, 2, 47, 48, 49, 80])
@pytest.mark.parametrize("shared", [False, True])
def test_large_blocks_are_factored_by_lapack_and_small_ones_by_kernels_alike(p: int, shared: bool) -> None:
    # One large block, small ones before and after it, in columns that are mixed.
    rng = np.random.default_rng(p)
    labels = rng.permutation(np.repeat([0, 1, 2], [3, p, 2]))
    groups = [Partition(labels), Partition(labels[::-1])]
    _, parameters = mixture(rng, 5, groups[:1] * 2 if shared else groups, shared)
    layout = parameters.layout
    blocks = [own.blocks for own in parameters.covariances[: len(layout.distinct)]]
    flat = np.concatenate([block.ravel() for own in blocks for block in own])
    assert_allclose(solve(layout, flat, {}).factors, parameters.factors, rtol=1e-9, atol=1e-10)
    expected = []
    for own, whole in zip(layout.distinct, parameters.covariances, strict=False):
        inverse = np.linalg.inv(whole.factor())
        expected += [inverse[np.ix_(group, group)].ravel() for group in own.groups]
    assert_allclose(parameters.whiteners, np.concatenate(expected), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("c", [2, 3, 48, 60])
def test_a_block_that_rounding_made_singular_is_raised_on_its_diagonal(c: int) -> None:
    # Copies of one column among blocks that are not singular. Red if a failed block stops those after it.
    layout = Layout((Partition(np.repeat([0, 1, 2, 3, 4], [1, c, 2, c, 1])),))
    blocks = [np.full((c, c), 2.0), np.array([[4.0, 1.0], [1.0, 4.0]]), np.full((c, c), 3.0), np.eye(1), 9 * np.eye(1)]
    blocks.sort(key=len, reverse=True)  # as groups are numbered
    factors = solve(layout, np.concatenate([block.ravel() for block in blocks]), {}).factors
    assert np.isfinite(factors).all()
    assert (factors[layout.diagonal] > 0).all()
    for (lo, hi, at), block in zip(layout.blocks.tolist(), blocks, strict=True):
        L = factors[at : at + (hi - lo) ** 2].reshape(hi - lo, -1)
        assert_allclose(L @ L.T, block, rtol=1e-5)
        assert_array_equal(L, np.tril(L))


def test_a_block_with_nan_is_refused() -> None:
    layout = Layout((Partition.single(2),))
    with pytest.raises(ValueError, match="a block of 2 columns has no positive definite covariance"):
        solve(layout, np.array([1.0, 0.0, np.nan, 1.0]), {})


@given(mixtures(), seeds)
def test_in_other_units_it_is_the_same_mixture(mixture: tuple[ArrayRows, Parameters], seed: int) -> None:
    rows, parameters = mixture
    rng = np.random.default_rng(seed)
    location, scale = rng.standard_normal(rows.n_columns), rng.uniform(0.1, 10, rows.n_columns)
    moved = parameters.in_units(location, scale)
    assert_allclose(dense(moved), dense(parameters) * np.outer(scale, scale), rtol=1e-9, atol=1e-12)
    assert moved.layout is parameters.layout
    other = ArrayRows(
        ((rows.X - rows.location) / rows.scale) * scale + location, rows.weights, 0 * location, 0 * scale + 1
    )
    assert_allclose(log_joint(other, moved), log_joint(rows, parameters) - np.log(scale).sum(), rtol=1e-7, atol=1e-7)
    back = moved.in_units(-location / scale, 1 / scale)
    assert_allclose(back.means, parameters.means, atol=1e-10)
    assert_allclose(back.factors, parameters.factors, rtol=1e-12)


def test_moved_parameters_keep_their_covariances_and_leave_the_old_ones_as_they_were() -> None:
    _, old = mixture(np.random.default_rng(0), 5, [Partition([0, 0, 1])] * 2)
    before = old.means.copy()
    new = old.moved(np.array([1.0, 0.0]), old.means + 1)
    assert new.factors is old.factors
    assert_array_equal(old.means, before)
    assert_array_equal(new.means, before + 1)


@given(mixtures(), st.floats(0, 10), st.floats(0, 10))
def test_the_prior_is_its_formula(mixture: tuple[ArrayRows, Parameters], shrinkage: float, ridge: float) -> None:
    _, parameters = mixture
    found = Prior(shrinkage, ridge).value(parameters)
    assert_allclose(found, oracles.penalty(dense(parameters), shrinkage, ridge), rtol=1e-7, atol=1e-9)


def test_one_object_in_all_places_is_a_shared_covariance_and_equal_ones_are_not() -> None:
    rng = np.random.default_rng(0)
    S = covariance(block_rows(rng, 20, Partition([0, 0, 1])))
    one, other = (Blocks.of(S, Partition([0, 0, 1])) for _ in range(2))
    assert assemble(np.full(2, 0.5), np.zeros((2, 3)), (one, one)).layout.shared
    assert not assemble(np.full(2, 0.5), np.zeros((2, 3)), (one, other)).layout.shared
    assert not assemble(np.ones(1), np.zeros((1, 3)), (one,)).layout.shared
