"""The EM loop: Aitken's rule, where it ends, what an interrupt leaves, and components that lose their rows."""

from __future__ import annotations

import copy
from dataclasses import FrozenInstanceError, replace
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mixtures import ODD, TRUTH, Fixed, ended, family, parameters_with, state, two_clusters, value_of, values
from numpy.testing import assert_allclose, assert_array_equal
from strategies import Matrix, block_rows

from blockmix.em.block import BlockFamily
from blockmix.em.loop import MIN_ROWS, LoopState, Outcome, Regroup, reseed, run, settled
from blockmix.em.parameters import Parameters, Prior
from blockmix.partition import Partition
from blockmix.rows import ArrayRows
from blockmix.rows import rows as chunks_module

tolerances = st.floats(1e-8, 1e-1)

# Aitken's rule.


def first_settled(tol: float, values: list[float]) -> int | None:
    """Index of the first value at which the sequence is said to have settled."""
    return next((t for t in range(len(values)) if settled(values[max(t - 2, 0) : t + 1], tol)), None)


@given(st.floats(0.05, 0.95), st.floats(0.5, 50), tolerances)
def test_a_geometric_sequence_settles_when_it_is_within_tol_of_its_limit(rate: float, left: float, tol: float) -> None:
    # Red if the distance left is measured from the second value, or if the gain itself is compared with tol.
    near = [t for t in range(2, 400) if left * rate**t < tol]
    # The extrapolation cancels: leave out sequences that reach tol by a hair, or whose first gain is within rounding.
    assume(near and all(abs(left * rate**t / tol - 1) > 1e-3 for t in range(near[0] + 1)))
    assume(left * (1 - rate) > 1e-3 * tol)
    assert first_settled(tol, [-left * rate**t for t in range(400)]) == near[0]


@given(st.floats(1e-9, 1.0), tolerances)
def test_steady_or_growing_gains_settle_only_below_tol(gain: float, tol: float) -> None:
    assume(abs(gain / tol - 1) > 1e-6 and abs(1.1 * gain / tol - 1) > 1e-6)
    steady = [gain * t for t in range(50)]
    growing = list(accumulate([gain * 1.1**t for t in range(50)], initial=0.0))
    assert (first_settled(tol, steady) is not None) == (gain < tol)
    assert (first_settled(tol, growing) is not None) == (1.1 * gain < tol)  # the first gain that has a rate


def test_one_gain_has_no_rate_yet() -> None:
    # A slow rise may begin with gains just below tol.
    assert first_settled(1e-2, [0.0, 5e-3]) is None
    assert first_settled(1e-2, [0.0, 5e-6]) == 1
    assert first_settled(1e-4, [-5.0, -5.0, -5.0]) == 1
    assert first_settled(0.0, [-1.0] * 20) is None


# From a start to the end.


@pytest.mark.parametrize("first", [TRUTH, (ODD, ODD), TRUTH[::-1]])
def test_the_groups_are_found_from_any_groups_and_a_regroup_at_the_end_changes_nothing(
    first: tuple[Partition, ...],
) -> None:
    rows, z = two_clusters()
    chosen = family(rows)
    result = run(chosen, rows, state(parameters_with(first, rows, z), 1e-2), 1e-6, 200)
    end = result.state.parameters
    assert result.outcome is Outcome.CONVERGED
    assert end.blocks.layout.partitions == TRUTH
    assert chosen.regrouped(rows, end, judge=True) is end


def test_groups_are_revised_again_after_the_objective_has_moved_on() -> None:
    # The first proposal is bad, the second good. Red if the fit ends at the first regroup that changes nothing.
    rng = np.random.default_rng(1)
    X = np.concatenate([block_rows(rng, 80, TRUTH[0]), block_rows(rng, 80, TRUTH[1]) + 1.2])
    rows = ArrayRows.standardized(X)
    chosen = family(rows, grouping=Fixed(ODD, ODD, ODD, ODD, *[TRUTH[0]] * 20))
    result = ended(chosen, rows, rng.dirichlet(np.ones(2), 160), 1e-8, 500)
    assert result.outcome is Outcome.CONVERGED
    assert TRUTH[0] in result.state.parameters.blocks.layout.partitions


