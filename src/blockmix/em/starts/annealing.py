"""Annealing: EM whose E-step is tempered, which frees it from its start when columns outnumber rows (p > N).

Rows and a first guess of responsibilities come in; the responsibilities after a schedule of rising exponents go out.
With p > N plain EM turns responsibilities into 0 and 1 at its first step and never leaves its start. Tempered from the
critical exponent 1/λ1 on, it follows the leading direction of the rows whitened by blocks; λ1/λ2 forecasts whether two
seeds agree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import eigh, lu_factor, lu_solve
from scipy.special import logsumexp, softmax

from blockmix.grouping.hierarchical import HierarchicalGrouping, cut
from blockmix.structure.blocks import cholesky, inverse_factors
from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray

SHRINKAGE = 0.5  # a: how far a block is drawn to its diagonal; strengths learnt from the data shrink too little
RIDGE = 1e-3  # ε, in units of a column's variance
STEPS, PLAIN = 30, 10  # geometric steps up to exponent 1, then steps of plain EM


def annealed(X: FloatArray, weights: FloatArray, n_components: int, rng: np.random.RandomState) -> FloatArray:
    """Responsibilities of annealed EM from a random guess, in which components may coincide or be empty.

    The exponent b of z ∝ (π f)^b rises geometrically from 1/λ1 to 1 in 30 steps, followed by 10 plain ones. All
    components share one covariance with K = p/10 blocks, drawn half-way to the diagonal.

    Parameters
    ----------
    X : array of shape (N, p)
    weights : array of shape (N,)
    n_components : int
    rng : RandomState

    Returns
    -------
    z : array of shape (N, G), of the type of X

    Notes
    -----
    Use it where p > N. With many rows a random guess ends in poorer optima than k-means, tempered or not. Blocks come
    from the total correlation: where the clusters are all that makes columns correlate, the blocks absorb them, and
    k-means is better (36 rows, 200 otherwise independent columns, clusters far apart: ARI between 0 and 1).

    Examples
    --------
    >>> rng = np.random.RandomState(0)
    >>> X = rng.standard_normal((20, 40)) + 2 * (np.arange(20) < 8)[:, None]
    >>> z = annealed(X, np.ones(20), 2, rng)
    >>> np.sort(z.sum(axis=0))
    array([ 8., 12.])
    """
    model = Tempered.of(X, weights)
    return model.anneal(model.guess(n_components, rng)).z.astype(X.dtype)


def critical_eigenvalues(X: FloatArray, weights: FloatArray | None = None, n_groups: int | None = None) -> FloatArray:
    """Eigenvalues λ1 ≥ λ2 ≥ … of Σ^(-1/2) T Σ^(-1/2), with T the total covariance and Σ its shrunk blocks.

    Below the exponent 1/λ1 all components of a tempered EM collapse onto the mean. λ1/λ2 near 1 says that the seed will
    decide where an annealed run ends; a large ratio that runs will agree, though not that they will be right.

    Parameters
    ----------
    X : array of shape (N, p)
    weights : array of shape (N,), default: ones
    n_groups : int, default: p/10
        Number of blocks K.

    Returns
    -------
    array of shape (min(N, p),)
    """
    counted = np.ones(len(X)) if weights is None else weights
    return Tempered.of(X, counted, n_groups).spectrum[0]


@dataclass(frozen=True, eq=False)
class Annealed:
    """Where an annealed run ended: responsibilities (N, G) and the log-likelihood at exponent 1."""

    z: FloatArray
    log_likelihood: float


@dataclass(frozen=True, eq=False)
class Tempered:
    """A mixture with one shared covariance of fixed blocks, each shrunk half-way to its diagonal.

    Σ = (1 − a) W + a diag(W) + ε I on each block, W the covariance within components.

    Parameters
    ----------
    X : array of shape (N, p)
        Rows with mean 0 and variance 1 in every column, in double precision.
    mass : array of shape (N,)
        Weight of each row as a share of the total.
    total : float
        Total weight of the rows.
    partition : Partition
        The blocks.
    """

    X: FloatArray
    mass: FloatArray
    total: float
    partition: Partition

    @classmethod
    def of(cls, X: FloatArray, weights: FloatArray, n_groups: int | None = None) -> Tempered:
        """Standardize the rows, and cut the tree on 1 − |R| of their total correlation into K = p/10 blocks."""
        total = float(weights.sum(dtype=float))
        mass = weights.astype(float) / total
        Z = X.astype(float)
        rounding = 8 * np.finfo(X.dtype).eps * np.abs(Z).max(axis=0)
        Z -= mass @ Z
        deviations = np.sqrt(mass @ Z**2)
        # A column that does not vary among the rows that count is 0 in all of them, and decides nothing.
        Z *= np.where(deviations > rounding, 1 / np.where(deviations > rounding, deviations, 1), 0)
        R = np.clip((Z * mass[:, None]).T @ Z, -1, 1)
        np.fill_diagonal(R, 1)
        n_groups = max(1, X.shape[1] // 10) if n_groups is None else n_groups
        return cls(Z, mass, total, cut(HierarchicalGrouping().tree(R), n_groups))

    def on(self, partition: Partition) -> Tempered:
        """The same rows with other blocks."""
        return replace(self, partition=partition)

    def guess(self, n_components: int, rng: np.random.RandomState) -> FloatArray:
        """Responsibilities drawn evenly from the simplex."""
        return rng.dirichlet(np.ones(n_components), len(self.X))

    def anneal(self, z: FloatArray, first: float | None = None, steps: int = STEPS, plain: int = PLAIN) -> Annealed:
        """Run tempered EM from responsibilities; `first` is the first exponent, the critical one unless given.

        With steps = 0 this is plain EM.
        """
        first = 1 / max(1.0, float(self.spectrum[0][0])) if first is None else first
        for b in np.geomspace(first, 1, steps):
            z = softmax(b * self.log_joint(z), axis=0).T
        for _ in range(plain):
            old, z = z, softmax(self.log_joint(z), axis=0).T
            if np.abs(z - old).max() < _STILL:
                break
        density = logsumexp(self.log_joint(z), axis=0)
        return Annealed(z, self.total * float(self.mass @ density))

    def log_joint(self, z: FloatArray) -> FloatArray:
        """Logarithm of π_g f_g(x) of every row, shape (G, N), after an M-step from responsibilities z."""
        pi = self.mass @ z
        # An empty component has share 0 and so sits at the overall mean; its log π is −∞.
        share = self.mass[:, None] * z / np.where(pi > 0, pi, 1)
        distances, logdet = self.distances(share, pi)
        with np.errstate(divide="ignore"):
            level: FloatArray = np.log(pi) - 0.5 * (logdet + self.X.shape[1] * np.log(2 * np.pi))
        return level[:, None] - 0.5 * distances.T

    def distances(self, share: FloatArray, pi: FloatArray) -> tuple[FloatArray, float]:
        """Squared distances of the rows to the means under Σ, shape (N, G), and log|Σ|.

        Mean g is Σ_i share_ig x_i, shape (N, G), and takes part in the covariance within components by π_g.
        """
        found = [narrow_distances(Y, T, share, pi) for Y, T in self._narrow]
        found += [wide_distances(Y, self.mass, share, pi) for Y in self._wide]
        return np.sum([d for d, _ in found], axis=0), sum(logdet for _, logdet in found)

    @cached_property
    def spectrum(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues λ, largest first, and the rows' coordinates on the eigenvectors with unit variance, (N, r)."""
        origin, one = self.mass[:, None], np.ones(1)
        white = [whiten(Y, T, origin, one)[0] for Y, T in self._narrow]
        V = np.concatenate(white) if white else np.zeros((0, len(self.X)))
        root = np.sqrt(self.mass)
        if len(self.X) > self.X.shape[1]:
            values, vectors = eigh((V * self.mass) @ V.T)
            coordinates = V.T @ vectors[:, ::-1]
        else:
            Q = V.T @ V + sum((wide_gram(Y, self.mass, origin, one)[0] for Y in self._wide), np.zeros(2 * (len(root),)))
            values, vectors = eigh(root[:, None] * Q * root)
            coordinates = Q @ (root[:, None] * vectors[:, ::-1])
        deviations = np.sqrt(self.mass @ coordinates**2)
        return values[::-1], coordinates / np.where(deviations > 0, deviations, 1)

    @cached_property
    def _narrow(self) -> list[tuple[FloatArray, FloatArray]]:
        """Blocks with no more columns than rows, by size: values (b, c, N) and total covariances (b, c, c)."""
        stacks = [self.X.T[stack] for stack in self.partition.stacks if stack.shape[1] <= len(self.X)]
        return [(Y, np.matmul(Y * self.mass, Y.swapaxes(1, 2))) for Y in stacks]

    @cached_property
    def _wide(self) -> list[FloatArray]:
        """Blocks with more columns than rows, values (c, N) each."""
        return [self.X.T[group] for group in self.partition.groups if len(group) > len(self.X)]


