"""The sweep of a shared covariance against the sweep that knows nothing of it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from blockmix.em.block import sweep as em
from blockmix.em.block import sweep_shared as pooled
from blockmix.em.block.parameters import Layout, Parameters, Prior, assemble
from blockmix.em.block.sweep import centered_scatter, maximize, regrouped
from blockmix.em.loop import Model, first_parameters
from blockmix.grouping.hierarchical import HierarchicalGrouping
from blockmix.rows import ArrayRows
from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray


def shared_mixture(seed: int, N: int = 150, dtype: type = np.float64) -> tuple[ArrayRows, Parameters, FloatArray]:
    rng = np.random.default_rng(seed)
    X = (
        rng.gamma(0.5, 1.0, (N, 9)) @ rng.standard_normal((9, 9))
        + 3 * rng.standard_normal((3, 9))[rng.integers(3, size=N)]
    )
    rows = ArrayRows.standardized(X.astype(dtype), rng.integers(0, 3, N).astype(dtype))
    z = rng.dirichlet(np.ones(3), N).astype(dtype)
    model = Model((3,) * 3, HierarchicalGrouping(), True, Prior(ridge=1e-3), False)
    return rows, first_parameters(rows, z, model), z


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("given", [False, True])
def test_a_pooled_sweep_and_its_m_step_are_those_of_em(seed: int, given: bool) -> None:
    # Red if the common part of the log-likelihood, a weight, or the scatter of the means is left out.
    rows, parameters, z = shared_mixture(seed)
    known = z if given else None
    fast, slow = (sweep(rows, parameters, z=known) for sweep in (pooled.sweep, em.sweep))
    assert_allclose(fast.log_likelihood, slow.log_likelihood, rtol=1e-12)
    assert_allclose(fast.weight, slow.weight, rtol=1e-10)
    assert_allclose(fast.first, slow.first, atol=1e-9)
    prior = Prior(shrinkage=2.0, ridge=0.1)
    new, expected = maximize(fast, parameters, prior), maximize(slow, parameters, prior)
    assert_allclose(new.means, expected.means, atol=1e-10)
    for found, wanted in zip(new.factors, expected.factors, strict=True):
        assert_allclose(found, wanted, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_a_full_pooled_sweep_regroups_as_em_does(seed: int) -> None:
    rows, parameters, _ = shared_mixture(seed)
    layout = Layout((Partition([0, 1, 2, 0, 1, 2, 0, 1, 2]),) * 3, True)
    made = []
    for sweep in (pooled.sweep, em.sweep):
        full = sweep(rows, parameters, full=True)
        made.append(regrouped(full, centered_scatter(full, parameters), layout, Prior(ridge=0.1)))
    for found, wanted in zip(made[0].factors, made[1].factors, strict=True):
        assert_allclose(found, wanted, atol=1e-10)


def test_a_dead_component_leaves_the_others_as_they_are() -> None:
    rows, parameters, z = shared_mixture(0)
    z[:, 0] += z[:, 2]
    z[:, 2] = 0
    fast, slow = (
        maximize(sweep(rows, parameters, z=z), parameters, Prior(ridge=0.1)) for sweep in (pooled.sweep, em.sweep)
    )
    assert_allclose(fast.factors[0], slow.factors[0], atol=1e-10)
    assert np.isfinite(pooled.sweep(rows, fast).log_likelihood)


def test_single_precision_stays_single() -> None:
    rows, parameters, _ = shared_mixture(1, dtype=np.float32)
    fast, slow = pooled.sweep(rows, parameters), em.sweep(rows, parameters)
    assert fast.first.dtype == fast.scatter[0].dtype == np.float32
    assert_allclose(fast.log_likelihood, slow.log_likelihood, rtol=1e-4)


@pytest.mark.parametrize(("N", "shared"), [(8, True), (150, False)])
def test_other_fits_go_the_long_way(N: int, shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Red if a wide table or separate covariances took the way through the total scatter.
    rows, parameters, _ = shared_mixture(2)
    if not shared:
        parameters = assemble(
            parameters.weights,
            parameters.means,
            parameters.covariances[:1] * 1 + tuple(type(c)(c.partition, c.factors) for c in parameters.covariances[1:]),
        )
    rows = ArrayRows(rows.X[:N], rows.weights[:N] + 1, rows.location, rows.scale)
    monkeypatch.setattr(em, "sweep", lambda *_: "the long way")
    assert pooled.sweep(rows, parameters) == "the long way"
