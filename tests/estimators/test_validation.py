"""Inputs that cannot be fitted are refused with the value and the remedy.

Starts that are refused are in tests/starts, numbers of groups and rules in tests/grouping.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from fits import LABELS, Fit, quiet, table
from optional import package

from blockmix import BlockDiagonalCovariance, FactorBiclustering, GaussianBiclustering


def with_entry(value: object) -> Any:
    X = table().astype(type(value) if isinstance(value, str) else float)
    X[3, 1] = value
    return X


def case(sentence: str, X: Any = None, weights: Any = None, **parameters: Any) -> tuple[str, Any, Any, dict[str, Any]]:
    """The first line of an error, and what is given to a fit of two components."""
    return sentence, table() if X is None else X, weights, {"n_components": 2, **parameters}


RULES = "must be a whole number, one of auto, silhouette, or a rule such as SilhouetteRule(candidates=range(2, 5))"
LEAST = "must be a whole number that is at least 1"
NUMBER = "must be a number that is at least 0"
FOUND = "is required by GaussianBiclustering."
CONSTANT = "remove it, it has no correlation with others"
DEGENERATE = {
    "inf": case(
        "X has infinity in column 1 (1): the number of such cells is in brackets; fill or drop them", with_entry(np.inf)
    ),
    "text": case("could not convert string to float: 'a'", [["a", "b"], ["c", "d"]]),
    "no rows": case(f"Found array with 0 sample(s) (shape=(0, 6)) while a minimum of 2 {FOUND}", table()[:0]),
    "no columns": case(f"Found array with 0 feature(s) (shape=(80, 0)) while a minimum of 1 {FOUND}", table()[:, :0]),
    "one row": case(f"Found array with 1 sample(s) (shape=(1, 6)) while a minimum of 2 {FOUND}", table()[:1]),
    "constant": case(
        f"column 2 ('x2') is constant at 0.1: {CONSTANT}", table() * [1, 1, 0, 1, 1, 1] + [0, 0, 0.1, 0, 0, 0]
    ),
    "constant by name": case(
        f"column 1 ('batch') (and 1 more) is constant at 7: {CONSTANT}",
        pd.DataFrame({"a": table()[:, 0], "batch": 7, "site": 8}),
    ),
    "constant where it counts": case(
        f"column 0 ('x0') is constant at 2: {CONSTANT}",
        np.column_stack([np.r_[np.full(40, 2.0), np.arange(40)], np.arange(80)]),
        np.repeat([1.0, 0.0], 40),
    ),
    "weights negative": case("Negative values in data passed to `sample_weight`.", weights=-np.ones(80)),
    "weights zero": case("Sample weights must contain at least one non-zero number.", weights=np.zeros(80)),
    "weights too few": case("sample_weight.shape == (79,), expected (80,)!", weights=np.ones(79)),
    "weights on one row": case("sample_weight is positive for 1 rows: at least 2 are needed", weights=np.eye(80)[0]),
    "weights on two rows": case(
        "sample_weight is positive for 2 rows: at least 3 are needed",
        weights=np.eye(80)[:2].sum(axis=0),
        n_components=3,
    ),
    "weights of probabilities": case(
        "sample_weight sums to 1, but a weight counts rows and at least 2 are needed: multiply the weights",
        weights=np.full(80, 1 / 80),
    ),
    "values of one row": case(
        "the rows of X that have values count 1: at least 2 are needed", np.r_[table()[:1], np.full((79, 6), np.nan)]
    ),
    "values of two rows, weighted": case(
        "the rows of X that have values count 2: at least 3 are needed",
        np.r_[table()[:2], np.full((78, 6), np.nan)],
        np.full(80, 1e3),
        n_components=3,
    ),
    "G > N": case("n_components=81 exceeds the n_samples=80 rows of X", n_components=81),
    "G = True": case(f"n_components=True {LEAST}", n_components=True),
    "n_init": case(f"n_init=2.5 {LEAST}", n_init=2.5),
    "max_iter": case(f"max_iter=0 {LEAST}", max_iter=0),
    "tol": case(f"tol=nan {NUMBER}", tol=np.nan),
    "sharing": case("shared_covariance='no' must be True or False", shared_covariance="no"),
    "shrinkage": case("shrinkage=1 must be None or a number from 0 up to, but not, 1", shrinkage=1),
    "K = 0": case("n_column_groups=0 must be at least 1", n_column_groups=0),
    "K > p": case("n_column_groups=7 exceeds the 6 columns of X", n_column_groups=7),
    "K unknown": case(f"n_column_groups='gap' {RULES}", n_column_groups="gap"),
    "K too many": case(
        "n_column_groups=[2, 3, 4] has 3 numbers for n_components=2: give one number per component, or a rule such as "
        "SilhouetteRule(candidates=...) to choose",
        n_column_groups=[2, 3, 4],
    ),
    "K differ, shared": case(
        "n_column_groups=[2, 3] differ, but shared_covariance=True has one partition",
        n_column_groups=[2, 3],
        shared_covariance=True,
    ),
    "grouping": case(
        "grouping='ward' must be one of hierarchical, greedy, relaxed or an object with a method `group`",
        grouping="ward",
    ),
    "init unknown": case(
        "init='spectral' must be auto, kmeans, or an array of labels or responsibilities", init="spectral"
    ),
    "init too short": case(
        "init has shape (79,): give labels of shape (80,) or responsibilities of shape (80, 2), or a name",
        init=LABELS[:-1],
    ),
    "no ridge": case(
        "component 1 has no variance in some column: give a ridge above 0",
        ridge=0,
        n_column_groups=1,
        init=(np.arange(80) == 5).astype(int),
    ),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_input_is_refused_with_the_value(name: str) -> None:
    sentence, X, weights, parameters = DEGENERATE[name]
    with pytest.raises(ValueError) as caught:
        Fit(**parameters).fit(X, sample_weight=weights)
    assert str(caught.value).splitlines()[0] == sentence


@pytest.mark.parametrize(
    "values",
    [
        pd.Categorical(["low", "high"] * 40),
        pd.Series(["low", "high"] * 40, dtype="string"),
        pd.date_range("2020-01-01", periods=80),
        pd.period_range("2020-01", periods=80, freq="M"),
    ],
    ids=["categories", "strings", "dates", "periods"],
)
def test_columns_of_a_data_frame_that_hold_no_numbers_are_named(values: Any) -> None:
    # Red if the words of pandas or NumPy, which name no column, get through, or if missing integers are called text.
    counted = pd.array([1, None, 2, 3] * 20, dtype="Int64")
    X = pd.DataFrame(table()).add_prefix("x").assign(count=counted, level=values)
    with pytest.raises(
        ValueError, match=r"^column level holds text or dates, not numbers: drop or encode such columns"
    ):
        Fit().fit(X)


@pytest.mark.parametrize("model", [Fit(2), BlockDiagonalCovariance(), FactorBiclustering(2, 2)])
def test_what_is_not_yet_a_table_is_refused_with_the_remedy(model: Any) -> None:
    twice = pd.DataFrame(table(), columns=["a", "b", "a", "c", "b", "d"])
    for X, sentence in (
        (twice, "X has several columns of the same name: a, b; rename or drop them"),
        (pl.DataFrame(table()).lazy(), r"X is a LazyFrame, whose rows are not known yet: give X.collect\(\)"),
        (package("anndata").AnnData(table()), r"X is an AnnData: call blockmix.anndata.fit\(X\), or .* X.to_df\(\)"),
    ):
        with pytest.raises(ValueError, match=f"^{sentence}$"):
            model.fit(X)


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
    X[3, 1] = X[4, 5] = np.inf
    X[5, 5] = -np.inf
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


@pytest.mark.filterwarnings("ignore:component . has 1.0 rows")  # two different rows do not make four components
def test_repeated_rows_are_fitted_though_fewer_differ_than_there_are_components() -> None:
    X = np.repeat([[0.0, 1.0], [1.0, 0.0]], 10, axis=0)
    model = quiet(X, n_components=4, n_column_groups=2, random_state=0)
    assert np.isfinite(model.score_samples(X)).all()
    assert np.diff(model.log_likelihood_trace_).min(initial=0) >= -1e-8


@pytest.mark.parametrize("model", [GaussianBiclustering(2), BlockDiagonalCovariance()])
def test_too_many_columns_are_refused_beforehand(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The distances of 6000 columns are 0.288 GB; given groups need none of them."""
    monkeypatch.setattr("blockmix.estimators.validation.available_memory", lambda: 0.2e9)
    X = np.random.default_rng(0).standard_normal((10, 6000))
    with pytest.raises(MemoryError, match=r"6000 columns need about 0\.288 GB of memory, and 0\.2 GB are available"):
        model.fit(X)


def test_given_groups_need_no_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that are all alone take no p × p matrix, whatever memory there is."""
    monkeypatch.setattr("blockmix.estimators.validation.available_memory", lambda: 0.2e9)
    X = np.random.default_rng(0).standard_normal((10, 6000))
    assert GaussianBiclustering(1, 6000).fit(X).n_column_groups_ == [6000]
