"""EM in pieces: the sweep against a dense mixture of scipy, the maximizer against its literal formula."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracles
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mixtures import assert_same, dense, labels_of, mixtures, responsibilities
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from strategies import partitions, seeds

from blockmix.em.block import e_step as density
from blockmix.em.block import parameters as parameters_module
from blockmix.em.block.e_step import log_joint, posterior
from blockmix.em.block.parameters import Layout, Parameters, Prior, assemble
from blockmix.em.block.sweep import centered_scatter, component_means, maximize, regrouped, sweep
from blockmix.rows import ArrayRows
from blockmix.rows import chunks as chunks_module
from blockmix.structure.blocks import BlockCovariance
from blockmix.structure.partition import Partition


@given(mixtures())
def test_log_density_is_that_of_a_dense_mixture(mixture: tuple[ArrayRows, Parameters]) -> None:
    rows, parameters = mixture
    found = log_joint(rows.X.T, parameters) - 0.5 * rows.n_columns * np.log(2 * np.pi)
    expected = oracles.log_joint(rows.X, parameters.weights, parameters.means, dense(parameters))
    assert_allclose(found.T, expected, rtol=1e-8, atol=1e-8)
    z, density = posterior(found)
    assert_allclose(density, logsumexp(expected, axis=1), rtol=1e-8, atol=1e-8)
    assert_allclose(z.T, responsibilities(rows.X, parameters), atol=1e-7)
    assert_allclose(z.sum(axis=0), 1, rtol=1e-12)


def test_responsibilities_far_from_all_components_are_no_zeros_over_zero() -> None:
    # Red if densities leave log space: exp(−10⁶) is 0.
    z, density = posterior(np.array([[-1e6, -np.inf], [-1e6 + np.log(3), -1e5]]))
    assert_allclose(z, [[0.25, 0], [0.75, 1]])
    assert_allclose(density, [-1e6 + np.log(4), -1e5])


@given(mixtures(), st.booleans())
def test_a_sweep_is_the_literal_e_step(mixture: tuple[ArrayRows, Parameters], given_z: bool) -> None:
    rows, parameters = mixture
    z = responsibilities(rows.X, parameters)
    if given_z:
        z = np.random.default_rng(0).dirichlet(np.ones(z.shape[1]), len(z))
    found = sweep(rows, parameters, full=True, z=z if given_z else None)
    zw = z * rows.weights[:, None]
    assert_allclose(found.weight, zw.sum(axis=0), atol=1e-8)
    assert_allclose(found.first, zw.T @ rows.X, atol=1e-8)
    for g, mean in enumerate(parameters.means):
        assert_allclose(found.scatter[0][g], ((rows.X - mean) * zw[:, [g]]).T @ (rows.X - mean), atol=1e-7)
    if not given_z:
        expected = oracles.log_joint(rows.X, parameters.weights, parameters.means, dense(parameters))
        assert_allclose(found.log_likelihood, rows.weights @ logsumexp(expected, axis=1), rtol=1e-9)


@given(mixtures())
def test_a_block_sweep_is_the_full_sweep_on_the_blocks(mixture: tuple[ArrayRows, Parameters]) -> None:
    rows, parameters = mixture
    found, full = sweep(rows, parameters), sweep(rows, parameters, full=True)
    expected = tuple(
        full.scatter[0][stack.owner[:, None, None], stack.columns[:, :, None], stack.columns[:, None, :]]
        for stack in parameters.layout.stacks
    )
    assert_same(found, replace(full, scatter=expected))


@given(mixtures(), st.integers(1, 600), st.integers(1, 3), st.booleans())
def test_a_sweep_in_chunks_is_a_sweep_of_the_whole(
    mixture: tuple[ArrayRows, Parameters], numbers: int, n_threads: int, full: bool
) -> None:
    rows, parameters = mixture
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks_module, "_CHUNK_NUMBERS", numbers)
        found = sweep(replace(rows, n_threads=n_threads), parameters, full)
        patch.setattr(chunks_module, "_CHUNK_NUMBERS", 10**9)
        assert_same(found, sweep(rows, parameters, full))


@given(mixtures(), st.integers(0, 2**16), st.booleans())
def test_statistics_add_up_in_any_grouping(mixture: tuple[ArrayRows, Parameters], cut: int, full: bool) -> None:
    rows, parameters = mixture
    a, b = sorted((cut % (rows.n_rows + 1), cut // 256 % (rows.n_rows + 1)))
    # A component or a part may have no rows at all.
    parts = [
        sweep(replace(rows, X=rows.X[part], weights=rows.weights[part]), parameters, full)
        for part in (slice(0, a), slice(a, b), slice(b, None))
        if len(rows.X[part])
    ]
    left, right = parts[0], parts[-1]
    for part in parts[1:]:
        left = left + part
    for part in reversed(parts[:-1]):
        right = part + right
    assert_same(left, right)
    assert_same(left, sweep(rows, parameters, full))


@given(mixtures(), st.floats(0, 20), st.floats(0.01, 5))
def test_the_maximizer_is_its_formula(mixture: tuple[ArrayRows, Parameters], shrinkage: float, ridge: float) -> None:
    # Red if the scatter stays about the old means, if κ counts once for a shared covariance, or ρ is left out.
    rows, parameters = mixture
    statistics = sweep(rows, parameters)
    assume(not statistics.dead.any())  # these have a test of their own
    new = maximize(statistics, parameters, Prior(shrinkage, ridge))
    z = responsibilities(rows.X, parameters)
    shared = parameters.layout.shared
    expected = oracles.m_step(rows.X, z, labels_of(parameters), rows.weights, shrinkage, ridge, shared)
    assert_allclose(new.weights, expected[0], atol=1e-9)
    assert_allclose(new.means, expected[1], rtol=1e-6, atol=1e-7)
    assert_allclose(dense(new), expected[2], rtol=1e-5, atol=1e-6)
    assert new.layout is parameters.layout


@given(mixtures(), st.data())
def test_a_regroup_is_the_maximizer_of_other_blocks(mixture: tuple[ArrayRows, Parameters], data: st.DataObject) -> None:
    rows, parameters = mixture
    shared, G = parameters.layout.shared, len(parameters.weights)
    groups = [data.draw(partitions(rows.n_columns)) for _ in range(1 if shared else G)]
    layout = Layout(tuple(groups) * (G if shared else 1), shared)
    full = sweep(rows, parameters, full=True)
    assume(not full.dead.any())
    new = regrouped(full, centered_scatter(full, parameters), layout, Prior(0.5, 0.1))
    z = responsibilities(rows.X, parameters)
    labels = [partition.labels.tolist() for partition in layout.partitions]
    expected = oracles.m_step(rows.X, z, labels, rows.weights, 0.5, 0.1, shared)
    assert_allclose(new.weights, expected[0], atol=1e-9)
    assert_allclose(new.means, expected[1], rtol=1e-6, atol=1e-7)
    assert_allclose(dense(new), expected[2], rtol=1e-5, atol=1e-6)


@given(mixtures(), st.floats(0, 10), st.floats(0, 10))
def test_the_prior_is_its_formula(mixture: tuple[ArrayRows, Parameters], shrinkage: float, ridge: float) -> None:
    _, parameters = mixture
    found = Prior(shrinkage, ridge).value(parameters)
    assert_allclose(found, oracles.penalty(dense(parameters), shrinkage, ridge), rtol=1e-7, atol=1e-9)


@given(mixtures())
def test_whole_covariances_are_the_same_as_their_blocks(mixture: tuple[ArrayRows, Parameters]) -> None:
    # Few columns are worked on whole, with zeros between the blocks, many block by block: both must be the one mixture.
    rows, parameters = mixture
    found = []
    for limit in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(parameters_module, "_WHOLE", limit)
            again = assemble(parameters.weights, parameters.means, parameters.covariances)
            sizes = [stack.columns.shape[1] for stack in again.layout.stacks]
            assert (again.layout.stacks[0].mask is not None) == bool(limit)
            assert not (limit or again.layout.shared) or len(sizes) == len(set(sizes))
            new = maximize(sweep(rows, again), again, Prior(1.0, 1.0))
            found.append((again.logdets, again.precision_traces, new.means, dense(new)))
    for a, b in zip(*found, strict=True):
        assert_allclose(a, b, rtol=1e-9, atol=1e-10)


@given(mixtures(), st.booleans())
def test_few_and_many_numbers_have_the_same_moments(mixture: tuple[ArrayRows, Parameters], full: bool) -> None:
    # Few numbers are worked on in one call for all components, many component by component, without the rows whose
    # responsibility is nothing; more than that are not even centered for all components at once.
    rows, parameters = mixture
    parameters = replace(
        parameters, means=parameters.means * np.array([[1.0], [60.0], [-60.0], [120.0]])[: len(parameters.means)]
    )
    found = []
    for few, many in ((10**9, 10**9), (0, 10**9), (0, 0)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(density, "_FEW", few)
            patch.setattr(density, "_MANY", many)
            found.append(sweep(rows, parameters, full=full))
    for other in found[1:]:
        assert_same(found[0], other, rtol=1e-9, atol=1e-7)


@given(mixtures(), seeds)
def test_means_of_given_responsibilities(mixture: tuple[ArrayRows, Parameters], seed: int) -> None:
    rows, _ = mixture
    z = np.random.default_rng(seed).dirichlet(np.ones(3), rows.n_rows)
    share = z * rows.weights[:, None]
    assert_allclose(component_means(rows, z), (share.T @ rows.X) / share.sum(axis=0)[:, None], rtol=1e-9, atol=1e-9)


@given(mixtures())
def test_covariances_assemble_to_the_parameters_they_come_from(mixture: tuple[ArrayRows, Parameters]) -> None:
    _, parameters = mixture
    again = assemble(parameters.weights, parameters.means, parameters.covariances)
    assert again.layout.partitions == parameters.layout.partitions
    assert again.layout.shared == parameters.layout.shared
    assert_allclose(dense(again), dense(parameters))
    assert (len(set(map(id, again.covariances))) == 1) == (again.layout.shared or len(again.weights) == 1)
    expected = [oracles.n_parameters(labels) for labels in labels_of(parameters)]
    assert parameters.layout.n_parameters == (expected[0] if parameters.layout.shared else sum(expected))
    assert_allclose(parameters.logdets, np.linalg.slogdet(dense(parameters))[1], atol=1e-8)
    assert_allclose(parameters.precision_traces, [np.trace(np.linalg.inv(S)) for S in dense(parameters)], rtol=1e-8)


@given(mixtures(), seeds)
def test_in_other_units_it_is_the_same_mixture(mixture: tuple[ArrayRows, Parameters], seed: int) -> None:
    rows, parameters = mixture
    rng = np.random.default_rng(seed)
    location, scale = rng.standard_normal(rows.n_columns), rng.uniform(0.1, 10, rows.n_columns)
    moved = parameters.in_units(location, scale)
    assert_allclose(dense(moved), dense(parameters) * np.outer(scale, scale), rtol=1e-9, atol=1e-12)
    before = log_joint(rows.X.T, parameters)
    after = log_joint((rows.X * scale + location).T, moved)
    assert_allclose(after, before - np.log(scale).sum(), rtol=1e-7, atol=1e-7)
    back = moved.in_units(-location / scale, 1 / scale)
    assert_allclose(back.means, parameters.means, atol=1e-10)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("prior", [Prior(), Prior(ridge=1e-6), Prior(shrinkage=2.0, ridge=1e-6)])
@pytest.mark.parametrize("left", [0.0, 1e-300, 1e-12])
def test_a_component_without_weight_is_finite_and_takes_nothing_from_the_others(
    shared: bool, prior: Prior, left: float
) -> None:
    # Red if its moments are divided by its weight.
    X = np.random.default_rng(0).standard_normal((60, 4))
    rows = ArrayRows.standardized(X)
    z = np.zeros((60, 3))
    z[:30, 0], z[30:, 1], z[:, 2] = 1, 1, left / 60
    partition = Partition([0, 0, 1, 2])
    S = BlockCovariance.of(np.eye(4), partition)
    old = assemble(np.full(3, 1 / 3), np.zeros((3, 4)), (S,) * 3)
    old = replace(old, layout=Layout((partition,) * 3, shared))
    statistics = sweep(rows, old, z=z)
    assert statistics.dead.tolist() == [False, False, True]
    new = maximize(statistics, old, prior)
    assert all(np.isfinite(values).all() for values in (new.weights, new.means, dense(new), new.logdets))
    values = (rows.X - rows.location) / rows.scale
    expected = oracles.m_step(values, z[:, :2], labels_of(old)[:2], np.ones(60), prior.shrinkage, prior.ridge)
    assert_allclose(new.weights, [*expected[0], 0], atol=1e-9)
    assert_allclose(new.means[:2], expected[1], atol=1e-9)
    if not shared:
        assert_allclose(dense(new)[:2], expected[2], atol=1e-9)
    again = sweep(rows, new)
    assert np.isfinite(again.log_likelihood)
    assert again.weight[2] <= 1e-9


def test_the_penalty_of_a_component_does_not_grow_when_it_dies() -> None:
    # Red if a dead component gets the overall variances: just before it died its variances were ρ/n, far larger.
    rows = ArrayRows.standardized(np.random.default_rng(0).standard_normal((60, 4)))
    partition, prior = Partition.single(4), Prior(ridge=1e-4)
    S = BlockCovariance.of(np.eye(4), partition)
    old = assemble(np.full(2, 0.5), np.zeros((2, 4)), (S, BlockCovariance.of(np.eye(4), partition)))

    def penalty(left: float) -> float:
        z = np.column_stack([np.full(60, 1 - left), np.full(60, left)])
        return prior.value(maximize(sweep(rows, old, z=z), old, prior))

    assert penalty(1.1e-10) <= penalty(0.9e-10) + 1e-12
    assert penalty(0.9e-10) - penalty(1.1e-10) < 1e-6


def test_a_component_without_variance_is_refused_only_without_a_ridge() -> None:
    X = np.random.default_rng(0).standard_normal((20, 3))
    rows = ArrayRows(X, np.ones(20), np.zeros(3), np.ones(3))
    z = np.column_stack([np.ones(20), np.zeros(20)])
    z[5] = [0, 1]
    S = BlockCovariance.of(np.eye(3), Partition([0, 0, 1]))
    old = assemble(np.full(2, 0.5), np.stack([X[0], X[5]]), (S, BlockCovariance.of(np.eye(3), Partition.separate(3))))
    with pytest.raises(ValueError) as caught:
        maximize(sweep(rows, old, z=z), old, Prior())
    assert str(caught.value) == "component 1 has no variance in some column: give a ridge above 0"
    assert_allclose(dense(maximize(sweep(rows, old, z=z), old, Prior(ridge=0.3)))[1], 0.3 * np.eye(3))


@given(mixtures(), st.booleans())
def test_float32_stays_float32(mixture: tuple[ArrayRows, Parameters], full: bool) -> None:
    rows, parameters = mixture
    narrow = replace(rows, X=rows.X.astype(np.float32), weights=rows.weights.astype(np.float32))
    narrow = replace(narrow, location=narrow.location.astype(np.float32), scale=narrow.scale.astype(np.float32))
    old = replace(
        parameters,
        weights=parameters.weights.astype(np.float32),
        means=parameters.means.astype(np.float32),
        factors=tuple(factor.astype(np.float32) for factor in parameters.factors),
    )
    found = sweep(narrow, old, full)
    assert {array.dtype for array in (found.weight, found.first, *found.scatter)} == {np.dtype(np.float32)}
    assert_same(found, sweep(rows, parameters, full), rtol=1e-2, atol=1e-2 * rows.total_weight)
    if not full:
        new = maximize(found, old, Prior(1.0, 1.0))
        arrays = (new.weights, new.means, *new.factors)
        assert {array.dtype for array in arrays} == {np.dtype(np.float32)}
        assert new.in_units(narrow.location, narrow.scale).factors[0].dtype == np.float32
