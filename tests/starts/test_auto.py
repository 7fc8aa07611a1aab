"""The default start: no worse than full and diagonal mixtures, the same for files, and short on many rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.metrics import adjusted_rand_score

from blockmix import FactorBiclustering, GaussianBiclustering
from blockmix.estimators import mixture as em_mixture
from blockmix.estimators.mixture import CautionWarning
from blockmix.starts import default as auto_start
from blockmix.starts.clusterings import by_ranks
from blockmix.starts.default import compared


def blocks(seed: int, N: int = 200, p: int = 6, gap: float = 1.5) -> tuple[Any, Any]:
    """Three clusters with blocks of three columns of their own."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, N, p=(0.4, 0.35, 0.25))
    X = np.empty((N, p))
    for g in range(3):
        own = rng.permutation(np.arange(p) // 3)
        n = int((y == g).sum())
        X[y == g] = 0.8 * rng.standard_normal((n, p // 3))[:, own] + 0.6 * rng.standard_normal((n, p))
    return X + gap * rng.standard_normal((3, p))[y], y


SETS = {
    "iris": (lambda: load_iris(return_X_y=True), 3),
    "wine": (lambda: load_wine(return_X_y=True), 3),
    "cancer": (lambda: load_breast_cancer(return_X_y=True), 2),
    "blocks": (lambda: blocks(0), 3),
    "close blocks": (lambda: blocks(1, gap=0.7), 3),
    "independent": (lambda: (np.random.default_rng(2).standard_normal((150, 4)), np.zeros(150)), 3),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("seed", [0, 1])
def test_no_default_fit_has_a_higher_bic_than_full_or_diagonal_covariances(name: str, seed: int) -> None:
    # Red if EM leaves one group before it has converged, or if columns alone are never tried.
    load, G = SETS[name]
    X, _ = load()
    found = GaussianBiclustering(G, random_state=seed).fit(X)
    for K in (1, X.shape[1]):
        assert found.bic(X) <= GaussianBiclustering(G, K, random_state=seed).fit(X).bic(X) + 1e-6


@pytest.mark.parametrize("seed", [3, 4])
def test_iris_ends_at_the_best_mixture(seed: int) -> None:
    # One k-means start ends at ARI 0.73: the groups found in its clusters hold them.
    X, y = load_iris(return_X_y=True)
    assert adjusted_rand_score(y, GaussianBiclustering(3, random_state=seed).fit(X).row_labels_) > 0.88


def test_two_per_cent_of_outliers_do_not_become_the_clusters() -> None:
    X, y = blocks(3, N=300)
    X[:6] = np.random.default_rng(0).uniform(-60, 60, (6, 6))
    clean = np.arange(300) >= 6
    # One of three components holds the outliers, and the fit says so.
    with pytest.warns(CautionWarning, match="holds 6 rows that are spread"):
        model = GaussianBiclustering(3, random_state=0).fit(X)
    assert adjusted_rand_score(y[clean], model.row_labels_[clean]) > 0.6


def test_more_columns_than_rows_keep_the_partition_of_least_inertia() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.standard_normal((40, 120))
    X[y == 1, :30] += 1.5
    model = GaussianBiclustering(2, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.row_labels_) == 1
    assert model.starts_[0][0] == "auto 1: least inertia, rule"


def test_seeds_are_drawn_only_where_components_have_twice_as_many_rows_as_parameters() -> None:
    # 60 rows for components of p(p + 3)/2 = 27 parameters, and for 35.
    rng = np.random.default_rng(0)
    for p, expected in ((6, True), (7, False)):
        X = rng.standard_normal((120, p))
        found = [compared(X, np.ones(120), 2, np.random.RandomState(seed)) for seed in range(5)]
        assert all(judged for _, judged in found)
        assert any(name.startswith("seeds") for names, _ in found for name in names) == expected


@pytest.mark.parametrize("tails", ["normal", "t"])
@pytest.mark.parametrize("shared", [False, True])
def test_other_models_have_the_same_starts(tails: str, shared: bool) -> None:
    X, y = blocks(5, gap=3)
    model = GaussianBiclustering(3, tails=tails, shared_covariance=shared, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.row_labels_) > 0.9
    assert (np.diff(model.log_likelihood_trace_) > -1e-6).all()


def test_a_factor_mixture_takes_the_best_clustering() -> None:
    X, y = blocks(6, gap=3)
    model = FactorBiclustering(3, 2, model="UUUU", random_state=0).fit(X)
    assert adjusted_rand_score(y, model.row_labels_) > 0.9
    assert all(name.endswith("given groups") for name, *_ in model.starts_)


def test_weights_of_two_start_as_rows_that_are_there_twice() -> None:
    X, _ = blocks(7, N=60)
    twice = GaussianBiclustering(2, random_state=0).fit(np.concatenate([X, X[:20]]))
    weights = np.where(np.arange(60) < 20, 2.0, 1.0)
    weighed = GaussianBiclustering(2, random_state=0).fit(X, sample_weight=weights)
    assert weighed.log_likelihood_ == pytest.approx(twice.log_likelihood_, rel=1e-6)


def test_many_rows_are_compared_on_a_part_and_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(em_mixture, "_PART_ROWS", 150)
    monkeypatch.setattr(em_mixture, "_PART_NUMBERS", 0)
    X, y = blocks(8, N=600, gap=3)
    model = GaussianBiclustering(3, random_state=0).fit(X)
    assert len(model.starts_) == 1
    assert adjusted_rand_score(y, model.row_labels_) > 0.9


def test_n_init_draws_the_starts_again() -> None:
    X, _ = blocks(9)
    names = [name for name, *_ in GaussianBiclustering(3, n_init=2, random_state=0).fit(X).starts_]
    assert {name[:6] for name in names} == {"auto 1", "auto 2"}


def test_normal_scores_are_compared_only_where_columns_have_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    # Red without the condition, or with its sign turned.
    X, _ = blocks(8)
    asked: list[str] = []
    for name, table in (("plain", X), ("heavy", np.sinh(2 * X))):
        monkeypatch.setattr(auto_start, "by_ranks", lambda *rest, name=name: asked.append(name) or by_ranks(*rest))
        compared(table / table.std(axis=0), np.ones(len(table)), 3, np.random.RandomState(0))
    assert asked == ["heavy"]


def test_one_group_is_a_fallback_that_begins_after_its_regroup(monkeypatch: pytest.MonkeyPatch) -> None:
    # Red if one group is run to the end in every fit, or if it is compared before its regroup. On ionosphere BIC is
    # 15 850 where one group takes over by its regroup, and 16 950 where it does not.
    X, _ = blocks(4, gap=3)
    made: list[Any] = []
    monkeypatch.setattr(em_mixture, "auto", lambda *rest: made.extend(auto_start.auto(*rest)) or made)
    model = GaussianBiclustering(3, random_state=0).fit(X)
    assert [name.split(", ")[-1] for name, *_ in model.starts_] == ["rule"]
    one = next(start for start in made if start.name.endswith("one group"))
    assert one.most < np.inf
    assert [partition.n_groups for partition in one.begin().parameters.layout.partitions] == [2, 2, 2]
