"""CovarianceGaps: rows with missing values in `BlockDiagonalCovariance`.

Rows with gaps come in; the mixture of one component is fitted to them, and its column groups, blocks and mean become
those of the covariance. Densities and distances are those of the values that a row has.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.covariance import EmpiricalCovariance
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from blockmix import plotting
from blockmix.blocks.blocks import Blocks, within
from blockmix.blocks.moments import Covariance, Moments, correlation, mid_ranks, worth_rows
from blockmix.blocks.shapes import FULL, BlockModel, block_models, cheaper_shapes, given_shape
from blockmix.em.parameters import Density, Parameters, distances, log_joint
from blockmix.estimators.gaussian import GaussianBiclustering
from blockmix.estimators.resampling import covariance_stability
from blockmix.estimators.stability import Stability
from blockmix.estimators.stored import save_model
from blockmix.estimators.validation import counts, matrix
from blockmix.grouping.auto import AutoRule, too_few_rows
from blockmix.grouping.optimal import OptimalRule
from blockmix.grouping.protocols import Grouping, GroupingWarning, Proposal, Rule, check_n_groups
from blockmix.grouping.registry import as_grouping, as_rule, find_groups
from blockmix.partition import (
    ColumnEntry,
    FloatArray,
    IntArray,
    Partition,
    RandomState,
    column_entries,
    column_names,
    describe,
    grouped_names,
    leading_loadings,
    refuse_constant,
)
from blockmix.plotting.views import component_view
from blockmix.rows import ArrayRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes


_TOL, _MAX_ITER = 1e-6, 1000  # EM of one component is cheap, and its result stands for a closed form


class CovarianceGaps:
    """Tag of an estimator that takes rows with missing values (NaN), their fit and their densities."""

    blocks_: Blocks
    location_: FloatArray
    partition_: Partition

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = self._complete_only() is None
        return tags

    def _complete_only(self) -> str | None:
        """The setting that needs complete rows, if there is one."""
        for name, values in (("assume_centered", (True,)), ("shrinkage", ("auto", 1)), ("correlation", ("spearman",))):
            if getattr(self, name) in values:
                return f"{name}={getattr(self, name)!r}"
        return None

    def _fit_gaps(self, X: FloatArray, weights: FloatArray | None) -> None:
        """Take over groups, blocks and mean of one component that is fitted to rows with gaps, shape (N, p)."""
        settings: Any = self
        refused = self._complete_only()
        if refused is not None:
            raise ValueError(f"{refused} needs complete rows, and X has missing values (NaN): leave it out")
        rule = settings._rule()
        if rule is None:
            check_n_groups(settings.n_groups, X.shape[1])
        rows = ArrayRows.standardized(X, weights)
        refuse_constant(rows.location, rows.scale**2, column_names(self), X.dtype)
        model = GaussianBiclustering(
            1,
            settings.n_groups if rule is None else rule,
            grouping=settings.grouping,
            block_model=settings.block_model,
            rounding=False,
            ridge=settings.ridge,
            shrinkage=settings.shrinkage,
            tol=_TOL,
            max_iter=_MAX_ITER,
            random_state=settings.random_state,
        ).fit(X, sample_weight=weights)
        self.location_, self.blocks_ = model.means_[0], model.blocks_[0]
        self.partition_, self.linkage_, self.common_correlation_ = self.blocks_.partition, None, 0.0
        self.block_shapes_, self.loadings_ = model.block_shapes_[0], model.loadings_[0]
        self.shrinkage_ = np.full(self.partition_.n_groups, float(settings.shrinkage or 0.0))

    def _log_density(self, X: FloatArray) -> FloatArray:
        """Log-density of the values of each row, shape (N,)."""
        if not np.isnan(X).any():
            return self.blocks_.log_density(X, self.location_)
        density = self._density()
        return np.concatenate(list(ArrayRows.of(X).map(lambda chunk: log_joint(chunk, density)[0][:, 0])))

    def _squared_distances(self, X: FloatArray) -> FloatArray:
        """Squared Mahalanobis distance of the values of each row, shape (N,)."""
        if not np.isnan(X).any():
            return self.blocks_.squared_distances(X - self.location_)
        density = self._density()._replace(level=np.zeros(1))
        halves = np.concatenate(list(ArrayRows.of(X).map(lambda chunk: distances(chunk, density)[0][:, 0])))
        return np.asarray(-2 * halves).astype(self.location_.dtype)

    def _density(self) -> Density:
        return Parameters(np.ones(1), self.location_[None].astype(float), self.blocks_).density(missing=True)


class BlockDiagonalCovariance(CovarianceGaps, EmpiricalCovariance):
    """Gaussian covariance Σ = Σ_k D_k S D_k with learned column groups D.

    Parameters
    ----------
    n_groups : int, {"auto", "optimal", "chance", "silhouette", "bic"} or rule, default="auto"
        The number K of column groups, or how to choose it. ``"auto"`` takes the best cut of the tree of the columns
        that stands out from what all columns share, and may answer that there are no groups, or one; ``"silhouette"``
        is the paper's rule; ``"bic"`` the smallest BIC. A rule object such as
        ``SilhouetteRule(candidates=range(2, 5))`` limits the choice.
    grouping : {"hierarchical", "greedy", "relaxed", "penalized"} or object, default="hierarchical"
        How the groups are found.
    block_model : {"auto", "full", "tree"}, int or BlockModel, default="auto"
        Shapes that the block of a group may have: ``"full"`` (the paper's), a number of factors, or a tree. ``"auto"``
        chooses among full, one and two factors and a tree if the rule prices them (``"auto"``, ``"optimal"``), and is
        full otherwise.
    correlation : {"auto", "pearson", "spearman"}, default="auto"
        The correlation that groups are found by. ``"spearman"``, that of the ranks, withstands outlying rows and skewed
        columns. ``"auto"`` is Spearman's for ``n_groups="auto"`` and Pearson's otherwise. Means, variances and blocks
        are moments in any case.
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
    blocks_ : Blocks
        The covariance in factored form; ``blocks_.blocks`` are its matrices.
    covariance_, precision_ : arrays of shape (p, p)
        Made on demand, so that a wide table does not hold them.
    location_ : array of shape (p,)
        The mean.
    linkage_ : array of shape (p − 1, 4) or None
        The tree in SciPy's format that the groups were cut from; None for a grouping without a tree.
    block_shapes_ : tuple of K str
        Shape of the block of each group.
    loadings_ : tuple of K arrays or None
        Loadings of the columns of each group on its factors, shape (c, q), in the units of X and with signs; None
        without factors.
    shrinkage_ : array of shape (K,)
        The shrinkage of each block.
    common_correlation_ : float
        A correlation that all columns share, which ``"auto"`` set aside to find the groups; 0 if there is none.
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
        block_model: str | int | BlockModel = "auto",
        correlation: str = "auto",
        ridge: float = 1e-6,
        shrinkage: float | str | None = None,
        assume_centered: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.n_groups = n_groups
        self.grouping = grouping
        self.block_model = block_model
        self.correlation = correlation
        self.ridge = ridge
        self.shrinkage = shrinkage
        self.assume_centered = assume_centered
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> BlockDiagonalCovariance:
        """Learn the column groups and the covariance of the rows of X, shape (N, p).

        A weight of 2 counts a row twice. Rows with missing values (NaN) are fitted as one component of a mixture.
        """
        self._check_parameters()
        rows: FloatArray = matrix(self, X, allow_missing=True, ensure_min_samples=2)
        weights = counts(sample_weight, rows, least=2)
        if weights is not None:
            rows, weights = rows[weights > 0], weights[weights > 0]
        if np.isnan(rows).any():
            self._fit_gaps(rows, weights)
            self._warn(True, float(len(rows) if weights is None else weights.sum()))
            return self
        as_rows = self._holds_rows(rows)
        with np.errstate(over="ignore", invalid="ignore"):  # refused by name
            moments = Moments.of(rows, weights, as_rows)
        refuse_constant(moments.mean, moments.variances, column_names(self), rows.dtype)
        if self.assume_centered:
            moments = moments.about_origin()
        n_rows, self.location_, variances = moments.weight, moments.mean, moments.variances
        deviations, R = moments.standardized(self.ridge)
        del moments  # a second p × p matrix, not needed any more
        squares = _squares(rows, self.location_, variances, weights) if self.shrinkage == "auto" else None
        found = self._proposal(rows, weights, R, n_rows, as_rows)
        self.partition_, self.linkage_, self.common_correlation_ = found.partition, found.linkage, found.common
        self.shrinkage_ = self._shrinkages(R, squares, n_rows)
        shapes = found.shapes or cheaper_shapes(given_shape(self.block_model), found.partition.sizes)
        shapes = shapes or (FULL,) * found.partition.n_groups
        self.block_shapes_ = tuple(model.name for model in shapes)
        self._fit_blocks(R, deviations.astype(rows.dtype), shapes)
        self._warn(found.converged, n_rows)
        return self

    def _holds_rows(self, rows: FloatArray) -> bool:
        """Whether covariances are stored as rows."""
        return worth_rows(*rows.shape, *filter(None, (as_grouping(self.grouping), self._rule())))

    def _proposal(
        self, rows: FloatArray, weights: FloatArray | None, R: Covariance, n_rows: float, as_rows: bool
    ) -> Proposal:
        """The column groups, from the ranks of the rows or from the rows themselves, whose correlation is R."""
        rule = self._rule()
        ranked = self.correlation == "spearman" or (self.correlation == "auto" and hasattr(rule, "prefers_ranks"))
        grouping = as_grouping(self.grouping, self.random_state)
        if rule is None and not ranked:
            return find_groups(R, n_rows, self.n_groups, grouping)
        if ranked:
            rows = mid_ranks(rows, weights)
        moments = Moments.of(rows, weights, as_rows)
        if self.assume_centered and not ranked:
            moments = moments.about_origin()
        squares = _squares(rows, moments.mean, moments.variances, weights)
        R = correlation(moments.scatter)  # without the ridge, so that exact copies have r = 1
        return find_groups(R, n_rows, self.n_groups if rule is None else rule, grouping, squares)

    def _rule(self) -> Rule | None:
        """The rule for the number of groups; None for a number. The default rules choose among the shapes of blocks."""
        if self.n_groups == "auto":
            return AutoRule(self.block_model)
        return OptimalRule(self.block_model) if self.n_groups == "optimal" else as_rule(self.n_groups)

    def _fit_blocks(self, R: Covariance, deviations: FloatArray, shapes: tuple[BlockModel, ...]) -> None:
        """Blocks in their shapes from the correlation R, and their loadings."""
        keep, loadings = 1 - self.shrinkage_, list[FloatArray | None]()
        shaped = dict[int, FloatArray]()
        for k, (group, model) in enumerate(zip(self.partition_.groups, shapes, strict=True)):
            state = None
            if model.name != FULL.name:
                fit = model.fit(within(R, group, keep[k]))
                shaped[k] = fit.covariance
                state = None if fit.state is None else model.scaled(fit.state, deviations[group].astype(float))
            loadings.append(model.loadings(state))
        self.loadings_ = tuple(loadings)
        self.blocks_ = Blocks.of(R, self.partition_, self.shrinkage_, shaped).scaled(deviations)

    def _check_parameters(self) -> None:
        if not (isinstance(self.ridge, Real) and 0 <= self.ridge < np.inf):
            raise ValueError(f"ridge={self.ridge!r} must be a number that is at least 0")
        a = self.shrinkage
        if not (a is None or a == "auto" or (isinstance(a, Real) and 0 <= a <= 1)):
            raise ValueError(f'shrinkage={a!r} must be None, "auto" or a number from 0 to 1')
        if self.correlation not in ("auto", "pearson", "spearman"):
            raise ValueError(f'correlation={self.correlation!r} must be "auto", "pearson" or "spearman"')
        block_models(self.block_model)  # refuses an unknown one

    def _shrinkages(self, R: Covariance, squares: FloatArray | None, n_rows: float) -> FloatArray:
        if self.shrinkage != "auto":
            return np.full(self.partition_.n_groups, float(self.shrinkage or 0.0))
        assert squares is not None
        return np.array([_ledoit_wolf(R[np.ix_(A, A)], squares[:, A], n_rows) for A in self.partition_.groups])

    def _warn(self, converged: bool, n_rows: float) -> None:
        found = list[Warning]()
        if not converged:
            text = f"grouping={self.grouping!r} stopped at its iteration limit: raise the limit, the groups may improve"
            found.append(ConvergenceWarning(text))
        answer = self._remark(n_rows) if self._rule() is not None and self.n_features_in_ > 1 else None
        if answer is not None:
            found.append(GroupingWarning(f"n_groups={self.n_groups!r} found {answer}"))
        self.warnings_ = [str(warning) for warning in found]
        for warning in found:
            warnings.warn(warning, stacklevel=3)

    def _remark(self, n_rows: float) -> str | None:
        """What a user should know about the number of groups that a rule has chosen."""
        p, otherwise = self.n_features_in_, "give a number of groups to split them all the same"
        if self.n_groups_ == 1:
            shape = self.block_shapes_[0]
            model = "so the covariance is full" if shape == FULL.name else f"and their block is: {shape}"
            return f"one group: all {p} columns are correlated with each other, {model}; {otherwise}"
        if self.common_correlation_:
            return (
                f"that all {p} columns share a correlation of about {self.common_correlation_:.2f}: the groups stand "
                "out from it, and the covariance between groups is set to zero; give n_groups=1 to keep it"
            )
        if self.n_groups_ < p:
            return None
        if too_few_rows(n_rows, p):
            return f"no groups: {n_rows:g} rows are too few to tell correlation from chance among {p} columns"
        why = f"no columns of the {p} are correlated beyond chance, so the covariance is diagonal"
        return f"no groups: {why}; {otherwise}"

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
        return float(self._log_density(self._rows(X_test)).mean(dtype=float))

    def mahalanobis(self, X: ArrayLike) -> FloatArray:
        """Squared Mahalanobis distance of each row of X to the mean."""
        return self._squared_distances(self._rows(X))

    def describe(self) -> str:
        """Text that lists the groups by column name."""
        check_is_fitted(self, "partition_")
        text = describe(self.partition_, column_names(self), self.block_shapes_)
        if self.common_correlation_:
            text += f"\n  all columns share a correlation of about {self.common_correlation_:.2f}, set aside here"
        return text

    def column_table(self) -> list[ColumnEntry]:
        """Name, group, size of the group and loading of each column, and whether it is alone; the component is 0.

        ``pandas.DataFrame(model.column_table())`` makes a data frame of it.
        """
        check_is_fitted(self, "blocks_")
        loadings = leading_loadings(self.blocks_, self.loadings_)
        return list(column_entries(0, column_names(self), self.partition_, loadings))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimator to a file that `blockmix.load` reads; an existing file is replaced as a whole."""
        save_model(self, path)

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

    def plot_correlations(self, X: ArrayLike, *, ax: Sequence[Axes] | None = None) -> NDArray[Any]:
        """Observed correlation of X and estimated correlation side by side, in group order; returns two Axes."""
        check_is_fitted(self, "blocks_")
        view = component_view(self.blocks_, self._rows(X), None, self)
        assert view.observed is not None
        return plotting.correlation_pair(view.observed, view.estimated, view.partition, names=column_names(self), ax=ax)

    def plot_dendrogram(self, *, ax: Axes | None = None) -> Axes:
        """Dendrogram of the columns, cut into the fitted groups."""
        check_is_fitted(self, "blocks_")
        if self.linkage_ is None:
            raise ValueError('this grouping has no tree: fit with grouping="hierarchical" to draw one')
        return plotting.dendrogram(self.linkage_, self.partition_.n_groups, names=column_names(self), ax=ax)

    def _rows(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self, "blocks_")
        rows: FloatArray = matrix(self, X, allow_missing=True, reset=False)
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
