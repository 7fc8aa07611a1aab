"""The protocol of a family: a small one runs through loop and multistart, and every family keeps the same laws."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from mixtures import family as block_family
from mixtures import rounded
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from strategies import Matrix

from blockmix.blocks.blocks import Prior
from blockmix.em.factor import FactorModel
from blockmix.em.factor_family import FactorFamily
from blockmix.em.loop import Callback, Family, LoopResult, LoopState, Outcome, Regroup, Start, multistart, run
from blockmix.grouping import BestCut
from blockmix.rows import ArrayRows, Chunk, Rows
from blockmix.rows import rows as chunks_module


@dataclass(frozen=True, eq=False)
class Spheres:
    """Weights (G,), means (G, p) and one variance per component (G,)."""

    weights: Matrix
    means: Matrix
    variances: Matrix

    def moved(self, weights: Matrix, means: Matrix) -> Spheres:
        return replace(self, weights=weights, means=means)


@dataclass(frozen=True, eq=False)
class Sums:
    """Log-likelihood, Σz (G,), Σzx (G, p) and Σz‖x‖² (G,)."""

    log_likelihood: float
    weight: Matrix
    first: Matrix
    squares: Matrix

    def __add__(self, other: Sums) -> Sums:
        return Sums(*[a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)])


class SphericalFamily:
    """Σ_g = σ_g² I: a family without column groups."""

    def first(self, rows: Rows, z: Matrix) -> Regroup[Spheres]:
        blank = Spheres(np.ones(z.shape[1]), np.zeros((z.shape[1], rows.n_columns)), np.ones(z.shape[1]))
        return Regroup(self.maximize(rows.map_sum(lambda chunk: _sums(chunk, z[chunk.place], 0.0)), blank), True)

    def sweep(self, rows: Rows, parameters: Spheres) -> Sums:
        def of(chunk: Chunk) -> Sums:
            joint = self.log_joint(chunk, parameters)
            density = logsumexp(joint, axis=1)
            return _sums(chunk, np.exp(joint - density[:, None]), float(chunk.weights @ density))

        return rows.map_sum(of)

    def objective(self, statistics: Sums, parameters: Spheres) -> float:
        return statistics.log_likelihood

    def maximize(self, statistics: Sums, parameters: Spheres) -> Spheres:
        n, p = np.maximum(statistics.weight, 1e-300), parameters.means.shape[1]
        means = statistics.first / n[:, None]
        variances = np.maximum((statistics.squares / n - (means**2).sum(axis=1)) / p, 1e-9)
        return Spheres(statistics.weight / statistics.weight.sum(), means, variances)

    def regroup(
        self, rows: Rows, parameters: Spheres, statistics: Sums, enough: float, memory: frozenset[str]
    ) -> Regroup[Spheres]:
        return Regroup(self.maximize(statistics, parameters), changed=False)

    def thin(self, parameters: Spheres, spare: int = 0) -> NDArray[Any]:
        return np.flatnonzero(parameters.variances <= 1e-9)

    def resting(self, parameters: Spheres) -> NDArray[Any]:
        return self.thin(parameters)

    def loose(self, tol: float) -> float:
        return tol

    def log_joint(self, chunk: Chunk, parameters: Spheres) -> Matrix:
        gaps = ((chunk.values[:, None, :] - parameters.means) ** 2).sum(axis=2) / parameters.variances
        volume = chunk.X.shape[1] * np.log(2 * np.pi * parameters.variances)
        joint: Matrix = np.log(parameters.weights) - 0.5 * (gaps + volume)
        return joint


def _sums(chunk: Chunk, z: Matrix, log_likelihood: float) -> Sums:
    z = (z * chunk.weights[:, None]).T
    return Sums(log_likelihood, z.sum(axis=1), z @ chunk.values, z @ (chunk.values**2).sum(axis=1))


def factor(letters: str) -> Callable[[ArrayRows], Any]:
    return lambda rows: FactorFamily(FactorModel.named(letters, 3, 2, np.full(6, 1e-6)), rows.total_weight)


def blocks(*n_groups: object, **options: Any) -> Callable[[ArrayRows], Any]:
    return lambda rows: block_family(rows, *n_groups, **options)


FAMILIES: dict[str, Callable[[ArrayRows], Family[Any, Any]]] = {
    "spheres": lambda rows: SphericalFamily(),
    "blocks": blocks(2, 2, 2),
    "blocks by rule": blocks(*[BestCut()] * 3, priced=True),
    "shared blocks": blocks(*[BestCut()] * 3, priced=True, shared=True),
    "shrunk blocks": blocks(3, 2, 1, prior=Prior(5.0, 1e-4)),
    "UCUU": factor("UCUU"),
    "UUUU": factor("UUUU"),
    "CCCC": factor("CCCC"),
}
every_family = pytest.mark.parametrize("name", FAMILIES)
TOL = 1e-6


def table(seed: int = 0) -> tuple[Matrix, Matrix]:
    """Rows of three clusters that overlap, and random responsibilities."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((150, 6)) @ rng.standard_normal((6, 6))
    X += 2 * rng.standard_normal((3, 6))[np.arange(150) % 3]
    return X, rng.dirichlet(np.ones(3), 150)


