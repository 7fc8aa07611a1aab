"""Random block mixtures with rows, and the literal E-step from dense covariances that judges every sweep."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from missing import with_missing
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from oracles import block_diagonal, responsibilities
from scipy.special import digamma, gammaln
from strategies import Matrix, block_rows, covariance, partitions, seeds

from blockmix import GaussianBiclustering
from blockmix.blocks.blocks import Blocks, Layout
from blockmix.em.block import BlockFamily
from blockmix.em.loop import LoopResult, LoopState, run
from blockmix.em.missing_kernels import TILE
from blockmix.em.parameters import Parameters, Prior
from blockmix.em.parameters import log_joint as chunk_joint
from blockmix.em.sweep import Statistics
from blockmix.grouping import Proposal
from blockmix.partition import Partition
from blockmix.rows import ArrayRows, Chunk, Resolution

TRUTH = (Partition([0, 0, 0, 1, 1, 1]), Partition([0, 1, 0, 1, 0, 1]))
ODD = Partition([0, 1, 1, 0, 0, 1])  # neither of the two
Case = tuple[ArrayRows, Parameters]


class Fixed:
    """A grouping with given answers, right or wrong; the last one is repeated."""

    def __init__(self, *answers: Partition) -> None:
        self.answers = list(answers)

    def group(self, S: Matrix, n_groups: int, n_rows: float) -> Proposal:
        return Proposal(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])


def stacked(S: list[Matrix], groups: list[Partition], n_sharing: int = 1) -> Blocks:
    """The blocks of several covariances, or of one that several components share."""
    layout = Layout(groups, n_sharing=n_sharing)
    return Blocks(layout, np.concatenate([Blocks.of(*pair).factors for pair in zip(S, groups, strict=True)]))


def mixture(
    rng: np.random.Generator, n_rows: int, groups: list[Partition], shared: bool = False, dtype: Any = float
) -> Case:
    """Rows in units of their own, of which about a third have weight 0, and a mixture with these groups."""
    G, p = len(groups), groups[0].n_columns
    standard = block_rows(rng, n_rows, groups[0]) + 2 * rng.standard_normal((G, p))[rng.integers(0, G, n_rows)]
    location, scale = rng.standard_normal(p), rng.uniform(0.5, 2, p)
    weights = rng.integers(0, 3, n_rows) + np.eye(n_rows)[1]
    rows = ArrayRows((standard * scale + location).astype(dtype), weights, location, scale)
    distinct = groups[:1] if shared else groups
    blocks = stacked([covariance(block_rows(rng, 3 * p + 2, k)) for k in distinct], distinct, G if shared else 1)
    return rows, Parameters(rng.dirichlet(np.ones(G)), rng.standard_normal((G, p)), blocks)


def case(
    rng: np.random.Generator,
    n_rows: int,
    groups: list[Partition],
    missing: float = 0.0,
    is_rounded: bool = False,
    heavy: bool = False,
    **settings: Any,
) -> Case:
    """A mixture and rows, of which a share of the values is missing; the first row then has no values at all."""
    rows, parameters = mixture(rng, n_rows, groups, **settings)
    rows = rounded(rows) if is_rounded else rows
    if missing:
        X = with_missing(rows.X, missing, rng)
        X[0], X[1] = np.nan, rows.X[1]
        rows = replace(rows, X=X, resolution=Resolution.of(X, rows.weights) if is_rounded else rows.resolution)
    if heavy:
        parameters = replace(parameters, degrees_of_freedom=rng.uniform(1.5, 20, len(parameters.weights)))
    return rows, parameters


@st.composite
def mixtures(draw: st.DrawFn, max_p: int = 6, missing: bool = True, heavy: bool = True) -> Case:
    """Rows, complete or not, rounded or not, and a normal or t mixture with blocks of any sizes, shared or not."""
    G, p = draw(st.integers(1, 3)), draw(st.integers(1, max_p))
    shared = G > 1 and draw(st.booleans())
    groups = [draw(partitions(p)) for _ in range(1 if shared else G)] * (G if shared else 1)
    return case(
        np.random.default_rng(draw(seeds)),
        draw(st.sampled_from([2, 9, 30, TILE + 6])),  # fewer rows than a vector, and more than a tile
        groups,
        missing=draw(st.sampled_from([0.0, 0.05, 0.4, 0.9])) if missing else 0.0,
        is_rounded=draw(st.booleans()),
        heavy=heavy and draw(st.booleans()),
        shared=shared,
        dtype=draw(st.sampled_from([np.float64, np.float32])),
    )


def two_clusters(seed: int = 0, n_rows: int = 80, apart: float = 3.0) -> tuple[ArrayRows, Matrix]:
    """Standardized rows of two components with different column groups, and their hard responsibilities."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([block_rows(rng, n_rows, TRUTH[0]), block_rows(rng, n_rows, TRUTH[1]) + apart])
    return ArrayRows.standardized(X), np.repeat(np.eye(2), n_rows, axis=0)


