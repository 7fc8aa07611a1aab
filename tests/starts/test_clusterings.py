"""Clusterings: no component is empty whatever the rows, seeds decide, given arrays are checked."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from strategies import Matrix
from strategies import seeds as numbers

from blockmix.starts import clusterings as module
from blockmix.starts.clusterings import (
    SEEDS,
    by_ranks,
    by_weighted_columns,
    clip,
    clusterings,
    distinct,
    filled,
    hierarchical,
    inertia,
    kmeans,
    least_inertia,
    nearest_seed,
    normal_scores,
    principal_scores,
    seeds,
    ward,
)
from blockmix.starts.clusterings import given as checked


def planted(seed: int, N: int = 90, p: int = 4, G: int = 3, apart: float = 8.0) -> tuple[Matrix, NDArray[Any]]:
    rng = np.random.default_rng(seed)
    y = np.arange(N) % G
    X = rng.standard_normal((N, p)) + apart * np.eye(G, p)[y]
    return (X - X.mean(axis=0)) / X.std(axis=0), y


Search = Callable[..., NDArray[Any]]
SEARCHES: dict[str, Search] = {
    "kmeans": kmeans,
    "hierarchical": hierarchical,
    "least inertia": least_inertia,
    "seeds": lambda *rest: seeds(*rest)["seeds 2"],
}
every_search = pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES.keys())


def found(search: Search, X: NDArray[Any], G: int, weights: Any = None, seed: int = 0) -> NDArray[Any]:
    """Labels of a search that leaves no component without rows that count."""
    w = np.ones(len(X), dtype=X.dtype) if weights is None else weights
    z = search(X, w, G, np.random.RandomState(seed))
    assert z.shape == (len(X), G) and z.dtype == X.dtype
    assert ((z == 0) | (z == 1)).all() and (z.sum(axis=1) == 1).all()
    assert (w @ z > 0).all()
    return np.asarray(z.argmax(axis=1))


@every_search
@given(st.integers(2, 30), st.integers(1, 40), st.sampled_from(["f4", "f8"]), numbers, st.data())
def test_a_search_has_g_clusters_and_its_seed_decides(
    search: Search, N: int, p: int, dtype: str, seed: int, data: st.DataObject
) -> None:
    # Among few different rows, and of rows of weight 0: red without `filled`, or if a row without weight fills a
    # cluster, which would be dead at the first M-step.
    G = data.draw(st.integers(1, min(N, 5)))
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, p)).astype(dtype)[rng.integers(0, data.draw(st.integers(1, N)), N)]
    weights = np.append(np.ones(G), rng.integers(0, 2, N - G)).astype(dtype)
    before = list(warnings.filters)
    labels = found(search, X, G, weights, seed % 1000)
    assert_array_equal(labels, found(search, X, G, weights, seed % 1000))
    assert list(warnings.filters) == before


@every_search
def test_clusters_far_apart_are_found(search: Search) -> None:
    X, y = planted(0, apart=12.0)
    if search is not SEARCHES["seeds"]:
        assert adjusted_rand_score(y, found(search, X, 3)) == 1
    assert_array_equal(np.sort(found(search, X[:5], 5)), np.arange(5))


def test_k_means_and_seeds_count_weights() -> None:
    X = np.array([[0.0], [1.0], [3.0]])
    assert np.ptp(found(kmeans, X, 2)[:2]) == 0
    heavy = found(kmeans, X, 2, np.array([1000.0, 1000.0, 1.0]))
    assert heavy[0] != heavy[1] == heavy[2]
    line = np.arange(6.0)[:, None]
    for seed in range(10):  # rows without weight are never seeds
        labels = nearest_seed(line, np.array([1.0, 0, 0, 0, 0, 1]), 2, np.random.RandomState(seed))
        assert_array_equal(labels == labels[0], [True, True, True, False, False, False])


def test_k_means_of_many_rows_takes_its_centers_from_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).standard_normal((1000, 3))
    X[:300] += 8
    monkeypatch.setattr(module, "_MEANS_ROWS", 100)
    fitted: list[int] = []
    original = module.KMeans.fit
    monkeypatch.setattr(
        module.KMeans, "fit", lambda self, X, **rest: fitted.append(len(X)) or original(self, X, **rest)
    )
    assert adjusted_rand_score(np.arange(1000) < 300, found(kmeans, X, 2)) == 1
    assert fitted == [100]


@given(st.integers(4, 30), st.integers(1, 50), numbers)
def test_ward_is_scipys_and_a_weight_is_a_repeated_row(N: int, p: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, weights = rng.standard_normal((N, p)), rng.integers(1, 4, N)
    repeated = np.repeat(np.arange(N), weights)
    for G in range(1, min(N, 4) + 1):
        wanted = fcluster(linkage(X, "ward"), G, "maxclust")
        assert adjusted_rand_score(wanted, ward(X, np.ones(N), G)) == 1
        # Rows of the tree keep its labels, though another center may be nearer; rows without weight do not move it.
        others = found(hierarchical, np.append(X, X[:4] + 3, axis=0), G, np.repeat([1.0, 0.0], [N, 4]))
        assert adjusted_rand_score(wanted, others[:N]) == 1
        labels = ward(X, weights.astype(float), G)
        assert adjusted_rand_score(labels[repeated], ward(X[repeated], np.ones(len(repeated)), G)) == 1


@pytest.mark.parametrize("n_distinct", [1, 2, 5])
def test_ward_cuts_ties_into_exactly_g(n_distinct: int) -> None:
    X = np.random.default_rng(0).standard_normal((5, 2))[np.arange(12) % n_distinct]
    assert all(len(np.unique(ward(X, np.ones(12), G))) == G for G in range(1, 13))


def test_a_tree_on_some_rows_places_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    # Red if labels of the tree were put to the wrong rows, or the rest were not placed at all.
    monkeypatch.setattr(module, "_TREE_ROWS", 20)
    X, y = planted(5)
    assert adjusted_rand_score(y, found(hierarchical, X, 3)) == 1


@given(st.integers(3, 20), st.integers(2, 20), numbers)
def test_principal_scores_keep_distances_and_are_uncorrelated(N: int, p: int, seed: int) -> None:
    # Red if the N × N and the p × p way disagreed, or a weight did not count as a repeated row.
    rng = np.random.default_rng(seed)
    X, weights = rng.standard_normal((N, p)), rng.integers(1, 4, N).astype(float)
    scores, variances = principal_scores(X, weights)
    apart = ((X[:, None] - X) ** 2).sum(axis=2)
    assert_allclose(((scores[:, None] - scores) ** 2).sum(axis=2), apart, atol=1e-8 * apart.max())
    repeated = np.repeat(X, weights.astype(int), axis=0)
    wanted = np.sort(np.linalg.eigvalsh(np.cov(repeated.T, bias=True)))[::-1][: len(variances)]
    assert_allclose(variances, wanted, atol=1e-9 * variances[0])
    assert_allclose((scores.T * weights) @ scores / weights.sum(), np.diag(variances), atol=1e-9 * variances[0])


def test_the_farthest_row_fills_an_empty_cluster() -> None:
    X, labels = np.array([[0.0], [1.0], [9.0], [20.0]]), np.array([0, 0, 0, 2])
    assert_array_equal(filled(labels, X, np.ones(4), 3).argmax(axis=1), [0, 0, 1, 2])
    # A row alone in its cluster stays there, and a row of weight 0 fills nothing.
    assert_array_equal(filled(labels, X, np.array([1.0, 1.0, 0.0, 1.0]), 3).argmax(axis=1), [1, 0, 0, 2])


def test_outliers_attract_plain_k_means_only_and_trimming_never_removes_a_cluster() -> None:
    # Red if columns are clipped at moments, which the outliers move.
    X, y = planted(0)
    X = np.concatenate([X, 200 * np.eye(4)[:3], -200 * np.eye(4)[:3]])
    pool = clusterings(X, np.ones(96), 3, np.random.RandomState(0))
    assert adjusted_rand_score(y, pool["kmeans"].argmax(axis=1)[:90]) < 0.5
    assert adjusted_rand_score(y, pool["clipped"].argmax(axis=1)[:90]) == 1
    assert not pool["trimmed"][90:].any()
    assert pool["trimmed"].sum() == pytest.approx(0.9 * 96, abs=1)
    X = np.concatenate([np.random.default_rng(0).standard_normal((97, 2)), [[60.0, 60], [61, 60], [60, 61]]])
    assert (clusterings(X, np.ones(100), 2, np.random.RandomState(0))["trimmed"].sum(axis=0) > 0).all()
    one_value = np.array([[0.0], [0.0], [0.0], [0.0], [7.0]])
    assert_array_equal(clip(one_value), one_value)  # red if a median absolute deviation of 0 clips every other value


def test_ranks_find_clusters_of_skewed_columns_and_take_a_weight_of_two_as_two_rows() -> None:
    # Red if k-means has the columns themselves: the long tails are its clusters.
    X, y = planted(2, N=300, apart=3.5)
    X = np.exp(2 * X)
    assert adjusted_rand_score(y, found(kmeans, X, 3)) < 0.7
    assert adjusted_rand_score(y, found(by_ranks, X, 3)) > 0.9
    X, weights = np.random.default_rng(0).integers(0, 5, (20, 3)).astype(float), np.where(np.arange(20) < 8, 2.0, 1.0)
    assert_allclose(normal_scores(X, weights), normal_scores(np.concatenate([X, X[:8]]), np.ones(28))[:20])


@given(st.integers(4, 20), st.integers(21, 40), st.integers(2, 4), numbers)
def test_least_inertia_is_no_worse_than_k_means_with_ten_starts(N: int, p: int, G: int, seed: int) -> None:
    X, weights = np.random.default_rng(seed).standard_normal((N, p)), np.ones(N)
    plain = KMeans(G, n_init=10, random_state=np.random.RandomState(0)).fit(X)
    assert inertia(X, weights, np.eye(G)[plain.labels_]) == pytest.approx(plain.inertia_)
    z = least_inertia(X, weights, G, np.random.RandomState(0))
    assert inertia(X, weights, z) <= plain.inertia_ * 1.02


def test_seeds_are_many_and_different() -> None:
    drawn = seeds(planted(0)[0], np.ones(90), 3, np.random.RandomState(0))
    assert len(drawn) == SEEDS
    assert len({z.tobytes() for z in drawn.values()}) > SEEDS // 2


@given(numbers, st.integers(1, 40), st.integers(1, 3), st.integers(1, 3))
def test_different_rows_are_each_there_once_in_an_order_of_their_own(seed: int, N: int, p: int, largest: int) -> None:
    # Small integers of both signs: many repeats, and many rows of equal length that differ.
    rng = np.random.default_rng(seed)
    X, weights = rng.integers(-largest, largest + 1, (N, p)).astype(float), rng.integers(0, 3, N) * 1.0
    wanted = {tuple(x): weights[(x == X).all(axis=1)].sum() for x in X[weights > 0]}
    rows, totals, place = distinct(X, weights, 0)
    assert dict(zip(map(tuple, rows), totals, strict=True)) == wanted
    assert len(rows) == len(wanted)
    assert_array_equal(rows[place[weights > 0]], X[weights > 0])
    order = rng.permutation(N)
    for a, b in zip(distinct(X[order], weights[order], 0), (rows, totals, place[order]), strict=True):
        assert_array_equal(a, b)
    few = distinct(X, weights, len(wanted) + 1)  # fewer different rows than components are left as they are
    assert few[0] is X and few[1] is weights and few[2].tolist() == list(range(N))


# Labels and responsibilities from the user.


@pytest.mark.parametrize(
    "labels",
    [[0, 1, 1, 2], [5, 7, 7, 9], ["a", "b", "b", "c"], [0.0, 1.0, 1.0, 2.0], (-1, 0, 0, 3), [False, True, True, 2]],
)
def test_labels_of_any_kind_are_numbered_in_order(labels: Any) -> None:
    z = checked(labels, 4, 3, np.dtype("f4"))
    assert z.shape == (4, 3) and z[:].dtype == np.float32
    assert_array_equal(z[:], np.eye(3)[[0, 1, 1, 2]])
    assert_array_equal(z[1:3], np.eye(3)[[1, 1]])


def test_responsibilities_are_taken_as_they_are() -> None:
    z = np.array([[0.2, 0.8], [1.0, 0.0], [0.5, 0.5]])
    assert_array_equal(checked(z, 3, 2, np.dtype(float))[:], z)
    off = z.astype("f4") * np.float32(1 + 1e-6)
    assert_allclose(checked(off, 3, 2, np.dtype(float))[:].sum(axis=1), 1, rtol=1e-15)


SHAPES = "give labels of shape (3,) or responsibilities of shape (3, 2), or a name"


@pytest.mark.parametrize(
    ("init", "sentence"),
    [
        ([0, 1], f"init has shape (2,): {SHAPES}"),
        (np.full((3, 4), 0.25), f"init has shape (3, 4): {SHAPES}"),
        (None, f"init has shape (): {SHAPES}"),
        ([0, 0, 0], "init has 1 different labels, n_components is 2: make them equal"),
        ([0, 1, 2], "init has 3 different labels, n_components is 2: make them equal"),
        ([0, np.nan, 1], "init has nan in row 1, which is not a label: give every row an integer or a name"),
        (
            [[0.5, 0.5], [0.5, 0.4], [1, 0]],
            "row 1 of init sums to 0.9: divide each row of responsibilities by its sum",
        ),
        ([[0.5, 0.5], [1, 0], [1.5, -0.5]], "init[2, 1] is -0.5, negative: give responsibilities between 0 and 1"),
        ([[0.5, 0.5], [np.nan, 1], [1, 0]], "init[1, 0] is nan, not finite: give responsibilities between 0 and 1"),
        ([["a", "b"]] * 3, "init holds <U1, not numbers: give responsibilities between 0 and 1"),
    ],
)
def test_a_wrong_init_is_refused_in_one_sentence(init: Any, sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        checked(init, 3, 2, np.dtype(float))
    assert str(error.value) == sentence


@given(st.integers(3, 12), numbers)
def test_bimodal_columns_are_those_that_one_cut_explains_best(N: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, weights = rng.standard_normal((N, 5)), rng.integers(1, 3, N)
    repeated = np.repeat(X, weights, axis=0)

    def explained(x: NDArray[Any]) -> float:
        cuts = [x > value for value in np.unique(x)[:-1]]
        inside = [x[cut].var() * cut.mean() + x[~cut].var() * (~cut).mean() for cut in cuts]
        return 1 - min(inside) / float(x.var())

    wanted = np.argsort([-explained(column) for column in repeated.T])
    assert_array_equal(module.bimodal(X, weights.astype(float)), wanted)


@pytest.mark.parametrize("seed", range(4))
def test_columns_weighted_by_what_they_explain_find_clusters_of_few_columns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((90, 400)) + 0.8 * rng.standard_normal((90, 40)).repeat(10, axis=1), np.arange(90) % 3
    X[:, ::10] += 1.2 * rng.standard_normal((3, 40))[y]
    weights, draws = np.ones(90), np.random.RandomState(0)
    z = kmeans(X, weights, 3, draws, 10)
    assert adjusted_rand_score(y, z.argmax(axis=1)) < 0.9
    found = by_weighted_columns(X, weights, np.eye(3)[np.where(rng.random(90) < 0.5, y, rng.integers(0, 3, 90))], draws)
    assert adjusted_rand_score(y, found.argmax(axis=1)) == 1
    stays = by_weighted_columns(X, weights, found, draws)
    assert adjusted_rand_score(found.argmax(axis=1), stays.argmax(axis=1)) == 1
    same = np.tile(X[:, :1], 3)  # no column explains more than another
    assert np.array_equal(by_weighted_columns(same, weights, found, draws), found)
