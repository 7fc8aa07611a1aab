"""Topics: the weights against their formula, the laws of the result, and the small print of real documents."""

from __future__ import annotations

from math import log
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, f_classif

import blockmix
from blockmix.estimators.importance import label_of
from blockmix.estimators.terms import RelativeTfidf
from blockmix.estimators.topics import TopicBiclustering, TopicWarning
from blockmix.rows.measured import EXACT

LOW = ["dirty carpet towels", "rude manager", "smell smoke cigarette", "credit card charge"]
HIGH = ["metro station walk", "friendly helpful staff", "lovely view", "delicious breakfast"]
FILLER = ["hotel", "room", "night", "day", "city", "place"]


def corpus(seed: int = 0, n: int = 60) -> tuple[list[str], list[float]]:
    """Documents of two kinds, n of each, and their ratings."""
    rng = np.random.default_rng(seed)
    texts, ratings = [], []
    for phrases, level in ((LOW, 1), (HIGH, 4)):
        for _ in range(n):
            words = [*rng.choice(phrases, 3), *rng.choice(FILLER, 4)]
            texts.append(" ".join(words))
            ratings.append(float(level + rng.integers(2)))
    order = rng.permutation(2 * n)
    return [texts[i] for i in order], [ratings[i] for i in order]


TEXTS, RATINGS = corpus()


def topics(**settings: Any) -> TopicBiclustering:
    return TopicBiclustering(**{"n_topics": 2, "n_term_groups": 8, "random_state": 0} | settings)


@pytest.fixture(scope="module", params=[True, False], ids=["smoothed", "paper"])
def model(request: pytest.FixtureRequest) -> TopicBiclustering:
    return topics(smoothing=request.param).fit(TEXTS, RATINGS)


def test_the_planted_topics_and_groups_are_found(model: TopicBiclustering) -> None:
    assert_array_equal(model.labels_, np.array(RATINGS) >= 4)
    assert model.topics_[0].mean_rating == pytest.approx(np.mean([r for r in RATINGS if r < 4]))
    phrases = {frozenset(phrase.split()) for phrase in (*LOW, *HIGH)}
    if model.smoothing:  # the words of no phrase are 6 groups of their own
        model = topics(n_term_groups=len(phrases) + len(FILLER)).fit(TEXTS, RATINGS)
    found = {frozenset(term for term, _ in terms) for terms in model.term_groups_}
    if model.smoothing:
        assert found >= phrases
    else:
        assert phrases & found >= {frozenset(LOW[0].split())}
        assert model.mixture_.resolution_ is EXACT  # the zeros of absent terms are not rounded values
    for topic, words in zip(model.topics_, (LOW, HIGH), strict=True):
        assert set(topic.words[:8]) <= set(" ".join(words).split())
        assert all(set(topic.words) & set(TEXTS[i].split()) for i in topic.documents)


def literal_tfidf(counts: np.ndarray) -> np.ndarray:
    N, v = counts.shape
    weights = np.zeros((N, v))
    for t in range(v):
        holding = sum(1 for d in range(N) if counts[d, t] > 0)
        for d in range(N):
            if counts[d, t] > 0:
                weights[d, t] = counts[d, t] / counts[d].sum() * log(N / holding)
    return weights


@given(arrays(int, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.integers(0, 3)))
def test_weights_are_the_formula(counts: np.ndarray) -> None:
    # Red with scikit-learn's +1, with smoothing, with an l2 norm, or if an empty document divides by 0.
    found = RelativeTfidf().fit_transform(sparse.csr_array(counts))
    assert sparse.issparse(found)
    assert_allclose(found.toarray(), literal_tfidf(counts), atol=1e-12)


