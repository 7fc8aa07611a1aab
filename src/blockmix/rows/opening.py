"""Sources: what kind of thing X is, decided here and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse

from blockmix.rows.array import ArrayRows
from blockmix.rows.arrow import Arrow
from blockmix.rows.chunks import Rows
from blockmix.rows.frames import ChunkFactory, SparseTable
from blockmix.rows.npy import ArrayFile
from blockmix.rows.parquet import Parquet
from blockmix.rows.streamed import Source, StreamedRows
from blockmix.structure.types import FloatArray


def is_elsewhere(X: Any) -> bool:
    """Whether X need not be in memory: then it is checked as it is read, and not by scikit-learn beforehand."""
    known = isinstance(X, (str, os.PathLike, np.memmap, Iterator)) or is_source(X) or is_dask(X)
    return known or (callable(X) and not hasattr(X, "__array__"))


def is_source(X: Any) -> bool:
    """Whether X is a `Source`, such as `Parquet`."""
    return callable(getattr(X, "pieces", None))


def is_dask(X: Any) -> bool:
    """Whether X is a collection of Dask, which is not imported to find out."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


def opened(X: Any, weights: FloatArray | None = None, dtype: Any = None, gaps: bool = False) -> Rows:
    """Rows, in their own units, of what need not be in memory.

    Parameters
    ----------
    X : path, Source such as Parquet, numpy.memmap, dask.array or dask.dataframe, or function that returns chunks
    weights : array of shape (N,) or None
        How often each row counts.
    dtype : type or None
        Type of the chunks; None takes that of X if it is float32, and double precision otherwise.
    gaps : bool
        Whether values may be missing; NaN is refused if not.
    """
    if is_dask(X):
        from blockmix.rows.dask import DaskRows

        return DaskRows.of(X, weights, dtype, gaps)
    return StreamedRows.of(_source(X), weights, dtype, gaps)


def in_memory(X: Any, weights: FloatArray | None = None) -> Rows:
    """Rows, in their own units, of a matrix that has been checked, dense or in CSR form."""
    if issparse(X):
        return StreamedRows.of(SparseTable(X), weights, gaps=True)
    return ArrayRows.of(X, weights)


def _source(X: Any) -> Source:
    if isinstance(X, np.memmap):
        return ArrayFile.of(X)
    if isinstance(X, (str, os.PathLike)):
        path = Path(X)
        if (source := file_source(path)) is not None:
            return source
        raise ValueError(
            f"{path} is not a file that rows are read from: give .npy, .parquet, .arrow or .feather, or a folder of "
            ".parquet files"
        )
    if isinstance(X, Iterator):
        raise TypeError("X can be read only once, and a fit reads it many times: give the function that makes it")
    return X if is_source(X) else ChunkFactory.of(X)


def file_source(path: Path) -> ArrayFile | Parquet | Arrow | None:
    """The rows of a file, whose format its ending tells; None if it is not a file of rows."""
    ending = path.suffix.lower()
    if ending == ".npy":
        return ArrayFile.load(path)
    if ending in (".parquet", ".pq") or path.is_dir():
        return Parquet(path)
    return Arrow(path) if ending in (".arrow", ".feather") else None
