"""Column names in messages and in printed groups."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from blockmix import BlockDiagonalCovariance, GaussianBiclustering
from blockmix.blocks.blocks import Blocks
from blockmix.partition import (
    Partition,
    column_entries,
    column_names,
    describe,
    grouped_names,
    leading_loadings,
    refuse_constant,
)


def test_names_are_the_frames_or_numbered() -> None:
    assert column_names(SimpleNamespace(n_features_in_=3)) == ["x0", "x1", "x2"]
    named = SimpleNamespace(n_features_in_=2, feature_names_in_=np.array(["height", "weight"], dtype=object))
    assert column_names(named) == ["height", "weight"]


@pytest.mark.parametrize(
    ("mean", "variances", "sentence"),
    [
        ([1.0, 5.0, 2.0], [1, 0, 1], "column 1 ('b') is constant at 5: remove it, it has no correlation with others"),
        (
            [0.0, 5.0, 2.0],
            [0, 1, 0],
            "column 0 ('a') (and 1 more) is constant at 0: remove it, it has no correlation with others",
        ),
        # Variation in the last digit only is rounding.
        (
            [1.0, 1e8, 2.0],
            [1, 1e-16, 1],
            "column 1 ('b') is constant at 1e+08: remove it, it has no correlation with others",
        ),
    ],
)
def test_a_constant_column_is_named(mean: list[float], variances: list[float], sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        refuse_constant(np.array(mean), np.array(variances, dtype=float), ["a", "b", "c"])
    assert str(caught.value) == sentence


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_small_variation_is_variation(dtype: type[np.floating]) -> None:
    # Red if the limit were absolute, or did not follow the precision of the numbers.
    mean = np.array([1000.0, 0.0], dtype=dtype)
    refuse_constant(mean, np.array([(100 * np.finfo(dtype).eps * 1000) ** 2, 1e-30], dtype=dtype), ["a", "b"])


@pytest.mark.parametrize(
    ("size", "dtype", "reason"),
    [
        (1e200, np.float64, "has values so large that their squares are not finite in float64: divide"),
        (1e25, np.float32, "has values so large that their squares are not finite in float32: divide"),
        (1e-200, np.float64, "has values so small that their squares vanish in float64: multiply"),
        (1e-25, np.float32, "has values so small that their squares vanish in float32: multiply"),
    ],
)
@pytest.mark.parametrize("gap", [False, True])
def test_a_column_whose_squares_are_out_of_range_is_named(size: float, dtype: Any, reason: str, gap: bool) -> None:
    # Red if float32 covariances become infinite or 0, or if tiny values that vary are called constant.
    X = (np.random.default_rng(0).normal(1, 1, (30, 3)) * [1, size, 1]).astype(dtype)
    X[0, 0] = np.nan if gap else 0
    for model in GaussianBiclustering(), BlockDiagonalCovariance():
        with pytest.raises(ValueError) as caught:
            model.fit(X)
        assert str(caught.value) == f"column 1 ('x1') {reason} it by a power of ten"


def test_groups_are_named() -> None:
    assert grouped_names(Partition([0, 1, 0]), ["a", "b", "c"]) == [["a", "c"], ["b"]]


def test_a_description_lists_the_largest_group_first_and_single_columns_last() -> None:
    text = describe(Partition([0, 1, 2, 1, 2, 2, 3]), list("abcdefg"))
    assert text.splitlines() == [
        "7 columns: 2 groups, 2 alone",
        "  group 0 (3): c, e, f",
        "  group 1 (2): b, d",
        "  alone (2): a, g",
    ]
    assert describe(Partition([0, 0]), ["a", "b"]).splitlines() == ["2 columns: 1 group", "  group 0 (2): a, b"]
    assert describe(Partition([0, 1]), ["a", "b"]).splitlines() == ["2 columns: no groups", "  alone (2): a, b"]


def test_a_description_names_shapes_that_are_not_full() -> None:
    lines = describe(Partition([0, 0, 0, 0, 1, 1]), list("abcdef"), ("1 factor", "full")).splitlines()
    assert lines[1:] == ["  group 0 (4, 1 factor): a, b, c, d", "  group 1 (2): e, f"]


def test_a_common_factor_of_all_columns_is_told() -> None:
    told = "3 columns: 1 group: all columns are correlated, no part of them stands out"
    assert describe(Partition([0, 0, 0]), ["a", "b", "c"], ["1 factor"]).splitlines()[0] == told
    assert describe(Partition([0, 0, 0]), ["a", "b", "c"], ["full"]).splitlines()[0] == "3 columns: 1 group"


def test_column_entries_have_size_loading_and_alone() -> None:
    entries = list(column_entries(1, ["a", "b", "c"], Partition([1, 0, 1]), np.array([0.5, np.nan, -0.25])))
    assert entries[0] == (1, "a", 0, 2, 0.5, False)
    assert entries[1][:4] == (1, "b", 1, 1) and np.isnan(entries[1].loading) and entries[1].alone
    assert entries[2].loading == -0.25


def test_loadings_of_columns_are_correlations_with_the_strongest_factor() -> None:
    # Units 1, 10, 2 and 3; the third column is alone, the fourth goes against the first two.
    axes = np.array([[0.8, 0.1], [9.0, 2.0], [-1.5, 0.3]])
    S = np.diag([1.0, 100.0, 4.0, 9.0])
    covariance = Blocks.of(S, Partition([0, 0, 1, 0]))
    found = leading_loadings(covariance, [axes, None])
    np.testing.assert_allclose(found, [0.8, 0.9, np.nan, -0.5])


def test_a_long_line_is_cut_between_names() -> None:
    names = [f"column{j}" for j in range(50)]
    line = describe(Partition.single(50), names, width=60).splitlines()[1]
    assert len(line) <= 60
    shown = line.removeprefix("  group 0 (50): ").removesuffix(", …").split(", ")
    assert line.endswith(", …")
    assert shown == names[: len(shown)]
    assert len(shown) >= 4
