"""The ascent: a regroup is kept only where the objective rises, the trace never falls, and no component ends as NaN."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import Matrix, block_rows, partitions, seeds

from blockmix.em import loop as ascent_module
from blockmix.em.block.parameters import Layout, Parameters, Prior
from blockmix.em.block.sweep import centered_scatter, regrouped, sweep
from blockmix.em.convergence import Outcome
from blockmix.em.loop import (
    Ascent,
    Model,
    Waypoint,
    climb,
    first_parameters,
    lost_components,
    objective,
    propose,
    reseed,
    thin_components,
)
from blockmix.grouping import BicRule, GreedyGrouping, HierarchicalGrouping, SilhouetteRule
from blockmix.grouping.protocols import Proposal
from blockmix.rows import ArrayRows
from blockmix.structure.partition import Partition

TRUTH = (Partition([0, 0, 0, 1, 1, 1]), Partition([0, 1, 0, 1, 0, 1]))
ODD = Partition([0, 1, 1, 0, 0, 1])  # neither of the two


class Fixed:
    """A grouping with one answer, right or wrong."""

    def __init__(self, *answers: Partition) -> None:
        self.answers = list(answers)

    def group(self, S: Matrix, n_groups: int, n_rows: float) -> Proposal:
        return Proposal(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])


def two_clusters(seed: int = 0, n_rows: int = 80, apart: float = 3.0) -> tuple[ArrayRows, Matrix]:
    """Rows of two components with different column groups, and their hard responsibilities."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([block_rows(rng, n_rows, TRUTH[0]), block_rows(rng, n_rows, TRUTH[1]) + apart])
    return ArrayRows.standardized(X), np.repeat(np.eye(2), n_rows, axis=0)


def model(
    *n_groups: object, grouping: object = None, shared: bool = False, prior: Prior | None = None, priced: bool = False
) -> Model:
    return Model(n_groups or (2, 2), grouping or HierarchicalGrouping(), shared, prior or Prior(ridge=1e-4), priced)  # type: ignore[arg-type]


def parameters_with(layout: Layout, rows: ArrayRows, z: Matrix, prior: Prior | None = None) -> Parameters:
    """The M-step from responsibilities with given column groups."""
    answers = Fixed(*(layout.partitions[:1] if layout.shared else layout.partitions))
    numbers = tuple(partition.n_groups for partition in layout.partitions)
    return first_parameters(rows, z, model(*numbers, grouping=answers, shared=layout.shared, prior=prior))


def proposed(rows: ArrayRows, parameters: Parameters, chosen: Model) -> tuple[Layout, Parameters]:
    """The layout that a regroup proposes, and the parameters it leads to."""
    full = sweep(rows, parameters, full=True)
    scatter = centered_scatter(full, parameters)
    layout = propose(full, scatter, parameters.layout, chosen, rows)
    return layout, regrouped(full, scatter, layout, chosen.prior)


def value_of(rows: ArrayRows, parameters: Parameters, chosen: Model) -> float:
    return objective(sweep(rows, parameters), parameters, chosen, rows)


@pytest.mark.parametrize("shared", [False, True])
def test_groups_that_would_lower_the_objective_are_not_taken(shared: bool) -> None:
    # Red if a proposal is kept as it comes: then EM is the paper's, whose likelihood falls.
    rows, z = two_clusters()
    right = Layout((TRUTH[0],) * 2 if shared else TRUTH, shared)
    if shared:
        rows = ArrayRows.standardized(block_rows(np.random.default_rng(0), 160, TRUTH[0]) + 3 * z[:, :1])
    parameters = parameters_with(right, rows, z)
    assert proposed(rows, parameters, model(grouping=Fixed(ODD), shared=shared))[0] is parameters.layout


@pytest.mark.parametrize("shared", [False, True])
def test_groups_that_raise_the_objective_are_taken(shared: bool) -> None:
    rows, z = two_clusters()
    if shared:
        rows = ArrayRows.standardized(block_rows(np.random.default_rng(0), 160, TRUTH[0]) + 3 * z[:, :1])
    parameters = parameters_with(Layout((ODD, ODD), shared), rows, z)
    chosen = model(shared=shared)
    layout, new = proposed(rows, parameters, chosen)
    assert layout.partitions == ((TRUTH[0],) * 2 if shared else TRUTH)
    assert layout.shared == shared
    assert value_of(rows, new, chosen) > value_of(rows, parameters, chosen) + 10


