"""Smoothed weights: vectors against their formulas, the mixture against the dense one, probabilities and shares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.linalg import block_diag
from scipy.stats import binomtest, multivariate_normal

import blockmix
from blockmix import TopicBiclustering
from blockmix.estimators import smoothing
from blockmix.estimators.smoothing import SmoothMixture

RNG = np.random.default_rng(0)
COUNTS = sparse.csr_array(RNG.poisson(0.4, (60, 12)))
KINDS = (
    ["dirty carpet towels", "rude manager desk", "smell smoke cigarette"],
    ["metro station near", "centre city walk", "friendly helpful staff"],
    ["pool bar drinks", "beach sun sand", "dinner buffet food"],
)
TEXTS = [" ".join(RNG.choice(phrases, 2)) for phrases in KINDS for _ in range(40)]
KIND = np.repeat(range(3), 40)
EMBEDDINGS = RNG.standard_normal((3, 20))[KIND] * 2 + RNG.standard_normal((120, 20))


def fitted(**settings: Any) -> TopicBiclustering:
    return TopicBiclustering(3, 6, random_state=0, **settings)


@pytest.fixture(scope="module")
def model() -> TopicBiclustering:
    return fitted().fit(TEXTS)


def test_vectors_of_words_factor_the_information_of_pairs() -> None:
    # With all dimensions W sign(D) Wᵀ is P itself. Red if the diagonal counts or the sums are those of documents.
    holds = (COUNTS.toarray() > 0).astype(float)
    together = holds.T @ holds
    np.fill_diagonal(together, 0)
    sums = together.sum(axis=0)
    with np.errstate(divide="ignore"):
        P = np.maximum(0, np.log(together * together.sum() / np.outer(sums, sums)))
    values, vectors = np.linalg.eigh(P)
    W = smoothing.word_vectors(COUNTS, np.random.RandomState(0))
    assert_allclose(W @ W.T, (vectors * np.abs(values)) @ vectors.T, atol=1e-10)


def random_case(sizes: tuple[int, ...], d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    A = rng.standard_normal((d, d))
    return rng.standard_normal((sum(sizes), d)), A @ A.T, np.repeat(range(len(sizes)), sizes)


@pytest.mark.parametrize("sizes", [(3, 2, 1), (4, 4), (9, 2)])
def test_the_precision_is_that_of_the_blocks(sizes: tuple[int, ...]) -> None:
    # The last case has a block of more terms than dimensions, whose covariance is singular.
    V, S, groups = random_case(sizes, 4)
    expected = np.zeros((4, 4))
    for k in range(len(sizes)):
        block = V[groups == k]
        expected += block.T @ np.linalg.pinv(block @ S @ block.T, hermitian=True, rcond=1e-9) @ block
    assert_allclose(smoothing.precision(V, S, groups, 1e-12)[0], expected, atol=1e-8)


def test_topics_have_the_densities_of_the_smoothed_weights() -> None:
    V, S, groups = random_case((3, 2, 4), 5)
    weights, means, z = np.array([0.3, 0.7]), RNG.standard_normal((2, 5)), RNG.standard_normal((6, 5))
    A, log_determinant = smoothing.precision(V, S, groups, 1e-12)
    cov = block_diag(*(V[groups == k] @ S @ V[groups == k].T for k in range(3)))
    dense = [np.log(w) + multivariate_normal(V @ m, cov).logpdf(z @ V.T) for w, m in zip(weights, means, strict=True)]
    joint = SmoothMixture(weights, means, A).log_joint(z)
    assert_allclose(joint[:, 0] - joint[:, 1], dense[0] - dense[1], rtol=1e-7)
    assert log_determinant == pytest.approx(np.linalg.slogdet(cov)[1])


def test_the_likelihood_never_falls_while_the_groups_stay() -> None:
    z = np.random.default_rng(2).standard_normal((200, 6))
    z[:80] += 1
    V = RNG.standard_normal((15, 6))
    smoothing_tol, smoothing._TOL = smoothing._TOL, 0.0
    try:
        fit = smoothing.fit_mixture(z, V, np.arange(200) % 3, 3, 4)
    finally:
        smoothing._TOL = smoothing_tol
    for trace in fit.traces:
        assert len(trace) > 3 and (np.diff(trace) >= -1e-9).all()


def test_the_same_texts_and_seed_give_the_same_topics(model: TopicBiclustering) -> None:
    other = fitted().fit(TEXTS)
    assert_array_equal(other.probabilities_, model.probabilities_)
    assert other.topics_ == model.topics_ and other.stable_terms_ == model.stable_terms_
    assert sorted(np.unique(KIND[model.labels_ == g]).size for g in range(3)) == [1, 1, 1]


def test_probabilities_mean_the_agreement_of_halves(model: TopicBiclustering) -> None:
    z = RNG.standard_normal((300, 2))
    mixture = SmoothMixture(np.full(3, 1 / 3), np.array([[3.0, 0], [-3, 0], [0, 3]]), 5 * np.eye(2))
    cool = smoothing.tempered(mixture, z, 0.6)
    assert cool.predict_proba(z).max(axis=1).mean() == pytest.approx(0.6, abs=1e-3)
    assert_array_equal(cool.predict_proba(z).argmax(axis=1), mixture.predict_proba(z).argmax(axis=1))
    assert smoothing.tempered(mixture, z, 1.0) is mixture
    stated = model.predict_proba(TEXTS).max(axis=1)
    assert_allclose(stated, model.probabilities_)
    assert stated.mean() == pytest.approx(model.agreement_, abs=1e-3) or model.mixture_.temperature == 1
    assert_array_equal(model.unclear_, np.flatnonzero(stated < 0.5))


def test_noise_has_no_clear_topics_and_no_stable_terms() -> None:
    rng = np.random.default_rng(3)
    words = [f"{a}{b}" for a in "abcdefgh" for b in "klmnopqr"]
    noise = [" ".join(rng.choice(words, 5)) for _ in range(400)]
    model = TopicBiclustering(8, 10, random_state=0).fit(noise)
    assert model.agreement_ < 0.35 and len(model.unclear_) > 300
    assert len(model.stable_terms_) <= 1
    assert "without a clear topic" in model.summary()


def test_terms_that_hold_are_those_of_the_phrases(model: TopicBiclustering) -> None:
    phrases = {frozenset(phrase.split()) for kind in KINDS for phrase in kind}
    assert {frozenset(terms) for terms in model.stable_terms_} == phrases


def test_few_documents_have_no_halves() -> None:
    few = fitted().fit(TEXTS[::6])
    assert few.agreement_ is None and few.stable_terms_ == [] and few.mixture_.temperature == 1


def test_embeddings_take_the_place_of_word_vectors(tmp_path: Path) -> None:
    # Words are noise here: only the embeddings tell the kinds apart. A text without words has a topic, too.
    words = [f"{a}{b}" for a in "abcdefgh" for b in "klmnopqr"]
    texts = ["", *(" ".join(RNG.choice(words, 8)) for _ in range(119))]
    model = fitted().fit(texts, embeddings=EMBEDDINGS)
    assert all(np.unique(KIND[model.labels_ == g]).size == 1 for g in range(3))
    assert_array_equal(model.predict(texts, embeddings=3 * EMBEDDINGS), model.labels_)  # the length does not count
    model.save(tmp_path / "model")
    assert_array_equal(blockmix.load(tmp_path / "model").predict(texts, embeddings=EMBEDDINGS), model.labels_)
    for wrong, message in (
        ({}, "fitted with embeddings: give embeddings here as well"),
        ({"embeddings": EMBEDDINGS[:, :3]}, "embeddings has 3 columns, but the model was fitted to 20"),
        ({"embeddings": EMBEDDINGS[:5]}, r"shape \(5, 20\) for 120 documents"),
        ({"embeddings": np.full((120, 20), np.nan)}, "Input embeddings contains NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict(texts, **wrong)
    with pytest.raises(ValueError, match="fitted without embeddings: leave them out"):
        fitted().fit(TEXTS).predict(TEXTS, embeddings=EMBEDDINGS)
    with pytest.raises(ValueError, match="takes no embeddings"):
        fitted(smoothing=False).fit(TEXTS, embeddings=EMBEDDINGS)


def test_shares_by_category_have_wilson_intervals(model: TopicBiclustering) -> None:
    values = np.array(["a", "b", None], dtype=object)[np.arange(120) % 3]
    table = model.by(values)
    assert len(table) == 6 and table["topic"].tolist() == [1, 1, 2, 2, 3, 3] and table["documents"].sum() == 80
    assert table["category"].tolist() == ["a", "b"] * 3 and not table["category"].cat.ordered
    for line in table.itertuples():
        own = (values == line.category) & (model.labels_ == line.topic - 1)
        n = int((values == line.category).sum())
        assert line.documents == own.sum() and line.share == pytest.approx(own.sum() / n)
        interval = binomtest(line.documents, n).proportion_ci(method="wilson")
        assert_allclose([line.low, line.high], interval, atol=1e-4)


def test_dates_and_numbers_are_put_in_stretches(model: TopicBiclustering) -> None:
    dates = np.datetime64("2024-01-01") + np.arange(120)
    dates[3] = np.datetime64("NaT")
    table = model.by(dates, bins=4)
    assert table["category"][0] == "from 2024-01-01" and table["category"].cat.ordered
    assert table["documents"].sum() == 119
    numbers = np.exp(np.arange(120.0) / 9)
    assert model.by(numbers, bins=4).groupby("category", observed=True)["documents"].sum().tolist() == [30] * 4
    kinds = model.by(KIND)
    assert list(kinds["category"].cat.categories) == ["0", "1", "2"] and (kinds["documents"] > 0).sum() == 3
    with pytest.raises(ValueError, match="for 120 documents"):
        model.by([1, 2])
    with pytest.raises(ValueError, match="values has 120 categories"):
        model.by([f"name {i}" for i in range(120)])
