"""Rows: where the rows of the data come from, and in which pieces they are read.

An array, a file, a Dask collection or a function that returns chunks becomes `Rows`: chunks with their location and
scale, given to a function whose results are summed. No other folder knows where the rows are stored, and this one does
not know what is computed from them.
"""

from blockmix.rows.files import Arrow, Parquet, opened
from blockmix.rows.measured import EXACT, Resolution
from blockmix.rows.rows import ArrayRows, Chunk, Rows, one_blas_thread

__all__ = ["EXACT", "ArrayRows", "Arrow", "Chunk", "Parquet", "Resolution", "Rows", "one_blas_thread", "opened"]
