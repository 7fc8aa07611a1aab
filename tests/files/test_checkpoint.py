"""Checkpoints: a fit that was killed goes on and ends with the same result; what is of another fit is refused."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from strategies import Matrix, block_rows

from blockmix import GaussianBiclustering, load
from blockmix.em.loop import LoopState, Progress, run
from blockmix.estimators.models import VALUES
from blockmix.files.archive import reading
from blockmix.files.values import unpacked
from blockmix.grouping import Proposal
from blockmix.partition import Partition
from blockmix.rows import ArrayRows

SETTINGS: dict[str, Any] = {"n_components": 2, "random_state": 0, "tol": 1e-9, "max_iter": 500}


def table(seed: int = 0, n_rows: int = 300) -> Matrix:
    """Two clusters that lie so near to each other that EM takes its time."""
    rng = np.random.default_rng(seed)
    X = block_rows(rng, n_rows, Partition([0, 0, 0, 1, 1, 1]))
    X[: n_rows // 2] = block_rows(rng, n_rows // 2, Partition([0, 1, 0, 1, 0, 1])) + 0.3
    return X


def fitted(path: Path | None, X: Any = None, callback: Any = None, **other: Any) -> GaussianBiclustering:
    model = GaussianBiclustering(**{**SETTINGS, **other}, checkpoint=path)
    return model.fit(table() if X is None else X, callback=callback)


def assert_equal_fit(a: GaussianBiclustering, b: GaussianBiclustering) -> None:
    """To the last bit."""
    for name in ("weights_", "means_", "covariances_", "log_likelihood_trace_", "row_labels_", "column_labels_"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name
    assert (a.log_likelihood_, a.outcome_, a.starts_) == (b.log_likelihood_, b.outcome_, b.starts_)


class Stopped(Exception):
    """Ends a fit where it is, as a lost connection would."""


def stop_at(iteration: int, start: str = "") -> Callable[[Progress], None]:
    def callback(progress: Progress) -> None:
        if progress.iteration == iteration and progress.start.startswith(start):
            raise Stopped

    return callback


def stopped(path: Path, iteration: int, start: str = "", **other: Any) -> None:
    with pytest.raises(Stopped):
        fitted(path, callback=stop_at(iteration, start), **other)


KILLED = """
import os, signal, sys
import numpy as np
from blockmix import GaussianBiclustering
from blockmix.files import archive, archive as atomic

