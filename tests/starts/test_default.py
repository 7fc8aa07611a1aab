"""The default start: short EM against dense t mixtures, completed rows, and the fits that it leads to."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from missing import with_missing
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import multivariate_t
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.metrics import adjusted_rand_score
from sources import table
from strategies import Matrix, seeds

from blockmix import FactorBiclustering, GaussianBiclustering
from blockmix.em.loop import Start
from blockmix.rows import ArrayRows
from blockmix.starts import default as module
from blockmix.starts.clusterings import by_ranks, plain_starts
from blockmix.starts.default import (
    best_start,
    by_neighbors,
    by_regression,
    candidate_clusterings,
    default_starts,
    short_em,
)

# Short EM.


def floor(p: int) -> Matrix:
    """What short EM adds to the variances of p columns without repeated values."""
    return np.full(p, 1e-3)


def dense_sweep(X: Any, w: Any, z: Any, u: Any) -> tuple[Any, Any, float]:
    """One M-step and E-step in dense scale matrices with the same floor; the divisor of the scatter is Σ zu."""
    joint, weights = [], []
    nu, p = module._DEGREES, X.shape[1]
    for own, far in zip((z * w[:, None]).T, u.T, strict=True):
        share = own * far
        mean = share @ X / share.sum()
        scale = ((X - mean).T * share) @ (X - mean) / share.sum() + module._FLOOR * np.eye(p)
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
    i, j = np.triu_indices(p)
    phi = np.concatenate([X.T[i] * X.T[j], X.T, np.ones((1, N))]).astype("f4")
    least = 0.3
    z, u, value, thin = short_em(phi, (w / w.sum()).astype("f4"), floor(p), begin, np.ones_like(begin), 2, least)
    constant = multivariate_t(np.zeros(p), np.eye(p), module._DEGREES).logpdf(np.zeros(p))
    constant -= 0.5 * (module._DEGREES + p) * np.log1p(p / module._DEGREES)
    for s in range(3):
        once, far, _ = dense_sweep(X, w, firsts[:, s], np.ones((N, G)))
        twice, farther, level = dense_sweep(X, w, once, far)
        assert_allclose(z[:, s].T, twice, atol=2e-3)
        assert_allclose(u[:, s].T, farther, atol=2e-3)
        assert_allclose(value[s] + constant, level, atol=2e-4)
        share = w @ once / w.sum()
        assert (share < least - 1e-3).sum() <= thin[s] <= (share < least + 1e-3).sum()


def planted(n_outliers: int = 0) -> tuple[Matrix, Any]:
    """Three clusters of 40 rows, then outliers."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 40)
    X = np.concatenate([rng.standard_normal((120, 3)) + 8 * np.eye(3)[y], rng.uniform(-40, 40, (n_outliers, 3))])
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def test_short_em_picks_the_right_clustering_and_every_one_has_a_place() -> None:
    # The others merge two clusters and cut the third at random. Red if the worst ones have the further sweeps.
    X, y = planted()
    rng = np.random.RandomState(0)
    pool = [np.eye(3)[np.where(y < 2, 0, 1 + rng.permutation(120) % 2)] for _ in range(12)] + [np.eye(3)[y]]
    order, z = best_start(X, np.ones(120), pool, 5, rng, floor(X.shape[1]))
    assert order[0] == 12 and sorted(order.tolist()) == list(range(13))
    assert (z.argmax(axis=1) == y).all()


def test_a_component_on_a_few_rows_comes_after_all_sound_ones() -> None:
    # Red if the likelihood alone decides: a component on five equal rows has the highest.
    X, y = planted()
    X = np.concatenate([X, np.tile([[3.0, 3, 3]], (5, 1))])
    spike = np.eye(3)[np.append(np.minimum(y, 1), np.full(5, 2))]
    sound = np.eye(3)[np.append(y, np.zeros(5, dtype=int))]
    assert best_start(X, np.ones(125), [spike, sound], 5, np.random.RandomState(0), floor(X.shape[1]))[0][0] == 1


def test_outliers_do_not_decide() -> None:
    # Red with normal components: their likelihood is higher if four outliers have one and two clusters share another.
    X, y = planted(n_outliers=4)
    right = np.eye(3)[np.append(y, np.arange(4) % 3)]
    wrong = np.eye(3)[np.append(np.minimum(y, 1), np.full(4, 2))]
    order, z = best_start(X, np.ones(124), [wrong, right], 0, np.random.RandomState(0), floor(X.shape[1]))
    assert order[0] == 1 and (z.argmax(axis=1)[:120] == y).all()
    assert z[120:].sum(axis=1).max() < 0.2
    assert np.median(z[:120].sum(axis=1)) > 0.99


