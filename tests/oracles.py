"""Slow literal versions of every formula of the core: short enough to check by eye, and the judge of the fast ones.

Nothing here imports a function of the package that it judges; `Partition` is the only name taken from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2, multivariate_normal
from sklearn.metrics import silhouette_samples, silhouette_score

from blockmix.partition import Partition

Matrix = NDArray[np.float64]
Labels = list[int]


def set_partitions(p: int, n_groups: int) -> Iterator[Labels]:
    """Every partition of p columns into exactly K groups, once, as labels numbered by first appearance."""

    def extend(labels: Labels, used: int) -> Iterator[Labels]:
        if len(labels) == p:
            if used == n_groups:
                yield labels
            return
        for k in range(min(used + 1, n_groups)):
            yield from extend([*labels, k], max(used, k + 1))

    yield from extend([], 0)


def members(labels: ArrayLike) -> list[list[int]]:
    labels = list(np.asarray(labels))
    return [[j for j, k in enumerate(labels) if k == group] for group in dict.fromkeys(labels)]


def relabelled(labels: ArrayLike, column: int, to: int) -> Labels:
    moved = [int(k) for k in np.asarray(labels)]
    moved[column] = to
    return moved


def block_diagonal(S: Matrix, labels: ArrayLike) -> Matrix:
    """Paper, eq. param: Σ_k D_k S D_k with D_k = diag(d_k)."""
    labels = np.asarray(labels)
    D = [np.diag((labels == k).astype(float)) for k in np.unique(labels)]
    total: Matrix = sum(D_k @ S @ D_k for D_k in D)  # type: ignore[assignment]
    return total


def objective(S: Matrix, labels: ArrayLike) -> float:
    """Paper, eq. obj fn: −½ log|Σ_k D_k S D_k| − ½ tr[(Σ_k D_k S D_k)⁻¹ S]."""
    sigma = block_diagonal(S, labels)
    return float(-0.5 * np.linalg.slogdet(sigma)[1] - 0.5 * np.trace(np.linalg.inv(sigma) @ S))


def n_parameters(labels: ArrayLike) -> int:
    """Entries on and above the diagonal that the partition leaves free."""
    labels = np.asarray(labels)
    return sum(1 for i in range(len(labels)) for j in range(i, len(labels)) if labels[i] == labels[j])


def conditional_variance(S: Matrix, column: int, given: list[int]) -> float:
    """s_jj − s_jA S_AA⁻¹ s_Aj, A without j."""
    A = [i for i in given if i != column]
    if not A:
        return float(S[column, column])
    return float(S[column, column] - S[column, A] @ np.linalg.solve(S[np.ix_(A, A)], S[A, column]))


def best_partition(p: int, n_groups: int, value: Callable[[Labels], float]) -> tuple[Labels, float]:
    """The best of all partitions into K groups."""
    return max(((labels, value(labels)) for labels in set_partitions(p, n_groups)), key=lambda found: found[1])


def greedy_sweep(S: Matrix, labels: ArrayLike) -> Labels:
    """Each column in turn goes where the whole objective is largest; no group is emptied.

    The turn of a column comes by the sum of its squared correlations, the smallest first.
    """
    current = [int(k) for k in np.asarray(labels)]
    n_groups = max(current) + 1
    total = [sum(S[i, j] ** 2 / (S[i, i] * S[j, j]) for i in range(len(S))) for j in range(len(S))]
    for j in sorted(range(len(current)), key=lambda j: total[j]):
        if current.count(current[j]) > 1:
            current[j] = int(np.argmax([objective(S, relabelled(current, j, k)) for k in range(n_groups)]))
    return current


LINKAGES: dict[str, Callable[[Matrix], np.float64]] = {"average": np.mean, "single": np.min, "complete": np.max}


def partition_of(groups: list[list[int]]) -> Partition:
    """The partition with these groups of columns."""
    labels = np.empty(sum(map(len, groups)), dtype=int)
    for k, group in enumerate(groups):
        labels[list(group)] = k
    return Partition(labels)


def agglomerate(distances: Matrix, linkage: str) -> list[tuple[float, Partition]]:
    """Merge the two closest groups until one is left: for K = p, …, 1 the height of the last merge and the groups."""
    groups = [[j] for j in range(len(distances))]
    steps = [(0.0, partition_of(groups))]
    while len(groups) > 1:
        between = {
            (a, b): float(LINKAGES[linkage](distances[np.ix_(groups[a], groups[b])]))
            for a, b in combinations(range(len(groups)), 2)
        }
        a, b = min(between, key=lambda pair: between[pair])
        groups = [*(group for k, group in enumerate(groups) if k not in (a, b)), groups[a] + groups[b]]
        steps.append((between[a, b], partition_of(groups)))
    return steps


def tree_nodes(tree: Matrix) -> list[list[int]]:
    """The columns under each node of a tree in SciPy's format: p leaves, then its p − 1 merges."""
    nodes = [[j] for j in range(len(tree) + 1)]
    for a, b in tree[:, :2].astype(int):
        nodes.append(nodes[a] + nodes[b])
    return nodes


def tree_cut(tree: Matrix, n_groups: int) -> Labels:
    """Labels after the first p − K merges."""
    p = len(tree) + 1
    labels = list(range(p))
    for k, node in enumerate(tree_nodes(tree)[p : 2 * p - n_groups]):
        for j in node:
            labels[j] = p + k
    return labels


def silhouette(distances: Matrix, labels: ArrayLike) -> float:
    """scikit-learn's mean silhouette; 0 by convention where it refuses, at K = 1 and K = p."""
    n_groups = len(set(np.asarray(labels)))
    if n_groups in (1, len(distances)):
        return 0.0
    score = float(silhouette_score(distances, labels, metric="precomputed"))
    assert np.isclose(score, silhouette_samples(distances, labels, metric="precomputed").mean())
    return score