def test_the_terms_are_those_of_the_paper() -> None:
    # Red if terms are ranked by TF-IDF or by their number of documents, or if the rating chooses before frequency does.
    texts, ratings = corpus(1)
    with pytest.warns(TopicWarning, match="contain none of the 9 words"):
        model = topics(max_terms=15, n_selected_terms=9, n_term_groups=4, smoothing=False).fit(texts, ratings)
    vectorizer = CountVectorizer()
    counts = vectorizer.fit_transform(texts).toarray()
    average = (counts / counts.sum(axis=1, keepdims=True)).mean(axis=0)
    candidates = np.sort(np.argsort(-average, kind="stable")[:15])
    kept = SelectKBest(f_classif, k=9).fit(literal_tfidf(counts)[:, candidates], ratings).get_support()
    assert_array_equal(model.terms_, vectorizer.get_feature_names_out()[candidates[kept]])


def test_without_ratings_the_most_frequent_terms_are_kept_and_topics_go_by_size() -> None:
    texts, _ = corpus(2)
    texts = [text + " location" for text in texts + [text for text in texts if "metro" in text]]
    model = topics(n_selected_terms=12, n_term_groups=4, smoothing=False).fit(texts)
    assert len(topics(max_terms=15, n_selected_terms=12).fit(texts).terms_) == 15
    vectorizer = CountVectorizer()
    counts = vectorizer.fit_transform(texts).toarray()
    average = (counts / counts.sum(axis=1, keepdims=True)).mean(axis=0)
    names = vectorizer.get_feature_names_out()
    average[names == "location"] = 0  # its weights are 0: a constant column, which the mixture would refuse
    assert len(model.terms_) == 12
    assert average[np.isin(names, model.terms_)].min() >= np.sort(average)[-12] - 1e-12  # of ties any is right
    sizes = [topic.size for topic in model.topics_]
    assert sizes == sorted(sizes, reverse=True) and sum(sizes) == len(texts)
    assert model.topics_[0].mean_rating is None
    assert "rating" not in model.summary().splitlines()[1]


def test_importance_is_its_definition_and_averages_to_100(model: TopicBiclustering) -> None:
    # Red if the mean goes over topics instead of documents, or over sums instead of means of a group.
    vectorizer = CountVectorizer().fit(TEXTS)
    names = list(vectorizer.get_feature_names_out())
    counts = vectorizer.transform(TEXTS)
    X = TfidfTransformer().fit_transform(counts).toarray() if model.smoothing else literal_tfidf(counts.toarray())
    for g in range(2):
        for k, terms in enumerate(model.term_groups_):
            columns = [names.index(term) for term, _ in terms]
            expected = 100 * X[np.ix_(model.labels_ == g, columns)].mean() / X[:, columns].mean()
            assert model.importance_[g, k] == pytest.approx(expected)
    sizes = [topic.size for topic in model.topics_]
    assert_allclose(np.average(model.importance_, axis=0, weights=sizes), 100)


def test_transform_averages_to_the_importance_of_a_topic(model: TopicBiclustering) -> None:
    found = model.transform(TEXTS)
    for g in range(2):
        assert_allclose(found[model.labels_ == g].mean(axis=0), model.importance_[g])
    assert_allclose(found, clone(model).fit_transform(TEXTS, RATINGS))
    assert list(model.get_feature_names_out()) == model.group_names_
    framed = clone(model).set_output(transform="pandas").fit(TEXTS, RATINGS).transform(TEXTS)
    assert list(framed.columns) == model.group_names_


def test_new_documents_have_the_topics_of_old_ones(model: TopicBiclustering) -> None:
    # Red if probabilities stay in the order of the components, or if idf is learned again from the new documents.
    assert_array_equal(model.predict(TEXTS), model.labels_)
    probabilities = model.predict_proba(TEXTS)
    assert_allclose(probabilities.sum(axis=1), 1)
    assert_array_equal(probabilities.argmax(axis=1), model.labels_)
    assert_allclose(model.predict_proba(TEXTS[:3]), probabilities[:3])
    assert_array_equal(model.predict(["dirty carpet rude manager", "metro station friendly staff"]), [0, 1])
    assert_array_equal(model.predict(["unheard words", "dirty", ""]), [-1, 0, -1])
    assert_array_equal(model.predict_proba(["unheard words", ""]), np.zeros((2, 2)))
    assert_array_equal(model.transform([""]), np.zeros((1, 8)))


