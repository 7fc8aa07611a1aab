"""BlockDiagonalCovariance: scikit-learn's contract, its corners, and what changes nothing in it."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import oracles
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.covariance import EmpiricalCovariance
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks
from strategies import Matrix, block_rows, rescaled, seeds

from blockmix import BlockDiagonalCovariance, GroupingWarning
from blockmix.grouping import BestCut, GreedyGrouping, HierarchicalGrouping, RelaxedGrouping, SilhouetteRule
from blockmix.partition import Partition

TRUTH = Partition([0, 0, 0, 0, 1, 1, 1, 2])

SETTINGS: dict[str, dict[str, Any]] = {
    "auto": {},
    "silhouette": {"n_groups": "silhouette", "grouping": HierarchicalGrouping("single", "profile")},
    "factor": {"n_groups": 2, "block_model": 1},
    "greedy": {"grouping": "greedy"},
    "relaxed": {"grouping": "relaxed", "random_state": 0},
}
every_setting = pytest.mark.parametrize("setting", SETTINGS)


def rows(seed: int = 0, n_rows: int = 120) -> Matrix:
    X = block_rows(np.random.default_rng(seed), n_rows, TRUTH)
    return X + np.arange(TRUTH.n_columns)


def fitted(X: Any, sample_weight: Any = None, **parameters: Any) -> BlockDiagonalCovariance:
    """Fit without the warnings that the answer is one group or none, which small tables often give."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GroupingWarning)
        return BlockDiagonalCovariance(**parameters).fit(X, sample_weight=sample_weight)


@pytest.mark.filterwarnings("ignore::blockmix.GroupingWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([BlockDiagonalCovariance(**parameters) for parameters in SETTINGS.values()])
def test_scikit_learns_checks(estimator: BlockDiagonalCovariance, check: Callable[[object], None]) -> None:
    check(estimator)


def test_blocks_are_found_and_the_rest_is_zero() -> None:
    X = rows()
    model = BlockDiagonalCovariance(block_model="full").fit(X)
    S = np.cov(X.T, ddof=0)
    assert model.partition_ == TRUTH
    assert model.n_groups_ == 3
    assert np.array_equal(model.column_labels_, TRUTH.labels)
    assert model.linkage_.shape == (7, 4)
    assert_allclose(model.location_, X.mean(axis=0))
    expected = oracles.block_diagonal(S, TRUTH.labels) + 1e-6 * np.diag(np.diag(S))
    assert_allclose(model.covariance_, expected, atol=1e-12)
    assert_allclose(model.precision_ @ model.covariance_, np.eye(8), atol=1e-9)
    assert np.array_equal(model.get_precision(), model.precision_)
    assert_allclose(model.blocks_.blocks[0], expected[:4, :4])


@given(seeds, st.integers(2, 40), st.integers(1, 6))
def test_one_group_is_the_empirical_covariance_and_p_groups_its_diagonal(seed: int, n_rows: int, p: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows + p, p)) * rng.uniform(0.1, 10, p) + rng.standard_normal(p)
    ridged = BlockDiagonalCovariance(1, ridge=0.25).fit(X).covariance_  # relative to each variance
    S = EmpiricalCovariance().fit(X).covariance_
    assert_allclose(ridged, S + 0.25 * np.diag(np.diag(S)), rtol=1e-7, atol=1e-10)
    full, diagonal = (BlockDiagonalCovariance(n_groups, ridge=0).fit(X) for n_groups in (1, p))
    assert_allclose(full.covariance_, S, rtol=1e-7, atol=1e-10)
    assert_allclose(full.location_, X.mean(axis=0), atol=1e-12)
    assert_allclose(diagonal.covariance_, np.diag(np.diag(S)), rtol=1e-10)


