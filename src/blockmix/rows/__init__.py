"""Rows: where the rows of the data come from, and in which pieces they are read.

An array, a file, a Dask collection or a factory of chunks comes in; standardized chunks, feature-major, go out to a
function whose results are summed. Nothing above this package knows where the rows lie, and nothing here knows what is
computed from them.
"""

from blockmix.rows.array import ArrayRows
from blockmix.rows.blas import one_blas_thread
from blockmix.rows.chunks import Chunk, Rows, Summable
from blockmix.rows.opening import in_memory, is_elsewhere, opened
from blockmix.rows.parquet import Parquet
from blockmix.rows.resolution import EXACT, Resolution

__all__ = [
    "EXACT",
    "ArrayRows",
    "Chunk",
    "Parquet",
    "Resolution",
    "Rows",
    "Summable",
    "in_memory",
    "is_elsewhere",
    "one_blas_thread",
    "opened",
]