@pytest.mark.parametrize(("gain", "ends"), [(0.5, False), (1e-5, True)])
def test_a_regroup_that_changes_nothing_ends_a_fit_only_where_nothing_moves(gain: float, ends: bool) -> None:
    # Red if EM ends where it has settled: a quick rise before a slow one seems settled, and the slow one may go far.
    rows, z = two_clusters(apart=1.0)
    tol, chosen = 1e-4, family(rows)
    parameters = ended(chosen, rows, z, 0.0, 200).state.parameters
    value = value_of(rows, parameters, chosen)
    last = value / rows.total_weight
    begun = LoopState(parameters, tol, (last - gain * tol - 1.0, last - gain * tol), trace=(value,))
    after = run(chosen, rows, begun, tol, 2).state
    assert len(after.trace) == 2
    assert after.parameters.blocks.layout is parameters.blocks.layout
    assert after.converged is ends


@pytest.mark.parametrize(("seed", "apart"), [(0, 0.5), (3, 0.5)])
def test_the_end_is_near_the_limit_where_a_gain_below_tol_is_not(seed: int, apart: float) -> None:
    # Clusters that overlap, so that EM is slow. Red if the tolerance stays loose once the groups stand.
    rows, _ = two_clusters(seed, apart=apart)
    z = np.random.default_rng(seed).dirichlet([0.5, 0.5], rows.n_rows)
    tol, chosen = 1e-4, family(rows, 6)
    short, long = (ended(chosen, rows, z, t, 5000).state for t in (tol, 1e-12))
    assert short.converged and long.converged
    left = (long.trace[-1] - np.array(long.trace)) / rows.n_rows
    small = int(np.argmax(np.diff(long.trace) / rows.n_rows < tol))
    assert left[len(short.trace) - 1] < 1.5 * tol < 4 * tol < left[small]


@pytest.mark.parametrize("settings", [{}, {"tails": "t"}, {"shared": True, "n_groups": "auto"}], ids=str)
@pytest.mark.parametrize("after", [1, 11])
def test_a_loop_goes_on_from_a_saved_state_as_if_it_had_never_stopped(settings: dict[str, Any], after: int) -> None:
    # Red if a later iteration appends to the trace of a saved state or writes into its parameters.
    rows, _ = two_clusters(apart=1.0)
    z = np.random.default_rng(0).dirichlet(np.ones(2), rows.n_rows)
    chosen = family(rows, **settings)
    saved: list[LoopState[Parameters]] = []
    reported: list[tuple[int, float]] = []
    whole = ended(chosen, rows, z, 1e-9, 30, callback=lambda *progress: reported.append(progress), save=saved.append)
    assert reported == list(enumerate(whole.state.trace))
    copied, begun = copy.deepcopy(saved[after - 1]), ended(chosen, rows, z, 1e-9, after)
    rest = run(chosen, rows, saved[after - 1], 1e-9, 30)
    for one, other in ((rest.state, whole.state), (saved[after - 1], copied), (begun.state, copied)):
        for name, value in vars(one).items():
            assert name == "parameters" or value == getattr(other, name), name
        assert_array_equal(one.parameters.means, other.parameters.means)
        assert_array_equal(one.parameters.blocks.factors, other.parameters.blocks.factors)
    assert (rest.outcome, rest.thin) == (whole.outcome, whole.thin)
    with pytest.raises(FrozenInstanceError):
        rest.state.trace = ()  # type: ignore[misc]


