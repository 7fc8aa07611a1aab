"""Views and bins: what is drawn is what the model and the rows say."""

from __future__ import annotations

import numpy as np
import pytest

from blockmix.blocks.blocks import Blocks
from blockmix.partition import Partition
from blockmix.plotting.views import aligned_labels, binned, board_view, component_view


def observed(X: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    p = X.shape[1]
    R = component_view(Blocks.of(np.eye(p), Partition.separate(p)), X, weights, None).observed
    assert R is not None
    return R


def test_observed_correlations_are_those_of_the_weighted_rows() -> None:
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((40, 3)), rng.integers(0, 3, 40).astype(float)
    assert np.allclose(observed(X, w), np.corrcoef(np.repeat(X, w.astype(int), axis=0).T))
    X[:, 1] = 2.0
    R = observed(X, w)
    assert R[1].tolist() == [0, 1, 0] and np.isfinite(R).all()
    assert np.array_equal(observed(X, np.zeros(40)), np.eye(3))


def test_observed_correlations_with_missing_values_are_those_of_the_rows_that_have_both() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4)) @ rng.standard_normal((4, 4))
    weights = rng.random(300)
    X[rng.random(X.shape) < 0.2] = np.nan
    R = observed(X, weights)
    centered = X - np.array([np.average(x[~np.isnan(x)], weights=weights[~np.isnan(x)]) for x in X.T])
    for i in range(4):
        for j in range(4):
            both = ~np.isnan(X[:, i] + X[:, j])
            a, b, w = centered[both, i], centered[both, j], weights[both]
            assert R[i, j] == pytest.approx((w * a * b).sum() / np.sqrt((w * a * a).sum() * (w * b * b).sum()))
    X[:, 2] = np.nan
    assert observed(X)[2].tolist() == [0, 0, 1, 0]


def test_means_over_bins_leave_missing_values_out() -> None:
    values = np.array([[1.0, np.nan, 5.0], [3.0, np.nan, np.nan], [7.0, 2.0, np.nan]])
    np.testing.assert_allclose(binned(values, np.array([0, 2, 3]), np.arange(4)), [[2, np.nan, 5], [7, 2, np.nan]])
    assert binned(values, np.array([0, 2, 3]), np.array([0, 3])).tolist() == [[3], [4.5]]
    assert binned(np.arange(8.0).reshape(2, 4), np.arange(3), np.array([0, 1, 4])).tolist() == [[0, 2], [4, 6]]


def test_aligned_numbers_do_not_depend_on_the_numbers_given() -> None:
    rng = np.random.default_rng(0)
    labels = np.stack([Partition(rng.integers(0, 4, 12)).labels for _ in range(3)])
    aligned = aligned_labels(labels)
    for before, after in zip(labels, aligned, strict=True):
        assert Partition(before) == Partition(after)
    other = np.stack([labels[0], 3 - np.minimum(labels[1], 3), labels[2]])
    assert all(Partition(a) == Partition(b) for a, b in zip(aligned_labels(other), aligned, strict=True))
    assert (aligned_labels(np.stack([labels[0]] * 3)) == labels[0]).all()


def test_rows_stand_by_cluster_along_one_direction_and_no_bin_spans_two_clusters() -> None:
    X, labels = np.random.default_rng(0).standard_normal((50, 3)), np.repeat([1, 0], [45, 5])
    X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
    board = board_view(X, labels, np.arange(3), (10, 3))
    assert sorted(board.order) == list(range(50)) and labels[board.order].tolist() == [0] * 5 + [1] * 45
    assert abs(np.corrcoef(X[board.order[5:], 0], np.arange(45))[0, 1]) > 0.9
    assert board.row_bins.tolist() == [0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50]
    assert board.values.shape == (10, 3)


def test_a_constant_column_is_standardized_to_zero() -> None:
    # Red if the rounding of the mean of 0.1s passes for variation, or if a column in tiny units counts as constant.
    ramp = np.arange(1000.0)
    X = np.column_stack([np.full(1000, 0.1), ramp, 1e-20 * ramp])
    board = board_view(X, np.zeros(1000, dtype=int), np.arange(3), (1000, 3))
    Z = board.values[np.argsort(board.order)]
    assert np.abs(Z[:, 0]).max() < 1e-12
    assert Z[:, 1] == pytest.approx((ramp - ramp.mean()) / ramp.std())
    assert Z[:, 2] == pytest.approx(Z[:, 1])
