"""Mixture: what every fitted mixture of row clusters and column groups offers (paper, section 3).

A subclass brings the log-densities of its components, its column labels and its parameter count; row labels,
probabilities, scores, information criteria, samples and biclusters follow here.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax
from sklearn.base import BaseEstimator, BiclusterMixin, ClusterMixin, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from blockmix.estimators.storable import Storable
from blockmix.estimators.validation import matrix, rows_to_score
from blockmix.persistence.atomic import write_vectors
from blockmix.plotting.methods import MixtureFigures
from blockmix.rows import Chunk, Resolution, one_blas_thread
from blockmix.structure.columns import ColumnEntry, column_entries, column_names, describe, leading_loadings
from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray, IntArray, RandomState

Scorer = Callable[[Chunk], FloatArray]  # log π_g f_g of the rows of a chunk, in the units of X, shape (m, G)
T = TypeVar("T")


class Mixture(MixtureFigures, Storable, BiclusterMixin, DensityMixin, ClusterMixin, BaseEstimator):
    """A fitted mixture with column groups in each component.

    A bicluster is a pair (component, group): the rows of the component and the columns of the group.
    """

    n_components: int
    random_state: RandomState
    weights_: FloatArray
    means_: FloatArray
    row_labels_: IntArray
    column_labels_: IntArray
    n_features_in_: int
    n_parameters_: int
    resolution_: Resolution

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @abstractmethod
    def _scorer(self) -> Scorer:
        """A function that returns log π_g f_g of the rows of a chunk; it can be sent to other processes."""

    @abstractmethod
    def _sample_component(self, g: int, n: int, rng: np.random.RandomState) -> FloatArray:
        """Draw n rows from component g, shape (n, p)."""

    def predict(self, X: Any, out: str | os.PathLike[str] | None = None) -> IntArray:
        """Most probable component of each row.

        With `out`, the name of a `.npy` file, labels are written there as rows are read, never all in memory; the
        complete file replaces an existing one and is returned as a mapping.
        """
        parts = self._each(X, most_probable)
        if out is None:
            return np.concatenate(list(parts), dtype=np.intp)
        write_vectors(out, parts, label_type(len(self.weights_)))
        mapped: IntArray = np.load(out, mmap_mode="r")
        return mapped

    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of each component for each row, shape (N, G)."""
        return np.concatenate(list(self._each(X, probabilities)), dtype=self.means_.dtype)

    def score_samples(self, X: Any) -> FloatArray:
        """Log-density of each row, shape (N,)."""
        density = np.concatenate(list(self._each(X, log_density)))
        with np.errstate(over="ignore"):  # −inf in single precision
            return density.astype(self.means_.dtype)

    def score(self, X: Any, y: object = None) -> float:
        """Mean log-density of the rows."""
        weight, likelihood, _ = self._sums(X)
        return float(likelihood / weight)

    def bic(self, X: Any, sample_weight: ArrayLike | None = None) -> float:
        """Bayesian information criterion with the price of the column groups; smaller is better.

        −2 log L + parameters · log N + 2 · `partition_price_`, which is 0, so that this is the usual BIC, if the number
        of column groups was given, if all columns are in one group and if all are alone.
        """
        return self._criteria(X, sample_weight)["bic"]

    def aic(self, X: Any, sample_weight: ArrayLike | None = None) -> float:
        """Akaike's information criterion, −2 log L + 2 · parameters; smaller is better."""
        return self._criteria(X, sample_weight)["aic"]

    def icl(self, X: Any, sample_weight: ArrayLike | None = None) -> float:
        """Integrated completed likelihood: BIC − 2 Σ log of each row's largest probability; smaller is better."""
        return self._criteria(X, sample_weight)["icl"]

    def _criteria(self, X: Any, sample_weight: ArrayLike | None) -> dict[str, float]:
        """Log-likelihood and all criteria from one pass over the rows; a weight of 2 counts a row twice."""
        return self._criteria_of(self._sums(X, sample_weight))

    @property
    def _partition_price(self) -> float:
        """Log-likelihood that the choice of the column groups must earn."""
        return 0.0

    def _criteria_of(self, sums: FloatArray) -> dict[str, float]:
        """Log-likelihood and all criteria from the sums of `criterion_sums`."""
        weight, likelihood, certainty = sums.tolist()
        bic = -2 * likelihood + self.n_parameters_ * float(np.log(weight)) + 2 * self._partition_price
        aic = -2 * likelihood + 2 * self.n_parameters_
        return {"log_likelihood": likelihood, "bic": bic, "icl": bic - 2 * certainty, "aic": aic}

    def _sums(self, X: Any, sample_weight: ArrayLike | None = None) -> FloatArray:
        check_is_fitted(self)
        with one_blas_thread():
            return rows_to_score(self, X, sample_weight).map_sum(partial(_chunk_sums, scorer=self._scorer()))

    def _each(self, X: Any, function: Callable[[FloatArray], T]) -> Iterator[T]:
        """A function of log π_g f_g (m, G), chunk by chunk."""
        check_is_fitted(self)
        rows = rows_to_score(self, X)
        with one_blas_thread():
            yield from rows.map(partial(_applied, function=function, scorer=self._scorer()))

    def sample(self, n_samples: int = 1) -> tuple[FloatArray, IntArray]:
        """Draw rows and the components they come from."""
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples={n_samples} must be at least 1")
        rng = check_random_state(self.random_state)
        weights = np.asarray(self.weights_, dtype=float)
        counts = rng.multinomial(n_samples, weights / weights.sum())  # float32 weights may exceed one together
        X = np.concatenate([self._sample_component(g, count, rng) for g, count in enumerate(counts)])
        return X, np.repeat(np.arange(len(counts)), counts)

    def fit_predict(self, X: Any, y: object = None, **parameters: Any) -> IntArray:
        """Fit and return the component of each row."""
        labels: IntArray = self.fit(X, y, **parameters).row_labels_
        return labels

    @property
    def labels_(self) -> IntArray:
        """The component of each row: scikit-learn's name for `row_labels_`."""
        check_is_fitted(self)
        return self.row_labels_

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        return [(g, k) for g, labels in enumerate(self.column_labels_) for k in range(labels.max() + 1)]

    @property
    def rows_(self) -> FloatArray:
        """Rows of each bicluster, a boolean array of shape (biclusters, N)."""
        check_is_fitted(self)
        return np.array([self.row_labels_ == g for g, _ in self._pairs])

    @property
    def columns_(self) -> FloatArray:
        """Columns of each bicluster, a boolean array of shape (biclusters, p)."""
        check_is_fitted(self)
        return np.array([self.column_labels_[g] == k for g, k in self._pairs])

    def describe(self) -> str:
        """Text that lists components, their sizes and their column groups by name."""
        check_is_fitted(self)
        names = column_names(self)
        counts = np.bincount(self.row_labels_, minlength=len(self.weights_))
        shapes = getattr(self, "block_shapes_", [()] * len(counts))
        return "\n".join(
            f"component {g}: {counts[g]} rows, weight {self.weights_[g]:.3f}; "
            + describe(Partition(labels), names, shapes[g])
            for g, labels in enumerate(self.column_labels_)
        )

    def column_table(self) -> list[ColumnEntry]:
        """Component, name, group, size of the group and loading of each column, and whether it is alone.

        ``pandas.DataFrame(model.column_table())`` makes a data frame of it.
        """
        check_is_fitted(self)
        names, loadings = column_names(self), np.full(self.column_labels_.shape, np.nan)
        model: Any = self
        if hasattr(model, "loadings_"):
            loadings = np.stack([leading_loadings(*own) for own in zip(model.blocks_, model.loadings_, strict=True)])
        parts = enumerate(zip(self.column_labels_, loadings, strict=True))
        return [entry for g, (labels, own) in parts for entry in column_entries(g, names, Partition(labels), own)]

    def _rows(self, X: ArrayLike) -> FloatArray:
        """The rows as one array, checked."""
        check_is_fitted(self)
        rows: FloatArray = matrix(self, X, reset=False)
        return rows.astype(self.means_.dtype, copy=False)


