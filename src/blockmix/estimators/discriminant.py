"""BlockDiscriminantAnalysis: a classifier with one block-diagonal Gaussian per class (paper, section 3).

It is the mixture whose responsibilities are given: rows of a known class keep theirs, rows of unknown class take part
in EM. What is learned about a class is in `mixture_`, a `GaussianBiclustering` with one component per class.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from blockmix.blocks.shapes import BlockModel
from blockmix.em.loop import SPARE
from blockmix.estimators.fitting import FitWarning, fit_by_em
from blockmix.estimators.gaussian import GaussianBiclustering
from blockmix.estimators.stored import save_model
from blockmix.estimators.validation import ParameterError, counts, is_elsewhere, matrix
from blockmix.grouping.grouping import Grouping, Rule
from blockmix.partition import FloatArray, IntArray, RandomState

UNKNOWN = -1  # in y, scikit-learn's mark of a row without a label
_ROWS_PER_COLUMN, _SHRINKAGE = 3, 0.1  # rows from which a shared covariance is not shrunk, and by how much
_OF_CLUSTERS = ("lower likelihood", "may be outliers", "of the start")  # warnings about clusters that had to be found


@dataclass(eq=False, repr=False)
class BlockDiscriminantAnalysis(ClassifierMixin, BaseEstimator):
    """Classifier that learns which columns vary together within each class.

    Classes have densities N(μ_g, Σ_g), Σ_g block-diagonal over learned column groups. With every column in one group
    it is quadratic discriminant analysis, linear with a shared covariance, and naive Bayes with every column alone.

    Parameters
    ----------
    n_column_groups, grouping, block_model, common_factors, shrinkage, tol, max_iter, random_state
        As in `GaussianBiclustering`.
    shared_covariance : {"auto", True, False}, default="auto"
        Whether all classes have one covariance. ``"auto"`` takes the smaller BIC. If a class has too few rows for its
        own, all share one, which is shrunk by 0.1 where there are fewer than 3 rows per column.
    tails : {"auto", "normal", "t"}, default="auto"
        Tails of the classes. ``"auto"`` is t with own covariances, normal with a shared one.

    Attributes
    ----------
    classes_ : array of shape (G,)
    mixture_ : GaussianBiclustering
        Its component g is class ``classes_[g]``: groups, covariances, loadings, figures.
    shared_covariance_ : bool
    warnings_ : list of str
        What the fit warned of.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 4)) + np.repeat(rng.standard_normal((100, 2)), 2, axis=1)
    >>> y = np.repeat(["a", "b"], 50)
    >>> X[:50] += 6
    >>> model = BlockDiscriminantAnalysis().fit(X, y)
    >>> model.score(X, y), model.shared_covariance_
    (1.0, True)
    """

    n_column_groups: int | Sequence[int] | str | Rule = "auto"
    _: KW_ONLY
    grouping: str | Grouping = "hierarchical"
    block_model: str | int | BlockModel = "auto"
    common_factors: int | str = "auto"
    shared_covariance: bool | str = "auto"
    tails: str = "auto"
    shrinkage: float | None = None
    tol: float = 1e-4
    max_iter: int = 200
    random_state: RandomState = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows X in memory, shape (N, p), of classes y, shape (N,).

        In y, −1 is an unknown class if at least two other classes are there. A weight of 2 counts a row twice.
        """
        if not (self.shared_covariance == "auto" or isinstance(self.shared_covariance, (bool, np.bool_))):
            raise ParameterError("shared_covariance", self.shared_covariance, 'must be "auto", True or False')
        X = np.asarray(X) if isinstance(X, np.memmap) else X
        if is_elsewhere(X):
            raise ValueError("X must be in memory: give an array or a data frame; `predict` takes rows from anywhere")
        rows, labels = matrix(self, X, y=y, ensure_min_samples=2)
        weights = counts(sample_weight, rows, least=2)
        if weights is not None and not (weights > 0).all():
            kept = np.flatnonzero(weights > 0)
            X, labels, weights = _safe_indexing(X, kept), labels[kept], weights[kept]
        self.classes_, known = _codes(labels)
        self.mixture_, self.warnings_ = self._best(X, weights, known)
        self.mixture_.names_ = {f"cluster {g}": str(name) for g, name in enumerate(self.classes_.tolist(), start=1)}
        self.n_iter_ = self.mixture_.n_iter_
        self.shared_covariance_ = self.mixture_.shared_covariance
        for message in self.warnings_:
            warnings.warn(FitWarning(message), stacklevel=2)
        return self

    def _best(self, X: Any, weights: FloatArray | None, known: IntArray) -> tuple[GaussianBiclustering, list[str]]:
        """The mixture with own or shared covariances, whichever is asked for or has the smaller BIC, and warnings.

        Own covariances of a few labelled rows would lead EM astray, so that it begins where that of a shared one ends.
        """
        # A row without responsibilities is left out of the first M-step.
        z, labelled = (known[:, None] == np.arange(len(self.classes_))).astype(float), np.bincount(known[known >= 0])
        fitted, messages = partial(self._fitted, X, weights, known), list[str]()
        automatic = self.shared_covariance == "auto" and len(self.classes_) > 1
        # A covariance cannot be told from fewer rows than columns.
        few_rows = automatic and self.shrinkage is None and labelled.sum() < _ROWS_PER_COLUMN * self.n_features_in_
        changed = {"shrinkage": _SHRINKAGE} if few_rows else {}
        best = fitted(z, shared_covariance=True, **changed)
        if automatic or not self.shared_covariance:
            unknown = np.flatnonzero(known < 0)
            if len(unknown):
                z[unknown] = best.predict_proba(_safe_indexing(X, unknown))
            own = fitted(z, shared_covariance=False)
            few = labelled <= [block.layout.rows_needed.max() + SPARE for block in own.blocks_]
            few[own.few_rows_] = True
            if automatic and few.any():
                names = ", ".join(map(repr, self.classes_[few].tolist()))
                messages = [f"too few rows of class {names} for covariances by class: all classes share one"]
            elif not automatic or own._criteria(own._fit_sums)["bic"] < best._criteria(best._fit_sums)["bic"]:
                best = own
        dropped = (*_OF_CLUSTERS, *(["too few"] if messages else []))
        ours = [message for message in best.warnings_ if not any(words in message for words in dropped)]
        return best, messages + [self._in_words(message) for message in ours]

    def _fitted(
        self, X: Any, weights: FloatArray | None, known: IntArray, z: FloatArray, **changed: Any
    ) -> GaussianBiclustering:
        names = GaussianBiclustering._get_param_names()
        given = {name: value for name, value in self.get_params(deep=False).items() if name in names}
        if self.tails == "auto":
            given["tails"] = "normal" if changed["shared_covariance"] else "t"
        mixture = GaussianBiclustering(**{**given, "n_components": len(self.classes_), **changed})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # given in our words
            fit_by_em(mixture, X, weights, known=(known, z))
        return mixture

    def _in_words(self, message: str) -> str:
        """A warning of the mixture in the words of a classifier."""
        remedy = "give shrinkage=0.1" if self.shared_covariance is True else "give shared_covariance=True"
        message = message.replace("ask for fewer components", remedy)
        return re.sub(r"component (\d+)", lambda m: f"class {self.classes_.tolist()[int(m[1])]!r}", message)

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable class of each row, shape (N,)."""
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])

    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of each class for each row, shape (N, G)."""
        check_is_fitted(self)
        if not is_elsewhere(X):
            matrix(self, X, reset=False)
        return self.mixture_.predict_proba(X)

    def describe(self) -> str:
        """Text that lists classes, their sizes and their column groups by name."""
        check_is_fitted(self)
        return self.mixture_.describe()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimator to a file that `blockmix.load` reads; an existing file is replaced as a whole."""
        save_model(self, path)


def _codes(labels: NDArray[Any]) -> tuple[NDArray[Any], IntArray]:
    """Classes in order, shape (G,), and the number of each row's, −1 if it is unknown, shape (N,)."""
    unknown = np.array([label == UNKNOWN for label in labels.tolist()], dtype=bool)
    if unknown.all():
        raise ValueError("y is -1 in every row, which is an unknown class: give some rows their class")
    if len(set(labels[~unknown].tolist())) < 2:  # −1 and 1 are two classes
        unknown[:] = False
    check_classification_targets(labels[~unknown])
    classes, numbers = np.unique(labels[~unknown], return_inverse=True)
    known = np.full(len(labels), UNKNOWN, dtype=np.intp)
    known[~unknown] = numbers
    return classes, known