X, path, when, at = np.load(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
written = 0
write = archive.write

def half(path, content, arrays):
    global written
    written += 1
    if when == "write" and written == at:
        with atomic.replacing(path) as stream:
            stream.write(b"PK\\x03\\x04 half of a file")
            stream.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    write(path, content, arrays)

def callback(progress):
    if when == "sweep" and progress.iteration == at:
        os.kill(os.getpid(), signal.SIGKILL)

archive.write = half
GaussianBiclustering(2, random_state=0, tol=1e-9, max_iter=500, checkpoint=path).fit(X, callback=callback)
"""


@pytest.mark.parametrize("when", ["sweep", "write"])
def test_a_killed_process_goes_on_to_the_same_result(when: str, tmp_path: Path) -> None:
    data, path = tmp_path / "X.npy", tmp_path / "fit.checkpoint"
    np.save(data, table())
    for at in ("4", "7"):  # the second kill strikes the resumed fit
        child = subprocess.run([sys.executable, "-c", KILLED, data, path, when, at], capture_output=True, text=True)
        assert child.returncode == -signal.SIGKILL, child.stderr
    done = len(only(path).trace)
    assert done == (7 if when == "sweep" else 9)  # in the second process the seventh write is lost
    heard: list[Progress] = []
    assert_equal_fit(fitted(path, callback=heard.append), fitted(None))
    assert heard[0].iteration == done
    assert sorted(file.name for file in tmp_path.iterdir()) == ["X.npy"]  # nothing half-written is left


def only(path: Path) -> Any:
    """The state of the only start in a checkpoint."""
    with reading(path) as (document, arrays):
        (state,) = unpacked(document["states"], arrays, VALUES).values()
    return state


@pytest.mark.parametrize("iteration", [0, 5, 12])
@pytest.mark.parametrize(
    "setting", [{}, {"shared_covariance": True}, {"n_column_groups": 2, "shrinkage": 0.1, "init": "kmeans"}]
)
def test_an_ended_fit_goes_on_from_any_iteration(iteration: int, setting: dict[str, Any], tmp_path: Path) -> None:
    path, expected = tmp_path / "fit", fitted(None, **setting)
    assert expected.n_iter_ > 12
    stopped(path, iteration, **setting)
    assert_equal_fit(fitted(path, **setting), expected)
    assert not path.exists()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("init", "start", "iteration", "n_jobs"),
    [("kmeans++", "kmeans++ 3", 4, 1), ("kmeans++", "kmeans++ 3", 4, 2), ("portfolio", "", 27, 2)],
)
def test_starts_that_were_done_are_not_done_again(
    init: str, start: str, iteration: int, n_jobs: int, tmp_path: Path
) -> None:
    path, setting = (
        tmp_path / "fit",
        {"init": init, "n_init": 4 if init == "kmeans++" else 1, "max_iter": 40, "tol": 1e-12},
    )
    expected = fitted(None, **setting)
    stopped(path, iteration, start, n_jobs=n_jobs, **setting)
    heard: list[Progress] = []
    assert_equal_fit(fitted(path, callback=heard.append, n_jobs=n_jobs, **setting), expected)
    assert 0 < len(heard) < sum(iterations for _, _, iterations in expected.starts_)


def test_a_fit_of_float32_rows_goes_on_to_the_same_result(tmp_path: Path) -> None:
    X = table().astype(np.float32)
    with pytest.raises(Stopped):
        fitted(tmp_path / "fit", X, stop_at(6))
    assert_equal_fit(fitted(tmp_path / "fit", X), fitted(None, X))


def test_an_interrupted_fit_keeps_its_file_and_goes_on(tmp_path: Path) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.iteration == 9:
            raise KeyboardInterrupt

    path = tmp_path / "fit"
    with pytest.warns(match="interrupted after 10 iterations"):
        fitted(path, callback=interrupt)
    assert len(only(path).trace) == 9
    assert_equal_fit(fitted(path), fitted(None))


@pytest.mark.parametrize(
    ("limit", "setting"), [(20, {}), (20, {"init": "kmeans++", "n_init": 3}), (27, {"init": "portfolio"})]
)
def test_more_iterations_resume_a_fit_that_stopped_at_the_limit(
    limit: int, setting: dict[str, Any], tmp_path: Path
) -> None:
    # Red if max_iter identified the fit, or if the file were removed at the limit.
    path, heard = tmp_path / "fit", list[Progress]()
    with pytest.warns(match=f"EM stopped at max_iter={limit}"):
        fitted(path, max_iter=limit, tol=1e-12, **setting)
    resumed = fitted(path, callback=heard.append, tol=1e-12, **setting)
    assert_equal_fit(resumed, fitted(None, tol=1e-12, **setting))
    assert heard[0].iteration == limit
    assert not path.exists()


def test_a_fit_with_a_grouping_of_the_user_resumes(tmp_path: Path) -> None:
    class Alternating:
        def __init__(self, shift: int) -> None:
            self.shift = shift

        def group(self, S: Matrix, n_groups: int, n_rows: float) -> Proposal:
            return Proposal(Partition((np.arange(len(S)) + self.shift) % n_groups))

    path, setting = tmp_path / "fit", {"n_column_groups": 2, "grouping": Alternating(1)}
    stopped(path, 3, **setting)
    with pytest.raises(ValueError, match="is the checkpoint of a fit with grouping=Alternating "):
        fitted(path, n_column_groups=2, grouping=Alternating(0))
    assert_equal_fit(fitted(path, **setting), fitted(None, **setting))


@pytest.mark.parametrize("fault", ["raises", "infinity", "columns"])
def test_a_chunk_that_fails_leaves_the_checkpoint_intact(fault: str, tmp_path: Path) -> None:
    X, path, passes = table(), tmp_path / "fit", iter(range(10**6))

    def chunks(healthy: bool) -> Iterator[Matrix]:
        broken = not healthy and next(passes) >= 9
        yield X[:100]
        if broken and fault == "raises":
            raise OSError("the disk is gone")
        rest = X[100:].copy()
        if broken and fault == "infinity":
            rest[3, 3] = np.inf
        yield rest[:, :5] if broken and fault == "columns" else rest

    with pytest.raises(ValueError, match=r"^chunk 1 of X"):
        fitted(path, lambda: chunks(False))
    assert 2 < len(only(path).trace) < 9
    assert_equal_fit(fitted(path, lambda: chunks(True)), fitted(None, lambda: chunks(True)))


# What is refused.


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"n_components": 3},
            "is the checkpoint of a fit with n_components=2, this one has n_components=3: give another",
        ),
        (
            {"tol": 1e-3},
            "is the checkpoint of a fit with tol=1e-09, this one has tol=0.001: give another checkpoint, or remove",
        ),
        ({"random_state": 1}, "is the checkpoint of a fit with random_state=0, this one has random_state=1: give"),
        ({"init": np.arange(300) % 2}, "is the checkpoint of a fit with init='auto', this one has init=ndarray "),
        ({"X": table(n_rows=298)}, "is the checkpoint of a fit with rows=300, this one has rows=298: give"),
        ({"X": table()[:, :5]}, "is the checkpoint of a fit with columns=6, this one has columns=5: give"),
        (
            {"X": table() + np.eye(6)[2]},
            r"is the checkpoint of a fit to other rows: column 2 had mean .*, here it has 1\.",
        ),
        (
            {"X": table().astype(np.float32)},
            "is the checkpoint of a fit with type=float64, this one has type=float32:",
        ),
    ],
)
def test_a_checkpoint_of_another_fit_is_refused_and_kept(change: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "fit"
    stopped(path, 5)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"^.*/fit {sentence}"):
        fitted(path, **change)
    assert path.read_bytes() == before


def test_what_does_not_change_the_result_may_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stopped(tmp_path / "fit", 5)
    moved = (tmp_path / "fit").rename(tmp_path / "other")
    assert_equal_fit(fitted(moved, verbose=2, n_jobs=2), fitted(None))
    assert "iteration 5" in capsys.readouterr().out


def test_a_file_that_is_no_checkpoint_is_refused_and_kept(tmp_path: Path) -> None:
    model, path = tmp_path / "model", tmp_path / "text"
    fitted(None).save(model)
    path.write_text("my notes")
    with pytest.raises(ValueError, match=r"^.*/model holds a saved GaussianBiclustering: give another checkpoint"):
        fitted(model)
    with pytest.raises(ValueError, match="is not a saved model"):
        fitted(path)
    assert path.read_text() == "my notes"
    with pytest.raises(FileNotFoundError, match=r"the folder of .* does not exist: make it first"):
        fitted(tmp_path / "nowhere" / "fit")
    with pytest.raises(ValueError, match=r"^checkpoint=3 must be None or the name of a file$"):
        fitted(3)  # type: ignore[arg-type]


def test_a_checkpoint_is_no_model(tmp_path: Path) -> None:
    stopped(tmp_path / "fit", 5)
    with pytest.raises(ValueError, match=r"/fit is the checkpoint of an unfinished fit: give it as checkpoint= to"):
        load(tmp_path / "fit")


def test_a_model_with_a_checkpoint_can_be_saved_and_cloned(tmp_path: Path) -> None:
    model = fitted(tmp_path / "fit")
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").checkpoint == str(tmp_path / "fit")
    assert clone(model).checkpoint == tmp_path / "fit"


def test_states_are_all_that_a_loop_depends_on() -> None:
    rows = ArrayRows.standardized(table())
    family = GaussianBiclustering(2, 2)._family(rows, np.ones(6))
    first = family.first(rows, np.repeat(np.eye(2), 150, axis=0))
    kept: list[Any] = []
    whole = run(family, rows, LoopState(first.parameters, family.loose(1e-6)), 1e-6, 100, save=kept.append)
    assert kept[-1].converged and not kept[-2].converged
    again = run(family, rows, kept[-1], 1e-6, 100, callback=lambda *_: pytest.fail("nothing was left to do"))
    assert (again.state.trace, again.outcome) == (whole.state.trace, whole.outcome)
