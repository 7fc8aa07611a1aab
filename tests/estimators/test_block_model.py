"""GaussianBiclustering with shapes of blocks: dense, counted by hand, stored, resumed, from any source."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import oracles
import pytest
from fits import quiet
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from strategies import Matrix

from blockmix import BlockDiagonalCovariance, GaussianBiclustering, load
from blockmix.blocks.shapes import FactorBlock, TreeBlock, offered
from blockmix.em.loop import Progress
from blockmix.partition import Partition

SHAPES: list[Any] = ["auto", "full", 1, 2, "tree"]
every_shape = pytest.mark.parametrize("shape", SHAPES)
every_sharing = pytest.mark.parametrize("shared", [False, True])
every_number = pytest.mark.parametrize("n_groups", ["auto", 3])


def table(seed: int = 0, n_rows: int = 60, dtype: Any = float, apart: float = 1.0) -> Matrix:
    """Two clusters; a module of one factor, one of two factors, a chain and a column alone, in units of their own."""
    rng = np.random.default_rng(seed)
    parts = []
    for place in (0, apart):
        X = rng.standard_normal((n_rows, 16))
        X[:, :5] += rng.standard_normal((n_rows, 1)) * rng.choice([-1.2, 1.2], 5)
        X[:, 5:11] += rng.standard_normal((n_rows, 2)) @ rng.standard_normal((2, 6))
        for j in range(12, 15):
            X[:, j] = 0.9 * X[:, j - 1] + 0.5 * X[:, j]
        parts.append(X + place)
    values = np.concatenate(parts)[rng.permutation(2 * n_rows)]
    return (values * np.linspace(0.5, 4, 16) + np.arange(16)).astype(dtype)


def count(c: int, shape: str) -> int:
    """Free parameters of a block, counted by hand."""
    by_name = {"full": c * (c + 1) // 2, "1 factor": 2 * c, "2 factors": 3 * c - 1, "tree": 2 * c - 1}
    return by_name[shape]


def distinct(model: GaussianBiclustering) -> range:
    return range(1 if model.shared_covariance else model.n_components)


@every_shape
@every_sharing
@every_number
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_fit_is_monotone_dense_and_counted(
    shape: Any, shared: bool, n_groups: Any, dtype: Any, weighted: bool
) -> None:
    # Red if a regroup takes a shape it did not judge, a state goes to another block, or the price counts a full block.
    X = table(1, dtype=dtype)
    weights = np.random.default_rng(0).integers(1, 4, len(X)).astype(float) if weighted else np.ones(len(X))
    model = quiet(
        X,
        sample_weight=weights,
        n_column_groups=n_groups,
        block_model=shape,
        shared_covariance=shared,
        rounding=False,
        random_state=0,
        tol=1e-6,
    )
    exact = dtype == np.float64
    trace = model.log_likelihood_trace_
    assert (np.diff(trace) >= -(1e-10 if exact else 1e-5) * np.abs(trace[1:])).all()

    covariances = np.stack([block.dense() for block in model.blocks_])
    joint = oracles.log_joint(X.astype(float), model._parameters.weights, model._parameters.means, covariances)
    density = oracles.responsibilities(joint)[1]
    assert model.log_likelihood_ == pytest.approx(weights @ density, rel=1e-9 if exact else 1e-5)
    assert weights @ model.score_samples(X) == pytest.approx(weights @ density, rel=1e-9 if exact else 1e-5)

    blocks = [
        (int(c), name)
        for g in distinct(model)
        for c, name in zip(np.bincount(model.column_labels_[g]), model.block_shapes_[g], strict=True)
    ]
    allowed = {"auto": {"full", "1 factor", "2 factors", "tree"}, "full": {"full"}, "tree": {"full", "tree"}}
    assert {name for _, name in blocks} <= allowed.get(shape, {"full", f"{shape} factor{'s' * (shape != 1)}"})
    common = [model.common_loadings_[g].shape[1] for g in distinct(model)]
    loadings = sum(16 * q - q * (q - 1) // 2 for q in common)
    assert model.n_parameters_ == 1 + 2 * 16 + sum(count(c, name) for c, name in blocks) + loadings
    if n_groups == 3:
        assert (model.n_column_groups_ == 3).all() and model.partition_price_ == 0
    else:
        price = sum(oracles.partition_price(model.column_labels_[g]) for g in distinct(model))
        edges = 1.5 * np.log(16)  # each, with the price of the group
        groups = {c: np.log(16) + sum(np.log(16 / j) for j in range(1, c)) for c in range(3, 17)}
        price += sum((c - 1) * edges - groups[c] for c, name in blocks if name == "tree")
        whole = np.log(16) + sum(np.log(16 / j) for j in range(1, 16))  # one group is a choice unless it is full
        price += whole * sum(c == 16 and name != "full" for c, name in blocks)
        assert model.partition_price_ == pytest.approx(price)
    price = 0.5 * np.log(weights.sum()) * model.n_parameters_ + model.partition_price_
    assert model.bic(X, weights) == pytest.approx(-2 * (model.log_likelihood_ - price), rel=1e-9)


@every_shape
@every_sharing
def test_the_trace_ends_at_the_objective(shape: Any, shared: bool) -> None:
    # Log-likelihood, penalty of the ridge, price: literal. Red if the price of the structure of a tree is left out.
    X = table(2)
    model = quiet(
        X, block_model=shape, shared_covariance=shared, rounding=False, random_state=0, tol=1e-9, max_iter=20_000
    )
    assert model.converged_
    share, scale = len(X) / 2 * model._ridge, X.std(axis=0)
    covariances = np.stack([block.dense() for block in model.blocks_]) / np.outer(scale, scale)
    paid = 0.5 * np.log(len(X)) * (model.n_parameters_ - 1 - 2 * 16) + model.partition_price_
    literal = model.log_likelihood_ + oracles.penalty(covariances, 0.0, share) - paid
    assert model.log_likelihood_trace_[-1] == pytest.approx(literal, abs=1e-4)


@every_shape
@every_sharing
@every_number
def test_what_is_saved_is_what_is_loaded(shape: Any, shared: bool, n_groups: Any, tmp_path: Path) -> None:
    X = table(3)
    model = quiet(X, n_column_groups=n_groups, block_model=shape, shared_covariance=shared, random_state=0)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.get_params() == model.get_params()
    assert again.block_shapes_ == model.block_shapes_
    assert again.n_parameters_ == model.n_parameters_
    assert again.partition_price_ == model.partition_price_
    assert_array_equal(again.score_samples(X), model.score_samples(X))
    assert_array_equal(again.covariances_, model.covariances_)
    for one, other in zip(again.loadings_, model.loadings_, strict=True):
        for a, b in zip(one, other, strict=True):
            assert (a is None) == (b is None)
            assert a is None or np.array_equal(a, b)


class Stopped(Exception):
    """Ends a fit where it is."""


@pytest.mark.parametrize("shape", ["auto", 2, "tree"])
@every_sharing
@pytest.mark.parametrize("iteration", [1, 4])
def test_a_stopped_fit_goes_on_to_the_same_result(shape: Any, shared: bool, iteration: int, tmp_path: Path) -> None:
    # To the last bit. Red if the states of the blocks are not in the checkpoint.
    X, path = table(6), tmp_path / "fit"
    given: dict[str, Any] = {
        "block_model": shape,
        "shared_covariance": shared,
        "random_state": 0,
        "tol": 1e-9,
        "max_iter": 40,
    }

    def callback(progress: Progress) -> None:
        if progress.iteration == iteration:
            raise Stopped

    expected = quiet(X, **given)
    with pytest.raises(Stopped):
        GaussianBiclustering(2, **given).fit(X, callback=callback, checkpoint=path)
    found = quiet(X, checkpoint=path, **given)
    assert_array_equal(found.log_likelihood_trace_, expected.log_likelihood_trace_)
    assert_array_equal(found.covariances_, expected.covariances_)
    assert found.block_shapes_ == expected.block_shapes_


@every_shape
@every_sharing
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_file_is_fitted_as_an_array_is(shape: Any, shared: bool, dtype: Any, tmp_path: Path) -> None:
    X = table(7, dtype=dtype)
    np.save(tmp_path / "X.npy", X)
    given: dict[str, Any] = {"block_model": shape, "shared_covariance": shared, "random_state": 0}
    one, other = quiet(X, **given), quiet(tmp_path / "X.npy", **given)
    assert one.block_shapes_ == other.block_shapes_
    assert_array_equal(one.column_labels_, other.column_labels_)
    rtol = 1e-9 if dtype == np.float64 else 1e-4
    assert other.log_likelihood_ == pytest.approx(one.log_likelihood_, rel=rtol)
    assert_allclose(other.covariances_, one.covariances_, rtol=rtol, atol=rtol * np.abs(one.covariances_).max())


@every_shape
@every_sharing
@every_number
def test_weight_two_is_a_row_twice(shape: Any, shared: bool, n_groups: Any) -> None:
    X = table(8)
    rng = np.random.default_rng(0)
    weights = rng.integers(1, 3, len(X))
    init = (X[:, 0] > np.median(X[:, 0])).astype(int)
    given: dict[str, Any] = {
        "n_column_groups": n_groups,
        "block_model": shape,
        "shared_covariance": shared,
        "rounding": False,
    }
    once = quiet(X, sample_weight=weights, init=init, **given)
    twice = quiet(np.repeat(X, weights, axis=0), init=np.repeat(init, weights), **given)
    assert once.block_shapes_ == twice.block_shapes_
    assert once.n_iter_ == twice.n_iter_
    # EM multiplies the rounding of a sum by ten in about ten iterations.
    assert_allclose(once.log_likelihood_trace_[:20], twice.log_likelihood_trace_[:20], rtol=1e-9)
    assert_allclose(once.log_likelihood_trace_, twice.log_likelihood_trace_, rtol=1e-7)
    assert_allclose(once.covariances_, twice.covariances_, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("q", [1, 2])
@every_sharing
def test_loadings_are_those_of_the_covariance_in_the_units_of_x(q: int, shared: bool) -> None:
    # The columns of a group in order: off the diagonal ΛΛᵀ is the block. Red if a state is not scaled or is permuted.
    X = table(9)
    model = quiet(X, n_column_groups=2, block_model=q, shared_covariance=shared, random_state=0)
    assert len(model.loadings_) == 2
    seen = 0
    for g, groups in enumerate(model.loadings_):
        for k, L in enumerate(groups):
            columns = np.flatnonzero(model.column_labels_[g] == k)
            if L is None:
                assert model.block_shapes_[g][k] == "full"
                continue
            assert L.shape == (len(columns), q)
            block = model.covariances_[g][np.ix_(columns, columns)]
            off = ~np.eye(len(columns), dtype=bool)
            assert_allclose((L @ L.T)[off], block[off], rtol=1e-7, atol=1e-9)
            assert (block.diagonal() > (L**2).sum(axis=1)).all()
            seen += 1
    assert seen


@pytest.mark.parametrize("shape", ["auto", 1, 2, "tree"])
def test_scaling_and_permuting_columns_do_so_to_the_fit(shape: Any) -> None:
    X = table(10)
    rng = np.random.default_rng(0)
    factors, order = 10.0 ** rng.uniform(-3, 3, 16), rng.permutation(16)
    init = (X[:, 0] > np.median(X[:, 0])).astype(int)
    one = quiet(X, block_model=shape, init=init)
    other = quiet((X * factors)[:, order], block_model=shape, init=init)
    assert [Partition(labels[order]) for labels in one.column_labels_] == [Partition(k) for k in other.column_labels_]
    expected = one.log_likelihood_ - len(X) * np.log(factors).sum()
    assert other.log_likelihood_ == pytest.approx(expected, abs=1e-2)


def test_a_sample_has_the_covariance_of_the_shape() -> None:
    X = table(11, n_rows=100)
    model = quiet(X, n_components=1, block_model=1, n_column_groups=2)
    drawn, _ = model.sample(200_000)
    scale = np.sqrt(model.covariances_[0].diagonal())
    assert_allclose(np.cov(drawn.T) / np.outer(scale, scale), model.covariances_[0] / np.outer(scale, scale), atol=0.02)


@pytest.mark.parametrize("seed", range(4))
def test_a_settled_mixture_of_trees_has_the_best_trees_of_its_rows(seed: int) -> None:
    # Two chains of other orders. Red if the edges of the first responsibilities are kept.
    rng = np.random.default_rng(seed)
    parts = []
    for g in range(2):
        X, order = rng.standard_normal((80, 8)), rng.permutation(8)
        for a, b in pairwise(order):
            X[:, b] = 0.7 * X[:, a] + 0.7 * X[:, b]
        parts.append(X + 0.6 * g)
    X = np.concatenate(parts)
    given: dict[str, Any] = {"n_column_groups": 1, "block_model": "tree", "rounding": False, "ridge": 0}
    model = quiet(X, random_state=seed, tol=1e-9, max_iter=2000, **given)
    z, tree = model.predict_proba(X), TreeBlock()
    for g in range(2):
        n = z[:, g].sum()
        centered = X - z[:, g] @ X / n
        S = (centered.T * z[:, g]) @ centered / n
        found = model.covariances_[g]
        deviance = np.linalg.slogdet(found)[1] + np.trace(np.linalg.solve(found, S))
        assert n / 2 * (deviance - tree.fit(S).deviance) < 0.01


def test_more_factors_than_columns_are_a_full_block() -> None:
    # Red if the count of parameters, which turns negative far beyond c factors, makes such blocks look cheap.
    X = np.random.default_rng(0).standard_normal((60, 4)) @ np.kron(np.eye(2), [[1, 1], [0, 1]])
    assert all(not offered(FactorBlock(q), c) for c in range(1, 8) for q in range(c, 20))
    for model in GaussianBiclustering(block_model=9), BlockDiagonalCovariance(block_model=9):
        expected = clone(model).set_params(block_model="full").fit(X)
        assert model.fit(X).score(X) == expected.score(X)


@pytest.mark.parametrize("wrong", ["chain", 0, 1.5, None])
@every_number
def test_an_unknown_shape_is_refused(wrong: Any, n_groups: Any) -> None:
    with pytest.raises(ValueError, match=r"block_model=.* must be one of auto, full, tree"):
        GaussianBiclustering(1, n_groups, block_model=wrong).fit(table())
