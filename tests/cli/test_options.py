"""The names that the command offers are those of the library."""

from __future__ import annotations

import re

import numpy as np
import pytest

from blockmix import BlockDiagonalCovariance, GaussianBiclustering, select
from blockmix.cli.options import CRITERIA, RULES, STARTS

X = np.random.default_rng(0).standard_normal((20, 3))


def offered(error: pytest.ExceptionInfo[ValueError]) -> set[str]:
    """The names that the library lists when it is given a wrong one."""
    listed = re.search(r"one of ([^;]*?)(?:, or |$)", str(error.value))
    assert listed is not None, str(error.value)
    return set(listed[1].split(", "))


def test_starts() -> None:
    with pytest.raises(ValueError) as error:
        GaussianBiclustering(2, init="wish").fit(X)
    assert offered(error) == set(STARTS)


def test_rules() -> None:
    with pytest.raises(ValueError) as error:
        BlockDiagonalCovariance("wish").fit(X)
    assert offered(error) == set(RULES)


def test_criteria() -> None:
    with pytest.raises(ValueError) as error:
        select(X, 2, criterion="wish")
    assert offered(error) == set(CRITERIA)
