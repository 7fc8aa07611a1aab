"""Dask: the fit of a collection is that of its rows in memory, on threads and on a cluster, whichever workers die."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from missing import with_missing
from optional import package
from sources import NAMES, as_npy, as_parquet, assert_same_fit, table
from threadpoolctl import threadpool_info

from blockmix import GaussianBiclustering
from blockmix.em.loop import Progress
from blockmix.rows import opened

dask = package("dask")
da = package("dask.array")
dd = package("dask.dataframe")
distributed = package("distributed")

SETTINGS: dict[str, Any] = {"n_components": 2, "random_state": 0, "tol": 1e-8, "max_iter": 100}


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A cluster of two processes with one thread each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a port that is taken, and the like
        cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
        client = distributed.Client(cluster, set_as_default=False)
    yield client
    client.close()
    cluster.close()


def as_array(X: Any, size: int = 90) -> Any:
    return da.from_array(X, chunks=(size, 4))  # blocks of columns, too


def as_frame(X: Any) -> Any:
    return dd.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=5)


def unknown_lengths(X: Any) -> Any:
    array = da.concatenate([as_array(X), as_array(X + 1000)])
    return array[array[:, 0] < 500]  # and so some blocks without rows


COLLECTIONS = {"array": as_array, "frame": as_frame, "unknown lengths": unknown_lengths}


@pytest.mark.parametrize("kind", COLLECTIONS)
def test_a_fit_on_threads_is_the_fit_in_memory(kind: str) -> None:
    X = table()
    for setting in ({}, {"shared_covariance": True}):
        expected = GaussianBiclustering(**SETTINGS, **setting).fit(X)
        with dask.config.set(scheduler="threads"):
            model = GaussianBiclustering(**SETTINGS, **setting).fit(COLLECTIONS[kind](X))
        assert_same_fit(model, expected)
        assert hasattr(model, "feature_names_in_") == (kind == "frame")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_with_missing_values_are_the_same_in_memory_in_files_and_on_a_cluster(client: Any, tmp_path: Path) -> None:
    # In Parquet a missing value is a null. Red if a worker takes one for a value, or if the start depends on X.
    X = with_missing(table(600), 0.1, np.random.default_rng(0))
    X[5] = np.nan
    expected = GaussianBiclustering(2, random_state=0, max_iter=6).fit(X)
    filled = expected.impute(X)
    # A cluster is also reached by its address.
    with distributed.Client(client.scheduler.address, set_as_default=False) as other, other.as_current():
        for rows in (as_npy(X, tmp_path), as_parquet(X, tmp_path / "X.parquet"), as_array(X, 300), as_frame(X)):
            model = GaussianBiclustering(2, random_state=0, max_iter=6).fit(rows)
            assert_same_fit(model, expected, rtol=1e-9)
            assert np.allclose(model.impute(rows), filled, rtol=1e-9)


def test_predictions_and_scores_of_a_collection_are_those_of_its_rows(client: Any, tmp_path: Path) -> None:
    X = table()
    weights = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    expected = GaussianBiclustering(**SETTINGS).fit(X, sample_weight=weights)
    with client.as_current():
        model = GaussianBiclustering(**SETTINGS).fit(as_frame(X), sample_weight=weights)
        assert_same_fit(model, expected)
        assert np.array_equal(model.predict(as_array(X), out=tmp_path / "labels.npy"), expected.predict(X))
        assert np.allclose(model.predict_proba(as_frame(X)), expected.predict_proba(X), atol=1e-9)
        assert model.score(as_array(X)) == pytest.approx(expected.score(X), rel=1e-9)
        assert model.bic(as_array(X), weights) == pytest.approx(expected.bic(X, weights), rel=1e-9)


def test_a_persisted_collection_is_held_by_its_rows(client: Any) -> None:
    # Red if the rows keep the blocks alone: the cluster then forgets them.
    X = table()
    with client.as_current():
        rows = opened(as_array(X).persist()).measured()
        assert np.allclose(rows.map_sum(lambda chunk: chunk.X.sum(axis=0)), X.sum(axis=0))


def test_the_sample_of_a_collection_is_that_of_a_stream() -> None:
    given = (as_array(table()), lambda: iter([table()]))
    drawn = [opened(X).measured().sample(50, np.random.RandomState(1)).X for X in given]
    assert np.array_equal(*drawn)  # whatever the blocks


# What travels, and on how many threads.


def test_only_statistics_travel() -> None:
    # Red if the rows come to the client, or if each block's statistics do.
    X = table(4000)
    rows = opened(as_array(X, 100)).measured()
    fetched: list[Any] = []

    def finished(key: Any, result: Any, dsk: Any, state: Any, worker: Any) -> None:
        if str(key).startswith("total-"):
            fetched.append(result)

    from dask.callbacks import Callback

    with Callback(posttask=finished), dask.config.set(scheduler="threads"):
        found = rows.map_sum(lambda chunk: chunk.weights @ chunk.values)
    assert found.shape == (6,)
    assert len(fetched) == 5 + 1  # 40 blocks in sums of eight
    assert np.allclose(found, 0, atol=1e-9)


def test_a_task_leaves_blas_one_thread(client: Any) -> None:
    def threads(chunk: Any) -> set[int]:
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    with client.as_current():
        assert list(opened(as_array(table())).map(threads)) == [{1}] * 8


# Workers that die.


def slow(X: Any, first: int) -> Any:
    time.sleep(0.03)
    return X[first : first + 100]


def slow_blocks(X: Any) -> Any:
    parts = [dask.delayed(slow)(X, first) for first in range(0, len(X), 100)]
    return da.concatenate([da.from_delayed(part, (100, X.shape[1]), X.dtype) for part in parts])


def test_workers_killed_in_the_middle_of_a_sweep_change_nothing(client: Any) -> None:
    X, killed = table(), []

    def kill() -> None:
        time.sleep(0.04)  # into the sweep
        nanny = client.cluster.workers[len(killed)]
        killed.append(nanny.pid)
        os.kill(nanny.pid, signal.SIGKILL)

    def callback(progress: Progress) -> None:
        if progress.iteration in (1, 4):
            client.wait_for_workers(2)
            threading.Thread(target=kill).start()

    with client.as_current():
        expected = GaussianBiclustering(2, 2, init=X[:, 0] > 1, tol=1e-6).fit(slow_blocks(X))
        found = GaussianBiclustering(2, 2, init=X[:, 0] > 1, tol=1e-6).fit(slow_blocks(X), callback=callback)
        client.wait_for_workers(2)
    assert len(set(killed)) == 2
    assert expected.n_iter_ > 6
    for name in ("weights_", "means_", "covariances_", "log_likelihood_trace_", "row_labels_"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name


# What cannot be read.


def failing(number: int) -> Any:
    if number == 2:
        raise OSError("the disk is gone")
    return np.ones((50, 6))


def blocks(values: list[Any]) -> Any:
    return da.concatenate([da.from_delayed(dask.delayed(value), (len(value), 6), float) for value in values])


def with_infinity() -> Any:
    X = table()
    X[222, 3] = np.inf
    return X


@pytest.mark.parametrize(
    ("X", "sentence"),
    [
        (
            lambda: as_array(with_infinity()),
            r"^block 2 of X: row 222 has inf in column 3: fill it or leave the row out$",
        ),
        (lambda: as_frame(with_infinity()), r"^block 1 of X: row 222 has inf in column 3 \('hip'\): fill it"),
        (
            lambda: blocks([table(100), table(100)[:, 1:]]),
            r"^block 1 of X has shape \(100, 5\) instead of \(rows, 6\)",
        ),
        (
            lambda: as_frame(table()).assign(city="here"),
            r"^column 'city' of X holds (string|object): choose columns of numbers$",
        ),
        (lambda: da.ones(5), r"^X has shape \(5,\) and type float64: give a matrix of numbers$"),
        (lambda: as_array(table())[:0], "^X has no rows$"),
    ],
)
def test_a_block_that_cannot_be_read_is_named(X: Any, sentence: str) -> None:
    with dask.config.set(scheduler="threads"), pytest.raises(ValueError, match=sentence):
        GaussianBiclustering(2, random_state=0).fit(X())


def test_a_block_that_cannot_be_made_is_named_on_threads_and_on_a_cluster(client: Any) -> None:
    broken = da.concatenate([da.from_delayed(dask.delayed(failing)(i), (50, 6), float) for i in range(4)])
    sentence = r"^block 2 of X cannot be read \(OSError: the disk is gone\)$"
    with dask.config.set(scheduler="threads"), pytest.raises(ValueError, match=sentence):
        opened(broken).measured()
    with client.as_current(), pytest.raises(ValueError, match=sentence):
        opened(broken).measured()


def test_as_many_weights_as_rows_are_needed() -> None:
    with pytest.raises(ValueError, match=r"^sample_weight has 699 numbers for 700 rows: give one for each row$"):
        GaussianBiclustering(2).fit(as_array(table()), sample_weight=np.ones(699))
