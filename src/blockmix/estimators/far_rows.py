"""FarRows: the tails of a fitted block mixture, and which of its rows are far from their component.

A subclass brings the parameters and scores rows; distances by column group go out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import chi2
from sklearn.utils.validation import check_is_fitted

from blockmix.em.block.far_rows import farthest_groups, group_distances
from blockmix.em.block.parameters import Parameters
from blockmix.estimators.base import Scorer, most_probable
from blockmix.estimators.validation import rows_to_score
from blockmix.rows import Chunk, one_blas_thread
from blockmix.structure.types import BoolArray, FloatArray, IntArray

_CLEAN = 0.999  # share of the rows of a normal component that are not far


class FarRows:
    """Degrees of freedom and outlier scores of a block mixture."""

    _parameters: Parameters
    n_features_in_: int
    outlier_scores_: FloatArray
    outlier_groups_: IntArray
    n_values_: IntArray

    @property
    def degrees_of_freedom_(self) -> FloatArray:
        """Degrees of freedom of each component, shape (G,); infinite if it is normal."""
        check_is_fitted(self)
        found = self._parameters.degrees_of_freedom
        return np.full(len(self._parameters.weights), np.inf) if found is None else found

    @property
    def outliers_(self) -> BoolArray:
        """Rows that one normal row in a thousand exceeds in `outlier_scores_`, a boolean array of shape (N,)."""
        check_is_fitted(self)
        # NaN for a row without values, which is not far.
        n_values = getattr(self, "n_values_", self.n_features_in_)
        return np.asarray(self.outlier_scores_ > limits(self.n_features_in_)[n_values])

    def group_distances(self, X: Any) -> FloatArray:
        """Squared distance of each row from its most probable component in each of its column groups, shape (N, K).

        NaN where the component has fewer than K groups. The sum over the groups is the outlier score of the row.
        """
        check_is_fitted(self)
        return np.concatenate(list(self._distances(X)))

    def _distances(self, X: Any) -> Iterator[FloatArray]:
        rows = rows_to_score(self, X)
        scorer: Scorer = self._scorer()  # type: ignore[attr-defined]
        with one_blas_thread():
            yield from rows.map(partial(_chunk_distances, scorer=scorer, parameters=self._parameters))


def limits(n_columns: int) -> FloatArray:
    """The score that one normal row in a thousand exceeds, for rows with 0 … p values, shape (p + 1,)."""
    return np.asarray(chi2.ppf(_CLEAN, np.arange(n_columns + 1)))


def far_rows(chunk: Chunk, labels: IntArray, parameters: Parameters) -> dict[str, Any]:
    """Outlier scores and groups of the rows of a chunk with these components, and how many values they have."""
    distances, groups = farthest_groups(chunk, labels, parameters)
    return {
        "outlier_scores_": distances.astype(chunk.X.dtype),
        "outlier_groups_": groups,
        "n_values_": chunk.observed.astype(np.min_scalar_type(chunk.X.shape[1])),
    }


def _chunk_distances(chunk: Chunk, scorer: Scorer, parameters: Parameters) -> FloatArray:
    return group_distances(chunk, most_probable(scorer(chunk)), parameters)
