"""Signs: groups that negative correlations hold together are found, and no others."""

from __future__ import annotations

import numpy as np
from factors import model_of
from numpy.testing import assert_allclose

from blockmix.em.factor_steps import NegativeGroup, first_groups, first_parameters, negative_groups
from blockmix.rows import ArrayRows


def found_in(X: np.ndarray, q: int) -> list[NegativeGroup]:
    rows, model = ArrayRows.standardized(X), model_of("UUUU", X.shape[1], 1, q)
    z = np.ones((len(X), 1))
    return negative_groups(rows, first_parameters(rows, z, first_groups(rows, z, model), model), model)


def test_the_most_negative_pair_of_each_planted_group_is_named() -> None:
    rng = np.random.default_rng(0)
    signs = np.array([1, 1, -1, 1, 1, -1, 1, 1])
    X = rng.standard_normal((300, 3))[:, [0, 0, 0, 1, 1, 1, 2, 2]] * signs + 0.5 * rng.standard_normal((300, 8))
    found = found_in(X, 3)
    R = np.corrcoef(X.T)
    assert sorted(group.columns for group in found) == [[0, 1, 2], [3, 4, 5]]
    assert [group.correlation for group in found] == sorted(group.correlation for group in found)
    for group in found:
        block = R[np.ix_(group.columns, group.columns)]
        assert_allclose(group.correlation, block.min(), rtol=1e-9)
        assert_allclose(R[group.pair], block.min(), rtol=1e-9)


def test_columns_without_negative_correlations_are_rarely_named() -> None:
    # At most one in a hundred tables of independent columns; eight columns have 28 pairs.
    rng = np.random.default_rng(0)
    assert sum(bool(found_in(rng.standard_normal((60, 8)), 2)) for _ in range(100)) <= 4
    shared = rng.standard_normal((300, 2))[:, [0, 0, 0, 1, 1, 1]]
    assert found_in(shared + rng.standard_normal((300, 6)), 2) == []


def test_few_rows_or_one_column_name_nothing() -> None:
    X = np.random.default_rng(0).standard_normal((4, 1)) * [1, -1] + 1e-3 * np.eye(4, 2)
    assert found_in(X, 1) == []
    assert found_in(np.arange(9.0)[:, None], 1) == []


def test_the_sentence_names_columns_and_fitted_groups() -> None:
    group = NegativeGroup(1, [0, 2], (2, 0), -0.756)
    assert group.describe(["a", "b", "c"], np.array([[0, 0, 0], [0, 0, 1]])) == (
        "columns a, c of component 1 form a group with negative correlations, -0.76 between c (fitted in group 1) and "
        "a (fitted in group 0)"
    )
    many = NegativeGroup(0, list(range(12)), (0, 1), -0.5)
    names = [f"x{j}" for j in range(12)]
    assert "x7, … of component 0" in many.describe(names, np.zeros((1, 12), dtype=int))
