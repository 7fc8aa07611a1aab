"""Random block mixtures with rows, their dense covariances, and comparison of statistics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import oracles
from blockmix.em.regroup import Proposer
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from strategies import Matrix, block_rows, covariance, partitions, seeds

from blockmix.blocks.blocks import Blocks, Layout, Parameters, Prior, assemble
from blockmix.blocks.shapes import FULL
from blockmix.em.block import BlockFamily
from blockmix.em.loop import LoopState
from blockmix.em.sweep import Density, Statistics
from blockmix.em.sweep import log_joint as kernel_log_joint
from blockmix.grouping import HierarchicalGrouping, Proposal
from blockmix.partition import Partition, bic_price
from blockmix.rows import ArrayRows, Chunk
from blockmix.rows.measured import Resolution

TRUTH = (Partition([0, 0, 0, 1, 1, 1]), Partition([0, 1, 0, 1, 0, 1]))
ODD = Partition([0, 1, 1, 0, 0, 1])  # neither of the two


class Fixed:
    """A grouping with given answers, right or wrong; the last one is repeated."""

    def __init__(self, *answers: Partition) -> None:
        self.answers = list(answers)

    def group(self, S: Matrix, n_groups: int, n_rows: float) -> Proposal:
        return Proposal(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])


@st.composite
def mixtures(draw: st.DrawFn, max_p: int = 6) -> tuple[ArrayRows, Parameters]:
    """Weighted rows in units of their own, and some mixture with blocks of any sizes, shared or not."""
    G, p = draw(st.integers(1, 4)), draw(st.integers(1, max_p))
    shared = draw(st.booleans()) and G > 1
    groups = [draw(partitions(p)) for _ in range(1 if shared else G)]
    n_rows = draw(st.integers(2, 200))
    return mixture(np.random.default_rng(draw(seeds)), n_rows, groups * (G if shared else 1), shared)


def mixture(
    rng: np.random.Generator, n_rows: int, groups: list[Partition], shared: bool = False, dtype: Any = float
) -> tuple[ArrayRows, Parameters]:
    """Rows, of which about a third have weight 0, and a mixture with these groups in each component."""
    G, p = len(groups), groups[0].n_columns
    standard = block_rows(rng, n_rows, groups[0]) + 2 * rng.standard_normal((G, p))[rng.integers(0, G, n_rows)]
    location, scale = rng.standard_normal(p), rng.uniform(0.5, 2, p)
    weights = rng.integers(0, 3, n_rows) + np.eye(n_rows)[0]
    rows = ArrayRows((standard * scale + location).astype(dtype), weights, location, scale)
    distinct = groups[:1] if shared else groups
    blocks = [Blocks.of(covariance(block_rows(rng, 3 * p + 2, group)), group) for group in distinct]
    covariances = tuple(blocks) * (G // len(blocks))
    return rows, assemble(rng.dirichlet(np.ones(G)), rng.standard_normal((G, p)), covariances)


def two_clusters(seed: int = 0, n_rows: int = 80, apart: float = 3.0) -> tuple[ArrayRows, Matrix]:
    """Standardized rows of two components with different column groups, and their hard responsibilities."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([block_rows(rng, n_rows, TRUTH[0]), block_rows(rng, n_rows, TRUTH[1]) + apart])
    return ArrayRows.standardized(X), np.repeat(np.eye(2), n_rows, axis=0)


def family(
    rows: ArrayRows,
    *n_groups: object,
    grouping: object = None,
    shared: bool = False,
    prior: Prior | None = None,
    priced: bool = False,
) -> BlockFamily:
    """The block mixture with these numbers of groups, or rules for them, two in each of two components if not given."""
    proposer = Proposer(
        n_groups or (2, 2),
        grouping or HierarchicalGrouping(),  # type: ignore[arg-type]
        FULL,
        shared,
        prior or Prior(ridge=1e-4),
        bic_price(rows.total_weight) if priced else 0.0,
    )
    return BlockFamily(proposer, rows.total_weight)


def begin(found: BlockFamily, rows: ArrayRows, z: Matrix, tol: float) -> LoopState[Parameters]:
    """The first state of a loop, from responsibilities."""
    return LoopState(found.first(rows, z).parameters, found.loose(tol))


