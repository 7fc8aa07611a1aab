"""Checkpoints: a fit that was killed resumes and ends with the same result; the file of another fit is refused."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from strategies import Matrix, block_rows

from blockmix import GaussianBiclustering, load
from blockmix.em.loop import Progress
from blockmix.estimators.stored import VALUES
from blockmix.files.archive import reading
from blockmix.files.values import unpack, write_object
from blockmix.grouping import Proposal
from blockmix.partition import Partition

SETTINGS: dict[str, Any] = {"n_components": 2, "random_state": 0, "tol": 1e-9, "max_iter": 500}


def table(seed: int = 0, n_rows: int = 300) -> Matrix:
    """Two clusters that lie so near to each other that EM takes its time."""
    rng = np.random.default_rng(seed)
    X = block_rows(rng, n_rows, Partition([0, 0, 0, 1, 1, 1]))
    X[: n_rows // 2] = block_rows(rng, n_rows // 2, Partition([0, 1, 0, 1, 0, 1])) + 0.3
    return X


def fitted(path: Path | None, X: Any = None, callback: Any = None, **other: Any) -> GaussianBiclustering:
    model = GaussianBiclustering(**{**SETTINGS, **other})
    return model.fit(table() if X is None else X, callback=callback, checkpoint=path)


def assert_equal_fit(a: GaussianBiclustering, b: GaussianBiclustering) -> None:
    """To the last bit."""
    for name in ("weights_", "means_", "covariances_", "log_likelihood_trace_", "row_labels_", "column_labels_"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name
    assert (a.log_likelihood_, a.outcome_, a.starts_) == (b.log_likelihood_, b.outcome_, b.starts_)


class Stopped(Exception):
    """Ends a fit where it is, as a lost connection would."""


def stopped(path: Path, iteration: int, start: str = "", **other: Any) -> None:
    def stop(progress: Progress) -> None:
        if progress.iteration == iteration and progress.start.startswith(start):
            raise Stopped

    with pytest.raises(Stopped):
        fitted(path, callback=stop, **other)


KILLED = """
import os, signal, sys
import numpy as np
from blockmix import GaussianBiclustering
from blockmix.files import archive, values

