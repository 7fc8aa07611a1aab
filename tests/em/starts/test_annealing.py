"""Annealing: two ways to whiten against dense matrices, the critical exponent against theory, modes against plants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax
from scipy.stats import multivariate_normal, ttest_ind
from sklearn.feature_selection import f_classif
from sklearn.metrics import adjusted_rand_score
from strategies import Matrix, block_rows, rescaled, seeds

from blockmix.em.starts.annealing import (
    RIDGE,
    SHRINKAGE,
    Tempered,
    annealed,
    critical_eigenvalues,
    narrow_distances,
    wide_distances,
)
from blockmix.em.starts.modes import SAME, Mode, Search, modes
from blockmix.structure.partition import Partition


def planted(seed: int, N: int = 24, p: int = 60, G: int = 2, gap: float = 0.75) -> tuple[Matrix, NDArray[Any]]:
    """Clusters that differ a little in all columns, which hang together in blocks of ten."""
    rng = np.random.default_rng(seed)
    labels = np.arange(N) % G
    X = block_rows(rng, N, Partition(np.arange(p) // 10)) + gap * np.sqrt(3) * rng.uniform(-1, 1, (G, p))[labels]
    return X, labels


def sparse(seed: int, N: int, p: int, batch: float = 0.0) -> tuple[Matrix, NDArray[Any]]:
    """A class on the first columns only, and a batch of other rows that moves all columns a little."""
    rng = np.random.default_rng(seed)
    X, labels = rng.standard_normal((N, p)), np.arange(N) < N // 3
    X[labels, : p // 20] += 3
    return X + batch * (rng.permutation(N) % 2)[:, None] * rng.choice([-1, 1], p), labels


def shares(rng: np.random.Generator, N: int, G: int) -> tuple[Matrix, Matrix, Matrix]:
    """Masses of rows, shares of rows in means and sizes of components, from random weights and responsibilities."""
    mass = rng.dirichlet(np.ones(N))
    z = rng.dirichlet(np.ones(G), N)
    pi = mass @ z
    return mass, mass[:, None] * z / pi, pi


def dense_sigma(X: NDArray[Any], mass: NDArray[Any], share: NDArray[Any], pi: NDArray[Any]) -> NDArray[Any]:
    """Σ of one block as the definition has it: covariance within components, drawn to its diagonal."""
    means = share.T @ X
    W = (X.T * mass) @ X - (means.T * pi) @ means
    sigma: NDArray[Any] = (1 - SHRINKAGE) * W + np.diag(SHRINKAGE * W.diagonal() + RIDGE)
    return sigma


@given(st.integers(3, 20), st.integers(1, 40), st.integers(1, 4), seeds)
def test_gram_form_cholesky_form_and_definition_agree(N: int, c: int, G: int, seed: int) -> None:
    # Red if a weight, a mean or the shrinkage enters one form and not the other.
    rng = np.random.default_rng(seed)
    mass, share, pi = shares(rng, N, G)
    X = rng.standard_normal((N, c))
    X -= mass @ X
    total = (X.T * mass) @ X
    d_wide, logdet_wide = wide_distances(X.T, mass, share, pi)
    d_narrow, logdet_narrow = narrow_distances(X.T[None], total[None], share, pi)
    sigma = dense_sigma(X, mass, share, pi)
    apart = X[:, None] - share.T @ X
    d_dense = np.einsum("ngc,cd,ngd->ng", apart, np.linalg.inv(sigma), apart)
    size = d_dense.max()
    assert_allclose(d_wide, d_narrow, rtol=1e-9, atol=1e-9 * size)
    assert_allclose(d_wide, d_dense, rtol=1e-9, atol=1e-9 * size)
    assert_allclose([logdet_wide, logdet_narrow], np.linalg.slogdet(sigma)[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("labels", [np.zeros(30), np.arange(30), np.arange(30) // 10, np.minimum(np.arange(30), 4)])
def test_log_joint_is_the_gaussian_mixtures(labels: NDArray[Any]) -> None:
    # Blocks with more and with fewer columns than the 12 rows, of one and of several sizes.
    rng = np.random.default_rng(0)
    model = Tempered.of(rng.standard_normal((12, 30)), rng.uniform(0.5, 2, 12)).on(Partition(labels.astype(int)))
    z = rng.dirichlet(np.ones(3), 12)
    pi = model.mass @ z
    share = model.mass[:, None] * z / pi
    blocks = [
        multivariate_normal.logpdf(
            (model.X[:, None, group] - (share.T @ model.X[:, group])).reshape(36, -1),
            cov=dense_sigma(model.X[:, group], model.mass, share, pi),
        ).reshape(12, 3)
        for group in model.partition.groups
    ]
    assert_allclose(model.log_joint(z).T, np.log(pi) + np.sum(blocks, axis=0), rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("shape", [(40, 7), (12, 30), (12, 12)])
@pytest.mark.parametrize("K", [1, 3, 7])
def test_critical_eigenvalues_are_those_of_the_whitened_covariance(shape: tuple[int, int], K: int) -> None:
    rng = np.random.default_rng(1)
    X, weights = rng.standard_normal(shape) * rescaled(rng, shape[1]), rng.uniform(0.5, 2, shape[0])
    model = Tempered.of(X, weights, K)
    T = (model.X.T * model.mass) @ model.X
    within_blocks = model.partition.indicator @ model.partition.indicator.T
    sigma = ((1 - SHRINKAGE) * T + np.diag(SHRINKAGE * T.diagonal() + RIDGE)) * within_blocks
    expected = np.sort(np.linalg.eigvals(np.linalg.solve(sigma, T)).real)[::-1][: min(shape)]
    found = critical_eigenvalues(X, weights, K)
    assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
    values, u = model.spectrum
    assert_allclose(model.mass @ u[:, :3] ** 2, 1)
    Q = model.X @ np.linalg.solve(sigma, model.X.T)
    assert_allclose(Q @ (model.mass[:, None] * u[:, :3]), u[:, :3] * values[:3], atol=1e-7)


def test_one_step_multiplies_a_small_offset_by_exponent_times_eigenvalue() -> None:
    # The theory of the critical exponent: z = ½ + ηu becomes ½ + bληu. Red if b, λ or u is off by any factor.
    X, _ = planted(0)
    model = Tempered.of(X, np.ones(len(X)))
    for j in range(3):
        u, value = model.spectrum[1][:, j], model.spectrum[0][j]
        for b in (0.3 / value, 1 / value, 3 / value):
            z = 0.5 + 1e-5 * np.column_stack([u, -u])
            new = softmax(b * model.log_joint(z), axis=0).T
            assert_allclose(new[:, 0] - 0.5, b * value * 1e-5 * u, rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize("shape", [(24, 60), (60, 12)])
def test_components_collapse_below_the_critical_exponent_and_separate_above(shape: tuple[int, int]) -> None:
    X, labels = planted(1, *shape, gap=1.5 if shape[0] > shape[1] else 0.75)
    model = Tempered.of(X, np.ones(len(X)))
    apart = {}
    for factor in (0.8, 1.3):
        z = model.guess(2, np.random.RandomState(0))
        for _ in range(200):
            z = softmax(factor / model.spectrum[0][0] * model.log_joint(z), axis=0).T
        means = (z / z.sum(axis=0)).T @ model.X
        apart[factor] = np.linalg.norm(means[0] - means[1]) / np.sqrt(shape[1])
    assert apart[0.8] < 1e-6
    assert apart[1.3] > 0.1
    assert adjusted_rand_score(labels, z.argmax(axis=1)) == 1


@pytest.mark.parametrize("G", [2, 3])
def test_annealing_frees_em_from_its_guess(G: int) -> None:
    # Red if the schedule began at 1: plain EM from the same guesses stays where it began.
    X, labels = planted(1, N=20, p=200, G=G, gap=0.4)
    model = Tempered.of(X, np.ones(len(X)))
    guesses = [model.guess(G, np.random.RandomState(seed)) for seed in range(6)]
    tempered = [adjusted_rand_score(labels, model.anneal(z).z.argmax(axis=1)) for z in guesses]
    plain = [adjusted_rand_score(labels, model.anneal(z, steps=0).z.argmax(axis=1)) for z in guesses]
    assert min(tempered) == 1
    assert np.mean(plain) < 0.5


def test_the_schedule_starts_where_it_is_told_and_ends_at_one() -> None:
    X, _ = planted(3)
    model = Tempered.of(X, np.ones(len(X)))
    z = model.guess(2, np.random.RandomState(0))
    expected = z
    for b in (0.01, 0.1, 1.0):
        expected = softmax(b * model.log_joint(expected), axis=0).T
    run = model.anneal(z, first=0.01, steps=3, plain=0)
    assert_allclose(run.z, expected, atol=1e-12)
    assert_allclose(run.log_likelihood, logsumexp(model.log_joint(run.z), axis=0).sum(), rtol=1e-12)


@settings(max_examples=10)
@given(st.sampled_from([(20, 45), (30, 8)]), seeds)
def test_rescaling_and_shifting_columns_changes_nothing(shape: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, _ = planted(seed, *shape)
    other = X * rescaled(rng, shape[1]) + rng.uniform(-1, 1, shape[1])
    weights = np.ones(len(X))
    assert_allclose(critical_eigenvalues(other), critical_eigenvalues(X), rtol=1e-6, atol=1e-9)
    z = annealed(X, weights, 2, np.random.RandomState(0))
    assert_allclose(annealed(other, weights, 2, np.random.RandomState(0)), z, atol=1e-5)


@settings(max_examples=10)
@given(st.sampled_from([(12, 30), (20, 6)]), seeds)
def test_a_weight_is_a_repeated_row(shape: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, _ = planted(seed, *shape)
    weights = rng.integers(1, 4, len(X)) * (np.arange(len(X)) != 5)  # row 5 has weight 0: as good as absent
    repeated = np.repeat(np.arange(len(X)), weights)
    one, many = Tempered.of(X, weights, 3), Tempered.of(X[repeated], np.ones(len(repeated)), 3)
    rank = min(len(X) - 2, X.shape[1])
    assert_allclose(one.spectrum[0][:rank], many.spectrum[0][:rank], rtol=1e-8, atol=1e-8)
    z = one.guess(2, np.random.RandomState(0))
    a, b = one.anneal(z, steps=4, plain=2), many.anneal(z[repeated], steps=4, plain=2)
    assert_allclose(a.z[repeated], b.z, atol=1e-6)
    assert_allclose(a.log_likelihood, b.log_likelihood, rtol=1e-8)


def test_permuting_rows_permutes_responsibilities() -> None:
    X, _ = planted(4)
    order = np.random.default_rng(0).permutation(len(X))
    model, other = Tempered.of(X, np.ones(len(X))), Tempered.of(X[order], np.ones(len(X)))
    z = model.guess(2, np.random.RandomState(0))
    assert_allclose(other.anneal(z[order]).z, model.anneal(z).z[order], atol=1e-6)


@pytest.mark.parametrize("p", [1, 9, 10, 25, 200])
def test_blocks_number_a_tenth_of_the_columns(p: int) -> None:
    X = np.random.default_rng(0).standard_normal((15, p))
    assert Tempered.of(X, np.ones(15)).partition.n_groups == max(1, p // 10)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("G", [1, 2, 5])
def test_annealed_is_decided_by_its_seed(G: int, dtype: str) -> None:
    X = np.random.default_rng(5).standard_normal((20, 50)).astype(dtype)
    z = annealed(X, np.ones(20), G, np.random.RandomState(3))
    assert z.shape == (20, G)
    assert z.dtype == X.dtype
    assert_allclose(z.sum(axis=1), 1, rtol=1e-5)
    assert_array_equal(z, annealed(X, np.ones(20), G, np.random.RandomState(3)))
    if G == 2:  # another seed, another guess: among pure noise it ends elsewhere
        assert np.abs(z - annealed(X, np.ones(20), G, np.random.RandomState(4))).max() > 0.5


@pytest.mark.parametrize("kind", ["same rows", "two rows", "same columns", "constant column", "one row counts"])
def test_degenerate_rows_give_finite_responsibilities(kind: str) -> None:
    X = np.random.default_rng(6).standard_normal((8, 30))
    weights = np.ones(8)
    if kind == "same rows":
        X[:] = X[0]
    elif kind == "two rows":
        X[:] = X[np.arange(8) % 2]
    elif kind == "same columns":
        X[:] = X[:, :1]
    elif kind == "constant column":
        X[:, 3] = 0.1
    else:
        weights[1:] = 0
    z = annealed(X, weights, 3, np.random.RandomState(0))
    assert np.isfinite(z).all()
    assert_allclose(z.sum(axis=1), 1)


def test_a_column_without_variation_decides_nothing() -> None:
    X, _ = planted(7)
    with_constant = np.column_stack([X, np.full(len(X), 0.1)])
    z = Tempered.of(X, np.ones(len(X)), 6).guess(2, np.random.RandomState(0))
    runs = [Tempered.of(rows, np.ones(len(X)), K).anneal(z) for rows, K in ((X, 6), (with_constant, 7))]
    assert_allclose(runs[0].z, runs[1].z, atol=1e-8)


def test_an_empty_component_stays_empty() -> None:
    X, _ = planted(8)
    z = Tempered.of(X, np.ones(len(X))).anneal(np.eye(3)[np.arange(len(X)) % 2]).z
    assert_array_equal(z[:, 2], 0)
    assert np.isfinite(z).all()


def ratios(X: Matrix, labels: NDArray[Any], weights: NDArray[Any] | None = None) -> NDArray[Any]:
    w = np.ones(len(X)) if weights is None else weights
    return Search(Tempered.of(X, w), w, int(labels.max()) + 1).variance_ratios(labels)


def test_variance_ratios_are_t_squared_for_two_clusters_and_anovas_f_for_more() -> None:
    rng = np.random.default_rng(9)
    X = rng.standard_normal((20, 35)) * rescaled(rng, 35)
    two, three = np.arange(20) // 12, np.arange(20) % 3
    assert_allclose(ratios(X, two), ttest_ind(X[two == 0], X[two == 1]).statistic ** 2, rtol=1e-8)
    assert_allclose(ratios(X, three), f_classif(X, three)[0], rtol=1e-8)
    weights = rng.integers(1, 4, 20)
    repeated = np.repeat(np.arange(20), weights)
    assert_allclose(ratios(X, three, weights), f_classif(X[repeated], three[repeated])[0], rtol=1e-8)


def test_contrast_is_a_quantile_over_the_root_of_the_median() -> None:
    rng = np.random.default_rng(10)
    X, labels = rng.standard_normal((20, 60)), np.arange(20) % 2
    F = ttest_ind(X[labels == 0], X[labels == 1]).statistic ** 2
    search = Search(Tempered.of(X, np.ones(20)), np.ones(20), 2)
    assert_allclose(search.contrast(labels), np.log(np.quantile(F, 0.975) / np.sqrt(np.median(F))), rtol=1e-8)
    assert_array_equal(search.best_columns(labels), np.argsort(-F)[:50])


@pytest.fixture(scope="module")
def sparse_modes() -> tuple[list[Mode], NDArray[Any]]:
    X, labels = sparse(0, N=40, p=440, batch=0.7)
    return modes(X, 2, 0), labels


def test_contrast_finds_a_sparse_class_under_a_dense_batch(sparse_modes: tuple[list[Mode], NDArray[Any]]) -> None:
    # Red if the likelihood chose: the batch has it.
    found, labels = sparse_modes
    assert adjusted_rand_score(labels, found[0].labels) == 1
    assert (found[0].columns[:15] < 22).all()
    likeliest = max(found, key=lambda mode: mode.log_likelihood)
    assert adjusted_rand_score(labels, likeliest.labels) < 0.1


@pytest.mark.parametrize(("p", "removals"), [(60, 0), (61, 3)])
def test_eigenvectors_are_removed_only_with_far_more_columns_than_rows(p: int, removals: int) -> None:
    X = np.random.default_rng(0).standard_normal((6, p))
    origins = {
        origin for origin, _ in Search(Tempered.of(X, np.ones(6)), np.ones(6), 2).from_kmeans(np.random.RandomState(0))
    }
    assert len(origins) == 1 + removals


def test_modes_are_distinct_and_ranked_with_the_annealed_one_beside(
    sparse_modes: tuple[list[Mode], NDArray[Any]],
) -> None:
    *found, beside = sparse_modes[0]
    assert beside.origin == "annealed"
    assert 1 < len(found) <= 5
    for i, mode in enumerate(found):
        assert mode.origin != "annealed"
        assert mode.labels.shape == (40,)
        assert np.bincount(mode.labels, minlength=2).min() >= 4
        assert len(mode.columns) == 50
        assert all(adjusted_rand_score(mode.labels, other.labels) <= SAME for other in found[:i])
        assert i == 0 or mode.score <= found[i - 1].score


def test_modes_are_decided_by_their_seed_and_not_by_the_scale_of_columns() -> None:
    X, _ = sparse(1, N=30, p=60)
    first = modes(X, 2, 7)
    for again in (modes(X, 2, 7), modes(X * 2.0 ** np.random.default_rng(0).integers(-6, 6, 60), 2, 7)):
        assert [m.origin for m in again] == [m.origin for m in first]
        for a, b in zip(again, first, strict=True):
            assert_array_equal(a.labels, b.labels)
            assert_allclose([a.score, a.log_likelihood], [b.score, b.log_likelihood], rtol=1e-9)


def test_modes_of_three_clusters() -> None:
    X, labels = planted(11, N=45, p=150, G=3, gap=1.0)
    *found, beside = modes(X, 3, 0)
    assert adjusted_rand_score(labels, beside.labels) == 1
    assert max(adjusted_rand_score(labels, mode.labels) for mode in found) > 0.9


def test_a_pool_without_large_clusters_leaves_the_annealed_mode() -> None:
    # Four rows cannot make two clusters of three.
    found = modes(np.random.default_rng(0).standard_normal((4, 12)), 2, 0)
    assert [mode.origin for mode in found] == ["annealed"]
