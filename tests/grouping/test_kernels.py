"""The compiled loops: SciPy's trees, literal sums, and no way to run in circles."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform
from strategies import Matrix, covariances, seeds, singular_covariances

from blockmix.blocks.moments import as_matrix, correlation
from blockmix.grouping import HierarchicalGrouping, kernels
from blockmix.grouping.grouping import LINKAGES

any_covariance = st.one_of(covariances(), singular_covariances())


def symmetric(rng: np.random.Generator, p: int, decimals: int | None = None) -> Matrix:
    upper = np.triu(rng.random((p, p)), 1)
    if decimals is not None:
        upper = np.round(upper, decimals)
    return upper + upper.T


@given(seeds, st.integers(2, 40), st.sampled_from(LINKAGES))
def test_the_tree_is_scipys(seed: int, p: int, method: str) -> None:
    distances = symmetric(np.random.default_rng(seed), p)
    expected = hierarchy.linkage(squareform(distances), method)
    assert np.array_equal(kernels.linkage(distances, LINKAGES.index(method)), expected)


@given(seeds, st.integers(2, 12), st.sampled_from(["average", "complete"]))
def test_ties_are_broken_as_in_scipy(seed: int, p: int, method: str) -> None:
    # Half of the distances are equal to another. Red if a chain prefers a new group to the one it came from.
    distances = symmetric(np.random.default_rng(seed), p, decimals=1)
    expected = hierarchy.linkage(squareform(distances), method)
    assert np.array_equal(kernels.linkage(distances, LINKAGES.index(method)), expected)


@given(seeds, st.integers(2, 12))
def test_ties_in_single_linkage_leave_a_valid_tree_of_the_same_heights(seed: int, p: int) -> None:
    distances = symmetric(np.random.default_rng(seed), p, decimals=1)
    heights = hierarchy.linkage(squareform(distances), "single")[:, 2]
    tree = kernels.linkage(distances, LINKAGES.index("single"))
    assert hierarchy.is_valid_linkage(tree)
    assert_allclose(tree[:, 2], heights)


@given(seeds, st.integers(3, 8), st.sampled_from(LINKAGES))
def test_distances_that_differ_by_rounding_do_not_run_in_circles(seed: int, p: int, method: str) -> None:
    # All equal but for the last digit, and that not the same both ways. Red without the mirror: it never returns.
    rng = np.random.default_rng(seed)
    distances = 0.5 + rng.integers(0, 3, (p, p)) * np.finfo(float).eps
    assert hierarchy.is_valid_linkage(kernels.linkage(distances, LINKAGES.index(method)))


def test_one_column_is_a_tree_without_merges() -> None:
    assert kernels.linkage(np.zeros((1, 1)), 0).shape == (0, 4)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_distances_that_are_not_finite_are_refused(bad: float) -> None:
    R = np.eye(4)
    R[1, 3] = R[3, 1] = bad
    with pytest.raises(ValueError, match=r"^S has entries that are not finite: remove or fill missing values$"):
        HierarchicalGrouping().group(R, 2)


@given(any_covariance, st.sampled_from([np.float64, np.float32]))
def test_sums_between_branches_are_the_literal_ones(S: Matrix, dtype: type) -> None:
    R = correlation(S).astype(dtype)
    tree = HierarchicalGrouping().tree(R)
    nodes = oracles.tree_nodes(tree)
    squares, deviances = kernels.between_branches(as_matrix(R).entries, tree)
    for k, (a, b) in enumerate(tree[:, :2].astype(int)):
        q = np.minimum(R[np.ix_(nodes[a], nodes[b])].astype(float) ** 2, 1 - 1e-12)
        assert squares[k] == pytest.approx(q.sum())
        assert deviances[k] == pytest.approx(-np.log(1 - q).sum(), rel=1e-6)


def test_numba_is_loaded_with_the_first_tree_and_not_before() -> None:
    # Red if a module imports the kernels at its top: `import blockmix.grouping` would take as long as a fit.
    code = (
        "import sys, numpy as np; from blockmix.grouping import HierarchicalGrouping; before = 'numba' in sys.modules;"
        "HierarchicalGrouping().group(np.eye(3), 2); print(before, 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
