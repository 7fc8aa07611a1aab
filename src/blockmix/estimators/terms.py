"""Terms: documents as TF-IDF weights of a few informative terms (paper, section 3.4, topic modelling).

`read` turns texts, counts or weights into a sparse matrix with named columns, `weighting_of` weights it, `select_terms`
selects columns, and a `Lexicon` repeats this for new documents. The matrix is sparse until its columns are selected.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import f_classif, f_regression
from sklearn.preprocessing import FunctionTransformer, normalize
from sklearn.utils import check_array
from sklearn.utils.sparsefuncs import mean_variance_axis

from blockmix.partition import FloatArray, IntArray

# Two or more letters of any alphabet. Numbers (rooms, prices) are ignored: they say nothing about a topic.
TOKEN = r"(?u)\b[^\W\d_]{2,}\b"
# Two neighboring letters; the next pair begins with the second of them.
PAIR = r"(?u)(?=([^\W\d_]{2}))"
# Missing from scikit-learn's list: auxiliaries, and the stems that "didn't", "we've" and "I'm" leave behind.
_STEMS = "did does doing don didn doesn isn wasn aren weren hasn haven hadn couldn wouldn shouldn won ve ll re"
STOP_WORDS = sorted(ENGLISH_STOP_WORDS.union(_STEMS.split()))
_MAX_WORDS = 2000  # that have vectors: with 5000 nothing is gained, with 1000 a little is lost
_LEAST_DOCUMENTS = 5  # that hold such a word; of fewer than 250 documents 2 %
_MAX_CLASSES = 20  # more distinct ratings than this are treated as a continuous measurement


class RelativeTfidf(TransformerMixin, BaseEstimator):
    """The paper's weights: tf-idf(t, d) = n(t, d) / Σ_t n(t, d) · log(N / df(t)), without smoothing.

    A term in every document or in none has weight 0; an empty document is a row of zeros.

    Attributes
    ----------
    idf_ : array of shape (v,)

    Examples
    --------
    >>> RelativeTfidf().fit_transform(sparse.csr_array([[1, 1], [0, 2]])).toarray()
    array([[0.3466, 0.    ], [0.    , 0.    ]])
    """

    def fit(self, counts: Any, y: object = None) -> Self:
        """Learn log(N / df) from counts, shape (N, v)."""
        n_documents = np.bincount(counts.nonzero()[1], minlength=counts.shape[1])
        self.idf_ = np.log(counts.shape[0] / np.maximum(n_documents, 1))
        return self

    def transform(self, counts: Any) -> Any:
        """Weights of counts, sparse by rows, shape (N, v)."""
        return (frequencies(counts) @ sparse.diags_array(self.idf_)).tocsr()


def frequencies(counts: Any) -> Any:
    """tf(t, d): counts divided by the number of terms in the document, sparse by rows."""
    return sparse.csr_array(normalize(counts.astype(float), norm="l1"))


def default_vectorizer(stop_words: Any, ngrams: int = 1, characters: bool = False) -> CountVectorizer:
    """Count lower-case words of two or more letters, without the stop words, and phrases of up to `ngrams` words.

    With characters, pairs of neighboring letters take the place of words.
    """
    if isinstance(stop_words, str) and stop_words != "english":
        raise ValueError(f'stop_words={stop_words!r} must be "english", None or a list of words')
    words = STOP_WORDS if isinstance(stop_words, str) else stop_words and sorted(stop_words)
    kind = {"token_pattern": PAIR} if characters else {"token_pattern": TOKEN, "stop_words": words}
    return CountVectorizer(ngram_range=(1, int(ngrams)), **kind)


def is_matrix(documents: Any) -> bool:
    """Whether documents are a matrix of numbers; other tables raise a ValueError."""
    shape = tuple(getattr(documents, "shape", (0,)))
    if sparse.issparse(documents) or len(shape) == 1:
        return len(shape) > 1
    if len(shape) != 2 or np.asarray(documents).dtype.kind not in "biuf":
        remedy = "give one column of texts or a matrix of counts"
        raise ValueError(f"documents is a table of shape {shape} that is not numeric: {remedy}")
    return True


def as_texts(documents: Any) -> list[str]:
    """The documents, str or bytes in UTF-8, as a list of str."""
    if isinstance(documents, (str, bytes)) or not isinstance(documents, Iterable):
        raise ValueError(f"documents is one {type(documents).__name__}: give a list of texts or a matrix of counts")
    texts = []
    for i, text in enumerate(documents):
        if not isinstance(text, (str, bytes)):
            raise ValueError(f"document {i} is {text!r}, which is not text: remove it or replace it by an empty string")
        try:
            texts.append(text if isinstance(text, str) else text.decode())
        except UnicodeDecodeError:
            raise ValueError(f"document {i} is not valid UTF-8: decode it to str first") from None
    return texts


def as_matrix(documents: Any) -> Any:
    """A matrix of counts or weights, checked, as CSR without explicit zeros."""
    given: Any = documents if sparse.issparse(documents) else np.asarray(documents)
    matrix = sparse.csr_array(given, copy=True)  # the caller's matrix stays as it is
    if not (matrix.data >= 0).all() or not np.isfinite(matrix.data).all():
        worst = matrix.data[np.argmin(np.isfinite(matrix.data) & (matrix.data >= 0))]
        raise ValueError(f"documents has an entry {worst:g}: give finite counts or weights of at least 0")
    matrix.eliminate_zeros()
    return matrix


def read(documents: Any, vectorizer: Any, term_names: Any) -> tuple[Any, NDArray[Any], Any]:
    """Sparse matrix of the documents, column names, and the fitted vectorizer (None if documents are a matrix).

    Columns have the given names, those of the data frame or vectorizer, or x0, x1 and so on.
    """
    if is_matrix(documents):
        matrix, vectorizer, names = as_matrix(documents), None, getattr(documents, "columns", None)
    else:
        texts = as_texts(documents)
        if not texts:
            raise ValueError("documents is empty: give at least two texts")
        try:
            matrix = as_matrix(vectorizer.fit_transform(texts))
        except ValueError as error:
            if "empty vocabulary" not in str(error):
                raise
            lack = "documents contain no words of two or more letters but stop words"
            raise ValueError(f"{lack}: give other texts or stop_words=None") from error
        # A hashing vectorizer has no names.
        names = vectorizer.get_feature_names_out() if hasattr(vectorizer, "get_feature_names_out") else None
    names = names if term_names is None else term_names
    names = [f"x{j}" for j in range(matrix.shape[1])] if names is None else names
    if len(names) != matrix.shape[1]:
        raise ValueError(f"term_names has {len(names)} names for the {matrix.shape[1]} columns of documents")
    return matrix, np.array([str(name) for name in names], dtype=object), vectorizer


def is_counts(matrix: Any) -> bool:
    """Whether all entries of a sparse matrix are whole numbers."""
    return bool(np.all(matrix.data == np.floor(matrix.data)))


def weighting_of(matrix: Any, vectorizer: Any, smoothing: bool) -> Any:
    """What weights the terms: idf with smoothing, the paper's formula without it, nothing if they are no counts."""
    if not is_counts(matrix) or isinstance(vectorizer, TfidfVectorizer):
        return FunctionTransformer(accept_sparse=True)
    return TfidfTransformer(norm=None) if smoothing else RelativeTfidf()


