"""Silhouettes against scikit-learn: of any partition, and of every cut of a tree from one pass."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import Matrix, covariances, partitions, singular_covariances

from blockmix.blocks.moments import correlation
from blockmix.grouping import HierarchicalGrouping
from blockmix.grouping import silhouette as module
from blockmix.grouping.silhouette import silhouette, tree_silhouettes
from blockmix.partition import Partition

any_covariance = st.one_of(covariances(), singular_covariances())


def distances_of(R: Matrix) -> Matrix:
    distances = 1 - np.abs(R)
    np.fill_diagonal(distances, 0)
    return distances


@given(any_covariance, st.data())
def test_a_partition_has_scikit_learns_silhouette(S: Matrix, data: st.DataObject) -> None:
    R = correlation(S)
    partition = data.draw(partitions(len(S)))
    assert silhouette(R, partition) == pytest.approx(oracles.silhouette(distances_of(R), partition.labels), abs=1e-9)


@given(any_covariance, st.sampled_from(["average", "single", "complete"]))
def test_every_cut_of_a_tree_has_scikit_learns_silhouette(S: Matrix, linkage: str) -> None:
    # Red if the nearest group is not looked for again where it was one of the two that merged.
    R = correlation(S)
    distances = distances_of(R)
    tree = HierarchicalGrouping(linkage).tree(R)
    expected = [oracles.silhouette(distances, oracles.tree_cut(tree, K)) for K in range(1, len(S) + 1)]
    assert_allclose(tree_silhouettes(distances, tree), [0, *expected], atol=1e-9)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_smallest_tables(p: int) -> None:
    R = np.eye(p) + 0.5 * (1 - np.eye(p))
    tree = HierarchicalGrouping().tree(R)
    assert tree_silhouettes(distances_of(R), tree).tolist() == [0] * (p + 1)
    assert silhouette(R, Partition.single(p)) == silhouette(R, Partition.separate(p)) == 0


def test_distances_are_not_written_to() -> None:
    distances = distances_of(np.eye(4) + 0.3 * (1 - np.eye(4)))
    before = distances.copy()
    tree_silhouettes(distances, HierarchicalGrouping().tree(1 - distances))
    assert np.array_equal(distances, before)


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    R = correlation(np.cov(np.random.default_rng(0).standard_normal((30, 11)).T))
    partition = Partition([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 3])
    whole = silhouette(R, partition)
    monkeypatch.setattr(module, "_CHUNK", 3)
    assert silhouette(R, partition) == pytest.approx(whole, abs=1e-12)
