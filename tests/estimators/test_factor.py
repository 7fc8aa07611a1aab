"""FactorBiclustering: its likelihood against dense formulas, the laws of its ascent, its corners and its contract."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.mixture import GaussianMixture
from sklearn.utils.estimator_checks import parametrize_with_checks
from strategies import SPARSE_CHECKS, Matrix, seeds

from blockmix import BlockDiagonalCovariance, GroupingWarning
from blockmix.datasets import simulated
from blockmix.em.factor.m_step import column_cost, column_costs, home_predictions, maximize, profiled
from blockmix.em.factor.regroup import climb, first_groups, first_parameters, move_gains, moved
from blockmix.em.factor.sweep import FactorModel, FactorParameters, sweep
from blockmix.estimators.factor import FactorBiclustering
from blockmix.estimators.loading import load
from blockmix.metrics import exact_recovery, mape, matched_accuracy
from blockmix.rows import ArrayRows
from blockmix.selection.table import select

FAMILY = ["".join(letters) for letters in product("UC", repeat=4)]
IDENTITY = ["UIUU", "CIUU", "UICU", "UIUC", "CICC"]
every_model = pytest.mark.parametrize("letters", FAMILY + IDENTITY)


def factor_rows(seed: int, n: int = 60, p: int = 7, G: int = 2, q: int = 3, apart: float = 1.0) -> Matrix:
    """Rows of a mixture with common factors, in columns of different scale."""
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(G):
        labels = rng.integers(0, q, p)
        factors = rng.standard_normal((n, q)) * rng.uniform(0.3, 1.5, q)
        parts.append(
            rng.normal(0, apart, p) + factors[:, labels] + rng.standard_normal((n, p)) * rng.uniform(0.3, 1, p)
        )
    X: Matrix = np.concatenate(parts) * 10.0 ** rng.uniform(-1, 1, p)
    return X


def parameters(seed: int, G: int = 2, p: int = 6, q: int = 3) -> FactorParameters:
    rng = np.random.default_rng(seed)
    return FactorParameters(
        rng.dirichlet(np.ones(G)),
        rng.standard_normal((G, p)),
        np.stack([rng.permutation(np.arange(p) % q) for _ in range(G)]),
        rng.uniform(0, 2, (G, q)),
        rng.uniform(0.1, 2, (G, p)),
    )


def dense_log_joint(X: Matrix, weights: Matrix, means: Matrix, covariances: Matrix) -> Matrix:
    parts = zip(weights, means, covariances, strict=True)
    return np.stack([np.log(w) + multivariate_normal(mean, S).logpdf(X) for w, mean, S in parts], axis=1)


def quiet(X: Any, sample_weight: Any = None, **given: Any) -> FactorBiclustering:
    """Fit without the warnings that small or awkward tables give."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GroupingWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        return FactorBiclustering(**given).fit(X, sample_weight=sample_weight)


def standard(X: Matrix) -> ArrayRows:
    return ArrayRows.standardized(X)


def model_of(letters: str, X: Matrix, G: int, q: int = 3) -> FactorModel:
    return FactorModel.named(letters, G, q, np.full(X.shape[1], 1e-6))


def random_start(X: Matrix, G: int, seed: int) -> Matrix:
    return np.eye(G)[np.random.default_rng(seed).permutation(len(X)) % G]


# The likelihood.


@given(seeds)
def test_the_likelihood_is_that_of_the_dense_mixture(seed: int) -> None:
    # Red if c, the log-determinant or the cross term with the mean is wrong in any place.
    chosen, X = parameters(seed), np.random.default_rng(seed + 1).standard_normal((40, 6)) * 2
    unit = ArrayRows(X, np.ones(40), np.zeros(6), np.ones(6))
    joint = dense_log_joint(X, chosen.weights, chosen.means, chosen.covariances)
    assert_allclose(sweep(unit, chosen).log_likelihood, logsumexp(joint, axis=1).sum(), rtol=1e-10)
    B = np.eye(3)[chosen.labels]
    literal = B @ (chosen.factors[:, :, None] * B.swapaxes(1, 2)) + chosen.noise[:, :, None] * np.eye(6)
    assert_allclose(chosen.covariances, literal)