@pytest.mark.parametrize("shared", [False, True])
def test_pseudo_rows_of_the_prior_count_in_a_regroup(shared: bool) -> None:
    # Columns from uncorrelated to correlated: where joining them begins to pay depends on κ, once per component.
    prior, joined = Prior(shrinkage=60.0), Partition.single(2)
    taken, expected = [], []
    for strength in np.linspace(0.3, 0.95, 60):
        X = block_rows(np.random.default_rng(0), 40, joined, strength)
        rows, z = ArrayRows.standardized(X), np.full((40, 2), 0.5)
        parameters = parameters_with(Layout((Partition.separate(2),) * 2, shared), rows, z, prior)
        chosen = model(1, 1, grouping=Fixed(joined), shared=shared, prior=prior, priced=True)
        taken.append(proposed(rows, parameters, chosen)[0].partitions[0] == joined)
        n, total = (40.0, 160.0) if shared else (20.0, 80.0)  # with pseudo-rows
        r = np.corrcoef(X.T)[0, 1] * n / total
        expected.append(-0.5 * total * np.log(1 - r**2) > 0.5 * np.log(40))
    assert taken == expected
    assert 5 < sum(taken) < 55


def test_one_component_may_change_its_groups_and_the_other_keep_them() -> None:
    rows, z = two_clusters()
    parameters = parameters_with(Layout((TRUTH[0], ODD)), rows, z)
    # The grouping is wrong for the first component and right for the second.
    assert proposed(rows, parameters, model(grouping=Fixed(ODD, TRUTH[1])))[0].partitions == TRUTH


def test_equal_groups_under_other_numbers_are_no_change() -> None:
    rows, z = two_clusters()
    parameters = parameters_with(Layout(TRUTH), rows, z)
    again = Fixed(Partition([7, 7, 7, 3, 3, 3]), Partition([5, 1, 5, 1, 5, 1]))
    assert proposed(rows, parameters, model(grouping=again))[0] is parameters.layout


