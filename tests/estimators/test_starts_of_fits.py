"""Starts of a fit: the best is kept, and the seed decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fits import LABELS, STARTS, Fit, quiet, table
from numpy.testing import assert_allclose

from blockmix.grouping import RelaxedGrouping
from blockmix.starts.clusterings import distinct, kmeans


def test_n_init_keeps_the_best_start_and_shows_all_of_them() -> None:
    X, rng = table(apart=0.5), np.random.RandomState(0)
    options: dict[str, Any] = {"n_components": 5, "n_column_groups": 6}
    model = quiet(X, init="kmeans", n_init=5, random_state=0, **options)
    standard, weights, place = distinct((X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(X)), 5)
    clusterings = [kmeans(standard, weights, 5, rng)[place] for _ in range(5)]
    expected = [quiet(X, init=z, **options).log_likelihood_trace_[-1] for z in clusterings]
    names, objectives, iterations = zip(*model.starts_, strict=True)
    assert sorted(names) == [f"kmeans {i}" for i in range(1, 6)]
    assert_allclose(np.sort(objectives), np.sort(expected), rtol=1e-9)  # thin ones come last
    assert objectives[0] == model.log_likelihood_trace_[-1]
    assert iterations[0] == model.n_iter_
    assert np.ptp(expected) > 1  # the starts differ, so that there is something to choose


def test_one_component_has_one_start() -> None:
    assert len(quiet(table(), n_components=1, n_init=3, random_state=0).starts_) == 1


@pytest.mark.parametrize("init", STARTS)
def test_the_seed_decides(init: str) -> None:
    options = {"n_components": 3, "n_column_groups": 2, "init": init, "max_iter": 5}
    first, second = (quiet(table(), random_state=7, **options) for _ in range(2))
    assert np.array_equal(first.means_, second.means_)
    assert first.starts_ == second.starts_


def test_the_seed_is_handed_to_a_grouping_that_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = []
    group = RelaxedGrouping.group

    def recorded(self: RelaxedGrouping, *arguments: Any) -> Any:
        seeds.append(self.random_state)
        return group(self, *arguments)

    monkeypatch.setattr(RelaxedGrouping, "group", recorded)
    quiet(table(), n_column_groups=2, grouping="relaxed", random_state=11)
    assert set(seeds) == {11}


@pytest.mark.parametrize("init", ["random", "portfolio", "kmeans++"])
def test_other_names_are_refused(init: str) -> None:
    with pytest.raises(ValueError, match=f"init='{init.replace('+', '.')}' must be auto, kmeans, or an array"):
        Fit(2, init=init).fit(table())


def test_a_fit_goes_on_from_the_probabilities_of_another() -> None:
    # What warm starts are for elsewhere.
    first = quiet(table(), n_column_groups=2, init=LABELS)
    again = quiet(table(), n_column_groups=2, init=first.predict_proba(table()))
    assert again.log_likelihood_ >= first.log_likelihood_ - 1e-3
    assert again.n_iter_ <= first.n_iter_
