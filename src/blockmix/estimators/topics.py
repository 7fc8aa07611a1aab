"""TopicBiclustering: topics of documents and groups of terms at once (paper, section 3.4).

A mixture with one shared block-diagonal covariance is fitted to smoothed weights of the terms in documents, optionally
with ratings. Its components are the topics, its blocks the term groups; a table shows which groups matter to which
topics. Without smoothing it is the paper's pipeline on TF-IDF weights.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted

from blockmix.blocks.moments import correlation
from blockmix.estimators import importance, smoothing, terms
from blockmix.estimators.gaussian import GaussianBiclustering
from blockmix.estimators.stored import save_model
from blockmix.estimators.validation import ParameterError, check_whole
from blockmix.grouping import HierarchicalGrouping
from blockmix.partition import FloatArray, IntArray, RandomState
from blockmix.plotting import importance_heatmap
from blockmix.rows import one_blas_thread
from blockmix.starts.clusterings import distinct, kmeans

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Weights have heavy tails, and the last gains of likelihood come from topics that shrink to the most extreme documents.
# On 11 477 hotel reviews 5 topics explain 0.35 and 0.41 (two seeds) of the variance of the ratings after the 10 and 15
# iterations of this tolerance, 0.12 and 0.11 after the 62 and 56 of 1e-4.
_TOL = 0.1
UNCLEAR = 0.5  # probability of its topic below which a document has no clear one


# What a fit found, in the order of the mixture: the documents that were fitted, shape (n,); the weights of their words
# (n, v); probabilities (n, G); groups of the terms (p,); the terms of each group with their weights; how near each
# document is to its component (n,); the cosine of each component and word (G, v), None without vectors of words.
_Found = tuple[IntArray, Any, FloatArray, IntArray, list[importance.Terms], FloatArray, FloatArray | None]


class TopicWarning(UserWarning):
    """Some documents or ratings were not used as a user would expect."""


class TopicBiclustering(TransformerMixin, BaseEstimator):
    """Topics of documents, and groups of terms that go together in them.

    The smoothed weight of a term in a document is y_it = z_iᵀ v_t: the vector v_t of a word comes from the words that
    it occurs with, the vector z_i of a document is the mean of its words' vectors, weighted by tf-idf. A Gaussian
    mixture whose components share one block-diagonal covariance is fitted to these weights. The components are the
    topics and the blocks are the term groups. Nothing is read but the texts, and the same texts and seed give the same
    topics.

    Parameters
    ----------
    n_topics : int, default=2
        Number G of topics.
    n_term_groups : int, default=25
        Number K of term groups. The paper suggests more than 15.
    smoothing : bool, default=True
        False is the paper's pipeline: the mixture is fitted to the weights of the terms themselves,
        tf-idf(t, d) = n(t, d) / Σ_t n(t, d) · log(N / df(t)).
    max_terms : int, default=1000
        Number of terms: those with the highest average tf.
    n_selected_terms : int, default=400
        With ratings, the number of terms kept: those of `max_terms` that are most predictive of the rating. Without
        smoothing, as many of the most frequent ones are kept without ratings, too.
    vectorizer : scikit-learn vectorizer or None
        Turns texts into counts or weights. None counts lower-case words of two or more letters.
    stop_words : "english", list of str or None, default="english"
        Words that the default vectorizer ignores.
    ngrams : int, default=1
        Number of words in the longest phrase that the default vectorizer counts as a term.
    characters : bool, default=False
        Count pairs of neighboring letters instead of words, for languages without spaces between words.

    Other Parameters
    ----------------
    random_state : int, RandomState or None
        Seed of the starts and of the halves; a model with a RandomState cannot be saved.

    Attributes
    ----------
    topics_ : list of G Topic
        Size, share, mean rating, the ten words that name it, top groups and most typical documents; ordered by mean
        rating, lowest first, or without ratings by size, largest first.
    labels_ : array of shape (N,)
        Topic of each document, −1 for documents without any of the words.
    probabilities_ : array of shape (N,)
        Probability of that topic, as from `predict_proba`; 0 for documents without one.
    unclear_ : array
        Indices of the documents whose topic has a probability below 0.5.
    agreement_ : float or None
        Share of the documents on whose topic the fits to two random halves agree; None without smoothing and with
        fewer than 8 documents per topic.
    importance_ : array of shape (G, K)
        Mean weight of the group's terms in the topic, in percent of their mean in all documents with terms. Weighted
        by topic size, each column averages to 100.
    term_groups_ : list of K lists of (term, weight)
        Terms of each group, largest weight first: centrality in the group times log df relative to the largest or,
        without smoothing, the correlation of the term with the sum of its group. Groups that matter to the first
        topics come first.
    group_names_ : list of K str
        The three terms with the largest weights; "background" for more than half of the terms, which go with no others.
    stable_terms_ : list of tuples of str
        Sets of three or more terms that share a group in the fit and in both halves, largest first. Other groupings of
        terms are an index of the vocabulary rather than a finding.
    words_ : array of shape (v,)
        The words that name topics and have vectors; without smoothing these are the terms.
    terms_ : array of shape (p,)
        The terms kept, which are grouped.
    term_labels_ : array of shape (p,)
        Group of each term.
    without_terms_ : array
        Indices of the documents that contain none of the words. They have no topic and take no part in the fit.
    mixture_ : SmoothMixture or GaussianBiclustering
        The mixture, fitted to the documents with words; a GaussianBiclustering without smoothing.
    components_ : array of shape (G,)
        Component of each topic.
    n_vocabulary_ : int
        Number of distinct terms in the documents.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> low, high = ["dirty carpet", "rude manager", "smell smoke"], ["metro station", "friendly staff", "lovely view"]
    >>> texts = [" ".join(rng.choice(words, 3)) for words in [low] * 50 + [high] * 50]
    >>> model = TopicBiclustering(2, 6, random_state=0).fit(texts, [1] * 50 + [5] * 50)
    >>> model.labels_[[0, 1, -2, -1]]
    array([0, 0, 1, 1])
    >>> sorted(model.topics_[1].words)
    ['friendly', 'lovely', 'metro', 'staff', 'station', 'view']
    """

    def __init__(
        self,
        n_topics: int = 2,
        n_term_groups: int = 25,
        *,
        smoothing: bool = True,
        max_terms: int = 1000,
        n_selected_terms: int = 400,
        vectorizer: Any = None,
        stop_words: str | Sequence[str] | None = "english",
        ngrams: int = 1,
        characters: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.n_topics = n_topics
        self.n_term_groups = n_term_groups
        self.smoothing = smoothing
        self.max_terms = max_terms
        self.n_selected_terms = n_selected_terms
        self.vectorizer = vectorizer
        self.stop_words = stop_words
        self.ngrams = ngrams
        self.characters = characters
        self.random_state = random_state

    def fit(
        self,
        documents: Any,
        ratings: ArrayLike | None = None,
        *,
        embeddings: ArrayLike | None = None,
        term_names: Sequence[str] | None = None,
    ) -> Self:
        """Find the topics and the term groups of documents.

        Parameters
        ----------
        documents : sequence of N texts, or matrix of shape (N, v)
            Texts, as str or as bytes in UTF-8; or counts or weights, sparse, dense or a data frame.
        ratings : array-like of shape (N,), optional
            One number per document. Ratings select the terms, emphasize the words that predict them and order the
            topics.
        embeddings : array-like of shape (N, e), optional
            Vectors of the documents from a model of your own, such as a sentence transformer; topics are found in
            them, and the words name and group them.
        term_names : sequence of v str, optional
            Names of the columns of a matrix.
        """
        for name in ("n_topics", "n_term_groups", "max_terms", "n_selected_terms", "ngrams"):
            check_whole(name, getattr(self, name))
        own = None if self.vectorizer is None else clone(self.vectorizer)
        vectorizer = own or terms.default_vectorizer(self.stop_words, self.ngrams, self.characters)
        matrix, names, vectorizer = terms.read(documents, vectorizer, term_names)
        N, least = matrix.shape[0], max(2, self.n_topics)
        if least > N:
            raise ParameterError("n_topics", self.n_topics, f"needs at least {least} documents, but documents has {N}")
        rated, vectors = terms.as_ratings(ratings, N), as_embeddings(embeddings, N)
        if vectors is not None and not self.smoothing:
            raise ParameterError("smoothing", False, "takes no embeddings: leave them out, or give smoothing=True")
        weighting = terms.weighting_of(matrix, vectorizer, self.smoothing).fit(matrix)
        self._lexicon = terms.Lexicon(vectorizer, weighting, np.arange(len(names)), len(names), self.smoothing)
        self.n_vocabulary_ = len(names)
        with one_blas_thread():
            fit = self._fit_smooth if self.smoothing else self._fit_plain
            self._arrange(fit(matrix, names, rated, vectors), N, rated)
        self._warn(rated)
        return self

    def fit_predict(self, documents: Any, ratings: ArrayLike | None = None, **parameters: Any) -> IntArray:
        """Fit and return the topic of each document."""
        return self.fit(documents, ratings, **parameters).labels_

    def predict(self, documents: Any, *, embeddings: ArrayLike | None = None) -> IntArray:
        """Most probable topic of each document, −1 for documents without any of the words."""
        probabilities = self.predict_proba(documents, embeddings=embeddings)
        return np.where(probabilities.any(axis=1), probabilities.argmax(axis=1), -1)

    def predict_proba(self, documents: Any, *, embeddings: ArrayLike | None = None) -> FloatArray:
        """Probability of each topic for each document, shape (N, G); zeros for documents without any of the words.

        With smoothing, it is the share of refits to other documents that would agree: the columns of the mixture repeat
        the same evidence, so log-odds are divided by the temperature at which the mean probability of the documents'
        topics is `agreement_`.
        """
        rows, with_words = self._rows(documents, embeddings)
        probabilities = np.zeros((len(with_words), len(self.components_)))
        if with_words.any():
            probabilities[with_words] = self.mixture_.predict_proba(rows[with_words])[:, self.components_]
        return probabilities

    def transform(self, documents: Any) -> FloatArray:
        """Importance of each term group for each document in percent, shape (N, K).

        The mean weight of the group's terms in the document, in percent of their mean in the fitted documents. The
        average over the documents of a topic is the topic's row of `importance_`.
        """
        X = self._weigh(documents)[:, self._columns]
        means = importance.group_means(X, self.term_labels_, len(self.term_groups_))
        return np.asarray(100 * means / self._group_means)

    def by(self, values: ArrayLike, *, bins: int = 10) -> Any:
        """Topics by category, number or date of the documents of the fit: shares with 95 % intervals.

        Parameters
        ----------
        values : array-like of shape (N,)
            One value per document. Dates are put into `bins` stretches of equal length, more than 20 different numbers
            into `bins` stretches with equally many documents; missing values do not count.
        bins : int, default=10

        Returns
        -------
        pandas.DataFrame
            One row per topic, from 1, and category: the first words of the topic, number of documents, share of the
            topic among the documents of the category, and its 95 % interval (Wilson); NaN without documents.
        """
        check_is_fitted(self)
        check_whole("bins", bins)
        words = [", ".join(topic.words[:3]) for topic in self.topics_]
        return importance.shares_of(self.labels_, values, words, bins)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Names of the columns of `transform`: the names of the term groups."""
        check_is_fitted(self)
        return np.array(self.group_names_, dtype=object)

    def summary(self) -> str:
        """The topics and the term groups that matter to them, as text; topics count from 1."""
        check_is_fitted(self)
        lacks = (
            (self.unclear_, "a clear topic: probability below 0.5"),
            (self.without_terms_, "any of the terms: no topic"),
        )
        notes = [f"{len(i)} document{'' if len(i) == 1 else 's'} without {what}" for i, what in lacks if len(i)]
        groups = importance.group_lines(self.group_names_, self.importance_)
        return "\n".join([self._heading(), *importance.lines(self.topics_), "", *groups, *notes])

    def plot(self, *, title: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the paper's heat map: importance of each term group for each topic."""
        check_is_fitted(self)
        groups = [importance.label_of(group) for group in self.term_groups_]
        columns = [
            f"topic {g}\n{topic.size} docs" + ("" if topic.mean_rating is None else f"\nrating {topic.mean_rating:.2f}")
            for g, topic in enumerate(self.topics_, start=1)
        ]
        heading = self._heading() if title is None else title
        return importance_heatmap(self.importance_, groups, columns, title=heading, ax=ax)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimator to a file that `blockmix.load` reads; an existing file is replaced as a whole."""
        save_model(self, path)

    def _fit_smooth(self, matrix: Any, names: Any, ratings: FloatArray | None, E: FloatArray | None) -> _Found:
        """Fit the mixture to smoothed weights, and to two halves of the documents."""
        rng, words = check_random_state(self.random_state), terms.select_words(matrix)
        self._lexicon = replace(self._lexicon, columns=words)
        counts, X, names = matrix[:, words], self._lexicon.weigh(matrix), names[words]
        n_selected, emphasis = self.max_terms, np.ones(len(words))
        ratings = ratings if ratings is not None and np.ptp(ratings) > 0 else None
        if ratings is not None:
            shares = terms.rating_shares(X, ratings)
            n_selected, emphasis = self.n_selected_terms, np.sqrt(shares / shares.mean())
        self._keep(terms.select_terms(counts, X, ratings, self.max_terms, n_selected), names)
        rows = np.flatnonzero(np.diff(X.indptr)) if E is None else np.arange(X.shape[0])
        terms.check_enough(len(rows), X.shape[0], max(2, self.n_topics))
        corpus = smoothing.Corpus(counts, X, self._columns, emphasis, E, ratings).part(rows)
        fit = corpus.fit(self.n_topics, self.n_term_groups, rng)
        z, halves = fit.space.vectors(corpus.rows), smoothing.halves(corpus, self.n_topics, self.n_term_groups, rng)
        self._space, self._is_embedded, self.mixture_ = fit.space, E is not None, fit.mixture
        self.agreement_, self.stable_terms_ = None, []
        if halves is not None:
            self.agreement_, directions = halves
            self.mixture_ = smoothing.tempered(fit.mixture, z, self.agreement_)
            stable = smoothing.stable_terms(fit.directions, *directions)
            self.stable_terms_ = [tuple(str(term) for term in self.terms_[columns]) for columns in stable]
        n_documents = np.bincount(counts.indices, minlength=len(words))[self._columns]
        members = [fit.groups == k for k in range(fit.groups.max() + 1)]
        ranked = [importance.central_terms(self.terms_[m], fit.directions[m], n_documents[m]) for m in members]
        probabilities, centers = self.mixture_.predict_proba(z), normalize(fit.mixture.means)
        closeness = np.einsum("ij,ij->i", z, centers[probabilities.argmax(axis=1)]) + probabilities.max(axis=1)
        nearness = centers @ fit.vectors.T
        return rows, corpus.weights, probabilities, fit.groups, ranked, closeness, nearness

    def _fit_plain(self, matrix: Any, names: Any, ratings: FloatArray | None, _: object) -> _Found:
        """Fit the mixture to the weights of the terms, as in the paper."""
        weights = self._lexicon.weighting.transform(matrix)
        kept = terms.select_terms(matrix, weights, ratings, self.max_terms, self.n_selected_terms)
        self._lexicon = replace(self._lexicon, columns=kept)
        self._keep(np.arange(len(kept)), names[kept])
        X = weights[:, kept].toarray()
        rows = np.flatnonzero(X.any(axis=1))
        terms.check_enough(len(rows), len(X), max(2, self.n_topics))
        X = X[rows]
        documents = StandardScaler().fit_transform(X)
        # Without the scaling to unit length, k-means makes topics of the few shortest documents.
        different, sizes, place = distinct(documents, np.ones(len(X)), self.n_topics)
        init = kmeans(normalize(different), sizes, self.n_topics, check_random_state(self.random_state))[place]
        settings: dict[str, Any] = {"shared_covariance": True, "tol": _TOL, "random_state": self.random_state}
        settings |= {"grouping": HierarchicalGrouping(distance="profile"), "init": init}
        self.mixture_ = GaussianBiclustering(self.n_topics, self.n_term_groups, **settings)
        self.mixture_._rounding = False  # the zeros of absent terms are exact
        self.mixture_.fit(X)
        del self.mixture_._rounding
        self._space, self._is_embedded = None, False
        self.agreement_, self.stable_terms_ = None, []
        groups, probabilities = self.mixture_.column_labels_[0], self.mixture_.predict_proba(X)
        inside = [correlation(np.asarray(block)) for block in self.mixture_.blocks_[0].blocks]
        ranked = [importance.ranked_terms(self.terms_[groups == k], R) for k, R in enumerate(inside)]
        directions = normalize((self.mixture_.means_ - X.mean(axis=0)) / X.std(axis=0))
        closeness = np.einsum("ij,ij->i", normalize(documents), directions[probabilities.argmax(axis=1)])
        return rows, sparse.csr_array(X), probabilities, groups, ranked, closeness, None

    def _keep(self, columns: IntArray, names: NDArray[np.object_]) -> None:
        """Keep these columns of the named words as terms."""
        self._columns, self.words_, self.terms_ = columns, names, names[columns]
        if self.n_term_groups > len(columns):
            raise ParameterError("n_term_groups", self.n_term_groups, f"exceeds the {len(columns)} terms kept")

    def _arrange(self, found: _Found, N: int, ratings: FloatArray | None) -> None:
        """Order and describe the topics and the term groups."""
        rows, X, probabilities, groups, ranked, closeness, nearness = found
        components, G = probabilities.argmax(axis=1), self.n_topics
        self.components_ = importance.topic_order(components, None if ratings is None else ratings[rows], G)
        topics = np.argsort(self.components_)[components]
        self.labels_, self.probabilities_ = np.full(N, -1), np.zeros(N)
        self.labels_[rows], self.probabilities_[rows] = topics, probabilities.max(axis=1)
        self.unclear_ = rows[self.probabilities_[rows] < UNCLEAR]
        self.without_terms_ = np.setdiff1d(np.arange(N), rows)
        means = importance.group_means(X[:, self._columns], groups, groups.max() + 1)
        percent = 100 * importance.topic_means(means, topics, G) / means.mean(axis=0)
        order = importance.group_order(percent)
        self.importance_, self._group_means = percent[:, order], means.mean(axis=0)[order]
        self.term_labels_ = np.argsort(order)[groups]
        self.term_groups_ = [ranked[k] for k in order]
        self.group_names_ = [importance.name_of(group, len(self.terms_)) for group in self.term_groups_]
        words = importance.topic_words(X, topics, G, None if nearness is None else nearness[self.components_])
        typical = importance.typical_documents(normalize(X), closeness, words, topics)
        described = zip(
            np.bincount(topics, minlength=G).tolist(),
            [None] * G if ratings is None else importance.topic_means(ratings, self.labels_, G).tolist(),
            [tuple(str(name) for name in self.words_[columns]) for columns in words],
            [tuple(self.group_names_[k] for k in importance.top_groups(row)) for row in self.importance_],
            [tuple(rows[documents].tolist()) for documents in typical],
            strict=True,
        )
        self.topics_ = [importance.Topic(size, size / N, *others) for size, *others in described]

    def _warn(self, ratings: FloatArray | None) -> None:
        messages = []
        if n := len(self.without_terms_):
            listed = ", ".join(map(str, self.without_terms_[:5])) + (", …" if n > 5 else "")
            what = f"{n} of {len(self.labels_)} documents contain none of the {len(self._lexicon.columns)} words"
            messages.append(f"{what} (without_terms_: {listed}): they have no topic (label -1)")
        if ratings is not None and np.ptp(ratings) == 0:
            messages.append(f"all ratings are {ratings[0]:g}: terms were selected by their average frequency instead")
        for message in messages:
            warnings.warn(message, TopicWarning, stacklevel=3)

    def _weigh(self, documents: Any) -> Any:
        check_is_fitted(self)
        return self._lexicon.weights(documents)

    def _rows(self, documents: Any, embeddings: ArrayLike | None) -> tuple[FloatArray, NDArray[np.bool_]]:
        """What the mixture takes, and which documents have words, or embeddings if the model was fitted to them."""
        X = self._weigh(documents)
        has_words = np.diff(X.indptr) > 0
        if self._space is None:
            return X.toarray(), has_words
        E = as_embeddings(embeddings, X.shape[0])
        if (E is None) != (not self._is_embedded):
            remedy = "leave them out" if E is not None else "give embeddings here as well"
            raise ValueError(f"the model was fitted with{'out' if E is not None else ''} embeddings: {remedy}")
        if E is None:
            return self._space.vectors(X), has_words
        if (n := len(self._space.axes)) != E.shape[1]:
            raise ValueError(f"embeddings has {E.shape[1]} columns, but the model was fitted to {n}")
        return self._space.vectors(E), np.ones(len(E), dtype=bool)

    def _heading(self) -> str:
        words = f"{len(self.term_groups_)} groups of {len(self.terms_)} terms (of {self.n_vocabulary_})"
        return f"{self.n_topics} topics of {len(self.labels_)} documents, {words}"


def as_embeddings(embeddings: ArrayLike | None, n_documents: int) -> FloatArray | None:
    """The embeddings as rows of unit length, checked, or None."""
    if embeddings is None:
        return None
    E = check_array(embeddings, dtype=float, input_name="embeddings")
    if len(E) != n_documents:
        raise ValueError(f"embeddings has shape {E.shape} for {n_documents} documents: give one vector for each")
    return np.asarray(normalize(E))