def as_ratings(ratings: ArrayLike | None, n_documents: int) -> FloatArray | None:
    """The ratings as finite numbers, one per document, or None."""
    if ratings is None:
        return None
    values: FloatArray = check_array(ratings, ensure_2d=False, dtype=float, input_name="ratings")
    if values.shape != (n_documents,):
        raise ValueError(f"ratings has shape {values.shape} for {n_documents} documents: give one number for each")
    return values


def _frequency(matrix: Any, weights: Any) -> FloatArray:
    """Average tf of each term or, if the matrix does not hold counts, average weight; −1 for a term that never varies.

    Rounded so that the order of the documents does not decide between equally frequent terms.
    """
    average = np.asarray((frequencies(matrix) if is_counts(matrix) else weights).mean(axis=0)).ravel()
    varies = mean_variance_axis(sparse.csr_matrix(weights), axis=0)[1] > 0  # a term of every document has idf 0
    return np.where(varies, np.round(average / max(average.max(), np.finfo(float).tiny), 12), -1.0)


def select_words(matrix: Any) -> IntArray:
    """Indices of the words that have vectors: the 2000 most frequent among those in enough documents; sorted."""
    least = _LEAST_DOCUMENTS if matrix.shape[0] >= 50 * _LEAST_DOCUMENTS else max(1, matrix.shape[0] // 50)
    n_documents = np.bincount(matrix.indices, minlength=matrix.shape[1])
    return _most_frequent(np.where(n_documents >= least, _frequency(matrix, matrix), -1.0), _MAX_WORDS)


def _most_frequent(score: FloatArray, n: int) -> IntArray:
    """Indices of at most `n` of the largest scores that are not negative; sorted."""
    columns: IntArray = np.sort(np.argsort(-score, kind="stable")[: min(n, int((score >= 0).sum()))])
    if len(columns) == 0:
        raise ValueError("no term distinguishes the documents: each is in all of them or in too few")
    return columns


def rating_shares(weights: Any, ratings: FloatArray) -> FloatArray:
    """η²: share of the variance of each term between ratings; with more than 20 distinct ratings r² of a regression.

    Like the mixture, and unlike χ², it does not depend on the units of a column.
    """
    levels, N = len(np.unique(ratings)), len(ratings)
    is_continuous = levels > _MAX_CLASSES
    with np.errstate(divide="ignore", invalid="ignore"):  # a term that separates the ratings perfectly, or never varies
        F = np.nan_to_num((f_regression if is_continuous else f_classif)(weights, ratings)[0], posinf=1e12)
    between = F * (1 if is_continuous else levels - 1)
    return np.asarray(between / (between + N - (2 if is_continuous else levels)))


def select_terms(matrix: Any, weights: Any, ratings: FloatArray | None, max_terms: int, n_selected: int) -> IntArray:
    """Indices of the columns to keep: the most frequent, and of these the most predictive if ratings vary; sorted."""
    is_rated = ratings is not None and np.ptp(ratings) > 0
    kept = _most_frequent(_frequency(matrix, weights), max_terms if is_rated else min(max_terms, n_selected))
    if ratings is None or not is_rated:
        return kept
    shares = rating_shares(weights[:, kept], ratings)
    return np.sort(kept[np.argsort(-shares, kind="stable")[:n_selected]])


def check_enough(n: int, n_documents: int, least: int) -> None:
    """Raise a ValueError unless `least` or more documents contain a word."""
    if n < least:
        lack = f"only {n} of {n_documents} documents contain a selected term, and at least {least} are needed"
        raise ValueError(f"{lack}: select more terms or give more documents")


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Turns documents into weights of words.

    Attributes
    ----------
    vectorizer : fitted vectorizer, or None if documents are rows of a matrix
    weighting : fitted transformer
    columns : array of shape (n,)
        Indices of the words among all v of the vocabulary.
    n_vocabulary : int
        Number v of words.
    unit : bool
        Whether the weights of a document have unit length.
    """

    vectorizer: Any
    weighting: Any
    columns: IntArray
    n_vocabulary: int
    unit: bool

    def weigh(self, matrix: Any) -> Any:
        """Weights of the words, given the matrix of all, sparse by rows, shape (N, n)."""
        weights = sparse.csr_array(self.weighting.transform(matrix)[:, self.columns])
        return normalize(weights, copy=False) if self.unit else weights

    def weights(self, documents: Any) -> Any:
        """Weights of the words in documents, sparse by rows, shape (N, n)."""
        if is_matrix(documents) != (self.vectorizer is None):
            expected = "a matrix" if self.vectorizer is None else "texts"
            raise ValueError(f"the model was fitted to {expected}: give {expected} here as well")
        matrix = as_matrix(documents if self.vectorizer is None else self.vectorizer.transform(as_texts(documents)))
        if (n := matrix.shape[1]) != self.n_vocabulary:
            raise ValueError(f"documents has {n} columns, but the model was fitted to {self.n_vocabulary}")
        return self.weigh(matrix)
