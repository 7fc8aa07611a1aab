"""One table from every source of rows, and what makes two fits the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from strategies import Matrix, block_rows

from blockmix.partition import Partition
from blockmix.rows import Parquet

NAMES = ["age", "rent", "luck", "hip", "waist", "income"]


def table(n_rows: int = 700, seed: int = 0) -> Matrix:
    """Two clusters with different column groups, in columns of different place and scale, some values 0."""
    rng = np.random.default_rng(seed)
    X = np.concatenate(
        [
            block_rows(rng, n_rows // 2, Partition([0, 0, 0, 1, 1, 1])),
            block_rows(rng, n_rows - n_rows // 2, Partition([0, 1, 0, 1, 0, 1])) + 2,
        ]
    )
    X = X[rng.permutation(n_rows)] * np.arange(1, 7) + np.arange(6)
    X[rng.random(X.shape) < 0.1] = 0
    return X


def pieces_of(X: Any, size: int = 100) -> Callable[[], Iterator[Any]]:
    return lambda: (X[first : first + size] for first in range(0, len(X), size))


def as_npy(X: Matrix, folder: Path, order: str = "C") -> Path:
    np.save(folder / "X.npy", np.asarray(X, order=order))
    return folder / "X.npy"


def as_parquet(X: Matrix, path: Path, extra: str | None = None, row_group_size: int = 150) -> Path:
    frame = pd.DataFrame(X, columns=NAMES)
    if extra is not None:
        frame.insert(2, extra, "text")
    frame.to_parquet(path, row_group_size=row_group_size)
    return path


def as_arrow(X: Matrix, path: Path, rows: int = 150) -> Path:
    """An Arrow file with several record batches."""
    pd.DataFrame(X, columns=NAMES).to_feather(path, chunksize=rows)
    return path


def as_folder(X: Matrix, folder: Path) -> Path:
    (folder / "year=2026").mkdir(exist_ok=True)
    as_parquet(X[:300], folder / "a.parquet")
    as_parquet(X[300:], folder / "year=2026" / "b.parquet", row_group_size=1000)
    (folder / "_SUCCESS").touch()
    return folder


SOURCES: dict[str, Callable[[Matrix, Path], Any]] = {
    "array": lambda X, folder: X,
    "npy": as_npy,
    "text path": lambda X, folder: str(as_npy(X, folder)),
    "npy by columns": lambda X, folder: as_npy(X, folder, "F"),
    "memmap": lambda X, folder: np.load(as_npy(X, folder), mmap_mode="r"),
    "part of a memmap": lambda X, folder: np.load(as_npy(np.repeat(X, 2, axis=0), folder), mmap_mode="r")[::2],
    "copy on write": lambda X, folder: written(np.load(as_npy(0 * X, folder), mmap_mode="c"), X),
    "factory": lambda X, folder: pieces_of(X),
    "factory of frames": lambda X, folder: pieces_of(pd.DataFrame(X, columns=NAMES)),
    "parquet": lambda X, folder: as_parquet(X, folder / "X.parquet"),
    "arrow": lambda X, folder: as_arrow(X, folder / "X.arrow"),
    "parquet folder": lambda X, folder: as_folder(X, folder),
    "parquet columns": lambda X, folder: Parquet(as_parquet(X, folder / "X.parquet", extra="city"), NAMES),
    "csr": lambda X, folder: sparse.csr_array(X),
}
every_source = pytest.mark.parametrize("kind", SOURCES)


def written(target: Any, X: Matrix) -> Any:
    target[:] = X
    return target


def assert_same_fit(a: Any, b: Any, rtol: float = 1e-9) -> None:
    assert np.array_equal(a.column_labels_, b.column_labels_)
    assert np.array_equal(a.row_labels_, b.row_labels_)
    for name in ("weights_", "means_", "covariances_", "log_likelihood_trace_", "log_likelihood_"):
        expected = np.asarray(getattr(b, name))
        assert_allclose(getattr(a, name), expected, rtol=rtol, atol=rtol * np.abs(expected).max(), err_msg=name)
    assert (a.n_iter_, a.outcome_) == (b.n_iter_, b.outcome_)
