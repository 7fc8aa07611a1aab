"""E-step: log-densities in double precision whatever the rows."""

from __future__ import annotations

import numpy as np
import pytest
from mixtures import chunk_log_joint as log_joint
from numpy.testing import assert_allclose

from blockmix.blocks.blocks import Layout, Parameters
from blockmix.partition import Partition
from blockmix.rows import Chunk


def single_column(deviation: float, mean: float = 0.0) -> Parameters:
    return Parameters(np.ones(1), np.full((1, 1), mean), Layout((Partition.single(1),)), np.full(1, deviation))


def chunk(X: np.ndarray) -> Chunk:
    return Chunk(X, np.ones(len(X)), slice(0, len(X)), np.zeros(X.shape[1]), np.ones(X.shape[1]))


def test_rows_in_single_precision_have_the_density_of_the_same_values_in_double() -> None:
    # Red if anything is computed in single precision: components of a few rows then lose likelihood.
    X = (1 + np.random.default_rng(0).standard_normal((200, 1))).astype(np.float32)
    parameters = single_column(0.001, mean=1 / 3)
    assert_allclose(log_joint(chunk(X), parameters), log_joint(chunk(X.astype(float)), parameters), rtol=1e-14)


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
