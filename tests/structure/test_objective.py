"""The objective against the paper's D matrices, its change under a merge, and the prices."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import Matrix, covariances, partitions, seeds

from blockmix.structure.objective import bic_price, extended_price, merge_gain, objective
from blockmix.structure.partition import Partition

n_rows_of = st.floats(2, 1e4)
prices = st.floats(0, 20)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Matrix, list[Partition]]:
    """A covariance and one to four partitions of its columns."""
    S = draw(covariances(min_p=1))
    return S, draw(st.lists(partitions(len(S)), min_size=1, max_size=4))


@given(cases(), n_rows_of, prices)
def test_it_is_the_papers_equation_4_less_the_price(
    case: tuple[Matrix, list[Partition]], n_rows: float, price: float
) -> None:
    # Red if the trace term p, a factor of N or a parameter is forgotten.
    S, several = case
    literal = [
        n_rows * oracles.objective(S, part.labels) - price * oracles.n_parameters(part.labels) for part in several
    ]
    assert_allclose(objective(S, several, n_rows, price), literal, rtol=1e-6, atol=1e-4)


@given(cases(), seeds, prices)
def test_stacked_covariances_are_those_of_each(case: tuple[Matrix, list[Partition]], seed: int, price: float) -> None:
    S, several = case
    rng = np.random.default_rng(seed)
    stacked, n_rows = S * rng.uniform(0.5, 2, (len(several), 1, 1)), rng.uniform(2, 100, len(several))
    each = [objective(own, [part], n, price)[0] for own, part, n in zip(stacked, several, n_rows, strict=True)]
    assert_allclose(objective(stacked, several, n_rows, price), each, rtol=1e-10)


@given(covariances(), n_rows_of, prices, st.data())
def test_a_merge_changes_it_by_its_gain(S: Matrix, n_rows: float, price: float, data: st.DataObject) -> None:
    before = data.draw(partitions(len(S)).filter(lambda part: part.n_groups > 1))
    A, B, *_ = before.groups
    merged = np.concatenate([A, B])
    logdet_a, logdet_b, logdet_ab = (np.linalg.slogdet(S[np.ix_(C, C)])[1] for C in (A, B, merged))
    gain = merge_gain(logdet_a + logdet_b - logdet_ab, len(A) * len(B), n_rows, price)
    after = Partition(np.where(before.labels == 1, 0, before.labels))
    old, new = objective(S, [before, after], n_rows, price)
    assert gain == pytest.approx(new - old, rel=1e-6, abs=1e-6 * n_rows)


def test_the_price_is_half_of_bics() -> None:
    # −½ BIC = log L − ½ (number of parameters) log N; Foygel and Drton's extended BIC adds 4γ log p to BIC.
    assert bic_price(100) == pytest.approx(0.5 * np.log(100))
    assert extended_price(bic_price(100), 7, gamma=0.5) == pytest.approx(0.5 * np.log(100) + np.log(7))