@every_model
def test_a_fitted_model_scores_like_its_covariances(letters: str) -> None:
    X = factor_rows(1)
    model = quiet(X, n_components=2, n_column_groups=3, model=letters, random_state=0)
    joint = dense_log_joint(X, model.weights_, model.means_, model.covariances_)
    assert_allclose(model.score_samples(X), logsumexp(joint, axis=1), rtol=1e-8, atol=1e-8)
    assert_allclose(model.log_likelihood_, logsumexp(joint, axis=1).sum(), rtol=1e-8)
    assert_allclose([block.dense() for block in model.blocks_], model.covariances_)
    assert_array_equal(model.predict(X), model.row_labels_)


@every_model
def test_what_is_shared_is_equal(letters: str) -> None:
    model = quiet(factor_rows(2), n_components=2, n_column_groups=3, model=letters, random_state=0)
    B, T, D, shape = letters
    labels, t, d = model.column_labels_, model.factor_variances_, model.noise_variances_
    assert B == "U" or (labels[0] == labels[1]).all()
    assert T != "C" or np.allclose(np.sort(t[0]), np.sort(t[1]))
    assert T != "I" or (t == 1).all()
    assert D == "U" or np.allclose(d[0], d[1])
    assert shape == "U" or np.allclose(d, d[:, :1])
    assert (np.sort(np.unique(labels[0])) == np.arange(3)).all()
    if letters == "UUUU":
        assert not np.allclose(np.sort(t[0]), np.sort(t[1]))
        assert not np.allclose(d[0], d[1])


# The ascent.


@every_model
def test_the_likelihood_never_falls(letters: str) -> None:
    # Red if a step of T, B or D, or a kept regrouping, is not an ascent. On 50 sets each: experiments/monotone.py.
    for seed in range(4):
        G = 1 + seed % 3
        X = factor_rows(seed, n=25, G=G, apart=0.5)
        trace = climb(standard(X), random_start(X, G, seed), model_of(letters, X, G), 1e-6, 60).trace
        assert (np.diff(trace) > -1e-8 * np.abs(trace[-1])).all()


@given(seeds, st.sampled_from(FAMILY + IDENTITY))
@settings(max_examples=60)
def test_every_step_from_anywhere_is_an_ascent(seed: int, letters: str) -> None:
    # From arbitrary parameters, not only those on EM's path.
    X = factor_rows(seed % 1000, n=15, p=6)
    rows, model = standard(X), model_of(letters, X, 2)
    chosen = parameters(seed)
    chosen = replace(
        chosen,
        labels=chosen.labels[[0, 0]] if model.shared_groups else chosen.labels,
        factors=np.ones((2, 3)) if model.unit_factors else chosen.factors[[0, 0] if model.shared_factors else [0, 1]],
        noise=np.full((2, 6), 0.7) if model.isotropic else chosen.noise[[0, 0] if model.shared_noise else [0, 1]],
    )
    for _ in range(3):
        statistics = sweep(rows, chosen)
        chosen = maximize(statistics, chosen, model)
        assert sweep(rows, chosen).log_likelihood >= statistics.log_likelihood - 1e-9 * abs(statistics.log_likelihood)


@pytest.mark.parametrize("letters", ["UUUU", "CUUU", "UCUU", "UIUU", "UUCU", "CUUC"])
def test_the_gain_of_a_single_move_is_exact(letters: str) -> None:
    # Against the dense likelihood with z fixed. Red if a column is not taken out of its own group first.
    X = factor_rows(3, n=30, p=6)
    rows, model = standard(X), model_of(letters, X, 2)
    z = random_start(X, 2, 0)
    begun = first_parameters(rows, z, first_groups(rows, z, model), model)
    for _ in range(3):
        begun = maximize(sweep(rows, begun), begun, model)
    Z = (X - rows.location) / rows.scale
    joint = dense_log_joint(Z, begun.weights, begun.means, begun.covariances)
    z = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    seen, old = profiled(sweep(rows, begun), begun, model)

    def expected(chosen: FactorParameters) -> float:
        return float((z * dense_log_joint(Z, chosen.weights, chosen.means, chosen.covariances)).sum())

    change, noise = move_gains(seen, old, model)
    costs, (c, V) = column_costs(seen, old, model)[0], home_predictions(seen, old)
    at_home = column_cost(old.noise + c, V)
    for j in range(6):
        for k in range(3):
            labels, d = old.labels.copy(), np.array(old.noise)
            moving = [0, 1] if model.shared_groups else [0]
            if any((labels[g] == labels[g, j]).sum() == 1 for g in moving):
                continue
            stay = sum(0.5 * seen.rows[g] * (costs[g, labels[g, j], j] - at_home[g, j]) for g in moving)
            for g in moving:
                labels[g, j], d[g, j] = k, noise[g, k, j]
            gain = expected(replace(old, labels=labels, noise=d)) - expected(old)
            assert_allclose(-(change[0, k, j] + stay), gain, atol=1e-8)