def parameters_with(layout: Layout, rows: ArrayRows, z: Matrix, prior: Prior | None = None) -> Parameters:
    """The M-step from responsibilities with given column groups."""
    numbers = tuple(partition.n_groups for partition in layout.partitions)
    # A grouping is not asked for as many groups as there are columns.
    asked = [partition for partition in layout.distinct if partition.n_groups < rows.n_columns] or layout.distinct
    chosen = family(rows, *numbers, grouping=Fixed(*asked), shared=layout.shared, prior=prior)
    return chosen.first(rows, z).parameters


def values(rows: ArrayRows) -> Matrix:
    """The standardized rows."""
    standard: Matrix = (rows.X - rows.location) / rows.scale
    return standard


def dense(parameters: Parameters) -> Matrix:
    return np.stack([block.dense() for block in parameters.covariances])


def rounded(rows: ArrayRows, decimals: int = 1) -> ArrayRows:
    """The same rows with rounded values, which are known only to within their resolution."""
    X = np.round(rows.X, decimals)
    return replace(rows, X=X, resolution=Resolution.of(X, rows.weights))


def rounding(rows: ArrayRows) -> Matrix:
    """Variances Δ that rounding leaves of the standardized values, shape (N, p)."""
    return np.concatenate(list(rows.map(lambda chunk: chunk.rounding_variances)))


def log_joint(rows: ArrayRows, parameters: Parameters) -> Matrix:
    """The dense log π_g f_g − ½ Σ_j Δ_j (Σ_g⁻¹)_jj of every row, shape (N, G)."""
    sigma = dense(parameters)
    precisions = np.diagonal(np.linalg.inv(sigma), axis1=1, axis2=2)
    joint = oracles.log_joint(values(rows), parameters.weights, parameters.means, sigma)
    return joint - 0.5 * rounding(rows) @ precisions.T


def chunk_log_joint(chunk: Chunk, parameters: Parameters) -> Matrix:
    """What the kernel makes of a chunk, shape (m, G)."""
    return kernel_log_joint(chunk, Density.of(parameters))


def responsibilities(rows: ArrayRows, parameters: Parameters) -> Matrix:
    return oracles.responsibilities(log_joint(rows, parameters))[0]


def unpacked(flat: NDArray[Any], layout: Layout) -> Matrix:
    """The lower triangles of flat blocks as symmetric matrices with zeros between the blocks, (distinct, p, p)."""
    found = []
    at = 0
    for partition in layout.distinct:
        whole = np.zeros((partition.n_columns,) * 2)
        for group in partition.groups:
            c = len(group)
            lower = np.tril(flat[at : at + c * c].reshape(c, c))
            whole[np.ix_(group, group)] = lower + np.tril(lower, -1).T
            at += c * c
        found.append(whole)
    assert at == len(flat)
    return np.stack(found)


def literal_statistics(rows: ArrayRows, parameters: Parameters, z: Matrix | None = None) -> Statistics:
    """Statistics from dense matrices, with the full scatter, shape (distinct, p, p)."""
    own, density = oracles.responsibilities(log_joint(rows, parameters))
    share = own if z is None else z
    weight, excess, scatter = oracles.moments(values(rows), rows.weights, share, parameters.means)
    blur = (share * rows.weights[:, None]).T @ rounding(rows)
    value = np.nan if z is not None else float(rows.weights @ density)
    return Statistics(value, weight, weight, excess, blur, parameters.layout.pooled(scatter))


def within_blocks(scatter: Matrix, layout: Layout) -> Matrix:
    """Full scatters (distinct, p, p) with zeros between the blocks."""
    pairs = zip(scatter, layout.distinct, strict=True)
    return np.stack([oracles.block_diagonal(S, partition.labels) for S, partition in pairs])


def labels_of(parameters: Parameters) -> list[list[int]]:
    return [partition.labels.tolist() for partition in parameters.layout.partitions]


def assert_same(found: Statistics, expected: Statistics, **tolerance: float) -> None:
    tolerance = tolerance or {"rtol": 1e-9, "atol": 1e-9}
    for name in ("log_likelihood", "weight", "excess", "blur", "scatter"):
        assert_allclose(getattr(found, name), getattr(expected, name), **tolerance, err_msg=name)
