"""BlockDiagonalCovariance: the covariance of one table, block-diagonal over learned column groups (paper, section 2).

It is the mixture of one component. With complete rows its parameters have a closed form; rows with missing values are
fitted by the EM of the mixture, and their densities are those of the values that a row has.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.covariance import EmpiricalCovariance
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import TransformerTags

from blockmix import plotting
from blockmix.blocks.blocks import Layout, best_blocks
from blockmix.blocks.moments import Covariance, Moments, as_matrix, correlation, mid_ranks, worth_rows
from blockmix.blocks.shapes import FULL, BlockModel, block_models, cheaper_shapes, given_shape
from blockmix.em.parameters import Parameters, common_scores, distances, log_joint
from blockmix.estimators.answer import answer
from blockmix.estimators.associations import associated
from blockmix.estimators.gaussian import GaussianBiclustering
from blockmix.estimators.resampling import stability_of
from blockmix.estimators.scores import Axis, as_output, axes_of, framed, scores
from blockmix.estimators.stability import Stability
from blockmix.estimators.tables import column_table
from blockmix.estimators.validation import (
    as_grouping,
    as_rule,
    check_common,
    check_memory,
    common_range,
    counts,
    given_groups,
    matrix,
    refuse_attribute,
)
from blockmix.grouping import Grouping, GroupingWarning, Proposal, Rule
from blockmix.grouping.common_factors import Scatter, best_common
from blockmix.grouping.grouping import layout_of
from blockmix.grouping.one_table import OneTableRule, groups_of_rows, too_few_rows
from blockmix.grouping.rules import says_little, split, standing_out, takes_gram
from blockmix.partition import FloatArray, IntArray, Partition, RandomState, bic_price, column_names, refuse_constant
from blockmix.plotting.views import component_view
from blockmix.rows import ArrayRows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class BlockDiagonalCovariance(EmpiricalCovariance):
    """Groups of columns that vary together in one table, and its covariance.

    The covariance Σ = Σ_k D_k S D_k is zero between column groups, and the groups D are learned. Other parameters are
    numerics, which hardly change what is found.

    Parameters
    ----------
    n_groups : int, Partition, {"auto", "silhouette"} or rule, default="auto"
        The number K of column groups, the groups, or how to choose them. ``"auto"`` takes the best cut of the tree of
        the columns by the correlation of their ranks, which withstands outlying rows and skewed columns, and may answer
        that there are no groups, or one; ``"silhouette"`` is the paper's rule. A rule object such as
        ``SilhouetteRule(candidates=range(2, 5))`` limits the choice.
    grouping : {"hierarchical", "greedy", "relaxed"} or object, default="hierarchical"
        How the groups are found.
    block_model : {"auto", "full", "tree"}, int or BlockModel, default="auto"
        Shapes that the block of a group may have: ``"full"`` (the paper's), a number of factors, or a tree. ``"auto"``
        chooses among full, one and two factors and a tree for ``n_groups="auto"``, and is full otherwise.
    common_factors : int or "auto", default="auto"
        Number q of factors that all columns share, on top of the groups: Σ = ΛΛᵀ + blocks. ``"auto"`` takes 0 to 3, as
        `GaussianBiclustering` does.

    Other Parameters
    ----------------
    ridge : float, default=1e-6
        Fraction by which each variance is raised, before grouping and factorization, so that a singular covariance
        works.
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
    split_ : Split or None
        Where the groups are one, hundreds or nearly all columns alone: the split that stands out, if there is one.
    common_loadings_ : array of shape (p, q)
        Loadings of the columns on the common factors, strongest first, in the units of X; q is 0 without any.
    warnings_ : list of str
        What the fit warned of.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 6)) + np.repeat(rng.standard_normal((100, 2)), 3, axis=1)
    >>> BlockDiagonalCovariance().fit(X).column_labels_
    array([0, 0, 0, 1, 1, 1])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {}  # checked in fit, in our words

    n_groups: int | Partition | str | Rule = "auto"
    _: KW_ONLY
    grouping: str | Grouping = "hierarchical"
    block_model: str | int | BlockModel = "auto"
    common_factors: int | str = "auto"
    ridge: float = 1e-6
    random_state: RandomState = None

    def __getattr__(self, name: str) -> Any:
        return refuse_attribute(self, name)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags = TransformerTags(preserves_dtype=["float64", "float32"])
        return tags

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> BlockDiagonalCovariance:
        """Learn the column groups and the covariance of the rows of X, shape (N, p).

        A weight of 2 counts a row twice. Rows with missing values (NaN) are fitted as one component of a mixture.
        """
        self._check_parameters()
        rows: FloatArray = matrix(self, X, allow_missing=True, ensure_min_samples=2)
        weights = counts(sample_weight, rows, least=2)
        if weights is not None:
            rows, weights = rows[weights > 0], weights[weights > 0]
        if isinstance(self.n_groups, (Integral, Partition)):
            wanted: int | Partition | Rule = given_groups(self.n_groups, rows.shape[1], "n_groups")
        else:
            wanted = as_rule(self.n_groups, "n_groups", self.block_model)
        fit = self._fit_missing if np.isnan(rows).any() else self._fit_complete
        proposal = fit(rows, weights, wanted)
        self.partition_, self.linkage_ = proposal.partition, proposal.linkage
        n_rows = float(len(rows) if weights is None else weights.sum(dtype=float))
        self.split_ = None
        if not isinstance(wanted, (int, Partition)) and says_little(self.partition_):
            view = component_view(self.blocks_, rows, weights, self)
            self.split_ = standing_out(view.remaining, self.grouping, n_rows, self.partition_)
        models, states = self.blocks_.layout.models[0], self.blocks_.states
        self.block_shapes_ = tuple(model.name for model in models)
        self.loadings_ = tuple(model.loadings(states.get(k)) for k, model in enumerate(models))
        self._warn(proposal.converged, n_rows)
        return self

    def _fit_complete(self, rows: FloatArray, weights: FloatArray | None, wanted: int | Partition | Rule) -> Proposal:
        """Location and blocks of complete rows, in closed form given the groups."""
        grouping = as_grouping(self.grouping, self.random_state)
        as_rows = worth_rows(*rows.shape) and takes_gram(grouping, wanted)
        common = common_range(self.common_factors, rows.shape[1], not isinstance(wanted, (int, Partition)))
        check_memory(rows.shape[1], 1 if as_rows else 3 if isinstance(wanted, (int, Partition)) else 6)
        with np.errstate(over="ignore", invalid="ignore"):  # refused by name
            moments = Moments.of(rows, weights, as_rows)
        refuse_constant(moments.mean, moments.variances, self, rows.dtype)
        n_rows, self.location_ = moments.weight, moments.mean
        deviations, R = moments.standardized(self.ridge)
        if self.n_groups == "auto":
            del moments  # a second p × p matrix, not needed any more
            rows = mid_ranks(rows, weights)
            moments = Moments.of(rows, weights, as_rows)
            proposal = groups_of_rows(rows, weights, moments, grouping, block_models(self.block_model), common)
        else:
            S = R if isinstance(wanted, int) else correlation(moments.scatter)
            proposal = self._proposed(S, n_rows, wanted, grouping, common)
        shapes = proposal.shapes or cheaper_shapes(given_shape(self.block_model), proposal.partition.sizes)
        layout, loadings = layout_of(replace(proposal, shapes=shapes)), None
        if proposal.common is not None:
            scatter = Scatter.of(R, n_rows, 0.0, 0.0)
            first = scatter.fitted(layout, None, {}).blocks
            loadings = scatter.settled(replace(first, loadings=proposal.common[None])).blocks.loadings
            assert loadings is not None
            R = replace(scatter, S=R).without(loadings[0])
        flat = [np.asarray(R[np.ix_(A, A)], dtype=float).ravel() for A in proposal.partition.groups]
        blocks = replace(best_blocks(layout, np.concatenate(flat), {})[0], loadings=loadings)
        self.blocks_ = blocks.canonical().scaled(deviations.astype(float))
        return proposal

    def _proposed(
        self, S: Covariance, n_rows: float, wanted: int | Partition | Rule, grouping: Grouping, common: tuple[int, int]
    ) -> Proposal:
        """As many groups as wanted, on common factors where these pay."""
        price, shape = bic_price(max(n_rows, 2.0)), given_shape(self.block_model)
        last = Proposal(Partition.single(len(S)))

        def propose(rest: Any) -> Layout:
            nonlocal last
            if isinstance(wanted, Partition):
                last = Proposal(wanted)
            elif isinstance(wanted, int):
                last = grouping.group(rest, wanted, n_rows)
            else:
                last = wanted.choose(rest, n_rows, grouping)
            shapes = last.shapes or cheaper_shapes(shape, last.partition.sizes)
            return layout_of(replace(last, shapes=shapes))

        groups, first = propose(S), last
        if not common[1] or (not common[0] and wanted in (1, len(S))):
            return first
        scatter = Scatter.of(
            as_matrix(correlation(S)), n_rows, 0.0 if isinstance(wanted, (int, Partition)) else price, price
        )
        blocks = best_common(scatter, propose, groups, None, *common).blocks
        if blocks.loadings is None:
            return first
        propose(scatter.without(blocks.common))
        return replace(last, partition=blocks.partition, shapes=blocks.layout.models[0], common=blocks.common)

    def _fit_missing(self, rows: FloatArray, weights: FloatArray | None, wanted: int | Partition | Rule) -> Proposal:
        """Location and blocks of the mixture of one component."""
        standardized = ArrayRows.standardized(rows, weights)
        refuse_constant(standardized.location, standardized.scale**2, self, rows.dtype)
        model = GaussianBiclustering(
            1,
            OneTableRule(self.block_model) if self.n_groups == "auto" else wanted,
            grouping=self.grouping,
            block_model=self.block_model,
            common_factors=self.common_factors,
            tol=1e-6,  # EM of one component is cheap, and its result stands for a closed form
            max_iter=1000,
            random_state=self.random_state,
        )
        model._rounding, model._ridge = False, self.ridge
        model.fit(rows, sample_weight=weights)
        self.location_, self.blocks_ = model.means_[0], model.blocks_[0]
        return Proposal(self.blocks_.partition)

    def _check_parameters(self) -> None:
        if not (isinstance(self.ridge, Real) and 0 <= self.ridge < np.inf):
            raise ValueError(f"ridge={self.ridge!r} must be a number that is at least 0")
        block_models(self.block_model)  # refuses an unknown one
        check_common(self.common_factors)

    def _warn(self, converged: bool, n_rows: float) -> None:
        messages = list[Warning]()
        if not converged:
            text = f"grouping={self.grouping!r} stopped at its iteration limit: raise the limit, the groups may improve"
            messages.append(ConvergenceWarning(text))
        chosen = not isinstance(self.n_groups, (Integral, Partition)) and self.n_features_in_ > 1
        if chosen and (answer := self._remark(n_rows)) is not None:
            messages.append(GroupingWarning(f"n_groups={self.n_groups!r} found {answer}"))
        self.warnings_ = [str(warning) for warning in messages]
        for warning in messages:
            warnings.warn(warning, stacklevel=3)

    def _remark(self, n_rows: float) -> str | None:
        """What a user should know about the number of groups that a rule has chosen."""
        p, otherwise = self.n_features_in_, "give a number of groups to split them all the same"
        if self.n_groups_ == 1:
            shape = self.block_shapes_[0]
            model = "so the covariance is full" if shape == FULL.name else f"and their block is: {shape}"
            return f"one group: all {p} columns are correlated with each other, {model}; {otherwise}"
        if self.n_groups_ < p or self.common_loadings_.size:
            return None
        if too_few_rows(n_rows, p):
            return f"no groups: {n_rows:g} rows are too few to tell correlation from chance among {p} columns"
        why = f"no columns of the {p} are correlated beyond chance, so the covariance is diagonal"
        return f"no groups: {why}; {otherwise}"

    @property
    def column_labels_(self) -> IntArray:
        """Group of each column, shape (p,)."""
        return self.partition_.labels

    @property
    def n_groups_(self) -> int:
        """Number of groups K."""
        return self.partition_.n_groups

    @property
    def groups_(self) -> list[list[str]]:
        """Column names of each group."""
        names = column_names(self)
        return [[names[j] for j in group] for group in self.partition_.groups]

    @property
    def common_loadings_(self) -> FloatArray:
        """Loadings of the columns on what all of them share, shape (p, q), in the units of X."""
        return self.blocks_.common

    def common_scores(self, X: ArrayLike) -> FloatArray:
        """Expected common factors of each row from the values that it has, shape (N, q)."""
        rows, mixture = self._array(X), self._mixture()
        parts = ArrayRows.of(rows).map(lambda chunk: common_scores(chunk, np.zeros(len(chunk.X), np.intp), mixture))
        return np.concatenate(list(parts))

    @property
    def covariance_(self) -> FloatArray:
        """The covariance as a dense matrix, shape (p, p)."""
        return np.asarray(self.blocks_.dense(), dtype=self.location_.dtype)

    @property
    def precision_(self) -> FloatArray:
        """The inverse of the covariance, shape (p, p)."""
        return np.asarray(self.blocks_.precision(), dtype=self.location_.dtype)

    def get_precision(self) -> FloatArray:
        """Return the inverse of the covariance, shape (p, p)."""
        return self.precision_

    def score(self, X_test: ArrayLike, y: object = None) -> float:
        """Mean Gaussian log-likelihood of the rows of X_test."""
        return float(self._each_row(X_test, log_joint).mean())

    def mahalanobis(self, X: ArrayLike) -> FloatArray:
        """Squared Mahalanobis distance of each row of X to the mean."""
        halves = self._each_row(X, lambda chunk, density: distances(chunk, density._replace(level=np.zeros(1))))
        return np.asarray(-2 * halves).astype(self.location_.dtype)

    def transform(self, X: ArrayLike) -> Any:
        """A signed score for each row and group of two or more columns; see `GaussianBiclustering.transform`."""
        axes, values, _ = self._scores(X, 0.0)
        return framed(self, values, X, axes)

    def fit_transform(self, X: ArrayLike, y: object = None, **parameters: Any) -> Any:
        """Fit and return the scores of the rows."""
        return self.fit(X, y, **parameters).transform(X)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Names of the scores: the column that goes best with each, and how many more there are."""
        return np.array([axis.name for axis in axes_of(self)], dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Let `transform` return "default" (an array), "pandas" or "polars" data frames; None changes nothing."""
        return as_output(self, transform)

    def associate(self, X: ArrayLike, traits: Any) -> Any:
        """How the scores of the groups go with traits, as a data frame; see `GaussianBiclustering.associate`."""
        axes, values, rows = self._scores(X, np.nan)
        return associated(traits, X, rows, axes, values, None, column_names(self))

    def describe(self, stability: Stability | None = None) -> str:
        """The answer in sentences: the groups of columns and how far to trust them, see `GaussianBiclustering`."""
        return str(answer(self, stability))

    def split(self, X: ArrayLike, n_groups: int | None = None) -> Partition:
        """The columns in `n_groups` groups, or in the groups that stand out; see `GaussianBiclustering.split`."""
        view = component_view(self.blocks_, self._array(X), None, self)
        return split(view.remaining, self.grouping, n_groups).partition

    def _html_repr(self) -> str:  # what scikit-learn shows in a notebook
        return answer(self).html() if hasattr(self, "partition_") else super()._html_repr()

    def column_table(self) -> Any:
        """Column, group, size of the group and loading as a data frame; see `GaussianBiclustering.column_table`."""
        return column_table(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimator to a file that `blockmix.load` reads; an existing file is replaced as a whole."""
        from blockmix.estimators.stored import save_model  # loads what topics need

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
        """How often the column groups come back when the rows of X get random weights.

        See `GaussianBiclustering.stability`, of which it has the part about columns.
        """
        return stability_of(self, X, n_resamples, 0, units, sample_weight, random_state, callback)

    def plot_correlations(self, X: ArrayLike, *, ax: Sequence[Axes] | None = None) -> NDArray[Any]:
        """Observed correlation of X and estimated correlation side by side, in group order; returns two Axes."""
        view = component_view(self.blocks_, self._array(X), None, self)
        assert view.observed is not None
        return plotting.correlation_pair(view.observed, view.estimated, view.partition, names=column_names(self), ax=ax)

    def plot_dendrogram(self, *, ax: Axes | None = None) -> Axes:
        """Dendrogram of the columns, cut into the fitted groups."""
        if self.linkage_ is None:
            raise ValueError('this grouping has no tree: fit with grouping="hierarchical" to draw one')
        return plotting.dendrogram(self.linkage_, self.partition_.n_groups, names=column_names(self), ax=ax)

    def plot_associations(self, X: ArrayLike, traits: Any, *, ax: Axes | None = None) -> Axes:
        """Scores against traits as a heat map of `associate`, with a star where q is below 0.05."""
        return plotting.association_heatmap(self.associate(X, traits), ax=ax)

    def _scores(self, X: ArrayLike, unknown: float) -> tuple[list[Axis], FloatArray, ArrayRows]:
        values = matrix(self, X, reset=False)  # missing ones are refused where the fit does, as scikit-learn checks
        rows, axes = ArrayRows.of(values.astype(self.location_.dtype, copy=False)), axes_of(self)
        return axes, scores(rows, axes, self.location_[None], (self.blocks_,), None, unknown), rows

    def _each_row(self, X: ArrayLike, value: Callable[..., tuple[FloatArray, Any]]) -> FloatArray:
        """One number per row from the values that it has, shape (N,), under the mixture of one component."""
        rows = self._array(X)
        of_chunk = partial(value, density=self._mixture().density(missing=bool(np.isnan(rows).any())))
        return np.concatenate([joint[:, 0] for joint, _ in ArrayRows.of(rows).map(of_chunk)])

    def _mixture(self) -> Parameters:
        return Parameters(np.ones(1), self.location_[None].astype(float), self.blocks_)

    def _array(self, X: ArrayLike) -> FloatArray:
        rows: FloatArray = matrix(self, X, allow_missing=True, reset=False)
        return rows.astype(self.location_.dtype, copy=False)
