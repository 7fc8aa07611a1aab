"""Clusterings that the default start compares: outliers do not attract them, and least inertia is least."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from strategies import seeds as numbers

from blockmix.starts.clusterings import (
    SEEDS,
    by_ranks,
    clip,
    clusterings,
    inertia,
    least_inertia,
    nearest_seed,
    normal_scores,
    seeds,
)


def table(seed: int, N: int = 90, p: int = 4, G: int = 3, gap: float = 8.0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    y = np.arange(N) % G
    X = rng.standard_normal((N, p)) + gap * np.eye(G, p)[y]
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def labels(z: Any) -> Any:
    return z.argmax(axis=1)


def test_gross_outliers_attract_plain_k_means_only() -> None:
    # Red if columns are clipped at moments, which the outliers move.
    X, y = table(0)
    X = np.concatenate([X, 200 * np.eye(4)[:3], -200 * np.eye(4)[:3]])
    found = clusterings(X, np.ones(len(X)), 3, np.random.RandomState(0))
    assert adjusted_rand_score(y, labels(found["kmeans"])[:90]) < 0.5
    assert adjusted_rand_score(y, labels(found["clipped"])[:90]) == 1
    assert not found["trimmed"][90:].any()
    assert found["trimmed"].sum() == pytest.approx(0.9 * len(X), abs=1)


def test_trimming_never_removes_a_cluster() -> None:
    X = np.concatenate([np.random.default_rng(0).standard_normal((97, 2)), [[60.0, 60], [61, 60], [60, 61]]])
    found = clusterings(X, np.ones(100), 2, np.random.RandomState(0))
    assert (found["trimmed"].sum(axis=0) > 0).all()


def test_a_column_that_is_mostly_one_value_is_not_clipped() -> None:
    # Red if a median absolute deviation of 0 clips every other value away.
    X = np.array([[0.0], [0.0], [0.0], [0.0], [7.0]])
    assert_array_equal(clip(X), X)


def test_ranks_find_clusters_of_skewed_columns() -> None:
    # Red if k-means has the columns themselves: the long tails are its clusters.
    X, y = table(2, N=300, gap=3.5)
    X = np.exp(2 * X)
    plain = clusterings(X, np.ones(300), 3, np.random.RandomState(0))["kmeans"]
    assert adjusted_rand_score(y, labels(plain)) < 0.7
    assert adjusted_rand_score(y, labels(by_ranks(X, np.ones(300), 3, np.random.RandomState(0)))) > 0.9


def test_normal_scores_take_a_weight_of_two_as_two_rows() -> None:
    X = np.random.default_rng(0).integers(0, 5, (20, 3)).astype(float)
    weights = np.where(np.arange(20) < 8, 2.0, 1.0)
    assert_allclose(normal_scores(X, weights), normal_scores(np.concatenate([X, X[:8]]), np.ones(28))[:20])


@given(st.integers(4, 20), st.integers(21, 40), st.integers(2, 4), numbers)
def test_least_inertia_is_no_worse_than_k_means_with_ten_starts(N: int, p: int, G: int, seed: int) -> None:
    X = np.random.default_rng(seed).standard_normal((N, p))
    weights = np.ones(N)
    z = least_inertia(X, weights, G, np.random.RandomState(0))
    plain = KMeans(G, n_init=10, random_state=np.random.RandomState(0)).fit(X).labels_
    assert inertia(X, weights, z) <= inertia(X, weights, np.eye(G)[plain]) * 1.02
    assert len(np.unique(labels(z))) == G


def test_inertia_is_the_objective_of_k_means() -> None:
    X, _ = table(1)
    search = KMeans(3, n_init=1, random_state=0).fit(X)
    assert_allclose(inertia(X, np.ones(len(X)), np.eye(3)[search.labels_]), search.inertia_)


@given(st.integers(3, 30), st.integers(1, 6), numbers)
def test_seeds_leave_no_cluster_empty(N: int, p: int, seed: int) -> None:
    X = np.random.default_rng(seed).standard_normal((N, p))
    found = seeds(X, np.ones(N), 3, np.random.RandomState(0))
    assert len(found) == SEEDS
    for z in found.values():
        assert_array_equal(np.unique(labels(z)), np.arange(3))


def test_rows_without_weight_are_never_seeds() -> None:
    X = np.arange(6.0)[:, None]
    weights = np.array([1.0, 0, 0, 0, 0, 1])
    for seed in range(10):
        found = nearest_seed(X, weights, 2, np.random.RandomState(seed))
        assert found[0] != found[5]
        assert_array_equal(found == found[0], [True, True, True, False, False, False])
