"""Ranks of the values of each column, which outlying rows and skewed columns cannot distort.

The correlation of ranks is Spearman's. It is positive semidefinite, and by chance it varies as much as that of normal
columns, by 1/(N − 1). The transform 2 sin(πr/6) to the correlation of normal columns is left out: it is not definite,
and near 0 it multiplies r and its standard error by the same π/3.
"""

from __future__ import annotations

import numpy as np

from blockmix.structure.types import FloatArray


def mid_ranks(X: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Rank of each value within its column, tied values at the middle of theirs, shape (N, p).

    With weights it is the weight of the rows below plus half of that of the tied rows, so that a row of weight 2 ranks
    as the row twice does.
    """
    ranks = np.empty(X.shape)
    for j, column in enumerate(X.T):
        at, inverse = np.unique(column, return_inverse=True)
        tied = np.bincount(inverse, weights, minlength=len(at))
        ranks[:, j] = (np.cumsum(tied) - tied / 2)[inverse]
    return ranks
