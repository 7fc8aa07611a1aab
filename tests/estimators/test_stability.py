"""Stability: laws of the figures, agreement of the ways to resample, and what well-known tables show."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_wine

from blockmix import BlockDiagonalCovariance, GaussianBiclustering, Partition
from blockmix.estimators import resampling
from blockmix.estimators.stability import Stability, cluster_stability, column_stability


def blocks(n: int = 120, groups: int = 4, size: int = 3, seed: int = 0) -> np.ndarray:
    """Rows of independent groups of correlated columns."""
    rng = np.random.default_rng(seed)
    common = np.repeat(rng.standard_normal((n, groups)), size, axis=1)
    return rng.standard_normal((n, groups * size)) + 1.2 * common


X = blocks()
X[:60] += 4  # two clusters


def quiet(model: Any, rows: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(rows)


@cache
def mixture() -> GaussianBiclustering:
    return quiet(GaussianBiclustering(2, random_state=0), X)


MODELS: dict[str, Callable[[], Any]] = {
    "tails": lambda: GaussianBiclustering(2, tails="t", random_state=0),
    "shared": lambda: GaussianBiclustering(2, shared_covariance=True, random_state=0),
    "given": lambda: GaussianBiclustering(2, 4, random_state=0),
    "covariance": BlockDiagonalCovariance,
    "silhouette": lambda: BlockDiagonalCovariance("silhouette"),
}


@pytest.fixture(params=MODELS)
def fitted(request: pytest.FixtureRequest) -> tuple[Any, np.ndarray]:
    rows = blocks() if request.param == "covariance" else X
    return quiet(MODELS[request.param](), rows), rows


def measured(model: Any, rows: Any, n_resamples: int = 20, **given: Any) -> Stability:
    if isinstance(model, GaussianBiclustering):
        given = {"n_refits": 0, **given}
    found: Stability = model.stability(rows, n_resamples, random_state=1, **given)
    return found


def shares(found: Stability) -> list[tuple[Any, ...]]:
    return sorted((group.component, group.columns, group.again) for group in found.groups)


def test_a_group_comes_back_or_is_split_or_joined_and_the_model_stays(fitted: tuple[Any, np.ndarray]) -> None:
    model, rows = fitted
    before = {name: np.array(value, copy=True) for name, value in vars(model).items() if isinstance(value, np.ndarray)}
    found, p = measured(model, rows), rows.shape[1]
    assert found.groups
    for group in found.groups:
        assert group.again <= 1 - max(group.split, group.joined) + 1e-12
        assert group.again >= 1 - group.split - group.joined - 1e-12
    assert found.pairs.shape == (len(found.partitions), p, p)
    assert_allclose(found.pairs, found.pairs.swapaxes(1, 2))
    assert_allclose(found.pairs.diagonal(axis1=1, axis2=2), 1)
    assert ((found.columns >= 0) & (found.columns <= 1)).all()
    assert found.n_resamples == 20
    for name, value in before.items():
        assert_array_equal(getattr(model, name), value)


def test_groups_against_a_literal_count() -> None:
    resampled = [[Partition(labels)] for labels in ([0, 0, 0, 1, 1, 2], [0, 0, 1, 2, 2, 2], [0, 0, 0, 0, 1, 1])]
    found = column_stability([Partition([0, 0, 0, 1, 1, 2])], resampled, list("abcdef"))
    first, second = found.groups
    assert (first.columns, first.again, first.split, first.joined) == (("a", "b", "c"), 1 / 3, 1 / 3, 1 / 3)
    assert (second.columns, second.again, second.split, second.joined) == (("d", "e"), 1 / 3, 1 / 3, 2 / 3)
    assert (first.joined_with, first.weakest) == ("d", "c")
    assert (first.core, first.verdict) == (("a", "b"), "open") and first.together == pytest.approx(7 / 9)
    assert (second.core, second.verdict) == (("d",), "open")
    assert found.words(first) == "2 columns always together (a, b), c joins in 2 of 3 resamples"
    assert_allclose(found.columns[0], [1, 1, 2 / 3, 2 / 3, 1, 1])
    assert_allclose(found.pairs[0, 3], [1 / 3, 1 / 3, 1 / 3, 1, 2 / 3, 1 / 3])
    assert found.n_resamples == 3


def test_clusters_against_a_literal_count() -> None:
    labels = np.array([0, 0, 0, 1, 1, 1])
    z = np.array([[1, 0], [1, 0], [0.6, 0.4], [0, 1], [0, 1], [0.2, 0.8]])
    refits = [np.array([1, 1, 1, 0, 0, 0]), np.array([0, 0, 1, 1, 1, 1]), np.zeros(6, dtype=int)]
    (first, second), n_refits = cluster_stability(labels, z, refits)
    assert (first.component, first.rows, n_refits) == (0, 3, 3)
    assert_allclose([first.stability, first.dissolved], [(1 + 2 / 3 + 1 / 2) / 3, 1 / 3])
    assert_allclose([second.stability, second.dissolved], [(1 + 3 / 4 + 1 / 2) / 3, 1 / 3])
    assert_allclose([first.certainty, second.certainty], [2.6 / 3.2, 2.8 / 3.4])


@pytest.mark.parametrize(("tails", "missing"), [("normal", 0.05), ("t", 0.0)])
def test_buckets_of_one_row_are_the_rows(tails: str, missing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    # The same weights, once through sums of buckets and once through reweighted rows.
    rows = np.where(np.random.default_rng(0).random(X.shape) < missing, np.nan, X)
    model = quiet(GaussianBiclustering(2, tails=tails, random_state=0), rows)
    by_buckets = measured(model, rows)
    monkeypatch.setattr(resampling, "_NUMBERS", 1)
    by_rows = measured(model, rows)
    assert shares(by_buckets) == shares(by_rows)
    assert_allclose(by_buckets.pairs, by_rows.pairs)


def test_few_buckets_give_nearly_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    all_rows = measured(mixture(), X, 60)
    monkeypatch.setattr(resampling, "BUCKETS", 16)
    assert np.abs(measured(mixture(), X, 60).pairs - all_rows.pairs).mean() < 0.05


def test_order_and_units_of_the_columns_do_not_matter(fitted: tuple[Any, np.ndarray]) -> None:
    model, rows = fitted
    before, order = measured(model, rows), np.random.default_rng(0).permutation(rows.shape[1])
    changed = rows[:, order] * 10.0 ** np.arange(-3, rows.shape[1] - 3)
    after, place = measured(quiet(model, changed), changed), np.argsort(order)
    assert_allclose(after.pairs[:, place][:, :, place], before.pairs, atol=0.051)


def test_rows_of_a_unit_share_their_weight() -> None:
    # Each row ten times says no more than once: red if copies are reweighted apart.
    rows = 0.5 * blocks(n=30, seed=3) + np.random.default_rng(3).standard_normal((30, 12))
    once = measured(quiet(GaussianBiclustering(1, 4, common_factors=0), rows), rows)
    copies = np.repeat(rows, 10, axis=0)
    many = quiet(GaussianBiclustering(1, 4, common_factors=0), copies)
    by_unit, by_row = measured(many, copies, units=np.repeat(np.arange(30), 10)), measured(many, copies)
    assert_allclose(by_unit.pairs, once.pairs)
    assert np.abs(by_row.pairs - once.pairs).max() > 0.1


def test_weight_two_is_a_repeated_row() -> None:
    weights, units = np.r_[np.full(60, 2.0), np.ones(60)], np.r_[np.arange(60), np.arange(120)]
    weighted = measured(mixture(), X, sample_weight=weights, units=np.arange(120))
    assert shares(weighted) == shares(measured(mixture(), np.r_[X[:60], X], units=units))


def test_the_same_seed_gives_the_same_figures() -> None:
    one, other = (mixture().stability(X, 5, 3, random_state=7) for _ in range(2))
    assert (one.groups, one.clusters) == (other.groups, other.clusters)


@pytest.mark.parametrize(("n_groups", "p"), [(1, 12), (12, 12), (1, 1)])
def test_one_group_and_no_groups(n_groups: int, p: int) -> None:
    found = measured(quiet(GaussianBiclustering(1, n_groups), blocks()[:, :p]), blocks()[:, :p])
    assert [group.again for group in found.groups] == [1.0] * (n_groups < p)
    assert_allclose(found.columns, 1)


def test_two_rows_are_resampled() -> None:
    # Red if a sum of drawn weights may not be below the number of rows by rounding.
    assert len(BlockDiagonalCovariance(2).fit(X[:2]).stability(X[:2], 20, random_state=0).pairs) == 1


@pytest.mark.parametrize(
    ("rows", "given", "message"),
    [
        (X, {"n_resamples": 0}, "n_resamples=0 must be a whole number that is at least 1"),
        (X, {"n_refits": -1}, "n_refits=-1"),
        (X, {"units": [0, 1]}, r"units has shape \(2,\)"),
        (X, {"units": np.zeros(120)}, "all rows are of one unit"),
        (X, {"units": [None, "a"] * 60}, "units has missing values"),
        (X, {"units": [np.nan, 1.0] * 60}, "units has missing values"),
        (X[:10], {}, "X has 10 rows, but the model was fitted to 120"),
    ],
)
def test_bad_input_is_refused(rows: np.ndarray, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mixture().stability(rows, **given)


def test_a_file_is_as_good_as_an_array_without_refits(tmp_path: Path) -> None:
    path = str(tmp_path / "rows.npy")
    np.save(path, X)
    assert shares(measured(mixture(), path)) == shares(measured(mixture(), X))
    with pytest.raises(ValueError, match="n_refits=25 needs rows in memory: give n_refits=0"):
        mixture().stability(path)


@pytest.mark.parametrize(("last", "n_resamples", "n_refits"), [(3, 3, 0), (7, 5, 2)])
def test_an_interrupt_keeps_what_is_done(last: int, n_resamples: int, n_refits: int) -> None:
    def stop(done: int, total: int) -> None:
        assert total == 14
        if done == last:
            raise KeyboardInterrupt

    found = mixture().stability(X, 5, 9, random_state=0, callback=stop)
    assert (found.n_resamples, found.n_refits, found.clusters is None) == (n_resamples, n_refits, n_refits == 0)


@pytest.mark.parametrize(("last", "n_refits"), [(1, 0), (5, 2)])
def test_an_interrupt_within_a_refit_ends_the_refits(last: int, n_refits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # A fit catches the interrupt itself and returns what it has; red if that counts as a refit.
    model, honest, starts = quiet(GaussianBiclustering(2, n_init=3, random_state=0), X), GaussianBiclustering.fit, []

    def fit(self: GaussianBiclustering, *given: Any, **named: Any) -> Any:
        starts.append(self.n_init if isinstance(self.init, str) else 0)
        honest(self, *given, **named)
        self.outcome_ = "interrupted" if len(starts) == last else self.outcome_
        return self

    monkeypatch.setattr(GaussianBiclustering, "fit", fit)
    found = model.stability(X, 2, 9, random_state=0)
    assert (found.n_resamples, found.n_refits) == (2, n_refits)
    # Each refit starts once from the fitted clusters, and as often afresh as the fit: with fewer fresh starts, the best
    # of many would seem stable because refits search less thoroughly.
    assert starts == [0, 3] * (n_refits + 1)


def test_independent_columns_have_no_firm_group_and_blocks_have() -> None:
    firm = 0
    for seed in range(10):
        rows = np.random.default_rng(seed).standard_normal((60, 15))
        for model in (GaussianBiclustering(1), BlockDiagonalCovariance()):
            firm += any(group.verdict == "firm" for group in measured(quiet(model, rows), rows, 30).groups)
    assert firm <= 1
    wide = blocks(n=100, groups=20, size=10)
    assert measured(quiet(BlockDiagonalCovariance(), wide), wide, 10).columns.mean() > 0.8


def test_wine_has_three_clusters_that_come_back() -> None:
    rows = load_wine(as_frame=True).data
    found = quiet(GaussianBiclustering(3, random_state=0), rows).stability(rows, 10, 10, random_state=0)
    assert min(cluster.stability for cluster in found.clusters) > 0.9
    assert "10 resamples" in str(found) and "total_phenols joins in" in str(found)
    assert len(found.clusters_to_frame()) == 3
    assert found.to_frame()["again"].between(0, 1).all()