@given(seeds, st.booleans(), st.sampled_from([6, 12, 30]), st.sampled_from([np.float64, np.float32]))
@settings(max_examples=30)
def test_a_regroup_of_components_at_once_is_one_of_them_in_turn(
    seed: int, shared: bool, at_once: int, dtype: type
) -> None:
    # One, two and five components of six columns at a time, the fourth of them dead and without a prior.
    rng = np.random.default_rng(seed)
    rows = ArrayRows.standardized(two_clusters(seed, apart=1.0)[0].X.astype(dtype))
    z = rng.dirichlet(np.ones(5), rows.n_rows).astype(dtype)
    z[:, 3] = 0
    chosen = model(BicRule(), 3, BicRule(), BicRule(), 2, shared=shared, prior=Prior(), priced=True)
    old = tuple(Partition(rng.integers(0, 3, 6)) for _ in range(5))
    parameters = parameters_with(Layout(old[:1] * 5 if shared else old, shared), rows, z)
    full = sweep(rows, parameters, full=True, z=z)
    scatter = centered_scatter(full, parameters)
    taken = propose(full, scatter, parameters.layout, chosen, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("blockmix.em.loop.AT_ONCE", at_once)
        assert propose(full, scatter, parameters.layout, chosen, rows).partitions == taken.partitions
    assert propose(full, scatter, taken, chosen, rows) is taken


@given(seeds, partitions(6), partitions(6), st.booleans(), st.booleans(), st.sampled_from([0.0, 40.0]))
@settings(max_examples=100)
def test_a_regroup_never_lowers_the_objective_and_a_better_one_is_never_refused(
    seed: int, old: Partition, new: Partition, shared: bool, priced: bool, shrinkage: float
) -> None:
    # From responsibilities that the parameters themselves give, so the literal objective of both layouts is at hand.
    rows, z = two_clusters(seed, n_rows=20, apart=1.0)
    prior = Prior(shrinkage, ridge=0.01)
    parameters = parameters_with(Layout((old, old), shared), rows, z, prior)
    chosen = model(new.n_groups, new.n_groups, grouping=Fixed(new), shared=shared, prior=prior, priced=priced)
    layout, after = proposed(rows, parameters, chosen)
    assert value_of(rows, after, chosen) >= value_of(rows, parameters, chosen) - 1e-9

    full = sweep(rows, parameters, full=True)
    scatter = centered_scatter(full, parameters)
    price = 0.5 * np.log(rows.total_weight) if priced else 0.0
    pulled = scatter + (shrinkage + 0.01) * np.eye(6)
    sources = (
        [(pulled.sum(axis=0), full.weight.sum() + 2 * shrinkage)]
        if shared
        else list(zip(pulled, full.weight + shrinkage, strict=True))
    )
    for (total, n), taken in zip(sources, layout.partitions, strict=False):
        values = {
            partition: n * oracles.objective(total / n, partition.labels)
            - price * oracles.n_parameters(partition.labels)
            for partition in (old, new)
        }
        assert values[taken] >= max(values.values()) - 1e-6


@given(seeds, st.sampled_from([1, 3, 6, BicRule(), SilhouetteRule()]), st.booleans(), st.sampled_from([0.0, 10.0]))
@settings(max_examples=20)
def test_the_trace_is_the_objective_and_never_falls(seed: int, number: object, shared: bool, shrinkage: float) -> None:
    rows, _ = two_clusters(seed, n_rows=30, apart=1.0)
    z = np.random.default_rng(seed).dirichlet(np.ones(3), rows.n_rows)
    priced = not isinstance(number, int)
    chosen = model(number, number, number, shared=shared, prior=Prior(shrinkage, 1e-4), priced=priced)
    ascent = climb(rows, z, chosen, 1e-6, 60)
    assert np.diff(ascent.trace).min() >= -1e-10 * abs(ascent.trace[-1])
    if ascent.outcome is Outcome.CONVERGED:
        assert value_of(rows, ascent.parameters, chosen) == pytest.approx(ascent.trace[-1], rel=1e-12)
    covariances = np.stack([block.dense() for block in ascent.parameters.covariances])
    values = (rows.X - rows.location) / rows.scale
    joint = oracles.log_joint(values, ascent.parameters.weights, ascent.parameters.means, covariances)
    free = sum(oracles.n_parameters(k.labels) for k in ascent.parameters.layout.partitions[: 1 if shared else None])
    expected = np.logaddexp.reduce(joint, axis=1).sum() + oracles.penalty(covariances, shrinkage, 1e-4)
    expected -= 0.5 * np.log(rows.n_rows) * free if priced else 0
    assert value_of(rows, ascent.parameters, chosen) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("first", [TRUTH, (ODD, ODD), TRUTH[::-1]])
def test_the_ascent_finds_the_groups_from_any_groups_and_ends_where_a_regroup_changes_nothing(
    first: tuple[Partition, ...],
) -> None:
    rows, z = two_clusters()
    ascent = climb(rows, parameters_with(Layout(first), rows, z), model(), 1e-6, 200)
    assert ascent.outcome is Outcome.CONVERGED
    assert ascent.parameters.layout.partitions == TRUTH
    assert proposed(rows, ascent.parameters, model())[0] is ascent.parameters.layout


def test_groups_are_looked_at_again_after_the_objective_has_moved_on() -> None:
    # The first look finds a bad proposal, the second a good one. Red if the fit ends at the first look that changes
    # nothing, however far EM still goes.
    rng = np.random.default_rng(1)
    X = np.concatenate([block_rows(rng, 80, TRUTH[0]), block_rows(rng, 80, TRUTH[1]) + 1.2])
    rows = ArrayRows.standardized(X)
    z = rng.dirichlet(np.ones(2), 160)
    asked = Fixed(ODD, ODD, ODD, ODD, *[TRUTH[0]] * 20)
    ascent = climb(rows, z, model(grouping=asked), 1e-8, 500)
    assert ascent.outcome is Outcome.CONVERGED
    assert TRUTH[0] in ascent.parameters.layout.partitions


def test_a_climb_from_parameters_continues_the_climb() -> None:
    rows, _ = two_clusters(apart=1.0)
    z = np.random.default_rng(0).dirichlet(np.ones(2), rows.n_rows)
    # tol = 0: no early stop. With one group there is nothing to regroup, so the cut changes nothing.
    chosen = model(1, 1)
    whole = climb(rows, z, chosen, 0.0, 30)
    half = climb(rows, z, chosen, 0.0, 12)
    rest = climb(rows, half.parameters, chosen, 0.0, 18)
    assert whole.outcome is half.outcome is Outcome.ITERATION_LIMIT
    assert_allclose(half.trace + rest.trace, whole.trace, rtol=1e-12)
    assert_allclose(rest.parameters.means, whole.parameters.means, atol=1e-9)


@pytest.mark.parametrize(("seed", "apart"), [(0, 0.5), (3, 0.5), (1, 1.0)])
def test_the_end_is_near_the_limit_where_a_gain_below_tol_is_not(seed: int, apart: float) -> None:
    # Clusters that overlap, so that EM is slow. Red if the tolerance stays loose once the groups stand.
    rows, _ = two_clusters(seed, apart=apart)
    z = np.random.default_rng(seed).dirichlet([0.5, 0.5], rows.n_rows)
    tol = 1e-4
    short, long = (climb(rows, z, model(6, 6), t, 5000) for t in (tol, 1e-12))
    assert short.outcome is long.outcome is Outcome.CONVERGED
    left = (long.trace[-1] - np.array(long.trace)) / rows.n_rows
    small = int(np.argmax(np.diff(long.trace) / rows.n_rows < tol))
    assert left[len(short.trace) - 1] < 1.5 * tol < 4 * tol < left[small]


def test_the_first_covariances_of_tight_clusters_keep_their_digits() -> None:
    # Red if the first scatter is taken about the overall mean: a variance of 1e-13 is a rounding error beside 1.
    rng = np.random.default_rng(0)
    X = 1e-7 * rng.standard_normal((60, 3)) + np.repeat([[0.0], [1.0]], 30, axis=0)
    rows = ArrayRows.standardized(X)
    first = first_parameters(rows, np.repeat(np.eye(2), 30, axis=0), model(1, 1, prior=Prior()))
    moved = first.in_units(rows.location, rows.scale)
    for block, part in zip(moved.covariances, (X[:30], X[30:]), strict=True):
        assert_allclose(block.dense(), np.cov(part.T, ddof=0), rtol=1e-5, atol=1e-18)


def test_the_callback_hears_every_iteration_and_its_value() -> None:
    rows, z = two_clusters()
    heard: list[tuple[int, float]] = []
    ascent = climb(rows, z, model(), 1e-4, 100, lambda iteration, value: heard.append((iteration, value)))
    assert heard == list(enumerate(ascent.trace))


@pytest.mark.parametrize(("gain", "ends"), [(0.5, False), (1e-5, True)])
def test_a_regroup_that_changes_nothing_ends_a_fit_only_where_nothing_moves(gain: float, ends: bool) -> None:
    # Red if EM ends where it has settled: a quick rise before a slow one looks so, and the slow one may go far.
    rows, z = two_clusters(apart=1.0)
    tol, found = 1e-4, climb(rows, z, model(), 0.0, 200).parameters
    statistics = sweep(rows, found)
    value = ascent_module.objective(statistics, found, model(), rows)
    last = value / rows.total_weight
    here = Waypoint(found, tol, [last - gain * tol - 1.0, last - gain * tol], trace=[value])
    onwards = ascent_module._onwards(here, statistics, None, rows, model(), tol)
    assert onwards.parameters.layout is found.layout
    assert onwards.converged is ends


def test_an_interrupt_keeps_the_parameters_so_far() -> None:
    rows, _ = two_clusters(apart=1.0)
    z = np.random.default_rng(0).dirichlet(np.ones(2), rows.n_rows)

    def interrupt(iteration: int, value: float) -> None:
        if iteration == 4:
            raise KeyboardInterrupt

    ascent = climb(rows, z, model(), 0.0, 100, interrupt)
    assert ascent.outcome is Outcome.INTERRUPTED
    assert len(ascent.trace) == 5
    assert_allclose(ascent.trace, climb(rows, z, model(), 0.0, 100).trace[:5], rtol=1e-12)
    assert value_of(rows, ascent.parameters, model()) == pytest.approx(ascent.trace[-1], rel=1e-12)


def test_an_interrupt_before_the_first_value_has_nothing_to_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    # Red if an ascent without a trace comes back: whoever ranks it fails on it.
    rows, z = two_clusters()
    start = first_parameters(rows, z, model())

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("blockmix.em.loop.sweep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        climb(rows, start, model(), 1e-4, 10)


def thirds(left: float, n_rows: int = 160) -> Matrix:
    """Two clusters and a third component with a share of `left` in every row."""
    z = np.zeros((n_rows, 3))
    z[: n_rows // 2, 0] = z[n_rows // 2 :, 1] = 1 - left
    z[:, 2] = left
    return z


@pytest.mark.parametrize("left", [0.0, 1e-300, 1e-14, 1e-10, 1e-9, 1e-8, 1e-6, 1e-3])
@pytest.mark.parametrize("number", [1, 2, 6, BicRule(), SilhouetteRule()])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("grouping", [HierarchicalGrouping(), GreedyGrouping()])
def test_a_dying_component_lowers_no_trace_and_leaves_no_nan(
    left: float, number: object, shared: bool, grouping: object
) -> None:
    # Red at left ≤ 1e-10 if a regroup divides by its weight; at 1e-9 if it gets narrower when it dies.
    rows, _ = two_clusters(apart=6.0)
    chosen = model(number, number, number, grouping=grouping, shared=shared, priced=not isinstance(number, int))
    ascent = climb(rows, thirds(left), chosen, 1e-6, 60)
    assert np.isfinite(ascent.trace).all()
    assert np.diff(ascent.trace).min(initial=0) >= -1e-10 * abs(ascent.trace[-1])
    assert np.isfinite(ascent.parameters.means).all()
    assert all(np.isfinite(block.dense()).all() for block in ascent.parameters.covariances)


def test_a_lost_component_is_seeded_at_the_row_explained_worst(monkeypatch: pytest.MonkeyPatch) -> None:
    # In chunks of 64 rows. Red if the row is counted from the start of its chunk.
    monkeypatch.setattr("blockmix.rows.chunks._CHUNK_NUMBERS", 1)
    X = two_clusters(apart=6.0)[0].X.copy()
    X[117] += 40  # one row far from both clusters
    rows = ArrayRows.standardized(X)
    ascent = climb(rows, thirds(1e-3), model(6, 6, 6, shared=True), 1e-6, 60)
    assert ascent.notes == ["component 2 had lost all rows and was seeded again at row 117"]
    assert_allclose(ascent.parameters.weights[2], 1 / 160, rtol=1e-3)
    assert lost_components(ascent.parameters, rows).tolist() == []


def test_a_row_of_no_weight_seeds_nothing() -> None:
    rows, _ = two_clusters(apart=6.0)
    X, weights = rows.X.copy(), np.ones(160)
    X[17] += 40
    X[40] += 30
    weights[17] = 0
    ascent = climb(ArrayRows.standardized(X, weights), thirds(1e-3), model(6, 6, 6, shared=True), 1e-6, 60)
    assert ascent.notes == ["component 2 had lost all rows and was seeded again at row 40"]


def test_a_seed_that_does_not_help_is_not_kept() -> None:
    rows, z = two_clusters()
    chosen = model(6, 6, prior=Prior(ridge=1e-4))
    old = first_parameters(rows, z, chosen)
    statistics = sweep(rows, old)
    # Against a value that nothing reaches.
    kept = reseed(0, rows, old, statistics, np.inf, chosen)
    assert kept == (old, statistics, np.inf, [])
    new, seen, value, told = reseed(0, rows, old, statistics, -np.inf, chosen)
    assert told
    assert value == pytest.approx(value_of(rows, new, chosen), rel=1e-12)
    assert seen.log_likelihood == pytest.approx(sweep(rows, new).log_likelihood, rel=1e-12)
    assert new.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("at_once", [6, 12])
def test_a_component_left_without_variance_is_named_where_there_is_no_ridge(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Red at 6 if components are counted from the first of those that are looked at together.
    monkeypatch.setattr("blockmix.em.loop.AT_ONCE", at_once)
    rows, z = two_clusters()
    z[:] = [1, 0]
    z[3] = [0, 1]
    with pytest.raises(ValueError) as caught:
        climb(rows, z, model(prior=Prior()), 1e-4, 10)
    assert str(caught.value) == "component 1 has no variance in some column: give a ridge above 0"


def test_thin_components_have_no_more_rows_than_their_largest_block_has_columns() -> None:
    rows, z = two_clusters()
    z[:] = [1, 0]
    z[:4] = [0, 1]
    layout = Layout((Partition.single(6), Partition([0, 0, 0, 0, 1, 2])))
    parameters = parameters_with(layout, rows, z)
    assert thin_components(parameters, rows).tolist() == [1]
    smaller = parameters_with(Layout((Partition.single(6), Partition([0, 0, 0, 1, 1, 2]))), rows, z)
    assert thin_components(smaller, rows).tolist() == []
    assert thin_components(smaller, rows, spare=1).tolist() == [1]
    assert thin_components(smaller, rows, spare=150).tolist() == [0, 1]
    shared = parameters_with(Layout((Partition.single(6),) * 2, shared=True), rows, z)
    assert thin_components(shared, rows, spare=150).tolist() == []
    assert lost_components(parameters, rows).tolist() == []
    assert lost_components(replace(parameters, weights=np.array([1 - 0.4 / 160, 0.4 / 160])), rows).tolist() == [1]


def test_an_ascent_counts_its_thin_components() -> None:
    # Eight rows, two more than a block of six columns: few enough to count against a start.
    far, z = two_clusters(apart=9.0)
    rows = ArrayRows.standardized(far.X[:88])
    found = [climb(rows, z[:88], model(number, number), 1e-4, 20) for number in (1, 6)]
    assert [ascent.parameters.weights[1] for ascent in found] == pytest.approx([1 / 11, 1 / 11])
    assert [ascent.thin for ascent in found] == [1, 0]


def test_a_model_admits_layouts_of_its_numbers_only() -> None:
    layout = Layout((Partition.single(3), Partition.separate(3)))
    assert model(1, 3).admits(layout)
    assert model(BicRule(), 3).admits(layout)
    assert not model(1, 2).admits(layout)
    assert not model(1, 3, shared=True).admits(layout)
    assert not model(1, 1).admits(Layout((Partition.single(3),) * 2, shared=True))


def test_parameters_are_priced_only_where_their_number_is_chosen() -> None:
    rows, _ = two_clusters()
    assert model().price(rows) == 0
    assert model(priced=True).price(rows) == pytest.approx(0.5 * np.log(160))
    doubled = replace(rows, weights=2 * rows.weights)
    assert model(priced=True).price(doubled) == pytest.approx(0.5 * np.log(320))


def test_an_ascent_of_weights_is_one_of_repeated_rows() -> None:
    rng = np.random.default_rng(0)
    X = two_clusters(n_rows=30, apart=1.0)[0].X
    counts = rng.integers(0, 4, 60)
    z = rng.dirichlet(np.ones(2), 60)
    found: list[Ascent] = []
    for rows, start in (
        (ArrayRows.standardized(X, counts.astype(float)), z),
        (ArrayRows.standardized(np.repeat(X, counts, axis=0)), np.repeat(z, counts, axis=0)),
    ):
        found.append(climb(rows, start, model(BicRule(), BicRule(), priced=True), 1e-6, 100))
    assert_allclose(found[0].trace, found[1].trace, rtol=1e-9)
    assert found[0].parameters.layout.partitions == found[1].parameters.layout.partitions
    assert_allclose(found[0].parameters.means, found[1].parameters.means, atol=1e-8)
