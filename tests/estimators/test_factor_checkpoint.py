"""Checkpoints of FactorBiclustering: a fit that was stopped goes on to the same result."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from factors import factor_rows, quiet
from numpy.testing import assert_array_equal
from strategies import Matrix

from blockmix import FactorBiclustering, GroupingWarning
from blockmix.em.loop import Progress


class Stopped(Exception):
    """Ends a fit where it is, as a lost connection would."""


def stopped(path: Path, X: Matrix, iteration: int, start: str = "", **given: Any) -> None:
    def callback(progress: Progress) -> None:
        if progress.iteration == iteration and progress.start.startswith(start):
            raise Stopped

    with warnings.catch_warnings(), pytest.raises(Stopped):
        warnings.simplefilter("ignore", GroupingWarning)
        FactorBiclustering(checkpoint=path, **given).fit(X, callback=callback)


def assert_equal_fit(a: FactorBiclustering, b: FactorBiclustering) -> None:
    """To the last bit."""
    names = ("weights_", "means_", "factor_variances_", "noise_variances_", "column_labels_", "row_labels_")
    for name in (*names, "log_likelihood_trace_"):
        assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert (a.log_likelihood_, a.outcome_, a.starts_) == (b.log_likelihood_, b.outcome_, b.starts_)


@pytest.mark.parametrize("iteration", [0, 4, 12])
@pytest.mark.parametrize("letters", ["UCUU", "UUUU", "CCUC", "UIUU"])
def test_a_stopped_fit_goes_on_from_its_checkpoint_to_the_same_result(
    letters: str, iteration: int, tmp_path: Path
) -> None:
    # Red if the cuts that were tried are forgotten, or a state is saved with half of a step.
    X, path = factor_rows(22, apart=0.3), tmp_path / "fit"
    given: dict[str, Any] = {"n_components": 2, "n_column_groups": 3, "model": letters, "random_state": 0, "tol": 1e-9}
    expected = quiet(X, **given)
    assert expected.n_iter_ > 13
    stopped(path, X, iteration, **given)
    assert path.exists() == (iteration > 0)  # it is written after each iteration
    assert_equal_fit(quiet(X, checkpoint=path, **given), expected)
    assert path.exists() == (expected.outcome_ == "iteration limit")  # it can go on with a higher max_iter


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(("init", "start", "iteration"), [("kmeans++", "kmeans++ 3", 4), ("portfolio", "", 27)])
def test_a_stopped_multistart_goes_on_and_repeats_no_iteration(
    init: str, start: str, iteration: int, n_jobs: int, tmp_path: Path
) -> None:
    X, path = factor_rows(22, apart=0.3), tmp_path / "fit"
    given: dict[str, Any] = {"n_components": 2, "n_column_groups": 3, "random_state": 0, "tol": 1e-12, "max_iter": 40}
    given |= {"init": init, "n_init": 4 if init == "kmeans++" else 1}
    expected = quiet(X, **given)
    stopped(path, X, iteration, start, n_jobs=n_jobs, **given)
    reported: list[Progress] = []
    model = FactorBiclustering(checkpoint=path, n_jobs=n_jobs, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, callback=reported.append)
    assert_equal_fit(model, expected)
    assert 0 < len(reported) < sum(iterations for _, _, iterations in expected.starts_)
    assert len({(progress.start, progress.iteration) for progress in reported}) == len(reported)


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    X, path = factor_rows(22, apart=0.3), tmp_path / "fit"
    stopped(path, X, 3, n_components=2, random_state=0)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"this one has n_column_groups=3: give another checkpoint"):
        FactorBiclustering(2, 3, random_state=0, checkpoint=path).fit(X)
    assert path.read_bytes() == before
