"""BestCut: the best of all cuts, its price, chance groups, planted modules, and shapes of a user's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import Matrix, covariance, seeds

from blockmix import BlockDiagonalCovariance, GaussianBiclustering
from blockmix.blocks.moments import as_matrix
from blockmix.blocks.shapes import FULL, BlockFit, BlockModel, FactorBlock, TreeBlock, block_models
from blockmix.grouping import BestCut, GreedyGrouping, HierarchicalGrouping, SilhouetteRule
from blockmix.grouping.kernels import best_cut, best_of_both, spans, worths
from blockmix.grouping.rules import Cut, best_shapes, group_prices, merge_margins, takes_gram, tree_cut
from blockmix.partition import FloatArray, IntArray, Partition, bic_price
from experiments.designs import block_grid
from experiments.metrics import adjusted_rand, matched_accuracy

HIERARCHICAL = HierarchicalGrouping()


def module_rows(seed: int, sizes: list[int], n_rows: int, strength: float = 0.5) -> tuple[Matrix, Partition]:
    """Rows with one factor per group of columns, random signs; groups of one column are independent."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    factors = rng.standard_normal((n_rows, len(sizes)))[:, labels] * rng.choice([-1, 1], len(labels))
    X: Matrix = np.sqrt(strength) * factors + np.sqrt(1 - strength) * rng.standard_normal((n_rows, len(labels)))
    order = rng.permutation(len(labels))
    return X[:, order], Partition(labels[order])


def cuts(tree: Matrix) -> Iterator[list[int]]:
    """Every cut of a tree, as the nodes that are groups."""
    p = len(tree) + 1

    def below(v: int) -> Iterator[list[int]]:
        yield [v]
        if v >= p:
            left, right = tree[v - p, :2].astype(int)
            for a in below(left):
                for b in below(right):
                    yield a + b

    yield from below(2 * p - 2)


def grouped(partition: Partition) -> int:
    """Columns in groups of several."""
    return int(partition.sizes[partition.sizes > 1].sum())


class CompoundSymmetry(BlockModel):
    """A user's own shape: one correlation ±r between all columns, c + 1 parameters."""

    name = "compound symmetry"
    rank = 2

    def n_parameters(self, c: int) -> int:
        return c + 1

    def fit(self, S: FloatArray, start: FloatArray | None = None) -> BlockFit:
        c, deviations = len(S), np.sqrt(S.diagonal())
        units = np.outer(deviations, deviations)
        r = ((S / units).sum() - c) / max(c * (c - 1), 1)
        r = min(max(r, -0.9 / max(c - 1, 1)), 0.999)
        sigma = units * (r + (1 - r) * np.eye(c))
        return BlockFit(sigma, float(np.linalg.slogdet(sigma)[1] + np.trace(np.linalg.solve(sigma, S))))

    def deviances(self, R: FloatArray, tree: FloatArray, span: IntArray, largest: float) -> FloatArray:
        return np.array([self.fit(R[lo:hi, lo:hi]).deviance for lo, hi in span])


def branch_worths(R: FloatArray, tree: Matrix, n_rows: float, price: float, models: Sequence[BlockModel]) -> Any:
    """Deviances and prices of the branches of a tree, what each is worth as one group, and its best shape."""
    order, span = spans(tree)
    deviances = np.array([m.deviances(R[np.ix_(order, order)], tree, span, n_rows - 1) for m in models])
    prices = group_prices(tuple(models), len(R), price)
    worth, shape = np.empty(len(span)), np.zeros(len(span), dtype=np.intp)
    worths(deviances, prices, span, float(n_rows), worth, shape)
    return deviances, prices, worth, shape