def assert_same(a: TopicBiclustering, b: TopicBiclustering) -> None:
    assert_array_equal(a.terms_, b.terms_)
    assert_array_equal(a.term_labels_, b.term_labels_)
    assert_allclose(a.importance_, b.importance_, rtol=1e-8)
    # In any order: with twice the rows the penalty of the covariance weighs half, and words of nearly one weight swap.
    assert [sorted(name.split(", ")) for name in a.group_names_] == [
        sorted(name.split(", ")) for name in b.group_names_
    ]
    assert [t.mean_rating for t in a.topics_] == pytest.approx([t.mean_rating for t in b.topics_])


def test_neither_copies_nor_the_order_of_documents_change_anything(model: TopicBiclustering) -> None:
    if not model.smoothing:  # scikit-learn's idf grows with the number of documents
        twice = clone(model).fit(TEXTS * 2, RATINGS * 2)
        assert_same(model, twice)
        assert_array_equal(twice.labels_, np.tile(model.labels_, 2))
    order = np.random.default_rng(3).permutation(len(TEXTS))
    other = clone(model).fit([TEXTS[i] for i in order], np.array(RATINGS)[order])
    assert_same(model, other)
    assert_array_equal(other.labels_, model.labels_[order])
    for mine, others in zip(model.topics_, other.topics_, strict=True):
        assert {TEXTS[i] for i in mine.documents} == {TEXTS[order[i]] for i in others.documents}


@pytest.mark.parametrize("form", ["csc", "dense", "frame", "polars", "sparse matrix"])
def test_a_ready_matrix_of_any_form_equals_texts(form: str, model: TopicBiclustering) -> None:
    vectorizer = CountVectorizer()
    counts = vectorizer.fit_transform(TEXTS)
    names = vectorizer.get_feature_names_out()
    documents: Any = {
        "csc": sparse.csc_array(counts),
        "dense": counts.toarray(),
        "frame": pd.DataFrame(counts.toarray(), columns=names),
        "polars": pl.DataFrame(counts.toarray(), schema=list(names)),
        "sparse matrix": sparse.csr_matrix(counts),
    }[form]
    other = clone(model).fit(documents, RATINGS, term_names=None if form in ("frame", "polars") else names)
    assert_same(model, other)
    assert_array_equal(other.predict(documents), model.labels_)


def test_texts_come_from_any_sequence_in_any_alphabet(model: TopicBiclustering) -> None:
    series = pd.Series(TEXTS, index=range(7, 7 + len(TEXTS)))
    for documents in (series, np.array(TEXTS), iter(TEXTS), [text.encode() for text in TEXTS]):
        assert_same(model, clone(model).fit(documents, RATINGS))
    greek = str.maketrans("abcdefghiklmnopqrstuvwxyz", "αβξδεφγηικλμνοπϑρστυωψχζж")
    other = clone(model).fit([text.translate(greek) for text in TEXTS], RATINGS)
    assert_array_equal(other.labels_, model.labels_)
    assert "dirty".translate(greek) in other.terms_


def test_explicit_zeros_are_no_terms_and_the_given_matrix_stays_as_it_is() -> None:
    counts = sparse.csr_array(CountVectorizer().fit_transform(TEXTS))
    counts.data[::7] = 0
    before, clean = counts.copy(), counts.copy()
    clean.eliminate_zeros()
    assert_same(topics().fit(counts, RATINGS), topics().fit(clean, RATINGS))
    assert counts.nnz == before.nnz > clean.nnz
    assert_array_equal(counts.indices, before.indices)


