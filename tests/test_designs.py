"""The designs have the covariance, the groups and the moments that they claim."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform

from blockmix import Partition
from experiments import designs
from experiments.designs import Design, MixtureDesign

BLOCK_DESIGNS = [
    designs.sigma_a,
    designs.sigma_b,
    designs.covariance_positive,
    designs.covariance_negative,
]
MIXTURES = [designs.components_block(), designs.components_random(random_state=0)]


def blocks_of(covariance: NDArray[np.floating]) -> Partition:
    """Groups read off the covariance: columns joined by a chain of non-zero covariances."""
    return Partition(connected_components(covariance != 0, directed=False)[1])


def assert_moments(X: NDArray[np.floating], mean: NDArray[np.floating], covariance: NDArray[np.floating]) -> None:
    """Sample moments within five standard errors; a transposed Cholesky factor is far outside."""
    n, variances = len(X), covariance.diagonal()
    assert (np.abs(X.mean(axis=0) - mean) < 5 * np.sqrt(variances / n)).all()
    error = np.sqrt((np.outer(variances, variances) + covariance**2) / n)
    assert (np.abs(np.cov(X.T) - covariance) < 5 * error).all()


@pytest.mark.parametrize("make", BLOCK_DESIGNS)
def test_block_structure_equals_the_partition(make: Callable[[], Design]) -> None:
    # Red if a block is put in the wrong place or the labels are shifted.
    design = make()
    assert blocks_of(design.covariance) == design.partition
    assert np.array_equal(design.covariance, design.covariance.T)
    assert np.linalg.eigvalsh(design.covariance)[0] > 0.1


@pytest.mark.parametrize("make", [*BLOCK_DESIGNS, lambda: designs.block_grid(24, 6, random_state=1)])
def test_sample_moments_approach_the_design(make: Callable[[], Design]) -> None:
    design = make()
    assert_moments(design.sample(40_000, random_state=0), design.mean, design.covariance)


@pytest.mark.parametrize(
    ("make", "mean", "sizes", "total"),
    [
        (designs.sigma_a, range(8), [3, 3, 2], 64.0),
        (designs.sigma_b, range(8), [3, 3, 2], 44.5),
        (designs.covariance_positive, range(1, 13), [4, 4, 4], 126.0),
        (designs.covariance_negative, range(1, 13), [4, 4, 4], 18.0),
    ],
)
def test_printed_numbers_of_the_paper(make: Callable[[], Design], mean: range, sizes: list[int], total: float) -> None:
    # Totals added up by hand from the printed matrices; red if one entry differs.
    design = make()
    assert design.mean.tolist() == list(mean)
    assert design.partition.sizes.tolist() == sizes
    assert design.covariance.sum() == total


def test_sigma_b_has_both_signs_and_sigma_a_one() -> None:
    assert designs.sigma_a().covariance.min() == 0
    assert np.argwhere(designs.sigma_b().covariance < 0).tolist() == [[0, 1], [1, 0], [3, 4], [4, 3]]


def test_grid_is_the_papers_table() -> None:
    low, medium, high = (
        ((24, 3), (96, 4), (384, 8)),
        ((24, 6), (96, 8), (384, 16)),
        ((24, 12), (96, 16), (384, 32)),
    )
    assert set(designs.GRID) == {*low, *medium, *high}
    assert len(designs.GRID) == 9


@pytest.mark.parametrize(("p", "n_groups"), [cell for cell in designs.GRID if cell[0] < 384])
def test_grid_groups_show_in_the_covariance(p: int, n_groups: int) -> None:
    # Red if the noise drowns the blocks (0.5 EᵀE taken for 5 EᵀE) or the partition does not belong to them.
    design = designs.block_grid(p, n_groups, random_state=0)
    assert np.linalg.eigvalsh(design.covariance)[0] > 0
    scale = np.sqrt(design.covariance.diagonal())
    distance = 1 - np.abs(design.covariance / np.outer(scale, scale))
    tree = linkage(squareform(distance, checks=False), "average")
    assert Partition(fcluster(tree, n_groups, "maxclust")) == design.partition
    assert design.partition.sizes.tolist() == [p // n_groups] * n_groups


def test_grid_entries_have_the_moments_of_their_uniforms() -> None:
    # E σ_ij = p/8 between groups, plus (p/K)(3/2)² within; diagonal p/6 + (p/K) 7/3. Red if U(1, 2) and
    # U(0, 1) change places or the factor 0.5 is lost.
    p, n_groups = 384, 8
    design = designs.block_grid(p, n_groups, random_state=3)
    same = design.partition.labels[:, None] == design.partition.labels
    off_diagonal = ~np.eye(p, dtype=bool)
    assert design.covariance[~same].mean() == pytest.approx(p / 8, rel=0.02)
    assert design.covariance[same & off_diagonal].mean() == pytest.approx(p / 8 + 2.25 * p / n_groups, rel=0.02)
    assert design.covariance.diagonal().mean() == pytest.approx(p / 6 + 7 / 3 * p / n_groups, rel=0.02)
    assert design.mean.min() >= 0
    assert design.mean.max() <= 1
    assert design.mean.mean() == pytest.approx(0.5, abs=0.08)


def test_same_seed_same_draw_other_seed_other_draw() -> None:
    first, again, other = (designs.block_grid(24, 3, random_state=seed) for seed in (0, 0, 1))
    assert np.array_equal(first.covariance, again.covariance)
    assert not np.allclose(first.covariance, other.covariance)
    assert np.array_equal(first.sample(5, random_state=7), again.sample(5, random_state=7))
    assert not np.allclose(first.sample(5, random_state=7), first.sample(5, random_state=8))


def test_one_generator_gives_new_rows_at_each_call() -> None:
    # Red if the generator is re-seeded inside sample.
    rng, design = np.random.default_rng(0), designs.sigma_a()
    assert not np.allclose(design.sample(5, random_state=rng), design.sample(5, random_state=rng))


@pytest.mark.parametrize("mixture", MIXTURES, ids=lambda mixture: mixture.name)
def test_mixture_rows_have_the_moments_of_their_component(mixture: MixtureDesign) -> None:
    X, row_labels = mixture.sample(20_000, random_state=0)
    assert np.bincount(row_labels).tolist() == [20_000] * 3
    assert mixture.weights.sum() == pytest.approx(1)
    for g, (mean, covariance) in enumerate(zip(mixture.means, mixture.covariances, strict=True)):
        assert np.linalg.eigvalsh(covariance)[0] > 0
        assert_moments(X[row_labels == g], mean, covariance)


def test_block_components_are_the_printed_ones() -> None:
    mixture = designs.components_block()
    assert mixture.partitions is not None
    assert [blocks_of(covariance) for covariance in mixture.covariances] == list(mixture.partitions)
    assert [partition.sizes.tolist() for partition in mixture.partitions] == [[3, 3, 2], [3, 3, 2], [5, 3]]
    # Added up by hand from the printed matrices.
    assert mixture.covariances.sum(axis=(1, 2)) == pytest.approx([38.9, 57.0, 70.6])
    assert mixture.covariances[2].diagonal().tolist() == [2.1, 2.5, 3, 5, 4, 2, 3.5, 2.5]
    assert mixture.means[:, [0, -1]].tolist() == [[-5, 2], [0, 7], [5, 12]]


def test_random_components_differ_and_have_no_groups() -> None:
    mixture = designs.components_random(random_state=4)
    assert mixture.partitions is None
    assert not np.allclose(mixture.covariances[0], mixture.covariances[1])
    # AᵀA with U(0, 1) entries: E σ_ij = p/4 off the diagonal, p/3 on it, here over 3 × 56 and 3 × 8 entries.
    off_diagonal = ~np.eye(8, dtype=bool)
    assert mixture.covariances[:, off_diagonal].mean() == pytest.approx(2, rel=0.25)
    assert mixture.covariances[:, ~off_diagonal].mean() == pytest.approx(8 / 3, rel=0.25)


@pytest.mark.parametrize("n", [0, -3, 2.5])
def test_impossible_row_counts_are_named(n: int) -> None:
    with pytest.raises(ValueError, match=f"at least 1, got {n}"):
        designs.sigma_a().sample(n)
    with pytest.raises(ValueError, match=f"at least 1, got {n}"):
        designs.components_block().sample(n)


@pytest.mark.parametrize(("p", "n_groups"), [(24, 5), (24, 0), (0, 3), (4, 8)])
def test_unequal_grids_are_named(p: int, n_groups: int) -> None:
    with pytest.raises(ValueError, match=f"n_groups={n_groups} must divide the number of columns, p={p}"):
        designs.block_grid(p, n_groups)
