"""What the laws range over: partitions, covariances of every rank, rows with and without blocks.

Matrices come from a drawn seed, not from drawn entries: drawn entries are full of ties, and on a tie two right answers
exist. Ties have tests of their own.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from blockmix.partition import Partition

Matrix = NDArray[np.float64]

seeds = st.integers(0, 2**32 - 1)

# test_sources.py fits every format of scipy.sparse instead.
SPARSE_CHECKS = {
    f"check_estimator_sparse_{kind}": "takes whoever has predict_proba and fits sparse rows for a classifier"
    for kind in ("array", "matrix")
}


@st.composite
def partitions(draw: st.DrawFn, p: int) -> Partition:
    return Partition(draw(st.lists(st.integers(0, p - 1), min_size=p, max_size=p)))


@st.composite
def covariances(draw: st.DrawFn, min_p: int = 2, max_p: int = 8) -> Matrix:
    """A positive definite S with columns of very different scale."""
    p = draw(st.integers(min_p, max_p))
    rng = np.random.default_rng(draw(seeds))
    n_rows = draw(st.integers(2 * p + 2, 5 * p + 5))
    return covariance(block_rows(rng, n_rows, draw(partitions(p))) * 10.0 ** rng.uniform(-3, 3, p))


@st.composite
def singular_covariances(draw: st.DrawFn, max_p: int = 10) -> Matrix:
    """Fewer rows than columns, or columns that are copies of others up to sign and scale."""
    p = draw(st.integers(3, max_p))
    rng = np.random.default_rng(draw(seeds))
    if draw(st.booleans()):
        return covariance(rng.standard_normal((draw(st.integers(2, p)), p)))
    copies = rng.integers(0, draw(st.integers(1, p - 1)), p)
    return covariance(rng.standard_normal((30, p))[:, copies] * rng.choice([-2.0, 0.5, 1.0, 3.0], p))


def covariance(X: Matrix) -> Matrix:
    centered = X - X.mean(axis=0)
    S: Matrix = centered.T @ centered / len(X)
    return S


def block_rows(rng: np.random.Generator, n_rows: int, partition: Partition, strength: float = 0.7) -> Matrix:
    """Rows whose columns share one factor per group, with a correlation of ±strength inside a group."""
    p = partition.n_columns
    factor = rng.standard_normal((n_rows, partition.n_groups))[:, partition.labels] * rng.choice([-1.0, 1.0], p)
    X: Matrix = np.sqrt(strength) * factor + np.sqrt(1 - strength) * rng.standard_normal((n_rows, p))
    return X


def rescaled(rng: np.random.Generator, p: int) -> Matrix:
    """Factors of both signs over six orders of magnitude."""
    factors: Matrix = rng.choice([-1.0, 1.0], p) * 10.0 ** rng.uniform(-3, 3, p)
    return factors
