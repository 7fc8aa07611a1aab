"""How a fit ends: converged, at the iteration limit, degenerate or interrupted; and what is reported on the way."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from fits import LABELS, Fit, drawn, quiet, table
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning
from strategies import Matrix
from threadpoolctl import ThreadpoolController, threadpool_limits

from blockmix import GaussianBiclustering
from blockmix.em.block import BlockFamily
from blockmix.em.loop import Progress
from blockmix.estimators.fitting import FitWarning
from blockmix.starts import default


def test_the_iteration_limit_warns() -> None:
    with pytest.warns(ConvergenceWarning) as warned:
        model = Fit(2, 2, init=drawn(0), max_iter=1).fit(table())
    assert [str(one.message) for one in warned] == [
        "EM stopped at max_iter=1 before it converged: raise max_iter or tol"
    ]
    assert warned[0].filename == __file__  # the line that called fit, not ours
    assert model.outcome_ == "iteration limit"
    assert not model.converged_
    assert model.n_iter_ == 1


def test_a_component_with_too_few_rows_is_named() -> None:
    X = np.concatenate([table(), table(seed=1, n_rows=2) + 60])
    labels = np.repeat([0, 1, 2], [40, 40, 4])
    with pytest.warns(ConvergenceWarning) as warned:
        model = Fit(3, 1, init=labels).fit(X)
    assert [str(one.message) for one in warned] == [
        "component 2 has 4.0 rows for a block of 6 columns, so its covariance rests on the ridge: give shrinkage=0.1 "
        "or fewer components"
    ]
    assert model.outcome_ == "degenerate"
    assert np.isfinite(model.covariances_).all()
    # What the warning advises helps: these raise no warning, which would be an error.
    for advice in (
        {"shrinkage": 0.1},
        {"n_components": 2, "init": np.repeat([0, 1], [40, 44])},
    ):
        Fit(**{"n_components": 3, "n_column_groups": 1, "init": labels, **advice}).fit(X)


@pytest.mark.parametrize("rounding", [True, False])
def test_few_rows_of_rounded_values_do_not_rest_on_the_ridge(rounding: bool) -> None:
    # One row with values that others have too: its variances are those of the rounding, whatever the ridge.
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((60, 2)))
    X[-1] = [6, 6]
    labels = np.repeat([0, 1], [59, 1])
    likelihoods = []
    for ridge in (1e-6, 1e-12):
        with pytest.warns(FitWarning if rounding else ConvergenceWarning, match=r"^component 1 has 1\.0 rows"):
            model = Fit(2, 2, init=labels, rounding=rounding, ridge=ridge).fit(X)
        assert (model.outcome_ == "degenerate") is not rounding
        likelihoods.append(model.log_likelihood_)
    assert (abs(likelihoods[0] - likelihoods[1]) < 1e-3) is rounding


def with_a_third(left: float) -> Matrix:
    return np.column_stack([np.eye(2)[LABELS] * (1 - left), np.full(80, left)])


def test_a_component_without_rows_is_named_and_leaves_a_usable_mixture() -> None:
    X = table(apart=5.0)
    with pytest.warns(ConvergenceWarning) as warned:
        model = Fit(3, 2, init=with_a_third(1e-12)).fit(X)
    assert [str(one.message) for one in warned] == [
        "component 2 has lost all rows: fewer components or another start may fit better"
    ]
    assert model.outcome_ == "degenerate"
    assert model.weights_[2] < 1e-9
    for values in (model.predict_proba(X), model.covariances_, model.means_, model.score_samples(X)):
        assert np.isfinite(values).all()
    assert np.bincount(model.predict(X), minlength=3).tolist() == [40, 40, 0]
    assert model.sample(100)[1].max() == 1
    assert model.get_shape(4) == (0, 3) or model.get_shape(4)[0] == 0
    without = Fit(2, 2, init=LABELS).fit(X)
    assert model.log_likelihood_ == pytest.approx(without.log_likelihood_, rel=1e-5)


@pytest.mark.parametrize("sample_weight", [None, np.ones(80)])
def test_a_lost_component_is_restarted_at_the_row_of_least_density(sample_weight: Any) -> None:
    X = table(apart=5.0)
    X[17] += 300
    with pytest.warns(UserWarning) as warned:
        model = Fit(3, 6, shared_covariance=True, init=with_a_third(1e-3)).fit(X, sample_weight=sample_weight)
    assert [str(one.message) for one in warned] == [
        "component 2 had lost all rows and was restarted at row 17",
        "component 2 has 1.0 rows, too few to trust its covariance: ask for fewer components",
    ]
    assert np.flatnonzero(model.row_labels_ == 2).tolist() == [17]
    assert model.outcome_ == "converged"


def interrupt_at(count: int) -> Callable[[Progress], None]:
    reported: list[Progress] = []

    def callback(progress: Progress) -> None:
        reported.append(progress)
        if len(reported) == count:
            raise KeyboardInterrupt

    return callback


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"init": drawn(0, n_components=3)}, 1),
        ({"init": drawn(0, n_components=3)}, 6),
        ({"init": "kmeans", "n_init": 3}, 30),
        ({"init": "auto", "n_init": 2}, 3),
    ],
)
@pytest.mark.filterwarnings("ignore::blockmix.estimators.fitting.FitWarning")
def test_an_interrupt_leaves_a_usable_mixture(options: dict[str, Any], count: int) -> None:
    X = table(apart=1.0)
    model = Fit(3, 2, random_state=0, tol=1e-9, **options)
    with pytest.warns(ConvergenceWarning) as warned:
        model.fit(X, callback=interrupt_at(count))
    messages = [str(one.message) for one in warned]
    assert f"interrupted after {model.n_iter_} iterations: the best parameters so far are kept" in messages
    assert model.outcome_ == "interrupted"
    assert not model.converged_
    assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert model.log_likelihood_ == pytest.approx(model.score_samples(X).sum(), rel=1e-10)
    assert model.bic(X) > 0
    assert len(model.sample(5)[0]) == 5
    assert np.array_equal(model.predict(X), model.row_labels_)


class Interrupting(GaussianBiclustering):
    """Ctrl-C is pressed some times while the rows are being labelled."""

    times = 1

    def _scorer(self) -> Any:
        if self.times:
            self.times -= 1
            raise KeyboardInterrupt
        return super()._scorer()


def test_an_interrupt_while_the_rows_are_labelled_keeps_the_fit() -> None:
    X = table()
    with pytest.warns(ConvergenceWarning, match="interrupted after .* the best parameters so far are kept"):
        model = Interrupting(2, 2, init=LABELS).fit(X)
    whole = Fit(2, 2, init=LABELS).fit(X)
    assert model.outcome_ == "interrupted"  # so that `select` does not go on to the next candidate
    assert not model.converged_
    assert_allclose(model.log_likelihood_trace_, whole.log_likelihood_trace_)
    assert np.array_equal(model.row_labels_, whole.row_labels_)
    impatient = Interrupting(2, 2, init=LABELS)
    impatient.times = 2
    with pytest.raises(KeyboardInterrupt):
        impatient.fit(X)


def test_an_interrupt_while_a_part_of_the_rows_is_fitted_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    # Red if the fit goes on with all rows as if nothing had happened.
    monkeypatch.setattr(default, "_PART_ROWS", 40)
    monkeypatch.setattr(default, "_PART_NUMBERS", 0)
    sizes: list[int] = []
    sweep, last = BlockFamily.sweep, math.inf

    def interrupted(rows: Any, parameters: Any) -> Any:
        sizes.append(rows.n_rows)
        if len(sizes) == last:
            raise KeyboardInterrupt
        return sweep(rows, parameters)

    monkeypatch.setattr(BlockFamily, "sweep", staticmethod(interrupted))
    quiet(table(), random_state=0)
    last = sizes.count(40)  # sweeps of the part
    assert sizes[last:] == [80] * (len(sizes) - last)
    sizes.clear()
    with pytest.raises(KeyboardInterrupt):
        quiet(table(), random_state=0)
    assert sizes == [40] * last


def test_a_degenerate_mixture_that_was_interrupted_was_interrupted() -> None:
    X = np.concatenate([table(), table(seed=1, n_rows=2) + 60])
    with pytest.warns(ConvergenceWarning) as warned:
        model = Fit(3, 1, init=np.repeat([0, 1, 2], [40, 40, 4])).fit(X, callback=interrupt_at(2))
    assert len(warned) == 2
    assert model.outcome_ == "interrupted"


def test_a_callback_sees_the_trace_of_every_start() -> None:
    reported: list[Progress] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = Fit(3, 2, init="kmeans", n_init=3, random_state=0).fit(table(), callback=reported.append)
    winner = [progress for progress in reported if progress.start == model.starts_[0][0]]
    # Red if the objective of standardized columns is reported: the trace is in the units of the table.
    assert_allclose([progress.objective for progress in winner], model.log_likelihood_trace_)
    assert [progress.iteration for progress in winner] == list(range(model.n_iter_))
    for name, objective, iterations in model.starts_:
        own = [progress for progress in reported if progress.start == name]
        assert len(own) == iterations
        assert own[-1].objective == pytest.approx(objective)


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in ThreadpoolController().info() if library["user_api"] == "blas"}


@pytest.fixture
def two_blas_threads() -> Iterator[None]:
    with threadpool_limits(2, user_api="blas"):
        yield


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_has_one_thread_in_a_fit_and_its_own_number_afterwards() -> None:
    inside: list[set[int]] = []
    Fit(2, 2, init=LABELS).fit(table(), callback=lambda progress: inside.append(blas_threads()))
    assert inside[0] == {1}
    assert blas_threads() == {2}

    def refuse(progress: Progress) -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match=r"^no$"):
        Fit(2, 2, init=LABELS).fit(table(), callback=refuse)
    assert blas_threads() == {2}
    with pytest.raises(ValueError, match="has shape"):
        Fit(2, 2, init=LABELS[:-1]).fit(table())
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_blas_threads")
def test_fits_on_threads_leave_blas_as_it_was() -> None:
    # The first to begin is the first to end. Red if each fit restores what it found.
    both = threading.Barrier(2)
    ended = threading.Event()

    def fit(first: bool) -> None:
        def callback(progress: Progress) -> None:
            if progress.iteration == 0:
                both.wait(timeout=60)
                if not first:
                    assert ended.wait(timeout=60)

        Fit(2, 2, init=LABELS).fit(table(), callback=callback)
        ended.set()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(fit, (True, False)))
    assert blas_threads() == {2}
