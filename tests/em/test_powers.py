"""Powers of the columns: a density of the columns, invariant to their units, whose exponents the clusters decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from blockmix import GaussianBiclustering, load
from blockmix.rows.powers import Powers, log_slopes, power


def skewed(seed: int = 0, n: int = 240) -> tuple[np.ndarray, np.ndarray]:
    """Two lognormal clusters of three columns, and a normal column."""
    rng, y = np.random.default_rng(seed), np.arange(n) % 2
    logs = 0.5 * rng.standard_normal((n, 3)) + 0.3 * rng.standard_normal((n, 1)) + 2.5 * y[:, None]
    return np.column_stack([np.exp(logs), rng.standard_normal(n) + 3 * y]), y


X, CLASSES = skewed()


def fitted(X: np.ndarray = X, n_components: int = 2, **settings: Any) -> GaussianBiclustering:
    return GaussianBiclustering(n_components, columns="power", random_state=0, **settings).fit(X)


MODEL = fitted()


def test_a_power_and_its_inverse_and_slope() -> None:
    t, exponents = np.linspace(-9, 9, 101)[:, None], np.array([0.0, 0.3, 1.0, 1.7, 2.0])
    made = Powers(exponents, np.full(5, 0.5), np.full(5, 2.0), np.zeros(5), np.ones(5))
    values = np.repeat(t, 5, axis=1)
    np.testing.assert_allclose(made.inverse(made.of(values)), values, atol=1e-9)
    step = 1e-6
    slopes = (power(t + step, exponents) - power(t - step, exponents)) / (2 * step)
    np.testing.assert_allclose(np.log(slopes), log_slopes(t, exponents), atol=1e-5)


def test_only_skewed_columns_have_an_exponent_and_each_costs_a_parameter() -> None:
    assert (MODEL.powers_[:3] < 0.5).all() and MODEL.powers_[3] == 1
    assert (MODEL.row_labels_ == CLASSES).mean() in (0, 1)
    layout = MODEL._parameters.blocks.layout
    assert MODEL.n_parameters_ == 1 + 8 + layout.n_parameters + 3
    linear = GaussianBiclustering(2, random_state=0).fit(X)
    assert MODEL.bic(X) < linear.bic(X) - 100
    trace = MODEL.log_likelihood_trace_
    assert np.diff(trace).min() >= -1e-10 * np.abs(trace).max()


def test_normal_columns_give_the_linear_fit() -> None:
    # Red if exponents were taken from whole columns: those of two clusters are not normal.
    rng = np.random.default_rng(3)
    Y = rng.standard_normal((150, 4)) + 5 * (np.arange(150) % 3 == 0)[:, None]
    linear, powered = GaussianBiclustering(2, random_state=0).fit(Y), fitted(Y)
    assert (powered.powers_ == 1).all()
    np.testing.assert_array_equal(powered.means_, linear.means_)
    assert powered.bic(Y) == linear.bic(Y)


def test_units_change_nothing() -> None:
    scale, shift = np.array([1e-3, 50.0, -2.0, 7.0]), np.array([3.0, -1e4, 5.0, 0.0])
    other = fitted(X * scale + shift)
    np.testing.assert_array_equal(other.row_labels_, MODEL.row_labels_)
    mirrored = np.where(scale < 0, 2 - MODEL.powers_, MODEL.powers_)
    np.testing.assert_allclose(other.powers_, mirrored, atol=1e-9)
    expected = MODEL.log_likelihood_ - len(X) * np.log(np.abs(scale)).sum()
    assert other.log_likelihood_ == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(other.centers_, MODEL.centers_ * scale + shift, rtol=1e-6)


def test_the_density_integrates_to_one() -> None:
    model = fitted(X[:, :2], 1)
    assert (model.powers_ < 1).all()
    # Over x = sinh(v), also below the least value, where the density goes on.
    v = np.linspace(-4, 12, 500)
    a, b = np.meshgrid(v, v)
    density = np.exp(model.score_samples(np.sinh(np.column_stack([a.ravel(), b.ravel()]))))
    inside = (density * np.cosh(a.ravel()) * np.cosh(b.ravel())).sum() * (v[1] - v[0]) ** 2
    assert inside == pytest.approx(1, abs=5e-3)


def test_a_sample_gives_the_exponents_back() -> None:
    drawn, labels = MODEL.sample(3000)
    again = fitted(drawn, init=labels)
    # The origin is the least value, which other rows have elsewhere: the shape of the function counts.
    grid = np.quantile(X, [0.1, 0.3, 0.5, 0.7, 0.9], axis=0)
    one, two = (model.powered(grid) for model in (MODEL, again))
    for j in range(3):
        assert np.corrcoef(one[:, j], two[:, j])[0, 1] > 0.999
    assert again.powers_[3] == 1


def test_missing_values_are_filled_in_the_units_of_the_columns(tmp_path: Path) -> None:
    Y = X.copy()
    Y[np.random.default_rng(0).random(Y.shape) < 0.1] = np.nan
    model = fitted(Y)
    complete = model.impute(Y)
    np.testing.assert_array_equal(complete[~np.isnan(Y)], Y[~np.isnan(Y)])
    errors = np.log(np.maximum(complete[:, :3], 1e-9))[np.isnan(Y[:, :3])] - np.log(X[:, :3])[np.isnan(Y[:, :3])]
    assert np.abs(np.median(errors)) < 0.2
    with pytest.raises(ValueError, match=r'^columns="power" leaves no simple variance'):
        model.conditional(Y)
    model.save(tmp_path / "model.blockmix")
    stored = load(tmp_path / "model.blockmix")
    np.testing.assert_array_equal(stored.score_samples(Y), model.score_samples(Y))
    np.testing.assert_array_equal(stored.powers_, model.powers_)
    assert (model.stability(Y, 3, 2, random_state=0).n_resamples, model.outliers(Y).mean() < 0.1) == (3, True)


def test_counts_gain_nothing_by_the_slope_at_a_value() -> None:
    # Red if the slope at a repeated value, and not that over its interval, were in the likelihood.
    rng = np.random.default_rng(0)
    zeros = np.where(rng.random((200, 2)) < 0.6, 0.0, rng.integers(1, 12, (200, 2)))
    model = fitted(np.column_stack([zeros, rng.standard_normal(200)]), 1)
    assert np.isfinite(model.bic(np.column_stack([zeros, np.zeros(200)])))
    answers = rng.choice(5, (200, 3), p=[0.5, 0.2, 0.15, 0.1, 0.05]).astype(float)
    assert (fitted(answers, 1).powers_ == 1).all()  # five values are moved by any power


def test_another_word_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^columns='log' must be \"linear\" or \"power\"$"):
        GaussianBiclustering(columns="log").fit(X)
