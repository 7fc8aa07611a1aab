"""Starts: no component is empty whatever the rows, given arrays are checked, and Ward's tree against SciPy's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.metrics import adjusted_rand_score
from strategies import Matrix, seeds

from blockmix.starts import clusterings as starts
from blockmix.starts.clusterings import STARTS, distinct, filled, portfolio, principal_scores, start, ward

NAMES = list(STARTS)


def rows(seed: int, N: int, p: int) -> Matrix:
    X = np.random.default_rng(seed).standard_normal((N, p))
    standard: Matrix = (X - X.mean(axis=0)) / X.std(axis=0)
    return standard


def planted(seed: int, N: int = 60, p: int = 4, G: int = 3, gap: float = 12.0) -> tuple[Matrix, NDArray[Any]]:
    rng = np.random.default_rng(seed)
    labels = np.arange(N) % G
    X = rng.standard_normal((N, p)) + gap * np.eye(G, p)[labels]
    return (X - X.mean(axis=0)) / X.std(axis=0), labels


def begin(name: str, X: NDArray[Any], G: int, weights: NDArray[Any] | None = None, seed: int = 0) -> NDArray[Any]:
    w = np.ones(len(X), dtype=X.dtype) if weights is None else weights
    return start(name, X, w, G, np.random.RandomState(seed))


def assert_start(z: NDArray[Any], X: NDArray[Any], G: int, counted: NDArray[Any] | None = None) -> None:
    assert z.shape == (len(X), G)
    assert z.dtype == X.dtype
    assert (z >= 0).all()
    assert_allclose(z.sum(axis=1), 1, rtol=1e-5)
    labels = z.argmax(axis=1)
    assert_array_equal(np.unique(labels if counted is None else labels[counted]), np.arange(G))


@given(st.sampled_from(NAMES), st.integers(2, 30), st.integers(1, 40), st.sampled_from(["f4", "f8"]), seeds, st.data())
def test_every_start_has_g_clusters_and_its_seed_decides(
    name: str, N: int, p: int, dtype: str, seed: int, data: st.DataObject
) -> None:
    # Red without `filled`: a random guess over few rows misses components. Red if a start drew from elsewhere.
    G = data.draw(st.integers(1, min(N, 6)))
    X = rows(seed, N, p).astype(dtype)
    z = begin(name, X, G, seed=seed % 1000)
    assert_start(z, X, G)
    assert_array_equal(z, begin(name, X, G, seed=seed % 1000))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("distinct", [1, 2, 3])
@pytest.mark.parametrize("p", [1, 12])
def test_duplicated_rows_leave_no_cluster_empty_and_no_warning(name: str, distinct: int, p: int) -> None:
    # Red if k-means' ConvergenceWarning escapes (warnings are errors) or its missing clusters are not filled.
    X = rows(0, 3, p)[np.arange(8) % distinct]
    assert_start(begin(name, X, 4), X, 4)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("p", [2, 20])
def test_as_many_components_as_rows_gives_each_its_own(name: str, p: int) -> None:
    X = rows(1, 5, p)
    assert_array_equal(np.sort(begin(name, X, 5).argmax(axis=1)), np.arange(5))


@pytest.mark.parametrize("name", NAMES)
def test_one_component_is_all_ones(name: str) -> None:
    assert_array_equal(begin(name, rows(0, 4, 3).astype("f4"), 1), np.ones((4, 1), dtype="f4"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("p", [3, 40])
def test_clusters_hold_rows_that_count(name: str, p: int) -> None:
    # Red if a row of weight 0 could fill a cluster: the component would be dead at the first M-step.
    X = rows(2, 16, p)
    weights = np.where(np.arange(16) % 4 == 0, 1.0, 0.0)
    assert_start(begin(name, X, 4, weights), X, 4, counted=weights > 0)


@pytest.mark.parametrize("name", ["kmeans", "kmeans++", "whitened", "hierarchical"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_far_clusters_are_found(name: str, dtype: str) -> None:
    X, labels = planted(0)
    assert adjusted_rand_score(labels, begin(name, X.astype(dtype), 3).argmax(axis=1)) == 1


def test_annealed_finds_clusters_among_more_columns_than_rows() -> None:
    labels = np.arange(24) < 9
    X = rows(3, 24, 60) + 2.5 * labels[:, None]
    assert adjusted_rand_score(labels, begin("annealed", X, 2).argmax(axis=1)) == 1


def test_whitening_separates_stripes_that_k_means_cuts_across() -> None:
    # Red if the components kept their variance, or only the leading one were kept.
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    along = rng.standard_normal((200, 1)) * np.ones(6)
    X = along + 0.4 * (2 * labels - 1)[:, None] * np.array([1, -1, 1, -1, 1, -1]) + 0.05 * rng.standard_normal((200, 6))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    found = {
        name: [adjusted_rand_score(labels, begin(name, X, 2, seed=seed).argmax(axis=1)) == 1 for seed in range(10)]
        for name in ("kmeans", "whitened")
    }
    assert sum(found["whitened"]) >= 8
    assert sum(found["kmeans"]) <= 2


def test_k_means_counts_weights() -> None:
    X = np.array([[0.0], [1.0], [3.0]])
    assert_array_equal(np.ptp(begin("kmeans", X, 2)[:2, 0]), 0)
    heavy = begin("kmeans", X, 2, np.array([1000.0, 1000.0, 1.0])).argmax(axis=1)
    assert heavy[0] != heavy[1] == heavy[2]


def test_seeds_are_drawn_by_weight() -> None:
    X = rows(0, 40, 2)
    weights = np.where(np.arange(40) < 2, 1.0, 0.0)
    labels = begin("kmeans++", X, 2, weights).argmax(axis=1)
    nearest = ((X[:, None] - X[:2]) ** 2).sum(axis=2).argmin(axis=1)
    assert adjusted_rand_score(nearest, labels) == 1


@given(st.integers(4, 40), st.integers(1, 50), seeds)
def test_ward_is_scipys(N: int, p: int, seed: int) -> None:
    X = rows(seed, N, p)
    for G in range(1, min(N, 5) + 1):
        expected = fcluster(linkage(X, "ward"), G, "maxclust")
        assert adjusted_rand_score(expected, ward(X, np.ones(N), G)) == 1
        # Rows of the tree keep its labels, though another center may be nearer.
        assert adjusted_rand_score(expected, begin("hierarchical", X, G).argmax(axis=1)) == 1


@given(st.integers(4, 25), st.integers(1, 30), seeds)
def test_a_weight_in_wards_tree_is_a_repeated_row(N: int, p: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, weights = rows(seed, N, p), rng.integers(1, 4, N)
    repeated = np.repeat(np.arange(N), weights)
    for G in range(1, 5):
        labels = ward(X, weights.astype(float), G)
        assert adjusted_rand_score(labels[repeated], ward(X[repeated], np.ones(len(repeated)), G)) == 1


@pytest.mark.parametrize("distinct", [1, 2, 5])
def test_ward_cuts_ties_into_exactly_g(distinct: int) -> None:
    X = rows(0, 5, 2)[np.arange(12) % distinct]
    for G in range(1, 13):
        assert len(np.unique(ward(X, np.ones(12), G))) == G


def test_rows_without_weight_do_not_move_the_tree() -> None:
    X, weights = rows(4, 30, 3), np.ones(30)
    weights[20:] = 0
    with_them = begin("hierarchical", X, 3, weights).argmax(axis=1)
    assert adjusted_rand_score(begin("hierarchical", X[:20], 3).argmax(axis=1), with_them[:20]) == 1


def test_a_tree_on_some_rows_places_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    # Red if labels of the tree were put to the wrong rows, or the rest were not placed at all.
    monkeypatch.setattr(starts, "_TREE_ROWS", 20)
    X, labels = planted(5, N=90)
    z = begin("hierarchical", X, 3)
    assert adjusted_rand_score(labels, z.argmax(axis=1)) == 1
    assert_array_equal(z, begin("hierarchical", X, 3))


@given(st.integers(3, 20), st.integers(2, 20), seeds)
def test_principal_scores_keep_distances_and_are_uncorrelated(N: int, p: int, seed: int) -> None:
    # Red if the N × N and the p × p way disagreed, or a weight did not count as a repeated row.
    rng = np.random.default_rng(seed)
    X, weights = rows(seed, N, p), rng.integers(1, 4, N).astype(float)
    scores, variances = principal_scores(X, weights)
    apart = ((X[:, None] - X) ** 2).sum(axis=2)
    assert_allclose(((scores[:, None] - scores) ** 2).sum(axis=2), apart, atol=1e-8 * apart.max())
    repeated = np.repeat(X, weights.astype(int), axis=0)
    expected = np.sort(np.linalg.eigvalsh(np.cov(repeated.T, bias=True)))[::-1][: len(variances)]
    assert_allclose(variances, expected, atol=1e-9 * variances[0])
    assert_allclose((scores.T * weights) @ scores / weights.sum(), np.diag(variances), atol=1e-9 * variances[0])


def test_the_farthest_row_fills_an_empty_cluster() -> None:
    X = np.array([[0.0], [1.0], [9.0], [20.0]])
    z = filled(np.array([0, 0, 0, 2]), X, np.ones(4), 3)
    assert_array_equal(z.argmax(axis=1), [0, 0, 1, 2])
    # A row alone in its cluster stays there, and a row of weight 0 fills nothing.
    z = filled(np.array([0, 0, 0, 2]), X, np.array([1.0, 1.0, 0.0, 1.0]), 3)
    assert_array_equal(z.argmax(axis=1), [1, 0, 0, 2])


def test_a_portfolio_is_diverse_and_annealed_only_where_columns_outnumber_rows() -> None:
    for N, p in [(10, 3), (50, 50), (50, 51), (30, 2000)]:
        names = portfolio(N, p)
        assert set(names) <= set(STARTS)
        assert ("annealed" in names) == (p > N)
        assert set(names) >= {"kmeans", "whitened", "hierarchical", "kmeans++"}
        assert names.count("kmeans") == 1  # one start repeated is still one start


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    "labels",
    [[0, 1, 1, 2], [5, 7, 7, 9], ["a", "b", "b", "c"], [0.0, 1.0, 1.0, 2.0], (-1, 0, 0, 3), [False, True, True, 2]],
)
def test_labels_of_any_kind_are_numbered_in_order(labels: Any, dtype: str) -> None:
    X = rows(0, 4, 2).astype(dtype)
    z = begin(labels, X, 3)
    assert_start(z, X, 3)
    assert_array_equal(z.argmax(axis=1), [0, 1, 1, 2])


def test_responsibilities_are_taken_as_they_are() -> None:
    X = rows(0, 3, 2)
    given_z = np.array([[0.2, 0.8], [1.0, 0.0], [0.5, 0.5]])
    assert_array_equal(begin(given_z, X, 2), given_z)  # type: ignore[arg-type]
    off = given_z.astype("f4") * np.float32(1 + 1e-6)
    assert_allclose(begin(off, X, 2).sum(axis=1), 1, rtol=1e-15)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("init", "sentence"),
    [
        (
            "k-means",
            "init='k-means' must be one of kmeans, kmeans++, random, whitened, hierarchical, annealed, "
            "or an array of labels or responsibilities",
        ),
        (
            [0, 1],
            "init has shape (2,): give labels of shape (3,) or responsibilities of shape (3, 2), or a name",
        ),
        (
            np.full((3, 4), 0.25),
            "init has shape (3, 4): give labels of shape (3,) or responsibilities of shape (3, 2), or a name",
        ),
        (None, "init has shape (): give labels of shape (3,) or responsibilities of shape (3, 2), or a name"),
        ([0, 0, 0], "init has 1 different labels, n_components is 2: make them equal"),
        ([0, 1, 2], "init has 3 different labels, n_components is 2: make them equal"),
        ([0, np.nan, 1], "label nan of row 1 in init is no label: give every row an integer or a name"),
        (
            [[0.5, 0.5], [0.5, 0.4], [1, 0]],
            "row 1 of init sums to 0.9: divide each row of responsibilities by its sum",
        ),
        (
            [[0.5, 0.5], [1, 0], [1.5, -0.5]],
            "init[2, 1] is -0.5, negative: give responsibilities between 0 and 1",
        ),
        (
            [[0.5, 0.5], [np.nan, 1], [1, 0]],
            "init[1, 0] is nan, not finite: give responsibilities between 0 and 1",
        ),
        ([["a", "b"]] * 3, "init holds <U1, not numbers: give responsibilities between 0 and 1"),
        ([[1, 0]] * 3, "component 1 of init has no rows: give each component some, or lower n_components"),
    ],
)
def test_a_wrong_init_is_refused_in_one_sentence(init: Any, sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        begin(init, rows(0, 3, 2), 2)
    assert str(error.value) == sentence


def test_labels_only_on_rows_without_weight_are_refused() -> None:
    with pytest.raises(ValueError) as error:
        begin([0, 0, 1], rows(0, 3, 2), 2, np.array([1.0, 1.0, 0.0]))  # type: ignore[arg-type]
    assert str(error.value) == "component 1 of init has no rows: give each component some, or lower n_components"


@pytest.mark.parametrize("name", NAMES)
def test_more_components_than_rows_are_refused(name: str) -> None:
    with pytest.raises(ValueError) as error:
        begin(name, rows(0, 3, 2), 4)
    assert str(error.value) == "n_components=4 exceeds the 3 rows of X: ask for fewer components"


def test_the_filters_of_warnings_are_as_before() -> None:
    before = list(warnings.filters)
    begin("kmeans", np.zeros((6, 2)), 3)
    assert list(warnings.filters) == before


def test_kmeans_of_many_rows_takes_its_centers_from_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).standard_normal((1000, 3))
    X[:300] += 8
    monkeypatch.setattr(starts, "_MEANS_ROWS", 100)
    fitted: list[int] = []
    original = starts.KMeans.fit

    def fit(self: Any, X: Any, **arguments: Any) -> Any:
        fitted.append(len(X))
        return original(self, X, **arguments)

    monkeypatch.setattr(starts.KMeans, "fit", fit)
    z = start("kmeans", X, np.ones(1000), 2, np.random.RandomState(0))
    assert fitted == [100]
    assert adjusted_rand_score(np.arange(1000) < 300, z.argmax(axis=1)) == 1


@given(seeds, st.integers(1, 40), st.integers(1, 3), st.integers(1, 3))
def test_different_rows_are_each_there_once_in_an_order_of_their_own(
    seed: int, n_rows: int, p: int, largest: int
) -> None:
    # Small integers of both signs: many repeats, and many rows of equal length that differ.
    rng = np.random.default_rng(seed)
    X, weights = rng.integers(-largest, largest + 1, (n_rows, p)).astype(float), rng.integers(0, 3, n_rows) * 1.0
    expected = {tuple(x): weights[(x == X).all(axis=1)].sum() for x in X[weights > 0]}
    found, totals, place = distinct(X, weights, 0)
    assert dict(zip(map(tuple, found), totals, strict=True)) == expected
    assert len(found) == len(expected)
    assert np.array_equal(found[place[weights > 0]], X[weights > 0])
    order = rng.permutation(n_rows)
    again = distinct(X[order], weights[order], 0)
    assert np.array_equal(again[0], found)
    assert np.array_equal(again[1], totals)
    assert np.array_equal(again[2], place[order])


def test_fewer_different_rows_than_components_are_left_as_they_are() -> None:
    X, weights = np.array([[1.0], [0.0], [1.0]]), np.array([1.0, 2.0, 3.0])
    assert len(distinct(X, weights, 2)[0]) == 2
    found = distinct(X, weights, 3)
    assert found[0] is X
    assert found[1] is weights
    assert found[2].tolist() == [0, 1, 2]
