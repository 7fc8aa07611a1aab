"""Short EM against dense t mixtures, and what it prefers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import multivariate_t
from strategies import seeds

from blockmix.starts import default as short_em
from blockmix.starts.default import Products, best_start


def dense_sweep(X: Any, w: Any, z: Any, u: Any) -> tuple[Any, Any, float]:
    """One M-step and E-step in dense scale matrices with the same floor; the divisor of the scatter is Σ zu."""
    joint, weights = [], []
    nu, p = short_em._DEGREES, X.shape[1]
    for own, far in zip((z * w[:, None]).T, u.T, strict=True):
        share = own * far
        mean = share @ X / share.sum()
        scale = ((X - mean).T * share) @ (X - mean) / share.sum() + short_em._FLOOR * np.eye(p)
        joint.append(np.log(own.sum() / w.sum()) + multivariate_t(mean, scale, nu).logpdf(X))
        square = np.einsum("ij,jk,ik->i", X - mean, np.linalg.inv(scale), X - mean)
        weights.append((nu + p) / (nu + square))
    total = np.column_stack(joint)
    value = logsumexp(total, axis=1)
    return np.exp(total - value[:, None]), np.column_stack(weights), float(w @ value / w.sum())


@given(st.integers(20, 60), st.integers(1, 4), st.integers(2, 3), seeds)
def test_sweeps_of_many_mixtures_are_those_of_each(N: int, p: int, G: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((N, p)), rng.uniform(0.5, 2, N)
    firsts = rng.dirichlet(np.full(G, 5.0), (N, 3))
    begin = np.moveaxis(firsts, 0, 2).swapaxes(0, 1).astype("f4")
    z, u, value, share = Products.of(X, w).swept(begin, np.ones_like(begin), 2)
    constant = multivariate_t(np.zeros(p), np.eye(p), short_em._DEGREES).logpdf(np.zeros(p))
    constant -= 0.5 * (short_em._DEGREES + p) * np.log1p(p / short_em._DEGREES)
    for s in range(3):
        once, far, _ = dense_sweep(X, w, firsts[:, s], np.ones((N, G)))
        twice, farther, level = dense_sweep(X, w, once, far)
        assert_allclose(z[:, s].T, twice, atol=2e-3)
        assert_allclose(u[:, s].T, farther, atol=2e-3)
        assert_allclose(value[s] + constant, level, atol=2e-4)
        assert_allclose(share[:, s], w @ once / w.sum(), atol=1e-3)


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
    # Two clusters as one, and the third in halves by its first column.
    halves = np.where(y < 2, 0, 1 + (X[:, 0] > np.median(X[y == 2, 0])))
    pool = [np.eye(3)[halves], np.eye(3)[y]]
    order, z = best_start(X, np.ones(120), pool, 5, np.random.RandomState(0))
    assert seen == [60]
    assert order[0] == 1 and z is pool[1]


def test_far_rows_do_not_decide() -> None:
    # Red with normal components: their likelihood is higher if ten far rows have one and two clusters share another.
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 100)
    X = np.concatenate([rng.standard_normal((300, 3)) + 8 * np.eye(3)[y], rng.uniform(-40, 40, (10, 3))])
    right = np.eye(3)[np.append(y, np.arange(10) % 3)]
    wrong = np.eye(3)[np.append(np.minimum(y, 1), np.full(10, 2))]
    order, z = best_start(
        (X - X.mean(axis=0)) / X.std(axis=0), np.ones(310), [wrong, right], 5, np.random.RandomState(0)
    )
    assert order[0] == 1
    assert (z.argmax(axis=1)[:300] == y).all()
    assert z[300:].sum(axis=1).max() < 0.2
    assert np.median(z[:300].sum(axis=1)) > 0.99
