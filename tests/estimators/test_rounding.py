"""Discrete columns: no cluster sits on one value, the ridge does not matter, weights repeat rows (both families)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import factors
import numpy as np
import oracles
import pytest
from fits import quiet
from numpy.testing import assert_allclose, assert_array_equal
from strategies import Matrix

from blockmix import load


def binary_rows(seed: int = 0) -> Matrix:
    """The example of the defect: 200 × 5, normal, one column 0/1."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, 5))
    X[:, 2] = rng.random(200) < 0.5
    return X


def counts(seed: int = 0, n_rows: int = 120) -> Matrix:
    """Two clusters of Poisson counts, Likert scores, halves of zeros, and steps of a tenth."""
    rng = np.random.default_rng(seed)
    parts = []
    for place in (0, 2):
        X = rng.standard_normal((n_rows // 2, 6)) + place
        X[:, 1] = rng.poisson(1 + place, len(X))
        X[:, 2] = np.clip(np.round(X[:, 2] + 3), 1, 5)
        X[:, 3] = np.where(rng.random(len(X)) < 0.5, 0, np.exp(X[:, 3]))
        X[:, 4] = np.round(X[:, 4], 1)
        parts.append(X)
    return np.concatenate(parts)[rng.permutation(n_rows // 2 * 2)]


SETTINGS: dict[str, dict[str, Any]] = {
    "auto": {},
    "one factor": {"n_column_groups": 1, "block_model": 1},
    "tree": {"n_column_groups": 1, "block_model": "tree"},
    "shared full": {"shared_covariance": True, "n_column_groups": 1, "shrinkage": 0.2},
}
every_setting = pytest.mark.parametrize("setting", SETTINGS)


@pytest.mark.parametrize("seed", range(3))
def test_no_component_sits_on_one_value_of_a_binary_column(seed: int) -> None:
    # Also from a start with a component on each value: its variance is δ²/12, whatever the ridge, and one component
    # wins. Without rounding the BIC is 1301, −80 and −1462 at ridges of 1e-3, 1e-6 and 1e-9.
    X = binary_rows(seed)
    on_values = X[:, 2].astype(int)
    for init in ("kmeans", on_values):
        bics = [quiet(X, ridge=ridge, init=init, random_state=0).bic(X) for ridge in (1e-6, 1e-9)]
        assert abs(bics[0] - bics[1]) < 1
        assert quiet(X, n_components=1).bic(X) < bics[0]
    model, exact = (quiet(X, ridge=1e-12, init=on_values, rounding=rounding) for rounding in (True, False))
    assert model.covariances_[:, 2, 2].min() >= 1 / 12 * (1 - 1e-6)
    assert exact.covariances_[:, 2, 2].max() < 1e-6
    assert quiet(X, n_components=1, rounding=False).bic(X) > exact.bic(X)


@every_setting
def test_the_likelihood_is_the_dense_one_with_the_term(setting: str) -> None:
    # Σ log Σ_g π_g N(x; μ_g, Σ_g) exp(−½ Σ_j Δ_ij (Σ_g⁻¹)_jj); score_samples of the rows of the fit adds up to it.
    X = counts(2)
    model = quiet(X, random_state=0, **SETTINGS[setting])
    resolution = model.resolution_
    delta = np.zeros(X.shape)
    for d, j in enumerate(resolution.columns):
        part = slice(resolution.first[d], resolution.first[d + 1])
        variances = dict(zip(resolution.values[part].tolist(), resolution.variances[part].tolist(), strict=True))
        delta[:, j] = [variances.get(x, 0.0) for x in X[:, j].tolist()]
    assert delta[:, [1, 2]].all(axis=1).mean() > 0.8 and not delta[:, [0, 5]].any()
    joint = oracles.log_joint(X, model.weights_, model.means_, model.covariances_)
    joint -= 0.5 * np.stack([delta @ np.linalg.inv(S).diagonal() for S in model.covariances_], axis=1)
    z, density = oracles.responsibilities(joint)
    assert model.log_likelihood_ == pytest.approx(density.sum(), rel=1e-9)
    assert_allclose(model.score_samples(X), density, rtol=1e-8, atol=1e-8)
    assert_allclose(model.predict_proba(X), z, atol=1e-8)


@every_setting
def test_weight_two_is_a_row_twice(setting: str) -> None:
    # With rounding: the count k of a value is its weight. Values of continuous columns are then repeated as well.
    X = counts(3)
    twice, init = np.full(len(X), 2.0), (X[:, 0] > 1).astype(int)
    once = quiet(X, sample_weight=twice, init=init, **SETTINGS[setting])
    again = quiet(np.repeat(X, 2, axis=0), init=np.repeat(init, 2), **SETTINGS[setting])
    assert_allclose(once.log_likelihood_trace_, again.log_likelihood_trace_, rtol=1e-9)
    assert_allclose(once.covariances_, again.covariances_, rtol=1e-6, atol=1e-8)


def test_scaling_and_permuting_columns_change_only_the_units() -> None:
    X = counts(5)
    factor, order = 10.0 ** np.arange(-3, 3), [3, 1, 5, 0, 2, 4]
    init = (X[:, 0] > 1).astype(int)
    one, other = quiet(X, init=init), quiet((X * factor)[:, order], init=init)
    assert_allclose(one.log_likelihood_ - len(X) * np.log(factor).sum(), other.log_likelihood_, rtol=1e-6)
    assert_array_equal(one.row_labels_, other.row_labels_)


def test_continuous_columns_are_fitted_as_without() -> None:
    X = np.random.default_rng(0).standard_normal((100, 4))
    one, other = quiet(X, random_state=0), quiet(X, random_state=0, rounding=False)
    assert_array_equal(one.log_likelihood_trace_, other.log_likelihood_trace_)


def test_the_resolution_is_saved(tmp_path: Path) -> None:
    # Red if a loaded model scores repeated values as exact ones.
    X = counts(6)
    model = quiet(X, random_state=0)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert_array_equal(again.score_samples(X), model.score_samples(X))
    for name in ("columns", "first", "values", "variances"):
        assert_array_equal(getattr(again.resolution_, name), getattr(model.resolution_, name))


def test_the_factor_family_does_not_rest_on_its_floor() -> None:
    X = binary_rows()
    given: dict[str, Any] = {"n_components": 2, "n_column_groups": 5, "model": "UUUU", "init": X[:, 2].astype(int)}
    with_rounding, without = factors.quiet(X, **given), factors.quiet(X, rounding=False, **given)
    assert with_rounding.resolution_.columns.tolist() == [2]
    assert (with_rounding.covariances_[:, 2, 2] >= 1 / 12 * (1 - 1e-6)).all()
    assert without.covariances_[:, 2, 2].max() < 0.01
