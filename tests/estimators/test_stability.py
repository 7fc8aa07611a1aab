"""Stability: laws of the figures, agreement of the ways to weigh rows, and what well-known tables show."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_wine

from blockmix import (
    BlockDiagonalCovariance,
    FactorBiclustering,
    GaussianBiclustering,
    Partition,
    TopicBiclustering,
)
from blockmix.em import resampling
from blockmix.estimators.resampling import cluster_stability, column_stability
from blockmix.estimators.stability import Stability


def blocks(n: int = 120, groups: int = 4, size: int = 3, seed: int = 0) -> np.ndarray:
    """Rows of independent groups of correlated columns."""
    rng = np.random.default_rng(seed)
    common = np.repeat(rng.standard_normal((n, groups)), size, axis=1)
    return rng.standard_normal((n, groups * size)) + 1.2 * common


def two_clusters(seed: int = 0) -> np.ndarray:
    X = blocks(seed=seed)
    X[:60] += 4
    return X


def quiet(model: Any, X: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X)


def shares(found: Stability) -> list[tuple[Any, ...]]:
    return sorted((group.component, group.columns, group.again) for group in found.groups)


MODELS = {
    "tails": GaussianBiclustering(2, tails="t", random_state=0),
    "mixture": GaussianBiclustering(2, random_state=0),
    "shared": GaussianBiclustering(2, shared_covariance=True, random_state=0),
    "given": GaussianBiclustering(2, 4, random_state=0),
    "covariance": BlockDiagonalCovariance(),
    "silhouette": BlockDiagonalCovariance("silhouette"),
}


@pytest.fixture(params=MODELS)
def fitted(request: pytest.FixtureRequest) -> tuple[Any, np.ndarray]:
    X = two_clusters() if "co" not in request.param[:2] else blocks()
    return quiet(MODELS[request.param], X), X


def measured(model: Any, X: Any, n_resamples: int = 20, **given: Any) -> Stability:
    if isinstance(model, GaussianBiclustering):
        given = {"n_refits": 0, **given}
    found: Stability = model.stability(X, n_resamples, random_state=1, **given)
    return found


# Laws


def test_a_group_comes_back_or_is_split_or_joined(fitted: tuple[Any, np.ndarray]) -> None:
    model, X = fitted
    found = measured(model, X)
    assert found.groups
    for group in found.groups:
        assert group.again <= 1 - max(group.split, group.joined) + 1e-12
        assert group.again >= 1 - group.split - group.joined - 1e-12
    p = X.shape[1]
    assert found.pairs.shape == (len(found.partitions), p, p)
    assert_allclose(found.pairs, found.pairs.swapaxes(1, 2))
    assert_allclose(found.pairs.diagonal(axis1=1, axis2=2), 1)
    assert ((found.columns >= 0) & (found.columns <= 1)).all()
    assert found.n_groups.shape == (len(found.partitions), 20)


def test_figures_against_a_literal_count() -> None:
    fitted = Partition([0, 0, 0, 1, 1, 2])
    resampled = [[Partition(labels)] for labels in ([0, 0, 0, 1, 1, 2], [0, 0, 1, 2, 2, 2], [0, 0, 0, 0, 1, 1])]
    found = column_stability([fitted], resampled, list("abcdef"), lambda: None)
    first, second = found.groups
    assert (first.columns, first.again, first.split, first.joined) == (("a", "b", "c"), 1 / 3, 1 / 3, 1 / 3)
    assert (second.columns, second.again, second.split, second.joined) == (("d", "e"), 1 / 3, 1 / 3, 2 / 3)
    assert first.joined_with == "d"
    assert first.weakest == "c"
    assert_allclose(found.columns[0], [1, 1, 2 / 3, 2 / 3, 1, 1])
    assert_allclose(found.pairs[0, 3], [1 / 3, 1 / 3, 1 / 3, 1, 2 / 3, 1 / 3])
    assert found.n_groups.tolist() == [[2, 2, 2]]


def test_clusters_against_a_literal_count() -> None:
    labels = np.array([0, 0, 0, 1, 1, 1])
    z = np.array([[1, 0], [1, 0], [0.6, 0.4], [0, 1], [0, 1], [0.2, 0.8]])
    refits = [np.array([1, 1, 1, 0, 0, 0]), np.array([0, 0, 1, 1, 1, 1]), np.zeros(6, dtype=int)]
    first, second = cluster_stability(labels, z, refits)
    assert_allclose([first.stability, first.dissolved], [(1 + 2 / 3 + 1 / 2) / 3, 1 / 3])
    assert_allclose([second.stability, second.dissolved], [(1 + 3 / 4 + 1 / 2) / 3, 1 / 3])
    assert_allclose([first.certainty, second.certainty], [2.6 / 3.2, 2.8 / 3.4])


@pytest.mark.parametrize("tails", ["normal", "t"])
@pytest.mark.parametrize("gaps", [False, True])
def test_buckets_of_one_row_are_the_rows(tails: str, gaps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # The same weights, once through sums of buckets and once through weighed rows.
    X = two_clusters()
    X[np.random.default_rng(0).random(X.shape) < 0.05 * gaps] = np.nan
    model = quiet(GaussianBiclustering(2, tails=tails, random_state=0), X)
    by_buckets = measured(model, X)
    monkeypatch.setattr(resampling, "_NUMBERS", 1)
    by_rows = measured(model, X)
    assert shares(by_buckets) == shares(by_rows)
    assert_allclose(by_buckets.pairs, by_rows.pairs)


@pytest.mark.parametrize("n_buckets", [16, 64])
def test_few_buckets_tell_much_the_same(n_buckets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X = two_clusters()
    model = quiet(GaussianBiclustering(2, random_state=0), X)
    all_rows = measured(model, X, 60)
    monkeypatch.setattr(resampling, "BUCKETS", n_buckets)
    assert np.abs(measured(model, X, 60).pairs - all_rows.pairs).mean() < 0.05


def test_a_file_is_as_good_as_an_array(tmp_path: Path) -> None:
    X = two_clusters()
    np.save(tmp_path / "rows.npy", X)
    model = quiet(GaussianBiclustering(2, random_state=0), X)
    assert shares(measured(model, str(tmp_path / "rows.npy"))) == shares(measured(model, X))


def test_order_and_units_of_the_columns_do_not_matter(fitted: tuple[Any, np.ndarray]) -> None:
    model, X = fitted
    order = np.random.default_rng(0).permutation(X.shape[1])
    scale = 10.0 ** np.arange(-3, X.shape[1] - 3)
    there = quiet(model, X)
    before = measured(there, X)
    again = quiet(model, X[:, order] * scale)
    after = measured(again, X[:, order] * scale)
    place = np.argsort(order)
    assert_allclose(after.pairs[:, place][:, :, place], before.pairs, atol=0.051)


def test_rows_of_a_unit_share_their_weight() -> None:
    # Each row ten times says no more than once: red if copies are weighed apart.
    X, n_groups = 0.5 * blocks(n=30, seed=3) + np.random.default_rng(3).standard_normal((30, 12)), 4
    once = measured(quiet(GaussianBiclustering(1, n_groups), X), X)
    copies = np.repeat(X, 10, axis=0)
    many = quiet(GaussianBiclustering(1, n_groups), copies)
    by_unit, by_row = measured(many, copies, units=np.repeat(np.arange(30), 10)), measured(many, copies)
    assert_allclose(by_unit.pairs, once.pairs)
    assert np.abs(by_row.pairs - once.pairs).max() > 0.1


def test_weights_are_those_of_rows_that_are_repeated() -> None:
    X = two_clusters()
    model = quiet(GaussianBiclustering(2, random_state=0), X)
    weights = np.r_[np.full(60, 2.0), np.ones(60)]
    twice, units = np.r_[X[:60], X], np.r_[np.arange(60), np.arange(120)]
    weighed = measured(model, X, sample_weight=weights, units=np.arange(120))
    repeated = measured(model, twice, units=units)
    assert shares(weighed) == shares(repeated)


def test_the_model_is_not_changed(fitted: tuple[Any, np.ndarray]) -> None:
    model, X = fitted
    before = {name: np.array(value, copy=True) for name, value in vars(model).items() if isinstance(value, np.ndarray)}
    measured(model, X)
    if isinstance(model, GaussianBiclustering):
        model.stability(X, 1, 1, random_state=0)
    for name, value in before.items():
        assert_array_equal(getattr(model, name), value)


def test_the_same_seed_gives_the_same_figures() -> None:
    X = two_clusters()
    model = quiet(GaussianBiclustering(2, random_state=0), X)
    one, other = (model.stability(X, 5, 3, random_state=7) for _ in range(2))
    assert one.groups == other.groups
    assert one.clusters == other.clusters


# Corners


@pytest.mark.parametrize("n_groups", [1, 12])
def test_one_group_and_no_groups(n_groups: int) -> None:
    X = blocks()
    found = measured(quiet(GaussianBiclustering(1, n_groups), X), X)
    assert [group.again for group in found.groups] == [1.0] * (n_groups == 1)
    assert_allclose(found.columns, 1)


def test_a_single_column() -> None:
    X = np.random.default_rng(0).standard_normal((50, 1))
    found = measured(quiet(GaussianBiclustering(1), X), X)
    assert found.groups == ()
    assert_allclose(found.pairs, 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n_resamples": 0}, "n_resamples=0 must be a whole number that is at least 1"),
        ({"n_refits": -1}, "n_refits=-1"),
        ({"units": [0, 1]}, r"units has shape \(2,\)"),
        ({"units": np.zeros(120)}, "all rows are of one unit"),
        ({"units": [None, "a"] * 60}, "units has missing values"),
        ({"units": [np.nan, 1.0] * 60}, "units has missing values"),
    ],
)
def test_bad_input_is_refused(given: dict[str, Any], message: str) -> None:
    X = two_clusters()
    model = quiet(GaussianBiclustering(2, random_state=0), X)
    with pytest.raises(ValueError, match=message):
        model.stability(X, **given)


def test_refits_need_the_rows_of_the_fit() -> None:
    # Red if clusters of 120 rows are compared with those of ten.
    X = two_clusters()
    model = quiet(GaussianBiclustering(2, random_state=0), X)
    with pytest.raises(ValueError, match="X has 10 rows, but the model was fitted to 120"):
        model.stability(X[:10], 2, 2)
    assert model.stability(X[:10], 2, 0, random_state=0).n_resamples == 2


def test_refits_need_rows_in_memory(tmp_path: Path) -> None:
    X = two_clusters()
    np.save(tmp_path / "rows.npy", X)
    model = quiet(GaussianBiclustering(2, random_state=0), X)
    with pytest.raises(ValueError, match="n_refits=25 needs rows in memory: give n_refits=0"):
        model.stability(str(tmp_path / "rows.npy"))


def test_an_interrupt_keeps_what_is_done() -> None:
    X = two_clusters()
    model = quiet(GaussianBiclustering(2, random_state=0), X)

    def stop(done: int, total: int) -> None:
        assert total == 50
        if done == 7:
            raise KeyboardInterrupt

    found = model.stability(X, 50, 0, random_state=0, callback=stop)
    assert found.n_resamples == 7


def test_an_interrupt_of_the_columns_ends_it_all() -> None:
    # Red if the refits begin after Ctrl-C.
    X = two_clusters()
    model = quiet(GaussianBiclustering(2, random_state=0), X)

    def stop(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    found = model.stability(X, 10, 5, random_state=0, callback=stop)
    assert (found.n_resamples, found.n_refits, found.clusters) == (3, 0, None)


def test_an_interrupt_of_the_refits_keeps_those_that_are_done() -> None:
    X = two_clusters()
    model = quiet(GaussianBiclustering(2, random_state=0), X)

    def stop(done: int, total: int) -> None:
        if done == 7:
            raise KeyboardInterrupt

    found = model.stability(X, 5, 9, random_state=0, callback=stop)
    assert (found.n_resamples, found.n_refits) == (5, 2)
    assert found.clusters is not None


def test_an_interrupt_of_the_first_refit_keeps_the_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    X = two_clusters()
    model = quiet(GaussianBiclustering(2, random_state=0), X)

    def fit(*given: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(GaussianBiclustering, "fit", fit)
    found = model.stability(X, 4, 9, random_state=0)
    assert (found.n_resamples, found.n_refits, found.clusters) == (4, 0, None)


def test_refits_have_as_many_fresh_starts_as_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    # With fewer, the best of many starts would seem stable because refits look for others less thoroughly.
    X = two_clusters()
    model = quiet(GaussianBiclustering(2, n_init=3, random_state=0), X)
    honest, starts = GaussianBiclustering.fit, []

    def fit(self: GaussianBiclustering, *given: Any, **named: Any) -> Any:
        starts.append(0 if self.warm_start else self.n_init)
        return honest(self, *given, **named)

    monkeypatch.setattr(GaussianBiclustering, "fit", fit)
    model.stability(X, 1, 2, random_state=0)
    assert sorted(starts) == [0, 0, 3, 3]


def test_an_interrupt_within_a_refit_ends_the_refits(monkeypatch: pytest.MonkeyPatch) -> None:
    # A fit catches the interrupt itself and answers with what it has; red if that answer counts as a refit.
    X = two_clusters()
    model = quiet(GaussianBiclustering(2, random_state=0), X)
    honest, fits = GaussianBiclustering.fit, []

    def fit(self: GaussianBiclustering, *given: Any, **named: Any) -> Any:
        fits.append(1)
        honest(self, *given, **named)
        if len(fits) == 5:
            self.outcome_ = "interrupted"
        return self

    monkeypatch.setattr(GaussianBiclustering, "fit", fit)
    found = model.stability(X, 2, 9, random_state=0)
    assert found.n_refits == 2
    assert len(fits) == 6


def test_factors_are_refused_by_name() -> None:
    X = two_clusters()
    model = quiet(FactorBiclustering(2, 2, random_state=0), X)
    with pytest.raises(ValueError, match=r"^the column groups of FactorBiclustering follow from its factors"):
        model.stability(X)


def test_terms_are_named_and_documents_without_any_are_left_out() -> None:
    rng = np.random.default_rng(0)
    themes = [["sea", "beach", "sand"], ["train", "rail", "ticket"], ["wine", "cheese", "bread"]]
    texts = [" ".join(rng.choice(themes[i % 3], 8)) for i in range(120)]
    model = TopicBiclustering(2, 3, max_terms=9, n_selected_terms=9, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(texts)
        found = model.stability([*texts, "nothing of this"], 10, random_state=0)
    assert {name for group in found.groups for name in group.columns} <= set(model.terms_)
    assert found.clusters is None


@pytest.mark.parametrize("tails", ["normal", "t"])
def test_single_precision_tells_the_same(tails: str) -> None:
    X = two_clusters()
    wide, narrow = (
        measured(quiet(GaussianBiclustering(2, tails=tails, random_state=0), rows), rows)
        for rows in (X.astype(np.float32).astype(float), X.astype(np.float32))
    )
    assert_allclose(narrow.pairs, wide.pairs, atol=0.051)


# What the figures say


def test_independent_columns_have_no_firm_group() -> None:
    firm = 0
    for seed in range(10):
        X = np.random.default_rng(seed).standard_normal((60, 15))
        for model in (GaussianBiclustering(1), BlockDiagonalCovariance()):
            firm += any(group.again >= 0.9 for group in measured(quiet(model, X), X, 30).groups)
    assert firm <= 1


def test_wide_tables_do_not_collapse() -> None:
    # Red if a test against chance is told all rows: it merges nearly everything.
    X = blocks(n=100, groups=20, size=10)
    found = measured(quiet(BlockDiagonalCovariance(), X), X, 10)
    assert found.columns.mean() > 0.8


def test_wine_has_three_clusters_that_come_back() -> None:
    data = load_wine(as_frame=True)
    model = quiet(GaussianBiclustering(3, random_state=0), data.data)
    found = model.stability(data.data, 10, 10, random_state=0)
    assert found.clusters is not None
    assert min(cluster.stability for cluster in found.clusters) > 0.9
    text = str(found)
    assert "10 resamples" in text
    assert "alcohol" in text
    assert len(found.clusters_to_frame()) == 3
    assert found.to_frame()["again"].between(0, 1).all()
