"""replicate and plan: groups that are there hold, those that are not are named; the plan finds more with more rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from blockmix import BlockDiagonalCovariance, BlockDiscriminantAnalysis, GaussianBiclustering, plan, replicate
from blockmix.estimators.replication import _gains
from blockmix.partition import FloatArray


def rows(n: int, seed: int) -> FloatArray:
    """Two groups of three columns, the second with one column that goes against it."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 8))
    X[:, :6] += np.repeat(rng.standard_normal((n, 2)), 3, axis=1) * [1, 1, 1, 1, 1, -1]
    return X


MODEL = BlockDiagonalCovariance().fit(rows(200, 0))


@pytest.mark.parametrize(
    ("change", "verdicts"),
    [
        (lambda X, rng: X, ["holds", "holds"]),
        (lambda X, rng: X * np.arange(1, 9) + 5, ["holds", "holds"]),  # other units and means
        (lambda X, rng: np.where(rng.random(X.shape) < 0.1, np.nan, X), ["holds", "holds"]),
        (lambda X, rng: np.column_stack([rng.permuted(X[:, :3], axis=0), X[:, 3:]]), ["not found", "holds"]),
        (lambda X, rng: X * [1, 1, 1, 1, -1, 1, 1, 1], ["holds", "changed"]),  # as strong, of another sign
        (lambda X, rng: X[:5], ["too few rows", "too few rows"]),
        (lambda X, rng: X * [0, 0, 1, 1, 1, 1, 1, 1], ["too few rows", "holds"]),  # constant columns show nothing
    ],
)
def test_verdicts(change: Any, verdicts: list[str]) -> None:
    new = change(rows(150, 1), np.random.default_rng(2))
    found = replicate(MODEL, new, random_state=0)
    assert found.groups["verdict"].tolist() == verdicts
    assert found.clusters["share"].tolist() == [1.0]
    if verdicts == ["holds", "holds"]:
        assert (
            (found.groups["signs"] == 1).all() and (found.groups["gain"] > 0.2).all() and (found.groups["z"] > 1).all()
        )


def test_gains_are_differences_of_log_densities() -> None:
    rng, R = np.random.default_rng(0), np.array([[1, 0.5, 0.2], [0.5, 1, 0.1], [0.2, 0.1, 1]])
    Z, present = rng.standard_normal((20, 3)), np.ones((20, 3))
    expected = multivariate_normal(cov=R).logpdf(Z) - multivariate_normal(cov=np.eye(3)).logpdf(Z)
    assert np.allclose(_gains(Z, present, R), expected)
    present[:, 2] = 0
    pair = multivariate_normal(cov=R[:2, :2]).logpdf(Z[:, :2]) - multivariate_normal(cov=np.eye(2)).logpdf(Z[:, :2])
    assert np.allclose(_gains(Z, present, R), pair)
    assert len(_gains(Z, present * [1, 0, 0], R)) == 0


def test_clusters_and_classes_are_followed() -> None:
    X, y = np.concatenate([rows(150, 0), rows(50, 1) + 8]), np.repeat([0, 1], [150, 50])
    model = GaussianBiclustering(2, random_state=0).fit(X)
    new = np.concatenate([rows(30, 2), rows(90, 3) + 8.5])
    clusters = replicate(model, new, random_state=0).clusters
    small = model.predict(X[:1])[0]
    assert clusters["rows"].tolist() == [30, 90][:: 1 if small == 0 else -1]
    assert clusters["share_fit"].to_numpy() == pytest.approx(model.weights_)
    assert clusters["distance"].max() == pytest.approx(0.5 / np.sqrt(2), abs=0.2)
    by_class = replicate(BlockDiscriminantAnalysis(shared_covariance=False).fit(X, y), new, random_state=0)
    assert by_class.clusters["rows"].tolist() == [30, 90]


def test_a_plan_finds_more_with_more_rows() -> None:
    shares = plan(MODEL, [12, 200], n_draws=4, random_state=0)
    assert shares["n_rows"].tolist() == [12, 200]
    assert shares["groups"].tolist() == sorted(shares["groups"]) and shares["groups"].iloc[1] > 0.8
    X = np.concatenate([rows(100, 0), rows(100, 1) + 8])
    mixture = GaussianBiclustering(2, random_state=0).fit(X)
    before = mixture.sample(3)[0]
    shares = plan(mixture, (3, 120), n_draws=3, random_state=0)
    assert shares["clusters"].iloc[1] == 1 and shares["clusters_se"].iloc[1] == 0
    assert np.array_equal(mixture.sample(3)[0], before)  # the model is not changed
    assert plan(mixture, 120, n_draws=3, random_state=0).equals(plan(mixture, [120], n_draws=3, random_state=0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plan(MODEL, [1]), "n_rows=1 must be a whole number that is at least 2"),
        (lambda: plan(MODEL, [10.5]), r"n_rows=10.5 must be"),
        (lambda: replicate(MODEL, rows(20, 0)[:, :5]), "5 features"),
        (lambda: replicate(MODEL, "rows.npy"), "must be in memory"),
    ],
)
def test_wrong_input_is_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
