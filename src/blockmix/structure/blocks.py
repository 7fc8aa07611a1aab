"""BlockCovariance: a covariance that is block-diagonal over a partition (paper, eq. 2), stored as Cholesky factors.

It is built from a covariance S and a partition and provides density, log-determinant, samples, precision and parameter
count, all from one factor per block. A full covariance is one block, a diagonal one is p blocks of one column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from blockmix.structure.gram import Covariance
from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class BlockCovariance:
    """Σ_k D_k S D_k, stored as the Cholesky factors of its blocks.

    Parameters
    ----------
    partition : Partition
        The column groups.
    factors : tuple of arrays of shape (b, c, c)
        Lower Cholesky factors, stacked like ``partition.stacks``.

    Examples
    --------
    >>> S = np.array([[2.0, 1.0, 0.3], [1.0, 2.0, 0.1], [0.3, 0.1, 1.0]])
    >>> BlockCovariance.of(S, Partition([0, 0, 1])).dense()
    array([[2., 1., 0.],
           [1., 2., 0.],
           [0., 0., 1.]])
    """

    partition: Partition
    factors: tuple[FloatArray, ...]

    @classmethod
    def of(
        cls,
        S: Covariance,
        partition: Partition,
        shrinkage: ArrayLike = 0.0,
        given: Mapping[int, FloatArray] | None = None,
    ) -> BlockCovariance:
        """Restrict S, shape (p, p), to the blocks of the partition; those of some groups may be given.

        Entries of S off the diagonal are multiplied by 1 − shrinkage, one number or one per group.
        """
        keep = 1 - np.broadcast_to(np.asarray(shrinkage, dtype=S.dtype), partition.n_groups)
        factors = []
        for stack in partition.stacks:
            groups = partition.labels[stack[:, 0]]
            matrices = within(S, stack, keep[groups])
            for b, k in enumerate(groups.tolist()):
                if given and k in given:
                    matrices[b] = given[k]
            factors.append(cholesky(matrices))
        return cls(partition, tuple(factors))

    def scaled(self, deviations: FloatArray) -> BlockCovariance:
        """diag(s) Σ diag(s): the covariance of columns multiplied by s, shape (p,)."""
        return BlockCovariance(
            self.partition,
            tuple(
                L * deviations[stack][:, :, None] for stack, L in zip(self.partition.stacks, self.factors, strict=True)
            ),
        )

    @cached_property
    def _whiteners(self) -> tuple[FloatArray, ...]:
        """Inverse factors L⁻¹, shapes (b, c, c), which whiten a centered block."""
        return tuple(inverse_factors(factor) for factor in self.factors)

    @property
    def logdet(self) -> float:
        """log|Σ|, the sum over blocks."""
        return float(2 * sum(np.log(np.diagonal(L, axis1=1, axis2=2)).sum(dtype=float) for L in self.factors))

    @property
    def variances(self) -> FloatArray:
        """The diagonal of Σ, shape (p,)."""
        found = np.empty(self.partition.n_columns)
        for stack, L in zip(self.partition.stacks, self.factors, strict=True):
            found[stack] = np.einsum("bij,bij->bi", L, L)
        return found

    @property
    def n_parameters(self) -> int:
        """Free entries, Σ c(c+1)/2 over the blocks."""
        return self.partition.n_parameters

    def squared_distances(self, centered: FloatArray) -> FloatArray:
        """xᵀ Σ⁻¹ x for each row of a centered matrix, shape (N, p) to (N,)."""
        total = np.zeros(len(centered), dtype=centered.dtype)
        for stack, whitener in zip(self.partition.stacks, self._whiteners, strict=True):
            if stack.shape[1] == 1:
                white = centered[:, stack[:, 0]] * whitener[:, 0, 0]
                total += np.einsum("ij,ij->i", white, white)
            else:
                white = np.matmul(centered[:, stack].swapaxes(0, 1), whitener.swapaxes(1, 2))
                total += np.einsum("bij,bij->i", white, white)
        return total

    def log_density(self, X: FloatArray, mean: FloatArray) -> FloatArray:
        """Gaussian log-density of each row of X around the mean."""
        # A Python float keeps float32 distances in float32.
        constant = float(self.partition.n_columns * np.log(2 * np.pi) + self.logdet)
        return -0.5 * (constant + self.squared_distances(X - mean))

    def sample(self, n: int, rng: np.random.RandomState | np.random.Generator) -> FloatArray:
        """Draw n centered rows, shape (n, p)."""
        noise: FloatArray = rng.standard_normal((n, self.partition.n_columns))
        rows = np.empty_like(noise)
        for stack, factor in zip(self.partition.stacks, self.factors, strict=True):
            rows[:, stack] = np.matmul(noise[:, stack].swapaxes(0, 1), factor.swapaxes(1, 2)).swapaxes(0, 1)
        return rows

    @property
    def blocks(self) -> tuple[FloatArray, ...]:
        """The matrix of each block, in the order of ``partition.groups``."""
        found = {}
        for stack, factor in zip(self.partition.stacks, self.factors, strict=True):
            for columns, L in zip(stack, factor, strict=True):
                found[self.partition.labels[columns[0]]] = L @ L.T
        return tuple(found[k] for k in range(self.partition.n_groups))

    def factor(self) -> FloatArray:
        """Lower Cholesky factor of the whole covariance, shape (p, p), with zeros between blocks."""
        return self._spread(list(self.factors))

    def dense(self) -> FloatArray:
        """The covariance as a (p, p) matrix."""
        return self._spread([np.matmul(L, L.swapaxes(1, 2)) for L in self.factors])

    def precision(self) -> FloatArray:
        """The inverse covariance as a (p, p) matrix."""
        return self._spread([np.matmul(W.swapaxes(1, 2), W) for W in self._whiteners])

    def _spread(self, stacked: list[FloatArray]) -> FloatArray:
        p = self.partition.n_columns
        whole = np.zeros((p, p), dtype=stacked[0].dtype)
        for stack, matrices in zip(self.partition.stacks, stacked, strict=True):
            whole[stack[:, :, None], stack[:, None, :]] = matrices
        return whole


def logdets(S: FloatArray, partitions: Sequence[Partition]) -> FloatArray:
    """log|Σ_k D_k S D_k| for m partitions of one matrix (p, p), or of one matrix each (m, p, p), shape (m,)."""
    if S.shape[-1] > _SMALL:
        each = np.broadcast_to(S, (len(partitions), *S.shape[-2:]))
        return np.array([BlockCovariance.of(own, part).logdet for own, part in zip(each, partitions, strict=True)])
    # Small matrices are masked and factored in one call, which saves a call for each size of block.
    labels = np.array([partition.labels for partition in partitions])
    factors = cholesky(S * (labels[:, :, None] == labels[:, None, :]))
    return np.asarray(2 * np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1, dtype=float))


def within(S: Covariance, stack: IntArray, keep: FloatArray) -> FloatArray:
    """Submatrices of S on rows of column indices, (b, c) to (b, c, c), with off-diagonals times keep, shape (b,)."""
    matrices: FloatArray = S[stack[:, :, None], stack[:, None, :]]
    if (keep != 1).any():
        diagonals = np.diagonal(matrices, axis1=1, axis2=2).copy()
        matrices *= keep[:, None, None]
        at = np.arange(stack.shape[1])
        matrices[:, at, at] = diagonals
    return matrices


def cholesky(matrices: FloatArray) -> FloatArray:
    """Lower Cholesky factors of stacked matrices, with the diagonal raised as far as a factor needs it.

    The ridge of the estimators makes the first attempt succeed unless rounding cancels it (float32, hundreds of
    duplicated columns). Then the diagonal is raised, starting at machine precision and tenfold each time.
    """
    try:
        factors: FloatArray = np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        factors = np.stack([_raised_cholesky(matrix) for matrix in matrices])
    # LAPACK lets NaN through without an error; it ends up on the diagonal of the factor.
    if not np.isfinite(np.diagonal(factors, axis1=1, axis2=2)).all():
        raise ValueError(_refusal(matrices.shape[1]))
    return factors


def _raised_cholesky(matrix: FloatArray) -> FloatArray:
    raised = np.array(matrix)
    variances = np.diagonal(matrix).copy()
    for power in range(8):
        try:
            return np.linalg.cholesky(raised)
        except np.linalg.LinAlgError:
            lift = len(matrix) * np.finfo(matrix.dtype).eps * 10.0**power
            raised.flat[:: len(matrix) + 1] = variances * (1 + lift)
    raise ValueError(_refusal(len(matrix)))


def _refusal(c: int) -> str:
    return f"a block of {c} columns has no positive definite covariance: check for NaN or zero variance"


def inverse_factors(factor: FloatArray) -> FloatArray:
    """Inverses of stacked lower triangular factors, shape (b, c, c)."""
    if factor.shape[1] == 1:
        return 1 / factor
    if factor.shape[1] <= _SMALL:
        # Of unit diagonals: columns of very different scale would make the dense inverse pivot.
        diagonal = np.diagonal(factor, axis1=1, axis2=2)
        return np.linalg.inv(factor / diagonal[:, :, None]) / diagonal[:, None, :]
    identity = np.eye(factor.shape[1], dtype=factor.dtype)
    return np.stack([solve_triangular(L, identity, lower=True, check_finite=False) for L in factor])


_SMALL = 32  # up to this size one batched dense call is faster than a call per block that exploits the zeros