def family(
    rows: ArrayRows, n_groups: Any = 2, G: int = 2, prior: Prior | None = None, shared: bool = False, **settings: Any
) -> BlockFamily:
    """The family of a `GaussianBiclustering`, with a small ridge if no prior is given; no common factors by default."""
    settings = {"common_factors": 0} | settings
    model = GaussianBiclustering(G, n_groups, shared_covariance=shared, **settings)
    return replace(model._family(rows, np.ones(rows.n_columns)), prior=prior or Prior(ridge=1e-4))


def ended(
    chosen: BlockFamily, rows: ArrayRows, z: Matrix, tol: float, max_iter: int, **options: Any
) -> LoopResult[Parameters]:
    """EM from responsibilities to its end."""
    return run(chosen, rows, chosen.first(rows, z, max(tol, chosen.loose)), tol, max_iter, **options)


def parameters_with(
    groups: tuple[Partition, ...], rows: ArrayRows, z: Matrix, shared: bool = False, prior: Prior | None = None
) -> Parameters:
    """The M-step from responsibilities with given column groups."""
    # A grouping is not asked for one group, nor for as many as there are columns.
    asked = [partition for partition in groups if 1 < partition.n_groups < rows.n_columns] or groups
    numbers = [partition.n_groups for partition in groups] * (z.shape[1] if shared else 1)
    chosen = family(rows, numbers, z.shape[1], prior, shared, grouping=Fixed(*asked))
    return chosen.first(rows, z, 0.0).parameters


def value_of(rows: ArrayRows, parameters: Parameters, chosen: BlockFamily) -> float:
    """The objective."""
    return chosen.objective(chosen.sweep(rows, parameters), parameters)


def state(parameters: Parameters, tol: float = 1e-6) -> LoopState[Parameters]:
    """A first state with these parameters."""
    return LoopState(parameters, tol)


def chunk_of(rows: ArrayRows) -> Chunk:
    """All rows as one chunk."""
    (chunk,) = rows.map(lambda chunk: chunk)
    return chunk


def chunk_log_joint(chunk: Chunk, parameters: Parameters) -> Matrix:
    """What the kernel makes of a chunk, shape (m, G)."""
    return chunk_joint(chunk, parameters.density(missing=True))[0]


def values(rows: ArrayRows) -> Matrix:
    """The standardized rows."""
    standard: Matrix = (rows.X - rows.location) / rows.scale
    return standard


def dense(parameters: Parameters) -> Matrix:
    """The covariances, shape (G, p, p)."""
    return np.stack([parameters.blocks[g].dense() for g in range(len(parameters.weights))])


def labels_of(parameters: Parameters) -> list[list[int]]:
    """The group of each column in each component."""
    return [partition.labels.tolist() for partition in parameters.blocks.layout.partitions]


def rounded(rows: ArrayRows, decimals: int = 1) -> ArrayRows:
    """The same rows with rounded values, which are known only to within their resolution."""
    X = np.round(rows.X, decimals)
    return replace(rows, X=X, resolution=Resolution.of(X, rows.weights))


def rounding(rows: ArrayRows) -> Matrix:
    """Variances Δ that rounding leaves of the standardized values, shape (N, p)."""
    return np.concatenate(list(rows.map(lambda chunk: chunk.rounding_variances)))


def unpacked(flat: NDArray[Any], layout: Layout) -> Matrix:
    """The lower triangles of flat blocks as symmetric matrices with zeros between the blocks, (distinct, p, p)."""
    matrices, start = [], 0
    for partition in layout.distinct:
        whole = np.zeros((partition.n_columns,) * 2)
        for group in partition.groups:
            c = len(group)
            lower = np.tril(flat[start : start + c * c].reshape(c, c))
            whole[np.ix_(group, group)] = lower + np.tril(lower, -1).T
            start += c * c
        matrices.append(whole)
    assert start == len(flat)
    return np.stack(matrices)


def within_blocks(scatter: Matrix, layout: Layout) -> Matrix:
    """Full scatters (distinct, p, p) with zeros between the blocks."""
    return np.stack([block_diagonal(*pair) for pair in zip(scatter, [k.labels for k in layout.distinct], strict=True)])


