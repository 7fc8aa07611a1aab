"""Common factors: the dense density, EM against a dense EM, and which factors are kept."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from missing import with_missing
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, multivariate_t
from sklearn.datasets import load_iris
from strategies import Matrix, block_rows

from blockmix import BlockDiagonalCovariance, GaussianBiclustering
from blockmix.blocks.blocks import Blocks, Layout
from blockmix.blocks.moments import as_matrix
from blockmix.em.parameters import Parameters, Prior, log_joint, row_distances
from blockmix.em.sweep import maximize, sweep
from blockmix.grouping.common_factors import Scatter, best_common, is_common
from blockmix.partition import FloatArray, Partition
from blockmix.rows import ArrayRows
from experiments.metrics import adjusted_rand

TRUTH = Partition(np.repeat(range(5), 5))
GROUPS = Partition([0, 0, 0, 1, 1, 2, 2])


def table(n: int, seed: int = 0, share: float = 0.7) -> Matrix:
    """Five groups of five columns and a factor that all share."""
    rng = np.random.default_rng(seed)
    return block_rows(rng, n, TRUTH, 0.6) + rng.standard_normal((n, 1)) * rng.uniform(share - 0.2, share + 0.2, 25)


def mixture(G: int, q: int, shared: bool, heavy: bool, seed: int = 0) -> tuple[ArrayRows, Parameters]:
    """Weighted rows of seven columns, and any mixture of G components with common factors."""
    rng, p = np.random.default_rng(seed), 7
    X = rng.standard_normal((90, p)) + rng.standard_normal((90, 1)) + 2.0 * rng.integers(0, G, (90, 1))
    n = 1 if shared else G
    layout = Layout((GROUPS,) * n, (), G if shared else 1)
    flat = np.concatenate([Blocks.of(np.cov(rng.standard_normal((p, 30))), GROUPS).factors for _ in range(n)])
    blocks = Blocks(layout, flat, loadings=rng.standard_normal((n, p, q)))
    freedom = rng.uniform(2, 9, G) if heavy else None
    weights = rng.dirichlet(np.ones(G))
    return ArrayRows.of(X, rng.integers(1, 3, 90).astype(float)), Parameters(
        weights, 2 * rng.standard_normal((G, p)), blocks, freedom
    )


def expectations(X: Matrix, mean: FloatArray, S: FloatArray) -> tuple[FloatArray, FloatArray]:
    """E(x | values) less the mean, and the covariances of what is missing, row by row."""
    centered, extra = np.zeros(X.shape), np.zeros((len(X), *S.shape))
    for i, x in enumerate(X):
        m, o = np.isnan(x), ~np.isnan(x)
        slopes = S[np.ix_(m, o)] @ np.linalg.inv(S[np.ix_(o, o)])
        centered[i, o] = x[o] - mean[o]
        centered[i, m] = slopes @ centered[i, o]
        extra[i][np.ix_(m, m)] = S[np.ix_(m, m)] - slopes @ S[np.ix_(o, m)]
    return centered, extra


def dense_step(X: Matrix, w: FloatArray, old: Parameters, prior: Prior) -> tuple[float, FloatArray, FloatArray]:
    """One step of EM with (p, p) matrices: log-likelihood, new means and new covariances (normal tails)."""
    (G, p), n_sharing = old.means.shape, old.blocks.layout.n_sharing
    S = np.repeat(old.covariances, n_sharing, axis=0)
    joint = np.empty((len(X), G))
    for i, x in enumerate(X):
        o = ~np.isnan(x)
        for g in range(G):
            joint[i, g] = multivariate_normal(old.means[g, o], S[g][np.ix_(o, o)]).logpdf(x[o])
    joint += np.log(old.weights)
    value, z = logsumexp(joint, axis=1), np.exp(joint - logsumexp(joint, axis=1)[:, None]) * w[:, None]
    means, scatters = np.empty((G, p)), np.empty((G, p, p))
    for g in range(G):
        centered, extra = expectations(X, old.means[g], S[g])
        shift = z[:, g] @ centered / z[:, g].sum()
        means[g] = old.means[g] + shift
        scatters[g] = (centered - shift).T * z[:, g] @ (centered - shift) + np.tensordot(z[:, g], extra, 1)
    n = z.sum(axis=0).reshape(-1, n_sharing).sum(axis=1)
    new = []
    for d, T in enumerate(scatters.reshape(-1, n_sharing, p, p).sum(axis=1)):
        L, sigma = old.blocks.loadings[d], old.covariances[d]  # type: ignore[index]
        slopes, T = L.T @ np.linalg.inv(sigma), T / n[d]
        U, V = np.eye(L.shape[1]) - slopes @ L + slopes @ T @ slopes.T, T @ slopes.T
        common, pull = V @ np.linalg.inv(U) @ V.T, n_sharing * (prior.shrinkage + prior.ridge)
        psi = (n[d] * (T - common) + pull * np.eye(p)) / (n[d] + n_sharing * prior.shrinkage)
        new.append(common + np.where(GROUPS.labels[:, None] == GROUPS.labels, psi, 0))
    return float(w @ value), means, np.array(new)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("q", [1, 2])
def test_a_step_of_em_is_that_of_dense_matrices(q: int, shared: bool, missing: float) -> None:
    rows, parameters = mixture(2, q, shared, heavy=False, seed=q)
    X = with_missing(rows.X, missing, np.random.default_rng(3))
    rows, prior = ArrayRows.of(X, rows.weights), Prior(3.0, 0.1)
    for _ in range(3):
        statistics = sweep(rows, parameters)
        value, means, covariances = dense_step(X, rows.weights, parameters, prior)
        parameters = maximize(statistics, parameters, prior)
        assert statistics.log_likelihood == pytest.approx(value, rel=1e-8)
        assert_allclose(parameters.means, means, rtol=1e-8, atol=1e-8)
        assert_allclose(parameters.covariances, covariances, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("heavy", [False, True])
def test_densities_and_distances_are_those_of_the_dense_covariance(heavy: bool, missing: float) -> None:
    rows, parameters = mixture(2, 2, shared=False, heavy=heavy)
    X, nu = with_missing(rows.X, missing, np.random.default_rng(4)), parameters.degrees_of_freedom
    chunk = next(iter(ArrayRows.of(X).map(lambda c: c)))
    joint, _ = log_joint(chunk, parameters.density(chunk.has_missing))
    labels = np.arange(len(X)) % 2
    scores, _ = row_distances(chunk, labels, parameters)
    for i, x in enumerate(X):
        o, g = ~np.isnan(x), int(labels[i])
        S = parameters.covariances[g][np.ix_(o, o)]
        dense = multivariate_normal(parameters.means[g, o], S) if nu is None else None
        dense = dense or multivariate_t(parameters.means[g, o], S, nu[g])  # type: ignore[index]
        assert joint[i, g] - np.log(parameters.weights[g]) == pytest.approx(float(dense.logpdf(x[o])), rel=1e-9)
        centered = x[o] - parameters.means[g, o]
        assert scores[i] == pytest.approx(centered @ np.linalg.solve(S, centered), rel=1e-8)


def scatter_of(X: Matrix, price: float = 0.0) -> Scatter:
    return Scatter(as_matrix(np.corrcoef(X.T)), len(X), price, price)


def test_the_deviance_is_the_dense_one() -> None:
    scatter, loadings = scatter_of(table(200)), np.full((25, 2), 0.3)
    scatter = replace(scatter, kept=0.8, added=0.2)
    fit = scatter.fitted(Layout((TRUTH,)), loadings, {})
    S = (np.asarray(scatter.S) - 0.2 * np.eye(25)) / 0.8
    psi, sigma = fit.blocks.remaining.dense(), fit.blocks.dense()
    rows = 0.8 * (np.linalg.slogdet(sigma)[1] + np.trace(np.linalg.solve(sigma, S)))
    prior = 0.2 * (np.linalg.slogdet(psi)[1] + np.trace(np.linalg.inv(psi)))
    assert fit.deviance == pytest.approx(rows + prior, rel=1e-10)


def test_first_loadings_are_the_best_for_the_blocks() -> None:
    scatter = scatter_of(table(400))
    first = scatter.first(Layout((TRUTH,)), 1)
    L = np.linalg.cholesky(first.remaining.dense())
    values, vectors = np.linalg.eigh(np.linalg.solve(L, np.linalg.solve(L, np.asarray(scatter.S)).T))
    wanted = np.sqrt(values[-1] - 1) * L @ vectors[:, -1:]
    assert_allclose(first.common @ first.common.T, wanted @ wanted.T, rtol=1e-4, atol=1e-6)


def test_a_factor_of_one_block_is_not_common() -> None:
    # Blocks of ten, of which one is taken over by the factor: its columns are alone.
    rng, labels = np.random.default_rng(0), np.r_[np.arange(10), np.repeat([10, 11], 10)]
    X = block_rows(rng, 500, Partition(np.repeat(range(3), 10)), 0.7)
    taken = scatter_of(X).settled(scatter_of(X).first(Layout((Partition(labels),)), 1))
    assert not is_common(taken.blocks)
    everything = scatter_of(X + rng.standard_normal((500, 1)))
    assert is_common(everything.settled(everything.first(Layout((Partition(np.repeat(range(3), 10)),)), 1)).blocks)


@pytest.mark.parametrize("n", [400, 20_000])
def test_groups_stay_as_rows_become_many(n: int) -> None:
    X = table(n)
    for model in (GaussianBiclustering(), BlockDiagonalCovariance()):
        model.fit(X)
        labels, loadings = np.atleast_2d(model.column_labels_)[0], np.atleast_3d(model.common_loadings_)
        assert Partition(labels) == TRUTH and loadings.size == 25
        assert "On top of the groups all columns share a common factor" in model.describe()
        scores, truth = model.common_scores(X), X.mean(axis=1)
        assert scores.shape == (n, 1) and np.corrcoef(scores[:, 0], truth)[0, 1] > 0.8
    plain = block_rows(np.random.default_rng(1), n, TRUTH, 0.6)
    assert GaussianBiclustering().fit(plain).common_loadings_[0].shape == (25, 0)


def test_groups_of_clusters_and_a_number_of_factors() -> None:
    X = np.concatenate([table(300), table(300, seed=1)[:, ::-1] + 4])
    model = GaussianBiclustering(2, common_factors="auto", random_state=0).fit(X)
    assert [L.shape[1] for L in model.common_loadings_] == [1, 1]
    assert adjusted_rand(np.repeat([0, 1], 300), model.row_labels_) == 1
    assert all(Partition(labels) == TRUTH for labels in model.column_labels_)
    forced = GaussianBiclustering(2, common_factors=2, random_state=0).fit(X)
    assert forced.n_parameters_ == 1 + 50 + forced._parameters.blocks.layout.n_parameters + 2 * (50 - 1)
    assert np.diff(forced.log_likelihood_trace_).min() > -1e-8


def test_common_factors_are_checked() -> None:
    X = table(50)
    for wrong in (-1, 1.5, "many", None, True):
        with pytest.raises(ValueError, match=r'common_factors=.* must be "auto" or a whole number'):
            GaussianBiclustering(common_factors=wrong).fit(X)
        with pytest.raises(ValueError, match=r'common_factors=.* must be "auto" or a whole number'):
            BlockDiagonalCovariance(common_factors=wrong).fit(X)
    with pytest.raises(ValueError, match="common_factors=25 must be fewer than the 25 columns of X"):
        GaussianBiclustering(common_factors=25).fit(X)


def test_more_factors_are_tried_as_long_as_they_pay() -> None:
    rng, n = np.random.default_rng(0), 5000
    two = rng.standard_normal((n, 2)) @ (rng.choice([-1, 1], (2, 25)) * rng.uniform(0.4, 0.8, (2, 25)))
    scatter = scatter_of(block_rows(rng, n, TRUTH, 0.6) + two, price=0.5 * np.log(n))
    layout = Layout((TRUTH,))
    assert best_common(scatter, lambda R: layout, layout, None, 0, 3).blocks.n_common == [2]
    assert best_common(scatter, lambda R: layout, layout, None, 0, 1).blocks.n_common == [1]
    assert best_common(scatter, lambda R: layout, layout, None, 3, 3).blocks.n_common == [3]


def test_a_cluster_that_stays_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups without common factors in vain are remembered for the cluster; other rows are searched."""
    searches: list[float] = []

    def counted(scatter: Scatter, *others: Any) -> Any:
        searches.append(scatter.n_rows)
        return best_common(scatter, *others)

    monkeypatch.setattr("blockmix.em.block.best_common", counted)
    X = load_iris().data
    model = GaussianBiclustering(3, init=np.repeat(range(3), 50)).fit(X)
    rows = ArrayRows.standardized(X)
    family = model._family(rows, np.ones(4))
    parameters = model._parameters.in_units(-rows.location / rows.scale, 1 / rows.scale)
    searches.clear()
    first = family.regroup(rows, parameters, sweep(rows, parameters), 0.0, frozenset())
    n_first = len(searches)
    family.regroup(rows, first.parameters, sweep(rows, first.parameters), 0.0, first.memory)
    assert n_first == 3
    assert len(searches) == n_first
    fewer = ArrayRows(X[::2], np.ones(75), rows.location, rows.scale)
    family.regroup(fewer, first.parameters, sweep(fewer, first.parameters), 0.0, first.memory)
    assert len(searches) > n_first


def test_fewer_rows_than_common_factors_are_no_reason_to_fall() -> None:
    # Red if the leading directions are orthogonalized by a Cholesky factor: the scatter of few rows has too few.
    rng = np.random.default_rng(0)
    for n_rows, q in ((8, 3), (4, 2), (12, 3)):
        X = rng.standard_normal((n_rows, 8))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = GaussianBiclustering(3, init=np.arange(n_rows) % 3, common_factors=q, max_iter=3).fit(X)
        assert np.isfinite(model.covariances_).all()
        assert np.isfinite(model.score_samples(X)).all()
