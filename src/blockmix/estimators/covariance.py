"""BlockDiagonalCovariance: a covariance estimator that learns which columns belong together (paper, section 2).

Rows come in; the column groups, the block-diagonal covariance and its precision go out, under scikit-learn's
covariance contract.
"""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.covariance import EmpiricalCovariance
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from blockmix.estimators.stability.methods import StableCovariance
from blockmix.estimators.storable import Storable
from blockmix.estimators.validation import counts, matrix
from blockmix.grouping.protocols import Grouping, GroupingWarning, Rule
from blockmix.grouping.registry import as_grouping, as_rule, find_groups
from blockmix.plotting.methods import CovarianceFigures
from blockmix.structure.block_models import FULL
from blockmix.structure.blocks import BlockCovariance
from blockmix.structure.columns import column_names, describe, grouped_names, refuse_constant
from blockmix.structure.moments import Moments
from blockmix.structure.types import FloatArray, IntArray, RandomState


class BlockDiagonalCovariance(StableCovariance, CovarianceFigures, Storable, EmpiricalCovariance):
    """Gaussian covariance Σ = Σ_k D_k S D_k with learned column groups D.

    Parameters
    ----------
    n_groups : int, {"auto", "silhouette", "bic"} or rule, default="auto"
        The number K of column groups, or how to choose it. ``"auto"`` tests the tree of the columns from the top and
        may answer that there are no groups, or one; ``"silhouette"`` is the paper's rule; ``"bic"`` the smallest BIC.
        A rule object such as ``SilhouetteRule(candidates=range(2, 5))`` limits the choice.
    grouping : {"hierarchical", "greedy", "relaxed", "penalized"} or object, default="hierarchical"
        How the groups are found.
    ridge : float, default=1e-6
        Fraction by which each variance is raised, before grouping and factorization, so that a singular covariance
        works.
    shrinkage : None, float in [0, 1] or "auto", default=None
        Fraction by which covariances within a block shrink to zero. ``"auto"`` is Ledoit and Wolf's estimate, block by
        block, on standardized columns.
    assume_centered : bool, default=False
        Take the mean to be zero.
    random_state : int, RandomState or None
        Seed of the groupings that draw starts (``"relaxed"``).

    Attributes
    ----------
    partition_ : Partition
        The column groups.
    column_labels_ : array of shape (p,)
        Group of each column, numbered by size, largest first; columns alone come last.
    n_groups_ : int
        Number of groups K.
    groups_ : list of lists of str
        Column names of each group.
    blocks_ : BlockCovariance
        The covariance in factored form; ``blocks_.blocks`` are its matrices.
    covariance_, precision_ : arrays of shape (p, p)
        Made on demand, so that a wide table does not hold them.
    location_ : array of shape (p,)
        The mean.
    linkage_ : array of shape (p − 1, 4) or None
        The tree in SciPy's format that the groups were cut from; None for a grouping without a tree.
    block_shapes_ : tuple of K str
        Shape of the block of each group.
    shrinkage_ : array of shape (K,)
        The shrinkage of each block.
    warnings_ : list of str
        What the fit warned of.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 6)) + np.repeat(rng.standard_normal((100, 2)), 3, axis=1)
    >>> BlockDiagonalCovariance().fit(X).column_labels_
    array([0, 0, 0, 1, 1, 1])
    """

    _parameter_constraints: dict[str, Any] = {}  # noqa: RUF012  checked in fit, in our words

    def __init__(
        self,
        n_groups: int | str | Rule = "auto",
        *,
        grouping: str | Grouping = "hierarchical",
        ridge: float = 1e-6,
        shrinkage: float | str | None = None,
        assume_centered: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.n_groups = n_groups
        self.grouping = grouping
        self.ridge = ridge
        self.shrinkage = shrinkage
        self.assume_centered = assume_centered
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> BlockDiagonalCovariance:
        """Learn the column groups and the covariance of the rows of X, shape (N, p).

        A weight of 2 counts a row twice.
        """
        self._check_parameters()
        rows: FloatArray = matrix(self, X, ensure_min_samples=2)
        weights = counts(sample_weight, rows, least=2)
        if weights is not None:
            rows, weights = rows[weights > 0], weights[weights > 0]
        moments = Moments.of(rows, weights)
        refuse_constant(moments.mean, moments.variances, column_names(self))
        if self.assume_centered:
            moments = moments.about_origin()
        n_rows, self.location_, variances = moments.weight, moments.mean, moments.variances
        deviations, R = moments.standardized(self.ridge)
        del moments  # a second p × p matrix, not needed any more
        rule = as_rule(self.n_groups)
        # The rows themselves serve two purposes only: heavy tails in the choice of K, and the automatic shrinkage.
        wanted = rule is not None or self.shrinkage == "auto"
        squares = _squares(rows, self.location_, variances, weights) if wanted else None
        found = find_groups(R, n_rows, self.n_groups, as_grouping(self.grouping, self.random_state), squares)
        self.partition_, self.linkage_ = found.partition, found.linkage
        self.shrinkage_ = self._shrinkages(R, squares, n_rows)
        self.blocks_ = BlockCovariance.of(R, self.partition_, self.shrinkage_).scaled(deviations)
        self.block_shapes_ = (FULL.name,) * self.partition_.n_groups
        self._warn(found.converged, chosen=rule is not None)
        return self

    def _check_parameters(self) -> None:
        if not (isinstance(self.ridge, Real) and 0 <= self.ridge < np.inf):
            raise ValueError(f"ridge={self.ridge!r} must be a number that is at least 0")
        a = self.shrinkage
        if not (a is None or a == "auto" or (isinstance(a, Real) and 0 <= a <= 1)):
            raise ValueError(f'shrinkage={a!r} must be None, "auto" or a number from 0 to 1')

    def _shrinkages(self, R: FloatArray, squares: FloatArray | None, n_rows: float) -> FloatArray:
        if self.shrinkage != "auto":
            return np.full(self.partition_.n_groups, float(self.shrinkage or 0.0))
        assert squares is not None
        return np.array([_ledoit_wolf(R[np.ix_(A, A)], squares[:, A], n_rows) for A in self.partition_.groups])

    def _warn(self, converged: bool, chosen: bool) -> None:
        p, found = self.n_features_in_, list[Warning]()
        if not converged:
            text = f"grouping={self.grouping!r} stopped at its iteration limit: raise the limit, the groups may improve"
            found.append(ConvergenceWarning(text))
        if chosen and p > 1 and self.n_groups_ in (1, p):
            answer = (
                f"no groups: no columns of the {p} are correlated beyond chance, so the covariance is diagonal"
                if self.n_groups_ == p
                else f"one group: all {p} columns are correlated with each other, so the covariance is full"
            )
            text = f"n_groups={self.n_groups!r} found {answer}; give a number of groups to split them all the same"
            found.append(GroupingWarning(text))
        self.warnings_ = [str(warning) for warning in found]
        for warning in found:
            warnings.warn(warning, stacklevel=3)

    @property
    def column_labels_(self) -> IntArray:
        """Group of each column, shape (p,)."""
        check_is_fitted(self, "partition_")
        return self.partition_.labels

    @property
    def n_groups_(self) -> int:
        """Number of groups K."""
        check_is_fitted(self, "partition_")
        return self.partition_.n_groups

    @property
    def groups_(self) -> list[list[str]]:
        """Column names of each group."""
        check_is_fitted(self, "partition_")
        return grouped_names(self.partition_, column_names(self))

    @property
    def covariance_(self) -> FloatArray:
        """The covariance as a dense matrix, shape (p, p)."""
        check_is_fitted(self, "blocks_")
        return self.blocks_.dense()

    @property
    def precision_(self) -> FloatArray:
        """The inverse of the covariance, shape (p, p)."""
        check_is_fitted(self, "blocks_")
        return self.blocks_.precision()

    def get_precision(self) -> FloatArray:
        """Return the inverse of the covariance, shape (p, p)."""
        return self.precision_

    def score(self, X_test: ArrayLike, y: object = None) -> float:
        """Mean Gaussian log-likelihood of the rows of X_test."""
        X = self._rows(X_test)
        return float(self.blocks_.log_density(X, self.location_).mean(dtype=float))

    def mahalanobis(self, X: ArrayLike) -> FloatArray:
        """Squared Mahalanobis distance of each row of X to the mean."""
        rows = self._rows(X)
        return self.blocks_.squared_distances(rows - self.location_)

    def describe(self) -> str:
        """Text that lists the groups by column name."""
        check_is_fitted(self, "partition_")
        return describe(self.partition_, column_names(self))

    def _restore(self, state: dict[str, Any]) -> None:
        if "shrinkage_" in state and "block_shapes_" not in state:
            # Version 0.1 numbered groups by first column.
            groups = state["partition_"].groups
            by_size = np.empty(len(groups))
            by_size[np.argsort([group[0] for group in groups])] = state["shrinkage_"]
            state |= {"shrinkage_": by_size, "block_shapes_": (FULL.name,) * len(groups)}
        super()._restore(state)

    def _rows(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self, "blocks_")
        rows: FloatArray = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        return rows.astype(self.location_.dtype, copy=False)


def _squares(X: FloatArray, mean: FloatArray, variances: FloatArray, weights: FloatArray | None) -> FloatArray:
    """√(w/Σw) (x − mean)² / variance: the cross-product of its columns is the matrix of mean(y_i² y_j²)."""
    squares = (X - mean) ** 2 / variances
    share = np.full(len(X), 1 / len(X)) if weights is None else weights / weights.sum()
    squares *= np.sqrt(share).astype(X.dtype)[:, None]
    return squares


def _ledoit_wolf(R: FloatArray, squares: FloatArray, n_rows: float) -> float:
    """Ledoit and Wolf's shrinkage of a correlation block to the identity.

    (mean ‖y‖⁴ − ‖R‖²) / (N ‖R − I‖²), at most 1; a column alone has nothing to shrink.
    """
    distance = float(((R - np.eye(len(R))) ** 2).sum())
    if distance <= 0:
        return 0.0
    noise = float((squares.sum(axis=1) ** 2).sum() - (R**2).sum()) / n_rows
    return float(np.clip(noise / distance, 0, 1))
