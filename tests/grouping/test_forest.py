"""The forest: the groups of all covariances at once are those of each alone, and exactly as many as asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Matrix, block_rows, covariance, partitions, seeds

from blockmix.grouping import AutoRule, BicRule, GreedyGrouping, HierarchicalGrouping, SilhouetteRule
from blockmix.grouping import forest as module
from blockmix.grouping.forest import find_all_groups
from blockmix.grouping.protocols import Grouping, Proposal
from blockmix.grouping.rules import find_groups
from blockmix.structure.partition import Partition


@st.composite
def stacks(draw: st.DrawFn, min_p: int = 1) -> Matrix:
    """1 to 6 covariances of as many columns, each with groups of its own."""
    p, rng = draw(st.integers(min_p, 12)), np.random.default_rng(draw(seeds))
    shapes = draw(st.lists(partitions(p), min_size=1, max_size=6))
    scale = 10.0 ** rng.uniform(-3, 3, p)
    return np.stack([covariance(block_rows(rng, 3 * p + 5, shape) * scale) for shape in shapes])


def one_at_a_time(S: Matrix, n_rows: Matrix, n_groups: list[object], grouping: Grouping) -> list[Partition]:
    every = zip(S, n_rows.tolist(), n_groups, strict=True)
    return [find_groups(own, n, number, grouping).partition for own, n, number in every]


def refuse(*_: object) -> Proposal:
    raise AssertionError("not this way")


@given(stacks(), st.sampled_from([float, np.float32]), st.data())
@settings(max_examples=300)
def test_groups_found_at_once_are_those_found_one_at_a_time(S: Matrix, dtype: type, data: st.DataObject) -> None:
    # So few rows that some cuts have blocks that fill them. Red if merges are told to the wrong covariance.
    G, p = S.shape[:2]
    number = st.one_of(
        st.integers(1, p), st.integers(1, p).map(np.int64), st.sampled_from([BicRule(), BicRule(gamma=0.5)])
    )
    n_groups: list[object] = data.draw(st.lists(number, min_size=G, max_size=G))
    n_rows = np.array(data.draw(st.lists(st.floats(2, 60), min_size=G, max_size=G)))
    S = S.astype(dtype)
    expected = one_at_a_time(S, n_rows, n_groups, HierarchicalGrouping())
    with pytest.MonkeyPatch.context() as patch:
        if p > 1:
            patch.setattr(module, "find_groups", refuse)
        assert find_all_groups(S, n_rows, n_groups, HierarchicalGrouping()) == expected


@given(st.integers(2, 8), st.integers(1, 4), seeds)
def test_ties_change_no_number_of_groups(p: int, G: int, seed: int) -> None:
    # No two columns are nearer than others, or all copies of a column are at distance 0.
    rng = np.random.default_rng(seed)
    copied = covariance(rng.standard_normal((30, p))[:, rng.integers(0, max(1, p // 2), p)])
    for one in (np.eye(p), copied, np.full((p, p), 0.5) + 0.5 * np.eye(p)):
        S = np.repeat(one[None], G, axis=0)
        numbers = rng.integers(1, p + 1, G)
        found = find_all_groups(S, np.full(G, 30.0), numbers.tolist(), HierarchicalGrouping())
        assert [partition.n_groups for partition in found] == numbers.tolist()


def test_copies_of_a_column_are_joined_first() -> None:
    truth = Partition([0, 1, 0, 2, 1, 2, 0])
    S = np.stack([covariance(np.random.default_rng(seed).standard_normal((30, 3))[:, truth.labels]) for seed in (0, 1)])
    assert find_all_groups(S, np.full(2, 30.0), [3, 3], HierarchicalGrouping()) == [truth, truth]
    # Nothing is correlated, so no parameter earns its price.
    apart = find_all_groups(np.stack([np.eye(4)] * 3), np.full(3, 50.0), [BicRule()] * 3, HierarchicalGrouping())
    assert apart == [Partition.separate(4)] * 3


def test_no_block_has_as_many_columns_as_rows_however_much_later_merges_earn() -> None:
    # Three columns are nearest, then six pairs. Red if a block that fills the rows is only given no likelihood.
    S = np.eye(15)
    S[:3, :3] += [[0, 0.97, 0.96], [0.97, 0, 0.955], [0.96, 0.955, 0]]
    for pair, r in zip(range(3, 15, 2), np.linspace(0.94, 0.89, 6), strict=True):
        S[pair, pair + 1] = S[pair + 1, pair] = r
    few, more = find_all_groups(np.stack([S, S]), np.array([3.0, 30.0]), [BicRule()] * 2, HierarchicalGrouping())
    assert few.sizes.max() == 2
    assert more.sizes.tolist() == [3] + 6 * [2]


class CarefulRule(BicRule):
    """A rule of somebody else's that derives from ours."""

    def choose(self, S: Matrix, n_rows: float, grouping: Grouping, squares: Matrix | None = None) -> Proposal:  # type: ignore[override]
        return Proposal(Partition.single(len(S)))


@pytest.mark.parametrize(
    ("number", "grouping"),
    [
        (2, GreedyGrouping()),
        (2, HierarchicalGrouping("complete")),
        (BicRule(), HierarchicalGrouping(distance="profile")),
        (BicRule(candidates=[1, 4]), HierarchicalGrouping()),
        (SilhouetteRule(), HierarchicalGrouping()),
        (AutoRule(), HierarchicalGrouping()),
        ("bic", HierarchicalGrouping()),
        (CarefulRule(), HierarchicalGrouping()),
    ],
)
def test_other_groupings_and_rules_are_asked_one_at_a_time(
    number: object, grouping: Grouping, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    S = np.stack([covariance(block_rows(rng, 60, Partition([0, 0, 1, 1, 2, 2, 2]))) for _ in range(3)])
    numbers = [2, number, number] if isinstance(grouping, HierarchicalGrouping) else [number] * 3
    monkeypatch.setattr(module.Forest, "of", refuse)
    n_rows = np.full(3, 60.0)
    assert find_all_groups(S, n_rows, numbers, grouping) == one_at_a_time(S, n_rows, numbers, grouping)


@pytest.mark.parametrize(("limit", "least"), [("SMALL", 5), ("AT_ONCE", 15)])
def test_many_columns_are_grouped_one_at_a_time(limit: str, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    S = np.stack([covariance(rng.standard_normal((40, 5))) for _ in range(3)])
    given = S, np.full(3, 40.0), [BicRule()] * 3, HierarchicalGrouping()
    expected = find_all_groups(*given)
    asked: list[float] = []

    def ask(S: Matrix, n_rows: float, n_groups: object, grouping: Grouping) -> Proposal:
        asked.append(n_rows)
        return find_groups(S, n_rows, n_groups, grouping)

    monkeypatch.setattr(module, "find_groups", ask)
    for most, times in ((least, 0), (least - 1, 3)):
        monkeypatch.setattr(module, limit, most)
        assert find_all_groups(*given) == expected
        assert len(asked) == times


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (0, "n_groups=0 must be at least 1"),
        (5, "n_groups=5 exceeds the 4 columns of X"),
        (True, "n_groups=True must be a whole number of column groups"),
        (BicRule(candidates=[2, 9]), "n_groups=9 exceeds the 4 columns of X"),
    ],
)
def test_an_impossible_number_is_refused_as_for_one_covariance(number: object, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        find_all_groups(np.stack([np.eye(4)] * 2), np.full(2, 10.0), [2, number], HierarchicalGrouping())
    assert str(caught.value) == sentence