def test_presence_is_a_count_and_unnamed_columns_are_numbered() -> None:
    present = CountVectorizer().fit_transform(TEXTS).toarray() > 0
    model = topics().fit(present, RATINGS)
    assert_same(model, topics().fit(sparse.csr_array(present), RATINGS))
    assert_same(model, topics().fit(present.astype(int), RATINGS))
    assert set(model.terms_) <= {f"x{j}" for j in range(present.shape[1])}


def test_an_unfitted_model_says_so() -> None:
    for method in ("predict", "predict_proba", "transform"):
        with pytest.raises(NotFittedError):
            getattr(topics(), method)(TEXTS)


def test_sparse_input_stays_sparse() -> None:
    # Dense, these counts would take 1 GB.
    rng = np.random.default_rng(0)
    place = rng.integers(2**28, size=2000)
    place[:600] = rng.integers(6, size=600)
    counts = sparse.coo_array((np.ones(2000), (rng.integers(500, size=2000), place % 2**18)), shape=(500, 2**18))
    with pytest.warns(TopicWarning, match="contain none"):
        found = topics(n_term_groups=2, n_selected_terms=6).fit(counts, term_names=range(2**18))
    assert set(found.terms_) == set("012345")


def test_groups_hold_every_term_once_and_name_themselves(model: TopicBiclustering) -> None:
    for k, terms in enumerate(model.term_groups_):
        assert {term for term, _ in terms} == set(model.terms_[model.term_labels_ == k])
        weights = np.round([weight for _, weight in terms], 9).tolist()
        assert weights == sorted(weights, reverse=True) and max(weights) <= 1 + 1e-9
        assert model.group_names_[k] == ", ".join(term for term, _ in terms[:3])
    assert sum(map(len, model.term_groups_)) == len(model.terms_)


@pytest.mark.parametrize("smoothing", [True, False])
@pytest.mark.parametrize(
    "settings",
    [
        {"vectorizer": TfidfVectorizer()},
        {"vectorizer": HashingVectorizer(n_features=2**12, alternate_sign=False)},
        {"vectorizer": CountVectorizer(analyzer="char_wb", ngram_range=(3, 4))},
        {"stop_words": ["hotel", "room"]},
    ],
)
def test_words_can_be_counted_in_other_ways(settings: dict[str, Any], smoothing: bool) -> None:
    model = clone(topics(smoothing=smoothing, **settings)).fit(TEXTS, RATINGS)
    assert_array_equal(model.labels_, np.array(RATINGS) >= 4)
    assert_array_equal(model.predict(TEXTS), model.labels_)
    assert "stop_words" not in settings or "hotel" not in model.terms_


def test_extreme_documents_make_no_topics_of_their_own() -> None:
    # Red with k-means on documents that are not scaled to unit length: it spends a cluster on three of them.
    rng = np.random.default_rng(0)
    weights = rng.gamma(1.0, 1.0, (200, 8))
    weights[:100, :4] += 3
    weights[[0, 150, 160]] *= 10
    assert min(topic.size for topic in topics(smoothing=False).fit(weights).topics_) > 50


@pytest.mark.filterwarnings("ignore::blockmix.estimators.fitting.FitWarning")
def test_a_topic_without_documents_comes_last_and_is_blank() -> None:
    weights = np.repeat(np.random.default_rng(0).gamma(1.0, 1.0, (2, 6)), 20, axis=0)
    found = topics(n_topics=3, n_term_groups=3, smoothing=False).fit(weights, np.repeat([1, 5], 20))
    assert [topic.size for topic in found.topics_] == [20, 20, 0]
    assert np.isnan(found.importance_[2]).all() and np.isnan(found.topics_[2].mean_rating)
    assert found.topics_[2].documents == () and "nan" in found.summary()
    plt.close(found.plot().figure)


