"""E-step: log-densities in double precision whatever the rows, exactly those of the rounded parameters."""

from __future__ import annotations

import numpy as np
import pytest
from mixtures import chunk_log_joint as log_joint
from numpy.testing import assert_allclose

from blockmix.em.block.parameters import Layout, Parameters
from blockmix.rows import Chunk
from blockmix.structure.partition import Partition


def single_column(deviation: float, mean: float = 0.0) -> Parameters:
    return Parameters(np.ones(1), np.full((1, 1), mean), Layout((Partition.single(1),)), np.full(1, deviation))


def chunk(X: np.ndarray) -> Chunk:
    return Chunk(X, np.ones(len(X)), slice(0, len(X)), np.zeros(X.shape[1]), np.ones(X.shape[1]))


@pytest.mark.parametrize("deviation", [0.3, 0.7, 7.7])
def test_the_determinant_is_that_of_the_rounded_whitener(deviation: float) -> None:
    # Red if log|Σ| is that of the parameters in double precision: the density of float32 rows would not integrate to 1.
    (found,) = log_joint(chunk(np.zeros((1, 1), np.float32)), single_column(deviation))[0]
    rounded = float(np.float32(1 / deviation))
    assert rounded != 1 / deviation
    assert found == pytest.approx(np.log(rounded) - 0.5 * np.log(2 * np.pi), rel=1e-14)


@pytest.mark.parametrize("deviation", [0.3, 7.7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_density_integrates_to_one(deviation: float, dtype: type) -> None:
    x = np.linspace(-12, 12, 4001) * deviation + 1
    # In float32 the grid itself is rounded: sum over the rounded grid with its own spacing.
    grid = x.astype(dtype)
    density = np.exp(log_joint(chunk(grid[:, None]), single_column(deviation, mean=1.0))[:, 0])
    assert_allclose(np.trapezoid(density, grid.astype(float)), 1, rtol=1e-7)


def test_rows_and_parameters_are_left_as_they_were() -> None:
    X = np.random.default_rng(0).standard_normal((70, 1))
    before, parameters = X.copy(), single_column(0.7, 0.2)
    first = log_joint(chunk(X), parameters)
    assert_allclose(X, before, rtol=0)
    assert_allclose(log_joint(chunk(X), parameters), first, rtol=0)