@pytest.mark.parametrize(("letters", "G"), [("UIUU", 1), ("CICU", 2)])
def test_small_noise_is_reached_in_few_steps(letters: str, G: int) -> None:
    # EM alone creeps to a noise near zero: 2000 steps and more. Red without the exact step of one column.
    X = factor_rows(0, n=45, p=8, G=G)
    ascent = climb(standard(X), random_start(X, G, 0), model_of(letters, X, G), 1e-7, 300)
    assert len(ascent.trace) < 150
    assert ascent.outcome.value == "converged"
    assert ascent.parameters.noise.min() < 1e-3


@given(seeds, st.sampled_from(["UUUU", "CUUU", "UCCC"]))
def test_moves_together_are_kept_only_where_they_gain(seed: int, letters: str) -> None:
    # Red if a batch of moves, each of which would gain alone, is taken without a look.
    X = factor_rows(seed % 1000, n=20, p=8)
    rows, model = standard(X), model_of(letters, X, 2)
    z, rng = random_start(X, 2, seed), np.random.default_rng(seed)
    labels = np.stack([rng.permutation(np.arange(8) % 3) for _ in range(2)])
    begun = first_parameters(rows, z, labels[[0, 0]] if model.shared_groups else labels, model)
    state = (begun, sweep(rows, begun))
    chosen, statistics = moved(rows, state, model, 0)
    assert statistics.log_likelihood >= state[1].log_likelihood
    assert_allclose(sweep(rows, chosen).log_likelihood, statistics.log_likelihood)
    assert all(len(np.unique(row)) == 3 for row in chosen.labels)


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        ("UCUU", "UUUU"),
        ("CUUU", "UUUU"),
        ("CCUU", "UCUU"),
        ("CCUU", "CUUU"),
        ("UUCU", "UUUU"),
        ("UUUC", "UUUU"),
        ("CCCC", "CCUC"),
        ("CCCC", "CCCU"),
        ("UIUU", "UUUU"),
        ("CICC", "CCCC"),
        ("CCCC", "UUUU"),
    ],
)
def test_a_larger_model_fits_better_from_where_the_smaller_one_ends(smaller: str, larger: str) -> None:
    X = factor_rows(5)
    rows = standard(X)
    ended = climb(rows, random_start(X, 2, 1), model_of(smaller, X, 2), 1e-6, 100)
    trace = climb(rows, ended.parameters, model_of(larger, X, 2), 1e-6, 100).trace
    assert_allclose(trace[0], sweep(rows, ended.parameters).log_likelihood)
    assert trace[-1] > ended.trace[-1]


def test_groups_of_the_components_are_numbered_to_suit_a_common_t() -> None:
    # Two components with factors of variance 2 and 0.2 in other columns each. Red if group k of one is held to the t of
    # the other group.
    rng = np.random.default_rng(0)
    t, labels = np.array([2.0, 0.2]), np.array([[0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0]])
    parts = [rng.standard_normal((300, 2)) * np.sqrt(t) @ np.eye(2)[row].T for row in labels]
    X = np.concatenate(parts) + rng.standard_normal((600, 6)) * 0.7 + np.repeat([[0.0], [6.0]], 300, axis=0)
    rows, model = ArrayRows(X, np.ones(600), np.zeros(6), np.ones(6)), model_of("UCUU", X, 2, q=2)
    z = np.repeat(np.eye(2), 300, axis=0)
    begun = first_parameters(rows, z, first_groups(rows, z, model), model)
    swapped = replace(begun, labels=np.stack([begun.labels[0], 1 - begun.labels[1]]))
    for start in (begun, swapped):
        found = climb(rows, start, model, 1e-6, 100).parameters
        assert_allclose(np.sort(found.factors[0])[::-1], t, rtol=0.25)


# Corners.