def begun(family: Family[Any, Any], rows: ArrayRows, z: Matrix) -> LoopState[Any]:
    found = family.first(rows, z)
    return LoopState(found.parameters, family.loose(TOL), memory=found.memory)


def ended(name: str, rows: ArrayRows, z: Matrix, max_iter: int = 60) -> LoopResult[Any]:
    family = FAMILIES[name](rows)
    return run(family, rows, begun(family, rows, z), TOL, max_iter)


@every_family
@pytest.mark.parametrize("seed", range(5))
def test_the_trace_of_every_family_never_falls(name: str, seed: int) -> None:
    X, z = table(seed)
    rows = ArrayRows.standardized(X)
    trace = np.array(ended(name, rounded(rows, 0) if seed % 2 else rows, z).state.trace)
    assert np.diff(trace).min() >= -1e-9 * abs(trace[-1])
    assert trace[-1] > trace[0]


@every_family
@pytest.mark.parametrize("is_rounded", [False, True])
def test_sweep_objective_and_scores_of_a_family_agree(name: str, is_rounded: bool) -> None:
    X, z = table()
    rows = ArrayRows.standardized(X, np.random.default_rng(1).integers(0, 3, 150).astype(float))
    rows = rounded(rows, 0) if is_rounded else rows
    family = FAMILIES[name](rows)
    parameters = ended(name, rows, z, max_iter=5).state.parameters
    statistics = family.sweep(rows, parameters)
    joint = np.concatenate(list(rows.map(lambda chunk: family.log_joint(chunk, parameters))))
    assert joint.shape == (150, 3)
    density = logsumexp(joint, axis=1)
    assert statistics.log_likelihood == pytest.approx(rows.weights @ density, rel=1e-10)  # type: ignore[attr-defined]
    assert_allclose(statistics.weight, rows.weights @ np.exp(joint - density[:, None]), atol=1e-8)
    assert family.objective(statistics, parameters) <= statistics.log_likelihood + 1e-9  # type: ignore[attr-defined]
    other = parameters.moved(np.full(3, 1 / 3), parameters.means + 1)
    assert_allclose(other.means, parameters.means + 1)
    assert_allclose(other.weights, 1 / 3)