_STILL = 1e-10  # responsibilities that move less stand still


def narrow_distances(Y: FloatArray, T: FloatArray, share: FloatArray, pi: FloatArray) -> tuple[FloatArray, float]:
    """Squared distances (N, G) and log-determinant of blocks (b, c, N) with total covariances T, by Cholesky."""
    white, centers, logdet = whiten(Y, T, share, pi)
    squares = np.einsum("in,in->n", white, white)[:, None] + np.einsum("ig,ig->g", centers, centers)
    return squares - 2 * (white.T @ centers), logdet


def whiten(Y: FloatArray, T: FloatArray, share: FloatArray, pi: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """White values (bc, N), white means (bc, G) and the log-determinant of blocks of one size."""
    means = np.matmul(Y, share)
    S = T - np.matmul(means * pi, means.swapaxes(1, 2))
    at = np.arange(S.shape[1])
    variances = np.maximum(S[:, at, at], 0)
    S *= 1 - SHRINKAGE
    S[:, at, at] = variances + RIDGE
    factors = cholesky(S)
    W = inverse_factors(factors)
    logdet = 2 * float(np.log(factors[:, at, at]).sum())
    if len(at) == 1:
        return (W * Y)[:, 0], (W * means)[:, 0], logdet
    return np.matmul(W, Y).reshape(-1, Y.shape[2]), np.matmul(W, means).reshape(-1, len(pi)), logdet


def wide_distances(Y: FloatArray, mass: FloatArray, share: FloatArray, pi: FloatArray) -> tuple[FloatArray, float]:
    """Squared distances (N, G) and log-determinant of one block (c, N), at cost N²c + N³ instead of c³.

    ‖x_i − m_g‖² under Σ⁻¹ is Q_ii − (Qα_g)_i − (Qᵀα_g)_i + α_gᵀQα_g, with α_g the share of the rows in mean g.
    """
    Q, logdet = wide_gram(Y, mass, share, pi)
    ahead, behind = Q @ share, Q.T @ share
    return Q.diagonal()[:, None] - ahead - behind + np.einsum("ng,ng->g", share, ahead), logdet


def wide_gram(Y: FloatArray, mass: FloatArray, share: FloatArray, pi: FloatArray) -> tuple[FloatArray, float]:
    """Q = XΣ⁻¹Xᵀ, shape (N, N), and log|Σ| of one block Xᵀ = Y, shape (c, N), without a c × c matrix.

    Σ = D + (1 − a) XᵀCX with D = diag(a w + ε), w the variances within components, C = diag(mass) − Σ_g π_g α_g α_gᵀ.
    With M = X D⁻¹ Xᵀ: Q = (I + (1 − a) M C)⁻¹ M and log|Σ| = log|D| + log|I + (1 − a) M C|.
    """
    variances = np.maximum(Y**2 @ mass - (Y @ share) ** 2 @ pi, 0)
    D = SHRINKAGE * variances + RIDGE
    M = (Y / D[:, None]).T @ Y
    C = np.diag(mass) - (share * pi) @ share.T
    factors = lu_factor(np.eye(len(mass)) + (1 - SHRINKAGE) * (M @ C))
    logdet = np.log(D).sum() + np.log(np.abs(factors[0].diagonal())).sum()
    return lu_solve(factors, M), float(logdet)