def test_of_many_rows_a_part_is_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = planted()
    monkeypatch.setattr(module, "_NUMBERS", 60 * 10)
    swept: list[int] = []
    monkeypatch.setattr(module, "short_em", lambda phi, *rest: swept.append(phi.shape[1]) or short_em(phi, *rest))
    # Two clusters as one, and the third in halves by its first column.
    halves = np.where(y < 2, 0, 1 + (X[:, 0] > np.median(X[y == 2, 0])))
    pool = [np.eye(3)[halves], np.eye(3)[y]]
    order, z = best_start(X, np.ones(120), pool, 5, np.random.RandomState(0), floor(X.shape[1]))
    assert swept == [60, 60]
    assert order[0] == 1 and z is pool[1]


# Rows with missing values, completed for the clusterings.

Completion = Callable[[ArrayRows], Matrix]


@pytest.mark.parametrize("complete", [by_neighbors, by_regression])
def test_values_stay_and_missing_ones_come_nearer_to_the_truth_than_means(complete: Completion) -> None:
    # A row without values has the means; rows of weight 0 decide nothing, and a weight of 2 is a repeated row.
    X = table(400)
    incomplete = with_missing(X, 0.2, np.random.default_rng(0))
    incomplete[3] = np.nan
    rows = ArrayRows.standardized(incomplete)
    completed, missing = complete(rows), np.isnan(incomplete)
    standard = (X - rows.location) / rows.scale
    assert_allclose(completed[~missing], standard[~missing], atol=1e-6)  # neighbors are told by rounded values
    assert ((completed - standard)[missing] ** 2).mean() < 0.9 * (standard[missing] ** 2).mean()
    assert_allclose(completed[3], 0, atol=0.1)
    part, weights = incomplete[:120], np.append(1 + np.arange(120) % 3, np.zeros(50))
    weighted = complete(ArrayRows.standardized(np.append(part, incomplete[:50] + 3, axis=0), weights))
    repeated = complete(ArrayRows.standardized(np.repeat(part, weights[:120].astype(int), axis=0)))
    assert_allclose(np.repeat(weighted[:120], weights[:120].astype(int), axis=0), repeated, atol=1e-9)


def test_the_neighbors_of_a_row_are_those_near_in_the_columns_that_both_have() -> None:
    X = np.repeat([[0.0, 0.0, 1.0], [9.0, 9.0, 5.0]], 10, axis=0)
    X[:, :2] += np.random.default_rng(0).standard_normal((20, 2))
    X[0, 2] = X[10, 2] = X[11, 0] = np.nan
    rows = ArrayRows.standardized(X)
    assert_allclose((by_neighbors(rows) * rows.scale + rows.location)[[0, 10], 2], [1, 5], atol=1e-5)


# What is compared, and where fits end.