def test_a_state_that_has_converged_or_has_all_its_iterations_is_returned_as_it_is() -> None:
    rows, z = two_clusters()
    chosen = family(rows)

    def fail(*_: object) -> None:
        pytest.fail("nothing was left to do")

    for tol, max_iter, outcome in ((1e-4, 100, Outcome.CONVERGED), (0.0, 3, Outcome.ITERATION_LIMIT)):
        result = ended(chosen, rows, z, tol, max_iter)
        again = run(chosen, rows, result.state, 1e-4, len(result.state.trace), fail, fail)
        assert again.state is result.state
        assert again.outcome is result.outcome is outcome


def test_a_result_counts_its_thin_components() -> None:
    # Eight rows, two more than a block of six columns: few enough to count against a start.
    far, z = two_clusters(apart=9.0)
    rows = ArrayRows.standardized(far.X[:88])
    assert [ended(family(rows, number), rows, z[:88], 1e-4, 20).thin for number in (1, 6)] == [(1,), ()]


class Remembering(BlockFamily):
    """Proposes column groups three times, and remembers each proposal."""

    def regroup(self, rows: Any, parameters: Any, statistics: Any, enough: float, memory: frozenset[str]) -> Any:
        tried = memory | {f"proposal {len(memory)}"}
        return Regroup(self.maximize(statistics, parameters), changed=len(tried) < 4, memory=tried)


def test_a_regroup_gets_what_the_last_one_remembered() -> None:
    # Red if the memory is lost between regroups: a family would try the same groups for ever.
    rows, z = two_clusters()
    chosen = Remembering(**vars(family(rows)))
    begun = replace(chosen.first(rows, z, 1e-6), memory=frozenset({"start"}))
    result = run(chosen, rows, begun, 1e-6, 500)
    assert result.outcome is Outcome.CONVERGED
    assert {"start", "proposal 1", "proposal 2", "proposal 3"} <= result.state.memory


# Interrupts and errors.


def test_an_interrupt_keeps_the_parameters_so_far_and_an_error_is_raised() -> None:
    rows, _ = two_clusters(apart=1.0)
    z = np.random.default_rng(0).dirichlet(np.ones(2), rows.n_rows)
    chosen = family(rows)

    def stop(iteration: int, value: float) -> None:
        if iteration == 4:
            raise KeyboardInterrupt

    result = ended(chosen, rows, z, 0.0, 100, callback=stop)
    assert result.outcome is Outcome.INTERRUPTED
    assert result.state.trace == ended(chosen, rows, z, 0.0, 5).state.trace
    assert value_of(rows, result.state.parameters, chosen) == pytest.approx(result.state.trace[-1], rel=1e-12)

    def refuse(*_: object) -> None:
        raise RuntimeError("no more disk")

    with pytest.raises(RuntimeError, match=r"^no more disk$"):
        ended(chosen, rows, z, 1e-4, 10, callback=refuse)


class Interrupted(BlockFamily):
    """A family whose sweep is interrupted."""

    def sweep(self, rows: Any, parameters: Any) -> Any:
        raise KeyboardInterrupt


def test_an_interrupt_before_the_first_value_has_nothing_to_keep() -> None:
    # Red if a result without a trace comes back: ranking it would fail.
    rows, z = two_clusters()
    with pytest.raises(KeyboardInterrupt):
        ended(Interrupted(**vars(family(rows))), rows, z, 1e-4, 10)


# Components that lose their rows.