def log_joint(rows: ArrayRows, parameters: Parameters) -> Matrix:
    """The literal log π_g f_g, shape (N, G)."""
    return literal(rows, parameters)[0]


def literal(rows: ArrayRows, parameters: Parameters) -> tuple[Matrix, Matrix, Statistics]:
    """Log π_g f_g (N, G), rows completed under each component (N, G, p), and statistics with full scatters.

    Every row has its own Σ_oo, inverted as a whole. Rounding adds Σ_j Δ_j (Σ_oo⁻¹)_jj to the distance of a row and
    A Δ Aᵀ to its scatter, where A = [I; Σ_mo Σ_oo⁻¹] fills missing values.
    """
    X, sigma, blurs, means = values(rows), dense(parameters), rounding(rows), parameters.means
    (N, p), G, nu = X.shape, len(means), parameters.degrees_of_freedom
    joint, filled, u, logs = np.zeros((N, G)), np.zeros((N, G, p)), np.ones((N, G)), np.zeros((N, G))
    extra = np.zeros((N, G, p, p))  # conditional covariances
    moved = np.zeros((N, G, p, p))  # what rounding leaves beyond the diagonal
    for i in range(N):
        o, m = np.flatnonzero(~np.isnan(X[i])), np.flatnonzero(np.isnan(X[i]))
        c = len(o)
        for g in range(G):
            inverse = np.linalg.inv(sigma[g][np.ix_(o, o)])
            d = X[i, o] - means[g, o]
            A = np.zeros((p, c))
            A[o], A[m] = np.eye(c), sigma[g][np.ix_(m, o)] @ inverse
            filled[i, g] = means[g] + A @ d
            filled[i, g, o] = X[i, o]
            extra[i, g][np.ix_(m, m)] = sigma[g][np.ix_(m, m)] - A[m] @ sigma[g][np.ix_(o, m)]
            moved[i, g] = A @ np.diag(blurs[i, o]) @ A.T - np.diag(blurs[i])
            delta = d @ inverse @ d + blurs[i, o] @ np.diagonal(inverse)
            joint[i, g] = np.log(parameters.weights[g]) - 0.5 * np.linalg.slogdet(2 * np.pi * sigma[g][np.ix_(o, o)])[1]
            if nu is None:
                joint[i, g] -= 0.5 * delta
                continue
            joint[i, g] += gammaln((nu[g] + c) / 2) - gammaln(nu[g] / 2) - c / 2 * np.log(nu[g] / 2)
            joint[i, g] -= (nu[g] + c) / 2 * np.log1p(delta / nu[g])
            u[i, g] = (nu[g] + c) / (nu[g] + delta)
            logs[i, g] = np.log(u[i, g]) + digamma((nu[g] + c) / 2) - np.log((nu[g] + c) / 2)
    z, density = responsibilities(joint)
    certain = z * rows.weights[:, None]
    share = certain * u
    centered = filled - means
    scatter = np.einsum("ng,ngi,ngj->gij", share, centered, centered)
    scatter += np.einsum("ng,ngij->gij", certain, extra) + np.einsum("ng,ngij->gij", share, moved)
    return (
        joint,
        filled,
        Statistics(
            float(rows.weights @ density),
            certain.sum(axis=0),
            share.sum(axis=0),
            np.einsum("ng,ngi->gi", share, centered),
            share.T @ blurs,
            parameters.blocks.layout.pooled(scatter),
            None if nu is None else (certain * (logs - u)).sum(axis=0),
        ),
    )


def in_full(statistics: Statistics, layout: Layout) -> Statistics:
    """Statistics with matrices in place of flat blocks, and with what rounding leaves in their scatters."""
    flat = statistics.scatter.ndim == 1
    scatter = unpacked(statistics.scatter, layout) if flat else statistics.scatter
    blur = layout.pooled(statistics.blur)[:, :, None] * np.eye(scatter.shape[1])
    return replace(statistics, scatter=scatter + blur, blur=np.zeros_like(statistics.blur))


def assert_same(statistics: Statistics, expected: Statistics, **tolerance: float) -> None:
    """Equal sums, one by one."""
    tolerance = tolerance or {"rtol": 1e-9, "atol": 1e-9}
    assert (statistics.tail is None) == (expected.tail is None)
    for name in ("log_likelihood", "weight", "mass", "excess", "blur", "scatter", "tail"):
        if getattr(expected, name) is not None:
            assert_allclose(getattr(statistics, name), getattr(expected, name), **tolerance, err_msg=name)