@pytest.mark.parametrize(
    "shape", ["auto", "full", "tree", 1, CompoundSymmetry()], ids=["auto", "full", "tree", "1", "own"]
)
@given(seeds, st.integers(1, 9), st.sampled_from([5, 20, 200]))
@settings(max_examples=25)
def test_the_best_of_all_cuts_is_found(shape: object, seed: int, p: int, n_rows: int) -> None:
    # Exhaustive. Red if a branch is closed once it is not worth a group, or a cut is horizontal, or has a barred merge.
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, p)) + rng.standard_normal((n_rows, 3))[:, rng.integers(0, 3, p)]
    R, models = as_matrix(covariance(X)).definite(), block_models(shape)
    tree, barred = HIERARCHICAL.tree(R), rng.random(p - 1) < 0.2
    order, span = spans(tree)
    deviances, prices, worth, best_shape = branch_worths(R, tree, n_rows, bic_price(n_rows), models)
    worth[p:][barred] = -np.inf
    no_margins = np.zeros(len(models))
    labels, shapes, values = best_cut(deviances, prices, float(n_rows), barred, no_margins, tree, order, span)
    columns = {frozenset(order[slice(*span[v])].tolist()): v for v in range(2 * p - 1)}
    nodes = [columns[frozenset(np.flatnonzero(labels == k).tolist())] for k in range(len(values))]
    assert np.array_equal(worth[nodes], values) and np.array_equal(best_shape[nodes], shapes)
    assert values.sum() == pytest.approx(max(worth[cut].sum() for cut in cuts(tree)), abs=1e-9)


@given(seeds, st.integers(1, 12), st.sampled_from([10, 40, 200]), st.floats(0, 9))
@settings(max_examples=40)
def test_groups_become_one_only_by_a_margin(seed: int, p: int, n_rows: int, margin: float) -> None:
    # Literal recursion. Red if the margin counts where a half has no group, or is another shape's.
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, p)) + rng.standard_normal((n_rows, 4))[:, rng.integers(0, 4, p)]
    R, models = as_matrix(covariance(X)).definite(), block_models("auto")
    tree, margins = HIERARCHICAL.tree(R), margin * rng.random(len(models))
    order, span = spans(tree)
    deviances, prices, worth, shape = branch_worths(R, tree, n_rows, bic_price(n_rows), models)

    def cut(v: int) -> tuple[float, list[int]]:
        if v < p:
            return 0.0, [v]
        (one, left), (other, right) = (cut(child) for child in tree[v - p, :2].astype(int).tolist())
        least = margins[shape[v]] if one > 0 and other > 0 else 0.0
        return (worth[v], [v]) if worth[v] > one + other + least else (one + other, left + right)

    values = best_cut(deviances, prices, float(n_rows), np.zeros(p - 1, bool), margins, tree, order, span)[2]
    best, nodes = cut(2 * p - 2)
    assert_allclose(np.sort(values), np.sort(worth[nodes]))
    assert values.sum() == pytest.approx(best, abs=1e-9)


def test_margins_are_for_the_choice_among_pairs() -> None:
    models = block_models("auto")
    trees = np.array([model.name == "tree" for model in models])
    assert trees.any() and not trees.all()
    assert_allclose(merge_margins(models, 8, remaining=False), np.where(trees, 0, np.log(28)))
    assert_allclose(merge_margins(models, 8, remaining=True), np.log(28 / 0.02))
    assert not merge_margins(models, 1, remaining=False).any()


@pytest.mark.filterwarnings("ignore:EM stopped")  # two common factors in 50 rows
def test_chance_joins_no_pairs_of_the_papers_grid() -> None:
    # Twelve pairs on top of noise that all columns share, 50 rows. Without margins about 0.8 of the columns are right.
    designs = [block_grid(24, 12, seed) for seed in range(2000, 2008)]
    tables = [design.sample(50, seed) for seed, design in enumerate(designs)]
    for model in (GaussianBiclustering(random_state=0), BlockDiagonalCovariance()):
        labels = [np.atleast_2d(model.fit(X).column_labels_)[0] for X in tables]
        right = [matched_accuracy(design.partition, each) for design, each in zip(designs, labels, strict=True)]
        assert np.mean(right) > 0.93


