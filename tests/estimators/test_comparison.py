"""compare: the fates of groups are those of their pairs, planted differences are found, chance is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optional import package
from scipy.stats import ttest_ind

from blockmix import BlockDiagonalCovariance, BlockDiscriminantAnalysis, GaussianBiclustering, Partition, compare
from blockmix.estimators.comparison import _fate
from blockmix.partition import FloatArray

pytestmark = pytest.mark.filterwarnings("ignore::blockmix.GroupingWarning")  # the shuffled tables have no groups
labels = st.lists(st.integers(0, 3), min_size=6, max_size=6)


@given(labels, labels)
def test_fates_are_those_of_the_pairs(own: list[int], other: list[int]) -> None:
    one, two = Partition(own), Partition(other)
    for A in one.groups:
        if len(A) == 1:
            continue
        together = [two.labels[i] == two.labels[j] for i in A for j in A if i < j]
        fate, kept = _fate(A, two)
        assert kept == pytest.approx(np.mean(together))
        whole = any(np.array_equal(A, B) for B in two.groups)
        expected = "same" if whole else "merged" if all(together) else "split" if any(together) else "gone"
        assert fate == expected


def tables(change: str, seed: int = 0, n: int = 100) -> dict[str, FloatArray]:
    """Two tables of nine columns, six of them with a correlation of 0.5, which the second may not have."""
    rng = np.random.default_rng(seed)
    pair = {}
    for name in ("a", "b"):
        X = rng.standard_normal((n, 9))
        X[:, :6] += rng.standard_normal((n, 1))
        pair[name] = X
    if change == "shuffled":
        pair["b"] = rng.permuted(pair["b"], axis=0)
    return pair


def compared(pair: dict[str, Any], **settings: Any) -> Any:
    models = {name: BlockDiagonalCovariance().fit(X) for name, X in pair.items()}
    return compare(models, pair, random_state=0, n_resamples=200, **settings)


def test_a_shuffled_group_is_found_and_one_distribution_has_no_difference() -> None:
    groups = compared(tables("shuffled")).groups
    assert groups.loc[groups["size"] == 6, ["fate", "differs"]].to_numpy().tolist() == [["gone", True]]
    assert groups.loc[0, "low"] > 0.2 and groups.loc[0, "r_own"] > groups.loc[0, "r_other"]
    assert not compared(tables("none")).groups["differs"].any()


def test_units_and_shifts_change_no_correlation_and_missing_values_are_left_out() -> None:
    pair = tables("shuffled")
    moved = {"a": pair["a"], "b": pair["b"] * np.arange(1, 10) + 100}
    one, two = compared(pair), compared(moved)
    figures = ["r_own", "r_other", "difference", "p", "q"]
    assert np.allclose(one.groups[figures], two.groups[figures])
    assert not np.allclose(one.means["difference"], two.means["difference"])
    holes = pair["a"].copy()
    holes[::7, 2] = np.nan
    R = compared({"a": holes, "b": pair["b"]}).correlations[0]
    assert np.allclose(R, pd.DataFrame(holes).corr(), atol=0.02) and np.allclose(R.diagonal(), 1)


def test_means_are_welchs() -> None:
    pair = tables("none")
    pair["b"][:, 0] += 1
    means = compared(pair).means
    assert np.allclose(means["p"], ttest_ind(pair["a"], pair["b"], equal_var=False).pvalue)
    assert means.loc[0, "difference"] < -0.5 and means.loc[0, "q"] < 0.01


def test_classes_are_tested_and_clusters_are_not() -> None:
    pair = tables("shuffled")
    pair["b"] += 6
    X, y = np.concatenate(list(pair.values())), np.repeat(["a", "b"], 100)
    known = BlockDiscriminantAnalysis(shared_covariance=False).fit(X, y)
    by_class = compare(known, X, y, n_resamples=200, random_state=0)
    assert by_class.parts == ("a", "b") and by_class.groups["differs"].any()
    found = compare(GaussianBiclustering(2, random_state=0).fit(X), X, random_state=0)
    assert found.groups["p"].isna().all() and found.means["p"].isna().all() and "No p-values" in str(found)
    assert np.allclose(sorted(found.groups["r_own"]), sorted(by_class.groups["r_own"]), atol=1e-6)


def test_triangles_have_all_columns_and_links_of_groups() -> None:
    package("matplotlib").use("Agg")
    found = compared(tables("shuffled"))
    left, middle, right = found.plot("a", "b")
    n_linked = sum(any(p.sizes[p.labels[j]] > 1 for p in found.partitions) for j in range(9))
    assert len(middle.lines) == n_linked >= 6
    shown = [np.isfinite(np.ma.filled(ax.images[0].get_array(), np.nan)).mean() for ax in (left, right)]
    assert shown == pytest.approx([5 / 9, 5 / 9], abs=0.02)
    package("matplotlib.pyplot").close("all")


X, Y = tables("none")["a"], np.repeat([0, 1], 50)
OWN = BlockDiscriminantAnalysis(2, shared_covariance=False)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compare(OWN.fit(X, Y), X, Y).plot("a"), "'a' is not compared: the parts are 0, 1"),
        (lambda: compare(OWN.fit(X, Y), X), "y is missing"),
        (lambda: compare(OWN.fit(X, Y), X, Y[:3]), r"y has shape \(3,\) for 100 rows"),
        (lambda: compare(OWN.fit(X, Y), X, np.full(100, 7)), "0 has 0 rows: at least 4"),
        (lambda: compare(GaussianBiclustering(1).fit(X), X), "one covariance: fit two"),
        (lambda: compare({"a": BlockDiagonalCovariance(2).fit(X)}, {"a": X}), "at least two models"),
        (
            lambda: compare({name: BlockDiagonalCovariance(2).fit(X[:, name:]) for name in (0, 1)}, {0: X, 1: X}),
            "different columns",
        ),
    ],
)
def test_what_cannot_be_compared_is_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_columns_that_are_all_alone_have_no_groups_to_compare() -> None:
    X, y = np.random.default_rng(0).standard_normal((60, 3)), np.repeat([0, 1], 30)
    model = BlockDiscriminantAnalysis(3, shared_covariance=False).fit(X, y)
    found = compare(model, X, y, n_resamples=5, random_state=0)
    assert len(found.groups) == 0 and len(found.means) == 3