def blocks(seed: int, N: int = 200, p: int = 6, apart: float = 1.5) -> tuple[Any, Any]:
    """Three clusters with blocks of three columns of their own."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, N, p=(0.4, 0.35, 0.25))
    X = np.empty((N, p))
    for g in range(3):
        own = rng.permutation(np.arange(p) // 3)
        n = int((y == g).sum())
        X[y == g] = 0.8 * rng.standard_normal((n, p // 3))[:, own] + 0.6 * rng.standard_normal((n, p))
    return X + apart * rng.standard_normal((3, p))[y], y


def starts(model: GaussianBiclustering, X: Matrix, weights: Any = None) -> list[Start[Any]]:
    """The starts of a model for complete rows."""
    rows = ArrayRows.standardized(X, weights)
    family = partial(model._family, variances=np.ones(X.shape[1]))
    if not isinstance(model.init, str) or model.init != "auto" or model.n_components == 1:
        rng = np.random.RandomState(0)
        return plain_starts(model.init, family(rows), rows, model.n_components, model.n_init, model.tol, rng)
    names = ("n_components", "n_init", "tol", "max_iter")
    settings = {name: getattr(model, name) for name in names}
    return default_starts(family, rows, rows, rng=np.random.RandomState(0), **settings)


SETS: dict[str, tuple[Callable[[], tuple[Any, Any]], int]] = {
    "iris": (lambda: load_iris(return_X_y=True), 3),
    "wine": (lambda: load_wine(return_X_y=True), 3),
    "cancer": (lambda: load_breast_cancer(return_X_y=True), 2),
    "close blocks": (lambda: blocks(1, apart=0.7), 3),
    "independent": (lambda: (np.random.default_rng(2).standard_normal((150, 4)), np.zeros(150)), 3),
}


@pytest.mark.parametrize("name", SETS)
def test_no_default_fit_has_a_higher_bic_than_full_or_diagonal_covariances(name: str) -> None:
    # Red if EM leaves one group before it has converged, or if columns alone are never tried.
    load, G = SETS[name]
    X, y = load()
    model = GaussianBiclustering(G, random_state=0).fit(X)
    for K in (1, X.shape[1]):
        assert model.bic(X) <= GaussianBiclustering(G, K, random_state=0).fit(X).bic(X) + 1e-6
    if name == "iris":  # one k-means start ends at ARI 0.73: the groups found in its clusters hold them
        assert adjusted_rand_score(y, model.row_labels_) > 0.88


def test_more_columns_than_rows_keep_the_partition_of_least_inertia() -> None:
    y = np.arange(40) % 2
    X = np.random.default_rng(0).standard_normal((40, 120))
    X[y == 1, :30] += 1.5
    model = GaussianBiclustering(2, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.row_labels_) == 1
    assert model.starts_[0][0] == "auto 1: least inertia, rule"


@pytest.mark.parametrize("settings", [{"tails": "t"}, {"shared_covariance": True}, {"n_column_groups": 2}], ids=str)
def test_other_models_have_the_same_starts(settings: dict[str, Any]) -> None:
    X, y = blocks(5, apart=3)
    model = GaussianBiclustering(3, random_state=0, **settings).fit(X)
    assert adjusted_rand_score(y, model.row_labels_) > 0.9
    factor = FactorBiclustering(3, 2, model="UUUU", random_state=0).fit(X)
    assert adjusted_rand_score(y, factor.row_labels_) > 0.9
    assert all(name.endswith("given groups") for name, *_ in factor.starts_)


@pytest.mark.parametrize("init", ["auto", "kmeans"])
def test_starts_see_neither_repeats_nor_the_order_of_rows(init: str) -> None:
    # Red if a start draws rows by their position in X.
    rng = np.random.default_rng(1)
    X, _ = blocks(7, N=80, apart=3)
    counts = rng.integers(1, 4, 80)
    order = rng.permutation(counts.sum())
    model = GaussianBiclustering(3, 2, init=init, n_init=2)
    weighted = starts(model, X, counts.astype(float))
    repeated = starts(model, np.repeat(X, counts, axis=0)[order])
    again = starts(model, X, counts.astype(float))
    assert [start.name for start in weighted] == [start.name for start in repeated]
    for one, other, same in zip(weighted, repeated, again, strict=True):
        a, b, c = (start.begin().parameters for start in (one, other, same))
        assert_allclose(a.means, b.means, atol=1e-6)
        assert_allclose(a.weights, b.weights, atol=1e-6)
        assert np.array_equal(a.means, c.means)


def test_names_of_the_starts() -> None:
    X, y = blocks(9)
    assert [s.name for s in starts(GaussianBiclustering(3, init="kmeans", n_init=2), X)] == ["kmeans 1", "kmeans 2"]
    assert [s.name for s in starts(GaussianBiclustering(1), X)] == ["one component"]
    assert [s.name for s in starts(GaussianBiclustering(3, init=y), X)] == ["given"]
    assert {s.name[:6] for s in starts(GaussianBiclustering(3, n_init=2), X)} == {"auto 1", "auto 2"}


@pytest.mark.parametrize("init", [[[1, 0]] * 3, [0, 0, 1]])
def test_a_component_of_init_without_rows_is_refused(init: Any) -> None:
    sentence = "component 1 of init has no rows: give each component some, or lower n_components"
    with pytest.raises(ValueError, match=sentence):
        starts(GaussianBiclustering(2, init=init), np.arange(6.0).reshape(3, 2) ** 2, np.array([1.0, 1.0, 0.0]))


def test_seeds_are_drawn_only_where_components_have_twice_as_many_rows_as_parameters() -> None:
    # 60 rows for components of p(p + 3)/2 = 27 parameters, and for 35.
    rng = np.random.default_rng(0)
    for p, wanted in ((6, True), (7, False)):
        X = rng.standard_normal((120, p))
        made = [
            candidate_clusterings(X, np.ones(120), 2, np.random.RandomState(seed), floor(X.shape[1]))
            for seed in range(5)
        ]
        assert all(judged for _, judged in made)
        assert any(name.startswith("seeds") for names, _ in made for name in names) == wanted


def test_normal_scores_are_compared_only_where_columns_have_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    # Red without the condition, or with its sign turned.
    X, _ = blocks(8)
    asked: list[str] = []
    for name, rows in (("plain", X), ("heavy", np.sinh(2 * X))):
        monkeypatch.setattr(module, "by_ranks", lambda *rest, name=name: asked.append(name) or by_ranks(*rest))
        candidate_clusterings(
            rows / rows.std(axis=0), np.ones(len(rows)), 3, np.random.RandomState(0), floor(rows.shape[1])
        )
    assert asked == ["heavy"]


def test_many_rows_are_compared_on_a_part_and_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PART_ROWS", 150)
    monkeypatch.setattr(module, "_PART_NUMBERS", 0)
    X, y = blocks(8, N=600, apart=3)
    model = GaussianBiclustering(3, random_state=0).fit(X)
    assert len(model.starts_) == 1
    assert adjusted_rand_score(y, model.row_labels_) > 0.9


def test_one_group_is_a_fallback_that_begins_after_its_regroup() -> None:
    # Red if one group is run to the end in every fit, or if it is compared before its regroup. On ionosphere BIC is
    # 15 850 where one group takes over by its regroup, and 16 950 where it does not.
    X, _ = blocks(4, apart=3)
    made = starts(GaussianBiclustering(3), X)
    assert [start.name.split(", ")[-1] for start in made if start.limit == np.inf] == ["rule"]
    one = next(start for start in made if start.name.endswith("one group"))
    assert one.limit < np.inf
    assert [partition.n_groups for partition in one.begin().parameters.blocks.layout.partitions] == [2, 2, 2]


@pytest.mark.parametrize("levels", [2, 3, 5])
@pytest.mark.parametrize("p", [4, 8])
def test_a_column_of_few_values_does_not_take_the_clusters_over(levels: int, p: int) -> None:
    # Red if short EM adds the same small number to every variance: a cluster then sits on each value of the column.
    for seed in range(3):
        rng = np.random.default_rng(seed)
        y = np.repeat([0, 1], 150)
        X = np.column_stack([rng.standard_normal((300, p)) + 3 * y[:, None], rng.integers(0, levels, 300)])
        assert adjusted_rand_score(y, GaussianBiclustering(2, random_state=0).fit(X).row_labels_) > 0.9


def test_a_row_of_weight_0_below_all_others_does_not_stop_a_fit() -> None:
    # Red if its normal score is −∞: with fewer different rows than components it is among those that are clustered.
    X = np.append(np.repeat([[0.0, 0], [1, 1], [9, 9]], [60, 60, 6], axis=0), [[-5.0, -5]], axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GaussianBiclustering(4, random_state=0).fit(X, sample_weight=np.append(np.ones(126), 0))
    assert np.isfinite(model.score_samples(X)).all()


def test_fewer_distinct_rows_than_columns_are_clustered() -> None:
    # Red if repeated rows do not count as rows.
    numbers = np.random.default_rng(0).integers(0, 4, 200)
    X = np.array([[0.0, 0, 0, 0, 1], [1, 0, 1, 1, 0], [0, 1, 1, 0, 0], [1, 1, 0, 1, 1]])[numbers]
    model = GaussianBiclustering(4, shared_covariance=True, random_state=0).fit(X)
    assert adjusted_rand_score(model.row_labels_, numbers) == 1


def test_where_values_tie_the_start_does_not_depend_on_how_the_rows_are_stored() -> None:
    # Red if clusterings see the last bits of the means, which depend on the order of summation.
    for seed in (5, 8, 39, 46):
        rng = np.random.default_rng(seed)
        N, p, levels, G = (int(rng.integers(*ends)) for ends in ((20, 90), (2, 7), (2, 5), (2, 5)))
        X, shared = rng.integers(0, levels, (N, p)) * 0.1, bool(rng.integers(2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            labels, *others = [
                GaussianBiclustering(G, shared_covariance=shared, random_state=0).fit(stored).row_labels_
                for stored in (X, np.asfortranarray(X), lambda X=X: iter([X[:7], X[7:]]))
            ]
        assert [adjusted_rand_score(labels, other) for other in others] == [1, 1]
