"""GaussianBiclustering: a Gaussian mixture with learned block-diagonal covariances (paper, section 3).

The responsibilities give the row clusters, the blocks of each component's covariance the column groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from blockmix.blocks.blocks import Blocks
from blockmix.blocks.moments import as_matrix, correlation, worth_rows
from blockmix.blocks.shapes import FULL, BlockModel, given_shape
from blockmix.em.block import BlockFamily
from blockmix.em.loop import LoopResult
from blockmix.em.parameters import (
    Parameters,
    Prior,
    common_scores,
    group_distances,
    log_joint,
    outlier_limits,
    outliers_of,
)
from blockmix.em.sweep import NO_VARIANCE, Statistics, full_scatter, supporting_rows
from blockmix.estimators.fitting import WIDE, Scorer, in_component, labelled_rows
from blockmix.estimators.imputation import conditional_moments, imputed
from blockmix.estimators.mixture import Mixture
from blockmix.estimators.resampling import stability_of
from blockmix.estimators.stability import Stability
from blockmix.estimators.validation import (
    as_grouping,
    as_rule,
    check_common,
    check_memory,
    check_whole,
    common_range,
    given_groups,
    rows_to_score,
)
from blockmix.grouping.grouping import Grouping, Rule
from blockmix.grouping.rules import Split, says_little, split, standing_out, takes_gram
from blockmix.partition import BoolArray, FloatArray, IntArray, Partition, RandomState, bic_price
from blockmix.rows import Chunk, Rows, one_blas_thread

_SMALL = 0.2  # of an equal share of the rows, below which a component is looked at
_WIDE = 10.0  # times the variance of the other components, from which its rows may be outliers


@dataclass(eq=False, repr=False)
class GaussianBiclustering(Mixture[Parameters, Statistics]):
    """Clusters of rows and, within each, groups of columns that vary together.

    A Gaussian mixture Σ_g π_g N(μ_g, Σ_g) with Σ_g = Σ_k D_gk S_g D_gk: covariances are zero between column groups, and
    the groups D_g are learned. Other parameters are numerics, which hardly change what is found.

    Parameters
    ----------
    n_components : int, default=1
        Number G of row clusters.
    n_column_groups : int, Partition, sequence of G of these, {"auto", "silhouette"} or rule, default="auto"
        Number of column groups, or the groups: for all components, for each, or how to choose it within each component.
        ``"auto"`` is the cut of the tree with the largest objective, see `grouping.BestCut`.
    grouping : {"hierarchical", "greedy", "relaxed"} or object, default="hierarchical"
        How the column groups are found.
    block_model : {"auto", "full", "tree"}, int or BlockModel, default="auto"
        Shapes that the block of a group may have. ``"full"`` is the paper's, any covariance; a number q is q common
        factors and a noise of its own for each column; in a ``"tree"`` each column depends on one other, as in chains.
        ``"auto"`` chooses among full, one and two factors and tree together with the groups; with a given number of
        groups it is full.
    common_factors : int or "auto", default="auto"
        Number q of factors that all columns share, on top of the groups: Σ_g = Λ_gΛ_gᵀ + blocks. ``"auto"`` takes 0 to
        3, one more as long as the objective rises and the factor explains covariance between groups. It is 0, the
        paper's, with a given number of groups or few rows.
    shared_covariance : bool, default=False
        One covariance, and one partition of the columns, for all components.
    tails : {"normal", "t"}, default="normal"
        ``"t"`` makes the components multivariate t distributions, one number of degrees of freedom each, in which
        outliers have little weight. Their blocks are scale matrices then: the covariance is ν / (ν − 2) times as
        large, and does not exist for ν ≤ 2.
    columns : {"linear", "power"}, default="linear"
        ``"power"`` fits an exponent to each column whose rows are skewed within the clusters, and takes its power, see
        `rows.powers`. An exponent counts as a parameter, and BIC compares both choices.
    shrinkage : float in [0, 1) or None
        Pulls each block towards the diagonal of the overall variances, as a prior worth shrinkage / (1 − shrinkage)
        times the rows of an average component. Use it where a component has fewer rows than a block has columns.

    Other Parameters
    ----------------
    tol : float, default=1e-4
        EM has settled when, by Aitken's rule, the log-likelihood per row is this near its limit.
    max_iter : int, default=200
        Most EM iterations of one start.
    n_init : int, default=1
        Number of starts, with different seeds; the best is kept.
    init : {"auto", "kmeans"} or array, default="auto"
        ``"auto"`` compares clusterings and first column groups; ``"kmeans"`` is a single start; an array holds labels
        (N,) or responsibilities (N, G).
    random_state : int, RandomState or None
        Seed of the starts and of `sample`; a model with a RandomState cannot be saved.

    Attributes
    ----------
    weights_ : array of shape (G,)
    means_ : array of shape (G, p)
        Like the covariances and all that is made of them, they are those of ``powered(X)``, which is X itself unless
        columns have powers. See `centers_` for the units of X.
    blocks_ : tuple of G Blocks
        Covariances in factored form; the same object G times with a shared covariance.
    covariances_ : array of shape (G, p, p)
        Made on demand.
    row_labels_ : array of shape (N,)
        Component of each row.
    column_labels_ : array of shape (G, p)
        Group of each column in each component, numbered by size, largest first; columns alone come last.
    n_column_groups_ : array of shape (G,)
    rows_, columns_, biclusters_ : boolean arrays
        The biclusters (component, group) as scikit-learn's biclustering has them.
    log_likelihood_ : float
        Log-likelihood of the rows.
    log_likelihood_trace_ : array
        The objective at each iteration, which never falls: log-likelihood plus the penalties of the ridge and of
        `shrinkage`, less BIC's price of the covariance parameters and the price of the partition where the number of
        column groups is chosen.
    n_iter_, converged_, outcome_ : int, bool, str
        Iterations of the winning start, whether it settled, and how it ended: "converged", "iteration limit",
        "degenerate" or "interrupted".
    warnings_ : list of str
        What the fit warned of.
    starts_ : list of tuples (name, objective, iterations)
        Every start, the winner first.
    n_parameters_ : int
        G − 1 + Gp + the parameters of the distinct blocks: c(c+1)/2 of a full one, fewer in other shapes; G more with
        ``tails="t"``, and the exponents other than 1.
    powers_ : array of shape (p,)
        Exponent of each column, from 0, a logarithm, to 2; 1 leaves a column as it is.
    centers_ : array of shape (G, p)
        Centers of the components in the units of X: the means, or the medians of columns with a power.
    degrees_of_freedom_ : array of shape (G,)
        How heavy the tails of each component are, from 1 to 200; infinite for normal ones.
    partition_price_ : float
        Log-likelihood that the choice of the column groups must earn; 0 if their number was given.
    block_shapes_ : tuple of G tuples of str
        Shape of the block of each column group.
    common_loadings_ : tuple of G arrays of shape (p, q)
        Loadings of the columns on the common factors; q may be 0.
    splits_ : tuple of G Split or None
        Where the groups are one, hundreds or nearly all columns alone: the split that stands out, if there is one.
    loadings_ : tuple of G tuples of arrays or None
        Loadings of the columns of each group on its factors, signs included.
    outlier_scores_ : array of shape (N,)
        Squared Mahalanobis distance of each row from its component, about p for a row of a normal component.
    outliers_ : boolean array of shape (N,)
        Rows whose score one normal row in a thousand exceeds; they need not be wrong. See `outliers` for new rows.
    outlier_groups_ : array of shape (N,)
        Column group, of its component, in which each row is farthest. See `group_distances`.
    block_rows_ : array of shape (B,)
        Rows that the block of each group rests on, components in turn: fewer than the component has where values are
        missing.
    few_rows_ : list of int
        Components with hardly more rows than their covariances need.
    resolution_ : Resolution
        Which values are repeated in each column, and how finely they are known.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 4)) + np.repeat(rng.standard_normal((200, 2)), 2, axis=1)
    >>> X[:100] += 6
    >>> model = GaussianBiclustering(2, random_state=0).fit(X)
    >>> model.column_labels_
    array([[0, 0, 1, 1],
           [0, 0, 1, 1]])
    """

    _ridge = 1e-9  # keeps covariances invertible; relative to the overall variance of each column
    _describe = staticmethod(outliers_of)

    n_components: int = 1
    n_column_groups: int | Partition | Sequence[int | Partition] | str | Rule = "auto"
    _: KW_ONLY
    grouping: str | Grouping = "hierarchical"
    block_model: str | int | BlockModel = "auto"
    common_factors: int | str = "auto"
    shared_covariance: bool = False
    tails: str = "normal"
    columns: str = "linear"
    shrinkage: float | None = None
    tol: float = 1e-4
    max_iter: int = 200
    n_init: int = 1
    init: str | ArrayLike = "auto"
    random_state: RandomState = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def impute(self, X: Any, draws: int | None = None) -> Any:
        """Rows with their missing values replaced by their expectations given the other values of the row.

        Σ_g z_g E(x_m | x_o, g), of powered values where columns have powers. Values that are present stay as they are,
        to the last bit. A pandas or polars data frame gives a data frame, everything else an array of shape (N, p).

        With `draws`, a list of so many tables: in each, missing values are drawn from their distribution given the
        row, so that what is computed from the tables varies as much as the missing values leave open (multiple
        imputation). Parameters are those of the fit, whose own uncertainty is not in the draws; `random_state` seeds.
        """
        if draws is None:
            return imputed(self, X, None, 0)[0]
        check_whole("draws", draws)
        return imputed(self, X, draws, check_random_state(self.random_state).randint(2**31 - 1))

    def conditional(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of each missing cell given the other values of its row, two arrays of shape (N, p).

        Present values have themselves and 0. Mean ± 1.645 √variance holds about 90 % of the missing values; with few
        rows a little less, because parameters are taken as known. Infinite where heavy tails leave no variance; not
        for columns with powers.
        """
        return conditional_moments(self, X)

    def split(self, X: Any, n_groups: int | None = None, component: int = 0) -> Partition:
        """The columns of a component in `n_groups` groups, or in the groups that stand out (largest silhouette).

        They are a cut of the tree of the columns, of what common factors leave of their correlations, coarser or finer
        than the groups of the fit, and can be given as `n_column_groups`.
        """
        return split(self._view(X, component).remaining, self.grouping, n_groups).partition

    def group_distances(self, X: Any) -> FloatArray:
        """Squared distance of each row from its most probable component in each of its column groups, shape (N, K).

        NaN where the component has fewer than K groups. The sum over the groups is the outlier score of the row. With
        common factors it is the distance of what they leave, and the squares of `common_scores` complete the sum.
        """
        return self._in_components(X, group_distances)

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
        """How often the column groups and the clusters come back when the rows get random weights.

        The columns of each component are regrouped with the probabilities of the fit; clusters are refitted, from
        the fitted clustering and from `n_init` fresh starts. The model is not changed. An interrupt keeps what is done.

        Parameters
        ----------
        X : as in `fit`
            The rows of the fit.
        n_resamples, n_refits : int
            Resamples for the columns and for the clusters; rows that are not in memory need n_refits=0.
        units : array of shape (N,), optional
            What rows depend on, such as patients or days: rows of one unit share a weight.
        sample_weight : array of shape (N,), optional
            The weights of the fit.
        random_state : int, RandomState or None
        callback : callable, optional
            Gets the number of resamples and refits that are done, and that of all.
        """
        return stability_of(self, X, n_resamples, n_refits, units, sample_weight, random_state, callback)

    def _family(self, rows: Rows, variances: FloatArray) -> BlockFamily:
        share = rows.total_weight / self.n_components
        a = self.shrinkage or 0.0
        n_groups, priced = self._n_groups(rows.n_columns)
        shared = self.shared_covariance and self.n_components > 1
        grouping, price = as_grouping(self.grouping, self.random_state), bic_price(max(rows.pair_weight, 2.0))
        wide = worth_rows(rows.n_rows * (self.n_components if shared else 1), rows.n_columns)
        common = common_range(self.common_factors, rows.n_columns, priced)
        wide &= not common[0]
        as_rows = wide and rows.is_array and not rows.has_missing and all(takes_gram(grouping, k) for k in n_groups)
        searched = any(not isinstance(k, Partition) and k not in (1, rows.n_columns) for k in n_groups)
        check_memory(rows.n_columns, searched if as_rows else 6 if searched else 3)
        return BlockFamily(
            n_groups=n_groups,
            grouping=grouping,
            shape=FULL if self.block_model == "auto" else given_shape(self.block_model),
            shared=shared,
            prior=Prior(shrinkage=share * a / (1 - a), ridge=share * self._ridge),
            price=price if priced else 0.0,
            common=(0, 0) if as_rows else common,
            factor_price=price,
            total_weight=rows.total_weight,
            heavy=self.tails == "t",
            powered=self.columns == "power",
            as_rows=as_rows,
        )

    def _adopt(self, parameters: Parameters, rows: Rows) -> None:
        parameters = replace(parameters, blocks=parameters.blocks.canonical())
        units = parameters.powers or rows
        self._parameters = parameters.in_units(units.location, units.scale)
        self.splits_ = self._splits(parameters, rows)
        self._groups_chosen = self._n_groups(rows.n_columns)[1]
        self.block_rows_ = supporting_rows(rows, parameters)
        self.weights_ = self._parameters.weights.astype(rows.dtype)
        self.means_ = self._parameters.means.astype(rows.dtype)

    def _splits(self, parameters: Parameters, rows: Rows) -> tuple[Split | None, ...]:
        """The split that stands out in each component, where the groups say little."""
        layout, splits = parameters.blocks.layout, list[Split | None]()
        if not self._n_groups(rows.n_columns)[1] or not any(map(says_little, layout.distinct)):
            return (None,) * len(parameters.weights)
        for d, partition in enumerate(layout.distinct):
            members, found = range(d * layout.n_sharing, (d + 1) * layout.n_sharing), None
            if says_little(partition):
                full, block = full_scatter(rows, parameters, members), parameters.blocks[members[0]]
                n = float(full.weight[members[0] : members[-1] + 1].sum())
                S = as_matrix(full.scatter[0] - n * block.common @ block.common.T)
                if (S.diagonal() > NO_VARIANCE * n).all():
                    found = standing_out(correlation(S), self.grouping, n, partition)
            splits.append(found)
        return tuple(splits) * layout.n_sharing

    def _thin_message(self, g: int, count: float, parameters: Parameters) -> str:
        largest = parameters.blocks.layout.partitions[g].sizes.max()
        if parameters.blocks.layout.n_sharing > 1:
            return (
                f"{len(parameters.weights)} components leave too few rows for the covariance that they share, so it "
                "rests on the ridge: ask for fewer components or give shrinkage=0.1"
            )
        return (
            f"component {g} has {count:.1f} rows for a block of {largest} columns, so its covariance rests on the "
            "ridge: give shrinkage=0.1 or fewer components"
        )

    def _warnings(self, best: LoopResult[Parameters], rows: Rows, family: object) -> list[str]:
        parameters = best.state.parameters
        G, p = parameters.means.shape
        if G == 1:
            return []
        messages = []
        if p > rows.n_rows:
            messages.append(WIDE.format(p, rows.n_rows) + " and with shared_covariance=True")
        if (parameters.weights < _SMALL / G).any():
            messages += _spread_out(parameters, rows.total_weight)
        independent = -0.5 * rows.total_weight * p * (1 + math.log(2 * math.pi))
        exact = not rows.has_missing and not len(rows.resolution.columns)  # else that likelihood takes its own pass
        if exact and self.log_likelihood_ < independent - rows.total_weight * float(np.log(rows.scale).sum()):
            one = "one component with independent columns"
            messages.append(f"{G} components have a lower likelihood than {one}: ask for fewer of them")
        return messages

    def _n_groups(self, p: int) -> tuple[tuple[object, ...], bool]:
        """The number of groups, or its rule, per component, and whether a rule is among them."""
        given = self.n_column_groups
        if isinstance(given, (Sequence, np.ndarray)) and not isinstance(given, str):
            if len(given) != self.n_components:
                raise ValueError(
                    f"n_column_groups={list(given)!r} has {len(given)} numbers for n_components={self.n_components}: "
                    "give one number per component, or a rule such as SilhouetteRule(candidates=...) to choose"
                )
            if self.shared_covariance and len(set(given)) > 1:
                raise ValueError(
                    f"n_column_groups={list(given)!r} differ, but shared_covariance=True has one partition"
                )
            return tuple(given_groups(number, p, "n_column_groups") for number in given), False
        if isinstance(given, (Integral, Partition)):
            return (given_groups(given, p, "n_column_groups"),) * self.n_components, False
        rule = as_rule(given, "n_column_groups", self.block_model)
        return (rule,) * self.n_components, True

    def _check_parameters(self) -> None:
        if not isinstance(self.shared_covariance, (bool, np.bool_)):
            raise ValueError(f"shared_covariance={self.shared_covariance!r} must be True or False")
        check_common(self.common_factors)
        if self.tails not in ("normal", "t"):
            raise ValueError(f'tails={self.tails!r} must be "normal" or "t"')
        if self.columns not in ("linear", "power"):
            raise ValueError(f'columns={self.columns!r} must be "linear" or "power"')
        if self.shrinkage is not None and not (isinstance(self.shrinkage, Real) and 0 <= float(self.shrinkage) < 1):
            raise ValueError(f"shrinkage={self.shrinkage!r} must be None or a number from 0 up to, but not, 1")

    def _scorer(self) -> Scorer:
        return partial(_score, parameters=self._parameters)

    def _sample_component(self, g: int, n: int, rng: np.random.RandomState) -> FloatArray:
        deviations = self.blocks_[g].sample(n, rng)
        freedom = self._parameters.degrees_of_freedom
        if freedom is not None:
            deviations /= np.sqrt(rng.chisquare(freedom[g], n) / freedom[g])[:, None]
        return self._unpowered(np.asarray(self.means_[g] + deviations))

    @property
    def degrees_of_freedom_(self) -> FloatArray:
        """Degrees of freedom of each component, shape (G,); infinite if it is normal."""
        freedom = self._parameters.degrees_of_freedom
        return np.full(len(self._parameters.weights), np.inf) if freedom is None else freedom

    @property
    def powers_(self) -> FloatArray:
        """Exponent of each column, shape (p,); 1 leaves a column as it is."""
        powers = self._parameters.powers
        return np.ones(self.n_features_in_) if powers is None else powers.exponents

    @property
    def centers_(self) -> FloatArray:
        """Centers of the components in the units of X, shape (G, p): means, or medians of columns with a power."""
        return self._unpowered(self._parameters.means).astype(self.means_.dtype)

    def powered(self, X: ArrayLike) -> FloatArray:
        """Rows with powers of their columns, the space of `means_` and `covariances_`; X itself without powers."""
        return self._modelled(X)

    def _unpowered(self, Y: FloatArray) -> FloatArray:
        powers = self._parameters.powers
        return Y if powers is None else powers.inverse(Y)

    @property
    def outliers_(self) -> BoolArray:
        """Rows of the fit with a score that one normal row in a thousand exceeds, a boolean array of shape (N,)."""
        limits = self._outlier_limits(new=False)
        # NaN for a row without values, which is not an outlier.
        return np.asarray(self.outlier_scores_ > limits[self.row_labels_, self.n_values_])

    def outliers(self, X: Any) -> BoolArray:
        """New rows with a score that one normal row in a thousand exceeds, a boolean array of shape (N,).

        The limit is higher than for rows of the fit, which the covariances were fitted to.
        """
        labels, _, found = labelled_rows(self, rows_to_score(self, X))
        return np.asarray(found["outlier_scores_"] > self._outlier_limits(new=True)[labels, found["n_values_"]])

    def _outlier_limits(self, new: bool) -> FloatArray:
        return outlier_limits(self._parameters, self.block_rows_, new)

    @property
    def blocks_(self) -> tuple[Blocks, ...]:
        """Covariance of each component in factored form."""
        blocks, shared = self._parameters.blocks, self._parameters.blocks.layout.n_sharing
        return tuple(blocks[g] for g in range(0, len(self.weights_), shared)) * shared

    @property
    def covariances_(self) -> FloatArray:
        """Covariance of each component, shape (G, p, p)."""
        return np.stack([block.dense() for block in self.blocks_]).astype(self.means_.dtype)

    @property
    def column_labels_(self) -> IntArray:  # type: ignore[override]
        """Group of each column in each component, shape (G, p)."""
        return np.stack([partition.labels for partition in self._parameters.blocks.layout.partitions])

    @property
    def n_column_groups_(self) -> IntArray:
        """Number of column groups of each component, shape (G,)."""
        return np.array([partition.n_groups for partition in self._parameters.blocks.layout.partitions])

    @property
    def n_parameters_(self) -> int:  # type: ignore[override]
        """Free parameters: G − 1 weights, Gp means, blocks, their common factors, degrees of freedom, exponents."""
        G, p = len(self.weights_), self.n_features_in_
        tails = 0 if self._parameters.degrees_of_freedom is None else G
        blocks = self._parameters.blocks
        powers = 0 if self._parameters.powers is None else self._parameters.powers.n_exponents
        return G - 1 + G * p + blocks.layout.n_parameters + blocks.n_loadings + tails + powers

    @property
    def common_loadings_(self) -> tuple[FloatArray, ...]:
        """Loadings of the columns on what all of them share, shape (p, q) by component, in the units of X; q may be 0.

        The strongest factor comes first; most columns have positive loadings on it.
        """
        return tuple(block.common for block in self.blocks_)

    def common_scores(self, X: Any) -> FloatArray:
        """Expected common factors of each row in its most probable component, shape (N, q).

        q is the largest number of common factors of a component; a component with fewer has 0 in the others.
        """
        return self._in_components(X, common_scores)

    def _in_components(self, X: Any, function: Callable[[Chunk, IntArray, Parameters], FloatArray]) -> FloatArray:
        """A function of the rows and of the most probable component of each."""
        of_chunk = partial(in_component, scorer=self._scorer(), function=function, parameters=self._parameters)
        with one_blas_thread():
            return np.concatenate(list(rows_to_score(self, X).map(of_chunk)))

    @property
    def partition_price_(self) -> float:
        """Log-likelihood that the choice of the column groups must earn; 0 if their number was given.

        See `blockmix.partition.partition_prices`.
        """
        return self._parameters.blocks.layout.partition_price if self._groups_chosen else 0.0

    @property
    def block_shapes_(self) -> tuple[tuple[str, ...], ...]:
        """Shape of the block of each column group, by component: "full", "1 factor", "tree", …."""
        layout = self._parameters.blocks.layout
        return tuple(tuple(model.name for model in models) for models in layout.models) * layout.n_sharing

    @property
    def loadings_(self) -> tuple[tuple[FloatArray | None, ...], ...]:
        """Loadings of the columns of each group on its factors in the units of X, by component; None without factors.

        The columns are those of ``column_labels_ == k``, in order; the q columns of an array are factors. A negative
        loading goes against the group: signs are such that the largest one is positive.
        """
        layout, states = self._parameters.blocks.layout, self._parameters.blocks.states
        loadings = [
            tuple(model.loadings(states.get(b)) for b, model in enumerate(models, start=int(layout.first[d])))
            for d, models in enumerate(layout.models)
        ]
        return tuple(loadings) * layout.n_sharing


def _spread_out(parameters: Parameters, total: float) -> list[str]:
    """Sentences about small components whose rows lie far apart."""
    counts = parameters.weights * total
    small = np.flatnonzero((parameters.weights < _SMALL / len(counts)) & (counts >= 1))
    messages = []
    # tr Σ = Σ L_ij²: factors are 0 above the diagonal.
    spread = np.array([float((parameters.blocks[g].factors ** 2).sum()) for g in range(len(counts))])
    for g in small:
        others = np.delete(np.arange(len(counts)), g)
        ratio = spread[g] / np.average(spread[others], weights=counts[others])
        if ratio > _WIDE:
            messages.append(
                f"component {g} holds {counts[g]:.0f} rows that are spread {ratio:.0f} times as wide as the others: "
                'these may be outliers and not a cluster; try tails="t"'
            )
    return messages


def _score(chunk: Chunk, parameters: Parameters) -> FloatArray:
    """Log π_g f_g of the rows of a chunk, shape (m, G)."""
    return log_joint(chunk.powered(parameters.powers), parameters.density(chunk.has_missing))[0]
