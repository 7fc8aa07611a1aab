"""The shortcut for a shared covariance against the plain sweep."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from blockmix.em.m_step import maximize
from hypothesis import given
from hypothesis import strategies as st
from mixtures import Fixed, assert_same, dense, family, mixture, rounded, unpacked
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning
from strategies import partitions, seeds

from blockmix import GaussianBiclustering
from blockmix.blocks.blocks import Parameters, Prior
from blockmix.em import sweep as module
from blockmix.em.sweep import applies, sweep, sweep_shared
from blockmix.partition import Partition
from blockmix.rows import ArrayRows, Chunk

GROUPS = [Partition([0, 1, 2, 0, 1, 2, 0, 1, 2])] * 3


def shared_mixture(seed: int, n_rows: int = 150, dtype: Any = float) -> tuple[ArrayRows, Parameters]:
    return mixture(np.random.default_rng(seed), n_rows, GROUPS, True, dtype)


@given(seeds, partitions(6), st.integers(2, 4), st.integers(7, 150), st.booleans())
def test_the_shortcut_has_the_statistics_of_the_plain_sweep(
    seed: int, partition: Partition, G: int, n_rows: int, is_rounded: bool
) -> None:
    # Red if the part that all components have in common, a weight, the scatter of the means or Δ is left out.
    rows, parameters = mixture(np.random.default_rng(seed), n_rows, [partition] * G, True)
    rows = rounded(rows) if is_rounded else rows
    assert applies(rows, parameters)
    found, expected = sweep_shared(rows, parameters), sweep(rows, parameters)
    size = rows.total_weight * (1 + np.abs(parameters.means).max()) ** 2
    assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=1e-10)
    assert_allclose(found.weight, expected.weight, rtol=1e-9, atol=1e-10)
    assert_allclose(found.excess, expected.excess, atol=1e-10 * size)
    # The shortcut has Δ in its scatter already.
    layout = parameters.layout
    blur = layout.pooled(expected.blur)[:, :, None] * np.eye(rows.n_columns)
    assert (found.blur == 0).all()
    assert_allclose(unpacked(found.scatter, layout), unpacked(expected.scatter, layout) + blur, atol=1e-10 * size)


@pytest.mark.parametrize("prior", [Prior(ridge=0.1), Prior(shrinkage=2.0, ridge=0.1)])
def test_an_m_step_after_either_sweep_is_the_same(prior: Prior) -> None:
    rows, parameters = shared_mixture(0)
    new, expected = (maximize(read(rows, parameters), parameters, prior) for read in (sweep_shared, sweep))
    assert_allclose(new.means, expected.means, atol=1e-10)
    assert_allclose(dense(new), dense(expected), atol=1e-10)


def test_a_component_without_rows_leaves_the_others_as_they_are() -> None:
    rows, parameters = shared_mixture(0)
    parameters = parameters.moved(np.array([0.5, 0.5, 0.0]), parameters.means)
    found, expected = sweep_shared(rows, parameters), sweep(rows, parameters)
    assert found.weight[2] == 0
    assert_same(found, expected, rtol=1e-9, atol=1e-8)
    assert np.isfinite(dense(maximize(found, parameters, Prior(ridge=0.1)))).all()


def test_float32_rows_have_statistics_in_double() -> None:
    rows, parameters = shared_mixture(1, dtype=np.float32)
    found = sweep_shared(rows, parameters)
    exact = sweep_shared(replace(rows, X=rows.X.astype(float)), parameters)
    assert found.excess.dtype == found.scatter.dtype == np.float64
    assert_same(found, exact, rtol=1e-12, atol=1e-10)  # values are standardized in double


@pytest.mark.parametrize(("n_rows", "shared"), [(8, True), (150, False)])
def test_a_wide_table_or_covariances_of_their_own_take_the_plain_sweep(n_rows: int, shared: bool) -> None:
    rows, parameters = mixture(np.random.default_rng(2), n_rows, GROUPS, shared)
    assert not applies(rows, parameters)
    chosen = family(rows, 3, 3, 3, grouping=Fixed(GROUPS[0]), shared=shared)
    assert_same(chosen.sweep(rows, parameters), sweep(rows, parameters), rtol=0, atol=0)


@pytest.mark.parametrize("noise", [0.0, 1e-4, 1e-2])
def test_copies_of_columns_do_not_lower_the_trace(noise: float) -> None:
    # Red if the shortcut is taken where it loses the digits of the difference of two columns: -1e-7 per row.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 4))
    X[:100] += 2
    X = np.column_stack([X, X[:, 1] + noise * rng.normal(size=300)])
    model = GaussianBiclustering(3, shared_covariance=True, init="kmeans", tol=0, max_iter=100, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # tol=0
        trace = model.fit(X).log_likelihood_trace_
    assert np.diff(trace).min() > -1e-11 * len(X)


@dataclass(frozen=True, eq=False)
class Counted(ArrayRows):
    """Rows that count how often they are read."""

    passes: list[int] | None = None

    def map(self, function: Callable[[Chunk], Any]) -> Iterator[Any]:
        assert self.passes is not None
        self.passes.append(1)
        return super().map(function)


def test_the_total_scatter_is_read_once_for_the_same_rows() -> None:
    rows, parameters = shared_mixture(3)
    counted = Counted(rows.X, rows.weights, rows.location, rows.scale, passes=[])
    first = sweep_shared(counted, parameters)
    assert counted.passes is not None
    assert len(counted.passes) == 2
    assert_same(sweep_shared(counted, parameters), first, rtol=0, atol=0)
    assert len(counted.passes) == 3
    # Other rows have another one.
    other = replace(counted, X=counted.X + 1)
    assert sweep_shared(other, parameters).log_likelihood != first.log_likelihood


def test_the_total_scatter_goes_with_its_rows() -> None:
    # Red if every table that was ever fitted is kept.
    gc.collect()
    before = len(module._totals)
    rows, parameters = shared_mixture(4)
    sweep_shared(rows, parameters)
    assert len(module._totals) == before + 1
    del rows
    gc.collect()
    assert len(module._totals) == before
