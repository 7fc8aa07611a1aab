"""Tables with missing values."""

from __future__ import annotations

import numpy as np
from strategies import Matrix


def with_missing(X: Matrix, share: float, rng: np.random.Generator, depending: bool = False) -> Matrix:
    """X with about this share of its values missing: at random, or more likely where the first column is large."""
    odds = np.full(X.shape, share)
    if depending:
        odds *= np.where(X[:, :1] > np.median(X[:, 0]), 1.8, 0.2)
        odds[:, 0] = 0
    incomplete = X.copy()
    incomplete[rng.random(X.shape) < odds] = np.nan
    return incomplete