@given(seeds, st.integers(2, 8), st.sampled_from([12, 40, 200]), st.floats(0.1, 8))
def test_the_worth_of_full_groups_is_their_objective(seed: int, p: int, n_rows: int, price: float) -> None:
    # Literal objective of a cut, with the price of its partition, less that of all columns alone.
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, p)) + rng.standard_normal((n_rows, 2))[:, rng.integers(0, 2, p)]
    R = as_matrix(covariance(X)).definite()
    tree = HIERARCHICAL.tree(R)
    order, span = spans(tree)
    _, _, worth, shape = branch_worths(R, tree, n_rows, price, (FULL,))
    assert not shape.any()
    apart = n_rows * oracles.objective(R, range(p)) - price * p
    for cut in cuts(tree):
        labels = np.empty(p, dtype=int)
        for k, v in enumerate(cut):
            labels[order[slice(*span[v])]] = k
        literal = n_rows * oracles.objective(R, labels) - price * oracles.n_parameters(labels)
        assert worth[cut].sum() == pytest.approx(literal - oracles.partition_price(labels) - apart, abs=1e-6)


@pytest.mark.parametrize("n_rows", [30, 100, 1000])
def test_independent_columns_stay_alone(n_rows: int) -> None:
    # Red without the price of the partition: BIC alone groups half of the columns at 100 rows.
    S = [covariance(np.random.default_rng(seed).standard_normal((n_rows, 30))) for seed in range(6)]
    found = [grouped(BestCut().choose(one, n_rows, HIERARCHICAL).partition) for one in S]
    assert sum(found) <= 0.03 * 6 * 30 + 2


@pytest.mark.parametrize("n_rows", [50, 300])
def test_a_planted_module_is_found(n_rows: int) -> None:
    # 20 columns of one factor among 60: a full block of them costs 210 parameters, one factor 40.
    X, truth = module_rows(0, [20] + [1] * 40, n_rows)
    found = BestCut().choose(covariance(X), n_rows, HIERARCHICAL)
    assert adjusted_rand(truth, found.partition) > 0.85
    assert found.shapes[int(found.partition.sizes.argmax())].name == "1 factor"
    if n_rows == 50:
        full = BestCut("full").choose(covariance(X), n_rows, HIERARCHICAL)
        assert adjusted_rand(truth, full.partition) < 0.5


def test_a_chain_is_a_tree() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 24))
    for j in range(1, 12):
        X[:, j] = 0.8 * X[:, j - 1] + 0.6 * X[:, j]
    found = BestCut().choose(covariance(X), 150, HIERARCHICAL)
    largest = int(found.partition.sizes.argmax())
    assert set(found.partition.groups[largest]) <= set(range(12)) and found.partition.sizes.max() > 6
    assert found.shapes[largest].name == "tree"


def test_the_best_shape_of_each_block() -> None:
    # Worth of a literal list. Red if the price of the parameters or of the structure is left out.
    X, truth = module_rows(3, [9, 3, 1], 100, 0.6)
    R = as_matrix(covariance(X)).definite()
    models: list[BlockModel] = [FULL, FactorBlock(1), FactorBlock(2), TreeBlock()]
    for group, shape in zip(truth.groups, best_shapes(R, truth, 100, bic_price(100), models), strict=True):
        c, block = len(group), R[np.ix_(group, group)]
        worth = {
            m.name: -50 * m.fit(block).deviance - bic_price(100) * m.n_parameters(c) - m.choice_price(c, 6)
            for m in models
            if m is FULL or m.n_parameters(c) < c * (c + 1) / 2
        }
        assert shape.name == max(worth, key=lambda name: worth[name])


def test_a_shape_that_is_asked_for_holds_with_few_rows_too() -> None:
    # Red if groups that too few rows support fall back to full blocks, which need more rows still.
    R = as_matrix(covariance(module_rows(0, [9], 3, 0.6)[0])).definite()
    assert best_shapes(R, Partition.single(9), 3, bic_price(3), block_models(2))[0].name == "2 factors"


@pytest.mark.parametrize("n_rows", [1.0, 2.0])
def test_two_rows_have_no_groups(n_rows: float) -> None:
    # Red if ties are grouped: two rows have no correlations but ±1.
    for p in (1, 2, 40):
        S = np.full((p, p), 1.0) + 1e-9 * np.eye(p)
        assert BestCut().choose(S, n_rows, HIERARCHICAL).partition == Partition.separate(p)


