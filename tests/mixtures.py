"""Random block mixtures with rows, their dense covariances, and comparison of statistics."""

from __future__ import annotations

import numpy as np
import oracles
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from strategies import Matrix, block_rows, covariance, partitions, seeds

from blockmix.em.block.parameters import Parameters, assemble
from blockmix.em.block.sweep import Statistics
from blockmix.rows import ArrayRows
from blockmix.structure.blocks import BlockCovariance


@st.composite
def mixtures(draw: st.DrawFn, max_p: int = 6) -> tuple[ArrayRows, Parameters]:
    """Weighted rows and some mixture with blocks of any sizes, shared or not, joined in batches or not."""
    G, p = draw(st.integers(1, 4)), draw(st.integers(1, max_p))
    shared = draw(st.booleans()) and G > 1
    groups = [draw(partitions(p)) for _ in range(1 if shared else G)]
    rng = np.random.default_rng(draw(seeds))
    n_rows = draw(st.integers(2, 200))
    X = block_rows(rng, n_rows, groups[0]) + 2 * rng.standard_normal((G, p))[rng.integers(0, G, n_rows)]
    rows = ArrayRows(X, rng.integers(0, 3, n_rows) + np.eye(n_rows)[0], np.zeros(p), np.ones(p))
    blocks = [BlockCovariance.of(covariance(block_rows(rng, 3 * p + 2, group)), group) for group in groups]
    covariances = tuple(blocks) * (G if shared else 1)
    return rows, assemble(rng.dirichlet(np.ones(G)), rng.standard_normal((G, p)), covariances)


def dense(parameters: Parameters) -> Matrix:
    return np.stack([block.dense() for block in parameters.covariances])


def responsibilities(X: Matrix, parameters: Parameters) -> Matrix:
    joint = oracles.log_joint(X, parameters.weights, parameters.means, dense(parameters))
    return np.exp(joint - logsumexp(joint, axis=1, keepdims=True))


def labels_of(parameters: Parameters) -> list[list[int]]:
    return [partition.labels.tolist() for partition in parameters.layout.partitions]


def assert_same(found: Statistics, expected: Statistics, **tolerance: float) -> None:
    tolerance = tolerance or {"rtol": 1e-9, "atol": 1e-9}
    assert_allclose(found.log_likelihood, expected.log_likelihood, **tolerance)
    assert_allclose(found.weight, expected.weight, **tolerance)
    assert_allclose(found.first, expected.first, **tolerance)
    for a, b in zip(found.scatter, expected.scatter, strict=True):
        assert_allclose(a, b, **tolerance)