@every_family
def test_chunks_and_threads_change_no_family(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, z = table()
    whole = ended(name, ArrayRows.standardized(X), z, max_iter=15)
    monkeypatch.setattr(chunks_module, "_CHUNK_NUMBERS", 1)  # chunks of 64 rows
    for n_threads in (1, 3):
        parts = ended(name, replace(ArrayRows.standardized(X), n_threads=n_threads), z, max_iter=15)
        assert_allclose(parts.state.trace, whole.state.trace, rtol=1e-9)


@every_family
def test_a_weight_is_a_repeated_row_in_every_family(name: str) -> None:
    X, z = table()
    counts = np.random.default_rng(2).integers(0, 4, 150)
    weighted = ended(name, ArrayRows.standardized(X, counts.astype(float)), z, max_iter=15)
    repeated = ended(name, ArrayRows.standardized(np.repeat(X, counts, axis=0)), np.repeat(z, counts, axis=0), 15)
    assert_allclose(weighted.state.trace, repeated.state.trace, rtol=1e-8)


@every_family
def test_a_state_given_to_save_stays_as_it_was(name: str) -> None:
    # Red if a later iteration appends to its trace or writes into its parameters.
    X, z = table()
    rows = ArrayRows.standardized(X)
    family = FAMILIES[name](rows)
    given: list[LoopState[Any]] = []
    copies: list[LoopState[Any]] = []

    def save(state: LoopState[Any]) -> None:
        given.append(state)
        copies.append(copy.deepcopy(state))

    final = run(family, rows, begun(family, rows, z), TOL, 30, save=save).state
    assert given[-1] is final
    assert [len(state.trace) for state in given] == list(range(1, len(final.trace) + 1))
    for state, copied in zip(given, copies, strict=True):
        assert_same_state(state, copied)


@every_family
@pytest.mark.parametrize("after", [1, 4, 11])
def test_a_loop_goes_on_from_a_saved_state_as_if_it_had_never_stopped(name: str, after: int) -> None:
    X, z = table()
    rows = ArrayRows.standardized(X)
    family = FAMILIES[name](rows)
    whole = run(family, rows, begun(family, rows, z), TOL, 40)
    half = run(family, rows, begun(family, rows, z), TOL, after)
    assert half.outcome is Outcome.ITERATION_LIMIT
    rest = run(family, rows, half.state, TOL, 40)
    assert_same_state(rest.state, whole.state)
    assert (rest.outcome, rest.thin) == (whole.outcome, whole.thin)


def assert_same_state(a: LoopState[Any], b: LoopState[Any]) -> None:
    for name, value in vars(a).items():
        if name != "parameters":
            assert value == getattr(b, name), name
    for name, value in vars(a.parameters).items():
        if isinstance(value, np.ndarray):
            assert_array_equal(value, getattr(b.parameters, name), err_msg=name)


class Remembering(SphericalFamily):
    """Proposes column groups three times, and remembers each proposal."""

    def __init__(self) -> None:
        self.given: list[frozenset[str]] = []

    def regroup(
        self, rows: Rows, parameters: Spheres, statistics: Sums, enough: float, memory: frozenset[str]
    ) -> Regroup[Spheres]:
        self.given.append(memory)
        tried = memory | {f"proposal {len(memory)}"}
        return Regroup(self.maximize(statistics, parameters), changed=len(tried) < 4, memory=tried)


def test_a_regroup_gets_what_the_last_one_remembered() -> None:
    # Red if the memory is lost between regroups: a family would try the same groups for ever.
    X, z = table()
    rows, family = ArrayRows.standardized(X), Remembering()
    found = run(family, rows, replace(begun(family, rows, z), memory=frozenset({"start"})), TOL, 500)
    assert found.outcome is Outcome.CONVERGED
    expected = [{"start", *(f"proposal {i}" for i in range(1, count))} for count in range(1, len(family.given) + 1)]
    assert [set(memory) for memory in family.given] == expected
    assert len(family.given) >= 3
    assert found.state.memory == expected[-1] | {f"proposal {len(family.given)}"}


def test_spheres_follow_scikit_learn_step_by_step() -> None:
    # The loop adds nothing to EM where a family has no column groups.
    X, _ = table()
    rows = ArrayRows.of(X)
    start = Spheres(np.full(3, 1 / 3), X[:3], np.full(3, 4.0))
    found = run(SphericalFamily(), rows, LoopState(start, 0.0), 0.0, 25)
    theirs = GaussianMixture(3, covariance_type="spherical", tol=0, max_iter=25, reg_covar=0)
    theirs.weights_init, theirs.means_init, theirs.precisions_init = start.weights, start.means, 1 / start.variances
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs.fit(X)
    assert_allclose(np.array(found.state.trace) / 150, theirs.lower_bounds_, rtol=1e-10)
    assert_allclose(found.state.parameters.means, theirs.means_, rtol=1e-8)
    assert_allclose(found.state.parameters.variances, theirs.covariances_, rtol=1e-8)


@every_family
@pytest.mark.parametrize("portfolio", [False, True])
def test_a_multistart_of_every_family_keeps_the_best_start(name: str, portfolio: bool) -> None:
    X, _ = table()
    rows = ArrayRows.standardized(X)
    family = FAMILIES[name](rows)
    rng = np.random.default_rng(0)
    guesses = [rng.dirichlet(np.ones(3), 150) for _ in range(7)]

    def run_loop(name: str, state: LoopState[Any], max_iter: int, callback: Callback) -> LoopResult[Any]:
        return run(family, rows, state, TOL, max_iter, callback)

    def start(i: int) -> Start[Any]:
        return Start(f"{i}", lambda: begun(family, rows, guesses[i]))

    found = multistart([start(i) for i in range(7)], run_loop, 60, 2, None, portfolio)
    # Rounding does not rank.
    ranks = [(result.result.thin, round(-result.result.state.trace[-1], 6)) for result in found]
    assert ranks == sorted(ranks)
    assert sorted(result.name for result in found) == [f"{i}" for i in range(7)]
    for result in found:
        trace = np.array(result.result.state.trace)
        assert np.diff(trace).min() >= -1e-9 * abs(trace[-1])
    # A start that was continued is the start that ran at once.
    alone = ended(name, rows, guesses[int(found[0].name)])
    assert found[0].result.state.trace == alone.state.trace
