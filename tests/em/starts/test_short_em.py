"""Short EM against scikit-learn's mixture, and what it prefers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from strategies import seeds

from blockmix.em.starts import short_em
from blockmix.em.starts.short_em import Products, best_start


def dense_sweep(X: Any, w: Any, z: Any) -> tuple[Any, float]:
    """One M-step and E-step in dense covariances with the same floor."""
    joint = []
    for share in (z * w[:, None]).T:
        n = share.sum()
        mean = share @ X / n
        covariance = ((X - mean).T * share) @ (X - mean) / n + short_em._FLOOR * np.eye(X.shape[1])
        joint.append(np.log(n / w.sum()) + multivariate_normal(mean, covariance).logpdf(X))
    total = np.column_stack(joint)
    value = logsumexp(total, axis=1)
    return np.exp(total - value[:, None]), float(w @ value / w.sum())


@given(st.integers(20, 60), st.integers(1, 4), st.integers(2, 3), seeds)
def test_sweeps_of_many_mixtures_are_those_of_each(N: int, p: int, G: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((N, p)), rng.uniform(0.5, 2, N)
    firsts = rng.dirichlet(np.full(G, 5.0), (N, 3))
    z, value, share = Products.of(X, w).swept(firsts.astype("f4"), 2)
    for s in range(3):
        once, _ = dense_sweep(X, w, firsts[:, s])
        twice, level = dense_sweep(X, w, once)
        assert_allclose(z[:, s], twice, atol=2e-3)
        assert_allclose(value[s] - 0.5 * p * np.log(2 * np.pi), level, atol=2e-4)
        assert_allclose(share[s], w @ once / w.sum(), atol=1e-3)


def planted() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 40)
    X = rng.standard_normal((120, 3)) + 6 * np.eye(3)[y]
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def test_a_component_on_a_few_rows_comes_after_all_sound_ones() -> None:
    # Red if the likelihood alone decides: a component on five equal rows has the highest.
    X, y = planted()
    X = np.concatenate([X, np.tile([[3.0, 3, 3]], (5, 1))])
    spike = np.eye(3)[np.where(np.arange(125) < 120, np.minimum(y[np.arange(125) % 120], 1), 2)]
    sound = np.eye(3)[np.append(y, np.zeros(5, dtype=int))]
    order, _ = best_start(X, np.ones(125), [spike, sound], 5, np.random.RandomState(0))
    assert order[0] == 1


def test_every_clustering_has_a_place() -> None:
    X, y = planted()
    rng = np.random.RandomState(0)
    pool = [np.eye(3)[rng.permutation(y)] for _ in range(12)] + [np.eye(3)[y]]
    order, z = best_start(X, np.ones(120), pool, 5, rng)
    assert sorted(order.tolist()) == list(range(13))
    assert z.shape == (120, 3)


def test_of_many_rows_a_part_is_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = planted()
    monkeypatch.setattr(short_em, "_NUMBERS", 60 * 10)
    seen: list[int] = []
    original = Products.of
    monkeypatch.setattr(Products, "of", lambda X, w: seen.append(len(X)) or original(X, w))
    pool = [np.tile(np.eye(3), (40, 1)), np.eye(3)[y]]
    order, z = best_start(X, np.ones(120), pool, 5, np.random.RandomState(0))
    assert seen == [60]
    assert order[0] == 1 and z is pool[1]