def label_type(n_components: int) -> np.dtype[Any]:
    """The smallest signed integer type for that many components: one byte per row up to 128."""
    return np.min_scalar_type(-n_components)


def most_probable(joint: FloatArray) -> IntArray:
    """Component with the largest log π_g f_g (m, G) of each row, in the smallest integer type, shape (m,)."""
    labels: IntArray = joint.argmax(axis=1).astype(label_type(joint.shape[1]))
    return labels


def log_density(joint: FloatArray) -> FloatArray:
    """Log Σ_g π_g f_g from log π_g f_g, shape (m, G) to (m,); −inf for rows whose distances overflow."""
    return _density_and_rest(joint)[0]


def _density_and_rest(joint: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log-density of each row, and what all components add to the largest log π_g f_g (m, G), shapes (m,)."""
    top = joint.max(axis=1)
    rest = np.log(np.exp(joint - top[:, None]).sum(axis=1))
    return np.where(top > -np.finfo(float).max, top + rest, -np.inf), rest


def probabilities(joint: FloatArray) -> FloatArray:
    """Probability of each component from log π_g f_g, shape (m, G)."""
    return np.asarray(softmax(joint, axis=1))


def criterion_sums(joint: FloatArray, weights: FloatArray) -> FloatArray:
    """Weight, log-likelihood and Σ log of the largest probabilities of rows with these log π_g f_g, shape (m, G)."""
    density, rest = _density_and_rest(joint)
    counted = weights > 0  # −inf times 0 is NaN
    return np.array([weights.sum(), weights[counted] @ density[counted], -weights @ rest])


def _chunk_sums(chunk: Chunk, scorer: Scorer) -> FloatArray:
    return criterion_sums(scorer(chunk), chunk.weights)


def _applied(chunk: Chunk, function: Callable[[FloatArray], T], scorer: Scorer) -> T:
    return function(scorer(chunk))
