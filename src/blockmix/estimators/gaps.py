"""Gaps: rows with missing values, and their completion by a fitted block mixture.

A subclass brings the parameters and scores rows; completed rows go out.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from blockmix.em.block.e_step import Density
from blockmix.em.block.parameters import Parameters
from blockmix.em.block.sweep import expected
from blockmix.estimators.base import Scorer, probabilities
from blockmix.estimators.validation import rows_to_score
from blockmix.rows import ArrayRows, Chunk, one_blas_thread
from blockmix.structure.types import FloatArray


class TakesGaps:
    """Tag of an estimator that takes rows with missing values (NaN), and `impute`."""

    _parameters: Parameters
    means_: FloatArray

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = True
        return tags

    def impute(self, X: Any) -> Any:
        """Rows with their missing values replaced by their expectations given the other values of the row.

        Σ_g z_g E(x_m | x_o, g). Values that are there stay as they are, to the last bit. A pandas or polars data frame
        gives a data frame, everything else an array of shape (N, p).
        """
        check_is_fitted(self)
        rows = rows_to_score(self, X, cast=False)
        scorer: Scorer = self._scorer()  # type: ignore[attr-defined]
        complete = partial(_completed, scorer=scorer, density=Density.of(self._parameters), dtype=self.means_.dtype)
        with one_blas_thread():
            found = np.concatenate(list(rows.map(complete)))
        if isinstance(rows, ArrayRows) and (hasattr(X, "isetitem") or hasattr(X, "with_columns")):
            return _replaced(X, found, np.flatnonzero(np.isnan(rows.X).any(axis=0)).tolist())
        return found


def _completed(chunk: Chunk, scorer: Scorer, density: Density, dtype: Any) -> FloatArray:
    """Values of the rows of a chunk, in the units of X, with their gaps filled; scored in the type of the fit."""
    if not chunk.has_gaps:
        return chunk.X.copy()
    own = replace(chunk, X=chunk.X.astype(dtype, copy=False))
    values = expected(own, density, probabilities(scorer(own)))
    return np.where(np.isnan(chunk.X), values.astype(chunk.X.dtype), chunk.X)


def _replaced(frame: Any, values: FloatArray, numbers: list[int]) -> Any:
    """A pandas or polars data frame with some of its columns replaced; whole numbers become floating point."""
    if hasattr(frame, "with_columns"):
        old = [frame[:, j] for j in numbers]
        new = [type(column)(column.name, values[:, j]) for j, column in zip(numbers, old, strict=True)]
        kept = [b.cast(a.dtype) if a.dtype.is_float() else b for a, b in zip(old, new, strict=True)]
        return frame.with_columns(kept)
    completed = frame.copy()
    for j in numbers:
        column = frame.iloc[:, j]
        dtype = column.dtype if column.dtype.kind == "f" else "Float64"
        completed.isetitem(j, type(column)(values[:, j], index=column.index, dtype=dtype))
    return completed
