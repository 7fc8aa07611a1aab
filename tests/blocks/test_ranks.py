"""Mid-ranks: SciPy's, and those of weighted rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import rankdata, spearmanr
from strategies import seeds

from blockmix.blocks.moments import Moments, mid_ranks


@given(seeds, st.integers(2, 40), st.integers(1, 5))
def test_ranks_are_scipys_up_to_a_constant(seed: int, n_rows: int, values: int) -> None:
    X = np.random.default_rng(seed).integers(0, values + 1, (n_rows, 3)).astype(float)
    assert_allclose(mid_ranks(X, None) + 0.5, rankdata(X, axis=0))


@given(seeds, st.integers(4, 30))
def test_the_correlation_of_ranks_is_spearmans_and_a_weight_of_two_is_a_row_twice(seed: int, n_rows: int) -> None:
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n_rows, 4)), 1) + np.arange(n_rows)[:, None] * 1e-9
    counts = rng.integers(1, 4, n_rows)
    expected = spearmanr(np.repeat(X, counts, axis=0)).statistic
    found = Moments.of(mid_ranks(X, counts.astype(float)), counts.astype(float)).standardized(0.0)[1]
    assert_allclose(found, expected, atol=1e-12)