@pytest.mark.parametrize(
    ("documents", "ratings", "settings", "message"),
    [
        ("one text", None, {}, "documents is one str: give a list of texts"),
        (7, None, {}, "documents is one int"),
        (["a text", None], None, {}, "document 1 is None, which is not text"),
        (["a text", "caf\xe9".encode("latin-1")], None, {}, "document 1 is not valid UTF-8"),
        (["", "  ", "the of"], None, {}, "documents contain no words of two or more letters but stop words"),
        (["12 345", "\U0001f600", b"x"], None, {}, "documents contain no words of two or more letters"),
        (["same words"] * 4, None, {}, "no term distinguishes the documents"),
        (TEXTS[:1], None, {}, "n_topics=2 needs at least 2 documents, but documents has 1"),
        ([], None, {}, "documents is empty"),
        (TEXTS, RATINGS[:-1], {}, r"ratings has shape \(119,\) for 120 documents"),
        (TEXTS, [np.nan, *RATINGS[1:]], {}, "Input ratings contains NaN"),
        (TEXTS, ["good"] * 120, {}, "could not convert string to float"),
        (TEXTS, RATINGS, {"n_term_groups": 90}, "n_term_groups=90 exceeds the 27 terms"),
        (TEXTS, RATINGS, {"n_topics": 0}, "n_topics=0 must be a whole number"),
        (TEXTS, RATINGS, {"n_selected_terms": 2.5}, "n_selected_terms=2.5 must be a whole number"),
        (TEXTS, RATINGS, {"stop_words": "french"}, "stop_words='french' must be"),
        (TEXTS, RATINGS, {"n_term_groups": "auto"}, "n_term_groups='auto' must be a whole number"),
        (["alpha", "beta"] * 9, None, {"n_term_groups": 1}, "no two words occur together more often than by chance"),
        (pd.DataFrame({"text": ["a", "b"]}), None, {}, r"a table of shape \(2, 1\) that is not numeric"),
        (np.array([[1.0, np.nan], [0, 1]]), None, {}, "an entry nan: give finite counts"),
        (np.array([[1.0, -2.0], [0, 1]]), None, {}, "an entry -2: give finite counts"),
        (["alpha", "the", "of"], None, {}, "n_term_groups=8 exceeds the 1 terms"),
        (["alpha", "the", "of"], None, {"n_term_groups": 1}, "only 1 of 3 documents contain a selected term, and at"),
    ],
)
def test_bad_input_is_refused_with_a_clear_message(
    documents: Any, ratings: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        topics(**settings).fit(documents, ratings)


def test_names_and_kinds_of_input_are_checked(model: TopicBiclustering) -> None:
    with pytest.raises(ValueError, match="term_names has 1 names for the 2 columns"):
        topics().fit(np.eye(2, dtype=int), term_names=["a"])
    with pytest.raises(ValueError, match="the model was fitted to texts"):
        model.predict(np.eye(3))
    counts = CountVectorizer().fit_transform(TEXTS)
    ready = topics().fit(counts, RATINGS)
    with pytest.raises(ValueError, match="the model was fitted to a matrix"):
        ready.predict(TEXTS)
    with pytest.raises(ValueError, match="documents has 3 columns"):
        ready.predict(counts[:, :3])


def test_documents_without_terms_have_no_topic() -> None:
    # Red if rows of zeros take part in the fit: they would pull a topic to the origin and belong to it for certain.
    empty, places = ["", "   ", "the", "12 345"], [0, 7, 60, 123]
    texts, ratings = list(TEXTS), list(RATINGS)
    for place, text in zip(places, empty, strict=True):
        texts.insert(place, text)
        ratings.insert(place, 3.0)
    with pytest.warns(TopicWarning, match=r"4 of 124 documents contain none of the 27 words \(.*: 0, 7.*no topic"):
        found = topics(n_selected_terms=24).fit(texts, ratings)
    others = np.setdiff1d(np.arange(124), places)
    assert_array_equal(found.without_terms_, places)
    assert_array_equal(found.labels_[places], -1)
    assert_array_equal(found.labels_[others], np.array(RATINGS) >= 4)
    assert_array_equal(found.predict(texts), found.labels_)
    probabilities = found.predict_proba(texts)
    assert not probabilities[places].any()
    assert_allclose(probabilities[others].sum(axis=1), 1)
    assert sum(topic.size for topic in found.topics_) == 120
    assert all((found.labels_[list(topic.documents)] == g).all() for g, topic in enumerate(found.topics_))
    assert_allclose(np.average(found.importance_, axis=0, weights=[topic.size for topic in found.topics_]), 100)
    assert found.summary().endswith("\n4 documents without any of the terms: no topic")


def test_one_distinct_rating_selects_by_frequency() -> None:
    with pytest.warns(TopicWarning, match="all ratings are 3: terms were selected by their average frequency"):
        found = topics(n_selected_terms=20).fit(TEXTS, [3] * len(TEXTS))
    assert_array_equal(found.terms_, topics(n_selected_terms=20).fit(TEXTS).terms_)
    assert [topic.mean_rating for topic in found.topics_] == [3, 3]


def test_many_different_ratings_are_a_measurement() -> None:
    ratings = np.array(RATINGS) + np.random.default_rng(0).normal(0, 0.1, len(TEXTS))
    assert_array_equal(topics().fit(TEXTS, ratings).labels_, np.array(RATINGS) >= 4)


def test_typical_documents_belong_to_their_topic(model: TopicBiclustering) -> None:
    for g, topic in enumerate(model.topics_):
        assert len(topic.documents) == 5
        assert (model.labels_[list(topic.documents)] == g).all()
        assert topic.size == (model.labels_ == g).sum() and topic.share == topic.size / len(TEXTS)


def test_the_summary_counts_topics_from_1(model: TopicBiclustering) -> None:
    text = model.summary()
    assert text.startswith("2 topics of 120 documents, 8 groups of 27 terms (of 27)\n")
    assert len(text.splitlines()) >= 7 and f"{model.topics_[0].mean_rating:.2f}" in text
    assert [line[:2] for line in text.splitlines() if line[:1].isdecimal()][1:] == ["1 ", "2 "] * 2


def test_the_heat_map_names_groups_and_topics(model: TopicBiclustering) -> None:
    ax = model.plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == [label_of(terms) for terms in model.term_groups_]
    assert "rating" in ax.get_xticklabels()[0].get_text()
    assert {text.get_text() for text in ax.texts} == {f"{value:.0f}" for value in model.importance_.flat}
    plt.close(ax.figure)
    own = plt.figure().subplots()
    assert model.plot(title="mine", ax=own) is own and own.get_title() == "mine"
    plt.close(own.figure)
    terms = [(word, 1.0) for word in ("alpha", "beta", "gamma")]
    assert [label_of(terms, width) for width in (30, 17, 1)] == ["alpha, beta, gamma", *["alpha + 2 more"] * 2]


@pytest.mark.parametrize("matrix", [False, True])
def test_a_saved_model_predicts_the_same(matrix: bool, tmp_path: Path) -> None:
    documents = CountVectorizer().fit_transform(TEXTS) if matrix else TEXTS
    model = topics(stop_words=["hotel"]).fit(documents, RATINGS)
    model.save(tmp_path / "topics.blockmix")
    again = blockmix.load(tmp_path / "topics.blockmix")
    assert_array_equal(again.predict_proba(documents), model.predict_proba(documents))
    assert_array_equal(again.transform(documents), model.transform(documents))
    assert again.topics_ == model.topics_ and again.term_groups_ == model.term_groups_
    assert again.summary() == model.summary()
    with pytest.raises(TypeError, match="vectorizer holds a CountVectorizer, which cannot be saved"):
        topics(vectorizer=CountVectorizer()).save(tmp_path / "other.blockmix")
