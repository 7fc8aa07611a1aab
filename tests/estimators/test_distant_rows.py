"""Rows far away: distances that overflow have no NaN, and penalties do not grow with the spread of all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from blockmix import FactorBiclustering, GaussianBiclustering

MODELS = [GaussianBiclustering(2, random_state=0), FactorBiclustering(2, 2, random_state=0)]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize(("dtype", "far"), [(np.float64, 1e160), (np.float64, 1e300), (np.float32, 1e30)])
def test_no_nan_escapes(model: Any, dtype: Any, far: float) -> None:
    # Red if inf − inf is taken anywhere: 10¹⁶⁰ squared overflows.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4))
    X[:100] += 30
    X = X.astype(dtype)
    model.fit(X)
    high = model.predict(X)[0]
    rows = np.concatenate([X[:2], np.full((1, 4), far, dtype), np.full((1, 4), -far, dtype)])
    z = model.predict_proba(rows)
    assert np.isfinite(z).all()
    assert np.allclose(z.sum(axis=1), 1)
    assert model.predict(rows)[:2].tolist() == [high, high]
    density = model.score_samples(rows)
    assert not np.isnan(density).any()
    assert np.isfinite(density[:2]).all()
    assert (density[2:] < -1e30).all()
    assert not np.isnan(model.bic(X))


def test_clusters_far_apart_keep_their_own_variances() -> None:
    # Red if the ridge is worth anything beside a variance within clusters: the overall variance is a million.
    X = np.random.default_rng(0).standard_normal((1000, 3))
    X[500:, 0] += 2000
    model = GaussianBiclustering(2, random_state=0).fit(X)
    truth = [np.var(X[:500, 0]), np.var(X[500:, 0])]
    assert_allclose(np.sort(model.covariances_[:, 0, 0]), np.sort(truth), rtol=2e-3)
    factors = FactorBiclustering(2, 1, model="UUUU", random_state=0).fit(X)
    assert_allclose(np.sort(factors.covariances_[:, 0, 0]), np.sort(truth), rtol=2e-3)
