"""Gaps: rows with missing values, and their completion by a fitted block mixture.

A subclass brings the parameters and scores rows; completed rows go out.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from blockmix.em.block.e_step import Density
from blockmix.em.block.parameters import Parameters
from blockmix.em.block.sweep import filled
from blockmix.estimators.base import Scorer, probabilities
from blockmix.estimators.validation import rows_to_score
from blockmix.rows import Chunk, one_blas_thread
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

        Σ_g z_g E(x_m | x_o, g). Values that are there stay as they are, to the last bit. A data frame gives a data
        frame, everything else an array of shape (N, p).
        """
        check_is_fitted(self)
        rows = rows_to_score(self, X)
        scorer: Scorer = self._scorer()  # type: ignore[attr-defined]
        density = Density.of(self._parameters)
        with one_blas_thread():
            found = np.concatenate(list(rows.map(partial(_completed, scorer=scorer, density=density))))
        if not hasattr(X, "iloc"):
            return found
        completed = X.copy()
        for j in np.flatnonzero(np.asarray(X.isna().any(axis=0))).tolist():
            column = X.iloc[:, j]
            if column.dtype.kind != "f":  # whole numbers with gaps
                column = column.astype("Float64")
            completed.isetitem(j, column.where(column.notna(), found[:, j].astype(column.dtype.name.lower())))
        return completed


def _completed(chunk: Chunk, scorer: Scorer, density: Density) -> FloatArray:
    """Values of the rows of a chunk, in the units of X, with their gaps filled."""
    gaps = np.isnan(chunk.X)
    if not gaps.any():
        return chunk.X.copy()
    rows = np.flatnonzero(gaps.any(axis=1))
    part = chunk.take(rows)
    z, every = probabilities(scorer(part)), np.arange(len(rows))
    expected = np.zeros(part.X.shape)
    for g, mean in enumerate(density.means):
        centered, _ = filled(part, density, g, every, np.ones((2, len(rows))))
        expected += z[:, g, None] * (mean + centered)
    found = chunk.X.copy()
    found[rows] = np.where(gaps[rows], expected, part.X)
    return found
