"""The EM loop: the trace never falls, it ends where a regroup changes nothing, and no component ends as NaN."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
from mixtures import ODD, TRUTH, Fixed, begin, family, parameters_with, two_clusters
from numpy.testing import assert_allclose
from strategies import Matrix, block_rows

from blockmix.blocks.blocks import Layout, Parameters, Prior
from blockmix.em.block import BlockFamily
from blockmix.em.loop import MIN_ROWS, LoopResult, LoopState, Outcome, reseed, run
from blockmix.em.sweep import Statistics
from blockmix.grouping import BestCut, GreedyGrouping, HierarchicalGrouping, SilhouetteRule
from blockmix.partition import Partition
from blockmix.rows import ArrayRows, Rows


def ended(
    chosen: BlockFamily, rows: ArrayRows, z: Matrix, tol: float, max_iter: int, **options: Any
) -> LoopResult[Parameters]:
    """EM from responsibilities to its end."""
    return run(chosen, rows, begin(chosen, rows, z, tol), tol, max_iter, **options)


def value_of(rows: ArrayRows, parameters: Parameters, chosen: BlockFamily) -> float:
    return chosen.objective(chosen.sweep(rows, parameters), parameters)


@pytest.mark.parametrize("first", [TRUTH, (ODD, ODD), TRUTH[::-1]])
def test_the_groups_are_found_from_any_groups_and_a_regroup_at_the_end_changes_nothing(
    first: tuple[Partition, ...],
) -> None:
    rows, z = two_clusters()
    chosen = family(rows)
    start = LoopState(parameters_with(Layout(first), rows, z), chosen.loose(1e-6))
    found = run(chosen, rows, start, 1e-6, 200)
    assert found.outcome is Outcome.CONVERGED
    assert found.state.parameters.layout.partitions == TRUTH
    assert chosen.proposer.regroup(rows, found.state.parameters) is None


def test_groups_are_revised_again_after_the_objective_has_moved_on() -> None:
    # The first proposal is bad, the second good. Red if the fit ends at the first regroup that changes nothing, however
    # far EM still goes.
    rng = np.random.default_rng(1)
    X = np.concatenate([block_rows(rng, 80, TRUTH[0]), block_rows(rng, 80, TRUTH[1]) + 1.2])
    rows = ArrayRows.standardized(X)
    z = rng.dirichlet(np.ones(2), 160)
    chosen = family(rows, grouping=Fixed(ODD, ODD, ODD, ODD, *[TRUTH[0]] * 20))
    found = ended(chosen, rows, z, 1e-8, 500)
    assert found.outcome is Outcome.CONVERGED
    assert TRUTH[0] in found.state.parameters.layout.partitions


def test_a_loop_from_its_last_state_continues_with_one_trace() -> None:
    rows, _ = two_clusters(apart=1.0)
    z = np.random.default_rng(0).dirichlet(np.ones(2), rows.n_rows)
    chosen = family(rows)
    numbers: list[int] = []
    whole = ended(chosen, rows, z, 0.0, 30)
    half = ended(chosen, rows, z, 0.0, 12)
    rest = run(chosen, rows, half.state, 0.0, 30, lambda iteration, value: numbers.append(iteration))
    assert whole.outcome is half.outcome is rest.outcome is Outcome.ITERATION_LIMIT
    assert rest.state.trace == whole.state.trace
    assert rest.state.trace[:12] == half.state.trace
    assert numbers == list(range(12, 30))
    assert np.array_equal(rest.state.parameters.means, whole.state.parameters.means)


def test_a_state_that_has_converged_or_has_all_its_iterations_is_returned_as_it_is() -> None:
    rows, z = two_clusters()
    chosen = family(rows)

    def fail(*_: object) -> None:
        pytest.fail("nothing was left to do")

    for found, outcome in (
        (ended(chosen, rows, z, 1e-4, 100), Outcome.CONVERGED),
        (ended(chosen, rows, z, 0.0, 3), Outcome.ITERATION_LIMIT),
    ):
        assert found.outcome is outcome
        again = run(chosen, rows, found.state, 1e-4, len(found.state.trace), fail, fail)
        assert again.state is found.state
        assert again.outcome is outcome


@pytest.mark.parametrize(("seed", "apart"), [(0, 0.5), (3, 0.5), (1, 1.0)])
def test_the_end_is_near_the_limit_where_a_gain_below_tol_is_not(seed: int, apart: float) -> None:
    # Clusters that overlap, so that EM is slow. Red if the tolerance stays loose once the groups stand.
    rows, _ = two_clusters(seed, apart=apart)
    z = np.random.default_rng(seed).dirichlet([0.5, 0.5], rows.n_rows)
    tol, chosen = 1e-4, family(rows, 6, 6)
    short, long = (ended(chosen, rows, z, t, 5000) for t in (tol, 1e-12))
    assert short.outcome is long.outcome is Outcome.CONVERGED
    left = (long.state.trace[-1] - np.array(long.state.trace)) / rows.n_rows
    small = int(np.argmax(np.diff(long.state.trace) / rows.n_rows < tol))
    assert left[len(short.state.trace) - 1] < 1.5 * tol < 4 * tol < left[small]


def test_the_callback_gets_every_iteration_and_its_value() -> None:
    rows, z = two_clusters()
    reported: list[tuple[int, float]] = []
    found = ended(family(rows), rows, z, 1e-4, 100, callback=lambda *progress: reported.append(progress))
    assert reported == list(enumerate(found.state.trace))


@pytest.mark.parametrize(("gain", "ends"), [(0.5, False), (1e-5, True)])
def test_a_regroup_that_changes_nothing_ends_a_fit_only_where_nothing_moves(gain: float, ends: bool) -> None:
    # Red if EM ends where it has settled: a quick rise before a slow one seems settled, and the slow one may go far.
    rows, z = two_clusters(apart=1.0)
    tol, chosen = 1e-4, family(rows)
    settled = ended(chosen, rows, z, 0.0, 200).state.parameters
    value = value_of(rows, settled, chosen)
    last = value / rows.total_weight
    state = LoopState(settled, tol, (last - gain * tol - 1.0, last - gain * tol), trace=(value,))
    after = run(chosen, rows, state, tol, 2).state
    assert len(after.trace) == 2
    assert after.parameters.layout is settled.layout
    assert after.converged is ends


def test_a_state_cannot_be_changed() -> None:
    state = LoopState("parameters", 1.0)  # type: ignore[type-var]
    for name in vars(state):
        with pytest.raises(FrozenInstanceError):
            setattr(state, name, None)
    assert isinstance(state.trace, tuple) and isinstance(state.notes, tuple) and isinstance(state.memory, frozenset)


def test_an_interrupt_keeps_the_parameters_so_far() -> None:
    rows, _ = two_clusters(apart=1.0)
    z = np.random.default_rng(0).dirichlet(np.ones(2), rows.n_rows)
    chosen = family(rows)

    def interrupt(iteration: int, value: float) -> None:
        if iteration == 4:
            raise KeyboardInterrupt

    found = ended(chosen, rows, z, 0.0, 100, callback=interrupt)
    assert found.outcome is Outcome.INTERRUPTED
    assert found.state.trace == ended(chosen, rows, z, 0.0, 100).state.trace[:5]
    assert value_of(rows, found.state.parameters, chosen) == pytest.approx(found.state.trace[-1], rel=1e-12)


class Interrupted(BlockFamily):
    """A family whose sweep is interrupted."""

    def sweep(self, rows: Rows, parameters: Parameters) -> Statistics:
        raise KeyboardInterrupt


def test_an_interrupt_before_the_first_value_has_nothing_to_keep() -> None:
    # Red if a result without a trace comes back: ranking it would fail.
    rows, z = two_clusters()
    chosen = family(rows)
    start = begin(chosen, rows, z, 1e-4)
    with pytest.raises(KeyboardInterrupt):
        run(Interrupted(chosen.proposer, chosen.total_weight), rows, start, 1e-4, 10)


def test_an_error_in_the_callback_is_raised() -> None:
    rows, z = two_clusters()

    def refuse(*_: object) -> None:
        raise RuntimeError("no more disk")

    with pytest.raises(RuntimeError, match=r"^no more disk$"):
        ended(family(rows), rows, z, 1e-4, 10, callback=refuse)


# Components that lose their rows.


def thirds(left: float, n_rows: int = 160) -> Matrix:
    """Two clusters and a third component with a share of `left` in every row."""
    z = np.zeros((n_rows, 3))
    z[: n_rows // 2, 0] = z[n_rows // 2 :, 1] = 1 - left
    z[:, 2] = left
    return z


@pytest.mark.parametrize("left", [0.0, 1e-300, 1e-14, 1e-10, 1e-9, 1e-8, 1e-6, 1e-3])
@pytest.mark.parametrize("number", [1, 2, 6, BestCut(), SilhouetteRule()])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("grouping", [HierarchicalGrouping(), GreedyGrouping()])
def test_a_dying_component_lowers_no_trace_and_leaves_no_nan(
    left: float, number: object, shared: bool, grouping: object
) -> None:
    # Red at left ≤ 1e-10 if a regroup divides by its weight; at 1e-9 if it gets narrower when it becomes empty.
    rows, _ = two_clusters(apart=6.0)
    priced = not isinstance(number, int)
    chosen = family(rows, number, number, number, grouping=grouping, shared=shared, priced=priced)
    state = ended(chosen, rows, thirds(left), 1e-6, 60).state
    assert np.isfinite(state.trace).all()
    assert np.diff(state.trace).min(initial=0) >= -1e-10 * abs(state.trace[-1])
    assert np.isfinite(state.parameters.means).all()
    assert all(np.isfinite(block.dense()).all() for block in state.parameters.covariances)


def test_a_lost_component_is_restarted_at_the_row_of_least_density(monkeypatch: pytest.MonkeyPatch) -> None:
    # In chunks of 64 rows. Red if the row is counted from the start of its chunk.
    monkeypatch.setattr("blockmix.rows.rows._CHUNK_NUMBERS", 1)
    X = two_clusters(apart=6.0)[0].X.copy()
    X[117] += 40  # one row far from both clusters
    rows = ArrayRows.standardized(X)
    state = ended(family(rows, 6, 6, 6, shared=True), rows, thirds(1e-3), 1e-6, 60).state
    assert state.notes == ("component 2 had lost all rows and was restarted at row 117",)
    assert state.reseeded == (2,)
    assert_allclose(state.parameters.weights[2], 1 / 160, rtol=1e-3)
    assert (state.parameters.weights * 160 >= MIN_ROWS).all()


@pytest.mark.parametrize("chunk_numbers", [1, 10**6])
def test_a_row_of_no_weight_restarts_nothing(chunk_numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Rows 0 to 63 and 70 have no weight and lie farthest out. Red if a chunk in which no row counts offers one.
    monkeypatch.setattr("blockmix.rows.rows._CHUNK_NUMBERS", chunk_numbers)
    X, weights = two_clusters(apart=6.0)[0].X.copy(), np.ones(160)
    X[[0, 3, 70]] += 40
    X[130] += 30
    weights[:64] = weights[70] = 0
    rows = ArrayRows.standardized(X, weights)
    state = ended(family(rows, 6, 6, 6, shared=True), rows, thirds(1e-3), 1e-6, 60).state
    assert state.notes == ("component 2 had lost all rows and was restarted at row 130",)


def test_a_restart_that_lowers_the_objective_is_not_kept() -> None:
    # Without column groups to share, a new component on one row costs more than it gains. Red if it is kept anyway.
    rows, _ = two_clusters(apart=5.0)
    chosen = family(rows, 2, 2, 2)
    first = begin(chosen, rows, thirds(1e-12), 1e-6)
    assert value_of(rows, reseed(chosen, rows, first.parameters, 2)[1], chosen) < value_of(
        rows, first.parameters, chosen
    )
    state = run(chosen, rows, first, 1e-6, 60).state
    assert state.notes == ()
    assert state.reseeded == (2,)  # and it is not tried again
    assert state.parameters.weights[2] < 1e-9


def test_a_restarted_component_has_the_weight_of_a_row_and_its_values() -> None:
    rows, z = two_clusters()
    chosen = family(rows, 6, 6)
    old = chosen.first(rows, z).parameters
    row, new = reseed(chosen, rows, old, 0)
    values = (rows.X - rows.location) / rows.scale
    assert_allclose(new.means, [values[row], old.means[1]])
    assert_allclose(new.weights, [old.weights[0] * (1 - 1 / 160) + 1 / 160, old.weights[1] * (1 - 1 / 160)])
    joint = np.concatenate(list(rows.map(lambda chunk: chosen.log_joint(chunk, old))))
    assert row == np.logaddexp.reduce(joint, axis=1).argmin()


def test_em_of_weights_is_em_of_repeated_rows() -> None:
    rng = np.random.default_rng(0)
    X = two_clusters(n_rows=30, apart=1.0)[0].X
    counts = rng.integers(0, 4, 60)
    z = rng.dirichlet(np.ones(2), 60)
    found = []
    for rows, start in (
        (ArrayRows.standardized(X, counts.astype(float)), z),
        (ArrayRows.standardized(np.repeat(X, counts, axis=0)), np.repeat(z, counts, axis=0)),
    ):
        found.append(ended(family(rows, BestCut(), BestCut(), priced=True), rows, start, 1e-6, 100).state)
    assert_allclose(found[0].trace, found[1].trace, rtol=1e-9)
    assert found[0].parameters.layout.partitions == found[1].parameters.layout.partitions
    assert_allclose(found[0].parameters.means, found[1].parameters.means, atol=1e-8)


@pytest.mark.parametrize("prior", [Prior(), Prior(ridge=1e-4)])
def test_rows_of_other_units_have_the_trace_of_their_own_units(prior: Prior) -> None:
    rows, z = two_clusters(apart=1.0)
    scale = np.array([1e-3, 1.0, 10.0, 1e3, 0.1, 2.0])
    other = replace(rows, X=rows.X * scale + 5, location=rows.location * scale + 5, scale=rows.scale * scale)
    traces = [ended(family(one, prior=prior), one, z, 1e-6, 40).state.trace for one in (rows, other)]
    assert_allclose(*traces, rtol=1e-9)