def merge_log_p(R: Matrix, tree: Matrix, effective: float) -> Matrix:
    """Log p-value of every merge: T against a χ², moved and stretched, with the same first three moments."""
    p = len(R)
    nodes = tree_nodes(tree)
    found = []
    for a, b in tree[:, :2].astype(int):
        A, B = nodes[a], nodes[b]
        q = np.array([min(R[i, j] ** 2, 1 - 1e-12) for i in A for j in B])
        T = (effective - 1.5) * sum(-np.log(1 - q_ij) for q_ij in q)
        d = _freedom(R, A, effective) * _freedom(R, B, effective)
        stretch = np.sqrt(d / (_trace(R, A, effective) * _trace(R, B, effective)))
        strengths = [_strength(R, branch, effective) for branch in (A, B) if len(branch) > 1]
        if strengths and max(0.0, q.mean() - 1 / effective) < 0.25**2 * min(strengths):
            found.append(0.0)
        else:
            found.append(float(chi2.logsf(max(0.0, d + stretch * (T - len(A) * len(B))), d)))
    assert len(found) == p - 1
    return np.array(found)


def _strength(R: Matrix, A: list[int], effective: float) -> float:
    """ρ² = max(0, mean squared correlation − 1/ν)."""
    return max(0.0, float(np.mean([R[i, j] ** 2 for i, j in combinations(A, 2)])) - 1 / effective)


def _trace(R: Matrix, A: list[int], effective: float) -> float:
    """t₂ = m + m(m − 1) ρ²."""
    m = len(A)
    return 1.0 if m == 1 else m + m * (m - 1) * _strength(R, A, effective)


def _freedom(R: Matrix, A: list[int], effective: float) -> float:
    """δ = max(1, t₂³/t₃²) with t₃ = tr R³ of an equicorrelated branch."""
    if len(A) == 1:
        return 1.0
    rho = min(1.0, np.sqrt(_strength(R, A, effective)))
    m = len(A)
    third = np.trace(np.linalg.matrix_power(np.full((m, m), rho) + (1 - rho) * np.eye(m), 3))
    return float(max(1.0, _trace(R, A, effective) ** 3 / third**2))


def log_joint(X: Matrix, weights: Matrix, means: Matrix, covariances: Matrix) -> Matrix:
    """log π_g N(x; μ_g, Σ_g) of every row and component from dense covariances, shape (N, G)."""
    densities = [multivariate_normal(m, S).logpdf(X) for m, S in zip(means, covariances, strict=True)]
    with np.errstate(divide="ignore"):  # a weight of 0
        return np.log(weights) + np.reshape(densities, (len(weights), len(X))).T


def responsibilities(joint: Matrix) -> tuple[Matrix, Matrix]:
    """π_g f_g / Σ_h π_h f_h, shape (N, G), and log Σ_g π_g f_g, shape (N,), from log π_g f_g."""
    top = joint.max(axis=1, keepdims=True)
    shares = np.exp(joint - top)
    return shares / shares.sum(axis=1, keepdims=True), top[:, 0] + np.log(shares.sum(axis=1))


def moments(X: Matrix, row_weights: Matrix, z: Matrix, means: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Σz, Σz(x − μ) and Σz(x − μ)(x − μ)ᵀ of each component, shapes (G,), (G, p) and (G, p, p)."""
    share = row_weights[:, None] * z
    centered = X[:, None, :] - means
    first = np.einsum("ng,ngi->gi", share, centered)
    return share.sum(axis=0), first, np.einsum("ng,ngi,ngj->gij", share, centered, centered)


def m_step(
    X: Matrix,
    z: Matrix,
    labels: list[Labels],
    row_weights: Matrix,
    shrinkage: float = 0.0,
    ridge: float = 0.0,
    shared: bool = False,
) -> tuple[Matrix, Matrix, Matrix]:
    """Weights, means and dense covariances Σ_k D_k [(scatter + (κ + ρ) I) / (n + κ)] D_k, pooled if shared."""
    z = z * row_weights[:, None]
    n = z.sum(axis=0)
    means = np.array([z[:, g] @ X / n[g] for g in range(len(n))])
    pull = (shrinkage + ridge) * np.eye(X.shape[1])
    scatter = [sum(z[i, g] * np.outer(x - means[g], x - means[g]) for i, x in enumerate(X)) for g in range(len(n))]
    if shared:
        pooled = (np.sum(scatter, axis=0) + len(n) * pull) / (n.sum() + len(n) * shrinkage)
        covariances = [pooled] * len(n)
    else:
        covariances = [(scatter[g] + pull) / (n[g] + shrinkage) for g in range(len(n))]
    return n / n.sum(), means, np.array([block_diagonal(S, k) for S, k in zip(covariances, labels, strict=True)])


def partition_price(labels: ArrayLike) -> float:
    """−log of the chance of each group of several columns under p · Π p/j; one group of all is no choice."""
    labels = np.asarray(labels)
    p, sizes = len(labels), np.unique(labels, return_counts=True)[1]
    if len(sizes) == 1:
        return 0.0
    return float(sum(np.log(p) + sum(np.log(p / j) for j in range(1, c)) for c in sizes if c > 1))


def penalty(covariances: Matrix, shrinkage: float, ridge: float) -> float:
    """−½ Σ_g [κ log|Σ_g| + (κ + ρ) tr Σ_g⁻¹]."""
    return -0.5 * sum(
        shrinkage * float(np.linalg.slogdet(S)[1]) + (shrinkage + ridge) * float(np.trace(np.linalg.inv(S)))
        for S in covariances
    )