@pytest.mark.parametrize("parameters", [{"n_groups": 3}, {"n_groups": 1}])
def test_score_distance_and_norm_are_scikit_learns_for_the_same_covariance(parameters: dict[str, Any]) -> None:
    model = BlockDiagonalCovariance(**parameters).fit(rows())
    twin = EmpiricalCovariance().fit(rows())
    twin.location_ = model.location_
    twin.covariance_ = model.covariance_
    twin.precision_ = np.linalg.inv(model.covariance_)
    new = rows(seed=1, n_rows=30)
    assert model.score(new) == pytest.approx(twin.score(new))
    assert_allclose(model.mahalanobis(new), twin.mahalanobis(new), rtol=1e-8)
    for norm in ("frobenius", "spectral"):
        for scaling in (True, False):
            for squared in (True, False):
                options = {"norm": norm, "scaling": scaling, "squared": squared}
                assert model.error_norm(np.eye(8), **options) == pytest.approx(twin.error_norm(np.eye(8), **options))


@every_setting
def test_a_weight_of_two_is_a_repeated_row(setting: str) -> None:
    # Red if the number of rows is counted without the weights anywhere: K and prices depend on it.
    X = rows(n_rows=40)
    counts = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = fitted(X, sample_weight=counts, **SETTINGS[setting])
    repeated = fitted(np.repeat(X, counts, axis=0), **SETTINGS[setting])
    assert weighted.partition_ == repeated.partition_
    assert_allclose(weighted.location_, repeated.location_, atol=1e-12)
    assert_allclose(weighted.covariance_, repeated.covariance_, atol=1e-10)
    # Without weights it is another estimate, so the three lines above can fail.
    assert np.abs(fitted(X, **SETTINGS[setting]).covariance_ - weighted.covariance_).max() > 0.01


@every_setting
def test_permuting_and_rescaling_columns_permutes_the_groups(setting: str) -> None:
    rng = np.random.default_rng(2)
    X = rows(n_rows=60)
    permutation, factors = rng.permutation(8), rescaled(rng, 8)
    before, after = fitted(X, **SETTINGS[setting]), fitted((X * factors)[:, permutation], **SETTINGS[setting])
    assert after.partition_ == Partition(before.column_labels_[permutation])
    expected = (before.covariance_ * np.outer(factors, factors))[np.ix_(permutation, permutation)]
    deviations = np.sqrt(np.diag(expected))
    assert_allclose(
        after.covariance_ / np.outer(deviations, deviations), expected / np.outer(deviations, deviations), atol=1e-9
    )