def test_without_factors_it_is_the_diagonal_mixture() -> None:
    # As many groups as columns: only t + d matters, and each step is that of scikit-learn's diagonal mixture.
    X = factor_rows(7, n=80, p=4, apart=2)
    X = X / X.std(axis=0)
    start = random_start(X, 2, 0)
    ours = quiet(X, n_components=2, n_column_groups=4, model="UUUU", init=start, tol=1e-9, standardize=False)
    theirs = GaussianMixture(2, covariance_type="diag", tol=1e-12, max_iter=5000, reg_covar=0)
    theirs.means_init, theirs.weights_init = ours.means_, ours.weights_
    theirs.precisions_init = 1 / np.diagonal(ours.covariances_, axis1=1, axis2=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs.fit(X)
    assert_allclose(ours.score_samples(X), theirs.score_samples(X), atol=1e-4)


def test_t_of_zero_is_the_diagonal_mixture_step_by_step() -> None:
    X = factor_rows(8, n=50, p=5)
    rows, model = standard(X), model_of("UUUU", X, 2, q=5)
    Z = (X - rows.location) / rows.scale
    chosen = replace(parameters(3, p=5, q=5), labels=np.tile(np.arange(5), (2, 1)), factors=np.zeros((2, 5)))
    theirs = GaussianMixture(2, covariance_type="diag", max_iter=1, reg_covar=0, tol=0)
    for _ in range(5):
        theirs.weights_init, theirs.means_init = chosen.weights, chosen.means
        theirs.precisions_init = 1 / np.diagonal(chosen.covariances, axis1=1, axis2=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            theirs.fit(Z)
        chosen = maximize(sweep(rows, chosen), chosen, model)
        assert_allclose(chosen.means, theirs.means_, rtol=1e-8, atol=1e-10)
        assert_allclose(np.diagonal(chosen.covariances, axis1=1, axis2=2), theirs.covariances_, rtol=1e-8)


@pytest.mark.parametrize("N", [100, 300])
def test_one_component_recovers_the_positive_design(N: int) -> None:
    # No warning either: warnings are errors here.
    design = simulated.covariance_positive()
    for seed in range(5):
        X = design.sample(N, seed)
        model = FactorBiclustering(1, 3).fit(X)
        assert exact_recovery(design.partition, model.column_labels_[0])
        other = BlockDiagonalCovariance(3).fit(X)
        assert mape(design.covariance, model.covariances_[0]) < 1.1 * mape(design.covariance, other.covariance_)


def test_the_negative_design_fails_and_says_so() -> None:
    design = simulated.covariance_negative()
    X = pd.DataFrame(design.sample(300, 0), columns=[f"c{j}" for j in range(12)])
    with pytest.warns(GroupingWarning) as caught:
        model = FactorBiclustering(1, 3).fit(X)
    assert not exact_recovery(design.partition, model.column_labels_[0])
    message = str(caught[0].message)
    assert "component 0 form a group with negative correlations" in message
    assert "GaussianBiclustering" in message
    assert any(group in message for group in ("c0, c1, c2, c3 ", "c4, c5, c6, c7 ", "c8, c9, c10, c11 "))
    assert caught[0].filename == __file__


def test_with_one_component_there_is_nothing_to_share() -> None:
    X = factor_rows(9, G=1)
    one, other = (quiet(X, n_column_groups=3, model=letters) for letters in ("UUUU", "CCCU"))
    assert_allclose(one.log_likelihood_, other.log_likelihood_)
    assert one.n_parameters_ == other.n_parameters_


def test_groups_of_many_columns_are_found_from_some_of_them() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 700)
    X = rng.standard_normal((50, 4))[:, labels] + rng.standard_normal((50, 700))
    start = first_groups(standard(X), np.ones((50, 1)), model_of("UUUU", X, 1, q=4))
    assert matched_accuracy(labels, start[0]) > 0.95
    assert exact_recovery(labels, quiet(X, n_column_groups=4).column_labels_[0])


# What changes nothing.


@pytest.mark.parametrize("letters", ["UUUU", "UCUU", "CCUC", "UIUU"])
def test_permuted_columns_have_permuted_groups(letters: str) -> None:
    X, order = factor_rows(10), np.random.default_rng(0).permutation(7)
    start = random_start(X, 2, 0)
    one, other = (quiet(Y, n_components=2, n_column_groups=3, model=letters, init=start) for Y in (X, X[:, order]))
    assert_allclose(one.log_likelihood_, other.log_likelihood_, rtol=1e-7)
    for g in range(2):
        assert exact_recovery(one.column_labels_[g][order], other.column_labels_[g])
    assert_allclose(one.noise_variances_[:, order], other.noise_variances_, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("letters", ["UUUU", "UCUU", "CUCC"])
def test_rescaled_columns_change_nothing_but_their_own_units(letters: str) -> None:
    X, factors = factor_rows(11), 10.0 ** np.linspace(-3, 3, 7)
    one, other = (
        quiet(Y, n_components=2, n_column_groups=3, model=letters, random_state=0) for Y in (X, X * factors + 5)
    )
    assert_array_equal(one.row_labels_, other.row_labels_)
    assert_array_equal(one.column_labels_, other.column_labels_)
    assert_allclose(one.log_likelihood_ - len(X) * np.log(factors).sum(), other.log_likelihood_, rtol=1e-6)
    assert_allclose(one.covariances_ * factors[:, None] * factors, other.covariances_, rtol=1e-3)


def test_without_standardization_units_matter() -> None:
    X = factor_rows(11)
    settings: dict[str, Any] = {"n_components": 2, "n_column_groups": 3, "standardize": False, "random_state": 0}
    one, other = (quiet(Y, **settings) for Y in (X, X * 10.0 ** np.linspace(-1, 1, 7)))
    assert not np.allclose(one.noise_variances_, other.noise_variances_)
    assert_array_equal(one.scale_, 1)
    unit = quiet(X, **(settings | {"model": "UIUU"}))
    offdiagonal = unit.covariances_[0][unit.column_labels_[0][:, None] == unit.column_labels_[0]]
    assert (np.isclose(offdiagonal, 1) | (offdiagonal > 1)).all()


@pytest.mark.parametrize("letters", ["UUUU", "CCUU", "UCCC"])
def test_weight_counts_rows(letters: str) -> None:
    X, weights = factor_rows(12), np.random.default_rng(0).integers(0, 4, 120)
    start = random_start(X, 2, 0)
    settings: dict[str, Any] = {"n_components": 2, "n_column_groups": 3, "model": letters}
    one = quiet(X, weights, init=start, **settings)
    other = quiet(np.repeat(X, weights, axis=0), init=np.repeat(start, weights, axis=0), **settings)
    assert_allclose(one.log_likelihood_, other.log_likelihood_, rtol=1e-7)
    assert_array_equal(one.column_labels_, other.column_labels_)
    assert_allclose(one.covariances_, other.covariances_, rtol=1e-4, atol=1e-8)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X = factor_rows(13, n=150)
    whole = quiet(X, n_components=2, n_column_groups=3, random_state=0)
    monkeypatch.setattr("blockmix.rows.chunks._CHUNK_NUMBERS", 1)  # the least chunk, 64 rows
    parts = quiet(X, n_components=2, n_column_groups=3, random_state=0)
    assert_allclose(whole.log_likelihood_, parts.log_likelihood_, rtol=1e-9)


def test_float32_stays_float32() -> None:
    X = factor_rows(14).astype(np.float32)
    one, other = (quiet(Y, n_components=2, n_column_groups=3, random_state=0) for Y in (X, X.astype(float)))
    made = (
        one.weights_,
        one.means_,
        one.covariances_,
        one.noise_variances_,
        one.score_samples(X),
        one.predict_proba(X),
    )
    assert {array.dtype for array in made} == {np.dtype(np.float32)}
    assert_allclose(one.log_likelihood_, other.log_likelihood_, rtol=1e-4)


# Parameters and criteria.


@pytest.mark.parametrize(
    ("letters", "covariance"),
    [
        ("UUUU", 6 + 14),
        ("UCUU", 3 + 14),
        ("UUCU", 6 + 7),
        ("UUUC", 6 + 2),
        ("CCCC", 3 + 1),
        ("CUCC", 6 + 1),
        ("UIUU", 14),
    ],
)
def test_parameters_are_counted(letters: str, covariance: int) -> None:
    X = factor_rows(15)
    model = quiet(X, n_components=2, n_column_groups=3, model=letters, random_state=0)
    assert model.n_parameters_ == 1 + 14 + covariance
    assert_allclose(model.bic(X), -2 * model.log_likelihood_ + model.n_parameters_ * np.log(120), rtol=1e-8)
    without = model.n_parameters_
    model.set_params(count_partition=True)
    assert model.n_parameters_ == without + (7 if letters[0] == "C" else 14)


def test_a_sample_has_the_fitted_moments() -> None:
    X = factor_rows(16)
    model = quiet(X, n_components=2, n_column_groups=3, model="UUUU", random_state=0)
    rows, components = model.sample(40_000)
    scale = X.std(axis=0)
    for g in range(2):
        drawn = rows[components == g] / scale
        assert_allclose(np.cov(drawn.T), model.covariances_[g] / np.outer(scale, scale), atol=0.05)
        assert_allclose(drawn.mean(axis=0), model.means_[g] / scale, atol=0.05)


# Contract.


@parametrize_with_checks(
    [
        FactorBiclustering(3, 2),
        FactorBiclustering(3, 1, model="UUUU", init="kmeans++"),
        FactorBiclustering(3, 2, model="CICC", init="random", standardize=False),
        FactorBiclustering(3, 2, model="CCUC", init="hierarchical"),
    ],
    expected_failed_checks=lambda estimator: SPARSE_CHECKS,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::blockmix.GroupingWarning")
def test_scikit_learns_contract(estimator: Any, check: Any) -> None:
    check(estimator)


def test_biclusters_are_pairs_of_component_and_group() -> None:
    X = pd.DataFrame(factor_rows(17), columns=list("abcdefg"))
    model = quiet(X, n_components=2, n_column_groups=3, random_state=0)
    assert model.rows_.shape == (6, 120) and model.columns_.shape == (6, 7)
    assert_array_equal(model.columns_[:3].sum(axis=0), 1)
    assert model.get_submatrix(4, X.to_numpy()).shape == model.get_shape(4)
    assert list(model.feature_names_in_) == list("abcdefg")
    assert_array_equal(model.n_column_groups_, [3, 3])
    assert "component 1" in model.describe()
    assert all(row[0] == 0 for row in model.column_labels_)


def test_a_file_brings_it_back(tmp_path: Path) -> None:
    X = factor_rows(18)
    model = quiet(X, n_components=2, n_column_groups=3, random_state=0)
    model.save(tmp_path / "factor")
    found = load(tmp_path / "factor")
    assert_array_equal(found.predict_proba(X), model.predict_proba(X))
    assert found.n_parameters_ == model.n_parameters_


def test_select_takes_it() -> None:
    X = np.concatenate([factor_rows(19, G=1), factor_rows(20, G=1) + 20 * factor_rows(19, G=1).std(axis=0)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = select(X, [1, 2], [2, 3], estimator=FactorBiclustering(model="UUUU", random_state=0))
    assert table.best_.n_components == 2


def test_the_portfolio_keeps_its_best_start_and_tells_of_all() -> None:
    X, told = factor_rows(21), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FactorBiclustering(2, 3, init="portfolio", random_state=0).fit(X, callback=told.append)
    assert len(model.starts_) >= 8
    assert {progress.start for progress in told} == {name for name, _, _ in model.starts_}
    assert_allclose(model.log_likelihood_trace_[-1], max(value for _, value, _ in model.starts_))


def test_a_warm_start_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    X = factor_rows(22, apart=0.3)
    model = FactorBiclustering(2, 3, max_iter=3, warm_start=True, random_state=0, verbose=1)
    with pytest.warns(ConvergenceWarning, match="max_iter=3"):
        model.fit(X)
    assert "kmeans 1: iteration 0" in capsys.readouterr().out
    assert model.outcome_ == "iteration limit"
    before = model.log_likelihood_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.set_params(max_iter=100).fit(X)
        assert_allclose(model.log_likelihood_trace_[0], before)
        # Another model cannot go on from these parameters, but from these row clusters.
        model.set_params(model="CCCC", n_column_groups=2).fit(X)
    assert model.n_column_groups_[0] == 2


def test_an_interrupt_keeps_the_best_so_far() -> None:
    def stop(progress: Any) -> None:
        if progress.iteration == 3:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted after 4 iterations"):
        model = FactorBiclustering(2, 3, random_state=0).fit(factor_rows(22, apart=0.3), callback=stop)
    assert model.outcome_ == "interrupted"


# Awkward tables.

AWKWARD: dict[str, tuple[Matrix, dict[str, Any]]] = {
    "two rows": (factor_rows(0)[:2], {}),
    "a row per component": (factor_rows(0)[:3], {"n_components": 3}),
    "duplicated rows": (np.repeat(factor_rows(0)[:5], 8, axis=0), {"n_components": 3}),
    "duplicated columns": (factor_rows(0)[:, [0, 0, 0, 1, 1, 2, 2]], {"n_components": 2}),
    "opposite columns": (factor_rows(0)[:, [0, 0, 1, 1]] * [1, -1, 1, -1], {"n_column_groups": 2}),
    "more columns than rows": (np.random.default_rng(0).standard_normal((8, 300)), {"n_components": 2}),
    "one column": (factor_rows(0)[:, :1], {"n_column_groups": 1, "n_components": 2}),
    "two columns": (factor_rows(0)[:, :2], {"n_components": 2}),
    "a group per column": (factor_rows(0), {"n_column_groups": 7, "n_components": 2}),
    "far apart": (factor_rows(0) + 1e6 * (np.arange(120) < 60)[:, None], {"n_components": 2}),
    "far from zero": (factor_rows(0) + 1e8, {"n_components": 2}),
    "huge and tiny": (factor_rows(0) * 10.0 ** np.linspace(-100, 100, 7), {"n_components": 2}),
    "too many components": (factor_rows(0), {"n_components": 12, "init": "random"}),
    "binary": ((factor_rows(0) > 0).astype(float), {"n_components": 3}),
}


@pytest.mark.parametrize("letters", ["UUUU", "UCUU", "CICC"])
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_tables_have_finite_answers(name: str, letters: str) -> None:
    X, given = AWKWARD[name]
    model = quiet(X, model=letters, max_iter=50, random_state=0, **given)
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.means_).all() and (model.noise_variances_ > 0).all()
    assert (np.diff(model.log_likelihood_trace_) > -1e-6 * (1 + np.abs(model.log_likelihood_trace_[-1]))).all()
    assert all(len(np.unique(row)) == model.n_column_groups_[0] for row in model.column_labels_)


def test_a_component_that_rests_on_the_floor_is_named() -> None:
    X = np.concatenate([factor_rows(0, n=30, G=1), np.full((2, 7), 50.0) + np.array([[0.0], [1e-3]])])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GroupingWarning)
        with pytest.warns(
            ConvergenceWarning, match=r"component 1 has 2\.0 rows and its noise variances rest on min_noise"
        ):
            model = FactorBiclustering(2, 2, init=[0] * 30 + [1] * 2).fit(X)
    assert model.outcome_ == "degenerate"


# Refusals.


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"model": "UCU"}, "model='UCU' must be four letters"),
        ({"model": "UXUU"}, "model='UXUU' must be four letters"),
        ({"model": "IUUU"}, "model='IUUU' must be four letters, U or C each (I in second place fixes T = I)"),
        ({"model": None}, "model=None must be four letters"),
        ({"n_column_groups": 8}, "n_column_groups=8 exceeds the 7 columns of X"),
        ({"n_column_groups": 0}, "n_column_groups=0 must be at least 1"),
        ({"n_column_groups": "auto"}, "n_column_groups='auto' must be a whole number"),
        ({"n_components": 0}, "n_components=0 must be a whole number that is at least 1"),
        ({"n_components": 121}, "n_components=121 exceeds the n_samples=120 rows of X"),
        ({"min_noise": 0}, "min_noise=0 must be between 0 and 1"),
        ({"min_noise": "a"}, "min_noise='a' must be a number"),
        ({"tol": -1}, "tol=-1 must be a number that is at least 0"),
        ({"init": "best"}, "init='best' must be one of"),
        ({"max_iter": 0}, "max_iter=0 must be a whole number"),
    ],
)
def test_refusals_say_what_is_wrong(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        FactorBiclustering(**given).fit(factor_rows(0))
    assert str(error.value).startswith(sentence)


def test_a_constant_column_is_named() -> None:
    X = pd.DataFrame(factor_rows(0), columns=list("abcdefg")).assign(e=3.0)
    with pytest.raises(ValueError, match=r"column 4 \('e'\) is constant at 3"):
        FactorBiclustering(2).fit(X)


def test_unfitted_it_says_so() -> None:
    for call in (lambda m: m.predict(factor_rows(0)), lambda m: m.covariances_, lambda m: m.n_parameters_):
        with pytest.raises(NotFittedError):
            call(clone(FactorBiclustering()))
