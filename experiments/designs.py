"""The paper's simulated designs (sections 2.5, 2.6 and 3.1).

A `Design` is one Gaussian with its mean, its covariance and the true column groups; a `MixtureDesign` is a weighted
mixture of Gaussians. Their method `sample` draws rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import block_diag

from blockmix.partition import FloatArray, IntArray, Partition

__all__ = [
    "GRID",
    "Design",
    "MixtureDesign",
    "block_grid",
    "components_block",
    "components_random",
    "covariance_negative",
    "covariance_positive",
    "sigma_a",
    "sigma_b",
]

Seed = int | np.random.Generator | None

#: The nine cells (p, K) of the paper's table of block structures.
GRID = ((24, 3), (24, 6), (24, 12), (96, 4), (96, 8), (96, 16), (384, 8), (384, 16), (384, 32))


@dataclass(frozen=True, eq=False)
class Design:
    """One Gaussian N(mean, covariance) whose columns fall into groups.

    Parameters
    ----------
    name : str
        Short name for tables.
    mean : ndarray of shape (p,)
    covariance : ndarray of shape (p, p)
        The covariance that rows are drawn from, including noise between the blocks.
    partition : Partition
        The true column groups.

    Examples
    --------
    >>> design = sigma_a()
    >>> design.partition.n_groups
    3
    >>> design.sample(50, random_state=0).shape
    (50, 8)
    """

    name: str
    mean: FloatArray
    covariance: FloatArray
    partition: Partition

    def sample(self, n: int, random_state: Seed = None) -> FloatArray:
        """Draw `n` independent rows.

        Parameters
        ----------
        n : int
            Number of rows, at least 1.
        random_state : int, Generator or None

        Returns
        -------
        X : ndarray of shape (n, p)
        """
        return _gaussian_rows(self.mean, self.covariance, _row_count(n), np.random.default_rng(random_state))


@dataclass(frozen=True, eq=False)
class MixtureDesign:
    """A Gaussian mixture of G components, each with its own column groups.

    Parameters
    ----------
    name : str
    weights : ndarray of shape (G,)
    means : ndarray of shape (G, p)
    covariances : ndarray of shape (G, p, p)
    partitions : tuple of G Partition, or None
        None if the covariances have no block structure.

    Examples
    --------
    >>> X, row_labels = components_block().sample(30, random_state=0)
    >>> X.shape, np.bincount(row_labels).tolist()
    ((90, 8), [30, 30, 30])
    """

    name: str
    weights: FloatArray
    means: FloatArray
    covariances: FloatArray
    partitions: tuple[Partition, ...] | None

    def sample(self, n_per_component: int, random_state: Seed = None) -> tuple[FloatArray, IntArray]:
        """Draw the same number of rows from every component, as the paper does (its weights are equal).

        Parameters
        ----------
        n_per_component : int
            Rows per component, at least 1.
        random_state : int, Generator or None

        Returns
        -------
        X : ndarray of shape (G * n_per_component, p)
            The rows of component 0 first, then those of component 1, and so on.
        row_labels : ndarray of shape (G * n_per_component,)
        """
        n, rng = _row_count(n_per_component), np.random.default_rng(random_state)
        components = zip(self.means, self.covariances, strict=True)
        X = np.concatenate([_gaussian_rows(mean, covariance, n, rng) for mean, covariance in components])
        return X, np.repeat(np.arange(len(self.means)), n)


def sigma_a() -> Design:
    """Σ_A: eight columns in groups of 3, 3 and 2, no negative covariance, mean 0, …, 7.

    Examples
    --------
    >>> sigma_a().covariance[0, :4].tolist()
    [4.5, 2.0, 2.0, 0.0]
    """
    blocks = [_equal(3, 4.5, 2.0), _equal(3, 4.5, 2.0), _equal(2, 4.5, 2.0)]
    return Design("sigma_a", np.arange(8.0), *_diagonal(blocks))


def sigma_b() -> Design:
    """Σ_B: groups and mean of Σ_A, covariances of both signs.

    Examples
    --------
    >>> sigma_b().covariance[0, :4].tolist()
    [4.5, -2.0, 1.0, 0.0]
    """
    blocks = [
        [[4.5, -2.0, 1.0], [-2.0, 4.5, 2.0], [1.0, 2.0, 4.5]],
        [[4.5, -2.0, 2.0], [-2.0, 4.5, 2.0], [2.0, 2.0, 4.5]],
        [[3.0, 2.0], [2.0, 4.5]],
    ]
    return Design("sigma_b", np.arange(8.0), *_diagonal(blocks))


def covariance_positive() -> Design:
    """Twelve columns in three groups of 4, variance 4.5, covariance 2 within a group, mean 1, …, 12.

    The paper gives the number of groups but not their sizes; 4, 4, 4 is assumed here.

    Examples
    --------
    >>> covariance_positive().covariance[0, :5].tolist()
    [4.5, 2.0, 2.0, 2.0, 0.0]
    """
    return Design("covariance_positive", np.arange(1.0, 13.0), *_diagonal([_equal(4, 4.5, 2.0)] * 3))


def covariance_negative() -> Design:
    """Twelve columns as in `covariance_positive`, but with covariance −1 within a group.

    Examples
    --------
    >>> covariance_negative().covariance[0, :5].tolist()
    [4.5, -1.0, -1.0, -1.0, 0.0]
    """
    return Design("covariance_negative", np.arange(1.0, 13.0), *_diagonal([_equal(4, 4.5, -1.0)] * 3))


def block_grid(p: int, n_groups: int, random_state: Seed = None) -> Design:
    """One random design of the paper's (p, K) grid: K equal blocks under dense noise.

    Σ = diag(A_1ᵀA_1, …, A_KᵀA_K) + 0.5 EᵀE with A_k of size p/K and entries U(1, 2), E of size p and entries
    U(0, 1); the mean has entries U(0, 1). The noise correlates all columns, so Σ itself is not block-diagonal.

    Parameters
    ----------
    p : int
        Number of columns.
    n_groups : int
        Number of groups K; it must divide p.
    random_state : int, Generator or None

    Returns
    -------
    Design

    Examples
    --------
    >>> block_grid(24, 6, random_state=0).partition.sizes.tolist()
    [4, 4, 4, 4, 4, 4]
    """
    if p < 1 or n_groups < 1 or p % n_groups:
        raise ValueError(f"n_groups={n_groups} must divide the number of columns, p={p}, into equal groups")
    rng, size = np.random.default_rng(random_state), p // n_groups
    mean = rng.uniform(size=p)
    A = rng.uniform(1.0, 2.0, size=(n_groups, size, size))
    E = rng.uniform(size=(p, p))
    covariance, partition = _diagonal(A.transpose(0, 2, 1) @ A)
    return Design(f"block_grid({p}, {n_groups})", mean, covariance + 0.5 * (E.T @ E), partition)


def components_block() -> MixtureDesign:
    """Scenario 1 of section 3.1: three components of eight columns, each covariance block-diagonal.

    The first two have groups of 3, 3 and 2 columns, the third of 5 and 3.

    Examples
    --------
    >>> [partition.sizes.tolist() for partition in components_block().partitions]
    [[3, 3, 2], [3, 3, 2], [5, 3]]
    """
    blocks: list[list[ArrayLike]] = [
        [
            [[2.5, 0.5, 0.5], [0.5, 3.5, 0.5], [0.5, 0.5, 4.5]],
            [[2.0, 1.0, 1.0], [1.0, 2.0, 1.0], [1.0, 1.0, 2.0]],
            [[3.5, 3.0], [3.0, 3.9]],
        ],
        [
            [[4.5, -2.0, 1.0], [-2.0, 4.5, 2.0], [1.0, 2.0, 4.5]],
            [[4.0, 3.0, 3.0], [3.0, 3.5, 3.0], [3.0, 3.0, 4.0]],
            [[4.0, 2.0], [2.0, 4.0]],
        ],
        [
            np.full((5, 5), 2.0) + np.diag([0.1, 0.5, 1.0, 3.0, 2.0]),
            np.full((3, 3), 1.0) + np.diag([1.0, 2.5, 1.5]),
        ],
    ]
    covariances, partitions = zip(*map(_diagonal, blocks), strict=True)
    return MixtureDesign("components_block", np.full(3, 1 / 3), _component_means(), np.stack(covariances), partitions)


def components_random(random_state: Seed = None) -> MixtureDesign:
    """Scenario 2 of section 3.1: three components with random covariances AᵀA, entries of A from U(0, 1).

    There are no column groups, so `partitions` is None. The paper gives no means for this scenario; those of
    scenario 1 are used.

    Parameters
    ----------
    random_state : int, Generator or None

    Examples
    --------
    >>> components_random(random_state=0).covariances.shape
    (3, 8, 8)
    """
    A = np.random.default_rng(random_state).uniform(size=(3, 8, 8))
    covariances = A.transpose(0, 2, 1) @ A
    return MixtureDesign("components_random", np.full(3, 1 / 3), _component_means(), covariances, None)


def _component_means() -> FloatArray:
    return np.array([np.arange(8.0) + shift for shift in (-5, 0, 5)])


def _equal(size: int, variance: float, covariance: float) -> FloatArray:
    """A block with one variance and one covariance."""
    return np.full((size, size), covariance) + (variance - covariance) * np.eye(size)


def _diagonal(blocks: Iterable[ArrayLike]) -> tuple[FloatArray, Partition]:
    """Covariance with these blocks on its diagonal, and its groups."""
    parts = [np.asarray(block, dtype=np.float64) for block in blocks]
    labels = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return block_diag(*parts), Partition(labels)


def _row_count(n: int) -> int:
    if not isinstance(n, Integral) or n < 1:
        raise ValueError(f"the number of rows must be an integer of at least 1, got {n!r}")
    return int(n)


def _gaussian_rows(mean: FloatArray, covariance: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
    return mean + rng.standard_normal((n, len(mean))) @ np.linalg.cholesky(covariance).T