def thirds(left: float, n_rows: int = 160) -> Matrix:
    """Two clusters and a third component with a share of `left` in every row."""
    z = np.zeros((n_rows, 3))
    z[: n_rows // 2, 0] = z[n_rows // 2 :, 1] = 1 - left
    z[:, 2] = left
    return z


@pytest.mark.parametrize("left", [0.0, 1e-300, 1e-14, 1e-10, 1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("n_groups", [1, 2, 6, "auto", "silhouette"])
@pytest.mark.parametrize("shared", [False, True])
def test_a_dying_component_lowers_no_trace_and_leaves_no_nan(left: float, n_groups: object, shared: bool) -> None:
    # Red at left ≤ 1e-10 if a regroup divides by its weight; at 1e-9 if it gets narrower when it becomes empty.
    rows, _ = two_clusters(apart=6.0)
    end = ended(family(rows, n_groups, 3, shared=shared), rows, thirds(left), 1e-6, 60).state
    assert np.isfinite(end.trace).all()
    assert np.diff(end.trace).min(initial=0) >= -1e-10 * abs(end.trace[-1])
    assert np.isfinite(end.parameters.means).all() and np.isfinite(end.parameters.blocks.factors).all()


@pytest.mark.parametrize("numbers", [1, 10**6])
def test_a_lost_component_is_restarted_at_the_row_of_least_density_that_counts(
    numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Rows 0 to 63 and 70 have no weight and lie farthest out. Red if the row is counted from the start of its chunk of
    # 64 rows, or if a chunk in which no row counts offers one.
    monkeypatch.setattr(chunks_module, "_CHUNK_NUMBERS", numbers)
    X, weights = two_clusters(apart=6.0)[0].X.copy(), np.ones(160)
    X[[0, 3, 70]] += 40
    X[130] += 30
    weights[:64] = weights[70] = 0
    rows = ArrayRows.standardized(X, weights)
    end = ended(family(rows, 6, 3, shared=True), rows, thirds(1e-3), 1e-6, 60).state
    assert end.notes == ("component 2 had lost all rows and was restarted at row 130",)
    assert end.reseeded == (2,)
    assert (end.parameters.weights * 95 >= MIN_ROWS).all()


def test_a_restart_that_lowers_the_objective_is_not_kept() -> None:
    # Without a covariance to share, a new component on one row costs more than it gains.
    rows, _ = two_clusters(apart=5.0)
    chosen = family(rows, 2, 3)
    first = chosen.first(rows, thirds(1e-12), 0.0).parameters
    placed = reseed(chosen, rows, first, 2)[1]
    assert value_of(rows, placed, chosen) < value_of(rows, first, chosen)
    end = run(chosen, rows, state(first), 1e-6, 60).state
    assert end.notes == ()
    assert end.reseeded == (2,)  # and it is not tried again
    assert end.parameters.weights[2] < 1e-9


def test_a_restarted_component_has_the_weight_of_a_row_and_its_values() -> None:
    rows, z = two_clusters()
    chosen = family(rows, 6)
    old = chosen.first(rows, z, 0.0).parameters
    row, new = reseed(chosen, rows, old, 0)
    assert_allclose(new.means, [values(rows)[row], old.means[1]])
    assert_allclose(new.weights, [old.weights[0] * (1 - 1 / 160) + 1 / 160, old.weights[1] * (1 - 1 / 160)])
    joint = np.concatenate(list(rows.map(lambda chunk: chosen.log_joint(chunk, old))))
    assert row == np.logaddexp.reduce(joint, axis=1).argmin()
    # A missing value is replaced by the mean of the nearest component.
    X = rows.X.copy()
    X[row] = [50, 50, np.nan, 50, 50, 50]
    again, placed = reseed(chosen, replace(rows, X=X), old, 0)
    assert again == row
    assert placed.means[0, 2] in old.means[:, 2]


@pytest.mark.parametrize("prior", [Prior(), Prior(ridge=1e-4)])
def test_rows_of_other_units_have_the_trace_of_their_own_units(prior: Prior) -> None:
    rows, z = two_clusters(apart=1.0)
    scale = np.array([1e-3, 1.0, 10.0, 1e3, 0.1, 2.0])
    other = replace(rows, X=rows.X * scale + 5, location=rows.location * scale + 5, scale=rows.scale * scale)
    traces = [ended(family(one, prior=prior), one, z, 1e-6, 40).state.trace for one in (rows, other)]
    assert_allclose(*traces, rtol=1e-9)