def test_more_columns_than_rows_have_an_answer() -> None:
    # One shape per group, in the order of the labels, each cheaper than a full block or full.
    X, truth = module_rows(0, [15, 15] + [1] * 10, 20, 0.8)
    found = BestCut().choose(covariance(X), 20, HIERARCHICAL)
    assert adjusted_rand(truth, found.partition) > 0.6
    for shape, c in zip(found.shapes, found.partition.sizes.tolist(), strict=True):
        assert c >= {"full": 1, "1 factor": 4, "2 factors": 5, "tree": 3}[shape.name]
        assert shape.name != "full" or c < 19  # a full block would be singular


@pytest.mark.parametrize("n_groups", ["auto", 2])
def test_a_mixture_takes_a_shape_of_the_users_own(n_groups: object) -> None:
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((60, 2)), 8, axis=1) + rng.standard_normal((60, 16))
    model = GaussianBiclustering(1, n_groups, block_model=CompoundSymmetry()).fit(X)  # type: ignore[arg-type]
    assert model.block_shapes_ == (("compound symmetry",) * 2,)
    assert model.n_parameters_ == 16 + 2 * 9
    assert model.loadings_ == ((None, None),)
    R = model.covariances_[0] / np.sqrt(np.outer(*[model.covariances_[0].diagonal()] * 2))
    inside = R[:8, :8][np.triu_indices(8, 1)]
    assert_allclose(inside, inside[0])
    assert (np.diff(model.log_likelihood_trace_) >= -1e-9).all()


def valued_groups(cut: Cut) -> set[tuple[frozenset[int], str, float]]:
    """Columns, shape and worth of each group."""
    groups = [frozenset(np.flatnonzero(cut.labels == k).tolist()) for k in range(len(cut.worth))]
    return set(zip(groups, [model.name for model in cut.shapes], cut.worth.tolist(), strict=True))


@given(seeds, st.integers(2, 14), st.sampled_from([10, 40, 200]))
@settings(max_examples=30)
def test_the_better_of_two_cuts_is_taken_part_by_part(seed: int, p: int, n_rows: int) -> None:
    rng = np.random.default_rng(seed)
    X = np.cumsum(rng.standard_normal((n_rows, p)) * rng.choice([0.3, 3.0], p), axis=1) + rng.standard_normal(
        (n_rows, p)
    )
    R = as_matrix(covariance(X)).definite()
    one, other = (
        tree_cut(R, HierarchicalGrouping(linkage).tree(R), n_rows, bic_price(n_rows), block_models("auto"))
        for linkage in ("average", "single")
    )
    worth, shapes = np.concatenate([one.worth, other.worth]), one.shapes + other.shapes
    labels, taken = best_of_both(one.labels, other.labels, worth, len(one.worth))
    both = Cut(labels, [shapes[k] for k in taken], worth[taken])
    assert both.worth.sum() >= max(one.worth.sum(), other.worth.sum()) - 1e-9
    known = set().union(*(valued_groups(cut) for cut in (one, other)))
    assert valued_groups(both) <= known


def test_a_higher_price_gives_more_groups() -> None:
    X, _ = module_rows(0, [5, 5, 5], 60, 0.4)
    counts = [
        BestCut("full").choose(covariance(X), 60, HIERARCHICAL, price=p).partition.n_groups for p in (0.0, 2.0, 1e3)
    ]
    assert counts[0] < counts[1] < counts[2] == 15


def test_only_our_own_code_is_given_rows_in_place_of_an_array() -> None:
    profile = HierarchicalGrouping(distance="profile")
    assert takes_gram(HIERARCHICAL, BestCut()) and takes_gram(HierarchicalGrouping("single"), 3)
    assert not any(takes_gram(grouping, 3) for grouping in (GreedyGrouping(), profile, object()))
    assert not any(takes_gram(HIERARCHICAL, rule) for rule in (SilhouetteRule(), BestCut(CompoundSymmetry()), object()))
