"""Laws and oracles of the scores for partitions and covariances."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, permutations
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from blockmix.partition import Partition
from experiments.losses import frobenius_loss, mape, stein_loss
from experiments.metrics import adjusted_rand, matched_accuracy, npmi_coherence

Labels = list[int]
PARTITION_SCORES = [matched_accuracy, adjusted_rand]
COVARIANCE_SCORES = [mape, frobenius_loss, stein_loss]


@st.composite
def label_pairs(draw: st.DrawFn) -> tuple[Labels, Labels]:
    n = draw(st.integers(1, 9))
    labels = st.lists(st.integers(0, 4), min_size=n, max_size=n)
    return draw(labels), draw(labels)


@st.composite
def covariances(draw: st.DrawFn, p: int) -> NDArray[np.float64]:
    A = draw(arrays(float, (p, p), elements=st.floats(-2, 2)))
    covariance: NDArray[np.float64] = A @ A.T + 0.1 * np.eye(p)
    return covariance


@st.composite
def covariance_pairs(draw: st.DrawFn) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    p = draw(st.integers(1, 5))
    return draw(covariances(p)), draw(covariances(p))


def brute_force_accuracy(true: Labels, found: Labels) -> float:
    """Best share of agreeing items over every renaming of the found groups into the true names."""
    found_names = sorted(set(found))
    # A found group may stay unmatched: one name apart for each.
    names = sorted(set(true)) + [-1 - i for i in range(len(found_names))]
    renamings = (dict(zip(found_names, image, strict=True)) for image in permutations(names, len(found_names)))
    return max(sum(a == renaming[b] for a, b in zip(true, found, strict=True)) / len(true) for renaming in renamings)


def pair_counting_rand(true: Labels, found: Labels) -> float:
    """Adjusted Rand index from its definition over all pairs of items (undefined cases: 1)."""
    pairs = [(i, j) for i in range(len(true)) for j in range(i)]
    both = sum(true[i] == true[j] and found[i] == found[j] for i, j in pairs)
    a, b = (sum(labels[i] == labels[j] for i, j in pairs) for labels in (true, found))
    expected = a * b / len(pairs) if pairs else 0
    spread = (a + b) / 2 - expected
    return (both - expected) / spread if spread else 1.0


@given(label_pairs(), st.permutations(range(5)))
@pytest.mark.parametrize("score", PARTITION_SCORES)
def test_relabelling_changes_nothing(
    score: Callable[[ArrayLike, ArrayLike], float], pair: tuple[Labels, Labels], names: list[int]
) -> None:
    true, found = pair
    renamed = [names[label] for label in found]
    assert score(true, renamed) == pytest.approx(score(true, found))
    assert score(renamed, true) == pytest.approx(score(found, true))


@given(label_pairs())
@pytest.mark.parametrize("score", PARTITION_SCORES)
def test_partition_scores_are_symmetric(
    score: Callable[[ArrayLike, ArrayLike], float], pair: tuple[Labels, Labels]
) -> None:
    assert score(*pair) == pytest.approx(score(*reversed(pair)))


@given(label_pairs())
def test_matching_equals_brute_force(pair: tuple[Labels, Labels]) -> None:
    # Red if the assignment is minimised, or greedy, or drops surplus groups from the count.
    assert matched_accuracy(*pair) == pytest.approx(brute_force_accuracy(*pair))


@given(label_pairs())
def test_adjusted_rand_equals_pair_counting(pair: tuple[Labels, Labels]) -> None:
    assert adjusted_rand(*pair) == pytest.approx(pair_counting_rand(*pair))


@pytest.mark.parametrize("labels", [[0, 0, 0], [0, 1, 2], [0]])
def test_trivial_partitions_agree_with_themselves(labels: Labels) -> None:
    assert adjusted_rand(labels, labels) == 1
    assert matched_accuracy(labels, labels) == 1


@pytest.mark.parametrize("score", PARTITION_SCORES)
def test_partitions_and_text_labels_are_accepted(score: Callable[..., float]) -> None:
    true, found = [0, 0, 1, 1, 2], [1, 1, 0, 2, 2]
    expected = score(true, found)
    assert score(Partition(true), Partition(found)) == expected
    assert score(list("aabbc"), list("yyxzz")) == expected


@pytest.mark.parametrize("score", PARTITION_SCORES)
@pytest.mark.parametrize(
    ("true", "found", "message"),
    [
        ([0, 1], [0, 1, 1], "true has 2 labels and found has 3"),
        ([], [], r"true must be a non-empty vector of labels, got shape \(0,\)"),
        ([0, 1], [[0, 1]], r"found must be a non-empty vector of labels, got shape \(1, 2\)"),
        ([0.0, np.nan], [0, 1], "true has a label that is not finite: nan"),
    ],
)
def test_impossible_labels_are_named(
    score: Callable[..., float], true: ArrayLike, found: ArrayLike, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        score(true, found)


@given(covariance_pairs())
def test_the_truth_has_no_loss(pair: tuple[NDArray[np.float64], NDArray[np.float64]]) -> None:
    sigma = pair[0]
    assert frobenius_loss(sigma, sigma) == 0
    assert stein_loss(sigma, sigma) == pytest.approx(0, abs=1e-10)
    assert mape(np.abs(sigma), np.abs(sigma)) == 0


@given(covariance_pairs())
def test_losses_equal_their_printed_formulas(pair: tuple[NDArray[np.float64], NDArray[np.float64]]) -> None:
    sigma, estimate = pair
    ratio = estimate @ np.linalg.inv(sigma)
    stein = np.trace(ratio) - np.linalg.slogdet(ratio)[1] - len(sigma)
    assert stein_loss(sigma, estimate) == pytest.approx(stein, rel=1e-6, abs=1e-6)
    assert frobenius_loss(sigma, estimate) ** 2 == pytest.approx(((estimate - sigma) ** 2).sum())
    total = sigma.sum()
    if abs(total) > 1e-6:
        errors = sum(abs(a - b) for a, b in zip(sigma.flat, estimate.flat, strict=True))
        assert mape(sigma, estimate) == pytest.approx(100 * errors / total)


@given(covariance_pairs())
def test_losses_of_another_matrix_are_positive(
    pair: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> None:
    # Red if trace and determinant terms change places: the loss of a shrunken estimate would turn negative.
    sigma, estimate = pair
    assert stein_loss(sigma, estimate) >= 0
    assert stein_loss(sigma, sigma + np.eye(len(sigma))) > 0
    assert stein_loss(sigma, sigma / 2) == pytest.approx(len(sigma) * (np.log(2) - 0.5))


@given(covariance_pairs(), st.data())
def test_stein_is_invariant_to_a_common_congruence(
    pair: tuple[NDArray[np.float64], NDArray[np.float64]], data: st.DataObject
) -> None:
    sigma, estimate = pair
    p = len(sigma)
    strictly_lower = np.tril(data.draw(arrays(float, (p, p), elements=st.floats(-1, 1))), -1)
    scales = data.draw(arrays(float, p, elements=st.floats(0.01, 100)))
    B = scales[:, None] * (np.eye(p) + strictly_lower)
    transformed = stein_loss(B @ sigma @ B.T, B @ estimate @ B.T)
    assert transformed == pytest.approx(stein_loss(sigma, estimate), rel=1e-6, abs=1e-6)


def test_mape_keeps_the_signed_denominator() -> None:
    # Red if absolute values are taken in the denominator: then 100 * 2 / 5 = 40.
    assert mape([[2.0, -0.5], [-0.5, 2.0]], [[2.0, 0.5], [0.5, 2.0]]) == pytest.approx(200 / 3)
    with pytest.raises(ValueError, match="sum to 0"):
        mape([[1.0, -1.0], [-1.0, 1.0]], np.eye(2))


@pytest.mark.parametrize(
    ("estimate", "message"),
    [
        (np.ones((2, 2)), "est_cov is singular: the smallest eigenvalue"),
        ([[1.0, 2.0], [2.0, 1.0]], "est_cov is singular: the smallest eigenvalue of .* is -1"),
        ([[0.0, 0.0], [0.0, 1.0]], "est_cov is not positive definite: it has a variance of 0"),
        ([[1.0, 0.5], [0.0, 1.0]], "est_cov is not symmetric"),
    ],
)
def test_stein_names_an_estimate_it_cannot_score(estimate: ArrayLike, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stein_loss(np.eye(2), estimate)
    with pytest.raises(ValueError, match=message.replace("est_cov", "true_cov")):
        stein_loss(estimate, np.eye(2))


@pytest.mark.parametrize(("n", "p"), [(3, 4), (10, 40), (60, 61)])
def test_covariance_of_too_few_rows_is_singular(n: int, p: int) -> None:
    # Red if only the failure of Cholesky is caught: rounding lets many of these through.
    X = np.random.default_rng(n).standard_normal((n, p)) * np.logspace(-3, 3, p)
    with pytest.raises(ValueError, match="est_cov is singular"):
        stein_loss(np.eye(p), np.cov(X.T))


def test_badly_scaled_columns_are_not_singular() -> None:
    # Red if singularity is judged on the covariance, whose condition number here is 1e24.
    scale = np.diag([1e-6, 1.0, 1e6])
    assert stein_loss(scale**2, 2 * scale**2) == pytest.approx(3 * (1 - np.log(2)))


@pytest.mark.parametrize("score", COVARIANCE_SCORES)
@pytest.mark.parametrize(
    ("true", "estimate", "message"),
    [
        (np.eye(2), np.eye(3), r"true_cov has shape \(2, 2\) and est_cov \(3, 3\)"),
        (np.ones((2, 3)), np.eye(2), r"true_cov must be a square matrix, got shape \(2, 3\)"),
        (np.eye(2), np.ones(2), r"est_cov must be a square matrix, got shape \(2,\)"),
        (np.eye(2), [[1.0, np.inf], [np.inf, 1.0]], "est_cov has an entry that is not finite: inf"),
    ],
)
def test_impossible_matrices_are_named(
    score: Callable[..., float], true: ArrayLike, estimate: ArrayLike, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        score(true, estimate)


def literal_npmi(groups: list[list[int]], held: np.ndarray) -> float:
    N, scores = len(held), []
    for columns in groups:
        pairs = []
        for i, j in combinations(columns, 2):
            both, one, two = (held[:, i] & held[:, j]).sum() / N, held[:, i].sum() / N, held[:, j].sum() / N
            pairs.append(-1 if both == 0 else 1 if both == 1 else log(both / (one * two)) / -log(both))
        if pairs:
            scores.append(np.mean(pairs))
    return float(np.mean(scores))


@given(arrays(bool, st.tuples(st.integers(1, 7), st.just(6))), st.lists(st.integers(0, 3), min_size=6, max_size=6))
def test_coherence_is_its_formula(held: np.ndarray, labels: list[int]) -> None:
    # Red if counts are used instead of presence, if the mean goes over all pairs at once, or if terms alone count.
    groups = [[j for j in range(6) if labels[j] == k] for k in sorted(set(labels))]
    if max(map(len, groups)) < 2:
        return
    expected = literal_npmi(groups, held)
    times = held * np.arange(1, 7)
    for given_groups in (labels, Partition(labels), groups):
        assert npmi_coherence(given_groups, times) == pytest.approx(expected)
    assert npmi_coherence(groups, sparse.csc_matrix(times)) == pytest.approx(expected)


def test_coherence_of_impossible_groups() -> None:
    with pytest.raises(ValueError, match="no group has two terms"):
        npmi_coherence([0, 1, 2], np.eye(3))
    with pytest.raises(ValueError, match="groups has 2 labels for the 3 columns"):
        npmi_coherence([0, 0], np.eye(3))
    with pytest.raises(ValueError, match="groups holds columns 0 to 3"):
        npmi_coherence([[0, 3]], np.eye(3))
    assert npmi_coherence(np.array([[0, 1], [1, 2]]), np.eye(3)) == -1
