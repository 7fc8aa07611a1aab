"""The search under one covariance: dense formulas as oracles, and clusters that no distance between rows shows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from strategies import Matrix

from blockmix import GaussianBiclustering, select
from blockmix.starts import pooled as module
from blockmix.starts.pooled import flatter, hard_deviance, likelier, likelier_labels, pooled_em, whitened


def cigars(seed: int, p: int, N: int = 450) -> tuple[Matrix, Any]:
    """Three clusters six deviations apart along one axis, which has a fiftieth of the scale of the others."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, N)
    X = rng.standard_normal((N, p))
    X[:, 0] = (X[:, 0] + 6 * y) / 50
    X = X @ np.linalg.qr(rng.standard_normal((p, p)))[0]
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def test_sweeps_and_hard_deviances_are_those_of_dense_normal_mixtures() -> None:
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((40, 3)) @ rng.standard_normal((3, 3)), rng.uniform(0.5, 2, 40)
    z, share, white = rng.dirichlet(np.ones(2), 40), w / w.sum(), whitened(X, w)
    counts = share @ z
    means = (z * share[:, None]).T @ X / counts[:, None]
    total = np.cov(X.T, aweights=w, bias=True)
    inside = total - ((means - share @ X).T * counts) @ (means - share @ X)
    spread = inside + module._LEAST * total  # of whitened rows it is the floor of every variance
    density = np.column_stack([multivariate_normal(mean, spread).logpdf(X) for mean in means]) + np.log(counts)
    value = share @ logsumexp(density, axis=1) - share @ multivariate_normal(share @ X, total).logpdf(X)
    ends, values, thin = pooled_em(white, share, z.T[:, None], 1, 0.0)
    assert_allclose(ends[:, 0].T, np.exp(density - logsumexp(density, axis=1, keepdims=True)), atol=1e-5)
    assert_allclose(values, value, atol=1e-5)
    assert thin.tolist() == [0] and pooled_em(white, share, z.T[:, None], 1, 1.0)[2].tolist() == [2]
    hard = np.eye(2)[(z[:, 0] > 0.5).astype(int)]
    counts, means = share @ hard, (hard * share[:, None]).T @ X / (share @ hard)[:, None]
    inside = total - ((means - share @ X).T * counts) @ (means - share @ X)
    wanted = np.linalg.slogdet(inside)[1] - np.linalg.slogdet(total)[1] - 2 * counts @ np.log(counts)
    assert_allclose(hard_deviance(white, w, hard), wanted, atol=0.1)  # the floor is of another matrix


def test_a_cut_along_the_flattest_axis_is_taken_only_where_it_is_likelier() -> None:
    X, y = cigars(100, 10)
    means = KMeans(3, n_init=3, random_state=0).fit_predict(X)
    cut = flatter(X, np.ones(450), 3, [np.eye(3)[means]])
    assert cut is not None and adjusted_rand_score(y, cut.argmax(axis=1)) > 0.8
    corners = np.random.default_rng(0).standard_normal((450, 3)) + 8 * np.eye(3)[y]
    assert flatter(corners, np.ones(450), 3, [np.eye(3)[y]]) is None


def test_one_covariance_finds_thin_clusters_and_small_ones_and_leaves_right_ones_alone() -> None:
    # Red without the cuts (cigars), without the drawn seeds (small clusters), or if any difference counts (truth).
    rng = np.random.default_rng(100)
    y = np.repeat(np.arange(4), [144, 14, 11, 11])
    small = (rng.standard_normal((180, 13)) + 3.5 * rng.standard_normal((4, 13))[y]) @ rng.standard_normal((13, 13))
    small = (small - small.mean(axis=0)) / small.std(axis=0)
    for X, truth in (cigars(101, 20), (small, y)):
        G, weights, draws = int(truth.max()) + 1, np.ones(len(X)), np.random.RandomState(0)
        wrong = np.eye(G)[rng.integers(0, G, len(X))]
        found = likelier(X, weights, G, draws, wrong)
        assert found is not None and adjusted_rand_score(truth, found[0].argmax(axis=1)) > 0.9 and found[1] > 50
        assert likelier(X, weights, G, draws, np.eye(G)[truth]) is None
    few = small[:40]
    assert likelier(few, np.ones(40), 2, draws, np.eye(2)[np.arange(40) % 2]) is None
    holes = small.copy()
    holes[::9, 3] = np.nan
    found_labels = likelier_labels(holes, None, rng.integers(0, 4, 180), 0)
    assert found_labels is not None and found_labels[0].shape == (180,)


def test_fits_find_clusters_along_a_thin_axis() -> None:
    X, y = cigars(102, 10)
    best = select(X, [1, 3, 4], random_state=0).best_
    assert best.n_components == 3 and adjusted_rand_score(y, best.model.row_labels_) > 0.9
    model = GaussianBiclustering(3, shared_covariance=True, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.row_labels_) > 0.9
