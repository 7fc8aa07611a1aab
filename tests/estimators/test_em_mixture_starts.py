"""Starts of a fit: the best is kept, the seed decides, and a warm start goes on from the last fit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import oracles
import pytest
from fits import LABELS, STARTS, Fit, assert_same_mixture, quiet, table
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from strategies import Matrix

from blockmix import GaussianBiclustering
from blockmix.em.loop import Progress
from blockmix.grouping import RelaxedGrouping
from blockmix.starts.clusterings import distinct, start


def alone(X: Matrix, n_starts: int, **parameters: Any) -> list[GaussianBiclustering]:
    """The fits that several random starts with seed 0 make, one by one."""
    rng, G = np.random.RandomState(0), parameters["n_components"]
    standard, weights, place = distinct((X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(X)), G)
    return [quiet(X, init=start("random", standard, weights, G, rng)[place], **parameters) for _ in range(n_starts)]


def test_n_init_keeps_the_best_start_and_shows_all_of_them() -> None:
    X = table(apart=1.0)
    options = {"n_components": 4, "n_column_groups": 6}
    model = quiet(X, init="random", n_init=5, random_state=0, **options)
    expected = [fit.log_likelihood_trace_[-1] for fit in alone(X, 5, **options)]
    order = np.argsort(expected)[::-1]
    names, objectives, iterations = zip(*model.starts_, strict=True)
    assert list(names) == [f"random {i + 1}" for i in order]
    assert_allclose(objectives, np.array(expected)[order])
    assert objectives[0] == model.log_likelihood_trace_[-1]
    assert iterations[0] == model.n_iter_
    assert np.ptp(expected) > 1  # the starts differ, so that there is something to choose


def test_one_component_has_one_start() -> None:
    assert len(quiet(table(), n_components=1, init="portfolio", n_init=3, random_state=0).starts_) == 1


def test_the_forecast_of_an_annealed_start_does_not_outlive_it() -> None:
    model = quiet(table()[::16], n_components=2, init="annealed", random_state=0)
    assert model.critical_ratio_ >= 1
    assert not hasattr(model.set_params(init="kmeans").fit(table()), "critical_ratio_")


def test_starts_with_thin_components_come_last() -> None:
    # Red if the likelihood alone decides: a covariance of six columns from eight rows has too much of it.
    X = np.concatenate([table(), table(seed=1, n_rows=4) + 60])
    options = {"n_components": 3, "n_column_groups": 1}
    fits = alone(X, 8, **options)
    thin = [int((fit.weights_ * 88 <= 6 + 5).sum()) for fit in fits]
    order = sorted(range(8), key=lambda i: (thin[i], -fits[i].log_likelihood_trace_[-1]))
    model = quiet(X, init="random", n_init=8, random_state=0, **options)
    assert [name for name, _, _ in model.starts_] == [f"random {i + 1}" for i in order]
    objectives = [objective for _, objective, _ in model.starts_]
    assert objectives != sorted(objectives, reverse=True)  # thin ones do have higher objectives


@pytest.mark.parametrize("init", ["random", "portfolio"])
@pytest.mark.parametrize("n_jobs", [2, -1])
def test_n_jobs_changes_nothing(init: str, n_jobs: int) -> None:
    options = {"n_components": 3, "n_column_groups": 2, "n_init": 2, "init": init, "random_state": 0}
    alone, together = quiet(table(), **options), quiet(table(), n_jobs=n_jobs, **options)
    assert alone.starts_ == together.starts_
    assert_same_mixture(alone, together)


def test_a_portfolio_tries_every_kind_and_shows_them() -> None:
    model = quiet(table(), init="portfolio", random_state=0, max_iter=5)
    kinds = {name.split()[0] for name, _, _ in model.starts_}
    assert kinds == set(STARTS) - {"annealed"}
    objectives = [objective for _, objective, _ in model.starts_]
    assert objectives == sorted(objectives, reverse=True)
    assert max(iterations for _, _, iterations in model.starts_) <= 5
    wide = quiet(table()[::8], n_components=2, init="portfolio", random_state=0, max_iter=2)
    assert "annealed" not in {name.split()[0] for name, _, _ in wide.starts_}
    wide = quiet(table()[::16], n_components=2, init="portfolio", random_state=0, max_iter=2)
    assert "annealed" in {name.split()[0] for name, _, _ in wide.starts_}


@pytest.mark.parametrize("init", [*STARTS, "portfolio"])
def test_the_seed_decides(init: str) -> None:
    options = {"n_components": 3, "n_column_groups": 2, "init": init, "max_iter": 5}
    first, second = (quiet(table(), random_state=7, **options) for _ in range(2))
    assert np.array_equal(first.means_, second.means_)
    assert first.starts_ == second.starts_


def test_the_seed_is_handed_to_a_grouping_that_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    group = RelaxedGrouping.group

    def recorded(self: RelaxedGrouping, *arguments: Any) -> Any:
        asked.append(self.random_state)
        return group(self, *arguments)

    monkeypatch.setattr(RelaxedGrouping, "group", recorded)
    quiet(table(), n_column_groups=2, grouping="relaxed", random_state=11)
    assert set(asked) == {11}


def test_warm_start_continues_where_the_last_fit_ended() -> None:
    X = table(apart=1.0)
    options = {"n_column_groups": 1, "init": LABELS, "tol": 0.0}
    whole = quiet(X, max_iter=20, **options)
    model = Fit(2, warm_start=True, max_iter=8, **options)
    with pytest.warns(ConvergenceWarning):
        model.fit(X)
    first = model.log_likelihood_trace_
    model.set_params(max_iter=12)
    with pytest.warns(ConvergenceWarning):
        model.fit(X)
    assert_allclose(np.concatenate([first, model.log_likelihood_trace_]), whole.log_likelihood_trace_, rtol=1e-10)
    assert_allclose(model.means_, whole.means_, atol=1e-6)
    assert [name for name, _, _ in model.starts_] == ["warm"]
    model.set_params(warm_start=False)
    with pytest.warns(ConvergenceWarning):
        model.fit(X)
    assert [name for name, _, _ in model.starts_] == ["given"]


def test_warm_start_fits_other_rows_from_the_last_mixture() -> None:
    # The new rows have another place and scale. Red if the parameters are handed on in the units of the old ones.
    model = Fit(2, 2, init=LABELS, warm_start=True).fit(table())
    mixture = (model.weights_, model.means_, model.covariances_)
    new = table(seed=1) * 1.5 + 3
    begin = logsumexp(oracles.log_joint(new, *mixture), axis=1).sum()
    reported: list[Progress] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(new, callback=reported.append)
    assert reported[0].objective == pytest.approx(begin, rel=1e-4)  # but for the penalty of the ridge


@pytest.mark.parametrize(
    "change",
    [
        {"n_column_groups": 3},
        {"n_column_groups": [1, 4]},
        {"shared_covariance": True},
        {"n_components": 3},
        {"n_column_groups": "auto"},
        {"shared_covariance": True, "n_column_groups": 4},
    ],
)
def test_warm_start_follows_changed_parameters(change: dict[str, Any]) -> None:
    # Red if the last parameters are taken as they are: their groups would stay, for they are never worse.
    X = table()
    model = Fit(2, 1, random_state=0, warm_start=True).fit(X)
    last = model.log_likelihood_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.set_params(**change).fit(X)
    number = change.get("n_column_groups", 1)
    if not isinstance(number, str):
        expected = number if isinstance(number, list) else [number] * model.n_components
        assert model.n_column_groups_.tolist() == expected
    shared = change.get("shared_covariance", False)
    assert (model.blocks_[0] is model.blocks_[1]) == shared
    assert len(model.weights_) == change.get("n_components", 2)
    assert model.log_likelihood_ < last or change == {"n_components": 3}


@pytest.mark.parametrize(("first", "second"), [(np.float64, np.float32), (np.float32, np.float64)])
def test_warm_start_takes_the_type_of_the_new_rows(first: type, second: type) -> None:
    model = Fit(2, 2, init=LABELS, warm_start=True).fit(table().astype(first))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(table().astype(second))
    assert model.means_.dtype == model.covariances_.dtype == model.weights_.dtype == second


def test_warm_start_takes_a_new_start_for_other_columns() -> None:
    model = Fit(2, 2, random_state=0, warm_start=True).fit(table())
    assert model.fit(table()[:, :4]).starts_[0][0].startswith("auto 1: ")
    assert model.means_.shape == (2, 4)