X, path, when, last = np.load(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
written = 0
write_archive = values.write_archive

def half(path, content, arrays):
    global written
    written += 1
    if when == "write" and written == last:
        with archive.replacing(path) as stream:
            stream.write(b"PK\\x03\\x04 half of a file")
            stream.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    write_archive(path, content, arrays)

def callback(progress):
    if when == "sweep" and progress.iteration == last:
        os.kill(os.getpid(), signal.SIGKILL)

values.write_archive = half
GaussianBiclustering(2, random_state=0, tol=1e-9, max_iter=500).fit(X, callback=callback, checkpoint=path)
"""


@pytest.mark.parametrize("when", ["sweep", "write"])
def test_a_killed_process_resumes_to_the_same_result(when: str, tmp_path: Path) -> None:
    data, path = tmp_path / "X.npy", tmp_path / "fit.checkpoint"
    np.save(data, table())
    for last in ("4", "7"):  # the second kill strikes the resumed fit
        child = subprocess.run([sys.executable, "-c", KILLED, data, path, when, last], capture_output=True, text=True)
        assert child.returncode == -signal.SIGKILL, child.stderr
    done = len(only(path).trace)
    assert done == (7 if when == "sweep" else 9)  # in the second process the seventh write is lost
    reported: list[Progress] = []
    assert_equal_fit(fitted(path, callback=reported.append), fitted(None))
    assert reported[0].iteration == done
    assert sorted(file.name for file in tmp_path.iterdir()) == ["X.npy"]  # nothing half-written is left


def only(path: Path) -> Any:
    """The state of the only start in a checkpoint."""
    with reading(path) as (content, arrays):
        (state,) = unpack(content["states"], arrays, VALUES).values()
    return state


@pytest.mark.parametrize(
    ("iteration", "setting"),
    [(0, {}), (12, {"X": table().astype(np.float32)}), (5, {"shared_covariance": True}), (5, {"n_column_groups": 2})],
)
def test_a_stopped_fit_resumes_from_any_iteration(iteration: int, setting: dict[str, Any], tmp_path: Path) -> None:
    path, expected = tmp_path / "fit", fitted(None, **setting)
    assert expected.n_iter_ > iteration + 1
    stopped(path, iteration, **setting)
    assert_equal_fit(fitted(path, **setting), expected)
    assert not path.exists()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_finished_starts_are_not_repeated(tmp_path: Path) -> None:
    path, setting = tmp_path / "fit", {"init": "kmeans", "n_init": 4, "max_iter": 40, "tol": 1e-12}
    expected, reported = fitted(None, **setting), list[Progress]()
    stopped(path, 4, "kmeans 3", **setting)
    assert_equal_fit(fitted(path, callback=reported.append, **setting), expected)
    assert 0 < len(reported) < sum(iterations for _, _, iterations in expected.starts_)


def test_an_interrupted_fit_keeps_its_file_and_resumes(tmp_path: Path) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.iteration == 9:
            raise KeyboardInterrupt

    path = tmp_path / "fit"
    with pytest.warns(match="interrupted after 10 iterations"):
        fitted(path, callback=interrupt)
    assert len(only(path).trace) == 9
    assert_equal_fit(fitted(path), fitted(None))


@pytest.mark.parametrize("setting", [{}, {"init": "kmeans", "n_init": 3}])
def test_a_fit_that_stopped_at_the_limit_resumes_with_a_higher_one(setting: dict[str, Any], tmp_path: Path) -> None:
    # Red if max_iter identified the fit, or if the file were removed at the limit.
    path, reported = tmp_path / "fit", list[Progress]()
    with pytest.warns(match="EM stopped at max_iter=20"):
        fitted(path, max_iter=20, tol=1e-12, **setting)
    moved = path.rename(tmp_path / "other")
    assert_equal_fit(fitted(moved, callback=reported.append, tol=1e-12, **setting), fitted(None, tol=1e-12, **setting))
    assert reported[0].iteration == 20
    assert not moved.exists()


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


def test_a_chunk_that_fails_leaves_the_checkpoint_intact(tmp_path: Path) -> None:
    X, path, passes = table(), tmp_path / "fit", iter(range(10**6))

    def chunks(healthy: bool) -> Iterator[Matrix]:
        broken = not healthy and next(passes) >= 9
        yield X[:100]
        if broken:
            raise OSError("the disk is gone")
        yield X[100:]

    with pytest.raises(ValueError, match=r"^chunk 1 of X"):
        fitted(path, lambda: chunks(False))
    assert 2 < len(only(path).trace) < 9
    assert_equal_fit(fitted(path, lambda: chunks(True)), fitted(None, lambda: chunks(True)))


def test_a_checkpoint_that_cannot_be_written_does_not_stop_the_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, calls = tmp_path / "fit", iter(range(10**6))
    with pytest.raises(FileNotFoundError, match=r"the folder of the checkpoint .* does not exist"):
        fitted(tmp_path / "nowhere" / "fit")

    def full(*values: Any) -> None:
        if next(calls) >= 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_object(*values)

    monkeypatch.setattr("blockmix.files.checkpoint.write_object", full)
    with pytest.warns(UserWarning, match="the checkpoint .*fit cannot be written .No space left") as caught:
        model = fitted(path)
    assert len(caught) == 1
    assert next(calls) > 10
    assert_equal_fit(model, fitted(None))


ANOTHER = "is the checkpoint of a fit"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"tol": 1e-3}, f"{ANOTHER} with tol=1e-09, this one has tol=0.001: give another checkpoint, or remove"),
        ({"random_state": 1}, f"{ANOTHER} with random_state=0, this one has random_state=1: give"),
        ({"init": np.arange(300) % 2}, f"{ANOTHER} with init='auto', this one has init=ndarray "),
        ({"X": table(n_rows=298)}, f"{ANOTHER} with rows=300, this one has rows=298: give"),
        ({"X": table()[:, :5]}, f"{ANOTHER} with columns=6, this one has columns=5: give"),
        ({"X": table() + np.eye(6)[2]}, rf"{ANOTHER} to other rows: column 2 has other values"),
        ({"X": table()[::-1].copy()}, rf"{ANOTHER} to other rows: column 0 has other values"),
        ({"X": table().astype(np.float32)}, f"{ANOTHER} with type=float64, this one has type=float32:"),
    ],
)
def test_a_checkpoint_of_another_fit_is_refused_and_kept(change: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "fit"
    stopped(path, 5)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"^.*/fit {sentence}"):
        fitted(path, **change)
    assert path.read_bytes() == before


def test_models_and_checkpoints_are_not_confused(tmp_path: Path) -> None:
    model, notes = tmp_path / "model", tmp_path / "notes"
    fitted(None).save(model)
    notes.write_text("my notes")
    with pytest.raises(ValueError, match=r"^.*/model holds a saved GaussianBiclustering: give another checkpoint"):
        fitted(model)
    with pytest.raises(ValueError, match="is not a saved model"):
        fitted(notes)
    assert notes.read_text() == "my notes"
    with pytest.raises(FileNotFoundError, match=r"the folder of .* does not exist: make it first"):
        fitted(tmp_path / "nowhere" / "fit")
    stopped(tmp_path / "fit", 5)
    with pytest.raises(ValueError, match=r"/fit is the checkpoint of an unfinished fit: give it as checkpoint= to"):
        load(tmp_path / "fit")
