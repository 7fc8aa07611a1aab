"""GaussianBiclustering: a Gaussian mixture with learned block-diagonal covariances (paper, section 3).

Rows come in; row clusters come out of the responsibilities and column groups out of the blocks of each component's
covariance.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from blockmix.em.block.e_step import Density, log_joint
from blockmix.em.block.family import BlockFamily
from blockmix.em.block.parameters import Parameters, Prior
from blockmix.em.block.regroup import Proposer
from blockmix.em.block.sweep import Statistics
from blockmix.em.starts.modes import Mode, modes
from blockmix.estimators.base import Scorer
from blockmix.estimators.em_mixture import Describer, EMMixture
from blockmix.estimators.far_rows import FarRows, far_rows
from blockmix.estimators.gaps import TakesGaps
from blockmix.estimators.stability.methods import StableMixture
from blockmix.grouping.optimal import OptimalRule
from blockmix.grouping.protocols import Grouping, Rule, check_n_groups
from blockmix.grouping.registry import as_grouping, as_rule
from blockmix.rows import Rows
from blockmix.structure.block_models import BlockModel, given_shape
from blockmix.structure.blocks import BlockCovariance
from blockmix.structure.objective import bic_price
from blockmix.structure.types import FloatArray, IntArray, RandomState


class GaussianBiclustering(StableMixture, FarRows, TakesGaps, EMMixture[Parameters, Statistics]):
    """Gaussian mixture Σ_g π_g N(μ_g, Σ_g) with Σ_g = Σ_k D_gk S_g D_gk, column groups D_g learned.

    Parameters
    ----------
    n_components : int, default=1
        Number G of row clusters.
    n_column_groups : int, sequence of G ints, {"auto", "optimal", "bic", "silhouette"} or rule, default="auto"
        Number of column groups: for all components, for each, or how to choose it within each component.
        ``"auto"`` is ``"optimal"``: the cut of the tree with the largest objective, see `grouping.OptimalRule`.
    grouping : {"hierarchical", "greedy", "relaxed", "penalized"} or object, default="hierarchical"
        How the column groups are found.
    block_model : {"auto", "full", "tree"}, int or BlockModel, default="auto"
        Shapes that the block of a group may have. ``"full"`` is the paper's, any covariance; a number q is q common
        factors and a noise of its own for each column; in a ``"tree"`` each column depends on one other, as in chains.
        ``"auto"`` chooses among full, one and two factors and tree together with the groups; with a given number of
        groups it is full.
    shared_covariance : bool, default=False
        One covariance, and one partition of the columns, for all components.
    tails : {"normal", "t"}, default="normal"
        ``"t"`` makes the components multivariate t distributions, one number of degrees of freedom each, in which far
        rows weigh little: for data with outliers or heavy tails. Their blocks are scale matrices then: the covariance
        is ν / (ν − 2) times as large, and does not exist for ν ≤ 2.
    rounding : bool, default=True
        Take a value that several rows share as known only to within the distance to its neighbours, so that no cluster
        can sit on one value of a 0/1, count or rounded column with a variance near 0.
    ridge : float, default=1e-9
        Keeps covariances invertible; relative to the overall variance of each column.
    shrinkage : float in [0, 1) or None
        Pulls each block towards the diagonal of the overall variances, as a prior worth shrinkage / (1 − shrinkage)
        times the rows of an average component. Use it where a component has fewer rows than a block has columns.
    tol : float, default=1e-4
        EM has settled when, by Aitken's rule, the log-likelihood per row is this near its limit.
    max_iter : int, default=200
        Most EM iterations of one start.
    n_init : int, default=1
        Number of starts, with different seeds; the best is kept.
    init : str or array, default="auto"
        ``"auto"`` compares clusterings and first column groups; one kind is ``"kmeans"`` (a single start),
        ``"kmeans++"``, ``"random"``, ``"whitened"``, ``"hierarchical"`` or ``"annealed"``; ``"portfolio"`` runs all of
        them for a few iterations and goes on with the best; an array holds labels (N,) or responsibilities (N, G).
    warm_start : bool, default=False
        Start the next fit from the parameters of the last one.
    n_jobs : int or None
        Starts that are run at the same time. A single start uses all cores by itself on data that are large enough.
    random_state : int, RandomState or None
        Seed of the starts and of `sample`.
    verbose : int, default=0
        1 prints a line per start, 2 a line per iteration.
    checkpoint : path or None
        A file that is written after each iteration. The same fit goes on from there if its process was killed, or if it
        was interrupted, and ends as it would have ended; then the file is removed. It is kept if the fit stops at
        `max_iter`, so that the fit can go on with a higher one. Other settings or other data are refused.

    Attributes
    ----------
    weights_ : array of shape (G,)
    means_ : array of shape (G, p)
    blocks_ : tuple of G BlockCovariance
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
        The objective at each iteration, which never falls: log-likelihood plus the penalties of `ridge` and
        `shrinkage`, less BIC's price of the covariance parameters and the price of the partition where the number of
        column groups is chosen.
    n_iter_, converged_, outcome_ : int, bool, str
        Iterations of the winning start, whether it settled, and how it ended: "converged", "iteration limit",
        "degenerate" or "interrupted".
    warnings_ : list of str
        What the fit warned of.
    starts_ : list of tuples (name, objective, iterations)
        Every start, the winner first.
    critical_ratio_ : float
        Only after annealed starts: λ1/λ2 of the block-whitened rows. Near 1 the seed decides which clusters are found;
        a large value says that seeds will agree, not that they are right. `modes` shows the alternatives.
    n_parameters_ : int
        G − 1 + Gp + the parameters of the distinct blocks: c(c+1)/2 of a full one, fewer in other shapes; G more with
        ``tails="t"``.
    degrees_of_freedom_ : array of shape (G,)
        How heavy the tails of each component are, from 1 to 200; infinite for normal ones.
    partition_price_ : float
        Log-likelihood that the choice of the column groups must earn; 0 if their number was given.
    block_shapes_ : tuple of G tuples of str
        Shape of the block of each column group.
    loadings_ : tuple of G tuples of arrays or None
        Loadings of the columns of each group on its factors, signs included.
    outlier_scores_ : array of shape (N,)
        Squared Mahalanobis distance of each row from its component, about p for a row of a normal component.
    outliers_ : boolean array of shape (N,)
        Rows whose score exceeds the 0.999 quantile of χ² with p degrees of freedom: far rows, not necessarily wrong.
    outlier_groups_ : array of shape (N,)
        Column group, of its component, in which each row is farthest. See `group_distances`.
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

    _parameters: Parameters

    def __init__(
        self,
        n_components: int = 1,
        n_column_groups: int | Sequence[int] | str | Rule = "auto",
        *,
        grouping: str | Grouping = "hierarchical",
        block_model: str | int | BlockModel = "auto",
        shared_covariance: bool = False,
        tails: str = "normal",
        rounding: bool = True,
        ridge: float = 1e-9,
        shrinkage: float | None = None,
        tol: float = 1e-4,
        max_iter: int = 200,
        n_init: int = 1,
        init: str | ArrayLike = "auto",
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_column_groups = n_column_groups
        self.grouping = grouping
        self.block_model = block_model
        self.shared_covariance = shared_covariance
        self.tails = tails
        self.rounding = rounding
        self.ridge = ridge
        self.shrinkage = shrinkage
        self.tol = tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.init = init
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint

    def modes(self, X: ArrayLike, n_modes: int = 5) -> list[Mode]:
        """Distinct row clusterings of data with more columns than rows, each with two scores and its columns.

        There the likelihood prefers wrong clusterings to right ones, so one answer would be a guess. A mode's `labels`
        can be given as `init`. Needs no fit.
        """
        rows = check_array(X, dtype=np.float64, ensure_min_samples=max(2, self.n_components), input_name="X")
        return modes(rows, self.n_components, self.random_state, n_modes=n_modes)

    def _family(self, rows: Rows, variances: FloatArray) -> BlockFamily:
        share = rows.total_weight / self.n_components
        a = self.shrinkage or 0.0
        n_groups, priced = self._n_groups(rows.n_columns)
        proposer = Proposer(
            n_groups,
            as_grouping(self.grouping, self.random_state),
            given_shape(self.block_model),
            self.shared_covariance and self.n_components > 1,
            Prior(shrinkage=share * a / (1 - a), ridge=share * self.ridge),
            bic_price(max(rows.pair_weight, 2.0)) if priced else 0.0,
        )
        return BlockFamily(proposer, rows.total_weight, self.tails == "t")

    def _resumed(self, rows: Rows, family: BlockFamily) -> Parameters | None:  # type: ignore[override]
        if family.admits(self._parameters.layout):
            return family.with_tails(self._parameters.in_units(-rows.location / rows.scale, 1 / rows.scale))
        return None

    def _adopt(self, parameters: Parameters, rows: Rows) -> None:
        self._parameters = parameters.in_units(rows.location, rows.scale)
        self._groups_chosen = self._n_groups(rows.n_columns)[1]
        self.weights_ = self._parameters.weights.astype(rows.dtype)
        self.means_ = self._parameters.means.astype(rows.dtype)

    def _thin_message(self, g: int, count: float, parameters: Parameters) -> str:
        largest = parameters.layout.partitions[g].sizes.max()
        if parameters.layout.n_sharing > 1:
            return (
                f"{len(parameters.weights)} components leave too few rows for the covariance that they share, so it "
                "rests on the ridge: ask for fewer components or give shrinkage=0.1"
            )
        return (
            f"component {g} has {count:.1f} rows for a block of {largest} columns, so its covariance rests on the "
            "ridge: give shrinkage=0.1, more column groups or fewer components"
        )

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
            return tuple(check_n_groups(number, p, "n_column_groups") for number in given), False
        if isinstance(given, Integral):
            return (check_n_groups(given, p, "n_column_groups"),) * self.n_components, False
        chosen = isinstance(given, str) and given in ("auto", "optimal")
        rule = OptimalRule(self.block_model) if chosen else as_rule(given, "n_column_groups")
        return (rule,) * self.n_components, True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_number("ridge")
        if self.tails not in ("normal", "t"):
            raise ValueError(f'tails={self.tails!r} must be "normal" or "t"')
        if self.shrinkage is not None and not (isinstance(self.shrinkage, Real) and 0 <= float(self.shrinkage) < 1):
            raise ValueError(f"shrinkage={self.shrinkage!r} must be None or a number from 0 up to, but not, 1")

    def _scorer(self) -> Scorer:
        return partial(log_joint, density=Density.of(self._parameters))

    def _describer(self) -> Describer:
        return partial(far_rows, parameters=self._parameters)

    def _sample_component(self, g: int, n: int, rng: np.random.RandomState) -> FloatArray:
        deviations = self.blocks_[g].sample(n, rng)
        freedom = self._parameters.degrees_of_freedom
        if freedom is not None:
            deviations /= np.sqrt(rng.chisquare(freedom[g], n) / freedom[g])[:, None]
        return np.asarray(self.means_[g] + deviations)

    @property
    def blocks_(self) -> tuple[BlockCovariance, ...]:
        """Covariance of each component in factored form."""
        check_is_fitted(self)
        return self._parameters.covariances

    @property
    def covariances_(self) -> FloatArray:
        """Covariance of each component, shape (G, p, p)."""
        return np.stack([block.dense() for block in self.blocks_]).astype(self.means_.dtype)

    @property
    def column_labels_(self) -> IntArray:  # type: ignore[override]
        """Group of each column in each component, shape (G, p)."""
        check_is_fitted(self)
        return np.stack([partition.labels for partition in self._parameters.layout.partitions])

    @property
    def n_column_groups_(self) -> IntArray:
        """Number of column groups of each component, shape (G,)."""
        check_is_fitted(self)
        return np.array([partition.n_groups for partition in self._parameters.layout.partitions])

    @property
    def n_parameters_(self) -> int:  # type: ignore[override]
        """Free parameters: G − 1 weights, Gp means, the entries of the distinct blocks and G degrees of freedom."""
        check_is_fitted(self)
        G, p = len(self.weights_), self.n_features_in_
        tails = 0 if self._parameters.degrees_of_freedom is None else G
        return G - 1 + G * p + self._parameters.layout.n_parameters + tails

    @property
    def partition_price_(self) -> float:
        """Log-likelihood that the choice of the column groups must earn; 0 if their number was given.

        See `structure.objective.partition_prices`.
        """
        check_is_fitted(self)
        return self._parameters.layout.partition_price if getattr(self, "_groups_chosen", False) else 0.0

    @property
    def _partition_price(self) -> float:
        return self.partition_price_

    @property
    def block_shapes_(self) -> tuple[tuple[str, ...], ...]:
        """Shape of the block of each column group, by component: "full", "1 factor", "tree", …."""
        check_is_fitted(self)
        return self._parameters.layout.shape_names

    @property
    def loadings_(self) -> tuple[tuple[FloatArray | None, ...], ...]:
        """Loadings of the columns of each group on its factors in the units of X, by component; None without factors.

        The columns are those of ``column_labels_ == k``, in order; the q columns of an array are factors. A negative
        loading goes against the group: signs are such that the largest one is positive.
        """
        check_is_fitted(self)
        layout, states = self._parameters.layout, self._parameters.states
        found: list[tuple[FloatArray | None, ...]] = []
        for g in range(len(layout.distinct)):
            blocks = enumerate(layout.models(g), start=int(layout.first[g]))
            found.append(tuple(model.loadings(states.get(b)) for b, model in blocks))
        return tuple(found) * layout.n_sharing
