"""Inputs that cannot be fitted are refused with the value and the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from fits import LABELS, Fit, quiet, table
from strategies import Matrix

from blockmix import BlockDiagonalCovariance, FactorBiclustering
from blockmix.estimators.validation import as_grouping, as_rule
from blockmix.grouping import GROUPINGS, BestCut, GreedyGrouping, SilhouetteRule


def with_entry(value: object) -> Any:
    X = table().astype(type(value) if isinstance(value, str) else float)
    X[3, 1] = value
    return X


def z_with(row: int, values: Any) -> Matrix:
    z = np.eye(2)[LABELS]
    z[row] = values
    return z


RULES = (
    "must be a whole number, one of auto, silhouette, or a rule such as "
    "SilhouetteRule(candidates=range(2, 5))"
)
Case = tuple[dict[str, Any], Any, Any, str]
DEGENERATE: dict[str, Case] = {
    "inf": (
        {},
        with_entry(np.inf),
        None,
        "X has infinity in column 1 (1): the number of such cells is in brackets; fill or drop them",
    ),
    "text": ({}, [["a", "b"], ["c", "d"]], None, "could not convert string to float: 'a'"),
    "no rows": (
        {},
        table()[:0],
        None,
        "Found array with 0 sample(s) (shape=(0, 6)) while a minimum of 2 is required by GaussianBiclustering.",
    ),
    "no columns": (
        {},
        table()[:, :0],
        None,
        "Found array with 0 feature(s) (shape=(80, 0)) while a minimum of 1 is required by GaussianBiclustering.",
    ),
    "one row": (
        {},
        table()[:1],
        None,
        "Found array with 1 sample(s) (shape=(1, 6)) while a minimum of 2 is required by GaussianBiclustering.",
    ),
    "G > N": ({"n_components": 81}, table(), None, "n_components=81 exceeds the n_samples=80 rows of X"),
    "G = 0": ({"n_components": 0}, table(), None, "n_components=0 must be a whole number that is at least 1"),
    "G = 2.5": ({"n_components": 2.5}, table(), None, "n_components=2.5 must be a whole number that is at least 1"),
    "G = True": ({"n_components": True}, table(), None, "n_components=True must be a whole number that is at least 1"),
    "n_init": ({"n_init": 0}, table(), None, "n_init=0 must be a whole number that is at least 1"),
    "max_iter": ({"max_iter": 0}, table(), None, "max_iter=0 must be a whole number that is at least 1"),
    "tol": ({"tol": -1}, table(), None, "tol=-1 must be a number that is at least 0"),
    "tol NaN": ({"tol": np.nan}, table(), None, "tol=nan must be a number that is at least 0"),
    "ridge": ({"ridge": -1}, table(), None, "ridge=-1 must be a number that is at least 0"),
    "ridge name": ({"ridge": "auto"}, table(), None, "ridge='auto' must be a number that is at least 0"),
    "shrinkage 1": ({"shrinkage": 1}, table(), None, "shrinkage=1 must be None or a number from 0 up to, but not, 1"),
    "shrinkage < 0": (
        {"shrinkage": -0.1},
        table(),
        None,
        "shrinkage=-0.1 must be None or a number from 0 up to, but not, 1",
    ),
    "K = 0": ({"n_column_groups": 0}, table(), None, "n_column_groups=0 must be at least 1"),
    "K > p": ({"n_column_groups": 7}, table(), None, "n_column_groups=7 exceeds the 6 columns of X"),
    "K = 2.5": ({"n_column_groups": 2.5}, table(), None, f"n_column_groups=2.5 {RULES}"),
    "K = True": (
        {"n_column_groups": True},
        table(),
        None,
        "n_column_groups=True must be a whole number of column groups",
    ),
    "K unknown": ({"n_column_groups": "gap"}, table(), None, f"n_column_groups='gap' {RULES}"),
    "K too many": (
        {"n_column_groups": [2, 3, 4]},
        table(),
        None,
        "n_column_groups=[2, 3, 4] has 3 numbers for n_components=2: give one number per component, or a rule such as "
        "SilhouetteRule(candidates=...) to choose",
    ),
    "K of one > p": ({"n_column_groups": [2, 7]}, table(), None, "n_column_groups=7 exceeds the 6 columns of X"),
    "K of one no number": (
        {"n_column_groups": [2, "auto"]},
        table(),
        None,
        "n_column_groups='auto' must be a whole number of column groups",
    ),
    "K differ, shared": (
        {"n_column_groups": [2, 3], "shared_covariance": True},
        table(),
        None,
        "n_column_groups=[2, 3] differ, but shared_covariance=True has one partition",
    ),
    "grouping": (
        {"grouping": "ward"},
        table(),
        None,
        "grouping='ward' must be one of hierarchical, greedy, relaxed or an object with a method `group`",
    ),
    "constant": (
        {},
        table() * [1, 1, 0, 1, 1, 1] + [0, 0, 0.1, 0, 0, 0],
        None,
        "column 2 ('x2') is constant at 0.1: remove it, it has no correlation with others",
    ),
    "constant by name": (
        {},
        pd.DataFrame({"a": table()[:, 0], "batch": 7, "site": 8}),
        None,
        "column 1 ('batch') (and 1 more) is constant at 7: remove it, it has no correlation with others",
    ),
    "constant where it counts": (
        {},
        np.column_stack([np.r_[np.full(40, 2.0), np.arange(40)], np.arange(80)]),
        np.repeat([1.0, 0.0], 40),
        "column 0 ('x0') is constant at 2: remove it, it has no correlation with others",
    ),
    "init unknown": (
        {"init": "spectral"},
        table(),
        None,
        "init='spectral' must be one of auto, kmeans, kmeans++, random, whitened, hierarchical, annealed, portfolio, "
        "or an array of labels or responsibilities",
    ),
    "init too short": (
        {"init": LABELS[:-1]},
        table(),
        None,
        "init has shape (79,): give labels of shape (80,) or responsibilities of shape (80, 2), or a name",
    ),
    "init of three": (
        {"init": np.eye(3)[LABELS]},
        table(),
        None,
        "init has shape (80, 3): give labels of shape (80,) or responsibilities of shape (80, 2), or a name",
    ),
    "init with too few labels": (
        {"init": 0 * LABELS},
        table(),
        None,
        "init has 1 different labels, n_components is 2: make them equal",
    ),
    "init no sum of one": (
        {"init": z_with(5, [0.5, 0.25])},
        table(),
        None,
        "row 5 of init sums to 0.75: divide each row of responsibilities by its sum",
    ),
    "init NaN": (
        {"init": z_with(5, [np.nan, 1])},
        table(),
        None,
        "init[5, 0] is nan, not finite: give responsibilities between 0 and 1",
    ),
    "init labels NaN": (
        {"init": np.r_[np.nan, LABELS[1:]]},
        table(),
        None,
        "label nan of row 0 in init is no label: give every row an integer or a name",
    ),
    "init negative": (
        {"init": z_with(5, [-0.5, 1.5])},
        table(),
        None,
        "init[5, 0] is -0.5, negative: give responsibilities between 0 and 1",
    ),
    "init of an empty component": (
        {"init": np.eye(2)[0 * LABELS]},
        table(),
        None,
        "component 1 of init has no rows: give each component some, or lower n_components",
    ),
    "weights negative": ({}, table(), -np.ones(80), "Negative values in data passed to `sample_weight`."),
    "weights zero": ({}, table(), np.zeros(80), "Sample weights must contain at least one non-zero number."),
    "weights too few": ({}, table(), np.ones(79), "sample_weight.shape == (79,), expected (80,)!"),
    "weights on one row": (
        {},
        table(),
        np.eye(80)[0],
        "sample_weight is positive for 1 rows: at least 2 are needed",
    ),
    "weights on two rows": (
        {"n_components": 3},
        table(),
        np.eye(80)[0] + np.eye(80)[1],
        "sample_weight is positive for 2 rows: at least 3 are needed",
    ),
    "weights of probabilities": (
        {},
        table(),
        np.full(80, 1 / 80),
        "sample_weight sums to 1, but a weight counts rows and at least 2 are needed: multiply the weights",
    ),
    "no ridge": (
        {"ridge": 0, "n_column_groups": 1, "init": (np.arange(80) == 5).astype(int)},
        table(),
        None,
        "component 1 has no variance in some column: give a ridge above 0",
    ),
}


@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_input_is_refused_with_the_value(case: str) -> None:
    parameters, X, weights, sentence = DEGENERATE[case]
    with pytest.raises(ValueError) as caught:
        Fit(**{"n_components": 2, **parameters}).fit(X, sample_weight=weights)
    assert str(caught.value).splitlines()[0] == sentence


@pytest.mark.parametrize(
    "values",
    [
        pd.Categorical(["low", "high"] * 40),
        pd.Series(["low", "high"] * 40, dtype="string"),
        pd.date_range("2020-01-01", periods=80),
    ],
    ids=["categories", "strings", "dates"],
)
def test_columns_of_a_data_frame_that_hold_no_numbers_are_named(values: Any) -> None:
    # Red if the words of pandas or NumPy, which name no column, get through, or if missing integers are called text.
    counted = pd.array([1, None, 2, 3] * 20, dtype="Int64")
    X = pd.DataFrame(table()).add_prefix("x").assign(count=counted, level=values)
    with pytest.raises(
        ValueError, match=r"^column level holds text or dates, not numbers: drop or encode such columns"
    ):
        Fit().fit(X)


@pytest.mark.parametrize("kind", [object, str])
@pytest.mark.parametrize("model", [Fit(2), BlockDiagonalCovariance(), FactorBiclustering(2, 2)])
def test_columns_of_an_array_that_hold_no_numbers_are_named(model: Any, kind: Any) -> None:
    X = table().astype(kind)
    X[3, 1] = X[4, 5] = "b"
    with pytest.raises(
        ValueError, match=r"^columns 1, 5 hold text or dates, not numbers: drop or encode such columns$"
    ):
        model.fit(X)


def test_infinity_in_an_array_is_counted_by_column() -> None:
    X = table()
    X[3, 1] = X[4, 5] = X[5, 5] = np.inf
    for model in (Fit(2), BlockDiagonalCovariance(), FactorBiclustering(2, 2)):
        with pytest.raises(ValueError, match=r"infinity in column 1 \(1\), 5 \(2\): the number of such cells"):
            model.fit(X)


def test_a_refused_fit_leaves_the_last_one_as_it_was() -> None:
    model = Fit(2, 2, init=LABELS).fit(table())
    before = model.predict_proba(table())
    with pytest.raises(ValueError, match="infinity"):
        model.fit(with_entry(np.inf))
    with pytest.raises(ValueError, match="has shape"):
        model.set_params(init=LABELS[1:]).fit(table())
    assert np.array_equal(model.predict_proba(table()), before)


def test_repeated_rows_are_fitted_though_fewer_differ_than_there_are_components() -> None:
    X = np.repeat([[0.0, 1.0], [1.0, 0.0]], 10, axis=0)
    model = quiet(X, n_components=4, n_column_groups=2, random_state=0)
    assert np.isfinite(model.score_samples(X)).all()
    assert np.diff(model.log_likelihood_trace_).min(initial=0) >= -1e-8


def test_names_and_objects_of_groupings_and_rules_are_understood() -> None:
    for name, kind in GROUPINGS.items():
        assert type(as_grouping(name)) is kind
    assert as_grouping("relaxed", 7).get_params()["random_state"] == 7  # type: ignore[attr-defined]
    rule, grouping = SilhouetteRule([2, 3]), GreedyGrouping(max_sweeps=3)
    assert as_grouping(grouping) is grouping
    assert as_rule(rule, "n_groups", "auto") is rule
    assert type(as_rule("silhouette", "n_groups", "auto")) is SilhouetteRule
    assert as_rule("auto", "n_groups", "tree").get_params() == {"block_model": "tree"}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "n_groups", [2.5, None, "bic", "2", [2, 3], np.float64(2), np.array([2, 3]), BestCut, np.True_]
)
def test_what_is_neither_a_number_nor_a_rule_is_refused(n_groups: object) -> None:
    # Red for NumPy's numbers if a method `choose` is all that makes a rule: they have one.
    with pytest.raises(ValueError) as caught:
        as_rule(n_groups, "n_groups", "auto")
    assert str(caught.value) == (
        f"n_groups={n_groups!r} must be a whole number, one of auto, silhouette, or a rule such as "
        "SilhouetteRule(candidates=range(2, 5))"
    )


@pytest.mark.parametrize("grouping", ["ward", None, 3, GreedyGrouping])
def test_what_is_not_a_grouping_is_refused(grouping: object) -> None:
    with pytest.raises(ValueError) as caught:
        as_grouping(grouping)  # type: ignore[arg-type]
    names = "hierarchical, greedy, relaxed"
    assert str(caught.value) == f"grouping={grouping!r} must be one of {names} or an object with a method `group`"
