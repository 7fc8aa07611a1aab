"""The method `stability` of the estimators, as mixins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

from blockmix.estimators.stability.resampling import covariance_stability, mixture_stability
from blockmix.estimators.stability.values import Stability
from blockmix.structure.types import FloatArray, RandomState


class StableMixture:
    """Stability of the column groups and clusters of a mixture."""

    def stability(
        self,
        X: Any,
        n_resamples: int = 100,
        n_refits: int = 25,
        *,
        units: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        random_state: RandomState = None,
        callback: Callable[[int, int], object] | None = None,
    ) -> Stability:
        """How often the column groups and the clusters come back when the rows are weighed at random.

        The columns of each component are regrouped with the probabilities of the fit; clusters are refitted, from
        the fitted parameters and from `n_init` fresh starts. The model is not changed. An interrupt keeps what is done.

        Parameters
        ----------
        X : as in `fit`
            The rows of the fit.
        n_resamples, n_refits : int
            Random weighings for the columns and for the clusters; rows that are not in memory need n_refits=0.
        units : array of shape (N,), optional
            What rows depend on, such as patients or days: rows of one unit share a weight.
        sample_weight : array of shape (N,), optional
            The weights of the fit.
        random_state : int, RandomState or None
        callback : callable, optional
            Gets the number of resamples and refits that are done, and that of all.
        """
        return mixture_stability(self, X, n_resamples, n_refits, units, sample_weight, random_state, callback)


class StableTopics:
    """Stability of the term groups of topics."""

    mixture_: Any
    terms_: Any
    _weigh: Callable[[Any], FloatArray]

    def stability(
        self,
        documents: Any,
        n_resamples: int = 100,
        *,
        random_state: RandomState = None,
        callback: Callable[[int, int], object] | None = None,
    ) -> Stability:
        """How often the term groups come back when the documents are weighed at random.

        Topics are not refitted. See `GaussianBiclustering.stability`.
        """
        X = self._weigh(documents)
        rows, names = X[X.any(axis=1)], [str(term) for term in self.terms_]
        return mixture_stability(self.mixture_, rows, n_resamples, 0, None, None, random_state, callback, names)


class StableCovariance:
    """Stability of the column groups of a covariance."""

    def stability(
        self,
        X: ArrayLike,
        n_resamples: int = 100,
        *,
        units: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        random_state: RandomState = None,
        callback: Callable[[int, int], object] | None = None,
    ) -> Stability:
        """How often the column groups come back when the rows of X are weighed at random.

        See `GaussianBiclustering.stability`, of which it has the part about columns.
        """
        return covariance_stability(self, X, n_resamples, units, sample_weight, random_state, callback)
