"""The table that was read: rows with missing values and constant columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from blockmix.cli.reading import InputTable


def table_of(values: Any, names: tuple[str, ...] = ("a", "b")) -> InputTable:
    return InputTable("t.csv", names, np.array(values, dtype=float), range(1, len(values) + 1), {"k": list("uvwx")})


def test_missing_values_are_counted_or_dropped() -> None:
    table = table_of([[1, 2], [np.nan, 3], [np.nan, np.nan], [4, 5]])
    with pytest.raises(ValueError, match=r"missing values in 2 of 4 rows: a \(2\), b \(1\); .* --drop-missing"):
        table.complete(drop=False)
    dropped = table.complete(drop=True)
    np.testing.assert_array_equal(dropped.values, [[1, 2], [4, 5]])
    assert list(dropped.row_names) == [1, 4]
    assert dropped.texts == {"k": ["u", "x"]}
    assert dropped.notes == ("left out 2 of 4 rows with missing values",)


def test_infinite_values_are_not_called_missing() -> None:
    with pytest.raises(ValueError, match=r"infinite values in 1 of 4 rows: b \(1\)"):
        table_of([[1, 2], [1, np.inf], [2, 3], [4, 5]]).complete(drop=False)
    # Missing values that may stay are not counted.
    with pytest.raises(ValueError, match=r"infinite values in 1 of 4 rows: b \(1\);"):
        table_of([[1, 2], [1, np.inf], [np.nan, 3], [4, np.nan]]).complete(drop=False, gaps=True)
    with pytest.raises(ValueError, match="--drop-missing leaves none"):
        table_of([[1, np.nan]] * 4).complete(drop=True)


def test_the_columns_of_largest_variance_stay_in_their_order() -> None:
    values = np.array([[0, 0, 0, 1e300], [1, 5, 2, -1e300], [2, -5, 4, 0.0]])
    table = InputTable("t.csv", ("a", "b", "c", "d"), values, range(3))
    kept = table.most_varying(3)
    assert kept.names == ("b", "c", "d")
    np.testing.assert_array_equal(kept.values, values[:, 1:])
    assert kept.notes == ("kept the 3 of 4 columns with the largest variance",)
    assert table.most_varying(4) is table


def test_constant_columns_are_left_out() -> None:
    table = table_of([[1, 2], [1, 3], [1, 3], [1, 5]]).varying()
    assert table.names == ("b",)
    assert table.left_out == {"a": "constant"}
    with pytest.raises(ValueError, match="no numeric column that varies"):
        table_of([[1, 2]] * 4).varying()
    with pytest.raises(ValueError, match="has no numeric column"):
        table_of(np.empty((4, 0)), ()).varying()
    with pytest.raises(ValueError, match="has only one row"):
        table_of([[1, 2]]).varying()