@every_setting
def test_float32_stays_float32(setting: str) -> None:
    X = rows()
    settings = SETTINGS[setting] | {"common_factors": 0}  # whose EM ends by a tolerance
    model, wide = fitted(X.astype(np.float32), **settings), fitted(X, **settings)
    for found in (model.location_, model.covariance_, model.precision_, model.mahalanobis(X)):
        assert found.dtype == np.float32
    assert wide.covariance_.dtype == np.float64
    assert model.partition_ == wide.partition_
    assert_allclose(model.covariance_, wide.covariance_, atol=1e-4)
    assert model.score(X) == pytest.approx(wide.score(X), rel=1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("grouping", ["hierarchical", "greedy", "relaxed"])
@pytest.mark.parametrize("ridge", [0.0, 1e-6])
def test_singular_tables_are_fitted(dtype: type[np.floating], grouping: str, ridge: float) -> None:
    rng = np.random.default_rng(0)
    copies = np.repeat(rng.standard_normal((30, 3)), 4, axis=1).astype(dtype)
    wide = rng.standard_normal((6, 15)).astype(dtype)
    for X in (copies, wide):
        for n_groups in (1, 2, 5, X.shape[1], "auto", "silhouette"):
            model = fitted(X, n_groups=n_groups, grouping=grouping, ridge=ridge, random_state=0)
            assert model.n_groups_ == n_groups or isinstance(n_groups, str)
            assert np.isfinite(model.score(X))
            assert np.isfinite(model.precision_).all()


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_keep_their_column_names(frame: Callable[[dict[str, Matrix]], Any]) -> None:
    names = ["height", "weight", "waist", "hip", "age", "income", "rent", "luck"]
    X = frame(dict(zip(names, rows().T, strict=True)))
    model = BlockDiagonalCovariance().fit(X)
    assert model.feature_names_in_.tolist() == names
    assert model.groups_ == [names[:4], names[4:7], names[7:]]
    assert model.describe().splitlines() == [
        "Eight columns.",
        "Two column groups; one column is alone.",
        "  Group 1 (4): height, weight, waist, hip",
        "  Group 2 (3): age, income, rent",
        "  alone (1): luck",
    ]
    plain = BlockDiagonalCovariance().fit(rows())
    assert plain.groups_[1] == ["x4", "x5", "x6"]
    assert model.score(X) == pytest.approx(plain.score(rows()))
    assert_allclose(model.covariance_, plain.covariance_)


@every_setting
def test_clone_parameters_and_pickle(setting: str) -> None:
    parameters = SETTINGS[setting]
    model = fitted(rows(), **parameters)
    copied = clone(model)
    assert not hasattr(copied, "covariance_")
    assert {name: str(value) for name, value in copied.get_params().items()} == {
        name: str(value) for name, value in model.get_params().items()
    }
    assert {name: copied.get_params()[name] for name in parameters if isinstance(parameters[name], str | float)} == {
        name: value for name, value in parameters.items() if isinstance(value, str | float)
    }
    again = pickle.loads(pickle.dumps(model))
    assert again.partition_ == model.partition_
    assert np.array_equal(again.covariance_, model.covariance_)
    assert again.score(rows()) == model.score(rows())


def test_grid_search_reaches_into_the_grouping() -> None:
    search = GridSearchCV(
        BlockDiagonalCovariance(2, grouping=HierarchicalGrouping()),
        {"n_groups": [1, 2, 3], "grouping__distance": ["correlation", "profile"]},
        cv=3,
    ).fit(rows(n_rows=60))
    assert search.best_params_["n_groups"] == 3


def test_a_grouping_object_and_its_name_agree() -> None:
    X = rows()
    for name, grouping in (("hierarchical", HierarchicalGrouping()), ("greedy", GreedyGrouping())):
        assert fitted(X, n_groups=3, grouping=name).partition_ == fitted(X, n_groups=3, grouping=grouping).partition_
    assert fitted(X, n_groups=3, grouping="greedy").linkage_ is None
    assert fitted(X, n_groups=SilhouetteRule(candidates=[2])).n_groups_ == 2
    assert fitted(X, n_groups=BestCut("full")).partition_ == TRUTH


def test_parameters_are_not_changed_by_fit() -> None:
    grouping = RelaxedGrouping(random_state=3)
    model = BlockDiagonalCovariance(3, grouping=grouping, random_state=5).fit(rows())
    assert model.grouping is grouping
    assert grouping.random_state == 3
    assert model.n_groups == 3


def test_one_group_or_none_is_told() -> None:
    rng = np.random.default_rng(0)
    with pytest.warns(GroupingWarning) as warned:
        BlockDiagonalCovariance().fit(rng.standard_normal((50, 6)))
    assert [str(one.message) for one in warned] == [
        "n_groups='auto' found no groups: no columns of the 6 are correlated beyond chance, "
        "so the covariance is diagonal; give a number of groups to split them all the same"
    ]
    with pytest.warns(GroupingWarning) as warned:
        BlockDiagonalCovariance().fit(block_rows(rng, 50, Partition.single(6)))
    assert [str(one.message) for one in warned] == [
        "n_groups='auto' found one group: all 6 columns are correlated with each other, and their block is: "
        "1 factor; give a number of groups to split them all the same"
    ]
    assert warned[0].filename == __file__  # the line that called fit, not ours


@pytest.mark.parametrize("n_groups", [1, 6])
def test_a_number_that_was_asked_for_is_not_told(n_groups: int) -> None:
    BlockDiagonalCovariance(n_groups).fit(np.random.default_rng(0).standard_normal((50, 6)))  # warnings are errors


def test_a_search_cut_short_is_told() -> None:
    X = np.random.default_rng(0).standard_normal((40, 12))
    with pytest.warns(ConvergenceWarning) as warned:
        BlockDiagonalCovariance(3, grouping=GreedyGrouping(max_sweeps=1)).fit(X)
    assert [str(one.message) for one in warned] == [
        "grouping=GreedyGrouping(max_sweeps=1) stopped at its iteration limit: raise the limit, the groups may improve"
    ]


def test_too_few_rows_are_told() -> None:
    with pytest.warns(GroupingWarning, match="4 rows are too few to tell correlation from chance among 5 columns"):
        BlockDiagonalCovariance().fit(np.random.default_rng(0).standard_normal((4, 5)))


@pytest.mark.parametrize("kind", ["t2", "lognormal", "rare", "wild row"])
def test_a_copy_of_a_column_shares_its_group(kind: str) -> None:
    # Red if a heavy tail shrinks r = 1: it then looked like chance.
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = {
            "t2": rng.standard_t(2, (50, 10)),
            "lognormal": np.exp(2 * rng.standard_normal((50, 10))),
            "rare": rng.poisson(0.15, (50, 10)) + 0.0,
            "wild row": rng.standard_normal((50, 10)) * np.r_[1000, np.ones(49)][:, None],
        }[kind]
        X = X[:, X.std(axis=0) > 0]
        labels = fitted(np.column_stack([X, X[:, 0]])).column_labels_
        assert labels[0] == labels[-1]


@pytest.mark.parametrize("q", [1, 2])
def test_blocks_of_factors_are_those_of_the_shape(q: int) -> None:
    # Loadings in the units of X: ΛΛᵀ + Ψ is the block, with the variances of the rows.
    X = rows() * np.logspace(-1, 1, 8)
    model = BlockDiagonalCovariance(1, block_model=q, ridge=0).fit(X)
    loadings = model.loadings_[0]
    assert model.block_shapes_ == (f"{q} factor{'s' * (q > 1)}",)
    off = ~np.eye(8, dtype=bool)
    assert_allclose(model.covariance_[off], (loadings @ loadings.T)[off], rtol=1e-8)
    assert_allclose(np.diag(model.covariance_), X.var(axis=0), rtol=1e-3)
    assert model.column_table()["size"].tolist() == [8] * 8
    strongest = loadings[:, 0] / np.sqrt(np.diag(model.covariance_))
    assert_allclose(model.column_table()["loading"], strongest)


def test_ranks_choose_the_groups_and_moments_make_the_blocks() -> None:
    X = np.exp(2 * rows())
    ranked = BlockDiagonalCovariance(block_model="full", ridge=0).fit(X)
    assert ranked.partition_ == TRUTH
    S = np.cov(X.T, ddof=0)
    assert_allclose(ranked.covariance_, oracles.block_diagonal(S, TRUTH.labels), rtol=1e-9)


def test_nothing_is_known_before_fit() -> None:
    model = BlockDiagonalCovariance()
    for name in ("covariance_", "precision_", "column_labels_", "n_groups_", "groups_", "partition_", "blocks_"):
        assert not hasattr(model, name)
    for call in (model.describe, model.get_precision, lambda: model.score(rows()), lambda: model.mahalanobis(rows())):
        with pytest.raises(NotFittedError):
            call()


def with_entry(value: object) -> Any:
    X = rows().astype(type(value) if isinstance(value, str) else float)
    X[3, 1] = value
    return X


DEGENERATE: dict[str, tuple[dict[str, Any], Any, Any, str]] = {
    "inf": (
        {},
        with_entry(np.inf),
        None,
        "X has infinity in column 1 (1): the number of such cells is in brackets; fill or drop them",
    ),
    "text": ({}, [["a", "b"], ["c", "d"]], None, "could not convert string to float: 'a'"),
    "K < 1": ({"n_groups": 0}, rows(), None, "n_groups=0 must be at least 1"),
    "K > p": ({"n_groups": 9}, rows(), None, "n_groups=9 exceeds the 8 columns of X"),
    "K = 2.5": (
        {"n_groups": 2.5},
        rows(),
        None,
        "n_groups=2.5 must be a whole number, one of auto, silhouette, or a rule such as "
        "SilhouetteRule(candidates=range(2, 5))",
    ),
    "K = True": ({"n_groups": True}, rows(), None, "n_groups=True must be a whole number of column groups"),
    "unknown rule": (
        {"n_groups": "gap"},
        rows(),
        None,
        "n_groups='gap' must be a whole number, one of auto, silhouette, or a rule such as "
        "SilhouetteRule(candidates=range(2, 5))",
    ),
    "unknown grouping": (
        {"grouping": "ward"},
        rows(),
        None,
        "grouping='ward' must be one of hierarchical, greedy, relaxed or an object with a method `group`",
    ),
    "unknown linkage": (
        {"n_groups": 2, "grouping": HierarchicalGrouping("ward")},
        rows(),
        None,
        "linkage='ward' must be one of average, single, complete",
    ),
    "unknown distance": (
        {"n_groups": 2, "grouping": HierarchicalGrouping(distance="l2")},
        rows(),
        None,
        "distance='l2' must be one of correlation, profile",
    ),
    "one row": (
        {},
        rows()[:1],
        None,
        "Found array with 1 sample(s) (shape=(1, 8)) while a minimum of 2 is required by BlockDiagonalCovariance.",
    ),
    "no rows": (
        {},
        rows()[:0],
        None,
        "Found array with 0 sample(s) (shape=(0, 8)) while a minimum of 2 is required by BlockDiagonalCovariance.",
    ),
    "no columns": (
        {},
        rows()[:, :0],
        None,
        "Found array with 0 feature(s) (shape=(120, 0)) while a minimum of 1 is required by BlockDiagonalCovariance.",
    ),
    "one row twice": (
        {},
        rows()[[0, 0], 1:3],
        None,
        f"column 0 ('x0') (and 1 more) is constant at {rows()[0, 1]:g}: remove it, it has no correlation with others",
    ),
    "ridge": ({"ridge": -1}, rows(), None, "ridge=-1 must be a number that is at least 0"),
    "ridge NaN": ({"ridge": np.nan}, rows(), None, "ridge=nan must be a number that is at least 0"),
    "shape": (
        {"n_groups": 2, "block_model": "round"},
        rows(),
        None,
        "block_model='round' must be one of auto, full, tree, a number of factors, or an object with the methods of "
        "BlockModel",
    ),
    "negative weights": ({}, rows(), -np.ones(120), "Negative values in data passed to `sample_weight`."),
    "weights all zero": ({}, rows(), np.zeros(120), "Sample weights must contain at least one non-zero number."),
    "weight on one row": (
        {},
        rows(),
        np.eye(120)[0],
        "sample_weight is positive for 1 rows: at least 2 are needed",
    ),
    "constant column": (
        {},
        rows() * [1, 1, 0, 1, 1, 1, 1, 1] + [0, 0, 0.1, 0, 0, 0, 0, 0],
        None,
        "column 2 ('x2') is constant at 0.1: remove it, it has no correlation with others",
    ),
    "constant column by name": (
        {},
        pd.DataFrame({"a": rows()[:, 0], "batch": 7, "c": rows()[:, 1]}),
        None,
        "column 1 ('batch') is constant at 7: remove it, it has no correlation with others",
    ),
    "constant where it weighs": (
        {},
        np.column_stack([np.r_[np.full(60, 2.0), np.arange(60)], np.arange(120)]),
        np.repeat([1.0, 0.0], 60),
        "column 0 ('x0') is constant at 2: remove it, it has no correlation with others",
    ),
}


@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_input_is_refused_with_the_value(case: str) -> None:
    parameters, X, weights, sentence = DEGENERATE[case]
    with pytest.raises(ValueError) as caught:
        BlockDiagonalCovariance(**parameters).fit(X, sample_weight=weights)
    assert str(caught.value).splitlines()[0] == sentence
